/* api_ops_math.c - mlx/c/ops.h: operations element by element, and the matrix product. */
#include "api/api_ops.h"

KL_API_UNARY(mlx_negative, kl_negative)
KL_API_UNARY(mlx_abs, kl_abs)
KL_API_UNARY(mlx_exp, kl_exp)
KL_API_UNARY(mlx_log, kl_log)
KL_API_UNARY(mlx_sqrt, kl_sqrt)
KL_API_UNARY(mlx_square, kl_square)
KL_API_UNARY(mlx_logical_not, kl_logical_not)

KL_API_BINARY(mlx_add, kl_add)
KL_API_BINARY(mlx_subtract, kl_subtract)
KL_API_BINARY(mlx_multiply, kl_multiply)
KL_API_BINARY(mlx_divide, kl_divide)
KL_API_BINARY(mlx_maximum, kl_maximum)
KL_API_BINARY(mlx_minimum, kl_minimum)
KL_API_BINARY(mlx_equal, kl_equal)
KL_API_BINARY(mlx_not_equal, kl_not_equal)
KL_API_BINARY(mlx_less, kl_less)
KL_API_BINARY(mlx_less_equal, kl_less_equal)
KL_API_BINARY(mlx_greater, kl_greater)
KL_API_BINARY(mlx_greater_equal, kl_greater_equal)
KL_API_BINARY(mlx_logical_and, kl_logical_and)
KL_API_BINARY(mlx_logical_or, kl_logical_or)
KL_API_BINARY(mlx_matmul, kl_matmul)

int mlx_where(mlx_array *res, const mlx_array condition, const mlx_array x, const mlx_array y,
              const mlx_stream s) {
    struct kl_call c = kl_call_begin(__func__, res);
    struct kl_array *which = kl_in(&c, condition, "condition"), *out = NULL;
    struct kl_array *yes = kl_in(&c, x, "x"), *no = kl_in(&c, y, "y");
    struct kl_stream *on = kl_in_stream(&c, s);
    if (!c.err) kl_where(&out, which, yes, no, on, &c.err);
    return kl_call_end(&c, res, out);
}
