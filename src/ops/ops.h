/* ops.h - builders, which make lazy arrays from arguments: checks, shape and dtype rules; no
 * kernels.
 * Each returns 0, or a negative code with *err set (err may be NULL) and *out unchanged. KL_EARG: a
 * required array or a list with a count is NULL, or a bad scalar; KL_EDTYPE; KL_ESHAPE; KL_EAXIS;
 * KL_ENOMEM. Arrays that come in are borrowed. *out is a new reference that the caller owns,
 * possibly to an input that the operation does not change. Axes may be negative; a list may be NULL
 * when its count is 0. s is the stream; views and no-ops do not use it, otherwise NULL is KL_EARG.
 * Binary operations promote (kl_dtype_promote) and broadcast as NumPy does. Any thread may call. */
#pragma once
#include "graph/array.h"
#include "ops/random.h"

typedef int kl_binary_fn(struct kl_array **out, struct kl_array *a, struct kl_array *b,
                         struct kl_stream *s, struct kl_error **err);
typedef int kl_unary_fn(struct kl_array **out, struct kl_array *a, struct kl_stream *s,
                        struct kl_error **err);

/* ---- create.c: arrays from parameters ---- */
/* full: the value is converted to the given dtype and broadcast to the shape. */
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
/* 1-d: start, start + step, ... below stop (above stop for a negative step), possibly empty.
 * Integers start at trunc(start) and step by trunc(start + step) - trunc(start), as in MLX.
 * KL_EARG: step 0, NaN, infinite bounds; KL_ELIMIT: too many elements; KL_EDTYPE: bool. */
int kl_arange(struct kl_array **out, double start, double stop, double step, int dtype,
              struct kl_stream *s, struct kl_error **err);

/* num numbers, evenly spaced from start to stop, both included; computed in double and rounded
 * once. KL_EARG: num is negative. */
int kl_linspace(struct kl_array **out, double start, double stop, int num, int dtype,
                struct kl_stream *s, struct kl_error **err);

/* ---- create_window.c ----
 * Symmetric windows of n float32 numbers; a window of one number is 1, and one with n below 1 is
 * empty. */
typedef int kl_window_fn(struct kl_array **out, int n, struct kl_stream *s, struct kl_error **err);
kl_window_fn kl_hanning, kl_hamming, kl_blackman, kl_bartlett;

/* ---- create_triangle.c ---- */
/* n rows and m columns with ones on the k-th diagonal, where column - row is k. KL_ESHAPE: a
 * negative extent. */
int kl_eye(struct kl_array **out, int n, int m, int k, int dtype, struct kl_stream *s,
           struct kl_error **err);
int kl_identity(struct kl_array **out, int n, int dtype, struct kl_stream *s,
                struct kl_error **err);
/* Ones on the k-th diagonal and below; a negative extent counts as 0. */
int kl_tri(struct kl_array **out, int n, int m, int k, int dtype, struct kl_stream *s,
           struct kl_error **err);
/* x with zeros above (tril) or below (triu) the k-th diagonal of its last two axes. KL_ESHAPE:
 * fewer than two axes. */
int kl_tril(struct kl_array **out, struct kl_array *x, int k, struct kl_stream *s,
            struct kl_error **err);
int kl_triu(struct kl_array **out, struct kl_array *x, int k, struct kl_stream *s,
            struct kl_error **err);
/* For 1-d: the square matrix with a on its k-th diagonal. For 2-d: that diagonal, as a view.
 * KL_ESHAPE for others. */
int kl_diag(struct kl_array **out, struct kl_array *a, int k, struct kl_stream *s,
            struct kl_error **err);
/* The sum of the diagonal, whose elements are first converted to dtype. The result has the dtype
 * that kl_sum gives. */
int kl_diagonal_sum(struct kl_array **out, struct kl_array *a, int offset, int axis1, int axis2,
                    int dtype, struct kl_stream *s, struct kl_error **err);

/* ---- convert.c: the same values in another layout or dtype ---- */
int kl_copy(struct kl_array **out, struct kl_array *a, struct kl_stream *s, struct kl_error **err);
/* a itself when it is row-contiguous, or when it is column-contiguous and allow_col_major is set. A
 * placeholder is copied, because the array that it stands for may have any layout. */
int kl_contiguous(struct kl_array **out, struct kl_array *a, bool allow_col_major,
                  struct kl_stream *s, struct kl_error **err);
/* a itself when it is row-contiguous now. For builders whose replays ask again. */
int kl_row_contiguous(struct kl_array **out, struct kl_array *a, struct kl_stream *s,
                      struct kl_error **err);
