/* logsumexp.c - LOGSUMEXP over any set of axes: log(sum(exp(x))) in one pass, as the largest
 * element so far and the sum of exponentials of distances from it. NaN gives NaN; else +infinity
 * gives +infinity; nothing but -infinity gives -infinity. 16-bit floats become float32 in
 * registers. The reduction tree depends on the number of elements alone, so strides and threads
 * change no bit. docs/notes/cpu-kernels.md describes the tree and the ways through memory. */
#include <string.h>

#include "backend/cpu/math/extremes.h"
#include "backend/cpu/cpu_kernels.h"
#include "backend/cpu/softmax/logsumexp.h"
#include "backend/cpu/vector/lanes.h"
#include "backend/cpu/math/functions_f64.h"
#include "backend/cpu/vector/simd.h"
#include "backend/cpu/vector/wide.h"
#include "base/alloc.h"
#include "base/op/op_params.h"

enum {
    LANES = KL_PAIR_LANES,
    LEAF = 1024,
    SEGMENT = 1 << 16,
    WIDTH = KL_LOGSUMEXP_WIDTH,
    /* The distance between lanes, in floats. A power of two would map the lanes to a few sets of
     * the L1 cache. */
    PITCH = WIDTH + 16,
    ROWS = 8,             /* rows of a lane that are added in registers */
    GATHERED = 16,        /* columns that are gathered at a time */
    AHEAD = 2048,         /* bytes that are prefetched of a row */
    SIDE = KL_WIDE_LANES, /* rows that are computed side by side */
};

/* Columns of one leaf. */
struct leaf {
    const void *rows[LEAF];
    int64_t m, n; /* number of rows; number of columns */
    _Alignas(64) float sum[LANES][PITCH];
};

/* The number that is subtracted before exponentials are taken. */
static inline double shift_of(double top) {
    return top == -INFINITY ? 0 : top;
}

/* The functions that join the results of a leaf of columns, or of a segment, and those that finish
 * a result: the logarithm of a sum is added to its largest element, or, if there is a `rest`, is
 * stored there. */
static __attribute__((cold)) void join_double(void *tops, double *sum, const void *tops_2,
                                              const double *sum_2, int64_t n) {
    double *top = tops;
    for (int64_t c = 0; c < n; c++) {
        double other = ((const double *)tops_2)[c], high = kl_max_f64(top[c], other),
               shift = shift_of(high);
        sum[c] = sum[c] * kl_exp_negative_f64(top[c] - shift) +
                 sum_2[c] * kl_exp_negative_f64(other - shift);
        top[c] = high;
    }
}
static __attribute__((cold)) void finish_double(void *tops, const double *sum, int64_t n,
                                                void *rests) {
    double *top = tops, *rest = rests;
    for (int64_t c = 0; c < n; c++) {
        const double log_of = fabs(top[c]) < (double)INFINITY ? log(sum[c]) : 0;
        *(rest ? &rest[c] : &top[c]) = rest ? log_of : top[c] + log_of;
    }
}
static void join_float(void *tops, double *sum, const void *tops_2, const double *sum_2,
                       int64_t n) {
    for (int64_t at = 0; at < n; at += KL_WIDE_LANES) {
        const size_t some = (size_t)kl_min64(KL_WIDE_LANES, n - at);
        float top[KL_WIDE_LANES] = {0}, other[KL_WIDE_LANES] = {0};
        double s[KL_WIDE_LANES] = {0}, t[KL_WIDE_LANES] = {0};
        memcpy(top, (float *)tops + at, some * sizeof *top);
        memcpy(other, (const float *)tops_2 + at, some * sizeof *other);
        memcpy(s, sum + at, some * sizeof *s);
        memcpy(t, sum_2 + at, some * sizeof *t);
        KL_LANES(c, KL_WIDE_LANES) {
            float high = kl_max_f32(top[c], other[c]), shift = high == -INFINITY ? 0 : high;
            s[c] = s[c] * (double)kl_exp_negative_f32(top[c] - shift) +
                   t[c] * (double)kl_exp_negative_f32(other[c] - shift);
            top[c] = high;
        }
        memcpy((float *)tops + at, top, some * sizeof *top);
        memcpy(sum + at, s, some * sizeof *s);
    }
}
static void finish_float(void *tops, const double *sum, int64_t n, void *rests) {
    for (int64_t at = 0; at < n; at += KL_WIDE_LANES) {
        const size_t some = (size_t)kl_min64(KL_WIDE_LANES, n - at);
        float top[KL_WIDE_LANES] = {0}, rest[KL_WIDE_LANES];
        double s[KL_WIDE_LANES] = {0};
        memcpy(top, (float *)tops + at, some * sizeof *top);
        memcpy(s, sum + at, some * sizeof *s);
        KL_LANES(c, KL_WIDE_LANES) {
            const double log_of = kl_log_wide(s[c]);
            float y = (float)((double)top[c] + log_of);
            rest[c] = fabsf(top[c]) < INFINITY ? (float)log_of : 0;
            top[c] = fabsf(top[c]) < INFINITY ? y : top[c];
        }
        if (rests)
            memcpy((float *)rests + at, rest, some * sizeof *rest);
        else
            memcpy((float *)tops + at, top, some * sizeof *top);
    }
}

