/* files.c - loading and saving: paths and Python's file objects */
#include "keel_python.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "keel/load.h"

/* ---- dicts ---- */
int kp_map_of(mlx_map_string_to_array *out, PyObject *dict) {
    PyObject *key, *value;
    Py_ssize_t at = 0;
    *out = mlx_map_string_to_array_new();
    if (!PyDict_Check(dict)) {
        PyErr_Format(PyExc_TypeError, "arrays are given as a dict by name, not as %R",
                     (PyObject *)Py_TYPE(dict));
        return -1;
    }
    while (PyDict_Next(dict, &at, &key, &value)) {
        const char *name = PyUnicode_Check(key) ? PyUnicode_AsUTF8AndSize(key, NULL) : NULL;
        if (!name || !kp_is_array(value)) {
            if (!PyErr_Occurred())
                PyErr_SetString(PyExc_TypeError, "the dict has str as keys and arrays as values");
            return -1;
        }
        if (mlx_map_string_to_array_insert(*out, name, kp_handle(value))) return kp_check(1);
    }
    return 0;
}

PyObject *kp_dict_of(mlx_map_string_to_array map) {
    PyObject *dict = PyDict_New();
    mlx_map_string_to_array_iterator it = mlx_map_string_to_array_iterator_new(map);
    const char *key;
    mlx_array value = mlx_array_new();
    while (dict && !mlx_map_string_to_array_iterator_next(&key, &value, it)) {
        PyObject *o = kp_wrap(value);
        if (!o || PyDict_SetItemString(dict, key, o)) Py_CLEAR(dict);
        Py_XDECREF(o);
        value = mlx_array_new();
    }
    mlx_map_string_to_array_iterator_free(it);
    return dict;
}

/* ---- Python files ----
 * Threads of the library read through these: they take the GIL for it, which is why whoever waits
 * for a value has let it go. After the interpreter began to end, reads fail. */
static atomic_bool ending;
/* The load of all arrays in Python files. Reads that are not done when the interpreter ends are
 * cancelled: such arrays are no errors that somebody should have seen. Guarded by the GIL. */
static keel_load reads;
/* This thread opens a file, whose header it reads itself: the exception that stops it is kept. On
 * other threads, and later, the library reports the read that failed. */
static _Thread_local bool opening;

static PyObject *finalize(PyObject *m, PyObject *none) {
    (void)m;
    (void)none;
    if (reads.ctx) keel_load_cancel(reads);
    atomic_store(&ending, true);
    return kp_new_ref(Py_None);
}

static int read_file(void *desc, void *data, size_t n, uint64_t offset) {
    if (atomic_load(&ending)) return -1;
    PyGILState_STATE g = PyGILState_Ensure();
    PyObject *file = kp_kept(desc), *r = NULL;
    if (!PyErr_Occurred()) r = PyObject_CallMethod(file, "seek", "K", (unsigned long long)offset);
    int rc = r ? 0 : -1;
    Py_XDECREF(r);
    for (size_t done = 0; !rc && done < n;) {
        r = PyObject_CallMethod(file, "read", "n", (Py_ssize_t)(n - done));
        char *bytes;
        Py_ssize_t got;
        if (!r || PyBytes_AsStringAndSize(r, &bytes, &got) || got <= 0 || (size_t)got > n - done)
            rc = -1;
        else
            memcpy((char *)data + done, bytes, (size_t)got);
        if (!rc) done += (size_t)got;
        Py_XDECREF(r);
    }
    if (!opening) PyErr_Clear();
    PyGILState_Release(g);
    return rc;
}
static int file_size(void *desc, uint64_t *size) {
    PyGILState_STATE g = PyGILState_Ensure();
    PyObject *end =
        PyErr_Occurred() ? NULL : PyObject_CallMethod(kp_kept(desc), "seek", "ii", 0, 2);
    PyObject *at = end ? PyObject_CallMethod(kp_kept(desc), "tell", NULL) : NULL;
    int rc = at ? 0 : -1;
    if (at) *size = PyLong_AsUnsignedLongLong(at);
    Py_XDECREF(end);
    Py_XDECREF(at);
    if (!opening) PyErr_Clear();
    PyGILState_Release(g);
    return rc;
}
static const char *file_label(void *desc) {
    (void)desc;
    return "a Python file";
}

/* ---- files by a descriptor of our own ----
 * The program may close its file object at once; the arrays read when they are needed. */
