/* norm.c - RMS_NORM: x / sqrt(mean(x^2) + eps), times a weight. LAYER_NORM: the same formula for
 * the distance from the mean, plus a bias. Both work on the last axis, row by row; a row is in the
 * cache when it is read for the second and the third time. 16-bit floats become float32 in
 * registers and are rounded once. Rows that are not contiguous are copied to scratch memory. */
#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "backend/cpu/cpu_kernels.h"
#include "backend/cpu/operand/nontemporal.h"
#include "backend/cpu/operand/scratch.h"
#include "backend/cpu/operand/tile.h"
#include "backend/cpu/vector/wide.h"
#include "base/alloc.h"
#include "base/op/op_params.h"

struct job {
    const struct kl_launch *l;
    /* The function for one row. */
    void (*norm)(const struct job *j, void *out, const void *in, const void *next);
    enum kl_dtype type;
    int64_t length, rows, group;
    bool centred, nontemporal;
    float eps;
    char *weight, *bias; /* of the compute type, contiguous, with room for whole runs; NULL: none */
    atomic_bool no_memory;
};

#define IN_ORDER(k) (k)
#define SAME(x) (x)
#define U float
#define NAME f32
#define VALUE SAME
#define NARROW SAME
#define PLACE IN_ORDER
/* defines sum_f32, apply_f32, norm_f32, last_f32 */
#include "backend/cpu/norm/norm.inc"
#define U uint16_t
#define NAME bf16
#define VALUE kl_bf16_load
#define NARROW kl_bf16_store
#define PLACE kl_place_bf16
/* defines sum_bf16, apply_bf16, norm_bf16, last_bf16 */
#include "backend/cpu/norm/norm.inc"
#define U uint16_t
#define NAME f16
#define VALUE kl_f16_load
#define NARROW kl_f16_store
#define PLACE IN_ORDER
/* defines sum_f16, apply_f16, norm_f16, last_f16 */
#include "backend/cpu/norm/norm.inc"

/* ---- float64: in 8 lanes ---- */
static double sum_f64(const double *x, int64_t n, double mean, bool squares) {
    enum { LANES = 8 };
    double lane[LANES] = {0};
    for (int64_t i = 0; i < n; i += LANES)
        for (int k = 0; k < LANES && i + k < n; k++) {
            double v = x[i + k] - mean;
            lane[k] += squares ? v * v : v;
        }
    for (int step = LANES / 2; step; step /= 2)
        for (int k = 0; k < step; k++) lane[k] += lane[k + step];
    return lane[0];
}
static void norm_f64(const struct job *j, void *out, const void *in, const void *next) {
    const int64_t n = j->length;
    const double *x = in, *weight = (const double *)j->weight, *bias = (const double *)j->bias;
    double *y = out, mean = j->centred ? sum_f64(x, n, 0, false) / (double)n : 0;
    double factor = 1 / sqrt(sum_f64(x, n, mean, true) / (double)n + (double)j->eps);
    for (int64_t at = 0; at < n; at += KL_TILE) {
        const int64_t m = kl_min64(at + KL_TILE, n);
        kl_prefetch((const double *)next + at, (m - at) * (int64_t)sizeof *x);
        for (int64_t i = at; i < m; i++) y[i] = (x[i] - mean) * factor;
        for (int64_t i = at; weight && i < m; i++) y[i] *= weight[i];
        for (int64_t i = at; bias && i < m; i++) y[i] += bias[i];
    }
}

