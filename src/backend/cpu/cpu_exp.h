/* cpu_exp.h - e^x of numbers that are not positive, as softmax and its relatives need it, in loops that the compiler vectorizes.
 *
 * x = k ln 2 + r with |r| <= ln 2 / 2; ln 2 is two numbers of which the first has so few bits that k times it is exact. e^r is 1 + r + r^2 p(r), p fitted to the least
 * largest relative error over that interval (3e-9). Off by less than 1 ulp, denormal results included; NaN gives NaN. */
#pragma once
#include <math.h>

#include "base/half.h"

static inline float kl_exp_negative_f32(float given) {
    float x = given < -105.0f ? -105.0f : given; /* e^-105 rounds to 0 */
    float turned = x * 1.44269504f + 0x1.8p23f;  /* k in the low bits */
    float k = turned - 0x1.8p23f;
    float r = x - k * 0.693359375f - k * -2.12194440e-4f;
    float p = 0.00138145627f;
    p = p * r + 0.0083687352f;
    p = p * r + 0.041668389f;
    p = p * r + 0.166665211f;
    p = p * r + 0.49999994f;
    p = p * (r * r) + r + 1.0f;
    /* 2^k in two steps: k may be -151. For NaN the bits of `turned` mean nothing, and p is NaN. */
    int32_t n = (int32_t)(kl_f32_bits(turned) - 0x4b400000u);
    int32_t half = n >> 1; /* towards -inf; gcc and clang keep the sign */
    float low = kl_bits_f32((uint32_t)(half + 127) << 23),
          high = kl_bits_f32((uint32_t)(n - half + 127) << 23);
    return p * low * high;
}
static inline double kl_exp_negative_f64(double x) {
    return exp(x);
}
