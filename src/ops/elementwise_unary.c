/* elementwise_unary.c - the most common element-wise functions of one number. base/op/op_list.def
 * has the dtype rules of these operations. */
#include "ops/build/meet.h"
#include "ops/build/terms.h"
#include "ops/ops.h"

/* ---- gradients: g times the conjugate of the derivative ---- */

struct kl_array *kl_negative_rule(struct kl_terms *t, struct kl_array *g, struct kl_array *x,
                                  struct kl_array *y) {
    return kl_term(t, kl_negative, g);
}

/* The gradient points in the direction of x, and is 0 at 0. For complex numbers it is x / |x|,
 * whose parts are the derivatives of |x| by the real and the imaginary part. */
struct kl_array *kl_abs_rule(struct kl_terms *t, struct kl_array *g, struct kl_array *x,
                             struct kl_array *y) {
    return kl_term2(t, kl_multiply, g, kl_term(t, kl_sign, x));
}

struct kl_array *kl_square_rule(struct kl_terms *t, struct kl_array *g, struct kl_array *x,
                                struct kl_array *y) {
    struct kl_array *by = kl_term(t, kl_conjugate, x);
    return kl_term2(t, kl_multiply, g, kl_term2(t, kl_add, by, by));
}

struct kl_array *kl_exp_rule(struct kl_terms *t, struct kl_array *g, struct kl_array *x,
                             struct kl_array *y) {
    return kl_term2(t, kl_multiply, g, kl_term(t, kl_conjugate, y));
}

struct kl_array *kl_log_rule(struct kl_terms *t, struct kl_array *g, struct kl_array *x,
                             struct kl_array *y) {
    return kl_term2(t, kl_divide, g, kl_term(t, kl_conjugate, x));
}

/* The derivative is 1 / (2 y). */
struct kl_array *kl_sqrt_rule(struct kl_terms *t, struct kl_array *g, struct kl_array *x,
                              struct kl_array *y) {
    struct kl_array *root = kl_term(t, kl_conjugate, y);
    return kl_term2(t, kl_divide, g, kl_term2(t, kl_add, root, root));
}

/* The derivative is sqrt(pi) / 2 exp(y^2) with y the result: the reciprocal of the derivative of
 * erf at y. */
struct kl_array *kl_erfinv_rule(struct kl_terms *t, struct kl_array *g, struct kl_array *x,
                                struct kl_array *y) {
    struct kl_array *slope = kl_term(t, kl_exp, kl_term(t, kl_square, y));
    return kl_term2(t, kl_multiply, g, kl_term_by(t, kl_multiply, slope, 0.88622692545275801365));
}
