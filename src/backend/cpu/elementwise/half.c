/* half.c - maps of 16-bit floats: a run of elements is widened to float32, computed and rounded
 * without leaving the registers; see map.h. Operations without such a map, and variants without
 * vector registers (KL_HAS_SIMD 0), go through tiles of float32. Functions of bfloat16 use shorter
 * polynomials than those of float32 (math/functions.h), with errors of 2^-19 to 2^-25
 * (tools/make/fit_math.py). For each of the 65536 arguments they give the correctly rounded float32
 * result, rounded to bfloat16 (tests/backend/cpu/elementwise/test_half.c). */
#include "backend/cpu/vector/simd.h"

#include <math.h>
#include <string.h>

#include "backend/cpu/math/extremes.h"
#include "backend/cpu/vector/lanes.h"
#include "backend/cpu/elementwise/map.h"
#include "backend/cpu/math/functions.h"
#include "backend/cpu/math/root.h"

#if KL_HAS_SIMD
/* Computes n runs of 1 or 2 operands. */
typedef void runs_fn(int64_t n, uint16_t *out, const uint16_t *a, const uint16_t *b);

/* A partial last run is computed in copies, outside of the loops, so that the loops keep their
 * values in registers. */
static __attribute__((noinline)) void map_runs(runs_fn *runs, int64_t n, uint16_t *out,
                                               const uint16_t *a, const uint16_t *b) {
    int64_t whole = n / KL_HALVES * KL_HALVES;
    size_t rest = (size_t)(n - whole) * sizeof *out;
    uint16_t room[3][KL_HALVES] = {{0}};
    if (whole) runs(n / KL_HALVES, out, a, b);
    if (!rest) return;
    memcpy(room[0], a + whole, rest);
    if (b) memcpy(room[1], b + whole, rest);
    runs(1, room[2], room[0], room[1]);
    memcpy(out + whole, room[2], rest);
}

/* A map of `type` (bf16, f16) that computes EACH. BEFORE is done first to each run. */
#define MAP1(name, runs, type, EACH) MAP1_AFTER(name, runs, type, (void)0, EACH)
#define MAP1_AHEAD(name, runs, type, EACH) MAP1_AFTER(name, runs, type, kl_math_ahead(a, out), EACH)
#define MAP1_CLAMPED(name, runs, type, lo, hi, EACH) \
    MAP1_AFTER(name, runs, type, kl_clamp_halves(x, lo, hi), EACH)
#define MAP1_AFTER(name, runs, type, BEFORE, EACH)                                        \
    static void runs(int64_t n, uint16_t *out, const uint16_t *a, const uint16_t *b) {    \
        for (; n > 0; n--, out += KL_HALVES, a += KL_HALVES) {                            \
            _Alignas(64) float x[KL_HALVES];                                              \
            kl_load_##type(x, a);                                                         \
            BEFORE;                                                                       \
            KL_LANES(k, KL_HALVES) x[k] = EACH(x[k]);                                     \
            kl_store_##type(out, x);                                                      \
        }                                                                                 \
    }                                                                                     \
    static void name(int64_t n, void *out, const void *a, const void *b, const void *c) { \
        map_runs(runs, n, out, a, NULL);                                                  \
    }
#define MAP2(name, runs, type, EACH)                                                      \
    static void runs(int64_t n, uint16_t *out, const uint16_t *a, const uint16_t *b) {    \
        for (; n > 0; n--, out += KL_HALVES, a += KL_HALVES, b += KL_HALVES) {            \
            _Alignas(64) float x[KL_HALVES], y[KL_HALVES];                                \
            kl_load_##type(x, a);                                                         \
            kl_load_##type(y, b);                                                         \
            KL_LANES(k, KL_HALVES) x[k] = EACH(x[k], y[k]);                               \
            kl_store_##type(out, x);                                                      \
        }                                                                                 \
    }                                                                                     \
    static void name(int64_t n, void *out, const void *a, const void *b, const void *c) { \
        map_runs(runs, n, out, a, b);                                                     \
    }

