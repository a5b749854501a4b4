/* random_distributions.c - random numbers of other distributions, made of uniform and normal
 * numbers (random.c), and random orders. A key gives the same draws as in MLX wherever the draws
 * do not depend on the last bit of a transcendental function. */
#include <math.h>

#include "base/alloc.h"
#include "ops/build/deferred.h"
#include "ops/build/meet.h"
#include "ops/linalg.h"
#include "ops/ops.h"
#include "ops/build/terms.h"
#include "ops/build/views.h"

/* Uniform numbers of dtype in [low, high). */
static int uniform(struct kl_array **out, double low, double high, const struct kl_shape *shape,
                   int dtype, struct kl_array *key, struct kl_stream *s, struct kl_error **err) {
    struct kl_terms t = kl_terms_begin(s, err);
    struct kl_array *lo = KL_TERM(&t, kl_array_new_scalar(&t.made, low, KL_F32, err));
    struct kl_array *hi = KL_TERM(&t, kl_array_new_scalar(&t.made, high, KL_F32, err));
    struct kl_array *u = KL_TERM(&t, kl_random_uniform(&t.made, lo, hi, shape->dims,
                                                       (size_t)shape->ndim, dtype, key, s, err));
    return kl_terms_end(&t, u, out);
}

int kl_random_bernoulli(struct kl_array **out, struct kl_array *p, const int *shape,
                        size_t shape_num, struct kl_array *key, struct kl_stream *s,
                        struct kl_error **err) {
    struct kl_terms t = kl_terms_begin(s, err);
    struct kl_shape to;
    KL_TRY(kl_check_array(p, "p", err));
    KL_TRY(kl_check_stream(s, err));
    if (!kl_dtype_is_float(p->t.dtype))
        return kl_fail(err, KL_EDTYPE, "p is %s; a floating type is taken",
                       kl_dtype_name(p->t.dtype));
    KL_TRY(kl_check_shape(&to, shape, shape_num, KL_F32, NULL, err));
    struct kl_array *wide = KL_TERM(&t, kl_broadcast_view(&t.made, p, to.ndim, to.dims, err));
    struct kl_array *u = KL_TERM(&t, uniform(&t.made, 0, 1, &to, KL_F32, key, s, err));
    struct kl_array *below = KL_TERM(&t, kl_less(&t.made, u, wide, s, err));
    return kl_terms_end(&t, below, out);
}

int kl_random_gumbel(struct kl_array **out, const int *shape, size_t shape_num, int dtype,
                     struct kl_array *key, struct kl_stream *s, struct kl_error **err) {
    struct kl_terms t = kl_terms_begin(s, err);
    struct kl_shape to;
    KL_TRY(kl_check_stream(s, err));
    KL_TRY(kl_check_shape(&to, shape, shape_num, KL_F32, NULL, err));
    struct kl_array *x = KL_TERM(&t, uniform(&t.made, 0, 1, &to, dtype, key, s, err));
    for (int i = 0; i < 2; i++) { /* two times -log(x) */
        x = KL_TERM(&t, kl_log(&t.made, x, s, err));
        x = KL_TERM(&t, kl_negative(&t.made, x, s, err));
    }
    return kl_terms_end(&t, x, out);
}

/* ---- categorical ---- */
static int categorical_of_row(struct kl_array **out, struct kl_array *logits,
                              const struct kl_shape *shape, struct kl_array *key,
                              struct kl_stream *s, struct kl_error **err);
/* The position of the largest logit after Gumbel noise is added; for a single row the running sums
 * are used, as in MLX. shape is the shape of the result, to which the logits without their axis
 * (which is resolved) broadcast. */
