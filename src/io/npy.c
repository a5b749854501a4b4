/* npy.c - the header of NumPy's .npy, read and written; also the header of each member of a .npz.
 *
 * A header is a Python dict literal with exactly the keys descr, fortran_order and shape. Only what
 * NumPy and MLX write is accepted: no escapes in strings, no nested dtypes. bfloat16 has no name in
 * NumPy; MLX and ml_dtypes write it as two raw bytes ('<V2'), so V2 is read as bfloat16. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "io/file.h"

/* ---- the dict literal ---- */
struct cursor {
    struct kl_file *f;
    const char *tensor; /* its name, for messages */
    const char *p, *end;
    struct kl_error **err;
};

static int bad(struct cursor *c, const char *what) {
    return kl_file_fail(c->f, KL_EFORMAT, c->tensor, c->err, "npy header: %s", what);
}

static void skip_space(struct cursor *c) {
    while (c->p < c->end && (*c->p == ' ' || *c->p == '\t' || *c->p == '\n' || *c->p == '\r'))
        c->p++;
}

static bool take(struct cursor *c, char wanted) {
    skip_space(c);
    if (c->p == c->end || *c->p != wanted) return false;
    c->p++;
    return true;
}

static bool take_word(struct cursor *c, const char *word) {
    size_t n = strlen(word);
    skip_space(c);
    if ((size_t)(c->end - c->p) < n || memcmp(c->p, word, n)) return false;
    c->p += n;
    return true;
}

static bool take_string(struct cursor *c, const char **text, size_t *n) {
    skip_space(c);
    if (c->p == c->end || (*c->p != '\'' && *c->p != '"')) return false;
    char quote = *c->p;
    const char *q = c->p + 1;
    while (q < c->end && *q != quote && *q != '\\' && *q != '\n') q++;
    if (q == c->end || *q != quote) return false;
    *text = c->p + 1;
    *n = (size_t)(q - *text);
    c->p = q + 1;
    return true;
}

static int take_shape(struct cursor *c, struct kl_file_tensor *t) {
    int dims[KL_FILE_MAX_NDIM];
    if (!take(c, '(')) return bad(c, "'shape' is not a tuple");
    for (t->ndim = 0; !take(c, ')'); t->ndim++) {
        if (t->ndim == KL_FILE_MAX_NDIM) return bad(c, "'shape' has more than 64 dimensions");
        skip_space(c);
        int64_t dim = 0;
        const char *digits = c->p;
        for (; c->p < c->end && *c->p >= '0' && *c->p <= '9'; c->p++) {
            dim = dim * 10 + (*c->p - '0');
            if (dim > INT32_MAX) return bad(c, "a dimension is over 2147483647");
        }
        if (c->p == digits) return bad(c, "'shape' is not a tuple of non-negative integers");
        dims[t->ndim] = (int)dim;
        take(c, 'L'); /* Python 2 writes long integers as 3L */
        if (take(c, ',')) continue;
        if (t->ndim == 0) return bad(c, "'shape' is not a tuple"); /* in Python (3) is a number */
        if (!take(c, ')')) return bad(c, "'shape' does not end");
        t->ndim++;
        break;
    }
    int *copy = kl_file_alloc(c->f, (size_t)t->ndim * sizeof *dims, sizeof *dims);
    if (!copy) return kl_fail_nomem(c->err);
    memcpy(copy, dims, (size_t)t->ndim * sizeof *dims);
    t->dims = copy;
    return KL_OK;
}

/* By enum kl_dtype. NumPy writes b1 for bool and reads ? as well. */
static const char *const descriptions[KL_N_DTYPES] = {
#define KL_DTYPE(ID, mlx, name, bytes, kind, dialect, cuda, npy, ...) [KL_##ID] = #npy,
#include "base/number/dtype.def"
};

/* KL_N_DTYPES: there is none. */
static int dtype_described(const char *text, size_t n) {
    int d = 0;
    if (n == 1 && *text == '?') return KL_BOOL;
    while (d < KL_N_DTYPES && (n != strlen(descriptions[d]) || memcmp(text, descriptions[d], n)))
        d++;
    return d;
}