#define SUM(a, b) ((a) + (b))
#define DIFFERENCE(a, b) ((a) - (b))
#define PRODUCT(a, b) ((a) * (b))
#define QUOTIENT(a, b) ((a) / (b))
#define SQUARE(a) ((a) * (a))
#define RSQRT(a) (1.0f / sqrtf(a))
MAP2(add_bf16, add_bf16_runs, bf16, SUM)
MAP2(add_f16, add_f16_runs, f16, SUM)
MAP2(subtract_bf16, subtract_bf16_runs, bf16, DIFFERENCE)
MAP2(subtract_f16, subtract_f16_runs, f16, DIFFERENCE)
MAP2(multiply_bf16, multiply_bf16_runs, bf16, PRODUCT)
MAP2(multiply_f16, multiply_f16_runs, f16, PRODUCT)
MAP2(divide_bf16, divide_bf16_runs, bf16, QUOTIENT)
MAP2(divide_f16, divide_f16_runs, f16, QUOTIENT)
MAP2(maximum_bf16, maximum_bf16_runs, bf16, kl_max_f32)
MAP2(maximum_f16, maximum_f16_runs, f16, kl_max_f32)
MAP2(minimum_bf16, minimum_bf16_runs, bf16, kl_min_f32)
MAP2(minimum_f16, minimum_f16_runs, f16, kl_min_f32)
MAP1(square_bf16, square_bf16_runs, bf16, SQUARE)
MAP1(square_f16, square_f16_runs, f16, SQUARE)
static inline void roots(float *x) {
    for (int k = 0; k < KL_HALVES; k += KL_ROOTS) kl_roots(x + k, x + k);
}
#define ITSELF(a) (a)
MAP1_AFTER(sqrt_bf16, sqrt_bf16_runs, bf16, roots(x), ITSELF)
MAP1_AFTER(sqrt_f16, sqrt_f16_runs, f16, roots(x), ITSELF)
MAP1(rsqrt_bf16, rsqrt_bf16_runs, bf16, RSQRT)
MAP1(rsqrt_f16, rsqrt_f16_runs, f16, RSQRT)

/* ---- functions of bfloat16 ---- */
/* In r, exp(r) on [-ln 2, ln 2]; relative error 2^-25.2. These tables are coefficients of
 * polynomials in the variable that is named first. */
static const float exp_of_r[] = {1.0f,          1.0f,          0.500000715f,   0.166666746f,
                                 0.0416591465f, 0.0083324993f, 0.00141338271f, 0.000201130533f};
/* In f, log(1 + f) / f on [sqrt(1/2) - 1, sqrt(2) - 1]; relative error 2^-22.2. */
static const float log1p_over_f[] = {0.99999994f,  -0.500003755f, 0.333346069f, -0.249689072f,
                                     0.199133486f, -0.172782063f, 0.161262482f, -0.0989535078f};
/* In r * r, sin(r) / r on [0, pi / 2]; relative error 2^-26.2. */
static const float sin_over_r[] = {1.0f, -0.166666582f, 0.00833304971f, -0.000198090172f,
                                   2.60510774e-06f};
/* In x * x, tanh(x) / x on [0, 3.8] and erf(x) / x on [0, 3.1], each as a quotient of polynomials;
 * relative errors 2^-22.0 and 2^-19.1. */
static const float tanh_above[] = {0.999999762f, 0.118442155f, 0.0017764091f},
                   tanh_below[] = {1.0f, 0.451773047f, 0.0190382972f, 7.47529848e-05f};
static const float erf_above[] = {1.12837923f, 0.154274985f, 0.0432213992f, 0.000750358391f},
                   erf_below[] = {1.0f, 0.470083445f, 0.0948695466f, 0.00929994229f};

#define PI_ABOVE \
    0x1.921fb4p1f /* truncated, so that PI_REST is positive: then -0.0 keeps its sign */
#define PI_REST 0x1.4442d2p-23f

