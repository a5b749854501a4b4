/* ops.h - operations on arrays. A call builds a lazy array, which is computed when it is evaluated.
 *
 * For every function:
 * - It returns 0 and puts the result into *res, or returns 1 at once with an error raised:
 *   KEEL_EDTYPE for wrong dtypes, KEEL_ESHAPE for wrong shapes, KEEL_EAXIS for wrong axes,
 *   KEEL_EARG for empty handles and other bad arguments, KEEL_ELIMIT for more elements than can be
 *   addressed, KEEL_ENOMEM. A failure of the operation itself, such as an index out of range
 *   (KEEL_EINDEX), belongs to the result and is reported when the result, or an array made from it,
 *   is read. *res may be one of the inputs. Inputs are borrowed; the caller frees *res.
 * - s is the stream on which the operation runs. It must be a stream also where the result is only
 *   another view of the same data.
 * - An axis counts from 0, or from the end when it is negative: -1 is the last axis. An axis that
 *   the array does not have, or that a list has twice, is KEEL_EAXIS.
 * - A list is a pointer and a count; the pointer may be NULL when the count is 0.
 * - Operands of two dtypes are converted to a common dtype: bool < integers < floats < complex64. A
 *   signed and an unsigned integer give a signed type that holds both (int64 at most; uint64 with a
 *   signed type gives float32). float16 and bfloat16 give float32.
 * - Operands of two shapes broadcast: the shapes are aligned at the last axis, and an extent of 1
 *   or a missing axis is repeated to the extent of the other operand. Other shapes are
 *   KEEL_ESHAPE.
 * - Integer arithmetic wraps. Results do not depend on the number of threads. */
#ifndef MLX_OPS_H
#define MLX_OPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "keel/export.h"
#include "mlx/c/array.h"
#include "mlx/c/optional.h"
#include "mlx/c/stream.h"
#include "mlx/c/vector.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- arrays from nothing ---- */
/* An array of zeros. A shape without extents gives a 0-d array. KEEL_ESHAPE: a negative extent.
 * KEEL_EDTYPE: dtype is no dtype. */
KEEL_API int mlx_zeros(mlx_array *res, const int *shape, size_t shape_num, mlx_dtype dtype,
                       const mlx_stream s);
/* Zeros of the shape and dtype of a. */
KEEL_API int mlx_zeros_like(mlx_array *res, const mlx_array a, const mlx_stream s);
KEEL_API int mlx_ones(mlx_array *res, const int *shape, size_t shape_num, mlx_dtype dtype,
                      const mlx_stream s);
KEEL_API int mlx_ones_like(mlx_array *res, const mlx_array a, const mlx_stream s);
/* vals, converted to dtype and broadcast to shape. */
KEEL_API int mlx_full(mlx_array *res, const int *shape, size_t shape_num, const mlx_array vals,
                      mlx_dtype dtype, const mlx_stream s);
/* vals, converted to dtype and broadcast to the shape of a. */
KEEL_API int mlx_full_like(mlx_array *res, const mlx_array a, const mlx_array vals, mlx_dtype dtype,
                           const mlx_stream s);
/* 1-d: start, start + step, ... below stop (above stop when step is negative). Integer dtypes first
 * drop the fractions of start and step. KEEL_EARG: step is 0, a number is NaN, start or stop is
 * infinite. KEEL_EDTYPE: bool. KEEL_ELIMIT: more elements than an axis can have. */
KEEL_API int mlx_arange(mlx_array *res, double start, double stop, double step, mlx_dtype dtype,
                        const mlx_stream s);

/* num numbers, evenly spaced from start to stop, which are both included and exact. They are
 * computed in double and rounded once (integers: truncated). num may be 0 or 1. KEEL_EARG: num is
 * negative. */
KEEL_API int mlx_linspace(mlx_array *res, double start, double stop, int num, mlx_dtype dtype,
                          const mlx_stream s);
/* n rows and m columns, with ones where column - row is k and zeros elsewhere. The diagonal k may
 * lie outside of the matrix. KEEL_ESHAPE: n or m is negative. */
KEEL_API int mlx_eye(mlx_array *res, int n, int m, int k, mlx_dtype dtype, const mlx_stream s);
KEEL_API int mlx_identity(mlx_array *res, int n, mlx_dtype dtype, const mlx_stream s);
/* n rows and m columns, with ones where column - row is k or less and zeros elsewhere. A negative
 * extent counts as 0. */
KEEL_API int mlx_tri(mlx_array *res, int n, int m, int k, mlx_dtype type, const mlx_stream s);
/* x with zeros where column - row of the last two axes is above k (tril) or below k (triu).
 * KEEL_ESHAPE: x has less than two axes. */
KEEL_API int mlx_tril(mlx_array *res, const mlx_array x, int k, const mlx_stream s);
KEEL_API int mlx_triu(mlx_array *res, const mlx_array x, int k, const mlx_stream s);
/* Symmetric windows of M points in float32. When M is below 1 the result has no elements; when M is
 * 1 it is 1. With x from -1 to 1: hanning 0.5 + 0.5 cos(pi x), hamming 0.54 + 0.46 cos(pi x),
 * blackman 0.42 + 0.5 cos(pi x) + 0.08 cos(2 pi x), bartlett 1 - |x|. */
KEEL_API int mlx_hanning(mlx_array *res, int M, const mlx_stream s);
KEEL_API int mlx_hamming(mlx_array *res, int M, const mlx_stream s);
KEEL_API int mlx_blackman(mlx_array *res, int M, const mlx_stream s);
KEEL_API int mlx_bartlett(mlx_array *res, int M, const mlx_stream s);

/* ---- the same values in another layout or dtype ---- */
KEEL_API int mlx_copy(mlx_array *res, const mlx_array a, const mlx_stream s);
/* a in row-major order. The result is a itself when a is row-major, or when a is column-major and
 * allow_col_major is true. */
KEEL_API int mlx_contiguous(mlx_array *res, const mlx_array a, bool allow_col_major,
                            const mlx_stream s);
/* a converted to dtype. A float to an integer drops the fraction and saturates, and NaN becomes 0;
 * to bool: whether the element is not 0; complex64 to real: the real part. Rounding is to nearest
 * even. */
KEEL_API int mlx_astype(mlx_array *res, const mlx_array a, mlx_dtype dtype, const mlx_stream s);

/* ---- shapes ---- */
/* The elements of a in row-major order under another shape of the same size. One extent may be -1:
 * it follows from the size. KEEL_ESHAPE: another size, or more than one -1. */
KEEL_API int mlx_reshape(mlx_array *res, const mlx_array a, const int *shape, size_t shape_num,
                         const mlx_stream s);
/* Joins the axes from start_axis to end_axis, both included, into one. An axis beyond the first or
 * last one means the first or last one. A 0-d array becomes (1,). KEEL_EAXIS: start_axis is after
 * end_axis. */
KEEL_API int mlx_flatten(mlx_array *res, const mlx_array a, int start_axis, int end_axis,
                         const mlx_stream s);
/* Reverses the order of the axes. */
KEEL_API int mlx_transpose(mlx_array *res, const mlx_array a, const mlx_stream s);
/* Axis i of the result is axis axes[i] of a. axes names every axis of a once (otherwise
 * KEEL_EAXIS). */
KEEL_API int mlx_transpose_axes(mlx_array *res, const mlx_array a, const int *axes, size_t axes_num,
                                const mlx_stream s);
KEEL_API int mlx_swapaxes(mlx_array *res, const mlx_array a, int axis1, int axis2,
                          const mlx_stream s);
/* Moves axis `source` to the place `destination` of the result; the other axes keep their order. */
KEEL_API int mlx_moveaxis(mlx_array *res, const mlx_array a, int source, int destination,
                          const mlx_stream s);
/* A view of a in a larger shape, by the rules of broadcasting. KEEL_ESHAPE: they do not allow
 * it. */
KEEL_API int mlx_broadcast_to(mlx_array *res, const mlx_array a, const int *shape, size_t shape_num,
                              const mlx_stream s);
