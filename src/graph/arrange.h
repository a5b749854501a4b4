/* arrange.h - the order of the nodes of a commit; see arrange.c. */
#pragma once
#include "graph/node.h"

/* Brings small products of the same rows together, for streams of devices, which run them as one
 * launch (side_by_side.h). The n nodes at `order` are all seen by the present walk, producers
 * before consumers, and stay so; their fields `index` are overwritten. The caller holds the commit
 * lock. */
void kl_arrange(struct kl_node **order, size_t n);

/* Moves operations on single numbers to where their operands are made, so that none stands between
 * element-wise operations on large arrays, which then run as one kernel. The n nodes at `order` are
 * all seen by the present walk, producers before consumers, and so they are at `out`, where the new
 * order is written; `places` has room for n + 1. The fields `index` are overwritten. The caller
 * holds the commit lock. */
void kl_scalars_early(struct kl_node *const *order, size_t n, struct kl_node **out,
                      int32_t *places);
/* Whether kl_scalars_early would move n where it can. */
static inline bool kl_is_scalar_work(const struct kl_node *n) {
    return n->out[0] && n->out[0]->t.size == 1 &&
           (kl_op_flags(n->task.op) & (KL_OPF_ELEMENTWISE | KL_OPF_VIEW));
}