int kl_astype(struct kl_array **out, struct kl_array *a, int dtype, struct kl_stream *s,
              struct kl_error **err);

/* A view of a that has no gradient. */
int kl_stop_gradient(struct kl_array **out, struct kl_array *a, struct kl_stream *s,
                     struct kl_error **err);

/* ---- shape.c: views, and copies where no view can do it ---- */
/* One extent may be -1; it follows from the number of elements. */
int kl_reshape(struct kl_array **out, struct kl_array *a, const int *shape, size_t shape_num,
               struct kl_stream *s, struct kl_error **err);
/* Merges the axes start_axis .. end_axis; a 0-d array becomes (1,). */
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
/* *outs: n_arrays arrays of one shape. The caller releases each array and frees the list with
 * kl_free. */
int kl_broadcast_arrays(struct kl_array ***outs, size_t *n_outs, struct kl_array *const *arrays,
                        size_t n_arrays, struct kl_stream *s, struct kl_error **err);
int kl_expand_dims(struct kl_array **out, struct kl_array *a, int axis, struct kl_stream *s,
                   struct kl_error **err);
/* axes are those of the result, and distinct. */
int kl_expand_dims_axes(struct kl_array **out, struct kl_array *a, const int *axes, size_t axes_num,
                        struct kl_stream *s, struct kl_error **err);
int kl_squeeze(struct kl_array **out, struct kl_array *a, struct kl_stream *s,
               struct kl_error **err);
int kl_squeeze_axis(struct kl_array **out, struct kl_array *a, int axis, struct kl_stream *s,
                    struct kl_error **err);
int kl_squeeze_axes(struct kl_array **out, struct kl_array *a, const int *axes, size_t axes_num,
                    struct kl_stream *s, struct kl_error **err);

/* Adds axes of size 1 in front; for 3-d, (n) becomes (1,n,1) and (n,m) becomes (n,m,1). */
kl_unary_fn kl_atleast_1d, kl_atleast_2d, kl_atleast_3d;
/* Splits the axis into several, the product of whose sizes is its size; one extent may be -1. */
int kl_unflatten(struct kl_array **out, struct kl_array *a, int axis, const int *shape,
                 size_t shape_num, struct kl_stream *s, struct kl_error **err);
/* The product of the extents of the axes, or one divided by it; 0-d, and known when it is built.
 * One divided by 0 is the largest number of an integer dtype. */
int kl_number_of_elements(struct kl_array **out, struct kl_array *a, const int *axes,
                          size_t axes_num, bool inverted, int dtype, struct kl_stream *s,
                          struct kl_error **err);

/* ---- shape_strided.c: views of memory ---- */
/* Element (i, j, ...) is the flat row-major element offset + i * strides[0] + j * strides[1] + ...
 * of a, which is copied when it is not row-contiguous. KL_ESHAPE when an element is outside of
 * a. */
int kl_as_strided(struct kl_array **out, struct kl_array *a, const int *shape, size_t shape_num,
                  const int64_t *strides, size_t strides_num, size_t offset, struct kl_stream *s,
                  struct kl_error **err);
/* The elements (i, i + offset) of two axes, as the last axis of a view. */
int kl_diagonal(struct kl_array **out, struct kl_array *a, int offset, int axis1, int axis2,
                struct kl_stream *s, struct kl_error **err);
/* The bits as another dtype. When its size differs, the last axis grows or shrinks, and must fit
 * (KL_ESHAPE). An element viewed as bool is true when its byte is not 0. */
int kl_view(struct kl_array **out, struct kl_array *a, int dtype, struct kl_stream *s,
            struct kl_error **err);

/* ---- shape_rearrange.c ---- */
/* low[k] elements before and high[k] after axis axes[k]. mode "constant" fills with pad_value (one
 * element, converted), "edge" with the outermost element; "reflect" and "symmetric" continue
 * backwards and forwards, without and with the outermost element. pad_value may be NULL except for
 * "constant". */
int kl_pad(struct kl_array **out, struct kl_array *a, const int *axes, size_t axes_num,
           const int *low, size_t low_num, const int *high, size_t high_num,
           struct kl_array *pad_value, const char *mode, struct kl_stream *s,
           struct kl_error **err);
/* pad_width elements on both sides of every axis. */
int kl_pad_symmetric(struct kl_array **out, struct kl_array *a, int pad_width,
                     struct kl_array *pad_value, const char *mode, struct kl_stream *s,
                     struct kl_error **err);
/* The whole array repeated reps[i] times along each axis; the shorter of shape and reps gets ones
 * in front. */
