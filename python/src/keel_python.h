/* keel_python.h - what the files of the extension share.
 *
 * A Python call goes through three steps: the entry that rows.py made from the type stubs hands the
 * arguments to kp_call, which converts them by the row of the function; the implementation, marked
 * with KP_FUNCTION, calls the C API; kp_done makes a Python array of the result, or raises what the
 * library reported. All of it runs with the GIL held; what may wait lets it go (KP_UNLOCKED). */
#ifndef KEEL_PYTHON_H
#define KEEL_PYTHON_H

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#include <Python.h>
#include <structmember.h>

#include <stdbool.h>
#include <stdint.h>

#include "keel/array.h"
#include "keel/error.h"
#include "keel/function.h"
#include "keel/wait.h"
#include "mlx/c/mlx.h"

/* ---- objects ---- */
struct kp_array {
    PyObject_HEAD mlx_array
        a; /* the handle lives as long as the object; assignments change what it names */
    PyObject *weak;
    unsigned assigned; /* how often another value was assigned to it */
    bool front;        /* made by a[key] with the axes of index arrays first; see kp_write_at */
};
enum {
#define KL_DTYPE(ID, ...) KP_DTYPE_##ID,
#include "dtype.def"
    KP_N_DTYPES
};
struct kp_dtype {
    PyObject_HEAD mlx_dtype dtype;
};
struct kp_device {
    PyObject_HEAD mlx_device_type type;
    int index;
};
struct kp_stream {
    PyObject_HEAD mlx_stream s;
    bool per_thread; /* a ThreadLocalStream: s is empty, the thread's own stream is made on use */
    int number;
    mlx_device_type type;
    int index;
};

extern PyTypeObject *kp_array_type, *kp_dtype_type, *kp_device_type, *kp_stream_type,
    *kp_local_stream_type;
extern PyObject *kp_dtypes[KP_N_DTYPES]; /* one object of each dtype */

static inline bool kp_is_array(PyObject *o) {
    return Py_TYPE(o) == kp_array_type || PyType_IsSubtype(Py_TYPE(o), kp_array_type);
}
static inline mlx_array kp_handle(PyObject *o) {
    return ((struct kp_array *)o)->a;
}
/* A new Python array that owns the handle; frees the handle when there is no memory. */
PyObject *kp_wrap(mlx_array a);
/* A list or tuple of arrays that takes what is in the vector, which it frees. */
PyObject *kp_wrap_list(mlx_vector_array v);
PyObject *kp_wrap_tuple(mlx_vector_array v);

/* ---- parameters ---- */
enum kp_kind {
    K_OBJECT,
    K_ARRAY,  /* array, borrowed or made of what Python has */
    K_SCALAR, /* the object as it is: scalars take the dtype of the other operand */
    K_INT,    /* an int32, as the C API takes it */
    K_UINT64, /* 0 to 2^64 - 1, in .i modulo 2^64 */
    K_INTS,   /* int or a sequence of ints; .one tells which */
    K_FLOAT,
    K_BOOL,
    K_STRING,
    K_DTYPE,
    K_STREAM,
    K_ARRAYS /* a sequence of arrays, as a vector */
};
enum kp_how { H_POSITIONAL, H_EITHER, H_KEYWORD, H_REST, H_HIDDEN };

struct kp_value {
    bool given; /* false: left out, or None */
    bool one;   /* K_INTS: a single int */
    union {
        int64_t i; /* K_INT, K_UINT64, K_BOOL, K_DTYPE */
        double f;
        const char *str;
        mlx_array array;
        mlx_vector_array arrays;
        struct {
            int *at;
            size_t n;
        } ints;
    };
    PyObject *object; /* borrowed */
};
struct kp_parameter {
    const char *name;
    uint8_t kind, how, slot;
    bool required, none;
    struct kp_value value; /* when it is left out */
    PyObject *interned;
};
struct kp_row {
    const char *name;
    struct kp_parameter *parameters;
    int n, n_positional, rest, n_slots;
    bool no_stream; /* the call needs no default stream, see KP_DEVICE_FUNCTION */
};

/* An int32 of an int, or of anything with __index__. A number beyond int32 raises TypeError, as in
 * MLX; `what` names it: "eye(): argument 'n'". */
int kp_int32(const char *what, PyObject *o, int *out);

#define KP_MAX_PARAMETERS 20
#define KP_MAX_INTS 160
struct kp_call {
    const struct kp_row *row;
    PyObject *self; /* the module, or the array whose method is called */
    struct kp_value v[KP_MAX_PARAMETERS];
    mlx_stream stream;     /* borrowed: the stream given, or the thread's default one */
    PyObject *const *rest; /* of a function with *args */
    Py_ssize_t n_rest;
    Py_ssize_t n_unnamed; /* arguments given by their place */
    int n_ints, n_owned, n_vectors;
    int ints[KP_MAX_INTS];
    mlx_array owned[KP_MAX_PARAMETERS]; /* made for this call */
    mlx_vector_array vectors[4];
};

