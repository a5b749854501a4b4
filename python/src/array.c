/* array.c - the type `array`: lifetime, operators, facts */
#include "keel_python.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

PyTypeObject *kp_array_type;
static allocfunc alloc;
static freefunc dealloc_memory;

PyObject *kp_wrap(mlx_array a) {
    struct kp_array *o = (struct kp_array *)alloc(kp_array_type, 0);
    if (!o) {
        mlx_array_free(a);
        return NULL;
    }
    o->a = a;
    o->weak = NULL;
    o->assigned = 0;
    o->front = false;
    return (PyObject *)o;
}

static void dealloc(PyObject *self) {
    struct kp_array *o = (struct kp_array *)self;
    PyTypeObject *type = Py_TYPE(self);
    if (o->weak) PyObject_ClearWeakRefs(self);
    if (o->a.ctx) mlx_array_free(o->a);
    /* A subclass is collected, so that its memory is laid out and freed in another way. */
    if (type == kp_array_type)
        dealloc_memory(self);
    else
        ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

static PyObject *new_array(PyTypeObject *type, PyObject *args, PyObject *names) {
    static char *keywords[] = {"val", "dtype", NULL};
    PyObject *val, *dtype = Py_None;
    /* array.__new__(array), as pickles of MLX call it, makes a number, which __setstate__ replaces.
     * array() itself is refused by init_array. */
    bool bare = !PyTuple_Size(args) && (!names || !PyDict_Size(names));
    if (bare) val = Py_False;
    if (!bare && !PyArg_ParseTupleAndKeywords(args, names, "O|O:array", keywords, &val, &dtype))
        return NULL;
    if (dtype != Py_None && Py_TYPE(dtype) != kp_dtype_type) {
        PyErr_SetString(PyExc_TypeError, "array(): argument 'dtype' must be a Dtype, or None");
        return NULL;
    }
    if (val == Py_None) {
        PyErr_SetString(PyExc_TypeError,
                        "array() takes a number, a list, an array or a buffer, not None");
        return NULL;
    }
    mlx_array a = mlx_array_new();
    if (kp_to_array(&a, val, dtype == Py_None ? NULL : &((struct kp_dtype *)dtype)->dtype, NULL)) {
        mlx_array_free(a);
        return NULL;
    }
    struct kp_array *o = (struct kp_array *)alloc(type, 0);
    if (!o) {
        mlx_array_free(a);
        return NULL;
    }
    o->a = a;
    o->weak = NULL;
    o->assigned = 0;
    o->front = false;
    return (PyObject *)o;
}

static int init_array(PyObject *self, PyObject *args, PyObject *names) {
    (void)self;
    if (PyTuple_Size(args) || (names && PyDict_Size(names))) return 0; /* new_array took them */
    PyErr_SetString(PyExc_TypeError, "array() needs the argument 'val'");
    return -1;
}

int kp_eval(mlx_array a) {
    mlx_array own;
    if (kp_read(&own, a)) return -1;
    mlx_array_free(own);
    return 0;
}

int kp_hold(mlx_array *own, mlx_array a) {
    *own = mlx_array_new();
    return mlx_array_set(own, a) ? kp_check(1) : 0;
}

int kp_read(mlx_array *own, mlx_array a) {
    if (kp_hold(own, a)) return -1;
    bool done = false;
    if (!_mlx_array_is_available(&done, *own) && done) return 0;
    int rc;
    KP_UNLOCKED(rc = mlx_array_eval(*own));
    if (!rc) return 0;
    mlx_array_free(*own);
    *own = mlx_array_empty;
    return kp_check(rc);
}

int kp_eval_vector(mlx_vector_array v) {
    int rc;
    KP_UNLOCKED(rc = mlx_eval(v));
    return kp_check(rc);
}

/* ---- operators ---- */
typedef int binary(mlx_array *, const mlx_array, const mlx_array, const mlx_stream);

/* Raises the error for an object that cannot be an operand: as in MLX a ValueError with both
 * types. */
static PyObject *no_operand(PyObject *o, const char *what) {
    PyObject *name = PyObject_GetAttrString((PyObject *)Py_TYPE(o), "__name__");
    if (name) PyErr_Format(PyExc_ValueError, "cannot compute %s of an array and a %U", what, name);
    Py_XDECREF(name);
    return NULL;
}

/* slot: that of the operator in place, or 0 where there is none. */
static PyObject *operate(PyObject *x, PyObject *y, binary *f, int slot, const char *what) {
    mlx_array a, b, owned[2], out = mlx_array_new();
    mlx_stream s;
    PyObject *other = kp_is_array(x) ? y : x;
    PyObject *of_numpy = slot ? kp_in_place_of_numpy(x, y, slot) : NULL;
    if (of_numpy || PyErr_Occurred()) return of_numpy;
    if (!kp_is_array(other) && !kp_is_operand(other)) {
        if (!PyList_Check(other) && !PyTuple_Check(other) && !PyUnicode_Check(other))
            return kp_new_ref(Py_NotImplemented); /* the other type may know how */
        return no_operand(other, what);
    }
    if (kp_default_stream(&s)) return NULL;
    PyObject *result = kp_pair_of(x, y, &a, &b, owned) ? NULL : kp_done(f(&out, a, b, s), out);
    for (int i = 0; i < 2; i++)
        if (owned[i].ctx) mlx_array_free(owned[i]);
    return result;
}

/* An in-place operator changes what the array names: other names of the same Python object see it,
 * other arrays that share the old value do not. The dtype may change, as in x = x + y. */
static PyObject *operate_in_place(PyObject *x, PyObject *y, binary *f) {
    mlx_array b, owned[2], *a = &((struct kp_array *)x)->a, left;
    mlx_stream s;
    if (!kp_is_array(y) && !kp_is_operand(y))
        return kp_new_ref(Py_NotImplemented); /* as x + y then */
    if (kp_default_stream(&s)) return NULL;
    int rc = kp_pair_of(x, y, &left, &b, owned) || kp_check(f(a, left, b, s));
    ((struct kp_array *)x)->assigned++;
    for (int i = 0; i < 2; i++)
        if (owned[i].ctx) mlx_array_free(owned[i]);
    return rc ? NULL : kp_new_ref(x);
}

#define OPERATOR(name, f, slot, what)                    \
    static PyObject *name(PyObject *x, PyObject *y) {    \
        return operate(x, y, f, slot, what);             \
    }                                                    \
    static PyObject *i##name(PyObject *x, PyObject *y) { \
        return operate_in_place(x, y, f);                \
    }
