/* transforms.c - functions of Python as closures of the library, and the transforms over flat
 * lists of arrays; keel/core/_transforms.py lays trees over them. */
#include "keel_python.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* ---- objects that another thread dropped ----
 * A closure may be freed on any thread of the library, which never takes the GIL: the object waits
 * in this list for the next holder of it. */
struct dropped {
    struct dropped *next;
    PyObject *object;
};
static _Atomic(struct dropped *) dropped;

static int drain(void *unused) {
    (void)unused;
    struct dropped *d = atomic_exchange(&dropped, NULL);
    while (d) {
        struct dropped *next = d->next;
        Py_XDECREF(d->object);
        free(d);
        d = next;
    }
    return 0;
}

void kp_drop_later(void *payload) {
    struct dropped *d = payload, *head = atomic_load(&dropped);
    do d->next = head;
    while (!atomic_compare_exchange_weak(&dropped, &head, d));
    Py_AddPendingCall(drain, NULL); /* full: the next closure that is made empties the list */
}

static struct dropped *payload_of(PyObject *fun) {
    drain(NULL);
    struct dropped *p = malloc(sizeof *p);
    if (!p) {
        PyErr_NoMemory();
        return NULL;
    }
    p->object = kp_new_ref(fun);
    return p;
}

void *kp_keep(PyObject *o) {
    return payload_of(o);
}

PyObject *kp_kept(void *payload) {
    return ((struct dropped *)payload)->object;
}

/* ---- closures ---- */
PyObject *kp_list_of(const mlx_vector_array v) {
    Py_ssize_t n = (Py_ssize_t)mlx_vector_array_size(v);
    PyObject *list = PyList_New(n);
    for (Py_ssize_t i = 0; list && i < n; i++) {
        mlx_array a = mlx_array_new();
        PyObject *item = mlx_vector_array_get(&a, v, (size_t)i) ? kp_raise() : kp_wrap(a);
        if (!item || PyList_SetItem(list, i, item)) Py_CLEAR(list);
    }
    return list;
}

int kp_fill_vector(mlx_vector_array *out, PyObject *sequence) {
    Py_ssize_t n = PySequence_Size(sequence);
    if (n < 0) return -1;
    if (mlx_vector_array_set_data(out, NULL, 0)) return kp_check(1);
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *item = PySequence_GetItem(sequence, i);
        int rc = -1;
        if (item && kp_is_array(item))
            rc = kp_check(mlx_vector_array_append_value(*out, kp_handle(item)));
        else if (item)
            PyErr_Format(PyExc_ValueError, "a function that is transformed returns arrays, not %R",
                         item);
        Py_XDECREF(item);
        if (rc) return -1;
    }
    return 0;
}

/* Calls a Python function from a callback of the library: args is stolen. */
static int call_back(PyObject *fun, PyObject *args, mlx_vector_array *out) {
    Py_INCREF(fun); /* the closure that holds it may go while it runs */
    PyObject *result = args ? PyObject_CallObject(fun, args) : NULL;
    int rc = result ? kp_fill_vector(out, result) : -1;
    Py_DECREF(fun);
    Py_XDECREF(args);
    Py_XDECREF(result);
    return rc;
}

static int run(mlx_vector_array *out, const mlx_vector_array in, void *payload) {
    PyGILState_STATE g = PyGILState_Ensure();
    PyObject *list = kp_list_of(in);
    int rc = call_back(((struct dropped *)payload)->object,
                       list ? Py_BuildValue("(N)", list) : NULL, out);
    PyGILState_Release(g);
    return rc ? 1 : 0;
}

int kp_closure_of(mlx_closure *out, PyObject *fun) {
    struct dropped *p = payload_of(fun);
    if (!p) return -1;
    *out = mlx_closure_new_func_payload(run, p, kp_drop_later);
    if (out->ctx) return 0;
    Py_DECREF(fun);
    free(p);
    return kp_check(1);
}

int kp_vector_of(mlx_vector_array *out, PyObject *sequence) {
    *out = mlx_vector_array_new();
    return kp_fill_vector(out, sequence);
}

