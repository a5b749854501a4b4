/* functions_random.c - keel.core.random. Without a key the thread's random state gives one. */
#include "keel_python.h"

#include "keel/random.h"

/* ---- the state as Python sees it ----
 * mx.random.state[0] is the state itself, as in MLX: what is written into that array counts for the
 * next draw. The library keeps the state by value. So the array that was handed out is kept with
 * the count of assignments that it had: if the count is another one, the program has written. Both
 * are in the thread's dict, which Python frees. A draw ends their time: the state is another one
 * then. */
static const char *const shown_name = "keel.core.random.state";
static _Thread_local bool shown; /* the dict has them */

static void forget_shown(void) {
    PyObject *dict = shown ? PyThreadState_GetDict() : NULL;
    if (dict && PyDict_DelItemString(dict, shown_name)) PyErr_Clear();
    shown = false;
}

/* The pair (array, its count of assignments then), borrowed, or NULL without an exception. */
static PyObject *shown_pair(void) {
    PyObject *dict = shown ? PyThreadState_GetDict() : NULL;
    return dict ? PyDict_GetItemString(dict, shown_name) : NULL;
}

/* The value that was written into the array of the state becomes the state. */
static int take_written(void) {
    PyObject *pair = shown_pair();
    if (!pair) return 0;
    struct kp_array *own = (struct kp_array *)PyTuple_GetItem(pair, 0);
    if (own->assigned == PyLong_AsUnsignedLong(PyTuple_GetItem(pair, 1))) return 0;
    return kp_check(keel_random_set_state(own->a));
}

/* Before each draw. 0 where it has a key of its own, in slot i, or the state is ready. */
static int before_draw(struct kp_call *c, int i) {
    if (!shown || c->v[i].given) return 0;
    if (take_written()) return -1;
    forget_shown();
    return 0;
}

static PyObject *copy_of_state(void) {
    mlx_array out = mlx_array_new();
    return take_written() ? NULL : kp_done(keel_random_get_state(&out), out);
}

/* The state by value: what compile captures. */
static PyObject *get_state(PyObject *m, PyObject *none) {
    (void)m;
    (void)none;
    return copy_of_state();
}

/* The array of the state: one object until the next draw. */
static PyObject *show_state(PyObject *m, PyObject *none) {
    (void)m;
    (void)none;
    PyObject *dict = PyThreadState_GetDict(), *pair = shown_pair(), *value = copy_of_state(), *own;
    if (!value || !dict) return value;
    if (pair) {
        own = kp_new_ref(PyTuple_GetItem(pair, 0));
        if (kp_check(mlx_array_set(&((struct kp_array *)own)->a, kp_handle(value)))) Py_CLEAR(own);
    } else {
        mlx_array other = mlx_array_new();
        own = kp_done(mlx_array_set(&other, kp_handle(value)), other);
    }
    pair =
        own ? Py_BuildValue("(Ok)", own, (unsigned long)((struct kp_array *)own)->assigned) : NULL;
    if (!pair || PyDict_SetItemString(dict, shown_name, pair)) Py_CLEAR(own);
    shown = shown || own;
    Py_XDECREF(pair);
    Py_DECREF(value);
    return own;
}

static PyObject *set_state(PyObject *m, PyObject *o) {
    (void)m;
    mlx_array a = mlx_array_new();
    int rc = kp_to_array(&a, o, NULL, NULL) ? -1 : kp_check(keel_random_set_state(a));
    mlx_array_free(a);
    if (rc) return NULL;
    forget_shown();
    return kp_new_ref(Py_None);
}

PyMethodDef kp_random_state_methods[] = {
    {"_random_get_state", get_state, METH_NOARGS,
     "The thread's random state by value, a uint32 array of shape (2,)."},
    {"_random_show_state", show_state, METH_NOARGS,
     "The array of the thread's random state: what is written into it is the state."},
    {"_random_set_state", set_state, METH_O, "Replaces the thread's random state."},
    {0},
};

