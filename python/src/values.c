/* values.c - arrays of what Python has: numbers, nested lists, buffers, DLPack, __array__ */
#include "keel_python.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- one number ---- */
static bool is_floating(mlx_dtype d) {
    return d == MLX_FLOAT16 || d == MLX_FLOAT32 || d == MLX_FLOAT64 || d == MLX_BFLOAT16;
}

/* The range of an integer dtype, as far as int64 holds it. uint64 takes negative numbers too,
 * modulo 2**64, as in MLX. */
static void range_of(mlx_dtype d, int64_t *lo, int64_t *hi) {
    static const int64_t lows[] = {0,        0,         0,         0,        INT64_MIN,
                                   INT8_MIN, INT16_MIN, INT32_MIN, INT64_MIN},
                         highs[] = {1,        UINT8_MAX, UINT16_MAX, UINT32_MAX, INT64_MAX,
                                    INT8_MAX, INT16_MAX, INT32_MAX,  INT64_MAX};
    *lo = lows[d];
    *hi = highs[d];
}

int kp_constant(mlx_array *out, mlx_array a, mlx_dtype to) {
    mlx_stream cpu = mlx_default_cpu_stream_new();
    int rc = kp_check(!cpu.ctx || mlx_astype(out, a, to, cpu)) || kp_eval(*out);
    mlx_stream_free(cpu);
    return rc ? -1 : 0;
}

/* x rounded to nearest even in a format of 16 bits whose fraction has `fraction` bits and whose
 * least normal number is 2^least. */
static uint16_t small_float(double x, int fraction, int least) {
    const unsigned sign = signbit(x) ? 0x8000 : 0, infinity = 0x8000 - (1u << fraction);
    if (isnan(x)) return (uint16_t)(sign | infinity | 1u << (fraction - 1));
    if (isinf(x)) return (uint16_t)(sign | infinity);
    int e;
    frexp(x, &e); /* |x| is below 2^e */
    if (e <= least || x == 0) e = least + 1;
    /* With the leading bit, which adds 1 to the exponent field. A number that rounding makes longer
     * goes on into that field, up to infinity. */
    const double digits = rint(ldexp(fabs(x), fraction + 1 - e));
    const double bits = ldexp(e - least - 1, fraction) + digits;
    return (uint16_t)(sign | (bits < infinity ? (unsigned)bits : infinity));
}

/* A 0-d array of a number. The usual dtypes of 16 bits are made here: a cast would wait for what
 * the stream has still to do, and programs write numbers next to arrays in most expressions. */
static int scalar_of(mlx_array *out, double x, mlx_dtype to) {
    if (to == MLX_FLOAT32) {
        *out = mlx_array_new_float32((float)x);
    } else {
        uint16_t bits = to == MLX_BFLOAT16 ? small_float(x, 7, -126) : small_float(x, 10, -14);
        *out = mlx_array_new_data(&bits, NULL, 0, to);
    }
    return out->ctx ? 0 : kp_check(1);
}

static bool is_quick(mlx_dtype d) {
    return d == MLX_FLOAT32 || d == MLX_BFLOAT16 || d == MLX_FLOAT16;
}

/* A 0-d array of a number held as `from`, cast to `to`. */
static int scalar_as(mlx_array *out, const void *data, mlx_dtype from, mlx_dtype to) {
    mlx_array a = mlx_array_new_data(data, NULL, 0, from);
    if (!a.ctx) return kp_check(1);
    if (from == to) {
        *out = a;
        return 0;
    }
    int rc = kp_constant(out, a, to);
    mlx_array_free(a);
    return rc;
}

