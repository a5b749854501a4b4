/* attention.c - scaled_dot_product_attention: softmax(scale q k' + mask) v, over groups of heads that share keys and values.
 *
 * On the CPU one kernel does all of it, in float32. On devices, and in float64, it is composed of products and a softmax; its vjp rule is, everywhere. */
#include <float.h>
#include <string.h>

#include "base/op_params.h"
#include "ops/meet.h"
#include "ops/ops.h"
#include "ops/views.h"
#include "ops/vjp.h"

/* ---- arguments ---- */

struct attention {
    int b, heads, kv_heads, n, m, d, e;
    enum kl_dtype dtype;
    struct kl_attention_params p;
    struct kl_array *in
        [5]; /* q, k, v, mask?, sinks?: of one dtype (masks may be bool) and the kernel's shapes; owned */
    int n_in;
    struct kl_stream *s;
};

static int check_operand(const struct kl_array *a, const char *what, struct kl_error **err) {
    KL_TRY(kl_check_array(a, what, err));
    if (a->t.ndim == 4) return KL_OK;
    return kl_fail(err, KL_ESHAPE,
                   "%s of shape %s; four axes are taken: batch, heads, length, width", what,
                   KL_SHAPE_TEXT_OF(a));
}

static int check_shapes(struct attention *t, const struct kl_array *q, const struct kl_array *k,
                        const struct kl_array *v, struct kl_error **err) {
    KL_TRY(check_operand(q, "queries", err));
    KL_TRY(check_operand(k, "keys", err));
    KL_TRY(check_operand(v, "values", err));
    const int *dq = q->t.dims, *dk = k->t.dims, *dv = v->t.dims;
    *t = (struct attention){.b = dq[0],
                            .heads = dq[1],
                            .kv_heads = dk[1],
                            .n = dq[2],
                            .m = dk[2],
                            .d = dq[3],
                            .e = dv[3]};
    if (dk[0] != t->b || dv[0] != t->b)
        return kl_fail(err, KL_ESHAPE,
                       "batches of %d queries, %d keys and %d values; they must be equal", t->b,
                       dk[0], dv[0]);
    if (dk[3] != t->d)
        return kl_fail(err, KL_ESHAPE,
                       "queries of width %d and keys of width %d; they must be equal", t->d, dk[3]);
    if (dv[1] != t->kv_heads || dv[2] != t->m)
        return kl_fail(err, KL_ESHAPE,
                       "keys of shape %s and values of shape %s; heads and lengths must be equal",
                       KL_SHAPE_TEXT_OF(k), KL_SHAPE_TEXT_OF(v));
    if (t->kv_heads == 0 ? t->heads != 0 : t->heads % t->kv_heads != 0)
        return kl_fail(
            err, KL_ESHAPE,
            "%d heads of queries and %d of keys; the first must be a multiple of the second",
            t->heads, t->kv_heads);
    t->dtype = kl_dtype_promote(kl_dtype_promote(q->t.dtype, k->t.dtype), v->t.dtype);
    if (!kl_dtype_is_float(t->dtype))
        return kl_fail(err, KL_EDTYPE,
                       "queries, keys and values meet in %s; floating-point types are taken",
                       kl_dtype_name(t->dtype));
    return KL_OK;
}

static int add_input(struct attention *t, struct kl_array *a, enum kl_dtype dtype,
                     struct kl_error **err) {
    KL_TRY(kl_cast_to(&t->in[t->n_in], a, dtype, t->s, err));
    t->n_in++;
    return KL_OK;
}

static int add_mask(struct attention *t, struct kl_array *mask, struct kl_error **err) {
    int dims[] = {t->b, t->heads, t->n, t->m};
    enum kl_dtype type = mask->t.dtype;
    struct kl_array *typed;
    if (type != KL_BOOL && kl_dtype_promote(type, t->dtype) != t->dtype)
        return kl_fail(err, KL_EDTYPE,
                       "a mask of %s for %s; a mask is bool or promotes to the operands' type",
                       kl_dtype_name(type), kl_dtype_name(t->dtype));
    if (mask->t.ndim > 4)
        return kl_fail(err, KL_ESHAPE, "a mask of shape %s; it has at most four axes",
                       KL_SHAPE_TEXT_OF(mask));
    KL_TRY(kl_cast_to(&typed, mask, type == KL_BOOL ? KL_BOOL : t->dtype, t->s, err));
    int rc = kl_broadcast_view(&t->in[t->n_in], typed, 4, dims, err);
    kl_array_release(typed);
    if (rc) return rc;
    t->n_in++;
    t->p.has_mask = true;
    return KL_OK;
}

