/* optimizer.c - the updates of optimisers and the clipping of gradients. Every update is a chain of
 * element-wise operations, which fuse. Scalars that are the same for all parameters (the rate, the
 * bias corrections) are 0-d arrays and are made once per step.
 *
 * Parameters of 16-bit floats have a state in float32, and their update is computed in float32 and
 * rounded once: in their own type 0.999 v would often round back to v. */
#include "train/optimizer.h"

#include <math.h>

#include "ops/build/meet.h"
#include "ops/build/terms.h"

/* ---- checks ---- */
static int check_range(double x, const char *what, double below, struct kl_error **err) {
    if (x >= 0 && x < below && isfinite(x)) return KL_OK;
    return isinf(below)
               ? kl_fail(err, KL_EARG, "%s is %g; it is at least 0 and finite", what, x)
               : kl_fail(err, KL_EARG, "%s is %g; it is at least 0 and below %g", what, x, below);
}

int kl_optimizer_check(const struct kl_optimizer_rule *rule, struct kl_error **err) {
    KL_TRY(check_range(rule->weight_decay, "weight_decay", INFINITY, err));
    if (rule->kind == KL_OPTIMIZER_ADAM) {
        KL_TRY(check_range(rule->beta1, "beta1", 1, err));
        KL_TRY(check_range(rule->beta2, "beta2", 1, err));
        return check_range(rule->eps, "eps", INFINITY, err);
    }
    KL_TRY(check_range(rule->momentum, "momentum", INFINITY, err));
    if (!isfinite(rule->dampening))
        return kl_fail(err, KL_EARG, "dampening is %g; it is finite", rule->dampening);
    if (rule->nesterov && !(rule->momentum > 0 && rule->dampening == 0))
        return kl_fail(err, KL_EARG,
                       "nesterov needs a momentum above 0 and no dampening; they are %g and %g",
                       rule->momentum, rule->dampening);
    return KL_OK;
}

int kl_optimizer_slots(const struct kl_optimizer_rule *rule) {
    return rule->kind == KL_OPTIMIZER_ADAM ? 2 : rule->momentum > 0;
}

static enum kl_dtype state_dtype(const struct kl_array *p) {
    return p->t.dtype == KL_F64 ? KL_F64 : KL_F32;
}

static int check_param(const struct kl_array *p, size_t i, struct kl_error **err) {
    if (!p) return kl_fail(err, KL_EARG, "parameter %zu is NULL", i);
    if (kl_dtype_is_float(p->t.dtype)) return KL_OK;
    return kl_fail(err, KL_EDTYPE, "parameter %zu is %s; floats are taken", i,
                   kl_dtype_name((enum kl_dtype)p->t.dtype));
}

static int check_like(const struct kl_array *a, const char *what, const struct kl_array *p,
                      size_t i, enum kl_dtype dtype, struct kl_error **err) {
    if (!a) return kl_fail(err, KL_EARG, "%s %zu is NULL", what, i);
    if (!kl_shape_is(a, p->t.ndim, p->t.dims))
        return kl_fail(err, KL_ESHAPE, "%s %zu has shape %s; its parameter has %s", what, i,
                       KL_SHAPE_TEXT_OF(a), KL_SHAPE_TEXT_OF(p));
    if (a->t.dtype != (int)dtype)
        return kl_fail(err, KL_EDTYPE, "%s %zu is %s; for a parameter of %s it is %s", what, i,
                       kl_dtype_name((enum kl_dtype)a->t.dtype),
                       kl_dtype_name((enum kl_dtype)p->t.dtype), kl_dtype_name(dtype));
    return KL_OK;
}

