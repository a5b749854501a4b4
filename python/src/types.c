/* types.c - Dtype, Device and Stream */
#include "keel_python.h"

#include <stdatomic.h>
#include <string.h>

#include "keel/device.h"

PyTypeObject *kp_dtype_type, *kp_device_type, *kp_stream_type, *kp_local_stream_type;
PyObject *kp_dtypes[KP_N_DTYPES];
static PyObject *device_kinds; /* the enum DeviceType, given by Python */

static const char *const dtype_names[] = {
#define KL_DTYPE(ID, mlx, name, ...) [mlx] = #name,
#include "dtype.def"
};

static void plain_dealloc(PyObject *o) {
    PyTypeObject *type = Py_TYPE(o);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(o);
    Py_DECREF(type);
}

/* ---- Dtype ---- */
static PyObject *dtype_repr(PyObject *o) {
    return PyUnicode_FromFormat("mlx.core.%s", dtype_names[((struct kp_dtype *)o)->dtype]);
}
static PyObject *dtype_compare(PyObject *x, PyObject *y, int op) {
    if (op != Py_EQ && op != Py_NE) return kp_new_ref(Py_NotImplemented);
    return PyBool_FromLong((x == y) == (op == Py_EQ));
}
static Py_hash_t dtype_hash(PyObject *o) {
    return ((struct kp_dtype *)o)->dtype + 1;
}
static PyObject *dtype_size(PyObject *o, void *x) {
    (void)x;
    return PyLong_FromSize_t(mlx_dtype_size(((struct kp_dtype *)o)->dtype));
}
static PyObject *dtype_name(PyObject *o, void *x) {
    (void)x;
    return PyUnicode_FromString(dtype_names[((struct kp_dtype *)o)->dtype]);
}
static PyObject *dtype_reduce(PyObject *o, PyObject *x) {
    (void)x;
    const char *name = dtype_names[((struct kp_dtype *)o)->dtype];
    return PyUnicode_FromString(strcmp(name, "bool") ? name : "bool_"); /* a name of the module */
}
static PyGetSetDef dtype_facts[] = {
    {"size", dtype_size, NULL, "The bytes of one element.", NULL},
    {"_name", dtype_name, NULL, "The name without its module.", NULL},
    {0},
};
static PyMethodDef dtype_methods[] = {{"__reduce__", dtype_reduce, METH_NOARGS, "For pickle."},
                                      {0}};
static PyType_Slot dtype_slots[] = {
    {Py_tp_dealloc, plain_dealloc},
    {Py_tp_repr, dtype_repr},
    {Py_tp_richcompare, dtype_compare},
    {Py_tp_hash, dtype_hash},
    {Py_tp_getset, dtype_facts},
    {Py_tp_methods, dtype_methods},
    {Py_tp_doc, "The type of the elements of an array: float32, int64, ..."},
    {0, NULL}};
static PyType_Spec dtype_spec = {"keel.core.Dtype", sizeof(struct kp_dtype), 0,
                                 Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                                 dtype_slots};

/* ---- Device ---- */
static PyObject *kind_object(mlx_device_type type) {
    return PyObject_GetAttrString(device_kinds, type == MLX_CPU ? "cpu" : "gpu");
}
static int kind_of(PyObject *o, mlx_device_type *out) { /* 1: o is no DeviceType */
    int is = device_kinds ? PyObject_IsInstance(o, device_kinds) : 0;
    PyObject *value = is > 0 ? PyObject_GetAttrString(o, "value") : NULL;
    PyErr_Clear(); /* of an object that does not even tell its class */
    if (!value) return 1;
    *out = PyLong_AsLong(value) ? MLX_GPU : MLX_CPU;
    Py_DECREF(value);
    return 0;
}
/* The index that a DeviceType stands for. Of several GPUs it is the one of this process, as the
 * default stream of the GPU is: with launchers of several processes each has another. */
