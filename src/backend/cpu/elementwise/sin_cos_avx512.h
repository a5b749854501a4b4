/* sin_cos_avx512.h - maps of sin and cos of float32 below KL_CIRCLE_NEAR. They give the bits of
 * kl_circle_f32 with one polynomial for each element; gcc computes both polynomials and then
 * chooses. For transcendental.c, which includes it. */
#include <immintrin.h>

static inline __m512 circle(__m512 a, __m512i quarters) {
#define ALL(x) _mm512_set1_ps(x)
    const __m512 to_integer = ALL(KL_TO_INTEGER_F32);
    __m512 t = _mm512_fmadd_ps(a, ALL(KL_QUARTERS_F32), to_integer);
    __m512 n = _mm512_sub_ps(t, to_integer);
    __m512 first = _mm512_fnmadd_ps(n, ALL(KL_QUARTER_1), a);
    __m512 r = _mm512_fnmadd_ps(n, ALL(KL_QUARTER_2), first);
    __m512 less = _mm512_fmadd_ps(n, ALL(KL_QUARTER_2), _mm512_sub_ps(r, first));
    less = _mm512_fmadd_ps(n, ALL(KL_QUARTER_3), less);
    __m512i q = _mm512_add_epi32(_mm512_castps_si512(t), quarters);
    __mmask16 odd = _mm512_test_epi32_mask(q, _mm512_set1_epi32(1));
    __m512 s = _mm512_mul_ps(r, r), half = _mm512_mul_ps(_mm512_fmsub_ps(r, r, s), ALL(0.5f));
    less = _mm512_mask_fnmadd_ps(less, odd, r, half);
    __m512 p = _mm512_mask_blend_ps(odd, ALL(kl_sin_rest[3]), ALL(kl_cos_rest[3]));
#pragma GCC unroll 3
    for (int i = 2; i >= 0; i--)
        p = _mm512_fmadd_ps(p, s,
                            _mm512_mask_blend_ps(odd, ALL(kl_sin_rest[i]), ALL(kl_cos_rest[i])));
    __m512 m = _mm512_mask_mul_ps(s, _mm512_knot(odd), s, r);
    p = _mm512_add_ps(_mm512_mask_blend_ps(odd, r, ALL(1)), _mm512_fmsub_ps(m, p, less));
    q = _mm512_and_si512(_mm512_slli_epi32(q, 30), _mm512_set1_epi32(INT32_MIN));
    return _mm512_castsi512_ps(_mm512_xor_si512(_mm512_castps_si512(p), q));
#undef ALL
}
static void near_sin_runs(int64_t n, float *y, const float *x, const float *unused) {
    const __m512i sign = _mm512_set1_epi32(INT32_MIN);
    for (; n > 0; n--, x += KL_MATH_RUN, y += KL_MATH_RUN) {
        kl_math_ahead(x, y);
        __m512 v = _mm512_loadu_ps(x), z = circle(_mm512_abs_ps(v), _mm512_setzero_si512());
        __m512i flipped = _mm512_ternarylogic_epi32(_mm512_castps_si512(z), _mm512_castps_si512(v),
                                                    sign, 0x78); /* z ^ (v & sign) */
        _mm512_storeu_si512(y, flipped);
    }
}
static void near_cos_runs(int64_t n, float *y, const float *x, const float *unused) {
    for (; n > 0; n--, x += KL_MATH_RUN, y += KL_MATH_RUN) {
        kl_math_ahead(x, y);
        _mm512_storeu_ps(y, circle(_mm512_abs_ps(_mm512_loadu_ps(x)), _mm512_set1_epi32(1)));
    }
}
