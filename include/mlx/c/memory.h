/* memory.h - how much memory array data takes, and how much it may take. All figures are bytes,
 * over all devices; memory of the user (managed arrays) is not counted. Functions with a result
 * fail only when res is NULL. */
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

/* Gives memory that is kept for reuse back to the system, as far as no running work uses it. */
KEEL_API int mlx_clear_cache(void);
/* Held by arrays and by work in flight. */
KEEL_API int mlx_get_active_memory(size_t *res);
/* Freed by arrays, kept for reuse. */
KEEL_API int mlx_get_cache_memory(size_t *res);
/* The soft limit of active and cached memory together. */
KEEL_API int mlx_get_memory_limit(size_t *res);
/* The most active memory there was since the start or the last mlx_reset_peak_memory. */
KEEL_API int mlx_get_peak_memory(size_t *res);
/* Makes the current active memory the peak. */
KEEL_API int mlx_reset_peak_memory(void);
/* Keeps at most `limit` bytes for reuse; *res is the limit before. 0 switches reuse off. */
KEEL_API int mlx_set_cache_limit(size_t *res, size_t limit);
/* Sets the soft limit: over it, work waits for earlier work and kept memory is given back; when
 * neither helps, the limit is exceeded. *res is the limit before. */
KEEL_API int mlx_set_memory_limit(size_t *res, size_t limit);
/* Kept for the API: no device of Keel wires memory, so the value is only remembered. *res is the
 * value before. */
KEEL_API int mlx_set_wired_limit(size_t *res, size_t limit);

#ifdef __cplusplus
}
#endif
#endif