static int categorical(struct kl_array **out, struct kl_array *logits, int axis,
                       const struct kl_shape *shape, struct kl_array *key, struct kl_stream *s,
                       struct kl_error **err) {
    struct kl_terms t = kl_terms_begin(s, err);
    struct kl_shape noise = *shape;
    int lead = shape->ndim - (logits->t.ndim - 1), at = axis + lead;
    bool fits = lead >= 0 && shape->ndim < KL_MAX_NDIM;
    for (int i = 0; i < logits->t.ndim && fits; i++) {
        if (i == axis) continue;
        int want = shape->dims[lead + i - (i > axis)];
        fits = logits->t.dims[i] == 1 || logits->t.dims[i] == want;
    }
    if (!fits)
        return kl_fail(err, KL_ESHAPE,
                       "logits of shape %s without axis %d do not broadcast to shape %s",
                       KL_SHAPE_TEXT_OF(logits), axis, KL_SHAPE_TEXT(shape->ndim, shape->dims));
    if (logits->t.size == logits->t.dims[axis] && shape->ndim > 0)
        return categorical_of_row(out, logits, shape, key, s, err);
    for (int i = noise.ndim++; i > at; i--) noise.dims[i] = noise.dims[i - 1];
    noise.dims[at] = logits->t.dims[axis];
    struct kl_array *x =
        KL_TERM(&t, kl_random_gumbel(&t.made, noise.dims, (size_t)noise.ndim, KL_F32, key, s, err));
    x = KL_TERM(&t, kl_add(&t.made, x, logits, s, err));
    x = KL_TERM(&t, kl_argmax_axis(&t.made, x, at, false, s, err));
    return kl_terms_end(&t, x, out);
}

/* For each u, the number of the ascending sums, without the last one, that are at most u. Found by
 * bisection. */
static int places_of(struct kl_array **out, struct kl_array *sums, struct kl_array *u,
                     struct kl_stream *s, struct kl_error **err) {
    const int n = sums->t.dims[0];
    struct kl_array *at;
    int step = 1;
    while (step <= (n - 1) / 2) step *= 2;
    KL_TRY(kl_zeros(&at, u->t.dims, (size_t)u->t.ndim, KL_U32, s, err));
    for (; n > 1 && step > 0; step /= 2) { /* whether sums[at + step - 1] exists and is at most u */
        struct kl_terms t = kl_terms_begin(s, err);
        struct kl_array *next = kl_term_by(&t, kl_add, at, step), *found;
        struct kl_array *there = kl_term_by(&t, kl_less, next, n);
        struct kl_array *last =
            kl_term_by(&t, kl_minimum, kl_term_by(&t, kl_add, at, step - 1), n - 1);
        struct kl_array *sum = KL_TERM(&t, kl_take(&t.made, sums, last, s, err));
        there = kl_term2(&t, kl_logical_and, there, kl_term2(&t, kl_less_equal, sum, u));
        const int rc = kl_terms_end(&t, kl_term_where(&t, there, next, at), &found);
        kl_array_release(at);
        if (rc) return rc;
        at = found;
    }
    *out = at;
    return KL_OK;
}

/* The case of one row of logits: a uniform number is multiplied by the sum of the exponentials of
 * the logits. The two running sums that enclose the product give the position. */
static int categorical_of_row(struct kl_array **out, struct kl_array *logits,
                              const struct kl_shape *shape, struct kl_array *key,
                              struct kl_stream *s, struct kl_error **err) {
    struct kl_terms t = kl_terms_begin(s, err);
    const int n = (int)logits->t.size, last = n - 1, axis = 0, one = 1;
    struct kl_array *x = KL_TERM(&t, kl_flatten_all(&t.made, logits, s, err));
    x = kl_term_cast(&t, x, logits->t.dtype == KL_F64 ? KL_F64 : KL_F32);
    struct kl_array *top = kl_term_reduce(&t, kl_max_axes, x, &axis, 1);
    /* The distance of an infinite number from itself counts as 0. */
    struct kl_array *distance = kl_term2(&t, kl_subtract, x, top);
    distance =
        kl_term_where(&t, kl_term2(&t, kl_equal, x, top), kl_term_number(&t, 0, KL_F32), distance);
    struct kl_array *weights = kl_term(&t, kl_exp, distance);
    struct kl_array *sums = KL_TERM(&t, kl_cumsum(&t.made, weights, 0, false, true, s, err));
    struct kl_array *total = KL_TERM(&t, kl_slice(&t.made, sums, &last, 1, &n, 1, &one, 1, s, err));
    struct kl_array *u = KL_TERM(&t, uniform(&t.made, 0, 1, shape, KL_F32, key, s, err));
    u = kl_term2(&t, kl_multiply, u, total);
    return kl_terms_end(&t, KL_TERM(&t, places_of(&t.made, sums, u, s, err)), out);
}

