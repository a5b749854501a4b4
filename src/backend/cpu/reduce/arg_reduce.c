/* arg_reduce.c - ARGMAX and ARGMIN along one axis: the first of equal elements; a NaN wins, and the
 * first of them (a complex number with a NaN in either part is one). Row by row: the best value of
 * a tile is found by lanes, with the step at which it came. Where other axes lie closer together in
 * memory than the axis, a run of columns is done side by side, each with a best value and its
 * place. Floats other than float64 are compared as integers (math/order.h). Long rows and columns
 * are cut into segments, which threads compute and which are joined in order. */
#include <string.h>

#include "backend/cpu/operand/axes.h"
#include "backend/cpu/math/complex.h"
#include "backend/cpu/cpu_kernels.h"
#include "backend/cpu/vector/lanes.h"
#include "backend/cpu/math/order.h"
#include "backend/cpu/reduce/short_rows.h"
#include "backend/cpu/operand/tile.h"
#include "base/alloc.h"
#include "base/op/op_params.h"

enum {
    SEGMENT = 1 << 16,
    AHEAD = 4096,            /* as in reduce_joins.c */
    MIN_COLUMNS = 16,        /* fewer columns than these are not computed side by side */
    LONG_TILE = 8 * KL_TILE, /* elements that are scanned at a time in a contiguous row */
    WIDTH = 4096,            /* bytes of the ranks of a row that are computed at a time */
};

_Static_assert(LONG_TILE / 32 < 256, "steps fit a byte");

struct best {
    int64_t at; /* position of the element; -1: none yet */
    bool is_nan;
    _Alignas(8) unsigned char value[8];
};

#define ABOVE(a, b) ((a) > (b))
#define BELOW(a, b) ((a) < (b))
#define SMALLER_OF(a, b) ((b) < (a) ? (b) : (a))

#define T uint8_t
#define STEP uint8_t
#define NAME max_u8
#define BETTER ABOVE
#define PLACE uint32_t
/* defines scan_max_u8, columns_max_u8, gather_max_u8, join_max_u8 */
#include "backend/cpu/reduce/arg_reduce.inc"
#define T uint16_t
#define STEP uint16_t
#define NAME max_u16
#define BETTER ABOVE
#define PLACE uint32_t
/* defines scan_max_u16, columns_max_u16, gather_max_u16, join_max_u16 */
#include "backend/cpu/reduce/arg_reduce.inc"
#define T uint32_t
#define STEP uint32_t
#define NAME max_u32
#define BETTER ABOVE
#define PLACE uint32_t
/* defines scan_max_u32, columns_max_u32, gather_max_u32, join_max_u32 */
#include "backend/cpu/reduce/arg_reduce.inc"
#define T uint64_t
#define STEP uint64_t
#define NAME max_u64
#define BETTER ABOVE
#define PLACE uint64_t
/* defines scan_max_u64, columns_max_u64, gather_max_u64, join_max_u64 */
#include "backend/cpu/reduce/arg_reduce.inc"
#define T int8_t
#define STEP uint8_t
#define NAME max_i8
#define BETTER ABOVE
#define PLACE uint32_t
/* defines scan_max_i8, columns_max_i8, gather_max_i8, join_max_i8 */
#include "backend/cpu/reduce/arg_reduce.inc"
#define T int16_t
#define STEP uint16_t
#define NAME max_i16
#define BETTER ABOVE
#define PLACE uint32_t
/* defines scan_max_i16, columns_max_i16, gather_max_i16, join_max_i16 */
#include "backend/cpu/reduce/arg_reduce.inc"
#define T int32_t
#define STEP uint32_t
#define NAME max_i32
#define BETTER ABOVE
#define PLACE uint32_t
/* defines scan_max_i32, columns_max_i32, gather_max_i32, join_max_i32 */
#include "backend/cpu/reduce/arg_reduce.inc"
#define T int64_t
#define STEP uint64_t
#define NAME max_i64
#define BETTER ABOVE
#define PLACE uint64_t
/* defines scan_max_i64, columns_max_i64, gather_max_i64, join_max_i64 */
#include "backend/cpu/reduce/arg_reduce.inc"
#define T double
#define STEP uint64_t
#define NAME max_f64
#define BETTER ABOVE
#define PLACE uint64_t
/* defines scan_max_f64, columns_max_f64, gather_max_f64, join_max_f64 */
#include "backend/cpu/reduce/arg_reduce.inc"

