/* quantized_matmul.c - QUANTIZED_MATMUL and GATHER_QMM. With few rows of x each row of the
 * quantized matrix is unpacked in registers and multiplied at once (quantized_dots.inc); with
 * many, panels are unpacked into the packed form that products of floats use (gemm.c). Sums are
 * float32, and so are activations. Where the matrix is not transposed, a row is unpacked, scaled
 * and added to the sums. An index outside of its range, which the builder excludes, reads matrix
 * 0. */
#include "backend/cpu/cpu_kernels.h"
#include "backend/cpu/matmul/matmul.h"
#include "backend/cpu/matmul/products.h"
#include "backend/cpu/operand/codes.h"

enum {
    FEW = 8,                 /* with more rows of x than this, panels are unpacked */
    TASK_FROM = 1 << 18,     /* multiply-adds of a task */
    PARALLEL_FROM = 1 << 18, /* multiply-adds from which on several threads compute */
    MOST_COLS = 8,           /* columns that are computed together */
};

struct qmm {
    const struct kl_launch *l;
    struct kl_quant_format f;
    bool transpose, gather;
    enum kl_dtype scale_type;
    const struct kl_arg *x, *w, *scales, *biases; /* biases: NULL unless affine */
    int64_t m, n, k;
    int64_t x_row, x_col, w_row, s_row, b_row; /* strides, in elements */
    int64_t groups;                            /* of a row of w */
    int64_t batches, cols, col_tasks;          /* columns of a task */
    int n_lead, dims[KL_LONG_AXES];
    int64_t lead[4][KL_LONG_AXES]; /* strides of the leading axes of x, w, scales and biases */
    _Atomic(bool) no_memory;
};

/* One matrix of each operand. */
struct matrices {
    const char *x, *scales, *biases;
    const uint8_t *w;
};

static const char *at(const struct kl_arg *a, int64_t offset) {
    return (const char *)a->data + offset * (int64_t)kl_dtype_size(a->dtype);
}

static int64_t index_at(const struct qmm *q, int which, int64_t batch, int64_t size) {
    const struct kl_arg *a = &q->l->in[4 + which];
    int64_t offset;
    kl_offsets(a->ndim, a->dims, a->strides, batch, 1, &offset);
    const int64_t v = ((const int32_t *)a->data)[offset];
    return v >= 0 && v < size ? v : 0;
}

static struct matrices matrices_of(const struct qmm *q, int64_t batch) {
    const struct kl_arg *all[4] = {q->x, q->w, q->scales, q->biases};
    const char *found[4] = {NULL};
    int64_t index[2] = {0};
    for (int side = 0; side < 2 && q->gather; side++)
        index[side] = index_at(q, side, batch, all[side]->dims[0]);
    for (int i = 0; i < 4 && all[i]; i++) {
        int64_t offset;
        if (q->gather)
            offset = index[i > 0] * all[i]->strides[0];
        else
            kl_offsets(q->n_lead, q->dims, q->lead[i], batch, 1, &offset);
        found[i] = at(all[i], offset);
    }
    return (struct matrices){found[0], found[2], found[3], (const uint8_t *)found[1]};
}

/* Row `row` of w: its words, and its scales and biases as float32. */
static const uint8_t *row_of(const struct qmm *q, const struct matrices *a, int64_t row,
                             int64_t first, int64_t groups, float *scales, float *biases) {
    const int64_t item = (int64_t)kl_dtype_size(q->scale_type);
    kl_scales_values(q->f.mode, q->scale_type, groups, a->scales + (row * q->s_row + first) * item,
                     scales);
    if (q->biases)
        kl_convert(KL_F32, biases, q->scale_type, a->biases + (row * q->b_row + first) * item,
                   groups);
    return a->w + row * q->w_row * 4 + first * q->f.group_size * q->f.bits / 8;
}

