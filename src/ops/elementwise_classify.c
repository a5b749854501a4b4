/* elementwise_classify.c - tests of values (finite, infinite, NaN, close, equal), and replacing
 * values by others (nan_to_num, clip). All are composed of other operations. */
#include <float.h>
#include <math.h>

#include "ops/build/deferred.h"
#include "ops/build/meet.h"
#include "ops/build/terms.h"
#include "ops/build/views.h"
#include "ops/ops.h"

/* An array of the shape of a with the same bool everywhere. */
static int answer(struct kl_array **out, bool yes, struct kl_array *a, struct kl_stream *s,
                  struct kl_error **err) {
    struct kl_array *one;
    KL_TRY(kl_array_new_scalar(&one, yes, KL_BOOL, err));
    int rc = kl_full_like(out, a, one, KL_BOOL, s, err);
    kl_array_release(one);
    return rc;
}

int kl_isnan(struct kl_array **out, struct kl_array *a, struct kl_stream *s,
             struct kl_error **err) {
    KL_TRY(kl_check_array(a, "a", err));
    return kl_dtype_is_inexact((enum kl_dtype)a->t.dtype) ? kl_not_equal(out, a, a, s, err)
                                                          : answer(out, false, a, s, err);
}

/* |a| compared with infinity; of complex numbers, whether it is so of either part. */
static int by_size(struct kl_array **out, kl_binary_fn *compare, bool otherwise, struct kl_array *a,
                   struct kl_stream *s, struct kl_error **err) {
    KL_TRY(kl_check_array(a, "a", err));
    if (!kl_dtype_is_inexact((enum kl_dtype)a->t.dtype)) return answer(out, otherwise, a, s, err);
    struct kl_terms t = kl_terms_begin(s, err);
    bool complex = a->t.dtype == KL_C64;
    struct kl_array *part = complex ? kl_term(&t, kl_real, a) : a;
    struct kl_array *r = kl_term_by(&t, compare, kl_term(&t, kl_abs, part), (double)INFINITY);
    if (complex) {
        struct kl_array *other = kl_term(&t, kl_abs, kl_term(&t, kl_imag, a));
        r = kl_term2(&t, kl_logical_or, r, kl_term_by(&t, compare, other, (double)INFINITY));
    }
    return kl_terms_end(&t, r, out);
}

int kl_isinf(struct kl_array **out, struct kl_array *a, struct kl_stream *s,
             struct kl_error **err) {
    return by_size(out, kl_equal, false, a, s, err);
}

/* Of complex numbers a - a is 0 where both parts are finite; else a part is NaN, which is not equal
 * to itself. That is two operations where comparisons of both parts are seven. */
int kl_isfinite(struct kl_array **out, struct kl_array *a, struct kl_stream *s,
                struct kl_error **err) {
    KL_TRY(kl_check_array(a, "a", err));
    if (a->t.dtype != KL_C64) return by_size(out, kl_less, true, a, s, err);
    struct kl_terms t = kl_terms_begin(s, err);
    struct kl_array *none = kl_term2(&t, kl_subtract, a, a);
    return kl_terms_end(&t, kl_term2(&t, kl_equal, none, none), out);
}

static int is_number(struct kl_array **out, double x, struct kl_array *a, struct kl_stream *s,
                     struct kl_error **err) {
    KL_TRY(kl_check_array(a, "a", err));
    if (!kl_dtype_is_inexact((enum kl_dtype)a->t.dtype)) return answer(out, false, a, s, err);
    struct kl_terms t = kl_terms_begin(s, err);
    return kl_terms_end(&t, kl_term_by(&t, kl_equal, a, x), out);
}

int kl_isposinf(struct kl_array **out, struct kl_array *a, struct kl_stream *s,
                struct kl_error **err) {
    return is_number(out, (double)INFINITY, a, s, err);
}

int kl_isneginf(struct kl_array **out, struct kl_array *a, struct kl_stream *s,
                struct kl_error **err) {
    return is_number(out, -(double)INFINITY, a, s, err);
}

