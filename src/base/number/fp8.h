/* fp8.h - conversions between 8-bit floats and float32, inline, so that loops over them vectorise.
 * e4m3: sign, 4 bits of exponent (bias 7), 3 of fraction; no infinities; all ones is NaN. */
#pragma once
#include "base/number/half.h"

static inline uint8_t kl_e4m3_store(float x) {
    uint32_t u = kl_f32_bits(x), sign = u >> 24 & 0x80u, m = u & 0x7fffffffu;
    /* Below 2^-6 the sum with 2^14 has the rounded denormal in its low bits. */
    uint32_t denormal = kl_f32_bits(kl_bits_f32(m) + 0x1p14f) - 0x46800000u;
    uint32_t normal = (m - 0x3c000000u + 0x7ffffu + (m >> 20 & 1)) >> 20;
    uint32_t finite = m < 0x3c800000u ? denormal : normal;
    uint32_t kept = m >= 0x43e00000u ? 0x7eu : finite;       /* 448 is the largest value */
    return (uint8_t)(m > 0x7f800000u ? 0x7fu : sign | kept); /* NaN loses its sign */
}
static inline float kl_e4m3_load(uint8_t h) {
    uint32_t sign = (uint32_t)(h & 0x80u) << 24, rest = h & 0x7fu;
    uint32_t finite = kl_f32_bits(kl_bits_f32(rest << 20) * 0x1p120f);
    return kl_bits_f32(sign | (rest == 0x7f ? 0x7fc00000u : finite));
}
