/* shape.c - views that change the shape: reshape, transpose, broadcast, expand_dims, squeeze and
 * operations made of these. The layout of a view is final when it is built; a reshape that no
 * strides can express copies first. */
#include <string.h>

#include "base/alloc.h"
#include "ops/build/build.h"
#include "ops/build/deferred.h"
#include "ops/build/meet.h"
#include "ops/build/params.h"
#include "ops/build/views.h"
#include "ops/build/vjp.h"
#include "ops/build/vmap.h"
#include "ops/ops.h"

/* ---- reshape ---- */
/* The strides with which the elements of t read as dims, in the same order; false when no strides
 * do that. Walks both shapes in groups of axes with equal products; inside a group the old axes
 * must be contiguous with each other. */
static bool strides_for(const struct kl_tensor *t, int ndim, const int *dims, int64_t *strides) {
    if (t->size == 0 || (t->layout & KL_ROW_CONTIGUOUS)) {
        kl_strides_row_major(ndim, dims, strides);
        return true;
    }
    int old = 0, new = 0;
    while (new < ndim) {
        if (dims[new] == 1) {
            strides[new ++] = 0;
            continue;
        }
        while (t->dims[old] == 1) old++;
        int64_t old_n = t->dims[old], new_n = dims[new];
        int old_end = old + 1, new_end = new + 1;
        while (old_n != new_n) {
            if (old_n < new_n) {
                if (t->dims[old_end] != 1) {
                    if (t->strides[old] != t->strides[old_end] * t->dims[old_end]) return false;
                    old_n *= t->dims[old_end];
                    /* the innermost axis so far: its stride is the stride of the group */
                    old = old_end;
                }
                old_end++;
            } else {
                new_n *= dims[new_end++];
            }
        }
        int64_t step = t->strides[old];
        for (int i = new_end - 1; i >= new; i--) {
            strides[i] = step;
            step *= dims[i];
        }
        old = old_end;
        new = new_end;
    }
    return true;
}

/* asked: the shape in the form of the parameters of RESHAPE. */
static int reshape_as(struct kl_array **out, struct kl_array *a, int ndim, const int *dims,
                      const int *asked, struct kl_stream *s, struct kl_error **err) {
    int64_t strides[KL_MAX_NDIM];
    struct kl_dims_buf p;
    size_t bytes = kl_dims_params(&p, ndim, asked);
    if (kl_shape_is(a, ndim, dims)) {
        *out = kl_array_retain(a);
        return KL_OK;
    }
    if (strides_for(&a->t, ndim, dims, strides))
        return kl_array_view(out, KL_OP_RESHAPE, &p, bytes, a, ndim, dims, strides, 0, err);
    struct kl_array *dense;
    KL_TRY(kl_copy(&dense, a, s, err));
    kl_strides_row_major(ndim, dims, strides);
    int rc = kl_array_view(out, KL_OP_RESHAPE, &p, bytes, dense, ndim, dims, strides, 0, err);
    kl_array_release(dense);
    return rc;
}

int kl_reshape_to(struct kl_array **out, struct kl_array *a, int ndim, const int *dims,
                  struct kl_stream *s, struct kl_error **err) {
    if (a->shapeless) kl_trace_note_fixed(a, KL_OP_RESHAPE);
    return reshape_as(out, a, ndim, dims, dims, s, err);
}

int kl_reshape(struct kl_array **out, struct kl_array *a, const int *shape, size_t shape_num,
               struct kl_stream *s, struct kl_error **err) {
    KL_DEFER(RESHAPE, a, shape, shape_num);
    int dims[KL_MAX_NDIM], n = (int)shape_num, open = -1;
    struct kl_shape to;
    int64_t size;
    KL_TRY(kl_check_array(a, "a", err));
    KL_TRY(kl_check_list(shape, shape_num, "the shape", err));
    for (int i = 0; i < n; i++) {
        dims[i] = shape[i];
        if (dims[i] != -1) continue;
        if (open >= 0)
            return kl_fail(err, KL_ESHAPE, "shape %s has more than one -1",
                           KL_SHAPE_TEXT(n, shape));
        open = i;
        dims[i] = 1;
    }
    KL_TRY(kl_check_shape(&to, dims, shape_num, a->t.dtype, &size, err));
    if (open >= 0) {
        if (size == 0)
            return kl_fail(err, KL_ESHAPE,
                           "the -1 of shape %s could be anything: another size is 0",
                           KL_SHAPE_TEXT(n, shape));
        int64_t rest = a->t.size / size;
        if (rest > INT32_MAX)
            return kl_fail(err, KL_ELIMIT,
                           "%lld elements are too many for one axis; at most %d are possible",
                           (long long)rest, INT32_MAX);
        to.dims[open] = (int)rest;
        size *= to.dims[open];
    }
    if (size != a->t.size)
        return kl_fail(err, KL_ESHAPE,
                       "an array of shape %s with %lld elements cannot have shape %s",
                       KL_SHAPE_TEXT_OF(a), (long long)a->t.size, KL_SHAPE_TEXT(n, shape));
    return reshape_as(out, a, to.ndim, to.dims, shape, s, err);
}

