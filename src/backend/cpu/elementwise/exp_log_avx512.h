/* exp_log_avx512.h - maps of exp and log of float32. They give the bits of kl_exp_f32 and
 * kl_log_f32 in half as many instructions as gcc makes: AVX-512 has instructions that clamp, that
 * scale by a power of two with one rounding (for denormal results) and that insert special values.
 * For unary.c, which includes it. */
#include <immintrin.h>

static void exp_f32_runs(int64_t n, float *y, const float *x, const float *unused) {
    const __m512 to_integer = _mm512_set1_ps(KL_TO_INTEGER_F32);
    for (; n > 0; n--, x += KL_MATH_RUN, y += KL_MATH_RUN) {
        /* max and min give their second operand where one is NaN. */
        __m512 c = _mm512_max_ps(_mm512_set1_ps(-105), _mm512_loadu_ps(x));
        c = _mm512_min_ps(_mm512_set1_ps(89), c);
        __m512 t = _mm512_fmadd_ps(c, _mm512_set1_ps(KL_LOG2_E_F32), to_integer),
               m = _mm512_sub_ps(t, to_integer);
        __m512 r = _mm512_fnmadd_ps(m, _mm512_set1_ps(KL_LN2_F32), c);
        r = _mm512_fnmadd_ps(m, _mm512_set1_ps(KL_LN2_REST_F32), r);
        __m512 p = _mm512_set1_ps(kl_exp_of_r[6]);
#pragma GCC unroll 6
        for (int i = 5; i >= 0; i--) p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(kl_exp_of_r[i]));
        _mm512_storeu_ps(y, _mm512_scalef_ps(p, m));
    }
}
/* As kl_log_normal_f32, but `bias` is 127 less. */
static inline __m512 log_normal_f32(__m512 v, __m512 bias) {
    const __m512i root = _mm512_set1_epi32(0x3f3504f3); /* the bits of sqrt(1/2) */
    const __m512 high = _mm512_set1_ps(0x1.62e4p-1f);
    __m512i u = _mm512_sub_epi32(_mm512_castps_si512(v), root);
    __m512 e = _mm512_sub_ps(_mm512_cvtepi32_ps(_mm512_srai_epi32(u, 23)), bias);
    u = _mm512_add_epi32(_mm512_and_si512(u, _mm512_set1_epi32(0x7fffff)), root);
    __m512 f = _mm512_sub_ps(_mm512_castsi512_ps(u), _mm512_set1_ps(1));
    __m512 sum = _mm512_fmadd_ps(e, high, f), part = _mm512_fmsub_ps(e, high, sum);
    __m512 rest = _mm512_fmadd_ps(e, _mm512_set1_ps(0x1.7f7d1cp-20f), _mm512_add_ps(f, part));
    __m512 p = _mm512_set1_ps(kl_log_rest[9]);
#pragma GCC unroll 9
    for (int i = 8; i >= 0; i--) p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(kl_log_rest[i]));
    return _mm512_add_ps(sum, _mm512_fmadd_ps(_mm512_mul_ps(f, f), p, rest));
}
static __attribute__((noinline)) __m512 log_any_f32(__m512 v) {
    /* Table of _mm512_fixupimm_ps: one hexadecimal digit for each class of v, from the lowest
     * digit: quiet NaN, signalling NaN, 0, 1, -infinity, +infinity, negative, positive. 0 keeps
     * y. */
    const __m512i ends = _mm512_set1_epi32(0x03530422);
    __mmask16 small = _mm512_cmp_ps_mask(v, _mm512_set1_ps(0x1p-126f), _CMP_LT_OQ);
    __m512 y = log_normal_f32(_mm512_mask_mul_ps(v, small, v, _mm512_set1_ps(0x1p24f)),
                              _mm512_maskz_mov_ps(small, _mm512_set1_ps(24)));
    return _mm512_fixupimm_ps(y, v, ends, 0);
}
static void log_f32_runs(int64_t n, float *y, const float *x, const float *unused) {
    enum { NOT_POSITIVE_AND_NORMAL = 0xff };
    for (; n > 0; n--, x += KL_MATH_RUN, y += KL_MATH_RUN) {
        __m512 v = _mm512_loadu_ps(x);
        bool odd = _mm512_fpclass_ps_mask(v, NOT_POSITIVE_AND_NORMAL) != 0;
        _mm512_storeu_ps(y, odd ? log_any_f32(v) : log_normal_f32(v, _mm512_setzero_ps()));
    }
}