static int int_array(mlx_array *out, PyObject *o, const mlx_dtype *dtype, const mlx_dtype *weak) {
    int overflow;
    long long i = PyLong_AsLongLongAndOverflow(o, &overflow);
    if (i == -1 && PyErr_Occurred()) return -1;
    if (overflow) {
        uint64_t u = overflow > 0 ? PyLong_AsUnsignedLongLong(o) : 0;
        if (overflow < 0 || (u == UINT64_MAX && PyErr_Occurred())) {
            PyErr_Clear();
            PyErr_Format(PyExc_OverflowError, "%R does not fit into an integer of 64 bits", o);
            return -1;
        }
        const mlx_dtype *to = dtype ? dtype : weak;
        if (!to || is_floating(*to) || *to == MLX_COMPLEX64 || *to == MLX_UINT64)
            return scalar_as(out, &u, MLX_UINT64, to ? *to : MLX_UINT64);
        PyErr_Format(PyExc_OverflowError, "%R does not fit into %R", o, kp_dtypes[*to]);
        return -1;
    }
    if (dtype) return scalar_as(out, &i, MLX_INT64, *dtype);
    mlx_dtype to = weak && *weak != MLX_BOOL ? *weak : MLX_INT32;
    int64_t lo, hi;
    if (to <= MLX_INT64) {
        range_of(to, &lo, &hi);
        if (i < lo || i > hi) {
            if (weak && *weak != MLX_BOOL) {
                PyErr_Format(PyExc_ValueError,
                             "the number %lld does not fit into %R, which holds %lld to %lld", i,
                             kp_dtypes[to], (long long)lo, (long long)hi);
                return -1;
            }
            to = MLX_INT64;
        }
    }
    if (to == MLX_INT32) { /* the usual case needs no cast */
        *out = mlx_array_new_int((int)i);
        return out->ctx ? 0 : kp_check(1);
    }
    const int64_t exact = INT64_C(1) << 53; /* up to here in float64 */
    if (is_quick(to) && -exact <= i && i <= exact) return scalar_of(out, (double)i, to);
    return scalar_as(out, &i, MLX_INT64, to);
}

static int number_array(mlx_array *out, PyObject *o, const mlx_dtype *dtype,
                        const mlx_dtype *weak) {
    if (PyBool_Check(o)) {
        bool b = o == Py_True;
        return scalar_as(out, &b, MLX_BOOL, dtype ? *dtype : weak ? *weak : MLX_BOOL);
    }
    if (PyLong_Check(o)) return int_array(out, o, dtype, weak);
    if (PyFloat_Check(o)) {
        double f = PyFloat_AsDouble(o);
        mlx_dtype to = dtype                            ? *dtype
                       : weak && *weak == MLX_COMPLEX64 ? MLX_COMPLEX64
                       : weak && is_floating(*weak)     ? *weak
                                                        : MLX_FLOAT32;
        if (is_quick(to)) return scalar_of(out, f, to);
        return scalar_as(out, &f, MLX_FLOAT64, to);
    }
    float pair[2] = {(float)PyComplex_RealAsDouble(o), (float)PyComplex_ImagAsDouble(o)};
    return scalar_as(out, pair, MLX_COMPLEX64, dtype ? *dtype : MLX_COMPLEX64);
}

static bool is_number(PyObject *o) {
    return PyFloat_Check(o) || PyLong_Check(o) || PyComplex_Check(o);
}

/* ---- nested lists ----
 * Attributes and numbers of the items are asked for, which may run code that changes the lists. So
 * an item is held while it is read, and `collect` checks again what `look` has seen. */
enum rank { R_BOOL, R_INT, R_FLOAT, R_COMPLEX };

struct list {
    int shape[KP_MAX_NESTING], ndim;
    size_t n;
    enum rank rank;
    bool wide, beyond; /* an int outside int32; one above int64 */
    bool arrays;       /* arrays stand in the list */
};

static bool is_list(PyObject *o) {
    return PyList_Check(o) || PyTuple_Check(o);
}

static Py_ssize_t list_size(PyObject *o) {
    return PyList_Check(o) ? PyList_Size(o) : PyTuple_Size(o);
}

static int list_changed(void) {
    PyErr_SetString(PyExc_ValueError, "the lists changed while they were read");
    return -1;
}

/* A new reference, or NULL with an exception where the list has become shorter. */
static PyObject *list_item(PyObject *o, Py_ssize_t i) {
    if (i >= list_size(o)) {
        list_changed();
        return NULL;
    }
    return kp_new_ref(PyList_Check(o) ? PyList_GetItem(o, i) : PyTuple_GetItem(o, i));
}

