/* ops.h - operations on arrays. A call builds a lazy array; nothing is computed before it is
 * evaluated.
 *
 * What holds for every function:
 * - It returns 0 and puts the result in *res, or fails at once for wrong dtypes, shapes and
 *   axes, empty handles, or when out of memory. A failure of the operation itself (an index out
 *   of range) belongs to the result and is reported when that, or an array made from it, is
 *   read. *res may be one of the inputs.
 * - s is the stream that the operation runs on. It must be one, also where the result is only
 *   another view of the same data.
 * - An axis counts from 0, or from the end when negative: -1 is the last. Axes in a list must
 *   differ.
 * - A list is a pointer and a count; the pointer may be NULL when the count is 0.
 * - Operands of two dtypes meet in one: bool < integers < floats < complex64; signed with
 *   unsigned gives a signed type that holds both (int64 at most; uint64 with a signed one:
 *   float32); float16 with bfloat16: float32.
 * - Operands of two shapes broadcast: aligned at the last axis, an extent of 1 or a missing axis
 *   stretches to the other's.
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
/* shape: extents, none negative; no extents give a 0-d array. */
KEEL_API int mlx_zeros(mlx_array *res, const int *shape, size_t shape_num, mlx_dtype dtype,
                       const mlx_stream s);
/* Of the shape and dtype of a. */
KEEL_API int mlx_zeros_like(mlx_array *res, const mlx_array a, const mlx_stream s);
KEEL_API int mlx_ones(mlx_array *res, const int *shape, size_t shape_num, mlx_dtype dtype,
                      const mlx_stream s);
KEEL_API int mlx_ones_like(mlx_array *res, const mlx_array a, const mlx_stream s);
/* vals, converted to dtype and broadcast to shape. */
KEEL_API int mlx_full(mlx_array *res, const int *shape, size_t shape_num, const mlx_array vals,
                      mlx_dtype dtype, const mlx_stream s);
/* The same, to the shape of a. */
KEEL_API int mlx_full_like(mlx_array *res, const mlx_array a, const mlx_array vals, mlx_dtype dtype,
                           const mlx_stream s);
/* 1-d: start, start + step, ... below stop (above it when step is negative). Integer dtypes drop
 * the fractions of start and step first. Fails for step 0, NaN, infinities, bool. */
KEEL_API int mlx_arange(mlx_array *res, double start, double stop, double step, mlx_dtype dtype,
                        const mlx_stream s);

/* num numbers from start to stop, both included and exact, evenly spaced; computed in double and rounded (integers: truncated) once. num may be 0 or 1. */
KEEL_API int mlx_linspace(mlx_array *res, double start, double stop, int num, mlx_dtype dtype,
                          const mlx_stream s);
/* n rows and m columns with ones where column - row is k, zeros elsewhere. Extents are not negative; k may lie outside. */
KEEL_API int mlx_eye(mlx_array *res, int n, int m, int k, mlx_dtype dtype, const mlx_stream s);
KEEL_API int mlx_identity(mlx_array *res, int n, mlx_dtype dtype, const mlx_stream s);
/* The same with ones where column - row is k or less; a negative extent counts as 0. */
KEEL_API int mlx_tri(mlx_array *res, int n, int m, int k, mlx_dtype type, const mlx_stream s);
/* x, of two axes at least, with zeros where column - row of the last two is above k (tril) or below it (triu). */
KEEL_API int mlx_tril(mlx_array *res, const mlx_array x, int k, const mlx_stream s);
KEEL_API int mlx_triu(mlx_array *res, const mlx_array x, int k, const mlx_stream s);
/* Windows of M points in float32, symmetric; none when M is below 1, and 1 when it is 1. With x from -1 to 1:
 * hanning 0.5 + 0.5 cos(pi x), hamming 0.54 + 0.46 cos(pi x), blackman 0.42 + 0.5 cos(pi x) + 0.08 cos(2 pi x), bartlett 1 - |x|. */
KEEL_API int mlx_hanning(mlx_array *res, int M, const mlx_stream s);
KEEL_API int mlx_hamming(mlx_array *res, int M, const mlx_stream s);
KEEL_API int mlx_blackman(mlx_array *res, int M, const mlx_stream s);
KEEL_API int mlx_bartlett(mlx_array *res, int M, const mlx_stream s);

/* ---- the same values, typed or laid out another way ---- */
KEEL_API int mlx_copy(mlx_array *res, const mlx_array a, const mlx_stream s);
/* a in row-major order; a itself when it is, or when it is column-major and that is allowed. */
KEEL_API int mlx_contiguous(mlx_array *res, const mlx_array a, bool allow_col_major,
                            const mlx_stream s);
/* Converts. Floats to integers drop the fraction, saturate, and turn NaN into 0; to bool:
 * whether not 0; complex64 to real: the real part; rounding is to nearest even. */
KEEL_API int mlx_astype(mlx_array *res, const mlx_array a, mlx_dtype dtype, const mlx_stream s);

/* ---- shapes ---- */
/* The elements in row-major order under another shape of the same size. One extent may be -1:
 * what is left. */
