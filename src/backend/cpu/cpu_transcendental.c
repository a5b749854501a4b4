/* cpu_transcendental.c - the maps of the elementary functions beyond exp, log and sqrt (cpu_unary.c); see cpu_map.h. float32 by cpu_math.h, float64 by the C library, complex64 by
 * cpu_complex.h. */
#include <math.h>

#include "backend/cpu/cpu_complex.h"
#include "backend/cpu/cpu_extremes.h"
#include "backend/cpu/cpu_map.h"
#include "backend/cpu/cpu_math.h"
#include "backend/cpu/cpu_pieces.h"

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

/* ---- circular functions of float32: large arguments are rare, and the C library's for float64, whose float32 ones are up to 1.5 ulp off ---- */
enum { BLOCK = 512 };
static void circular(int64_t n, float *y, const float *x, kl_math_blocks *near,
                     float near_one(float x), double far(double x)) {
    for (int64_t at = 0; at < n; at += BLOCK, x += BLOCK, y += BLOCK) {
        const int64_t m = kl_min64(n - at, BLOCK);
        int some = 0;
        for (int64_t i = 0; i < m; i++) some |= fabsf(x[i]) >= KL_CIRCLE_MAX;
        if (some)
            for (int64_t i = 0; i < m; i++)
                y[i] = fabsf(x[i]) >= KL_CIRCLE_MAX ? (float)far((double)x[i]) : near_one(x[i]);
        else
            kl_run_blocks(near, m, y, x, NULL);
    }
}
KL_MATH_BLOCKS(near_sin_blocks, kl_sin_f32)
KL_MATH_BLOCKS(near_cos_blocks, kl_cos_f32)
KL_MATH_BLOCKS(near_tan_blocks, kl_tan_f32)
static void sin_f32(int64_t n, void *out, const void *a, const void *b, const void *c) {
    circular(n, out, a, near_sin_blocks, kl_sin_f32, sin);
}
static void cos_f32(int64_t n, void *out, const void *a, const void *b, const void *c) {
    circular(n, out, a, near_cos_blocks, kl_cos_f32, cos);
}
static void tan_f32(int64_t n, void *out, const void *a, const void *b, const void *c) {
    circular(n, out, a, near_tan_blocks, kl_tan_f32, tan);
}
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
    [KL_OP_SIGMOID] = {REALS(sigmoid)},   [KL_OP_ARCTAN2] = {REALS(arctan2)},
    [KL_OP_POWER] = {INEXACT(power)},     [KL_OP_LOGADDEXP] = {INEXACT(logaddexp)},
};

kl_map_fn *kl_cpu_transcendental_map(enum kl_op_id op, enum kl_dtype dtype) {
    return (size_t)op < sizeof maps / sizeof *maps ? maps[op][dtype] : NULL;
}
