/* quantized_avx512.h - products of one row with affine codes of 4 and 8 bits, four rows of w at a
 * time. For quantized_few.c, which includes it. */
#include "backend/cpu/quantized/quantized_x86.h"

/* Up to 16 scales or biases, as float32; zeros in the place of those that `some` leaves out. */
static inline __attribute__((always_inline)) __m512 floats_at(enum kl_dtype type, __mmask16 some,
                                                              const char *from) {
    if (type == KL_F32) return _mm512_maskz_loadu_ps(some, from);
    const __m256i half = _mm256_maskz_loadu_epi16(some, from);
    if (type == KL_F16) return _mm512_cvtph_ps(half);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16));
}

/* The same sums in all bits as those of dots_1 (quantized_dots.inc), for four rows of w. Bits and
 * type are constants. */
static inline __attribute__((always_inline)) void four_rows(int bits, enum kl_dtype type,
                                                            const struct one_row *r,
                                                            const uint8_t *w, const char *scales,
                                                            const char *biases, float *out) {
    const __m512 table = _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const int64_t words = r->words, groups = r->groups, w_row = r->w_row, ahead = r->ahead;
    const int per_word = 32 / bits, item = type == KL_F32 ? 4 : 2, shift = r->word_shift;
    __m512 all[4];
#pragma GCC unroll 4
    for (int c = 0; c < 4; c++) all[c] = _mm512_setzero_ps();
    for (int64_t g = 0; g < groups; g += 16) { /* 16 scales of each row are read at a time */
        const __mmask16 there = groups - g < 16 ? (__mmask16)((1u << (groups - g)) - 1) : 0xffff;
        const int64_t end = kl_min64(words, (g + 16) << shift);
        __m512 scale[4];
#pragma GCC unroll 4
        for (int c = 0; c < 4; c++)
            scale[c] = floats_at(type, there, scales + c * r->s_row + g * item);
        for (int64_t i = g << shift; i < end; i += 16) {
            const __mmask16 some = end - i < 16 ? (__mmask16)((1u << (end - i)) - 1) : 0xffff;
            const float *x = r->x + i * per_word;
            /* which of the 16 belongs to each word */
            const __m512i group_of =
                _mm512_srl_epi32(_mm512_add_epi32(lane, _mm512_set1_epi32((int)(i - (g << shift)))),
                                 _mm_cvtsi32_si128(shift));
            __m512i v[4];
            __m512 sum[4];
#pragma GCC unroll 4
            for (int c = 0; c < 4; c++) {
                _mm_prefetch((const char *)(w + c * w_row + 4 * (i + ahead)), _MM_HINT_T0);
                v[c] = _mm512_maskz_loadu_epi32(some, w + c * w_row + 4 * i);
            }
#pragma GCC unroll 8
            for (int e = 0; e < per_word; e++) {
                const __m512 left = _mm512_loadu_ps(x + 16 * e);
#pragma GCC unroll 4
                for (int c = 0; c < 4; c++) {
                    __m512 y;
                    if (bits == 4)
                        y = _mm512_permutexvar_ps(_mm512_srli_epi32(v[c], 4 * e), table);
                    else
                        y = _mm512_cvtepi32_ps(
                            e < 3 ? _mm512_and_si512(v[c], _mm512_set1_epi32(255 << 8 * e))
                                  : _mm512_srli_epi32(v[c], 24));
                    sum[c] = e == 0 ? _mm512_mul_ps(left, y) : _mm512_fmadd_ps(left, y, sum[c]);
                }
            }
#pragma GCC unroll 4
            for (int c = 0; c < 4; c++)
                all[c] = _mm512_fmadd_ps(sum[c], _mm512_permutexvar_ps(group_of, scale[c]), all[c]);
        }
    }
    for (int64_t g = 0; g < groups; g += 16) {
        const __mmask16 there = groups - g < 16 ? (__mmask16)((1u << (groups - g)) - 1) : 0xffff;
        const __m512 sums = _mm512_loadu_ps(r->sums + g);
#pragma GCC unroll 4
        for (int c = 0; c < 4; c++)
            all[c] = _mm512_fmadd_ps(floats_at(type, there, biases + c * r->b_row + g * item), sums,
                                     all[c]);
    }
    __m256 half[4];
#pragma GCC unroll 4
    for (int c = 0; c < 4; c++)
        half[c] = _mm256_add_ps(_mm512_castps512_ps256(all[c]), _mm512_extractf32x8_ps(all[c], 1));
    _mm_storeu_ps(out, totals(half));
}

/* four_rows for constant bits and type, as a function of its own (inlined into a loop, gcc spills
 * masks and sums), and n rows by it. */
#define ROWS_OF(name, four, bits, type)                                                       \
    static __attribute__((noinline)) void four(const struct one_row *r, const uint8_t *w,     \
                                               const char *scales, const char *biases,        \
                                               float *out) {                                  \
        four_rows(bits, type, r, w, scales, biases, out);                                     \
    }                                                                                         \
    static void name(const struct one_row *r, const uint8_t *w, const char *scales,           \
                     const char *biases, int64_t n, float *out) {                             \
        for (int64_t i = 0; i < n; i += 4)                                                    \
            four(r, w + i * r->w_row, scales + i * r->s_row, biases + i * r->b_row, out + i); \
    }
ROWS_OF(rows_4_f32, four_rows_4_f32, 4, KL_F32)
ROWS_OF(rows_4_f16, four_rows_4_f16, 4, KL_F16)
ROWS_OF(rows_4_bf16, four_rows_4_bf16, 4, KL_BF16)
ROWS_OF(rows_8_f32, four_rows_8_f32, 8, KL_F32)
ROWS_OF(rows_8_f16, four_rows_8_f16, 8, KL_F16)
ROWS_OF(rows_8_bf16, four_rows_8_bf16, 8, KL_BF16)
