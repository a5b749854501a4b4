/* transforms.h - what is done to whole graphs of arrays. */
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

/* Hands everything that the outputs need to their streams and returns; nothing runs on the
 * caller. Fails only when the vector is empty as a handle or nothing could be handed over: then
 * no array has changed. Failures of operations are reported by the arrays that they reach, when
 * these are read. */
KEEL_API int mlx_async_eval(const mlx_vector_array outputs);
/* Evaluates the outputs and waits for them. When several fail, the error is that of the first in
 * the vector, reported after all have settled; the others are readable. An empty vector is fine. */
KEEL_API int mlx_eval(const mlx_vector_array outputs);

#ifdef __cplusplus
}
#endif
#endif
