/* reduce.c - sum, prod, mean, max, min, all, any, logsumexp over axes; argmax and argmin. The
 * kernels keep reduced axes with size 1; without keepdims a view drops these axes. */
#include <math.h>

#include "ops/reduce_parts.h"

#include "base/op/op_params.h"
#include "ops/build/build.h"
#include "ops/build/deferred.h"
#include "ops/build/terms.h"
#include "ops/build/meet.h"
#include "ops/ops.h"
#include "ops/build/params.h"
#include "ops/build/views.h"
#include "ops/build/vjp.h"
#include "ops/build/vmap.h"

/* ---- reductions over sets of axes ---- */
int kl_reduced_axes(struct kl_reduced *x, const struct kl_array *a, const int *axes,
                    size_t axes_num, struct kl_error **err) {
    int given[KL_MAX_NDIM];
    uint64_t chosen = 0;
    KL_TRY(kl_check_axes(given, axes, axes_num, a->t.ndim, err));
    for (size_t i = 0; i < axes_num; i++) chosen |= UINT64_C(1) << given[i];
    x->n = 0;
    x->kept = kl_shape_of(a);
    for (int i = 0; i < a->t.ndim; i++)
        if (chosen >> i & 1) {
            x->at[x->n++] = i;
            x->kept.dims[i] = 1;
        }
    return KL_OK;
}

int kl_reduced_drop(struct kl_array **out, struct kl_array *kept /* taken */,
                    const struct kl_reduced *x, bool keepdims, struct kl_stream *s,
                    struct kl_error **err) {
    if (keepdims) {
        *out = kept;
        return KL_OK;
    }
    int rc = kl_squeeze_axes(out, kept, x->at, (size_t)x->n, s, err);
    kl_array_release(kept);
    return rc;
}

/* The axes of a that are larger than 1, the one with the largest distance between elements first;
 * how many there are. */
static int by_distance(const struct kl_tensor *t, int *order) {
    int n = 0;
    for (int i = 0; i < t->ndim; i++) {
        if (t->dims[i] == 1) continue;
        int at = n++;
        for (; at > 0 && t->strides[order[at - 1]] < t->strides[i]; at--) order[at] = order[at - 1];
        order[at] = i;
    }
    return n;
}

/* a as a CPU's kernel takes it without gathering its elements one by one: copied in the order of
 * rows where all axes are reduced, or where reduced and other axes take turns in memory more than
 * twice. The copy gives the bits that a gives. */
static int as_kernels_read(struct kl_array **out, struct kl_array *a, const struct kl_reduced *x,
                           struct kl_stream *s, struct kl_error **err) {
    enum { MOST_TURNS = 2 };
    int order[KL_MAX_NDIM], turns = 0;
    bool reduced[KL_MAX_NDIM] = {false};
    const bool other = !(a->t.layout & KL_ROW_CONTIGUOUS) && a->t.layout & KL_DENSE;
    const int n = other ? by_distance(&a->t, order) : 0;
    for (int i = 0; i < x->n; i++) reduced[x->at[i]] = true;
    for (int i = 1; i < n; i++) turns += reduced[order[i]] != reduced[order[i - 1]];
    if (turns > MOST_TURNS || (n > 1 && x->n == a->t.ndim))
        return kl_in_rows(out, a, KL_ROWS_MOVED, s, err);
    *out = kl_array_retain(a);
    return KL_OK;
}

static int reduce(struct kl_array **out, enum kl_op_id op, struct kl_array *a, enum kl_dtype dtype,
                  const struct kl_reduced *x, struct kl_stream *s, struct kl_error **err) {
    struct kl_reduce_buf p;
    struct kl_array *read;
    p.n_axes = x->n;
    for (int i = 0; i < x->n; i++) p.axes[i] = x->at[i];
    KL_TRY(kl_check_stream(s, err));
    KL_TRY(as_kernels_read(&read, a, x, s, err));
    int rc = kl_array_op1(out,
                          &(struct kl_operation){.op = op,
                                                 .stream = s,
                                                 .params = &p,
                                                 .params_bytes = kl_reduce_params_bytes(&p),
                                                 .in = &read,
                                                 .n_in = 1},
                          dtype, x->kept.ndim, x->kept.dims, err);
    kl_array_release(read);
    return rc;
}

