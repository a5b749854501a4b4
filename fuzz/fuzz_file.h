/* fuzz_file.h - the code that the fuzz targets share: it opens the input as a file in memory,
 * evaluates every tensor, and reads every element. It uses a reader with return codes, so that only
 * the input decides what happens. */
#pragma once
#include <stdlib.h>
#include <string.h>

#include "io/io.h"

struct fuzz_input {
    const uint8_t *data;
    size_t n;
};

static int fuzz_read_at(void *desc, void *dst, size_t n, uint64_t offset) {
    struct fuzz_input *in = desc;
    if (offset > in->n || n > in->n - offset) abort(); /* the library asked for the size before */
    memcpy(dst, in->data + offset, n);
    return 0;
}

static int fuzz_size(void *desc, uint64_t *size) {
    *size = ((struct fuzz_input *)desc)->n;
    return 0;
}

static void fuzz_touch(struct kl_array *a) {
    void *data;
    struct kl_error *err = NULL;
    if (kl_array_host(a, &data, &err)) {
        if (!err || !err->message) abort(); /* every failure must have a message */
        kl_error_release(err);
        return;
    }
    static volatile unsigned sum;
    if (a->t.size == 0) return;
    int64_t bytes = a->t.size * (int64_t)kl_dtype_size(a->t.dtype);
    for (int64_t i = 0; i < bytes; i++)
        sum =
            sum + ((const unsigned char *)data)[i]; /* dense, in row-major or column-major order */
}

static inline int fuzz_file(const uint8_t *data, size_t n, enum kl_format format) {
    static const struct kl_read_at_ops ops = {.read_at = fuzz_read_at, .size = fuzz_size};
    struct fuzz_input in = {data, n};
    struct kl_source *source;
    struct kl_file *f = NULL;
    struct kl_error *err = NULL;
    if (kl_source_new_read_at(&source, &ops, &in, NULL)) return 0;
    if (kl_file_open(&f, source, format, &err) == KL_OK) {
        for (size_t i = 0; i < f->n; i++) {
            struct kl_array *a;
            if (kl_file_array(&a, f, i, NULL, NULL)) continue;
            fuzz_touch(a);
            kl_array_release(a);
        }
    } else if (!err || !err->message) {
        abort();
    }
    kl_error_release(err);
    kl_file_close(f);
    kl_source_release(source);
    return 0;
}
