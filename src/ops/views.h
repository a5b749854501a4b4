/* views.h - views with arguments that are known to be good; other builders are made of them. For
 * src/ops only. Results are new references, or the array itself, retained, when nothing changes. */
#pragma once
#include "ops/check.h"

/* dims have as many elements as a. Copies on s when no strides can express it. */
int kl_reshape_to(struct kl_array **out, struct kl_array *a, int ndim, const int *dims,
                  struct kl_stream *s, struct kl_error **err);
/* One axis; KL_ELIMIT when the elements are too many for it. */
int kl_flatten_all(struct kl_array **out, struct kl_array *a, struct kl_stream *s,
                   struct kl_error **err);
/* Axis i of the result is axis perm[i] of a. */
int kl_permute(struct kl_array **out, struct kl_array *a, const int *perm, struct kl_error **err);
/* Elements start + k * step, k < dims, per axis, all inside a. */
int kl_slice_to(struct kl_array **out, struct kl_array *a, const int *start, const int *step,
                const int *dims, struct kl_error **err);
/* Zeros, of shape a's without its last axis, rows, cols, with that axis of a on the k-th diagonal of each matrix, where it fits. */
int kl_embed_diagonal(struct kl_array **out, struct kl_array *a, int rows, int cols, int k,
                      struct kl_stream *s, struct kl_error **err);
