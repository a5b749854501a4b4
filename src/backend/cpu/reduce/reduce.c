/* reduce.c - SUM, PROD, MAX, MIN, ALL, ANY and VAR over any set of axes. The reduction tree depends
 * on the number of reduced elements alone, so strides, threads and the way through memory change no
 * bit, and the error of a float sum grows with the logarithm of its length.
 * docs/notes/cpu-kernels.md describes the tree and the ways through memory. ALL and ANY are
 * the minimum and maximum of truth values. VAR is two sums: first the mean, then the squared
 * distances from it, so it cannot be negative. */
#include <math.h>
#include <string.h>

#include "backend/cpu/cpu_kernels.h"
#include "backend/cpu/reduce/reduce.h"
#include "backend/cpu/vector/lanes.h"
#include "base/alloc.h"
#include "base/op/op_params.h"

enum { LEVELS = 56 }; /* levels of the binary counter of a whole reduction */

static void divide(enum kl_dtype type, void *x, double by, int64_t n) {
    if (type == KL_F64) {
        double *v = x;
        KL_EACH(i, n) v[i] /= by;
    } else {
        float *v = x, d = (float)by;
        int64_t parts = type == KL_C64 ? 2 * n : n;
        KL_EACH(i, parts) v[i] /= d;
    }
}

/* Gives results to who takes them, in the output's dtype. */
static void hand_over(const struct kl_launch *l, int64_t begin, int64_t n, enum kl_dtype type,
                      const char *results) {
    const enum kl_dtype dtype = l->out->dtype;
    const int64_t bytes = (int64_t)kl_dtype_size(type);
    union kl_tile tile;
    if (dtype == type) l->taker->run(l->taker->ctx, begin, n, results);
    for (int64_t at = 0, m; at < n && dtype != type; at += m) {
        m = kl_min64(KL_TILE, n - at);
        kl_convert(dtype, tile.bytes, type, results + at * bytes, m);
        l->taker->run(l->taker->ctx, begin + at, m, tile.bytes);
    }
}

/* Divides, converts and stores results, which are overwritten. */
static void store(const struct kl_reduce_job *j, int64_t begin, int64_t n, char *results) {
    const struct kl_arg *out = j->l->out;
    float widened[KL_REDUCE_ROWS * 4];
    enum kl_dtype type = j->type;
    if (j->keyed && type == KL_I32) {
        int32_t *key = (int32_t *)(void *)results;
        KL_EACH(i, n) key[i] = (int32_t)kl_of_key32(j->order, key[i]);
        type = KL_F32;
    } else if (j->keyed) { /* converted to float32 first, which makes a NaN quiet */
        int16_t *key = (int16_t *)(void *)results;
        KL_EACH(i, n) key[i] = (int16_t)kl_of_key16(j->order, key[i]);
        type = KL_F32;
        kl_convert(type, widened, j->l->in->dtype, results, n);
        results = (char *)widened;
    }
    if (j->divides) divide(j->type, results, j->divisor, n);
    if (j->to)
        memcpy(j->to + begin * j->bytes, results, (size_t)(n * j->bytes));
    else if (j->l->taker)
        hand_over(j->l, begin, n, type, results);
    else
        kl_convert(out->dtype, (char *)out->data + begin * (int64_t)kl_dtype_size(out->dtype), type,
                   results, n);
}

static void segment_chunk(void *arg, int64_t i) {
    const struct kl_reduce_job *j = arg;
    int64_t segment = i / j->n_groups, g = i % j->n_groups;
    int64_t all = j->run ? j->run : j->s.n_out, place = g % j->run_groups * j->group;
    int64_t begin = g / j->run_groups * all + place, n = kl_min64(j->group, all - place);
    int64_t from = segment * KL_REDUCE_SEGMENT,
            count = kl_min64(KL_REDUCE_SEGMENT, j->s.n_red - from);
    _Alignas(64) char results[KL_REDUCE_ROWS * 8];
    if (j->way == KL_REDUCE_BY_FEW) { /* a task has whole runs */
        begin = i * j->group;
        n = kl_min64(j->group, j->s.n_out - begin);
        kl_reduce_few(j, begin, n, results);
    } else if (j->way == KL_REDUCE_BY_COLUMNS)
        kl_reduce_columns(j, begin, n, from, count, results);
    else if (j->way == KL_REDUCE_BY_NARROW)
        kl_reduce_narrow(j, begin, n, from, count, results);
    else
        kl_reduce_rows(j, begin, n, from, count, results);
    if (j->partial)
        memcpy(j->partial + (segment * j->s.n_out + begin) * j->bytes, results,
               (size_t)(n * j->bytes));
    else
        store(j, begin, n, results);
}

