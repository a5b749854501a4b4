/* no_f64.h - devices without float64 (Metal's): what they compute in it fails by name, and that is
 * what a test which compares them with the CPU then looks for. */
#pragma once
#include <string.h>

#include "backend/gpu/gpu_internal.h"
#include "graph/array.h"
#include "runtime/device.h"
#include "runtime/stream.h"

static inline bool device_lacks_f64(void) {
    struct kl_backend *b = NULL;
    if (kl_device_backend(KL_GPU, 0, &b, NULL)) return false;
    const struct kl_driver *d = kl_gpu_device_of(b)->driver;
    return !d->has_f64 && !d->ops->run;
}

/* Whether the device refuses to compute the array, since float64 is part of it. */
static inline bool refused_for_f64(struct kl_array *a) {
    struct kl_error *e = NULL;
    if (!device_lacks_f64()) return false;
    const int rc = kl_eval(&a, 1, &e);
    const bool refused = rc == KL_EUNSUPPORTED && strstr(e->message, "no float64");
    kl_error_release(e);
    return refused;
}
