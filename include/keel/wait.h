/* wait.h - ending a wait before the work is done: for Ctrl-C, time limits and dialogs.
 *
 *     static int stop(void *ctx) {
 *         return atomic_load((atomic_int *)ctx);      set by a signal handler, a button, a timer
 *     }
 *     keel_set_wait_hook((keel_wait_hook){stop, &stopped});
 *     if (mlx_eval(arrays) && keel_last_error(&e) == 0 && e.code == KEEL_EINTERRUPTED) ... */
#ifndef KEEL_WAIT_H
#define KEEL_WAIT_H

#include "keel/export.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct keel_wait_hook_ {
    int (*fn)(void *ctx); /* NULL: no hook */
    void *ctx;
} keel_wait_hook;

/* From this call on, the calling thread asks `hook` about every 50 milliseconds while it waits in a
 * call of this library: for values (mlx_eval and all that reads an array), for a stream
 * (mlx_synchronize), because too much work is in flight (mlx_async_eval), or for its turn with a
 * reader. When fn returns non-zero, the wait ends: the call fails with KEEL_EINTERRUPTED. The work
 * itself goes on: no value is lost, and a later read gets it. The arrays that were to be evaluated
 * may stay unevaluated when the hook ends a wait for work in flight; they can be evaluated later.
 *
 * fn runs on the thread that waits, with no lock held. It may call this library, and then must
 * expect to be called within itself. A thread that runs operations while it waits finishes the one
 * that it runs before it asks; one that waits for a GPU polls it for up to 100 milliseconds first.
 * The hook is not asked in a callback that an operation runs.
 *
 * Returns the hook that the thread had, {NULL, NULL} at first. The library frees nothing: ctx has
 * to live until another hook is set. Each thread has a hook of its own. */
KEEL_API keel_wait_hook keel_set_wait_hook(keel_wait_hook hook);

#ifdef __cplusplus
}
#endif
#endif
