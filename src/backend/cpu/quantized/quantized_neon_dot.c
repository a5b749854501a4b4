/* quantized_neon_dot.c - see quantized_neon_dot.h. */
#include "backend/cpu/quantized/quantized_neon_dot.h"

#if defined __aarch64__ && defined __ARM_FEATURE_DOTPROD
#include <arm_neon.h>
#include <math.h>
#include <string.h>

#include "base/number/half.h"
#include "base/platform/processors.h"

#define FIXED static inline __attribute__((always_inline))

bool kl_sdot_there(void) {
    return kl_processors_have(KL_ARM_DOTPROD);
}

/* ---- x ---- */
/* The lowest bytes of 16 integers. */
FIXED int8x16_t low_bytes(const int32x4_t *q) {
    const int16x8_t a = vuzp1q_s16(vreinterpretq_s16_s32(q[0]), vreinterpretq_s16_s32(q[1])),
                    b = vuzp1q_s16(vreinterpretq_s16_s32(q[2]), vreinterpretq_s16_s32(q[3]));
    return vuzp1q_s8(vreinterpretq_s8_s16(a), vreinterpretq_s8_s16(b));
}

/* Splits 16 numbers, given as vectors. A digit is the lowest byte as a signed number; what it
 * leaves, divided by 256, is a rounded shift. */
FIXED void split_16(const float32x4_t *x, float per, int64_t at, int8_t *const *digits) {
    int32x4_t q[4];
#pragma GCC unroll 4
    for (int k = 0; k < 4; k++) q[k] = vcvtnq_s32_f32(vmulq_n_f32(x[k], per));
#pragma GCC unroll 3
    for (int d = KL_SDOT_DIGITS - 1; d >= 0; d--) {
        vst1q_s8(digits[d] + at, low_bytes(q));
#pragma GCC unroll 4
        for (int k = 0; k < 4; k++) q[k] = vrshrq_n_s32(q[k], 8); /* not read after the last */
    }
}

bool kl_sdot_split(int bits, int group_size, int64_t first, int64_t n, const float *x,
                   int8_t *const *digits, float *units) {
    for (int64_t g = 0; g < n / group_size; g++, x += group_size) {
        float32x4_t tops = vdupq_n_f32(0);
        for (int i = 0; i < group_size; i += 4) tops = vmaxq_f32(tops, vabsq_f32(vld1q_f32(x + i)));
        const float top = vmaxvq_f32(tops); /* NaN, where there is one */
        if (!(top < INFINITY) || (top != 0 && top < 0x1p-90f)) return false;
        /* The power of two above top, by its exponent: 2^22 units, so that no digit overflows. */
        const uint32_t above = (kl_f32_bits(top) & 0x7f800000u) + (UINT32_C(1) << 23);
        const float unit = top != 0 ? kl_bits_f32(above - (UINT32_C(22) << 23)) : 0,
                    per = top != 0 ? 1 / unit : 0;
        units[first / group_size + g] = unit;
        const int64_t at = first + g * group_size;
        for (int i = 0; i < group_size; i += 32) {
            float32x4_t v[8]; /* with 4 bits the even ones, then the odd ones */
#pragma GCC unroll 4
            for (int k = 0; k < 4; k++) {
                const float32x4x2_t two = vld2q_f32(x + i + 8 * k);
                v[k] = bits == 4 ? two.val[0] : vld1q_f32(x + i + 4 * k);
                v[4 + k] = bits == 4 ? two.val[1] : vld1q_f32(x + i + 16 + 4 * k);
            }
            split_16(v, per, at + i, digits);
            split_16(v + 4, per, at + i + 16, digits);
        }
    }
    return true;
}

/* ---- scales and biases ---- */
FIXED float32x4_t one_at(enum kl_dtype type, const char *from) {
    if (type == KL_F32) return vld1q_dup_f32((const float *)(const void *)from);
    const uint16x4_t half = vld1_dup_u16((const uint16_t *)(const void *)from);
    return type == KL_F16 ? vcvt_f32_f16(vreinterpret_f16_u16(half))
                          : vreinterpretq_f32_u32(vshll_n_u16(half, 16));
}

/* Four of them, or at the end of a row n and zeros. */
FIXED float32x4_t four_at(enum kl_dtype type, const char *from, int64_t n) {
    if (type == KL_F32) {
        float some[4] = {0};
        if (n >= 4) return vld1q_f32((const float *)(const void *)from);
        memcpy(some, from, (size_t)n * sizeof *some);
        return vld1q_f32(some);
    }
    uint16_t some[4] = {0};
    uint16x4_t half;
    if (n >= 4) {
        half = vld1_u16((const uint16_t *)(const void *)from);
    } else {
        memcpy(some, from, (size_t)n * sizeof *some);
        half = vld1_u16(some);
    }
    return type == KL_F16 ? vcvt_f32_f16(vreinterpret_f16_u16(half))
                          : vreinterpretq_f32_u32(vshll_n_u16(half, 16));
}

