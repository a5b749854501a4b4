/* recompute.h - which element-wise values of a commit are computed twice rather than stored; see
 * recompute.c. */
#pragma once
#include "graph/node.h"

/* The number of elements from which it is worth it. */
enum { KL_RECOMPUTE_MIN_SIZE = 1 << 16 };

/* Looks at the nodes of a commit, *n of them in *order, all seen by the walk `mark` and none
 * claimed. Where values are computed twice, *order and *n become another list, with the new nodes,
 * which is good until the next call. It cannot fail: without memory nothing is computed twice. The
 * caller holds the commit lock. Result: arrays linked by next_dead, which the caller releases when
 * it no longer holds the lock. */
struct kl_array *kl_recompute(struct kl_node ***order, size_t *n, uint64_t mark);

/* Allows it, or stores every value. For tests and measurements; any thread may call. */
void kl_recompute_allow(bool on);
uint64_t kl_recompute_count(void); /* operations that were run a second time so far */
