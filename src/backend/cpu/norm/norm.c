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
#include "backend/cpu/vector/lanes.h"
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
    bool is_short; /* contiguous rows of at most one run are computed many at a time */
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

#if KL_HAS_SIMD
/* ---- rows of at most one run, KL_WIDE_LANES of them at a time: their sums are joined together,
 * and each row stays in registers or in the L1 cache ---- */
typedef int32_t bits __attribute__((vector_size(sizeof(kl_simd))));
#define KEPT(v, m) ((kl_simd)((bits)(v) & (bits)(m)))
/* 0 in lanes in which `keep` is 0. */
KL_INLINE kl_pair kept(kl_pair v, kl_pair keep) {
    return (kl_pair){KL_WIDE_2(KEPT, v.a, keep.a), KL_WIDE_2(KEPT, v.b, keep.b)};
}
/* Rows of n elements from x to y. Reads and writes a whole run from the beginning of each. */
static void norm_block(const struct job *j, float *y, const float *x) {
    const int64_t n = j->length;
    const float *weight = (const float *)j->weight, *bias = (const float *)j->bias;
    const kl_wide zero = kl_wide_set(0);
    kl_pair v[KL_WIDE_LANES], p[KL_WIDE_LANES];
    float lanes[KL_HALVES] = {0}, mean[KL_WIDE_LANES] = {0}, factor[KL_WIDE_LANES];
    memset(lanes, 0xff, (size_t)n * sizeof *lanes);
    const kl_pair keep = kl_pair_load(lanes);
    for (int k = 0; k < KL_WIDE_LANES; k++) {
        v[k] = kept(kl_pair_load(x + k * n), keep);
        p[k] = (kl_pair){kl_wide_add(v[k].a, zero), kl_wide_add(v[k].b, zero)};
    }
    for (int pass = !j->centred; pass < 2; pass++) {
        if (pass == 1)
            for (int k = 0; k < KL_WIDE_LANES; k++) {
                const kl_wide m = kl_wide_set(mean[k]);
                v[k] = (kl_pair){kl_wide_sub(v[k].a, m), kl_wide_sub(v[k].b, m)};
                const kl_pair d = kept(v[k], keep);
                p[k] = (kl_pair){kl_wide_mul(d.a, d.a), kl_wide_mul(d.b, d.b)};
            }
        kl_pair_sums_f32(pass ? factor : mean, p);
        for (int k = 0; !pass && k < KL_WIDE_LANES; k++) mean[k] /= (float)n;
    }
    for (int k = 0; k < KL_WIDE_LANES; k++) factor[k] = 1 / sqrtf(factor[k] / (float)n + j->eps);
    for (int k = 0; k < KL_WIDE_LANES; k++) {
        const kl_wide f = kl_wide_set(factor[k]);
        kl_pair to = {kl_wide_mul(v[k].a, f), kl_wide_mul(v[k].b, f)};
        if (weight) {
            const kl_pair w = kl_pair_load(weight);
            to = (kl_pair){kl_wide_mul(to.a, w.a), kl_wide_mul(to.b, w.b)};
        }
        if (bias) {
            const kl_pair b = kl_pair_load(bias);
            to = (kl_pair){kl_wide_add(to.a, b.a), kl_wide_add(to.b, b.b)};
        }
        kl_pair_store(y + k * n, to);
    }
}
static void norm_short(const struct job *j, char *out, const char *in, int64_t rows) {
    enum { ROOM = (KL_WIDE_LANES + 1) * KL_HALVES };
    _Alignas(KL_LINE) float from[ROOM] = {0}, to[ROOM];
    const enum kl_dtype dtype = j->l->in->dtype;
    const int64_t n = j->length, item = (int64_t)kl_dtype_size(dtype);
    for (int64_t r = 0; r < rows; r += KL_WIDE_LANES) {
        const int64_t some = kl_min64(KL_WIDE_LANES, rows - r) * n, beyond = (rows - r) * n - some;
        const char *x = in + r * n * item;
        char *y = out + r * n * item;
        if (dtype == KL_F32 && beyond >= KL_HALVES && in != out) {
            norm_block(j, (float *)(void *)y, (const float *)(const void *)x);
            continue;
        }
        kl_convert(KL_F32, from, dtype, x, some);
        norm_block(j, to, from);
        kl_convert(dtype, y, KL_F32, to, some);
    }
}
#endif

/* ---- float64: in 8 lanes ---- */
static double sum_f64(const double *x, int64_t n, double mean, bool squares) {
    enum { LANES = 8 };
    double lane[LANES] = {0};
    int64_t i = 0;
    if (squares)
        for (; i + LANES <= n; i += LANES)
            KL_LANES(k, LANES) lane[k] += (x[i + k] - mean) * (x[i + k] - mean);
    else
        for (; i + LANES <= n; i += LANES) KL_LANES(k, LANES) lane[k] += x[i + k] - mean;
    for (int k = 0; i + k < n; k++) {
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
#if KL_HAS_SIMD
    if (j->is_short) {
        norm_short(j, (char *)out->data + begin * bytes, (const char *)in->data + begin * bytes,
                   end - begin);
        return;
    }
#endif
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
    if (j->norm == norm_bf16 && !j->is_short)
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
    j.is_short =
        KL_HAS_SIMD && j.type == KL_F32 && j.length <= KL_HALVES && in->layout & KL_ROW_CONTIGUOUS;
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
