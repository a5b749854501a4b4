/* functions_elementwise.c - element by element: one array, two, three */
#include "keel_python.h"

#include "keel/ops.h"

KP_FUNCTION(core, conj) {
    mlx_array a, out = mlx_array_new();
    if (kp_one(c, 0, &a)) return NULL;
    return kp_done(mlx_conjugate(&out, a, c->stream), out);
}

KP_FUNCTION(core, logical_xor) {
    mlx_array a, b, x = mlx_array_new(), y = mlx_array_new(), out = mlx_array_new();
    if (kp_pair(c, 0, 1, &a, &b)) return NULL;
    if (mlx_array_dtype(a) == MLX_BOOL && mlx_array_dtype(b) == MLX_BOOL)
        return kp_done(mlx_not_equal(&out, a, b, c->stream), out);
    int rc = mlx_logical_not(&x, a, c->stream) || mlx_logical_not(&y, b, c->stream) ||
             mlx_not_equal(&out, x, y, c->stream);
    PyObject *result = kp_done(rc, out);
    mlx_array_free(x);
    mlx_array_free(y);
    return result;
}

KP_FUNCTION(core, positive) {
    return kp_new_ref(c->v[0].object);
}

KP_FUNCTION(core, divmod) {
    mlx_array a, b;
    if (kp_pair(c, 0, 1, &a, &b)) return NULL;
    mlx_vector_array out = mlx_vector_array_new();
    return kp_done_list(mlx_divmod(&out, a, b, c->stream), out);
}

KP_FUNCTION(core, clip) {
    mlx_array a = c->v[0].array, bound[2] = {{NULL}, {NULL}}, out = mlx_array_new();
    mlx_dtype dtype = mlx_array_dtype(a);
    if (!c->v[1].given && !c->v[2].given) {
        PyErr_SetString(PyExc_ValueError, "clip() needs a_min, a_max, or both");
        return NULL;
    }
    for (int i = 0; i < 2; i++) {
        if (!c->v[i + 1].given) continue;
        PyObject *o = c->v[i + 1].object;
        if (kp_is_array(o)) {
            bound[i] = kp_handle(o);
        } else {
            if (kp_to_array(&bound[i], o, NULL, &dtype)) return NULL;
            kp_own(c, bound[i]);
        }
    }
    return kp_done(mlx_clip(&out, a, bound[0], bound[1], c->stream), out);
}

KP_FUNCTION(core, nan_to_num) {
    mlx_array a, out = mlx_array_new();
    if (kp_one(c, 0, &a)) return NULL;
    mlx_optional_float high = {.has_value = c->v[2].given, .value = (float)c->v[2].f},
                       low = {.has_value = c->v[3].given, .value = (float)c->v[3].f};
    return kp_done(mlx_nan_to_num(&out, a, (float)c->v[1].f, high, low, c->stream), out);
}
