/* softmax.c - SOFTMAX over consecutive axes, taken as one: exp(x - max) / sum; row by row where
 * they are the last axes, else in strips of columns side by side. 16-bit floats are computed in
 * float32. Exponentials are taken around a power of two that most rows have in common (math/exp.h),
 * so that the largest element need not be known first; they stay in a cache until their sum is
 * known. A row with NaN, with +infinity, or with nothing but -infinity, is NaN throughout, as the
 * formula says. */
#include <stdatomic.h>
#include <string.h>

#include "backend/cpu/math/extremes.h"
#include "backend/cpu/cpu_kernels.h"
#include "backend/cpu/vector/lanes.h"
#include "backend/cpu/operand/scratch.h"
#include "backend/cpu/operand/tile.h"
#include "backend/cpu/math/exp_wide.h"
#include "backend/cpu/vector/wide.h"
#include "base/op_params.h"

enum { LANES = 16 };

/* The factor of results: 1 / total as a float, and its rounding error (lack_of); NaN where no
 * result is a number. The total has a rounding error of its own: without it equal elements would
 * show it. */
static inline float inverse_of(float total, float top) {
    const float x = 1 / total;
    return top == -INFINITY || !(total < INFINITY) ? NAN : x;
}
static inline float lack_of(float factor, float total, float lack) {
    return factor * __builtin_fmaf(-lack, factor, __builtin_fmaf(-total, factor, 1));
}
/* y / total, as the division would give it except for rare last bits, in a tenth of the time. */
static inline float quotient(float y, float factor, float lack) {
    return __builtin_fmaf(y, factor, y * lack);
}

struct job {
    const struct kl_launch *l;
    void (*row)(const struct job *j, int64_t row);
    int64_t length, rows, group; /* of a row; of all rows; rows or columns of one task */
    bool nontemporal;            /* rows are written with non-temporal stores */
    atomic_bool no_memory;
    int64_t inner, strips; /* columns side by side; the tasks that they make */
};

/* ---- float64 ---- */
static __attribute__((cold)) void softmax_f64(const struct job *j, int64_t row) {
    const struct kl_arg *in = j->l->in;
    double *y = (double *)j->l->out->data + row * j->length, top = -INFINITY, total = 0;
    struct kl_cursor c;
    union kl_tile raw;
    kl_cursor_init_arg(&c, in);
    for (int pass = 0; pass < 2; pass++) {
        kl_cursor_seek(&c, row * j->length);
        for (int64_t at = 0; at < j->length; at += KL_TILE) {
            const int64_t n = kl_min64(KL_TILE, j->length - at);
            const double *x = kl_cursor_next(&c, n, &raw);
            double lane[LANES] = {0};
            for (int64_t i = 0; pass == 0 && i < n; i++) top = KL_LARGER(top, x[i]);
            for (int64_t i = 0; pass == 1 && i < n; i++)
                lane[i % LANES] += y[at + i] = kl_exp_negative_f64(x[i] - top);
            for (int step = LANES / 2; step; step /= 2)
                for (int k = 0; k < step; k++) lane[k] += lane[k + step];
            total += lane[0];
        }
    }
    for (int64_t i = 0; i < j->length; i++) y[i] /= total;
}

