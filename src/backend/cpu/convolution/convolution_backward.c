/* convolution_backward.c - CONVOLUTION_BACKWARD in groups: x (n, spatial, c) and the cotangent g
 * (n, spatial, o) give (o, k, c / groups). A task has some output channels, one input channel of
 * each of their groups and some rows of positions; for each element of the kernel it has one sum
 * per channel. So channels of their own are read in place; else the input channel that each output
 * channel sees is copied, row by row, and a row is kept while the kernel moves over it. 16-bit
 * floats are added up in float32. Cuts follow from shapes alone: the bits depend on no threads. */
#include <stdatomic.h>

#include "backend/cpu/convolution/convolution_backward.h"
#include "backend/cpu/operand/scratch.h"
#include "backend/cpu/product/products.h"

enum {
    MOST_TAPS = 4,     /* elements of the kernel that are added up at a time */
    BLOCK_BYTES = 512, /* output channels of a task */
    RUN = 128,         /* positions along x that are taken at a time */
    TASKS = 32,        /* for which work is cut; enough for the threads of most machines */
    /* A long sum of float32, added up one after the other, loses digits. From LONG positions on, a
     * task adds up blocks of BLOCK_POSITIONS each, and the sums of the blocks in double. */
    BLOCK_POSITIONS = 1024,
    LONG = 4096,
    LEAST_POSITIONS = 64,    /* below which rows are not cut */
    PARALLEL_FROM = 1 << 18, /* multiply-adds from which on several threads compute */
    X = KL_MAX_SPATIAL - 1,
};

/* Some positions along x: where their elements of x and g are, and how far they are apart. */
struct stretch {
    const void *x, *g;
    int64_t x_step, tap_step, g_step, count;
};

#define T float
#define LANES (KL_VECTOR / 4)
#define NAME f32
/* defines add_taps_f32, add_f32, pick_f32, join_f32 */
#include "backend/cpu/convolution/weight_gradient.inc"
#define T double
#define LANES (KL_VECTOR / 8)
#define NAME f64
/* defines add_taps_f64, add_f64, pick_f64, join_f64 */
#include "backend/cpu/convolution/weight_gradient.inc"

struct job {
    struct kl_backward of;
    enum kl_dtype type; /* that of the computation */
    int64_t bytes, lanes;
    int64_t pitch;             /* sums of one element of the kernel: o, in whole vectors */
    int64_t block, blocks;     /* output channels of a task */
    int64_t run, runs;         /* positions along x */
    int64_t rows, each, parts; /* rows of positions; those of a task; parts of them */
    bool x_direct, g_direct;   /* rows are read in place */
    int64_t kept, width;       /* rows of x that a task keeps, and their elements */
    bool is_long;              /* a task adds up blocks of positions in double */
    char *sums;                /* (parts, input channels, elements of the kernel, pitch) */
    atomic_bool no_memory;
};

/* The scratch memory of a task. */
struct room {
    char *x, *g, *zeros, *raw; /* rows, a channel for each output channel of the block */
    int64_t *tag;              /* which row of x is in each place; -1: none */
    int32_t *map;              /* for each output channel, its place among the channels read */
    double *totals; /* is_long: sums of the blocks before, `block` for each element of the kernel */
    int64_t first_out, n, n_padded, first_in, n_in; /* channels */
};

/* The memory that a task needs, in bytes; with `memory`, divides it. */
static size_t divide(const struct job *j, struct room *r, char *memory) {
    const int64_t span = (j->block / j->of.each_out + 1) * j->of.each_in + 1,
                  raw = span > j->block ? span : j->block, wide = j->block * j->bytes;
    const int64_t sizes[] = {j->x_direct ? 0 : j->kept * j->width * wide,
                             j->g_direct ? 0 : j->run * wide,
                             wide,
                             2 * raw * j->bytes,
                             j->kept * (int64_t)sizeof *r->tag,
                             j->block * (int64_t)sizeof *r->map,
                             j->is_long ? j->of.taps * j->block * (int64_t)sizeof *r->totals : 0};
    void *place[7];
    int64_t at = 0;
    for (int i = 0; i < 7; i++) {
        place[i] = memory ? memory + at : NULL;
        at += kl_round_up(sizes[i], KL_LINE);
    }
    r->x = place[0];
    r->g = place[1];
    r->zeros = place[2];
    r->raw = place[3];
    r->tag = place[4];
    r->map = place[5];
    r->totals = place[6];
    return (size_t)at;
}

