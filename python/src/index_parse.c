/* index_parse.c - the key of a[key]: its items, and the layout of the result */
#include "index.h"

#include <limits.h>

#include "keel/select.h"

void kp_free_key(struct kp_key *k) {
    for (int i = 0; i < k->n && k->n_arrays; i++)
        if (k->item[i].kind == KP_ARRAY) mlx_array_free(k->item[i].array);
    if (k->masked) mlx_array_free(k->mask);
}

static int wrong_key(PyObject *o) {
    PyObject *name = PyObject_GetAttrString((PyObject *)Py_TYPE(o), "__name__");
    if (name)
        PyErr_Format(
            PyExc_ValueError,
            "an array cannot be indexed with a %U; ints, slices, None, ..., arrays and lists of "
            "integers, and tuples of these are taken",
            name);
    Py_XDECREF(name);
    return -1;
}

static int too_many(PyObject *key, int ndim) {
    Py_ssize_t n = PyTuple_Check(key) ? PyTuple_Size(key) : 1;
    PyErr_Format(PyExc_ValueError, "too many indices: %zd for an array of %d axes", n, ndim);
    return -1;
}

/* The next item, which takes the next axis unless it is None. */
static struct kp_item *append(struct kp_key *k, enum kp_item_kind kind, int axis) {
    if (k->n == KP_MAX_ITEMS) {
        PyErr_Format(PyExc_ValueError, "a key has at most %d parts", KP_MAX_ITEMS);
        return NULL;
    }
    struct kp_item *item = &k->item[k->n++];
    item->kind = kind;
    item->axis = axis;
    return item;
}

static int add_int(struct kp_key *k, PyObject *o, int axis, int extent) {
    int overflow;
    long long i = PyLong_AsLongLongAndOverflow(o, &overflow);
    if (i == -1 && PyErr_Occurred()) return -1;
    if (overflow) i = overflow > 0 ? LLONG_MAX : LLONG_MIN;
    if (i < -(long long)extent || i >= extent) {
        kp_raise_index(i, axis, extent);
        return -1;
    }
    struct kp_item *item = append(k, KP_INT, axis);
    if (!item) return -1;
    item->start = (int)(i < 0 ? i + extent : i);
    item->step = item->len = item->by = 1;
    item->first = (int)i;
    item->stop = i == -1 ? INT_MAX : (int)i + 1;
    item->whole = false;
    k->n_ints++;
    k->part = true;
    return 0;
}

static int as_int(Py_ssize_t x) {
    return x > INT_MAX ? INT_MAX : x < INT_MIN ? INT_MIN : (int)x;
}

static int add_slice(struct kp_key *k, PyObject *o, int axis, int extent) {
    Py_ssize_t start, stop, step;
    if (PySlice_Unpack(o, &start, &stop, &step)) {
        if (!PyErr_ExceptionMatches(PyExc_TypeError)) return -1;
        PyErr_Clear();
        PyErr_Format(PyExc_ValueError, "a slice is made of ints and None, not as %R", o);
        return -1;
    }
    const Py_ssize_t first = start, end = stop;
    Py_ssize_t len = PySlice_AdjustIndices(extent, &start, &stop, step);
    struct kp_item *item = append(k, KP_SLICE, axis);
    if (!item) return -1;
    item->start = len ? (int)start : 0;
    item->step =
        len > 1 ? (int)step : 1; /* with two elements or more, a step is below the extent */
    item->len = (int)len;
    item->first = as_int(first);
    item->stop = as_int(end);
    item->by = as_int(step);
    item->whole = first == 0 && end == PY_SSIZE_T_MAX && step == 1;
    if (!item->whole) k->part = true;
    return 0;
}

static int add_rest(struct kp_key *k, const int *shape, int axis, int end) {
    for (; axis < end; axis++) {
        struct kp_item *item = append(k, KP_SLICE, axis);
        if (!item) return -1;
        item->start = 0;
        item->step = 1;
        item->len = shape[axis];
        item->first = 0;
        item->stop = INT_MAX;
        item->by = 1;
        item->whole = true;
    }
    return 0;
}

/* The facts about the array that a part of a key needs. */
struct target {
    const int *shape;
    int ndim;
    bool alone;      /* the part is the key */
    bool whole_mask; /* a mask that is the key stays a mask */
};

