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
static const char *const formats[] = {
#define KL_DTYPE(ID, mlx, name, bytes, kind, dialect, cuda, npy, safetensors, gguf, gguf_value, \
                 dlpack, buffer)                                                                \
    [mlx] = #buffer,
#include "dtype.def"
};

int kp_getbuffer(PyObject *self, Py_buffer *v, int flags) {
    mlx_array a;
    v->obj = NULL;
    if (kp_read(&a, kp_handle(self))) return -1;
    size_t n = mlx_array_ndim(a), itemsize = mlx_array_itemsize(a);
    if (n > 64) {
        mlx_array_free(a);
        PyErr_SetString(PyExc_BufferError, "a buffer has at most 64 axes");
        return -1;
    }
    if (flags & PyBUF_FORMAT && mlx_array_dtype(a) == MLX_BFLOAT16) {
        /* Consumers that ask for no format get the bytes; NumPy goes on to __array__. */
        mlx_array_free(a);
        PyErr_SetString(PyExc_BufferError,
                        "no buffer format stands for bfloat16: convert to float32, or use DLPack");
        return -1;
    }
    struct view *w = malloc(sizeof *w);
    if (!w) {
        mlx_array_free(a);
        PyErr_NoMemory();
        return -1;
    }
    w->a = a;
    const char *data = mlx_array_size(a) ? kp_data(a) : "";
    if (!data) {
        mlx_array_free(a);
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
#define KL_DTYPE(ID, mlx, name, bytes, kind, dialect, cuda, npy, safetensors, gguf, gguf_value, \
                 dlpack, ...)                                                                   \
    [mlx] = {DL_##dlpack, 8 * bytes, 1},
#include "dtype.def"
};

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
    mlx_array a;
    if (!kp_is_array(o)) {
        PyErr_Format(PyExc_TypeError, "_bytes_of() takes an array, not %R", (PyObject *)Py_TYPE(o));
        return NULL;
    }
    if (kp_read(&a, kp_handle(o))) return NULL;
    PyObject *out = NULL;
    if (mlx_array_ndim(a) > 64) {
        PyErr_SetString(PyExc_ValueError, "an array of more than 64 axes has no bytes");
    } else {
        const char *data = mlx_array_size(a) ? kp_data(a) : "";
        out = data ? PyBytes_FromStringAndSize(NULL, (Py_ssize_t)mlx_array_nbytes(a)) : kp_raise();
        if (out) copy_elements(PyBytes_AsString(out), a, data);
    }
    mlx_array_free(a);
    return out;
}

/* *out = an array with elements of its own. */
static int copied(mlx_array *out, mlx_array of) {
    mlx_array a;
    if (kp_read(&a, of)) return -1;
    const char *data = mlx_array_size(a) ? kp_data(a) : "";
    char *elements = data && mlx_array_ndim(a) <= 64 ? malloc(mlx_array_nbytes(a) + 1) : NULL;
    *out = mlx_array_empty;
    if (elements) {
        copy_elements(elements, a, data);
        *out = mlx_array_new_data(elements, mlx_array_shape(a), (int)mlx_array_ndim(a),
                                  mlx_array_dtype(a));
        if (!out->ctx) kp_raise();
        free(elements);
    } else if (data) {
        PyErr_NoMemory();
    } else {
        kp_raise();
    }
    mlx_array_free(a);
    return out->ctx ? 0 : -1;
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
    mlx_array a;
    if (d == MLX_BOOL && !kp_bools_are_plain(data, (size_t)length)) {
        char *plain = malloc((size_t)length);
        if (!plain) return PyErr_NoMemory();
        memcpy(plain, data, (size_t)length);
        kp_normalise_bools(plain, (size_t)length);
        a = mlx_array_new_data(plain, dims, (int)ndim, d);
        free(plain);
    } else {
        a = mlx_array_new_data(data, dims, (int)ndim, d);
    }
    return a.ctx ? kp_wrap(a) : kp_raise();
}

