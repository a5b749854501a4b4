/* index_set.c - a[key] = value, and what a.at[key] does: slices and scatters that write */
#include "index.h"

/* ---- the value ---- */
/* The array to be written, which the caller frees. */
static int value_of(mlx_array *v, PyObject *o, mlx_array a) {
    if (kp_is_array(o)) return kp_hold(v, kp_handle(o));
    mlx_dtype d = mlx_array_dtype(a);
    bool number = PyFloat_Check(o) || PyLong_Check(o) || PyComplex_Check(o);
    return kp_to_array(v, o, number ? NULL : &d, number ? &d : NULL);
}

/* Replaces the handle of a value by what was made of it. */
static int replace(mlx_array *v, mlx_array *made, int rc) {
    if (rc) {
        mlx_array_free(*made);
        return kp_check(rc);
    }
    mlx_array_free(*v);
    *v = *made;
    return 0;
}

/* Drops leading axes of extent 1 that the part of the array has not. */
static int drop_leading(mlx_array *v, const struct kp_layout *l, mlx_stream s) {
    int gone[KP_MAX_AXES], ndim = (int)mlx_array_ndim(*v), n = 0;
    const int *shape = keel_array_shape_unread(*v);
    while (n < ndim - l->n && n < KP_MAX_AXES && shape[n] == 1) {
        gone[n] = n;
        n++;
    }
    if (!n) return 0;
    mlx_array made = mlx_array_new();
    return replace(v, &made, mlx_squeeze_axes(&made, *v, gone, (size_t)n, s)) ? -1 : 0;
}

static bool fits(mlx_array v, const struct kp_layout *l) {
    int ndim = (int)mlx_array_ndim(v);
    const int *shape = keel_array_shape_unread(v);
    if (ndim > l->n) return false;
    for (int i = 0; i < ndim; i++)
        if (shape[i] != 1 && shape[i] != l->dims[i + l->n - ndim]) return false;
    return true;
}

static int wrong_value(mlx_array v, const struct kp_layout *l) {
    PyObject *is = kp_shape_tuple(keel_array_shape_unread(v), mlx_array_ndim(v)),
             *wanted = kp_shape_tuple(l->dims, (size_t)l->n);
    if (is && wanted)
        PyErr_Format(
            PyExc_ValueError,
            "a value of shape %R does not broadcast to %R, the shape of what it is written to", is,
            wanted);
    Py_XDECREF(is);
    Py_XDECREF(wanted);
    return -1;
}

/* ---- slices ---- */
typedef int slice_writer(mlx_array *, const mlx_array, const mlx_array, const int *, size_t,
                         const int *, size_t, const int *, size_t, const mlx_stream);
static slice_writer *const slice_writers[] = {
    mlx_slice_update,      mlx_slice_update_add, mlx_slice_update_add, mlx_slice_update_prod,
    mlx_slice_update_prod, mlx_slice_update_max, mlx_slice_update_min};

/* Aligns the axes of a value with those of the array: None has an axis in the value only, an int in
 * the array only. */
static int align(mlx_array *v, const struct kp_key *k, mlx_stream s) {
    int left = (int)mlx_array_ndim(*v), right = 0, gone[KP_MAX_AXES], n_gone = 0, more[KP_MAX_AXES],
        n_more = 0;
    for (int i = k->n; i-- && left > 0;) {
        enum kp_item_kind kind = k->item[i].kind;
        if (kind == KP_NEW)
            gone[n_gone++] = --left;
        else if (kind == KP_INT)
            more[n_more++] = right++;
        else
            left--, right++;
    }
    for (int i = 0; i < n_more; i++) more[i] = right - 1 - more[i];
    if (n_gone) {
        mlx_array made = mlx_array_new();
        if (replace(v, &made, mlx_squeeze_axes(&made, *v, gone, (size_t)n_gone, s))) return -1;
    }
    if (n_more) {
        mlx_array made = mlx_array_new();
        if (replace(v, &made, mlx_expand_dims_axes(&made, *v, more, (size_t)n_more, s))) return -1;
    }
    return 0;
}

