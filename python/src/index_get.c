/* index_get.c - a[key], by the cheapest operations: views for ints, slices and None, take along an
 * axis for one index array, gather for several */
#include "index.h"

#include <limits.h>

#include "keel/select.h"

static int slice_part(mlx_array *out, mlx_array a, const struct kp_key *k, mlx_stream s) {
    struct kp_bounds b;
    kp_bounds_of(&b, k, a);
    return mlx_slice(out, a, b.start, b.n, b.stop, b.n, b.step, b.n, s);
}

/* The axes of the result of take or gather from which those of extent 1 are gone that belong to
 * ints, and of gather those of the index arrays too. from: as in kp_layout, without None. */
static int take_one(mlx_array *out, const struct kp_key *k, int *from, mlx_stream s) {
    int n = 0, at = 0, gone[KP_MAX_AXES], n_gone = 0;
    const struct kp_item *array = NULL;
    for (int i = 0; i < k->n; i++) {
        const struct kp_item *item = &k->item[i];
        if (item->kind == KP_NEW) continue;
        if (item->kind == KP_ARRAY) {
            array = item;
            for (int j = 0; j < k->n_index; j++) from[n++] = KP_FROM_INDEX - j;
            at += k->n_index;
            continue;
        }
        if (item->kind == KP_INT)
            gone[n_gone++] = at;
        else
            from[n++] = item->axis;
        at++;
    }
    return mlx_take_axis(out, *out, array->array, array->axis, s) ||
           (n_gone && mlx_squeeze_axes(out, *out, gone, (size_t)n_gone, s));
}

static int gather(mlx_array *out, const struct kp_key *k, int *from, mlx_stream s) {
    int n = 0, axes[KP_MAX_AXES], n_axes = 0, sizes[KP_MAX_AXES], gone[KP_MAX_AXES], n_gone = 0;
    size_t ndim = mlx_array_ndim(*out);
    for (int i = 0; i < k->n; i++)
        if (k->item[i].kind == KP_SLICE) kp_use_extents(k, *out); /* of the slices, below */
    for (; n < k->n_index; n++) from[n] = KP_FROM_INDEX - n;
    mlx_vector_array indices = mlx_vector_array_new();
    int rc = 0;
    for (int i = 0; i < k->n && !rc; i++) {
        const struct kp_item *item = &k->item[i];
        if (item->kind == KP_NEW) continue;
        sizes[item->axis] = item->kind == KP_SLICE ? item->len : 1;
        if (item->kind == KP_SLICE)
            from[n++] = item->axis;
        else
            gone[n_gone++] = k->n_index + item->axis;
        if (item->kind != KP_ARRAY) continue;
        axes[n_axes++] = item->axis;
        rc = mlx_vector_array_append_value(indices, item->array);
    }
    rc = rc || mlx_gather(out, *out, indices, axes, (size_t)n_axes, sizes, ndim, s) ||
         mlx_squeeze_axes(out, *out, gone, (size_t)n_gone, s);
    mlx_vector_array_free(indices);
    return rc;
}

static int index_arrays(mlx_array *out, const struct kp_key *k, const struct kp_layout *l,
                        mlx_stream s) {
    int from[KP_MAX_AXES], perm[KP_MAX_AXES], n = 0, item = 0;
    while (k->item[item].kind != KP_ARRAY) item++;
    bool in_place = true; /* the axes of the array stand where its axis was */
    if (l->front)
        for (int i = 0; i < item; i++) in_place = in_place && k->item[i].kind == KP_INT;
    if (k->n_arrays == 1 && in_place ? take_one(out, k, from, s) : gather(out, k, from, s))
        return -1;
    bool moved = false;
    for (int i = 0; i < l->n; i++) {
        if (l->from[i] == KP_FROM_NEW) continue;
        int j = 0;
        while (from[j] != l->from[i]) j++;
        moved = moved || j != n;
        perm[n++] = j;
    }
    return moved && mlx_transpose_axes(out, *out, perm, (size_t)n, s) ? -1 : 0;
}