KEEL_API int mlx_reshape(mlx_array *res, const mlx_array a, const int *shape, size_t shape_num,
                         const mlx_stream s);
/* Axes start_axis to end_axis, both included, become one; beyond the first or last axis means that
 * axis. Fails when the start is behind the end. A 0-d array becomes (1,). */
KEEL_API int mlx_flatten(mlx_array *res, const mlx_array a, int start_axis, int end_axis,
                         const mlx_stream s);
/* Reverses the order of the axes. */
KEEL_API int mlx_transpose(mlx_array *res, const mlx_array a, const mlx_stream s);
/* Axis i of the result is axis axes[i] of a; one per axis. */
KEEL_API int mlx_transpose_axes(mlx_array *res, const mlx_array a, const int *axes, size_t axes_num,
                                const mlx_stream s);
KEEL_API int mlx_swapaxes(mlx_array *res, const mlx_array a, int axis1, int axis2,
                          const mlx_stream s);
/* Moves axis `source` so that it is axis `destination` of the result; the others keep their
 * order. */
KEEL_API int mlx_moveaxis(mlx_array *res, const mlx_array a, int source, int destination,
                          const mlx_stream s);
/* A view of a in a larger shape, as operands broadcast. */
KEEL_API int mlx_broadcast_to(mlx_array *res, const mlx_array a, const int *shape, size_t shape_num,
                              const mlx_stream s);
/* Each of the inputs, broadcast to the shape in which all meet. */
KEEL_API int mlx_broadcast_arrays(mlx_vector_array *res, const mlx_vector_array inputs,
                                  const mlx_stream s);
/* A new axis of extent 1, which is axis `axis` of the result. */
KEEL_API int mlx_expand_dims(mlx_array *res, const mlx_array a, int axis, const mlx_stream s);
KEEL_API int mlx_expand_dims_axes(mlx_array *res, const mlx_array a, const int *axes,
                                  size_t axes_num, const mlx_stream s);
/* Drops every axis of extent 1. */
KEEL_API int mlx_squeeze(mlx_array *res, const mlx_array a, const mlx_stream s);
/* Drops the axes named, which must have extent 1. */
KEEL_API int mlx_squeeze_axis(mlx_array *res, const mlx_array a, int axis, const mlx_stream s);
KEEL_API int mlx_squeeze_axes(mlx_array *res, const mlx_array a, const int *axes, size_t axes_num,
                              const mlx_stream s);

/* One axis becomes several, whose extents multiply to its own; one of them may be -1. */
KEEL_API int mlx_unflatten(mlx_array *res, const mlx_array a, int axis, const int *shape,
                           size_t shape_num, const mlx_stream s);
/* With axes of extent 1 added, in front; of 3: (n) becomes (1, n, 1) and (n, m) becomes (n, m, 1). */
KEEL_API int mlx_atleast_1d(mlx_array *res, const mlx_array a, const mlx_stream s);
KEEL_API int mlx_atleast_2d(mlx_array *res, const mlx_array a, const mlx_stream s);
KEEL_API int mlx_atleast_3d(mlx_array *res, const mlx_array a, const mlx_stream s);
/* The product of the extents of the axes, 0-d, or 1 divided by it when inverted; converted to dtype
 * (1 / 0 is the largest number of an integer dtype). */
KEEL_API int mlx_number_of_elements(mlx_array *res, const mlx_array a, const int *axes,
                                    size_t axes_num, bool inverted, mlx_dtype dtype,
                                    const mlx_stream s);

/* ---- views of memory ---- */
/* Element (i, j, ...) of the result is element offset + i * strides[0] + j * strides[1] + ... of a in row-major order (a copy of a where it is laid
 * out otherwise). Strides may be negative or 0. Fails when any element would lie outside of a. */
KEEL_API int mlx_as_strided(mlx_array *res, const mlx_array a, const int *shape, size_t shape_num,
                            const int64_t *strides, size_t strides_num, size_t offset,
                            const mlx_stream s);
/* The bits of a as elements of dtype. When these have another size the last axis grows or shrinks; its bytes must be a multiple of the new
 * size, and a 0-d array cannot. To bool: whether a byte is not 0. */
KEEL_API int mlx_view(mlx_array *res, const mlx_array a, mlx_dtype dtype, const mlx_stream s);
/* The elements (i, i + offset) of axes axis1 and axis2, which differ, as a last axis behind the others; empty when offset lies outside. */
KEEL_API int mlx_diagonal(mlx_array *res, const mlx_array a, int offset, int axis1, int axis2,
                          const mlx_stream s);
/* 1-d: the square matrix with a on its k-th diagonal and zeros elsewhere. 2-d: the k-th diagonal of a. */
KEEL_API int mlx_diag(mlx_array *res, const mlx_array a, int k, const mlx_stream s);
/* The sum of mlx_diagonal, converted to dtype before it is summed; the result's dtype is that of mlx_sum. */
KEEL_API int mlx_trace(mlx_array *res, const mlx_array a, int offset, int axis1, int axis2,
                       mlx_dtype dtype, const mlx_stream s);

