/* transcendental.c - the elementary functions beyond exp, log and sqrt (unary.c), with their derivatives. */
#include "ops/meet.h"
#include "ops/ops.h"
#include "ops/terms.h"

static int inexact(struct kl_array **out, enum kl_op_id op, struct kl_array *a, struct kl_stream *s,
                   struct kl_error **err) {
    KL_TRY(kl_check_array(a, "a", err));
    enum kl_dtype dtype = kl_dtype_inexact((enum kl_dtype)a->t.dtype);
    return kl_map_unary(out, op, a, dtype, dtype, s, err);
}

/* Not for complex64. */
static int real(struct kl_array **out, enum kl_op_id op, struct kl_array *a, struct kl_stream *s,
                struct kl_error **err) {
    KL_TRY(kl_check_array(a, "a", err));
    if (a->t.dtype == KL_C64)
        return kl_fail(err, KL_EDTYPE, "complex64 is not taken; real numbers are");
    return inexact(out, op, a, s, err);
}

#define INEXACT(name, ID)                                                         \
    int kl_##name(struct kl_array **out, struct kl_array *a, struct kl_stream *s, \
                  struct kl_error **err) {                                        \
        return inexact(out, KL_OP_##ID, a, s, err);                               \
    }
#define REAL(name, ID)                                                            \
    int kl_##name(struct kl_array **out, struct kl_array *a, struct kl_stream *s, \
                  struct kl_error **err) {                                        \
        return real(out, KL_OP_##ID, a, s, err);                                  \
    }
REAL(expm1, EXPM1)
INEXACT(log1p, LOG1P)
INEXACT(log2, LOG2)
INEXACT(log10, LOG10)
INEXACT(sin, SIN)
INEXACT(cos, COS)
INEXACT(tan, TAN)
INEXACT(arcsin, ARCSIN)
INEXACT(arccos, ARCCOS)
INEXACT(arctan, ARCTAN)
INEXACT(sinh, SINH)
INEXACT(cosh, COSH)
INEXACT(tanh, TANH)
INEXACT(arcsinh, ARCSINH)
INEXACT(arccosh, ARCCOSH)
INEXACT(arctanh, ARCTANH)
INEXACT(rsqrt, RSQRT)
REAL(erf, ERF)
REAL(sigmoid, SIGMOID)

int kl_reciprocal(struct kl_array **out, struct kl_array *a, struct kl_stream *s,
                  struct kl_error **err) {
    KL_TRY(kl_check_array(a, "a", err));
    struct kl_terms t = kl_terms_begin(s, err);
    struct kl_array *one = kl_term_number(&t, 1, (enum kl_dtype)a->t.dtype);
    return kl_terms_end(&t, kl_term2(&t, kl_divide, one, a), out);
}

/* a * factor; 16-bit floats in float32, whose factor is exact enough. */
static int scaled(struct kl_array **out, struct kl_array *a, double factor, struct kl_stream *s,
                  struct kl_error **err) {
    KL_TRY(kl_check_array(a, "a", err));
    struct kl_terms t = kl_terms_begin(s, err);
    enum kl_dtype dtype = kl_dtype_inexact((enum kl_dtype)a->t.dtype);
    bool small = dtype == KL_F16 || dtype == KL_BF16;
    struct kl_array *x = kl_term_cast(&t, a, small ? KL_F32 : dtype);
    struct kl_array *y =
        kl_term2(&t, kl_multiply, x, kl_term_number(&t, factor, dtype == KL_F64 ? KL_F64 : KL_F32));
    return kl_terms_end(&t, kl_term_cast(&t, y, dtype), out);
}

int kl_degrees(struct kl_array **out, struct kl_array *a, struct kl_stream *s,
               struct kl_error **err) {
    return scaled(out, a, 57.295779513082320877, s, err);
}

int kl_radians(struct kl_array **out, struct kl_array *a, struct kl_stream *s,
               struct kl_error **err) {
    return scaled(out, a, 0.017453292519943295769, s, err);
}

static int check_two(struct kl_array *a, struct kl_array *b, struct kl_error **err) {
    KL_TRY(kl_check_array(a, "a", err));
    return kl_check_array(b, "b", err);
}

int kl_arctan2(struct kl_array **out, struct kl_array *a, struct kl_array *b, struct kl_stream *s,
               struct kl_error **err) {
    KL_TRY(check_two(a, b, err));
    enum kl_dtype dtype = kl_dtype_inexact(kl_dtype_promote(a->t.dtype, b->t.dtype));
    if (dtype == KL_C64) return kl_fail(err, KL_EDTYPE, "complex64 is not taken; real numbers are");
    return kl_map_binary(out, KL_OP_ARCTAN2, a, b, dtype, dtype, s, err);
}

int kl_logaddexp(struct kl_array **out, struct kl_array *a, struct kl_array *b, struct kl_stream *s,
                 struct kl_error **err) {
    KL_TRY(check_two(a, b, err));
    enum kl_dtype dtype = kl_dtype_inexact(kl_dtype_promote(a->t.dtype, b->t.dtype));
    return kl_map_binary(out, KL_OP_LOGADDEXP, a, b, dtype, dtype, s, err);
}

int kl_power(struct kl_array **out, struct kl_array *a, struct kl_array *b, struct kl_stream *s,
             struct kl_error **err) {
    KL_TRY(check_two(a, b, err));
    enum kl_dtype dtype = kl_dtype_promote(a->t.dtype, b->t.dtype);
    if (dtype != KL_BOOL) return kl_map_binary(out, KL_OP_POWER, a, b, dtype, dtype, s, err);
    struct kl_terms t = kl_terms_begin(s, err);
    struct kl_array *zeroth = kl_term(&t, kl_logical_not, b);
    return kl_terms_end(&t, kl_term2(&t, kl_logical_or, a, zeroth), out);
}

/* ---- vjp rules: g times the conjugate of the derivative ---- */

#define RULE(name)                                                                             \
    static struct kl_array *name##_rule(struct kl_terms *t, struct kl_array *g,                \
                                        struct kl_array *x, struct kl_array *y);               \
    int kl_vjp_##name(const struct kl_vjp *v, struct kl_array **grad, struct kl_error **err) { \
        return kl_vjp_by_unary_rule(v, grad, err, name##_rule);                                \
    }                                                                                          \
    static struct kl_array *name##_rule(struct kl_terms *t, struct kl_array *g,                \
                                        struct kl_array *x, struct kl_array *y)

