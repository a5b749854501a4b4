/* elementwise_transcendental.c - the elementary functions except exp, log and sqrt
 * (elementwise_unary.c), with their derivatives. */
#include "ops/build/build.h"
#include "ops/build/jvp.h"
#include "ops/build/meet.h"
#include "ops/build/terms.h"
#include "ops/ops.h"

int kl_reciprocal(struct kl_array **out, struct kl_array *a, struct kl_stream *s,
                  struct kl_error **err) {
    KL_TRY(kl_check_array(a, "a", err));
    struct kl_terms t = kl_terms_begin(s, err);
    struct kl_array *one = kl_term_number(&t, 1, (enum kl_dtype)a->t.dtype);
    return kl_terms_end(&t, kl_term2(&t, kl_divide, one, a), out);
}

/* a * factor. 16-bit floats are multiplied in float32, in which the factor is exact enough. */
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

int kl_power(struct kl_array **out, struct kl_array *a, struct kl_array *b, struct kl_stream *s,
             struct kl_error **err) {
    enum kl_dtype dtype;
    KL_TRY(kl_check_binary(KL_OP_POWER, a, b, &dtype, err));
    if (dtype != KL_BOOL) return kl_build_binary(out, KL_OP_POWER, a, b, s, err);
    struct kl_terms t = kl_terms_begin(s, err);
    struct kl_array *zeroth = kl_term(&t, kl_logical_not, b);
    return kl_terms_end(&t, kl_term2(&t, kl_logical_or, a, zeroth), out);
}

int kl_silu_mul(struct kl_array **out, struct kl_array *a, struct kl_array *b, struct kl_stream *s,
                struct kl_error **err) {
    KL_TRY(kl_check_array(a, "a", err));
    KL_TRY(kl_check_array(b, "b", err));
    if (a->t.dtype == KL_C64 || b->t.dtype == KL_C64)
        return kl_fail(err, KL_EDTYPE, "%s is complex64; real numbers are taken",
                       a->t.dtype == KL_C64 ? "a" : "b");
    enum kl_dtype dtype =
        kl_dtype_inexact(kl_dtype_promote((enum kl_dtype)a->t.dtype, (enum kl_dtype)b->t.dtype));
    return kl_map_binary(out, KL_OP_SILU_MUL, a, b, dtype, dtype, s, err);
}

int kl_rebuild_silu_mul(const struct kl_build *b, struct kl_array **out, struct kl_error **err) {
    KL_TRY(kl_build_no_params(b, err));
    return kl_silu_mul(out, b->in[0], b->in[1], b->s, err);
}

/* ---- gradients: g times the conjugate of the derivative ---- */

static struct kl_array *times(struct kl_terms *t, struct kl_array *g, struct kl_array *slope) {
    return kl_term2(t, kl_multiply, g, kl_term(t, kl_conjugate, slope));
}

static struct kl_array *over(struct kl_terms *t, struct kl_array *g, struct kl_array *x) {
    return kl_term2(t, kl_divide, g, kl_term(t, kl_conjugate, x));
}

/* c + x and c - x */
static struct kl_array *plus(struct kl_terms *t, double c, struct kl_array *x) {
    return kl_term_by(t, kl_add, x, c);
}
static struct kl_array *minus(struct kl_terms *t, double c, struct kl_array *x) {
    return t->rc ? NULL
                 : kl_term2(t, kl_subtract, kl_term_number(t, c, (enum kl_dtype)x->t.dtype), x);
}