/* ---- float64 ---- */
static double joined_f64(double *lane) {
    for (int step = LANES / 2; step; step /= 2)
        for (int k = 0; k < step; k++) lane[k] += lane[k + step];
    return lane[0];
}
static double terms_f64(const double *x, int64_t n, double high) {
    double lane[LANES] = {0}, shift = shift_of(high);
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) KL_LANES(k, LANES) lane[k] += kl_exp_f64(x[i + k] - shift);
    for (int k = 0; i + k < n; k++) lane[k] += kl_exp_f64(x[i + k] - shift);
    return joined_f64(lane);
}
/* Some columns of a leaf side by side, SIDE at most. */
static void some_sums_f64(const struct leaf *b, int64_t from, int64_t n, const double *top,
                          double *sum) {
    double lane[LANES][SIDE] = {{0}}, shift[SIDE] = {0}, x[SIDE] = {0};
    for (int64_t c = 0; c < n; c++) shift[c] = shift_of(top[from + c]);
    for (int64_t r = 0; r < b->m; r++) {
        memcpy(x, (const double *)b->rows[r] + from, (size_t)n * sizeof *x);
        KL_LANES(c, SIDE) lane[r % LANES][c] += kl_exp_f64(x[c] - shift[c]);
    }
    for (int step = LANES / 2; step; step /= 2)
        for (int k = 0; k < step; k++) KL_LANES(c, SIDE) lane[k][c] += lane[k + step][c];
    memcpy(sum + from, lane[0], (size_t)n * sizeof *sum);
}
static void sums_f64(struct leaf *b, double *top, double *sum) {
    for (int64_t r = 0; r < b->m; r++) {
        const double *x = b->rows[r];
        KL_EACH(c, b->n) top[c] = KL_LARGER(top[c], x[c]);
    }
    for (int64_t c = 0; c < b->n; c += SIDE)
        some_sums_f64(b, c, kl_min64(SIDE, b->n - c), top, sum);
}
/* Adds the elements x[0 .. n-1] to the result so far, leaf by leaf. */
static void add_f64(void *tops, double *sum, const void *in, int64_t n) {
    const double *x = in;
    double *top = tops;
    for (int64_t at = 0; at < n; at += LEAF) {
        int64_t m = kl_min64(LEAF, n - at);
        double was = *top, high = was;
        if (was != was) return;
        for (int64_t i = at; i < at + m; i++) high = KL_LARGER(high, x[i]);
        double terms = terms_f64(x + at, m, high);
        if (terms != terms || high == INFINITY)
            for (int64_t i = at; i < at + m; i++) high = x[i] != x[i] ? (double)NAN : high;
        /* when the largest element did not change, the factor is 1 */
        if (high != was) *sum *= kl_exp_negative_f64(was - shift_of(high));
        *sum += terms;
        *top = high;
    }
}
/* Adds one leaf of columns. */
static void columns_f64(void *tops, double *sum, struct leaf *b) {
    double high[WIDTH], terms[WIDTH];
    int odd = 0;
    memcpy(high, tops, (size_t)b->n * sizeof *high);
    sums_f64(b, high, terms);
    for (int64_t c = 0; c < b->n; c++) odd |= terms[c] != terms[c] || high[c] == INFINITY;
    for (int64_t r = 0; odd && r < b->m; r++)
        for (int64_t c = 0; c < b->n; c++) {
            double x = ((const double *)b->rows[r])[c];
            high[c] = x != x ? (double)NAN : high[c];
        }
    join_double(tops, sum, high, terms, b->n);
}

