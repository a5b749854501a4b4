/* elementwise_rounding.c - rounding, signs, integer division and the parts of complex numbers. */
#include <math.h>
#include <stdlib.h>

#include "ops/build/build.h"
#include "ops/build/meet.h"
#include "ops/build/terms.h"
#include "ops/ops.h"

/* Integers and bools are whole numbers already. */
static int round_whole(struct kl_array **out, struct kl_array *a, struct kl_stream *s,
                       struct kl_error **err) {
    enum kl_dtype dtype = (enum kl_dtype)a->t.dtype;
    KL_TRY(kl_check_stream(s, err));
    if (kl_dtype_is_inexact(dtype)) return kl_map_unary(out, KL_OP_ROUND, a, dtype, dtype, s, err);
    *out = kl_array_retain(a);
    return KL_OK;
}

/* Rounds integers to tens, hundreds, ... : with a = q p + r, up when r is more than half of p, or
 * half of p and q is odd. */
static int round_int(struct kl_array **out, struct kl_array *a, int zeros, struct kl_stream *s,
                     struct kl_error **err) {
    enum kl_dtype dtype = (enum kl_dtype)a->t.dtype;
    int64_t lo, hi, p = 1;
    if (!kl_int_limits(dtype, &lo, &hi)) return kl_zeros_like(out, a, s, err);
    for (; zeros > 0; zeros--) {
        if (p > hi / 10) return kl_zeros_like(out, a, s, err);
        p *= 10;
    }
    struct kl_terms t = kl_terms_begin(s, err);
    /* made as an array, because kl_array_new_scalar takes a double, which is not exact for 64
     * bits */
    struct kl_array *unit = NULL;
    union {
        int64_t i;
        uint8_t low[8];
    } word = {.i = p};
    if (kl_array_new_data(&unit, &word, KL_I64, 0, NULL, err)) return KL_ENOMEM;
    struct kl_array *by = kl_term_cast(&t, unit, dtype);
    kl_array_release(unit);
    struct kl_array *q = kl_term2(&t, kl_floor_divide, a, by);
    struct kl_array *r = kl_term2(&t, kl_remainder, a, by);
    struct kl_array *rest = kl_term2(&t, kl_subtract, by, r);
    struct kl_array *odd = kl_term_by(&t, kl_bitwise_and, q, 1);
    struct kl_array *half = kl_term2(&t, kl_logical_and, kl_term2(&t, kl_equal, r, rest), odd);
    struct kl_array *up = kl_term2(&t, kl_logical_or, kl_term2(&t, kl_greater, r, rest), half);
    struct kl_array *n = kl_term2(&t, kl_add, q, up);
    return kl_terms_end(&t, kl_term2(&t, kl_multiply, n, by), out);
}

/* 16-bit floats are computed in float32. A number that overflows when scaled has no digits to
 * round. */
static int round_float(struct kl_array **out, struct kl_array *a, int decimals, struct kl_stream *s,
                       struct kl_error **err) {
    enum kl_dtype dtype = (enum kl_dtype)a->t.dtype;
    enum kl_dtype real = dtype == KL_F64 ? KL_F64 : KL_F32, in = dtype == KL_C64 ? KL_C64 : real;
    const int most = real == KL_F64 ? 308 : 38; /* the largest power of ten that the type holds */
    struct kl_terms t = kl_terms_begin(s, err);
    struct kl_array *x = kl_term_cast(&t, a, in), *y;
    if (decimals > most) {
        y = x;
    } else if (decimals < -most) {
        struct kl_array *none = kl_term_by(&t, kl_multiply, x, 0);
        y = kl_term_where(&t, kl_term(&t, kl_isfinite, x), none, x);
    } else {
        struct kl_array *p = kl_term_number(&t, pow(10, abs(decimals)), real);
        struct kl_array *up = kl_term2(&t, decimals > 0 ? kl_multiply : kl_divide, x, p);
        struct kl_array *rounded = kl_term(&t, round_whole, up);
        y = kl_term2(&t, decimals > 0 ? kl_divide : kl_multiply, rounded, p);
        y = kl_term_where(&t, kl_term(&t, kl_isfinite, up), y, x);
    }
    return kl_terms_end(&t, kl_term_cast(&t, y, dtype), out);
}

int kl_round(struct kl_array **out, struct kl_array *a, int decimals, struct kl_stream *s,
             struct kl_error **err) {
    KL_TRY(kl_check_array(a, "a", err));
    KL_TRY(kl_check_stream(s, err));
    bool inexact = kl_dtype_is_inexact((enum kl_dtype)a->t.dtype);
    if (decimals == 0 || (!inexact && decimals > 0)) return round_whole(out, a, s, err);
    if (decimals < -400) decimals = -400; /* more zeros than any number has digits */
    return inexact ? round_float(out, a, decimals, s, err) : round_int(out, a, -decimals, s, err);
}

/* ---- division ---- */

