/* binary.c - element-wise operations of several operands: promotion, broadcasting, what is known of
 * the values. */
#include "ops/meet.h"
#include "ops/ops.h"
#include "ops/terms.h"

static int check_two(struct kl_array *a, struct kl_array *b, struct kl_error **err) {
    KL_TRY(kl_check_array(a, "a", err));
    return kl_check_array(b, "b", err);
}

/* In the type in which the operands meet. */
static int arithmetic(struct kl_array **out, enum kl_op_id op, struct kl_array *a,
                      struct kl_array *b, struct kl_stream *s, struct kl_error **err) {
    KL_TRY(check_two(a, b, err));
    enum kl_dtype dtype = kl_dtype_promote(a->t.dtype, b->t.dtype);
    return kl_map_binary(out, op, a, b, dtype, dtype, s, err);
}

static int comparison(struct kl_array **out, enum kl_op_id op, struct kl_array *a,
                      struct kl_array *b, struct kl_stream *s, struct kl_error **err) {
    KL_TRY(check_two(a, b, err));
    return kl_map_binary(out, op, a, b, kl_dtype_promote(a->t.dtype, b->t.dtype), KL_BOOL, s, err);
}

static int logical(struct kl_array **out, enum kl_op_id op, struct kl_array *a, struct kl_array *b,
                   struct kl_stream *s, struct kl_error **err) {
    KL_TRY(check_two(a, b, err));
    return kl_map_binary(out, op, a, b, KL_BOOL, KL_BOOL, s, err);
}

int kl_add(struct kl_array **out, struct kl_array *a, struct kl_array *b, struct kl_stream *s,
           struct kl_error **err) {
    return arithmetic(out, KL_OP_ADD, a, b, s, err);
}

int kl_subtract(struct kl_array **out, struct kl_array *a, struct kl_array *b, struct kl_stream *s,
                struct kl_error **err) {
    return arithmetic(out, KL_OP_SUBTRACT, a, b, s, err);
}

int kl_multiply(struct kl_array **out, struct kl_array *a, struct kl_array *b, struct kl_stream *s,
                struct kl_error **err) {
    return arithmetic(out, KL_OP_MULTIPLY, a, b, s, err);
}

int kl_divide(struct kl_array **out, struct kl_array *a, struct kl_array *b, struct kl_stream *s,
              struct kl_error **err) {
    KL_TRY(check_two(a, b, err));
    enum kl_dtype dtype = kl_dtype_promote(a->t.dtype, b->t.dtype);
    dtype = kl_dtype_inexact(dtype);
    return kl_map_binary(out, KL_OP_DIVIDE, a, b, dtype, dtype, s, err);
}

/* The result is one of the operands: what holds for both holds for it, and one bound of either
 * does, too. */
static int extreme(struct kl_array **out, enum kl_op_id op, struct kl_array *a, struct kl_array *b,
                   struct kl_stream *s, struct kl_error **err) {
    int64_t lo, hi;
    KL_TRY(arithmetic(out, op, a, b, s, err));
    /* A range was proved in the operand's own type; it is one of the result only if that holds all
     * of it. */
    if (!a->has_range || !b->has_range || !kl_int_limits((*out)->t.dtype, &lo, &hi)) return KL_OK;
    if (a->lo < lo || b->lo < lo || a->hi > hi || b->hi > hi) return KL_OK;
    bool is_max = op == KL_OP_MAXIMUM;
    kl_array_set_range(*out, (a->lo > b->lo) == is_max ? a->lo : b->lo,
                       (a->hi > b->hi) == is_max ? a->hi : b->hi);
    return KL_OK;
}

int kl_maximum(struct kl_array **out, struct kl_array *a, struct kl_array *b, struct kl_stream *s,
               struct kl_error **err) {
    return extreme(out, KL_OP_MAXIMUM, a, b, s, err);
}

int kl_minimum(struct kl_array **out, struct kl_array *a, struct kl_array *b, struct kl_stream *s,
               struct kl_error **err) {
    return extreme(out, KL_OP_MINIMUM, a, b, s, err);
}

int kl_equal(struct kl_array **out, struct kl_array *a, struct kl_array *b, struct kl_stream *s,
             struct kl_error **err) {
    return comparison(out, KL_OP_EQUAL, a, b, s, err);
}

int kl_not_equal(struct kl_array **out, struct kl_array *a, struct kl_array *b, struct kl_stream *s,
                 struct kl_error **err) {
    return comparison(out, KL_OP_NOT_EQUAL, a, b, s, err);
}

int kl_less(struct kl_array **out, struct kl_array *a, struct kl_array *b, struct kl_stream *s,
            struct kl_error **err) {
    return comparison(out, KL_OP_LESS, a, b, s, err);
}

int kl_less_equal(struct kl_array **out, struct kl_array *a, struct kl_array *b,
                  struct kl_stream *s, struct kl_error **err) {
    return comparison(out, KL_OP_LESS_EQUAL, a, b, s, err);
}

int kl_greater(struct kl_array **out, struct kl_array *a, struct kl_array *b, struct kl_stream *s,
               struct kl_error **err) {
    return comparison(out, KL_OP_GREATER, a, b, s, err);
}

