/* cpu_exp.h - e^x of numbers that are not positive, as softmax and its relatives need it, in loops that the compiler vectorizes.
 *
 * x = n ln 2 + r with |r| <= ln 2 / 2; e^r is a polynomial in r, fitted to the least largest relative error over that interval (3e-9). 2^n is 2^(n + 64), which is never out of range,
 * and 2^-64: only the last multiplication rounds where the result is denormal. Off by less than 0.89 ulp, denormal results included; NaN gives NaN. In float32 throughout, for twice the
 * lanes that kl_exp_f32 (cpu_math.h) has. */
#pragma once
#include <math.h>

#include "base/half.h"

static inline __attribute__((always_inline)) float kl_exp_negative_f32(float given) {
    float x = given < -105.0f ? -105.0f : given; /* e^-105 rounds to 0 */
    float turned = __builtin_fmaf(x, 0x1.715476p0f, 0x1.8p23f + 191),
          n = turned - (0x1.8p23f + 191);
    float r = __builtin_fmaf(n, 0x1.05c61p-29f, __builtin_fmaf(n, -0x1.62e43p-1f, x));
    float p = 0.00138145627f;
    p = __builtin_fmaf(p, r, 0.0083687352f);
    p = __builtin_fmaf(p, r, 0.041668389f);
    p = __builtin_fmaf(p, r, 0.166665211f);
    p = __builtin_fmaf(p, r, 0.49999994f);
    p = __builtin_fmaf(p, r, 1);
    p = __builtin_fmaf(p, r, 1);
    /* n + 64 + 127 in the low bits of `turned` becomes an exponent. For NaN they mean nothing, and p is NaN. */
    return p * kl_bits_f32(kl_f32_bits(turned) << 23) * 0x1p-64f;
}
static inline double kl_exp_negative_f64(double x) {
    return exp(x);
}
