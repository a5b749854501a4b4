/* api_gguf.c - mlx/c/io.h and io_types.h: .gguf files. A handle points to a table of arrays, a list
 * of typed metadata in the order in which it was set, and the metadata of the file that was loaded,
 * of which an entry of the list is made when it is asked for. */
#include <stdlib.h>
#include <string.h>

#include "api/handles.h"
#include "base/alloc.h"
#include "io/gguf.h"
#include "io/sink.h"

/* not errors: the handler is not called */
enum { NOT_FOUND = 2, WRONG_TYPE = 3 };

struct entry {
    char *key; /* owned */
    enum kl_gguf_kind kind;
    struct kl_array *array; /* owned; of ARRAY */
    struct kl_vec texts;    /* of STRING, which has one, and STRINGS */
};
struct gguf {
    struct kl_map *arrays;
    struct entry *entries;
    size_t n, cap;
    struct kl_file *file; /* owned; its values count where no entry has the key; NULL: none */
};

static void entry_clear(struct entry *e) {
    kl_free(e->key);
    kl_array_release(e->array);
    kl_vec_clear(&kl_vec_of_strings, &e->texts);
}

static void gguf_free(struct gguf *g) {
    if (!g) return;
    kl_map_release(g->arrays);
    for (size_t i = 0; i < g->n; i++) entry_clear(&g->entries[i]);
    kl_free(g->entries);
    kl_file_close(g->file);
    kl_free(g);
}

static struct gguf *gguf_new(struct kl_error **err) {
    struct gguf *g = kl_calloc(1, sizeof *g);
    if (g) g->arrays = kl_map_new(KL_MAP_ARRAYS, err);
    if (g && g->arrays) return g;
    kl_free(g);
    kl_fail_nomem(err); /* the first error stays */
    return NULL;
}

static struct gguf *in_gguf(struct kl_call *c, mlx_io_gguf io, const char *key) {
    if (!io.ctx) kl_fail(&c->err, KL_EARG, "io is an empty handle");
    kl_need(c, key, "key");
    return c->err ? NULL : io.ctx;
}

static struct entry *find(const struct gguf *g, const char *key) {
    for (size_t i = 0; i < g->n; i++)
        if (strcmp(g->entries[i].key, key) == 0) return &g->entries[i];
    return NULL;
}

/* Puts *e, which is taken, into the list, in the place of an entry of the same key. */
static int put(struct gguf *g, struct entry *e, bool may_be_there, struct kl_error **err) {
    struct entry *there = may_be_there ? find(g, e->key) : NULL;
    if (there) {
        entry_clear(there);
        *there = *e;
        return KL_OK;
    }
    if (g->n == g->cap) {
        size_t cap = g->cap ? 2 * g->cap : 16;
        struct entry *more = kl_realloc(g->entries, cap * sizeof *more);
        if (!more) {
            entry_clear(e);
            return kl_fail_nomem(err);
        }
        g->entries = more;
        g->cap = cap;
    }
    g->entries[g->n++] = *e;
    return KL_OK;
}

static int compare_key(const void *key, const void *value) {
    return strcmp(key, ((const struct kl_gguf_value *)value)->key);
}

/* What the file has under the key, or NULL. */
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

static int entry_of(struct entry *e, const struct kl_gguf_value *v, struct kl_error **err) {
    const int n = (int)v->n;
    *e = (struct entry){.kind = v->kind, .key = kl_strdup(v->key)};
    if (!e->key) return kl_fail_nomem(err);
    int rc = v->kind == KL_GGUF_ARRAY
                 ? kl_array_new_data(&e->array, v->data, v->dtype, v->is_list, &n, err)
                 : kl_vec_take(&kl_vec_of_strings, &e->texts, v->texts, v->n, err);
    if (rc) entry_clear(e);
    return rc;
}

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

/* Whether a key has an entry of this kind, or a value in the file of which one can be made. */
static int has_kind(const struct gguf *g, const char *key, enum kl_gguf_kind kind) {
    const struct entry *e = find(g, key);
    const struct kl_gguf_value *v = e ? NULL : find_in_file(g, key);
    if (!e && !v) return NOT_FOUND;
    return (e ? e->kind : v->kind) == kind ? 0 : WRONG_TYPE;
}

/* The entry of a key, if it is of this kind; else *rc says why not, or c has an error. */
static struct entry *look(struct kl_call *c, mlx_io_gguf io, const char *key,
                          enum kl_gguf_kind kind, int *rc) {
    struct gguf *g = in_gguf(c, io, key);
    *rc = g ? has_kind(g, key, kind) : 0;
    if (!g || *rc) return NULL;
    struct entry *e = find(g, key), made;
    if (e) return e;
    if (entry_of(&made, find_in_file(g, key), &c->err) || put(g, &made, false, &c->err))
        return NULL;
    return &g->entries[g->n - 1];
}

int mlx_io_gguf_get_metadata_array(mlx_array *arr, mlx_io_gguf io, const char *key) {
    struct kl_call c = kl_call_begin(__func__, arr);
    int rc;
    const struct entry *e = look(&c, io, key, KL_GGUF_ARRAY, &rc);
    return rc ? rc : kl_call_end(&c, arr, e ? kl_array_retain(e->array) : NULL);
}

