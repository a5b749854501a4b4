/* cpu_logsumexp.c - LOGSUMEXP over any set of axes: log(sum(exp(x))) in one pass, as the largest element so far and the sum of exponentials of distances from it.
 *
 * Elements are taken in blocks of BLOCK, in row-major order; within a block LANES partial sums (element i goes to lane i % LANES) are joined by halving. A block's sum is added to what
 * is so far, which is brought to the new largest element first and kept in double; segments are joined in order. So strides, threads and the way through memory change no bit.
 * NaN gives NaN; else +infinity gives that; nothing but -infinity gives that. 16-bit floats become float32 in registers. Complex numbers: the largest real part is subtracted.
 *
 * Outputs of few elements, of which blocks and lanes would be most of the work, are computed side by side: the exponentials of a column are added up one after another, in double. What is few depends on the shape alone.
 *
 * Of columns a block is copied to a panel that stays in the L2 cache while its rows are looked for the largest, and added up from there. */
#include <string.h>

#include "backend/cpu/cpu_axes.h"
#include "backend/cpu/cpu_exp.h"
#include "backend/cpu/cpu_extremes.h"
#include "backend/cpu/cpu_kernels.h"
#include "backend/cpu/cpu_lanes.h"
#include "backend/cpu/cpu_math.h"
#include "backend/cpu/cpu_wide.h"
#include "base/alloc.h"
#include "base/op_params.h"

enum {
    LANES = KL_PAIR_LANES,
    BLOCK = 1024,
    SEGMENT = 1 << 16,
    WIDTH = 1024, /* columns side by side, at most */
    PITCH =
        WIDTH +
        16, /* floats from lane to lane: not a power of two, of which few would find room in the L1 cache */
    GATHERED = 16, /* columns that are gathered at a time */
    AHEAD = 512,   /* bytes of a row of columns */
    FAR = 1 << 20, /* elements whose powers of two a float has no room for beside the digits */
    SPREAD = 86,   /* below the largest by which what is smaller does not count */
    FEW = 128,     /* elements of an output */
};

/* Columns of one block. */
struct block {
    const void *rows[BLOCK];
    int64_t m, n; /* rows; columns */
    _Alignas(64) float sum[LANES][PITCH],
        centre[LANES / 8][WIDTH]; /* in powers of two that 8 lanes share */
};

/* What is subtracted before exponentials are taken. */
static inline double shift_of(double top) {
    return top == -INFINITY ? 0 : top;
}

/* Adds what a block of columns or a segment has, and makes the results in place of the tops. */
#define ENDS(T, MAX, EXP)                                                                        \
    static __attribute__((cold)) void KL_PASTE(join, T)(                                         \
        void *tops, double *sum, const void *tops_2, const double *sum_2, int64_t n) {           \
        T *top = tops;                                                                           \
        const T *top_2 = tops_2;                                                                 \
        for (int64_t c = 0; c < n; c++) {                                                        \
            T high = MAX(top[c], top_2[c]), shift = (T)shift_of(high);                           \
            sum[c] =                                                                             \
                sum[c] * (double)EXP(top[c] - shift) + sum_2[c] * (double)EXP(top_2[c] - shift); \
            top[c] = high;                                                                       \
        }                                                                                        \
    }                                                                                            \
    static __attribute__((cold)) void KL_PASTE(finish, T)(void *tops, const double *sum,         \
                                                          int64_t n) {                           \
        T *top = tops;                                                                           \
        for (int64_t c = 0; c < n; c++)                                                          \
            if (fabs((double)top[c]) < INFINITY) top[c] = (T)((double)top[c] + log(sum[c]));     \
    }
ENDS(float, kl_max_f32, kl_exp_negative_f32)
ENDS(double, kl_max_f64, kl_exp_negative_f64)

