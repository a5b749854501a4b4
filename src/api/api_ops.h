/* api_ops.h - calls of the commonest shapes, so that an API function is one line: it names its
 * builder (ops/ops.h), and one of these does the checking, building and assigning. */
#pragma once
#include "api/handles.h"
#include "ops/ops.h"

int kl_api_unary(const char *func, kl_unary_fn *build, mlx_array *res, mlx_array a, mlx_stream s);
int kl_api_binary(const char *func, kl_binary_fn *build, mlx_array *res, mlx_array a, mlx_array b,
                  mlx_stream s);
/* A builder with one int behind the array: an axis, a count. */
typedef int kl_unary_int_fn(struct kl_array **out, struct kl_array *a, int n, struct kl_stream *s,
                            struct kl_error **err);
int kl_api_unary_int(const char *func, kl_unary_int_fn *build, mlx_array *res, mlx_array a, int n,
                     mlx_stream s);
/* Two ints: two axes, a count and an axis. */
typedef int kl_unary_int2_fn(struct kl_array **out, struct kl_array *a, int n, int m,
                             struct kl_stream *s, struct kl_error **err);
int kl_api_unary_int2(const char *func, kl_unary_int2_fn *build, mlx_array *res, mlx_array a, int n,
                      int m, mlx_stream s);
/* A list of ints behind the array: axes, a shape. */
typedef int kl_unary_ints_fn(struct kl_array **out, struct kl_array *a, const int *list, size_t n,
                             struct kl_stream *s, struct kl_error **err);
int kl_api_unary_ints(const char *func, kl_unary_ints_fn *build, mlx_array *res, mlx_array a,
                      const int *list, size_t n, mlx_stream s);

/* Functions that are nothing but a builder of one or two operands. */
#define KL_API_UNARY(FUNC, BUILD)                                     \
    int FUNC(mlx_array *res, const mlx_array a, const mlx_stream s) { \
        return kl_api_unary(__func__, BUILD, res, a, s);              \
    }
#define KL_API_BINARY(FUNC, BUILD)                                                       \
    int FUNC(mlx_array *res, const mlx_array a, const mlx_array b, const mlx_stream s) { \
        return kl_api_binary(__func__, BUILD, res, a, b, s);                             \
    }