static enum kl_dtype sum_dtype(enum kl_dtype dtype) {
    if (dtype == KL_BOOL || (kl_dtype_is_signed(dtype) && kl_dtype_size(dtype) < 4)) return KL_I32;
    return kl_dtype_is_int(dtype) && kl_dtype_size(dtype) < 4 ? KL_U32 : dtype;
}

/* The sum, and also the product. */
static int total(struct kl_array **out, enum kl_op_id op, struct kl_array *a, const int *axes,
                 size_t axes_num, bool keepdims, struct kl_stream *s, struct kl_error **err) {
    struct kl_reduced x;
    struct kl_array *kept;
    KL_TRY(kl_check_array(a, "a", err));
    KL_TRY(kl_reduced_axes(&x, a, axes, axes_num, err));
    if (x.n == 0) { /* nothing is reduced, and the dtype is kept, as in MLX */
        *out = kl_array_retain(a);
        return KL_OK;
    }
    KL_TRY(reduce(&kept, op, a, sum_dtype(a->t.dtype), &x, s, err));
    return kl_reduced_drop(out, kept, &x, keepdims, s, err);
}

int kl_sum_axes(struct kl_array **out, struct kl_array *a, const int *axes, size_t axes_num,
                bool keepdims, struct kl_stream *s, struct kl_error **err) {
    return total(out, KL_OP_SUM, a, axes, axes_num, keepdims, s, err);
}

int kl_prod_axes(struct kl_array **out, struct kl_array *a, const int *axes, size_t axes_num,
                 bool keepdims, struct kl_stream *s, struct kl_error **err) {
    return total(out, KL_OP_PROD, a, axes, axes_num, keepdims, s, err);
}

static int truth(struct kl_array **out, enum kl_op_id op, struct kl_array *a, const int *axes,
                 size_t axes_num, bool keepdims, struct kl_stream *s, struct kl_error **err) {
    struct kl_reduced x;
    struct kl_array *kept;
    KL_TRY(kl_check_array(a, "a", err));
    KL_TRY(kl_reduced_axes(&x, a, axes, axes_num, err));
    KL_TRY(kl_check_stream(s, err));
    if (x.n == 0) return kl_cast_to(out, a, KL_BOOL, s, err);
    KL_TRY(reduce(&kept, op, a, KL_BOOL, &x, s, err));
    return kl_reduced_drop(out, kept, &x, keepdims, s, err);
}

int kl_all_axes(struct kl_array **out, struct kl_array *a, const int *axes, size_t axes_num,
                bool keepdims, struct kl_stream *s, struct kl_error **err) {
    return truth(out, KL_OP_ALL, a, axes, axes_num, keepdims, s, err);
}

int kl_any_axes(struct kl_array **out, struct kl_array *a, const int *axes, size_t axes_num,
                bool keepdims, struct kl_stream *s, struct kl_error **err) {
    return truth(out, KL_OP_ANY, a, axes, axes_num, keepdims, s, err);
}

int kl_logsumexp_axes(struct kl_array **out, struct kl_array *a, const int *axes, size_t axes_num,
                      bool keepdims, struct kl_stream *s, struct kl_error **err) {
    struct kl_reduced x;
    struct kl_array *kept, *typed;
    KL_TRY(kl_check_array(a, "a", err));
    KL_TRY(kl_reduced_axes(&x, a, axes, axes_num, err));
    KL_TRY(kl_check_stream(s, err));
    KL_TRY(kl_cast_to(&typed, a, kl_dtype_inexact(a->t.dtype), s, err));
    if (x.n == 0) {
        *out = typed;
        return KL_OK;
    }
    int rc = reduce(&kept, KL_OP_LOGSUMEXP, typed, (enum kl_dtype)typed->t.dtype, &x, s, err);
    kl_array_release(typed);
    return rc ? rc : kl_reduced_drop(out, kept, &x, keepdims, s, err);
}

