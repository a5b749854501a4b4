/* op_params.h - the parameters of operations, as builders write them and kernels read them.
 * Flat structs, copied with the node; arrays of varying length are flexible members. */
#pragma once
#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/op/kernel_desc.h"
#include "base/op/launch.h"

/* ARANGE: element i is start + i * step, computed in double for floats, in int64 for integers. */
struct kl_arange_params {
    double start, step;
};

/* SUM, PROD, MAX, MIN, ALL, ANY, LOGSUMEXP over `axes` (sorted, distinct, non-negative). The output
 * keeps the reduced axes, with size 1. */
struct kl_reduce_params {
    int n_axes;
    int axes[];
};

/* VAR: axes as for kl_reduce_params. The sum of squared distances from the mean is divided by the
 * number of elements minus ddof, or by 0 where that is negative. */
struct kl_var_params {
    int ddof;
    int n_axes;
    int axes[];
};

/* CUMSUM, CUMPROD, CUMMAX, CUMMIN, LOGCUMSUMEXP: element i of the output combines the input
 * elements before i (reverse: after i), and element i itself if inclusive. */
struct kl_scan_params {
    int axis;
    bool reverse, inclusive;
};

/* PARTITION, ARGPARTITION: element kth (0 or more) of the output is the element that sorting would
 * put there; no element before it is larger, none after it is smaller. TOPK: kth is the number of
 * largest elements to give, in ascending order. */
struct kl_partition_params {
    int axis, kth;
};

/* RMS_NORM: in = {x} or {x, weight}. LAYER_NORM: in = {x}, then weight if has_weight, then bias if
 * has_bias. They work over the last axis. weight and bias are 1-d, of the length of that axis and
 * of the dtype of x. */
struct kl_norm_params {
    float eps;
    bool has_weight, has_bias;
};

/* NORM_BACKWARD: in = {x, cotangent} or {x, weight, cotangent}, all of one float dtype; the weight
 * is 1-d, of the length n of the last axis, and the cotangent has the shape of x. out has one axis:
 * the gradient of x, row-major, then that of the weight (n) if of_weight, then that of the bias (n)
 * if of_bias. Without a weight each element counts as multiplied by 1. */
struct kl_norm_backward_params {
    float eps;
    bool centred; /* LAYER_NORM; else RMS_NORM */
    bool has_weight, of_weight, of_bias;
};

/* ROPE: in = {x, offset} or {x, offset, freqs}. x has at least 3 axes. offset is int32, 0-d or 1-d
 * with the length of the first axis of x. freqs is float32, 1-d, of dims / 2 elements. */
struct kl_rope_params {
    int dims;
    bool traditional, inverse; /* inverse: rotate by the negative angles */
    float base, scale;         /* base is used when there are no freqs */
};

/* ARGMAX, ARGMIN, SORT, ARGSORT, CONCATENATE, GATHER_AXIS: one axis, non-negative. */
struct kl_axis_params {
    int axis;
};

/* SOFTMAX: over the n_axes axes that begin with `axis`; on devices these are the last axes. */
struct kl_softmax_params {
    int axis, n_axes;
};

/* SLICE, SLICE_UPDATE: values for each axis of the input. SLICE_UPDATE: in = {base, update}. */
struct kl_slice_params {
    int ndim;
    int64_t v[]; /* start[ndim], stride[ndim]; the view or the update gives the extents */
};
/* RESHAPE: the target shape as it was asked for, so that it can be asked for again of an input
 * of other extents: 0 or more is an extent, -1 the one that follows from the number of elements,
 * and -2 - k the extent of axis k of the input. BROADCAST: the target shape. TRANSPOSE: the
 * permutation. EXPAND_DIMS, SQUEEZE: the axes. */
struct kl_dims_params {
    int n;
    int v[];
};

/* AS_STRIDED: the input is row-contiguous. Element (i, j, ...) of the view is the input's flat
 * element offset + i * strides[0] + j * strides[1] + ... VIEW has no parameters. DEPENDS has none
 * either: its output is a copy of in[0]. */