struct kl_array *kl_expm1_rule(struct kl_terms *t, struct kl_array *g, struct kl_array *x,
                               struct kl_array *y) {
    return times(t, g, kl_term(t, kl_exp, x));
}
struct kl_array *kl_log1p_rule(struct kl_terms *t, struct kl_array *g, struct kl_array *x,
                               struct kl_array *y) {
    return over(t, g, plus(t, 1, x));
}
struct kl_array *kl_log2_rule(struct kl_terms *t, struct kl_array *g, struct kl_array *x,
                              struct kl_array *y) {
    return over(t, g, kl_term_by(t, kl_multiply, x, 0.69314718055994530942));
}
struct kl_array *kl_log10_rule(struct kl_terms *t, struct kl_array *g, struct kl_array *x,
                               struct kl_array *y) {
    return over(t, g, kl_term_by(t, kl_multiply, x, 2.3025850929940456840));
}
struct kl_array *kl_sin_rule(struct kl_terms *t, struct kl_array *g, struct kl_array *x,
                             struct kl_array *y) {
    return times(t, g, kl_term(t, kl_cos, x));
}
/* (cos(pi x) - y) / x. Close to 0 the difference has few correct digits, so its series is used:
 * -pi^2 x / 3 (1 - z / 10 + z^2 / 280 - z^3 / 15120), z = (pi x)^2. */
struct kl_array *kl_sinc_rule(struct kl_terms *t, struct kl_array *g, struct kl_array *x,
                              struct kl_array *y) {
    const double pi = 3.1415926535897932385;
    struct kl_array *angle = kl_term_by(t, kl_multiply, x, pi), *z = kl_term(t, kl_square, angle);
    struct kl_array *slope =
        kl_term2(t, kl_divide, kl_term2(t, kl_subtract, kl_term(t, kl_cos, angle), y), x);
    struct kl_array *sum = plus(t, 1.0 / 280, kl_term_by(t, kl_multiply, z, -1.0 / 15120));
    sum = plus(t, -1.0 / 10, kl_term2(t, kl_multiply, z, sum));
    sum = plus(t, 1, kl_term2(t, kl_multiply, z, sum));
    sum = kl_term2(t, kl_multiply, kl_term_by(t, kl_multiply, x, -pi * pi / 3), sum);
    struct kl_array *near = kl_term_by(t, kl_less, z, 1.0 / 16);
    return times(t, g, kl_term_where(t, near, sum, slope));
}
struct kl_array *kl_cos_rule(struct kl_terms *t, struct kl_array *g, struct kl_array *x,
                             struct kl_array *y) {
    return times(t, g, kl_term(t, kl_negative, kl_term(t, kl_sin, x)));
}
struct kl_array *kl_tan_rule(struct kl_terms *t, struct kl_array *g, struct kl_array *x,
                             struct kl_array *y) {
    return times(t, g, plus(t, 1, kl_term(t, kl_square, y)));
}
/* The product of two square roots, so that the branch cuts are those of the function. */
static struct kl_array *arcsin_slope(struct kl_terms *t, struct kl_array *x) {
    return kl_term2(t, kl_multiply, kl_term(t, kl_rsqrt, minus(t, 1, x)),
                    kl_term(t, kl_rsqrt, plus(t, 1, x)));
}
struct kl_array *kl_arcsin_rule(struct kl_terms *t, struct kl_array *g, struct kl_array *x,
                                struct kl_array *y) {
    return times(t, g, arcsin_slope(t, x));
}
struct kl_array *kl_arccos_rule(struct kl_terms *t, struct kl_array *g, struct kl_array *x,
                                struct kl_array *y) {
    return times(t, g, kl_term(t, kl_negative, arcsin_slope(t, x)));
}
struct kl_array *kl_arctan_rule(struct kl_terms *t, struct kl_array *g, struct kl_array *x,
                                struct kl_array *y) {
    return over(t, g, plus(t, 1, kl_term(t, kl_square, x)));
}
struct kl_array *kl_sinh_rule(struct kl_terms *t, struct kl_array *g, struct kl_array *x,
                              struct kl_array *y) {
    return times(t, g, kl_term(t, kl_cosh, x));
}
struct kl_array *kl_cosh_rule(struct kl_terms *t, struct kl_array *g, struct kl_array *x,
                              struct kl_array *y) {
    return times(t, g, kl_term(t, kl_sinh, x));
}
struct kl_array *kl_tanh_rule(struct kl_terms *t, struct kl_array *g, struct kl_array *x,
                              struct kl_array *y) {
    return times(t, g, minus(t, 1, kl_term(t, kl_square, y)));
}
struct kl_array *kl_arcsinh_rule(struct kl_terms *t, struct kl_array *g, struct kl_array *x,
                                 struct kl_array *y) {
    return times(t, g, kl_term(t, kl_rsqrt, plus(t, 1, kl_term(t, kl_square, x))));
}
struct kl_array *kl_arccosh_rule(struct kl_terms *t, struct kl_array *g, struct kl_array *x,
                                 struct kl_array *y) {
    return times(t, g,
                 kl_term2(t, kl_multiply, kl_term(t, kl_rsqrt, plus(t, -1, x)),
                          kl_term(t, kl_rsqrt, plus(t, 1, x))));
}
struct kl_array *kl_arctanh_rule(struct kl_terms *t, struct kl_array *g, struct kl_array *x,
                                 struct kl_array *y) {
    return over(t, g, kl_term2(t, kl_multiply, minus(t, 1, x), plus(t, 1, x)));
}
/* The derivative is 1 / (3 y^2). */
struct kl_array *kl_cbrt_rule(struct kl_terms *t, struct kl_array *g, struct kl_array *x,
                              struct kl_array *y) {
    return over(t, g, kl_term_by(t, kl_multiply, kl_term(t, kl_square, y), 3));
}
/* The derivative is 2 / sqrt(pi) exp(-x^2). */
struct kl_array *kl_erf_rule(struct kl_terms *t, struct kl_array *g, struct kl_array *x,
                             struct kl_array *y) {
    struct kl_array *e = kl_term(t, kl_exp, kl_term(t, kl_negative, kl_term(t, kl_square, x)));
    return times(t, g, kl_term_by(t, kl_multiply, e, 1.1283791670955125739));
}
/* The derivative is -y / (2 x). */
struct kl_array *kl_rsqrt_rule(struct kl_terms *t, struct kl_array *g, struct kl_array *x,
                               struct kl_array *y) {
    return times(t, g, kl_term2(t, kl_divide, kl_term_by(t, kl_multiply, y, -0.5), x));
}
struct kl_array *kl_sigmoid_rule(struct kl_terms *t, struct kl_array *g, struct kl_array *x,
                                 struct kl_array *y) {
    return times(t, g, kl_term2(t, kl_multiply, y, minus(t, 1, y)));
}

