/* api_transforms.c - mlx/c/transforms.h: evaluation of several arrays. */
#include "api/handles.h"

int mlx_async_eval(const mlx_vector_array outputs) {
    struct kl_call c = {.func = __func__};
    struct kl_vec *v = kl_in_vec(&c, outputs.ctx, "outputs");
    if (!c.err) kl_async_eval(kl_vec_array_items(v), v->n, &c.err);
    return kl_call_end_plain(&c);
}

int mlx_eval(const mlx_vector_array outputs) {
    struct kl_call c = {.func = __func__};
    struct kl_vec *v = kl_in_vec(&c, outputs.ctx, "outputs");
    if (!c.err) kl_eval(kl_vec_array_items(v), v->n, &c.err);
    return kl_call_end_plain(&c);
}
