/* functions.h - functions of float32, inline and without branches, so that loops over them
 * vectorise. Most are computed in float64 and rounded once: denormals are ordinary numbers there
 * and nothing overflows on the way, so the error is half an ulp, at the cost of half the lanes. The
 * polynomials are printed by tools/make/fit_math.py. Errors over all 2^32 arguments are in
 * docs/numerics.md, measured by tests/backend/cpu/math/test_functions.c. A fused multiply-add is
 * always written as such, so it is exact in every variant. */
#pragma once
#include <math.h>
#include <string.h>

#include "backend/cpu/math/exp.h"
#include "backend/cpu/vector/lanes.h"
#include "base/number/half.h"

/* In r: (exp(r) - 1) / r on [-ln 2 / 2, ln 2 / 2]; relative error 2^-31.8. The tables of this file
 * are coefficients of polynomials in the variable that is named first. */
static const double kl_expm1_over_r[] = {1.0,
                                         0.5000000047117757,
                                         0.16666666718997508,
                                         0.04166635289677516,
                                         0.008333298483754886,
                                         0.0013941108433972674,
                                         0.0001989927395864936};
/* In f, log(1 + f) / f on [sqrt(1/2) - 1, sqrt(2) - 1]; relative error 2^-33.0. */
static const double kl_log1p_over_f[] = {
    1.000000000048012,   -0.5000000030845538,  0.3333333084628052,  -0.24999936585814816,
    0.2000016963794254,  -0.16670383652377296, 0.14283798395270253, -0.12410885665961421,
    0.11042736039719009, -0.10898112577877182, 0.10636542375579953, -0.058456713350896375};
/* In r * r, sin(r) / r on [0, pi / 2]; relative error 2^-35.1. */
static const double kl_sin_over_r[] = {0.9999999999829191,    -0.16666666616815567,
                                       0.008333330974207583,  -0.00019840861179319552,
                                       2.752526981229885e-06, -2.3889217773452806e-08};
/* In x * x, atan(x) / x on [0, 1]; relative error 2^-31.1. */
static const double kl_atan_over_x[] = {
    0.9999999995535376,   -0.33333322488911593,  0.19999558100363982, -0.14278576024807985,
    0.1105077127584966,   -0.08785043282362845,  0.06685281517877424, -0.04392841073326746,
    0.021912945865448393, -0.007030669470424213, 0.001057607438057242};
/* In x * x, asin(x) / x on [0, 1/2]; relative error 2^-31.7. */
static const double kl_asin_over_x[] = {
    1.0000000002307783,  0.16666657639575913,  0.07500571381024686, 0.04450870949865153,
    0.03185718889411276, 0.014295256037820107, 0.0376771383418486};
/* In r * r, (sin(r) / r - 1) / r^2 and (cos(r) - 1) / r^2 on [0, pi / 4 + 2^-10]; errors 2^-35.0
 * and 2^-31.6. */
static const float kl_sin_rest[] = {-0.166666672f, 0.00833333191f, -0.000198400812f,
                                    2.72491661e-06f},
                   kl_cos_rest[] = {-0.5f, 0.0416666493f, -0.0013887583f, 2.44629537e-05f};
/* In f, (log(1 + f) - f) / f^2 on [sqrt(1/2) - 1, sqrt(2) - 1]; error 2^-29.5 of log(1 + f) /
 * f^2. */
static const float kl_log_rest[] = {-0.5f,         0.333333224f, -0.250000119f, 0.200014472f,
                                    -0.166675374f, 0.142323181f, -0.124208145f, 0.118121363f,
                                    -0.115572877f, 0.0676902384f};
/* In x * x, (f(x) / x - 1) / x^2 of asin on [0, 1/2], of atan on [0, 1] and of tan on [0, pi / 4 +
 * 2^-10]; errors of f 2^-27.6, 2^-28.5 and 2^-29.5. */
static const float kl_asin_rest[] = {0.166667521f, 0.0749530941f, 0.0454691499f, 0.0241847783f,
                                     0.0421583056f},
                   kl_atan_rest[] = {-0.333332986f,  0.19998534f,    -0.142641023f,
                                     0.109515063f,   -0.0840158165f, 0.0579272285f,
                                     -0.0311489366f, 0.0108996965f,  -0.00179040583f},
                   kl_tan_rest[] = {0.333333492f,  0.133326724f,    0.0540594533f, 0.0212826859f,
                                    0.0108380364f, 8.33012455e-05f, 0.00438070623f};