static int ints_of(PyObject *o, int *at, size_t *n, size_t max) {
    Py_ssize_t count = PySequence_Size(o);
    if (count < 0) return -1;
    if ((size_t)count > max) {
        PyErr_Format(PyExc_ValueError, "at most %zu numbers are taken here", max);
        return -1;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *item = PySequence_GetItem(o, i);
        int rc = item ? kp_int32("a number", item, at + i) : -1;
        Py_XDECREF(item);
        if (rc) return -1;
    }
    *n = (size_t)count;
    return 0;
}

/* ---- vjp, jvp, value and gradient ---- */
static PyObject *two_lists(int rc, mlx_vector_array a, mlx_vector_array b) {
    if (rc) {
        mlx_vector_array_free(a);
        mlx_vector_array_free(b);
        return kp_raise();
    }
    PyObject *first = kp_wrap_list(a), *second = kp_wrap_list(b);
    if (first && second) return Py_BuildValue("(NN)", first, second);
    Py_XDECREF(first);
    Py_XDECREF(second);
    return NULL;
}

static PyObject *derive(PyObject *args,
                        int (*f)(mlx_vector_array *, mlx_vector_array *, const mlx_closure,
                                 const mlx_vector_array, const mlx_vector_array)) {
    PyObject *fun, *x, *y;
    if (!PyArg_ParseTuple(args, "OOO", &fun, &x, &y)) return NULL;
    mlx_closure cls = mlx_closure_new();
    mlx_vector_array primals = {NULL}, others = {NULL}, a = mlx_vector_array_new(),
                     b = mlx_vector_array_new();
    int rc = kp_closure_of(&cls, fun) || kp_vector_of(&primals, x) || kp_vector_of(&others, y);
    if (!rc) KP_UNLOCKED(rc = f(&a, &b, cls, primals, others));
    mlx_closure_free(cls);
    mlx_vector_array_free(primals);
    mlx_vector_array_free(others);
    return two_lists(rc, a, b);
}
static PyObject *py_vjp(PyObject *m, PyObject *args) {
    (void)m;
    return derive(args, mlx_vjp);
}
static PyObject *py_jvp(PyObject *m, PyObject *args) {
    (void)m;
    return derive(args, mlx_jvp);
}

static PyObject *value_and_grad(PyObject *m, PyObject *args) {
    (void)m;
    PyObject *fun, *inputs, *argnums;
    if (!PyArg_ParseTuple(args, "OOO", &fun, &inputs, &argnums)) return NULL;
    Py_ssize_t count = PySequence_Size(argnums);
    if (count < 0) return NULL;
    size_t n = 0, max = (size_t)count;
    int *at = malloc((max + 1) * sizeof *at), rc = -1;
    mlx_closure cls = mlx_closure_new();
    mlx_closure_value_and_grad both = mlx_closure_value_and_grad_new();
    mlx_vector_array in = {NULL}, values = mlx_vector_array_new(), grads = mlx_vector_array_new();
    if (!at)
        PyErr_NoMemory();
    else
        rc = ints_of(argnums, at, &n, max) || kp_closure_of(&cls, fun) || kp_vector_of(&in, inputs);
    if (!rc)
        KP_UNLOCKED(rc = mlx_value_and_grad(&both, cls, at, n) ||
                         mlx_closure_value_and_grad_apply(&values, &grads, both, in));
    free(at);
    mlx_closure_free(cls);
    mlx_closure_value_and_grad_free(both);
    mlx_vector_array_free(in);
    return two_lists(rc, values, grads);
}

