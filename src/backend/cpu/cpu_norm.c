/* cpu_norm.c - RMS_NORM: x / sqrt(mean(x^2) + eps), times a weight; LAYER_NORM: the same of the distance from the mean, and a bias. Over the last axis, row by row, a row
 * being in the cache for the second and third look at it. 16-bit floats are computed in float32 and rounded once; they, and strided rows, wait in a row of scratch memory. */
#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "backend/cpu/cpu_kernels.h"
#include "backend/cpu/cpu_tile.h"
#include "base/alloc.h"
#include "base/op_params.h"

#define T float
#define NAME f32
#define SQRT sqrtf
#include "backend/cpu/cpu_norm.inc"
#define T double
#define NAME f64
#define SQRT sqrt
#include "backend/cpu/cpu_norm.inc"

struct job {
    const struct kl_launch *l;
    enum kl_dtype type;
    int64_t length, rows, group;
    bool centred;
    float eps;
    char *weight, *bias; /* of type, dense; NULL: none */
    atomic_bool no_memory;
};

/* n elements of c as type, to dst. */
static void read_as(struct kl_cursor *c, int64_t n, enum kl_dtype from, enum kl_dtype to,
                    char *dst) {
    union kl_tile raw;
    for (int64_t at = 0; at < n; at += KL_TILE) {
        int64_t m = kl_min64(KL_TILE, n - at);
        kl_convert(to, dst + at * (int64_t)kl_dtype_size(to), from, kl_cursor_next(c, m, &raw), m);
    }
}

static void norm_chunk(void *arg, int64_t i) {
    struct job *j = arg;
    const struct kl_arg *in = j->l->in, *out = j->l->out;
    int64_t begin = i * j->group, end = kl_min64(begin + j->group, j->rows);
    int item = (int)kl_dtype_size(in->dtype);
    bool dense = in->dtype == j->type && in->layout & KL_ROW_CONTIGUOUS;
    struct kl_cursor c;
    char *row = NULL;
    if (!dense) {
        row = kl_malloc((size_t)j->length * kl_dtype_size(j->type));
        if (!row) {
            atomic_store_explicit(&j->no_memory, true, memory_order_relaxed);
            return;
        }
        kl_cursor_init_arg(&c, in);
        kl_cursor_seek(&c, begin * j->length);
    }
    for (int64_t r = begin; r < end; r++) {
        const char *x = (const char *)in->data + r * j->length * item, *next = x;
        char *dst = (char *)out->data + r * j->length * item;
        bool same = in->dtype == j->type;
        double shift, factor; /* of type */
        if (!dense) {
            read_as(&c, j->length, in->dtype, j->type, row);
            x = row;
        }
        if (j->type == KL_F64)
            measure_f64(x, j->length, j->centred, j->eps, &shift, &factor);
        else
            measure_f32(x, j->length, j->centred, j->eps, &shift, &factor);
        /* Memory is idle while a row is computed: meanwhile the next one is asked for. */
        if (r + 1 < end && in->layout & KL_ROW_CONTIGUOUS) next += j->length * item;
        for (int64_t at = 0; at < j->length; at += KL_TILE) {
            union kl_tile tile;
            int64_t n = kl_min64(KL_TILE, j->length - at);
            void *y = same ? (void *)(dst + at * item) : (void *)&tile;
            for (int64_t byte = at * item; byte < (at + n) * item; byte += 64)
                __builtin_prefetch(next + byte);
            (j->type == KL_F64 ? apply_f64 : apply_f32)(y, x, j->weight, j->bias, at, n, &shift,
                                                        &factor);
            if (!same) kl_convert(out->dtype, dst + at * item, j->type, y, n);
        }
    }
    kl_free(row);
}

/* A weight or a bias as it is computed with. */
static char *dense_of(const struct job *j, const struct kl_arg *a) {
    struct kl_cursor c;
    char *copy = kl_malloc((size_t)j->length * kl_dtype_size(j->type));
    if (!copy) return NULL;
    kl_cursor_init_arg(&c, a);
    kl_cursor_seek(&c, 0);
    read_as(&c, j->length, a->dtype, j->type, copy);
    return copy;
}

int kl_cpu_norm(struct kl_launch *l) {
    const struct kl_norm_params *p = l->params;
    const struct kl_arg *in = l->in;
    struct job j = {.l = l, .centred = l->op == KL_OP_LAYER_NORM, .eps = p->eps};
    if (in->size == 0) return KL_OK;
    j.type = kl_compute_dtype(in->dtype);
    j.length = in->dims[in->ndim - 1];
    j.rows = in->size / j.length;
    j.group = kl_ceil_div(KL_CHUNK / 4, j.length);
    if (p->has_weight) j.weight = dense_of(&j, &l->in[1]);
    if (p->has_bias) j.bias = dense_of(&j, &l->in[1 + p->has_weight]);
    bool failed = (p->has_weight && !j.weight) || (p->has_bias && !j.bias);
    struct kl_launch alone = {.parallel = in->size >= KL_CHUNK ? l->parallel : NULL};
    if (!failed) kl_share(&alone, kl_ceil_div(j.rows, j.group), norm_chunk, &j);
    kl_free(j.weight);
    kl_free(j.bias);
    return failed || atomic_load(&j.no_memory) ? kl_fail_nomem(l->err) : KL_OK;
}
