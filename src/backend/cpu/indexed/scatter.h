/* scatter.h - what the two ways of a scatter share: the job, where positions go, and writing one. For the kernels of this folder only. */
#pragma once
#include "backend/cpu/operand/tile.h"
#include "base/op_params.h"

/* dst = dst joined with src, n times; steps in bytes. */
typedef void kl_join_fn(char *dst, int64_t dst_step, const char *src, int64_t src_step, int64_t n);

struct kl_scatter_job {
    const struct kl_launch *l;
    kl_join_fn *join;
    bool assigns; /* join replaces */
    int item;
    /* What one position writes, as loops: the last is done by join. Strides in bytes. 0 loops: an element. */
    int n;
    int64_t len[KL_LONG_AXES], dst_steps[KL_LONG_AXES], src_steps[KL_LONG_AXES];
    /* Where position p finds its updates, and (SCATTER_AXIS) the part of its place that no index
     * gives; elements. */
    int n_pos, pos_dims[KL_LONG_AXES];
    int64_t src_strides[KL_LONG_AXES], dst_strides[KL_LONG_AXES];
    /* Input 2 + k has the indices on axes[k]; extents (by axis of the output; NULL: 1) are how much is written from there on. */
    int n_axes;
    const int *axes, *extents;
    bool
        follows; /* an index beyond its axis leads wherever it leads (KEEL_BOUNDS=off): only without buckets */
};

/* Goes through positions, one run of at most KL_TILE after another. */
enum { KL_SCATTER_CURSORS = 2 }; /* index operands beyond are looked up anew for each run */
struct kl_scatter_walk {
    const struct kl_scatter_job *j;
    int64_t position;
    bool moves; /* places depend on positions, not on indices alone */
    struct kl_cursor cursors[KL_SCATTER_CURSORS];
};
void kl_scatter_walk_init(struct kl_scatter_walk *w, const struct kl_scatter_job *j,
                          int64_t position);
/* The places of the next n positions: elements from the output's first on; -1 where an index is out of range. */
void kl_scatter_places(struct kl_scatter_walk *w, int64_t n, int64_t *places);

/* Writes one position. */
void kl_scatter_position(const struct kl_scatter_job *j, char *dst, const char *src);
/* The output starts as the base, unless it is its memory or an earlier part of the positions has begun. */
void kl_scatter_start(const struct kl_launch *l);

/* The whole scatter by buckets, where that pays. false: it does not, or there is no memory, and nothing was done. */
bool kl_scatter_by_buckets(struct kl_launch *l, const struct kl_scatter_job *j);
