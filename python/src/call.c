/* call.c - the arguments of a Python call, converted by the row of the function */
#include "keel_python.h"

#include <string.h>

int kp_intern_names(void) {
    for (struct kp_row *const *r = kp_rows; *r; r++)
        for (int i = 0; i < (*r)->n; i++) {
            struct kp_parameter *p = &(*r)->parameters[i];
            if (!(p->interned = PyUnicode_InternFromString(p->name))) return -1;
        }
    return 0;
}

void kp_own(struct kp_call *c, mlx_array a) {
    if (c->n_owned < KP_MAX_PARAMETERS) c->owned[c->n_owned++] = a;
}

static int wrong_type(const struct kp_row *row, const struct kp_parameter *p, PyObject *o,
                      const char *wanted) {
    PyObject *name = PyObject_GetAttrString((PyObject *)Py_TYPE(o), "__name__");
    if (name)
        PyErr_Format(PyExc_TypeError, "%s(): argument '%s' is a %U, but must be %s%s", row->name,
                     p->name, name, wanted, p->none ? ", or None" : "");
    Py_XDECREF(name);
    return -1;
}

/* ---- ints ----
 * Every int that the C API takes goes through one of these: none wraps. */
static bool int32_of(PyObject *index, int *out) {
    int overflow;
    long long i = PyLong_AsLongLongAndOverflow(index, &overflow);
    *out = (int)i;
    return !overflow && i >= INT32_MIN && i <= INT32_MAX;
}

int kp_int32(const char *what, PyObject *o, int *out) {
    PyObject *index = PyNumber_Index(o);
    if (!index) return -1;
    bool fits = int32_of(index, out);
    if (!fits)
        PyErr_Format(PyExc_TypeError, "%s is %S, but must be an int from %d to %d", what, index,
                     INT32_MIN, INT32_MAX);
    Py_DECREF(index);
    return fits ? 0 : -1;
}

/* The int that an argument is, as a new reference. */
static PyObject *index_of(const struct kp_row *row, const struct kp_parameter *p, PyObject *o) {
    PyObject *index = PyLong_Check(o) ? kp_new_ref(o) : PyNumber_Index(o);
    if (!index && PyErr_ExceptionMatches(PyExc_TypeError)) {
        PyErr_Clear();
        wrong_type(row, p, o, "an int");
    }
    return index;
}

/* beyond: what is raised for a number that int32 does not hold. */
static int to_int32(const struct kp_row *row, const struct kp_parameter *p, PyObject *o,
                    PyObject *beyond, int *out) {
    PyObject *index = index_of(row, p, o);
    if (!index) return -1;
    bool fits = int32_of(index, out);
    if (!fits)
        PyErr_Format(beyond, "%s(): argument '%s' has %S, but takes ints from %d to %d", row->name,
                     p->name, index, INT32_MIN, INT32_MAX);
    Py_DECREF(index);
    return fits ? 0 : -1;
}

static int to_int(const struct kp_row *row, const struct kp_parameter *p, PyObject *o,
                  int64_t *out) {
    int i;
    if (to_int32(row, p, o, PyExc_TypeError, &i)) return -1;
    *out = i;
    return 0;
}

/* An array is no number here, though it has __index__: MLX refuses `seed(mx.array(3))`. */
static int to_uint64(const struct kp_row *row, const struct kp_parameter *p, PyObject *o,
                     int64_t *out) {
    if (kp_is_array(o)) return wrong_type(row, p, o, "an int");
    PyObject *index = index_of(row, p, o);
    if (!index) return -1;
    uint64_t u = PyLong_AsUnsignedLongLong(index);
    bool fits = !PyErr_Occurred();
    if (!fits) {
        PyErr_Clear(); /* the OverflowError tells no bounds */
        PyErr_Format(PyExc_TypeError,
                     "%s(): argument '%s' is %S, but must be an int from 0 to %llu", row->name,
                     p->name, index, (unsigned long long)UINT64_MAX);
    }
    Py_DECREF(index);
    *out = (int64_t)u;
    return fits ? 0 : -1;
}

/* MLX raises OverflowError for an extent that is too large, and TypeError for any other int. */
static int to_extent(const struct kp_row *row, const struct kp_parameter *p, PyObject *o,
                     int *out) {
    bool shape = !strcmp(p->name, "shape");
    return to_int32(row, p, o, shape ? PyExc_OverflowError : PyExc_TypeError, out);
}

static int to_ints(struct kp_call *c, const struct kp_parameter *p, struct kp_value *v,
                   PyObject *o) {
    v->ints.at = c->ints + c->n_ints;
    v->one = PyLong_Check(o) || !PySequence_Check(o) || kp_is_array(o);
    Py_ssize_t n = v->one ? 1 : PySequence_Size(o);
    if (n < 0) return -1;
    if (n > KP_MAX_INTS - c->n_ints) {
        PyErr_Format(PyExc_ValueError, "%s(): argument '%s' has %zd numbers, which are too many",
                     c->row->name, p->name, n);
        return -1;
    }
    v->ints.n = (size_t)n;
    c->n_ints += (int)n;
    if (v->one) return to_extent(c->row, p, o, v->ints.at);
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *item = PySequence_GetItem(o, i);
        int rc = item ? to_extent(c->row, p, item, v->ints.at + i) : -1;
        Py_XDECREF(item);
        if (rc) return -1;
    }
    return 0;
}

