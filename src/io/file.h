/* file.h - what the readers of all formats share: the list of tensors of a file while it is built,
 * and the lazy loads made from that list. */
#pragma once
#include "io/source.h"

/* ---- building a kl_file ---- */
/* Memory that lives as long as f; align is a power of two up to 16. NULL: no memory. */
void *kl_file_alloc(struct kl_file *f, size_t bytes, size_t align);
/* A copy of the n bytes of text, with a final 0. NULL: no memory. */
const char *kl_file_text(struct kl_file *f, const char *text, size_t n);
/* Room for n tensors in all, so that kl_file_add copies none. */
int kl_file_reserve(struct kl_file *f, size_t n, struct kl_error **err);
/* Sets *name to one that two tensors have, or NULL. */
int kl_file_find_twice(struct kl_file *f, const char **name, struct kl_error **err);
/* Items of one size whose number is not known before. Unlike a list that doubles, it takes no more
 * than the items, and when it is joined, once more. All zeros but for the size: empty. */
struct kl_pile {
    size_t bytes; /* of an item */
    size_t n;
    struct kl_pile_block *first, *last;
};
/* Copies the item to the end. false: no memory. */
bool kl_pile_add(struct kl_pile *p, const void *item);
/* Copies all items to `to` (NULL: drops them), and empties the pile. */
void kl_pile_join(struct kl_pile *p, void *to);
/* Sorts as qsort does, which may take as much memory again. */
void kl_file_sort(void *items, size_t n, size_t bytes, int (*compare)(const void *, const void *));
/* Appends *t to the tensors of f. Its name and dims must be owned by f. */
int kl_file_add(struct kl_file *f, const struct kl_file_tensor *t, struct kl_error **err);
/* Reports that the file breaks a rule: code KL_EFORMAT or KL_EDTYPE, message
 * "load: <file>: <text>", in which control characters are replaced. */
int kl_file_fail(struct kl_file *f, int code, const char *tensor, struct kl_error **err,
                 const char *fmt, ...) __attribute__((format(printf, 5, 6)));
/* Sets *bytes to the size of an array of t's dtype and dims. false: the size is over 2^62. A zero
 * extent counts as one here, so that no stride overflows either. */
bool kl_file_tensor_bytes(const struct kl_file_tensor *t, uint64_t *bytes);

/* ---- a format: what file.c calls, and all that it knows of one ---- */
struct kl_lazy;
enum { KL_MAGIC_MAX = 6 };
struct kl_file_format {
    const char *suffix; /* of the names of its files */
    /* A file begins with one of these texts of at most KL_MAGIC_MAX bytes, without a zero.
     * The one format that has none is that of all other files. */
    const char *magic[2];
    /* Reads the header and fills f. size: of the source, or KL_SIZE_UNKNOWN. */
    int (*open)(struct kl_file *f, uint64_t size, struct kl_error **err);
    /* Reads the value of z into dst, on the reader thread of z's reader. */
    int (*read)(struct kl_lazy *z, void *dst, struct kl_error **err);
    /* References to f->state: one of f, one of each lazy load. NULL where `open` sets none. */
    void *(*retain)(void *state);
    void (*release)(void *state);
    /* The name of a type of tensors that are refused, NULL when it is unknown. NULL: none are. */
    const char *(*type_name)(uint64_t type_id);
};
#define KL_FORMAT(ID, name) extern const struct kl_file_format kl_format_##name;
#include "io/formats.def"

/* Reads the header of one .npy, in a file or in a member of an archive. `read` must give exactly
 * the next n bytes; `avail` is the number of bytes that there are, or KL_SIZE_UNKNOWN. Sets
 * everything of *t but member and index; t->begin counts from the start of the .npy. */
typedef int kl_npy_read_fn(void *ctx, void *dst, size_t n, struct kl_error **err);
int kl_npy_read_head(struct kl_file *f, const char *name, kl_npy_read_fn *read, void *ctx,
                     uint64_t avail, struct kl_file_tensor *t, struct kl_error **err);
/* Writes the header of a .npy of this dtype and shape into head, and returns its length. ndim is at
 * most KL_FILE_MAX_NDIM. */
enum { KL_NPY_HEAD_MAX = 1024 };
size_t kl_npy_write_head(char head[KL_NPY_HEAD_MAX], enum kl_dtype dtype, int ndim,
                         const int *dims);

/* ---- lazy loads ---- */
enum { KL_READ_CHUNK = 8 << 20 }; /* bytes read between two tests of the cancelled flag */

struct kl_lazy {
    struct kl_source *source;
    struct kl_load *load; /* may be NULL */
    const struct kl_file_format *format;
    void *state; /* a reference to that of the file; may be NULL */
    int reader;
    uint64_t skip;
    uint64_t begin, end; /* bytes in the source, or in the member */
    uint64_t bytes;      /* size of the value */
    uint8_t dtype;
    union { /* as in struct kl_file_tensor */
        uint64_t index;
        const struct kl_gguf_type *blocks;
    };
    int part; /* enum kl_gguf_part */
    bool swap;
    bool counted; /* it has been counted in load */
    char name[];
};
/* KL_ECANCELLED when the load of z was cancelled. */
int kl_lazy_check(struct kl_lazy *z, struct kl_error **err);
/* n more bytes, whole elements, have arrived at p. Converts them to the form of this machine and
 * counts them. */
void kl_lazy_arrived(struct kl_lazy *z, void *p, size_t n);
struct kl_bytes_of kl_lazy_bytes_of(const struct kl_lazy *z);

/* The `read` of formats in whose files the bytes from z->begin on are the elements. */
int kl_lazy_read(struct kl_lazy *z, void *dst, struct kl_error **err);

/* load.c */
bool kl_load_cancelled(struct kl_load *l); /* l may be NULL, here and in the functions below */
void kl_load_expect(struct kl_load *l, uint64_t bytes);
void kl_load_count_bytes(struct kl_load *l, uint64_t bytes);
enum kl_load_end { KL_LOAD_DONE, KL_LOAD_FAILED, KL_LOAD_SKIPPED };
void kl_load_count(struct kl_load *l, enum kl_load_end how);
