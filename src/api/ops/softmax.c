/* softmax.c - mlx/c/ops.h: softmax, whose flag has the position of keepdims; keel/ops.h:
 * log_softmax. */
#include <keel/ops.h>

#include "api/ops/api_ops.h"
#include "base/op/op_params.h"
#include "ops/build/build.h"

int mlx_softmax(mlx_array *res, const mlx_array a, bool precise, const mlx_stream s) {
    return kl_api_reduce(__func__, kl_softmax, res, a, precise, s);
}

int mlx_softmax_axis(mlx_array *res, const mlx_array a, int axis, bool precise,
                     const mlx_stream s) {
    return kl_api_reduce_axis(__func__, kl_softmax_axis, res, a, axis, precise, s);
}

int mlx_softmax_axes(mlx_array *res, const mlx_array a, const int *axes, size_t axes_num,
                     bool precise, const mlx_stream s) {
    return kl_api_reduce_axes(__func__, kl_softmax_axes, res, a, axes, axes_num, precise, s);
}

int keel_log_softmax(mlx_array *res, const mlx_array a, int axis, const mlx_stream s) {
    return kl_api_make(__func__, KL_OP_LOG_SOFTMAX, KL_PARAMS_OF(axis, axis), res, a, s);
}
