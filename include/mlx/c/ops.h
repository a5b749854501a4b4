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
/* The arrays one behind the other along an axis (0 when none is named); the other extents are
 * equal. Fails without arrays. */
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
/* NaN and infinities replaced; the infinities by the largest finite numbers where no value is given. Integers stay as they are; fails for complex64. */
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

/* ---- order: ascending, equal elements in their order, NaN last; without an axis: of all
 * elements, flat ---- */
KEEL_API int mlx_sort(mlx_array *res, const mlx_array a, const mlx_stream s);
KEEL_API int mlx_sort_axis(mlx_array *res, const mlx_array a, int axis, const mlx_stream s);
/* The positions in that order, in uint32. */
KEEL_API int mlx_argsort(mlx_array *res, const mlx_array a, const mlx_stream s);
KEEL_API int mlx_argsort_axis(mlx_array *res, const mlx_array a, int axis, const mlx_stream s);
/* The k largest elements, ascending. Fails when k is negative or above the extent. */
KEEL_API int mlx_topk(mlx_array *res, const mlx_array a, int k, const mlx_stream s);
KEEL_API int mlx_topk_axis(mlx_array *res, const mlx_array a, int k, int axis, const mlx_stream s);

/* ---- products ---- */
/* Matrix product over the last two axes, the others broadcast; a 1-d operand is a row on the
 * left, a column on the right, and its axis drops out. The operands meet in a float or complex
 * dtype. */
KEEL_API int mlx_matmul(mlx_array *res, const mlx_array a, const mlx_array b, const mlx_stream s);

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

#ifdef __cplusplus
}
#endif
#endif
