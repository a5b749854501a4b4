/* schedule.c - learning rates as functions of the step. The step is an array, so that the rate is
 * part of the graph: a step that was traced once can be run again for other steps. */
#include <math.h>

#include "base/alloc.h"
#include "base/refs.h"
#include "ops/build/terms.h"
#include "train/optimizer.h"

/* ---- making ---- */
static int check_rate(double x, const char *what, struct kl_error **err) {
    if (isfinite(x)) return KL_OK;
    return kl_fail(err, KL_EARG, "%s is %g; it is finite", what, x);
}

static struct kl_schedule *new_of(enum kl_schedule_kind kind, struct kl_error **err) {
    struct kl_schedule *made = kl_calloc(1, sizeof *made);
    if (!made) {
        kl_fail_nomem(err);
        return NULL;
    }
    atomic_init(&made->refs, 1);
    made->kind = kind;
    return made;
}

int kl_schedule_new(struct kl_schedule **out, enum kl_schedule_kind kind, double from, double to,
                    int64_t n_steps, struct kl_error **err) {
    KL_TRY(check_rate(from, "the first rate", err));
    KL_TRY(check_rate(to, kind == KL_SCHEDULE_STEPS ? "the factor" : "the last rate", err));
    if (n_steps < 1)
        return kl_fail(err, KL_EARG, "the number of steps is %lld; it is at least 1",
                       (long long)n_steps);
    struct kl_schedule *made = new_of(kind, err);
    if (!made) return KL_ENOMEM;
    made->from = from;
    made->to = to;
    made->n_steps = n_steps;
    *out = made;
    return KL_OK;
}

int kl_schedule_join(struct kl_schedule **out, struct kl_schedule *const *parts, size_t n_parts,
                     const int64_t *starts, size_t n_starts, struct kl_error **err) {
    int depth = 0;
    if (n_parts == 0 || n_starts != n_parts - 1)
        return kl_fail(err, KL_EARG,
                       "%zu schedules and %zu starts are given; each but the first has a start",
                       n_parts, n_starts);
    if (n_parts > KL_SCHEDULE_PARTS)
        return kl_fail(err, KL_ELIMIT, "%zu schedules are joined; at most %d can be", n_parts,
                       KL_SCHEDULE_PARTS);
    for (size_t i = 0; i < n_starts; i++)
        if (starts[i] <= (i ? starts[i - 1] : 0))
            return kl_fail(err, KL_EARG, "start %zu is %lld; the starts grow, from 1 on", i,
                           (long long)starts[i]);
    for (size_t i = 0; i < n_parts; i++)
        if (parts[i]->depth > depth) depth = parts[i]->depth;
    if (depth >= KL_SCHEDULE_DEPTH)
        return kl_fail(err, KL_ELIMIT, "joins are nested more than %d deep", KL_SCHEDULE_DEPTH);
    struct kl_schedule *made = new_of(KL_SCHEDULE_JOINED, err);
    if (!made) return KL_ENOMEM;
    made->depth = depth + 1;
    made->n_parts = n_parts;
    for (size_t i = 0; i < n_starts; i++) made->starts[i] = starts[i];
    for (size_t i = 0; i < n_parts; i++) made->parts[i] = kl_schedule_retain(parts[i]);
    *out = made;
    return KL_OK;
}

struct kl_schedule *kl_schedule_retain(struct kl_schedule *sched) {
    atomic_fetch_add_explicit(&sched->refs, 1, memory_order_relaxed);
    return sched;
}

void kl_schedule_release(struct kl_schedule *sched) {
    if (!sched || !kl_refs_drop(&sched->refs)) return;
    for (size_t i = 0; i < sched->n_parts; i++) kl_schedule_release(sched->parts[i]);
    kl_free(sched);
}

/* ---- the rate of a step ---- */
static struct kl_array *rate_at(struct kl_terms *t, const struct kl_schedule *sched,
                                struct kl_array *step);

