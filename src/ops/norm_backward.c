/* norm_backward.c - the gradients of rms_norm and layer_norm: the operation NORM_BACKWARD, and its
 * own gradient and batches, which are made of ordinary operations. The formulas are those of Ba,
 * Kiros and Hinton, "Layer Normalization" (2016), and Zhang and Sennrich, "Root Mean Square Layer
 * Normalization" (2019), differentiated. */
#include "base/op/op_params.h"
#include "ops/build/build.h"
#include "ops/build/meet.h"
#include "ops/build/terms.h"
#include "ops/build/views.h"
#include "ops/build/vjp.h"
#include "ops/build/vmap.h"

typedef struct kl_norm_backward_params params;

/* ---- formulas ----
 * Let n = (x - mean) / d be the rows without weight and bias (with mean 0 for RMS), d the root of
 * mean((x - mean)^2) + eps, and h the cotangent times the weight. */

struct rows {
    struct kl_array *normal, *root; /* n, d */
    bool centred;
};

static struct kl_array *row_mean(struct kl_terms *t, struct kl_array *a) {
    if (t->rc) return NULL;
    const int last = a->t.ndim - 1;
    return kl_term_reduce(t, kl_mean_axes, a, &last, 1);
}

static struct rows rows_of(struct kl_terms *t, struct kl_array *x, const params *p,
                           enum kl_dtype wide) {
    x = kl_term_cast(t, x, wide);
    if (p->centred) x = kl_term2(t, kl_subtract, x, row_mean(t, x));
    struct kl_array *square = row_mean(t, kl_term(t, kl_square, x));
    struct kl_array *eps = kl_term_number(t, (double)p->eps, wide);
    struct kl_array *root = kl_term(t, kl_sqrt, kl_term2(t, kl_add, square, eps));
    return (struct rows){kl_term2(t, kl_divide, x, root), root, p->centred};
}

/* The gradient of x where that of n is h: (h - mean(h) - n * mean(h * n)) / d, without mean(h) for
 * RMS. It is linear in h, and symmetric. */
static struct kl_array *by_rows(struct kl_terms *t, const struct rows *r, struct kl_array *h) {
    struct kl_array *along = row_mean(t, kl_term2(t, kl_multiply, h, r->normal));
    struct kl_array *rest = kl_term2(t, kl_subtract, h, kl_term2(t, kl_multiply, r->normal, along));
    if (r->centred) rest = kl_term2(t, kl_subtract, rest, row_mean(t, h));
    return kl_term2(t, kl_divide, rest, r->root);
}

/* The sum of all rows, (n); of a with an axis of lanes in front of `ndim` axes, (lanes, n). */
static struct kl_array *sum_of_rows(struct kl_terms *t, struct kl_array *a, int ndim) {
    int over[KL_MAX_NDIM];
    if (t->rc) return NULL;
    const int lanes = a->t.ndim > ndim, *dims = a->t.dims, n = dims[a->t.ndim - 1];
    for (int i = 0; i < ndim - 1; i++) over[i] = lanes + i;
    const int to[] = {lanes ? dims[0] : n, n};
    a = kl_term_reduce(t, kl_sum_axes, a, over, ndim - 1);
    return KL_TERM(t, kl_reshape_to(&t->made, a, 1 + lanes, to, t->s, t->err));
}

static enum kl_dtype wide_of(const struct kl_array *x) {
    return kl_dtype_size(x->t.dtype) == 2 ? KL_F32 : (enum kl_dtype)x->t.dtype;
}

/* The gradients of x, of the weight and of the bias, of a norm over the last of ndim axes; some
 * operands have an axis of lanes in front. weight: NULL, or something that x is multiplied by.
 * 16-bit floats are computed in float32. made: three entries, which are set where `wanted` is. */
static void compose(struct kl_terms *t, const params *p, struct kl_array *x,
                    struct kl_array *weight, struct kl_array *cotangent, int ndim,
                    const bool *wanted, struct kl_array **made) {
    const enum kl_dtype dtype = (enum kl_dtype)x->t.dtype, wide = wide_of(x);
    const struct rows r = rows_of(t, x, p, wide);
    cotangent = kl_term_cast(t, cotangent, wide);
    if (wanted[0]) {
        struct kl_array *h = cotangent;
        if (weight) h = kl_term2(t, kl_multiply, h, kl_term_cast(t, weight, wide));
        made[0] = kl_term_cast(t, by_rows(t, &r, h), dtype);
    }
    if (wanted[1]) {
        struct kl_array *each = kl_term2(t, kl_multiply, cotangent, r.normal);
        made[1] = kl_term_cast(t, sum_of_rows(t, each, ndim), dtype);
    }
    if (wanted[2]) made[2] = kl_term_cast(t, sum_of_rows(t, cotangent, ndim), dtype);
}

