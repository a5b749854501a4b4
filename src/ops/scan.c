/* scan.c - cumulative operations along an axis. */
#include <math.h>

#include "base/op/op_params.h"
#include "ops/build/build.h"
#include "ops/build/jvp.h"
#include "ops/build/meet.h"
#include "ops/build/terms.h"
#include "ops/reduce_parts.h"
#include "ops/build/views.h"
#include "ops/build/vjp.h"
#include "ops/build/vmap.h"

static int scan(struct kl_array **out, enum kl_op_id op, struct kl_array *a, int axis, bool reverse,
                bool inclusive, struct kl_stream *s, struct kl_error **err) {
    struct kl_array *typed, *rows;
    KL_TRY(kl_check_array(a, "a", err));
    KL_TRY(kl_check_axis(&axis, a->t.ndim, err));
    KL_TRY(kl_check_stream(s, err));
    enum kl_dtype dtype = op == KL_OP_LOGCUMSUMEXP ? kl_dtype_inexact(a->t.dtype)
                          : op == KL_OP_CUMSUM && a->t.dtype == KL_BOOL ? KL_I32
                                                                        : (enum kl_dtype)a->t.dtype;
    struct kl_scan_params p = {axis, reverse, inclusive};
    if (op == KL_OP_LOGCUMSUMEXP)
        KL_TRY(kl_cast_to(&typed, a, dtype, s, err));
    else
        typed = kl_array_retain(a);
    int rc = kl_in_rows(&rows, typed, axis == a->t.ndim - 1 ? KL_ROWS_ALL : KL_ROWS_MOVED, s, err);
    kl_array_release(typed);
    if (rc) return rc;
    rc = kl_array_op1(
        out,
        &(struct kl_operation){
            .op = op, .stream = s, .params = &p, .params_bytes = sizeof p, .in = &rows, .n_in = 1},
        dtype, a->t.ndim, a->t.dims, err);
    kl_array_release(rows);
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
static struct kl_array *scan_step(struct kl_terms *t, kl_scan_fn *f, struct kl_array *a, int axis,
                                  bool reverse, bool inclusive) {
    return KL_TERM(t, f(&t->made, a, axis, reverse, inclusive, t->s, t->err));
}

static bool wants_gradient(const struct kl_vjp *v) {
    return v->wanted[0] && kl_has_gradient(v->in[0]);
}

int kl_vjp_cumsum(const struct kl_vjp *v, struct kl_array **grad, struct kl_error **err) {
    const struct kl_scan_params *p = v->params;
    if (!wants_gradient(v)) return KL_OK;
    return kl_cumsum(grad, v->cotangent[0], p->axis, !p->reverse, p->inclusive, v->s, err);
}

/* The sums of cotangent * product in which an element takes part, without the first n zeros. */
static struct kl_array *without_zeros(struct kl_terms *t, const struct kl_vjp *v,
                                      struct kl_array *zeros, struct kl_array *is_zero, int n) {
    const struct kl_scan_params *p = v->params;
    struct kl_array *x = v->in[0], *one = kl_term_number(t, 1, x->t.dtype);
    struct kl_array *gone =
        kl_term2(t, kl_logical_and, is_zero,
                 kl_term2(t, kl_less_equal, zeros, kl_term_number(t, n, KL_I32)));
    struct kl_array *product =
        kl_term_conjugate(t, scan_step(t, kl_cumprod, kl_term_where(t, gone, one, x), p->axis,
                                       p->reverse, p->inclusive));
    return scan_step(t, kl_cumsum, kl_term2(t, kl_multiply, product, v->cotangent[0]), p->axis,
                     !p->reverse, p->inclusive);
}

/* Element i takes part in several products, and its gradient is the sum of cotangent * product over
 * these, divided by x[i]. Where x is 0 the products must be made without x[i]. Products after a
 * second 0 are 0 with or without it; there the gradient is written as the first 0 times the
 * products without both, because its derivative with respect to the first 0 is not 0. */
int kl_vjp_cumprod(const struct kl_vjp *v, struct kl_array **grad, struct kl_error **err) {
    const struct kl_scan_params *p = v->params;
    struct kl_array *x = v->in[0];
    struct kl_terms t = kl_terms_begin(v->s, err);
    if (!wants_gradient(v)) return KL_OK;
    struct kl_array *zero = kl_term_number(&t, 0, x->t.dtype),
                    *one = kl_term_number(&t, 1, x->t.dtype);
    struct kl_array *is_zero = kl_term2(&t, kl_equal, x, zero);
    struct kl_array *zeros = scan_step(&t, kl_cumsum, is_zero, p->axis, p->reverse, true);
    struct kl_array *first = kl_term2(&t, kl_equal, zeros, kl_term_number(&t, 1, KL_I32)),
                    *second = kl_term2(&t, kl_equal, zeros, kl_term_number(&t, 2, KL_I32));
    struct kl_array *the_first =
        kl_term_where(&t, kl_term2(&t, kl_logical_and, is_zero, first), x, zero);
    the_first = kl_term_conjugate(&t, kl_term_reduce(&t, kl_sum_axes, the_first, &p->axis, 1));
    struct kl_array *at_second =
        kl_term2(&t, kl_multiply, the_first, without_zeros(&t, v, zeros, is_zero, 2));
    struct kl_array *at_zero = kl_term_where(&t, first, without_zeros(&t, v, zeros, is_zero, 1),
                                             kl_term_where(&t, second, at_second, zero));
    struct kl_array *out = kl_term_conjugate(&t, v->out[0]);
    struct kl_array *sum = scan_step(&t, kl_cumsum, kl_term2(&t, kl_multiply, out, v->cotangent[0]),
                                     p->axis, !p->reverse, p->inclusive);
    struct kl_array *divisor = kl_term_conjugate(&t, kl_term_where(&t, is_zero, one, x));
    struct kl_array *of_others = kl_term2(&t, kl_divide, sum, divisor);
    return kl_terms_end(&t, kl_term_where(&t, is_zero, at_zero, of_others), grad);
}

/* The n elements from `from` on, along the axis. */
static struct kl_array *part(struct kl_terms *t, struct kl_array *a, int axis, int from, int n) {
    int start[KL_MAX_NDIM] = {0}, step[KL_MAX_NDIM];
    if (t->rc) return NULL;
    struct kl_shape shape = kl_shape_of(a);
    for (int i = 0; i < shape.ndim; i++) step[i] = 1;
    start[axis] = from;
    shape.dims[axis] = n;
    return KL_TERM(t, kl_slice_to(&t->made, a, start, step, shape.dims, t->err));
}

/* Each result is a copy of the last element, in the direction of the scan, that equals it; the
 * cotangent is added to that element. */
int kl_vjp_cumextreme(const struct kl_vjp *v, struct kl_array **grad, struct kl_error **err) {
    const struct kl_scan_params *p = v->params;
    struct kl_array *x = v->in[0];
    struct kl_terms t = kl_terms_begin(v->s, err);
    int n = v->wanted[0] ? x->t.dims[p->axis] : 0, column[KL_MAX_NDIM];
    if (!wants_gradient(v)) return KL_OK;
    for (int i = 0; i < x->t.ndim; i++) column[i] = i == p->axis ? n : 1;
    kl_scan_fn *extreme = v->op == KL_OP_CUMMAX ? kl_cummax : kl_cummin;
    struct kl_array *all =
        p->inclusive ? v->out[0] : scan_step(&t, extreme, x, p->axis, p->reverse, true);
    struct kl_array *is = kl_term2(&t, kl_equal, x, all);
    struct kl_array *row = KL_TERM(&t, kl_arange(&t.made, 0, n, 1, KL_I32, v->s, err));
    struct kl_array *places =
        KL_TERM(&t, kl_reshape_to(&t.made, row, x->t.ndim, column, v->s, err));
    struct kl_array *other = kl_term_number(&t, p->reverse ? n - 1 : 0, KL_I32);
    struct kl_array *from =
        scan_step(&t, p->reverse ? kl_cummin : kl_cummax, kl_term_where(&t, is, places, other),
                  p->axis, p->reverse, true);
    struct kl_array *cotangent = v->cotangent[0];
    if (!p->inclusive && n > 0) { /* element i has the position of the element before it */
        cotangent = part(&t, cotangent, p->axis, p->reverse ? 0 : 1, n - 1);
        from = part(&t, from, p->axis, p->reverse ? 1 : 0, n - 1);
    }
    struct kl_array *none = KL_TERM(&t, kl_zeros_like(&t.made, x, v->s, err));
    struct kl_array *added =
        KL_TERM(&t, kl_scatter_add_axis(&t.made, none, from, cotangent, p->axis, v->s, err));
    return kl_terms_end(&t, added, grad);
}

/* A logarithm in 16 bits has few digits of the number: such arrays are computed in float32. */
static struct kl_array *wide(struct kl_terms *t, struct kl_array *a) {
    if (t->rc) return NULL;
    return kl_term_cast(t, a, a->t.dtype == KL_F64 ? KL_F64 : KL_F32);
}

/* The logarithm of the positive part of g (k: 0) or of its negative part (k: 1). Where g is 0 both
 * parts are the same small number: what is made of them cancels, and is differentiable there. */
static struct kl_array *log_of_part(struct kl_terms *t, struct kl_array *g, int k) {
    if (t->rc) return NULL;
    enum kl_dtype dtype = (enum kl_dtype)g->t.dtype;
    struct kl_array *zero = kl_term_number(t, 0, dtype), *one = kl_term_number(t, 1, dtype);
    struct kl_array *small = kl_term_number(t, 0x1p-100, dtype);
    struct kl_array *is_zero = kl_term2(t, kl_equal, g, zero);
    struct kl_array *part = kl_term_where(t, is_zero, k ? small : kl_term2(t, kl_add, g, small),
                                          k ? kl_term(t, kl_negative, g) : g);
    struct kl_array *has_none = kl_term2(t, kl_less, part, zero); /* false for NaN, which stays */
    struct kl_array *log = kl_term(t, kl_log, kl_term_where(t, has_none, one, part));
    return kl_term_where(t, has_none, kl_term_number(t, -HUGE_VAL, dtype), log);
}

/* The gradient of element i is the sum of cotangent[j] * exp(x[i] - out[j]) over the j whose result
 * includes element i. It is computed by two logarithmic scans: one of the positive and one of the
 * negative cotangents. */
int kl_vjp_logcumsumexp(const struct kl_vjp *v, struct kl_array **grad, struct kl_error **err) {
    const struct kl_scan_params *p = v->params;
    struct kl_array *x = v->in[0], *sum[2];
    struct kl_terms t = kl_terms_begin(v->s, err);
    if (!v->wanted[0]) return KL_OK;
    if (x->t.dtype == KL_C64)
        return kl_fail(err, KL_EUNSUPPORTED, "logcumsumexp has no gradient for complex64 yet");
    struct kl_array *out = wide(&t, kl_without_empty_sums(&t, v->out[0]));
    struct kl_array *given = wide(&t, v->cotangent[0]), *at = wide(&t, x);
    for (int k = 0; k < 2; k++) {
        struct kl_array *logs = log_of_part(&t, given, k);
        logs = kl_term2(&t, kl_subtract, logs, out);
        logs = scan_step(&t, kl_logcumsumexp, logs, p->axis, !p->reverse, p->inclusive);
        sum[k] = kl_term(&t, kl_exp, kl_term2(&t, kl_add, logs, at));
    }
    struct kl_array *sums = kl_term2(&t, kl_subtract, sum[0], sum[1]);
    return kl_terms_end(&t, kl_term_cast(&t, sums, (enum kl_dtype)x->t.dtype), grad);
}

/* The tangent of result i is the sum of tangent[j] * exp(x[j] - out[i]) over the elements j that it
 * includes; also by two logarithmic scans. */
int kl_jvp_logcumsumexp(const struct kl_jvp *j, struct kl_array **tangent, struct kl_error **err) {
    const struct kl_scan_params *p = j->params;
    struct kl_array *sum[2];
    struct kl_terms t = kl_terms_begin(j->s, err);
    struct kl_array *out = wide(&t, kl_without_empty_sums(&t, j->out));
    struct kl_array *given = wide(&t, j->tangent[0]), *at = wide(&t, j->in[0]);
    for (int k = 0; k < 2; k++) {
        struct kl_array *logs = log_of_part(&t, given, k);
        logs = kl_term2(&t, kl_add, logs, at);
        logs = scan_step(&t, kl_logcumsumexp, logs, p->axis, p->reverse, p->inclusive);
        sum[k] = kl_term(&t, kl_exp, kl_term2(&t, kl_subtract, logs, out));
    }
    struct kl_array *sums = kl_term2(&t, kl_subtract, sum[0], sum[1]);
    *tangent = kl_terms_keep(&t, kl_term_cast(&t, sums, (enum kl_dtype)j->in[0]->t.dtype));
    return kl_terms_end(&t, NULL, NULL);
}

/* ---- made again ---- */
int kl_rebuild_scan(const struct kl_build *b, struct kl_array **out, struct kl_error **err) {
    struct kl_scan_params p;
    KL_TRY(kl_build_params(b, &p, sizeof p, err));
    KL_TRY(kl_build_flag(&p.reverse, err));
    KL_TRY(kl_build_flag(&p.inclusive, err));
    KL_TRY(kl_build_axis(p.axis, b->in[0]->t.ndim, err));
    return scan(out, b->op, b->in[0], p.axis, p.reverse, p.inclusive, b->s, err);
}

/* ---- batches ---- */
int kl_vmap_scan(const struct kl_vmap *v, struct kl_array **out, int *axis, struct kl_error **err) {
    struct kl_scan_params p = *(const struct kl_scan_params *)v->params;
    p.axis++;
    *axis = 0;
    return kl_vmap_build(v, out, &p, sizeof p, v->in, err);
}
