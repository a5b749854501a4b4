/* norm_backward.c - NORM_BACKWARD, row by row: a row of x and of the cotangent is in the cache when
 * it is read again. A task has a group of rows and sums of its own for the weight and the bias; the
 * sums of all tasks are added in order at the end. Which rows a task has follows from the shape
 * alone. 16-bit floats are computed in float32 and rounded once. */
#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "backend/cpu/cpu_kernels.h"
#include "backend/cpu/operand/scratch.h"
#include "backend/cpu/operand/tile.h"
#include "backend/cpu/vector/lanes.h"
#include "base/op/op_params.h"

enum {
    MOST_TASKS = 64,
    BLOCK_ROWS = 64, /* are added before they are added to the sum of a task */
    COLUMNS = 4096,  /* of a task that adds the sums of all tasks */
};

struct job;
/* One row: x and g, contiguous; h: n elements of room; sums to add to, NULL for none. */
typedef void row_fn(const struct job *j, const void *x, const void *g, void *h, void *dx,
                    void *of_weight, void *of_bias);

struct job {
    const struct kl_launch *l;
    const struct kl_norm_backward_params *p;
    const struct kl_arg *x, *g;
    row_fn *row;
    void (*add)(void *y, const void *x, int64_t n); /* y += x */
    enum kl_dtype type;                             /* that of the computation */
    int64_t n, rows, group, tasks, item, wide;      /* wide: bytes of an element of `type` */
    int sides;
    char *weight; /* in `type`, contiguous; NULL: none */
    char *sums;   /* of all tasks: n of the weight, n of the bias, in `type` */
    atomic_bool no_memory;
};

#define T float
#define NAME f32
#define ROOT sqrtf
/* defines row_f32, add_f32 */
#include "backend/cpu/norm/norm_backward.inc"
#define T double
#define NAME f64
#define ROOT sqrt
/* defines row_f64, add_f64 */
#include "backend/cpu/norm/norm_backward.inc"

/* Row `r` of an operand in the type of the computation: in place, or in `room`, by way of `raw`.
 * The cursor is at the row, unless the operand is dense. */
static const char *row_of(const struct job *j, const struct kl_arg *a, struct kl_cursor *c,
                          int64_t r, char *room, char *raw) {
    const char *from = (const char *)a->data + r * j->n * j->item;
    if (!(a->layout & KL_ROW_CONTIGUOUS)) {
        from = j->item == j->wide ? room : raw;
        kl_cursor_read(c, j->n, (void *)(uintptr_t)from);
    }
    if (j->item == j->wide) return from;
    kl_convert(j->type, room, a->dtype, from, j->n);
    return room;
}

static void seek(const struct job *j, const struct kl_arg *a, struct kl_cursor *c, int64_t r) {
    if (a->layout & KL_ROW_CONTIGUOUS) return;
    kl_cursor_init_arg(c, a);
    kl_cursor_seek(c, r * j->n);
}

static void rows_task(void *arg, int64_t i) {
    struct job *j = arg;
    const int64_t begin = i * j->group, end = kl_min64(begin + j->group, j->rows);
    const int64_t bytes = kl_ceil_div(j->n * j->wide, KL_LINE) * KL_LINE;
    struct kl_scratch room;
    struct kl_cursor at_x, at_g;
    if (!kl_scratch_take(&room, j->l, (size_t)(bytes * 7))) {
        atomic_store_explicit(&j->no_memory, true, memory_order_relaxed);
        return;
    }
    char *x = room.ptr, *g = x + bytes, *h = g + bytes, *made = h + bytes, *raw = made + bytes,
         *block = raw + bytes, *out = (char *)j->l->out->data;
    char *block_bias = block + j->n * j->wide * j->p->of_weight;
    const size_t sum_bytes = (size_t)(j->n * j->wide * j->sides);
    char *sum = j->sums + (size_t)i * sum_bytes;
    const bool direct = j->item == j->wide;
    if (sum_bytes) memset(sum, 0, sum_bytes);
    seek(j, j->x, &at_x, begin);
    seek(j, j->g, &at_g, begin);
    for (int64_t r = begin; r < end; r++) {
        const char *from = row_of(j, j->x, &at_x, r, x, raw),
                   *given = row_of(j, j->g, &at_g, r, g, raw);
        char *to = out + r * j->n * j->item;
        if (sum_bytes && (r - begin) % BLOCK_ROWS == 0) memset(block, 0, sum_bytes);
        j->row(j, from, given, h, direct ? to : made, j->p->of_weight ? block : NULL,
               j->p->of_bias ? block_bias : NULL);
        if (!direct) kl_convert(j->l->out->dtype, to, j->type, made, j->n);
        if (sum_bytes && ((r - begin) % BLOCK_ROWS == BLOCK_ROWS - 1 || r + 1 == end))
            j->add(sum, block, j->n * j->sides);
    }
    kl_scratch_give(&room);
}

