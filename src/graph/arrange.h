/* arrange.h - the order of the nodes of a commit; see arrange.c. */
#pragma once
#include "graph/node.h"

/* Brings small products of the same rows together, for streams of devices, which run them as one
 * launch (side_by_side.h). The n nodes at `order` are all seen by the present walk, producers
 * before consumers, and stay so; their fields `index` are overwritten. The caller holds the commit
 * lock. */
void kl_arrange(struct kl_node **order, size_t n);