static int to_arrays(struct kp_call *c, struct kp_value *v, PyObject *o) {
    Py_ssize_t n = PySequence_Size(o);
    if (n < 0) return -1;
    if (c->n_vectors == (int)(sizeof c->vectors / sizeof c->vectors[0])) {
        PyErr_SetString(PyExc_SystemError, "too many lists of arrays");
        return -1;
    }
    v->arrays = c->vectors[c->n_vectors++] = mlx_vector_array_new();
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *item = PySequence_GetItem(o, i);
        mlx_array a = mlx_array_new();
        int rc = !item;
        if (item && kp_is_array(item)) {
            rc = kp_check(mlx_vector_array_append_value(v->arrays, kp_handle(item)));
        } else if (item) {
            rc = kp_to_array(&a, item, NULL, NULL) ||
                 kp_check(mlx_vector_array_append_value(v->arrays, a));
            mlx_array_free(a);
        }
        Py_XDECREF(item);
        if (rc) return -1;
    }
    return 0;
}

static int convert(struct kp_call *c, const struct kp_parameter *p, PyObject *o) {
    struct kp_value *v = &c->v[p->slot];
    v->object = o;
    v->one = false;
    if (o == Py_None && p->kind != K_STREAM) {
        if (!p->none && p->kind != K_OBJECT) return wrong_type(c->row, p, o, "given");
        v->given = p->kind == K_OBJECT && !p->none;
        return 0;
    }
    v->given = true;
    switch (p->kind) {
    case K_ARRAY:
        if (kp_is_array(o)) {
            v->array = kp_handle(o);
            return 0;
        }
        v->array = mlx_array_new();
        if (kp_to_array(&v->array, o, NULL, NULL)) return -1;
        kp_own(c, v->array);
        return 0;
    case K_INT: return to_int(c->row, p, o, &v->i);
    case K_UINT64: return to_uint64(c->row, p, o, &v->i);
    case K_INTS: return to_ints(c, p, v, o);
    case K_FLOAT:
        v->f = PyFloat_AsDouble(o);
        if (v->f != -1 || !PyErr_Occurred()) return 0;
        if (!PyErr_ExceptionMatches(PyExc_TypeError)) return -1;
        PyErr_Clear();
        return wrong_type(c->row, p, o, "a float");
    case K_BOOL:
        /* An object whose type defines no truth value (a dtype, a text) was meant for another
         * parameter. */
        if (!PyType_GetSlot(Py_TYPE(o), Py_nb_bool)) return wrong_type(c->row, p, o, "a bool");
        v->i = PyObject_IsTrue(o);
        return v->i < 0 ? -1 : 0;
    case K_STRING:
        if (!PyUnicode_Check(o)) return wrong_type(c->row, p, o, "a str");
        v->str = PyUnicode_AsUTF8AndSize(o, NULL);
        return v->str ? 0 : -1;
    case K_DTYPE:
        if (Py_TYPE(o) != kp_dtype_type) return wrong_type(c->row, p, o, "a Dtype");
        v->i = ((struct kp_dtype *)o)->dtype;
        return 0;
    case K_STREAM: return kp_stream(&c->stream, o);
    case K_ARRAYS:
        if (!PySequence_Check(o) || PyUnicode_Check(o))
            return wrong_type(c->row, p, o, "a sequence of arrays");
        return to_arrays(c, v, o);
    default: return 0;
    }
}

/* Fills what was left out. A row marks each parameter that it has seen in `seen`. */
static int fill(struct kp_call *c, uint32_t seen) {
    for (int i = 0; i < c->row->n; i++) {
        const struct kp_parameter *p = &c->row->parameters[i];
        if (seen & 1u << i || p->how == H_REST) continue;
        if (p->required) {
            PyErr_Format(PyExc_TypeError, "%s() needs the argument '%s'", c->row->name, p->name);
            return -1;
        }
        struct kp_value *v = &c->v[p->slot];
        *v = p->value;
        v->object = NULL;
        if (p->kind == K_INTS && v->one) {
            int first = (int)p->value.i;
            if (c->n_ints == KP_MAX_INTS) {
                PyErr_Format(PyExc_ValueError, "%s() takes at most %d numbers", c->row->name,
                             KP_MAX_INTS);
                return -1;
            }
            v->ints.at = c->ints + c->n_ints;
            v->ints.n = 1;
            c->ints[c->n_ints++] = first;
        } else if (p->kind == K_INTS && !v->ints.n) {
            v->ints.at = c->ints;
            v->ints.n = 0;
        }
    }
    return c->stream.ctx || c->row->no_stream ? 0 : kp_default_stream(&c->stream);
}

/* NumPy's functions of these names call the methods of what they are given, with out=None and
 * dtype=None, which ask for nothing. */
