/* functions_kernel.c - kernels in CUDA C++ and in Metal's language that the caller writes, and
 * kernels that are compiled already */
#include "keel_python.h"

#include <keel/kernel.h>
#include <stdlib.h>

static int strings_of(mlx_vector_string *out, PyObject *list) {
    Py_ssize_t n = PySequence_Size(list);
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *item = PySequence_GetItem(list, i);
        const char *text = item ? PyUnicode_AsUTF8AndSize(item, NULL) : NULL;
        int rc = text ? kp_check(mlx_vector_string_append_value(*out, text)) : -1;
        Py_XDECREF(item);
        if (rc) return -1;
    }
    return n < 0 ? -1 : 0;
}

enum { MAX_AXES = 64 };
struct output {
    int shape[MAX_AXES], ndim;
    mlx_dtype dtype;
};

/* Reads a pair of a shape and a dtype. */
static int output_of(struct output *o, PyObject *pair) {
    PyObject *shape, *dtype;
    if (!pair || !PyArg_ParseTuple(pair, "OO!", &shape, kp_dtype_type, &dtype)) return -1;
    const Py_ssize_t ndim = PySequence_Size(shape);
    if (ndim > MAX_AXES)
        PyErr_Format(PyExc_ValueError, "an output has more than %d axes", MAX_AXES);
    if (ndim < 0 || ndim > MAX_AXES) return -1;
    for (Py_ssize_t k = 0; k < ndim; k++) {
        PyObject *item = PySequence_GetItem(shape, k);
        const bool read = item && PyArg_Parse(item, "i", &o->shape[k]);
        Py_XDECREF(item);
        if (!read) return -1;
    }
    o->ndim = (int)ndim;
    o->dtype = ((struct kp_dtype *)dtype)->dtype;
    return 0;
}

/* defines drop_kernel_cuda, make_kernel_cuda, add_outputs_cuda, add_template_cuda,
 * apply_kernel_cuda */
#define KIND cuda
#define KERNEL_NAME "cuda_kernel"
#define NAME(f) f##_cuda
#include "functions_kernel_source.inc"
/* defines drop_kernel_metal, make_kernel_metal, add_outputs_metal, add_template_metal,
 * apply_kernel_metal */
#define KIND metal
#define KERNEL_NAME "metal_kernel"
#define NAME(f) f##_metal
#include "functions_kernel_source.inc"

/* ---- compiled programs ---- */

static int scalar_of(keel_kernel_scalar *out, PyObject *o) {
    if (PyBool_Check(o)) {
        *out = (keel_kernel_scalar){KEEL_SCALAR_BOOL, {.b = o == Py_True}};
    } else if (PyLong_Check(o)) {
        out->kind = KEEL_SCALAR_INT;
        return PyArg_Parse(o, "i", &out->value.i) ? 0 : -1;
    } else if (PyFloat_Check(o)) {
        *out = (keel_kernel_scalar){KEEL_SCALAR_FLOAT, {.f = (float)PyFloat_AsDouble(o)}};
    } else {
        PyErr_Format(PyExc_TypeError,
                     "precompiled_cuda_kernel(): a scalar must be a bool, int or float, not %R",
                     (PyObject *)Py_TYPE(o));
        return -1;
    }
    return 0;
}

/* The lists of one call. Of their items there are as many as the library takes, and one more. */
enum { MOST = 33 };
struct lists {
    struct output outputs[MOST];
    keel_kernel_output specs[MOST];
    keel_kernel_scalar scalars[MOST];
    size_t n_outputs, n_scalars;
};

static int fill_lists(struct lists *l, PyObject *outputs, PyObject *scalars) {
    const Py_ssize_t n_outputs = PySequence_Size(outputs), n_scalars = PySequence_Size(scalars);
    if (n_outputs < 0 || n_scalars < 0) return -1;
    for (Py_ssize_t i = 0; i < n_outputs && i < MOST; i++) {
        PyObject *pair = PySequence_GetItem(outputs, i);
        const int rc = output_of(&l->outputs[i], pair);
        Py_XDECREF(pair);
        if (rc) return -1;
        const struct output *o = &l->outputs[i];
        l->specs[i] = (keel_kernel_output){o->shape, o->ndim, o->dtype};
    }
    for (Py_ssize_t i = 0; i < n_scalars && i < MOST; i++) {
        PyObject *item = PySequence_GetItem(scalars, i);
        const int rc = item ? scalar_of(&l->scalars[i], item) : -1;
        Py_XDECREF(item);
        if (rc) return -1;
    }
    l->n_outputs = (size_t)n_outputs;
    l->n_scalars = (size_t)n_scalars;
    return 0;
}

static PyObject *apply_compiled(PyObject *m, PyObject *args) {
    const char *name;
    PyObject *inputs, *outputs, *scalars, *init, *stream, *result = NULL;
    Py_buffer program;
    keel_kernel_config c = {.n_outputs = 0};
    int shared, contiguous;
    mlx_stream s;
    (void)m;
    if (!PyArg_ParseTuple(args, "sy*OOO(iii)(iii)iOpO:precompiled_cuda_kernel", &name, &program,
                          &inputs, &outputs, &scalars, &c.grid[0], &c.grid[1], &c.grid[2],
                          &c.group[0], &c.group[1], &c.group[2], &shared, &init, &contiguous,
                          &stream))
        return NULL;
    mlx_vector_array in = mlx_vector_array_new(), out = mlx_vector_array_new();
    struct lists *l = PyMem_Calloc(1, sizeof *l);
    int rc = l ? 0 : -1;
    if (!l) PyErr_NoMemory();
    rc = rc || kp_stream(&s, stream) || kp_fill_vector(&in, inputs) ||
         fill_lists(l, outputs, scalars);
    if (!rc && shared < 0) {
        PyErr_SetString(PyExc_ValueError, "precompiled_cuda_kernel(): shared_memory is negative");
        rc = -1;
    }
    if (!rc && init != Py_None) {
        c.has_init_value = true;
        c.init_value = (float)PyFloat_AsDouble(init);
        rc = PyErr_Occurred() ? -1 : 0;
    }
    if (!rc) {
        c.outputs = l->specs;
        c.n_outputs = l->n_outputs;
        c.shared_bytes = (size_t)shared;
        rc = kp_check(keel_kernel_apply_compiled(&out, name, program.buf, (size_t)program.len, in,
                                                 l->scalars, l->n_scalars, &c,
                                                 contiguous ? 0 : KEEL_KERNEL_STRIDED, s));
    }
    if (!rc)
        result = kp_wrap_list(out);
    else
        mlx_vector_array_free(out);
    mlx_vector_array_free(in);
    PyMem_Free(l);
    PyBuffer_Release(&program);
    return result;
}

static PyMethodDef functions[] = {
    {"_cuda_kernel", make_kernel_cuda, METH_VARARGS, "Makes a kernel of its source."},
    {"_cuda_kernel_apply", apply_kernel_cuda, METH_VARARGS, "Runs a kernel."},
    {"_metal_kernel", make_kernel_metal, METH_VARARGS, "Makes a kernel of its source."},
    {"_metal_kernel_apply", apply_kernel_metal, METH_VARARGS, "Runs a kernel."},
    {"_cuda_kernel_compiled", apply_compiled, METH_VARARGS, "Runs a compiled kernel."},
    {0},
};
int kp_add_kernels(PyObject *m) {
    return PyModule_AddFunctions(m, functions);
}