/* Calls `runs` for all n elements. A partial last run is computed in copies: the two loops that
 * gcc would make for the tail would double the code. */
enum { KL_MATH_RUN = 16 };
typedef void kl_math_runs(int64_t n, float *out, const float *a, const float *b);
static __attribute__((noinline, unused)) void kl_map_runs(kl_math_runs *runs, int64_t n, float *out,
                                                          const float *a, const float *b) {
    const int64_t whole = n / KL_MATH_RUN * KL_MATH_RUN;
    const size_t rest = (size_t)(n - whole) * sizeof *out;
    float room[3][KL_MATH_RUN] = {{0}};
    runs(n / KL_MATH_RUN, out, a, b);
    if (!rest) return;
    memcpy(room[0], a + whole, rest);
    if (b) memcpy(room[1], b + whole, rest);
    runs(1, room[2], room[0], room[1]);
    memcpy(out + whole, room[2], rest);
}
/* Prefetches elements that follow x, and cache lines that follow y. The computation of a vector is
 * long, and the processor then does not prefetch in time by itself (a third of the time of sin and
 * erf of 16 M elements). */
static inline void kl_math_ahead(const void *x, const void *y) {
    /* As integers: the addresses may lie beyond the objects, which gcc warns of. */
    __builtin_prefetch((const void *)((uintptr_t)x + 4096));
    __builtin_prefetch((const void *)((uintptr_t)y + 2048), 1);
}
#define KL_MATH_RUNS(name, EACH)                                                 \
    static void name(int64_t n, float *y, const float *x, const float *unused) { \
        for (; n > 0; n--, x += KL_MATH_RUN, y += KL_MATH_RUN) {                 \
            kl_math_ahead(x, y);                                                 \
            KL_EACH_LANE(k, KL_MATH_RUN) y[k] = EACH(x[k]);                      \
        }                                                                        \
    }
#define KL_MATH_MAP(name, runs, EACH)                                                     \
    KL_MATH_RUNS(runs, EACH)                                                              \
    static void name(int64_t n, void *out, const void *a, const void *b, const void *c) { \
        kl_map_runs(runs, n, out, a, NULL);                                               \
    }
#define KL_MATH_MAP_2(name, runs, EACH)                                                   \
    static void runs(int64_t n, float *z, const float *x, const float *y) {               \
        for (; n > 0; n--, x += KL_MATH_RUN, y += KL_MATH_RUN, z += KL_MATH_RUN)          \
            KL_EACH_LANE(k, KL_MATH_RUN) z[k] = EACH(x[k], y[k]);                         \
    }                                                                                     \
    static void name(int64_t n, void *out, const void *a, const void *b, const void *c) { \
        kl_map_runs(runs, n, out, a, b);                                                  \
    }

/* c[0] + c[1] x + ... */
static inline __attribute__((always_inline)) double kl_polynomial(const double *c, int n,
                                                                  double x) {
    double y = c[n - 1];
#pragma GCC unroll 32
    for (int i = n - 2; i >= 0; i--) y = __builtin_fma(y, x, c[i]);
    return y;
}
#define KL_POLYNOMIAL(c, x) kl_polynomial(c, (int)(sizeof(c) / sizeof *(c)), x)

static inline __attribute__((always_inline)) float kl_polynomial_f32(const float *c, int n,
                                                                     float x) {
    float y = c[n - 1];
#pragma GCC unroll 32
    for (int i = n - 2; i >= 0; i--) y = __builtin_fmaf(y, x, c[i]);
    return y;
}
#define KL_POLYNOMIAL_F32(c, x) kl_polynomial_f32(c, (int)(sizeof(c) / sizeof *(c)), x)

