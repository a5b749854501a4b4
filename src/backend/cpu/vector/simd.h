/* simd.h - float32 in vectors as wide as the variant's registers, loaded in order from float32 or 16-bit floats. For the kernels of this folder only. */
#pragma once
#include <stdint.h>

#include "backend/cpu/vector/half_blocks.h"

#if defined __AVX512BW__ && defined __AVX512DQ__
#include <immintrin.h>
enum { KL_SIMD = 16 };
#define KL_HAS_SIMD 1
typedef __m512 kl_simd;
static inline kl_simd kl_simd_f32(const float *x) {
    return _mm512_loadu_ps(x);
}
static inline kl_simd kl_simd_f16(const uint16_t *x) {
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)x));
}
/* NaN keeps its bits: the first operation makes it quiet. */
static inline kl_simd kl_simd_bf16(const uint16_t *x) {
    __m512i v = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)x));
    return _mm512_castsi512_ps(_mm512_slli_epi32(v, 16));
}
static inline void kl_simd_put(float *y, kl_simd v) {
    _mm512_storeu_ps(y, v);
}
static inline void kl_simd_put_f16(uint16_t *y, kl_simd v) {
    _mm256_storeu_si256((__m256i *)y, _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
}
/* NaN comes from arithmetic on what was loaded from bfloat16, as half_blocks.h wants it. */
static inline void kl_simd_put_bf16(uint16_t *y, kl_simd first, kl_simd second) {
    kl_put_bf16(y, first, second);
}
static inline kl_simd kl_simd_all(float x) {
    return _mm512_set1_ps(x);
}
#define KL_SIMD_PAIR(ab, cd, HIGH) _mm512_shuffle_f32x4(ab, cd, HIGH ? 0xdd : 0x88)
#define KL_SIMD_DO(op, a, b) _mm512_##op(a, b)
#define KL_SIMD_PD(op, a, b) _mm512_castpd_ps(_mm512_##op(_mm512_castps_pd(a), _mm512_castps_pd(b)))
#elif defined __AVX2__ && defined __F16C__
#include <immintrin.h>
enum { KL_SIMD = 8 };
#define KL_HAS_SIMD 1
typedef __m256 kl_simd;
static inline kl_simd kl_simd_f32(const float *x) {
    return _mm256_loadu_ps(x);
}
static inline kl_simd kl_simd_f16(const uint16_t *x) {
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)x));
}
static inline kl_simd kl_simd_bf16(const uint16_t *x) {
    __m256i v = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)x));
    return _mm256_castsi256_ps(_mm256_slli_epi32(v, 16));
}
static inline void kl_simd_put(float *y, kl_simd v) {
    _mm256_storeu_ps(y, v);
}
static inline void kl_simd_put_f16(uint16_t *y, kl_simd v) {
    _mm_storeu_si128((__m128i *)y, _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
}
static inline __m256i kl_simd_round_bf16(kl_simd v) {
    __m256i u = _mm256_castps_si256(v), one = _mm256_set1_epi32(1);
    __m256i odd = _mm256_and_si256(_mm256_srli_epi32(u, 16), one);
    u = _mm256_add_epi32(_mm256_add_epi32(u, odd), _mm256_set1_epi32(0x7fff));
    return _mm256_srli_epi32(u, 16);
}
static inline void kl_simd_put_bf16(uint16_t *y, kl_simd first, kl_simd second) {
    __m256i v = _mm256_packus_epi32(kl_simd_round_bf16(first), kl_simd_round_bf16(second));
    _mm256_storeu_si256((__m256i *)y, _mm256_permute4x64_epi64(v, 0xd8));
}
static inline kl_simd kl_simd_all(float x) {
    return _mm256_set1_ps(x);
}
#define KL_SIMD_DO(op, a, b) _mm256_##op(a, b)
#define KL_SIMD_PD(op, a, b) _mm256_castpd_ps(_mm256_##op(_mm256_castps_pd(a), _mm256_castps_pd(b)))
#else
#define KL_HAS_SIMD 0
#endif

#if KL_HAS_SIMD
static inline kl_simd kl_simd_squared(kl_simd v) {
    return v * v;
}

/* t[0 .. 3]: element k of each four goes to v k, four from four. */
#define KL_SIMD_FOUR(v, t)                                  \
    kl_simd v##p = KL_SIMD_DO(unpacklo_ps, (t)[0], (t)[1]), \
            v##q = KL_SIMD_DO(unpackhi_ps, (t)[0], (t)[1]), \
            v##r = KL_SIMD_DO(unpacklo_ps, (t)[2], (t)[3]), \
            v##s = KL_SIMD_DO(unpackhi_ps, (t)[2], (t)[3]); \
    kl_simd v##0 = KL_SIMD_PD(unpacklo_pd, v##p, v##r),     \
            v##1 = KL_SIMD_PD(unpackhi_pd, v##p, v##r),     \
            v##2 = KL_SIMD_PD(unpacklo_pd, v##q, v##s), v##3 = KL_SIMD_PD(unpackhi_pd, v##q, v##s)

/* A square of KL_SIMD vectors, transposed. */
static inline __attribute__((always_inline)) void kl_simd_transpose(kl_simd *t) {
    KL_SIMD_FOUR(a, t);
    KL_SIMD_FOUR(b, t + 4);
#ifdef KL_SIMD_PAIR
    KL_SIMD_FOUR(c, t + 8);
    KL_SIMD_FOUR(d, t + 12);
#define KL_SIMD_COLUMNS(k)                                                                    \
    do {                                                                                      \
        kl_simd even_ab = KL_SIMD_PAIR(a##k, b##k, 0), even_cd = KL_SIMD_PAIR(c##k, d##k, 0); \
        kl_simd odd_ab = KL_SIMD_PAIR(a##k, b##k, 1), odd_cd = KL_SIMD_PAIR(c##k, d##k, 1);   \
        t[k] = KL_SIMD_PAIR(even_ab, even_cd, 0);                                             \
        t[4 + k] = KL_SIMD_PAIR(odd_ab, odd_cd, 0);                                           \
        t[8 + k] = KL_SIMD_PAIR(even_ab, even_cd, 1);                                         \
        t[12 + k] = KL_SIMD_PAIR(odd_ab, odd_cd, 1);                                          \
    } while (0)
#else
#define KL_SIMD_COLUMNS(k)                                   \
    do {                                                     \
        t[k] = _mm256_permute2f128_ps(a##k, b##k, 0x20);     \
        t[4 + k] = _mm256_permute2f128_ps(a##k, b##k, 0x31); \
    } while (0)
#endif
    KL_SIMD_COLUMNS(0);
    KL_SIMD_COLUMNS(1);
    KL_SIMD_COLUMNS(2);
    KL_SIMD_COLUMNS(3);
}
#endif
