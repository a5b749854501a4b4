/* elementwise_bits.c - operations on the bits of integers, and conversions of 8-bit floats, which
 * are stored as uint8. */
#include "ops/build/build.h"
#include "ops/build/meet.h"
#include "ops/build/terms.h"
#include "ops/ops.h"

/* of_bools builds the operation for bool operands. */
static int bits(struct kl_array **out, enum kl_op_id op, kl_binary_fn *of_bools, struct kl_array *a,
                struct kl_array *b, struct kl_stream *s, struct kl_error **err) {
    enum kl_dtype dtype;
    KL_TRY(kl_check_binary(op, a, b, &dtype, err));
    if (dtype == KL_BOOL) return of_bools(out, a, b, s, err);
    return kl_build_binary(out, op, a, b, s, err);
}

int kl_bitwise_and(struct kl_array **out, struct kl_array *a, struct kl_array *b,
                   struct kl_stream *s, struct kl_error **err) {
    return bits(out, KL_OP_BITWISE_AND, kl_logical_and, a, b, s, err);
}

int kl_bitwise_or(struct kl_array **out, struct kl_array *a, struct kl_array *b,
                  struct kl_stream *s, struct kl_error **err) {
    return bits(out, KL_OP_BITWISE_OR, kl_logical_or, a, b, s, err);
}

int kl_bitwise_xor(struct kl_array **out, struct kl_array *a, struct kl_array *b,
                   struct kl_stream *s, struct kl_error **err) {
    /* for bools: true where they differ */
    return bits(out, KL_OP_BITWISE_XOR, kl_subtract, a, b, s, err);
}

int kl_bitwise_invert(struct kl_array **out, struct kl_array *a, struct kl_stream *s,
                      struct kl_error **err) {
    KL_TRY(kl_check_array(a, "a", err));
    if (a->t.dtype == KL_BOOL) return kl_logical_not(out, a, s, err);
    return kl_build_unary(out, KL_OP_BITWISE_INVERT, a, s, err);
}

/* bools are converted to uint8 */
static int shift(struct kl_array **out, enum kl_op_id op, struct kl_array *a, struct kl_array *b,
                 struct kl_stream *s, struct kl_error **err) {
    enum kl_dtype dtype;
    KL_TRY(kl_check_binary(op, a, b, &dtype, err));
    if (dtype == KL_BOOL) return kl_map_binary(out, op, a, b, KL_U8, KL_U8, s, err);
    return kl_build_binary(out, op, a, b, s, err);
}

int kl_left_shift(struct kl_array **out, struct kl_array *a, struct kl_array *b,
                  struct kl_stream *s, struct kl_error **err) {
    return shift(out, KL_OP_LEFT_SHIFT, a, b, s, err);
}

int kl_right_shift(struct kl_array **out, struct kl_array *a, struct kl_array *b,
                   struct kl_stream *s, struct kl_error **err) {
    return shift(out, KL_OP_RIGHT_SHIFT, a, b, s, err);
}

/* ---- e4m3 ---- */

int kl_from_fp8(struct kl_array **out, struct kl_array *x, int dtype, struct kl_stream *s,
                struct kl_error **err) {
    struct kl_array *y;
    KL_TRY(kl_check_array(x, "x", err));
    KL_TRY(kl_check_dtype(dtype, err));
    if (x->t.dtype != KL_U8)
        return kl_fail(err, KL_EDTYPE, "the type is %s; uint8 is taken",
                       kl_dtype_name((enum kl_dtype)x->t.dtype));
    if (!kl_dtype_is_float((enum kl_dtype)dtype))
        return kl_fail(err, KL_EDTYPE, "the result would be %s; it can be a float",
                       kl_dtype_name((enum kl_dtype)dtype));
    KL_TRY(kl_map_unary(&y, KL_OP_FROM_FP8, x, KL_U8, KL_F32, s, err));
    /* exact, because every float type holds all e4m3 numbers */
    int rc = kl_cast_to(out, y, (enum kl_dtype)dtype, s, err);
    kl_array_release(y);
    return rc;
}

/* ---- made again ---- */

int kl_rebuild_from_fp8(const struct kl_build *b, struct kl_array **out, struct kl_error **err) {
    KL_TRY(kl_build_no_params(b, err));
    return kl_from_fp8(out, b->in[0], KL_F32, b->s, err);
}