#define KL_LN2 0x1.62e42fefa39efp-1
#define KL_LOG2_E 0x1.71547652b82fep0
#define KL_LOG10_E 0x1.bcb7b1526e50ep-2
#define KL_PI 0x1.921fb54442d18p1
#define KL_PI_REST 0x1.1a62633145c07p-53 /* pi - KL_PI */
#define KL_ONE_PI 0x1.45f306dc9c883p-2   /* 1 / pi */
/* added to |x| < 2^51, the last bits of the sum are x, rounded to an integer */
#define KL_TO_INTEGER 0x1.8p52

static inline float kl_clamp_f32(float x, float lo, float hi) { /* NaN stays NaN */
#ifdef __aarch64__ /* of the selections gcc makes 20 instructions, instead of 4 */
    return x == x ? fminf(fmaxf(x, lo), hi) : x;
#else
    return x < lo ? lo : x > hi ? hi : x;
#endif
}

/* num / den with one float32 division, rounded nearly correctly. den is 1 or more and a normal
 * float32; |num| is at most den. */
static inline float kl_quotient(double num, double den) {
    float inverse = 1.0f / (float)den, near = (float)num * inverse;
    double rest = __builtin_fma(-(double)near, den, num);
    return (float)((double)near + rest * (double)inverse);
}

/* ---- exponentials ---- */
/* exp(x) = scale (1 + more), |x| < 700. `more` keeps its relative precision near 0. */
struct kl_exp_parts {
    double more, scale;
};
static inline struct kl_exp_parts kl_exp_split(double x) {
    double t = __builtin_fma(x, KL_LOG2_E, KL_TO_INTEGER + 1023), n = t - (KL_TO_INTEGER + 1023);
    double r = __builtin_fma(n, -KL_LN2, x);
    return (struct kl_exp_parts){r * KL_POLYNOMIAL(kl_expm1_over_r, r),
                                 kl_bits_f64(kl_f64_bits(t) << 52)};
}
static inline double kl_exp_wide(double x) {
    struct kl_exp_parts e = kl_exp_split(x);
    return __builtin_fma(e.more, e.scale, e.scale);
}
static inline double kl_expm1_wide(double x) {
    struct kl_exp_parts e = kl_exp_split(x);
    return __builtin_fma(e.more, e.scale, e.scale - 1);
}
/* Computed in float32 throughout, which has twice the lanes. The result is multiplied by 2^n in two
 * halves, of which only the second can round: the result may be denormal, or just below 2^128. */
static inline float kl_exp_f32(float x) {
    float c = kl_clamp_f32(x, -105, 89);
    float t = __builtin_fmaf(c, KL_LOG2_E_F32, KL_TO_INTEGER_F32), n = t - KL_TO_INTEGER_F32;
    float r = __builtin_fmaf(n, -KL_LN2_REST_F32, __builtin_fmaf(n, -KL_LN2_F32, c));
    int32_t whole = (int32_t)(kl_f32_bits(t) - kl_f32_bits(KL_TO_INTEGER_F32)), half = whole >> 1;
    float first = kl_bits_f32((uint32_t)(half + 127) << 23);
    float second = kl_bits_f32((uint32_t)(whole - half + 127) << 23);
    return KL_POLYNOMIAL_F32(kl_exp_of_r, r) * first * second;
}
static inline float kl_expm1_f32(float x) {
    float y = (float)kl_expm1_wide((double)kl_clamp_f32(x, -110, 90));
    return x == 0 ? x : y; /* keeps the sign of zero */
}
/* In float32 throughout, for twice the lanes. With e = exp(-|x|) it is e / (1 + e) or 1 / (1 + e);
 * e is kept times 2^64, so that it is normal, as a sum and its rounding error, and so is 1 + e; the
 * quotient is corrected by what it leaves. */