int kl_tile(struct kl_array **out, struct kl_array *a, const int *reps, size_t reps_num,
            struct kl_stream *s, struct kl_error **err);
/* Each element `repeats` times in a row; without an axis a is flattened first. */
int kl_repeat(struct kl_array **out, struct kl_array *a, int repeats, struct kl_stream *s,
              struct kl_error **err);
int kl_repeat_axis(struct kl_array **out, struct kl_array *a, int repeats, int axis,
                   struct kl_stream *s, struct kl_error **err);
/* Element i moves to i + shift, and continues at the other end. Without an axis a is taken flat.
 * Several shifts without an axis, or for one axis, are added. Shifts beyond the number of axes are
 * not used. */
int kl_roll(struct kl_array **out, struct kl_array *a, const int *shift, size_t shift_num,
            struct kl_stream *s, struct kl_error **err);
int kl_roll_axis(struct kl_array **out, struct kl_array *a, const int *shift, size_t shift_num,
                 int axis, struct kl_stream *s, struct kl_error **err);
int kl_roll_axes(struct kl_array **out, struct kl_array *a, const int *shift, size_t shift_num,
                 const int *axes, size_t axes_num, struct kl_stream *s, struct kl_error **err);
/* Result i holds array i, flattened, along axis i, and repeats it along the other axes ("ij"; "xy"
 * swaps the first two axes). With sparse the other axes have size 1. */
int kl_meshgrid(struct kl_array ***outs, size_t *n_outs, struct kl_array *const *arrays,
                size_t n_arrays, bool sparse, const char *indexing, struct kl_stream *s,
                struct kl_error **err);

/* ---- join_depends.c ---- */
/* The inputs, made when all dependencies have settled. An input that does not fail itself fails
 * with the error of the first dependency that failed. */
int kl_depends(struct kl_array ***outs, size_t *n_outs, struct kl_array *const *inputs,
               size_t n_inputs, struct kl_array *const *dependencies, size_t n_dependencies,
               struct kl_stream *s, struct kl_error **err);

/* ---- slice.c: slices, joins and splits ---- */
/* One start, stop and stride per axis. A negative bound counts from the end; bounds are then
 * clamped. Strides are not 0. */
int kl_slice(struct kl_array **out, struct kl_array *a, const int *start, size_t start_num,
             const int *stop, size_t stop_num, const int *strides, size_t strides_num,
             struct kl_stream *s, struct kl_error **err);
/* src with the slice replaced by update, which is broadcast to the slice and cast to src's
 * dtype. */
int kl_slice_update(struct kl_array **out, struct kl_array *src, struct kl_array *update,
                    const int *start, size_t start_num, const int *stop, size_t stop_num,
                    const int *strides, size_t strides_num, struct kl_stream *s,
                    struct kl_error **err);
/* slice_join.c: src with the slice combined with update, which is converted and broadcast as
 * above. */
typedef int kl_slice_join_fn(struct kl_array **out, struct kl_array *src, struct kl_array *update,
                             const int *start, size_t start_num, const int *stop, size_t stop_num,
                             const int *strides, size_t strides_num, struct kl_stream *s,
                             struct kl_error **err);
kl_slice_join_fn kl_slice_update_add, kl_slice_update_prod, kl_slice_update_max,
    kl_slice_update_min;
/* Joins along an axis; without one each array is flattened first. The dtype is the common dtype of
 * all. */
int kl_concatenate(struct kl_array **out, struct kl_array *const *arrays, size_t n_arrays,
                   struct kl_stream *s, struct kl_error **err);
int kl_concatenate_axis(struct kl_array **out, struct kl_array *const *arrays, size_t n_arrays,
                        int axis, struct kl_stream *s, struct kl_error **err);
int kl_split(struct kl_array ***outs, size_t *n_outs, struct kl_array *a, int num_splits, int axis,
             struct kl_stream *s, struct kl_error **err);
/* Cuts before each of the indices. */
int kl_split_sections(struct kl_array ***outs, size_t *n_outs, struct kl_array *a,
                      const int *indices, size_t indices_num, int axis, struct kl_stream *s,
                      struct kl_error **err);
int kl_stack(struct kl_array **out, struct kl_array *const *arrays, size_t n_arrays,
             struct kl_stream *s, struct kl_error **err);
int kl_stack_axis(struct kl_array **out, struct kl_array *const *arrays, size_t n_arrays, int axis,
                  struct kl_stream *s, struct kl_error **err);