/* The inputs, each broadcast to the common shape of all. */
KEEL_API int mlx_broadcast_arrays(mlx_vector_array *res, const mlx_vector_array inputs,
                                  const mlx_stream s);
/* Adds an axis of extent 1, which is axis `axis` of the result. */
KEEL_API int mlx_expand_dims(mlx_array *res, const mlx_array a, int axis, const mlx_stream s);
KEEL_API int mlx_expand_dims_axes(mlx_array *res, const mlx_array a, const int *axes,
                                  size_t axes_num, const mlx_stream s);
/* Drops every axis of extent 1. */
KEEL_API int mlx_squeeze(mlx_array *res, const mlx_array a, const mlx_stream s);
/* Drops the named axes, which must have extent 1 (otherwise KEEL_ESHAPE). */
KEEL_API int mlx_squeeze_axis(mlx_array *res, const mlx_array a, int axis, const mlx_stream s);
KEEL_API int mlx_squeeze_axes(mlx_array *res, const mlx_array a, const int *axes, size_t axes_num,
                              const mlx_stream s);

/* Splits one axis into several, the product of whose extents is the extent of the axis. One of the
 * new extents may be -1. KEEL_ESHAPE: another product, or a shape without extents. */
KEEL_API int mlx_unflatten(mlx_array *res, const mlx_array a, int axis, const int *shape,
                           size_t shape_num, const mlx_stream s);
/* Adds axes of extent 1 in front until the array has 1, 2 or 3 axes. For atleast_3d, (n) becomes
 * (1, n, 1) and (n, m) becomes (n, m, 1). */
KEEL_API int mlx_atleast_1d(mlx_array *res, const mlx_array a, const mlx_stream s);
KEEL_API int mlx_atleast_2d(mlx_array *res, const mlx_array a, const mlx_stream s);
KEEL_API int mlx_atleast_3d(mlx_array *res, const mlx_array a, const mlx_stream s);
/* The product of the extents of the named axes, 0-d; with inverted, 1 divided by that product. The
 * value is converted to dtype (1 / 0 is the largest number of an integer dtype). */
KEEL_API int mlx_number_of_elements(mlx_array *res, const mlx_array a, const int *axes,
                                    size_t axes_num, bool inverted, mlx_dtype dtype,
                                    const mlx_stream s);

/* ---- views of memory ---- */
/* Element (i, j, ...) of the result is element offset + i * strides[0] + j * strides[1] + ... of a
 * in row-major order; a is copied first when it is not row-major. Strides may be negative or 0.
 * KEEL_ESHAPE: an element would lie outside of a, or the number of strides is not that of the
 * axes. */
KEEL_API int mlx_as_strided(mlx_array *res, const mlx_array a, const int *shape, size_t shape_num,
                            const int64_t *strides, size_t strides_num, size_t offset,
                            const mlx_stream s);
/* The bits of a as elements of dtype. When the new elements have another size, the last axis grows
 * or shrinks: its number of bytes must be a multiple of the new size, and a must not be 0-d
 * (otherwise KEEL_ESHAPE). An element viewed as bool is true when its byte is not 0. */
KEEL_API int mlx_view(mlx_array *res, const mlx_array a, mlx_dtype dtype, const mlx_stream s);
/* The elements (i, i + offset) of the two different axes axis1 and axis2, along a new last axis.
 * The new axis is empty when offset lies outside of the array. KEEL_ESHAPE: a has less than two
 * axes. KEEL_EAXIS: axis1 and axis2 are the same. */
KEEL_API int mlx_diagonal(mlx_array *res, const mlx_array a, int offset, int axis1, int axis2,
                          const mlx_stream s);
/* For a 1-d array: the square matrix with a on its k-th diagonal and zeros elsewhere. For a 2-d
 * array: the k-th diagonal of a. KEEL_ESHAPE: another number of axes. */
KEEL_API int mlx_diag(mlx_array *res, const mlx_array a, int k, const mlx_stream s);
/* The sum of mlx_diagonal, whose elements are converted to dtype before they are summed. The dtype
 * of the result is the one that mlx_sum gives. */
KEEL_API int mlx_trace(mlx_array *res, const mlx_array a, int offset, int axis1, int axis2,
                       mlx_dtype dtype, const mlx_stream s);

/* ---- elements that are repeated or moved ---- */
/* a with low_pad_size[k] elements before it and high_pad_size[k] elements after it along axes[k];
 * the sizes are not negative. mode "constant" fills with pad_value (one element, converted to the
 * dtype of a), "edge" with the outermost element. "reflect" and "symmetric" continue with the
 * elements of a backwards and forwards by turns; "reflect" does not repeat the outermost element,
 * "symmetric" does. Only "constant" needs pad_value. KEEL_EARG: another mode, a negative size,
 * lists of different lengths. KEEL_ESHAPE: pad_value has more than one element, or an empty axis is
 * padded in another mode than "constant". */
KEEL_API int mlx_pad(mlx_array *res, const mlx_array a, const int *axes, size_t axes_num,
                     const int *low_pad_size, size_t low_pad_size_num, const int *high_pad_size,
                     size_t high_pad_size_num, const mlx_array pad_value, const char *mode,
                     const mlx_stream s);
/* Pads pad_width elements on both sides of every axis, as mlx_pad does. */
KEEL_API int mlx_pad_symmetric(mlx_array *res, const mlx_array a, int pad_width,
                               const mlx_array pad_value, const char *mode, const mlx_stream s);
/* arr repeated reps[i] times along axis i. The list and the shape are aligned at their last
 * entries; missing entries of the shorter one are 1. KEEL_EARG: a negative entry of reps. */
KEEL_API int mlx_tile(mlx_array *res, const mlx_array arr, const int *reps, size_t reps_num,
                      const mlx_stream s);
/* Each element `repeats` times in a row along an axis. Without an axis: of arr, flattened.
 * KEEL_EARG: repeats is negative. */
KEEL_API int mlx_repeat(mlx_array *res, const mlx_array arr, int repeats, const mlx_stream s);
KEEL_API int mlx_repeat_axis(mlx_array *res, const mlx_array arr, int repeats, int axis,
                             const mlx_stream s);
/* Moves element i to i + shift; elements that leave at one end enter at the other end. Without an
 * axis a is taken flat. For one axis the sum of all shifts counts. For several axes there is one
 * shift for each axis (further shifts are not used; too few are KEEL_EARG), and the same axis may
 * be named again. */
KEEL_API int mlx_roll(mlx_array *res, const mlx_array a, const int *shift, size_t shift_num,
                      const mlx_stream s);
KEEL_API int mlx_roll_axis(mlx_array *res, const mlx_array a, const int *shift, size_t shift_num,
                           int axis, const mlx_stream s);
KEEL_API int mlx_roll_axes(mlx_array *res, const mlx_array a, const int *shift, size_t shift_num,
                           const int *axes, size_t axes_num, const mlx_stream s);
/* Makes one array per input; each result has one axis per input. Result i holds input i (flattened)
 * along axis i and repeats it along the other axes; with sparse, the other axes have extent 1.
 * indexing is "ij", or "xy", which swaps the first two axes (otherwise KEEL_EARG). */
KEEL_API int mlx_meshgrid(mlx_vector_array *res, const mlx_vector_array arrays, bool sparse,
                          const char *indexing, const mlx_stream s);
/* The inputs; each is evaluated only after all dependencies are. When a dependency has failed, the
 * inputs fail with its error. */
KEEL_API int mlx_depends(mlx_vector_array *res, const mlx_vector_array inputs,
                         const mlx_vector_array dependencies);

/* ---- slices, joins and splits ---- */
/* The elements from start, in steps of the stride, up to but without stop, for each axis. start,
 * stop and strides have one entry per axis. A negative bound counts from the end; after that,
 * bounds are clamped to the axis. Strides may be negative. KEEL_EARG: a stride is 0. KEEL_ESHAPE:
 * lists of another length. */
KEEL_API int mlx_slice(mlx_array *res, const mlx_array a, const int *start, size_t start_num,
                       const int *stop, size_t stop_num, const int *strides, size_t strides_num,
                       const mlx_stream s);
