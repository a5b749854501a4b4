/* optimizer.h - learning rates as functions of the step, optimisers, and the clipping of gradients:
 * compositions of the builders of ops.h, which therefore run on every device and can be traced.
 *
 * Nothing here keeps state between calls: a step takes the old state and makes the new one. The
 * conventions of ops.h hold: 0 or a negative code with *err set; arrays that come in are borrowed,
 * and those that come out are new references. Any thread may call. */
#pragma once
#include "graph/array.h"

/* ---- schedule.c: learning rates ---- */
enum kl_schedule_kind {
    KL_SCHEDULE_CONSTANT,
    KL_SCHEDULE_LINEAR,
    KL_SCHEDULE_COSINE,
    KL_SCHEDULE_STEPS,
    KL_SCHEDULE_JOINED
};
/* The largest number of joined parts, and of joins within joins. */
enum { KL_SCHEDULE_PARTS = 16, KL_SCHEDULE_DEPTH = 8 };

struct kl_schedule {
    _Atomic(uint32_t) refs;
    enum kl_schedule_kind kind;
    double from, to; /* of KL_SCHEDULE_STEPS: the first rate, and the factor */
    int64_t n_steps; /* until `to` is reached; of KL_SCHEDULE_STEPS: between two changes */
    int depth;       /* joins within joins */
    size_t n_parts;
    /* Part i + 1 begins at step starts[i]; each part counts its own steps from 0. */
    int64_t starts[KL_SCHEDULE_PARTS];
    struct kl_schedule *parts[KL_SCHEDULE_PARTS]; /* owned references */
};

/* A schedule that is no join. KL_EARG: a rate that is not finite, n_steps below 1. */
int kl_schedule_new(struct kl_schedule **out, enum kl_schedule_kind kind, double from, double to,
                    int64_t n_steps, struct kl_error **err);
/* One schedule after the other. KL_EARG: no parts, starts that do not grow; KL_ELIMIT: too many
 * parts, or joins nested too deep. */
int kl_schedule_join(struct kl_schedule **out, struct kl_schedule *const *parts, size_t n_parts,
                     const int64_t *starts, size_t n_starts, struct kl_error **err);
struct kl_schedule *kl_schedule_retain(struct kl_schedule *sched);
void kl_schedule_release(struct kl_schedule *sched); /* NULL is fine */
/* *out: the rate, 0-d float32, of the step that `step` tells (0-d, integer; the first step is
 * 0). */
int kl_schedule_rate(struct kl_array **out, const struct kl_schedule *sched, struct kl_array *step,
                     struct kl_stream *s, struct kl_error **err);

/* ---- optimizer.c ---- */
enum kl_optimizer_kind { KL_OPTIMIZER_SGD, KL_OPTIMIZER_ADAM };

struct kl_optimizer_rule {
    enum kl_optimizer_kind kind;
    double weight_decay;
    double momentum, dampening;      /* SGD */
    double beta1, beta2, eps;        /* Adam */
    bool nesterov;                   /* SGD */
    bool bias_correction, decoupled; /* Adam; decoupled decay makes it AdamW */
};

int kl_optimizer_check(const struct kl_optimizer_rule *rule, struct kl_error **err);
/* The number of state arrays per parameter. The state is: the number of steps taken, 0-d int64;
 * then one array per parameter for the first moment (the momentum of SGD), then for the second. */
int kl_optimizer_slots(const struct kl_optimizer_rule *rule);
/* state[0 .. slots * n]: the state before the first step. KL_EDTYPE: a parameter is not a float. */
int kl_optimizer_init(struct kl_array **state, const struct kl_optimizer_rule *rule,
                      struct kl_array *const *params, size_t n, struct kl_stream *s,
                      struct kl_error **err);

