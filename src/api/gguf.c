/* gguf.c - mlx/c/io.h and io_types.h: .gguf files. A handle points to a table of arrays, one
 * of typed metadata in the order in which it was set, and the metadata of the file that was loaded,
 * which stays as it is in the memory of the file. */
#include <stdlib.h>
#include <string.h>

#include "api/handles/handles.h"
#include "base/alloc.h"
#include "io/gguf.h"
#include "io/sink.h"

/* not errors: the handler is not called */
enum { NOT_FOUND = 2, WRONG_TYPE = 3 };

/* A value of the metadata that was set. */
struct value {
    enum kl_gguf_kind kind;
    struct kl_array *array; /* owned; of ARRAY */
    struct kl_vec texts;    /* of STRING, which has one, and STRINGS */
};
struct gguf {
    struct kl_map *arrays, *values;
    struct kl_file *file; /* owned; its values count where none was set; NULL: none */
};

static void value_clear(struct value *v) {
    kl_array_release(v->array);
    kl_vec_clear(&kl_vec_of_strings, &v->texts);
}

static void value_drop(void *value) {
    value_clear(value);
    kl_free(value);
}

static void *value_dup(const void *value) {
    const struct value *from = value;
    struct value *to = kl_calloc(1, sizeof *to);
    if (!to) return NULL;
    to->kind = from->kind;
    if (from->array) to->array = kl_array_retain(from->array);
    if (kl_vec_dup(&kl_vec_of_strings, &to->texts, &from->texts, NULL) == 0) return to;
    value_drop(to);
    return NULL;
}

static const struct kl_map_kind map_of_values = {value_dup, value_drop};

static void gguf_free(struct gguf *g) {
    if (!g) return;
    kl_map_release(g->arrays);
    kl_map_release(g->values);
    kl_file_close(g->file);
    kl_free(g);
}

static struct gguf *gguf_new(struct kl_error **err) {
    struct gguf *g = kl_calloc(1, sizeof *g);
    if (g) g->arrays = kl_map_new(&kl_map_of_arrays, err);
    if (g && g->arrays) g->values = kl_map_new(&map_of_values, err);
    if (g && g->values) return g;
    gguf_free(g);
    kl_fail_nomem(err); /* the first error stays */
    return NULL;
}

static struct gguf *in_gguf(struct kl_call *c, mlx_io_gguf io, const char *key) {
    if (!io.ctx) kl_fail(&c->err, KL_EARG, "io is an empty handle");
    kl_need(c, key, "key");
    return c->err ? NULL : io.ctx;
}

static int compare_key(const void *key, const void *value) {
    return strcmp(key, ((const struct kl_gguf_value *)value)->key);
}

/* The value that the file has for the key, or NULL. */
static const struct kl_gguf_value *find_in_file(const struct gguf *g, const char *key) {
    if (!g->file || !g->file->n_values) return NULL;
    return bsearch(key, g->file->values, g->file->n_values, sizeof *g->file->values, compare_key);
}

mlx_io_gguf mlx_io_gguf_new(void) {
    struct kl_call c = {.func = __func__};
    struct gguf *g = gguf_new(&c.err);
    kl_call_end_plain(&c);
    return (mlx_io_gguf){g};
}

int mlx_io_gguf_free(mlx_io_gguf io) {
    gguf_free(io.ctx);
    return 0;
}

/* ---- loading ---- */

static int fill(struct gguf *g, struct kl_file *f, struct kl_error **err) {
    for (size_t i = 0; i < f->n; i++) {
        struct kl_array *a = NULL;
        KL_TRY(kl_file_array(&a, f, i, NULL, err));
        int rc = kl_map_insert(g->arrays, f->tensors[i].name, a, err);
        kl_array_release(a);
        if (rc) return rc;
    }
    return KL_OK;
}

