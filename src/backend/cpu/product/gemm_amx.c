/* gemm_amx.c - MATMUL in tile registers, and of bfloat16 by vdpbf16ps: kl_cpu_gemm_amx of matmul.h.
 * Products are computed faster than operands are packed. So where several tasks need the same part
 * of an operand, all threads pack both first; else each task packs its own parts. Every element is
 * added up along k in float32, in the same steps, however the product is cut. Elements of float32
 * and float16 are split into three and two bfloat16 parts (pack_amx.h). Values that cannot be split
 * (infinities, NaN, the ends of the range) are found while packing; that product of the batch is
 * then computed in vectors (gemm.c). */
#include "backend/cpu/product/pack_amx.h"
#include "backend/cpu/cpu_kernels.h"
#include "backend/cpu/product/matmul.h"
#include "backend/cpu/product/tiles_avx512.h"
#include "backend/cpu/operand/scratch.h"
#include "base/alloc.h"
#ifdef __AVX512F__

enum {
    ROWS = 256, /* ROWS, COLS: the most rows and columns of the result in one task */
    COLS = 256,
    /* Tiles along k that are computed at once, of all bfloat16 parts: operands of 512 KB each stay
     * in L2. Where few tile registers are in use, 32 columns of b stay in L1. */
    STEPS = 32,
    FEW_STEPS = 12,
    LEAST = 32,            /* rows and columns are padded to a multiple of this number */
    UNIT = 16,             /* tiles of an operand in one packing task */
    TASKS = 16,            /* this number keeps the threads of most machines busy */
    TASK_FROM = 1 << 21,   /* the fewest multiply-adds of a task */
    MOST_PACKED = 1 << 24, /* the most bytes of a packed operand, for each bfloat16 part */
    /* For elements of several bfloat16 parts: the rows and columns, and the multiply-adds, from
     * which on tile registers are faster than vectors. */
    BF16_PARTS_FROM = 128,
    TWO_FROM = 1 << 24,
    THREE_FROM = 1 << 25,
    /* The rows and columns from which on vdpbf16ps is used: below, too much of a tile is empty. */
    PAIRS_FROM = 48,
};

/* The unit that computes: many tile registers, few of them with the same bits, or vdpbf16ps. */
enum way { MANY, FEW, PAIRS };

static enum way begin(struct kl_amx_config *before) {
    if (!kl_cpu_uses_amx()) return PAIRS;
    return kl_amx_begin(before) ? FEW : MANY;
}

static void end(enum way way, const struct kl_amx_config *before) {
    if (way != PAIRS) kl_amx_end(before);
}

/* One operand of a round: lines [first, first + lines), whole along k, packed as tiles. */
struct side {
    const struct kl_arg *arg;
    int64_t line, step; /* elements from one line to the next, and from one index k to the next */
    int64_t at;         /* where the operand of this batch begins, in elements */
    int64_t first, lines, k;
    int64_t across, along; /* tiles of one unit of packing */
    /* Number of packing units, and of those along k. No units: the operand is packed already, or
     * read in place. */
    int64_t units, units_along;
    bool in_place;  /* a left operand that is read in place */
    bool pairs;     /* the right operand, whose rows are interleaved in pairs */
    int bf16_parts; /* the number of bfloat16 parts of an element */
    uint16_t *to;
    _Atomic(uint32_t) most, least; /* the range of what was packed, as in struct kl_amx_range */
};

struct round {
    struct kl_product *j;
    struct side a, b;
    int64_t batch, rows, cols; /* the part of the result that one task computes */
    int64_t row_tasks;
};

/* The number of bfloat16 parts of an element; 0: this dtype is not computed in tile registers. */
static int bf16_parts_of(enum kl_dtype dtype) {
    return dtype == KL_BF16 ? 1 : dtype == KL_F16 ? 2 : dtype == KL_F32 ? 3 : 0;
}

