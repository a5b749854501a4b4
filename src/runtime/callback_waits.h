/* callback_waits.h - threads that wait inside a callback of the user, which a task runs. Such a
 * wait may be a deadlock: for a stream that waits, directly or through other streams and callbacks,
 * for the task itself. */
#pragma once
#include "runtime/executor.h"

struct kl_frame { /* one per nested kl_executor_run of a thread */
    struct kl_stream *stream;
    struct kl_frame *outer;
};
extern __thread struct kl_frame *kl_frames; /* the streams whose tasks this thread is running */
extern _Atomic(int) kl_n_callback_waits;

void kl_callback_waits_check_all(void);
void kl_callback_waits_kick_all(void);
/* Called after a stream has parked: finds out whether that closed a cycle through a callback. */
static inline void kl_callback_waits_check(void) {
    if (atomic_load_explicit(&kl_n_callback_waits, memory_order_seq_cst) != 0)
        kl_callback_waits_check_all();
}
/* A stream can run now, but all threads of the pool may be waiting inside callbacks. Wakes these
 * threads, so that each checks whether it waits for that stream. */
static inline void kl_callback_waits_kick(void) {
    if (atomic_load_explicit(&kl_n_callback_waits, memory_order_seq_cst) != 0)
        kl_callback_waits_kick_all();
}
/* Waits until done >= ticket, or until the caller should look again because there may be a stream
 * that it can run: help, which runs one and then returns true. 0 or KL_EDEADLOCK. */
int kl_callback_waits_block(struct kl_timeline *t, uint64_t ticket,
                            bool (*help)(struct kl_wait *on), struct kl_error **err);

/* Around fork. After prepare no thread changes the list of callbacks that wait. */
void kl_callback_waits_fork_prepare(void);
void kl_callback_waits_fork_parent(void);
void kl_callback_waits_fork_child(void);
