/* attention.c - scaled_dot_product_attention: softmax(scale q k' + mask) v, over groups of heads
 * that share keys and values; and its backward pass, an operation of its own.
 *
 * One kernel computes each of them, in float32. In float64, and where the gradient of a mask is
 * wanted, they are composed of products and a softmax. For 16-bit floats the composed form computes
 * in float32 and rounds only the result: scores of 65504 and more are common, and weights of 16
 * bits are too coarse. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/op/op_params.h"
#include "ops/build/build.h"
#include "ops/build/deferred.h"
#include "ops/build/meet.h"
#include "ops/build/terms.h"
#include "ops/build/views.h"
#include "ops/build/vmap.h"

/* ---- arguments ---- */

struct attention {
    int b, heads, kv_heads, n, m, d, e;
    enum kl_dtype dtype;
    struct kl_attention_params p;
    struct kl_array *in
        /* q, k, v, then mask and sinks where given; of one dtype (a mask may be bool) and of the
         * shapes that the kernel takes; then, for the backward pass, output and cotangent; owned */
        [7];
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

/* ---- the composed form ---- */

/* Reshapes (b, heads, rows, cols) to (b, kv heads, heads of a group, rows, cols). */
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

/* The type in which the composed form computes. */
static enum kl_dtype wide_of(const struct attention *t) {
    return t->dtype == KL_F64 ? KL_F64 : KL_F32;
}

/* The scores where `keep` is true, and the lowest number elsewhere. */
static int keep_where(struct kl_array **out, struct kl_array *keep, struct kl_array *scores,
                      const struct attention *t, struct kl_error **err) {
    double lowest = wide_of(t) == KL_F64 ? -DBL_MAX : -(double)FLT_MAX;
    if (t->p.causal && t->m >= t->n) lowest = -INFINITY; /* as in the kernels: each sees a key */
    struct kl_array *low;
    KL_TRY(kl_array_new_scalar(&low, lowest, wide_of(t), err));
    int rc = kl_where(out, keep, scores, low, t->s, err);
    kl_array_release(low);
    return rc;
}

static struct kl_array *causal_mask(struct kl_terms *t, const struct attention *p) {
    struct kl_array *rows =
        KL_TERM(t, kl_arange(&t->made, p->m - p->n, p->m, 1, KL_I32, t->s, t->err));
    struct kl_array *column = KL_TERM(t, kl_expand_dims(&t->made, rows, 1, t->s, t->err));
    struct kl_array *cols = KL_TERM(t, kl_arange(&t->made, 0, p->m, 1, KL_I32, t->s, t->err));
    return kl_term2(t, kl_less_equal, cols, column);
}

struct parts {                  /* arrays of the type wide_of, made by composed code */
    struct kl_array *q, *k, *v; /* with the heads grouped; q is already multiplied by scale */
    struct kl_array *weights;   /* the weights of all keys: (b, kv heads, group, n, m) */
    struct kl_array *sink; /* the weights of the sinks, (..., n, 1); NULL when there are no sinks */
    struct kl_array *keep; /* which keys are seen; NULL: all of them, or a mask is added */
};

static void weigh(struct kl_terms *t, struct parts *w, const struct attention *p) {
    enum kl_dtype wide = wide_of(p);
    struct kl_array *in[3], *factor = kl_term_number(t, p->p.scale, wide);
    for (int i = 0; i < 3; i++) in[i] = kl_term_cast(t, p->in[i], wide);
    struct kl_array *scaled = kl_term2(t, kl_multiply, in[0], factor);
    w->q = KL_TERM(t, grouped(&t->made, scaled, p, t->err));
    w->k = KL_TERM(t, grouped(&t->made, in[1], p, t->err));
    w->v = KL_TERM(t, grouped(&t->made, in[2], p, t->err));
    struct kl_array *transposed = KL_TERM(t, swapped(&t->made, w->k, t->err));
    struct kl_array *x = kl_term2(t, kl_matmul, w->q, transposed);
    w->keep = p->p.causal ? causal_mask(t, p) : NULL;
    if (p->p.has_mask) {
        struct kl_array *mask = KL_TERM(t, grouped(&t->made, p->in[3], p, t->err));
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

/* x where a key is seen, and 0 where it is masked: the score there is constant. */
static struct kl_array *seen_only(struct kl_terms *t, const struct parts *w, struct kl_array *x,
                                  const struct attention *p) {
    if (!w->keep) return x;
    return kl_term_where(t, w->keep, x, kl_term_number(t, 0, wide_of(p)));
}

static int compose(struct kl_array **out, const struct attention *p, struct kl_error **err) {
    struct kl_terms t = kl_terms_begin(p->s, err);
    struct parts w;
    int dims[] = {p->b, p->heads, p->n, p->e};
    weigh(&t, &w, p);
    struct kl_array *x = kl_term2(&t, kl_matmul, w.weights, w.v);
    x = kl_term_cast(&t, x, p->dtype);
    x = KL_TERM(&t, kl_reshape_to(&t.made, x, 4, dims, p->s, err));
    return kl_terms_end(&t, x, out);
}

static int build(struct kl_array **out, const struct attention *t, struct kl_error **err) {
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

/* Puts the gradients `made` that are not NULL into grad, in the dtypes of the inputs. */
static int give(struct kl_terms *t, const struct kl_vjp *v, struct kl_array **made,
                struct kl_array **grad) {
    for (int i = 0; i < v->n_in; i++)
        if (made[i]) made[i] = kl_term_cast(t, made[i], (enum kl_dtype)v->in[i]->t.dtype);
    for (int i = 0; i < v->n_in && !t->rc; i++)
        if (made[i]) grad[i] = kl_array_retain(made[i]);
    return kl_terms_end(t, NULL, NULL);
}

/* The product of the transpose of a with b, summed over the heads of a group. */
static struct kl_array *shared_product(struct kl_terms *t, struct kl_array *a, struct kl_array *b) {
    struct kl_array *x = KL_TERM(t, swapped(&t->made, a, t->err));
    x = kl_term2(t, kl_matmul, x, b);
    return KL_TERM(t, kl_sum_axis(&t->made, x, 2, false, t->s, t->err));
}

/* The product of a with the transpose of b. */
static struct kl_array *by_transpose(struct kl_terms *t, struct kl_array *a, struct kl_array *b) {
    struct kl_array *x = KL_TERM(t, swapped(&t->made, b, t->err));
    return kl_term2(t, kl_matmul, a, x);
}

/* The sum of a b over the last axis, which stays with size 1. */
static struct kl_array *row_sum(struct kl_terms *t, struct kl_array *a, struct kl_array *b) {
    struct kl_array *x = kl_term2(t, kl_multiply, a, b);
    return KL_TERM(t, kl_sum_axis(&t->made, x, -1, true, t->s, t->err));
}

/* x, (b, kv heads, group, n, 1), summed for each head. */
static struct kl_array *head_sum(struct kl_terms *t, struct kl_array *x,
                                 const struct attention *p) {
    static const int over[] = {0, 3, 4};
    x = KL_TERM(t, kl_sum_axes(&t->made, x, over, 3, false, t->s, t->err));
    return KL_TERM(t, kl_reshape_to(&t->made, x, 1, &p->heads, t->s, t->err));
}

/* With w the weights and c the cotangent: dv = w' c. From dw = c v' follows the gradient of the
 * scores, ds = w (dw - sum(w dw)); then dq = scale ds k and dk = ds' (scale q). The score of a sink
 * is treated as any other score, with a value of 0. */
static int compose_gradients(const struct kl_vjp *v, const struct attention *p,
                             struct kl_array **grad, struct kl_error **err) {
    struct kl_terms t = kl_terms_begin(p->s, err);
    struct parts w;
    weigh(&t, &w, p);
    struct kl_array *c = KL_TERM(&t, grouped(&t.made, v->cotangent[0], p, err));
    c = kl_term_cast(&t, c, wide_of(p));
    struct kl_array *dw = by_transpose(&t, c, w.v);
    struct kl_array *sum = row_sum(&t, w.weights, dw);
    struct kl_array *ds = kl_term2(&t, kl_multiply, w.weights, kl_term2(&t, kl_subtract, dw, sum));
    ds = seen_only(&t, &w, ds, p);
    struct kl_array *made[5] = {NULL};
    if (v->wanted[0]) {
        struct kl_array *x = kl_term2(&t, kl_matmul, ds, w.k);
        x = kl_term2(&t, kl_multiply, x, kl_term_number(&t, p->p.scale, wide_of(p)));
        made[0] = KL_TERM(&t, kl_reshape_to(&t.made, x, 4, v->in[0]->t.dims, p->s, err));
    }
    if (v->wanted[1]) made[1] = shared_product(&t, ds, w.q);
    if (v->wanted[2]) made[2] = shared_product(&t, w.weights, c);
    if (p->p.has_mask && v->wanted[3] && v->in[3]->t.dtype != KL_BOOL)
        made[3] = KL_TERM(&t, kl_reshape_to(&t.made, ds, 4, v->in[3]->t.dims, p->s, err));
    if (p->p.has_sinks && v->wanted[3 + p->p.has_mask])
        made[3 + p->p.has_mask] =
            kl_term(&t, kl_negative, head_sum(&t, kl_term2(&t, kl_multiply, w.sink, sum), p));
    return give(&t, v, made, grad);
}

/* ---- the backward pass ---- */

/* The parts of the result of ATTENTION_BACKWARD, one after the other: the gradients of queries,
 * keys, values and, where there are any, of sinks. */
enum { N_PARTS = 4 };
static int parts_of(const struct attention *t, int64_t *sizes) {
    sizes[0] = (int64_t)t->b * t->heads * t->n * t->d;
    sizes[1] = (int64_t)t->b * t->kv_heads * t->m * t->d;
    sizes[2] = (int64_t)t->b * t->kv_heads * t->m * t->e;
    sizes[3] = t->heads;
    return 3 + t->p.has_sinks;
}

/* The number of elements of the result. */
static int64_t backward_size(const struct attention *t) {
    int64_t sizes[N_PARTS], sum = 0;
    const int n = parts_of(t, sizes);
    for (int i = 0; i < n; i++) sum += sizes[i];
    return sum;
}

/* Part i of the result, in its shape: a view. */
static struct kl_array *part_of(struct kl_terms *t, struct kl_array *all, const struct attention *p,
                                int i) {
    const int shapes[N_PARTS][4] = {{p->b, p->heads, p->n, p->d},
                                    {p->b, p->kv_heads, p->m, p->d},
                                    {p->b, p->kv_heads, p->m, p->e},
                                    {p->heads}},
              step = 1;
    int64_t sizes[N_PARTS], start = 0;
    (void)parts_of(p, sizes);
    for (int k = 0; k < i; k++) start += sizes[k];
    const int from = (int)start, size = (int)sizes[i];
    struct kl_array *x = KL_TERM(t, kl_slice_to(&t->made, all, &from, &step, &size, t->err));
    return KL_TERM(t, kl_reshape_to(&t->made, x, i < 3 ? 4 : 1, shapes[i], t->s, t->err));
}

static int build_backward(struct kl_array **out, const struct attention *t, struct kl_error **err) {
    const int64_t size = backward_size(t);
    if (size > INT32_MAX)
        return kl_fail(err, KL_ELIMIT, "gradients of %lld elements; at most %d are taken",
                       (long long)size, INT32_MAX);
    return kl_array_op1(out,
                        &(struct kl_operation){.op = KL_OP_ATTENTION_BACKWARD,
                                               .stream = t->s,
                                               .params = &t->p,
                                               .params_bytes = sizeof t->p,
                                               .in = t->in,
                                               .n_in = t->n_in},
                        t->dtype, 1, &(int){(int)size}, err);
}

int kl_attention_backward(struct kl_array **out, struct kl_array *const *qkv, float scale,
                          bool causal, struct kl_array *mask, struct kl_array *sinks,
                          struct kl_array *result, struct kl_array *cotangent, struct kl_stream *s,
                          struct kl_error **err) {
    KL_DEFER(ATTENTION_BACKWARD, qkv, (size_t)3, (double)scale, causal, mask, sinks, result,
             cotangent);
    struct attention t;
    KL_TRY(check_shapes(&t, qkv[0], qkv[1], qkv[2], err));
    KL_TRY(kl_check_stream(s, err));
    KL_TRY(check_operand(result, "a result", err));
    KL_TRY(check_operand(cotangent, "a cotangent", err));
    const int dims[] = {t.b, t.heads, t.n, t.e};
    if (!kl_shape_is(result, 4, dims) || !kl_shape_is(cotangent, 4, dims))
        return kl_fail(err, KL_ESHAPE,
                       "a result of shape %s and a cotangent of shape %s; both "
                       "must be (%d, %d, %d, %d)",
                       KL_SHAPE_TEXT_OF(result), KL_SHAPE_TEXT_OF(cotangent), t.b, t.heads, t.n,
                       t.e);
    if (t.dtype == KL_F64)
        return kl_fail(err, KL_EDTYPE,
                       "the backward pass of attention in float64; it takes "
                       "float32, float16 and bfloat16");
    t.s = s;
    t.p.scale = scale;
    t.p.causal = causal;
    int rc = prepare(&t, qkv[0], qkv[1], qkv[2], mask, sinks, err);
    if (!rc) rc = add_input(&t, result, t.dtype, err);
    if (!rc) rc = add_input(&t, cotangent, t.dtype, err);
    if (!rc) rc = build_backward(out, &t, err);
    kl_release_all(t.in, (size_t)t.n_in);
    return rc;
}

/* The operation as the rules see it, with borrowed inputs. */
static struct attention attention_of(const void *params, struct kl_array *const *in, int n_in,
                                     struct kl_stream *s) {
    const int *q = in[0]->t.dims, *k = in[1]->t.dims;
    struct attention t = {.b = q[0],
                          .heads = q[1],
                          .kv_heads = k[1],
                          .n = q[2],
                          .m = k[2],
                          .d = q[3],
                          .e = in[2]->t.dims[3],
                          .dtype = (enum kl_dtype)in[0]->t.dtype,
                          .p = *(const struct kl_attention_params *)params,
                          .n_in = n_in,
                          .s = s};
    for (int i = 0; i < n_in; i++) t.in[i] = in[i];
    return t;
}

/* The gradient of an added mask is as large as the scores, so it is composed, and the others with
 * it. */
int kl_vjp_attention(const struct kl_vjp *v, struct kl_array **grad, struct kl_error **err) {
    struct attention p = attention_of(v->params, v->in, v->n_in, v->s);
    const bool of_mask = p.p.has_mask && v->wanted[3] && v->in[3]->t.dtype != KL_BOOL;
    if (of_mask || backward_size(&p) > INT32_MAX) return compose_gradients(v, &p, grad, err);
    struct kl_terms t = kl_terms_begin(p.s, err);
    p.in[p.n_in++] = v->out[0];
    p.in[p.n_in++] = v->cotangent[0];
    struct kl_array *all = KL_TERM(&t, build_backward(&t.made, &p, err)), *made[5] = {NULL};
    for (int i = 0; i < 3 + p.p.has_sinks; i++) {
        const int input = i < 3 ? i : 3 + p.p.has_mask;
        if (v->wanted[input]) made[input] = part_of(&t, all, &p, i);
    }
    return give(&t, v, made, grad);
}

/* With w the weights, o the result, g its cotangent, dw = g v', d = sum(o g) and ds = w (dw - d),
 * the operation gives ds k (times scale), ds' q (times scale), w' g and, for sinks of the weight
 * ws, -sum(ws d). Their cotangents are a, b, c and x. The sum to be differentiated is then
 *     sum(ds u) + sum(w g c') - sum(x ws d),  with u = scale (a k' + q b')
 * and its derivatives are
 *     by dw: h = w u                 by d: r = -sum(w u) - x ws
 *     by w: y = (dw - d) u + g c'    by ws: -x d
 *     by the scores: z = w (y - f), by that of a sink: ws (-x d - f)
 * with f = sum(w y) - ws x d. */
static int backward_gradients(const struct kl_vjp *v, const struct attention *p,
                              struct kl_array **grad, struct kl_error **err) {
    const enum kl_dtype wide = wide_of(p);
    const int at_result = 3 + p->p.has_mask + p->p.has_sinks, at_cotangent = at_result + 1;
    const int at_sinks = 3 + p->p.has_mask;
    const bool of_mask = p->p.has_mask && v->wanted[3] && p->in[3]->t.dtype != KL_BOOL;
    struct kl_terms t = kl_terms_begin(p->s, err);
    struct kl_array *made[7] = {NULL}, *abc[3], *og[2];
    struct parts w;
    weigh(&t, &w, p);
    for (int i = 0; i < 3; i++) {
        abc[i] = part_of(&t, v->cotangent[0], p, i);
        abc[i] = KL_TERM(&t, grouped(&t.made, kl_term_cast(&t, abc[i], wide), p, err));
    }
    for (int i = 0; i < 2; i++)
        og[i] = KL_TERM(&t, grouped(&t.made, kl_term_cast(&t, p->in[at_result + i], wide), p, err));
    struct kl_array *a = abc[0], *b = abc[1], *c = abc[2], *o = og[0], *g = og[1];
    struct kl_array *factor = kl_term_number(&t, p->p.scale, wide);
    a = kl_term2(&t, kl_multiply, a, factor);
    struct kl_array *u = kl_term2(&t, kl_add, by_transpose(&t, a, w.k), by_transpose(&t, w.q, b));
    u = seen_only(&t, &w, u, p);
    struct kl_array *h = kl_term2(&t, kl_multiply, w.weights, u);
    struct kl_array *d = row_sum(&t, o, g), *xd = NULL;
    struct kl_array *r = KL_TERM(&t, kl_sum_axis(&t.made, h, -1, true, p->s, err));
    if (p->p.has_sinks) {
        int dims[] = {1, p->kv_heads, p->kv_heads ? p->heads / p->kv_heads : 1, 1, 1};
        struct kl_array *x = kl_term_cast(&t, part_of(&t, v->cotangent[0], p, 3), wide);
        x = KL_TERM(&t, kl_reshape_to(&t.made, x, 5, dims, p->s, err));
        r = kl_term2(&t, kl_add, r, kl_term2(&t, kl_multiply, x, w.sink));
        xd = kl_term2(&t, kl_multiply, x, d);
    }
    r = kl_term(&t, kl_negative, r);
    struct kl_array *dw = by_transpose(&t, g, w.v);
    struct kl_array *less = kl_term2(&t, kl_subtract, dw, d);
    struct kl_array *ds = seen_only(&t, &w, kl_term2(&t, kl_multiply, w.weights, less), p);
    struct kl_array *y = kl_term2(&t, kl_multiply, less, u);
    y = kl_term2(&t, kl_add, y, by_transpose(&t, g, c));
    struct kl_array *f = row_sum(&t, w.weights, y);
    if (xd) f = kl_term2(&t, kl_subtract, f, kl_term2(&t, kl_multiply, w.sink, xd));
    struct kl_array *z = kl_term2(&t, kl_multiply, w.weights, kl_term2(&t, kl_subtract, y, f));
    z = seen_only(&t, &w, z, p);
    /* more terms than one struct holds */
    struct kl_terms last = kl_terms_begin(p->s, err);
    last.rc = t.rc;
    if (v->wanted[0]) {
        struct kl_array *x = kl_term2(&last, kl_add, kl_term2(&last, kl_matmul, z, w.k),
                                      kl_term2(&last, kl_matmul, ds, b));
        x = kl_term2(&last, kl_multiply, x, factor);
        made[0] = KL_TERM(&last, kl_reshape_to(&last.made, x, 4, p->in[0]->t.dims, p->s, err));
    }
    if (v->wanted[1])
        made[1] =
            kl_term2(&last, kl_add, shared_product(&last, z, w.q), shared_product(&last, ds, a));
    if (v->wanted[2]) made[2] = shared_product(&last, h, g);
    if (of_mask)
        made[3] = KL_TERM(&last, kl_reshape_to(&last.made, z, 4, p->in[3]->t.dims, p->s, err));
    if (p->p.has_sinks && v->wanted[at_sinks]) {
        struct kl_array *x = kl_term(&last, kl_negative, kl_term2(&last, kl_add, xd, f));
        made[at_sinks] = head_sum(&last, kl_term2(&last, kl_multiply, w.sink, x), p);
    }
    if (v->wanted[at_result]) {
        struct kl_array *x = kl_term2(&last, kl_multiply, r, g);
        made[at_result] =
            KL_TERM(&last, kl_reshape_to(&last.made, x, 4, p->in[at_result]->t.dims, p->s, err));
    }
    if (v->wanted[at_cotangent]) {
        struct kl_array *x = kl_term2(&last, kl_add, kl_term2(&last, kl_matmul, h, w.v),
                                      kl_term2(&last, kl_matmul, w.weights, c));
        x = kl_term2(&last, kl_add, x, kl_term2(&last, kl_multiply, r, o));
        made[at_cotangent] =
            KL_TERM(&last, kl_reshape_to(&last.made, x, 4, p->in[at_cotangent]->t.dims, p->s, err));
    }
    const int rc = give(&last, v, made, grad);
    (void)kl_terms_end(&t, NULL, NULL);
    return rc;
}

int kl_vjp_attention_backward(const struct kl_vjp *v, struct kl_array **grad,
                              struct kl_error **err) {
    const struct attention p = attention_of(v->params, v->in, v->n_in, v->s);
    return backward_gradients(v, &p, grad, err);
}

/* ---- made again ---- */

static int params_of(const struct kl_build *b, struct kl_attention_params *p, int more,
                     struct kl_error **err) {
    KL_TRY(kl_build_params(b, p, sizeof *p, err));
    KL_TRY(kl_build_flag(&p->causal, err));
    KL_TRY(kl_build_flag(&p->has_mask, err));
    KL_TRY(kl_build_flag(&p->has_sinks, err));
    return kl_build_count(3 + p->has_mask + p->has_sinks + more, b->n_in, "inputs", err);
}

int kl_rebuild_attention(const struct kl_build *b, struct kl_array **out, struct kl_error **err) {
    struct kl_attention_params p;
    KL_TRY(params_of(b, &p, 0, err));
    return kl_attention(out, b->in[0], b->in[1], b->in[2], p.scale, p.causal ? "causal" : "",
                        p.has_mask ? b->in[3] : NULL, p.has_sinks ? b->in[3 + p.has_mask] : NULL,
                        b->s, err);
}

int kl_rebuild_attention_backward(const struct kl_build *b, struct kl_array **out,
                                  struct kl_error **err) {
    struct kl_attention_params p;
    KL_TRY(params_of(b, &p, 2, err));
    return kl_attention_backward(out, b->in, p.scale, p.causal, p.has_mask ? b->in[3] : NULL,
                                 p.has_sinks ? b->in[3 + p.has_mask] : NULL, b->in[b->n_in - 2],
                                 b->in[b->n_in - 1], b->s, err);
}

/* ---- batches ----
 * Lanes become more heads of the same keys and values, or more elements of the batch. Both join the
 * axis of lanes with another axis. That is a view where the strides allow it. Queries, keys and
 * values that have lanes are copied where they do not; an input without lanes never is, and neither
 * is a mask, which may be a broadcast view of something small. */

enum { BATCH, HEADS };

/* Whether the lanes of input i can be joined with its axis `with` without a copy. */
static bool joins(const struct kl_vmap *v, int i, int with) {
    const struct kl_tensor *t = &v->in[i]->t;
    const int own = with + v->mapped[i];
    const int64_t lane = v->mapped[i] ? t->strides[0] : 0, step = t->strides[own];
    if (t->dims[own] <= 1 || v->lanes <= 1 || t->size == 0) return true;
    return with == BATCH ? lane == step * t->dims[own] : step == lane * v->lanes;
}

static bool may_join(const struct kl_vmap *v, int with) {
    const struct kl_attention_params *p = v->params;
    if (with == HEADS && (v->mapped[1] || v->mapped[2])) return false;
    /* the elements of the batch share their sinks */
    if (with == BATCH && p->has_sinks && v->mapped[3 + p->has_mask]) return false;
    for (int i = 0; i < 3 + p->has_mask; i++) {
        if (with == HEADS && (i == 1 || i == 2)) continue;
        if ((i == 3 || !v->mapped[i]) && !joins(v, i, with)) return false;
    }
    return (int64_t)v->lanes * v->dims[with] <= INT32_MAX;
}

/* Input i with an axis of lanes, broadcast where it has none, joined with the axis `with`: before
 * the elements of the batch, or after the heads. */
static struct kl_array *joined(struct kl_terms *t, const struct kl_vmap *v, int i, int with) {
    struct kl_array *x = KL_TERM(t, kl_vmap_input(v, &t->made, i, t->err));
    if (t->rc) return NULL;
    const bool is_sinks = v->in[i]->t.ndim - v->mapped[i] == 1;
    const int at = is_sinks ? 0 : with; /* the only axis of sinks is that of heads */
    struct kl_shape to = {.ndim = x->t.ndim - 1};
    for (int k = 0; k < to.ndim; k++) to.dims[k] = x->t.dims[k + 1];
    to.dims[at] *= v->lanes;
    if (with == HEADS) x = KL_TERM(t, kl_moveaxis(&t->made, x, 0, at + 1, v->s, t->err));
    return KL_TERM(t, kl_reshape_to(&t->made, x, to.ndim, to.dims, v->s, t->err));
}

static int attend_joined(const struct kl_vmap *v, int with, struct kl_array **out, int *axis,
                         struct kl_error **err) {
    const struct kl_attention_params *p = v->params;
    struct kl_terms t = kl_terms_begin(v->s, err);
    struct kl_array *in[5];
    for (int i = 0; i < v->n_in; i++) {
        const bool as_it_is = with == HEADS ? i == 1 || i == 2 : i >= 3 + p->has_mask;
        in[i] = as_it_is ? v->in[i] : joined(&t, v, i, with);
    }
    struct kl_array *y = KL_TERM(&t, kl_op_build(&(struct kl_build){.op = v->op,
                                                                    .params = v->params,
                                                                    .params_bytes = v->params_bytes,
                                                                    .in = in,
                                                                    .n_in = v->n_in,
                                                                    .s = v->s},
                                                 &t.made, err));
    int dims[5];
    *axis = with == HEADS ? 2 : 0;
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
        if (!rc) rc = attend_joined(&one, BATCH, &made[n], &axis, err);
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
    if (may_join(v, HEADS)) return attend_joined(v, HEADS, out, axis, err);
    if (may_join(v, BATCH)) return attend_joined(v, BATCH, out, axis, err);
    *axis = 0;
    if (p->has_sinks && v->mapped[3 + p->has_mask]) return kl_vmap_each(v, out, err);
    return attend_elements(v, out, err);
}

/* The backward pass of all lanes at once, as more elements of the batch, or NULL. */
static struct kl_array *backward_joined(struct kl_terms *t, const struct kl_vmap *v) {
    const struct kl_attention_params *p = v->params;
    struct kl_array *in[7];
    for (int i = 0; i < v->n_in; i++) in[i] = joined(t, v, i, BATCH);
    struct kl_build b = {.op = v->op,
                         .params = v->params,
                         .params_bytes = v->params_bytes,
                         .in = in,
                         .n_in = v->n_in,
                         .s = v->s};
    struct kl_array *all = KL_TERM(t, kl_op_build(&b, &t->made, t->err)), *part[N_PARTS];
    if (t->rc) return NULL;
    const struct attention a = attention_of(p, in, v->n_in, v->s);
    for (int i = 0; i < 3; i++) {
        int dims[] = {v->lanes, 0};
        part[i] = part_of(t, all, &a, i);
        if (t->rc) return NULL;
        dims[1] = (int)(part[i]->t.size / v->lanes);
        part[i] = KL_TERM(t, kl_reshape_to(&t->made, part[i], 2, dims, v->s, t->err));
    }
    return KL_TERM(t, kl_concatenate_axis(&t->made, part, 3, 1, v->s, t->err));
}

/* Lanes never become heads, since heads share the gradients of keys; and the elements of a batch
 * share the gradients of sinks. */
int kl_vmap_attention_backward(const struct kl_vmap *v, struct kl_array **out, int *axis,
                               struct kl_error **err) {
    const struct kl_attention_params *p = v->params;
    bool joinable = !p->has_sinks && v->lanes > 0 && (int64_t)v->lanes * v->dims[0] <= INT32_MAX &&
                    (int64_t)v->lanes * v->in[0]->t.dims[v->mapped[0]] <= INT32_MAX;
    for (int i = 0; i < v->n_in; i++)
        if (((p->has_mask && i == 3) || !v->mapped[i]) && !joins(v, i, BATCH)) joinable = false;
    *axis = 0;
    if (!joinable) return kl_vmap_each(v, out, err);
    struct kl_terms t = kl_terms_begin(v->s, err);
    struct kl_array *y = backward_joined(&t, v);
    return kl_terms_end(&t, y, out);
}