/* ---- elements repeated and moved ---- */
/* a with low_pad_size[k] elements before and high_pad_size[k] behind it along axes[k]; sizes are not negative. mode: "constant" puts pad_value there (one element,
 * converted to the dtype of a), "edge" the outermost element, "reflect" and "symmetric" the elements backwards and forwards by turns, without and with the outermost
 * one. Only "constant" needs pad_value; the others need an axis that is not empty. */
KEEL_API int mlx_pad(mlx_array *res, const mlx_array a, const int *axes, size_t axes_num,
                     const int *low_pad_size, size_t low_pad_size_num, const int *high_pad_size,
                     size_t high_pad_size_num, const mlx_array pad_value, const char *mode,
                     const mlx_stream s);
/* pad_width on both sides of every axis. */
KEEL_API int mlx_pad_symmetric(mlx_array *res, const mlx_array a, int pad_width,
                               const mlx_array pad_value, const char *mode, const mlx_stream s);
/* All of arr, reps[i] times along axis i. The lists meet at their last entry; what the shorter one lacks is 1. */
KEEL_API int mlx_tile(mlx_array *res, const mlx_array arr, const int *reps, size_t reps_num,
                      const mlx_stream s);
/* Each element `repeats` times, one behind the other, along an axis; without one: of arr, flat. */
KEEL_API int mlx_repeat(mlx_array *res, const mlx_array arr, int repeats, const mlx_stream s);
KEEL_API int mlx_repeat_axis(mlx_array *res, const mlx_array arr, int repeats, int axis,
                             const mlx_stream s);
/* Element i goes to i + shift, those that leave at one end come in at the other. Without an axis: of a, flat. For one axis all
 * shifts are added; for several there is one for each (more are not used), and an axis may be named again. */
KEEL_API int mlx_roll(mlx_array *res, const mlx_array a, const int *shift, size_t shift_num,
                      const mlx_stream s);
KEEL_API int mlx_roll_axis(mlx_array *res, const mlx_array a, const int *shift, size_t shift_num,
                           int axis, const mlx_stream s);
KEEL_API int mlx_roll_axes(mlx_array *res, const mlx_array a, const int *shift, size_t shift_num,
                           const int *axes, size_t axes_num, const mlx_stream s);
/* One array per input, of one axis per input: input i (flat) along axis i, the same along the others. indexing "ij", or "xy": the
 * first two axes change places. sparse: extent 1 along the others. */
KEEL_API int mlx_meshgrid(mlx_vector_array *res, const mlx_vector_array arrays, bool sparse,
                          const char *indexing, const mlx_stream s);
/* The inputs, each evaluated only when every dependency is; where a dependency failed they fail with its error. */
KEEL_API int mlx_depends(mlx_vector_array *res, const mlx_vector_array inputs,
                         const mlx_vector_array dependencies);

/* ---- parts of arrays, and arrays of parts ---- */
/* Per axis from start, in steps of the stride, before stop. start, stop and strides have one
 * entry per axis; bounds count from the end when negative and are then clamped to the axis;
 * strides may be negative, not 0. */
KEEL_API int mlx_slice(mlx_array *res, const mlx_array a, const int *start, size_t start_num,
                       const int *stop, size_t stop_num, const int *strides, size_t strides_num,
                       const mlx_stream s);
/* A slice of slice_size (one extent per axis of a) that begins at start[k] on axis axes[k], elsewhere at 0. start: integers, 0-d or
 * 1-d, on any device; a negative one counts from the end, once. Axes are distinct. When the operation runs, a start from which
 * the slice does not fit fails the result with KEEL_EINDEX. */
KEEL_API int mlx_slice_dynamic(mlx_array *res, const mlx_array a, const mlx_array start,
                               const int *axes, size_t axes_num, const int *slice_size,
                               size_t slice_size_num, const mlx_stream s);
/* src with update (converted to its dtype; missing leading axes have extent 1) written from start[k] on along axis axes[k], elsewhere
 * from 0; start as in mlx_slice_dynamic. */
KEEL_API int mlx_slice_update_dynamic(mlx_array *res, const mlx_array src, const mlx_array update,
                                      const mlx_array start, const int *axes, size_t axes_num,
                                      const mlx_stream s);
/* src with that slice replaced by update, which is converted to the dtype of src and broadcast
 * to the slice. */
KEEL_API int mlx_slice_update(mlx_array *res, const mlx_array src, const mlx_array update,
                              const int *start, size_t start_num, const int *stop, size_t stop_num,
                              const int *strides, size_t strides_num, const mlx_stream s);
/* src with that slice joined with update: their sum, product, larger or smaller elements. */
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
/* The arrays one behind the other along an axis, the other extents being equal; when no axis is
 * named, of any shapes: each is flattened first. Fails without arrays. */
KEEL_API int mlx_concatenate(mlx_array *res, const mlx_vector_array arrays, const mlx_stream s);
KEEL_API int mlx_concatenate_axis(mlx_array *res, const mlx_vector_array arrays, int axis,
                                  const mlx_stream s);
