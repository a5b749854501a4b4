/* simd_neon.h - NEON's half of vector/simd.h, which includes it and says what each function does.
 * Every 64-bit processor of ARM has these instructions. */
#include <arm_neon.h>

enum { KL_SIMD = 4 };
#define KL_WIDE_PARTS 4
typedef float32x4_t kl_simd;

/* ---- one vector ---- */
KL_INLINE kl_simd kl_simd_set(float x) {
    return vdupq_n_f32(x);
}
KL_INLINE kl_simd kl_simd_load_f32(const float *x) {
    return vld1q_f32(x);
}
KL_INLINE kl_simd kl_simd_load_f16(const uint16_t *x) {
    return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(x)));
}
KL_INLINE kl_simd kl_simd_load_bf16(const uint16_t *x) {
    return vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(x), 16));
}
KL_INLINE void kl_simd_store_f32(float *y, kl_simd v) {
    vst1q_f32(y, v);
}
KL_INLINE void kl_simd_store_f16(uint16_t *y, kl_simd v) {
    vst1_u16(y, vreinterpret_u16_f16(vcvt_f16_f32(v)));
}
/* The upper halves, plus the carry of lower half + 0x7fff + (1 if the upper half is odd). The
 * highest bit of an average of 16-bit numbers is that carry. */
KL_INLINE uint16x8_t kl_simd_round_bf16(kl_simd first, kl_simd second) {
    uint16x8_t a = vreinterpretq_u16_f32(first), b = vreinterpretq_u16_f32(second);
    uint16x8_t low = vuzp1q_u16(a, b), high = vuzp2q_u16(a, b);
    uint16x8_t half = vbslq_u16(vdupq_n_u16(1), high, vdupq_n_u16(0x7ffe));
    return vsraq_n_u16(high, vrhaddq_u16(low, half), 15);
}
KL_INLINE void kl_simd_store_bf16(uint16_t *y, kl_simd first, kl_simd second) {
    vst1q_u16(y, kl_simd_round_bf16(first, second));
}
KL_INLINE kl_simd kl_simd_add(kl_simd a, kl_simd b) {
    return vaddq_f32(a, b);
}
KL_INLINE kl_simd kl_simd_sub(kl_simd a, kl_simd b) {
    return vsubq_f32(a, b);
}
KL_INLINE kl_simd kl_simd_mul(kl_simd a, kl_simd b) {
    return vmulq_f32(a, b);
}
/* NEON's own maximum is NaN where one of both is. */
KL_INLINE kl_simd kl_simd_max(kl_simd a, kl_simd b) {
    return vbslq_f32(vcgtq_f32(a, b), a, b);
}
KL_INLINE kl_simd kl_simd_fma(kl_simd a, kl_simd b, kl_simd c) {
    return vfmaq_f32(c, a, b);
}
KL_INLINE kl_simd kl_simd_clear(kl_simd v, int bits) {
    return vreinterpretq_f32_u32(vbicq_u32(vreinterpretq_u32_f32(v), vdupq_n_u32((uint32_t)bits)));
}
KL_INLINE kl_simd kl_simd_power(kl_simd v) {
    return vreinterpretq_f32_u32(vshlq_n_u32(vreinterpretq_u32_f32(v), 23));
}
KL_INLINE kl_simd kl_simd_fraction(kl_simd u) {
    return vsubq_f32(u, vrndmq_f32(u));
}
/* u must be -126 at least: the power of two must be normal. */
KL_INLINE kl_simd kl_simd_scale(kl_simd y, kl_simd u) {
    const kl_simd n = vaddq_f32(vrndmq_f32(u), vdupq_n_f32(0x1.8p23f + 127));
    return vmulq_f32(y, kl_simd_power(n));
}