/* _vmap(fun, inputs, in_axes, out_axes(n_outputs) -> list): axes of -1 mark what is not mapped. */
static PyObject *vmap(PyObject *m, PyObject *args) {
    (void)m;
    PyObject *fun, *inputs, *in_axes, *out_axes;
    if (!PyArg_ParseTuple(args, "OOOO", &fun, &inputs, &in_axes, &out_axes)) return NULL;
    Py_ssize_t n_in = PySequence_Size(inputs);
    if (n_in < 0) return NULL;
    size_t n = 0, n_out = 0;
    int *in_at = malloc(((size_t)n_in + 1) * sizeof *in_at), *out_at = NULL, rc = -1;
    mlx_closure cls = mlx_closure_new();
    mlx_vector_array in = {NULL}, s_in = mlx_vector_array_new(), s_out = mlx_vector_array_new(),
                     out = mlx_vector_array_new();
    if (!in_at)
        PyErr_NoMemory();
    else
        rc = ints_of(in_axes, in_at, &n, (size_t)n_in) || kp_closure_of(&cls, fun) ||
             kp_vector_of(&in, inputs);
    if (!rc) KP_UNLOCKED(rc = mlx_detail_vmap_trace(&s_in, &s_out, cls, in, in_at, n));
    if (!rc) {
        size_t count = mlx_vector_array_size(s_out);
        PyObject *axes = PyObject_CallFunction(out_axes, "n", (Py_ssize_t)count);
        out_at = malloc((count + 1) * sizeof *out_at);
        rc = !axes || !out_at || ints_of(axes, out_at, &n_out, count);
        Py_XDECREF(axes);
    }
    if (!rc)
        KP_UNLOCKED(rc = mlx_detail_vmap_replace(&out, in, s_in, s_out, in_at, n, out_at, n_out));
    free(in_at);
    free(out_at);
    mlx_closure_free(cls);
    mlx_vector_array_free(in);
    mlx_vector_array_free(s_in);
    mlx_vector_array_free(s_out);
    return kp_done_list(rc, out);
}

/* ---- functions over flat lists: compiled, with checkpoints, with rules of their own ---- */
struct flat {
    PyObject_HEAD mlx_closure cls;
    /* The function that a compiled closure calls. Only the closure holds it, and only this object
     * the closure, so the garbage collector may look through both. NULL where nodes of graphs share
     * it. */
    struct dropped *compiled;
};
static PyTypeObject *flat_type;

static int traverse(PyObject *o, visitproc visit, void *arg) {
    struct flat *f = (struct flat *)o;
    if (f->compiled) Py_VISIT(f->compiled->object);
    Py_VISIT(Py_TYPE(o));
    return 0;
}
static int clear(PyObject *o) {
    struct flat *f = (struct flat *)o;
    mlx_closure cls = f->cls;
    f->cls.ctx = NULL;
    f->compiled = NULL;
    if (cls.ctx) mlx_closure_free(cls);
    return 0;
}
static void flat_dealloc(PyObject *o) {
    PyTypeObject *type = Py_TYPE(o);
    PyObject_GC_UnTrack(o);
    clear(o);
    PyObject_GC_Del(o);
    Py_DECREF(type);
    drain(NULL);
}

static PyObject *flat_call(PyObject *o, PyObject *args, PyObject *names) {
    (void)names;
    PyObject *inputs;
    if (!PyArg_ParseTuple(args, "O", &inputs)) return NULL;
    mlx_vector_array in = {NULL}, out = mlx_vector_array_new();
    mlx_closure cls = ((struct flat *)o)->cls; /* the caller's reference keeps it */
    int rc = kp_vector_of(&in, inputs);
    if (!rc) KP_UNLOCKED(rc = mlx_closure_apply(&out, cls, in));
    mlx_vector_array_free(in);
    return kp_done_list(rc, out);
}

static PyObject *new_flat(int rc, mlx_closure cls, struct dropped *compiled) {
    struct flat *f = rc ? NULL : PyObject_GC_New(struct flat, flat_type);
    if (!f) {
        mlx_closure_free(cls);
        return rc ? kp_raise() : NULL;
    }
    f->cls = cls;
    f->compiled = compiled;
    PyObject_GC_Track((PyObject *)f);
    return (PyObject *)f;
}

static PyType_Slot flat_slots[] = {
    {Py_tp_dealloc, flat_dealloc},
    {Py_tp_traverse, traverse},
    {Py_tp_clear, clear},
    {Py_tp_call, flat_call},
    {Py_tp_doc, "A function from a list of arrays to a list of arrays."},
    {0, NULL}};
static PyType_Spec flat_spec = {
    "keel._core._Function", sizeof(struct flat), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION, flat_slots};

static PyObject *compiled(PyObject *m, PyObject *args) {
    (void)m;
    PyObject *fun;
    int shapeless;
    if (!PyArg_ParseTuple(args, "Op", &fun, &shapeless)) return NULL;
    struct dropped *p = payload_of(fun);
    if (!p) return NULL;
    mlx_closure cls = mlx_closure_new_func_payload(run, p, kp_drop_later), out = mlx_closure_new();
    if (!cls.ctx) {
        Py_DECREF(fun);
        free(p);
        return kp_raise();
    }
    int rc = mlx_compile(&out, cls, shapeless != 0);
    mlx_closure_free(cls);
    return new_flat(rc, out, rc ? NULL : p);
}