/* *out = v broadcast to the shape of `like`, to which it is known to broadcast. */
static int broadcast_like(mlx_array *out, mlx_array v, mlx_array like, mlx_stream s) {
    mlx_array both[2] = {v, like};
    mlx_vector_array in = mlx_vector_array_new_data(both, 2), made = mlx_vector_array_new();
    int rc = mlx_broadcast_arrays(&made, in, s) || mlx_vector_array_get(out, made, 0);
    mlx_vector_array_free(in);
    mlx_vector_array_free(made);
    return kp_check(rc);
}

static int write_slice(mlx_array *out, mlx_array a, const struct kp_key *k, mlx_array *v,
                       enum kp_write how, mlx_stream s) {
    if (align(v, k, s)) return -1;
    size_t n = mlx_array_ndim(a);
    if (how == KP_ASSIGN && !k->part) {
        mlx_array made = mlx_array_new();
        if (mlx_array_dtype(*v) != mlx_array_dtype(a) &&
            replace(v, &made, mlx_astype(&made, *v, mlx_array_dtype(a), s)))
            return -1;
        return broadcast_like(out, *v, a, s);
    }
    struct kp_bounds b;
    kp_bounds_of(&b, k, a);
    return kp_check(slice_writers[how](out, a, *v, b.start, n, b.stop, n, b.step, n, s));
}

/* ---- arrays ----
 * One scatter: an index for each axis that the key does not leave whole. A slice of step 1 is a
 * window that begins at its start; other slices become arrays of indices, whose axes come after the
 * axes of the key's own arrays. */
typedef int scatterer(mlx_array *, const mlx_array, const mlx_vector_array, const mlx_array,
                      const int *, size_t, const mlx_stream);
static scatterer *const scatterers[] = {mlx_scatter,      mlx_scatter_add,  mlx_scatter_add,
                                        mlx_scatter_prod, mlx_scatter_prod, mlx_scatter_max,
                                        mlx_scatter_min};

static bool is_stepped(const struct kp_item *item) {
    return item->kind == KP_SLICE && item->step != 1;
}

static int append_index(mlx_vector_array to, mlx_array index, int more, mlx_stream s) {
    int at[KP_MAX_AXES], n = (int)mlx_array_ndim(index), rc = 0;
    mlx_array made = mlx_array_new();
    for (int i = 0; i < more; i++) at[i] = n + i;
    if (more) rc = mlx_expand_dims_axes(&made, index, at, (size_t)more, s);
    rc = rc || mlx_vector_array_append_value(to, more ? made : index);
    mlx_array_free(made);
    return kp_check(rc);
}

/* The indices of a scatter and the axes that they count on; windows gets the extent of each axis of
 * the array in the updates. Returns the number of indices, or -1. */
static int scatter_indices(mlx_vector_array to, int *axes, int *windows, const struct kp_key *k,
                           mlx_array a, mlx_stream s) {
    int n = 0, stepped = 0, seen = 0, rc = 0;
    for (int i = 0; i < k->n; i++) stepped += is_stepped(&k->item[i]);
    for (int i = 0; i < k->n && !rc; i++) {
        const struct kp_item *item = &k->item[i];
        if (item->kind == KP_NEW) continue;
        windows[item->axis] = item->kind == KP_SLICE && item->step == 1 ? item->len : 1;
        if (item->kind == KP_ARRAY) {
            rc = append_index(to, item->array, stepped, s);
        } else if (is_stepped(item)) {
            mlx_array made = mlx_array_new();
            rc = kp_check(mlx_arange(&made, item->start,
                                     item->start + (double)item->len * item->step, item->step,
                                     MLX_INT32, s)) ||
                 append_index(to, made, stepped - ++seen, s);
            mlx_array_free(made);
        } else if (item->kind == KP_INT || item->len != keel_array_shape_unread(a)[item->axis]) {
            mlx_array made = mlx_array_new_int(item->kind == KP_INT ? item->first : item->start);
            rc = !made.ctx ? kp_check(1) : append_index(to, made, 0, s);
            mlx_array_free(made);
        } else {
            continue;
        }
        axes[n++] = item->axis;
    }
    return rc ? -1 : n;
}

/* *out = v broadcast to the shape that a[key] would have, where extents are not known; the extents
 * of the key's slices are numbers of the key. */
