/* indexed.h - what gather and scatter share: their index operands. For src/ops only. */
#pragma once
#include "ops/check.h"

/* Axes for n index arrays on an array of ndim axes, one each: distinct, in [0, ndim) as in MLX.
 * KL_EARG, KL_EAXIS. */
int kl_check_index_axes(const int *axes, size_t axes_num, size_t n_indices, int ndim,
                        struct kl_error **err);
/* Views of the indices with their common shape; integers. On failure nothing is held. */
int kl_meet_indices(struct kl_array **out, struct kl_shape *shape, struct kl_array *const *indices,
                    size_t n, struct kl_error **err);
/* a and indices for an operation along axis (resolved): both with the same shape but for that axis.
 * *a_out may be a view. On failure nothing is held. */
int kl_meet_along(struct kl_array **a_out, struct kl_array **indices_out, struct kl_array *a,
                  struct kl_array *indices, int *axis, struct kl_error **err);