/* n elements of a row of w from column `col` on, as numbers. Both are multiples of 8. */
static void numbers(const struct qmm *q, const struct matrices *a, int64_t row, int64_t col,
                    int64_t n, float *to) {
    const int g = q->f.group_size;
    while (n > 0) {
        uint8_t codes[KL_TILE];
        float scales[KL_TILE / 16 + 1], biases[KL_TILE / 16 + 1];
        const int64_t run = kl_min64(n, KL_TILE - g), first = col / g;
        const uint8_t *words =
            row_of(q, a, row, first, (col + run - 1) / g - first + 1, scales, biases);
        kl_codes_unpack(q->f.bits, run, words + (col - first * g) * q->f.bits / 8, codes);
        kl_codes_values(q->f.mode, run, codes, to);
        for (int64_t i = 0; i < run;) {
            const int64_t group = (col + i) / g, end = kl_min64(run, (group + 1) * g - col);
            const float scale = scales[group - first];
            if (q->biases) {
                const float bias = biases[group - first];
                for (; i < end; i++) to[i] = to[i] * scale + bias;
            } else {
                for (; i < end; i++) to[i] *= scale;
            }
        }
        to += run;
        col += run;
        n -= run;
    }
}

/* ---- few rows ---- */

/* What a task needs besides the operands. */
struct few {
    float *x;       /* [rows][k], in the order of the columns of w */
    float *sums;    /* [rows][groups]: sums of x by groups, for the biases */
    float *scales;  /* [MOST_COLS][groups] */
    float *biases;  /* the same */
    float *out;     /* [rows][cols] */
    uint8_t *codes; /* [MOST_COLS][k] */
};

static void load_x(const struct qmm *q, const struct matrices *a, float *to) {
    const int item = (int)kl_dtype_size(q->x->dtype);
    union kl_tile raw;
    for (int64_t i = 0; i < q->m; i++)
        for (int64_t k = 0; k < q->k; k += KL_TILE) {
            const int64_t n = kl_min64(KL_TILE, q->k - k);
            const char *from = a->x + (i * q->x_row + k * q->x_col) * item;
            if (q->x_col != 1) {
                kl_copy_run(item, n, raw.bytes, item, from, q->x_col * item);
                from = (const char *)raw.bytes;
            }
            kl_convert(KL_F32, to + i * q->k + k, q->x->dtype, from, n);
        }
}

typedef kl_vec_f32 vec;
typedef kl_loose_f32 loose;
enum { LANES = KL_VECTOR / 4 };
typedef uint8_t codes_vec __attribute__((vector_size(LANES), aligned(1)));
typedef int8_t signed_vec __attribute__((vector_size(LANES), aligned(1)));

static inline float total(vec v) {
    float sum = 0;
    for (int i = 0; i < LANES; i++) sum += v[i];
    return sum;
}

#define ROWS 1
#define COLS 4
/* defines dot_codes_1 */
#include "backend/cpu/matmul/quantized_dots.inc"
#define ROWS 2
#define COLS 4
/* defines dot_codes_2 */
#include "backend/cpu/matmul/quantized_dots.inc"
#define ROWS 4
#define COLS 2
/* defines dot_codes_4 */
#include "backend/cpu/matmul/quantized_dots.inc"
#define ROWS 8
#define COLS 1
/* defines dot_codes_8 */
#include "backend/cpu/matmul/quantized_dots.inc"

/* Columns of the product are rows of w. */
static void dots(const struct qmm *q, const struct matrices *a, int64_t col, int64_t n,
                 const struct few *r) {
    const int64_t rows = q->m > 4 ? 8 : q->m > 2 ? 4 : q->m;
    const int most = rows > 4 ? 1 : rows > 2 ? 2 : 4;
    for (int64_t i = 0; i < rows * q->groups; i++) {
        float sum = 0;
        for (int64_t e = 0; e < q->f.group_size; e++) sum += r->x[i * q->f.group_size + e];
        r->sums[i] = sum;
    }
    for (int64_t c = 0; c < n; c += most) {
        for (int i = 0; i < most; i++) {
            const int64_t row = col + kl_min64(c + i, n - 1);
            const uint8_t *words = row_of(q, a, row, 0, q->groups, r->scales + i * q->groups,
                                          r->biases + i * q->groups);
            kl_codes_unpack(q->f.bits, q->k, words, r->codes + i * q->k);
        }
        float sums[8 * 4];
        switch (rows) {
        case 1: dot_codes_1(q, r, sums); break;
        case 2: dot_codes_2(q, r, sums); break;
        case 4: dot_codes_4(q, r, sums); break;
        default: dot_codes_8(q, r, sums);
        }
        for (int64_t i = 0; i < q->m; i++)
            for (int e = 0; e < most && c + e < n; e++) r->out[i * n + c + e] = sums[i * most + e];
    }
}