/* Whether a mask may stand for the axes from `axis` on. Returns 1 when there are too few. */
static int check_mask(mlx_array mask, int axis, const struct target *t) {
    int n = (int)mlx_array_ndim(mask);
    const int *shape = keel_array_shape_unread(mask);
    if (!n) {
        PyErr_SetString(PyExc_ValueError, "a mask without axes stands alone in a key");
        return -1;
    }
    if (axis < 0 || n > t->ndim - axis) return 1;
    for (int i = 0; i < n; i++) {
        if (shape[i] == t->shape[axis + i]) continue;
        PyErr_Format(PyExc_ValueError,
                     "a mask has %d elements along axis %d of the array, which has %d", shape[i],
                     axis + i, t->shape[axis + i]);
        return -1;
    }
    return 0;
}

/* A mask, which the key takes: the indices of its true elements, one array for each of its axes, as
 * NumPy has it. */
static int add_mask(struct kp_key *k, mlx_array mask, int axis, const struct target *t) {
    mlx_vector_array indices = mlx_vector_array_new();
    mlx_stream s;
    int rc = check_mask(mask, axis, t);
    if (!rc && !(rc = kp_default_stream(&s))) {
        KP_UNLOCKED(rc = keel_nonzero(&indices, mask, -1, NULL, 0, s));
        rc = kp_check(rc);
    }
    for (size_t i = 0; i < mlx_vector_array_size(indices) && !rc; i++) {
        struct kp_item *item = append(k, KP_ARRAY, axis + (int)i);
        rc = item ? 0 : -1;
        if (rc) break;
        item->array = mlx_array_new();
        k->n_arrays++;
        rc = kp_check(mlx_vector_array_get(&item->array, indices, i));
    }
    mlx_vector_array_free(indices);
    mlx_array_free(mask);
    return rc;
}

/* An array of what the key has, which it takes: integers, or a mask. */
static int add_array(struct kp_key *k, mlx_array a, int axis, const struct target *t) {
    mlx_dtype d = mlx_array_dtype(a);
    if (d == MLX_BOOL && t->alone && t->whole_mask) {
        k->masked = true;
        k->mask = a;
        return 0;
    }
    if (d == MLX_BOOL) return add_mask(k, a, axis, t);
    struct kp_item *item = NULL;
    if (d > MLX_INT64)
        PyErr_SetString(PyExc_ValueError,
                        "the indices are floating point numbers; integers are taken");
    else
        item = append(k, KP_ARRAY, axis);
    if (!item) {
        mlx_array_free(a);
        return -1;
    }
    item->array = a;
    k->n_arrays++;
    return 0;
}

static int add_list(struct kp_key *k, PyObject *o, int axis, const struct target *t) {
    mlx_array a = mlx_array_new();
    mlx_stream s;
    if (kp_to_array(&a, o, NULL, NULL)) return -1;
    if (!mlx_array_size(a) && /* a list of nothing has no dtype of its own */
        (kp_default_stream(&s) || kp_check(mlx_astype(&a, a, MLX_INT32, s)))) {
        mlx_array_free(a);
        return -1;
    }
    return add_array(k, a, axis, t);
}

/* Parts of a key of other types than Python's and this module's: integers and arrays of NumPy, and
 * others. */
static int add_other(struct kp_key *k, PyObject *o, int axis, int extent, const struct target *t) {
    PyObject *ndim =
        PyObject_GetAttrString(o, "ndim"); /* some arrays of one element are an index */
    long axes = ndim ? PyLong_AsLong(ndim) : 0;
    Py_XDECREF(ndim);
    PyErr_Clear();
    if (axes <= 0 && PyIndex_Check(o)) {
        PyObject *i = PyNumber_Index(o);
        if (i) {
            int rc = axis < 0 ? 1 : add_int(k, i, axis, extent);
            Py_DECREF(i);
            return rc;
        }
        if (!PyErr_ExceptionMatches(PyExc_TypeError)) return -1;
        PyErr_Clear();
    }
    if (!PyObject_HasAttrString(o, "__array__") && !PyObject_HasAttrString(o, "__mlx_array__") &&
        !PyObject_HasAttrString(o, "__dlpack__"))
        return wrong_key(o);
    mlx_array a = mlx_array_new();
    if (kp_to_array(&a, o, NULL, NULL)) return -1;
    return add_array(k, a, axis, t);
}

