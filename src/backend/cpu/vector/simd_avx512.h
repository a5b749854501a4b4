/* simd_avx512.h - AVX-512's half of vector/simd.h, which includes it and says what each function
 * does. */
#include <immintrin.h>

enum { KL_SIMD = 16 };
#define KL_WIDE_PARTS 1
typedef __m512 kl_simd;

/* The upper halves, plus the carry of lower half + 0x7fff + (1 if the upper half is odd). The
 * highest bit of an average of 16-bit numbers is that carry. */
static inline __m512i kl_round_halves(__m512i high, __m512i low) {
    /* (a & b) | c. */
    __m512i half =
        _mm512_ternarylogic_epi32(high, _mm512_set1_epi16(1), _mm512_set1_epi16(0x7ffe), 0xea);
    __m512i carry = _mm512_srli_epi16(_mm512_avg_epu16(low, half), 15);
    return _mm512_add_epi16(high, carry);
}

/* ---- one vector ---- */
KL_INLINE kl_simd kl_simd_set(float x) {
    return _mm512_set1_ps(x);
}
KL_INLINE kl_simd kl_simd_load_f32(const float *x) {
    return _mm512_loadu_ps(x);
}
KL_INLINE kl_simd kl_simd_load_f16(const uint16_t *x) {
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)x));
}
KL_INLINE kl_simd kl_simd_load_bf16(const uint16_t *x) {
    __m512i v = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)x));
    return _mm512_castsi512_ps(_mm512_slli_epi32(v, 16));
}
KL_INLINE void kl_simd_store_f32(float *y, kl_simd v) {
    _mm512_storeu_ps(y, v);
}
KL_INLINE void kl_simd_store_f16(uint16_t *y, kl_simd v) {
    _mm256_storeu_si256((__m256i *)y, _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
}
KL_INLINE void kl_simd_store_bf16(uint16_t *y, kl_simd first, kl_simd second) {
    static const _Alignas(64) uint16_t places[KL_HALVES] = {
        0,  2,  4,  6,  8,  10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30,
        32, 34, 36, 38, 40, 42, 44, 46, 48, 50, 52, 54, 56, 58, 60, 62};
    __m512i a = _mm512_castps_si512(first), b = _mm512_castps_si512(second);
    __m512i even = _mm512_load_si512(places), one = _mm512_set1_epi16(1);
    __m512i low = _mm512_permutex2var_epi16(a, even, b);
    __m512i high = _mm512_permutex2var_epi16(a, _mm512_add_epi16(even, one), b);
    _mm512_storeu_si512(y, kl_round_halves(high, low));
}
KL_INLINE kl_simd kl_simd_add(kl_simd a, kl_simd b) {
    return _mm512_add_ps(a, b);
}
KL_INLINE kl_simd kl_simd_sub(kl_simd a, kl_simd b) {
    return _mm512_sub_ps(a, b);
}
KL_INLINE kl_simd kl_simd_mul(kl_simd a, kl_simd b) {
    return _mm512_mul_ps(a, b);
}
KL_INLINE kl_simd kl_simd_max(kl_simd a, kl_simd b) {
    return _mm512_max_ps(a, b);
}
KL_INLINE kl_simd kl_simd_fma(kl_simd a, kl_simd b, kl_simd c) {
    return _mm512_fmadd_ps(a, b, c);
}
KL_INLINE kl_simd kl_simd_clear(kl_simd v, int bits) {
    const __m512i mask = _mm512_set1_epi32(bits);
    return _mm512_castsi512_ps(_mm512_andnot_si512(mask, _mm512_castps_si512(v)));
}
KL_INLINE kl_simd kl_simd_power(kl_simd v) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_castps_si512(v), 23));
}
KL_INLINE kl_simd kl_simd_fraction(kl_simd u) {
    enum { DOWN = 1 };
    return _mm512_reduce_ps(u, DOWN);
}
KL_INLINE kl_simd kl_simd_scale(kl_simd y, kl_simd u) {
    return _mm512_scalef_ps(y, u);
}