int kl_flatten_all(struct kl_array **out, struct kl_array *a, struct kl_stream *s,
                   struct kl_error **err) {
    KL_DEFER(FLATTEN_ALL, a);
    if (a->t.size > INT32_MAX)
        return kl_fail(err, KL_ELIMIT,
                       "%lld elements are too many for one axis; at most %d are possible",
                       (long long)a->t.size, INT32_MAX);
    int n = (int)a->t.size, rest = -1;
    return reshape_as(out, a, 1, &n, n ? &rest : &n, s, err);
}

int kl_flatten(struct kl_array **out, struct kl_array *a, int start_axis, int end_axis,
               struct kl_stream *s, struct kl_error **err) {
    KL_DEFER(FLATTEN, a, start_axis, end_axis);
    int dims[KL_MAX_NDIM], n = 0;
    KL_TRY(kl_check_array(a, "a", err));
    int ndim = a->t.ndim;
    if (ndim == 0) return kl_flatten_all(out, a, s, err);
    /* An axis out of range means the first or last axis. */
    int64_t first = start_axis < 0 ? (int64_t)start_axis + ndim : start_axis;
    int64_t last = end_axis < 0 ? (int64_t)end_axis + ndim : end_axis;
    if (first < 0) first = 0;
    if (last >= ndim) last = ndim - 1;
    if (first > last || last < 0)
        return kl_fail(err, KL_EAXIS,
                       "axes %d to %d of an array of %d axes: the first comes after the last",
                       start_axis, end_axis, ndim);
    int64_t merged = 1;
    for (int i = (int)first; i <= last; i++)
        /* the product of the non-zero extents cannot overflow */
        merged *= a->t.dims[i] ? a->t.dims[i] : 1;
    for (int i = (int)first; i <= last; i++)
        if (a->t.dims[i] == 0) merged = 0;
    if (merged > INT32_MAX)
        return kl_fail(err, KL_ELIMIT,
                       "%lld elements are too many for one axis; at most %d are possible",
                       (long long)merged, INT32_MAX);
    for (int i = 0; i < first; i++) dims[n++] = a->t.dims[i];
    dims[n++] = (int)merged;
    for (int i = (int)last + 1; i < ndim; i++) dims[n++] = a->t.dims[i];
    if (a->t.size == 0) return kl_reshape_to(out, a, n, dims, s, err); /* -1 could be anything */
    int asked[KL_MAX_NDIM];
    for (int i = 0; i < n; i++)
        asked[i] = i == first ? -1 : -2 - (i < first ? i : i + (int)(last - first));
    return reshape_as(out, a, n, dims, asked, s, err);
}

/* ---- transpose ---- */
int kl_permute(struct kl_array **out, struct kl_array *a, const int *perm, struct kl_error **err) {
    int dims[KL_MAX_NDIM], n = a->t.ndim;
    int64_t strides[KL_MAX_NDIM];
    struct kl_dims_buf p;
    bool same = true;
    for (int i = 0; i < n; i++) {
        dims[i] = a->t.dims[perm[i]];
        strides[i] = a->t.strides[perm[i]];
        same = same && perm[i] == i;
    }
    if (same) {
        *out = kl_array_retain(a);
        return KL_OK;
    }
    size_t bytes = kl_dims_params(&p, n, perm);
    return kl_array_view(out, KL_OP_TRANSPOSE, &p, bytes, a, n, dims, strides, 0, err);
}