#define T uint8_t
#define STEP uint8_t
#define NAME min_u8
#define BETTER BELOW
#define PLACE uint32_t
/* defines scan_min_u8, columns_min_u8, gather_min_u8, join_min_u8 */
#include "backend/cpu/reduce/arg_reduce.inc"
#define T uint16_t
#define STEP uint16_t
#define NAME min_u16
#define BETTER BELOW
#define PLACE uint32_t
/* defines scan_min_u16, columns_min_u16, gather_min_u16, join_min_u16 */
#include "backend/cpu/reduce/arg_reduce.inc"
#define T uint32_t
#define STEP uint32_t
#define NAME min_u32
#define BETTER BELOW
#define PLACE uint32_t
/* defines scan_min_u32, columns_min_u32, gather_min_u32, join_min_u32 */
#include "backend/cpu/reduce/arg_reduce.inc"
#define T uint64_t
#define STEP uint64_t
#define NAME min_u64
#define BETTER BELOW
#define PLACE uint64_t
/* defines scan_min_u64, columns_min_u64, gather_min_u64, join_min_u64 */
#include "backend/cpu/reduce/arg_reduce.inc"
#define T int8_t
#define STEP uint8_t
#define NAME min_i8
#define BETTER BELOW
#define PLACE uint32_t
/* defines scan_min_i8, columns_min_i8, gather_min_i8, join_min_i8 */
#include "backend/cpu/reduce/arg_reduce.inc"
#define T int16_t
#define STEP uint16_t
#define NAME min_i16
#define BETTER BELOW
#define PLACE uint32_t
/* defines scan_min_i16, columns_min_i16, gather_min_i16, join_min_i16 */
#include "backend/cpu/reduce/arg_reduce.inc"
#define T int32_t
#define STEP uint32_t
#define NAME min_i32
#define BETTER BELOW
#define PLACE uint32_t
/* defines scan_min_i32, columns_min_i32, gather_min_i32, join_min_i32 */
#include "backend/cpu/reduce/arg_reduce.inc"
#define T int64_t
#define STEP uint64_t
#define NAME min_i64
#define BETTER BELOW
#define PLACE uint64_t
/* defines scan_min_i64, columns_min_i64, gather_min_i64, join_min_i64 */
#include "backend/cpu/reduce/arg_reduce.inc"
#define T double
#define STEP uint64_t
#define NAME min_f64
#define BETTER BELOW
#define PLACE uint64_t
/* defines scan_min_f64, columns_min_f64, gather_min_f64, join_min_f64 */
#include "backend/cpu/reduce/arg_reduce.inc"

/* ---- floats, by their ranks; the results of a scan are integers ---- */
#define T int16_t
#define STEP uint16_t
#define NAME rank16
#define FROM uint16_t
#define LOAD(x) kl_rank16(rank, x)
#define RANK struct kl_ranking rank,
#define BETTER ABOVE
#define PLACE uint16_t
/* defines scan_rank16 */
#include "backend/cpu/reduce/arg_reduce.inc"
#ifdef __aarch64__
#include "backend/cpu/reduce/arg_reduce_neon.h"
#else
#define T int32_t
#define STEP uint32_t
#define NAME rank32
#define FROM uint32_t
#define LOAD(x) kl_rank32(rank, x)
#define RANK struct kl_ranking rank,
#define BETTER ABOVE
#define PLACE uint32_t
/* defines scan_rank32 */
#include "backend/cpu/reduce/arg_reduce.inc"
#endif

