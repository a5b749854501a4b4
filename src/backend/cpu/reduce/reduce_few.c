/* reduce_few.c - short runs of outputs side by side, each of which joins a few rows, as in pooling:
 * several runs at a time, without what a leaf of many rows costs. The elements of an output are
 * joined in the order of a leaf's lanes: those KL_REDUCE_LANES / 2 apart first. */
#include <string.h>

#include "backend/cpu/reduce/reduce.h"

/* Joins m rows of n elements; room has KL_REDUCE_LANES / 2 lines of `line` bytes. */
static void join_ordered(const struct kl_reduce_job *j, char *out, const void *const *rows, int m,
                         int64_t n, char *room, int64_t line) {
    int half = 1;
    while (2 * half < m) half *= 2;
    for (int k = 0; k < half; k++) {
        const void *pair[2] = {rows[k], k + half < m ? rows[k + half] : NULL};
        j->join.lane(k ? room + k * line : out, pair, 1 + (k + half < m), n);
    }
    for (int step = half / 2; step; step /= 2)
        for (int k = 0; k < step; k++)
            j->join.fold(k ? room + k * line : out, room + (k + step) * line, n);
}

/* Outputs [begin, begin + n): whole runs. */
void kl_reduce_few(const struct kl_reduce_job *j, int64_t begin, int64_t n, char *results) {
    const struct kl_arg *in = j->l->in;
    const int64_t item = (int64_t)kl_dtype_size(in->dtype), line = j->run * j->bytes;
    const int m = (int)j->s.n_red;
    int64_t runs[KL_REDUCE_ROWS], apart[KL_REDUCE_LANES];
    _Alignas(64) char room[KL_REDUCE_LANES / 2 * KL_REDUCE_WIDTH / 2];
    kl_offsets(j->s.n_kept - 1, j->s.kept_dims, j->s.kept_strides, begin / j->run, n / j->run,
               runs);
    kl_offsets(j->s.n_gone, j->s.gone_dims, j->s.gone_strides, 0, m, apart);
    for (int64_t r = 0; r < n / j->run; r++, results += line) {
        const void *rows[KL_REDUCE_LANES];
        for (int k = 0; k < m; k++) rows[k] = (const char *)in->data + (runs[r] + apart[k]) * item;
        if (j->keyed)
            kl_reduce_keys[j->type].lane(j->order, results, rows, m, j->run);
        else
            join_ordered(j, results, rows, m, j->run, room, line);
    }
}
