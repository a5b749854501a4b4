/* reduce.c - SUM, PROD, MAX, MIN, ALL, ANY and VAR over any set of axes. The reduction tree depends
 * on the number of reduced elements alone, so strides, threads and the way through memory change no
 * bit, and the error of a float sum grows with the logarithm of its length.
 * docs/notes/cpu-kernels.md describes the tree and the three ways through memory. ALL and ANY are
 * the minimum and maximum of truth values. VAR is two sums: first the mean, then the squared
 * distances from it, so it cannot be negative. */
#include <string.h>

#include "backend/cpu/operand/axes.h"
#include "backend/cpu/math/extremes.h"
#include "backend/cpu/cpu_kernels.h"
#include "backend/cpu/vector/lanes.h"
#include "backend/cpu/math/order.h"
#include "backend/cpu/reduce/short_rows.h"
#include "backend/cpu/operand/tile.h"
#include "backend/cpu/vector/simd.h"
#include "base/alloc.h"
#include "base/op_params.h"

enum {
    LANES = 16,
    LEAF = 128,
    SEGMENT = 1 << 16, /* reduced elements; LEAF times a power of two */
    LEVELS = 56,       /* of the binary counter of a whole reduction */
    SEGMENT_LEVELS = 10,
    WIDTH = 4096, /* bytes of values side by side; KL_TILE of the widest type */
    ROWS = KL_TILE,
    /* Bytes from what is read of a row to what is prefetched: the processor's own prefetching
     * stops at the end of a page. */
    AHEAD = 4096,
    NARROW = 64, /* outputs side by side; more are computed by columns */
};
_Static_assert(LEAF << (SEGMENT_LEVELS - 1) == SEGMENT, "the levels of a segment's counter");
_Static_assert(LANES == 16 && LEAF == 8 * LANES, "as reduce.inc is written out");

#define SUM_OF(a, b) ((a) + (b))
#define PRODUCT_OF(a, b) ((a) * (b))

/* Signed sums and products wrap, so unsigned ones serve for both. */
#define T uint32_t
#define NAME sum_u32
#define JOIN SUM_OF
/* defines leaf_sum_u32, full_sum_u32, run_sum_u32, lane_sum_u32, fold_sum_u32 */
#include "backend/cpu/reduce/reduce.inc"
#define T uint64_t
#define NAME sum_u64
#define JOIN SUM_OF
/* defines leaf_sum_u64, full_sum_u64, run_sum_u64, lane_sum_u64, fold_sum_u64 */
#include "backend/cpu/reduce/reduce.inc"
#define T float
#define NAME sum_f32
#define JOIN SUM_OF
#if KL_HAS_SIMD
#define HAS_SIMD
#endif
/* defines leaf_sum_f32, full_sum_f32, run_sum_f32, lane_sum_f32, fold_sum_f32 */
#include "backend/cpu/reduce/reduce.inc"
#define T double
#define NAME sum_f64
#define JOIN SUM_OF
/* defines leaf_sum_f64, full_sum_f64, run_sum_f64, lane_sum_f64, fold_sum_f64 */
#include "backend/cpu/reduce/reduce.inc"
#define T struct kl_c64
#define NAME sum_c64
#define JOIN kl_c64_add
/* defines leaf_sum_c64, full_sum_c64, run_sum_c64, lane_sum_c64, fold_sum_c64 */
#include "backend/cpu/reduce/reduce.inc"

#define T uint32_t
#define NAME prod_u32
#define JOIN PRODUCT_OF
/* defines leaf_prod_u32, full_prod_u32, run_prod_u32, lane_prod_u32, fold_prod_u32 */
#include "backend/cpu/reduce/reduce.inc"
#define T uint64_t
#define NAME prod_u64
#define JOIN PRODUCT_OF
/* defines leaf_prod_u64, full_prod_u64, run_prod_u64, lane_prod_u64, fold_prod_u64 */
#include "backend/cpu/reduce/reduce.inc"
#define T float
#define NAME prod_f32
#define JOIN PRODUCT_OF
#if KL_HAS_SIMD
#define HAS_SIMD
#endif
/* defines leaf_prod_f32, full_prod_f32, run_prod_f32, lane_prod_f32, fold_prod_f32 */
#include "backend/cpu/reduce/reduce.inc"
#define T double
#define NAME prod_f64
#define JOIN PRODUCT_OF
/* defines leaf_prod_f64, full_prod_f64, run_prod_f64, lane_prod_f64, fold_prod_f64 */
#include "backend/cpu/reduce/reduce.inc"
#define T struct kl_c64
#define NAME prod_c64
#define JOIN kl_c64_mul
/* defines leaf_prod_c64, full_prod_c64, run_prod_c64, lane_prod_c64, fold_prod_c64 */
#include "backend/cpu/reduce/reduce.inc"

