/* scan_joins.c - the inner functions of CUMSUM, CUMPROD, CUMMAX, CUMMIN and LOGCUMSUMEXP for each
 * type that is computed in, and for sums of 16-bit floats. */
#include "backend/cpu/math/complex.h"
#include "backend/cpu/math/extremes.h"
#include "backend/cpu/scan/scan.h"

/* As scan.inc and scan_simd.inc name them. */
enum { GROUP = KL_SCAN_GROUP, WIDTH = KL_SCAN_WIDTH };
enum {
    PREFIX = KL_SCAN_PREFIX,
    TOTAL = KL_SCAN_TOTAL,
    LOCAL = KL_SCAN_LOCAL,
    OFFSET = KL_SCAN_OFFSET
};

#define WRAPPED_PRODUCT_OF(a, b) \
    ((a)*1u * (b)) /* 16-bit operands would be promoted to a signed type, so 1u is a factor. */
#define AND_OF(a, b) ((a) & (b))

/* log(exp(a) + exp(b)) */
/* Not inlined: they call functions of the C library, and each place that uses them would grow. */
static __attribute__((noinline)) float log_add_f32(float a, float b) {
    float high = kl_max_f32(a, b), low = kl_min_f32(a, b);
    return high == low || fabsf(high) == INFINITY || low == -INFINITY
               ? (high == low && fabsf(high) < INFINITY ? high + 0.693147181f : high)
               : high + log1pf(expf(low - high));
}
static __attribute__((noinline)) double log_add_f64(double a, double b) {
    double high = kl_max_f64(a, b), low = kl_min_f64(a, b);
    return high == low || fabs(high) == INFINITY || low == -INFINITY
               ? (high == low && fabs(high) < INFINITY ? high + 0.69314718055994530942 : high)
               : high + log1p(exp(low - high));
}
static __attribute__((noinline)) struct kl_c64 log_add_c64(struct kl_c64 a, struct kl_c64 b) {
    float top = kl_max_f32(a.re, b.re);
    if (fabsf(top) == INFINITY) return a.re == top ? a : b;
    a.re -= top;
    b.re -= top;
    struct kl_c64 sum = kl_c64_log(kl_c64_add(kl_c64_exp(a), kl_c64_exp(b)));
    sum.re += top;
    return sum;
}

#define KL_TEMPLATE "backend/cpu/scan/scan.inc"
/* defines row_sum_u32, column_sum_u32, group_sum_u32, segment_sum_u32, row_sum_u64, column_sum_u64,
 * group_sum_u64, segment_sum_u64, row_sum_f32, column_sum_f32, group_sum_f32, segment_sum_f32,
 * row_sum_f64, column_sum_f64, group_sum_f64, segment_sum_f64, row_sum_c64, column_sum_c64,
 * group_sum_c64, segment_sum_c64, row_prod_u32, column_prod_u32, group_prod_u32, segment_prod_u32,
 * row_prod_u64, column_prod_u64, group_prod_u64, segment_prod_u64, row_prod_f32, column_prod_f32,
 * group_prod_f32, segment_prod_f32, row_prod_f64, column_prod_f64, group_prod_f64,
 * segment_prod_f64, row_prod_c64, column_prod_c64, group_prod_c64, segment_prod_c64 */