/* exp(x) = exp(r) 2^m 2^m for x in [-104, 90]: 2^m is normal even where the result is denormal. */
static inline float exp_of(float x) {
    float t = __builtin_fmaf(x, 0.72134752f, KL_TO_INTEGER_F32 + 127),
          m = t - (KL_TO_INTEGER_F32 + 127);
    float r = __builtin_fmaf(m, -2 * KL_LN2_REST_F32, __builtin_fmaf(m, -2 * KL_LN2_F32, x));
    float power = kl_bits_f32(kl_f32_bits(t) << 23);
    return KL_POLYNOMIAL_F32(exp_of_r, r) * power * power;
}
static inline float sigmoid_of(float x) {
    float e = exp_of(kl_bits_f32(kl_f32_bits(x) | UINT32_C(1) << 31));
    return (x > 0 ? 1 : e) / (1 + e);
}
/* n and log(1 + f), where x = 2^(n + less) (1 + f), as in kl_log_split. */
struct logarithm {
    float n, y;
};
static inline struct logarithm split_log(float x, float less) {
    uint32_t u = kl_f32_bits(x) + (0x3f800000u - 0x3f3504f3u);
    float n = (float)(int32_t)(u >> 23) - less;
    float f = kl_bits_f32((u & 0x7fffffu) + 0x3f3504f3u) - 1;
    return (struct logarithm){n, f * KL_POLYNOMIAL_F32(log1p_over_f, f)};
}
static inline float log_of(float x, float less) {
    struct logarithm l = split_log(x, less);
    return __builtin_fmaf(l.n, KL_LN2_F32, l.y);
}
static inline float log2_of(float x, float less) {
    struct logarithm l = split_log(x, less);
    return __builtin_fmaf(l.y, 1.44269504f, l.n);
}
static inline float log10_of(float x, float less) {
    struct logarithm l = split_log(x, less);
    return __builtin_fmaf(l.n, KL_LN2_F32, l.y) * 0.434294482f;
}
/* Returns y, the logarithm of x, where x is positive and finite; else the logarithm's special
 * value. */
static inline float log_ends(float x, float y) {
    y = x == INFINITY ? INFINITY : y;
    y = x > 0 ? y : NAN;
    return x == 0 ? -INFINITY : y;
}
/* Nearly every run has positive, normal and finite elements only. The cases are separate steps,
 * since gcc would compute all of them for each element if they were in one loop. */
#define LOGARITHM(name, runs, EACH)                                                            \
    static void runs(int64_t n, uint16_t *out, const uint16_t *a, const uint16_t *b) {         \
        for (; n > 0; n--, out += KL_HALVES, a += KL_HALVES) {                                 \
            _Alignas(64) float x[KL_HALVES], normal[KL_HALVES], less[KL_HALVES], y[KL_HALVES]; \
            kl_load_bf16(x, a);                                                                \
            if (kl_ordinary_bf16(a)) {                                                         \
                KL_LANES(k, KL_HALVES) y[k] = EACH(x[k], 127);                                 \
                kl_store_bf16(out, y);                                                         \
                continue;                                                                      \
            }                                                                                  \
            KL_LANES(k, KL_HALVES) normal[k] = x[k] < 0x1p-126f ? x[k] * 0x1p24f : x[k];       \
            KL_LANES(k, KL_HALVES) less[k] = x[k] < 0x1p-126f ? 127 + 24 : 127;                \
            KL_LANES(k, KL_HALVES) y[k] = EACH(normal[k], less[k]);                            \
            KL_LANES(k, KL_HALVES) y[k] = log_ends(x[k], y[k]);                                \
            kl_store_bf16(out, y);                                                             \
        }                                                                                      \
    }                                                                                          \
    static void name(int64_t n, void *out, const void *a, const void *b, const void *c) {      \
        map_runs(runs, n, out, a, NULL);                                                       \
    }
static inline float tanh_of(float x) {
    return x * KL_POLYNOMIAL_F32(tanh_above, x * x) / KL_POLYNOMIAL_F32(tanh_below, x * x);
}
static inline float erf_of(float x) {
    return x * KL_POLYNOMIAL_F32(erf_above, x * x) / KL_POLYNOMIAL_F32(erf_below, x * x);
}
MAP1_CLAMPED(exp_bf16, exp_bf16_runs, bf16, -104, 90, exp_of)
MAP1_CLAMPED(sigmoid_bf16, sigmoid_bf16_runs, bf16, -104, 104, sigmoid_of)
LOGARITHM(log_bf16, log_bf16_runs, log_of)
LOGARITHM(log2_bf16, log2_bf16_runs, log2_of)
LOGARITHM(log10_bf16, log10_bf16_runs, log10_of)
MAP1_CLAMPED(tanh_bf16, tanh_bf16_runs, bf16, -3.8f, 3.8f, tanh_of)
MAP1_CLAMPED(erf_bf16, erf_bf16_runs, bf16, -3.1f, 3.1f, erf_of)