/* A slice of shape slice_size (one extent per axis of a) that begins at start[k] on axis axes[k]
 * and at 0 on the other axes. start has integers, is 0-d or 1-d, and may be on any device; a
 * negative start counts once from the end. KEEL_ESHAPE: start has not one entry per entry of axes,
 * or slice_size does not fit into a. KEEL_EDTYPE: start is not of integers. KEEL_EARG: an axis is
 * named twice. When the operation runs and the slice would reach beyond the end of a, the result
 * fails with KEEL_EINDEX. */
KEEL_API int mlx_slice_dynamic(mlx_array *res, const mlx_array a, const mlx_array start,
                               const int *axes, size_t axes_num, const int *slice_size,
                               size_t slice_size_num, const mlx_stream s);
/* src with update written from start[k] on along axis axes[k], and from 0 on along the other axes.
 * update is converted to the dtype of src; its missing leading axes have extent 1. start and its
 * errors are as in mlx_slice_dynamic. KEEL_ESHAPE: update does not fit into src. */
KEEL_API int mlx_slice_update_dynamic(mlx_array *res, const mlx_array src, const mlx_array update,
                                      const mlx_array start, const int *axes, size_t axes_num,
                                      const mlx_stream s);
/* src with the slice of mlx_slice replaced by update, which is converted to the dtype of src and
 * broadcast to the shape of the slice (otherwise KEEL_ESHAPE). */
KEEL_API int mlx_slice_update(mlx_array *res, const mlx_array src, const mlx_array update,
                              const int *start, size_t start_num, const int *stop, size_t stop_num,
                              const int *strides, size_t strides_num, const mlx_stream s);
/* src with the slice combined with update: their sum, product, maximum or minimum. */
KEEL_API int mlx_slice_update_add(mlx_array *res, const mlx_array src, const mlx_array update,
                                  const int *start, size_t start_num, const int *stop,
                                  size_t stop_num, const int *strides, size_t strides_num,
                                  const mlx_stream s);
KEEL_API int mlx_slice_update_prod(mlx_array *res, const mlx_array src, const mlx_array update,
                                   const int *start, size_t start_num, const int *stop,
                                   size_t stop_num, const int *strides, size_t strides_num,
                                   const mlx_stream s);
KEEL_API int mlx_slice_update_max(mlx_array *res, const mlx_array src, const mlx_array update,
                                  const int *start, size_t start_num, const int *stop,
                                  size_t stop_num, const int *strides, size_t strides_num,
                                  const mlx_stream s);
KEEL_API int mlx_slice_update_min(mlx_array *res, const mlx_array src, const mlx_array update,
                                  const int *start, size_t start_num, const int *stop,
                                  size_t stop_num, const int *strides, size_t strides_num,
                                  const mlx_stream s);
/* Joins the arrays along an axis; their other extents are equal (otherwise KEEL_ESHAPE). Without an
 * axis, arrays of any shapes are flattened first. KEEL_EARG: no arrays. */
KEEL_API int mlx_concatenate(mlx_array *res, const mlx_vector_array arrays, const mlx_stream s);
KEEL_API int mlx_concatenate_axis(mlx_array *res, const mlx_vector_array arrays, int axis,
                                  const mlx_stream s);
/* Cuts a into num_splits equal parts along an axis. The extent of the axis must be a multiple of
 * num_splits (otherwise KEEL_ESHAPE). KEEL_EARG: num_splits is below 1. */
KEEL_API int mlx_split(mlx_vector_array *res, const mlx_array a, int num_splits, int axis,
                       const mlx_stream s);
/* Cuts a before each of the indices, which gives indices_num + 1 parts. */
KEEL_API int mlx_split_sections(mlx_vector_array *res, const mlx_array a, const int *indices,
                                size_t indices_num, int axis, const mlx_stream s);
/* Joins arrays of one shape along a new axis of the result (axis 0 when none is named).
 * KEEL_ESHAPE: the shapes differ. KEEL_EARG: no arrays. */
KEEL_API int mlx_stack(mlx_array *res, const mlx_vector_array arrays, const mlx_stream s);
KEEL_API int mlx_stack_axis(mlx_array *res, const mlx_vector_array arrays, int axis,
                            const mlx_stream s);

/* ---- element-wise: operands are converted to a common dtype and broadcast to one shape ---- */
KEEL_API int mlx_add(mlx_array *res, const mlx_array a, const mlx_array b, const mlx_stream s);
KEEL_API int mlx_subtract(mlx_array *res, const mlx_array a, const mlx_array b, const mlx_stream s);
KEEL_API int mlx_multiply(mlx_array *res, const mlx_array a, const mlx_array b, const mlx_stream s);
/* Integers and bools are divided in float32. */
KEEL_API int mlx_divide(mlx_array *res, const mlx_array a, const mlx_array b, const mlx_stream s);
/* The result is NaN when an operand is NaN. -0.0 is below 0.0. Complex numbers are ordered by the
 * real part, then by the imaginary part. */
KEEL_API int mlx_maximum(mlx_array *res, const mlx_array a, const mlx_array b, const mlx_stream s);
KEEL_API int mlx_minimum(mlx_array *res, const mlx_array a, const mlx_array b, const mlx_stream s);
/* KEEL_EDTYPE: bool. */
KEEL_API int mlx_negative(mlx_array *res, const mlx_array a, const mlx_stream s);
/* The absolute value; for complex64 it is float32. */
KEEL_API int mlx_abs(mlx_array *res, const mlx_array a, const mlx_stream s);
/* exp, log and sqrt compute integers and bools in float32. */
KEEL_API int mlx_exp(mlx_array *res, const mlx_array a, const mlx_stream s);
KEEL_API int mlx_log(mlx_array *res, const mlx_array a, const mlx_stream s);
KEEL_API int mlx_sqrt(mlx_array *res, const mlx_array a, const mlx_stream s);
KEEL_API int mlx_square(mlx_array *res, const mlx_array a, const mlx_stream s);

/* Comparisons give bool. With NaN every comparison but not_equal is false. */
KEEL_API int mlx_equal(mlx_array *res, const mlx_array a, const mlx_array b, const mlx_stream s);
KEEL_API int mlx_not_equal(mlx_array *res, const mlx_array a, const mlx_array b,
                           const mlx_stream s);
KEEL_API int mlx_less(mlx_array *res, const mlx_array a, const mlx_array b, const mlx_stream s);
KEEL_API int mlx_less_equal(mlx_array *res, const mlx_array a, const mlx_array b,
                            const mlx_stream s);
KEEL_API int mlx_greater(mlx_array *res, const mlx_array a, const mlx_array b, const mlx_stream s);
KEEL_API int mlx_greater_equal(mlx_array *res, const mlx_array a, const mlx_array b,
                               const mlx_stream s);
/* Logical operations give bool. An element counts as true when it is not 0; NaN is true. */
KEEL_API int mlx_logical_and(mlx_array *res, const mlx_array a, const mlx_array b,
                             const mlx_stream s);
KEEL_API int mlx_logical_or(mlx_array *res, const mlx_array a, const mlx_array b,
                            const mlx_stream s);
KEEL_API int mlx_logical_not(mlx_array *res, const mlx_array a, const mlx_stream s);
/* x where condition is not 0, else y. x and y are converted to a common dtype; all three broadcast
 * to one shape. */
KEEL_API int mlx_where(mlx_array *res, const mlx_array condition, const mlx_array x,
                       const mlx_array y, const mlx_stream s);

/* Elementary functions. Integers and bools are computed in float32; 16-bit floats are computed in
 * float32 and rounded once. Where a real function is not defined the result is NaN. Complex
 * functions have the branch cuts of C (C11, annex G): the value on a cut is the limit from the side
 * that the sign of the zero names. */