/* ---- transposition ---- */
KL_INLINE kl_simd kl_simd_zip_low(kl_simd a, kl_simd b) {
    return _mm512_unpacklo_ps(a, b);
}
KL_INLINE kl_simd kl_simd_zip_high(kl_simd a, kl_simd b) {
    return _mm512_unpackhi_ps(a, b);
}
KL_INLINE kl_simd kl_simd_zip_low_2(kl_simd a, kl_simd b) {
    return _mm512_castpd_ps(_mm512_unpacklo_pd(_mm512_castps_pd(a), _mm512_castps_pd(b)));
}
KL_INLINE kl_simd kl_simd_zip_high_2(kl_simd a, kl_simd b) {
    return _mm512_castpd_ps(_mm512_unpackhi_pd(_mm512_castps_pd(a), _mm512_castps_pd(b)));
}
/* The even quarters of two vectors, or with `high` the odd ones. */
#define KL_SIMD_PAIR(ab, cd, high) _mm512_shuffle_f32x4(ab, cd, high ? 0xdd : 0x88)
#define KL_SIMD_COLUMNS(k)                                                                    \
    do {                                                                                      \
        kl_simd even_ab = KL_SIMD_PAIR(a##k, b##k, 0), even_cd = KL_SIMD_PAIR(c##k, d##k, 0); \
        kl_simd odd_ab = KL_SIMD_PAIR(a##k, b##k, 1), odd_cd = KL_SIMD_PAIR(c##k, d##k, 1);   \
        t[k] = KL_SIMD_PAIR(even_ab, even_cd, 0);                                             \
        t[4 + k] = KL_SIMD_PAIR(odd_ab, odd_cd, 0);                                           \
        t[8 + k] = KL_SIMD_PAIR(even_ab, even_cd, 1);                                         \
        t[12 + k] = KL_SIMD_PAIR(odd_ab, odd_cd, 1);                                          \
    } while (0)
KL_INLINE void kl_simd_transpose(kl_simd *t) {
    KL_SIMD_FOUR(a, t);
    KL_SIMD_FOUR(b, t + 4);
    KL_SIMD_FOUR(c, t + 8);
    KL_SIMD_FOUR(d, t + 12);
    KL_SIMD_COLUMNS(0);
    KL_SIMD_COLUMNS(1);
    KL_SIMD_COLUMNS(2);
    KL_SIMD_COLUMNS(3);
}

/* ---- runs of 16-bit floats ---- */
/* The even elements come first, then the odd ones. */
static inline void kl_load_bf16(float *y, const uint16_t *x) {
    __m512i v = _mm512_loadu_si512(x);
    _mm512_storeu_si512(y, _mm512_slli_epi32(v, 16));
    _mm512_storeu_si512(y + 16, _mm512_and_si512(v, _mm512_set1_epi32(-0x10000)));
}
static inline bool kl_ordinary_bf16(const uint16_t *x) {
    __m512i v = _mm512_sub_epi16(_mm512_loadu_si512(x), _mm512_set1_epi16(0x0080));
    return !_mm512_cmpge_epu16_mask(v, _mm512_set1_epi16(0x7f00));
}
static inline void kl_clamp_halves(float *x, float lo, float hi) {
    for (int k = 0; k < KL_HALVES; k += 16) {
        __m512 v = _mm512_max_ps(_mm512_set1_ps(lo), _mm512_loadu_ps(x + k));
        _mm512_storeu_ps(x + k, _mm512_min_ps(_mm512_set1_ps(hi), v));
    }
}
static inline void kl_store_bf16(uint16_t *y, const float *x) {
    const __mmask32 odd = 0xaaaaaaaa;
    __m512i even = _mm512_loadu_si512(x), other = _mm512_loadu_si512(x + 16);
    __m512i high = _mm512_mask_mov_epi16(_mm512_srli_epi32(even, 16), odd, other);
    __m512i low = _mm512_mask_mov_epi16(even, odd, _mm512_slli_epi32(other, 16));
    _mm512_storeu_si512(y, kl_round_halves(high, low));
}
/* Rounds 32 float32 in the order of memory. Returns false, and does nothing, where one of them is
 * NaN, since rounding could carry the bits of a NaN into the sign. */
static inline bool kl_narrow_bf16(uint16_t *y, const float *x) {
    __m512 first = _mm512_loadu_ps(x), second = _mm512_loadu_ps(x + 16);
    if (_mm512_cmp_ps_mask(first, second, _CMP_UNORD_Q)) return false;
    kl_simd_store_bf16(y, first, second);
    return true;
}
#define KL_HAS_NARROW_BF16 1
static inline void kl_load_f16(float *y, const uint16_t *x) {
    for (int k = 0; k < KL_HALVES; k += 16)
        _mm512_storeu_ps(y + k, _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(x + k))));
}
static inline void kl_store_f16(uint16_t *y, const float *x) {
    for (int k = 0; k < KL_HALVES; k += 16)
        _mm256_storeu_si256((__m256i *)(y + k),
                            _mm512_cvtps_ph(_mm512_loadu_ps(x + k), _MM_FROUND_TO_NEAREST_INT));
}