static void forget_range(struct side *s) {
    atomic_store(&s->most, KL_AMX_NO_RANGE.most);
    atomic_store(&s->least, KL_AMX_NO_RANGE.least);
}

/* Joins the range of packed elements to that of the operand. Several threads may call it. */
static void join_range(struct side *s, struct kl_amx_range range) {
    uint32_t most = atomic_load(&s->most), least = atomic_load(&s->least);
    while (most < range.most && !atomic_compare_exchange_weak(&s->most, &most, range.most)) {
    }
    while (least > range.least && !atomic_compare_exchange_weak(&s->least, &least, range.least)) {
    }
}

/* Whether tile registers can compute with the elements that were packed so far. */
static bool taken(struct round *s) {
    struct kl_amx_range a = {atomic_load(&s->a.most), atomic_load(&s->a.least)};
    struct kl_amx_range b = {atomic_load(&s->b.most), atomic_load(&s->b.least)};
    return s->a.bf16_parts == 1 || kl_amx_takes(a, b, s->j->k);
}

/* Starts a round without lines. Packed operands go to `room`, whose first a_bytes are for a. */
static void start_round(struct round *s, struct kl_product *j, char *room, size_t a_bytes) {
    int bf16_parts = bf16_parts_of(j->l->out->dtype);
    *s = (struct round){.j = j,
                        .a = {.arg = j->a, .line = j->a_row, .step = j->a_col},
                        .b = {.arg = j->b, .line = j->b_col, .step = j->b_row, .pairs = true}};
    s->a.to = (uint16_t *)room;
    s->b.to = (uint16_t *)(room + a_bytes);
    s->a.bf16_parts = s->b.bf16_parts = bf16_parts;
    forget_range(&s->a);
    forget_range(&s->b);
}

static int64_t tiles_of(int64_t k) {
    return kl_ceil_div(k, KL_AMX_DEPTH);
}

/* The number of tiles along k, of n, that are computed at once. */
static int64_t steps_of(int64_t n, int bf16_parts, enum way way) {
    return kl_ceil_div(n, kl_ceil_div(n * bf16_parts, way == MANY ? STEPS : FEW_STEPS));
}

/* The first bfloat16 part of tile t along k, for the lines from `line` on. Two tiles of a right
 * operand are side by side. */
static uint16_t *tile_at(const struct side *s, int64_t line, int64_t t) {
    int64_t n = tiles_of(s->k), panel = line / KL_AMX_LINES;
    if (!s->pairs) return s->to + (panel * n + t) * s->bf16_parts * KL_AMX_TILE;
    return s->to + ((panel / 2 * n + t) * s->bf16_parts * 2 + panel % 2) * KL_AMX_TILE;
}

/* Packs tiles [t, end) along k of `lines` lines, from line `first` of the operand on. */
static void pack_part(struct side *s, int64_t first, int64_t lines, int64_t t, int64_t end) {
    struct kl_amx_range range = KL_AMX_NO_RANGE;
    bool halves = s->arg->dtype == KL_F16;
    for (; t < end; t++)
        for (int64_t l = first; l < first + lines; l += KL_AMX_LINES) {
            int64_t k = t * KL_AMX_DEPTH, have = kl_min64(KL_AMX_LINES, s->lines - l);
            int64_t depth = kl_min64(KL_AMX_DEPTH, s->k - k);
            const char *from = kl_element(s->arg, s->at + (s->first + l) * s->line + k * s->step);
            uint16_t *to = tile_at(s, l, t);
            if (have < 0) have = 0;
            if (s->bf16_parts == 1)
                kl_amx_pack((const uint16_t *)from, s->line, s->step, have, depth, s->pairs, to);
            else
                kl_amx_range_join(&range, kl_amx_split(from, halves, s->line, s->step, have, depth,
                                                       s->pairs, to, KL_AMX_TILE << s->pairs));
        }
    join_range(s, range);
}

