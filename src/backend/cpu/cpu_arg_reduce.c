/* cpu_arg_reduce.c - ARGMAX and ARGMIN along one axis: the first of equals, the first NaN before
 * all (a complex number with a NaN in either part is one).
 *
 * Row by row: the best value of a tile is found by lanes, and only where it beats what is so far its place is looked for. Where other axes lie closer together than the axis: a run of columns side by
 * side, with a best value and its place each. Long rows and columns are cut into segments, which are shared among threads and joined in order. */
#include <string.h>

#include "backend/cpu/cpu_axes.h"
#include "backend/cpu/cpu_complex.h"
#include "backend/cpu/cpu_kernels.h"
#include "backend/cpu/cpu_lanes.h"
#include "backend/cpu/cpu_tile.h"
#include "base/alloc.h"
#include "base/op_params.h"

enum {
    LANES = 32,
    SEGMENT = 1 << 16,
    SHORT = 16, /* fewer columns are not worth it */
};

struct best {
    int64_t at; /* -1: none yet */
    bool is_nan;
    _Alignas(8) unsigned char value[8];
};

#define ABOVE(a, b) ((a) > (b))
#define BELOW(a, b) ((a) < (b))
#define ANY(x) (x)
#define LOWEST(x) (-INFINITY)
#define HIGHEST(x) (INFINITY)

#define T uint8_t
#define NAME max_u8
#define BETTER ABOVE
#define START ANY
#define PLACE uint32_t
#include "backend/cpu/cpu_arg_reduce.inc"
#define T uint16_t
#define NAME max_u16
#define BETTER ABOVE
#define START ANY
#define PLACE uint32_t
#include "backend/cpu/cpu_arg_reduce.inc"
#define T uint32_t
#define NAME max_u32
#define BETTER ABOVE
#define START ANY
#define PLACE uint32_t
#include "backend/cpu/cpu_arg_reduce.inc"
#define T uint64_t
#define NAME max_u64
#define BETTER ABOVE
#define START ANY
#define PLACE uint64_t
#include "backend/cpu/cpu_arg_reduce.inc"
#define T int8_t
#define NAME max_i8
#define BETTER ABOVE
#define START ANY
#define PLACE uint32_t
#include "backend/cpu/cpu_arg_reduce.inc"
#define T int16_t
#define NAME max_i16
#define BETTER ABOVE
#define START ANY
#define PLACE uint32_t
#include "backend/cpu/cpu_arg_reduce.inc"
#define T int32_t
#define NAME max_i32
#define BETTER ABOVE
#define START ANY
#define PLACE uint32_t
#include "backend/cpu/cpu_arg_reduce.inc"
#define T int64_t
#define NAME max_i64
#define BETTER ABOVE
#define START ANY
#define PLACE uint64_t
#include "backend/cpu/cpu_arg_reduce.inc"
#define T float
#define NAME max_f32
#define BETTER ABOVE
#define START LOWEST
#define PLACE uint32_t
#include "backend/cpu/cpu_arg_reduce.inc"
#define T double
#define NAME max_f64
#define BETTER ABOVE
#define START LOWEST
#define PLACE uint64_t
#include "backend/cpu/cpu_arg_reduce.inc"

#define T uint8_t
#define NAME min_u8
#define BETTER BELOW
#define START ANY
#define PLACE uint32_t
#include "backend/cpu/cpu_arg_reduce.inc"
#define T uint16_t
#define NAME min_u16
#define BETTER BELOW
#define START ANY
#define PLACE uint32_t
#include "backend/cpu/cpu_arg_reduce.inc"
#define T uint32_t
#define NAME min_u32
#define BETTER BELOW
#define START ANY
#define PLACE uint32_t
#include "backend/cpu/cpu_arg_reduce.inc"
#define T uint64_t
#define NAME min_u64
#define BETTER BELOW
#define START ANY
#define PLACE uint64_t
#include "backend/cpu/cpu_arg_reduce.inc"
#define T int8_t
#define NAME min_i8
#define BETTER BELOW
#define START ANY
#define PLACE uint32_t
#include "backend/cpu/cpu_arg_reduce.inc"
#define T int16_t
#define NAME min_i16
#define BETTER BELOW
#define START ANY
#define PLACE uint32_t
#include "backend/cpu/cpu_arg_reduce.inc"
#define T int32_t
#define NAME min_i32
#define BETTER BELOW
#define START ANY
#define PLACE uint32_t
#include "backend/cpu/cpu_arg_reduce.inc"
#define T int64_t
#define NAME min_i64
#define BETTER BELOW
#define START ANY
#define PLACE uint64_t
#include "backend/cpu/cpu_arg_reduce.inc"
#define T float
#define NAME min_f32
#define BETTER BELOW
#define START HIGHEST
#define PLACE uint32_t
#include "backend/cpu/cpu_arg_reduce.inc"
#define T double
#define NAME min_f64
#define BETTER BELOW
#define START HIGHEST
#define PLACE uint64_t
#include "backend/cpu/cpu_arg_reduce.inc"