static int view(mlx_array *out, const struct kp_key *k, mlx_stream s) {
    int gone[KP_MAX_AXES], n_gone = 0;
    if (!k->n_ints) return 0;
    for (int i = 0; i < k->n; i++)
        if (k->item[i].kind == KP_INT) gone[n_gone++] = k->item[i].axis;
    return n_gone == 1 ? mlx_squeeze_axis(out, *out, gone[0], s)
                       : mlx_squeeze_axes(out, *out, gone, (size_t)n_gone, s);
}

static int insert_new(mlx_array *out, const struct kp_layout *l, mlx_stream s) {
    int at[KP_MAX_AXES], n = 0;
    for (int i = 0; i < l->n; i++)
        if (l->from[i] == KP_FROM_NEW) at[n++] = i;
    return mlx_expand_dims_axes(out, *out, at, (size_t)n, s);
}

int kp_read_arrays(mlx_array *out, mlx_array a, const struct kp_key *k, const struct kp_layout *l,
                   mlx_stream s) {
    return (k->part ? slice_part(out, a, k, s) : mlx_array_set(out, a)) ||
                   index_arrays(out, k, l, s) || (k->n_new && insert_new(out, l, s))
               ? -1
               : 0;
}

PyObject *kp_row(mlx_array a, int i) {
    struct kp_bounds b;
    mlx_array out = mlx_array_new();
    mlx_stream s;
    b.n = mlx_array_ndim(a);
    if (kp_default_stream(&s)) return NULL;
    for (size_t x = 0; x < b.n; x++) {
        b.start[x] = 0;
        b.stop[x] = INT_MAX;
        b.step[x] = 1;
    }
    b.start[0] = i;
    b.stop[0] = i == -1 ? INT_MAX : i + 1;
    int rc = mlx_slice(&out, a, b.start, b.n, b.stop, b.n, b.step, b.n, s) ||
             mlx_squeeze_axis(&out, out, 0, s);
    return kp_done(rc, out);
}

PyObject *kp_sequence_item(PyObject *self, Py_ssize_t i) {
    mlx_array a = kp_handle(self);
    int extent = mlx_array_ndim(a) ? mlx_array_dim(a, 0) : 0; /* whoever counts sees it */
    return i >= 0 && i < extent ? kp_row(a, (int)i) : kp_raise_index(i, 0, extent);
}

PyObject *kp_getitem(PyObject *self, PyObject *key) {
    struct kp_key k;
    struct kp_layout l;
    mlx_array a = kp_handle(self), out = mlx_array_new();
    mlx_stream s;
    if (PyLong_CheckExact(key) && mlx_array_ndim(a)) { /* the usual key, without the general way */
        int overflow, extent = keel_array_shape_unread(a)[0];
        long i = PyLong_AsLongAndOverflow(key, &overflow);
        if (!overflow && i >= -(long)extent && i < extent && mlx_array_ndim(a) <= KP_MAX_AXES)
            return kp_row(a, (int)i);
    }
    if (kp_hold(&a, a)) return NULL;
    bool ready = !kp_parse_key(&k, a, key, true) && !kp_default_stream(&s);
    if (k.masked) {
        int rc = ready ? 0 : -1;
        if (ready) KP_UNLOCKED(rc = keel_masked_select(&out, a, k.mask, -1, s));
        PyObject *read = ready ? kp_done(rc, out) : NULL;
        if (!ready) mlx_array_free(out);
        kp_free_key(&k);
        mlx_array_free(a);
        return read;
    }
    bool layout = k.n_arrays || k.n_new;
    PyObject *o = NULL;
    if (ready && !(layout && kp_layout_of(&l, &k, true))) {
        int rc = k.part ? slice_part(&out, a, &k, s) : mlx_array_set(&out, a);
        if (k.on_nothing) kp_use_extents(&k, a);
        if (k.on_nothing)
            rc = rc || mlx_zeros(&out, l.dims, (size_t)l.n, mlx_array_dtype(a), s);
        else
            rc = rc || (k.n_arrays ? index_arrays(&out, &k, &l, s) : view(&out, &k, s)) ||
                 (k.n_new && insert_new(&out, &l, s));
        o = kp_done(rc, out);
        if (o && k.n_arrays) ((struct kp_array *)o)->front = l.front;
    }
    kp_free_key(&k);
    mlx_array_free(a);
    return o;
}
