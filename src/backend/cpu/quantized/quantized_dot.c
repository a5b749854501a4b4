/* quantized_dot.c - products of x with affine codes of 4 and 8 bits by SDOT, where the processor
 * has it (quantized_neon_dot.h), and of two and four rows at a time by SMMLA
 * (quantized_neon_i8mm.h), with the same bits. Rows of x are split into digits once, for all
 * tasks. */
#include "backend/cpu/cpu_kernels.h"
#include "backend/cpu/quantized/quantized_neon_i8mm.h"
#include "backend/cpu/quantized/quantized_words.h"

#ifdef __aarch64__
enum {
    SOME = 64,           /* rows of w that each row of x is multiplied by: they stay in L2 */
    ROWS = 32,           /* rows of x of a task: so do their digits */
    TASK_FROM = 1 << 16, /* multiply-adds of a task: some microseconds */
    MOST_LINES = 2 * KL_SMMLA_PAIRS,
};

struct dots {
    struct kl_qmm *q;
    char *room; /* of all rows of x, `bytes` each: digits, units, sums */
    int64_t bytes;
    bool by_pairs; /* rows of a matrix lie side by side, but for the last of an odd number */
    int64_t row_tasks;
    _Atomic(bool) refused; /* x has numbers that are not split */
};

/* How many rows lie side by side in the room, where row i of a matrix is among them. */
static int lines_at(const struct dots *d, int64_t i) {
    return d->by_pairs && (i | 1) < d->q->m ? 2 : 1;
}

/* Row i of a matrix, and the other row of its pair, if it has one. */
static struct kl_sdot_row row_at(const struct dots *d, int64_t matrix, int64_t i) {
    const struct kl_qmm *q = d->q;
    const int lines = lines_at(d, i);
    const int64_t item = (int64_t)kl_dtype_size(q->scale_type);
    char *at = d->room + (matrix * q->m + i / lines * lines) * d->bytes;
    const float *units = (const float *)(const void *)(at + KL_SDOT_DIGITS * q->k * lines);
    const struct kl_sdot_row r = {.digits = (const int8_t *)at,
                                  .units = units,
                                  .sums = units + q->groups * lines,
                                  .groups = q->groups,
                                  .group_size = q->f.group_size,
                                  .bits = q->f.bits,
                                  .scale_type = q->scale_type,
                                  .w_row = q->w_row * 4,
                                  .s_row = q->s_row * item,
                                  .b_row = q->b_row * item};
    return r;
}

static void split_task(void *arg, int64_t i) {
    struct dots *d = arg;
    const struct kl_qmm *q = d->q;
    const int item = (int)kl_dtype_size(q->x->dtype), g = q->f.group_size;
    const int64_t matrix = i / q->m, row = i % q->m;
    int64_t offset = matrix * q->x->strides[0];
    const struct kl_sdot_row r = row_at(d, matrix, row);
    const int lines = lines_at(d, row), second = row % lines;
    float *units = (float *)(uintptr_t)r.units + second,
          *sums = (float *)(uintptr_t)r.sums + second * q->groups;
    int8_t *digits = (int8_t *)(uintptr_t)r.digits + KL_SDOT_PIECE * second;
    union kl_tile raw, tile;
    if (!q->gather) kl_offsets(q->n_lead, q->dims, q->lead[0], matrix, 1, &offset);
    for (int64_t k = 0; k < q->k; k += KL_TILE) {
        const int64_t n = kl_min64(KL_TILE, q->k - k);
        const char *from = kl_qmm_at(q->x, offset + row * q->x_row + k * q->x_col);
        float *x = (float *)tile.bytes;
        if (q->x_col != 1) {
            kl_copy_run(item, n, raw.bytes, item, from, q->x_col * item);
            from = (const char *)raw.bytes;
        }
        kl_convert(KL_F32, x, q->x->dtype, from, n);
        for (int64_t e = 0; e < n; e += g) sums[(k + e) / g] = sum_of(x + e, g);
        if (!kl_sdot_split(q->f.bits, g, k, n, lines, x, digits, units))
            atomic_store(&d->refused, true);
    }
}

/* The products of some rows of x, `lines` of them from r on, with n rows of w from `row` on. */
static void products(const struct dots *d, struct kl_sdot_row *r, int lines,
                     const struct kl_qmm_matrices *a, int64_t row, int64_t n, float *out) {
    const uint8_t *w = a->w + row * r->w_row;
    const char *scales = a->scales + row * r->s_row, *biases = a->biases + row * r->b_row;
    if (lines > 1)
        kl_smmla_rows(r, lines / 2, w, scales, biases, n, out, SOME);
    else
        kl_sdot_rows(r, w, scales, biases, n, out);
}