static int index_of_kind(mlx_device_type kind, int *index) {
    mlx_device d;
    mlx_device_type type;
    int n;
    *index = 0;
    if (kind == MLX_CPU || mlx_device_count(&n, kind) || n < 2) return 0;
    d = mlx_device_new();
    int rc = mlx_get_default_device(&d) || mlx_device_get_type(&type, d);
    if (!rc && type != MLX_GPU) {
        mlx_stream s = mlx_default_gpu_stream_new();
        rc = !s.ctx || mlx_stream_get_device(&d, s);
        mlx_stream_free(s);
    }
    if (!rc) rc = mlx_device_get_index(index, d);
    mlx_device_free(d);
    return rc;
}
/* Whether a device is what a DeviceType stands for; loads no driver to know that. */
static bool is_of_kind(const struct kp_device *a, mlx_device_type kind) {
    mlx_device d = mlx_device_new();
    mlx_device_type type;
    int index = 0;
    if (mlx_get_default_device(&d) || mlx_device_get_type(&type, d) || type != kind ||
        mlx_device_get_index(&index, d))
        index = 0;
    mlx_device_free(d);
    return a->type == kind && (!a->index || a->index == index);
}
static PyObject *make_device(mlx_device_type type, int index) {
    struct kp_device *d = (struct kp_device *)PyType_GenericAlloc(kp_device_type, 0);
    if (!d) return NULL;
    d->type = type;
    d->index = index;
    return (PyObject *)d;
}
static PyObject *device_new(PyTypeObject *type, PyObject *args, PyObject *names) {
    static char *keywords[] = {"type", "index", NULL};
    PyObject *kind;
    int index = 0;
    mlx_device_type t;
    (void)type;
    if (!PyArg_ParseTupleAndKeywords(args, names, "O|i:Device", keywords, &kind, &index))
        return NULL;
    if (kind_of(kind, &t)) {
        PyErr_SetString(PyExc_TypeError, "Device(): argument 'type' must be a DeviceType");
        return NULL;
    }
    return make_device(t, index);
}
static PyObject *device_repr(PyObject *o) {
    struct kp_device *d = (struct kp_device *)o;
    return PyUnicode_FromFormat("Device(%s, %d)", d->type == MLX_CPU ? "cpu" : "gpu", d->index);
}
static PyObject *device_compare(PyObject *x, PyObject *y, int op) {
    if (op != Py_EQ && op != Py_NE) return kp_new_ref(Py_NotImplemented);
    struct kp_device *a = (struct kp_device *)x, *b = (struct kp_device *)y;
    mlx_device_type kind;
    bool same = false;
    if (Py_TYPE(y) == kp_device_type)
        same = a->type == b->type && a->index == b->index;
    else if (!kind_of(y, &kind))
        same = is_of_kind(a, kind);
    return PyBool_FromLong(same == (op == Py_EQ));
}
static Py_hash_t device_hash(PyObject *o) {
    struct kp_device *d = (struct kp_device *)o;
    return d->type * 1024 + d->index + 1;
}
static PyObject *device_type(PyObject *o, void *x) {
    (void)x;
    return kind_object(((struct kp_device *)o)->type);
}
static PyObject *device_index(PyObject *o, void *x) {
    (void)x;
    return PyLong_FromLong(((struct kp_device *)o)->index);
}
static PyGetSetDef device_facts[] = {
    {"type", device_type, NULL, "DeviceType.cpu or DeviceType.gpu.", NULL},
    {"index", device_index, NULL, "The number of the device among those of its type.", NULL},
    {0},
};
static PyType_Slot device_slots[] = {
    {Py_tp_new, device_new},
    {Py_tp_dealloc, plain_dealloc},
    {Py_tp_repr, device_repr},
    {Py_tp_richcompare, device_compare},
    {Py_tp_hash, device_hash},
    {Py_tp_getset, device_facts},
    {Py_tp_doc, "Device(type, index=0)\n--\n\nA device: the CPU, or a GPU by its number."},
    {0, NULL}};
static PyType_Spec device_spec = {"keel.core.Device", sizeof(struct kp_device), 0,
                                  Py_TPFLAGS_DEFAULT, device_slots};

