/* reduce_rows.c - reductions of one output after another: along contiguous elements, or any others
 * that a cursor brings together. */
#include <string.h>

#include "backend/cpu/reduce/reduce.h"
#include "backend/cpu/reduce/short_rows.h"

/* mean: of the output. */
static void run(const struct kl_reduce_job *j, struct kl_reduce_counter *c, const void *x,
                int64_t n, const void *mean) {
    if (j->squares.run)
        j->squares.run(mean, c->level, &c->leaves, x, n);
    else if (!j->keyed)
        j->join.run(c->level, &c->leaves, x, n);
    else
        kl_reduce_keys[j->type].run(j->order, c->level, &c->leaves, x, n);
}

bool kl_reduce_finds(const uint8_t *x, int64_t n, bool wanted) {
    enum { BLOCK = 512 };
    if (!wanted) return memchr(x, 0, (size_t)n) != NULL;
    for (int64_t at = 0; at < n; at += BLOCK) {
        const int64_t m = kl_min64(BLOCK, n - at);
        uint8_t any = 0;
        KL_EACH(i, m) any |= x[at + i];
        if (any) return true;
    }
    return false;
}

/* Outputs [begin, begin + n) of one segment, one after another. */
void kl_reduce_rows(const struct kl_reduce_job *j, int64_t begin, int64_t n, int64_t from,
                    int64_t count, char *results) {
    const struct kl_arg *in = j->l->in;
    int item = (int)kl_dtype_size(in->dtype);
    int64_t offsets[KL_REDUCE_ROWS];
    _Alignas(8) char levels[KL_REDUCE_SEGMENT_LEVELS * 8];
    struct kl_cursor c;
    union kl_tile raw, tile, apart;
    kl_offsets(j->s.n_kept, j->s.kept_dims, j->s.kept_strides, begin, n, offsets);
#if KL_HAS_SHORT
    if (j->dense && count <= KL_SHORT && (j->keyed || (j->sums && !j->means))) {
        const char *x = (const char *)in->data + from * item;
        if (j->keyed)
            kl_short_extremes(j->type == KL_I16, j->order, results, x, offsets, n, count);
        else
            kl_short_sums(in->dtype, (float *)(void *)results, x, offsets, n, count);
        return;
    }
    if (j->dense && in->dtype == j->type && kl_short_halves_take(j->l->op, in->dtype, count)) {
        kl_short_halves(j->join.fold, (uint64_t *)(void *)results,
                        (const uint64_t *)in->data + from, offsets, n, count);
        return;
    }
#endif
    if (j->truths && j->dense) {
        const uint8_t *x = (const uint8_t *)in->data + from;
        for (int64_t o = 0; o < n; o++)
            results[o] = kl_reduce_finds(x + offsets[o], count, j->stop) == j->stop;
        return;
    }
    if (!j->dense)
        kl_cursor_init(&c, in->data, item, j->s.n_gone, j->s.gone_dims, j->s.gone_strides);
    for (int64_t o = 0; o < n; o++) {
        const char *base = (const char *)in->data + offsets[o] * item;
        const char *mean = kl_reduce_mean_of(j, begin + o);
        struct kl_reduce_counter counter = {levels, 1, 0};
        if (j->dense) {
            run(j, &counter, base + from * item, count, mean);
        } else {
            c.data = (char *)base;
            kl_cursor_seek(&c, from);
            for (int64_t at = 0; at < count; at += KL_TILE) {
                int64_t m = kl_min64(KL_TILE, count - at);
                const void *x = kl_cursor_next_as(&c, m, in->dtype, j->read, &raw, &tile);
                if (j->means && !j->squares.run) {
                    kl_reduce_distances(j, apart.bytes, x, mean, 0, m);
                    x = apart.bytes;
                }
                run(j, &counter, x, m, mean);
            }
        }
        if (counter.leaves > 1)
            kl_reduce_finish(j, &counter, results + o * j->bytes);
        else if (
            j->bytes ==
            4) /* This length is known to the compiler. A call would take as long as a short row. */
            memcpy(results + o * 4, levels, 4);
        else
            memcpy(results + o * j->bytes, levels, (size_t)j->bytes);
    }
}