/* Rows of w are rows of the second operand. */
static void add_rows(const struct qmm *q, const struct matrices *a, int64_t col, int64_t n,
                     const struct few *r) {
    float numbers_of[KL_TILE];
    memset(r->out, 0, (size_t)(q->m * n) * sizeof(float));
    for (int64_t c = 0; c < n; c += KL_TILE)
        for (int64_t k = 0; k < q->k; k++) {
            const int64_t some = kl_min64(KL_TILE, n - c);
            numbers(q, a, k, col + c, some, numbers_of);
            for (int64_t i = 0; i < q->m; i++) {
                const float x = r->x[i * q->k + k];
                float *to = r->out + i * n + c;
                KL_EACH(e, some) to[e] = KL_MADD_F32(x, numbers_of[e], to[e]);
            }
        }
}

static void few_task(void *arg, int64_t task) {
    struct qmm *q = arg;
    const int64_t batch = task / q->col_tasks, col = task % q->col_tasks * q->cols;
    const int64_t n = kl_min64(q->cols, q->n - col), rows = q->m > 4 ? 8 : q->m > 2 ? 4 : q->m;
    const struct matrices a = matrices_of(q, batch);
    const struct kl_arg *out = q->l->out;
    const int item = (int)kl_dtype_size(out->dtype);
    struct kl_scratch room;
    struct few r;
    const int64_t floats = rows * (q->k + q->groups + n) + 2 * MOST_COLS * q->groups;
    if (!kl_scratch_take(&room, q->l, (size_t)(floats * 4 + MOST_COLS * q->k + 4 * KL_VECTOR))) {
        atomic_store(&q->no_memory, true);
        return;
    }
    r.x = (float *)room.ptr;
    r.sums = r.x + rows * q->k;
    r.scales = r.sums + rows * q->groups;
    r.biases = r.scales + MOST_COLS * q->groups;
    r.out = r.biases + MOST_COLS * q->groups;
    r.codes = (uint8_t *)(r.out + rows * n);
    load_x(q, &a, r.x);
    memset(r.x + q->m * q->k, 0, (size_t)((rows - q->m) * q->k) * sizeof(float));
    (q->transpose ? dots : add_rows)(q, &a, col, n, &r);
    for (int64_t i = 0; i < q->m; i++)
        kl_convert(out->dtype, (char *)out->data + ((batch * q->m + i) * q->n + col) * item, KL_F32,
                   r.out + i * n, n);
    kl_scratch_give(&room);
}

/* ---- many rows ---- */

struct panel {
    const struct qmm *q;
    struct matrices a;
};

/* Element `offset` counts the elements of w row by row. */
static void load_panel(const struct kl_product *j, int64_t offset, int64_t n, void *to) {
    const struct panel *p = j->from;
    const int64_t cols = p->q->transpose ? p->q->k : p->q->n;
    numbers(p->q, &p->a, offset / cols, offset % cols, n, to);
}