static int check_step(const struct kl_optimizer_step *c, struct kl_stream *s,
                      struct kl_error **err) {
    size_t slots = (size_t)kl_optimizer_slots(c->rule);
    KL_TRY(kl_check_stream(s, err));
    KL_TRY(kl_check_array(c->rate, "the learning rate", err));
    if (c->rate->t.ndim != 0)
        return kl_fail(err, KL_ESHAPE, "the learning rate has shape %s; it is 0-d",
                       KL_SHAPE_TEXT_OF(c->rate));
    if (!kl_dtype_is_float(c->rate->t.dtype))
        return kl_fail(err, KL_EDTYPE, "the learning rate is %s; floats are taken",
                       kl_dtype_name((enum kl_dtype)c->rate->t.dtype));
    if (c->n_state != 1 + slots * c->n)
        return kl_fail(err, KL_EARG, "the state has %zu arrays; for %zu parameters it has %zu",
                       c->n_state, c->n, 1 + slots * c->n);
    KL_TRY(kl_check_array(c->state[0], "the number of steps", err));
    if (c->state[0]->t.ndim != 0 || c->state[0]->t.dtype != KL_I64)
        return kl_fail(err, c->state[0]->t.ndim ? KL_ESHAPE : KL_EDTYPE,
                       "the number of steps is %s of shape %s; it is a 0-d int64",
                       kl_dtype_name((enum kl_dtype)c->state[0]->t.dtype),
                       KL_SHAPE_TEXT_OF(c->state[0]));
    for (size_t i = 0; i < c->n; i++) {
        KL_TRY(check_param(c->params[i], i, err));
        KL_TRY(check_like(c->grads[i], "gradient", c->params[i], i,
                          (enum kl_dtype)c->params[i]->t.dtype, err));
        for (size_t k = 0; k < slots; k++)
            KL_TRY(check_like(c->state[1 + k * c->n + i], k ? "second moment" : "first moment",
                              c->params[i], i, state_dtype(c->params[i]), err));
    }
    return KL_OK;
}

/* ---- state ---- */
int kl_optimizer_init(struct kl_array **state, const struct kl_optimizer_rule *rule,
                      struct kl_array *const *params, size_t n, struct kl_stream *s,
                      struct kl_error **err) {
    size_t slots = (size_t)kl_optimizer_slots(rule), made = 0;
    for (size_t i = 0; i < n; i++) KL_TRY(check_param(params[i], i, err));
    int rc = kl_array_new_scalar(&state[0], 0, KL_I64, err); /* of which the others are copies */
    if (rc == KL_OK) made = 1;
    for (size_t k = 0; k < slots && rc == KL_OK; k++)
        for (size_t i = 0; i < n && rc == KL_OK; i++) {
            struct kl_array *p = params[i];
            rc = kl_full_like(&state[made], p, state[0], (int)state_dtype(p), s, err);
            if (rc == KL_OK) made++;
        }
    if (rc) kl_release_all(state, made);
    return rc;
}

/* The number of the step that is taken now, from 1. Where the host knows the last one, this is a
 * number and not an operation: else the steps of an optimiser that never reads it would become a
 * chain that nobody evaluates. */
static struct kl_array *next_step(struct kl_terms *t, struct kl_array *step) {
    int64_t known;
    if (kl_host_integer(step, &known)) return kl_term_number(t, (double)(known + 1), KL_I64);
    if (!step->trace && !t->rc && kl_array_settled(step)) {
        void *data;
        if (kl_array_host(step, &data, NULL) == KL_OK)
            return kl_term_number(t, (double)(*(const int64_t *)data + 1), KL_I64);
    }
    return kl_term_by(t, kl_add, step, 1);
}

/* ---- the scalars of one step, in float32 or float64 ---- */
struct scalars {
    struct kl_array *keep;         /* what decoupled weight decay leaves: 1 - rate * weight_decay */
    struct kl_array *rate;         /* with Adam's first bias correction: rate / (1 - beta1^t) */
    struct kl_array *widen;        /* Adam's second bias correction: 1 / sqrt(1 - beta2^t) */
    struct kl_array *decay;        /* weight decay that is added to the gradient */
    struct kl_array *first, *rest; /* beta1 and 1 - beta1; SGD: momentum and 1 - dampening */
    struct kl_array *second, *rest2, *eps; /* beta2, 1 - beta2, eps */
};

