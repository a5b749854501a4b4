/* functions_slice.c - slices and splits */
#include "keel_python.h"

KP_FUNCTION(core, split) {
    mlx_vector_array out = mlx_vector_array_new();
    struct kp_value *v = &c->v[1];
    int axis = (int)c->v[2].i;
    return kp_done_list(
        v->one ? mlx_split(&out, c->v[0].array, v->ints.at[0], axis, c->stream)
               : mlx_split_sections(&out, c->v[0].array, v->ints.at, v->ints.n, axis, c->stream),
        out);
}
KP_FUNCTION(core, unstack) {
    mlx_array a = c->v[0].array;
    int axis = (int)c->v[1].i, n = mlx_array_dim(a, axis);
    if (PyErr_Occurred() || axis >= (int)mlx_array_ndim(a) || axis < -(int)mlx_array_ndim(a))
        return kp_raise();
    PyObject *out = PyTuple_New(n);
    mlx_vector_array parts = mlx_vector_array_new();
    int rc = n ? mlx_split(&parts, a, n, axis, c->stream) : 0;
    for (int i = 0; !rc && i < n; i++) {
        mlx_array one = mlx_array_new(), flat = mlx_array_new();
        rc = mlx_vector_array_get(&one, parts, (size_t)i) ||
             mlx_squeeze_axis(&flat, one, axis, c->stream);
        mlx_array_free(one);
        PyObject *made = kp_done(rc, flat);
        if (!made || PyTuple_SetItem(out, i, made)) rc = 1;
    }
    mlx_vector_array_free(parts);
    if (!rc) return out;
    Py_DECREF(out);
    return kp_raise();
}
KP_FUNCTION(core, slice) {
    mlx_array out = mlx_array_new();
    return kp_done(mlx_slice_dynamic(&out, c->v[0].array, c->v[1].array, c->v[2].ints.at,
                                     c->v[2].ints.n, c->v[3].ints.at, c->v[3].ints.n, c->stream),
                   out);
}
KP_FUNCTION(core, slice_update) {
    mlx_array out = mlx_array_new();
    return kp_done(mlx_slice_update_dynamic(&out, c->v[0].array, c->v[1].array, c->v[2].array,
                                            c->v[3].ints.at, c->v[3].ints.n, c->stream),
                   out);
}
