/* safetensors.c - reading the header of a .safetensors file: a length, a JSON object, the data.
 *
 * The header must be consistent in itself, and every rule has its own message. What two readers
 * could understand differently (duplicate keys, overlaps, gaps, unknown fields, bytes after the
 * data) is refused. A file that is shorter than its header says is consistent: exactly the tensors
 * whose bytes are missing fail, when they are read. "__metadata__": null is accepted, because MLX
 * writes it for empty metadata. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "io/file.h"
#include "io/safetensors.h"

/* The name of each dtype in the format, by enum kl_dtype. */
const char *const kl_safetensors_dtypes[KL_N_DTYPES] = {
    [KL_BOOL] = "BOOL", [KL_U8] = "U8",   [KL_U16] = "U16",   [KL_U32] = "U32", [KL_U64] = "U64",
    [KL_I8] = "I8",     [KL_I16] = "I16", [KL_I32] = "I32",   [KL_I64] = "I64", [KL_F16] = "F16",
    [KL_F32] = "F32",   [KL_F64] = "F64", [KL_BF16] = "BF16", [KL_C64] = "C64",
};

#define BAD(tensor, ...) \
    kl_file_fail(f, KL_EFORMAT, tensor, err, "safetensors header: " __VA_ARGS__)

static int parse_dtype(struct kl_file *f, struct kl_file_tensor *t, const json_t *v,
                       struct kl_error **err) {
    if (!json_is_string(v)) return BAD(t->name, "'%.100s': dtype is not a string", t->name);
    for (int d = 0; d < KL_N_DTYPES; d++) {
        if (strcmp(json_string_value(v), kl_safetensors_dtypes[d])) continue;
        t->dtype = (enum kl_dtype)d;
        return KL_OK;
    }
    return kl_file_fail(f, KL_EDTYPE, t->name, err,
                        "safetensors header: '%.100s': dtype %.40s is not taken", t->name,
                        json_string_value(v));
}

static int parse_shape(struct kl_file *f, struct kl_file_tensor *t, const json_t *v,
                       struct kl_error **err) {
    if (!json_is_array(v)) return BAD(t->name, "'%.100s': shape is not a list", t->name);
    size_t n = json_array_size(v);
    if (n > KL_FILE_MAX_NDIM) return BAD(t->name, "'%.100s': more than 64 dimensions", t->name);
    int *dims = kl_file_alloc(f, n * sizeof *dims);
    if (!dims) return kl_fail_nomem(err);
    for (size_t i = 0; i < n; i++) {
        const json_t *dim = json_array_get(v, i);
        if (!json_is_integer(dim) || json_integer_value(dim) < 0)
            return BAD(t->name, "'%.100s': shape is not a list of non-negative integers", t->name);
        if (json_integer_value(dim) > INT32_MAX)
            return BAD(t->name, "'%.100s': a dimension is over 2147483647", t->name);
        dims[i] = (int)json_integer_value(dim);
    }
    t->ndim = (int)n;
    t->dims = dims;
    return KL_OK;
}

static int parse_offsets(struct kl_file *f, struct kl_file_tensor *t, const json_t *v,
                         struct kl_error **err) {
    const json_t *begin = json_array_get(v, 0),
                 *end = json_array_get(v, 1); /* NULL when v is not an array */
    if (json_array_size(v) != 2 || !json_is_integer(begin) || !json_is_integer(end) ||
        json_integer_value(begin) < 0 || json_integer_value(end) < 0)
        return BAD(t->name, "'%.100s': data_offsets are not two non-negative integers", t->name);
    t->begin = (uint64_t)json_integer_value(begin);
    t->end = (uint64_t)json_integer_value(end);
    if (t->begin > t->end)
        return BAD(t->name, "'%.100s': data_offsets begin behind their end", t->name);
    if (t->end > (uint64_t)1 << 62)
        return BAD(t->name, "'%.100s': data_offsets are over 2^62", t->name);
    return KL_OK;
}

static int parse_tensor(struct kl_file *f, const char *name, json_t *entry, struct kl_error **err) {
    struct kl_file_tensor t = {.name = kl_file_text(f, name, strlen(name))};
    if (!t.name) return kl_fail_nomem(err);
    if (!json_is_object(entry)) return BAD(t.name, "'%.100s' is not an object", t.name);
    static const char *const keys[] = {"dtype", "shape", "data_offsets"};
    for (int i = 0; i < 3; i++)
        if (!json_object_get(entry, keys[i]))
            return BAD(t.name, "'%.100s' has no %s", t.name, keys[i]);
    if (json_object_size(entry) != 3)
        return BAD(t.name, "'%.100s' has a field that is none of dtype, shape, data_offsets",
                   t.name);
    KL_TRY(parse_dtype(f, &t, json_object_get(entry, "dtype"), err));
    KL_TRY(parse_shape(f, &t, json_object_get(entry, "shape"), err));
    KL_TRY(parse_offsets(f, &t, json_object_get(entry, "data_offsets"), err));
    if (!kl_file_tensor_bytes(&t, &t.bytes))
        return BAD(t.name, "'%.100s': the shape has too many elements", t.name);
    if (t.bytes != t.end - t.begin)
        return BAD(t.name, "'%.100s': data_offsets hold %llu bytes, shape and dtype need %llu",
                   t.name, (unsigned long long)(t.end - t.begin), (unsigned long long)t.bytes);
    return kl_file_add(f, &t, err);
}

