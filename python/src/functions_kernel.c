/* functions_kernel.c - kernels in CUDA C++ that the caller writes, and kernels that are compiled
 * already */
#include "keel_python.h"

#include <keel/kernel.h>
#include <stdlib.h>

static const char capsule_name[] = "keel.cuda_kernel";

static void drop_kernel(PyObject *capsule) {
    mlx_fast_cuda_kernel kernel = {PyCapsule_GetPointer(capsule, capsule_name)};
    mlx_fast_cuda_kernel_free(kernel);
}

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

static PyObject *make_kernel(PyObject *m, PyObject *args) {
    const char *name, *source, *header;
    PyObject *inputs, *outputs, *capsule = NULL;
    int contiguous, shared;
    (void)m;
    if (!PyArg_ParseTuple(args, "sOOsspi:cuda_kernel", &name, &inputs, &outputs, &source, &header,
                          &contiguous, &shared))
        return NULL;
    mlx_vector_string in = mlx_vector_string_new(), out = mlx_vector_string_new();
    if (!strings_of(&in, inputs) && !strings_of(&out, outputs)) {
        mlx_fast_cuda_kernel k =
            mlx_fast_cuda_kernel_new(name, in, out, source, header, contiguous, shared);
        capsule = k.ctx ? PyCapsule_New(k.ctx, capsule_name, drop_kernel) : kp_raise();
        if (!capsule && k.ctx) mlx_fast_cuda_kernel_free(k);
    }
    mlx_vector_string_free(in);
    mlx_vector_string_free(out);
    return capsule;
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
        PyErr_Format(PyExc_ValueError, "cuda_kernel(): an output has more than %d axes", MAX_AXES);
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

static int add_outputs(mlx_fast_cuda_kernel_config config, PyObject *list) {
    Py_ssize_t n = PySequence_Size(list);
    struct output o;
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *pair = PySequence_GetItem(list, i);
        int rc = output_of(&o, pair) || kp_check(mlx_fast_cuda_kernel_config_add_output_arg(
                                            config, o.shape, (size_t)o.ndim, o.dtype));
        Py_XDECREF(pair);
        if (rc) return -1;
    }
    return n < 0 ? -1 : 0;
}

static int add_template(mlx_fast_cuda_kernel_config config, PyObject *list) {
    Py_ssize_t n = PySequence_Size(list);
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *pair = PySequence_GetItem(list, i), *value;
        const char *name;
        int rc = -1;
        if (pair && !PyTuple_Check(pair)) {
            PyErr_Format(PyExc_TypeError,
                         "cuda_kernel(): template has pairs of a name and a value, not %R", pair);
        } else if (pair && PyArg_ParseTuple(pair, "sO", &name, &value)) {
            if (Py_TYPE(value) == kp_dtype_type)
                rc = kp_check(mlx_fast_cuda_kernel_config_add_template_arg_dtype(
                    config, name, ((struct kp_dtype *)value)->dtype));
            else if (PyBool_Check(value))
                rc = kp_check(mlx_fast_cuda_kernel_config_add_template_arg_bool(config, name,
                                                                                value == Py_True));
            else {
                int number;
                if (!kp_int32("cuda_kernel(): a number of template", value, &number))
                    rc = kp_check(
                        mlx_fast_cuda_kernel_config_add_template_arg_int(config, name, number));
            }
        }
        Py_XDECREF(pair);
        if (rc) return -1;
    }
    return n < 0 ? -1 : 0;
}

static PyObject *apply_kernel(PyObject *m, PyObject *args) {
    PyObject *capsule, *inputs, *outputs, *template, *init, *stream;
    int g[3], t[3], verbose;
    mlx_stream s;
    (void)m;
    if (!PyArg_ParseTuple(args, "OOO(iii)(iii)OOpO:cuda_kernel", &capsule, &inputs, &outputs, &g[0],
                          &g[1], &g[2], &t[0], &t[1], &t[2], &template, &init, &verbose, &stream) ||
        kp_stream(&s, stream))
        return NULL;
    mlx_fast_cuda_kernel kernel = {PyCapsule_GetPointer(capsule, capsule_name)};
    if (!kernel.ctx) return NULL;
    mlx_vector_array in = mlx_vector_array_new(), out = mlx_vector_array_new();
    mlx_fast_cuda_kernel_config config = mlx_fast_cuda_kernel_config_new();
    PyObject *result = NULL;
    int rc = config.ctx ? 0 : kp_check(1);
    rc = rc || kp_fill_vector(&in, inputs) || add_outputs(config, outputs) ||
         add_template(config, template) ||
         kp_check(mlx_fast_cuda_kernel_config_set_grid(config, g[0], g[1], g[2])) ||
         kp_check(mlx_fast_cuda_kernel_config_set_thread_group(config, t[0], t[1], t[2])) ||
         kp_check(mlx_fast_cuda_kernel_config_set_verbose(config, verbose));
    if (!rc && init != Py_None) {
        double value = PyFloat_AsDouble(init);
        rc = PyErr_Occurred()
                 ? -1
                 : kp_check(mlx_fast_cuda_kernel_config_set_init_value(config, (float)value));
    }
    if (!rc) rc = kp_check(mlx_fast_cuda_kernel_apply(&out, kernel, in, config, s));
    if (!rc)
        result = kp_wrap_list(out);
    else
        mlx_vector_array_free(out);
    mlx_vector_array_free(in);
    mlx_fast_cuda_kernel_config_free(config);
    return result;
}

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
    {"_cuda_kernel", make_kernel, METH_VARARGS, "Makes a kernel of its source."},
    {"_cuda_kernel_apply", apply_kernel, METH_VARARGS, "Runs a kernel."},
    {"_cuda_kernel_compiled", apply_compiled, METH_VARARGS, "Runs a compiled kernel."},
    {0},
};
int kp_add_kernels(PyObject *m) {
    return PyModule_AddFunctions(m, functions);
}
