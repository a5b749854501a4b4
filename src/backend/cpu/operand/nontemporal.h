/* nontemporal.h - non-temporal stores for results that are too large for the caches. Such a store
 * does not read the cache line before it is overwritten. */
#pragma once
#include <stdint.h>
#include <string.h>

#include "backend/cpu/operand/line.h"
#include "base/op/launch.h"

/* Bytes of a result from which stores are non-temporal. */
enum { KL_NONTEMPORAL_FROM = 1 << 24 };

/* kl_nontemporal_line copies one cache line, both ends aligned, to memory that is not read soon.
 * kl_nontemporal_end must follow before other threads may read what was written. */
#ifdef __SSE2__
#include "backend/cpu/operand/nontemporal_x86.h"
#else
static inline void kl_nontemporal_line(void *dst, const void *src) {
    memcpy(dst, src, KL_LINE);
}
static inline void kl_nontemporal_end(void) {
}
#endif

/* Whether a result that is written in runs of `run` bytes gets non-temporal stores: it is so large
 * that the caches would keep little of it. Else each line would be read before it is written, which
 * is a third of what a copy moves. */
static inline bool kl_nontemporal(const struct kl_arg *out, int64_t run) {
    return out->size * (int64_t)kl_dtype_size(out->dtype) >= KL_NONTEMPORAL_FROM &&
           run % KL_LINE == 0 && (uintptr_t)out->data % KL_LINE == 0;
}
/* Copies whole cache lines, both ends aligned. */
static inline void kl_nontemporal_copy(void *dst, const void *src, int64_t bytes) {
    for (int64_t at = 0; at < bytes; at += KL_LINE)
        kl_nontemporal_line((char *)dst + at, (const char *)src + at);
}
