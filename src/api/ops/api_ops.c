/* api_ops.c - see api_ops.h. */
#include "api/ops/api_ops.h"

#include "ops/build/build.h"

int kl_api_unary(const char *func, kl_unary_fn *build, mlx_array *res, mlx_array a, mlx_stream s) {
    struct kl_call c = kl_call_begin(func, res);
    struct kl_array *in = kl_in(&c, a, "a"), *out = NULL;
    struct kl_stream *on = kl_in_stream(&c, s);
    if (!c.err) build(&out, in, on, &c.err);
    return kl_call_end(&c, res, out);
}

int kl_api_binary(const char *func, kl_binary_fn *build, mlx_array *res, mlx_array a, mlx_array b,
                  mlx_stream s) {
    struct kl_call c = kl_call_begin(func, res);
    struct kl_array *x = kl_in(&c, a, "a"), *y = kl_in(&c, b, "b"), *out = NULL;
    struct kl_stream *on = kl_in_stream(&c, s);
    if (!c.err) build(&out, x, y, on, &c.err);
    return kl_call_end(&c, res, out);
}

int kl_api_unary_int(const char *func, kl_unary_int_fn *build, mlx_array *res, mlx_array a, int n,
                     mlx_stream s) {
    struct kl_call c = kl_call_begin(func, res);
    struct kl_array *in = kl_in(&c, a, "a"), *out = NULL;
    struct kl_stream *on = kl_in_stream(&c, s);
    if (!c.err) build(&out, in, n, on, &c.err);
    return kl_call_end(&c, res, out);
}

int kl_api_unary_int2(const char *func, kl_unary_int2_fn *build, mlx_array *res, mlx_array a, int n,
                      int m, mlx_stream s) {
    struct kl_call c = kl_call_begin(func, res);
    struct kl_array *in = kl_in(&c, a, "a"), *out = NULL;
    struct kl_stream *on = kl_in_stream(&c, s);
    if (!c.err) build(&out, in, n, m, on, &c.err);
    return kl_call_end(&c, res, out);
}

int kl_api_unary_ints(const char *func, kl_unary_ints_fn *build, mlx_array *res, mlx_array a,
                      const int *list, size_t n, mlx_stream s) {
    struct kl_call c = kl_call_begin(func, res);
    struct kl_array *in = kl_in(&c, a, "a"), *out = NULL;
    struct kl_stream *on = kl_in_stream(&c, s);
    if (!c.err) build(&out, in, list, n, on, &c.err);
    return kl_call_end(&c, res, out);
}

int kl_api_reduce(const char *func, kl_reduce_fn *build, mlx_array *res, mlx_array a, bool keepdims,
                  mlx_stream s) {
    struct kl_call c = kl_call_begin(func, res);
    struct kl_array *in = kl_in(&c, a, "a"), *out = NULL;
    struct kl_stream *on = kl_in_stream(&c, s);
    if (!c.err) build(&out, in, keepdims, on, &c.err);
    return kl_call_end(&c, res, out);
}

int kl_api_reduce_axis(const char *func, kl_reduce_axis_fn *build, mlx_array *res, mlx_array a,
                       int axis, bool keepdims, mlx_stream s) {
    struct kl_call c = kl_call_begin(func, res);
    struct kl_array *in = kl_in(&c, a, "a"), *out = NULL;
    struct kl_stream *on = kl_in_stream(&c, s);
    if (!c.err) build(&out, in, axis, keepdims, on, &c.err);
    return kl_call_end(&c, res, out);
}

int kl_api_reduce_axes(const char *func, kl_reduce_axes_fn *build, mlx_array *res, mlx_array a,
                       const int *axes, size_t axes_num, bool keepdims, mlx_stream s) {
    struct kl_call c = kl_call_begin(func, res);
    struct kl_array *in = kl_in(&c, a, "a"), *out = NULL;
    struct kl_stream *on = kl_in_stream(&c, s);
    if (!c.err) build(&out, in, axes, axes_num, keepdims, on, &c.err);
    return kl_call_end(&c, res, out);
}

int kl_api_make(const char *func, enum kl_op_id op, const void *params, size_t params_bytes,
                mlx_array *res, mlx_array a, mlx_stream s) {
    struct kl_call c = kl_call_begin(func, res);
    struct kl_array *in = kl_in(&c, a, "a"), *out = NULL;
    struct kl_stream *on = kl_in_stream(&c, s);
    if (!c.err) kl_op_make(&out, op, params, params_bytes, &in, 1, on, &c.err);
    return kl_call_end(&c, res, out);
}
