/* unary.c - element-wise operations of one operand: dtype rules. */
#include "ops/meet.h"
#include "ops/ops.h"

/* On a as dtype, with a result of `result`. */
static int unary(struct kl_array **out, enum kl_op_id op, struct kl_array *a, enum kl_dtype dtype,
                 enum kl_dtype result, struct kl_stream *s, struct kl_error **err) {
    struct kl_array *typed;
    KL_TRY(kl_check_stream(s, err));
    KL_TRY(kl_cast_to(&typed, a, dtype, s, err));
    int rc = kl_map_op(out, op, &typed, 1, result, s, err);
    kl_array_release(typed);
    return rc;
}

/* The type itself for floats and complex, float32 for integers and bool. */
static enum kl_dtype inexact(enum kl_dtype dtype) {
    return kl_dtype_is_float(dtype) || dtype == KL_C64 ? dtype : KL_F32;
}

static int unary_inexact(struct kl_array **out, enum kl_op_id op, struct kl_array *a,
                         struct kl_stream *s, struct kl_error **err) {
    KL_TRY(kl_check_array(a, "a", err));
    return unary(out, op, a, inexact(a->t.dtype), inexact(a->t.dtype), s, err);
}

int kl_negative(struct kl_array **out, struct kl_array *a, struct kl_stream *s,
                struct kl_error **err) {
    KL_TRY(kl_check_array(a, "a", err));
    if (a->t.dtype == KL_BOOL)
        return kl_fail(err, KL_EDTYPE,
                       "bool has no negative; numbers are taken (logical_not inverts)");
    return unary(out, KL_OP_NEGATIVE, a, a->t.dtype, a->t.dtype, s, err);
}

int kl_abs(struct kl_array **out, struct kl_array *a, struct kl_stream *s, struct kl_error **err) {
    KL_TRY(kl_check_array(a, "a", err));
    return unary(out, KL_OP_ABS, a, a->t.dtype, a->t.dtype == KL_C64 ? KL_F32 : a->t.dtype, s, err);
}

int kl_square(struct kl_array **out, struct kl_array *a, struct kl_stream *s,
              struct kl_error **err) {
    KL_TRY(kl_check_array(a, "a", err));
    return unary(out, KL_OP_SQUARE, a, a->t.dtype, a->t.dtype, s, err);
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
    return unary(out, KL_OP_LOGICAL_NOT, a, KL_BOOL, KL_BOOL, s, err);
}
