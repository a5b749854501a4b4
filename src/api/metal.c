/* metal.c - mlx/c/metal.h. */
#include "api/handles/handles.h"

int mlx_metal_is_available(bool *res) {
    struct kl_call c = kl_call_begin(__func__, res);
    if (!c.err) *res = false;
    return kl_call_end_plain(&c);
}

static int refuse(struct kl_call *c) {
    if (!c->err)
        kl_fail(&c->err, KL_EUNSUPPORTED, "there is no Metal here, so nothing of it is recorded");
    return kl_call_end_plain(c);
}

int mlx_metal_start_capture(const char *path) {
    struct kl_call c = {.func = __func__};
    if (!path) kl_fail(&c.err, KL_EARG, "path is NULL");
    return refuse(&c);
}

int mlx_metal_stop_capture(void) {
    struct kl_call c = {.func = __func__};
    return refuse(&c);
}
