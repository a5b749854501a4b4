/* norm.c - mlx/c/fast.h: norms. */
#include "api/ops/api_ops.h"

int mlx_fast_rms_norm(mlx_array *res, const mlx_array x, const mlx_array weight, float eps,
                      const mlx_stream s) {
    struct kl_call c = kl_call_begin(__func__, res);
    struct kl_array *in = kl_in(&c, x, "x"), *out = NULL;
    struct kl_stream *on = kl_in_stream(&c, s);
    if (!c.err) kl_rms_norm(&out, in, kl_in_optional(weight), eps, on, &c.err);
    return kl_call_end(&c, res, out);
}

int mlx_fast_layer_norm(mlx_array *res, const mlx_array x, const mlx_array weight,
                        const mlx_array bias, float eps, const mlx_stream s) {
    struct kl_call c = kl_call_begin(__func__, res);
    struct kl_array *in = kl_in(&c, x, "x"), *out = NULL;
    struct kl_stream *on = kl_in_stream(&c, s);
    if (!c.err)
        kl_layer_norm(&out, in, kl_in_optional(weight), kl_in_optional(bias), eps, on, &c.err);
    return kl_call_end(&c, res, out);
}