/* ---- float32 and 16-bit floats ---- */
/* How loops compute a term: exp of x - shift, which is clamped to `least`. */
struct measure {
    float shift, base, least;
};
static inline struct measure measure_around(float centre) {
    return (struct measure){0, KL_EXP_BASE - centre, kl_logsumexp_least(centre)};
}
static struct measure measure_of(float top) {
    if (kl_is_far(top)) return (struct measure){top, KL_EXP_BASE, -KL_LOGSUMEXP_SPREAD};
    return measure_around(kl_centre_of(top));
}
static void join_lanes(struct leaf *b, int64_t n) {
    for (int step = LANES / 2; step; step /= 2)
        for (int k = 0; k < step; k++) KL_EACH(c, n) b->sum[k][c] += b->sum[k + step][c];
}
#if KL_HAS_SIMD
KL_INLINE kl_wide add_terms(bool down, kl_wide sum, kl_wide x, kl_wide least, kl_wide base) {
    kl_wide power;
#ifdef __AVX512F__
    /* scaling turns a term that is too small into 0 */
    if (down) return kl_wide_add_down(sum, x, base);
#endif
    x = kl_wide_max(least, x);
    if (down) return kl_wide_add_down(sum, x, base);
    kl_wide y = kl_wide_term(kl_term_f32, KL_TERMS_F32, x, base, &power);
    return kl_wide_fma(y, power, sum);
}
/* Reorders the values of n columns from the order of memory to that of loads (to), or back. */
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
#else
#define place_bf16 in_place
#endif
static void in_place(float *v, int64_t n, bool to) {
}
/* The leaf functions of one type. rows: the sums of terms around a centre, and the largest
 * elements, of m rows. loop: the sum of one row, with a measure. lanes and loops: the same for all
 * lanes of columns. */
struct kind {
    void (*rows)(const void *const *x, int m, int64_t n, float centre, float *top, float *sum);
    float (*loop)(const void *x, int64_t n, struct measure w);
    void (*lanes)(struct leaf *b, float *top, const float *centre);
    void (*loops)(struct leaf *b, const float *top);
    float (*value)(const void *x, int64_t i);
    bool down; /* uses the terms of kl_term_down */
    int item;
    void (*placed)(float *v, int64_t n, bool to);
};
/* The result where elements are special values: NaN where there is one, else `high`. */
static __attribute__((cold)) float special_of(const struct kind *k, const void *x, int64_t n,
                                              float high) {
    for (int64_t i = 0; i < n; i++) high = k->value(x, i) != k->value(x, i) ? NAN : high;
    return high;
}

/* Divides the terms of n leaves by the terms of their largest elements; there is room for whole
 * vectors. Returns whether a leaf has special values. */
static __attribute__((noinline)) bool per_top(const struct kind *k, const float *high,
                                              const float *sum, double *terms, int64_t n) {
    int odd = 0;
    if (k->down)
        KL_EACH_WIDE(c, n) terms[c] = (double)sum[c] / (double)kl_logsumexp_at_top(high[c], true);
    else
        KL_EACH_WIDE(c, n) terms[c] = (double)sum[c] / (double)kl_logsumexp_at_top(high[c], false);
    for (int64_t c = 0; c < n; c++) odd |= terms[c] != terms[c] || high[c] == INFINITY;
    return odd;
}

