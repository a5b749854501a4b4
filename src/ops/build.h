/* build.h - makes an operation again from its number, its parameters and other inputs, through its
 * builder and with all of the builder's checks. The transforms use it (batches, recomputation,
 * shapeless plans), and so does the import of functions, whose parameters come from files: nothing
 * in them is believed. */
#pragma once
#include <stddef.h>

#include "base/op.h"
#include "graph/array.h"

struct kl_build {
    enum kl_op_id op;
    const void *params; /* a struct of base/op_params.h, by op */
    size_t params_bytes;
    struct kl_array *const *in; /* borrowed */
    int n_in;
    struct kl_stream *s;
};

/* *out: a new reference to the only output. The parameters may be hostile: their size, counts, axes
 * and values are checked before they are used. */
typedef int kl_build_fn(const struct kl_build *b, struct kl_array **out, struct kl_error **err);

/* Makes the operation. KL_EUNSUPPORTED: it cannot be made again (functions and kernels of the
 * user). KL_EARG: the number of inputs or the parameters are not those of the operation; else the
 * errors of its builder. *out is unchanged on failure. */
int kl_op_build(const struct kl_build *b, struct kl_array **out, struct kl_error **err);