/* ---- the operation ---- */

static int64_t size_of(const struct kl_array *x, const params *p) {
    const int64_t n = x->t.dims[x->t.ndim - 1];
    return x->t.size + n * (p->of_weight + p->of_bias);
}

int kl_norm_backward(struct kl_array **out, struct kl_array *x, struct kl_array *weight,
                     struct kl_array *cotangent, const params *given, struct kl_stream *s,
                     struct kl_error **err) {
    params p = *given;
    p.has_weight = weight != NULL;
    const int n_in = 2 + p.has_weight;
    struct kl_array *in[3] = {x, weight ? weight : cotangent, cotangent}, *typed[3] = {NULL};
    KL_TRY(kl_check_array(x, "x", err));
    KL_TRY(kl_check_array(cotangent, "the cotangent", err));
    KL_TRY(kl_check_stream(s, err));
    if (x->t.ndim == 0) return kl_fail(err, KL_ESHAPE, "x is 0-d; it has at least one axis");
    const int n = x->t.dims[x->t.ndim - 1];
    if (weight && !kl_shape_is(weight, 1, &n))
        return kl_fail(err, KL_ESHAPE,
                       "weight has shape %s; it has one axis of the size of x's last one, %d",
                       KL_SHAPE_TEXT_OF(weight), n);
    if (!kl_shape_is(cotangent, x->t.ndim, x->t.dims))
        return kl_fail(err, KL_ESHAPE, "the cotangent has shape %s; it has that of x, %s",
                       KL_SHAPE_TEXT_OF(cotangent), KL_SHAPE_TEXT_OF(x));
    enum kl_dtype dtype = (enum kl_dtype)x->t.dtype;
    for (int i = 1; i < n_in; i++) dtype = kl_dtype_promote(dtype, in[i]->t.dtype);
    if (!kl_dtype_is_float(dtype))
        return kl_fail(err, KL_EDTYPE, "the operands meet in %s; a norm takes floats",
                       kl_dtype_name(dtype));
    const int64_t size = size_of(x, &p);
    if (size > INT32_MAX)
        return kl_fail(err, KL_ELIMIT, "gradients of %lld elements; at most %d are taken",
                       (long long)size, INT32_MAX);
    int rc = KL_OK;
    for (int i = 0; i < n_in && rc == KL_OK; i++) rc = kl_cast_to(&typed[i], in[i], dtype, s, err);
    if (rc == KL_OK)
        rc = kl_array_op1(out,
                          &(struct kl_operation){.op = KL_OP_NORM_BACKWARD,
                                                 .stream = s,
                                                 .params = &p,
                                                 .params_bytes = sizeof p,
                                                 .in = typed,
                                                 .n_in = n_in},
                          dtype, 1, &(int){(int)size}, err);
    kl_release_all(typed, (size_t)n_in);
    return rc;
}

/* `size` elements of an array with one axis, in another shape: a view. */
static struct kl_array *part_of(struct kl_terms *t, struct kl_array *all, int64_t from,
                                int64_t size, int ndim, const int *dims) {
    const int start = (int)from, step = 1, n = (int)size;
    struct kl_array *x = KL_TERM(t, kl_slice_to(&t->made, all, &start, &step, &n, t->err));
    return KL_TERM(t, kl_reshape_to(&t->made, x, ndim, dims, t->s, t->err));
}

/* The operation gives x's gradient and the others in one block. The others are copied out of it: an
 * optimizer keeps them for long, and the whole block would stay with them. */
static void by_operation(struct kl_terms *t, const params *p, struct kl_array *const *in,
                         struct kl_array *weight, struct kl_array *cotangent,
                         struct kl_array **made) {
    struct kl_array *x = in[0];
    struct kl_array *all =
        KL_TERM(t, kl_norm_backward(&t->made, x, weight, cotangent, p, t->s, t->err));
    const int n = x->t.dims[x->t.ndim - 1], sides = p->of_weight + p->of_bias, both = n * sides;
    made[0] = part_of(t, all, 0, x->t.size, x->t.ndim, x->t.dims);
    if (sides == 0) return;
    struct kl_array *rest = part_of(t, all, x->t.size, both, 1, &both);
    rest = KL_TERM(t, kl_copy(&t->made, rest, t->s, t->err));
    if (p->of_weight) made[1] = part_of(t, rest, 0, n, 1, &n);
    if (p->of_bias) made[2] = part_of(t, rest, (int64_t)n * p->of_weight, n, 1, &n);
}

