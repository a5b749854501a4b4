/* array.h - arrays: handles on values that are computed when somebody needs them.
 *
 * An array has a dtype, a shape and, once evaluated, data; it never changes. A handle refers to
 * it; several may refer to one array. Shape and strides are known from the start; reading an
 * element evaluates. A 0-d array is a scalar: its shape is empty, its size 1. When the operation
 * behind an array fails, every call that reads the array fails with that operation's error. An
 * empty handle where an array is wanted is an error. See mlx.h for what holds for every
 * function. */
#ifndef MLX_ARRAY_H
#define MLX_ARRAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "keel/export.h"
#include "mlx/c/half.h"
#include "mlx/c/string.h"

#if defined(_MSC_VER)
#include <complex.h>
typedef _Fcomplex mlx_complex64_t;
#elif defined(__GNUC__) || defined(__clang__)
__extension__ typedef float _Complex mlx_complex64_t; /* also in C++ */
#else
typedef float _Complex mlx_complex64_t;
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* A handle on an array; empty while ctx is NULL. */
typedef struct mlx_array_ {
    void *ctx;
} mlx_array;

/* An empty handle, for operands that are absent. */
static const mlx_array mlx_array_empty = {NULL};

typedef enum mlx_dtype_ {
    MLX_BOOL, /* one byte, 0 or 1 */
    MLX_UINT8,
    MLX_UINT16,
    MLX_UINT32,
    MLX_UINT64,
    MLX_INT8,
    MLX_INT16,
    MLX_INT32,
    MLX_INT64,
    MLX_FLOAT16,
    MLX_FLOAT32,
    MLX_FLOAT64,
    MLX_BFLOAT16,
    MLX_COMPLEX64, /* two floats: real, imaginary */
} mlx_dtype;

/* Bytes of an element. 0, and an error, outside the enum. */
KEEL_API size_t mlx_dtype_size(mlx_dtype dtype);

/* ---- handles ---- */
/* An empty handle, for functions that fill an array. */
KEEL_API mlx_array mlx_array_new(void);
/* Drops the handle; the array goes with its last handle and the last operation that needs it.
 * Returns 0. */
KEEL_API int mlx_array_free(mlx_array arr);
/* Makes *arr a handle on the array of src. Fails when src is empty. */
KEEL_API int mlx_array_set(mlx_array *arr, const mlx_array src);

/* ---- arrays from values: 0-d, of the named dtype; empty handle, and an error, when out of
 * memory ---- */
KEEL_API mlx_array mlx_array_new_bool(bool val);
KEEL_API mlx_array mlx_array_new_int(int val); /* int32 */
KEEL_API mlx_array mlx_array_new_float32(float val);
KEEL_API mlx_array mlx_array_new_float(float val); /* float32 */
KEEL_API mlx_array mlx_array_new_float64(double val);
KEEL_API mlx_array mlx_array_new_double(double val);                      /* float64 */
KEEL_API mlx_array mlx_array_new_complex(float real_val, float imag_val); /* complex64 */
/* The same into a result. */
KEEL_API int mlx_array_set_bool(mlx_array *arr, bool val);
KEEL_API int mlx_array_set_int(mlx_array *arr, int val);
KEEL_API int mlx_array_set_float32(mlx_array *arr, float val);
KEEL_API int mlx_array_set_float(mlx_array *arr, float val);
KEEL_API int mlx_array_set_float64(mlx_array *arr, double val);
KEEL_API int mlx_array_set_double(mlx_array *arr, double val);
KEEL_API int mlx_array_set_complex(mlx_array *arr, float real_val, float imag_val);

/* ---- arrays from memory: row-major data of `dim` extents in shape (which may be NULL when dim
 * is 0) ---- Errors: negative dim or extent, a dtype outside the enum, data NULL although there
 * are elements, no memory. */
/* Copies the data. */
KEEL_API mlx_array mlx_array_new_data(const void *data, const int *shape, int dim, mlx_dtype dtype);
KEEL_API int mlx_array_set_data(mlx_array *arr, const void *data, const int *shape, int dim,
                                mlx_dtype dtype);
/* Uses the data where it lies, which must stay as it is until dtor(data) is called: once, from
 * any thread, when nothing needs it any more. dtor may be NULL. When the call fails dtor is not
 * called. */
KEEL_API mlx_array mlx_array_new_data_managed(void *data, const int *shape, int dim,
                                              mlx_dtype dtype, void (*dtor)(void *));
/* The same, with dtor(payload). */
KEEL_API mlx_array mlx_array_new_data_managed_payload(void *data, const int *shape, int dim,
                                                      mlx_dtype dtype, void *payload,
                                                      void (*dtor)(void *));

/* ---- what an array is: nothing here evaluates; 0 or NULL, and an error, for an empty handle
 * ---- */
