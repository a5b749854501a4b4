/* extremes.h - the larger and the smaller of two values, by the rules of every kernel: NaN wins,
 * -0.0 is below +0.0, complex numbers are ordered by real part, then by imaginary part. The
 * operations are commutative, except for the bits of a NaN. */
#pragma once
#include "backend/cpu/math/complex.h"
#include "base/number/half.h"

#define KL_PLAIN_MAX(a, b) ((a) > (b) ? (a) : (b)) /* for integers */
#define KL_PLAIN_MIN(a, b) ((a) < (b) ? (a) : (b))

static inline float kl_max_f32(float a, float b) {
    /* Equal operands have the same bits, or are zeros, whose signs are then combined. */
    float same = kl_bits_f32(kl_f32_bits(a) & kl_f32_bits(b));
    float r = a > b || a != a ? a : b;
    return a == b ? same : r;
}
static inline float kl_min_f32(float a, float b) {
    float same = kl_bits_f32(kl_f32_bits(a) | kl_f32_bits(b));
    float r = a < b || a != a ? a : b;
    return a == b ? same : r;
}
static inline double kl_max_f64(double a, double b) {
    double same = kl_bits_f64(kl_f64_bits(a) & kl_f64_bits(b));
    double r = a > b || a != a ? a : b;
    return a == b ? same : r;
}
static inline double kl_min_f64(double a, double b) {
    double same = kl_bits_f64(kl_f64_bits(a) | kl_f64_bits(b));
    double r = a < b || a != a ? a : b;
    return a == b ? same : r;
}
/* Not inlined: kernels use it in many places, and each would grow. */
static __attribute__((noinline, unused)) struct kl_c64 kl_max_c64(struct kl_c64 a,
                                                                  struct kl_c64 b) {
    if (kl_c64_is_nan(a)) return a;
    if (kl_c64_is_nan(b)) return b;
    if (a.re != b.re) return a.re > b.re ? a : b;
    return (struct kl_c64){kl_max_f32(a.re, b.re), kl_max_f32(a.im, b.im)};
}
static __attribute__((noinline, unused)) struct kl_c64 kl_min_c64(struct kl_c64 a,
                                                                  struct kl_c64 b) {
    if (kl_c64_is_nan(a)) return a;
    if (kl_c64_is_nan(b)) return b;
    if (a.re != b.re) return a.re < b.re ? a : b;
    return (struct kl_c64){kl_min_f32(a.re, b.re), kl_min_f32(a.im, b.im)};
}
