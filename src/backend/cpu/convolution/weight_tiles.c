/* weight_tiles.c - the gradient of a convolution's weight in one group as a product: its rows are
 * the elements of the kernel with their channels, its columns the output channels, and its depth
 * the positions. All that a row of the kernel sees at a position stands side by side in x: panels
 * are packed straight from x and from the cotangent, a few positions at a time, and stay in the
 * caches while the tiles of gemm.inc run over them. 16-bit floats are added up in float32. Cuts
 * follow from shapes alone: the bits depend on no threads. */
#include <stdatomic.h>

#include "backend/cpu/convolution/convolution_backward.h"
#include "backend/cpu/operand/scratch.h"
#include "backend/cpu/product/products.h"

enum {
    X = KL_MAX_SPATIAL - 1,
    LANES = KL_VECTOR / 4,
    COLS = 2 * LANES,                               /* columns of a tile */
    BLOCK_ROWS = 384 / KL_TILE_ROWS * KL_TILE_ROWS, /* rows and columns of a task */
    BLOCK_COLS = 64,
    POSITIONS = 128, /* that are packed at a time */
    /* Elements that are copied at a time: the rows of a tile, in whole vectors. The excess
     * is overwritten by the copy after it, but after the last position of a tile. */
    COPY = (KL_TILE_ROWS + LANES - 1) / LANES * LANES,
    TILE = (POSITIONS + 2) * KL_TILE_ROWS,
    MOST_PIECES = BLOCK_ROWS / KL_TILE_ROWS + 2 * BLOCK_ROWS,
    TASKS = 32,            /* for which work is cut; enough for the threads of most machines */
    LEAST_POSITIONS = 512, /* of a part, where there are several */
    /* A long sum of float32, added up one after the other, loses digits. From LONG positions on, a
     * task adds up blocks of BLOCK_POSITIONS each, and the sums of the blocks in double. */
    BLOCK_POSITIONS = 1024,
    LONG = 4096,
    ROW_ELEMENTS = 1 << 14,  /* of x that are copied at a time */
    PARALLEL_FROM = 1 << 18, /* multiply-adds from which on several threads compute */
};

struct job {
    struct kl_backward of;
    int64_t channels;  /* of x */
    int64_t run, runs; /* elements of x side by side that a row of the kernel sees; such rows */
    int64_t rows;      /* runs times run */
    int64_t row_blocks, col_blocks;
    int64_t each, parts, lines; /* rows of positions along x: of a part, and of all images; parts */
    int64_t stretch;            /* positions along x whose part of a row is copied at a time */
    int64_t left, right;        /* the first positions along x that see no padding before and some
                                 * after the row */
    bool x_in_place;            /* rows of x are read where they are, if no padding is seen */
    bool g_in_place;            /* and so is g, which is a panel as it is */
    bool is_long;
    float *sums; /* of several parts: (parts, blocks, BLOCK_ROWS, BLOCK_COLS) */
    atomic_bool no_memory;
};

/* A piece of a run that goes into one tile: elements from `from` of run number `run`, to row `row`
 * of the tile. */
struct piece {
    int64_t run, from, tile, row;
};

/* The part of the weight that a task computes, and its scratch memory. */
struct block {
    int64_t first_row, n_rows, first_col, n_cols, tiles, panels;
    int64_t first_run, n_runs;
    int n_pieces;
    struct piece *pieces;
    float *left, *right; /* the panels: (tile, position, row), (panel, position, column) */
    const float *g;      /* the first position in g, where that is read in place */
    float *line, *zeros; /* copied rows of x, one for each run; a row of zeros */
    float *c;            /* the sums: (BLOCK_ROWS, BLOCK_COLS) */
    double *totals;      /* is_long: those of the blocks of positions before, likewise */
};

/* Elements of a copied row of x. */
static int64_t line_size(const struct job *j) {
    return kl_min64(j->stretch, POSITIONS) * j->of.axis[X].stride * j->channels + j->run + COPY;
}

