/* quantized_dot.c - products of few rows of x with affine codes of 4 and 8 bits by SDOT, where the
 * processor has it (quantized_neon_dot.h). Rows of x are split into digits once, for all tasks. */
#include "backend/cpu/cpu_kernels.h"
#include "backend/cpu/quantized/quantized_neon_dot.h"
#include "backend/cpu/quantized/quantized_words.h"

#ifdef __aarch64__
enum {
    SOME = 64,           /* rows of w that each row of x is multiplied by: they stay in L1 */
    TASK_FROM = 1 << 16, /* multiply-adds of a task: some microseconds */
};

struct dots {
    struct kl_qmm *q;
    char *room; /* of all rows of x, `bytes` each: digits, units, sums */
    int64_t bytes;
    _Atomic(bool) refused; /* x has numbers that are not split */
};

/* Where row i of all rows of x is in the room. */
static struct kl_sdot_row row_at(const struct dots *d, int64_t i) {
    const struct kl_qmm *q = d->q;
    char *at = d->room + i * d->bytes;
    const float *units = (const float *)(const void *)(at + KL_SDOT_DIGITS * q->k);
    const int64_t item = (int64_t)kl_dtype_size(q->scale_type);
    struct kl_sdot_row r = {.units = units,
                            .sums = units + q->groups,
                            .groups = q->groups,
                            .group_size = q->f.group_size,
                            .bits = q->f.bits,
                            .scale_type = q->scale_type,
                            .w_row = q->w_row * 4,
                            .s_row = q->s_row * item,
                            .b_row = q->b_row * item};
    for (int k = 0; k < KL_SDOT_DIGITS; k++) r.digits[k] = (const int8_t *)at + k * q->k;
    return r;
}

static void split_task(void *arg, int64_t i) {
    struct dots *d = arg;
    const struct kl_qmm *q = d->q;
    const int item = (int)kl_dtype_size(q->x->dtype), g = q->f.group_size;
    const int64_t matrix = i / q->m, row = i % q->m;
    int64_t offset = matrix * q->x->strides[0];
    char *at = d->room + i * d->bytes;
    float *units = (float *)(void *)(at + KL_SDOT_DIGITS * q->k), *sums = units + q->groups;
    int8_t *digits[KL_SDOT_DIGITS];
    union kl_tile raw, tile;
    for (int k = 0; k < KL_SDOT_DIGITS; k++) digits[k] = (int8_t *)at + k * q->k;
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
        if (!kl_sdot_split(q->f.bits, g, k, n, x, digits, units)) atomic_store(&d->refused, true);
    }
}

static void multiply_task(void *arg, int64_t task) {
    const struct dots *d = arg;
    const struct kl_qmm *q = d->q;
    const int64_t batch = task / q->col_tasks, begin = task % q->col_tasks * q->cols,
                  end = kl_min64(begin + q->cols, q->n);
    const struct kl_qmm_matrices a = kl_qmm_matrices_of(q, batch);
    const struct kl_arg *out = q->l->out;
    const int64_t item = (int64_t)kl_dtype_size(out->dtype),
                  matrix = q->gather ? kl_qmm_index(q, 0, batch, q->x->dims[0]) : batch;
    float result[SOME], four[4];
    for (int64_t block = begin; block < end; block += SOME) {
        const int64_t n = kl_min64(SOME, end - block);
        for (int64_t i = 0; i < q->m; i++) {
            struct kl_sdot_row r = row_at(d, matrix * q->m + i);
            const int64_t whole = n / 4 * 4, w_row = r.w_row, s_row = r.s_row, b_row = r.b_row;
            kl_sdot_rows(&r, a.w + block * w_row, a.scales + block * s_row,
                         a.biases + block * b_row, whole, result);
            r.w_row = r.s_row = r.b_row = 0; /* what is left: one row, four times */
            for (int64_t c = whole; c < n; c++) {
                kl_sdot_rows(&r, a.w + (block + c) * w_row, a.scales + (block + c) * s_row,
                             a.biases + (block + c) * b_row, 4, four);
                result[c] = four[0];
            }
            kl_convert(out->dtype, (char *)out->data + ((batch * q->m + i) * q->n + block) * item,
                       KL_F32, result, n);
        }
    }
}

bool kl_qmm_few_dot(struct kl_qmm *q, const struct kl_launch *alone) {
    const int64_t rows = (q->gather ? q->x->dims[0] : q->batches) * q->m;
    struct dots d = {.q = q, .bytes = kl_round_up(KL_SDOT_DIGITS * q->k + 8 * q->groups, KL_LINE)};
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
        q->col_tasks = kl_round_up(kl_ceil_div(q->n * q->m * q->k, TASK_FROM), 2);
        q->cols = kl_round_up(kl_ceil_div(q->n, q->col_tasks), 4);
        q->col_tasks = kl_ceil_div(q->n, q->cols);
        kl_run_tasks(alone, q->batches * q->col_tasks, multiply_task, &d);
    }
    kl_scratch_give(&scratch);
    return done;
}
#else
bool kl_qmm_few_dot(struct kl_qmm *q, const struct kl_launch *alone) {
    return false;
}
#endif
