/* gemm.c - MATMUL of floats in vectors: kl_cpu_gemm of matmul.h. A task computes a part of the
 * output: it walks along k in steps, packs its part of a, which may have any strides, and lets a
 * tile of registers run over it and over the packed part of b (gemm.inc). The loops are those of
 * Goto and van de Geijn, "Anatomy of high-performance matrix multiplication". Where several tasks
 * need the same part of b, all threads pack it once, before. */
#include "backend/cpu/cpu_kernels.h"
#include "backend/cpu/operand/scratch.h"
#include "backend/cpu/product/matmul.h"
#include "backend/cpu/product/products.h"

enum {
    /* Indices k that are packed at a time: as many rows of b, two vectors wide, stay in L1. */
    DEPTH = 256,
    /* Bytes along k that are packed at a time where all threads pack b. The widest tiles fetch
     * panels from L2 in time, so panels are deep, and sums are seldom loaded. */
    SHARED_BYTES = KL_VECTOR == 64 ? 4096 : 1024,
    /* The most tiles of rows in a task: packed, they use a part of L2. */
    MOST_ROWS = KL_VECTOR == 64 ? 10 : 16,
    OWN_ROWS = 32, /* the same where a task packs its own part of b */
    /* Tiles of rows above which packing b for all tasks saves time: it is written to memory and
     * read again. Large operands with contiguous columns: above MOST_ROWS. */
    SHARED_FROM = KL_VECTOR == 64 ? 4 : 8,
    LARGE = 1 << 20, /* elements of such an operand */
    PART_COLS = 256, /* columns that are packed at a time where rows are contiguous */
    MOST_COLS = 16,  /* the most tiles of columns in a task that packs its own part of b */
    /* The same where b is packed for all tasks: the task's part of the output stays in L2. */
    SHARED_COLS = 64,
    UNIT_ROWS = 64, /* the part of b in one packing task: rows, and columns (in tiles) */
    UNIT_COLS = 8,
    MOST_SHARED = 1 << 25, /* the most bytes of b that are packed for all tasks */
    /* The most bytes of b that is read in place: a quarter of L2, where L2 is small. */
    MOST_IN_PLACE = 1 << 18,
    ALIASED = 4096,      /* rows whose distance is a multiple of this go to the same set of L1 */
    TASK_FROM = 1 << 20, /* the fewest multiply-adds of a task */
    TASKS = 16           /* enough for the threads of most machines to end at about the same time */
};

/* A round of tasks: some batches of the product, some columns, a part of k. */
struct round {
    struct kl_product *j;
    /* The first of each in this round, and the number of each. */
    int64_t batch, batches, col, n, k, depth;
    /* tasks of each batch, along the rows and along the columns of the output */
    int64_t row_tasks, col_tasks;
    int64_t step;  /* elements along k that are packed at a time */
    bool in_place; /* b is read in place */
    char *packed;  /* b, packed for all tasks; NULL: each task packs its own part */
};

static int64_t tile_cols(const struct kl_product *j) {
    return 2 * KL_VECTOR / j->bytes;
}

/* n contiguous elements of an operand, as the compute type. */
static void load(const struct kl_product *j, const struct kl_arg *arg, int64_t offset, int64_t n,
                 void *to) {
    if (j->from && arg == j->b)
        j->load_b(j, offset, n, to);
    else
        kl_convert(j->type, to, arg->dtype, kl_element(arg, offset), n);
}

/* Packs `lines` lines of `depth` elements as panels of `panel` lines; from one panel to the next
 * there are `pitch` elements; see gemm.inc. raw has room for one panel. */