static void multiply_block(const struct dots *d, const struct kl_qmm_matrices *a, int64_t matrix,
                           int64_t i, int lines, int64_t block, int64_t n, float *result) {
    struct kl_sdot_row r[KL_SMMLA_PAIRS];
    float four[MOST_LINES * SOME];
    const int64_t whole = n / 4 * 4;
    for (int p = 0; p < kl_ceil_div(lines, 2); p++) r[p] = row_at(d, matrix, i + 2 * p);
    products(d, r, lines, a, block, whole, result);
    for (int64_t c = whole; c < n; c++) { /* what is left: one row, four times */
        struct kl_qmm_matrices one = *a;
        one.w += (block + c) * r->w_row;
        one.scales += (block + c) * r->s_row;
        one.biases += (block + c) * r->b_row;
        struct kl_sdot_row same[KL_SMMLA_PAIRS];
        memcpy(same, r, sizeof same);
        same->w_row = same->s_row = same->b_row = 0;
        products(d, same, lines, &one, 0, 4, four);
        for (int k = 0; k < lines; k++) result[k * SOME + c] = four[k * SOME];
    }
}

static void multiply_task(void *arg, int64_t task) {
    const struct dots *d = arg;
    const struct kl_qmm *q = d->q;
    const int64_t each = d->row_tasks * q->col_tasks, batch = task / each,
                  first = task % each / q->col_tasks * ROWS, last = kl_min64(first + ROWS, q->m),
                  begin = task % q->col_tasks * q->cols, end = kl_min64(begin + q->cols, q->n);
    const struct kl_qmm_matrices a = kl_qmm_matrices_of(q, batch);
    const struct kl_arg *out = q->l->out;
    const int64_t item = (int64_t)kl_dtype_size(out->dtype),
                  matrix = q->gather ? kl_qmm_index(q, 0, batch, q->x->dims[0]) : batch;
    float result[MOST_LINES * SOME];
    for (int64_t block = begin; block < end; block += SOME) {
        const int64_t n = kl_min64(SOME, end - block);
        for (int64_t i = first; i < last;) {
            const int64_t left = last - i;
            const int lines = !d->by_pairs || left < 2 ? 1 : left < MOST_LINES ? 2 : MOST_LINES;
            multiply_block(d, &a, matrix, i, lines, block, n, result);
            for (int k = 0; k < lines; k++, i++)
                kl_convert(out->dtype,
                           (char *)out->data + ((batch * q->m + i) * q->n + block) * item, KL_F32,
                           result + k * SOME, n);
        }
    }
}

bool kl_qmm_dot(struct kl_qmm *q, const struct kl_launch *alone) {
    const int64_t rows = (q->gather ? q->x->dims[0] : q->batches) * q->m,
                  some = kl_min64(q->m, ROWS);
    struct dots d = {.q = q,
                     .bytes = kl_round_up(KL_SDOT_DIGITS * q->k + 8 * q->groups, KL_LINE),
                     .by_pairs = kl_cpu_uses_i8mm(),
                     .row_tasks = kl_ceil_div(q->m, ROWS)};
    if (!kl_cpu_uses_dot() || !kl_quant_has_biases(q->f.mode) || !q->transpose ||
        (q->f.bits != 4 && q->f.bits != 8))
        return false;
    struct kl_scratch scratch;
    if (!kl_scratch_take(&scratch, q->l, (size_t)(rows * d.bytes))) {
        atomic_store(&q->no_memory, true);
        return true;
    }
    d.room = scratch.ptr;
    const struct kl_launch both = {.parallel = rows * q->k >= KL_CHUNK ? alone->parallel : NULL};
    kl_run_tasks(&both, rows, split_task, &d);
    const bool done = !atomic_load(&d.refused);
    if (done) {
        q->col_tasks = kl_round_up(kl_ceil_div(q->n * some * q->k, TASK_FROM), 2);
        q->cols = kl_max64(kl_round_up(kl_ceil_div(q->n, q->col_tasks), 4), 2 * some / 4 * 4);
        q->col_tasks = kl_ceil_div(q->n, q->cols);
        kl_run_tasks(alone, q->batches * d.row_tasks * q->col_tasks, multiply_task, &d);
    }
    kl_scratch_give(&scratch);
    return done;
}
#else
bool kl_qmm_dot(struct kl_qmm *q, const struct kl_launch *alone) {
    return false;
}
#endif
