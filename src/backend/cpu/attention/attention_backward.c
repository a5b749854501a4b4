/* attention_backward.c - ATTENTION_BACKWARD without ever holding all scores (FlashAttention-2, Dao
 * 2023), in float32. First the sums of each query's weights are found, then a task has some keys of
 * one head: for blocks of queries by keys it makes weights w and their gradients anew, adds w' g
 * and ds' q to the gradients of its values and keys, and ds k to sums of its own for the queries,
 * which are added up at the end. docs/notes/cpu-kernels.md describes the method. How work is cut
 * depends on the shape alone. */
#include "backend/cpu/attention/attention.h"

#include <string.h>

#include "backend/cpu/cpu_kernels.h"
#include "backend/cpu/math/functions.h"
#include "backend/cpu/operand/scratch.h"
#include "backend/cpu/product/products.h"
#include "base/op/op_params.h"

enum {
    WIDTH = 2 * KL_VECTOR / 4,               /* columns of a tile */
    ROWS = 96 / KL_TILE_ROWS * KL_TILE_ROWS, /* queries of a block */
    KEYS = 64,                               /* keys of a block; a multiple of WIDTH */
    RUN = 512,                               /* keys that are packed at once; a multiple of KEYS */
    PARTS = 8,                               /* parts of a head's keys, at most, */
    TASKS = 32,                              /* as few parts as give about this number of tasks */
    N_NUMBERS = 4                            /* floats of struct numbers */
};

/* The numbers of a query that the second step needs. */
struct numbers {
    float top, part; /* a score s has the weight part * exp(s - top) */
    float dot;       /* the sum of the products of result and cotangent */
    float slope;     /* part; 0 where all keys are masked, and so all scores are constant */
};
_Static_assert(sizeof(struct numbers) == N_NUMBERS * sizeof(float), "an array of floats");

struct backward {
    struct kl_attention_job j;
    const struct kl_arg *g; /* the cotangent */
    int64_t parts, part_keys;
    int64_t rows, padded; /* queries that share keys, and the same in whole tiles */
    int64_t width;        /* floats of a row of sums */
    float *sums;          /* for each head of keys and each of its parts: padded x width */
    char *dq, *dk, *dv, *dsinks;
};

/* Memory of a task, in floats. */
struct room {
    float *k, *v;                 /* panels of WIDTH keys, element by element */
    float *k_rows;                /* keys as rows of `width` elements */
    float *dk, *dv;               /* for each block of keys: elements by keys */
    float *q, *g;                 /* tiles of KL_TILE_ROWS rows, element by element */
    float *q_columns, *g_columns; /* tiles of KL_TILE_ROWS elements, row by row */
    float *w, *ds;                /* ROWS by KEYS: scores, then weights; and their gradients */
    float *turned;                /* a tile of rows of ds, key by key */
    float *raw;                   /* rows as float32 */
    int64_t d, e;                 /* in whole tiles of rows */
};

static struct numbers *numbers_of(const struct kl_attention_job *j, int64_t batch,
                                  struct kl_attention_query q) {
    return (struct numbers *)j->numbers + (batch * j->heads + q.head) * j->n + q.row;
}

static float dot_of(const struct backward *b, int64_t batch, struct kl_attention_query q) {
    const struct kl_attention_job *j = &b->j;
    const char *o = kl_attention_row(j->result, batch, q.head, q.row),
               *g = kl_attention_row(b->g, batch, q.head, q.row);
    const int64_t o_step = j->result->strides[3] * (int64_t)kl_dtype_size(j->result->dtype),
                  g_step = b->g->strides[3] * (int64_t)kl_dtype_size(b->g->dtype);
    float x[KL_TILE], y[KL_TILE];
    double sum = 0;
    for (int64_t i = 0; i < j->e; i += KL_TILE) {
        const int64_t n = kl_min64(KL_TILE, j->e - i);
        kl_attention_load(j->result, o + i * o_step, n, x);
        kl_attention_load(b->g, g + i * g_step, n, y);
        for (int64_t c = 0; c < n; c++) sum += (double)x[c] * (double)y[c];
    }
    return (float)sum;
}

