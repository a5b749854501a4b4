/* metal.h - functions for Apple's Metal. */
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

/* Puts into *res whether a device of Metal is there (Apple's own, on macOS 14 or later) and
 * KEEL_GPU allows it. Why there is none is the fact missing_metal of the CPU's device info. Fails
 * when res is NULL (KEEL_EARG). */
KEEL_API int mlx_metal_is_available(bool *res);
/* Start and end of a recording of what the first GPU does, in a file (.gputrace) that Xcode opens.
 * The file must not exist, and the process must have been started with METAL_CAPTURE_ENABLED=1.
 * Fail with KEEL_EUNSUPPORTED where there is no Metal, where it refuses, and where no recording was
 * started; the first one with KEEL_EARG when path is NULL. */
KEEL_API int mlx_metal_start_capture(const char *path);
KEEL_API int mlx_metal_stop_capture(void);

#ifdef __cplusplus
}
#endif
#endif