/* ---- elementwise_unary.c, elementwise_binary.c, elementwise_transcendental.c,
 * elementwise_rounding.c, elementwise_bits.c: element-wise ---- Functions of one and of two
 * numbers. base/op/op_list.def lists them with their dtype rules; mlx/c/ops.h and keel/ops.h say
 * what they compute. */
#define KL_OP(...)
#define KL_UNARY(ID, name, builder, ...) kl_unary_fn builder;
#define KL_BINARY(ID, name, builder, ...) kl_binary_fn builder;
#include "base/op/op_list.def"
kl_unary_fn kl_reciprocal, kl_degrees, kl_radians; /* integers and bools give float32 */

/* Rounds to the nearest number, halves to even, with the given decimals (tens, hundreds, ... when
 * negative); both parts of complex64. Integers do not change for decimals >= 0. */
int kl_round(struct kl_array **out, struct kl_array *a, int decimals, struct kl_stream *s,
             struct kl_error **err);
int kl_divmod(struct kl_array **out_0, struct kl_array **out_1, struct kl_array *a,
              struct kl_array *b, struct kl_stream *s, struct kl_error **err);
/* 8-bit floats (e4m3: no infinities, 448 at most, NaN is 0x7f), stored as uint8, converted to the
 * float type dtype. */
int kl_from_fp8(struct kl_array **out, struct kl_array *x, int dtype, struct kl_stream *s,
                struct kl_error **err);

/* ---- elementwise_classify.c ---- */
kl_unary_fn kl_isnan, kl_isinf; /* bool; true for complex64 when either part is */
kl_unary_fn kl_isfinite;        /* bool; true for complex64 when both parts are */
kl_unary_fn kl_isposinf, kl_isneginf;
/* Infinities become the largest finite numbers unless values are given. Integers and bools do not
 * change. complex64 is taken part by part when both values are given; KL_EDTYPE otherwise. */
int kl_nan_to_num(struct kl_array **out, struct kl_array *a, double nan,
                  const double *posinf /* may be NULL */, const double *neginf /* may be NULL */,
                  struct kl_stream *s, struct kl_error **err);
/* |a - b| <= atol + rtol |b|, or a equals b. Computed in float32 or a wider type. */
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

/* a * sigmoid(a) * b. complex64 is not taken. KL_EDTYPE, KL_ESHAPE. */
int kl_silu_mul(struct kl_array **out, struct kl_array *a, struct kl_array *b, struct kl_stream *s,
                struct kl_error **err);

/* condition != 0 ? x : y. x and y are converted to a common dtype; all three broadcast to one
 * shape. */
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
/* Bools and integers narrower than 32 bits are summed in 32 bits, other dtypes in their own. */
kl_reduce_fn kl_sum, kl_mean, kl_max, kl_min;
kl_reduce_axis_fn kl_sum_axis, kl_mean_axis, kl_max_axis, kl_min_axis;
/* A list without axes reduces nothing. max and min of no elements: KL_EARG. */
kl_reduce_axes_fn kl_sum_axes, kl_mean_axes, kl_max_axes, kl_min_axes;
/* The product, with the dtype that the sum has. The product of no elements is 1. */
kl_reduce_fn kl_prod;
kl_reduce_axis_fn kl_prod_axis;
kl_reduce_axes_fn kl_prod_axes;
/* bool: whether all elements, or any element, are not 0 (NaN is not 0). Of no elements: true and
 * false. */
kl_reduce_fn kl_all, kl_any;
kl_reduce_axis_fn kl_all_axis, kl_any_axis;
kl_reduce_axes_fn kl_all_axes, kl_any_axes;
/* log(sum(exp(a))); integers and bools give float32. NaN gives NaN, otherwise inf gives inf; of no
 * elements: -inf. */
kl_reduce_fn kl_logsumexp;
kl_reduce_axis_fn kl_logsumexp_axis;
kl_reduce_axes_fn kl_logsumexp_axes;
/* The position in uint32: the first of equal elements, or the first NaN. Without an axis it is the
 * flat row-major position. */
kl_reduce_fn kl_argmax, kl_argmin;
kl_reduce_axis_fn kl_argmax_axis, kl_argmin_axis;

/* ---- reduce_statistics.c ---- */
/* The sum of the squared distances from the mean, divided by max(n - ddof, 0). Integers and bools
 * give float32, and complex64 gives float32. std is the square root of the variance. */
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
/* The middle element in order; for an even number of elements the mean of the two middle ones; NaN
 * if there is one. Integers and bools give float32. KL_EARG for no elements. */
kl_reduce_axes_fn kl_median_axes;

