/* train.c - keel/train.h: the handles of schedules, optimisers and checkpoints (src/train/). */
#include <keel/train.h>

#include "api/handles/handles.h"
#include "base/alloc.h"
#include "train/checkpoint.h"
#include "train/optimizer.h"

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
    kl_optimizer_new(&made, rate, rule, &c.err);
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
    kl_optimizer_free(optimizer.ctx);
    return 0;
}

int keel_optimizer_set_schedule(keel_optimizer optimizer, keel_schedule schedule) {
    struct kl_call c = {.func = __func__};
    struct kl_optimizer *o = in_optimizer(&c, optimizer);
    struct kl_schedule *sched = in_schedule(&c, schedule);
    if (!c.err) kl_optimizer_set_schedule(o, sched);
    return kl_call_end_plain(&c);
}

int keel_optimizer_set_rate(keel_optimizer optimizer, const mlx_array rate) {
    struct kl_call c = {.func = __func__};
    struct kl_optimizer *o = in_optimizer(&c, optimizer);
    struct kl_array *a = kl_in(&c, rate, "rate");
    if (!c.err) kl_optimizer_set_rate(o, a, &c.err);
    return kl_call_end_plain(&c);
}

int keel_optimizer_rate(mlx_array *res, keel_optimizer optimizer, const mlx_stream s) {
    struct kl_call c = kl_call_begin(__func__, res);
    struct kl_optimizer *o = in_optimizer(&c, optimizer);
    struct kl_stream *on = kl_in_stream(&c, s);
    struct kl_array *out = NULL;
    if (!c.err) kl_optimizer_rate(&out, o, o->n_state ? o->state[0] : NULL, on, &c.err);
    return kl_call_end(&c, res, out);
}

/* ---- state ---- */
int keel_optimizer_init(keel_optimizer optimizer, const mlx_vector_array params,
                        const mlx_stream s) {
    struct kl_call c = {.func = __func__};
    struct kl_optimizer *o = in_optimizer(&c, optimizer);
    struct kl_vec *p = kl_in_vec(&c, params.ctx, "params");
    struct kl_stream *on = kl_in_stream(&c, s);
    struct kl_array **state;
    if (!c.err &&
        kl_optimizer_first_state(&state, o, kl_vec_array_items(p), p->n, on, &c.err) == KL_OK)
        kl_optimizer_set_state(o, state, kl_optimizer_state_size(o, p->n));
    return kl_call_end_plain(&c);
}

int keel_optimizer_state(mlx_vector_array *res, keel_optimizer optimizer) {
    struct kl_call c = kl_call_begin(__func__, res);
    struct kl_optimizer *o = in_optimizer(&c, optimizer);
    size_t n = c.err ? 0 : o->n_state;
    struct kl_array **list = list_new(&c, n);
    for (size_t i = 0; i < n && list; i++) list[i] = kl_array_retain(o->state[i]);
    return kl_call_end_list(&c, res, list, list ? n : 0);
}

int keel_optimizer_set_state(keel_optimizer optimizer, const mlx_vector_array state) {
    struct kl_call c = {.func = __func__};
    struct kl_optimizer *o = in_optimizer(&c, optimizer);
    struct kl_vec *given = kl_in_vec(&c, state.ctx, "state"), copy = {0};
    if (!c.err) kl_vec_dup(&kl_vec_of_arrays, &copy, given, &c.err);
    if (!c.err) kl_optimizer_set_state(o, (struct kl_array **)copy.items, copy.n);
    return kl_call_end_plain(&c);
}

