/* quantized_x86.h - what quantized_avx2.h and quantized_avx512.h share: the sums of the lanes of
 * four products. For quantized_words.h. */
#pragma once
#include <immintrin.h>

/* The sums of the lanes of four vectors, each by halving, as `total` adds them. */
static inline __attribute__((always_inline)) __m128 totals(const __m256 *v) {
    __m128 x[4], two[2];
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++)
        x[i] = _mm_add_ps(_mm256_castps256_ps128(v[i]), _mm256_extractf128_ps(v[i], 1));
#pragma GCC unroll 2
    for (int i = 0; i < 2; i++)
        two[i] = _mm_add_ps(_mm_movelh_ps(x[2 * i], x[2 * i + 1]),
                            _mm_movehl_ps(x[2 * i + 1], x[2 * i]));
    return _mm_add_ps(_mm_shuffle_ps(two[0], two[1], _MM_SHUFFLE(2, 0, 2, 0)),
                      _mm_shuffle_ps(two[0], two[1], _MM_SHUFFLE(3, 1, 3, 1)));
}

#ifndef __AVX512F__
/* In each byte twice the number of e2m1 whose code is in its low bits; the high bits are 0. */
static inline __attribute__((always_inline)) word_vec e2m1_bytes(word_vec codes) {
    const __m128i twice = _mm_setr_epi8(0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12);
    return (word_vec)_mm256_shuffle_epi8(_mm256_broadcastsi128_si256(twice), (__m256i)codes);
}

#else
/* Lane k of the result is the number of the table that the low four bits of which[k] name. */
static inline __attribute__((always_inline)) kl_vec_f32 looked_up(kl_vec_f32 table, int_vec which) {
    return (kl_vec_f32)_mm512_permutexvar_ps((__m512i)which, (__m512)table);
}
#endif
