/* cuda.c - mlx/c/cuda.h. */
#include <string.h>

#include "api/handles/handles.h"
#include "backend/backend.h"
#include "runtime/device.h"

int mlx_cuda_is_available(bool *res) {
    struct kl_call c = kl_call_begin(__func__, res);
    bool any = false;
    int n = c.err || !kl_device_driver_is_there("cuda") ? 0 : kl_device_count(KL_GPU);
    for (int i = 0; i < n && !any && !c.err; i++) {
        struct kl_backend *b;
        if (kl_device_backend(KL_GPU, i, &b, &c.err) == KL_OK)
            any = strncmp(b->name, "cuda", 4) == 0;
    }
    if (!c.err) *res = any;
    return kl_call_end_plain(&c);
}
