/* sort.c - mlx/c/ops.h: sorting, parts of the order, the k largest. */
#include "api/ops/api_ops.h"

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
