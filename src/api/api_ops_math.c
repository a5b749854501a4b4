/* api_ops_math.c - mlx/c/ops.h: operations element by element, and the matrix product. */
#include "api/api_ops.h"

#define UNARY(FUNC, BUILD)                                            \
    int FUNC(mlx_array *res, const mlx_array a, const mlx_stream s) { \
        return kl_api_unary(__func__, BUILD, res, a, s);              \
    }
#define BINARY(FUNC, BUILD)                                                              \
    int FUNC(mlx_array *res, const mlx_array a, const mlx_array b, const mlx_stream s) { \
        return kl_api_binary(__func__, BUILD, res, a, b, s);                             \
    }

UNARY(mlx_negative, kl_negative)
UNARY(mlx_abs, kl_abs)
UNARY(mlx_exp, kl_exp)
UNARY(mlx_log, kl_log)
UNARY(mlx_sqrt, kl_sqrt)
UNARY(mlx_square, kl_square)
UNARY(mlx_logical_not, kl_logical_not)

BINARY(mlx_add, kl_add)
BINARY(mlx_subtract, kl_subtract)
BINARY(mlx_multiply, kl_multiply)
BINARY(mlx_divide, kl_divide)
BINARY(mlx_maximum, kl_maximum)
BINARY(mlx_minimum, kl_minimum)
BINARY(mlx_equal, kl_equal)
BINARY(mlx_not_equal, kl_not_equal)
BINARY(mlx_less, kl_less)
BINARY(mlx_less_equal, kl_less_equal)
BINARY(mlx_greater, kl_greater)
BINARY(mlx_greater_equal, kl_greater_equal)
BINARY(mlx_logical_and, kl_logical_and)
BINARY(mlx_logical_or, kl_logical_or)
BINARY(mlx_matmul, kl_matmul)

int mlx_where(mlx_array *res, const mlx_array condition, const mlx_array x, const mlx_array y,
              const mlx_stream s) {
    struct kl_call c = kl_call_begin(__func__, res);
    struct kl_array *which = kl_in(&c, condition, "condition"), *out = NULL;
    struct kl_array *yes = kl_in(&c, x, "x"), *no = kl_in(&c, y, "y");
    struct kl_stream *on = kl_in_stream(&c, s);
    if (!c.err) kl_where(&out, which, yes, no, on, &c.err);
    return kl_call_end(&c, res, out);
}