static int broadcast_to_part(mlx_array *out, mlx_array a, mlx_array v, const struct kp_key *k,
                             const struct kp_layout *l, mlx_stream s) {
    mlx_array part = mlx_array_new();
    for (int i = 0; i < k->n; i++)
        if (k->item[i].kind == KP_SLICE && !k->item[i].whole) kp_use_extents(k, a);
    int rc = kp_read_arrays(&part, a, k, l, s) || broadcast_like(out, v, part, s);
    mlx_array_free(part);
    return rc;
}

/* The value as updates of a scatter: the axes of the index arrays, those of stepped slices, then
 * one for each axis of the array. */
static int updates_of(mlx_array *out, mlx_array a, mlx_array v, const struct kp_key *k,
                      const struct kp_layout *l, const int *windows, mlx_stream s) {
    bool open = keel_array_is_shapeless(a) || keel_array_is_shapeless(v);
    for (int i = 0; i < k->n; i++)
        if (k->item[i].kind == KP_ARRAY) open = open || keel_array_is_shapeless(k->item[i].array);
    int full[KP_MAX_AXES], order[KP_MAX_AXES], perm[KP_MAX_AXES], gone[KP_MAX_AXES],
        more[KP_MAX_AXES];
    int n = 0, n_new = 0, n_full = 0, n_more = 0;
    for (int i = 0; i < k->n_index; i++) {
        order[n++] = KP_FROM_INDEX - i;
        full[n_full++] = k->index[i];
    }
    for (int i = 0; i < k->n; i++)
        if (is_stepped(&k->item[i])) {
            order[n++] = k->item[i].axis;
            full[n_full++] = k->item[i].len;
        }
    for (int i = 0; i < k->n; i++) {
        const struct kp_item *item = &k->item[i];
        if (item->kind == KP_NEW) continue;
        if (item->kind == KP_SLICE && item->step == 1)
            order[n++] = item->axis;
        else
            more[n_more++] = n_full;
        full[n_full++] = windows[item->axis];
    }
    if (!mlx_array_ndim(v) && !open)
        return kp_check(mlx_broadcast_to(out, v, full, (size_t)n_full, s));
    bool moved = false;
    for (int i = 0, at = 0; i < l->n; i++) {
        if (l->from[i] == KP_FROM_NEW) {
            gone[n_new++] = i;
            continue;
        }
        int to = 0;
        while (order[to] != l->from[i]) to++;
        perm[to] = at;
        moved = moved || to != at;
        at++;
    }
    int rc = open ? broadcast_to_part(out, a, v, k, l, s)
                  : mlx_broadcast_to(out, v, l->dims, (size_t)l->n, s);
    return kp_check(rc || (n_new && mlx_squeeze_axes(out, *out, gone, (size_t)n_new, s)) ||
                    (moved && mlx_transpose_axes(out, *out, perm, (size_t)n, s)) ||
                    mlx_expand_dims_axes(out, *out, more, (size_t)n_more, s));
}

static int write_arrays(mlx_array *out, mlx_array a, const struct kp_key *k,
                        const struct kp_layout *l, mlx_array v, enum kp_write how, mlx_stream s) {
    int axes[KP_MAX_AXES], windows[KP_MAX_AXES], stepped = 0;
    for (int i = 0; i < k->n; i++) stepped += is_stepped(&k->item[i]);
    if (k->n_index + stepped + (int)mlx_array_ndim(a) > KP_MAX_AXES) {
        PyErr_Format(PyExc_ValueError,
                     "the index arrays and the array have more than %d axes together", KP_MAX_AXES);
        return -1;
    }
    mlx_vector_array indices = mlx_vector_array_new();
    mlx_array updates = mlx_array_new();
    int n = scatter_indices(indices, axes, windows, k, a, s);
    int rc = n < 0 || updates_of(&updates, a, v, k, l, windows, s) ||
             kp_check(scatterers[how](out, a, indices, updates, axes, (size_t)n, s));
    mlx_array_free(updates);
    mlx_vector_array_free(indices);
    return rc ? -1 : 0;
}

/* ---- all keys ---- */
/* MLX lays out the value of an assignment as if ints were not index arrays, which differs from
 * a[key] where other axes separate an int from an array: then a value is read in that way if it
 * fits, so that programs written for MLX do what they did, and else as a[key] is laid out. A value
 * that a[key] itself gave, for `a[key] += 1`, is always read as it was made. */
