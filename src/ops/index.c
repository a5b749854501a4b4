/* index.c - see index_parts.h. */
#include "ops/index_parts.h"

#include "base/value/out_of_range.h"
#include "ops/build/meet.h"
#include "ops/build/views.h"

int kl_check_index_axes(const int *axes, size_t axes_num, size_t n_indices, int ndim,
                        struct kl_error **err) {
    uint64_t seen = 0;
    if (axes_num != n_indices)
        return kl_fail(err, KL_EARG,
                       "%zu axes are given for %zu index arrays; one per array is needed", axes_num,
                       n_indices);
    KL_TRY(kl_check_list(axes, axes_num, "the list of axes", err));
    for (size_t i = 0; i < axes_num; i++) {
        if (axes[i] < 0 || axes[i] >= ndim)
            return kl_fail_axis(err, axes[i],
                                "axis %d is out of range for %d axes; 0 to %d are taken", axes[i],
                                ndim, ndim - 1);
        if (seen >> axes[i] & 1)
            return kl_fail_axis(err, axes[i], "axis %d is given twice", axes[i]);
        seen |= UINT64_C(1) << axes[i];
    }
    return KL_OK;
}

int kl_meet_indices(struct kl_array **out, struct kl_shape *shape, struct kl_array *const *indices,
                    size_t n, struct kl_error **err) {
    int64_t size;
    for (size_t i = 0; i < n; i++) KL_TRY(kl_check_index_dtype(indices[i], err));
    KL_TRY(kl_broadcast_shape(shape, indices, n, err));
    if (!kl_shape_size(shape->ndim, shape->dims, sizeof(int64_t), &size))
        return kl_fail(err, KL_ELIMIT, "the indices' common shape %s is too large",
                       KL_SHAPE_TEXT(shape->ndim, shape->dims));
    for (size_t i = 0; i < n; i++) {
        int rc = kl_broadcast_view(&out[i], indices[i], shape->ndim, shape->dims, err);
        if (rc) {
            kl_release_all(out, i);
            return rc;
        }
    }
    return KL_OK;
}

int kl_meet_along(struct kl_array **a_out, struct kl_array **indices_out, struct kl_array *a,
                  struct kl_array *indices, int *axis, struct kl_stream *s, struct kl_error **err) {
    struct kl_shape a_to = kl_shape_of(a), i_to = kl_shape_of(indices);
    KL_TRY(kl_check_axis(axis, a->t.ndim, err));
    KL_TRY(kl_check_index_dtype(indices, err));
    if (a_to.ndim != i_to.ndim)
        return kl_fail(err, KL_ESHAPE, "the indices have %d axes, the array %d; as many are needed",
                       i_to.ndim, a_to.ndim);
    for (int i = 0; i < a_to.ndim; i++) {
        if (i == *axis || a_to.dims[i] == i_to.dims[i]) continue;
        if (a_to.dims[i] != 1 && i_to.dims[i] != 1)
            return kl_fail(
                err, KL_ESHAPE,
                "indices of shape %s do not broadcast with an array of shape %s except for axis %d",
                KL_SHAPE_TEXT_OF(indices), KL_SHAPE_TEXT_OF(a), *axis);
        a_to.dims[i] = i_to.dims[i] = a_to.dims[i] == 1 ? i_to.dims[i] : a_to.dims[i];
    }
    struct kl_array *rows;
    KL_TRY(kl_in_rows(&rows, a, KL_ROWS_MOVED, s, err));
    int rc = kl_broadcast_view(a_out, rows, a_to.ndim, a_to.dims, err);
    kl_array_release(rows);
    if (rc) return rc;
    rc = kl_in_rows(&rows, indices, KL_ROWS_MOVED, s, err);
    if (!rc) {
        rc = kl_broadcast_view(indices_out, rows, i_to.ndim, i_to.dims, err);
        kl_array_release(rows);
    }
    if (rc) kl_array_release(*a_out);
    return rc;
}

/* ---- indices of operations that do not check theirs ---- */

/* They are taken from the numbers that are possible. A bad read gives 0, so where the kernels are
 * to go on these are counted from 1. */
struct kl_array *kl_term_checked(struct kl_terms *t, struct kl_array *indices, int n,
                                 enum kl_dtype dtype, enum kl_alias alias,
                                 struct kl_array **valid) {
    const int from = kl_out_of_range_zero();
    *valid = NULL;
    struct kl_array *all =
        KL_TERM(t, kl_arange(&t->made, from, (double)n + from, 1, dtype, t->s, t->err));
    struct kl_origin before = kl_alias_set(alias);
    struct kl_array *x = KL_TERM(t, kl_take_axis(&t->made, all, indices, 0, t->s, t->err));
    kl_origin_set(before);
    if (from) {
        *valid = kl_term_by(t, kl_not_equal, x, 0);
        x = kl_term_by(t, kl_subtract, kl_term_by(t, kl_maximum, x, 1), 1);
    }
    if (x && n > 0) kl_array_set_range(x, 0, n - 1);
    return x;
}

struct kl_array *kl_term_if_valid(struct kl_terms *t, struct kl_array *y, struct kl_array *valid,
                                  int n_tail) {
    if (t->rc || !valid) return y;
    struct kl_shape to = kl_shape_of(valid);
    while (n_tail-- > 0) to.dims[to.ndim++] = 1;
    valid = KL_TERM(t, kl_reshape_to(&t->made, valid, to.ndim, to.dims, t->s, t->err));
    return t->rc ? NULL
                 : kl_term_where(t, valid, y, kl_term_number(t, 0, (enum kl_dtype)y->t.dtype));
}
