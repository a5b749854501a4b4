/* reduce_columns.c - reductions of outputs side by side, where they lie closer together in memory
 * than the elements of one output. */
#include <string.h>

#include "backend/cpu/reduce/reduce.h"

/* means: of the first output of several. */
static void join_rows(const struct kl_reduce_job *j, void *out, const void *const *rows, int n_rows,
                      int64_t n, const void *means) {
    if (j->squares.lane)
        j->squares.lane(means, out, rows, n_rows, n);
    else if (!j->keyed)
        j->join.lane(out, rows, n_rows, n);
    else
        kl_reduce_keys[j->type].lane(j->order, out, rows, n_rows, n);
}

/* A leaf of columns: m rows of n values. Lane k has rows k, k + KL_REDUCE_LANES, ... */
struct leaf {
    const struct kl_reduce_job *j;
    int64_t begin, n, m;
    int64_t offsets[KL_REDUCE_LEAF]; /* where the rows begin, in elements */
    struct kl_cursor c;              /* reads elements that are not contiguous */
    char room[4][KL_REDUCE_WIDTH];   /* intermediate results of halving */
    union kl_tile raw, tile, row[KL_REDUCE_LEAF / KL_REDUCE_LANES];
};

/* Joins the rows of one lane: first, first + apart, first + 2 * apart and so on. */
static void join_some(struct leaf *b, int64_t first, int64_t apart, char *out) {
    const struct kl_reduce_job *j = b->j;
    const struct kl_arg *in = j->l->in;
    int item = (int)kl_dtype_size(in->dtype), n = 0;
    bool distant = j->means && !j->squares.run;
    const char *mean = kl_reduce_mean_of(j, b->begin);
    const void *rows[KL_REDUCE_LEAF / KL_REDUCE_LANES];
    for (int64_t r = first; r < b->m && n < KL_REDUCE_LEAF / KL_REDUCE_LANES; r += apart, n++) {
        char *base = (char *)in->data + b->offsets[r] * item;
        if (j->dense) {
            rows[n] = base;
            continue;
        }
        const void *x = base;
        if (!j->run) {
            b->c.data = base;
            kl_cursor_seek(&b->c, b->begin);
            x = kl_cursor_next(&b->c, b->n, &b->raw);
        }
        if (in->dtype != j->read) {
            char *typed = distant ? (char *)b->tile.bytes : (char *)b->row[n].bytes;
            /* Rows of 16-bit numbers are short, and so far apart that the processor does not
             * prefetch the row after the next one. */
            if (j->run) {
                int64_t ahead = r + 2 * KL_REDUCE_LANES < b->m ? r + 2 * KL_REDUCE_LANES
                                                               : (first + 1) % KL_REDUCE_LANES;
                if (ahead >= b->m) ahead = r;
                const char *next = (const char *)in->data + b->offsets[ahead] * item;
                for (int64_t byte = 0; byte < b->n * item; byte += 64)
                    __builtin_prefetch(next + byte);
            }
            kl_convert(j->read, typed, in->dtype, x, b->n);
            x = typed;
        } else if (x == b->raw.bytes && !distant) { /* the next row would overwrite this one */
            memcpy(b->row[n].bytes, x, (size_t)(b->n * item));
            x = b->row[n].bytes;
        }
        if (distant) {
            kl_reduce_distances(j, b->row[n].bytes, x, mean, 1, b->n);
            x = b->row[n].bytes;
        }
        rows[n] = x;
    }
    join_rows(j, out, rows, n, b->n, mean);
}

/* Joins the lanes k, k + step, k + 2 step, ... by halving; depth is the depth of the recursion. */
static void join_lanes(struct leaf *b, int64_t k, int64_t step, int depth, char *out) {
    if (step == KL_REDUCE_LANES) {
        join_some(b, k, KL_REDUCE_LANES, out);
        return;
    }
    join_lanes(b, k, 2 * step, depth + 1, out);
    if (k + step >= b->m) return;
    join_lanes(b, k + step, 2 * step, depth + 1, b->room[depth]);
    b->j->join.fold(out, b->room[depth], b->n);
}