static bool is_nothing_of_numpy(const struct kp_call *c, PyObject *name, PyObject *value) {
    static const char *const reductions[] = {"sum", "prod", "max", "min", "mean",
                                             "std", "var",  "all", "any"};
    if (value != Py_None || !kp_is_array(c->self)) return false;
    if (PyUnicode_CompareWithASCIIString(name, "out") &&
        PyUnicode_CompareWithASCIIString(name, "dtype"))
        return false;
    for (size_t i = 0; i < sizeof reductions / sizeof reductions[0]; i++)
        if (!strcmp(c->row->name, reductions[i])) return true;
    return false;
}

static int parse(struct kp_call *c, PyObject *const *args, Py_ssize_t n, PyObject *names,
                 uint32_t seen) {
    const struct kp_row *row = c->row;
    int first = seen ? 1 : 0; /* a method has its self already */
    Py_ssize_t taken = n < row->n_positional - first ? n : row->n_positional - first;
    if (n > taken && row->rest < 0) {
        PyErr_Format(PyExc_TypeError,
                     "%s() takes at most %d positional arguments, but %zd were given", row->name,
                     row->n_positional - first, n);
        return -1;
    }
    for (Py_ssize_t i = 0; i < taken; i++) {
        if (convert(c, &row->parameters[i + first], args[i])) return -1;
        seen |= 1u << (i + first);
    }
    c->rest = args + taken;
    c->n_rest = n - taken;
    c->n_unnamed = taken;
    Py_ssize_t n_names = names ? PyTuple_Size(names) : 0;
    for (Py_ssize_t k = 0; k < n_names; k++) {
        PyObject *name = PyTuple_GetItem(names, k);
        int i = 0;
        while (i < row->n && row->parameters[i].interned != name) i++;
        if (i == row->n) /* a name that was not interned, or a wrong one */
            for (i = 0; i < row->n; i++)
                if (!PyUnicode_Compare(name, row->parameters[i].interned)) break;
        if (i == row->n || row->parameters[i].how == H_POSITIONAL ||
            row->parameters[i].how == H_REST || row->parameters[i].how == H_HIDDEN) {
            if (is_nothing_of_numpy(c, name, args[n + k])) continue;
            PyErr_Format(PyExc_TypeError, "%s() takes no argument of the name '%U'", row->name,
                         name);
            return -1;
        }
        if (seen & 1u << i) {
            PyErr_Format(PyExc_TypeError, "%s() got the argument '%U' twice", row->name, name);
            return -1;
        }
        if (convert(c, &row->parameters[i], args[n + k])) return -1;
        seen |= 1u << i;
    }
    return fill(c, seen);
}

PyObject *kp_call(const struct kp_row *row, PyObject *(*run)(struct kp_call *c), PyObject *self,
                  PyObject *const *args, Py_ssize_t n, PyObject *names) {
    struct kp_call c;
    c.row = row;
    c.self = self;
    c.stream.ctx = NULL;
    c.n_ints = c.n_owned = c.n_vectors = 0;
    uint32_t seen = 0;
    if (kp_is_array(self)) {
        c.v[0].given = true;
        c.v[0].array = kp_handle(self);
        c.v[0].object = self;
        seen = 1;
    }
    PyObject *out = parse(&c, args, n, names, seen) ? NULL : run(&c);
    for (int i = 0; i < c.n_owned; i++) mlx_array_free(c.owned[i]);
    for (int i = 0; i < c.n_vectors; i++) mlx_vector_array_free(c.vectors[i]);
    return out;
}

PyObject *kp_done(int rc, mlx_array out) {
    if (rc) {
        mlx_array_free(out);
        return kp_raise();
    }
    return kp_wrap(out);
}

PyObject *kp_done_none(int rc) {
    return rc ? kp_raise() : kp_new_ref(Py_None);
}

static PyObject *fill_sequence(mlx_vector_array v, bool tuple) {
    Py_ssize_t n = (Py_ssize_t)mlx_vector_array_size(v);
    PyObject *out = tuple ? PyTuple_New(n) : PyList_New(n);
    for (Py_ssize_t i = 0; out && i < n; i++) {
        mlx_array a = mlx_array_new();
        PyObject *item = mlx_vector_array_get(&a, v, (size_t)i) ? kp_raise() : kp_wrap(a);
        if (!item || (tuple ? PyTuple_SetItem(out, i, item) : PyList_SetItem(out, i, item)))
            Py_CLEAR(out);
    }
    mlx_vector_array_free(v);
    return out;
}

PyObject *kp_wrap_list(mlx_vector_array v) {
    return fill_sequence(v, false);
}

PyObject *kp_wrap_tuple(mlx_vector_array v) {
    return fill_sequence(v, true);
}

PyObject *kp_done_list(int rc, mlx_vector_array out) {
    if (!rc) return kp_wrap_list(out);
    mlx_vector_array_free(out);
    return kp_raise();
}

PyObject *kp_done_tuple(int rc, mlx_vector_array out) {
    if (!rc) return kp_wrap_tuple(out);
    mlx_vector_array_free(out);
    return kp_raise();
}

int kp_rest_arrays(struct kp_call *c, mlx_vector_array *out) {
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
