/* api_ops.h - the most common forms of a call, so that an API function is one line: it names its
 * builder (ops/ops.h), and a function of this header checks, builds and assigns. */
#pragma once
#include "api/handles/handles.h"
#include "ops/ops.h"

int kl_api_unary(const char *func, kl_unary_fn *build, mlx_array *res, mlx_array a, mlx_stream s);
int kl_api_binary(const char *func, kl_binary_fn *build, mlx_array *res, mlx_array a, mlx_array b,
                  mlx_stream s);
/* A builder with one int after the array, such as an axis or a count. */
typedef int kl_unary_int_fn(struct kl_array **out, struct kl_array *a, int n, struct kl_stream *s,
                            struct kl_error **err);
int kl_api_unary_int(const char *func, kl_unary_int_fn *build, mlx_array *res, mlx_array a, int n,
                     mlx_stream s);
/* A builder with two ints, such as two axes, or a count and an axis. */
typedef int kl_unary_int2_fn(struct kl_array **out, struct kl_array *a, int n, int m,
                             struct kl_stream *s, struct kl_error **err);
int kl_api_unary_int2(const char *func, kl_unary_int2_fn *build, mlx_array *res, mlx_array a, int n,
                      int m, mlx_stream s);
/* A builder with a list of ints after the array, such as axes or a shape. */
typedef int kl_unary_ints_fn(struct kl_array **out, struct kl_array *a, const int *list, size_t n,
                             struct kl_stream *s, struct kl_error **err);
int kl_api_unary_ints(const char *func, kl_unary_ints_fn *build, mlx_array *res, mlx_array a,
                      const int *list, size_t n, mlx_stream s);

/* Builders of reductions, and of softmax, whose flag has the place of keepdims. */
int kl_api_reduce(const char *func, kl_reduce_fn *build, mlx_array *res, mlx_array a, bool keepdims,
                  mlx_stream s);
int kl_api_reduce_axis(const char *func, kl_reduce_axis_fn *build, mlx_array *res, mlx_array a,
                       int axis, bool keepdims, mlx_stream s);
int kl_api_reduce_axes(const char *func, kl_reduce_axes_fn *build, mlx_array *res, mlx_array a,
                       const int *axes, size_t axes_num, bool keepdims, mlx_stream s);

/* An operation of one array that kl_op_make makes; KL_PARAMS_OF gives params and params_bytes. */
int kl_api_make(const char *func, enum kl_op_id op, const void *params, size_t params_bytes,
                mlx_array *res, mlx_array a, mlx_stream s);

/* API functions that only call a builder of one or two operands. */
#define KL_API_UNARY(FUNC, BUILD)                                     \
    int FUNC(mlx_array *res, const mlx_array a, const mlx_stream s) { \
        return kl_api_unary(__func__, BUILD, res, a, s);              \
    }
#define KL_API_BINARY(FUNC, BUILD)                                                       \
    int FUNC(mlx_array *res, const mlx_array a, const mlx_array b, const mlx_stream s) { \
        return kl_api_binary(__func__, BUILD, res, a, b, s);                             \
    }
