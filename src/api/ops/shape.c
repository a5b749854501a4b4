/* shape.c - mlx/c/ops.h: views of other shapes. */
#include "api/ops/api_ops.h"

int mlx_reshape(mlx_array *res, const mlx_array a, const int *shape, size_t shape_num,
                const mlx_stream s) {
    return kl_api_unary_ints(__func__, kl_reshape, res, a, shape, shape_num, s);
}

int mlx_flatten(mlx_array *res, const mlx_array a, int start_axis, int end_axis,
                const mlx_stream s) {
    return kl_api_unary_int2(__func__, kl_flatten, res, a, start_axis, end_axis, s);
}

int mlx_transpose(mlx_array *res, const mlx_array a, const mlx_stream s) {
    return kl_api_unary(__func__, kl_transpose, res, a, s);
}

int mlx_transpose_axes(mlx_array *res, const mlx_array a, const int *axes, size_t axes_num,
                       const mlx_stream s) {
    return kl_api_unary_ints(__func__, kl_transpose_axes, res, a, axes, axes_num, s);
}

int mlx_swapaxes(mlx_array *res, const mlx_array a, int axis1, int axis2, const mlx_stream s) {
    return kl_api_unary_int2(__func__, kl_swapaxes, res, a, axis1, axis2, s);
}

int mlx_moveaxis(mlx_array *res, const mlx_array a, int source, int destination,
                 const mlx_stream s) {
    return kl_api_unary_int2(__func__, kl_moveaxis, res, a, source, destination, s);
}

int mlx_broadcast_to(mlx_array *res, const mlx_array a, const int *shape, size_t shape_num,
                     const mlx_stream s) {
    return kl_api_unary_ints(__func__, kl_broadcast_to, res, a, shape, shape_num, s);
}

int mlx_broadcast_arrays(mlx_vector_array *res, const mlx_vector_array inputs, const mlx_stream s) {
    struct kl_call c = kl_call_begin(__func__, res);
    const struct kl_vec *in = kl_in_vec(&c, inputs.ctx, "inputs");
    struct kl_stream *on = kl_in_stream(&c, s);
    struct kl_array **outs = NULL;
    size_t n = 0;
    if (!c.err) kl_broadcast_arrays(&outs, &n, kl_vec_array_items(in), in->n, on, &c.err);
    return kl_call_end_list(&c, res, outs, n);
}

int mlx_expand_dims(mlx_array *res, const mlx_array a, int axis, const mlx_stream s) {
    return kl_api_unary_int(__func__, kl_expand_dims, res, a, axis, s);
}

int mlx_expand_dims_axes(mlx_array *res, const mlx_array a, const int *axes, size_t axes_num,
                         const mlx_stream s) {
    return kl_api_unary_ints(__func__, kl_expand_dims_axes, res, a, axes, axes_num, s);
}

int mlx_squeeze(mlx_array *res, const mlx_array a, const mlx_stream s) {
    return kl_api_unary(__func__, kl_squeeze, res, a, s);
}

int mlx_squeeze_axis(mlx_array *res, const mlx_array a, int axis, const mlx_stream s) {
    return kl_api_unary_int(__func__, kl_squeeze_axis, res, a, axis, s);
}

int mlx_squeeze_axes(mlx_array *res, const mlx_array a, const int *axes, size_t axes_num,
                     const mlx_stream s) {
    return kl_api_unary_ints(__func__, kl_squeeze_axes, res, a, axes, axes_num, s);
}

/* ---- a least number of axes, one axis as several ---- */
int mlx_atleast_1d(mlx_array *res, const mlx_array a, const mlx_stream s) {
    return kl_api_unary(__func__, kl_atleast_1d, res, a, s);
}

int mlx_atleast_2d(mlx_array *res, const mlx_array a, const mlx_stream s) {
    return kl_api_unary(__func__, kl_atleast_2d, res, a, s);
}

int mlx_atleast_3d(mlx_array *res, const mlx_array a, const mlx_stream s) {
    return kl_api_unary(__func__, kl_atleast_3d, res, a, s);
}

int mlx_unflatten(mlx_array *res, const mlx_array a, int axis, const int *shape, size_t shape_num,
                  const mlx_stream s) {
    struct kl_call c = kl_call_begin(__func__, res);
    struct kl_array *in = kl_in(&c, a, "a"), *out = NULL;
    struct kl_stream *on = kl_in_stream(&c, s);
    if (!c.err) kl_unflatten(&out, in, axis, shape, shape_num, on, &c.err);
    return kl_call_end(&c, res, out);
}

int mlx_number_of_elements(mlx_array *res, const mlx_array a, const int *axes, size_t axes_num,
                           bool inverted, mlx_dtype dtype, const mlx_stream s) {
    struct kl_call c = kl_call_begin(__func__, res);
    struct kl_array *in = kl_in(&c, a, "a"), *out = NULL;
    struct kl_stream *on = kl_in_stream(&c, s);
    if (!c.err) kl_number_of_elements(&out, in, axes, axes_num, inverted, (int)dtype, on, &c.err);
    return kl_call_end(&c, res, out);
}

/* ---- views of memory ---- */
int mlx_as_strided(mlx_array *res, const mlx_array a, const int *shape, size_t shape_num,
                   const int64_t *strides, size_t strides_num, size_t offset, const mlx_stream s) {
    struct kl_call c = kl_call_begin(__func__, res);
    struct kl_array *in = kl_in(&c, a, "a"), *out = NULL;
    struct kl_stream *on = kl_in_stream(&c, s);
    if (!c.err) kl_as_strided(&out, in, shape, shape_num, strides, strides_num, offset, on, &c.err);
    return kl_call_end(&c, res, out);
}

int mlx_view(mlx_array *res, const mlx_array a, mlx_dtype dtype, const mlx_stream s) {
    return kl_api_unary_int(__func__, kl_view, res, a, (int)dtype, s);
}

int mlx_diagonal(mlx_array *res, const mlx_array a, int offset, int axis1, int axis2,
                 const mlx_stream s) {
    struct kl_call c = kl_call_begin(__func__, res);
    struct kl_array *in = kl_in(&c, a, "a"), *out = NULL;
    struct kl_stream *on = kl_in_stream(&c, s);
    if (!c.err) kl_diagonal(&out, in, offset, axis1, axis2, on, &c.err);
    return kl_call_end(&c, res, out);
}