static inline float kl_sigmoid_f32(float x) {
    float c = kl_clamp_f32(x > 0 ? -x : x, -105, 0);
    float t = __builtin_fmaf(c, KL_LOG2_E_F32, KL_EXP_BASE + 64), n = t - (KL_EXP_BASE + 64);
    float first = __builtin_fmaf(n, -KL_LN2_F32, c); /* exact */
    float r = __builtin_fmaf(n, -KL_LN2_REST_F32, first);
    float more = __builtin_fmaf(n, -KL_LN2_REST_F32, first - r), square = r * r;
    float q = kl_exp_of_r[6];
#pragma GCC unroll 4
    for (int i = 5; i >= 2; i--) q = __builtin_fmaf(q, r, kl_exp_of_r[i]);
    more = __builtin_fmaf(square, q, more);
    /* 1 + r + more = high + low */
    float one = 1 + r, high = one + more, low = (one - high) + (more + ((1 - one) + r));
    float power = kl_bits_f32(kl_f32_bits(t) << 23);
    high *= power;
    low *= power;
    float sum = __builtin_fmaf(high, 0x1p-64f, 1);
    float rest = __builtin_fmaf(high, 0x1p-64f, 1 - sum) + low * 0x1p-64f;
    float inverse = 1 / sum, num = x > 0 ? 1 : high, num_low = x > 0 ? 0 : low;
    float near = num * inverse;
    float left = __builtin_fmaf(-near, sum, num) + __builtin_fmaf(-near, rest, num_low);
    return __builtin_fmaf(left, inverse, near) * (x > 0 ? 1 : 0x1p-64f);
}
static inline float kl_sinh_f32(float x) {
    double e = kl_expm1_wide((double)kl_clamp_f32(fabsf(x), 0, 90));
    return copysignf((float)(0.5 * (e + e / (e + 1))), x);
}
static inline float kl_cosh_f32(float x) {
    double e = kl_exp_wide((double)kl_clamp_f32(x, -90, 90));
    return (float)(0.5 * (e + 1 / e));
}

/* ---- logarithms ---- */
/* x = 2^n (1 + f), f in [sqrt(1/2) - 1, sqrt(2) - 1]; x is positive, normal and finite. */
struct kl_log_parts {
    double n, f;
};
static inline struct kl_log_parts kl_log_split(double x) {
    uint64_t u = kl_f64_bits(x);
    uint64_t biased = (u + (UINT64_C(0x3ff0000000000000) - UINT64_C(0x3fe6a09e667f3bcd))) >> 52;
    double n = kl_bits_f64(biased | UINT64_C(0x4330000000000000)) - (0x1p52 + 1023);
    return (struct kl_log_parts){n, kl_bits_f64(u - (biased << 52) + (UINT64_C(1023) << 52)) - 1};
}
static inline double kl_log_wide(double x) {
    struct kl_log_parts p = kl_log_split(x);
    return __builtin_fma(p.n, KL_LN2, p.f * KL_POLYNOMIAL(kl_log1p_over_f, p.f));
}
/* log(1 + x), x > -1, with full relative precision near 0. */
static inline double kl_log1p_wide(double x) {
    struct kl_log_parts p = kl_log_split(1 + x);
    double f = p.n == 0 ? x : p.f;
    return __builtin_fma(p.n, KL_LN2, f * KL_POLYNOMIAL(kl_log1p_over_f, f));
}
/* Returns y, the logarithm of x, where x is positive and finite; else the logarithm's special
 * value. */
static inline float kl_log_ends(float x, float y) {
#ifdef __aarch64__ /* comparisons of integers: gcc nests those of floats, in 20 instructions */
    const uint32_t u = kl_f32_bits(x);
    float end = (int32_t)u < 0 ? NAN : x;
    end = u << 1 == 0 ? -INFINITY : end;
    return u - 1 < 0x7f7fffff ? y : end;
#else
    float end = x == 0 ? -INFINITY : x > 0 ? INFINITY : NAN;
    end = x != x ? x : end;
    return x > 0 && x < INFINITY ? y : end;
#endif
}
/* The logarithm of a normal number times 2^(bias - 127), in float32. n ln 2 + f is kept as a sum
 * and its rounding error; the rest of the series is added to the smaller part. */
static inline float kl_log_normal_f32(float x, float bias) {
    uint32_t u = kl_f32_bits(x) + (0x3f800000u - 0x3f3504f3u);
    float n = (float)(int32_t)(u >> 23) - bias;
    float f = kl_bits_f32((u & 0x7fffffu) + 0x3f3504f3u) - 1;
    /* `big` is exact: n has 8 bits, and this part of ln 2 has 16. */
    float big = n * 0x1.62e4p-1f, sum = big + f;
    float rest = __builtin_fmaf(n, 0x1.7f7d1cp-20f, f - (sum - big));
    return sum + __builtin_fmaf(f * f, KL_POLYNOMIAL_F32(kl_log_rest, f), rest);
}
static inline float kl_log_f32(float x) {
    float normal = x * (x < 0x1p-126f ? 0x1p24f : 1.0f);
    return kl_log_ends(x, kl_log_normal_f32(normal, x < 0x1p-126f ? 127 + 24 : 127));
}
/* The same for other bases: f is multiplied by 1 / log(base) with the rounding error, and n by the
 * logarithm of 2, whose first part, `two`, has 16 bits. */
