/* unary.c - the maps of one operand; see map.h. */
#include <math.h>
#include <string.h>

#include "backend/cpu/math/complex.h"
#include "backend/cpu/math/erfinv.h"
#include "backend/cpu/elementwise/map.h"
#include "backend/cpu/math/root.h"
#include "backend/cpu/math/functions.h"
#include "base/number/half.h"

#define U uint8_t
#define W uint32_t
#define NAME u8
/* defines negative_u8, square_u8, abs_u8 */
#include "backend/cpu/elementwise/unary_int.inc"
#define U uint16_t
#define W uint32_t
#define NAME u16
/* defines negative_u16, square_u16, abs_u16 */
#include "backend/cpu/elementwise/unary_int.inc"
#define U uint32_t
#define W uint32_t
#define NAME u32
/* defines negative_u32, square_u32, abs_u32 */
#include "backend/cpu/elementwise/unary_int.inc"
#define U uint64_t
#define W uint64_t
#define NAME u64
/* defines negative_u64, square_u64, abs_u64 */
#include "backend/cpu/elementwise/unary_int.inc"

/* ---- copies: by width, for any dtype ---- */
static void copy_1(int64_t n, void *out, const void *a, const void *b, const void *c) {
    if (out != a) memcpy(out, a, (size_t)n);
}
static void copy_2(int64_t n, void *out, const void *a, const void *b, const void *c) {
    if (out != a) memcpy(out, a, (size_t)n * 2);
}
static void copy_4(int64_t n, void *out, const void *a, const void *b, const void *c) {
    if (out != a) memcpy(out, a, (size_t)n * 4);
}
static void copy_8(int64_t n, void *out, const void *a, const void *b, const void *c) {
    if (out != a) memcpy(out, a, (size_t)n * 8);
}

static void not_b8(int64_t n, void *out, const void *a, const void *b, const void *c) {
    const uint8_t *x = a;
    uint8_t *y = out;
    KL_EACH(i, n) y[i] = x[i] == 0;
}

/* ---- floats: the sign is a bit, of NaN too ---- */
static void negative_f32(int64_t n, void *out, const void *a, const void *b, const void *c) {
    const uint32_t *x = a;
    uint32_t *y = out;
    KL_EACH(i, n) y[i] = x[i] ^ UINT32_C(1) << 31;
}
static void negative_f64(int64_t n, void *out, const void *a, const void *b, const void *c) {
    const uint64_t *x = a;
    uint64_t *y = out;
    KL_EACH(i, n) y[i] = x[i] ^ UINT64_C(1) << 63;
}
static void abs_f32(int64_t n, void *out, const void *a, const void *b, const void *c) {
    const uint32_t *x = a;
    uint32_t *y = out;
    KL_EACH(i, n) y[i] = x[i] & UINT32_MAX >> 1;
}
static void abs_f64(int64_t n, void *out, const void *a, const void *b, const void *c) {
    const uint64_t *x = a;
    uint64_t *y = out;
    KL_EACH(i, n) y[i] = x[i] & UINT64_MAX >> 1;
}
static void negative_16(int64_t n, void *out, const void *a, const void *b, const void *c) {
    const uint16_t *x = a;
    uint16_t *y = out;
    KL_EACH(i, n) y[i] = x[i] ^ 0x8000;
}
static void abs_16(int64_t n, void *out, const void *a, const void *b, const void *c) {
    const uint16_t *x = a;
    uint16_t *y = out;
    KL_EACH(i, n) y[i] = x[i] & 0x7fff;
}
static void square_f32(int64_t n, void *out, const void *a, const void *b, const void *c) {
    const float *x = a;
    float *y = out;
    KL_EACH(i, n) y[i] = x[i] * x[i];
}
static void square_f64(int64_t n, void *out, const void *a, const void *b, const void *c) {
    const double *x = a;
    double *y = out;
    KL_EACH(i, n) y[i] = x[i] * x[i];
}
static void sqrt_f32(int64_t n, void *out, const void *a, const void *b, const void *c) {
    const float *x = a;
    float *y = out;
    int64_t i = 0;
    for (; i + KL_ROOTS <= n; i += KL_ROOTS) kl_roots(y + i, x + i);
    for (; i < n; i++) y[i] = sqrtf(x[i]);
}
static void sqrt_f64(int64_t n, void *out, const void *a, const void *b, const void *c) {
    const double *x = a;
    double *y = out;
    KL_EACH(i, n) y[i] = sqrt(x[i]);
}
static void floor_f32(int64_t n, void *out, const void *a, const void *b, const void *c) {
    const float *x = a;
    float *y = out;
    KL_EACH(i, n) y[i] = floorf(x[i]);
}
static void floor_f64(int64_t n, void *out, const void *a, const void *b, const void *c) {
    const double *x = a;
    double *y = out;
    KL_EACH(i, n) y[i] = floor(x[i]);
}
#ifdef __AVX512F__
#include "backend/cpu/elementwise/exp_log_avx512.h"
static void exp_f32(int64_t n, void *out, const void *a, const void *b, const void *c) {
    kl_map_runs(exp_f32_runs, n, out, a, NULL);
}
static void log_f32(int64_t n, void *out, const void *a, const void *b, const void *c) {
    kl_map_runs(log_f32_runs, n, out, a, NULL);
}
static void log2_f32(int64_t n, void *out, const void *a, const void *b, const void *c) {
    kl_map_runs(log2_f32_runs, n, out, a, NULL);
}
static void log10_f32(int64_t n, void *out, const void *a, const void *b, const void *c) {
    kl_map_runs(log10_f32_runs, n, out, a, NULL);
}
#else
KL_MATH_MAP(exp_f32, exp_f32_runs, kl_exp_f32)
KL_MATH_MAP(log_f32, log_f32_runs, kl_log_f32)
KL_MATH_MAP(log2_f32, log2_f32_runs, kl_log2_f32)
KL_MATH_MAP(log10_f32, log10_f32_runs, kl_log10_f32)
#endif
/* Of evenly spread numbers, 1 in 500 needs the second polynomial and its root. These exceptions are
 * computed one by one, unless a run has more than MANY. out may be a, so the results of the
 * exceptions are kept until the run is done. */
