/* array.h - arrays: handles on values that are computed when a program needs them.
 *
 * An array has a dtype, a shape and, once it is evaluated, data. It never changes. A handle refers
 * to an array, and several handles may refer to the same one. Shape and strides are known from the
 * start; reading an element evaluates the array. A 0-d array is a scalar: its shape is empty and
 * its size is 1. When the operation that makes an array fails, every call that reads it fails
 * with the error of that operation. An empty handle in place of an array is an error (KEEL_EARG).
 * mlx.h says what holds for every function. */
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
/* __extension__: the type is also accepted in C++ */
__extension__ typedef float _Complex mlx_complex64_t;
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

/* An empty handle, to be passed for an operand that is left out. */
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

/* The size of an element in bytes. Returns 0 and raises an error for a value outside the enum. */
KEEL_API size_t mlx_dtype_size(mlx_dtype dtype);

/* ---- handles ---- */
/* An empty handle, for functions that fill an array. */
KEEL_API mlx_array mlx_array_new(void);
/* Drops the handle. The array is freed when its last handle is dropped and no operation needs it
 * any more. Returns 0. */
KEEL_API int mlx_array_free(mlx_array arr);
/* Makes *arr a handle on the array of src. Fails when src is empty. */
KEEL_API int mlx_array_set(mlx_array *arr, const mlx_array src);

/* ---- arrays from values ----
 * Each function makes a 0-d array of the named dtype. When out of memory (KEEL_ENOMEM) it returns
 * an empty handle and raises the error. */
KEEL_API mlx_array mlx_array_new_bool(bool val);
KEEL_API mlx_array mlx_array_new_int(int val); /* int32 */
KEEL_API mlx_array mlx_array_new_float32(float val);
KEEL_API mlx_array mlx_array_new_float(float val); /* float32 */
KEEL_API mlx_array mlx_array_new_float64(double val);
KEEL_API mlx_array mlx_array_new_double(double val);                      /* float64 */
KEEL_API mlx_array mlx_array_new_complex(float real_val, float imag_val); /* complex64 */
/* The same, into the handle *arr. They return 0, or 1 with an error raised. */
KEEL_API int mlx_array_set_bool(mlx_array *arr, bool val);
KEEL_API int mlx_array_set_int(mlx_array *arr, int val);
KEEL_API int mlx_array_set_float32(mlx_array *arr, float val);
KEEL_API int mlx_array_set_float(mlx_array *arr, float val);
KEEL_API int mlx_array_set_float64(mlx_array *arr, double val);
KEEL_API int mlx_array_set_double(mlx_array *arr, double val);
KEEL_API int mlx_array_set_complex(mlx_array *arr, float real_val, float imag_val);

/* ---- arrays from memory ----
 * The data is row-major. shape holds `dim` extents and may be NULL when dim is 0. On failure
 * *_new_* returns an empty handle. Errors: negative dim, a negative extent, a dtype outside the
 * enum, data NULL although there are elements, KEEL_ENOMEM. */
/* Copies the data; the caller may free it after the call. */
KEEL_API mlx_array mlx_array_new_data(const void *data, const int *shape, int dim, mlx_dtype dtype);
KEEL_API int mlx_array_set_data(mlx_array *arr, const void *data, const int *shape, int dim,
                                mlx_dtype dtype);
/* Uses the data in place, without a copy. The data must stay unchanged until dtor(data) is called.
 * dtor is called once, on any thread, when nothing needs the data any more; it may be NULL. When
 * the call fails dtor is not called. */
KEEL_API mlx_array mlx_array_new_data_managed(void *data, const int *shape, int dim,
                                              mlx_dtype dtype, void (*dtor)(void *));
/* The same, but dtor is called with payload. */
KEEL_API mlx_array mlx_array_new_data_managed_payload(void *data, const int *shape, int dim,
                                                      mlx_dtype dtype, void *payload,
                                                      void (*dtor)(void *));

/* ---- facts about an array ----
 * None of these functions evaluates. For an empty handle they return 0 or NULL and raise an
 * error. */
KEEL_API size_t mlx_array_itemsize(const mlx_array arr); /* bytes of one element */
KEEL_API size_t mlx_array_size(const mlx_array arr);     /* number of elements */
KEEL_API size_t mlx_array_nbytes(const mlx_array arr);   /* size * itemsize */
KEEL_API size_t mlx_array_ndim(const mlx_array arr);     /* number of axes */
/* ndim extents, borrowed: valid until the handle is freed or overwritten. */
KEEL_API const int *mlx_array_shape(const mlx_array arr);
/* ndim strides in elements, borrowed like the shape. Read them as signed values, although the type
 * is unsigned: a reversed slice has (size_t)-1. The strides are final from the start. */
KEEL_API const size_t *mlx_array_strides(const mlx_array arr);
/* The extent of one axis; a negative axis counts from the end. Returns 0 and raises an error when
 * the axis is out of range. */
KEEL_API int mlx_array_dim(const mlx_array arr, int dim);
KEEL_API mlx_dtype mlx_array_dtype(const mlx_array arr);

/* ---- evaluation ---- */
/* Computes arr and all arrays that it needs, and waits for them. When an operation failed, the call
 * fails with the error of that operation. */
KEEL_API int mlx_array_eval(mlx_array arr);
/* Puts a text such as "array([1, 2], dtype=float32)" into *str. An axis of more than 6 elements
 * shows 3 at each end. Evaluates the array. */
KEEL_API int mlx_array_tostring(mlx_string *str, const mlx_array arr);

/* The element of an array of size 1. Evaluates the array. The bytes are not converted: they are
 * taken as the type in the name of the function, so an element of another width is an error. (A
 * float16 or bfloat16 element may be read as uint16.) A bool is true when its byte is not 0. */
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

/* The address of element 0. Element (i, j, ...) is at i * strides[0] + j * strides[1] + ...
 * elements from it; mlx_contiguous makes a row-major array. Evaluates the array. The pointer is
 * borrowed: it is valid until the handle is freed or overwritten, and the data must not be written.
 * The data is not converted. Returns NULL and raises an error when the array has failed or its
 * elements have another width. The address for an array without elements is not NULL and must not
 * be read. */
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

/* ---- functions for language bindings ---- */
/* Puts true into *res when arr is settled, that is evaluated or failed. Does not wait. */
KEEL_API int _mlx_array_is_available(bool *res, const mlx_array arr);
/* Waits until arr is settled. Evaluates it when no call has done so yet. Fails as mlx_array_eval
 * does. */
KEEL_API int _mlx_array_wait(const mlx_array arr);
/* Puts true into *res when the elements fill consecutive places of memory in some order of axes. An
 * element of a broadcast array counts once for each place that refers to it. */
KEEL_API int _mlx_array_is_contiguous(bool *res, const mlx_array arr);
/* Puts true into *res when the elements fill consecutive places in row-major order, in which the
 * last axis varies fastest. */
KEEL_API int _mlx_array_is_row_contiguous(bool *res, const mlx_array arr);
/* Puts true into *res when the elements fill consecutive places in column-major order, in which the
 * first axis varies fastest. */
KEEL_API int _mlx_array_is_col_contiguous(bool *res, const mlx_array arr);

#ifdef __cplusplus
}
#endif
#endif
