/* reduce_streamed.h - sums of the rows of a matrix that comes tile by tile, as a fusion computes
 * it, with the bits of a SUM over leading axes. One task adds up a segment of rows, in memory of
 * its own; the segments are joined at the end. */
#pragma once
#include "backend/cpu/reduce/reduce.h"
#include "base/op/op_params.h"

struct kl_row_sums {
    struct kl_reduce_job job; /* `partial` is of kl_malloc */
    int64_t columns, rows;    /* of a segment, the last one may have fewer */
    enum kl_dtype given;      /* the dtype of the elements */
};

/* The sums of one segment. Large: it is for a thread's stack, and kl_row_sums_begin fills it. */
struct kl_row_sum {
    const struct kl_row_sums *sums;
    int64_t at; /* elements of the leaf that has begun */
    struct kl_reduce_counter counter;
    _Alignas(64) char lanes[KL_REDUCE_LANES * KL_REDUCE_WIDTH];
    _Alignas(64) char levels[KL_REDUCE_SEGMENT_LEVELS * KL_REDUCE_WIDTH];
    union kl_tile typed;
};

/* Whether a SUM is of rows as wide as kl_row_sum has room for. Of few columns, which nobody should
 * add up one short row after the other, a single one is taken. */
static inline bool kl_row_sums_take(const struct kl_tensor *in, const struct kl_tensor *out,
                                    const struct kl_reduce_params *p) {
    enum { FEWEST = 8 };
    const enum kl_dtype dtype = (enum kl_dtype)in->dtype;
    const bool floats = dtype == KL_F32 || dtype == KL_F16 || dtype == KL_BF16 || dtype == KL_F64;
    const int64_t bytes = out->size * (int64_t)kl_dtype_size(kl_compute_dtype(dtype));
    if (!floats || !(in->layout & KL_ROW_CONTIGUOUS) || bytes > KL_REDUCE_WIDTH) return false;
    if (in->size <= out->size || (out->size != 1 && out->size < FEWEST)) return false;
    bool kept = false;
    for (int i = 0, next = 0; i < in->ndim; i++) {
        const bool gone = next < p->n_axes && p->axes[next] == i;
        next += gone;
        if (gone && kept && in->dims[i] > 1) return false;
        kept = kept || (!gone && in->dims[i] > 1);
    }
    return true;
}

/* l: the SUM, of which the input's data is not read. false: there is not enough memory. */
bool kl_row_sums_init(struct kl_row_sums *s, const struct kl_launch *l);
void kl_row_sum_begin(struct kl_row_sum *s, const struct kl_row_sums *sums);
/* The next n elements of the segment, in row-major order. */
void kl_row_sum_add(struct kl_row_sum *s, const void *x, int64_t n);
void kl_row_sum_end(struct kl_row_sum *s, int64_t segment);
/* Stores the sums, and releases the memory. */
void kl_row_sums_store(struct kl_row_sums *s);
