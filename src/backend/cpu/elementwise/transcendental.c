/* transcendental.c - the maps of the elementary functions beyond exp, log and sqrt (unary.c); see map.h. float32 by math/functions.h, float64 by the C library, complex64 by
 * math/complex.h. */
#include <math.h>
#ifdef __AVX512F__
#include <immintrin.h>
#endif

#include "backend/cpu/math/complex.h"
#include "backend/cpu/math/extremes.h"
#include "backend/cpu/elementwise/map.h"
#include "backend/cpu/math/functions.h"
#include "backend/cpu/math/piecewise.h"

#define REAL(name, f) KL_MATH_MAP(name##_f32, kl_##f##_f32) KL_MAP_1(name##_f64, double, double, f)
#define COMPLEX(name) KL_MAP_1(name##_c64, struct kl_c64, struct kl_c64, kl_c64_##name)

static inline float rsqrt_of_f32(float x) {
    return 1.0f / sqrtf(x);
}
static inline double rsqrt_of_f64(double x) {
    return 1 / sqrt(x);
}
/* Of the magnitude, so that nothing overflows and small results keep their digits. */
static inline double sigmoid_of_f64(double x) {
    double e = exp(-fabs(x));
    return (x < 0 ? e : 1) / (1 + e);
}
/* sin(pi x) / (pi x): 1 at 0, 0 at infinity and at other whole numbers, never -0. With n the whole
 * number next to |x|, |x| - n is exact and sin(pi |x|) = (-1)^n sin(pi (|x| - n)). */
static inline float sinc_of_f32(float x) {
    double d = fabs((double)kl_clamp_f32(x, -0x1p60f, 0x1p60f)), t = d + KL_TO_INTEGER;
    double whole = d < 0x1p51 ? t - KL_TO_INTEGER : d, a = KL_PI * (d - whole);
    double y = a * KL_POLYNOMIAL(kl_sin_over_r, a * a) / (KL_PI * d);
    uint64_t odd = d < 0x1p51 ? kl_f64_bits(t) << 63 : 0;
    return x == 0 ? 1 : (float)(kl_bits_f64(kl_f64_bits(y) ^ odd) + 0.0);
}
static inline double sinc_of_f64(double x) {
    double d = fabs(x), whole = rint(d), y = sin(KL_PI * (d - whole)) / (KL_PI * d);
    if (isinf(d)) return 0;
    return d == 0 ? 1 : (d < 0x1p53 && (int64_t)whole % 2 ? -y : y) + 0.0;
}
/* A third of the exponent bits, moved so that the bias comes out right, is a first approximation with
 * 5 right bits; each step of Halley's method has three times as many: 15, 45. */
static inline float cbrt_of_f32(float x) {
    enum { MOVED = 715094163 }; /* two thirds of the bias, less what makes the error smallest */
    double a = fabs((double)x);
    uint32_t high = (uint32_t)(kl_f64_bits(a) >> 32) / 3 + MOVED;
    double y = kl_bits_f64((uint64_t)high << 32);
    for (int i = 0; i < 2; i++) {
        double cube = y * y * y;
        y *= (cube + 2 * a) / (2 * cube + a);
    }
    return x == 0 || !(a < (double)INFINITY) ? x : copysignf((float)y, x);
}
/* log(exp(a) + exp(b)). Equal operands, infinities among them, have no difference to take. In double, since the sum may be much smaller than its terms. */
static inline float logaddexp_of_f32(float a, float b) {
    double d = a == b ? 0 : -fabs((double)a - (double)b);
    d = d < -690 ? -690 : d; /* NaN stays */
    return (float)((double)kl_max_f32(a, b) + kl_log1p_wide(kl_exp_wide(d)));
}
static inline double logaddexp_of_f64(double a, double b) {
    double d = a == b ? 0 : -fabs(a - b);
    return kl_max_f64(a, b) + log1p(exp(d));
}