/* ---- float64: in loops ---- */
static __attribute__((cold)) double largest_f64(const double *x, int64_t n) {
    return kl_largest_f64(x, n, -INFINITY);
}
static __attribute__((cold)) double joined_f64(double *lane) {
    for (int step = LANES / 2; step; step /= 2)
        for (int k = 0; k < step; k++) lane[k] += lane[k + step];
    return lane[0];
}
static __attribute__((cold)) double terms_f64(const double *x, int64_t n, double high) {
    double lane[LANES] = {0}, shift = shift_of(high);
    for (int64_t i = 0; i < n; i++) lane[i % LANES] += kl_exp_negative_f64(x[i] - shift);
    return joined_f64(lane);
}
static __attribute__((cold)) void sums_f64(struct block *b, double *top, double *sum) {
    for (int64_t r = 0; r < b->m; r++) {
        const double *x = b->rows[r];
        KL_EACH(c, b->n) top[c] = KL_LARGER(top[c], x[c]);
    }
    for (int64_t c = 0; c < b->n; c++) {
        double lane[LANES] = {0}, shift = shift_of(top[c]);
        for (int64_t r = 0; r < b->m; r++)
            lane[r % LANES] += kl_exp_negative_f64(((const double *)b->rows[r])[c] - shift);
        sum[c] = joined_f64(lane);
    }
}
#define T double
#define U double
#define NAME f64
#define EXP kl_exp_negative_f64
#define VALUE(u) (u)
#include "backend/cpu/cpu_logsumexp.inc"

/* ---- shorter ones: by cpu_wide.h ---- */
/* How terms of a sum are computed whose largest element is `top`: of x - shift, clamped to `least`. The sum is then to be divided by the term of the largest, so that one element alone gives itself. */
struct measure {
    float shift, base, least, at_top;
};
static inline struct measure measure_of(float top, const float *coefficients, int count) {
    struct measure w = {0, KL_TERM_BASE, -SPREAD, 1};
    if (top == -INFINITY || top != top) return w;
    if (fabsf(top) >= FAR) {
        w.shift = top;
        return w;
    }
    float power, c = __builtin_fmaf(top, KL_TERM_LOG2_E, 0x1.8p23f) - 0x1.8p23f;
    w.base = KL_TERM_BASE - c;
    w.least = top - SPREAD;
    w.at_top = kl_term(coefficients, count, top, w.base, &power) * power;
    return w;
}
/* Of n columns. Whether one is far away. */
static __attribute__((cold)) bool measure_all(struct measure *w, const float *top, int64_t n,
                                              const float *coefficients, int count) {
    bool far = false;
    for (int64_t c = 0; c < n; c++) {
        w[c] = measure_of(top[c], coefficients, count);
        far = far || w[c].shift != 0;
    }
    return far;
}
static __attribute__((cold)) void per_top(const struct block *b, const struct measure *w,
                                          double *sum) {
    for (int64_t c = 0; c < b->n; c++) sum[c] = (double)b->sum[0][c] / (double)w[c].at_top;
}
static void join_lanes(struct block *b) {
    const int64_t filled = kl_ceil_div(b->n, LANES) * LANES;
    for (int step = LANES / 2; step; step /= 2)
        for (int k = 0; k < step; k++) KL_EACH(c, filled) b->sum[k][c] += b->sum[k + step][c];
}
#if KL_HAS_WIDE
KL_WIDE kl_wide add_terms(kl_wide sum, kl_wide x, kl_wide least, kl_wide base,
                          const float *coefficients, int count) {
    kl_wide power, y = kl_wide_term(coefficients, count, kl_wide_max(least, x), base, &power);
    return kl_wide_fma(y, power, sum);
}
/* Brings all lanes to the power of two of the largest. */
static void level(struct block *b, const float *top, int64_t n) {
    for (int g = 0; g < LANES / 8; g++) {
        float factor[WIDTH];
        KL_EACH(c, n) {
            float high = top[c] < -FAR ? -FAR : top[c];
            float middle = __builtin_fmaf(high, KL_TERM_LOG2_E, 0x1.8p23f) - 0x1.8p23f;
            float t = KL_TERM_BASE + (b->centre[g][c] - middle);
            t = t < KL_TERM_BASE - 126 ? KL_TERM_BASE - 126 : t;
            factor[c] = kl_bits_f32(kl_f32_bits(t) << 23);
        }
        for (int k = 0; k < 8; k++) KL_EACH(c, n) b->sum[8 * g + k][c] *= factor[c];
    }
}
/* The values of n columns, from the elements' order to that of loads, or back. */
static void place_bf16(float *v, int64_t n, bool to) {
    for (int64_t at = 0; at < n; at += LANES) {
        float was[LANES];
        memcpy(was, v + at, sizeof was);
        for (int k = 0; k < LANES; k++)
            if (to)
                v[at + kl_place_bf16(k)] = was[k];
            else
                v[at + k] = was[kl_place_bf16(k)];
    }
}
#endif
#define U float
#define NAME f32
#define VALUE(u) (u)
#define LOWEST (-INFINITY)
#define COEFFICIENTS kl_term_f32
#define WIDE_LARGEST
#define PLACED(v, n, to) ((void)0)
#include "backend/cpu/cpu_logsumexp_short.inc"
#define T float
#define EXP kl_exp_negative_f32
#include "backend/cpu/cpu_logsumexp.inc"
#define U uint16_t
#define NAME bf16
#define VALUE kl_bf16_load
#define LOWEST 0xff80
#define COEFFICIENTS kl_term_half
#define PLACED place_bf16
#include "backend/cpu/cpu_logsumexp_short.inc"
#define T float
#define EXP kl_exp_negative_f32
#include "backend/cpu/cpu_logsumexp.inc"
#define U uint16_t
#define NAME f16
#define VALUE kl_f16_load
#define LOWEST 0xfc00
#define COEFFICIENTS kl_term_half
#define PLACED(v, n, to) ((void)0)
#include "backend/cpu/cpu_logsumexp_short.inc"
#define T float
#define EXP kl_exp_negative_f32
#include "backend/cpu/cpu_logsumexp.inc"