OPERATOR(add, mlx_add, Py_nb_inplace_add, "the sum")
OPERATOR(subtract, mlx_subtract, Py_nb_inplace_subtract, "the difference")
OPERATOR(multiply, mlx_multiply, Py_nb_inplace_multiply, "the product")
OPERATOR(floor_divide, mlx_floor_divide, Py_nb_inplace_floor_divide, "the floored quotient")
OPERATOR(modulo, mlx_remainder, Py_nb_inplace_remainder, "the remainder")
OPERATOR(left_shift, mlx_left_shift, Py_nb_inplace_lshift, "the left shift")
OPERATOR(right_shift, mlx_right_shift, Py_nb_inplace_rshift, "the right shift")

static bool floating_operand(PyObject *o) {
    if (!kp_is_array(o)) return PyFloat_Check(o);
    mlx_dtype d = mlx_array_dtype(kp_handle(o));
    return d >= MLX_FLOAT16;
}

static PyObject *true_divide(PyObject *x, PyObject *y) {
    return operate(x, y, mlx_divide, Py_nb_inplace_true_divide, "the quotient");
}
static PyObject *itrue_divide(PyObject *x, PyObject *y) {
    if (floating_operand(x) || y == Py_None) return operate_in_place(x, y, mlx_divide);
    PyErr_SetString(PyExc_ValueError,
                    "/= takes arrays of floating point numbers; x = x / y makes one");
    return NULL;
}

/* The matrix product is one of arrays: numbers, lists and the like are operands that Python
 * refuses. */
