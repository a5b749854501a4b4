/* power_avx2.h - |x|^y of float32, 16 at a time, with the bits of kl_pow_placed_f32: numbers of a
 * table are chosen in registers, where gcc would load each by itself. For power.c, which includes
 * it. */
#include <immintrin.h>

/* The tables' numbers of eight places, in 32 bits whose lowest four count. */
static inline __m256 chosen(const float *table, __m256i place) {
    __m256 low = _mm256_permutevar8x32_ps(_mm256_loadu_ps(table), place);
    __m256 high = _mm256_permutevar8x32_ps(_mm256_loadu_ps(table + 8), place);
    return _mm256_blendv_ps(low, high, _mm256_castsi256_ps(_mm256_slli_epi32(place, 28)));
}
static inline __m256d polynomial_f64(const double *c, int n, __m256d x) {
    __m256d y = _mm256_set1_pd(c[n - 1]);
#pragma GCC unroll 8
    for (int i = n - 2; i >= 0; i--) y = _mm256_fmadd_pd(y, x, _mm256_set1_pd(c[i]));
    return y;
}
#define POLYNOMIAL(c, x) polynomial_f64(c, (int)(sizeof(c) / sizeof *(c)), x)
static inline __m128 power_of_4(__m256d x, __m256d y, __m128 inverse, __m128 log2) {
    const __m256i exponent = _mm256_set1_epi64x(INT64_C(0x7ff) << 52);
    const __m256d magic = _mm256_set1_pd(0x1p52 + 1023),
                  shift = _mm256_set1_pd(KL_TO_INTEGER + 1023);
    __m256i u = _mm256_castpd_si256(x);
    __m256i moved = _mm256_add_epi64(u, _mm256_set1_epi64x(INT64_C(1) << 51));
    __m256i biased =
        _mm256_or_si256(_mm256_srli_epi64(moved, 52), _mm256_set1_epi64x(0x4330000000000000));
    __m256d n = _mm256_sub_pd(_mm256_castsi256_pd(biased), magic);
    u = _mm256_sub_epi64(u, _mm256_and_si256(moved, exponent));
    u = _mm256_add_epi64(u, _mm256_set1_epi64x(INT64_C(1023) << 52));
    __m256d r =
        _mm256_fmsub_pd(_mm256_castsi256_pd(u), _mm256_cvtps_pd(inverse), _mm256_set1_pd(1));
    n = _mm256_add_pd(n, _mm256_cvtps_pd(log2));
    n = _mm256_fmadd_pd(r, POLYNOMIAL(kl_pow_log2_over_r, r), n);
    __m256d t = _mm256_fmadd_pd(y, n, shift);
    r = _mm256_fmadd_pd(y, n, _mm256_sub_pd(shift, t));
    t = _mm256_max_pd(t, _mm256_set1_pd(KL_TO_INTEGER + 1023 - 160));
    t = _mm256_min_pd(t, _mm256_set1_pd(KL_TO_INTEGER + 1023 + 160));
    __m256d scale = _mm256_castsi256_pd(_mm256_slli_epi64(_mm256_castpd_si256(t), 52));
    return _mm256_cvtpd_ps(_mm256_mul_pd(POLYNOMIAL(kl_pow_exp2, r), scale));
}
#undef POLYNOMIAL
static inline __m256d absolute_f64(const float *x) {
    return _mm256_andnot_pd(_mm256_set1_pd(-0.0), _mm256_cvtps_pd(_mm_loadu_ps(x)));
}
static inline void power_of_8(float *z, const float *x, const float *y) {
    __m256d low = absolute_f64(x), high = absolute_f64(x + 4);
    /* The upper halves of the float64, of which bits 16 to 19 are the place. */
    __m256 upper = _mm256_shuffle_ps(_mm256_castpd_ps(low), _mm256_castpd_ps(high), 0xdd);
    __m256i place = _mm256_permute4x64_epi64(_mm256_castps_si256(upper), 0xd8);
    place = _mm256_srli_epi32(place, 16);
    __m256 inverse = chosen(kl_pow_inverse, place), log2 = chosen(kl_pow_log2, place);
    __m256 limit = _mm256_set1_ps(0x1p40f), exponent = _mm256_min_ps(_mm256_loadu_ps(y), limit);
    exponent = _mm256_max_ps(exponent, _mm256_sub_ps(_mm256_setzero_ps(), limit));
    __m256d y_low = _mm256_cvtps_pd(_mm256_castps256_ps128(exponent)),
            y_high = _mm256_cvtps_pd(_mm256_extractf128_ps(exponent, 1));
    _mm_storeu_ps(
        z, power_of_4(low, y_low, _mm256_castps256_ps128(inverse), _mm256_castps256_ps128(log2)));
    _mm_storeu_ps(z + 4, power_of_4(high, y_high, _mm256_extractf128_ps(inverse, 1),
                                    _mm256_extractf128_ps(log2, 1)));
}
static void ordinary_f32_runs(int64_t n, float *z, const float *x, const float *y) {
    for (n *= 2; n > 0; n--, x += 8, y += 8, z += 8) power_of_8(z, x, y);
}
