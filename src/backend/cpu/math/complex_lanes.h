/* complex_lanes.h - functions of complex numbers in float64, inline and without branches, so that
 * loops over them vectorise. Their parts are rounded to float32 once; errors before that are those
 * of math/functions.h, below 2^-30. Each holds for the arguments that the condition named after it
 * admits; math/complex.h has the others. */
#pragma once
#include "backend/cpu/math/functions.h"

struct kl_c_parts {
    double re, im;
};

KL_INLINE bool kl_c_finite(float re, float im) {
    return (fabsf(re) < INFINITY) & (fabsf(im) < INFINITY);
}
KL_INLINE bool kl_c_not_zero(float re, float im) {
    return kl_c_finite(re, im) & ((re != 0) | (im != 0));
}
/* An exponential in the real or the imaginary part, and an angle in the other. */
#define KL_C_GROWTH 300.0f
KL_INLINE bool kl_c_growth_angle(float re, float im) {
    return (fabsf(re) < KL_C_GROWTH) & (fabsf(im) < KL_CIRCLE_MAX);
}
KL_INLINE bool kl_c_angle_growth(float re, float im) {
    return kl_c_growth_angle(im, re);
}

/* |x + iy|^2 neither overflows nor underflows in float64. */
KL_INLINE double kl_c_square(double x, double y) {
    return __builtin_fma(x, x, y * y);
}
KL_INLINE struct kl_c_parts kl_c_exp(double x, double y) {
    double r = kl_exp_wide(x), c = kl_cos_wide(y);
    return (struct kl_c_parts){r * (y == 0 ? 1 : c), r * kl_sin_wide(y)};
}
/* log |x + iy|. Near 1 the logarithm is small, so |x + iy|^2 - 1 is computed without rounding the
 * square first. */
KL_INLINE double kl_c_log_abs(double x, double y) {
    double ax = fabs(x), ay = fabs(y), big = ax > ay ? ax : ay, small = ax > ay ? ay : ax;
    const bool near = (big > 0.5) & (big < 2);
    double more = __builtin_fma(big - 1, big + 1, small * small);
    struct kl_log_parts p = kl_log_split(near ? 1 + more : kl_c_square(x, y));
    const bool itself = near & (p.n == 0);
    double f = itself ? more : p.f;
    return 0.5 * __builtin_fma(p.n, KL_LN2, f * KL_POLYNOMIAL(kl_log1p_over_f, f));
}
KL_INLINE struct kl_c_parts kl_c_log(double x, double y) {
    return (struct kl_c_parts){kl_c_log_abs(x, y), kl_atan2_wide(y, x)};
}
KL_INLINE struct kl_c_parts kl_c_log2(double x, double y) {
    return (struct kl_c_parts){kl_c_log_abs(x, y) * KL_LOG2_E, kl_atan2_wide(y, x) * KL_LOG2_E};
}
KL_INLINE struct kl_c_parts kl_c_log10(double x, double y) {
    return (struct kl_c_parts){kl_c_log_abs(x, y) * KL_LOG10_E, kl_atan2_wide(y, x) * KL_LOG10_E};
}
KL_INLINE struct kl_c_parts kl_c_sqrt(double x, double y) {
    double t = sqrt((fabs(x) + sqrt(kl_c_square(x, y))) * 0.5), other = fabs(y) / (2 * t);
    return (struct kl_c_parts){x >= 0 ? t : other, copysign(x >= 0 ? other : t, y)};
}
KL_INLINE struct kl_c_parts kl_c_rsqrt(double x, double y) {
    double size = sqrt(kl_c_square(x, y));
    struct kl_c_parts root = kl_c_sqrt(x, y);
    return (struct kl_c_parts){root.re / size, -root.im / size};
}
KL_INLINE struct kl_c_parts kl_c_sign(double x, double y) {
    double size = sqrt(kl_c_square(x, y));
    return (struct kl_c_parts){x / size, y / size};
}

/* sinh and cosh of x, |x| < KL_C_GROWTH, from e^|x| - 1; a zero keeps its sign. */
KL_INLINE struct kl_c_parts kl_c_hyperbolic(double x) {
    double more = kl_expm1_wide(fabs(x)), inverse = 1 / (more + 1);
    return (struct kl_c_parts){copysign(0.5 * (more + more * inverse), x),
                               0.5 * (more + 1 + inverse)};
}
KL_INLINE struct kl_c_parts kl_c_sin(double x, double y) {
    struct kl_c_parts h = kl_c_hyperbolic(y);
    return (struct kl_c_parts){kl_sin_wide(x) * h.im, kl_cos_wide(x) * h.re};
}
KL_INLINE struct kl_c_parts kl_c_cos(double x, double y) {
    struct kl_c_parts h = kl_c_hyperbolic(y);
    return (struct kl_c_parts){kl_cos_wide(x) * h.im, -kl_sin_wide(x) * h.re};
}
KL_INLINE struct kl_c_parts kl_c_sinh(double x, double y) {
    struct kl_c_parts h = kl_c_hyperbolic(x);
    return (struct kl_c_parts){kl_cos_wide(y) * h.re, kl_sin_wide(y) * h.im};
}
KL_INLINE struct kl_c_parts kl_c_cosh(double x, double y) {
    struct kl_c_parts h = kl_c_hyperbolic(x);
    return (struct kl_c_parts){kl_cos_wide(y) * h.im, kl_sin_wide(y) * h.re};
}
/* The divisor is a sum of squares, so no digits cancel. */
KL_INLINE struct kl_c_parts kl_c_tanh(double x, double y) {
    struct kl_c_parts h = kl_c_hyperbolic(x);
    double s = kl_sin_wide(y), c = kl_cos_wide(y), d = __builtin_fma(h.re, h.re, c * c);
    return (struct kl_c_parts){h.re * h.im / d, s * c / d};
}
KL_INLINE struct kl_c_parts kl_c_tan(double x, double y) {
    struct kl_c_parts turned = kl_c_tanh(y, x);
    return (struct kl_c_parts){turned.im, turned.re};
}
