/* array.h - what a binding needs to know of arrays in a function that is traced for any shapes
 * (mlx_compile and mlx_export_function with shapeless).
 *
 * mlx_array_shape, _dim, _size, _nbytes and _strides tell extents to the caller, and such a trace
 * notes which were told: it is of use only where they are the same again. The functions below note
 * nothing. Any thread may call them; they raise no error, and an empty handle gives NULL or
 * false. */
#ifndef KEEL_ARRAY_H
#define KEEL_ARRAY_H

#include <stdbool.h>

#include "keel/export.h"
#include "mlx/c/array.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The extents, as mlx_array_shape gives them, for what does not become a part of the result: a
 * check that a replay makes again, a message. Borrowed from the array. */
KEEL_API const int *keel_array_shape_unread(const mlx_array arr);
/* Whether arr follows from an argument of such a trace: a replay may have other extents. */
KEEL_API bool keel_array_is_shapeless(const mlx_array arr);

#ifdef __cplusplus
}
#endif

#endif
