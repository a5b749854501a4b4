/* peers_binding.c - a compiled Python binding of a few functions, built by cpu_peers.py. It has
 * arrays as Python objects, lazy operations, and evaluation. The peers are called through compiled
 * bindings too; ctypes would add two microseconds to each operation, which no user of a binding
 * pays.
 *
 * open(path) loads the library. op(name, arrays, integers) gives a function with these numbers of
 * array and integer parameters; name is the name in the API without "mlx_". adopt(handle) makes an
 * object that owns the array. evaluate(array) evaluates it. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <dlfcn.h>

#include "mlx/c/mlx.h"

static void *library;
static mlx_stream stream;
static int (*array_free)(mlx_array);
static int (*array_eval)(mlx_array);
static size_t (*array_size)(mlx_array);

/* An array with at least this many elements is evaluated without Python's lock, so that other
 * Python threads may run, as in NumPy. Releasing the lock for a smaller operation would cost more
 * than the operation. */
enum { THREADS_FROM = 500 };

struct array {
    PyObject_HEAD mlx_array of;
};

static void array_dealloc(PyObject *self) {
    array_free(((struct array *)self)->of);
    PyObject_Free(self);
}

static PyTypeObject array_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "peers_binding.array",
    .tp_basicsize = sizeof(struct array),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_dealloc = array_dealloc,
};

static PyObject *array_of(mlx_array a) {
    struct array *x = PyObject_New(struct array, &array_type);
    if (!x) {
        array_free(a);
        return NULL;
    }
    x->of = a;
    return (PyObject *)x;
}

struct op {
    PyObject_HEAD void *function;
    int n_arrays, n_ints;
    vectorcallfunc call;
};

static PyObject *op_call(PyObject *self, PyObject *const *args, size_t flags, PyObject *names) {
    const struct op *op = (const struct op *)self;
    mlx_array in[2] = {{NULL}, {NULL}}, out = {NULL};
    int number = 0, rc;
    if (PyVectorcall_NARGS(flags) != op->n_arrays + op->n_ints || names)
        return PyErr_Format(PyExc_TypeError,
                            "the operation takes %d arrays and %d integers, in this order",
                            op->n_arrays, op->n_ints);
    for (int i = 0; i < op->n_arrays; i++) {
        if (!Py_IS_TYPE(args[i], &array_type))
            return PyErr_Format(PyExc_TypeError, "argument %d is not an array", i);
        in[i] = ((struct array *)args[i])->of;
    }
    if (op->n_ints && (number = (int)PyLong_AsLong(args[op->n_arrays])) == -1 && PyErr_Occurred())
        return NULL;
    if (op->n_ints)
        rc = ((int (*)(mlx_array *, mlx_array, int, mlx_stream))op->function)(&out, in[0], number,
                                                                              stream);
    else if (op->n_arrays == 1)
        rc = ((int (*)(mlx_array *, mlx_array, mlx_stream))op->function)(&out, in[0], stream);
    else
        rc = ((int (*)(mlx_array *, mlx_array, mlx_array, mlx_stream))op->function)(&out, in[0],
                                                                                    in[1], stream);
    if (rc) return PyErr_Format(PyExc_RuntimeError, "the operation failed");
    return array_of(out);
}

static PyTypeObject op_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "peers_binding.op",
    .tp_basicsize = sizeof(struct op),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_vectorcall_offset = offsetof(struct op, call),
    .tp_call = PyVectorcall_Call,
};

static void *symbol(const char *name) {
    char full[128];
    snprintf(full, sizeof full, "mlx_%s", name);
    void *f = library ? dlsym(library, full) : NULL;
    if (!f) PyErr_Format(PyExc_AttributeError, "the library has no %s", full);
    return f;
}

static PyObject *binding_open(PyObject *self, PyObject *path) {
    (void)self;
    const char *name = PyUnicode_AsUTF8(path);
    if (!name) return NULL;
    library = dlopen(name, RTLD_NOW);
    if (!library) return PyErr_Format(PyExc_OSError, "%s", dlerror());
    mlx_stream (*default_stream)(void) = (mlx_stream(*)(void))symbol("default_cpu_stream_new");
    array_free = (int (*)(mlx_array))symbol("array_free");
    array_eval = (int (*)(mlx_array))symbol("array_eval");
    array_size = (size_t(*)(mlx_array))symbol("array_size");
    if (!default_stream || !array_free || !array_eval || !array_size) return NULL;
    stream = default_stream();
    Py_RETURN_NONE;
}

static PyObject *binding_op(PyObject *self, PyObject *args) {
    (void)self;
    const char *name;
    int n_arrays, n_ints;
    if (!PyArg_ParseTuple(args, "sii", &name, &n_arrays, &n_ints)) return NULL;
    if (!(n_arrays == 1 && (n_ints == 0 || n_ints == 1)) && !(n_arrays == 2 && n_ints == 0))
        return PyErr_Format(PyExc_ValueError, "one array and at most one integer, or two arrays");
    void *f = symbol(name);
    struct op *op = f ? PyObject_New(struct op, &op_type) : NULL;
    if (!op) return NULL;
    op->function = f;
    op->n_arrays = n_arrays;
    op->n_ints = n_ints;
    op->call = op_call;
    return (PyObject *)op;
}

static PyObject *binding_adopt(PyObject *self, PyObject *handle) {
    (void)self;
    void *p = PyLong_AsVoidPtr(handle);
    return PyErr_Occurred() ? NULL : array_of((mlx_array){p});
}

static PyObject *binding_evaluate(PyObject *self, PyObject *x) {
    (void)self;
    int rc;
    if (!Py_IS_TYPE(x, &array_type)) return PyErr_Format(PyExc_TypeError, "not an array");
    mlx_array a = ((struct array *)x)->of;
    PyThreadState *state = array_size(a) >= THREADS_FROM ? PyEval_SaveThread() : NULL;
    rc = array_eval(a);
    if (state) PyEval_RestoreThread(state);
    if (rc) return PyErr_Format(PyExc_RuntimeError, "evaluation failed");
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {{"open", binding_open, METH_O, NULL},
                                {"op", binding_op, METH_VARARGS, NULL},
                                {"adopt", binding_adopt, METH_O, NULL},
                                {"evaluate", binding_evaluate, METH_O, NULL},
                                {NULL, NULL, 0, NULL}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, .m_name = "peers_binding", .m_size = -1,
                                    .m_methods = methods};

PyMODINIT_FUNC PyInit_peers_binding(void);
PyMODINIT_FUNC PyInit_peers_binding(void) {
    if (PyType_Ready(&array_type) || PyType_Ready(&op_type)) return NULL;
    return PyModule_Create(&module);
}
