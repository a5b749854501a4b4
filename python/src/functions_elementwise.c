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

/* Towards zero: the floor of what is positive, the ceiling of what is negative. */
KP_FUNCTION(core, trunc) {
    mlx_array a = c->v[0].array, out = mlx_array_new();
    mlx_dtype d = mlx_array_dtype(a);
    if (d <= MLX_INT64) return kp_done(mlx_array_set(&out, a), out);
    mlx_array zero = mlx_array_new_float32(0), low = mlx_array_new(), high = mlx_array_new(),
              negative = mlx_array_new();
    int rc = mlx_astype(&zero, zero, d, c->stream) || mlx_floor(&low, a, c->stream) ||
             mlx_ceil(&high, a, c->stream) || mlx_less(&negative, a, zero, c->stream) ||
             mlx_where(&out, negative, high, low, c->stream);
    PyObject *result = kp_done(rc, out);
    mlx_array_free(zero);
    mlx_array_free(low);
    mlx_array_free(high);
    mlx_array_free(negative);
    return result;
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