int kl_vjp_norm(const struct kl_vjp *v, struct kl_array **grad, struct kl_error **err) {
    const struct kl_norm_params *p = v->params;
    const int at_bias = 1 + p->has_weight;
    const bool wanted[] = {v->wanted[0], p->has_weight && v->wanted[1],
                           p->has_bias && v->wanted[at_bias]};
    const params back = {p->eps, v->op == KL_OP_LAYER_NORM, p->has_weight, wanted[1], wanted[2]};
    struct kl_array *x = v->in[0], *weight = p->has_weight ? v->in[1] : NULL, *made[3] = {NULL};
    struct kl_terms t = kl_terms_begin(v->s, err);
    /* one pass over x gives the weight's gradient too, also where x's is not wanted */
    if ((wanted[0] || wanted[1]) && size_of(x, &back) <= INT32_MAX)
        by_operation(&t, &back, v->in, weight, v->cotangent[0], made);
    else
        compose(&t, &back, x, weight, v->cotangent[0], x->t.ndim, wanted, made);
    for (int k = 0; t.rc == KL_OK && k < 3; k++)
        if (wanted[k]) grad[k < 2 ? k : at_bias] = kl_array_retain(made[k]);
    return kl_terms_end(&t, NULL, NULL);
}

/* With L(h) = by_rows(h), g the cotangent and w the weight, the operation gives L(g w), sum(g n)
 * and sum(g). Their cotangents are a, b and c. As L is symmetric, what is differentiated is
 *     sum(g w L(a)) + sum(g b n) + sum(c g)
 * and its derivatives are
 *     by g: w L(a) + b n + c         by w: the sum over all rows of g L(a)
 *     by x: L(g b) - (n mean(a L(h)) + mean(h n) L(a) + mean(a n) L(h)) / d,  h = g w */
int kl_vjp_norm_backward(const struct kl_vjp *v, struct kl_array **grad, struct kl_error **err) {
    const params *p = v->params;
    const int last = v->n_in - 1;
    struct kl_array *x = v->in[0], *all = v->cotangent[0], *b = NULL, *c = NULL, *w = NULL,
                    *made[3] = {NULL};
    const enum kl_dtype dtype = (enum kl_dtype)x->t.dtype, wide = wide_of(x);
    const int n = x->t.dims[x->t.ndim - 1];
    const int64_t size = x->t.size;
    struct kl_terms t = kl_terms_begin(v->s, err);
    const struct rows r = rows_of(&t, x, p, wide);
    struct kl_array *g = kl_term_cast(&t, v->in[last], wide), *h = g;
    struct kl_array *a = part_of(&t, all, 0, size, x->t.ndim, x->t.dims);
    a = kl_term_cast(&t, a, wide);
    if (p->of_weight) b = kl_term_cast(&t, part_of(&t, all, size, n, 1, &n), wide);
    if (p->of_bias)
        c = kl_term_cast(&t, part_of(&t, all, size + (int64_t)n * p->of_weight, n, 1, &n), wide);
    if (p->has_weight) {
        w = kl_term_cast(&t, v->in[1], wide);
        h = kl_term2(&t, kl_multiply, g, w);
    }
    struct kl_array *of_a = by_rows(&t, &r, a);
    if (v->wanted[0]) {
        struct kl_array *of_h = by_rows(&t, &r, h);
        struct kl_array *y =
            kl_term2(&t, kl_multiply, r.normal, row_mean(&t, kl_term2(&t, kl_multiply, a, of_h)));
        struct kl_array *along = row_mean(&t, kl_term2(&t, kl_multiply, h, r.normal));
        y = kl_term2(&t, kl_add, y, kl_term2(&t, kl_multiply, along, of_a));
        along = row_mean(&t, kl_term2(&t, kl_multiply, a, r.normal));
        y = kl_term2(&t, kl_add, y, kl_term2(&t, kl_multiply, along, of_h));
        y = kl_term(&t, kl_negative, kl_term2(&t, kl_divide, y, r.root));
        if (b) y = kl_term2(&t, kl_add, y, by_rows(&t, &r, kl_term2(&t, kl_multiply, g, b)));
        made[0] = kl_term_cast(&t, y, dtype);
    }
    if (p->has_weight && v->wanted[1]) {
        struct kl_array *each = kl_term2(&t, kl_multiply, g, of_a);
        made[1] = kl_term_cast(&t, sum_of_rows(&t, each, x->t.ndim), dtype);
    }
    if (v->wanted[last]) {
        struct kl_array *y = w ? kl_term2(&t, kl_multiply, w, of_a) : of_a;
        if (b) y = kl_term2(&t, kl_add, y, kl_term2(&t, kl_multiply, b, r.normal));
        if (c) y = kl_term2(&t, kl_add, y, c);
        made[last] = kl_term_cast(&t, y, dtype);
    }
    for (int k = 0; t.rc == KL_OK && k < v->n_in; k++)
        if (made[k]) grad[k] = kl_array_retain(made[k]);
    return kl_terms_end(&t, NULL, NULL);
}