/* The product of one batch. */
static void many_rows(struct qmm *q, int64_t batch, const struct kl_launch *alone) {
    const struct panel p = {q, matrices_of(q, batch)};
    struct kl_arg x = *q->x, w = *q->w, out = *q->l->out;
    struct kl_launch l = *q->l;
    x.data = (void *)(uintptr_t)p.a.x;
    out.data = (char *)out.data + batch * q->m * q->n * (int64_t)kl_dtype_size(out.dtype);
    out.size = q->m * q->n;
    w.dtype = KL_F32;
    l.out = &out;
    struct kl_product j = {.l = &l,
                           .type = KL_F32,
                           .bytes = 4,
                           .a = &x,
                           .b = &w,
                           .m = q->m,
                           .n = q->n,
                           .k = q->k,
                           .a_row = q->x_row,
                           .a_col = q->x_col,
                           .b_row = q->transpose ? 1 : q->n,
                           .b_col = q->transpose ? q->k : 1,
                           .out_row = q->n,
                           .out_col = 1,
                           .batches = 1,
                           .load_b = load_panel,
                           .from = &p};
    kl_cpu_gemm(&j, alone);
    if (atomic_load(&j.no_memory)) atomic_store(&q->no_memory, true);
}

/* ---- the kernel ---- */

static void multiply(struct qmm *q) {
    const struct kl_launch *l = q->l;
    const struct kl_arg *args[4] = {q->x, q->w, q->scales, q->biases};
    const int last = q->x->ndim - 1;
    q->x_row = q->x->strides[last - 1];
    q->x_col = q->x->strides[last];
    q->w_row = q->w->strides[last - 1];
    q->s_row = q->scales->strides[last - 1];
    q->b_row = q->biases ? q->biases->strides[last - 1] : 0;
    for (int i = 0; i < last - 1 && !q->gather; i++) {
        if (l->out->dims[i] == 1 || q->n_lead == KL_LONG_AXES) continue;
        q->dims[q->n_lead] = l->out->dims[i];
        for (int k = 0; k < 4 && args[k]; k++) q->lead[k][q->n_lead] = args[k]->strides[i];
        q->n_lead++;
    }
    q->batches = l->out->size / (q->m * q->n);
    const bool big = (double)l->out->size * (double)q->k >= PARALLEL_FROM;
    const struct kl_launch alone = {.parallel = big ? l->parallel : NULL};
    if (q->m > FEW) {
        for (int64_t b = 0; b < q->batches; b++) many_rows(q, b, &alone);
        return;
    }
    q->cols = kl_round_up(TASK_FROM / (q->m * q->k + 1) + 1, q->transpose ? MOST_COLS : KL_TILE);
    q->col_tasks = kl_ceil_div(q->n, q->cols);
    kl_run_tasks(&alone, q->batches * q->col_tasks, few_task, q);
}

int kl_cpu_quantized_matmul(struct kl_launch *l) {
    const struct kl_qmm_params *p = l->params;
    const struct kl_arg *out = l->out;
    const bool affine = p->format.mode == KL_QUANT_AFFINE;
    struct qmm q = {.l = l,
                    .f = p->format,
                    .transpose = p->transpose,
                    .gather = l->op == KL_OP_GATHER_QMM,
                    .scale_type = l->in[2].dtype,
                    .x = &l->in[0]};
    struct kl_rows rows[3];
    int n = 0;
    if (out->size == 0) return KL_OK;
    q.m = out->dims[out->ndim - 2];
    q.n = out->dims[out->ndim - 1];
    q.k = q.x->dims[q.x->ndim - 1];
    if (q.k == 0) { /* the sums have no terms */
        memset(out->data, 0, (size_t)out->size * kl_dtype_size(out->dtype));
        return KL_OK;
    }
    q.groups = (q.transpose ? q.k : q.n) / q.f.group_size;
    for (; n < (affine ? 3 : 2); n++)
        if (!kl_rows_begin(&rows[n], l, &l->in[1 + n])) break;
    const bool room = n == (affine ? 3 : 2);
    q.w = &rows[0].arg;
    q.scales = &rows[1].arg;
    q.biases = affine ? &rows[2].arg : NULL;
    if (room) multiply(&q);
    while (n > 0) kl_rows_end(&rows[--n]);
    return !room || atomic_load(&q.no_memory) ? kl_fail_nomem(l->err) : KL_OK;
}
