/* timeline.h - how far an ordered sequence of work has come, and which threads wait for it.
 *
 * Tickets are 1, 2, 3, ...; "done" is the last finished one. The count and the has-waiters bit are
 * in one 64-bit word. Publishing is a fetch_add, registering a fetch_or, both sequentially
 * consistent, so one of the two always sees the other and no wake-up is lost (docs/model/). Only
 * one thread at a time publishes; any thread may wait. The producer writes fates before it
 * publishes. */
#pragma once
#include "base/list.h"
#include "base/thread.h"

struct kl_timeline {
    _Atomic(uint64_t) word; /* 2 * done + has_waiters */
    /* leaf lock, one of a few that all timelines share, because a fork has to take all of them */
    struct kl_mutex *mu;
    struct kl_list waiters; /* of kl_waiter.link, in any order; guarded by mu */
    /* counts the work handed to a device; NULL for the CPU; fixed at creation */
    struct kl_timeline *handed;
    void *owner; /* the kl_stream; fixed at creation */
    void *queue; /* the backend's kl_queue, or NULL; fixed at creation */
    /* Called after a waiter was registered, with no lock held; or NULL. Fixed at creation. */
    void (*awaited)(struct kl_timeline *t);
    int64_t stream_index; /* for messages; fixed at creation */
    bool is_device;       /* a use may outlive the ownership of the buffer; fixed at creation */
};

struct kl_waiter {
    struct kl_link link; /* guarded by the timeline's mu */
    uint64_t ticket;     /* it is woken when done >= ticket */
    /* called once, with no lock held; self may be freed by it */
    void (*wake)(struct kl_waiter *self);
};

void kl_timeline_init(struct kl_timeline *t);
/* Locks or unlocks the mutexes of all timelines, around fork. */
void kl_timelines_fork_lock(bool lock);
void kl_timeline_deinit(struct kl_timeline *t);
static inline uint64_t kl_timeline_done(const struct kl_timeline *t) {
    return atomic_load_explicit(&t->word, memory_order_acquire) >> 1;
}
/* Whether somebody is registered who sleeps until the work is done. */
static inline bool kl_timeline_is_awaited(const struct kl_timeline *t) {
    return atomic_load_explicit(&t->word, memory_order_seq_cst) & 1;
}
/* Sets done to ticket (not less than done is now) and wakes the waiters whose ticket is done. */
void kl_timeline_publish(struct kl_timeline *t, uint64_t ticket);
/* true: w is registered, and w->wake will be called once. false: the ticket is done already, and w
 * is not used. */
bool kl_timeline_register(struct kl_timeline *t, struct kl_waiter *w);
/* true: w is no longer registered, and wake will not be called. false: wake was or is being
 * called. */
bool kl_timeline_cancel(struct kl_timeline *t, struct kl_waiter *w);
/* Blocks the calling thread until done >= ticket. */
void kl_timeline_block(struct kl_timeline *t, uint64_t ticket);
/* The same (true), or until the hook of the calling thread ends the wait (false). */
bool kl_timeline_wait(struct kl_timeline *t, uint64_t ticket);