struct kp_alias {
    const char *module, *name, *of;
};
struct kp_text {
    const char *module, *name, *text;
};
extern const struct kp_text kp_texts[]; /* docstrings of what is made in Python */
extern struct kp_row *const kp_rows[];
extern const struct kp_alias kp_aliases[];
extern PyMethodDef kp_core_methods[], kp_fast_methods[], kp_fft_methods[], kp_linalg_methods[],
    kp_random_methods[], kp_array_methods[];

PyObject *kp_call(const struct kp_row *row, PyObject *(*run)(struct kp_call *c), PyObject *self,
                  PyObject *const *args, Py_ssize_t n, PyObject *names);
int kp_intern_names(void);
/* The arrays of *args, or of the one list that stands there. -1: an exception is set. *out belongs
 * to the call. */
int kp_rest_arrays(struct kp_call *c, mlx_vector_array *out);

/* KP_FUNCTION(module, name) { ... }: the implementation of a function of the stubs. rows.py looks
 * for this line. It is not needed where the C function of that name takes what the stub takes: then
 * rows.py writes the implementation. */
#define KP_FUNCTION(module, name)                      \
    PyObject *kp_##module##_##name(struct kp_call *c); \
    PyObject *kp_##module##_##name(struct kp_call *c)

/* The same for a function about devices: it is called without a default stream, since looking that
 * up chooses the default device. */
#define KP_DEVICE_FUNCTION(module, name) KP_FUNCTION(module, name)

/* The result of a call of the C API: an array, or the exception that its error becomes. */
PyObject *kp_done(int rc, mlx_array out);
PyObject *kp_done_list(int rc, mlx_vector_array out);
PyObject *kp_done_tuple(int rc, mlx_vector_array out);
PyObject *kp_done_none(int rc);

/* The array of a parameter that may be left out; empty when it was. */
static inline mlx_array kp_optional_array(const struct kp_value *v) {
    return v->given ? v->array : mlx_array_empty;
}
static inline mlx_dtype kp_dtype_or(const struct kp_value *v, mlx_dtype other) {
    return v->given ? (mlx_dtype)v->i : other;
}

/* ---- values ---- */
/* An array of what Python has: a number, nested lists, an object with a buffer, DLPack or
 * __array__. *dtype, when given, decides; *weak: a scalar takes that dtype if it can hold it. */
int kp_to_array(mlx_array *out, PyObject *o, const mlx_dtype *dtype, const mlx_dtype *weak);
enum { KP_MAX_NESTING = 32 }; /* of lists, and axes of a buffer */
/* a converted to `to`, now and on the CPU: what Python's values become is a constant, also when it
 * is made while a function is traced, and no device's work is waited for. */
int kp_constant(mlx_array *out, mlx_array a, mlx_dtype to);
/* An array of an object with a buffer; -1 with an exception when it has none. */
/* Makes an array of a list of Python's own floats or ints, in float32 or int32. Returns 1, 0 where
 * the list has something else or another dtype is wanted, or -1 with an exception. */
int kp_quick_list(mlx_array *out, PyObject *o, const mlx_dtype *dtype);
int kp_buffer_to_array(mlx_array *out, PyObject *o, const mlx_dtype *dtype);
/* Numbers of others, as a buffer or DLPack has them, are checked before they are believed.
 * kp_count: the number of elements; false where an extent is negative or the bytes do not fit into
 * memory. kp_extents: the extents as the C API takes them; -1 with an exception where one is
 * negative or beyond int32. */
bool kp_count(const int64_t *extents, int ndim, size_t itemsize, size_t *n);
int kp_extents(int *shape, const int64_t *extents, int ndim);
/* Whether bools are bytes of 0 and 1, which kernels take for granted; making them so. */
bool kp_bools_are_plain(const char *data, size_t n);
void kp_normalise_bools(char *data, size_t n);
/* Whether operators take the object: everything else makes them answer NotImplemented. */
bool kp_is_operand(PyObject *o);
/* Operands of a binary operation from two slots of kind K_SCALAR: a Python scalar takes the dtype
 * of the other operand. The handles live as long as the call. */
int kp_pair(struct kp_call *c, int i, int j, mlx_array *a, mlx_array *b);
int kp_one(struct kp_call *c, int i, mlx_array *a);
/* Keeps a handle until the call ends. */
void kp_own(struct kp_call *c, mlx_array a);
int kp_pair_of(PyObject *x, PyObject *y, mlx_array *a, mlx_array *b, mlx_array owned[2]);

