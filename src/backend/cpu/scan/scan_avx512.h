/* scan_avx512.h - squares of bfloat16 for scan_simd.inc. For scan_joins.c, which includes it. */
#include <immintrin.h>

/* Loads a square tile of bfloat16, transposed in pairs of elements, which are as wide as a float32.
 * This takes half the shuffles of float32, and none to widen the elements. t[i] is element i of 16
 * groups. */
static inline __attribute__((always_inline)) void take_pairs(kl_simd *t, const uint16_t *x) {
    kl_simd g[8]; /* vectors of groups k and k + 4, or k + 4 and k + 8 */
#pragma GCC unroll 8
    for (int k = 0; k < 8; k++) {
        const uint16_t *first = x + (k + k / 4 * 4) * GROUP;
        __m512 low = _mm512_castps256_ps512(_mm256_loadu_ps((const float *)(const void *)first));
        __m256 high = _mm256_loadu_ps((const float *)(const void *)(first + 4 * GROUP));
        g[k] = _mm512_insertf32x8(low, high, 1);
    }
    KL_SIMD_FOUR(a, g);
    KL_SIMD_FOUR(b, g + 4);
    const kl_simd pairs[8] = {KL_SIMD_PAIR(a0, b0, 0), KL_SIMD_PAIR(a1, b1, 0),
                              KL_SIMD_PAIR(a2, b2, 0), KL_SIMD_PAIR(a3, b3, 0),
                              KL_SIMD_PAIR(a0, b0, 1), KL_SIMD_PAIR(a1, b1, 1),
                              KL_SIMD_PAIR(a2, b2, 1), KL_SIMD_PAIR(a3, b3, 1)};
#pragma GCC unroll 8
    for (int k = 0; k < 8; k++) {
        __m512i pair = _mm512_castps_si512(pairs[k]);
        t[2 * k] = _mm512_castsi512_ps(_mm512_slli_epi32(pair, 16));
        t[2 * k + 1] = _mm512_castsi512_ps(_mm512_and_si512(pair, _mm512_set1_epi32(-0x10000)));
    }
}
/* Stores a square tile as bfloat16. Rounds as kl_store_bf16 does. */
static inline __attribute__((always_inline)) void put_pairs(uint16_t *y, const kl_simd *t) {
    const __mmask32 odd = 0xaaaaaaaa;
    const __m512i ends = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11);
    const __m512i others = _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15);
    __m512i pair[8];
    kl_simd g[8];
#pragma GCC unroll 8
    for (int k = 0; k < 8; k++) {
        __m512i first = _mm512_castps_si512(t[2 * k]), second = _mm512_castps_si512(t[2 * k + 1]);
        __m512i high = _mm512_mask_mov_epi16(_mm512_srli_epi32(first, 16), odd, second);
        __m512i low = _mm512_mask_mov_epi16(first, odd, _mm512_slli_epi32(second, 16));
        pair[k] = kl_round_halves(high, low);
    }
#pragma GCC unroll 4
    for (int k = 0; k < 4; k++) {
        g[k] = _mm512_castsi512_ps(_mm512_permutex2var_epi64(pair[k], ends, pair[k + 4]));
        g[k + 4] = _mm512_castsi512_ps(_mm512_permutex2var_epi64(pair[k], others, pair[k + 4]));
    }
    KL_SIMD_FOUR(a, g);
    KL_SIMD_FOUR(b, g + 4);
    const kl_simd rows[8] = {a0, a1, a2, a3, b0, b1, b2, b3};
#pragma GCC unroll 8
    for (int k = 0; k < 8; k++) {
        float *first = (float *)(void *)(y + (k + k / 4 * 4) * GROUP);
        _mm256_storeu_ps(first, _mm512_castps512_ps256(rows[k]));
        _mm256_storeu_ps(first + 2 * GROUP, _mm512_extractf32x8_ps(rows[k], 1));
    }
}