/* `n` channels of an operand, in the type of the computation and side by side: in place, or in
 * `raw`, by way of its second half. */
static const char *channels(const struct job *j, const struct kl_arg *a, int64_t at, int64_t step,
                            int64_t n, char *raw) {
    const int item = (int)kl_dtype_size(a->dtype);
    const char *from = (const char *)a->data + at * item;
    if (step != 1) {
        char *to = a->dtype == j->type ? raw : raw + n * j->bytes;
        kl_copy_run(item, n, to, item, from, step * item);
        from = to;
    }
    if (a->dtype == j->type) return from;
    kl_convert(j->type, raw, a->dtype, from, n);
    return raw;
}

/* Copies row `at` of x, elements [first, first + n), with the channel that each output channel of
 * the block sees. */
static void copy_x(const struct job *j, const struct room *r, int64_t at, int64_t n, char *to) {
    const int64_t wide = r->n_padded * j->bytes;
    const bool own = j->of.each_in == 1 && j->of.each_out == 1;
    for (int64_t i = 0; i < n; i++, at += j->of.axis[X].x_step, to += wide) {
        const char *from = channels(j, j->of.x, at + r->first_in * j->of.x_channel, j->of.x_channel,
                                    r->n_in, r->raw);
        if (own)
            memcpy(to, from, (size_t)(r->n * j->bytes));
        else
            (j->type == KL_F32 ? pick_f32 : pick_f64)(to, from, r->map, r->n);
    }
}

static void copy_g(const struct job *j, const struct room *r, int64_t at, int64_t n) {
    char *to = r->g;
    for (int64_t i = 0; i < n; i++, at += j->of.axis[X].g_step, to += r->n_padded * j->bytes)
        memcpy(to,
               channels(j, j->of.g, at + r->first_out * j->of.g_channel, j->of.g_channel, r->n,
                        r->raw),
               (size_t)(r->n * j->bytes));
}

/* The positions of one row that some elements of the kernel are added for. */
struct row {
    const struct job *j;
    const struct room *r;
    const char *x; /* element 0 of the row of x, in whose memory those that are seen are; or NULL */
    const char *g; /* the first position */
    int64_t x_pitch, g_pitch; /* elements from one position to the next */
    int64_t n;                /* positions */
};

/* Adds the products of the positions [from, to) with what is at x: `x_step` elements from position
 * to position, `tap_step` from one element of the kernel to the next. */
static void add(const struct row *w, int taps, int64_t from, int64_t to, const char *x,
                int64_t x_step, int64_t tap_step, char *c) {
    const struct job *j = w->j;
    const struct stretch s = {
        x, w->g + from * w->g_pitch * j->bytes, x_step, tap_step, w->g_pitch, to - from};
    if (to > from) (j->type == KL_F32 ? add_f32 : add_f64)(taps, w->r->n_padded, &s, c, j->pitch);
}

/* One element of the kernel at the positions [from, to), where position i sees element at + i *
 * step of x. Padding is multiplied, too: by an infinity it is NaN. */
static void add_one(const struct row *w, int64_t from, int64_t to, int64_t at, int64_t step,
                    char *c) {
    const int64_t in = w->x ? w->j->of.axis[X].in : 0;
    int64_t begin = at >= 0 ? from : kl_ceil_div(-at, step), end = from;
    if (at < in) end = (in - 1 - at) / step + 1;
    if (begin < from) begin = from;
    if (begin > to) begin = to;
    if (end > to) end = to;
    if (end < begin) end = begin;
    add(w, 1, from, begin, w->r->zeros, 0, 0, c);
    add(w, 1, begin, end,
        w->x ? w->x + (at + begin * step) * w->x_pitch * w->j->bytes : w->r->zeros,
        step * w->x_pitch, 0, c);
    add(w, 1, end, to, w->r->zeros, 0, 0, c);
}

/* One row of the kernel where there are zeros between the elements of x, which are left out: `tap`
 * sees every few positions. */
static void add_among_zeros(const struct row *all, int64_t first, char *c) {
    const struct job *j = all->j;
    const struct kl_backward_axis *a = &j->of.axis[X];
    const int64_t d = a->input_dilation, g = kl_common_divisor(a->stride, d), every = d / g;
    for (int64_t tap = 0; tap < a->k; tap++, c += j->pitch * j->bytes) {
        int64_t at = first * a->stride + tap * a->dilation - a->low, i = 0;
        for (; i < all->n && i < every && at % d; i++) at += a->stride;
        if (i == all->n || i == every) continue;
        struct row w = *all;
        w.g += i * w.g_pitch * j->bytes;
        w.g_pitch *= every;
        w.n = (all->n - 1 - i) / every + 1;
        add_one(&w, 0, w.n, at / d, a->stride / g, c);
    }
}