/* ---- transposition ---- */
KL_INLINE kl_simd kl_simd_zip_low(kl_simd a, kl_simd b) {
    return vzip1q_f32(a, b);
}
KL_INLINE kl_simd kl_simd_zip_high(kl_simd a, kl_simd b) {
    return vzip2q_f32(a, b);
}
KL_INLINE kl_simd kl_simd_zip_low_2(kl_simd a, kl_simd b) {
    return vreinterpretq_f32_f64(vzip1q_f64(vreinterpretq_f64_f32(a), vreinterpretq_f64_f32(b)));
}
KL_INLINE kl_simd kl_simd_zip_high_2(kl_simd a, kl_simd b) {
    return vreinterpretq_f32_f64(vzip2q_f64(vreinterpretq_f64_f32(a), vreinterpretq_f64_f32(b)));
}
KL_INLINE void kl_simd_transpose(kl_simd *t) {
    KL_SIMD_FOUR(a, t);
    t[0] = a0, t[1] = a1, t[2] = a2, t[3] = a3;
}

/* ---- runs of 16-bit floats: in the order of memory ---- */
static inline void kl_load_bf16(float *y, const uint16_t *x) {
#pragma GCC unroll 4
    for (int k = 0; k < KL_HALVES; k += 8) {
        uint16x8_t v = vld1q_u16(x + k);
        vst1q_f32(y + k, vreinterpretq_f32_u32(vshll_n_u16(vget_low_u16(v), 16)));
        vst1q_f32(y + k + 4, vreinterpretq_f32_u32(vshll_high_n_u16(v, 16)));
    }
}
static inline bool kl_ordinary_bf16(const uint16_t *x) {
    uint16x8_t top = vdupq_n_u16(0);
#pragma GCC unroll 4
    for (int k = 0; k < KL_HALVES; k += 8)
        top = vmaxq_u16(top, vsubq_u16(vld1q_u16(x + k), vdupq_n_u16(0x0080)));
    return vmaxvq_u16(top) < 0x7f00;
}
static inline void kl_clamp_halves(float *x, float lo, float hi) {
#pragma GCC unroll 8
    for (int k = 0; k < KL_HALVES; k += 4) {
        float32x4_t v = vmaxq_f32(vdupq_n_f32(lo), vld1q_f32(x + k));
        vst1q_f32(x + k, vminq_f32(vdupq_n_f32(hi), v));
    }
}
static inline void kl_store_bf16(uint16_t *y, const float *x) {
#pragma GCC unroll 4
    for (int k = 0; k < KL_HALVES; k += 8)
        kl_simd_store_bf16(y + k, vld1q_f32(x + k), vld1q_f32(x + k + 4));
}
/* Rounds 32 float32 in the order of memory. Returns false, and does nothing, where one of them is
 * NaN, since rounding could carry the bits of a NaN into the sign. */
static inline bool kl_narrow_bf16(uint16_t *y, const float *x) {
    float32x4_t top = vld1q_f32(x);
#pragma GCC unroll 8
    for (int k = 4; k < KL_HALVES; k += 4) top = vmaxq_f32(top, vld1q_f32(x + k));
    const float largest = vmaxvq_f32(top); /* NaN, where there is one */
    if (largest != largest) return false;
    kl_store_bf16(y, x);
    return true;
}
#define KL_HAS_NARROW_BF16 1
static inline void kl_load_f16(float *y, const uint16_t *x) {
#pragma GCC unroll 4
    for (int k = 0; k < KL_HALVES; k += 8) {
        float16x8_t v = vreinterpretq_f16_u16(vld1q_u16(x + k));
        vst1q_f32(y + k, vcvt_f32_f16(vget_low_f16(v)));
        vst1q_f32(y + k + 4, vcvt_high_f32_f16(v));
    }
}
static inline void kl_store_f16(uint16_t *y, const float *x) {
#pragma GCC unroll 4
    for (int k = 0; k < KL_HALVES; k += 8) {
        float16x4_t low = vcvt_f16_f32(vld1q_f32(x + k));
        vst1q_u16(y + k, vreinterpretq_u16_f16(vcvt_high_f16_f32(low, vld1q_f32(x + k + 4))));
    }
}
