/* sorts.h - what SORT, ARGSORT and TOPK have in common: the layout of the rows, and the three ways
 * of lowering them, by blocks and merges (lower/sort.c), by digits (lower/sort_radix.c), and by
 * finding the kth largest key (lower/sort_topk.c). */
#pragma once
#include "backend/gpu/lower/axes.h"

/* The same struct is in sort_keys.kl, and explained there. */
struct kl_sort_layout {
    int64_t n_rows, n, in_step, out_step, skip;
    int32_t arg, rows_first;
    struct kl_space rows;
};

/* The most elements that a group sorts in shared memory. */
int64_t kl_sort_block(const struct kl_emit *e, enum kl_dtype dtype);
/* The bytes of an item: a key and a place. */
size_t kl_sort_item_bytes(enum kl_dtype dtype);
/* The largest k of kl_largest, whose kernel has counters in shared memory too. */
int64_t kl_largest_most(const struct kl_emit *e, enum kl_dtype dtype);

/* Whether the device can sort by digits: it has sub-groups, or is a processor. */
bool kl_radix_runs(const struct kl_emit *e);
/* Sorts by digits. scratch has kl_radix_scratch bytes; NULL in a dry run. */
size_t kl_radix_scratch(const struct kl_emit *e, enum kl_dtype dtype,
                        const struct kl_sort_layout *l);
int kl_radix_sort(struct kl_emit *e, enum kl_dtype dtype, const struct kl_sort_layout *l,
                  const void *in, void *out, void *scratch);

/* Stores the k largest of each row, ascending. k is at least 1, at most kl_largest_most, and less
 * than the length of the rows. scratch has kl_largest_scratch bytes; NULL in a dry run. */
size_t kl_largest_scratch(enum kl_dtype dtype, const struct kl_sort_layout *l, int k);
int kl_largest(struct kl_emit *e, enum kl_dtype dtype, const struct kl_sort_layout *l, int k,
               const void *in, void *out, void *scratch);
