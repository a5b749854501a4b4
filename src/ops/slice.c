/* slice.c - slice and split, which take parts of arrays, and slice_update, concatenate and stack,
 * which join arrays. */
#include "base/alloc.h"
#include "ops/build/build.h"
#include "ops/build/deferred.h"
#include "ops/build/meet.h"
#include "ops/build/params.h"
#include "ops/build/views.h"
#include "ops/build/vjp.h"
#include "ops/build/vmap.h"
#include "ops/ops.h"

/* ---- slice ---- */
struct slice {
    int start[KL_MAX_NDIM], step[KL_MAX_NDIM], dims[KL_MAX_NDIM];
    bool whole; /* the slice is all of the array, in order */
};

static int64_t clamp(int64_t x, int64_t lo, int64_t hi) {
    return x < lo ? lo : x > hi ? hi : x;
}

/* Python's rule: bounds below 0 count from the end, then bounds are clamped. A slice with a
 * negative step may end before element 0, at "-1". */
static int resolve(struct slice *sl, const struct kl_array *a, const int *start, size_t start_num,
                   const int *stop, size_t stop_num, const int *strides, size_t strides_num,
                   struct kl_error **err) {
    size_t ndim = (size_t)a->t.ndim;
    if (start_num != ndim || stop_num != ndim || strides_num != ndim)
        return kl_fail(err, KL_ESHAPE,
                       "%zu starts, %zu stops and %zu strides are given for %zu axes; one of each "
                       "per axis is needed",
                       start_num, stop_num, strides_num, ndim);
    KL_TRY(kl_check_list(start, start_num, "the list of starts", err));
    KL_TRY(kl_check_list(stop, stop_num, "the list of stops", err));
    KL_TRY(kl_check_list(strides, strides_num, "the list of strides", err));
    sl->whole = true;
    for (size_t i = 0; i < ndim; i++) {
        int64_t n = a->t.dims[i], step = strides[i];
        if (step == 0) return kl_fail(err, KL_EARG, "the stride of axis %zu is 0", i);
        int64_t first = start[i] < 0 ? start[i] + n : start[i],
                end = stop[i] < 0 ? stop[i] + n : stop[i], count;
        if (step > 0) {
            first = clamp(first, 0, n);
            end = clamp(end, 0, n);
            count = end > first ? (end - first + step - 1) / step : 0;
        } else {
            first = clamp(first, -1, n - 1);
            end = clamp(end, -1, n - 1);
            count = first > end ? (first - end - step - 1) / -step : 0;
        }
        sl->start[i] = count ? (int)first : 0;
        sl->step[i] = (int)step;
        sl->dims[i] = (int)count;
        sl->whole = sl->whole && count == n && (step == 1 || n <= 1);
    }
    return KL_OK;
}

static size_t slice_params(struct kl_slice_buf *p, int ndim, const int *start, const int *step) {
    p->ndim = ndim;
    for (int i = 0; i < ndim; i++) {
        p->v[i] = start[i];
        p->v[ndim + i] = step[i];
    }
    return kl_slice_params_bytes(p);
}

int kl_slice_to(struct kl_array **out, struct kl_array *a, const int *start, const int *step,
                const int *dims, struct kl_error **err) {
    if (a->shapeless) kl_trace_note_fixed(a, KL_OP_SLICE);
    struct kl_slice_buf p;
    int64_t strides[KL_MAX_NDIM], offset = 0;
    bool empty = false;
    for (int i = 0; i < a->t.ndim; i++) {
        /* The step has no effect where there is at most one element, and the product could
         * overflow. */
        strides[i] = dims[i] > 1 ? a->t.strides[i] * step[i] : a->t.strides[i];
        empty = empty || dims[i] == 0;
    }
    for (int i = 0; i < a->t.ndim && !empty; i++) offset += start[i] * a->t.strides[i];
    size_t bytes = slice_params(&p, a->t.ndim, start, step);
    return kl_array_view(out, KL_OP_SLICE, &p, bytes, a, a->t.ndim, dims, strides, offset, err);
}