int mlx_load_gguf(mlx_io_gguf *gguf, const char *file, const mlx_stream s) {
    struct kl_call c = kl_call_begin(__func__, gguf);
    struct kl_source *source = NULL;
    struct kl_file *f = NULL;
    struct gguf *g = NULL;
    kl_need(&c, file, "file");
    kl_in_stream(&c, s);
    if (!c.err) kl_source_open_file(&source, file, &c.err);
    if (!c.err) kl_file_open(&f, source, KL_FORMAT_GGUF, &c.err);
    if (!c.err) g = gguf_new(&c.err);
    if (!c.err) fill(g, f, &c.err);
    if (!c.err) {
        g->file = f;
        f = NULL;
    }
    if (!c.err && gguf->ctx) { /* the handle keeps its pointer */
        struct gguf old = *(struct gguf *)gguf->ctx;
        *(struct gguf *)gguf->ctx = *g;
        *g = old;
    } else if (!c.err) {
        gguf->ctx = g;
        g = NULL;
    }
    gguf_free(g);
    kl_file_close(f);
    kl_source_release(source);
    return kl_call_end_plain(&c);
}

/* ---- looking ---- */

/* Ends a call that gives a list of strings, which is taken; a live handle keeps its pointer. */
static int end_with_texts(struct kl_call *c, mlx_vector_string *res, struct kl_vec *made) {
    if (!c->err && res->ctx) {
        kl_vec_move(&kl_vec_of_strings, res->ctx, made);
    } else if (!c->err) {
        res->ctx = made;
        made = NULL;
    }
    kl_vec_free(&kl_vec_of_strings, made);
    return kl_call_end_plain(c);
}

int mlx_io_gguf_get_keys(mlx_vector_string *keys, mlx_io_gguf io) {
    struct kl_call c = kl_call_begin(__func__, keys);
    struct gguf *g = in_gguf(&c, io, "");
    struct kl_vec *made = c.err ? NULL : kl_vec_new(&c.err);
    for (size_t i = 0; !c.err && i < g->arrays->n; i++) {
        const char *key = g->arrays->entries[i].key;
        kl_vec_take(&kl_vec_of_strings, made, &key, 1, &c.err);
    }
    return end_with_texts(&c, keys, made);
}

int mlx_io_gguf_get_array(mlx_array *arr, mlx_io_gguf io, const char *key) {
    struct kl_call c = kl_call_begin(__func__, arr);
    struct gguf *g = in_gguf(&c, io, key);
    if (c.err) return kl_call_end(&c, arr, NULL);
    const struct kl_map_entry *e = kl_map_find(g->arrays, key);
    return e ? kl_call_end(&c, arr, kl_array_retain(e->value)) : NOT_FOUND;
}

/* The value of a key: an array that was set, a value of the file from which one is made, or
 * strings. */
struct found {
    enum kl_gguf_kind kind;
    struct kl_array *array;
    const struct kl_gguf_value *in_file;
    const char *const *texts;
    size_t n_texts;
};

/* Whether the key has a value of this kind. NOT_FOUND, WRONG_TYPE. */
static int find(struct found *f, const struct gguf *g, const char *key, enum kl_gguf_kind kind) {
    const struct kl_map_entry *e = kl_map_find(g->values, key);
    if (e) {
        const struct value *v = e->value;
        *f = (struct found){v->kind, v->array, NULL, v->texts.items, v->texts.n};
    } else {
        const struct kl_gguf_value *v = find_in_file(g, key);
        if (!v) return NOT_FOUND;
        *f = (struct found){.kind = (enum kl_gguf_kind)v->kind, .in_file = v};
        if (v->kind != KL_GGUF_ARRAY) f->texts = v->texts;
        if (v->kind != KL_GGUF_ARRAY) f->n_texts = v->kind == KL_GGUF_STRING ? 1 : v->n;
    }
    return f->kind == kind ? 0 : WRONG_TYPE;
}

