/* functions_distributed.c - groups of processes and what they do together; keel/core/distributed.py
 * gives these their arguments */
#include "keel_python.h"

#include <string.h>

static const char capsule_name[] = "keel.group";

static void drop_group(PyObject *capsule) {
    mlx_distributed_group group = {PyCapsule_GetPointer(capsule, capsule_name)};
    mlx_distributed_group_free(group);
}

/* A capsule that owns the group, or the exception of a call that failed. */
static PyObject *wrap_group(int rc, mlx_distributed_group group) {
    if (rc) return kp_raise();
    PyObject *capsule = PyCapsule_New(group.ctx, capsule_name, drop_group);
    if (!capsule) mlx_distributed_group_free(group);
    return capsule;
}

/* The group in a capsule; None: that of all processes. false: an exception is set. */
static bool group_of(mlx_distributed_group *out, PyObject *capsule) {
    out->ctx = capsule == Py_None ? NULL : PyCapsule_GetPointer(capsule, capsule_name);
    return out->ctx || capsule == Py_None;
}

static PyObject *init(PyObject *m, PyObject *args) {
    mlx_distributed_group group = mlx_distributed_group_new();
    const char *backend;
    int strict, rc;
    (void)m;
    if (!PyArg_ParseTuple(args, "ps:init", &strict, &backend)) return NULL;
    KP_UNLOCKED(rc = mlx_distributed_init(&group, strict != 0, backend));
    return wrap_group(rc, group);
}

static PyObject *split(PyObject *m, PyObject *args) {
    mlx_distributed_group group, made = mlx_distributed_group_new();
    PyObject *capsule;
    int color, key, rc;
    (void)m;
    if (!PyArg_ParseTuple(args, "Oii:split", &capsule, &color, &key) || !group_of(&group, capsule))
        return NULL;
    KP_UNLOCKED(rc = mlx_distributed_group_split(&made, group, color, key));
    return wrap_group(rc, made);
}

static PyObject *rank(PyObject *m, PyObject *capsule) {
    mlx_distributed_group group;
    (void)m;
    return group_of(&group, capsule) ? PyLong_FromLong(mlx_distributed_group_rank(group)) : NULL;
}

static PyObject *size(PyObject *m, PyObject *capsule) {
    mlx_distributed_group group;
    (void)m;
    return group_of(&group, capsule) ? PyLong_FromLong(mlx_distributed_group_size(group)) : NULL;
}

static PyObject *is_available(PyObject *m, PyObject *args) {
    const char *backend;
    (void)m;
    if (!PyArg_ParseTuple(args, "s:is_available", &backend)) return NULL;
    return PyBool_FromLong(mlx_distributed_is_available(backend));
}

/* ---- operations ---- */

static const struct operation {
    const char *name;
    int (*run)(mlx_array *, const mlx_array, const mlx_distributed_group, const mlx_stream);
} operations[] = {
    {"all_sum", mlx_distributed_all_sum},         {"all_max", mlx_distributed_all_max},
    {"all_min", mlx_distributed_all_min},         {"all_gather", mlx_distributed_all_gather},
    {"sum_scatter", mlx_distributed_sum_scatter},
};

static PyObject *of_all(PyObject *m, PyObject *args) {
    const char *name;
    PyObject *x, *capsule, *stream;
    mlx_distributed_group group;
    mlx_stream s;
    (void)m;
    if (!PyArg_ParseTuple(args, "sO!OO:distributed", &name, kp_array_type, &x, &capsule, &stream) ||
        !group_of(&group, capsule) || kp_stream(&s, stream))
        return NULL;
    for (size_t i = 0; i < sizeof operations / sizeof *operations; i++) {
        mlx_array out = mlx_array_new();
        int rc;
        if (strcmp(operations[i].name, name) != 0) continue;
        /* Where there is no group yet it is made, and waits for the other processes. */
        KP_UNLOCKED(rc = operations[i].run(&out, kp_handle(x), group, s));
        return kp_done(rc, out);
    }
    PyErr_Format(PyExc_ValueError, "there is no operation %s", name);
    return NULL;
}

static PyObject *send_to(PyObject *m, PyObject *args) {
    PyObject *x, *capsule, *stream;
    mlx_distributed_group group;
    mlx_array out = mlx_array_new();
    mlx_stream s;
    int dst, rc;
    (void)m;
    if (!PyArg_ParseTuple(args, "O!iOO:send", kp_array_type, &x, &dst, &capsule, &stream) ||
        !group_of(&group, capsule) || kp_stream(&s, stream))
        return NULL;
    KP_UNLOCKED(rc = mlx_distributed_send(&out, kp_handle(x), dst, group, s));
    return kp_done(rc, out);
}

static PyObject *receive(PyObject *m, PyObject *args) {
    enum { MAX_AXES = 64 };
    PyObject *shape, *dtype, *capsule, *stream;
    mlx_distributed_group group;
    mlx_array out = mlx_array_new();
    mlx_stream s;
    int src, rc, dims[MAX_AXES];
    (void)m;
    if (!PyArg_ParseTuple(args, "OO!iOO:recv", &shape, kp_dtype_type, &dtype, &src, &capsule,
                          &stream) ||
        !group_of(&group, capsule) || kp_stream(&s, stream))
        return NULL;
    const Py_ssize_t n = PySequence_Size(shape);
    if (n < 0) return NULL;
    if (n > MAX_AXES)
        return PyErr_Format(PyExc_ValueError, "recv(): shape has more than %d axes", MAX_AXES);
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *item = PySequence_GetItem(shape, i);
        const int bad = item ? kp_int32("recv(): an extent of 'shape'", item, &dims[i]) : -1;
        Py_XDECREF(item);
        if (bad) return NULL;
    }
    const mlx_dtype of = ((struct kp_dtype *)dtype)->dtype;
    KP_UNLOCKED(rc = mlx_distributed_recv(&out, dims, (size_t)n, of, src, group, s));
    return kp_done(rc, out);
}

static PyObject *receive_like(PyObject *m, PyObject *args) {
    PyObject *x, *capsule, *stream;
    mlx_distributed_group group;
    mlx_array out = mlx_array_new();
    mlx_stream s;
    int src, rc;
    (void)m;
    if (!PyArg_ParseTuple(args, "O!iOO:recv_like", kp_array_type, &x, &src, &capsule, &stream) ||
        !group_of(&group, capsule) || kp_stream(&s, stream))
        return NULL;
    KP_UNLOCKED(rc = mlx_distributed_recv_like(&out, kp_handle(x), src, group, s));
    return kp_done(rc, out);
}

static PyMethodDef functions[] = {
    {"_group_init", init, METH_VARARGS, "The group of all processes."},
    {"_group_split", split, METH_VARARGS, "A part of a group."},
    {"_group_rank", rank, METH_O, "The number of this process in a group."},
    {"_group_size", size, METH_O, "The number of processes in a group."},
    {"_group_is_available", is_available, METH_VARARGS, "Whether a backend can be used."},
    {"_group_of_all", of_all, METH_VARARGS, "An operation of all processes."},
    {"_group_send", send_to, METH_VARARGS, "Sends an array."},
    {"_group_recv", receive, METH_VARARGS, "Receives an array of a shape and dtype."},
    {"_group_recv_like", receive_like, METH_VARARGS, "Receives an array like another one."},
    {0},
};
int kp_add_distributed(PyObject *m) {
    return PyModule_AddFunctions(m, functions);
}
