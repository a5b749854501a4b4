/* along.c - the entry point of reductions, scans and softmax. A row of short trailing axes does not
 * fill a vector, and the fixed cost of a row would be most of the time. So tiles of rows are
 * transposed, the operation's kernel computes them as neighbouring columns, and results of the same
 * shape are transposed back. Kernels give the same bits by rows and by columns, except SOFTMAX:
 * there all short rows are transposed, whatever their number and layout. */
#include <stdatomic.h>
#include <string.h>

#include "backend/cpu/operand/line.h"
#include "backend/cpu/operand/patch.h"
#include "backend/cpu/cpu_kernels.h"
#include "backend/cpu/reduce/short_rows.h"
#include "base/op/op_params.h"

enum {
    SHORTEST = 2,
    FROM = 1 << 14, /* the fewest elements of the input for which rows are transposed */
    ROOM = 1 << 16, /* bytes of a tile */
    /* The number of rows in a tile is limited as if each row had at least this many elements. */
    LEAST_LINES = 16,
    MOST_ROWS = 1024,
    PAGE = 4096,
};

static kl_kernel_fn *family(enum kl_op_id op) {
    switch (op) {
    case KL_OP_LOGSUMEXP: return kl_cpu_logsumexp;
    case KL_OP_VAR: return kl_cpu_var;
    case KL_OP_SOFTMAX: return kl_cpu_softmax;
    case KL_OP_ARGMAX:
    case KL_OP_ARGMIN: return kl_cpu_arg_reduce;
    case KL_OP_CUMSUM:
    case KL_OP_CUMPROD:
    case KL_OP_CUMMAX:
    case KL_OP_CUMMIN:
    case KL_OP_LOGCUMSUMEXP: return kl_cpu_scan;
    default: return kl_cpu_reduce;
    }
}

/* The longest rows that are transposed. Longer rows are as fast in the kernel itself. */
static int longest(enum kl_op_id op, enum kl_dtype dtype) {
    switch (op) {
    case KL_OP_SUM:
    case KL_OP_PROD:
    case KL_OP_VAR: return 48;
    /* the kernels of other operations compute rows side by side */
    case KL_OP_SOFTMAX: return dtype == KL_F64 ? 48 : 15;
    case KL_OP_LOGSUMEXP: return 0; /* this kernel transposes rows itself */
    case KL_OP_CUMSUM:
    case KL_OP_CUMPROD:
    case KL_OP_CUMMAX:
    case KL_OP_CUMMIN:
    case KL_OP_LOGCUMSUMEXP: return 64;
    default: return 32; /* MAX and MIN */
    }
}

/* The parameters of the operation, along axis 0 alone. */
union params {
    struct kl_softmax_params softmax;
    struct kl_axis_params axis;
    struct kl_scan_params scan;
    struct kl_reduce_params reduce;
    struct kl_var_params var;
    char room[32]; /* room for the flexible array members of one axis */
};

struct job {
    const struct kl_launch *l;
    kl_kernel_fn *kernel;
    int64_t length, rows, tile; /* elements of a row; number of rows; rows of a tile */
    bool reduces;
    _Atomic(int) rc; /* the code of the first tile that failed; its error is in l->err */
    union params params;
};

/* The length of a row that consists of the trailing axes, if the operation is along exactly those
 * axes; else 0. */
static int64_t trailing(const struct kl_arg *in, int n_axes, const int *axes) {
    int64_t length = 1;
    int next = n_axes - 1;
    for (int i = in->ndim - 1; i >= 0 && next >= 0; i--) {
        if (axes[next] == i)
            next--;
        else if (in->dims[i] != 1)
            return 0;
        length *= in->dims[i];
    }
    return length;
}

/* Sets the parameters for axis 0, and returns the length of a row, or 0 when rows are not
 * transposed. */
static int64_t look(struct job *j) {
    const struct kl_launch *l = j->l;
    const void *p = l->params;
    j->reduces = true;
    switch (l->op) {
    case KL_OP_SOFTMAX: {
        const struct kl_softmax_params *softmax = p;
        j->reduces = false;
        j->params.softmax = (struct kl_softmax_params){.axis = 0, .n_axes = 1};
        int64_t length = l->in->dtype == KL_C64 ? 0 : 1; /* complex64 has no kernel for columns */
        for (int i = softmax->axis; i < l->in->ndim; i++) {
            if (i >= softmax->axis + softmax->n_axes && l->in->dims[i] != 1) return 0;
            length *= l->in->dims[i];
        }
        return length;
    }
    case KL_OP_ARGMAX:
    case KL_OP_ARGMIN: {
        const struct kl_axis_params *axis = p;
        j->params.axis.axis = 0;
        return trailing(l->in, 1, &axis->axis);
    }
    case KL_OP_CUMSUM:
    case KL_OP_CUMPROD:
    case KL_OP_CUMMAX:
    case KL_OP_CUMMIN:
    case KL_OP_LOGCUMSUMEXP: {
        j->reduces = false;
        j->params.scan = *(const struct kl_scan_params *)p;
        j->params.scan.axis = 0;
        return trailing(l->in, 1, &((const struct kl_scan_params *)p)->axis);
    }
    case KL_OP_VAR: {
        const struct kl_var_params *var = p;
        j->params.var.ddof = var->ddof;
        j->params.var.n_axes = 1;
        j->params.var.axes[0] = 0;
        return trailing(l->in, var->n_axes, var->axes);
    }
    default: {
        const struct kl_reduce_params *reduce = p;
        j->params.reduce.n_axes = 1;
        j->params.reduce.axes[0] = 0;
        return trailing(l->in, reduce->n_axes, reduce->axes);
    }
    }
}

