/* product_composed.c - products made of other operations: outer, inner, kron and tensordot by
 * broadcasting and matrix products; addmm. */
#include "ops/build/deferred.h"
#include "ops/build/meet.h"
#include "ops/build/terms.h"
#include "ops/build/views.h"
#include "ops/ops.h"

static int check_two(struct kl_array *a, struct kl_array *b, struct kl_stream *s,
                     struct kl_error **err) {
    KL_TRY(kl_check_array(a, "a", err));
    KL_TRY(kl_check_array(b, "b", err));
    return kl_check_stream(s, err);
}

int kl_outer(struct kl_array **out, struct kl_array *a, struct kl_array *b, struct kl_stream *s,
             struct kl_error **err) {
    KL_DEFER(OUTER, a, b);
    struct kl_terms t = kl_terms_begin(s, err);
    KL_TRY(check_two(a, b, s, err));
    struct kl_array *col = KL_TERM(&t, kl_flatten_all(&t.made, a, s, err));
    col = KL_TERM(&t, kl_expand_dims(&t.made, col, 1, s, err));
    struct kl_array *row = KL_TERM(&t, kl_flatten_all(&t.made, b, s, err));
    struct kl_array *product = KL_TERM(&t, kl_multiply(&t.made, col, row, s, err));
    return kl_terms_end(&t, product, out);
}

/* ---- kron ---- */
int kl_kron(struct kl_array **out, struct kl_array *a, struct kl_array *b, struct kl_stream *s,
            struct kl_error **err) {
    KL_DEFER(KRON, a, b);
    struct kl_terms t = kl_terms_begin(s, err);
    struct kl_shape from_a = {0}, from_b = {0}, to = {0}, checked;
    KL_TRY(check_two(a, b, s, err));
    int n = a->t.ndim > b->t.ndim ? a->t.ndim : b->t.ndim;
    if (2 * n > KL_MAX_NDIM)
        return kl_fail(err, KL_ESHAPE, "operands of %d axes; at most %d are possible", n,
                       KL_MAX_NDIM / 2);
    /* along each axis: an axis for the elements of a, then one for those of b */
    for (int i = 0; i < n; i++) {
        int at_a = i - (n - a->t.ndim), at_b = i - (n - b->t.ndim);
        int da = at_a < 0 ? 1 : a->t.dims[at_a], db = at_b < 0 ? 1 : b->t.dims[at_b];
        from_a.dims[from_a.ndim++] = da;
        from_a.dims[from_a.ndim++] = 1;
        from_b.dims[from_b.ndim++] = 1;
        from_b.dims[from_b.ndim++] = db;
        if ((int64_t)da * db > INT32_MAX)
            return kl_fail(err, KL_ELIMIT,
                           "axis %d would have %lld elements; at most %d are "
                           "possible",
                           i, (long long)da * db, INT32_MAX);
        to.dims[to.ndim++] = da * db;
    }
    KL_TRY(kl_check_shape(&checked, to.dims, (size_t)to.ndim, KL_C64, NULL, err));
    struct kl_array *x = KL_TERM(&t, kl_reshape_to(&t.made, a, from_a.ndim, from_a.dims, s, err));
    struct kl_array *y = KL_TERM(&t, kl_reshape_to(&t.made, b, from_b.ndim, from_b.dims, s, err));
    struct kl_array *product = KL_TERM(&t, kl_multiply(&t.made, x, y, s, err));
    product = KL_TERM(&t, kl_reshape_to(&t.made, product, to.ndim, to.dims, s, err));
    return kl_terms_end(&t, product, out);
}

/* ---- tensordot ---- */
/* One operand: the axes that it keeps, the axes that are summed, and the number of elements of each
 * set. */
struct side {
    int lost[KL_MAX_NDIM], n_lost, kept[KL_MAX_NDIM], n_kept;
    int64_t n_inner, n_outer;
};

