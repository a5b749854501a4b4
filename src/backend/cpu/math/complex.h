/* complex.h - arithmetic and functions of complex64. They are computed in double where float could
 * overflow on the way: a product of two floats is exact in double, and a sum of two squares neither
 * overflows nor underflows. */
#pragma once
#include <math.h>

#include "backend/cpu/operand/tile.h"
#include "base/number/half.h"

static inline struct kl_c64 kl_c64_add(struct kl_c64 a, struct kl_c64 b) {
    return (struct kl_c64){a.re + b.re, a.im + b.im};
}
static inline struct kl_c64 kl_c64_sub(struct kl_c64 a, struct kl_c64 b) {
    return (struct kl_c64){a.re - b.re, a.im - b.im};
}
/* The difference is written as a sum with a sign flipped in the bits: gcc 12 turns a multiplication
 * with a subtraction and an addition side by side into one instruction that rounds once
 * (vfmaddsub), whatever -ffp-contract says. */
static inline struct kl_c64 kl_c64_mul(struct kl_c64 a, struct kl_c64 b) {
    float minus = kl_bits_f32(kl_f32_bits(a.im) ^ UINT32_C(1) << 31);
    return (struct kl_c64){a.re * b.re + minus * b.im, a.re * b.im + a.im * b.re};
}
static inline struct kl_c64 kl_c64_div(struct kl_c64 a, struct kl_c64 b) {
    if (b.im == 0) return (struct kl_c64){a.re / b.re, a.im / b.re};
    if (isinf(b.re) || isinf(b.im)) { /* a zero, unless a is infinite or NaN too */
        float c = copysignf(isinf(b.re) ? 1 : 0, b.re), d = copysignf(isinf(b.im) ? 1 : 0, b.im);
        return (struct kl_c64){0 * (a.re * c + a.im * d), 0 * (a.im * c - a.re * d)};
    }
    double ar = a.re, ai = a.im, br = b.re, bi = b.im, d = br * br + bi * bi;
    return (struct kl_c64){(float)((ar * br + ai * bi) / d), (float)((ai * br - ar * bi) / d)};
}
static inline bool kl_c64_is_nan(struct kl_c64 a) {
    return a.re != a.re || a.im != a.im;
}
/* By real part, then by imaginary part. False where a part that decides is NaN. */
static inline bool kl_c64_less(struct kl_c64 a, struct kl_c64 b) {
    return a.re < b.re || (a.re == b.re && a.im < b.im);
}
static inline bool kl_c64_less_equal(struct kl_c64 a, struct kl_c64 b) {
    return a.re < b.re || (a.re == b.re && a.im <= b.im);
}
static inline bool kl_c64_equal(struct kl_c64 a, struct kl_c64 b) {
    return a.re == b.re && a.im == b.im;
}
static inline float kl_c64_abs(struct kl_c64 a) {
    const double x = (double)a.re, y = (double)a.im;
    float size = (float)sqrt(__builtin_fma(x, x, y * y));
    const bool infinite = (fabsf(a.re) == INFINITY) | (fabsf(a.im) == INFINITY);
    return infinite ? INFINITY : size;
}
struct kl_c64 kl_c64_exp(struct kl_c64 a);
struct kl_c64 kl_c64_log(struct kl_c64 a);
struct kl_c64 kl_c64_sqrt(struct kl_c64 a);
struct kl_c64 kl_c64_rsqrt(struct kl_c64 a);
struct kl_c64 kl_c64_sign(struct kl_c64 a); /* a / |a|; 0 for 0 */
struct kl_c64 kl_c64_log1p(struct kl_c64 a);
struct kl_c64 kl_c64_log2(struct kl_c64 a);
struct kl_c64 kl_c64_log10(struct kl_c64 a);
struct kl_c64 kl_c64_sin(struct kl_c64 a);
struct kl_c64 kl_c64_cos(struct kl_c64 a);
struct kl_c64 kl_c64_tan(struct kl_c64 a);
struct kl_c64 kl_c64_arcsin(struct kl_c64 a);
struct kl_c64 kl_c64_arccos(struct kl_c64 a);
struct kl_c64 kl_c64_arctan(struct kl_c64 a);
struct kl_c64 kl_c64_sinh(struct kl_c64 a);
struct kl_c64 kl_c64_cosh(struct kl_c64 a);
struct kl_c64 kl_c64_tanh(struct kl_c64 a);
struct kl_c64 kl_c64_arcsinh(struct kl_c64 a);
struct kl_c64 kl_c64_arccosh(struct kl_c64 a);
struct kl_c64 kl_c64_arctanh(struct kl_c64 a);
/* exp(b log a). a to the power 0 is 1. 0 to a power with positive real part is 0, to other powers
 * NaN. */
struct kl_c64 kl_c64_power(struct kl_c64 a, struct kl_c64 b);
struct kl_c64 kl_c64_logaddexp(struct kl_c64 a, struct kl_c64 b); /* log(exp(a) + exp(b)) */