static void pack_unit(struct side *s, int64_t unit) {
    int64_t lines = s->across * KL_AMX_LINES, t = unit % s->units_along * s->along;
    int64_t first = unit / s->units_along * lines;
    pack_part(s, first, kl_min64(lines, kl_round_up(s->lines, LEAST) - first), t,
              kl_min64(t + s->along, tiles_of(s->k)));
}

/* A unit is long in the direction in which memory is contiguous. */
static void count_units(struct side *s) {
    s->across = s->step == 1 ? 2 : UNIT;
    s->along = s->step == 1 ? UNIT : 2;
    s->units_along = kl_ceil_div(tiles_of(s->k), s->along);
    s->units = s->units_along * kl_ceil_div(s->lines, s->across * KL_AMX_LINES);
}

/* Packs units of both operands, starting at the beginning of each. The thread that packs the first
 * columns of b multiplies by them later (multiply_task) and finds them in its own cache. */
static void pack_task(void *arg, int64_t task) {
    struct round *s = arg;
    int64_t all = s->a.units + s->b.units, of_b = task * s->b.units / all;
    if ((task + 1) * s->b.units / all > of_b)
        pack_unit(&s->b, of_b);
    else
        pack_unit(&s->a, task - of_b);
}

/* Whether a left operand is read in place. Its rows must be whole tiles in whole cache lines. When
 * rows are far apart, too few of them stay in a cache. */
static bool can_stay_in_place(const struct side *s) {
    enum { FAR = 1024 };
    const char *from = kl_element(s->arg, s->at + s->first * s->line);
    return !s->pairs && s->bf16_parts == 1 && s->step == 1 && s->line <= FAR &&
           s->line % KL_AMX_DEPTH == 0 && s->lines % LEAST == 0 && s->k % KL_AMX_DEPTH == 0 &&
           (uintptr_t)from % 64 == 0;
}

static struct kl_amx_left left_at(const struct side *s, int64_t line, int64_t t) {
    int64_t offset = s->at + (s->first + line) * s->line + t * KL_AMX_DEPTH;
    if (s->in_place)
        return (struct kl_amx_left){(const uint16_t *)kl_element(s->arg, offset), s->line,
                                    KL_AMX_DEPTH, KL_AMX_LINES * s->line};
    return (struct kl_amx_left){tile_at(s, line, t), KL_AMX_DEPTH, s->bf16_parts * KL_AMX_TILE,
                                tiles_of(s->k) * s->bf16_parts * KL_AMX_TILE};
}

static struct kl_amx_place moved(const struct kl_amx_place *p, int64_t row, int64_t col) {
    return (struct kl_amx_place){p->at + row * p->pitch + col, p->pitch};
}

/* to = from + the products of n tiles along k, starting with tile t, for rows x cols elements of
 * the result, both multiples of LEAST. With from NULL, the sums begin with zeros. */
static void multiply_steps(const struct round *s, enum way way, int64_t row, int64_t rows,
                           int64_t col, int64_t cols, int64_t t, int64_t n,
                           const struct kl_amx_place *from, const struct kl_amx_place *to) {
    for (int64_t x = 0; x < cols; x += KL_AMX_ROWS)
        for (int64_t y = 0; y < rows; y += KL_AMX_ROWS) {
            struct kl_amx_place at = moved(to, y, x), before = from ? moved(from, y, x) : at;
            struct kl_amx_left left = left_at(&s->a, row + y, t);
            const uint16_t *right = tile_at(&s->b, col + x, t);
            if (way == PAIRS)
                kl_bf16_square(n, &left, right, from ? &before : NULL, &at);
            else
                kl_amx_square(way == FEW, s->a.bf16_parts, n, &left, right, from ? &before : NULL,
                              &at);
        }
}

/* The same for all tiles along k. Intermediate sums are stored in `sums`, which may be `from` or
 * `to`. */