static void tile_chunk(void *arg, int64_t i) {
    struct job *j = arg;
    const struct kl_arg *in = j->l->in, *out = j->l->out;
    const int64_t from = i * j->tile, n = kl_min64(j->tile, j->rows - from), length = j->length;
    const int in_item = (int)kl_dtype_size(in->dtype), out_item = (int)kl_dtype_size(out->dtype);
    _Alignas(64) char room[ROOM], results[ROOM];
    /* The kernel would treat a single row as a row, not as a column. So it is given two. */
    const int64_t width = n == 1 && j->l->op == KL_OP_SOFTMAX ? 2 : n;
    const int dims[2] = {(int)length, (int)width};
    const int64_t strides[2] = {width, 1};
    char *to = (char *)out->data + from * (j->reduces ? 1 : length) * out_item;
    const char *rows = (const char *)in->data + from * length * in_item;
    if (!(in->layout & KL_ROW_CONTIGUOUS)) {
        struct kl_cursor c;
        kl_cursor_init_arg(&c, in);
        kl_cursor_seek(&c, from * length);
        for (int64_t at = 0; at < n * length; at += KL_TILE)
            kl_cursor_read(&c, kl_min64(KL_TILE, n * length - at), results + at * in_item);
        rows = results;
    }
    if (width > n) memset(room, 0, (size_t)(width * length * in_item));
    kl_cpu_transpose(in_item, room, width * in_item, rows, length * in_item, n, length);
    struct kl_arg x = {.data = room,
                       .dtype = in->dtype,
                       .layout = KL_ROW_CONTIGUOUS | KL_DENSE,
                       .ndim = 2,
                       .size = length * width,
                       .dims = dims,
                       .strides = strides};
    struct kl_arg y = x;
    y.dtype = out->dtype;
    y.data = results;
    if (j->reduces) {
        y.data = j->l->taker ? results : to;
        y.ndim = 1;
        y.size = n;
        y.dims = dims + 1;
        y.strides = strides + 1;
    }
    struct kl_error *err = NULL;
    struct kl_launch l = {.op = j->l->op,
                          .params = &j->params,
                          .n_in = 1,
                          .n_out = 1,
                          .in = &x,
                          .out = &y,
                          .err = &err,
                          .scratch = j->l->scratch};
    int rc = j->kernel(&l), none = KL_OK;
    if (rc) {
        if (atomic_compare_exchange_strong(&j->rc, &none, rc))
            kl_fail_with(j->l->err, err);
        else
            kl_error_release(err);
    } else if (j->l->taker) {
        j->l->taker->run(j->l->taker->ctx, from, n, results);
    } else if (!j->reduces) {
        kl_cpu_transpose(out_item, to, length * out_item, results, width * out_item, length, n);
    }
}

/* Whether the operation has its own code for short rows of that dtype (short_rows.h). */
static bool has_own_way(enum kl_op_id op, enum kl_dtype dtype, int64_t length) {
#if KL_HAS_SHORT
    if (kl_short_halves_take(op, dtype, length)) return true;
#endif
    bool real = dtype == KL_F32 || dtype == KL_F16 || dtype == KL_BF16;
    return KL_HAS_SHORT && real &&
           (op == KL_OP_SUM || op == KL_OP_MAX || op == KL_OP_MIN || op == KL_OP_ARGMAX ||
            op == KL_OP_ARGMIN);
}

int kl_cpu_along(struct kl_launch *l) {
    const struct kl_arg *in = l->in, *out = l->out;
    struct job j = {.l = l, .kernel = family(l->op)};
    if (l->op != KL_OP_SOFTMAX && (in->size < FROM || !(in->layout & KL_ROW_CONTIGUOUS)))
        return j.kernel(l);
    j.length = look(&j);
    if (j.length < SHORTEST || has_own_way(l->op, in->dtype, j.length) ||
        kl_cpu_scans_squares(l, j.length) || j.length > longest(l->op, in->dtype) ||
        in->size == 0 || (!j.reduces && !(out->layout & KL_ROW_CONTIGUOUS)))
        return j.kernel(l);
    j.rows = in->size / j.length;
    int64_t lines = j.length < LEAST_LINES ? LEAST_LINES : j.length;
    size_t item = kl_dtype_size(in->dtype) > kl_dtype_size(out->dtype) || j.reduces
                      ? kl_dtype_size(in->dtype)
                      : kl_dtype_size(out->dtype);
    j.tile = kl_min64(MOST_ROWS, ROOM / (int64_t)item / lines);
    /* Lines that are a page apart would share one set of the L1 cache. */
    if (j.tile * (int64_t)item % PAGE == 0) j.tile -= KL_LINE / (int64_t)item;
    atomic_init(&j.rc, KL_OK);
    struct kl_launch alone = {.parallel = in->size >= KL_CHUNK ? l->parallel : NULL};
    kl_run_tasks(&alone, kl_ceil_div(j.rows, j.tile), tile_chunk, &j);
    return atomic_load(&j.rc);
}
