/* terms.c - see terms.h. */
#include "ops/build/terms.h"

#include <stddef.h>

#include "base/error.h"
#include "ops/build/meet.h"

struct kl_array *kl_terms_note(struct kl_terms *t, int rc) {
    t->rc = rc;
    if (rc) return NULL;
    kl_assert(t->n < KL_MAX_TERMS);
    return t->all[t->n++] = t->made;
}

struct kl_array *kl_term(struct kl_terms *t, kl_unary_fn *build, struct kl_array *a) {
    return KL_TERM(t, build(&t->made, a, t->s, t->err));
}

struct kl_array *kl_term2(struct kl_terms *t, kl_binary_fn *build, struct kl_array *a,
                          struct kl_array *b) {
    return KL_TERM(t, build(&t->made, a, b, t->s, t->err));
}

struct kl_array *kl_term_where(struct kl_terms *t, struct kl_array *condition, struct kl_array *x,
                               struct kl_array *y) {
    return KL_TERM(t, kl_where(&t->made, condition, x, y, t->s, t->err));
}

struct kl_array *kl_term_cast(struct kl_terms *t, struct kl_array *a, enum kl_dtype dtype) {
    return KL_TERM(t, kl_cast_to(&t->made, a, dtype, t->s, t->err));
}

struct kl_array *kl_term_conjugate(struct kl_terms *t, struct kl_array *a) {
    return t->rc || a->t.dtype != KL_C64 ? a : kl_term(t, kl_conjugate, a);
}

struct kl_array *kl_term_number(struct kl_terms *t, double x, enum kl_dtype dtype) {
    return KL_TERM(t, kl_array_new_scalar(&t->made, x, dtype, t->err));
}

struct kl_array *kl_term_broadcast(struct kl_terms *t, struct kl_array *a,
                                   const struct kl_array *like) {
    return KL_TERM(t, kl_broadcast_view(&t->made, a, like->t.ndim, like->t.dims, t->err));
}

struct kl_array *kl_term_reduce(struct kl_terms *t, kl_reduce_axes_fn *build, struct kl_array *a,
                                const int *axes, int n) {
    return KL_TERM(t, build(&t->made, a, axes, (size_t)n, true, t->s, t->err));
}

struct kl_array *kl_term_by(struct kl_terms *t, kl_binary_fn *build, struct kl_array *a, double x) {
    if (t->rc) return NULL;
    return kl_term2(t, build, a, kl_term_number(t, x, (enum kl_dtype)a->t.dtype));
}

struct kl_array *kl_terms_keep(const struct kl_terms *t, struct kl_array *a) {
    return t->rc ? NULL : kl_array_retain(a);
}

int kl_terms_end(struct kl_terms *t, struct kl_array *result, struct kl_array **out) {
    if (!t->rc && out) *out = kl_array_retain(result);
    kl_release_all(t->all, (size_t)t->n);
    t->n = 0;
    return t->rc;
}

int kl_vjp_by_unary_rule(const struct kl_vjp *v, struct kl_array **grad, struct kl_error **err,
                         kl_unary_rule *rule) {
    struct kl_terms t = kl_terms_begin(v->s, err);
    if (v->wanted[0] && kl_has_gradient(v->in[0]))
        grad[0] = kl_terms_keep(&t, rule(&t, v->cotangent[0], v->in[0], v->out[0]));
    return kl_terms_end(&t, NULL, NULL);
}

int kl_vjp_by_binary_rule(const struct kl_vjp *v, struct kl_array **grad, struct kl_error **err,
                          kl_binary_rule *rule) {
    struct kl_terms t = kl_terms_begin(v->s, err);
    for (int i = 0; i < 2; i++)
        if (v->wanted[i] && kl_has_gradient(v->in[i]))
            grad[i] = kl_terms_keep(&t, rule(&t, i, v->cotangent[0], v->in, v->out[0]));
    return kl_terms_end(&t, NULL, NULL);
}
