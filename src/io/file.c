/* file.c - an opened model file of any format (formats.def), and the lazy arrays of its tensors. */
#include "io/file.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/op/op_params.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "files are taken as they are, or swapped, on this assumption");

/* ---- memory of a file's names and dims ---- */
struct kl_chunk {
    struct kl_chunk *next;
    size_t used, cap;
    max_align_t bytes[];
};

void *kl_file_alloc(struct kl_file *f, size_t bytes, size_t align) {
    struct kl_chunk *c = f->strings;
    if (c) c->used = (c->used + align - 1) & ~(align - 1);
    if (!c || c->used > c->cap || c->cap - c->used < bytes) {
        size_t cap = bytes > 16000 ? bytes : 16000;
        c = kl_malloc(sizeof *c + cap);
        if (!c) return NULL;
        *c = (struct kl_chunk){.next = f->strings, .cap = cap};
        f->strings = c;
    }
    void *p = (char *)c->bytes + c->used;
    c->used += bytes;
    return p;
}

const char *kl_file_text(struct kl_file *f, const char *text, size_t n) {
    char *p = kl_file_alloc(f, n + 1, 1);
    if (!p) return NULL;
    memcpy(p, text, n);
    p[n] = 0;
    return p;
}

int kl_file_reserve(struct kl_file *f, size_t n, struct kl_error **err) {
    if (n <= f->cap) return KL_OK;
    struct kl_file_tensor *more = kl_realloc(f->tensors, n * sizeof *more);
    if (!more) return kl_fail_nomem(err);
    f->tensors = more;
    f->cap = n;
    return KL_OK;
}

int kl_file_add(struct kl_file *f, const struct kl_file_tensor *t, struct kl_error **err) {
    if (f->n == f->cap) KL_TRY(kl_file_reserve(f, f->cap ? 2 * f->cap : 16, err));
    f->tensors[f->n++] = *t;
    return KL_OK;
}

/* ---- piles ---- */
enum { PILE_BYTES = 4000 };
struct kl_pile_block {
    struct kl_pile_block *next;
    size_t n;
    char items[PILE_BYTES];
};

bool kl_pile_add(struct kl_pile *p, const void *item) {
    struct kl_pile_block *b = p->last;
    if (!b || b->n == PILE_BYTES / p->bytes) {
        b = kl_malloc(sizeof *b);
        if (!b) return false;
        b->next = NULL;
        b->n = 0;
        *(p->last ? &p->last->next : &p->first) = b;
        p->last = b;
    }
    memcpy(b->items + b->n++ * p->bytes, item, p->bytes);
    p->n++;
    return true;
}

void kl_pile_join(struct kl_pile *p, void *to) {
    char *at = to;
    while (p->first) {
        struct kl_pile_block *b = p->first;
        p->first = b->next;
        if (at) {
            memcpy(at, b->items, b->n * p->bytes);
            at += b->n * p->bytes;
        }
        kl_free(b);
    }
    p->last = NULL;
    p->n = 0;
}

/* ---- sorting ---- */
static void swap_items(char *a, char *b, size_t bytes) {
    for (size_t i = 0; i < bytes; i++) {
        const char c = a[i];
        a[i] = b[i];
        b[i] = c;
    }
}

/* A heap of n items, whose item `at` may be smaller than its children. */
static void sift(char *items, size_t at, size_t n, size_t bytes,
                 int (*compare)(const void *, const void *)) {
    for (size_t child; (child = 2 * at + 1) < n; at = child) {
        char *c = items + child * bytes;
        if (child + 1 < n && compare(c, c + bytes) < 0) child++, c += bytes;
        if (compare(items + at * bytes, c) >= 0) return;
        swap_items(items + at * bytes, c, bytes);
    }
}

void kl_file_sort(void *items, size_t n, size_t bytes, int (*compare)(const void *, const void *)) {
    size_t sorted = 1; /* most files are */
    while (sorted < n &&
           compare((char *)items + (sorted - 1) * bytes, (char *)items + sorted * bytes) <= 0)
        sorted++;
    if (sorted >= n) return;
    for (size_t i = n / 2; i-- > 0;) sift(items, i, n, bytes, compare);
    for (size_t i = n; i-- > 1;) {
        swap_items(items, (char *)items + i * bytes, bytes);
        sift(items, 0, i, bytes, compare);
    }
}

