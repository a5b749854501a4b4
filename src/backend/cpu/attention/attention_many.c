/* attention_many.c - ATTENTION of many queries, in panels of two vectors, whose scores are computed
 * transposed, keys by queries. See attention.h and docs/notes/cpu-kernels.md. */
#include "backend/cpu/attention/attention.h"

#include <string.h>

#include "backend/cpu/math/functions.h"
#include "backend/cpu/operand/scratch.h"
#include "backend/cpu/product/pack_amx.h"
#include "backend/cpu/product/products.h"

enum {
    WIDTH = 2 * KL_VECTOR / 4, /* queries of a panel */
    KEYS = 8 * KL_TILE_ROWS,   /* keys of a run */
    AMX_KEYS = 256,            /* keys of a run, in tile registers */
    BF16_PARTS_KEYS = 128, /* the same for several bfloat16 parts: a panel's weights stay in L1 */
    /* The fewest products of a task in tile registers; smaller tasks of float32 are computed in
     * vectors. */
    BF16_PARTS_FROM = 1 << 20,
};

struct panel {
    float largest[WIDTH], total[WIDTH], scale[WIDTH];
    int64_t n, first_seen, last_seen; /* the fewest and the most keys that its queries see */
    bool begun;                       /* the sums are not empty any more */
};

/* Turns the scores of n keys by WIDTH queries into weights, and scales the panel's sums of weights
 * for the new largest scores. */
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
    /* Widths of queries and values and sizes of panels, padded to whole tiles. */
    int64_t q_panel, sums_panel, d, e;
    int64_t run;    /* keys of a run */
    int bf16_parts; /* bfloat16 parts in tile registers; 0: in vectors */
    bool few;       /* use few tile registers: see kl_amx_begin */
};

#ifdef __AVX512F__
#include "backend/cpu/attention/attention_amx.h"
#endif

static void panel_run(const struct kl_attention_job *j, struct panel *p, const struct room *r,
                      int64_t at, int64_t batch, int64_t kv_head, int64_t first_query,
                      int64_t first, int64_t n) {
    float *q = r->q + at * r->q_panel, *sums = r->sums + at * r->sums_panel;
    n = kl_min64(n, p->last_seen + 1 - first);
    bool masks = j->mask || first + n - 1 > p->first_seen;
#ifdef __AVX512F__
    float scale = r->bf16_parts == 1 ? j->scale / j->power : 1;
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
            kl_attention_mask(j, batch,
                              kl_attention_query_of(j, kv_head, first_query + at * WIDTH + c),
                              first, n, r->scores + c, WIDTH);
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
static void pack_run(const struct kl_attention_job *j, const struct room *r, int64_t batch,
                     int64_t kv_head, int64_t first, int64_t keys) {
#ifdef __AVX512F__
    if (r->bf16_parts) {
        pack_keys(j->k, r, kl_attention_row(j->k, batch, kv_head, first), keys, j->d);
        pack_values(j->v, r, kl_attention_row(j->v, batch, kv_head, first), keys, j->e);
        return;
    }
#endif
    int64_t line;
    const float *k = kl_attention_rows(j->k, batch, kv_head, first, keys, j->d, r->raw, &line);
    for (int64_t i = 0; i < keys; i += KL_TILE_ROWS)
        kl_panel_f32(r->k + i * j->d, k + i * line, line, kl_min64(KL_TILE_ROWS, keys - i), j->d,
                     KL_TILE_ROWS);
    const float *v = kl_attention_rows(j->v, batch, kv_head, first, keys, j->e, r->raw, &line);
    for (int64_t i = 0; i < j->e; i += KL_TILE_ROWS)
        kl_spread_f32(r->v + i * KEYS, v + i, line, kl_min64(KL_TILE_ROWS, j->e - i), keys,
                      KL_TILE_ROWS, 0);
}

static void pack_panel(const struct kl_attention_job *j, const struct room *r, int64_t at,
                       int64_t c, const char *row) {
    float *to = r->q + at * r->q_panel, *rows = r->bf16_parts ? r->raw + c * r->d : r->raw;
    if (r->bf16_parts == 1) { /* copied as rows first; pack_queries packs them */
        uint16_t *raw = (uint16_t *)r->raw + c * r->d;
        kl_copy_run(2, j->d, raw, 2, row, j->q->strides[3] * 2);
        if (j->power != 1) KL_EACH(i, j->d)
        raw[i] = kl_bf16_store(kl_bf16_load(raw[i]) * j->power);
        return;
    }
    kl_attention_load(j->q, row, j->d, rows);
    for (int64_t i = 0; i < j->d; i++) rows[i] *= j->scale;
    for (int64_t i = 0; !r->bf16_parts && i < j->d; i++) to[i * WIDTH + c] = rows[i];
}

void kl_attention_many_task(void *arg, int64_t task) {
    struct kl_attention_job *j = arg;
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
    /* The size of a packed element, in units of two bytes: a float, or several bfloat16 parts. */
    int64_t halves = bf16_parts ? bf16_parts : 2, weights = run * WIDTH * halves / 2;
    struct room r = {.q_panel = d * WIDTH * halves / 2,
                     .sums_panel = e * WIDTH,
                     .d = d,
                     .e = e,
                     .run = run,
                     .bf16_parts = bf16_parts};
    /* holds first the rows of a panel, then its weights */
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
    struct panel state[KL_ATTENTION_QUERIES / WIDTH];
    memset(r.q, 0, (size_t)(panels * r.q_panel) * sizeof(float));
    if (!bf16_parts) memset(r.sums, 0, (size_t)(panels * r.sums_panel) * sizeof(float));
    for (int64_t p = 0; p < panels; p++) {
        state[p].n = kl_min64(WIDTH, n - p * WIDTH);
        state[p].first_seen = j->m;
        state[p].last_seen = -1;
        state[p].begun = false;
        if (bf16_parts) memset(r.raw, 0, (size_t)(WIDTH * d) * sizeof *r.raw);
        for (int64_t c = 0; c < WIDTH; c++) {
            struct kl_attention_query q =
                kl_attention_query_of(j, kv_head, first_query + p * WIDTH + c);
            state[p].largest[c] = KL_ATTENTION_MASKED;
            state[p].total[c] = 0;
            if (c >= state[p].n) continue;
            if (j->sinks) {
                const float sink = kl_attention_sink(j, q.head);
                if (!(sink < KL_ATTENTION_MASKED)) state[p].largest[c] = sink;
                state[p].total[c] = kl_exp_f32(sink - state[p].largest[c]);
            }
            int64_t seen = kl_attention_last_seen(j, q.row);
            if (seen < state[p].first_seen) state[p].first_seen = seen;
            /* A query that sees no key weighs all keys the same, so it needs them all. */
            if (seen < 0) seen = j->m - 1;
            if (seen > state[p].last_seen) state[p].last_seen = seen;
            pack_panel(j, &r, p, c, kl_attention_row(j->q, batch, q.head, q.row));
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
        for (int64_t c = 0; c < state[p].n; c++) {
            struct kl_attention_query q =
                kl_attention_query_of(j, kv_head, first_query + p * WIDTH + c);
            if (j->numbers)
                kl_attention_note(j, batch, q, state[p].largest[c], state[p].total[c]);
            else
                kl_attention_store(j, batch, q, r.sums + p * r.sums_panel + c, WIDTH,
                                   state[p].total[c]);
        }
    }
    kl_scratch_give(&room);
}
