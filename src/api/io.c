/* io.c - mlx/c/io.h and io_types.h: files and custom readers. The handle of a reader points to
 * its source (io/io.h), which is shared with the arrays loaded through it. */

#include "api/handles/handles.h"
#include "base/alloc.h"
#include "io/io.h"

/* ---- readers and writers ---- */
static struct kl_source *source_new(const char *func, void *desc, const mlx_io_vtable *t) {
    struct kl_call c = {.func = func};
    struct kl_source *made = NULL;
    const struct kl_reader_ops ops = {
        .is_open = t->is_open,
        .good = t->good,
        .tell = t->tell,
        .seek = t->seek,
        .read = t->read,
        .read_at_offset = t->read_at_offset,
        .write = t->write,
        .label = t->label,
        .free = t->free,
    };
    kl_source_new_reader(&made, &ops, desc, &c.err);
    kl_call_end_plain(&c);
    return made;
}

static struct kl_source *in_source(struct kl_call *c, void *ctx, const char *what) {
    if (!ctx) kl_fail(&c->err, KL_EARG, "%s is an empty handle", what);
    return ctx;
}

static int descriptor(const char *func, void **desc, void *ctx) {
    struct kl_call c = kl_call_begin(func, desc);
    const struct kl_source *src = in_source(&c, ctx, "io");
    if (!c.err) *desc = kl_source_desc(src);
    return kl_call_end_plain(&c);
}

static int label(const char *func, mlx_string *str, void *ctx) {
    struct kl_call c = kl_call_begin(func, str);
    struct kl_source *src = in_source(&c, ctx, "io");
    return kl_call_end_text(&c, str, c.err ? NULL : kl_strdup(kl_source_label(src)));
}

mlx_io_reader mlx_io_reader_new(void *desc, mlx_io_vtable vtable) {
    return (mlx_io_reader){source_new(__func__, desc, &vtable)};
}

int mlx_io_reader_descriptor(void **desc_, mlx_io_reader io) {
    return descriptor(__func__, desc_, io.ctx);
}

int mlx_io_reader_tostring(mlx_string *str_, mlx_io_reader io) {
    return label(__func__, str_, io.ctx);
}

int mlx_io_reader_free(mlx_io_reader io) {
    kl_source_release(io.ctx);
    return 0;
}

mlx_io_writer mlx_io_writer_new(void *desc, mlx_io_vtable vtable) {
    return (mlx_io_writer){source_new(__func__, desc, &vtable)};
}

int mlx_io_writer_descriptor(void **desc_, mlx_io_writer io) {
    return descriptor(__func__, desc_, io.ctx);
}

int mlx_io_writer_tostring(mlx_string *str_, mlx_io_writer io) {
    return label(__func__, str_, io.ctx);
}

int mlx_io_writer_free(mlx_io_writer io) {
    kl_source_release(io.ctx);
    return 0;
}

/* ---- loading ----
 * The loaders take a reference to the source, which is NULL when an error is noted. */
static struct kl_source *open_file(struct kl_call *c, const char *file) {
    struct kl_source *src = NULL;
    kl_need(c, file, "file");
    if (!c->err) kl_source_open_file(&src, file, &c->err);
    return src;
}

static struct kl_source *share(struct kl_call *c, mlx_io_reader reader) {
    struct kl_source *src = in_source(c, reader.ctx, "in_stream");
    return src ? kl_source_retain(src) : NULL;
}

static int load_npy(struct kl_call *c, mlx_array *res, struct kl_source *src) {
    struct kl_array *out = NULL;
    if (!c->err) kl_load_npy(&out, src, &c->err);
    kl_source_release(src);
    return kl_call_end(c, res, out);
}

int mlx_load(mlx_array *res, const char *file, const mlx_stream s) {
    struct kl_call c = kl_call_begin(__func__, res);
    kl_in_stream(&c, s);
    return load_npy(&c, res, open_file(&c, file));
}

int mlx_load_reader(mlx_array *res, mlx_io_reader in_stream, const mlx_stream s) {
    struct kl_call c = kl_call_begin(__func__, res);
    kl_in_stream(&c, s);
    return load_npy(&c, res, share(&c, in_stream));
}

static void file_to_maps(struct kl_call *c, struct kl_file *f, struct kl_map *tensors,
                         struct kl_map *metadata) {
    for (size_t i = 0; !c->err && i < f->n; i++) {
        struct kl_array *a = NULL;
        if (kl_file_array(&a, f, i, NULL, &c->err)) return;
        kl_map_insert(tensors, f->tensors[i].name, a, &c->err);
        kl_array_release(a);
    }
    for (size_t i = 0; !c->err && i < f->n_metadata; i++)
        kl_map_insert(metadata, f->metadata[i].key, f->metadata[i].value, &c->err);
}