static int take_descr(struct cursor *c, struct kl_file_tensor *t) {
    const char *text;
    size_t n;
    skip_space(c);
    if (c->p < c->end && *c->p == '[')
        return kl_file_fail(c->f, KL_EDTYPE, c->tensor, c->err,
                            "npy header: structured dtypes are not taken");
    if (!take_string(c, &text, &n)) return bad(c, "'descr' is not a string");
    const char *name = text;
    size_t name_n = n;
    if (n && strchr("<>|=", *text)) name++, name_n--;
    const int dtype = dtype_described(name, name_n);
    if (dtype < KL_N_DTYPES) {
        t->dtype = (enum kl_dtype)dtype;
        t->swap = n && *text == '>' && kl_dtype_size(t->dtype) > 1;
        return KL_OK;
    }
    return kl_file_fail(c->f, KL_EDTYPE, c->tensor, c->err, "npy header: dtype '%.*s' is not taken",
                        (int)(n < 40 ? n : 40), text);
}

static int take_dict(struct cursor *c, struct kl_file_tensor *t) {
    enum { DESCR = 1, FORTRAN = 2, SHAPE = 4, ALL = 7 };
    static const char *const keys[] = {"descr", "fortran_order", "shape"};
    unsigned seen = 0;
    const char *key;
    size_t n;
    if (!take(c, '{')) return bad(c, "not a Python dict");
    while (!take(c, '}')) {
        if (!take_string(c, &key, &n)) return bad(c, "a key is not a plain string");
        unsigned which = 0;
        for (int i = 0; i < 3; i++)
            if (n == strlen(keys[i]) && !memcmp(key, keys[i], n)) which = 1u << i;
        if (!which) return bad(c, "a key that is none of 'descr', 'fortran_order', 'shape'");
        if (seen & which) return bad(c, "a key appears twice");
        seen |= which;
        if (!take(c, ':')) return bad(c, "a key without a value");
        if (which == DESCR) {
            KL_TRY(take_descr(c, t));
        } else if (which == SHAPE) {
            KL_TRY(take_shape(c, t));
        } else {
            t->fortran = take_word(c, "True");
            if (!t->fortran && !take_word(c, "False"))
                return bad(c, "'fortran_order' is neither True nor False");
        }
        if (take(c, ',')) continue;
        if (!take(c, '}')) return bad(c, "the dict does not end");
        break;
    }
    skip_space(c);
    if (c->p != c->end) return bad(c, "text after the dict");
    if (!(seen & DESCR)) return bad(c, "no 'descr'");
    if (!(seen & FORTRAN)) return bad(c, "no 'fortran_order'");
    if (!(seen & SHAPE)) return bad(c, "no 'shape'");
    return KL_OK;
}