struct kl_optimizer_step {
    const struct kl_optimizer_rule *rule;
    struct kl_array *rate; /* 0-d, a float */
    size_t n;              /* the number of parameters */
    struct kl_array *const *params, *const *grads;
    size_t n_state;
    struct kl_array *const *state;
};
/* One step: n updated parameters and n_state new arrays of the state, all lazy. KL_EARG: counts
 * that do not fit together; KL_ESHAPE, KL_EDTYPE: a gradient or a state array that does not fit its
 * parameter. */
int kl_optimizer_apply(struct kl_array **params, struct kl_array **state,
                       const struct kl_optimizer_step *step, struct kl_stream *s,
                       struct kl_error **err);

/* outs: the gradients, all multiplied by min(1, max_norm / (norm + 1e-6)), where norm, 0-d, is the
 * square root of the sum of the squares of all their elements. norm may be NULL. */
int kl_clip_global_norm(struct kl_array **outs, struct kl_array **norm,
                        struct kl_array *const *grads, size_t n, double max_norm,
                        struct kl_stream *s, struct kl_error **err);
/* outs: the gradients with each element limited to [-limit, limit]. */
int kl_clip_values(struct kl_array **outs, struct kl_array *const *grads, size_t n, double limit,
                   struct kl_stream *s, struct kl_error **err);

/* ---- state.c: an optimiser with its learning rate and its state ---- */
struct kl_optimizer {
    struct kl_optimizer_rule rule;
    struct kl_schedule *schedule; /* exactly one of schedule and rate is set; both are owned */
    struct kl_array *rate;
    struct kl_array **state; /* n_state arrays, owned; none before the first step */
    size_t n_state;
};
int kl_optimizer_new(struct kl_optimizer **out, double rate, const struct kl_optimizer_rule *rule,
                     struct kl_error **err);
void kl_optimizer_free(struct kl_optimizer *o); /* NULL is fine */
/* The learning rate from now on. KL_ESHAPE, KL_EDTYPE: rate is not a 0-d float. */
void kl_optimizer_set_schedule(struct kl_optimizer *o, struct kl_schedule *schedule);
int kl_optimizer_set_rate(struct kl_optimizer *o, struct kl_array *rate, struct kl_error **err);
/* The rate of the step that comes after `step` steps. step NULL: of the first one. */
int kl_optimizer_rate(struct kl_array **out, const struct kl_optimizer *o, struct kl_array *step,
                      struct kl_stream *s, struct kl_error **err);
/* The number of state arrays for n parameters. */
size_t kl_optimizer_state_size(const struct kl_optimizer *o, size_t n);
/* *state: a list, to be freed with kl_free, of the arrays of the state before the first step. */
int kl_optimizer_first_state(struct kl_array ***state, const struct kl_optimizer *o,
                             struct kl_array *const *params, size_t n, struct kl_stream *s,
                             struct kl_error **err);
/* Takes the list, of memory of kl_malloc, and its arrays. */
void kl_optimizer_set_state(struct kl_optimizer *o, struct kl_array **state, size_t n);

/* The results of a step: lists of memory of kl_malloc. */
struct kl_optimizer_result {
    struct kl_array **params, **state;
    size_t n_params, n_state;
};
void kl_optimizer_result_free(struct kl_optimizer_result *r);
/* The step after `state`. *r is empty on failure. KL_EARG: the state is not for n parameters. */
int kl_optimizer_next(struct kl_optimizer_result *r, const struct kl_optimizer *o,
                      struct kl_array *const *params, struct kl_array *const *grads, size_t n,
                      struct kl_array *const *state, size_t n_state, struct kl_stream *s,
                      struct kl_error **err);
/* The step after o's own state, which is the first one when o has none; o is not changed. With
 * `checked` the results are evaluated. */
int kl_optimizer_step(struct kl_optimizer_result *r, const struct kl_optimizer *o,
                      struct kl_array *const *params, struct kl_array *const *grads, size_t n,
                      bool checked, struct kl_stream *s, struct kl_error **err);