/* ---- rows of float32 and 16-bit floats, as float32 ---- */
enum {
    WAITING = 8192,       /* elements of rows whose exponentials stay in the L1 cache */
    SIDE = KL_WIDE_LANES, /* rows side by side, at most */
    FURTHER = 2048,       /* bytes that are prefetched of a row */
    SPREAD = 130,         /* elements smaller than a centre less this give 0 */
};
#define CENTRE (KL_EXP_BASE + 64) /* exponentials are scaled by 2^32 to 2^96, so none is denormal */
#if !KL_HAS_SIMD
typedef struct {
    float lane[LANES];
} kl_wide;
static void kl_wide_sums(float *sum, const kl_wide *v) {
    for (int row = 0; row < SIDE; row++) {
        kl_wide w = v[row];
        KL_HALVE_16(KL_LANE_SUM, w.lane);
        sum[row] = w.lane[0];
    }
}
KL_INLINE kl_wide kl_wide_load(const float *x) {
    kl_wide v;
    memcpy(v.lane, x, sizeof v.lane);
    return v;
}
KL_INLINE kl_wide kl_wide_add(kl_wide x, kl_wide y) {
    KL_LANES(k, LANES) x.lane[k] += y.lane[k];
    return x;
}
KL_INLINE kl_wide kl_wide_sub(kl_wide x, kl_wide y) {
    KL_LANES(k, LANES) x.lane[k] -= y.lane[k];
    return x;
}
static void kl_wide_tops(float *top, const kl_wide *v) {
    for (int row = 0; row < SIDE; row++) {
        kl_wide w = v[row];
        KL_HALVE_16(KL_LARGER, w.lane);
        top[row] = w.lane[0];
    }
}
#endif
/* x without the lower half of its mantissa. */
KL_INLINE kl_wide upper_half(kl_wide x) {
    enum { LOWER = 0xfff };
#if KL_HAS_SIMD
    return kl_wide_clear(x, LOWER);
#else
    KL_LANES(k, LANES) x.lane[k] = kl_bits_f32(kl_f32_bits(x.lane[k]) & ~(uint32_t)LOWER);
    return x;
#endif
}
/* Adds n more elements, with room for whole vectors, to a sum of lanes; `rest` has the rounding
 * errors. Four vectors, or two, or the last one, are added up first: that rounds nothing where all
 * are equal. */
KL_INLINE void add_up(kl_wide *sum, kl_wide *rest, const float *y, int64_t n, bool first) {
    kl_wide s = *sum, left = *rest;
    for (int64_t i = 0; i < n; first = false) {
        kl_wide v = kl_wide_load(y + i);
        if (n - i > LANES) v = kl_wide_add(v, kl_wide_load(y + i + LANES));
        if (n - i >= 4 * LANES) {
            v = kl_wide_add(
                v, kl_wide_add(kl_wide_load(y + i + 2 * LANES), kl_wide_load(y + i + 3 * LANES)));
            i += 2 * LANES;
        }
        i += 2 * LANES;
        const kl_wide now = first ? v : kl_wide_add(s, v);
        if (!first) left = kl_wide_add(left, kl_wide_sub(v, kl_wide_sub(now, s)));
        s = now;
    }
    *sum = s, *rest = left;
}
/* kl_wide_sums of two. */
#if KL_HAS_SIMD && !defined __AVX512F__
#include "backend/cpu/reduce/softmax_avx2.h"
#else
KL_INLINE void both_sums(float *a, float *b, const kl_wide *v, const kl_wide *w) {
    kl_wide_sums(a, v);
    kl_wide_sums(b, w);
}
#endif
/* 1 / the sum of each row, as a float and its rounding error. Joining the lanes rounds nothing
 * either: the upper halves of mantissas are added up separately from the lower ones, to which
 * `rest` belongs. */
static void inverses(float *factor, float *lack, const kl_wide *sum, const kl_wide *rest,
                     const float *top) {
    kl_wide high[SIDE], low[SIDE];
    float upper[SIDE], lower[SIDE];
    for (int row = 0; row < SIDE; row++) {
        high[row] = upper_half(sum[row]);
        low[row] = kl_wide_add(kl_wide_sub(sum[row], high[row]), rest[row]);
    }
    both_sums(upper, lower, high, low);
    KL_LANES(k, SIDE) {
        const float total = upper[k] + lower[k];
        factor[k] = inverse_of(total, top[k]);
        lack[k] = lack_of(factor[k], total, lower[k] - (total - upper[k]));
    }
}
static void inverses_half(float *factor, const kl_wide *sum, const float *top) {
    kl_wide_sums(factor, sum);
    KL_LANES(k, SIDE) factor[k] = inverse_of(factor[k], top[k]);
}
/* Rounds 32 elements, in order; NaN may have any bits. */
static inline void narrow_bf16(uint16_t *y, const float *x) {
#if KL_HAS_NARROW_BF16
    if (kl_narrow_bf16(y, x)) return;
#endif
    for (int k = 0; k < 2 * LANES; k++) y[k] = kl_bf16_store(x[k]);
}
static inline void narrow_f16(uint16_t *y, const float *x) {
#if KL_HAS_SIMD
    kl_store_f16(y, x);
#else
    for (int k = 0; k < 2 * LANES; k++) y[k] = kl_f16_store(x[k]);
#endif
}
/* One vector of results of float32, from exponentials e. */
KL_INLINE void one_f32(void *to, const float *e, float factor, float lack) {
#if KL_HAS_SIMD
    const kl_wide v = kl_wide_load(e);
    kl_wide_store(to, kl_wide_fma(v, kl_wide_set(factor), kl_wide_mul(v, kl_wide_set(lack))));
#else
    float q[LANES];
    KL_LANES(k, LANES) q[k] = quotient(e[k], factor, lack);
    memcpy(to, q, sizeof q);
#endif
}
/* Two vectors of results of 16-bit floats, before they are rounded. */
KL_INLINE void products(float *q, const float *e, float factor) {
#if KL_HAS_SIMD
#pragma GCC unroll 2
    for (int k = 0; k < 2 * LANES; k += LANES)
        kl_wide_store(q + k, kl_wide_mul(kl_wide_load(e + k), kl_wide_set(factor)));
#else
    KL_LANES(k, 2 * LANES) q[k] = e[k] * factor;
#endif
}
/* Exponentials for 16-bit floats are less exact: rounding the result hides their errors. float16
 * has three bits more than bfloat16, and denormals from 2^-14 down. */