/* total / count, computed in total's type, or in dtype when that type is an integer, and converted
 * to dtype. */
static int divide_by(struct kl_array **out, struct kl_array *total, double count,
                     enum kl_dtype dtype, struct kl_stream *s, struct kl_error **err) {
    struct kl_terms t = kl_terms_begin(s, err);
    if (kl_dtype_is_int((enum kl_dtype)total->t.dtype)) total = kl_term_cast(&t, total, dtype);
    struct kl_array *mean = kl_term_by(&t, kl_divide, total, count);
    return kl_terms_end(&t, kl_term_cast(&t, mean, dtype), out);
}

/* The dtype in which a mean adds up elements of `given`. */
static enum kl_dtype mean_sum_dtype(enum kl_dtype given) {
    /* The sum of 16-bit floats stays in float32: it may overflow a 16-bit type although the mean
     * does not. */
    enum kl_dtype dtype = kl_dtype_inexact(given);
    enum kl_dtype wide = kl_dtype_size(dtype) == 2 ? KL_F32 : dtype;
    /* Integers are summed exactly in int64: where their values cancel, float32 would have lost
     * digits. 64-bit integers might overflow and are not. */
    return kl_dtype_is_int(given) && kl_dtype_size(given) < 8 ? KL_I64 : wide;
}

int kl_mean_axes(struct kl_array **out, struct kl_array *a, const int *axes, size_t axes_num,
                 bool keepdims, struct kl_stream *s, struct kl_error **err) {
    KL_DEFER(MEAN, a, axes, axes_num, keepdims);
    struct kl_reduced x;
    struct kl_array *total, *kept;
    KL_TRY(kl_check_array(a, "a", err));
    KL_TRY(kl_reduced_axes(&x, a, axes, axes_num, err));
    enum kl_dtype dtype = kl_dtype_inexact(a->t.dtype);
    if (x.n == 0) return kl_cast_to(out, a, dtype, s, err);
    enum kl_dtype wide = mean_sum_dtype((enum kl_dtype)a->t.dtype);
    double count = 1;
    for (int i = 0; i < x.n; i++) count *= a->t.dims[x.at[i]];
    KL_TRY(reduce(&total, KL_OP_SUM, a, wide, &x, s, err));
    int rc = divide_by(&kept, total, count, dtype, s, err);
    kl_array_release(total);
    return rc ? rc : kl_reduced_drop(out, kept, &x, keepdims, s, err);
}

static int extreme(struct kl_array **out, enum kl_op_id op, struct kl_array *a, const int *axes,
                   size_t axes_num, bool keepdims, struct kl_stream *s, struct kl_error **err) {
    struct kl_reduced x;
    struct kl_array *kept;
    KL_TRY(kl_check_array(a, "a", err));
    KL_TRY(kl_reduced_axes(&x, a, axes, axes_num, err));
    for (int i = 0; i < x.n; i++)
        if (a->t.dims[x.at[i]] == 0)
            return kl_fail(err, KL_EARG, "axis %d has size 0, and no elements have no %simum",
                           x.at[i], op == KL_OP_MAX ? "max" : "min");
    if (x.n == 0) {
        *out = kl_array_retain(a);
        return KL_OK;
    }
    KL_TRY(reduce(&kept, op, a, a->t.dtype, &x, s, err));
    return kl_reduced_drop(out, kept, &x, keepdims, s, err);
}

int kl_max_axes(struct kl_array **out, struct kl_array *a, const int *axes, size_t axes_num,
                bool keepdims, struct kl_stream *s, struct kl_error **err) {
    return extreme(out, KL_OP_MAX, a, axes, axes_num, keepdims, s, err);
}

int kl_min_axes(struct kl_array **out, struct kl_array *a, const int *axes, size_t axes_num,
                bool keepdims, struct kl_stream *s, struct kl_error **err) {
    return extreme(out, KL_OP_MIN, a, axes, axes_num, keepdims, s, err);
}