/* The largest finite number of the dtype. */
static double largest(enum kl_dtype dtype) {
    return dtype == KL_F16    ? 65504
           : dtype == KL_BF16 ? 0x1.fep127
           : dtype == KL_F64  ? DBL_MAX
                              : (double)FLT_MAX;
}

/* nan_to_num of complex64: its two parts, which are neighbours in memory, are treated as real
 * numbers. */
static int complex_to_num(struct kl_array **out, struct kl_array *a, double nan,
                          const double *posinf, const double *neginf, struct kl_stream *s,
                          struct kl_error **err) {
    struct kl_terms t = kl_terms_begin(s, err);
    struct kl_array *flat = KL_TERM(&t, kl_flatten_all(&t.made, a, s, err));
    struct kl_array *parts = KL_TERM(&t, kl_view(&t.made, flat, KL_F32, s, err));
    parts = KL_TERM(&t, kl_nan_to_num(&t.made, parts, nan, posinf, neginf, s, err));
    struct kl_array *whole = KL_TERM(&t, kl_view(&t.made, parts, KL_C64, s, err));
    whole = KL_TERM(&t, kl_reshape_to(&t.made, whole, a->t.ndim, a->t.dims, s, err));
    return kl_terms_end(&t, whole, out);
}

int kl_nan_to_num(struct kl_array **out, struct kl_array *a, double nan, const double *posinf,
                  const double *neginf, struct kl_stream *s, struct kl_error **err) {
    KL_TRY(kl_check_array(a, "a", err));
    KL_TRY(kl_check_stream(s, err));
    enum kl_dtype dtype = (enum kl_dtype)a->t.dtype;
    if (dtype == KL_C64 && posinf && neginf)
        return complex_to_num(out, a, nan, posinf, neginf, s, err);
    if (dtype == KL_C64)
        return kl_fail(err, KL_EDTYPE,
                       "complex64 is taken with values for both infinities; %s given",
                       posinf || neginf ? "one is" : "none is");
    if (!kl_dtype_is_float(dtype)) {
        *out = kl_array_retain(a);
        return KL_OK;
    }
    struct kl_terms t = kl_terms_begin(s, err);
    const double most = largest(dtype);
    struct kl_array *zero = kl_term_number(&t, nan, dtype);
    struct kl_array *top = kl_term_number(&t, posinf ? *posinf : most, dtype);
    struct kl_array *bottom = kl_term_number(&t, neginf ? *neginf : -most, dtype);
    struct kl_array *r = a;
    if (posinf || neginf) {
        r = kl_term_where(&t, kl_term(&t, kl_isposinf, a), top, r);
        r = kl_term_where(&t, kl_term(&t, kl_isneginf, a), bottom, r);
    } else { /* of equal operands the second one has the gradient */
        r = kl_term2(&t, kl_minimum, top, kl_term2(&t, kl_maximum, bottom, r));
    }
    return kl_terms_end(&t, kl_term_where(&t, kl_term(&t, kl_isnan, a), zero, r), out);
}

/* ---- close and equal ---- */

/* Where both operands are NaN. */
static struct kl_array *both_nan(struct kl_terms *t, struct kl_array *a, struct kl_array *b) {
    return kl_term2(t, kl_logical_and, kl_term(t, kl_isnan, a), kl_term(t, kl_isnan, b));
}