/* a in num_splits equal parts along an axis, whose extent must divide. */
KEEL_API int mlx_split(mlx_vector_array *res, const mlx_array a, int num_splits, int axis,
                       const mlx_stream s);
/* a cut before each of the indices: indices_num + 1 parts. */
KEEL_API int mlx_split_sections(mlx_vector_array *res, const mlx_array a, const int *indices,
                                size_t indices_num, int axis, const mlx_stream s);
/* Arrays of one shape along a new axis of the result (0 when none is named). Fails without
 * arrays. */
KEEL_API int mlx_stack(mlx_array *res, const mlx_vector_array arrays, const mlx_stream s);
KEEL_API int mlx_stack_axis(mlx_array *res, const mlx_vector_array arrays, int axis,
                            const mlx_stream s);

/* ---- element by element: operands meet in dtype and shape ---- */
KEEL_API int mlx_add(mlx_array *res, const mlx_array a, const mlx_array b, const mlx_stream s);
KEEL_API int mlx_subtract(mlx_array *res, const mlx_array a, const mlx_array b, const mlx_stream s);
KEEL_API int mlx_multiply(mlx_array *res, const mlx_array a, const mlx_array b, const mlx_stream s);
/* Integers and bools are divided in float32. */
KEEL_API int mlx_divide(mlx_array *res, const mlx_array a, const mlx_array b, const mlx_stream s);
/* NaN wins; -0.0 is below 0.0; complex numbers are ordered by real, then imaginary part. */
KEEL_API int mlx_maximum(mlx_array *res, const mlx_array a, const mlx_array b, const mlx_stream s);
KEEL_API int mlx_minimum(mlx_array *res, const mlx_array a, const mlx_array b, const mlx_stream s);
/* Fails for bool. */
KEEL_API int mlx_negative(mlx_array *res, const mlx_array a, const mlx_stream s);
/* Of complex64: float32. */
KEEL_API int mlx_abs(mlx_array *res, const mlx_array a, const mlx_stream s);
/* exp, log and sqrt compute integers and bools in float32. */
KEEL_API int mlx_exp(mlx_array *res, const mlx_array a, const mlx_stream s);
KEEL_API int mlx_log(mlx_array *res, const mlx_array a, const mlx_stream s);
KEEL_API int mlx_sqrt(mlx_array *res, const mlx_array a, const mlx_stream s);
KEEL_API int mlx_square(mlx_array *res, const mlx_array a, const mlx_stream s);

/* Comparisons give bool; any comparison with NaN but not_equal is false. */
KEEL_API int mlx_equal(mlx_array *res, const mlx_array a, const mlx_array b, const mlx_stream s);
KEEL_API int mlx_not_equal(mlx_array *res, const mlx_array a, const mlx_array b,
                           const mlx_stream s);
KEEL_API int mlx_less(mlx_array *res, const mlx_array a, const mlx_array b, const mlx_stream s);
KEEL_API int mlx_less_equal(mlx_array *res, const mlx_array a, const mlx_array b,
                            const mlx_stream s);
KEEL_API int mlx_greater(mlx_array *res, const mlx_array a, const mlx_array b, const mlx_stream s);
KEEL_API int mlx_greater_equal(mlx_array *res, const mlx_array a, const mlx_array b,
                               const mlx_stream s);
/* Logical operations give bool; an element counts as true when it is not 0 (NaN is true). */
KEEL_API int mlx_logical_and(mlx_array *res, const mlx_array a, const mlx_array b,
                             const mlx_stream s);
KEEL_API int mlx_logical_or(mlx_array *res, const mlx_array a, const mlx_array b,
                            const mlx_stream s);
KEEL_API int mlx_logical_not(mlx_array *res, const mlx_array a, const mlx_stream s);
/* x where condition is not 0, else y; x and y meet in one dtype, all three in one shape. */
KEEL_API int mlx_where(mlx_array *res, const mlx_array condition, const mlx_array x,
                       const mlx_array y, const mlx_stream s);

