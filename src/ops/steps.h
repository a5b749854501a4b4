/* steps.h - results that are made in steps: the arrays between are kept in one list and released together. For src/ops only.
 *
 *     struct kl_steps t = {0};
 *     struct kl_array *x = KL_STEP(&t, kl_subtract(&t.made, a, b, s, err));
 *     struct kl_array *y = KL_STEP(&t, kl_abs(&t.made, x, s, err));
 *     return kl_steps_end(&t, out, y);
 *
 * After a step that failed the others are not evaluated and give NULL, so that no step sees what was not made. */
#pragma once
#include "ops/check.h"

enum { KL_MAX_STEPS = 96 }; /* more than one per axis */

struct kl_steps {
    int rc, n;
    struct kl_array *made; /* where a step puts its result */
    struct kl_array *all[KL_MAX_STEPS];
};

#define KL_STEP(t, call) ((t)->rc ? NULL : kl_steps_keep(t, call))

static inline struct kl_array *kl_steps_keep(struct kl_steps *t, int rc) {
    t->rc = rc;
    if (rc) return NULL;
    kl_assert(t->n < KL_MAX_STEPS);
    return t->all[t->n++] = t->made;
}

/* *out: a reference of its own to `result`, one of the steps or another array, unless a step failed. */
static inline int kl_steps_end(struct kl_steps *t, struct kl_array **out, struct kl_array *result) {
    if (!t->rc) *out = kl_array_retain(result);
    for (int i = 0; i < t->n; i++) kl_array_release(t->all[i]);
    return t->rc;
}
