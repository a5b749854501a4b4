/* cpu_softmax.c - SOFTMAX over axes that follow each other, taken as one: exp(x - max) / sum; row by row where they are the last, else in strips of columns side by side. 16-bit floats are
 * computed in float32. A row with NaN, or with nothing but -infinity, or with +infinity, is NaN all
 * through, as the formula says. */
#include <string.h>

#include "backend/cpu/cpu_exp.h"
#include "backend/cpu/cpu_extremes.h"
#include "backend/cpu/cpu_kernels.h"
#include "backend/cpu/cpu_lanes.h"
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
    int64_t inner, strips;       /* columns side by side; tasks that they make */
};

#define T float
#define TYPE KL_F32
#define NAME f32
#define EXP kl_exp_negative_f32
#define PER quotient
#include "backend/cpu/cpu_softmax.inc"
#define T double
#define TYPE KL_F64
#define NAME f64
#define EXP kl_exp_negative_f64
#define PER(y, x, inverse) ((void)(inverse), (y) / (x))
#include "backend/cpu/cpu_softmax.inc"

/* ---- rows of 16-bit floats: they become float32 in registers ---- */
enum {
    PIECE = 2048, /* elements */
    WAITING =
        8192 /* whose exponentials the L1 cache keeps; of a longer row they are computed twice */
};
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
    for (int64_t row = i * j->group; row < end; row++) j->row(j, row);
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
        enum {
            NEAR = 1 << 17,
            STEP = 16
        }; /* elements of a strip that stay in the L2 cache; a cache line */
        int64_t width = NEAR / j.length / STEP * STEP;
        j.group = width > KL_TILE ? KL_TILE : width < STEP ? STEP : width;
        j.strips = kl_ceil_div(j.inner, j.group);
        kl_share(&alone, j.rows * j.strips, columns_chunk, &j);
        return KL_OK;
    }
    j.row = out->dtype == KL_C64    ? softmax_c64
            : out->dtype == KL_F64  ? softmax_f64
            : out->dtype == KL_BF16 ? softmax_bf16
            : out->dtype == KL_F16  ? softmax_f16
                                    : softmax_f32;
    j.group = kl_ceil_div(KL_CHUNK / 4, j.length);
    kl_share(&alone, kl_ceil_div(j.rows, j.group), softmax_chunk, &j);
    return KL_OK;
}
