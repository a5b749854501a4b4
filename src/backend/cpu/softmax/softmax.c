/* softmax.c - SOFTMAX over consecutive axes, taken as one: exp(x - max) / sum; row by row where
 * they are the last axes, else in strips of columns side by side. 16-bit floats are computed in
 * float32. Exponentials are taken around a power of two that most rows have in common (math/exp.h),
 * so that the largest element need not be known first; they stay in a cache until their sum is
 * known. A row with NaN, with +infinity, or with nothing but -infinity, is NaN throughout, as the
 * formula says. */
#include <stdatomic.h>

#include "backend/cpu/math/functions_f64.h"
#include "backend/cpu/cpu_kernels.h"
#include "backend/cpu/vector/lanes.h"
#include "backend/cpu/operand/nontemporal.h"
#include "backend/cpu/operand/scratch.h"
#include "backend/cpu/operand/tile.h"
#include "backend/cpu/softmax/softmax.h"
#include "base/op/op_params.h"

enum { LANES = 16 };

/* ---- float64 ---- */
/* Stores the exponentials of distances from `top`, and returns their sum. */
static double terms_f64(double *y, const double *x, int64_t n, double top) {
    double lane[LANES] = {0};
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        KL_LANES(k, LANES) lane[k] += y[i + k] = kl_exp_f64(x[i + k] - top);
    for (int k = 0; i + k < n; k++) lane[k] += y[i + k] = kl_exp_f64(x[i + k] - top);
    KL_HALVE_16(KL_LANE_SUM, lane);
    return lane[0];
}
static void softmax_f64(const struct kl_softmax_job *j, int64_t row) {
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
            if (pass == 0)
                top = kl_largest_f64(x, n, top);
            else
                total += terms_f64(y + at, x, n, top);
        }
    }
    KL_EACH(i, j->length) y[i] /= total;
}

/* ---- columns of float64 ---- */
/* Computes columns [from, from + n) of outer index `outer`. */
static void columns_f64(const struct kl_softmax_job *j, int64_t outer, int64_t from, int64_t n) {
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
            if (pass == 0)
                KL_EACH(k, n) top[k] = KL_LARGER(top[k], x[k]);
            else if (pass == 1)
                KL_EACH(k, n) total[k] += y[k] = kl_exp_f64(x[k] - top[k]);
            else
                KL_EACH(k, n) y[k] /= total[k];
        }
}

/* The "largest" complex number is the last one in the order of sorting. Any number that keeps the
 * exponentials small would do. */
static void softmax_c64(const struct kl_softmax_job *j, int64_t row) {
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
    struct kl_softmax_job *j = arg;
    const int64_t end = kl_min64((i + 1) * j->group, j->rows);
    for (int64_t row = i * j->group; row < end; row++) j->row(j, row);
}

static void columns_chunk(void *arg, int64_t i) {
    const struct kl_softmax_job *j = arg;
    int64_t place = i % j->strips * j->group, n = kl_min64(j->group, j->inner - place);
    (j->l->out->dtype == KL_F64 ? columns_f64 : kl_softmax_columns)(j, i / j->strips, place, n);
}

int kl_cpu_softmax(struct kl_launch *l) {
    const struct kl_softmax_params *p = l->params;
    struct kl_softmax_job j = {.l = l, .length = 1, .inner = 1};
    const struct kl_arg *out = l->out;
    if (out->size == 0) return KL_OK;
    for (int i = p->axis; i < out->ndim; i++)
        *(i < p->axis + p->n_axes ? &j.length : &j.inner) *= out->dims[i];
    j.rows = out->size / j.length / j.inner;
    struct kl_launch alone = {.parallel = out->size >= KL_CHUNK ? l->parallel : NULL};
    if (j.inner > 1) {
        int64_t width = KL_SOFTMAX_PANEL / j.length / KL_SOFTMAX_NARROW * KL_SOFTMAX_NARROW;
        if (width == 0) /* such strips do not stay in the L2 cache */
            for (width = KL_TILE; width > KL_SOFTMAX_NARROW && j.rows * j.inner < 4 * width;)
                width /= 2;
        j.group = kl_min64(width, KL_TILE);
        j.strips = kl_ceil_div(j.inner, j.group);
        kl_run_tasks(&alone, j.rows * j.strips, columns_chunk, &j);
        return KL_OK;
    }
    j.group = kl_ceil_div(KL_CHUNK / 4, j.length);
    j.row = out->dtype == KL_C64 ? softmax_c64 : softmax_f64;
    j.nontemporal = kl_nontemporal(out, j.length * (int64_t)kl_dtype_size(out->dtype));
    const bool wide = out->dtype == KL_C64 || out->dtype == KL_F64;
    kl_run_tasks(&alone, kl_ceil_div(j.rows, j.group), wide ? softmax_chunk : kl_softmax_rows, &j);
    return atomic_load(&j.no_memory) ? kl_fail_nomem(l->err) : KL_OK;
}