/* ---- keys and draws ---- */
KP_FUNCTION(random, seed) {
    forget_shown();
    return kp_done_none(mlx_random_seed((uint64_t)c->v[0].i));
}
KP_FUNCTION(random, key) {
    mlx_array out = mlx_array_new();
    return kp_done(mlx_random_key(&out, (uint64_t)c->v[0].i), out);
}
KP_FUNCTION(random, split) {
    mlx_array out = mlx_array_new();
    return kp_done(mlx_random_split_num(&out, c->v[0].array, (int)c->v[1].i, c->stream), out);
}
/* Bounds of the drawn numbers: without a shape they give it, broadcast. */
static int bounds(struct kp_call *c, mlx_array *low, mlx_array *high) {
    return c->v[0].object && c->v[1].object ? kp_pair(c, 0, 1, low, high)
                                            : kp_one(c, 0, low) || kp_one(c, 1, high);
}
KP_FUNCTION(random, uniform) {
    if (before_draw(c, 4)) return NULL;
    mlx_array low, high, out = mlx_array_new();
    if (bounds(c, &low, &high)) return NULL;
    return kp_done(mlx_random_uniform(&out, low, high, c->v[2].ints.at, c->v[2].ints.n,
                                      kp_dtype_or(&c->v[3], MLX_FLOAT32),
                                      kp_optional_array(&c->v[4]), c->stream),
                   out);
}
KP_FUNCTION(random, randint) {
    if (before_draw(c, 4)) return NULL;
    mlx_array low, high, out = mlx_array_new();
    if (bounds(c, &low, &high)) return NULL;
    return kp_done(mlx_random_randint(&out, low, high, c->v[2].ints.at, c->v[2].ints.n,
                                      kp_dtype_or(&c->v[3], MLX_INT32), kp_optional_array(&c->v[4]),
                                      c->stream),
                   out);
}
KP_FUNCTION(random, normal) {
    if (before_draw(c, 4)) return NULL;
    mlx_array loc = mlx_array_empty, scale = mlx_array_empty, out = mlx_array_new();
    mlx_dtype dtype = kp_dtype_or(&c->v[1], MLX_FLOAT32);
    const int *shape = c->v[0].ints.at;
    size_t n = c->v[0].ints.n;
    PyObject *lo = c->v[2].given ? c->v[2].object : NULL,
             *so = c->v[3].given ? c->v[3].object : NULL;
    if ((!lo || PyFloat_Check(lo) || PyLong_Check(lo)) &&
        (!so || PyFloat_Check(so) || PyLong_Check(so))) {
        float l = lo ? (float)PyFloat_AsDouble(lo) : 0, s = so ? (float)PyFloat_AsDouble(so) : 1;
        return kp_done(
            mlx_random_normal(&out, shape, n, dtype, l, s, kp_optional_array(&c->v[4]), c->stream),
            out);
    }
    if ((lo && kp_one(c, 2, &loc)) || (so && kp_one(c, 3, &scale))) return NULL;
    return kp_done(mlx_random_normal_broadcast(&out, shape, n, dtype, loc, scale,
                                               kp_optional_array(&c->v[4]), c->stream),
                   out);
}
KP_FUNCTION(random, multivariate_normal) {
    if (before_draw(c, 4)) return NULL;
    mlx_array out = mlx_array_new();
    return kp_done(mlx_random_multivariate_normal(
                       &out, c->v[0].array, c->v[1].array, c->v[2].ints.at, c->v[2].ints.n,
                       kp_dtype_or(&c->v[3], MLX_FLOAT32), kp_optional_array(&c->v[4]), c->stream),
                   out);
}
KP_FUNCTION(random, gumbel) {
    if (before_draw(c, 2)) return NULL;
    mlx_array out = mlx_array_new();
    return kp_done(mlx_random_gumbel(&out, c->v[0].ints.at, c->v[0].ints.n,
                                     kp_dtype_or(&c->v[1], MLX_FLOAT32),
                                     kp_optional_array(&c->v[2]), c->stream),
                   out);
}
KP_FUNCTION(random, laplace) {
    if (before_draw(c, 4)) return NULL;
    mlx_array out = mlx_array_new();
    return kp_done(mlx_random_laplace(&out, c->v[0].ints.at, c->v[0].ints.n,
                                      kp_dtype_or(&c->v[1], MLX_FLOAT32), (float)c->v[2].f,
                                      (float)c->v[3].f, kp_optional_array(&c->v[4]), c->stream),
                   out);
}
/* The shape that two operands broadcast to. */
static int broadcast_shape(mlx_array a, mlx_array b, mlx_stream s, int *at, size_t *n) {
    mlx_array sum = mlx_array_new(); /* never evaluated: its shape is all that is asked */
    if (mlx_add(&sum, a, b, s)) return kp_check(1);
    *n = mlx_array_ndim(sum);
    for (size_t i = 0; i < *n && i < 64; i++) at[i] = mlx_array_shape(sum)[i];
    mlx_array_free(sum);
    return 0;
}
KP_FUNCTION(random, truncated_normal) {
    if (before_draw(c, 4)) return NULL;
    mlx_array low, high, out = mlx_array_new();
    int own[64];
    const int *shape = c->v[2].ints.at;
    size_t n = c->v[2].ints.n;
    if (bounds(c, &low, &high)) return NULL;
    if (!c->v[2].given) {
        if (broadcast_shape(low, high, c->stream, own, &n)) return NULL;
        shape = own;
    }
    return kp_done(mlx_random_truncated_normal(&out, low, high, shape, n,
                                               kp_dtype_or(&c->v[3], MLX_FLOAT32),
                                               kp_optional_array(&c->v[4]), c->stream),
                   out);
}
KP_FUNCTION(random, bernoulli) {
    if (before_draw(c, 2)) return NULL;
    mlx_array p, out = mlx_array_new();
    if (kp_one(c, 0, &p)) return NULL;
    const int *shape = c->v[1].given ? c->v[1].ints.at : mlx_array_shape(p);
    size_t n = c->v[1].given ? c->v[1].ints.n : mlx_array_ndim(p);
    return kp_done(mlx_random_bernoulli(&out, p, shape, n, kp_optional_array(&c->v[2]), c->stream),
                   out);
}
KP_FUNCTION(random, categorical) {
    if (before_draw(c, 4)) return NULL;
    mlx_array logits = c->v[0].array, key = kp_optional_array(&c->v[4]), out = mlx_array_new();
    int axis = (int)c->v[1].i;
    if (c->v[2].given && c->v[3].given) {
        PyErr_SetString(PyExc_ValueError, "categorical() takes shape or num_samples, not both");
        return NULL;
    }
    int rc = c->v[2].given   ? mlx_random_categorical_shape(&out, logits, axis, c->v[2].ints.at,
                                                            c->v[2].ints.n, key, c->stream)
             : c->v[3].given ? mlx_random_categorical_num_samples(&out, logits, axis,
                                                                  (int)c->v[3].i, key, c->stream)
                             : mlx_random_categorical(&out, logits, axis, key, c->stream);
    return kp_done(rc, out);
}
KP_FUNCTION(random, permutation) {
    if (before_draw(c, 2)) return NULL;
    mlx_array x, key = kp_optional_array(&c->v[2]), out = mlx_array_new();
    PyObject *o = c->v[0].object;
    if (PyLong_Check(o)) {
        int n;
        if (kp_int32("permutation(): argument 'x'", o, &n)) return NULL;
        return kp_done(mlx_random_permutation_arange(&out, n, key, c->stream), out);
    }
    if (kp_one(c, 0, &x)) return NULL;
    return kp_done(mlx_random_permutation(&out, x, (int)c->v[1].i, key, c->stream), out);
}
