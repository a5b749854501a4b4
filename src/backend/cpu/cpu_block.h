/* cpu_block.h - walking over operands of which some are stored the other way round: block by block, so that what a cache line holds is used while it is there. For the kernels of this folder only.
 *
 * A region of rows and columns is described by operands with two axes more, blocks of 16 by 16 innermost; nothing else of a kernel changes. */
#pragma once
#include "backend/cpu/cpu_tile.h"

enum { KL_BLOCK = 16, KL_BLOCK_AXES = 66 };

struct kl_block_arg {
    struct kl_arg arg; /* dims and strides are those below */
    int dims[KL_BLOCK_AXES];
    int64_t strides[KL_BLOCK_AXES];
};
/* Elements row .. row + rows - 1 of one axis and col .. of the last. */
struct kl_region {
    int axis; /* the rows' */
    int64_t row, rows, col, cols;
    bool blocks; /* rows and cols are multiples of KL_BLOCK: walk them by blocks */
};
enum { KL_REGIONS = 3 };

/* The axis along which one of n operands (of one shape, some NULL) is contiguous while its last axis is not, if the shape is large enough to care; else -1. */
int kl_block_axis(const struct kl_arg *const *operands, int n);
/* The shape cut into blocks and strips beside them: the number of regions, at most KL_REGIONS. */
int kl_block_cut(struct kl_region *regions, const struct kl_arg *out, int axis);
/* The part of a that r describes. */
const struct kl_arg *kl_block_view(struct kl_block_arg *to, const struct kl_arg *a,
                                   const struct kl_region *r);
