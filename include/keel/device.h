/* device.h - the device of a program that names none.
 *
 * The default device of the C API is the CPU. Frameworks that compute on a GPU wherever there is
 * one, as MLX does, call keel_device_choose once before their first default stream. */
#ifndef KEEL_DEVICE_H
#define KEEL_DEVICE_H

#include <stdbool.h>

#include "keel/export.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Makes GPU 0 the default device where that is safe to take for granted, and sets *gpu to whether
 * it did. These are GPUs of CUDA whose compiler (NVRTC) was found, and with KEEL_GPU=cuda or
 * KEEL_GPU=opencl those of that driver. Without KEEL_GPU no OpenCL driver is loaded to find that
 * out: where there is no CUDA, the call takes well under a millisecond. When *gpu is false, nothing
 * was changed. mlx_device_is_available finds every GPU. Returns 0, or 1 with an error raised: gpu
 * is NULL (KEEL_EARG), out of memory (KEEL_ENOMEM). */
KEEL_API int keel_device_choose(bool *gpu);

#ifdef __cplusplus
}
#endif
#endif