/* from + (to - from) min(step, n) / n */
static struct kl_array *linear(struct kl_terms *t, const struct kl_schedule *c,
                               struct kl_array *step) {
    struct kl_array *done =
        kl_term_cast(t, kl_term_by(t, kl_minimum, step, (double)c->n_steps), KL_F32);
    struct kl_array *way = kl_term_by(t, kl_multiply, done, (c->to - c->from) / (double)c->n_steps);
    return kl_term_by(t, kl_add, way, c->from);
}

/* to + (from - to) (1 + cos(pi min(step, n) / n)) / 2: equation 5 of Loshchilov and Hutter, "SGDR:
 * Stochastic Gradient Descent with Warm Restarts", 2017, without restarts */
static struct kl_array *cosine(struct kl_terms *t, const struct kl_schedule *c,
                               struct kl_array *step) {
    struct kl_array *done =
        kl_term_cast(t, kl_term_by(t, kl_minimum, step, (double)c->n_steps), KL_F32);
    struct kl_array *angle = kl_term_by(t, kl_multiply, done, M_PI / (double)c->n_steps);
    struct kl_array *half =
        kl_term_by(t, kl_multiply, kl_term(t, kl_cos, angle), (c->from - c->to) / 2);
    return kl_term_by(t, kl_add, half, c->to + (c->from - c->to) / 2);
}

/* from * factor^(step / n, a whole number) */
static struct kl_array *steps(struct kl_terms *t, const struct kl_schedule *c,
                              struct kl_array *step) {
    struct kl_array *times =
        kl_term_cast(t, kl_term_by(t, kl_floor_divide, step, (double)c->n_steps), KL_F32);
    struct kl_array *power = kl_term2(t, kl_power, kl_term_number(t, c->to, KL_F32), times);
    return kl_term_by(t, kl_multiply, power, c->from);
}

static struct kl_array *joined(struct kl_terms *t, const struct kl_schedule *c,
                               struct kl_array *step) {
    struct kl_array *rate = rate_at(t, c->parts[0], step);
    for (size_t i = 1; i < c->n_parts; i++) {
        double start = (double)c->starts[i - 1];
        struct kl_array *before = kl_term_by(t, kl_less, step, start);
        struct kl_array *later = rate_at(t, c->parts[i], kl_term_by(t, kl_subtract, step, start));
        rate = kl_term_where(t, before, rate, later);
    }
    return rate;
}

/* Each schedule has a list of terms of its own, since a join of joins would have too many terms for
 * one list. */
static struct kl_array *rate_at(struct kl_terms *outer, const struct kl_schedule *sched,
                                struct kl_array *step) {
    return KL_TERM(outer, kl_schedule_rate(&outer->made, sched, step, outer->s, outer->err));
}

int kl_schedule_rate(struct kl_array **out, const struct kl_schedule *sched, struct kl_array *step,
                     struct kl_stream *s, struct kl_error **err) {
    KL_TRY(kl_check_array(step, "step", err));
    KL_TRY(kl_check_stream(s, err));
    if (step->t.ndim != 0 || !kl_dtype_is_int(step->t.dtype))
        return kl_fail(err, step->t.ndim ? KL_ESHAPE : KL_EDTYPE,
                       "step is %s of shape %s; it is a 0-d integer",
                       kl_dtype_name((enum kl_dtype)step->t.dtype), KL_SHAPE_TEXT_OF(step));
    struct kl_terms t = kl_terms_begin(s, err);
    struct kl_array *rate = NULL, *wide = kl_term_cast(&t, step, KL_I64);
    switch (sched->kind) {
    case KL_SCHEDULE_CONSTANT: rate = kl_term_number(&t, sched->from, KL_F32); break;
    case KL_SCHEDULE_LINEAR: rate = linear(&t, sched, wide); break;
    case KL_SCHEDULE_COSINE: rate = cosine(&t, sched, wide); break;
    case KL_SCHEDULE_STEPS: rate = steps(&t, sched, wide); break;
    case KL_SCHEDULE_JOINED: rate = joined(&t, sched, wide); break;
    }
    return kl_terms_end(&t, rate, out);
}