int kl_greater_equal(struct kl_array **out, struct kl_array *a, struct kl_array *b,
                     struct kl_stream *s, struct kl_error **err) {
    return comparison(out, KL_OP_GREATER_EQUAL, a, b, s, err);
}

int kl_logical_and(struct kl_array **out, struct kl_array *a, struct kl_array *b,
                   struct kl_stream *s, struct kl_error **err) {
    return logical(out, KL_OP_LOGICAL_AND, a, b, s, err);
}

int kl_logical_or(struct kl_array **out, struct kl_array *a, struct kl_array *b,
                  struct kl_stream *s, struct kl_error **err) {
    return logical(out, KL_OP_LOGICAL_OR, a, b, s, err);
}

int kl_where(struct kl_array **out, struct kl_array *condition, struct kl_array *x,
             struct kl_array *y, struct kl_stream *s, struct kl_error **err) {
    struct kl_array *const given[3] = {condition, x, y};
    struct kl_array *in[3];
    struct kl_shape shape;
    int64_t lo, hi;
    KL_TRY(kl_check_array(condition, "condition", err));
    KL_TRY(kl_check_array(x, "x", err));
    KL_TRY(kl_check_array(y, "y", err));
    KL_TRY(kl_check_stream(s, err));
    enum kl_dtype dtype = kl_dtype_promote(x->t.dtype, y->t.dtype);
    const enum kl_dtype dtypes[3] = {KL_BOOL, dtype, dtype};
    KL_TRY(kl_meet(in, given, dtypes, 3, &shape, s, err));
    int rc = kl_map_op(out, KL_OP_WHERE, in, 3, dtype, s, err);
    if (!rc && in[1]->has_range && in[2]->has_range && kl_int_limits(dtype, &lo, &hi))
        kl_array_set_range(*out, in[1]->lo < in[2]->lo ? in[1]->lo : in[2]->lo,
                           in[1]->hi > in[2]->hi ? in[1]->hi : in[2]->hi);
    kl_release_all(in, 3);
    return rc;
}

/* ---- vjp rules ---- */

static struct kl_array *add_rule(struct kl_terms *t, int which, struct kl_array *g,
                                 struct kl_array *const *in, struct kl_array *y) {
    return g;
}

static struct kl_array *subtract_rule(struct kl_terms *t, int which, struct kl_array *g,
                                      struct kl_array *const *in, struct kl_array *y) {
    return which ? kl_term(t, kl_negative, g) : g;
}

static struct kl_array *multiply_rule(struct kl_terms *t, int which, struct kl_array *g,
                                      struct kl_array *const *in, struct kl_array *y) {
    return kl_term2(t, kl_multiply, g, kl_term(t, kl_conjugate, in[!which]));
}

/* Of y = a / b: 1 / b, and -y / b. */
static struct kl_array *divide_rule(struct kl_terms *t, int which, struct kl_array *g,
                                    struct kl_array *const *in, struct kl_array *y) {
    struct kl_array *by_b = kl_term2(t, kl_divide, g, kl_term(t, kl_conjugate, in[1]));
    if (which == 0) return by_b;
    return kl_term(t, kl_negative, kl_term2(t, kl_multiply, by_b, kl_term(t, kl_conjugate, y)));
}

/* Where the first is taken it has the gradient; of equals the second has it. Where one is NaN neither has. */
static struct kl_array *maximum_rule(struct kl_terms *t, int which, struct kl_array *g,
                                     struct kl_array *const *in, struct kl_array *y) {
    struct kl_array *taken = kl_term2(t, which ? kl_less_equal : kl_greater, in[0], in[1]);
    return t->rc ? NULL
                 : kl_term_where(t, taken, g, kl_term_number(t, 0, (enum kl_dtype)g->t.dtype));
}

static struct kl_array *minimum_rule(struct kl_terms *t, int which, struct kl_array *g,
                                     struct kl_array *const *in, struct kl_array *y) {
    struct kl_array *taken = kl_term2(t, which ? kl_greater_equal : kl_less, in[0], in[1]);
    return t->rc ? NULL
                 : kl_term_where(t, taken, g, kl_term_number(t, 0, (enum kl_dtype)g->t.dtype));
}

int kl_vjp_add(const struct kl_vjp *v, struct kl_array **grad, struct kl_error **err) {
    return kl_vjp_by_binary_rule(v, grad, err, add_rule);
}
int kl_vjp_subtract(const struct kl_vjp *v, struct kl_array **grad, struct kl_error **err) {
    return kl_vjp_by_binary_rule(v, grad, err, subtract_rule);
}
int kl_vjp_multiply(const struct kl_vjp *v, struct kl_array **grad, struct kl_error **err) {
    return kl_vjp_by_binary_rule(v, grad, err, multiply_rule);
}
int kl_vjp_divide(const struct kl_vjp *v, struct kl_array **grad, struct kl_error **err) {
    return kl_vjp_by_binary_rule(v, grad, err, divide_rule);
}
int kl_vjp_maximum(const struct kl_vjp *v, struct kl_array **grad, struct kl_error **err) {
    return kl_vjp_by_binary_rule(v, grad, err, maximum_rule);
}
int kl_vjp_minimum(const struct kl_vjp *v, struct kl_array **grad, struct kl_error **err) {
    return kl_vjp_by_binary_rule(v, grad, err, minimum_rule);
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
