/* rope.c - mlx/c/fast.h: rotary position embedding. */
#include "api/ops/api_ops.h"

static void rope(struct kl_call *c, struct kl_array **out, struct kl_array *x, int dims,
                 bool traditional, mlx_optional_float base, float scale, struct kl_array *offset,
                 mlx_array freqs, struct kl_stream *s) {
    struct kl_rope_base b = {base.has_value, base.has_value ? base.value : 0};
    kl_rope(out, x, dims, traditional, b, scale, offset, kl_in_optional(freqs), s, &c->err);
}

int mlx_fast_rope(mlx_array *res, const mlx_array x, int dims, bool traditional,
                  mlx_optional_float base, float scale, int offset, const mlx_array freqs,
                  const mlx_stream s) {
    struct kl_call c = kl_call_begin(__func__, res);
    struct kl_array *in = kl_in(&c, x, "x"), *at = NULL, *out = NULL;
    struct kl_stream *on = kl_in_stream(&c, s);
    if (!c.err) kl_array_new_scalar(&at, offset, KL_I32, &c.err);
    if (!c.err) rope(&c, &out, in, dims, traditional, base, scale, at, freqs, on);
    kl_array_release(at);
    return kl_call_end(&c, res, out);
}

int mlx_fast_rope_dynamic(mlx_array *res, const mlx_array x, int dims, bool traditional,
                          mlx_optional_float base, float scale, const mlx_array offset,
                          const mlx_array freqs, const mlx_stream s) {
    struct kl_call c = kl_call_begin(__func__, res);
    struct kl_array *in = kl_in(&c, x, "x"), *at = kl_in(&c, offset, "offset"), *out = NULL;
    struct kl_stream *on = kl_in_stream(&c, s);
    if (!c.err) rope(&c, &out, in, dims, traditional, base, scale, at, freqs, on);
    return kl_call_end(&c, res, out);
}
