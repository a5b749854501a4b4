/* ops.h - builders: from arguments to lazy arrays. Argument checks, shape and dtype rules; no
 * kernels.
 *
 * What holds for every function here:
 * - It returns 0, or a negative code with *err set (err may be NULL); on failure *out is untouched.
 *   KL_EARG: a NULL required array, a NULL list with a count, a bad scalar; KL_EDTYPE; KL_ESHAPE;
 *   KL_EAXIS; KL_ENOMEM. Messages say what was given and what is taken, without the function's
 *   name.
 * - Arrays that come in are borrowed; *out is a new reference of the caller. It may be the same
 *   array as an input (retained) where the operation changes nothing and is not `copy`.
 * - Axes may be negative. A count of 0 allows a NULL pointer.
 * - s is where the operation runs; views and no-ops do not use it. NULL is an error (KL_EARG) for
 *   functions that have an operation to run.
 * - Binary operations promote (kl_dtype_promote) and broadcast as NumPy does. Any thread may
 * call. */
#pragma once
#include "graph/array.h"

typedef int kl_binary_fn(struct kl_array **out, struct kl_array *a, struct kl_array *b,
                         struct kl_stream *s, struct kl_error **err);
typedef int kl_unary_fn(struct kl_array **out, struct kl_array *a, struct kl_stream *s,
                        struct kl_error **err);

/* ---- create.c: arrays from parameters ---- */
/* dtype of the value for full: that given; the value is broadcast to the shape. */
int kl_zeros(struct kl_array **out, const int *shape, size_t shape_num, int dtype,
             struct kl_stream *s, struct kl_error **err);
int kl_zeros_like(struct kl_array **out, struct kl_array *a, struct kl_stream *s,
                  struct kl_error **err);
int kl_ones(struct kl_array **out, const int *shape, size_t shape_num, int dtype,
            struct kl_stream *s, struct kl_error **err);
int kl_ones_like(struct kl_array **out, struct kl_array *a, struct kl_stream *s,
                 struct kl_error **err);
int kl_full(struct kl_array **out, const int *shape, size_t shape_num, struct kl_array *vals,
            int dtype, struct kl_stream *s, struct kl_error **err);
int kl_full_like(struct kl_array **out, struct kl_array *a, struct kl_array *vals, int dtype,
                 struct kl_stream *s, struct kl_error **err);
/* 1-d: start, start + step, ... below stop (above, for a negative step); empty when none is.
 * Integers start at trunc(start) and step by trunc(start + step) - trunc(start), as in MLX.
 * KL_EARG: step 0, NaN, infinite bounds; KL_ELIMIT: too many elements; KL_EDTYPE: bool. */
int kl_arange(struct kl_array **out, double start, double stop, double step, int dtype,
              struct kl_stream *s, struct kl_error **err);

/* num numbers from start to stop, both included, evenly spaced; computed in double, rounded once. KL_EARG: num is negative. */
int kl_linspace(struct kl_array **out, double start, double stop, int num, int dtype,
                struct kl_stream *s, struct kl_error **err);

/* ---- window.c: n float32 numbers, symmetric; one is 1, none when n is below 1 ---- */
typedef int kl_window_fn(struct kl_array **out, int n, struct kl_stream *s, struct kl_error **err);
kl_window_fn kl_hanning, kl_hamming, kl_blackman, kl_bartlett;

/* ---- triangle.c ---- */
/* n rows, m columns, ones on the k-th diagonal: where column - row is k. KL_ESHAPE: a negative extent. */
int kl_eye(struct kl_array **out, int n, int m, int k, int dtype, struct kl_stream *s,
           struct kl_error **err);
int kl_identity(struct kl_array **out, int n, int dtype, struct kl_stream *s,
                struct kl_error **err);
/* Ones on the k-th diagonal and below; a negative extent counts as 0. */
int kl_tri(struct kl_array **out, int n, int m, int k, int dtype, struct kl_stream *s,
           struct kl_error **err);
/* x with zeros above (tril) or below (triu) the k-th diagonal of its last two axes. KL_ESHAPE: fewer than two axes. */
int kl_tril(struct kl_array **out, struct kl_array *x, int k, struct kl_stream *s,
            struct kl_error **err);
int kl_triu(struct kl_array **out, struct kl_array *x, int k, struct kl_stream *s,
            struct kl_error **err);
/* 1-d: the square matrix with a on its k-th diagonal; 2-d: that diagonal, a view. Else KL_ESHAPE. */
int kl_diag(struct kl_array **out, struct kl_array *a, int k, struct kl_stream *s,
            struct kl_error **err);
