/* cpu_softmax.c - SOFTMAX over axes that follow each other, taken as one: exp(x - max) / sum; row by row where they are the last, else in strips of columns side by side. 16-bit floats are
 * computed in float32. A row with NaN, or with nothing but -infinity, or with +infinity, is NaN all
 * through, as the formula says. */
#include <string.h>

#include "backend/cpu/cpu_exp.h"
#include "backend/cpu/cpu_extremes.h"
#include "backend/cpu/cpu_kernels.h"
#include "backend/cpu/cpu_lanes.h"
#include "backend/cpu/cpu_scratch.h"
#include "backend/cpu/cpu_tile.h"
#include "backend/cpu/cpu_wide.h"
#include "base/op_params.h"

enum { LANES = 16 };

/* The quotient from the inverse, and mended by what it leaves: the division it stands for, but for rare last bits, in a tenth of the time. */
static inline float quotient(float y, float x, float inverse) {
    float q = y * inverse;
    return __builtin_fmaf(__builtin_fmaf(-q, x, y), inverse, q);
}

struct job {
    const struct kl_launch *l;
    void (*row)(const struct job *j, int64_t row);
    int64_t length, rows, group; /* of a row; of all; rows, or columns, of one task */
    bool stream; /* rows go past the caches */
    int64_t inner, strips;       /* columns side by side; tasks that they make */
};

#define T float
#define NAME f32
#define EXP kl_exp_negative_f32
#define PER quotient
#include "backend/cpu/cpu_softmax.inc"
#define T double
#define NAME f64
#define EXP kl_exp_negative_f64
#define PER(y, x, inverse) ((void)(inverse), (y) / (x))
#include "backend/cpu/cpu_softmax.inc"