#if KL_HAS_SIMD
KL_INLINE kl_wide term_half(kl_wide x, kl_wide base) {
    kl_wide power,
        y = kl_wide_term(kl_term_half, sizeof kl_term_half / sizeof *kl_term_half, x, base, &power);
    return kl_wide_mul(y, power);
}
KL_INLINE kl_wide term_f16(kl_wide x, kl_wide base) {
    kl_wide power,
        y = kl_wide_term(kl_term_f32, sizeof kl_term_f32 / sizeof *kl_term_f32, x, base, &power);
    return kl_wide_mul(y, power);
}
#define term_f32 kl_wide_exp
#else
KL_INLINE float term_half(float x, float base) {
    float power,
        y = kl_term(kl_term_half, sizeof kl_term_half / sizeof *kl_term_half, x, base, &power);
    return y * power;
}
KL_INLINE float term_f16(float x, float base) {
    float power,
        y = kl_term(kl_term_f32, sizeof kl_term_f32 / sizeof *kl_term_f32, x, base, &power);
    return y * power;
}
#define term_f32 kl_exp_around_f32
#endif
#define U float
#define NAME f32
#define TERM term_f32
#define LOAD kl_wide_load
#define VALUE(u) (u)
#define NARROW(y, x) ((void)(x))
#define LOWEST (-INFINITY)
#include "backend/cpu/reduce/softmax_rows.inc"
#define U uint16_t
#define NAME bf16
#define TERM term_half
#define LOAD kl_wide_load_bf16
#define VALUE kl_bf16_load
#define NARROW narrow_bf16
#define LOWEST 0xff80
#include "backend/cpu/reduce/softmax_rows.inc"
#define U uint16_t
#define NAME f16
#define TERM term_f16
#define LOAD kl_wide_load_f16
#define VALUE kl_f16_load
#define NARROW narrow_f16
#define LOWEST 0xfc00
#include "backend/cpu/reduce/softmax_rows.inc"

struct kind {
    void (*terms)(float *room, const void *in, int64_t n, int m, float centre, kl_wide *sum,
                  kl_wide *rest, kl_wide *top);
    void (*scale)(void *out, const float *room, int64_t n, int m, const float *factor,
                  const float *rest, bool nontemporal);
};
static const struct kind kind_f32 = {terms_f32, scale_f32}, kind_bf16 = {terms_bf16, scale_bf16},
                         kind_f16 = {terms_f16, scale_f16};
/* A row whose largest element is far from 0: exponentials of distances from it. */
static __attribute__((cold)) void far_row(enum kl_dtype type, const void *x, int64_t n, float *y,
                                          float top, kl_wide *sum, kl_wide *rest) {
    kl_wide tops[SIDE], sums[SIDE], rests[SIDE];
    kl_convert(KL_F32, y, type, x, n);
    for (int64_t i = 0; i < n; i++) y[i] -= top;
    terms_f32(y, y, n, 1, 0, sums, rests, tops);
    *sum = sums[0], *rest = rests[0];
}
/* Rows [row, row + m), whose exponentials go to `room` first; *centre is that of the rows
 * before. */
