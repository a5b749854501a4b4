/* api_ops_products.c - mlx/c/ops.h: products that are composed of other operations. */
#include "api/api_ops.h"

int mlx_outer(mlx_array *res, const mlx_array a, const mlx_array b, const mlx_stream s) {
    return kl_api_binary(__func__, kl_outer, res, a, b, s);
}

int mlx_inner(mlx_array *res, const mlx_array a, const mlx_array b, const mlx_stream s) {
    return kl_api_binary(__func__, kl_inner, res, a, b, s);
}

int mlx_kron(mlx_array *res, const mlx_array a, const mlx_array b, const mlx_stream s) {
    return kl_api_binary(__func__, kl_kron, res, a, b, s);
}

int mlx_tensordot(mlx_array *res, const mlx_array a, const mlx_array b, const int *axes_a,
                  size_t axes_a_num, const int *axes_b, size_t axes_b_num, const mlx_stream s) {
    struct kl_call c = kl_call_begin(__func__, res);
    struct kl_array *x = kl_in(&c, a, "a"), *y = kl_in(&c, b, "b"), *out = NULL;
    struct kl_stream *on = kl_in_stream(&c, s);
    if (!c.err) kl_tensordot(&out, x, y, axes_a, axes_a_num, axes_b, axes_b_num, on, &c.err);
    return kl_call_end(&c, res, out);
}

int mlx_tensordot_axis(mlx_array *res, const mlx_array a, const mlx_array b, int axis,
                       const mlx_stream s) {
    struct kl_call c = kl_call_begin(__func__, res);
    struct kl_array *x = kl_in(&c, a, "a"), *y = kl_in(&c, b, "b"), *out = NULL;
    struct kl_stream *on = kl_in_stream(&c, s);
    if (!c.err) kl_tensordot_axis(&out, x, y, axis, on, &c.err);
    return kl_call_end(&c, res, out);
}

int mlx_addmm(mlx_array *res, const mlx_array c, const mlx_array a, const mlx_array b, float alpha,
              float beta, const mlx_stream s) {
    struct kl_call call = kl_call_begin(__func__, res);
    struct kl_array *added = kl_in(&call, c, "c"), *x = kl_in(&call, a, "a");
    struct kl_array *y = kl_in(&call, b, "b"), *out = NULL;
    struct kl_stream *on = kl_in_stream(&call, s);
    if (!call.err) kl_addmm(&out, added, x, y, alpha, beta, on, &call.err);
    return kl_call_end(&call, res, out);
}

int mlx_einsum(mlx_array *res, const char *subscripts, const mlx_vector_array operands,
               const mlx_stream s) {
    struct kl_call c = kl_call_begin(__func__, res);
    const struct kl_vec *in = kl_in_vec(&c, operands.ctx, "operands");
    struct kl_stream *on = kl_in_stream(&c, s);
    struct kl_array *out = NULL;
    if (!c.err) kl_einsum(&out, subscripts, kl_vec_array_items(in), in->n, on, &c.err);
    return kl_call_end(&c, res, out);
}

int mlx_hadamard_transform(mlx_array *res, const mlx_array a, mlx_optional_float scale,
                           const mlx_stream s) {
    struct kl_call c = kl_call_begin(__func__, res);
    struct kl_array *in = kl_in(&c, a, "a"), *out = NULL;
    struct kl_stream *on = kl_in_stream(&c, s);
    if (!c.err) kl_hadamard_transform(&out, in, scale.has_value ? &scale.value : NULL, on, &c.err);
    return kl_call_end(&c, res, out);
}