static bool has_axes(PyObject *o) {
    if (kp_is_array(o)) return true;
    PyObject *ndim = PyObject_GetAttrString(o, "ndim");
    long n = ndim ? PyLong_AsLong(ndim) : 0;
    Py_XDECREF(ndim);
    PyErr_Clear();
    return n > 0;
}
static PyObject *matmul(PyObject *x, PyObject *y) {
    if (!has_axes(x) || !has_axes(y)) return kp_new_ref(Py_NotImplemented);
    return operate(x, y, mlx_matmul, Py_nb_inplace_matrix_multiply, "the matrix product");
}
static PyObject *imatmul(PyObject *x, PyObject *y) {
    if (!has_axes(y)) return kp_new_ref(Py_NotImplemented);
    return operate_in_place(x, y, mlx_matmul);
}

static PyObject *bitwise(PyObject *x, PyObject *y, binary *f, int slot, const char *what,
                         bool in_place) {
    if (x != Py_None && y != Py_None && (floating_operand(x) || floating_operand(y))) {
        PyErr_Format(PyExc_ValueError, "%s takes integers and bools, not floating point numbers",
                     what);
        return NULL;
    }
    return in_place ? operate_in_place(x, y, f) : operate(x, y, f, slot, what);
}
#define BITWISE(name, f, slot, what)                     \
    static PyObject *name(PyObject *x, PyObject *y) {    \
        return bitwise(x, y, f, slot, what, false);      \
    }                                                    \
    static PyObject *i##name(PyObject *x, PyObject *y) { \
        return bitwise(x, y, f, slot, what, true);       \
    }
BITWISE(bit_and, mlx_bitwise_and, Py_nb_inplace_and, "the bitwise and")
BITWISE(bit_or, mlx_bitwise_or, Py_nb_inplace_or, "the bitwise or")
BITWISE(bit_xor, mlx_bitwise_xor, Py_nb_inplace_xor, "the bitwise exclusive or")

static PyObject *power(PyObject *x, PyObject *y, PyObject *modulus) {
    if (modulus != Py_None) {
        PyErr_SetString(PyExc_ValueError, "pow() of arrays takes no modulus");
        return NULL;
    }
    return operate(x, y, mlx_power, Py_nb_inplace_power, "the power");
}
/* divmod(x, y), as Python gives it: a pair. */
static PyObject *division(PyObject *x, PyObject *y) {
    PyObject *quotient = operate(x, y, mlx_floor_divide, 0, "the floored quotient");
    if (!quotient || quotient == Py_NotImplemented) return quotient;
    PyObject *rest = operate(x, y, mlx_remainder, 0, "the remainder");
    if (rest) return Py_BuildValue("(NN)", quotient, rest);
    Py_DECREF(quotient);
    return NULL;
}
static PyObject *ipower(PyObject *x, PyObject *y, PyObject *modulus) {
    (void)modulus; /* **= has none */
    return operate_in_place(x, y, mlx_power);
}

typedef int unary(mlx_array *, const mlx_array, const mlx_stream);
static PyObject *operate_one(PyObject *x, unary *f) {
    mlx_array out = mlx_array_new();
    mlx_stream s;
    return kp_default_stream(&s) ? NULL : kp_done(f(&out, kp_handle(x), s), out);
}
static PyObject *negative(PyObject *x) {
    return operate_one(x, mlx_negative);
}
static PyObject *absolute(PyObject *x) {
    return operate_one(x, mlx_abs);
}
static PyObject *positive(PyObject *x) {
    return kp_new_ref(x);
}
static PyObject *invert(PyObject *x) {
    mlx_dtype d = mlx_array_dtype(kp_handle(x));
    if (d >= MLX_FLOAT16) {
        PyErr_SetString(PyExc_ValueError, "~ takes integers and bools, not floating point numbers");
        return NULL;
    }
    return operate_one(x, d == MLX_BOOL ? mlx_logical_not : mlx_bitwise_invert);
}