/* ---- one axis, and all axes ---- */
int kl_reduced_all(kl_reduce_axes_fn *fn, struct kl_array **out, struct kl_array *a, bool keepdims,
                   struct kl_stream *s, struct kl_error **err) {
    int axes[KL_MAX_NDIM];
    KL_TRY(kl_check_array(a, "a", err));
    for (int i = 0; i < a->t.ndim; i++) axes[i] = i;
    return fn(out, a, axes, (size_t)a->t.ndim, keepdims, s, err);
}

int kl_sum(struct kl_array **out, struct kl_array *a, bool keepdims, struct kl_stream *s,
           struct kl_error **err) {
    return kl_reduced_all(kl_sum_axes, out, a, keepdims, s, err);
}
int kl_prod(struct kl_array **out, struct kl_array *a, bool keepdims, struct kl_stream *s,
            struct kl_error **err) {
    return kl_reduced_all(kl_prod_axes, out, a, keepdims, s, err);
}
int kl_mean(struct kl_array **out, struct kl_array *a, bool keepdims, struct kl_stream *s,
            struct kl_error **err) {
    return kl_reduced_all(kl_mean_axes, out, a, keepdims, s, err);
}
int kl_max(struct kl_array **out, struct kl_array *a, bool keepdims, struct kl_stream *s,
           struct kl_error **err) {
    return kl_reduced_all(kl_max_axes, out, a, keepdims, s, err);
}
int kl_min(struct kl_array **out, struct kl_array *a, bool keepdims, struct kl_stream *s,
           struct kl_error **err) {
    return kl_reduced_all(kl_min_axes, out, a, keepdims, s, err);
}
int kl_all(struct kl_array **out, struct kl_array *a, bool keepdims, struct kl_stream *s,
           struct kl_error **err) {
    return kl_reduced_all(kl_all_axes, out, a, keepdims, s, err);
}
int kl_any(struct kl_array **out, struct kl_array *a, bool keepdims, struct kl_stream *s,
           struct kl_error **err) {
    return kl_reduced_all(kl_any_axes, out, a, keepdims, s, err);
}
int kl_logsumexp(struct kl_array **out, struct kl_array *a, bool keepdims, struct kl_stream *s,
                 struct kl_error **err) {
    return kl_reduced_all(kl_logsumexp_axes, out, a, keepdims, s, err);
}
int kl_sum_axis(struct kl_array **out, struct kl_array *a, int axis, bool keepdims,
                struct kl_stream *s, struct kl_error **err) {
    return kl_sum_axes(out, a, &axis, 1, keepdims, s, err);
}
int kl_prod_axis(struct kl_array **out, struct kl_array *a, int axis, bool keepdims,
                 struct kl_stream *s, struct kl_error **err) {
    return kl_prod_axes(out, a, &axis, 1, keepdims, s, err);
}
int kl_mean_axis(struct kl_array **out, struct kl_array *a, int axis, bool keepdims,
                 struct kl_stream *s, struct kl_error **err) {
    return kl_mean_axes(out, a, &axis, 1, keepdims, s, err);
}
int kl_max_axis(struct kl_array **out, struct kl_array *a, int axis, bool keepdims,
                struct kl_stream *s, struct kl_error **err) {
    return kl_max_axes(out, a, &axis, 1, keepdims, s, err);
}
int kl_min_axis(struct kl_array **out, struct kl_array *a, int axis, bool keepdims,
                struct kl_stream *s, struct kl_error **err) {
    return kl_min_axes(out, a, &axis, 1, keepdims, s, err);
}
int kl_all_axis(struct kl_array **out, struct kl_array *a, int axis, bool keepdims,
                struct kl_stream *s, struct kl_error **err) {
    return kl_all_axes(out, a, &axis, 1, keepdims, s, err);
}
int kl_any_axis(struct kl_array **out, struct kl_array *a, int axis, bool keepdims,
                struct kl_stream *s, struct kl_error **err) {
    return kl_any_axes(out, a, &axis, 1, keepdims, s, err);
}
int kl_logsumexp_axis(struct kl_array **out, struct kl_array *a, int axis, bool keepdims,
                      struct kl_stream *s, struct kl_error **err) {
    return kl_logsumexp_axes(out, a, &axis, 1, keepdims, s, err);
}