static int prepare(struct attention *t, struct kl_array *q, struct kl_array *k, struct kl_array *v,
                   struct kl_array *mask, struct kl_array *sinks, struct kl_error **err) {
    KL_TRY(add_input(t, q, t->dtype, err));
    KL_TRY(add_input(t, k, t->dtype, err));
    KL_TRY(add_input(t, v, t->dtype, err));
    if (mask) KL_TRY(add_mask(t, mask, err));
    if (!sinks) return KL_OK;
    if (sinks->t.ndim != 1 || sinks->t.dims[0] != t->heads)
        return kl_fail(err, KL_ESHAPE,
                       "sinks of shape %s; one per head of the queries is taken, (%d)",
                       KL_SHAPE_TEXT_OF(sinks), t->heads);
    if (kl_dtype_promote(sinks->t.dtype, t->dtype) != t->dtype)
        return kl_fail(err, KL_EDTYPE,
                       "sinks of %s for %s; they must promote to the operands' type",
                       kl_dtype_name(sinks->t.dtype), kl_dtype_name(t->dtype));
    KL_TRY(add_input(t, sinks, t->dtype, err));
    t->p.has_sinks = true;
    return KL_OK;
}

/* ---- composed ---- */

/* What a composition makes on the way: all released at its end. */
struct made {
    struct kl_array *all[40];
    int n;
};
static struct kl_array **slot(struct made *m) {
    m->all[m->n] = NULL;
    return &m->all[m->n++];
}
#define MAKE(x, f, ...)                    \
    do {                                   \
        struct kl_array **slot_ = slot(m); \
        KL_TRY(f(slot_, __VA_ARGS__));     \
        (x) = *slot_;                      \
    } while (0)

/* (b, heads, rows, cols) as (b, kv heads, heads of a group, rows, cols). */
static int grouped(struct kl_array **out, struct kl_array *a, const struct attention *t,
                   struct kl_error **err) {
    int dims[] = {t->b, t->kv_heads, t->kv_heads ? a->t.dims[1] / t->kv_heads : 1, a->t.dims[2],
                  a->t.dims[3]};
    return kl_reshape_to(out, a, 5, dims, t->s, err);
}

static int swapped(struct kl_array **out, struct kl_array *a, struct kl_error **err) {
    static const int perm[] = {0, 1, 2, 4, 3};
    return kl_permute(out, a, perm, err);
}

/* scores where `keep`, else the lowest number. */
static int keep_where(struct kl_array **out, struct kl_array *keep, struct kl_array *scores,
                      const struct attention *t, struct kl_error **err) {
    double lowest = t->dtype == KL_F64   ? -DBL_MAX
                    : t->dtype == KL_F16 ? -65504
                                         : (double)kl_bf16_to_f32(0xff7f);
    struct kl_array *low;
    if (t->dtype == KL_F32) lowest = -FLT_MAX;
    KL_TRY(kl_array_new_scalar(&low, lowest, t->dtype, err));
    int rc = kl_where(out, keep, scores, low, t->s, err);
    kl_array_release(low);
    return rc;
}

static int causal_mask(struct made *m, struct kl_array **out, const struct attention *t,
                       struct kl_error **err) {
    struct kl_array *rows, *column, *cols;
    MAKE(rows, kl_arange, t->m - t->n, t->m, 1, KL_I32, t->s, err);
    MAKE(column, kl_expand_dims, rows, 1, t->s, err);
    MAKE(cols, kl_arange, 0, t->m, 1, KL_I32, t->s, err);
    MAKE(*out, kl_less_equal, cols, column, t->s, err);
    return KL_OK;
}

