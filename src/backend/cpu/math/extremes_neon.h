/* extremes_neon.h - the largest and the smallest of float32. NEON has the order of every kernel:
 * NaN wins, and -0.0 is below +0.0. So floats are compared as they are, not as integers. */
#pragma once
#include <arm_neon.h>

#include "backend/cpu/vector/lanes.h"

/* Of x[0 .. n-1], at least four. The last vector may repeat elements of the vectors before it. */
#define KL_NEON_EXTREME(name, best, across)                                         \
    static float name(const float *x, int64_t n) {                                  \
        float32x4_t a = vld1q_f32(x), b = a, c = a, d = a;                          \
        int64_t i = 0;                                                              \
        for (; i + 32 <= n; i += 32) {                                              \
            __builtin_prefetch((const void *)((uintptr_t)(x + i) + 4096));          \
            __builtin_prefetch((const void *)((uintptr_t)(x + i) + 4096 + 64));     \
            a = best(a, vld1q_f32(x + i)), b = best(b, vld1q_f32(x + i + 4));       \
            c = best(c, vld1q_f32(x + i + 8)), d = best(d, vld1q_f32(x + i + 12));  \
            a = best(a, vld1q_f32(x + i + 16)), b = best(b, vld1q_f32(x + i + 20)); \
            c = best(c, vld1q_f32(x + i + 24)), d = best(d, vld1q_f32(x + i + 28)); \
        }                                                                           \
        for (; i < n; i += 4) a = best(a, vld1q_f32(x + (i + 4 <= n ? i : n - 4))); \
        return across(best(best(a, b), best(c, d)));                                \
    }
/* defines kl_largest_at, kl_smallest_at */
KL_NEON_EXTREME(kl_largest_at, vmaxq_f32, vmaxvq_f32)
KL_NEON_EXTREME(kl_smallest_at, vminq_f32, vminvq_f32)

/* The first place at which x is equal to `top`, or NaN where top is NaN; there is one. */
static __attribute__((unused)) int64_t kl_place_of(const float *x, int64_t n, float top) {
    const float32x4_t v = vdupq_n_f32(top);
    const bool nan = top != top;
    int64_t i = 0;
    for (; i + 16 <= n; i += 16) {
        uint32x4_t found = vdupq_n_u32(0);
#pragma GCC unroll 4
        for (int k = 0; k < 16; k += 4) {
            const float32x4_t y = vld1q_f32(x + i + k);
            /* A comparison with itself, which NaN fails, or with top, which others fail. */
            found = vorrq_u32(found, nan ? vmvnq_u32(vceqq_f32(y, y)) : vceqq_f32(y, v));
        }
        if (vmaxvq_u32(found)) break;
    }
    while (i < n - 1 && !(nan ? x[i] != x[i] : x[i] == top)) i++;
    return i;
}
