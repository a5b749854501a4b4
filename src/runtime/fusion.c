/* fusion.c - see fusion.h. bind.c binds the memory, for fusions as for single tasks.
 *
 * Only tasks that are adjacent in the stream can be steps of a fusion. The operations of one
 * expression are adjacent, because a commit appends producers just before their consumers. A fusion
 * ends before an operation that is not element-wise, has another shape, must wait, or reads the
 * value of a step through a view, since it would need elements that are not computed yet. Backends
 * may take a reduction as the first step, and a sum of a step's values as the last one. */
#include "runtime/fusion.h"

#include <stdlib.h>
#include <string.h>

#include "base/op/validate.h"

static _Atomic(int) allowed = -1;
static _Atomic(uint64_t) n_fusions;

void kl_fusion_allow(bool on) {
    atomic_store(&allowed, on);
}

uint64_t kl_fusion_count(void) {
    return atomic_load(&n_fusions);
}

static bool is_allowed(void) {
    int v = atomic_load_explicit(&allowed, memory_order_relaxed);
    if (v < 0) {
        const char *e = getenv("KEEL_FUSION");
        v = !e || strcmp(e, "off") != 0;
        atomic_store_explicit(&allowed, v, memory_order_relaxed);
    }
    return v != 0;
}

struct kl_fusion_limits kl_stream_fusion_limits(const struct kl_stream *s) {
    if (!is_allowed() || kl_validating()) return (struct kl_fusion_limits){0};
    return s->backend->ops->fusion;
}

static bool same_shape(const struct kl_tensor *a, const struct kl_tensor *b) {
    return a->ndim == b->ndim &&
           (a->ndim == 0 || memcmp(a->dims, b->dims, (size_t)a->ndim * sizeof *a->dims) == 0);
}

/* Finds where the inputs of t come from when t is step n. false: t cannot be a step. */
static bool find_inputs(struct kl_fusion_step *steps, int n, struct kl_task *t, int *n_memory) {
    struct kl_fusion_step *step = &steps[n];
    int memory = 0;
    for (int i = 0; i < t->n_in; i++) {
        step->from[i] = -1;
        for (int j = 0; j < n; j++) {
            struct kl_tensor *made = steps[j].task->out[0];
            if (t->in[i] == made)
                step->from[i] = j;
            else if (t->in[i]->fate == made->fate)
                return false; /* t reads a view of that step's output */
        }
        if (step->from[i] >= 0) continue;
        if (!kl_fate_settled(t->in[i]->fate) || kl_fate_error(t->in[i]->fate)) return false;
        memory++;
    }
    if (*n_memory + memory > KL_FUSION_INPUTS) return false;
    *n_memory += memory;
    step->task = t;
    return true;
}

/* Whether t can be step n, with an output of the shape of the others. */
static bool takes(const struct kl_stream *s, int n, const struct kl_task *t) {
    const struct kl_backend_ops *ops = s->backend->ops;
    return ops->joins(s->backend, t) || (n == 0 && ops->leads && ops->leads(s->backend, t));
}

int kl_fusion_form(struct kl_stream *s, struct kl_task *first, uint64_t until,
                   struct kl_fusion_step steps[KL_FUSION_STEPS]) {
    const struct kl_backend_ops *ops = s->backend->ops;
    int n = 0, n_memory = 0;
    if (!ops->joins || first->n_out != 1 || first->out[0]->size < KL_FUSION_MIN_SIZE ||
        !is_allowed() || kl_validating()) /* a report must name the one kernel that wrote outside */
        return 1;
    for (struct kl_link *k = &first->link; k != &s->local.head && n < KL_FUSION_STEPS;
         k = k->next) {
        struct kl_task *t = kl_container(k, struct kl_task, link);
        const bool ends = !same_shape(t->out[0], first->out[0]);
        if (t->ticket > until || t->n_out != 1 || t->workspace || (ends && !ops->ends) ||
            !kl_task_start(t))
            break;
        if (!(ends ? ops->ends(s->backend, steps, n, t) : takes(s, n, t)) ||
            !find_inputs(steps, n, t, &n_memory)) {
            if (t != first) kl_task_put_off(t); /* it may still be abandoned */
            break;
        }
        n++;
        if (ends) break;
    }
    if (n < 2) return 1;
    for (int j = 0; j < n; j++) {
        int readers = 0;
        for (int k = j + 1; k < n; k++)
            for (int i = 0; i < steps[k].task->n_in; i++) readers += steps[k].from[i] == j;
        steps[j].stored = readers == 0 || !steps[j].task->read_only_by(steps[j].task, readers);
    }
    atomic_fetch_add_explicit(&n_fusions, 1, memory_order_relaxed);
    return n;
}