/* ---- streams ---- */
/* The stream for an object of kind StreamOrDevice; NULL or None: the thread's default one. */
int kp_stream(mlx_stream *out, PyObject *o);
int kp_default_stream(mlx_stream *out);
void kp_defaults_changed(void); /* cached default streams are looked up again */

/* ---- errors ---- */
/* Raises the last error of the library as the exception that fits its code. Returns NULL. */
PyObject *kp_raise(void);
int kp_check(int rc); /* -1 with an exception when rc is not 0 */
/* Raises the IndexError of an index of Python that is out of range. Returns NULL. */
PyObject *kp_raise_index(int64_t index, int axis, int axis_size);
/* The same for an axis that is out of range. */
PyObject *kp_raise_axis(const char *function, int axis, int ndim);

/* ---- waiting ---- */
struct kp_unlocked {
    PyThreadState *thread;
    keel_wait_hook before;
};
struct kp_unlocked kp_unlock(void);
void kp_lock(struct kp_unlocked u);
/* Runs it without the GIL. A wait in it fails with KEEL_EINTERRUPTED when a signal handler
 * raises. */
#define KP_UNLOCKED(statement)                      \
    do {                                            \
        struct kp_unlocked _unlocked = kp_unlock(); \
        statement;                                  \
        kp_lock(_unlocked);                         \
    } while (0)
/* Raises what the handler of a signal has raised in a wait; false: nothing. */
bool kp_raise_signal(void);
/* Evaluates and waits without the GIL. */
int kp_eval(mlx_array a);
int kp_eval_vector(mlx_vector_array v);
/* *own = a handle of its own on the value that the array has now, evaluated by kp_read. Whoever
 * calls Python code or lets the GIL go between two looks at an array holds its value so: the object
 * may be assigned to meanwhile, and its shape and memory with it. 0, or -1 with an exception, when
 * *own is empty; the caller frees it. */
int kp_hold(mlx_array *own, mlx_array a);
int kp_read(mlx_array *own, mlx_array a);

/* ---- parts of the array type that stand in other files ---- */
PyObject *kp_getitem(PyObject *self, PyObject *key);
int kp_setitem(PyObject *self, PyObject *key, PyObject *value);
PyObject *kp_sequence_item(PyObject *self, Py_ssize_t i); /* for reversed() */
PyObject *kp_iter(PyObject *self);
PyObject *kp_at(PyObject *self, void *unused);
/* x += y where x is an array of NumPy, for the slot of x's type that does it: x, with the result in
 * it. NULL without an exception: it is something else that is computed, as x + y. */
PyObject *kp_in_place_of_numpy(PyObject *x, PyObject *y, int slot);
/* A tuple of ints, as `shape` gives it. */
PyObject *kp_shape_tuple(const int *shape, size_t n);
PyObject *kp_item(mlx_array a);
/* The memory of an evaluated array, and the element at a place of it as a Python object. */
const char *kp_data(mlx_array a);
PyObject *kp_element(const char *p, mlx_dtype dtype);
/* The text of an evaluated array with the precision that the thread has chosen. */
bool kp_prints_otherwise(mlx_dtype dtype);
PyObject *kp_print(mlx_array a);
PyObject *kp_tolist(mlx_array a);
int kp_getbuffer(PyObject *self, Py_buffer *view, int flags);
void kp_releasebuffer(PyObject *self, Py_buffer *view);

/* ---- modules ---- */
int kp_add_types(PyObject *m);
int kp_add_transforms(PyObject *m);
int kp_add_memory(PyObject *m);
int kp_add_print(PyObject *m);
int kp_add_kernels(PyObject *m);
int kp_add_distributed(PyObject *m);
int kp_add_interchange(PyObject *m);
int kp_add_files(PyObject *m);
int kp_add_exported(PyObject *m);
/* Tables of arrays by name, from and into dicts. */
int kp_map_of(mlx_map_string_to_array *out, PyObject *dict);
PyObject *kp_dict_of(mlx_map_string_to_array map);
/* Fills *out, which is empty or live, with the arrays of a sequence. */
int kp_fill_vector(mlx_vector_array *out, PyObject *sequence);
int kp_vector_of(mlx_vector_array *out, PyObject *sequence);
int kp_closure_of(mlx_closure *out, PyObject *fun);
PyObject *kp_list_of(const mlx_vector_array v);
/* Objects whose last use may end on a thread of the library: the next holder of the GIL frees
 * them. */
void *kp_keep(PyObject *o);
PyObject *kp_kept(void *payload);
void kp_drop_later(void *payload);
int kp_add_index(PyObject *m);

static inline PyObject *kp_new_ref(PyObject *o) {
    Py_INCREF(o);
    return o;
}

#endif
