/* shape.c - mlx/c/ops.h: making arrays, changing their shape, slicing and joining. */
#include "api/ops/api_ops.h"

/* ---- arrays from nothing ---- */
typedef int fill_fn(struct kl_array **out, const int *shape, size_t shape_num, int dtype,
                    struct kl_stream *s, struct kl_error **err);

static int fill(const char *func, fill_fn *build, mlx_array *res, const int *shape,
                size_t shape_num, mlx_dtype dtype, mlx_stream s) {
    struct kl_call c = kl_call_begin(func, res);
    struct kl_stream *on = kl_in_stream(&c, s);
    struct kl_array *out = NULL;
    if (!c.err) build(&out, shape, shape_num, (int)dtype, on, &c.err);
    return kl_call_end(&c, res, out);
}

int mlx_zeros(mlx_array *res, const int *shape, size_t shape_num, mlx_dtype dtype,
              const mlx_stream s) {
    return fill(__func__, kl_zeros, res, shape, shape_num, dtype, s);
}

int mlx_ones(mlx_array *res, const int *shape, size_t shape_num, mlx_dtype dtype,
             const mlx_stream s) {
    return fill(__func__, kl_ones, res, shape, shape_num, dtype, s);
}

int mlx_zeros_like(mlx_array *res, const mlx_array a, const mlx_stream s) {
    return kl_api_unary(__func__, kl_zeros_like, res, a, s);
}

int mlx_ones_like(mlx_array *res, const mlx_array a, const mlx_stream s) {
    return kl_api_unary(__func__, kl_ones_like, res, a, s);
}

int mlx_full(mlx_array *res, const int *shape, size_t shape_num, const mlx_array vals,
             mlx_dtype dtype, const mlx_stream s) {
    struct kl_call c = kl_call_begin(__func__, res);
    struct kl_array *with = kl_in(&c, vals, "vals"), *out = NULL;
    struct kl_stream *on = kl_in_stream(&c, s);
    if (!c.err) kl_full(&out, shape, shape_num, with, (int)dtype, on, &c.err);
    return kl_call_end(&c, res, out);
}

int mlx_full_like(mlx_array *res, const mlx_array a, const mlx_array vals, mlx_dtype dtype,
                  const mlx_stream s) {
    struct kl_call c = kl_call_begin(__func__, res);
    struct kl_array *like = kl_in(&c, a, "a"), *with = kl_in(&c, vals, "vals"), *out = NULL;
    struct kl_stream *on = kl_in_stream(&c, s);
    if (!c.err) kl_full_like(&out, like, with, (int)dtype, on, &c.err);
    return kl_call_end(&c, res, out);
}

int mlx_arange(mlx_array *res, double start, double stop, double step, mlx_dtype dtype,
               const mlx_stream s) {
    struct kl_call c = kl_call_begin(__func__, res);
    struct kl_stream *on = kl_in_stream(&c, s);
    struct kl_array *out = NULL;
    if (!c.err) kl_arange(&out, start, stop, step, (int)dtype, on, &c.err);
    return kl_call_end(&c, res, out);
}

/* ---- the same values in another layout or dtype ---- */
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

/* ---- shapes ---- */
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

/* ---- slices, joins and splits ---- */
int mlx_slice(mlx_array *res, const mlx_array a, const int *start, size_t start_num,
              const int *stop, size_t stop_num, const int *strides, size_t strides_num,
              const mlx_stream s) {
    struct kl_call c = kl_call_begin(__func__, res);
    struct kl_array *in = kl_in(&c, a, "a"), *out = NULL;
    struct kl_stream *on = kl_in_stream(&c, s);
    if (!c.err)
        kl_slice(&out, in, start, start_num, stop, stop_num, strides, strides_num, on, &c.err);
    return kl_call_end(&c, res, out);
}

int mlx_slice_update(mlx_array *res, const mlx_array src, const mlx_array update, const int *start,
                     size_t start_num, const int *stop, size_t stop_num, const int *strides,
                     size_t strides_num, const mlx_stream s) {
    struct kl_call c = kl_call_begin(__func__, res);
    struct kl_array *base = kl_in(&c, src, "src"), *with = kl_in(&c, update, "update");
    struct kl_stream *on = kl_in_stream(&c, s);
    struct kl_array *out = NULL;
    if (!c.err)
        kl_slice_update(&out, base, with, start, start_num, stop, stop_num, strides, strides_num,
                        on, &c.err);
    return kl_call_end(&c, res, out);
}

/* Joins a list of arrays; each of the two builders sets the axis. */
typedef int join_fn(struct kl_array **out, struct kl_array *const *arrays, size_t n,
                    struct kl_stream *s, struct kl_error **err);
typedef int join_axis_fn(struct kl_array **out, struct kl_array *const *arrays, size_t n, int axis,
                         struct kl_stream *s, struct kl_error **err);

static int join(const char *func, join_fn *build, join_axis_fn *build_axis, mlx_array *res,
                mlx_vector_array arrays, int axis, mlx_stream s) {
    struct kl_call c = kl_call_begin(func, res);
    const struct kl_vec *in = kl_in_vec(&c, arrays.ctx, "arrays");
    struct kl_stream *on = kl_in_stream(&c, s);
    struct kl_array *out = NULL;
    if (!c.err && build)
        build(&out, kl_vec_array_items(in), in->n, on, &c.err);
    else if (!c.err)
        build_axis(&out, kl_vec_array_items(in), in->n, axis, on, &c.err);
    return kl_call_end(&c, res, out);
}

int mlx_concatenate(mlx_array *res, const mlx_vector_array arrays, const mlx_stream s) {
    return join(__func__, kl_concatenate, NULL, res, arrays, 0, s);
}

int mlx_concatenate_axis(mlx_array *res, const mlx_vector_array arrays, int axis,
                         const mlx_stream s) {
    return join(__func__, NULL, kl_concatenate_axis, res, arrays, axis, s);
}

int mlx_stack(mlx_array *res, const mlx_vector_array arrays, const mlx_stream s) {
    return join(__func__, kl_stack, NULL, res, arrays, 0, s);
}

int mlx_stack_axis(mlx_array *res, const mlx_vector_array arrays, int axis, const mlx_stream s) {
    return join(__func__, NULL, kl_stack_axis, res, arrays, axis, s);
}

int mlx_split(mlx_vector_array *res, const mlx_array a, int num_splits, int axis,
              const mlx_stream s) {
    struct kl_call c = kl_call_begin(__func__, res);
    struct kl_array *in = kl_in(&c, a, "a"), **outs = NULL;
    struct kl_stream *on = kl_in_stream(&c, s);
    size_t n = 0;
    if (!c.err) kl_split(&outs, &n, in, num_splits, axis, on, &c.err);
    return kl_call_end_list(&c, res, outs, n);
}

int mlx_split_sections(mlx_vector_array *res, const mlx_array a, const int *indices,
                       size_t indices_num, int axis, const mlx_stream s) {
    struct kl_call c = kl_call_begin(__func__, res);
    struct kl_array *in = kl_in(&c, a, "a"), **outs = NULL;
    struct kl_stream *on = kl_in_stream(&c, s);
    size_t n = 0;
    if (!c.err) kl_split_sections(&outs, &n, in, indices, indices_num, axis, on, &c.err);
    return kl_call_end_list(&c, res, outs, n);
}