void kl_attention_note(const struct kl_attention_job *j, int64_t batch, struct kl_attention_query q,
                       float top, float total) {
    const bool masks = j->causal || (j->mask && j->mask->dtype == KL_BOOL);
    const bool constant = masks && top == KL_ATTENTION_MASKED;
    struct numbers *to = numbers_of(j, batch, q);
    to->top = top;
    to->part = 1 / total;
    to->slope = constant ? 0 : to->part;
}

/* Packs n keys and values from `first` on. */
static void pack_run(const struct backward *b, const struct room *r, int64_t batch, int64_t kv_head,
                     int64_t first, int64_t n) {
    const struct kl_attention_job *j = &b->j;
    int64_t line;
    const float *k = kl_attention_rows(j->k, batch, kv_head, first, n, j->d, r->raw, &line);
    for (int64_t i = 0; i < n; i += WIDTH)
        kl_panel_f32(r->k + i * j->d, k + i * line, line, kl_min64(WIDTH, n - i), j->d, WIDTH);
    for (int64_t i = 0; i < n; i++) {
        float *to = r->k_rows + i * b->width;
        memcpy(to, k + i * line, (size_t)j->d * sizeof *to);
        for (int64_t c = j->d; c < b->width; c++) to[c] = 0;
    }
    const float *v = kl_attention_rows(j->v, batch, kv_head, first, n, j->e, r->raw, &line);
    for (int64_t i = 0; i < n; i += WIDTH)
        kl_panel_f32(r->v + i * j->e, v + i * line, line, kl_min64(WIDTH, n - i), j->e, WIDTH);
}

/* Packs n rows of `width` elements in both orders, times `scale`. */
static void pack_rows(const struct backward *b, const struct kl_arg *a, const struct room *r,
                      int64_t batch, int64_t kv_head, int64_t first, int64_t n, int64_t width,
                      float scale, float *tiles, float *columns) {
    for (int64_t i = 0; i < n; i++) {
        struct kl_attention_query q = kl_attention_query_of(&b->j, kv_head, first + i);
        kl_attention_load(a, kl_attention_row(a, batch, q.head, q.row), width, r->raw + i * width);
    }
    if (scale != 1) KL_EACH(i, n * width) r->raw[i] *= scale;
    for (int64_t i = 0; i < n; i += KL_TILE_ROWS)
        kl_panel_f32(tiles + i * width, r->raw + i * width, width, kl_min64(KL_TILE_ROWS, n - i),
                     width, KL_TILE_ROWS);
    kl_spread_f32(columns, r->raw, width, width, n, KL_TILE_ROWS, ROWS * KL_TILE_ROWS);
}

/* The product of n rows in tiles with `columns` columns in panels: to = a b. */
static void scores_of(const float *a, const float *b, int64_t depth, int64_t n, int64_t columns,
                      float *to) {
    for (int64_t p = 0; p < columns; p += WIDTH)
        for (int64_t i = 0; i < n; i += KL_TILE_ROWS) {
            float *tile = to + i * KEYS + p;
            kl_tile_f32((int)kl_min64(KL_TILE_ROWS, n - i), depth, a + i * depth, b + p * depth,
                        tile, KEYS, false, tile, (const char *)a, 0);
        }
}

/* Adds the products of n rows of `elements` elements, in tiles of columns, with the weights of
 * `columns` keys. */
static void add_to_keys(const float *a, const float *weights, int64_t elements, int64_t n,
                        int64_t columns, float *to) {
    for (int64_t p = 0; p < columns; p += WIDTH)
        for (int64_t i = 0; i < elements; i += KL_TILE_ROWS) {
            float *tile = to + i * KEYS + p;
            kl_tile_at_f32((int)kl_min64(KL_TILE_ROWS, elements - i), n, a + i * ROWS, weights + p,
                           KEYS, tile, KEYS, true, tile, (const char *)a, 0, 0);
        }
}

/* Turns the scores in w into weights, and the gradients of weights in ds into the gradients of
 * scores. */
static void weigh(const struct numbers *of, int64_t n, int64_t columns, float *w, float *ds) {
    for (int64_t i = 0; i < n; i++, w += KEYS, ds += KEYS) {
        const float top = of[i].top, part = of[i].part, dot = of[i].dot, slope = of[i].slope;
        KL_EACH(c, columns) {
            const float x = kl_exp_f32(w[c] - top);
            w[c] = x * part;
            ds[c] = x * slope * (ds[c] - dot);
        }
    }
}