/* ---- Stream ---- */
static void stream_dealloc(PyObject *o) {
    struct kp_stream *s = (struct kp_stream *)o;
    if (s->s.ctx) mlx_stream_free(s->s);
    plain_dealloc(o);
}
static PyObject *make_stream(PyTypeObject *type, mlx_stream s) {
    struct kp_stream *o = (struct kp_stream *)PyType_GenericAlloc(type, 0);
    mlx_device d = mlx_device_new();
    if (!o) {
        mlx_stream_free(s);
        return NULL;
    }
    o->s = s;
    o->per_thread = false;
    if (mlx_stream_get_device(&d, s) || mlx_device_get_type(&o->type, d) ||
        mlx_device_get_index(&o->index, d) || mlx_stream_get_index(&o->number, s)) {
        mlx_device_free(d);
        Py_DECREF(o);
        return kp_raise();
    }
    mlx_device_free(d);
    return (PyObject *)o;
}
static PyObject *stream_repr(PyObject *o) {
    struct kp_stream *s = (struct kp_stream *)o;
    return PyUnicode_FromFormat("%s(Device(%s, %d), %d)",
                                s->per_thread ? "ThreadLocalStream" : "Stream",
                                s->type == MLX_CPU ? "cpu" : "gpu", s->index, s->number);
}
static PyObject *stream_compare(PyObject *x, PyObject *y, int op) {
    if ((op != Py_EQ && op != Py_NE) || Py_TYPE(x) != Py_TYPE(y))
        return kp_new_ref(Py_NotImplemented);
    struct kp_stream *a = (struct kp_stream *)x, *b = (struct kp_stream *)y;
    bool same = a->number == b->number && a->type == b->type && a->index == b->index;
    return PyBool_FromLong(same == (op == Py_EQ));
}
static Py_hash_t stream_hash(PyObject *o) {
    return ((struct kp_stream *)o)->number + 1;
}
static PyObject *stream_device(PyObject *o, void *x) {
    (void)x;
    struct kp_stream *s = (struct kp_stream *)o;
    return make_device(s->type, s->index);
}
static PyObject *stream_index(PyObject *o, void *x) {
    (void)x;
    return PyLong_FromLong(((struct kp_stream *)o)->number);
}
static PyGetSetDef stream_facts[] = {
    {"device", stream_device, NULL, "The device on which the stream runs.", NULL},
    {"index", stream_index, NULL, "The number of the stream.", NULL},
    {0},
};
static PyType_Slot stream_slots[] = {
    {Py_tp_dealloc, stream_dealloc},
    {Py_tp_repr, stream_repr},
    {Py_tp_richcompare, stream_compare},
    {Py_tp_hash, stream_hash},
    {Py_tp_getset, stream_facts},
    {Py_tp_doc, "A queue of work on a device; made by new_stream."},
    {0, NULL}};
static PyType_Spec stream_spec = {"keel.core.Stream", sizeof(struct kp_stream), 0,
                                  Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                                  stream_slots};
static PyType_Spec local_stream_spec = {"keel.core.ThreadLocalStream", sizeof(struct kp_stream), 0,
                                        Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                                        stream_slots};

/* ---- default streams ----
 * Looking up the thread's default stream costs more than adding two numbers, so each thread keeps
 * the handle until a default changes anywhere. */
static atomic_uint changes = 1;
static _Thread_local struct {
    unsigned seen;
    mlx_stream s;
} kept;

/* The streams that this thread has for its ThreadLocalStreams, by their numbers. */
enum { MAX_LOCAL = 64 };
static _Thread_local mlx_stream local[MAX_LOCAL];
static atomic_int local_number;

void kp_defaults_changed(void) {
    atomic_fetch_add(&changes, 1);
}

static int stream_of_device(mlx_stream *out, mlx_device_type type, int index) {
    mlx_device d = mlx_device_new_type(type, index);
    int rc = !d.ctx || mlx_get_default_stream(out, d);
    mlx_device_free(d);
    return kp_check(rc);
}

/* Chooses the default device when the first default is needed, not at import: a process may fork
 * before it computes, and CUDA does not survive that. The GIL is kept, so that the interpreter
 * cannot end while drivers are loaded: at the end of a process that crashes. */
static int choose_device(bool set_by_user) {
    static bool chosen; /* guarded by the GIL */
    bool gpu;
    int rc = chosen || set_by_user ? 0 : keel_device_choose(&gpu);
    if (!rc) chosen = true;
    return kp_check(rc);
}

int kp_default_stream(mlx_stream *out) {
    unsigned now = atomic_load_explicit(&changes, memory_order_relaxed);
    if (kept.seen != now) {
        if (choose_device(false)) return -1;
        mlx_device d = mlx_device_new();
        int rc = mlx_get_default_device(&d) || mlx_get_default_stream(&kept.s, d);
        mlx_device_free(d);
        if (rc) return kp_check(rc);
        kept.seen = now;
    }
    *out = kept.s;
    return 0;
}