/* beta^t - 1, without the cancellation that computing the power first would bring: for beta2 =
 * 0.999 three of the seven digits of float32 would be lost in the first step. */
static struct kl_array *power_minus_1(struct kl_terms *t, double beta, struct kl_array *step,
                                      enum kl_dtype dtype) {
    struct kl_array *exponent = kl_term_cast(t, step, dtype);
    /* log(0) is -inf, which is right: 0^t - 1 is -1. */
    return kl_term(t, kl_expm1, kl_term_by(t, kl_multiply, exponent, log(beta)));
}

static struct scalars scalars_of(struct kl_terms *t, const struct kl_optimizer_step *c,
                                 struct kl_array *step, enum kl_dtype dtype) {
    const struct kl_optimizer_rule *r = c->rule;
    bool adam = r->kind == KL_OPTIMIZER_ADAM;
    struct scalars k = {.rate = kl_term_cast(t, c->rate, dtype)};
    if (r->weight_decay > 0 && r->decoupled)
        k.keep = kl_term_by(t, kl_add, kl_term_by(t, kl_multiply, k.rate, -r->weight_decay), 1);
    else if (r->weight_decay > 0)
        k.decay = kl_term_number(t, r->weight_decay, dtype);
    k.first = kl_term_number(t, adam ? r->beta1 : r->momentum, dtype);
    if (!adam) {
        if (r->dampening != 0) k.rest = kl_term_number(t, 1 - r->dampening, dtype);
        return k;
    }
    k.rest = kl_term_number(t, 1 - r->beta1, dtype);
    k.second = kl_term_number(t, r->beta2, dtype);
    k.rest2 = kl_term_number(t, 1 - r->beta2, dtype);
    k.eps = kl_term_number(t, r->eps, dtype);
    if (r->bias_correction) {
        k.rate = kl_term2(t, kl_divide, k.rate,
                          kl_term(t, kl_negative, power_minus_1(t, r->beta1, step, dtype)));
        k.widen =
            kl_term(t, kl_rsqrt, kl_term(t, kl_negative, power_minus_1(t, r->beta2, step, dtype)));
    }
    return k;
}

/* ---- updates ----
 * p and g have the state's dtype. m and v are the old state. The new state is put into new_m and
 * new_v; the result is the new parameter. */
struct update {
    const struct kl_optimizer_rule *rule;
    const struct scalars *k;
    struct kl_array *p, *g, *m, *v, *new_m, *new_v;
};

static struct kl_array *weighted(struct kl_terms *t, struct kl_array *a, struct kl_array *x,
                                 struct kl_array *b, struct kl_array *y) {
    struct kl_array *left = kl_term2(t, kl_multiply, a, x);
    return kl_term2(t, kl_add, left, y ? kl_term2(t, kl_multiply, b, y) : b);
}

/* Sutskever, Martens, Dahl and Hinton, "On the importance of initialization and momentum in deep
 * learning", 2013, in the form of PyTorch and MLX, in which the rate multiplies the momentum:
 *     m' = momentum m + (1 - dampening) g,  p' = p - rate (nesterov ? g + momentum m' : m') */
static struct kl_array *sgd(struct kl_terms *t, struct update *u) {
    struct kl_array *way = u->g;
    if (u->m) {
        u->new_m = weighted(t, u->m, u->k->first, u->g, u->k->rest);
        way = u->rule->nesterov ? weighted(t, u->new_m, u->k->first, u->g, NULL) : u->new_m;
    }
    return kl_term2(t, kl_subtract, u->p, kl_term2(t, kl_multiply, way, u->k->rate));
}

/* Algorithm 1 of Kingma and Ba, "Adam: A Method for Stochastic Optimization", 2015:
 *     m' = beta1 m + (1 - beta1) g,  v' = beta2 v + (1 - beta2) g^2,
 *     p' = p - rate m'/(1 - beta1^t) / (sqrt(v'/(1 - beta2^t)) + eps) */
