/* functions_index.c - which elements are true, take with its modes, writing at indices */
#include "keel_python.h"

#include <string.h>
#include "keel/select.h"

KP_FUNCTION(core, put_along_axis) {
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
/* The size in slot i; -1: it is left out. */
static int size_in(const struct kp_call *c, int i, const char *function, int *size) {
    *size = c->v[i].given ? (int)c->v[i].i : -1;
    if (!c->v[i].given || *size >= 0) return 0;
    PyErr_Format(PyExc_ValueError, "%s(): size is %d, but must not be negative", function, *size);
    return -1;
}
static PyObject *nonzero(struct kp_call *c, const char *function, mlx_array a, int size_slot,
                         int fill_slot) {
    const struct kp_value *fill = &c->v[fill_slot];
    mlx_vector_array out = mlx_vector_array_new();
    int size, each[64];
    const size_t n = mlx_array_ndim(a);
    if (size_in(c, size_slot, function, &size)) return NULL;
    if (fill->ints.n > 64 || n > 64 || (!fill->one && fill->ints.n != n)) {
        PyErr_Format(PyExc_ValueError,
                     "%s(): fill_value has %zu numbers, but the array %zu axes; one for each axis, "
                     "or one int, is taken",
                     function, fill->ints.n, n);
        return NULL;
    }
    for (size_t i = 0; i < n; i++) each[i] = fill->ints.at[fill->one ? 0 : i];
    mlx_array own; /* it is evaluated: another thread may assign to the object */
    int rc = kp_hold(&own, a);
    if (rc) return NULL;
    KP_UNLOCKED(rc = keel_nonzero(&out, own, size, each, n, c->stream));
    mlx_array_free(own);
    return kp_done_tuple(rc, out);
}
KP_FUNCTION(core, nonzero) {
    return nonzero(c, "nonzero", c->v[0].array, 1, 2);
}
KP_FUNCTION(core, where) {
    mlx_array condition, x, y, out = mlx_array_new();
    if (kp_one(c, 0, &condition)) return NULL;
    if (!c->v[1].given && !c->v[2].given) return nonzero(c, "where", condition, 3, 4);
    if (!c->v[1].given || !c->v[2].given || c->v[3].given) {
        PyErr_SetString(PyExc_TypeError,
                        c->v[3].given
                            ? "where() takes size without x and y only"
                            : "where() takes the condition alone, or with both 'x' and 'y'");
        return NULL;
    }
    if (kp_pair(c, 1, 2, &x, &y)) return NULL;
    return kp_done(mlx_where(&out, condition, x, y, c->stream), out);
}
typedef int finder(mlx_array *, const mlx_array, int, int, const mlx_stream);
static PyObject *find(struct kp_call *c, const char *function, finder *f) {
    mlx_array own, out = mlx_array_new();
    int size;
    if (size_in(c, 1, function, &size)) return NULL;
    int rc = kp_hold(&own, c->v[0].array);
    if (rc) return NULL;
    KP_UNLOCKED(rc = f(&out, own, size, (int)c->v[2].i, c->stream));
    mlx_array_free(own);
    return kp_done(rc, out);
}
KP_FUNCTION(core, flatnonzero) {
    return find(c, "flatnonzero", keel_flatnonzero);
}
KP_FUNCTION(core, argwhere) {
    return find(c, "argwhere", keel_argwhere);
}
static int mode_in(const struct kp_call *c, int i, const char *function, keel_take_mode *mode) {
    static const char *const names[] = {"error", "clip", "wrap", "fill"};
    for (int k = 0; k < 4; k++) {
        *mode = (keel_take_mode)k;
        if (!strcmp(c->v[i].str, names[k])) break;
        if (k < 3) continue;
        PyErr_Format(PyExc_ValueError,
                     "%s(): mode is '%s'; 'error', 'clip', 'wrap' and 'fill' are taken", function,
                     c->v[i].str);
        return -1;
    }
    if (*mode == KEEL_TAKE_FILL || !c->v[i + 1].given) return 0;
    PyErr_Format(PyExc_ValueError, "%s(): fill_value is taken with mode='fill' only", function);
    return -1;
}
/* The fill value in slot i; an empty handle: it is left out. */
static int fill_in(struct kp_call *c, int i, mlx_array *fill) {
    *fill = mlx_array_empty;
    return c->v[i].given ? kp_one(c, i, fill) : 0;
}
KP_FUNCTION(core, take) {
    mlx_array indices, fill, out = mlx_array_new();
    keel_take_mode mode;
    if (mode_in(c, 3, "take", &mode) || kp_one(c, 1, &indices) || fill_in(c, 4, &fill)) return NULL;
    const int axis = (int)c->v[2].i;
    return kp_done(keel_take(&out, c->v[0].array, indices, c->v[2].given ? &axis : NULL, mode, fill,
                             c->stream),
                   out);
}
/* Without an axis both arrays are flattened. */
KP_FUNCTION(core, take_along_axis) {
    mlx_array a = c->v[0].array, indices = c->v[1].array, fill, out = mlx_array_new();
    keel_take_mode mode;
    if (mode_in(c, 3, "take_along_axis", &mode) || fill_in(c, 4, &fill)) return NULL;
    if (c->v[2].given)
        return kp_done(
            keel_take_along_axis(&out, a, indices, (int)c->v[2].i, mode, fill, c->stream), out);
    mlx_array flat = mlx_array_new(), flat_indices = mlx_array_new();
    int rc = mlx_flatten(&flat, a, 0, -1, c->stream) ||
             mlx_flatten(&flat_indices, indices, 0, -1, c->stream) ||
             keel_take_along_axis(&out, flat, flat_indices, 0, mode, fill, c->stream);
    PyObject *result = kp_done(rc, out);
    mlx_array_free(flat);
    mlx_array_free(flat_indices);
    return result;
}
