/* train.c - keel/train.h. An optimiser is its rule, its learning rate, and the state, which the
 * builders of train/optimizer.h turn into the next one. */
#include <keel/train.h>

#include <stdio.h>
#include <string.h>

#include "api/handles/handles.h"
#include "base/alloc.h"
#include "io/io.h"
#include "train/optimizer.h"

struct kl_optimizer {
    struct kl_optimizer_rule rule;
    struct kl_schedule *schedule; /* exactly one of schedule and rate is set; both are owned */
    struct kl_array *rate;
    struct kl_vec state; /* of arrays; empty until the first step */
};

static struct kl_schedule *in_schedule(struct kl_call *c, keel_schedule schedule) {
    if (!schedule.ctx) kl_fail(&c->err, KL_EARG, "schedule is an empty handle");
    return schedule.ctx;
}

static struct kl_optimizer *in_optimizer(struct kl_call *c, keel_optimizer optimizer) {
    if (!optimizer.ctx) kl_fail(&c->err, KL_EARG, "optimizer is an empty handle");
    return optimizer.ctx;
}

/* ---- lists of arrays that are made during a call ---- */
static struct kl_array **list_new(struct kl_call *c, size_t n) {
    struct kl_array **list = c->err ? NULL : kl_calloc(n + 1, sizeof *list);
    if (!list && !c->err) kl_fail_nomem(&c->err);
    return list;
}

/* Takes the list and its arrays. */
static void list_free(struct kl_array **list, size_t n) {
    for (size_t i = 0; list && i < n; i++) kl_array_release(list[i]);
    kl_free(list);
}

/* Makes sure that *res is a live vector, which is the last thing of a call that can fail. */
static void need_vector(struct kl_call *c, mlx_vector_array *res, bool *made) {
    *made = !c->err && !res->ctx;
    if (*made) res->ctx = kl_vec_new(&c->err);
}

/* Puts the list (taken) into a vector. */
static void put_list(struct kl_vec *v, struct kl_array **list, size_t n) {
    struct kl_vec made = {.items = list, .n = n, .cap = n};
    kl_vec_move(&kl_vec_of_arrays, v, &made);
}

/* ---- schedules ---- */
static keel_schedule new_schedule(const char *func, enum kl_schedule_kind kind, double from,
                                  double to, int64_t n_steps) {
    struct kl_call c = {.func = func};
    struct kl_schedule *made = NULL;
    kl_schedule_new(&made, kind, from, to, n_steps, &c.err);
    kl_call_end_plain(&c);
    return (keel_schedule){made};
}

keel_schedule keel_schedule_new_constant(double rate) {
    return new_schedule(__func__, KL_SCHEDULE_CONSTANT, rate, rate, 1);
}

keel_schedule keel_schedule_new_linear(double from, double to, int64_t n_steps) {
    return new_schedule(__func__, KL_SCHEDULE_LINEAR, from, to, n_steps);
}

keel_schedule keel_schedule_new_cosine(double from, double to, int64_t n_steps) {
    return new_schedule(__func__, KL_SCHEDULE_COSINE, from, to, n_steps);
}

keel_schedule keel_schedule_new_step(double rate, double factor, int64_t n_steps) {
    return new_schedule(__func__, KL_SCHEDULE_STEPS, rate, factor, n_steps);
}

keel_schedule keel_schedule_new_join(const keel_schedule *parts, size_t n_parts,
                                     const int64_t *starts, size_t n_starts) {
    struct kl_call c = {.func = __func__};
    struct kl_schedule *made = NULL, **inner = NULL;
    if (n_parts) kl_need(&c, parts, "parts");
    if (n_starts) kl_need(&c, starts, "starts");
    if (!c.err && !(inner = kl_calloc(n_parts + 1, sizeof *inner))) kl_fail_nomem(&c.err);
    for (size_t i = 0; i < n_parts && !c.err; i++)
        if (!(inner[i] = parts[i].ctx)) kl_fail(&c.err, KL_EARG, "part %zu is an empty handle", i);
    if (!c.err) kl_schedule_join(&made, inner, n_parts, starts, n_starts, &c.err);
    kl_free(inner);
    kl_call_end_plain(&c);
    return (keel_schedule){made};
}

