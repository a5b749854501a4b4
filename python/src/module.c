/* module.c - the extension module keel._core: everything of keel.core that is made in C */
#include "keel_python.h"

#include <string.h>

#include "keel_rows.h"

extern PyMethodDef kp_random_state_methods[];
int kp_add_array(PyObject *m);
int kp_add_errors(PyObject *m);

static PyObject *submodule(PyObject *m, const char *name, PyMethodDef *methods) {
    PyObject *full = PyUnicode_FromFormat("keel._core.%s", name);
    PyObject *sub = full ? PyModule_NewObject(full) : NULL;
    Py_XDECREF(full);
    if (!sub || PyModule_AddFunctions(sub, methods) || PyModule_AddObjectRef(m, name, sub))
        Py_CLEAR(sub);
    return sub;
}

static int add_aliases(PyObject *m) {
    for (const struct kp_alias *a = kp_aliases; a->name; a++) {
        if (strcmp(a->module, "core")) continue; /* only keel.core has other names for functions */
        PyObject *in = kp_new_ref(m);
        PyObject *value = in ? PyObject_GetAttrString(in, a->of) : NULL;
        int rc = value ? PyObject_SetAttrString(in, a->name, value) : -1;
        Py_XDECREF(value);
        Py_XDECREF(in);
        if (rc) return -1;
    }
    return 0;
}

static PyObject *texts(PyObject *m, PyObject *none) {
    (void)m;
    (void)none;
    PyObject *list = PyList_New(0);
    for (const struct kp_text *t = kp_texts; list && t->name; t++) {
        PyObject *row = Py_BuildValue("(sss)", t->module, t->name, t->text);
        if (!row || PyList_Append(list, row)) Py_CLEAR(list);
        Py_XDECREF(row);
    }
    return list;
}
/* The types and the cached streams are those of one interpreter. */
static PyObject *check_interpreter(PyObject *m, PyObject *none) {
    (void)m;
    (void)none;
    if (!PyInterpreterState_GetID(PyInterpreterState_Get())) return kp_new_ref(Py_None);
    PyErr_SetString(PyExc_ImportError,
                    "keel.core works in the main interpreter only, not in sub-interpreters");
    return NULL;
}
static PyMethodDef functions[] = {
    {"_check_interpreter", check_interpreter, METH_NOARGS,
     "Raises ImportError in a sub-interpreter."},
    {"_texts", texts, METH_NOARGS,
     "The docstrings of what is made in Python: (module, name, text)."},
    {0},
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT,
                                        "keel._core",
                                        "The part of keel.core that is made in C.",
                                        -1,
                                        NULL,
                                        NULL,
                                        NULL,
                                        NULL,
                                        NULL};

PyMODINIT_FUNC PyInit__core(void);
PyMODINIT_FUNC PyInit__core(void) {
    keel_errors_return();
    PyObject *m = PyModule_Create(&definition);
    if (!m) return NULL;
    PyObject *random = NULL, *fast = NULL, *fft = NULL, *linalg = NULL;
    if (kp_intern_names() || PyModule_AddFunctions(m, functions) || kp_add_errors(m) ||
        kp_add_types(m) || kp_add_array(m) || PyModule_AddFunctions(m, kp_core_methods) ||
        PyModule_AddFunctions(m, kp_random_state_methods) ||
        !(random = submodule(m, "_random", kp_random_methods)) ||
        !(fast = submodule(m, "_fast", kp_fast_methods)) ||
        !(fft = submodule(m, "_fft", kp_fft_methods)) ||
        !(linalg = submodule(m, "_linalg", kp_linalg_methods)) || add_aliases(m) ||
        kp_add_transforms(m) || kp_add_index(m) || kp_add_memory(m) || kp_add_files(m) ||
        kp_add_exported(m) || kp_add_print(m) || kp_add_kernels(m) || kp_add_distributed(m) ||
        kp_add_interchange(m))
        Py_CLEAR(m);
    Py_XDECREF(random);
    Py_XDECREF(fast);
    Py_XDECREF(fft);
    Py_XDECREF(linalg);
    return m;
}
