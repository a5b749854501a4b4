/* matmul_complex.c - MATMUL of complex64: kl_cpu_complex_product of matmul.h. Each element is one
 * chain over k of c + a b, in the steps of kl_c64_mul and without fused ones, so its bits are those
 * of a plain loop. A vector holds whole numbers: c += a.re * b, and c += a.im * (b turned by i). */
#include "backend/cpu/cpu_kernels.h"
#include "backend/cpu/operand/patch.h"
#include "backend/cpu/product/matmul.h"
#include "backend/cpu/product/products.h"

enum {
    LANES = KL_VECTOR / 8,               /* numbers of a vector */
    WIDTH = 2 * LANES,                   /* columns that are computed at a time */
    HEIGHT = KL_REGISTERS == 32 ? 8 : 4, /* rows that are computed at a time */
    ROWS = 64,
    COLS = 64, /* of a task */
    FEW = 16,
    LONG = ROWS * COLS / FEW, /* the same with few rows, which read b in place */
    PACKED = 1 << 13,         /* numbers of b that are packed in one step */
    SHORT = 8,      /* the same where b is read in place: as many rows of it are read together */
    TASK = 1 << 16, /* multiply-adds of a task that computes several products */
};
typedef uint64_t pairs __attribute__((vector_size(KL_VECTOR)));

/* c += a b for `rows` (a constant) x WIDTH elements. */
static inline __attribute__((always_inline)) void
add_tile(int rows, int64_t depth, const struct kl_c64 *a, int64_t a_row, int64_t a_col,
         const struct kl_c64 *b, int64_t b_row, struct kl_c64 *c, int64_t c_row) {
    kl_vec_f32 sum[HEIGHT][2];
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 2
        for (int v = 0; v < 2; v++) sum[r][v] = *(const kl_loose_f32 *)(c + r * c_row + v * LANES);
    for (int64_t k = 0; k < depth; k++) {
        kl_vec_f32 x[2], turned[2];
#pragma GCC unroll 2
        for (int v = 0; v < 2; v++) {
            x[v] = *(const kl_loose_f32 *)(b + k * b_row + v * LANES);
            const pairs both = (pairs)x[v];
            turned[v] = (kl_vec_f32)((both << 32 | both >> 32) ^ UINT64_C(1) << 31);
        }
#pragma GCC unroll 8
        for (int r = 0; r < rows; r++) {
            const struct kl_c64 *y = a + r * a_row + k * a_col;
            const kl_vec_f32 re = y->re - (kl_vec_f32){0}, im = y->im - (kl_vec_f32){0};
#pragma GCC unroll 2
            for (int v = 0; v < 2; v++) sum[r][v] += re * x[v] + im * turned[v];
        }
    }
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 2
        for (int v = 0; v < 2; v++) *(kl_loose_f32 *)(c + r * c_row + v * LANES) = sum[r][v];
}

/* The same for m rows. A last one alone is computed twice. */
static __attribute__((noinline)) void add_rows(int64_t m, int64_t depth, const struct kl_c64 *a,
                                               int64_t a_row, int64_t a_col, const struct kl_c64 *b,
                                               int64_t b_row, struct kl_c64 *c, int64_t c_row) {
    for (; m >= HEIGHT; m -= HEIGHT, a += HEIGHT * a_row, c += HEIGHT * c_row)
        add_tile(HEIGHT, depth, a, a_row, a_col, b, b_row, c, c_row);
    for (; m > 0; m -= 2, a += 2 * a_row, c += 2 * c_row)
        add_tile(2, depth, a, m > 1 ? a_row : 0, a_col, b, b_row, c, m > 1 ? c_row : 0);
}

static bool right_in_place(const struct kl_product *j) {
    return j->b_col == 1 && j->n % WIDTH == 0 && j->m <= FEW;
}

/* Copies depth x n numbers of b to rows of `pitch` numbers. */
static void pack(const struct kl_product *j, int64_t offset, int64_t depth, int64_t n,
                 struct kl_c64 *to, int64_t pitch) {
    const struct kl_c64 *from = (const struct kl_c64 *)j->b->data + offset;
    if (j->b_row == 1 && j->b_col != 1)
        kl_cpu_transpose(8, to, pitch * 8, from, j->b_col * 8, n, depth);
    else if (n < depth && n <= FEW / 4)
        for (int64_t i = 0; i < n; i++)
            kl_copy_run(8, depth, to + i, pitch * 8, from + i * j->b_col, j->b_row * 8);
    else
        for (int64_t k = 0; k < depth; k++)
            kl_copy_run(8, n, to + k * pitch, 8, from + k * j->b_row, j->b_col * 8);
}

static void complex_part(const struct kl_product *j, const struct kl_place *p) {
    _Alignas(64) struct kl_c64 packed[PACKED], sums[ROWS * COLS];
    const struct kl_c64 *a = (const struct kl_c64 *)j->a->data + p->a + p->row * j->a_row;
    const bool in_place = right_in_place(j), direct = j->out_col == 1 && p->n % WIDTH == 0;
    const int64_t width = kl_round_up(p->n, WIDTH), step = in_place ? SHORT : PACKED / width,
                  b_row = in_place ? j->b_row : width, c_row = direct ? j->out_row : width;
    struct kl_c64 *out = (struct kl_c64 *)j->l->out->data + p->batch * j->m * j->n +
                         p->row * j->out_row + p->col * j->out_col,
                  *c = direct ? out : sums;
    if (width > p->n) memset(packed, 0, (size_t)(kl_min64(step, j->k) * width) * sizeof *packed);
    for (int64_t i = 0; i < p->m; i++) memset(c + i * c_row, 0, (size_t)width * sizeof *c);
    for (int64_t k = 0; k < j->k; k += step) {
        const int64_t depth = kl_min64(step, j->k - k),
                      offset = p->b + k * j->b_row + p->col * j->b_col;
        const struct kl_c64 *b = packed;
        if (in_place)
            b = (const struct kl_c64 *)j->b->data + offset;
        else
            pack(j, offset, depth, p->n, packed, width);
        for (int64_t col = 0; col < p->n; col += WIDTH)
            add_rows(p->m, depth, a + k * j->a_col, j->a_row, j->a_col, b + col, b_row, c + col,
                     c_row);
    }
    for (int64_t i = 0; !direct && i < p->m; i++)
        kl_copy_run(8, p->n, out + i * j->out_row, j->out_col * 8, sums + i * width, 8);
}

/* A task is a part of one product, or several products. */
static void complex_task(void *arg, int64_t task) {
    const struct kl_product *j = arg;
    for (int64_t i = 0; i < j->batches_each; i++) {
        const int64_t part = task * j->batches_each + i;
        if (part >= j->batches * j->row_tasks * j->col_tasks) return;
        const struct kl_place p = kl_place_of(j, part);
        complex_part(j, &p);
    }
}

void kl_cpu_complex_product(struct kl_product *j, const struct kl_launch *l) {
    const bool in_place = right_in_place(j);
    j->rows = in_place ? FEW : ROWS;
    j->cols = in_place ? LONG : j->m <= FEW ? WIDTH : COLS;
    j->row_tasks = kl_ceil_div(j->m, j->rows);
    j->col_tasks = kl_ceil_div(j->n, j->cols);
    const int64_t parts = j->batches * j->row_tasks * j->col_tasks;
    j->batches_each = TASK / (kl_min64(j->m, j->rows) * kl_min64(j->n, j->cols) * j->k + 1) + 1;
    kl_run_tasks(l, kl_ceil_div(parts, j->batches_each), complex_task, j);
}
