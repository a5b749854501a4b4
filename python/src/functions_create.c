/* functions_create.c - arrays from nothing, windows, matrices by their diagonals */
#include "keel_python.h"

#include <math.h>

KP_FUNCTION(core, zeros) {
    mlx_array out = mlx_array_new();
    return kp_done(mlx_zeros(&out, c->v[0].ints.at, c->v[0].ints.n,
                             kp_dtype_or(&c->v[1], MLX_FLOAT32), c->stream),
                   out);
}
KP_FUNCTION(core, ones) {
    mlx_array out = mlx_array_new();
    return kp_done(mlx_ones(&out, c->v[0].ints.at, c->v[0].ints.n,
                            kp_dtype_or(&c->v[1], MLX_FLOAT32), c->stream),
                   out);
}
static PyObject *like(struct kp_call *c, int number) {
    mlx_array a = c->v[0].array, out = mlx_array_new(), vals = mlx_array_new_int(number);
    int rc = !vals.ctx ||
             mlx_full_like(&out, a, vals, kp_dtype_or(&c->v[1], mlx_array_dtype(a)), c->stream);
    mlx_array_free(vals);
    return kp_done(rc, out);
}
KP_FUNCTION(core, zeros_like) {
    return like(c, 0);
}
KP_FUNCTION(core, ones_like) {
    return like(c, 1);
}
/* The value to fill with: a Python number is made in the wanted dtype at once, so that a float64 is
 * not rounded to float32, and an int that the dtype does not hold raises. */
static int fill_value(struct kp_call *c, const mlx_dtype *wanted, mlx_array *vals) {
    PyObject *o = c->v[1].object;
    if (!wanted || !o || kp_is_array(o)) return kp_one(c, 1, vals);
    *vals = mlx_array_new();
    if (kp_to_array(vals, o, NULL, wanted)) return -1;
    kp_own(c, *vals);
    return 0;
}
KP_FUNCTION(core, full) {
    mlx_array vals, out = mlx_array_new();
    mlx_dtype dtype = kp_dtype_or(&c->v[2], MLX_FLOAT32);
    if (fill_value(c, c->v[2].given ? &dtype : NULL, &vals)) return NULL;
    return kp_done(mlx_full(&out, c->v[0].ints.at, c->v[0].ints.n, vals,
                            kp_dtype_or(&c->v[2], mlx_array_dtype(vals)), c->stream),
                   out);
}
KP_FUNCTION(core, full_like) {
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
static PyObject *arange_exactly(const struct kp_call *c, const struct bound *at, mlx_dtype dtype) {
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
KP_FUNCTION(core, arange) {
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
KP_FUNCTION(core, linspace) {
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
KP_FUNCTION(core, eye) {
    mlx_array out = mlx_array_new();
    int n = (int)c->v[0].i, m = c->v[1].given ? (int)c->v[1].i : n;
    return kp_done(
        mlx_eye(&out, n, m, (int)c->v[2].i, kp_dtype_or(&c->v[3], MLX_FLOAT32), c->stream), out);
}
KP_FUNCTION(core, identity) {
    mlx_array out = mlx_array_new();
    return kp_done(
        mlx_identity(&out, (int)c->v[0].i, kp_dtype_or(&c->v[1], MLX_FLOAT32), c->stream), out);
}
KP_FUNCTION(core, tri) {
    mlx_array out = mlx_array_new();
    int n = (int)c->v[0].i, m = c->v[1].given ? (int)c->v[1].i : n;
    return kp_done(
        mlx_tri(&out, n, m, (int)c->v[2].i, kp_dtype_or(&c->v[3], MLX_FLOAT32), c->stream), out);
}
