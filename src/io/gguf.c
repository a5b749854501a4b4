/* gguf.c - reading the header of a .gguf file, version 2 or 3: counts, typed metadata, descriptions
 * of tensors, and after them the data, aligned.
 *
 * Every count and length is checked before memory is taken for it, and every rule has its own
 * message. A tensor of a type that is not taken fails alone, with the name of the type, and so does
 * one whose bytes are missing. Dimensions stand in the file with the one that varies fastest first.
 * A quantized "x.weight" whose type fits gives three arrays: x.weight, x.scales and x.biases. */
#include "io/gguf.h"

#include <string.h>

#include "base/alloc.h"
#include "io/sink.h"

enum {
    BUFFER = 64 << 10,
    LEAST_KEY_VALUE = 8 + 1 + 4 + 1,
    LEAST_TENSOR = 8 + 1 + 4 + 4 + 8,
    DEFAULT_ALIGNMENT = 32
};

struct reader {
    struct kl_file *f;
    uint64_t size, at; /* at: bytes of the file that were taken */
    uint64_t begin, n; /* the buffer has n bytes from byte `begin` on */
    struct kl_error **err;
    unsigned char *buffer;
    struct kl_pile values, texts, tensors;
};

#define BAD(...) kl_file_fail(r->f, KL_EFORMAT, NULL, r->err, "gguf header: " __VA_ARGS__)

/* Bytes that the header can still have. */
static uint64_t left(const struct reader *r) {
    uint64_t end = r->size < KL_HEADER_MAX ? r->size : KL_HEADER_MAX;
    return end - r->at;
}

static int take(struct reader *r, void *to, uint64_t n) {
    if (n > left(r))
        return r->size <= KL_HEADER_MAX
                   ? BAD("the file ends at byte %llu, within it", (unsigned long long)r->size)
                   : BAD("it is over 100 MB");
    unsigned char *p = to;
    while (n) {
        if (r->at - r->begin >= r->n) {
            uint64_t more = left(r) < BUFFER ? left(r) : BUFFER;
            /* Of a source of unknown size only what is needed is asked for. */
            if (r->size == KL_SIZE_UNKNOWN) more = n < BUFFER ? n : BUFFER;
            KL_TRY(kl_source_read_header(r->f->source, r->buffer, more, r->at, r->err));
            r->begin = r->at;
            r->n = more;
        }
        uint64_t here = r->begin + r->n - r->at, part = here < n ? here : n;
        memcpy(p, r->buffer + (r->at - r->begin), part);
        p += part;
        r->at += part;
        n -= part;
    }
    return KL_OK;
}

static int take_u32(struct reader *r, uint32_t *v) {
    return take(r, v, 4);
}

static int take_u64(struct reader *r, uint64_t *v) {
    return take(r, v, 8);
}

static int take_text(struct reader *r, const char **text, uint64_t *n, const char *what,
                     uint64_t most) {
    KL_TRY(take_u64(r, n));
    if (*n > most || *n > left(r))
        return BAD("the length of %s is %llu", what, (unsigned long long)*n);
    char *p = kl_file_alloc(r->f, *n + 1, 1);
    if (!p) return kl_fail_nomem(r->err);
    KL_TRY(take(r, p, *n));
    p[*n] = 0;
    *text = p;
    return KL_OK;
}

/* A key or name: some UTF-8 without a 0. */
static int take_name(struct reader *r, const char **text, const char *what, uint64_t most) {
    uint64_t n;
    KL_TRY(take_text(r, text, &n, what, most));
    if (n == 0) return BAD("%s is empty", what);
    if (strlen(*text) != n || !kl_utf8_valid(*text)) return BAD("%s is not UTF-8", what);
    return KL_OK;
}

/* ---- metadata ---- */

enum { N_TYPES = 13 };

int kl_gguf_value_type(enum kl_dtype dtype) {
    static const int8_t types[KL_N_DTYPES] = {
#define KL_DTYPE(ID, mlx, name, bytes, kind, dialect, cuda, npy, safetensors, gguf, gguf_value, \
                 ...)                                                                           \
    [KL_##ID] = gguf_value,
#include "base/number/dtype.def"
    };
    return types[dtype];
}