static struct kl_array *adam(struct kl_terms *t, struct update *u) {
    u->new_m = weighted(t, u->m, u->k->first, u->g, u->k->rest);
    u->new_v = weighted(t, u->v, u->k->second, kl_term(t, kl_square, u->g), u->k->rest2);
    struct kl_array *size = kl_term(t, kl_sqrt, u->new_v);
    if (u->k->widen) size = kl_term2(t, kl_multiply, size, u->k->widen);
    size = kl_term2(t, kl_add, size, u->k->eps);
    struct kl_array *way = kl_term2(t, kl_multiply, u->new_m, u->k->rate);
    return kl_term2(t, kl_subtract, u->p, kl_term2(t, kl_divide, way, size));
}

static int update(struct kl_array **params, struct kl_array **state,
                  const struct kl_optimizer_step *c, size_t i, const struct scalars *k,
                  struct kl_stream *s, struct kl_error **err) {
    struct kl_terms t = kl_terms_begin(s, err);
    struct kl_array *param = c->params[i];
    enum kl_dtype wide = state_dtype(param);
    int slots = kl_optimizer_slots(c->rule);
    struct update u = {.rule = c->rule, .k = k};
    u.p = kl_term_cast(&t, param, wide);
    u.g = kl_term_cast(&t, c->grads[i], wide);
    if (slots > 0) u.m = c->state[1 + i];
    if (slots > 1) u.v = c->state[1 + c->n + i];
    if (k->decay) u.g = weighted(&t, u.p, k->decay, u.g, NULL);
    /* Loshchilov and Hutter, "Decoupled Weight Decay Regularization", 2019: the decay does not pass
     * through the moments. As in PyTorch and MLX it is multiplied by the rate. */
    if (k->keep) u.p = kl_term2(&t, kl_multiply, u.p, k->keep);
    struct kl_array *made = c->rule->kind == KL_OPTIMIZER_ADAM ? adam(&t, &u) : sgd(&t, &u);
    made = kl_term_cast(&t, made, (enum kl_dtype)param->t.dtype);
    if (slots > 0) state[1 + i] = kl_terms_keep(&t, u.new_m);
    if (slots > 1) state[1 + c->n + i] = kl_terms_keep(&t, u.new_v);
    return kl_terms_end(&t, made, &params[i]);
}

int kl_optimizer_apply(struct kl_array **params, struct kl_array **state,
                       const struct kl_optimizer_step *c, struct kl_stream *s,
                       struct kl_error **err) {
    KL_TRY(check_step(c, s, err));
    struct kl_terms t = kl_terms_begin(s, err);
    struct kl_array *step = next_step(&t, c->state[0]);
    struct scalars k[2] = {{0}};
    bool have[2] = {false};
    int slots = kl_optimizer_slots(c->rule), rc = KL_OK;
    size_t done = 0;
    for (; done < c->n && t.rc == KL_OK; done++) {
        int wide = state_dtype(c->params[done]) == KL_F64;
        if (!have[wide]) k[wide] = scalars_of(&t, c, step, wide ? KL_F64 : KL_F32);
        have[wide] = true;
        if (t.rc) break;
        rc = update(params, state, c, done, &k[wide], s, err);
        if (rc) break;
    }
    if (t.rc == KL_OK && rc == KL_OK) return kl_terms_end(&t, step, &state[0]);
    kl_release_all(params, done);
    for (int j = 0; j < slots; j++) kl_release_all(state + 1 + (size_t)j * c->n, done);
    kl_terms_end(&t, NULL, NULL);
    return rc ? rc : t.rc;
}