/* The memory that a task needs, in bytes; with `memory`, divides it. */
static size_t divide(const struct job *j, struct block *b, char *memory) {
    const int64_t tiles = BLOCK_ROWS / KL_TILE_ROWS, panels = BLOCK_COLS / COLS;
    const int64_t sizes[] = {MOST_PIECES * (int64_t)sizeof *b->pieces,
                             tiles * TILE * (int64_t)sizeof *b->left,
                             panels * POSITIONS * COLS * (int64_t)sizeof *b->right,
                             kl_min64(j->runs, BLOCK_ROWS / j->run + 2) * line_size(j) *
                                 (int64_t)sizeof *b->line,
                             COPY * (int64_t)sizeof *b->zeros,
                             BLOCK_ROWS * BLOCK_COLS * (int64_t)sizeof *b->c,
                             j->is_long ? BLOCK_ROWS * BLOCK_COLS * (int64_t)sizeof *b->totals : 0};
    void *place[7];
    int64_t at = 0;
    for (int i = 0; i < 7; i++) {
        place[i] = memory ? memory + at : NULL;
        at += kl_round_up(sizes[i], KL_LINE);
    }
    b->pieces = place[0];
    b->left = place[1];
    b->right = place[2];
    b->line = place[3];
    b->zeros = place[4];
    b->c = place[5];
    b->totals = place[6];
    return (size_t)at;
}

/* ---- packing ---- */

/* Cuts the rows of a block where runs and tiles end. */
static void cut_pieces(const struct job *j, struct block *b) {
    b->n_pieces = 0;
    b->first_run = b->first_row / j->run;
    b->n_runs = (b->first_row + b->n_rows - 1) / j->run + 1 - b->first_run;
    for (int64_t row = 0; row < b->n_rows;) {
        const int64_t at = b->first_row + row, in_run = at % j->run;
        b->pieces[b->n_pieces++] = (struct piece){.run = at / j->run - b->first_run,
                                                  .from = in_run,
                                                  .tile = row / KL_TILE_ROWS,
                                                  .row = row % KL_TILE_ROWS};
        row += kl_min64(j->run - in_run, KL_TILE_ROWS - row % KL_TILE_ROWS);
    }
}

/* Elements of one row of x, [from, to) of its channels and positions together, with zeros where
 * there is padding. at: where element 0 of the row is. */
static void copy_line(const struct job *j, int64_t at, int64_t from, int64_t to, float *line) {
    const struct kl_arg *x = j->of.x;
    const struct kl_backward_axis *a = &j->of.axis[X];
    const int64_t c = j->channels, all = a->in * c, begin = kl_min64(kl_max64(from, 0), all),
                  end = kl_max64(kl_min64(to, all), begin);
    const int item = (int)kl_dtype_size(x->dtype);
    const char *data = x->data;
    if (end == begin) {
        memset(line, 0, (size_t)(to - from) * sizeof *line);
        return;
    }
    memset(line, 0, (size_t)(begin - from) * sizeof *line);
    memset(line + (end - from), 0, (size_t)(to - end) * sizeof *line);
    float *out = line + (begin - from);
    if (j->of.x_channel == 1 && a->x_step == c) {
        kl_convert(KL_F32, out, x->dtype, data + (at + begin) * item, end - begin);
        return;
    }
    for (int64_t i = begin; i < end;) { /* position by position */
        const int64_t first = i % c, n = kl_min64(c - first, end - i);
        const char *source = data + (at + i / c * a->x_step + first * j->of.x_channel) * item;
        if (j->of.x_channel == 1) {
            kl_convert(KL_F32, out, x->dtype, source, n);
        } else {
            for (int64_t k = 0; k < n; k++)
                kl_convert(KL_F32, out + k, x->dtype, source + k * j->of.x_channel * item, 1);
        }
        out += n;
        i += n;
    }
}

/* Where what run `run` sees at the first of n positions begins; *step elements lead to what it sees
 * at the next one. */
static const float *line_of(const struct job *j, const struct block *b, int64_t run, int64_t image,
                            int64_t at_z, int64_t at_y, int64_t first, int64_t n, int64_t *step) {
    const struct kl_backward_axis *z = &j->of.axis[0], *y = &j->of.axis[1], *a = &j->of.axis[X];
    const int64_t c = j->channels, along = j->run == c ? a->k : 1, tap = run % along,
                  in_y = kl_backward_seen(y, at_y, run / along % y->k),
                  in_z = kl_backward_seen(z, at_z, run / along / y->k);
    *step = 0;
    if (in_z < 0 || in_y < 0) return NULL;
    const int64_t at = image * j->of.x->strides[0] + in_z * z->x_step + in_y * y->x_step,
                  from = (first * a->stride + tap * a->dilation - a->low) * c,
                  to = from + (n - 1) * a->stride * c + j->run;
    *step = a->stride * c;
    if (j->x_in_place && from >= 0 && to <= a->in * c && at + to + COPY <= j->of.x->size)
        return (const float *)j->of.x->data + at + from;
    float *line = b->line + (run - b->first_run) * line_size(j);
    copy_line(j, at, from, to, line);
    return line;
}

