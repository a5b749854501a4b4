/* random.h - builders of random numbers. The conventions of ops.h, which includes it, hold. */
#pragma once
#include "graph/array.h"

/* ---- random.c ---- */
/* A key is a uint32 array of shape (2,); some functions take batches of keys, (..., 2). key may be
 * NULL below: the next key of the calling thread's sequence is used, which kl_random_seed
 * restarts. */
int kl_random_key(struct kl_array **out, uint64_t seed, struct kl_error **err);
/* The given key after a check, or the next key of the calling thread's sequence. */
int kl_random_use_key(struct kl_array **out, struct kl_array *key /* may be NULL */,
                      struct kl_stream *s, struct kl_error **err);
int kl_random_seed(uint64_t seed, struct kl_error **err);
/* The state of the calling thread's sequence as a key, and another state for it, which may be lazy
 * or belong to a trace; when that trace ends, the state is the one before. KL_EDTYPE, KL_ESHAPE. */
int kl_random_get_state(struct kl_array **out, struct kl_error **err);
int kl_random_set_state(struct kl_array *state, struct kl_error **err);
int kl_random_split(struct kl_array **out_0, struct kl_array **out_1, struct kl_array *key,
                    struct kl_stream *s, struct kl_error **err);
int kl_random_split_num(struct kl_array **out, struct kl_array *key, int num, struct kl_stream *s,
                        struct kl_error **err); /* (num, 2) */
/* Unsigned integers of `width` bytes: 1, 2 or 4. The shape of a batch of keys comes before the
 * given shape. */
int kl_random_bits(struct kl_array **out, const int *shape, size_t shape_num, int width,
                   struct kl_array *key /* may be NULL */, struct kl_stream *s,
                   struct kl_error **err);
/* Uniform numbers in [low, high); the bounds broadcast to the shape. */
int kl_random_uniform(struct kl_array **out, struct kl_array *low, struct kl_array *high,
                      const int *shape, size_t shape_num, int dtype,
                      struct kl_array *key /* may be NULL */, struct kl_stream *s,
                      struct kl_error **err);
int kl_random_normal(struct kl_array **out, const int *shape, size_t shape_num, int dtype,
                     float loc, float scale, struct kl_array *key /* may be NULL */,
                     struct kl_stream *s, struct kl_error **err);
int kl_random_normal_broadcast(struct kl_array **out, const int *shape, size_t shape_num, int dtype,
                               struct kl_array *loc /* may be NULL */,
                               struct kl_array *scale /* may be NULL */,
                               struct kl_array *key /* may be NULL */, struct kl_stream *s,
                               struct kl_error **err);
/* Uniform integers in [low, high). */
int kl_random_randint(struct kl_array **out, struct kl_array *low, struct kl_array *high,
                      const int *shape, size_t shape_num, int dtype,
                      struct kl_array *key /* may be NULL */, struct kl_stream *s,
                      struct kl_error **err);

/* ---- random_distributions.c ---- */
/* bool: true with probability p, a float array that broadcasts to the shape. */
int kl_random_bernoulli(struct kl_array **out, struct kl_array *p, const int *shape,
                        size_t shape_num, struct kl_array *key /* may be NULL */,
                        struct kl_stream *s, struct kl_error **err);
/* -log(-log(u)) with u uniform in [0, 1); dtypes as for uniform. */
int kl_random_gumbel(struct kl_array **out, const int *shape, size_t shape_num, int dtype,
                     struct kl_array *key /* may be NULL */, struct kl_stream *s,
                     struct kl_error **err);
/* uint32 positions along an axis of the logits (real); position i has the probability
 * exp(logits[i]) / sum. The result has the shape of the logits without the axis; or the given
 * shape, to which that one broadcasts; or that shape and a last axis of num_samples. KL_EARG: an
 * empty axis. */
int kl_random_categorical(struct kl_array **out, struct kl_array *logits, int axis,
                          struct kl_array *key /* may be NULL */, struct kl_stream *s,
                          struct kl_error **err);
int kl_random_categorical_shape(struct kl_array **out, struct kl_array *logits, int axis,
                                const int *shape, size_t shape_num,
                                struct kl_array *key /* may be NULL */, struct kl_stream *s,
                                struct kl_error **err);
int kl_random_categorical_num_samples(struct kl_array **out, struct kl_array *logits, int axis,
                                      int num_samples, struct kl_array *key /* may be NULL */,
                                      struct kl_stream *s, struct kl_error **err);
/* loc + scale * sign(u) * log(1 - |u|) with u uniform in (-1, 1); float dtypes, rounded once. */
int kl_random_laplace(struct kl_array **out, const int *shape, size_t shape_num, int dtype,
                      float loc, float scale, struct kl_array *key /* may be NULL */,
                      struct kl_stream *s, struct kl_error **err);
/* Normal numbers under the condition that they are in [lower, upper], which are real arrays that
 * broadcast to the shape; float dtypes. */
int kl_random_truncated_normal(struct kl_array **out, struct kl_array *lower,
                               struct kl_array *upper, const int *shape, size_t shape_num,
                               int dtype, struct kl_array *key /* may be NULL */,
                               struct kl_stream *s, struct kl_error **err);
/* The numbers 0 .. n - 1 in a random order, in uint32. */
int kl_random_permutation_arange(struct kl_array **out, int n,
                                 struct kl_array *key /* may be NULL */, struct kl_stream *s,
                                 struct kl_error **err);
/* The slices of x along an axis in a random order. */
int kl_random_permutation(struct kl_array **out, struct kl_array *x, int axis,
                          struct kl_array *key /* may be NULL */, struct kl_stream *s,
                          struct kl_error **err);
/* Normal vectors. mean is (..., n), and cov is (..., n, n) and positive semi-definite (not checked;
 * its symmetric part is used). Without these axes both broadcast to the shape; the result has one
 * more axis. Only float32, and only on the CPU. */
int kl_random_multivariate_normal(struct kl_array **out, struct kl_array *mean,
                                  struct kl_array *cov, const int *shape, size_t shape_num,
                                  int dtype, struct kl_array *key /* may be NULL */,
                                  struct kl_stream *s, struct kl_error **err);