/* The first and the last key that the n queries from `first` on see. */
struct seen {
    int64_t first, last;
};
static struct seen seen_by(const struct kl_attention_job *j, int64_t kv_head, int64_t first,
                           int64_t n) {
    struct seen s = {j->m - 1, -1};
    if (!j->causal) return (struct seen){j->m - 1, j->m - 1};
    for (int64_t i = first; i < first + n; i++) {
        int64_t last = kl_attention_last_seen(j, kl_attention_query_of(j, kv_head, i).row);
        s.first = kl_min64(s.first, last);
        if (last < 0) last = j->m - 1; /* it weighs all keys the same */
        if (last > s.last) s.last = last;
    }
    return s;
}

/* Adds the contributions of n queries from `row` on and the keys of a block to all gradients. The
 * block begins with key `key`, which is number `at` of the run. */
static void add_block(const struct backward *b, const struct room *r, int64_t batch,
                      int64_t kv_head, int64_t row, int64_t n, int64_t key, int64_t at,
                      int64_t keys, struct seen seen, float *sums) {
    const struct kl_attention_job *j = &b->j;
    keys = kl_min64(keys, kl_round_up(seen.last + 1 - key, WIDTH));
    const int64_t columns = kl_round_up(keys, WIDTH);
    scores_of(r->q, r->k + at * j->d, j->d, n, columns, r->w);
    scores_of(r->g, r->v + at * j->e, j->e, n, columns, r->ds);
    if (j->mask || key + keys - 1 > seen.first)
        for (int64_t i = 0; i < n; i++)
            kl_attention_mask(j, batch, kl_attention_query_of(j, kv_head, row + i), key, keys,
                              r->w + i * KEYS, 1);
    weigh(numbers_of(j, batch, kl_attention_query_of(j, kv_head, row)), n, columns, r->w, r->ds);
    add_to_keys(r->g_columns, r->w, j->e, n, columns, r->dv + at * r->e);
    add_to_keys(r->q_columns, r->ds, j->d, n, columns, r->dk + at * r->d);
    for (int64_t i = 0; i < n; i += KL_TILE_ROWS) {
        const int64_t some = kl_min64(KL_TILE_ROWS, n - i);
        kl_panel_f32(r->turned, r->ds + i * KEYS, KEYS, some, keys, KL_TILE_ROWS);
        for (int64_t c = 0; c < b->width; c += WIDTH) {
            float *tile = sums + (row + i) * b->width + c;
            kl_tile_at_f32((int)some, keys, r->turned, r->k_rows + at * b->width + c, b->width,
                           tile, b->width, true, tile, (const char *)r->turned, 0, 0);
        }
    }
}

/* Stores the gradients of n keys, which lie element by element in blocks of KEYS keys, as rows. */
static void store_run(const struct backward *b, const struct room *r, const float *from,
                      int64_t padded, int64_t width, int64_t n, char *to) {
    const enum kl_dtype dtype = b->j.l->out->dtype;
    for (int64_t i = 0; i < n; i++) {
        const float *column = from + i / KEYS * KEYS * padded + i % KEYS;
        for (int64_t c = 0; c < width; c++) r->raw[c] = column[c * KEYS];
        kl_convert(dtype, to + i * width * (int64_t)kl_dtype_size(dtype), KL_F32, r->raw, width);
    }
}

