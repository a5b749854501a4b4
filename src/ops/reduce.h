/* reduce.h - builders of reductions; the rules of ops.h hold. */
#pragma once
#include "ops/build/builder.h"

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