static int split_axes(struct side *d, const struct kl_array *a, const int *axes, size_t n,
                      struct kl_error **err) {
    uint64_t gone = 0;
    KL_TRY(kl_check_axes(d->lost, axes, n, a->t.ndim, err));
    d->n_lost = (int)n;
    d->n_kept = 0;
    d->n_inner = d->n_outer = 1;
    for (size_t i = 0; i < n; i++) {
        gone |= UINT64_C(1) << d->lost[i];
        d->n_inner *= a->t.dims[d->lost[i]];
    }
    for (int i = 0; i < a->t.ndim; i++) {
        if (gone >> i & 1) continue;
        d->kept[d->n_kept++] = i;
        d->n_outer *= a->t.dims[i];
    }
    if (d->n_inner > INT32_MAX || d->n_outer > INT32_MAX)
        return kl_fail(err, KL_ELIMIT,
                       "a matrix of %lld by %lld elements; at most %d are possible on a side",
                       (long long)d->n_outer, (long long)d->n_inner, INT32_MAX);
    return KL_OK;
}

/* a as a matrix, whose summed axes are on the side on which the product needs them. */
static int as_matrix(struct kl_array **out, struct kl_array *a, const struct side *d,
                     bool lost_first, struct kl_stream *s, struct kl_error **err) {
    struct kl_terms t = kl_terms_begin(s, err);
    int perm[KL_MAX_NDIM], n = 0;
    for (int i = 0; i < d->n_lost && lost_first; i++) perm[n++] = d->lost[i];
    for (int i = 0; i < d->n_kept; i++) perm[n++] = d->kept[i];
    for (int i = 0; i < d->n_lost && !lost_first; i++) perm[n++] = d->lost[i];
    const int inner = (int)d->n_inner, outer = (int)d->n_outer;
    const int dims[2] = {lost_first ? inner : outer, lost_first ? outer : inner};
    struct kl_array *x = KL_TERM(&t, kl_permute(&t.made, a, perm, err));
    x = KL_TERM(&t, kl_reshape_to(&t.made, x, 2, dims, s, err));
    return kl_terms_end(&t, x, out);
}

int kl_tensordot(struct kl_array **out, struct kl_array *a, struct kl_array *b, const int *axes_a,
                 size_t axes_a_num, const int *axes_b, size_t axes_b_num, struct kl_stream *s,
                 struct kl_error **err) {
    KL_DEFER(TENSORDOT, a, b, axes_a, axes_a_num, axes_b, axes_b_num);
    struct kl_terms t = kl_terms_begin(s, err);
    struct side left, right;
    struct kl_shape to = {0};
    KL_TRY(check_two(a, b, s, err));
    if (axes_a_num != axes_b_num)
        return kl_fail(err, KL_EARG, "%zu axes of a and %zu of b are given; they meet in pairs",
                       axes_a_num, axes_b_num);
    KL_TRY(split_axes(&left, a, axes_a, axes_a_num, err));
    KL_TRY(split_axes(&right, b, axes_b, axes_b_num, err));
    for (size_t i = 0; i < axes_a_num; i++)
        if (a->t.dims[left.lost[i]] != b->t.dims[right.lost[i]])
            return kl_fail(err, KL_ESHAPE,
                           "axis %d of shape %s has %d elements, axis %d of shape %s has %d",
                           axes_a[i], KL_SHAPE_TEXT_OF(a), a->t.dims[left.lost[i]], axes_b[i],
                           KL_SHAPE_TEXT_OF(b), b->t.dims[right.lost[i]]);
    if (left.n_kept + right.n_kept > KL_MAX_NDIM)
        return kl_fail(err, KL_ESHAPE, "the result would have %d axes; at most %d are possible",
                       left.n_kept + right.n_kept, KL_MAX_NDIM);
    for (int i = 0; i < left.n_kept; i++) to.dims[to.ndim++] = a->t.dims[left.kept[i]];
    for (int i = 0; i < right.n_kept; i++) to.dims[to.ndim++] = b->t.dims[right.kept[i]];
    struct kl_array *x = KL_TERM(&t, as_matrix(&t.made, a, &left, false, s, err));
    struct kl_array *y = KL_TERM(&t, as_matrix(&t.made, b, &right, true, s, err));
    struct kl_array *product = KL_TERM(&t, kl_matmul(&t.made, x, y, s, err));
    product = KL_TERM(&t, kl_reshape_to(&t.made, product, to.ndim, to.dims, s, err));
    return kl_terms_end(&t, product, out);
}

