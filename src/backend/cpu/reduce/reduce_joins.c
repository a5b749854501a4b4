/* reduce_joins.c - the inner functions of SUM, PROD, MAX, MIN and VAR for each type that is
 * computed in, and for floats that are read as they are. docs/notes/cpu-kernels.md describes the
 * tree. */
#include "backend/cpu/math/extremes.h"
#include "backend/cpu/reduce/reduce.h"
#include "backend/cpu/vector/lanes.h"
#include "backend/cpu/vector/simd.h"

enum {
    LANES = KL_REDUCE_LANES,
    LEAF = KL_REDUCE_LEAF,
    /* The distance, in bytes, at which a row is prefetched. The processor's own prefetching stops
     * at the end of a page. */
    AHEAD = 4096,
};
_Static_assert(LANES == 16 && LEAF == 8 * LANES, "as reduce.inc is written out");

#if KL_HAS_SIMD
#define KL_SIMD_FLOATS
#endif
#define KL_TEMPLATE "backend/cpu/reduce/reduce.inc"
/* defines leaf_sum_u32, full_sum_u32, run_sum_u32, lane_sum_u32, fold_sum_u32, leaf_sum_u64,
 * full_sum_u64, run_sum_u64, lane_sum_u64, fold_sum_u64, leaf_sum_f32, full_sum_f32, run_sum_f32,
 * lane_sum_f32, fold_sum_f32, leaf_sum_f64, full_sum_f64, run_sum_f64, lane_sum_f64, fold_sum_f64,
 * leaf_sum_c64, full_sum_c64, run_sum_c64, lane_sum_c64, fold_sum_c64, leaf_prod_u32,
 * full_prod_u32, run_prod_u32, lane_prod_u32, fold_prod_u32, leaf_prod_u64, full_prod_u64,
 * run_prod_u64, lane_prod_u64, fold_prod_u64, leaf_prod_f32, full_prod_f32, run_prod_f32,
 * lane_prod_f32, fold_prod_f32, leaf_prod_f64, full_prod_f64, run_prod_f64, lane_prod_f64,
 * fold_prod_f64, leaf_prod_c64, full_prod_c64, run_prod_c64, lane_prod_c64, fold_prod_c64 */
#include "backend/cpu/reduce/totals.inc"

#define KL_BY_KEYS
#define KL_TEMPLATE "backend/cpu/reduce/reduce.inc"
/* defines run_max_u8, lane_max_u8, fold_max_u8, run_max_u16, lane_max_u16, fold_max_u16,
 * run_max_u32, lane_max_u32, fold_max_u32, run_max_u64, lane_max_u64, fold_max_u64, run_max_i8,
 * lane_max_i8, fold_max_i8, run_max_i16, lane_max_i16, fold_max_i16, run_max_i32, lane_max_i32,
 * fold_max_i32, run_max_i64, lane_max_i64, fold_max_i64, run_max_f64, lane_max_f64, fold_max_f64,
 * leaf_max_c64, full_max_c64, run_max_c64, lane_max_c64, fold_max_c64, run_min_u8, lane_min_u8,
 * fold_min_u8, run_min_u16, lane_min_u16, fold_min_u16, run_min_u32, lane_min_u32, fold_min_u32,
 * run_min_u64, lane_min_u64, fold_min_u64, run_min_i8, lane_min_i8, fold_min_i8, run_min_i16,
 * lane_min_i16, fold_min_i16, run_min_i32, lane_min_i32, fold_min_i32, run_min_i64, lane_min_i64,
 * fold_min_i64, run_min_f64, lane_min_f64, fold_min_f64, leaf_min_c64, full_min_c64, run_min_c64,
 * lane_min_c64, fold_min_c64 */
#include "backend/cpu/reduce/extremes.inc"

/* Floats become keys (math/order.h), whose maxima and minima are those of integers. */
#define T int16_t
#define NAME keys16
#define FROM uint16_t
#define LOAD(x) kl_key16(order, x)
#define ORDER struct kl_order order,
#define ANY_ORDER
#define JOIN KL_PLAIN_MAX
/* defines run_keys16, lane_keys16 */
#include "backend/cpu/reduce/reduce.inc"
#define T int32_t
#define NAME keys32
#define FROM uint32_t
#define LOAD(x) kl_key32(order, x)
#define ORDER struct kl_order order,
#define ANY_ORDER
#define JOIN KL_PLAIN_MAX
/* defines run_keys32, lane_keys32 */
#include "backend/cpu/reduce/reduce.inc"