int kl_transpose(struct kl_array **out, struct kl_array *a, struct kl_stream *s,
                 struct kl_error **err) {
    int perm[KL_MAX_NDIM];
    KL_TRY(kl_check_array(a, "a", err));
    for (int i = 0; i < a->t.ndim; i++) perm[i] = a->t.ndim - 1 - i;
    return kl_permute(out, a, perm, err);
}

int kl_transpose_axes(struct kl_array **out, struct kl_array *a, const int *axes, size_t axes_num,
                      struct kl_stream *s, struct kl_error **err) {
    int perm[KL_MAX_NDIM];
    KL_TRY(kl_check_array(a, "a", err));
    if (axes_num != (size_t)a->t.ndim)
        return kl_fail(err, KL_EAXIS, "%zu axes are given for an array of %d; all are needed",
                       axes_num, a->t.ndim);
    KL_TRY(kl_check_axes(perm, axes, axes_num, a->t.ndim, err));
    return kl_permute(out, a, perm, err);
}

int kl_swapaxes(struct kl_array **out, struct kl_array *a, int axis1, int axis2,
                struct kl_stream *s, struct kl_error **err) {
    int perm[KL_MAX_NDIM];
    KL_TRY(kl_check_array(a, "a", err));
    KL_TRY(kl_check_axis(&axis1, a->t.ndim, err));
    KL_TRY(kl_check_axis(&axis2, a->t.ndim, err));
    for (int i = 0; i < a->t.ndim; i++) perm[i] = i == axis1 ? axis2 : i == axis2 ? axis1 : i;
    return kl_permute(out, a, perm, err);
}

int kl_moveaxis(struct kl_array **out, struct kl_array *a, int source, int destination,
                struct kl_stream *s, struct kl_error **err) {
    int perm[KL_MAX_NDIM], next = 0;
    KL_TRY(kl_check_array(a, "a", err));
    KL_TRY(kl_check_axis(&source, a->t.ndim, err));
    KL_TRY(kl_check_axis(&destination, a->t.ndim, err));
    for (int i = 0; i < a->t.ndim; i++) {
        if (i == destination) {
            perm[i] = source;
            continue;
        }
        if (next == source) next++;
        perm[i] = next++;
    }
    return kl_permute(out, a, perm, err);
}

/* ---- broadcast ---- */
int kl_broadcast_to(struct kl_array **out, struct kl_array *a, const int *shape, size_t shape_num,
                    struct kl_stream *s, struct kl_error **err) {
    KL_DEFER(BROADCAST_TO, a, shape, shape_num);
    struct kl_shape to;
    KL_TRY(kl_check_array(a, "a", err));
    KL_TRY(kl_check_shape(&to, shape, shape_num, a->t.dtype, NULL, err));
    return kl_broadcast_view(out, a, to.ndim, to.dims, err);
}

int kl_broadcast_arrays(struct kl_array ***outs, size_t *n_outs, struct kl_array *const *arrays,
                        size_t n_arrays, struct kl_stream *s, struct kl_error **err) {
    int deferred;
    if (kl_shapeless_traces() &&
        kl_defer_many(&deferred, outs, n_outs, n_arrays, KL_DEFERRED_BROADCAST_ARRAYS, s, err,
                      arrays, n_arrays, 0))
        return deferred;
    struct kl_shape to;
    KL_TRY(kl_check_arrays(arrays, n_arrays, "the arrays", err));
    KL_TRY(kl_broadcast_shape(&to, arrays, n_arrays, err));
    struct kl_array **views = kl_malloc((n_arrays + 1) * sizeof(struct kl_array *));
    if (!views) return kl_fail_nomem(err);
    for (size_t i = 0; i < n_arrays; i++) {
        int rc = kl_broadcast_view(&views[i], arrays[i], to.ndim, to.dims, err);
        if (rc) {
            kl_release_all(views, i);
            kl_free(views);
            return rc;
        }
    }
    *outs = views;
    *n_outs = n_arrays;
    return KL_OK;
}