/* One row of the kernel, with sums at c. `first`: the number of the first position. */
static void add_row(const struct row *w, int64_t first, char *c) {
    const struct job *j = w->j;
    const struct kl_backward_axis *a = &j->of.axis[X];
    const int64_t line = j->pitch * j->bytes;
    if (a->input_dilation > 1) {
        add_among_zeros(w, first, c);
        return;
    }
    for (int64_t tap = 0; tap < a->k;) {
        const int taps = (int)kl_min64(a->k - tap, MOST_TAPS);
        const int64_t at = first * a->stride + tap * a->dilation - a->low,
                      last = at + (taps - 1) * a->dilation;
        if (!w->x) { /* padding */
            add(w, taps, 0, w->n, w->r->zeros, 0, 0, c);
        } else { /* the positions at which all of them see elements of x, and the others */
            int64_t from = at >= 0 ? 0 : kl_min64(kl_ceil_div(-at, a->stride), w->n),
                    to = last >= a->in ? 0 : kl_min64((a->in - 1 - last) / a->stride + 1, w->n);
            if (to < from) to = from;
            add(w, taps, from, to, w->x + (at + from * a->stride) * w->x_pitch * j->bytes,
                a->stride * w->x_pitch, a->dilation * w->x_pitch, c);
            for (int i = 0; i < taps; i++) {
                add_one(w, 0, from, at + i * a->dilation, a->stride, c + i * line);
                add_one(w, to, w->n, at + i * a->dilation, a->stride, c + i * line);
            }
        }
        tap += taps;
        c += taps * line;
    }
}

/* ---- one task ---- */

/* The elements of a row of x that a run of positions may see: [*from, *to). */
static void span(const struct kl_backward_axis *a, int64_t first, int64_t n, int64_t *from,
                 int64_t *to) {
    int64_t low = first * a->stride - a->low,
            high = (first + n - 1) * a->stride + (a->k - 1) * a->dilation - a->low;
    low = low < 0 ? 0 : low / a->input_dilation;
    high = high < 0 ? 0 : high / a->input_dilation + 1;
    *from = kl_min64(low, a->in);
    *to = kl_min64(high, a->in);
    if (*to < *from) *to = *from;
}

/* A row of x, `at` its first element and `number` its number: in place, or among the rows that are
 * kept. The result points to where its element 0 is or would be. */
static const char *row_of_x(const struct job *j, struct room *r, int64_t number, int64_t at,
                            int64_t run, int64_t from, int64_t n) {
    const struct kl_backward_axis *a = &j->of.axis[X];
    const int64_t item = (int64_t)kl_dtype_size(j->of.x->dtype);
    if (j->x_direct) return (const char *)j->of.x->data + (at + r->first_in) * item;
    const int64_t place = number % j->kept, tag = number * j->runs + run,
                  wide = r->n_padded * j->bytes;
    char *to = r->x + place * j->width * wide;
    if (r->tag[place] != tag) copy_x(j, r, at + from * a->x_step, n, to);
    r->tag[place] = tag;
    return to - from * wide;
}

/* Adds what one run of positions of a row gives to all elements of the kernel. */
static void add_run(const struct job *j, struct room *r, int64_t row, int64_t run, char *sums) {
    const struct kl_backward_axis *z = &j->of.axis[0], *y = &j->of.axis[1], *x = &j->of.axis[X];
    const int64_t at_y = row % y->out, at_z = row / y->out % z->out, n = row / y->out / z->out,
                  first = run * j->run, item = (int64_t)kl_dtype_size(j->of.g->dtype);
    struct row w = {.j = j, .r = r, .n = kl_min64(j->run, x->out - first)};
    const int64_t at_g =
        n * j->of.g->strides[0] + at_z * z->g_step + at_y * y->g_step + first * x->g_step;
    int64_t from, to;
    w.x_pitch = j->x_direct ? x->x_step : r->n_padded;
    w.g_pitch = j->g_direct ? x->g_step : r->n_padded;
    w.g = j->g_direct ? (const char *)j->of.g->data + (at_g + r->first_out) * item : r->g;
    if (!j->g_direct) copy_g(j, r, at_g, w.n);
    span(x, first, w.n, &from, &to);
    for (int64_t tz = 0; tz < z->k; tz++)
        for (int64_t ty = 0; ty < y->k; ty++, sums += x->k * j->pitch * j->bytes) {
            const int64_t in_z = kl_backward_seen(z, at_z, tz),
                          in_y = kl_backward_seen(y, at_y, ty);
            if (in_z == -2 || in_y == -2) continue;
            w.x = NULL;
            if (in_z >= 0 && in_y >= 0)
                w.x = row_of_x(j, r, (n * z->in + in_z) * y->in + in_y,
                               n * j->of.x->strides[0] + in_z * z->x_step + in_y * y->x_step, run,
                               from, to - from);
            add_row(&w, first, sums);
        }
}

