/* load.h - what mlx/c/io.h has not: any model file by one call, its list of tensors, progress,
 * cancellation, readers with return codes, and .npz.
 *
 *     keel_file f = keel_file_open("model.safetensors", KEEL_FORMAT_ANY);   (the header only)
 *     keel_load load = keel_load_new();
 *     mlx_map_string_to_array tensors = mlx_map_string_to_array_new();
 *     keel_file_load_all(&tensors, f, load);                   (lazy arrays, nothing read yet)
 *     keel_file_free(f);                                       (the arrays keep what they need)
 *     ... mlx_async_eval on the arrays; keel_load_get from a timer, keel_load_cancel on a button
 *
 * A header that breaks a rule of its format fails keel_file_open (KEEL_EFORMAT; KEEL_EDTYPE for an
 * element type that there is no array of). A consistent header over a file that is too short opens;
 * exactly the tensors whose bytes are missing fail when they are read (KEEL_ETRUNCATED, with
 * tensor, file and byte range; see keel/error.h). Functions return 0, or 1 with an error raised, or
 * 2 for "not there" without one. Any thread may call. */
#ifndef KEEL_LOAD_H
#define KEEL_LOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "keel/export.h"
#include "mlx/c/array.h"
#include "mlx/c/map.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- one load: progress and cancellation ---- */
typedef struct keel_load_ {
    void *ctx;
} keel_load;

typedef struct keel_load_progress_ {
    uint64_t bytes_total; /* of the tensor data of the arrays made with this load */
    uint64_t bytes_done;
    uint64_t n_tensors;
    uint64_t n_done;    /* read completely */
    uint64_t n_failed;  /* cancelled ones included */
    uint64_t n_skipped; /* freed before anybody evaluated them */
} keel_load_progress;

/* ctx is NULL, and an error raised, when out of memory. Serves any number of files. */
KEEL_API keel_load keel_load_new(void);
KEEL_API int keel_load_free(keel_load load); /* cancels nothing; an empty handle is fine */
KEEL_API int keel_load_get(keel_load_progress *progress, keel_load load);
/* Arrays of this load that are not read yet fail with KEEL_ECANCELLED, whenever they are evaluated;
 * a read in progress stops at the next chunk (8 MB), but a callback of a reader is never
 * interrupted. */
KEEL_API int keel_load_cancel(keel_load load);

/* ---- files ---- */
typedef struct keel_file_ {
    void *ctx;
} keel_file;

enum keel_format {
    KEEL_FORMAT_ANY = 0, /* by its first bytes */
    KEEL_FORMAT_NPY = 1,
    KEEL_FORMAT_NPZ = 2, /* needs libzip at run time, else KEEL_EUNSUPPORTED */
    KEEL_FORMAT_SAFETENSORS = 3
};

typedef struct keel_tensor_ {
    const char *name; /* UTF-8; "" for the array of a .npy. Valid as long as the file handle */
    mlx_dtype dtype;
    int ndim;
    const int *shape; /* as long as the file handle */
    /* [byte_begin, byte_end) of the file; in a .npz, of the uncompressed member. */
    uint64_t byte_begin, byte_end;
    bool missing; /* the file is known to end before byte_end: the array would fail */
} keel_tensor;

/* A source of bytes with return codes. Calls on one reader never overlap, and come from any thread;
 * a blocked reader delays nobody but itself. An mlx_error raised in a callback counts as its
 * failure and goes to no handler. */
typedef struct keel_reader_ {
    void *desc;
    /* Puts the n bytes at `offset` into data. 0, or a code of yours, which the error's message will
     * quote. */
    int (*read_at)(void *desc, void *data, size_t n, uint64_t offset);
    /* The size of the file; 0 or a code. May be NULL: then bytes behind the data go unnoticed, and
     * no .npz. */
    int (*size)(void *desc, uint64_t *size);
    const char *(*label)(void *desc); /* a name for messages; may be NULL */
    void (*free)(void *desc);         /* once, when nobody needs the reader any more; may be NULL */
} keel_reader;

/* Reads and checks the header. ctx is NULL, and an error raised, on failure. */
KEEL_API keel_file keel_file_open(const char *path, enum keel_format format);
/* The reader is taken, also on failure: its free will be called. */
KEEL_API keel_file keel_file_open_reader(keel_reader reader, enum keel_format format);
KEEL_API int keel_file_free(keel_file file); /* an empty handle is fine */

/* What is in it, without reading it; tensors in the order of their bytes (a .npz: of its
 * members). */
KEEL_API size_t keel_file_n_tensors(keel_file file);
KEEL_API int keel_file_tensor(keel_tensor *tensor, keel_file file, size_t index);
KEEL_API size_t keel_file_n_metadata(keel_file file);
/* Entry `index` by key. The strings are valid as long as the file handle. */
KEEL_API int keel_file_metadata(const char **key, const char **value, keel_file file, size_t index);

/* A lazy array of the tensor of that name; 2 when there is none. load may be an empty handle. */
KEEL_API int keel_file_load(mlx_array *res, keel_file file, const char *name, keel_load load);
/* Lazy arrays of all tensors. load may be an empty handle. */
KEEL_API int keel_file_load_all(mlx_map_string_to_array *res, keel_file file, keel_load load);

/* ---- .npz ---- */
/* The arrays of a .npz, lazily, by the names of its members without ".npy". load may be an empty
 * handle. */
KEEL_API int keel_load_npz(mlx_map_string_to_array *res, const char *path, keel_load load);
/* As numpy.savez, or numpy.savez_compressed. Evaluates first; ".npz" is added to a path that does
 * not end so; an old file is replaced when the new one is complete. */
KEEL_API int keel_save_npz(const char *path, const mlx_map_string_to_array arrays, bool compressed);

#ifdef __cplusplus
}
#endif
#endif
