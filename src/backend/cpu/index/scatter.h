/* scatter.h - what scatter.c, scatter_each.c and scatter_buckets.c share: the job, the places of
 * positions, and writing one position. */
#pragma once
#include "backend/cpu/operand/tile.h"
#include "base/op/op_params.h"

/* Joins src to dst, n times; steps are in bytes. */
typedef void kl_join_fn(char *dst, int64_t dst_step, const char *src, int64_t src_step, int64_t n);

struct kl_scatter_job {
    const struct kl_launch *l;
    kl_join_fn *join;
    enum kl_scatter_mode mode;
    bool assigns; /* the join replaces the old value */
    int item;
    /* The slice that one position writes, as nested loops, of which `join` does the innermost.
     * Strides are in bytes. Without loops it is one element. */
    int n;
    int64_t len[KL_LONG_AXES], dst_steps[KL_LONG_AXES], src_steps[KL_LONG_AXES];
    /* Where the updates of position p are, and, for SCATTER_AXIS, the part of its place that does
     * not depend on an index; in elements. */
    int n_pos, pos_dims[KL_LONG_AXES];
    int64_t src_strides[KL_LONG_AXES], dst_strides[KL_LONG_AXES];
    /* Input 2 + k has the indices on axes[k]. extents (by axis of the output; NULL: 1) say how many
     * elements are written from there on. */
    int n_axes;
    const int *axes, *extents;
    /* KEEL_BOUNDS=off: an index beyond its axis is used without a check; only without buckets. */
    bool follows;
};

/* Walks over positions, one run of at most KL_TILE after another. */
enum { KL_SCATTER_CURSORS = 2 }; /* further index operands are looked up again for each run */
struct kl_scatter_walk {
    const struct kl_scatter_job *j;
    int64_t position;
    bool moves; /* places depend on positions, not only on indices */
    struct kl_cursor cursors[KL_SCATTER_CURSORS];
};
void kl_scatter_walk_init(struct kl_scatter_walk *w, const struct kl_scatter_job *j,
                          int64_t position);
/* The places of the next n positions, counted in elements from the output's first one; -1 where an
 * index is out of range. */
void kl_scatter_places(struct kl_scatter_walk *w, int64_t n, int64_t *places);

/* The same for an output of less than UINT32_MAX elements; UINT32_MAX where an index is out of
 * range. */
void kl_scatter_near_places(struct kl_scatter_walk *w, int64_t n, uint32_t *places);

/* Writes one position. */
void kl_scatter_position(const struct kl_scatter_job *j, char *dst, const char *src);
/* Copies the base to the output, unless both are the same memory or an earlier part of the
 * positions has been written. */
void kl_scatter_start(const struct kl_launch *l);

/* Does the whole scatter by buckets, where that is faster. Returns false, and does nothing, where
 * it is not faster or where there is no memory. */
bool kl_scatter_by_buckets(struct kl_launch *l, const struct kl_scatter_job *j);
/* Does the whole scatter where single elements are written to a small output. Else returns false,
 * and does nothing. */
bool kl_scatter_each(struct kl_launch *l, const struct kl_scatter_job *j);