static int compare_pairs(const void *a, const void *b) {
    return strcmp(((const struct kl_pair *)a)->key, ((const struct kl_pair *)b)->key);
}

static int parse_metadata(struct kl_file *f, json_t *all, struct kl_error **err) {
    if (json_is_null(all)) return KL_OK;
    if (!json_is_object(all)) return BAD(NULL, "__metadata__ is not an object");
    const char *key;
    json_t *value;
    f->metadata = kl_calloc(json_object_size(all) + 1, sizeof *f->metadata);
    if (!f->metadata) return kl_fail_nomem(err);
    json_object_foreach(all, key, value) {
        if (!json_is_string(value)) return BAD(NULL, "__metadata__ '%.100s' is not a string", key);
        struct kl_pair *p = &f->metadata[f->n_metadata];
        p->key = kl_file_text(f, key, strlen(key));
        p->value = kl_file_text(f, json_string_value(value), json_string_length(value));
        if (!p->key || !p->value) return kl_fail_nomem(err);
        f->n_metadata++;
    }
    qsort(f->metadata, f->n_metadata, sizeof *f->metadata, compare_pairs);
    return KL_OK;
}

static int compare_ranges(const void *pa, const void *pb) {
    const struct kl_file_tensor *a = pa, *b = pb;
    if (a->begin != b->begin) return a->begin < b->begin ? -1 : 1;
    if (a->end != b->end) return a->end < b->end ? -1 : 1;
    return strcmp(a->name, b->name);
}

/* Checks that the ranges cover [0, declared) in order, without gaps or overlaps. Then makes them
 * absolute and marks the tensors whose bytes the file lacks. */
static int place_tensors(struct kl_file *f, uint64_t data_begin, uint64_t size,
                         struct kl_error **err) {
    uint64_t at = 0;
    const char *before = NULL;
    if (f->n) qsort(f->tensors, f->n, sizeof *f->tensors, compare_ranges);
    for (size_t i = 0; i < f->n; i++) {
        struct kl_file_tensor *t = &f->tensors[i];
        if (t->begin < at)
            return BAD(t->name, "the data of '%.100s' and '%.100s' overlap", before, t->name);
        if (t->begin > at && !before)
            return BAD(t->name, "no tensor has the first %llu bytes of the data",
                       (unsigned long long)t->begin);
        if (t->begin > at)
            return BAD(t->name, "a gap of %llu bytes between the data of '%.100s' and '%.100s'",
                       (unsigned long long)(t->begin - at), before, t->name);
        at = t->end;
        before = t->name;
        t->begin += data_begin;
        t->end += data_begin;
        t->missing = t->bytes && t->end > size; /* false when size is unknown: it is UINT64_MAX */
    }
    /* A custom reader may read from a buffer that is longer than the file in it. */
    if (!kl_source_is_custom(f->source) && size > data_begin + at)
        return BAD(NULL, "%llu bytes after the data that the header declares",
                   (unsigned long long)(size - data_begin - at));
    return KL_OK;
}

static int parse_json(struct kl_file *f, json_t **out, const char *text, size_t n,
                      struct kl_error **err) {
    json_error_t why;
    *out = json_loadb(text, n, JSON_REJECT_DUPLICATES, &why);
    if (*out) return KL_OK;
    switch (json_error_code(&why)) {
    case json_error_out_of_memory: return kl_fail_nomem(err);
    case json_error_duplicate_key: return BAD(NULL, "a key appears twice: %.100s", why.text);
    case json_error_invalid_utf8: return BAD(NULL, "not valid UTF-8 at byte %d", why.position + 8);
    default: return BAD(NULL, "not valid JSON at byte %d: %.200s", why.position + 8, why.text);
    }
}

static int parse_header(struct kl_file *f, const char *text, uint64_t n, uint64_t size,
                        struct kl_error **err) {
    if (text[0] != '{') return BAD(NULL, "it does not start with '{'");
    json_t *top, *entry;
    const char *name;
    KL_TRY(parse_json(f, &top, text, n, err));
    int rc = KL_OK;
    json_object_foreach(top, name, entry) {
        rc = strcmp(name, "__metadata__") ? parse_tensor(f, name, entry, err)
                                          : parse_metadata(f, entry, err);
        if (rc) break;
    }
    json_decref(top);
    return rc ? rc : place_tensors(f, 8 + n, size, err);
}

int kl_safetensors_open(struct kl_file *f, uint64_t size, struct kl_error **err) {
    unsigned char prefix[8];
    uint64_t n = 0;
    if (size == 0) return BAD(NULL, "the file is empty");
    if (size < 8) return BAD(NULL, "the file is too short for the length of a header");
    KL_TRY(kl_source_read_header(f->source, prefix, 8, 0, err));
    for (int i = 7; i >= 0; i--) n = n << 8 | prefix[i];
    if (n == 0) return BAD(NULL, "its length is 0");
    if (n > KL_HEADER_MAX) return BAD(NULL, "it is over 100 MB: %llu bytes", (unsigned long long)n);
    if (n > size - 8) /* false when size is unknown, because it is UINT64_MAX then */
        return BAD(NULL, "it is longer than the file: %llu bytes of %llu", (unsigned long long)n,
                   (unsigned long long)size);
    char *text = kl_malloc(n);
    if (!text) return kl_fail_nomem(err);
    int rc = kl_source_read_header(f->source, text, n, 8, err);
    if (!rc) rc = parse_header(f, text, n, size, err);
    kl_free(text);
    return rc;
}
