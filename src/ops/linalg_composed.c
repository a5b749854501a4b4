/* linalg_composed.c - determinants, the vector product and norms, made of other operations. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "ops/build/build.h"
#include "ops/build/deferred.h"
#include "ops/build/meet.h"
#include "ops/build/terms.h"
#include "ops/build/vmap.h"
#include "ops/linalg.h"
#include "ops/reduce_parts.h"

/* ---- determinants ---- */

/* The diagonal of u, where a is the product of l and u with exchanged rows, and 1 or -1: the sign
 * that the exchanges give. */
static void by_lu(struct kl_terms *t, struct kl_array *a, struct kl_array **diagonal,
                  struct kl_array **sign) {
    struct kl_array **lu = NULL;
    size_t count = 0;
    *diagonal = *sign = NULL;
    if (t->rc) return;
    const int last = -1, n = a->t.dims[a->t.ndim - 1];
    t->rc = kl_matrix_parts(&lu, &count, KL_FACTORS_LU_FACTOR, a, false, t->s, t->err);
    for (size_t i = 0; i < count; i++) t->all[t->n++] = lu[i];
    struct kl_array *both = t->rc ? NULL : lu[0], *pivots = t->rc ? NULL : lu[1];
    kl_free(lu);
    if (t->rc) return;
    const enum kl_dtype dtype = (enum kl_dtype)both->t.dtype;
    *diagonal = KL_TERM(t, kl_diagonal(&t->made, both, 0, -2, -1, t->s, t->err));
    struct kl_array *rows = KL_TERM(t, kl_arange(&t->made, 0, n, 1, KL_U32, t->s, t->err));
    struct kl_array *stays = kl_term2(t, kl_equal, pivots, rows);
    struct kl_array *one = kl_term_number(t, 1, dtype), *minus = kl_term_number(t, -1, dtype);
    struct kl_array *signs = kl_term_where(t, stays, one, minus);
    *sign = KL_TERM(t, kl_prod_axes(&t->made, signs, &last, 1, false, t->s, t->err));
}

static int check_square(struct kl_array *a, struct kl_error **err) {
    KL_TRY(kl_check_array(a, "a", err));
    const int n = a->t.ndim;
    return n >= 2 && a->t.dims[n - 2] == a->t.dims[n - 1]
               ? KL_OK
               : kl_fail(err, KL_ESHAPE, "an array of shape %s; square matrices are taken",
                         KL_SHAPE_TEXT_OF(a));
}

/* Numbers of 16 bits are computed with in float32, and rounded at the end. */
static enum kl_dtype computed_in(const struct kl_array *a) {
    return a->t.dtype == KL_F16 || a->t.dtype == KL_BF16 ? KL_F32 : (enum kl_dtype)a->t.dtype;
}

static struct kl_array *rounded(struct kl_terms *t, struct kl_array *x, const struct kl_array *a) {
    return computed_in(a) == (enum kl_dtype)a->t.dtype
               ? x
               : kl_term_cast(t, x, (enum kl_dtype)a->t.dtype);
}

/* ---- the operation that has the gradient of a determinant ---- */
static int check_determinant(struct kl_array *value, struct kl_array *a, struct kl_error **err) {
    KL_TRY(check_square(a, err));
    bool same = value->t.ndim == a->t.ndim - 2;
    for (int i = 0; i < value->t.ndim && same; i++) same = value->t.dims[i] == a->t.dims[i];
    if (!same)
        return kl_fail(err, KL_ESHAPE, "determinants of shape %s of matrices of shape %s",
                       KL_SHAPE_TEXT_OF(value), KL_SHAPE_TEXT_OF(a));
    if (value->t.dtype != a->t.dtype || (a->t.dtype != KL_F32 && a->t.dtype != KL_F64))
        return kl_fail(
            err, KL_EDTYPE, "determinants of %s of matrices of %s; both must be float32 or float64",
            kl_dtype_name((enum kl_dtype)value->t.dtype), kl_dtype_name((enum kl_dtype)a->t.dtype));
    return KL_OK;
}

int kl_determinant(struct kl_array **out, struct kl_array *value, struct kl_array *a,
                   struct kl_stream *s, struct kl_error **err) {
    struct kl_array *in[] = {value, a};
    KL_TRY(kl_check_array(value, "the determinants", err));
    KL_TRY(check_determinant(value, a, err));
    KL_TRY(kl_check_stream(s, err));
    return kl_array_op1(out,
                        &(struct kl_operation){.op = KL_OP_DET, .stream = s, .in = in, .n_in = 2},
                        (enum kl_dtype)a->t.dtype, value->t.ndim, value->t.dims, err);
}

