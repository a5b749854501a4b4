/* attention_backward.c - the gradients of attention: its backward pass, which is an operation of
 * its own, and the gradients of that one. Where the gradient of a mask is wanted they are composed
 * of products, as attention itself is in float64. */
#include "ops/attention_parts.h"

#include "ops/build/deferred.h"
#include "ops/build/meet.h"
#include "ops/build/views.h"

/* x where a key is seen, and 0 where it is masked: the score there is constant. */
static struct kl_array *seen_only(struct kl_terms *t, const struct kl_attention_parts *w,
                                  struct kl_array *x, const struct kl_attention *p) {
    if (!w->keep) return x;
    return kl_term_where(t, w->keep, x, kl_term_number(t, 0, kl_attention_wide(p)));
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
    struct kl_array *x = KL_TERM(t, kl_attention_swapped(&t->made, a, t->err));
    x = kl_term2(t, kl_matmul, x, b);
    return KL_TERM(t, kl_sum_axis(&t->made, x, 2, false, t->s, t->err));
}

/* The product of a with the transpose of b. */
static struct kl_array *by_transpose(struct kl_terms *t, struct kl_array *a, struct kl_array *b) {
    struct kl_array *x = KL_TERM(t, kl_attention_swapped(&t->made, b, t->err));
    return kl_term2(t, kl_matmul, a, x);
}

/* The sum of a b over the last axis, which stays with size 1. */
static struct kl_array *row_sum(struct kl_terms *t, struct kl_array *a, struct kl_array *b) {
    struct kl_array *x = kl_term2(t, kl_multiply, a, b);
    return KL_TERM(t, kl_sum_axis(&t->made, x, -1, true, t->s, t->err));
}

/* x, (b, kv heads, group, n, 1), summed for each head. */
static struct kl_array *head_sum(struct kl_terms *t, struct kl_array *x,
                                 const struct kl_attention *p) {
    static const int over[] = {0, 3, 4};
    x = KL_TERM(t, kl_sum_axes(&t->made, x, over, 3, false, t->s, t->err));
    return KL_TERM(t, kl_reshape_to(&t->made, x, 1, &p->heads, t->s, t->err));
}

/* With w the weights and c the cotangent: dv = w' c. From dw = c v' follows the gradient of the
 * scores, ds = w (dw - sum(w dw)); then dq = scale ds k and dk = ds' (scale q). The score of a sink
 * is treated as any other score, with a value of 0. */
