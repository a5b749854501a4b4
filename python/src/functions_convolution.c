/* functions_convolution.c - convolutions */
#include "keel_python.h"

/* n numbers of a parameter that may be a single one. */
static int spatial(struct kp_call *c, int i, int n, int *at) {
    const struct kp_value *v = &c->v[i];
    if (!v->one && v->ints.n != (size_t)n && v->ints.n != 1) {
        PyErr_Format(PyExc_ValueError,
                     "%s(): argument '%s' has %zu numbers, but must have %d, or be one number",
                     c->row->name, c->row->parameters[i].name, v->ints.n, n);
        return -1;
    }
    for (int k = 0; k < n; k++) at[k] = v->ints.at[v->ints.n == 1 ? 0 : k];
    return 0;
}
KP_FUNCTION(core, conv2d) {
    int s[2], p[2], d[2];
    mlx_array out = mlx_array_new();
    if (spatial(c, 2, 2, s) || spatial(c, 3, 2, p) || spatial(c, 4, 2, d)) return NULL;
    return kp_done(mlx_conv2d(&out, c->v[0].array, c->v[1].array, s[0], s[1], p[0], p[1], d[0],
                              d[1], (int)c->v[5].i, c->stream),
                   out);
}
KP_FUNCTION(core, conv3d) {
    int s[3], p[3], d[3];
    mlx_array out = mlx_array_new();
    if (spatial(c, 2, 3, s) || spatial(c, 3, 3, p) || spatial(c, 4, 3, d)) return NULL;
    return kp_done(mlx_conv3d(&out, c->v[0].array, c->v[1].array, s[0], s[1], s[2], p[0], p[1],
                              p[2], d[0], d[1], d[2], (int)c->v[5].i, c->stream),
                   out);
}
KP_FUNCTION(core, conv_transpose2d) {
    int s[2], p[2], d[2], o[2];
    mlx_array out = mlx_array_new();
    if (spatial(c, 2, 2, s) || spatial(c, 3, 2, p) || spatial(c, 4, 2, d) || spatial(c, 5, 2, o))
        return NULL;
    return kp_done(mlx_conv_transpose2d(&out, c->v[0].array, c->v[1].array, s[0], s[1], p[0], p[1],
                                        d[0], d[1], o[0], o[1], (int)c->v[6].i, c->stream),
                   out);
}
KP_FUNCTION(core, conv_transpose3d) {
    int s[3], p[3], d[3], o[3];
    mlx_array out = mlx_array_new();
    if (spatial(c, 2, 3, s) || spatial(c, 3, 3, p) || spatial(c, 4, 3, d) || spatial(c, 5, 3, o))
        return NULL;
    return kp_done(mlx_conv_transpose3d(&out, c->v[0].array, c->v[1].array, s[0], s[1], s[2], p[0],
                                        p[1], p[2], d[0], d[1], d[2], o[0], o[1], o[2],
                                        (int)c->v[6].i, c->stream),
                   out);
}
/* Numbers of a Python object: one for all axes, or one for each. */
static int numbers(PyObject *o, int n, int *at, int other) {
    Py_ssize_t count = !o || PyIndex_Check(o) ? 0 : PySequence_Size(o);
    if (count < 0) return -1;
    if (count && count != n && count != 1) {
        PyErr_Format(PyExc_ValueError, "conv_general(): %zd numbers were given for %d axes", count,
                     n);
        return -1;
    }
    for (int i = 0; i < n; i++) {
        PyObject *item = !o      ? NULL
                         : count ? PySequence_GetItem(o, count == 1 ? 0 : i)
                                 : kp_new_ref(o);
        int rc = 0;
        at[i] = other;
        if (o) rc = item ? kp_int32("conv_general(): a number of padding", item, at + i) : -1;
        Py_XDECREF(item);
        if (rc) return -1;
    }
    return 0;
}
/* padding: a number, one for each axis, or a pair of lists: before and after. */
KP_FUNCTION(core, conv_general) {
    mlx_array out = mlx_array_new();
    int n = (int)mlx_array_ndim(c->v[0].array) - 2, s[64], low[64], high[64], kernel[64], input[64];
    if (n < 1 || n > 64) {
        PyErr_SetString(
            PyExc_ValueError,
            "conv_general(): the input needs an axis of batches, of channels, and one between");
        return NULL;
    }
    PyObject *padding = c->v[3].object, *before = padding, *after = padding;
    PyObject *first = padding && !PyIndex_Check(padding) && PySequence_Size(padding) == 2
                          ? PySequence_GetItem(padding, 0)
                          : NULL;
    bool pair = first && !PyIndex_Check(first);
    Py_XDECREF(first);
    if (pair) {
        before = PySequence_GetItem(padding, 0);
        after = PySequence_GetItem(padding, 1);
    }
    int rc = spatial(c, 2, n, s) || numbers(before, n, low, 0) || numbers(after, n, high, 0) ||
             spatial(c, 4, n, kernel) || spatial(c, 5, n, input);
    if (pair) {
        Py_XDECREF(before);
        Py_XDECREF(after);
    }
    if (rc) return NULL;
    size_t m = (size_t)n;
    return kp_done(mlx_conv_general(&out, c->v[0].array, c->v[1].array, s, m, low, m, high, m,
                                    kernel, m, input, m, (int)c->v[6].i, c->v[7].i != 0, c->stream),
                   out);
}
