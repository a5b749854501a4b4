/* memory.c - memory in use and its limits; whether CUDA is there */
#include "keel_python.h"

static PyObject *bytes_now(int (*f)(size_t *)) {
    size_t n;
    return f(&n) ? kp_raise() : PyLong_FromSize_t(n);
}
KP_FUNCTION(core, get_active_memory) {
    (void)c;
    return bytes_now(mlx_get_active_memory);
}
KP_FUNCTION(core, get_cache_memory) {
    (void)c;
    return bytes_now(mlx_get_cache_memory);
}
KP_FUNCTION(core, get_peak_memory) {
    (void)c;
    return bytes_now(mlx_get_peak_memory);
}
KP_FUNCTION(core, get_memory_limit) {
    (void)c;
    return bytes_now(mlx_get_memory_limit);
}
KP_FUNCTION(core, reset_peak_memory) {
    (void)c;
    return kp_done_none(mlx_reset_peak_memory());
}
KP_FUNCTION(core, clear_cache) {
    (void)c;
    return kp_done_none(mlx_clear_cache());
}
static PyObject *set_limit(struct kp_call *c, int (*f)(size_t *, size_t)) {
    size_t old;
    return f(&old, (size_t)c->v[0].i) ? kp_raise() : PyLong_FromSize_t(old);
}
KP_FUNCTION(core, set_cache_limit) {
    return set_limit(c, mlx_set_cache_limit);
}
KP_FUNCTION(core, set_memory_limit) {
    return set_limit(c, mlx_set_memory_limit);
}
KP_FUNCTION(core, set_wired_limit) {
    return set_limit(c, mlx_set_wired_limit);
}

static PyObject *cuda_available(PyObject *m, PyObject *none) {
    (void)m;
    (void)none;
    bool yes;
    return mlx_cuda_is_available(&yes) ? kp_raise() : PyBool_FromLong(yes);
}
static PyObject *metal_available(PyObject *m, PyObject *none) {
    (void)m;
    (void)none;
    bool yes;
    return mlx_metal_is_available(&yes) ? kp_raise() : PyBool_FromLong(yes);
}
static PyObject *start_capture(PyObject *m, PyObject *path) {
    (void)m;
    const char *text = PyUnicode_AsUTF8AndSize(path, NULL);
    if (!text || kp_check(mlx_metal_start_capture(text))) return NULL;
    Py_RETURN_NONE;
}
static PyObject *stop_capture(PyObject *m, PyObject *none) {
    (void)m;
    (void)none;
    if (kp_check(mlx_metal_stop_capture())) return NULL;
    Py_RETURN_NONE;
}
static PyMethodDef functions[] = {
    {"_cuda_is_available", cuda_available, METH_NOARGS, "Whether CUDA is used."},
    {"_metal_is_available", metal_available, METH_NOARGS, "Whether Metal is used."},
    {"_metal_start_capture", start_capture, METH_O, "Starts a recording."},
    {"_metal_stop_capture", stop_capture, METH_NOARGS, "Ends a recording."},
    {0},
};
int kp_add_memory(PyObject *m) {
    return PyModule_AddFunctions(m, functions);
}