int kp_stream(mlx_stream *out, PyObject *o) {
    static _Thread_local mlx_stream of_device; /* lives until the next call of this thread */
    if (!o || o == Py_None) return kp_default_stream(out);
    if (Py_TYPE(o) == kp_stream_type) {
        *out = ((struct kp_stream *)o)->s;
        return 0;
    }
    mlx_device_type kind;
    if (Py_TYPE(o) == kp_device_type) {
        struct kp_device *d = (struct kp_device *)o;
        if (stream_of_device(&of_device, d->type, d->index)) return -1;
    } else if (Py_TYPE(o) == kp_local_stream_type) {
        struct kp_stream *s = (struct kp_stream *)o;
        mlx_stream *mine = &local[s->number];
        if (!mine->ctx) {
            mlx_device d = mlx_device_new_type(s->type, s->index);
            *mine = mlx_stream_new_device(d);
            mlx_device_free(d);
            if (!mine->ctx) return kp_check(1);
        }
        *out = *mine;
        return 0;
    } else if (!kind_of(o, &kind)) {
        int index;
        if (kp_check(index_of_kind(kind, &index)) || stream_of_device(&of_device, kind, index))
            return -1;
    } else {
        PyErr_Format(PyExc_TypeError,
                     "a stream is a Stream, a Device, a DeviceType or None, not %R", o);
        return -1;
    }
    *out = of_device;
    return 0;
}

/* ---- functions ---- */
static int device_of(PyObject *o, mlx_device *out) {
    mlx_device_type kind;
    int index = 0;
    if (Py_TYPE(o) == kp_device_type) {
        kind = ((struct kp_device *)o)->type;
        index = ((struct kp_device *)o)->index;
    } else if (kind_of(o, &kind)) {
        PyErr_Format(PyExc_TypeError, "a device is a Device or a DeviceType, not %R", o);
        return -1;
    } else if (kp_check(index_of_kind(kind, &index))) {
        return -1;
    }
    *out = mlx_device_new_type(kind, index);
    return out->ctx ? 0 : kp_check(1);
}