struct kl_strided_params {
    int ndim;
    int64_t v[]; /* offset, strides[ndim] */
};

/* DIAGONAL: element i of the last axis is at (i, i + offset) of the two axes, or at (i - offset, i)
 * when offset is negative. The other axes keep their order. */
struct kl_diagonal_params {
    int offset, axis1, axis2;
};

/* FACTOR has no parameters. in[0] is a batch of symmetric positive semi-definite float32 matrices
 * A; the output holds matrices F with F * transpose(F) = A. */

/* RANDOM_BITS: in[0] holds keys, of shape (..., 2) and dtype uint32. The output has the shape
 * keys[:-1] + shape and holds unsigned words of `width` bytes. Each key has its own Threefry-2x32
 * stream. */
struct kl_bits_params {
    int width; /* 1, 2, 4 or 8 bytes */
};

/* GATHER: in = {source, index 0, index 1, ...}; axes[k] is the source axis of index k. The shape
 * of the output is the common shape of the indices followed by slice_sizes (one for each source
 * axis). */
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

/* SCATTER: in = {base, updates, index 0, index 1, ...}. The shape of updates is the common shape of
 * the indices followed by one extent for each axis of base. When an assignment has duplicate
 * indices, the highest position is the one that stays. */
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

/* ATTENTION: in = {q (b, heads, n, d), k (b, kv_heads, m, d), v (b, kv_heads, m, e), then mask (b,
 * heads, n, m) if has_mask, then sinks (heads) if has_sinks}. */
struct kl_attention_params {
    float scale;
    bool causal; /* the last query sees all keys, the query before it one key less, and so on */
    bool has_mask, has_sinks;
};
/* Where products of queries of 16 bits are made without rounding scale * q, queries can be
 * multiplied by this power of two first, which is exact: the largest that is at most |scale| and 1.
 * Then no score overflows that does not when scale is multiplied into the queries. 1 for float16,
 * whose products fit float32, and whose range a power of two might leave. 0: neither is certain. */
static inline float kl_attention_power(enum kl_dtype dtype, float scale) {
    int exponent;
    const float size = fabsf(scale);
    if (!(size >= 0x1p-32f && size <= 0x1p32f)) return 0;
    if (dtype == KL_F16 || size >= 1) return 1;
    (void)frexpf(size, &exponent);
    return ldexpf(1, exponent - 1);
}

/* ATTENTION_BACKWARD: in = those of ATTENTION, then its result (b, heads, n, e) and the cotangent
 * of that, all of one dtype but for masks of bool; with the same parameters. out has one axis: the
 * gradients of q, k, v and, if has_sinks, of the sinks, each row-major, one behind the other. The
 * result is taken as it is given, not as a function of the others. */

/* CONVOLUTION: in = {x (n, spatial axes, c), w (o, spatial axes, c / groups)}, both of one float
 * dtype; out (n, spatial axes, o). Along each spatial axis zeros are put between the elements of x,
 * so that they are input_dilation apart, then low and high zeros around them (negative: elements of
 * what is there by then are removed). Output channels of group i see the input channels of group i.
 * flip: the kernel is read from its last element to its first. */
enum { KL_MAX_SPATIAL = 3 };
struct kl_convolution_params {
    int ndim; /* spatial axes: 1 to KL_MAX_SPATIAL; the entries of other axes are 0 */
    int groups;
    bool flip;
    int stride[KL_MAX_SPATIAL], low[KL_MAX_SPATIAL], high[KL_MAX_SPATIAL];
    int dilation[KL_MAX_SPATIAL], input_dilation[KL_MAX_SPATIAL];
};

/* CONVOLUTION_BACKWARD: the gradient of the weight of the convolution `of`; in = {x (n, spatial
 * axes, c), cotangent (n, spatial axes, o)}, both of one float dtype; out (o, spatial axes, c /
 * groups). k: the extents of the weight. */
