/* attention.c - scaled_dot_product_attention: softmax(scale q k' + mask) v, over groups of heads
 * that share keys and values. attention_backward.c has its gradients.
 *
 * One kernel computes it, in float32. In float64, and where the gradient of a mask is wanted, it is
 * composed of products and a softmax. For 16-bit floats the composed form computes in float32 and
 * rounds only the result: scores of 65504 and more are common, and weights of 16 bits are too
 * coarse. */
#include "ops/attention_parts.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "ops/build/deferred.h"
#include "ops/build/meet.h"
#include "ops/build/views.h"

/* ---- arguments ---- */

int kl_attention_check_operand(const struct kl_array *a, const char *what, struct kl_error **err) {
    KL_TRY(kl_check_array(a, what, err));
    if (a->t.ndim == 4) return KL_OK;
    return kl_fail(err, KL_ESHAPE,
                   "%s of shape %s; four axes are taken: batch, heads, length, width", what,
                   KL_SHAPE_TEXT_OF(a));
}

int kl_attention_check(struct kl_attention *t, const struct kl_array *q, const struct kl_array *k,
                       const struct kl_array *v, struct kl_error **err) {
    KL_TRY(kl_attention_check_operand(q, "queries", err));
    KL_TRY(kl_attention_check_operand(k, "keys", err));
    KL_TRY(kl_attention_check_operand(v, "values", err));
    const int *dq = q->t.dims, *dk = k->t.dims, *dv = v->t.dims;
    *t = (struct kl_attention){.b = dq[0],
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

int kl_attention_add(struct kl_attention *t, struct kl_array *a, enum kl_dtype dtype,
                     struct kl_error **err) {
    KL_TRY(kl_cast_to(&t->in[t->n_in], a, dtype, t->s, err));
    t->n_in++;
    return KL_OK;
}

static int add_mask(struct kl_attention *t, struct kl_array *mask, struct kl_error **err) {
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

int kl_attention_prepare(struct kl_attention *t, struct kl_array *q, struct kl_array *k,
                         struct kl_array *v, struct kl_array *mask, struct kl_array *sinks,
                         struct kl_error **err) {
    KL_TRY(kl_attention_add(t, q, t->dtype, err));
    KL_TRY(kl_attention_add(t, k, t->dtype, err));
    KL_TRY(kl_attention_add(t, v, t->dtype, err));
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
    KL_TRY(kl_attention_add(t, sinks, t->dtype, err));
    t->p.has_sinks = true;
    return KL_OK;
}

/* ---- the composed form ---- */

/* Reshapes (b, heads, rows, cols) to (b, kv heads, heads of a group, rows, cols). */
int kl_attention_grouped(struct kl_array **out, struct kl_array *a, const struct kl_attention *t,
                         struct kl_error **err) {
    int dims[] = {t->b, t->kv_heads, t->kv_heads ? a->t.dims[1] / t->kv_heads : 1, a->t.dims[2],
                  a->t.dims[3]};
    return kl_reshape_to(out, a, 5, dims, t->s, err);
}

int kl_attention_swapped(struct kl_array **out, struct kl_array *a, struct kl_error **err) {
    static const int perm[] = {0, 1, 2, 4, 3};
    return kl_permute(out, a, perm, err);
}

/* The type in which the composed form computes. */
enum kl_dtype kl_attention_wide(const struct kl_attention *t) {
    return t->dtype == KL_F64 ? KL_F64 : KL_F32;
}

/* The scores where `keep` is true, and the lowest number elsewhere. */
static int keep_where(struct kl_array **out, struct kl_array *keep, struct kl_array *scores,
                      const struct kl_attention *t, struct kl_error **err) {
    double lowest = kl_attention_wide(t) == KL_F64 ? -DBL_MAX : -(double)FLT_MAX;
    if (t->p.causal && t->m >= t->n) lowest = -INFINITY; /* as in the kernels: each sees a key */
    struct kl_array *low;
    KL_TRY(kl_array_new_scalar(&low, lowest, kl_attention_wide(t), err));
    int rc = kl_where(out, keep, scores, low, t->s, err);
    kl_array_release(low);
    return rc;
}

static struct kl_array *causal_mask(struct kl_terms *t, const struct kl_attention *p) {
    struct kl_array *rows =
        KL_TERM(t, kl_arange(&t->made, p->m - p->n, p->m, 1, KL_I32, t->s, t->err));
    struct kl_array *column = KL_TERM(t, kl_expand_dims(&t->made, rows, 1, t->s, t->err));
    struct kl_array *cols = KL_TERM(t, kl_arange(&t->made, 0, p->m, 1, KL_I32, t->s, t->err));
    return kl_term2(t, kl_less_equal, cols, column);
}

void kl_attention_weigh(struct kl_terms *t, struct kl_attention_parts *w,
                        const struct kl_attention *p) {
    enum kl_dtype wide = kl_attention_wide(p);
    struct kl_array *in[3], *factor = kl_term_number(t, p->p.scale, wide);
    for (int i = 0; i < 3; i++) in[i] = kl_term_cast(t, p->in[i], wide);
    struct kl_array *scaled = kl_term2(t, kl_multiply, in[0], factor);
    w->q = KL_TERM(t, kl_attention_grouped(&t->made, scaled, p, t->err));
    w->k = KL_TERM(t, kl_attention_grouped(&t->made, in[1], p, t->err));
    w->v = KL_TERM(t, kl_attention_grouped(&t->made, in[2], p, t->err));
    struct kl_array *transposed = KL_TERM(t, kl_attention_swapped(&t->made, w->k, t->err));
    struct kl_array *x = kl_term2(t, kl_matmul, w->q, transposed);
    w->keep = p->p.causal ? causal_mask(t, p) : NULL;
    if (p->p.has_mask) {
        struct kl_array *mask = KL_TERM(t, kl_attention_grouped(&t->made, p->in[3], p, t->err));
        if (p->in[3]->t.dtype == KL_BOOL)
            w->keep = mask;
        else
            x = kl_term2(t, kl_add, x, kl_term_cast(t, mask, wide));
    }
    if (w->keep) x = KL_TERM(t, keep_where(&t->made, w->keep, x, p, t->err));
    w->sink = NULL;
    if (!p->p.has_sinks) {
        w->weights = KL_TERM(t, kl_softmax_axis(&t->made, x, -1, true, t->s, t->err));
        return;
    }
    int per_group[] = {1, p->kv_heads, p->kv_heads ? p->heads / p->kv_heads : 1, 1, 1};
    int extents[] = {p->b, per_group[1], per_group[2], p->n, 1};
    int start[5] = {0}, step[] = {1, 1, 1, 1, 1};
    struct kl_array *sinks = kl_term_cast(t, p->in[3 + p->p.has_mask], wide);
    struct kl_array *y = KL_TERM(t, kl_reshape_to(&t->made, sinks, 5, per_group, t->s, t->err));
    y = KL_TERM(t, kl_broadcast_view(&t->made, y, 5, extents, t->err));
    struct kl_array *both[] = {x, y};
    x = KL_TERM(t, kl_concatenate_axis(&t->made, both, 2, -1, t->s, t->err));
    x = KL_TERM(t, kl_softmax_axis(&t->made, x, -1, true, t->s, t->err));
    extents[4] = p->m;
    w->weights = KL_TERM(t, kl_slice_to(&t->made, x, start, step, extents, t->err));
    start[4] = p->m;
    extents[4] = 1;
    w->sink = KL_TERM(t, kl_slice_to(&t->made, x, start, step, extents, t->err));
}

static int compose(struct kl_array **out, const struct kl_attention *p, struct kl_error **err) {
    struct kl_terms t = kl_terms_begin(p->s, err);
    struct kl_attention_parts w;
    int dims[] = {p->b, p->heads, p->n, p->e};
    kl_attention_weigh(&t, &w, p);
    struct kl_array *x = kl_term2(&t, kl_matmul, w.weights, w.v);
    x = kl_term_cast(&t, x, p->dtype);
    x = KL_TERM(&t, kl_reshape_to(&t.made, x, 4, dims, p->s, err));
    return kl_terms_end(&t, x, out);
}

static int build(struct kl_array **out, const struct kl_attention *t, struct kl_error **err) {
    int dims[] = {t->b, t->heads, t->n, t->e};
    if (t->dtype != KL_F64)
        return kl_array_op1(out,
                            &(struct kl_operation){.op = KL_OP_ATTENTION,
                                                   .stream = t->s,
                                                   .params = &t->p,
                                                   .params_bytes = sizeof t->p,
                                                   .in = t->in,
                                                   .n_in = t->n_in},
                            t->dtype, 4, dims, err);
    return compose(out, t, err);
}

int kl_attention(struct kl_array **out, struct kl_array *q, struct kl_array *k, struct kl_array *v,
                 float scale, const char *mask_mode, struct kl_array *mask, struct kl_array *sinks,
                 struct kl_stream *s, struct kl_error **err) {
    KL_DEFER(ATTENTION, q, k, v, (double)scale, mask_mode, mask, sinks);
    struct kl_attention t;
    KL_TRY(kl_attention_check(&t, q, k, v, err));
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
    int rc = kl_attention_prepare(&t, q, k, v, mask, sinks, err);
    for (int i = 0; i < 3 && !rc; i++) {
        struct kl_array *rows;
        if ((rc = kl_in_rows(&rows, t.in[i], KL_ROWS_READ, s, err))) break;
        kl_array_release(t.in[i]);
        t.in[i] = rows;
    }
    if (!rc) rc = build(out, &t, err);
    kl_release_all(t.in, (size_t)t.n_in);
    return rc;
}

/* ---- made again ---- */

int kl_attention_check_params(const struct kl_build *b, struct kl_attention_params *p, int more,
                              struct kl_error **err) {
    KL_TRY(kl_build_params(b, p, sizeof *p, err));
    KL_TRY(kl_build_flag(&p->causal, err));
    KL_TRY(kl_build_flag(&p->has_mask, err));
    KL_TRY(kl_build_flag(&p->has_sinks, err));
    return kl_build_count(3 + p->has_mask + p->has_sinks + more, b->n_in, "inputs", err);
}

int kl_rebuild_attention(const struct kl_build *b, struct kl_array **out, struct kl_error **err) {
    struct kl_attention_params p;
    KL_TRY(kl_attention_check_params(b, &p, 0, err));
    return kl_attention(out, b->in[0], b->in[1], b->in[2], p.scale, p.causal ? "causal" : "",
                        p.has_mask ? b->in[3] : NULL, p.has_sinks ? b->in[3 + p.has_mask] : NULL,
                        b->s, err);
}

/* ---- batches ----
 * Lanes become more heads of the same keys and values, or more elements of the batch. Both join the
 * axis of lanes with another axis. That is a view where the strides allow it. Queries, keys and
 * values that have lanes are copied where they do not; an input without lanes never is, and neither
 * is a mask, which may be a broadcast view of something small. */

/* Whether the lanes of input i can be joined with its axis `with` without a copy. */
bool kl_attention_joins(const struct kl_vmap *v, int i, int with) {
    const struct kl_tensor *t = &v->in[i]->t;
    const int own = with + v->mapped[i];
    const int64_t lane = v->mapped[i] ? t->strides[0] : 0, step = t->strides[own];
    if (t->dims[own] <= 1 || v->lanes <= 1 || t->size == 0) return true;
    return with == KL_JOIN_BATCH ? lane == step * t->dims[own] : step == lane * v->lanes;
}

static bool may_join(const struct kl_vmap *v, int with) {
    const struct kl_attention_params *p = v->params;
    if (with == KL_JOIN_HEADS && (v->mapped[1] || v->mapped[2])) return false;
    /* the elements of the batch share their sinks */
    if (with == KL_JOIN_BATCH && p->has_sinks && v->mapped[3 + p->has_mask]) return false;
    for (int i = 0; i < 3 + p->has_mask; i++) {
        if (with == KL_JOIN_HEADS && (i == 1 || i == 2)) continue;
        if ((i == 3 || !v->mapped[i]) && !kl_attention_joins(v, i, with)) return false;
    }
    return (int64_t)v->lanes * v->dims[with] <= INT32_MAX;
}

/* Input i with an axis of lanes, broadcast where it has none, joined with the axis `with`: before
 * the elements of the batch, or after the heads. */
struct kl_array *kl_attention_joined(struct kl_terms *t, const struct kl_vmap *v, int i, int with) {
    struct kl_array *x = KL_TERM(t, kl_vmap_input(v, &t->made, i, t->err));
    if (t->rc) return NULL;
    const bool is_sinks = v->in[i]->t.ndim - v->mapped[i] == 1;
    const int at = is_sinks ? 0 : with; /* the only axis of sinks is that of heads */
    struct kl_shape to = {.ndim = x->t.ndim - 1};
    for (int k = 0; k < to.ndim; k++) to.dims[k] = x->t.dims[k + 1];
    to.dims[at] *= v->lanes;
    if (with == KL_JOIN_HEADS) x = KL_TERM(t, kl_moveaxis(&t->made, x, 0, at + 1, v->s, t->err));
    return KL_TERM(t, kl_reshape_to(&t->made, x, to.ndim, to.dims, v->s, t->err));
}

static int attend_joined(const struct kl_vmap *v, int with, struct kl_array **out, int *axis,
                         struct kl_error **err) {
    const struct kl_attention_params *p = v->params;
    struct kl_terms t = kl_terms_begin(v->s, err);
    struct kl_array *in[5];
    for (int i = 0; i < v->n_in; i++) {
        const bool as_it_is = with == KL_JOIN_HEADS ? i == 1 || i == 2 : i >= 3 + p->has_mask;
        in[i] = as_it_is ? v->in[i] : kl_attention_joined(&t, v, i, with);
    }
    struct kl_array *y = KL_TERM(&t, kl_op_build(&(struct kl_build){.op = v->op,
                                                                    .params = v->params,
                                                                    .params_bytes = v->params_bytes,
                                                                    .in = in,
                                                                    .n_in = v->n_in,
                                                                    .s = v->s},
                                                 &t.made, err));
    int dims[5];
    *axis = with == KL_JOIN_HEADS ? 2 : 0;
    for (int i = 0; i < 4; i++) dims[i + (i >= *axis)] = v->dims[i];
    dims[*axis] = v->lanes;
    y = KL_TERM(&t, kl_reshape_to(&t.made, y, 5, dims, v->s, err));
    return kl_terms_end(&t, y, out);
}

/* Element `which` of the batch of input i, in all lanes. */
static int element_of(struct kl_array **out, const struct kl_vmap *v, int i, int which,
                      struct kl_error **err) {
    int start[5] = {0}, step[] = {1, 1, 1, 1, 1};
    struct kl_shape part = kl_shape_of(v->in[i]);
    if (part.ndim - v->mapped[i] == 1) { /* sinks are those of every element */
        *out = kl_array_retain(v->in[i]);
        return KL_OK;
    }
    start[v->mapped[i]] = which;
    part.dims[v->mapped[i]] = 1;
    return kl_slice_to(out, v->in[i], start, step, part.dims, err);
}

/* One element of the batch after another, each in all lanes. */
static int attend_elements(const struct kl_vmap *v, struct kl_array **out, struct kl_error **err) {
    const size_t b = (size_t)v->dims[0];
    struct kl_array **made = kl_malloc(b * sizeof(struct kl_array *)), *in[5];
    if (!made) return kl_fail_nomem(err);
    int rc = KL_OK, dims[] = {1, v->dims[1], v->dims[2], v->dims[3]}, axis;
    struct kl_vmap one = *v;
    one.in = in;
    one.dims = dims;
    size_t n = 0;
    for (; !rc && n < b; n += !rc) {
        int k = 0;
        for (; !rc && k < v->n_in; k += !rc) rc = element_of(&in[k], v, k, (int)n, err);
        if (!rc) rc = attend_joined(&one, KL_JOIN_BATCH, &made[n], &axis, err);
        kl_release_all(in, (size_t)k);
    }
    if (!rc) rc = kl_concatenate_axis(out, made, b, 1, v->s, err);
    kl_release_all(made, n);
    kl_free(made);
    return rc;
}

int kl_vmap_attention(const struct kl_vmap *v, struct kl_array **out, int *axis,
                      struct kl_error **err) {
    const struct kl_attention_params *p = v->params;
    if (may_join(v, KL_JOIN_HEADS)) return attend_joined(v, KL_JOIN_HEADS, out, axis, err);
    if (may_join(v, KL_JOIN_BATCH)) return attend_joined(v, KL_JOIN_BATCH, out, axis, err);
    *axis = 0;
    if (p->has_sinks && v->mapped[3 + p->has_mask]) return kl_vmap_each(v, out, err);
    return attend_elements(v, out, err);
}
