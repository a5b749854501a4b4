/* timeline.h - how far an ordered sequence of work has come, and who waits for it.
 *
 * Tickets are 1, 2, 3, ...; "done" is the last finished one. Count and has-waiters bit live in one
 * 64-bit word: publishing is a fetch_add, registering a fetch_or, both sequentially consistent, so
 * one of the two always sees the other and no wake-up is lost (docs/model/). One publisher at a
 * time; anybody may wait. The producer writes fates before it publishes. */
#pragma once
#include "base/list.h"
#include "base/thread.h"

struct kl_timeline {
    _Atomic(uint64_t) word; /* 2 * done + has_waiters */
    struct kl_mutex
        *mu; /* leaf lock, one of a few that all timelines share: a fork has to take them all */
    struct kl_list waiters;     /* of kl_waiter.link, any order; guarded by mu */
    struct kl_timeline *handed; /* work handed to a device, NULL for the CPU; fixed at creation */
    void *owner;                /* the kl_stream; fixed at creation */
    void *queue;                /* the backend's kl_queue, or NULL; fixed at creation */
    int64_t stream_index;       /* for messages; fixed at creation */
    bool is_device;             /* uses may outlive ownership of the buffer; fixed at creation */
};

struct kl_waiter {
    struct kl_link link; /* guarded by the timeline's mu */
    uint64_t ticket;     /* wakes when done >= ticket */
    void (*wake)(
        struct kl_waiter *self); /* called once, no lock held; self may be gone afterwards */
};

void kl_timeline_init(struct kl_timeline *t);
/* Takes or gives back the locks of all timelines, around fork. */
void kl_timelines_fork_lock(bool lock);
void kl_timeline_deinit(struct kl_timeline *t);
static inline uint64_t kl_timeline_done(const struct kl_timeline *t) {
    return atomic_load_explicit(&t->word, memory_order_acquire) >> 1;
}
/* Advances done to ticket (not below what it is) and wakes whom that satisfies. */
void kl_timeline_publish(struct kl_timeline *t, uint64_t ticket);
/* true: registered, w->wake will be called once. false: already done, w is not used. */
bool kl_timeline_register(struct kl_timeline *t, struct kl_waiter *w);
/* true: taken back, wake will not be called. false: wake was or is being called. */
bool kl_timeline_cancel(struct kl_timeline *t, struct kl_waiter *w);
/* Blocks the calling thread until done >= ticket. */
void kl_timeline_block(struct kl_timeline *t, uint64_t ticket);