#define KL_BY_KEYS
#define KL_TEMPLATE "backend/cpu/reduce/reduce.inc"
/* defines run_max_u8, lane_max_u8, fold_max_u8, run_max_u16, lane_max_u16, fold_max_u16,
 * run_max_u32, lane_max_u32, fold_max_u32, run_max_u64, lane_max_u64, fold_max_u64, run_max_i8,
 * lane_max_i8, fold_max_i8, run_max_i16, lane_max_i16, fold_max_i16, run_max_i32, lane_max_i32,
 * fold_max_i32, run_max_i64, lane_max_i64, fold_max_i64, run_max_f64, lane_max_f64, fold_max_f64,
 * leaf_max_c64, full_max_c64, run_max_c64, lane_max_c64, fold_max_c64, run_min_u8, lane_min_u8,
 * fold_min_u8, run_min_u16, lane_min_u16, fold_min_u16, run_min_u32, lane_min_u32, fold_min_u32,
 * run_min_u64, lane_min_u64, fold_min_u64, run_min_i8, lane_min_i8, fold_min_i8, run_min_i16,
 * lane_min_i16, fold_min_i16, run_min_i32, lane_min_i32, fold_min_i32, run_min_i64, lane_min_i64,
 * fold_min_i64, run_min_f64, lane_min_f64, fold_min_f64, leaf_min_c64, full_min_c64, run_min_c64,
 * lane_min_c64, fold_min_c64 */
#include "backend/cpu/reduce/extremes.inc"

/* Floats become keys, which are joined as integers. */
#define T int16_t
#define NAME keys16
#define FROM uint16_t
#define LOAD(x) kl_key16(order, x)
#define ORDER struct kl_order order,
#define ANY_ORDER
#define JOIN KL_PLAIN_MAX
/* defines run_keys16, lane_keys16 */
#include "backend/cpu/reduce/reduce.inc"
#define T int32_t
#define NAME keys32
#define FROM uint32_t
#define LOAD(x) kl_key32(order, x)
#define ORDER struct kl_order order,
#define ANY_ORDER
#define JOIN KL_PLAIN_MAX
/* defines run_keys32, lane_keys32 */
#include "backend/cpu/reduce/reduce.inc"

#if KL_HAS_SIMD
#define NAME sum_f32
#define JOIN SUM_OF
#define FROM float
#define DTYPE KL_F32
#define WIDE kl_simd_load_f32
#define OF sum_f32
/* defines eight_sum_f32, full_sum_f32, four_sum_f32, run_sum_f32, lane_sum_f32 */
#include "backend/cpu/reduce/reduce_x86.inc"
#define NAME sum_f16
#define JOIN SUM_OF
#define FROM uint16_t
#define DTYPE KL_F16
#define WIDE kl_simd_load_f16
#define OF sum_f32
/* defines eight_sum_f16, full_sum_f16, four_sum_f16, run_sum_f16, lane_sum_f16 */
#include "backend/cpu/reduce/reduce_x86.inc"
#define NAME sum_bf16
#define JOIN SUM_OF
#define FROM uint16_t
#define DTYPE KL_BF16
#define WIDE kl_simd_load_bf16
#define OF sum_f32
/* defines eight_sum_bf16, full_sum_bf16, four_sum_bf16, run_sum_bf16, lane_sum_bf16 */
#include "backend/cpu/reduce/reduce_x86.inc"
#define NAME prod_f32
#define JOIN PRODUCT_OF
#define FROM float
#define DTYPE KL_F32
#define WIDE kl_simd_load_f32
#define OF prod_f32
/* defines eight_prod_f32, full_prod_f32, four_prod_f32, run_prod_f32, lane_prod_f32 */
#include "backend/cpu/reduce/reduce_x86.inc"
#define NAME prod_f16
#define JOIN PRODUCT_OF
#define FROM uint16_t
#define DTYPE KL_F16
#define WIDE kl_simd_load_f16
#define OF prod_f32
/* defines eight_prod_f16, full_prod_f16, four_prod_f16, run_prod_f16, lane_prod_f16 */
#include "backend/cpu/reduce/reduce_x86.inc"
#define NAME prod_bf16
#define JOIN PRODUCT_OF
#define FROM uint16_t
#define DTYPE KL_BF16
#define WIDE kl_simd_load_bf16
#define OF prod_f32
/* defines eight_prod_bf16, full_prod_bf16, four_prod_bf16, run_prod_bf16, lane_prod_bf16 */
#include "backend/cpu/reduce/reduce_x86.inc"
#define SQUARES
#define NAME squares_f32
#define JOIN SUM_OF
#define FROM float
#define DTYPE KL_F32
#define WIDE kl_simd_load_f32
#define OF sum_f32
/* defines eight_squares_f32, full_squares_f32, four_squares_f32, run_squares_f32,
 * lane_squares_f32 */