/* Elementary functions. Integers and bools are computed in float32, 16-bit floats in float32 with one rounding. Outside of where a real function is defined
 * the result is NaN. Complex ones have the branch cuts of C (C11, annex G): the value on a cut is that of the side which the sign of the zero names. */
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
/* To the bases 2 and 10. */
KEEL_API int mlx_log2(mlx_array *res, const mlx_array a, const mlx_stream s);
KEEL_API int mlx_log10(mlx_array *res, const mlx_array a, const mlx_stream s);
/* 1 / sqrt(a), 1 / a. */
KEEL_API int mlx_rsqrt(mlx_array *res, const mlx_array a, const mlx_stream s);
KEEL_API int mlx_reciprocal(mlx_array *res, const mlx_array a, const mlx_stream s);
/* From radians to degrees, and back. */
KEEL_API int mlx_degrees(mlx_array *res, const mlx_array a, const mlx_stream s);
KEEL_API int mlx_radians(mlx_array *res, const mlx_array a, const mlx_stream s);
/* Real numbers only from here to arctan2. exp(a) - 1, accurate for small a. */
KEEL_API int mlx_expm1(mlx_array *res, const mlx_array a, const mlx_stream s);
/* The error function 2 / sqrt(pi) * integral of exp(-t^2) from 0 to a, and its inverse, which is infinite at 1 and -1. */
KEEL_API int mlx_erf(mlx_array *res, const mlx_array a, const mlx_stream s);
KEEL_API int mlx_erfinv(mlx_array *res, const mlx_array a, const mlx_stream s);
/* 1 / (1 + exp(-a)). */
KEEL_API int mlx_sigmoid(mlx_array *res, const mlx_array a, const mlx_stream s);
/* The angle of the point (b, a), from -pi to pi. */
KEEL_API int mlx_arctan2(mlx_array *res, const mlx_array a, const mlx_array b, const mlx_stream s);
/* log(exp(a) + exp(b)), which does not overflow on the way. */
KEEL_API int mlx_logaddexp(mlx_array *res, const mlx_array a, const mlx_array b,
                           const mlx_stream s);
/* a to the power b, in the type in which they meet. Integers wrap; a negative power of an integer is 0, but of 1 and -1. bool: a, or true where b is false. */
KEEL_API int mlx_power(mlx_array *res, const mlx_array a, const mlx_array b, const mlx_stream s);

/* Integers and bools stay as they are; fail for complex64. */
KEEL_API int mlx_floor(mlx_array *res, const mlx_array a, const mlx_stream s);
KEEL_API int mlx_ceil(mlx_array *res, const mlx_array a, const mlx_stream s);
/* To that many decimals (tens, hundreds, ... when negative), halves to the even neighbour; both parts of complex64. 16-bit floats are scaled in
 * float32; a number that would overflow when scaled stays. Integers stay for decimals >= 0 and are rounded exactly below. */
KEEL_API int mlx_round(mlx_array *res, const mlx_array a, int decimals, const mlx_stream s);
/* -1, 0 or 1; NaN of NaN; of complex64 a / |a|, and 0 of 0. */
KEEL_API int mlx_sign(mlx_array *res, const mlx_array a, const mlx_stream s);
/* The quotient rounded down, and what is left, which has the sign of b: a = b * floor_divide + remainder. Integers: both are 0 where b is 0. Floats: floor of
 * the rounded quotient, the exact remainder. Fail for complex64. */
KEEL_API int mlx_floor_divide(mlx_array *res, const mlx_array a, const mlx_array b,
                              const mlx_stream s);
KEEL_API int mlx_remainder(mlx_array *res, const mlx_array a, const mlx_array b,
                           const mlx_stream s);
/* Both, in this order. */
KEEL_API int mlx_divmod(mlx_vector_array *res, const mlx_array a, const mlx_array b,
                        const mlx_stream s);
/* Of real numbers: these themselves, and 0 for imag. real and imag of complex64 are float32. */
KEEL_API int mlx_conjugate(mlx_array *res, const mlx_array a, const mlx_stream s);
KEEL_API int mlx_real(mlx_array *res, const mlx_array a, const mlx_stream s);
KEEL_API int mlx_imag(mlx_array *res, const mlx_array a, const mlx_stream s);

/* Bits of integers; of bools the logical operations. Fail for other dtypes. */
KEEL_API int mlx_bitwise_and(mlx_array *res, const mlx_array a, const mlx_array b,
                             const mlx_stream s);
KEEL_API int mlx_bitwise_or(mlx_array *res, const mlx_array a, const mlx_array b,
                            const mlx_stream s);
KEEL_API int mlx_bitwise_xor(mlx_array *res, const mlx_array a, const mlx_array b,
                             const mlx_stream s);
KEEL_API int mlx_bitwise_invert(mlx_array *res, const mlx_array a, const mlx_stream s);
/* By b bits; bools as uint8. A count of the width or more, or below 0, leaves 0, and -1 of a negative number shifted right. */
KEEL_API int mlx_left_shift(mlx_array *res, const mlx_array a, const mlx_array b,
                            const mlx_stream s);
KEEL_API int mlx_right_shift(mlx_array *res, const mlx_array a, const mlx_array b,
                             const mlx_stream s);
/* Floats to 8 bits, as uint8: sign, 4 bits of exponent, 3 of fraction (e4m3, without infinities). To nearest even; what is beyond 448 becomes 448; NaN is 0x7f. */
KEEL_API int mlx_to_fp8(mlx_array *res, const mlx_array x, const mlx_stream s);
/* And back, exactly, to the float type dtype. x is uint8. */
KEEL_API int mlx_from_fp8(mlx_array *res, const mlx_array x, mlx_dtype dtype, const mlx_stream s);

