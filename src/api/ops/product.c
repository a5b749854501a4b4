/* product.c - mlx/c/ops.h: products of matrices, and what is composed of them. */
#include "api/ops/api_ops.h"

KL_API_BINARY(mlx_matmul, kl_matmul)

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

int mlx_gather_mm(mlx_array *res, const mlx_array a, const mlx_array b, const mlx_array lhs_indices,
                  const mlx_array rhs_indices, bool sorted_indices, const mlx_stream s) {
    struct kl_call c = kl_call_begin(__func__, res);
    struct kl_array *x = kl_in(&c, a, "a"), *y = kl_in(&c, b, "b"), *out = NULL;
    struct kl_stream *on = kl_in_stream(&c, s);
    if (!c.err)
        kl_gather_mm(&out, x, y, kl_in_optional(lhs_indices), kl_in_optional(rhs_indices), on,
                     &c.err);
    return kl_call_end(&c, res, out);
}

int mlx_segmented_mm(mlx_array *res, const mlx_array a, const mlx_array b, const mlx_array segments,
                     const mlx_stream s) {
    struct kl_call c = kl_call_begin(__func__, res);
    struct kl_array *x = kl_in(&c, a, "a"), *y = kl_in(&c, b, "b");
    struct kl_array *parts = kl_in(&c, segments, "segments"), *out = NULL;
    struct kl_stream *on = kl_in_stream(&c, s);
    if (!c.err) kl_segmented_mm(&out, x, y, parts, on, &c.err);
    return kl_call_end(&c, res, out);
}

int mlx_block_masked_mm(mlx_array *res, const mlx_array a, const mlx_array b, int block_size,
                        const mlx_array mask_out, const mlx_array mask_lhs,
                        const mlx_array mask_rhs, const mlx_stream s) {
    struct kl_call c = kl_call_begin(__func__, res);
    struct kl_array *x = kl_in(&c, a, "a"), *y = kl_in(&c, b, "b"), *out = NULL;
    struct kl_stream *on = kl_in_stream(&c, s);
    if (!c.err)
        kl_block_masked_mm(&out, x, y, block_size, kl_in_optional(mask_out),
                           kl_in_optional(mask_lhs), kl_in_optional(mask_rhs), on, &c.err);
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