struct family {
    void (*add)(void *top, double *sum, const void *x, int64_t n);
    void (*columns)(void *top, double *sum, struct block *b);
    void (*join)(void *top, double *sum, const void *top_2, const double *sum_2, int64_t n);
    void (*finish)(void *top, const double *sum, int64_t n);
};
static const struct family f32 = {add_f32, columns_f32, join_float, finish_float};
static const struct family bf16 = {add_bf16, columns_bf16, join_float, finish_float};
static const struct family f16 = {add_f16, columns_f16, join_float, finish_float};
static const struct family f64 = {add_f64, columns_f64, join_double, finish_double};

struct job {
    const struct kl_launch *l;
    const struct family *f;
    struct kl_split s;
    enum kl_dtype type;
    int bytes; /* of an element of type */
    bool columns;
    int64_t run, group, run_groups, n_groups, segments; /* as in cpu_reduce.c */
    char *tops;                                         /* [segments][n_out], when segments > 1 */
    double *sums;                                       /* beside it */
};

static void empty(const struct job *j, char *top, double *sum, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        sum[i] = 0;
        if (j->type == KL_F64)
            ((double *)top)[i] = -INFINITY;
        else
            ((float *)top)[i] = -INFINITY;
    }
}

static void by_rows(const struct job *j, int64_t begin, int64_t n, int64_t from, int64_t count,
                    char *top, double *sum) {
    const struct kl_arg *in = j->l->in;
    int item = (int)kl_dtype_size(in->dtype);
    int64_t offsets[KL_TILE];
    _Alignas(64) char copy[BLOCK * sizeof(double)];
    struct kl_cursor c;
    kl_offsets(j->s.n_kept, j->s.kept_dims, j->s.kept_strides, begin, n, offsets);
    kl_cursor_init(&c, in->data, item, j->s.n_gone, j->s.gone_dims, j->s.gone_strides);
    for (int64_t o = 0; o < n; o++) {
        c.data = (char *)in->data + offsets[o] * item;
        kl_cursor_seek(&c, from);
        const void *all = kl_cursor_claim(&c, count);
        if (all) {
            j->f->add(top + o * j->bytes, sum + o, all, count);
            continue;
        }
        for (int64_t at = 0; at < count; at += BLOCK) {
            int64_t m = kl_min64(BLOCK, count - at);
            kl_cursor_read(&c, m, copy);
            j->f->add(top + o * j->bytes, sum + o, copy, m);
        }
    }
}

