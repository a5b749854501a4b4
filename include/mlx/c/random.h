/* random.h - random numbers that depend on nothing but a key.
 *
 * A key is an uint32 array of shape (2,). The same key gives the same numbers, on every device
 * and with any number of threads; keys are split to get independent ones. `key` may be an empty
 * handle: then the next key of the process-wide sequence is used, which mlx_random_seed
 * restarts. `shape` may be NULL when shape_num is 0: one number, 0-d. Operations run on stream
 * s. Errors: a bad key, negative extents, a dtype that is not taken. */
#ifndef MLX_RANDOM_H
#define MLX_RANDOM_H

#include <stddef.h>
#include <stdint.h>

#include "keel/export.h"
#include "mlx/c/array.h"
#include "mlx/c/stream.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- keys ---- */
KEEL_API int mlx_random_key(mlx_array *res, uint64_t seed);
/* Restarts the process-wide sequence. */
KEEL_API int mlx_random_seed(uint64_t seed);
/* Two keys, independent of each other and of key, which should not be used again. */
KEEL_API int mlx_random_split(mlx_array *res_0, mlx_array *res_1, const mlx_array key,
                              const mlx_stream s);
/* num keys: shape (num, 2). */
KEEL_API int mlx_random_split_num(mlx_array *res, const mlx_array key, int num, const mlx_stream s);

/* ---- numbers ---- */
/* Random bits as unsigned integers of `width` bytes: 1, 2 or 4. A key of shape (..., 2) is a
 * batch: its leading axes come before shape. */
KEEL_API int mlx_random_bits(mlx_array *res, const int *shape, size_t shape_num, int width,
                             const mlx_array key /* may be null */, const mlx_stream s);
/* Uniform in [low, high), of a float dtype. low and high broadcast to shape. */
KEEL_API int mlx_random_uniform(mlx_array *res, const mlx_array low, const mlx_array high,
                                const int *shape, size_t shape_num, mlx_dtype dtype,
                                const mlx_array key /* may be null */, const mlx_stream s);
/* Normal with mean loc and standard deviation scale, of a float dtype or complex64. */
KEEL_API int mlx_random_normal(mlx_array *res, const int *shape, size_t shape_num, mlx_dtype dtype,
                               float loc, float scale, const mlx_array key /* may be null */,
                               const mlx_stream s);
/* The same with arrays that broadcast to shape; empty handles: 0 and 1. */
KEEL_API int mlx_random_normal_broadcast(mlx_array *res, const int *shape, size_t shape_num,
                                         mlx_dtype dtype, const mlx_array loc /* may be null */,
                                         const mlx_array scale /* may be null */,
                                         const mlx_array key /* may be null */, const mlx_stream s);
/* Integers, uniform in [low, high), of an integer dtype. low and high are integers and broadcast
 * to shape. */
KEEL_API int mlx_random_randint(mlx_array *res, const mlx_array low, const mlx_array high,
                                const int *shape, size_t shape_num, mlx_dtype dtype,
                                const mlx_array key /* may be null */, const mlx_stream s);

#ifdef __cplusplus
}
#endif
#endif
