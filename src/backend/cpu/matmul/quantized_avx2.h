/* quantized_avx2.h - products of one row with affine codes of 4 and 8 bits, four rows of w at a
 * time, and e2m1 looked up in a register. For quantized_matmul.c, which includes it. */
#include "backend/cpu/matmul/quantized_x86.h"

/* In each byte twice the number of e2m1 whose code is in its low bits; the high bits are 0. */
static inline __attribute__((always_inline)) word_vec e2m1_bytes(word_vec codes) {
    const __m128i twice = _mm_setr_epi8(0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12);
    return (word_vec)_mm256_shuffle_epi8(_mm256_broadcastsi128_si256(twice), (__m256i)codes);
}

static inline __attribute__((always_inline)) __m256 eight_floats(enum kl_dtype type, __m128i half) {
    if (type == KL_F16) return _mm256_cvtph_ps(half);
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(half), 16));
}

/* A scale in all lanes. */
static inline __attribute__((always_inline)) __m256 scale_at(enum kl_dtype type, const char *from) {
    uint16_t half;
    if (type == KL_F32) return _mm256_broadcast_ss((const float *)(const void *)from);
    memcpy(&half, from, sizeof half);
    if (type == KL_F16) return _mm256_cvtph_ps(_mm_set1_epi16((short)half));
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_set1_epi16((short)half), 16));
}

/* n <= 8 biases, and zeros. */
static inline __attribute__((always_inline)) __m256 biases_at(enum kl_dtype type, int64_t n,
                                                              const char *from) {
    uint32_t word[8] = {0};
    uint16_t half[8] = {0};
    if (type == KL_F32) {
        if (n >= 8) return _mm256_loadu_ps((const float *)(const void *)from);
        for (int64_t i = 0; i < n; i++) memcpy(word + i, from + 4 * i, 4);
        return _mm256_loadu_ps((const float *)(const void *)word);
    }
    if (n >= 8) return eight_floats(type, _mm_loadu_si128((const __m128i *)(const void *)from));
    for (int64_t i = 0; i < n; i++) memcpy(half + i, from + 2 * i, 2);
    return eight_floats(type, _mm_loadu_si128((const __m128i *)(const void *)half));
}

/* The same sums in all bits as those of dots_1 (quantized_dots.inc), for four rows of w of whole
 * vectors, none of which belongs to several groups. Bits and type are constants. With two pointers
 * in the place of eight everything stays in registers. x is scaled for in_place. */
static inline __attribute__((always_inline)) void four_rows(int bits, enum kl_dtype type,
                                                            const struct one_row *r,
                                                            const uint8_t *w, const char *scales,
                                                            const char *biases, float *out) {
    const int per_word = 32 / bits, item = type == KL_F32 ? 4 : 2, mask = (1 << bits) - 1;
    const int64_t n = r->words / 8, row_bytes = r->w_row, per_row = r->s_row, ahead = r->ahead;
    const int shift = r->word_shift - 3;
    __m256 all[4] = {_mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps(),
                     _mm256_setzero_ps()};
    for (int64_t i = 0; i < n; i++) {
        const uint8_t *words = w + 32 * i;
        const float *from = r->x + 8 * per_word * i;
        const char *scale = scales + (i >> shift) * item;
        __m256i v[4];
        __m256 sum[4];
#pragma GCC unroll 4
        for (int c = 0; c < 4; c++) {
            _mm_prefetch((const char *)(words + c * row_bytes + 4 * ahead), _MM_HINT_T0);
            v[c] = _mm256_loadu_si256((const __m256i *)(const void *)(words + c * row_bytes));
        }
#pragma GCC unroll 8
        for (int e = 0; e < per_word; e++) {
            const __m256 left = _mm256_loadu_ps(from + 8 * e);
#pragma GCC unroll 4
            for (int c = 0; c < 4; c++) {
                const __m256i code =
                    e < per_word - 1 ? _mm256_and_si256(v[c], _mm256_set1_epi32(mask << bits * e))
                                     : _mm256_srli_epi32(v[c], 32 - bits);
                const __m256 y = _mm256_cvtepi32_ps(code);
                sum[c] = e == 0 ? _mm256_mul_ps(left, y) : _mm256_fmadd_ps(left, y, sum[c]);
            }
        }
#pragma GCC unroll 4
        for (int c = 0; c < 4; c++)
            all[c] = _mm256_fmadd_ps(sum[c], scale_at(type, scale + c * per_row), all[c]);
    }
    for (int64_t g = 0; g < r->groups; g += 8) {
        const __m256 sums = _mm256_loadu_ps(r->sums + g);
#pragma GCC unroll 4
        for (int c = 0; c < 4; c++)
            all[c] = _mm256_fmadd_ps(
                biases_at(type, r->groups - g, biases + c * r->b_row + g * item), sums, all[c]);
    }
    _mm_storeu_ps(out, totals(all));
}