/* The derivatives are b / (a^2 + b^2) and -a / (a^2 + b^2). */
struct kl_array *kl_arctan2_rule(struct kl_terms *t, int which, struct kl_array *g,
                                 struct kl_array *const *in, struct kl_array *y) {
    struct kl_array *size =
        kl_term2(t, kl_add, kl_term(t, kl_square, in[0]), kl_term(t, kl_square, in[1]));
    struct kl_array *part = which ? kl_term(t, kl_negative, in[0]) : in[1];
    return times(t, g, kl_term2(t, kl_divide, part, size));
}

/* x / y for x; 0 where both operands are 0. */
struct kl_array *kl_hypot_rule(struct kl_terms *t, int which, struct kl_array *g,
                               struct kl_array *const *in, struct kl_array *y) {
    if (t->rc) return NULL;
    struct kl_array *one = kl_term_number(t, 1, (enum kl_dtype)y->t.dtype);
    struct kl_array *size = kl_term_where(t, kl_term_by(t, kl_equal, y, 0), one, y);
    return times(t, g, kl_term2(t, kl_divide, in[which], size));
}

/* The derivatives are b a^(b - 1), which is 0 where b is 0 and the power is no number, and
 * y log a, which is 0 where y is 0. Where b is 0 and b a^(b - 1) is a number it stays, because its
 * derivative with respect to b is not 0. */
