/* join.c - mlx/c/ops.h: arrays joined to one, and arrays that wait for others. */
#include "api/ops/api_ops.h"
#include "runtime/device.h"

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

/* ---- waiting ---- */
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