/* ---- rows of float32 that wait in the L1 cache ---- */
enum {
    WAITING = 8192, /* elements of rows whose exponentials the L1 cache keeps */
    SIDE = KL_WIDE_LANES, /* rows side by side, at most */
    FURTHER = 2048, /* bytes of a row */
    SPREAD = 130, /* below a centre by which what is smaller is 0 */
};
#define CENTRE (KL_EXP_BASE + 64) /* exponentials are 2^32 to 2^96 times too large, so none is denormal */
#if !KL_HAS_WIDE
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
static void kl_wide_tops(float *top, const kl_wide *v) {
    for (int row = 0; row < SIDE; row++) {
        kl_wide w = v[row];
        KL_HALVE_16(KL_LARGER, w.lane);
        top[row] = w.lane[0];
    }
}
#endif
/* y = exponentials of x around a centre, with room for whole vectors; their sum and the largest element, in lanes. y may be x. */
static inline __attribute__((always_inline)) void row_terms(float *y, const float *x, int64_t n, float centre, kl_wide *sum, kl_wide *top) {
    const float base = CENTRE - centre, least = centre * KL_LN2_F32 - SPREAD;
    float room[LANES];
#if KL_HAS_WIDE
    kl_wide s = kl_wide_set(0), t = kl_wide_set(-INFINITY);
#else
    kl_wide s, t;
    KL_LANES(k, LANES) s.lane[k] = 0;
    KL_LANES(k, LANES) t.lane[k] = -INFINITY;
#endif
    for (int64_t i = 0; i < n; i += LANES) {
        const float *from = x + i;
        if (n - i < LANES) {
            KL_LANES(k, LANES) room[k] = -INFINITY;
            from = memcpy(room, from, (size_t)(n - i) * sizeof *x);
        }
#if KL_HAS_WIDE
        __builtin_prefetch((const char *)(x + i) + FURTHER);
        const kl_wide v = kl_wide_load(from);
        t = kl_wide_max(v, t);
        kl_wide e = kl_wide_exp(kl_wide_max(kl_wide_set(least), v), kl_wide_set(base));
        kl_wide_store(y + i, e);
        s = kl_wide_add(e, s);
#else
        KL_LANES(k, LANES) {
            const float v = from[k];
            t.lane[k] = KL_LARGER(t.lane[k], v);
            y[i + k] = kl_exp_around_f32(v < least ? least : v, base);
        }
        KL_LANES(k, LANES) s.lane[k] += y[i + k];
#endif
    }
    *sum = s, *top = t;
}
static inline __attribute__((always_inline)) void row_scale(float *out, const float *y, int64_t n, float scale, float inverse, bool stream) {
    const int64_t whole = n / LANES * LANES;
#if KL_HAS_WIDE
    const kl_wide a = kl_wide_set(-scale), b = kl_wide_set(inverse);
    for (int64_t i = 0; i < whole; i += LANES) {
        _Alignas(KL_LINE) float line[LANES];
        const kl_wide e = kl_wide_load(y + i), q = kl_wide_mul(e, b);
        kl_wide_store(stream ? line : out + i, kl_wide_fma(kl_wide_fma(q, a, e), b, q));
        if (stream) kl_stream_line(out + i, line);
    }
#else
    for (int64_t i = 0; i < whole; i++) out[i] = quotient(y[i], scale, inverse);
#endif
    for (int64_t i = whole; i < n; i++) out[i] = quotient(y[i], scale, inverse);
}
/* Rows [row, row + m); *centre is that of rows before. */
static void near_rows(const struct job *j, int64_t row, int m, float *centre) {
    const struct kl_arg *in = j->l->in, *out = j->l->out;
    const int64_t n = j->length, width = kl_ceil_div(n, LANES) * LANES;
    _Alignas(64) float room[WAITING];
    float sum[SIDE], top[SIDE], inverse[SIDE];
    kl_wide sums[SIDE], tops[SIDE];
    struct kl_cursor c;
    if (!(in->layout & KL_ROW_CONTIGUOUS)) kl_cursor_init_arg(&c, in);
    for (int pass = 0, again = 1; pass < 2 && again; pass++) {
        again = 0;
        for (int k = 0; k < SIDE; k++) {
            if (k >= m) {
                sums[k] = sums[0], tops[k] = tops[0];
                continue;
            }
            const float around = pass == 0 ? *centre : kl_centre_of(top[k]);
            float *y = room + k * width;
            const float *x = (const float *)in->data + (row + k) * n;
            if (!(in->layout & KL_ROW_CONTIGUOUS)) {
                kl_cursor_seek(&c, (row + k) * n);
                for (int64_t at = 0; at < n; at += KL_TILE)
                    kl_cursor_read(&c, kl_min64(KL_TILE, n - at), y + at);
                x = y;
            }
            if (pass == 1 && kl_is_far(top[k])) {
                KL_EACH(i, n) y[i] = x[i] - top[k];
                x = y;
            }
            row_terms(y, x, n, around, &sums[k], &tops[k]);
        }
        kl_wide_sums(sum, sums);
        if (pass == 1) break;
        kl_wide_tops(top, tops);
        for (int k = 0; k < m; k++) again |= kl_centre_of(top[k]) != *centre || kl_is_far(top[k]);
    }
    KL_LANES(k, SIDE) sum[k] = top[k] == -INFINITY ? NAN : sum[k];
    KL_LANES(k, SIDE) inverse[k] = 1 / sum[k];
    for (int k = 0; k < m; k++)
        row_scale((float *)out->data + (row + k) * n, room + k * width, n, sum[k], inverse[k], j->stream);
    *centre = kl_centre_of(top[m - 1]);
}

