/* complex.c - the maps of functions of complex64; see map.h. Runs of numbers are taken apart and
 * computed in vectors of float64 (math/complex_lanes.h). Numbers for which those functions do not
 * hold are then computed one by one (math/complex.h); the choice depends on the number alone. */
#include <math.h>
#include <string.h>

#include "backend/cpu/math/complex.h"
#include "backend/cpu/math/complex_lanes.h"
#include "backend/cpu/elementwise/map.h"

enum { RUN = 64 };
struct run {
    _Alignas(64) float re[RUN], im[RUN];
};

/* n numbers, and 1 in the lanes that are left. */
static inline void take_apart(struct run *r, const struct kl_c64 *x, int64_t n) {
    struct kl_c64 room[RUN];
    if (n < RUN) {
        for (int i = 0; i < RUN; i++) room[i] = i < n ? x[i] : (struct kl_c64){1, 0};
        x = room;
    }
    KL_EACH_LANE(k, RUN) r->re[k] = x[k].re;
    KL_EACH_LANE(k, RUN) r->im[k] = x[k].im;
}
static inline void put_together(struct kl_c64 *z, const struct run *r, int64_t n) {
    struct kl_c64 room[RUN], *to = n < RUN ? room : z;
    KL_EACH_LANE(k, RUN) {
        to[k].re = r->re[k];
        to[k].im = r->im[k];
    }
    if (n < RUN) memcpy(z, room, (size_t)n * sizeof *z);
}

/* A map that computes EACH where ORDINARY holds, else `alone`. */
#define COMPLEX_MAP(name, EACH, ORDINARY, alone)                                            \
    static void name(int64_t n, void *out, const void *a, const void *b, const void *c) {   \
        const struct kl_c64 *x = a;                                                         \
        struct kl_c64 *z = out;                                                             \
        for (int64_t at = 0; at < n; at += RUN, x += RUN, z += RUN) {                       \
            const int64_t m = kl_min64(n - at, RUN);                                        \
            struct run given, made;                                                         \
            int odd = 0;                                                                    \
            take_apart(&given, x, m);                                                       \
            KL_EACH_LANE(k, RUN) odd |= !ORDINARY(given.re[k], given.im[k]);                \
            KL_EACH_LANE(k, RUN) {                                                          \
                const struct kl_c_parts p = EACH((double)given.re[k], (double)given.im[k]); \
                made.re[k] = (float)p.re;                                                   \
                made.im[k] = (float)p.im;                                                   \
            }                                                                               \
            put_together(z, &made, m);                                                      \
            if (!odd) continue;                                                             \
            for (int i = 0; i < m; i++)                                                     \
                if (!ORDINARY(given.re[i], given.im[i]))                                    \
                    z[i] = alone((struct kl_c64){given.re[i], given.im[i]});                \
        }                                                                                   \
    }
COMPLEX_MAP(exp_c64, kl_c_exp, kl_c_growth_angle, kl_c64_exp)
COMPLEX_MAP(log_c64, kl_c_log, kl_c_not_zero, kl_c64_log)
COMPLEX_MAP(log2_c64, kl_c_log2, kl_c_not_zero, kl_c64_log2)
COMPLEX_MAP(log10_c64, kl_c_log10, kl_c_not_zero, kl_c64_log10)
COMPLEX_MAP(sqrt_c64, kl_c_sqrt, kl_c_not_zero, kl_c64_sqrt)
COMPLEX_MAP(rsqrt_c64, kl_c_rsqrt, kl_c_not_zero, kl_c64_rsqrt)
COMPLEX_MAP(sign_c64, kl_c_sign, kl_c_not_zero, kl_c64_sign)
COMPLEX_MAP(sin_c64, kl_c_sin, kl_c_angle_growth, kl_c64_sin)
COMPLEX_MAP(cos_c64, kl_c_cos, kl_c_angle_growth, kl_c64_cos)
COMPLEX_MAP(tan_c64, kl_c_tan, kl_c_angle_growth, kl_c64_tan)
COMPLEX_MAP(sinh_c64, kl_c_sinh, kl_c_growth_angle, kl_c64_sinh)
COMPLEX_MAP(cosh_c64, kl_c_cosh, kl_c_growth_angle, kl_c64_cosh)
COMPLEX_MAP(tanh_c64, kl_c_tanh, kl_c_growth_angle, kl_c64_tanh)

static void abs_c64(int64_t n, void *out, const void *a, const void *b, const void *c) {
    const struct kl_c64 *x = a;
    float *y = out;
    KL_EACH(i, n) y[i] = kl_c64_abs(x[i]);
}
KL_MAP_1(log1p_c64, struct kl_c64, struct kl_c64, kl_c64_log1p)
KL_MAP_1(arcsin_c64, struct kl_c64, struct kl_c64, kl_c64_arcsin)
KL_MAP_1(arccos_c64, struct kl_c64, struct kl_c64, kl_c64_arccos)
KL_MAP_1(arctan_c64, struct kl_c64, struct kl_c64, kl_c64_arctan)
KL_MAP_1(arcsinh_c64, struct kl_c64, struct kl_c64, kl_c64_arcsinh)
KL_MAP_1(arccosh_c64, struct kl_c64, struct kl_c64, kl_c64_arccosh)
KL_MAP_1(arctanh_c64, struct kl_c64, struct kl_c64, kl_c64_arctanh)
KL_MAP_2(logaddexp_c64, struct kl_c64, kl_c64_logaddexp)

static kl_map_fn *const maps[] = {
    [KL_OP_ABS] = abs_c64,         [KL_OP_EXP] = exp_c64,
    [KL_OP_LOG] = log_c64,         [KL_OP_LOG1P] = log1p_c64,
    [KL_OP_LOG2] = log2_c64,       [KL_OP_LOG10] = log10_c64,
    [KL_OP_SQRT] = sqrt_c64,       [KL_OP_RSQRT] = rsqrt_c64,
    [KL_OP_SIGN] = sign_c64,       [KL_OP_SIN] = sin_c64,
    [KL_OP_COS] = cos_c64,         [KL_OP_TAN] = tan_c64,
    [KL_OP_SINH] = sinh_c64,       [KL_OP_COSH] = cosh_c64,
    [KL_OP_TANH] = tanh_c64,       [KL_OP_ARCSIN] = arcsin_c64,
    [KL_OP_ARCCOS] = arccos_c64,   [KL_OP_ARCTAN] = arctan_c64,
    [KL_OP_ARCSINH] = arcsinh_c64, [KL_OP_ARCCOSH] = arccosh_c64,
    [KL_OP_ARCTANH] = arctanh_c64, [KL_OP_LOGADDEXP] = logaddexp_c64,
};

kl_map_fn *kl_cpu_complex_map(enum kl_op_id op, enum kl_dtype dtype) {
    return dtype == KL_C64 && (size_t)op < sizeof maps / sizeof *maps ? maps[op] : NULL;
}