static PyObject *compare(PyObject *x, PyObject *y, int op) {
    static binary *const with[] = {mlx_less,      mlx_less_equal, mlx_equal,
                                   mlx_not_equal, mlx_greater,    mlx_greater_equal};
    if (!kp_is_array(y) && !kp_is_operand(y)) {
        if (op == Py_EQ || op == Py_NE) return kp_new_ref(op == Py_NE ? Py_True : Py_False);
        return y == Py_None ? kp_new_ref(Py_NotImplemented) : no_operand(y, "a comparison");
    }
    return operate(x, y, with[op], 0, "a comparison");
}

static Py_hash_t hash(PyObject *o) { /* identity: == makes an array */
    size_t p = (size_t)o;
    Py_hash_t h = (Py_hash_t)(p >> 4 | p << (8 * sizeof p - 4));
    return h == -1 ? -2 : h;
}

/* ---- numbers ---- */
static int truth(PyObject *o) {
    PyObject *item = kp_item(kp_handle(o));
    int out = item ? PyObject_IsTrue(item) : -1;
    Py_XDECREF(item);
    return out;
}
static PyObject *as_int(PyObject *o) {
    PyObject *item = kp_item(kp_handle(o));
    PyObject *out = item ? PyNumber_Long(item) : NULL;
    Py_XDECREF(item);
    return out;
}
static PyObject *as_float(PyObject *o) {
    PyObject *item = kp_item(kp_handle(o));
    PyObject *out = item ? PyNumber_Float(item) : NULL;
    Py_XDECREF(item);
    return out;
}
static PyObject *as_index(PyObject *o) {
    mlx_dtype d = mlx_array_dtype(kp_handle(o));
    if (d > MLX_INT64 || d == MLX_BOOL) {
        PyErr_SetString(PyExc_TypeError, "only arrays of integers can be an index");
        return NULL;
    }
    /* NumPy's index of one axis would lose it: np.arange(6)[mx.array([2])] has the shape (1,). */
    if (mlx_array_ndim(kp_handle(o))) {
        PyErr_Format(PyExc_TypeError,
                     "only an array without axes can be an index; this one has %zu axes",
                     mlx_array_ndim(kp_handle(o)));
        return NULL;
    }
    return kp_item(kp_handle(o));
}

static Py_ssize_t length(PyObject *o) {
    mlx_array a = kp_handle(o);
    if (mlx_array_ndim(a)) return mlx_array_dim(a, 0);
    PyErr_SetString(PyExc_TypeError, "len() of an array without axes");
    return -1;
}

static PyObject *repr(PyObject *o) {
    mlx_array a;
    if (kp_read(&a, kp_handle(o))) return NULL;
    PyObject *out;
    if (kp_prints_otherwise(mlx_array_dtype(a))) {
        out = kp_print(a);
    } else {
        mlx_string text = mlx_string_new();
        int rc = mlx_array_tostring(&text, a);
        out = rc ? kp_raise() : PyUnicode_FromString(mlx_string_data(text));
        mlx_string_free(text);
    }
    mlx_array_free(a);
    return out;
}