/* ---- scan.c ---- */
/* Element i combines the elements up to i (reverse: from i on), with element i itself if inclusive.
 * Otherwise the first (last) element is the result for no elements: 0, 1, the lowest or highest
 * value of the dtype, or -inf. Bools are summed in int32; logcumsumexp gives float32 for integers
 * and bools; otherwise the dtype is kept. 16-bit floats are rounded when stored. */
typedef int kl_scan_fn(struct kl_array **out, struct kl_array *a, int axis, bool reverse,
                       bool inclusive, struct kl_stream *s, struct kl_error **err);
kl_scan_fn kl_cumsum, kl_cumprod, kl_cummax, kl_cummin, kl_logcumsumexp;

/* ---- sort.c, softmax.c ---- */
/* Integers and bools give float32. 16-bit floats are computed in float32, with or without
 * `precise`. */
int kl_softmax(struct kl_array **out, struct kl_array *a, bool precise, struct kl_stream *s,
               struct kl_error **err);
int kl_softmax_axis(struct kl_array **out, struct kl_array *a, int axis, bool precise,
                    struct kl_stream *s, struct kl_error **err);
int kl_softmax_axes(struct kl_array **out, struct kl_array *a, const int *axes, size_t axes_num,
                    bool precise, struct kl_stream *s, struct kl_error **err);
/* Ascending, stable, NaN last. Without an axis all elements are sorted, flat. argsort gives
 * uint32. */
kl_unary_fn kl_sort, kl_argsort;
int kl_sort_axis(struct kl_array **out, struct kl_array *a, int axis, struct kl_stream *s,
                 struct kl_error **err);
int kl_argsort_axis(struct kl_array **out, struct kl_array *a, int axis, struct kl_stream *s,
                    struct kl_error **err);
/* The element that sorting would put at kth (from the end when negative) is there; no element
 * before it is larger, and none after it is smaller. The order of the others is not specified.
 * argpartition gives uint32. KL_EARG: kth is outside of the axis. Without an axis all elements are
 * taken, flat. */
int kl_partition(struct kl_array **out, struct kl_array *a, int kth, struct kl_stream *s,
                 struct kl_error **err);
int kl_partition_axis(struct kl_array **out, struct kl_array *a, int kth, int axis,
                      struct kl_stream *s, struct kl_error **err);
int kl_argpartition(struct kl_array **out, struct kl_array *a, int kth, struct kl_stream *s,
                    struct kl_error **err);
int kl_argpartition_axis(struct kl_array **out, struct kl_array *a, int kth, int axis,
                         struct kl_stream *s, struct kl_error **err);
/* The k largest elements, ascending. */
int kl_topk(struct kl_array **out, struct kl_array *a, int k, struct kl_stream *s,
            struct kl_error **err);
int kl_topk_axis(struct kl_array **out, struct kl_array *a, int k, int axis, struct kl_stream *s,
                 struct kl_error **err);

/* ---- norm.c, rope.c ---- */
/* Over the last axis of a float array with at least one axis. weight and bias (NULL for none) are
 * 1-d, of the length of that axis. The result has the common dtype of all; 16-bit floats are
 * computed in float32. rms_norm is x / sqrt(mean(x^2) + eps) * weight. KL_EDTYPE: integers only, or
 * complex64. */
int kl_rms_norm(struct kl_array **out, struct kl_array *x, struct kl_array *weight, float eps,
                struct kl_stream *s, struct kl_error **err);
/* (x - mean) / sqrt(var + eps) * weight + bias */
int kl_layer_norm(struct kl_array **out, struct kl_array *x, struct kl_array *weight,
                  struct kl_array *bias, float eps, struct kl_stream *s, struct kl_error **err);
/* The backward pass of both norms: the operation NORM_BACKWARD (base/op/op_params.h) on x, weight
 * (NULL: none) and the cotangent of the norm's result, which has the shape of x. p->has_weight is
 * not read. The gradients are one array with one axis, of the common dtype of all. KL_ESHAPE for
 * other shapes; KL_EDTYPE as above; KL_ELIMIT when there are more than INT32_MAX gradients. */
struct kl_norm_backward_params;
int kl_norm_backward(struct kl_array **out, struct kl_array *x, struct kl_array *weight,
                     struct kl_array *cotangent, const struct kl_norm_backward_params *p,
                     struct kl_stream *s, struct kl_error **err);
/* x: floats, (batch, ..., positions, features). The first dims features are rotated in pairs, of
 * neighbours if traditional, otherwise dims / 2 apart. The angle of pair k at position t is (t +
 * offset) * scale * base^(-2k / dims), or divided by freqs[k] (1-d, dims / 2). Exactly one of base
 * and freqs is given. offset: integers, 0-d or one per element of the batch. */