static void by_columns(const struct job *j, int64_t begin, int64_t n, int64_t from, int64_t count,
                       char *top, double *sum) {
    const struct kl_arg *in = j->l->in;
    int item = (int)kl_dtype_size(in->dtype);
    double copies[BLOCK][GATHERED];
    int64_t offsets[BLOCK], first = 0;
    struct block b;
    struct kl_cursor c;
    if (j->run) kl_offsets(j->s.n_kept, j->s.kept_dims, j->s.kept_strides, begin, 1, &first);
    kl_cursor_init(&c, in->data, item, j->s.n_kept, j->s.kept_dims, j->s.kept_strides);
    b.n = n;
    for (int64_t at = 0; at < count; at += BLOCK) {
        b.m = kl_min64(BLOCK, count - at);
        kl_offsets(j->s.n_gone, j->s.gone_dims, j->s.gone_strides, from + at, b.m, offsets);
        for (int64_t r = 0; r < b.m; r++) {
            b.rows[r] = (char *)in->data + (offsets[r] + first) * item;
            if (j->run) continue;
            c.data = (char *)in->data + offsets[r] * item;
            kl_cursor_seek(&c, begin);
            kl_cursor_read(&c, n, copies[r]);
            b.rows[r] = copies[r];
        }
        j->f->columns(top, sum, &b);
    }
}

static void store(const struct job *j, int64_t begin, int64_t n, char *top, const double *sum) {
    const struct kl_arg *out = j->l->out;
    j->f->finish(top, sum, n);
    kl_convert(out->dtype, (char *)out->data + begin * (int64_t)kl_dtype_size(out->dtype), j->type,
               top, n);
}

static void segment_chunk(void *arg, int64_t i) {
    const struct job *j = arg;
    int64_t segment = i / j->n_groups, g = i % j->n_groups;
    int64_t all = j->run ? j->run : j->s.n_out, place = g % j->run_groups * j->group;
    int64_t begin = g / j->run_groups * all + place, n = kl_min64(j->group, all - place);
    int64_t from = segment * SEGMENT, count = kl_min64(SEGMENT, j->s.n_red - from);
    _Alignas(64) char room[WIDTH * sizeof(double)];
    double sums[WIDTH];
    int64_t at = segment * j->s.n_out + begin;
    char *top = j->tops ? j->tops + at * j->bytes : room;
    double *sum = j->tops ? j->sums + at : sums;
    empty(j, top, sum, n);
    (j->columns ? by_columns : by_rows)(j, begin, n, from, count, top, sum);
    if (!j->tops) store(j, begin, n, top, sum);
}

/* ---- few elements for each output ---- */
/* Element number i of outputs [begin, begin + n). */
static const void *few_of(const struct job *j, struct kl_cursor *c, int64_t offset, int64_t begin,
                          int64_t n, union kl_tile *raw, union kl_tile *tile) {
    const struct kl_arg *in = j->l->in;
    c->data = (char *)in->data + offset * (int64_t)kl_dtype_size(in->dtype);
    c->filled = false;
    kl_cursor_seek(c, begin);
    return kl_cursor_next_as(c, n, in->dtype, j->type, raw, tile);
}

