/* attention_few.c - ATTENTION of few queries: a task has KL_ATTENTION_CHUNK keys of one head, which
 * it reads once; the parts are joined at the end. See attention.h. */
#include "backend/cpu/attention/attention.h"

#include <string.h>

#include "backend/cpu/math/functions.h"
#include "backend/cpu/product/matvec.h"
#include "backend/cpu/vector/lanes.h"
#include "base/alloc.h"

enum {
    PHASES = 16, /* number of partial sums of weights */
    SHORT_WORK =
        1 << 19, /* multiply-adds, of some ten microseconds, for which no thread is woken */
};

/* Turns the scores of one query into weights, and writes the first two numbers of its state in a
 * task's part. A state has the largest score, the sum of weights, and the weighted sum of
 * values. */
static void weigh_few(float *scores, int64_t n, float *state) {
    float top = kl_largest_f32(scores, n, KL_ATTENTION_MASKED), lanes[PHASES] = {0};
    int64_t i = 0;
    KL_EACH(k, n) scores[k] = kl_exp_f32(scores[k] - top);
    for (; i + PHASES <= n; i += PHASES) KL_LANES(c, PHASES) lanes[c] += scores[i + c];
    for (int c = 0; i + c < n; c++) lanes[c] += scores[i + c];
    KL_HALVE_16(KL_LANE_SUM, lanes);
    state[0] = top;
    state[1] = lanes[0];
}

static void few_task(void *arg, int64_t task) {
    struct kl_attention_job *j = arg;
    int64_t batch = task / (j->kv_heads * j->tasks_each),
            kv_head = task / j->tasks_each % j->kv_heads;
    int64_t first = task % j->tasks_each * KL_ATTENTION_CHUNK,
            keys = kl_min64(KL_ATTENTION_CHUNK, j->m - first);
    int64_t queries = j->group * j->n, widest = j->d > j->e ? j->d : j->e, size = 2 + j->e;
    bool k_in_place = j->k->strides[3] == 1, v_in_place = j->v->strides[3] == 1;
    float *room = kl_malloc((size_t)(queries * (j->d + KL_ATTENTION_CHUNK) +
                                     (k_in_place && v_in_place ? 0 : KL_ATTENTION_CHUNK * widest)) *
                            sizeof(float));
    if (!room) {
        atomic_store(&j->no_memory, true);
        return;
    }
    float *q = room, *scores = q + queries * j->d, *raw = scores + queries * KL_ATTENTION_CHUNK;
    float *part = j->parts + task * queries * size;
    for (int64_t r = 0; r < queries; r++) {
        struct kl_attention_query at = kl_attention_query_of(j, kv_head, r);
        kl_attention_load(j->q, kl_attention_row(j->q, batch, at.head, at.row), j->d, q + r * j->d);
        for (int64_t i = 0; i < j->d; i++) q[r * j->d + i] *= j->scale;
    }
    /* First keys, then values: each is read once, for all queries. */
    for (int pass = 0; pass < 2; pass++) {
        const struct kl_arg *m = pass ? j->v : j->k;
        enum kl_dtype dtype = m->dtype;
        int64_t line = m->strides[2], width = pass ? j->e : j->d;
        const void *rows = kl_attention_row(m, batch, kv_head, first);
        if (!(pass ? v_in_place : k_in_place)) {
            rows = kl_attention_rows(m, batch, kv_head, first, keys, width, raw, &line);
            dtype = KL_F32;
        }
        if (pass) {
            kl_cpu_few_rows(false, dtype, queries, keys, width, scores, KL_ATTENTION_CHUNK, rows,
                            line, part + 2, size);
            continue;
        }
        kl_cpu_few_rows(true, dtype, queries, width, keys, q, width, rows, line, scores,
                        KL_ATTENTION_CHUNK);
        for (int64_t r = 0; r < queries; r++) {
            kl_attention_mask(j, batch, kl_attention_query_of(j, kv_head, r), first, keys,
                              scores + r * KL_ATTENTION_CHUNK, 1);
            weigh_few(scores + r * KL_ATTENTION_CHUNK, keys, part + r * size);
        }
    }
    kl_free(room);
}

/* Joins the parts that the tasks have computed for a query. */
static void join_parts(const struct kl_attention_job *j, int64_t batch, int64_t kv_head, int64_t r,
                       float *sums) {
    int64_t size = 2 + j->e, queries = j->group * j->n;
    const float *part =
        j->parts + ((batch * j->kv_heads + kv_head) * j->tasks_each * queries + r) * size;
    struct kl_attention_query q = kl_attention_query_of(j, kv_head, r);
    float top = j->sinks ? kl_attention_sink(j, q.head) : KL_ATTENTION_MASKED,
          total = j->sinks ? 1 : 0;
    for (int64_t b = 0; b < j->tasks_each; b++) {
        float x = part[b * queries * size];
        top = x > top ? x : top;
    }
    if (j->sinks) total = kl_exp_f32(kl_attention_sink(j, q.head) - top);
    memset(sums, 0, (size_t)j->e * sizeof *sums);
    for (int64_t b = 0; b < j->tasks_each; b++) {
        const float *p = part + b * queries * size;
        float w = kl_exp_f32(p[0] - top);
        total += p[1] * w;
        KL_EACH(i, j->e) sums[i] += p[2 + i] * w;
    }
    kl_attention_store(j, batch, q, sums, 1, total);
}

int kl_attention_few(struct kl_attention_job *j, int64_t batches) {
    int64_t queries = j->group * j->n, size = 2 + j->e;
    j->tasks_each = kl_ceil_div(j->m, KL_ATTENTION_CHUNK);
    int64_t tasks = batches * j->kv_heads * j->tasks_each;
    j->parts = kl_malloc((size_t)(tasks * queries * size + j->e) * sizeof(float));
    if (!j->parts) return kl_fail_nomem(j->l->err);
    const bool is_short = batches * j->kv_heads * queries * j->m * (j->d + j->e) <= SHORT_WORK;
    const struct kl_launch by = {.parallel = is_short ? j->l->parallel_short : j->l->parallel};
    kl_run_tasks(&by, tasks, few_task, j);
    float *sums = j->parts + tasks * queries * size;
    for (int64_t b = 0; b < batches && !j->no_memory; b++)
        for (int64_t h = 0; h < j->kv_heads; h++)
            for (int64_t r = 0; r < queries; r++) join_parts(j, b, h, r, sums);
    kl_free(j->parts);
    return KL_OK;
}
