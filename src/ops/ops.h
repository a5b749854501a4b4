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
/* Along axis 0. The dtype is that in which all meet. */
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

/* ---- binary.c, unary.c: element-wise ---- */
typedef int kl_binary_fn(struct kl_array **out, struct kl_array *a, struct kl_array *b,
                         struct kl_stream *s, struct kl_error **err);
typedef int kl_unary_fn(struct kl_array **out, struct kl_array *a, struct kl_stream *s,
                        struct kl_error **err);
kl_binary_fn kl_add, kl_subtract, kl_multiply;
kl_binary_fn kl_divide; /* integers and bools: in float32 */
kl_binary_fn kl_maximum,
    kl_minimum; /* NaN wins; -0.0 < +0.0; complex: by real, then imaginary part */
kl_binary_fn kl_equal, kl_not_equal, kl_less, kl_less_equal, kl_greater, kl_greater_equal;
kl_binary_fn kl_logical_and, kl_logical_or;
kl_unary_fn kl_negative;             /* bool: KL_EDTYPE */
kl_unary_fn kl_abs;                  /* complex64: float32 */
kl_unary_fn kl_exp, kl_log, kl_sqrt; /* integers and bools: in float32 */
kl_unary_fn kl_square;
kl_unary_fn kl_erfinv; /* complex64: KL_EDTYPE */
kl_unary_fn kl_logical_not;

/* ---- transcendental.c: integers and bools in float32 ---- */
kl_unary_fn kl_sin, kl_cos, kl_tan, kl_arcsin, kl_arccos, kl_arctan;
kl_unary_fn kl_sinh, kl_cosh, kl_tanh, kl_arcsinh, kl_arccosh, kl_arctanh;
kl_unary_fn kl_log1p, kl_log2, kl_log10, kl_rsqrt, kl_reciprocal, kl_degrees, kl_radians;
kl_unary_fn kl_expm1, kl_erf, kl_sigmoid; /* complex64: KL_EDTYPE */
kl_binary_fn kl_arctan2; /* of a / b, in the quadrant of both; complex64: KL_EDTYPE */
kl_binary_fn kl_logaddexp;
/* In the type in which the operands meet. Integers wrap; a negative power of an integer is 0, but of 1 and -1; bool: a or not b. */
kl_binary_fn kl_power;

/* ---- rounding.c ---- */
kl_unary_fn kl_floor, kl_ceil; /* integers and bools as they are; complex64: KL_EDTYPE */
/* To nearest, halves to even, at that many decimals (tens, hundreds, ... when negative); complex64 each part. Integers stay for decimals >= 0. */
int kl_round(struct kl_array **out, struct kl_array *a, int decimals, struct kl_stream *s,
             struct kl_error **err);
kl_unary_fn kl_sign; /* -1, 0, 1; NaN of NaN; of complex64 a / |a|, 0 of 0 */
/* The quotient rounded down, and what is left, of b's sign. Integers: 0 where b is 0. complex64: KL_EDTYPE. */
kl_binary_fn kl_floor_divide, kl_remainder;
int kl_divmod(struct kl_array **out_0, struct kl_array **out_1, struct kl_array *a,
              struct kl_array *b, struct kl_stream *s, struct kl_error **err);
kl_unary_fn kl_conjugate; /* a itself when it is real */
kl_unary_fn kl_real;      /* complex64: float32; a itself when it is real */
kl_unary_fn kl_imag;      /* complex64: float32; zeros when a is real */

/* ---- bitwise.c: integers and bools, else KL_EDTYPE ---- */
kl_binary_fn kl_bitwise_and, kl_bitwise_or, kl_bitwise_xor;
kl_unary_fn kl_bitwise_invert;
/* bool as uint8. A count of the width or more, or below 0, leaves 0, or the sign. */
kl_binary_fn kl_left_shift, kl_right_shift;
/* Floats to 8 bits (e4m3: no infinities, 448 at most, NaN is 0x7f), as uint8, and back to float type dtype. */
kl_unary_fn kl_to_fp8;
int kl_from_fp8(struct kl_array **out, struct kl_array *x, int dtype, struct kl_stream *s,
                struct kl_error **err);

/* ---- classify.c ---- */
kl_unary_fn kl_isnan, kl_isinf; /* bool; complex64: either part */
kl_unary_fn kl_isfinite;        /* bool; complex64: both parts */
kl_unary_fn kl_isposinf, kl_isneginf;
/* Infinities: the largest finite numbers unless given. Integers and bools as they are; complex64: KL_EDTYPE. */
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
/* uint32; the first of equals, the first NaN before all. Over all elements: flat row-major
 * position. */
kl_reduce_fn kl_argmax, kl_argmin;
kl_reduce_axis_fn kl_argmax_axis, kl_argmin_axis;

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
/* The k largest, ascending. */
int kl_topk(struct kl_array **out, struct kl_array *a, int k, struct kl_stream *s,
            struct kl_error **err);
int kl_topk_axis(struct kl_array **out, struct kl_array *a, int k, int axis, struct kl_stream *s,
                 struct kl_error **err);

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

/* ---- random.c ---- */
/* A key is a uint32 array of shape (2,); batches of keys have shape (..., 2) where said. key may be
 * NULL below: the next key of the process-wide sequence, which kl_random_seed restarts. */
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