/* The dtype of a type of metadata below N_TYPES that is numbers. */
static enum kl_dtype value_dtype(uint32_t type) {
    int d = 0;
    while (d < KL_N_DTYPES - 1 && kl_gguf_value_type((enum kl_dtype)d) != (int)type) d++;
    return (enum kl_dtype)d;
}

static int take_numbers(struct reader *r, struct kl_gguf_value *v, uint32_t type, uint64_t n) {
    const enum kl_dtype dtype = value_dtype(type);
    const size_t item = kl_dtype_size(dtype);
    if (n > left(r) / item)
        return BAD("'%.100s': %llu numbers do not fit", v->key, (unsigned long long)n);
    if (n > INT32_MAX) return BAD("'%.100s' has over 2147483647 numbers", v->key);
    unsigned char *p = kl_file_alloc(r->f, n * item, item);
    if (!p) return kl_fail_nomem(r->err);
    KL_TRY(take(r, p, n * item));
    if (dtype == KL_BOOL)
        for (uint64_t i = 0; i < n; i++)
            if (p[i] > 1) return BAD("'%.100s': a bool is %d", v->key, p[i]);
    v->kind = KL_GGUF_ARRAY;
    v->dtype = (uint8_t)dtype;
    v->data = p;
    v->n = (uint32_t)n;
    return KL_OK;
}

static int take_texts(struct reader *r, struct kl_gguf_value *v, uint64_t n) {
    uint64_t bytes;
    if (n > left(r) / 8)
        return BAD("'%.100s': %llu strings do not fit", v->key, (unsigned long long)n);
    for (uint64_t i = 0; i < n; i++) {
        const char *text;
        KL_TRY(take_text(r, &text, &bytes, "a string", UINT64_MAX));
        if (!kl_pile_add(&r->texts, &text)) return kl_fail_nomem(r->err);
    }
    const char **texts = kl_file_alloc(r->f, n * sizeof *texts, sizeof *texts);
    if (!texts) return kl_fail_nomem(r->err);
    kl_pile_join(&r->texts, texts);
    v->kind = KL_GGUF_STRINGS;
    v->texts = texts;
    v->n = (uint32_t)n;
    return KL_OK;
}

static int take_value(struct reader *r, struct kl_gguf_value *v) {
    uint32_t type;
    uint64_t n = 1;
    KL_TRY(take_u32(r, &type));
    if (type == KL_GGUF_TYPE_ARRAY) {
        v->is_list = true;
        KL_TRY(take_u32(r, &type));
        KL_TRY(take_u64(r, &n));
        if (type == KL_GGUF_TYPE_ARRAY) return BAD("'%.100s' is a list of lists", v->key);
    }
    if (type >= N_TYPES)
        return BAD("'%.100s' has type %lu, which there is not", v->key, (unsigned long)type);
    if (type != KL_GGUF_TYPE_STRING) return take_numbers(r, v, type, n);
    KL_TRY(take_texts(r, v, n));
    if (!v->is_list) v->kind = KL_GGUF_STRING;
    return KL_OK;
}

static int compare_values(const void *a, const void *b) {
    return strcmp(((const struct kl_gguf_value *)a)->key, ((const struct kl_gguf_value *)b)->key);
}

static int take_metadata(struct reader *r, uint64_t n) {
    struct kl_file *f = r->f;
    if (n > left(r) / LEAST_KEY_VALUE) return BAD("%llu values do not fit", (unsigned long long)n);
    for (uint64_t i = 0; i < n; i++) {
        struct kl_gguf_value v = {0};
        KL_TRY(take_name(r, &v.key, "a key", KL_GGUF_MAX_KEY));
        KL_TRY(take_value(r, &v));
        if (!kl_pile_add(&r->values, &v)) return kl_fail_nomem(r->err);
    }
    f->values = kl_malloc(n * sizeof *f->values);
    if (!f->values) return kl_fail_nomem(r->err);
    kl_pile_join(&r->values, f->values);
    f->n_values = n;
    kl_file_sort(f->values, n, sizeof *f->values, compare_values);
    for (size_t i = 1; i < f->n_values; i++)
        if (strcmp(f->values[i - 1].key, f->values[i].key) == 0)
            return BAD("the key '%.100s' appears twice", f->values[i].key);
    return KL_OK;
}