static int look(struct list *l, PyObject *o, int depth) {
    if (!is_list(o)) {
        if (!is_number(o) && (kp_is_array(o) || PyObject_HasAttrString(o, "__mlx_array__"))) {
            l->arrays = true;
            return 0;
        }
        if (depth != l->ndim) {
            PyErr_SetString(PyExc_ValueError, "the lists do not have one length at each level");
            return -1;
        }
        if (!is_number(o)) {
            if (PyIndex_Check(o) || PyObject_HasAttrString(o, "__array__") ||
                PyObject_CheckBuffer(o)) {
                l->arrays = true; /* NumPy's scalars: each one becomes an array */
                return 0;
            }
            PyObject *name = PyObject_GetAttrString((PyObject *)Py_TYPE(o), "__name__");
            if (name)
                PyErr_Format(PyExc_ValueError,
                             "an array is made of numbers, lists, tuples and arrays; got a %U",
                             name);
            Py_XDECREF(name);
            return -1;
        }
        enum rank r = PyBool_Check(o)    ? R_BOOL
                      : PyLong_Check(o)  ? R_INT
                      : PyFloat_Check(o) ? R_FLOAT
                                         : R_COMPLEX;
        if (r > l->rank) l->rank = r;
        if (r == R_INT) {
            int overflow;
            long long i = PyLong_AsLongLongAndOverflow(o, &overflow);
            if (overflow) l->beyond = l->wide = true;
            if (i < INT32_MIN || i > INT32_MAX) l->wide = true;
        }
        l->n++;
        return 0;
    }
    Py_ssize_t n = list_size(o);
    if (depth == KP_MAX_NESTING || n > INT_MAX) {
        PyErr_Format(PyExc_ValueError, "an array has at most %d axes, each of at most %d elements",
                     KP_MAX_NESTING, INT_MAX);
        return -1;
    }
    bool late = depth == l->ndim && l->n; /* a list where numbers stood before */
    if (depth == l->ndim) l->shape[l->ndim++] = (int)n;
    if (late || l->shape[depth] != n) {
        PyErr_SetString(PyExc_ValueError, "the lists do not have one length at each level");
        return -1;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *item = list_item(o, i);
        int rc = item ? look(l, item, depth + 1) : -1;
        Py_XDECREF(item);
        if (rc) return -1;
    }
    return 0;
}

/* Copies one number as int64, double or a pair of floats. */
static int collect_number(const struct list *l, PyObject *o, char **at) {
    if (!is_number(o)) return list_changed();
    if (l->rank == R_COMPLEX) {
        float pair[2] = {(float)PyComplex_RealAsDouble(o), (float)PyComplex_ImagAsDouble(o)};
        if (PyErr_Occurred()) return -1;
        memcpy(*at, pair, 8);
    } else if (l->rank == R_FLOAT) {
        double f = PyFloat_AsDouble(o);
        if (f == -1 && PyErr_Occurred()) return -1;
        memcpy(*at, &f, 8);
    } else if (l->beyond) {
        uint64_t u = PyLong_AsUnsignedLongLong(o);
        if (u == UINT64_MAX && PyErr_Occurred()) return -1;
        memcpy(*at, &u, 8);
    } else {
        int64_t i = PyLong_AsLongLong(o);
        if (i == -1 && PyErr_Occurred()) return -1;
        memcpy(*at, &i, 8);
    }
    *at += 8;
    return 0;
}

/* Copies the numbers, row-major: as many as the shape that `look` found has, or none is right. */
static int collect(const struct list *l, PyObject *o, int depth, char **at) {
    if (depth == l->ndim) return collect_number(l, o, at);
    if (!is_list(o) || list_size(o) != l->shape[depth]) return list_changed();
    for (int i = 0; i < l->shape[depth]; i++) {
        PyObject *item = list_item(o, i);
        int rc = item ? collect(l, item, depth + 1, at) : -1;
        Py_XDECREF(item);
        if (rc) return -1;
    }
    return 0;
}

