/* refs.h - dropping a reference of a counted object. */
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Drops one reference. True when it was the last one: then the caller must free the object, and
 * sees everything that former owners wrote. The sole owner does not decrement the count: a new
 * reference is only made from an existing one, so no other thread can be making one, and an atomic
 * decrement costs as much as twenty other instructions. */
static inline bool kl_refs_drop(_Atomic(uint32_t) *refs) {
    return atomic_load_explicit(refs, memory_order_acquire) == 1 ||
           atomic_fetch_sub_explicit(refs, 1, memory_order_acq_rel) == 1;
}
