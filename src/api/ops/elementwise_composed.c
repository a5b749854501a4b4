/* elementwise_composed.c - mlx/c/ops.h: element-wise functions that are composed of several
 * operations or have parameters. Functions of a single operation are in api/ops/elementwise.c. */
#include <string.h>

#include "api/ops/api_ops.h"
#include "base/alloc.h"

KL_API_UNARY(mlx_reciprocal, kl_reciprocal)
KL_API_UNARY(mlx_degrees, kl_degrees)
KL_API_UNARY(mlx_radians, kl_radians)
KL_API_UNARY(mlx_isnan, kl_isnan)
KL_API_UNARY(mlx_isinf, kl_isinf)
KL_API_UNARY(mlx_isfinite, kl_isfinite)
KL_API_UNARY(mlx_isposinf, kl_isposinf)
KL_API_UNARY(mlx_isneginf, kl_isneginf)
KL_API_UNARY(mlx_stop_gradient, kl_stop_gradient)

int mlx_round(mlx_array *res, const mlx_array a, int decimals, const mlx_stream s) {
    return kl_api_unary_int(__func__, kl_round, res, a, decimals, s);
}

int mlx_divmod(mlx_vector_array *res, const mlx_array a, const mlx_array b, const mlx_stream s) {
    struct kl_call c = kl_call_begin(__func__, res);
    struct kl_array *x = kl_in(&c, a, "a"), *y = kl_in(&c, b, "b");
    struct kl_array *pair[2] = {NULL, NULL}, **outs = NULL;
    struct kl_stream *on = kl_in_stream(&c, s);
    if (!c.err) kl_divmod(&pair[0], &pair[1], x, y, on, &c.err);
    if (!c.err && !(outs = kl_malloc(sizeof pair))) {
        kl_fail_nomem(&c.err);
        kl_array_release(pair[0]);
        kl_array_release(pair[1]);
    }
    if (outs) memcpy(outs, pair, sizeof pair);
    return kl_call_end_list(&c, res, outs, outs ? 2 : 0);
}

int mlx_from_fp8(mlx_array *res, const mlx_array x, mlx_dtype dtype, const mlx_stream s) {
    struct kl_call c = kl_call_begin(__func__, res);
    struct kl_array *in = kl_in(&c, x, "x"), *out = NULL;
    struct kl_stream *on = kl_in_stream(&c, s);
    if (!c.err) kl_from_fp8(&out, in, (int)dtype, on, &c.err);
    return kl_call_end(&c, res, out);
}

int mlx_nan_to_num(mlx_array *res, const mlx_array a, float nan, mlx_optional_float posinf,
                   mlx_optional_float neginf, const mlx_stream s) {
    struct kl_call c = kl_call_begin(__func__, res);
    struct kl_array *in = kl_in(&c, a, "a"), *out = NULL;
    struct kl_stream *on = kl_in_stream(&c, s);
    double top = (double)posinf.value, bottom = (double)neginf.value;
    if (!c.err)
        kl_nan_to_num(&out, in, (double)nan, posinf.has_value ? &top : NULL,
                      neginf.has_value ? &bottom : NULL, on, &c.err);
    return kl_call_end(&c, res, out);
}

/* Builders with tolerances. */
typedef int close_fn(struct kl_array **out, struct kl_array *a, struct kl_array *b, double rtol,
                     double atol, bool equal_nan, struct kl_stream *s, struct kl_error **err);
static int compare(const char *func, close_fn *build, mlx_array *res, mlx_array a, mlx_array b,
                   double rtol, double atol, bool equal_nan, mlx_stream s) {
    struct kl_call c = kl_call_begin(func, res);
    struct kl_array *x = kl_in(&c, a, "a"), *y = kl_in(&c, b, "b"), *out = NULL;
    struct kl_stream *on = kl_in_stream(&c, s);
    if (!c.err) build(&out, x, y, rtol, atol, equal_nan, on, &c.err);
    return kl_call_end(&c, res, out);
}

int mlx_isclose(mlx_array *res, const mlx_array a, const mlx_array b, double rtol, double atol,
                bool equal_nan, const mlx_stream s) {
    return compare(__func__, kl_isclose, res, a, b, rtol, atol, equal_nan, s);
}

int mlx_allclose(mlx_array *res, const mlx_array a, const mlx_array b, double rtol, double atol,
                 bool equal_nan, const mlx_stream s) {
    return compare(__func__, kl_allclose, res, a, b, rtol, atol, equal_nan, s);
}

int mlx_array_equal(mlx_array *res, const mlx_array a, const mlx_array b, bool equal_nan,
                    const mlx_stream s) {
    struct kl_call c = kl_call_begin(__func__, res);
    struct kl_array *x = kl_in(&c, a, "a"), *y = kl_in(&c, b, "b"), *out = NULL;
    struct kl_stream *on = kl_in_stream(&c, s);
    if (!c.err) kl_array_equal(&out, x, y, equal_nan, on, &c.err);
    return kl_call_end(&c, res, out);
}

int mlx_clip(mlx_array *res, const mlx_array a, const mlx_array a_min, const mlx_array a_max,
             const mlx_stream s) {
    struct kl_call c = kl_call_begin(__func__, res);
    struct kl_array *in = kl_in(&c, a, "a"), *out = NULL;
    struct kl_stream *on = kl_in_stream(&c, s);
    if (!c.err) kl_clip(&out, in, kl_in_optional(a_min), kl_in_optional(a_max), on, &c.err);
    return kl_call_end(&c, res, out);
}