/* ---- axes of size 1 ---- */
int kl_expand_dims_axes(struct kl_array **out, struct kl_array *a, const int *axes, size_t axes_num,
                        struct kl_stream *s, struct kl_error **err) {
    int at[KL_MAX_NDIM], dims[KL_MAX_NDIM], from = 0;
    int64_t strides[KL_MAX_NDIM];
    struct kl_dims_buf p;
    uint64_t is_new = 0;
    KL_TRY(kl_check_array(a, "a", err));
    KL_TRY(kl_check_list(axes, axes_num, "the list of axes", err));
    int ndim = a->t.ndim + (int)axes_num;
    if (ndim > KL_MAX_NDIM)
        return kl_fail(err, KL_ESHAPE, "the result would have %d axes; at most %d are possible",
                       ndim, KL_MAX_NDIM);
    KL_TRY(kl_check_axes(at, axes, axes_num, ndim, err));
    if (axes_num == 0) {
        *out = kl_array_retain(a);
        return KL_OK;
    }
    for (size_t i = 0; i < axes_num; i++) is_new |= UINT64_C(1) << at[i];
    for (int i = 0; i < ndim; i++) {
        bool one = is_new >> i & 1;
        dims[i] = one ? 1 : a->t.dims[from];
        /* The stride that the axis would have in a contiguous array, so that a contiguous array
         * stays contiguous. */
        strides[i] = !one               ? a->t.strides[from]
                     : from < a->t.ndim ? a->t.strides[from] * a->t.dims[from]
                                        : 1;
        from += !one;
    }
    size_t bytes = kl_dims_params(&p, (int)axes_num, at);
    return kl_array_view(out, KL_OP_EXPAND_DIMS, &p, bytes, a, ndim, dims, strides, 0, err);
}

int kl_expand_dims(struct kl_array **out, struct kl_array *a, int axis, struct kl_stream *s,
                   struct kl_error **err) {
    return kl_expand_dims_axes(out, a, &axis, 1, s, err);
}

int kl_squeeze_axes(struct kl_array **out, struct kl_array *a, const int *axes, size_t axes_num,
                    struct kl_stream *s, struct kl_error **err) {
    int at[KL_MAX_NDIM], dims[KL_MAX_NDIM], n = 0;
    int64_t strides[KL_MAX_NDIM];
    struct kl_dims_buf p;
    uint64_t gone = 0;
    KL_TRY(kl_check_array(a, "a", err));
    KL_TRY(kl_check_axes(at, axes, axes_num, a->t.ndim, err));
    for (size_t i = 0; i < axes_num; i++) {
        if (a->t.dims[at[i]] != 1)
            return kl_fail(err, KL_ESHAPE,
                           "axis %d has size %d; only axes of size 1 can be dropped", axes[i],
                           a->t.dims[at[i]]);
        gone |= UINT64_C(1) << at[i];
    }
    if (axes_num == 0) {
        *out = kl_array_retain(a);
        return KL_OK;
    }
    for (int i = 0; i < a->t.ndim; i++) {
        if (gone >> i & 1) continue;
        dims[n] = a->t.dims[i];
        strides[n++] = a->t.strides[i];
    }
    size_t bytes = kl_dims_params(&p, (int)axes_num, at);
    return kl_array_view(out, KL_OP_SQUEEZE, &p, bytes, a, n, dims, strides, 0, err);
}

int kl_squeeze_axis(struct kl_array **out, struct kl_array *a, int axis, struct kl_stream *s,
                    struct kl_error **err) {
    return kl_squeeze_axes(out, a, &axis, 1, s, err);
}

int kl_squeeze(struct kl_array **out, struct kl_array *a, struct kl_stream *s,
               struct kl_error **err) {
    KL_DEFER(SQUEEZE, a);
    int axes[KL_MAX_NDIM], n = 0;
    KL_TRY(kl_check_array(a, "a", err));
    for (int i = 0; i < a->t.ndim; i++)
        if (a->t.dims[i] == 1) axes[n++] = i;
    return kl_squeeze_axes(out, a, axes, (size_t)n, s, err);
}

/* ---- a least number of axes ---- */
int kl_atleast_1d(struct kl_array **out, struct kl_array *a, struct kl_stream *s,
                  struct kl_error **err) {
    KL_TRY(kl_check_array(a, "a", err));
    int axis = 0;
    return kl_expand_dims_axes(out, a, &axis, a->t.ndim < 1, s, err);
}