struct kl_rope_base {
    bool given;
    float value;
};
int kl_rope(struct kl_array **out, struct kl_array *x, int dims, bool traditional,
            struct kl_rope_base base, float scale, struct kl_array *offset,
            struct kl_array *freqs /* may be NULL */, struct kl_stream *s, struct kl_error **err);

/* ---- slice_dynamic.c ---- */
/* slice_size has one entry per axis of a. start: integers, 0-d or 1-d, one per named axis. A
 * negative start counts from the end, once; starts are checked when the operation runs. Axes that
 * are not named begin at 0. */
int kl_slice_dynamic(struct kl_array **out, struct kl_array *a, struct kl_array *start,
                     const int *axes, size_t axes_num, const int *slice_size, size_t slice_size_num,
                     struct kl_stream *s, struct kl_error **err);
/* src with update written from start on. update has at most as many axes as src; axes of size 1 are
 * put in front. */
int kl_slice_update_dynamic(struct kl_array **out, struct kl_array *src, struct kl_array *update,
                            struct kl_array *start, const int *axes, size_t axes_num,
                            struct kl_stream *s, struct kl_error **err);

/* ---- product.c ---- */
/* The batched product, as in NumPy; KL_EDTYPE when the common dtype is an integer type or bool. */
kl_binary_fn kl_matmul;

/* ---- attention.c ---- */
/* softmax(scale q k' + mask) v. Shapes: q (b, heads, n, d), k (b, kv heads, m, d), v (b, kv heads,
 * m, e), with heads a multiple of kv heads. The result is (b, heads, n, e) in the common dtype,
 * which must be a float. mask_mode: "" or NULL, "causal" (the last query sees all keys), "array".
 * mask: bool (false: the key is not seen) or added to the scores; it broadcasts to (b, heads, n,
 * m). sinks: (heads), each the score of one more key whose value is 0. */
int kl_attention(struct kl_array **out, struct kl_array *q, struct kl_array *k, struct kl_array *v,
                 float scale, const char *mask_mode, struct kl_array *mask /* may be NULL */,
                 struct kl_array *sinks /* may be NULL */, struct kl_stream *s,
                 struct kl_error **err);

/* The backward pass of kl_attention: the operation ATTENTION_BACKWARD (base/op/op_params.h) on q, k
 * and v (qkv[0] to [2]), mask, sinks, the result of kl_attention on them and its cotangent. The
 * gradients are one array with one axis. KL_EDTYPE also for float64; KL_ELIMIT when they have more
 * than INT32_MAX elements. */
int kl_attention_backward(struct kl_array **out, struct kl_array *const *qkv, float scale,
                          bool causal, struct kl_array *mask /* may be NULL */,
                          struct kl_array *sinks /* may be NULL */, struct kl_array *result,
                          struct kl_array *cotangent, struct kl_stream *s, struct kl_error **err);
/* ---- convolution.c ---- */
struct kl_convolution_params;
/* The operation as op_params.h describes it, with operands of any dtypes whose common dtype is
 * a float. KL_EARG: a stride, a dilation or the number of groups is below 1. KL_ESHAPE: the axes or
 * channels do not fit, the kernel has an extent of 0, or it is larger than the padded input. */
int kl_convolution(struct kl_array **out, struct kl_array *x, struct kl_array *w,
                   const struct kl_convolution_params *p, struct kl_stream *s,
                   struct kl_error **err);
/* The gradient of the weight of kl_convolution: the operation CONVOLUTION_BACKWARD on the input and
 * the cotangent of the result, of any dtypes whose common dtype is a float. k: the extents of the
 * weight, p->ndim of them. KL_EARG as above, KL_ESHAPE also: the cotangent does not have the shape
 * of a result. */
int kl_convolution_backward(struct kl_array **out, struct kl_array *x, struct kl_array *cotangent,
                            const struct kl_convolution_params *p, const int *k,
                            struct kl_stream *s, struct kl_error **err);
/* A list of one value for each spatial axis, one value for all, or none: the default. */
struct kl_conv_list {
    const int *v;
    size_t n;
};
/* Negative padding removes elements of x before zeros are put between them, as in MLX. */
int kl_conv_general(struct kl_array **out, struct kl_array *x, struct kl_array *w,
                    struct kl_conv_list stride, struct kl_conv_list low, struct kl_conv_list high,
                    struct kl_conv_list dilation, struct kl_conv_list input_dilation, int groups,
                    bool flip, struct kl_stream *s, struct kl_error **err);