static int division(struct kl_array **out, enum kl_op_id op, struct kl_array *a, struct kl_array *b,
                    struct kl_stream *s, struct kl_error **err) {
    enum kl_dtype dtype;
    KL_TRY(kl_check_binary(op, a, b, &dtype, err));
    if (dtype != KL_BOOL) return kl_build_binary(out, op, a, b, s, err);
    /* true // true is true; every other quotient, and every remainder, is false */
    if (op == KL_OP_FLOOR_DIVIDE) return kl_logical_and(out, a, b, s, err);
    struct kl_terms t = kl_terms_begin(s, err);
    struct kl_array *no = kl_term_number(&t, 0, KL_BOOL);
    return kl_terms_end(&t, kl_term2(&t, kl_logical_and, kl_term2(&t, kl_logical_and, a, b), no),
                        out);
}

int kl_floor_divide(struct kl_array **out, struct kl_array *a, struct kl_array *b,
                    struct kl_stream *s, struct kl_error **err) {
    return division(out, KL_OP_FLOOR_DIVIDE, a, b, s, err);
}

int kl_remainder(struct kl_array **out, struct kl_array *a, struct kl_array *b, struct kl_stream *s,
                 struct kl_error **err) {
    int64_t by, lo, hi;
    KL_TRY(division(out, KL_OP_REMAINDER, a, b, s, err));
    /* The remainder of a division by a positive number is below that number and not below 0. */
    if (kl_int_limits((enum kl_dtype)(*out)->t.dtype, &lo, &hi) && kl_host_integer(b, &by) &&
        by > 0 && by <= hi)
        kl_array_set_range(*out, 0, by - 1);
    return KL_OK;
}

int kl_divmod(struct kl_array **out_0, struct kl_array **out_1, struct kl_array *a,
              struct kl_array *b, struct kl_stream *s, struct kl_error **err) {
    struct kl_array *quotient, *rest;
    KL_TRY(kl_floor_divide(&quotient, a, b, s, err));
    int rc = kl_remainder(&rest, a, b, s, err);
    if (rc) {
        kl_array_release(quotient);
        return rc;
    }
    *out_0 = quotient;
    *out_1 = rest;
    return KL_OK;
}

/* ---- parts of complex numbers ---- */

int kl_imag(struct kl_array **out, struct kl_array *a, struct kl_stream *s, struct kl_error **err) {
    KL_TRY(kl_check_array(a, "a", err));
    if (a->t.dtype == KL_C64) return kl_build_unary(out, KL_OP_IMAG, a, s, err);
    return kl_zeros_like(out, a, s, err);
}

/* ---- gradients ----
 * floor, ceil, round, floor_divide and the sign of real numbers are constant almost everywhere. */

/* y = x / |x| changes only with the direction of x. So the component of g along y is dropped, and
 * the rest is divided by |x|. At 0 the gradient is 0. */
struct kl_array *kl_sign_rule(struct kl_terms *t, struct kl_array *g, struct kl_array *x,
                              struct kl_array *y) {
    if (t->rc || x->t.dtype != KL_C64) return NULL;
    struct kl_array *zero = kl_term_number(t, 0, KL_F32), *size = kl_term(t, kl_abs, x);
    struct kl_array *along =
        kl_term(t, kl_real, kl_term2(t, kl_multiply, g, kl_term(t, kl_conjugate, y)));
    struct kl_array *across = kl_term2(t, kl_subtract, g, kl_term2(t, kl_multiply, y, along));
    return kl_term_where(t, kl_term2(t, kl_equal, size, zero), zero,
                         kl_term2(t, kl_divide, across, size));
}

/* The derivatives of a - b floor(a / b). */
struct kl_array *kl_remainder_rule(struct kl_terms *t, int which, struct kl_array *g,
                                   struct kl_array *const *in, struct kl_array *y) {
    if (which == 0) return g;
    struct kl_array *q = kl_term2(t, kl_floor_divide, in[0], in[1]);
    return kl_term(t, kl_negative, kl_term2(t, kl_multiply, g, q));
}

struct kl_array *kl_conjugate_rule(struct kl_terms *t, struct kl_array *g, struct kl_array *x,
                                   struct kl_array *y) {
    return kl_term(t, kl_conjugate, g);
}

struct kl_array *kl_real_rule(struct kl_terms *t, struct kl_array *g, struct kl_array *x,
                              struct kl_array *y) {
    return kl_term_cast(t, g, KL_C64);
}

struct kl_array *kl_imag_rule(struct kl_terms *t, struct kl_array *g, struct kl_array *x,
                              struct kl_array *y) {
    static const float unit[2] = {0, 1};
    struct kl_array *i = NULL;
    if (t->rc) return NULL;
    if ((t->rc = kl_array_new_data(&i, unit, KL_C64, 0, NULL, t->err))) return NULL;
    struct kl_array *r = kl_term2(t, kl_multiply, g, i);
    kl_array_release(i);
    return r;
}

/* ---- made again ---- */

int kl_rebuild_round(const struct kl_build *b, struct kl_array **out, struct kl_error **err) {
    KL_TRY(kl_build_no_params(b, err));
    return kl_round(out, b->in[0], 0, b->s, err);
}
