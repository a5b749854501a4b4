/* rope.c - mlx/c/fast.h: rotary position embedding. */
#include <stdatomic.h>

#include "api/ops/api_ops.h"

/* The array of the offset that was asked for last. A model rotates with one offset in each layer,
 * and a device copies each array of one number for itself, which takes the host longer than a
 * launch. One thread at a time looks; others make an array of their own. */
static struct {
    _Atomic(bool) taken;
    int offset;             /* these two belong to whoever has taken them */
    struct kl_array *array; /* NULL: none yet */
} last;

static int offset_array(struct kl_array **out, int offset, struct kl_error **err) {
    if (atomic_exchange(&last.taken, true)) return kl_array_new_scalar(out, offset, KL_I32, err);
    struct kl_array *before = NULL;
    int rc = KL_OK;
    if (!last.array || last.offset != offset) {
        rc = kl_array_new_scalar(out, offset, KL_I32, err);
        if (!rc) {
            before = last.array;
            last.array = kl_array_retain(*out);
            last.offset = offset;
        }
    } else {
        *out = kl_array_retain(last.array);
    }
    atomic_store(&last.taken, false);
    kl_array_release(before);
    return rc;
}

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
    if (!c.err) offset_array(&at, offset, &c.err);
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
