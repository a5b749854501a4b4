/* patch.h - walking over operands of which some are stored transposed: patch by patch, so that a
 * cache line is read once and whole. A shape is seen as matrices: the rows are along the axis that
 * is contiguous in a transposed operand, the columns along the last axis. A task is a part of a
 * matrix; its patches are copied into row-major tiles, and back. */
#pragma once
#include "backend/cpu/operand/tile.h"

enum {
    KL_PATCH_ROWS = 16,
    KL_PATCH_COLS = 32, /* a patch has KL_TILE elements */
    KL_PART_ROWS = 256, /* rows of a matrix in one task */
    KL_PART_COLS = 128,
};

struct kl_grid {
    /* the axis of the rows; the number of axes that are neither rows nor columns */
    int axis, n_others;
    int64_t rows, cols, row_parts, col_parts, tasks;
    const struct kl_arg *shape; /* one of the operands, which all have the same extents */
};
/* The grid of n operands of one shape (some may be NULL). Returns false where none is stored
 * transposed, or where they are too small for patches to matter. */
bool kl_grid_of(struct kl_grid *g, const struct kl_arg *const *operands, int n);

/* One operand, in one task. */
struct kl_patches {
    char *data;                 /* element 0 of the matrix */
    int64_t row_step, col_step; /* in bytes */
    int item;
    bool nontemporal; /* written with non-temporal stores */
};
void kl_patches_init(struct kl_patches *p, const struct kl_grid *g, const struct kl_arg *a,
                     int64_t task);

struct kl_patch {
    int64_t row, col, rows, cols;
};
/* Finds patch i of a task. Returns false after the last patch. Patches go along the rows' axis
 * first, so that a transposed operand is read in long runs. */
bool kl_patch_of(struct kl_patch *at, const struct kl_grid *g, int64_t task, int64_t i);
void kl_patch_read(const struct kl_patches *p, const struct kl_patch *at, void *tile);
/* Writes a patch from its tile, which must be aligned to a cache line. kl_nontemporal_end must
 * follow before other threads may read the patch. */
void kl_patch_write(const struct kl_patches *p, const struct kl_patch *at, const void *tile);

/* Transposes: row r, column c of src (rows x cols items of 1, 2, 4 or 8 bytes) goes to row c,
 * column r of dst. src_step and dst_step are bytes from one row to the next. Contiguous rows may be
 * shorter than a vector: nothing outside of both matrices is read or written. dst and src must not
 * overlap. */
void kl_cpu_transpose(int item, void *dst, int64_t dst_step, const void *src, int64_t src_step,
                      int64_t rows, int64_t cols);