static int compose_gradients(const struct kl_vjp *v, const struct kl_attention *p,
                             struct kl_array **grad, struct kl_error **err) {
    struct kl_terms t = kl_terms_begin(p->s, err);
    struct kl_attention_parts w;
    kl_attention_weigh(&t, &w, p);
    struct kl_array *c = KL_TERM(&t, kl_attention_grouped(&t.made, v->cotangent[0], p, err));
    c = kl_term_cast(&t, c, kl_attention_wide(p));
    struct kl_array *dw = by_transpose(&t, c, w.v);
    struct kl_array *sum = row_sum(&t, w.weights, dw);
    struct kl_array *ds = kl_term2(&t, kl_multiply, w.weights, kl_term2(&t, kl_subtract, dw, sum));
    ds = seen_only(&t, &w, ds, p);
    struct kl_array *made[5] = {NULL};
    if (v->wanted[0]) {
        struct kl_array *x = kl_term2(&t, kl_matmul, ds, w.k);
        x = kl_term2(&t, kl_multiply, x, kl_term_number(&t, p->p.scale, kl_attention_wide(p)));
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
static int parts_of(const struct kl_attention *t, int64_t *sizes) {
    sizes[0] = (int64_t)t->b * t->heads * t->n * t->d;
    sizes[1] = (int64_t)t->b * t->kv_heads * t->m * t->d;
    sizes[2] = (int64_t)t->b * t->kv_heads * t->m * t->e;
    sizes[3] = t->heads;
    return 3 + t->p.has_sinks;
}

/* The number of elements of the result. */
static int64_t backward_size(const struct kl_attention *t) {
    int64_t sizes[N_PARTS], sum = 0;
    const int n = parts_of(t, sizes);
    for (int i = 0; i < n; i++) sum += sizes[i];
    return sum;
}

/* Part i of the result, in its shape: a view. */
static struct kl_array *part_of(struct kl_terms *t, struct kl_array *all,
                                const struct kl_attention *p, int i) {
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

static int build_backward(struct kl_array **out, const struct kl_attention *t,
                          struct kl_error **err) {
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
    struct kl_attention t;
    KL_TRY(kl_attention_check(&t, qkv[0], qkv[1], qkv[2], err));
    KL_TRY(kl_check_stream(s, err));
    KL_TRY(kl_attention_check_operand(result, "a result", err));
    KL_TRY(kl_attention_check_operand(cotangent, "a cotangent", err));
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
    int rc = kl_attention_prepare(&t, qkv[0], qkv[1], qkv[2], mask, sinks, err);
    if (!rc) rc = kl_attention_add(&t, result, t.dtype, err);
    if (!rc) rc = kl_attention_add(&t, cotangent, t.dtype, err);
    if (!rc) rc = build_backward(out, &t, err);
    kl_release_all(t.in, (size_t)t.n_in);
    return rc;
}

/* The operation as the rules see it, with borrowed inputs. */
static struct kl_attention attention_of(const void *params, struct kl_array *const *in, int n_in,
                                        struct kl_stream *s) {
    const int *q = in[0]->t.dims, *k = in[1]->t.dims;
    struct kl_attention t = {.b = q[0],
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
    struct kl_attention p = attention_of(v->params, v->in, v->n_in, v->s);
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
static int backward_gradients(const struct kl_vjp *v, const struct kl_attention *p,
                              struct kl_array **grad, struct kl_error **err) {
    const enum kl_dtype wide = kl_attention_wide(p);
    const int at_result = 3 + p->p.has_mask + p->p.has_sinks, at_cotangent = at_result + 1;
    const int at_sinks = 3 + p->p.has_mask;
    const bool of_mask = p->p.has_mask && v->wanted[3] && p->in[3]->t.dtype != KL_BOOL;
    struct kl_terms t = kl_terms_begin(p->s, err);
    struct kl_array *made[7] = {NULL}, *abc[3], *og[2];
    struct kl_attention_parts w;
    kl_attention_weigh(&t, &w, p);
    for (int i = 0; i < 3; i++) {
        abc[i] = part_of(&t, v->cotangent[0], p, i);
        abc[i] = KL_TERM(&t, kl_attention_grouped(&t.made, kl_term_cast(&t, abc[i], wide), p, err));
    }
    for (int i = 0; i < 2; i++)
        og[i] = KL_TERM(&t, kl_attention_grouped(
                                &t.made, kl_term_cast(&t, p->in[at_result + i], wide), p, err));
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
    const struct kl_attention p = attention_of(v->params, v->in, v->n_in, v->s);
    return backward_gradients(v, &p, grad, err);
}

/* ---- made again ---- */

int kl_rebuild_attention_backward(const struct kl_build *b, struct kl_array **out,
                                  struct kl_error **err) {
    struct kl_attention_params p;
    KL_TRY(kl_attention_check_params(b, &p, 2, err));
    return kl_attention_backward(out, b->in, p.scale, p.causal, p.has_mask ? b->in[3] : NULL,
                                 p.has_sinks ? b->in[3 + p.has_mask] : NULL, b->in[b->n_in - 2],
                                 b->in[b->n_in - 1], b->s, err);
}

/* ---- batches ---- */

/* The backward pass of all lanes at once, as more elements of the batch, or NULL. */
static struct kl_array *backward_joined(struct kl_terms *t, const struct kl_vmap *v) {
    const struct kl_attention_params *p = v->params;
    struct kl_array *in[7];
    for (int i = 0; i < v->n_in; i++) in[i] = kl_attention_joined(t, v, i, KL_JOIN_BATCH);
    struct kl_build b = {.op = v->op,
                         .params = v->params,
                         .params_bytes = v->params_bytes,
                         .in = in,
                         .n_in = v->n_in,
                         .s = v->s};
    struct kl_array *all = KL_TERM(t, kl_op_build(&b, &t->made, t->err)), *part[N_PARTS];
    if (t->rc) return NULL;
    const struct kl_attention a = attention_of(p, in, v->n_in, v->s);
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
        if (((p->has_mask && i == 3) || !v->mapped[i]) && !kl_attention_joins(v, i, KL_JOIN_BATCH))
            joinable = false;
    *axis = 0;
    if (!joinable) return kl_vmap_each(v, out, err);
    struct kl_terms t = kl_terms_begin(v->s, err);
    struct kl_array *y = backward_joined(&t, v);
    return kl_terms_end(&t, y, out);
}