/* ---- circular functions: exact reduction below 2^15; larger arguments are rare ---- */
enum { REMOTE = 0x4700 }; /* 2^15 */
static inline float sin_of(float x) {
    float t = __builtin_fmaf(x, 0.318309886f, KL_TO_INTEGER_F32), n = t - KL_TO_INTEGER_F32;
    float r = __builtin_fmaf(n, -PI_REST, __builtin_fmaf(n, -PI_ABOVE, x));
    float y = r * KL_POLYNOMIAL_F32(sin_over_r, r * r);
    return kl_bits_f32(kl_f32_bits(y) ^ kl_f32_bits(t) << 31);
}
static inline float cos_of(float x) {
    float t = __builtin_fmaf(x, 0.318309886f, -0.5f) + KL_TO_INTEGER_F32,
          n = (t - KL_TO_INTEGER_F32) + 0.5f;
    float r = __builtin_fmaf(n, -PI_REST, __builtin_fmaf(n, -PI_ABOVE, x));
    float y = r * KL_POLYNOMIAL_F32(sin_over_r, r * r);
    return kl_bits_f32(kl_f32_bits(y) ^ (kl_f32_bits(t) + 1) << 31);
}
MAP1_AHEAD(near_sin_bf16, near_sin_bf16_runs, bf16, sin_of)
MAP1_AHEAD(near_cos_bf16, near_cos_bf16_runs, bf16, cos_of)

static void circular(int64_t n, uint16_t *y, const uint16_t *x, kl_map_fn *near,
                     float (*far)(float)) {
    for (int64_t at = 0; at < n; at += KL_TILE, x += KL_TILE, y += KL_TILE) {
        const int64_t m = kl_min64(n - at, KL_TILE);
        uint16_t some = 0;
        for (int64_t i = 0; i < m; i++) some |= (x[i] & 0x7fff) >= REMOTE;
        if (some)
            for (int64_t i = 0; i < m; i++) y[i] = kl_bf16_store(far(kl_bf16_load(x[i])));
        else
            near(m, y, x, NULL, NULL);
    }
}
static float far_sin(float x) {
    return fabsf(x) < KL_CIRCLE_MAX ? kl_sin_f32(x) : (float)sin((double)x);
}
static float far_cos(float x) {
    return fabsf(x) < KL_CIRCLE_MAX ? kl_cos_f32(x) : (float)cos((double)x);
}
static void sin_bf16(int64_t n, void *out, const void *a, const void *b, const void *c) {
    circular(n, out, a, near_sin_bf16, far_sin);
}
static void cos_bf16(int64_t n, void *out, const void *a, const void *b, const void *c) {
    circular(n, out, a, near_cos_bf16, far_cos);
}

#define BOTH(name) \
    { name##_bf16, name##_f16 }
static kl_map_fn *const maps[][2] = {
    [KL_OP_ADD] = BOTH(add),           [KL_OP_SUBTRACT] = BOTH(subtract),
    [KL_OP_MULTIPLY] = BOTH(multiply), [KL_OP_DIVIDE] = BOTH(divide),
    [KL_OP_MAXIMUM] = BOTH(maximum),   [KL_OP_MINIMUM] = BOTH(minimum),
    [KL_OP_SQUARE] = BOTH(square),     [KL_OP_SQRT] = BOTH(sqrt),
    [KL_OP_RSQRT] = BOTH(rsqrt),       [KL_OP_EXP] = {exp_bf16},
    [KL_OP_SIGMOID] = {sigmoid_bf16},  [KL_OP_LOG] = {log_bf16},
    [KL_OP_LOG2] = {log2_bf16},        [KL_OP_LOG10] = {log10_bf16},
    [KL_OP_TANH] = {tanh_bf16},        [KL_OP_ERF] = {erf_bf16},
    [KL_OP_SIN] = {sin_bf16},          [KL_OP_COS] = {cos_bf16},
};

kl_map_fn *kl_cpu_half_map(enum kl_op_id op, enum kl_dtype dtype) {
    if ((size_t)op >= sizeof maps / sizeof *maps) return NULL;
    return dtype == KL_BF16 ? maps[op][0] : dtype == KL_F16 ? maps[op][1] : NULL;
}
#else
kl_map_fn *kl_cpu_half_map(enum kl_op_id op, enum kl_dtype dtype) {
    return NULL;
}
#endif
