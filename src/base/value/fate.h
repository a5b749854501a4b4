/* fate.h - the small shared object that says what became of a value: pending, ready, or failed.
 *
 * The producer writes the state once, before it publishes its ticket. A view shares the fate of its
 * input. Timeline and ticket are written at commit, under the commit lock, before anybody can wait
 * for the value. */
#pragma once
#include "base/error.h"
#include "base/value/timeline.h"

struct kl_parts;

struct kl_fate {
    _Atomic(uint32_t) refs;
    _Atomic(uintptr_t) state; /* 0: pending; 1: ready; else an owned struct kl_error * */
    /* of the stream that settles this fate; NULL until committed; immortal */
    struct kl_timeline *timeline;
    uint64_t ticket; /* on that timeline */
    /* the common allocation that this fate is a part of (buffer.h); NULL: kl_fate_ready; fixed */
    struct kl_parts *parts;
    /* the device's record of the operation, while encoded and unsettled; under the device's lock */
    void *device_op;
};

void kl_parts_drop(struct kl_parts *p); /* in buffer.c: one of the parts is no longer used */

struct kl_fate *kl_fate_ready(void); /* the static fate that is always ready; needs no release */
struct kl_fate *kl_fate_retain(struct kl_fate *f);
void kl_fate_release(struct kl_fate *f);

static inline bool kl_fate_settled(const struct kl_fate *f) {
    return atomic_load_explicit(&f->state, memory_order_acquire) != 0;
}
/* The error of a failed value (borrowed; it lives as long as the fate), else NULL. */
static inline struct kl_error *kl_fate_error(const struct kl_fate *f) {
    uintptr_t s = atomic_load_explicit(&f->state, memory_order_acquire);
    return s > 1 ? (struct kl_error *)s : NULL;
}
void kl_fate_set_ready(struct kl_fate *f);
void kl_fate_set_failed(struct kl_fate *f, struct kl_error *e /* borrowed, retained */);