/* Computes outputs [begin, begin + n) side by side. */
void kl_reduce_columns(const struct kl_reduce_job *j, int64_t begin, int64_t n, int64_t from,
                       int64_t count, char *results) {
    const struct kl_arg *in = j->l->in;
    _Alignas(64) char levels[KL_REDUCE_SEGMENT_LEVELS * KL_REDUCE_WIDTH], value[KL_REDUCE_WIDTH];
    struct kl_reduce_counter counter = {levels, n, 0};
    struct leaf b; /* not initialized, since it is large */
    int64_t first = 0;
    b.j = j;
    b.begin = begin;
    b.n = n;
    if (j->run)
        kl_offsets(j->s.n_kept, j->s.kept_dims, j->s.kept_strides, begin, 1, &first);
    else
        kl_cursor_init(&b.c, in->data, (int)kl_dtype_size(in->dtype), j->s.n_kept, j->s.kept_dims,
                       j->s.kept_strides);
    for (int64_t at = 0; at < count; at += KL_REDUCE_LEAF) {
        b.m = kl_min64(KL_REDUCE_LEAF, count - at);
        kl_offsets(j->s.n_gone, j->s.gone_dims, j->s.gone_strides, from + at, b.m, b.offsets);
        for (int64_t r = 0; r < b.m; r++) b.offsets[r] += first;
        if (j->keyed) {
            /* Where the order does not matter, neighbouring rows are joined, which are closer
             * together. */
            join_some(&b, 0, 1, value);
            for (int64_t r = KL_REDUCE_LEAF / KL_REDUCE_LANES; r < b.m;
                 r += KL_REDUCE_LEAF / KL_REDUCE_LANES) {
                join_some(&b, r, 1, b.room[0]);
                j->join.fold(value, b.room[0], n);
            }
        } else {
            join_lanes(&b, 0, 1, 0, value);
        }
        kl_reduce_push(j, &counter, value);
    }
    kl_reduce_finish(j, &counter, results);
}

/* The n outputs of one run, at most KL_REDUCE_NARROW bytes, whose rows are contiguous:
 * KL_REDUCE_LANES rows are one row of KL_REDUCE_LANES * n values. */
void kl_reduce_narrow(const struct kl_reduce_job *j, int64_t begin, int64_t n, int64_t from,
                      int64_t count, char *results) {
    const struct kl_arg *in = j->l->in;
    int item = (int)kl_dtype_size(in->dtype);
    _Alignas(64) char levels[KL_REDUCE_SEGMENT_LEVELS * KL_REDUCE_NARROW],
        lanes[KL_REDUCE_LANES * KL_REDUCE_NARROW], typed[KL_REDUCE_LANES * KL_REDUCE_NARROW];
    struct kl_reduce_counter counter = {levels, n, 0};
    int64_t first;
    kl_offsets(j->s.n_kept, j->s.kept_dims, j->s.kept_strides, begin, 1, &first);
    const char *x = (const char *)in->data + (first + from * n) * item;
    for (int64_t at = 0; at < count; at += KL_REDUCE_LEAF) {
        int64_t m = kl_min64(KL_REDUCE_LEAF, count - at);
        for (int64_t r = 0; r < m; r += KL_REDUCE_LANES) {
            int64_t wide = kl_min64(KL_REDUCE_LANES, m - r) * n;
            const char *row = x + (at + r) * n * item;
            if (in->dtype != j->type) {
                if (j->keyed)
                    join_rows(j, typed, (const void *const[]){row}, 1, wide, NULL);
                else
                    kl_convert(j->type, typed, in->dtype, row, wide);
                row = typed;
            }
            if (r == 0)
                memcpy(lanes, row, (size_t)(wide * j->bytes));
            else
                j->join.fold(lanes, row, wide);
        }
        for (int64_t step = KL_REDUCE_LANES / 2, left = kl_min64(KL_REDUCE_LANES, m); step;
             step /= 2)
            if (left > step) {
                j->join.fold(lanes, lanes + step * n * j->bytes, (left - step) * n);
                left = step;
            }
        kl_reduce_push(j, &counter, lanes);
    }
    kl_reduce_finish(j, &counter, results);
}
