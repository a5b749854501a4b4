/* power.c - maps of powers of floats; see map.h. The exponents -1, 1/2, 2 and 3 have formulas of
 * their own, which round once, whether an exponent is that of one element or of a whole run: so an
 * element's bits do not depend on its neighbours. Powers of integers are in division.c. */
#include <math.h>
#include <string.h>

#include "backend/cpu/math/complex.h"
#include "backend/cpu/elementwise/map.h"
#include "backend/cpu/math/functions_f64.h"
#include "backend/cpu/math/power.h"

#define SIMPLE(y) (((y) == 2) | ((y) == 3) | ((y) == 0.5f) | ((y) == -1))
static inline float squared_f32(float x) {
    return x * x;
}
static inline float cubed_f32(float x) {
    double d = (double)x;
    return (float)(d * d * d);
}
static inline double squared_f64(double x) {
    return x * x;
}
/* The square and its rounding error, times x. */
static inline double cubed_f64(double x) {
    double square = x * x, rest = fma(x, x, -square), y = square * x;
    double more = fma(square, x, -y) + rest * x;
    return y != 0 && fabs(y) < (double)INFINITY && fabs(more) < (double)INFINITY ? y + more : y;
}
/* As pow has it, the root of -0 is 0 and that of -infinity is infinity. */
static inline float root_f32(float x) {
    float y = sqrtf(x + 0.0f);
    return x == -INFINITY ? INFINITY : y;
}
static inline double root_f64(double x) {
    double y = sqrt(x + 0.0);
    return x == -(double)INFINITY ? (double)INFINITY : y;
}
#define RECIPROCAL(x) (1 / (x))

#define DEFINE_SIMPLE(NAME, T)                                                                \
    static T simple_##NAME(T x, T y) {                                                        \
        return y == 2   ? squared_##NAME(x)                                                   \
               : y == 3 ? cubed_##NAME(x)                                                     \
               : y > 0  ? root_##NAME(x)                                                      \
                        : RECIPROCAL(x);                                                       \
    }                                                                                         \
    /* Returns whether all exponents are the same simple one, and the results are written. */ \
    static bool all_simple_##NAME(int64_t n, T *z, const T *x, const T *y) {                  \
        const T all = *y;                                                                     \
        if (n <= 16 || !SIMPLE(all) || memcmp(y, y + 1, (size_t)(n - 1) * sizeof *y) != 0)    \
            return false;                                                                     \
        if (all == 2)                                                                         \
            KL_EACH(i, n) z[i] = squared_##NAME(x[i]);                                        \
        else if (all == 3)                                                                    \
            KL_EACH(i, n) z[i] = cubed_##NAME(x[i]);                                          \
        else if (all > 0)                                                                     \
            KL_EACH(i, n) z[i] = root_##NAME(x[i]);                                           \
        else                                                                                  \
            KL_EACH(i, n) z[i] = RECIPROCAL(x[i]);                                            \
        return true;                                                                          \
    }
/* defines simple_f32, all_simple_f32 */
DEFINE_SIMPLE(f32, float)
/* defines simple_f64, all_simple_f64 */
DEFINE_SIMPLE(f64, double)

/* Of some elements: not all are ordinary (kl_pow_ends_* is for the others), or exponents may be
 * simple. */
enum { ODD = 1, MAY_BE_SIMPLE = 2 };

