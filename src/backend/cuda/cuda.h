/* cuda.h - the driver of NVIDIA's devices. Loaded at run time; see cuda_api.h. Any thread may call. */
#pragma once
#include "backend/backend.h"
#include "backend/gpu/port.h"

/* Devices that there are. *why: what is missing, immortal text, NULL when nothing is. With devices but without NVRTC, kernels that are not yet in
 * the kernel cache cannot run. Initialises the driver, but makes no context on a device. */
int kl_cuda_count(const char **why);
/* Device `index`; its context is made by the first use. One thread at a time. KL_EDEVICE, KL_ENOMEM. */
int kl_cuda_open(int index, struct kl_backend **out, struct kl_error **err);
void kl_cuda_facts(int index, struct kl_gpu_facts *out);
/* Why a library is missing without which something is slower: immortal text, and the key of the fact that says so. NULL: it is there. Loads it. */
const char *kl_cuda_lacks(const char **library);
