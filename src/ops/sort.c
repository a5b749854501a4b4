/* sort.c - sort, argsort, partition, argpartition and topk, along an axis or over all elements. */
#include "base/op/op_params.h"
#include "ops/build/build.h"
#include "ops/build/deferred.h"
#include "ops/build/terms.h"
#include "ops/build/meet.h"
#include "ops/ops.h"
#include "ops/build/views.h"
#include "ops/build/vjp.h"
#include "ops/build/vmap.h"

/* Builds the operation, whose result has the size of a but along the axis, which is the first of
 * its parameters. On a CPU other axes than the last one of large arrays are brought there, in a
 * copy, and those of the result back: to gather each column by itself takes five times as long. */
static int along(struct kl_array **out, enum kl_op_id op, struct kl_array *a, void *params,
                 size_t params_bytes, enum kl_dtype dtype, int size, struct kl_stream *s,
                 struct kl_error **err) {
    struct kl_array *moved, *rows, *made;
    const int axis = *(int *)params, last = a->t.ndim - 1;
    const bool moves =
        axis < last && a->t.size >= KL_ROWS_FROM && kl_stream_device_type(s) == KL_CPU;
    int perm[KL_MAX_NDIM];
    for (int i = 0; i <= last; i++) perm[i] = moves && i == axis ? last : i;
    if (moves) perm[last] = axis;
    KL_TRY(kl_permute(&moved, a, perm, err));
    int rc = kl_in_rows(&rows, moved, KL_ROWS_READ, s, err);
    kl_array_release(moved);
    if (rc) return rc;
    if (moves) *(int *)params = last;
    struct kl_shape shape = kl_shape_of(rows);
    shape.dims[*(int *)params] = size;
    rc = kl_array_op1(&made,
                      &(struct kl_operation){.op = op,
                                             .stream = s,
                                             .params = params,
                                             .params_bytes = params_bytes,
                                             .in = &rows,
                                             .n_in = 1},
                      dtype, shape.ndim, shape.dims, err);
    kl_array_release(rows);
    if (rc) return rc;
    rc = kl_permute(&moved, made, perm, err); /* an exchange of two axes is its own inverse */
    kl_array_release(made);
    if (rc) return rc;
    rc = kl_contiguous(out, moved, false, s, err);
    kl_array_release(moved);
    return rc;
}

static int sort_axis(struct kl_array **out, enum kl_op_id op, struct kl_array *a, int axis,
                     struct kl_stream *s, struct kl_error **err) {
    KL_TRY(kl_check_array(a, "a", err));
    KL_TRY(kl_check_axis(&axis, a->t.ndim, err));
    KL_TRY(kl_check_stream(s, err));
    struct kl_axis_params p = {axis};
    enum kl_dtype dtype = op == KL_OP_SORT ? a->t.dtype : KL_U32;
    KL_TRY(along(out, op, a, &p, sizeof p, dtype, a->t.dims[axis], s, err));
    if (op == KL_OP_ARGSORT && a->t.dims[axis] > 0)
        kl_array_set_range(*out, 0, a->t.dims[axis] - 1);
    return KL_OK;
}

static int sort_all(struct kl_array **out, enum kl_op_id op, struct kl_array *a,
                    struct kl_stream *s, struct kl_error **err) {
    struct kl_array *flat;
    KL_TRY(kl_check_array(a, "a", err));
    KL_TRY(kl_check_stream(s, err));
    KL_TRY(kl_flatten_all(&flat, a, s, err));
    int rc = sort_axis(out, op, flat, 0, s, err);
    kl_array_release(flat);
    return rc;
}

int kl_sort(struct kl_array **out, struct kl_array *a, struct kl_stream *s, struct kl_error **err) {
    return sort_all(out, KL_OP_SORT, a, s, err);
}

int kl_argsort(struct kl_array **out, struct kl_array *a, struct kl_stream *s,
               struct kl_error **err) {
    return sort_all(out, KL_OP_ARGSORT, a, s, err);
}

