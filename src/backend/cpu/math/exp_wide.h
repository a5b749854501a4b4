/* exp_wide.h - the functions of math/exp.h for kl_wide: the same bits, in registers. Without
 * KL_HAS_SIMD it defines nothing. */
#pragma once
#include "backend/cpu/math/exp.h"
#include "backend/cpu/vector/wide.h"

#if KL_HAS_SIMD
/* Computes kl_term for m vectors (four at most). Each step is done for all of them before the next
 * step, so that their chains of dependent instructions overlap. */
KL_INLINE void kl_wide_terms(const float *c, int n, int m, const kl_wide *x, kl_wide base,
                             kl_wide *y, kl_wide *power) {
    const kl_wide log2_e = kl_wide_set(KL_LOG2_E_F32);
    kl_wide f[4];
#pragma GCC unroll 4
    for (int i = 0; i < m; i++) power[i] = kl_wide_fma(x[i], log2_e, base);
#pragma GCC unroll 4
    for (int i = 0; i < m; i++) f[i] = kl_wide_sub(base, power[i]);
#pragma GCC unroll 4
    for (int i = 0; i < m; i++) f[i] = kl_wide_fma(x[i], log2_e, f[i]);
#pragma GCC unroll 4
    for (int i = 0; i < m; i++) y[i] = kl_wide_set(c[n - 1]);
#pragma GCC unroll 8
    for (int k = n - 2; k >= 0; k--)
#pragma GCC unroll 4
        for (int i = 0; i < m; i++) y[i] = kl_wide_fma(y[i], f[i], kl_wide_set(c[k]));
#pragma GCC unroll 4
    for (int i = 0; i < m; i++) power[i] = kl_wide_power(power[i]);
}
KL_INLINE kl_wide kl_wide_term(const float *c, int n, kl_wide x, kl_wide base, kl_wide *power) {
    kl_wide y;
    kl_wide_terms(c, n, 1, &x, base, &y, power);
    return y;
}

/* Returns sum plus the term of kl_term_down. */
KL_INLINE kl_wide kl_wide_add_down(kl_wide sum, kl_wide x, kl_wide base) {
    kl_wide c = kl_wide_sub(base, kl_wide_set(KL_EXP_BASE));
    kl_wide u = kl_wide_fma(x, kl_wide_set(KL_LOG2_E_F32), c), f = kl_wide_fraction(u);
    kl_wide y = kl_wide_fma(f, kl_wide_set(kl_term_below[2]), kl_wide_set(kl_term_below[1]));
    y = kl_wide_fma(f, y, kl_wide_set(kl_term_below[0]));
    return kl_wide_fma(y, kl_wide_scale(kl_wide_fma(f, f, kl_wide_set(KL_TERM_SQUARE)), u), sum);
}

/* Computes kl_exp_around_f32 for each lane. */
KL_INLINE kl_wide kl_wide_exp(kl_wide x, kl_wide base) {
    kl_wide t = kl_wide_fma(x, kl_wide_set(KL_LOG2_E_F32), base), n = kl_wide_sub(t, base);
    kl_wide r = kl_wide_fma(n, kl_wide_set(-KL_LN2_F32), x), p = kl_wide_set(kl_exp_of_r[6]);
    r = kl_wide_fma(n, kl_wide_set(-KL_LN2_REST_F32), r);
#pragma GCC unroll 8
    for (int i = 5; i >= 0; i--) p = kl_wide_fma(p, r, kl_wide_set(kl_exp_of_r[i]));
    return kl_wide_mul(p, kl_wide_power(t));
}
#endif
