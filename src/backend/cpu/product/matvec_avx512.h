/* matvec_avx512.h - widens 16-bit floats, and joins vectors by halving, for matvec.c, which
 * includes it. */
#include <immintrin.h>

/* One instruction moves elements to the upper halves of lanes, above zeros. The first product makes
 * a NaN quiet. */
static inline __attribute__((always_inline)) kl_vec_f32 load_bf16(const uint16_t *p) {
    static const _Alignas(64)
        uint16_t places[32] = {0, 0, 0, 1, 0, 2,  0, 3,  0, 4,  0, 5,  0, 6,  0, 7,
                               0, 8, 0, 9, 0, 10, 0, 11, 0, 12, 0, 13, 0, 14, 0, 15};
    __m512i v = _mm512_castsi256_si512(_mm256_loadu_si256((const __m256i *)p));
    return (kl_vec_f32)_mm512_maskz_permutexvar_epi16(0xaaaaaaaa, _mm512_load_si512(places), v);
}
static inline __attribute__((always_inline)) kl_vec_f32 load_f16(const uint16_t *p) {
    return (kl_vec_f32)_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p));
}

/* Each step makes one vector from two, with a third of the shuffles of a transposition. */
static inline __attribute__((always_inline)) kl_vec_f32 halved_f32(kl_vec_f32 *lane) {
#pragma GCC unroll 4
    for (int w = 8; w > 0; w /= 2)
#pragma GCC unroll 8
        for (int l = 0; l < w; l++) {
            static const _Alignas(64) int others[9][16] = {
                [8] = {8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23},
                [4] = {4, 5, 6, 7, 16, 17, 18, 19, 12, 13, 14, 15, 24, 25, 26, 27},
                [2] = {2, 3, 16, 17, 6, 7, 20, 21, 10, 11, 24, 25, 14, 15, 28, 29},
                [1] = {1, 16, 3, 18, 5, 20, 7, 22, 9, 24, 11, 26, 13, 28, 15, 30}};
            static const uint16_t second[9] = {
                [8] = 0xff00, [4] = 0xf0f0, [2] = 0xcccc, [1] = 0xaaaa};
            __m512 a = (__m512)lane[l], b = (__m512)lane[l + w];
            __m512 other = _mm512_permutex2var_ps(a, _mm512_load_si512(others[w]), b);
            lane[l] = (kl_vec_f32)_mm512_mask_blend_ps(second[w], a, b) + (kl_vec_f32)other;
        }
    return lane[0];
}
