/* index.c - a[key] and a[key] = value */
#include "keel_python.h"

PyObject *kp_getitem(PyObject *self, PyObject *key) {
    mlx_array a = kp_handle(self), out = mlx_array_new();
    int n = (int)mlx_array_ndim(a);
    mlx_stream s;
    if (kp_default_stream(&s)) return NULL;
    if (PyLong_Check(key) && n > 0 && n <= 64) {
        long long i = PyLong_AsLongLong(key);
        if (i == -1 && PyErr_Occurred()) return NULL;
        const int *shape = mlx_array_shape(a);
        if (i < -shape[0] || i >= shape[0]) {
            PyErr_Format(PyExc_IndexError, "index %lld is out of range for axis 0 of %d elements", i, shape[0]);
            return NULL;
        }
        if (i < 0) i += shape[0];
        int start[64] = {0}, stop[64], step[64];
        for (int k = 0; k < n; k++) {
            stop[k] = shape[k];
            step[k] = 1;
        }
        start[0] = (int)i;
        stop[0] = (int)i + 1;
        size_t m = (size_t)n;
        int rc = mlx_slice(&out, a, start, m, stop, m, step, m, s) || mlx_squeeze_axis(&out, out, 0, s);
        return kp_done(rc, out);
    }
    PyErr_SetString(PyExc_NotImplementedError, "this form of indexing is not built yet");
    return NULL;
}

int kp_setitem(PyObject *self, PyObject *key, PyObject *value) {
    (void)self, (void)key, (void)value;
    PyErr_SetString(PyExc_NotImplementedError, "assignment is not built yet");
    return -1;
}