static void erfinv_f32(int64_t n, void *out, const void *a, const void *b, const void *c) {
    enum { RUN = 64, MANY = 4 };
    for (int64_t at = 0; at < n; at += RUN) {
        const float *x = (const float *)a + at;
        float *y = (float *)out + at, kept[MANY];
        int64_t m = kl_min64(n - at, RUN);
        int beyond = 0, which[MANY], found = 0;
        KL_EACH(i, m) beyond += !(fabsf(x[i]) <= KL_ERFINV_MIDDLE);
        if (beyond > MANY) {
            KL_EACH(i, m) y[i] = kl_erfinv_f32(x[i]);
            continue;
        }
        for (int i = 0; found < beyond; i++) {
            if (fabsf(x[i]) <= KL_ERFINV_MIDDLE) continue;
            which[found] = i;
            kept[found++] = kl_erfinv_f32(x[i]);
        }
        KL_EACH(i, m) y[i] = kl_erfinv_middle_f32(x[i]);
        for (int k = 0; k < found; k++) y[which[k]] = kept[k];
    }
}

/* ---- complex64 ---- */
static void negative_c64(int64_t n, void *out, const void *a, const void *b, const void *c) {
    negative_f32(2 * n, out, a, b, c);
}
static void square_c64(int64_t n, void *out, const void *a, const void *b, const void *c) {
    const struct kl_c64 *x = a;
    struct kl_c64 *y = out;
    for (int64_t i = 0; i < n; i++) y[i] = kl_c64_mul(x[i], x[i]);
}
#define REALS(f) [KL_F32] = f##_f32, [KL_F64] = f##_f64
#define FLOATS(f) REALS(f), [KL_C64] = f##_c64
#define HALVES(f) [KL_F16] = f##_16, [KL_BF16] = f##_16
#define UNSIGNEDS(f) [KL_U8] = f##_u8, [KL_U16] = f##_u16, [KL_U32] = f##_u32, [KL_U64] = f##_u64
#define SIGNEDS(f) [KL_I8] = f##_u8, [KL_I16] = f##_u16, [KL_I32] = f##_u32, [KL_I64] = f##_u64

static kl_map_fn *const maps[][KL_N_DTYPES] = {
    [KL_OP_COPY] = {[KL_BOOL] = copy_1,
                    [KL_U8] = copy_1,
                    [KL_I8] = copy_1,
                    [KL_U16] = copy_2,
                    [KL_I16] = copy_2,
                    [KL_F16] = copy_2,
                    [KL_BF16] = copy_2,
                    [KL_U32] = copy_4,
                    [KL_I32] = copy_4,
                    [KL_F32] = copy_4,
                    [KL_U64] = copy_8,
                    [KL_I64] = copy_8,
                    [KL_F64] = copy_8,
                    [KL_C64] = copy_8},
    [KL_OP_NEGATIVE] = {UNSIGNEDS(negative), SIGNEDS(negative), FLOATS(negative), HALVES(negative)},
    [KL_OP_ABS] = {[KL_BOOL] = copy_1,
                   [KL_U8] = copy_1,
                   [KL_U16] = copy_2,
                   [KL_U32] = copy_4,
                   [KL_U64] = copy_8,
                   SIGNEDS(abs),
                   REALS(abs),
                   HALVES(abs)},
    [KL_OP_EXP] = {[KL_F32] = exp_f32},
    [KL_OP_LOG] = {[KL_F32] = log_f32},
    [KL_OP_LOG2] = {[KL_F32] = log2_f32},
    [KL_OP_LOG10] = {[KL_F32] = log10_f32},
    [KL_OP_SQRT] = {REALS(sqrt)},
    [KL_OP_SQUARE] = {[KL_BOOL] = copy_1, UNSIGNEDS(square), SIGNEDS(square), FLOATS(square)},
    [KL_OP_FLOOR] = {[KL_F32] = floor_f32, [KL_F64] = floor_f64},
    [KL_OP_ERFINV] = {[KL_F32] = erfinv_f32},
    [KL_OP_LOGICAL_NOT] = {[KL_BOOL] = not_b8},
};

kl_map_fn *kl_cpu_unary_map(enum kl_op_id op, enum kl_dtype dtype) {
    return (size_t)op < sizeof maps / sizeof *maps ? maps[op][dtype] : NULL;
}