int keel_schedule_free(keel_schedule schedule) {
    kl_schedule_release(schedule.ctx);
    return 0;
}

int keel_schedule_at(mlx_array *res, keel_schedule schedule, const mlx_array step,
                     const mlx_stream s) {
    struct kl_call c = kl_call_begin(__func__, res);
    struct kl_schedule *sched = in_schedule(&c, schedule);
    struct kl_array *at = kl_in(&c, step, "step"), *out = NULL;
    struct kl_stream *on = kl_in_stream(&c, s);
    if (!c.err) kl_schedule_rate(&out, sched, at, on, &c.err);
    return kl_call_end(&c, res, out);
}

/* ---- optimisers ---- */
static keel_optimizer new_optimizer(const char *func, double rate,
                                    const struct kl_optimizer_rule *rule) {
    struct kl_call c = {.func = func};
    struct kl_optimizer *made = NULL;
    kl_optimizer_check(rule, &c.err);
    if (!c.err && !(made = kl_calloc(1, sizeof *made))) kl_fail_nomem(&c.err);
    if (!c.err) {
        made->rule = *rule;
        kl_schedule_new(&made->schedule, KL_SCHEDULE_CONSTANT, rate, rate, 1, &c.err);
    }
    if (c.err) {
        kl_free(made);
        made = NULL;
    }
    kl_call_end_plain(&c);
    return (keel_optimizer){made};
}

keel_optimizer keel_optimizer_new_sgd(double rate, const keel_sgd_options *options) {
    keel_sgd_options o = options ? *options : (keel_sgd_options){0};
    return new_optimizer(__func__, rate,
                         &(struct kl_optimizer_rule){.kind = KL_OPTIMIZER_SGD,
                                                     .weight_decay = o.weight_decay,
                                                     .momentum = o.momentum,
                                                     .dampening = o.dampening,
                                                     .nesterov = o.nesterov});
}

static struct kl_optimizer_rule adam_rule(keel_adam_options o, bool decoupled) {
    return (struct kl_optimizer_rule){.kind = KL_OPTIMIZER_ADAM,
                                      .weight_decay = o.weight_decay,
                                      .beta1 = o.beta1,
                                      .beta2 = o.beta2,
                                      .eps = o.eps,
                                      .bias_correction = o.bias_correction,
                                      .decoupled = decoupled};
}

keel_optimizer keel_optimizer_new_adam(double rate, const keel_adam_options *options) {
    struct kl_optimizer_rule rule = adam_rule(options ? *options : keel_adam_defaults(), false);
    return new_optimizer(__func__, rate, &rule);
}

keel_optimizer keel_optimizer_new_adamw(double rate, const keel_adam_options *options) {
    keel_adam_options usual = keel_adam_defaults();
    usual.weight_decay = 0.01;
    struct kl_optimizer_rule rule = adam_rule(options ? *options : usual, true);
    return new_optimizer(__func__, rate, &rule);
}

int keel_optimizer_free(keel_optimizer optimizer) {
    struct kl_optimizer *o = optimizer.ctx;
    if (!o) return 0;
    kl_schedule_release(o->schedule);
    kl_array_release(o->rate);
    kl_vec_clear(&kl_vec_of_arrays, &o->state);
    kl_free(o);
    return 0;
}

static void set_rate(struct kl_optimizer *o, struct kl_schedule *schedule, struct kl_array *rate) {
    struct kl_schedule *old = o->schedule;
    struct kl_array *old_rate = o->rate;
    o->schedule = schedule ? kl_schedule_retain(schedule) : NULL;
    o->rate = rate ? kl_array_retain(rate) : NULL;
    kl_schedule_release(old);
    kl_array_release(old_rate);
}

int keel_optimizer_set_schedule(keel_optimizer optimizer, keel_schedule schedule) {
    struct kl_call c = {.func = __func__};
    struct kl_optimizer *o = in_optimizer(&c, optimizer);
    struct kl_schedule *sched = in_schedule(&c, schedule);
    if (!c.err) set_rate(o, sched, NULL);
    return kl_call_end_plain(&c);
}