static void some_rows(const struct job *j, int64_t row, int m, float *room, void *gathered,
                      float *centre) {
    const struct kl_arg *in = j->l->in, *out = j->l->out;
    const struct kind *kind = out->dtype == KL_F32    ? &kind_f32
                              : out->dtype == KL_BF16 ? &kind_bf16
                                                      : &kind_f16;
    const int64_t n = j->length, width = kl_ceil_div(n, LANES) * LANES,
                  item = (int64_t)kl_dtype_size(in->dtype);
    const char *x = (const char *)in->data + row * n * item;
    float top[SIDE];
    float factor[SIDE], lack[SIDE];
    kl_wide tops[SIDE], sums[SIDE], rests[SIDE];
    int again = 0;
    if (gathered) {
        struct kl_cursor c;
        kl_cursor_init_arg(&c, in);
        kl_cursor_seek(&c, row * n);
        for (int64_t at = 0; at < m * n; at += KL_TILE)
            kl_cursor_read(&c, kl_min64(KL_TILE, m * n - at), (char *)gathered + at * item);
        x = gathered;
    }
    kind->terms(room, x, n, m, *centre, sums, rests, tops);
    kl_wide_tops(top, tops);
    for (int k = 0; k < m; k++) again |= kl_centre_of(top[k]) != *centre || kl_is_far(top[k]);
    for (int k = 0; again && k < m; k++) {
        kl_wide some[SIDE], left[SIDE];
        if (kl_is_far(top[k])) {
            far_row(in->dtype, x + k * n * item, n, room + k * width, top[k], &sums[k], &rests[k]);
            continue;
        }
        kind->terms(room + k * width, x + k * n * item, n, 1, kl_centre_of(top[k]), some, left,
                    tops);
        sums[k] = some[0], rests[k] = left[0];
    }
    if (kind == &kind_f32)
        inverses(factor, lack, sums, rests, top);
    else
        inverses_half(factor, sums, top);
    kind->scale((char *)out->data + row * n * item, room, n, m, factor, lack, j->nontemporal);
    *centre = kl_centre_of(top[m - 1]);
}

/* ---- columns of float64 ---- */
/* Columns [from, from + n) of outer index `outer`. */
static __attribute__((cold)) void columns_f64(const struct job *j, int64_t outer, int64_t from,
                                              int64_t n) {
    const struct kl_arg *in = j->l->in;
    const bool dense = in->layout & KL_ROW_CONTIGUOUS;
    struct kl_cursor c;
    union kl_tile raw;
    double top[KL_TILE], total[KL_TILE];
    kl_cursor_init_arg(&c, in);
    KL_EACH(k, n) {
        top[k] = -INFINITY;
        total[k] = 0;
    }
    for (int pass = 0; pass < 3; pass++)
        for (int64_t i = 0; i < j->length; i++) {
            int64_t place = (outer * j->length + i) * j->inner + from;
            const double *x = (const double *)in->data + place;
            double *y = (double *)j->l->out->data + place;
            if (!dense && pass < 2) {
                kl_cursor_seek(&c, place);
                x = kl_cursor_next(&c, n, &raw);
            }
            for (int64_t k = 0; k < n; k++)
                if (pass == 0)
                    top[k] = KL_LARGER(top[k], x[k]);
                else if (pass == 1)
                    total[k] += y[k] = kl_exp_negative_f64(x[k] - top[k]);
                else
                    y[k] /= total[k];
        }
}

