/* transcendental.c - the maps of the elementary functions other than exp, logarithms and sqrt
 * (unary.c); see map.h. float32 by math/functions.h, what float64.c has not by the C library;
 * complex64 is in complex.c. */
#include <math.h>

#include "backend/cpu/math/extremes.h"
#include "backend/cpu/elementwise/map.h"
#include "backend/cpu/math/functions.h"
#include "backend/cpu/math/piecewise.h"

static inline float rsqrt_of_f32(float x) {
    return 1.0f / sqrtf(x);
}
static inline double rsqrt_of_f64(double x) {
    return 1 / sqrt(x);
}
/* sin(pi x) / (pi x): 1 at 0, 0 at infinity and at other whole numbers, never -0. With n the
 * integer nearest to |x|, |x| - n is exact and sin(pi |x|) = (-1)^n sin(pi (|x| - n)). */
static inline float sinc_of_f32(float x) {
    double d = fabs((double)kl_clamp_f32(x, -0x1p60f, 0x1p60f)), t = d + KL_TO_INTEGER;
    double whole = d < 0x1p51 ? t - KL_TO_INTEGER : d, a = KL_PI * (d - whole);
    double y = a * KL_POLYNOMIAL(kl_sin_over_r, a * a) / (KL_PI * d);
    uint64_t odd = d < 0x1p51 ? kl_f64_bits(t) << 63 : 0;
    return x == 0 ? 1 : (float)(kl_bits_f64(kl_f64_bits(y) ^ odd) + 0.0);
}
static inline float cbrt_of_f32(float x) {
    double size = fabs((double)x), a = size == 0 ? 1 : size; /* no denormals on the way: slow */
    double r = kl_inverse_cbrt(a);
    float y = copysignf((float)(a * r * r), x);
    return x == 0 || !(fabsf(x) < INFINITY) ? x : y;
}
/* log(exp(a) + exp(b)). The difference of equal operands, infinities among them, is taken as 0. In
 * double, since the sum may be much smaller than its terms. */
static inline float logaddexp_of_f32(float a, float b) {
    double d = a == b ? 0 : -fabs((double)a - (double)b);
    d = d < -690 ? -690 : d; /* a NaN is kept */
    return (float)((double)kl_max_f32(a, b) + kl_log1p_wide(kl_exp_wide(d)));
}

/* silu(a) b. silu(a) is computed in double and rounded once, so that it keeps its digits where it
 * is small. Below the bound it is -0 in the type, also at -infinity. */
static inline float silu_mul_of_f32(float a, float b) {
    double e = kl_exp_wide((double)kl_clamp_f32(a > 0 ? -a : a, -110, 0));
    double x = (double)(a < -110 ? -110 : a);
    return (float)((a > 0 ? x : x * e) / (1 + e)) * b;
}

/* In double no square of a float32 overflows or is denormal. An infinite operand counts more than a
 * NaN. */
static inline float hypot_of_f32(float a, float b) {
    double x = (double)a, y = (double)b;
    float r = (float)sqrt(x * x + y * y);
    return fabsf(a) == INFINITY || fabsf(b) == INFINITY ? INFINITY : r;
}
/* Large and small operands are multiplied by a power of two, so that no square leaves the range. */
static inline double hypot_of_f64(double a, double b) {
    double x = fabs(a), y = fabs(b), top = x > y ? x : y, low = x > y ? y : x;
    double by = top > 0x1p500 ? 0x1p-600 : top < 0x1p-500 ? 0x1p600 : 1;
    double back = top > 0x1p500 ? 0x1p600 : top < 0x1p-500 ? 0x1p-600 : 1;
    top *= by, low *= by;
    double r = sqrt(top * top + low * low) * back;
    return x == (double)INFINITY || y == (double)INFINITY ? (double)INFINITY : r;
}

/* ---- circular functions of float32. Arguments from KL_CIRCLE_MAX on go to the C library's
 * functions of float64: its float32 ones have errors up to 1.5 ulp ---- */
enum { RUN = 512 };
struct circular {
    kl_math_runs *near, *wide; /* for arguments below KL_CIRCLE_NEAR; below KL_CIRCLE_MAX */
    float (*wide_one)(float x);
    double (*far)(double x);
};
static void circular(const struct circular *f, int64_t n, float *y, const float *x) {
    for (int64_t at = 0; at < n; at += RUN, x += RUN, y += RUN) {
        const int64_t m = kl_min64(n - at, RUN);
        uint32_t top = 0; /* the largest magnitude, as twice its bits; NaN is above all */
        for (int64_t i = 0; i < m; i++)
            top = kl_f32_bits(x[i]) << 1 > top ? kl_f32_bits(x[i]) << 1 : top;
        const bool wide = top >= kl_f32_bits(KL_CIRCLE_NEAR) << 1;
        int far = 0;
        for (int64_t i = 0; wide && i < m; i++) far |= fabsf(x[i]) >= KL_CIRCLE_MAX;
        if (far)
            for (int64_t i = 0; i < m; i++)
                y[i] =
                    fabsf(x[i]) >= KL_CIRCLE_MAX ? (float)f->far((double)x[i]) : f->wide_one(x[i]);
        else
            kl_map_runs(wide ? f->wide : f->near, m, y, x, NULL);
    }
}
#ifdef __AVX512F__
#include "backend/cpu/elementwise/sin_cos_avx512.h"
#else
KL_MATH_RUNS(near_sin_runs, kl_sin_near_f32)
KL_MATH_RUNS(near_cos_runs, kl_cos_near_f32)
#endif
#define CIRCULAR(name, NEAR, WIDE, wide_one, far)                                         \
    static void name(int64_t n, void *out, const void *a, const void *b, const void *c) { \
        static const struct circular f = {NEAR, WIDE, wide_one, far};                     \
        circular(&f, n, out, a);                                                          \
    }
