/* cuda.c - mlx/c/cuda.h. */
#include "api/handles/handles.h"
#include "runtime/device.h"

int mlx_cuda_is_available(bool *res) {
    struct kl_call c = kl_call_begin(__func__, res);
    bool any = false;
    if (!c.err) kl_device_driver_opens("cuda", &any, &c.err);
    if (!c.err) *res = any;
    return kl_call_end_plain(&c);
}