/* LOG(s): the logarithm of a sum of at least 1. Infinite results are put right: the largest element then is the result, unless one is NaN. */
#define FEW_OF(T, EXP, LOG)                                                                      \
    static void KL_PASTE(few, T)(const struct job *j, int64_t begin, int64_t n) {                \
        const struct kl_arg *in = j->l->in, *out = j->l->out;                                    \
        int64_t offsets[FEW];                                                                    \
        struct kl_cursor c;                                                                      \
        union kl_tile raw, tile;                                                                 \
        T top[KL_TILE];                                                                          \
        double sum[KL_TILE];                                                                     \
        bool nan[KL_TILE] = {false}, endless = false;                                            \
        kl_offsets(j->s.n_gone, j->s.gone_dims, j->s.gone_strides, 0, j->s.n_red, offsets);      \
        kl_cursor_init(&c, in->data, (int)kl_dtype_size(in->dtype), j->s.n_kept, j->s.kept_dims, \
                       j->s.kept_strides);                                                       \
        KL_EACH(k, n) top[k] = -INFINITY;                                                        \
        KL_EACH(k, n) sum[k] = 0;                                                                \
        for (int64_t i = 0; i < j->s.n_red; i++) {                                               \
            const T *x = few_of(j, &c, offsets[i], begin, n, &raw, &tile);                       \
            KL_EACH(k, n) top[k] = KL_LARGER(top[k], x[k]);                                      \
        }                                                                                        \
        for (int64_t k = 0; k < n; k++) endless |= top[k] == INFINITY || top[k] == -INFINITY;    \
        for (int64_t i = 0; i < j->s.n_red; i++) {                                               \
            const T *x = few_of(j, &c, offsets[i], begin, n, &raw, &tile);                       \
            KL_EACH(k, n) sum[k] += (double)EXP(x[k] - top[k]);                                  \
            for (int64_t k = 0; endless && k < n; k++) nan[k] |= x[k] != x[k];                   \
        }                                                                                        \
        T y[KL_TILE];                                                                            \
        KL_EACH(k, n) y[k] = (T)((double)top[k] + (sum[k] == sum[k] ? LOG(sum[k]) : sum[k]));    \
        for (int64_t k = 0; endless && k < n; k++)                                               \
            if (top[k] == INFINITY || top[k] == -INFINITY) y[k] = nan[k] ? (T)NAN : top[k];      \
        kl_convert(out->dtype, (char *)out->data + begin * (int64_t)kl_dtype_size(out->dtype),   \
                   j->type, y, n);                                                               \
    }
#define LOG_OF_SUM(s) kl_log1p_wide((s)-1)
FEW_OF(float, kl_exp_negative_f32, LOG_OF_SUM)
FEW_OF(double, kl_exp_negative_f64, log)

static void few_chunk(void *arg, int64_t i) {
    const struct job *j = arg;
    int64_t begin = i * KL_TILE, n = kl_min64(KL_TILE, j->s.n_out - begin);
    (j->type == KL_F64 ? few_double : few_float)(j, begin, n);
}

static int logsumexp(struct job *j) {
    enum { SHORT = 16 };
    char *memory = NULL;
    struct kl_launch alone = {.parallel = j->l->in->size >= KL_CHUNK ? j->l->parallel : NULL};
    if (j->s.n_red <= FEW) {
        kl_share(&alone, kl_ceil_div(j->s.n_out, KL_TILE), few_chunk, j);
        return KL_OK;
    }
    j->segments = kl_ceil_div(j->s.n_red, SEGMENT);
    j->columns = kl_split_columns(&j->s);
    if (j->columns) {
        int64_t side = kl_split_run(&j->s);
        j->run = side >= SHORT ? side : 0;
        j->group = j->run ? WIDTH : GATHERED;
        while (j->run && j->group > 4 * LANES && j->run < 4 * j->group) j->group /= 2;
    } else {
        int64_t fit = KL_CHUNK / 2 / kl_min64(j->s.n_red, SEGMENT);
        j->group = fit > KL_TILE ? KL_TILE : fit < 1 ? 1 : fit;
    }
    j->run_groups = kl_ceil_div(j->run ? j->run : j->s.n_out, j->group);
    j->n_groups = (j->run ? j->s.n_out / j->run : 1) * j->run_groups;
    if (j->segments > 1) {
        int64_t n = j->segments * j->s.n_out;
        memory = kl_malloc((size_t)n * (sizeof *j->sums + (size_t)j->bytes));
        if (!memory) return kl_fail_nomem(j->l->err);
        j->sums = (double *)memory;
        j->tops = memory + n * (int64_t)sizeof *j->sums;
    }
    kl_share(&alone, j->segments * j->n_groups, segment_chunk, j);
    if (memory) {
        for (int64_t s = 1; s < j->segments; s++)
            j->f->join(j->tops, j->sums, j->tops + s * j->s.n_out * j->bytes,
                       j->sums + s * j->s.n_out, j->s.n_out);
        store(j, 0, j->s.n_out, j->tops, j->sums);
    }
    kl_free(memory);
    return KL_OK;
}