/* Copies what is at from + at, and then `step` elements further, to the rows of n positions. */
static inline __attribute__((always_inline)) void
copy_pieces(int64_t n, const float *from, int64_t step, int64_t at, const float *zeros, float *to) {
    from = from ? from + at : zeros;
    for (int64_t p = 0; p < n; p++, from += step, to += KL_TILE_ROWS)
        memcpy(to, from, COPY * sizeof *to);
}

/* Positions [first, first + n) along x of one row of positions, which become positions `done` and
 * later of the panels. */
static void pack_rows(const struct job *j, const struct block *b, int64_t line, int64_t first,
                      int64_t n, int64_t done) {
    const int64_t at_y = line % j->of.axis[1].out,
                  at_z = line / j->of.axis[1].out % j->of.axis[0].out,
                  image = line / j->of.axis[1].out / j->of.axis[0].out;
    const float *from[2 * BLOCK_ROWS + 2];
    int64_t step[2 * BLOCK_ROWS + 2];
    for (int64_t i = 0; i < b->n_runs; i++)
        from[i] = line_of(j, b, b->first_run + i, image, at_z, at_y, first, n, &step[i]);
    for (int i = 0; i < b->n_pieces;) { /* tile by tile */
        const int first_piece = i;
        const int64_t tile = b->pieces[i].tile;
        float *to = b->left + tile * TILE + done * KL_TILE_ROWS;
        while (i < b->n_pieces && b->pieces[i].tile == tile) i++;
        if (i - first_piece == 1) {
            copy_pieces(n, from[b->pieces[first_piece].run], step[b->pieces[first_piece].run],
                        b->pieces[first_piece].from, b->zeros, to);
            continue;
        }
        for (int64_t p = 0; p < n; p++, to += KL_TILE_ROWS)
            for (int k = first_piece; k < i; k++) {
                const struct piece *q = &b->pieces[k];
                copy_pieces(1, from[q->run] ? from[q->run] + p * step[q->run] : NULL, 0, q->from,
                            b->zeros, to + q->row);
            }
    }
}

static void pack_columns(const struct job *j, const struct block *b, int64_t line, int64_t first,
                         int64_t n, int64_t done) {
    const struct kl_backward *of = &j->of;
    const struct kl_backward_axis *z = &of->axis[0], *y = &of->axis[1], *a = &of->axis[X];
    const int item = (int)kl_dtype_size(of->g->dtype);
    const char *from =
        (const char *)of->g->data +
        (line / y->out / z->out * of->g->strides[0] + line / y->out % z->out * z->g_step +
         line % y->out * y->g_step + first * a->g_step + b->first_col * of->g_channel) *
            item;
    for (int64_t p = 0; p < n; p++, from += a->g_step * item)
        for (int64_t panel = 0; panel < b->panels; panel++) {
            const int64_t some = kl_min64(COLS, b->n_cols - panel * COLS);
            float *to = b->right + (panel * POSITIONS + done + p) * COLS;
            const char *source = from + panel * COLS * of->g_channel * item;
            if (of->g->dtype == KL_F32 && of->g_channel == 1 && some == COLS) {
                memcpy(to, source, COLS * sizeof *to);
            } else if (of->g_channel == 1) {
                kl_convert(KL_F32, to, of->g->dtype, source, some);
            } else {
                for (int64_t k = 0; k < some; k++)
                    kl_convert(KL_F32, to + k, of->g->dtype, source + k * of->g_channel * item, 1);
            }
        }
}

/* ---- one task ---- */

/* Adds the products of the `n` positions in the panels to the sums. */
static void multiply(const struct job *j, const struct block *b, int64_t n, bool add) {
    const int64_t distance = b->g ? j->of.o : COLS;
    for (int64_t panel = 0; panel < b->panels; panel++) {
        const float *right = b->g ? b->g + panel * COLS : b->right + panel * POSITIONS * COLS;
        for (int64_t tile = 0; tile < b->tiles; tile++) {
            float *c = b->c + tile * KL_TILE_ROWS * BLOCK_COLS + panel * COLS;
            const float *left = b->left + tile * TILE;
            kl_tile_at_f32(KL_TILE_ROWS, n, left, right, distance, c, BLOCK_COLS, add, c,
                           (const char *)left, 0, 0);
        }
    }
}