enum { AT_ONCE = 8 };
#define ROW(b, k)                                           \
    do {                                                    \
        int##b##_t v = kl_rank##b(rank, x[(k)*step + c]);   \
        place = v > top ? (uint##b##_t)(row + (k)) : place; \
        top = v > top ? v : top;                            \
    } while (0)
/* Adds the next AT_ONCE rows of n columns, from `row` on. The best values so far are read and
 * written once for all these rows. */
#define COLUMNS(name, b)                                                                           \
    static void name(struct kl_ranking rank, const void *in, int64_t step, int64_t row, int64_t n, \
                     void *tops, void *places) {                                                   \
        const uint##b##_t *x = in;                                                                 \
        KL_EACH(c, n) {                                                                            \
            int##b##_t top = ((int##b##_t *)tops)[c];                                              \
            uint##b##_t place = ((uint##b##_t *)places)[c];                                        \
            ROW(b, 0);                                                                             \
            ROW(b, 1);                                                                             \
            ROW(b, 2);                                                                             \
            ROW(b, 3);                                                                             \
            ROW(b, 4);                                                                             \
            ROW(b, 5);                                                                             \
            ROW(b, 6);                                                                             \
            ROW(b, 7);                                                                             \
            ((int##b##_t *)tops)[c] = top;                                                         \
            ((uint##b##_t *)places)[c] = place;                                                    \
        }                                                                                          \
    }
COLUMNS(columns_rank16, 16)
COLUMNS(columns_rank32, 32)

/* ---- complex64: one element after another ---- */
static void scan_c64(const void *in, int64_t n, int64_t first, struct best *best, bool max) {
    const struct kl_c64 *x = in;
    struct kl_c64 top;
    memcpy(&top, best->value, sizeof top);
    for (int64_t i = 0; i < n && !best->is_nan; i++) {
        best->is_nan = kl_c64_is_nan(x[i]);
        if (best->at >= 0 && !best->is_nan &&
            !(max ? kl_c64_less(top, x[i]) : kl_c64_less(x[i], top)))
            continue;
        top = x[i];
        best->at = first + i;
    }
    memcpy(best->value, &top, sizeof top);
}
static void scan_max_c64(const void *in, int64_t n, int64_t first, struct best *best) {
    scan_c64(in, n, first, best, true);
}
static void scan_min_c64(const void *in, int64_t n, int64_t first, struct best *best) {
    scan_c64(in, n, first, best, false);
}
static void join_max_c64(struct best *a, const struct best *b) {
    if (!a->is_nan) scan_c64(b->value, 1, b->at, a, true);
}
static void join_min_c64(struct best *a, const struct best *b) {
    if (!a->is_nan) scan_c64(b->value, 1, b->at, a, false);
}

struct family {
    void (*scan)(const void *x, int64_t n, int64_t first, struct best *best);
    void (*join)(struct best *a, const struct best *b);
    void (*columns)(const void *x, int64_t row, bool is_first, int64_t n, void *tops,
                    void *places); /* NULL: this family is not computed by columns. */
    void (*gather)(const void *tops, const void *places, int64_t n, struct best *best);
};
#define FAMILY(name) \
    { scan_##name, join_##name, columns_##name, gather_##name }
#define FAMILIES(op)                                                                           \
    {                                                                                          \
        [KL_BOOL] = FAMILY(op##_u8), [KL_U8] = FAMILY(op##_u8), [KL_U16] = FAMILY(op##_u16),   \
        [KL_U32] = FAMILY(op##_u32), [KL_U64] = FAMILY(op##_u64), [KL_I8] = FAMILY(op##_i8),   \
        [KL_I16] = FAMILY(op##_i16), [KL_I32] = FAMILY(op##_i32), [KL_I64] = FAMILY(op##_i64), \
        [KL_F64] = FAMILY(op##_f64), [KL_C64] = {                                              \
            scan_##op##_c64,                                                                   \
            join_##op##_c64,                                                                   \
            NULL,                                                                              \
            NULL                                                                               \
        }                                                                                      \
    }
static const struct family largest[KL_N_DTYPES] = FAMILIES(max);
static const struct family smallest[KL_N_DTYPES] = FAMILIES(min);

struct job {
    const struct kl_launch *l;
    struct family f;
    struct kl_split s;
    bool ranked, half; /* ranked: floats are compared by their ranks; half: floats of 16 bits */
    struct kl_ranking rank;
    int stop; /* of bools: the value that no other is better than */
    int64_t run, group, run_groups, n_groups, segments; /* as in reduce_joins.c */
    struct best *partial;                               /* [segments][n_out], when segments > 1 */
};

/* Whether x, of n bools, has one that no other is better than, which is the best then. Else the
 * first of all is. */
static bool finds(const void *x, int64_t n, int64_t first, int stop, struct best *best) {
    const char *found = memchr(x, stop, (size_t)n);
    if (found || best->at < 0) {
        best->at = found ? first + (found - (const char *)x) : first;
        best->value[0] = (unsigned char)(found ? stop : !stop);
    }
    return found != NULL;
}

static void by_rows(const struct job *j, int64_t begin, int64_t n, int64_t from, int64_t count,
                    struct best *best) {
    const struct kl_arg *in = j->l->in;
    int item = (int)kl_dtype_size(in->dtype);
    int64_t offsets[KL_TILE];
    struct kl_cursor c;
    union kl_tile raw;
    kl_offsets(j->s.n_kept, j->s.kept_dims, j->s.kept_strides, begin, n, offsets);
    kl_cursor_init(&c, in->data, item, j->s.n_gone, j->s.gone_dims, j->s.gone_strides);
    for (int64_t o = 0; o < n; o++) {
        best[o] = (struct best){.at = -1};
        c.data = (char *)in->data + offsets[o] * item;
        kl_cursor_seek(&c, from);
        int64_t most = c.ndim == 1 && c.strides[0] == item ? LONG_TILE : KL_TILE;
        for (int64_t at = 0; at < count; at += most) {
            int64_t m = kl_min64(most, count - at);
            const void *x = kl_cursor_next(&c, m, &raw);
            if (in->dtype == KL_BOOL) {
                if (finds(x, m, from + at, j->stop, &best[o])) break;
            } else if (j->half)
                scan_rank16(j->rank, x, m, from + at, &best[o]);
            else if (j->ranked)
                scan_rank32(j->rank, x, m, from + at, &best[o]);
            else
                j->f.scan(x, m, from + at, &best[o]);
        }
    }
}

#if KL_HAS_SHORT
static bool is_short(const struct job *j) {
    return j->ranked && !j->run && j->s.n_red <= KL_SHORT_PLACES && j->s.n_gone == 1 &&
           j->s.gone_strides[0] == 1;
}

static void short_rows(const struct job *j, int64_t begin, int64_t n) {
    int64_t offsets[KL_TILE];
    kl_offsets(j->s.n_kept, j->s.kept_dims, j->s.kept_strides, begin, n, offsets);
    kl_short_places(j->half, kl_order(j->l->in->dtype, j->l->op == KL_OP_ARGMAX),
                    (uint32_t *)j->l->out->data + begin, j->l->in->data, offsets, n, j->s.n_red);
}
#endif

static void store(const struct job *j, int64_t begin, int64_t n, const struct best *best) {
    uint32_t *out = (uint32_t *)j->l->out->data + begin;
    for (int64_t i = 0; i < n; i++) out[i] = (uint32_t)best[i].at;
}

/* Computes outputs by columns. best: where the results of a segment go; NULL: to the output. */
static void by_columns(const struct job *j, int64_t begin, int64_t n, int64_t from, int64_t count,
                       struct best *best) {
    const struct kl_arg *in = j->l->in;
    int64_t item = (int64_t)kl_dtype_size(in->dtype), step = j->s.gone_strides[0], first;
    _Alignas(64) char tops[KL_TILE * 8], places[KL_TILE * 8];
    struct best here[KL_TILE];
    kl_offsets(j->s.n_kept, j->s.kept_dims, j->s.kept_strides, begin, 1, &first);
    const char *x = (const char *)in->data + (first + from * step) * item;
    for (int64_t r = 0; r < count; r++)
        j->f.columns(x + r * step * item, from + r, r == 0, n, tops, places);
    j->f.gather(tops, places, n, best ? best : here);
    if (!best) store(j, begin, n, here);
}

/* The same for floats, by their ranks. Positions are within a segment. */
static void by_ranks(const struct job *j, int64_t begin, int64_t n, int64_t from, int64_t count,
                     struct best *best) {
    const struct kl_arg *in = j->l->in;
    int64_t item = j->half ? 2 : 4, step = j->s.gone_strides[0], first;
    _Alignas(64) char tops[WIDTH], places[WIDTH];
    kl_offsets(j->s.n_kept, j->s.kept_dims, j->s.kept_strides, begin, 1, &first);
    const char *x = (const char *)in->data + (first + from * step) * item;
    /* Every element has a higher rank. */
    for (int64_t c = 0; c < n; c++)
        memcpy(tops + c * item,
               j->half ? (const void *)&(int16_t){INT16_MIN} : (const void *)&(int32_t){INT32_MIN},
               (size_t)item);
    for (int64_t r = 0, m; r < count; r += m) {
        /* for a single row, the same row is passed several times */
        m = count - r < AT_ONCE ? 1 : AT_ONCE;
        int64_t apart = m == 1 ? 0 : step;
        (j->half ? columns_rank16 : columns_rank32)(j->rank, x + r * step * item, apart, r, n, tops,
                                                    places);
    }
    uint32_t *out = (uint32_t *)j->l->out->data + begin;
    for (int64_t c = 0; c < n; c++) {
        int64_t at = from + (j->half ? ((const uint16_t *)(const void *)places)[c]
                                     : ((const uint32_t *)(const void *)places)[c]);
        if (best) {
            best[c] = (struct best){.at = at};
            memcpy(best[c].value, tops + c * item, (size_t)item);
        } else {
            out[c] = (uint32_t)at;
        }
    }
}

static void segment_chunk(void *arg, int64_t i) {
    const struct job *j = arg;
    int64_t segment = i / j->n_groups, g = i % j->n_groups;
    int64_t all = j->run ? j->run : j->s.n_out, place = g % j->run_groups * j->group;
    int64_t begin = g / j->run_groups * all + place, n = kl_min64(j->group, all - place);
    int64_t from = segment * SEGMENT, count = kl_min64(SEGMENT, j->s.n_red - from);
    struct best here[KL_TILE],
        *best = j->partial ? j->partial + segment * j->s.n_out + begin : NULL;
    if (j->run) {
        (j->ranked ? by_ranks : by_columns)(j, begin, n, from, count, best);
        return;
    }
#if KL_HAS_SHORT
    if (is_short(j)) {
        short_rows(j, begin, n);
        return;
    }
#endif
    by_rows(j, begin, n, from, count, best ? best : here);
    if (!best) store(j, begin, n, here);
}

int kl_cpu_arg_reduce(struct kl_launch *l) {
    struct job j = {.l = l};
    const struct kl_arg *in = l->in;
    int axis = ((const struct kl_axis_params *)l->params)->axis;
    if (l->out->size == 0) return KL_OK;
    bool max = l->op == KL_OP_ARGMAX;
    j.stop = max;
    j.half = in->dtype == KL_F16 || in->dtype == KL_BF16;
    j.ranked = j.half || in->dtype == KL_F32;
    j.rank = kl_ranking(in->dtype, max);
    j.f = j.ranked ? largest[j.half ? KL_I16 : KL_I32] : (max ? largest : smallest)[in->dtype];
    kl_split_axes(&j.s, in, 1, &axis);
    j.segments = kl_ceil_div(j.s.n_red, SEGMENT);
    if (j.f.columns && kl_split_columns(&j.s) && kl_split_run(&j.s) >= MIN_COLUMNS)
        j.run = kl_split_run(&j.s);
    int64_t fit = KL_CHUNK / kl_min64(j.s.n_red, SEGMENT);
    j.group = j.run           ? (j.ranked ? WIDTH / (j.half ? 2 : 4) : KL_TILE)
              : fit > KL_TILE ? KL_TILE
              : fit < 1       ? 1
                              : fit;
    j.run_groups = kl_ceil_div(j.run ? j.run : j.s.n_out, j.group);
    j.n_groups = (j.run ? j.s.n_out / j.run : 1) * j.run_groups;
    if (in->dtype == KL_BOOL && j.segments > 1 && j.s.n_out == 1) { /* it may come early */
        struct best first;
        by_rows(&j, 0, 1, 0, SEGMENT, &first);
        if (first.value[0] == j.stop) {
            store(&j, 0, 1, &first);
            return KL_OK;
        }
    }
    if (j.segments > 1) {
        j.partial = kl_malloc((size_t)(j.segments * j.s.n_out) * sizeof *j.partial);
        if (!j.partial) return kl_fail_nomem(l->err);
    }
    struct kl_launch alone = {.parallel = in->size >= KL_PARALLEL_FROM ? l->parallel : NULL};
    kl_run_tasks(&alone, j.segments * j.n_groups, segment_chunk, &j);
    if (j.partial) {
        for (int64_t s = 1; s < j.segments; s++)
            for (int64_t o = 0; o < j.s.n_out; o++)
                j.f.join(&j.partial[o], &j.partial[s * j.s.n_out + o]);
        store(&j, 0, j.s.n_out, j.partial);
    }
    kl_free(j.partial);
    return KL_OK;
}
