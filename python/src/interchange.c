/* interchange.c - arrays as buffers and DLPack capsules, and arrays of such memory */
#include "keel_python.h"

#include <stdlib.h>
#include <string.h>

/* ---- the buffer protocol ----
 * The view keeps a handle of its own: another owner, so that the memory is never taken for a
 * result while the view lives. */
struct view {
    mlx_array a;
    Py_ssize_t shape[64], strides[64];
};
static const char *const formats[] = {"?", "B", "H", "I", "Q", "b", "h",
                                      "i", "q", "e", "f", "d", "H", "Zf"};

int kp_getbuffer(PyObject *self, Py_buffer *v, int flags) {
    mlx_array a = kp_handle(self);
    size_t n = mlx_array_ndim(a), itemsize = mlx_array_itemsize(a);
    v->obj = NULL;
    if (n > 64) {
        PyErr_SetString(PyExc_BufferError, "a buffer has at most 64 axes");
        return -1;
    }
    if (flags & PyBUF_FORMAT && mlx_array_dtype(a) == MLX_BFLOAT16) {
        /* Consumers that ask for no format get the bytes; NumPy goes on to __array__. */
        PyErr_SetString(PyExc_BufferError,
                        "no buffer format stands for bfloat16: convert to float32, or use DLPack");
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
    const char *data = !rc && mlx_array_size(a) ? kp_data(w->a) : "";
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
        PyErr_SetString(PyExc_BufferError,
                        "the array is not contiguous; the consumer asked for no strides");
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
 * The layouts of versions 0.8 and 1.0 of the protocol, written after its description. */
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
/* A capsule of version 1 of the protocol, which can say that memory may only be read. */
struct dl_versioned {
    uint32_t major, minor;
    void *context;
    void (*deleter)(struct dl_versioned *);
    uint64_t flags; /* bit 0: read-only */
    struct dl_tensor t;
};
enum {
    DL_CPU = 1,
    DL_INT = 0,
    DL_UINT = 1,
    DL_FLOAT = 2,
    DL_BFLOAT = 4,
    DL_COMPLEX = 5,
    DL_BOOL = 6
};

struct exported {
    struct dl_managed m;
    struct dl_versioned v; /* the same tensor for consumers that know version 1 */
    mlx_array a;
    int64_t shape[64], strides[64];
};
static void drop(struct exported *e) {
    mlx_array_free(e->a);
    free(e);
}
static void drop_exported(struct dl_managed *m) {
    drop(m->context);
}
static void drop_versioned(struct dl_versioned *m) {
    drop(m->context);
}
static void drop_capsule(PyObject *capsule) {
    struct dl_managed *m = PyCapsule_GetPointer(capsule, "dltensor");
    if (m)
        m->deleter(m);
    else
        PyErr_Clear(); /* a consumer took it and renamed the capsule */
}
static void drop_versioned_capsule(PyObject *capsule) {
    struct dl_versioned *m = PyCapsule_GetPointer(capsule, "dltensor_versioned");
    if (m)
        m->deleter(m);
    else
        PyErr_Clear();
}
static const struct dl_dtype dl_dtypes[] = {
    {DL_BOOL, 8, 1},   {DL_UINT, 8, 1},   {DL_UINT, 16, 1},   {DL_UINT, 32, 1},   {DL_UINT, 64, 1},
    {DL_INT, 8, 1},    {DL_INT, 16, 1},   {DL_INT, 32, 1},    {DL_INT, 64, 1},    {DL_FLOAT, 16, 1},
    {DL_FLOAT, 32, 1}, {DL_FLOAT, 64, 1}, {DL_BFLOAT, 16, 1}, {DL_COMPLEX, 64, 1}};

/* The elements of an evaluated array, row-major. */
static void copy_elements(char *to, mlx_array a, const char *from) {
    size_t n = mlx_array_size(a), itemsize = mlx_array_itemsize(a);
    int ndim = (int)mlx_array_ndim(a), at[64] = {0};
    const int *shape = mlx_array_shape(a);
    const size_t *strides = mlx_array_strides(a);
    for (size_t k = 0; k < n; k++, to += itemsize) {
        memcpy(to, from, itemsize);
        for (int i = ndim; i--;) {
            int64_t step = (int64_t)strides[i] * (int64_t)itemsize;
            from += step;
            if (++at[i] < shape[i]) break;
            from -= step * shape[i];
            at[i] = 0;
        }
    }
}

static PyObject *bytes_of(PyObject *m, PyObject *o) {
    (void)m;
    mlx_array a = kp_handle(o);
    if (mlx_array_ndim(a) > 64) {
        PyErr_SetString(PyExc_ValueError, "an array of more than 64 axes has no bytes");
        return NULL;
    }
    if (kp_eval(a)) return NULL;
    const char *data = mlx_array_size(a) ? kp_data(a) : "";
    PyObject *out =
        data ? PyBytes_FromStringAndSize(NULL, (Py_ssize_t)mlx_array_nbytes(a)) : kp_raise();
    if (out) copy_elements(PyBytes_AsString(out), a, data);
    return out;
}

static PyObject *array_of_bytes(PyObject *m, PyObject *args) {
    const char *data;
    Py_ssize_t length;
    PyObject *shape, *dtype;
    int dims[64];
    (void)m;
    if (!PyArg_ParseTuple(args, "y#O!O!:array", &data, &length, &PyTuple_Type, &shape,
                          kp_dtype_type, &dtype))
        return NULL;
    mlx_dtype d = ((struct kp_dtype *)dtype)->dtype;
    Py_ssize_t ndim = PyTuple_Size(shape), expected = (Py_ssize_t)mlx_dtype_size(d);
    for (Py_ssize_t i = 0; i < ndim && i < 64; i++) {
        long extent = PyLong_AsLong(PyTuple_GetItem(shape, i));
        if (PyErr_Occurred()) return NULL;
        dims[i] = (int)extent;
        expected =
            extent < 0 || extent > INT32_MAX || (extent && expected > PY_SSIZE_T_MAX / extent)
                ? -1
                : expected * extent;
        if (expected < 0) break;
    }
    if (ndim > 64 || expected != length) {
        PyErr_Format(PyExc_ValueError, "the shape %R of %R does not need %zd bytes", shape, dtype,
                     length);
        return NULL;
    }
    mlx_array a = mlx_array_new_data(data, dims, (int)ndim, d);
    return a.ctx ? kp_wrap(a) : kp_raise();
}

static PyObject *take_value(PyObject *m, PyObject *args) {
    PyObject *to, *from;
    (void)m;
    if (!PyArg_ParseTuple(args, "O!O!:array", kp_array_type, &to, kp_array_type, &from))
        return NULL;
    return kp_done_none(mlx_array_set(&((struct kp_array *)to)->a, kp_handle(from)));
}
static PyMethodDef functions[] = {
    {"_bytes_of", bytes_of, METH_O, "The elements, row-major."},
    {"_array_of_bytes", array_of_bytes, METH_VARARGS, "An array of bytes, a shape and a dtype."},
    {"_take_value", take_value, METH_VARARGS, "Gives an array the value of another one."},
    {0},
};
int kp_add_interchange(PyObject *m) {
    return PyModule_AddFunctions(m, functions);
}

/* Whether the host is asked for: (device type, number), or nothing. */
static int check_device(PyObject *device) {
    int type, number;
    if (!device) return 0;
    if (!PyTuple_Check(device) || !PyArg_ParseTuple(device, "ii", &type, &number)) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_TypeError,
                            "__dlpack__(): dl_device must be a tuple of two ints, or None");
        return -1;
    }
    if (type == DL_CPU) return 0;
    PyErr_Format(PyExc_BufferError,
                 "the memory of an array is exported on the host, not on DLPack's device (%d, %d)",
                 type, number);
    return -1;
}