/* Adds the sums of a block of positions to the totals, or makes them the first ones, and puts the
 * totals in their place (last). */
static void end_block(const struct block *b, bool first, bool last) {
    for (int64_t i = 0; i < BLOCK_ROWS * BLOCK_COLS; i++) {
        b->totals[i] = (first ? 0 : b->totals[i]) + b->c[i];
        if (last) b->c[i] = (float)b->totals[i];
    }
}

/* Positions along x from `at` on that are packed together: they see padding alike. */
static int64_t together(const struct job *j, int64_t at) {
    const int64_t out = j->of.axis[X].out, n = kl_min64(out - at, j->stretch);
    if (at < j->left) return kl_min64(n, j->left - at);
    return at < j->right ? kl_min64(n, j->right - at) : n;
}

/* Adds up the rows [line, end) of positions. */
static void add_lines(const struct job *j, struct block *b, int64_t line, int64_t end) {
    const int64_t out = j->of.axis[X].out;
    int64_t packed = 0, added = 0;
    bool add = false, first = true;
    for (; line < end; line++)
        for (int64_t at = 0; at < out;) {
            const int64_t n = kl_min64(together(j, at), POSITIONS - packed);
            if (j->g_in_place && !packed)
                b->g = (const float *)j->of.g->data + (line * out + at) * j->of.o + b->first_col;
            pack_rows(j, b, line, at, n, packed);
            if (!j->g_in_place) pack_columns(j, b, line, at, n, packed);
            packed += n;
            at += n;
            const bool last = line + 1 == end && at == out;
            if (packed < POSITIONS && !last) continue;
            multiply(j, b, packed, add);
            add = true;
            added += packed;
            packed = 0;
            if (!j->is_long || (added < BLOCK_POSITIONS && !last)) continue;
            end_block(b, first, last);
            add = first = false;
            added = 0;
        }
}

/* Puts the sums of a block where the weight has them. */
static void put(const struct job *j, const struct block *b, const float *sums) {
    enum { AT_ONCE = 64, OUT = 16 };
    const struct kl_arg *out = j->of.l->out;
    const int64_t item = (int64_t)kl_dtype_size(out->dtype), c = j->channels;
    for (int64_t row = 0, n; row < b->n_rows; row += n) {
        const int64_t at = b->first_row + row, to = kl_backward_place(&j->of, at / c) * c + at % c;
        n = kl_min64(kl_min64(c - at % c, b->n_rows - row), AT_ONCE);
        for (int64_t o = 0; o < b->n_cols; o += OUT) {
            float turned[OUT][AT_ONCE];
            const int64_t some = kl_min64(OUT, b->n_cols - o);
            for (int64_t i = 0; i < n; i++)
                for (int64_t k = 0; k < some; k++)
                    turned[k][i] = sums[(row + i) * BLOCK_COLS + o + k];
            for (int64_t k = 0; k < some; k++)
                kl_convert(out->dtype,
                           (char *)out->data + ((b->first_col + o + k) * j->rows + to) * item,
                           KL_F32, turned[k], n);
        }
    }
}

static void place_block(const struct job *j, struct block *b, int64_t index) {
    b->first_col = index % j->col_blocks * BLOCK_COLS;
    b->first_row = index / j->col_blocks * BLOCK_ROWS;
    b->n_cols = kl_min64(BLOCK_COLS, j->of.o - b->first_col);
    b->n_rows = kl_min64(BLOCK_ROWS, j->rows - b->first_row);
    b->tiles = kl_ceil_div(b->n_rows, KL_TILE_ROWS);
    b->panels = kl_ceil_div(b->n_cols, COLS);
}

static void task(void *arg, int64_t index) {
    struct job *j = arg;
    struct kl_scratch memory;
    struct block b;
    if (!kl_scratch_take(&memory, j->of.l, divide(j, &b, NULL))) {
        atomic_store(&j->no_memory, true);
        return;
    }
    divide(j, &b, memory.ptr);
    const int64_t blocks = j->row_blocks * j->col_blocks, part = index / blocks,
                  first = part * j->each;
    place_block(j, &b, index % blocks);
    cut_pieces(j, &b);
    b.g = NULL;
    /* Places that no piece and no column fills are multiplied, too; nobody reads the result. */
    memset(b.zeros, 0, COPY * sizeof *b.zeros);
    memset(b.left + (b.tiles - 1) * TILE, 0, TILE * sizeof *b.left);
    memset(b.right, 0, (size_t)(b.panels * POSITIONS * COLS) * sizeof *b.right);
    add_lines(j, &b, first, kl_min64(first + j->each, j->lines));
    if (j->parts == 1)
        put(j, &b, b.c);
    else
        memcpy(j->sums + index * BLOCK_ROWS * BLOCK_COLS, b.c,
               BLOCK_ROWS * BLOCK_COLS * sizeof *b.c);
    kl_scratch_give(&memory);
}

