/* metal.h - functions for Apple's Metal. Keel has no Metal driver, and these functions say so. */
#ifndef MLX_METAL_H
#define MLX_METAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "keel/export.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Puts false into *res. Fails when res is NULL (KEEL_EARG). */
KEEL_API int mlx_metal_is_available(bool *res);
/* Would start and stop a recording of what a GPU does, for Xcode. Both always fail with
 * KEEL_EUNSUPPORTED; the first one with KEEL_EARG when path is NULL. */
KEEL_API int mlx_metal_start_capture(const char *path);
KEEL_API int mlx_metal_stop_capture(void);

#ifdef __cplusplus
}
#endif
#endif
