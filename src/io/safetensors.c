/* safetensors.c - reading the header of a .safetensors file: a length, a JSON object, the data.
 *
 * The header must be consistent in itself, and every rule has its own message. A header that two
 * readers could understand differently (duplicate keys, overlaps, gaps, unknown fields, bytes after
 * the data) is refused. A file that is shorter than its header says is consistent: just the tensors
 * whose bytes are missing fail, when they are read. "__metadata__": null is accepted, because MLX
 * writes it. Members are read one by one: the memory is at most four times the header. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "io/file.h"
#include "io/members.h"
#include "io/safetensors.h"

/* The name of each dtype in the format, by enum kl_dtype. */
const char *const kl_safetensors_dtypes[KL_N_DTYPES] = {
#define KL_DTYPE(ID, mlx, name, bytes, kind, dialect, cuda, npy, safetensors, ...) \
    [KL_##ID] = #safetensors,
#include "base/number/dtype.def"
};

/* Numbers of 8 bits that are no dtype here; they are loaded as the bytes that they are, for
 * from_fp8 and the scales of quantized matrices. */
static const char *const bytes_of_fp8[] = {"F8_E4M3", "F8_E5M2", "F8_E8M0"};

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
    for (size_t i = 0; i < sizeof bytes_of_fp8 / sizeof bytes_of_fp8[0]; i++) {
        if (strcmp(json_string_value(v), bytes_of_fp8[i])) continue;
        t->dtype = KL_U8;
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
    int *dims = kl_file_alloc(f, n * sizeof *dims, sizeof *dims);
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
        return BAD(t->name, "'%.100s': data_offsets begin after their end", t->name);
    if (t->end > (uint64_t)1 << 62)
        return BAD(t->name, "'%.100s': data_offsets are over 2^62", t->name);
    return KL_OK;
}

/* ---- pieces of the header, which the JSON library reads ---- */

struct header {
    struct kl_file *f;
    const char *text, *end;
    bool has_metadata;
};

static int bad_json(const struct header *h, const char *at, const char *why,
                    struct kl_error **err) {
    struct kl_file *f = h->f;
    return BAD(NULL, "not valid JSON at byte %lld: %.200s", (long long)(at - h->text) + 8, why);
}

/* Reads n bytes, which stand in the header at `at`. */
static int parse_piece(const struct header *h, json_t **out, const char *piece, size_t n,
                       const char *at, struct kl_error **err) {
    struct kl_file *f = h->f;
    json_error_t why;
    *out = json_loadb(piece, n, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &why);
    if (*out) return KL_OK;
    at += why.position;
    switch (json_error_code(&why)) {
    case json_error_out_of_memory: return kl_fail_nomem(err);
    case json_error_duplicate_key: return BAD(NULL, "a key appears twice: %.100s", why.text);
    case json_error_invalid_utf8:
        return BAD(NULL, "not valid UTF-8 at byte %lld", (long long)(at - h->text) + 8);
    default: return bad_json(h, at, why.text, err);
    }
}

enum { STRING_PIECE = 4096, LONGEST_ESCAPE = 12, LONGEST_REST = 3 };

/* Where a piece of a string ends that begins at p; `end` is the closing quote. A piece ends neither
 * within an escape, nor between the two of one character (\ud83d\ude00), nor within UTF-8. */
static const char *end_of_piece(const char *p, const char *end) {
    if (end - p <= STRING_PIECE) return end;
    const char *q = p, *limit = p + STRING_PIECE - LONGEST_ESCAPE;
    while (q < limit) {
        const bool pair = *q == '\\' && (q[2] == 'd' || q[2] == 'D') && q[6] == '\\';
        q += *q != '\\' ? 1 : q[1] != 'u' ? 2 : pair ? 12 : 6;
    }
    for (int i = 0; i < LONGEST_REST && q < end && ((unsigned char)*q & 0xc0) == 0x80; i++) q++;
    return q;
}

/* The string at [from, to), with its quotes. It is read by pieces, because the library has what it
 * reads several times. */
static int parse_string(const struct header *h, const char **out, const char *from, const char *to,
                        struct kl_error **err) {
    char piece[STRING_PIECE + LONGEST_REST + 2];
    const char *p = from + 1, *end = to - 1;
    if (end < p || *end != '"') return bad_json(h, to, "premature end of input", err);
    /* No character is longer than what stands for it. */
    char *text = kl_file_alloc(h->f, (size_t)(end - p) + 1, 1), *at = text;
    if (!text) return kl_fail_nomem(err);
    while (p < end) {
        const char *next = end_of_piece(p, end);
        const size_t n = (size_t)(next - p);
        json_t *v;
        piece[0] = piece[n + 1] = '"';
        memcpy(piece + 1, p, n);
        KL_TRY(parse_piece(h, &v, piece, n + 2, p - 1, err));
        memcpy(at, json_string_value(v), json_string_length(v));
        at += json_string_length(v);
        json_decref(v);
        p = next;
    }
    *at = 0;
    *out = text;
    return KL_OK;
}

/* ---- the members ---- */

/* More than an entry of 64 dimensions has, so that a few dimensions too many have their own
 * message. */
enum { MOST_MARKS = 256, MOST_SOLID = 2048 };

static bool is_large(const struct kl_member *m) {
    return m->n_marks > MOST_MARKS || m->n_solid > MOST_SOLID;
}

/* The value of m is of the wrong kind. If it is no JSON either, that is the error. */
static int check_value(const struct header *h, const struct kl_member *m, struct kl_error **err) {
    json_t *v;
    if (is_large(m)) return KL_OK;
    KL_TRY(parse_piece(h, &v, m->value, (size_t)(m->value_end - m->value), m->value, err));
    json_decref(v);
    return KL_OK;
}

static int parse_entry(struct kl_file *f, const char *name, json_t *entry, struct kl_error **err) {
    struct kl_file_tensor t = {.name = name};
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

static int parse_tensor(const struct header *h, const char *name, const struct kl_member *m,
                        struct kl_error **err) {
    struct kl_file *f = h->f;
    json_t *entry;
    if (*m->value == '"') {
        KL_TRY(check_value(h, m, err));
        return BAD(name, "'%.100s' is not an object", name);
    }
    if (is_large(m))
        return BAD(name, "'%.100s' has more than dtype, shape and data_offsets of 64 dimensions",
                   name);
    KL_TRY(parse_piece(h, &entry, m->value, (size_t)(m->value_end - m->value), m->value, err));
    int rc = parse_entry(f, name, entry, err);
    json_decref(entry);
    return rc;
}

static int compare_pairs(const void *a, const void *b) {
    return strcmp(((const struct kl_pair *)a)->key, ((const struct kl_pair *)b)->key);
}

static int add_pair(const struct header *h, const struct kl_member *m, struct kl_error **err) {
    struct kl_file *f = h->f;
    struct kl_pair *p = &f->metadata[f->n_metadata];
    KL_TRY(parse_string(h, &p->key, m->key, m->key_end, err));
    if (*m->value != '"') {
        KL_TRY(check_value(h, m, err));
        return BAD(NULL, "__metadata__ '%.100s' is not a string", p->key);
    }
    KL_TRY(parse_string(h, &p->value, m->value, m->value_end, err));
    if (f->n_metadata && !strcmp(p[-1].key, p->key))
        return BAD(NULL, "a key appears twice: '%.100s'", p->key);
    f->n_metadata++;
    return KL_OK;
}

/* Goes through the object at text, and counts its members. */
static int count(const struct header *h, const char *text, const char *end, size_t *n,
                 struct kl_error **err) {
    struct kl_members all = kl_members_of(text, end);
    struct kl_member m;
    int more;
    for (*n = 0; (more = kl_members_next(&all, &m)) > 0; ++*n) {
    }
    if (more == 0 && kl_members_at_end(&all)) return KL_OK;
    return bad_json(h, all.p, all.why, err);
}

static int parse_metadata(struct header *h, const struct kl_member *m, struct kl_error **err) {
    struct kl_file *f = h->f;
    struct kl_member pair;
    size_t n;
    if (h->has_metadata) return BAD(NULL, "a key appears twice: '__metadata__'");
    h->has_metadata = true;
    if (m->value_end - m->value == 4 && !memcmp(m->value, "null", 4)) return KL_OK;
    if (*m->value != '{') {
        KL_TRY(check_value(h, m, err));
        return BAD(NULL, "__metadata__ is not an object");
    }
    KL_TRY(count(h, m->value, m->value_end, &n, err));
    f->metadata = kl_calloc(n + 1, sizeof *f->metadata);
    if (!f->metadata) return kl_fail_nomem(err);
    struct kl_members all = kl_members_of(m->value, m->value_end);
    while (kl_members_next(&all, &pair) > 0) KL_TRY(add_pair(h, &pair, err));
    kl_file_sort(f->metadata, f->n_metadata, sizeof *f->metadata, compare_pairs);
    for (size_t i = 1; i < f->n_metadata; i++)
        if (!strcmp(f->metadata[i - 1].key, f->metadata[i].key))
            return BAD(NULL, "a key appears twice: '%.100s'", f->metadata[i].key);
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
    kl_file_sort(f->tensors, f->n, sizeof *f->tensors, compare_ranges);
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

/* The bytes of the shortest entry: "":{"dtype":"U8","shape":[],"data_offsets":[0,0]}, */
enum { LEAST_ENTRY = 50 };

static int parse_header(struct kl_file *f, const char *text, uint64_t n, uint64_t size,
                        struct kl_error **err) {
    struct header h = {f, text, text + n, false};
    struct kl_member m;
    const char *name;
    size_t n_members;
    if (text[0] != '{') return BAD(NULL, "it does not start with '{'");
    KL_TRY(count(&h, text, h.end, &n_members, err));
    /* More of them are not all entries, and the first that is none will be refused. */
    const size_t most = n / LEAST_ENTRY + 1;
    KL_TRY(kl_file_reserve(f, n_members < most ? n_members : most, err));
    struct kl_members all = kl_members_of(text, h.end);
    while (kl_members_next(&all, &m) > 0) {
        KL_TRY(parse_string(&h, &name, m.key, m.key_end, err));
        KL_TRY(strcmp(name, "__metadata__") ? parse_tensor(&h, name, &m, err)
                                            : parse_metadata(&h, &m, err));
    }
    const char *twice;
    KL_TRY(kl_file_find_twice(f, &twice, err));
    if (twice) return BAD(twice, "a key appears twice: '%.100s'", twice);
    return place_tensors(f, 8 + n, size, err);
}

static int safetensors_open(struct kl_file *f, uint64_t size, struct kl_error **err) {
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

const struct kl_file_format kl_format_safetensors = {
    .suffix = ".safetensors", .open = safetensors_open, .read = kl_lazy_read};
