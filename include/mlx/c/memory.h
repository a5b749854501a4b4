/* memory.h - how much memory the data of arrays takes, and how much it may take. All numbers are
 * bytes over all devices. Memory of the caller (managed arrays) is not counted. A function with a
 * result fails only when res is NULL (KEEL_EARG). */
#ifndef MLX_MEMORY_H
#define MLX_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "keel/export.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Gives memory that is kept for reuse back to the system, as far as no running work uses it, and
 * what the C library keeps of freed small objects. Without this call, kept memory goes back when
 * no operation of the last 1024 evaluations needed it, and earlier when other sizes are asked
 * for. */
KEEL_API int mlx_clear_cache(void);
/* The memory held by arrays and by work in flight. */
KEEL_API int mlx_get_active_memory(size_t *res);
/* The memory of freed arrays that is kept for reuse. */
KEEL_API int mlx_get_cache_memory(size_t *res);
/* The soft limit of active and cached memory together. */
KEEL_API int mlx_get_memory_limit(size_t *res);
/* The most active memory there was since the start or the last mlx_reset_peak_memory. */
KEEL_API int mlx_get_peak_memory(size_t *res);
/* Makes the current active memory the peak. */
KEEL_API int mlx_reset_peak_memory(void);
/* Keeps at most `limit` bytes for reuse; 0 switches reuse off. *res is the earlier limit. */
KEEL_API int mlx_set_cache_limit(size_t *res, size_t limit);
/* Sets the soft limit of active and cached memory together. Over the limit, memory kept for reuse
 * is given back, then work waits for earlier work; when neither helps, the limit is exceeded. *res
 * is the earlier limit. */
KEEL_API int mlx_set_memory_limit(size_t *res, size_t limit);
/* Part of the API without an effect: no device of Keel wires memory, so the value is only stored.
 * *res is the earlier value. */
KEEL_API int mlx_set_wired_limit(size_t *res, size_t limit);

#ifdef __cplusplus
}
#endif
#endif