KEEL_API int mlx_sin(mlx_array *res, const mlx_array a, const mlx_stream s);
KEEL_API int mlx_cos(mlx_array *res, const mlx_array a, const mlx_stream s);
KEEL_API int mlx_tan(mlx_array *res, const mlx_array a, const mlx_stream s);
KEEL_API int mlx_arcsin(mlx_array *res, const mlx_array a, const mlx_stream s);
KEEL_API int mlx_arccos(mlx_array *res, const mlx_array a, const mlx_stream s);
KEEL_API int mlx_arctan(mlx_array *res, const mlx_array a, const mlx_stream s);
KEEL_API int mlx_sinh(mlx_array *res, const mlx_array a, const mlx_stream s);
KEEL_API int mlx_cosh(mlx_array *res, const mlx_array a, const mlx_stream s);
KEEL_API int mlx_tanh(mlx_array *res, const mlx_array a, const mlx_stream s);
KEEL_API int mlx_arcsinh(mlx_array *res, const mlx_array a, const mlx_stream s);
KEEL_API int mlx_arccosh(mlx_array *res, const mlx_array a, const mlx_stream s);
KEEL_API int mlx_arctanh(mlx_array *res, const mlx_array a, const mlx_stream s);
/* log(1 + a), accurate for small a. */
KEEL_API int mlx_log1p(mlx_array *res, const mlx_array a, const mlx_stream s);
/* The logarithms to the bases 2 and 10. */
KEEL_API int mlx_log2(mlx_array *res, const mlx_array a, const mlx_stream s);
KEEL_API int mlx_log10(mlx_array *res, const mlx_array a, const mlx_stream s);
/* 1 / sqrt(a) and 1 / a. */
KEEL_API int mlx_rsqrt(mlx_array *res, const mlx_array a, const mlx_stream s);
KEEL_API int mlx_reciprocal(mlx_array *res, const mlx_array a, const mlx_stream s);
/* Converts radians to degrees, and degrees to radians. */
KEEL_API int mlx_degrees(mlx_array *res, const mlx_array a, const mlx_stream s);
KEEL_API int mlx_radians(mlx_array *res, const mlx_array a, const mlx_stream s);
/* The functions from here to arctan2 take real numbers only (complex64 is KEEL_EDTYPE). expm1 is
 * exp(a) - 1, accurate for small a. */
KEEL_API int mlx_expm1(mlx_array *res, const mlx_array a, const mlx_stream s);
/* The error function, 2 / sqrt(pi) * integral of exp(-t^2) from 0 to a, and its inverse, which is
 * infinite at 1 and -1. */
KEEL_API int mlx_erf(mlx_array *res, const mlx_array a, const mlx_stream s);
KEEL_API int mlx_erfinv(mlx_array *res, const mlx_array a, const mlx_stream s);
/* 1 / (1 + exp(-a)). */
KEEL_API int mlx_sigmoid(mlx_array *res, const mlx_array a, const mlx_stream s);
/* The angle of the point (b, a), from -pi to pi. */
KEEL_API int mlx_arctan2(mlx_array *res, const mlx_array a, const mlx_array b, const mlx_stream s);
/* log(exp(a) + exp(b)), computed without overflow of the exponentials. */
KEEL_API int mlx_logaddexp(mlx_array *res, const mlx_array a, const mlx_array b,
                           const mlx_stream s);
/* a to the power b, in the common dtype of both. Integers wrap; a negative power of an integer is
 * 0, except for 1 and -1. For bool the result is a, or true where b is false. */
KEEL_API int mlx_power(mlx_array *res, const mlx_array a, const mlx_array b, const mlx_stream s);

/* Integers and bools do not change. KEEL_EDTYPE: complex64. */
KEEL_API int mlx_floor(mlx_array *res, const mlx_array a, const mlx_stream s);
KEEL_API int mlx_ceil(mlx_array *res, const mlx_array a, const mlx_stream s);
/* a rounded to the given number of decimals (tens, hundreds, ... when negative); halves go to the
 * even neighbour. Both parts of complex64 are rounded. 16-bit floats are scaled in float32; a
 * number that would overflow when scaled does not change. Integers do not change for decimals >= 0
 * and are rounded exactly for negative decimals. */
KEEL_API int mlx_round(mlx_array *res, const mlx_array a, int decimals, const mlx_stream s);
/* -1, 0 or 1; NaN for NaN. For complex64 it is a / |a|, and 0 for 0. */
KEEL_API int mlx_sign(mlx_array *res, const mlx_array a, const mlx_stream s);
/* The quotient rounded down, and the remainder, which has the sign of b: a = b * floor_divide +
 * remainder. For integers both are 0 where b is 0. For floats the quotient is the floor of the
 * exact quotient, rounded once, and the remainder is exact; where b is 0 they are an infinity (NaN
 * for 0 / 0) and NaN, and for an infinite a both are NaN. KEEL_EDTYPE: complex64. */
KEEL_API int mlx_floor_divide(mlx_array *res, const mlx_array a, const mlx_array b,
                              const mlx_stream s);
KEEL_API int mlx_remainder(mlx_array *res, const mlx_array a, const mlx_array b,
                           const mlx_stream s);
/* floor_divide and remainder, in this order. */
KEEL_API int mlx_divmod(mlx_vector_array *res, const mlx_array a, const mlx_array b,
                        const mlx_stream s);
/* For real numbers conjugate and real give a, and imag gives 0. real and imag of complex64 are
 * float32. */
KEEL_API int mlx_conjugate(mlx_array *res, const mlx_array a, const mlx_stream s);
KEEL_API int mlx_real(mlx_array *res, const mlx_array a, const mlx_stream s);
KEEL_API int mlx_imag(mlx_array *res, const mlx_array a, const mlx_stream s);

/* Operations on the bits of integers; on bools they are the logical operations. KEEL_EDTYPE: other
 * dtypes, and uint64 with a signed type. */
KEEL_API int mlx_bitwise_and(mlx_array *res, const mlx_array a, const mlx_array b,
                             const mlx_stream s);
KEEL_API int mlx_bitwise_or(mlx_array *res, const mlx_array a, const mlx_array b,
                            const mlx_stream s);
KEEL_API int mlx_bitwise_xor(mlx_array *res, const mlx_array a, const mlx_array b,
                             const mlx_stream s);
KEEL_API int mlx_bitwise_invert(mlx_array *res, const mlx_array a, const mlx_stream s);
/* a shifted by b bits; bools are taken as uint8. A shift by the width or more, or by less than 0,
 * gives 0; a negative number shifted right gives -1. */
KEEL_API int mlx_left_shift(mlx_array *res, const mlx_array a, const mlx_array b,
                            const mlx_stream s);
KEEL_API int mlx_right_shift(mlx_array *res, const mlx_array a, const mlx_array b,
                             const mlx_stream s);
/* Floats converted to 8 bits, as uint8: sign, 4 bits of exponent, 3 bits of fraction (e4m3, without
 * infinities). Rounding is to nearest even; numbers beyond 448 become 448; NaN is 0x7f.
 * KEEL_EDTYPE: x is not a float. */
KEEL_API int mlx_to_fp8(mlx_array *res, const mlx_array x, const mlx_stream s);
/* The exact conversion back from 8 bits to the float type dtype. KEEL_EDTYPE: x is not uint8, or
 * dtype is not a float. */
KEEL_API int mlx_from_fp8(mlx_array *res, const mlx_array x, mlx_dtype dtype, const mlx_stream s);

/* Tests that give bool. For complex64, isnan and isinf test whether either part is, isfinite tests
 * both parts, and the others test a == infinity. */
KEEL_API int mlx_isnan(mlx_array *res, const mlx_array a, const mlx_stream s);
KEEL_API int mlx_isinf(mlx_array *res, const mlx_array a, const mlx_stream s);
KEEL_API int mlx_isfinite(mlx_array *res, const mlx_array a, const mlx_stream s);
KEEL_API int mlx_isposinf(mlx_array *res, const mlx_array a, const mlx_stream s);
KEEL_API int mlx_isneginf(mlx_array *res, const mlx_array a, const mlx_stream s);
/* Whether |a - b| <= atol + rtol * |b| or a equals b. With equal_nan, NaN is close to NaN. Computed
 * in float32 or a wider type. */
