/* functions_product.c - products of matrices */
#include "keel_python.h"

/* axes: a number of axes, or the two lists of axes. */
KP_FUNCTION(core, tensordot) {
    mlx_array a = c->v[0].array, b = c->v[1].array, out = mlx_array_new();
    PyObject *axes = c->v[2].object;
    if (!axes || PyIndex_Check(axes)) {
        int n = 2;
        if (axes && kp_int32("tensordot(): argument 'axes'", axes, &n)) return NULL;
        return kp_done(mlx_tensordot_axis(&out, a, b, n, c->stream), out);
    }
    int at[2][64];
    size_t n[2];
    if (PySequence_Size(axes) != 2) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_ValueError, "tensordot(): axes are a number or two lists");
        return NULL;
    }
    for (int side = 0; side < 2; side++) {
        PyObject *list = PySequence_GetItem(axes, side);
        Py_ssize_t count = !list ? -1 : PyIndex_Check(list) ? 1 : PySequence_Size(list);
        if (count > 64) count = -1;
        for (Py_ssize_t i = 0; i < count; i++) {
            PyObject *item = PyIndex_Check(list) ? kp_new_ref(list) : PySequence_GetItem(list, i);
            if (!item || kp_int32("tensordot(): an axis", item, &at[side][i])) count = -1;
            Py_XDECREF(item);
        }
        Py_XDECREF(list);
        if (count < 0) {
            if (!PyErr_Occurred())
                PyErr_SetString(PyExc_ValueError, "tensordot(): axes are a number or two lists");
            return NULL;
        }
        n[side] = (size_t)count;
    }
    return kp_done(mlx_tensordot(&out, a, b, at[0], n[0], at[1], n[1], c->stream), out);
}
KP_FUNCTION(core, hadamard_transform) {
    mlx_array out = mlx_array_new();
    mlx_optional_float scale = {.has_value = c->v[1].given, .value = (float)c->v[1].f};
    return kp_done(mlx_hadamard_transform(&out, c->v[0].array, scale, c->stream), out);
}
KP_FUNCTION(core, einsum) {
    mlx_vector_array in;
    mlx_array out = mlx_array_new();
    if (kp_rest_arrays(c, &in)) return NULL;
    return kp_done(mlx_einsum(&out, c->v[0].str, in, c->stream), out);
}
