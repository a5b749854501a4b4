/* cpu_amx_blocks.c - MATMUL of bfloat16 in tile registers: see kl_cpu_amx_blocks in cpu_matmul.h.
 *
 * The registers multiply faster than operands are packed for them. So where several tasks need the same part of an operand
 * both are packed before, once, by all threads; else each task packs its own. Every element of the result is added up along k in float32, in the same steps, however the product is cut. */
#include "backend/cpu/cpu_amx_pack.h"
#include "backend/cpu/cpu_kernels.h"
#include "backend/cpu/cpu_matmul.h"
#include "backend/cpu/cpu_scratch.h"
#ifdef __AVX512F__

enum {
    ROWS = 256, /* of a task's block of the result, and its columns, at most */
    COLS = 256,
    STEPS = 32,          /* tiles along k at once: the block's operands, 512 KB each, stay in L2 */
    LEAST = 32,          /* rows and columns */
    UNIT = 16,           /* a piece of an operand that a task packs for all: so many tiles */
    TASKS = 16,          /* enough for the threads of most machines */
    TASK_FROM = 1 << 21, /* products worth a task */
    MOST_PACKED = 1 << 24, /* bytes of each operand */
};

/* Lines [first, first + lines) of an operand, whole along k, as tiles. */
struct side {
    const struct kl_arg *arg;
    int64_t line, step; /* elements between lines, and along k */
    int64_t at;         /* of the batch */
    int64_t first, lines, k;
    int64_t across, along;      /* tiles of a unit of packing */
    int64_t units, units_along; /* in all, and along k; 0: it is packed */
    bool pairs;                 /* a right operand */
    uint16_t *to;
};

struct round {
    struct kl_product *j;
    struct side a, b;
    int64_t batch, rows, cols; /* of a task */
    int64_t col_blocks;
};

/* Of nothing yet; packed operands go to `room`, a's a_bytes first. */
static struct round round_of(struct kl_product *j, char *room, size_t a_bytes) {
    struct side a = {.arg = j->a, .line = j->a_row, .step = j->a_col, .to = (uint16_t *)room};
    struct side b = {.arg = j->b, .line = j->b_col, .step = j->b_row, .pairs = true};
    b.to = (uint16_t *)(room + a_bytes);
    return (struct round){.j = j, .a = a, .b = b};
}

static int64_t tiles_of(int64_t k) {
    return kl_ceil_div(k, KL_AMX_DEPTH);
}

/* Tile t along k of the lines from `line` on; two tiles of a right operand lie beside each other. */
static uint16_t *tile_at(const struct side *s, int64_t line, int64_t t) {
    int64_t n = tiles_of(s->k), panel = line / KL_AMX_LINES;
    if (!s->pairs) return s->to + (panel * n + t) * KL_AMX_TILE;
    return s->to + (panel / 2 * n * 2 + t * 2 + panel % 2) * KL_AMX_TILE;
}

/* Tiles [t, end) along k of `lines` lines, from line `first` of the side on. */
static void pack_part(const struct side *s, int64_t first, int64_t lines, int64_t t, int64_t end) {
    for (; t < end; t++)
        for (int64_t l = first; l < first + lines; l += KL_AMX_LINES) {
            int64_t have = kl_min64(KL_AMX_LINES, s->lines - l), k = t * KL_AMX_DEPTH;
            kl_amx_pack(
                (const uint16_t *)element(s->arg, s->at + (s->first + l) * s->line + k * s->step),
                s->line, s->step, have > 0 ? have : 0, kl_min64(KL_AMX_DEPTH, s->k - k), s->pairs,
                tile_at(s, l, t));
        }
}

static void pack_unit(const struct side *s, int64_t unit) {
    int64_t lines = s->across * KL_AMX_LINES, t = unit % s->units_along * s->along;
    int64_t first = unit / s->units_along * lines;
    pack_part(s, first, kl_min64(lines, round_up(s->lines, LEAST) - first), t,
              kl_min64(t + s->along, tiles_of(s->k)));
}