void kl_reduce_join_segments(const struct kl_reduce_job *j) {
    enum { COLUMNS = 64 };
    _Alignas(8) char levels[LEVELS * COLUMNS * 8], results[COLUMNS * 8], value[COLUMNS * 8];
    for (int64_t begin = 0; begin < j->s.n_out; begin += COLUMNS) {
        int64_t n = kl_min64(COLUMNS, j->s.n_out - begin);
        struct kl_reduce_counter counter = {levels, n, 0};
        for (int64_t s = 0; s < j->segments; s++) {
            memcpy(value, j->partial + (s * j->s.n_out + begin) * j->bytes, (size_t)(n * j->bytes));
            kl_reduce_push(j, &counter, value);
        }
        kl_reduce_finish(j, &counter, results);
        store(j, begin, n, results);
    }
}

/* Chooses how memory is traversed, and what one task is. */
static void choose_way(struct kl_reduce_job *j) {
    enum { MIN_COLUMNS = 16 }; /* a shorter run is too little for a task, so a task has several */
    bool same = j->l->in->dtype == j->read && (!j->means || j->squares.run);
    j->segments = kl_ceil_div(j->s.n_red, KL_REDUCE_SEGMENT);
    j->way = kl_split_columns(&j->s) ? KL_REDUCE_BY_COLUMNS : KL_REDUCE_BY_ROWS;
    j->run = 0;
    if (j->way == KL_REDUCE_BY_ROWS) {
        int64_t fit = KL_CHUNK / kl_min64(j->s.n_red, KL_REDUCE_SEGMENT);
        j->dense = same && (j->s.n_gone == 0 || (j->s.n_gone == 1 && j->s.gone_strides[0] == 1));
        j->group = fit > KL_REDUCE_ROWS ? KL_REDUCE_ROWS : fit < 1 ? 1 : fit;
    } else {
        int64_t side = kl_split_run(&j->s);
        bool follow = j->s.n_gone == 1 && j->s.gone_strides[0] == side;
        if (follow && side * j->bytes <= KL_REDUCE_NARROW && !j->means)
            j->way = KL_REDUCE_BY_NARROW;
        if (j->way == KL_REDUCE_BY_NARROW || side >= MIN_COLUMNS) j->run = side;
        j->dense = same && j->run;
        int wide = (int)kl_dtype_size(j->read) > j->bytes ? (int)kl_dtype_size(j->read) : j->bytes;
        j->group = j->dense || j->run ? KL_REDUCE_WIDTH / wide : KL_TILE;
        if (j->way == KL_REDUCE_BY_COLUMNS && j->dense && !j->means &&
            j->s.n_red <= KL_REDUCE_LANES && 2 * j->run <= j->group) {
            j->way = KL_REDUCE_BY_FEW;
            j->group -= j->group % j->run;
            j->run_groups = 1;
            j->n_groups = kl_ceil_div(j->s.n_out, j->group);
            return;
        }
    }
    j->run_groups = kl_ceil_div(j->run ? j->run : j->s.n_out, j->group);
    j->n_groups = (j->run ? j->s.n_out / j->run : 1) * j->run_groups;
}

/* Elements are read without conversion where there are functions for their dtype. */
static void read_as_they_are(struct kl_reduce_job *j, const struct kl_reduce_join *joins) {
    enum kl_dtype from = j->l->in->dtype;
    bool half = from == KL_F16 || from == KL_BF16;
    if (j->type != KL_F32 || (!half && from != KL_F32)) return;
    if (joins == kl_reduce_maxima || joins == kl_reduce_minima) {
        j->keyed = true;
        j->order = kl_order(from, joins == kl_reduce_maxima);
        j->type = half ? KL_I16 : KL_I32;
        j->join = kl_reduce_maxima[j->type];
        j->read = from;
    } else if (joins[from].run) {
        j->join = joins[from];
        j->read = from;
        j->sums = joins == kl_reduce_sums;
    }
}

/* Whether the first segment of the only output decides it, which is then stored. Most conditions
 * over a large array fail or hold early, and waking threads takes longer than this. */
static bool decided_early(const struct kl_reduce_job *j) {
    if (!j->truths || !j->dense || j->way != KL_REDUCE_BY_ROWS || j->s.n_out != 1) return false;
    if (j->segments == 1 || !kl_reduce_finds(j->l->in->data, KL_REDUCE_SEGMENT, j->stop))
        return false;
    char result = j->stop;
    store(j, 0, 1, &result);
    return true;
}

