/* gguf_save.c - writing a .gguf file of version 3: the header in one piece, then each tensor at a
 * multiple of the alignment. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "io/gguf.h"
#include "io/sink.h"

/* ---- the header, as it grows ---- */

struct text {
    char *p;
    size_t n, cap;
    bool failed; /* no memory */
};

static void put(struct text *t, const void *data, size_t n) {
    if (t->failed || n == 0) return;
    if (t->cap - t->n < n) {
        size_t cap = t->cap * 2 + n;
        char *more = kl_realloc(t->p, cap);
        t->failed = !more;
        if (!more) return;
        t->p = more;
        t->cap = cap;
    }
    memcpy(t->p + t->n, data, n);
    t->n += n;
}

static void put_u32(struct text *t, uint32_t v) {
    put(t, &v, sizeof v);
}

static void put_u64(struct text *t, uint64_t v) {
    put(t, &v, sizeof v);
}

static void put_string(struct text *t, const char *s) {
    put_u64(t, strlen(s));
    put(t, s, strlen(s));
}

static void put_value(struct text *t, const struct kl_gguf_value *v) {
    const int type = v->kind == KL_GGUF_ARRAY ? kl_gguf_value_type(v->dtype) : KL_GGUF_TYPE_STRING;
    put_string(t, v->key);
    if (v->kind == KL_GGUF_STRINGS || (v->kind == KL_GGUF_ARRAY && v->is_list)) {
        put_u32(t, KL_GGUF_TYPE_ARRAY);
        put_u32(t, (uint32_t)type);
        put_u64(t, v->n);
    } else {
        put_u32(t, (uint32_t)type);
    }
    if (v->kind == KL_GGUF_ARRAY) put(t, v->data, v->n * kl_dtype_size(v->dtype));
    if (v->kind == KL_GGUF_STRING) put_string(t, *v->texts);
    for (size_t i = 0; v->kind == KL_GGUF_STRINGS && i < v->n; i++) put_string(t, v->texts[i]);
}

static void put_padding(struct text *t, uint64_t at, uint32_t alignment) {
    static const char zeros[64];
    for (uint64_t n = (alignment - at % alignment) % alignment; n;) {
        uint64_t part = n < sizeof zeros ? n : sizeof zeros;
        put(t, zeros, part);
        n -= part;
    }
}

static uint64_t aligned(uint64_t at, uint32_t alignment) {
    return (at + alignment - 1) / alignment * alignment;
}

static void put_header(struct text *t, const struct kl_named *tensors, size_t n,
                       const struct kl_gguf_value *metadata, size_t n_metadata,
                       uint32_t alignment) {
    uint64_t at = 0;
    put(t, "GGUF", 4);
    put_u32(t, 3);
    put_u64(t, n);
    put_u64(t, n_metadata);
    for (size_t i = 0; i < n_metadata; i++) put_value(t, &metadata[i]);
    for (size_t i = 0; i < n; i++) {
        const struct kl_tensor *x = &tensors[i].array->t;
        put_string(t, tensors[i].name);
        put_u32(t, (uint32_t)x->ndim);
        for (int d = x->ndim - 1; d >= 0; d--) put_u64(t, (uint64_t)x->dims[d]);
        put_u32(t, kl_gguf_plain_type(x->dtype)->id);
        put_u64(t, at);
        at = aligned(at + (uint64_t)x->size * kl_dtype_size(x->dtype), alignment);
    }
    put_padding(t, t->n, alignment);
}

/* ---- what is given ---- */

static int check_name(const char *name, size_t most, const char *what, struct kl_error **err) {
    if (*name && strlen(name) <= most && kl_utf8_valid(name)) return KL_OK;
    return kl_fail(err, KL_EARG, "save: %s is empty, longer than %zu bytes, or not UTF-8", what,
                   most);
}