/* ---- columns of float64 ---- */
/* Columns [from, from + n) of those with number `outer`. */
static void columns_f64(const struct job *j, int64_t outer, int64_t from, int64_t n) {
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

/* ---- columns of shorter floats, as float32 ---- */
enum {
    PANEL = 1 << 18,  /* elements of a strip whose exponentials wait in the L2 cache; those of others are computed twice */
    NEAR = 1 << 13,   /* the same, on the stack */
    AHEAD = 16,      /* rows */
    NARROW = 32,      /* columns of a strip, at least: a cache line, or two */
};
struct strip {
    const struct job *j;
    int64_t outer, from, n, width; /* n, and room for whole vectors */
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
    if (in->dtype == KL_BF16)
        KL_EACH(k, s->n) copy[k] = kl_bf16_load(((const uint16_t *)x)[k]);
    else
        kl_convert(KL_F32, copy, in->dtype, x, s->n);
    if (s->far) KL_EACH(k, s->n) copy[k] -= s->shift[k];
    return copy;
}
/* Exponentials of four rows, and their sums. Rounding errors of one after another would show. */
static void four_rows(float *const *y, const float *const *x, float *top, const float *centre, float *sum,
                      int64_t n) {
#if KL_HAS_WIDE
    for (int64_t k = 0; k < n; k += KL_WIDE_LANES) {
        const kl_wide m = kl_wide_load(centre + k), base = kl_wide_sub(kl_wide_set(CENTRE), m),
                      least = kl_wide_sub(kl_wide_mul(m, kl_wide_set(KL_LN2_F32)), kl_wide_set(SPREAD));
        kl_wide t = kl_wide_load(top + k), e[4];
#pragma GCC unroll 4
        for (int h = 0; h < 4; h++) {
            const kl_wide v = kl_wide_load(x[h] + k);
            t = kl_wide_max(v, t);
            e[h] = kl_wide_exp(kl_wide_max(least, v), base);
            kl_wide_store(y[h] + k, e[h]);
        }
        kl_wide_store(top + k, t);
        kl_wide_store(sum + k, kl_wide_add(kl_wide_add(e[0], e[1]), kl_wide_add(e[2], e[3])));
    }
#else
    for (int64_t k = 0; k < n; k++) {
        float e[4], least = centre[k] * KL_LN2_F32 - SPREAD;
        for (int h = 0; h < 4; h++) {
            float v = x[h][k];
            top[k] = KL_LARGER(top[k], v);
            y[h][k] = e[h] = kl_exp_around_f32(v < least ? least : v, CENTRE - centre[k]);
        }
        sum[k] = (e[0] + e[1]) + (e[2] + e[3]);
    }
#endif
}
/* The exponentials of rows i to i + 3, in y[0 .. 3]. */
static void strip_terms(struct strip *s, int64_t i, float *const *y, float *sum) {
    _Alignas(64) float copy[4][KL_TILE];
    const float *x[4];
    for (int h = 0; h < 4; h++) x[h] = strip_row(s, i + h, copy[h]);
    /* Strips of long columns are too narrow for the processor to see what comes next. */
    if (s->dense) {
        const int64_t item = (int64_t)kl_dtype_size(s->j->l->in->dtype);
        const char *next = (const char *)s->j->l->in->data + ((s->outer * s->j->length + i + AHEAD) * s->j->inner + s->from) * item;
        for (int h = 0; h < 4; h++) kl_prefetch(next + h * s->j->inner * item, s->n * item);
    }
    four_rows(y, x, s->top, s->centre, sum, s->width);
}
static void strip_totals(struct strip *s, float *panel) {
    _Alignas(64) float sum[KL_TILE], unused[4][KL_TILE];
    KL_EACH(k, s->width) {
        s->top[k] = -INFINITY;
        s->total[k] = 0;
    }
    for (int64_t i = 0; i < s->j->length; i += 4) {
        float *y[4];
        for (int h = 0; h < 4; h++)
            y[h] = panel && i + h < s->j->length ? panel + (i + h) * s->width : unused[h];
        strip_terms(s, i, y, sum);
        KL_EACH(k, s->width) s->total[k] += (double)sum[k];
    }
}
static void columns_f32(const struct job *j, int64_t outer, int64_t from, int64_t n) {
    const struct kl_arg *in = j->l->in, *out = j->l->out;
    const int item = (int)kl_dtype_size(out->dtype);
    struct strip s; /* not initialized: most of it is room */
    struct kl_scratch scratch;
    _Alignas(64) float near[NEAR], again[4][KL_TILE], z[KL_TILE], scale[KL_TILE], inverse[KL_TILE];
    _Alignas(64) char narrow[KL_TILE * sizeof(float)];
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
    KL_EACH(k, s.width) {
        s.nothing[k] = -INFINITY;
        s.shift[k] = again[0][k] = 0;
    }
    const float *first = strip_row(&s, 0, again[0]);
    KL_EACH(k, s.width) s.centre[k] = kl_centre_of(first[k]);
    strip_totals(&s, panel);
    for (int64_t k = 0; k < n; k++) {
        other = other || kl_centre_of(s.top[k]) != s.centre[k] || kl_is_far(s.top[k]);
        s.far = s.far || kl_is_far(s.top[k]);
    }
    if (other) {
        KL_EACH(k, n) {
            s.centre[k] = kl_centre_of(s.top[k]);
            s.shift[k] = kl_is_far(s.top[k]) ? s.top[k] : 0;
        }
        strip_totals(&s, panel);
    }
    KL_EACH(k, n) {
        scale[k] = s.top[k] == -INFINITY ? NAN : (float)s.total[k];
        inverse[k] = 1 / scale[k];
    }
    const bool stream = kl_streams(out, j->inner * item) && from * item % KL_LINE == 0 && n * item % KL_LINE == 0;
    for (int64_t i = 0; i < j->length; i++) {
        const float *y = panel ? panel + i * s.width : again[i % 4];
        char *to = (char *)out->data + ((outer * j->length + i) * j->inner + from) * item;
        float *q = item == sizeof(float) && !stream ? (float *)to : z;
        if (!panel && i % 4 == 0)
            strip_terms(&s, i, (float *const[]){again[0], again[1], again[2], again[3]}, z);
        KL_EACH(k, n) q[k] = quotient(y[k], scale[k], inverse[k]);
        if (item != sizeof(float)) kl_convert(out->dtype, stream ? narrow : to, KL_F32, z, n);
        if (stream) kl_stream(to, item == sizeof(float) ? (const void *)z : narrow, n * item);
    }
    if (stream) kl_stream_end();
    if (taken) kl_scratch_give(&scratch);
}

/* ---- rows of 16-bit floats: they become float32 in registers ---- */
enum { PIECE = 2048 }; /* elements */
#define NAME bf16
#define VALUE kl_bf16_load
#define NARROW kl_bf16_store
#define LOWEST 0xff80
#define COEFFICIENTS kl_term_half
#include "backend/cpu/cpu_softmax_half.inc"
#define NAME f16
#define VALUE kl_f16_load
#define NARROW kl_f16_store
#define LOWEST 0xfc00
#define COEFFICIENTS \
    kl_term_f32 /* float16 has three digits more, and below 2^-14 a step of its own */
#include "backend/cpu/cpu_softmax_half.inc"

/* The "largest" complex number is the last in the order of sorting; any would do to keep exp
 * small. */
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
    const struct job *j = arg;
    int64_t end = kl_min64((i + 1) * j->group, j->rows);
    const int64_t side = kl_min64(SIDE, WAITING / (kl_ceil_div(j->length, LANES) * LANES));
    float centre = 0;
    if (j->l->out->dtype == KL_F32 && side) {
        for (int64_t row = i * j->group; row < end; row += side)
            near_rows(j, row, (int)kl_min64(side, end - row), &centre);
        if (j->stream) kl_stream_end();
        return;
    }
    for (int64_t row = i * j->group; row < end; row++) j->row(j, row);
    if (j->stream) kl_stream_end();
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
        if (width == 0) /* not all in one task */
            for (width = KL_TILE; width > NARROW && j.rows * j.inner < 4 * width;) width /= 2;
        j.group = kl_min64(width, KL_TILE);
        j.strips = kl_ceil_div(j.inner, j.group);
        kl_share(&alone, j.rows * j.strips, columns_chunk, &j);
        return KL_OK;
    }
    j.row = out->dtype == KL_C64    ? softmax_c64
            : out->dtype == KL_F64  ? softmax_f64
            : out->dtype == KL_BF16 ? softmax_bf16
            : out->dtype == KL_F16  ? softmax_f16
                                    : softmax_f32;
    j.stream = kl_streams(out, j.length * (int64_t)kl_dtype_size(out->dtype));
    j.group = kl_ceil_div(KL_CHUNK / 4, j.length);
    kl_share(&alone, kl_ceil_div(j.rows, j.group), softmax_chunk, &j);
    return KL_OK;
}
