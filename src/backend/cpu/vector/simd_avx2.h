/* simd_avx2.h - AVX2's half of vector/simd.h (with F16C and FMA), which includes it and says what
 * each function does. */
#include <immintrin.h>

enum { KL_SIMD = 8 };
#define KL_WIDE_PARTS 2
typedef __m256 kl_simd;

/* ---- one vector ---- */
KL_INLINE kl_simd kl_simd_set(float x) {
    return _mm256_set1_ps(x);
}
KL_INLINE kl_simd kl_simd_load_f32(const float *x) {
    return _mm256_loadu_ps(x);
}
KL_INLINE kl_simd kl_simd_load_f16(const uint16_t *x) {
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)x));
}
KL_INLINE kl_simd kl_simd_load_bf16(const uint16_t *x) {
    __m256i v = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)x));
    return _mm256_castsi256_ps(_mm256_slli_epi32(v, 16));
}
KL_INLINE void kl_simd_store_f32(float *y, kl_simd v) {
    _mm256_storeu_ps(y, v);
}
KL_INLINE void kl_simd_store_f16(uint16_t *y, kl_simd v) {
    _mm_storeu_si128((__m128i *)y, _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
}
KL_INLINE __m256i kl_simd_round_bf16(kl_simd v) {
    __m256i u = _mm256_castps_si256(v), one = _mm256_set1_epi32(1);
    __m256i odd = _mm256_and_si256(_mm256_srli_epi32(u, 16), one);
    u = _mm256_add_epi32(_mm256_add_epi32(u, odd), _mm256_set1_epi32(0x7fff));
    return _mm256_srli_epi32(u, 16);
}
KL_INLINE void kl_simd_store_bf16(uint16_t *y, kl_simd first, kl_simd second) {
    __m256i v = _mm256_packus_epi32(kl_simd_round_bf16(first), kl_simd_round_bf16(second));
    _mm256_storeu_si256((__m256i *)y, _mm256_permute4x64_epi64(v, 0xd8));
}
KL_INLINE kl_simd kl_simd_add(kl_simd a, kl_simd b) {
    return _mm256_add_ps(a, b);
}
KL_INLINE kl_simd kl_simd_sub(kl_simd a, kl_simd b) {
    return _mm256_sub_ps(a, b);
}
KL_INLINE kl_simd kl_simd_mul(kl_simd a, kl_simd b) {
    return _mm256_mul_ps(a, b);
}
KL_INLINE kl_simd kl_simd_max(kl_simd a, kl_simd b) {
    return _mm256_max_ps(a, b);
}
KL_INLINE kl_simd kl_simd_fma(kl_simd a, kl_simd b, kl_simd c) {
    return _mm256_fmadd_ps(a, b, c);
}
KL_INLINE kl_simd kl_simd_clear(kl_simd v, int bits) {
    const __m256 mask = _mm256_castsi256_ps(_mm256_set1_epi32(bits));
    return _mm256_andnot_ps(mask, v);
}
KL_INLINE kl_simd kl_simd_power(kl_simd v) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_castps_si256(v), 23));
}
KL_INLINE kl_simd kl_simd_floor(kl_simd u) {
    return _mm256_round_ps(u, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
}
KL_INLINE kl_simd kl_simd_fraction(kl_simd u) {
    return _mm256_sub_ps(u, kl_simd_floor(u));
}
/* u must be -126 at least: the power of two must be normal. */
KL_INLINE kl_simd kl_simd_scale(kl_simd y, kl_simd u) {
    const __m256 n = _mm256_add_ps(kl_simd_floor(u), _mm256_set1_ps(0x1.8p23f + 127));
    return _mm256_mul_ps(y, kl_simd_power(n));
}

/* ---- transposition ---- */
KL_INLINE kl_simd kl_simd_zip_low(kl_simd a, kl_simd b) {
    return _mm256_unpacklo_ps(a, b);
}
KL_INLINE kl_simd kl_simd_zip_high(kl_simd a, kl_simd b) {
    return _mm256_unpackhi_ps(a, b);
}
KL_INLINE kl_simd kl_simd_zip_low_2(kl_simd a, kl_simd b) {
    return _mm256_castpd_ps(_mm256_unpacklo_pd(_mm256_castps_pd(a), _mm256_castps_pd(b)));
}
KL_INLINE kl_simd kl_simd_zip_high_2(kl_simd a, kl_simd b) {
    return _mm256_castpd_ps(_mm256_unpackhi_pd(_mm256_castps_pd(a), _mm256_castps_pd(b)));
}
#define KL_SIMD_COLUMNS(k)                                   \
    do {                                                     \
        t[k] = _mm256_permute2f128_ps(a##k, b##k, 0x20);     \
        t[4 + k] = _mm256_permute2f128_ps(a##k, b##k, 0x31); \
    } while (0)
KL_INLINE void kl_simd_transpose(kl_simd *t) {
    KL_SIMD_FOUR(a, t);
    KL_SIMD_FOUR(b, t + 4);
    KL_SIMD_COLUMNS(0);
    KL_SIMD_COLUMNS(1);
    KL_SIMD_COLUMNS(2);
    KL_SIMD_COLUMNS(3);
}

/* ---- runs of 16-bit floats ---- */
static inline void kl_load_bf16(float *y, const uint16_t *x) {
    for (int k = 0; k < KL_HALVES; k += 16) {
        __m256i v = _mm256_loadu_si256((const __m256i *)(x + k));
        _mm256_storeu_si256((__m256i *)(y + k), _mm256_slli_epi32(v, 16));
        _mm256_storeu_si256((__m256i *)(y + k + 8),
                            _mm256_and_si256(v, _mm256_set1_epi32(-0x10000)));
    }
}
static inline bool kl_ordinary_bf16(const uint16_t *x) {
    const __m256i most = _mm256_set1_epi16(0x7eff);
    __m256i a = _mm256_loadu_si256((const __m256i *)x),
            b = _mm256_loadu_si256((const __m256i *)(x + 16)), first = _mm256_set1_epi16(0x0080);
    __m256i top = _mm256_max_epu16(_mm256_sub_epi16(a, first), _mm256_sub_epi16(b, first));
    return _mm256_movemask_epi8(_mm256_cmpeq_epi16(_mm256_max_epu16(top, most), most)) == -1;
}
static inline void kl_clamp_halves(float *x, float lo, float hi) {
    for (int k = 0; k < KL_HALVES; k += 8) {
        __m256 v = _mm256_max_ps(_mm256_set1_ps(lo), _mm256_loadu_ps(x + k));
        _mm256_storeu_ps(x + k, _mm256_min_ps(_mm256_set1_ps(hi), v));
    }
}
static inline void kl_store_bf16(uint16_t *y, const float *x) {
    for (int k = 0; k < KL_HALVES; k += 16) {
        __m256i even = _mm256_loadu_si256((const __m256i *)(x + k)),
                other = _mm256_loadu_si256((const __m256i *)(x + k + 8));
        __m256i high = _mm256_blend_epi16(_mm256_srli_epi32(even, 16), other, 0xaa);
        __m256i low = _mm256_blend_epi16(even, _mm256_slli_epi32(other, 16), 0xaa);
        __m256i half = _mm256_or_si256(_mm256_and_si256(high, _mm256_set1_epi16(1)),
                                       _mm256_set1_epi16(0x7ffe));
        __m256i carry = _mm256_srli_epi16(_mm256_avg_epu16(low, half), 15);
        _mm256_storeu_si256((__m256i *)(y + k), _mm256_add_epi16(high, carry));
    }
}
static inline void kl_load_f16(float *y, const uint16_t *x) {
    for (int k = 0; k < KL_HALVES; k += 8)
        _mm256_storeu_ps(y + k, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(x + k))));
}
static inline void kl_store_f16(uint16_t *y, const float *x) {
    for (int k = 0; k < KL_HALVES; k += 8)
        _mm_storeu_si128((__m128i *)(y + k),
                         _mm256_cvtps_ph(_mm256_loadu_ps(x + k), _MM_FROUND_TO_NEAREST_INT));
}
