/* save.c - saving .npy and .safetensors. All arrays are evaluated before the first byte is written.
 *
 * The same arrays give the same file. In a .safetensors file the tensors are ordered by the size of
 * their elements, largest first (so that all data is aligned to its type), then by name; the
 * metadata is ordered by key. The header is padded with spaces to a multiple of 8. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "io/file.h"
#include "io/safetensors.h"
#include "io/sink.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "arrays are written as they lie in memory");

bool kl_utf8_valid(const char *text) {
    const unsigned char *p = (const unsigned char *)text;
    while (*p) {
        unsigned c = *p++;
        if (c < 0x80) continue;
        int more = c >= 0xf0 ? 3 : c >= 0xe0 ? 2 : 1;
        if (c < 0xc2 || c > 0xf4) return false;
        unsigned long code = c & (0x3fu >> more);
        for (int i = 0; i < more; i++, p++) {
            if ((*p & 0xc0) != 0x80) return false;
            code = code << 6 | (*p & 0x3f);
        }
        bool overlong = (more == 2 && code < 0x800) || (more == 3 && code < 0x10000);
        if (overlong || code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) return false;
    }
    return true;
}

int kl_save_prepare(const struct kl_named *tensors, size_t n, struct kl_error **err) {
    struct kl_array **arrays = kl_calloc(n + 1, sizeof *arrays);
    if (!arrays) return kl_fail_nomem(err);
    int rc = KL_OK;
    for (size_t i = 0; i < n && !rc; i++) {
        arrays[i] = tensors[i].array;
        if (!arrays[i])
            rc = kl_fail(err, KL_EARG, "save: '%.100s' is an empty array handle", tensors[i].name);
        else if (arrays[i]->t.ndim > KL_FILE_MAX_NDIM)
            rc = kl_fail(err, KL_ESHAPE, "save: '%.100s' has %d dimensions, files take 64",
                         tensors[i].name, arrays[i]->t.ndim);
    }
    if (!rc) rc = kl_eval(arrays, n, err);
    kl_free(arrays);
    return rc;
}

/* ---- .npy ---- */
int kl_save_npy(struct kl_dest to, struct kl_array *a, struct kl_error **err) {
    struct kl_named one = {"array", a};
    struct kl_sink k;
    char head[KL_NPY_HEAD_MAX];
    KL_TRY(kl_save_prepare(&one, 1, err));
    KL_TRY(kl_sink_open(&k, to, kl_format_npy.suffix, err));
    size_t n = kl_npy_write_head(head, a->t.dtype, a->t.ndim, a->t.dims);
    int rc = kl_sink_write(&k, head, n, NULL, err);
    if (!rc) rc = kl_sink_array(&k, a, NULL, err);
    if (!rc) return kl_sink_finish(&k, err);
    kl_sink_abort(&k);
    return rc;
}

/* ---- .safetensors ---- */
static int compare_tensors(const void *pa, const void *pb) {
    const struct kl_named *a = pa, *b = pb;
    size_t size_a = kl_dtype_size(a->array->t.dtype), size_b = kl_dtype_size(b->array->t.dtype);
    if (size_a != size_b) return size_a > size_b ? -1 : 1;
    return strcmp(a->name, b->name);
}

static int compare_pairs(const void *a, const void *b) {
    return strcmp(((const struct kl_pair *)a)->key, ((const struct kl_pair *)b)->key);
}

static int check_names(const struct kl_named *tensors, size_t n, const struct kl_pair *metadata,
                       size_t n_metadata, struct kl_error **err) {
    for (size_t i = 0; i < n; i++) {
        if (!kl_utf8_valid(tensors[i].name))
            return kl_fail(err, KL_EARG, "save: a tensor's name is not UTF-8");
        if (!strcmp(tensors[i].name, "__metadata__"))
            return kl_fail(err, KL_EARG,
                           "save: a tensor cannot be named __metadata__ in a safetensors file");
    }
    for (size_t i = 0; i < n_metadata; i++)
        if (!kl_utf8_valid(metadata[i].key) || !kl_utf8_valid(metadata[i].value))
            return kl_fail(err, KL_EARG, "save: metadata '%.100s' is not UTF-8", metadata[i].key);
    return KL_OK;
}