KEEL_API size_t mlx_array_itemsize(const mlx_array arr); /* bytes of an element */
KEEL_API size_t mlx_array_size(const mlx_array arr);     /* elements */
KEEL_API size_t mlx_array_nbytes(const mlx_array arr);   /* size * itemsize */
KEEL_API size_t mlx_array_ndim(const mlx_array arr);     /* axes */
/* ndim extents, borrowed: valid until the handle is freed or overwritten. */
KEEL_API const int *mlx_array_shape(const mlx_array arr);
/* ndim strides in elements, borrowed likewise. The values are signed, whatever the type says: a
 * reversed slice has (size_t)-1. They are final from the start. */
KEEL_API const size_t *mlx_array_strides(const mlx_array arr);
/* The extent of one axis; negative axes count from the end. 0, and an error, when out of range. */
KEEL_API int mlx_array_dim(const mlx_array arr, int dim);
KEEL_API mlx_dtype mlx_array_dtype(const mlx_array arr);

/* ---- evaluation ---- */
/* Computes arr and all that it needs, and waits. Fails with the error of the operation that
 * failed. */
KEEL_API int mlx_array_eval(mlx_array arr);
/* Text of the array: "array([1, 2], dtype=float32)"; axes of more than 6 elements show 3 at each
 * end. Evaluates. */
KEEL_API int mlx_array_tostring(mlx_string *str, const mlx_array arr);

/* The element of an array of size 1. Evaluates. Never converts: the bytes are taken as the type
 * in the name, so an element of another width is an error (float16 and bfloat16 may be read as
 * uint16). A bool is true when its byte is not 0. */
KEEL_API int mlx_array_item_bool(bool *res, const mlx_array arr);
KEEL_API int mlx_array_item_uint8(uint8_t *res, const mlx_array arr);
KEEL_API int mlx_array_item_uint16(uint16_t *res, const mlx_array arr);
KEEL_API int mlx_array_item_uint32(uint32_t *res, const mlx_array arr);
KEEL_API int mlx_array_item_uint64(uint64_t *res, const mlx_array arr);
KEEL_API int mlx_array_item_int8(int8_t *res, const mlx_array arr);
KEEL_API int mlx_array_item_int16(int16_t *res, const mlx_array arr);
KEEL_API int mlx_array_item_int32(int32_t *res, const mlx_array arr);
KEEL_API int mlx_array_item_int64(int64_t *res, const mlx_array arr);
KEEL_API int mlx_array_item_float32(float *res, const mlx_array arr);
KEEL_API int mlx_array_item_float64(double *res, const mlx_array arr);
KEEL_API int mlx_array_item_complex64(mlx_complex64_t *res, const mlx_array arr);
KEEL_API int mlx_array_item_float16(keel_float16_t *res, const mlx_array arr);
KEEL_API int mlx_array_item_bfloat16(keel_bfloat16_t *res, const mlx_array arr);

/* The address of element 0; element (i, j, ...) lies i * strides[0] + j * strides[1] + ...
 * elements on (mlx_contiguous makes a row-major array). Evaluates. Borrowed: valid until the
 * handle is freed or overwritten; the data must not be written. Never converts; NULL, and an
 * error, when the array has failed or its elements have another width. The address for an array
 * without elements is not NULL and must not be read. */
KEEL_API const bool *mlx_array_data_bool(const mlx_array arr);
KEEL_API const uint8_t *mlx_array_data_uint8(const mlx_array arr);
KEEL_API const uint16_t *mlx_array_data_uint16(const mlx_array arr);
KEEL_API const uint32_t *mlx_array_data_uint32(const mlx_array arr);
KEEL_API const uint64_t *mlx_array_data_uint64(const mlx_array arr);
KEEL_API const int8_t *mlx_array_data_int8(const mlx_array arr);
KEEL_API const int16_t *mlx_array_data_int16(const mlx_array arr);
KEEL_API const int32_t *mlx_array_data_int32(const mlx_array arr);
KEEL_API const int64_t *mlx_array_data_int64(const mlx_array arr);
KEEL_API const float *mlx_array_data_float32(const mlx_array arr);
KEEL_API const double *mlx_array_data_float64(const mlx_array arr);
KEEL_API const mlx_complex64_t *mlx_array_data_complex64(const mlx_array arr);
KEEL_API const keel_float16_t *mlx_array_data_float16(const mlx_array arr);
KEEL_API const keel_bfloat16_t *mlx_array_data_bfloat16(const mlx_array arr);

/* ---- what bindings ask ---- */
/* Whether arr is settled: evaluated, or failed. Does not wait. */
KEEL_API int _mlx_array_is_available(bool *res, const mlx_array arr);
/* Waits until arr is settled, evaluating it if nobody has; fails as mlx_array_eval does. */
KEEL_API int _mlx_array_wait(const mlx_array arr);
/* Whether the elements fill consecutive places, in some order of axes; those of a broadcast array may
 * be there many times. */
KEEL_API int _mlx_array_is_contiguous(bool *res, const mlx_array arr);
/* Whether they do in row-major order, the last axis fastest. */
KEEL_API int _mlx_array_is_row_contiguous(bool *res, const mlx_array arr);
/* Whether they do in column-major order, the first axis fastest. */
KEEL_API int _mlx_array_is_col_contiguous(bool *res, const mlx_array arr);

#ifdef __cplusplus
}
#endif
#endif