/* One part of a key. Returns 1 when the part needs an axis, and none is left. */
static int add(struct kp_key *k, PyObject *o, int axis, const struct target *t) {
    bool fits = axis < t->ndim;
    int extent = fits ? t->shape[axis] : 0;
    if (PyLong_Check(o) && !PyBool_Check(o)) return fits ? add_int(k, o, axis, extent) : 1;
    if (PySlice_Check(o)) return fits ? add_slice(k, o, axis, extent) : 1;
    if (o == Py_None) {
        k->n_new++;
        return append(k, KP_NEW, -1) ? 0 : -1;
    }
    int n = k->n_arrays, rc;
    if (kp_is_array(o)) {
        mlx_array a; /* the value that it has now: other parts of the key may run code */
        rc = kp_hold(&a, kp_handle(o)) ? -1 : add_array(k, a, axis, t);
    } else if (PyList_Check(o)) {
        rc = add_list(k, o, axis, t);
    } else if (PyBool_Check(o) && t->alone && t->whole_mask) {
        mlx_array a = mlx_array_new_bool(o == Py_True);
        rc = a.ctx ? add_array(k, a, axis, t) : kp_check(1);
    } else if (PyBool_Check(o)) {
        rc = wrong_key(o);
    } else {
        rc = add_other(k, o, fits ? axis : -1, extent, t);
    }
    return !rc && k->n_arrays > n && !fits ? 1 : rc;
}

/* The number of axes of the array that a part of a key stands for: a mask stands for as many as it
 * has itself. Parts that turn out otherwise are found when they are added. */
static int axes_of(PyObject *o) {
    if (o == Py_None || o == Py_Ellipsis) return 0;
    if (kp_is_array(o)) {
        mlx_array a = kp_handle(o);
        return mlx_array_dtype(a) == MLX_BOOL ? (int)mlx_array_ndim(a) : 1;
    }
    if (PyList_Check(o)) {
        int depth = 0;
        PyObject *at = o;
        for (; at && PyList_Check(at) && depth < KP_MAX_AXES; depth++)
            at = PyList_Size(at) ? PyList_GetItem(at, 0) : NULL;
        return at && PyBool_Check(at) ? depth : 1;
    }
    if (PyLong_Check(o) || PySlice_Check(o)) return 1;
    PyObject *dtype = PyObject_GetAttrString(o, "dtype"),
             *name = dtype ? PyObject_Str(dtype) : NULL,
             *bools = name ? PyUnicode_FromString("bool") : NULL, *ndim = NULL;
    if (bools && PyUnicode_Contains(name, bools) > 0) ndim = PyObject_GetAttrString(o, "ndim");
    long n = ndim ? PyLong_AsLong(ndim) : 1;
    Py_XDECREF(ndim);
    Py_XDECREF(bools);
    Py_XDECREF(name);
    Py_XDECREF(dtype);
    PyErr_Clear();
    return n < 0 || n > KP_MAX_AXES ? 1 : (int)n;
}

/* The shape to which the index arrays broadcast. */
static int meet(struct kp_key *k, const int *extents) {
    for (int i = 0; i < k->n; i++) {
        if (k->item[i].kind != KP_ARRAY) continue;
        int n = (int)mlx_array_ndim(k->item[i].array);
        const int *shape = keel_array_shape_unread(k->item[i].array);
        if (n > KP_MAX_AXES) {
            PyErr_Format(PyExc_ValueError, "an index array has at most %d axes", KP_MAX_AXES);
            return -1;
        }
        if (n > k->n_index) { /* aligned at the last axis */
            for (int j = k->n_index; j--;) k->index[j + n - k->n_index] = k->index[j];
            for (int j = 0; j < n - k->n_index; j++) k->index[j] = 1;
            k->n_index = n;
        }
        int *to = k->index + k->n_index - n;
        for (int j = 0; j < n; j++) {
            if (to[j] == 1) to[j] = shape[j];
            if (shape[j] == 1 || shape[j] == to[j]) continue;
            PyErr_Format(
                PyExc_ValueError,
                "the shapes of the index arrays do not broadcast: an axis has %d elements in one "
                "and %d in another",
                to[j], shape[j]);
            return -1;
        }
    }
    size_t n = 1;
    for (int j = 0; j < k->n_index; j++) n *= (size_t)k->index[j];
    for (int i = 0; i < k->n; i++) {
        if (k->item[i].kind != KP_ARRAY || extents[k->item[i].axis]) continue;
        k->on_nothing = true;
        if (!n) continue;
        PyErr_Format(PyExc_IndexError, "axis %d has no elements, but there are %zu indices for it",
                     k->item[i].axis, n);
        return -1;
    }
    return 0;
}