KEEL_API int mlx_isclose(mlx_array *res, const mlx_array a, const mlx_array b, double rtol,
                         double atol, bool equal_nan, const mlx_stream s);
/* Whether all elements are close, as a 0-d bool. */
KEEL_API int mlx_allclose(mlx_array *res, const mlx_array a, const mlx_array b, double rtol,
                          double atol, bool equal_nan, const mlx_stream s);
/* Whether the shapes are the same and all elements are equal, as a 0-d bool. */
KEEL_API int mlx_array_equal(mlx_array *res, const mlx_array a, const mlx_array b, bool equal_nan,
                             const mlx_stream s);
/* Replaces NaN and infinities; where no value is given, infinities become the largest finite
 * numbers. Integers do not change. The parts of complex64 are replaced one by one when both values
 * are given; otherwise complex64 is KEEL_EDTYPE. */
KEEL_API int mlx_nan_to_num(mlx_array *res, const mlx_array a, float nan, mlx_optional_float posinf,
                            mlx_optional_float neginf, const mlx_stream s);
/* minimum(maximum(a, a_min), a_max), in the common dtype of all. One of the bounds may be an empty
 * handle; both are KEEL_EARG. */
KEEL_API int mlx_clip(mlx_array *res, const mlx_array a, const mlx_array a_min,
                      const mlx_array a_max, const mlx_stream s);
/* A view of a through which no gradient passes. */
KEEL_API int mlx_stop_gradient(mlx_array *res, const mlx_array a, const mlx_stream s);

/* ---- reductions along all axes, one axis, or a list ----
 * With keepdims a reduced axis stays with extent 1. A list without axes reduces nothing. */
/* The sum. Bools and integers of less than 32 bits are summed in 32 bits, other dtypes in their
 * own. */
KEEL_API int mlx_sum(mlx_array *res, const mlx_array a, bool keepdims, const mlx_stream s);
KEEL_API int mlx_sum_axis(mlx_array *res, const mlx_array a, int axis, bool keepdims,
                          const mlx_stream s);
KEEL_API int mlx_sum_axes(mlx_array *res, const mlx_array a, const int *axes, size_t axes_num,
                          bool keepdims, const mlx_stream s);
/* The mean. Integers and bools give float32. The mean of no elements is NaN. */
KEEL_API int mlx_mean(mlx_array *res, const mlx_array a, bool keepdims, const mlx_stream s);
KEEL_API int mlx_mean_axis(mlx_array *res, const mlx_array a, int axis, bool keepdims,
                           const mlx_stream s);
KEEL_API int mlx_mean_axes(mlx_array *res, const mlx_array a, const int *axes, size_t axes_num,
                           bool keepdims, const mlx_stream s);
/* The largest and the smallest element, ordered as by maximum and minimum. KEEL_EARG: no
 * elements. */
KEEL_API int mlx_max(mlx_array *res, const mlx_array a, bool keepdims, const mlx_stream s);
KEEL_API int mlx_max_axis(mlx_array *res, const mlx_array a, int axis, bool keepdims,
                          const mlx_stream s);
KEEL_API int mlx_max_axes(mlx_array *res, const mlx_array a, const int *axes, size_t axes_num,
                          bool keepdims, const mlx_stream s);
KEEL_API int mlx_min(mlx_array *res, const mlx_array a, bool keepdims, const mlx_stream s);
KEEL_API int mlx_min_axis(mlx_array *res, const mlx_array a, int axis, bool keepdims,
                          const mlx_stream s);
KEEL_API int mlx_min_axes(mlx_array *res, const mlx_array a, const int *axes, size_t axes_num,
                          bool keepdims, const mlx_stream s);
/* The product, with the dtype that the sum has. The product of no elements is 1. */
KEEL_API int mlx_prod(mlx_array *res, const mlx_array a, bool keepdims, const mlx_stream s);
KEEL_API int mlx_prod_axis(mlx_array *res, const mlx_array a, int axis, bool keepdims,
                           const mlx_stream s);
KEEL_API int mlx_prod_axes(mlx_array *res, const mlx_array a, const int *axes, size_t axes_num,
                           bool keepdims, const mlx_stream s);
/* Whether no element is 0, as bool (NaN is not 0). For no elements: true. */
KEEL_API int mlx_all(mlx_array *res, const mlx_array a, bool keepdims, const mlx_stream s);
KEEL_API int mlx_all_axis(mlx_array *res, const mlx_array a, int axis, bool keepdims,
                          const mlx_stream s);
KEEL_API int mlx_all_axes(mlx_array *res, const mlx_array a, const int *axes, size_t axes_num,
                          bool keepdims, const mlx_stream s);
/* Whether any element is not 0, as bool. For no elements: false. */
KEEL_API int mlx_any(mlx_array *res, const mlx_array a, bool keepdims, const mlx_stream s);
KEEL_API int mlx_any_axis(mlx_array *res, const mlx_array a, int axis, bool keepdims,
                          const mlx_stream s);
KEEL_API int mlx_any_axes(mlx_array *res, const mlx_array a, const int *axes, size_t axes_num,
                          bool keepdims, const mlx_stream s);
/* log(sum(exp(a))), computed without overflow of the exponentials. Integers and bools give float32;
 * 16-bit floats are computed in float32. NaN gives NaN, otherwise inf gives inf. For no elements,
 * or when all are -inf, the result is -inf. */
KEEL_API int mlx_logsumexp(mlx_array *res, const mlx_array a, bool keepdims, const mlx_stream s);
KEEL_API int mlx_logsumexp_axis(mlx_array *res, const mlx_array a, int axis, bool keepdims,
                                const mlx_stream s);
KEEL_API int mlx_logsumexp_axes(mlx_array *res, const mlx_array a, const int *axes, size_t axes_num,
                                bool keepdims, const mlx_stream s);
/* The variance: the sum of the squared distances from the mean, divided by max(n - ddof, 0). It is
 * never negative. Integers and bools give float32; complex64 gives float32. */
KEEL_API int mlx_var(mlx_array *res, const mlx_array a, bool keepdims, int ddof,
                     const mlx_stream s);
KEEL_API int mlx_var_axis(mlx_array *res, const mlx_array a, int axis, bool keepdims, int ddof,
                          const mlx_stream s);
KEEL_API int mlx_var_axes(mlx_array *res, const mlx_array a, const int *axes, size_t axes_num,
                          bool keepdims, int ddof, const mlx_stream s);
/* The standard deviation, sqrt(var). */
KEEL_API int mlx_std(mlx_array *res, const mlx_array a, bool keepdims, int ddof,
                     const mlx_stream s);
KEEL_API int mlx_std_axis(mlx_array *res, const mlx_array a, int axis, bool keepdims, int ddof,
                          const mlx_stream s);
KEEL_API int mlx_std_axes(mlx_array *res, const mlx_array a, const int *axes, size_t axes_num,
                          bool keepdims, int ddof, const mlx_stream s);
/* The middle element in ascending order; for an even number of elements the mean of the two middle
 * ones. NaN if any element is NaN. Integers and bools give float32. A list without axes changes
 * only the dtype. KEEL_EARG: no elements. */
KEEL_API int mlx_median(mlx_array *res, const mlx_array a, const int *axes, size_t axes_num,
                        bool keepdims, const mlx_stream s);
/* The position of the largest or smallest element, in uint32: the first of equal elements, or the
 * first NaN if there is one. Without an axis it is the flat row-major position. KEEL_EARG: no
 * elements. */
KEEL_API int mlx_argmax(mlx_array *res, const mlx_array a, bool keepdims, const mlx_stream s);
KEEL_API int mlx_argmax_axis(mlx_array *res, const mlx_array a, int axis, bool keepdims,
                             const mlx_stream s);
KEEL_API int mlx_argmin(mlx_array *res, const mlx_array a, bool keepdims, const mlx_stream s);
KEEL_API int mlx_argmin_axis(mlx_array *res, const mlx_array a, int axis, bool keepdims,
                             const mlx_stream s);
