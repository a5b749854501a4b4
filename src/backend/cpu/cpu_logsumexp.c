/* cpu_logsumexp.c - LOGSUMEXP over any set of axes: log(sum(exp(x))) in one pass, as the largest element so far and the sum of exponentials of distances from it.
 *
 * Elements are taken in blocks of BLOCK, in row-major order; within a block LANES partial sums (element i goes to lane i % LANES) are joined by halving. A block's sum is added to what
 * is so far, which is brought to the new largest element first and kept in double; segments are joined in order. So strides, threads and the way through memory change no bit.
 * NaN gives NaN; else +infinity gives that; nothing but -infinity gives that. 16-bit floats are computed in float32. Complex numbers: the largest real part is subtracted. */
#include <string.h>

#include "backend/cpu/cpu_axes.h"
#include "backend/cpu/cpu_exp.h"
#include "backend/cpu/cpu_extremes.h"
#include "backend/cpu/cpu_kernels.h"
#include "backend/cpu/cpu_lanes.h"
#include "base/alloc.h"
#include "base/op_params.h"

enum {
    LANES = 16,
    BLOCK = 256,
    SEGMENT = 1 << 16,
    WIDTH = 4096,   /* bytes of them at most */
    SIDE = 512,     /* columns side by side */
    GATHERED = 256, /* bytes of columns that are copied or converted at a time */
};

#define T float
#define NAME f32
#define EXP kl_exp_negative_f32
#define MAX kl_max_f32
#include "backend/cpu/cpu_logsumexp.inc"
#define T double
#define NAME f64
#define EXP kl_exp_negative_f64
#define MAX kl_max_f64
#include "backend/cpu/cpu_logsumexp.inc"

struct family {
    void (*add)(void *top, double *sum, const void *x, int64_t n);
    void (*columns)(void *top, double *sum, const void *const *rows, int64_t m, int64_t n);
    void (*join)(void *top, double *sum, const void *top_2, const double *sum_2, int64_t n);
    void (*finish)(void *top, const double *sum, int64_t n);
};
static const struct family f32 = {add_f32, columns_f32, join_f32, finish_f32};
static const struct family f64 = {add_f64, columns_f64, join_f64, finish_f64};

struct job {
    const struct kl_launch *l;
    const struct family *f;
    struct kl_split s;
    enum kl_dtype type;
    int bytes;
    bool columns, dense;
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
    const bool dense = in->layout & KL_ROW_CONTIGUOUS;
    struct kl_cursor c;
    union kl_tile raw, tile;
    kl_offsets(j->s.n_kept, j->s.kept_dims, j->s.kept_strides, begin, n, offsets);
    kl_cursor_init(&c, in->data, item, j->s.n_gone, j->s.gone_dims, j->s.gone_strides);
    for (int64_t o = 0; o < n; o++) {
        c.data = (char *)in->data + offsets[o] * item;
        c.filled = false;
        kl_cursor_seek(&c, from);
        for (int64_t at = 0; at < count; at += KL_TILE) {
            int64_t m = kl_min64(KL_TILE, count - at);
            const char *x = kl_cursor_next_as(&c, m, in->dtype, j->type, &raw, &tile);
            if (dense) kl_prefetch(c.next + m * item, m * item);
            for (int64_t b = 0; b < m; b += BLOCK)
                j->f->add(top + o * j->bytes, sum + o, x + b * j->bytes, kl_min64(BLOCK, m - b));
        }
    }
}

static void by_columns(const struct job *j, int64_t begin, int64_t n, int64_t from, int64_t count,
                       char *top, double *sum) {
    const struct kl_arg *in = j->l->in;
    int item = (int)kl_dtype_size(in->dtype);
    _Alignas(64) char copies[BLOCK][GATHERED];
    int64_t offsets[BLOCK], first = 0;
    const void *rows[BLOCK];
    struct kl_cursor c;
    union kl_tile raw;
    if (j->run) kl_offsets(j->s.n_kept, j->s.kept_dims, j->s.kept_strides, begin, 1, &first);
    kl_cursor_init(&c, in->data, item, j->s.n_kept, j->s.kept_dims, j->s.kept_strides);
    for (int64_t at = 0; at < count; at += BLOCK) {
        int64_t m = kl_min64(BLOCK, count - at);
        kl_offsets(j->s.n_gone, j->s.gone_dims, j->s.gone_strides, from + at, m, offsets);
        for (int64_t r = 0; r < m; r++) {
            char *base = (char *)in->data + (offsets[r] + first) * item;
            rows[r] = base;
            if (j->dense) continue;
            if (!j->run) {
                c.data = base;
                c.filled = false;
                kl_cursor_seek(&c, begin);
                rows[r] = kl_cursor_next(&c, n, &raw);
            }
            kl_convert(j->type, copies[r], in->dtype, rows[r], n);
            rows[r] = copies[r];
        }
        j->f->columns(top, sum, rows, m, n);
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
    _Alignas(64) char room[KL_TILE * 8];
    double sums[KL_TILE];
    int64_t at = segment * j->s.n_out + begin;
    char *top = j->tops ? j->tops + at * j->bytes : room;
    double *sum = j->tops ? j->sums + at : sums;
    empty(j, top, sum, n);
    (j->columns ? by_columns : by_rows)(j, begin, n, from, count, top, sum);
    if (!j->tops) store(j, begin, n, top, sum);
}

static int logsumexp(struct job *j) {
    enum { SHORT = 16 };
    char *memory = NULL;
    j->segments = kl_ceil_div(j->s.n_red, SEGMENT);
    j->columns = kl_split_columns(&j->s);
    if (j->columns) {
        int64_t side = kl_split_run(&j->s);
        j->run = side >= SHORT ? side : 0;
        j->dense = j->run && j->l->in->dtype == j->type;
        j->group = j->dense ? SIDE : GATHERED / j->bytes;
    } else {
        int64_t fit = KL_CHUNK / 8 / kl_min64(j->s.n_red, SEGMENT);
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
    struct kl_launch alone = {.parallel = j->l->in->size >= KL_CHUNK ? j->l->parallel : NULL};
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
    if (l->out->size == 0) return KL_OK;
    kl_split_axes(&j.s, l->in, p->n_axes, p->axes);
    if (l->out->dtype == KL_C64) {
        struct kl_launch alone = {.parallel = l->in->size >= KL_CHUNK ? l->parallel : NULL};
        kl_share(&alone, j.s.n_out, logsumexp_c64, &j);
        return KL_OK;
    }
    j.type = kl_compute_dtype(l->out->dtype);
    j.bytes = (int)kl_dtype_size(j.type);
    j.f = j.type == KL_F64 ? &f64 : &f32;
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