int keel_optimizer_set_rate(keel_optimizer optimizer, const mlx_array rate) {
    struct kl_call c = {.func = __func__};
    struct kl_optimizer *o = in_optimizer(&c, optimizer);
    struct kl_array *a = kl_in(&c, rate, "rate");
    if (!c.err && (a->t.ndim || !kl_dtype_is_float((enum kl_dtype)a->t.dtype)))
        kl_fail(&c.err, a->t.ndim ? KL_ESHAPE : KL_EDTYPE,
                "rate is %s with %d axes; it is a 0-d float",
                kl_dtype_name((enum kl_dtype)a->t.dtype), a->t.ndim);
    if (!c.err) set_rate(o, NULL, a);
    return kl_call_end_plain(&c);
}

/* A new reference to the rate of the step that comes after `step` steps; NULL: none was taken. */
static struct kl_array *rate_of(struct kl_call *c, const struct kl_optimizer *o,
                                struct kl_array *step, struct kl_stream *s) {
    struct kl_array *out = NULL, *first = NULL;
    if (c->err) return NULL;
    if (o->rate) return kl_array_retain(o->rate);
    if (!step && kl_array_new_scalar(&first, 0, KL_I64, &c->err) == KL_OK) step = first;
    if (!c->err) kl_schedule_rate(&out, o->schedule, step, s, &c->err);
    kl_array_release(first);
    return out;
}

int keel_optimizer_rate(mlx_array *res, keel_optimizer optimizer, const mlx_stream s) {
    struct kl_call c = kl_call_begin(__func__, res);
    struct kl_optimizer *o = in_optimizer(&c, optimizer);
    struct kl_stream *on = kl_in_stream(&c, s);
    struct kl_array *out = NULL;
    if (!c.err) out = rate_of(&c, o, o->state.n ? *kl_vec_array_items(&o->state) : NULL, on);
    return kl_call_end(&c, res, out);
}

/* ---- state ---- */
static size_t state_size(const struct kl_optimizer *o, size_t n) {
    return 1 + (size_t)kl_optimizer_slots(&o->rule) * n;
}

int keel_optimizer_init(keel_optimizer optimizer, const mlx_vector_array params,
                        const mlx_stream s) {
    struct kl_call c = {.func = __func__};
    struct kl_optimizer *o = in_optimizer(&c, optimizer);
    struct kl_vec *p = kl_in_vec(&c, params.ctx, "params");
    struct kl_stream *on = kl_in_stream(&c, s);
    size_t n = c.err ? 0 : state_size(o, p->n);
    struct kl_array **state = list_new(&c, n);
    if (!c.err && kl_optimizer_init(state, &o->rule, kl_vec_array_items(p), p->n, on, &c.err) == 0)
        put_list(&o->state, state, n);
    else
        kl_free(state);
    return kl_call_end_plain(&c);
}

int keel_optimizer_state(mlx_vector_array *res, keel_optimizer optimizer) {
    struct kl_call c = kl_call_begin(__func__, res);
    struct kl_optimizer *o = in_optimizer(&c, optimizer);
    size_t n = c.err ? 0 : o->state.n;
    struct kl_array **list = list_new(&c, n);
    for (size_t i = 0; i < n && list; i++)
        list[i] = kl_array_retain(kl_vec_array_items(&o->state)[i]);
    return kl_call_end_list(&c, res, list, list ? n : 0);
}

int keel_optimizer_set_state(keel_optimizer optimizer, const mlx_vector_array state) {
    struct kl_call c = {.func = __func__};
    struct kl_optimizer *o = in_optimizer(&c, optimizer);
    struct kl_vec *given = kl_in_vec(&c, state.ctx, "state"), copy = {0};
    if (!c.err) kl_vec_dup(&kl_vec_of_arrays, &copy, given, &c.err);
    if (!c.err) kl_vec_move(&kl_vec_of_arrays, &o->state, &copy);
    return kl_call_end_plain(&c);
}

/* ---- steps ---- */
struct step {
    struct kl_optimizer *o;
    struct kl_vec *params, *grads;
    struct kl_array *const *state; /* borrowed */
    size_t n_state;
    struct kl_array **new_params, **new_state; /* owned */
};