/* The sum of the diagonal, of elements converted to dtype; its dtype is that of kl_sum. */
int kl_trace(struct kl_array **out, struct kl_array *a, int offset, int axis1, int axis2, int dtype,
             struct kl_stream *s, struct kl_error **err);

/* ---- convert.c: the same values, laid out or typed another way ---- */
int kl_copy(struct kl_array **out, struct kl_array *a, struct kl_stream *s, struct kl_error **err);
/* a itself when it is row-contiguous (or column-contiguous and that is allowed). */
int kl_contiguous(struct kl_array **out, struct kl_array *a, bool allow_col_major,
                  struct kl_stream *s, struct kl_error **err);
int kl_astype(struct kl_array **out, struct kl_array *a, int dtype, struct kl_stream *s,
              struct kl_error **err);

/* A view of a that has no gradient. */
int kl_stop_gradient(struct kl_array **out, struct kl_array *a, struct kl_stream *s,
                     struct kl_error **err);

/* ---- shape.c: views, and copies where no view can do it ---- */
/* One extent may be -1: what is left. */
int kl_reshape(struct kl_array **out, struct kl_array *a, const int *shape, size_t shape_num,
               struct kl_stream *s, struct kl_error **err);
/* Merges axes start_axis .. end_axis; 0-d becomes (1,). */
int kl_flatten(struct kl_array **out, struct kl_array *a, int start_axis, int end_axis,
               struct kl_stream *s, struct kl_error **err);
int kl_transpose(struct kl_array **out, struct kl_array *a, struct kl_stream *s,
                 struct kl_error **err);
int kl_transpose_axes(struct kl_array **out, struct kl_array *a, const int *axes, size_t axes_num,
                      struct kl_stream *s, struct kl_error **err);
int kl_swapaxes(struct kl_array **out, struct kl_array *a, int axis1, int axis2,
                struct kl_stream *s, struct kl_error **err);
int kl_moveaxis(struct kl_array **out, struct kl_array *a, int source, int destination,
                struct kl_stream *s, struct kl_error **err);
int kl_broadcast_to(struct kl_array **out, struct kl_array *a, const int *shape, size_t shape_num,
                    struct kl_stream *s, struct kl_error **err);
/* *outs: n_arrays arrays of one shape; the caller releases each and gives the list to kl_free. */
int kl_broadcast_arrays(struct kl_array ***outs, size_t *n_outs, struct kl_array *const *arrays,
                        size_t n_arrays, struct kl_stream *s, struct kl_error **err);
int kl_expand_dims(struct kl_array **out, struct kl_array *a, int axis, struct kl_stream *s,
                   struct kl_error **err);
/* axes count in the result; distinct. */
int kl_expand_dims_axes(struct kl_array **out, struct kl_array *a, const int *axes, size_t axes_num,
                        struct kl_stream *s, struct kl_error **err);
int kl_squeeze(struct kl_array **out, struct kl_array *a, struct kl_stream *s,
               struct kl_error **err);
int kl_squeeze_axis(struct kl_array **out, struct kl_array *a, int axis, struct kl_stream *s,
                    struct kl_error **err);
int kl_squeeze_axes(struct kl_array **out, struct kl_array *a, const int *axes, size_t axes_num,
                    struct kl_stream *s, struct kl_error **err);

/* Axes of size 1 added: in front; for 3-d (n) becomes (1,n,1) and (n,m) becomes (n,m,1). */
kl_unary_fn kl_atleast_1d, kl_atleast_2d, kl_atleast_3d;
/* The axis becomes several, of its size together; one extent may be -1. */
int kl_unflatten(struct kl_array **out, struct kl_array *a, int axis, const int *shape,
                 size_t shape_num, struct kl_stream *s, struct kl_error **err);
/* The product of the extents of the axes, or one divided by it; 0-d, known at once. One divided by 0
 * is the largest number of an integer dtype. */
int kl_number_of_elements(struct kl_array **out, struct kl_array *a, const int *axes,
                          size_t axes_num, bool inverted, int dtype, struct kl_stream *s,
                          struct kl_error **err);

/* ---- strided.c: views of memory ---- */
/* Element (i, j, ...) is the flat row-major element offset + i * strides[0] + j * strides[1] + ... of a, which is copied when it is not row-contiguous.
 * KL_ESHAPE when that is outside of a for any element. */
int kl_as_strided(struct kl_array **out, struct kl_array *a, const int *shape, size_t shape_num,
                  const int64_t *strides, size_t strides_num, size_t offset, struct kl_stream *s,
                  struct kl_error **err);
/* The elements (i, i + offset) of two axes, as the last axis of a view. */
int kl_diagonal(struct kl_array **out, struct kl_array *a, int offset, int axis1, int axis2,
                struct kl_stream *s, struct kl_error **err);
