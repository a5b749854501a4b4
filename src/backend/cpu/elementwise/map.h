/* map.h - the inner functions of element-wise operations, and which operation has which.
 *
 * A map computes n elements from contiguous inputs of one compute type (see operand/tile.h). out may be
 * exactly one of the inputs. 16-bit floats are brought to float32 by the caller, where there is no map
 * that takes them as they are. For the kernels of this folder only. */
#pragma once
#include "backend/cpu/operand/tile.h"

typedef void kl_map_fn(int64_t n, void *out, const void *a, const void *b, const void *c);

/* By operation and the dtype of the values (for WHERE: of the second input). NULL: another
 * family's, or no such kernel. */
kl_map_fn *kl_cpu_unary_map(enum kl_op_id op, enum kl_dtype dtype);
kl_map_fn *kl_cpu_binary_map(enum kl_op_id op, enum kl_dtype dtype);
kl_map_fn *kl_cpu_transcendental_map(enum kl_op_id op, enum kl_dtype dtype);
kl_map_fn *kl_cpu_rounding_map(enum kl_op_id op, enum kl_dtype dtype);
kl_map_fn *kl_cpu_bitwise_map(enum kl_op_id op, enum kl_dtype dtype);
kl_map_fn *kl_cpu_half_map(enum kl_op_id op, enum kl_dtype dtype);
/* *swap: a and b change places (greater is less of the exchanged operands). */
kl_map_fn *kl_cpu_compare_map(enum kl_op_id op, enum kl_dtype dtype, bool *swap);

/* Maps by a function, or macro, of one element: T to R, and of two. */
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

/* What an operation runs as. */
struct kl_cpu_map {
    kl_map_fn *fn;                      /* NULL: kl_convert, from in_type[0] to out_type */
    enum kl_dtype in_type[3], out_type; /* what fn takes and gives: compute types */
    bool swap;                          /* operands 0 and 1 change places */
};
/* Of an operation on inputs of these dtypes (n_in of them, at most 3). false: there is none. */
bool kl_cpu_find_map(struct kl_cpu_map *m, enum kl_op_id op, int n_in, const enum kl_dtype *in,
                     enum kl_dtype out);

/* |x| > 1 and NaN give NaN, 1 and -1 infinities. */
double kl_cpu_erfinv(double x);
