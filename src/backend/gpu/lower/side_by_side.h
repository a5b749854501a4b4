/* side_by_side.h - which commands of a command buffer can run side by side, as one launch.
 *
 * A small kernel leaves most of a device idle, and each launch costs a microsecond or more. A
 * language model's step has several such commands of one kind that do not depend on each other:
 * the products of queries, keys and values, and two products of a perceptron. */
#pragma once
#include "backend/gpu/driver.h"

enum { KL_MOST_SIDE_BY_SIDE = 4 };

/* The memory of an operand, from its first byte to the one after its last. */
struct kl_extent {
    uintptr_t begin, end;
};
struct kl_extent kl_extent_of(const struct kl_arg *a);
static inline bool kl_extents_overlap(struct kl_extent a, struct kl_extent b) {
    return a.begin < b.end && b.begin < a.end;
}

/* Whether none of two commands writes memory that the other reads or writes. */
bool kl_are_independent(const struct kl_command *a, const struct kl_command *b);

/* The number of commands, 1 to KL_MOST_SIDE_BY_SIDE, at the beginning of these n that are small,
 * likely to need the same kernel, and independent of each other. */
int kl_side_by_side(const struct kl_command *commands, int n);
