/* export.h - functions in files: what was traced of a function, with its constants, to be called
 * in another process and on another device. The format is Keel's own (docs/function-files.md);
 * files of MLX are refused. A file holds no code and no paths, and its operations go through all
 * checks of their builders at each call. */
#ifndef MLX_EXPORT_H
#define MLX_EXPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "keel/export.h"
#include "mlx/c/closure.h"
#include "mlx/c/map.h"
#include "mlx/c/vector.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Traces fun with placeholders of the dtypes and shapes of args, and writes what it does to the
 * file. An older file is replaced when the new one is complete, and stays as it was on failure.
 * With shapeless the sizes of axes follow from the arguments of each call; those that fun reads
 * (mlx_array_dim, mlx_array_shape) must be the same again. Arrays that fun finds
 * elsewhere are evaluated and become constants in the file; rules of custom functions are not
 * written. KEEL_ETRACE: fun evaluates what depends on an argument. KEEL_EUNSUPPORTED: fun calls
 * a kernel of the user, or loads. KEEL_ECALLBACK: fun failed. KEEL_EFILE. */
KEEL_API int mlx_export_function(const char *file, const mlx_closure fun,
                                 const mlx_vector_array args, bool shapeless);
/* The same for a function that takes named arrays too. */
KEEL_API int mlx_export_function_kwargs(const char *file, const mlx_closure_kwargs fun,
                                        const mlx_vector_array args,
                                        const mlx_map_string_to_array kwargs, bool shapeless);

/* Several traces of one function in one file, which share constants. */
typedef struct mlx_function_exporter_ {
    void *ctx;
} mlx_function_exporter;
/* An empty handle on failure. Nothing is written yet. */
KEEL_API mlx_function_exporter mlx_function_exporter_new(const char *file, const mlx_closure fun,
                                                         bool shapeless);
/* Writes the file, and frees the exporter also on failure, whose code it returns. */
KEEL_API int mlx_function_exporter_free(mlx_function_exporter xfunc);
/* Adds the trace for arguments of these dtypes and shapes. KEEL_EARG: they were added before. Other
 * errors as for mlx_export_function; the exporter can still be used. */
KEEL_API int mlx_function_exporter_apply(const mlx_function_exporter xfunc,
                                         const mlx_vector_array args);
/* kwargs must be empty, since a closure takes no named arrays (KEEL_EARG). */
KEEL_API int mlx_function_exporter_apply_kwargs(const mlx_function_exporter xfunc,
                                                const mlx_vector_array args,
                                                const mlx_map_string_to_array kwargs);

/* A function from a file. Any thread may call it, and it may be used inside transforms. */
typedef struct mlx_imported_function_ {
    void *ctx;
} mlx_imported_function;
/* An empty handle on failure. KEEL_EFILE; KEEL_EFORMAT, with a message for each rule that the file
 * breaks. */
KEEL_API mlx_imported_function mlx_imported_function_new(const char *file);
KEEL_API int mlx_imported_function_free(mlx_imported_function xfunc);
/* *res: what the function gives, lazily, on the calling thread's default stream. KEEL_EARG: it was
 * not exported for arguments of these dtypes and shapes. KEEL_ESHAPE, of a function for any
 * shapes: it read the size of an axis, which now is another; the message names argument and axis.
 * Else the errors of its operations, as they are built and when they are evaluated. */
KEEL_API int mlx_imported_function_apply(mlx_vector_array *res, const mlx_imported_function xfunc,
                                         const mlx_vector_array args);
KEEL_API int mlx_imported_function_apply_kwargs(mlx_vector_array *res,
                                                const mlx_imported_function xfunc,
                                                const mlx_vector_array args,
                                                const mlx_map_string_to_array kwargs);

#ifdef __cplusplus
}
#endif
#endif
