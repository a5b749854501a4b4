/* indexed.h - the checks of index operands that gather and scatter share. For src/ops only. */
#pragma once
#include "ops/check.h"

/* Puts the axes for n index arrays on an array of ndim axes into their list: distinct, in [0, ndim)
 * as in MLX, one per index array. KL_EARG, KL_EAXIS. */
int kl_check_index_axes(const int *axes, size_t axes_num, size_t n_indices, int ndim,
                        struct kl_error **err);
/* Makes views of the indices, which are integers, with their common shape. On failure no reference
 * is held. */
int kl_meet_indices(struct kl_array **out, struct kl_shape *shape, struct kl_array *const *indices,
                    size_t n, struct kl_error **err);
/* a and indices for an operation along axis (resolved): both get the same shape except along that
 * axis. *a_out may be a view. On failure no reference is held. */
int kl_meet_along(struct kl_array **a_out, struct kl_array **indices_out, struct kl_array *a,
                  struct kl_array *indices, int *axis, struct kl_error **err);
