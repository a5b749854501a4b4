/* metal.h - Apple's Metal, for which there is no driver: all of it says so. */
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

/* False. Fails when res is NULL (KEEL_EARG). */
KEEL_API int mlx_metal_is_available(bool *res);
/* Recording what a GPU does, for Xcode. Always fails: KEEL_EUNSUPPORTED, or KEEL_EARG when path is
 * NULL. */
KEEL_API int mlx_metal_start_capture(const char *path);
KEEL_API int mlx_metal_stop_capture(void);

#ifdef __cplusplus
}
#endif
#endif
