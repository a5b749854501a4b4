/* string.h - strings that the library returns. */
#ifndef MLX_STRING_H
#define MLX_STRING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "keel/export.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A string, owned by its handle. ctx is NULL while the handle is empty; its text is then NULL. */
typedef struct mlx_string_ {
    void *ctx;
} mlx_string;

/* An empty handle, for functions that fill a string. */
KEEL_API mlx_string mlx_string_new(void);
/* A copy of str, which ends with a 0 byte. The handle is empty when str is NULL or no memory is
 * left. */
KEEL_API mlx_string mlx_string_new_data(const char *str);
/* Makes *str a copy of src. Fails when src is empty. */
KEEL_API int mlx_string_set(mlx_string *str, const mlx_string src);
/* The text, borrowed: it is valid until str is freed or overwritten. Returns NULL, and raises an
 * error, when str is empty. */
KEEL_API const char *mlx_string_data(mlx_string str);
/* Frees the string. An empty handle is allowed. Returns 0. */
KEEL_API int mlx_string_free(mlx_string str);

#ifdef __cplusplus
}
#endif
#endif