/* Adds the elements x[0 .. n-1] to the result so far, many leaves at a time. Their terms are taken
 * around the centre of the largest element so far. A leaf with another centre, which is rare, is
 * computed again. */
static void add_float(const struct kind *k, float *top, double *sum, const char *x, int64_t n) {
    float high[SIDE], sums[SIDE], centre = kl_centre_of(*top == -INFINITY ? k->value(x, 0) : *top);
    double terms[SIDE];
    for (int64_t at = 0; at < n;) {
        const int64_t m = kl_min64(LEAF, n - at), leaves = kl_min64(SIDE, (n - at) / m);
        const void *leaf[SIDE];
        for (int o = 0; o < leaves; o++) leaf[o] = x + (at + o * m) * k->item;
        k->rows(leaf, (int)leaves, m, centre, high, sums);
        for (int o = 0; o < SIDE; o++) high[o] = o < leaves ? high[o] : 0;
        for (int o = 0; o < leaves; o++) {
            const float so_far = o ? high[o - 1] : *top;
            float own = high[o];
            high[o] = KL_LARGER(so_far, own);
            if (kl_centre_of(high[o]) != centre) {
                const void *again[SIDE] = {leaf[o]};
                float tops[SIDE], some[SIDE];
                k->rows(again, 1, m, kl_centre_of(high[o]), tops, some);
                sums[o] = some[0];
            }
            if (kl_is_far(high[o])) sums[o] = k->loop(leaf[o], m, measure_of(high[o]));
        }
        per_top(k, high, sums, terms, SIDE);
        for (int o = 0; o < leaves; o++) {
            const float was = *top;
            float now = high[o];
            if (was != was) return;
            if (terms[o] != terms[o] || now == INFINITY) now = special_of(k, leaf[o], m, now);
            if (now != was) /* when the largest element did not change, the factor is 1 */
                *sum *= (double)kl_exp_negative_f32(was - (float)shift_of(now));
            *sum += terms[o];
            *top = now;
        }
        centre = kl_centre_of(*top);
        at += leaves * m;
    }
}

/* Adds a leaf of each of SIDE rows to the result so far, or begins the result with it (first).
 * *centre is the centre of the leaves before. */
static void rows_float(const struct kind *k, bool first, const void *const *x, int64_t n,
                       float *top, double *sum, float *centre) {
    float high[SIDE], sums[SIDE];
    double terms[SIDE];
    k->rows(x, SIDE, n, *centre, high, sums);
    int again = 0;
    for (int o = 0; o < SIDE; o++) {
        high[o] = KL_LARGER(top[o], high[o]);
        again |= kl_centre_of(high[o]) != *centre || kl_is_far(high[o]);
    }
    again |= per_top(k, high, sums, terms, SIDE);
    for (int o = 0; again && o < SIDE; o++) add_float(k, top + o, sum + o, x[o], n);
    if (!again && !first) join_float(top, sum, high, terms, SIDE);
    if (!again && first) {
        memcpy(top, high, sizeof high);
        memcpy(sum, terms, sizeof terms);
    }
    *centre = kl_centre_of(high[SIDE - 1]);
}

