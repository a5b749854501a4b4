/* map.h - tables from strings to arrays and to strings.
 *
 * The *_new functions give a live table (its handle is empty only when out of memory). Keys and
 * strings are copied in, arrays by reference. A key has one value: inserting again replaces it,
 * and the key keeps its place. Iterators walk in the order of first insertion; they keep their
 * table alive, see later insertions, and survive the freeing of the table's handle. */
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
/* An empty handle is fine. Returns 0. */
KEEL_API int mlx_map_string_to_array_free(mlx_map_string_to_array map);
KEEL_API int mlx_map_string_to_array_insert(mlx_map_string_to_array map, const char *key,
                                            const mlx_array value);
/* 2, without an error: no such key. */
KEEL_API int mlx_map_string_to_array_get(mlx_array *value, const mlx_map_string_to_array map,
                                         const char *key);
/* At the start of map. Empty, and an error, when map is empty as a handle or no memory is left. */
KEEL_API mlx_map_string_to_array_iterator
mlx_map_string_to_array_iterator_new(mlx_map_string_to_array map);
KEEL_API int mlx_map_string_to_array_iterator_free(mlx_map_string_to_array_iterator it);
/* The next entry. *key is borrowed from the table: valid until that is freed or replaced. 2,
 * without an error, at the end; then nothing is written. */
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
/* *value is borrowed from the table: valid until that is freed or the entry replaced. 2, without
 * an error: no such key. */
KEEL_API int mlx_map_string_to_string_get(const char **value, const mlx_map_string_to_string map,
                                          const char *key);
KEEL_API mlx_map_string_to_string_iterator
mlx_map_string_to_string_iterator_new(mlx_map_string_to_string map);
KEEL_API int mlx_map_string_to_string_iterator_free(mlx_map_string_to_string_iterator it);
/* The next entry; key and value are borrowed from the table. 2, without an error, at the end. */
KEEL_API int mlx_map_string_to_string_iterator_next(const char **key, const char **value,
                                                    mlx_map_string_to_string_iterator it);

#ifdef __cplusplus
}
#endif
#endif