static struct kl_array *times(struct kl_terms *t, struct kl_array *g, struct kl_array *slope) {
    return kl_term2(t, kl_multiply, g, kl_term(t, kl_conjugate, slope));
}

static struct kl_array *over(struct kl_terms *t, struct kl_array *g, struct kl_array *x) {
    return kl_term2(t, kl_divide, g, kl_term(t, kl_conjugate, x));
}

/* c + x, c - x */
static struct kl_array *plus(struct kl_terms *t, double c, struct kl_array *x) {
    return kl_term_by(t, kl_add, x, c);
}
static struct kl_array *minus(struct kl_terms *t, double c, struct kl_array *x) {
    return t->rc ? NULL
                 : kl_term2(t, kl_subtract, kl_term_number(t, c, (enum kl_dtype)x->t.dtype), x);
}

RULE(expm1) {
    return times(t, g, kl_term(t, kl_exp, x));
}
RULE(log1p) {
    return over(t, g, plus(t, 1, x));
}
RULE(log2) {
    return over(t, g, kl_term_by(t, kl_multiply, x, 0.69314718055994530942));
}
RULE(log10) {
    return over(t, g, kl_term_by(t, kl_multiply, x, 2.3025850929940456840));
}
RULE(sin) {
    return times(t, g, kl_term(t, kl_cos, x));
}
RULE(cos) {
    return times(t, g, kl_term(t, kl_negative, kl_term(t, kl_sin, x)));
}
RULE(tan) {
    return times(t, g, plus(t, 1, kl_term(t, kl_square, y)));
}
/* Two roots, so that the cuts are those of the function. */
static struct kl_array *arcsin_slope(struct kl_terms *t, struct kl_array *x) {
    return kl_term2(t, kl_multiply, kl_term(t, kl_rsqrt, minus(t, 1, x)),
                    kl_term(t, kl_rsqrt, plus(t, 1, x)));
}
RULE(arcsin) {
    return times(t, g, arcsin_slope(t, x));
}
RULE(arccos) {
    return times(t, g, kl_term(t, kl_negative, arcsin_slope(t, x)));
}
RULE(arctan) {
    return over(t, g, plus(t, 1, kl_term(t, kl_square, x)));
}
RULE(sinh) {
    return times(t, g, kl_term(t, kl_cosh, x));
}
RULE(cosh) {
    return times(t, g, kl_term(t, kl_sinh, x));
}
RULE(tanh) {
    return times(t, g, minus(t, 1, kl_term(t, kl_square, y)));
}
RULE(arcsinh) {
    return times(t, g, kl_term(t, kl_rsqrt, plus(t, 1, kl_term(t, kl_square, x))));
}
RULE(arccosh) {
    return times(t, g,
                 kl_term2(t, kl_multiply, kl_term(t, kl_rsqrt, plus(t, -1, x)),
                          kl_term(t, kl_rsqrt, plus(t, 1, x))));
}
RULE(arctanh) {
    return over(t, g, kl_term2(t, kl_multiply, minus(t, 1, x), plus(t, 1, x)));
}
/* 2 / sqrt(pi) exp(-x^2) */
RULE(erf) {
    struct kl_array *e = kl_term(t, kl_exp, kl_term(t, kl_negative, kl_term(t, kl_square, x)));
    return times(t, g, kl_term_by(t, kl_multiply, e, 1.1283791670955125739));
}
/* -y / (2 x) */
RULE(rsqrt) {
    return times(t, g, kl_term2(t, kl_divide, kl_term_by(t, kl_multiply, y, -0.5), x));
}
RULE(sigmoid) {
    return times(t, g, kl_term2(t, kl_multiply, y, minus(t, 1, y)));
}

