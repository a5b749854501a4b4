/* create.h - builders of arrays from parameters; the rules of ops.h hold. */
#pragma once
#include "ops/build/builder.h"

/* ---- create.c ---- */
/* full: the value is converted to the given dtype and broadcast to the shape. */
int kl_zeros(struct kl_array **out, const int *shape, size_t shape_num, int dtype,
             struct kl_stream *s, struct kl_error **err);
int kl_zeros_like(struct kl_array **out, struct kl_array *a, struct kl_stream *s,
                  struct kl_error **err);
int kl_ones(struct kl_array **out, const int *shape, size_t shape_num, int dtype,
            struct kl_stream *s, struct kl_error **err);
int kl_ones_like(struct kl_array **out, struct kl_array *a, struct kl_stream *s,
                 struct kl_error **err);
int kl_full(struct kl_array **out, const int *shape, size_t shape_num, struct kl_array *vals,
            int dtype, struct kl_stream *s, struct kl_error **err);
int kl_full_like(struct kl_array **out, struct kl_array *a, struct kl_array *vals, int dtype,
                 struct kl_stream *s, struct kl_error **err);
/* 1-d: start, start + step, ... below stop (above stop for a negative step), possibly empty.
 * Integers start at trunc(start) and step by trunc(start + step) - trunc(start), as in MLX.
 * KL_EARG: step 0, NaN, infinite bounds; KL_ELIMIT: too many elements; KL_EDTYPE: bool. */
int kl_arange(struct kl_array **out, double start, double stop, double step, int dtype,
              struct kl_stream *s, struct kl_error **err);

/* num numbers, evenly spaced from start to stop, both included; computed in double and rounded
 * once. KL_EARG: num is negative. */
int kl_linspace(struct kl_array **out, double start, double stop, int num, int dtype,
                struct kl_stream *s, struct kl_error **err);

/* ---- create_window.c ----
 * Symmetric windows of n float32 numbers; a window of one number is 1, and one with n below 1 is
 * empty. */
typedef int kl_window_fn(struct kl_array **out, int n, struct kl_stream *s, struct kl_error **err);
kl_window_fn kl_hanning, kl_hamming, kl_blackman, kl_bartlett;

/* ---- create_triangle.c ---- */
/* n rows and m columns with ones on the k-th diagonal, where column - row is k. KL_ESHAPE: a
 * negative extent. */
int kl_eye(struct kl_array **out, int n, int m, int k, int dtype, struct kl_stream *s,
           struct kl_error **err);
int kl_identity(struct kl_array **out, int n, int dtype, struct kl_stream *s,
                struct kl_error **err);
/* Ones on the k-th diagonal and below; a negative extent counts as 0. */
int kl_tri(struct kl_array **out, int n, int m, int k, int dtype, struct kl_stream *s,
           struct kl_error **err);
/* x with zeros above (tril) or below (triu) the k-th diagonal of its last two axes. KL_ESHAPE:
 * fewer than two axes. */
int kl_tril(struct kl_array **out, struct kl_array *x, int k, struct kl_stream *s,
            struct kl_error **err);
int kl_triu(struct kl_array **out, struct kl_array *x, int k, struct kl_stream *s,
            struct kl_error **err);
/* For 1-d: the square matrix with a on its k-th diagonal. For 2-d: that diagonal, as a view.
 * KL_ESHAPE for others. */
int kl_diag(struct kl_array **out, struct kl_array *a, int k, struct kl_stream *s,
            struct kl_error **err);
/* The sum of the diagonal, whose elements are first converted to dtype. The result has the dtype
 * that kl_sum gives. */
int kl_diagonal_sum(struct kl_array **out, struct kl_array *a, int offset, int axis1, int axis2,
                    int dtype, struct kl_stream *s, struct kl_error **err);