static PyObject *checkpointed(PyObject *m, PyObject *fun) {
    (void)m;
    mlx_closure cls = mlx_closure_new(), out = mlx_closure_new();
    if (kp_closure_of(&cls, fun)) return NULL;
    int rc = mlx_checkpoint(&out, cls);
    mlx_closure_free(cls);
    return new_flat(rc, out, NULL);
}

/* vjp(primals, cotangents, outputs) -> gradients */
static int run_vjp(mlx_vector_array *out, const mlx_vector_array x, const mlx_vector_array y,
                   const mlx_vector_array z, void *payload) {
    PyGILState_STATE g = PyGILState_Ensure();
    PyObject *a = kp_list_of(x), *b = kp_list_of(y), *c = kp_list_of(z);
    int rc = call_back(((struct dropped *)payload)->object,
                       a && b && c ? Py_BuildValue("(OOO)", a, b, c) : NULL, out);
    Py_XDECREF(a);
    Py_XDECREF(b);
    Py_XDECREF(c);
    PyGILState_Release(g);
    return rc ? 1 : 0;
}

static PyObject *list_of_ints(const int *at, size_t n) {
    PyObject *list = PyList_New((Py_ssize_t)n);
    for (size_t i = 0; list && i < n; i++)
        if (PyList_SetItem(list, (Py_ssize_t)i, PyLong_FromLong(at[i]))) Py_CLEAR(list);
    return list;
}

/* jvp(primals, tangents, argnums) -> tangents of the results */
static int run_jvp(mlx_vector_array *out, const mlx_vector_array x, const mlx_vector_array y,
                   const int *argnums, size_t n, void *payload) {
    PyGILState_STATE g = PyGILState_Ensure();
    PyObject *a = kp_list_of(x), *b = kp_list_of(y), *c = list_of_ints(argnums, n);
    int rc = call_back(((struct dropped *)payload)->object,
                       a && b && c ? Py_BuildValue("(OOO)", a, b, c) : NULL, out);
    Py_XDECREF(a);
    Py_XDECREF(b);
    Py_XDECREF(c);
    PyGILState_Release(g);
    return rc ? 1 : 0;
}

/* vmap(inputs, axes) -> (results, their axes) */
static int run_vmap(mlx_vector_array *out, mlx_vector_int *out_axes, const mlx_vector_array x,
                    const int *axes, size_t n, void *payload) {
    PyGILState_STATE g = PyGILState_Ensure();
    PyObject *a = kp_list_of(x), *b = list_of_ints(axes, n), *results, *at;
    PyObject *pair =
        a && b ? PyObject_CallFunctionObjArgs(((struct dropped *)payload)->object, a, b, NULL)
               : NULL;
    int rc =
        pair && PyArg_ParseTuple(pair, "OO", &results, &at) ? kp_fill_vector(out, results) : -1;
    Py_ssize_t count = rc ? 0 : PySequence_Size(at);
    if (count < 0) rc = -1;
    if (!rc && mlx_vector_int_set_data(out_axes, NULL, 0)) rc = kp_check(1);
    for (Py_ssize_t i = 0; !rc && i < count; i++) {
        PyObject *item = PySequence_GetItem(at, i);
        int axis;
        rc = !item || kp_int32("an axis", item, &axis) ||
             mlx_vector_int_append_value(*out_axes, axis);
        Py_XDECREF(item);
    }
    Py_XDECREF(a);
    Py_XDECREF(b);
    Py_XDECREF(pair);
    PyGILState_Release(g);
    return rc ? 1 : 0;
}

