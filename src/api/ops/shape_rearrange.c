/* shape_rearrange.c - mlx/c/ops.h: elements that are repeated or moved. */
#include "api/ops/api_ops.h"

int mlx_pad(mlx_array *res, const mlx_array a, const int *axes, size_t axes_num,
            const int *low_pad_size, size_t low_pad_size_num, const int *high_pad_size,
            size_t high_pad_size_num, const mlx_array pad_value, const char *mode,
            const mlx_stream s) {
    struct kl_call c = kl_call_begin(__func__, res);
    struct kl_array *in = kl_in(&c, a, "a"), *out = NULL;
    struct kl_stream *on = kl_in_stream(&c, s);
    if (!c.err)
        kl_pad(&out, in, axes, axes_num, low_pad_size, low_pad_size_num, high_pad_size,
               high_pad_size_num, kl_in_optional(pad_value), mode, on, &c.err);
    return kl_call_end(&c, res, out);
}

int mlx_pad_symmetric(mlx_array *res, const mlx_array a, int pad_width, const mlx_array pad_value,
                      const char *mode, const mlx_stream s) {
    struct kl_call c = kl_call_begin(__func__, res);
    struct kl_array *in = kl_in(&c, a, "a"), *out = NULL;
    struct kl_stream *on = kl_in_stream(&c, s);
    if (!c.err) kl_pad_symmetric(&out, in, pad_width, kl_in_optional(pad_value), mode, on, &c.err);
    return kl_call_end(&c, res, out);
}

int mlx_tile(mlx_array *res, const mlx_array arr, const int *reps, size_t reps_num,
             const mlx_stream s) {
    return kl_api_unary_ints(__func__, kl_tile, res, arr, reps, reps_num, s);
}

int mlx_repeat(mlx_array *res, const mlx_array arr, int repeats, const mlx_stream s) {
    return kl_api_unary_int(__func__, kl_repeat, res, arr, repeats, s);
}

int mlx_repeat_axis(mlx_array *res, const mlx_array arr, int repeats, int axis,
                    const mlx_stream s) {
    return kl_api_unary_int2(__func__, kl_repeat_axis, res, arr, repeats, axis, s);
}

int mlx_roll(mlx_array *res, const mlx_array a, const int *shift, size_t shift_num,
             const mlx_stream s) {
    return kl_api_unary_ints(__func__, kl_roll, res, a, shift, shift_num, s);
}

int mlx_roll_axis(mlx_array *res, const mlx_array a, const int *shift, size_t shift_num, int axis,
                  const mlx_stream s) {
    struct kl_call c = kl_call_begin(__func__, res);
    struct kl_array *in = kl_in(&c, a, "a"), *out = NULL;
    struct kl_stream *on = kl_in_stream(&c, s);
    if (!c.err) kl_roll_axis(&out, in, shift, shift_num, axis, on, &c.err);
    return kl_call_end(&c, res, out);
}

int mlx_roll_axes(mlx_array *res, const mlx_array a, const int *shift, size_t shift_num,
                  const int *axes, size_t axes_num, const mlx_stream s) {
    struct kl_call c = kl_call_begin(__func__, res);
    struct kl_array *in = kl_in(&c, a, "a"), *out = NULL;
    struct kl_stream *on = kl_in_stream(&c, s);
    if (!c.err) kl_roll_axes(&out, in, shift, shift_num, axes, axes_num, on, &c.err);
    return kl_call_end(&c, res, out);
}

int mlx_meshgrid(mlx_vector_array *res, const mlx_vector_array arrays, bool sparse,
                 const char *indexing, const mlx_stream s) {
    struct kl_call c = kl_call_begin(__func__, res);
    const struct kl_vec *in = kl_in_vec(&c, arrays.ctx, "arrays");
    struct kl_stream *on = kl_in_stream(&c, s);
    struct kl_array **outs = NULL;
    size_t n = 0;
    if (!c.err) kl_meshgrid(&outs, &n, kl_vec_array_items(in), in->n, sparse, indexing, on, &c.err);
    return kl_call_end_list(&c, res, outs, n);
}