/* ---- complex64: one output after another ---- */
static void logsumexp_c64(void *arg, int64_t o) {
    const struct job *j = arg;
    const struct kl_arg *in = j->l->in;
    struct kl_c64 *out = (struct kl_c64 *)j->l->out->data + o, total;
    int64_t offset;
    float top = -INFINITY;
    double re = 0, im = 0;
    struct kl_cursor c;
    union kl_tile tile;
    kl_offsets(j->s.n_kept, j->s.kept_dims, j->s.kept_strides, o, 1, &offset);
    kl_cursor_init(&c, (struct kl_c64 *)in->data + offset, (int)sizeof total, j->s.n_gone,
                   j->s.gone_dims, j->s.gone_strides);
    for (int pass = 0; pass < 2; pass++) {
        c.filled = false;
        kl_cursor_seek(&c, 0);
        for (int64_t at = 0; at < j->s.n_red; at += KL_TILE) {
            int64_t n = kl_min64(KL_TILE, j->s.n_red - at);
            const struct kl_c64 *x = kl_cursor_next(&c, n, &tile);
            for (int64_t i = 0; i < n; i++) {
                if (pass == 0) {
                    top = kl_max_f32(top, x[i].re);
                    continue;
                }
                struct kl_c64 e = kl_c64_exp((struct kl_c64){x[i].re - top, x[i].im});
                re += (double)e.re;
                im += (double)e.im;
            }
        }
        if (fabsf(top) == INFINITY) {
            *out = (struct kl_c64){top, 0};
            return;
        }
    }
    total = kl_c64_log((struct kl_c64){(float)re, (float)im});
    *out = (struct kl_c64){total.re + top, total.im};
}

int kl_cpu_logsumexp(struct kl_launch *l) {
    const struct kl_reduce_params *p = l->params;
    struct job j = {.l = l};
    const struct kl_arg *in = l->in;
    if (l->out->size == 0) return KL_OK;
    kl_split_axes(&j.s, l->in, p->n_axes, p->axes);
    if (l->out->dtype == KL_C64) {
        struct kl_launch alone = {.parallel = l->in->size >= KL_CHUNK ? l->parallel : NULL};
        kl_share(&alone, j.s.n_out, logsumexp_c64, &j);
        return KL_OK;
    }
    j.type = kl_compute_dtype(l->out->dtype);
    j.bytes = (int)kl_dtype_size(j.type);
    j.f = in->dtype == KL_F64    ? &f64
          : in->dtype == KL_BF16 ? &bf16
          : in->dtype == KL_F16  ? &f16
                                 : &f32;
    if (j.s.n_red == 0) { /* the logarithm of 0 */
        for (int64_t i = 0; i < l->out->size; i++) {
            double top, sum;
            empty(&j, (char *)&top, &sum, 1);
            store(&j, i, 1, (char *)&top, &sum);
        }
        return KL_OK;
    }
    return logsumexp(&j);
}