int kl_atleast_2d(struct kl_array **out, struct kl_array *a, struct kl_stream *s,
                  struct kl_error **err) {
    static const int axes[] = {0, 1};
    KL_TRY(kl_check_array(a, "a", err));
    return kl_expand_dims_axes(out, a, axes, a->t.ndim < 2 ? (size_t)(2 - a->t.ndim) : 0, s, err);
}

int kl_atleast_3d(struct kl_array **out, struct kl_array *a, struct kl_stream *s,
                  struct kl_error **err) {
    /* indexed by the number of axes of the array */
    static const int axes[3][3] = {{0, 1, 2}, {0, 2}, {2}};
    KL_TRY(kl_check_array(a, "a", err));
    int n = a->t.ndim;
    return kl_expand_dims_axes(out, a, n < 3 ? axes[n] : NULL, n < 3 ? (size_t)(3 - n) : 0, s, err);
}

/* ---- one axis becomes several ---- */
int kl_unflatten(struct kl_array **out, struct kl_array *a, int axis, const int *shape,
                 size_t shape_num, struct kl_stream *s, struct kl_error **err) {
    KL_DEFER(UNFLATTEN, a, axis, shape, shape_num);
    int dims[KL_MAX_NDIM], n = 0, open = -1;
    int64_t size = 1;
    KL_TRY(kl_check_array(a, "a", err));
    KL_TRY(kl_check_list(shape, shape_num, "the shape", err));
    KL_TRY(kl_check_axis(&axis, a->t.ndim, err));
    if (shape_num == 0) return kl_fail(err, KL_ESHAPE, "the shape of axis %d is empty", axis);
    if ((size_t)a->t.ndim - 1 + shape_num > KL_MAX_NDIM)
        return kl_fail(err, KL_ESHAPE, "the result would have %zu axes; at most %d are possible",
                       (size_t)a->t.ndim - 1 + shape_num, KL_MAX_NDIM);
    for (int i = 0; i < axis; i++) dims[n++] = a->t.dims[i];
    for (size_t i = 0; i < shape_num; i++, n++) {
        dims[n] = shape[i];
        if (shape[i] == -1 && open < 0)
            open = n;
        else if (shape[i] < 0 || (shape[i] && size > INT32_MAX / shape[i]))
            return kl_fail(err, KL_ESHAPE, "axis %d of size %d cannot have shape %s", axis,
                           a->t.dims[axis], KL_SHAPE_TEXT((int)shape_num, shape));
        else
            size *= shape[i];
    }
    if (open >= 0 && size > 0) {
        dims[open] = (int)(a->t.dims[axis] / size);
        size *= dims[open];
    }
    if (size != a->t.dims[axis] || (open >= 0 && dims[open] < 0))
        return kl_fail(err, KL_ESHAPE, "axis %d of size %d cannot have shape %s", axis,
                       a->t.dims[axis], KL_SHAPE_TEXT((int)shape_num, shape));
    for (int i = axis + 1; i < a->t.ndim; i++) dims[n++] = a->t.dims[i];
    if (a->t.size == 0) return kl_reshape_to(out, a, n, dims, s, err); /* -1 could be anything */
    int asked[KL_MAX_NDIM];
    for (int i = 0; i < n; i++)
        asked[i] = i < axis                    ? -2 - i
                   : i < axis + (int)shape_num ? shape[i - axis]
                                               : -2 - (i - (int)shape_num + 1);
    return reshape_as(out, a, n, dims, asked, s, err);
}

/* ---- how many elements ---- */
/* The largest number of an integer dtype, as a 0-d array. */
static int largest_of(struct kl_array **out, enum kl_dtype dtype, struct kl_error **err) {
    const int unused = 64 - 8 * (int)kl_dtype_size(dtype) + kl_dtype_is_signed(dtype);
    const uint64_t most = UINT64_MAX >> unused;
    const uint32_t u32 = (uint32_t)most;
    const uint16_t u16 = (uint16_t)most;
    const uint8_t u8 = (uint8_t)most;
    const void *at[] = {&u8, &u16, &u32, &most};
    const size_t bytes = kl_dtype_size(dtype);
    return kl_array_new_data(out, at[bytes == 8 ? 3 : bytes / 2], dtype, 0, NULL, err);
}

