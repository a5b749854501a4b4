/* reduce_streamed.c - see reduce_streamed.h. KL_REDUCE_LANES rows are one wide row, as in
 * kl_reduce_narrow, so a tile may begin and end anywhere. A single column is added up as a row. */
#include "backend/cpu/reduce/reduce_streamed.h"

#include <string.h>

#include "base/alloc.h"

_Static_assert(KL_TILE % KL_REDUCE_LEAF == 0, "tiles of a single column are whole leaves");

bool kl_row_sums_init(struct kl_row_sums *s, const struct kl_launch *l) {
    const enum kl_dtype given = (enum kl_dtype)l->in->dtype, type = kl_compute_dtype(given);
    struct kl_reduce_job *j = &s->job;
    *s = (struct kl_row_sums){.columns = l->out->size, .rows = KL_REDUCE_LEAF, .given = given};
    *j = (struct kl_reduce_job){
        .l = l, .join = kl_reduce_sums[type], .type = type, .bytes = (int)kl_dtype_size(type)};
    const int64_t all = l->in->size / s->columns;
    j->s.n_out = s->columns;
    /* Any number of leaves that is a power of two is a subtree. */
    while (s->rows < all && s->rows * s->columns < KL_CHUNK && s->rows < KL_REDUCE_SEGMENT)
        s->rows *= 2;
    j->segments = kl_ceil_div(all, s->rows);
    j->partial = kl_malloc((size_t)(j->segments * s->columns * j->bytes));
    return j->partial != NULL;
}

void kl_row_sum_begin(struct kl_row_sum *s, const struct kl_row_sums *sums) {
    s->sums = sums;
    s->at = 0;
    s->counter = (struct kl_reduce_counter){s->levels, sums->columns, 0};
}

/* The rows of a leaf have come. */
static void end_leaf(struct kl_row_sum *s) {
    const struct kl_reduce_job *j = &s->sums->job;
    const int64_t n = s->sums->columns;
    int64_t left = kl_min64(KL_REDUCE_LANES, s->at / n);
    for (int64_t step = KL_REDUCE_LANES / 2; step; step /= 2)
        if (left > step) {
            j->join.fold(s->lanes, s->lanes + step * n * j->bytes, (left - step) * n);
            left = step;
        }
    kl_reduce_push(j, &s->counter, s->lanes);
    s->at = 0;
}

void kl_row_sum_add(struct kl_row_sum *s, const void *x, int64_t n) {
    const struct kl_reduce_job *j = &s->sums->job;
    const enum kl_dtype given = s->sums->given;
    const int64_t wide = KL_REDUCE_LANES * s->sums->columns, item = j->bytes;
    for (int64_t done = 0, m; done < n; done += m) {
        const int64_t place = s->at % wide;
        const char *from = (const char *)x + done * (int64_t)kl_dtype_size(given);
        m = kl_min64(n - done, s->sums->columns == 1 ? KL_TILE : wide - place);
        if (given != j->type) {
            m = kl_min64(m, KL_TILE);
            kl_convert(j->type, s->typed.bytes, given, from, m);
            from = (const char *)s->typed.bytes;
        }
        if (s->sums->columns == 1) {
            j->join.run(s->levels, &s->counter.leaves, from, m);
            continue;
        }
        if (s->at < wide)
            memcpy(s->lanes + place * item, from, (size_t)(m * item));
        else
            j->join.fold(s->lanes + place * item, from, m);
        s->at += m;
        if (s->at == KL_REDUCE_LEAF / KL_REDUCE_LANES * wide) end_leaf(s);
    }
}

void kl_row_sum_end(struct kl_row_sum *s, int64_t segment) {
    const struct kl_reduce_job *j = &s->sums->job;
    if (s->at) end_leaf(s);
    kl_reduce_finish(j, &s->counter, j->partial + segment * s->sums->columns * j->bytes);
}

void kl_row_sums_store(struct kl_row_sums *s) {
    kl_reduce_join_segments(&s->job);
    kl_free(s->job.partial);
}