/* exp(a) divided by the sum of exp(a) along the axes. Integers and bools give float32. 16-bit
 * floats are computed in float32, with or without `precise`. */
KEEL_API int mlx_softmax(mlx_array *res, const mlx_array a, bool precise, const mlx_stream s);
KEEL_API int mlx_softmax_axis(mlx_array *res, const mlx_array a, int axis, bool precise,
                              const mlx_stream s);
KEEL_API int mlx_softmax_axes(mlx_array *res, const mlx_array a, const int *axes, size_t axes_num,
                              bool precise, const mlx_stream s);

/* ---- cumulative operations along one axis ----
 * Element i combines the elements up to i, or with reverse the elements from i on. Without
 * inclusive, element i itself is left out; where no element remains, the result is 0, 1, the lowest
 * value (cummax), the highest value (cummin), or -inf (logcumsumexp). The dtype is kept, but bools
 * are summed in int32, and logcumsumexp of integers and bools gives float32. 16-bit floats are
 * computed in float32 and rounded when stored. After a NaN every element is NaN. 0-d arrays fail,
 * because they have no axis. */
KEEL_API int mlx_cumsum(mlx_array *res, const mlx_array a, int axis, bool reverse, bool inclusive,
                        const mlx_stream s);
KEEL_API int mlx_cumprod(mlx_array *res, const mlx_array a, int axis, bool reverse, bool inclusive,
                         const mlx_stream s);
KEEL_API int mlx_cummax(mlx_array *res, const mlx_array a, int axis, bool reverse, bool inclusive,
                        const mlx_stream s);
KEEL_API int mlx_cummin(mlx_array *res, const mlx_array a, int axis, bool reverse, bool inclusive,
                        const mlx_stream s);
KEEL_API int mlx_logcumsumexp(mlx_array *res, const mlx_array a, int axis, bool reverse,
                              bool inclusive, const mlx_stream s);

/* ---- order ----
 * The order is ascending, equal elements keep their order, and NaN is last. Without an axis all
 * elements are taken, flat. */
KEEL_API int mlx_sort(mlx_array *res, const mlx_array a, const mlx_stream s);
KEEL_API int mlx_sort_axis(mlx_array *res, const mlx_array a, int axis, const mlx_stream s);
/* The positions of the elements in sorted order, in uint32. */
KEEL_API int mlx_argsort(mlx_array *res, const mlx_array a, const mlx_stream s);
KEEL_API int mlx_argsort_axis(mlx_array *res, const mlx_array a, int axis, const mlx_stream s);
/* The elements in an order in which the element at kth (negative: from the end) is where sorting
 * would put it, no element before it is larger, and no element after it is smaller. NaN counts as
 * the largest. argpartition gives the positions, in uint32. KEEL_EARG: kth is outside of the
 * axis. */
KEEL_API int mlx_partition(mlx_array *res, const mlx_array a, int kth, const mlx_stream s);
KEEL_API int mlx_partition_axis(mlx_array *res, const mlx_array a, int kth, int axis,
                                const mlx_stream s);
KEEL_API int mlx_argpartition(mlx_array *res, const mlx_array a, int kth, const mlx_stream s);
KEEL_API int mlx_argpartition_axis(mlx_array *res, const mlx_array a, int kth, int axis,
                                   const mlx_stream s);
/* The k largest elements, in ascending order. KEEL_EARG: k is negative or above the extent. */
KEEL_API int mlx_topk(mlx_array *res, const mlx_array a, int k, const mlx_stream s);
KEEL_API int mlx_topk_axis(mlx_array *res, const mlx_array a, int k, int axis, const mlx_stream s);

/* ---- products ---- */
/* The matrix product over the last two axes; the other axes broadcast. A 1-d operand is a row on
 * the left and a column on the right; its axis is dropped from the result. The operands are
 * converted to a common float or complex dtype. KEEL_ESHAPE: a 0-d operand, or extents that do not
 * fit. KEEL_EDTYPE: both are integers or bools. */
KEEL_API int mlx_matmul(mlx_array *res, const mlx_array a, const mlx_array b, const mlx_stream s);

/* Element (i, j) is a[i] * b[j]; both operands are flattened. */
KEEL_API int mlx_outer(mlx_array *res, const mlx_array a, const mlx_array b, const mlx_stream s);
/* The sum of products over the last axis of both, whose extents are equal. The result has the other
 * axes of a, then those of b. With a 0-d operand it is the product. Dtypes are as for matmul.
 * KEEL_ESHAPE: other extents. */
KEEL_API int mlx_inner(mlx_array *res, const mlx_array a, const mlx_array b, const mlx_stream s);
/* The Kronecker product: each element of a is replaced by its product with all of b. The shapes are
 * aligned at the last axis. */
KEEL_API int mlx_kron(mlx_array *res, const mlx_array a, const mlx_array b, const mlx_stream s);
/* The sum of products over the pairs of axes axes_a[i] and axes_b[i]. The result has the other axes
 * of a, then those of b. Dtypes are as for matmul. KEEL_EARG: lists of different lengths.
 * KEEL_ESHAPE: a pair of different extents. */
KEEL_API int mlx_tensordot(mlx_array *res, const mlx_array a, const mlx_array b, const int *axes_a,
                           size_t axes_a_num, const int *axes_b, size_t axes_b_num,
                           const mlx_stream s);
/* The sum of products over the last `axis` axes of a and the first `axis` axes of b. KEEL_EAXIS:
 * axis is negative, or larger than a number of axes. */
KEEL_API int mlx_tensordot_axis(mlx_array *res, const mlx_array a, const mlx_array b, int axis,
                                const mlx_stream s);
/* The products a[lhs_indices[i]] b[rhs_indices[i]]: a and b are batches of matrices, which are
 * counted over all leading axes; the indices broadcast, and the result has their shape, then the
 * rows and columns. Without indices (an empty handle) all matrices are taken in order, in the shape
 * of the leading axes. A vector counts as a matrix of one row or one column. An index out of range
 * is an error of the result that names position and value; negative ones count from the end.
 * sorted_indices is a hint. Errors are as for matmul; KEEL_EDTYPE also for complex64 and for
 * indices that are no integers; KEEL_ESHAPE: indices that do not broadcast. */
KEEL_API int mlx_gather_mm(mlx_array *res, const mlx_array a, const mlx_array b,
                           const mlx_array lhs_indices /* may be empty */,
                           const mlx_array rhs_indices /* may be empty */, bool sorted_indices,
                           const mlx_stream s);
/* For a (m, k), b (k, n) and segments (..., 2) of integers the products (..., m, n) over the
 * indices k from segments[..., 0] on, before segments[..., 1]; an empty or reversed segment gives
 * zeros. A number below 0 or above k is an error of the result. KEEL_ESHAPE: other numbers of axes,
 * or a and b do not fit. KEEL_EDTYPE: the common dtype of a and b is no float, or segments are no
 * integers. */
KEEL_API int mlx_segmented_mm(mlx_array *res, const mlx_array a, const mlx_array b,
                              const mlx_array segments, const mlx_stream s);
/* The product of a and b where square blocks of block_size rows and columns (fewer at the edges) of
 * a, b and the result are multiplied by elements of mask_lhs, mask_rhs and mask_out; a mask of
 * bools keeps a block or makes it 0, whatever it holds. A mask (an empty handle: none) broadcasts
 * to one element for each block. Errors are as for matmul; KEEL_EDTYPE also for complex64;
 * KEEL_EARG: block_size is below 1. */
KEEL_API int mlx_block_masked_mm(mlx_array *res, const mlx_array a, const mlx_array b,
                                 int block_size, const mlx_array mask_out /* may be empty */,
                                 const mlx_array mask_lhs /* may be empty */,
                                 const mlx_array mask_rhs /* may be empty */, const mlx_stream s);
