/* values_quick.c - arrays of lists whose numbers are all floats, or all ints, of Python itself: the
 * numbers are read once, and no code of Python runs meanwhile, so nothing must be held or checked
 * again. Any other list is left to values.c, errors too. */
#include "keel_python.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

struct quick {
    int shape[KP_MAX_NESTING], ndim;
    PyTypeObject *type; /* of the numbers */
};

/* The items of an exact list or tuple, without a new reference. */
static PyObject *item_of(PyObject *o, Py_ssize_t i) {
    return PyList_CheckExact(o) ? PyList_GetItem(o, i) : PyTuple_GetItem(o, i);
}
static bool is_plain(PyObject *o) {
    return PyList_CheckExact(o) || PyTuple_CheckExact(o);
}
static Py_ssize_t size_of(PyObject *o) {
    return PyList_CheckExact(o) ? PyList_Size(o) : PyTuple_Size(o);
}

/* The shape that the first items show. Returns false where there is no first number. */
static bool look_first(struct quick *q, PyObject *o) {
    while (is_plain(o)) {
        const Py_ssize_t n = size_of(o);
        if (q->ndim == KP_MAX_NESTING || n == 0 || n > INT_MAX) return false;
        q->shape[q->ndim++] = (int)n;
        o = item_of(o, 0);
    }
    q->type = Py_TYPE(o);
    return q->ndim > 0 && (q->type == &PyFloat_Type || q->type == &PyLong_Type);
}

static bool read_floats(const struct quick *q, PyObject *o, float *to) {
    for (int i = 0; i < q->shape[q->ndim - 1]; i++) {
        PyObject *x = item_of(o, i);
        if (Py_TYPE(x) != &PyFloat_Type) return false;
        to[i] = (float)PyFloat_AsDouble(x);
    }
    return true;
}

static bool read_ints(const struct quick *q, PyObject *o, int32_t *to) {
    for (int i = 0; i < q->shape[q->ndim - 1]; i++) {
        int overflow;
        PyObject *x = item_of(o, i);
        if (Py_TYPE(x) != &PyLong_Type) return false;
        const long long v = PyLong_AsLongLongAndOverflow(x, &overflow);
        if (overflow || v < INT32_MIN || v > INT32_MAX) return false;
        to[i] = (int32_t)v;
    }
    return true;
}

/* Reads the numbers of one level, 4 bytes each, row-major. Returns false where they are not all
 * alike, or where lists differ in length. */
static bool read_level(const struct quick *q, PyObject *o, int depth, char **to) {
    if (!is_plain(o) || size_of(o) != q->shape[depth]) return false;
    if (depth + 1 == q->ndim) {
        const bool read = q->type == &PyFloat_Type ? read_floats(q, o, (float *)(void *)*to)
                                                   : read_ints(q, o, (int32_t *)(void *)*to);
        *to += 4 * (int64_t)q->shape[depth];
        return read;
    }
    for (int i = 0; i < q->shape[depth]; i++)
        if (!read_level(q, item_of(o, i), depth + 1, to)) return false;
    return true;
}

int kp_quick_list(mlx_array *out, PyObject *o, const mlx_dtype *dtype) {
    struct quick q = {.ndim = 0};
    int64_t extents[KP_MAX_NESTING];
    size_t n;
    if (!look_first(&q, o)) return 0;
    const mlx_dtype to = q.type == &PyFloat_Type ? MLX_FLOAT32 : MLX_INT32;
    if (dtype && *dtype != to) return 0;
    for (int i = 0; i < q.ndim; i++) extents[i] = q.shape[i];
    if (!kp_count(extents, q.ndim, 4, &n)) return 0;
    char *data = malloc(n * 4), *at = data;
    if (!data || !read_level(&q, o, 0, &at)) {
        free(data);
        return 0;
    }
    mlx_array a = mlx_array_new_data(data, q.shape, q.ndim, to);
    free(data);
    if (!a.ctx) return kp_check(1);
    *out = a;
    return 1;
}