/* ---- columns of float32 and 16-bit floats, as float32 ---- */
enum {
    PANEL =
        1
        /* Elements of a strip whose exponentials stay in the L2 cache; those of longer strips are
         * computed twice. */
        << 18,
    NEAR = 1 << 13, /* the same, on the stack */
    AHEAD = 16,     /* rows that are prefetched */
    NARROW = 32,    /* columns of a strip, at least: one cache line, or two */
};
struct strip {
    const struct job *j;
    int64_t outer, from, n, width; /* n, rounded up to whole vectors */
    struct kl_cursor c;
    bool dense, far;
    union kl_tile raw;
    float top[KL_TILE], centre[KL_TILE], shift[KL_TILE], nothing[KL_TILE];
    double total[KL_TILE];
};
/* Row i as float32, with room for whole vectors. */
static const float *strip_row(struct strip *s, int64_t i, float *copy) {
    const struct kl_arg *in = s->j->l->in;
    if (i >= s->j->length) return s->nothing;
    const int64_t place = (s->outer * s->j->length + i) * s->j->inner + s->from;
    const void *x = (const char *)in->data + place * (int64_t)kl_dtype_size(in->dtype);
    if (!s->dense) {
        kl_cursor_seek(&s->c, place);
        x = kl_cursor_next(&s->c, s->n, &s->raw);
    }
    if (s->dense && in->dtype == KL_F32 && s->n == s->width && !s->far) return x;
    if (in->dtype == KL_BF16 && s->n == s->width)
        KL_EACH_WIDE(k, s->width) copy[k] = kl_bf16_load(((const uint16_t *)x)[k]);
    else
        kl_convert(KL_F32, copy, in->dtype, x, s->n);
    if (s->far) KL_EACH_WIDE(k, s->width) copy[k] -= s->shift[k];
    return copy;
}
/* Exponentials of four rows, and their sums by pairs, which are exact where elements are equal. */
static void four_rows(float *const *y, const float *const *x, float *top, const float *centre,
                      float (*sum)[KL_TILE], int64_t n) {
#if KL_HAS_SIMD
    for (int64_t k = 0; k < n; k += KL_WIDE_LANES) {
        const kl_wide m = kl_wide_load(centre + k), base = kl_wide_sub(kl_wide_set(CENTRE), m),
                      least =
                          kl_wide_sub(kl_wide_mul(m, kl_wide_set(KL_LN2_F32)), kl_wide_set(SPREAD));
        kl_wide t = kl_wide_load(top + k), e[4];
#pragma GCC unroll 4
        for (int h = 0; h < 4; h++) {
            const kl_wide v = kl_wide_load(x[h] + k);
            t = kl_wide_max(v, t);
            e[h] = kl_wide_exp(kl_wide_max(least, v), base);
            kl_wide_store(y[h] + k, e[h]);
        }
        kl_wide_store(top + k, t);
        kl_wide_store(sum[0] + k, kl_wide_add(e[0], e[1]));
        kl_wide_store(sum[1] + k, kl_wide_add(e[2], e[3]));
    }
#else
    for (int64_t k = 0; k < n; k++) {
        float e[4], least = centre[k] * KL_LN2_F32 - SPREAD;
        for (int h = 0; h < 4; h++) {
            float v = x[h][k];
            top[k] = KL_LARGER(top[k], v);
            y[h][k] = e[h] = kl_exp_around_f32(v < least ? least : v, CENTRE - centre[k]);
        }
        sum[0][k] = e[0] + e[1];
        sum[1][k] = e[2] + e[3];
    }
#endif
}
/* The exponentials of rows i to i + 3, in y[0 .. 3]. */
static void strip_terms(struct strip *s, int64_t i, float *const *y, float (*sum)[KL_TILE]) {
    _Alignas(64) float copy[4][KL_TILE];
    const float *x[4];
    for (int h = 0; h < 4; h++) x[h] = strip_row(s, i + h, copy[h]);
    /* Strips of long columns are too narrow for the processor's own prefetching. */
    if (s->dense && i + AHEAD + 4 <= s->j->length) {
        const int64_t item = (int64_t)kl_dtype_size(s->j->l->in->dtype);
        const char *next = (const char *)s->j->l->in->data +
                           ((s->outer * s->j->length + i + AHEAD) * s->j->inner + s->from) * item;
        for (int h = 0; h < 4; h++) kl_prefetch(next + h * s->j->inner * item, s->n * item);
    }
    four_rows(y, x, s->top, s->centre, sum, s->width);
}
static void strip_totals(struct strip *s, float *panel) {
    _Alignas(64) float sum[2][KL_TILE], unused[4][KL_TILE];
    KL_EACH_WIDE(k, s->width) {
        s->top[k] = -INFINITY;
        s->total[k] = 0;
    }
    for (int64_t i = 0; i < s->j->length; i += 4) {
        float *y[4];
        for (int h = 0; h < 4; h++)
            y[h] = panel && i + h < s->j->length ? panel + (i + h) * s->width : unused[h];
        strip_terms(s, i, y, sum);
        KL_EACH_WIDE(k, s->width) s->total[k] += (double)sum[0][k] + (double)sum[1][k];
    }
}
/* Stores results y, which are aligned to a cache line. */
static void put(const struct kl_arg *out, int64_t place, const float *y, int64_t n,
                bool nontemporal) {
    const int64_t item = (int64_t)kl_dtype_size(out->dtype);
    char *to = (char *)out->data + place * item;
    if (!nontemporal) {
        kl_convert(out->dtype, to, KL_F32, y, n);
        return;
    }
    for (int64_t at = 0; at < n; at += KL_TILE) {
        _Alignas(KL_LINE) float narrow[KL_TILE];
        const int64_t m = kl_min64(KL_TILE, n - at);
        const void *from = y + at;
        if (item != sizeof *y) {
            kl_convert(out->dtype, narrow, KL_F32, from, m);
            from = narrow;
        }
        kl_nontemporal_copy(to + at * item, from, m * item);
    }
}
static void columns_f32(const struct job *j, int64_t outer, int64_t from, int64_t n) {
    const struct kl_arg *in = j->l->in, *out = j->l->out;
    const int item = (int)kl_dtype_size(out->dtype);
    struct strip s; /* not initialized: most of it is memory for elements */
    struct kl_scratch scratch;
    _Alignas(64) float near[NEAR], again[4][KL_TILE], z[KL_TILE], was[KL_TILE];
    _Alignas(64) float factor[KL_TILE], lack[KL_TILE], unused[2][KL_TILE];
    float *panel = near;
    bool taken = false, other = false;
    s.j = j, s.outer = outer, s.from = from, s.n = n;
    s.width = kl_ceil_div(n, KL_WIDE_LANES) * KL_WIDE_LANES;
    s.dense = in->layout & KL_ROW_CONTIGUOUS;
    s.far = false;
    if (!s.dense) kl_cursor_init_arg(&s.c, in);
    if (s.width * j->length > NEAR) {
        taken = s.width * j->length <= PANEL &&
                kl_scratch_take(&scratch, j->l, (size_t)PANEL * sizeof *panel);
        panel = taken ? (float *)scratch.ptr : NULL;
    }
    KL_EACH_WIDE(k, s.width) {
        s.nothing[k] = -INFINITY;
        s.shift[k] = again[0][k] = 0;
    }
    const float *first = strip_row(&s, 0, again[0]);
    KL_EACH_WIDE(k, s.width) s.centre[k] = kl_centre_of(first[k]);
    strip_totals(&s, panel);
    KL_EACH_WIDE(k, s.width) {
        was[k] = s.centre[k];
        s.centre[k] = kl_centre_of(s.top[k]);
        s.shift[k] = kl_is_far(s.top[k]) ? s.top[k] : 0;
    }
    for (int64_t k = 0; k < n; k++) {
        s.far = s.far || s.shift[k] != 0;
        other = other || s.far || s.centre[k] != was[k];
    }
    if (other) strip_totals(&s, panel);
    KL_EACH_WIDE(k, s.width) {
        const float total = (float)s.total[k];
        factor[k] = inverse_of(total, s.top[k]);
        lack[k] = lack_of(factor[k], total, (float)(s.total[k] - (double)total));
    }
    const bool nontemporal = kl_nontemporal(out, j->inner * item) && from * item % KL_LINE == 0 &&
                             n * item % KL_LINE == 0;
    for (int64_t i = 0; i < j->length; i++) {
        const float *y = panel ? panel + i * s.width : again[i % 4];
        const int64_t place = (outer * j->length + i) * j->inner + from;
        float *q =
            item == sizeof(float) && !nontemporal && n == s.width ? (float *)out->data + place : z;
        if (!panel && i % 4 == 0)
            strip_terms(&s, i, (float *const[]){again[0], again[1], again[2], again[3]}, unused);
        KL_EACH_WIDE(k, s.width) q[k] = quotient(y[k], factor[k], lack[k]);
        if (q == z) put(out, place, z, n, nontemporal);
    }
    if (nontemporal) kl_nontemporal_end();
    if (taken) kl_scratch_give(&scratch);
}