static int descriptor_of(void *desc) {
    return (int)(intptr_t)desc;
}
static int read_descriptor(void *desc, void *data, size_t n, uint64_t offset) {
    for (size_t done = 0; done < n;) {
        ssize_t got =
            pread(descriptor_of(desc), (char *)data + done, n - done, (off_t)(offset + done));
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return got ? errno : -1;
        done += (size_t)got;
    }
    return 0;
}
static int size_of_descriptor(void *desc, uint64_t *size) {
    struct stat at;
    if (fstat(descriptor_of(desc), &at)) return errno;
    *size = (uint64_t)at.st_size;
    return 0;
}
static void close_descriptor(void *desc) {
    close(descriptor_of(desc));
}

/* Opens what the program has opened: descriptor is a copy that is ours now. */
static keel_file open_descriptor(int descriptor, enum keel_format format) {
    keel_file file;
    keel_reader reader = {.desc = (void *)(intptr_t)descriptor,
                          .read_at = read_descriptor,
                          .size = size_of_descriptor,
                          .label = file_label,
                          .free = close_descriptor};
    KP_UNLOCKED(file = keel_file_open_reader(reader, format));
    return file;
}

/* Reads arrays now. An array keeps its error until somebody reads it; only a signal ends the
 * load. */
static int read_now(mlx_map_string_to_array map) {
    mlx_vector_array all = mlx_vector_array_new();
    mlx_map_string_to_array_iterator it = mlx_map_string_to_array_iterator_new(map);
    const char *key;
    mlx_array value = mlx_array_new();
    int rc = 0;
    while (!rc && !mlx_map_string_to_array_iterator_next(&key, &value, it))
        rc = mlx_vector_array_append_value(all, value);
    mlx_array_free(value);
    mlx_map_string_to_array_iterator_free(it);
    if (!rc) {
        keel_error_info info = {.size = sizeof info};
        KP_UNLOCKED(rc = mlx_eval(all));
        if (rc && (keel_last_error(&info) || info.code != KEEL_EINTERRUPTED)) rc = 0;
    }
    mlx_vector_array_free(all);
    return kp_check(rc);
}

/* _load(path, descriptor or file, format, now, with metadata) -> (dict of arrays, dict of metadata,
 * or None where it is not wanted). The array of an .npy file is "". */
static PyObject *load(PyObject *m, PyObject *args) {
    (void)m;
    PyObject *from, *arrays = NULL, *metadata = NULL;
    int format, now, with_metadata;
    if (!PyArg_ParseTuple(args, "Oipp", &from, &format, &now, &with_metadata)) return NULL;
    keel_file file;
    keel_load as = {NULL};
    if (PyUnicode_Check(from)) {
        const char *path = PyUnicode_AsUTF8AndSize(from, NULL);
        if (!path) return NULL;
        KP_UNLOCKED(file = keel_file_open(path, (enum keel_format)format));
    } else if (PyLong_Check(from)) {
        file = open_descriptor((int)PyLong_AsLong(from), (enum keel_format)format);
    } else {
        if (!reads.ctx) reads = keel_load_new();
        if (!reads.ctx) return kp_raise();
        as = reads;
        void *kept = kp_keep(from);
        if (!kept) return NULL;
        keel_reader reader = {.desc = kept,
                              .read_at = read_file,
                              .size = file_size,
                              .label = file_label,
                              .free = kp_drop_later};
        bool outer = opening;
        opening = true;
        KP_UNLOCKED(file = keel_file_open_reader(reader, (enum keel_format)format));
        opening = outer;
        if (file.ctx) PyErr_Clear(); /* the header was read all the same */
    }
    if (!file.ctx) return kp_raise();
    mlx_map_string_to_array map = mlx_map_string_to_array_new();
    int rc;
    KP_UNLOCKED(rc = keel_file_load_all(&map, file, as));
    if (rc)
        kp_raise();
    else if (!now || !read_now(map))
        arrays = kp_dict_of(map);
    if (arrays) metadata = with_metadata ? PyDict_New() : Py_NewRef(Py_None);
    for (size_t i = 0; with_metadata && metadata && i < keel_file_n_metadata(file); i++) {
        const char *key, *value;
        PyObject *text = keel_file_metadata(&key, &value, file, i)
                             ? kp_raise()
                             : PyUnicode_DecodeUTF8(value, (Py_ssize_t)strlen(value), "replace");
        if (!text || PyDict_SetItemString(metadata, key, text)) Py_CLEAR(metadata);
        Py_XDECREF(text);
    }
    mlx_map_string_to_array_free(map);
    keel_file_free(file);
    if (metadata) return Py_BuildValue("(NN)", arrays, metadata);
    Py_XDECREF(arrays);
    return NULL;
}