/* The bits as another dtype. Where its size is another the last axis grows or shrinks, and must fit (KL_ESHAPE). To bool: whether a byte is not 0. */
int kl_view(struct kl_array **out, struct kl_array *a, int dtype, struct kl_stream *s,
            struct kl_error **err);

/* ---- rearrange.c ---- */
/* low[k] elements before and high[k] behind axis axes[k]. mode: "constant" (pad_value, one element, converted), "edge" (the outermost element), "reflect" and "symmetric"
 * (backwards and forwards, without and with the outermost element); pad_value may be NULL but for the first. */
int kl_pad(struct kl_array **out, struct kl_array *a, const int *axes, size_t axes_num,
           const int *low, size_t low_num, const int *high, size_t high_num,
           struct kl_array *pad_value, const char *mode, struct kl_stream *s,
           struct kl_error **err);
/* pad_width on every side. */
int kl_pad_symmetric(struct kl_array **out, struct kl_array *a, int pad_width,
                     struct kl_array *pad_value, const char *mode, struct kl_stream *s,
                     struct kl_error **err);
/* The whole array reps times along each axis; the shorter of shape and reps gets ones in front. */
int kl_tile(struct kl_array **out, struct kl_array *a, const int *reps, size_t reps_num,
            struct kl_stream *s, struct kl_error **err);
/* Each element repeats times in a row; without an axis: of a, flat. */
int kl_repeat(struct kl_array **out, struct kl_array *a, int repeats, struct kl_stream *s,
              struct kl_error **err);
int kl_repeat_axis(struct kl_array **out, struct kl_array *a, int repeats, int axis,
                   struct kl_stream *s, struct kl_error **err);
/* Element i moves to i + shift, around the end. Without an axis, of a, flat; several shifts for it, or for one axis, add up. Shifts beyond the axes are not used. */
int kl_roll(struct kl_array **out, struct kl_array *a, const int *shift, size_t shift_num,
            struct kl_stream *s, struct kl_error **err);
int kl_roll_axis(struct kl_array **out, struct kl_array *a, const int *shift, size_t shift_num,
                 int axis, struct kl_stream *s, struct kl_error **err);
int kl_roll_axes(struct kl_array **out, struct kl_array *a, const int *shift, size_t shift_num,
                 const int *axes, size_t axes_num, struct kl_stream *s, struct kl_error **err);
/* Array i, flat, along axis i of the result ("ij"; "xy": the first two axes change places), the same along the others; sparse: of size 1 along those. */
int kl_meshgrid(struct kl_array ***outs, size_t *n_outs, struct kl_array *const *arrays,
                size_t n_arrays, bool sparse, const char *indexing, struct kl_stream *s,
                struct kl_error **err);

/* ---- depends.c ---- */
/* The inputs, made when all dependencies have settled; they fail with the first dependency that failed, if they did not themselves. */
int kl_depends(struct kl_array ***outs, size_t *n_outs, struct kl_array *const *inputs,
               size_t n_inputs, struct kl_array *const *dependencies, size_t n_dependencies,
               struct kl_stream *s, struct kl_error **err);

/* ---- slice.c: parts of arrays, and arrays of parts ---- */
/* One start, stop and stride per axis. Bounds count from the end when negative and are clamped;
 * strides are not 0. */
int kl_slice(struct kl_array **out, struct kl_array *a, const int *start, size_t start_num,
             const int *stop, size_t stop_num, const int *strides, size_t strides_num,
             struct kl_stream *s, struct kl_error **err);
/* src with the slice replaced by update, broadcast to it and cast to src's dtype. */
int kl_slice_update(struct kl_array **out, struct kl_array *src, struct kl_array *update,
                    const int *start, size_t start_num, const int *stop, size_t stop_num,
                    const int *strides, size_t strides_num, struct kl_stream *s,
                    struct kl_error **err);
/* slice_join.c: src with the slice joined with update, converted and broadcast as above. */
typedef int kl_slice_join_fn(struct kl_array **out, struct kl_array *src, struct kl_array *update,
                             const int *start, size_t start_num, const int *stop, size_t stop_num,
                             const int *strides, size_t strides_num, struct kl_stream *s,
                             struct kl_error **err);
kl_slice_join_fn kl_slice_update_add, kl_slice_update_prod, kl_slice_update_max,
    kl_slice_update_min;
/* One behind the other along an axis; without one each is flattened first. The dtype is that in which
 * all meet. */
int kl_concatenate(struct kl_array **out, struct kl_array *const *arrays, size_t n_arrays,
                   struct kl_stream *s, struct kl_error **err);
