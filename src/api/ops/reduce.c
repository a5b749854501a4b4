/* reduce.c - mlx/c/ops.h: reductions, variance and standard deviation. */
#include "api/ops/api_ops.h"

#define REDUCE(FUNC, BUILD)                                                          \
    int FUNC(mlx_array *res, const mlx_array a, bool keepdims, const mlx_stream s) { \
        return kl_api_reduce(__func__, BUILD, res, a, keepdims, s);                  \
    }
#define REDUCE_AXIS(FUNC, BUILD)                                                               \
    int FUNC(mlx_array *res, const mlx_array a, int axis, bool keepdims, const mlx_stream s) { \
        return kl_api_reduce_axis(__func__, BUILD, res, a, axis, keepdims, s);                 \
    }
#define REDUCE_AXES(FUNC, BUILD)                                                                 \
    int FUNC(mlx_array *res, const mlx_array a, const int *axes, size_t axes_num, bool keepdims, \
             const mlx_stream s) {                                                               \
        return kl_api_reduce_axes(__func__, BUILD, res, a, axes, axes_num, keepdims, s);         \
    }

REDUCE(mlx_sum, kl_sum)
REDUCE(mlx_mean, kl_mean)
REDUCE(mlx_max, kl_max)
REDUCE(mlx_min, kl_min)
REDUCE(mlx_prod, kl_prod)
REDUCE(mlx_all, kl_all)
REDUCE(mlx_any, kl_any)
REDUCE(mlx_logsumexp, kl_logsumexp)
REDUCE(mlx_argmax, kl_argmax)
REDUCE(mlx_argmin, kl_argmin)

REDUCE_AXIS(mlx_sum_axis, kl_sum_axis)
REDUCE_AXIS(mlx_mean_axis, kl_mean_axis)
REDUCE_AXIS(mlx_max_axis, kl_max_axis)
REDUCE_AXIS(mlx_min_axis, kl_min_axis)
REDUCE_AXIS(mlx_prod_axis, kl_prod_axis)
REDUCE_AXIS(mlx_all_axis, kl_all_axis)
REDUCE_AXIS(mlx_any_axis, kl_any_axis)
REDUCE_AXIS(mlx_logsumexp_axis, kl_logsumexp_axis)
REDUCE_AXIS(mlx_argmax_axis, kl_argmax_axis)
REDUCE_AXIS(mlx_argmin_axis, kl_argmin_axis)

REDUCE_AXES(mlx_sum_axes, kl_sum_axes)
REDUCE_AXES(mlx_mean_axes, kl_mean_axes)
REDUCE_AXES(mlx_max_axes, kl_max_axes)
REDUCE_AXES(mlx_min_axes, kl_min_axes)
REDUCE_AXES(mlx_prod_axes, kl_prod_axes)
REDUCE_AXES(mlx_all_axes, kl_all_axes)
REDUCE_AXES(mlx_any_axes, kl_any_axes)
REDUCE_AXES(mlx_logsumexp_axes, kl_logsumexp_axes)
REDUCE_AXES(mlx_median, kl_median_axes)

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
