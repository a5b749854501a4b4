/* views.h - views whose arguments the caller has already checked; other builders are made of them.
 * Results are new references; where nothing changes, the array itself, retained. */
#pragma once
#include "ops/build/check.h"

/* a in the shape dims, which has as many elements as a. Copies on s when no strides can express the
 * shape. */
int kl_reshape_to(struct kl_array **out, struct kl_array *a, int ndim, const int *dims,
                  struct kl_stream *s, struct kl_error **err);
/* a with one axis; KL_ELIMIT when that axis would be too long. */
int kl_flatten_all(struct kl_array **out, struct kl_array *a, struct kl_stream *s,
                   struct kl_error **err);
/* Axis i of the result is axis perm[i] of a. */
int kl_permute(struct kl_array **out, struct kl_array *a, const int *perm, struct kl_error **err);
/* The elements start + k * step with k < dims, for each axis; all are inside of a. */
int kl_slice_to(struct kl_array **out, struct kl_array *a, const int *start, const int *step,
                const int *dims, struct kl_error **err);
/* Matrices of rows and cols with the last axis of a on their k-th diagonals, as far as it fits, and
 * zeros elsewhere. The other axes of a come before rows and cols. */
int kl_embed_diagonal(struct kl_array **out, struct kl_array *a, int rows, int cols, int k,
                      struct kl_stream *s, struct kl_error **err);