int kl_slice(struct kl_array **out, struct kl_array *a, const int *start, size_t start_num,
             const int *stop, size_t stop_num, const int *strides, size_t strides_num,
             struct kl_stream *s, struct kl_error **err) {
    KL_DEFER(SLICE, a, start, start_num, stop, stop_num, strides, strides_num);
    struct slice sl;
    KL_TRY(kl_check_array(a, "a", err));
    KL_TRY(resolve(&sl, a, start, start_num, stop, stop_num, strides, strides_num, err));
    if (!sl.whole) return kl_slice_to(out, a, sl.start, sl.step, sl.dims, err);
    *out = kl_array_retain(a);
    return KL_OK;
}

/* base with the slice that p describes replaced by update, which has the shape of the slice. */
static int put_slice(struct kl_array **out, struct kl_array *base, struct kl_array *update,
                     const struct kl_slice_params *p, struct kl_stream *s, struct kl_error **err) {
    struct kl_array *in[2];
    if (update->t.size == 0) {
        *out = kl_array_retain(base);
        return KL_OK;
    }
    size_t bytes = offsetof(struct kl_slice_params, v) + 2 * (size_t)p->ndim * sizeof *p->v;
    KL_TRY(kl_in_rows(&in[0], base, KL_ROWS_MOVED, s, err));
    int rc = kl_in_rows(&in[1], update, KL_ROWS_MOVED, s, err);
    if (!rc) {
        rc = kl_array_op1(out,
                          &(struct kl_operation){.op = KL_OP_SLICE_UPDATE,
                                                 .stream = s,
                                                 .params = p,
                                                 .params_bytes = bytes,
                                                 .in = in,
                                                 .n_in = 2},
                          (enum kl_dtype)base->t.dtype, base->t.ndim, base->t.dims, err);
        kl_array_release(in[1]);
    }
    kl_array_release(in[0]);
    return rc;
}

int kl_slice_update(struct kl_array **out, struct kl_array *src, struct kl_array *update,
                    const int *start, size_t start_num, const int *stop, size_t stop_num,
                    const int *strides, size_t strides_num, struct kl_stream *s,
                    struct kl_error **err) {
    KL_DEFER(SLICE_UPDATE, src, update, start, start_num, stop, stop_num, strides, strides_num);
    struct slice sl;
    struct kl_slice_buf p;
    struct kl_array *typed, *rows, *whole;
    KL_TRY(kl_check_array(src, "src", err));
    KL_TRY(kl_check_array(update, "update", err));
    KL_TRY(kl_check_stream(s, err));
    KL_TRY(resolve(&sl, src, start, start_num, stop, stop_num, strides, strides_num, err));
    KL_TRY(kl_cast_to(&typed, update, src->t.dtype, s, err));
    int rc = kl_in_rows(&rows, typed, KL_ROWS_MOVED, s, err);
    kl_array_release(typed);
    if (rc) return rc;
    rc = kl_broadcast_view(&whole, rows, src->t.ndim, sl.dims, err);
    kl_array_release(rows);
    if (rc) return rc;
    slice_params(&p, src->t.ndim, sl.start, sl.step);
    rc = put_slice(out, src, whole, (const struct kl_slice_params *)&p, s, err);
    kl_array_release(whole);
    return rc;
}

/* ---- concatenate ---- */
static int concat_shape(struct kl_shape *to, struct kl_array *const *arrays, size_t n, int axis,
                        struct kl_error **err) {
    int64_t along = 0;
    *to = kl_shape_of(arrays[0]);
    for (size_t k = 0; k < n; k++) {
        const struct kl_tensor *t = &arrays[k]->t;
        bool fits = t->ndim == to->ndim;
        for (int i = 0; fits && i < to->ndim; i++) fits = i == axis || t->dims[i] == to->dims[i];
        if (!fits)
            return kl_fail(err, KL_ESHAPE, "shapes %s and %s differ in more than axis %d",
                           KL_SHAPE_TEXT_OF(arrays[0]), KL_SHAPE_TEXT(t->ndim, t->dims), axis);
        along += t->dims[axis];
    }
    if (along > INT32_MAX)
        return kl_fail(err, KL_ELIMIT,
                       "%lld elements are too many for one axis; at most %d are possible",
                       (long long)along, INT32_MAX);
    to->dims[axis] = (int)along;
    return KL_OK;
}