/* Adds one leaf of columns. */
static void columns_float(const struct kind *k, float *top, double *sum, struct leaf *b) {
    float high[WIDTH], guess[WIDTH], centre[WIDTH]; /* there is room for a whole last vector */
    double terms[WIDTH];
    const int64_t n = b->n, filled = kl_ceil_div(n, LANES) * LANES;
    int again = 0, far = 0;
    for (int64_t c = 0; c < filled; c++) {
        high[c] = c < n ? top[c] : 0;
        guess[c] = high[c] == -INFINITY ? k->value(b->rows[0], c) : high[c];
    }
    for (int pass = 0; pass == 0 || (again && pass == 1); pass++) {
        const float *from = pass == 0 ? guess : high;
        KL_EACH(c, filled) centre[c] = kl_centre_of(from[c]);
        k->placed(high, n, true);
        k->placed(centre, n, true);
        k->lanes(b, high, centre);
        k->placed(centre, n, false);
        k->placed(high, n, false);
        for (int64_t c = 0; c < n; c++) again |= kl_centre_of(high[c]) != centre[c];
    }
    join_lanes(b, filled);
    k->placed(b->sum[0], n, false);
    for (int64_t c = 0; c < n; c++) far |= kl_is_far(high[c]);
    if (far) {
        k->loops(b, high);
        join_lanes(b, n);
    }
    const bool odd = per_top(k, high, b->sum[0], terms, n);
    for (int64_t r = 0; odd && r < b->m; r++)
        for (int64_t c = 0; c < n; c++)
            high[c] = special_of(k, (const char *)b->rows[r] + c * k->item, 1, high[c]);
    join_float(top, sum, high, terms, n);
}
#define U float
#define NAME f32
#define VALUE(u) (u)
#define LOWEST (-INFINITY)
#define DOWN false
#define PLACED in_place
/* defines added_f32, loop_f32, loops_f32, rows_f32, lanes_f32, value_f32, add_f32, columns_f32,
 * fill_f32, take_f32, run_f32, stripe_f32 */
#include "backend/cpu/softmax/logsumexp_float.inc"
#define U uint16_t
#define NAME bf16
#define VALUE kl_bf16_load
#define LOWEST 0xff80
#define DOWN true
#define PLACED place_bf16
/* defines added_bf16, loop_bf16, loops_bf16, rows_bf16, lanes_bf16, value_bf16, add_bf16,
 * columns_bf16, fill_bf16, take_bf16, run_bf16, stripe_bf16 */
#include "backend/cpu/softmax/logsumexp_float.inc"
#define U uint16_t
#define NAME f16
#define VALUE kl_f16_load
#define LOWEST 0xfc00
#define DOWN true
#define PLACED in_place
/* defines added_f16, loop_f16, loops_f16, rows_f16, lanes_f16, value_f16, add_f16, columns_f16,
 * fill_f16, take_f16, run_f16, stripe_f16 */
#include "backend/cpu/softmax/logsumexp_float.inc"

struct family {
    const struct kind *kind;
    void (*add)(void *top, double *sum, const void *x, int64_t n);
    void (*columns)(void *top, double *sum, struct leaf *b);
    void (*join)(void *top, double *sum, const void *top_2, const double *sum_2, int64_t n);
    void (*finish)(void *top, const double *sum, int64_t n, void *rest);
};
static const struct family f32 = {&kind_f32, add_f32, columns_f32, join_float, finish_float};
static const struct family bf16 = {&kind_bf16, add_bf16, columns_bf16, join_float, finish_float};
static const struct family f16 = {&kind_f16, add_f16, columns_f16, join_float, finish_float};
static const struct family f64 = {NULL, add_f64, columns_f64, join_double, finish_double};

struct job {
    const struct kl_launch *l;
    const struct family *f;
    struct kl_split s;
    enum kl_dtype type;
    int bytes; /* the size of a value of `type` */
    bool columns, rows;
    int64_t run, group, run_groups, n_groups, segments; /* as in reduce.h */
    char *tops;                                         /* [segments][n_out], where segments > 1 */
    double *sums;                                       /* [segments][n_out] too */
    const struct kl_logsumexp_taker *taker;             /* NULL, or takes the results */
    bool whole; /* a task computes all segments of its outputs */
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
    _Alignas(64) char copy[LEAF * sizeof(double)];
    struct kl_cursor c;
    kl_offsets(j->s.n_kept, j->s.kept_dims, j->s.kept_strides, begin, n, offsets);
    kl_cursor_init(&c, in->data, item, j->s.n_gone, j->s.gone_dims, j->s.gone_strides);
    float centre = 0;
    for (int64_t o = 0; o < n; o++) {
        if (j->rows && n - o >= SIDE) {
            for (int64_t at = 0; at < count; at += LEAF) {
                const void *x[SIDE];
                for (int k = 0; k < SIDE; k++)
                    x[k] = (char *)in->data + (offsets[o + k] + from + at) * item;
                rows_float(j->f->kind, at == 0, x, kl_min64(LEAF, count - at), (float *)top + o,
                           sum + o, &centre);
            }
            o += SIDE - 1;
            continue;
        }
        c.data = (char *)in->data + offsets[o] * item;
        kl_cursor_seek(&c, from);
        const void *all = kl_cursor_claim(&c, count);
        if (all) {
            j->f->add(top + o * j->bytes, sum + o, all, count);
            continue;
        }
        for (int64_t at = 0; at < count; at += LEAF) {
            int64_t m = kl_min64(LEAF, count - at);
            kl_cursor_read(&c, m, copy);
            j->f->add(top + o * j->bytes, sum + o, copy, m);
        }
    }
}

