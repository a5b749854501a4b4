/* power.h - powers of float32, computed in float64 and rounded once. With |x| = 2^n m, m in [3/4,
 * 3/2), the first four bits of m choose a number near 1 / m from a table, whose logarithm is a
 * float32 to 2^-43; what is left of m is so close to 1 that a short series does, and is exact. A
 * file for an instruction set (elementwise/power_*.h) gives the same bits. Tables and polynomials
 * are printed by tools/make/fit_math.py. */
#pragma once
#include "backend/cpu/math/functions.h"

/* By the first four bits of m's mantissa: i / 16 and more for m >= 1, for m < 1 from 8 on. About 1
 * the number is 1 itself, so that logarithms near 0 keep their relative precision. */
static const float kl_pow_inverse[16] = {1,
                                         0.911690533f,
                                         0.865880549f,
                                         0.822707415f,
                                         0.778046608f,
                                         0.747634411f,
                                         0.715919077f,
                                         0.678074002f,
                                         1.30189967f,
                                         1.2537452f,
                                         1.20479631f,
                                         1.15562713f,
                                         1.11740148f,
                                         1.07614207f,
                                         1.05088079f,
                                         1},
                   kl_pow_log2[16] = {0,
                                      0.1333839f,
                                      0.207760081f,
                                      0.281548649f,
                                      0.362071514f,
                                      0.419595122f,
                                      0.482131571f,
                                      0.560485363f,
                                      -0.380618274f,
                                      -0.326244175f,
                                      -0.268789262f,
                                      -0.208675981f,
                                      -0.160147637f,
                                      -0.105868556f,
                                      -0.0715990216f,
                                      0}; /* -log2 of them */
/* In r, log2(1 + r) / r on [-1/32, 1/16]; relative error 2^-40.0. */
static const double kl_pow_log2_over_r[] = {
    1.4426950408898451, -0.7213475202991384,  0.48089833518987257, -0.3606742551474695,
    0.2885668579163661, -0.24026339335934507, 0.1879709279920014};
/* In r, 2^r on [-1/2, 1/2]; (2^r - 1) / r has a relative error of 2^-37.5. */
static const double kl_pow_exp2[] = {1,
                                     0.6931471805568324,
                                     0.24022650695888503,
                                     0.055504109063258665,
                                     0.00961812913523614,
                                     0.0013333478473685416,
                                     0.00015403475186530786,
                                     1.5303700711365693e-05,
                                     1.325080551750225e-06};

KL_INLINE int kl_pow_place(float x) {
    return (int)(kl_f64_bits((double)x) >> 48 & 15);
}
/* |x|^y for x and y that are finite and x that is not 0, with the numbers of x's place. */
KL_INLINE float kl_pow_placed_f32(float x, float y, float inverse, float log2) {
    const double shift = KL_TO_INTEGER + 1023;
    uint64_t u = kl_f64_bits((double)fabsf(x)), biased = (u + (UINT64_C(1) << 51)) >> 52;
    double n = kl_bits_f64(biased | UINT64_C(0x4330000000000000)) - (0x1p52 + 1023);
    double m = kl_bits_f64(u - (biased << 52) + (UINT64_C(1023) << 52));
    double r = __builtin_fma(m, (double)inverse, -1);
    double l = __builtin_fma(r, KL_POLYNOMIAL(kl_pow_log2_over_r, r), n + (double)log2);
    /* From 2^40 on a power of a number other than 1 is 0 or infinite, and so it is from 2^160 on
     * and below 2^-160. */
    double e = (double)kl_clamp_f32(y, -0x1p40f, 0x1p40f), t = __builtin_fma(e, l, shift);
    double p = KL_POLYNOMIAL(kl_pow_exp2, __builtin_fma(e, l, shift - t));
    t = t < shift - 160 ? shift - 160 : t > shift + 160 ? shift + 160 : t;
    return (float)(p * kl_bits_f64(kl_f64_bits(t) << 52));
}
/* x^y, where z is |x|^y if that is not special. */
KL_INLINE float kl_pow_ends_f32(float x, float y, float z) {
    float ax = fabsf(x);
    /* Whether y is an integer, and an odd one. y / 2 is exact for those; from 2^24 on all are
     * even. */
    float half = y * 0.5f;
    int whole = floorf(y) == y, odd = whole && floorf(half) != half && fabsf(y) < 0x1p24f;
    float grows = y > 0 ? INFINITY : 0.0f, shrinks = y > 0 ? 0.0f : INFINITY;
    z = ax == 0 ? shrinks : ax == INFINITY ? grows : z;
    z = fabsf(y) == INFINITY ? (ax == 1 ? 1 : (ax > 1) == (y > 0) ? INFINITY : 0.0f) : z;
    z = odd ? copysignf(z, x) : z;
    z = x < 0 && x > -INFINITY && !whole ? NAN : z;
    z = x != x ? x : y != y ? y : z;
    return y == 0 || x == 1 ? 1 : z;
}
KL_INLINE float kl_pow_f32(float x, float y) {
    int i = kl_pow_place(x);
    return kl_pow_ends_f32(x, y, kl_pow_placed_f32(x, y, kl_pow_inverse[i], kl_pow_log2[i]));
}