static void step_in(struct kl_call *c, struct step *d, keel_optimizer optimizer,
                    mlx_vector_array params, mlx_vector_array grads) {
    *d = (struct step){.o = in_optimizer(c, optimizer)};
    d->params = kl_in_vec(c, params.ctx, "params");
    d->grads = kl_in_vec(c, grads.ctx, "grads");
    if (!c->err && d->params->n != d->grads->n)
        kl_fail(&c->err, KL_EARG, "%zu parameters and %zu gradients are given; they are as many",
                d->params->n, d->grads->n);
}

/* Builds the new parameters and state. */
static void step_build(struct kl_call *c, struct step *d, struct kl_stream *s) {
    struct kl_array *rate = NULL;
    if (!c->err && d->n_state != state_size(d->o, d->params->n))
        kl_fail(&c->err, KL_EARG,
                "the state has %zu arrays; for %zu parameters it has %zu (keel_optimizer_init "
                "makes the first one)",
                d->n_state, d->params->n, state_size(d->o, d->params->n));
    if (!c->err) rate = rate_of(c, d->o, d->state[0], s);
    d->new_params = list_new(c, d->params ? d->params->n : 0);
    d->new_state = list_new(c, d->n_state);
    if (!c->err)
        kl_optimizer_apply(d->new_params, d->new_state,
                           &(struct kl_optimizer_step){.rule = &d->o->rule,
                                                       .rate = rate,
                                                       .n = d->params->n,
                                                       .params = kl_vec_array_items(d->params),
                                                       .grads = kl_vec_array_items(d->grads),
                                                       .n_state = d->n_state,
                                                       .state = d->state},
                           s, &c->err);
    kl_array_release(rate);
    if (c->err) { /* a builder that fails has released its references */
        kl_free(d->new_params);
        kl_free(d->new_state);
        d->new_params = d->new_state = NULL;
    }
}

static void step_eval(struct kl_call *c, const struct step *d) {
    size_t n = d->params->n;
    struct kl_array **all = list_new(c, n + d->n_state);
    if (c->err) return;
    for (size_t i = 0; i < n; i++) all[i] = d->new_params[i];
    for (size_t i = 0; i < d->n_state; i++) all[n + i] = d->new_state[i];
    kl_eval(all, n + d->n_state, &c->err);
    kl_free(all);
}

static int step(const char *func, mlx_vector_array *res, keel_optimizer optimizer,
                mlx_vector_array params, mlx_vector_array grads, mlx_stream stream, bool checked) {
    struct kl_call c = kl_call_begin(func, res);
    struct step d;
    struct kl_array **first = NULL;
    bool made;
    step_in(&c, &d, optimizer, params, grads);
    struct kl_stream *s = kl_in_stream(&c, stream);
    size_t n = c.err ? 0 : d.params->n;
    if (!c.err) {
        d.state = kl_vec_array_items(&d.o->state);
        d.n_state = d.o->state.n;
        if (!d.n_state) {
            d.n_state = state_size(d.o, n);
            first = list_new(&c, d.n_state);
            if (!c.err &&
                kl_optimizer_init(first, &d.o->rule, kl_vec_array_items(d.params), n, s, &c.err)) {
                kl_free(first);
                first = NULL;
            }
            d.state = first;
        }
    }
    step_build(&c, &d, s);
    if (!c.err && checked) step_eval(&c, &d);
    need_vector(&c, res, &made);
    if (!c.err) {
        put_list(res->ctx, d.new_params, n);
        put_list(&d.o->state, d.new_state, d.n_state);
    } else {
        list_free(d.new_params, n);
        list_free(d.new_state, d.n_state);
    }
    list_free(first, d.n_state);
    return kl_call_end_plain(&c);
}

int keel_optimizer_step(mlx_vector_array *res, keel_optimizer optimizer,
                        const mlx_vector_array params, const mlx_vector_array grads,
                        const mlx_stream s) {
    return step(__func__, res, optimizer, params, grads, s, false);
}

int keel_optimizer_step_checked(mlx_vector_array *res, keel_optimizer optimizer,
                                const mlx_vector_array params, const mlx_vector_array grads,
                                const mlx_stream s) {
    return step(__func__, res, optimizer, params, grads, s, true);
}