int kl_concatenate_axis(struct kl_array **out, struct kl_array *const *arrays, size_t n_arrays,
                        int axis, struct kl_stream *s, struct kl_error **err);
int kl_split(struct kl_array ***outs, size_t *n_outs, struct kl_array *a, int num_splits, int axis,
             struct kl_stream *s, struct kl_error **err);
/* Cut before each of the indices. */
int kl_split_sections(struct kl_array ***outs, size_t *n_outs, struct kl_array *a,
                      const int *indices, size_t indices_num, int axis, struct kl_stream *s,
                      struct kl_error **err);
int kl_stack(struct kl_array **out, struct kl_array *const *arrays, size_t n_arrays,
             struct kl_stream *s, struct kl_error **err);
int kl_stack_axis(struct kl_array **out, struct kl_array *const *arrays, size_t n_arrays, int axis,
                  struct kl_stream *s, struct kl_error **err);

/* ---- unary.c, binary.c, transcendental.c, rounding.c, bitwise.c: element-wise ----
 * Functions of one and of two numbers, which base/op_list.def lists with their dtype rules. What
 * the public functions promise (mlx/c/ops.h, keel/ops.h) is what these do. */
#define KL_OP(...)
#define KL_UNARY(ID, name, builder, ...) kl_unary_fn builder;
#define KL_BINARY(ID, name, builder, ...) kl_binary_fn builder;
#include "base/op_list.def"
kl_unary_fn kl_reciprocal, kl_degrees, kl_radians; /* integers and bools in float32 */

/* To nearest, halves to even, at that many decimals (tens, hundreds, ... when negative); complex64
 * each part. Integers stay for decimals >= 0. */
int kl_round(struct kl_array **out, struct kl_array *a, int decimals, struct kl_stream *s,
             struct kl_error **err);
int kl_divmod(struct kl_array **out_0, struct kl_array **out_1, struct kl_array *a,
              struct kl_array *b, struct kl_stream *s, struct kl_error **err);
/* 8 bits (e4m3: no infinities, 448 at most, NaN is 0x7f), uint8, to float type dtype. */
int kl_from_fp8(struct kl_array **out, struct kl_array *x, int dtype, struct kl_stream *s,
                struct kl_error **err);

/* ---- classify.c ---- */
kl_unary_fn kl_isnan, kl_isinf; /* bool; complex64: either part */
kl_unary_fn kl_isfinite;        /* bool; complex64: both parts */
kl_unary_fn kl_isposinf, kl_isneginf;
/* Infinities: the largest finite numbers unless given. Integers and bools as they are; complex64 part by
 * part where both are given, else KL_EDTYPE. */
int kl_nan_to_num(struct kl_array **out, struct kl_array *a, double nan,
                  const double *posinf /* may be NULL */, const double *neginf /* may be NULL */,
                  struct kl_stream *s, struct kl_error **err);
/* |a - b| <= atol + rtol |b|, or equal. Computed in float32 at least. */
int kl_isclose(struct kl_array **out, struct kl_array *a, struct kl_array *b, double rtol,
               double atol, bool equal_nan, struct kl_stream *s, struct kl_error **err);
int kl_allclose(struct kl_array **out, struct kl_array *a, struct kl_array *b, double rtol,
                double atol, bool equal_nan, struct kl_stream *s, struct kl_error **err); /* 0-d */
/* 0-d; false where the shapes differ. */
int kl_array_equal(struct kl_array **out, struct kl_array *a, struct kl_array *b, bool equal_nan,
                   struct kl_stream *s, struct kl_error **err);
/* minimum(maximum(a, a_min), a_max); one of the bounds may be NULL. */
int kl_clip(struct kl_array **out, struct kl_array *a, struct kl_array *a_min,
            struct kl_array *a_max, struct kl_stream *s, struct kl_error **err);

/* condition != 0 ? x : y; x and y meet in one dtype, all three in one shape. */
int kl_where(struct kl_array **out, struct kl_array *condition, struct kl_array *x,
             struct kl_array *y, struct kl_stream *s, struct kl_error **err);

/* ---- reduce.c ---- */
typedef int kl_reduce_fn(struct kl_array **out, struct kl_array *a, bool keepdims,
                         struct kl_stream *s, struct kl_error **err);
typedef int kl_reduce_axis_fn(struct kl_array **out, struct kl_array *a, int axis, bool keepdims,
                              struct kl_stream *s, struct kl_error **err);
typedef int kl_reduce_axes_fn(struct kl_array **out, struct kl_array *a, const int *axes,
                              size_t axes_num, bool keepdims, struct kl_stream *s,
                              struct kl_error **err);
