/* load.c - keel/load.h. */
#include <keel/load.h>

#include <string.h>

#include "api/handles/handles.h"
#include "base/alloc.h"
#include "io/gguf.h"
#include "io/io.h"

_Static_assert((int)KEEL_FORMAT_ANY == KL_FORMAT_ANY, "one number");
#define KL_FORMAT(ID, name) _Static_assert((int)KEEL_FORMAT_##ID == KL_FORMAT_##ID, "one number");
#include "io/formats.def"

static struct kl_file *in_file(struct kl_call *c, keel_file file) {
    if (!file.ctx) kl_fail(&c->err, KL_EARG, "file is an empty handle");
    return file.ctx;
}

static struct kl_load *in_load(struct kl_call *c, keel_load load) {
    if (!load.ctx) kl_fail(&c->err, KL_EARG, "load is an empty handle");
    return load.ctx;
}

/* ---- loads ---- */
keel_load keel_load_new(void) {
    struct kl_call c = {.func = __func__};
    struct kl_load *load = kl_load_new();
    if (!load) kl_fail_nomem(&c.err);
    kl_call_end_plain(&c);
    return (keel_load){load};
}

int keel_load_free(keel_load load) {
    kl_load_release(load.ctx);
    return 0;
}

int keel_load_get(keel_load_progress *progress, keel_load load) {
    struct kl_call c = kl_call_begin(__func__, progress);
    struct kl_load *l = in_load(&c, load);
    if (progress)
        kl_need_size(&c, progress->size, offsetof(keel_load_progress, n_tensors),
                     "keel_load_progress");
    if (!c.err) {
        struct kl_load_progress p;
        kl_load_get(l, &p);
        const keel_load_progress now = {.bytes_total = p.bytes_total,
                                        .bytes_done = p.bytes_done,
                                        .n_tensors = p.n_tensors,
                                        .n_done = p.n_done,
                                        .n_failed = p.n_failed,
                                        .n_skipped = p.n_skipped};
        kl_fill(progress, &now, sizeof now);
    }
    return kl_call_end_plain(&c);
}

int keel_load_cancel(keel_load load) {
    struct kl_call c = {.func = __func__};
    struct kl_load *l = in_load(&c, load);
    if (!c.err) kl_load_cancel(l);
    return kl_call_end_plain(&c);
}

/* ---- files ---- */
static void need_format(struct kl_call *c, int format) {
    if ((format < KL_FORMAT_ANY || format >= KL_N_FORMATS) && !c->err)
        kl_fail(&c->err, KL_EARG, "format is %d, not one of enum keel_format", format);
}

/* Opens src, which is taken; it is NULL when c has an error. */
static keel_file open_source(struct kl_call *c, struct kl_source *src, enum keel_format format) {
    struct kl_file *f = NULL;
    if (!c->err) kl_file_open(&f, src, (enum kl_format)format, &c->err);
    kl_source_release(src);
    kl_call_end_plain(c);
    return (keel_file){f};
}

keel_file keel_file_open(const char *path, enum keel_format format) {
    struct kl_call c = {.func = __func__};
    struct kl_source *src = NULL;
    kl_need(&c, path, "path");
    need_format(&c, (int)format);
    if (!c.err) kl_source_open_file(&src, path, &c.err);
    return open_source(&c, src, format);
}

keel_file keel_file_open_reader(keel_reader reader, enum keel_format format) {
    struct kl_call c = {.func = __func__};
    struct kl_source *src = NULL;
    struct kl_read_at_ops ops = {reader.read_at, reader.size, reader.label, reader.free};
    need_format(&c, (int)format);
    if (!c.err) kl_source_new_read_at(&src, &ops, reader.desc, &c.err);
    if (!src && reader.free) reader.free(reader.desc);
    return open_source(&c, src, format);
}

int keel_file_free(keel_file file) {
    kl_file_close(file.ctx);
    return 0;
}

size_t keel_file_n_tensors(keel_file file) {
    struct kl_call c = {.func = __func__};
    struct kl_file *f = in_file(&c, file);
    return kl_call_end_plain(&c) ? 0 : f->n;
}

static void need_index(struct kl_call *c, size_t index, size_t n) {
    if (!c->err && index >= n) kl_fail(&c->err, KL_EARG, "index is %zu, there are %zu", index, n);
}