#define KL_LOG2_BASE 0x1.715476p0f, 0x1.4ae0cp-26f, 1, 0
#define KL_LOG10_BASE 0x1.bcb7b2p-2f, -0x1.5b235ep-27f, 0x1.344p-2f, 0x1.3509f8p-18f
KL_INLINE float kl_log_based_f32(float x, float bias, float by, float by_low, float two,
                                 float two_low) {
    uint32_t u = kl_f32_bits(x) + (0x3f800000u - 0x3f3504f3u);
    float n = (float)(int32_t)(u >> 23) - bias;
    float f = kl_bits_f32((u & 0x7fffffu) + 0x3f3504f3u) - 1;
    float y = f * by, more = __builtin_fmaf(f, by_low, __builtin_fmaf(f, by, -y));
    float big = n * two, sum = big + y;
    float rest = __builtin_fmaf(n, two_low, (y - (sum - big)) + more);
    float square = f * f, tail = KL_POLYNOMIAL_F32(kl_log_rest, f) * by;
    rest = __builtin_fmaf(__builtin_fmaf(f, f, -square), tail, rest);
    return sum + __builtin_fmaf(square, tail, rest);
}
static inline float kl_log2_f32(float x) {
    float normal = x * (x < 0x1p-126f ? 0x1p24f : 1.0f), bias = x < 0x1p-126f ? 127 + 24 : 127;
    return kl_log_ends(x, kl_log_based_f32(normal, bias, KL_LOG2_BASE));
}
static inline float kl_log10_f32(float x) {
    float normal = x * (x < 0x1p-126f ? 0x1p24f : 1.0f), bias = x < 0x1p-126f ? 127 + 24 : 127;
    return kl_log_ends(x, kl_log_based_f32(normal, bias, KL_LOG10_BASE));
}
/* log(1 + x) in float32: as the logarithm of u = 1 + x, and what the rounding of u leaves is added
 * divided by u, by a short series. Near 0, where u has few digits of x, f is x itself. */
static inline float kl_log1p_f32(float x) {
    float u = 1 + x, left = x > 1 ? 1 - (u - x) : x - (u - 1);
    uint32_t bits = kl_f32_bits(u) + (0x3f800000u - 0x3f3504f3u);
    int32_t whole = (int32_t)(bits >> 23) - 127, scale = whole > 64 ? 64 : whole;
    float f = kl_bits_f32((bits & 0x7fffffu) + 0x3f3504f3u) - 1, n = (float)whole;
    left = whole == 0 ? 0 : left * kl_bits_f32((uint32_t)(127 - scale) << 23);
    f = whole == 0 ? x : f;
    float big = n * 0x1.62e4p-1f, sum = big + f;
    float rest = __builtin_fmaf(n, 0x1.7f7d1cp-20f, f - (sum - big));
    rest = __builtin_fmaf(left, __builtin_fmaf(f, f - 1, 1), rest);
    float y = sum + __builtin_fmaf(f * f, KL_POLYNOMIAL_F32(kl_log_rest, f), rest);
    y = x > -1 && x < INFINITY ? y : kl_log_ends(x + 1, y);
    return x == 0 ? x : y;
}
static inline float kl_asinh_f32(float x) {
    double a = (double)fabsf(x), b = a * a;
    float y = (float)kl_log1p_wide(a + b / (1 + sqrt(1 + b)));
    y = a < (double)INFINITY ? y : fabsf(x);
    return copysignf(y, x);
}
static inline float kl_acosh_f32(float x) {
    double d = (double)x - 1;
    float y = (float)kl_log1p_wide(d + sqrt(d * (d + 2)));
    y = x < INFINITY ? y : x;
    return x >= 1 ? y : NAN;
}
static inline float kl_atanh_f32(float x) {
    double a = (double)fabsf(x);
    float y = (float)(0.5 * kl_log1p_wide(2 * a / (1 - a)));
    y = a < 1 ? y : a == 1 ? INFINITY : NAN;
    return copysignf(y, x);
}