#define RULE2(name)                                                                            \
    static struct kl_array *name##_rule(struct kl_terms *t, int which, struct kl_array *g,     \
                                        struct kl_array *const *in, struct kl_array *y);       \
    int kl_vjp_##name(const struct kl_vjp *v, struct kl_array **grad, struct kl_error **err) { \
        return kl_vjp_by_binary_rule(v, grad, err, name##_rule);                               \
    }                                                                                          \
    static struct kl_array *name##_rule(struct kl_terms *t, int which, struct kl_array *g,     \
                                        struct kl_array *const *in, struct kl_array *y)

/* b / (a^2 + b^2), -a / (a^2 + b^2) */
RULE2(arctan2) {
    struct kl_array *size =
        kl_term2(t, kl_add, kl_term(t, kl_square, in[0]), kl_term(t, kl_square, in[1]));
    struct kl_array *part = which ? kl_term(t, kl_negative, in[0]) : in[1];
    return times(t, g, kl_term2(t, kl_divide, part, size));
}

/* b a^(b - 1), 0 where b is 0; y log a, 0 where y is 0. */
RULE2(power) {
    if (t->rc) return NULL;
    struct kl_array *zero = kl_term_number(t, 0, (enum kl_dtype)g->t.dtype), *slope;
    slope = which
                ? kl_term2(t, kl_multiply, y, kl_term(t, kl_log, in[0]))
                : kl_term2(t, kl_multiply, in[1], kl_term2(t, kl_power, in[0], plus(t, -1, in[1])));
    struct kl_array *none = kl_term2(t, kl_equal, which ? y : in[1], zero);
    return kl_term_where(t, none, zero, times(t, g, slope));
}

/* The share of a in exp(a) + exp(b): 1 / (1 + exp(b - a)); one half of equals, infinities among them. */
RULE2(logaddexp) {
    if (t->rc) return NULL;
    struct kl_array *a = in[which], *b = in[!which];
    if (g->t.dtype == KL_C64)
        return times(t, g, kl_term(t, kl_exp, kl_term2(t, kl_subtract, a, y)));
    struct kl_array *zero = kl_term_number(t, 0, (enum kl_dtype)g->t.dtype);
    struct kl_array *d =
        kl_term_where(t, kl_term2(t, kl_equal, a, b), zero, kl_term2(t, kl_subtract, a, b));
    return times(t, g, kl_term(t, kl_sigmoid, d));
}
