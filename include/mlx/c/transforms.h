/* transforms.h - the evaluation of whole graphs of arrays. */
#ifndef MLX_TRANSFORMS_H
#define MLX_TRANSFORMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "keel/export.h"
#include "mlx/c/vector.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Submits everything that the outputs need to the streams, and returns; nothing runs on the calling
 * thread. Fails only when the handle of the vector is empty or nothing could be submitted; then no
 * array has changed. A failure of an operation is reported by the arrays that depend on it, when
 * these are read. */
KEEL_API int mlx_async_eval(const mlx_vector_array outputs);
/* Evaluates the outputs and waits for them. When several outputs fail, the error is that of the
 * first one in the vector, and it is reported after all outputs have settled; the other outputs can
 * be read. A vector without elements is allowed. */
KEEL_API int mlx_eval(const mlx_vector_array outputs);

#ifdef __cplusplus
}
#endif
#endif
