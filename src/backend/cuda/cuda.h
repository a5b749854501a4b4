/* cuda.h - the driver of NVIDIA's devices. The CUDA driver is loaded at run time; see cuda_api.h.
 * Any thread may call. */
#pragma once
#include "backend/backend.h"
#include "backend/gpu/driver.h"

/* The number of devices. *why: immortal text that says what is missing, or NULL. Without NVRTC,
 * kernels that are not yet in the kernel cache cannot run. Initialises the CUDA driver, but makes
 * no context on a device. */
int kl_cuda_count(const char **why);
/* Opens device `index`; its context is made by the first use. One thread at a time. KL_EDEVICE,
 * KL_ENOMEM. */
int kl_cuda_open(int index, struct kl_backend **out, struct kl_error **err);
void kl_cuda_facts(int index, struct kl_gpu_facts *out);
/* Immortal text that says why the i-th of the libraries is missing without which some operations
 * are slower, or NULL when it is present. *library: its key among the device's facts; NULL: there
 * are fewer libraries. Loads the library. */
const char *kl_cuda_lacks(int i, const char **library);
