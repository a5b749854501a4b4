/* select.h - which elements are true, reading by a mask, and indices outside of an array.
 *
 * For each function: *res is an empty handle, or a live one, which is overwritten; the caller frees
 * it. Arrays are borrowed; s is the stream on which the operation runs. An element is true when it
 * is not 0. The functions return 0, or 1 with an error raised (keel/error.h). Any thread may call
 * them. They run on every device, and what they read has gradients.
 *
 * How many elements are true depends on values, so such a function evaluates its mask. In a
 * function that is differentiated this works, since its arguments have values. In one that is
 * compiled, vectorised or exported they have none: KEEL_ETRACE, and a size must be given. The first
 * `size` true elements are taken then, in row-major order; where there are fewer, fill_value stands
 * in the places that are left. size -1: as many as there are. */
#ifndef KEEL_SELECT_H
#define KEEL_SELECT_H

#include <stdint.h>

#include "keel/export.h"
#include "mlx/c/array.h"
#include "mlx/c/stream.h"
#include "mlx/c/vector.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The positions of the true elements of a, flattened: int32, of shape (n,). KEEL_EARG: an empty
 * handle, or a size below -1. KEEL_ELIMIT: more than 2^31 - 1 elements. */
KEEL_API int keel_flatnonzero(mlx_array *res, const mlx_array a, int size, int fill_value,
                              const mlx_stream s);
/* For each axis of a, one or more, the indices of the true elements along it: int32, of shape (n,)
 * each. fill_values: one for each axis, or NULL for 0. Else as keel_flatnonzero. */
KEEL_API int keel_nonzero(mlx_vector_array *res, const mlx_array a, int size,
                          const int *fill_values /* may be null */, size_t fill_values_num,
                          const mlx_stream s);
/* The same as one array of shape (n, axes of a). a may be 0-d. */
KEEL_API int keel_argwhere(mlx_array *res, const mlx_array a, int size, int fill_value,
                           const mlx_stream s);
/* How many elements are true along the axes: int32. Lazy. KEEL_EAXIS. */
KEEL_API int keel_count_nonzero(mlx_array *res, const mlx_array a, const int *axes, size_t axes_num,
                                bool keepdims, const mlx_stream s);
/* a[mask], as NumPy: mask has the extents of the first axes of a, one or more; the result has shape
 * (n, other axes of a), and the gradient goes back to the elements read. With a size the rows that
 * are left are copies of the first one of a. KEEL_ESHAPE: another mask. */
KEEL_API int keel_masked_select(mlx_array *res, const mlx_array a, const mlx_array mask, int size,
                                const mlx_stream s);

/* The meaning of an index outside of an axis of n elements. Indices from -n to -1 count from the
 * end where nothing else is said. */
typedef enum keel_take_mode {
    KEEL_TAKE_ERROR, /* KEEL_EINDEX, when the operation runs */
    KEEL_TAKE_CLIP,  /* the nearest index from 0 to n - 1; a negative one is 0 */
    KEEL_TAKE_WRAP,  /* the index modulo n */
    KEEL_TAKE_FILL   /* fill_value, which has no gradient */
} keel_take_mode;

/* mlx_take_axis, and mlx_take where axis is NULL (of a, flattened), with a mode. fill_value: 0-d,
 * converted to the dtype of a; an empty handle stands for NaN in a float or complex dtype, else 0.
 * KEEL_EINDEX: clip and wrap of an empty axis with indices. KEEL_EARG: an unknown mode. */
KEEL_API int keel_take(mlx_array *res, const mlx_array a, const mlx_array indices,
                       const int *axis /* may be null */, keel_take_mode mode,
                       const mlx_array fill_value /* may be null */, const mlx_stream s);
/* mlx_take_along_axis with a mode. */
KEEL_API int keel_take_along_axis(mlx_array *res, const mlx_array a, const mlx_array indices,
                                  int axis, keel_take_mode mode,
                                  const mlx_array fill_value /* may be null */, const mlx_stream s);

#ifdef __cplusplus
}
#endif

#endif