bool kl_gguf_alignment(const struct kl_gguf_value *values, size_t n, uint32_t *alignment) {
    *alignment = DEFAULT_ALIGNMENT;
    for (size_t i = 0; i < n; i++) {
        const struct kl_gguf_value *v = &values[i];
        if (strcmp(v->key, "general.alignment") != 0) continue;
        if (v->kind != KL_GGUF_ARRAY || v->is_list || v->dtype != KL_U32) return false;
        memcpy(alignment, v->data, 4);
        return *alignment > 0 && *alignment % 8 == 0 && *alignment <= 1 << 20;
    }
    return true;
}

/* ---- tensors ---- */

struct described { /* a tensor as it stands in the header */
    const char *name;
    const int *dims;
    uint64_t begin;
    uint32_t type;
    int ndim;
};

static int take_dims(struct reader *r, struct described *t) {
    uint32_t n;
    KL_TRY(take_u32(r, &n));
    if (n > KL_GGUF_MAX_DIMS)
        return BAD("'%.100s' has %lu dimensions, at most 8 are taken", t->name, (unsigned long)n);
    int *dims = kl_file_alloc(r->f, n * sizeof *dims, sizeof *dims);
    if (!dims) return kl_fail_nomem(r->err);
    for (uint32_t i = 0; i < n; i++) {
        uint64_t d;
        KL_TRY(take_u64(r, &d));
        if (d > INT32_MAX) return BAD("'%.100s': a dimension is over 2147483647", t->name);
        dims[n - 1 - i] = (int)d;
    }
    t->ndim = (int)n;
    t->dims = dims;
    return KL_OK;
}

static int take_tensor(struct reader *r, uint64_t alignment) {
    struct described d = {0};
    KL_TRY(take_name(r, &d.name, "the name of a tensor", KL_GGUF_MAX_NAME));
    KL_TRY(take_dims(r, &d));
    KL_TRY(take_u32(r, &d.type));
    KL_TRY(take_u64(r, &d.begin));
    if (d.begin > (uint64_t)1 << 62) return BAD("'%.100s': its offset is over 2^62", d.name);
    if (d.begin % alignment)
        return BAD("'%.100s': its offset %llu is not a multiple of %llu", d.name,
                   (unsigned long long)d.begin, (unsigned long long)alignment);
    return kl_pile_add(&r->tensors, &d) ? KL_OK : kl_fail_nomem(r->err);
}

/* Fills *t from *d and returns the type of the tensor; NULL: it is of a type that is not taken. */
static const struct kl_gguf_type *tensor_of(const struct described *d, struct kl_file_tensor *t) {
    const char *name;
    const struct kl_gguf_type *type = kl_gguf_type(d->type, &name);
    *t = (struct kl_file_tensor){.name = d->name,
                                 .dtype = type ? type->dtype : KL_F16,
                                 .ndim = d->ndim,
                                 .dims = d->dims,
                                 .begin = d->begin,
                                 .end = d->begin,
                                 .refused = !type};
    if (!type) t->type_id = d->type;
    return type;
}

/* Sets the end of t. */
static int measure(struct reader *r, struct kl_file_tensor *t, const struct kl_gguf_type *type) {
    if (!kl_file_tensor_bytes(t, &t->bytes)) return BAD("'%.100s': too many elements", t->name);
    if (!type) return KL_OK;
    const int last = t->ndim ? t->dims[t->ndim - 1] : 1;
    if (last % type->elements)
        return BAD("'%.100s': its rows of %d are no multiple of the %d numbers of a block of %s",
                   t->name, last, type->elements, type->name);
    t->end = t->begin +
             t->bytes / kl_dtype_size(t->dtype) / (uint64_t)type->elements * (uint64_t)type->bytes;
    return KL_OK;
}