/* ---- clipping ---- */
static int check_grads(struct kl_array *const *grads, size_t n, double limit, const char *what,
                       struct kl_stream *s, struct kl_error **err) {
    KL_TRY(kl_check_stream(s, err));
    if (!(limit >= 0)) return kl_fail(err, KL_EARG, "%s is %g; it is at least 0", what, limit);
    for (size_t i = 0; i < n; i++) {
        if (!grads[i]) return kl_fail(err, KL_EARG, "gradient %zu is NULL", i);
        if (!kl_dtype_is_float(grads[i]->t.dtype))
            return kl_fail(err, KL_EDTYPE, "gradient %zu is %s; floats are taken", i,
                           kl_dtype_name((enum kl_dtype)grads[i]->t.dtype));
    }
    return KL_OK;
}

/* *sum += the sum of the squares of g. *sum is an owned reference. */
static int add_squares(struct kl_array **sum, struct kl_array *g, enum kl_dtype wide,
                       struct kl_stream *s, struct kl_error **err) {
    struct kl_terms t = kl_terms_begin(s, err);
    struct kl_array *old = *sum;
    struct kl_array *square = kl_term(&t, kl_square, kl_term_cast(&t, g, wide));
    struct kl_array *all = KL_TERM(&t, kl_sum(&t.made, square, false, s, err));
    int rc = kl_terms_end(&t, kl_term2(&t, kl_add, old, all), sum);
    if (rc == KL_OK) kl_array_release(old);
    return rc;
}

/* Pascanu, Mikolov and Bengio, "On the difficulty of training recurrent neural networks", 2013,
 * algorithm 1; the 1e-6 is that of PyTorch and MLX. */
int kl_clip_global_norm(struct kl_array **outs, struct kl_array **norm,
                        struct kl_array *const *grads, size_t n, double max_norm,
                        struct kl_stream *s, struct kl_error **err) {
    enum kl_dtype wide = KL_F32;
    struct kl_array *sum = NULL;
    size_t made = 0;
    KL_TRY(check_grads(grads, n, max_norm, "max_norm", s, err));
    for (size_t i = 0; i < n; i++)
        if (grads[i]->t.dtype == KL_F64) wide = KL_F64;
    int rc = kl_array_new_scalar(&sum, 0, wide, err);
    for (size_t i = 0; i < n && rc == KL_OK; i++) rc = add_squares(&sum, grads[i], wide, s, err);
    if (rc) {
        kl_array_release(sum);
        return rc;
    }
    struct kl_terms t = kl_terms_begin(s, err);
    struct kl_array *root = kl_term(&t, kl_sqrt, sum);
    struct kl_array *limit = kl_term_number(&t, max_norm, wide);
    struct kl_array *ratio = kl_term2(&t, kl_divide, limit, kl_term_by(&t, kl_add, root, 1e-6));
    struct kl_array *factor = kl_term_by(&t, kl_minimum, ratio, 1);
    for (; made < n && t.rc == KL_OK; made++) {
        struct kl_terms one = kl_terms_begin(s, err);
        struct kl_array *g =
            kl_term2(&one, kl_multiply, kl_term_cast(&one, grads[made], wide), factor);
        g = kl_term_cast(&one, g, (enum kl_dtype)grads[made]->t.dtype);
        t.rc = kl_terms_end(&one, g, &outs[made]);
        if (t.rc) break;
    }
    kl_array_release(sum);
    if (t.rc) kl_release_all(outs, made);
    return kl_terms_end(&t, root, norm);
}

int kl_clip_values(struct kl_array **outs, struct kl_array *const *grads, size_t n, double limit,
                   struct kl_stream *s, struct kl_error **err) {
    KL_TRY(check_grads(grads, n, limit, "limit", s, err));
    for (size_t i = 0; i < n; i++) {
        struct kl_terms t = kl_terms_begin(s, err);
        struct kl_array *low = kl_term_by(&t, kl_maximum, grads[i], -limit);
        int rc = kl_terms_end(&t, kl_term_by(&t, kl_minimum, low, limit), &outs[i]);
        if (rc) {
            kl_release_all(outs, i);
            return rc;
        }
    }
    return KL_OK;
}
