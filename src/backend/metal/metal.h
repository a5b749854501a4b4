/* metal.h - the driver for Apple's GPUs below backend/gpu/: Metal, reached in C (metal_api.h).
 *
 * Memory is shared with the host and its hazards are not tracked; command buffers retain nothing:
 * tickets keep blocks alive. Devices are looked for once per process; a process that forked
 * afterwards cannot use them in the child. Any thread may call. */
#pragma once
#include "backend/backend.h"
#include "backend/gpu/driver.h"

/* The number of devices. When it is 0, *why (unless why is NULL) tells users what is missing. */
int kl_metal_count(const char **why);
/* The backend of device `index` (less than the count), made by the first call that succeeds.
 * KL_EDEVICE, KL_ENOMEM. */
int kl_metal_open(int index, struct kl_backend **out, struct kl_error **err);
/* The facts that are known of a device without opening it. */
void kl_metal_facts(int index, struct kl_gpu_facts *out);
/* Start and end of a recording of device 0, which is open, for Xcode. KL_EUNSUPPORTED,
 * KL_ENOMEM. */
int kl_metal_capture_start(const char *path, struct kl_error **err);
int kl_metal_capture_stop(struct kl_error **err);
