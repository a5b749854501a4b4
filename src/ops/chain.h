/* chain.h - a result through several operations, written without a clean-up after each. For src/ops only.
 *
 * Each step gives an array that the chain holds and lends; after a failure steps give NULL and do nothing, and a NULL operand is such a failure's. kl_chain_end says how it went:
 *
 *     struct kl_chain c = {.s = s, .err = err};
 *     struct kl_array *d = kl_chain_2(&c, kl_subtract, a, mean);
 *     return kl_chain_end(&c, kl_chain_1(&c, kl_square, d), out); */
#pragma once
#include "ops/meet.h"
#include "ops/ops.h"

struct kl_chain {
    struct kl_stream *s;
    struct kl_error **err;
    int rc, n;
    struct kl_array *held[40];
};

static inline bool kl_chain_goes_on(struct kl_chain *c) {
    if (c->rc == KL_OK && c->n == (int)(sizeof c->held / sizeof *c->held))
        c->rc = kl_fail(c->err, KL_ENOMEM, "a chain of operations is too long");
    return c->rc == KL_OK;
}
/* Takes what a step made. */
static inline struct kl_array *kl_chain_hold(struct kl_chain *c, int rc,
                                             struct kl_array *const *made) {
    c->rc = rc;
    return rc ? NULL : (c->held[c->n++] = *made);
}
static inline struct kl_array *kl_chain_1(struct kl_chain *c, kl_unary_fn *f, struct kl_array *a) {
    struct kl_array *out = NULL;
    return kl_chain_goes_on(c) ? kl_chain_hold(c, f(&out, a, c->s, c->err), &out) : NULL;
}
static inline struct kl_array *kl_chain_2(struct kl_chain *c, kl_binary_fn *f, struct kl_array *a,
                                          struct kl_array *b) {
    struct kl_array *out = NULL;
    return kl_chain_goes_on(c) ? kl_chain_hold(c, f(&out, a, b, c->s, c->err), &out) : NULL;
}
static inline struct kl_array *kl_chain_cast(struct kl_chain *c, struct kl_array *a,
                                             enum kl_dtype dtype) {
    struct kl_array *out = NULL;
    return kl_chain_goes_on(c) ? kl_chain_hold(c, kl_cast_to(&out, a, dtype, c->s, c->err), &out)
                               : NULL;
}
static inline struct kl_array *kl_chain_scalar(struct kl_chain *c, double x, enum kl_dtype dtype) {
    struct kl_array *out = NULL;
    return kl_chain_goes_on(c) ? kl_chain_hold(c, kl_array_new_scalar(&out, x, dtype, c->err), &out)
                               : NULL;
}
static inline struct kl_array *kl_chain_where(struct kl_chain *c, struct kl_array *condition,
                                              struct kl_array *x, struct kl_array *y) {
    struct kl_array *out = NULL;
    return kl_chain_goes_on(c)
               ? kl_chain_hold(c, kl_where(&out, condition, x, y, c->s, c->err), &out)
               : NULL;
}
/* To the shape of like. */
static inline struct kl_array *kl_chain_broadcast(struct kl_chain *c, struct kl_array *a,
                                                  const struct kl_array *like) {
    struct kl_array *out = NULL;
    return kl_chain_goes_on(c)
               ? kl_chain_hold(c, kl_broadcast_view(&out, a, like->t.ndim, like->t.dims, c->err),
                               &out)
               : NULL;
}
/* A reduction that keeps its axes. */
static inline struct kl_array *kl_chain_reduce(struct kl_chain *c, kl_reduce_axes_fn *f,
                                               struct kl_array *a, const int *axes, int n) {
    struct kl_array *out = NULL;
    return kl_chain_goes_on(c)
               ? kl_chain_hold(c, f(&out, a, axes, (size_t)n, true, c->s, c->err), &out)
               : NULL;
}
/* *out: the result, a new reference. Lets go of all steps. */
static inline int kl_chain_end(struct kl_chain *c, struct kl_array *result, struct kl_array **out) {
    if (c->rc == KL_OK) *out = kl_array_retain(result);
    kl_release_all(c->held, (size_t)c->n);
    c->n = 0;
    return c->rc;
}