/* ---- reading ---- */
int kl_npy_read_head(struct kl_file *f, const char *name, kl_npy_read_fn *read, void *ctx,
                     uint64_t avail, struct kl_file_tensor *t, struct kl_error **err) {
    unsigned char prefix[12];
    const char *tensor = *name ? name : NULL;
    if (avail == 0) return kl_file_fail(f, KL_EFORMAT, tensor, err, "npy: empty");
    if (avail < 10) return kl_file_fail(f, KL_EFORMAT, tensor, err, "npy: too short for a header");
    KL_TRY(read(ctx, prefix, 10, err));
    if (memcmp(prefix, "\x93NUMPY", 6))
        return kl_file_fail(f, KL_EFORMAT, tensor, err, "npy: no magic number");
    int version = prefix[6];
    if (version < 1 || version > 3 || prefix[7])
        return kl_file_fail(f, KL_EFORMAT, tensor, err, "npy: version %d.%d is not known", version,
                            prefix[7]);
    uint64_t n = prefix[8] | (uint64_t)prefix[9] << 8, before = 10;
    if (version > 1) {
        if (avail < 12)
            return kl_file_fail(f, KL_EFORMAT, tensor, err, "npy: too short for a header");
        KL_TRY(read(ctx, prefix + 10, 2, err));
        n |= (uint64_t)prefix[10] << 16 | (uint64_t)prefix[11] << 24;
        before = 12;
    }
    if (n > KL_HEADER_MAX)
        return kl_file_fail(f, KL_EFORMAT, tensor, err, "npy: header of over 100 MB");
    if (n > avail - before)
        return kl_file_fail(f, KL_EFORMAT, tensor, err,
                            "npy: the header is longer than what holds it");

    char *text = kl_malloc(n);
    if (!text) return kl_fail_nomem(err);
    *t = (struct kl_file_tensor){0};
    struct cursor c = {.f = f, .tensor = tensor, .p = text, .end = text + n, .err = err};
    int rc = read(ctx, text, n, err);
    if (!rc) rc = take_dict(&c, t);
    kl_free(text);
    if (rc) return rc;

    if (!kl_file_tensor_bytes(t, &t->bytes))
        return kl_file_fail(f, KL_EFORMAT, tensor, err,
                            "npy header: the shape has too many elements");
    t->name = kl_file_text(f, name, strlen(name));
    if (!t->name) return kl_fail_nomem(err);
    t->begin = before + n;
    t->end = t->begin + t->bytes;
    if (avail != KL_SIZE_UNKNOWN && avail > t->end)
        return kl_file_fail(f, KL_EFORMAT, tensor, err, "npy: %llu bytes after the data",
                            (unsigned long long)(avail - t->end));
    t->missing = avail < t->end && t->bytes;
    return KL_OK;
}

struct position {
    struct kl_source *source;
    uint64_t offset;
};

static int read_on(void *ctx, void *dst, size_t n, struct kl_error **err) {
    struct position *at = ctx;
    KL_TRY(kl_source_read_header(at->source, dst, n, at->offset, err));
    at->offset += n;
    return KL_OK;
}

static int npy_open(struct kl_file *f, uint64_t size, struct kl_error **err) {
    struct kl_file_tensor t;
    struct position at = {f->source, 0};
    KL_TRY(kl_npy_read_head(f, "", read_on, &at, size, &t, err));
    return kl_file_add(f, &t, err);
}

const struct kl_file_format kl_format_npy = {
    .suffix = ".npy", .magic = {"\x93NUMPY"}, .open = npy_open, .read = kl_lazy_read};

/* ---- writing ---- */

/* Writes byte for byte what numpy.save writes: spaces that let the first extent grow to 21 digits,
 * then 1 to 64 spaces so that the data begins at a multiple of 64. */
size_t kl_npy_write_head(char head[KL_NPY_HEAD_MAX], enum kl_dtype dtype, int ndim,
                         const int *dims) {
    char order = kl_dtype_size(dtype) == 1 ? '|' : '<';
    size_t n = 10;
    n += (size_t)snprintf(head + n, KL_NPY_HEAD_MAX - n,
                          "{'descr': '%c%s', 'fortran_order': False, 'shape': (", order,
                          descriptions[dtype]);
    for (int i = 0; i < ndim; i++) {
        int digits = snprintf(head + n, KL_NPY_HEAD_MAX - n, "%d", dims[i]);
        n += (size_t)digits;
        if (ndim == 1) head[n++] = ',';
        if (i + 1 < ndim) head[n++] = ',', head[n++] = ' ';
    }
    memcpy(head + n, "), }", 4);
    n += 4;
    size_t spaces = ndim ? 21 - (size_t)snprintf(NULL, 0, "%d", dims[0]) : 0;
    spaces += 64 - (n + spaces + 1) % 64;
    memset(head + n, ' ', spaces);
    n += spaces;
    head[n++] = '\n';
    memcpy(head, "\x93NUMPY\1\0", 8);
    head[8] = (char)((n - 10) & 255);
    head[9] = (char)((n - 10) >> 8);
    return n;
}
