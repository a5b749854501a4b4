/* kernels.c - kernels in CUDA C++ that the caller writes */
#include "keel_python.h"

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

static int add_outputs(mlx_fast_cuda_kernel_config config, PyObject *list) {
    Py_ssize_t n = PySequence_Size(list);
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *pair = PySequence_GetItem(list, i), *shape, *dtype;
        int dims[64], rc = -1;
        if (pair && PyArg_ParseTuple(pair, "OO!", &shape, kp_dtype_type, &dtype)) {
            Py_ssize_t ndim = PySequence_Size(shape);
            if (ndim > 64)
                PyErr_SetString(PyExc_ValueError, "cuda_kernel(): an output has more than 64 axes");
            rc = ndim < 0 || ndim > 64 ? -1 : 0;
            for (Py_ssize_t k = 0; k < ndim && !rc; k++) {
                PyObject *item = PySequence_GetItem(shape, k);
                long extent = item ? PyLong_AsLong(item) : -1;
                Py_XDECREF(item);
                dims[k] = (int)extent;
                if (PyErr_Occurred()) rc = -1;
            }
            rc = rc || kp_check(mlx_fast_cuda_kernel_config_add_output_arg(
                           config, dims, (size_t)ndim, ((struct kp_dtype *)dtype)->dtype));
        }
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
        if (pair && PyArg_ParseTuple(pair, "sO", &name, &value)) {
            if (Py_TYPE(value) == kp_dtype_type)
                rc = kp_check(mlx_fast_cuda_kernel_config_add_template_arg_dtype(
                    config, name, ((struct kp_dtype *)value)->dtype));
            else if (PyBool_Check(value))
                rc = kp_check(mlx_fast_cuda_kernel_config_add_template_arg_bool(config, name,
                                                                                value == Py_True));
            else {
                long number = PyLong_AsLong(value);
                if (!PyErr_Occurred())
                    rc = kp_check(mlx_fast_cuda_kernel_config_add_template_arg_int(config, name,
                                                                                   (int)number));
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

static PyMethodDef functions[] = {
    {"_cuda_kernel", make_kernel, METH_VARARGS, "Makes a kernel of its source."},
    {"_cuda_kernel_apply", apply_kernel, METH_VARARGS, "Runs a kernel."},
    {0},
};
int kp_add_kernels(PyObject *m) {
    return PyModule_AddFunctions(m, functions);
}
