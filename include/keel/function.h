/* function.h - what mlx/c/export.h has not: functions in files with a text, exporters of functions
 * that take named arrays, and functions that are described instead of written.
 *
 * The functions return 0, or 1 with an error raised (keel/error.h). */
#ifndef KEEL_FUNCTION_H
#define KEEL_FUNCTION_H

#include <stdbool.h>
#include <stddef.h>

#include "keel/export.h"
#include "mlx/c/array.h"
#include "mlx/c/closure.h"
#include "mlx/c/export.h"
#include "mlx/c/map.h"
#include "mlx/c/vector.h"

#ifdef __cplusplus
extern "C" {
#endif

/* mlx_export_function_kwargs with a text that is kept in the file; NULL: none. kwargs may be an
 * empty handle. Errors are those of mlx_export_function. */
KEEL_API int keel_export_function(const char *file, const mlx_closure_kwargs fun,
                                  const mlx_vector_array args, const mlx_map_string_to_array kwargs,
                                  bool shapeless, const char *metadata);
/* mlx_function_exporter_new for a function that takes named arrays, so that
 * mlx_function_exporter_apply_kwargs takes some, and with a text; NULL: none. */
KEEL_API mlx_function_exporter keel_function_exporter_new(const char *file,
                                                          const mlx_closure_kwargs fun,
                                                          bool shapeless, const char *metadata);
/* The text of the file; "": there was none. It lives as long as the function. NULL: xfunc is an
 * empty handle. */
KEEL_API const char *keel_imported_function_metadata(const mlx_imported_function xfunc);

/* A value of a traced function. Numbers are those of arguments first, then of constants, then of
 * results of operations. The shape is borrowed for the call. */
typedef struct keel_export_value_ {
    int number;
    mlx_dtype dtype;
    size_t ndim;
    const int *shape;
} keel_export_value;

typedef enum keel_export_kind_ {
    KEEL_EXPORT_INPUTS = 0,   /* inputs: the arguments; names: of the last n_names of them */
    KEEL_EXPORT_OUTPUTS = 1,  /* outputs: the results */
    KEEL_EXPORT_CONSTANT = 2, /* outputs: one value; constant: the array */
    KEEL_EXPORT_OPERATION = 3 /* name, parameters, inputs, outputs: one value */
} keel_export_kind;

/* One thing of a function; everything is borrowed for the call, and what a kind has not is 0. */
typedef struct keel_export_event_ {
    keel_export_kind kind;
    const char *name;       /* the operation, as docs/coverage.md names it */
    const char *parameters; /* a list in JSON: the fields of docs/function-files.md, in order */
    const keel_export_value *inputs, *outputs;
    size_t n_inputs, n_outputs;
    const char *const *names;
    size_t n_names;
    mlx_array constant;
} keel_export_event;
/* Returns 0; anything else ends the description (KEEL_ECALLBACK). */
typedef int keel_export_visitor(const keel_export_event *event, void *payload);

/* Traces fun as mlx_export_function does and tells the visitor what it is, in place of writing it:
 * the inputs, the outputs, each constant, then each operation in an order in which they can be
 * done. With shapeless, what follows from extents is an operation named deferred. The visitor is
 * called by the calling thread. Errors are those of mlx_export_function. */
KEEL_API int keel_export_describe(keel_export_visitor *visitor, void *payload,
                                  const mlx_closure_kwargs fun, const mlx_vector_array args,
                                  const mlx_map_string_to_array kwargs, bool shapeless);

#ifdef __cplusplus
}
#endif

#endif
