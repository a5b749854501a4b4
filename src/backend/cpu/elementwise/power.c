/* power.c - maps of powers of floats; see map.h. The exponents -1, 1/2, 2 and 3 have formulas of
 * their own, which round once, whether an exponent is that of one element or of a whole run: so an
 * element's bits do not depend on its neighbours. Powers of integers are in division.c. */
#include <math.h>
#include <string.h>

#include "backend/cpu/math/complex.h"
#include "backend/cpu/elementwise/map.h"
#include "backend/cpu/math/functions_f64.h"

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

/* Blocks of ordinary numbers, and all others. */
#define DEFINE_POWERS(NAME, T, map_runs)                                                          \
    static void power_##NAME##_runs(int64_t n, T *z, const T *x, const T *y) {                    \
        for (; n > 0; n--, x += KL_MATH_RUN, y += KL_MATH_RUN, z += KL_MATH_RUN)                  \
            KL_EACH_LANE(k, KL_MATH_RUN) z[k] = kl_pow_##NAME(x[k], y[k]);                        \
    }                                                                                             \
    static void ordinary_##NAME##_runs(int64_t n, T *z, const T *x, const T *y) {                 \
        for (; n > 0; n--, x += KL_MATH_RUN, y += KL_MATH_RUN, z += KL_MATH_RUN)                  \
            KL_EACH_LANE(k, KL_MATH_RUN) z[k] = kl_pow_ordinary_##NAME(x[k], y[k]);               \
    }                                                                                             \
    static void power_##NAME(int64_t n, void *out, const void *a, const void *b, const void *c) { \
        enum { BLOCK = 64 };                                                                      \
        const T *x = a, *y = b, infinite = (T)INFINITY;                                           \
        T *z = out, base[BLOCK], exponent[BLOCK]; /* out may be an operand */                     \
        if (all_simple_##NAME(n, z, x, y)) return;                                                \
        for (int64_t at = 0; at < n; at += BLOCK, x += BLOCK, y += BLOCK, z += BLOCK) {           \
            const int64_t m = kl_min64(n - at, BLOCK);                                            \
            int some = 0, odd = 0;                                                                \
            KL_EACH(i, m) some |= SIMPLE(y[i]);                                                   \
            KL_EACH(i, m)                                                                         \
            odd |= !((x[i] > 0) & (x[i] < infinite) & (y[i] < infinite) & (y[i] > -infinite));    \
            if (some) {                                                                           \
                memcpy(base, x, (size_t)m * sizeof *x);                                           \
                memcpy(exponent, y, (size_t)m * sizeof *y);                                       \
            }                                                                                     \
            map_runs(odd ? power_##NAME##_runs : ordinary_##NAME##_runs, m, z, x, y);             \
            for (int64_t i = 0; some && i < m; i++)                                               \
                if (SIMPLE(exponent[i])) z[i] = simple_##NAME(base[i], exponent[i]);              \
        }                                                                                         \
    }
/* defines power_f32_runs, ordinary_f32_runs, power_f32 */
DEFINE_POWERS(f32, float, kl_map_runs)
/* defines power_f64_runs, ordinary_f64_runs, power_f64 */
DEFINE_POWERS(f64, double, kl_map_runs_f64)

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
