/* print.c - arrays as text with a chosen number of digits after the point */
#include "keel_python.h"

#include <math.h>
#include <string.h>

static _Thread_local int precision = -1; /* -1: six significant digits, as the library prints */

static bool is_inexact(mlx_dtype d) {
    return d >= MLX_FLOAT16;
}

bool kp_prints_otherwise(mlx_dtype dtype) {
    return precision >= 0 && is_inexact(dtype);
}

static PyObject *float_text(double x) {
    char *text = PyOS_double_to_string(x, 'f', precision, 0, NULL);
    PyObject *out = text ? PyUnicode_FromString(text) : NULL;
    PyMem_Free(text);
    return out;
}

static PyObject *element_text(const char *p, mlx_dtype dtype) {
    PyObject *value = kp_element(p, dtype);
    if (!value) return NULL;
    PyObject *out;
    if (dtype == MLX_COMPLEX64) {
        double imaginary = PyComplex_ImagAsDouble(value);
        PyObject *re = float_text(PyComplex_RealAsDouble(value)), *im = float_text(imaginary);
        out = re && im ? PyUnicode_FromFormat("%U%s%Uj", re, imaginary < 0 ? "" : "+", im) : NULL;
        Py_XDECREF(re);
        Py_XDECREF(im);
    } else {
        out = float_text(PyFloat_AsDouble(value));
    }
    Py_DECREF(value);
    return out;
}

/* Appends to *text, which becomes NULL when there is no memory. */
static void put(PyObject **text, PyObject *more) {
    PyObject *both = *text && more ? PyUnicode_Concat(*text, more) : NULL;
    Py_XDECREF(*text);
    Py_XDECREF(more);
    *text = both;
}

enum { SHOWN_WHOLE = 6, SHOWN_AT_END = 3 }; /* as mlx_array_tostring shows long axes */

static void put_separator(PyObject **text, int axis, bool last) {
    put(text, PyUnicode_FromString(last ? ", " : ",\n       ")); /* as wide as "array([" */
    for (int i = 0; i < axis && !last; i++) put(text, PyUnicode_FromString(" "));
}

static void put_axis(PyObject **text, mlx_array a, const char *p, int axis) {
    int ndim = (int)mlx_array_ndim(a);
    if (!*text) return;
    if (axis == ndim) {
        put(text, element_text(p, mlx_array_dtype(a)));
        return;
    }
    int n = mlx_array_shape(a)[axis];
    int64_t step = (int64_t)mlx_array_strides(a)[axis] * (int64_t)mlx_array_itemsize(a);
    put(text, PyUnicode_FromString("["));
    for (int i = 0; i < n && *text; i++) {
        if (i) put_separator(text, axis, axis == ndim - 1);
        if (n > SHOWN_WHOLE && i == SHOWN_AT_END) {
            put(text, PyUnicode_FromString("..."));
            i = n - SHOWN_AT_END - 1;
        } else {
            put_axis(text, a, p + i * step, axis + 1);
        }
    }
    put(text, PyUnicode_FromString("]"));
}

PyObject *kp_print(mlx_array a) {
    const char *data = mlx_array_size(a) ? kp_data(a) : "";
    if (!data) return kp_raise();
    PyObject *text = PyUnicode_FromString("array(");
    put_axis(&text, a, data, 0);
    PyObject *name = PyObject_GetAttrString(kp_dtypes[mlx_array_dtype(a)], "_name");
    put(&text, name ? PyUnicode_FromFormat(", dtype=%U)", name) : NULL);
    Py_XDECREF(name);
    return text;
}

static PyObject *set_precision(PyObject *m, PyObject *o) {
    (void)m;
    long p = PyLong_AsLong(o);
    if (p == -1 && PyErr_Occurred()) return NULL;
    precision = p < 0 ? -1 : p > 100 ? 100 : (int)p;
    return kp_new_ref(Py_None);
}
static PyObject *get_precision(PyObject *m, PyObject *none) {
    (void)m;
    (void)none;
    return PyLong_FromLong(precision);
}
static PyMethodDef functions[] = {
    {"_set_print_precision", set_precision, METH_O,
     "Digits after the point of printed floats, in this thread."},
    {"_print_precision", get_precision, METH_NOARGS,
     "The digits that _set_print_precision set, or -1."},
    {0},
};

int kp_add_print(PyObject *m) {
    return PyModule_AddFunctions(m, functions);
}