static int check_logits(struct kl_array *logits, int *axis, struct kl_stream *s,
                        struct kl_error **err) {
    KL_TRY(kl_check_array(logits, "logits", err));
    KL_TRY(kl_check_stream(s, err));
    KL_TRY(kl_check_axis(axis, logits->t.ndim, err));
    if (logits->t.dtype == KL_C64)
        return kl_fail(err, KL_EDTYPE, "logits are complex64; real numbers are taken");
    if (logits->t.dims[*axis] == 0)
        return kl_fail(err, KL_EARG, "axis %d has size 0: there is nothing to choose from", *axis);
    return KL_OK;
}

static struct kl_shape without_axis(const struct kl_array *a, int axis) {
    struct kl_shape to = {.ndim = 0};
    for (int i = 0; i < a->t.ndim; i++)
        if (i != axis) to.dims[to.ndim++] = a->t.dims[i];
    return to;
}

/* Records a call on a with its key: the thread's sequence gives it now, and not at each replay. */
#define DEFER_WITH_KEY(a, again, kind, ...)            \
    do {                                               \
        struct kl_array *own;                          \
        if (!kl_is_shapeless(a)) break;                \
        if (key) KL_DEFER(kind, __VA_ARGS__);          \
        if (key) break;                                \
        KL_TRY(kl_random_use_key(&own, NULL, s, err)); \
        int rc_ = again;                               \
        kl_array_release(own);                         \
        return rc_;                                    \
    } while (0)

int kl_random_categorical(struct kl_array **out, struct kl_array *logits, int axis,
                          struct kl_array *key, struct kl_stream *s, struct kl_error **err) {
    DEFER_WITH_KEY(logits, kl_random_categorical(out, logits, axis, own, s, err), CATEGORICAL,
                   logits, axis, key);
    KL_TRY(check_logits(logits, &axis, s, err));
    struct kl_shape to = without_axis(logits, axis);
    return categorical(out, logits, axis, &to, key, s, err);
}

int kl_random_categorical_shape(struct kl_array **out, struct kl_array *logits, int axis,
                                const int *shape, size_t shape_num, struct kl_array *key,
                                struct kl_stream *s, struct kl_error **err) {
    DEFER_WITH_KEY(logits,
                   kl_random_categorical_shape(out, logits, axis, shape, shape_num, own, s, err),
                   CATEGORICAL_SHAPE, logits, axis, shape, shape_num, key);
    struct kl_shape to;
    KL_TRY(check_logits(logits, &axis, s, err));
    KL_TRY(kl_check_shape(&to, shape, shape_num, KL_F32, NULL, err));
    return categorical(out, logits, axis, &to, key, s, err);
}

int kl_random_categorical_num_samples(struct kl_array **out, struct kl_array *logits, int axis,
                                      int num_samples, struct kl_array *key, struct kl_stream *s,
                                      struct kl_error **err) {
    DEFER_WITH_KEY(logits,
                   kl_random_categorical_num_samples(out, logits, axis, num_samples, own, s, err),
                   CATEGORICAL_NUM_SAMPLES, logits, axis, num_samples, key);
    struct kl_array *wide;
    KL_TRY(check_logits(logits, &axis, s, err));
    if (num_samples < 0)
        return kl_fail(err, KL_EARG, "%d samples are asked for; 0 or more are possible",
                       num_samples);
    struct kl_shape to = without_axis(logits, axis);
    to.dims[to.ndim++] = num_samples;
    KL_TRY(kl_expand_dims(&wide, logits, logits->t.ndim, s, err));
    int rc = categorical(out, wide, axis, &to, key, s, err);
    kl_array_release(wide);
    return rc;
}

