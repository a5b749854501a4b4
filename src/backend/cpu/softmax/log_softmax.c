/* log_softmax.c - LOG_SOFTMAX along an axis: (x - top) - log(sum of exp(x - top)), where top is the
 * largest element along it; 16-bit floats in float32, with one rounding at the end. The kernels of
 * LOGSUMEXP find tops and logarithms, and hand them over while the elements are in a cache. Of an
 * infinite top no sum is taken: x - top is what the formula tends to. NaN takes all elements along
 * the axis. */
#include <string.h>

#include "backend/cpu/cpu_kernels.h"
#include "backend/cpu/math/complex.h"
#include "backend/cpu/math/extremes.h"
#include "backend/cpu/operand/nontemporal.h"
#include "backend/cpu/softmax/logsumexp.h"
#include "backend/cpu/vector/lanes.h"
#include "backend/cpu/vector/wide.h"
#include "base/op/op_params.h"

enum {
    SHORT = 64, /* the longest rows that are computed in whole steps */
    MOST = KL_LOGSUMEXP_WIDTH,
    AHEAD = 8, /* rows of columns that are prefetched */
};

/* The results of n elements: row subtracts the same top and rest of all, columns others of each,
 * which `place` has put into their order.
 * rows: of m short rows, each computed in whole steps; the next one overwrites what is too much,
 * and the last ones, for which there is no room, end where they end. */
struct kind {
    void (*row)(void *y, const void *x, int64_t n, const void *top, const void *rest);
    void (*columns)(void *y, const void *x, int64_t n, const void *top, const void *rest);
    void (*rows)(void *y, const void *x, int64_t m, int64_t n, const void *top, const void *rest);
    void (*place)(void *to, const void *from, int64_t n);
};
struct job {
    struct kl_logsumexp_taker taker; /* first, so that its address is the job's */
    const struct kl_launch *l;
    const struct kind *kind;
    int64_t length, inner; /* elements along the axis; number of neighbouring columns */
    int made_bytes;        /* the size of a number of the type in which LOGSUMEXP computes */
    bool nontemporal;
};
/* Outputs of LOGSUMEXP whose elements become results; a task has `step` along the axis. */
struct part {
    const struct job *j;
    int64_t begin, n, step;
    const char *top, *rest;
};

#if KL_HAS_SIMD
KL_INLINE kl_pair kl_pair_sub(kl_pair x, kl_pair y) {
    return (kl_pair){kl_wide_sub(x.a, y.a), kl_wide_sub(x.b, y.b)};
}
#else
typedef struct {
    float lane[KL_WIDE_LANES];
} kl_wide;
typedef struct {
    kl_wide a, b;
} kl_pair;
#define kl_place_bf16(k) (k)
#endif
#define U float
#define NAME f32
#define SET kl_wide
#define LOAD kl_wide_load
#define STORE kl_wide_store
#define PLACE(k) (k)
#define VALUE(u) (u)
#define BACK(x) (x)
/* defines some_f32, all_f32, row_f32, columns_f32, rows_f32, place_f32 */
#include "backend/cpu/softmax/log_softmax.inc"
#define U uint16_t
#define NAME bf16
#define SET kl_pair
#define LOAD kl_pair_load_bf16
#define STORE kl_pair_store_bf16
#define PLACE(k) kl_place_bf16(k)
#define VALUE kl_bf16_load
#define BACK kl_bf16_store
/* defines some_bf16, all_bf16, row_bf16, columns_bf16, rows_bf16, place_bf16 */
#include "backend/cpu/softmax/log_softmax.inc"
#define U uint16_t
#define NAME f16
#define SET kl_pair
#define LOAD kl_pair_load_f16
#define STORE kl_pair_store_f16
#define PLACE(k) (k)
#define VALUE kl_f16_load
#define BACK kl_f16_store
/* defines some_f16, all_f16, row_f16, columns_f16, rows_f16, place_f16 */
#include "backend/cpu/softmax/log_softmax.inc"

