/* attention.c - mlx/c/fast.h: attention. */
#include "api/ops/api_ops.h"

int mlx_fast_scaled_dot_product_attention(mlx_array *res, const mlx_array queries,
                                          const mlx_array keys, const mlx_array values, float scale,
                                          const char *mask_mode, const mlx_array mask_arr,
                                          const mlx_array sinks, const mlx_stream s) {
    struct kl_call c = kl_call_begin(__func__, res);
    struct kl_array *q = kl_in(&c, queries, "queries"), *k = kl_in(&c, keys, "keys");
    struct kl_array *v = kl_in(&c, values, "values"), *out = NULL;
    struct kl_stream *on = kl_in_stream(&c, s);
    if (!c.err)
        kl_attention(&out, q, k, v, scale, mask_mode, kl_in_optional(mask_arr),
                     kl_in_optional(sinks), on, &c.err);
    return kl_call_end(&c, res, out);
}
