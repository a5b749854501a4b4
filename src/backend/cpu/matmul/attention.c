/* attention.c - ATTENTION: softmax(scale q k' + mask) v without ever holding all scores. in = {q
 * (b, heads, n, d), k (b, kv heads, m, d), v (b, kv heads, m, e), mask?, sinks?}; out (b, heads, n,
 * e). Computed in float32, or in tile registers (attention_amx.h). Keys come in runs; each query
 * keeps its largest score so far, the sum of exp(score - largest) and the weighted sum of values,
 * which are scaled down when a larger score comes. docs/notes/cpu-kernels.md describes the method.
 * How work is cut into tasks depends on the shape alone. */
#include <float.h>
#include <stdatomic.h>
#include <string.h>

#include "backend/cpu/matmul/pack_amx.h"
#include "backend/cpu/cpu_kernels.h"
#include "backend/cpu/vector/lanes.h"
#include "backend/cpu/math/functions.h"
#include "backend/cpu/matmul/matvec.h"
#include "backend/cpu/matmul/products.h"
#include "backend/cpu/operand/scratch.h"
#include "base/alloc.h"
#include "base/op_params.h"

enum {
    WIDTH = 2 * KL_VECTOR / 4, /* queries of a panel */
    QUERIES = 512,             /* of a task, at most: the more, the fewer times keys are packed */
    TASKS = 64, /* from so many tasks on, each has QUERIES of them; else half as many */
    KEYS = 8 * KL_TILE_ROWS, /* of a run */
    AMX_KEYS = 256,          /* of a run, in tile registers */
    BF16_PARTS_KEYS = 128,   /* the same for float32: the weights of a panel stay in L1 */
    /* products of a task; smaller ones of float32 are computed in vectors */
    BF16_PARTS_FROM = 1 << 20,
    FEW = 16, /* queries that share keys; fewer are computed without packing */
    CHUNK = 512,
    PHASES = 16 /* partial sums of weights */
};
/* the score of a masked key. Where all keys are masked, all weigh the same, as in MLX */
static const float masked = -FLT_MAX;

struct job {
    const struct kl_launch *l;
    const struct kl_arg *q, *k, *v, *mask, *sinks;
    float scale;
    bool causal;
    int bf16_parts; /* bfloat16 parts of an element in tile registers; 0 where those are not used */
    int64_t heads, kv_heads, group, n, m, d, e;
    /* of a task; the number of tasks for each batch element and kv head */
    int64_t queries, tasks_each;
    float *parts; /* few queries: for each task and query the largest score, the sum, e values */
    _Atomic(bool) no_memory;
};

static int64_t kl_round_up(int64_t n, int64_t unit) {
    return kl_ceil_div(n, unit) * unit;
}

static const char *row_of(const struct kl_arg *a, int64_t batch, int64_t head, int64_t row) {
    static const double nothing[8]; /* rows of width 0 may have no address */
    if (a->size == 0) return (const char *)nothing;
    return (const char *)a->data +
           (batch * a->strides[0] + head * a->strides[1] + row * a->strides[2]) *
               (int64_t)kl_dtype_size(a->dtype);
}

/* Loads n elements as float32. */
static void load(const struct kl_arg *a, const char *from, int64_t n, float *to) {
    int item = (int)kl_dtype_size(a->dtype);
    union kl_tile raw;
    for (int64_t i = 0; i < n; i += KL_TILE) {
        int64_t some = kl_min64(KL_TILE, n - i);
        kl_copy_run(item, some, raw.bytes, item, from + i * a->strides[3] * item,
                    a->strides[3] * item);
        kl_convert(KL_F32, to + i, a->dtype, raw.bytes, some);
    }
}

/* Rows first .. first + n - 1 as float32, `width` elements each: in place where they are contiguous
 * float32, else copied to `room`. *line: elements from one row to the next. */
static const float *rows_f32(const struct kl_arg *a, int64_t batch, int64_t head, int64_t first,
                             int64_t n, int64_t width, float *room, int64_t *line) {
    if (a->dtype == KL_F32 && a->strides[3] == 1) {
        *line = a->strides[2];
        return (const float *)row_of(a, batch, head, first);
    }
    for (int64_t i = 0; i < n; i++)
        load(a, row_of(a, batch, head, first + i), width, room + i * width);
    *line = width;
    return room;
}