/* Tensors without data come before the one that begins at the same place. */
static int compare_places(const void *a, const void *b) {
    const struct described *x = a, *y = b;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    struct kl_file_tensor tx, ty;
    struct reader none = {0};
    measure(&none, &tx, tensor_of(x, &tx)); /* it has not failed before */
    measure(&none, &ty, tensor_of(y, &ty));
    return tx.end < ty.end ? -1 : tx.end > ty.end;
}

static bool stays_packed(const struct described *d, const struct kl_gguf_type *type) {
    const size_t n = strlen(d->name), suffix = strlen(".weight");
    return type && type->bits && d->ndim > 0 && n > suffix &&
           strcmp(d->name + n - suffix, ".weight") == 0;
}

static int add_part(struct reader *r, struct kl_file_tensor t, const struct kl_gguf_type *type,
                    enum kl_gguf_part part, const char *suffix) {
    const size_t stem = strlen(t.name) - strlen(".weight");
    char *name = kl_file_alloc(r->f, stem + strlen(suffix) + 1, 1);
    int *dims = kl_file_alloc(r->f, (size_t)t.ndim * sizeof *dims, sizeof *dims);
    if (!name || !dims) return kl_fail_nomem(r->err);
    memcpy(name, t.name, stem);
    strcpy(name + stem, suffix);
    memcpy(dims, t.dims, (size_t)t.ndim * sizeof *dims);
    dims[t.ndim - 1] /= part == KL_GGUF_CODES ? 32 / type->bits : type->elements;
    t.name = name;
    t.dims = dims;
    t.dtype = part == KL_GGUF_CODES ? KL_U32 : KL_F16;
    t.blocks = type;
    t.part = part;
    if (!kl_file_tensor_bytes(&t, &t.bytes)) return BAD("'%.100s': too many elements", name);
    return kl_file_add(r->f, &t, r->err);
}

/* The data of the file begin at `data`; the tensor before ends at *end, which this moves. */
static int add_tensor(struct reader *r, const struct described *d, uint64_t data,
                      const char **before, uint64_t *end) {
    struct kl_file_tensor t;
    const struct kl_gguf_type *type = tensor_of(d, &t);
    KL_TRY(measure(r, &t, type));
    if (*before && t.end > t.begin && t.begin < *end)
        return BAD("the data of '%.100s' and '%.100s' overlaps", *before, t.name);
    *before = t.name;
    *end = t.end;
    t.begin += data;
    t.end += data;
    t.missing = t.end > t.begin && t.end > r->size; /* false when the size is unknown */
    if (stays_packed(d, type)) {
        KL_TRY(add_part(r, t, type, KL_GGUF_CODES, ".weight"));
        KL_TRY(add_part(r, t, type, KL_GGUF_SCALES, ".scales"));
        return add_part(r, t, type, KL_GGUF_BIASES, ".biases");
    }
    if (type && type->values) {
        t.blocks = type;
        t.part = KL_GGUF_VALUES;
    }
    return kl_file_add(r->f, &t, r->err);
}

static int place(struct reader *r, struct described *all, size_t n, uint64_t data) {
    size_t n_arrays = 0;
    for (size_t i = 0; i < n; i++) {
        struct kl_file_tensor t;
        const struct kl_gguf_type *type = tensor_of(&all[i], &t);
        KL_TRY(measure(r, &t, type));
        n_arrays += stays_packed(&all[i], type) ? 3 : 1;
    }
    kl_file_sort(all, n, sizeof *all, compare_places);
    KL_TRY(kl_file_reserve(r->f, n_arrays, r->err));
    const char *before = NULL;
    uint64_t end = 0;
    for (size_t i = 0; i < n; i++) KL_TRY(add_tensor(r, &all[i], data, &before, &end));
    return KL_OK;
}