struct kl_convolution_backward_params {
    struct kl_convolution_params of;
    int k[KL_MAX_SPATIAL]; /* entries of other axes are 0 */
};

/* How numbers are quantized: groups of group_size elements along the last axis, each with a scale,
 * in words of 32 bits that are filled from the lowest bit on (base/quant.h). */
enum kl_quant_mode { KL_QUANT_AFFINE, KL_QUANT_MXFP4, KL_QUANT_MXFP8, KL_QUANT_NVFP4 };
struct kl_quant_format {
    enum kl_quant_mode mode;
    int group_size, bits;
};

/* QUANTIZE: in = {w} or {w, global scale (float32, 0-d)}; w has float16, bfloat16 or float32 and at
 * least one axis. The output is one of: */
enum kl_quantize_part {
    KL_QUANTIZE_CODES,  /* uint32, packed */
    KL_QUANTIZE_SCALES, /* uint8; affine: those of w's dtype, (2, ...), scales and then biases */
    KL_QUANTIZE_VALUES, /* what codes and scales stand for, of the shape of w, in `dtype` */
};
struct kl_quantize_params {
    struct kl_quant_format format;
    enum kl_quantize_part part;
    enum kl_dtype dtype; /* of the output */
};

/* DEQUANTIZE: in = {w, scales}, then biases (affine), or the global scale (float32, 0-d) or
 * nothing. w is uint32; the leading axes of all but the global scale are the same. The scales are
 * uint8; affine: scales and biases have one dtype of float16, bfloat16 and float32. */
struct kl_dequantize_params {
    struct kl_quant_format format;
    enum kl_dtype dtype; /* of the output: float16, bfloat16 or float32 */
};

/* QUANTIZED_MATMUL: in = {x (..., m, k), w, scales}, then biases (affine). Leading axes are the
 * same. w stands for (..., n, k) if transpose, else (..., k, n). x, the output and, if affine,
 * scales and biases have one dtype of float16, bfloat16 and float32. GATHER_QMM: in = {x (a, m, k),
 * w, scales, biases (affine; else the scales again), lhs, rhs}; w and scales have one leading axis,
 * of b elements; lhs and rhs are int32 of one shape, in [0, a) and [0, b), and the output has that
 * shape, then m and n. */
struct kl_qmm_params {
    struct kl_quant_format format;
    bool transpose;
};

/* CALL: a C function with a context. It must write every output element or return an error. */
struct kl_call_params {
    const char *name; /* for messages; static or owned by ctx */
    int (*fn)(void *ctx, struct kl_launch *l, struct kl_error **err);
    void *ctx;                  /* one reference, owned by the params */
    void (*release)(void *ctx); /* may be NULL */
    /* Takes one more reference to ctx, for work in flight. Needed on devices when release is
     * set. */
    void (*retain)(void *ctx);
    /* Called when the node is freed or fails without having run, so that a loader can count the
     * node as settled. May be NULL. */
    void (*skipped)(void *ctx, struct kl_error *why);
    /* scratch memory for fn, which gets it as an extra uint8 output after the others */
    size_t workspace_bytes;
    /* on a device: fn must not run when the fault of an input is set, because it is not safe on
     * arbitrary data */
    bool guarded;
};

/* CUSTOM: a function with rules of its own. in = the n_out results of the function, then its n_args
 * arguments; the outputs are views of the results. The rules belong to transforms/, which gives the
 * function that drops the reference to them. */
struct kl_custom_params {
    struct kl_custom_function *custom; /* one reference, owned by the parameters */
    void (*release)(struct kl_custom_function *custom);
    int n_args;
};

/* DEFERRED: the number of the call and its arguments, in the form of ops/build/deferred.h. */
struct kl_deferred_params {
    int n;
    int v[];
};

/* KERNEL: one reference to its description, owned by the parameters. */
struct kl_kernel_params {
    struct kl_kernel_desc *desc;
};