int mlx_io_gguf_get_metadata_string(mlx_string *str, mlx_io_gguf io, const char *key) {
    struct kl_call c = kl_call_begin(__func__, str);
    int rc;
    const struct entry *e = look(&c, io, key, KL_GGUF_STRING, &rc);
    if (rc) return rc;
    char *text = e ? kl_strdup(*(char **)e->texts.items) : NULL;
    if (e && !text) kl_fail_nomem(&c.err);
    return kl_call_end_text(&c, str, text);
}

int mlx_io_gguf_get_metadata_vector_string(mlx_vector_string *vstr, mlx_io_gguf io,
                                           const char *key) {
    struct kl_call c = kl_call_begin(__func__, vstr);
    int rc;
    const struct entry *e = look(&c, io, key, KL_GGUF_STRINGS, &rc);
    if (rc) return rc;
    struct kl_vec *made = c.err ? NULL : kl_vec_new(&c.err);
    if (!c.err) kl_vec_dup(&kl_vec_of_strings, made, &e->texts, &c.err);
    return end_with_texts(&c, vstr, made);
}

static int has(const char *func, bool *flag, mlx_io_gguf io, const char *key,
               enum kl_gguf_kind kind) {
    struct kl_call c = kl_call_begin(func, flag);
    const struct gguf *g = in_gguf(&c, io, key);
    const int rc = g ? has_kind(g, key, kind) : 0;
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

static void set(struct kl_call *c, mlx_io_gguf io, struct entry *e, const char *key) {
    struct gguf *g = in_gguf(c, io, key);
    if (!c->err && !(e->key = kl_strdup(key))) kl_fail_nomem(&c->err);
    if (c->err)
        entry_clear(e);
    else
        put(g, e, true, &c->err);
}

int mlx_io_gguf_set_metadata_array(mlx_io_gguf io, const char *key, const mlx_array marr) {
    struct kl_call c = {.func = __func__};
    struct kl_array *a = kl_in(&c, marr, "marr");
    if (a && a->t.ndim > 1)
        kl_fail(&c.err, KL_ESHAPE, "metadata has at most one axis, not %d", a->t.ndim);
    struct entry e = {.kind = KL_GGUF_ARRAY, .array = c.err ? NULL : kl_array_retain(a)};
    set(&c, io, &e, key);
    return kl_call_end_plain(&c);
}

int mlx_io_gguf_set_metadata_string(mlx_io_gguf io, const char *key, const char *mstr) {
    struct kl_call c = {.func = __func__};
    struct entry e = {.kind = KL_GGUF_STRING};
    kl_need(&c, mstr, "mstr");
    if (!c.err) kl_vec_take(&kl_vec_of_strings, &e.texts, &mstr, 1, &c.err);
    set(&c, io, &e, key);
    return kl_call_end_plain(&c);
}

int mlx_io_gguf_set_metadata_vector_string(mlx_io_gguf io, const char *key,
                                           const mlx_vector_string mvstr) {
    struct kl_call c = {.func = __func__};
    struct entry e = {.kind = KL_GGUF_STRINGS};
    const struct kl_vec *given = kl_in_vec(&c, mvstr.ctx, "mvstr");
    if (!c.err) kl_vec_dup(&kl_vec_of_strings, &e.texts, given, &c.err);
    set(&c, io, &e, key);
    return kl_call_end_plain(&c);
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

static int value_of(struct kl_gguf_value *v, const struct entry *e, struct kl_error **err) {
    *v = (struct kl_gguf_value){.key = e->key, .kind = (uint8_t)e->kind};
    if (e->kind != KL_GGUF_ARRAY) {
        v->texts = e->texts.items;
        v->n = (uint32_t)e->texts.n;
        return KL_OK;
    }
    if (e->array->t.size > INT32_MAX)
        return kl_fail(err, KL_ELIMIT, "the metadata '%.100s' has over 2147483647 numbers", e->key);
    v->dtype = e->array->t.dtype;
    v->is_list = e->array->t.ndim > 0;
    v->n = (uint32_t)e->array->t.size;
    KL_TRY(kl_eval((struct kl_array *[]){e->array}, 1, err));
    return (v->data = elements_of(e->array, err)) ? KL_OK : KL_ENOMEM;
}

static int save(const char *path, const struct gguf *g, struct kl_error **err) {
    const size_t n_file = g->file ? g->file->n_values : 0;
    struct kl_named *tensors = kl_malloc((g->arrays->n + 1) * sizeof *tensors);
    struct kl_gguf_value *values = kl_calloc(g->n + n_file + 1, sizeof *values);
    int rc = tensors && values ? KL_OK : kl_fail_nomem(err);
    for (size_t i = 0; i < g->arrays->n && !rc; i++)
        tensors[i] = (struct kl_named){g->arrays->entries[i].key, g->arrays->entries[i].value};
    for (size_t i = 0; i < g->n && !rc; i++) rc = value_of(&values[i], &g->entries[i], err);
    size_t n = g->n;
    for (size_t i = 0; i < n_file && !rc; i++)
        if (!find(g, g->file->values[i].key)) values[n++] = g->file->values[i];
    if (!rc) rc = kl_save_gguf(path, tensors, g->arrays->n, values, n, err);
    for (size_t i = 0; values && i < g->n; i++)
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