/* Moves the content of `made` (taken) into *ctx. */
static void assign_map(void **ctx, struct kl_map *made) {
    if (*ctx) {
        kl_map_move(*ctx, made);
        kl_map_release(made);
    } else {
        *ctx = made;
    }
}

static int load_safetensors(struct kl_call *c, mlx_map_string_to_array *res_0,
                            mlx_map_string_to_string *res_1, struct kl_source *src) {
    struct kl_file *f = NULL;
    struct kl_map *tensors = c->err ? NULL : kl_map_new(&kl_map_of_arrays, &c->err);
    struct kl_map *metadata = c->err ? NULL : kl_map_new(&kl_map_of_strings, &c->err);
    if (!c->err && kl_file_open(&f, src, KL_FORMAT_SAFETENSORS, &c->err) == 0)
        file_to_maps(c, f, tensors, metadata);
    kl_file_close(f);
    kl_source_release(src);
    if (c->err) {
        kl_map_release(tensors);
        kl_map_release(metadata);
    } else {
        assign_map(&res_0->ctx, tensors);
        assign_map(&res_1->ctx, metadata);
    }
    return kl_call_end_plain(c);
}

int mlx_load_safetensors(mlx_map_string_to_array *res_0, mlx_map_string_to_string *res_1,
                         const char *file, const mlx_stream s) {
    struct kl_call c = kl_call_begin(__func__, res_0);
    kl_need(&c, res_1, "the second result");
    kl_in_stream(&c, s);
    return load_safetensors(&c, res_0, res_1, open_file(&c, file));
}

int mlx_load_safetensors_reader(mlx_map_string_to_array *res_0, mlx_map_string_to_string *res_1,
                                mlx_io_reader in_stream, const mlx_stream s) {
    struct kl_call c = kl_call_begin(__func__, res_0);
    kl_need(&c, res_1, "the second result");
    kl_in_stream(&c, s);
    return load_safetensors(&c, res_0, res_1, share(&c, in_stream));
}

/* ---- saving ---- */
static int save_npy(struct kl_call *c, struct kl_dest to, mlx_array array) {
    struct kl_array *a = kl_in(c, array, "a");
    if (!c->err) kl_save_npy(to, a, &c->err);
    return kl_call_end_plain(c);
}

int mlx_save(const char *file, const mlx_array a) {
    struct kl_call c = {.func = __func__};
    kl_need(&c, file, "file");
    return save_npy(&c, (struct kl_dest){.path = file}, a);
}

int mlx_save_writer(mlx_io_writer out_stream, const mlx_array a) {
    struct kl_call c = {.func = __func__};
    struct kl_source *to = in_source(&c, out_stream.ctx, "out_stream");
    return save_npy(&c, (struct kl_dest){.writer = to}, a);
}

static int save_safetensors(struct kl_call *c, struct kl_dest to, mlx_map_string_to_array param,
                            mlx_map_string_to_string metadata) {
    const struct kl_map *arrays = kl_in_map(c, param.ctx, "param");
    const struct kl_map *texts = kl_in_map(c, metadata.ctx, "metadata");
    struct kl_named *tensors = NULL;
    struct kl_pair *pairs = NULL;
    if (c->err) return kl_call_end_plain(c);
    tensors = kl_malloc(arrays->n * sizeof *tensors);
    pairs = kl_malloc(texts->n * sizeof *pairs);
    if (tensors && pairs) {
        for (size_t i = 0; i < arrays->n; i++)
            tensors[i] = (struct kl_named){arrays->entries[i].key, arrays->entries[i].value};
        for (size_t i = 0; i < texts->n; i++)
            pairs[i] = (struct kl_pair){texts->entries[i].key, texts->entries[i].value};
        kl_save_safetensors(to, tensors, arrays->n, pairs, texts->n, &c->err);
    } else {
        kl_fail_nomem(&c->err);
    }
    kl_free(tensors);
    kl_free(pairs);
    return kl_call_end_plain(c);
}

int mlx_save_safetensors(const char *file, const mlx_map_string_to_array param,
                         const mlx_map_string_to_string metadata) {
    struct kl_call c = {.func = __func__};
    kl_need(&c, file, "file");
    return save_safetensors(&c, (struct kl_dest){.path = file}, param, metadata);
}

int mlx_save_safetensors_writer(mlx_io_writer in_stream, const mlx_map_string_to_array param,
                                const mlx_map_string_to_string metadata) {
    struct kl_call c = {.func = __func__};
    struct kl_source *to = in_source(&c, in_stream.ctx, "in_stream");
    return save_safetensors(&c, (struct kl_dest){.writer = to}, param, metadata);
}