int kl_rebuild_det(const struct kl_build *b, struct kl_array **out, struct kl_error **err) {
    KL_TRY(kl_build_no_params(b, err));
    return kl_determinant(out, b->in[0], b->in[1], b->s, err);
}

int kl_vmap_det(const struct kl_vmap *v, struct kl_array **out, int *axis, struct kl_error **err) {
    struct kl_array *in[2];
    *axis = 0;
    KL_TRY(kl_vmap_inputs(v, in, err));
    const int rc = kl_vmap_build(v, out, NULL, 0, in, err);
    for (int i = 0; i < 2; i++) kl_array_release(in[i]);
    return rc;
}

int kl_det(struct kl_array **out, struct kl_array *a, struct kl_stream *s, struct kl_error **err) {
    KL_DEFER(DET, a);
    struct kl_terms t = kl_terms_begin(s, err);
    struct kl_array *diagonal, *sign;
    const int last = -1;
    KL_TRY(check_square(a, err));
    struct kl_array *x = kl_term_cast(&t, a, computed_in(a));
    by_lu(&t, kl_term(&t, kl_stop_gradient, x), &diagonal, &sign);
    struct kl_array *d = KL_TERM(&t, kl_prod_axes(&t.made, diagonal, &last, 1, false, s, err));
    d = kl_term2(&t, kl_multiply, d, sign);
    if (!t.rc) x = kl_term_cast(&t, x, (enum kl_dtype)d->t.dtype);
    return kl_terms_end(&t, rounded(&t, kl_term2(&t, kl_determinant, d, x), a), out);
}

/* One of the two results. */
int kl_slogdet_part(struct kl_array **out, struct kl_array *a, bool logarithm, struct kl_stream *s,
                    struct kl_error **err) {
    KL_DEFER(SLOGDET, a, logarithm);
    struct kl_terms t = kl_terms_begin(s, err);
    struct kl_array *diagonal, *sign;
    const int last = -1;
    KL_TRY(check_square(a, err));
    by_lu(&t, kl_term_cast(&t, a, computed_in(a)), &diagonal, &sign);
    if (logarithm) {
        struct kl_array *logs = kl_term(&t, kl_log, kl_term(&t, kl_abs, diagonal));
        struct kl_array *sum = KL_TERM(&t, kl_sum_axes(&t.made, logs, &last, 1, false, s, err));
        return kl_terms_end(&t, rounded(&t, sum, a), out);
    }
    struct kl_array *signs = kl_term(&t, kl_sign, diagonal);
    signs = KL_TERM(&t, kl_prod_axes(&t.made, signs, &last, 1, false, s, err));
    return kl_terms_end(&t, rounded(&t, kl_term2(&t, kl_multiply, signs, sign), a), out);
}

/* ---- the vector product ---- */

/* Component i along the axis, which counts from the last; NULL: there is none. */
static struct kl_array *component(struct kl_terms *t, struct kl_array *a, int axis, int i) {
    if (t->rc || i >= a->t.dims[a->t.ndim + axis]) return NULL;
    struct kl_array *at = kl_term_number(t, i, KL_I32);
    at = KL_TERM(t, kl_reshape(&t->made, at, (int[]){1}, 1, t->s, t->err));
    return KL_TERM(t, kl_take_axis(&t->made, a, at, axis, t->s, t->err));
}

/* a b - c d, where a product of which something is missing is 0; NULL: both are. */
static struct kl_array *minor(struct kl_terms *t, struct kl_array *a, struct kl_array *b,
                              struct kl_array *c, struct kl_array *d) {
    struct kl_array *x = a && b ? kl_term2(t, kl_multiply, a, b) : NULL;
    struct kl_array *y = c && d ? kl_term2(t, kl_multiply, c, d) : NULL;
    if (x && y) return kl_term2(t, kl_subtract, x, y);
    if (x || !y) return x;
    if (y->t.dtype != KL_BOOL) return kl_term(t, kl_negative, y);
    return kl_term2(t, kl_subtract, kl_term(t, kl_zeros_like, y), y);
}

static int check_components(const struct kl_array *a, int axis, struct kl_error **err) {
    const int size = a->t.dims[a->t.ndim + axis];
    return size == 2 || size == 3
               ? KL_OK
               : kl_fail(err, KL_ESHAPE, "axis %d of shape %s; it must have 2 or 3 elements",
                         a->t.ndim + axis, KL_SHAPE_TEXT_OF(a));
}

