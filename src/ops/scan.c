/* scan.c - cumulative operations along an axis. */
#include "base/op_params.h"
#include "ops/chain.h"
#include "ops/reduce.h"
#include "ops/views.h"
#include "ops/vjp.h"

static int scan(struct kl_array **out, enum kl_op_id op, struct kl_array *a, int axis, bool reverse,
                bool inclusive, struct kl_stream *s, struct kl_error **err) {
    struct kl_array *typed;
    KL_TRY(kl_check_array(a, "a", err));
    KL_TRY(kl_check_axis(&axis, a->t.ndim, err));
    KL_TRY(kl_check_stream(s, err));
    enum kl_dtype dtype = op == KL_OP_LOGCUMSUMEXP ? kl_inexact_dtype(a->t.dtype)
                          : op == KL_OP_CUMSUM && a->t.dtype == KL_BOOL ? KL_I32
                                                                        : (enum kl_dtype)a->t.dtype;
    struct kl_scan_params p = {axis, reverse, inclusive};
    if (op == KL_OP_LOGCUMSUMEXP)
        KL_TRY(kl_cast_to(&typed, a, dtype, s, err));
    else
        typed = kl_array_retain(a);
    int rc = kl_array_op1(out, op, s, &p, sizeof p, &typed, 1, dtype, a->t.ndim, a->t.dims, err);
    kl_array_release(typed);
    if (rc == KL_OK && (op == KL_OP_CUMMAX || op == KL_OP_CUMMIN) && inclusive && a->has_range)
        kl_array_set_range(*out, a->lo, a->hi);
    return rc;
}

int kl_cumsum(struct kl_array **out, struct kl_array *a, int axis, bool reverse, bool inclusive,
              struct kl_stream *s, struct kl_error **err) {
    return scan(out, KL_OP_CUMSUM, a, axis, reverse, inclusive, s, err);
}
int kl_cumprod(struct kl_array **out, struct kl_array *a, int axis, bool reverse, bool inclusive,
               struct kl_stream *s, struct kl_error **err) {
    return scan(out, KL_OP_CUMPROD, a, axis, reverse, inclusive, s, err);
}
int kl_cummax(struct kl_array **out, struct kl_array *a, int axis, bool reverse, bool inclusive,
              struct kl_stream *s, struct kl_error **err) {
    return scan(out, KL_OP_CUMMAX, a, axis, reverse, inclusive, s, err);
}
int kl_cummin(struct kl_array **out, struct kl_array *a, int axis, bool reverse, bool inclusive,
              struct kl_stream *s, struct kl_error **err) {
    return scan(out, KL_OP_CUMMIN, a, axis, reverse, inclusive, s, err);
}
int kl_logcumsumexp(struct kl_array **out, struct kl_array *a, int axis, bool reverse,
                    bool inclusive, struct kl_stream *s, struct kl_error **err) {
    return scan(out, KL_OP_LOGCUMSUMEXP, a, axis, reverse, inclusive, s, err);
}

/* ---- gradients ---- */
static struct kl_array *scan_step(struct kl_chain *c, kl_scan_fn *f, struct kl_array *a, int axis,
                                  bool reverse, bool inclusive) {
    struct kl_array *out = NULL;
    return kl_chain_goes_on(c)
               ? kl_chain_hold(c, f(&out, a, axis, reverse, inclusive, c->s, c->err), &out)
               : NULL;
}

static bool has_gradient(const struct kl_vjp *v) {
    return v->wanted[0] && (kl_dtype_is_float(v->in[0]->t.dtype) || v->in[0]->t.dtype == KL_C64);
}

int kl_vjp_cumsum(const struct kl_vjp *v, struct kl_array **grad, struct kl_error **err) {
    const struct kl_scan_params *p = v->params;
    if (!has_gradient(v)) return KL_OK;
    return kl_cumsum(grad, v->cotangent[0], p->axis, !p->reverse, p->inclusive, v->s, err);
}

/* The elements that a product has element i in, each divided by it: their sum is that of cotangent * product, over x. Where x is 0 the products behind it have to be made without it, which
 * matters for the first 0 alone: those behind another are 0 with or without the other. */
int kl_vjp_cumprod(const struct kl_vjp *v, struct kl_array **grad, struct kl_error **err) {
    const struct kl_scan_params *p = v->params;
    struct kl_array *x = v->in[0];
    struct kl_chain c = {.s = v->s, .err = err};
    if (!has_gradient(v)) return KL_OK;
    if (x->t.dtype == KL_C64)
        return kl_fail(err, KL_EDTYPE, "cumprod has no gradient for complex64 yet");
    struct kl_array *zero = kl_chain_scalar(&c, 0, x->t.dtype),
                    *one = kl_chain_scalar(&c, 1, x->t.dtype);
    struct kl_array *is_zero = kl_chain_2(&c, kl_equal, x, zero);
    struct kl_array *zeros = scan_step(&c, kl_cumsum, is_zero, p->axis, p->reverse, true);
    struct kl_array *first =
        kl_chain_2(&c, kl_logical_and, is_zero,
                   kl_chain_2(&c, kl_equal, zeros, kl_chain_scalar(&c, 1, KL_I32)));
    struct kl_array *without = kl_chain_where(&c, first, one, x);
    struct kl_array *product =
        scan_step(&c, kl_cumprod, without, p->axis, p->reverse, p->inclusive);
    struct kl_array *of_zero =
        scan_step(&c, kl_cumsum, kl_chain_2(&c, kl_multiply, product, v->cotangent[0]), p->axis,
                  !p->reverse, p->inclusive);
    struct kl_array *sum =
        scan_step(&c, kl_cumsum, kl_chain_2(&c, kl_multiply, v->out[0], v->cotangent[0]), p->axis,
                  !p->reverse, p->inclusive);
    struct kl_array *of_others =
        kl_chain_2(&c, kl_divide, sum, kl_chain_where(&c, is_zero, one, x));
    struct kl_array *at_zero = kl_chain_where(&c, first, of_zero, zero);
    return kl_chain_end(&c, kl_chain_where(&c, is_zero, at_zero, of_others), grad);
}