static int reduce(struct kl_reduce_job *j) {
    j->bytes = (int)kl_dtype_size(j->type);
    choose_way(j);
    if (decided_early(j)) return KL_OK;
    j->partial = NULL;
    if (j->segments > 1) {
        j->partial = kl_malloc((size_t)(j->segments * j->s.n_out * j->bytes));
        if (!j->partial) return kl_fail_nomem(j->l->err);
    }
    struct kl_launch alone = {.parallel =
                                  j->l->in->size >= KL_PARALLEL_FROM ? j->l->parallel : NULL};
    kl_run_tasks(&alone, j->segments * j->n_groups, segment_chunk, j);
    if (j->partial) kl_reduce_join_segments(j);
    kl_free(j->partial);
    return KL_OK;
}

/* The result where nothing is reduced; the builders reject maxima and minima of no elements. */
static void fill_empty(struct kl_launch *l) {
    int64_t bytes = (int64_t)kl_dtype_size(l->out->dtype);
    uint64_t value = 0;
    uint8_t one = l->op == KL_OP_PROD || l->op == KL_OP_ALL;
    kl_convert(l->out->dtype, &value, KL_U8, &one, 1);
    for (int64_t i = 0; i < l->out->size; i++)
        memcpy((char *)l->out->data + i * bytes, &value, (size_t)bytes);
}

int kl_cpu_reduce(struct kl_launch *l) {
    const struct kl_reduce_params *p = l->params;
    struct kl_reduce_job j = {.l = l};
    if (l->out->size == 0) return KL_OK;
    j.type = j.read = kl_compute_dtype(l->out->dtype);
    const struct kl_reduce_join *joins = kl_reduce_minima;
    switch (l->op) {
    case KL_OP_SUM: joins = kl_reduce_sums; break;
    case KL_OP_PROD: joins = kl_reduce_products; break;
    case KL_OP_MAX:
    case KL_OP_ANY: joins = kl_reduce_maxima; break;
    default: break;
    }
    j.join = joins[j.type];
    j.stop = joins == kl_reduce_maxima;
    j.truths =
        l->in->dtype == KL_BOOL && j.type == KL_BOOL && (j.stop || joins == kl_reduce_minima);
    read_as_they_are(&j, joins);
    if (!j.join.run)
        return kl_fail(l->err, KL_EDTYPE, "no kernel for dtype %s", kl_dtype_name(l->out->dtype));
    kl_split_axes(&j.s, l->in, p->n_axes, p->axes);
    if (j.s.n_red == 0) {
        fill_empty(l);
        return KL_OK;
    }
    return reduce(&j);
}

int kl_cpu_var(struct kl_launch *l) {
    const struct kl_var_params *p = l->params;
    struct kl_reduce_job j = {.l = l};
    if (l->out->size == 0) return KL_OK;
    enum kl_dtype type = kl_compute_dtype(l->out->dtype);
    j.type = j.read = l->in->dtype == KL_C64 ? KL_C64 : type;
    j.join = kl_reduce_sums[j.type];
    kl_split_axes(&j.s, l->in, p->n_axes, p->axes);
    if (j.s.n_red == 0) {
        float nan = NAN;
        for (int64_t i = 0; i < l->out->size; i++)
            kl_convert(l->out->dtype,
                       (char *)l->out->data + i * (int64_t)kl_dtype_size(l->out->dtype), KL_F32,
                       &nan, 1);
        return KL_OK;
    }
    j.to = kl_malloc((size_t)j.s.n_out * kl_dtype_size(j.type));
    if (!j.to) return kl_fail_nomem(l->err);
    char *means = j.to;
    read_as_they_are(&j, kl_reduce_sums);
    j.divides = true;
    j.divisor = (double)j.s.n_red;
    int rc = reduce(&j);
    if (rc == KL_OK) {
        j.means = means;
        j.read = l->in->dtype == KL_C64 ? KL_C64 : type;
        if (type == KL_F32 && kl_reduce_squares[l->in->dtype].run) {
            j.squares = kl_reduce_squares[l->in->dtype];
            j.read = l->in->dtype;
        }
        j.to = NULL;
        j.type = type;
        j.join = kl_reduce_sums[type];
        /* With too few elements for ddof the sum is divided by 0: infinity, or NaN where all
         * elements are equal. */
        j.divisor = j.s.n_red > p->ddof ? (double)j.s.n_red - p->ddof : 0;
        rc = reduce(&j);
    }
    kl_free(means);
    return rc;
}