static int compare_names(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

int kl_file_find_twice(struct kl_file *f, const char **name, struct kl_error **err) {
    *name = NULL;
    const char **names = kl_malloc(f->n * sizeof *names);
    if (!names) return kl_fail_nomem(err);
    for (size_t i = 0; i < f->n; i++) names[i] = f->tensors[i].name;
    kl_file_sort(names, f->n, sizeof *names, compare_names);
    for (size_t i = 1; i < f->n && !*name; i++)
        if (strcmp(names[i - 1], names[i]) == 0) *name = names[i];
    kl_free(names);
    return KL_OK;
}

int kl_file_fail(struct kl_file *f, int code, const char *tensor, struct kl_error **err,
                 const char *fmt, ...) {
    char text[600];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    /* Names come from the file: escape sequences must not reach a terminal. */
    for (char *p = text; *p; p++)
        if ((unsigned char)*p < 0x20 || *p == 0x7f) *p = '?';
    const char *label = kl_source_label(f->source);
    struct kl_error_info info = {.code = code, .op = "load", .tensor = tensor, .file = label};
    return kl_fail_info(err, &info, "load: %s: %s", label, text);
}

bool kl_file_tensor_bytes(const struct kl_file_tensor *t, uint64_t *bytes) {
    const uint64_t limit = (uint64_t)1 << 62;
    uint64_t size = kl_dtype_size(t->dtype);
    bool empty = false;
    for (int i = 0; i < t->ndim; i++) {
        if (t->dims[i] == 0) {
            empty = true;
            continue;
        }
        if (size > limit / (uint64_t)t->dims[i]) return false;
        size *= (uint64_t)t->dims[i];
    }
    *bytes = empty ? 0 : size;
    return true;
}

/* ---- opening ---- */
static const struct kl_file_format *const formats[KL_N_FORMATS] = {
#define KL_FORMAT(ID, name) [KL_FORMAT_##ID] = &kl_format_##name,
#include "io/formats.def"
};

static bool begins_with(const char *first, const struct kl_file_format *format) {
    for (int i = 0; i < 2 && format->magic[i]; i++)
        if (!memcmp(first, format->magic[i], strlen(format->magic[i]))) return true;
    return false;
}

static int guess_format(struct kl_file *f, uint64_t size, struct kl_error **err) {
    char first[KL_MAGIC_MAX] = {0};
    if (size == 0) return kl_file_fail(f, KL_EFORMAT, NULL, err, "the file is empty");
    /* Of a shorter file, the reader of files that begin with anything says what is wrong. */
    if (size >= sizeof first) KL_TRY(kl_source_read_header(f->source, first, sizeof first, 0, err));
    for (int i = KL_FORMAT_ANY + 1; i < KL_N_FORMATS; i++) {
        if (!formats[i]->magic[0] && f->format == KL_FORMAT_ANY) f->format = (enum kl_format)i;
        if (begins_with(first, formats[i])) f->format = (enum kl_format)i;
    }
    return KL_OK;
}

int kl_file_open(struct kl_file **out, struct kl_source *src, enum kl_format format,
                 struct kl_error **err) {
    struct kl_file *f = kl_calloc(1, sizeof *f);
    if (!f) return kl_fail_nomem(err);
    f->source = kl_source_retain(src);
    f->format = format;
    uint64_t size;
    int rc = kl_source_measure(src, &size, err);
    if (!rc && format == KL_FORMAT_ANY) rc = guess_format(f, size, err);
    if (!rc) rc = formats[f->format]->open(f, size, err);
    if (rc) {
        kl_file_close(f);
        return rc;
    }
    *out = f;
    return KL_OK;
}

void kl_file_close(struct kl_file *f) {
    if (!f) return;
    if (f->state) formats[f->format]->release(f->state);
    kl_source_release(f->source);
    while (f->strings) {
        struct kl_chunk *next = f->strings->next;
        kl_free(f->strings);
        f->strings = next;
    }
    kl_free(f->tensors);
    kl_free(f->metadata);
    kl_free(f->values);
    kl_free(f);
}

/* ---- a lazy load ---- */
static void swap_bytes(void *data, size_t n, size_t item) {
    if (item == 2) {
        uint16_t *p = data;
        for (size_t i = 0; i < n / 2; i++) p[i] = __builtin_bswap16(p[i]);
    } else if (item == 4) {
        uint32_t *p = data;
        for (size_t i = 0; i < n / 4; i++) p[i] = __builtin_bswap32(p[i]);
    } else if (item == 8) {
        uint64_t *p = data;
        for (size_t i = 0; i < n / 8; i++) p[i] = __builtin_bswap64(p[i]);
    }
}

void kl_lazy_arrived(struct kl_lazy *z, void *p, size_t n) {
    if (z->swap) swap_bytes(p, n, z->dtype == KL_C64 ? 4 : kl_dtype_size(z->dtype));
    if (z->dtype == KL_BOOL) { /* reading a C bool with any other value is undefined */
        unsigned char *b = p;
        for (size_t i = 0; i < n; i++) b[i] = b[i] != 0;
    }
    kl_load_count_bytes(z->load, n);
}

struct kl_bytes_of kl_lazy_bytes_of(const struct kl_lazy *z) {
    return (struct kl_bytes_of){z->name, z->begin, z->end};
}

static struct kl_error_info lazy_info(const struct kl_lazy *z, int code) {
    return (struct kl_error_info){.code = code,
                                  .has = KL_HAS_BYTES,
                                  .op = "load",
                                  .tensor = z->name,
                                  .file = kl_source_label(z->source),
                                  .byte_begin = (int64_t)z->begin,
                                  .byte_end = (int64_t)z->end};
}

int kl_lazy_check(struct kl_lazy *z, struct kl_error **err) {
    if (!kl_load_cancelled(z->load)) return KL_OK;
    struct kl_error_info info = lazy_info(z, KL_ECANCELLED);
    char shown[KL_SHOWN];
    return kl_fail_info(err, &info, "load: %s: the load was cancelled before '%s' was read",
                        info.file, kl_show(shown, z->name));
}

int kl_lazy_read(struct kl_lazy *z, void *dst, struct kl_error **err) {
    struct kl_bytes_of what = kl_lazy_bytes_of(z);
    for (uint64_t at = 0; at < z->bytes;) {
        KL_TRY(kl_lazy_check(z, err));
        uint64_t left = z->bytes - at;
        size_t n = left < KL_READ_CHUNK ? (size_t)left : KL_READ_CHUNK;
        char *to = (char *)dst + at;
        KL_TRY(kl_source_read(z->source, to, n, z->begin + at, &what, err));
        kl_lazy_arrived(z, to, n);
        at += n;
    }
    return KL_OK;
}

static void count(struct kl_lazy *z, enum kl_load_end how) {
    if (!z->counted) kl_load_count(z->load, how);
    z->counted = true;
}

static int lazy_run(void *ctx, struct kl_launch *l, struct kl_error **err) {
    struct kl_lazy *z = ctx;
    int rc = z->format->read(z, l->out[0].data, err);
    /* Whoever cancelled may have ended what the reader read from. */
    if (rc && kl_load_cancelled(z->load)) {
        kl_error_release(*err);
        *err = NULL;
        rc = kl_lazy_check(z, err);
    }
    count(z, rc ? KL_LOAD_FAILED : KL_LOAD_DONE);
    return rc;
}

static void lazy_skipped(void *ctx, struct kl_error *why) {
    count(ctx, why ? KL_LOAD_FAILED : KL_LOAD_SKIPPED);
}

static void lazy_release(void *ctx) {
    struct kl_lazy *z = ctx;
    count(z, KL_LOAD_SKIPPED); /* nobody asked for the tensor */
    if (z->state) z->format->release(z->state);
    kl_source_release(z->source);
    kl_load_release(z->load);
    kl_free(z);
}

static int lazy_new(struct kl_lazy **out, struct kl_file *f, const struct kl_file_tensor *t,
                    struct kl_load *load, struct kl_error **err) {
    size_t name_bytes = strlen(t->name) + 1;
    struct kl_lazy *z = kl_malloc(sizeof *z + name_bytes);
    if (!z) return kl_fail_nomem(err);
    const struct kl_file_format *format = formats[f->format];
    *z = (struct kl_lazy){.source = kl_source_retain(f->source),
                          .load = load ? kl_load_retain(load) : NULL,
                          .format = format,
                          .state = f->state ? format->retain(f->state) : NULL,
                          .index = t->index,
                          .skip = t->skip,
                          .begin = t->begin,
                          .end = t->end,
                          .bytes = t->bytes,
                          .dtype = t->dtype,
                          .part = t->part,
                          .swap = t->swap};
    memcpy(z->name, t->name, name_bytes);
    *out = z;
    return KL_OK;
}

static int lazy_array(struct kl_array **out, struct kl_file *f, const struct kl_file_tensor *t,
                      const int *dims, struct kl_load *load, struct kl_error **err) {
    struct kl_lazy *z = NULL;
    struct kl_stream *stream = NULL;
    KL_TRY(lazy_new(&z, f, t, load, err));
    int rc = kl_source_reader(f->source, t->bytes, &stream, &z->reader, err);
    struct kl_call_params call = {
        .name = "load", .fn = lazy_run, .ctx = z, .release = lazy_release, .skipped = lazy_skipped};
    if (!rc)
        rc = kl_array_op1(
            out,
            &(struct kl_operation){
                .op = KL_OP_CALL, .stream = stream, .params = &call, .params_bytes = sizeof call},
            t->dtype, t->ndim, dims, err);
    if (rc) {
        z->counted = true; /* the load was not told to expect z, so z must not be counted */
        lazy_release(z);
        return rc;
    }
    kl_load_expect(load, t->bytes);
    return KL_OK;
}

static int missing_array(struct kl_array **out, struct kl_file *f, const struct kl_file_tensor *t,
                         const int *dims, struct kl_load *load, struct kl_error **err) {
    const char *label = kl_source_label(f->source);
    char shown[KL_SHOWN];
    struct kl_error_info info = {.code = KL_ETRUNCATED,
                                 .has = KL_HAS_BYTES,
                                 .op = "load",
                                 .tensor = t->name,
                                 .file = label,
                                 .byte_begin = (int64_t)t->begin,
                                 .byte_end = (int64_t)t->end};
    struct kl_error *why = kl_error_new(
        &info, "load: %s: '%s', bytes %llu to %llu: the file ends before them", label,
        kl_show(shown, t->name), (unsigned long long)t->begin, (unsigned long long)t->end);
    int rc = kl_array_new_failed(out, t->dtype, t->ndim, dims, why, err);
    kl_error_release(why);
    if (rc) return rc;
    kl_load_expect(load, t->bytes);
    kl_load_count(load, KL_LOAD_FAILED);
    return KL_OK;
}

static int refused_array(struct kl_array **out, struct kl_file *f, const struct kl_file_tensor *t,
                         struct kl_load *load, struct kl_error **err) {
    const char *label = kl_source_label(f->source);
    char shown[KL_SHOWN];
    const char *type = formats[f->format]->type_name(t->type_id);
    struct kl_error_info info = {
        .code = KL_EUNSUPPORTED, .op = "load", .tensor = t->name, .file = label};
    struct kl_error *why =
        kl_error_new(&info, "load: %s: '%s': type %lu (%s) is not taken", label,
                     kl_show(shown, t->name), (unsigned long)t->type_id, type ? type : "unknown");
    int rc = kl_array_new_failed(out, t->dtype, t->ndim, t->dims, why, err);
    kl_error_release(why);
    if (rc) return rc;
    kl_load_expect(load, t->bytes);
    kl_load_count(load, KL_LOAD_FAILED);
    return KL_OK;
}

_Static_assert(sizeof(struct kl_dims_params) == sizeof(int), "n, then the axes");

/* An array with the axes reversed, which is the order in the file, seen through a transpose. */
static int fortran_view(struct kl_array **out, struct kl_array *base,
                        const struct kl_file_tensor *t, struct kl_error **err) {
    int64_t strides[KL_FILE_MAX_NDIM], step = 1;
    int params[1 + KL_FILE_MAX_NDIM] = {t->ndim}; /* the layout of kl_dims_params */
    for (int i = 0; i < t->ndim; i++) {
        strides[i] = step;
        step *= t->dims[i] ? t->dims[i] : 1;
        params[1 + i] = t->ndim - 1 - i;
    }
    return kl_array_view(out, KL_OP_TRANSPOSE, params, (1 + (size_t)t->ndim) * sizeof *params, base,
                         t->ndim, t->dims, strides, 0, err);
}

int kl_file_array(struct kl_array **out, struct kl_file *f, size_t i, struct kl_load *load,
                  struct kl_error **err) {
    const struct kl_file_tensor *t = &f->tensors[i];
    const int *dims = t->dims;
    int reversed[KL_FILE_MAX_NDIM];
    bool transpose = t->fortran && t->ndim > 1;
    if (transpose) {
        for (int d = 0; d < t->ndim; d++) reversed[d] = t->dims[t->ndim - 1 - d];
        dims = reversed;
    }
    struct kl_array *base;
    if (t->refused) return refused_array(out, f, t, load, err);
    if (t->missing) {
        KL_TRY(missing_array(&base, f, t, dims, load, err));
    } else if (t->bytes == 0) {
        KL_TRY(kl_array_new_data(&base, NULL, t->dtype, t->ndim, dims, err));
        kl_load_expect(load, 0);
        kl_load_count(load, KL_LOAD_DONE);
    } else {
        KL_TRY(lazy_array(&base, f, t, dims, load, err));
    }
    if (!transpose) {
        *out = base;
        return KL_OK;
    }
    int rc = fortran_view(out, base, t, err);
    kl_array_release(base);
    return rc;
}

int kl_load_npy(struct kl_array **out, struct kl_source *src, struct kl_error **err) {
    struct kl_file *f;
    KL_TRY(kl_file_open(&f, src, KL_FORMAT_NPY, err));
    int rc = kl_file_array(out, f, 0, NULL, err);
    kl_file_close(f);
    return rc;
}
