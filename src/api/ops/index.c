/* index.c - mlx/c/ops.h: reading and writing at indices. Only handles are checked here;
 * whether an index is in range is found out when the operation runs. */
#include "api/ops/api_ops.h"

/* ---- reading ---- */
int mlx_gather(mlx_array *res, const mlx_array a, const mlx_vector_array indices, const int *axes,
               size_t axes_num, const int *slice_sizes, size_t slice_sizes_num,
               const mlx_stream s) {
    struct kl_call c = kl_call_begin(__func__, res);
    struct kl_array *in = kl_in(&c, a, "a"), *out = NULL;
    const struct kl_vec *at = kl_in_vec(&c, indices.ctx, "indices");
    struct kl_stream *on = kl_in_stream(&c, s);
    if (!c.err)
        kl_gather(&out, in, kl_vec_array_items(at), at->n, axes, axes_num, slice_sizes,
                  slice_sizes_num, on, &c.err);
    return kl_call_end(&c, res, out);
}

int mlx_gather_single(mlx_array *res, const mlx_array a, const mlx_array indices, int axis,
                      const int *slice_sizes, size_t slice_sizes_num, const mlx_stream s) {
    struct kl_call c = kl_call_begin(__func__, res);
    struct kl_array *in = kl_in(&c, a, "a"), *at = kl_in(&c, indices, "indices"), *out = NULL;
    struct kl_stream *on = kl_in_stream(&c, s);
    if (!c.err) kl_gather_single(&out, in, at, axis, slice_sizes, slice_sizes_num, on, &c.err);
    return kl_call_end(&c, res, out);
}

int mlx_take(mlx_array *res, const mlx_array a, const mlx_array indices, const mlx_stream s) {
    return kl_api_binary(__func__, kl_take, res, a, indices, s);
}

typedef int take_fn(struct kl_array **out, struct kl_array *a, struct kl_array *indices, int axis,
                    struct kl_stream *s, struct kl_error **err);

static int take(const char *func, take_fn *build, mlx_array *res, mlx_array a, mlx_array indices,
                int axis, mlx_stream s) {
    struct kl_call c = kl_call_begin(func, res);
    struct kl_array *in = kl_in(&c, a, "a"), *at = kl_in(&c, indices, "indices"), *out = NULL;
    struct kl_stream *on = kl_in_stream(&c, s);
    if (!c.err) build(&out, in, at, axis, on, &c.err);
    return kl_call_end(&c, res, out);
}

int mlx_take_axis(mlx_array *res, const mlx_array a, const mlx_array indices, int axis,
                  const mlx_stream s) {
    return take(__func__, kl_take_axis, res, a, indices, axis, s);
}

int mlx_take_along_axis(mlx_array *res, const mlx_array a, const mlx_array indices, int axis,
                        const mlx_stream s) {
    return take(__func__, kl_take_along_axis, res, a, indices, axis, s);
}

/* ---- places that a mask names ---- */
int mlx_masked_scatter(mlx_array *res, const mlx_array a, const mlx_array mask, const mlx_array src,
                       const mlx_stream s) {
    struct kl_call c = kl_call_begin(__func__, res);
    struct kl_array *in = kl_in(&c, a, "a"), *which = kl_in(&c, mask, "mask");
    struct kl_array *values = kl_in(&c, src, "src"), *out = NULL;
    struct kl_stream *on = kl_in_stream(&c, s);
    if (!c.err) kl_masked_scatter(&out, in, which, values, on, &c.err);
    return kl_call_end(&c, res, out);
}

/* ---- writing: each function takes indices, then values, then the axes ---- */
static int put(const char *func, kl_scatter_single_fn *build, mlx_array *res, mlx_array a,
               mlx_array indices, mlx_array values, int axis, mlx_stream s) {
    struct kl_call c = kl_call_begin(func, res);
    struct kl_array *in = kl_in(&c, a, "a"), *at = kl_in(&c, indices, "indices"), *out = NULL;
    struct kl_array *with = kl_in(&c, values, "what is written");
    struct kl_stream *on = kl_in_stream(&c, s);
    if (!c.err) build(&out, in, at, with, axis, on, &c.err);
    return kl_call_end(&c, res, out);
}

static int scatter(const char *func, kl_scatter_fn *build, mlx_array *res, mlx_array a,
                   mlx_vector_array indices, mlx_array updates, const int *axes, size_t axes_num,
                   mlx_stream s) {
    struct kl_call c = kl_call_begin(func, res);
    struct kl_array *in = kl_in(&c, a, "a"), *with = kl_in(&c, updates, "updates"), *out = NULL;
    const struct kl_vec *at = kl_in_vec(&c, indices.ctx, "indices");
    struct kl_stream *on = kl_in_stream(&c, s);
    if (!c.err) build(&out, in, kl_vec_array_items(at), at->n, with, axes, axes_num, on, &c.err);
    return kl_call_end(&c, res, out);
}

#define PUT(FUNC, BUILD)                                                                         \
    int FUNC(mlx_array *res, const mlx_array a, const mlx_array indices, const mlx_array values, \
             int axis, const mlx_stream s) {                                                     \
        return put(__func__, BUILD, res, a, indices, values, axis, s);                           \
    }
#define SCATTER(FUNC, BUILD)                                                                  \
    int FUNC(mlx_array *res, const mlx_array a, const mlx_vector_array indices,               \
             const mlx_array updates, const int *axes, size_t axes_num, const mlx_stream s) { \
        return scatter(__func__, BUILD, res, a, indices, updates, axes, axes_num, s);         \
    }

PUT(mlx_put_along_axis, kl_put_along_axis)
PUT(mlx_scatter_add_axis, kl_scatter_add_axis)
PUT(mlx_scatter_single, kl_scatter_single)
PUT(mlx_scatter_add_single, kl_scatter_add_single)
PUT(mlx_scatter_prod_single, kl_scatter_prod_single)
PUT(mlx_scatter_max_single, kl_scatter_max_single)
PUT(mlx_scatter_min_single, kl_scatter_min_single)

SCATTER(mlx_scatter, kl_scatter)
SCATTER(mlx_scatter_add, kl_scatter_add)
SCATTER(mlx_scatter_prod, kl_scatter_prod)
SCATTER(mlx_scatter_max, kl_scatter_max)
SCATTER(mlx_scatter_min, kl_scatter_min)
