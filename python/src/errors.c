/* errors.c - errors of the library as Python exceptions that carry all their fields */
#include "keel_python.h"

#include <string.h>

/* An axis out of range is an IndexError for some functions of MLX and a ValueError for others: this
 * class is both, as NumPy's AxisError is. */
static PyObject *axis_error;
/* An extent, or a number of elements, beyond what is possible: a ValueError for the one that knows
 * the library, an OverflowError for programs of MLX. */
static PyObject *limit_error;

static PyObject *class_of(int code) {
    switch (code) {
    case KEEL_EAXIS: return axis_error;
    case KEEL_ELIMIT: return limit_error;
    case KEEL_EINDEX: return PyExc_IndexError;
    case KEEL_ENOMEM: return PyExc_MemoryError;
    case KEEL_EARG:
    case KEEL_ESHAPE:
    case KEEL_EDTYPE:
    case KEEL_EDEVICE: /* there is no such device, as in MLX */
    case KEEL_EUNSUPPORTED:
    case KEEL_ETRACE: return PyExc_ValueError;
    default: return PyExc_RuntimeError;
    }
}

static void set_text(PyObject *e, const char *name, const char *text) {
    PyObject *value = text ? PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace")
                           : kp_new_ref(Py_None);
    if (!value || PyObject_SetAttrString(e, name, value)) PyErr_Clear();
    Py_XDECREF(value);
}

static void set_number(PyObject *e, const char *name, bool has, int64_t number) {
    PyObject *value = has ? PyLong_FromLongLong(number) : kp_new_ref(Py_None);
    if (!value || PyObject_SetAttrString(e, name, value)) PyErr_Clear();
    Py_XDECREF(value);
}

static PyObject *raise(keel_error_info info) {
    PyObject *e = PyObject_CallFunction(class_of(info.code), "s", info.message);
    if (!e) return NULL;
    set_text(e, "code", keel_code_name(info.code));
    set_text(e, "operation", info.operation);
    set_text(e, "tensor", info.tensor);
    set_text(e, "file", info.file);
    set_number(e, "index", info.has & KEEL_HAS_INDEX, info.index);
    set_number(e, "axis", info.has & KEEL_HAS_AXIS, info.axis);
    set_number(e, "axis_size", info.has & KEEL_HAS_SIZE, info.axis_size);
    set_number(e, "position", info.has & KEEL_HAS_POSITION, info.position);
    PyObject *bytes = info.has & KEEL_HAS_BYTES ? Py_BuildValue("(LL)", (long long)info.byte_begin,
                                                                (long long)info.byte_end)
                                                : kp_new_ref(Py_None);
    if (!bytes || PyObject_SetAttrString(e, "bytes", bytes)) PyErr_Clear();
    Py_XDECREF(bytes);
    PyErr_SetObject((PyObject *)Py_TYPE(e), e);
    Py_DECREF(e);
    return NULL;
}

PyObject *kp_raise(void) {
    keel_error_info info = {.size = sizeof info};
    if (PyErr_Occurred()) return NULL; /* a callback's own exception is the cause */
    if (!keel_last_error(&info)) {
        if (info.code == KEEL_EINTERRUPTED && kp_raise_signal()) return NULL;
        return raise(info);
    }
    PyErr_SetString(PyExc_RuntimeError, "the library failed without an error");
    return NULL;
}

PyObject *kp_raise_index(int64_t index, int axis, int axis_size) {
    char message[120];
    PyOS_snprintf(message, sizeof message, "index %lld is out of range for axis %d of %d elements",
                  (long long)index, axis, axis_size);
    return raise((keel_error_info){.code = KEEL_EINDEX,
                                   .has = KEEL_HAS_INDEX | KEEL_HAS_AXIS | KEEL_HAS_SIZE,
                                   .operation = "index",
                                   .message = message,
                                   .index = index,
                                   .axis = axis,
                                   .axis_size = axis_size});
}

PyObject *kp_raise_axis(const char *function, int axis, int ndim) {
    char message[160];
    PyOS_snprintf(message, sizeof message, "%s(): axis %d is out of range for an array of %d axes",
                  function, axis, ndim);
    return raise((keel_error_info){
        .code = KEEL_EAXIS, .has = KEEL_HAS_AXIS, .message = message, .axis = axis});
}

/* _axis_error(function, axis, ndim): raises the AxisError of a function that is made in Python. */
static PyObject *raise_axis(PyObject *m, PyObject *args) {
    const char *function;
    int axis, ndim;
    (void)m;
    if (!PyArg_ParseTuple(args, "sii", &function, &axis, &ndim)) return NULL;
    return kp_raise_axis(function, axis, ndim);
}
static PyMethodDef functions[] = {
    {"_axis_error", raise_axis, METH_VARARGS, "Raises AxisError for an axis out of range."},
    {0},
};

int kp_check(int rc) {
    if (rc) kp_raise();
    return rc ? -1 : 0;
}

/* A class that is a ValueError and another one; the attributes are of what Python raises itself. */
static PyObject *add_class(PyObject *m, const char *name, const char *text, const char *code,
                           PyObject *other) {
    PyObject *bases = PyTuple_Pack(2, PyExc_ValueError, other), *made = NULL;
    PyObject *own =
        Py_BuildValue("{ss,sO,sO,sO,sO,sO,sO,sO,sO}", "code", code, "operation", Py_None, "tensor",
                      Py_None, "file", Py_None, "index", Py_None, "axis", Py_None, "axis_size",
                      Py_None, "position", Py_None, "bytes", Py_None);
    if (bases && own) made = PyErr_NewExceptionWithDoc(name, text, bases, own);
    Py_XDECREF(bases);
    Py_XDECREF(own);
    if (made && PyModule_AddObjectRef(m, strrchr(name, '.') + 1, made)) Py_CLEAR(made);
    return made;
}

int kp_add_errors(PyObject *m);
int kp_add_errors(PyObject *m) {
    axis_error = add_class(m, "keel.core.AxisError", "An axis is out of range, or given twice.",
                           "EAXIS", PyExc_IndexError);
    limit_error = add_class(m, "keel.core.LimitError",
                            "An extent, or another number, is larger than what is possible.",
                            "ELIMIT", PyExc_OverflowError);
    return axis_error && limit_error ? PyModule_AddFunctions(m, functions) : -1;
}