static PyObject *custom(PyObject *m, PyObject *args) {
    (void)m;
    PyObject *fun, *vjp, *jvp, *batch;
    if (!PyArg_ParseTuple(args, "OOOO", &fun, &vjp, &jvp, &batch)) return NULL;
    mlx_closure cls = mlx_closure_new(), out = mlx_closure_new();
    mlx_closure_custom with_vjp = mlx_closure_custom_new();
    mlx_closure_custom_jvp with_jvp = mlx_closure_custom_jvp_new();
    mlx_closure_custom_vmap with_vmap = mlx_closure_custom_vmap_new();
    struct dropped *p;
    int rc = kp_closure_of(&cls, fun);
    if (!rc && vjp != Py_None) {
        if (!(p = payload_of(vjp)))
            rc = -1;
        else if (!(with_vjp = mlx_closure_custom_new_func_payload(run_vjp, p, kp_drop_later)).ctx)
            rc = 1;
    }
    if (!rc && jvp != Py_None) {
        if (!(p = payload_of(jvp)))
            rc = -1;
        else if (!(with_jvp = mlx_closure_custom_jvp_new_func_payload(run_jvp, p, kp_drop_later))
                      .ctx)
            rc = 1;
    }
    if (!rc && batch != Py_None) {
        if (!(p = payload_of(batch)))
            rc = -1;
        else if (!(with_vmap = mlx_closure_custom_vmap_new_func_payload(run_vmap, p, kp_drop_later))
                      .ctx)
            rc = 1;
    }
    rc = rc || mlx_custom_function(&out, cls, with_vjp, with_jvp, with_vmap);
    mlx_closure_free(cls);
    mlx_closure_custom_free(with_vjp);
    mlx_closure_custom_jvp_free(with_jvp);
    mlx_closure_custom_vmap_free(with_vmap);
    return new_flat(rc, out, NULL);
}

/* ---- evaluation ---- */
static int collect(mlx_vector_array v, PyObject *o, int depth) {
    if (kp_is_array(o)) return kp_check(mlx_vector_array_append_value(v, kp_handle(o)));
    bool dict = PyDict_Check(o), list = PyList_Check(o) || PyTuple_Check(o);
    if (!dict && !list) { /* a module keeps its arrays in a dict of its own kind */
        return 0;
    }
    if (depth > 200) {
        PyErr_SetString(PyExc_RecursionError, "the tree of arrays is deeper than 200 levels");
        return -1;
    }
    if (dict) {
        PyObject *key, *value;
        Py_ssize_t at = 0;
        while (PyDict_Next(o, &at, &key, &value))
            if (collect(v, value, depth + 1)) return -1;
        return 0;
    }
    Py_ssize_t n = PySequence_Size(o);
    for (Py_ssize_t i = 0; i < n; i++)
        if (collect(v, PyList_Check(o) ? PyList_GetItem(o, i) : PyTuple_GetItem(o, i), depth + 1))
            return -1;
    return 0;
}
static PyObject *evaluate(struct kp_call *c, int (*f)(const mlx_vector_array)) {
    mlx_vector_array v = mlx_vector_array_new();
    int rc = 0;
    for (Py_ssize_t i = 0; i < c->n_rest && !rc; i++) rc = collect(v, c->rest[i], 0);
    if (!rc) {
        KP_UNLOCKED(rc = f(v));
        rc = kp_check(rc);
    }
    mlx_vector_array_free(v);
    return rc ? NULL : kp_new_ref(Py_None);
}
KP_FUNCTION(core, eval) {
    return evaluate(c, mlx_eval);
}
KP_FUNCTION(core, async_eval) {
    return evaluate(c, mlx_async_eval);
}

KP_FUNCTION(core, depends) {
    mlx_vector_array in[2] = {{NULL}, {NULL}}, out = mlx_vector_array_new();
    int rc = 0;
    for (int i = 0; i < 2 && !rc; i++) {
        in[i] = mlx_vector_array_new();
        PyObject *o = c->v[i].object;
        rc = kp_is_array(o) ? kp_check(mlx_vector_array_append_value(in[i], kp_handle(o)))
                            : kp_fill_vector(&in[i], o);
    }
    rc = rc || mlx_depends(&out, in[0], in[1]);
    mlx_vector_array_free(in[0]);
    mlx_vector_array_free(in[1]);
    PyObject *list = kp_done_list(rc, out);
    if (!list || !kp_is_array(c->v[0].object)) return list;
    PyObject *one = kp_new_ref(PyList_GetItem(list, 0));
    Py_DECREF(list);
    return one;
}
static bool disabled; /* a disabled compile calls the Python function itself */
KP_FUNCTION(core, enable_compile) {
    (void)c;
    disabled = false;
    return kp_done_none(mlx_enable_compile());
}
KP_FUNCTION(core, disable_compile) {
    (void)c;
    disabled = true;
    return kp_done_none(mlx_disable_compile());
}
static PyObject *compile_disabled(PyObject *m, PyObject *none) {
    (void)m;
    (void)none;
    return PyBool_FromLong(disabled);
}