static void row_f64(void *to, const void *from, int64_t n, const void *top, const void *rest) {
    const double t = *(const double *)top, r = *(const double *)rest, *x = from;
    double *y = to;
    KL_EACH(k, n) y[k] = x[k] - t - r;
}
static void columns_f64(void *to, const void *from, int64_t n, const void *top, const void *rest) {
    const double *t = top, *r = rest, *x = from;
    double *y = to;
    KL_EACH(k, n) y[k] = x[k] - t[k] - r[k];
}
static void rows_f64(void *y, const void *x, int64_t m, int64_t n, const void *top,
                     const void *rest) {
    for (int64_t r = 0; r < m; r++)
        row_f64((double *)y + r * n, (const double *)x + r * n, n, (const double *)top + r,
                (const double *)rest + r);
}
static void place_f64(void *to, const void *from, int64_t n) {
    memcpy(to, from, (size_t)n * sizeof(double));
}
static const struct kind kind_f64 = {row_f64, columns_f64, rows_f64, place_f64};

/* Elements that are read one tile after the other, and a tile of results. */
struct ends {
    struct kl_cursor c;
    union kl_tile raw;
    _Alignas(KL_LINE) union kl_tile made;
};
static const void *fetch(struct ends *e, const struct job *j, int64_t place, int64_t n) {
    const struct kl_arg *in = j->l->in;
    if (in->layout & KL_ROW_CONTIGUOUS)
        return (const char *)in->data + place * (int64_t)kl_dtype_size(in->dtype);
    kl_cursor_seek(&e->c, place);
    return kl_cursor_next(&e->c, n, &e->raw);
}
/* The results from `place` on in memory, or a tile for them, which `put` stores past the caches. */
static void *room_for(struct ends *e, const struct job *j, int64_t place, bool direct) {
    if (!direct) return e->made.bytes;
    return (char *)j->l->out->data + place * (int64_t)kl_dtype_size(j->l->out->dtype);
}
static void put(struct ends *e, const struct job *j, int64_t place, int64_t n) {
    kl_nontemporal_copy(room_for(e, j, place, true), e->made.bytes,
                        n * (int64_t)kl_dtype_size(j->l->out->dtype));
}

/* Elements [from, to) of all rows of a part. */
static void rows(const struct part *p, struct ends *e, int64_t from, int64_t to) {
    const struct job *j = p->j;
    for (int64_t r = 0; r < p->n; r++)
        for (int64_t at = from; at < to; at += KL_TILE) {
            const int64_t n = kl_min64(KL_TILE, to - at), place = (p->begin + r) * j->length + at,
                          number = r * j->made_bytes;
            const void *x = fetch(e, j, place, n);
            void *y = room_for(e, j, place, !j->nontemporal);
            j->kind->row(y, x, n, p->top + number, p->rest + number);
            if (j->nontemporal) put(e, j, place, n);
        }
}
/* All elements of short rows. */
static void short_rows(const struct part *p, struct ends *e) {
    const struct job *j = p->j;
    const int64_t most = KL_TILE / j->length;
    for (int64_t at = 0; at < p->n; at += most) {
        const int64_t m = kl_min64(most, p->n - at), place = (p->begin + at) * j->length,
                      number = at * j->made_bytes;
        const void *x = fetch(e, j, place, m * j->length);
        j->kind->rows(room_for(e, j, place, true), x, m, j->length, p->top + number,
                      p->rest + number);
    }
}
/* Elements [from, to) of n columns from `first` on; k is the first one's number in the part. */
static void columns(const struct part *p, struct ends *e, int64_t from, int64_t to, int64_t first,
                    int64_t n, int64_t k) {
    const struct job *j = p->j;
    const struct kl_arg *in = j->l->in;
    const int64_t item = (int64_t)kl_dtype_size(in->dtype);
    const bool dense = in->layout & KL_ROW_CONTIGUOUS, nontemporal = j->nontemporal &&
                                                                     first * item % KL_LINE == 0 &&
                                                                     n * item % KL_LINE == 0;
    _Alignas(64) char top[MOST * sizeof(double)], rest[MOST * sizeof(double)];
    j->kind->place(top, p->top + k * j->made_bytes, n);
    j->kind->place(rest, p->rest + k * j->made_bytes, n);
    for (int64_t i = from; i < to; i++) {
        const int64_t begin = first + i * j->inner;
        if (dense && i + AHEAD < to)
            kl_prefetch((const char *)in->data + (begin + AHEAD * j->inner) * item, n * item);
        for (int64_t at = 0; at < n; at += KL_TILE) {
            const int64_t m = kl_min64(KL_TILE, n - at), place = begin + at,
                          number = at * j->made_bytes;
            const void *x = fetch(e, j, place, m);
            void *y = room_for(e, j, place, !nontemporal);
            j->kind->columns(y, x, m, top + number, rest + number);
            if (nontemporal) put(e, j, place, m);
        }
    }
}
static void part_chunk(void *arg, int64_t i) {
    const struct part *p = arg;
    const struct job *j = p->j;
    const int64_t from = i * p->step, to = kl_min64(from + p->step, j->length);
    struct ends e; /* not initialized, since most of it is memory for elements */
    kl_cursor_init_arg(&e.c, j->l->in);
    if (j->inner == 1 && j->length <= SHORT)
        short_rows(p, &e);
    else if (j->inner == 1)
        rows(p, &e, from, to);
    else
        for (int64_t k = 0; k < p->n;) {
            const int64_t at = p->begin + k, column = at % j->inner,
                          n = kl_min64(j->inner - column, p->n - k);
            columns(p, &e, from, to, at / j->inner * j->length * j->inner + column, n, k);
            k += n;
        }
    if (j->nontemporal) kl_nontemporal_end();
}
static void take(const struct kl_logsumexp_taker *t, int64_t begin, int64_t n, const void *top,
                 const void *rest, kl_parallel_for *parallel) {
    const struct job *j = (const struct job *)t;
    struct part p = {.j = j, .begin = begin, .n = n, .step = j->length, .top = top, .rest = rest};
    const struct kl_launch alone = {.parallel = parallel};
    if (parallel) p.step = kl_ceil_div(KL_CHUNK, n * KL_TILE) * KL_TILE;
    kl_run_tasks(&alone, kl_ceil_div(j->length, p.step), part_chunk, &p);
}