KL_MATH_RUNS(wide_sin_runs, kl_sin_f32)
KL_MATH_RUNS(wide_cos_runs, kl_cos_f32)
KL_MATH_RUNS(near_tan_runs, kl_tan_near_f32)
KL_MATH_RUNS(wide_tan_runs, kl_tan_f32)
CIRCULAR(sin_f32, near_sin_runs, wide_sin_runs, kl_sin_f32, sin)
CIRCULAR(cos_f32, near_cos_runs, wide_cos_runs, kl_cos_f32, cos)
CIRCULAR(tan_f32, near_tan_runs, wide_tan_runs, kl_tan_f32, tan)

KL_MATH_MAP(expm1_f32, expm1_f32_runs, kl_expm1_f32)
KL_MATH_MAP(log1p_f32, log1p_f32_runs, kl_log1p_f32)
KL_MATH_MAP(arcsin_f32, arcsin_f32_runs, kl_asin_f32)
KL_MATH_MAP(arccos_f32, arccos_f32_runs, kl_acos_f32)
KL_MATH_MAP(arctan_f32, arctan_f32_runs, kl_atan_f32)
KL_MATH_MAP(sinh_f32, sinh_f32_runs, kl_sinh_f32)
KL_MATH_MAP(cosh_f32, cosh_f32_runs, kl_cosh_f32)
KL_MATH_MAP(arcsinh_f32, arcsinh_f32_runs, kl_asinh_f32)
KL_MATH_MAP(arccosh_f32, arccosh_f32_runs, kl_acosh_f32)
KL_MATH_MAP(arctanh_f32, arctanh_f32_runs, kl_atanh_f32)
static void tanh_f32_runs(int64_t n, float *y, const float *x, const float *unused) {
    kl_piecewise_runs(kl_tanh_piecewise, 10, n, y, x);
}
static void erf_f32_runs(int64_t n, float *y, const float *x, const float *unused) {
    kl_piecewise_runs(kl_erf_piecewise, 3.99f, n, y, x);
}
static void tanh_f32(int64_t n, void *out, const void *a, const void *b, const void *c) {
    kl_map_runs(tanh_f32_runs, n, out, a, NULL);
}
static void erf_f32(int64_t n, void *out, const void *a, const void *b, const void *c) {
    kl_map_runs(erf_f32_runs, n, out, a, NULL);
}
KL_MATH_MAP(sinc_f32, sinc_f32_runs, sinc_of_f32)
KL_MATH_MAP(cbrt_f32, cbrt_f32_runs, cbrt_of_f32)
KL_MAP_1(rsqrt_f32, float, float, rsqrt_of_f32)
KL_MAP_1(rsqrt_f64, double, double, rsqrt_of_f64)
KL_MATH_MAP(sigmoid_f32, sigmoid_f32_runs, kl_sigmoid_f32)

KL_MATH_MAP_2(arctan2_f32, arctan2_f32_runs, kl_atan2_f32)
KL_MATH_MAP_2(logaddexp_f32, logaddexp_f32_runs, logaddexp_of_f32)
KL_MATH_MAP_2(hypot_f32, hypot_f32_runs, hypot_of_f32)
KL_MAP_2(hypot_f64, double, hypot_of_f64)
KL_MATH_MAP_2(silu_mul_f32, silu_mul_f32_runs, silu_mul_of_f32)

#define REALS(f) [KL_F32] = f##_f32, [KL_F64] = f##_f64

static kl_map_fn *const maps[][KL_N_DTYPES] = {
    [KL_OP_EXPM1] = {[KL_F32] = expm1_f32},
    [KL_OP_LOG1P] = {[KL_F32] = log1p_f32},
    [KL_OP_SIN] = {[KL_F32] = sin_f32},
    [KL_OP_COS] = {[KL_F32] = cos_f32},
    [KL_OP_TAN] = {[KL_F32] = tan_f32},
    [KL_OP_ARCSIN] = {[KL_F32] = arcsin_f32},
    [KL_OP_ARCCOS] = {[KL_F32] = arccos_f32},
    [KL_OP_ARCTAN] = {[KL_F32] = arctan_f32},
    [KL_OP_SINH] = {[KL_F32] = sinh_f32},
    [KL_OP_COSH] = {[KL_F32] = cosh_f32},
    [KL_OP_TANH] = {[KL_F32] = tanh_f32},
    [KL_OP_ARCSINH] = {[KL_F32] = arcsinh_f32},
    [KL_OP_ARCCOSH] = {[KL_F32] = arccosh_f32},
    [KL_OP_ARCTANH] = {[KL_F32] = arctanh_f32},
    [KL_OP_ERF] = {[KL_F32] = erf_f32},
    [KL_OP_RSQRT] = {REALS(rsqrt)},
    [KL_OP_CBRT] = {[KL_F32] = cbrt_f32},
    [KL_OP_SINC] = {[KL_F32] = sinc_f32},
    [KL_OP_SIGMOID] = {[KL_F32] = sigmoid_f32},
    [KL_OP_ARCTAN2] = {[KL_F32] = arctan2_f32},
    [KL_OP_LOGADDEXP] = {[KL_F32] = logaddexp_f32},
    [KL_OP_HYPOT] = {REALS(hypot)},
    [KL_OP_SILU_MUL] = {[KL_F32] = silu_mul_f32},
};

kl_map_fn *kl_cpu_transcendental_map(enum kl_op_id op, enum kl_dtype dtype) {
    return (size_t)op < sizeof maps / sizeof *maps ? maps[op][dtype] : NULL;
}