static void by_columns(const struct job *j, int64_t begin, int64_t n, int64_t from, int64_t count,
                       char *top, double *sum) {
    const struct kl_arg *in = j->l->in;
    int item = (int)kl_dtype_size(in->dtype);
    double copies[LEAF][GATHERED];
    int64_t offsets[LEAF], first = 0;
    struct leaf b;
    struct kl_cursor c;
    if (j->run) kl_offsets(j->s.n_kept, j->s.kept_dims, j->s.kept_strides, begin, 1, &first);
    kl_cursor_init(&c, in->data, item, j->s.n_kept, j->s.kept_dims, j->s.kept_strides);
    b.n = n;
    for (int64_t at = 0; at < count; at += LEAF) {
        b.m = kl_min64(LEAF, count - at);
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

/* Hands over results, WIDTH at a time; those of a taker are its own as long as it runs. */
static void store(const struct job *j, int64_t begin, int64_t n, char *top, const double *sum,
                  kl_parallel_for *parallel) {
    const struct kl_arg *out = j->l->out;
    _Alignas(64) char rest[WIDTH * sizeof(double)];
    if (!j->taker) {
        j->f->finish(top, sum, n, NULL);
        kl_convert(out->dtype, (char *)out->data + begin * (int64_t)kl_dtype_size(out->dtype),
                   j->type, top, n);
        return;
    }
    for (int64_t at = 0; at < n; at += WIDTH) {
        const int64_t m = kl_min64(WIDTH, n - at);
        j->f->finish(top + at * j->bytes, sum + at, m, rest);
        j->taker->take(j->taker, begin + at, m, top + at * j->bytes, rest, parallel);
    }
}

static void segment_chunk(void *arg, int64_t i) {
    const struct job *j = arg;
    int64_t segment = i / j->n_groups, g = i % j->n_groups;
    int64_t all = j->run ? j->run : j->s.n_out, place = g % j->run_groups * j->group;
    int64_t begin = g / j->run_groups * all + place, n = kl_min64(j->group, all - place);
    int64_t from = segment * SEGMENT, count = kl_min64(SEGMENT, j->s.n_red - from);
    _Alignas(64) char room[WIDTH * sizeof(double)], other[WIDTH * sizeof(double)];
    double sums[WIDTH], others[WIDTH];
    int64_t at = segment * j->s.n_out + begin;
    char *top = j->tops ? j->tops + at * j->bytes : room;
    double *sum = j->tops ? j->sums + at : sums;
    empty(j, top, sum, n);
    (j->columns ? by_columns : by_rows)(j, begin, n, from, count, top, sum);
    for (from += count; j->whole && from < j->s.n_red; from += count) {
        count = kl_min64(SEGMENT, j->s.n_red - from);
        empty(j, other, others, n);
        (j->columns ? by_columns : by_rows)(j, begin, n, from, count, other, others);
        j->f->join(top, sum, other, others, n);
    }
    if (!j->tops) store(j, begin, n, top, sum, NULL);
}

/* For a taker, no more rows than stay in the L2 cache, and no segments where there are outputs
 * enough for all threads. Narrower strips of columns cost more than they save. */
static void fit_taker(struct job *j) {
    enum { ELEMENTS = 1 << 18, FEWEST = 16 };
    if (!j->taker) return;
    if (!j->columns && j->group * j->s.n_red > ELEMENTS) j->group = 1;
    j->whole = j->segments > 1 && j->s.n_out >= FEWEST * j->group;
}

static int logsumexp(struct job *j) {
    enum { MIN_COLUMNS = 16 };
    char *memory = NULL;
    struct kl_launch alone = {.parallel = j->l->in->size >= KL_CHUNK ? j->l->parallel : NULL};
    j->rows = j->f->kind && (!j->s.n_gone || (j->s.n_gone == 1 && j->s.gone_strides[0] == 1));
    if (j->s.n_red <= KL_LOGSUMEXP_FEW && j->f->kind) {
        kl_logsumexp_few(j->l, &j->s, j->rows, j->taker);
        return KL_OK;
    }
    j->segments = kl_ceil_div(j->s.n_red, SEGMENT);
    j->columns = kl_split_columns(&j->s);
    if (j->columns) {
        int64_t side = kl_split_run(&j->s);
        j->run = side >= MIN_COLUMNS ? side : 0;
        j->group = j->run ? WIDTH : GATHERED;
        while (j->run && j->group > 4 * LANES && j->run < 4 * j->group) j->group /= 2;
    } else {
        int64_t fit = KL_CHUNK / 2 / kl_min64(j->s.n_red, SEGMENT);
        /* Rows are computed side by side where there are enough of them for all threads. */
        int64_t least = j->rows && j->s.n_out >= SIDE * SIDE ? SIDE : 1;
        j->group = fit > KL_TILE ? KL_TILE : fit < least ? least : fit;
    }
    fit_taker(j);
    const int64_t segments = j->whole ? 1 : j->segments;
    j->run_groups = kl_ceil_div(j->run ? j->run : j->s.n_out, j->group);
    j->n_groups = (j->run ? j->s.n_out / j->run : 1) * j->run_groups;
    if (segments > 1) {
        int64_t n = j->segments * j->s.n_out;
        memory = kl_malloc((size_t)n * (sizeof *j->sums + (size_t)j->bytes));
        if (!memory) return kl_fail_nomem(j->l->err);
        j->sums = (double *)memory;
        j->tops = memory + n * (int64_t)sizeof *j->sums;
    }
    kl_run_tasks(&alone, segments * j->n_groups, segment_chunk, j);
    if (memory) {
        for (int64_t s = 1; s < j->segments; s++)
            j->f->join(j->tops, j->sums, j->tops + s * j->s.n_out * j->bytes,
                       j->sums + s * j->s.n_out, j->s.n_out);
        store(j, 0, j->s.n_out, j->tops, j->sums, alone.parallel);
    }
    kl_free(memory);
    return KL_OK;
}

static void choose(struct job *j) {
    const enum kl_dtype dtype = j->l->in->dtype;
    j->type = kl_compute_dtype(dtype);
    j->bytes = (int)kl_dtype_size(j->type);
    j->f = dtype == KL_F64 ? &f64 : dtype == KL_BF16 ? &bf16 : dtype == KL_F16 ? &f16 : &f32;
}

int kl_logsumexp_for(struct kl_launch *l, int axis, const struct kl_logsumexp_taker *taker) {
    struct job j = {.l = l, .taker = taker};
    kl_split_axes(&j.s, l->in, 1, &axis);
    choose(&j);
    return logsumexp(&j);
}

int kl_cpu_logsumexp(struct kl_launch *l) {
    const struct kl_reduce_params *p = l->params;
    struct job j = {.l = l};
    if (l->out->size == 0) return KL_OK;
    kl_split_axes(&j.s, l->in, p->n_axes, p->axes);
    if (l->out->dtype == KL_C64) {
        kl_logsumexp_complex(l, &j.s);
        return KL_OK;
    }
    choose(&j);
    if (j.s.n_red == 0) { /* the logarithm of a sum without terms */
        for (int64_t i = 0; i < l->out->size; i++) {
            double top, sum;
            empty(&j, (char *)&top, &sum, 1);
            store(&j, i, 1, (char *)&top, &sum, NULL);
        }
        return KL_OK;
    }
    return logsumexp(&j);
}
