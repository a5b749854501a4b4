/* scan.c - mlx/c/ops.h: cumulative operations. */
#include "api/ops/api_ops.h"

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
