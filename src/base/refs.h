/* refs.h - giving a reference up. */
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Drops one reference; true when it was the last, and the caller, who sees everything that former owners did, must free the object. The sole owner need not count: references are only
 * taken from references, so nobody can be taking one meanwhile, and a decrement costs as much as twenty other instructions. */
static inline bool kl_refs_drop(_Atomic(uint32_t) *refs) {
    return atomic_load_explicit(refs, memory_order_acquire) == 1 ||
           atomic_fetch_sub_explicit(refs, 1, memory_order_acq_rel) == 1;
}