int kl_concatenate_axis(struct kl_array **out, struct kl_array *const *arrays, size_t n_arrays,
                        int axis, struct kl_stream *s, struct kl_error **err) {
    struct kl_shape to;
    KL_TRY(kl_check_arrays(arrays, n_arrays, "the arrays", err));
    if (n_arrays == 0) return kl_fail(err, KL_EARG, "no arrays are given; at least one is needed");
    /* as in MLX: a single 0-d array is returned as it is */
    if (n_arrays == 1 && arrays[0]->t.ndim == 0) {
        *out = kl_array_retain(arrays[0]);
        return KL_OK;
    }
    KL_TRY(kl_check_axis(&axis, arrays[0]->t.ndim, err));
    KL_TRY(concat_shape(&to, arrays, n_arrays, axis, err));
    if (n_arrays == 1) {
        *out = kl_array_retain(arrays[0]);
        return KL_OK;
    }
    enum kl_dtype dtype = arrays[0]->t.dtype;
    for (size_t k = 1; k < n_arrays; k++) dtype = kl_dtype_promote(dtype, arrays[k]->t.dtype);
    struct kl_array **in = kl_malloc(n_arrays * sizeof(struct kl_array *));
    if (!in) return kl_fail_nomem(err);
    struct kl_axis_params p = {axis};
    int rc = kl_check_stream(s, err);
    size_t made = 0;
    while (!rc && made < n_arrays) {
        struct kl_array *typed;
        if ((rc = kl_cast_to(&typed, arrays[made], dtype, s, err))) break;
        rc = kl_in_rows(&in[made], typed, KL_ROWS_MOVED, s, err);
        made += !rc;
        kl_array_release(typed);
    }
    if (!rc)
        rc = kl_array_op1(out,
                          &(struct kl_operation){.op = KL_OP_CONCATENATE,
                                                 .stream = s,
                                                 .params = &p,
                                                 .params_bytes = sizeof p,
                                                 .in = in,
                                                 .n_in = (int)n_arrays},
                          dtype, to.ndim, to.dims, err);
    kl_release_all(in, made);
    kl_free(in);
    return rc;
}

int kl_concatenate(struct kl_array **out, struct kl_array *const *arrays, size_t n_arrays,
                   struct kl_stream *s, struct kl_error **err) {
    KL_TRY(kl_check_arrays(arrays, n_arrays, "the arrays", err));
    if (n_arrays == 0) return kl_fail(err, KL_EARG, "no arrays are given; at least one is needed");
    KL_TRY(kl_check_stream(s, err));
    struct kl_array **flat = kl_malloc(n_arrays * sizeof(struct kl_array *));
    if (!flat) return kl_fail_nomem(err);
    int rc = KL_OK;
    size_t made = 0;
    for (; made < n_arrays; made++)
        if ((rc = kl_flatten_all(&flat[made], arrays[made], s, err))) break;
    if (!rc) rc = kl_concatenate_axis(out, flat, n_arrays, 0, s, err);
    kl_release_all(flat, made);
    kl_free(flat);
    return rc;
}

/* ---- stack ---- */
int kl_stack_axis(struct kl_array **out, struct kl_array *const *arrays, size_t n_arrays, int axis,
                  struct kl_stream *s, struct kl_error **err) {
    KL_TRY(kl_check_arrays(arrays, n_arrays, "the arrays", err));
    if (n_arrays == 0) return kl_fail(err, KL_EARG, "no arrays are given; at least one is needed");
    for (size_t k = 1; k < n_arrays; k++)
        if (!kl_shape_is(arrays[k], arrays[0]->t.ndim, arrays[0]->t.dims))
            return kl_fail(err, KL_ESHAPE, "shapes %s and %s differ; stacked arrays have one shape",
                           KL_SHAPE_TEXT_OF(arrays[0]), KL_SHAPE_TEXT_OF(arrays[k]));
    KL_TRY(kl_check_axis(&axis, arrays[0]->t.ndim + 1, err));
    struct kl_array **layers = kl_malloc(n_arrays * sizeof(struct kl_array *));
    if (!layers) return kl_fail_nomem(err);
    int rc = KL_OK;
    size_t made = 0;
    for (; made < n_arrays; made++) {
        struct kl_array *rows;
        if ((rc = kl_in_rows(&rows, arrays[made], KL_ROWS_MOVED, s, err))) break;
        rc = kl_expand_dims(&layers[made], rows, axis, s, err);
        kl_array_release(rows);
        if (rc) break;
    }
    if (!rc) rc = kl_concatenate_axis(out, layers, n_arrays, axis, s, err);
    kl_release_all(layers, made);
    kl_free(layers);
    return rc;
}