static void pack(const struct kl_product *j, const struct kl_arg *arg, int64_t offset, int64_t line,
                 int64_t step, int64_t lines, int64_t depth, int64_t panel, int64_t pitch, char *to,
                 char *raw) {
    bool made = j->from && arg == j->b, converts = arg->dtype != j->type || made;
    bool f32 = j->type == KL_F32;
    int item = (int)kl_dtype_size(arg->dtype);
    union kl_tile tile;
    if (line == 1) {
        int64_t most = KL_TILE / 2 / panel * panel;
        for (int64_t l = 0; l < lines; l += most) {
            int64_t width = kl_min64(most, lines - l);
            char *at = to + l / panel * pitch * j->bytes;
            for (int64_t i = 0; i < (converts ? depth : 1); i++) {
                const char *from = (const char *)tile.bytes;
                if (converts)
                    load(j, arg, offset + l + i * step, width, tile.bytes);
                else
                    from = kl_element(arg, offset + l);
                (f32 ? kl_spread_f32 : kl_spread_f64)(at + i * panel * j->bytes, from, step, width,
                                                      converts ? 1 : depth, panel, pitch);
            }
        }
        return;
    }
    for (int64_t l = 0; l < lines; l += panel) {
        int64_t width = kl_min64(panel, lines - l), line_now = line;
        const char *from = raw;
        if (made) {
            j->pack_b(j, offset + l * line, width, depth, to + l / panel * pitch * j->bytes);
            continue;
        }
        if (converts || step != 1) {
            for (int64_t r = 0; r < width; r++) {
                char *row = raw + r * depth * j->bytes;
                if (step != 1) {
                    char *dst = converts ? (char *)tile.bytes : row;
                    kl_copy_run(item, depth, dst, item, kl_element(arg, offset + (l + r) * line),
                                step * item);
                    if (converts) kl_convert(j->type, row, arg->dtype, dst, depth);
                } else {
                    load(j, arg, offset + (l + r) * line, depth, row);
                }
            }
            line_now = depth;
        } else {
            from = kl_element(arg, offset + l * line);
        }
        (f32 ? kl_panel_f32 : kl_panel_f64)(to + l / panel * pitch * j->bytes, from, line_now,
                                            width, depth, panel);
    }
}

/* The memory that the tiles of a panel prefetch into L2 while they compute: tile t fetches the
 * lines from at + t % tiles * tile on, with `step` and `turn` of gemm.inc. All in bytes. */
struct ahead {
    const char *at;
    int64_t tiles, tile, step, turn;
};

/* Operand b as the tiles read it: packed, or in place. */
struct right {
    const char *at;
    int64_t row, panel; /* elements from one row to the next, and from one panel to the next */
    bool in_place;
    int64_t source; /* the element of b where the next panel to pack begins; -1: b is packed */
};

/* Each tile fetches an equal part of the packed panel at `at`, or vectors of rows in place. */
static struct ahead fetch_panel(const struct kl_product *j, const struct right *b, const char *at,
                                int64_t tiles, int64_t depth) {
    if (b->in_place) return (struct ahead){at, 2, KL_VECTOR, b->row * j->bytes, 0};
    const int64_t step = kl_ceil_div(2 * KL_VECTOR, tiles);
    return (struct ahead){at, tiles, step * depth, step, 0};
}

/* Fetches the panel to pack next, which begins at element `source`: while panel number `panel` is
 * multiplied, KL_TURN lines of each of some rows or columns. */
static struct ahead fetch_source(const struct kl_product *j, int64_t source, int64_t panel) {
    const int64_t cols = tile_cols(j), row = j->b_row * j->bytes, col = j->b_col * j->bytes;
    if (j->b_col == 1) {
        const int64_t rows = DEPTH * cols / PART_COLS;
        return (struct ahead){kl_element(j->b, source + panel * rows * j->b_row),
                              kl_ceil_div(rows, KL_TURN), KL_TURN * row, KL_LINE,
                              row - KL_TURN * KL_LINE};
    }
    return (struct ahead){kl_element(j->b, source + panel * cols * j->b_col),
                          kl_ceil_div(cols, KL_TURN), KL_TURN * col, col, KL_LINE - KL_TURN * col};
}

