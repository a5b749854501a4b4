/* quantized_neon_i8mm.c - see quantized_neon_i8mm.h. */
#include "backend/cpu/quantized/quantized_neon_i8mm.h"

#if defined __aarch64__ && defined __ARM_FEATURE_MATMUL_INT8
#include "backend/cpu/quantized/quantized_neon.h"
#include "base/platform/processors.h"

bool kl_smmla_there(void) {
    return kl_processors_have(KL_ARM_I8MM);
}

enum { PAIRS = KL_SMMLA_PAIRS, DIGITS = KL_SDOT_DIGITS };

FIXED uint64x2_t bytes_at(const uint8_t *from) {
    return vreinterpretq_u64_u8(vld1q_u8(from));
}

/* Eight bytes of one row of w, then those of another. */
FIXED uint8x16_t halves_of(int h, uint64x2_t a, uint64x2_t b) {
    return vreinterpretq_u8_u64(h ? vzip2q_u64(a, b) : vzip1q_u64(a, b));
}

/* The codes in lower (k = 0) or upper halves of bytes, or those of 8 bits, which are taken as
 * signed ones, 128 below what they are. */
FIXED int8x16_t codes_of(int bits, int k, uint8x16_t v) {
    return vreinterpretq_s8_u8(bits == 8 ? veorq_u8(v, vdupq_n_u8(128))
                               : k == 1  ? vshrq_n_u8(v, 4)
                                         : vandq_u8(v, vdupq_n_u8(15)));
}

/* The sums of one group, of each pair of rows of x, digit, and pair of rows of w; x goes on to the
 * next group. Eight bytes of w at a time are unpacked: of all 16, gcc would spill codes. */
FIXED void group_of(int bits, int pairs, int bytes, const int8_t **x, const uint8_t *w,
                    int64_t w_row, int32x4_t (*sum)[DIGITS][2]) {
    const int parts = 8 / bits; /* of a byte */
#pragma GCC unroll 2
    for (int p = 0; p < pairs; p++)
#pragma GCC unroll 3
        for (int d = 0; d < DIGITS; d++) sum[p][d][0] = sum[p][d][1] = vdupq_n_s32(0);
    for (int b = 0; b < bytes; b += 16) {
        const uint64x2_t row[4] = {bytes_at(w + b), bytes_at(w + w_row + b),
                                   bytes_at(w + 2 * w_row + b), bytes_at(w + 3 * w_row + b)};
#pragma GCC unroll 4
        for (int k = 0; k < 2 * parts; k++)
#pragma GCC unroll 2
            for (int c = 0; c < 2; c++) {
                const int h = k / parts, part = k % parts;
                const int8x16_t code =
                    codes_of(bits, part, halves_of(h, row[2 * c], row[2 * c + 1]));
#pragma GCC unroll 2
                for (int p = 0; p < pairs; p++)
#pragma GCC unroll 3
                    for (int d = 0; d < DIGITS; d++) {
                        const int8_t *at = x[p] + ((2 * part + h) * DIGITS + d) * KL_SDOT_VECTOR;
                        sum[p][d][c] = vmmlaq_s32(sum[p][d][c], code, vld1q_s8(at));
                    }
            }
#pragma GCC unroll 2
        for (int p = 0; p < pairs; p++) x[p] += 2 * parts * DIGITS * KL_SDOT_VECTOR;
    }
}

FIXED void rows_of(int bits, int pairs, enum kl_dtype type, const struct kl_sdot_row *r,
                   const uint8_t *w, const char *scales, const char *biases, int64_t n, float *out,
                   int64_t pitch) {
    const int item = type == KL_F32 ? 4 : 2, bytes = r->group_size * bits / 8;
    for (int64_t row = 0; row < n;
         row += 4, w += 4 * r->w_row, scales += 4 * r->s_row, biases += 4 * r->b_row, out += 4) {
        float32x4_t all[PAIRS][2], bias[2 * PAIRS];
        const int8_t *x[PAIRS];
#pragma GCC unroll 2
        for (int p = 0; p < pairs; p++) x[p] = r[p].digits, all[p][0] = all[p][1] = vdupq_n_f32(0);
        for (int64_t g = 0; g < r->groups; g++) {
            int32x4_t sum[PAIRS][DIGITS][2];
            group_of(bits, pairs, bytes, x, w + g * bytes, r->w_row, sum);
            const float32x4_t four = of_four_rows(type, scales + g * item, r->s_row),
                              scale[2] = {vzip1q_f32(four, four), vzip2q_f32(four, four)};
#pragma GCC unroll 2
            for (int p = 0; p < pairs; p++) {
                const float32x2_t two = vld1_f32(r[p].units + 2 * g);
                const float32x4_t units = vcombine_f32(two, two);
#pragma GCC unroll 2
                for (int c = 0; c < 2; c++)
                    all[p][c] =
                        vfmaq_f32(all[p][c], value_of(sum[p][0][c], sum[p][1][c], sum[p][2][c]),
                                  vmulq_f32(scale[c], units));
            }
        }
        bias_parts(bits, type, 2 * pairs, r, scales, biases, bias);
#pragma GCC unroll 2
        for (int p = 0; p < pairs; p++) {
            const float32x4_t first = vuzp1q_f32(all[p][0], all[p][1]),
                              second = vuzp2q_f32(all[p][0], all[p][1]);
            vst1q_f32(out + 2 * p * pitch, vaddq_f32(first, bias[2 * p]));
            vst1q_f32(out + (2 * p + 1) * pitch, vaddq_f32(second, bias[2 * p + 1]));
        }
    }
}

/* rows_of for constant bits and number of pairs. */
FIXED void rows_of_type(enum kl_dtype type, const struct kl_sdot_row *r, int pairs,
                        const uint8_t *w, const char *scales, const char *biases, int64_t n,
                        float *out, int64_t pitch) {
    if (r->bits == 4)
        return pairs == 1 ? rows_of(4, 1, type, r, w, scales, biases, n, out, pitch)
                          : rows_of(4, 2, type, r, w, scales, biases, n, out, pitch);
    return pairs == 1 ? rows_of(8, 1, type, r, w, scales, biases, n, out, pitch)
                      : rows_of(8, 2, type, r, w, scales, biases, n, out, pitch);
}

void kl_smmla_rows(const struct kl_sdot_row *r, int pairs, const uint8_t *w, const char *scales,
                   const char *biases, int64_t n, float *out, int64_t pitch) {
    switch (r->scale_type) {
    case KL_F32: return rows_of_type(KL_F32, r, pairs, w, scales, biases, n, out, pitch);
    case KL_F16: return rows_of_type(KL_F16, r, pairs, w, scales, biases, n, out, pitch);
    default: return rows_of_type(KL_BF16, r, pairs, w, scales, biases, n, out, pitch);
    }
}
#else
bool kl_smmla_there(void) {
    return false;
}
void kl_smmla_rows(const struct kl_sdot_row *r, int pairs, const uint8_t *w, const char *scales,
                   const char *biases, int64_t n, float *out, int64_t pitch) {
}
#endif
