/* short_rows.h - reductions of short rows, 16 of them at a time: the fixed cost of a row would be
 * most of the time. With AVX-512 only; else along.c transposes them. Row r is the n elements at x +
 * offsets[r] (in elements), 1 <= n <= KL_SHORT. */
#pragma once
#include "backend/cpu/math/order.h"
#include "backend/cpu/vector/simd.h"

#if KL_HAS_SIMD && defined __AVX512F__
#define KL_HAS_SHORT 1
enum {
    KL_SHORT = 128,
    KL_SHORT_PLACES = 64, /* the longest row for kl_short_places */
};
/* Sums of float32 and 16-bit floats, as float32, by the reduction tree of one leaf of reduce.inc.
 * */
void kl_short_sums(enum kl_dtype dtype, float *out, const void *x, const int64_t *offsets,
                   int64_t rows, int64_t n);
/* The largest keys of rows of float32 (stored as int32_t) or, if half, of 16-bit floats (stored as
 * int16_t). */
void kl_short_extremes(bool half, struct kl_order order, void *out, const void *x,
                       const int64_t *offsets, int64_t rows, int64_t n);
/* The position of the first of the largest elements, as arg_reduce.c defines it. */
void kl_short_places(bool half, struct kl_order order, uint32_t *out, const void *x,
                     const int64_t *offsets, int64_t rows, int64_t n);
/* Reductions of rows of 64-bit elements, whose values fold joins (reduce.h), by the tree of one
 * leaf. take: for which operations and lengths. */
static inline bool kl_short_halves_take(enum kl_op_id op, enum kl_dtype dtype, int64_t n) {
    return kl_dtype_size(dtype) == 8 && (n == 4 || n == 8 || n == 16 || n == 32 || n == 48) &&
           (op == KL_OP_SUM || op == KL_OP_PROD || op == KL_OP_MAX || op == KL_OP_MIN);
}
void kl_short_halves(void (*fold)(void *a, const void *b, int64_t n), uint64_t *out,
                     const uint64_t *x, const int64_t *offsets, int64_t rows, int64_t n);
#else
#define KL_HAS_SHORT 0
#endif