/* Bools and integers narrower than 32 bits are summed in 32; the others in their own type. */
kl_reduce_fn kl_sum, kl_mean, kl_max, kl_min;
kl_reduce_axis_fn kl_sum_axis, kl_mean_axis, kl_max_axis, kl_min_axis;
/* No axes: nothing is reduced. max and min of no elements: KL_EARG. */
kl_reduce_axes_fn kl_sum_axes, kl_mean_axes, kl_max_axes, kl_min_axes;
/* The product, typed like the sum. Of no elements: 1. */
kl_reduce_fn kl_prod;
kl_reduce_axis_fn kl_prod_axis;
kl_reduce_axes_fn kl_prod_axes;
/* bool: whether all, or any, are not 0 (NaN is not). Of no elements: true; false. */
kl_reduce_fn kl_all, kl_any;
kl_reduce_axis_fn kl_all_axis, kl_any_axis;
kl_reduce_axes_fn kl_all_axes, kl_any_axes;
/* log(sum(exp(a))), integers and bools in float32. NaN gives NaN, else inf gives inf; of no elements: -inf. */
kl_reduce_fn kl_logsumexp;
kl_reduce_axis_fn kl_logsumexp_axis;
kl_reduce_axes_fn kl_logsumexp_axes;
/* uint32; the first of equals, the first NaN before all. Over all elements: flat row-major
 * position. */
kl_reduce_fn kl_argmax, kl_argmin;
kl_reduce_axis_fn kl_argmax_axis, kl_argmin_axis;

/* ---- statistics.c ---- */
/* The mean squared distance from the mean, over max(n - ddof, 0) instead of n; integers and bools in float32, complex64 gives float32. std is its square root. */
typedef int kl_variance_fn(struct kl_array **out, struct kl_array *a, bool keepdims, int ddof,
                           struct kl_stream *s, struct kl_error **err);
typedef int kl_variance_axis_fn(struct kl_array **out, struct kl_array *a, int axis, bool keepdims,
                                int ddof, struct kl_stream *s, struct kl_error **err);
typedef int kl_variance_axes_fn(struct kl_array **out, struct kl_array *a, const int *axes,
                                size_t axes_num, bool keepdims, int ddof, struct kl_stream *s,
                                struct kl_error **err);
kl_variance_fn kl_var, kl_std;
kl_variance_axis_fn kl_var_axis, kl_std_axis;
kl_variance_axes_fn kl_var_axes, kl_std_axes;
/* The middle one in order, of an even number the mean of the two; NaN if there is one. Integers and bools in float32. KL_EARG for no elements. */
kl_reduce_axes_fn kl_median_axes;

/* ---- scan.c ---- */
/* Element i: what the elements up to it (reverse: from it on) give, itself among them if inclusive; else the first (last) is what nothing gives: 0, 1, the ends of the dtype, -inf.
 * Bools are summed in int32, otherwise the dtype stays; logcumsumexp: integers and bools in float32. 16-bit floats are rounded where they are stored. */
typedef int kl_scan_fn(struct kl_array **out, struct kl_array *a, int axis, bool reverse,
                       bool inclusive, struct kl_stream *s, struct kl_error **err);
kl_scan_fn kl_cumsum, kl_cumprod, kl_cummax, kl_cummin, kl_logcumsumexp;

/* ---- sort.c, softmax.c ---- */
/* Integers and bools in float32. 16-bit floats are computed in float32 with or without
 * `precise`. */
int kl_softmax(struct kl_array **out, struct kl_array *a, bool precise, struct kl_stream *s,
               struct kl_error **err);
int kl_softmax_axis(struct kl_array **out, struct kl_array *a, int axis, bool precise,
                    struct kl_stream *s, struct kl_error **err);
int kl_softmax_axes(struct kl_array **out, struct kl_array *a, const int *axes, size_t axes_num,
                    bool precise, struct kl_stream *s, struct kl_error **err);
/* Ascending, stable, NaN last. Without an axis: of all elements, flat. argsort gives uint32. */
kl_unary_fn kl_sort, kl_argsort;
int kl_sort_axis(struct kl_array **out, struct kl_array *a, int axis, struct kl_stream *s,
                 struct kl_error **err);
int kl_argsort_axis(struct kl_array **out, struct kl_array *a, int axis, struct kl_stream *s,
                    struct kl_error **err);
/* The element that sorting would put at kth (from the end when negative), none larger before it, none smaller behind it; those in an open order. argpartition gives uint32. KL_EARG: no
 * such place. Without an axis: of all elements, flat. */
int kl_partition(struct kl_array **out, struct kl_array *a, int kth, struct kl_stream *s,
                 struct kl_error **err);
int kl_partition_axis(struct kl_array **out, struct kl_array *a, int kth, int axis,
                      struct kl_stream *s, struct kl_error **err);
