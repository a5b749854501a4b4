/* cpu_wide.h - float32 in vectors as wide as the variant's registers, loaded in order from float32 or 16-bit floats. For the kernels of this folder only. */
#pragma once
#include <stdint.h>

#if defined __AVX512BW__ && defined __AVX512DQ__
#include <immintrin.h>
enum { KL_WIDE = 16 };
#define KL_HAS_WIDE 1
typedef __m512 kl_wide;
static inline kl_wide kl_wide_f32(const float *x) {
    return _mm512_loadu_ps(x);
}
static inline kl_wide kl_wide_f16(const uint16_t *x) {
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)x));
}
/* NaN keeps its bits: the first operation makes it quiet. */
static inline kl_wide kl_wide_bf16(const uint16_t *x) {
    __m512i v = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)x));
    return _mm512_castsi512_ps(_mm512_slli_epi32(v, 16));
}
static inline void kl_wide_put(float *y, kl_wide v) {
    _mm512_storeu_ps(y, v);
}
#elif defined __AVX2__ && defined __F16C__
#include <immintrin.h>
enum { KL_WIDE = 8 };
#define KL_HAS_WIDE 1
typedef __m256 kl_wide;
static inline kl_wide kl_wide_f32(const float *x) {
    return _mm256_loadu_ps(x);
}
static inline kl_wide kl_wide_f16(const uint16_t *x) {
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)x));
}
static inline kl_wide kl_wide_bf16(const uint16_t *x) {
    __m256i v = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)x));
    return _mm256_castsi256_ps(_mm256_slli_epi32(v, 16));
}
static inline void kl_wide_put(float *y, kl_wide v) {
    _mm256_storeu_ps(y, v);
}
#else
#define KL_HAS_WIDE 0
#endif