/* ---- argmax, argmin ---- */
static int arg_axis(struct kl_array **out, enum kl_op_id op, struct kl_array *a, int axis,
                    bool keepdims, struct kl_stream *s, struct kl_error **err) {
    struct kl_reduced x;
    struct kl_array *kept;
    KL_TRY(kl_check_array(a, "a", err));
    KL_TRY(kl_reduced_axes(&x, a, &axis, 1, err));
    KL_TRY(kl_check_stream(s, err));
    struct kl_axis_params p = {x.at[0]};
    int length = a->t.dims[p.axis];
    if (length == 0)
        return kl_fail(err, KL_EARG, "axis %d has size 0: there is no element to point to", p.axis);
    KL_TRY(kl_array_op1(
        &kept,
        &(struct kl_operation){
            .op = op, .stream = s, .params = &p, .params_bytes = sizeof p, .in = &a, .n_in = 1},
        KL_U32, x.kept.ndim, x.kept.dims, err));
    kl_array_set_range(kept, 0, length - 1);
    return kl_reduced_drop(out, kept, &x, keepdims, s, err);
}

static int arg_all(struct kl_array **out, enum kl_op_id op, struct kl_array *a, bool keepdims,
                   struct kl_stream *s, struct kl_error **err) {
    struct kl_array *flat, *place;
    int ones[KL_MAX_NDIM];
    KL_TRY(kl_check_array(a, "a", err));
    KL_TRY(kl_check_stream(s, err));
    KL_TRY(kl_flatten_all(&flat, a, s, err));
    int rc = arg_axis(&place, op, flat, 0, false, s, err);
    kl_array_release(flat);
    if (rc) return rc;
    for (int i = 0; i < a->t.ndim; i++) ones[i] = 1;
    rc = kl_reshape_to(out, place, keepdims ? a->t.ndim : 0, ones, s, err);
    kl_array_release(place);
    return rc;
}

int kl_argmax(struct kl_array **out, struct kl_array *a, bool keepdims, struct kl_stream *s,
              struct kl_error **err) {
    KL_DEFER(ARGMAX, a, keepdims);
    return arg_all(out, KL_OP_ARGMAX, a, keepdims, s, err);
}
int kl_argmin(struct kl_array **out, struct kl_array *a, bool keepdims, struct kl_stream *s,
              struct kl_error **err) {
    KL_DEFER(ARGMIN, a, keepdims);
    return arg_all(out, KL_OP_ARGMIN, a, keepdims, s, err);
}
int kl_argmax_axis(struct kl_array **out, struct kl_array *a, int axis, bool keepdims,
                   struct kl_stream *s, struct kl_error **err) {
    return arg_axis(out, KL_OP_ARGMAX, a, axis, keepdims, s, err);
}
int kl_argmin_axis(struct kl_array **out, struct kl_array *a, int axis, bool keepdims,
                   struct kl_stream *s, struct kl_error **err) {
    return arg_axis(out, KL_OP_ARGMIN, a, axis, keepdims, s, err);
}

/* ---- gradients ---- */
int kl_vjp_sum(const struct kl_vjp *v, struct kl_array **grad, struct kl_error **err) {
    struct kl_terms t = kl_terms_begin(v->s, err);
    if (!v->wanted[0] || !kl_has_gradient(v->in[0])) return KL_OK;
    struct kl_array *typed = kl_term_cast(&t, v->cotangent[0], v->in[0]->t.dtype);
    return kl_terms_end(&t, kl_term_broadcast(&t, typed, v->in[0]), grad);
}

/* Elements that equal the extreme share its gradient evenly. Where the extreme is NaN no element
 * equals it, and all elements of that reduction get NaN. */