/* Adds up the parts of a block, in their order. */
static void join(void *arg, int64_t index) {
    struct job *j = arg;
    struct block b;
    const int64_t size = BLOCK_ROWS * BLOCK_COLS, step = j->row_blocks * j->col_blocks * size;
    float *sums = j->sums + index * size;
    place_block(j, &b, index);
    for (int64_t part = 1; part < j->parts; part++)
        for (int64_t i = 0; i < b.n_rows * BLOCK_COLS; i++) sums[i] += sums[part * step + i];
    put(j, &b, sums);
}

/* ---- the kernel ---- */

bool kl_weight_by_tiles(const struct kl_backward *b) {
    for (int i = 0; i < KL_MAX_SPATIAL; i++)
        if (b->axis[i].input_dilation != 1) return false;
    return b->groups == 1 && kl_compute_dtype(b->x->dtype) == KL_F32;
}

/* Whether the elements follow each other in memory. */
static bool is_whole(const struct kl_arg *x) {
    int64_t step = 1;
    for (int i = x->ndim - 1; i >= 0; i--) {
        if (x->dims[i] > 1 && x->strides[i] != step) return false;
        step *= x->dims[i];
    }
    return true;
}

static void cut(struct job *j) {
    const struct kl_backward *of = &j->of;
    const struct kl_backward_axis *a = &of->axis[X];
    j->channels = of->each_in;
    j->run = a->dilation == 1 || a->k == 1 ? a->k * j->channels : j->channels;
    j->rows = of->taps * j->channels;
    j->runs = j->rows / j->run;
    j->row_blocks = kl_ceil_div(j->rows, BLOCK_ROWS);
    j->col_blocks = kl_ceil_div(of->o, BLOCK_COLS);
    j->lines = of->batch * of->axis[0].out * of->axis[1].out;
    j->stretch = kl_max64(1, ROW_ELEMENTS / (a->stride * j->channels));
    const int64_t reach = (a->k - 1) * a->dilation - a->low, inside = a->in - 1 - reach;
    j->left = a->low > 0 ? kl_min64(kl_ceil_div(a->low, a->stride), a->out) : 0;
    j->right = inside < 0 ? 0 : kl_min64(inside / a->stride + 1, a->out);
    j->x_in_place = of->x->dtype == KL_F32 && is_whole(of->x);
    j->g_in_place = of->g->dtype == KL_F32 && is_whole(of->g) && of->o <= BLOCK_COLS &&
                    of->o % COLS == 0; /* with more, its rows share few sets of the L1 cache */
    const int64_t blocks = j->row_blocks * j->col_blocks,
                  enough = j->lines * a->out / LEAST_POSITIONS,
                  parts = kl_min64(kl_min64(kl_ceil_div(TASKS, blocks), enough), j->lines);
    j->each = kl_ceil_div(j->lines, parts < 1 ? 1 : parts);
    j->parts = kl_ceil_div(j->lines, j->each);
    j->is_long = j->each * a->out > LONG;
}

int kl_weight_tiles(const struct kl_backward *b) {
    struct kl_scratch sums = {0};
    struct job j = {.of = *b};
    cut(&j);
    const int64_t blocks = j.row_blocks * j.col_blocks;
    const double work = (double)j.lines * (double)b->axis[X].out * (double)(j.rows * b->o);
    const struct kl_launch some = {.parallel = work >= PARALLEL_FROM ? b->l->parallel : NULL};
    if (j.parts > 1 &&
        !kl_scratch_take(&sums, b->l,
                         (size_t)(j.parts * blocks * BLOCK_ROWS * BLOCK_COLS) * sizeof *j.sums))
        return kl_fail_nomem(b->l->err);
    j.sums = (float *)(void *)sums.ptr;
    kl_run_tasks(&some, j.parts * blocks, task, &j);
    if (j.parts > 1 && !atomic_load(&j.no_memory)) kl_run_tasks(&some, blocks, join, &j);
    if (j.parts > 1) kl_scratch_give(&sums);
    return atomic_load(&j.no_memory) ? kl_fail_nomem(b->l->err) : KL_OK;
}