/* Questions, answered by bool. Of complex64: isnan and isinf for either part, isfinite for both, the others by a == infinity. */
KEEL_API int mlx_isnan(mlx_array *res, const mlx_array a, const mlx_stream s);
KEEL_API int mlx_isinf(mlx_array *res, const mlx_array a, const mlx_stream s);
KEEL_API int mlx_isfinite(mlx_array *res, const mlx_array a, const mlx_stream s);
KEEL_API int mlx_isposinf(mlx_array *res, const mlx_array a, const mlx_stream s);
KEEL_API int mlx_isneginf(mlx_array *res, const mlx_array a, const mlx_stream s);
/* |a - b| <= atol + rtol * |b|, or equal; NaN is close to NaN when equal_nan. Computed in float32 at least. */
KEEL_API int mlx_isclose(mlx_array *res, const mlx_array a, const mlx_array b, double rtol,
                         double atol, bool equal_nan, const mlx_stream s);
/* Whether all elements are; 0-d. */
KEEL_API int mlx_allclose(mlx_array *res, const mlx_array a, const mlx_array b, double rtol,
                          double atol, bool equal_nan, const mlx_stream s);
/* Whether the shapes are the same and all elements equal; 0-d. */
KEEL_API int mlx_array_equal(mlx_array *res, const mlx_array a, const mlx_array b, bool equal_nan,
                             const mlx_stream s);
/* NaN and infinities replaced; the infinities by the largest finite numbers where no value is given. Integers stay as they are; complex64 is
 * taken part by part where both values are given, and fails otherwise. */
KEEL_API int mlx_nan_to_num(mlx_array *res, const mlx_array a, float nan, mlx_optional_float posinf,
                            mlx_optional_float neginf, const mlx_stream s);
/* minimum(maximum(a, a_min), a_max), in the type in which all meet. One of the bounds may be left out (an empty handle). */
KEEL_API int mlx_clip(mlx_array *res, const mlx_array a, const mlx_array a_min,
                      const mlx_array a_max, const mlx_stream s);
/* a, through which no gradient passes. A view. */
KEEL_API int mlx_stop_gradient(mlx_array *res, const mlx_array a, const mlx_stream s);

/* ---- along axes: all of them, one, or a list ----
 * keepdims leaves a reduced axis in place with extent 1. A list of no axes reduces nothing. */
/* Bools and integers of less than 32 bits are summed in 32 bits, other dtypes in their own. */
KEEL_API int mlx_sum(mlx_array *res, const mlx_array a, bool keepdims, const mlx_stream s);
KEEL_API int mlx_sum_axis(mlx_array *res, const mlx_array a, int axis, bool keepdims,
                          const mlx_stream s);
KEEL_API int mlx_sum_axes(mlx_array *res, const mlx_array a, const int *axes, size_t axes_num,
                          bool keepdims, const mlx_stream s);
/* Integers and bools in float32. NaN of no elements. */
KEEL_API int mlx_mean(mlx_array *res, const mlx_array a, bool keepdims, const mlx_stream s);
KEEL_API int mlx_mean_axis(mlx_array *res, const mlx_array a, int axis, bool keepdims,
                           const mlx_stream s);
KEEL_API int mlx_mean_axes(mlx_array *res, const mlx_array a, const int *axes, size_t axes_num,
                           bool keepdims, const mlx_stream s);
/* As maximum and minimum. Fail for no elements. */
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
/* The product, typed like the sum; of no elements: 1. */
KEEL_API int mlx_prod(mlx_array *res, const mlx_array a, bool keepdims, const mlx_stream s);
KEEL_API int mlx_prod_axis(mlx_array *res, const mlx_array a, int axis, bool keepdims,
                           const mlx_stream s);
KEEL_API int mlx_prod_axes(mlx_array *res, const mlx_array a, const int *axes, size_t axes_num,
                           bool keepdims, const mlx_stream s);
/* Whether all elements are not 0, as bool (NaN is not 0); of no elements: true. */
KEEL_API int mlx_all(mlx_array *res, const mlx_array a, bool keepdims, const mlx_stream s);
KEEL_API int mlx_all_axis(mlx_array *res, const mlx_array a, int axis, bool keepdims,
                          const mlx_stream s);
KEEL_API int mlx_all_axes(mlx_array *res, const mlx_array a, const int *axes, size_t axes_num,
                          bool keepdims, const mlx_stream s);
/* Whether any element is not 0; of no elements: false. */
KEEL_API int mlx_any(mlx_array *res, const mlx_array a, bool keepdims, const mlx_stream s);
KEEL_API int mlx_any_axis(mlx_array *res, const mlx_array a, int axis, bool keepdims,
                          const mlx_stream s);
KEEL_API int mlx_any_axes(mlx_array *res, const mlx_array a, const int *axes, size_t axes_num,
                          bool keepdims, const mlx_stream s);
/* log(sum(exp(a))), without overflow on the way. Integers and bools in float32; 16-bit floats are computed in
 * float32. NaN gives NaN, else inf gives inf; of no elements, or of nothing but -inf: -inf. */
KEEL_API int mlx_logsumexp(mlx_array *res, const mlx_array a, bool keepdims, const mlx_stream s);
KEEL_API int mlx_logsumexp_axis(mlx_array *res, const mlx_array a, int axis, bool keepdims,
                                const mlx_stream s);
