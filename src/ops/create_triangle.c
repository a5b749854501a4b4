/* create_triangle.c - matrices made by diagonals: eye, tri, tril, triu, diag, trace. All compare
 * row and column numbers and select elements by the results. */
#include "ops/build/deferred.h"
#include "ops/build/meet.h"
#include "ops/build/terms.h"
#include "ops/build/views.h"
#include "ops/ops.h"

/* fn(row, column - k) for every place of a matrix, in bool. A k outside of the matrix may be
 * clamped to its edge. */
static int compare_places(struct kl_array **out, kl_binary_fn *fn, int rows, int cols, int k,
                          struct kl_stream *s, struct kl_error **err) {
    struct kl_terms t = kl_terms_begin(s, err);
    if (rows < 0 || cols < 0)
        return kl_fail(err, KL_ESHAPE, "a matrix of %d rows and %d columns; 0 or more are possible",
                       rows, cols);
    int64_t first = k < -rows ? -(int64_t)rows : k > cols ? cols : k;
    enum kl_dtype dtype = (int64_t)rows + cols < INT32_MAX ? KL_I32 : KL_I64;
    struct kl_array *row = KL_TERM(&t, kl_arange(&t.made, 0, rows, 1, dtype, s, err));
    row = KL_TERM(&t, kl_expand_dims(&t.made, row, 1, s, err));
    struct kl_array *col =
        KL_TERM(&t, kl_arange(&t.made, (double)-first, (double)(cols - first), 1, dtype, s, err));
    struct kl_array *which = KL_TERM(&t, fn(&t.made, row, col, s, err));
    return kl_terms_end(&t, which, out);
}

static int as_matrix(struct kl_array **out, kl_binary_fn *fn, int rows, int cols, int k, int dtype,
                     struct kl_stream *s, struct kl_error **err) {
    struct kl_terms t = kl_terms_begin(s, err);
    KL_TRY(kl_check_dtype(dtype, err));
    KL_TRY(kl_check_stream(s, err));
    struct kl_array *which = KL_TERM(&t, compare_places(&t.made, fn, rows, cols, k, s, err));
    struct kl_array *typed = KL_TERM(&t, kl_cast_to(&t.made, which, (enum kl_dtype)dtype, s, err));
    return kl_terms_end(&t, typed, out);
}

int kl_eye(struct kl_array **out, int n, int m, int k, int dtype, struct kl_stream *s,
           struct kl_error **err) {
    return as_matrix(out, kl_equal, n, m, k, dtype, s, err);
}

int kl_identity(struct kl_array **out, int n, int dtype, struct kl_stream *s,
                struct kl_error **err) {
    return kl_eye(out, n, n, 0, dtype, s, err);
}

int kl_tri(struct kl_array **out, int n, int m, int k, int dtype, struct kl_stream *s,
           struct kl_error **err) {
    return as_matrix(out, kl_greater_equal, n < 0 ? 0 : n, m < 0 ? 0 : m, k, dtype, s, err);
}

/* x where fn(row, column - k) is true, and 0 elsewhere. */
static int keep_places(struct kl_array **out, kl_binary_fn *fn, struct kl_array *x, int k,
                       struct kl_stream *s, struct kl_error **err) {
    struct kl_terms t = kl_terms_begin(s, err);
    KL_TRY(kl_check_array(x, "x", err));
    KL_TRY(kl_check_stream(s, err));
    if (x->t.ndim < 2)
        return kl_fail(err, KL_ESHAPE, "an array of %d axes; at least two are needed", x->t.ndim);
    const int *last = x->t.dims + x->t.ndim - 2;
    struct kl_array *which = KL_TERM(&t, compare_places(&t.made, fn, last[0], last[1], k, s, err));
    struct kl_array *zero =
        KL_TERM(&t, kl_array_new_scalar(&t.made, 0, (enum kl_dtype)x->t.dtype, err));
    struct kl_array *kept = KL_TERM(&t, kl_where(&t.made, which, x, zero, s, err));
    return kl_terms_end(&t, kept, out);
}

int kl_tril(struct kl_array **out, struct kl_array *x, int k, struct kl_stream *s,
            struct kl_error **err) {
    KL_DEFER(TRIL, x, k);
    return keep_places(out, kl_greater_equal, x, k, s, err);
}

int kl_triu(struct kl_array **out, struct kl_array *x, int k, struct kl_stream *s,
            struct kl_error **err) {
    KL_DEFER(TRIU, x, k);
    return keep_places(out, kl_less_equal, x, k, s, err);
}

int kl_embed_diagonal(struct kl_array **out, struct kl_array *a, int rows, int cols, int k,
                      struct kl_stream *s, struct kl_error **err) {
    struct kl_terms t = kl_terms_begin(s, err);
    int axis = a->t.ndim - 1, low = k < 0 ? -k : 0, high = rows - low - a->t.dims[axis];
    enum kl_dtype dtype = (enum kl_dtype)a->t.dtype;
    struct kl_array *zero = KL_TERM(&t, kl_array_new_scalar(&t.made, 0, dtype, err));
    struct kl_array *by_row =
        KL_TERM(&t, kl_pad(&t.made, a, &axis, 1, &low, 1, &high, 1, zero, "constant", s, err));
    by_row = KL_TERM(&t, kl_expand_dims(&t.made, by_row, -1, s, err));
    struct kl_array *which = KL_TERM(&t, compare_places(&t.made, kl_equal, rows, cols, k, s, err));
    struct kl_array *placed = KL_TERM(&t, kl_where(&t.made, which, by_row, zero, s, err));
    return kl_terms_end(&t, placed, out);
}

int kl_diag(struct kl_array **out, struct kl_array *a, int k, struct kl_stream *s,
            struct kl_error **err) {
    KL_DEFER(DIAG, a, k);
    KL_TRY(kl_check_array(a, "a", err));
    KL_TRY(kl_check_stream(s, err));
    if (a->t.ndim == 2) return kl_diagonal(out, a, k, 0, 1, s, err);
    if (a->t.ndim != 1)
        return kl_fail(err, KL_ESHAPE, "an array of %d axes; one or two are taken", a->t.ndim);
    int64_t n = (int64_t)a->t.dims[0] + (k < 0 ? -(int64_t)k : k);
    if (n > INT32_MAX)
        return kl_fail(err, KL_ELIMIT, "%lld rows are too many; at most %d are possible",
                       (long long)n, INT32_MAX);
    return kl_embed_diagonal(out, a, (int)n, (int)n, k, s, err);
}

int kl_diagonal_sum(struct kl_array **out, struct kl_array *a, int offset, int axis1, int axis2,
                    int dtype, struct kl_stream *s, struct kl_error **err) {
    KL_DEFER(TRACE, a, offset, axis1, axis2, dtype);
    struct kl_terms t = kl_terms_begin(s, err);
    KL_TRY(kl_check_array(a, "a", err));
    KL_TRY(kl_check_stream(s, err));
    KL_TRY(kl_check_dtype(dtype, err));
    struct kl_array *x = KL_TERM(&t, kl_diagonal(&t.made, a, offset, axis1, axis2, s, err));
    x = KL_TERM(&t, kl_cast_to(&t.made, x, (enum kl_dtype)dtype, s, err));
    x = KL_TERM(&t, kl_sum_axis(&t.made, x, -1, false, s, err));
    return kl_terms_end(&t, x, out);
}
