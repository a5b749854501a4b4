/* functions_shape.c - creation, shapes, joining, splitting, rearranging, taking */
#include <limits.h>

#include "keel_python.h"

#include <math.h>
#include <string.h>

/* ---- creation ---- */
FUNCTION(core, zeros) {
    mlx_array out = mlx_array_new();
    return kp_done(mlx_zeros(&out, c->v[0].ints.at, c->v[0].ints.n,
                             kp_dtype_or(&c->v[1], MLX_FLOAT32), c->stream),
                   out);
}
FUNCTION(core, ones) {
    mlx_array out = mlx_array_new();
    return kp_done(mlx_ones(&out, c->v[0].ints.at, c->v[0].ints.n,
                            kp_dtype_or(&c->v[1], MLX_FLOAT32), c->stream),
                   out);
}
static PyObject *like(struct call *c, int number) {
    mlx_array a = c->v[0].array, out = mlx_array_new(), vals = mlx_array_new_int(number);
    int rc = !vals.ctx ||
             mlx_full_like(&out, a, vals, kp_dtype_or(&c->v[1], mlx_array_dtype(a)), c->stream);
    mlx_array_free(vals);
    return kp_done(rc, out);
}
FUNCTION(core, zeros_like) {
    return like(c, 0);
}
FUNCTION(core, ones_like) {
    return like(c, 1);
}

/* The value to fill with: a Python number is made in the wanted dtype at once, so that a float64 is
 * not rounded to float32, and an int that the dtype does not hold raises. */
static int fill_value(struct call *c, const mlx_dtype *wanted, mlx_array *vals) {
    PyObject *o = c->v[1].object;
    if (!wanted || !o || kp_is_array(o)) return kp_one(c, 1, vals);
    *vals = mlx_array_new();
    if (kp_to_array(vals, o, NULL, wanted)) return -1;
    kp_own(c, *vals);
    return 0;
}
FUNCTION(core, full) {
    mlx_array vals, out = mlx_array_new();
    mlx_dtype dtype = kp_dtype_or(&c->v[2], MLX_FLOAT32);
    if (fill_value(c, c->v[2].given ? &dtype : NULL, &vals)) return NULL;
    return kp_done(mlx_full(&out, c->v[0].ints.at, c->v[0].ints.n, vals,
                            kp_dtype_or(&c->v[2], mlx_array_dtype(vals)), c->stream),
                   out);
}
FUNCTION(core, full_like) {
    mlx_array a, vals, out = mlx_array_new();
    mlx_dtype dtype = kp_dtype_or(&c->v[2], mlx_array_dtype(c->v[0].array));
    if (kp_hold(&a, c->v[0].array)) return NULL;
    kp_own(c, a);
    if (fill_value(c, &dtype, &vals)) return NULL;
    return kp_done(mlx_full_like(&out, a, vals, dtype, c->stream), out);
}

/* One end or the step of arange(). A whole number is held as int64 too, where it has one. */
struct bound {
    double f;
    int64_t i;
    bool floating, wide; /* not a whole number; beyond int32 */
};
static int take_bound(struct bound *b, PyObject *o, const char *name) {
    b->floating = !PyIndex_Check(o);
    b->f = PyFloat_AsDouble(o);
    if (b->f == -1 && PyErr_Occurred()) {
        if (PyErr_ExceptionMatches(PyExc_TypeError))
            PyErr_Format(PyExc_TypeError, "arange(): the argument '%s' is %R; numbers are taken",
                         name, o);
        return 1;
    }
    if (b->floating) return 0;
    PyObject *whole = PyNumber_Index(o);
    int beyond = 0;
    b->i = whole ? PyLong_AsLongLongAndOverflow(whole, &beyond) : -1;
    Py_XDECREF(whole);
    if (beyond)
        PyErr_Format(PyExc_TypeError,
                     "arange(): the argument '%s' is %R; integers of 64 bits are taken", name, o);
    b->wide = b->i != (int32_t)b->i;
    return PyErr_Occurred() ? 1 : 0;
}