#include "backend/cpu/reduce/reduce_x86.inc"
#define SQUARES
#define NAME squares_f16
#define JOIN SUM_OF
#define FROM uint16_t
#define DTYPE KL_F16
#define WIDE kl_simd_load_f16
#define OF sum_f32
/* defines eight_squares_f16, full_squares_f16, four_squares_f16, run_squares_f16,
 * lane_squares_f16 */
#include "backend/cpu/reduce/reduce_x86.inc"
#define SQUARES
#define NAME squares_bf16
#define JOIN SUM_OF
#define FROM uint16_t
#define DTYPE KL_BF16
#define WIDE kl_simd_load_bf16
#define OF sum_f32
/* defines eight_squares_bf16, full_squares_bf16, four_squares_bf16, run_squares_bf16,
 * lane_squares_bf16 */
#include "backend/cpu/reduce/reduce_x86.inc"
#define HALVES(op)                                                 \
    [KL_F16] = {run_##op##_f16, lane_##op##_f16, fold_##op##_f32}, \
    [KL_BF16] = {run_##op##_bf16, lane_##op##_bf16, fold_##op##_f32},
#else
#define HALVES(op) /* these go through tiles */
#endif

/* Sums of squared distances, by the dtype of the elements; other functions are those of sums of
 * float32. */
struct squares {
    void (*run)(const float *means, void *levels, int64_t *leaves, const void *x, int64_t n);
    void (*lane)(const float *means, void *out, const void *const *rows, int n_rows, int64_t n);
};
static const struct squares all_squares[KL_N_DTYPES] = {
#if KL_HAS_SIMD
    [KL_F32] = {run_squares_f32, lane_squares_f32},
    [KL_F16] = {run_squares_f16, lane_squares_f16},
    [KL_BF16] = {run_squares_bf16, lane_squares_bf16},
#endif
};

struct join {
    void (*run)(void *levels, int64_t *leaves, const void *x, int64_t n);
    void (*lane)(void *out, const void *const *rows, int n_rows, int64_t n);
    void (*fold)(void *a, const void *b, int64_t n);
};
#define JOIN_OF(name) \
    { run_##name, lane_##name, fold_##name }
#define EXTREME(op)                                                                               \
    {                                                                                             \
        [KL_BOOL] = JOIN_OF(op##_u8), [KL_U8] = JOIN_OF(op##_u8), [KL_U16] = JOIN_OF(op##_u16),   \
        [KL_U32] = JOIN_OF(op##_u32), [KL_U64] = JOIN_OF(op##_u64), [KL_I8] = JOIN_OF(op##_i8),   \
        [KL_I16] = JOIN_OF(op##_i16), [KL_I32] = JOIN_OF(op##_i32), [KL_I64] = JOIN_OF(op##_i64), \
        [KL_F64] = JOIN_OF(op##_f64), [KL_C64] = JOIN_OF(op##_c64)                                \
    }
/* By the type that is computed in; sums of 16-bit floats give float32. */
#define TOTAL(op)                                                                                 \
    {                                                                                             \
        HALVES(op)                                                                                \
        [KL_U32] = JOIN_OF(op##_u32), [KL_I32] = JOIN_OF(op##_u32), [KL_U64] = JOIN_OF(op##_u64), \
        [KL_I64] = JOIN_OF(op##_u64), [KL_F32] = JOIN_OF(op##_f32), [KL_F64] = JOIN_OF(op##_f64), \
        [KL_C64] = JOIN_OF(op##_c64)                                                              \
    }
static const struct join sums[KL_N_DTYPES] = TOTAL(sum);
static const struct join products[KL_N_DTYPES] = TOTAL(prod);
static const struct join maxima[KL_N_DTYPES] = EXTREME(max);
static const struct join minima[KL_N_DTYPES] = EXTREME(min);

enum way { BY_ROWS, BY_COLUMNS, BY_NARROW };

/* The reduction of one launch. */
struct job {
    const struct kl_launch *l;
    struct join join;
    enum kl_dtype type; /* the compute type */
    int bytes;          /* of an element of type */
    enum kl_dtype
        /* what elements are converted to: `type`; the data's dtype before distances are taken, or
         * where joins read that */
        read;
    bool keyed; /* extremes of floats: `type` is that of their keys */
    bool sums;  /* sums of floats that are read without conversion */
    struct kl_order order;
    /* for each output, of type `read`: the mean. Elements are replaced by their squared distance
     * from it; NULL: they are not */
    const char *means;
    struct squares squares; /* NULL: distances are computed separately */
    struct kl_split s;
    enum way way;
    bool dense;                 /* runs of elements can be used in place */
    int64_t run;                /* outputs that are contiguous; 0: outputs may be anywhere */
    int64_t group, run_groups;  /* outputs of one task; tasks of each run (or of all outputs) */
    int64_t n_groups, segments; /* tasks of each segment */
    char *partial;              /* [segments][n_out] of type, where segments > 1 */
    char *to;                   /* [n_out] of type: where results go; NULL: to the output */
    bool divides;
    double divisor; /* what results are divided by, where it divides */
};

/* The values of finished leaves, `width` side by side, as a binary counter: bit k of `leaves` says
 * that level k holds a subtree of 2^k leaves. */
struct counter {
    char *level;
    int64_t width, leaves;
};

static char *level_at(const struct job *j, const struct counter *c, int k) {
    return c->level + k * c->width * j->bytes;
}

/* Adds a finished leaf; overwrites `value`. */
static void counter_push(const struct job *j, struct counter *c, char *value) {
    int k = 0;
    for (; c->leaves >> k & 1; k++) {
        j->join.fold(level_at(j, c, k), value, c->width);
        memcpy(value, level_at(j, c, k), (size_t)(c->width * j->bytes));
    }
    memcpy(level_at(j, c, k), value, (size_t)(c->width * j->bytes));
    c->leaves++;
}

/* Joins the remaining subtrees, from the right. There is at least one leaf. */
static void counter_finish(const struct job *j, struct counter *c, char *out) {
    bool any = false;
    for (int k = 0; c->leaves >> k; k++) {
        if (!(c->leaves >> k & 1)) continue;
        char *here = level_at(j, c, k);
        if (any) j->join.fold(here, out, c->width);
        memcpy(out, here, (size_t)(c->width * j->bytes));
        any = true;
    }
}

/* mean, means: of the output, or of the first output of several. */
static void run(const struct job *j, struct counter *c, const void *x, int64_t n,
                const void *mean) {
    if (j->squares.run)
        j->squares.run(mean, c->level, &c->leaves, x, n);
    else if (!j->keyed)
        j->join.run(c->level, &c->leaves, x, n);
    else if (j->type == KL_I16)
        run_keys16(j->order, c->level, &c->leaves, x, n);
    else
        run_keys32(j->order, c->level, &c->leaves, x, n);
}

static void join_rows(const struct job *j, void *out, const void *const *rows, int n_rows,
                      int64_t n, const void *means) {
    if (j->squares.lane)
        j->squares.lane(means, out, rows, n_rows, n);
    else if (!j->keyed)
        j->join.lane(out, rows, n_rows, n);
    else if (j->type == KL_I16)
        lane_keys16(j->order, out, rows, n_rows, n);
    else
        lane_keys32(j->order, out, rows, n_rows, n);
}

/* y[i] = |x[i] - mean[i * step]|^2 */
static void distances(const struct job *j, void *out, const void *in, const void *mean,
                      int64_t step, int64_t n) {
    if (j->read == KL_F32) {
        float *y = out;
        const float *x = in, *m = mean;
        if (step)
            KL_EACH(i, n) y[i] = (x[i] - m[i]) * (x[i] - m[i]);
        else
            KL_EACH(i, n) y[i] = (x[i] - *m) * (x[i] - *m);
    } else if (j->read == KL_F64) {
        double *y = out;
        const double *x = in, *m = mean;
        if (step)
            KL_EACH(i, n) y[i] = (x[i] - m[i]) * (x[i] - m[i]);
        else
            KL_EACH(i, n) y[i] = (x[i] - *m) * (x[i] - *m);
    } else {
        float *y = out;
        const struct kl_c64 *x = in, *m = mean;
        for (int64_t i = 0; i < n; i++) {
            struct kl_c64 d = kl_c64_sub(x[i], m[i * step]);
            y[i] = d.re * d.re + d.im * d.im;
        }
    }
}

/* The mean of that output. */
static const char *mean_of(const struct job *j, int64_t output) {
    return j->means ? j->means + output * (int64_t)kl_dtype_size(j->squares.run ? KL_F32 : j->read)
                    : NULL;
}

/* Outputs [begin, begin + n) of one segment, one after another. */
static void reduce_rows(const struct job *j, int64_t begin, int64_t n, int64_t from, int64_t count,
                        char *results) {
    const struct kl_arg *in = j->l->in;
    int item = (int)kl_dtype_size(in->dtype);
    int64_t offsets[ROWS];
    _Alignas(8) char levels[SEGMENT_LEVELS * 8];
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
#endif
    if (!j->dense)
        kl_cursor_init(&c, in->data, item, j->s.n_gone, j->s.gone_dims, j->s.gone_strides);
    for (int64_t o = 0; o < n; o++) {
        const char *base = (const char *)in->data + offsets[o] * item;
        const char *mean = mean_of(j, begin + o);
        struct counter counter = {levels, 1, 0};
        if (j->dense) {
            run(j, &counter, base + from * item, count, mean);
        } else {
            c.data = (char *)base;
            c.filled = false;
            kl_cursor_seek(&c, from);
            for (int64_t at = 0; at < count; at += KL_TILE) {
                int64_t m = kl_min64(KL_TILE, count - at);
                const void *x = kl_cursor_next_as(&c, m, in->dtype, j->read, &raw, &tile);
                if (j->means && !j->squares.run) {
                    distances(j, apart.bytes, x, mean, 0, m);
                    x = apart.bytes;
                }
                run(j, &counter, x, m, mean);
            }
        }
        if (counter.leaves > 1)
            counter_finish(j, &counter, results + o * j->bytes);
        else if (j->bytes ==
                 4) /* a length that the compiler knows: a call would take as long as a short row */
            memcpy(results + o * 4, levels, 4);
        else
            memcpy(results + o * j->bytes, levels, (size_t)j->bytes);
    }
}

/* A leaf of columns: m rows of n values. Lane k has rows k, k + LANES, ... */
struct leaf {
    const struct job *j;
    int64_t begin, n, m;
    int64_t offsets[LEAF]; /* of the rows, in elements */
    struct kl_cursor c;    /* where it is not dense */
    char room[4][WIDTH];   /* intermediate values of the halving */
    union kl_tile raw, tile, row[LEAF / LANES];
};

/* Joins rows first, first + apart, ..., as many as a lane has. */
static void join_some(struct leaf *b, int64_t first, int64_t apart, char *out) {
    const struct job *j = b->j;
    const struct kl_arg *in = j->l->in;
    int item = (int)kl_dtype_size(in->dtype), n = 0;
    bool distant = j->means && !j->squares.run;
    const char *mean = mean_of(j, b->begin);
    const void *rows[LEAF / LANES];
    for (int64_t r = first; r < b->m && n < LEAF / LANES; r += apart, n++) {
        char *base = (char *)in->data + b->offsets[r] * item;
        if (j->dense) {
            rows[n] = base;
            continue;
        }
        const void *x = base;
        if (!j->run) {
            b->c.data = base;
            b->c.filled = false;
            kl_cursor_seek(&b->c, b->begin);
            x = kl_cursor_next(&b->c, b->n, &b->raw);
        }
        if (in->dtype != j->read) {
            char *typed = distant ? (char *)b->tile.bytes : (char *)b->row[n].bytes;
            /* Rows of 16-bit numbers are short, and too far apart for the processor to prefetch the
             * next but one. */
            if (j->run) {
                int64_t ahead = r + 2 * LANES < b->m ? r + 2 * LANES : (first + 1) % LANES;
                if (ahead >= b->m) ahead = r;
                const char *next = (const char *)in->data + b->offsets[ahead] * item;
                for (int64_t byte = 0; byte < b->n * item; byte += 64)
                    __builtin_prefetch(next + byte);
            }
            kl_convert(j->read, typed, in->dtype, x, b->n);
            x = typed;
        } else if (x == b->raw.bytes && !distant) { /* which the next row overwrites */
            memcpy(b->row[n].bytes, x, (size_t)(b->n * item));
            x = b->row[n].bytes;
        }
        if (distant) {
            distances(j, b->row[n].bytes, x, mean, 1, b->n);
            x = b->row[n].bytes;
        }
        rows[n] = x;
    }
    join_rows(j, out, rows, n, b->n, mean);
}

/* Joins lanes k, k + step, k + 2 step, ... by halving; depth is that of the recursion. */
static void join_lanes(struct leaf *b, int64_t k, int64_t step, int depth, char *out) {
    if (step == LANES) {
        join_some(b, k, LANES, out);
        return;
    }
    join_lanes(b, k, 2 * step, depth + 1, out);
    if (k + step >= b->m) return;
    join_lanes(b, k + step, 2 * step, depth + 1, b->room[depth]);
    b->j->join.fold(out, b->room[depth], b->n);
}

/* Outputs [begin, begin + n) side by side. */
static void reduce_columns(const struct job *j, int64_t begin, int64_t n, int64_t from,
                           int64_t count, char *results) {
    const struct kl_arg *in = j->l->in;
    _Alignas(64) char levels[SEGMENT_LEVELS * WIDTH], value[WIDTH];
    struct counter counter = {levels, n, 0};
    struct leaf b; /* large, so it is not cleared */
    int64_t first = 0;
    b.j = j;
    b.begin = begin;
    b.n = n;
    if (j->run)
        kl_offsets(j->s.n_kept, j->s.kept_dims, j->s.kept_strides, begin, 1, &first);
    else
        kl_cursor_init(&b.c, in->data, (int)kl_dtype_size(in->dtype), j->s.n_kept, j->s.kept_dims,
                       j->s.kept_strides);
    for (int64_t at = 0; at < count; at += LEAF) {
        b.m = kl_min64(LEAF, count - at);
        kl_offsets(j->s.n_gone, j->s.gone_dims, j->s.gone_strides, from + at, b.m, b.offsets);
        for (int64_t r = 0; r < b.m; r++) b.offsets[r] += first;
        if (j->keyed) { /* where the order does not matter: neighbours, which are closer together */
            join_some(&b, 0, 1, value);
            for (int64_t r = LEAF / LANES; r < b.m; r += LEAF / LANES) {
                join_some(&b, r, 1, b.room[0]);
                j->join.fold(value, b.room[0], n);
            }
        } else {
            join_lanes(&b, 0, 1, 0, value);
        }
        counter_push(j, &counter, value);
    }
    counter_finish(j, &counter, results);
}

/* The n < NARROW outputs of one run, whose rows are contiguous: LANES rows are one row of LANES * n
 * values. */
static void reduce_narrow(const struct job *j, int64_t begin, int64_t n, int64_t from,
                          int64_t count, char *results) {
    const struct kl_arg *in = j->l->in;
    int item = (int)kl_dtype_size(in->dtype);
    _Alignas(64) char levels[SEGMENT_LEVELS * NARROW * 8], lanes[LANES * NARROW * 8],
        typed[LANES * NARROW * 8];
    struct counter counter = {levels, n, 0};
    int64_t first;
    kl_offsets(j->s.n_kept, j->s.kept_dims, j->s.kept_strides, begin, 1, &first);
    const char *x = (const char *)in->data + (first + from * n) * item;
    for (int64_t at = 0; at < count; at += LEAF) {
        int64_t m = kl_min64(LEAF, count - at);
        for (int64_t r = 0; r < m; r += LANES) {
            int64_t wide = kl_min64(LANES, m - r) * n;
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
        for (int64_t step = LANES / 2, left = kl_min64(LANES, m); step; step /= 2)
            if (left > step) {
                j->join.fold(lanes, lanes + step * n * j->bytes, (left - step) * n);
                left = step;
            }
        counter_push(j, &counter, lanes);
    }
    counter_finish(j, &counter, results);
}

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

/* Finishes and stores results, which are overwritten. */
static void store(const struct job *j, int64_t begin, int64_t n, char *results) {
    const struct kl_arg *out = j->l->out;
    float widened[ROWS * 4];
    enum kl_dtype type = j->type;
    if (j->keyed && type == KL_I32) {
        int32_t *key = (int32_t *)(void *)results;
        KL_EACH(i, n) key[i] = (int32_t)kl_of_key32(j->order, key[i]);
        type = KL_F32;
    } else if (j->keyed) { /* by way of float32, which makes a NaN quiet */
        int16_t *key = (int16_t *)(void *)results;
        KL_EACH(i, n) key[i] = (int16_t)kl_of_key16(j->order, key[i]);
        type = KL_F32;
        kl_convert(type, widened, j->l->in->dtype, results, n);
        results = (char *)widened;
    }
    if (j->divides) divide(j->type, results, j->divisor, n);
    if (j->to)
        memcpy(j->to + begin * j->bytes, results, (size_t)(n * j->bytes));
    else
        kl_convert(out->dtype, (char *)out->data + begin * (int64_t)kl_dtype_size(out->dtype), type,
                   results, n);
}

static void segment_chunk(void *arg, int64_t i) {
    const struct job *j = arg;
    int64_t segment = i / j->n_groups, g = i % j->n_groups;
    int64_t all = j->run ? j->run : j->s.n_out, place = g % j->run_groups * j->group;
    int64_t begin = g / j->run_groups * all + place, n = kl_min64(j->group, all - place);
    int64_t from = segment * SEGMENT, count = kl_min64(SEGMENT, j->s.n_red - from);
    _Alignas(64) char results[ROWS * 8];
    if (j->way == BY_COLUMNS)
        reduce_columns(j, begin, n, from, count, results);
    else if (j->way == BY_NARROW)
        reduce_narrow(j, begin, n, from, count, results);
    else
        reduce_rows(j, begin, n, from, count, results);
    if (j->partial)
        memcpy(j->partial + (segment * j->s.n_out + begin) * j->bytes, results,
               (size_t)(n * j->bytes));
    else
        store(j, begin, n, results);
}

/* Joins the segments, which are subtrees of the same size, except the last. */
static void join_segments(const struct job *j) {
    enum { COLUMNS = 64 };
    _Alignas(8) char levels[LEVELS * COLUMNS * 8], results[COLUMNS * 8], value[COLUMNS * 8];
    for (int64_t begin = 0; begin < j->s.n_out; begin += COLUMNS) {
        int64_t n = kl_min64(COLUMNS, j->s.n_out - begin);
        struct counter counter = {levels, n, 0};
        for (int64_t s = 0; s < j->segments; s++) {
            memcpy(value, j->partial + (s * j->s.n_out + begin) * j->bytes, (size_t)(n * j->bytes));
            counter_push(j, &counter, value);
        }
        counter_finish(j, &counter, results);
        store(j, begin, n, results);
    }
}

/* Chooses the way through memory, and what one task is. */
static void choose_way(struct job *j) {
    enum { MIN_COLUMNS = 16 }; /* a shorter run is not worth a task: several are gathered */
    bool same = j->l->in->dtype == j->read && (!j->means || j->squares.run);
    j->segments = kl_ceil_div(j->s.n_red, SEGMENT);
    j->way = kl_split_columns(&j->s) ? BY_COLUMNS : BY_ROWS;
    j->run = 0;
    if (j->way == BY_ROWS) {
        int64_t fit = KL_CHUNK / kl_min64(j->s.n_red, SEGMENT);
        j->dense = same && (j->s.n_gone == 0 || (j->s.n_gone == 1 && j->s.gone_strides[0] == 1));
        j->group = fit > ROWS ? ROWS : fit < 1 ? 1 : fit;
    } else {
        int64_t side = kl_split_run(&j->s);
        bool follow = j->s.n_gone == 1 && j->s.gone_strides[0] == side;
        if (follow && side < NARROW && !j->means) j->way = BY_NARROW;
        if (j->way == BY_NARROW || side >= MIN_COLUMNS) j->run = side;
        j->dense = same && j->run;
        int wide = (int)kl_dtype_size(j->read) > j->bytes ? (int)kl_dtype_size(j->read) : j->bytes;
        j->group = j->dense || j->run ? WIDTH / wide : KL_TILE;
    }
    j->run_groups = kl_ceil_div(j->run ? j->run : j->s.n_out, j->group);
    j->n_groups = (j->run ? j->s.n_out / j->run : 1) * j->run_groups;
}

/* Elements are read without conversion where there are functions that take their dtype. */
static void read_as_they_are(struct job *j, const struct join *joins) {
    enum kl_dtype from = j->l->in->dtype;
    bool half = from == KL_F16 || from == KL_BF16;
    if (j->type != KL_F32 || (!half && from != KL_F32)) return;
    if (joins == maxima || joins == minima) {
        j->keyed = true;
        j->order = kl_order(from, joins == maxima);
        j->type = half ? KL_I16 : KL_I32;
        j->join = maxima[j->type];
        j->read = from;
    } else if (joins[from].run) {
        j->join = joins[from];
        j->read = from;
        j->sums = joins == sums;
    }
}

static int reduce(struct job *j) {
    j->bytes = (int)kl_dtype_size(j->type);
    choose_way(j);
    j->partial = NULL;
    if (j->segments > 1) {
        j->partial = kl_malloc((size_t)(j->segments * j->s.n_out * j->bytes));
        if (!j->partial) return kl_fail_nomem(j->l->err);
    }
    struct kl_launch alone = {.parallel =
                                  j->l->in->size >= KL_PARALLEL_FROM ? j->l->parallel : NULL};
    kl_run_tasks(&alone, j->segments * j->n_groups, segment_chunk, j);
    if (j->partial) join_segments(j);
    kl_free(j->partial);
    return KL_OK;
}

/* The result of a reduction of nothing; the builders reject maxima and minima of nothing. */
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
    struct job j = {.l = l};
    if (l->out->size == 0) return KL_OK;
    j.type = j.read = kl_compute_dtype(l->out->dtype);
    const struct join *joins = minima;
    switch (l->op) {
    case KL_OP_SUM: joins = sums; break;
    case KL_OP_PROD: joins = products; break;
    case KL_OP_MAX:
    case KL_OP_ANY: joins = maxima; break;
    default: break;
    }
    j.join = joins[j.type];
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
    struct job j = {.l = l};
    if (l->out->size == 0) return KL_OK;
    enum kl_dtype type = kl_compute_dtype(l->out->dtype);
    j.type = j.read = l->in->dtype == KL_C64 ? KL_C64 : type;
    j.join = sums[j.type];
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
    read_as_they_are(&j, sums);
    j.divides = true;
    j.divisor = (double)j.s.n_red;
    int rc = reduce(&j);
    if (rc == KL_OK) {
        j.means = means;
        j.read = l->in->dtype == KL_C64 ? KL_C64 : type;
        if (type == KL_F32 && all_squares[l->in->dtype].run) {
            j.squares = all_squares[l->in->dtype];
            j.read = l->in->dtype;
        }
        j.to = NULL;
        j.type = type;
        j.join = sums[type];
        /* Too few elements for ddof: x / 0, which is infinite, or NaN where all are equal. */
        j.divisor = j.s.n_red > p->ddof ? (double)j.s.n_red - p->ddof : 0;
        rc = reduce(&j);
    }
    kl_free(means);
    return rc;
}