/* Adds the sums of a block to the totals, which are exact enough for any number of blocks, and puts
 * the totals in their place (last), or 0. */
static void end_block(const struct job *j, struct room *r, char *sums, bool last) {
    for (int64_t tap = 0; tap < j->of.taps; tap++) {
        float *sum = (float *)(sums + tap * j->pitch * j->bytes);
        double *total = r->totals + tap * j->block;
        for (int64_t i = 0; i < r->n; i++) {
            total[i] += sum[i];
            sum[i] = last ? (float)total[i] : 0;
        }
    }
}

static void task(void *arg, int64_t index) {
    struct job *j = arg;
    struct kl_scratch memory;
    struct room r;
    const int64_t block = index % j->blocks, in = index / j->blocks % j->of.each_in,
                  part = index / j->blocks / j->of.each_in,
                  end = kl_min64((part + 1) * j->each, j->rows), line = j->pitch * j->bytes;
    if (!kl_scratch_take(&memory, j->of.l, divide(j, &r, NULL))) {
        atomic_store(&j->no_memory, true);
        return;
    }
    memset(memory.ptr, 0, divide(j, &r, memory.ptr)); /* rows end with channels that nobody wants */
    r.first_out = block * j->block;
    r.n = kl_min64(j->block, j->of.o - r.first_out);
    r.n_padded = kl_round_up(r.n, j->lanes);
    const int64_t group = r.first_out / j->of.each_out,
                  last = (r.first_out + r.n - 1) / j->of.each_out;
    r.first_in = group * j->of.each_in + in;
    r.n_in = (last - group) * j->of.each_in + 1;
    for (int64_t i = 0; i < r.n; i++)
        r.map[i] = (int32_t)(((r.first_out + i) / j->of.each_out - group) * j->of.each_in);
    for (int64_t i = 0; i < j->kept; i++) r.tag[i] = -1;
    char *sums = j->sums + (part * j->of.each_in + in) * j->of.taps * line + r.first_out * j->bytes;
    for (int64_t tap = 0; tap < j->of.taps; tap++)
        memset(sums + tap * line, 0, (size_t)(r.n_padded * j->bytes));
    const int64_t rows = j->each * part;
    int64_t added = 0;
    for (int64_t run = 0; run < j->runs; run++)
        for (int64_t row = rows; row < end; row++) {
            add_run(j, &r, row, run, sums);
            added += j->run;
            if (!j->is_long || added < BLOCK_POSITIONS) continue;
            end_block(j, &r, sums, false);
            added = 0;
        }
    if (j->is_long) end_block(j, &r, sums, true);
    kl_scratch_give(&memory);
}

/* Adds up the parts and puts them where the weight has them. */
static void store(const struct job *j) {
    const struct kl_arg *out = j->of.l->out;
    const int64_t item = (int64_t)kl_dtype_size(out->dtype), line = j->pitch * j->bytes,
                  step = j->of.each_in * j->of.taps * j->pitch;
    for (int64_t in = 0; in < j->of.each_in; in++)
        for (int64_t tap = 0; tap < j->of.taps; tap++) {
            char *sums = j->sums + (in * j->of.taps + tap) * line;
            const int64_t to = kl_backward_place(&j->of, tap);
            (j->type == KL_F32 ? join_f32 : join_f64)(sums, j->pitch, step, j->parts);
            kl_convert(out->dtype, sums, j->type, sums, j->of.o);
            kl_copy_run((int)item, j->of.o, (char *)out->data + (to * j->of.each_in + in) * item,
                        j->of.taps * j->of.each_in * item, sums, item);
        }
}

/* ---- the kernel ---- */