int kl_vjp_extreme(const struct kl_vjp *v, struct kl_array **grad, struct kl_error **err) {
    const struct kl_reduce_params *p = v->params;
    struct kl_terms t = kl_terms_begin(v->s, err);
    if (!v->wanted[0] || !kl_has_gradient(v->in[0])) return KL_OK;
    enum kl_dtype dtype = v->in[0]->t.dtype;
    enum kl_dtype wide = kl_dtype_size(dtype) == 2 ? KL_F32 : dtype;
    struct kl_array *is = kl_term_cast(&t, kl_term2(&t, kl_equal, v->in[0], v->out[0]), wide);
    struct kl_array *count = kl_term_reduce(&t, kl_sum_axes, is, p->axes, p->n_axes);
    struct kl_array *share = kl_term2(&t, kl_divide, v->cotangent[0], count);
    return kl_terms_end(&t, kl_term_cast(&t, kl_term2(&t, kl_multiply, is, share), dtype), grad);
}

/* The derivative is the product of the other elements. It is made as the product of the elements
 * before times the product of the elements after, so that no division by 0 occurs. The reduced axes
 * become one axis, the last. */
int kl_vjp_prod(const struct kl_vjp *v, struct kl_array **grad, struct kl_error **err) {
    const struct kl_reduce_params *p = v->params;
    struct kl_terms t = kl_terms_begin(v->s, err);
    struct kl_array *x = v->in[0], *side[2];
    int perm[KL_MAX_NDIM], inverse[KL_MAX_NDIM], dims[KL_MAX_NDIM], n = 0, ndim = x->t.ndim;
    if (!v->wanted[0] || !kl_has_gradient(x)) return KL_OK;
    for (int gone = 0; gone < 2; gone++)
        for (int i = 0; i < ndim; i++) {
            bool is = false;
            for (int k = 0; k < p->n_axes; k++) is = is || p->axes[k] == i;
            if (is == gone) perm[n++] = i;
        }
    int kept = ndim - p->n_axes, length = 1;
    for (int i = 0; i < ndim; i++) inverse[perm[i]] = i;
    for (int i = 0; i < kept; i++) dims[i] = x->t.dims[perm[i]];
    for (int i = kept; i < ndim; i++) length *= x->t.dims[perm[i]];
    dims[kept] = length;
    struct kl_array *permuted = KL_TERM(&t, kl_permute(&t.made, x, perm, err));
    struct kl_array *row = KL_TERM(&t, kl_reshape_to(&t.made, permuted, kept + 1, dims, v->s, err));
    for (int k = 0; k < 2; k++)
        side[k] = KL_TERM(&t, kl_cumprod(&t.made, row, kept, k == 1, false, v->s, err));
    struct kl_array *others = kl_term2(&t, kl_multiply, side[0], side[1]);
    struct kl_array *back =
        KL_TERM(&t, kl_reshape_to(&t.made, others, ndim, permuted->t.dims, v->s, err));
    back = KL_TERM(&t, kl_permute(&t.made, back, inverse, err));
    struct kl_array *typed = kl_term_cast(&t, v->cotangent[0], x->t.dtype);
    back = kl_term_conjugate(&t, back);
    return kl_terms_end(&t, kl_term2(&t, kl_multiply, back, typed), grad);
}

struct kl_array *kl_without_empty_sums(struct kl_terms *t, struct kl_array *logs) {
    if (t->rc) return NULL;
    enum kl_dtype dtype = (enum kl_dtype)logs->t.dtype;
    struct kl_array *empty = kl_term2(t, kl_equal, logs, kl_term_number(t, -HUGE_VAL, dtype));
    return kl_term_where(t, empty, kl_term_number(t, 0, dtype), logs);
}

int kl_vjp_logsumexp(const struct kl_vjp *v, struct kl_array **grad, struct kl_error **err) {
    struct kl_terms t = kl_terms_begin(v->s, err);
    if (!v->wanted[0]) return KL_OK;
    struct kl_array *out = kl_without_empty_sums(&t, v->out[0]);
    struct kl_array *d = kl_term2(&t, kl_subtract, v->in[0], out);
    struct kl_array *weight = kl_term_conjugate(&t, kl_term(&t, kl_exp, d));
    return kl_terms_end(&t, kl_term2(&t, kl_multiply, weight, v->cotangent[0]), grad);
}

