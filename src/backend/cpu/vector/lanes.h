/* lanes.h - loops over a fixed number of lanes: partial results that are computed side by side. */
#pragma once
#include <stdint.h>

#define KL_INLINE static inline __attribute__((always_inline, unused))

/* gcc would unroll such a loop before it looks for vectors, and then finds none in code with
 * selects. For NEON, where 16 lanes are four vectors, it unrolls afterwards (CMakeLists.txt), so
 * that lanes stay in registers. */
#if defined __clang__ || defined __aarch64__
#define KL_LANES(k, n) for (int k = 0; k < (n); k++)
#else
#define KL_LANES(k, n) _Pragma("GCC unroll 1") for (int k = 0; k < (n); k++)
#endif

/* The same for loops in which each lane reads its element before it writes it, so that an operand
 * may be the result. */
#ifdef __clang__
#define KL_EACH_LANE(k, n) _Pragma("clang loop vectorize(assume_safety)") KL_LANES(k, n)
#else
#define KL_EACH_LANE(k, n) _Pragma("GCC ivdep") KL_LANES(k, n)
#endif

/* Joins 16 lanes by halving; the result is in lane 0. */
#define KL_HALVE_16(JOIN, lane)                              \
    do {                                                     \
        KL_LANES(k, 8) lane[k] = JOIN(lane[k], lane[k + 8]); \
        KL_LANES(k, 4) lane[k] = JOIN(lane[k], lane[k + 4]); \
        KL_LANES(k, 2) lane[k] = JOIN(lane[k], lane[k + 2]); \
        lane[0] = JOIN(lane[0], lane[1]);                    \
    } while (0)
#define KL_LANE_SUM(a, b) ((a) + (b))

/* The larger of `top` and the largest of x[0 .. n-1]. A NaN in x is ignored; a NaN in top is kept.
 * Four vectors are joined side by side, since each step of one waits for the step before. */
#define KL_LARGER(a, b) ((b) > (a) ? (b) : (a))
#define KL_LARGEST(name, T)                                                            \
    static inline T name(const T *x, int64_t n, T top) {                               \
        T p[16], q[16], r[16], s[16];                                                  \
        int64_t i = 0;                                                                 \
        KL_LANES(k, 16) p[k] = q[k] = r[k] = s[k] = top;                               \
        for (; i + 64 <= n; i += 64) {                                                 \
            KL_LANES(k, 16) p[k] = KL_LARGER(p[k], x[i + k]);                          \
            KL_LANES(k, 16) q[k] = KL_LARGER(q[k], x[i + 16 + k]);                     \
            KL_LANES(k, 16) r[k] = KL_LARGER(r[k], x[i + 32 + k]);                     \
            KL_LANES(k, 16) s[k] = KL_LARGER(s[k], x[i + 48 + k]);                     \
        }                                                                              \
        for (; i + 16 <= n; i += 16) KL_LANES(k, 16) p[k] = KL_LARGER(p[k], x[i + k]); \
        for (int k = 0; i + k < n; k++) q[k] = KL_LARGER(q[k], x[i + k]);              \
        KL_LANES(k, 16) p[k] = KL_LARGER(p[k], q[k]);                                  \
        KL_LANES(k, 16) r[k] = KL_LARGER(r[k], s[k]);                                  \
        KL_LANES(k, 16) p[k] = KL_LARGER(p[k], r[k]);                                  \
        KL_HALVE_16(KL_LARGER, p);                                                     \
        return p[0];                                                                   \
    }
KL_LARGEST(kl_largest_f32, float)
KL_LARGEST(kl_largest_f64, double)