int mlx_io_gguf_get_metadata_array(mlx_array *arr, mlx_io_gguf io, const char *key) {
    struct kl_call c = kl_call_begin(__func__, arr);
    const struct gguf *g = in_gguf(&c, io, key);
    struct found f;
    struct kl_array *a = NULL;
    const int rc = g ? find(&f, g, key, KL_GGUF_ARRAY) : 0;
    if (rc) return rc;
    if (g && f.array) {
        a = kl_array_retain(f.array);
    } else if (g) {
        const int n = (int)f.in_file->n;
        kl_array_new_data(&a, f.in_file->data, f.in_file->dtype, f.in_file->is_list, &n, &c.err);
    }
    return kl_call_end(&c, arr, a);
}

int mlx_io_gguf_get_metadata_string(mlx_string *str, mlx_io_gguf io, const char *key) {
    struct kl_call c = kl_call_begin(__func__, str);
    const struct gguf *g = in_gguf(&c, io, key);
    struct found f;
    const int rc = g ? find(&f, g, key, KL_GGUF_STRING) : 0;
    if (rc) return rc;
    char *text = g ? kl_strdup(f.texts[0]) : NULL;
    if (g && !text) kl_fail_nomem(&c.err);
    return kl_call_end_text(&c, str, text);
}

int mlx_io_gguf_get_metadata_vector_string(mlx_vector_string *vstr, mlx_io_gguf io,
                                           const char *key) {
    struct kl_call c = kl_call_begin(__func__, vstr);
    const struct gguf *g = in_gguf(&c, io, key);
    struct found f;
    const int rc = g ? find(&f, g, key, KL_GGUF_STRINGS) : 0;
    if (rc) return rc;
    struct kl_vec *made = c.err ? NULL : kl_vec_new(&c.err);
    if (!c.err) kl_vec_take(&kl_vec_of_strings, made, f.texts, f.n_texts, &c.err);
    return end_with_texts(&c, vstr, made);
}

static int has(const char *func, bool *flag, mlx_io_gguf io, const char *key,
               enum kl_gguf_kind kind) {
    struct kl_call c = kl_call_begin(func, flag);
    const struct gguf *g = in_gguf(&c, io, key);
    struct found f;
    const int rc = g ? find(&f, g, key, kind) : 0;
    if (!c.err) *flag = rc == 0;
    return rc == NOT_FOUND ? rc : kl_call_end_plain(&c);
}

int mlx_io_gguf_has_metadata_array(bool *flag, mlx_io_gguf io, const char *key) {
    return has(__func__, flag, io, key, KL_GGUF_ARRAY);
}

int mlx_io_gguf_has_metadata_string(bool *flag, mlx_io_gguf io, const char *key) {
    return has(__func__, flag, io, key, KL_GGUF_STRING);
}

int mlx_io_gguf_has_metadata_vector_string(bool *flag, mlx_io_gguf io, const char *key) {
    return has(__func__, flag, io, key, KL_GGUF_STRINGS);
}

/* ---- setting ---- */

int mlx_io_gguf_set_array(mlx_io_gguf io, const char *key, const mlx_array arr) {
    struct kl_call c = {.func = __func__};
    struct gguf *g = in_gguf(&c, io, key);
    struct kl_array *a = kl_in(&c, arr, "arr");
    if (!c.err) kl_map_insert(g->arrays, key, a, &c.err);
    return kl_call_end_plain(&c);
}

/* Sets what v has, which is taken, also on failure. */
static int set(struct kl_call *c, mlx_io_gguf io, struct value *v, const char *key) {
    struct gguf *g = in_gguf(c, io, key);
    if (!c->err) kl_map_insert(g->values, key, v, &c->err);
    value_clear(v);
    return kl_call_end_plain(c);
}

int mlx_io_gguf_set_metadata_array(mlx_io_gguf io, const char *key, const mlx_array marr) {
    struct kl_call c = {.func = __func__};
    struct kl_array *a = kl_in(&c, marr, "marr");
    if (a && a->t.ndim > 1)
        kl_fail(&c.err, KL_ESHAPE, "metadata has at most one axis, not %d", a->t.ndim);
    struct value v = {.kind = KL_GGUF_ARRAY, .array = c.err ? NULL : kl_array_retain(a)};
    return set(&c, io, &v, key);
}