/* start, start + step, ... of whole numbers that double does not hold: the same from 0, whose
 * numbers it does hold, and start added to it. */
static PyObject *arange_exactly(const struct call *c, const struct bound *at, mlx_dtype dtype) {
    int64_t range;
    if (__builtin_sub_overflow(at[1].i, at[0].i, &range) || range != (int64_t)(double)range)
        return PyErr_Format(PyExc_ValueError,
                            "arange(): start %lld and stop %lld are too far apart to be counted",
                            (long long)at[0].i, (long long)at[1].i);
    mlx_array out = mlx_array_new();
    mlx_array start = mlx_array_new_data(&at[0].i, NULL, 0, MLX_INT64);
    int rc = mlx_arange(&out, 0, (double)range, at[2].f, MLX_INT64, c->stream);
    if (!rc) rc = mlx_add(&out, out, start, c->stream);
    if (!rc && dtype != MLX_INT64) rc = mlx_astype(&out, out, dtype, c->stream);
    mlx_array_free(start);
    return kp_done(rc, out);
}

/* arange(stop), arange(start, stop) or arange(start, stop, step): float32 where one of them is no
 * whole number, int64 where one is beyond int32. */
FUNCTION(core, arange) {
    PyObject *o[3] = {c->v[0].object, c->v[1].object, c->v[2].object};
    static const char *const names[3] = {"start", "stop", "step"};
    struct bound at[3] = {{0}, {0}, {.f = 1, .i = 1}};
    bool floating = false, wide = false;
    if (!c->v[1].given && c->n_unnamed) {
        o[1] = o[0];
        o[0] = NULL;
    }
    for (int i = 0; i < 3; i++) {
        if (!o[i] || o[i] == Py_None) continue;
        if (take_bound(&at[i], o[i], names[i])) return NULL;
        floating = floating || at[i].floating;
        wide = wide || at[i].wide;
    }
    if (!o[1]) {
        PyErr_SetString(PyExc_TypeError, "arange() needs the argument 'stop'");
        return NULL;
    }
    const mlx_dtype dtype = kp_dtype_or(&c->v[3], floating ? MLX_FLOAT32
                                                  : wide   ? MLX_INT64
                                                           : MLX_INT32);
    if (!floating && (fabs(at[0].f) > 0x1p53 || fabs(at[1].f) > 0x1p53) && dtype != MLX_BOOL)
        return arange_exactly(c, at, dtype);
    mlx_array out = mlx_array_new();
    return kp_done(mlx_arange(&out, at[0].f, at[1].f, at[2].f, dtype, c->stream), out);
}
FUNCTION(core, linspace) {
    double start = PyFloat_AsDouble(c->v[0].object);
    if (start == -1 && PyErr_Occurred()) return NULL;
    double stop = PyFloat_AsDouble(c->v[1].object);
    if (stop == -1 && PyErr_Occurred()) return NULL;
    mlx_array out = mlx_array_new();
    int64_t n = c->v[2].given ? c->v[2].i : 50;
    if (!c->v[3].i && n > 0) stop = start + (stop - start) * (double)(n - 1) / (double)n;
    return kp_done(
        mlx_linspace(&out, start, stop, (int)n, kp_dtype_or(&c->v[4], MLX_FLOAT32), c->stream),
        out);
}
FUNCTION(core, eye) {
    mlx_array out = mlx_array_new();
    int n = (int)c->v[0].i, m = c->v[1].given ? (int)c->v[1].i : n;
    return kp_done(
        mlx_eye(&out, n, m, (int)c->v[2].i, kp_dtype_or(&c->v[3], MLX_FLOAT32), c->stream), out);
}
FUNCTION(core, identity) {
    mlx_array out = mlx_array_new();
    return kp_done(
        mlx_identity(&out, (int)c->v[0].i, kp_dtype_or(&c->v[1], MLX_FLOAT32), c->stream), out);
}
FUNCTION(core, tri) {
    mlx_array out = mlx_array_new();
    int n = (int)c->v[0].i, m = c->v[1].given ? (int)c->v[1].i : n;
    return kp_done(
        mlx_tri(&out, n, m, (int)c->v[2].i, kp_dtype_or(&c->v[3], MLX_FLOAT32), c->stream), out);
}
FUNCTION(core, tril) {
    mlx_array out = mlx_array_new();
    return kp_done(mlx_tril(&out, c->v[0].array, (int)c->v[1].i, c->stream), out);
}
FUNCTION(core, triu) {
    mlx_array out = mlx_array_new();
    return kp_done(mlx_triu(&out, c->v[0].array, (int)c->v[1].i, c->stream), out);
}
static PyObject *window(struct call *c, int (*f)(mlx_array *, int, const mlx_stream)) {
    mlx_array out = mlx_array_new();
    return kp_done(f(&out, (int)c->v[0].i, c->stream), out);
}
FUNCTION(core, bartlett) {
    return window(c, mlx_bartlett);
}
FUNCTION(core, blackman) {
    return window(c, mlx_blackman);
}
FUNCTION(core, hamming) {
    return window(c, mlx_hamming);
}
FUNCTION(core, hanning) {
    return window(c, mlx_hanning);
}

