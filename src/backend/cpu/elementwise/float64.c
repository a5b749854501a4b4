/* float64.c - the maps of the elementary functions of float64; see map.h. Their functions are in
 * math/functions_f64.h, powers in power.c; the C library has circular functions of large
 * arguments. */
#include <math.h>
#include <string.h>

#include "backend/cpu/elementwise/map.h"
#include "backend/cpu/math/functions_f64.h"

enum { RUN = KL_MATH_RUN };
#define RUNS(name, EACH)                                                               \
    static void name(int64_t n, double *z, const double *x, const double *unused) {    \
        for (; n > 0; n--, x += RUN, z += RUN) KL_EACH_LANE(k, RUN) z[k] = EACH(x[k]); \
    }
#define MAP(name, runs, EACH)                                                             \
    RUNS(runs, EACH)                                                                      \
    static void name(int64_t n, void *out, const void *a, const void *b, const void *c) { \
        kl_map_runs_f64(runs, n, out, a, NULL);                                           \
    }
MAP(exp_f64, exp_runs, kl_exp_f64)
MAP(expm1_f64, expm1_runs, kl_expm1_f64)
MAP(sinh_f64, sinh_runs, kl_sinh_f64)
MAP(cosh_f64, cosh_runs, kl_cosh_f64)
MAP(tanh_f64, tanh_runs, kl_tanh_f64)
MAP(sigmoid_f64, sigmoid_runs, kl_sigmoid_f64)
MAP(erf_f64, erf_runs, kl_erf_f64)
MAP(log1p_f64, log1p_runs, kl_log1p_f64)
MAP(arcsinh_f64, arcsinh_runs, kl_asinh_f64)
MAP(arccosh_f64, arccosh_runs, kl_acosh_f64)
MAP(arctanh_f64, arctanh_runs, kl_atanh_f64)
MAP(arcsin_f64, arcsin_runs, kl_asin_f64)
MAP(arccos_f64, arccos_runs, kl_acos_f64)
MAP(arctan_f64, arctan_runs, kl_atan_f64)
MAP(cbrt_f64, cbrt_runs, kl_cbrt_f64)
MAP(sinc_f64, sinc_runs, kl_sinc_f64)

/* ---- logarithms ---- */
/* Whether all are positive, normal and finite, as in nearly every run, which then needs none of the
 * choices that are half of the work. */
KL_INLINE bool ordinary(const double *x) {
    const uint64_t least = kl_f64_bits(0x1p-1022), end = kl_f64_bits((double)INFINITY);
    int64_t others = 0;
    KL_EACH(k, RUN) others |= kl_f64_bits(x[k]) - least >= end - least;
    return !others;
}
#define LOGARITHM(name, runs, OF, EACH)                                                   \
    static void runs(int64_t n, double *z, const double *x, const double *unused) {       \
        for (; n > 0; n--, x += RUN, z += RUN)                                            \
            if (ordinary(x))                                                              \
                KL_EACH_LANE(k, RUN) z[k] = OF(kl_log_normal(x[k]));                      \
            else                                                                          \
                KL_EACH_LANE(k, RUN) z[k] = EACH(x[k]);                                   \
    }                                                                                     \
    static void name(int64_t n, void *out, const void *a, const void *b, const void *c) { \
        kl_map_runs_f64(runs, n, out, a, NULL);                                           \
    }
LOGARITHM(log_f64, log_runs, kl_log_natural, kl_log_f64)
LOGARITHM(log2_f64, log2_runs, kl_log_binary, kl_log2_f64)
LOGARITHM(log10_f64, log10_runs, kl_log_decimal, kl_log10_f64)

#define MAP_2(name, runs, EACH)                                                           \
    static void runs(int64_t n, double *z, const double *x, const double *y) {            \
        for (; n > 0; n--, x += RUN, y += RUN, z += RUN)                                  \
            KL_EACH_LANE(k, RUN) z[k] = EACH(x[k], y[k]);                                 \
    }                                                                                     \
    static void name(int64_t n, void *out, const void *a, const void *b, const void *c) { \
        kl_map_runs_f64(runs, n, out, a, b);                                              \
    }