/* All items on one level of a list must have one shape: the error is about the list. */
static int check_one_shape(mlx_vector_array v) {
    mlx_array first = mlx_array_new(), a = mlx_array_new();
    size_t n = mlx_vector_array_size(v);
    int rc = n ? kp_check(mlx_vector_array_get(&first, v, 0)) : 0;
    for (size_t i = 1; i < n && !rc; i++) {
        rc = kp_check(mlx_vector_array_get(&a, v, i));
        if (rc || mlx_array_ndim(a) == mlx_array_ndim(first)) continue;
        PyErr_Format(PyExc_ValueError,
                     "the elements of a list have %zu and %zu axes; all must have one shape",
                     mlx_array_ndim(first), mlx_array_ndim(a));
        rc = -1;
    }
    mlx_array_free(first);
    mlx_array_free(a);
    return rc;
}

/* A list in which arrays stand is stacked, level by level. *weak: the dtype of Python's floats. */
static int stack_list(mlx_array *out, PyObject *o, const mlx_dtype *weak) {
    if (!is_list(o)) return kp_to_array(out, o, NULL, PyFloat_Check(o) ? weak : NULL);
    mlx_vector_array v = mlx_vector_array_new();
    int rc = 0;
    for (Py_ssize_t i = 0; i < list_size(o) && !rc; i++) {
        mlx_array a = mlx_array_new();
        PyObject *item = list_item(o, i);
        rc = !item || stack_list(&a, item, weak) || kp_check(mlx_vector_array_append_value(v, a));
        mlx_array_free(a);
        Py_XDECREF(item);
    }
    mlx_stream s;
    rc = rc || check_one_shape(v) || kp_default_stream(&s) || kp_check(mlx_stack(out, v, s));
    mlx_vector_array_free(v);
    return rc ? -1 : 0;
}

static int cast_to(mlx_array *a, const mlx_dtype *dtype) {
    mlx_stream s;
    if (!dtype || mlx_array_dtype(*a) == *dtype) return 0;
    return kp_default_stream(&s) || kp_check(mlx_astype(a, *a, *dtype, s)) ? -1 : 0;
}

/* Converts numbers in their place where no rule of a cast is needed: the usual dtypes of lists. */
static bool narrow(char *data, size_t n, mlx_dtype from, mlx_dtype to) {
    bool ints = from == MLX_INT64 && (to == MLX_INT32 || to == MLX_BOOL);
    if (!ints && !(from == MLX_FLOAT64 && to == MLX_FLOAT32)) return false;
    for (size_t i = 0; i < n; i++) {
        int64_t v;
        double f;
        if (to == MLX_FLOAT32) {
            memcpy(&f, data + 8 * i, 8);
            memcpy(data + 4 * i, &(float){(float)f}, 4);
            continue;
        }
        memcpy(&v, data + 8 * i, 8);
        if (to == MLX_BOOL)
            data[i] = v != 0;
        else
            memcpy(data + 4 * i, &(int32_t){(int32_t)v}, 4);
    }
    return true;
}