/* ---- made again ---- */
int kl_rebuild_norm_backward(const struct kl_build *b, struct kl_array **out,
                             struct kl_error **err) {
    params p;
    KL_TRY(kl_build_params(b, &p, sizeof p, err));
    KL_TRY(kl_build_flag(&p.centred, err));
    KL_TRY(kl_build_flag(&p.has_weight, err));
    KL_TRY(kl_build_flag(&p.of_weight, err));
    KL_TRY(kl_build_flag(&p.of_bias, err));
    KL_TRY(kl_build_count(2 + p.has_weight, b->n_in, "inputs", err));
    return kl_norm_backward(out, b->in[0], p.has_weight ? b->in[1] : NULL, b->in[1 + p.has_weight],
                            &p, b->s, err);
}

/* ---- batches ---- */

/* A part of the result as (lanes, size); a part that is the same in all lanes is broadcast. */
static struct kl_array *of_lanes(struct kl_terms *t, struct kl_array *a, int ndim, int lanes) {
    if (t->rc) return NULL;
    const bool has = a->t.ndim > ndim;
    const int dims[] = {has ? lanes : 1, (int)(a->t.size / (has ? lanes : 1))},
              to[] = {lanes, dims[1]};
    a = KL_TERM(t, kl_reshape_to(&t->made, a, 2, dims, t->s, t->err));
    return KL_TERM(t, kl_broadcast_view(&t->made, a, 2, to, t->err));
}

/* The rows of all lanes are rows of one norm while they share the weight and only x's gradient is
 * asked for; else the gradients are composed, with the lanes in front. */
int kl_vmap_norm_backward(const struct kl_vmap *v, struct kl_array **out, int *axis,
                          struct kl_error **err) {
    const params *p = v->params;
    const int last = v->n_in - 1;
    struct kl_array *x = v->in[0], *cotangent = v->in[last],
                    *weight = p->has_weight ? v->in[1] : NULL;
    const int ndim = x->t.ndim - v->mapped[0];
    const bool own_weight = weight && v->mapped[1], sums = p->of_weight || p->of_bias;
    *axis = 0;
    if (v->lanes == 0 || (int64_t)v->dims[0] * v->lanes > INT32_MAX ||
        (own_weight && ndim == KL_MAX_NDIM))
        return kl_vmap_each(v, out, err);
    struct kl_terms t = kl_terms_begin(v->s, err);
    if (!own_weight && !sums) {
        const int to[] = {v->lanes, v->dims[0]};
        x = KL_TERM(&t, kl_vmap_input(v, &t.made, 0, err));
        cotangent = KL_TERM(&t, kl_vmap_input(v, &t.made, last, err));
        struct kl_array *all =
            KL_TERM(&t, kl_norm_backward(&t.made, x, weight, cotangent, p, v->s, err));
        all = KL_TERM(&t, kl_reshape_to(&t.made, all, 2, to, v->s, err));
        return kl_terms_end(&t, all, out);
    }
    if (own_weight) { /* (lanes, 1, ..., n) */
        int dims[KL_MAX_NDIM];
        for (int i = 0; i < ndim; i++) dims[i] = 1;
        dims[0] = v->lanes;
        dims[ndim] = weight->t.dims[1];
        weight = KL_TERM(&t, kl_reshape_to(&t.made, weight, ndim + 1, dims, v->s, err));
    }
    const bool wanted[] = {true, p->of_weight, p->of_bias};
    struct kl_array *made[3] = {NULL}, *part[3];
    compose(&t, p, x, weight, cotangent, ndim, wanted, made);
    int n = 0;
    for (int i = 0; i < 3; i++)
        if (wanted[i]) part[n++] = of_lanes(&t, made[i], i ? 1 : ndim, v->lanes);
    struct kl_array *all = KL_TERM(&t, kl_concatenate_axis(&t.made, part, (size_t)n, 1, v->s, err));
    return kl_terms_end(&t, all, out);
}