MAP_2(arctan2_f64, arctan2_runs, kl_atan2_f64)
MAP_2(logaddexp_f64, logaddexp_runs, kl_logaddexp_f64)
MAP_2(silu_mul_f64, silu_mul_runs, kl_silu_mul_f64)

/* ---- the inverse error function ---- */
/* Of evenly spread numbers, 1 in 500 needs the second polynomial and its root, so most runs need
 * neither. */
static void erfinv_runs(int64_t n, double *y, const double *x, const double *unused) {
    for (; n > 0; n--, x += RUN, y += RUN) {
        int far = 0;
        KL_EACH(k, RUN) far |= !(fabs(x[k]) <= KL_ERFINV_FAR);
        if (far)
            KL_EACH_LANE(k, RUN) y[k] = kl_erfinv_f64(x[k]);
        else
            KL_EACH_LANE(k, RUN) y[k] = kl_erfinv_near_f64(x[k]);
    }
}
static void erfinv_f64(int64_t n, void *out, const void *a, const void *b, const void *c) {
    kl_map_runs_f64(erfinv_runs, n, out, a, NULL);
}

/* ---- circular functions: blocks with a large argument go element by element ---- */
static void circular(int64_t n, double *y, const double *x, kl_math_runs_f64 *near,
                     double (*one)(double), double (*far)(double)) {
    enum { BLOCK = 256 };
    for (int64_t at = 0; at < n; at += BLOCK, x += BLOCK, y += BLOCK) {
        const int64_t m = kl_min64(n - at, BLOCK);
        int64_t some = 0;
        KL_EACH(i, m) some |= !(fabs(x[i]) < KL_TURNS_MAX);
        if (some)
            for (int64_t i = 0; i < m; i++) y[i] = (fabs(x[i]) < KL_TURNS_MAX ? one : far)(x[i]);
        else
            kl_map_runs_f64(near, m, y, x, NULL);
    }
}
#define CIRCULAR(name, runs, EACH, far)                                                   \
    RUNS(runs, EACH)                                                                      \
    static void name(int64_t n, void *out, const void *a, const void *b, const void *c) { \
        circular(n, out, a, runs, EACH, far);                                             \
    }
CIRCULAR(sin_f64, sin_runs, kl_sin_f64, sin)
CIRCULAR(cos_f64, cos_runs, kl_cos_f64, cos)
CIRCULAR(tan_f64, tan_runs, kl_tan_f64, tan)

static kl_map_fn *const maps[] = {
    [KL_OP_EXP] = exp_f64,           [KL_OP_EXPM1] = expm1_f64,
    [KL_OP_SINH] = sinh_f64,         [KL_OP_COSH] = cosh_f64,
    [KL_OP_TANH] = tanh_f64,         [KL_OP_SIGMOID] = sigmoid_f64,
    [KL_OP_LOG] = log_f64,           [KL_OP_LOG2] = log2_f64,
    [KL_OP_LOG10] = log10_f64,       [KL_OP_LOG1P] = log1p_f64,
    [KL_OP_ARCSINH] = arcsinh_f64,   [KL_OP_ARCCOSH] = arccosh_f64,
    [KL_OP_ARCTANH] = arctanh_f64,   [KL_OP_ARCSIN] = arcsin_f64,
    [KL_OP_ARCCOS] = arccos_f64,     [KL_OP_ARCTAN] = arctan_f64,
    [KL_OP_ARCTAN2] = arctan2_f64,   [KL_OP_CBRT] = cbrt_f64,
    [KL_OP_SINC] = sinc_f64,         [KL_OP_LOGADDEXP] = logaddexp_f64,
    [KL_OP_SILU_MUL] = silu_mul_f64, [KL_OP_SIN] = sin_f64,
    [KL_OP_COS] = cos_f64,           [KL_OP_TAN] = tan_f64,
    [KL_OP_ERF] = erf_f64,           [KL_OP_ERFINV] = erfinv_f64,
};

kl_map_fn *kl_cpu_float64_map(enum kl_op_id op, enum kl_dtype dtype) {
    return dtype == KL_F64 && (size_t)op < sizeof maps / sizeof *maps ? maps[op] : NULL;
}