/* c = a b, or c += a b, for packed a; c is m x n, with rows `pitch` apart. */
static void multiply(const struct kl_product *j, int64_t m, int64_t n, int64_t depth, const char *a,
                     struct right b, char *c, int64_t pitch, bool add) {
    int64_t cols = tile_cols(j), tiles = kl_ceil_div(m, KL_TILE_ROWS);
    _Alignas(64) char edge[KL_TILE_ROWS * 2 * KL_VECTOR];
    for (int64_t col = 0; col < n; col += cols, b.at += b.panel * j->bytes) {
        int64_t wide = kl_min64(cols, n - col);
        const char *after = col + cols < n ? b.at + b.panel * j->bytes : b.at;
        const struct ahead ahead = b.source >= 0 ? fetch_source(j, b.source, col / cols)
                                                 : fetch_panel(j, &b, after, tiles, depth);
        for (int64_t row = 0, tile = 0; row < m; row += KL_TILE_ROWS, tile++) {
            const char *left = a + row * depth * j->bytes;
            if (tile == ahead.tiles) tile = 0;
            const char *fetch = ahead.at + tile * ahead.tile;
            char *to = c + (row * pitch + col) * j->bytes, *next = to;
            int rows = (int)kl_min64(KL_TILE_ROWS, m - row);
            if (row + 2 * KL_TILE_ROWS <= m)
                next += KL_TILE_ROWS * pitch * j->bytes;
            else if (m >= KL_TILE_ROWS && col + 2 * cols <= n)
                next = c + (col + cols) * j->bytes;
            bool whole = wide == cols &&
                         (rows == KL_TILE_ROWS || rows == KL_TILE_FEW || rows == KL_TILE_FEW / 2);
            size_t bytes = (size_t)(wide * j->bytes);
            char *at = whole ? to : edge;
            int64_t between = whole ? pitch : cols;
            if (!whole && add) memset(edge, 0, sizeof edge);
            for (int i = 0; !whole && add && i < rows; i++)
                memcpy(edge + i * 2 * KL_VECTOR, to + i * pitch * j->bytes, bytes);
            (j->type == KL_F32 ? kl_tile_at_f32 : kl_tile_at_f64)(
                rows, depth, left, b.at, b.row, at, between, add, whole ? next : edge, fetch,
                ahead.step, ahead.turn);
            for (int i = 0; !whole && i < rows; i++)
                memcpy(to + i * pitch * j->bytes, edge + i * 2 * KL_VECTOR, bytes);
        }
    }
}

/* Whether the vectors of b's rows are aligned to cache lines, in each product of the batch. */
static bool right_is_aligned(const struct kl_product *j) {
    int64_t between = j->b_row;
    for (int i = 0; i < j->n_lead; i++) between |= j->lead[1][i];
    return (uintptr_t)j->b->data % KL_VECTOR == 0 && between * j->bytes % KL_VECTOR == 0;
}

/* Whether tiles read b in place. It must be small enough to stay in L2, and its rows must not all
 * go to a few sets of L1. Unaligned vectors cross cache lines, which doubles the reads. That is
 * cheaper than packing only where a panel stays in L1. */
static bool right_in_place(const struct kl_product *j) {
    return !j->from && j->b->dtype == j->type && j->b_col == 1 && j->n % tile_cols(j) == 0 &&
           j->k * j->n * j->bytes <= MOST_IN_PLACE && j->b_row * j->bytes % ALIASED != 0 &&
           (right_is_aligned(j) || 3 * j->k * 2 * KL_VECTOR <= 2 * kl_cpu_l1_bytes());
}

/* The first line of part i of `total` lines, which are cut into `parts` of whole panels. */
static int64_t cut_at(int64_t i, int64_t parts, int64_t total, int64_t panel) {
    return kl_min64(i * kl_ceil_div(total, panel) / parts * panel, total);
}