/* ---- steps ---- */
struct step {
    struct kl_optimizer *o;
    struct kl_vec *params, *grads;
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

static int step(const char *func, mlx_vector_array *res, keel_optimizer optimizer,
                mlx_vector_array params, mlx_vector_array grads, mlx_stream stream, bool checked) {
    struct kl_call c = kl_call_begin(func, res);
    struct kl_optimizer_result r = {0};
    struct step d;
    bool made;
    step_in(&c, &d, optimizer, params, grads);
    struct kl_stream *s = kl_in_stream(&c, stream);
    if (!c.err)
        kl_optimizer_step(&r, d.o, kl_vec_array_items(d.params), kl_vec_array_items(d.grads),
                          d.params->n, checked, s, &c.err);
    need_vector(&c, res, &made);
    if (!c.err) {
        put_list(res->ctx, r.params, r.n_params);
        kl_optimizer_set_state(d.o, r.state, r.n_state);
    } else {
        kl_optimizer_result_free(&r);
    }
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
    struct kl_optimizer_result r = {0};
    struct step d;
    bool made_0, made_1;
    kl_need(&c, res_1, "the second result");
    step_in(&c, &d, optimizer, params, grads);
    const struct kl_vec *old = kl_in_vec(&c, state.ctx, "state");
    struct kl_stream *on = kl_in_stream(&c, s);
    if (!c.err)
        kl_optimizer_next(&r, d.o, kl_vec_array_items(d.params), kl_vec_array_items(d.grads),
                          d.params->n, kl_vec_array_items(old), old->n, on, &c.err);
    need_vector(&c, res_0, &made_0);
    need_vector(&c, res_1, &made_1);
    if (!c.err) {
        put_list(res_0->ctx, r.params, r.n_params);
        put_list(res_1->ctx, r.state, r.n_state);
        return kl_call_end_plain(&c);
    }
    if (made_0 && res_0->ctx) {
        kl_vec_free(&kl_vec_of_arrays, res_0->ctx);
        res_0->ctx = NULL;
    }
    kl_optimizer_result_free(&r);
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
int keel_checkpoint_save(const char *path, const mlx_vector_string names,
                         const mlx_vector_array params, keel_optimizer optimizer,
                         const mlx_map_string_to_string metadata) {
    struct kl_call c = {.func = __func__};
    struct kl_pair *pairs = NULL;
    kl_need(&c, path, "path");
    struct kl_vec *as = kl_in_vec(&c, names.ctx, "names");
    struct kl_vec *p = kl_in_vec(&c, params.ctx, "params");
    const struct kl_map *texts = metadata.ctx;
    const size_t n_texts = texts ? texts->n : 0;
    if (!c.err && !(pairs = kl_calloc(n_texts + 1, sizeof *pairs))) kl_fail_nomem(&c.err);
    if (!c.err) {
        for (size_t i = 0; i < n_texts; i++)
            pairs[i] = (struct kl_pair){texts->entries[i].key, texts->entries[i].value};
        kl_checkpoint_save(path,
                           &(struct kl_checkpoint_content){.names = (char *const *)as->items,
                                                           .n_names = as->n,
                                                           .params = kl_vec_array_items(p),
                                                           .n_params = p->n,
                                                           .optimizer = optimizer.ctx,
                                                           .texts = pairs,
                                                           .n_texts = n_texts},
                           &c.err);
    }
    kl_free(pairs);
    return kl_call_end_plain(&c);
}

static struct kl_map *map_of_texts(struct kl_call *c, const struct kl_checkpoint *k) {
    struct kl_map *texts = c->err ? NULL : kl_map_new(&kl_map_of_strings, &c->err);
    for (size_t i = 0; texts && i < k->n_texts && !c->err; i++)
        kl_map_insert(texts, k->texts[i].key, k->texts[i].value, &c->err);
    return texts;
}

int keel_checkpoint_load(mlx_vector_array *params, mlx_map_string_to_string *metadata,
                         keel_optimizer optimizer, const char *path,
                         const mlx_vector_string names) {
    struct kl_call c = kl_call_begin(__func__, params);
    struct kl_optimizer *o = optimizer.ctx;
    struct kl_checkpoint k = {0};
    struct kl_map *texts = NULL;
    bool made;
    kl_need(&c, path, "path");
    struct kl_vec *as = kl_in_vec(&c, names.ctx, "names");
    if (!c.err) kl_checkpoint_load(&k, path, (char *const *)as->items, as->n, o, &c.err);
    if (metadata) texts = map_of_texts(&c, &k);
    need_vector(&c, params, &made);
    if (c.err) {
        kl_checkpoint_free(&k);
        kl_map_release(texts);
        return kl_call_end_plain(&c);
    }
    put_list(params->ctx, k.params, k.n_params);
    if (o) kl_optimizer_set_state(o, k.state, k.n_state);
    k.params = k.state = NULL;
    kl_checkpoint_free(&k);
    if (texts && metadata->ctx) {
        kl_map_move(metadata->ctx, texts);
        kl_map_release(texts);
    } else if (texts) {
        metadata->ctx = texts;
    }
    return kl_call_end_plain(&c);
}