#if KL_HAS_SIMD
#define NAME sum_f32
#define JOIN SUM_OF
#define FROM float
#define DTYPE KL_F32
#define WIDE kl_simd_load_f32
#define OF sum_f32
/* defines eight_sum_f32, full_sum_f32, four_sum_f32, run_sum_f32, lane_sum_f32 */
#include "backend/cpu/reduce/reduce_simd.inc"
#define NAME sum_f16
#define JOIN SUM_OF
#define FROM uint16_t
#define DTYPE KL_F16
#define WIDE kl_simd_load_f16
#define OF sum_f32
/* defines eight_sum_f16, full_sum_f16, four_sum_f16, run_sum_f16, lane_sum_f16 */
#include "backend/cpu/reduce/reduce_simd.inc"
#define NAME sum_bf16
#define JOIN SUM_OF
#define FROM uint16_t
#define DTYPE KL_BF16
#define WIDE kl_simd_load_bf16
#define OF sum_f32
/* defines eight_sum_bf16, full_sum_bf16, four_sum_bf16, run_sum_bf16, lane_sum_bf16 */
#include "backend/cpu/reduce/reduce_simd.inc"
#define NAME prod_f32
#define JOIN PRODUCT_OF
#define FROM float
#define DTYPE KL_F32
#define WIDE kl_simd_load_f32
#define OF prod_f32
/* defines eight_prod_f32, full_prod_f32, four_prod_f32, run_prod_f32, lane_prod_f32 */
#include "backend/cpu/reduce/reduce_simd.inc"
#define NAME prod_f16
#define JOIN PRODUCT_OF
#define FROM uint16_t
#define DTYPE KL_F16
#define WIDE kl_simd_load_f16
#define OF prod_f32
/* defines eight_prod_f16, full_prod_f16, four_prod_f16, run_prod_f16, lane_prod_f16 */
#include "backend/cpu/reduce/reduce_simd.inc"
#define NAME prod_bf16
#define JOIN PRODUCT_OF
#define FROM uint16_t
#define DTYPE KL_BF16
#define WIDE kl_simd_load_bf16
#define OF prod_f32
/* defines eight_prod_bf16, full_prod_bf16, four_prod_bf16, run_prod_bf16, lane_prod_bf16 */
#include "backend/cpu/reduce/reduce_simd.inc"
#define SQUARES
#define NAME squares_f32
#define JOIN SUM_OF
#define FROM float
#define DTYPE KL_F32
#define WIDE kl_simd_load_f32
#define OF sum_f32
/* defines eight_squares_f32, full_squares_f32, four_squares_f32, run_squares_f32,
 * lane_squares_f32 */
#include "backend/cpu/reduce/reduce_simd.inc"
#define SQUARES
#define NAME squares_f16
#define JOIN SUM_OF
#define FROM uint16_t
#define DTYPE KL_F16
#define WIDE kl_simd_load_f16
#define OF sum_f32
/* defines eight_squares_f16, full_squares_f16, four_squares_f16, run_squares_f16,
 * lane_squares_f16 */
#include "backend/cpu/reduce/reduce_simd.inc"
#define SQUARES
#define NAME squares_bf16
#define JOIN SUM_OF
#define FROM uint16_t
#define DTYPE KL_BF16
#define WIDE kl_simd_load_bf16
#define OF sum_f32
/* defines eight_squares_bf16, full_squares_bf16, four_squares_bf16, run_squares_bf16,
 * lane_squares_bf16 */
#include "backend/cpu/reduce/reduce_simd.inc"
#define HALVES(op)                                                 \
    [KL_F16] = {run_##op##_f16, lane_##op##_f16, fold_##op##_f32}, \
    [KL_BF16] = {run_##op##_bf16, lane_##op##_bf16, fold_##op##_f32},
#else
#define HALVES(op) /* 16-bit floats are converted to float32 in tiles */
#endif

const struct kl_reduce_squared kl_reduce_squares[KL_N_DTYPES] = {
#if KL_HAS_SIMD
    [KL_F32] = {run_squares_f32, lane_squares_f32},
    [KL_F16] = {run_squares_f16, lane_squares_f16},
    [KL_BF16] = {run_squares_bf16, lane_squares_bf16},
#endif
};

const struct kl_reduce_keyed kl_reduce_keys[KL_N_DTYPES] = {
    [KL_I16] = {run_keys16, lane_keys16},
    [KL_I32] = {run_keys32, lane_keys32},
};

#define JOIN_OF(name) \
    { run_##name, lane_##name, fold_##name }
#define EXTREME(op)                                                                               \
    {                                                                                             \
        [KL_BOOL] = JOIN_OF(op##_u8), [KL_U8] = JOIN_OF(op##_u8), [KL_U16] = JOIN_OF(op##_u16),   \
        [KL_U32] = JOIN_OF(op##_u32), [KL_U64] = JOIN_OF(op##_u64), [KL_I8] = JOIN_OF(op##_i8),   \
        [KL_I16] = JOIN_OF(op##_i16), [KL_I32] = JOIN_OF(op##_i32), [KL_I64] = JOIN_OF(op##_i64), \
        [KL_F64] = JOIN_OF(op##_f64), [KL_C64] = JOIN_OF(op##_c64)                                \
    }
#define TOTAL(op)                                                                                 \
    {                                                                                             \
        HALVES(op)                                                                                \
        [KL_U32] = JOIN_OF(op##_u32), [KL_I32] = JOIN_OF(op##_u32), [KL_U64] = JOIN_OF(op##_u64), \
        [KL_I64] = JOIN_OF(op##_u64), [KL_F32] = JOIN_OF(op##_f32), [KL_F64] = JOIN_OF(op##_f64), \
        [KL_C64] = JOIN_OF(op##_c64)                                                              \
    }
const struct kl_reduce_join kl_reduce_sums[KL_N_DTYPES] = TOTAL(sum);
const struct kl_reduce_join kl_reduce_products[KL_N_DTYPES] = TOTAL(prod);
const struct kl_reduce_join kl_reduce_maxima[KL_N_DTYPES] = EXTREME(max);
const struct kl_reduce_join kl_reduce_minima[KL_N_DTYPES] = EXTREME(min);
