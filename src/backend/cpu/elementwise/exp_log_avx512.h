/* exp_log_avx512.h - maps of exp and the logarithms of float32. They give the bits of kl_exp_f32,
 * kl_log_f32, kl_log2_f32 and kl_log10_f32 in half as many instructions as gcc makes: AVX-512 has
 * instructions that clamp, that scale by a power of two with one rounding (for denormal results)
 * and that insert special values. For unary.c, which includes it. */
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
/* v = 2^n (1 + f), as in kl_log_normal_f32, but `bias` is 127 less. */
struct log_parts {
    __m512 n, f;
};
static inline struct log_parts log_split(__m512 v, __m512 bias) {
    const __m512i root = _mm512_set1_epi32(0x3f3504f3); /* the bits of sqrt(1/2) */
    __m512i u = _mm512_sub_epi32(_mm512_castps_si512(v), root);
    __m512 n = _mm512_sub_ps(_mm512_cvtepi32_ps(_mm512_srai_epi32(u, 23)), bias);
    u = _mm512_add_epi32(_mm512_and_si512(u, _mm512_set1_epi32(0x7fffff)), root);
    return (struct log_parts){n, _mm512_sub_ps(_mm512_castsi512_ps(u), _mm512_set1_ps(1))};
}
static inline __m512 log_rest(__m512 f) {
    __m512 p = _mm512_set1_ps(kl_log_rest[9]);
#pragma GCC unroll 9
    for (int i = 8; i >= 0; i--) p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(kl_log_rest[i]));
    return p;
}
static inline __m512 log_normal_f32(__m512 v, __m512 bias) {
    const __m512 high = _mm512_set1_ps(0x1.62e4p-1f);
    const struct log_parts x = log_split(v, bias);
    __m512 sum = _mm512_fmadd_ps(x.n, high, x.f), part = _mm512_fmsub_ps(x.n, high, sum);
    __m512 rest = _mm512_fmadd_ps(x.n, _mm512_set1_ps(0x1.7f7d1cp-20f), _mm512_add_ps(x.f, part));
    return _mm512_add_ps(sum, _mm512_fmadd_ps(_mm512_mul_ps(x.f, x.f), log_rest(x.f), rest));
}
/* As kl_log_based_f32. n times `two` is exact there, so it needs no product of its own here. */
static inline __attribute__((always_inline)) __m512
log_based_f32(__m512 v, __m512 bias, float by, float by_low, float two, float two_low) {
    const __m512 high = _mm512_set1_ps(two), scale = _mm512_set1_ps(by);
    const struct log_parts x = log_split(v, bias);
    __m512 y = _mm512_mul_ps(x.f, scale), more = _mm512_fmsub_ps(x.f, scale, y);
    more = _mm512_fmadd_ps(x.f, _mm512_set1_ps(by_low), more);
    __m512 sum = _mm512_fmadd_ps(x.n, high, y), part = _mm512_fmsub_ps(x.n, high, sum);
    __m512 rest = _mm512_add_ps(_mm512_add_ps(y, part), more);
    rest = _mm512_fmadd_ps(x.n, _mm512_set1_ps(two_low), rest);
    __m512 square = _mm512_mul_ps(x.f, x.f), tail = _mm512_mul_ps(log_rest(x.f), scale);
    rest = _mm512_fmadd_ps(_mm512_fmsub_ps(x.f, x.f, square), tail, rest);
    return _mm512_add_ps(sum, _mm512_fmadd_ps(square, tail, rest));
}
static inline __m512 log2_normal_f32(__m512 v, __m512 bias) {
    return log_based_f32(v, bias, KL_LOG2_BASE);
}
static inline __m512 log10_normal_f32(__m512 v, __m512 bias) {
    return log_based_f32(v, bias, KL_LOG10_BASE);
}

/* Runs of a logarithm, whose function of normal numbers is NORMAL; ANY is one of all numbers. */
#define LOGARITHM(runs, NORMAL, ANY)                                                               \
    static __attribute__((noinline)) __m512 ANY(__m512 v) {                                        \
        /* Table of _mm512_fixupimm_ps: one hexadecimal digit for each class of v, from the      \
         * lowest digit: quiet NaN, signalling NaN, 0, 1, -infinity, +infinity, negative,        \
         * positive. 0 keeps y. */ \
        const __m512i ends = _mm512_set1_epi32(0x03530422);                                        \
        __mmask16 small = _mm512_cmp_ps_mask(v, _mm512_set1_ps(0x1p-126f), _CMP_LT_OQ);            \
        __m512 y = NORMAL(_mm512_mask_mul_ps(v, small, v, _mm512_set1_ps(0x1p24f)),                \
                          _mm512_maskz_mov_ps(small, _mm512_set1_ps(24)));                         \
        return _mm512_fixupimm_ps(y, v, ends, 0);                                                  \
    }                                                                                              \
    static void runs(int64_t n, float *y, const float *x, const float *unused) {                   \
        enum { NOT_POSITIVE_AND_NORMAL = 0xff };                                                   \
        for (; n > 0; n--, x += KL_MATH_RUN, y += KL_MATH_RUN) {                                   \
            __m512 v = _mm512_loadu_ps(x);                                                         \
            bool odd = _mm512_fpclass_ps_mask(v, NOT_POSITIVE_AND_NORMAL) != 0;                    \
            _mm512_storeu_ps(y, odd ? ANY(v) : NORMAL(v, _mm512_setzero_ps()));                    \
        }                                                                                          \
    }
LOGARITHM(log_f32_runs, log_normal_f32, log_any_f32)
LOGARITHM(log2_f32_runs, log2_normal_f32, log2_any_f32)
LOGARITHM(log10_f32_runs, log10_normal_f32, log10_any_f32)
#undef LOGARITHM