#ifdef __AVX512F__
#include "backend/cpu/elementwise/power_avx512.h"
#else
#ifdef __AVX2__
#include "backend/cpu/elementwise/power_avx2.h"
#else
static void ordinary_f32_runs(int64_t n, float *z, const float *x, const float *y) {
    for (; n > 0; n--, x += KL_MATH_RUN, y += KL_MATH_RUN, z += KL_MATH_RUN) {
        float inverse[KL_MATH_RUN], log2[KL_MATH_RUN];
        for (int k = 0; k < KL_MATH_RUN; k++) {
            const int place = kl_pow_place(x[k]);
            inverse[k] = kl_pow_inverse[place], log2[k] = kl_pow_log2[place];
        }
        KL_EACH_LANE(k, KL_MATH_RUN) z[k] = kl_pow_placed_f32(x[k], y[k], inverse[k], log2[k]);
    }
}
#endif
/* Computes n runs as if all were ordinary, and returns what they have. */
static int runs_f32(int64_t n, float *z, const float *x, const float *y) {
    /* Of integers. A simple exponent has one digit after the first at most. */
    uint32_t simple = UINT32_MAX, base = 0, exponent = 0;
    KL_EACH(i, n * KL_MATH_RUN) {
        const uint32_t bits = kl_f32_bits(y[i]), number = kl_f32_bits(x[i]) - 1;
        simple = bits << 10 < simple ? bits << 10 : simple;
        exponent = bits << 1 > exponent ? bits << 1 : exponent;
        base = number > base ? number : base;
    }
    ordinary_f32_runs(n, z, x, y);
    return (base >= 0x7f7fffffu || exponent >= 0xff000000u ? ODD : 0) |
           (simple ? 0 : MAY_BE_SIMPLE);
}
#endif
/* The same of any number of elements. */
static int some_f32(int64_t n, float *z, const float *x, const float *y) {
    const int64_t whole = n / KL_MATH_RUN * KL_MATH_RUN;
    const size_t rest = (size_t)(n - whole) * sizeof *z;
    float a[KL_MATH_RUN], b[KL_MATH_RUN];
    int kinds = runs_f32(n / KL_MATH_RUN, z, x, y);
    if (!rest) return kinds;
    for (int i = 0; i < KL_MATH_RUN; i++) a[i] = b[i] = 0.7f;
    memcpy(a, x + whole, rest);
    memcpy(b, y + whole, rest);
    kinds |= runs_f32(1, a, a, b);
    memcpy(z + whole, a, rest);
    return kinds;
}
static void ordinary_f64_runs(int64_t n, double *z, const double *x, const double *y) {
    for (; n > 0; n--, x += KL_MATH_RUN, y += KL_MATH_RUN, z += KL_MATH_RUN)
        KL_EACH_LANE(k, KL_MATH_RUN) z[k] = kl_pow_ordinary_f64(x[k], y[k]);
}
static int some_f64(int64_t n, double *z, const double *x, const double *y) {
    const double infinite = (double)INFINITY;
    int odd = 0;
    KL_EACH(i, n)
    odd |= !((x[i] > 0) & (x[i] < infinite) & (y[i] < infinite) & (y[i] > -infinite));
    kl_map_runs_f64(ordinary_f64_runs, n, z, x, y);
    return MAY_BE_SIMPLE | (odd ? ODD : 0);
}

#define DEFINE_POWERS(NAME, T)                                                                    \
    static void power_##NAME(int64_t n, void *out, const void *a, const void *b, const void *c) { \
        enum { BLOCK = 256 };                                                                     \
        const T *x = a, *y = b;                                                                   \
        T *z = out, base[BLOCK], exponent[BLOCK]; /* of an operand that is out */                 \
        if (all_simple_##NAME(n, z, x, y)) return;                                                \
        for (int64_t m; n > 0; n -= m, x += m, y += m, z += m) {                                  \
            m = kl_min64(n, BLOCK);                                                               \
            const T *u = z == x ? memcpy(base, x, (size_t)m * sizeof *x) : x;                     \
            const T *v = z == y ? memcpy(exponent, y, (size_t)m * sizeof *y) : y;                 \
            const int kinds = some_##NAME(m, z, u, v);                                            \
            int simple = 0;                                                                       \
            if (kinds & MAY_BE_SIMPLE) KL_EACH(i, m) simple |= SIMPLE(v[i]);                      \
            if (kinds & ODD) KL_EACH(i, m) z[i] = kl_pow_ends_##NAME(u[i], v[i], z[i]);           \
            for (int64_t i = 0; simple && i < m; i++)                                             \
                if (SIMPLE(v[i])) z[i] = simple_##NAME(u[i], v[i]);                               \
        }                                                                                         \
    }
/* defines power_f32 */
DEFINE_POWERS(f32, float)
/* defines power_f64 */
DEFINE_POWERS(f64, double)

static void power_c64(int64_t n, void *out, const void *a, const void *b, const void *c) {
    const struct kl_c64 *x = a, *y = b;
    struct kl_c64 *z = out;
    for (int64_t i = 0; i < n; i++) z[i] = kl_c64_power(x[i], y[i]);
}

kl_map_fn *kl_cpu_power_map(enum kl_op_id op, enum kl_dtype dtype) {
    if (op != KL_OP_POWER) return NULL;
    return dtype == KL_F32   ? power_f32
           : dtype == KL_F64 ? power_f64
           : dtype == KL_C64 ? power_c64
                             : NULL;
}