/* A unit is long in the direction in which memory is. */
static void count_units(struct side *s) {
    s->across = s->step == 1 ? 2 : UNIT;
    s->along = s->step == 1 ? UNIT : 2;
    s->units_along = kl_ceil_div(tiles_of(s->k), s->along);
    s->units = s->units_along * kl_ceil_div(s->lines, s->across * KL_AMX_LINES);
}

static void pack_task(void *arg, int64_t task) {
    const struct round *s = arg;
    if (task < s->a.units)
        pack_unit(&s->a, task);
    else
        pack_unit(&s->b, task - s->a.units);
}

/* rows x cols of the result, from packed tiles, into c: whole blocks of LEAST. */
static void multiply(const struct round *s, int64_t row, int64_t rows, int64_t col, int64_t cols,
                     int64_t t, int64_t n, float *c, bool add) {
    for (int64_t x = 0; x < cols; x += KL_AMX_ROWS)
        for (int64_t y = 0; y < rows; y += KL_AMX_ROWS)
            kl_amx_block(n, tile_at(&s->a, row + y, t), tiles_of(s->a.k),
                         tile_at(&s->b, col + x, t), c + y * cols + x, cols, add);
}

static void store(const struct round *s, const struct place *p, int64_t cols, const float *c) {
    for (int64_t i = 0; i < p->m; i++) store_row(s->j, p, i, 0, p->n, (const char *)(c + i * cols));
}

/* A block of the result, both operands packed. */
static void block_task(void *arg, int64_t task) {
    const struct round *s = arg;
    int64_t row = task / s->col_blocks * s->rows, col = task % s->col_blocks * s->cols;
    int64_t n = tiles_of(s->a.k);
    struct place p = {.batch = s->batch, .row = s->a.first + row, .col = s->b.first + col};
    struct kl_amx_config before;
    p.m = kl_min64(s->rows, s->a.lines - row);
    p.n = kl_min64(s->cols, s->b.lines - col);
    int64_t rows = round_up(p.m, LEAST), cols = round_up(p.n, LEAST);
    struct kl_scratch room;
    if (!kl_scratch_take(&room, s->j->l, (size_t)(rows * cols) * sizeof(float))) {
        atomic_store(&s->j->no_memory, true);
        return;
    }
    float *c = (float *)room.ptr;
    kl_amx_begin(&before);
    for (int64_t t = 0; t < n; t += STEPS)
        multiply(s, row, rows, col, cols, t, kl_min64(STEPS, n - t), c, t > 0);
    kl_amx_end(&before);
    store(s, &p, cols, c);
    kl_scratch_give(&room);
}

/* The same, packed here, as much along k at a time as stays in L2. */
static void alone_task(void *arg, int64_t task) {
    struct kl_product *j = arg;
    struct place p = place_of(j, task);
    struct kl_amx_config before;
    int64_t rows = round_up(p.m, LEAST), cols = round_up(p.n, LEAST);
    int64_t depth = kl_min64(STEPS * KL_AMX_DEPTH, round_up(j->k, KL_AMX_DEPTH));
    size_t a_bytes = (size_t)(rows * depth) * 2, b_bytes = (size_t)(cols * depth) * 2;
    struct kl_scratch room;
    if (!kl_scratch_take(&room, j->l, a_bytes + b_bytes + (size_t)(rows * cols) * sizeof(float))) {
        atomic_store(&j->no_memory, true);
        return;
    }
    char *at = room.ptr;
    float *c = (float *)(at + a_bytes + b_bytes);
    struct round s = round_of(j, at, a_bytes);
    s.a.at = p.a;
    s.a.first = p.row;
    s.a.lines = p.m;
    s.b.at = p.b;
    s.b.first = p.col;
    s.b.lines = p.n;
    kl_amx_begin(&before);
    for (int64_t k = 0; k < j->k; k += depth) {
        s.a.k = s.b.k = kl_min64(depth, j->k - k);
        int64_t n = tiles_of(s.a.k);
        pack_part(&s.a, 0, rows, 0, n);
        pack_part(&s.b, 0, cols, 0, n);
        multiply(&s, 0, rows, 0, cols, 0, n, c, k > 0);
        s.a.at += depth * s.a.step;
        s.b.at += depth * s.b.step;
    }
    kl_amx_end(&before);
    store(&s, &p, cols, c);
    kl_scratch_give(&room);
}

