/* slice_dynamic.c - slices whose starts are in an array: a gather, or a scatter, at one position
 * with one index per axis. So the starts are checked like every index: when the slice does not fit
 * into the array from its start on, the result fails. */
#include "base/op/index.h"
#include "ops/build/deferred.h"
#include "ops/build/meet.h"
#include "ops/build/views.h"
#include "ops/index_parts.h"
#include "ops/ops.h"

/* Entry i of start, as a 0-d array. */
static int entry(struct kl_array **out, struct kl_array *start, int i, struct kl_stream *s,
                 struct kl_error **err) {
    struct kl_array *one;
    int step = 1, dims = 1;
    if (start->t.ndim == 0) {
        *out = kl_array_retain(start);
        return KL_OK;
    }
    KL_TRY(kl_slice_to(&one, start, &i, &step, &dims, err));
    int rc = kl_squeeze_axis(out, one, 0, s, err);
    kl_array_release(one);
    return rc;
}

/* One 0-d view of start per axis, owned by the caller. Axes are made non-negative. */
static int starts(struct kl_array **out, int *on, struct kl_array *a, struct kl_array *start,
                  const int *axes, size_t n, struct kl_stream *s, struct kl_error **err) {
    KL_TRY(kl_check_array(start, "start", err));
    KL_TRY(kl_check_list(axes, n, "axes", err));
    if (start->t.ndim > 1)
        return kl_fail(err, KL_ESHAPE, "start has shape %s; at most one axis is taken",
                       KL_SHAPE_TEXT_OF(start));
    if (start->t.size != (int64_t)n)
        return kl_fail(err, KL_ESHAPE, "start has %lld entries for %zu axes",
                       (long long)start->t.size, n);
    if (n && !kl_index_dtype(start->t.dtype))
        return kl_fail(err, KL_EDTYPE, "start is %s; integers are taken",
                       kl_dtype_name(start->t.dtype));
    for (size_t i = 0; i < n; i++) {
        on[i] = axes[i];
        KL_TRY(kl_check_axis(&on[i], a->t.ndim, err));
        for (size_t k = 0; k < i; k++)
            if (on[k] == on[i]) return kl_fail(err, KL_EARG, "axis %d is named twice", axes[i]);
    }
    for (size_t i = 0; i < n; i++) {
        int rc = entry(&out[i], start, (int)i, s, err);
        if (!rc) continue;
        kl_release_all(out, i);
        return rc;
    }
    return KL_OK;
}

int kl_slice_dynamic(struct kl_array **out, struct kl_array *a, struct kl_array *start,
                     const int *axes, size_t axes_num, const int *slice_size, size_t slice_size_num,
                     struct kl_stream *s, struct kl_error **err) {
    KL_DEFER(SLICE_DYNAMIC, a, start, axes, axes_num, slice_size, slice_size_num);
    struct kl_array *at[KL_MAX_NDIM];
    int on[KL_MAX_NDIM], zero[KL_MAX_NDIM] = {0}, one[KL_MAX_NDIM];
    KL_TRY(kl_check_array(a, "a", err));
    KL_TRY(kl_check_stream(s, err));
    KL_TRY(kl_check_list(slice_size, slice_size_num, "slice_size", err));
    if (slice_size_num != (size_t)a->t.ndim)
        return kl_fail(err, KL_ESHAPE, "slice_size has %zu entries for shape %s", slice_size_num,
                       KL_SHAPE_TEXT_OF(a));
    for (int i = 0; i < a->t.ndim; i++) {
        one[i] = 1;
        if (slice_size[i] < 0 || slice_size[i] > a->t.dims[i])
            return kl_fail(err, KL_ESHAPE, "a slice of %d on axis %d of shape %s", slice_size[i], i,
                           KL_SHAPE_TEXT_OF(a));
    }
    KL_TRY(starts(at, on, a, start, axes, axes_num, s, err));
    struct kl_origin before = kl_alias_set(KL_ALIAS_SLICE);
    int rc = axes_num
                 ? kl_gather(out, a, at, axes_num, on, axes_num, slice_size, slice_size_num, s, err)
                 : kl_slice_to(out, a, zero, one, slice_size, err);
    kl_origin_set(before);
    kl_release_all(at, axes_num);
    return rc;
}

int kl_slice_update_dynamic(struct kl_array **out, struct kl_array *src, struct kl_array *update,
                            struct kl_array *start, const int *axes, size_t axes_num,
                            struct kl_stream *s, struct kl_error **err) {
    KL_DEFER(SLICE_UPDATE_DYNAMIC, src, update, start, axes, axes_num);
    struct kl_array *at[KL_MAX_NDIM], *shaped;
    int on[KL_MAX_NDIM], dims[KL_MAX_NDIM], zero[KL_MAX_NDIM] = {0}, one[KL_MAX_NDIM];
    KL_TRY(kl_check_array(src, "src", err));
    KL_TRY(kl_check_array(update, "update", err));
    KL_TRY(kl_check_stream(s, err));
    int lead = src->t.ndim - update->t.ndim;
    if (lead < 0)
        return kl_fail(err, KL_ESHAPE, "the update has shape %s, more axes than %s",
                       KL_SHAPE_TEXT_OF(update), KL_SHAPE_TEXT_OF(src));
    for (int i = 0; i < src->t.ndim; i++) {
        dims[i] = i < lead ? 1 : update->t.dims[i - lead];
        one[i] = 1;
        if (dims[i] > src->t.dims[i])
            return kl_fail(err, KL_ESHAPE, "an update of shape %s does not fit into shape %s",
                           KL_SHAPE_TEXT_OF(update), KL_SHAPE_TEXT_OF(src));
    }
    KL_TRY(starts(at, on, src, start, axes, axes_num, s, err));
    int rc = kl_reshape_to(&shaped, update, src->t.ndim, dims, s, err);
    if (!rc) {
        if (axes_num) {
            struct kl_origin before = kl_alias_set(KL_ALIAS_SLICE_UPDATE);
            rc = kl_scatter(out, src, at, axes_num, shaped, on, axes_num, s, err);
            kl_origin_set(before);
        } else {
            int stop[KL_MAX_NDIM];
            for (int i = 0; i < src->t.ndim; i++) stop[i] = dims[i];
            size_t n = (size_t)src->t.ndim;
            rc = kl_slice_update(out, src, shaped, zero, n, stop, n, one, n, s, err);
        }
        kl_array_release(shaped);
    }
    kl_release_all(at, axes_num);
    return rc;
}