int kl_sort_axis(struct kl_array **out, struct kl_array *a, int axis, struct kl_stream *s,
                 struct kl_error **err) {
    return sort_axis(out, KL_OP_SORT, a, axis, s, err);
}

int kl_argsort_axis(struct kl_array **out, struct kl_array *a, int axis, struct kl_stream *s,
                    struct kl_error **err) {
    return sort_axis(out, KL_OP_ARGSORT, a, axis, s, err);
}

/* Devices sort the whole row, which is a valid partition too. */
static int partition(struct kl_array **out, enum kl_op_id op, struct kl_array *a, int kth, int axis,
                     struct kl_stream *s, struct kl_error **err) {
    KL_TRY(kl_check_array(a, "a", err));
    KL_TRY(kl_check_axis(&axis, a->t.ndim, err));
    KL_TRY(kl_check_stream(s, err));
    int n = a->t.dims[axis];
    if (kth < -n || kth >= n)
        return kl_fail(err, KL_EARG, "kth is %d, and axis %d has %d elements", kth, axis, n);
    struct kl_partition_params p = {axis, kth < 0 ? kth + n : kth};
    enum kl_dtype dtype = op == KL_OP_PARTITION ? a->t.dtype : KL_U32;
    KL_TRY(along(out, op, a, &p, sizeof p, dtype, n, s, err));
    if (op == KL_OP_ARGPARTITION) kl_array_set_range(*out, 0, n - 1);
    return KL_OK;
}

int kl_partition_axis(struct kl_array **out, struct kl_array *a, int kth, int axis,
                      struct kl_stream *s, struct kl_error **err) {
    KL_DEFER(PARTITION, a, kth, axis);
    return partition(out, KL_OP_PARTITION, a, kth, axis, s, err);
}

int kl_argpartition_axis(struct kl_array **out, struct kl_array *a, int kth, int axis,
                         struct kl_stream *s, struct kl_error **err) {
    KL_DEFER(ARGPARTITION, a, kth, axis);
    return partition(out, KL_OP_ARGPARTITION, a, kth, axis, s, err);
}

static int partition_all(struct kl_array **out, enum kl_op_id op, struct kl_array *a, int kth,
                         struct kl_stream *s, struct kl_error **err) {
    struct kl_array *flat;
    KL_TRY(kl_check_array(a, "a", err));
    KL_TRY(kl_check_stream(s, err));
    KL_TRY(kl_flatten_all(&flat, a, s, err));
    int rc = partition(out, op, flat, kth, 0, s, err);
    kl_array_release(flat);
    return rc;
}

int kl_partition(struct kl_array **out, struct kl_array *a, int kth, struct kl_stream *s,
                 struct kl_error **err) {
    KL_DEFER(PARTITION_ALL, a, kth);
    return partition_all(out, KL_OP_PARTITION, a, kth, s, err);
}

int kl_argpartition(struct kl_array **out, struct kl_array *a, int kth, struct kl_stream *s,
                    struct kl_error **err) {
    KL_DEFER(ARGPARTITION_ALL, a, kth);
    return partition_all(out, KL_OP_ARGPARTITION, a, kth, s, err);
}

int kl_topk_axis(struct kl_array **out, struct kl_array *a, int k, int axis, struct kl_stream *s,
                 struct kl_error **err) {
    KL_DEFER(TOPK, a, k, axis);
    KL_TRY(kl_check_array(a, "a", err));
    KL_TRY(kl_check_axis(&axis, a->t.ndim, err));
    KL_TRY(kl_check_stream(s, err));
    int n = a->t.dims[axis];
    if (k < 0 || k > n)
        return kl_fail(err, KL_EARG,
                       "the %d largest of axis %d with size %d are asked for; 0 to %d are possible",
                       k, axis, n, n);
    struct kl_partition_params p = {axis, k};
    return along(out, KL_OP_TOPK, a, &p, sizeof p, (enum kl_dtype)a->t.dtype, k, s, err);
}

