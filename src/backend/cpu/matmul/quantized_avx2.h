/* quantized_avx2.h - numbers of 4 bits: products with one row of x, and e2m1 looked up in a
 * register. For quantized_matmul.c, which includes it. */
#include <immintrin.h>

/* In each byte twice the number of e2m1 whose code is in its low bits; the high bits are 0. */
static inline __attribute__((always_inline)) word_vec e2m1_bytes(word_vec codes) {
    const __m128i twice = _mm_setr_epi8(0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12);
    return (word_vec)_mm256_shuffle_epi8(_mm256_broadcastsi128_si256(twice), (__m256i)codes);
}

static inline __attribute__((always_inline)) __m256 scale_at(bool bf16, const char *from) {
    uint16_t half;
    if (!bf16) return _mm256_broadcast_ss((const float *)(const void *)from);
    memcpy(&half, from, sizeof half);
    return _mm256_set1_ps(kl_bf16_load(half));
}

/* The sums of dots_of_words_1 (quantized_dots.inc), in all bits, for whole vectors of affine codes
 * in four rows of w at equal distances: with two pointers in the place of eight everything stays in
 * registers. Scales are float32, or bfloat16, `per_row` bytes from row to row. `shift` is 0 or
 * more; x is scaled for in_place. */
static inline __attribute__((always_inline)) void
four_rows_of_nibbles(bool bf16, const uint8_t *w, int64_t row_bytes, int64_t n, int shift,
                     int64_t ahead, const char *scales, int64_t per_row, const float *x,
                     vec *result) {
    __m256 all[4] = {_mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps(),
                     _mm256_setzero_ps()};
    for (int64_t i = 0; i < n / 8; i++) {
        const uint8_t *words = w + 32 * i;
        const float *from = x + 64 * i;
        const char *scale = scales + (i >> shift) * (bf16 ? 2 : 4);
        __m256i v[4];
        __m256 sum[4];
#pragma GCC unroll 4
        for (int c = 0; c < 4; c++) {
            _mm_prefetch((const char *)(words + c * row_bytes + 4 * ahead), _MM_HINT_T0);
            v[c] = _mm256_loadu_si256((const __m256i *)(const void *)(words + c * row_bytes));
        }
#pragma GCC unroll 8
        for (int e = 0; e < 8; e++) {
            const __m256 left = _mm256_loadu_ps(from + 8 * e);
#pragma GCC unroll 4
            for (int c = 0; c < 4; c++) {
                const __m256i code = e < 7 ? _mm256_and_si256(v[c], _mm256_set1_epi32(15 << 4 * e))
                                           : _mm256_srli_epi32(v[c], 28);
                const __m256 y = _mm256_cvtepi32_ps(code);
                sum[c] = e == 0 ? _mm256_mul_ps(left, y) : _mm256_fmadd_ps(left, y, sum[c]);
            }
        }
#pragma GCC unroll 4
        for (int c = 0; c < 4; c++)
            all[c] = _mm256_fmadd_ps(sum[c], scale_at(bf16, scale + c * per_row), all[c]);
    }
    for (int c = 0; c < 4; c++) result[c] = (vec)all[c];
}

static __attribute__((noinline)) void four_rows_f32(const uint8_t *w, int64_t row_bytes, int64_t n,
                                                    int shift, int64_t ahead, const char *scales,
                                                    int64_t per_row, const float *x, vec *result) {
    four_rows_of_nibbles(false, w, row_bytes, n, shift, ahead, scales, per_row, x, result);
}

static __attribute__((noinline)) void four_rows_bf16(const uint8_t *w, int64_t row_bytes, int64_t n,
                                                     int shift, int64_t ahead, const char *scales,
                                                     int64_t per_row, const float *x, vec *result) {
    four_rows_of_nibbles(true, w, row_bytes, n, shift, ahead, scales, per_row, x, result);
}
