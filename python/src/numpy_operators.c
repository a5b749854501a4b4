/* numpy_operators.c - operators with an array of NumPy on the left
 *
 * Arrays have __array_priority__, so NumPy leaves x * a to us, and x *= a too: Python then asks for
 * the same product. x *= a is NumPy's all the same, whose array it changes. */
#include "keel_python.h"

enum { BINARY_OP_IN_PLACE = 13, BINARY_OP_SUBSCRIPT = 26 }; /* += ... ^= of CPython's BINARY_OP */

/* A number of the module opcode, or an attribute of a frame; -1 where it is not there. */
static long number_of(PyObject *o, const char *name) {
    PyObject *value = o ? PyObject_GetAttrString(o, name) : NULL;
    long out = value ? PyLong_AsLong(value) : -1;
    Py_XDECREF(value);
    PyErr_Clear();
    return out;
}

static int binary_op(void) {
    static int code; /* guarded by the GIL */
    if (code) return code;
    PyObject *module = PyImport_ImportModule("opcode");
    PyObject *map = module ? PyObject_GetAttrString(module, "opmap") : NULL;
    PyObject *value = map ? PyMapping_GetItemString(map, "BINARY_OP") : NULL;
    code = value ? (int)PyLong_AsLong(value) : -1;
    Py_XDECREF(module);
    Py_XDECREF(map);
    Py_XDECREF(value);
    PyErr_Clear();
    return code;
}

/* Whether the instruction that the program is at is an operator in place. A call is none: what
 * operator.iadd asks for cannot be told from a sum. */
static bool at_in_place(void) {
    PyObject *frame = (PyObject *)PyEval_GetFrame(); /* borrowed */
    PyObject *code = frame ? PyObject_GetAttrString(frame, "f_code") : NULL;
    PyObject *bytes = code ? PyObject_GetAttrString(code, "co_code") : NULL;
    long at = number_of(frame, "f_lasti");
    char *text;
    Py_ssize_t n;
    bool is = false;
    if (bytes && at >= 0 && !PyBytes_AsStringAndSize(bytes, &text, &n) && at + 1 < n)
        is = (unsigned char)text[at] == binary_op() && text[at + 1] >= BINARY_OP_IN_PLACE &&
             text[at + 1] < BINARY_OP_SUBSCRIPT;
    Py_XDECREF(code);
    Py_XDECREF(bytes);
    PyErr_Clear();
    return is;
}

static PyObject *in_place_power(PyObject *x, PyObject *y) {
    return PyNumber_InPlacePower(x, y, Py_None);
}

/* The function of Python's C API that calls a slot of a type. */
static PyObject *(*in_place_of(int slot))(PyObject *, PyObject *) {
    switch (slot) {
    case Py_nb_inplace_add: return PyNumber_InPlaceAdd;
    case Py_nb_inplace_subtract: return PyNumber_InPlaceSubtract;
    case Py_nb_inplace_multiply: return PyNumber_InPlaceMultiply;
    case Py_nb_inplace_true_divide: return PyNumber_InPlaceTrueDivide;
    case Py_nb_inplace_floor_divide: return PyNumber_InPlaceFloorDivide;
    case Py_nb_inplace_remainder: return PyNumber_InPlaceRemainder;
    case Py_nb_inplace_matrix_multiply: return PyNumber_InPlaceMatrixMultiply;
    case Py_nb_inplace_power: return in_place_power;
    case Py_nb_inplace_lshift: return PyNumber_InPlaceLshift;
    case Py_nb_inplace_rshift: return PyNumber_InPlaceRshift;
    case Py_nb_inplace_and: return PyNumber_InPlaceAnd;
    case Py_nb_inplace_or: return PyNumber_InPlaceOr;
    default: return PyNumber_InPlaceXor;
    }
}

PyObject *kp_in_place_of_numpy(PyObject *x, PyObject *y, int slot) {
    if (kp_is_array(x) || !kp_is_array(y) || !PyType_GetSlot(Py_TYPE(x), slot) ||
        !PyObject_HasAttrString(x, "__array_interface__") || !at_in_place())
        return NULL;
    PyObject *elements = PyObject_CallMethod(y, "__array__", NULL);
    PyObject *out = elements ? in_place_of(slot)(x, elements) : NULL;
    Py_XDECREF(elements);
    return out;
}
