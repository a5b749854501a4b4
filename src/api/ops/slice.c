/* slice.c - mlx/c/ops.h: slices, slices whose starts are in an array, updates of slices, splits. */
#include "api/ops/api_ops.h"

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

/* ---- slices whose starts are in an array ---- */
int mlx_slice_dynamic(mlx_array *res, const mlx_array a, const mlx_array start, const int *axes,
                      size_t axes_num, const int *slice_size, size_t slice_size_num,
                      const mlx_stream s) {
    struct kl_call c = kl_call_begin(__func__, res);
    struct kl_array *in = kl_in(&c, a, "a"), *at = kl_in(&c, start, "start"), *out = NULL;
    struct kl_stream *on = kl_in_stream(&c, s);
    if (!c.err)
        kl_slice_dynamic(&out, in, at, axes, axes_num, slice_size, slice_size_num, on, &c.err);
    return kl_call_end(&c, res, out);
}

int mlx_slice_update_dynamic(mlx_array *res, const mlx_array src, const mlx_array update,
                             const mlx_array start, const int *axes, size_t axes_num,
                             const mlx_stream s) {
    struct kl_call c = kl_call_begin(__func__, res);
    struct kl_array *base = kl_in(&c, src, "src"), *with = kl_in(&c, update, "update"), *out = NULL;
    struct kl_array *at = kl_in(&c, start, "start");
    struct kl_stream *on = kl_in_stream(&c, s);
    if (!c.err) kl_slice_update_dynamic(&out, base, with, at, axes, axes_num, on, &c.err);
    return kl_call_end(&c, res, out);
}

/* ---- slices combined with an update ---- */
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

/* ---- splits ---- */
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
