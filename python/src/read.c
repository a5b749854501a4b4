/* read.c - values of arrays as Python objects, buffers and DLPack capsules */
#include "keel_python.h"

#include <stdlib.h>
#include <string.h>

/* ---- elements ---- */
static float half_to_float(uint16_t h) { /* IEEE 754 binary16; infinities and NaN keep their kind */
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, exponent = h >> 10 & 31, fraction = h & 1023, bits;
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

static PyObject *element(const char *p, mlx_dtype dtype) {
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
static const char *data_of(mlx_array a) {
    switch (mlx_array_itemsize(a)) {
    case 1: return mlx_array_dtype(a) == MLX_BOOL   ? (const char *)mlx_array_data_bool(a)
                   : mlx_array_dtype(a) == MLX_INT8 ? (const char *)mlx_array_data_int8(a)
                                                    : (const char *)mlx_array_data_uint8(a);
    case 2: return mlx_array_dtype(a) == MLX_INT16 ? (const char *)mlx_array_data_int16(a)
                                                   : (const char *)mlx_array_data_uint16(a);
    case 4: return mlx_array_dtype(a) == MLX_FLOAT32 ? (const char *)mlx_array_data_float32(a)
                   : mlx_array_dtype(a) == MLX_INT32 ? (const char *)mlx_array_data_int32(a)
                                                     : (const char *)mlx_array_data_uint32(a);
    default: return mlx_array_dtype(a) == MLX_FLOAT64 ? (const char *)mlx_array_data_float64(a)
                    : mlx_array_dtype(a) == MLX_INT64 ? (const char *)mlx_array_data_int64(a)
                    : mlx_array_dtype(a) == MLX_UINT64 ? (const char *)mlx_array_data_uint64(a)
                                                       : (const char *)mlx_array_data_complex64(a);
    }
}

PyObject *kp_item(mlx_array a) {
    size_t n = mlx_array_size(a);
    if (n != 1) {
        PyErr_Format(PyExc_ValueError, "only an array of one element is a number; this one has %zu", n);
        return NULL;
    }
    if (kp_eval(a)) return NULL;
    const char *data = data_of(a);
    return data ? element(data, mlx_array_dtype(a)) : kp_raise();
}

struct layout {
    const int *shape;
    const size_t *strides;
    int ndim;
    mlx_dtype dtype;
    size_t itemsize;
};

static PyObject *nested(const struct layout *l, const char *p, int axis) {
    if (axis == l->ndim) return element(p, l->dtype);
    PyObject *list = PyList_New(l->shape[axis]);
    for (int i = 0; list && i < l->shape[axis]; i++) {
        PyObject *item = nested(l, p + (int64_t)l->strides[axis] * i * (int64_t)l->itemsize, axis + 1);
        if (!item || PyList_SetItem(list, i, item)) Py_CLEAR(list);
    }
    return list;
}

PyObject *kp_tolist(mlx_array of) {
    /* Making lists may start the garbage collector, and so code that assigns to the array. */
    mlx_array a = mlx_array_new();
    if (mlx_array_set(&a, of)) return kp_raise();
    if (kp_eval(a)) {
        mlx_array_free(a);
        return NULL;
    }
    struct layout l = {mlx_array_shape(a), mlx_array_strides(a), (int)mlx_array_ndim(a), mlx_array_dtype(a),
                       mlx_array_itemsize(a)};
    const char *data = mlx_array_size(a) ? data_of(a) : "";
    PyObject *out = data ? nested(&l, data, 0) : kp_raise();
    mlx_array_free(a);
    return out;
}

FUNCTION(array, item) { return kp_item(c->v[0].array); }
FUNCTION(array, tolist) { return kp_tolist(c->v[0].array); }

/* ---- the buffer protocol ----
 * The view keeps a handle of its own: another owner, so that the memory is never taken for a
 * result while the view lives. */
struct view {
    mlx_array a;
    Py_ssize_t shape[64], strides[64];
};
static const char *const formats[] = {"?", "B", "H", "I", "Q", "b", "h", "i", "q", "e", "f", "d", "H", "Zf"};

int kp_getbuffer(PyObject *self, Py_buffer *v, int flags) {
    mlx_array a = kp_handle(self);
    size_t n = mlx_array_ndim(a), itemsize = mlx_array_itemsize(a);
    v->obj = NULL;
    if (n > 64) {
        PyErr_SetString(PyExc_BufferError, "a buffer has at most 64 axes");
        return -1;
    }
    if (kp_eval(a)) return -1;
    struct view *w = malloc(sizeof *w);
    if (!w) {
        PyErr_NoMemory();
        return -1;
    }
    w->a = mlx_array_new();
    int rc = mlx_array_set(&w->a, a);
    const char *data = !rc && mlx_array_size(a) ? data_of(w->a) : "";
    if (rc || !data) {
        mlx_array_free(w->a);
        free(w);
        kp_raise();
        return -1;
    }
    bool packed = true;
    Py_ssize_t expected = (Py_ssize_t)itemsize;
    for (size_t i = n; i--;) {
        w->shape[i] = mlx_array_shape(a)[i];
        w->strides[i] = (Py_ssize_t)((int64_t)mlx_array_strides(a)[i] * (int64_t)itemsize);
        if (w->shape[i] != 1 && w->strides[i] != expected) packed = false;
        expected *= w->shape[i];
    }
    packed = packed || !mlx_array_size(a);
    if (!packed && (flags & PyBUF_STRIDES) != PyBUF_STRIDES) {
        mlx_array_free(w->a);
        free(w);
        PyErr_SetString(PyExc_BufferError, "the array is not contiguous; the consumer asked for no strides");
        return -1;
    }
    *v = (Py_buffer){.buf = (void *)data,
                     .obj = kp_new_ref(self),
                     .len = (Py_ssize_t)mlx_array_nbytes(a),
                     .itemsize = (Py_ssize_t)itemsize,
                     .readonly = 0,
                     .ndim = (int)n,
                     .format = flags & PyBUF_FORMAT ? (char *)formats[mlx_array_dtype(a)] : NULL,
                     .shape = flags & PyBUF_ND ? w->shape : NULL,
                     .strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES ? w->strides : NULL,
                     .internal = w};
    return 0;
}

void kp_releasebuffer(PyObject *self, Py_buffer *v) {
    (void)self;
    struct view *w = v->internal;
    mlx_array_free(w->a);
    free(w);
}

/* ---- DLPack ----
 * The layout of version 0.8 of the protocol, written after its description. */
struct dl_device {
    int32_t type, id;
};
struct dl_dtype {
    uint8_t code, bits;
    uint16_t lanes;
};
struct dl_tensor {
    void *data;
    struct dl_device device;
    int32_t ndim;
    struct dl_dtype dtype;
    int64_t *shape, *strides;
    uint64_t byte_offset;
};
struct dl_managed {
    struct dl_tensor t;
    void *context;
    void (*deleter)(struct dl_managed *);
};
enum { DL_CPU = 1, DL_INT = 0, DL_UINT = 1, DL_FLOAT = 2, DL_BFLOAT = 4, DL_COMPLEX = 5, DL_BOOL = 6 };

struct exported {
    struct dl_managed m;
    mlx_array a;
    int64_t shape[64], strides[64];
};
static void drop_exported(struct dl_managed *m) {
    struct exported *e = m->context;
    mlx_array_free(e->a);
    free(e);
}
static void drop_capsule(PyObject *capsule) {
    struct dl_managed *m = PyCapsule_GetPointer(capsule, "dltensor");
    if (m) m->deleter(m);
    else PyErr_Clear(); /* a consumer took it and renamed the capsule */
}
static const struct dl_dtype dl_dtypes[] = {
    {DL_BOOL, 8, 1},   {DL_UINT, 8, 1},   {DL_UINT, 16, 1}, {DL_UINT, 32, 1},  {DL_UINT, 64, 1},
    {DL_INT, 8, 1},    {DL_INT, 16, 1},   {DL_INT, 32, 1},  {DL_INT, 64, 1},   {DL_FLOAT, 16, 1},
    {DL_FLOAT, 32, 1}, {DL_FLOAT, 64, 1}, {DL_BFLOAT, 16, 1}, {DL_COMPLEX, 64, 1}};

FUNCTION(array, __dlpack__) {
    mlx_array a = c->v[0].array;
    size_t n = mlx_array_ndim(a);
    if (n > 64) {
        PyErr_SetString(PyExc_BufferError, "DLPack export takes at most 64 axes");
        return NULL;
    }
    if (kp_eval(a)) return NULL;
    struct exported *e = calloc(1, sizeof *e);
    if (!e) return PyErr_NoMemory();
    e->a = mlx_array_new();
    int rc = mlx_array_set(&e->a, a);
    char *data = !rc && mlx_array_size(a) ? (char *)data_of(e->a) : NULL;
    if (rc || (!data && mlx_array_size(a))) {
        mlx_array_free(e->a);
        free(e);
        return kp_raise();
    }
    for (size_t i = 0; i < n; i++) {
        e->shape[i] = mlx_array_shape(a)[i];
        e->strides[i] = (int64_t)mlx_array_strides(a)[i];
    }
    e->m = (struct dl_managed){.t = {.data = data,
                                     .device = {DL_CPU, 0},
                                     .ndim = (int32_t)n,
                                     .dtype = dl_dtypes[mlx_array_dtype(a)],
                                     .shape = e->shape,
                                     .strides = e->strides},
                               .context = e,
                               .deleter = drop_exported};
    PyObject *capsule = PyCapsule_New(&e->m, "dltensor", drop_capsule);
    if (!capsule) drop_exported(&e->m);
    return capsule;
}
FUNCTION(array, __dlpack_device__) {
    (void)c;
    return Py_BuildValue("(ii)", DL_CPU, 0);
}

static int dtype_of_dl(struct dl_dtype d, mlx_dtype *out) {
    for (int i = 0; i <= MLX_COMPLEX64; i++)
        if (dl_dtypes[i].code == d.code && dl_dtypes[i].bits == d.bits && d.lanes == 1) {
            *out = (mlx_dtype)i;
            return 0;
        }
    PyErr_Format(PyExc_ValueError, "no dtype has DLPack's code %d of %d bits", d.code, d.bits);
    return -1;
}
static void release_imported(void *payload) {
    struct dl_managed *m = payload;
    if (m->deleter) m->deleter(m);
}

/* Row-major memory is used in place, other layouts are copied. */
int kp_from_dlpack(mlx_array *out, PyObject *o);
int kp_from_dlpack(mlx_array *out, PyObject *o) {
    PyObject *capsule = PyCapsule_IsValid(o, "dltensor") ? kp_new_ref(o) : PyObject_CallMethod(o, "__dlpack__", NULL);
    if (!capsule) return -1;
    struct dl_managed *m = PyCapsule_GetPointer(capsule, "dltensor");
    int shape[64], rc = -1;
    mlx_dtype dtype;
    if (!m) {
        Py_DECREF(capsule);
        return -1;
    }
    const struct dl_tensor *t = &m->t;
    if (t->device.type != DL_CPU && t->device.type != 3 && t->device.type != 11) {
        PyErr_Format(PyExc_ValueError, "DLPack memory of device type %d cannot be read here: copy it to the host", t->device.type);
    } else if (t->ndim > 64) {
        PyErr_SetString(PyExc_ValueError, "an array has at most 64 axes");
    } else if (!dtype_of_dl(t->dtype, &dtype)) {
        size_t n = 1, itemsize = mlx_dtype_size(dtype);
        int64_t expected = 1;
        bool packed = true, fits = true;
        for (int i = t->ndim; i--;) {
            if (t->strides && t->shape[i] != 1 && t->strides[i] != expected) packed = false;
            expected *= t->shape[i];
            n *= (size_t)t->shape[i];
            fits = fits && t->shape[i] <= INT32_MAX;
            shape[i] = (int)t->shape[i];
        }
        const char *data = (const char *)t->data + t->byte_offset;
        if (!fits) {
            PyErr_SetString(PyExc_OverflowError, "an axis has more elements than int32 counts");
        } else if ((packed || !n) && dtype != MLX_FLOAT64) {
            *out = mlx_array_new_data_managed_payload((void *)data, shape, t->ndim, dtype, m, release_imported);
            rc = out->ctx ? 0 : kp_check(1);
            if (!rc) PyCapsule_SetName(capsule, "used_dltensor");
        } else {
            char *copy = malloc(n * itemsize + 1), *to = copy;
            int64_t at[64] = {0};
            for (size_t k = 0; copy && k < n; k++) {
                const char *from = data;
                for (int i = 0; i < t->ndim; i++) {
                    int64_t stride = t->strides ? t->strides[i] : 0;
                    from += at[i] * stride * (int64_t)itemsize;
                }
                if (!t->strides) from = data + k * itemsize;
                memcpy(to, from, itemsize);
                to += itemsize;
                for (int i = t->ndim; i-- && ++at[i] == t->shape[i];) at[i] = 0;
            }
            if (!copy) PyErr_NoMemory();
            else {
                *out = mlx_array_new_data(copy, shape, t->ndim, dtype);
                rc = out->ctx ? 0 : kp_check(1);
            }
            free(copy);
        }
    }
    Py_DECREF(capsule);
    return rc;
}
FUNCTION(core, from_dlpack) {
    mlx_array out = mlx_array_new();
    if (kp_from_dlpack(&out, c->v[0].object)) return NULL;
    return kp_wrap(out);
}
