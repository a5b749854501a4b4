/* reduce_parts.h - what the builders of reductions share. */
#pragma once
#include "ops/build/check.h"
#include "ops/build/terms.h"
#include "ops/ops.h"

/* The sorted axes, and the shape in which these have size 1. */
struct kl_reduced {
    int n, at[KL_MAX_NDIM];
    struct kl_shape kept;
};

int kl_reduced_axes(struct kl_reduced *x, const struct kl_array *a, const int *axes,
                    size_t axes_num, struct kl_error **err);
/* Without keepdims: a view without the reduced axes. */
int kl_reduced_drop(struct kl_array **out, struct kl_array *kept /* taken */,
                    const struct kl_reduced *x, bool keepdims, struct kl_stream *s,
                    struct kl_error **err);
/* Calls fn with all axes of a. */
int kl_reduced_all(kl_reduce_axes_fn *fn, struct kl_array **out, struct kl_array *a, bool keepdims,
                   struct kl_stream *s, struct kl_error **err);
/* Logarithms of sums, with 0 in place of the -inf of a sum of nothing but zeros. Such a sum has no
 * derivative by its elements; their logarithms, which are -inf, make every term 0 then. */
struct kl_array *kl_without_empty_sums(struct kl_terms *t, struct kl_array *logs);
