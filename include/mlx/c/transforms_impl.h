/* transforms_impl.h - the two halves of vmap, from which a binding makes its own: trees of arrays, and
 * axes from the end, are its business. */
#ifndef MLX_TRANSFORMS_IMPL_H
#define MLX_TRANSFORMS_IMPL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "keel/export.h"
#include "mlx/c/closure.h"
#include "mlx/c/vector.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Calls fun once, with placeholders that have the shape and dtype of one lane: inputs[i] without its
 * axis in_axes[i], or all of it where in_axes[i] is -1. *res_0: the placeholders; *res_1: what fun
 * made of them. Placeholders have no value: evaluating what depends on one is KEEL_ETRACE. KEEL_EAXIS:
 * an axis that the input has not; KEEL_ESHAPE: inputs with different numbers of lanes; KEEL_EARG: no
 * input has lanes, or in_axes_num is not the number of inputs; KEEL_ECALLBACK: fun failed. */
KEEL_API int mlx_detail_vmap_trace(mlx_vector_array *res_0, mlx_vector_array *res_1,
                                   const mlx_closure fun, const mlx_vector_array inputs,
                                   const int *in_axes, size_t in_axes_num);
/* *res: the outputs for all lanes at once, with the lanes along out_axes[i], or without lanes where
 * out_axes[i] is -1 (KEEL_EAXIS: the output differs between lanes). s_inputs and s_outputs are what
 * mlx_detail_vmap_trace gave for inputs of these shapes and in_axes. Inputs without lanes, and arrays
 * that fun found elsewhere, are not copied for each lane. A random draw inside fun serves all lanes
 * unless its key has lanes. The result is an array like others: when an index is out of range in one
 * lane the whole array fails, and the message says which lane. KEEL_EUNSUPPORTED: an operation has no
 * form for all lanes. */
KEEL_API int mlx_detail_vmap_replace(mlx_vector_array *res, const mlx_vector_array inputs,
                                     const mlx_vector_array s_inputs,
                                     const mlx_vector_array s_outputs, const int *in_axes,
                                     size_t in_axes_num, const int *out_axes, size_t out_axes_num);

#ifdef __cplusplus
}
#endif
#endif
