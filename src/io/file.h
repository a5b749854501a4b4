/* file.h - what the readers of the formats share: the list of tensors being built, and the lazy
 * loads made from it. */
#pragma once
#include "io/source.h"

/* ---- building a kl_file ---- */
void *kl_file_alloc(struct kl_file *f, size_t bytes); /* lives as long as f; NULL: no memory */
const char *kl_file_text(struct kl_file *f, const char *text,
                         size_t n); /* a copy with a final 0; NULL: no memory */
/* Appends *t, whose name and dims live in f. */
int kl_file_add(struct kl_file *f, const struct kl_file_tensor *t, struct kl_error **err);
/* A broken rule: code KL_EFORMAT or KL_EDTYPE, "load: <file>: <text>", control characters made
 * harmless. */
int kl_file_fail(struct kl_file *f, int code, const char *tensor, struct kl_error **err,
                 const char *fmt, ...) __attribute__((format(printf, 5, 6)));
/* Sets *bytes to the size of an array of t's dtype and dims. false: over 2^62, zero extents counted
 * as one, so that no stride overflows either. */
bool kl_file_tensor_bytes(const struct kl_file_tensor *t, uint64_t *bytes);

/* The formats: read the header, fill f. *size is that of the source, or KL_SIZE_UNKNOWN. */
int kl_npy_open(struct kl_file *f, uint64_t size, struct kl_error **err);
int kl_npz_open(struct kl_file *f, uint64_t size, struct kl_error **err);
int kl_safetensors_open(struct kl_file *f, uint64_t size, struct kl_error **err);

/* The header of one .npy, in a file or in a member. `read` gives the next n bytes, exactly; `avail`
 * is how many there are, or KL_SIZE_UNKNOWN. Sets everything of *t but member and index: begin
 * counts from the start of the .npy. */
typedef int kl_npy_read_fn(void *ctx, void *dst, size_t n, struct kl_error **err);
int kl_npy_read_head(struct kl_file *f, const char *name, kl_npy_read_fn *read, void *ctx,
                     uint64_t avail, struct kl_file_tensor *t, struct kl_error **err);
/* Writes the header of a .npy of this dtype and shape into head; returns its length. ndim <=
 * KL_FILE_MAX_NDIM. */
enum { KL_NPY_HEAD_MAX = 1024 };
size_t kl_npy_write_head(char head[KL_NPY_HEAD_MAX], enum kl_dtype dtype, int ndim,
                         const int *dims);

/* ---- lazy loads ---- */
enum { KL_READ_CHUNK = 8 << 20 }; /* between two looks at the cancelled flag */

struct kl_lazy {
    struct kl_source *source;
    struct kl_load *load; /* may be NULL */
    struct kl_npz *npz;   /* when read through an archive */
    int lane;
    uint64_t index, skip;
    uint64_t begin, end; /* in the source, or in the member */
    uint64_t bytes;      /* of the value */
    uint8_t dtype;
    bool swap;
    bool settled; /* counted in load */
    char name[];
};
int kl_lazy_check(struct kl_lazy *z,
                  struct kl_error **err); /* KL_ECANCELLED when its load is cancelled */
/* n more bytes have arrived at p, whole elements: puts them into this machine's form and counts
 * them. */
void kl_lazy_arrived(struct kl_lazy *z, void *p, size_t n);
struct kl_bytes_of kl_lazy_bytes_of(const struct kl_lazy *z);

/* npz.c: the whole value of z into dst, on the reader thread of z's lane. */
int kl_npz_read(struct kl_lazy *z, void *dst, struct kl_error **err);
struct kl_npz *kl_npz_retain(struct kl_npz *a);
void kl_npz_release(struct kl_npz *a); /* NULL is fine */

/* load.c */
bool kl_load_cancelled(struct kl_load *l); /* l may be NULL, here and below */
void kl_load_expect(struct kl_load *l, uint64_t bytes);
void kl_load_count_bytes(struct kl_load *l, uint64_t bytes);
enum kl_load_end { KL_LOAD_DONE, KL_LOAD_FAILED, KL_LOAD_SKIPPED };
void kl_load_settle(struct kl_load *l, enum kl_load_end how);