int kl_cross(struct kl_array **out, struct kl_array *a, struct kl_array *b, int axis,
             struct kl_stream *s, struct kl_error **err) {
    KL_DEFER(CROSS, a, b, axis);
    struct kl_terms t = kl_terms_begin(s, err);
    struct kl_array *x[3], *y[3], *z[3];
    KL_TRY(kl_check_array(a, "a", err));
    KL_TRY(kl_check_array(b, "b", err));
    KL_TRY(kl_check_stream(s, err));
    const int ndim = a->t.ndim > b->t.ndim ? a->t.ndim : b->t.ndim;
    KL_TRY(kl_check_axis(&axis, ndim, err));
    axis -= ndim;
    if (a->t.ndim < -axis || b->t.ndim < -axis)
        return kl_fail(err, KL_ESHAPE, "shapes %s and %s do not both have the axis %d",
                       KL_SHAPE_TEXT_OF(a), KL_SHAPE_TEXT_OF(b), axis);
    KL_TRY(check_components(a, axis, err));
    KL_TRY(check_components(b, axis, err));
    for (int i = 0; i < 3; i++) {
        x[i] = component(&t, a, axis, i);
        y[i] = component(&t, b, axis, i);
    }
    for (int i = 0; i < 3; i++) {
        const int j = (i + 1) % 3, k = (i + 2) % 3;
        z[i] = minor(&t, x[j], y[k], x[k], y[j]);
    }
    for (int i = 0; i < 2; i++)
        if (!z[i]) z[i] = kl_term(&t, kl_zeros_like, z[2]);
    return kl_terms_end(&t, KL_TERM(&t, kl_concatenate_axis(&t.made, z, 3, axis, s, err)), out);
}

/* ---- norms ---- */

/* The size of each element, as a float. */
static struct kl_array *sizes(struct kl_terms *t, struct kl_array *a) {
    const enum kl_dtype dtype = kl_dtype_inexact((enum kl_dtype)a->t.dtype);
    return kl_term(t, kl_abs, kl_term_cast(t, a, dtype));
}

int kl_norm_l2(struct kl_array **out, struct kl_array *a, const int *axes, size_t axes_num,
               bool keepdims, struct kl_stream *s, struct kl_error **err) {
    struct kl_terms t = kl_terms_begin(s, err);
    struct kl_reduced all;
    int every[KL_MAX_NDIM];
    KL_TRY(kl_check_array(a, "a", err));
    KL_TRY(kl_check_stream(s, err));
    for (int i = 0; i < a->t.ndim; i++) every[i] = i;
    if (!axes) axes_num = (size_t)a->t.ndim;
    KL_TRY(kl_reduced_axes(&all, a, axes ? axes : every, axes_num, err));
    struct kl_array *x = kl_term(&t, kl_square, sizes(&t, a));
    x = KL_TERM(&t, kl_sum_axes(&t.made, x, all.at, (size_t)all.n, keepdims, s, err));
    return kl_terms_end(&t, kl_term(&t, kl_sqrt, x), out);
}

static struct kl_array *over(struct kl_terms *t, kl_reduce_axes_fn *build, struct kl_array *x,
                             int axis, bool keepdims) {
    return KL_TERM(t, build(&t->made, x, &axis, 1, keepdims, t->s, t->err));
}

static struct kl_array *norm_of_vectors(struct kl_terms *t, struct kl_array *a, double ord,
                                        int axis, bool keepdims) {
    struct kl_array *x = sizes(t, a);
    if (t->rc) return NULL;
    const enum kl_dtype dtype = (enum kl_dtype)x->t.dtype;
    if (isinf(ord)) return over(t, ord > 0 ? kl_max_axes : kl_min_axes, x, axis, keepdims);
    if (ord == 0) {
        struct kl_array *zero = kl_term_number(t, 0, dtype);
        x = kl_term_cast(t, kl_term2(t, kl_not_equal, x, zero), dtype);
        return over(t, kl_sum_axes, x, axis, keepdims);
    }
    if (ord == 1) return over(t, kl_sum_axes, x, axis, keepdims);
    if (ord == 2)
        return kl_term(t, kl_sqrt, over(t, kl_sum_axes, kl_term(t, kl_square, x), axis, keepdims));
    x = over(t, kl_sum_axes, kl_term_by(t, kl_power, x, ord), axis, keepdims);
    return kl_term_by(t, kl_power, x, 1 / ord);
}