KP_DEVICE_FUNCTION(core, default_device) {
    (void)c;
    mlx_device d = mlx_device_new();
    mlx_device_type type;
    int index;
    if (choose_device(false)) return NULL;
    if (mlx_get_default_device(&d) || mlx_device_get_type(&type, d) ||
        mlx_device_get_index(&index, d))
        return kp_raise();
    mlx_device_free(d);
    return make_device(type, index);
}
KP_DEVICE_FUNCTION(core, set_default_device) {
    mlx_device d;
    if (device_of(c->v[0].object, &d)) return NULL;
    int rc = mlx_set_default_device(d);
    if (!rc) choose_device(true);
    mlx_device_free(d);
    kp_defaults_changed();
    return kp_done_none(rc);
}
KP_DEVICE_FUNCTION(core, default_stream) {
    mlx_device d;
    mlx_stream s = mlx_stream_new();
    if (device_of(c->v[0].object, &d)) return NULL;
    int rc = mlx_get_default_stream(&s, d);
    mlx_device_free(d);
    return rc ? kp_raise() : make_stream(kp_stream_type, s);
}
KP_DEVICE_FUNCTION(core, set_default_stream) {
    PyObject *o = c->v[0].object;
    mlx_stream s;
    if (Py_TYPE(o) != kp_stream_type && Py_TYPE(o) != kp_local_stream_type) {
        PyErr_SetString(PyExc_TypeError, "set_default_stream() takes a Stream");
        return NULL;
    }
    if (kp_stream(&s, o)) return NULL;
    int rc = mlx_set_default_stream(s);
    kp_defaults_changed();
    return kp_done_none(rc);
}
KP_DEVICE_FUNCTION(core, new_stream) {
    mlx_device d;
    if (device_of(c->v[0].object, &d)) return NULL;
    mlx_stream s = mlx_stream_new_device(d);
    mlx_device_free(d);
    return s.ctx ? make_stream(kp_stream_type, s) : kp_raise();
}
KP_DEVICE_FUNCTION(core, new_thread_local_stream) {
    mlx_device d;
    if (device_of(c->v[0].object, &d)) return NULL;
    struct kp_stream *o = (struct kp_stream *)PyType_GenericAlloc(kp_local_stream_type, 0);
    if (!o) return NULL;
    o->s.ctx = NULL;
    o->per_thread = true;
    mlx_device_get_type(&o->type, d);
    mlx_device_get_index(&o->index, d);
    mlx_device_free(d);
    o->number = atomic_fetch_add(&local_number, 1);
    if (o->number < MAX_LOCAL) return (PyObject *)o;
    Py_DECREF(o);
    PyErr_Format(PyExc_RuntimeError, "a process has at most %d thread-local streams", MAX_LOCAL);
    return NULL;
}
KP_FUNCTION(core, synchronize) {
    int rc;
    mlx_stream s = c->stream;
    if (c->v[0].object && kp_stream(&s, c->v[0].object)) return NULL;
    KP_UNLOCKED(rc = mlx_synchronize(s));
    return kp_done_none(rc);
}
KP_DEVICE_FUNCTION(core, device_count) {
    mlx_device_type kind;
    int n;
    if (kind_of(c->v[0].object, &kind)) {
        PyErr_SetString(PyExc_TypeError, "device_count() takes a DeviceType");
        return NULL;
    }
    return mlx_device_count(&n, kind) ? kp_raise() : PyLong_FromLong(n);
}
KP_DEVICE_FUNCTION(core, is_available) {
    mlx_device d;
    bool yes;
    if (device_of(c->v[0].object, &d)) return NULL;
    int rc = mlx_device_is_available(&yes, d);
    mlx_device_free(d);
    return rc ? kp_raise() : PyBool_FromLong(yes);
}
KP_DEVICE_FUNCTION(core, device_info) {
    mlx_device d = mlx_device_new();
    if (!c->v[0].given && choose_device(false)) return NULL;
    if (c->v[0].given ? device_of(c->v[0].object, &d) : kp_check(mlx_get_default_device(&d)))
        return NULL;
    mlx_device_info info = mlx_device_info_new();
    mlx_vector_string keys = mlx_vector_string_new();
    PyObject *out = PyDict_New();
    if (mlx_device_info_get(&info, d) || mlx_device_info_get_keys(&keys, info)) {
        kp_raise();
        Py_CLEAR(out);
    }
    for (size_t i = 0; out && i < mlx_vector_string_size(keys); i++) {
        char *key;
        bool text;
        const char *string;
        size_t number;
        PyObject *value = NULL;
        if (!mlx_vector_string_get(&key, keys, i) && !mlx_device_info_is_string(&text, info, key)) {
            if (text && !mlx_device_info_get_string(&string, info, key))
                value = PyUnicode_FromString(string);
            else if (!text && !mlx_device_info_get_size(&number, info, key))
                value = PyLong_FromSize_t(number);
        }
        if (!value || PyDict_SetItemString(out, key, value)) Py_CLEAR(out);
        Py_XDECREF(value);
    }
    mlx_vector_string_free(keys);
    mlx_device_info_free(info);
    mlx_device_free(d);
    return out;
}

/* The enum of device types is a Python class: it comes from there. */
static PyObject *take_device_kinds(PyObject *m, PyObject *o) {
    (void)m;
    Py_XDECREF(device_kinds);
    device_kinds = kp_new_ref(o);
    return kp_new_ref(Py_None);
}
static PyMethodDef hidden[] = {
    {"_take_device_kinds", take_device_kinds, METH_O, "Tells the extension the enum DeviceType."},
    {0},
};

static int add_type(PyObject *m, PyTypeObject **out, PyType_Spec *spec, const char *name) {
    *out = (PyTypeObject *)PyType_FromSpec(spec);
    return *out ? PyModule_AddObjectRef(m, name, (PyObject *)*out) : -1;
}

int kp_add_types(PyObject *m) {
    if (add_type(m, &kp_dtype_type, &dtype_spec, "Dtype") ||
        add_type(m, &kp_device_type, &device_spec, "Device") ||
        add_type(m, &kp_stream_type, &stream_spec, "Stream") ||
        add_type(m, &kp_local_stream_type, &local_stream_spec, "ThreadLocalStream"))
        return -1;
    for (int i = 0; i < KP_N_DTYPES; i++) {
        struct kp_dtype *d = (struct kp_dtype *)PyType_GenericAlloc(kp_dtype_type, 0);
        if (!d) return -1;
        d->dtype = (mlx_dtype)i;
        kp_dtypes[i] = (PyObject *)d;
        if (PyModule_AddObjectRef(m, i ? dtype_names[i] : "bool_", kp_dtypes[i])) return -1;
    }
    return PyModule_AddFunctions(m, hidden);
}