/* ---- facts ---- */
PyObject *kp_shape_tuple(const int *shape, size_t n) {
    PyObject *out = PyTuple_New((Py_ssize_t)n);
    for (size_t i = 0; out && i < n; i++) {
        PyObject *v = PyLong_FromLong(shape[i]);
        if (!v || PyTuple_SetItem(out, (Py_ssize_t)i, v)) Py_CLEAR(out);
    }
    return out;
}
/* In a trace for any shapes the tuple notes which extents are read: class _Shape of Python. */
static PyObject *noting_shape;
static PyObject *set_noting_shape(PyObject *m, PyObject *type) {
    (void)m;
    PyObject *before = noting_shape;
    noting_shape = kp_new_ref(type);
    Py_XDECREF(before);
    return kp_new_ref(Py_None);
}
static PyObject *unread_shape(PyObject *m, PyObject *o) {
    (void)m;
    if (!kp_is_array(o)) {
        PyErr_SetString(PyExc_TypeError, "an array has a shape");
        return NULL;
    }
    return kp_shape_tuple(keel_array_shape_unread(kp_handle(o)), mlx_array_ndim(kp_handle(o)));
}
static PyObject *is_shapeless(PyObject *m, PyObject *o) {
    (void)m;
    return kp_new_ref(kp_is_array(o) && keel_array_is_shapeless(kp_handle(o)) ? Py_True : Py_False);
}
static PyObject *read_extent(PyObject *m, PyObject *args) {
    (void)m;
    PyObject *o;
    int axis;
    if (!PyArg_ParseTuple(args, "Oi", &o, &axis)) return NULL;
    if (kp_is_array(o)) (void)mlx_array_dim(kp_handle(o), axis);
    return kp_new_ref(Py_None);
}
static PyMethodDef shape_functions[] = {
    {"_set_noting_shape", set_noting_shape, METH_O, "The class of shapes that note what is read."},
    {"_unread_shape", unread_shape, METH_O, "The shape of an array, of which nothing is noted."},
    {"_is_shapeless", is_shapeless, METH_O, "Whether a replay may have other extents."},
    {"_read_extent", read_extent, METH_VARARGS, "Notes that an extent was read: (array, axis)."},
    {0},
};
static PyObject *get_shape(PyObject *o, void *x) {
    (void)x;
    mlx_array a = kp_handle(o);
    PyObject *plain = kp_shape_tuple(keel_array_shape_unread(a), mlx_array_ndim(a));
    if (!plain || !noting_shape || !keel_array_is_shapeless(a)) return plain;
    PyObject *out = PyObject_CallFunctionObjArgs(noting_shape, plain, o, NULL);
    Py_DECREF(plain);
    return out;
}
static PyObject *get_dtype(PyObject *o, void *x) {
    (void)x;
    return kp_new_ref(kp_dtypes[mlx_array_dtype(kp_handle(o))]);
}
static PyObject *get_size(PyObject *o, void *x) {
    (void)x;
    return PyLong_FromSize_t(mlx_array_size(kp_handle(o)));
}
static PyObject *get_ndim(PyObject *o, void *x) {
    (void)x;
    return PyLong_FromSize_t(mlx_array_ndim(kp_handle(o)));
}
static PyObject *get_itemsize(PyObject *o, void *x) {
    (void)x;
    return PyLong_FromSize_t(mlx_array_itemsize(kp_handle(o)));
}
static PyObject *get_nbytes(PyObject *o, void *x) {
    (void)x;
    return PyLong_FromSize_t(mlx_array_nbytes(kp_handle(o)));
}
static PyObject *get_T(PyObject *o, void *x) {
    (void)x;
    return operate_one(o, mlx_transpose);
}
static PyObject *get_mT(PyObject *o, void *x) {
    (void)x;
    mlx_array a = kp_handle(o), out = mlx_array_new();
    mlx_stream s;
    if (mlx_array_ndim(a) < 2) {
        PyErr_SetString(PyExc_ValueError, "mT takes arrays of two axes or more");
        return NULL;
    }
    return kp_default_stream(&s) ? NULL : kp_done(mlx_swapaxes(&out, a, -2, -1, s), out);
}
static PyObject *get_real(PyObject *o, void *x) {
    (void)x;
    return operate_one(o, mlx_real);
}
static PyObject *get_imag(PyObject *o, void *x) {
    (void)x;
    return operate_one(o, mlx_imag);
}

static PyGetSetDef facts[] = {
    {"shape", get_shape, NULL, "The extents of the axes, as a tuple of ints.", NULL},
    {"dtype", get_dtype, NULL, "The dtype of the elements.", NULL},
    {"size", get_size, NULL, "The number of elements.", NULL},
    {"ndim", get_ndim, NULL, "The number of axes.", NULL},
    {"itemsize", get_itemsize, NULL, "The bytes of one element.", NULL},
    {"nbytes", get_nbytes, NULL, "The bytes of all elements.", NULL},
    {"T", get_T, NULL, "The array with its axes in reverse order.", NULL},
    {"mT", get_mT, NULL, "The array with its last two axes exchanged.", NULL},
    {"real", get_real, NULL, "The real parts.", NULL},
    {"imag", get_imag, NULL, "The imaginary parts.", NULL},
    {"at", kp_at, NULL, "a.at[key].add(value): the array with value added at the key; see ArrayAt.",
     NULL},
    {0},
};
static PyMemberDef members[] = {
    {"__weaklistoffset__", T_PYSSIZET, offsetof(struct kp_array, weak), READONLY, NULL},
    {0},
};

