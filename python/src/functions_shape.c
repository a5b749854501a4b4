/* functions_shape.c - other shapes, elements repeated and moved */
#include "keel_python.h"

#include <limits.h>

static PyObject *too_many_axes(const char *function) {
    PyErr_Format(PyExc_ValueError, "%s() takes arrays of at most 64 axes", function);
    return NULL;
}
KP_FUNCTION(core, reshape) {
    mlx_array out = mlx_array_new();
    return kp_done(mlx_reshape(&out, c->v[0].array, c->v[1].ints.at, c->v[1].ints.n, c->stream),
                   out);
}
/* The ints of *args: reshape(2, 3) and reshape((2, 3)). -1: they do not fit; *n stays. */
static int rest_ints(struct kp_call *c, int *at, size_t *n, size_t max) {
    char what[80];
    PyOS_snprintf(what, sizeof what, "%s(): a number", c->row->name);
    PyObject *one = c->n_rest == 1 && !PyIndex_Check(c->rest[0]) ? c->rest[0] : NULL;
    Py_ssize_t count = one ? PySequence_Size(one) : c->n_rest;
    if (count < 0) return -1;
    if ((size_t)count > max) {
        PyErr_Format(PyExc_ValueError, "%s() takes at most %zu numbers", c->row->name, max);
        return -1;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *item = one ? PySequence_GetItem(one, i) : kp_new_ref(c->rest[i]);
        int rc = item ? kp_int32(what, item, at + i) : -1;
        Py_XDECREF(item);
        if (rc) return -1;
    }
    *n = (size_t)count;
    return 0;
}
KP_FUNCTION(array, reshape) {
    int at[64];
    size_t n;
    mlx_array out = mlx_array_new();
    if (rest_ints(c, at, &n, 64)) return NULL;
    return kp_done(mlx_reshape(&out, c->v[0].array, at, n, c->stream), out);
}
KP_FUNCTION(array, transpose) {
    int at[64];
    size_t n = 0;
    mlx_array a = c->v[0].array, out = mlx_array_new();
    bool none = !c->n_rest || (c->n_rest == 1 && c->rest[0] == Py_None);
    if (!none && rest_ints(c, at, &n, 64)) return NULL;
    return kp_done(none ? mlx_transpose(&out, a, c->stream)
                        : mlx_transpose_axes(&out, a, at, n, c->stream),
                   out);
}
KP_FUNCTION(core, transpose) {
    mlx_array a = c->v[0].array, out = mlx_array_new();
    struct kp_value *v = &c->v[1];
    return kp_done(v->given ? mlx_transpose_axes(&out, a, v->ints.at, v->ints.n, c->stream)
                            : mlx_transpose(&out, a, c->stream),
                   out);
}
KP_FUNCTION(core, matrix_transpose) {
    mlx_array out = mlx_array_new();
    return kp_done(mlx_swapaxes(&out, c->v[0].array, -2, -1, c->stream), out);
}
KP_FUNCTION(core, unflatten) {
    mlx_array out = mlx_array_new();
    return kp_done(mlx_unflatten(&out, c->v[0].array, (int)c->v[1].i, c->v[2].ints.at,
                                 c->v[2].ints.n, c->stream),
                   out);
}
KP_FUNCTION(core, expand_dims) {
    mlx_array out = mlx_array_new();
    return kp_done(
        mlx_expand_dims_axes(&out, c->v[0].array, c->v[1].ints.at, c->v[1].ints.n, c->stream), out);
}
KP_FUNCTION(core, squeeze) {
    mlx_array out = mlx_array_new();
    struct kp_value *v = &c->v[1];
    return kp_done(v->given
                       ? mlx_squeeze_axes(&out, c->v[0].array, v->ints.at, v->ints.n, c->stream)
                       : mlx_squeeze(&out, c->v[0].array, c->stream),
                   out);
}
KP_FUNCTION(core, broadcast_to) {
    mlx_array a, out = mlx_array_new();
    if (kp_one(c, 0, &a)) return NULL;
    return kp_done(mlx_broadcast_to(&out, a, c->v[1].ints.at, c->v[1].ints.n, c->stream), out);
}
KP_FUNCTION(core, as_strided) {
    mlx_array a = c->v[0].array, out = mlx_array_new();
    const int *shape = c->v[1].given ? c->v[1].ints.at : mlx_array_shape(a);
    size_t n = c->v[1].given ? c->v[1].ints.n : mlx_array_ndim(a);
    int64_t strides[64], step = 1;
    if (n > 64) {
        PyErr_SetString(PyExc_ValueError, "as_strided() takes at most 64 axes");
        return NULL;
    }
    for (size_t i = n; i--;) { /* row-major unless given */
        strides[i] = step;
        step *= shape[i];
    }
    size_t n_strides = n;
    if (c->v[2].given) {
        n_strides = c->v[2].ints.n;
        for (size_t i = 0; i < n_strides && i < 64; i++) strides[i] = c->v[2].ints.at[i];
    }
    return kp_done(
        mlx_as_strided(&out, a, shape, n, strides, n_strides, (size_t)c->v[3].i, c->stream), out);
}
KP_FUNCTION(core, broadcast_arrays) {
    mlx_vector_array in, out = mlx_vector_array_new();
    if (kp_rest_arrays(c, &in)) return NULL;
    return kp_done_list(mlx_broadcast_arrays(&out, in, c->stream), out);
}
KP_FUNCTION(core, meshgrid) {
    mlx_vector_array in, out = mlx_vector_array_new();
    if (kp_rest_arrays(c, &in)) return NULL;
    const char *indexing = c->v[2].given ? c->v[2].str : "xy";
    return kp_done_tuple(mlx_meshgrid(&out, in, c->v[1].i != 0, indexing, c->stream), out);
}
static PyObject *at_least(struct kp_call *c,
                          int (*f)(mlx_array *, const mlx_array, const mlx_stream)) {
    mlx_vector_array in;
    if (kp_rest_arrays(c, &in)) return NULL;
    size_t n = mlx_vector_array_size(in);
    PyObject *list = n == 1 ? NULL : PyList_New((Py_ssize_t)n);
    for (size_t i = 0; i < n; i++) {
        mlx_array a = mlx_array_new(), out = mlx_array_new();
        int rc = mlx_vector_array_get(&a, in, i) || f(&out, a, c->stream);
        mlx_array_free(a);
        PyObject *made = kp_done(rc, out);
        if (n == 1) return made;
        if (!made || PyList_SetItem(list, (Py_ssize_t)i, made)) {
            Py_DECREF(list);
            return NULL;
        }
    }
    return list;
}
KP_FUNCTION(core, atleast_1d) {
    return at_least(c, mlx_atleast_1d);
}
KP_FUNCTION(core, atleast_2d) {
    return at_least(c, mlx_atleast_2d);
}
KP_FUNCTION(core, atleast_3d) {
    return at_least(c, mlx_atleast_3d);
}
KP_FUNCTION(core, repeat) {
    mlx_array out = mlx_array_new();
    return kp_done(c->v[2].given ? mlx_repeat_axis(&out, c->v[0].array, (int)c->v[1].i,
                                                   (int)c->v[2].i, c->stream)
                                 : mlx_repeat(&out, c->v[0].array, (int)c->v[1].i, c->stream),
                   out);
}
KP_FUNCTION(core, tile) {
    mlx_array out = mlx_array_new();
    return kp_done(mlx_tile(&out, c->v[0].array, c->v[1].ints.at, c->v[1].ints.n, c->stream), out);
}
KP_FUNCTION(core, roll) {
    mlx_array a = c->v[0].array, out = mlx_array_new();
    struct kp_value *shift = &c->v[1], *axis = &c->v[2];
    int rc, one[64];
    if (!axis->given) {
        rc = mlx_roll(&out, a, shift->ints.at, shift->ints.n, c->stream);
    } else if (axis->one) {
        rc = mlx_roll_axis(&out, a, shift->ints.at, shift->ints.n, axis->ints.at[0], c->stream);
    } else { /* one shift serves all axes */
        const int *shifts = shift->ints.at;
        size_t n = shift->ints.n;
        if (shift->one && axis->ints.n <= 64) {
            for (size_t i = 0; i < axis->ints.n; i++) one[i] = shift->ints.at[0];
            shifts = one;
            n = axis->ints.n;
        }
        rc = mlx_roll_axes(&out, a, shifts, n, axis->ints.at, axis->ints.n, c->stream);
    }
    return kp_done(rc, out);
}
KP_FUNCTION(core, flip) {
    mlx_array a = c->v[0].array, out = mlx_array_new();
    int n = (int)mlx_array_ndim(a), start[64], stop[64], step[64];
    if (n > 64) return too_many_axes("flip");
    for (int i = 0; i < n; i++) {
        bool chosen = !c->v[1].given;
        for (size_t k = 0; c->v[1].given && k < c->v[1].ints.n; k++) {
            int axis = c->v[1].ints.at[k];
            if (axis < -n || axis >= n) return kp_raise_axis("flip", axis, n);
            chosen = chosen || (axis < 0 ? axis + n : axis) == i;
        }
        start[i] = chosen ? INT_MAX : 0; /* what is outside is clamped */
        stop[i] = chosen ? INT_MIN : INT_MAX;
        step[i] = chosen ? -1 : 1;
    }
    size_t axes = (size_t)n;
    return kp_done(mlx_slice(&out, a, start, axes, stop, axes, step, axes, c->stream), out);
}
KP_FUNCTION(core, trace) {
    mlx_array a = c->v[0].array, out = mlx_array_new();
    mlx_dtype dtype = kp_dtype_or(&c->v[4], mlx_array_dtype(a));
    return kp_done(
        mlx_trace(&out, a, (int)c->v[1].i, (int)c->v[2].i, (int)c->v[3].i, dtype, c->stream), out);
}
/* pad_width: a number, one pair for all axes, or a pair (or a number) for each axis. */
KP_FUNCTION(core, pad) {
    mlx_array a = c->v[0].array, value, out = mlx_array_new();
    int n = (int)mlx_array_ndim(a), axes[64], low[64], high[64];
    mlx_dtype dtype = mlx_array_dtype(a);
    PyObject *width = c->v[1].object, *o = c->v[3].object;
    if (n > 64) return too_many_axes("pad");
    if (o && kp_is_array(o)) {
        value = kp_handle(o);
    } else if (o) {
        value = mlx_array_new();
        if (kp_to_array(&value, o, NULL, &dtype)) return NULL;
        kp_own(c, value);
    } else {
        value = mlx_array_new_int(0);
        if (mlx_astype(&value, value, dtype, c->stream)) return kp_raise();
        kp_own(c, value);
    }
    Py_ssize_t given = PyIndex_Check(width) ? -1 : PySequence_Size(width);
    if (given < 0 && PyErr_Occurred()) return NULL;
    PyObject *first = given > 0 ? PySequence_GetItem(width, 0) : NULL;
    bool flat = first && PyIndex_Check(first); /* (before, after) or (n,) for all axes */
    Py_XDECREF(first);
    if (given >= 0 && !flat && given != n && given != 1) {
        PyErr_Format(PyExc_ValueError, "pad(): pad_width has %zd pairs for an array of %d axes",
                     given, n);
        return NULL;
    }
    for (int i = 0; i < n; i++) {
        axes[i] = i;
        PyObject *pair =
            given < 0 || flat ? kp_new_ref(width) : PySequence_GetItem(width, given == 1 ? 0 : i);
        Py_ssize_t k = !pair ? -1 : PyIndex_Check(pair) ? 0 : PySequence_Size(pair);
        for (int side = 0; k >= 0 && side < 2; side++) {
            PyObject *item = !k ? kp_new_ref(pair) : PySequence_GetItem(pair, k > 1 ? side : 0);
            if (!item || kp_int32("pad(): a width", item, (side ? high : low) + i)) k = -1;
            Py_XDECREF(item);
        }
        Py_XDECREF(pair);
        if (k < 0) return NULL;
    }
    size_t m = (size_t)n;
    PyObject *named = c->v[2].given ? c->v[2].object : NULL;
    const char *mode = "constant";
    if (named && !PyUnicode_Check(named)) {
        PyErr_Format(PyExc_TypeError, "pad(): argument 'mode' must be a str, not %R", named);
        return NULL;
    }
    if (named && !(mode = PyUnicode_AsUTF8AndSize(named, NULL))) return NULL;
    return kp_done(mlx_pad(&out, a, axes, m, low, m, high, m, value, mode, c->stream), out);
}