/* ---- roots ---- */
/* 1 / cbrt(a), a positive and normal, within 2^-50. A third of the exponent bits, from a constant
 * that corrects the bias, gives 5 bits; each step multiplies their number by four, and nothing is
 * divided. */
KL_INLINE double kl_inverse_cbrt(double a) {
    enum { MOVED = 1430186364 }; /* four thirds of the bias, less what makes the error smallest */
    uint32_t high = MOVED - (uint32_t)(kl_f64_bits(a) >> 32) / 3;
    double r = kl_bits_f64((uint64_t)high << 32);
#pragma GCC unroll 2
    for (int i = 0; i < 2; i++) {
        double e = __builtin_fma(-a * r, r * r, 1); /* r (1 - e)^(-1/3) is exact */
        double more = __builtin_fma(e, __builtin_fma(e, 14.0 / 81, 2.0 / 9), 1.0 / 3);
        r = __builtin_fma(r * e, more, r);
    }
    return r;
}

/* ---- circular functions of |x| < 2^44; the C library computes larger arguments ---- */
#define KL_CIRCLE_MAX 0x1p44f
static inline double kl_sin_wide(double x) {
    double t = __builtin_fma(x, KL_ONE_PI, KL_TO_INTEGER), n = t - KL_TO_INTEGER;
    double r = __builtin_fma(n, -KL_PI_REST, __builtin_fma(n, -KL_PI, x));
    double y = r * KL_POLYNOMIAL(kl_sin_over_r, r * r);
    return kl_bits_f64(kl_f64_bits(y) ^ kl_f64_bits(t) << 63);
}
/* cos(x) = sin(x + pi / 2): the nearest odd multiple of pi / 2 is subtracted. */
static inline double kl_cos_wide(double x) {
    double t = __builtin_fma(x, KL_ONE_PI, -0.5) + KL_TO_INTEGER;
    double n = (t - KL_TO_INTEGER) + 0.5;
    double r = __builtin_fma(n, -KL_PI_REST, __builtin_fma(n, -KL_PI, x));
    double y = r * KL_POLYNOMIAL(kl_sin_over_r, r * r);
    return kl_bits_f64(kl_f64_bits(y) ^ (kl_f64_bits(t) + 1) << 63);
}
/* The remainder of 0 <= a < KL_CIRCLE_NEAR, in float32 throughout, for twice the lanes:
 * a = n pi / 2 + r - less, |r| < pi / 4 + 2^-10. pi / 2 is split into three parts: n times the
 * first part, and a less that product, have no more than 24 bits. n times the second part is below
 * 2^-12 and a multiple of 2^-34, so r is rounded only where it is large, and that rounding error is
 * computed exactly (less). */
#define KL_CIRCLE_NEAR 0x1p12f
#define KL_QUARTERS_F32 0x1.45f306p-1f /* 2 / pi */
#define KL_QUARTER_1 0x1.921fb4p0f
#define KL_QUARTER_2 0x1.444p-24f
#define KL_QUARTER_3 0x1.68c234p-39f
struct kl_quarters {
    float r, less;
    uint32_t n; /* its low bits */
};
static inline __attribute__((always_inline)) struct kl_quarters kl_quarters_f32(float a) {
    float t = __builtin_fmaf(a, KL_QUARTERS_F32, KL_TO_INTEGER_F32), n = t - KL_TO_INTEGER_F32;
    float first = __builtin_fmaf(n, -KL_QUARTER_1, a);
    float r = __builtin_fmaf(n, -KL_QUARTER_2, first);
    float less = __builtin_fmaf(n, KL_QUARTER_2, r - first);
    return (struct kl_quarters){r, __builtin_fmaf(n, KL_QUARTER_3, less), kl_f32_bits(t)};
}
/* sin(a + quarters pi / 2) with the sign flipped by `sign`. A cosine of r also uses the rounding
 * error of r * r. Both are within one ulp. */