static void multiply(const struct round *s, enum way way, int64_t row, int64_t rows, int64_t col,
                     int64_t cols, const struct kl_amx_place *from, const struct kl_amx_place *sums,
                     const struct kl_amx_place *to) {
    int64_t n = tiles_of(s->a.k), steps = steps_of(n, s->a.bf16_parts, way);
    for (int64_t t = 0; t < n; t += steps)
        multiply_steps(s, way, row, rows, col, cols, t, kl_min64(steps, n - t), t > 0 ? sums : from,
                       t + steps < n ? sums : to);
}

/* Where the final sums of a task go: into the result itself, if it can hold whole 32 x 32 tiles;
 * else to `sums`, from which the result is stored. */
static struct kl_amx_place last_place(const struct kl_product *j, const struct kl_place *p,
                                      struct kl_amx_place sums) {
    float *out = (float *)j->l->out->data;
    if (j->l->out->dtype != KL_F32 || p->m % LEAST || p->n % LEAST) return sums;
    return (struct kl_amx_place){out + p->batch * j->m * j->n + p->row * j->out_row + p->col,
                                 j->out_row};
}

static void store(const struct kl_product *j, const struct kl_place *p, struct kl_amx_place sums) {
    for (int64_t i = 0; i < p->m; i++)
        kl_store_row(j, p, i, 0, p->n, (const char *)(sums.at + i * sums.pitch));
}

/* Computes a part of the result from packed operands. Successive tasks have the same columns of
 * b. */
static void multiply_task(void *arg, int64_t task) {
    const struct round *s = arg;
    int64_t row = task % s->row_tasks * s->rows, col = task / s->row_tasks * s->cols;
    struct kl_place p = {.batch = s->batch, .row = s->a.first + row, .col = s->b.first + col};
    struct kl_amx_config before;
    p.m = kl_min64(s->rows, s->a.lines - row);
    p.n = kl_min64(s->cols, s->b.lines - col);
    int64_t rows = kl_round_up(p.m, LEAST), cols = kl_round_up(p.n, LEAST);
    struct kl_scratch room;
    if (!kl_scratch_take(&room, s->j->l, (size_t)(rows * cols) * sizeof(float))) {
        atomic_store(&s->j->no_memory, true);
        return;
    }
    struct kl_amx_place sums = {(float *)room.ptr, cols}, last = last_place(s->j, &p, sums);
    const enum way way = begin(&before);
    multiply(s, way, row, rows, col, cols, NULL, &sums, &last);
    end(way, &before);
    if (last.at == sums.at) store(s->j, &p, sums);
    kl_scratch_give(&room);
}

/* Products whose tasks pack their own parts. */
struct own_parts {
    struct kl_product *j;
    /* For each product of the batch: whether tile registers cannot compute it. */
    _Atomic(bool) *refused;
};

/* Computes a part of the result and packs its operands, as much along k at a time as stays in
 * L2. */
static void alone_task(void *arg, int64_t task) {
    const struct own_parts *own = arg;
    struct kl_product *j = own->j;
    struct kl_place p = kl_place_of(j, task);
    struct kl_amx_config before;
    int64_t rows = kl_round_up(p.m, LEAST), cols = kl_round_up(p.n, LEAST);
    int bf16_parts = bf16_parts_of(j->l->out->dtype);
    int64_t depth = steps_of(tiles_of(j->k), bf16_parts, MANY) * KL_AMX_DEPTH;
    size_t a_bytes = (size_t)(rows * depth * bf16_parts) * 2,
           b_bytes = (size_t)(cols * depth * bf16_parts) * 2;
    struct kl_scratch room;
    if (!kl_scratch_take(&room, j->l, a_bytes + b_bytes + (size_t)(rows * cols) * sizeof(float))) {
        atomic_store(&j->no_memory, true);
        return;
    }
    char *at = room.ptr;
    struct kl_amx_place sums = {(float *)(at + a_bytes + b_bytes), cols};
    struct kl_amx_place last = last_place(j, &p, sums);
    struct round s;
    start_round(&s, j, at, a_bytes);
    s.a.at = p.a;
    s.a.first = p.row;
    s.a.lines = p.m;
    s.b.at = p.b;
    s.b.first = p.col;
    s.b.lines = p.n;
    const enum way way = begin(&before);
    for (int64_t k = 0; k < j->k; k += depth) {
        s.a.k = s.b.k = kl_min64(depth, j->k - k);
        int64_t n = tiles_of(s.a.k);
        s.a.in_place = can_stay_in_place(&s.a);
        if (!s.a.in_place) pack_part(&s.a, 0, rows, 0, n);
        pack_part(&s.b, 0, cols, 0, n);
        multiply(&s, way, 0, rows, 0, cols, k > 0 ? &sums : NULL, &sums,
                 k + depth < j->k ? &sums : &last);
        s.a.at += depth * s.a.step;
        s.b.at += depth * s.b.step;
    }
    end(way, &before);
    if (last.at == sums.at) store(j, &p, sums);
    if (!taken(&s)) atomic_store(&own->refused[p.batch], true);
    kl_scratch_give(&room);
}

