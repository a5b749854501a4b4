/* opencl.h - the driver for OpenCL 1.2 devices below backend/gpu/: GPUs of any vendor, and PoCL's CPU, on which it is tested.
 *
 * Devices are numbered over all platforms, GPUs first. Looking for them is done once per process, on the first call; a process that forked
 * afterwards cannot use them in the child. Any thread may call. */
#pragma once
#include "backend/backend.h"
#include "backend/gpu/port.h"

/* How many devices there are. 0: *why (unless why is NULL) says what is missing, for users. */
int kl_opencl_count(const char **why);
/* The backend of device `index` (below the count), made on the first call that succeeds. KL_EDEVICE, KL_ENOMEM. */
int kl_opencl_open(int index, struct kl_backend **out, struct kl_error **err);
/* What is known of a device without opening it. */
void kl_opencl_facts(int index, struct kl_gpu_facts *out);
/* Below the count: whether it calls itself a GPU. */
bool kl_opencl_is_gpu(int index);

#ifdef KL_TEST_HOOKS
struct kl_driver;
/* Of an opened device: the two seams, to be tested without the layers above. */
struct kl_driver *kl_opencl_driver(int index);
struct kl_port *kl_opencl_port(int index);
/* Whether programs are stored as sources, or as the binaries of which nothing may be stored yet;
 * what held before. */
bool kl_opencl_store_sources(int index, bool sources);
#endif