/* A sum or an extreme of the singular values of the matrices in two axes. */
static struct kl_array *norm_by_svd(struct kl_terms *t, struct kl_array *a, kl_reduce_axes_fn *join,
                                    const int axes[2], bool keepdims) {
    int perm[KL_MAX_NDIM], n = 0;
    for (int i = 0; i < a->t.ndim; i++)
        if (i != axes[0] && i != axes[1]) perm[n++] = i;
    perm[n++] = axes[0];
    perm[n++] = axes[1];
    struct kl_array *x = KL_TERM(t, kl_transpose_axes(&t->made, a, perm, (size_t)n, t->s, t->err));
    const struct kl_origin before = kl_alias_set(KL_ALIAS_NORM);
    x = kl_term(t, kl_singular_values, x);
    kl_origin_set(before);
    x = over(t, join, x, -1, false);
    if (!keepdims) return x;
    return KL_TERM(t, kl_expand_dims_axes(&t->made, x, axes, 2, t->s, t->err));
}

/* An extreme of the sums of rows or columns. */
static struct kl_array *norm_by_sums(struct kl_terms *t, struct kl_array *a, double ord,
                                     const int axes[2], bool keepdims) {
    const int summed = axes[isinf(ord) ? 1 : 0], other = axes[isinf(ord) ? 0 : 1];
    struct kl_array *x = over(t, kl_sum_axes, sizes(t, a), summed, true);
    x = over(t, ord > 0 ? kl_max_axes : kl_min_axes, x, other, true);
    if (keepdims) return x;
    return KL_TERM(t, kl_squeeze_axes(&t->made, x, axes, 2, t->s, t->err));
}

/* The axes of a norm, non-negative; returns how many there are. */
static int axes_of(int at[KL_MAX_NDIM], const struct kl_array *a, const int *axes, size_t axes_num,
                   struct kl_error **err) {
    KL_TRY(kl_check_array(a, "a", err));
    if (axes) {
        KL_TRY(kl_check_axes(at, axes, axes_num, a->t.ndim, err));
        return (int)axes_num;
    }
    for (int i = 0; i < a->t.ndim; i++) at[i] = i;
    return a->t.ndim;
}

int kl_norm(struct kl_array **out, struct kl_array *a, double ord, const int *axes, size_t axes_num,
            bool keepdims, struct kl_stream *s, struct kl_error **err) {
    struct kl_terms t = kl_terms_begin(s, err);
    int at[KL_MAX_NDIM];
    const int n = axes_of(at, a, axes, axes_num, err);
    if (n < 0) return n;
    KL_TRY(kl_check_stream(s, err));
    if (n != 1 && n != 2)
        return kl_fail(err, KL_EAXIS,
                       "a norm of order %g over %d axes; one (vectors) or two (matrices) are "
                       "possible",
                       ord, n);
    if (isnan(ord)) return kl_fail(err, KL_EARG, "the order of a norm is NaN");
    struct kl_array *x;
    if (n == 1)
        x = norm_of_vectors(&t, a, ord, at[0], keepdims);
    else if (fabs(ord) == 1 || isinf(ord))
        x = norm_by_sums(&t, a, ord, at, keepdims);
    else if (fabs(ord) == 2)
        x = norm_by_svd(&t, a, ord > 0 ? kl_max_axes : kl_min_axes, at, keepdims);
    else
        return kl_fail(err, KL_EARG,
                       "a norm of matrices of order %g; 1, -1, 2, -2, infinity and -infinity are "
                       "possible",
                       ord);
    return kl_terms_end(&t, x, out);
}

int kl_norm_matrix(struct kl_array **out, struct kl_array *a, const char *ord, const int *axes,
                   size_t axes_num, bool keepdims, struct kl_stream *s, struct kl_error **err) {
    struct kl_terms t = kl_terms_begin(s, err);
    int at[KL_MAX_NDIM];
    const int n = axes_of(at, a, axes, axes_num, err);
    if (n < 0) return n;
    KL_TRY(kl_check_stream(s, err));
    if (!ord) return kl_fail(err, KL_EARG, "the order of the norm is NULL");
    const bool nuclear = strcmp(ord, "nuc") == 0;
    if (!nuclear && strcmp(ord, "fro") != 0 && strcmp(ord, "f") != 0)
        return kl_fail(err, KL_EARG, "a norm of order '%s'; 'fro', 'f' and 'nuc' are possible",
                       ord);
    if (n != 2)
        return kl_fail(err, KL_EAXIS, "a norm of order '%s' over %d axes; it takes two", ord, n);
    if (!nuclear) return kl_norm_l2(out, a, at, 2, keepdims, s, err);
    return kl_terms_end(&t, norm_by_svd(&t, a, kl_sum_axes, at, keepdims), out);
}
