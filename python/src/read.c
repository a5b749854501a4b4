/* read.c - values of arrays as Python objects */
#include "keel_python.h"

#include <string.h>

/* ---- elements ---- */
static float half_to_float(uint16_t h) { /* IEEE 754 binary16; infinities and NaN keep their kind */
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, exponent = h >> 10 & 31, fraction = h & 1023,
             bits;
    float f;
    if (exponent == 31) {
        bits = sign | 0x7f800000 | fraction << 13;
    } else if (exponent) {
        bits = sign | (exponent + 112) << 23 | fraction << 13;
    } else {
        f = (float)fraction * 0x1p-24f;
        return sign ? -f : f;
    }
    memcpy(&f, &bits, 4);
    return f;
}

PyObject *kp_element(const char *p, mlx_dtype dtype) {
    union {
        uint16_t u16;
        uint32_t u32;
        uint64_t u64;
        int16_t i16;
        int32_t i32;
        int64_t i64;
        float f, pair[2];
        double d;
    } v;
    memcpy(&v, p, mlx_dtype_size(dtype));
    switch (dtype) {
    case MLX_BOOL: return PyBool_FromLong(*p);
    case MLX_UINT8: return PyLong_FromLong(*(const uint8_t *)p);
    case MLX_UINT16: return PyLong_FromLong(v.u16);
    case MLX_UINT32: return PyLong_FromUnsignedLong(v.u32);
    case MLX_UINT64: return PyLong_FromUnsignedLongLong(v.u64);
    case MLX_INT8: return PyLong_FromLong(*(const int8_t *)p);
    case MLX_INT16: return PyLong_FromLong(v.i16);
    case MLX_INT32: return PyLong_FromLong(v.i32);
    case MLX_INT64: return PyLong_FromLongLong(v.i64);
    case MLX_FLOAT16: return PyFloat_FromDouble(half_to_float(v.u16));
    case MLX_FLOAT32: return PyFloat_FromDouble(v.f);
    case MLX_FLOAT64: return PyFloat_FromDouble(v.d);
    case MLX_BFLOAT16: v.u32 = (uint32_t)v.u16 << 16; return PyFloat_FromDouble(v.f);
    default: return PyComplex_FromDoubles(v.pair[0], v.pair[1]);
    }
}

/* The memory of an evaluated array. */
const char *kp_data(mlx_array a) {
    switch (mlx_array_itemsize(a)) {
    case 1:
        return mlx_array_dtype(a) == MLX_BOOL   ? (const char *)mlx_array_data_bool(a)
               : mlx_array_dtype(a) == MLX_INT8 ? (const char *)mlx_array_data_int8(a)
                                                : (const char *)mlx_array_data_uint8(a);
    case 2:
        return mlx_array_dtype(a) == MLX_INT16 ? (const char *)mlx_array_data_int16(a)
                                               : (const char *)mlx_array_data_uint16(a);
    case 4:
        return mlx_array_dtype(a) == MLX_FLOAT32 ? (const char *)mlx_array_data_float32(a)
               : mlx_array_dtype(a) == MLX_INT32 ? (const char *)mlx_array_data_int32(a)
                                                 : (const char *)mlx_array_data_uint32(a);
    default:
        return mlx_array_dtype(a) == MLX_FLOAT64  ? (const char *)mlx_array_data_float64(a)
               : mlx_array_dtype(a) == MLX_INT64  ? (const char *)mlx_array_data_int64(a)
               : mlx_array_dtype(a) == MLX_UINT64 ? (const char *)mlx_array_data_uint64(a)
                                                  : (const char *)mlx_array_data_complex64(a);
    }
}

PyObject *kp_item(mlx_array a) {
    size_t n = mlx_array_size(a);
    if (n != 1) {
        PyErr_Format(PyExc_ValueError, "only an array of one element is a number; this one has %zu",
                     n);
        return NULL;
    }
    mlx_array own;
    if (kp_read(&own, a)) return NULL;
    const char *data = kp_data(own);
    PyObject *out = data ? kp_element(data, mlx_array_dtype(own)) : kp_raise();
    mlx_array_free(own);
    return out;
}

struct layout {
    const int *shape;
    const size_t *strides;
    int ndim;
    mlx_dtype dtype;
    size_t itemsize;
};

static PyObject *nested(const struct layout *l, const char *p, int axis) {
    if (axis == l->ndim) return kp_element(p, l->dtype);
    PyObject *list = PyList_New(l->shape[axis]);
    for (int i = 0; list && i < l->shape[axis]; i++) {
        PyObject *item =
            nested(l, p + (int64_t)l->strides[axis] * i * (int64_t)l->itemsize, axis + 1);
        if (!item || PyList_SetItem(list, i, item)) Py_CLEAR(list);
    }
    return list;
}

PyObject *kp_tolist(mlx_array of) {
    /* Making lists may start the garbage collector, and so code that assigns to the array. */
    mlx_array a;
    if (kp_read(&a, of)) return NULL;
    struct layout l = {mlx_array_shape(a), mlx_array_strides(a), (int)mlx_array_ndim(a),
                       mlx_array_dtype(a), mlx_array_itemsize(a)};
    const char *data = mlx_array_size(a) ? kp_data(a) : "";
    PyObject *out = data ? nested(&l, data, 0) : kp_raise();
    mlx_array_free(a);
    return out;
}

KP_FUNCTION(array, item) {
    return kp_item(c->v[0].array);
}
KP_FUNCTION(array, tolist) {
    return kp_tolist(c->v[0].array);
}
