/* quantized_avx512.h - products of one row with affine codes of 4 and 8 bits, four rows of w at a
 * time. For quantized_matmul.c, which includes it. */
#include "backend/cpu/matmul/quantized_x86.h"

/* Up to four scales, as float32; zeros in the place of those that `some` leaves out. */
static inline __attribute__((always_inline)) __m512 scales_at(enum kl_dtype type, __mmask8 some,
                                                              const char *from) {
    __m128 x;
    if (type == KL_F32) {
        x = _mm_maskz_loadu_ps(some, from);
    } else {
        const __m128i half = _mm_maskz_loadu_epi16(some, from);
        x = type == KL_F16 ? _mm_cvtph_ps(half)
                           : _mm_castsi128_ps(_mm_slli_epi32(_mm_cvtepu16_epi32(half), 16));
    }
    return _mm512_castps128_ps512(x);
}

/* The same for up to 16 biases. */
static inline __attribute__((always_inline)) __m512 biases_at(enum kl_dtype type, __mmask16 some,
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
    /* which scale of a vector of words belongs to each word */
    const __m512i group_of = _mm512_srl_epi32(lane, _mm_cvtsi32_si128(r->word_shift));
    const int64_t words = r->words, groups = r->groups, w_row = r->w_row, ahead = r->ahead;
    const int per_word = 32 / bits, item = type == KL_F32 ? 4 : 2;
    __m512 all[4];
#pragma GCC unroll 4
    for (int c = 0; c < 4; c++) all[c] = _mm512_setzero_ps();
    for (int64_t i = 0; i < words; i += 16) {
        const __mmask16 some = words - i < 16 ? (__mmask16)((1u << (words - i)) - 1) : 0xffff;
        const int64_t group = i >> r->word_shift, n_groups = kl_min64(4, groups - group);
        const float *x = r->x + i * per_word;
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
        for (int c = 0; c < 4; c++) {
            const __m512 four = scales_at(type, (__mmask8)((1u << n_groups) - 1),
                                          scales + c * r->s_row + group * item);
            all[c] = _mm512_fmadd_ps(sum[c], _mm512_permutexvar_ps(group_of, four), all[c]);
        }
    }
    for (int64_t g = 0; g < groups; g += 16) {
        const __mmask16 some = groups - g < 16 ? (__mmask16)((1u << (groups - g)) - 1) : 0xffff;
        const __m512 sums = _mm512_loadu_ps(r->sums + g);
#pragma GCC unroll 4
        for (int c = 0; c < 4; c++)
            all[c] = _mm512_fmadd_ps(biases_at(type, some, biases + c * r->b_row + g * item), sums,
                                     all[c]);
    }
    __m256 half[4];
#pragma GCC unroll 4
    for (int c = 0; c < 4; c++)
        half[c] = _mm256_add_ps(_mm512_castps512_ps256(all[c]), _mm512_extractf32x8_ps(all[c], 1));
    _mm_storeu_ps(out, totals(half));
}