static PyType_Slot slots[] = {
    {Py_tp_new, new_array},
    {Py_tp_init, init_array},
    {Py_tp_dealloc, dealloc},
    {Py_tp_repr, repr},
    {Py_tp_str, repr},
    {Py_tp_hash, hash},
    {Py_tp_richcompare, compare},
    {Py_tp_getset, facts},
    {Py_tp_members, members},
    {Py_tp_methods, kp_array_methods},
    {Py_nb_add, add},
    {Py_nb_inplace_add, iadd},
    {Py_nb_subtract, subtract},
    {Py_nb_inplace_subtract, isubtract},
    {Py_nb_multiply, multiply},
    {Py_nb_inplace_multiply, imultiply},
    {Py_nb_true_divide, true_divide},
    {Py_nb_inplace_true_divide, itrue_divide},
    {Py_nb_floor_divide, floor_divide},
    {Py_nb_inplace_floor_divide, ifloor_divide},
    {Py_nb_remainder, modulo},
    {Py_nb_inplace_remainder, imodulo},
    {Py_nb_divmod, division},
    {Py_nb_matrix_multiply, matmul},
    {Py_nb_inplace_matrix_multiply, imatmul},
    {Py_nb_power, power},
    {Py_nb_inplace_power, ipower},
    {Py_nb_negative, negative},
    {Py_nb_positive, positive},
    {Py_nb_absolute, absolute},
    {Py_nb_invert, invert},
    {Py_nb_lshift, left_shift},
    {Py_nb_inplace_lshift, ileft_shift},
    {Py_nb_rshift, right_shift},
    {Py_nb_inplace_rshift, iright_shift},
    {Py_nb_and, bit_and},
    {Py_nb_inplace_and, ibit_and},
    {Py_nb_or, bit_or},
    {Py_nb_inplace_or, ibit_or},
    {Py_nb_xor, bit_xor},
    {Py_nb_inplace_xor, ibit_xor},
    {Py_nb_bool, truth},
    {Py_nb_int, as_int},
    {Py_nb_float, as_float},
    {Py_nb_index, as_index},
    {Py_tp_iter, kp_iter},
    {Py_mp_length, length},
    {Py_sq_length, length},
    {Py_sq_item, kp_sequence_item},
    {Py_mp_subscript, kp_getitem},
    {Py_mp_ass_subscript, kp_setitem},
    {Py_bf_getbuffer, kp_getbuffer},
    {Py_bf_releasebuffer, kp_releasebuffer},
    {Py_tp_doc,
     "array(val, dtype=None)\n--\n\n"
     "An array of one dtype: lazy, computed when a value is read.\n\n"
     "val: a number, nested lists or tuples of numbers and arrays, an object with a\n"
     "buffer, DLPack or __array__. Python's ints become int32 (int64 where they are\n"
     "larger), floats float32, complex numbers complex64; other arrays keep their\n"
     "dtype, but float64 becomes float32. dtype: the dtype wanted instead.\n\n"
     "Raises ValueError for lists that are not of one length at each level, OverflowError\n"
     "for an integer of more than 64 bits.\n\n"
     "Example:\n"
     "    >>> mx.array([[1, 2], [3, 4]])\n"
     "    array([[1, 2],\n"
     "           [3, 4]], dtype=int32)\n"},
    {0, NULL},
};
static PyType_Spec spec = {"keel.core.array", sizeof(struct kp_array), 0,
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, slots};

int kp_add_array(PyObject *m);
int kp_add_array(PyObject *m) {
    PyObject *type = PyType_FromSpec(&spec);
    if (!type) return -1;
    kp_array_type = (PyTypeObject *)type;
    alloc = (allocfunc)PyType_GetSlot(kp_array_type, Py_tp_alloc);
    dealloc_memory = (freefunc)PyType_GetSlot(kp_array_type, Py_tp_free);
    return PyModule_AddFunctions(m, shape_functions) || PyModule_AddObjectRef(m, "array", type) ? -1
                                                                                                : 0;
}
