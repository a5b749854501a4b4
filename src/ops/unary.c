/* unary.c - element-wise operations of one operand: dtype rules. */
#include "ops/meet.h"
#include "ops/ops.h"
#include "ops/terms.h"

static int unary_inexact(struct kl_array **out, enum kl_op_id op, struct kl_array *a,
                         struct kl_stream *s, struct kl_error **err) {
    KL_TRY(kl_check_array(a, "a", err));
    enum kl_dtype dtype = kl_dtype_inexact((enum kl_dtype)a->t.dtype);
    return kl_map_unary(out, op, a, dtype, dtype, s, err);
}

int kl_negative(struct kl_array **out, struct kl_array *a, struct kl_stream *s,
                struct kl_error **err) {
    KL_TRY(kl_check_array(a, "a", err));
    if (a->t.dtype == KL_BOOL)
        return kl_fail(err, KL_EDTYPE,
                       "bool has no negative; numbers are taken (logical_not inverts)");
    return kl_map_unary(out, KL_OP_NEGATIVE, a, a->t.dtype, a->t.dtype, s, err);
}

int kl_abs(struct kl_array **out, struct kl_array *a, struct kl_stream *s, struct kl_error **err) {
    KL_TRY(kl_check_array(a, "a", err));
    return kl_map_unary(out, KL_OP_ABS, a, a->t.dtype, a->t.dtype == KL_C64 ? KL_F32 : a->t.dtype,
                        s, err);
}

int kl_square(struct kl_array **out, struct kl_array *a, struct kl_stream *s,
              struct kl_error **err) {
    KL_TRY(kl_check_array(a, "a", err));
    return kl_map_unary(out, KL_OP_SQUARE, a, a->t.dtype, a->t.dtype, s, err);
}

int kl_exp(struct kl_array **out, struct kl_array *a, struct kl_stream *s, struct kl_error **err) {
    return unary_inexact(out, KL_OP_EXP, a, s, err);
}

int kl_log(struct kl_array **out, struct kl_array *a, struct kl_stream *s, struct kl_error **err) {
    return unary_inexact(out, KL_OP_LOG, a, s, err);
}

int kl_sqrt(struct kl_array **out, struct kl_array *a, struct kl_stream *s, struct kl_error **err) {
    return unary_inexact(out, KL_OP_SQRT, a, s, err);
}

int kl_erfinv(struct kl_array **out, struct kl_array *a, struct kl_stream *s,
              struct kl_error **err) {
    KL_TRY(kl_check_array(a, "a", err));
    if (a->t.dtype == KL_C64)
        return kl_fail(err, KL_EDTYPE, "complex64 is not taken; real numbers are");
    return unary_inexact(out, KL_OP_ERFINV, a, s, err);
}

int kl_logical_not(struct kl_array **out, struct kl_array *a, struct kl_stream *s,
                   struct kl_error **err) {
    KL_TRY(kl_check_array(a, "a", err));
    return kl_map_unary(out, KL_OP_LOGICAL_NOT, a, KL_BOOL, KL_BOOL, s, err);
}

/* ---- vjp rules ---- */

static struct kl_array *negative_rule(struct kl_terms *t, struct kl_array *g, struct kl_array *x,
                                      struct kl_array *y) {
    return kl_term(t, kl_negative, g);
}

/* The direction of x, 0 at 0; of complex numbers too: how far each part takes |x| away from 0. */
static struct kl_array *abs_rule(struct kl_terms *t, struct kl_array *g, struct kl_array *x,
                                 struct kl_array *y) {
    return kl_term2(t, kl_multiply, g, kl_term(t, kl_sign, x));
}

static struct kl_array *square_rule(struct kl_terms *t, struct kl_array *g, struct kl_array *x,
                                    struct kl_array *y) {
    struct kl_array *by = kl_term(t, kl_conjugate, x);
    return kl_term2(t, kl_multiply, g, kl_term2(t, kl_add, by, by));
}

static struct kl_array *exp_rule(struct kl_terms *t, struct kl_array *g, struct kl_array *x,
                                 struct kl_array *y) {
    return kl_term2(t, kl_multiply, g, kl_term(t, kl_conjugate, y));
}

static struct kl_array *log_rule(struct kl_terms *t, struct kl_array *g, struct kl_array *x,
                                 struct kl_array *y) {
    return kl_term2(t, kl_divide, g, kl_term(t, kl_conjugate, x));
}

/* 1 / (2 y) */
static struct kl_array *sqrt_rule(struct kl_terms *t, struct kl_array *g, struct kl_array *x,
                                  struct kl_array *y) {
    struct kl_array *root = kl_term(t, kl_conjugate, y);
    return kl_term2(t, kl_divide, g, kl_term2(t, kl_add, root, root));
}

/* sqrt(pi) / 2 exp(y^2), y the result: one over the derivative of erf there. */
static struct kl_array *erfinv_rule(struct kl_terms *t, struct kl_array *g, struct kl_array *x,
                                    struct kl_array *y) {
    struct kl_array *slope = kl_term(t, kl_exp, kl_term(t, kl_square, y));
    return kl_term2(t, kl_multiply, g, kl_term_by(t, kl_multiply, slope, 0.88622692545275801365));
}

int kl_vjp_negative(const struct kl_vjp *v, struct kl_array **grad, struct kl_error **err) {
    return kl_vjp_by_unary_rule(v, grad, err, negative_rule);
}
int kl_vjp_abs(const struct kl_vjp *v, struct kl_array **grad, struct kl_error **err) {
    return kl_vjp_by_unary_rule(v, grad, err, abs_rule);
}
int kl_vjp_square(const struct kl_vjp *v, struct kl_array **grad, struct kl_error **err) {
    return kl_vjp_by_unary_rule(v, grad, err, square_rule);
}
int kl_vjp_exp(const struct kl_vjp *v, struct kl_array **grad, struct kl_error **err) {
    return kl_vjp_by_unary_rule(v, grad, err, exp_rule);
}
int kl_vjp_log(const struct kl_vjp *v, struct kl_array **grad, struct kl_error **err) {
    return kl_vjp_by_unary_rule(v, grad, err, log_rule);
}
int kl_vjp_sqrt(const struct kl_vjp *v, struct kl_array **grad, struct kl_error **err) {
    return kl_vjp_by_unary_rule(v, grad, err, sqrt_rule);
}
int kl_vjp_erfinv(const struct kl_vjp *v, struct kl_array **grad, struct kl_error **err) {
    return kl_vjp_by_unary_rule(v, grad, err, erfinv_rule);
}