static bool take_room(const struct backward *b, struct room *r, struct kl_scratch *s) {
    enum { N = 12 };
    const struct kl_attention_job *j = &b->j;
    r->d = kl_round_up(j->d, KL_TILE_ROWS);
    r->e = kl_round_up(j->e, KL_TILE_ROWS);
    const int64_t widest = j->d > j->e ? j->d : j->e;
    float **places[N] = {&r->k, &r->v,         &r->k_rows,    &r->dk, &r->dv, &r->q,
                         &r->g, &r->q_columns, &r->g_columns, &r->w,  &r->ds, &r->turned};
    const int64_t sizes[N] = {RUN * j->d,  RUN * j->e,  RUN * b->width, RUN * r->d,
                              RUN * r->e,  ROWS * j->d, ROWS * j->e,    ROWS * r->d,
                              ROWS * r->e, ROWS * KEYS, ROWS * KEYS,    KEYS * KL_TILE_ROWS};
    int64_t floats = RUN * widest; /* raw */
    /* Packing may write a vector beyond the end of its memory. */
    for (int i = 0; i < N; i++) floats += kl_round_up(sizes[i] + WIDTH, 16);
    if (!kl_scratch_take(s, j->l, (size_t)floats * sizeof(float))) return false;
    float *at = (float *)s->ptr;
    for (int i = 0; i < N; i++) {
        *places[i] = at;
        at += kl_round_up(sizes[i] + WIDTH, 16);
    }
    r->raw = at;
    return true;
}

static void backward_task(void *arg, int64_t task) {
    struct backward *b = arg;
    struct kl_attention_job *j = &b->j;
    const int64_t part = task % b->parts, kv_head = task / b->parts % j->kv_heads,
                  batch = task / (b->parts * j->kv_heads);
    const int64_t item = (int64_t)kl_dtype_size(j->l->out->dtype);
    const int64_t begin = part * b->part_keys, end = kl_min64(begin + b->part_keys, j->m);
    float *sums = b->sums + task * b->padded * b->width;
    struct room r;
    struct kl_scratch room;
    if (!take_room(b, &r, &room)) {
        atomic_store(&j->no_memory, true);
        return;
    }
    memset(sums, 0, (size_t)(b->padded * b->width) * sizeof *sums);
    for (int64_t first = begin; first < end; first += RUN) {
        const int64_t keys = kl_min64(RUN, end - first);
        pack_run(b, &r, batch, kv_head, first, keys);
        memset(r.dk, 0, (size_t)(RUN * r.d) * sizeof *r.dk);
        memset(r.dv, 0, (size_t)(RUN * r.e) * sizeof *r.dv);
        for (int64_t row = 0; row < b->rows; row += ROWS) {
            const int64_t n = kl_min64(ROWS, b->rows - row);
            const struct seen seen = seen_by(j, kv_head, row, n);
            if (first > seen.last) continue;
            pack_rows(b, j->q, &r, batch, kv_head, row, n, j->d, j->scale, r.q, r.q_columns);
            pack_rows(b, b->g, &r, batch, kv_head, row, n, j->e, 1, r.g, r.g_columns);
            for (int64_t at = 0; at < keys && first + at <= seen.last; at += KEYS)
                add_block(b, &r, batch, kv_head, row, n, first + at, at, kl_min64(KEYS, keys - at),
                          seen, sums);
        }
        const int64_t at = (batch * j->kv_heads + kv_head) * j->m + first;
        store_run(b, &r, r.dk, r.d, j->d, keys, b->dk + at * j->d * item);
        store_run(b, &r, r.dv, r.e, j->e, keys, b->dv + at * j->e * item);
    }
    kl_scratch_give(&room);
}

/* Adds up the parts of the gradients of the queries of one head of keys. */
static void sum_task(void *arg, int64_t task) {
    const struct backward *b = arg;
    const struct kl_attention_job *j = &b->j;
    const enum kl_dtype dtype = j->l->out->dtype;
    const int64_t part = b->padded * b->width;
    float y[KL_TILE];
    for (int64_t row = 0; row < b->rows; row++)
        for (int64_t c = 0; c < j->d; c += KL_TILE) {
            const int64_t n = kl_min64(KL_TILE, j->d - c);
            const float *from = b->sums + task * b->parts * part + row * b->width + c;
            memcpy(y, from, (size_t)n * sizeof *y);
            for (int64_t p = 1; p < b->parts; p++) KL_EACH(i, n) y[i] += from[p * part + i];
            KL_EACH(i, n) y[i] *= j->scale;
            kl_convert(dtype,
                       b->dq + ((task * b->rows + row) * j->d + c) * (int64_t)kl_dtype_size(dtype),
                       KL_F32, y, n);
        }
}

