/* cpu_map.h - the inner functions of element-wise operations, and which operation has which.
 *
 * A map computes n elements from contiguous inputs of one compute type (see cpu_tile.h). out may be
 * exactly one of the inputs. 16-bit floats are brought to float32 by the caller. For the kernels of
 * this folder only. */
#pragma once
#include "backend/cpu/cpu_tile.h"

typedef void kl_map_fn(int64_t n, void *out, const void *a, const void *b, const void *c);

/* By operation and the dtype of the values (for WHERE: of the second input). NULL: another
 * family's, or no such kernel. */
kl_map_fn *kl_cpu_unary_map(enum kl_op_id op, enum kl_dtype dtype);
kl_map_fn *kl_cpu_binary_map(enum kl_op_id op, enum kl_dtype dtype);
kl_map_fn *kl_cpu_transcendental_map(enum kl_op_id op, enum kl_dtype dtype);
kl_map_fn *kl_cpu_rounding_map(enum kl_op_id op, enum kl_dtype dtype);
kl_map_fn *kl_cpu_bitwise_map(enum kl_op_id op, enum kl_dtype dtype);
/* *swap: a and b change places (greater is less of the exchanged operands). */
kl_map_fn *kl_cpu_compare_map(enum kl_op_id op, enum kl_dtype dtype, bool *swap);

/* float64 is what erfinv is defined by; used for float32 too. |x| > 1 and NaN give NaN, 1 and -1
 * infinities. */
double kl_cpu_erfinv(double x);
/* Accurate to float32 only, and faster. */
float kl_cpu_erfinv_f32(float x);