static int take_tensors(struct reader *r, uint64_t n, uint64_t alignment) {
    if (n > left(r) / LEAST_TENSOR) return BAD("%llu tensors do not fit", (unsigned long long)n);
    for (uint64_t i = 0; i < n; i++) KL_TRY(take_tensor(r, alignment));
    struct described *all = kl_malloc(n * sizeof *all);
    if (!all) return kl_fail_nomem(r->err);
    kl_pile_join(&r->tensors, all);
    int rc = place(r, all, n, (r->at + alignment - 1) / alignment * alignment);
    kl_free(all);
    if (rc) return rc;
    const char *twice;
    KL_TRY(kl_file_find_twice(r->f, &twice, r->err));
    return twice ? BAD("two tensors are '%.100s'", twice) : KL_OK;
}

static int read_all(struct reader *r) {
    char magic[4];
    uint32_t version;
    uint64_t n_tensors, n_values;
    uint32_t alignment;
    KL_TRY(take(r, magic, 4));
    if (memcmp(magic, "GGUF", 4) != 0) return BAD("it does not start with GGUF");
    KL_TRY(take_u32(r, &version));
    if (version != 2 && version != 3) {
        const bool swapped = version == 0x02000000 || version == 0x03000000;
        return BAD("version %lu%s; 2 and 3 are taken",
                   (unsigned long)(swapped ? version >> 24 : version),
                   swapped ? " in the other byte order" : "");
    }
    KL_TRY(take_u64(r, &n_tensors));
    KL_TRY(take_u64(r, &n_values));
    if (n_tensors > left(r) / LEAST_TENSOR)
        return BAD("%llu tensors do not fit", (unsigned long long)n_tensors);
    KL_TRY(take_metadata(r, n_values));
    if (!kl_gguf_alignment(r->f->values, r->f->n_values, &alignment))
        return BAD("general.alignment is no uint32 that is a multiple of 8 up to 2^20");
    return take_tensors(r, n_tensors, alignment);
}

static int gguf_open(struct kl_file *f, uint64_t size, struct kl_error **err) {
    struct reader r = {.f = f,
                       .size = size,
                       .err = err,
                       .buffer = kl_malloc(BUFFER),
                       .values = {.bytes = sizeof(struct kl_gguf_value)},
                       .texts = {.bytes = sizeof(char *)},
                       .tensors = {.bytes = sizeof(struct described)}};
    if (!r.buffer) return kl_fail_nomem(err);
    int rc = read_all(&r);
    kl_pile_join(&r.values, NULL);
    kl_pile_join(&r.texts, NULL);
    kl_pile_join(&r.tensors, NULL);
    kl_free(r.buffer);
    return rc;
}

/* ---- a lazy load ---- */

/* Reads the blocks of z and makes its part of them, into dst. */
static int gguf_read(struct kl_lazy *z, void *dst, struct kl_error **err) {
    if (!z->blocks) return kl_lazy_read(z, dst, err);
    struct kl_bytes_of what = kl_lazy_bytes_of(z);
    const uint64_t block = (uint64_t)z->blocks->bytes, most = (1 << 20) / block,
                   all = (z->end - z->begin) / block;
    const size_t step = kl_gguf_part_bytes(z->blocks, z->part);
    unsigned char *raw = kl_malloc((all < most ? all : most) * block);
    if (!raw) return kl_fail_nomem(err);
    int rc = KL_OK;
    for (uint64_t at = 0; at < all && !rc;) {
        const uint64_t n = all - at < most ? all - at : most;
        rc = kl_lazy_check(z, err);
        if (!rc) rc = kl_source_read(z->source, raw, n * block, z->begin + at * block, &what, err);
        if (rc) break;
        kl_gguf_convert((char *)dst + at * step, raw, n, z->blocks, z->part);
        kl_load_count_bytes(z->load, n * step);
        at += n;
    }
    kl_free(raw);
    return rc;
}

static const char *type_name(uint64_t type_id) {
    const char *name;
    kl_gguf_type((uint32_t)type_id, &name);
    return name;
}

const struct kl_file_format kl_format_gguf = {.suffix = ".gguf",
                                              .magic = {"GGUF"},
                                              .open = gguf_open,
                                              .read = gguf_read,
                                              .type_name = type_name};
