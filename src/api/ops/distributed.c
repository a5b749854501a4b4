/* distributed.c - mlx/c/distributed.h. */
#include "api/ops/api_ops.h"
#include "ops/distributed.h"

static int of_all(const char *func, kl_collective_fn *build, mlx_array *res, mlx_array x,
                  mlx_distributed_group group, mlx_stream s) {
    struct kl_call c = kl_call_begin(func, res);
    struct kl_array *in = kl_in(&c, x, "x"), *out = NULL;
    struct kl_stream *on = kl_in_stream(&c, s);
    if (!c.err) build(&out, in, kl_in_optional_group(group), on, &c.err);
    return kl_call_end(&c, res, out);
}

#define OF_ALL(FUNC, BUILD)                                                        \
    int FUNC(mlx_array *res, const mlx_array x, const mlx_distributed_group group, \
             const mlx_stream s) {                                                 \
        return of_all(__func__, BUILD, res, x, group, s);                          \
    }
OF_ALL(mlx_distributed_all_gather, kl_all_gather)
OF_ALL(mlx_distributed_all_max, kl_all_max)
OF_ALL(mlx_distributed_all_min, kl_all_min)
OF_ALL(mlx_distributed_all_sum, kl_all_sum)
OF_ALL(mlx_distributed_sum_scatter, kl_sum_scatter)

int mlx_distributed_send(mlx_array *res, const mlx_array x, int dst,
                         const mlx_distributed_group group, const mlx_stream s) {
    struct kl_call c = kl_call_begin(__func__, res);
    struct kl_array *in = kl_in(&c, x, "x"), *out = NULL;
    struct kl_stream *on = kl_in_stream(&c, s);
    if (!c.err) kl_send(&out, in, dst, kl_in_optional_group(group), on, &c.err);
    return kl_call_end(&c, res, out);
}

int mlx_distributed_recv(mlx_array *res, const int *shape, size_t shape_num, mlx_dtype dtype,
                         int src, const mlx_distributed_group group, const mlx_stream s) {
    struct kl_call c = kl_call_begin(__func__, res);
    struct kl_array *out = NULL;
    struct kl_stream *on = kl_in_stream(&c, s);
    if (!c.err)
        kl_recv(&out, shape, shape_num, (int)dtype, src, kl_in_optional_group(group), on, &c.err);
    return kl_call_end(&c, res, out);
}

int mlx_distributed_recv_like(mlx_array *res, const mlx_array x, int src,
                              const mlx_distributed_group group, const mlx_stream s) {
    struct kl_call c = kl_call_begin(__func__, res);
    struct kl_array *in = kl_in(&c, x, "x"), *out = NULL;
    struct kl_stream *on = kl_in_stream(&c, s);
    if (!c.err) kl_recv_like(&out, in, src, kl_in_optional_group(group), on, &c.err);
    return kl_call_end(&c, res, out);
}
