/* load.h - reading model files with more control than mlx/c/io.h gives: one call for any format,
 * the list of tensors, progress, cancellation, readers with return codes, and .npz.
 *
 *     keel_file f = keel_file_open("model.safetensors", KEEL_FORMAT_ANY);   (reads the header only)
 *     keel_load load = keel_load_new();
 *     mlx_map_string_to_array tensors = mlx_map_string_to_array_new();
 *     keel_file_load_all(&tensors, f, load);                   (lazy arrays; no data is read yet)
 *     keel_file_free(f);                                       (the arrays keep what they need)
 *     ... mlx_async_eval on the arrays; keel_load_get from a timer, keel_load_cancel on a button
 *
 * keel_file_open fails when the header breaks a rule of its format (KEEL_EFORMAT), or when it names
 * an element type for which there is no dtype (KEEL_EDTYPE). A file with a consistent header that
 * is too short can be opened: exactly the tensors whose bytes are missing fail when they are read
 * (KEEL_ETRUNCATED, with the tensor, the file and the byte range; see keel/error.h). The functions
 * return 0, or 1 with an error raised, or 2 without an error for "there is no such entry". Any
 * thread may call them. */
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

/* The caller sets size before each call; the library fills the other fields that fit. */
typedef struct keel_load_progress_ {
    size_t size;          /* sizeof(keel_load_progress) */
    uint64_t bytes_total; /* bytes of tensor data of all arrays made with this load */
    uint64_t bytes_done;
    uint64_t n_tensors;
    uint64_t n_done;    /* tensors that were read completely */
    uint64_t n_failed;  /* tensors that failed, including cancelled tensors */
    uint64_t n_skipped; /* tensors that were freed before they were evaluated */
} keel_load_progress;

/* Makes a load, which counts the progress of any number of files. ctx is NULL, and KEEL_ENOMEM
 * raised, when out of memory. The caller frees it with keel_load_free. */
KEEL_API keel_load keel_load_new(void);
/* Frees the handle and cancels nothing. An empty handle is allowed. */
KEEL_API int keel_load_free(keel_load load);
/* KEEL_EARG: progress->size is too small for the fields up to bytes_done (such as 0). */
KEEL_API int keel_load_get(keel_load_progress *progress, keel_load load);
/* Cancels the arrays of this load that are not read yet: they fail with KEEL_ECANCELLED when they
 * are evaluated. A read in progress stops after its chunk of 8 MB, and one that fails from
 * now on counts as cancelled. A callback of a reader is never interrupted. */
KEEL_API int keel_load_cancel(keel_load load);

/* ---- files ---- */
typedef struct keel_file_ {
    void *ctx;
} keel_file;

enum keel_format {
    KEEL_FORMAT_ANY = 0, /* found out from the first bytes of the file */
    KEEL_FORMAT_NPY = 1,
    KEEL_FORMAT_NPZ = 2, /* needs libzip at run time; KEEL_EUNSUPPORTED without it */
    KEEL_FORMAT_SAFETENSORS = 3,
    KEEL_FORMAT_GGUF = 4 /* its typed metadata: mlx_load_gguf */
};

/* The caller sets size before each call; the library fills the other fields that fit. */
typedef struct keel_tensor_ {
    size_t size;      /* sizeof(keel_tensor) */
    const char *name; /* UTF-8; "" for the array of a .npy file. Valid as long as the file handle */
    mlx_dtype dtype;
    int ndim;
    const int *shape; /* ndim extents, valid as long as the file handle */
    /* The bytes [byte_begin, byte_end) of the file; in a .npz, of the uncompressed member. */
    uint64_t byte_begin, byte_end;
    /* whether the file is known to end before byte_end, so that the array would fail */
    bool missing;
} keel_tensor;

/* A source of bytes made of the caller's functions, with return codes. Calls on one reader never
 * overlap; they may come from any thread. A reader that blocks delays only the arrays that it
 * reads. An mlx_error raised in a callback counts as a failure of that callback and does not reach
 * the handler. */
typedef struct keel_reader_ {
    void *desc;
    /* Puts the n bytes at `offset` into data. Returns 0, or any other code, which the message of
     * the error then quotes. */
    int (*read_at)(void *desc, void *data, size_t n, uint64_t offset);
    /* Puts the size of the file into *size. Returns 0 or an error code. May be NULL; then bytes
     * after the last tensor go unnoticed, and .npz cannot be read. */
    int (*size)(void *desc, uint64_t *size);
    const char *(*label)(void *desc); /* The name of the reader for messages. May be NULL. */
    /* Called once, when nothing needs the reader any more. May be NULL. */
    void (*free)(void *desc);
} keel_reader;

/* Opens a file and checks its header. On failure ctx is NULL and an error is raised. The caller
 * frees the handle with keel_file_free. */
KEEL_API keel_file keel_file_open(const char *path, enum keel_format format);
/* Opens a file through a reader. The call takes ownership of the reader: its `free` is called also
 * when the call fails. */
KEEL_API keel_file keel_file_open_reader(keel_reader reader, enum keel_format format);
KEEL_API int keel_file_free(keel_file file); /* Frees the handle. An empty handle is allowed. */

/* The number of tensors, and one of them by its number. No data is read. Tensors are numbered in
 * the order of their bytes; those of a .npz in the order of its members. KEEL_EARG: index is too
 * large, or tensor->size is too small for the fields up to shape (such as 0). */
KEEL_API size_t keel_file_n_tensors(keel_file file);
KEEL_API int keel_file_tensor(keel_tensor *tensor, keel_file file, size_t index);
KEEL_API size_t keel_file_n_metadata(keel_file file);
/* The key and value of metadata entry `index`. The strings are valid as long as the file handle.
 * In a .gguf file only strings have a value here, others "": mlx_load_gguf has them. */
KEEL_API int keel_file_metadata(const char **key, const char **value, keel_file file, size_t index);

/* Puts a lazy array of the named tensor into *res. Returns 2 when there is no such tensor. load may
 * be an empty handle. */
KEEL_API int keel_file_load(mlx_array *res, keel_file file, const char *name, keel_load load);
/* Puts lazy arrays of all tensors into *res, with their names as keys. load may be an empty
 * handle. */
KEEL_API int keel_file_load_all(mlx_map_string_to_array *res, keel_file file, keel_load load);

/* ---- .npz ---- */
/* Puts lazy arrays of all members of a .npz file into *res. The keys are the names of the members
 * without ".npy". load may be an empty handle. */
KEEL_API int keel_npz_load(mlx_map_string_to_array *res, const char *path, keel_load load);
/* Writes what numpy.savez, or numpy.savez_compressed, writes. Evaluates the arrays first. Adds
 * ".npz" to a path that does not end so. An existing file is replaced only when the new file is
 * complete. */
KEEL_API int keel_npz_save(const char *path, const mlx_map_string_to_array arrays, bool compressed);

#ifdef __cplusplus
}
#endif
#endif
