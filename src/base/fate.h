/* fate.h - the small shared cell that says what became of a value: pending, ready, or failed.
 *
 * The producer writes it once, before it publishes its ticket. Views share their input's fate.
 * Timeline and ticket are written at commit, under the commit lock, before anybody can wait. */
#pragma once
#include "base/error.h"
#include "base/timeline.h"

struct kl_parts;

struct kl_fate {
    _Atomic(uint32_t) refs;
    _Atomic(uintptr_t) state;     /* 0 pending, 1 ready, else an owned struct kl_error * */
    struct kl_timeline *timeline; /* who settles it; NULL until committed; immortal */
    uint64_t ticket;              /* on that timeline */
    struct kl_parts *parts; /* the allocation it is a part of (buffer.h), or NULL: its own; fixed */
    void *device_op; /* the device's record while encoded and unsettled; under the device's lock */
};

void kl_parts_drop(struct kl_parts *p); /* buffer.c: one of the parts is gone */

struct kl_fate *kl_fate_new(void);   /* pending; NULL when out of memory */
struct kl_fate *kl_fate_ready(void); /* the one that is always ready; needs no release */
struct kl_fate *kl_fate_retain(struct kl_fate *f);
void kl_fate_release(struct kl_fate *f);

static inline bool kl_fate_settled(const struct kl_fate *f) {
    return atomic_load_explicit(&f->state, memory_order_acquire) != 0;
}
/* The error of a failed value (borrowed, lives as long as the fate), else NULL. */
static inline struct kl_error *kl_fate_error(const struct kl_fate *f) {
    uintptr_t s = atomic_load_explicit(&f->state, memory_order_acquire);
    return s > 1 ? (struct kl_error *)s : NULL;
}
void kl_fate_set_ready(struct kl_fate *f);
void kl_fate_set_failed(struct kl_fate *f, struct kl_error *e /* borrowed, retained */);