/* These functions take the new value also when they fail, as jansson's _new functions do. */
static json_t *entry_of(const struct kl_tensor *t, uint64_t begin, uint64_t end) {
    json_t *entry = json_object(), *shape = json_array();
    bool ok = entry && shape;
    for (int i = 0; i < t->ndim && ok; i++)
        ok = !json_array_append_new(shape, json_integer(t->dims[i]));
    ok = ok && !json_object_set_new(entry, "dtype", json_string(kl_safetensors_dtypes[t->dtype]));
    ok = ok && !json_object_set(entry, "shape", shape);
    ok = ok && !json_object_set_new(entry, "data_offsets",
                                    json_pack("[I,I]", (json_int_t)begin, (json_int_t)end));
    json_decref(shape);
    if (ok) return entry;
    json_decref(entry);
    return NULL;
}

/* The JSON text, to be freed with free(). NULL means no memory, since all the text is valid
 * UTF-8. */
static char *header_text(const struct kl_named *tensors, size_t n, const struct kl_pair *metadata,
                         size_t n_metadata) {
    json_t *top = json_object();
    bool ok = top != NULL;
    if (ok && n_metadata) {
        json_t *all = json_object();
        ok = all && !json_object_set_new(top, "__metadata__", all);
        for (size_t i = 0; i < n_metadata && ok; i++)
            ok = !json_object_set_new(all, metadata[i].key, json_string(metadata[i].value));
    }
    uint64_t at = 0;
    for (size_t i = 0; i < n && ok; i++) {
        const struct kl_tensor *t = &tensors[i].array->t;
        uint64_t end = at + (uint64_t)t->size * kl_dtype_size(t->dtype);
        ok = !json_object_set_new(top, tensors[i].name, entry_of(t, at, end));
        at = end;
    }
    char *text = ok ? json_dumps(top, JSON_COMPACT) : NULL;
    json_decref(top);
    return text;
}

static int write_header(struct kl_sink *k, const char *text, struct kl_error **err) {
    size_t n = strlen(text), padded = (n + 7) & ~(size_t)7;
    unsigned char prefix[8];
    for (int i = 0; i < 8; i++) prefix[i] = (unsigned char)((uint64_t)padded >> 8 * i);
    if (padded > KL_HEADER_MAX) return kl_fail(err, KL_ELIMIT, "save: the header is over 100 MB");
    KL_TRY(kl_sink_write(k, prefix, 8, NULL, err));
    KL_TRY(kl_sink_write(k, text, n, NULL, err));
    return kl_sink_write(k, "       ", padded - n, NULL, err);
}

static int write_safetensors(struct kl_dest to, const struct kl_named *tensors, size_t n,
                             const char *text, struct kl_error **err) {
    struct kl_sink k;
    KL_TRY(kl_sink_open(&k, to, kl_format_safetensors.suffix, err));
    int rc = write_header(&k, text, err);
    for (size_t i = 0; i < n && !rc; i++)
        rc = kl_sink_array(&k, tensors[i].array, tensors[i].name, err);
    if (!rc) return kl_sink_finish(&k, err);
    kl_sink_abort(&k);
    return rc;
}

int kl_save_safetensors(struct kl_dest to, const struct kl_named *tensors, size_t n,
                        const struct kl_pair *metadata, size_t n_metadata, struct kl_error **err) {
    KL_TRY(check_names(tensors, n, metadata, n_metadata, err));
    KL_TRY(kl_save_prepare(tensors, n, err));
    struct kl_named *sorted = kl_calloc(n + 1, sizeof *sorted);
    struct kl_pair *pairs = kl_calloc(n_metadata + 1, sizeof *pairs);
    int rc = KL_OK;
    if (!sorted || !pairs) {
        rc = kl_fail_nomem(err);
        goto out;
    }
    if (n) memcpy(sorted, tensors, n * sizeof *sorted);
    if (n_metadata) memcpy(pairs, metadata, n_metadata * sizeof *pairs);
    qsort(sorted, n, sizeof *sorted, compare_tensors);
    qsort(pairs, n_metadata, sizeof *pairs, compare_pairs);
    for (size_t i = 1; i < n && !rc; i++)
        if (!strcmp(sorted[i - 1].name, sorted[i].name))
            rc = kl_fail(err, KL_EARG, "save: '%.100s' is given twice", sorted[i].name);
    if (rc) goto out;
    char *text = header_text(sorted, n, pairs, n_metadata);
    rc = text ? write_safetensors(to, sorted, n, text, err) : kl_fail_nomem(err);
    free(text);
out:
    kl_free(sorted);
    kl_free(pairs);
    return rc;
}