/* ---- GGUF: typed metadata ---- */
static PyObject *gguf_value(mlx_io_gguf gguf, const char *key) {
    bool has;
    if (!mlx_io_gguf_has_metadata_string(&has, gguf, key) && has) {
        mlx_string text = mlx_string_new();
        PyObject *o = mlx_io_gguf_get_metadata_string(&text, gguf, key) ? kp_raise() : NULL;
        if (!PyErr_Occurred()) {
            const char *data = mlx_string_data(text);
            o = PyUnicode_DecodeUTF8(data, (Py_ssize_t)strlen(data), "replace");
        }
        mlx_string_free(text);
        return o;
    }
    if (!mlx_io_gguf_has_metadata_vector_string(&has, gguf, key) && has) {
        mlx_vector_string texts = mlx_vector_string_new();
        PyObject *list =
            mlx_io_gguf_get_metadata_vector_string(&texts, gguf, key) ? kp_raise() : PyList_New(0);
        for (size_t i = 0; list && i < mlx_vector_string_size(texts); i++) {
            char *data;
            PyObject *text = mlx_vector_string_get(&data, texts, i)
                                 ? kp_raise()
                                 : PyUnicode_DecodeUTF8(data, (Py_ssize_t)strlen(data), "replace");
            if (!text || PyList_Append(list, text)) Py_CLEAR(list);
            Py_XDECREF(text);
        }
        mlx_vector_string_free(texts);
        return list;
    }
    if (!mlx_io_gguf_has_metadata_array(&has, gguf, key) && has) {
        mlx_array a = mlx_array_new();
        return kp_done(mlx_io_gguf_get_metadata_array(&a, gguf, key), a);
    }
    return NULL;
}

/* _load_gguf(path, with metadata) -> (arrays, metadata, which is None where it is not wanted) */
static PyObject *load_gguf(PyObject *m, PyObject *args) {
    (void)m;
    const char *path;
    int with_metadata;
    if (!PyArg_ParseTuple(args, "sp", &path, &with_metadata)) return NULL;
    mlx_io_gguf gguf = mlx_io_gguf_new();
    mlx_stream s;
    int rc;
    if (kp_default_stream(&s)) return NULL;
    KP_UNLOCKED(rc = mlx_load_gguf(&gguf, path, s));
    mlx_vector_string keys = mlx_vector_string_new();
    PyObject *arrays = NULL, *metadata = NULL;
    if (rc || mlx_io_gguf_get_keys(&keys, gguf)) {
        kp_raise();
    } else {
        arrays = PyDict_New();
        for (size_t i = 0; arrays && i < mlx_vector_string_size(keys); i++) {
            char *key;
            mlx_array a = mlx_array_new();
            PyObject *o = mlx_vector_string_get(&key, keys, i)
                              ? kp_raise()
                              : kp_done(mlx_io_gguf_get_array(&a, gguf, key), a);
            if (!o || PyDict_SetItemString(arrays, key, o)) Py_CLEAR(arrays);
            Py_XDECREF(o);
        }
    }
    /* The names of metadata come from the file itself. */
    keel_file file = {NULL};
    if (arrays && !with_metadata) {
        metadata = Py_NewRef(Py_None);
    } else if (arrays) {
        KP_UNLOCKED(file = keel_file_open(path, KEEL_FORMAT_GGUF));
        metadata = file.ctx ? PyDict_New() : kp_raise();
    }
    for (size_t i = 0; file.ctx && metadata && i < keel_file_n_metadata(file); i++) {
        const char *key, *value;
        if (keel_file_metadata(&key, &value, file, i)) continue;
        PyObject *o = gguf_value(gguf, key);
        if (PyErr_Occurred() || (o && PyDict_SetItemString(metadata, key, o))) Py_CLEAR(metadata);
        Py_XDECREF(o);
    }
    if (file.ctx) keel_file_free(file);
    mlx_vector_string_free(keys);
    mlx_io_gguf_free(gguf);
    if (metadata) return Py_BuildValue("(NN)", arrays, metadata);
    Py_XDECREF(arrays);
    return NULL;
}

