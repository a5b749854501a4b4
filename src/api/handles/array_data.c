/* array_data.c - mlx/c/array.h: evaluating arrays and reading their elements. Nothing here
 * converts: bytes are read as the type in the function's name, if the width is the same. */
#include "api/handles/handles.h"

#include <string.h>

int mlx_array_eval(mlx_array arr) {
    struct kl_call c = {.func = __func__};
    struct kl_array *a = kl_in(&c, arr, "arr");
    if (!c.err) kl_eval(&a, 1, &c.err);
    return kl_call_end_plain(&c);
}

int _mlx_array_wait(const mlx_array arr) {
    struct kl_call c = {.func = __func__};
    struct kl_array *a = kl_in(&c, arr, "arr");
    if (!c.err) kl_eval(&a, 1, &c.err);
    return kl_call_end_plain(&c);
}

/* The array, or NULL with the error noted when the array's elements are not `width` bytes wide. */
static struct kl_array *in_of_width(struct kl_call *c, mlx_array arr, size_t width) {
    struct kl_array *a = kl_in(c, arr, "arr");
    if (c->err) return NULL;
    enum kl_dtype dtype = (enum kl_dtype)a->t.dtype;
    if (kl_dtype_size(dtype) == width) return a;
    kl_fail(&c->err, KL_EDTYPE,
            "the elements are %s, %zu bytes wide; this function reads elements of %zu",
            kl_dtype_name(dtype), kl_dtype_size(dtype), width);
    return NULL;
}

/* ---- single elements ---- */
static int item(const char *func, void *res, mlx_array arr, size_t width) {
    struct kl_call c = kl_call_begin(func, res);
    struct kl_array *a = in_of_width(&c, arr, width);
    void *data = NULL;
    if (!c.err && a->t.size != 1)
        kl_fail(&c.err, KL_ESHAPE, "an item needs an array of size 1, this one has size %lld",
                (long long)a->t.size);
    if (!c.err && kl_array_host(a, &data, &c.err) == 0) memcpy(res, data, width);
    return kl_call_end_plain(&c);
}

int mlx_array_item_bool(bool *res, const mlx_array arr) {
    uint8_t byte = 0; /* the byte may have any value, but a bool in C holds only 0 and 1 */
    int rc = item(__func__, res ? &byte : NULL, arr, sizeof byte);
    if (rc == 0) *res = byte != 0;
    return rc;
}

int mlx_array_item_uint8(uint8_t *res, const mlx_array arr) {
    return item(__func__, res, arr, sizeof *res);
}

int mlx_array_item_uint16(uint16_t *res, const mlx_array arr) {
    return item(__func__, res, arr, sizeof *res);
}

int mlx_array_item_uint32(uint32_t *res, const mlx_array arr) {
    return item(__func__, res, arr, sizeof *res);
}

int mlx_array_item_uint64(uint64_t *res, const mlx_array arr) {
    return item(__func__, res, arr, sizeof *res);
}

int mlx_array_item_int8(int8_t *res, const mlx_array arr) {
    return item(__func__, res, arr, sizeof *res);
}

int mlx_array_item_int16(int16_t *res, const mlx_array arr) {
    return item(__func__, res, arr, sizeof *res);
}

int mlx_array_item_int32(int32_t *res, const mlx_array arr) {
    return item(__func__, res, arr, sizeof *res);
}

int mlx_array_item_int64(int64_t *res, const mlx_array arr) {
    return item(__func__, res, arr, sizeof *res);
}

int mlx_array_item_float32(float *res, const mlx_array arr) {
    return item(__func__, res, arr, sizeof *res);
}

int mlx_array_item_float64(double *res, const mlx_array arr) {
    return item(__func__, res, arr, sizeof *res);
}

int mlx_array_item_complex64(mlx_complex64_t *res, const mlx_array arr) {
    return item(__func__, res, arr, sizeof *res);
}

int mlx_array_item_float16(float16_t *res, const mlx_array arr) {
    return item(__func__, res, arr, sizeof *res);
}

int mlx_array_item_bfloat16(bfloat16_t *res, const mlx_array arr) {
    return item(__func__, res, arr, sizeof *res);
}

/* ---- addresses ---- */
static const void *address(const char *func, mlx_array arr, size_t width) {
    struct kl_call c = {.func = func};
    struct kl_array *a = in_of_width(&c, arr, width);
    void *data = NULL;
    if (!c.err) kl_array_host(a, &data, &c.err);
    return kl_call_end_plain(&c) ? NULL : data;
}

const bool *mlx_array_data_bool(const mlx_array arr) {
    return address(__func__, arr, sizeof(bool));
}

const uint8_t *mlx_array_data_uint8(const mlx_array arr) {
    return address(__func__, arr, sizeof(uint8_t));
}

const uint16_t *mlx_array_data_uint16(const mlx_array arr) {
    return address(__func__, arr, sizeof(uint16_t));
}

const uint32_t *mlx_array_data_uint32(const mlx_array arr) {
    return address(__func__, arr, sizeof(uint32_t));
}

const uint64_t *mlx_array_data_uint64(const mlx_array arr) {
    return address(__func__, arr, sizeof(uint64_t));
}

const int8_t *mlx_array_data_int8(const mlx_array arr) {
    return address(__func__, arr, sizeof(int8_t));
}

const int16_t *mlx_array_data_int16(const mlx_array arr) {
    return address(__func__, arr, sizeof(int16_t));
}

const int32_t *mlx_array_data_int32(const mlx_array arr) {
    return address(__func__, arr, sizeof(int32_t));
}

const int64_t *mlx_array_data_int64(const mlx_array arr) {
    return address(__func__, arr, sizeof(int64_t));
}

const float *mlx_array_data_float32(const mlx_array arr) {
    return address(__func__, arr, sizeof(float));
}

const double *mlx_array_data_float64(const mlx_array arr) {
    return address(__func__, arr, sizeof(double));
}

const mlx_complex64_t *mlx_array_data_complex64(const mlx_array arr) {
    return address(__func__, arr, sizeof(mlx_complex64_t));
}

const float16_t *mlx_array_data_float16(const mlx_array arr) {
    return address(__func__, arr, sizeof(float16_t));
}

const bfloat16_t *mlx_array_data_bfloat16(const mlx_array arr) {
    return address(__func__, arr, sizeof(bfloat16_t));
}
