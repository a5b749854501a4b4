/* scan.h - what the parts of a scan have in common: scan.c, which plans it and scans columns,
 * scan_rows.c and the functions of each dtype (scan_joins.c). */
#pragma once
#include <string.h>

#include "backend/cpu/operand/tile.h"
#include "backend/cpu/vector/simd.h"

enum {
    KL_SCAN_GROUP = 16,
    KL_SCAN_SEGMENT = 1 << 16, /* a multiple of KL_TILE and of KL_SCAN_GROUP */
    KL_SCAN_WIDTH =
        4096, /* Bytes of values that are computed side by side: KL_TILE of the widest type. */
};
enum { KL_SCAN_PREFIX, KL_SCAN_TOTAL, KL_SCAN_LOCAL, KL_SCAN_OFFSET, KL_SCAN_PARTS };

/* The state of a scan: of one row (parts are single values) or of columns (parts are KL_SCAN_WIDTH
 * bytes). */
struct kl_scan_state {
    bool has_prefix, has_total;
    /* Not 0: the number of groups of contiguous short rows, in whole square tiles of
     * scan_simd.inc. */
    int row_groups;
    _Alignas(64) char parts[KL_SCAN_PARTS * KL_SCAN_WIDTH];
};

/* ---- scan_joins.c ---- */
/* row: the next n elements of a row; y NULL: the totals alone. column: row r of n columns. group:
 * is called after the last row of a group of n columns. segment: is called after the last element
 * of a segment, n values side by side; the parts of the state are `apart` values apart. */
struct kl_scan_join {
    void (*row)(struct kl_scan_state *s, void *y, const void *x, int64_t n);
    void (*column)(struct kl_scan_state *s, void *y, const void *x, int64_t r, int64_t n);
    void (*group)(struct kl_scan_state *s, int64_t n);
    void (*segment)(struct kl_scan_state *s, int64_t apart, int64_t n);
};
/* By the operation, from CUMSUM on, and the type that is computed in; row is NULL where there is no
 * such scan. */
enum { KL_SCAN_KINDS = 5 };
extern const struct kl_scan_join kl_scan_joins[KL_SCAN_KINDS][KL_N_DTYPES];
#if KL_HAS_SIMD
/* Sums of 16-bit floats, which are read and stored without tiles. */
extern const struct kl_scan_join kl_scan_halves[KL_N_DTYPES];
#endif

struct kl_scan_job {
    const struct kl_launch *l;
    struct kl_scan_join join;
    enum kl_dtype type; /* the compute type: the type of intermediate values */
    /* The dtype of the rows in memory: `type`, or that of 16-bit floats that are read without
     * tiles. */
    enum kl_dtype read;
    int bytes, in_item, out_item;
    int64_t
        length; /* Elements of a scan: the extent of the axis, less one for an exclusive scan. */
    int64_t in_step, out_step; /* along the axis, in elements, in the direction of the scan */
    /* from the start of a row to the first element of the scan, in elements */
    int64_t in_first, out_first;
    unsigned char first[8]; /* the first element of an exclusive scan, in the output's dtype */
    bool inclusive;
    /* The other axes. */
    int n, dims[KL_LONG_AXES];
    int64_t in_strides[KL_LONG_AXES], out_strides[KL_LONG_AXES];
    /* number of rows; rows of one task; segments of each row, where threads share rows */
    int64_t rows, group, segments;
    int64_t run, run_groups; /* number of neighbouring columns; tasks of each run of them */
    char *
        totals; /* [rows][segments] of `type`: first the totals of segments, then their prefixes. */
};

/* The address of the element at `offset`, in elements from the start of the array. */
static inline char *kl_scan_element(const struct kl_arg *a, int64_t offset) {
    return (char *)a->data + offset * (int64_t)kl_dtype_size(a->dtype);
}

/* The first elements, before out_offset, of n exclusive scans side by side. */
static inline void kl_scan_put_first(const struct kl_scan_job *j, int64_t out_offset, int64_t n) {
    char *y = kl_scan_element(j->l->out, out_offset - j->out_step);
    for (int64_t c = 0; c < n; c++) memcpy(y + c * j->out_item, j->first, (size_t)j->out_item);
}

/* Where the scan of that row begins in both operands. */
static inline void kl_scan_offsets(const struct kl_scan_job *j, int64_t row, int64_t *in,
                                   int64_t *out) {
    kl_offsets(j->n, j->dims, j->in_strides, row, 1, in);
    kl_offsets(j->n, j->dims, j->out_strides, row, 1, out);
    *in += j->in_first;
    *out += j->out_first;
}

/* ---- scan_rows.c ---- */
/* Scans row by row with the threads of l. Long rows are cut into segments. */
int kl_scan_rows(struct kl_scan_job *j, const struct kl_launch *l);
