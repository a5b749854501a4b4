/* create.c - mlx/c/ops.h: arrays from nothing, matrices by their diagonals, windows. */
#include "api/ops/api_ops.h"

/* ---- arrays from nothing ---- */
typedef int fill_fn(struct kl_array **out, const int *shape, size_t shape_num, int dtype,
                    struct kl_stream *s, struct kl_error **err);

static int fill(const char *func, fill_fn *build, mlx_array *res, const int *shape,
                size_t shape_num, mlx_dtype dtype, mlx_stream s) {
    struct kl_call c = kl_call_begin(func, res);
    struct kl_stream *on = kl_in_stream(&c, s);
    struct kl_array *out = NULL;
    if (!c.err) build(&out, shape, shape_num, (int)dtype, on, &c.err);
    return kl_call_end(&c, res, out);
}

int mlx_zeros(mlx_array *res, const int *shape, size_t shape_num, mlx_dtype dtype,
              const mlx_stream s) {
    return fill(__func__, kl_zeros, res, shape, shape_num, dtype, s);
}

int mlx_ones(mlx_array *res, const int *shape, size_t shape_num, mlx_dtype dtype,
             const mlx_stream s) {
    return fill(__func__, kl_ones, res, shape, shape_num, dtype, s);
}

int mlx_zeros_like(mlx_array *res, const mlx_array a, const mlx_stream s) {
    return kl_api_unary(__func__, kl_zeros_like, res, a, s);
}

int mlx_ones_like(mlx_array *res, const mlx_array a, const mlx_stream s) {
    return kl_api_unary(__func__, kl_ones_like, res, a, s);
}

int mlx_full(mlx_array *res, const int *shape, size_t shape_num, const mlx_array vals,
             mlx_dtype dtype, const mlx_stream s) {
    struct kl_call c = kl_call_begin(__func__, res);
    struct kl_array *with = kl_in(&c, vals, "vals"), *out = NULL;
    struct kl_stream *on = kl_in_stream(&c, s);
    if (!c.err) kl_full(&out, shape, shape_num, with, (int)dtype, on, &c.err);
    return kl_call_end(&c, res, out);
}

int mlx_full_like(mlx_array *res, const mlx_array a, const mlx_array vals, mlx_dtype dtype,
                  const mlx_stream s) {
    struct kl_call c = kl_call_begin(__func__, res);
    struct kl_array *like = kl_in(&c, a, "a"), *with = kl_in(&c, vals, "vals"), *out = NULL;
    struct kl_stream *on = kl_in_stream(&c, s);
    if (!c.err) kl_full_like(&out, like, with, (int)dtype, on, &c.err);
    return kl_call_end(&c, res, out);
}

int mlx_arange(mlx_array *res, double start, double stop, double step, mlx_dtype dtype,
               const mlx_stream s) {
    struct kl_call c = kl_call_begin(__func__, res);
    struct kl_stream *on = kl_in_stream(&c, s);
    struct kl_array *out = NULL;
    if (!c.err) kl_arange(&out, start, stop, step, (int)dtype, on, &c.err);
    return kl_call_end(&c, res, out);
}

/* ---- matrices by their diagonals ---- */
int mlx_eye(mlx_array *res, int n, int m, int k, mlx_dtype dtype, const mlx_stream s) {
    struct kl_call c = kl_call_begin(__func__, res);
    struct kl_stream *on = kl_in_stream(&c, s);
    struct kl_array *out = NULL;
    if (!c.err) kl_eye(&out, n, m, k, (int)dtype, on, &c.err);
    return kl_call_end(&c, res, out);
}

int mlx_identity(mlx_array *res, int n, mlx_dtype dtype, const mlx_stream s) {
    struct kl_call c = kl_call_begin(__func__, res);
    struct kl_stream *on = kl_in_stream(&c, s);
    struct kl_array *out = NULL;
    if (!c.err) kl_identity(&out, n, (int)dtype, on, &c.err);
    return kl_call_end(&c, res, out);
}

int mlx_tri(mlx_array *res, int n, int m, int k, mlx_dtype type, const mlx_stream s) {
    struct kl_call c = kl_call_begin(__func__, res);
    struct kl_stream *on = kl_in_stream(&c, s);
    struct kl_array *out = NULL;
    if (!c.err) kl_tri(&out, n, m, k, (int)type, on, &c.err);
    return kl_call_end(&c, res, out);
}

int mlx_tril(mlx_array *res, const mlx_array x, int k, const mlx_stream s) {
    return kl_api_unary_int(__func__, kl_tril, res, x, k, s);
}

int mlx_triu(mlx_array *res, const mlx_array x, int k, const mlx_stream s) {
    return kl_api_unary_int(__func__, kl_triu, res, x, k, s);
}

int mlx_diag(mlx_array *res, const mlx_array a, int k, const mlx_stream s) {
    return kl_api_unary_int(__func__, kl_diag, res, a, k, s);
}

int mlx_trace(mlx_array *res, const mlx_array a, int offset, int axis1, int axis2, mlx_dtype dtype,
              const mlx_stream s) {
    struct kl_call c = kl_call_begin(__func__, res);
    struct kl_array *in = kl_in(&c, a, "a"), *out = NULL;
    struct kl_stream *on = kl_in_stream(&c, s);
    if (!c.err) kl_diagonal_sum(&out, in, offset, axis1, axis2, (int)dtype, on, &c.err);
    return kl_call_end(&c, res, out);
}

/* ---- numbers from parameters ---- */
int mlx_linspace(mlx_array *res, double start, double stop, int num, mlx_dtype dtype,
                 const mlx_stream s) {
    struct kl_call c = kl_call_begin(__func__, res);
    struct kl_stream *on = kl_in_stream(&c, s);
    struct kl_array *out = NULL;
    if (!c.err) kl_linspace(&out, start, stop, num, (int)dtype, on, &c.err);
    return kl_call_end(&c, res, out);
}

static int window(const char *func, kl_window_fn *build, mlx_array *res, int n, mlx_stream s) {
    struct kl_call c = kl_call_begin(func, res);
    struct kl_stream *on = kl_in_stream(&c, s);
    struct kl_array *out = NULL;
    if (!c.err) build(&out, n, on, &c.err);
    return kl_call_end(&c, res, out);
}

int mlx_hanning(mlx_array *res, int M, const mlx_stream s) {
    return window(__func__, kl_hanning, res, M, s);
}

int mlx_hamming(mlx_array *res, int M, const mlx_stream s) {
    return window(__func__, kl_hamming, res, M, s);
}

int mlx_blackman(mlx_array *res, int M, const mlx_stream s) {
    return window(__func__, kl_blackman, res, M, s);
}

int mlx_bartlett(mlx_array *res, int M, const mlx_stream s) {
    return window(__func__, kl_bartlett, res, M, s);
}
