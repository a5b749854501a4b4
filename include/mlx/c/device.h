/* device.h - devices: where operations run. A device is a type and a number. */
#ifndef MLX_DEVICE_H
#define MLX_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "keel/export.h"
#include "mlx/c/string.h"
#include "mlx/c/vector.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mlx_device_ {
    void *ctx;
} mlx_device;

typedef enum mlx_device_type_ { MLX_CPU, MLX_GPU } mlx_device_type;

/* An empty handle, for functions that fill a device. */
KEEL_API mlx_device mlx_device_new(void);
/* Makes a name for a device. The device need not exist (mlx_device_is_available tells). Returns an
 * empty handle, and raises an error, for a type outside the enum or a negative index. */
KEEL_API mlx_device mlx_device_new_type(mlx_device_type type, int index);
/* Frees the handle. An empty handle is allowed. Returns 0. */
KEEL_API int mlx_device_free(mlx_device dev);
/* Makes *dev name the device that src names. Fails when src is empty. */
KEEL_API int mlx_device_set(mlx_device *dev, const mlx_device src);
/* Puts a text such as "Device(cpu, 0)" into *str. */
KEEL_API int mlx_device_tostring(mlx_string *str, mlx_device dev);
/* Whether both handles name the same device. False, without an error, when a handle is empty. */
KEEL_API bool mlx_device_equal(mlx_device lhs, mlx_device rhs);
/* The number of the device among those of its type. */
KEEL_API int mlx_device_get_index(int *index, mlx_device dev);
KEEL_API int mlx_device_get_type(mlx_device_type *type, mlx_device dev);
/* The device that the process uses when a call names none: CPU 0, unless mlx_set_default_device has
 * set another. */
KEEL_API int mlx_get_default_device(mlx_device *dev);
/* Sets the default device of the whole process. Fails when the device is not available. */
KEEL_API int mlx_set_default_device(mlx_device dev);
/* Whether work can be run on dev. */
KEEL_API int mlx_device_is_available(bool *avail, mlx_device dev);
/* How many devices of a type there are: 0 or more. */
KEEL_API int mlx_device_count(int *count, mlx_device_type type);

/* ---- facts about a device: a table of keys, each with a string or a size ---- */
typedef struct mlx_device_info_ {
    void *ctx;
} mlx_device_info;

/* An empty handle, for mlx_device_info_get. */
KEEL_API mlx_device_info mlx_device_info_new(void);
/* Fills *info with the facts of dev as they are now. Fails when the device is not available. */
KEEL_API int mlx_device_info_get(mlx_device_info *info, mlx_device dev);
/* Frees the handle. An empty handle is allowed. Returns 0. */
KEEL_API int mlx_device_info_free(mlx_device_info info);
KEEL_API int mlx_device_info_has_key(bool *exists, mlx_device_info info, const char *key);
/* Puts true into *is_string when the value of key is a string, and false when it is a size. Returns
 * 2, without an error, when there is no such key. */
KEEL_API int mlx_device_info_is_string(bool *is_string, mlx_device_info info, const char *key);
/* *value is borrowed from info. Returns 2, without an error, when there is no such key or its value
 * is a size. */
KEEL_API int mlx_device_info_get_string(const char **value, mlx_device_info info, const char *key);
/* Returns 2, without an error, when there is no such key or its value is a string. */
KEEL_API int mlx_device_info_get_size(size_t *value, mlx_device_info info, const char *key);
/* Puts copies of all keys into *keys. */
KEEL_API int mlx_device_info_get_keys(mlx_vector_string *keys, mlx_device_info info);

#ifdef __cplusplus
}
#endif
#endif