#include "backend/cpu/reduce/totals.inc"
#define T uint8_t
#define NAME sum_u8
#define JOIN SUM_OF
/* defines row_sum_u8, column_sum_u8, group_sum_u8, segment_sum_u8 */
#include "backend/cpu/scan/scan.inc"
#define T uint16_t
#define NAME sum_u16
#define JOIN SUM_OF
/* defines row_sum_u16, column_sum_u16, group_sum_u16, segment_sum_u16 */
#include "backend/cpu/scan/scan.inc"
#define T uint8_t
#define NAME prod_u8
#define JOIN WRAPPED_PRODUCT_OF
/* defines row_prod_u8, column_prod_u8, group_prod_u8, segment_prod_u8 */
#include "backend/cpu/scan/scan.inc"
#define T uint16_t
#define NAME prod_u16
#define JOIN WRAPPED_PRODUCT_OF
/* defines row_prod_u16, column_prod_u16, group_prod_u16, segment_prod_u16 */
#include "backend/cpu/scan/scan.inc"
#define T uint8_t
#define NAME and_b8
#define JOIN AND_OF
/* defines row_and_b8, column_and_b8, group_and_b8, segment_and_b8 */
#include "backend/cpu/scan/scan.inc"
#define KL_TEMPLATE "backend/cpu/scan/scan.inc"
/* defines row_max_u8, column_max_u8, group_max_u8, segment_max_u8, row_max_u16, column_max_u16,
 * group_max_u16, segment_max_u16, row_max_u32, column_max_u32, group_max_u32, segment_max_u32,
 * row_max_u64, column_max_u64, group_max_u64, segment_max_u64, row_max_i8, column_max_i8,
 * group_max_i8, segment_max_i8, row_max_i16, column_max_i16, group_max_i16, segment_max_i16,
 * row_max_i32, column_max_i32, group_max_i32, segment_max_i32, row_max_i64, column_max_i64,
 * group_max_i64, segment_max_i64, row_max_f32, column_max_f32, group_max_f32, segment_max_f32,
 * row_max_f64, column_max_f64, group_max_f64, segment_max_f64, row_max_c64, column_max_c64,
 * group_max_c64, segment_max_c64, row_min_u8, column_min_u8, group_min_u8, segment_min_u8,
 * row_min_u16, column_min_u16, group_min_u16, segment_min_u16, row_min_u32, column_min_u32,
 * group_min_u32, segment_min_u32, row_min_u64, column_min_u64, group_min_u64, segment_min_u64,
 * row_min_i8, column_min_i8, group_min_i8, segment_min_i8, row_min_i16, column_min_i16,
 * group_min_i16, segment_min_i16, row_min_i32, column_min_i32, group_min_i32, segment_min_i32,
 * row_min_i64, column_min_i64, group_min_i64, segment_min_i64, row_min_f32, column_min_f32,
 * group_min_f32, segment_min_f32, row_min_f64, column_min_f64, group_min_f64, segment_min_f64,
 * row_min_c64, column_min_c64, group_min_c64, segment_min_c64 */
#include "backend/cpu/reduce/extremes.inc"
#define T float
#define NAME log_f32
#define JOIN log_add_f32
/* defines row_log_f32, column_log_f32, group_log_f32, segment_log_f32 */
#include "backend/cpu/scan/scan.inc"
#define T double
#define NAME log_f64
#define JOIN log_add_f64
/* defines row_log_f64, column_log_f64, group_log_f64, segment_log_f64 */
#include "backend/cpu/scan/scan.inc"
#define T struct kl_c64
#define NAME log_c64
#define JOIN log_add_c64
/* defines row_log_c64, column_log_c64, group_log_c64, segment_log_c64 */
#include "backend/cpu/scan/scan.inc"

#if KL_HAS_SIMD
#define EACH_OF_16(DO) \
    DO(0)              \
    DO(1) DO(2) DO(3) DO(4) DO(5) DO(6) DO(7) DO(8) DO(9) DO(10) DO(11) DO(12) DO(13) DO(14) DO(15)
#if defined __AVX512F__
#define TRANSPOSE(t) kl_simd_transpose(t)
#define EACH_PAIR(DO) DO(0, 1) DO(2, 3) DO(4, 5) DO(6, 7) DO(8, 9) DO(10, 11) DO(12, 13) DO(14, 15)
#elif KL_WIDE_PARTS == 2
#define EACH_PAIR(DO) DO(0, 8) DO(1, 9) DO(2, 10) DO(3, 11) DO(4, 12) DO(5, 13) DO(6, 14) DO(7, 15)
#define TRANSPOSE(t) (kl_simd_transpose(t), kl_simd_transpose((t) + KL_SIMD))
#else
#define EACH_PAIR(DO) DO(0, 4) DO(1, 5) DO(2, 6) DO(3, 7) DO(8, 12) DO(9, 13) DO(10, 14) DO(11, 15)
#define TRANSPOSE(t)                                                               \
    (kl_simd_transpose(t), kl_simd_transpose((t) + 4), kl_simd_transpose((t) + 8), \
     kl_simd_transpose((t) + 12))
