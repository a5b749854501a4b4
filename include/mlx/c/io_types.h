/* io_types.h - readers and writers of the caller, and the content of .gguf files. */
#ifndef MLX_IO_TYPES_H
#define MLX_IO_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "keel/export.h"
#include "mlx/c/array.h"
#include "mlx/c/string.h"
#include "mlx/c/vector.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mlx_io_reader_ {
    void *ctx;
} mlx_io_reader;

typedef struct mlx_io_writer_ {
    void *ctx;
} mlx_io_writer;

/* The functions of a reader or writer; each gets the descriptor as its first argument. A member
 * that is not needed may be NULL: a reader needs read_at_offset, or seek and read; a writer needs
 * write.
 *
 * Calls on one descriptor never overlap. They may come from any thread, also long after the load
 * call, when arrays are evaluated. A call has failed when it used mlx_error (error.h), whose error
 * then does not reach the handler, or when good() was true before the call and is false after it.
 * The tensor that was read, or the load or save, then fails with that error. When good() is false
 * before a call, the call is not made. */
typedef struct mlx_io_vtable_ {
    bool (*is_open)(void *);
    bool (*good)(void *);
    /* Returns the position, counted from the start. */
    size_t (*tell)(void *);
    /* Sets the position. whence: 0 counts from the start, 1 from the position, 2 from the end. */
    void (*seek)(void *, int64_t off, int whence);
    /* Reads exactly n bytes at the position, and moves the position after them. */
    void (*read)(void *, char *data, size_t n);
    /* Reads exactly n bytes at off. */
    void (*read_at_offset)(void *, char *data, size_t n, size_t off);
    /* Writes exactly n bytes at the position, and moves the position after them. */
    void (*write)(void *, const char *data, size_t n);
    /* Returns the name that messages use; it is copied at once. */
    const char *(*label)(void *);
    /* Called once, on any thread, when nothing needs the descriptor any more. */
    void (*free)(void *);
} mlx_io_vtable;

/* Makes a reader over desc. Arrays that are loaded through it keep the reader alive;
 * vtable.free(desc) is called when the handle and all these arrays are gone. When out of memory
 * (KEEL_ENOMEM) the handle is empty, an error is raised, and the caller still owns desc. */
KEEL_API mlx_io_reader mlx_io_reader_new(void *desc, mlx_io_vtable vtable);
/* Puts the desc with which the reader was made into *desc_. */
KEEL_API int mlx_io_reader_descriptor(void **desc_, mlx_io_reader io);
/* Puts the result of label() into *str_. */
KEEL_API int mlx_io_reader_tostring(mlx_string *str_, mlx_io_reader io);
/* Frees the handle. An empty handle is allowed. Returns 0. */
KEEL_API int mlx_io_reader_free(mlx_io_reader io);

/* The same for writers. */
KEEL_API mlx_io_writer mlx_io_writer_new(void *desc, mlx_io_vtable vtable);
KEEL_API int mlx_io_writer_descriptor(void **desc_, mlx_io_writer io);
KEEL_API int mlx_io_writer_tostring(mlx_string *str_, mlx_io_writer io);
KEEL_API int mlx_io_writer_free(mlx_io_writer io);

/* The content of a .gguf file: arrays by name, and metadata, whose values are arrays of at most one
 * axis, strings, or lists of strings. Handles are not shared between threads without a lock. */
typedef struct mlx_io_gguf_ {
    void *ctx;
} mlx_io_gguf;

/* Empty content. The caller frees it with mlx_io_gguf_free. ctx is NULL, and KEEL_ENOMEM raised,
 * when out of memory. */
KEEL_API mlx_io_gguf mlx_io_gguf_new(void);
KEEL_API int mlx_io_gguf_free(mlx_io_gguf io);
/* Puts the names of the arrays into *keys, in the order of the file. */
KEEL_API int mlx_io_gguf_get_keys(mlx_vector_string *keys, mlx_io_gguf io);
/* Puts what the key names into the result. 2, without an error: there is no such key; 3, without an
 * error: the metadata of that key is of another kind. */
KEEL_API int mlx_io_gguf_get_array(mlx_array *arr, mlx_io_gguf io, const char *key);
KEEL_API int mlx_io_gguf_get_metadata_array(mlx_array *arr, mlx_io_gguf io, const char *key);
KEEL_API int mlx_io_gguf_get_metadata_string(mlx_string *str, mlx_io_gguf io, const char *key);
KEEL_API int mlx_io_gguf_get_metadata_vector_string(mlx_vector_string *vstr, mlx_io_gguf io,
                                                    const char *key);
/* Whether the metadata of the key is of this kind; 2, with false, when there is no such key. */
KEEL_API int mlx_io_gguf_has_metadata_array(bool *flag, mlx_io_gguf io, const char *key);
KEEL_API int mlx_io_gguf_has_metadata_string(bool *flag, mlx_io_gguf io, const char *key);
KEEL_API int mlx_io_gguf_has_metadata_vector_string(bool *flag, mlx_io_gguf io, const char *key);
/* Set an array, or a value of the metadata; it replaces one of the same key. Arrays are retained,
 * strings are copied. KEEL_ESHAPE for metadata of more than one axis. */
KEEL_API int mlx_io_gguf_set_array(mlx_io_gguf io, const char *key, const mlx_array arr);
KEEL_API int mlx_io_gguf_set_metadata_array(mlx_io_gguf io, const char *key, const mlx_array marr);
KEEL_API int mlx_io_gguf_set_metadata_string(mlx_io_gguf io, const char *key, const char *mstr);
KEEL_API int mlx_io_gguf_set_metadata_vector_string(mlx_io_gguf io, const char *key,
                                                    const mlx_vector_string mvstr);

#ifdef __cplusplus
}
#endif
#endif