/* The "largest" complex number is the last in the order of sorting; any one that keeps exp small
 * would do. */
static void softmax_c64(const struct job *j, int64_t row) {
    struct kl_c64 *y = (struct kl_c64 *)j->l->out->data + row * j->length,
                  top = {-INFINITY, -INFINITY};
    struct kl_cursor c;
    double re = 0, im = 0;
    kl_cursor_init_arg(&c, j->l->in);
    kl_cursor_seek(&c, row * j->length);
    for (int64_t at = 0; at < j->length; at += KL_TILE)
        kl_cursor_read(&c, kl_min64(KL_TILE, j->length - at), y + at);
    for (int64_t i = 0; i < j->length; i++) top = kl_max_c64(top, y[i]);
    for (int64_t i = 0; i < j->length; i++) {
        y[i] = kl_c64_exp(kl_c64_sub(y[i], top));
        re += y[i].re;
        im += y[i].im;
    }
    struct kl_c64 total = {(float)re, (float)im};
    for (int64_t i = 0; i < j->length; i++) y[i] = kl_c64_div(y[i], total);
}

static void softmax_chunk(void *arg, int64_t i) {
    struct job *j = arg;
    const int64_t end = kl_min64((i + 1) * j->group, j->rows);
    for (int64_t row = i * j->group; row < end; row++) j->row(j, row);
}

