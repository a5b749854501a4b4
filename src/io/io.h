/* io.h - model files: reading .npy, .npz, .safetensors and .gguf lazily, and writing them.
 *
 * Bytes come from a source (a plain file, or callbacks of the user). Opening a file reads and
 * checks its header, which gives the list of its tensors. Each tensor then becomes a lazy array, a
 * CALL node on a reader stream of the source. Files are not trusted: every length, offset, count
 * and product is checked before it is used. Knows arrays and streams, not handles. Any thread may
 * call. */
#pragma once
#include "graph/array.h"

/* How a file is read:
 *
 *   kl_source_open_file(&src, path, &err);  kl_file_open(&f, src, KL_FORMAT_ANY, &err);
 *   for (i < f->n) kl_file_array(&array[i], f, i, load, &err);   (f->tensors[i], f->metadata[j])
 *   kl_file_close(f);  kl_source_release(src);                   (the arrays keep what they need)
 *
 * A header that breaks a rule of its format fails kl_file_open (KL_EFORMAT, one message per rule).
 * If the header is consistent but the source is too short, the file opens, and exactly the tensors
 * whose bytes are missing fail when they are read. */

/* ---- sources: where bytes come from, and go to ---- */
struct kl_source;
struct kl_file_tensor;
struct kl_gguf_type;
struct kl_gguf_value;

#define KL_SIZE_UNKNOWN UINT64_MAX
enum { KL_HEADER_MAX = 100000000, KL_FILE_MAX_NDIM = 64 };

/* The callbacks of the MLX C API (mlx_io_vtable), for readers and for writers; each may be NULL.
 * They have no return code. A call failed if the callback raised an error (capture.h), or if
 * good() changed from true to false during the call. */
struct kl_reader_ops {
    bool (*is_open)(void *desc);
    bool (*good)(void *desc);
    size_t (*tell)(void *desc);
    void (*seek)(void *desc, int64_t off, int whence); /* whence: 0 start, 1 position, 2 end */
    void (*read)(void *desc, char *data, size_t n);
    void (*read_at_offset)(void *desc, char *data, size_t n, size_t off);
    void (*write)(void *desc, const char *data, size_t n);
    const char *(*label)(void *desc);
    void (*free)(void *desc);
};
/* A reader whose callbacks have return codes (keel/load.h). size, label and free may be NULL. */
struct kl_read_at_ops {
    /* reads all n bytes and returns 0, or returns an error code of the reader */
    int (*read_at)(void *desc, void *data, size_t n, uint64_t offset);
    int (*size)(void *desc, uint64_t *size);
    const char *(*label)(void *desc);
    void (*free)(void *desc);
};

/* Opens a regular file for reading. The file may be renamed or replaced afterwards. KL_EFILE. */
int kl_source_open_file(struct kl_source **out, const char *path, struct kl_error **err);
/* Makes a source from a custom reader or writer. This calls no callback. The source calls
 * ops->free(desc) when its last reference is released, which may be on any thread; on failure the
 * caller keeps desc. Calls on one source are serialised. The file begins at position 0. */
int kl_source_new_reader(struct kl_source **out, const struct kl_reader_ops *ops, void *desc,
                         struct kl_error **err);
int kl_source_new_read_at(struct kl_source **out, const struct kl_read_at_ops *ops, void *desc,
                          struct kl_error **err);
struct kl_source *kl_source_retain(struct kl_source *s);
void kl_source_release(struct kl_source *s);     /* NULL is fine */
void *kl_source_desc(const struct kl_source *s); /* desc of a custom source, else NULL */
bool kl_source_is_custom(const struct kl_source *s);
/* The path, or what label() returned when it was called first. Never NULL; lives as long as s. */
const char *kl_source_label(struct kl_source *s);

