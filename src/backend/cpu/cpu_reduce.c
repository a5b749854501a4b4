/* cpu_reduce.c - SUM, MAX, MIN over any set of axes.
 *
 * The tree of a reduction is fixed by the number of reduced elements alone, taken in row-major
 * order: blocks of BLOCK elements; within a block LANES partial values (element i goes to lane i %
 * LANES), joined by halving; blocks are joined pairwise, like the carries of a binary counter, what
 * is left over from the right. So strides, threads and the way through memory change no bit, and
 * the error of a float sum grows with the logarithm of its length.
 *
 * Two ways lead through memory: output by output (ROWS), when the reduced elements lie close
 * together, else a run of outputs side by side (COLUMNS). Long reductions are cut into segments,
 * whole subtrees, which are shared among threads. */
#include <string.h>

#include "backend/cpu/cpu_extremes.h"
#include "backend/cpu/cpu_kernels.h"
#include "backend/cpu/cpu_tile.h"
#include "base/alloc.h"
#include "base/op_params.h"

enum {
    LANES = 16,
    BLOCK = 128,
    SEGMENT = 1 << 16, /* reduced elements; BLOCK times a power of two */
    LEVELS = 56,       /* of the binary counter */
    COLUMNS = 64,
    ROWS = KL_TILE,
};

#define SUM_OF(a, b) ((a) + (b))
#define PLAIN_MAX(a, b) ((a) > (b) ? (a) : (b))
#define PLAIN_MIN(a, b) ((a) < (b) ? (a) : (b))

/* Signed sums wrap, so they are unsigned sums. */
#define T uint32_t
#define NAME sum_u32
#define JOIN SUM_OF
#include "backend/cpu/cpu_reduce.inc"
#define T uint64_t
#define NAME sum_u64
#define JOIN SUM_OF
#include "backend/cpu/cpu_reduce.inc"
#define T float
#define NAME sum_f32
#define JOIN SUM_OF
#include "backend/cpu/cpu_reduce.inc"
#define T double
#define NAME sum_f64
#define JOIN SUM_OF
#include "backend/cpu/cpu_reduce.inc"
#define T struct kl_c64
#define NAME sum_c64
#define JOIN kl_c64_add
#include "backend/cpu/cpu_reduce.inc"

#define T uint8_t
#define NAME max_u8
#define JOIN PLAIN_MAX
#include "backend/cpu/cpu_reduce.inc"
#define T uint16_t
#define NAME max_u16
#define JOIN PLAIN_MAX
#include "backend/cpu/cpu_reduce.inc"
#define T uint32_t
#define NAME max_u32
#define JOIN PLAIN_MAX
#include "backend/cpu/cpu_reduce.inc"
#define T uint64_t
#define NAME max_u64
#define JOIN PLAIN_MAX
#include "backend/cpu/cpu_reduce.inc"
#define T int8_t
#define NAME max_i8
#define JOIN PLAIN_MAX
#include "backend/cpu/cpu_reduce.inc"
#define T int16_t
#define NAME max_i16
#define JOIN PLAIN_MAX
#include "backend/cpu/cpu_reduce.inc"
#define T int32_t
#define NAME max_i32
#define JOIN PLAIN_MAX
#include "backend/cpu/cpu_reduce.inc"
#define T int64_t
#define NAME max_i64
#define JOIN PLAIN_MAX
#include "backend/cpu/cpu_reduce.inc"
#define T float
#define NAME max_f32
#define JOIN kl_max_f32
#include "backend/cpu/cpu_reduce.inc"
#define T double
#define NAME max_f64
#define JOIN kl_max_f64
#include "backend/cpu/cpu_reduce.inc"
#define T struct kl_c64
#define NAME max_c64
#define JOIN kl_max_c64
#include "backend/cpu/cpu_reduce.inc"