int kl_number_of_elements(struct kl_array **out, struct kl_array *a, const int *axes,
                          size_t axes_num, bool inverted, int dtype, struct kl_stream *s,
                          struct kl_error **err) {
    KL_DEFER(NUMBER_OF_ELEMENTS, a, axes, axes_num, inverted, dtype);
    int at[KL_MAX_NDIM];
    int64_t n = 1;
    KL_TRY(kl_check_array(a, "a", err));
    KL_TRY(kl_check_dtype(dtype, err));
    KL_TRY(kl_check_axes(at, axes, axes_num, a->t.ndim, err));
    for (size_t i = 0; i < axes_num && n > 0; i++) n *= a->t.dims[at[i]];
    for (size_t i = 0; i < axes_num; i++)
        if (a->t.dims[at[i]] == 0) n = 0;
    double x = inverted ? 1 / (double)n : (double)n;
    /* converted as a cast does: towards 0, saturating */
    if (inverted && kl_dtype_is_int((enum kl_dtype)dtype)) {
        if (n == 0) return largest_of(out, (enum kl_dtype)dtype, err);
        x = n == 1;
    }
    return kl_array_new_scalar(out, x, (enum kl_dtype)dtype, err);
}

/* ---- gradients ---- */
/* Reshape, expand_dims, squeeze: the gradient has the same elements in the shape of the input. */
int kl_vjp_reshape(const struct kl_vjp *v, struct kl_array **grad, struct kl_error **err) {
    return kl_reshape_to(&grad[0], v->cotangent[0], v->in[0]->t.ndim, v->in[0]->t.dims, v->s, err);
}

int kl_vjp_transpose(const struct kl_vjp *v, struct kl_array **grad, struct kl_error **err) {
    const struct kl_dims_params *p = v->params;
    int back[KL_MAX_NDIM];
    for (int i = 0; i < p->n; i++) back[p->v[i]] = i;
    return kl_permute(&grad[0], v->cotangent[0], back, err);
}

int kl_vjp_broadcast(const struct kl_vjp *v, struct kl_array **grad, struct kl_error **err) {
    return kl_sum_to(&grad[0], v->cotangent[0], v->in[0]->t.ndim, v->in[0]->t.dims, v->s, err);
}

/* ---- made again ---- */

/* The list that the parameters of views are. */
static int list_of(struct kl_dims_buf *p, const struct kl_build *b, const char *what,
                   struct kl_error **err) {
    int n;
    KL_TRY(kl_build_params_list(b, p, offsetof(struct kl_dims_buf, v), sizeof *p->v, KL_MAX_NDIM,
                                &n, err));
    return kl_build_count(p->n, n, what, err);
}

int kl_rebuild_reshape(const struct kl_build *b, struct kl_array **out, struct kl_error **err) {
    struct kl_dims_buf p;
    struct kl_shape to;
    struct kl_array *a = b->in[0];
    int dims[KL_MAX_NDIM], open = -1;
    int64_t size;
    KL_TRY(list_of(&p, b, "extents", err));
    for (int i = 0; i < p.n; i++) {
        dims[i] = p.v[i];
        if (p.v[i] == -1 && open >= 0)
            return kl_fail(err, KL_ESHAPE, "the recorded shape has more than one -1");
        if (p.v[i] == -1) {
            open = i;
            dims[i] = 1;
        } else if (p.v[i] < -1) {
            int64_t axis = -2 - (int64_t)p.v[i];
            if (axis >= a->t.ndim)
                return kl_fail_axis(err, (int)axis,
                                    "the recorded shape names axis %lld of an array of %d axes",
                                    (long long)axis, a->t.ndim);
            dims[i] = a->t.dims[axis];
        }
    }
    KL_TRY(kl_check_shape(&to, dims, (size_t)p.n, (enum kl_dtype)a->t.dtype, &size, err));
    if (open >= 0 && size > 0 && a->t.size / size <= INT32_MAX) {
        to.dims[open] = (int)(a->t.size / size);
        size *= to.dims[open];
    }
    if (size != a->t.size)
        return kl_fail(err, KL_ESHAPE, "an array of shape %s cannot have the recorded shape %s",
                       KL_SHAPE_TEXT_OF(a), KL_SHAPE_TEXT(to.ndim, to.dims));
    return reshape_as(out, a, to.ndim, to.dims, p.v, b->s, err);
}