static void multiply_task(void *arg, int64_t task) {
    struct round *s = arg;
    struct kl_product *j = s->j;
    const struct kl_arg *out = j->l->out;
    int64_t cols = tile_cols(j), depth = kl_min64(s->step, s->depth);
    int64_t in_batch = task % (s->row_tasks * s->col_tasks);
    int64_t row_task = in_batch / s->col_tasks, col_task = in_batch % s->col_tasks;
    struct kl_place p = {.batch = s->batch + task / (s->row_tasks * s->col_tasks),
                         .row = cut_at(row_task, s->row_tasks, j->m, KL_TILE_ROWS),
                         .col = cut_at(col_task, s->col_tasks, s->n, cols)};
    p.m = cut_at(row_task + 1, s->row_tasks, j->m, KL_TILE_ROWS) - p.row;
    p.n = cut_at(col_task + 1, s->col_tasks, s->n, cols) - p.col;
    kl_offsets(j->n_lead, j->dims, j->lead[0], p.batch, 1, &p.a);
    kl_offsets(j->n_lead, j->dims, j->lead[1], p.batch, 1, &p.b);
    const char *packed = s->packed;
    int64_t in_packed = p.col;
    p.col += s->col;
    /* Sums are kept in the output, where it has the compute type. */
    bool direct = out->dtype == j->type;
    size_t a_bytes =
        (size_t)kl_round_up(kl_round_up(p.m, KL_TILE_ROWS) * depth * j->bytes + KL_VECTOR, 64);
    /* Columns of b that are packed at a time: a panel, which the tiles then find in the nearest
     * cache; where rows are contiguous, long parts of rows. */
    int64_t part = j->b_col == 1 ? kl_min64(PART_COLS, kl_round_up(p.n, cols)) : cols;
    bool fetches = j->b->dtype == KL_F32 && j->type == KL_F32 && !j->from;
    size_t b_bytes = packed || s->in_place ? 0 : (size_t)(part * depth * j->bytes);
    size_t c_bytes = direct ? 0 : (size_t)kl_round_up(p.m * p.n * j->bytes, 64);
    size_t raw_bytes = (size_t)((cols > KL_TILE_ROWS ? cols : KL_TILE_ROWS) * depth * j->bytes);
    struct kl_scratch room;
    if (!kl_scratch_take(&room, j->l, a_bytes + b_bytes + c_bytes + raw_bytes)) {
        atomic_store(&j->no_memory, true);
        return;
    }
    char *a = room.ptr, *b = a + a_bytes, *c = b + b_bytes, *raw = c + c_bytes;
    int64_t pitch = direct ? j->out_row : p.n;
    if (direct)
        c = (char *)out->data +
            (p.batch * j->m * j->n + p.row * j->out_row + p.col) * (int64_t)j->bytes;
    for (int64_t k = s->k; k < s->k + s->depth; k += s->step) {
        int64_t d = kl_min64(s->step, s->k + s->depth - k);
        struct right right = {.at = b, .row = cols, .panel = cols * d, .source = -1};
        pack(j, j->a, p.a + p.row * j->a_row + k * j->a_col, j->a_row, j->a_col, p.m, d,
             KL_TILE_ROWS, KL_TILE_ROWS * d, a, raw);
        if (s->in_place)
            right = (struct right){.at = kl_element(j->b, p.b + k * j->b_row + p.col),
                                   .row = j->b_row,
                                   .panel = cols,
                                   .in_place = true,
                                   .source = -1};
        else if (packed)
            right.at = packed + ((k - s->k) * kl_round_up(s->n, cols) + in_packed * d) * j->bytes;
        if (s->in_place || packed) {
            multiply(j, p.m, p.n, d, a, right, c, pitch, k > 0);
            continue;
        }
        for (int64_t col = 0; col < p.n; col += part) {
            const int64_t n = kl_min64(part, p.n - col);
            const int64_t from = p.b + k * j->b_row + (p.col + col) * j->b_col;
            pack(j, j->b, from, j->b_col, j->b_row, n, d, cols, cols * d, b, raw);
            if (fetches)
                right.source = col + part < p.n ? from + part * j->b_col
                                                : from + d * j->b_row - col * j->b_col;
            multiply(j, p.m, n, d, a, right, c + col * j->bytes, pitch, k > 0);
        }
    }
    for (int64_t i = 0; !direct && i < p.m; i++)
        kl_store_row(j, &p, i, 0, p.n, c + i * p.n * j->bytes);
    kl_scratch_give(&room);
}

/* Packs one unit of b, of the first batch of the round. */
static void pack_task(void *arg, int64_t task) {
    struct round *s = arg;
    struct kl_product *j = s->j;
    int64_t cols = tile_cols(j), groups = kl_ceil_div(s->n, cols * UNIT_COLS), b;
    int64_t col = task % groups * cols * UNIT_COLS, k = task / groups * UNIT_ROWS;
    int64_t first = k / s->step * s->step, d = kl_min64(s->step, s->depth - first);
    _Alignas(64) char raw[UNIT_ROWS * 2 * KL_VECTOR];
    kl_offsets(j->n_lead, j->dims, j->lead[1], s->batch, 1, &b);
    b += (s->k + k) * j->b_row + (s->col + col) * j->b_col;
    pack(j, j->b, b, j->b_col, j->b_row, kl_min64(cols * UNIT_COLS, s->n - col),
         kl_min64(UNIT_ROWS, s->depth - k), cols, cols * d,
         s->packed + (first * kl_round_up(s->n, cols) + col * d + (k - first) * cols) * j->bytes,
         raw);
}

