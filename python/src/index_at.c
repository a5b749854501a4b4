/* index_at.c - the types ArrayAt, which a.at gives, and ArrayIterator, which iter(a) gives */
#include "index.h"

static PyTypeObject *at_type, *iterator_type;

/* ---- ArrayAt ---- */
struct at {
    PyObject_HEAD mlx_array a; /* the value that the array had when `at` was read */
    PyObject *key;
};

static void at_dealloc(PyObject *o) {
    PyTypeObject *type = Py_TYPE(o);
    mlx_array_free(((struct at *)o)->a);
    Py_XDECREF(((struct at *)o)->key);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(o);
    Py_DECREF(type);
}

PyObject *kp_at(PyObject *self, void *unused) {
    (void)unused;
    struct at *o = (struct at *)PyType_GenericAlloc(at_type, 0);
    if (!o) return NULL;
    o->a = mlx_array_new();
    if (!mlx_array_set(&o->a, kp_handle(self))) return (PyObject *)o;
    Py_DECREF(o);
    return kp_raise();
}

static PyObject *at_getitem(PyObject *o, PyObject *key) {
    struct at *at = (struct at *)o;
    PyObject *old = at->key;
    at->key = kp_new_ref(key);
    Py_XDECREF(old);
    return kp_new_ref(o);
}

static PyObject *at_write(PyObject *o, PyObject *args, PyObject *names, enum kp_write how,
                          const char *format) {
    static char *keywords[] = {"value", NULL};
    PyObject *value;
    struct at *at = (struct at *)o;
    if (!PyArg_ParseTupleAndKeywords(args, names, format, keywords, &value)) return NULL;
    if (!at->key) {
        PyErr_SetString(PyExc_ValueError, "a key is missing: a.at[key].add(value)");
        return NULL;
    }
    PyObject *key = kp_new_ref(at->key); /* conversions may call Python code that changes it */
    mlx_array out = mlx_array_new();
    int rc = kp_write_at(&out, at->a, key, value, how);
    Py_DECREF(key);
    if (!rc) return kp_wrap(out);
    mlx_array_free(out);
    return NULL;
}

#define AT(name, how)                                                          \
    static PyObject *at_##name(PyObject *o, PyObject *args, PyObject *names) { \
        return at_write(o, args, names, how, "O:" #name);                      \
    }
AT(add, KP_ADD)
AT(subtract, KP_SUBTRACT)
AT(multiply, KP_MULTIPLY)
AT(divide, KP_DIVIDE)
AT(maximum, KP_MAXIMUM)
AT(minimum, KP_MINIMUM)

#define AT_METHOD(name, text)                                                        \
    {                                                                                \
#name, (PyCFunction)(void (*)(void))at_##name, METH_VARARGS | METH_KEYWORDS, \
            #name "($self, /, value)\n--\n\n" text                                   \
    }
static PyMethodDef at_methods[] = {
    AT_METHOD(add,
              "The array with value added at the key. Where indices repeat, every value counts."),
    AT_METHOD(
        subtract,
        "The array with value subtracted at the key. Where indices repeat, every value counts."),
    AT_METHOD(
        multiply,
        "The array multiplied by value at the key. Where indices repeat, every value counts."),
    AT_METHOD(
        divide,
        "The array multiplied by the reciprocal of value at the key, in the dtype of the array."),
    AT_METHOD(maximum, "The array with the larger of its element and value at the key."),
    AT_METHOD(minimum, "The array with the smaller of its element and value at the key."),
    {0},
};
static PyType_Slot at_slots[] = {
    {Py_tp_dealloc, at_dealloc},
    {Py_mp_subscript, at_getitem},
    {Py_tp_methods, at_methods},
    {Py_tp_doc,
     "What array.at gives: a.at[key].add(value) is a with value added at the key.\n\n"
     "Keys and values are those of a[key] = value. Unlike a[key] += value,\n"
     "every value counts where an index stands in the key more than once, and a itself is\n"
     "not changed.\n\n"
     "Example:\n"
     "    >>> mx.zeros(3).at[mx.array([0, 0, 2])].add(1)\n"
     "    array([2, 0, 1], dtype=float32)\n"},
    {0, NULL}};
static PyType_Spec at_spec = {"keel.core.ArrayAt", sizeof(struct at), 0,
                              Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, at_slots};

/* ---- ArrayIterator ---- */
struct iterator {
    PyObject_HEAD mlx_array a;
    int next;
};

static void iterator_dealloc(PyObject *o) {
    PyTypeObject *type = Py_TYPE(o);
    mlx_array_free(((struct iterator *)o)->a);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(o);
    Py_DECREF(type);
}

PyObject *kp_iter(PyObject *self) {
    if (!mlx_array_ndim(kp_handle(self))) {
        PyErr_SetString(PyExc_IndexError, "an array without axes cannot be iterated over");
        return NULL;
    }
    struct iterator *o = (struct iterator *)PyType_GenericAlloc(iterator_type, 0);
    if (!o) return NULL;
    o->a = mlx_array_new();
    if (!mlx_array_set(&o->a, kp_handle(self))) return (PyObject *)o;
    Py_DECREF(o);
    return kp_raise();
}

static PyObject *iterator_next(PyObject *o) {
    struct iterator *i = (struct iterator *)o;
    if (i->next >= mlx_array_dim(i->a, 0)) return NULL;
    return kp_row(i->a, i->next++);
}

static PyObject *iterator_self(PyObject *o) {
    return kp_new_ref(o);
}

static PyType_Slot iterator_slots[] = {
    {Py_tp_dealloc, iterator_dealloc},
    {Py_tp_iter, iterator_self},
    {Py_tp_iternext, iterator_next},
    {Py_tp_doc, "What iter(array) gives: the parts of the array along its first axis."},
    {0, NULL}};
static PyType_Spec iterator_spec = {"keel.core.ArrayIterator", sizeof(struct iterator), 0,
                                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                                    iterator_slots};

int kp_add_index(PyObject *m) {
    at_type = (PyTypeObject *)PyType_FromSpec(&at_spec);
    iterator_type = (PyTypeObject *)PyType_FromSpec(&iterator_spec);
    return !at_type || !iterator_type || PyModule_AddObjectRef(m, "ArrayAt", (PyObject *)at_type) ||
                   PyModule_AddObjectRef(m, "ArrayIterator", (PyObject *)iterator_type)
               ? -1
               : 0;
}
