/* quantized_neon_dot.c - see quantized_neon_dot.h. */
#include "backend/cpu/quantized/quantized_neon_dot.h"

#if defined __aarch64__ && defined __ARM_FEATURE_DOTPROD
#include <math.h>

#include "backend/cpu/quantized/quantized_neon.h"
#include "base/number/half.h"
#include "base/platform/processors.h"

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
 * leaves, divided by 256, is a rounded shift. `lines` is a constant. */
FIXED void split_16(const float32x4_t *x, float per, int lines, int64_t at, int8_t *digits) {
    int32x4_t q[4];
#pragma GCC unroll 4
    for (int k = 0; k < 4; k++) q[k] = vcvtnq_s32_f32(vmulq_n_f32(x[k], per));
#pragma GCC unroll 3
    for (int d = KL_SDOT_DIGITS - 1; d >= 0; d--) {
        const int8x16_t low = low_bytes(q);
        int8_t *to = digits + KL_SDOT_DIGITS * at * lines + KL_SDOT_VECTOR * d;
        if (lines == 1) {
            vst1q_s8(to, low);
        } else {
            vst1_s8(to, vget_low_s8(low));
            vst1_s8(to + KL_SDOT_DIGITS * KL_SDOT_VECTOR, vget_high_s8(low));
        }
#pragma GCC unroll 4
        for (int k = 0; k < 4; k++) q[k] = vrshrq_n_s32(q[k], 8); /* not read after the last */
    }
}

FIXED bool split(int bits, int group_size, int64_t first, int64_t n, int lines, const float *x,
                 int8_t *digits, float *units) {
    for (int64_t g = 0; g < n / group_size; g++, x += group_size) {
        float32x4_t tops = vdupq_n_f32(0);
        for (int i = 0; i < group_size; i += 4) tops = vmaxq_f32(tops, vabsq_f32(vld1q_f32(x + i)));
        const float top = vmaxvq_f32(tops); /* NaN, where there is one */
        if (!(top < INFINITY) || (top != 0 && top < 0x1p-90f)) return false;
        /* The power of two above top, by its exponent: 2^22 units, so that no digit overflows. */
        const uint32_t above = (kl_f32_bits(top) & 0x7f800000u) + (UINT32_C(1) << 23);
        const float unit = top != 0 ? kl_bits_f32(above - (UINT32_C(22) << 23)) : 0,
                    per = top != 0 ? 1 / unit : 0;
        units[(first / group_size + g) * lines] = unit;
        const int64_t at = first + g * group_size;
        for (int i = 0; i < group_size; i += 32) {
            float32x4_t v[8]; /* with 4 bits the even ones, then the odd ones */
#pragma GCC unroll 4
            for (int k = 0; k < 4; k++) {
                const float32x4x2_t two = vld2q_f32(x + i + 8 * k);
                v[k] = bits == 4 ? two.val[0] : vld1q_f32(x + i + 4 * k);
                v[4 + k] = bits == 4 ? two.val[1] : vld1q_f32(x + i + 16 + 4 * k);
            }
            split_16(v, per, lines, at + i, digits);
            split_16(v + 4, per, lines, at + i + 16, digits);
        }
    }
    return true;
}

bool kl_sdot_split(int bits, int group_size, int64_t first, int64_t n, int lines, const float *x,
                   int8_t *digits, float *units) {
    return lines == 1 ? split(bits, group_size, first, n, 1, x, digits, units)
                      : split(bits, group_size, first, n, 2, x, digits, units);
}

/* ---- products ---- */
/* The sums of one group, of each digit and four rows of w; x goes on to the next group. Codes of
 * 8 bits are taken as signed ones, 128 below what they are. */
FIXED void group_of(int bits, int bytes, const int8_t **x, const uint8_t *w, int64_t w_row,
                    int32x4_t (*sum)[4]) {
    const int halves = bits == 4 ? 2 : 1;
    for (int d = 0; d < KL_SDOT_DIGITS; d++)
        for (int c = 0; c < 4; c++) sum[d][c] = vdupq_n_s32(0);
    for (int b = 0; b < bytes; b += 16) {
        int8x16_t v[2][KL_SDOT_DIGITS], code[2];
#pragma GCC unroll 2
        for (int h = 0; h < halves; h++)
#pragma GCC unroll 3
            for (int d = 0; d < KL_SDOT_DIGITS; d++, *x += KL_SDOT_VECTOR) v[h][d] = vld1q_s8(*x);
#pragma GCC unroll 4
        for (int c = 0; c < 4; c++) {
            const uint8x16_t bits_of = vld1q_u8(w + c * w_row + b);
            if (bits == 4) {
                code[0] = vreinterpretq_s8_u8(vandq_u8(bits_of, vdupq_n_u8(15)));
                code[1] = vreinterpretq_s8_u8(vshrq_n_u8(bits_of, 4));
            } else {
                code[0] = vreinterpretq_s8_u8(veorq_u8(bits_of, vdupq_n_u8(128)));
            }
#pragma GCC unroll 2
            for (int h = 0; h < halves; h++)
#pragma GCC unroll 3
                for (int d = 0; d < KL_SDOT_DIGITS; d++)
                    sum[d][c] = vdotq_s32(sum[d][c], code[h], v[h][d]);
        }
    }
}

/* Of each row of w the sum of what the four lanes have. */
FIXED int32x4_t joined(const int32x4_t *sum) {
    return vpaddq_s32(vpaddq_s32(sum[0], sum[1]), vpaddq_s32(sum[2], sum[3]));
}

FIXED void rows_of(int bits, enum kl_dtype type, const struct kl_sdot_row *r, const uint8_t *w,
                   const char *scales, const char *biases, int64_t n, float *out) {
    const int item = type == KL_F32 ? 4 : 2, bytes = r->group_size * bits / 8;
    for (int64_t row = 0; row < n;
         row += 4, w += 4 * r->w_row, scales += 4 * r->s_row, biases += 4 * r->b_row, out += 4) {
        float32x4_t all = vdupq_n_f32(0), bias;
        const int8_t *x = r->digits;
        for (int64_t g = 0; g < r->groups; g++) {
            int32x4_t sum[KL_SDOT_DIGITS][4];
            group_of(bits, bytes, &x, w + g * bytes, r->w_row, sum);
            const float32x4_t value = value_of(joined(sum[0]), joined(sum[1]), joined(sum[2])),
                              scale = of_four_rows(type, scales + g * item, r->s_row);
            all = vfmaq_f32(all, value, vmulq_n_f32(scale, r->units[g]));
        }
        bias_parts(bits, type, 1, r, scales, biases, &bias);
        vst1q_f32(out, vaddq_f32(all, bias));
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
bool kl_sdot_split(int bits, int group_size, int64_t first, int64_t n, int lines, const float *x,
                   int8_t *digits, float *units) {
    return false;
}
void kl_sdot_rows(const struct kl_sdot_row *r, const uint8_t *w, const char *scales,
                  const char *biases, int64_t n, float *out) {
}
#endif