/* For x of ndim spatial axes; the lists have ndim entries. */
int kl_conv(struct kl_array **out, struct kl_array *x, struct kl_array *w, int ndim,
            const int *stride, const int *padding, const int *dilation, int groups,
            struct kl_stream *s, struct kl_error **err);
/* The gradient of kl_conv with respect to its input, but with w as (o, spatial axes, c / groups)
 * for x of c channels. output_padding: the number of rows added after the end of the result. */
int kl_conv_transpose(struct kl_array **out, struct kl_array *x, struct kl_array *w, int ndim,
                      const int *stride, const int *padding, const int *dilation,
                      const int *output_padding, int groups, struct kl_stream *s,
                      struct kl_error **err);

/* ---- product_gather.c ---- */
/* a[left[i]] b[right[i]] for each i, where a and b are batches of matrices, counted over all their
 * leading axes, and the indices broadcast; NULL: all matrices, in order. A vector counts as a
 * matrix of one row or column. KL_EDTYPE: the common dtype is no float. */
int kl_gather_mm(struct kl_array **out, struct kl_array *a, struct kl_array *b,
                 struct kl_array *left /* may be NULL */, struct kl_array *right /* may be NULL */,
                 struct kl_stream *s, struct kl_error **err);
/* The product over the indices from segments[..., 0] on, before segments[..., 1], for each. */
int kl_segmented_mm(struct kl_array **out, struct kl_array *a, struct kl_array *b,
                    struct kl_array *segments, struct kl_stream *s, struct kl_error **err);
/* The product of a and b with square blocks of `block` elements multiplied by the elements of
 * masks, which may be NULL; bools keep a block or set it to 0. */
int kl_block_masked_mm(struct kl_array **out, struct kl_array *a, struct kl_array *b, int block,
                       struct kl_array *mask_out, struct kl_array *mask_left,
                       struct kl_array *mask_right, struct kl_stream *s, struct kl_error **err);

/* ---- product_einsum.c ---- */
/* The sum of products that the subscripts name, as in NumPy, with 1 to 64 operands. KL_EARG:
 * subscripts that cannot be read, or do not fit the number of operands. KL_ESHAPE: they do not fit
 * the shapes. KL_EDTYPE: a sum over an axis that two operands share, where both are integers. */
int kl_einsum(struct kl_array **out, const char *subscripts, struct kl_array *const *operands,
              size_t n, struct kl_stream *s, struct kl_error **err);

/* ---- product_composed.c ---- */
/* Element (i, j) is a[i] * b[j]; both operands are flattened. */
kl_binary_fn kl_outer;
/* The sum of products over the last axis of both, whose extents are equal; with a 0-d operand it is
 * the product. Dtypes as for matmul. */
kl_binary_fn kl_inner;
/* The Kronecker product: each element of a times all of b; missing leading axes count as 1. */
kl_binary_fn kl_kron;
/* The sum of products over pairs of axes. The other axes of a, then those of b, remain. Dtypes as
 * for matmul. KL_ESHAPE: the axes of a pair have different sizes. */
int kl_tensordot(struct kl_array **out, struct kl_array *a, struct kl_array *b, const int *axes_a,
                 size_t axes_a_num, const int *axes_b, size_t axes_b_num, struct kl_stream *s,
                 struct kl_error **err);
/* The sum of products over the last `axis` axes of a and the first `axis` axes of b. */
int kl_tensordot_axis(struct kl_array **out, struct kl_array *a, struct kl_array *b, int axis,
                      struct kl_stream *s, struct kl_error **err);
/* alpha * (a @ b) + beta * c, with c broadcast to the product, in the common dtype of all three,
 * which is a float or complex. When beta is 0, c is not read. */
int kl_addmm(struct kl_array **out, struct kl_array *c, struct kl_array *a, struct kl_array *b,
             float alpha, float beta, struct kl_stream *s, struct kl_error **err);

/* ---- product_hadamard.c ---- */
/* The last axis, of m * 2^k elements with m one of 1, 12, 20, 28, multiplied by the Hadamard matrix
 * of that size and by *scale (NULL: 1 / sqrt(size)). Integers and bools give float32, except for
 * size 1 and the factor 1, which change nothing. KL_EDTYPE: complex64; KL_ESHAPE: no elements. */
int kl_hadamard_transform(struct kl_array **out, struct kl_array *a, const float *scale,
                          struct kl_stream *s, struct kl_error **err);

/* ---- index_gather.c ---- */
/* indices: integers, which broadcast to one shape. The result has that shape, then slice_sizes (one
 * per axis of a). */