/* ---- complex64, along the last axis: top is the largest real part ---- */
static void row_c64(void *arg, int64_t row) {
    const struct job *j = arg;
    struct kl_c64 *y = (struct kl_c64 *)j->l->out->data + row * j->length, rest = {0, 0};
    double re = 0, im = 0;
    float top = -INFINITY;
    struct kl_cursor c;
    kl_cursor_init_arg(&c, j->l->in);
    kl_cursor_seek(&c, row * j->length);
    for (int64_t at = 0; at < j->length; at += KL_TILE)
        kl_cursor_read(&c, kl_min64(KL_TILE, j->length - at), y + at);
    for (int64_t i = 0; i < j->length; i++) top = kl_max_f32(top, y[i].re);
    for (int64_t i = 0; i < j->length; i++) {
        const struct kl_c64 e = kl_c64_exp((struct kl_c64){y[i].re - top, y[i].im});
        re += (double)e.re;
        im += (double)e.im;
    }
    if (fabsf(top) != INFINITY) rest = kl_c64_log((struct kl_c64){(float)re, (float)im});
    for (int64_t i = 0; i < j->length; i++)
        y[i] = (struct kl_c64){y[i].re - top - rest.re, y[i].im - rest.im};
}

int kl_cpu_log_softmax(struct kl_launch *l) {
    const struct kl_arg *out = l->out;
    const int axis = ((const struct kl_axis_params *)l->params)->axis;
    if (out->size == 0) return KL_OK;
    struct job j = {.taker = {take}, .l = l, .length = out->dims[axis], .inner = 1};
    struct kl_launch alone = {.parallel = out->size >= KL_CHUNK ? l->parallel : NULL};
    if (out->dtype == KL_C64) {
        kl_run_tasks(&alone, out->size / j.length, row_c64, &j);
        return KL_OK;
    }
    for (int i = axis + 1; i < out->ndim; i++) j.inner *= out->dims[i];
    j.kind = out->dtype == KL_F64    ? &kind_f64
             : out->dtype == KL_BF16 ? &kind_bf16
             : out->dtype == KL_F16  ? &kind_f16
                                     : &kind_f32;
    j.made_bytes = (int)kl_dtype_size(kl_compute_dtype(out->dtype));
    const int64_t run = j.inner == 1 ? j.length : j.inner;
    j.nontemporal = run > SHORT && kl_nontemporal(out, run * (int64_t)kl_dtype_size(out->dtype));
    return kl_logsumexp_for(l, axis, &j.taker);
}
