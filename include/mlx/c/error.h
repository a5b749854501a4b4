/* error.h - the handler that failures are reported to.
 *
 * A call that fails does not change its results. It makes its error the calling thread's last error
 * (keel/error.h), calls the handler, and returns 1; constructors return an empty handle, and
 * functions that return a value return 0 or NULL. The handler runs on the calling thread as the
 * last step of the call, with no lock held. It may call the API, install another handler, or
 * longjmp. */
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

/* msg is one line of text, not a format string, and is valid until the handler returns. data is the
 * pointer that was installed with the handler. */
typedef void (*mlx_error_handler_func)(const char *msg, void *data);

/* Installs the handler of the process and its data. Before this function returns, the earlier data
 * is destroyed once, with its own dtor; no other thread may be in the old handler and use it at
 * that time. dtor may be NULL; the handler gets data all the same. handler NULL installs the
 * initial handler, which prints "MLX error: " and the message on the standard output and ends the
 * process with exit(-1). */
KEEL_API void mlx_set_error_handler(mlx_error_handler_func handler, void *data,
                                    void (*dtor)(void *));

/* Reports a failure of the caller's own code, as if a call had failed. The message is fmt expanded
 * as by printf, then " at file:line". In a callback of a custom reader or writer the error does not
 * reach the handler: that read or write fails with this message. Use the macro mlx_error, which
 * fills in the file and the line. */
KEEL_API void _mlx_error(const char *file, const int line, const char *fmt, ...) KEEL_PRINTF(3, 4);

#define mlx_error(...) _mlx_error(__FILE__, __LINE__, __VA_ARGS__)

#ifdef __cplusplus
}
#endif
#endif
