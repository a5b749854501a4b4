/* functions_product.c - products of matrices */
#include "keel_python.h"

KP_FUNCTION(core, matmul) {
    mlx_array out = mlx_array_new();
    return kp_done(mlx_matmul(&out, c->v[0].array, c->v[1].array, c->stream), out);
}
KP_FUNCTION(core, inner) {
    mlx_array out = mlx_array_new();
    return kp_done(mlx_inner(&out, c->v[0].array, c->v[1].array, c->stream), out);
}
KP_FUNCTION(core, outer) {
    mlx_array out = mlx_array_new();
    return kp_done(mlx_outer(&out, c->v[0].array, c->v[1].array, c->stream), out);
}
KP_FUNCTION(core, kron) {
    mlx_array out = mlx_array_new();
    return kp_done(mlx_kron(&out, c->v[0].array, c->v[1].array, c->stream), out);
}
KP_FUNCTION(core, addmm) {
    mlx_array out = mlx_array_new();
    return kp_done(mlx_addmm(&out, c->v[0].array, c->v[1].array, c->v[2].array, (float)c->v[3].f,
                             (float)c->v[4].f, c->stream),
                   out);
}
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
KP_FUNCTION(core, block_masked_mm) {
    mlx_array out = mlx_array_new();
    return kp_done(mlx_block_masked_mm(&out, c->v[0].array, c->v[1].array, (int)c->v[2].i,
                                       kp_optional_array(&c->v[3]), kp_optional_array(&c->v[4]),
                                       kp_optional_array(&c->v[5]), c->stream),
                   out);
}
KP_FUNCTION(core, gather_mm) {
    mlx_array out = mlx_array_new();
    return kp_done(mlx_gather_mm(&out, c->v[0].array, c->v[1].array, kp_optional_array(&c->v[2]),
                                 kp_optional_array(&c->v[3]), c->v[4].i != 0, c->stream),
                   out);
}
KP_FUNCTION(core, segmented_mm) {
    mlx_array out = mlx_array_new();
    return kp_done(mlx_segmented_mm(&out, c->v[0].array, c->v[1].array, c->v[2].array, c->stream),
                   out);
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
