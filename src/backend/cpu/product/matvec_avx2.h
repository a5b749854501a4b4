/* matvec_avx2.h - widens 16-bit floats for matvec.c, which includes it. */
#include <immintrin.h>

/* The first product makes a NaN quiet. */
static inline __attribute__((always_inline)) kl_vec_f32 load_bf16(const uint16_t *p) {
    return (kl_vec_f32)_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)p)),
                                         16);
}
static inline __attribute__((always_inline)) kl_vec_f32 load_f16(const uint16_t *p) {
    return (kl_vec_f32)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p));
}