int keel_optimizer_apply(mlx_vector_array *res_0, mlx_vector_array *res_1, keel_optimizer optimizer,
                         const mlx_vector_array params, const mlx_vector_array grads,
                         const mlx_vector_array state, const mlx_stream s) {
    struct kl_call c = kl_call_begin(__func__, res_0);
    struct step d;
    bool made_0, made_1;
    kl_need(&c, res_1, "the second result");
    step_in(&c, &d, optimizer, params, grads);
    const struct kl_vec *old = kl_in_vec(&c, state.ctx, "state");
    struct kl_stream *on = kl_in_stream(&c, s);
    if (!c.err) {
        d.state = kl_vec_array_items(old);
        d.n_state = old->n;
    }
    step_build(&c, &d, on);
    need_vector(&c, res_0, &made_0);
    need_vector(&c, res_1, &made_1);
    if (!c.err) {
        size_t n = d.params->n; /* a result may be the vector of the parameters */
        put_list(res_0->ctx, d.new_params, n);
        put_list(res_1->ctx, d.new_state, d.n_state);
        return kl_call_end_plain(&c);
    }
    if (made_0 && res_0->ctx) {
        kl_vec_free(&kl_vec_of_arrays, res_0->ctx);
        res_0->ctx = NULL;
    }
    list_free(d.new_params, d.params ? d.params->n : 0);
    list_free(d.new_state, d.n_state);
    return kl_call_end_plain(&c);
}

/* ---- clipping ---- */
int keel_clip_by_global_norm(mlx_vector_array *res, mlx_array *norm, const mlx_vector_array grads,
                             double max_norm, const mlx_stream s) {
    struct kl_call c = kl_call_begin(__func__, res);
    struct kl_vec *g = kl_in_vec(&c, grads.ctx, "grads");
    struct kl_stream *on = kl_in_stream(&c, s);
    struct kl_array **outs = list_new(&c, g ? g->n : 0), *length = NULL;
    struct kl_array_box *box = NULL;
    size_t n = 0;
    bool made;
    if (!c.err && kl_clip_global_norm(outs, &length, kl_vec_array_items(g), g->n, max_norm, on,
                                      &c.err) == KL_OK)
        n = g->n;
    if (!c.err && norm && !norm->ctx) {
        box = kl_array_box_new(length, &c.err);
        length = NULL;
    }
    need_vector(&c, res, &made);
    if (c.err) {
        list_free(outs, n);
        kl_array_box_free(box);
        kl_array_release(length);
        return kl_call_end_plain(&c);
    }
    if (box)
        norm->ctx = box;
    else if (norm)
        kl_array_box_put(norm->ctx, length);
    else
        kl_array_release(length);
    put_list(res->ctx, outs, n);
    return kl_call_end_plain(&c);
}

int keel_clip_by_value(mlx_vector_array *res, const mlx_vector_array grads, double limit,
                       const mlx_stream s) {
    struct kl_call c = kl_call_begin(__func__, res);
    struct kl_vec *g = kl_in_vec(&c, grads.ctx, "grads");
    struct kl_stream *on = kl_in_stream(&c, s);
    struct kl_array **outs = list_new(&c, g ? g->n : 0);
    size_t n = 0;
    if (!c.err && kl_clip_values(outs, kl_vec_array_items(g), g->n, limit, on, &c.err) == KL_OK)
        n = g->n;
    return kl_call_end_list(&c, res, outs, n);
}

/* ---- checkpoints ---- */
static const char own_prefix[] = "optimizer.", step_name[] = "optimizer.step";
static const char kind_key[] = "optimizer", moments[] = "mv";

static const char *kind_name(const struct kl_optimizer *o) {
    return o->rule.kind == KL_OPTIMIZER_SGD ? "sgd" : o->rule.decoupled ? "adamw" : "adam";
}

/* The name of array k of the state, to be freed with kl_free; NULL with the error noted. */
static char *state_name(struct kl_call *c, const struct kl_vec *names, size_t k) {
    char *const *items = names->items;
    if (k == 0) return kl_strdup(step_name);
    const char *param = items[(k - 1) % names->n];
    size_t room = sizeof own_prefix + strlen(param) + 3;
    char *made = kl_malloc(room);
    if (made) snprintf(made, room, "%s%c.%s", own_prefix, moments[(k - 1) / names->n], param);
    return made;
}