int kl_argpartition(struct kl_array **out, struct kl_array *a, int kth, struct kl_stream *s,
                    struct kl_error **err);
int kl_argpartition_axis(struct kl_array **out, struct kl_array *a, int kth, int axis,
                         struct kl_stream *s, struct kl_error **err);
/* The k largest, ascending. */
int kl_topk(struct kl_array **out, struct kl_array *a, int k, struct kl_stream *s,
            struct kl_error **err);
int kl_topk_axis(struct kl_array **out, struct kl_array *a, int k, int axis, struct kl_stream *s,
                 struct kl_error **err);

/* ---- fast.c ---- */
/* Over the last axis, of a float array with at least one; weight and bias (NULL for none) are 1-d, of its length. The result has the dtype in which all meet; 16-bit floats are
 * computed in float32. x / sqrt(mean(x^2) + eps) * weight. KL_EDTYPE: integers alone, complex64. */
int kl_rms_norm(struct kl_array **out, struct kl_array *x, struct kl_array *weight, float eps,
                struct kl_stream *s, struct kl_error **err);
/* (x - mean) / sqrt(var + eps) * weight + bias */
int kl_layer_norm(struct kl_array **out, struct kl_array *x, struct kl_array *weight,
                  struct kl_array *bias, float eps, struct kl_stream *s, struct kl_error **err);
/* x: floats, (batch, ..., positions, features). The first dims features are turned in pairs, neighbours if traditional, else dims / 2 apart; pair k of position t by
 * (t + offset) * scale * base^(-2k / dims), or over freqs[k] (1-d, dims / 2). Exactly one of base and freqs. offset: integers, 0-d or one per element of the batch. */
struct kl_rope_base {
    bool given;
    float value;
};
int kl_rope(struct kl_array **out, struct kl_array *x, int dims, bool traditional,
            struct kl_rope_base base, float scale, struct kl_array *offset,
            struct kl_array *freqs /* may be NULL */, struct kl_stream *s, struct kl_error **err);

/* ---- slice_dynamic.c ---- */
/* slice_size: one per axis of a. start: integers, 0-d or 1-d, one per axis named; negative ones count from the end, once; checked
 * when it runs. Axes that are not named begin at 0. */
int kl_slice_dynamic(struct kl_array **out, struct kl_array *a, struct kl_array *start,
                     const int *axes, size_t axes_num, const int *slice_size, size_t slice_size_num,
                     struct kl_stream *s, struct kl_error **err);
/* src with update, of at most as many axes (axes of size 1 are put in front), written from there on. */
int kl_slice_update_dynamic(struct kl_array **out, struct kl_array *src, struct kl_array *update,
                            struct kl_array *start, const int *axes, size_t axes_num,
                            struct kl_stream *s, struct kl_error **err);

/* ---- matmul.c ---- */
/* Batched, as NumPy's; KL_EDTYPE when the operands meet in an integer or bool type. */
kl_binary_fn kl_matmul;

/* ---- attention.c ---- */
/* softmax(scale q k' + mask) v. q (b, heads, n, d), k (b, kv heads, m, d), v (b, kv heads, m, e), heads a multiple of kv heads; the result (b, heads, n, e) in the type in which they meet, which must be a float's. mask_mode: "" or
 * NULL, "causal" (the last query sees all keys), "array". mask: bool (where false nothing is seen) or added to the scores; broadcasts to (b, heads, n, m). sinks: (heads), scores of a key whose value is 0. */
int kl_attention(struct kl_array **out, struct kl_array *q, struct kl_array *k, struct kl_array *v,
                 float scale, const char *mask_mode, struct kl_array *mask /* may be NULL */,
                 struct kl_array *sinks /* may be NULL */, struct kl_stream *s,
                 struct kl_error **err);
/* ---- products.c ---- */
/* Element (i, j) is a[i] * b[j], both flat. */
kl_binary_fn kl_outer;
/* The sum over the last axis of both, whose extents are equal; a 0-d operand: the product. Types as matmul. */
kl_binary_fn kl_inner;
/* Each element of a times all of b, block by block; ones stand for missing leading axes. */
kl_binary_fn kl_kron;
/* The sum of products over pairs of axes; the other axes of a, then those of b, stay. Types as matmul. KL_ESHAPE: a pair of two sizes. */
int kl_tensordot(struct kl_array **out, struct kl_array *a, struct kl_array *b, const int *axes_a,
                 size_t axes_a_num, const int *axes_b, size_t axes_b_num, struct kl_stream *s,
                 struct kl_error **err);
