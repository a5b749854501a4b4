/* io.h - arrays from files and to files: .npy, and .safetensors with metadata.
 *
 * A load call reads and checks the header. Its arrays are lazy: they read their bytes when they are
 * evaluated. A header that breaks a rule of its format fails the load (KEEL_EFORMAT). A file with a
 * correct header that is too short, or unreadable in part, can be loaded: exactly the arrays whose
 * bytes are missing fail when they are read, with the tensor, the file and the byte range in the
 * error (keel/error.h). Names and metadata are UTF-8. keel/load.h gives more control. */
#ifndef MLX_IO_H
#define MLX_IO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "keel/export.h"
#include "mlx/c/array.h"
#include "mlx/c/io_types.h"
#include "mlx/c/map.h"
#include "mlx/c/stream.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Puts the array of a .npy file into *res. s must be a stream, but reading does not run on it: the
 * bytes are read independently of all streams and wait for none. */
KEEL_API int mlx_load(mlx_array *res, const char *file, const mlx_stream s);
KEEL_API int mlx_load_reader(mlx_array *res, mlx_io_reader in_stream, const mlx_stream s);
/* Puts all tensors of a .safetensors file into *res_0, with their names as keys, and the metadata
 * of its header into *res_1. */
KEEL_API int mlx_load_safetensors(mlx_map_string_to_array *res_0, mlx_map_string_to_string *res_1,
                                  const char *file, const mlx_stream s);
KEEL_API int mlx_load_safetensors_reader(mlx_map_string_to_array *res_0,
                                         mlx_map_string_to_string *res_1, mlx_io_reader in_stream,
                                         const mlx_stream s);

/* Saving evaluates the arrays first. When an array has failed, the call fails with the error of the
 * array, and nothing is written. ".npy" or ".safetensors" is added to a file name that does not end
 * so. An existing file is replaced as a whole when the new file is complete; lazy arrays of the old
 * file stay readable. */
KEEL_API int mlx_save(const char *file, const mlx_array a);
KEEL_API int mlx_save_writer(mlx_io_writer out_stream, const mlx_array a);
/* metadata is an empty table when the file shall have none. */
KEEL_API int mlx_save_safetensors(const char *file, const mlx_map_string_to_array param,
                                  const mlx_map_string_to_string metadata);
KEEL_API int mlx_save_safetensors_writer(mlx_io_writer in_stream,
                                         const mlx_map_string_to_array param,
                                         const mlx_map_string_to_string metadata);

#ifdef __cplusplus
}
#endif
#endif