/* _signature(arrays, shapeless): the facts that a plan depends on, the dtype and shape (or the
 * rank) of each array, as bytes. None where something else than an array stands in the list or
 * tuple, or compilation is disabled. */
static PyObject *signature(PyObject *m, PyObject *const *args, Py_ssize_t n_args) {
    int few[64], *text = few;
    bool tuple = n_args == 2 && PyTuple_Check(args[0]);
    Py_ssize_t n = n_args != 2 ? -1 : tuple ? PyTuple_Size(args[0]) : PyList_Size(args[0]);
    if (n < 0) {
        if (!PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "_signature() takes two arguments");
        return NULL;
    }
    bool shapeless = args[1] == Py_True;
    size_t used = 0, room = sizeof few / sizeof few[0];
    PyObject *out = disabled ? kp_new_ref(Py_None) : NULL;
    for (Py_ssize_t i = 0; !out && i < n; i++) {
        PyObject *o = tuple ? PyTuple_GetItem(args[0], i) : PyList_GetItem(args[0], i);
        if (!kp_is_array(o)) {
            out = kp_new_ref(Py_None);
            break;
        }
        mlx_array a = kp_handle(o);
        size_t ndim = mlx_array_ndim(a);
        if (used + ndim + 2 > room) {
            size_t more = 2 * room + ndim + 2;
            int *larger = malloc(more * sizeof *larger);
            if (!larger) {
                if (text != few) free(text);
                return PyErr_NoMemory();
            }
            memcpy(larger, text, used * sizeof *text);
            if (text != few) free(text);
            text = larger;
            room = more;
        }
        text[used++] = (int)mlx_array_dtype(a);
        text[used++] = (int)ndim;
        for (size_t k = 0; k < ndim && !shapeless; k++) text[used++] = mlx_array_shape(a)[k];
    }
    if (!out)
        out = PyBytes_FromStringAndSize((const char *)text, (Py_ssize_t)(used * sizeof *text));
    if (text != few) free(text);
    return out;
}

/* _assigned(array): how often it was assigned to, as by x += 1: whether it still is what it was. */
static PyObject *assigned(PyObject *m, PyObject *o) {
    (void)m;
    if (kp_is_array(o)) return PyLong_FromUnsignedLong(((struct kp_array *)o)->assigned);
    PyErr_SetString(PyExc_TypeError, "_assigned() takes an array");
    return NULL;
}

static PyMethodDef functions[] = {
    {"_assigned", assigned, METH_O, "How often an array was assigned to."},
    {"_vjp", py_vjp, METH_VARARGS,
     "(function, primals, cotangents) -> (values, gradients), all of them lists."},
    {"_jvp", py_jvp, METH_VARARGS,
     "(function, primals, tangents) -> (values, tangents), all of them lists."},
    {"_value_and_grad", value_and_grad, METH_VARARGS,
     "(function, inputs, argnums) -> (values, gradients)."},
    {"_vmap", vmap, METH_VARARGS,
     "(function, inputs, in_axes, out_axes) -> results; out_axes(n) gives n axes."},
    {"_compiled", compiled, METH_VARARGS,
     "(function, shapeless) -> a function of a list that replays its plan."},
    {"_checkpointed", checkpointed, METH_O,
     "function -> a function of a list that keeps no intermediates."},
    {"_custom", custom, METH_VARARGS,
     "(function, vjp, jvp, vmap) -> a function of a list with rules of its own."},
    {"_compile_disabled", compile_disabled, METH_NOARGS, "Whether disable_compile was called."},
    {"_signature", (PyCFunction)(void (*)(void))signature, METH_FASTCALL,
     "(arrays, shapeless) -> bytes that name dtypes and shapes, or None."},
    {0},
};

int kp_add_transforms(PyObject *m) {
    flat_type = (PyTypeObject *)PyType_FromSpec(&flat_spec);
    return flat_type ? PyModule_AddFunctions(m, functions) : -1;
}
