/* elementwise.c - mlx/c/ops.h and keel/ops.h: the element-wise functions of one and of two numbers
 * that base/op/op_list.def lists in its column `function`, silu_mul, where, and the matrix
 * product. */
#include <keel/ops.h>

#include "api/ops/api_ops.h"

#define KL_OP(...)
#define KL_UNARY(ID, name, builder, function, ...) KL_API_UNARY(function, builder)
#define KL_BINARY(ID, name, builder, function, ...) KL_API_BINARY(function, builder)
#include "base/op/op_list.def"

KL_API_BINARY(keel_silu_mul, kl_silu_mul)

int mlx_where(mlx_array *res, const mlx_array condition, const mlx_array x, const mlx_array y,
              const mlx_stream s) {
    struct kl_call c = kl_call_begin(__func__, res);
    struct kl_array *which = kl_in(&c, condition, "condition"), *out = NULL;
    struct kl_array *yes = kl_in(&c, x, "x"), *no = kl_in(&c, y, "y");
    struct kl_stream *on = kl_in_stream(&c, s);
    if (!c.err) kl_where(&out, which, yes, no, on, &c.err);
    return kl_call_end(&c, res, out);
}