/* Over the last `axis` axes of a and the first of b. */
int kl_tensordot_axis(struct kl_array **out, struct kl_array *a, struct kl_array *b, int axis,
                      struct kl_stream *s, struct kl_error **err);
/* alpha * (a @ b) + beta * c, c broadcast to the product; in the type in which all three meet, which is floating or complex. beta 0: c is not read. */
int kl_addmm(struct kl_array **out, struct kl_array *c, struct kl_array *a, struct kl_array *b,
             float alpha, float beta, struct kl_stream *s, struct kl_error **err);

/* ---- hadamard.c ---- */
/* The last axis, of m * 2^k elements with m one of 1, 12, 20, 28, times the Hadamard matrix of that size and *scale (NULL: 1 / sqrt(size)). Integers and bools in float32, but
 * for size 1 and the factor 1, which change nothing; complex64: KL_EDTYPE; no elements: KL_ESHAPE. */
int kl_hadamard_transform(struct kl_array **out, struct kl_array *a, const float *scale,
                          struct kl_stream *s, struct kl_error **err);

/* ---- gather.c ---- */
/* indices: integers; they broadcast to one shape, which the result starts with, then slice_sizes
 * (one per axis of a). */
int kl_gather(struct kl_array **out, struct kl_array *a, struct kl_array *const *indices,
              size_t n_indices, const int *axes, size_t axes_num, const int *slice_sizes,
              size_t slice_sizes_num, struct kl_stream *s, struct kl_error **err);
int kl_gather_single(struct kl_array **out, struct kl_array *a, struct kl_array *indices, int axis,
                     const int *slice_sizes, size_t slice_sizes_num, struct kl_stream *s,
                     struct kl_error **err);
int kl_take(struct kl_array **out, struct kl_array *a, struct kl_array *indices,
            struct kl_stream *s, struct kl_error **err); /* of a, flat */
int kl_take_axis(struct kl_array **out, struct kl_array *a, struct kl_array *indices, int axis,
                 struct kl_stream *s, struct kl_error **err);
int kl_take_along_axis(struct kl_array **out, struct kl_array *a, struct kl_array *indices,
                       int axis, struct kl_stream *s, struct kl_error **err);

/* ---- scatter.c ---- */
int kl_put_along_axis(struct kl_array **out, struct kl_array *a, struct kl_array *indices,
                      struct kl_array *values, int axis, struct kl_stream *s,
                      struct kl_error **err);
int kl_scatter_add_axis(struct kl_array **out, struct kl_array *a, struct kl_array *indices,
                        struct kl_array *values, int axis, struct kl_stream *s,
                        struct kl_error **err);
/* updates: the indices' common shape followed by one extent per axis of a; cast to a's dtype.
 * Assignment with duplicate indices: the highest position wins. */
typedef int kl_scatter_fn(struct kl_array **out, struct kl_array *a,
                          struct kl_array *const *indices, size_t n_indices,
                          struct kl_array *updates, const int *axes, size_t axes_num,
                          struct kl_stream *s, struct kl_error **err);
typedef int kl_scatter_single_fn(struct kl_array **out, struct kl_array *a,
                                 struct kl_array *indices, struct kl_array *updates, int axis,
                                 struct kl_stream *s, struct kl_error **err);
kl_scatter_fn kl_scatter, kl_scatter_add, kl_scatter_prod, kl_scatter_max, kl_scatter_min;
kl_scatter_single_fn kl_scatter_single, kl_scatter_add_single, kl_scatter_prod_single,
    kl_scatter_max_single, kl_scatter_min_single;

/* ---- masked.c ---- */
/* a with src where mask is true. The mask is bool, of a shape with which that of a begins; src is cast
 * to a's dtype. A src of at most as many axes as the mask leaves broadcasts to these, for every true
 * place; one with one axis more has along it the parts for the true places in row order, each of which
 * broadcasts to these axes: too few are an index fault, what is too many is not used. KL_ESHAPE: others. */
int kl_masked_scatter(struct kl_array **out, struct kl_array *a, struct kl_array *mask,
                      struct kl_array *src, struct kl_stream *s, struct kl_error **err);

/* ---- random.c ---- */
/* A key is a uint32 array of shape (2,); batches of keys have shape (..., 2) where said. key may be
 * NULL below: the next key of the calling thread's sequence, which kl_random_seed restarts. */
int kl_random_key(struct kl_array **out, uint64_t seed, struct kl_error **err);
int kl_random_seed(uint64_t seed, struct kl_error **err);
int kl_random_split(struct kl_array **out_0, struct kl_array **out_1, struct kl_array *key,
                    struct kl_stream *s, struct kl_error **err);
int kl_random_split_num(struct kl_array **out, struct kl_array *key, int num, struct kl_stream *s,
                        struct kl_error **err); /* (num, 2) */