int kl_gather(struct kl_array **out, struct kl_array *a, struct kl_array *const *indices,
              size_t n_indices, const int *axes, size_t axes_num, const int *slice_sizes,
              size_t slice_sizes_num, struct kl_stream *s, struct kl_error **err);
int kl_gather_single(struct kl_array **out, struct kl_array *a, struct kl_array *indices, int axis,
                     const int *slice_sizes, size_t slice_sizes_num, struct kl_stream *s,
                     struct kl_error **err);
int kl_take(struct kl_array **out, struct kl_array *a, struct kl_array *indices,
            struct kl_stream *s, struct kl_error **err); /* takes from a, flattened */
int kl_take_axis(struct kl_array **out, struct kl_array *a, struct kl_array *indices, int axis,
                 struct kl_stream *s, struct kl_error **err);
int kl_take_along_axis(struct kl_array **out, struct kl_array *a, struct kl_array *indices,
                       int axis, struct kl_stream *s, struct kl_error **err);

/* ---- index_take_mode.c ---- */
/* The meaning of an index outside of an axis of n elements: an error when the operation runs; the
 * nearest index from 0 to n - 1; the index modulo n; `fill`, where -n to -1 count from the end. */
enum kl_take_mode { KL_TAKE_ERROR, KL_TAKE_CLIP, KL_TAKE_WRAP, KL_TAKE_FILL };
/* axis NULL: of a, flattened. fill: 0-d; NULL: NaN, or 0 in dtypes that have none. */
int kl_take_mode(struct kl_array **out, struct kl_array *a, struct kl_array *indices,
                 const int *axis, enum kl_take_mode mode, struct kl_array *fill,
                 struct kl_stream *s, struct kl_error **err);
int kl_take_along_axis_mode(struct kl_array **out, struct kl_array *a, struct kl_array *indices,
                            int axis, enum kl_take_mode mode, struct kl_array *fill,
                            struct kl_stream *s, struct kl_error **err);

/* ---- index_nonzero.c ---- */
/* The number of elements of a that are not 0: evaluates a. KL_ETRACE: a has no value. */
int kl_count_true(int *n, struct kl_array *a, struct kl_stream *s, struct kl_error **err);
/* The same along axes, int32, lazily. */
int kl_count_nonzero(struct kl_array **out, struct kl_array *a, const int *axes, size_t axes_num,
                     bool keepdims, struct kl_stream *s, struct kl_error **err);
/* The positions of the first `size` true elements of a, flattened, then fill_value: int32. */
int kl_flatnonzero(struct kl_array **out, struct kl_array *a, int size, int fill_value,
                   struct kl_stream *s, struct kl_error **err);
/* The same as indices, an array for each axis; fill_values: one for each, or NULL for 0. */
int kl_nonzero(struct kl_array ***outs, size_t *n, struct kl_array *a, int size,
               const int *fill_values, size_t fill_values_num, struct kl_stream *s,
               struct kl_error **err);
int kl_argwhere(struct kl_array **out, struct kl_array *a, int size, int fill_value,
                struct kl_stream *s, struct kl_error **err);
/* The elements of a, whose first axes mask has, at the first `size` true elements of mask. */
int kl_masked_select(struct kl_array **out, struct kl_array *a, struct kl_array *mask, int size,
                     struct kl_stream *s, struct kl_error **err);

/* ---- index_scatter.c ---- */
int kl_put_along_axis(struct kl_array **out, struct kl_array *a, struct kl_array *indices,
                      struct kl_array *values, int axis, struct kl_stream *s,
                      struct kl_error **err);
int kl_scatter_add_axis(struct kl_array **out, struct kl_array *a, struct kl_array *indices,
                        struct kl_array *values, int axis, struct kl_stream *s,
                        struct kl_error **err);
/* updates: the common shape of the indices, then one extent per axis of a; cast to a's dtype. When
 * duplicate indices are assigned, the value of the highest position is kept. */
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

/* ---- index_masked.c ---- */
/* a with elements of src, cast to a's dtype, where mask is true. mask is bool; its shape is the
 * first extents of a's shape. A src with at most as many axes as the mask leaves of a broadcasts to
 * these axes, for every true place. A src with one axis more has one part along it for each true
 * place in row-major order, and each part broadcasts to these axes: too few parts are an index
 * error, further parts are not used. KL_ESHAPE: other shapes. */
int kl_masked_scatter(struct kl_array **out, struct kl_array *a, struct kl_array *mask,
                      struct kl_array *src, struct kl_stream *s, struct kl_error **err);