int kl_stack(struct kl_array **out, struct kl_array *const *arrays, size_t n_arrays,
             struct kl_stream *s, struct kl_error **err) {
    return kl_stack_axis(out, arrays, n_arrays, 0, s, err);
}

/* ---- split ---- */
/* The parts [cut[i], cut[i + 1]) along axis; a part whose end is not after its start is empty. cut
 * has n + 1 entries. */
static int split_at(struct kl_array ***outs, size_t *n_outs, struct kl_array *a, const int *cut,
                    size_t n, int axis, struct kl_error **err) {
    int start[KL_MAX_NDIM] = {0}, step[KL_MAX_NDIM], dims[KL_MAX_NDIM];
    struct kl_array **parts = kl_malloc(n * sizeof(struct kl_array *));
    if (!parts) return kl_fail_nomem(err);
    for (int i = 0; i < a->t.ndim; i++) {
        step[i] = 1;
        dims[i] = a->t.dims[i];
    }
    for (size_t k = 0; k < n; k++) {
        start[axis] = cut[k];
        dims[axis] = cut[k + 1] > cut[k] ? cut[k + 1] - cut[k] : 0;
        int rc = kl_slice_to(&parts[k], a, start, step, dims, err);
        if (rc) {
            kl_release_all(parts, k);
            kl_free(parts);
            return rc;
        }
    }
    *outs = parts;
    *n_outs = n;
    return KL_OK;
}

int kl_split(struct kl_array ***outs, size_t *n_outs, struct kl_array *a, int num_splits, int axis,
             struct kl_stream *s, struct kl_error **err) {
    int deferred;
    if (num_splits > 0 && kl_shapeless_traces() &&
        kl_defer_many(&deferred, outs, n_outs, (size_t)num_splits, KL_DEFERRED_SPLIT, s, err, a,
                      num_splits, axis, 0))
        return deferred;
    KL_TRY(kl_check_array(a, "a", err));
    KL_TRY(kl_check_axis(&axis, a->t.ndim, err));
    if (num_splits < 1)
        return kl_fail(err, KL_EARG, "%d parts are asked for; at least 1 is needed", num_splits);
    if (a->t.dims[axis] % num_splits)
        return kl_fail(err, KL_ESHAPE, "axis %d of shape %s cannot be cut into %d equal parts",
                       axis, KL_SHAPE_TEXT_OF(a), num_splits);
    int *cut = kl_malloc(((size_t)num_splits + 1) * sizeof *cut);
    if (!cut) return kl_fail_nomem(err);
    for (int k = 0; k <= num_splits; k++) cut[k] = (int)((int64_t)a->t.dims[axis] * k / num_splits);
    int rc = split_at(outs, n_outs, a, cut, (size_t)num_splits, axis, err);
    kl_free(cut);
    return rc;
}

int kl_split_sections(struct kl_array ***outs, size_t *n_outs, struct kl_array *a,
                      const int *indices, size_t indices_num, int axis, struct kl_stream *s,
                      struct kl_error **err) {
    int deferred;
    if (kl_shapeless_traces() &&
        kl_defer_many(&deferred, outs, n_outs, indices_num + 1, KL_DEFERRED_SPLIT_SECTIONS, s, err,
                      a, indices, indices_num, axis, 0))
        return deferred;
    KL_TRY(kl_check_array(a, "a", err));
    KL_TRY(kl_check_axis(&axis, a->t.ndim, err));
    if (indices_num && !indices)
        return kl_fail(err, KL_EARG, "the list of cuts is NULL with a count of %zu", indices_num);
    if (indices_num > INT32_MAX)
        return kl_fail(err, KL_ELIMIT, "%zu cuts are too many", indices_num);
    int *cut = kl_malloc((indices_num + 2) * sizeof *cut);
    if (!cut) return kl_fail_nomem(err);
    int64_t n = a->t.dims[axis];
    cut[0] = 0;
    for (size_t k = 0; k < indices_num; k++)
        cut[k + 1] = (int)clamp(indices[k] < 0 ? indices[k] + n : indices[k], 0, n);
    cut[indices_num + 1] = (int)n;
    int rc = split_at(outs, n_outs, a, cut, indices_num + 1, axis, err);
    kl_free(cut);
    return rc;
}