/* Computes one product of the batch in vectors. */
static void in_vectors(struct kl_product *j, const struct kl_launch *l, int64_t batch) {
    struct kl_product one = *j;
    struct kl_launch launch = *j->l;
    struct kl_arg a = *j->a, b = *j->b, out = *launch.out;
    int64_t at;
    kl_offsets(j->n_lead, j->dims, j->lead[0], batch, 1, &at);
    a.data = (char *)a.data + at * (int64_t)kl_dtype_size(a.dtype);
    kl_offsets(j->n_lead, j->dims, j->lead[1], batch, 1, &at);
    b.data = (char *)b.data + at * (int64_t)kl_dtype_size(b.dtype);
    out.size = j->m * j->n;
    out.data = (char *)out.data + batch * out.size * (int64_t)kl_dtype_size(out.dtype);
    launch.out = &out;
    one.l = &launch;
    one.a = &a;
    one.b = &b;
    one.n_lead = 0;
    one.batches = 1;
    kl_cpu_gemm(&one, l);
    if (atomic_load(&one.no_memory)) atomic_store(&j->no_memory, true);
}

static void each_alone(struct kl_product *j, const struct kl_launch *l) {
    struct own_parts own = {.j = j};
    if (bf16_parts_of(j->l->out->dtype) > 1) {
        own.refused = kl_calloc((size_t)j->batches, sizeof *own.refused);
        if (!own.refused) {
            atomic_store(&j->no_memory, true);
            return;
        }
    }
    kl_run_tasks(l, j->batches * j->row_tasks * j->col_tasks, alone_task, &own);
    for (int64_t i = 0; own.refused && i < j->batches; i++)
        if (atomic_load(&own.refused[i])) in_vectors(j, l, i);
    kl_free(own.refused);
}

/* Requests that lines [first, first + lines) of the batch element at `at` be packed next. They may
 * be packed already. */
static void ask_for(struct side *s, int64_t at, int64_t first, int64_t lines) {
    bool other = s->at != at, packed = s->lines == lines && s->first == first && !other;
    s->at = at;
    s->first = first;
    s->lines = lines;
    s->units = 0;
    s->in_place = can_stay_in_place(s);
    if (packed || s->in_place) return;
    count_units(s);
    if (other) forget_range(s);
}

/* Computes one product of the batch in rounds. Returns false where tile registers cannot. */
static bool one_by_rounds(struct round *s, int64_t rows, int64_t cols, const struct kl_launch *l) {
    const struct kl_product *j = s->j;
    int64_t a_at, b_at;
    kl_offsets(j->n_lead, j->dims, j->lead[0], s->batch, 1, &a_at);
    kl_offsets(j->n_lead, j->dims, j->lead[1], s->batch, 1, &b_at);
    for (int64_t col = 0; col < j->n; col += cols)
        for (int64_t row = 0; row < j->m; row += rows) {
            ask_for(&s->a, a_at, row, kl_min64(rows, j->m - row));
            ask_for(&s->b, b_at, col, kl_min64(cols, j->n - col));
            kl_run_tasks(l, s->a.units + s->b.units, pack_task, s);
            if (!taken(s)) return false;
            s->row_tasks = kl_ceil_div(s->a.lines, s->rows);
            kl_run_tasks(l, s->row_tasks * kl_ceil_div(s->b.lines, s->cols), multiply_task, s);
        }
    return true;
}