/* Query number r of those that share keys. */
struct query {
    int64_t head, row;
};
static struct query query_of(const struct job *j, int64_t kv_head, int64_t r) {
    return (struct query){kv_head * j->group + r / j->n, r % j->n};
}
/* The last key that a query sees. Without a causal mask that is the last of all keys. */
static int64_t last_seen(const struct job *j, int64_t row) {
    return j->causal ? row + j->m - j->n : j->m - 1;
}

/* Applies the mask of one query to its scores of n keys from `first` on; the scores are `step`
 * apart. */
static void apply_mask(const struct job *j, int64_t batch, struct query q, int64_t first, int64_t n,
                       float *scores, int64_t step) {
    const struct kl_arg *mask = j->mask;
    int64_t seen = last_seen(j, q.row);
    for (int64_t i = seen + 1 > first ? seen + 1 - first : 0; i < n; i++) scores[i * step] = masked;
    if (!mask) return;
    int item = (int)kl_dtype_size(mask->dtype);
    const char *from = row_of(mask, batch, q.head, q.row) + first * mask->strides[3] * item;
    float more[CHUNK];
    if (mask->dtype == KL_BOOL) {
        for (int64_t i = 0; i < n; i++)
            if (!from[i * mask->strides[3]]) scores[i * step] = masked;
        return;
    }
    load(mask, from, n, more);
    for (int64_t i = 0; i < n; i++) scores[i * step] += more[i];
}

static float sink_of(const struct job *j, int64_t head) {
    float sink;
    kl_convert(KL_F32, &sink, j->sinks->dtype,
               (const char *)j->sinks->data +
                   head * j->sinks->strides[0] * (int64_t)kl_dtype_size(j->sinks->dtype),
               1);
    return sink;
}