/* ---- laplace, truncated normal ---- */
int kl_random_laplace(struct kl_array **out, const int *shape, size_t shape_num, int dtype,
                      float loc, float scale, struct kl_array *key, struct kl_stream *s,
                      struct kl_error **err) {
    struct kl_terms t = kl_terms_begin(s, err);
    struct kl_shape to;
    KL_TRY(kl_check_stream(s, err));
    KL_TRY(kl_check_dtype(dtype, err));
    if (!kl_dtype_is_float((enum kl_dtype)dtype))
        return kl_fail(err, KL_EDTYPE, "dtype %s; floating types are possible",
                       kl_dtype_name((enum kl_dtype)dtype));
    KL_TRY(kl_check_shape(&to, shape, shape_num, KL_F64, NULL, err));
    /* sign(u) * log(1 - |u|), computed in float32 for narrower types too */
    enum kl_dtype wide = dtype == KL_F64 ? KL_F64 : KL_F32;
    struct kl_array *u =
        KL_TERM(&t, uniform(&t.made, nextafterf(-1, 0), 1, &to, KL_F32, key, s, err));
    u = KL_TERM(&t, kl_cast_to(&t.made, u, wide, s, err));
    struct kl_array *zero = KL_TERM(&t, kl_array_new_scalar(&t.made, 0, wide, err));
    struct kl_array *x = KL_TERM(&t, kl_abs(&t.made, u, s, err));
    x = KL_TERM(&t, kl_negative(&t.made, x, s, err));
    x = KL_TERM(&t, kl_log1p(&t.made, x, s, err));
    struct kl_array *below = KL_TERM(&t, kl_less(&t.made, u, zero, s, err));
    struct kl_array *opposite = KL_TERM(&t, kl_negative(&t.made, x, s, err));
    x = KL_TERM(&t, kl_where(&t.made, below, opposite, x, s, err));
    if (scale != 1) {
        struct kl_array *by = KL_TERM(&t, kl_array_new_scalar(&t.made, scale, wide, err));
        x = KL_TERM(&t, kl_multiply(&t.made, x, by, s, err));
    }
    if (loc != 0) {
        struct kl_array *to_loc = KL_TERM(&t, kl_array_new_scalar(&t.made, loc, wide, err));
        x = KL_TERM(&t, kl_add(&t.made, x, to_loc, s, err));
    }
    x = KL_TERM(&t, kl_cast_to(&t.made, x, (enum kl_dtype)dtype, s, err));
    return kl_terms_end(&t, x, out);
}

static struct kl_array *step2(struct kl_terms *t, kl_binary_fn *fn, struct kl_array *a,
                              struct kl_array *b, struct kl_stream *s, struct kl_error **err) {
    return KL_TERM(t, fn(&t->made, a, b, s, err));
}

static struct kl_array *number(struct kl_terms *t, double x, struct kl_error **err) {
    return KL_TERM(t, kl_array_new_scalar(&t->made, x, KL_F32, err));
}

/* erf(bound / sqrt(2)) in float32, which is one end of the range of the uniform numbers. */
static int uniform_bound(struct kl_array **out, struct kl_array *bound, struct kl_stream *s,
                         struct kl_error **err) {
    struct kl_terms t = kl_terms_begin(s, err);
    struct kl_array *x = KL_TERM(&t, kl_cast_to(&t.made, bound, KL_F32, s, err));
    x = step2(&t, kl_divide, x, number(&t, sqrt(2), err), s, err);
    x = KL_TERM(&t, kl_erf(&t.made, x, s, err));
    return kl_terms_end(&t, x, out);
}

int kl_random_truncated_normal(struct kl_array **out, struct kl_array *lower,
                               struct kl_array *upper, const int *shape, size_t shape_num,
                               int dtype, struct kl_array *key, struct kl_stream *s,
                               struct kl_error **err) {
    struct kl_terms t = kl_terms_begin(s, err);
    KL_TRY(kl_check_array(lower, "lower", err));
    KL_TRY(kl_check_array(upper, "upper", err));
    KL_TRY(kl_check_stream(s, err));
    KL_TRY(kl_check_dtype(dtype, err));
    if (!kl_dtype_is_float((enum kl_dtype)dtype))
        return kl_fail(err, KL_EDTYPE, "dtype %s; floating types are possible",
                       kl_dtype_name((enum kl_dtype)dtype));
    if (lower->t.dtype == KL_C64 || upper->t.dtype == KL_C64)
        return kl_fail(err, KL_EDTYPE, "bounds are complex64; real numbers are taken");
    enum kl_dtype wide = dtype == KL_F64 ? KL_F64 : KL_F32;
    struct kl_array *from = KL_TERM(&t, uniform_bound(&t.made, lower, s, err));
    struct kl_array *to = KL_TERM(&t, uniform_bound(&t.made, upper, s, err));
    struct kl_array *x =
        KL_TERM(&t, kl_random_uniform(&t.made, from, to, shape, shape_num, KL_F32, key, s, err));
    x = KL_TERM(&t, kl_cast_to(&t.made, x, wide, s, err));
    x = KL_TERM(&t, kl_erfinv(&t.made, x, s, err));
    struct kl_array *root = KL_TERM(&t, kl_array_new_scalar(&t.made, sqrt(2), wide, err));
    x = step2(&t, kl_multiply, x, root, s, err);
    /* Rounding must not move a result out of the bounds. */
    struct kl_array *lo = KL_TERM(&t, kl_cast_to(&t.made, lower, wide, s, err));
    struct kl_array *hi = KL_TERM(&t, kl_cast_to(&t.made, upper, wide, s, err));
    x = step2(&t, kl_minimum, x, hi, s, err);
    x = step2(&t, kl_maximum, x, lo, s, err);
    x = KL_TERM(&t, kl_cast_to(&t.made, x, (enum kl_dtype)dtype, s, err));
    return kl_terms_end(&t, x, out);
}