/* Einstein summation: subscripts such as "ij,jk->ik" give each axis of each operand a letter;
 * letters that the result does not have are summed. "..." stands for the axes without a letter,
 * which broadcast; a letter that one operand has twice takes its diagonal; an axis of one element
 * broadcasts. Without "->" the result has the ellipsis, then the letters that occur once, in
 * alphabetical order. Spaces count for nothing. 1 to 64 operands are taken, and two at a time are
 * multiplied, in the order with the fewest multiplications (8 operands or fewer; else a good one).
 * KEEL_EARG: subscripts that cannot be read, NULL, or of another number of operands. KEEL_ESHAPE:
 * subscripts that do not fit the shapes. KEEL_EDTYPE: two operands of integers are summed over an
 * axis of both. KEEL_ELIMIT: too many operands, or a matrix with too long a side. */
KEEL_API int mlx_einsum(mlx_array *res, const char *subscripts, const mlx_vector_array operands,
                        const mlx_stream s);
/* alpha * (a @ b) + beta * c; c broadcasts to the shape of the product. All three are converted to
 * a common float or complex dtype; products of 16-bit floats are added in float32. When beta is 0,
 * c is not read. Errors are as for matmul; KEEL_ESHAPE also when c does not broadcast. */
KEEL_API int mlx_addmm(mlx_array *res, const mlx_array c, const mlx_array a, const mlx_array b,
                       float alpha, float beta, const mlx_stream s);

/* Convolutions, channels last: input (batch, spatial axes, channels), weight (output channels,
 * spatial axes, channels / groups). The result is (batch, spatial axes, output channels) in the
 * common dtype of both, which must be floats; 16-bit floats are added up in float32. Element p of a
 * spatial axis is the sum of weight[k] times the input at p * stride + k * dilation - padding,
 * which counts as 0 outside. Output channels of group i see the input channels of group i.
 * KEEL_EDTYPE: an operand is no float. KEEL_EARG: a stride, dilation or number of groups below 1.
 * KEEL_ESHAPE: another number of axes, channels that do not fit each other or the groups, a kernel
 * without elements, or larger than the input with its padding. KEEL_ELIMIT: an axis is too long.
 * Negative padding removes elements of the input. */
KEEL_API int mlx_conv1d(mlx_array *res, const mlx_array input, const mlx_array weight, int stride,
                        int padding, int dilation, int groups, const mlx_stream s);
KEEL_API int mlx_conv2d(mlx_array *res, const mlx_array input, const mlx_array weight, int stride_0,
                        int stride_1, int padding_0, int padding_1, int dilation_0, int dilation_1,
                        int groups, const mlx_stream s);
KEEL_API int mlx_conv3d(mlx_array *res, const mlx_array input, const mlx_array weight, int stride_0,
                        int stride_1, int stride_2, int padding_0, int padding_1, int padding_2,
                        int dilation_0, int dilation_1, int dilation_2, int groups,
                        const mlx_stream s);
/* The same for 1 to 3 spatial axes, with padding of its own before and after each axis, with zeros
 * between the elements of the input, which are then input_dilation apart, and, if flip, with the
 * kernel read from its last element to its first. A list has one entry for each spatial axis, one
 * for all, or none: 1 for strides and dilations, 0 for padding. Negative padding removes elements
 * before zeros are put between them. KEEL_EARG: a list of another length, or NULL with entries. */
KEEL_API int mlx_conv_general(mlx_array *res, const mlx_array input, const mlx_array weight,
                              const int *stride, size_t stride_num, const int *padding_lo,
                              size_t padding_lo_num, const int *padding_hi, size_t padding_hi_num,
                              const int *kernel_dilation, size_t kernel_dilation_num,
                              const int *input_dilation, size_t input_dilation_num, int groups,
                              bool flip, const mlx_stream s);
/* Transposed convolutions: the gradient, with respect to its input, of a convolution of these
 * strides, padding and dilation. weight (output channels, spatial axes, channels / groups). A
 * spatial axis of n elements becomes (n - 1) * stride - 2 * padding + dilation * (k - 1) + 1 +
 * output_padding elements. Errors are as for mlx_conv1d. */
KEEL_API int mlx_conv_transpose1d(mlx_array *res, const mlx_array input, const mlx_array weight,
                                  int stride, int padding, int dilation, int output_padding,
                                  int groups, const mlx_stream s);
KEEL_API int mlx_conv_transpose2d(mlx_array *res, const mlx_array input, const mlx_array weight,
                                  int stride_0, int stride_1, int padding_0, int padding_1,
                                  int dilation_0, int dilation_1, int output_padding_0,
                                  int output_padding_1, int groups, const mlx_stream s);
KEEL_API int mlx_conv_transpose3d(mlx_array *res, const mlx_array input, const mlx_array weight,
                                  int stride_0, int stride_1, int stride_2, int padding_0,
                                  int padding_1, int padding_2, int dilation_0, int dilation_1,
                                  int dilation_2, int output_padding_0, int output_padding_1,
                                  int output_padding_2, int groups, const mlx_stream s);

/* The last axis multiplied by a Hadamard matrix (entries 1 and -1, orthogonal rows) and by scale,
 * which is 1 / sqrt(n) when left out. n is m * 2^k with m one of 1, 12, 20, 28. The matrix is
 * Sylvester's for m = 1; otherwise it is the Kronecker product of a matrix of size m and
 * Sylvester's. Integers and bools give float32, except for n = 1 with the factor 1, which changes
 * nothing. KEEL_ESHAPE: another n, or no elements. KEEL_EDTYPE: complex64. */
KEEL_API int mlx_hadamard_transform(mlx_array *res, const mlx_array a, mlx_optional_float scale,
                                    const mlx_stream s);

/* ---- quantized matrices ----
 * Rows are quantized by groups of group_size elements; w packs the numbers of a row into words of
 * 32 bits, the lowest bits first. The modes, with defaults where group_size and bits are left out:
 * "affine": a number q of bits 2, 3, 4 (default), 5, 6 or 8 stands for scale * q + bias, in groups
 * of 32, 64 (default) or 128; scales and biases are floats. "mxfp4": 4-bit floats (e2m1), groups
 * of 32; "mxfp8": 8-bit floats (e4m3), groups of 32; scales of both are powers of two as uint8
 * (e8m0). "nvfp4": 4-bit floats, groups of 16; scales are e4m3 as uint8, and a global scale,
 * float32 and a single number, may divide them further. The last axis of w has (elements * bits /
 * 32) words, that of scales and biases has (elements / group_size) entries; their other axes are
 * the same. Indices, sums and activations are as exact as those of other functions: activations
 * are not rounded. Errors of all: KEEL_EARG: another mode, group size or number of bits; biases
 * missing in mode affine or given in another; a global scale in another mode than nvfp4.
 * KEEL_EDTYPE: w is not uint32, scales are not uint8 outside of mode affine, or numbers are no
 * float16, bfloat16 or float32. KEEL_ESHAPE: shapes that do not belong together. */
/* Quantizes w, which has at least 2 axes, the last of which is a multiple of the group size. The
 * result is the vector of packed numbers, scales and, in mode affine, biases; scales and biases
 * have the dtype of w there. All are the caller's, in res. */
KEEL_API int mlx_quantize(mlx_vector_array *res, const mlx_array w, mlx_optional_int group_size,
                          mlx_optional_int bits, const char *mode,
                          const mlx_array global_scale /* may be null */, const mlx_stream s);
/* The numbers that w stands for, with at least 2 axes. Without dtype the result has the common
 * dtype of scales and biases; in other modes bfloat16, or float32 with a global scale. It is
 * computed in float32 and rounded once. */
KEEL_API int mlx_dequantize(mlx_array *res, const mlx_array w, const mlx_array scales,
                            const mlx_array biases /* may be null */, mlx_optional_int group_size,
                            mlx_optional_int bits, const char *mode,
                            const mlx_array global_scale /* may be null */,
                            mlx_optional_dtype dtype, const mlx_stream s);
/* x (..., m, k) times the matrix that w stands for: (..., k, n), or (..., n, k) if transpose, and
 * then its transpose is taken. The result is (..., m, n); leading axes broadcast; a 1-d x is a row
 * whose axis is dropped. x, scales and biases are converted to their common dtype, which the
 * result has. */