int kl_rebuild_transpose(const struct kl_build *b, struct kl_array **out, struct kl_error **err) {
    struct kl_dims_buf p;
    KL_TRY(list_of(&p, b, "axes", err));
    KL_TRY(kl_build_axes(p.v, p.n, b->in[0]->t.ndim, err));
    return kl_transpose_axes(out, b->in[0], p.v, (size_t)p.n, b->s, err);
}

int kl_rebuild_broadcast(const struct kl_build *b, struct kl_array **out, struct kl_error **err) {
    struct kl_dims_buf p;
    KL_TRY(list_of(&p, b, "extents", err));
    return kl_broadcast_to(out, b->in[0], p.v, (size_t)p.n, b->s, err);
}

int kl_rebuild_expand_dims(const struct kl_build *b, struct kl_array **out, struct kl_error **err) {
    struct kl_dims_buf p;
    KL_TRY(list_of(&p, b, "axes", err));
    KL_TRY(kl_build_axes(p.v, p.n, b->in[0]->t.ndim + p.n, err));
    return kl_expand_dims_axes(out, b->in[0], p.v, (size_t)p.n, b->s, err);
}

int kl_rebuild_squeeze(const struct kl_build *b, struct kl_array **out, struct kl_error **err) {
    struct kl_dims_buf p;
    KL_TRY(list_of(&p, b, "axes", err));
    KL_TRY(kl_build_axes(p.v, p.n, b->in[0]->t.ndim, err));
    return kl_squeeze_axes(out, b->in[0], p.v, (size_t)p.n, b->s, err);
}

/* ---- batches ---- */

int kl_vmap_reshape(const struct kl_vmap *v, struct kl_array **out, int *axis,
                    struct kl_error **err) {
    struct kl_shape to;
    int dims[KL_MAX_NDIM + 1] = {v->lanes};
    if (v->ndim) memcpy(dims + 1, v->dims, (size_t)v->ndim * sizeof *dims);
    KL_TRY(kl_check_shape(&to, dims, 1 + (size_t)v->ndim, (enum kl_dtype)v->in[0]->t.dtype, NULL,
                          err));
    *axis = 0;
    return kl_reshape_to(out, v->in[0], to.ndim, to.dims, v->s, err);
}

int kl_vmap_transpose(const struct kl_vmap *v, struct kl_array **out, int *axis,
                      struct kl_error **err) {
    const struct kl_dims_params *p = v->params;
    int perm[KL_MAX_NDIM + 1] = {0};
    for (int i = 0; i < p->n; i++) perm[1 + i] = p->v[i] + 1;
    *axis = 0;
    return kl_permute(out, v->in[0], perm, err);
}

/* Axes of size 1 between the lane axis and the others align these at the end. */
int kl_vmap_broadcast(const struct kl_vmap *v, struct kl_array **out, int *axis,
                      struct kl_error **err) {
    const struct kl_dims_params *p = v->params;
    struct kl_array *a = v->in[0], *aligned;
    struct kl_shape to;
    int dims[KL_MAX_NDIM + 1] = {v->lanes}, from[KL_MAX_NDIM] = {v->lanes};
    if (p->n) memcpy(dims + 1, p->v, (size_t)p->n * sizeof *dims);
    KL_TRY(kl_check_shape(&to, dims, 1 + (size_t)p->n, (enum kl_dtype)a->t.dtype, NULL, err));
    const int more = to.ndim - a->t.ndim;
    for (int i = 1; i < to.ndim; i++) from[i] = i <= more ? 1 : a->t.dims[i - more];
    KL_TRY(kl_reshape_to(&aligned, a, to.ndim, from, v->s, err));
    int rc = kl_broadcast_view(out, aligned, to.ndim, to.dims, err);
    kl_array_release(aligned);
    *axis = 0;
    return rc;
}

/* expand_dims and squeeze */
int kl_vmap_new_axes(const struct kl_vmap *v, struct kl_array **out, int *axis,
                     struct kl_error **err) {
    const struct kl_dims_params *p = v->params;
    int at[KL_MAX_NDIM];
    for (int i = 0; i < p->n; i++) at[i] = p->v[i] + 1;
    *axis = 0;
    return (v->op == KL_OP_SQUEEZE ? kl_squeeze_axes : kl_expand_dims_axes)(
        out, v->in[0], at, (size_t)p->n, v->s, err);
}
