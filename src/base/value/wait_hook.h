/* wait_hook.h - a function that is asked, while its thread waits, whether the wait is to end.
 *
 * Each thread has at most one hook. It is asked every KL_WAIT_HOOK_MS milliseconds, on the thread
 * that waits, with no lock held. Only the wait ends, not the work: no value changes by it. A thread
 * that runs a task has no hook meanwhile (executor.c), because the task would fail. */
#pragma once
#include "base/error.h"
#include "base/thread.h"

enum { KL_WAIT_HOOK_MS = 50 };

struct kl_wait_hook {
    int (*fn)(void *ctx); /* non-zero: the wait ends. NULL: there is no hook */
    void *ctx;
};

/* Sets the hook of the calling thread; returns the one before. */
struct kl_wait_hook kl_wait_hook_set(struct kl_wait_hook hook);
/* The calling thread begins to wait: its hook is asked KL_WAIT_HOOK_MS from now, not earlier. */
void kl_wait_begin(void);
/* Whether it is time to ask `hook`, which is or was that of the calling thread. */
bool kl_wait_hook_due(const struct kl_wait_hook *hook);
/* Asks the hook of the calling thread if it is time to. 0, or KL_EINTERRUPTED when it ends the
 * wait. The caller holds no lock and no executor role, because the hook may use the library. */
int kl_wait_ask(struct kl_error **err);
/* Sleeps until kl_parker_set was called (true), or until the hook of the calling thread ends the
 * wait (false). */
bool kl_wait_parked(struct kl_parker *p);
int kl_wait_fail(struct kl_error **err); /* KL_EINTERRUPTED */