/* The dot products of the queries of one head, and the gradient of its sink. */
static void dots_task(void *arg, int64_t head) {
    const struct backward *b = arg;
    const struct kl_attention_job *j = &b->j;
    const float sink = j->sinks ? kl_attention_sink(j, head) : 0;
    double sum = 0;
    for (int64_t batch = 0; batch < j->l->in[0].dims[0]; batch++)
        for (int64_t row = 0; row < j->n; row++) {
            const struct kl_attention_query q = {head, row};
            struct numbers *of = numbers_of(j, batch, q);
            of->dot = dot_of(b, batch, q);
            if (j->sinks) sum -= (double)(kl_exp_f32(sink - of->top) * of->part * of->dot);
        }
    if (!j->sinks) return;
    const float x = (float)sum;
    kl_convert(j->l->out->dtype, b->dsinks + head * (int64_t)kl_dtype_size(j->l->out->dtype),
               KL_F32, &x, 1);
}

/* Computes the gradients; there are queries and keys. */
static int compute(struct backward *b, int64_t batches) {
    struct kl_attention_job *j = &b->j;
    const int64_t heads = batches * j->kv_heads, e = j->e;
    b->rows = j->group * j->n;
    b->padded = kl_round_up(b->rows, KL_TILE_ROWS);
    b->width = kl_round_up(j->d, WIDTH);
    b->parts = kl_min64(kl_min64(PARTS, kl_ceil_div(TASKS, heads)), kl_ceil_div(j->m, RUN));
    b->part_keys = kl_round_up(kl_ceil_div(j->m, b->parts), KEYS);
    b->parts = kl_ceil_div(j->m, b->part_keys);
    const int64_t numbers = kl_round_up(batches * j->heads * j->n * N_NUMBERS, 16),
                  sums = heads * b->parts * b->padded * b->width;
    struct kl_scratch room;
    if (!kl_scratch_take(&room, j->l, (size_t)(numbers + sums) * sizeof(float)))
        return kl_fail_nomem(j->l->err);
    j->numbers = (float *)room.ptr;
    b->sums = j->numbers + numbers;
    j->queries = KL_ATTENTION_QUERIES / 2;
    j->tasks_each = kl_ceil_div(b->rows, j->queries);
    j->e = 0; /* the kernel of the forward pass, without its values */
    kl_run_tasks(j->l, heads * j->tasks_each, kl_attention_many_task, j);
    j->e = e;
    if (!atomic_load(&j->no_memory)) {
        kl_run_tasks(j->l, j->heads, dots_task, b);
        kl_run_tasks(j->l, heads * b->parts, backward_task, b);
        kl_run_tasks(j->l, heads, sum_task, b);
    }
    kl_scratch_give(&room);
    return atomic_load(&j->no_memory) ? kl_fail_nomem(j->l->err) : KL_OK;
}

int kl_cpu_attention_backward(struct kl_launch *l) {
    const struct kl_attention_params *p = l->params;
    const int64_t item = (int64_t)kl_dtype_size(l->out->dtype), batches = l->in[0].dims[0];
    struct backward b = {.j = {.l = l,
                               .q = &l->in[0],
                               .k = &l->in[1],
                               .v = &l->in[2],
                               .mask = p->has_mask ? &l->in[3] : NULL,
                               .sinks = p->has_sinks ? &l->in[3 + p->has_mask] : NULL,
                               .result = &l->in[l->n_in - 2],
                               .scale = p->scale,
                               .causal = p->causal,
                               .heads = l->in[0].dims[1],
                               .kv_heads = l->in[1].dims[1],
                               .n = l->in[0].dims[2],
                               .m = l->in[1].dims[2],
                               .d = l->in[0].dims[3],
                               .e = l->in[2].dims[3]},
                         .g = &l->in[l->n_in - 1]};
    struct kl_attention_job *j = &b.j;
    b.dq = l->out->data;
    b.dk = b.dq + l->in[0].size * item;
    b.dv = b.dk + l->in[1].size * item;
    b.dsinks = b.dv + l->in[2].size * item;
    if (l->out->size == 0) return KL_OK;
    if (batches == 0 || j->heads == 0 || j->n == 0 || j->m == 0) { /* there are no scores */
        memset(l->out->data, 0, (size_t)(l->out->size * item));
        return KL_OK;
    }
    j->group = j->heads / j->kv_heads;
    return compute(&b, batches);
}