/* Whether the consumer takes capsules of version 1: max_version is a tuple (major, minor). */
static int takes_version_1(PyObject *version) {
    int major, minor;
    if (!version || version == Py_None) return 0;
    if (PyTuple_Check(version) && PyArg_ParseTuple(version, "ii", &major, &minor))
        return major >= 1;
    PyErr_Clear();
    PyErr_SetString(PyExc_TypeError,
                    "__dlpack__(): max_version must be a tuple of two ints, or None");
    return -1;
}

FUNCTION(array, __dlpack__) {
    mlx_array a = c->v[0].array;
    size_t n = mlx_array_ndim(a);
    int versioned = takes_version_1(c->v[2].object);
    if (versioned < 0) return NULL;
    bool copy = c->v[4].given && PyObject_IsTrue(c->v[4].object) == 1;
    if (check_device(c->v[3].given ? c->v[3].object : NULL)) return NULL;
    if (n > 64) {
        PyErr_SetString(PyExc_BufferError, "DLPack export takes at most 64 axes");
        return NULL;
    }
    if (kp_eval(a)) return NULL;
    struct exported *e = calloc(1, sizeof *e);
    if (!e) return PyErr_NoMemory();
    int rc = 0;
    if (copy) {
        PyObject *bytes = bytes_of(NULL, c->v[0].object);
        if (bytes)
            e->a = mlx_array_new_data(PyBytes_AsString(bytes), mlx_array_shape(a), (int)n,
                                      mlx_array_dtype(a));
        Py_XDECREF(bytes);
        rc = !e->a.ctx;
    } else {
        e->a = mlx_array_new();
        rc = mlx_array_set(&e->a, a);
    }
    char *data = !rc && mlx_array_size(a) ? (char *)kp_data(e->a) : NULL;
    if (rc || (!data && mlx_array_size(a))) {
        mlx_array_free(e->a);
        free(e);
        return kp_raise();
    }
    for (size_t i = 0; i < n; i++) {
        e->shape[i] = mlx_array_shape(a)[i];
        e->strides[i] = (int64_t)mlx_array_strides(e->a)[i];
    }
    e->m = (struct dl_managed){.t = {.data = data,
                                     .device = {DL_CPU, 0},
                                     .ndim = (int32_t)n,
                                     .dtype = dl_dtypes[mlx_array_dtype(a)],
                                     .shape = e->shape,
                                     .strides = e->strides},
                               .context = e,
                               .deleter = drop_exported};
    e->v = (struct dl_versioned){.major = 1, .context = e, .deleter = drop_versioned, .t = e->m.t};
    PyObject *capsule = versioned
                            ? PyCapsule_New(&e->v, "dltensor_versioned", drop_versioned_capsule)
                            : PyCapsule_New(&e->m, "dltensor", drop_capsule);
    if (!capsule) drop(e);
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
static void release_versioned(void *payload) {
    struct dl_versioned *m = payload;
    if (m->deleter) m->deleter(m);
}

/* The capsule of an object: of version 1 if it can make one, else of version 0. */
static PyObject *capsule_of(PyObject *o) {
    if (PyCapsule_IsValid(o, "dltensor") || PyCapsule_IsValid(o, "dltensor_versioned"))
        return kp_new_ref(o);
    PyObject *export = PyObject_GetAttrString(o, "__dlpack__"), *capsule = NULL;
    if (!export) {
        PyObject *name = PyObject_GetAttrString((PyObject *)Py_TYPE(o), "__name__");
        PyErr_Clear();
        if (name)
            PyErr_Format(PyExc_TypeError, "from_dlpack() takes an object with __dlpack__, not a %U",
                         name);
        Py_XDECREF(name);
        return NULL;
    }
    PyObject *none = PyTuple_New(0), *names = Py_BuildValue("{s(ii)}", "max_version", 1, 0);
    if (none && names) capsule = PyObject_Call(export, none, names);
    if (!capsule && none && PyErr_ExceptionMatches(PyExc_TypeError)) { /* it knows version 0 only */
        PyErr_Clear();
        capsule = PyObject_CallObject(export, NULL);
    }
    Py_XDECREF(none);
    Py_XDECREF(names);
    Py_DECREF(export);
    return capsule;
}

/* Row-major memory that may be written is used in place, everything else is copied. */
static int from_dlpack(mlx_array *out, PyObject *o, bool may_share, bool may_copy) {
    PyObject *capsule = capsule_of(o);
    if (!capsule) return -1;
    bool versioned = PyCapsule_IsValid(capsule, "dltensor_versioned");
    void *m = PyCapsule_GetPointer(capsule, versioned ? "dltensor_versioned" : "dltensor");
    const struct dl_versioned *v = m;
    int shape[64], rc = -1;
    mlx_dtype dtype;
    if (!m) {
        Py_DECREF(capsule);
        return -1;
    }
    if (versioned && v->major > 1) {
        PyErr_Format(PyExc_ValueError, "version %d of DLPack is not known here", (int)v->major);
        Py_DECREF(capsule);
        return -1;
    }
    const struct dl_tensor *t = versioned ? &v->t : &((struct dl_managed *)m)->t;
    if (t->device.type != DL_CPU && t->device.type != 3 && t->device.type != 11) {
        PyErr_Format(PyExc_ValueError,
                     "DLPack memory of device type %d cannot be read here: copy it to the host",
                     t->device.type);
    } else if (t->ndim > 64) {
        PyErr_SetString(PyExc_ValueError, "an array has at most 64 axes");
    } else if (!dtype_of_dl(t->dtype, &dtype)) {
        size_t n = 1, itemsize = mlx_dtype_size(dtype);
        int64_t expected = 1;
        bool packed = true, fits = true, read_only = versioned && v->flags & 1;
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
        } else if (packed && n && !read_only && may_share) {
            *out = mlx_array_new_data_managed_payload((void *)data, shape, t->ndim, dtype, m,
                                                      versioned ? release_versioned
                                                                : release_imported);
            rc = out->ctx ? 0 : kp_check(1);
            if (!rc)
                PyCapsule_SetName(capsule, versioned ? "used_dltensor_versioned" : "used_dltensor");
        } else if (!may_copy && n) {
            PyErr_Format(
                PyExc_ValueError,
                "from_dlpack(): the memory is %s and must be copied, which copy=False forbids",
                read_only ? "read-only" : "not row-major");
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
            if (!copy)
                PyErr_NoMemory();
            else {
                *out = mlx_array_new_data(copy, shape, t->ndim, dtype);
                rc = out->ctx ? 0 : kp_check(1);
            }
            free(copy);
        }
    }
    if (!rc && dtype == MLX_FLOAT64 &&
        may_copy) { /* as everywhere, float64 of others becomes float32 */
        mlx_stream s;
        rc = kp_default_stream(&s) || kp_check(mlx_astype(out, *out, MLX_FLOAT32, s)) ||
                     kp_eval(*out)
                 ? -1
                 : 0;
    }
    Py_DECREF(capsule);
    return rc;
}

int kp_from_dlpack(mlx_array *out, PyObject *o);
int kp_from_dlpack(mlx_array *out, PyObject *o) {
    return from_dlpack(out, o, true, true);
}
FUNCTION(core, from_dlpack) {
    mlx_array out = mlx_array_new();
    PyObject *copy = c->v[1].given ? c->v[1].object : Py_None;
    int wanted = copy == Py_None ? -1 : PyObject_IsTrue(copy);
    if (kp_is_array(c->v[0].object)) { /* no capsule is needed */
        if (wanted != 1) return kp_done(mlx_array_set(&out, kp_handle(c->v[0].object)), out);
    }
    if (from_dlpack(&out, c->v[0].object, wanted != 1, wanted != 0)) return NULL;
    return kp_wrap(out);
}