/* ---- products ---- */
/* The sums of one group, of four rows of w and each digit. Codes of 8 bits are taken as signed
 * ones, 128 below what they are. */
FIXED void group_of(int bits, int bytes, const struct kl_sdot_row *r, int64_t at, const uint8_t *w,
                    int32x4_t (*sum)[4]) {
    const int halves = bits == 4 ? 2 : 1;
    for (int d = 0; d < KL_SDOT_DIGITS; d++)
        for (int c = 0; c < 4; c++) sum[d][c] = vdupq_n_s32(0);
    for (int b = 0; b < bytes; b += 16, at += 16 * halves) {
        int8x16_t x[KL_SDOT_DIGITS][2], code[2];
#pragma GCC unroll 3
        for (int d = 0; d < KL_SDOT_DIGITS; d++)
#pragma GCC unroll 2
            for (int h = 0; h < halves; h++) x[d][h] = vld1q_s8(r->digits[d] + at + 16 * h);
#pragma GCC unroll 4
        for (int c = 0; c < 4; c++) {
            const uint8x16_t v = vld1q_u8(w + c * r->w_row + b);
            if (bits == 4) {
                code[0] = vreinterpretq_s8_u8(vandq_u8(v, vdupq_n_u8(15)));
                code[1] = vreinterpretq_s8_u8(vshrq_n_u8(v, 4));
            } else {
                code[0] = vreinterpretq_s8_u8(veorq_u8(v, vdupq_n_u8(128)));
            }
#pragma GCC unroll 3
            for (int d = 0; d < KL_SDOT_DIGITS; d++)
#pragma GCC unroll 2
                for (int h = 0; h < halves; h++) sum[d][c] = vdotq_s32(sum[d][c], code[h], x[d][h]);
        }
    }
}

FIXED void rows_of(int bits, enum kl_dtype type, const struct kl_sdot_row *r, const uint8_t *w,
                   const char *scales, const char *biases, int64_t n, float *out) {
    const int item = type == KL_F32 ? 4 : 2, bytes = r->group_size * bits / 8;
    for (int64_t row = 0; row < n;
         row += 4, w += 4 * r->w_row, scales += 4 * r->s_row, biases += 4 * r->b_row, out += 4) {
        float32x4_t all[4];
#pragma GCC unroll 4
        for (int c = 0; c < 4; c++) all[c] = vdupq_n_f32(0);
        for (int64_t g = 0; g < r->groups; g++) {
            int32x4_t sum[KL_SDOT_DIGITS][4];
            group_of(bits, bytes, r, g * r->group_size, w + g * bytes, sum);
#pragma GCC unroll 4
            for (int c = 0; c < 4; c++) {
                const float32x4_t low = vcvtq_f32_s32(
                                      vaddq_s32(vshlq_n_s32(sum[1][c], 8), sum[2][c])),
                                  high = vcvtq_f32_s32(sum[0][c]),
                                  scale = vmulq_n_f32(
                                      one_at(type, scales + c * r->s_row + g * item), r->units[g]);
                all[c] = vfmaq_f32(all[c], vfmaq_n_f32(low, high, 65536), scale);
            }
        }
        for (int64_t g = 0; g < r->groups; g += 4) {
            const int64_t some = r->groups - g;
            const float32x4_t sums = four_at(KL_F32, (const char *)(r->sums + g), some);
#pragma GCC unroll 4
            for (int c = 0; c < 4; c++) {
                float32x4_t bias = four_at(type, biases + c * r->b_row + g * item, some);
                if (bits == 8)
                    bias = vfmaq_n_f32(bias, four_at(type, scales + c * r->s_row + g * item, some),
                                       128);
                all[c] = vfmaq_f32(all[c], bias, sums);
            }
        }
        vst1q_f32(out, vpaddq_f32(vpaddq_f32(all[0], all[1]), vpaddq_f32(all[2], all[3])));
    }
}

/* rows_of for constant bits and type. */
void kl_sdot_rows(const struct kl_sdot_row *r, const uint8_t *w, const char *scales,
                  const char *biases, int64_t n, float *out) {
    switch (r->scale_type) {
    case KL_F32:
        return r->bits == 4 ? rows_of(4, KL_F32, r, w, scales, biases, n, out)
                            : rows_of(8, KL_F32, r, w, scales, biases, n, out);
    case KL_F16:
        return r->bits == 4 ? rows_of(4, KL_F16, r, w, scales, biases, n, out)
                            : rows_of(8, KL_F16, r, w, scales, biases, n, out);
    default:
        return r->bits == 4 ? rows_of(4, KL_BF16, r, w, scales, biases, n, out)
                            : rows_of(8, KL_BF16, r, w, scales, biases, n, out);
    }
}
#else
bool kl_sdot_there(void) {
    return false;
}
bool kl_sdot_split(int bits, int group_size, int64_t first, int64_t n, const float *x,
                   int8_t *const *digits, float *units) {
    return false;
}
void kl_sdot_rows(const struct kl_sdot_row *r, const uint8_t *w, const char *scales,
                  const char *biases, int64_t n, float *out) {
}
#endif
