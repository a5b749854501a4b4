/* random.h - random numbers that depend on a key only.
 *
 * A key is a uint32 array of shape (2,). The same key gives the same numbers on every device and
 * with any number of threads; a key is split to get independent keys. `key` may be an empty handle:
 * the next key of the calling thread's sequence is then used. mlx_random_seed restarts this
 * sequence. Before that, the sequences of all threads of a process begin alike, at a state that
 * depends on the time. A sequence ends with its thread. `shape` may be NULL when shape_num is 0;
 * the result is then one number, 0-d. Operations run on stream s. Errors: KEEL_EDTYPE for a key
 * that is not uint32 and for a dtype that is not taken, KEEL_ESHAPE for a key of another shape, for
 * negative extents, and for arrays that do not broadcast to shape, KEEL_EARG for an empty handle
 * that may not be empty. */
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
/* Restarts the sequence of the calling thread. The sequences of other threads do not change. */
KEEL_API int mlx_random_seed(uint64_t seed);
/* Puts two keys of shape (2,) into *res_0 and *res_1. They are independent of each other and of
 * key, which should not be used again. */
KEEL_API int mlx_random_split(mlx_array *res_0, mlx_array *res_1, const mlx_array key,
                              const mlx_stream s);
/* Puts num independent keys into *res, an array of shape (num, 2). KEEL_EARG: num is negative, or
 * key is an empty handle. */
KEEL_API int mlx_random_split_num(mlx_array *res, const mlx_array key, int num, const mlx_stream s);

/* ---- bits, and uniform and normal numbers ---- */
/* Random bits as unsigned integers of `width` bytes: 1, 2 or 4. A key of shape (..., 2) is a batch:
 * its leading axes come before shape. KEEL_EARG: another width. */
KEEL_API int mlx_random_bits(mlx_array *res, const int *shape, size_t shape_num, int width,
                             const mlx_array key /* may be null */, const mlx_stream s);
/* Uniform in [low, high), in float16, bfloat16 or float32. low and high broadcast to shape. */
KEEL_API int mlx_random_uniform(mlx_array *res, const mlx_array low, const mlx_array high,
                                const int *shape, size_t shape_num, mlx_dtype dtype,
                                const mlx_array key /* may be null */, const mlx_stream s);
/* Normal with mean loc and standard deviation scale, of a float dtype or complex64. */
KEEL_API int mlx_random_normal(mlx_array *res, const int *shape, size_t shape_num, mlx_dtype dtype,
                               float loc, float scale, const mlx_array key /* may be null */,
                               const mlx_stream s);
/* The same with arrays loc and scale, which broadcast to shape; an empty handle stands for 0 and
 * 1. */
KEEL_API int mlx_random_normal_broadcast(mlx_array *res, const int *shape, size_t shape_num,
                                         mlx_dtype dtype, const mlx_array loc /* may be null */,
                                         const mlx_array scale /* may be null */,
                                         const mlx_array key /* may be null */, const mlx_stream s);
/* Integers, uniform in [low, high), of an integer dtype or bool. low and high have any dtype and
 * broadcast to shape; they are converted. A range of up to 65,536 numbers is drawn by 32 random
 * bits through float32, a larger one by 64, or 96 for dtypes of 64 bits: floor(u (high - low)) of
 * whole numbers, where the shares of two numbers differ by 2^-32 at most. low where high is not
 * above. */
KEEL_API int mlx_random_randint(mlx_array *res, const mlx_array low, const mlx_array high,
                                const int *shape, size_t shape_num, mlx_dtype dtype,
                                const mlx_array key /* may be null */, const mlx_stream s);

/* ---- numbers of other distributions ---- */
/* bool, true with probability p. p is an array of a float dtype that broadcasts to shape. */
KEEL_API int mlx_random_bernoulli(mlx_array *res, const mlx_array p, const int *shape,
                                  size_t shape_num, const mlx_array key /* may be null */,
                                  const mlx_stream s);
/* -log(-log(u)) with u uniform in [0, 1). Takes the dtypes that mlx_random_uniform takes. */
KEEL_API int mlx_random_gumbel(mlx_array *res, const int *shape, size_t shape_num, mlx_dtype dtype,
                               const mlx_array key /* may be null */, const mlx_stream s);
/* Positions along an axis of the logits, in uint32. Position i is drawn with a probability in
 * proportion to exp(logits[i]). KEEL_EDTYPE: complex logits. KEEL_EARG: an empty axis. The result
 * has the shape of the logits without the axis. */
KEEL_API int mlx_random_categorical(mlx_array *res, const mlx_array logits, int axis,
                                    const mlx_array key /* may be null */, const mlx_stream s);
/* The same with num_samples draws for each set of logits, along one more axis at the end.
 * KEEL_EARG: num_samples is negative. */
KEEL_API int mlx_random_categorical_num_samples(mlx_array *res, const mlx_array logits_, int axis,
                                                int num_samples,
                                                const mlx_array key /* may be null */,
                                                const mlx_stream s);
/* The same with draws of the given shape, to which the shape of the logits without the axis
 * broadcasts. */
KEEL_API int mlx_random_categorical_shape(mlx_array *res, const mlx_array logits, int axis,
                                          const int *shape, size_t shape_num,
                                          const mlx_array key /* may be null */,
                                          const mlx_stream s);
/* Laplace numbers with mean loc: loc + scale * sign(u) * log(1 - |u|) with u uniform in (-1, 1).
 * The dtype is a float; the result is rounded once. */
KEEL_API int mlx_random_laplace(mlx_array *res, const int *shape, size_t shape_num, mlx_dtype dtype,
                                float loc, float scale, const mlx_array key /* may be null */,
                                const mlx_stream s);
/* Standard normal numbers under the condition that they are in [lower, upper], of a float dtype:
 * sqrt(2) * erfinv(u) with u uniform between erf(lower / sqrt(2)) and erf(upper / sqrt(2)), clipped
 * to the bounds. lower and upper are real (otherwise KEEL_EDTYPE) and broadcast to shape. */
KEEL_API int mlx_random_truncated_normal(mlx_array *res, const mlx_array lower,
                                         const mlx_array upper, const int *shape, size_t shape_num,
                                         mlx_dtype dtype, const mlx_array key /* may be null */,
                                         const mlx_stream s);
/* Normal vectors in float32 with mean (..., n) and covariance cov (..., n, n). The leading axes of
 * mean and cov broadcast to shape; the result has the shape (shape..., n). cov should be symmetric
 * and positive semi-definite, which is not checked: the symmetric part of cov is used, and its
 * negative eigenvalues count as 0. Runs on the CPU. KEEL_EDTYPE: dtype is not float32, or an
 * operand is complex. KEEL_ESHAPE: mean and cov do not fit together. */
KEEL_API int mlx_random_multivariate_normal(mlx_array *res, const mlx_array mean,
                                            const mlx_array cov, const int *shape, size_t shape_num,
                                            mlx_dtype dtype, const mlx_array key /* may be null */,
                                            const mlx_stream s);
/* The slices of x along an axis in a random order. KEEL_EAXIS: x does not have this axis. */
KEEL_API int mlx_random_permutation(mlx_array *res, const mlx_array x, int axis,
                                    const mlx_array key /* may be null */, const mlx_stream s);
/* The numbers 0 to x - 1 in a random order, in uint32. KEEL_EARG: x is negative. */
KEEL_API int mlx_random_permutation_arange(mlx_array *res, int x,
                                           const mlx_array key /* may be null */,
                                           const mlx_stream s);

#ifdef __cplusplus
}
#endif
#endif