static int list_array(mlx_array *out, PyObject *o, const mlx_dtype *dtype) {
    struct list l = {.ndim = 0};
    const int made = kp_quick_list(out, o, dtype);
    if (made) return made > 0 ? 0 : -1;
    if (look(&l, o, 0)) return -1;
    if (l.arrays) { /* a float that becomes float64 does not become float32 before */
        const mlx_dtype *weak = dtype && *dtype == MLX_FLOAT64 ? dtype : NULL;
        return stack_list(out, o, weak) || cast_to(out, dtype) ? -1 : 0;
    }
    static const mlx_dtype held[] = {MLX_INT64, MLX_INT64, MLX_FLOAT64, MLX_COMPLEX64},
                           shown[] = {MLX_BOOL, MLX_INT32, MLX_FLOAT32, MLX_COMPLEX64};
    if (!l.n) l.rank = R_FLOAT; /* an empty list is float32 */
    int64_t extents[KP_MAX_NESTING];
    for (int i = 0; i < l.ndim; i++) extents[i] = l.shape[i];
    if (!kp_count(extents, l.ndim, 8, &l.n)) return list_changed();
    char *data = malloc(l.n * 8 + 1), *at = data;
    if (!data) {
        PyErr_NoMemory();
        return -1;
    }
    int rc = collect(&l, o, 0, &at);
    if (!rc) {
        mlx_dtype from = l.beyond && l.rank == R_INT ? MLX_UINT64 : held[l.rank];
        mlx_dtype to = dtype                        ? *dtype
                       : l.rank != R_INT || !l.wide ? shown[l.rank]
                       : l.beyond                   ? MLX_UINT64
                                                    : MLX_INT64;
        if (narrow(data, l.n, from, to)) from = to;
        mlx_array a = mlx_array_new_data(data, l.shape, l.ndim, from);
        rc = a.ctx ? 0 : kp_check(1);
        if (!rc && from == to) {
            *out = a;
        } else if (!rc) {
            rc = kp_constant(out, a, to);
            mlx_array_free(a);
        }
    }
    free(data);
    return rc;
}

/* ---- anything ---- */
bool kp_is_operand(PyObject *o) {
    return kp_is_array(o) || is_number(o) || PyObject_CheckBuffer(o) ||
           PyObject_HasAttrString(o, "__mlx_array__") || PyObject_HasAttrString(o, "__array__");
}

static int method_array(mlx_array *out, PyObject *o, const char *name, const mlx_dtype *dtype) {
    PyObject *made = PyObject_CallMethod(o, name, NULL);
    if (!made) return -1;
    int rc = kp_is_array(made)
                 ? kp_check(mlx_array_set(out, kp_handle(made))) || cast_to(out, dtype)
                 : kp_buffer_to_array(out, made, dtype);
    Py_DECREF(made);
    return rc ? -1 : 0;
}

/* An array or scalar of NumPy whose dtype is named bfloat16, as that of ml_dtypes: it has neither a
 * buffer nor DLPack, but may be seen as uint16. */
static int bfloat16_array(mlx_array *out, PyObject *o, const mlx_dtype *dtype) {
    const mlx_dtype bits = MLX_UINT16;
    mlx_stream s;
    PyObject *of = PyObject_GetAttrString(o, "dtype");
    PyObject *name = of ? PyObject_GetAttrString(of, "name") : NULL;
    PyObject *seen = NULL;
    if (name && PyUnicode_Check(name) && !PyUnicode_CompareWithASCIIString(name, "bfloat16"))
        seen = PyObject_CallMethod(o, "view", "s", "uint16");
    int rc = seen ? kp_buffer_to_array(out, seen, &bits) || kp_default_stream(&s) ||
                        kp_check(mlx_view(out, *out, MLX_BFLOAT16, s)) || cast_to(out, dtype)
                  : -1;
    Py_XDECREF(of);
    Py_XDECREF(name);
    Py_XDECREF(seen);
    return rc ? -1 : 0;
}

int kp_from_dlpack(mlx_array *out, PyObject *o, const mlx_dtype *dtype);

