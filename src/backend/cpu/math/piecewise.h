/* piecewise.h - tanh and erf of float32 without division or exponential. Both are odd functions
 * that approach 1. From 1/4 on, each half of a binade has its own polynomial, whose coefficients
 * are looked up in registers: f(a) = base + d q(d), d = a - c. Column 0 is for a < 1/4, where c is
 * 0 and the base is a itself. In other columns c is a number near the middle at which f comes very
 * close to a float32, the base (S. Gal's accurate tables): so the rounding errors before the last
 * addition are a fraction of the result. */
#pragma once
#include "backend/cpu/math/functions.h"
#include "backend/cpu/vector/simd.h"

enum {
    KL_PIECEWISE_C,
    KL_PIECEWISE_BASE,
    KL_PIECEWISE_Q,
    KL_PIECEWISE_LAST = KL_PIECEWISE_Q + 6,
    KL_PIECEWISE_ROWS
};
typedef const float kl_piecewise[KL_PIECEWISE_ROWS][16];

/* defined in piecewise.c, which is compiled once for all variants */
extern kl_piecewise kl_tanh_piecewise, kl_erf_piecewise;

/* this shift leaves the exponent and the highest bit of the mantissa, so each half of a binade has
 * a number */
#define KL_PIECEWISE_SHIFT 22
#define KL_PIECEWISE_FIRST 249 /* the number of [1/8, 1/4), which is column 0 */

/* Computes n runs of KL_MATH_RUN elements. From `most` on, f is 1, which is the last column. */
#if KL_HAS_SIMD && KL_WIDE_PARTS == 4
#include "backend/cpu/math/piecewise_neon.h"
#elif KL_HAS_SIMD
#include "backend/cpu/math/piecewise_x86.h"
#else
static inline void kl_piecewise_runs(kl_piecewise t, float most, int64_t n, float *y,
                                     const float *x) {
    for (int64_t k = 0; k < n * KL_MATH_RUN; k++) {
        float a = fabsf(x[k]);
        a = a > most ? most : a;
        int32_t i = (int32_t)(kl_f32_bits(a) >> KL_PIECEWISE_SHIFT) - KL_PIECEWISE_FIRST;
        i = (i < 0 ? 0 : i) & 15;
        float d = a - t[KL_PIECEWISE_C][i], q = t[KL_PIECEWISE_LAST][i];
        for (int row = KL_PIECEWISE_LAST - 1; row >= KL_PIECEWISE_Q; row--)
            q = __builtin_fmaf(q, d, t[row][i]);
        y[k] = copysignf(__builtin_fmaf(d, q, i ? t[KL_PIECEWISE_BASE][i] : a), x[k]);
    }
}
#endif
