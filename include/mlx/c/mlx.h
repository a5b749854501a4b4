/* mlx.h - the whole API.
 *
 * These rules hold for every function unless it says otherwise:
 * - Functions that return int give 0 when they succeed. On failure results are untouched, the
 *   error handler is called (error.h) and the value is 1. The value 2 means "not found" or "end"
 *   and calls no handler.
 * - Handles (mlx_array, mlx_stream, ...) are structs with one pointer; NULL means empty. A handle
 *   from a *_new function or a result parameter belongs to the caller and goes back through the
 *   *_free of its type; freeing an empty handle is fine.
 * - A result parameter points to an empty handle, or to a live one, which is overwritten in
 *   place and drops what it held; it may be one of the inputs. Inputs are never consumed.
 * - Any thread may call; one handle must not be overwritten or freed by one thread while another
 *   uses it. */
#ifndef MLX_MLX_H
#define MLX_MLX_H

#include "mlx/c/array.h"
#include "mlx/c/closure.h"
#include "mlx/c/compile.h"
#include "mlx/c/cuda.h"
#include "mlx/c/device.h"
#include "mlx/c/distributed.h"
#include "mlx/c/distributed_group.h"
#include "mlx/c/error.h"
#include "mlx/c/export.h"
#include "mlx/c/fast.h"
#include "mlx/c/fft.h"
#include "mlx/c/graph_utils.h"
#include "mlx/c/half.h"
#include "mlx/c/io.h"
#include "mlx/c/io_types.h"
#include "mlx/c/linalg.h"
#include "mlx/c/map.h"
#include "mlx/c/memory.h"
#include "mlx/c/metal.h"
#include "mlx/c/ops.h"
#include "mlx/c/optional.h"
#include "mlx/c/random.h"
#include "mlx/c/stream.h"
#include "mlx/c/string.h"
#include "mlx/c/transforms.h"
#include "mlx/c/transforms_impl.h"
#include "mlx/c/vector.h"
#include "mlx/c/version.h"

#endif
