/* opencl.h - the driver for OpenCL 1.2 devices below backend/gpu/: GPUs of any vendor, and PoCL on
 * the processor, on which the driver is tested.
 *
 * Devices are numbered over all platforms, GPUs first. The first call looks for them, once per
 * process; a process that forked afterwards cannot use them in the child. Any thread may call. */
#pragma once
#include "backend/backend.h"
#include "backend/gpu/driver.h"

/* The number of devices. When it is 0, *why (unless why is NULL) tells users what is missing. */
int kl_opencl_count(const char **why);
/* The backend of device `index` (less than the count), made by the first call that succeeds.
 * KL_EDEVICE, KL_ENOMEM. */
int kl_opencl_open(int index, struct kl_backend **out, struct kl_error **err);
/* The facts that are known of a device without opening it. */
void kl_opencl_facts(int index, struct kl_gpu_facts *out);
/* Whether device `index` (less than the count) reports itself as a GPU. */
bool kl_opencl_is_gpu(int index);

#ifdef KL_TEST_HOOKS
/* The driver of an opened device, for tests without the layers above. */
struct kl_driver *kl_opencl_driver(int index);
/* Whether programs are stored as sources from now on, or as binaries. Before binaries are chosen,
 * nothing may be in the kernel cache. Returns the previous setting. */
bool kl_opencl_store_sources(int index, bool sources);
#endif
