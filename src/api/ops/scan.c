/* scan.c - mlx/c/ops.h: variance and standard deviation, cumulative operations. */
#include "api/ops/api_ops.h"

/* ---- var, std ---- */
static int variance(const char *func, kl_variance_fn *build, mlx_array *res, mlx_array a,
                    bool keepdims, int ddof, mlx_stream s) {
    struct kl_call c = kl_call_begin(func, res);
    struct kl_array *in = kl_in(&c, a, "a"), *out = NULL;
    struct kl_stream *on = kl_in_stream(&c, s);
    if (!c.err) build(&out, in, keepdims, ddof, on, &c.err);
    return kl_call_end(&c, res, out);
}

static int variance_axes(const char *func, kl_variance_axes_fn *build, mlx_array *res, mlx_array a,
                         const int *axes, size_t axes_num, bool keepdims, int ddof, mlx_stream s) {
    struct kl_call c = kl_call_begin(func, res);
    struct kl_array *in = kl_in(&c, a, "a"), *out = NULL;
    struct kl_stream *on = kl_in_stream(&c, s);
    if (!c.err) build(&out, in, axes, axes_num, keepdims, ddof, on, &c.err);
    return kl_call_end(&c, res, out);
}

#define VARIANCE(all, one_axis, some_axes, build, build_axes)                                  \
    int all(mlx_array *res, const mlx_array a, bool keepdims, int ddof, const mlx_stream s) {  \
        return variance(__func__, build, res, a, keepdims, ddof, s);                           \
    }                                                                                          \
    int one_axis(mlx_array *res, const mlx_array a, int axis, bool keepdims, int ddof,         \
                 const mlx_stream s) {                                                         \
        return variance_axes(__func__, build_axes, res, a, &axis, 1, keepdims, ddof, s);       \
    }                                                                                          \
    int some_axes(mlx_array *res, const mlx_array a, const int *axes, size_t axes_num,         \
                  bool keepdims, int ddof, const mlx_stream s) {                               \
        return variance_axes(__func__, build_axes, res, a, axes, axes_num, keepdims, ddof, s); \
    }
VARIANCE(mlx_var, mlx_var_axis, mlx_var_axes, kl_var, kl_var_axes)
VARIANCE(mlx_std, mlx_std_axis, mlx_std_axes, kl_std, kl_std_axes)

/* ---- scans ---- */
static int scan(const char *func, kl_scan_fn *build, mlx_array *res, mlx_array a, int axis,
                bool reverse, bool inclusive, mlx_stream s) {
    struct kl_call c = kl_call_begin(func, res);
    struct kl_array *in = kl_in(&c, a, "a"), *out = NULL;
    struct kl_stream *on = kl_in_stream(&c, s);
    if (!c.err) build(&out, in, axis, reverse, inclusive, on, &c.err);
    return kl_call_end(&c, res, out);
}

#define SCAN(FUNC, BUILD)                                                               \
    int FUNC(mlx_array *res, const mlx_array a, int axis, bool reverse, bool inclusive, \
             const mlx_stream s) {                                                      \
        return scan(__func__, BUILD, res, a, axis, reverse, inclusive, s);              \
    }
SCAN(mlx_cumsum, kl_cumsum)
SCAN(mlx_cumprod, kl_cumprod)
SCAN(mlx_cummax, kl_cummax)
SCAN(mlx_cummin, kl_cummin)
SCAN(mlx_logcumsumexp, kl_logcumsumexp)