int kp_parse_key(struct kp_key *k, mlx_array a, PyObject *key, bool whole_mask) {
    const bool tuple = PyTuple_Check(key);
    const struct target t = {keel_array_shape_unread(a), (int)mlx_array_ndim(a), !tuple,
                             whole_mask};
    int rc = 0;
    k->n = k->n_arrays = k->n_ints = k->n_new = k->n_index = 0;
    k->part = k->masked = k->on_nothing = false;
    if (t.ndim > KP_MAX_AXES) {
        PyErr_Format(PyExc_ValueError, "an array of more than %d axes cannot be indexed",
                     KP_MAX_AXES);
        return -1;
    }
    if (!tuple) {
        if (key != Py_Ellipsis) rc = add(k, key, 0, &t);
        if (!rc && k->masked) return 0;
    } else if (!PyTuple_CheckExact(key)) { /* a shape: a copy notes that it is read */
        PyObject *plain = PySequence_Tuple(key);
        rc = plain ? kp_parse_key(k, a, plain, whole_mask) : -1;
        Py_XDECREF(plain);
        return rc;
    } else {
        Py_ssize_t n = PyTuple_Size(key), dots = -1, named = 0;
        for (Py_ssize_t i = 0; i < n; i++) { /* how many axes an Ellipsis stands for */
            PyObject *o = PyTuple_GetItem(key, i);
            if (o == Py_Ellipsis && dots >= 0) {
                PyErr_SetString(PyExc_ValueError, "a key has at most one ellipsis (...)");
                return -1;
            }
            if (o == Py_Ellipsis) dots = i;
            named += axes_of(o);
        }
        if (named > t.ndim) return too_many(key, t.ndim);
        for (Py_ssize_t i = 0; i < n && !rc; i++) {
            int axis = k->n - k->n_new; /* each item but None has one axis */
            rc = i == dots ? add_rest(k, t.shape, axis, axis + t.ndim - (int)named)
                           : add(k, PyTuple_GetItem(key, i), axis, &t);
        }
    }
    if (rc > 0) return too_many(key, t.ndim);
    if (rc || add_rest(k, t.shape, k->n - k->n_new, t.ndim)) return -1;
    return k->n_arrays ? meet(k, t.shape) : 0;
}

int kp_layout_of(struct kp_layout *l, const struct kp_key *k, bool ints_count) {
    int first = -1, last = -1, n = k->n_index;
    ints_count = ints_count && k->n_arrays;
    for (int i = 0; i < k->n; i++) {
        enum kp_item_kind kind = k->item[i].kind;
        if (kind != KP_ARRAY && !(kind == KP_INT && ints_count)) continue;
        if (first < 0) first = i;
        last = i;
    }
    l->front = false;
    for (int i = first; i < last; i++)
        if (k->item[i].kind == KP_SLICE || k->item[i].kind == KP_NEW) l->front = true;
    for (int i = 0; i < k->n; i++) n += k->item[i].kind == KP_NEW || k->item[i].kind == KP_SLICE;
    if (n > KP_MAX_AXES) {
        PyErr_Format(PyExc_ValueError, "the result would have %d axes; at most %d are possible", n,
                     KP_MAX_AXES);
        return -1;
    }
    l->n = 0;
    for (int i = 0; i < k->n; i++) {
        const struct kp_item *item = &k->item[i];
        if (k->n_arrays && i == (l->front ? 0 : first))
            for (int j = 0; j < k->n_index; j++) {
                l->from[l->n] = KP_FROM_INDEX - j;
                l->dims[l->n++] = k->index[j];
            }
        if (item->kind == KP_SLICE || item->kind == KP_NEW) {
            l->from[l->n] = item->kind == KP_NEW ? KP_FROM_NEW : item->axis;
            l->dims[l->n++] = item->kind == KP_NEW ? 1 : item->len;
        }
    }
    return 0;
}

void kp_bounds_of(struct kp_bounds *b, const struct kp_key *k, mlx_array a) {
    b->n = mlx_array_ndim(a);
    for (int i = 0; i < k->n; i++) {
        const struct kp_item *item = &k->item[i];
        int x = item->axis;
        if (item->kind == KP_NEW) continue;
        bool array = item->kind == KP_ARRAY;
        b->start[x] = array ? 0 : item->first;
        b->step[x] = array ? 1 : item->by;
        b->stop[x] = array ? INT_MAX : item->stop;
    }
}

void kp_use_extents(const struct kp_key *k, mlx_array a) {
    (void)mlx_array_shape(a);
    for (int i = 0; i < k->n; i++)
        if (k->item[i].kind == KP_ARRAY) (void)mlx_array_shape(k->item[i].array);
}