/* The weights of all keys, (b, kv heads, group, n, m); *k5, *q5: the grouped operands, the second scaled. *sink (may be NULL): the weights of the sinks, (..., n, 1). */
static int weights(struct made *m, struct kl_array **out, struct kl_array **q5,
                   struct kl_array **k5, struct kl_array **sink, const struct attention *t,
                   struct kl_error **err) {
    struct kl_array *factor, *scaled, *turned, *x, *y, *keep;
    MAKE(factor, kl_array_new_scalar, t->p.scale, t->dtype, err);
    MAKE(scaled, kl_multiply, t->in[0], factor, t->s, err);
    MAKE(*q5, grouped, scaled, t, err);
    MAKE(*k5, grouped, t->in[1], t, err);
    MAKE(turned, swapped, *k5, err);
    MAKE(x, kl_matmul, *q5, turned, t->s, err);
    if (t->p.causal) {
        KL_TRY(causal_mask(m, &keep, t, err));
        MAKE(x, keep_where, keep, x, t, err);
    }
    if (t->p.has_mask) {
        MAKE(keep, grouped, t->in[3], t, err);
        if (keep->t.dtype == KL_BOOL)
            MAKE(x, keep_where, keep, x, t, err);
        else
            MAKE(x, kl_add, x, keep, t->s, err);
    }
    *sink = NULL;
    if (!t->p.has_sinks) {
        MAKE(*out, kl_softmax_axis, x, -1, true, t->s, err);
        return KL_OK;
    }
    int per_group[] = {1, t->kv_heads, t->kv_heads ? t->heads / t->kv_heads : 1, 1, 1};
    int wide[] = {t->b, per_group[1], per_group[2], t->n, 1};
    int start[5] = {0}, step[] = {1, 1, 1, 1, 1};
    MAKE(y, kl_reshape_to, t->in[3 + t->p.has_mask], 5, per_group, t->s, err);
    MAKE(y, kl_broadcast_view, y, 5, wide, err);
    MAKE(x, kl_concatenate_axis, ((struct kl_array *[]){x, y}), 2, -1, t->s, err);
    MAKE(x, kl_softmax_axis, x, -1, true, t->s, err);
    wide[4] = t->m;
    MAKE(*out, kl_slice_to, x, start, step, wide, err);
    start[4] = t->m;
    wide[4] = 1;
    MAKE(*sink, kl_slice_to, x, start, step, wide, err);
    return KL_OK;
}

static int compose(struct made *m, struct kl_array **out, const struct attention *t,
                   struct kl_error **err) {
    struct kl_array *w, *q5, *k5, *sink, *v5, *x;
    int dims[] = {t->b, t->heads, t->n, t->e};
    KL_TRY(weights(m, &w, &q5, &k5, &sink, t, err));
    MAKE(v5, grouped, t->in[2], t, err);
    MAKE(x, kl_matmul, w, v5, t->s, err);
    return kl_reshape_to(out, x, 4, dims, t->s, err);
}

static int build(struct kl_array **out, const struct attention *t, struct kl_error **err) {
    int dims[] = {t->b, t->heads, t->n, t->e};
    if (kl_stream_device_type(t->s) == KL_CPU && t->dtype != KL_F64)
        return kl_array_op1(out, KL_OP_ATTENTION, t->s, &t->p, sizeof t->p, t->in, t->n_in,
                            t->dtype, 4, dims, err);
    struct made m = {.n = 0};
    int rc = compose(&m, out, t, err);
    kl_release_all(m.all, (size_t)m.n);
    return rc;
}

int kl_attention(struct kl_array **out, struct kl_array *q, struct kl_array *k, struct kl_array *v,
                 float scale, const char *mask_mode, struct kl_array *mask, struct kl_array *sinks,
                 struct kl_stream *s, struct kl_error **err) {
    struct attention t;
    KL_TRY(check_shapes(&t, q, k, v, err));
    KL_TRY(kl_check_stream(s, err));
    t.s = s;
    t.p.scale = scale;
    t.p.causal = mask_mode && strcmp(mask_mode, "causal") == 0;
    if (mask_mode && !t.p.causal && strcmp(mask_mode, "") != 0 && strcmp(mask_mode, "array") != 0)
        return kl_fail(err, KL_EARG, "mask mode \"%s\"; \"\", \"causal\" and \"array\" are taken",
                       mask_mode);
    if (t.p.causal && mask)
        return kl_fail(err, KL_EARG, "mask mode \"causal\" and a mask; one of them is taken");
    if (mask_mode && strcmp(mask_mode, "array") == 0 && !mask)
        return kl_fail(err, KL_EARG, "mask mode \"array\" without a mask");
    int rc = prepare(&t, q, k, v, mask, sinks, err);
    if (!rc) rc = build(out, &t, err);
    kl_release_all(t.in, (size_t)t.n_in);
    return rc;
}

