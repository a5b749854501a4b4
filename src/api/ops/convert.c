/* convert.c - mlx/c/ops.h: the same values in another layout or dtype. */
#include "api/ops/api_ops.h"

int mlx_copy(mlx_array *res, const mlx_array a, const mlx_stream s) {
    return kl_api_unary(__func__, kl_copy, res, a, s);
}

int mlx_contiguous(mlx_array *res, const mlx_array a, bool allow_col_major, const mlx_stream s) {
    struct kl_call c = kl_call_begin(__func__, res);
    struct kl_array *in = kl_in(&c, a, "a"), *out = NULL;
    struct kl_stream *on = kl_in_stream(&c, s);
    if (!c.err) kl_contiguous(&out, in, allow_col_major, on, &c.err);
    return kl_call_end(&c, res, out);
}

int mlx_astype(mlx_array *res, const mlx_array a, mlx_dtype dtype, const mlx_stream s) {
    return kl_api_unary_int(__func__, kl_astype, res, a, (int)dtype, s);
}
