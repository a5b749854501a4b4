/* build.h - makes an operation again from its number, its parameters and other inputs, through its
 * builder and with all of the builder's checks. The transforms use it (batches, recomputation,
 * shapeless plans), and so does the import of functions, whose parameters come from files: nothing
 * in them is believed. */
#pragma once
#include <stddef.h>

#include "base/op/declare.h"
#include "base/op/op.h"
#include "graph/array.h"

struct kl_build {
    enum kl_op_id op;
    const void *params; /* a struct of base/op/op_params.h, by op; at any alignment */
    size_t params_bytes;
    struct kl_array *const *in; /* borrowed */
    int n_in;
    struct kl_stream *s;
    /* Dtype and shape of the output as it was recorded. They are used only where neither inputs nor
     * parameters say them: the dtype by CAST, VIEW, ARANGE and SUM; the shape by ARANGE, SLICE and
     * AS_STRIDED; its last extents, which follow the batch of keys, by RANDOM_BITS. */
    enum kl_dtype dtype;
    int ndim;
    const int *dims; /* borrowed; ndim extents */
};

/* *out: a new reference to the only output. The parameters may be hostile: their size, counts, axes
 * and values are checked before they are used. */
typedef int kl_build_fn(const struct kl_build *b, struct kl_array **out, struct kl_error **err);

/* Makes the operation. With inputs of the dtypes, shapes and layouts that it had, the result is the
 * same operation. With other extents the builder decides; RESHAPE and BROADCAST keep their target
 * shape, SLICE its extents. KL_EUNSUPPORTED: it cannot be made again (functions and kernels of the
 * user). KL_EARG: the number of inputs or the parameters are not those of the operation; else the
 * errors of its builder. *out is unchanged on failure. */
int kl_op_build(const struct kl_build *b, struct kl_array **out, struct kl_error **err);
/* Makes an operation whose builder is its function in the column `build`: that one takes what a
 * caller may give (negative axes too), and no header declares another. */
int kl_op_make(struct kl_array **out, enum kl_op_id op, const void *params, size_t params_bytes,
               struct kl_array *const *in, int n_in, struct kl_stream *s, struct kl_error **err);
/* Two arguments, params and params_bytes: the structure `type` of base/op/op_params.h. */
#define KL_PARAMS_OF(type, ...) \
    &(const struct kl_##type##_params){__VA_ARGS__}, sizeof(struct kl_##type##_params)
/* Whether op can be made again: it has a function in the column `build` of base/op/op_list.def. */
bool kl_op_can_build(enum kl_op_id op);

/* The functions: the column build of op_list.def. */
#define KL_OP(ID, name, n_in, flags, kernel, lowering, indices, range, vjp, jvp, vmap, build, \
              params)                                                                         \
    KL_DECLARE(kl_build_fn, build)
#include "base/op/op_list.def"

/* ---- checks of parameters, for these functions; KL_EARG, KL_EAXIS ---- */
/* The parameters are exactly `bytes` long; copies them to `to`. */
int kl_build_params(const struct kl_build *b, void *to, size_t bytes, struct kl_error **err);
/* The parameters are `head` bytes and then a list of at most `room` entries of `entry` bytes.
 * Copies them to `to`, which has room for that, and puts the number of entries into *n. */
int kl_build_params_list(const struct kl_build *b, void *to, size_t head, size_t entry, int room,
                         int *n, struct kl_error **err);
/* The operation has no parameters. */
int kl_build_no_params(const struct kl_build *b, struct kl_error **err);
/* A count that the parameters state is the true one. */
int kl_build_count(int stated, int n, const char *what, struct kl_error **err);
/* The byte of a bool that came from outside is 0 or 1. */
int kl_build_flag(const bool *flag, struct kl_error **err);
/* An axis as parameters hold it: in [0, ndim). */
int kl_build_axis(int axis, int ndim, struct kl_error **err);
int kl_build_axes(const int *axes, int n, int ndim, struct kl_error **err);