/* ---- made again ---- */
static int axes_of(struct kl_reduce_buf *p, const struct kl_build *b, struct kl_error **err) {
    int n;
    KL_TRY(kl_build_params_list(b, p, offsetof(struct kl_reduce_buf, axes), sizeof *p->axes,
                                KL_MAX_NDIM, &n, err));
    KL_TRY(kl_build_count(p->n_axes, n, "axes", err));
    return kl_build_axes(p->axes, n, b->in[0]->t.ndim, err);
}

/* A sum has the dtype of kl_sum, or that in which a mean is summed. */
int kl_rebuild_sum(const struct kl_build *b, struct kl_array **out, struct kl_error **err) {
    struct kl_reduce_buf p;
    struct kl_reduced x;
    struct kl_array *a = b->in[0];
    enum kl_dtype given = (enum kl_dtype)a->t.dtype;
    KL_TRY(axes_of(&p, b, err));
    KL_TRY(kl_reduced_axes(&x, a, p.axes, (size_t)p.n_axes, err));
    if (x.n == 0 || b->dtype == sum_dtype(given))
        return kl_sum_axes(out, a, p.axes, (size_t)p.n_axes, true, b->s, err);
    if (b->dtype != mean_sum_dtype(given))
        return kl_fail(err, KL_EDTYPE, "%s is not summed in dtype %s; %s and %s are possible",
                       kl_dtype_name(given),
                       kl_dtype_valid((int)b->dtype) ? kl_dtype_name(b->dtype) : "unknown",
                       kl_dtype_name(sum_dtype(given)), kl_dtype_name(mean_sum_dtype(given)));
    return reduce(out, KL_OP_SUM, a, b->dtype, &x, b->s, err);
}

int kl_rebuild_reduce(const struct kl_build *b, struct kl_array **out, struct kl_error **err) {
    struct kl_reduce_buf p;
    kl_reduce_axes_fn *fn = NULL;
    switch (b->op) {
    case KL_OP_PROD: fn = kl_prod_axes; break;
    case KL_OP_MAX: fn = kl_max_axes; break;
    case KL_OP_MIN: fn = kl_min_axes; break;
    case KL_OP_ALL: fn = kl_all_axes; break;
    case KL_OP_ANY: fn = kl_any_axes; break;
    default: fn = kl_logsumexp_axes;
    }
    KL_TRY(axes_of(&p, b, err));
    return fn(out, b->in[0], p.axes, (size_t)p.n_axes, true, b->s, err);
}

int kl_rebuild_arg_reduce(const struct kl_build *b, struct kl_array **out, struct kl_error **err) {
    struct kl_axis_params p;
    KL_TRY(kl_build_params(b, &p, sizeof p, err));
    KL_TRY(kl_build_axis(p.axis, b->in[0]->t.ndim, err));
    return arg_axis(out, b->op, b->in[0], p.axis, true, b->s, err);
}

/* ---- batches: the axes are one further back ---- */
int kl_vmap_reduce(const struct kl_vmap *v, struct kl_array **out, int *axis,
                   struct kl_error **err) {
    const struct kl_reduce_params *one = v->params;
    struct kl_reduce_buf p = {.n_axes = one->n_axes};
    for (int i = 0; i < p.n_axes; i++) p.axes[i] = one->axes[i] + 1;
    *axis = 0;
    return kl_vmap_build(v, out, &p, v->params_bytes, v->in, err);
}

int kl_vmap_arg_reduce(const struct kl_vmap *v, struct kl_array **out, int *axis,
                       struct kl_error **err) {
    const struct kl_axis_params p = {((const struct kl_axis_params *)v->params)->axis + 1};
    *axis = 0;
    return kl_vmap_build(v, out, &p, sizeof p, v->in, err);
}