/* ---- gradients ---- */
int kl_vjp_slice(const struct kl_vjp *v, struct kl_array **grad, struct kl_error **err) {
    struct kl_array *zeros;
    KL_TRY(kl_zeros_like(&zeros, v->in[0], v->s, err));
    int rc = put_slice(&grad[0], zeros, v->cotangent[0], v->params, v->s, err);
    kl_array_release(zeros);
    return rc;
}

int kl_vjp_slice_update(const struct kl_vjp *v, struct kl_array **grad, struct kl_error **err) {
    const struct kl_slice_params *p = v->params;
    int start[KL_MAX_NDIM], step[KL_MAX_NDIM];
    for (int i = 0; i < p->ndim; i++) {
        start[i] = (int)p->v[i];
        step[i] = (int)p->v[p->ndim + i];
    }
    if (v->wanted[0]) {
        struct kl_array *zeros;
        KL_TRY(kl_zeros_like(&zeros, v->in[1], v->s, err));
        int rc = put_slice(&grad[0], v->cotangent[0], zeros, p, v->s, err);
        kl_array_release(zeros);
        if (rc) return rc;
    }
    if (!v->wanted[1]) return KL_OK;
    return kl_slice_to(&grad[1], v->cotangent[0], start, step, v->in[1]->t.dims, err);
}

int kl_vjp_concatenate(const struct kl_vjp *v, struct kl_array **grad, struct kl_error **err) {
    int axis = ((const struct kl_axis_params *)v->params)->axis;
    int start[KL_MAX_NDIM] = {0}, step[KL_MAX_NDIM];
    for (int i = 0; i < v->out[0]->t.ndim; i++) step[i] = 1;
    for (int k = 0; k < v->n_in; k++) {
        const int *dims = v->in[k]->t.dims;
        if (v->wanted[k]) KL_TRY(kl_slice_to(&grad[k], v->cotangent[0], start, step, dims, err));
        start[axis] += dims[axis];
    }
    return KL_OK;
}

/* ---- made again ---- */

/* Puts starts and steps for an array of shape a, of which the slice has the extents dims, into
 * start and step. */
static int slice_of(int *start, int *step, const struct kl_build *b, const struct kl_array *a,
                    int ndim, const int *dims, struct kl_error **err) {
    struct kl_slice_buf p;
    int n;
    KL_TRY(kl_build_params_list(b, &p, offsetof(struct kl_slice_buf, v), sizeof *p.v,
                                2 * KL_MAX_NDIM, &n, err));
    KL_TRY(kl_build_count(p.ndim, a->t.ndim, "axes", err));
    KL_TRY(kl_build_count(n, 2 * a->t.ndim, "starts and strides", err));
    KL_TRY(kl_build_count(ndim, a->t.ndim, "extents", err));
    for (int i = 0; i < ndim; i++) {
        const int64_t first = p.v[i], by = p.v[ndim + i], size = a->t.dims[i];
        /* the stride of one element, or of none, has no effect; it must fit into an int all the
         * same */
        bool fits = by != 0 && by >= INT32_MIN && by <= INT32_MAX && dims[i] >= 0 && first >= 0 &&
                    first <= size;
        if (fits && dims[i] > 0) {
            int64_t last = first + (dims[i] == 1 ? 0 : (dims[i] - 1) * by);
            fits = first < size && last >= 0 && last < size;
        }
        if (!fits)
            return kl_fail(err, KL_ESHAPE,
                           "%d elements from %lld on with stride %lld are not on axis %d of an "
                           "array of shape %s",
                           dims[i], (long long)first, (long long)by, i, KL_SHAPE_TEXT_OF(a));
        start[i] = (int)first;
        step[i] = (int)by;
    }
    return KL_OK;
}