int keel_file_tensor(keel_tensor *tensor, keel_file file, size_t index) {
    struct kl_call c = kl_call_begin(__func__, tensor);
    struct kl_file *f = in_file(&c, file);
    if (!c.err) need_index(&c, index, f->n);
    if (tensor) kl_need_size(&c, tensor->size, offsetof(keel_tensor, byte_begin), "keel_tensor");
    if (!c.err) {
        const struct kl_file_tensor *t = &f->tensors[index];
        const keel_tensor found = {.name = t->name,
                                   .dtype = (mlx_dtype)t->dtype,
                                   .ndim = t->ndim,
                                   .shape = t->dims,
                                   .byte_begin = t->begin,
                                   .byte_end = t->end,
                                   .missing = t->missing};
        kl_fill(tensor, &found, sizeof found);
    }
    return kl_call_end_plain(&c);
}

/* Metadata either have types, in which case only strings have a text here, or are texts. */
static size_t metadata_count(const struct kl_file *f) {
    return f->n_values ? f->n_values : f->n_metadata;
}

size_t keel_file_n_metadata(keel_file file) {
    struct kl_call c = {.func = __func__};
    struct kl_file *f = in_file(&c, file);
    return kl_call_end_plain(&c) ? 0 : metadata_count(f);
}

int keel_file_metadata(const char **key, const char **value, keel_file file, size_t index) {
    struct kl_call c = kl_call_begin(__func__, key);
    kl_need(&c, value, "value");
    struct kl_file *f = in_file(&c, file);
    if (!c.err) need_index(&c, index, metadata_count(f));
    if (!c.err) {
        const bool typed = f->n_values > 0;
        const struct kl_gguf_value *v = typed ? &f->values[index] : NULL;
        *key = typed ? v->key : f->metadata[index].key;
        *value = !typed ? f->metadata[index].value : v->kind == KL_GGUF_STRING ? v->texts[0] : "";
    }
    return kl_call_end_plain(&c);
}

int keel_file_load(mlx_array *res, keel_file file, const char *name, keel_load load) {
    struct kl_call c = kl_call_begin(__func__, res);
    struct kl_file *f = in_file(&c, file);
    kl_need(&c, name, "name");
    struct kl_array *out = NULL;
    if (!c.err) {
        size_t i = 0;
        while (i < f->n && strcmp(f->tensors[i].name, name)) i++;
        if (i == f->n) return 2;
        kl_file_array(&out, f, i, load.ctx, &c.err);
    }
    return kl_call_end(&c, res, out);
}

/* A map of lazy arrays of all tensors in f; NULL with the error noted. */
static struct kl_map *load_all(struct kl_call *c, struct kl_file *f, struct kl_load *load) {
    struct kl_map *map = kl_map_new(&kl_map_of_arrays, &c->err);
    for (size_t i = 0; map && i < f->n && !c->err; i++) {
        struct kl_array *a;
        if (kl_file_array(&a, f, i, load, &c->err)) break;
        kl_map_insert(map, f->tensors[i].name, a, &c->err);
        kl_array_release(a);
    }
    return map;
}

static int end_map(struct kl_call *c, mlx_map_string_to_array *res,
                   struct kl_map *made /* taken */) {
    if (!c->err) {
        if (res->ctx) {
            kl_map_move(res->ctx, made);
        } else {
            res->ctx = made;
            made = NULL;
        }
    }
    kl_map_release(made);
    return kl_call_end_plain(c);
}

int keel_file_load_all(mlx_map_string_to_array *res, keel_file file, keel_load load) {
    struct kl_call c = kl_call_begin(__func__, res);
    struct kl_file *f = in_file(&c, file);
    return end_map(&c, res, c.err ? NULL : load_all(&c, f, load.ctx));
}

/* ---- .npz ---- */
int keel_npz_load(mlx_map_string_to_array *res, const char *path, keel_load load) {
    struct kl_call c = kl_call_begin(__func__, res);
    struct kl_source *src = NULL;
    struct kl_file *f = NULL;
    struct kl_map *map = NULL;
    kl_need(&c, path, "path");
    if (!c.err) kl_source_open_file(&src, path, &c.err);
    if (!c.err) kl_file_open(&f, src, KL_FORMAT_NPZ, &c.err);
    if (!c.err) map = load_all(&c, f, load.ctx);
    kl_file_close(f);
    kl_source_release(src);
    return end_map(&c, res, map);
}

int keel_npz_save(const char *path, const mlx_map_string_to_array arrays, bool compressed) {
    struct kl_call c = {.func = __func__};
    kl_need(&c, path, "path");
    struct kl_map *map = kl_in_map(&c, arrays.ctx, "arrays");
    struct kl_named *list = NULL;
    if (!c.err && !(list = kl_calloc(map->n + 1, sizeof *list))) kl_fail_nomem(&c.err);
    if (!c.err) {
        for (size_t i = 0; i < map->n; i++)
            list[i] = (struct kl_named){map->entries[i].key, map->entries[i].value};
        kl_save_npz(path, list, map->n, compressed, &c.err);
    }
    kl_free(list);
    return kl_call_end_plain(&c);
}