int kl_tensordot_axis(struct kl_array **out, struct kl_array *a, struct kl_array *b, int axis,
                      struct kl_stream *s, struct kl_error **err) {
    KL_DEFER(TENSORDOT_AXIS, a, b, axis);
    int last[KL_MAX_NDIM], first[KL_MAX_NDIM];
    KL_TRY(check_two(a, b, s, err));
    if (axis < 0 || axis > a->t.ndim || axis > b->t.ndim)
        return kl_fail(err, KL_EAXIS,
                       "%d axes of arrays of %d and %d; 0 to the smaller number are possible", axis,
                       a->t.ndim, b->t.ndim);
    for (int i = 0; i < axis; i++) {
        last[i] = a->t.ndim - axis + i;
        first[i] = i;
    }
    return kl_tensordot(out, a, b, last, (size_t)axis, first, (size_t)axis, s, err);
}

int kl_inner(struct kl_array **out, struct kl_array *a, struct kl_array *b, struct kl_stream *s,
             struct kl_error **err) {
    KL_DEFER(INNER, a, b);
    KL_TRY(check_two(a, b, s, err));
    if (a->t.ndim == 0 || b->t.ndim == 0) return kl_multiply(out, a, b, s, err);
    int axis_a = a->t.ndim - 1, axis_b = b->t.ndim - 1;
    return kl_tensordot(out, a, b, &axis_a, 1, &axis_b, 1, s, err);
}

/* ---- addmm ---- */
/* x * number, both as dtype; x itself when the number is 1. */
static int scaled(struct kl_array **out, struct kl_array *x, float number, enum kl_dtype dtype,
                  struct kl_stream *s, struct kl_error **err) {
    struct kl_terms t = kl_terms_begin(s, err);
    struct kl_array *typed = KL_TERM(&t, kl_cast_to(&t.made, x, dtype, s, err));
    if (number == 1) return kl_terms_end(&t, typed, out);
    struct kl_array *factor = KL_TERM(&t, kl_array_new_scalar(&t.made, number, dtype, err));
    struct kl_array *product = KL_TERM(&t, kl_multiply(&t.made, typed, factor, s, err));
    return kl_terms_end(&t, product, out);
}

int kl_addmm(struct kl_array **out, struct kl_array *c, struct kl_array *a, struct kl_array *b,
             float alpha, float beta, struct kl_stream *s, struct kl_error **err) {
    KL_DEFER(ADDMM, c, a, b, (double)alpha, (double)beta);
    struct kl_terms t = kl_terms_begin(s, err);
    KL_TRY(kl_check_array(c, "c", err));
    KL_TRY(check_two(a, b, s, err));
    enum kl_dtype dtype = kl_dtype_promote(kl_dtype_promote(a->t.dtype, b->t.dtype), c->t.dtype);
    if (!kl_dtype_is_float(dtype) && dtype != KL_C64)
        return kl_fail(err, KL_EDTYPE, "operands of %s, %s and %s; one must be floating or complex",
                       kl_dtype_name(c->t.dtype), kl_dtype_name(a->t.dtype),
                       kl_dtype_name(b->t.dtype));
    /* For 16-bit operands the sum is made in float32 and rounded once. */
    enum kl_dtype wide = kl_dtype_size(dtype) == 2 ? KL_F32 : dtype;
    struct kl_array *x = KL_TERM(&t, kl_cast_to(&t.made, a, dtype, s, err));
    struct kl_array *y = KL_TERM(&t, kl_cast_to(&t.made, b, dtype, s, err));
    struct kl_array *sum = KL_TERM(&t, kl_matmul(&t.made, x, y, s, err));
    struct kl_array *to = KL_TERM(&t, kl_broadcast_view(&t.made, c, sum->t.ndim, sum->t.dims, err));
    sum = KL_TERM(&t, scaled(&t.made, sum, alpha, wide, s, err));
    if (beta != 0) { /* otherwise c is not read, so that its NaNs do not matter */
        to = KL_TERM(&t, scaled(&t.made, to, beta, wide, s, err));
        sum = KL_TERM(&t, kl_add(&t.made, sum, to, s, err));
    }
    sum = KL_TERM(&t, kl_cast_to(&t.made, sum, dtype, s, err));
    return kl_terms_end(&t, sum, out);
}
