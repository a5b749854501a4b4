/* random.h - random numbers that depend on nothing but a key.
 *
 * A key is an uint32 array of shape (2,). The same key gives the same numbers, on every device
 * and with any number of threads; keys are split to get independent ones. `key` may be an empty
 * handle: then the next key of the calling thread's sequence is used, which mlx_random_seed
 * restarts. Until they are seeded the sequences of all threads of a process begin alike, at a state
 * that depends on the time; they end with their threads. `shape` may be NULL when shape_num is 0: one number, 0-d. Operations run on stream
 * s. Errors: a bad key, negative extents, a dtype that is not taken. */
#ifndef MLX_RANDOM_H
#define MLX_RANDOM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "keel/export.h"
#include "mlx/c/array.h"
#include "mlx/c/stream.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- keys ---- */
KEEL_API int mlx_random_key(mlx_array *res, uint64_t seed);
/* Restarts the sequence of the calling thread; those of others go on. */
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

/* ---- numbers of other distributions ---- */
/* bool, true with probability p: an array of a float dtype that broadcasts to shape. */
KEEL_API int mlx_random_bernoulli(mlx_array *res, const mlx_array p, const int *shape,
                                  size_t shape_num, const mlx_array key /* may be null */,
                                  const mlx_stream s);
/* -log(-log(u)) with u uniform in [0, 1); dtypes as mlx_random_uniform. */
KEEL_API int mlx_random_gumbel(mlx_array *res, const int *shape, size_t shape_num, mlx_dtype dtype,
                               const mlx_array key /* may be null */, const mlx_stream s);
/* Positions along an axis of the logits in uint32; position i is drawn with a probability in proportion to exp(logits[i]). Logits are real; the axis is not empty. The result has the shape
 * of the logits without the axis. */
KEEL_API int mlx_random_categorical(mlx_array *res, const mlx_array logits, int axis,
                                    const mlx_array key /* may be null */, const mlx_stream s);
/* The same with num_samples draws of each, along one more axis at the end. */
KEEL_API int mlx_random_categorical_num_samples(mlx_array *res, const mlx_array logits_, int axis,
                                                int num_samples,
                                                const mlx_array key /* may be null */,
                                                const mlx_stream s);
/* The same with a shape of draws, to which the shape of the logits without the axis broadcasts. */
KEEL_API int mlx_random_categorical_shape(mlx_array *res, const mlx_array logits, int axis,
                                          const int *shape, size_t shape_num,
                                          const mlx_array key /* may be null */,
                                          const mlx_stream s);
/* Laplace with mean loc and scale: loc + scale * sign(u) * log(1 - |u|) with u uniform in (-1, 1); of a float dtype, rounded once. */
KEEL_API int mlx_random_laplace(mlx_array *res, const int *shape, size_t shape_num, mlx_dtype dtype,
                                float loc, float scale, const mlx_array key /* may be null */,
                                const mlx_stream s);
/* Standard normal numbers given that they are in [lower, upper], of a float dtype: sqrt(2) * erfinv(u) with u uniform between erf(lower / sqrt(2)) and
 * erf(upper / sqrt(2)), kept between the bounds. These are real and broadcast to shape. */
KEEL_API int mlx_random_truncated_normal(mlx_array *res, const mlx_array lower,
                                         const mlx_array upper, const int *shape, size_t shape_num,
                                         mlx_dtype dtype, const mlx_array key /* may be null */,
                                         const mlx_stream s);
/* Normal vectors with mean (..., n) and covariance cov (..., n, n), in float32; without these axes both broadcast to shape, behind which the axis of the vectors comes. cov should be
 * symmetric and positive semi-definite, which is not checked: its symmetric part counts, and what is not positive in it is 0. Runs on the CPU. */
KEEL_API int mlx_random_multivariate_normal(mlx_array *res, const mlx_array mean,
                                            const mlx_array cov, const int *shape, size_t shape_num,
                                            mlx_dtype dtype, const mlx_array key /* may be null */,
                                            const mlx_stream s);
/* x with its slices along an axis in a random order. */
KEEL_API int mlx_random_permutation(mlx_array *res, const mlx_array x, int axis,
                                    const mlx_array key /* may be null */, const mlx_stream s);
/* The numbers 0 to x - 1 in a random order, in uint32. */
KEEL_API int mlx_random_permutation_arange(mlx_array *res, int x,
                                           const mlx_array key /* may be null */,
                                           const mlx_stream s);

#ifdef __cplusplus
}
#endif
#endif
