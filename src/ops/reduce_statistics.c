/* reduce_statistics.c - variance, standard deviation, median. */
#include "base/op/op_params.h"
#include "ops/build/build.h"
#include "ops/build/deferred.h"
#include "ops/build/meet.h"
#include "ops/build/terms.h"
#include "ops/build/params.h"
#include "ops/reduce_parts.h"
#include "ops/build/views.h"
#include "ops/build/vjp.h"
#include "ops/build/vmap.h"

/* ---- var, std ---- */
int kl_var_axes(struct kl_array **out, struct kl_array *a, const int *axes, size_t axes_num,
                bool keepdims, int ddof, struct kl_stream *s, struct kl_error **err) {
    struct kl_reduced x;
    struct kl_array *kept;
    struct kl_var_buf p = {.ddof = ddof};
    KL_TRY(kl_check_array(a, "a", err));
    KL_TRY(kl_reduced_axes(&x, a, axes, axes_num, err));
    KL_TRY(kl_check_stream(s, err));
    enum kl_dtype dtype = kl_dtype_is_float(a->t.dtype) ? a->t.dtype : KL_F32;
    p.n_axes = x.n;
    for (int i = 0; i < x.n; i++) p.axes[i] = x.at[i];
    KL_TRY(kl_array_op1(&kept,
                        &(struct kl_operation){.op = KL_OP_VAR,
                                               .stream = s,
                                               .params = &p,
                                               .params_bytes = kl_var_params_bytes(&p),
                                               .in = &a,
                                               .n_in = 1},
                        dtype, x.kept.ndim, x.kept.dims, err));
    if (x.n == 0) {
        *out = kept;
        return KL_OK;
    }
    return kl_reduced_drop(out, kept, &x, keepdims, s, err);
}

int kl_std_axes(struct kl_array **out, struct kl_array *a, const int *axes, size_t axes_num,
                bool keepdims, int ddof, struct kl_stream *s, struct kl_error **err) {
    struct kl_array *var;
    KL_TRY(kl_var_axes(&var, a, axes, axes_num, keepdims, ddof, s, err));
    int rc = kl_sqrt(out, var, s, err);
    kl_array_release(var);
    return rc;
}

static int over_all(kl_variance_axes_fn *fn, struct kl_array **out, struct kl_array *a,
                    bool keepdims, int ddof, struct kl_stream *s, struct kl_error **err) {
    int axes[KL_MAX_NDIM];
    KL_TRY(kl_check_array(a, "a", err));
    for (int i = 0; i < a->t.ndim; i++) axes[i] = i;
    return fn(out, a, axes, (size_t)a->t.ndim, keepdims, ddof, s, err);
}

int kl_var(struct kl_array **out, struct kl_array *a, bool keepdims, int ddof, struct kl_stream *s,
           struct kl_error **err) {
    return over_all(kl_var_axes, out, a, keepdims, ddof, s, err);
}
int kl_std(struct kl_array **out, struct kl_array *a, bool keepdims, int ddof, struct kl_stream *s,
           struct kl_error **err) {
    return over_all(kl_std_axes, out, a, keepdims, ddof, s, err);
}
int kl_var_axis(struct kl_array **out, struct kl_array *a, int axis, bool keepdims, int ddof,
                struct kl_stream *s, struct kl_error **err) {
    return kl_var_axes(out, a, &axis, 1, keepdims, ddof, s, err);
}
int kl_std_axis(struct kl_array **out, struct kl_array *a, int axis, bool keepdims, int ddof,
                struct kl_stream *s, struct kl_error **err) {
    return kl_std_axes(out, a, &axis, 1, keepdims, ddof, s, err);
}

/* The gradient is 2 / (n - ddof) times the distance from the mean. The parts of complex numbers are
 * treated as numbers of their own. */
int kl_vjp_var(const struct kl_vjp *v, struct kl_array **grad, struct kl_error **err) {
    const struct kl_var_params *p = v->params;
    struct kl_array *x = v->in[0];
    struct kl_terms t = kl_terms_begin(v->s, err);
    double n = 1;
    if (!v->wanted[0] || !(kl_dtype_is_float(x->t.dtype) || x->t.dtype == KL_C64)) return KL_OK;
    enum kl_dtype wide = kl_dtype_size(x->t.dtype) == 2 ? KL_F32 : x->t.dtype;
    for (int i = 0; i < p->n_axes; i++) n *= x->t.dims[p->axes[i]];
    double over = n > p->ddof ? n - p->ddof : 0;
    struct kl_array *typed = kl_term_cast(&t, x, wide);
    struct kl_array *mean = kl_term_reduce(&t, kl_mean_axes, typed, p->axes, p->n_axes);
    struct kl_array *d = kl_term2(&t, kl_subtract, typed, mean);
    struct kl_array *scale = kl_term_number(&t, 2 / over, wide);
    struct kl_array *share = kl_term2(&t, kl_multiply, v->cotangent[0], scale);
    struct kl_array *g = kl_term2(&t, kl_multiply, d, share);
    return kl_terms_end(&t, kl_term_cast(&t, g, x->t.dtype), grad);
}