static void check_names(struct kl_call *c, const struct kl_vec *names) {
    char *const *items = c->err ? NULL : names->items;
    for (size_t i = 0; !c->err && i < names->n; i++)
        if (strncmp(items[i], own_prefix, sizeof own_prefix - 1) == 0)
            kl_fail(&c->err, KL_EARG,
                    "parameter %zu is named '%.100s'; names that begin with '%s' are those of "
                    "the optimiser's state",
                    i, items[i], own_prefix);
}

/* The contents of the file: the parameters, then the state; and the metadata, then the kind. */
struct checkpoint {
    struct kl_named *tensors;
    struct kl_pair *pairs;
    char **made; /* the names of the state, owned */
    size_t n_state;
};

static void checkpoint_fill(struct kl_call *c, struct checkpoint *k, const struct kl_vec *names,
                            const struct kl_vec *params, const struct kl_optimizer *o,
                            const struct kl_map *texts) {
    size_t n_texts = texts ? texts->n : 0;
    k->n_state = o ? o->state.n : 0;
    k->tensors = kl_calloc(names->n + k->n_state + 1, sizeof *k->tensors);
    k->pairs = kl_calloc(n_texts + 1, sizeof *k->pairs);
    k->made = kl_calloc(k->n_state + 1, sizeof *k->made);
    if (!k->tensors || !k->pairs || !k->made) {
        kl_fail_nomem(&c->err);
        return;
    }
    for (size_t i = 0; i < names->n; i++)
        k->tensors[i] =
            (struct kl_named){((char *const *)names->items)[i], kl_vec_array_items(params)[i]};
    for (size_t i = 0; i < k->n_state; i++) {
        if (!(k->made[i] = state_name(c, names, i))) {
            kl_fail_nomem(&c->err);
            return;
        }
        k->tensors[names->n + i] = (struct kl_named){k->made[i], kl_vec_array_items(&o->state)[i]};
    }
    for (size_t i = 0; i < n_texts; i++)
        k->pairs[i] = (struct kl_pair){texts->entries[i].key, texts->entries[i].value};
    if (o) k->pairs[n_texts] = (struct kl_pair){kind_key, kind_name(o)};
}

int keel_checkpoint_save(const char *path, const mlx_vector_string names,
                         const mlx_vector_array params, keel_optimizer optimizer,
                         const mlx_map_string_to_string metadata) {
    struct kl_call c = {.func = __func__};
    struct checkpoint k = {0};
    kl_need(&c, path, "path");
    struct kl_vec *as = kl_in_vec(&c, names.ctx, "names");
    struct kl_vec *p = kl_in_vec(&c, params.ctx, "params");
    const struct kl_optimizer *o = optimizer.ctx;
    const struct kl_map *texts = metadata.ctx;
    check_names(&c, as);
    if (!c.err && as->n != p->n)
        kl_fail(&c.err, KL_EARG, "%zu names and %zu parameters are given; they are as many", as->n,
                p->n);
    if (!c.err && o && o->state.n && o->state.n != state_size(o, p->n))
        kl_fail(&c.err, KL_EARG,
                "the optimiser's state has %zu arrays; for %zu parameters it has "
                "%zu",
                o->state.n, p->n, state_size(o, p->n));
    if (!c.err && o && texts && kl_map_find(texts, kind_key))
        kl_fail(&c.err, KL_EARG, "metadata has the key '%s', which tells the kind of the optimiser",
                kind_key);
    if (!c.err) checkpoint_fill(&c, &k, as, p, o, texts);
    if (!c.err)
        kl_save_safetensors((struct kl_dest){.path = path}, k.tensors, as->n + k.n_state, k.pairs,
                            (texts ? texts->n : 0) + (o != NULL), &c.err);
    for (size_t i = 0; k.made && i < k.n_state; i++) kl_free(k.made[i]);
    kl_free(k.made);
    kl_free(k.pairs);
    kl_free(k.tensors);
    return kl_call_end_plain(&c);
}