static inline __attribute__((always_inline)) float kl_circle_f32(float a, uint32_t quarters,
                                                                 uint32_t sign) {
    const struct kl_quarters left = kl_quarters_f32(a);
    const float r = left.r, less = left.less;
    const uint32_t q = left.n + quarters;
    const int odd = q & 1; /* computes a cosine of r */
    float s = r * r, of_cosine = __builtin_fmaf(-less, r, 0.5f * __builtin_fmaf(r, r, -s));
    float p = odd ? kl_cos_rest[3] : kl_sin_rest[3];
#pragma GCC unroll 3
    for (int i = 2; i >= 0; i--) p = __builtin_fmaf(p, s, odd ? kl_cos_rest[i] : kl_sin_rest[i]);
    p = (odd ? 1 : r) + __builtin_fmaf(odd ? s : s * r, p, odd ? -of_cosine : -less);
    return kl_bits_f32(kl_f32_bits(p) ^ (q & 2) << 30 ^ sign);
}
static inline __attribute__((always_inline)) float kl_sin_near_f32(float x) {
    return kl_circle_f32(fabsf(x), 0, kl_f32_bits(x) & UINT32_C(1) << 31);
}
static inline __attribute__((always_inline)) float kl_cos_near_f32(float x) {
    return kl_circle_f32(fabsf(x), 1, 0);
}
/* For any |x| below KL_CIRCLE_MAX. */
static inline __attribute__((always_inline)) float kl_sin_f32(float x) {
    float near = kl_sin_near_f32(x), y = (float)kl_sin_wide((double)x);
    return fabsf(x) < KL_CIRCLE_NEAR ? near : y;
}
static inline __attribute__((always_inline)) float kl_cos_f32(float x) {
    float near = kl_cos_near_f32(x), y = (float)kl_cos_wide((double)x);
    return fabsf(x) < KL_CIRCLE_NEAR ? near : y;
}
static inline float kl_tan_wide_f32(float x) {
    double t = __builtin_fma((double)x, KL_ONE_PI, KL_TO_INTEGER), n = t - KL_TO_INTEGER;
    double r = __builtin_fma(n, -KL_PI_REST, __builtin_fma(n, -KL_PI, (double)x));
    double a = fabs(r), c = (KL_PI / 2 - a) + KL_PI_REST / 2;
    double sine = r * KL_POLYNOMIAL(kl_sin_over_r, r * r);
    return (float)(sine / (c * KL_POLYNOMIAL(kl_sin_over_r, c * c)));
}
/* The tangent of r is r + rest; in odd quarters it is -1 / tan(r), a quotient that is corrected by
 * what it leaves. */
static inline __attribute__((always_inline)) float kl_tan_near_f32(float x) {
    struct kl_quarters p = kl_quarters_f32(fabsf(x));
    float s = p.r * p.r, cube = p.r * s;
    /* The roundings of s and cube are multiplied by 0.6 r and 0.45: about the derivatives where r
     * is large. */
    float less = __builtin_fmaf(__builtin_fmaf(p.r, p.r, -s) * p.r, 0.6f, -p.less * (1 + s));
    less = __builtin_fmaf(__builtin_fmaf(p.r, s, -cube), 0.45f, less);
    float rest = __builtin_fmaf(cube, KL_POLYNOMIAL_F32(kl_tan_rest, s), less);
    float sum = p.r + rest, low = (p.r - sum) + rest, q = -1 / sum;
    float left = __builtin_fmaf(q, sum, 1) + q * low;
    float y = p.n & 1 ? __builtin_fmaf(left, q, q) : sum;
    return kl_bits_f32(kl_f32_bits(y) ^ (kl_f32_bits(x) & UINT32_C(1) << 31));
}
static inline __attribute__((always_inline)) float kl_tan_f32(float x) {
    float near = kl_tan_near_f32(x), y = kl_tan_wide_f32(x);
    return fabsf(x) < KL_CIRCLE_NEAR ? near : y;
}

/* ---- inverse circular functions ----
 * In float32 throughout. The part of the result that is rounded, `rest`, is small next to the other
 * part, and their sum is kept with its rounding error. */
