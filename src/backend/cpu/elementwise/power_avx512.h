/* power_avx512.h - |x|^y of float32, 16 at a time, with the bits of kl_pow_placed_f32: AVX-512
 * splits a number and scales by a power of two with an instruction each, so no exponent need be
 * limited, and each table is two registers. For power.c, which includes it. */
#include <immintrin.h>

/* The tables as float64, the first eight and the rest. log2 is for the exponent of x, which is one
 * less than that of m's power of two where m < 1. */
struct power_tables {
    __m512d inverse[2], log2[2];
};
static inline __m512d table_half(const float *table) {
    return _mm512_cvtps_pd(_mm256_loadu_ps(table));
}
static inline __m512d polynomial_f64(const double *c, int n, __m512d x) {
    __m512d y = _mm512_set1_pd(c[n - 1]);
#pragma GCC unroll 8
    for (int i = n - 2; i >= 0; i--) y = _mm512_fmadd_pd(y, x, _mm512_set1_pd(c[i]));
    return y;
}
#define POLYNOMIAL(c, x) polynomial_f64(c, (int)(sizeof(c) / sizeof *(c)), x)
static inline __m256 power_of_8(const float *px, const float *py,
                                const struct power_tables *tables) {
    const __m512d x = _mm512_cvtps_pd(_mm256_loadu_ps(px)),
                  y = _mm512_cvtps_pd(_mm256_loadu_ps(py)), one = _mm512_set1_pd(1),
                  shift = _mm512_set1_pd(KL_TO_INTEGER);
    __m512d m = _mm512_getmant_pd(x, _MM_MANT_NORM_p75_1p5, _MM_MANT_SIGN_zero);
    __m512d n = _mm512_getexp_pd(x);
    __m512i place = _mm512_srli_epi64(_mm512_castpd_si512(x), 48);
    __m512d inverse = _mm512_permutex2var_pd(tables->inverse[0], place, tables->inverse[1]);
    __m512d log2 = _mm512_permutex2var_pd(tables->log2[0], place, tables->log2[1]);
    __m512d r = _mm512_fmsub_pd(m, inverse, one);
    log2 = _mm512_fmadd_pd(r, POLYNOMIAL(kl_pow_log2_over_r, r), _mm512_add_pd(n, log2));
    /* For large exponents r is not small, but the polynomial is positive everywhere. */
    __m512d t = _mm512_fmadd_pd(y, log2, shift), whole = _mm512_sub_pd(t, shift);
    r = _mm512_fmsub_pd(y, log2, whole);
    return _mm512_cvtpd_ps(_mm512_scalef_pd(POLYNOMIAL(kl_pow_exp2, r), whole));
}
#undef POLYNOMIAL
/* An odd element has a sign, or gives NaN. */
static int runs_f32(int64_t n, float *z, const float *x, const float *y) {
    const struct power_tables tables = {
        {table_half(kl_pow_inverse), table_half(kl_pow_inverse + 8)},
        {table_half(kl_pow_log2), _mm512_add_pd(table_half(kl_pow_log2 + 8), _mm512_set1_pd(1))}};
    const __m512i digits = _mm512_set1_epi32(0x3fffff), none = _mm512_set1_epi32(-1);
    __mmask16 positive = 0xffff, not_simple = 0xffff;
    __mmask8 numbers = 0xff;
    for (; n > 0; n--, x += KL_MATH_RUN, y += KL_MATH_RUN, z += KL_MATH_RUN) {
        kl_math_ahead(x, z);
        positive = _mm512_mask_cmpgt_epi32_mask(positive, _mm512_loadu_si512(x), none);
        not_simple = _mm512_mask_test_epi32_mask(not_simple, _mm512_loadu_si512(y), digits);
        __m256 first = power_of_8(x, y, &tables), second = power_of_8(x + 8, y + 8, &tables);
        numbers = _mm256_mask_cmp_ps_mask(numbers, first, second, _CMP_ORD_Q);
        _mm256_storeu_ps(z, first);
        _mm256_storeu_ps(z + 8, second);
    }
    return (positive == 0xffff && numbers == 0xff ? 0 : ODD) |
           (not_simple == 0xffff ? 0 : MAY_BE_SIMPLE);
}