static void rows_chunk(void *arg, int64_t i) {
    struct job *j = arg;
    const int64_t end = kl_min64((i + 1) * j->group, j->rows),
                  width = kl_ceil_div(j->length, LANES) * LANES;
    const int64_t side = width > WAITING ? 1 : kl_min64(SIDE, WAITING / width);
    const bool dense = j->l->in->layout & KL_ROW_CONTIGUOUS, is_long = width > WAITING;
    _Alignas(KL_LINE) float near[WAITING + LANES], *room = near; /* with room for a second vector */
    struct kl_scratch scratch = {0};
    float centre = 0;
    if (is_long || !dense) {
        const int64_t need = (is_long ? width + LANES : 0) + (dense ? 0 : side * j->length);
        if (!kl_scratch_take(&scratch, j->l, (size_t)need * sizeof *room)) {
            atomic_store_explicit(&j->no_memory, true, memory_order_relaxed);
            return;
        }
        if (is_long) room = (float *)scratch.ptr;
    }
    float *gathered = dense ? NULL : (float *)scratch.ptr + (is_long ? width + LANES : 0);
    for (int64_t row = i * j->group; row < end; row += side)
        some_rows(j, row, (int)kl_min64(side, end - row), room, gathered, &centre);
    if (j->nontemporal) kl_nontemporal_end();
    if (is_long || !dense) kl_scratch_give(&scratch);
}

static void columns_chunk(void *arg, int64_t i) {
    const struct job *j = arg;
    int64_t place = i % j->strips * j->group, n = kl_min64(j->group, j->inner - place);
    (j->l->out->dtype == KL_F64 ? columns_f64 : columns_f32)(j, i / j->strips, place, n);
}

int kl_cpu_softmax(struct kl_launch *l) {
    const struct kl_softmax_params *p = l->params;
    struct job j = {.l = l, .length = 1, .inner = 1};
    const struct kl_arg *out = l->out;
    if (out->size == 0) return KL_OK;
    for (int i = p->axis; i < out->ndim; i++)
        *(i < p->axis + p->n_axes ? &j.length : &j.inner) *= out->dims[i];
    j.rows = out->size / j.length / j.inner;
    struct kl_launch alone = {.parallel = out->size >= KL_CHUNK ? l->parallel : NULL};
    if (j.inner > 1) {
        int64_t width = PANEL / j.length / NARROW * NARROW;
        if (width == 0) /* strips that do not stay in the L2 cache */
            for (width = KL_TILE; width > NARROW && j.rows * j.inner < 4 * width;) width /= 2;
        j.group = kl_min64(width, KL_TILE);
        j.strips = kl_ceil_div(j.inner, j.group);
        kl_run_tasks(&alone, j.rows * j.strips, columns_chunk, &j);
        return KL_OK;
    }
    j.group = kl_ceil_div(KL_CHUNK / 4, j.length);
    j.row = out->dtype == KL_C64 ? softmax_c64 : softmax_f64;
    j.nontemporal = kl_nontemporal(out, j.length * (int64_t)kl_dtype_size(out->dtype));
    const bool wide = out->dtype == KL_C64 || out->dtype == KL_F64;
    kl_run_tasks(&alone, kl_ceil_div(j.rows, j.group), wide ? softmax_chunk : rows_chunk, &j);
    return atomic_load(&j.no_memory) ? kl_fail_nomem(l->err) : KL_OK;
}