static PyObject *take_value(PyObject *m, PyObject *args) {
    PyObject *to, *from;
    (void)m;
    if (!PyArg_ParseTuple(args, "O!O!:array", kp_array_type, &to, kp_array_type, &from))
        return NULL;
    ((struct kp_array *)to)->assigned++;
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

KP_FUNCTION(array, __dlpack__) {
    int versioned = takes_version_1(c->v[2].object);
    if (versioned < 0) return NULL;
    bool copy = c->v[4].given && PyObject_IsTrue(c->v[4].object) == 1;
    if (check_device(c->v[3].given ? c->v[3].object : NULL)) return NULL;
    mlx_array a;
    if (copy ? copied(&a, c->v[0].array) : kp_read(&a, c->v[0].array)) return NULL;
    size_t n = mlx_array_ndim(a);
    if (n > 64) {
        mlx_array_free(a);
        PyErr_SetString(PyExc_BufferError, "DLPack export takes at most 64 axes");
        return NULL;
    }
    struct exported *e = calloc(1, sizeof *e);
    char *data = mlx_array_size(a) ? (char *)kp_data(a) : NULL;
    if (!e || (!data && mlx_array_size(a))) {
        mlx_array_free(a);
        free(e);
        return e ? kp_raise() : PyErr_NoMemory();
    }
    e->a = a;
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
    e->v = (struct dl_versioned){.major = 1, .context = e, .deleter = drop_versioned, .t = e->m.t};
    PyObject *capsule = versioned
                            ? PyCapsule_New(&e->v, "dltensor_versioned", drop_versioned_capsule)
                            : PyCapsule_New(&e->m, "dltensor", drop_capsule);
    if (!capsule) drop(e);
    return capsule;
}
KP_FUNCTION(array, __dlpack_device__) {
    (void)c;
    return Py_BuildValue("(ii)", DL_CPU, 0);
}

static int dtype_of_dl(struct dl_dtype d, mlx_dtype *out) {
    for (int i = 0; i < KP_N_DTYPES; i++)
        if (dl_dtypes[i].code == d.code && dl_dtypes[i].bits == d.bits && d.lanes == 1) {
            *out = (mlx_dtype)i;
            return 0;
        }
    PyErr_Format(PyExc_ValueError, "no dtype has DLPack's code %d of %d bits", d.code, d.bits);
    return -1;
}
/* complex128 is no dtype here: it is copied and becomes complex64. */
static bool is_complex128(const struct dl_tensor *t) {
    return t->dtype.code == DL_COMPLEX && t->dtype.bits == 128 && t->dtype.lanes == 1;
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
        PyErr_Clear(); /* asking for a name may run code */
        PyObject *name = PyObject_GetAttrString((PyObject *)Py_TYPE(o), "__name__");
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

/* The elements of a tensor, row-major, in memory that the caller frees. Strides may be any: where
 * they lead is what the exporter promises. */
static char *gather_tensor(const struct dl_tensor *t, const int *shape, size_t n, size_t itemsize) {
    const char *data = (const char *)t->data + t->byte_offset;
    char *copy = malloc(n * itemsize + 1), *to = copy;
    int64_t at[64] = {0};
    if (!copy) PyErr_NoMemory();
    for (size_t k = 0; copy && k < n; k++, to += itemsize) {
        const char *from = data + k * itemsize;
        if (t->strides) from = data;
        for (int i = 0; t->strides && i < t->ndim; i++)
            from += at[i] * t->strides[i] * (int64_t)itemsize;
        memcpy(to, from, itemsize);
        for (int i = t->ndim; i-- && ++at[i] == shape[i];) at[i] = 0;
    }
    return copy;
}

/* Whether the elements follow each other without gaps, in row-major order. */
static bool is_packed(const struct dl_tensor *t) {
    int64_t expected = 1;
    for (int i = t->ndim; t->strides && i--;) {
        if (t->shape[i] != 1 && t->strides[i] != expected) return false;
        expected *= t->shape[i];
    }
    return true;
}

/* Whether what a capsule says can be an array: its numbers are checked before they are used. */
static int check_tensor(const struct dl_tensor *t, int *shape, mlx_dtype *dtype, size_t *n) {
    if (t->device.type != DL_CPU && t->device.type != 3 && t->device.type != 11) {
        PyErr_Format(PyExc_ValueError,
                     "DLPack memory of device type %d cannot be read here: copy it to the host",
                     t->device.type);
    } else if (t->ndim < 0 || t->ndim > 64) {
        PyErr_Format(PyExc_ValueError, "an array has 0 to 64 axes; the capsule has %d", t->ndim);
    } else if (t->ndim && !t->shape) {
        PyErr_Format(PyExc_ValueError, "the capsule has %d axes, but no shape", t->ndim);
    } else if ((is_complex128(t) || !dtype_of_dl(t->dtype, dtype)) &&
               !kp_extents(shape, t->shape, t->ndim)) {
        if (!kp_count(t->shape, t->ndim, is_complex128(t) ? 16 : mlx_dtype_size(*dtype), n))
            PyErr_SetString(PyExc_ValueError, "the tensor has more elements than memory can hold");
        else if (*n && !t->data)
            PyErr_SetString(PyExc_ValueError, "the tensor has elements, but no memory");
        else
            return 0;
    }
    return -1;
}

/* Row-major memory that may be written is used in place, everything else is copied. */
static int tensor_array(mlx_array *out, PyObject *capsule, void *m, bool versioned, bool may_share,
                        bool may_copy, bool keep_float64) {
    const struct dl_tensor *t =
        versioned ? &((struct dl_versioned *)m)->t : &((struct dl_managed *)m)->t;
    bool read_only = versioned && ((struct dl_versioned *)m)->flags & 1;
    int shape[64];
    size_t n;
    mlx_dtype dtype = MLX_COMPLEX64; /* of complex128 too */
    if (check_tensor(t, shape, &dtype, &n)) return -1;
    char *data = (char *)t->data + t->byte_offset;
    bool packed = n && is_packed(t);
    bool plain = dtype != MLX_BOOL || (packed && kp_bools_are_plain(data, n));
    if (packed && plain && n && !read_only && may_share && !is_complex128(t)) {
        *out = mlx_array_new_data_managed_payload(data, shape, t->ndim, dtype, m,
                                                  versioned ? release_versioned : release_imported);
        if (!out->ctx) return kp_check(1);
        PyCapsule_SetName(capsule, versioned ? "used_dltensor_versioned" : "used_dltensor");
    } else if (!may_copy && n) {
        PyErr_Format(PyExc_ValueError,
                     "from_dlpack(): the memory is %s and must be copied, which copy=False forbids",
                     is_complex128(t) ? "complex128"
                     : read_only      ? "read-only"
                     : packed         ? "of bools that are not 0 or 1"
                                      : "not row-major");
        return -1;
    } else {
        char *copy = gather_tensor(t, shape, n, is_complex128(t) ? 16 : mlx_dtype_size(dtype));
        if (!copy) return -1;
        for (size_t i = 0; is_complex128(t) && i < 2 * n; i++)
            memcpy(copy + 4 * i, &(float){(float)((double *)copy)[i]}, 4);
        if (dtype == MLX_BOOL) kp_normalise_bools(copy, n);
        *out = mlx_array_new_data(copy, shape, t->ndim, dtype);
        free(copy);
        if (!out->ctx) return kp_check(1);
    }
    mlx_stream s;
    if (dtype != MLX_FLOAT64 || !may_copy || keep_float64) return 0;
    /* As everywhere, float64 of others becomes float32. */
    return kp_default_stream(&s) || kp_check(mlx_astype(out, *out, MLX_FLOAT32, s)) || kp_eval(*out)
               ? -1
               : 0;
}

static int from_dlpack(mlx_array *out, PyObject *o, bool may_share, bool may_copy,
                       bool keep_float64) {
    PyObject *capsule = capsule_of(o);
    if (!capsule) return -1;
    bool versioned = PyCapsule_IsValid(capsule, "dltensor_versioned");
    void *m = PyCapsule_GetPointer(capsule, versioned ? "dltensor_versioned" : "dltensor");
    int rc = -1;
    if (m && versioned && ((struct dl_versioned *)m)->major > 1)
        PyErr_Format(PyExc_ValueError, "version %u of DLPack is not known here",
                     (unsigned)((struct dl_versioned *)m)->major);
    else if (m)
        rc = tensor_array(out, capsule, m, versioned, may_share, may_copy, keep_float64);
    Py_DECREF(capsule);
    return rc;
}

int kp_from_dlpack(mlx_array *out, PyObject *o, const mlx_dtype *dtype);
int kp_from_dlpack(mlx_array *out, PyObject *o, const mlx_dtype *dtype) {
    return from_dlpack(out, o, true, true, dtype && *dtype == MLX_FLOAT64);
}
KP_FUNCTION(core, from_dlpack) {
    mlx_array out = mlx_array_new();
    PyObject *copy = c->v[1].given ? c->v[1].object : Py_None;
    int wanted = copy == Py_None ? -1 : PyObject_IsTrue(copy);
    if (kp_is_array(c->v[0].object)) { /* no capsule is needed */
        if (wanted != 1) return kp_done(mlx_array_set(&out, kp_handle(c->v[0].object)), out);
    }
    if (from_dlpack(&out, c->v[0].object, wanted != 1, wanted != 0, false)) return NULL;
    return kp_wrap(out);
}
