/* terms.h - formulas of several operations, for composed builders and the rules of vjp.h. For
 * src/ops only. A term is an array that the struct owns until the end, so a formula reads as one:
 *     struct kl_terms t = kl_terms_begin(s, err);
 *     struct kl_array *r = kl_term2(&t, kl_multiply, kl_term(&t, kl_sin, x), y);
 *     return kl_terms_end(&t, r, out);
 * After the first failure every term is NULL, and nothing more is made or evaluated. Any builder
 * can make a term: KL_TERM(&t, build(&t.made, ...)). */
#pragma once
#include "ops/build/check.h"
#include "ops/build/vjp.h"
#include "ops/ops.h"

enum { KL_MAX_TERMS = 96 }; /* some formulas make more than one term per axis */

struct kl_terms {
    struct kl_stream *s;
    struct kl_error **err;
    int rc, n;
    struct kl_array *made;              /* where a builder puts a new term */
    struct kl_array *all[KL_MAX_TERMS]; /* owned references to all terms */
};

/* Inline, and with `all` not written, since most formulas have few terms. */
static inline struct kl_terms kl_terms_begin(struct kl_stream *s, struct kl_error **err) {
    struct kl_terms t;
    t.s = s;
    t.err = err;
    t.rc = t.n = 0;
    t.made = NULL;
    return t;
}
/* The term that `call` has put into t->made, or NULL. `call` is not evaluated after a failure, so
 * its operands are never NULL. */
#define KL_TERM(t, call) ((t)->rc ? NULL : kl_terms_note(t, call))
struct kl_array *kl_terms_note(struct kl_terms *t, int rc);

struct kl_array *kl_term(struct kl_terms *t, kl_unary_fn *build, struct kl_array *a);
struct kl_array *kl_term2(struct kl_terms *t, kl_binary_fn *build, struct kl_array *a,
                          struct kl_array *b);
struct kl_array *kl_term_where(struct kl_terms *t, struct kl_array *condition, struct kl_array *x,
                               struct kl_array *y);
/* a converted to dtype; a itself when it has that dtype. */
struct kl_array *kl_term_cast(struct kl_terms *t, struct kl_array *a, enum kl_dtype dtype);
/* The conjugate of a complex a; else a itself. A gradient multiplies by the conjugate of the
 * derivative of a holomorphic function. */
struct kl_array *kl_term_conjugate(struct kl_terms *t, struct kl_array *a);
/* A 0-d term with the value x, of a type in which x can be written. */
struct kl_array *kl_term_number(struct kl_terms *t, double x, enum kl_dtype dtype);
/* build(a, x), with x as a number of a's type. */
struct kl_array *kl_term_by(struct kl_terms *t, kl_binary_fn *build, struct kl_array *a, double x);
/* a broadcast to the shape of `like`. */
struct kl_array *kl_term_broadcast(struct kl_terms *t, struct kl_array *a,
                                   const struct kl_array *like);
/* A reduction that keeps the reduced axes with size 1. */
struct kl_array *kl_term_reduce(struct kl_terms *t, kl_reduce_axes_fn *build, struct kl_array *a,
                                const int *axes, int n);
/* A new reference to a term or to any other array; NULL after a failure. */
struct kl_array *kl_terms_keep(const struct kl_terms *t, struct kl_array *a);
/* Releases the terms. *out, unless out is NULL, is a new reference to result. Returns the code of
 * the first failure. */
int kl_terms_end(struct kl_terms *t, struct kl_array *result, struct kl_array **out);

/* ---- gradient rules of operations of one and of two operands, as formulas ----
 * g is the cotangent, and y is the result of the operation. */
typedef struct kl_array *kl_unary_rule(struct kl_terms *t, struct kl_array *g, struct kl_array *x,
                                       struct kl_array *y);
/* The gradient of operand `which`. */
typedef struct kl_array *kl_binary_rule(struct kl_terms *t, int which, struct kl_array *g,
                                        struct kl_array *const *in, struct kl_array *y);
int kl_vjp_by_unary_rule(const struct kl_vjp *v, struct kl_array **grad, struct kl_error **err,
                         kl_unary_rule *rule);
int kl_vjp_by_binary_rule(const struct kl_vjp *v, struct kl_array **grad, struct kl_error **err,
                          kl_binary_rule *rule);

/* The rules that rows of op_list.def name, each defined next to its builder, and the rule for
 * no gradient. */
#define KL_OP(...)
#define KL_UNARY(ID, name, builder, function, takes, computes, gives, ulp, device, from, to, \
                 range, gradient, made)                                                      \
    kl_unary_rule gradient;
#define KL_BINARY(ID, name, builder, function, takes, computes, gives, ulp, device, from, to, \
                  range, gradient, made)                                                      \
    kl_binary_rule gradient;
#include "base/op/op_list.def"
