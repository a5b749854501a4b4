/* reduce.c - mlx/c/ops.h: operations along axes: reductions, softmax, sorting. */
#include "api/ops/api_ops.h"

/* ---- reductions ---- */
static int reduce(const char *func, kl_reduce_fn *build, mlx_array *res, mlx_array a, bool keepdims,
                  mlx_stream s) {
    struct kl_call c = kl_call_begin(func, res);
    struct kl_array *in = kl_in(&c, a, "a"), *out = NULL;
    struct kl_stream *on = kl_in_stream(&c, s);
    if (!c.err) build(&out, in, keepdims, on, &c.err);
    return kl_call_end(&c, res, out);
}

static int reduce_axis(const char *func, kl_reduce_axis_fn *build, mlx_array *res, mlx_array a,
                       int axis, bool keepdims, mlx_stream s) {
    struct kl_call c = kl_call_begin(func, res);
    struct kl_array *in = kl_in(&c, a, "a"), *out = NULL;
    struct kl_stream *on = kl_in_stream(&c, s);
    if (!c.err) build(&out, in, axis, keepdims, on, &c.err);
    return kl_call_end(&c, res, out);
}

static int reduce_axes(const char *func, kl_reduce_axes_fn *build, mlx_array *res, mlx_array a,
                       const int *axes, size_t axes_num, bool keepdims, mlx_stream s) {
    struct kl_call c = kl_call_begin(func, res);
    struct kl_array *in = kl_in(&c, a, "a"), *out = NULL;
    struct kl_stream *on = kl_in_stream(&c, s);
    if (!c.err) build(&out, in, axes, axes_num, keepdims, on, &c.err);
    return kl_call_end(&c, res, out);
}

#define REDUCE(FUNC, BUILD)                                                          \
    int FUNC(mlx_array *res, const mlx_array a, bool keepdims, const mlx_stream s) { \
        return reduce(__func__, BUILD, res, a, keepdims, s);                         \
    }
#define REDUCE_AXIS(FUNC, BUILD)                                                               \
    int FUNC(mlx_array *res, const mlx_array a, int axis, bool keepdims, const mlx_stream s) { \
        return reduce_axis(__func__, BUILD, res, a, axis, keepdims, s);                        \
    }
#define REDUCE_AXES(FUNC, BUILD)                                                                 \
    int FUNC(mlx_array *res, const mlx_array a, const int *axes, size_t axes_num, bool keepdims, \
             const mlx_stream s) {                                                               \
        return reduce_axes(__func__, BUILD, res, a, axes, axes_num, keepdims, s);                \
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

/* ---- softmax, whose flag has the position of keepdims ---- */
int mlx_softmax(mlx_array *res, const mlx_array a, bool precise, const mlx_stream s) {
    return reduce(__func__, kl_softmax, res, a, precise, s);
}

int mlx_softmax_axis(mlx_array *res, const mlx_array a, int axis, bool precise,
                     const mlx_stream s) {
    return reduce_axis(__func__, kl_softmax_axis, res, a, axis, precise, s);
}

int mlx_softmax_axes(mlx_array *res, const mlx_array a, const int *axes, size_t axes_num,
                     bool precise, const mlx_stream s) {
    return reduce_axes(__func__, kl_softmax_axes, res, a, axes, axes_num, precise, s);
}

/* ---- order ---- */
int mlx_sort(mlx_array *res, const mlx_array a, const mlx_stream s) {
    return kl_api_unary(__func__, kl_sort, res, a, s);
}

int mlx_sort_axis(mlx_array *res, const mlx_array a, int axis, const mlx_stream s) {
    return kl_api_unary_int(__func__, kl_sort_axis, res, a, axis, s);
}

int mlx_argsort(mlx_array *res, const mlx_array a, const mlx_stream s) {
    return kl_api_unary(__func__, kl_argsort, res, a, s);
}

int mlx_argsort_axis(mlx_array *res, const mlx_array a, int axis, const mlx_stream s) {
    return kl_api_unary_int(__func__, kl_argsort_axis, res, a, axis, s);
}

int mlx_partition(mlx_array *res, const mlx_array a, int kth, const mlx_stream s) {
    return kl_api_unary_int(__func__, kl_partition, res, a, kth, s);
}

int mlx_partition_axis(mlx_array *res, const mlx_array a, int kth, int axis, const mlx_stream s) {
    return kl_api_unary_int2(__func__, kl_partition_axis, res, a, kth, axis, s);
}

int mlx_argpartition(mlx_array *res, const mlx_array a, int kth, const mlx_stream s) {
    return kl_api_unary_int(__func__, kl_argpartition, res, a, kth, s);
}

int mlx_argpartition_axis(mlx_array *res, const mlx_array a, int kth, int axis,
                          const mlx_stream s) {
    return kl_api_unary_int2(__func__, kl_argpartition_axis, res, a, kth, axis, s);
}

int mlx_topk(mlx_array *res, const mlx_array a, int k, const mlx_stream s) {
    return kl_api_unary_int(__func__, kl_topk, res, a, k, s);
}

int mlx_topk_axis(mlx_array *res, const mlx_array a, int k, int axis, const mlx_stream s) {
    return kl_api_unary_int2(__func__, kl_topk_axis, res, a, k, axis, s);
}