/* ---- random orders ---- */
int kl_random_permutation_arange(struct kl_array **out, int n, struct kl_array *key,
                                 struct kl_stream *s, struct kl_error **err) {
    struct kl_terms t = kl_terms_begin(s, err);
    KL_TRY(kl_check_stream(s, err));
    if (n < 0) return kl_fail(err, KL_EARG, "%d elements; 0 or more are possible", n);
    struct kl_array *bits = KL_TERM(&t, kl_random_bits(&t.made, &n, 1, 4, key, s, err));
    struct kl_array *order = KL_TERM(&t, kl_argsort_axis(&t.made, bits, 0, s, err));
    return kl_terms_end(&t, order, out);
}

int kl_random_permutation(struct kl_array **out, struct kl_array *x, int axis, struct kl_array *key,
                          struct kl_stream *s, struct kl_error **err) {
    DEFER_WITH_KEY(x, kl_random_permutation(out, x, axis, own, s, err), PERMUTATION, x, axis, key);
    struct kl_terms t = kl_terms_begin(s, err);
    KL_TRY(kl_check_array(x, "x", err));
    KL_TRY(kl_check_axis(&axis, x->t.ndim, err));
    struct kl_array *order =
        KL_TERM(&t, kl_random_permutation_arange(&t.made, x->t.dims[axis], key, s, err));
    struct kl_array *moved = KL_TERM(&t, kl_take_axis(&t.made, x, order, axis, s, err));
    return kl_terms_end(&t, moved, out);
}

/* ---- multivariate normal ---- */
static int check_multivariate(struct kl_array *mean, struct kl_array *cov, int dtype,
                              struct kl_error **err) {
    KL_TRY(kl_check_array(mean, "mean", err));
    KL_TRY(kl_check_array(cov, "cov", err));
    if (dtype != KL_F32)
        return kl_fail(err, KL_EDTYPE, "dtype %d; float32 (%d) is possible", dtype, KL_F32);
    if (mean->t.dtype == KL_C64 || cov->t.dtype == KL_C64)
        return kl_fail(err, KL_EDTYPE, "complex64 is not taken; real numbers are");
    if (mean->t.ndim < 1 || cov->t.ndim < 2)
        return kl_fail(err, KL_ESHAPE,
                       "mean has shape %s and cov %s; at least one and two axes are needed",
                       KL_SHAPE_TEXT_OF(mean), KL_SHAPE_TEXT_OF(cov));
    const int *square = cov->t.dims + cov->t.ndim - 2;
    if (square[0] != square[1] || square[0] != mean->t.dims[mean->t.ndim - 1])
        return kl_fail(err, KL_ESHAPE,
                       "mean has shape %s and cov %s; the last axis of mean and the last two of "
                       "cov must have one size",
                       KL_SHAPE_TEXT_OF(mean), KL_SHAPE_TEXT_OF(cov));
    return KL_OK;
}