/* _save_gguf(path, arrays, metadata) */
static PyObject *save_gguf(PyObject *m, PyObject *args) {
    (void)m;
    const char *path;
    PyObject *arrays, *metadata, *key, *value;
    if (!PyArg_ParseTuple(args, "sO!O!", &path, &PyDict_Type, &arrays, &PyDict_Type, &metadata))
        return NULL;
    mlx_io_gguf gguf = mlx_io_gguf_new();
    Py_ssize_t at = 0;
    int rc = 0;
    while (!rc && PyDict_Next(arrays, &at, &key, &value)) {
        const char *name = PyUnicode_Check(key) ? PyUnicode_AsUTF8AndSize(key, NULL) : NULL;
        if (name && kp_is_array(value))
            rc = mlx_io_gguf_set_array(gguf, name, kp_handle(value));
        else
            rc = -1;
    }
    at = 0;
    while (!rc && PyDict_Next(metadata, &at, &key, &value)) {
        const char *name = PyUnicode_Check(key) ? PyUnicode_AsUTF8AndSize(key, NULL) : NULL;
        if (name && kp_is_array(value)) {
            rc = mlx_io_gguf_set_metadata_array(gguf, name, kp_handle(value));
        } else if (name && PyUnicode_Check(value)) {
            const char *text = PyUnicode_AsUTF8AndSize(value, NULL);
            rc = text ? mlx_io_gguf_set_metadata_string(gguf, name, text) : -1;
        } else if (name && PyList_Check(value)) {
            mlx_vector_string texts = mlx_vector_string_new();
            for (Py_ssize_t i = 0; !rc && i < PyList_Size(value); i++) {
                PyObject *item = PyList_GetItem(value, i);
                const char *text =
                    PyUnicode_Check(item) ? PyUnicode_AsUTF8AndSize(item, NULL) : NULL;
                rc = text ? mlx_vector_string_append_value(texts, text) : -1;
            }
            rc = rc || mlx_io_gguf_set_metadata_vector_string(gguf, name, texts);
            mlx_vector_string_free(texts);
        } else {
            rc = -1;
        }
    }
    if (rc == -1 && !PyErr_Occurred())
        PyErr_SetString(
            PyExc_TypeError,
            "save_gguf() takes arrays by name, and metadata that are arrays, str or lists of str");
    if (!rc) KP_UNLOCKED(rc = mlx_save_gguf(path, gguf));
    mlx_io_gguf_free(gguf);
    return kp_done_none(rc);
}

/* ---- saving ---- */
struct sink {
    PyObject *file;
    bool good;
};
static bool sink_good(void *desc) {
    return ((struct sink *)desc)->good;
}
static void sink_call(struct sink *s, const char *method, PyObject *arg) {
    PyObject *r = arg && s->good ? PyObject_CallMethod(s->file, method, "O", arg) : NULL;
    if (!r) s->good = false; /* the exception stays: it is the cause */
    Py_XDECREF(r);
    Py_XDECREF(arg);
}
static size_t sink_tell(void *desc) {
    PyGILState_STATE g = PyGILState_Ensure();
    struct sink *s = desc;
    PyObject *r = s->good ? PyObject_CallMethod(s->file, "tell", NULL) : NULL;
    size_t at = r ? PyLong_AsSize_t(r) : 0;
    if (!r) s->good = false;
    Py_XDECREF(r);
    PyGILState_Release(g);
    return at;
}
static void sink_seek(void *desc, int64_t off, int whence) {
    PyGILState_STATE g = PyGILState_Ensure();
    struct sink *s = desc;
    PyObject *r =
        s->good ? PyObject_CallMethod(s->file, "seek", "Li", (long long)off, whence) : NULL;
    if (!r) s->good = false;
    Py_XDECREF(r);
    PyGILState_Release(g);
}
static void sink_write(void *desc, const char *data, size_t n) {
    PyGILState_STATE g = PyGILState_Ensure();
    sink_call(desc, "write", PyBytes_FromStringAndSize(data, (Py_ssize_t)n));
    PyGILState_Release(g);
}
static void sink_free(void *desc) {
    (void)desc;
}
static void no_read(void *desc, char *data, size_t n) {
    (void)data, (void)n;
    ((struct sink *)desc)->good = false;
}
static void no_read_at(void *desc, char *data, size_t n, size_t off) {
    (void)off;
    no_read(desc, data, n);
}