/* ---- shapes ---- */
static PyObject *too_many_axes(const char *function) {
    PyErr_Format(PyExc_ValueError, "%s() takes arrays of at most 64 axes", function);
    return NULL;
}
FUNCTION(core, reshape) {
    mlx_array out = mlx_array_new();
    return kp_done(mlx_reshape(&out, c->v[0].array, c->v[1].ints.at, c->v[1].ints.n, c->stream),
                   out);
}
/* The ints of *args: reshape(2, 3) and reshape((2, 3)). -1: they do not fit; *n stays. */
static int rest_ints(struct call *c, int *at, size_t *n, size_t max) {
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
FUNCTION(array, reshape) {
    int at[64];
    size_t n;
    mlx_array out = mlx_array_new();
    if (rest_ints(c, at, &n, 64)) return NULL;
    return kp_done(mlx_reshape(&out, c->v[0].array, at, n, c->stream), out);
}
FUNCTION(array, transpose) {
    int at[64];
    size_t n = 0;
    mlx_array a = c->v[0].array, out = mlx_array_new();
    bool none = !c->n_rest || (c->n_rest == 1 && c->rest[0] == Py_None);
    if (!none && rest_ints(c, at, &n, 64)) return NULL;
    return kp_done(none ? mlx_transpose(&out, a, c->stream)
                        : mlx_transpose_axes(&out, a, at, n, c->stream),
                   out);
}
FUNCTION(core, transpose) {
    mlx_array a = c->v[0].array, out = mlx_array_new();
    struct value *v = &c->v[1];
    return kp_done(v->given ? mlx_transpose_axes(&out, a, v->ints.at, v->ints.n, c->stream)
                            : mlx_transpose(&out, a, c->stream),
                   out);
}
FUNCTION(core, matrix_transpose) {
    mlx_array out = mlx_array_new();
    return kp_done(mlx_swapaxes(&out, c->v[0].array, -2, -1, c->stream), out);
}
FUNCTION(core, swapaxes) {
    mlx_array out = mlx_array_new();
    return kp_done(mlx_swapaxes(&out, c->v[0].array, (int)c->v[1].i, (int)c->v[2].i, c->stream),
                   out);
}
FUNCTION(core, moveaxis) {
    mlx_array out = mlx_array_new();
    return kp_done(mlx_moveaxis(&out, c->v[0].array, (int)c->v[1].i, (int)c->v[2].i, c->stream),
                   out);
}
FUNCTION(core, flatten) {
    mlx_array out = mlx_array_new();
    return kp_done(mlx_flatten(&out, c->v[0].array, (int)c->v[1].i, (int)c->v[2].i, c->stream),
                   out);
}
FUNCTION(core, unflatten) {
    mlx_array out = mlx_array_new();
    return kp_done(mlx_unflatten(&out, c->v[0].array, (int)c->v[1].i, c->v[2].ints.at,
                                 c->v[2].ints.n, c->stream),
                   out);
}
FUNCTION(core, expand_dims) {
    mlx_array out = mlx_array_new();
    return kp_done(
        mlx_expand_dims_axes(&out, c->v[0].array, c->v[1].ints.at, c->v[1].ints.n, c->stream), out);
}
FUNCTION(core, squeeze) {
    mlx_array out = mlx_array_new();
    struct value *v = &c->v[1];
    return kp_done(v->given
                       ? mlx_squeeze_axes(&out, c->v[0].array, v->ints.at, v->ints.n, c->stream)
                       : mlx_squeeze(&out, c->v[0].array, c->stream),
                   out);
}
FUNCTION(core, broadcast_to) {
    mlx_array a, out = mlx_array_new();
    if (kp_one(c, 0, &a)) return NULL;
    return kp_done(mlx_broadcast_to(&out, a, c->v[1].ints.at, c->v[1].ints.n, c->stream), out);
}
FUNCTION(core, contiguous) {
    mlx_array out = mlx_array_new();
    return kp_done(mlx_contiguous(&out, c->v[0].array, c->v[1].i != 0, c->stream), out);
}
FUNCTION(core, as_strided) {
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

/* ---- *arrays ---- */
static int rest_arrays(struct call *c, mlx_vector_array *out) {
    Py_ssize_t n = c->n_rest;
    PyObject *one =
        n == 1 && (PyList_Check(c->rest[0]) || PyTuple_Check(c->rest[0])) ? c->rest[0] : NULL;
    if (one) n = PySequence_Size(one);
    *out = c->vectors[c->n_vectors++] = mlx_vector_array_new();
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *item = one ? PySequence_GetItem(one, i) : kp_new_ref(c->rest[i]);
        mlx_array a = mlx_array_new();
        int rc = item ? kp_to_array(&a, item, NULL, NULL) ||
                            kp_check(mlx_vector_array_append_value(*out, a))
                      : -1;
        mlx_array_free(a);
        Py_XDECREF(item);
        if (rc) return -1;
    }
    return 0;
}
FUNCTION(core, broadcast_arrays) {
    mlx_vector_array in, out = mlx_vector_array_new();
    if (rest_arrays(c, &in)) return NULL;
    return kp_done_list(mlx_broadcast_arrays(&out, in, c->stream), out);
}
FUNCTION(core, meshgrid) {
    mlx_vector_array in, out = mlx_vector_array_new();
    if (rest_arrays(c, &in)) return NULL;
    const char *indexing = c->v[2].given ? c->v[2].str : "xy";
    return kp_done_tuple(mlx_meshgrid(&out, in, c->v[1].i != 0, indexing, c->stream), out);
}
static PyObject *at_least(struct call *c,
                          int (*f)(mlx_array *, const mlx_array, const mlx_stream)) {
    mlx_vector_array in;
    if (rest_arrays(c, &in)) return NULL;
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
FUNCTION(core, atleast_1d) {
    return at_least(c, mlx_atleast_1d);
}
FUNCTION(core, atleast_2d) {
    return at_least(c, mlx_atleast_2d);
}
FUNCTION(core, atleast_3d) {
    return at_least(c, mlx_atleast_3d);
}
FUNCTION(core, einsum) {
    mlx_vector_array in;
    mlx_array out = mlx_array_new();
    if (rest_arrays(c, &in)) return NULL;
    return kp_done(mlx_einsum(&out, c->v[0].str, in, c->stream), out);
}

/* ---- joining, splitting, rearranging ---- */
FUNCTION(core, concatenate) {
    mlx_array out = mlx_array_new();
    return kp_done(c->v[1].given
                       ? mlx_concatenate_axis(&out, c->v[0].arrays, (int)c->v[1].i, c->stream)
                       : mlx_concatenate(&out, c->v[0].arrays, c->stream),
                   out);
}
FUNCTION(core, stack) {
    mlx_array out = mlx_array_new();
    return kp_done(c->v[1].given ? mlx_stack_axis(&out, c->v[0].arrays, (int)c->v[1].i, c->stream)
                                 : mlx_stack(&out, c->v[0].arrays, c->stream),
                   out);
}
FUNCTION(core, split) {
    mlx_vector_array out = mlx_vector_array_new();
    struct value *v = &c->v[1];
    int axis = (int)c->v[2].i;
    return kp_done_list(
        v->one ? mlx_split(&out, c->v[0].array, v->ints.at[0], axis, c->stream)
               : mlx_split_sections(&out, c->v[0].array, v->ints.at, v->ints.n, axis, c->stream),
        out);
}
FUNCTION(core, unstack) {
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
FUNCTION(core, repeat) {
    mlx_array out = mlx_array_new();
    return kp_done(c->v[2].given ? mlx_repeat_axis(&out, c->v[0].array, (int)c->v[1].i,
                                                   (int)c->v[2].i, c->stream)
                                 : mlx_repeat(&out, c->v[0].array, (int)c->v[1].i, c->stream),
                   out);
}
FUNCTION(core, tile) {
    mlx_array out = mlx_array_new();
    return kp_done(mlx_tile(&out, c->v[0].array, c->v[1].ints.at, c->v[1].ints.n, c->stream), out);
}
FUNCTION(core, roll) {
    mlx_array a = c->v[0].array, out = mlx_array_new();
    struct value *shift = &c->v[1], *axis = &c->v[2];
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
FUNCTION(core, flip) {
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
FUNCTION(core, diag) {
    mlx_array out = mlx_array_new();
    return kp_done(mlx_diag(&out, c->v[0].array, (int)c->v[1].i, c->stream), out);
}
FUNCTION(core, diagonal) {
    mlx_array out = mlx_array_new();
    return kp_done(mlx_diagonal(&out, c->v[0].array, (int)c->v[1].i, (int)c->v[2].i, (int)c->v[3].i,
                                c->stream),
                   out);
}
FUNCTION(core, trace) {
    mlx_array a = c->v[0].array, out = mlx_array_new();
    mlx_dtype dtype = kp_dtype_or(&c->v[4], mlx_array_dtype(a));
    return kp_done(
        mlx_trace(&out, a, (int)c->v[1].i, (int)c->v[2].i, (int)c->v[3].i, dtype, c->stream), out);
}

/* pad_width: a number, one pair for all axes, or a pair (or a number) for each axis. */
FUNCTION(core, pad) {
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

/* ---- taking and putting ---- */
FUNCTION(core, put_along_axis) {
    mlx_array a = c->v[0].array, indices = c->v[1].array, values = c->v[2].array,
              out = mlx_array_new();
    if (c->v[3].given)
        return kp_done(mlx_put_along_axis(&out, a, indices, values, (int)c->v[3].i, c->stream),
                       out);
    mlx_array flat = mlx_array_new(), flat_indices = mlx_array_new(), flat_values = mlx_array_new();
    int rc = mlx_flatten(&flat, a, 0, -1, c->stream) ||
             mlx_flatten(&flat_indices, indices, 0, -1, c->stream) ||
             mlx_flatten(&flat_values, values, 0, -1, c->stream) ||
             mlx_put_along_axis(&out, flat, flat_indices, flat_values, 0, c->stream) ||
             mlx_reshape(&out, out, mlx_array_shape(a), mlx_array_ndim(a), c->stream);
    PyObject *result = kp_done(rc, out);
    mlx_array_free(flat);
    mlx_array_free(flat_indices);
    mlx_array_free(flat_values);
    return result;
}
FUNCTION(core, slice) {
    mlx_array out = mlx_array_new();
    return kp_done(mlx_slice_dynamic(&out, c->v[0].array, c->v[1].array, c->v[2].ints.at,
                                     c->v[2].ints.n, c->v[3].ints.at, c->v[3].ints.n, c->stream),
                   out);
}
FUNCTION(core, slice_update) {
    mlx_array out = mlx_array_new();
    return kp_done(mlx_slice_update_dynamic(&out, c->v[0].array, c->v[1].array, c->v[2].array,
                                            c->v[3].ints.at, c->v[3].ints.n, c->stream),
                   out);
}