int kl_rebuild_slice(const struct kl_build *b, struct kl_array **out, struct kl_error **err) {
    int start[KL_MAX_NDIM], step[KL_MAX_NDIM];
    KL_TRY(slice_of(start, step, b, b->in[0], b->ndim, b->dims, err));
    return kl_slice_to(out, b->in[0], start, step, b->dims, err);
}

int kl_rebuild_slice_update(const struct kl_build *b, struct kl_array **out,
                            struct kl_error **err) {
    struct kl_array *base = b->in[0], *typed;
    int start[KL_MAX_NDIM], step[KL_MAX_NDIM];
    struct kl_slice_buf p;
    KL_TRY(slice_of(start, step, b, base, b->in[1]->t.ndim, b->in[1]->t.dims, err));
    KL_TRY(kl_check_stream(b->s, err));
    KL_TRY(kl_cast_to(&typed, b->in[1], (enum kl_dtype)base->t.dtype, b->s, err));
    slice_params(&p, base->t.ndim, start, step);
    int rc = put_slice(out, base, typed, (const struct kl_slice_params *)&p, b->s, err);
    kl_array_release(typed);
    return rc;
}

int kl_rebuild_concatenate(const struct kl_build *b, struct kl_array **out, struct kl_error **err) {
    struct kl_axis_params p;
    KL_TRY(kl_build_params(b, &p, sizeof p, err));
    if (b->n_in > 0) KL_TRY(kl_build_axis(p.axis, b->in[0]->t.ndim, err));
    return kl_concatenate_axis(out, b->in, (size_t)b->n_in, p.axis, b->s, err);
}

/* ---- batches ---- */

/* The slice of every lane. */
static int all_lanes(struct kl_slice_buf *p, const struct kl_vmap *v, struct kl_error **err) {
    const struct kl_slice_params *one = v->params;
    const int n = one->ndim;
    if (n >= KL_MAX_NDIM)
        return kl_fail(err, KL_ESHAPE,
                       "%d axes and that of the lanes are too many; %d are possible", n,
                       KL_MAX_NDIM);
    p->ndim = n + 1;
    p->v[0] = 0;
    p->v[n + 1] = 1;
    for (int i = 0; i < n; i++) {
        p->v[1 + i] = one->v[i];
        p->v[n + 2 + i] = one->v[n + i];
    }
    return KL_OK;
}

int kl_vmap_slice(const struct kl_vmap *v, struct kl_array **out, int *axis,
                  struct kl_error **err) {
    struct kl_slice_buf p;
    KL_TRY(all_lanes(&p, v, err));
    *axis = 0;
    return kl_vmap_build(v, out, &p, kl_slice_params_bytes(&p), v->in, err);
}

int kl_vmap_slice_update(const struct kl_vmap *v, struct kl_array **out, int *axis,
                         struct kl_error **err) {
    struct kl_slice_buf p;
    struct kl_array *in[2];
    KL_TRY(all_lanes(&p, v, err));
    KL_TRY(kl_vmap_inputs(v, in, err));
    int rc = kl_vmap_build(v, out, &p, kl_slice_params_bytes(&p), in, err);
    kl_release_all(in, 2);
    *axis = 0;
    return rc;
}

int kl_vmap_concatenate(const struct kl_vmap *v, struct kl_array **out, int *axis,
                        struct kl_error **err) {
    const struct kl_axis_params p = {((const struct kl_axis_params *)v->params)->axis + 1};
    const size_t n = (size_t)v->n_in;
    struct kl_array **in = kl_malloc(n * sizeof(struct kl_array *));
    if (!in) return kl_fail_nomem(err);
    int rc = kl_vmap_inputs(v, in, err);
    if (!rc) {
        rc = kl_vmap_build(v, out, &p, sizeof p, in, err);
        kl_release_all(in, n);
    }
    kl_free(in);
    *axis = 0;
    return rc;
}