/* Whether the shape of a, without its last n axes, broadcasts to the given shape. */
static int check_batch(const struct kl_array *a, int n, const struct kl_shape *to, const char *what,
                       struct kl_error **err) {
    int lead = to->ndim - (a->t.ndim - n);
    bool fits = lead >= 0;
    for (int i = 0; i < a->t.ndim - n && fits; i++)
        fits = a->t.dims[i] == 1 || a->t.dims[i] == to->dims[lead + i];
    return fits ? KL_OK
                : kl_fail(err, KL_ESHAPE, "%s of shape %s does not broadcast to shape %s", what,
                          KL_SHAPE_TEXT_OF(a), KL_SHAPE_TEXT(to->ndim, to->dims));
}

/* The symmetric square roots of symmetric positive semi-definite matrices: u sqrt(s) vt. The CPU
 * computes the factors for every device. */
static struct kl_array *square_root(struct kl_terms *t, struct kl_array *a) {
    struct kl_array **f = NULL, *u, *values, *vt;
    struct kl_stream *host = NULL;
    size_t n = 0;
    if (t->rc) return NULL;
    const bool is_here = kl_stream_device_type(t->s) == KL_CPU;
    if (is_here)
        host = kl_stream_retain(t->s);
    else if ((t->rc = kl_stream_default(&host, KL_CPU, 0, t->err)))
        return NULL;
    const struct kl_origin before = kl_alias_set(KL_ALIAS_MULTIVARIATE_NORMAL);
    t->rc = kl_matrix_parts(&f, &n, KL_FACTORS_SVD, a, false, host, t->err);
    kl_origin_set(before);
    kl_stream_release(host);
    for (size_t i = 0; i < n; i++) t->all[t->n++] = f[i];
    if (t->rc) return NULL;
    u = f[0];
    values = f[1];
    vt = f[2];
    kl_free(f);
    values = kl_term(t, kl_sqrt, values);
    values = KL_TERM(t, kl_expand_dims(&t->made, values, -2, t->s, t->err));
    return kl_term2(t, kl_matmul, kl_term2(t, kl_multiply, u, values), vt);
}

/* mean + z F, where F is the symmetric square root of cov and z are normal numbers. */
int kl_random_multivariate_normal(struct kl_array **out, struct kl_array *mean,
                                  struct kl_array *cov, const int *shape, size_t shape_num,
                                  int dtype, struct kl_array *key, struct kl_stream *s,
                                  struct kl_error **err) {
    struct kl_array *open = kl_is_shapeless(mean) ? mean : cov;
    DEFER_WITH_KEY(
        open, kl_random_multivariate_normal(out, mean, cov, shape, shape_num, dtype, own, s, err),
        MULTIVARIATE_NORMAL, mean, cov, shape, shape_num, dtype, key);
    struct kl_terms t = kl_terms_begin(s, err);
    struct kl_shape to;
    KL_TRY(kl_check_stream(s, err));
    KL_TRY(check_multivariate(mean, cov, dtype, err));
    KL_TRY(kl_check_shape(&to, shape, shape_num, KL_F32, NULL, err));
    if (to.ndim + 2 > KL_MAX_NDIM)
        return kl_fail(err, KL_ESHAPE, "%d axes are too many here", to.ndim);
    KL_TRY(check_batch(mean, 1, &to, "mean", err));
    KL_TRY(check_batch(cov, 2, &to, "cov", err));
    to.dims[to.ndim++] = mean->t.dims[mean->t.ndim - 1];
    struct kl_array *z =
        KL_TERM(&t, kl_random_normal(&t.made, to.dims, (size_t)to.ndim, KL_F32, 0, 1, key, s, err));
    struct kl_array *a = KL_TERM(&t, kl_cast_to(&t.made, cov, KL_F32, s, err));
    struct kl_array *f = square_root(&t, a);
    bool batch = cov->t.ndim > 2;
    if (batch) z = KL_TERM(&t, kl_expand_dims(&t.made, z, -2, s, err));
    struct kl_array *x = KL_TERM(&t, kl_matmul(&t.made, z, f, s, err));
    if (batch) x = KL_TERM(&t, kl_squeeze_axis(&t.made, x, -2, s, err));
    struct kl_array *m = KL_TERM(&t, kl_cast_to(&t.made, mean, KL_F32, s, err));
    x = KL_TERM(&t, kl_add(&t.made, x, m, s, err));
    return kl_terms_end(&t, x, out);
}
