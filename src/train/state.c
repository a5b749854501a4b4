/* state.c - an optimiser with its learning rate and its state, which the functions of optimizer.c
 * turn into the next one. */
#include "base/alloc.h"
#include "train/optimizer.h"

static int list_new(struct kl_array ***list, size_t n, struct kl_error **err) {
    *list = kl_calloc(n + 1, sizeof **list);
    return *list ? KL_OK : kl_fail_nomem(err);
}

static void list_free(struct kl_array **list, size_t n) {
    for (size_t i = 0; list && i < n; i++) kl_array_release(list[i]);
    kl_free(list);
}

int kl_optimizer_new(struct kl_optimizer **out, double rate, const struct kl_optimizer_rule *rule,
                     struct kl_error **err) {
    KL_TRY(kl_optimizer_check(rule, err));
    struct kl_optimizer *o = kl_calloc(1, sizeof *o);
    if (!o) return kl_fail_nomem(err);
    o->rule = *rule;
    int rc = kl_schedule_new(&o->schedule, KL_SCHEDULE_CONSTANT, rate, rate, 1, err);
    if (rc) {
        kl_free(o);
        return rc;
    }
    *out = o;
    return KL_OK;
}

void kl_optimizer_free(struct kl_optimizer *o) {
    if (!o) return;
    kl_schedule_release(o->schedule);
    kl_array_release(o->rate);
    list_free(o->state, o->n_state);
    kl_free(o);
}

/* ---- the learning rate ---- */

static void replace_rate(struct kl_optimizer *o, struct kl_schedule *schedule,
                         struct kl_array *rate) {
    struct kl_schedule *old = o->schedule;
    struct kl_array *old_rate = o->rate;
    o->schedule = schedule ? kl_schedule_retain(schedule) : NULL;
    o->rate = rate ? kl_array_retain(rate) : NULL;
    kl_schedule_release(old);
    kl_array_release(old_rate);
}

void kl_optimizer_set_schedule(struct kl_optimizer *o, struct kl_schedule *schedule) {
    replace_rate(o, schedule, NULL);
}

int kl_optimizer_set_rate(struct kl_optimizer *o, struct kl_array *rate, struct kl_error **err) {
    if (rate->t.ndim || !kl_dtype_is_float((enum kl_dtype)rate->t.dtype))
        return kl_fail(err, rate->t.ndim ? KL_ESHAPE : KL_EDTYPE,
                       "rate is %s with %d axes; it is a 0-d float",
                       kl_dtype_name((enum kl_dtype)rate->t.dtype), rate->t.ndim);
    replace_rate(o, NULL, rate);
    return KL_OK;
}

int kl_optimizer_rate(struct kl_array **out, const struct kl_optimizer *o, struct kl_array *step,
                      struct kl_stream *s, struct kl_error **err) {
    struct kl_array *first = NULL;
    if (o->rate) {
        *out = kl_array_retain(o->rate);
        return KL_OK;
    }
    if (!step) {
        KL_TRY(kl_array_new_scalar(&first, 0, KL_I64, err));
        step = first;
    }
    int rc = kl_schedule_rate(out, o->schedule, step, s, err);
    kl_array_release(first);
    return rc;
}

/* ---- the state ---- */

size_t kl_optimizer_state_size(const struct kl_optimizer *o, size_t n) {
    return 1 + (size_t)kl_optimizer_slots(&o->rule) * n;
}

int kl_optimizer_first_state(struct kl_array ***state, const struct kl_optimizer *o,
                             struct kl_array *const *params, size_t n, struct kl_stream *s,
                             struct kl_error **err) {
    struct kl_array **made;
    KL_TRY(list_new(&made, kl_optimizer_state_size(o, n), err));
    int rc = kl_optimizer_init(made, &o->rule, params, n, s, err);
    if (rc) {
        kl_free(made);
        return rc;
    }
    *state = made;
    return KL_OK;
}

void kl_optimizer_set_state(struct kl_optimizer *o, struct kl_array **state, size_t n) {
    struct kl_array **old = o->state;
    size_t n_old = o->n_state;
    o->state = state;
    o->n_state = n;
    list_free(old, n_old);
}

/* ---- steps ---- */

void kl_optimizer_result_free(struct kl_optimizer_result *r) {
    list_free(r->params, r->n_params);
    list_free(r->state, r->n_state);
    *r = (struct kl_optimizer_result){0};
}

int kl_optimizer_next(struct kl_optimizer_result *r, const struct kl_optimizer *o,
                      struct kl_array *const *params, struct kl_array *const *grads, size_t n,
                      struct kl_array *const *state, size_t n_state, struct kl_stream *s,
                      struct kl_error **err) {
    struct kl_array *rate;
    *r = (struct kl_optimizer_result){0};
    if (n_state != kl_optimizer_state_size(o, n))
        return kl_fail(err, KL_EARG,
                       "the state has %zu arrays; for %zu parameters it has %zu "
                       "(keel_optimizer_init makes the first one)",
                       n_state, n, kl_optimizer_state_size(o, n));
    KL_TRY(kl_optimizer_rate(&rate, o, state[0], s, err));
    int rc = list_new(&r->params, n, err);
    if (!rc) rc = list_new(&r->state, n_state, err);
    if (!rc)
        rc = kl_optimizer_apply(r->params, r->state,
                                &(struct kl_optimizer_step){.rule = &o->rule,
                                                            .rate = rate,
                                                            .n = n,
                                                            .params = params,
                                                            .grads = grads,
                                                            .n_state = n_state,
                                                            .state = state},
                                s, err);
    kl_array_release(rate);
    if (rc) { /* a builder that fails has released its references */
        kl_free(r->params);
        kl_free(r->state);
        *r = (struct kl_optimizer_result){0};
        return rc;
    }
    r->n_params = n;
    r->n_state = n_state;
    return KL_OK;
}

static int evaluate(const struct kl_optimizer_result *r, struct kl_error **err) {
    struct kl_array **all;
    KL_TRY(list_new(&all, r->n_params + r->n_state, err));
    for (size_t i = 0; i < r->n_params; i++) all[i] = r->params[i];
    for (size_t i = 0; i < r->n_state; i++) all[r->n_params + i] = r->state[i];
    int rc = kl_eval(all, r->n_params + r->n_state, err);
    kl_free(all);
    return rc;
}

int kl_optimizer_step(struct kl_optimizer_result *r, const struct kl_optimizer *o,
                      struct kl_array *const *params, struct kl_array *const *grads, size_t n,
                      bool checked, struct kl_stream *s, struct kl_error **err) {
    struct kl_array **first = NULL;
    size_t n_state = o->n_state;
    *r = (struct kl_optimizer_result){0};
    if (!n_state) {
        KL_TRY(kl_optimizer_first_state(&first, o, params, n, s, err));
        n_state = kl_optimizer_state_size(o, n);
    }
    int rc = kl_optimizer_next(r, o, params, grads, n, first ? first : o->state, n_state, s, err);
    if (!rc && checked) {
        rc = evaluate(r, err);
        if (rc) kl_optimizer_result_free(r);
    }
    list_free(first, n_state);
    return rc;
}
