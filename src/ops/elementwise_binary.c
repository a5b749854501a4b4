/* elementwise_binary.c - the most common element-wise functions of two numbers, and where.
 * op_list.def has the dtype rules of these operations. */
#include "ops/build/build.h"
#include "ops/build/meet.h"
#include "ops/build/terms.h"
#include "ops/ops.h"

int kl_where(struct kl_array **out, struct kl_array *condition, struct kl_array *x,
             struct kl_array *y, struct kl_stream *s, struct kl_error **err) {
    struct kl_array *const given[3] = {condition, x, y};
    struct kl_array *in[3];
    struct kl_shape shape;
    KL_TRY(kl_check_array(condition, "condition", err));
    KL_TRY(kl_check_array(x, "x", err));
    KL_TRY(kl_check_array(y, "y", err));
    KL_TRY(kl_check_stream(s, err));
    enum kl_dtype dtype = kl_dtype_promote(x->t.dtype, y->t.dtype);
    const enum kl_dtype dtypes[3] = {KL_BOOL, dtype, dtype};
    KL_TRY(kl_meet(in, given, dtypes, 3, &shape, s, err));
    int rc = kl_map_op(out, KL_OP_WHERE, in, 3, &shape, dtype, s, err);
    kl_release_all(in, 3);
    return rc;
}

/* ---- gradients ---- */

struct kl_array *kl_add_rule(struct kl_terms *t, int which, struct kl_array *g,
                             struct kl_array *const *in, struct kl_array *y) {
    return g;
}

struct kl_array *kl_subtract_rule(struct kl_terms *t, int which, struct kl_array *g,
                                  struct kl_array *const *in, struct kl_array *y) {
    return which ? kl_term(t, kl_negative, g) : g;
}

struct kl_array *kl_multiply_rule(struct kl_terms *t, int which, struct kl_array *g,
                                  struct kl_array *const *in, struct kl_array *y) {
    return kl_term2(t, kl_multiply, g, kl_term(t, kl_conjugate, in[!which]));
}

/* The derivatives of y = a / b are 1 / b and -y / b. */
struct kl_array *kl_divide_rule(struct kl_terms *t, int which, struct kl_array *g,
                                struct kl_array *const *in, struct kl_array *y) {
    struct kl_array *by_b = kl_term2(t, kl_divide, g, kl_term(t, kl_conjugate, in[1]));
    if (which == 0) return by_b;
    return kl_term(t, kl_negative, kl_term2(t, kl_multiply, by_b, kl_term(t, kl_conjugate, y)));
}

/* Where the first operand is the result, it has the gradient; where both are equal, the second one
 * has it. Where one operand is NaN neither has it. */
struct kl_array *kl_maximum_rule(struct kl_terms *t, int which, struct kl_array *g,
                                 struct kl_array *const *in, struct kl_array *y) {
    struct kl_array *taken = kl_term2(t, which ? kl_less_equal : kl_greater, in[0], in[1]);
    return t->rc ? NULL
                 : kl_term_where(t, taken, g, kl_term_number(t, 0, (enum kl_dtype)g->t.dtype));
}

struct kl_array *kl_minimum_rule(struct kl_terms *t, int which, struct kl_array *g,
                                 struct kl_array *const *in, struct kl_array *y) {
    struct kl_array *taken = kl_term2(t, which ? kl_greater_equal : kl_less, in[0], in[1]);
    return t->rc ? NULL
                 : kl_term_where(t, taken, g, kl_term_number(t, 0, (enum kl_dtype)g->t.dtype));
}

int kl_vjp_where(const struct kl_vjp *v, struct kl_array **grad, struct kl_error **err) {
    struct kl_terms t = kl_terms_begin(v->s, err);
    struct kl_array *g = v->cotangent[0];
    if (!kl_dtype_is_float((enum kl_dtype)g->t.dtype) && g->t.dtype != KL_C64) return KL_OK;
    struct kl_array *zero = kl_term_number(&t, 0, (enum kl_dtype)g->t.dtype);
    if (v->wanted[1]) grad[1] = kl_terms_keep(&t, kl_term_where(&t, v->in[0], g, zero));
    if (v->wanted[2]) grad[2] = kl_terms_keep(&t, kl_term_where(&t, v->in[0], zero, g));
    return kl_terms_end(&t, NULL, NULL);
}

/* ---- made again ---- */

int kl_rebuild_where(const struct kl_build *b, struct kl_array **out, struct kl_error **err) {
    KL_TRY(kl_build_no_params(b, err));
    return kl_where(out, b->in[0], b->in[1], b->in[2], b->s, err);
}