/* The elements from `from` on, `n` of them, along the axis. */
static struct kl_array *part(struct kl_chain *c, struct kl_array *a, int axis, int from, int n) {
    int start[KL_MAX_NDIM] = {0}, step[KL_MAX_NDIM];
    struct kl_array *out = NULL;
    if (!kl_chain_goes_on(c)) return NULL;
    struct kl_shape shape = kl_shape_of(a);
    for (int i = 0; i < shape.ndim; i++) step[i] = 1;
    start[axis] = from;
    shape.dims[axis] = n;
    return kl_chain_hold(c, kl_slice_to(&out, a, start, step, shape.dims, c->err), &out);
}

/* Each result comes from the last element, in the direction of the scan, that equals it; cotangents are added there. */
int kl_vjp_cumextreme(const struct kl_vjp *v, struct kl_array **grad, struct kl_error **err) {
    const struct kl_scan_params *p = v->params;
    struct kl_array *x = v->in[0], *places = NULL, *row = NULL, *added = NULL, *none = NULL;
    struct kl_chain c = {.s = v->s, .err = err};
    int n = v->wanted[0] ? x->t.dims[p->axis] : 0, column[KL_MAX_NDIM];
    if (!has_gradient(v)) return KL_OK;
    for (int i = 0; i < x->t.ndim; i++) column[i] = i == p->axis ? n : 1;
    kl_scan_fn *extreme = v->op == KL_OP_CUMMAX ? kl_cummax : kl_cummin;
    struct kl_array *all =
        p->inclusive ? v->out[0] : scan_step(&c, extreme, x, p->axis, p->reverse, true);
    struct kl_array *is = kl_chain_2(&c, kl_equal, x, all);
    if (kl_chain_goes_on(&c))
        row = kl_chain_hold(&c, kl_arange(&row, 0, n, 1, KL_I32, v->s, err), &row);
    if (kl_chain_goes_on(&c))
        places =
            kl_chain_hold(&c, kl_reshape_to(&places, row, x->t.ndim, column, v->s, err), &places);
    struct kl_array *other = kl_chain_scalar(&c, p->reverse ? n - 1 : 0, KL_I32);
    struct kl_array *from =
        scan_step(&c, p->reverse ? kl_cummin : kl_cummax, kl_chain_where(&c, is, places, other),
                  p->axis, p->reverse, true);
    struct kl_array *cotangent = v->cotangent[0];
    if (!p->inclusive && n > 0) { /* element i is that of the one before it */
        cotangent = part(&c, cotangent, p->axis, p->reverse ? 0 : 1, n - 1);
        from = part(&c, from, p->axis, p->reverse ? 1 : 0, n - 1);
    }
    if (kl_chain_goes_on(&c)) none = kl_chain_hold(&c, kl_zeros_like(&none, x, v->s, err), &none);
    if (kl_chain_goes_on(&c))
        added = kl_chain_hold(
            &c, kl_scatter_add_axis(&added, none, from, cotangent, p->axis, v->s, err), &added);
    return kl_chain_end(&c, added, grad);
}

/* Element i gets the sum of cotangent[j] * exp(x[i] - out[j]) over the j that it is in: a scan of logarithms again, of the positive and of the negative cotangents. */
int kl_vjp_logcumsumexp(const struct kl_vjp *v, struct kl_array **grad, struct kl_error **err) {
    const struct kl_scan_params *p = v->params;
    struct kl_array *x = v->in[0], *sum[2];
    struct kl_chain c = {.s = v->s, .err = err};
    if (!v->wanted[0]) return KL_OK;
    if (x->t.dtype == KL_C64)
        return kl_fail(err, KL_EDTYPE, "logcumsumexp has no gradient for complex64 yet");
    struct kl_array *zero = kl_chain_scalar(&c, 0, x->t.dtype), *given = v->cotangent[0];
    for (int k = 0; k < 2; k++) {
        if (k) given = kl_chain_1(&c, kl_negative, given);
        struct kl_array *logs = kl_chain_1(&c, kl_log, kl_chain_2(&c, kl_maximum, given, zero));
        logs = kl_chain_2(&c, kl_subtract, logs, v->out[0]);
        logs = scan_step(&c, kl_logcumsumexp, logs, p->axis, !p->reverse, p->inclusive);
        sum[k] = kl_chain_1(&c, kl_exp, kl_chain_2(&c, kl_add, logs, x));
    }
    return kl_chain_end(&c, kl_chain_2(&c, kl_subtract, sum[0], sum[1]), grad);
}
