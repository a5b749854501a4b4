/* map.h - tables with strings as keys and arrays or strings as values.
 *
 * The *_new functions return an empty table; the handle itself is empty only when out of memory
 * (KEEL_ENOMEM). Keys and strings are copied; arrays are kept by reference. A key has one value:
 * inserting it again replaces the value, and the key keeps its place. An iterator walks in the
 * order of first insertion. It keeps its table alive, sees later insertions, and stays valid when
 * the handle of the table is freed. An empty handle, or NULL for a string, is KEEL_EARG. */
#ifndef MLX_MAP_H
#define MLX_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "keel/export.h"
#include "mlx/c/array.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- string to array ---- */
typedef struct mlx_map_string_to_array_ {
    void *ctx;
} mlx_map_string_to_array;

typedef struct mlx_map_string_to_array_iterator_ {
    void *ctx;
    void *map_ctx;
} mlx_map_string_to_array_iterator;

KEEL_API mlx_map_string_to_array mlx_map_string_to_array_new(void);
/* Replaces the content of *map with a copy of src's. */
KEEL_API int mlx_map_string_to_array_set(mlx_map_string_to_array *map,
                                         const mlx_map_string_to_array src);
/* Frees the handle. An empty handle is allowed. Returns 0. */
KEEL_API int mlx_map_string_to_array_free(mlx_map_string_to_array map);
KEEL_API int mlx_map_string_to_array_insert(mlx_map_string_to_array map, const char *key,
                                            const mlx_array value);
/* Puts a handle on the value into *value. Returns 2, without an error, when there is no such
 * key. */
KEEL_API int mlx_map_string_to_array_get(mlx_array *value, const mlx_map_string_to_array map,
                                         const char *key);
/* Makes an iterator at the start of map. The iterator is empty, and an error is raised, when the
 * handle map is empty or no memory is left. */
KEEL_API mlx_map_string_to_array_iterator
mlx_map_string_to_array_iterator_new(mlx_map_string_to_array map);
KEEL_API int mlx_map_string_to_array_iterator_free(mlx_map_string_to_array_iterator it);
/* Puts the next entry into *key and *value. *key is borrowed from the table and valid until the
 * table is freed or replaced. At the end it returns 2, without an error, and writes nothing. */
KEEL_API int mlx_map_string_to_array_iterator_next(const char **key, mlx_array *value,
                                                   mlx_map_string_to_array_iterator it);

/* ---- string to string ---- */
typedef struct mlx_map_string_to_string_ {
    void *ctx;
} mlx_map_string_to_string;

typedef struct mlx_map_string_to_string_iterator_ {
    void *ctx;
    void *map_ctx;
} mlx_map_string_to_string_iterator;

KEEL_API mlx_map_string_to_string mlx_map_string_to_string_new(void);
KEEL_API int mlx_map_string_to_string_set(mlx_map_string_to_string *map,
                                          const mlx_map_string_to_string src);
KEEL_API int mlx_map_string_to_string_free(mlx_map_string_to_string map);
KEEL_API int mlx_map_string_to_string_insert(mlx_map_string_to_string map, const char *key,
                                             const char *value);
/* *value is borrowed from the table and valid until the table is freed or the entry is replaced.
 * Returns 2, without an error, when there is no such key. */
KEEL_API int mlx_map_string_to_string_get(const char **value, const mlx_map_string_to_string map,
                                          const char *key);
KEEL_API mlx_map_string_to_string_iterator
mlx_map_string_to_string_iterator_new(mlx_map_string_to_string map);
KEEL_API int mlx_map_string_to_string_iterator_free(mlx_map_string_to_string_iterator it);
/* Puts the next entry into *key and *value, which are borrowed from the table. Returns 2, without
 * an error, at the end. */
KEEL_API int mlx_map_string_to_string_iterator_next(const char **key, const char **value,
                                                    mlx_map_string_to_string_iterator it);

#ifdef __cplusplus
}
#endif
#endif
