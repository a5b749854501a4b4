/* exit_gate.h - keeps threads out of a library whose exit handlers release what its functions use.
 *
 * Exit handlers run in the reverse order of their registration while other threads go on. A gate is
 * closed by a handler that was registered after those of the library: it waits until no thread is
 * inside, and threads that come later wait until the process is gone. */
#pragma once
#include <stdbool.h>
#include <sys/types.h>

#include "base/thread.h"

struct kl_exit_gate {
    struct kl_mutex mu;
    pthread_cond_t idle; /* signalled when inside becomes 0 */
    int inside;          /* threads */
    bool closed;
    pthread_t closer;
    pid_t pid; /* the process whose end closes it: in the child of a fork nobody is inside */
};
#define KL_EXIT_GATE_INIT \
    { .mu = KL_MUTEX_INIT, .idle = PTHREAD_COND_INITIALIZER }

/* Called once, before the first thread enters. */
void kl_exit_gate_open(struct kl_exit_gate *g);
/* False: the gate is closed, and this thread closed it. Otherwise kl_exit_gate_leave follows, and
 * meanwhile the thread must not enter again. */
bool kl_exit_gate_enter(struct kl_exit_gate *g);
/* The same, but without waiting: false where the gate is closed, by whomever. A thread that is
 * inside may call it. */
bool kl_exit_gate_try(struct kl_exit_gate *g);
void kl_exit_gate_leave(struct kl_exit_gate *g);
/* For exit handlers; may be called again. False in the child of a fork. */
bool kl_exit_gate_close(struct kl_exit_gate *g);