/* Unsigned integers of width (1, 2, 4) bytes; a batch of keys puts its shape in front. */
int kl_random_bits(struct kl_array **out, const int *shape, size_t shape_num, int width,
                   struct kl_array *key /* may be NULL */, struct kl_stream *s,
                   struct kl_error **err);
/* In [low, high); bounds broadcast to the shape. */
int kl_random_uniform(struct kl_array **out, struct kl_array *low, struct kl_array *high,
                      const int *shape, size_t shape_num, int dtype,
                      struct kl_array *key /* may be NULL */, struct kl_stream *s,
                      struct kl_error **err);
int kl_random_normal(struct kl_array **out, const int *shape, size_t shape_num, int dtype,
                     float loc, float scale, struct kl_array *key /* may be NULL */,
                     struct kl_stream *s, struct kl_error **err);
int kl_random_normal_broadcast(struct kl_array **out, const int *shape, size_t shape_num, int dtype,
                               struct kl_array *loc /* may be NULL */,
                               struct kl_array *scale /* may be NULL */,
                               struct kl_array *key /* may be NULL */, struct kl_stream *s,
                               struct kl_error **err);
/* In [low, high), integers. */
int kl_random_randint(struct kl_array **out, struct kl_array *low, struct kl_array *high,
                      const int *shape, size_t shape_num, int dtype,
                      struct kl_array *key /* may be NULL */, struct kl_stream *s,
                      struct kl_error **err);

/* ---- distributions.c ---- */
/* bool: true with probability p, a floating array that broadcasts to the shape. */
int kl_random_bernoulli(struct kl_array **out, struct kl_array *p, const int *shape,
                        size_t shape_num, struct kl_array *key /* may be NULL */,
                        struct kl_stream *s, struct kl_error **err);
/* -log(-log(u)), u uniform in [0, 1); dtypes as uniform. */
int kl_random_gumbel(struct kl_array **out, const int *shape, size_t shape_num, int dtype,
                     struct kl_array *key /* may be NULL */, struct kl_stream *s,
                     struct kl_error **err);
/* uint32: positions along an axis of the logits (real), position i with probability exp(logits[i]) / sum. The shape is that of the logits without the axis; or one to which that
 * broadcasts; or that with num_samples behind. KL_EARG: an empty axis. */
int kl_random_categorical(struct kl_array **out, struct kl_array *logits, int axis,
                          struct kl_array *key /* may be NULL */, struct kl_stream *s,
                          struct kl_error **err);
int kl_random_categorical_shape(struct kl_array **out, struct kl_array *logits, int axis,
                                const int *shape, size_t shape_num,
                                struct kl_array *key /* may be NULL */, struct kl_stream *s,
                                struct kl_error **err);
int kl_random_categorical_num_samples(struct kl_array **out, struct kl_array *logits, int axis,
                                      int num_samples, struct kl_array *key /* may be NULL */,
                                      struct kl_stream *s, struct kl_error **err);
/* loc + scale * sign(u) * log(1 - |u|), u uniform in (-1, 1); floating dtypes, rounded once. */
int kl_random_laplace(struct kl_array **out, const int *shape, size_t shape_num, int dtype,
                      float loc, float scale, struct kl_array *key /* may be NULL */,
                      struct kl_stream *s, struct kl_error **err);
/* Normal numbers given that they are in [lower, upper], real arrays that broadcast to the shape; floating dtypes. */
int kl_random_truncated_normal(struct kl_array **out, struct kl_array *lower,
                               struct kl_array *upper, const int *shape, size_t shape_num,
                               int dtype, struct kl_array *key /* may be NULL */,
                               struct kl_stream *s, struct kl_error **err);
/* 0 .. n - 1 in a random order, uint32. */
int kl_random_permutation_arange(struct kl_array **out, int n,
                                 struct kl_array *key /* may be NULL */, struct kl_stream *s,
                                 struct kl_error **err);
/* x with its slices along an axis in a random order. */
int kl_random_permutation(struct kl_array **out, struct kl_array *x, int axis,
                          struct kl_array *key /* may be NULL */, struct kl_stream *s,
                          struct kl_error **err);
/* Normal vectors: mean (..., n), cov (..., n, n) positive semi-definite (not checked; its symmetric part counts), both without these axes broadcasting to the shape; the result has
 * one more axis. float32 only. CPU only. */
int kl_random_multivariate_normal(struct kl_array **out, struct kl_array *mean,
                                  struct kl_array *cov, const int *shape, size_t shape_num,
                                  int dtype, struct kl_array *key /* may be NULL */,
                                  struct kl_stream *s, struct kl_error **err);