static void describe(struct kl_backward *b) {
    const struct kl_convolution_backward_params *p = b->l->params;
    const int n = p->of.ndim;
    b->taps = 1;
    for (int i = 0; i < KL_MAX_SPATIAL; i++) {
        const int at = i - KL_MAX_SPATIAL + n;
        b->axis[i] = (struct kl_backward_axis){1, 1, 1, 1, 1, 0, 1, 0, 0, false};
        if (at < 0) continue;
        b->axis[i] = (struct kl_backward_axis){.in = b->x->dims[1 + at],
                                               .out = b->g->dims[1 + at],
                                               .k = p->k[at],
                                               .stride = p->of.stride[at],
                                               .dilation = p->of.dilation[at],
                                               .low = p->of.low[at],
                                               .input_dilation = p->of.input_dilation[at],
                                               .x_step = b->x->strides[1 + at],
                                               .g_step = b->g->strides[1 + at],
                                               .flip = p->of.flip};
        b->taps *= p->k[at];
    }
    b->batch = b->x->dims[0];
    b->o = b->g->dims[n + 1];
    b->x_channel = b->x->strides[n + 1];
    b->g_channel = b->g->strides[n + 1];
    b->groups = p->of.groups;
    b->each_in = b->x->dims[n + 1] / p->of.groups;
    b->each_out = b->o / p->of.groups;
}

static void cut(struct job *j) {
    const struct kl_backward_axis *a = j->of.axis;
    j->type = kl_compute_dtype(j->of.x->dtype);
    j->bytes = (int64_t)kl_dtype_size(j->type);
    j->lanes = KL_VECTOR / j->bytes;
    j->pitch = kl_round_up(j->of.o, KL_VECTOR);
    const int64_t most = BLOCK_BYTES / j->bytes;
    j->blocks = kl_ceil_div(j->of.o, most);
    j->block = kl_round_up(kl_ceil_div(j->of.o, j->blocks), j->lanes);
    j->blocks = kl_ceil_div(j->of.o, j->block);
    j->runs = kl_ceil_div(a[X].out, RUN);
    j->run = kl_ceil_div(a[X].out, j->runs);
    j->rows = j->of.batch * a[0].out * a[1].out;
    const bool whole = j->type == j->of.x->dtype && j->of.o % j->lanes == 0;
    j->g_direct = whole && j->of.g_channel == 1;
    j->x_direct = whole && j->of.x_channel == 1 && j->of.each_in == 1 && j->of.each_out == 1;
    j->kept = kl_min64(a[1].in, (a[1].k - 1) * a[1].dilation + 1);
    if (j->kept > 8) j->kept = 8;
    j->width = kl_min64(
        a[X].in,
        ((j->run - 1) * a[X].stride + (a[X].k - 1) * a[X].dilation) / a[X].input_dilation + 2);
    int64_t others = j->blocks * j->of.each_in, parts = kl_ceil_div(TASKS, others),
            enough = j->rows * a[X].out / LEAST_POSITIONS;
    parts = kl_min64(kl_min64(parts, enough), j->rows);
    j->each = kl_ceil_div(j->rows, parts < 1 ? 1 : parts);
    j->parts = kl_ceil_div(j->rows, j->each);
    j->is_long = j->type == KL_F32 && j->each * a[X].out > LONG;
}

int kl_cpu_convolution_backward(struct kl_launch *l) {
    struct kl_scratch sums;
    struct job j = {.of = {.l = l, .x = &l->in[0], .g = &l->in[1]}};
    if (l->out->size == 0) return KL_OK;
    if (j.of.x->size == 0 || j.of.g->size == 0) { /* sums of padding alone, or of nothing */
        memset(l->out->data, 0, (size_t)l->out->size * kl_dtype_size(l->out->dtype));
        return KL_OK;
    }
    describe(&j.of);
    if (kl_weight_by_tiles(&j.of)) return kl_weight_tiles(&j.of);
    cut(&j);
    const int64_t tasks = j.parts * j.of.each_in * j.blocks;
    const double work =
        (double)j.rows * (double)j.of.axis[X].out * (double)(j.of.taps * j.of.each_in * j.of.o);
    const struct kl_launch some = {.parallel = work >= PARALLEL_FROM ? l->parallel : NULL};
    if (!kl_scratch_take(&sums, l,
                         (size_t)(j.parts * j.of.each_in * j.of.taps * j.pitch * j.bytes)))
        return kl_fail_nomem(l->err);
    j.sums = sums.ptr;
    kl_run_tasks(&some, tasks, task, &j);
    if (!atomic_load(&j.no_memory)) store(&j);
    kl_scratch_give(&sums);
    return atomic_load(&j.no_memory) ? kl_fail_nomem(l->err) : KL_OK;
}
