/* binary.c - element-wise operations of several operands: promotion, broadcasting, what is known of
 * the values. */
#include "ops/meet.h"
#include "ops/ops.h"

/* a and b as dtype, the result as `result`. */
static int binary_as(struct kl_array **out, enum kl_op_id op, struct kl_array *a,
                     struct kl_array *b, enum kl_dtype dtype, enum kl_dtype result,
                     struct kl_stream *s, struct kl_error **err) {
    struct kl_array *const given[2] = {a, b};
    struct kl_array *in[2];
    const enum kl_dtype dtypes[2] = {dtype, dtype};
    struct kl_shape shape;
    KL_TRY(kl_check_stream(s, err));
    /* Nothing to bring together: the usual case. */
    if (a->t.dtype == dtype && b->t.dtype == dtype && kl_shape_is(a, b->t.ndim, b->t.dims))
        return kl_map_op(out, op, given, 2, result, s, err);
    KL_TRY(kl_meet(in, given, dtypes, 2, &shape, s, err));
    int rc = kl_map_op(out, op, in, 2, result, s, err);
    kl_release_all(in, 2);
    return rc;
}

static int check_two(struct kl_array *a, struct kl_array *b, struct kl_error **err) {
    KL_TRY(kl_check_array(a, "a", err));
    return kl_check_array(b, "b", err);
}

/* In the type in which the operands meet. */
static int arithmetic(struct kl_array **out, enum kl_op_id op, struct kl_array *a,
                      struct kl_array *b, struct kl_stream *s, struct kl_error **err) {
    KL_TRY(check_two(a, b, err));
    enum kl_dtype dtype = kl_dtype_promote(a->t.dtype, b->t.dtype);
    return binary_as(out, op, a, b, dtype, dtype, s, err);
}

static int comparison(struct kl_array **out, enum kl_op_id op, struct kl_array *a,
                      struct kl_array *b, struct kl_stream *s, struct kl_error **err) {
    KL_TRY(check_two(a, b, err));
    return binary_as(out, op, a, b, kl_dtype_promote(a->t.dtype, b->t.dtype), KL_BOOL, s, err);
}

static int logical(struct kl_array **out, enum kl_op_id op, struct kl_array *a, struct kl_array *b,
                   struct kl_stream *s, struct kl_error **err) {
    KL_TRY(check_two(a, b, err));
    return binary_as(out, op, a, b, KL_BOOL, KL_BOOL, s, err);
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
    if (!kl_dtype_is_float(dtype) && dtype != KL_C64) dtype = KL_F32;
    return binary_as(out, KL_OP_DIVIDE, a, b, dtype, dtype, s, err);
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