#endif
/* Stores two vectors, one after the other. */
static inline void put_f32(float *y, kl_simd first, kl_simd second) {
    kl_simd_store_f32(y, first);
    kl_simd_store_f32(y + KL_SIMD, second);
}
static inline void put_f16(uint16_t *y, kl_simd first, kl_simd second) {
    kl_simd_store_f16(y, first);
    kl_simd_store_f16(y + KL_SIMD, second);
}
#define IS_F32
#define NAME sum_f32
#define JOIN SUM_OF
#define IDENTITY -0.0f
#define FROM float
#define DTYPE KL_F32
#define WIDE kl_simd_load_f32
#define PUT put_f32
#define OF sum_f32
/* defines groups_sum_f32 */
#include "backend/cpu/scan/scan_simd.inc"
#define NAME sum_f16
#define JOIN SUM_OF
#define IDENTITY -0.0f
#define FROM uint16_t
#define DTYPE KL_F16
#define WIDE kl_simd_load_f16
#define PUT put_f16
#define OF sum_f32
/* defines groups_sum_f16, columns_sum_f16 */
#include "backend/cpu/scan/scan_simd.inc"
#ifdef __AVX512F__
#include "backend/cpu/scan/scan_avx512.h"
#define PAIRS
#endif
#define NAME sum_bf16
#define JOIN SUM_OF
#define IDENTITY -0.0f
#define FROM uint16_t
#define DTYPE KL_BF16
#define WIDE kl_simd_load_bf16
#define PUT kl_simd_store_bf16
#define OF sum_f32
/* defines groups_sum_bf16, columns_sum_bf16 */
#include "backend/cpu/scan/scan_simd.inc"
#else
#define groups_sum_f32 row_sum_f32
#endif

#define JOIN_OF(name) \
    { row_##name, column_##name, group_##name, segment_##name }
#define FLOATS(op) [KL_F64] = JOIN_OF(op##_f64), [KL_C64] = JOIN_OF(op##_c64)
#define UNSIGNEDS(op)                                                                       \
    [KL_U8] = JOIN_OF(op##_u8), [KL_U16] = JOIN_OF(op##_u16), [KL_U32] = JOIN_OF(op##_u32), \
    [KL_U64] = JOIN_OF(op##_u64)
#define SIGNEDS(op, of)                                                 \
    [KL_I8] = JOIN_OF(op##_##of##8), [KL_I16] = JOIN_OF(op##_##of##16), \
    [KL_I32] = JOIN_OF(op##_##of##32), [KL_I64] = JOIN_OF(op##_##of##64)
const struct kl_scan_join kl_scan_joins[KL_SCAN_KINDS][KL_N_DTYPES] = {
    {UNSIGNEDS(sum),
     SIGNEDS(sum, u), [KL_F32] = {groups_sum_f32, column_sum_f32, group_sum_f32, segment_sum_f32},
     FLOATS(sum)},
    {[KL_BOOL] = JOIN_OF(and_b8),
     UNSIGNEDS(prod),
     SIGNEDS(prod, u),
     [KL_F32] = JOIN_OF(prod_f32),
     FLOATS(prod)},
    {[KL_BOOL] = JOIN_OF(max_u8),
     UNSIGNEDS(max),
     SIGNEDS(max, i),
     [KL_F32] = JOIN_OF(max_f32),
     FLOATS(max)},
    {[KL_BOOL] = JOIN_OF(min_u8),
     UNSIGNEDS(min),
     SIGNEDS(min, i),
     [KL_F32] = JOIN_OF(min_f32),
     FLOATS(min)},
    {[KL_F32] = JOIN_OF(log_f32), FLOATS(log)},
};
#if KL_HAS_SIMD
const struct kl_scan_join kl_scan_halves[KL_N_DTYPES] = {
    [KL_F16] = {groups_sum_f16, columns_sum_f16, group_sum_f32, segment_sum_f32},
    [KL_BF16] = {groups_sum_bf16, columns_sum_bf16, group_sum_f32, segment_sum_f32}};
#endif
_Static_assert(KL_OP_CUMPROD == KL_OP_CUMSUM + 1 && KL_OP_CUMMAX == KL_OP_CUMSUM + 2 &&
                   KL_OP_CUMMIN == KL_OP_CUMSUM + 3 && KL_OP_LOGCUMSUMEXP == KL_OP_CUMSUM + 4,
               "the order of joins");
