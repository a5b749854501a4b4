/* op_params.h - the parameters of operations, as builders write them and kernels read them.
 * Flat structs, copied with the node; arrays of counts lie behind the struct (flexible members). */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/kernel_desc.h"
#include "base/launch.h"

/* ARANGE: element i is start + i * step, computed in double for floats, in int64 for integers. */
struct kl_arange_params {
    double start, step;
};

/* SUM, PROD, MAX, MIN, ALL, ANY, LOGSUMEXP over `axes` (sorted, distinct, non-negative). The output keeps reduced axes with size 1. */
struct kl_reduce_params {
    int n_axes;
    int axes[];
};

/* VAR: as above; the sum of squared distances is divided by the number of elements less ddof, or by 0. */
struct kl_var_params {
    int ddof;
    int n_axes;
    int axes[];
};

/* CUMSUM, CUMPROD, CUMMAX, CUMMIN, LOGCUMSUMEXP: element i has what the elements up to it give (reverse: from it on), itself among them if inclusive. */
struct kl_scan_params {
    int axis;
    bool reverse, inclusive;
};

/* PARTITION, ARGPARTITION: element kth of the output (0 or more) is the one that sorting would put there, none before it is larger, none behind it smaller.
 * TOPK: kth counts the largest elements, which are given in ascending order. */
struct kl_partition_params {
    int axis, kth;
};

/* RMS_NORM: in = {x} or {x, weight}; LAYER_NORM: in = {x}, then weight, then bias, if there are. Over the last axis; weight and bias are 1-d, of its length and of x's dtype. */
struct kl_norm_params {
    float eps;
    bool has_weight, has_bias;
};

/* ROPE: in = {x, offset} or {x, offset, freqs}. x has at least 3 axes; offset is int32, 0-d or of the length of the first one; freqs is float32, 1-d, of dims / 2 elements. */
struct kl_rope_params {
    int dims;
    bool traditional, inverse; /* inverse: by the negative angles */
    float base, scale;         /* base: when there are no freqs */
};

/* ARGMAX, ARGMIN, SORT, ARGSORT, CONCATENATE, GATHER_AXIS: one axis, non-negative. */
struct kl_axis_params {
    int axis;
};

/* SOFTMAX: over n_axes axes from `axis` on; on devices they are the last ones. */
struct kl_softmax_params {
    int axis, n_axes;
};

/* SLICE and SLICE_UPDATE: per axis of the input. in = {base, update} for the update. */
struct kl_slice_params {
    int ndim;
    int64_t v[]; /* start[ndim], stride[ndim]; the extent is that of the view or update */
};
struct
    kl_dims_params { /* RESHAPE, BROADCAST: the target; TRANSPOSE: the permutation; EXPAND_DIMS, SQUEEZE: the axes */
    int n;
    int v[];
};

/* AS_STRIDED: the input is row-contiguous; element (i, j, ...) of the view is its flat element offset + i * strides[0] + j *
 * strides[1] + ... VIEW has no parameters. DEPENDS has none either: in[0] is what the output is a copy of. */
struct kl_strided_params {
    int ndim;
    int64_t v[]; /* offset, strides[ndim] */
};

/* DIAGONAL: element i of the last axis is at (i, i + offset) of the two axes, or at (i - offset, i) when offset is negative. The other axes
 * keep their order. */
struct kl_diagonal_params {
    int offset, axis1, axis2;
};

/* FACTOR has no parameters: in[0] is a batch of symmetric positive semi-definite matrices A, float32; the output has F with F * transpose(F) = A. */

/* RANDOM_BITS: in[0] holds keys, shape (..., 2) uint32; the output has shape keys[:-1] + shape, of unsigned words
 * of width bytes. One Threefry-2x32 stream per key. */
struct kl_bits_params {
    int width; /* 1, 2, 4 or 8 bytes */
};

/* GATHER: in = {source, index 0, index 1, ...}; axes[k] is the source axis of index k. The output has the indices'
 * common shape followed by slice_sizes (one per source axis). */
struct kl_gather_params {
    int n_axes; /* = n_in - 1 */
    int ndim;   /* of the source */
    int v[];    /* axes[n_axes], slice_sizes[ndim] */
};

enum kl_scatter_mode {
    KL_SCATTER_ASSIGN,
    KL_SCATTER_ADD,
    KL_SCATTER_PROD,
    KL_SCATTER_MAX,
    KL_SCATTER_MIN
};

/* SCATTER: in = {base, updates, index 0, index 1, ...}; updates have the indices' common shape followed by one extent
 * per axis of base. Assignment with duplicates: the highest position wins. */
struct kl_scatter_params {
    enum kl_scatter_mode mode;
    int n_axes; /* = n_in - 2 */
    int axes[];
};

/* SCATTER_AXIS: in = {base, values, indices}, values of the shape of indices. */
struct kl_scatter_axis_params {
    enum kl_scatter_mode mode;
    int axis;
};

/* ATTENTION: in = {q (b, heads, n, d), k (b, kv_heads, m, d), v (b, kv_heads, m, e), mask (b, heads, n, m) if any, sinks (heads) if any}. */
struct kl_attention_params {
    float scale;
    bool causal; /* the last query sees all keys, the one before it all but one, ... */
    bool has_mask, has_sinks;
};

/* CALL: a C function with a context. It must write every output element or return an error. */
struct kl_call_params {
    const char *name; /* in messages; static or living in ctx */
    int (*fn)(void *ctx, struct kl_launch *l, struct kl_error **err);
    void *ctx;                  /* one reference, owned by the params */
    void (*release)(void *ctx); /* may be NULL */
    void (*retain)(
        void *
            ctx); /* one more reference, for work in flight; needed on devices when release is set */
    /* Called when the node dies or fails without having run: a loader counts it as settled. May be NULL. */
    void (*skipped)(void *ctx, struct kl_error *why);
    size_t
        workspace_bytes; /* scratch memory that fn gets as an extra output behind the others (uint8) */
    bool
        guarded; /* on a device: must not run when an input's fault is set (not safe on arbitrary data) */
};

/* KERNEL: one reference to its description, owned by the params. */
struct kl_kernel_params {
    struct kl_kernel_desc *desc;
};