/* Rounds in which all threads pack b: for all batches at once where they have the same b, else
 * batch by batch. The memory for packed b is bounded, so a large b is packed in parts. */
static void shared_rounds(struct round *s, const struct kl_launch *l) {
    struct kl_product *j = s->j;
    int64_t cols = tile_cols(j), per_line = MOST_SHARED / j->bytes;
    s->step = SHARED_BYTES / j->bytes;
    bool direct = j->l->out->dtype == j->type, one_b = true;
    for (int i = 0; i < j->n_lead; i++) one_b = one_b && j->lead[1][i] == 0;
    /* Sums over a part of k stay in the output, if it has the compute type. */
    int64_t depth = direct ? kl_min64(j->k, 4096) : j->k;
    int64_t n = kl_min64(kl_round_up(j->n, cols), per_line / depth / cols * cols);
    if (n < cols) n = cols;
    struct kl_scratch scratch;
    bool room = !s->in_place && kl_scratch_take(&scratch, j->l, (size_t)(n * depth * j->bytes));
    s->packed = room ? scratch.ptr : NULL;
    int64_t row_tiles = kl_ceil_div(j->m, KL_TILE_ROWS);
    int64_t want = kl_ceil_div(j->m * n * depth, TASK_FROM / 4);
    s->batches = one_b ? j->batches : 1;
    for (s->batch = 0; s->batch < j->batches; s->batch += s->batches)
        for (s->col = 0; s->col < j->n; s->col += n)
            for (s->k = 0; s->k < j->k; s->k += depth) {
                s->n = kl_min64(n, j->n - s->col);
                s->depth = kl_min64(depth, j->k - s->k);
                if (room)
                    kl_run_tasks(
                        l, kl_ceil_div(s->n, cols * UNIT_COLS) * kl_ceil_div(s->depth, UNIT_ROWS),
                        pack_task, s);
                s->col_tasks = kl_ceil_div(s->n, cols * SHARED_COLS);
                s->row_tasks = kl_ceil_div(row_tiles, MOST_ROWS);
                if (s->row_tasks < TASKS)
                    s->row_tasks =
                        kl_min64(kl_min64(TASKS, want), kl_round_up(kl_ceil_div(row_tiles, 2), 2));
                else
                    s->row_tasks = kl_min64(kl_round_up(s->row_tasks, TASKS), row_tiles);
                kl_run_tasks(l, s->batches * s->row_tasks * s->col_tasks, multiply_task, s);
            }
    if (room) kl_scratch_give(&scratch);
}

void kl_cpu_gemm(struct kl_product *j, const struct kl_launch *l) {
    int64_t cols = tile_cols(j), row_tiles = kl_ceil_div(j->m, KL_TILE_ROWS),
            col_tiles = kl_ceil_div(j->n, cols);
    struct round s = {.j = j,
                      .n = j->n,
                      .depth = j->k,
                      .step = DEPTH,
                      .batches = j->batches,
                      .in_place = right_in_place(j)};
    if (j->k == 0) {
        memset(j->l->out->data, 0, (size_t)j->l->out->size * kl_dtype_size(j->l->out->dtype));
        return;
    }
    bool direct = j->l->out->dtype == j->type;
    bool by_columns = j->b_col != 1 && j->n * j->k >= LARGE;
    int64_t from = j->batches == 1 ? TASK_FROM / 2 : 8 * TASK_FROM;
    if (row_tiles > (by_columns ? MOST_ROWS : SHARED_FROM) && j->m * j->n >= from / j->k &&
        j->batches < TASKS && (direct || j->k <= MOST_SHARED / j->bytes / cols)) {
        shared_rounds(&s, l);
        return;
    }
    int64_t want = kl_min64((j->m * j->n / (TASK_FROM / j->k + 1)) * j->batches, TASKS);
    s.row_tasks = kl_ceil_div(row_tiles, OWN_ROWS);
    s.col_tasks = kl_ceil_div(col_tiles, MOST_COLS);
    if (s.row_tasks * s.col_tasks * j->batches < want)
        s.col_tasks = kl_min64(kl_ceil_div(want, s.row_tasks * j->batches), col_tiles);
    kl_run_tasks(l, j->batches * s.row_tasks * s.col_tasks, multiply_task, &s);
}