/* ---- a load: its progress, and how to cancel it ---- */
struct kl_load; /* shared by the lazy arrays made with it */
struct kl_load_progress {
    uint64_t bytes_total, bytes_done; /* bytes of tensor data */
    uint64_t n_tensors;
    uint64_t n_done;    /* tensors read completely */
    uint64_t n_failed;  /* tensors that failed, cancelled ones included */
    uint64_t n_skipped; /* tensors that were dropped before anybody asked for them */
};
struct kl_load *kl_load_new(void); /* NULL when out of memory */
struct kl_load *kl_load_retain(struct kl_load *l);
void kl_load_release(struct kl_load *l); /* NULL is fine */
/* Cancels the load: tensors not read yet fail with KL_ECANCELLED, now or when they are asked for.
 * Reads in progress stop at the next chunk. */
void kl_load_cancel(struct kl_load *l);
void kl_load_get(struct kl_load *l, struct kl_load_progress *p);

/* ---- files ---- */
enum kl_format {
    KL_FORMAT_ANY, /* the first bytes tell the format */
#define KL_FORMAT(ID, name) KL_FORMAT_##ID,
#include "io/formats.def"
    KL_N_FORMATS
};

struct kl_pair {
    const char *key, *value;
};
struct kl_file_tensor {
    const char *name; /* UTF-8; "" for the array of a .npy file */
    enum kl_dtype dtype;
    int ndim;
    const int *dims;
    uint64_t begin, end; /* bytes of the file; in a .npz, of the member (uncompressed) */
    uint64_t bytes;      /* size of the value */
    /* for the format's reader alone */
    bool swap;     /* the bytes are in the other byte order */
    bool fortran;  /* the elements are column-major */
    bool missing;  /* the source is known to end before `end` */
    bool refused;  /* it cannot be read, because it is of type `type_id` */
    uint8_t part;  /* what is made of `blocks` */
    uint32_t skip; /* header bytes before the data within the member */
    union {
        uint64_t index; /* of the member of an archive */
        uint64_t type_id;
        const struct kl_gguf_type *blocks; /* the data are blocks of this type; else NULL */
    };
};
struct kl_file {
    enum kl_format format;
    struct kl_source *source; /* owned */
    size_t n;
    struct kl_file_tensor *tensors; /* in the order of their bytes in the file */
    size_t n_metadata;
    struct kl_pair *metadata; /* sorted by key */
    size_t n_values;
    struct kl_gguf_value *values; /* metadata with types (io/gguf.h), sorted by key */
    void *state;                  /* what the format's reader keeps for loads, else NULL */
    size_t cap;                   /* capacity of tensors */
    struct kl_chunk *strings;     /* the memory of names, dims and metadata */
};
/* Reads and checks the header, on the calling thread. Retains the source. */
int kl_file_open(struct kl_file **out, struct kl_source *src, enum kl_format format,
                 struct kl_error **err);
void kl_file_close(struct kl_file *f); /* NULL is fine */
/* A lazy array of tensor i; load may be NULL. When it is already known that bytes of the tensor are
 * missing, the array is a failed one. */
int kl_file_array(struct kl_array **out, struct kl_file *f, size_t i, struct kl_load *load,
                  struct kl_error **err);

/* Opens a .npy and gives its lazy array, in one call. */
int kl_load_npy(struct kl_array **out, struct kl_source *src, struct kl_error **err);

/* ---- saving ---- */
struct kl_named {
    const char *name;
    struct kl_array *array;
};
/* The target; exactly one field is set. A path that does not end with the suffix of the format gets
 * it, as in MLX. The new file replaces an old one when it is complete; lazy tensors of the old file
 * stay readable. */
struct kl_dest {
    const char *path;
    struct kl_source *writer; /* made by kl_source_new_reader */
};
/* These functions evaluate all arrays first. A failed array fails the call with its error, and
 * nothing is written. */
int kl_save_npy(struct kl_dest to, struct kl_array *a, struct kl_error **err);
int kl_save_safetensors(struct kl_dest to, const struct kl_named *tensors, size_t n,
                        const struct kl_pair *metadata, size_t n_metadata, struct kl_error **err);
int kl_save_npz(const char *path, const struct kl_named *tensors, size_t n, bool compressed,
                struct kl_error **err);
