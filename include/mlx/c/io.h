/* io.h - arrays from files and to files: .npy, .safetensors and .gguf.
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

/* Puts the content of a .gguf file (version 2 or 3) into *gguf. A tensor "x.weight" of the types
 * Q4_0, Q4_1 and Q8_0 gives three arrays, as mlx_quantize in groups of 32: x.weight (uint32),
 * x.scales and x.biases (float16). F32, F16, BF16, F64 and integers stay what they are; Q5_0, Q5_1,
 * Q2_K to Q6_K, IQ4_NL, and the three above under other names, become float16. A tensor of another
 * type fails when it is used (KEEL_EUNSUPPORTED, with its name). */
KEEL_API int mlx_load_gguf(mlx_io_gguf *gguf, const char *file, const mlx_stream s);

/* Saving evaluates the arrays first. When an array has failed, the call fails with the error of the
 * array, and nothing is written. ".npy" or ".safetensors" is added to a file name that does not end
 * so. An existing file is replaced as a whole when the new file is complete; lazy arrays of the old
 * file stay readable. A symbolic link stays: the file to which it leads is written, and made where
 * there is none yet (KEEL_EFILE where links lead to each other). */
KEEL_API int mlx_save(const char *file, const mlx_array a);
KEEL_API int mlx_save_writer(mlx_io_writer out_stream, const mlx_array a);
/* Arrays are int8, int16, int32, int64, float16, bfloat16, float32 or float64 (else KEEL_EDTYPE),
 * and have at most 8 axes; metadata is bool, integers, float32, float64 or strings. ".gguf" is
 * added to a name that does not end so. The file is of version 3. */
KEEL_API int mlx_save_gguf(const char *file, mlx_io_gguf gguf);
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