static int choose_layout(struct kp_layout *l, const struct kp_key *k, mlx_array v,
                         bool made_by_index) {
    if (kp_layout_of(l, k, false)) return -1;
    if (!k->n_arrays || !k->n_ints || !mlx_array_ndim(v)) return 0;
    struct kp_layout read;
    if (kp_layout_of(&read, k, true)) return -1;
    bool same = true;
    for (int i = 0; i < l->n; i++) same = same && l->from[i] == read.from[i];
    if (!same && fits(v, &read) && (made_by_index || !fits(v, l))) *l = read;
    return 0;
}

static int write_value(mlx_array *out, mlx_array a, const struct kp_key *k, mlx_array *v,
                       bool front, enum kp_write how, mlx_stream s) {
    struct kp_layout l;
    mlx_array numbers = mlx_array_new(), made = mlx_array_new();
    if (how == KP_SUBTRACT && mlx_array_dtype(*v) == MLX_BOOL && /* which has no negative */
        replace(v, &numbers, mlx_astype(&numbers, *v, mlx_array_dtype(a), s)))
        return -1;
    if (how == KP_SUBTRACT && replace(v, &made, mlx_negative(&made, *v, s))) return -1;
    if (how == KP_DIVIDE && replace(v, &made, mlx_reciprocal(&made, *v, s))) return -1;
    if (choose_layout(&l, k, *v, front) || drop_leading(v, &l, s)) return -1;
    if (!fits(*v, &l)) return wrong_value(*v, &l);
    if (k->on_nothing) {
        kp_use_extents(k, a);
        return kp_check(mlx_array_set(out, a));
    }
    return k->n_arrays ? write_arrays(out, a, k, &l, *v, how, s)
                       : write_slice(out, a, k, v, how, s);
}

/* The same for an array of bools: as numbers, of which those that are not 0 are true, as
 * in a - v. */
static int subtract_bools(mlx_array *out, mlx_array a, const struct kp_key *k, mlx_array *v,
                          bool front, mlx_stream s) {
    mlx_array from = mlx_array_new(), to = mlx_array_new();
    int rc = kp_check(mlx_astype(&from, a, MLX_INT32, s)) ||
             replace(v, &to, mlx_astype(&to, *v, MLX_INT32, s));
    to = mlx_array_new();
    rc = rc || write_value(&to, from, k, v, front, KP_SUBTRACT, s) ||
         kp_check(mlx_astype(out, to, MLX_BOOL, s));
    mlx_array_free(from);
    mlx_array_free(to);
    return rc ? -1 : 0;
}

int kp_write_at(mlx_array *out, mlx_array a, PyObject *key, PyObject *value, enum kp_write how) {
    struct kp_key k;
    mlx_array v = mlx_array_new();
    mlx_stream s;
    bool front = kp_is_array(value) && ((struct kp_array *)value)->front;
    if (value == Py_None) {
        PyErr_SetString(PyExc_TypeError,
                        "the value is None; a number, an array or a list is taken");
        return -1;
    }
    int rc = kp_parse_key(&k, a, key, how == KP_ASSIGN) || kp_default_stream(&s) ||
             value_of(&v, value, a);
    if (!rc)
        rc = k.masked ? kp_check(mlx_masked_scatter(out, a, k.mask, v, s))
             : how == KP_SUBTRACT && mlx_array_dtype(a) == MLX_BOOL
                 ? subtract_bools(out, a, &k, &v, front, s)
                 : write_value(out, a, &k, &v, front, how, s);
    mlx_array_free(v);
    kp_free_key(&k);
    return rc ? -1 : 0;
}

int kp_setitem(PyObject *self, PyObject *key, PyObject *value) {
    if (!value) {
        PyErr_SetString(PyExc_TypeError, "elements of an array cannot be deleted");
        return -1;
    }
    /* The object names the result from now on; whoever has the old value keeps it. */
    struct kp_array *o = (struct kp_array *)self;
    mlx_array a;
    if (kp_hold(&a, o->a)) return -1;
    int rc = kp_write_at(&o->a, a, key, value, KP_ASSIGN);
    o->assigned++;
    mlx_array_free(a);
    return rc;
}
