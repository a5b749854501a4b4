/* map.h - maps, the inner functions of element-wise operations, and which operation has which map.
 * A map computes n elements from contiguous inputs of one compute type (see operand/tile.h); out
 * may be exactly one of the inputs. The caller widens 16-bit floats to float32 where no map takes
 * them directly. */
#pragma once
#include "backend/cpu/operand/tile.h"

typedef void kl_map_fn(int64_t n, void *out, const void *a, const void *b, const void *c);

/* The map of an operation for the dtype of the values (for WHERE: of the second input). NULL where
 * another family of maps has the operation, or no family has it. */
kl_map_fn *kl_cpu_unary_map(enum kl_op_id op, enum kl_dtype dtype);
kl_map_fn *kl_cpu_binary_map(enum kl_op_id op, enum kl_dtype dtype);
kl_map_fn *kl_cpu_transcendental_map(enum kl_op_id op, enum kl_dtype dtype);
kl_map_fn *kl_cpu_rounding_map(enum kl_op_id op, enum kl_dtype dtype);
kl_map_fn *kl_cpu_division_map(enum kl_op_id op, enum kl_dtype dtype);
kl_map_fn *kl_cpu_float64_map(enum kl_op_id op, enum kl_dtype dtype);
kl_map_fn *kl_cpu_power_map(enum kl_op_id op, enum kl_dtype dtype);
kl_map_fn *kl_cpu_complex_map(enum kl_op_id op, enum kl_dtype dtype);
kl_map_fn *kl_cpu_bitwise_map(enum kl_op_id op, enum kl_dtype dtype);
kl_map_fn *kl_cpu_half_map(enum kl_op_id op, enum kl_dtype dtype);
/* *swap is set where a and b are exchanged (a > b is computed as b < a). */
kl_map_fn *kl_cpu_compare_map(enum kl_op_id op, enum kl_dtype dtype, bool *swap);

/* Define maps by a function or macro of one element (from T to R), and of two elements. */
#define KL_MAP_1(name, T, R, f)                                                           \
    static void name(int64_t n, void *out, const void *a, const void *b, const void *c) { \
        const T *x = a;                                                                   \
        R *y = out;                                                                       \
        KL_EACH(i, n) y[i] = f(x[i]);                                                     \
    }
#define KL_MAP_2(name, T, f)                                                              \
    static void name(int64_t n, void *out, const void *a, const void *b, const void *c) { \
        const T *x = a, *y = b;                                                           \
        T *z = out;                                                                       \
        KL_EACH(i, n) z[i] = f(x[i], y[i]);                                               \
    }

/* How an operation is computed. */
struct kl_cpu_map {
    kl_map_fn *fn;                      /* NULL: kl_convert, from in_type[0] to out_type */
    enum kl_dtype in_type[3], out_type; /* the compute types of fn's inputs and output */
    bool swap;                          /* operands 0 and 1 are exchanged */
};
/* Finds the map of an operation on n_in inputs (at most 3) of these dtypes. Returns false where
 * there is none. */
bool kl_cpu_find_map(struct kl_cpu_map *m, enum kl_op_id op, int n_in, const enum kl_dtype *in,
                     enum kl_dtype out);
