/* shape_rearrange.c - mlx/c/ops.h: views by strides and bits, elements repeated and moved,
 * matrices by their diagonals, windows. */
#include "api/ops/api_ops.h"
#include "runtime/device.h"

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

/* ---- elements that are repeated or moved ---- */
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

/* The stream of a call that has no stream argument: the stream on which one of the inputs will be
 * made, or the default stream. */
static struct kl_stream *stream_for(const struct kl_vec *inputs, struct kl_error **err) {
    struct kl_stream *s = NULL;
    enum kl_device_type type;
    int index;
    for (size_t i = 0; i < inputs->n && !s; i++) s = kl_array_stream(kl_vec_array_items(inputs)[i]);
    if (s) return s;
    kl_device_default(&type, &index);
    return kl_stream_default(&s, type, index, err) ? NULL : s;
}

int mlx_depends(mlx_vector_array *res, const mlx_vector_array inputs,
                const mlx_vector_array dependencies) {
    struct kl_call c = kl_call_begin(__func__, res);
    const struct kl_vec *in = kl_in_vec(&c, inputs.ctx, "inputs");
    const struct kl_vec *on = kl_in_vec(&c, dependencies.ctx, "dependencies");
    struct kl_array **outs = NULL;
    size_t n = 0;
    struct kl_stream *s = c.err ? NULL : stream_for(in, &c.err);
    if (!c.err)
        kl_depends(&outs, &n, kl_vec_array_items(in), in->n, kl_vec_array_items(on), on->n, s,
                   &c.err);
    return kl_call_end_list(&c, res, outs, n);
}

/* ---- slices combined with an update, and places that a mask names ---- */
static int slice_join(const char *func, kl_slice_join_fn *build, mlx_array *res, mlx_array src,
                      mlx_array update, const int *start, size_t start_num, const int *stop,
                      size_t stop_num, const int *strides, size_t strides_num, mlx_stream s) {
    struct kl_call c = kl_call_begin(func, res);
    struct kl_array *base = kl_in(&c, src, "src"), *with = kl_in(&c, update, "update");
    struct kl_stream *on = kl_in_stream(&c, s);
    struct kl_array *out = NULL;
    if (!c.err)
        build(&out, base, with, start, start_num, stop, stop_num, strides, strides_num, on, &c.err);
    return kl_call_end(&c, res, out);
}

#define SLICE_JOIN(FUNC, BUILD)                                                                \
    int FUNC(mlx_array *res, const mlx_array src, const mlx_array update, const int *start,    \
             size_t start_num, const int *stop, size_t stop_num, const int *strides,           \
             size_t strides_num, const mlx_stream s) {                                         \
        return slice_join(__func__, BUILD, res, src, update, start, start_num, stop, stop_num, \
                          strides, strides_num, s);                                            \
    }
SLICE_JOIN(mlx_slice_update_add, kl_slice_update_add)
SLICE_JOIN(mlx_slice_update_prod, kl_slice_update_prod)
SLICE_JOIN(mlx_slice_update_max, kl_slice_update_max)
SLICE_JOIN(mlx_slice_update_min, kl_slice_update_min)

int mlx_masked_scatter(mlx_array *res, const mlx_array a, const mlx_array mask, const mlx_array src,
                       const mlx_stream s) {
    struct kl_call c = kl_call_begin(__func__, res);
    struct kl_array *in = kl_in(&c, a, "a"), *which = kl_in(&c, mask, "mask");
    struct kl_array *values = kl_in(&c, src, "src"), *out = NULL;
    struct kl_stream *on = kl_in_stream(&c, s);
    if (!c.err) kl_masked_scatter(&out, in, which, values, on, &c.err);
    return kl_call_end(&c, res, out);
}

/* ---- matrices by their diagonals ---- */
int mlx_eye(mlx_array *res, int n, int m, int k, mlx_dtype dtype, const mlx_stream s) {
    struct kl_call c = kl_call_begin(__func__, res);
    struct kl_stream *on = kl_in_stream(&c, s);
    struct kl_array *out = NULL;
    if (!c.err) kl_eye(&out, n, m, k, (int)dtype, on, &c.err);
    return kl_call_end(&c, res, out);
}

int mlx_identity(mlx_array *res, int n, mlx_dtype dtype, const mlx_stream s) {
    struct kl_call c = kl_call_begin(__func__, res);
    struct kl_stream *on = kl_in_stream(&c, s);
    struct kl_array *out = NULL;
    if (!c.err) kl_identity(&out, n, (int)dtype, on, &c.err);
    return kl_call_end(&c, res, out);
}

int mlx_tri(mlx_array *res, int n, int m, int k, mlx_dtype type, const mlx_stream s) {
    struct kl_call c = kl_call_begin(__func__, res);
    struct kl_stream *on = kl_in_stream(&c, s);
    struct kl_array *out = NULL;
    if (!c.err) kl_tri(&out, n, m, k, (int)type, on, &c.err);
    return kl_call_end(&c, res, out);
}

int mlx_tril(mlx_array *res, const mlx_array x, int k, const mlx_stream s) {
    return kl_api_unary_int(__func__, kl_tril, res, x, k, s);
}

int mlx_triu(mlx_array *res, const mlx_array x, int k, const mlx_stream s) {
    return kl_api_unary_int(__func__, kl_triu, res, x, k, s);
}

int mlx_diag(mlx_array *res, const mlx_array a, int k, const mlx_stream s) {
    return kl_api_unary_int(__func__, kl_diag, res, a, k, s);
}

int mlx_trace(mlx_array *res, const mlx_array a, int offset, int axis1, int axis2, mlx_dtype dtype,
              const mlx_stream s) {
    struct kl_call c = kl_call_begin(__func__, res);
    struct kl_array *in = kl_in(&c, a, "a"), *out = NULL;
    struct kl_stream *on = kl_in_stream(&c, s);
    if (!c.err) kl_trace(&out, in, offset, axis1, axis2, (int)dtype, on, &c.err);
    return kl_call_end(&c, res, out);
}

/* ---- numbers from parameters ---- */
int mlx_linspace(mlx_array *res, double start, double stop, int num, mlx_dtype dtype,
                 const mlx_stream s) {
    struct kl_call c = kl_call_begin(__func__, res);
    struct kl_stream *on = kl_in_stream(&c, s);
    struct kl_array *out = NULL;
    if (!c.err) kl_linspace(&out, start, stop, num, (int)dtype, on, &c.err);
    return kl_call_end(&c, res, out);
}

static int window(const char *func, kl_window_fn *build, mlx_array *res, int n, mlx_stream s) {
    struct kl_call c = kl_call_begin(func, res);
    struct kl_stream *on = kl_in_stream(&c, s);
    struct kl_array *out = NULL;
    if (!c.err) build(&out, n, on, &c.err);
    return kl_call_end(&c, res, out);
}

int mlx_hanning(mlx_array *res, int M, const mlx_stream s) {
    return window(__func__, kl_hanning, res, M, s);
}

int mlx_hamming(mlx_array *res, int M, const mlx_stream s) {
    return window(__func__, kl_hamming, res, M, s);
}

int mlx_blackman(mlx_array *res, int M, const mlx_stream s) {
    return window(__func__, kl_blackman, res, M, s);
}

int mlx_bartlett(mlx_array *res, int M, const mlx_stream s) {
    return window(__func__, kl_bartlett, res, M, s);
}