/* ---- loading ---- */
/* A new lazy array of the named tensor. */
static struct kl_array *load_named(struct kl_call *c, struct kl_file *f, const char *name) {
    struct kl_array *out = NULL;
    size_t i = 0;
    if (c->err) return NULL;
    while (i < f->n && strcmp(f->tensors[i].name, name)) i++;
    if (i < f->n) {
        kl_file_array(&out, f, i, NULL, &c->err);
        return out;
    }
    kl_fail_info(&c->err,
                 &(struct kl_error_info){
                     .code = KL_EFORMAT, .tensor = name, .file = kl_source_label(f->source)},
                 "%.500s has no tensor '%.100s'", kl_source_label(f->source), name);
    return NULL;
}

static const char *find_text(const struct kl_file *f, const char *key) {
    for (size_t i = 0; i < f->n_metadata; i++)
        if (strcmp(f->metadata[i].key, key) == 0) return f->metadata[i].value;
    return NULL;
}

/* The state for as many parameters as there are names; *n arrays. */
static struct kl_array **load_state(struct kl_call *c, struct kl_file *f,
                                    const struct kl_optimizer *o, const struct kl_vec *names,
                                    size_t *n) {
    const char *kind = find_text(f, kind_key);
    if (!kind || strcmp(kind, kind_name(o))) {
        kl_fail_info(
            &c->err,
            &(struct kl_error_info){.code = KL_EFORMAT, .file = kl_source_label(f->source)},
            "%.500s has the state of %.50s, not of %s", kl_source_label(f->source),
            kind ? kind : "no optimiser", kind_name(o));
        return NULL;
    }
    bool started = false; /* an optimiser that has taken no step is saved without a state */
    for (size_t i = 0; i < f->n; i++) started |= strcmp(f->tensors[i].name, step_name) == 0;
    *n = started ? state_size(o, names->n) : 0;
    struct kl_array **state = list_new(c, *n);
    for (size_t i = 0; state && i < *n && !c->err; i++) {
        char *name = state_name(c, names, i);
        if (!name) kl_fail_nomem(&c->err);
        state[i] = load_named(c, f, name);
        kl_free(name);
    }
    return state;
}

static struct kl_map *load_texts(struct kl_call *c, const struct kl_file *f) {
    struct kl_map *texts = c->err ? NULL : kl_map_new(&kl_map_of_strings, &c->err);
    for (size_t i = 0; texts && i < f->n_metadata && !c->err; i++)
        kl_map_insert(texts, f->metadata[i].key, f->metadata[i].value, &c->err);
    return texts;
}

int keel_checkpoint_load(mlx_vector_array *params, mlx_map_string_to_string *metadata,
                         keel_optimizer optimizer, const char *path,
                         const mlx_vector_string names) {
    struct kl_call c = kl_call_begin(__func__, params);
    struct kl_optimizer *o = optimizer.ctx;
    struct kl_source *src = NULL;
    struct kl_file *f = NULL;
    struct kl_array **loaded = NULL, **state = NULL;
    struct kl_map *texts = NULL;
    size_t n_state = 0;
    bool made;
    kl_need(&c, path, "path");
    struct kl_vec *as = kl_in_vec(&c, names.ctx, "names");
    check_names(&c, as);
    if (!c.err) kl_source_open_file(&src, path, &c.err);
    if (!c.err) kl_file_open(&f, src, KL_FORMAT_SAFETENSORS, &c.err);
    size_t n = c.err ? 0 : as->n;
    if (!c.err) loaded = list_new(&c, n);
    for (size_t i = 0; i < n && !c.err; i++)
        loaded[i] = load_named(&c, f, ((char *const *)as->items)[i]);
    if (!c.err && o) state = load_state(&c, f, o, as, &n_state);
    if (!c.err && metadata) texts = load_texts(&c, f);
    kl_file_close(f);
    kl_source_release(src);
    need_vector(&c, params, &made);
    if (c.err) {
        list_free(loaded, n);
        list_free(state, n_state);
        kl_map_release(texts);
        return kl_call_end_plain(&c);
    }
    put_list(params->ctx, loaded, n);
    if (o) put_list(&o->state, state, n_state);
    if (texts && metadata->ctx) {
        kl_map_move(metadata->ctx, texts);
        kl_map_release(texts);
    } else if (texts) {
        metadata->ctx = texts;
    }
    return kl_call_end_plain(&c);
}
