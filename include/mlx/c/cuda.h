/* cuda.h - whether a CUDA device can be used. */
#ifndef MLX_CUDA_H
#define MLX_CUDA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "keel/export.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Puts true into *res when a GPU of this process is driven through CUDA; mlx_fast_cuda_kernel_apply
 * then takes its streams. The answer is false when KEEL_GPU names another driver. Fails when res is
 * NULL (KEEL_EARG), or when there is no memory to look for devices (KEEL_ENOMEM). */
KEEL_API int mlx_cuda_is_available(bool *res);

#ifdef __cplusplus
}
#endif
#endif