/* Lines [first, first + lines) of the batch at `at` shall be packed; they may be still. */
static void ask_for(struct side *s, int64_t at, int64_t first, int64_t lines) {
    bool packed = s->lines == lines && s->first == first && s->at == at;
    s->at = at;
    s->first = first;
    s->lines = lines;
    s->units = 0;
    if (!packed) count_units(s);
}

/* false: there is no room. */
static bool all_rounds(struct kl_product *j, const struct kl_launch *l) {
    int64_t most = MOST_PACKED / 2 / round_up(j->k, KL_AMX_DEPTH) / ROWS * ROWS;
    int64_t rows = kl_min64(most, round_up(j->m, LEAST)),
            cols = kl_min64(most, round_up(j->n, LEAST));
    size_t a_bytes = (size_t)(rows * round_up(j->k, KL_AMX_DEPTH)) * 2;
    size_t b_bytes = (size_t)(cols * round_up(j->k, KL_AMX_DEPTH)) * 2;
    struct kl_scratch room;
    if (most == 0 || !kl_scratch_take(&room, j->l, a_bytes + b_bytes)) return false;
    struct round s = round_of(j, room.ptr, a_bytes);
    s.rows = j->rows;
    s.cols = j->cols;
    s.a.k = s.b.k = j->k;
    for (s.batch = 0; s.batch < j->batches; s.batch++) {
        int64_t a_at, b_at;
        kl_offsets(j->n_lead, j->dims, j->lead[0], s.batch, 1, &a_at);
        kl_offsets(j->n_lead, j->dims, j->lead[1], s.batch, 1, &b_at);
        for (int64_t col = 0; col < j->n; col += cols)
            for (int64_t row = 0; row < j->m; row += rows) {
                ask_for(&s.a, a_at, row, kl_min64(rows, j->m - row));
                ask_for(&s.b, b_at, col, kl_min64(cols, j->n - col));
                kl_share(l, s.a.units + s.b.units, pack_task, &s);
                s.col_blocks = kl_ceil_div(s.b.lines, s.cols);
                kl_share(l, s.col_blocks * kl_ceil_div(s.a.lines, s.rows), block_task, &s);
            }
    }
    kl_scratch_give(&room);
    return true;
}

static int64_t part_of(int64_t n, int64_t most) {
    return round_up(kl_ceil_div(n, kl_ceil_div(n, most)), LEAST);
}

bool kl_cpu_amx_blocks(struct kl_product *j, const struct kl_launch *l) {
    if (j->l->out->dtype != KL_BF16 || j->k == 0 || !kl_cpu_uses_amx()) return false;
    int64_t most_rows = ROWS, most_cols = COLS;
    for (;;) {
        j->rows = part_of(j->m, most_rows);
        j->cols = part_of(j->n, most_cols);
        j->row_blocks = kl_ceil_div(j->m, j->rows);
        j->col_blocks = kl_ceil_div(j->n, j->cols);
        bool wide = j->cols > j->rows;
        if (j->batches * j->row_blocks * j->col_blocks >= TASKS ||
            j->rows * j->cols * j->k / 2 < TASK_FROM || j->rows + j->cols <= 2 * LEAST)
            break;
        if (wide)
            most_cols = j->cols / 2;
        else
            most_rows = j->rows / 2;
    }
    bool shared = j->row_blocks * j->col_blocks > 1 && j->batches < TASKS;
    if (!shared || !all_rounds(j, l))
        kl_share(l, j->batches * j->row_blocks * j->col_blocks, alone_task, j);
    return true;
}
#else
bool kl_cpu_amx_blocks(struct kl_product *j, const struct kl_launch *l) {
    return false;
}
#endif
