/* io_types.h - readers and writers made of the caller's functions. */
#ifndef MLX_IO_TYPES_H
#define MLX_IO_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "keel/export.h"
#include "mlx/c/string.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mlx_io_reader_ {
    void *ctx;
} mlx_io_reader;

typedef struct mlx_io_writer_ {
    void *ctx;
} mlx_io_writer;

/* What a reader or writer does; each function gets the descriptor. Any member may be NULL when
 * it is not needed: a reader needs read_at_offset, or seek and read; a writer needs write.
 *
 * Calls on one descriptor never overlap, but come from any thread, some while arrays are
 * evaluated, long after the load call. A call has failed when it used mlx_error (error.h), which
 * then does not reach the handler, or when good() was true before it and is false after it: the
 * tensor that was read, or the load or save, fails with that error. When good() is false
 * beforehand the call is not made. */
typedef struct mlx_io_vtable_ {
    bool (*is_open)(void *);
    bool (*good)(void *);
    /* The position, from the start. */
    size_t (*tell)(void *);
    /* whence: 0 from the start, 1 from the position, 2 from the end. */
    void (*seek)(void *, int64_t off, int whence);
    /* Exactly n bytes at the position, which moves on. */
    void (*read)(void *, char *data, size_t n);
    /* Exactly n bytes at off. */
    void (*read_at_offset)(void *, char *data, size_t n, size_t off);
    /* Exactly n bytes at the position, which moves on. */
    void (*write)(void *, const char *data, size_t n);
    /* What messages call it; copied at once. */
    const char *(*label)(void *);
    /* Called once, when nothing needs the descriptor any more; on any thread. */
    void (*free)(void *);
} mlx_io_vtable;

/* A reader over desc. Arrays loaded through it keep it alive; vtable.free(desc) is called when
 * the handle and all of them are gone. Empty handle, and an error, when out of memory: then desc
 * stays the caller's. */
KEEL_API mlx_io_reader mlx_io_reader_new(void *desc, mlx_io_vtable vtable);
/* The desc that the reader was made with. */
KEEL_API int mlx_io_reader_descriptor(void **desc_, mlx_io_reader io);
/* What label() says. */
KEEL_API int mlx_io_reader_tostring(mlx_string *str_, mlx_io_reader io);
/* An empty handle is fine. Returns 0. */
KEEL_API int mlx_io_reader_free(mlx_io_reader io);

/* The same for writers. */
KEEL_API mlx_io_writer mlx_io_writer_new(void *desc, mlx_io_vtable vtable);
KEEL_API int mlx_io_writer_descriptor(void **desc_, mlx_io_writer io);
KEEL_API int mlx_io_writer_tostring(mlx_string *str_, mlx_io_writer io);
KEEL_API int mlx_io_writer_free(mlx_io_writer io);

#ifdef __cplusplus
}
#endif
#endif