struct kl_array *kl_power_rule(struct kl_terms *t, int which, struct kl_array *g,
                               struct kl_array *const *in, struct kl_array *y) {
    if (t->rc) return NULL;
    struct kl_array *zero = kl_term_number(t, 0, (enum kl_dtype)g->t.dtype), *slope;
    slope = which
                ? kl_term2(t, kl_multiply, y, kl_term(t, kl_log, in[0]))
                : kl_term2(t, kl_multiply, in[1], kl_term2(t, kl_power, in[0], plus(t, -1, in[1])));
    struct kl_array *none = kl_term2(t, kl_equal, which ? y : in[1], zero);
    if (!which) none = kl_term2(t, kl_logical_and, none, kl_term(t, kl_isnan, slope));
    return kl_term_where(t, none, zero, times(t, g, slope));
}

/* The share of a in exp(a) + exp(b), which is 1 / (1 + exp(b - a)). It is one half where both are
 * equal, also for infinities: only there a - b is replaced, because its derivative is not 0. */
struct kl_array *kl_logaddexp_rule(struct kl_terms *t, int which, struct kl_array *g,
                                   struct kl_array *const *in, struct kl_array *y) {
    if (t->rc) return NULL;
    struct kl_array *a = in[which], *b = in[!which];
    if (g->t.dtype == KL_C64)
        return times(t, g, kl_term(t, kl_exp, kl_term2(t, kl_subtract, a, y)));
    struct kl_array *zero = kl_term_number(t, 0, (enum kl_dtype)g->t.dtype);
    struct kl_array *d = kl_term2(t, kl_subtract, a, b);
    struct kl_array *infinite =
        kl_term2(t, kl_logical_and, kl_term(t, kl_isnan, d), kl_term2(t, kl_equal, a, b));
    return times(t, g, kl_term(t, kl_sigmoid, kl_term_where(t, infinite, zero, d)));
}

/* ---- silu_mul: y = silu(a) b, silu(a) = a s, s = sigmoid(a) ---- */

/* g b s (1 + a (1 - s)). The slope of silu is 0 or 1 in every dtype long before |a| is FLAT, so
 * there a is replaced: for an infinite a, a (1 - s) or the product with s would be NaN. */
static struct kl_array *silu_mul_by_a(struct kl_terms *t, struct kl_array *g, struct kl_array *a,
                                      struct kl_array *b) {
    enum { FLAT = 1000 };
    struct kl_array *x = kl_term_by(t, kl_minimum, kl_term_by(t, kl_maximum, a, -FLAT), FLAT);
    struct kl_array *s = kl_term(t, kl_sigmoid, x);
    struct kl_array *more = kl_term2(t, kl_multiply, x, minus(t, 1, s));
    struct kl_array *slope = kl_term2(t, kl_multiply, s, plus(t, 1, more));
    return kl_term2(t, kl_multiply, kl_term2(t, kl_multiply, g, b), slope);
}

/* The gradient of b is g silu(a), which is the operation again. */
int kl_vjp_silu_mul(const struct kl_vjp *v, struct kl_array **grad, struct kl_error **err) {
    struct kl_terms t = kl_terms_begin(v->s, err);
    struct kl_array *g = v->cotangent[0], *a = v->in[0], *b = v->in[1];
    if (v->wanted[0]) grad[0] = kl_terms_keep(&t, silu_mul_by_a(&t, g, a, b));
    if (v->wanted[1]) grad[1] = kl_terms_keep(&t, kl_term2(&t, kl_silu_mul, a, g));
    return kl_terms_end(&t, NULL, NULL);
}

int kl_jvp_silu_mul(const struct kl_jvp *j, struct kl_array **tangent, struct kl_error **err) {
    struct kl_terms t = kl_terms_begin(j->s, err);
    struct kl_array *a = j->in[0], *by_a = NULL, *by_b = NULL, *sum;
    if (j->tangent[0]) by_a = silu_mul_by_a(&t, j->tangent[0], a, j->in[1]);
    if (j->tangent[1]) by_b = kl_term2(&t, kl_silu_mul, a, j->tangent[1]);
    sum = by_a && by_b ? kl_term2(&t, kl_add, by_a, by_b) : by_a ? by_a : by_b;
    if (sum) *tangent = kl_terms_keep(&t, sum);
    return kl_terms_end(&t, NULL, NULL);
}
