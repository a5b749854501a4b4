/* error.h - where failures go.
 *
 * A call that fails leaves its results alone, makes its error the calling thread's last one
 * (keel/error.h), calls the handler, and returns 1; constructors return an empty handle, plain
 * getters 0 or NULL. The handler runs on the calling thread, last, with no lock held: it may
 * call the API, install another handler, or longjmp. */
#ifndef MLX_ERROR_H
#define MLX_ERROR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "keel/export.h"

#ifdef __cplusplus
extern "C" {
#endif

/* msg is one line of text, never a format; valid until the handler returns. data is what was
 * installed with it. */
typedef void (*mlx_error_handler_func)(const char *msg, void *data);

/* Installs the handler of the process and its data. The data that was there before is destroyed
 * with the dtor that came with it, once, before this returns; so no other thread may be in the
 * old handler and use it. dtor may be NULL: data is passed to the handler all the same. handler
 * NULL installs the one that is there at the start: it prints "MLX error: " and the message on
 * the standard output and ends the process with exit(-1). */
KEEL_API void mlx_set_error_handler(mlx_error_handler_func handler, void *data,
                                    void (*dtor)(void *));

/* Reports a failure of the caller's own, as if a call had failed: the message is fmt expanded as
 * by printf, then " at file:line". In a callback of a custom reader or writer it does not reach
 * the handler: it makes that read or write fail with this message. Use the macro below, which
 * fills in the place. */
KEEL_API void _mlx_error(const char *file, const int line, const char *fmt, ...) KEEL_PRINTF(3, 4);

#define mlx_error(...) _mlx_error(__FILE__, __LINE__, __VA_ARGS__)

#ifdef __cplusplus
}
#endif
#endif