#define KL_HALF_PI_F32 0x1.921fb6p0f
#define KL_HALF_PI_REST_F32 -0x1.777a5cp-25f
/* base - take, and what its rounding leaves, less rest; base is 0 or |base| >= |take|. */
static inline float kl_subtract_f32(float base, float base_rest, float take, float rest) {
    float y = base - take;
    return y + (((base - y) - take) + (base_rest - rest));
}
/* asin(a) = s + rest for 0 <= a <= 1/2; for larger a it is pi / 2 - 2 (s + rest). */
struct kl_asin_parts {
    float s, rest;
};
static inline struct kl_asin_parts kl_asin_split(float a) {
    float z = a <= 0.5f ? a * a : __builtin_fmaf(-0.5f, a, 0.5f), root = sqrtf(z);
    /* what the root's rounding leaves; where it is 0, nothing */
    float left = __builtin_fmaf(-root, root, z) * (0.5f / (root + 0x1p-100f));
    float s = a <= 0.5f ? a : root;
    left = a <= 0.5f ? 0 : left;
    return (struct kl_asin_parts){s,
                                  __builtin_fmaf(s * z, KL_POLYNOMIAL_F32(kl_asin_rest, z), left)};
}
static inline float kl_asin_f32(float x) {
    float a = fabsf(x);
    struct kl_asin_parts p = kl_asin_split(a);
    float large = kl_subtract_f32(KL_HALF_PI_F32, KL_HALF_PI_REST_F32, 2 * p.s, 2 * p.rest);
    return copysignf(a <= 0.5f ? p.s + p.rest : large, x);
}
static inline float kl_acos_f32(float x) {
    float a = fabsf(x);
    struct kl_asin_parts p = kl_asin_split(a);
    float turns = a <= 0.5f ? 1 : x < 0 ? 2 : 0; /* the result is that many pi / 2, less asin */
    float times = copysignf(a <= 0.5f ? 1 : 2, a <= 0.5f ? x : -x);
    return kl_subtract_f32(turns * KL_HALF_PI_F32, turns * KL_HALF_PI_REST_F32, times * p.s,
                           times * p.rest);
}
/* For a > 1 it is pi / 2 - atan(t), t = 1 / a. The rounding of t is multiplied by 1 / (1 + t^2),
 * nearly 1 - t^2 / 2. */
static inline float kl_atan_f32(float x) {
    float a = fabsf(x) > 0x1p60f ? 0x1p60f : fabsf(x), inverse = 1 / a;
    float t = a > 1 ? inverse : a, z = t * t;
    float left = __builtin_fmaf(-inverse, a, 1) * inverse * __builtin_fmaf(-0.5f, z, 1);
    /* The rounding of the cube is multiplied by -0.2, about the polynomial where it is large. */
    float cube = t * z, low = -0.2f * __builtin_fmaf(t, z, -cube);
    float head = a > 1 ? KL_HALF_PI_F32 - t : t;
    float tail = ((KL_HALF_PI_F32 - head) - t) + (KL_HALF_PI_REST_F32 - (left + low));
    float rest = __builtin_fmaf(a > 1 ? -cube : cube, KL_POLYNOMIAL_F32(kl_atan_rest, z),
                                a > 1 ? tail : low);
    return copysignf(head + rest, x);
}
static inline double kl_atan_unit(double x) { /* |x| <= 1 */
    return x * KL_POLYNOMIAL(kl_atan_over_x, x * x);
}
/* The angle of (x, y), signed zeros and infinities as in C; not of NaN. */
static inline double kl_atan2_wide(double y, double x) {
    double ax = fabs(x), ay = fabs(y);
    double small = ax < ay ? ax : ay, large = ax < ay ? ay : ax;
    double t = small == large ? 1 : small / large;
    double a = kl_atan_unit(large == 0 ? 0 : t);
    a = ax < ay ? KL_PI / 2 - a : a;
    a = kl_f64_bits(x) >> 63 ? KL_PI - a : a;
    return copysign(a, y);
}
/* As atan2f of the C library. */
static inline float kl_atan2_f32(float y, float x) {
    float r = (float)kl_atan2_wide((double)y, (double)x);
    return x != x || y != y ? x + y : r;
}