KEEL_API int mlx_quantized_matmul(mlx_array *res, const mlx_array x, const mlx_array w,
                                  const mlx_array scales, const mlx_array biases /* may be null */,
                                  bool transpose, mlx_optional_int group_size,
                                  mlx_optional_int bits, const char *mode, const mlx_stream s);
/* The same for pairs of matrices. lhs_indices says which matrix of x, rhs_indices which one of w;
 * they count all matrices of the leading axes in row-major order and broadcast to one shape, after
 * which the result has the axes m and n. Left out, they are all matrices, in the shape of the
 * leading axes. sorted_indices is a hint; a wrong one does no harm. KEEL_EINDEX: an index that is
 * out of range, with its position. KEEL_EDTYPE: indices that are not integers. */
KEEL_API int mlx_gather_qmm(mlx_array *res, const mlx_array x, const mlx_array w,
                            const mlx_array scales, const mlx_array biases /* may be null */,
                            const mlx_array lhs_indices /* may be null */,
                            const mlx_array rhs_indices /* may be null */, bool transpose,
                            mlx_optional_int group_size, mlx_optional_int bits, const char *mode,
                            bool sorted_indices, const mlx_stream s);
/* x (..., k), quantized, times the transpose of the matrix w, in x's dtype. w is quantized, (n,
 * words) with w_scales, or a matrix of floats (n, k), which is quantized too. Modes are mxfp4,
 * mxfp8 and nvfp4; the latter takes both global scales or none. Gradients are those of the product
 * of what was not quantized. KEEL_EARG: mode affine; a quantized w without scales; one global
 * scale. */
KEEL_API int mlx_qqmm(mlx_array *res, const mlx_array x, const mlx_array w,
                      const mlx_array w_scales /* may be null */, mlx_optional_int group_size,
                      mlx_optional_int bits, const char *mode,
                      const mlx_array global_scale_x /* may be null */,
                      const mlx_array global_scale_w /* may be null */, const mlx_stream s);

/* ---- reading at indices ----
 * Indices are integers. A negative index counts from the end of its axis. An index outside of its
 * axis fails the result with KEEL_EINDEX, with the index, the axis and its size in the error; no
 * memory outside of the array is read. */
/* indices has one array per entry of axes; these broadcast to one shape. For each position of that
 * shape the result has a slice of a of the shape slice_sizes (one extent per axis of a), which
 * starts at the indices along `axes` and at 0 along the other axes. The shape of the result is the
 * shape of the indices, then slice_sizes. KEEL_EAXIS: an axis is negative, too large or named
 * twice. KEEL_EARG: not one array per axis. KEEL_ESHAPE: slice_sizes does not fit into a.
 * KEEL_EDTYPE: indices that are not integers. */
KEEL_API int mlx_gather(mlx_array *res, const mlx_array a, const mlx_vector_array indices,
                        const int *axes, size_t axes_num, const int *slice_sizes,
                        size_t slice_sizes_num, const mlx_stream s);
/* mlx_gather with one array of indices, along one axis, which is not negative. */
KEEL_API int mlx_gather_single(mlx_array *res, const mlx_array a, const mlx_array indices, int axis,
                               const int *slice_sizes, size_t slice_sizes_num, const mlx_stream s);
/* The elements at flat row-major positions. The result has the shape of indices. KEEL_ESHAPE: a has
 * no elements, and indices has some. */
KEEL_API int mlx_take(mlx_array *res, const mlx_array a, const mlx_array indices,
                      const mlx_stream s);
/* The slices at the indices along an axis. The result has the shape of a, with the axis replaced by
 * the shape of indices. */
KEEL_API int mlx_take_axis(mlx_array *res, const mlx_array a, const mlx_array indices, int axis,
                           const mlx_stream s);
/* One index per element: res[.., i, ..] = a[.., indices[.., i, ..], ..]. indices has as many axes
 * as a; all axes but `axis` broadcast (otherwise KEEL_ESHAPE). */
KEEL_API int mlx_take_along_axis(mlx_array *res, const mlx_array a, const mlx_array indices,
                                 int axis, const mlx_stream s);

/* ---- writing at indices ----
 * The result is a changed copy of a. Indices are as for reading: an index outside of its axis fails
 * the result with KEEL_EINDEX. Values are converted to the dtype of a. */
/* a with a[.., indices[.., i, ..], ..] = values[.., i, ..]. When several values have the same
 * place, the last one in row-major order is kept. */
KEEL_API int mlx_put_along_axis(mlx_array *res, const mlx_array a, const mlx_array indices,
                                const mlx_array values, int axis, const mlx_stream s);
/* The same, but the values are added to the elements of a; every value counts. */
KEEL_API int mlx_scatter_add_axis(mlx_array *res, const mlx_array a, const mlx_array indices,
                                  const mlx_array values, int axis, const mlx_stream s);
/* The inverse of gather. updates has the common shape of the indices, then one extent per axis of
 * a; each slice is written where gather would read it. Errors are those of gather; KEEL_ESHAPE when
 * updates has another shape. When several updates have the same place, the last one in row-major
 * order is kept. */
KEEL_API int mlx_scatter(mlx_array *res, const mlx_array a, const mlx_vector_array indices,
                         const mlx_array updates, const int *axes, size_t axes_num,
                         const mlx_stream s);
/* mlx_scatter with one array of indices, along one axis, which is not negative. */
KEEL_API int mlx_scatter_single(mlx_array *res, const mlx_array a, const mlx_array indices,
                                const mlx_array updates, int axis, const mlx_stream s);
/* As mlx_scatter, but each update is combined with the element of a. Every update counts, also when
 * several have the same place. */
KEEL_API int mlx_scatter_add(mlx_array *res, const mlx_array a, const mlx_vector_array indices,
                             const mlx_array updates, const int *axes, size_t axes_num,
                             const mlx_stream s);
KEEL_API int mlx_scatter_add_single(mlx_array *res, const mlx_array a, const mlx_array indices,
                                    const mlx_array updates, int axis, const mlx_stream s);
KEEL_API int mlx_scatter_prod(mlx_array *res, const mlx_array a, const mlx_vector_array indices,
                              const mlx_array updates, const int *axes, size_t axes_num,
                              const mlx_stream s);
KEEL_API int mlx_scatter_prod_single(mlx_array *res, const mlx_array a, const mlx_array indices,
                                     const mlx_array updates, int axis, const mlx_stream s);
/* Combined as by maximum and minimum: the result is NaN when an operand is NaN. */
KEEL_API int mlx_scatter_max(mlx_array *res, const mlx_array a, const mlx_vector_array indices,
                             const mlx_array updates, const int *axes, size_t axes_num,
                             const mlx_stream s);
KEEL_API int mlx_scatter_max_single(mlx_array *res, const mlx_array a, const mlx_array indices,
                                    const mlx_array updates, int axis, const mlx_stream s);
KEEL_API int mlx_scatter_min(mlx_array *res, const mlx_array a, const mlx_vector_array indices,
                             const mlx_array updates, const int *axes, size_t axes_num,
                             const mlx_stream s);
KEEL_API int mlx_scatter_min_single(mlx_array *res, const mlx_array a, const mlx_array indices,
                                    const mlx_array updates, int axis, const mlx_stream s);

/* a with elements of src, converted to the dtype of a, where mask is true. mask is bool; its shape
 * is the shape of a or the first extents of it. The true places of mask name parts of a, which have
 * the remaining axes of a. A src with at most as many axes as such a part is broadcast to the part
 * and written at every true place. A src with one axis more has along that axis one value for each
 * true place, in row-major order, and each value is broadcast to a part. When src has too few
 * values the result fails; further values are not used. KEEL_ESHAPE: a src of any other shape, or a
 * mask of another shape. KEEL_EDTYPE: mask is not bool. */
KEEL_API int mlx_masked_scatter(mlx_array *res, const mlx_array a, const mlx_array mask,
                                const mlx_array src, const mlx_stream s);

#ifdef __cplusplus
}
#endif
#endif