/* Adds the sums of all tasks, for some of the columns of weight and bias, to those of the first. */
static void columns_task(void *arg, int64_t i) {
    struct job *j = arg;
    const int64_t all = j->n * j->sides, from = i * COLUMNS, n = kl_min64(COLUMNS, all - from);
    char *sum = j->sums + from * j->wide;
    for (int64_t k = 1; k < j->tasks; k++) j->add(sum, sum + k * all * j->wide, n);
    kl_convert(j->l->out->dtype, (char *)j->l->out->data + (j->x->size + from) * j->item, j->type,
               sum, n);
}

static int compute(struct job *j) {
    const struct kl_launch *l = j->l;
    struct kl_scratch sums = {NULL, NULL, NULL}, weight = {NULL, NULL, NULL};
    bool failed = false;
    const int64_t all = j->n * j->sides;
    if (all && !kl_scratch_take(&sums, l, (size_t)(j->tasks * all * j->wide))) failed = true;
    if (!failed && j->p->has_weight) {
        const struct kl_arg *w = &l->in[1];
        failed = !kl_scratch_take(&weight, l, (size_t)(j->n * j->wide));
        if (!failed) {
            struct kl_cursor c;
            union kl_tile raw;
            j->weight = weight.ptr;
            kl_cursor_init_arg(&c, w);
            kl_cursor_seek(&c, 0);
            for (int64_t at = 0; at < j->n; at += KL_TILE) {
                const int64_t m = kl_min64(KL_TILE, j->n - at);
                kl_convert(j->type, j->weight + at * j->wide, w->dtype, kl_cursor_next(&c, m, &raw),
                           m);
            }
        }
    }
    j->sums = sums.ptr;
    struct kl_launch alone = {.parallel = j->x->size >= KL_CHUNK ? l->parallel : NULL};
    if (!failed) kl_run_tasks(&alone, j->tasks, rows_task, j);
    failed = failed || atomic_load(&j->no_memory);
    if (!failed && all) kl_run_tasks(&alone, kl_ceil_div(all, COLUMNS), columns_task, j);
    kl_scratch_give(&weight);
    kl_scratch_give(&sums);
    return failed ? kl_fail_nomem(l->err) : KL_OK;
}

int kl_cpu_norm_backward(struct kl_launch *l) {
    const struct kl_arg *x = l->in;
    struct job j = {.l = l, .p = l->params, .x = x, .g = &l->in[l->n_in - 1]};
    j.item = (int64_t)kl_dtype_size(x->dtype);
    if (x->size == 0) { /* sums over no rows */
        if (l->out->size) memset(l->out->data, 0, (size_t)(l->out->size * j.item));
        return KL_OK;
    }
    j.type = kl_compute_dtype(x->dtype);
    j.wide = (int64_t)kl_dtype_size(j.type);
    j.row = j.type == KL_F64 ? row_f64 : row_f32;
    j.add = j.type == KL_F64 ? add_f64 : add_f32;
    j.n = x->dims[x->ndim - 1];
    j.rows = x->size / j.n;
    j.sides = j.p->of_weight + j.p->of_bias;
    j.group = kl_ceil_div(KL_CHUNK / 4, j.n);
    if (j.group * MOST_TASKS < j.rows) j.group = kl_ceil_div(j.rows, MOST_TASKS);
    j.tasks = kl_ceil_div(j.rows, j.group);
    return compute(&j);
}
