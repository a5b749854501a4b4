/* exp.h - e^x in float32, in loops that the compiler vectorizes: the coefficients and reduction
 * constants that all float32 exponentials share, e^x of numbers that are not positive, and the
 * terms of sums of exponentials (softmax, logsumexp). math/exp_wide.h has the same functions in
 * registers. */
#pragma once
#include <math.h>
#include <stdbool.h>

#include "backend/cpu/vector/lanes.h"
#include "base/number/half.h"

#define KL_LOG2_E_F32 0x1.715476p0f
#define KL_LN2_F32 0x1.62e43p-1f
#define KL_LN2_REST_F32 -0x1.05c61p-29f /* ln 2 - KL_LN2_F32 */
/* Added to a float32 below 2^22; the last bits of the sum are then this number, rounded to an
 * integer. */
#define KL_TO_INTEGER_F32 0x1.8p23f
/* The same, and the bias of an exponent: the low bits of the sum are then a biased exponent. */
#define KL_EXP_BASE (KL_TO_INTEGER_F32 + 127)

/* Coefficients in r of e^r on [-ln 2 / 2, ln 2 / 2], which minimize the largest relative error:
 * 3e-9. */
static const float kl_exp_of_r[] = {1.0f,         1.0f,          0.49999994f,   0.166665211f,
                                    0.041668389f, 0.0083687352f, 0.00138145627f};

/* e^x 2^-c, where base is KL_EXP_BASE - c: x = n ln 2 + r with |r| <= ln 2 / 2, and e^r is a
 * polynomial in r. n - c must be an exponent of a normal float32. NaN gives NaN. */
KL_INLINE float kl_exp_around_f32(float x, float base) {
    float shifted = __builtin_fmaf(x, KL_LOG2_E_F32, base), n = shifted - base;
    float r = __builtin_fmaf(n, -KL_LN2_F32, x), p = kl_exp_of_r[6];
    r = __builtin_fmaf(n, -KL_LN2_REST_F32, r);
#pragma GCC unroll 8
    for (int i = 5; i >= 0; i--) p = __builtin_fmaf(p, r, kl_exp_of_r[i]);
    /* The exponent in the low bits goes to its place. For NaN these bits mean nothing, but p is
     * NaN. */
    return p * kl_bits_f32(kl_f32_bits(shifted) << 23);
}
/* e^x, x <= 0. 2^n is computed as 2^(n + 64), which is always normal, and 2^-64: so only the last
 * multiplication rounds where the result is denormal. The error is less than 0.89 ulp, denormal
 * results included. Works in float32 throughout, for twice the lanes of a function in float64. */
KL_INLINE float kl_exp_negative_f32(float given) {
    float x = given < -105.0f ? -105.0f : given; /* e^-105 rounds to 0 */
    return kl_exp_around_f32(x, KL_EXP_BASE + 64) * 0x1p-64f;
}
static inline double kl_exp_negative_f64(double x) {
    return exp(x);
}

/* ---- terms of sums of exponentials ----
 * A term is e^x times a power of two, 2^-c, that is the same for all x of a sum. x / ln 2 = n + f
 * with |f| <= 1/2, and 2^f is a polynomial in f, fitted to the least largest relative error:
 * 2^-22.4 for float32, 2^-18.3 for 16-bit floats. Adding `base`, KL_EXP_BASE - c, rounds to n: the
 * low bits of the sum then hold the biased exponent of 2^(n - c). |c| is below 2^22, and n - c is
 * from -126 to 127. */
static const float kl_term_f32[] = {
    1, 0.693147004f, 0.240222424f, 0.0555073358f, 0.00967151299f, 0.00132647273f};
static const float kl_term_half[] = {1, 0.693124175f, 0.240240991f, 0.0559064262f, 0.00958285294f};
enum {
    KL_TERMS_F32 = sizeof kl_term_f32 / sizeof *kl_term_f32,
    KL_TERMS_HALF = sizeof kl_term_half / sizeof *kl_term_half
};
/* The term is *power times the result; c has n coefficients. */
KL_INLINE float kl_term(const float *c, int n, float x, float base, float *power) {
    float t = __builtin_fmaf(x, KL_LOG2_E_F32, base);
    float f = __builtin_fmaf(x, KL_LOG2_E_F32, base - t), y = c[n - 1];
#pragma GCC unroll 8
    for (int i = n - 2; i >= 0; i--) y = __builtin_fmaf(y, f, c[i]);
    *power = kl_bits_f32(kl_f32_bits(t) << 23);
    return y;
}

/* The same for 16-bit floats, with n rounded down, so that 0 <= f < 1: AVX-512 has one instruction
 * for f and one for the scaling. 2^f is (f^2 + KL_TERM_SQUARE) times a quadratic polynomial, which
 * takes one coefficient less; the caller multiplies the two factors where it adds up terms. The
 * error is within 2^-17.3; x / ln 2 - c is rounded by 2^-20 at most near the largest term, so both
 * errors together are within 2^-17.1. */
static const float kl_term_below[] = {0.0776694268f, 0.0538445041f, 0.0126293665f};
#define KL_TERM_SQUARE 12.875f
KL_INLINE float kl_term_down(float x, float base, float *power) {
    float u = __builtin_fmaf(x, KL_LOG2_E_F32, base - KL_EXP_BASE),
          n = (u + KL_TO_INTEGER_F32) - KL_TO_INTEGER_F32;
    n = n > u ? n - 1 : n;
    const float f = u - n, *c = kl_term_below;
    *power = __builtin_fmaf(f, f, KL_TERM_SQUARE) * kl_bits_f32(kl_f32_bits(n + KL_EXP_BASE) << 23);
    return __builtin_fmaf(f, __builtin_fmaf(f, c[2], c[1]), c[0]);
}

/* ---- the centre of a sum ----
 * All terms of a sum are divided by the same power of two, whose exponent is the centre. The
 * centre is the multiple of 64 nearest to top / ln 2, where `top` is the largest element. So
 * most runs of elements have the centre of the run before, and their largest element need not be
 * found first. The choice changes no digit of a sum, since 2^-126 and 2^127 are far from all
 * terms that count. From KL_FAR on, a float32 has too few bits for both the exponent and the
 * fraction. NaN and infinities have the centre 0. */
enum { KL_FAR = 1 << 20 };
KL_INLINE float kl_centre_of(float top) {
    float x = fabsf(top) < KL_FAR ? top : 0;
    return (__builtin_fmaf(x, KL_LOG2_E_F32 / 64, KL_TO_INTEGER_F32) - KL_TO_INTEGER_F32) * 64;
}
KL_INLINE bool kl_is_far(float top) {
    return fabsf(top) >= KL_FAR && fabsf(top) < INFINITY;
}
