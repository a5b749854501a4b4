/* log_softmax.c - LOG_SOFTMAX over the last axis: (x - top) - log(sum of exp(x - top)), where top
 * is the largest element of the row; 16-bit floats in float32, with one rounding at the end.
 * Exponentials are summed in 16 lanes, and the sums of each tile in double. Of an infinite top no
 * sum is taken: x - top is what the formula tends to. NaN counts as the largest element, so it
 * takes its whole row. */
#include "backend/cpu/cpu_kernels.h"
#include "backend/cpu/math/complex.h"
#include "backend/cpu/math/exp.h"
#include "backend/cpu/math/extremes.h"
#include "backend/cpu/operand/tile.h"
#include "backend/cpu/vector/lanes.h"

enum { LANES = 16 };

struct job {
    const struct kl_launch *l;
    int64_t length, rows, group; /* elements of a row; number of rows; rows of a task */
};

#define HIGHER(a, b) ((b) > (a) || (b) != (b) ? (b) : (a))

/* For the n elements of a tile: highest_T is the larger of top and the largest, total_T the sum of
 * the exponentials, less_T writes the results, where y may be x. */
#define REAL(T, EXP)                                                                               \
    static T highest_##T(const T *x, int64_t n, T top) {                                           \
        T lane[LANES];                                                                             \
        int64_t i = 0;                                                                             \
        KL_LANES(k, LANES) lane[k] = top;                                                          \
        for (; i + LANES <= n; i += LANES) KL_LANES(k, LANES) lane[k] = HIGHER(lane[k], x[i + k]); \
        for (int k = 0; i + k < n; k++) lane[k] = HIGHER(lane[k], x[i + k]);                       \
        KL_HALVE_16(HIGHER, lane);                                                                 \
        return lane[0];                                                                            \
    }                                                                                              \
    static double total_##T(const T *x, int64_t n, T top) {                                        \
        T lane[LANES] = {0};                                                                       \
        int64_t i = 0;                                                                             \
        for (; i + LANES <= n; i += LANES) KL_LANES(k, LANES) lane[k] += EXP(x[i + k] - top);      \
        for (int k = 0; i + k < n; k++) lane[k] += EXP(x[i + k] - top);                            \
        KL_HALVE_16(KL_LANE_SUM, lane);                                                            \
        return (double)lane[0];                                                                    \
    }                                                                                              \
    static void less_##T(T *y, const T *x, int64_t n, T top, T rest) {                             \
        for (int64_t i = 0; i < n; i++) y[i] = x[i] - top - rest;                                  \
    }
/* defines highest_float, total_float, less_float */
REAL(float, kl_exp_negative_f32)
/* defines highest_double, total_double, less_double */
REAL(double, kl_exp_negative_f64)
#undef REAL

static void row_f64(const struct job *j, int64_t row) {
    double *y = (double *)j->l->out->data + row * j->length, top = -INFINITY, rest = 0;
    struct kl_cursor c;
    union kl_tile raw;
    kl_cursor_init_arg(&c, j->l->in);
    for (int pass = 0; pass < 3; pass++) {
        kl_cursor_seek(&c, row * j->length);
        for (int64_t at = 0; at < j->length; at += KL_TILE) {
            const int64_t n = kl_min64(KL_TILE, j->length - at);
            const double *x = kl_cursor_next(&c, n, &raw);
            if (pass == 0)
                top = highest_double(x, n, top);
            else if (pass == 1)
                rest += total_double(x, n, top);
            else
                less_double(y + at, x, n, top, rest);
        }
        if (pass == 1) rest = fabs(top) == INFINITY ? 0 : log(rest);
    }
}

static void row_f32(const struct job *j, int64_t row) {
    const struct kl_arg *in = j->l->in, *out = j->l->out;
    const enum kl_dtype type = out->dtype;
    char *y = (char *)out->data + row * j->length * (int64_t)kl_dtype_size(type);
    float top = -INFINITY, rest = 0;
    double total = 0;
    struct kl_cursor c;
    union kl_tile raw, wide, made;
    kl_cursor_init_arg(&c, in);
    for (int pass = 0; pass < 3; pass++) {
        kl_cursor_seek(&c, row * j->length);
        for (int64_t at = 0; at < j->length; at += KL_TILE) {
            const int64_t n = kl_min64(KL_TILE, j->length - at);
            const float *x = kl_cursor_next_as(&c, n, type, KL_F32, &raw, &wide);
            if (pass == 0) {
                top = highest_float(x, n, top);
            } else if (pass == 1) {
                total += total_float(x, n, top);
            } else if (type == KL_F32) {
                less_float((float *)y + at, x, n, top, rest);
            } else {
                less_float((float *)made.bytes, x, n, top, rest);
                kl_convert(type, y + at * (int64_t)kl_dtype_size(type), KL_F32, made.bytes, n);
            }
        }
        if (pass == 1) rest = fabsf(top) == INFINITY ? 0 : (float)log(total);
    }
}

/* top is the largest real part. */
static void row_c64(const struct job *j, int64_t row) {
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

static void rows_of(void *arg, int64_t i) {
    const struct job *j = arg;
    const enum kl_dtype type = j->l->out->dtype;
    const int64_t end = kl_min64((i + 1) * j->group, j->rows);
    for (int64_t row = i * j->group; row < end; row++)
        (type == KL_C64 ? row_c64 : type == KL_F64 ? row_f64 : row_f32)(j, row);
}

int kl_cpu_log_softmax(struct kl_launch *l) {
    const struct kl_arg *out = l->out;
    if (out->size == 0) return KL_OK;
    struct job j = {.l = l, .length = out->dims[out->ndim - 1]};
    struct kl_launch alone = {.parallel = out->size >= KL_CHUNK ? l->parallel : NULL};
    j.rows = out->size / j.length;
    j.group = kl_ceil_div(KL_CHUNK / 4, j.length);
    kl_run_tasks(&alone, kl_ceil_div(j.rows, j.group), rows_of, &j);
    return KL_OK;
}
