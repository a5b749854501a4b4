/* index_parts.h - the checks of index operands that gather and scatter share. */
#pragma once
#include "ops/build/terms.h"

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
                  struct kl_array *indices, int *axis, struct kl_stream *s, struct kl_error **err);

/* ---- indices of operations that do not check theirs ---- */

/* Indices of n things as numbers from 0 to n - 1 of dtype, int32 or uint32. Evaluating them fails
 * at the first that is out of range, in the name of alias; negative ones count from the end. With
 * KEEL_OUT_OF_RANGE=zero (out_of_range.h) such an index is 0, and *valid says which ones are
 * good; otherwise *valid is NULL. Indices of 0 things fail here. */
struct kl_array *kl_term_checked(struct kl_terms *t, struct kl_array *indices, int n,
                                 enum kl_dtype dtype, enum kl_alias alias, struct kl_array **valid);
/* y, with zeros where an index was bad. valid, which may be NULL, has the shape of the first axes
 * of y, or broadcasts to it; y has n_tail axes more. */
struct kl_array *kl_term_if_valid(struct kl_terms *t, struct kl_array *y, struct kl_array *valid,
                                  int n_tail);