KEEL_API int mlx_logsumexp_axes(mlx_array *res, const mlx_array a, const int *axes, size_t axes_num,
                                bool keepdims, const mlx_stream s);
/* The variance: the mean of the squared distances from the mean, their sum divided by max(n - ddof, 0). It is never
 * negative. Integers and bools in float32; complex64 gives float32. */
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
/* The middle element in order, of an even number the mean of the middle two; NaN if one is among them. Integers and
 * bools in float32. Fails for no elements; a list of no axes changes nothing but the dtype. */
KEEL_API int mlx_median(mlx_array *res, const mlx_array a, const int *axes, size_t axes_num,
                        bool keepdims, const mlx_stream s);
/* Where the largest or smallest element is, in uint32: the first of equal ones; the first NaN if
 * there is one. Without an axis: the flat row-major position. Fail for no elements. */
KEEL_API int mlx_argmax(mlx_array *res, const mlx_array a, bool keepdims, const mlx_stream s);
KEEL_API int mlx_argmax_axis(mlx_array *res, const mlx_array a, int axis, bool keepdims,
                             const mlx_stream s);
KEEL_API int mlx_argmin(mlx_array *res, const mlx_array a, bool keepdims, const mlx_stream s);
KEEL_API int mlx_argmin_axis(mlx_array *res, const mlx_array a, int axis, bool keepdims,
                             const mlx_stream s);
/* Integers and bools in float32. 16-bit floats are computed in float32, with or without
 * `precise`. */
KEEL_API int mlx_softmax(mlx_array *res, const mlx_array a, bool precise, const mlx_stream s);
KEEL_API int mlx_softmax_axis(mlx_array *res, const mlx_array a, int axis, bool precise,
                              const mlx_stream s);
KEEL_API int mlx_softmax_axes(mlx_array *res, const mlx_array a, const int *axes, size_t axes_num,
                              bool precise, const mlx_stream s);

/* ---- cumulative, along one axis ----
 * Element i is what the elements up to i give, with reverse those from i on; without inclusive element i is left out, and
 * where nothing is left stands 0, 1, the lowest value (the highest for cummin), or -inf. The dtype stays; bools
 * are summed in int32; logcumsumexp takes integers and bools to float32. 16-bit floats are computed in float32 and
 * rounded when stored. NaN stays NaN from there on. 0-d arrays have no axis. */
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

/* ---- order: ascending, equal elements in their order, NaN last; without an axis: of all
 * elements, flat ---- */
KEEL_API int mlx_sort(mlx_array *res, const mlx_array a, const mlx_stream s);
KEEL_API int mlx_sort_axis(mlx_array *res, const mlx_array a, int axis, const mlx_stream s);
/* The positions in that order, in uint32. */
KEEL_API int mlx_argsort(mlx_array *res, const mlx_array a, const mlx_stream s);
KEEL_API int mlx_argsort_axis(mlx_array *res, const mlx_array a, int axis, const mlx_stream s);
/* The elements in an order in which the one at kth (negative: from the end) is where sorting would put it, none
 * before it is larger and none behind it smaller; NaN are the largest. argpartition: their positions, in uint32.
 * Fails when kth is outside. */
KEEL_API int mlx_partition(mlx_array *res, const mlx_array a, int kth, const mlx_stream s);
KEEL_API int mlx_partition_axis(mlx_array *res, const mlx_array a, int kth, int axis,
                                const mlx_stream s);
KEEL_API int mlx_argpartition(mlx_array *res, const mlx_array a, int kth, const mlx_stream s);
KEEL_API int mlx_argpartition_axis(mlx_array *res, const mlx_array a, int kth, int axis,
                                   const mlx_stream s);
/* The k largest elements, ascending. Fails when k is negative or above the extent. */
KEEL_API int mlx_topk(mlx_array *res, const mlx_array a, int k, const mlx_stream s);
KEEL_API int mlx_topk_axis(mlx_array *res, const mlx_array a, int k, int axis, const mlx_stream s);

/* ---- products ---- */
/* Matrix product over the last two axes, the others broadcast; a 1-d operand is a row on the
 * left, a column on the right, and its axis drops out. The operands meet in a float or complex
 * dtype. */
KEEL_API int mlx_matmul(mlx_array *res, const mlx_array a, const mlx_array b, const mlx_stream s);

/* Element (i, j) is a[i] * b[j]; both are taken flat. */
KEEL_API int mlx_outer(mlx_array *res, const mlx_array a, const mlx_array b, const mlx_stream s);
/* The sum of products over the last axis of both, which has one extent; the axes of a, then those of b stay. With a 0-d operand: the product.
 * Dtypes as for matmul. */