#define T uint8_t
#define NAME min_u8
#define JOIN PLAIN_MIN
#include "backend/cpu/cpu_reduce.inc"
#define T uint16_t
#define NAME min_u16
#define JOIN PLAIN_MIN
#include "backend/cpu/cpu_reduce.inc"
#define T uint32_t
#define NAME min_u32
#define JOIN PLAIN_MIN
#include "backend/cpu/cpu_reduce.inc"
#define T uint64_t
#define NAME min_u64
#define JOIN PLAIN_MIN
#include "backend/cpu/cpu_reduce.inc"
#define T int8_t
#define NAME min_i8
#define JOIN PLAIN_MIN
#include "backend/cpu/cpu_reduce.inc"
#define T int16_t
#define NAME min_i16
#define JOIN PLAIN_MIN
#include "backend/cpu/cpu_reduce.inc"
#define T int32_t
#define NAME min_i32
#define JOIN PLAIN_MIN
#include "backend/cpu/cpu_reduce.inc"
#define T int64_t
#define NAME min_i64
#define JOIN PLAIN_MIN
#include "backend/cpu/cpu_reduce.inc"
#define T float
#define NAME min_f32
#define JOIN kl_min_f32
#include "backend/cpu/cpu_reduce.inc"
#define T double
#define NAME min_f64
#define JOIN kl_min_f64
#include "backend/cpu/cpu_reduce.inc"
#define T struct kl_c64
#define NAME min_c64
#define JOIN kl_min_c64
#include "backend/cpu/cpu_reduce.inc"

