/* sort.c - sort, argsort and topk, along an axis or of all elements. */
#include "base/op_params.h"
#include "ops/meet.h"
#include "ops/ops.h"
#include "ops/views.h"

static int sort_axis(struct kl_array **out, enum kl_op_id op, struct kl_array *a, int axis,
                     struct kl_stream *s, struct kl_error **err) {
    KL_TRY(kl_check_array(a, "a", err));
    KL_TRY(kl_check_axis(&axis, a->t.ndim, err));
    KL_TRY(kl_check_stream(s, err));
    struct kl_axis_params p = {axis};
    enum kl_dtype dtype = op == KL_OP_SORT ? a->t.dtype : KL_U32;
    KL_TRY(kl_array_op1(out, op, s, &p, sizeof p, &a, 1, dtype, a->t.ndim, a->t.dims, err));
    if (op == KL_OP_ARGSORT && a->t.dims[axis] > 0)
        kl_array_set_range(*out, 0, a->t.dims[axis] - 1);
    else if (op == KL_OP_SORT && a->has_range)
        kl_array_set_range(*out, a->lo, a->hi);
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

int kl_topk_axis(struct kl_array **out, struct kl_array *a, int k, int axis, struct kl_stream *s,
                 struct kl_error **err) {
    int start[KL_MAX_NDIM] = {0}, step[KL_MAX_NDIM], dims[KL_MAX_NDIM];
    struct kl_array *sorted;
    KL_TRY(kl_check_array(a, "a", err));
    KL_TRY(kl_check_axis(&axis, a->t.ndim, err));
    int n = a->t.dims[axis];
    if (k < 0 || k > n)
        return kl_fail(err, KL_EARG,
                       "the %d largest of axis %d with size %d are asked for; 0 to %d are possible",
                       k, axis, n, n);
    KL_TRY(kl_sort_axis(&sorted, a, axis, s, err));
    for (int i = 0; i < a->t.ndim; i++) {
        step[i] = 1;
        dims[i] = a->t.dims[i];
    }
    start[axis] = n - k;
    dims[axis] = k;
    int rc = kl_slice_to(out, sorted, start, step, dims, err);
    kl_array_release(sorted);
    return rc;
}

int kl_topk(struct kl_array **out, struct kl_array *a, int k, struct kl_stream *s,
            struct kl_error **err) {
    struct kl_array *flat;
    KL_TRY(kl_check_array(a, "a", err));
    KL_TRY(kl_check_stream(s, err));
    KL_TRY(kl_flatten_all(&flat, a, s, err));
    int rc = kl_topk_axis(out, flat, k, 0, s, err);
    kl_array_release(flat);
    return rc;
}