/* Computes all products of the batch in rounds. Returns false where there is no memory. */
static bool all_rounds(struct kl_product *j, const struct kl_launch *l) {
    int64_t line = kl_round_up(j->k, KL_AMX_DEPTH) * 2, most = MOST_PACKED / line / ROWS * ROWS;
    int64_t rows = kl_min64(most, kl_round_up(j->m, LEAST)),
            cols = kl_min64(most, kl_round_up(j->n, LEAST));
    int bf16_parts = bf16_parts_of(j->l->out->dtype);
    size_t a_bytes = (size_t)(rows * line * bf16_parts),
           b_bytes = (size_t)(cols * line * bf16_parts);
    struct kl_scratch room;
    struct round s;
    if (most == 0 || !kl_scratch_take(&room, j->l, a_bytes + b_bytes)) return false;
    start_round(&s, j, room.ptr, a_bytes);
    s.rows = j->rows;
    s.cols = j->cols;
    s.a.k = s.b.k = j->k;
    for (s.batch = 0; s.batch < j->batches; s.batch++)
        if (!one_by_rounds(&s, rows, cols, l)) in_vectors(j, l, s.batch);
    kl_scratch_give(&room);
    return true;
}

static int64_t part_of(int64_t n, int64_t most) {
    return kl_round_up(kl_ceil_div(n, kl_ceil_div(n, most)), LEAST);
}

/* Whether tile registers, or vdpbf16ps, are faster. The decision is made for one product of the
 * batch, so that its bits are those of this product alone. */
static bool worth_it(const struct kl_product *j, int bf16_parts) {
    double products = (double)j->m * (double)j->n * (double)j->k;
    if (!kl_cpu_uses_amx())
        return bf16_parts == 1 && kl_cpu_uses_bf16() && kl_min64(j->m, j->n) >= PAIRS_FROM;
    if (bf16_parts < 2) return bf16_parts == 1;
    return kl_min64(j->m, j->n) >= BF16_PARTS_FROM &&
           products >= (bf16_parts == 2 ? TWO_FROM : THREE_FROM);
}

bool kl_cpu_gemm_amx(struct kl_product *j, const struct kl_launch *l) {
    if (j->k == 0 || !worth_it(j, bf16_parts_of(j->l->out->dtype))) return false;
    int64_t most_rows = ROWS, most_cols = COLS;
    /* With several bfloat16 parts tasks take longer. So there are more of them, and threads end at
     * about the same time. */
    int64_t tasks = j->l->out->dtype == KL_BF16 ? TASKS : 2 * TASKS;
    for (;;) {
        j->rows = part_of(j->m, most_rows);
        j->cols = part_of(j->n, most_cols);
        j->row_tasks = kl_ceil_div(j->m, j->rows);
        j->col_tasks = kl_ceil_div(j->n, j->cols);
        bool wide = j->cols > j->rows;
        if (j->batches * j->row_tasks * j->col_tasks >= tasks ||
            j->rows * j->cols * j->k / 2 < TASK_FROM || j->rows + j->cols <= 2 * LEAST)
            break;
        if (wide)
            most_cols = j->cols / 2;
        else
            most_rows = j->rows / 2;
    }
    bool shared = j->row_tasks * j->col_tasks > 1 && j->batches < TASKS;
    if (!shared || !all_rounds(j, l)) each_alone(j, l);
    return true;
}
#else
bool kl_cpu_gemm_amx(struct kl_product *j, const struct kl_launch *l) {
    return false;
}
#endif
