/* metal.c - mlx/c/metal.h. */
#include "api/handles/handles.h"
#include "runtime/device.h"

int mlx_metal_is_available(bool *res) {
    struct kl_call c = kl_call_begin(__func__, res);
    bool any = false;
    if (!c.err) kl_device_driver_opens("metal", &any, &c.err);
    if (!c.err) *res = any;
    return kl_call_end_plain(&c);
}

int mlx_metal_start_capture(const char *path) {
    struct kl_call c = {.func = __func__};
    if (!path)
        kl_fail(&c.err, KL_EARG, "path is NULL");
    else
        kl_device_capture(path, &c.err);
    return kl_call_end_plain(&c);
}

int mlx_metal_stop_capture(void) {
    struct kl_call c = {.func = __func__};
    kl_device_capture(NULL, &c.err);
    return kl_call_end_plain(&c);
}