int kl_isclose(struct kl_array **out, struct kl_array *a, struct kl_array *b, double rtol,
               double atol, bool equal_nan, struct kl_stream *s, struct kl_error **err) {
    KL_TRY(kl_check_array(a, "a", err));
    KL_TRY(kl_check_array(b, "b", err));
    enum kl_dtype dtype = kl_dtype_inexact(kl_dtype_promote(a->t.dtype, b->t.dtype));
    /* the tolerances are too small for these types */
    if (dtype == KL_F16 || dtype == KL_BF16) dtype = KL_F32;
    struct kl_terms t = kl_terms_begin(s, err);
    struct kl_array *x = kl_term_cast(&t, a, dtype), *y = kl_term_cast(&t, b, dtype);
    struct kl_array *apart = kl_term(&t, kl_abs, kl_term2(&t, kl_subtract, x, y));
    struct kl_array *allowed = kl_term_by(&t, kl_multiply, kl_term(&t, kl_abs, y), rtol);
    allowed = kl_term_by(&t, kl_add, allowed, atol);
    /* An infinity is close only to itself, whatever the tolerance is. */
    struct kl_array *near = kl_term2(&t, kl_less_equal, apart, allowed);
    near = kl_term2(&t, kl_logical_and, near, kl_term_by(&t, kl_less, apart, (double)INFINITY));
    near = kl_term2(&t, kl_logical_or, near, kl_term2(&t, kl_equal, x, y));
    if (equal_nan) near = kl_term2(&t, kl_logical_or, near, both_nan(&t, x, y));
    return kl_terms_end(&t, near, out);
}

/* Whether every element of bools is true: the minimum of the elements. */
static struct kl_array *all(struct kl_terms *t, struct kl_array *bools) {
    if (t->rc) return NULL;
    /* of no elements too, of which a replay may have some */
    if (kl_is_shapeless(bools)) return KL_TERM(t, kl_all(&t->made, bools, false, t->s, t->err));
    if (bools->t.size == 0) return kl_term_number(t, 1, KL_BOOL);
    return KL_TERM(t, kl_min(&t->made, bools, false, t->s, t->err));
}

int kl_allclose(struct kl_array **out, struct kl_array *a, struct kl_array *b, double rtol,
                double atol, bool equal_nan, struct kl_stream *s, struct kl_error **err) {
    struct kl_array *close;
    KL_TRY(kl_isclose(&close, a, b, rtol, atol, equal_nan, s, err));
    struct kl_terms t = kl_terms_begin(s, err);
    int rc = kl_terms_end(&t, all(&t, close), out);
    kl_array_release(close);
    return rc;
}

int kl_array_equal(struct kl_array **out, struct kl_array *a, struct kl_array *b, bool equal_nan,
                   struct kl_stream *s, struct kl_error **err) {
    KL_DEFER(ARRAY_EQUAL, a, b, equal_nan);
    KL_TRY(kl_check_array(a, "a", err));
    KL_TRY(kl_check_array(b, "b", err));
    KL_TRY(kl_check_stream(s, err));
    if (!kl_shape_is(a, b->t.ndim, b->t.dims)) return kl_array_new_scalar(out, 0, KL_BOOL, err);
    struct kl_terms t = kl_terms_begin(s, err);
    struct kl_array *same = kl_term2(&t, kl_equal, a, b);
    if (equal_nan) same = kl_term2(&t, kl_logical_or, same, both_nan(&t, a, b));
    return kl_terms_end(&t, all(&t, same), out);
}

/* ---- bounds ---- */

int kl_clip(struct kl_array **out, struct kl_array *a, struct kl_array *a_min,
            struct kl_array *a_max, struct kl_stream *s, struct kl_error **err) {
    int64_t lo, hi, low, high;
    KL_TRY(kl_check_array(a, "a", err));
    if (!a_min && !a_max)
        return kl_fail(err, KL_EARG, "a_min and a_max are both missing; one is needed");
    struct kl_terms t = kl_terms_begin(s, err);
    struct kl_array *r = a;
    if (a_min) r = kl_term2(&t, kl_maximum, r, a_min);
    if (a_max) r = kl_term2(&t, kl_minimum, r, a_max);
    /* The lower bound is not a bound of the result where the upper bound is below it. */
    if (!t.rc && !r->has_range && kl_int_limits((enum kl_dtype)r->t.dtype, &lo, &hi) &&
        kl_host_integer(a_min, &low) && kl_host_integer(a_max, &high) && low >= lo && high <= hi &&
        high >= lo && low <= hi)
        kl_array_set_range(r, low < high ? low : high, high);
    return kl_terms_end(&t, r, out);
}
