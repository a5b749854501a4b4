/* exported.c - functions in files, and pictures of graphs */
#include "keel_python.h"

#include <stdio.h>
#include <stdlib.h>

/* fun(list, dict) -> list */
static int run_named(mlx_vector_array *out, const mlx_vector_array in,
                     const mlx_map_string_to_array named, void *payload) {
    PyGILState_STATE g = PyGILState_Ensure();
    PyObject *list = kp_list_of(in), *dict = list ? kp_dict_of(named) : NULL;
    PyObject *fun = kp_new_ref(kp_kept(payload));
    PyObject *result = dict ? PyObject_CallFunctionObjArgs(fun, list, dict, NULL) : NULL;
    int rc = result ? kp_fill_vector(out, result) : -1;
    Py_DECREF(fun);
    Py_XDECREF(list);
    Py_XDECREF(dict);
    Py_XDECREF(result);
    PyGILState_Release(g);
    return rc ? 1 : 0;
}

/* fun as a closure of a list and a dict. */
static int named_closure(mlx_closure_kwargs *cls, PyObject *fun) {
    void *kept = kp_keep(fun);
    if (!kept) return -1;
    *cls = mlx_closure_kwargs_new_func_payload(run_named, kept, kp_drop_later);
    return cls->ctx ? 0 : kp_check(1);
}

/* The arguments of a trace. */
struct traced {
    mlx_closure_kwargs cls;
    mlx_vector_array in;
    mlx_map_string_to_array map;
};
static int traced_of(struct traced *t, PyObject *fun, PyObject *arrays, PyObject *named) {
    *t = (struct traced){{NULL}, {NULL}, {NULL}};
    return kp_vector_of(&t->in, arrays) || kp_map_of(&t->map, named) || named_closure(&t->cls, fun)
               ? -1
               : 0;
}
static void traced_free(struct traced *t) {
    mlx_closure_kwargs_free(t->cls);
    mlx_vector_array_free(t->in);
    mlx_map_string_to_array_free(t->map);
}

/* _export(path, fun(list, dict) -> list, arrays, named arrays, shapeless, metadata) */
static PyObject *export(PyObject *m, PyObject *args) {
    (void)m;
    const char *path, *metadata;
    PyObject *fun, *arrays, *named;
    int shapeless, rc = 0;
    struct traced t;
    if (!PyArg_ParseTuple(args, "sOOOpz", &path, &fun, &arrays, &named, &shapeless, &metadata))
        return NULL;
    bool ready = !traced_of(&t, fun, arrays, named);
    if (ready)
        KP_UNLOCKED(rc = keel_export_function(path, t.cls, t.in, t.map, shapeless != 0, metadata));
    traced_free(&t);
    return ready ? kp_done_none(rc) : NULL;
}

/* ---- a function described ---- */

/* [(number, shape, dtype), ...] */
static PyObject *described_values(const keel_export_value *v, size_t n) {
    PyObject *list = PyList_New((Py_ssize_t)n);
    for (size_t i = 0; list && i < n; i++) {
        PyObject *one = Py_BuildValue("iNO", v[i].number, kp_shape_tuple(v[i].shape, v[i].ndim),
                                      kp_dtypes[v[i].dtype]);
        if (!one || PyList_SetItem(list, (Py_ssize_t)i, one)) Py_CLEAR(list);
    }
    return list;
}

/* Appends (kind, name, parameters, inputs, outputs, names, constant) to the list. */
static int append_event(const keel_export_event *e, void *payload) {
    PyGILState_STATE g = PyGILState_Ensure();
    PyObject *names = PyList_New(0), *event = NULL, *constant = NULL;
    int rc = names ? 0 : -1;
    for (size_t i = 0; i < e->n_names && !rc; i++) {
        PyObject *name = PyUnicode_FromString(e->names[i]);
        rc = name ? PyList_Append(names, name) : -1;
        Py_XDECREF(name);
    }
    if (!rc && e->constant.ctx) {
        mlx_array own = mlx_array_new();
        constant = kp_done(mlx_array_set(&own, e->constant), own);
        rc = constant ? 0 : -1;
    }
    if (!rc)
        event = Py_BuildValue("izzNNOO", (int)e->kind, e->name, e->parameters,
                              described_values(e->inputs, e->n_inputs),
                              described_values(e->outputs, e->n_outputs), names,
                              constant ? constant : Py_None);
    rc = event ? PyList_Append(payload, event) : -1;
    Py_XDECREF(event);
    Py_XDECREF(names);
    Py_XDECREF(constant);
    PyGILState_Release(g);
    return rc ? 1 : 0;
}

