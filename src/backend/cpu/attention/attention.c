/* attention.c - ATTENTION: softmax(scale q k' + mask) v without ever holding all scores. in = {q
 * (b, heads, n, d), k (b, kv heads, m, d), v (b, kv heads, m, e), mask?, sinks?}; out (b, heads, n,
 * e). Computed in float32, or in tile registers (attention_amx.h). Keys come in runs; each query
 * keeps its largest score so far, the sum of exp(score - largest) and the weighted sum of values,
 * which are scaled down when a larger score comes. docs/notes/cpu-kernels.md describes the method.
 * How work is cut into tasks depends on the shape alone. */
#include "backend/cpu/attention/attention.h"

#include <math.h>
#include <string.h>

#include "backend/cpu/cpu_kernels.h"
#include "backend/cpu/product/tiles_amx.h"
#include "base/op/op_params.h"

enum {
    QUERIES = KL_ATTENTION_QUERIES,
    TASKS = 64, /* with at least this many tasks, each has QUERIES queries; else half as many */
    FEW = 16,   /* with fewer queries that share keys, keys are not packed */
};

void kl_attention_load(const struct kl_arg *a, const char *from, int64_t n, float *to) {
    int item = (int)kl_dtype_size(a->dtype);
    union kl_tile raw;
    for (int64_t i = 0; i < n; i += KL_TILE) {
        int64_t some = kl_min64(KL_TILE, n - i);
        kl_copy_run(item, some, raw.bytes, item, from + i * a->strides[3] * item,
                    a->strides[3] * item);
        kl_convert(KL_F32, to + i, a->dtype, raw.bytes, some);
    }
}

const float *kl_attention_rows(const struct kl_arg *a, int64_t batch, int64_t head, int64_t first,
                               int64_t n, int64_t width, float *room, int64_t *line) {
    if (a->dtype == KL_F32 && a->strides[3] == 1) {
        *line = a->strides[2];
        return (const float *)kl_attention_row(a, batch, head, first);
    }
    for (int64_t i = 0; i < n; i++)
        kl_attention_load(a, kl_attention_row(a, batch, head, first + i), width, room + i * width);
    *line = width;
    return room;
}

void kl_attention_mask(const struct kl_attention_job *j, int64_t batch, struct kl_attention_query q,
                       int64_t first, int64_t n, float *scores, int64_t step) {
    const struct kl_arg *mask = j->mask;
    int64_t seen = kl_attention_last_seen(j, q.row);
    /* A query that sees keys must not depend on others even where the scores of all of them are
     * -infinity: which others are read at all follows from how queries are cut into panels. */
    const float hidden = seen < 0 ? KL_ATTENTION_MASKED : -INFINITY;
    for (int64_t i = seen + 1 > first ? seen + 1 - first : 0; i < n; i++) scores[i * step] = hidden;
    if (!mask) return;
    int item = (int)kl_dtype_size(mask->dtype);
    const char *from =
        kl_attention_row(mask, batch, q.head, q.row) + first * mask->strides[3] * item;
    float more[KL_ATTENTION_CHUNK];
    if (mask->dtype == KL_BOOL) {
        for (int64_t i = 0; i < n; i++)
            if (!from[i * mask->strides[3]]) scores[i * step] = KL_ATTENTION_MASKED;
        return;
    }
    kl_attention_load(mask, from, n, more);
    for (int64_t i = 0; i < n; i++) scores[i * step] += more[i];
}

float kl_attention_sink(const struct kl_attention_job *j, int64_t head) {
    float sink;
    kl_convert(KL_F32, &sink, j->sinks->dtype,
               (const char *)j->sinks->data +
                   head * j->sinks->strides[0] * (int64_t)kl_dtype_size(j->sinks->dtype),
               1);
    return sink;
}

void kl_attention_store(const struct kl_attention_job *j, int64_t batch,
                        struct kl_attention_query q, const float *sums, int64_t step, float total) {
    const struct kl_arg *out = j->l->out;
    int item = (int)kl_dtype_size(out->dtype);
    char *to = (char *)out->data + ((batch * j->heads + q.head) * j->n + q.row) * j->e * item;
    float y[KL_TILE];
    for (int64_t i = 0; i < j->e; i += KL_TILE) {
        int64_t n = kl_min64(KL_TILE, j->e - i);
        for (int64_t c = 0; c < n; c++) y[c] = sums[(i + c) * step] / total;
        kl_convert(out->dtype, to + i * item, KL_F32, y, n);
    }
}

int kl_cpu_attention(struct kl_launch *l) {
    const struct kl_attention_params *p = l->params;
    struct kl_attention_job j = {.l = l,
                                 .q = &l->in[0],
                                 .k = &l->in[1],
                                 .v = &l->in[2],
                                 .scale = p->scale,
                                 .causal = p->causal,
                                 .heads = l->in[0].dims[1],
                                 .kv_heads = l->in[1].dims[1],
                                 .n = l->in[0].dims[2],
                                 .m = l->in[1].dims[2],
                                 .d = l->in[0].dims[3],
                                 .e = l->in[2].dims[3]};
    int64_t batches = l->in[0].dims[0];
    if (l->out->size == 0) return KL_OK;
    if (p->has_mask) j.mask = &l->in[3];
    if (p->has_sinks) j.sinks = &l->in[3 + p->has_mask];
    if (j.m == 0) { /* there are no keys, so the result is 0 */
        memset(l->out->data, 0, (size_t)l->out->size * kl_dtype_size(l->out->dtype));
        return KL_OK;
    }
    j.group = j.heads / j.kv_heads;
    if (j.group * j.n < FEW) {
        KL_TRY(kl_attention_few(&j, batches));
    } else {
        j.queries = QUERIES;
        if (batches * j.kv_heads * kl_ceil_div(j.group * j.n, QUERIES) < TASKS) j.queries /= 2;
        j.tasks_each = kl_ceil_div(j.group * j.n, j.queries);
        enum kl_dtype dtype = l->out->dtype;
        int64_t padded = kl_round_up(j.d, KL_AMX_DEPTH) + kl_round_up(j.e, KL_AMX_ROWS);
        /* with more padding than an eighth, tile registers gain nothing */
        bool wide = 8 * padded <= 9 * (j.d + j.e);
        j.power = kl_attention_power(dtype, j.scale);
        if (kl_cpu_uses_amx() && j.q->dtype == dtype && j.k->dtype == dtype && j.v->dtype == dtype)
            j.bf16_parts = dtype == KL_BF16 ? j.power != 0 : dtype == KL_F32 && wide ? 3 : 0;
        kl_run_tasks(l, batches * j.kv_heads * j.tasks_each, kl_attention_many_task, &j);
    }
    return atomic_load(&j.no_memory) ? kl_fail_nomem(l->err) : KL_OK;
}