KEEL_API int mlx_inner(mlx_array *res, const mlx_array a, const mlx_array b, const mlx_stream s);
/* Every element of a times all of b, laid out as blocks; the shapes are aligned at the last axis. */
KEEL_API int mlx_kron(mlx_array *res, const mlx_array a, const mlx_array b, const mlx_stream s);
/* The sum of products over pairs of axes, axes_a[i] with axes_b[i]; the other axes of a, then those of b stay. Dtypes as for matmul. */
KEEL_API int mlx_tensordot(mlx_array *res, const mlx_array a, const mlx_array b, const int *axes_a,
                           size_t axes_a_num, const int *axes_b, size_t axes_b_num,
                           const mlx_stream s);
/* Over the last `axis` axes of a and the first `axis` of b. */
KEEL_API int mlx_tensordot_axis(mlx_array *res, const mlx_array a, const mlx_array b, int axis,
                                const mlx_stream s);
/* alpha * (a @ b) + beta * c; c broadcasts to the shape of the product. All three meet in a float or complex dtype; 16-bit products are added in float32. With
 * beta 0 c is not read. */
KEEL_API int mlx_addmm(mlx_array *res, const mlx_array c, const mlx_array a, const mlx_array b,
                       float alpha, float beta, const mlx_stream s);
/* The last axis times a Hadamard matrix (entries 1 and -1, orthogonal rows) and scale, which is 1 / sqrt(n) when left out. n is m * 2^k with m one
 * of 1, 12, 20, 28: Sylvester's matrix, or that of m with Sylvester's in place of its ones. Integers and bools in float32,
 * but for n = 1 and the factor 1, which change nothing; fails for complex64. */
KEEL_API int mlx_hadamard_transform(mlx_array *res, const mlx_array a, mlx_optional_float scale,
                                    const mlx_stream s);

/* ---- reading at indices ---- Indices are integers. Negative ones count from the end of their
 * axis. One that is outside fails the result, with the index, the axis and its size in the
 * error; it is never read. */
/* indices: one array per entry of axes; they broadcast to one shape. Each position of that gives
 * a block of a of slice_sizes (one per axis of a) that starts at the indices along `axes` and at
 * 0 elsewhere. Shape: the indices' shape, then slice_sizes. */
KEEL_API int mlx_gather(mlx_array *res, const mlx_array a, const mlx_vector_array indices,
                        const int *axes, size_t axes_num, const int *slice_sizes,
                        size_t slice_sizes_num, const mlx_stream s);
/* With one array of indices, along one axis. */
KEEL_API int mlx_gather_single(mlx_array *res, const mlx_array a, const mlx_array indices, int axis,
                               const int *slice_sizes, size_t slice_sizes_num, const mlx_stream s);
/* The elements at flat row-major positions; the shape is that of indices. */
KEEL_API int mlx_take(mlx_array *res, const mlx_array a, const mlx_array indices,
                      const mlx_stream s);
/* The shape of a, with the axis replaced by the shape of indices. */
KEEL_API int mlx_take_axis(mlx_array *res, const mlx_array a, const mlx_array indices, int axis,
                           const mlx_stream s);
/* One index per element: res[.., i, ..] = a[.., indices[.., i, ..], ..]. indices has the rank of
 * a; the axes but `axis` broadcast. */
KEEL_API int mlx_take_along_axis(mlx_array *res, const mlx_array a, const mlx_array indices,
                                 int axis, const mlx_stream s);

/* ---- writing at indices ---- The result is a copy of a, changed. Indices as above; one that is
 * outside fails the result. Values are converted to the dtype of a. */
/* a with a[.., indices[.., i, ..], ..] = values[.., i, ..]; of several values for one place the
 * last in row-major order stays. */
KEEL_API int mlx_put_along_axis(mlx_array *res, const mlx_array a, const mlx_array indices,
                                const mlx_array values, int axis, const mlx_stream s);
/* The same, adding. */
KEEL_API int mlx_scatter_add_axis(mlx_array *res, const mlx_array a, const mlx_array indices,
                                  const mlx_array values, int axis, const mlx_stream s);
/* The inverse of gather: updates has the indices' common shape, then one extent per axis of a;
 * each block is put where gather would read it. Of several updates for one place the last in
 * row-major order stays. */
KEEL_API int mlx_scatter(mlx_array *res, const mlx_array a, const mlx_vector_array indices,
                         const mlx_array updates, const int *axes, size_t axes_num,
                         const mlx_stream s);
/* With one array of indices, along one axis. */
KEEL_API int mlx_scatter_single(mlx_array *res, const mlx_array a, const mlx_array indices,
                                const mlx_array updates, int axis, const mlx_stream s);
/* The same, combining with what is there: every update counts, also several for one place. */
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
/* As maximum and minimum: NaN wins. */
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

/* a with src (converted) where mask is true. The mask is bool; its shape is that of a, or how that
 * begins. A src of at most as many axes as the mask leaves of a is broadcast to these and written at
 * every true place; one with one axis more has along it what is written at the true places, in row-major
 * order, each part being broadcast. With too few of these the result fails, further ones are not used;
 * a src of any other shape is an error. */
KEEL_API int mlx_masked_scatter(mlx_array *res, const mlx_array a, const mlx_array mask,
                                const mlx_array src, const mlx_stream s);

#ifdef __cplusplus
}
#endif
#endif