/* _describe(fun(list, dict) -> list, arrays, named arrays, shapeless) -> events */
static PyObject *describe(PyObject *m, PyObject *args) {
    (void)m;
    PyObject *fun, *arrays, *named, *list = PyList_New(0);
    int shapeless, rc = 1;
    struct traced t;
    if (!list || !PyArg_ParseTuple(args, "OOOp", &fun, &arrays, &named, &shapeless)) {
        Py_XDECREF(list);
        return NULL;
    }
    bool ready = !traced_of(&t, fun, arrays, named);
    if (ready)
        KP_UNLOCKED(
            rc = keel_export_describe(append_event, list, t.cls, t.in, t.map, shapeless != 0));
    traced_free(&t);
    if (!rc) return list;
    Py_DECREF(list);
    return ready ? kp_raise() : NULL;
}

/* ---- an exporter: several traces in one file ---- */
struct exporter {
    PyObject_HEAD mlx_function_exporter x;
    int tracing; /* calls of add that run the function; it must not be closed meanwhile */
};
static PyTypeObject *exporter_type, *imported_type;

static PyObject *new_exporter(PyObject *m, PyObject *args) {
    (void)m;
    const char *path, *metadata;
    PyObject *fun;
    int shapeless;
    mlx_closure_kwargs cls = {NULL};
    if (!PyArg_ParseTuple(args, "sOpz", &path, &fun, &shapeless, &metadata) ||
        named_closure(&cls, fun))
        return NULL;
    mlx_function_exporter x = keel_function_exporter_new(path, cls, shapeless != 0, metadata);
    mlx_closure_kwargs_free(cls);
    if (!x.ctx) return kp_raise();
    struct exporter *o = (struct exporter *)PyType_GenericAlloc(exporter_type, 0);
    if (o)
        o->x = x;
    else
        mlx_function_exporter_free(x);
    return (PyObject *)o;
}
static PyObject *exporter_add(PyObject *o, PyObject *args) {
    struct exporter *e = (struct exporter *)o;
    PyObject *arrays, *named;
    mlx_vector_array in = {NULL};
    mlx_map_string_to_array map = {NULL};
    int rc = 0;
    if (!PyArg_ParseTuple(args, "OO", &arrays, &named)) return NULL;
    if (!e->x.ctx) {
        PyErr_SetString(PyExc_RuntimeError, "the exporter is closed");
        return NULL;
    }
    bool ready = !kp_vector_of(&in, arrays) && !kp_map_of(&map, named);
    if (ready) {
        e->tracing++;
        KP_UNLOCKED(rc = mlx_function_exporter_apply_kwargs(e->x, in, map));
        e->tracing--;
    }
    mlx_vector_array_free(in);
    mlx_map_string_to_array_free(map);
    return ready ? kp_done_none(rc) : NULL;
}
static int write_file(struct exporter *e) {
    mlx_function_exporter x = e->x;
    int rc = 0;
    e->x.ctx = NULL;
    if (x.ctx) KP_UNLOCKED(rc = mlx_function_exporter_free(x));
    return kp_check(rc);
}
static PyObject *exporter_close(PyObject *o, PyObject *none) {
    (void)none;
    struct exporter *e = (struct exporter *)o;
    if (e->tracing) {
        PyErr_SetString(PyExc_RuntimeError, "the exporter is closed by the function it traces");
        return NULL;
    }
    return write_file(e) ? NULL : kp_new_ref(Py_None);
}
/* The object is dead: no code of Python may get it, not even to tell about an error. */
static void exporter_dealloc(PyObject *o) {
    PyTypeObject *type = Py_TYPE(o);
    PyObject *kind, *value, *trace;
    PyErr_Fetch(&kind, &value, &trace);
    if (write_file((struct exporter *)o)) PyErr_WriteUnraisable((PyObject *)type);
    PyErr_Restore(kind, value, trace);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(o);
    Py_DECREF(type);
}
static PyMethodDef exporter_methods[] = {
    {"add", exporter_add, METH_VARARGS, "Traces the function for a list and a dict of arrays."},
    {"close", exporter_close, METH_NOARGS, "Writes the file."},
    {0},
};
static PyType_Slot exporter_slots[] = {
    {Py_tp_dealloc, exporter_dealloc}, {Py_tp_methods, exporter_methods}, {0, NULL}};
static PyType_Spec exporter_spec = {"keel._core._Exporter", sizeof(struct exporter), 0,
                                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                                    exporter_slots};