/* ---- median ---- */
/* a with the axes of x moved after the other axes, as one axis. */
static int axes_last(struct kl_array **out, struct kl_array *a, const struct kl_reduced *x,
                     struct kl_stream *s, struct kl_error **err) {
    int perm[KL_MAX_NDIM], dims[KL_MAX_NDIM + 1], n = 0, next = 0;
    struct kl_array *permuted;
    for (int i = 0; i < a->t.ndim; i++) {
        if (next < x->n && x->at[next] == i) {
            next++;
            continue;
        }
        dims[n] = a->t.dims[i];
        perm[n++] = i;
    }
    int64_t length = 1;
    for (int i = 0; i < x->n; i++) {
        perm[n + i] = x->at[i];
        length *= a->t.dims[x->at[i]];
    }
    if (length > INT32_MAX)
        return kl_fail(err, KL_ELIMIT, "a median of %lld elements; 2147483647 are possible",
                       (long long)length);
    dims[n] = (int)length;
    KL_TRY(kl_permute(&permuted, a, perm, err));
    int rc = kl_reshape_to(out, permuted, n + 1, dims, s, err);
    kl_array_release(permuted);
    return rc;
}

/* Element k along the last axis, which is dropped. */
static struct kl_array *element(struct kl_terms *t, struct kl_array *row, int k) {
    int start[KL_MAX_NDIM] = {0}, step[KL_MAX_NDIM];
    if (t->rc) return NULL;
    struct kl_shape shape = kl_shape_of(row);
    int last = shape.ndim - 1;
    for (int i = 0; i <= last; i++) step[i] = 1;
    start[last] = k;
    shape.dims[last] = 1;
    struct kl_array *at = KL_TERM(t, kl_slice_to(&t->made, row, start, step, shape.dims, t->err));
    return KL_TERM(t, kl_squeeze_axis(&t->made, at, last, t->s, t->err));
}

int kl_median_axes(struct kl_array **out, struct kl_array *a, const int *axes, size_t axes_num,
                   bool keepdims, struct kl_stream *s, struct kl_error **err) {
    KL_DEFER(MEDIAN, a, axes, axes_num, keepdims);
    struct kl_reduced x;
    struct kl_array *row, *sorted;
    KL_TRY(kl_check_array(a, "a", err));
    KL_TRY(kl_reduced_axes(&x, a, axes, axes_num, err));
    KL_TRY(kl_check_stream(s, err));
    enum kl_dtype dtype = kl_dtype_inexact(a->t.dtype);
    if (x.n == 0) return kl_cast_to(out, a, dtype, s, err);
    for (int i = 0; i < x.n; i++)
        if (a->t.dims[x.at[i]] == 0)
            return kl_fail(err, KL_EARG, "axis %d has size 0, and no elements have no median",
                           x.at[i]);
    KL_TRY(axes_last(&row, a, &x, s, err));
    int n = row->t.dims[row->t.ndim - 1];
    int rc = kl_sort_axis(&sorted, row, -1, s, err);
    kl_array_release(row);
    if (rc) return rc;
    /* Halves are added, so that the sum of two large elements does not overflow. */
    enum kl_dtype wide = kl_dtype_size(dtype) == 2 ? KL_F32 : dtype;
    struct kl_terms t = kl_terms_begin(s, err);
    struct kl_array *middle = kl_term_cast(&t, element(&t, sorted, n / 2), wide);
    if (n % 2 == 0) {
        struct kl_array *below = kl_term_cast(&t, element(&t, sorted, n / 2 - 1), wide);
        struct kl_array *half = kl_term_number(&t, 0.5, wide);
        middle = kl_term2(&t, kl_add, kl_term2(&t, kl_multiply, below, half),
                          kl_term2(&t, kl_multiply, middle, half));
    }
    if (dtype == a->t.dtype) { /* NaN is the last element after sorting */
        struct kl_array *last = element(&t, sorted, n - 1);
        struct kl_array *typed = kl_term_cast(&t, last, wide);
        middle = kl_term_where(&t, kl_term2(&t, kl_equal, last, last), middle, typed);
    }
    middle = kl_term_cast(&t, middle, dtype);
    if (keepdims)
        middle = KL_TERM(&t, kl_reshape_to(&t.made, middle, x.kept.ndim, x.kept.dims, s, err));
    rc = kl_terms_end(&t, middle, out);
    kl_array_release(sorted);
    return rc;
}

/* ---- made again ---- */
int kl_rebuild_var(const struct kl_build *b, struct kl_array **out, struct kl_error **err) {
    struct kl_var_buf p;
    int n;
    KL_TRY(kl_build_params_list(b, &p, offsetof(struct kl_var_buf, axes), sizeof *p.axes,
                                KL_MAX_NDIM, &n, err));
    KL_TRY(kl_build_count(p.n_axes, n, "axes", err));
    KL_TRY(kl_build_axes(p.axes, n, b->in[0]->t.ndim, err));
    return kl_var_axes(out, b->in[0], p.axes, (size_t)n, true, p.ddof, b->s, err);
}

/* ---- batches ---- */
int kl_vmap_var(const struct kl_vmap *v, struct kl_array **out, int *axis, struct kl_error **err) {
    const struct kl_var_params *one = v->params;
    struct kl_var_buf p = {.ddof = one->ddof, .n_axes = one->n_axes};
    for (int i = 0; i < p.n_axes; i++) p.axes[i] = one->axes[i] + 1;
    *axis = 0;
    return kl_vmap_build(v, out, &p, kl_var_params_bytes(&p), v->in, err);
}