/* ---- vjp ---- */

/* With w the weights and c the cotangent: dv = w' c; from dw = c v' the scores' gradient ds = w (dw - sum(w dw)); dq = scale ds k, dk = ds' (scale q). A sink's score is one like
 * the others, with a value of 0. */
static int gradients(struct made *m, const struct kl_vjp *v, const struct attention *t,
                     struct kl_array **grad, struct kl_error **err) {
    struct kl_array *w, *q5, *k5, *sink, *v5, *c5, *x, *y, *dw, *sum, *ds, *factor;
    KL_TRY(weights(m, &w, &q5, &k5, &sink, t, err));
    MAKE(v5, grouped, t->in[2], t, err);
    MAKE(c5, grouped, v->cotangent[0], t, err);
    MAKE(x, swapped, v5, err);
    MAKE(dw, kl_matmul, c5, x, t->s, err);
    MAKE(x, kl_multiply, w, dw, t->s, err);
    MAKE(sum, kl_sum_axis, x, -1, true, t->s, err);
    MAKE(x, kl_subtract, dw, sum, t->s, err);
    MAKE(ds, kl_multiply, w, x, t->s, err);
    MAKE(factor, kl_array_new_scalar, t->p.scale, t->dtype, err);
    if (v->wanted[0]) {
        MAKE(x, kl_matmul, ds, k5, t->s, err);
        MAKE(x, kl_multiply, x, factor, t->s, err);
        KL_TRY(kl_reshape_to(&grad[0], x, 4, v->in[0]->t.dims, t->s, err));
    }
    if (v->wanted[1]) {
        MAKE(x, swapped, ds, err);
        MAKE(x, kl_matmul, x, q5, t->s, err);
        KL_TRY(kl_sum_axis(&grad[1], x, 2, false, t->s, err));
    }
    if (v->wanted[2]) {
        MAKE(x, swapped, w, err);
        MAKE(x, kl_matmul, x, c5, t->s, err);
        KL_TRY(kl_sum_axis(&grad[2], x, 2, false, t->s, err));
    }
    if (t->p.has_mask && v->wanted[3] && v->in[3]->t.dtype != KL_BOOL)
        KL_TRY(kl_reshape_to(&grad[3], ds, 4, v->in[3]->t.dims, t->s, err));
    if (t->p.has_sinks && v->wanted[3 + t->p.has_mask]) {
        static const int over[] = {0, 3, 4};
        MAKE(x, kl_multiply, sink, sum, t->s, err);
        MAKE(y, kl_sum_axes, x, over, 3, false, t->s, err);
        MAKE(y, kl_negative, y, t->s, err);
        KL_TRY(kl_reshape_to(&grad[3 + t->p.has_mask], y, 1, &t->heads, t->s, err));
    }
    return KL_OK;
}

int kl_vjp_attention(const struct kl_vjp *v, struct kl_array **grad, struct kl_error **err) {
    const int *q = v->in[0]->t.dims, *k = v->in[1]->t.dims;
    struct attention t = {.b = q[0],
                          .heads = q[1],
                          .kv_heads = k[1],
                          .n = q[2],
                          .m = k[2],
                          .d = q[3],
                          .e = v->in[2]->t.dims[3],
                          .dtype = (enum kl_dtype)v->in[0]->t.dtype,
                          .p = *(const struct kl_attention_params *)v->params,
                          .n_in = v->n_in,
                          .s = v->s};
    struct made m = {.n = 0};
    for (int i = 0; i < v->n_in; i++) t.in[i] = v->in[i];
    int rc = gradients(&m, v, &t, grad, err);
    kl_release_all(m.all, (size_t)m.n);
    return rc;
}