static int compare(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int check_twice(const char **names, size_t n, struct kl_error **err) {
    if (n) qsort(names, n, sizeof *names, compare);
    for (size_t i = 1; i < n; i++)
        if (strcmp(names[i - 1], names[i]) == 0)
            return kl_fail(err, KL_EARG, "save: '%.100s' is given twice", names[i]);
    return KL_OK;
}

static int check(const struct kl_named *tensors, size_t n, const struct kl_gguf_value *metadata,
                 size_t n_metadata, const char **names, struct kl_error **err) {
    for (size_t i = 0; i < n; i++) {
        const struct kl_tensor *t = &tensors[i].array->t;
        KL_TRY(
            check_name(names[i] = tensors[i].name, KL_GGUF_MAX_NAME, "the name of a tensor", err));
        if (!kl_gguf_plain_type(t->dtype))
            return kl_fail(err, KL_EDTYPE,
                           "save: '%.100s' is of %s; a .gguf file takes int8, int16, int32, int64, "
                           "float16, bfloat16, float32 and float64",
                           tensors[i].name, kl_dtype_name(t->dtype));
        if (t->ndim > KL_GGUF_MAX_DIMS)
            return kl_fail(err, KL_ESHAPE, "save: '%.100s' has %d dimensions, a .gguf file takes 8",
                           tensors[i].name, t->ndim);
    }
    KL_TRY(check_twice(names, n, err));
    for (size_t i = 0; i < n_metadata; i++) {
        const struct kl_gguf_value *v = &metadata[i];
        KL_TRY(check_name(names[i] = v->key, KL_GGUF_MAX_KEY, "a key of the metadata", err));
        if (v->kind == KL_GGUF_ARRAY && kl_gguf_value_type(v->dtype) < 0)
            return kl_fail(err, KL_EDTYPE,
                           "save: the metadata '%.100s' is of %s; a .gguf file takes bool, "
                           "integers, float32 and float64",
                           v->key, kl_dtype_name(v->dtype));
    }
    return check_twice(names, n_metadata, err);
}

static int write_data(struct kl_sink *k, const struct kl_named *tensors, size_t n,
                      uint32_t alignment, struct kl_error **err) {
    struct text zeros = {0};
    uint64_t at = 0;
    int rc = KL_OK;
    for (size_t i = 0; i < n && !rc; i++) {
        const struct kl_tensor *x = &tensors[i].array->t;
        rc = kl_sink_array(k, tensors[i].array, tensors[i].name, err);
        at += (uint64_t)x->size * kl_dtype_size(x->dtype);
        zeros.n = 0;
        put_padding(&zeros, at, alignment);
        at = aligned(at, alignment);
        if (!rc)
            rc = zeros.failed ? kl_fail_nomem(err) : kl_sink_write(k, zeros.p, zeros.n, NULL, err);
    }
    kl_free(zeros.p);
    return rc;
}

int kl_save_gguf(const char *path, const struct kl_named *tensors, size_t n,
                 const struct kl_gguf_value *metadata, size_t n_metadata, struct kl_error **err) {
    uint32_t alignment;
    struct text header = {0};
    struct kl_sink k;
    KL_TRY(kl_save_prepare(tensors, n, err));
    const char **names = kl_malloc((n + n_metadata + 1) * sizeof *names);
    if (!names) return kl_fail_nomem(err);
    int rc = check(tensors, n, metadata, n_metadata, names, err);
    kl_free(names);
    if (!rc && !kl_gguf_alignment(metadata, n_metadata, &alignment))
        rc = kl_fail(err, KL_EARG,
                     "save: general.alignment is no uint32 that is a multiple of 8 up to 2^20");
    if (rc) return rc;
    put_header(&header, tensors, n, metadata, n_metadata, alignment);
    if (header.failed)
        rc = kl_fail_nomem(err);
    else if (header.n > KL_HEADER_MAX)
        rc = kl_fail(err, KL_ELIMIT, "save: the header is over 100 MB");
    else
        rc = kl_sink_open(&k, (struct kl_dest){.path = path}, kl_format_gguf.suffix, err);
    if (!rc) {
        rc = kl_sink_write(&k, header.p, header.n, NULL, err);
        if (!rc) rc = write_data(&k, tensors, n, alignment, err);
        if (!rc)
            rc = kl_sink_finish(&k, err);
        else
            kl_sink_abort(&k);
    }
    kl_free(header.p);
    return rc;
}
