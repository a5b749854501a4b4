/* cpu_transcendental.c - the maps of the elementary functions beyond exp, log and sqrt (cpu_unary.c); see cpu_map.h. float32 by cpu_math.h, float64 by libm, complex64 by
 * cpu_complex.h. */
#include <math.h>

#include "backend/cpu/cpu_complex.h"
#include "backend/cpu/cpu_map.h"
#include "backend/cpu/cpu_math.h"

#define MAP1(name, T, f)                                                                  \
    static void name(int64_t n, void *out, const void *a, const void *b, const void *c) { \
        const T *x = a;                                                                   \
        T *y = out;                                                                       \
        KL_EACH(i, n) y[i] = f(x[i]);                                                     \
    }
#define MAP2(name, T, f)                                                                  \
    static void name(int64_t n, void *out, const void *a, const void *b, const void *c) { \
        const T *x = a, *y = b;                                                           \
        T *z = out;                                                                       \
        KL_EACH(i, n) z[i] = f(x[i], y[i]);                                               \
    }
#define REAL(name, libm) MAP1(name##_f32, float, kl_##name##_f32) MAP1(name##_f64, double, libm)
#define COMPLEX(name) MAP1(name##_c64, struct kl_c64, kl_c64_##name)

static double rsqrt_of(double x) {
    return 1 / sqrt(x);
}
static double sigmoid_of(double x) {
    double e = exp(-fabs(x));
    return (x < 0 ? e : 1) / (1 + e);
}
static double logaddexp_of(double a, double b) {
    double d = a == b ? 0 : -fabs(a - b);
    return kl_max_f64(a, b) + log1p(exp(d));
}

REAL(expm1, expm1)
REAL(log1p, log1p)
REAL(log2, log2)
REAL(log10, log10)
REAL(sin, sin)
REAL(cos, cos)
REAL(tan, tan)
REAL(arcsin, asin)
REAL(arccos, acos)
REAL(arctan, atan)
REAL(sinh, sinh)
REAL(cosh, cosh)
REAL(tanh, tanh)
REAL(arcsinh, asinh)
REAL(arccosh, acosh)
REAL(arctanh, atanh)
REAL(erf, erf)
REAL(rsqrt, rsqrt_of)
REAL(sigmoid, sigmoid_of)
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

MAP2(arctan2_f32, float, kl_arctan2_f32)
MAP2(arctan2_f64, double, atan2)
MAP2(power_f32, float, kl_power_f32)
MAP2(power_f64, double, pow)
MAP2(power_c64, struct kl_c64, kl_c64_power)
MAP2(logaddexp_f32, float, kl_logaddexp_f32)
MAP2(logaddexp_f64, double, logaddexp_of)
MAP2(logaddexp_c64, struct kl_c64, kl_c64_logaddexp)

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