int kl_topk(struct kl_array **out, struct kl_array *a, int k, struct kl_stream *s,
            struct kl_error **err) {
    KL_DEFER(TOPK_ALL, a, k);
    struct kl_array *flat;
    KL_TRY(kl_check_array(a, "a", err));
    KL_TRY(kl_check_stream(s, err));
    KL_TRY(kl_flatten_all(&flat, a, s, err));
    int rc = kl_topk_axis(out, flat, k, 0, s, err);
    kl_array_release(flat);
    return rc;
}

/* ---- gradients: each cotangent goes to the element that its result came from ---- */
int kl_vjp_order(const struct kl_vjp *v, struct kl_array **grad, struct kl_error **err) {
    struct kl_array *x = v->in[0], *places, *none;
    const struct kl_axis_params *sorted = v->params;
    const struct kl_partition_params *parted = v->params;
    if (!v->wanted[0] || !(kl_dtype_is_float(x->t.dtype) || x->t.dtype == KL_C64)) return KL_OK;
    int axis = v->op == KL_OP_SORT ? sorted->axis : parted->axis;
    if (v->op == KL_OP_PARTITION)
        KL_TRY(kl_argpartition_axis(&places, x, parted->kth, axis, v->s, err));
    else
        KL_TRY(kl_argsort_axis(&places, x, axis, v->s, err));
    if (v->op == KL_OP_TOPK) { /* the last k positions of the sorted row */
        int start[KL_MAX_NDIM] = {0}, step[KL_MAX_NDIM];
        struct kl_array *all = places;
        for (int i = 0; i < x->t.ndim; i++) step[i] = 1;
        start[axis] = x->t.dims[axis] - parted->kth;
        int rc = kl_slice_to(&places, all, start, step, v->out[0]->t.dims, err);
        kl_array_release(all);
        if (rc) return rc;
    }
    int rc = kl_zeros_like(&none, x, v->s, err);
    if (rc == KL_OK) {
        rc = kl_put_along_axis(grad, none, places, v->cotangent[0], axis, v->s, err);
        kl_array_release(none);
    }
    kl_array_release(places);
    return rc;
}

/* ---- made again ---- */
int kl_rebuild_sort(const struct kl_build *b, struct kl_array **out, struct kl_error **err) {
    struct kl_axis_params p;
    KL_TRY(kl_build_params(b, &p, sizeof p, err));
    KL_TRY(kl_build_axis(p.axis, b->in[0]->t.ndim, err));
    return sort_axis(out, b->op, b->in[0], p.axis, b->s, err);
}

int kl_rebuild_partition(const struct kl_build *b, struct kl_array **out, struct kl_error **err) {
    struct kl_partition_params p;
    KL_TRY(kl_build_params(b, &p, sizeof p, err));
    KL_TRY(kl_build_axis(p.axis, b->in[0]->t.ndim, err));
    if (p.kth < 0)
        return kl_fail(err, KL_EARG, "%d in the parameters of %s; it is 0 or more", p.kth,
                       kl_op_name(b->op));
    if (b->op == KL_OP_TOPK) return kl_topk_axis(out, b->in[0], p.kth, p.axis, b->s, err);
    return partition(out, b->op, b->in[0], p.kth, p.axis, b->s, err);
}

/* ---- batches ---- */
int kl_vmap_sort(const struct kl_vmap *v, struct kl_array **out, int *axis, struct kl_error **err) {
    const struct kl_axis_params p = {((const struct kl_axis_params *)v->params)->axis + 1};
    *axis = 0;
    return kl_vmap_build(v, out, &p, sizeof p, v->in, err);
}

int kl_vmap_partition(const struct kl_vmap *v, struct kl_array **out, int *axis,
                      struct kl_error **err) {
    struct kl_partition_params p = *(const struct kl_partition_params *)v->params;
    p.axis++;
    *axis = 0;
    return kl_vmap_build(v, out, &p, sizeof p, v->in, err);
}
