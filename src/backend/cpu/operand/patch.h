/* patch.h - walking over operands of which some are stored the other way round: block by block, so that a cache line is read once and whole. For the kernels of this folder only.
 *
 * A shape is seen as matrices: the rows are along the axis that is contiguous in what is stored the other way round, the columns along the last one. A task is a part of a matrix, of which
 * patches are brought into tiles, row-major, and back. */
#pragma once
#include "backend/cpu/operand/tile.h"

enum {
    KL_PATCH_ROWS = 16,
    KL_PATCH_COLS = 32, /* together KL_TILE */
    KL_PART_ROWS = 256, /* of a task */
    KL_PART_COLS = 128,
};

struct kl_grid {
    int axis, n_others; /* the rows' axis; axes that are neither rows nor columns */
    int64_t rows, cols, row_parts, col_parts, tasks;
    const struct kl_arg *shape; /* an operand, whose dims are everybody's */
};
/* Of n operands of one shape (some NULL). false: nothing is stored the other way round, or it is too small to care. */
bool kl_grid_of(struct kl_grid *g, const struct kl_arg *const *operands, int n);

/* An operand in a task. */
struct kl_patches {
    char *data;                 /* element 0 of the matrix */
    int64_t row_step, col_step; /* bytes */
    int item;
    bool nontemporal; /* written past the caches */
};
void kl_patches_init(struct kl_patches *p, const struct kl_grid *g, const struct kl_arg *a,
                     int64_t task);

struct kl_patch {
    int64_t row, col, rows, cols;
};
/* Patch number i of a task; false behind the last. They go along the rows' axis first, where what is stored the other way round is read in one go. */
bool kl_patch_of(struct kl_patch *at, const struct kl_grid *g, int64_t task, int64_t i);
void kl_patch_read(const struct kl_patches *p, const struct kl_patch *at, void *tile);
/* The tile is aligned to a cache line. What other threads shall see is followed by kl_nontemporal_end. */
void kl_patch_write(const struct kl_patches *p, const struct kl_patch *at, const void *tile);

/* Row r, column c of src (rows x cols items of 1, 2, 4 or 8 bytes) goes to row c, column r of dst; src_step, dst_step: bytes from row to row. Rows that lie without a gap may be shorter than a vector: nothing outside of both is read or
 * written for it. No overlap. */
void kl_cpu_transpose(int item, void *dst, int64_t dst_step, const void *src, int64_t src_step,
                      int64_t rows, int64_t cols);