/* ---- complex64: one after another ---- */
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
                    void *places); /* NULL: none */
    void (*gather)(const void *tops, const void *places, int64_t n, struct best *best);
};
#define FAMILY(name) \
    { scan_##name, join_##name, columns_##name, gather_##name }
#define FAMILIES(op)                                                                           \
    {                                                                                          \
        [KL_BOOL] = FAMILY(op##_u8), [KL_U8] = FAMILY(op##_u8), [KL_U16] = FAMILY(op##_u16),   \
        [KL_U32] = FAMILY(op##_u32), [KL_U64] = FAMILY(op##_u64), [KL_I8] = FAMILY(op##_i8),   \
        [KL_I16] = FAMILY(op##_i16), [KL_I32] = FAMILY(op##_i32), [KL_I64] = FAMILY(op##_i64), \
        [KL_F32] = FAMILY(op##_f32), [KL_F64] = FAMILY(op##_f64), [KL_C64] = {                 \
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
    enum kl_dtype type;
    int64_t run, group, run_groups, n_groups, segments; /* as in cpu_reduce.c */
    struct best *partial;                               /* [segments][n_out], when segments > 1 */
};

static void by_rows(const struct job *j, int64_t begin, int64_t n, int64_t from, int64_t count,
                    struct best *best) {
    const struct kl_arg *in = j->l->in;
    int item = (int)kl_dtype_size(in->dtype);
    int64_t offsets[KL_TILE];
    struct kl_cursor c;
    union kl_tile raw, tile;
    kl_offsets(j->s.n_kept, j->s.kept_dims, j->s.kept_strides, begin, n, offsets);
    kl_cursor_init(&c, in->data, item, j->s.n_gone, j->s.gone_dims, j->s.gone_strides);
    for (int64_t o = 0; o < n; o++) {
        best[o] = (struct best){.at = -1};
        c.data = (char *)in->data + offsets[o] * item;
        c.filled = false;
        kl_cursor_seek(&c, from);
        for (int64_t at = 0; at < count; at += KL_TILE) {
            int64_t m = kl_min64(KL_TILE, count - at);
            j->f.scan(kl_cursor_next_as(&c, m, in->dtype, j->type, &raw, &tile), m, from + at,
                      &best[o]);
        }
    }
}

static void by_columns(const struct job *j, int64_t begin, int64_t n, int64_t from, int64_t count,
                       struct best *best) {
    const struct kl_arg *in = j->l->in;
    int item = (int)kl_dtype_size(in->dtype);
    int64_t first;
    union kl_tile typed;
    _Alignas(64) char tops[KL_TILE * 8], places[KL_TILE * 8];
    kl_offsets(j->s.n_kept, j->s.kept_dims, j->s.kept_strides, begin, 1, &first);
    const char *x = (const char *)in->data + (first + from * j->s.gone_strides[0]) * item;
    for (int64_t r = 0; r < count; r++) {
        const void *row = x + r * j->s.gone_strides[0] * item;
        if (in->dtype != j->type) {
            kl_convert(j->type, typed.bytes, in->dtype, row, n);
            row = typed.bytes;
        }
        j->f.columns(row, from + r, r == 0, n, tops, places);
    }
    j->f.gather(tops, places, n, best);
}

static void store(const struct job *j, int64_t begin, int64_t n, const struct best *best) {
    uint32_t *out = (uint32_t *)j->l->out->data + begin;
    for (int64_t i = 0; i < n; i++) out[i] = (uint32_t)best[i].at;
}

static void segment_chunk(void *arg, int64_t i) {
    const struct job *j = arg;
    int64_t segment = i / j->n_groups, g = i % j->n_groups;
    int64_t all = j->run ? j->run : j->s.n_out, place = g % j->run_groups * j->group;
    int64_t begin = g / j->run_groups * all + place, n = kl_min64(j->group, all - place);
    int64_t from = segment * SEGMENT, count = kl_min64(SEGMENT, j->s.n_red - from);
    struct best here[KL_TILE],
        *best = j->partial ? j->partial + segment * j->s.n_out + begin : here;
    (j->run ? by_columns : by_rows)(j, begin, n, from, count, best);
    if (!j->partial) store(j, begin, n, best);
}

int kl_cpu_arg_reduce(struct kl_launch *l) {
    struct job j = {.l = l};
    const struct kl_arg *in = l->in;
    int axis = ((const struct kl_axis_params *)l->params)->axis;
    if (l->out->size == 0) return KL_OK;
    j.type = kl_compute_dtype(in->dtype);
    j.f = (l->op == KL_OP_ARGMAX ? largest : smallest)[j.type];
    kl_split_axes(&j.s, in, 1, &axis);
    j.segments = kl_ceil_div(j.s.n_red, SEGMENT);
    if (j.f.columns && kl_split_columns(&j.s) && kl_split_run(&j.s) >= SHORT)
        j.run = kl_split_run(&j.s);
    int64_t fit = KL_CHUNK / kl_min64(j.s.n_red, SEGMENT);
    j.group = j.run || fit > KL_TILE ? KL_TILE : fit < 1 ? 1 : fit;
    j.run_groups = kl_ceil_div(j.run ? j.run : j.s.n_out, j.group);
    j.n_groups = (j.run ? j.s.n_out / j.run : 1) * j.run_groups;
    if (j.segments > 1) {
        j.partial = kl_malloc((size_t)(j.segments * j.s.n_out) * sizeof *j.partial);
        if (!j.partial) return kl_fail_nomem(l->err);
    }
    struct kl_launch alone = {.parallel = in->size >= KL_PARALLEL_FROM ? l->parallel : NULL};
    kl_share(&alone, j.segments * j.n_groups, segment_chunk, &j);
    if (j.partial) {
        for (int64_t s = 1; s < j.segments; s++)
            for (int64_t o = 0; o < j.s.n_out; o++)
                j.f.join(&j.partial[o], &j.partial[s * j.s.n_out + o]);
        store(&j, 0, j.s.n_out, j.partial);
    }
    kl_free(j.partial);
    return KL_OK;
}
