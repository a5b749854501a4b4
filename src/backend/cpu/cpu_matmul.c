/* cpu_matmul.c - MATMUL in plain C: in = {a (..., m, k), b (..., k, n)} with the same leading axes;
 * out (..., m, n).
 *
 * The output is cut into blocks of ROWS x COLS, each one task. A task walks along k in steps of
 * DEPTH, packs both operands' parts (any strides, any float type) into contiguous memory of the
 * compute type, and adds up in the order of k. So the bits depend neither on layout nor on threads.
 * 16-bit floats are added up in float32 and rounded once. */
#include <string.h>

#include "backend/cpu/cpu_complex.h"
#include "backend/cpu/cpu_kernels.h"
#include "backend/cpu/cpu_tile.h"

enum { ROWS = 64, COLS = 64, DEPTH = 128, SHARE_FROM = 1 << 18 /* products */ };

#define PLAIN_MADD(c, a, b) ((c) + (a) * (b))
#define T float
#define NAME f32
#define MADD PLAIN_MADD
#include "backend/cpu/cpu_matmul.inc"
#define T double
#define NAME f64
#define MADD PLAIN_MADD
#include "backend/cpu/cpu_matmul.inc"

static inline struct kl_c64 c64_madd(struct kl_c64 c, struct kl_c64 a, struct kl_c64 b) {
    return kl_c64_add(c, kl_c64_mul(a, b));
}
#define T struct kl_c64
#define NAME c64
#define MADD c64_madd
#include "backend/cpu/cpu_matmul.inc"

struct job {
    const struct kl_launch *l;
    void (*block)(int64_t m, int64_t n, int64_t depth, const void *a, const void *b, void *c);
    enum kl_dtype type;
    int bytes;                      /* of type */
    int n_lead, dims[KL_LONG_AXES]; /* leading axes longer than 1 */
    int64_t lead[2][KL_LONG_AXES];  /* their strides in a and b */
    /* a, b, out as matrices; strides in elements. Narrow products are computed transposed: the
     * inner loop runs along n. */
    const struct kl_arg *a, *b;
    int64_t m, n, k, a_row, a_col, b_row, b_col, out_row, out_col;
    int64_t row_blocks, col_blocks;
};

/* rows x cols elements of a matrix, as the compute type, `pitch` apart. */
static void pack(const struct job *j, const struct kl_arg *arg, int64_t offset, int64_t row_step,
                 int64_t col_step, int64_t rows, int64_t cols, int64_t pitch, char *to) {
    int item = (int)kl_dtype_size(arg->dtype);
    const char *from = (const char *)arg->data + offset * item;
    union kl_tile raw;
    for (int64_t i = 0; i < rows; i++) {
        const char *row = from + i * row_step * item;
        char *dst = to + i * pitch * j->bytes;
        if (arg->dtype == j->type) {
            kl_copy_run(item, cols, dst, item, row, col_step * item);
        } else {
            kl_copy_run(item, cols, raw.bytes, item, row, col_step * item);
            kl_convert(j->type, dst, arg->dtype, raw.bytes, cols);
        }
    }
}

static void matmul_chunk(void *arg, int64_t task) {
    const struct job *j = arg;
    const struct kl_arg *out = j->l->out;
    _Alignas(64) char a[ROWS * DEPTH * 8], b[DEPTH * COLS * 8], c[ROWS * COLS * 8];
    int64_t per_batch = j->row_blocks * j->col_blocks, batch = task / per_batch,
            in_batch = task % per_batch;
    int64_t row = in_batch / j->col_blocks * ROWS, col = in_batch % j->col_blocks * COLS;
    int64_t m = kl_min64(ROWS, j->m - row), n = kl_min64(COLS, j->n - col), a_off, b_off;
    kl_offsets(j->n_lead, j->dims, j->lead[0], batch, 1, &a_off);
    kl_offsets(j->n_lead, j->dims, j->lead[1], batch, 1, &b_off);
    for (int64_t i = 0; i < m; i++) memset(c + i * COLS * j->bytes, 0, (size_t)(n * j->bytes));
    for (int64_t k = 0; k < j->k; k += DEPTH) {
        int64_t depth = kl_min64(DEPTH, j->k - k);
        pack(j, j->a, a_off + row * j->a_row + k * j->a_col, j->a_row, j->a_col, m, depth, DEPTH,
             a);
        pack(j, j->b, b_off + k * j->b_row + col * j->b_col, j->b_row, j->b_col, depth, n, COLS, b);
        j->block(m, n, depth, a, b, c);
    }
    int item = (int)kl_dtype_size(out->dtype);
    char *dst =
        (char *)out->data + (batch * j->m * j->n + row * j->out_row + col * j->out_col) * item;
    union kl_tile narrow;
    for (int64_t i = 0; i < m; i++) {
        const char *src = c + i * COLS * j->bytes;
        if (out->dtype != j->type) {
            kl_convert(out->dtype, narrow.bytes, j->type, src, n);
            src = (const char *)narrow.bytes;
        }
        kl_copy_run(item, n, dst + i * j->out_row * item, j->out_col * item, src, item);
    }
}

static void transpose_job(struct job *j) {
    const struct kl_arg *arg = j->a;
    int64_t m = j->m, row = j->a_row, col = j->a_col, out_row = j->out_row;
    int64_t lead[KL_LONG_AXES];
    j->a = j->b;
    j->b = arg;
    j->m = j->n;
    j->n = m;
    j->a_row = j->b_col;
    j->a_col = j->b_row;
    j->b_row = col;
    j->b_col = row;
    j->out_row = j->out_col;
    j->out_col = out_row;
    memcpy(lead, j->lead[0], sizeof lead);
    memcpy(j->lead[0], j->lead[1], sizeof lead);
    memcpy(j->lead[1], lead, sizeof lead);
}

int kl_cpu_matmul(struct kl_launch *l) {
    struct job j = {.l = l, .a = &l->in[0], .b = &l->in[1]};
    const struct kl_arg *out = l->out;
    int last = out->ndim - 1;
    if (out->size == 0) return KL_OK;
    j.type = kl_compute_dtype(out->dtype);
    j.bytes = (int)kl_dtype_size(j.type);
    j.block = j.type == KL_C64 ? block_c64 : j.type == KL_F64 ? block_f64 : block_f32;
    j.m = out->dims[last - 1];
    j.n = out->dims[last];
    j.k = j.a->dims[last];
    j.a_row = j.a->strides[last - 1];
    j.a_col = j.a->strides[last];
    j.b_row = j.b->strides[last - 1];
    j.b_col = j.b->strides[last];
    j.out_row = j.n;
    j.out_col = 1;
    for (int i = 0; i < last - 1; i++) {
        if (out->dims[i] == 1 || j.n_lead == KL_LONG_AXES) continue;
        j.dims[j.n_lead] = out->dims[i];
        j.lead[0][j.n_lead] = j.a->strides[i];
        j.lead[1][j.n_lead++] = j.b->strides[i];
    }
    int64_t batches = out->size / (j.m * j.n);
    if (j.n < 16 && j.n < j.m) transpose_job(&j);
    j.row_blocks = kl_ceil_div(j.m, ROWS);
    j.col_blocks = kl_ceil_div(j.n, COLS);
    bool big = (double)out->size * (double)j.k >= SHARE_FROM;
    struct kl_launch alone = {.parallel = big ? l->parallel : NULL};
    kl_share(&alone, batches * j.row_blocks * j.col_blocks, matmul_chunk, &j);
    return KL_OK;
}
