/* sort.h - builders of sorts and partitions; the rules of ops.h hold. */
#pragma once
#include "ops/build/builder.h"

/* Ascending, stable, NaN last. Without an axis all elements are sorted, flat. argsort gives
 * uint32. */
kl_unary_fn kl_sort, kl_argsort;
int kl_sort_axis(struct kl_array **out, struct kl_array *a, int axis, struct kl_stream *s,
                 struct kl_error **err);
int kl_argsort_axis(struct kl_array **out, struct kl_array *a, int axis, struct kl_stream *s,
                    struct kl_error **err);
/* The element that sorting would put at kth (from the end when negative) is there; no element
 * before it is larger, and none after it is smaller. The order of the others is not specified.
 * argpartition gives uint32. KL_EARG: kth is outside of the axis. Without an axis all elements are
 * taken, flat. */
int kl_partition(struct kl_array **out, struct kl_array *a, int kth, struct kl_stream *s,
                 struct kl_error **err);
int kl_partition_axis(struct kl_array **out, struct kl_array *a, int kth, int axis,
                      struct kl_stream *s, struct kl_error **err);
int kl_argpartition(struct kl_array **out, struct kl_array *a, int kth, struct kl_stream *s,
                    struct kl_error **err);
int kl_argpartition_axis(struct kl_array **out, struct kl_array *a, int kth, int axis,
                         struct kl_stream *s, struct kl_error **err);
/* The k largest elements, ascending. */
int kl_topk(struct kl_array **out, struct kl_array *a, int k, struct kl_stream *s,
            struct kl_error **err);
int kl_topk_axis(struct kl_array **out, struct kl_array *a, int k, int axis, struct kl_stream *s,
                 struct kl_error **err);