/* ---- a function from a file ---- */
struct imported {
    PyObject_HEAD mlx_imported_function f;
};
static PyObject *import(PyObject *m, PyObject *args) {
    (void)m;
    const char *path;
    if (!PyArg_ParseTuple(args, "s", &path)) return NULL;
    mlx_imported_function f;
    KP_UNLOCKED(f = mlx_imported_function_new(path));
    if (!f.ctx) return kp_raise();
    struct imported *o = (struct imported *)PyType_GenericAlloc(imported_type, 0);
    if (o)
        o->f = f;
    else
        mlx_imported_function_free(f);
    return (PyObject *)o;
}
static PyObject *imported_call(PyObject *o, PyObject *args, PyObject *names) {
    (void)names;
    PyObject *arrays, *named;
    if (!PyArg_ParseTuple(args, "OO", &arrays, &named)) return NULL;
    mlx_vector_array in = {NULL}, out = mlx_vector_array_new();
    mlx_map_string_to_array map = {NULL};
    int rc = kp_vector_of(&in, arrays) || kp_map_of(&map, named);
    if (!rc)
        KP_UNLOCKED(
            rc = mlx_imported_function_apply_kwargs(&out, ((struct imported *)o)->f, in, map));
    mlx_vector_array_free(in);
    mlx_map_string_to_array_free(map);
    return kp_done_list(rc, out);
}
static PyObject *imported_metadata(PyObject *o, PyObject *none) {
    (void)none;
    return PyUnicode_FromString(keel_imported_function_metadata(((struct imported *)o)->f));
}
static PyMethodDef imported_methods[] = {
    {"metadata", imported_metadata, METH_NOARGS, "The text that was kept in the file."},
    {0},
};
static void imported_dealloc(PyObject *o) {
    PyTypeObject *type = Py_TYPE(o);
    mlx_imported_function_free(((struct imported *)o)->f);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(o);
    Py_DECREF(type);
}
static PyType_Slot imported_slots[] = {{Py_tp_dealloc, imported_dealloc},
                                       {Py_tp_call, imported_call},
                                       {Py_tp_methods, imported_methods},
                                       {0, NULL}};
static PyType_Spec imported_spec = {"keel._core._Imported", sizeof(struct imported), 0,
                                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                                    imported_slots};

/* _dot(arrays, names) -> text: the graph of the arrays for Graphviz; names: arrays by name. */
static PyObject *dot(PyObject *m, PyObject *args) {
    (void)m;
    PyObject *arrays, *names, *key, *value;
    if (!PyArg_ParseTuple(args, "OO!", &arrays, &PyDict_Type, &names)) return NULL;
    char *text = NULL;
    size_t n = 0;
    FILE *out = open_memstream(&text, &n);
    if (!out) return PyErr_NoMemory();
    mlx_vector_array v = {NULL};
    mlx_node_namer namer = mlx_node_namer_new();
    Py_ssize_t at = 0;
    int rc = kp_vector_of(&v, arrays);
    while (!rc && PyDict_Next(names, &at, &key, &value)) {
        const char *name = PyUnicode_Check(key) ? PyUnicode_AsUTF8AndSize(key, NULL) : NULL;
        rc = name && kp_is_array(value) ? mlx_node_namer_set_name(namer, kp_handle(value), name)
                                        : -1;
        if (rc == -1 && !PyErr_Occurred())
            PyErr_SetString(PyExc_TypeError, "names are given to arrays");
    }
    rc = rc || mlx_export_to_dot(out, namer, v);
    fclose(out);
    mlx_vector_array_free(v);
    mlx_node_namer_free(namer);
    PyObject *o = rc ? kp_raise() : PyUnicode_FromStringAndSize(text, (Py_ssize_t)n);
    free(text);
    return o;
}

static PyMethodDef functions[] = {
    {"_export", export, METH_VARARGS, "(path, function, arrays, named, shapeless, metadata)."},
    {"_describe", describe, METH_VARARGS, "(function, arrays, named, shapeless) -> events."},
    {"_exporter", new_exporter, METH_VARARGS, "(path, function, shapeless, metadata)."},
    {"_import", import, METH_VARARGS, "path -> a function of a list and a dict of arrays."},
    {"_dot", dot, METH_VARARGS, "(arrays, names) -> text for Graphviz."},
    {0},
};
int kp_add_exported(PyObject *m) {
    exporter_type = (PyTypeObject *)PyType_FromSpec(&exporter_spec);
    imported_type = exporter_type ? (PyTypeObject *)PyType_FromSpec(&imported_spec) : NULL;
    return imported_type ? PyModule_AddFunctions(m, functions) : -1;
}