static void norm_chunk(void *arg, int64_t i) {
    struct job *j = arg;
    const struct kl_arg *in = j->l->in, *out = j->l->out;
    int64_t begin = i * j->group, end = kl_min64(begin + j->group, j->rows);
    const int64_t bytes = j->length * (int64_t)kl_dtype_size(in->dtype);
    const bool dense = in->layout & KL_ROW_CONTIGUOUS;
    struct kl_cursor c;
    char *row = NULL;
    if (!dense) {
        row = kl_malloc((size_t)bytes);
        if (!row) {
            atomic_store_explicit(&j->no_memory, true, memory_order_relaxed);
            return;
        }
        kl_cursor_init_arg(&c, in);
        kl_cursor_seek(&c, begin * j->length);
    }
    for (int64_t r = begin; r < end; r++) {
        const char *x = row;
        if (dense)
            x = (const char *)in->data + r * bytes;
        else
            kl_cursor_read(&c, j->length, row);
        j->norm(j, (char *)out->data + r * bytes, x, r + 1 < end && dense ? x + bytes : x);
    }
    if (j->nontemporal) kl_nontemporal_end();
    kl_free(row);
}

/* A weight or a bias in the compute type, aligned to a cache line, since a vector that crosses two
 * lines takes twice as long. It is in *memory, which the caller frees. */
static char *dense_of(const struct job *j, const struct kl_arg *a, void **memory) {
    const int64_t size = (int64_t)kl_dtype_size(j->type),
                  n = kl_ceil_div(j->length, KL_HALVES) * KL_HALVES;
    struct kl_cursor c;
    union kl_tile raw;
    char *copy = kl_malloc((size_t)(n * size) + KL_LINE);
    if (!copy) return NULL;
    *memory = copy;
    copy = (char *)(((uintptr_t)copy + KL_LINE - 1) / KL_LINE * KL_LINE);
    memset(copy + j->length * size, 0, (size_t)((n - j->length) * size));
    kl_cursor_init_arg(&c, a);
    kl_cursor_seek(&c, 0);
    for (int64_t at = 0; at < j->length; at += KL_TILE) {
        int64_t m = kl_min64(KL_TILE, j->length - at);
        kl_convert(j->type, copy + at * size, a->dtype, kl_cursor_next(&c, m, &raw), m);
    }
#if KL_HAS_SIMD
    if (j->norm == norm_bf16)
        for (int64_t at = 0; at < n; at += KL_HALVES) {
            float was[KL_HALVES], *run = (float *)copy + at;
            memcpy(was, run, sizeof was);
            for (int k = 0; k < KL_HALVES; k++) run[kl_place_bf16(k)] = was[k];
        }
#endif
    return copy;
}

int kl_cpu_norm(struct kl_launch *l) {
    const struct kl_norm_params *p = l->params;
    const struct kl_arg *in = l->in;
    struct job j = {.l = l, .centred = l->op == KL_OP_LAYER_NORM, .eps = p->eps};
    if (in->size == 0) return KL_OK;
    j.type = kl_compute_dtype(in->dtype);
    j.norm = in->dtype == KL_F64    ? norm_f64
             : in->dtype == KL_BF16 ? norm_bf16
             : in->dtype == KL_F16  ? norm_f16
                                    : norm_f32;
    j.length = in->dims[in->ndim - 1];
    j.rows = in->size / j.length;
    j.nontemporal = kl_nontemporal(l->out, j.length * (int64_t)kl_dtype_size(in->dtype)) &&
                    j.length % KL_HALVES == 0;
    j.group = kl_ceil_div(KL_CHUNK / 4, j.length);
    void *memory[2] = {NULL, NULL};
    if (p->has_weight) j.weight = dense_of(&j, &l->in[1], &memory[0]);
    if (p->has_bias) j.bias = dense_of(&j, &l->in[1 + p->has_weight], &memory[1]);
    bool failed = (p->has_weight && !j.weight) || (p->has_bias && !j.bias);
    struct kl_launch alone = {.parallel = in->size >= KL_CHUNK ? l->parallel : NULL};
    if (!failed) kl_run_tasks(&alone, kl_ceil_div(j.rows, j.group), norm_chunk, &j);
    kl_free(memory[0]);
    kl_free(memory[1]);
    return failed || atomic_load(&j.no_memory) ? kl_fail_nomem(l->err) : KL_OK;
}
