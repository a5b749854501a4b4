/* vector.h - growable lists of arrays, of lists of arrays, of ints, of strings.
 *
 * The *_new functions return a list; the handle itself is empty only when out of memory
 * (KEEL_ENOMEM). Elements are copied into a list: arrays by reference, strings and inner lists by
 * value. Where a function takes `data` and `size`, data may be NULL when size is 0; when one
 * element is not valid (an empty handle or NULL is KEEL_EARG), none is added. *_free accepts an
 * empty handle and returns 0. *_size returns 0 and raises an error for an empty handle. */
#ifndef MLX_VECTOR_H
#define MLX_VECTOR_H

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

typedef struct mlx_vector_array_ {
    void *ctx;
} mlx_vector_array;

typedef struct mlx_vector_vector_array_ {
    void *ctx;
} mlx_vector_vector_array;

typedef struct mlx_vector_int_ {
    void *ctx;
} mlx_vector_int;

typedef struct mlx_vector_string_ {
    void *ctx;
} mlx_vector_string;

/* ---- lists of arrays ---- */
KEEL_API mlx_vector_array mlx_vector_array_new(void);
/* Replaces the content of *vec with a copy of src's. */
KEEL_API int mlx_vector_array_set(mlx_vector_array *vec, const mlx_vector_array src);
KEEL_API int mlx_vector_array_free(mlx_vector_array vec);
KEEL_API mlx_vector_array mlx_vector_array_new_data(const mlx_array *data, size_t size);
KEEL_API mlx_vector_array mlx_vector_array_new_value(const mlx_array val);
/* Replaces the content of *vec with `size` arrays. */
KEEL_API int mlx_vector_array_set_data(mlx_vector_array *vec, const mlx_array *data, size_t size);
KEEL_API int mlx_vector_array_set_value(mlx_vector_array *vec, const mlx_array val);
KEEL_API int mlx_vector_array_append_data(mlx_vector_array vec, const mlx_array *data, size_t size);
KEEL_API int mlx_vector_array_append_value(mlx_vector_array vec, const mlx_array val);
KEEL_API size_t mlx_vector_array_size(mlx_vector_array vec);
/* Puts a handle on element idx into *res. KEEL_EARG: idx is not below the size, which holds for the
 * other lists as well. */
KEEL_API int mlx_vector_array_get(mlx_array *res, const mlx_vector_array vec, size_t idx);

/* ---- lists of lists of arrays ---- */
KEEL_API mlx_vector_vector_array mlx_vector_vector_array_new(void);
KEEL_API int mlx_vector_vector_array_set(mlx_vector_vector_array *vec,
                                         const mlx_vector_vector_array src);
KEEL_API int mlx_vector_vector_array_free(mlx_vector_vector_array vec);
KEEL_API mlx_vector_vector_array mlx_vector_vector_array_new_data(const mlx_vector_array *data,
                                                                  size_t size);
KEEL_API mlx_vector_vector_array mlx_vector_vector_array_new_value(const mlx_vector_array val);
KEEL_API int mlx_vector_vector_array_set_data(mlx_vector_vector_array *vec,
                                              const mlx_vector_array *data, size_t size);
KEEL_API int mlx_vector_vector_array_set_value(mlx_vector_vector_array *vec,
                                               const mlx_vector_array val);
KEEL_API int mlx_vector_vector_array_append_data(mlx_vector_vector_array vec,
                                                 const mlx_vector_array *data, size_t size);
KEEL_API int mlx_vector_vector_array_append_value(mlx_vector_vector_array vec,
                                                  const mlx_vector_array val);
KEEL_API size_t mlx_vector_vector_array_size(mlx_vector_vector_array vec);
/* Puts a copy of inner list idx into *res. */
KEEL_API int mlx_vector_vector_array_get(mlx_vector_array *res, const mlx_vector_vector_array vec,
                                         size_t idx);

/* ---- lists of ints; the functions only read data ---- */
KEEL_API mlx_vector_int mlx_vector_int_new(void);
KEEL_API int mlx_vector_int_set(mlx_vector_int *vec, const mlx_vector_int src);
KEEL_API int mlx_vector_int_free(mlx_vector_int vec);
KEEL_API mlx_vector_int mlx_vector_int_new_data(int *data, size_t size);
KEEL_API mlx_vector_int mlx_vector_int_new_value(int val);
KEEL_API int mlx_vector_int_set_data(mlx_vector_int *vec, int *data, size_t size);
KEEL_API int mlx_vector_int_set_value(mlx_vector_int *vec, int val);
KEEL_API int mlx_vector_int_append_data(mlx_vector_int vec, int *data, size_t size);
KEEL_API int mlx_vector_int_append_value(mlx_vector_int vec, int val);
KEEL_API size_t mlx_vector_int_size(mlx_vector_int vec);
KEEL_API int mlx_vector_int_get(int *res, const mlx_vector_int vec, size_t idx);

/* ---- lists of strings; the functions only read data ---- */
KEEL_API mlx_vector_string mlx_vector_string_new(void);
KEEL_API int mlx_vector_string_set(mlx_vector_string *vec, const mlx_vector_string src);
KEEL_API int mlx_vector_string_free(mlx_vector_string vec);
KEEL_API mlx_vector_string mlx_vector_string_new_data(const char **data, size_t size);
KEEL_API mlx_vector_string mlx_vector_string_new_value(const char *val);
KEEL_API int mlx_vector_string_set_data(mlx_vector_string *vec, const char **data, size_t size);
KEEL_API int mlx_vector_string_set_value(mlx_vector_string *vec, const char *val);
KEEL_API int mlx_vector_string_append_data(mlx_vector_string vec, const char **data, size_t size);
KEEL_API int mlx_vector_string_append_value(mlx_vector_string vec, const char *val);
KEEL_API size_t mlx_vector_string_size(mlx_vector_string vec);
/* *res is borrowed from vec: it is valid until vec is freed, replaced or changed at idx. The text
 * must not be written. */
KEEL_API int mlx_vector_string_get(char **res, const mlx_vector_string vec, size_t idx);

#ifdef __cplusplus
}
#endif
#endif
