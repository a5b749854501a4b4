/* quantized_neon.h - what products of x in digits with affine codes do around the sums of integers
 * (quantized_neon_dot.h): scales and biases. For quantized_neon_dot.c and quantized_neon_i8mm.c,
 * whose results have the same bits. */
#pragma once
#include <arm_neon.h>
#include <string.h>

#include "backend/cpu/quantized/quantized_neon_dot.h"

#define FIXED static inline __attribute__((always_inline))

FIXED float32x4_t widened(enum kl_dtype type, uint16x4_t half) {
    return type == KL_F16 ? vcvt_f32_f16(vreinterpret_f16_u16(half))
                          : vreinterpretq_f32_u32(vshll_n_u16(half, 16));
}

/* The numbers at `from` and in the three rows after it. */
FIXED float32x4_t of_four_rows(enum kl_dtype type, const char *from, int64_t row) {
    if (type == KL_F32) {
        float32x4_t v = vld1q_dup_f32((const float *)(const void *)from);
        v = vld1q_lane_f32((const float *)(const void *)(from + row), v, 1);
        v = vld1q_lane_f32((const float *)(const void *)(from + 2 * row), v, 2);
        return vld1q_lane_f32((const float *)(const void *)(from + 3 * row), v, 3);
    }
    uint16x4_t v = vld1_dup_u16((const uint16_t *)(const void *)from);
    v = vld1_lane_u16((const uint16_t *)(const void *)(from + row), v, 1);
    v = vld1_lane_u16((const uint16_t *)(const void *)(from + 2 * row), v, 2);
    v = vld1_lane_u16((const uint16_t *)(const void *)(from + 3 * row), v, 3);
    return widened(type, v);
}

/* Four numbers, or at the end of a row n and zeros. */
FIXED float32x4_t four_at(enum kl_dtype type, const char *from, int64_t n) {
    if (type == KL_F32) {
        float some[4] = {0};
        if (n >= 4) return vld1q_f32((const float *)(const void *)from);
        memcpy(some, from, (size_t)n * sizeof *some);
        return vld1q_f32(some);
    }
    uint16_t some[4] = {0};
    if (n >= 4) return widened(type, vld1_u16((const uint16_t *)(const void *)from));
    memcpy(some, from, (size_t)n * sizeof *some);
    return widened(type, vld1_u16(some));
}

/* The sum of a group for four elements, from those of the digits. It is rounded twice: what the
 * lower digits give, and the whole. */
FIXED float32x4_t value_of(int32x4_t high, int32x4_t middle, int32x4_t low) {
    return vfmaq_n_f32(vcvtq_f32_s32(vaddq_s32(vshlq_n_s32(middle, 8), low)), vcvtq_f32_s32(high),
                       65536);
}

/* out[i]: what the biases of four rows of w add to the product with row i of x, of `lines`; also
 * 128 scales, where codes of 8 bits were taken as signed ones. */
FIXED void bias_parts(int bits, enum kl_dtype type, int lines, const struct kl_sdot_row *r,
                      const char *scales, const char *biases, float32x4_t *out) {
    const int item = type == KL_F32 ? 4 : 2;
    float32x4_t all[4][4];
#pragma GCC unroll 4
    for (int i = 0; i < lines; i++)
#pragma GCC unroll 4
        for (int c = 0; c < 4; c++) all[i][c] = vdupq_n_f32(0);
    for (int64_t g = 0; g < r->groups; g += 4) {
        const int64_t some = r->groups - g;
        float32x4_t bias[4];
#pragma GCC unroll 4
        for (int c = 0; c < 4; c++) {
            bias[c] = four_at(type, biases + c * r->b_row + g * item, some);
            if (bits == 8)
                bias[c] = vfmaq_n_f32(bias[c],
                                      four_at(type, scales + c * r->s_row + g * item, some), 128);
        }
#pragma GCC unroll 4
        for (int i = 0; i < lines; i++) {
            const float *from = r[i / 2].sums + i % 2 * r->groups + g;
            const float32x4_t sums = four_at(KL_F32, (const char *)from, some);
#pragma GCC unroll 4
            for (int c = 0; c < 4; c++) all[i][c] = vfmaq_f32(all[i][c], bias[c], sums);
        }
    }
#pragma GCC unroll 4
    for (int i = 0; i < lines; i++)
        out[i] = vpaddq_f32(vpaddq_f32(all[i][0], all[i][1]), vpaddq_f32(all[i][2], all[i][3]));
}