/* Stores e weighted sums, which are `step` apart, divided by the sum of the weights. */
static void store(const struct job *j, int64_t batch, struct query q, const float *sums,
                  int64_t step, float total) {
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

/* ---- many queries ---- */

struct panel {
    float largest[WIDTH], total[WIDTH], scale[WIDTH];
    int64_t n, first_seen, last_seen; /* the fewest and the most keys that its queries see */
    bool begun;                       /* the sums hold values already */
};

/* Turns the scores of n keys by WIDTH queries into weights, and the panel's sums of weights into
 * sums for the new largest scores. */
static void weigh(struct panel *p, float *scores, int64_t n) {
    float top[WIDTH], total[WIDTH];
    memcpy(top, p->largest, sizeof top);
    for (int64_t i = 0; i < n; i++) {
        const float *s = scores + i * WIDTH;
        KL_EACH(c, WIDTH) top[c] = s[c] > top[c] ? s[c] : top[c];
    }
    KL_EACH(c, WIDTH) {
        p->scale[c] = kl_exp_f32(p->largest[c] - top[c]);
        total[c] = p->total[c] * p->scale[c];
    }
    for (int64_t i = 0; i < n; i++) {
        float *s = scores + i * WIDTH;
        KL_EACH(c, WIDTH) {
            s[c] = kl_exp_f32(s[c] - top[c]);
            total[c] += s[c];
        }
    }
    memcpy(p->largest, top, sizeof top);
    memcpy(p->total, total, sizeof total);
}

static void rescale(float *sums, int64_t n, const float *scale) {
    bool same = true;
    for (int c = 0; c < WIDTH; c++) same = same && scale[c] == 1;
    if (same) return;
    for (int64_t i = 0; i < n; i++) {
        float *s = sums + i * WIDTH;
        KL_EACH(c, WIDTH) s[c] *= scale[c];
    }
}

struct room { /* memory of a task, in floats, aligned to vectors */
    float *q, *k, *v, *sums, *scores, *raw;
    int64_t q_panel, sums_panel, d, e; /* padded to whole tiles */
    int64_t run;                       /* keys of a run */
    int bf16_parts;                    /* bfloat16 parts in tile registers; 0: in vectors */
    bool few;                          /* use few tile registers: see kl_amx_begin */
};

#ifdef __AVX512F__
#include "backend/cpu/matmul/attention_amx.h"
#endif

static void panel_run(const struct job *j, struct panel *p, const struct room *r, int64_t at,
                      int64_t batch, int64_t kv_head, int64_t first_query, int64_t first,
                      int64_t n) {
    float *q = r->q + at * r->q_panel, *sums = r->sums + at * r->sums_panel;
    n = kl_min64(n, p->last_seen + 1 - first);
    bool masks = j->mask || first + n - 1 > p->first_seen;
#ifdef __AVX512F__
    float scale = j->scale;
    if (r->bf16_parts) {
        for (int64_t i = 0; i < n; i += KL_AMX_ROWS) {
            struct kl_amx_place to = {r->scores + i * WIDTH, WIDTH};
            struct kl_amx_left keys = packed_left(r, r->k, i, r->d);
            kl_amx_square(r->few, r->bf16_parts, r->d / KL_AMX_DEPTH, &keys, (const uint16_t *)q,
                          NULL, &to);
        }
        if (r->bf16_parts == 1 && (masks || !(scale > 0))) {
            KL_EACH(i, n * WIDTH) r->scores[i] *= scale;
            scale = 1;
        }
    }
#endif
    for (int64_t i = 0; !r->bf16_parts && i < n; i += KL_TILE_ROWS) {
        float *to = r->scores + i * WIDTH;
        kl_tile_f32(KL_TILE_ROWS, j->d, r->k + i * j->d, q, to, WIDTH, false, to, (const char *)q,
                    0);
    }
    if (masks)
        for (int64_t c = 0; c < p->n; c++)
            apply_mask(j, batch, query_of(j, kv_head, first_query + at * WIDTH + c), first, n,
                       r->scores + c, WIDTH);
#ifdef __AVX512F__
    if (r->bf16_parts) {
        if (r->bf16_parts == 1) {
            weigh_pairs(p, r->scores, n, scale, (uint32_t *)r->raw);
        } else {
            weigh(p, r->scores, n);
            pack_weights(r, n);
        }
        if (p->begun) rescale(sums, j->e, p->scale);
        for (int64_t i = 0; i < r->e; i += KL_AMX_ROWS) {
            struct kl_amx_place to = {sums + i * WIDTH, WIDTH};
            struct kl_amx_left values = packed_left(r, r->v, i, r->run);
            kl_amx_square(r->few, r->bf16_parts, kl_ceil_div(n, KL_AMX_DEPTH), &values,
                          (const uint16_t *)r->raw, p->begun ? &to : NULL, &to);
        }
        p->begun = true;
        return;
    }
#endif
    weigh(p, r->scores, n);
    rescale(sums, j->e, p->scale);
    for (int64_t i = 0; i < r->e; i += KL_TILE_ROWS)
        kl_tile_f32(KL_TILE_ROWS, n, r->v + i * KEYS, r->scores, sums + i * WIDTH, WIDTH, true,
                    sums + i * WIDTH, (const char *)r->scores, 0);
}

/* Packs the keys and values of a run. */
static void pack_run(const struct job *j, const struct room *r, int64_t batch, int64_t kv_head,
                     int64_t first, int64_t keys) {
#ifdef __AVX512F__
    if (r->bf16_parts) {
        pack_keys(j->k, r, row_of(j->k, batch, kv_head, first), keys, j->d);
        pack_values(j->v, r, row_of(j->v, batch, kv_head, first), keys, j->e);
        return;
    }
#endif
    int64_t line;
    const float *k = rows_f32(j->k, batch, kv_head, first, keys, j->d, r->raw, &line);
    for (int64_t i = 0; i < keys; i += KL_TILE_ROWS)
        kl_panel_f32(r->k + i * j->d, k + i * line, line, kl_min64(KL_TILE_ROWS, keys - i), j->d,
                     KL_TILE_ROWS);
    const float *v = rows_f32(j->v, batch, kv_head, first, keys, j->e, r->raw, &line);
    for (int64_t i = 0; i < j->e; i += KL_TILE_ROWS)
        kl_spread_f32(r->v + i * KEYS, v + i, line, kl_min64(KL_TILE_ROWS, j->e - i), keys,
                      KL_TILE_ROWS, 0);
}

static void pack_panel(const struct job *j, const struct room *r, int64_t at, int64_t c,
                       const char *row) {
    float *to = r->q + at * r->q_panel, *rows = r->bf16_parts ? r->raw + c * r->d : r->raw;
    if (r->bf16_parts == 1) { /* as rows, which pack_queries packs */
        kl_copy_run(2, j->d, (uint16_t *)r->raw + c * r->d, 2, row, j->q->strides[3] * 2);
        return;
    }
    load(j->q, row, j->d, rows);
    for (int64_t i = 0; i < j->d; i++) rows[i] *= j->scale;
    for (int64_t i = 0; !r->bf16_parts && i < j->d; i++) to[i * WIDTH + c] = rows[i];
}

static void many_task(void *arg, int64_t task) {
    struct job *j = arg;
    int64_t batch = task / (j->kv_heads * j->tasks_each),
            kv_head = task / j->tasks_each % j->kv_heads;
    int64_t first_query = task % j->tasks_each * j->queries;
    int64_t n = kl_min64(j->queries, j->group * j->n - first_query), panels = kl_ceil_div(n, WIDTH);
    int bf16_parts = j->bf16_parts;
#ifdef __AVX512F__
    if (bf16_parts > 1 && (n * j->m * (j->d + j->e) < BF16_PARTS_FROM ||
                           !can_be_cut(j, batch, kv_head, first_query, n)))
        bf16_parts = 0;
#endif
    int64_t d = bf16_parts ? kl_round_up(j->d, KL_AMX_DEPTH) : j->d;
    int64_t e = kl_round_up(j->e, bf16_parts ? KL_AMX_ROWS : KL_TILE_ROWS), widest = d > e ? d : e;
    int64_t run = bf16_parts == 1 ? AMX_KEYS : bf16_parts ? BF16_PARTS_KEYS : KEYS;
    /* A packed element takes `halves` halves of a float. */
    int64_t halves = bf16_parts ? bf16_parts : 2, weights = run * WIDTH * halves / 2;
    struct room r = {.q_panel = d * WIDTH * halves / 2,
                     .sums_panel = e * WIDTH,
                     .d = d,
                     .e = e,
                     .run = run,
                     .bf16_parts = bf16_parts};
    /* first the rows of a panel, then its weights */
    int64_t raw = bf16_parts ? d * WIDTH : run * widest;
    if (bf16_parts && raw < weights) raw = weights;
    int64_t parts[6] = {panels * r.q_panel,   run * d * halves / 2 + WIDTH,
                        run * e * halves / 2, panels * r.sums_panel,
                        run * WIDTH,          raw};
    float **places[6] = {&r.q, &r.k, &r.v, &r.sums, &r.scores, &r.raw};
    int64_t floats = 0;
    for (int i = 0; i < 6; i++) floats += kl_round_up(parts[i], 16);
    struct kl_scratch room;
    if (!kl_scratch_take(&room, j->l, (size_t)floats * sizeof(float))) {
        atomic_store(&j->no_memory, true);
        return;
    }
    float *at = (float *)room.ptr;
    for (int i = 0; i < 6; i++) {
        *places[i] = at;
        at += kl_round_up(parts[i], 16);
    }
    struct panel state[QUERIES / WIDTH];
    memset(r.q, 0, (size_t)(panels * r.q_panel) * sizeof(float));
    if (!bf16_parts) memset(r.sums, 0, (size_t)(panels * r.sums_panel) * sizeof(float));
    for (int64_t p = 0; p < panels; p++) {
        state[p].n = kl_min64(WIDTH, n - p * WIDTH);
        state[p].first_seen = j->m;
        state[p].last_seen = -1;
        state[p].begun = false;
        if (bf16_parts) memset(r.raw, 0, (size_t)(WIDTH * d) * sizeof *r.raw);
        for (int64_t c = 0; c < WIDTH; c++) {
            struct query q = query_of(j, kv_head, first_query + p * WIDTH + c);
            state[p].largest[c] = masked;
            state[p].total[c] = 0;
            if (c >= state[p].n) continue;
            if (j->sinks) {
                state[p].largest[c] = sink_of(j, q.head);
                state[p].total[c] = 1;
            }
            int64_t seen = last_seen(j, q.row);
            if (seen < state[p].first_seen) state[p].first_seen = seen;
            /* A query that sees no key weighs all keys the same, so it needs them all. */
            if (seen < 0) seen = j->m - 1;
            if (seen > state[p].last_seen) state[p].last_seen = seen;
            pack_panel(j, &r, p, c, row_of(j->q, batch, q.head, q.row));
        }
#ifdef __AVX512F__
        if (bf16_parts) pack_queries(&r, (uint16_t *)(r.q + p * r.q_panel));
#endif
    }
    struct kl_amx_config before;
    if (bf16_parts) r.few = kl_amx_begin(&before);
    for (int64_t first = 0; first < j->m; first += run) {
        int64_t keys = kl_min64(run, j->m - first);
        bool needed = false;
        for (int64_t p = 0; p < panels; p++) needed = needed || first <= state[p].last_seen;
        if (!needed) break;
        pack_run(j, &r, batch, kv_head, first, keys);
        for (int64_t p = 0; p < panels; p++)
            if (first <= state[p].last_seen)
                panel_run(j, &state[p], &r, p, batch, kv_head, first_query, first, keys);
    }
    if (bf16_parts) kl_amx_end(&before);
    for (int64_t p = 0; p < panels; p++) {
#ifdef __AVX512F__
        if (bf16_parts == 1) {
            store_panel(j, &state[p], batch, kv_head, first_query + p * WIDTH,
                        r.sums + p * r.sums_panel);
            continue;
        }
#endif
        for (int64_t c = 0; c < state[p].n; c++)
            store(j, batch, query_of(j, kv_head, first_query + p * WIDTH + c),
                  r.sums + p * r.sums_panel + c, WIDTH, state[p].total[c]);
    }
    kl_scratch_give(&room);
}

/* ---- few queries ---- */

/* Weighs the scores of one query; writes the first two elements of its state in a task's part:
 * largest score, sum of weights, weighted sum of values. */
static void weigh_few(float *scores, int64_t n, float *state) {
    float top = kl_largest_f32(scores, n, masked), lanes[PHASES] = {0};
    int64_t i = 0;
    KL_EACH(k, n) scores[k] = kl_exp_f32(scores[k] - top);
    for (; i + PHASES <= n; i += PHASES) KL_LANES(c, PHASES) lanes[c] += scores[i + c];
    for (int c = 0; i + c < n; c++) lanes[c] += scores[i + c];
    KL_HALVE_16(KL_LANE_SUM, lanes);
    state[0] = top;
    state[1] = lanes[0];
}

static void few_task(void *arg, int64_t task) {
    struct job *j = arg;
    int64_t batch = task / (j->kv_heads * j->tasks_each),
            kv_head = task / j->tasks_each % j->kv_heads;
    int64_t first = task % j->tasks_each * CHUNK, keys = kl_min64(CHUNK, j->m - first);
    int64_t queries = j->group * j->n, widest = j->d > j->e ? j->d : j->e, size = 2 + j->e;
    bool k_lies = j->k->strides[3] == 1, v_lies = j->v->strides[3] == 1;
    float *room =
        kl_malloc((size_t)(queries * (j->d + CHUNK) + (k_lies && v_lies ? 0 : CHUNK * widest)) *
                  sizeof(float));
    if (!room) {
        atomic_store(&j->no_memory, true);
        return;
    }
    float *q = room, *scores = q + queries * j->d, *raw = scores + queries * CHUNK;
    float *part = j->parts + task * queries * size;
    for (int64_t r = 0; r < queries; r++) {
        struct query at = query_of(j, kv_head, r);
        load(j->q, row_of(j->q, batch, at.head, at.row), j->d, q + r * j->d);
        for (int64_t i = 0; i < j->d; i++) q[r * j->d + i] *= j->scale;
    }
    /* Keys, then values: each is read once, for all queries. */
    for (int pass = 0; pass < 2; pass++) {
        const struct kl_arg *m = pass ? j->v : j->k;
        enum kl_dtype dtype = m->dtype;
        int64_t line = m->strides[2], width = pass ? j->e : j->d;
        const void *rows = row_of(m, batch, kv_head, first);
        if (!(pass ? v_lies : k_lies)) {
            rows = rows_f32(m, batch, kv_head, first, keys, width, raw, &line);
            dtype = KL_F32;
        }
        if (pass) {
            kl_cpu_few_rows(false, dtype, queries, keys, width, scores, CHUNK, rows, line, part + 2,
                            size);
            continue;
        }
        kl_cpu_few_rows(true, dtype, queries, width, keys, q, width, rows, line, scores, CHUNK);
        for (int64_t r = 0; r < queries; r++) {
            apply_mask(j, batch, query_of(j, kv_head, r), first, keys, scores + r * CHUNK, 1);
            weigh_few(scores + r * CHUNK, keys, part + r * size);
        }
    }
    kl_free(room);
}

/* Joins the parts of a query. */
static void join_parts(const struct job *j, int64_t batch, int64_t kv_head, int64_t r,
                       float *sums) {
    int64_t size = 2 + j->e, queries = j->group * j->n;
    const float *part =
        j->parts + ((batch * j->kv_heads + kv_head) * j->tasks_each * queries + r) * size;
    struct query q = query_of(j, kv_head, r);
    float top = j->sinks ? sink_of(j, q.head) : masked, total = j->sinks ? 1 : 0;
    for (int64_t b = 0; b < j->tasks_each; b++) {
        float x = part[b * queries * size];
        top = x > top ? x : top;
    }
    if (j->sinks) total = kl_exp_f32(sink_of(j, q.head) - top);
    memset(sums, 0, (size_t)j->e * sizeof *sums);
    for (int64_t b = 0; b < j->tasks_each; b++) {
        const float *p = part + b * queries * size;
        float w = kl_exp_f32(p[0] - top);
        total += p[1] * w;
        KL_EACH(i, j->e) sums[i] += p[2 + i] * w;
    }
    store(j, batch, q, sums, 1, total);
}

static int few_queries(struct job *j, int64_t batches) {
    int64_t queries = j->group * j->n, size = 2 + j->e;
    j->tasks_each = kl_ceil_div(j->m, CHUNK);
    int64_t tasks = batches * j->kv_heads * j->tasks_each;
    j->parts = kl_malloc((size_t)(tasks * queries * size + j->e) * sizeof(float));
    if (!j->parts) return kl_fail_nomem(j->l->err);
    kl_run_tasks(j->l, tasks, few_task, j);
    float *sums = j->parts + tasks * queries * size;
    for (int64_t b = 0; b < batches && !j->no_memory; b++)
        for (int64_t h = 0; h < j->kv_heads; h++)
            for (int64_t r = 0; r < queries; r++) join_parts(j, b, h, r, sums);
    kl_free(j->parts);
    return KL_OK;
}

int kl_cpu_attention(struct kl_launch *l) {
    const struct kl_attention_params *p = l->params;
    struct job j = {.l = l,
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
        KL_TRY(few_queries(&j, batches));
    } else {
        j.queries = QUERIES;
        if (batches * j.kv_heads * kl_ceil_div(j.group * j.n, QUERIES) < TASKS) j.queries /= 2;
        j.tasks_each = kl_ceil_div(j.group * j.n, j.queries);
        enum kl_dtype dtype = l->out->dtype;
        int64_t padded = kl_round_up(j.d, KL_AMX_DEPTH) + kl_round_up(j.e, KL_AMX_ROWS);
        /* padding with more zeros than that costs more than tile registers gain */
        bool wide = 8 * padded <= 9 * (j.d + j.e);
        if (kl_cpu_uses_amx() && j.q->dtype == dtype && j.k->dtype == dtype && j.v->dtype == dtype)
            j.bf16_parts = dtype == KL_BF16 ? 1 : dtype == KL_F32 && wide ? 3 : 0;
        kl_run_tasks(l, batches * j.kv_heads * j.tasks_each, many_task, &j);
    }
    return atomic_load(&j.no_memory) ? kl_fail_nomem(l->err) : KL_OK;
}