int mlx_io_gguf_set_metadata_string(mlx_io_gguf io, const char *key, const char *mstr) {
    struct kl_call c = {.func = __func__};
    struct value v = {.kind = KL_GGUF_STRING};
    kl_need(&c, mstr, "mstr");
    if (!c.err) kl_vec_take(&kl_vec_of_strings, &v.texts, &mstr, 1, &c.err);
    return set(&c, io, &v, key);
}

int mlx_io_gguf_set_metadata_vector_string(mlx_io_gguf io, const char *key,
                                           const mlx_vector_string mvstr) {
    struct kl_call c = {.func = __func__};
    struct value v = {.kind = KL_GGUF_STRINGS};
    const struct kl_vec *given = kl_in_vec(&c, mvstr.ctx, "mvstr");
    if (!c.err) kl_vec_dup(&kl_vec_of_strings, &v.texts, given, &c.err);
    return set(&c, io, &v, key);
}

/* ---- saving ---- */

/* The elements of a settled array in row-major order, in memory of kl_malloc. */
static void *elements_of(struct kl_array *a, struct kl_error **err) {
    struct kl_flat flat;
    if (kl_flat_init(&flat, a, err)) return NULL;
    size_t n = (size_t)a->t.size * kl_dtype_size(a->t.dtype), at = 0;
    char *p = kl_malloc(n);
    if (!p) kl_fail_nomem(err);
    for (size_t more; p && (more = kl_flat_take(&flat, p + at, n - at)) > 0;) at += more;
    return p;
}

static int value_of(struct kl_gguf_value *v, const struct kl_map_entry *e, struct kl_error **err) {
    const struct value *from = e->value;
    struct kl_array *a = from->array;
    *v = (struct kl_gguf_value){.key = e->key, .kind = (uint8_t)from->kind};
    if (from->kind != KL_GGUF_ARRAY) {
        v->texts = from->texts.items;
        v->n = (uint32_t)from->texts.n;
        return KL_OK;
    }
    if (a->t.size > INT32_MAX)
        return kl_fail(err, KL_ELIMIT, "the metadata '%.100s' has over 2147483647 numbers", e->key);
    v->dtype = a->t.dtype;
    v->is_list = a->t.ndim > 0;
    v->n = (uint32_t)a->t.size;
    KL_TRY(kl_eval(&a, 1, err));
    return (v->data = elements_of(a, err)) ? KL_OK : KL_ENOMEM;
}

static int save(const char *path, const struct gguf *g, struct kl_error **err) {
    const size_t n_file = g->file ? g->file->n_values : 0, n_set = g->values->n;
    struct kl_named *tensors = kl_malloc((g->arrays->n + 1) * sizeof *tensors);
    struct kl_gguf_value *values = kl_calloc(n_set + n_file + 1, sizeof *values);
    int rc = tensors && values ? KL_OK : kl_fail_nomem(err);
    for (size_t i = 0; i < g->arrays->n && !rc; i++)
        tensors[i] = (struct kl_named){g->arrays->entries[i].key, g->arrays->entries[i].value};
    for (size_t i = 0; i < n_set && !rc; i++)
        rc = value_of(&values[i], &g->values->entries[i], err);
    size_t n = n_set;
    for (size_t i = 0; i < n_file && !rc; i++)
        if (!kl_map_find(g->values, g->file->values[i].key)) values[n++] = g->file->values[i];
    if (!rc) rc = kl_save_gguf(path, tensors, g->arrays->n, values, n, err);
    for (size_t i = 0; values && i < n_set; i++)
        if (values[i].kind == KL_GGUF_ARRAY) kl_free((void *)values[i].data);
    kl_free(values);
    kl_free(tensors);
    return rc;
}

int mlx_save_gguf(const char *file, mlx_io_gguf gguf) {
    struct kl_call c = {.func = __func__};
    kl_need(&c, file, "file");
    const struct gguf *g = in_gguf(&c, gguf, "");
    if (!c.err) save(file, g, &c.err);
    return kl_call_end_plain(&c);
}
