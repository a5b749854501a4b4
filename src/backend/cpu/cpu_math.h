/* cpu_math.h - the functions of float32 numbers that the maps of this folder call, and nothing else: one place to give each a better body.
 * Each rounds what the function is of x, within 2 units in the last place, and takes every x. */
#pragma once
#include <math.h>

#include "backend/cpu/cpu_extremes.h"

static inline float kl_exp_f32(float x) {
    return expf(x);
}
static inline float kl_expm1_f32(float x) {
    return expm1f(x);
}
static inline float kl_log_f32(float x) {
    return logf(x);
}
static inline float kl_log1p_f32(float x) {
    return log1pf(x);
}
static inline float kl_log2_f32(float x) {
    return log2f(x);
}
static inline float kl_log10_f32(float x) {
    return log10f(x);
}
static inline float kl_sin_f32(float x) {
    return sinf(x);
}
static inline float kl_cos_f32(float x) {
    return cosf(x);
}
static inline float kl_tan_f32(float x) {
    return tanf(x);
}
static inline float kl_arcsin_f32(float x) {
    return asinf(x);
}
static inline float kl_arccos_f32(float x) {
    return acosf(x);
}
static inline float kl_arctan_f32(float x) {
    return atanf(x);
}
static inline float kl_arctan2_f32(float y, float x) {
    return atan2f(y, x);
}
static inline float kl_sinh_f32(float x) {
    return sinhf(x);
}
static inline float kl_cosh_f32(float x) {
    return coshf(x);
}
static inline float kl_tanh_f32(float x) {
    return tanhf(x);
}
static inline float kl_arcsinh_f32(float x) {
    return asinhf(x);
}
static inline float kl_arccosh_f32(float x) {
    return acoshf(x);
}
static inline float kl_arctanh_f32(float x) {
    return atanhf(x);
}
static inline float kl_erf_f32(float x) {
    return erff(x);
}
static inline float kl_power_f32(float x, float y) {
    return powf(x, y);
}
static inline float kl_rsqrt_f32(float x) {
    return 1.0f / sqrtf(x);
}
/* Of the magnitude, so that nothing overflows and small results keep their digits. */
static inline float kl_sigmoid_f32(float x) {
    float e = kl_exp_f32(-fabsf(x));
    return (x < 0 ? e : 1.0f) / (1.0f + e);
}
/* log(exp(a) + exp(b)). Equal operands, infinities among them, have no difference to take. */
static inline float kl_logaddexp_f32(float a, float b) {
    float d = a == b ? 0.0f : -fabsf(a - b);
    return kl_max_f32(a, b) + kl_log1p_f32(kl_exp_f32(d));
}
/* The remainder of division rounded down: of b's sign, or zero with a's. */
static inline float kl_remainder_f32(float a, float b) {
    float r = fmodf(a, b);
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