/* ---- circular functions of float32: large arguments are rare, and the largest the C library's for float64, whose float32 ones are up to 1.5 ulp off ---- */
enum { BLOCK = 512 };
struct circular {
    kl_math_blocks *near, *wide; /* below KL_CIRCLE_NEAR, KL_CIRCLE_MAX */
    float (*wide_one)(float x);
    double (*far)(double x);
};
static void circular(const struct circular *f, int64_t n, float *y, const float *x) {
    for (int64_t at = 0; at < n; at += BLOCK, x += BLOCK, y += BLOCK) {
        const int64_t m = kl_min64(n - at, BLOCK);
        int wide = 0, far = 0;
        for (int64_t i = 0; i < m; i++) wide |= !(fabsf(x[i]) < KL_CIRCLE_NEAR);
        for (int64_t i = 0; wide && i < m; i++) far |= fabsf(x[i]) >= KL_CIRCLE_MAX;
        if (far)
            for (int64_t i = 0; i < m; i++)
                y[i] =
                    fabsf(x[i]) >= KL_CIRCLE_MAX ? (float)f->far((double)x[i]) : f->wide_one(x[i]);
        else
            kl_run_blocks(wide ? f->wide : f->near, m, y, x, NULL);
    }
}
#ifdef __AVX512F__
/* kl_circle_f32, bit for bit: gcc computes both polynomials, and chooses then. */
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
static void near_sin_blocks(int64_t n, float *y, const float *x, const float *unused) {
    const __m512i sign = _mm512_set1_epi32(INT32_MIN);
    for (; n > 0; n--, x += KL_MATH_BLOCK, y += KL_MATH_BLOCK) {
        kl_math_ahead(x, y);
        __m512 v = _mm512_loadu_ps(x), z = circle(_mm512_abs_ps(v), _mm512_setzero_si512());
        __m512i flipped = _mm512_ternarylogic_epi32(_mm512_castps_si512(z), _mm512_castps_si512(v),
                                                    sign, 0x78); /* z ^ (v & sign) */
        _mm512_storeu_si512(y, flipped);
    }
}
static void near_cos_blocks(int64_t n, float *y, const float *x, const float *unused) {
    for (; n > 0; n--, x += KL_MATH_BLOCK, y += KL_MATH_BLOCK) {
        kl_math_ahead(x, y);
        _mm512_storeu_ps(y, circle(_mm512_abs_ps(_mm512_loadu_ps(x)), _mm512_set1_epi32(1)));
    }
}
#else
KL_MATH_BLOCKS(near_sin_blocks, kl_sin_near_f32)
KL_MATH_BLOCKS(near_cos_blocks, kl_cos_near_f32)
#endif
#define CIRCULAR(name, NEAR)                                                                    \
    KL_MATH_BLOCKS(wide_##name##_blocks, kl_##name##_f32)                                       \
    static void name##_f32(int64_t n, void *out, const void *a, const void *b, const void *c) { \
        static const struct circular f = {NEAR, wide_##name##_blocks, kl_##name##_f32, name};   \
        circular(&f, n, out, a);                                                                \
    }
CIRCULAR(sin, near_sin_blocks)
CIRCULAR(cos, near_cos_blocks)
CIRCULAR(tan, wide_tan_blocks)
KL_MAP_1(sin_f64, double, double, sin)
KL_MAP_1(cos_f64, double, double, cos)
KL_MAP_1(tan_f64, double, double, tan)

REAL(expm1, expm1)
REAL(log1p, log1p)
REAL(log2, log2)
REAL(log10, log10)
REAL(arcsin, asin)
REAL(arccos, acos)
REAL(arctan, atan)
REAL(sinh, sinh)
REAL(cosh, cosh)
REAL(arcsinh, asinh)
REAL(arccosh, acosh)
REAL(arctanh, atanh)
#define PIECES(name, most)                                                                      \
    static void name##_blocks(int64_t n, float *y, const float *x, const float *unused) {       \
        kl_pieces_blocks(kl_##name##_pieces, most, n, y, x);                                    \
    }                                                                                           \
    static void name##_f32(int64_t n, void *out, const void *a, const void *b, const void *c) { \
        kl_run_blocks(name##_blocks, n, out, a, NULL);                                          \
    }                                                                                           \
    KL_MAP_1(name##_f64, double, double, name)
PIECES(tanh, 10)
PIECES(erf, 3.99f)
KL_MATH_MAP(sinc_f32, sinc_of_f32)
KL_MAP_1(sinc_f64, double, double, sinc_of_f64)
KL_MATH_MAP(cbrt_f32, cbrt_of_f32)
KL_MAP_1(cbrt_f64, double, double, cbrt)
KL_MAP_1(rsqrt_f32, float, float, rsqrt_of_f32)
KL_MAP_1(rsqrt_f64, double, double, rsqrt_of_f64)
KL_MATH_MAP(sigmoid_f32, kl_sigmoid_f32)
KL_MAP_1(sigmoid_f64, double, double, sigmoid_of_f64)
COMPLEX(log1p)
COMPLEX(log2)
COMPLEX(log10)
COMPLEX(sin)
COMPLEX(cos)
COMPLEX(tan)
COMPLEX(arcsin)
COMPLEX(arccos)
COMPLEX(arctan)
COMPLEX(sinh)
COMPLEX(cosh)
COMPLEX(tanh)
COMPLEX(arcsinh)
COMPLEX(arccosh)
COMPLEX(arctanh)
COMPLEX(rsqrt)

KL_MATH_MAP_2(arctan2_f32, kl_atan2_f32)
KL_MAP_2(arctan2_f64, double, atan2)
KL_MATH_MAP_2(power_f32, kl_pow_f32)
KL_MAP_2(power_f64, double, pow)
KL_MAP_2(power_c64, struct kl_c64, kl_c64_power)
KL_MATH_MAP_2(logaddexp_f32, logaddexp_of_f32)
KL_MAP_2(logaddexp_f64, double, logaddexp_of_f64)
KL_MAP_2(logaddexp_c64, struct kl_c64, kl_c64_logaddexp)

#define REALS(f) [KL_F32] = f##_f32, [KL_F64] = f##_f64
#define INEXACT(f) REALS(f), [KL_C64] = f##_c64

static kl_map_fn *const maps[][KL_N_DTYPES] = {
    [KL_OP_EXPM1] = {REALS(expm1)},       [KL_OP_LOG1P] = {INEXACT(log1p)},
    [KL_OP_LOG2] = {INEXACT(log2)},       [KL_OP_LOG10] = {INEXACT(log10)},
    [KL_OP_SIN] = {INEXACT(sin)},         [KL_OP_COS] = {INEXACT(cos)},
    [KL_OP_TAN] = {INEXACT(tan)},         [KL_OP_ARCSIN] = {INEXACT(arcsin)},
    [KL_OP_ARCCOS] = {INEXACT(arccos)},   [KL_OP_ARCTAN] = {INEXACT(arctan)},
    [KL_OP_SINH] = {INEXACT(sinh)},       [KL_OP_COSH] = {INEXACT(cosh)},
    [KL_OP_TANH] = {INEXACT(tanh)},       [KL_OP_ARCSINH] = {INEXACT(arcsinh)},
    [KL_OP_ARCCOSH] = {INEXACT(arccosh)}, [KL_OP_ARCTANH] = {INEXACT(arctanh)},
    [KL_OP_ERF] = {REALS(erf)},           [KL_OP_RSQRT] = {INEXACT(rsqrt)},
    [KL_OP_CBRT] = {REALS(cbrt)},         [KL_OP_SINC] = {REALS(sinc)},
    [KL_OP_SIGMOID] = {REALS(sigmoid)},   [KL_OP_ARCTAN2] = {REALS(arctan2)},
    [KL_OP_POWER] = {INEXACT(power)},     [KL_OP_LOGADDEXP] = {INEXACT(logaddexp)},
};

kl_map_fn *kl_cpu_transcendental_map(enum kl_op_id op, enum kl_dtype dtype) {
    return (size_t)op < sizeof maps / sizeof *maps ? maps[op][dtype] : NULL;
}