struct join {
    void (*block)(void *out, const void *x, int64_t n);
    void (*fold)(void *a, const void *b, int64_t n);
};
#define PAIR(name) \
    { block_##name, fold_##name }
#define EXTREME(op)                                                                      \
    {                                                                                    \
        [KL_BOOL] = PAIR(op##_u8), [KL_U8] = PAIR(op##_u8), [KL_U16] = PAIR(op##_u16),   \
        [KL_U32] = PAIR(op##_u32), [KL_U64] = PAIR(op##_u64), [KL_I8] = PAIR(op##_i8),   \
        [KL_I16] = PAIR(op##_i16), [KL_I32] = PAIR(op##_i32), [KL_I64] = PAIR(op##_i64), \
        [KL_F32] = PAIR(op##_f32), [KL_F64] = PAIR(op##_f64), [KL_C64] = PAIR(op##_c64)  \
    }
static const struct join sums[KL_N_DTYPES] = {
    [KL_U32] = PAIR(sum_u32), [KL_I32] = PAIR(sum_u32), [KL_U64] = PAIR(sum_u64),
    [KL_I64] = PAIR(sum_u64), [KL_F32] = PAIR(sum_f32), [KL_F64] = PAIR(sum_f64),
    [KL_C64] = PAIR(sum_c64),
};
static const struct join maxima[KL_N_DTYPES] = EXTREME(max);
static const struct join minima[KL_N_DTYPES] = EXTREME(min);

struct job {
    const struct kl_launch *l;
    struct join join;
    enum kl_dtype type; /* computed in */
    int bytes;          /* of that type */
    /* The input's axes, those that stay and those that go; axes of length 1 are dropped. */
    int n_kept, n_gone;
    int kept_dims[KL_LONG_AXES], gone_dims[KL_LONG_AXES];
    int64_t kept_strides[KL_LONG_AXES], gone_strides[KL_LONG_AXES];
    int64_t n_out, n_red;
    bool columns;            /* the way through memory */
    int64_t group, n_groups; /* outputs of one task; tasks per segment */
    int64_t segments;
    char *partial; /* [segments][n_out] of type, when segments > 1 */
};

/* The values of finished blocks, `width` side by side: blocks & (1 << k) says that level k holds a
 * subtree of 2^k blocks. */
struct counter {
    char *level; /* LEVELS * width values */
    int64_t width, blocks;
};

static char *level_at(const struct job *j, const struct counter *c, int k) {
    return c->level + k * c->width * j->bytes;
}

/* Adds a finished block; `value` is overwritten. */
static void counter_push(const struct job *j, struct counter *c, char *value) {
    int k = 0;
    for (; c->blocks >> k & 1; k++) {
        j->join.fold(level_at(j, c, k), value, c->width);
        memcpy(value, level_at(j, c, k), (size_t)(c->width * j->bytes));
    }
    memcpy(level_at(j, c, k), value, (size_t)(c->width * j->bytes));
    c->blocks++;
}

/* Joins what is left, from the right. There is at least one block. */
static void counter_finish(const struct job *j, struct counter *c, char *out) {
    bool any = false;
    for (int k = 0; c->blocks >> k; k++) {
        if (!(c->blocks >> k & 1)) continue;
        char *here = level_at(j, c, k);
        if (any) j->join.fold(here, out, c->width);
        memcpy(out, here, (size_t)(c->width * j->bytes));
        any = true;
    }
}

/* Outputs [begin, begin + n) of one segment, one after another. */
static void reduce_rows(const struct job *j, int64_t begin, int64_t n, int64_t from, int64_t count,
                        char *results) {
    const struct kl_arg *in = j->l->in;
    int item = (int)kl_dtype_size(in->dtype);
    int64_t offsets[ROWS];
    _Alignas(8) char levels[LEVELS * 8], value[8];
    struct kl_cursor c;
    union kl_tile raw, tile;
    kl_offsets(j->n_kept, j->kept_dims, j->kept_strides, begin, n, offsets);
    kl_cursor_init(&c, in->data, item, j->n_gone, j->gone_dims, j->gone_strides);
    for (int64_t o = 0; o < n; o++) {
        c.data = (char *)in->data + offsets[o] * item;
        c.filled = false;
        kl_cursor_seek(&c, from);
        struct counter counter = {levels, 1, 0};
        for (int64_t at = 0; at < count; at += KL_TILE) {
            int64_t m = kl_min64(KL_TILE, count - at);
            const char *x = kl_cursor_next_as(&c, m, in->dtype, j->type, &raw, &tile);
            for (int64_t b = 0; b < m; b += BLOCK) {
                j->join.block(value, x + b * j->bytes, kl_min64(BLOCK, m - b));
                if (count > BLOCK) counter_push(j, &counter, value);
            }
        }
        if (count > BLOCK) counter_finish(j, &counter, value);
        memcpy(results + o * j->bytes, value, (size_t)j->bytes);
    }
}

/* The same with n <= COLUMNS outputs side by side. */
static void reduce_columns(const struct job *j, int64_t begin, int64_t n, int64_t from,
                           int64_t count, char *results) {
    const struct kl_arg *in = j->l->in;
    int item = (int)kl_dtype_size(in->dtype);
    _Alignas(8) char levels[LEVELS * COLUMNS * 8], lanes[LANES][COLUMNS * 8];
    int64_t offsets[BLOCK];
    struct kl_cursor c;
    union kl_tile raw, tile;
    struct counter counter = {levels, n, 0};
    kl_cursor_init(&c, in->data, item, j->n_kept, j->kept_dims, j->kept_strides);
    for (int64_t at = 0; at < count; at += BLOCK) {
        int64_t m = kl_min64(BLOCK, count - at);
        kl_offsets(j->n_gone, j->gone_dims, j->gone_strides, from + at, m, offsets);
        for (int64_t r = 0; r < m; r++) {
            c.data = (char *)in->data + offsets[r] * item;
            c.filled = false;
            kl_cursor_seek(&c, begin);
            const void *x = kl_cursor_next_as(&c, n, in->dtype, j->type, &raw, &tile);
            if (r < LANES)
                memcpy(lanes[r], x, (size_t)(n * j->bytes));
            else
                j->join.fold(lanes[r % LANES], x, n);
        }
        for (int step = LANES / 2; step; step /= 2)
            for (int k = 0; k < step && k + step < m; k++)
                j->join.fold(lanes[k], lanes[k + step], n);
        counter_push(j, &counter, lanes[0]);
    }
    counter_finish(j, &counter, results);
}

static void store(const struct job *j, int64_t begin, int64_t n, const void *results) {
    const struct kl_arg *out = j->l->out;
    kl_convert(out->dtype, (char *)out->data + begin * (int64_t)kl_dtype_size(out->dtype), j->type,
               results, n);
}

static void segment_chunk(void *arg, int64_t i) {
    const struct job *j = arg;
    int64_t segment = i / j->n_groups, begin = i % j->n_groups * j->group,
            n = kl_min64(j->group, j->n_out - begin);
    int64_t from = segment * SEGMENT, count = kl_min64(SEGMENT, j->n_red - from);
    _Alignas(8) char results[ROWS * 8];
    if (j->columns)
        reduce_columns(j, begin, n, from, count, results);
    else
        reduce_rows(j, begin, n, from, count, results);
    if (j->partial)
        memcpy(j->partial + (segment * j->n_out + begin) * j->bytes, results,
               (size_t)(n * j->bytes));
    else
        store(j, begin, n, results);
}

/* Joins the segments, which are subtrees of the same size but for the last. */
static void join_segments(const struct job *j) {
    _Alignas(8) char levels[LEVELS * COLUMNS * 8], results[COLUMNS * 8], value[COLUMNS * 8];
    for (int64_t begin = 0; begin < j->n_out; begin += COLUMNS) {
        int64_t n = kl_min64(COLUMNS, j->n_out - begin);
        struct counter counter = {levels, n, 0};
        for (int64_t s = 0; s < j->segments; s++) {
            memcpy(value, j->partial + (s * j->n_out + begin) * j->bytes, (size_t)(n * j->bytes));
            counter_push(j, &counter, value);
        }
        counter_finish(j, &counter, results);
        store(j, begin, n, results);
    }
}

static void split_axes(struct job *j) {
    const struct kl_reduce_params *p = j->l->params;
    const struct kl_arg *in = j->l->in;
    int next = 0;
    j->n_kept = j->n_gone = 0;
    j->n_out = j->n_red = 1;
    for (int i = 0; i < in->ndim; i++) {
        bool gone = next < p->n_axes && p->axes[next] == i;
        next += gone;
        if (gone)
            j->n_red *= in->dims[i];
        else
            j->n_out *= in->dims[i];
        if (in->dims[i] == 1) continue;
        if (gone && j->n_gone < KL_LONG_AXES) {
            j->gone_dims[j->n_gone] = in->dims[i];
            j->gone_strides[j->n_gone++] = in->strides[i];
        } else if (!gone && j->n_kept < KL_LONG_AXES) {
            j->kept_dims[j->n_kept] = in->dims[i];
            j->kept_strides[j->n_kept++] = in->strides[i];
        }
    }
}

/* Whether neighbouring outputs lie closer together than neighbours of one reduction. */
static bool columns_are_closer(const struct job *j) {
    if (!j->n_kept || !j->n_gone) return false;
    int64_t kept = j->kept_strides[j->n_kept - 1], gone = j->gone_strides[j->n_gone - 1];
    return (kept < 0 ? -kept : kept) < (gone < 0 ? -gone : gone);
}

int kl_cpu_reduce(struct kl_launch *l) {
    struct job j;
    j.l = l;
    if (l->out->size == 0) return KL_OK;
    j.type = kl_compute_dtype(l->out->dtype);
    j.bytes = (int)kl_dtype_size(j.type);
    j.join = (l->op == KL_OP_SUM ? sums : l->op == KL_OP_MAX ? maxima : minima)[j.type];
    if (!j.join.block)
        return kl_fail(l->err, KL_EDTYPE, "no kernel for dtype %s", kl_dtype_name(l->out->dtype));
    split_axes(&j);
    if (j.n_red == 0) { /* a sum of nothing; the builders let no other come here */
        memset(l->out->data, 0, (size_t)l->out->size * kl_dtype_size(l->out->dtype));
        return KL_OK;
    }
    j.segments = kl_ceil_div(j.n_red, SEGMENT);
    j.columns = columns_are_closer(&j);
    int64_t fit = KL_CHUNK / kl_min64(j.n_red, SEGMENT);
    j.group = j.columns ? COLUMNS : fit > ROWS ? ROWS : fit < 1 ? 1 : fit;
    j.n_groups = kl_ceil_div(j.n_out, j.group);
    j.partial = NULL;
    if (j.segments > 1) {
        j.partial = kl_malloc((size_t)(j.segments * j.n_out * j.bytes));
        if (!j.partial) return kl_fail_nomem(l->err);
    }
    struct kl_launch alone = {.parallel = l->in[0].size >= KL_PARALLEL_FROM ? l->parallel : NULL};
    kl_share(&alone, j.segments * j.n_groups, segment_chunk, &j);
    if (j.partial) join_segments(&j);
    kl_free(j.partial);
    return KL_OK;
}