/* Calls f with a path, or with a writer over a Python file. */
static PyObject *save_to(PyObject *to, int (*path_f)(const char *, void *),
                         int (*writer_f)(mlx_io_writer, void *), void *what) {
    int rc;
    if (PyUnicode_Check(to)) {
        const char *path = PyUnicode_AsUTF8AndSize(to, NULL);
        if (!path) return NULL;
        KP_UNLOCKED(rc = path_f(path, what));
        return kp_done_none(rc);
    }
    struct sink sink = {to, true};
    mlx_io_vtable table = {.is_open = sink_good,
                           .good = sink_good,
                           .tell = sink_tell,
                           .seek = sink_seek,
                           .read = no_read,
                           .read_at_offset = no_read_at,
                           .write = sink_write,
                           .label = file_label,
                           .free = sink_free};
    mlx_io_writer writer = mlx_io_writer_new(&sink, table);
    if (!writer.ctx) return kp_raise();
    KP_UNLOCKED(rc = writer_f(writer, what));
    mlx_io_writer_free(writer);
    return kp_done_none(rc);
}

static int npy_path(const char *path, void *what) {
    return mlx_save(path, *(mlx_array *)what);
}
static int npy_writer(mlx_io_writer w, void *what) {
    return mlx_save_writer(w, *(mlx_array *)what);
}
static PyObject *save_npy(PyObject *m, PyObject *args) {
    (void)m;
    PyObject *to, *o;
    if (!PyArg_ParseTuple(args, "OO!", &to, kp_array_type, &o)) return NULL;
    mlx_array a;
    if (kp_hold(&a, kp_handle(o))) return NULL;
    PyObject *out = save_to(to, npy_path, npy_writer, &a);
    mlx_array_free(a);
    return out;
}

struct tensors {
    mlx_map_string_to_array arrays;
    mlx_map_string_to_string metadata;
};
static int safetensors_path(const char *path, void *what) {
    struct tensors *t = what;
    return mlx_save_safetensors(path, t->arrays, t->metadata);
}
static int safetensors_writer(mlx_io_writer w, void *what) {
    struct tensors *t = what;
    return mlx_save_safetensors_writer(w, t->arrays, t->metadata);
}
static PyObject *save_safetensors(PyObject *m, PyObject *args) {
    (void)m;
    PyObject *to, *arrays, *metadata, *key, *value;
    if (!PyArg_ParseTuple(args, "OOO!", &to, &arrays, &PyDict_Type, &metadata)) return NULL;
    struct tensors t = {{NULL}, mlx_map_string_to_string_new()};
    Py_ssize_t at = 0;
    int rc = kp_map_of(&t.arrays, arrays);
    while (!rc && PyDict_Next(metadata, &at, &key, &value)) {
        const char *k = PyUnicode_Check(key) ? PyUnicode_AsUTF8AndSize(key, NULL) : NULL;
        const char *v = PyUnicode_Check(value) ? PyUnicode_AsUTF8AndSize(value, NULL) : NULL;
        if (k && v)
            rc = kp_check(mlx_map_string_to_string_insert(t.metadata, k, v));
        else {
            if (!PyErr_Occurred())
                PyErr_SetString(PyExc_ValueError, "metadata are a dict of str by str");
            rc = -1;
        }
    }
    PyObject *out = rc ? NULL : save_to(to, safetensors_path, safetensors_writer, &t);
    mlx_map_string_to_array_free(t.arrays);
    mlx_map_string_to_string_free(t.metadata);
    return out;
}

static PyObject *save_npz(PyObject *m, PyObject *args) {
    (void)m;
    const char *path;
    PyObject *arrays;
    int compressed, rc;
    if (!PyArg_ParseTuple(args, "sOp", &path, &arrays, &compressed)) return NULL;
    mlx_map_string_to_array map;
    rc = kp_map_of(&map, arrays);
    if (!rc) {
        KP_UNLOCKED(rc = keel_npz_save(path, map, compressed != 0));
    }
    mlx_map_string_to_array_free(map);
    return kp_done_none(rc);
}

static PyMethodDef functions[] = {
    {"_load", load, METH_VARARGS,
     "(path or file, format, now, with metadata) -> (arrays, metadata)."},
    {"_load_gguf", load_gguf, METH_VARARGS, "(path, with metadata) -> (arrays, metadata)."},
    {"_save_npy", save_npy, METH_VARARGS, "(path or file, array)."},
    {"_save_npz", save_npz, METH_VARARGS, "(path, arrays, whether to compress)."},
    {"_save_safetensors", save_safetensors, METH_VARARGS, "(path or file, arrays, metadata)."},
    {"_save_gguf", save_gguf, METH_VARARGS, "(path, arrays, metadata)."},
    {"_finalize", finalize, METH_NOARGS, "Reads through Python files fail from now on."},
    {0},
};
int kp_add_files(PyObject *m) {
    return PyModule_AddFunctions(m, functions);
}
