/* half.h - conversions between 16-bit floats and float32, inline, so that loops over them
 * vectorise.
 *
 * Branches are written as selections. Rounding is to nearest even; a NaN stays a NaN and becomes
 * quiet. No exception flag changes a result, and no setting of the processor but "flush denormals"
 * does. */
#pragma once
#include <stdint.h>
#include <string.h>

static inline uint32_t kl_f32_bits(float x) {
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}
static inline float kl_bits_f32(uint32_t u) {
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}
static inline uint64_t kl_f64_bits(double x) {
    uint64_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}
static inline double kl_bits_f64(uint64_t u) {
    double x;
    memcpy(&x, &u, sizeof x);
    return x;
}

static inline float kl_f16_load(uint16_t h) {
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16, rest = h & 0x7fffu;
    /* The exponent of the half, read with the bias of float32, is 112 too small. The product that
     * corrects it is exact, also for denormal halves. */
    uint32_t finite = kl_f32_bits(kl_bits_f32(rest << 13) * 0x1p112f);
    uint32_t special = 0x7f800000u | rest << 13 | (rest > 0x7c00u ? 0x400000u : 0);
    return kl_bits_f32(sign | (rest < 0x7c00u ? finite : special));
}

static inline uint16_t kl_f16_store(float x) {
    uint32_t u = kl_f32_bits(x), sign = u >> 16 & 0x8000u, m = u & 0x7fffffffu;
    uint32_t special = m > 0x7f800000u ? 0x7e00u | (m >> 13 & 0x3ffu) : 0x7c00u;
    /* Below 2^-14 the sum with 0.5 leaves the rounded denormal in the low bits. */
    uint32_t denormal = kl_f32_bits(kl_bits_f32(m) + 0.5f) - 0x3f000000u;
    /* Subtracts 112 from the exponent and adds half a unit in the last place, minus one when the
     * result is even, so that a tie goes to even. */
    uint32_t normal = (m - 0x38000000u + 0xfffu + (m >> 13 & 1)) >> 13;
    uint32_t finite = m < 0x38800000u ? denormal : normal;
    return (uint16_t)(sign | (m >= 0x47800000u ? special : finite));
}

/* A NaN becomes quiet in 16 bits, of which a vector has twice as many. */
static inline float kl_bf16_load(uint16_t b) {
    const uint16_t quiet = (uint16_t)(b | ((b & 0x7fff) > 0x7f80 ? 0x40 : 0));
    return kl_bits_f32((uint32_t)quiet << 16);
}

static inline uint16_t kl_bf16_store(float x) {
    uint32_t u = kl_f32_bits(x);
    uint32_t rounded = (u + 0x7fffu + (u >> 16 & 1)) >> 16;
    return (uint16_t)((u & 0x7fffffffu) > 0x7f800000u ? u >> 16 | 0x40u : rounded);
}

/* x as a float32 that gives the right 16-bit float when it is rounded again: rounded towards zero,
 * with the last bit set when anything was lost ("round to odd"). */
static inline float kl_f64_to_f32_odd(double x) {
    float f = (float)x;
    uint32_t u = kl_f32_bits(f);
    double back = f, mag = x < 0 ? -x : x, bmag = back < 0 ? -back : back;
    u -= bmag > mag ? 1 : 0;
    u |= x < back || x > back ? 1 : 0; /* false for NaN */
    return kl_bits_f32(u);
}
