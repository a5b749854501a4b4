/* exp.h - e^x of numbers that are not positive, as softmax and its relatives need it, in loops that the compiler vectorizes.
 *
 * x = n ln 2 + r with |r| <= ln 2 / 2; e^r is a polynomial in r, fitted to the least largest relative error over that interval (3e-9). 2^n is 2^(n + 64), which is never out of range,
 * and 2^-64: only the last multiplication rounds where the result is denormal. Off by less than 0.89 ulp, denormal results included; NaN gives NaN. In float32 throughout, for twice the
 * lanes that kl_exp_f32 (functions.h) has. */
#pragma once
#include <math.h>

#include "base/half.h"

/* 1.5 * 2^23, and what makes an exponent of n: `base` less c gives e^x / 2^c instead, which is exact. */
#define KL_EXP_BASE (0x1.8p23f + 127)
#define KL_EXP_LOG2_E 0x1.715476p0f
#define KL_EXP_LN2 -0x1.62e43p-1f, 0x1.05c61p-29f
#define KL_EXP_POLYNOMIAL \
    0.00138145627f, 0.0083687352f, 0.041668389f, 0.166665211f, 0.49999994f, 1, 1
static inline __attribute__((always_inline)) float kl_exp_around_f32(float x, float base) {
    static const float ln2[] = {KL_EXP_LN2}, c[] = {KL_EXP_POLYNOMIAL};
    float turned = __builtin_fmaf(x, KL_EXP_LOG2_E, base), n = turned - base;
    float r = __builtin_fmaf(n, ln2[1], __builtin_fmaf(n, ln2[0], x)), p = c[0];
#pragma GCC unroll 8
    for (int i = 1; i < 7; i++) p = __builtin_fmaf(p, r, c[i]);
    /* The exponent in the low bits of `turned` goes to its place. For NaN they mean nothing, and p is NaN. */
    return p * kl_bits_f32(kl_f32_bits(turned) << 23);
}
static inline __attribute__((always_inline)) float kl_exp_negative_f32(float given) {
    float x = given < -105.0f ? -105.0f : given; /* e^-105 rounds to 0 */
    return kl_exp_around_f32(x, KL_EXP_BASE + 64) * 0x1p-64f;
}
static inline double kl_exp_negative_f64(double x) {
    return exp(x);
}