int kp_to_array(mlx_array *out, PyObject *o, const mlx_dtype *dtype, const mlx_dtype *weak) {
    if (kp_is_array(o)) {
        if (kp_check(mlx_array_set(out, kp_handle(o)))) return -1;
        return cast_to(out, dtype);
    }
    if (is_number(o)) return number_array(out, o, dtype, weak);
    if (is_list(o)) return list_array(out, o, dtype);
    if (PyObject_HasAttrString(o, "__mlx_array__"))
        return method_array(out, o, "__mlx_array__", dtype);
    if (PyObject_CheckBuffer(o) && !PyObject_HasAttrString(o, "is_cpu")) {
        if (!kp_buffer_to_array(out, o, dtype)) return 0;
        /* Dtypes that buffers cannot name, as bfloat16 of ml_dtypes; of what DLPack cannot name
         * either, the first error tells the format. */
        PyObject *type, *value, *trace;
        PyErr_Fetch(&type, &value, &trace); /* looking for an attribute would drop it */
        if (PyObject_HasAttrString(o, "__dlpack__") && !kp_from_dlpack(out, o, dtype)) {
            Py_XDECREF(type);
            Py_XDECREF(value);
            Py_XDECREF(trace);
            return cast_to(out, dtype);
        }
        PyErr_Clear();
        if (!bfloat16_array(out, o, dtype)) {
            Py_XDECREF(type);
            Py_XDECREF(value);
            Py_XDECREF(trace);
            return 0;
        }
        PyErr_Clear();
        PyErr_Restore(type, value, trace);
        return -1;
    }
    if (PyObject_HasAttrString(o, "__dlpack__"))
        return kp_from_dlpack(out, o, dtype) || cast_to(out, dtype) ? -1 : 0;
    if (PyObject_HasAttrString(o, "__array__")) return method_array(out, o, "__array__", dtype);
    if (PyIndex_Check(o)) {
        PyObject *i = PyNumber_Index(o);
        int rc = i ? int_array(out, i, dtype, weak) : -1;
        Py_XDECREF(i);
        return rc;
    }
    PyObject *name = PyObject_GetAttrString((PyObject *)Py_TYPE(o), "__name__");
    if (name)
        PyErr_Format(PyExc_ValueError,
                     "an array is made of numbers, lists, tuples and arrays; got a %U", name);
    Py_XDECREF(name);
    return -1;
}

int kp_pair_of(PyObject *x, PyObject *y, mlx_array *a, mlx_array *b, mlx_array owned[2]) {
    owned[0] = owned[1] = mlx_array_new();
    bool ax = kp_is_array(x), ay = kp_is_array(y);
    mlx_dtype dtype;
    if (ax) *a = kp_handle(x);
    if (ay) *b = kp_handle(y);
    if (ax && ay) return 0;
    if (!ax && !ay) { /* NumPy's rule for two Python values: the wider kind decides */
        bool x_first = !is_number(x) || (is_number(y) && PyFloat_Check(x));
        PyObject *first = x_first ? x : y, *second = x_first ? y : x;
        int i = x_first ? 0 : 1;
        if (kp_to_array(&owned[i], first, NULL, NULL)) return -1;
        dtype = mlx_array_dtype(owned[i]);
        bool ints = PyLong_Check(first) && PyLong_Check(second); /* each may need 64 bits */
        if (kp_to_array(&owned[1 - i], second, NULL, is_number(second) && !ints ? &dtype : NULL))
            return -1;
        *a = owned[0];
        *b = owned[1];
        return 0;
    }
    dtype = mlx_array_dtype(ax ? *a : *b);
    PyObject *other = ax ? y : x;
    bool weak = is_number(other);
    /* Arrays of other libraries are cast, as in MLX: NumPy's float32 leaves bfloat16 what it is. */
    bool cast = !weak && !is_list(other) && !PyObject_HasAttrString(other, "__mlx_array__");
    if (kp_to_array(&owned[0], other, cast ? &dtype : NULL, weak ? &dtype : NULL)) return -1;
    *(ax ? b : a) = owned[0];
    return 0;
}

int kp_pair(struct kp_call *c, int i, int j, mlx_array *a, mlx_array *b) {
    mlx_array owned[2];
    int rc = kp_pair_of(c->v[i].object, c->v[j].object, a, b, owned);
    for (int k = 0; k < 2; k++)
        if (owned[k].ctx) kp_own(c, owned[k]);
    return rc;
}

int kp_one(struct kp_call *c, int i, mlx_array *a) {
    PyObject *o = c->v[i].object;
    if (!o) { /* a default of the stubs */
        *a = mlx_array_new_float32((float)c->v[i].f);
    } else if (kp_is_array(o)) {
        *a = kp_handle(o);
        return 0;
    } else {
        *a = mlx_array_new();
        if (kp_to_array(a, o, NULL, NULL)) return -1;
    }
    kp_own(c, *a);
    return a->ctx ? 0 : kp_check(1);
}
