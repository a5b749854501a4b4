/* matmul.h - a product of matrices as its kernels see it: matmul.c, which chooses how it is
 * computed, matmul_complex.c, gemm.c, gemm_amx.c, gemm_neon_bf16.c, and the products of quantized
 * matrices (quantized/). */
#pragma once
#include <stdatomic.h>
#include <string.h>

#include "backend/cpu/operand/tile.h"

struct kl_product {
    struct kl_launch *l;
    enum kl_dtype type;             /* the compute type: the type of sums */
    int bytes;                      /* the size of an element of `type` */
    int n_lead, dims[KL_LONG_AXES]; /* leading axes longer than 1 */
    int64_t lead[2][KL_LONG_AXES];  /* strides of those axes in a and b */
    /* a, b, out as matrices; strides in elements. */
    const struct kl_arg *a, *b;
    int64_t m, n, k, a_row, a_col, b_row, b_col, out_row, out_col;
    int64_t rows, cols; /* size of the part of the result that one task computes */
    int64_t row_tasks, col_tasks;
    /* Small products: the size of the batch, and the products of one task. */
    int64_t batches, batches_each;
    _Atomic(bool) no_memory;
    /* Where b is not in memory as numbers, `from` says where it comes from, and its data is not
     * read. With contiguous rows, load_b writes n elements of a row from element `offset` on, as
     * the compute type. With contiguous columns, pack_b writes a panel for the tiles of gemm.c:
     * `depth` elements of each of `lines` columns. Offsets along rows and columns and lengths are
     * multiples of 8, but for `lines`. NULL: b is read. */
    const void *from;
    void (*load_b)(const struct kl_product *j, int64_t offset, int64_t n, void *to);
    void (*pack_b)(const struct kl_product *j, int64_t offset, int64_t lines, int64_t depth,
                   void *to);
};

/* Where the part of a task begins: offsets in a and b, in elements, of its batch; its first row and
 * column; and its size. */
struct kl_place {
    int64_t batch, a, b, row, col, m, n;
};

static inline struct kl_place kl_place_of(const struct kl_product *j, int64_t task) {
    int64_t per_batch = j->row_tasks * j->col_tasks, in_batch = task % per_batch;
    struct kl_place p = {.batch = task / per_batch,
                         .row = in_batch / j->col_tasks * j->rows,
                         .col = in_batch % j->col_tasks * j->cols};
    kl_offsets(j->n_lead, j->dims, j->lead[0], p.batch, 1, &p.a);
    kl_offsets(j->n_lead, j->dims, j->lead[1], p.batch, 1, &p.b);
    p.m = kl_min64(j->rows, j->m - p.row);
    p.n = kl_min64(j->cols, j->n - p.col);
    return p;
}

static inline const char *kl_element(const struct kl_arg *a, int64_t offset) {
    return (const char *)a->data + offset * (int64_t)kl_dtype_size(a->dtype);
}

/* Stores n elements of the compute type in row `row` of the task's part, from column `col` on. */
static inline void kl_store_row(const struct kl_product *j, const struct kl_place *p, int64_t row,
                                int64_t col, int64_t n, const char *from) {
    const struct kl_arg *out = j->l->out;
    int item = (int)kl_dtype_size(out->dtype);
    char *to =
        (char *)out->data +
        (p->batch * j->m * j->n + (p->row + row) * j->out_row + (p->col + col) * j->out_col) * item;
    union kl_tile narrow;
    for (int64_t at = 0; at < n; at += KL_TILE) {
        int64_t some = kl_min64(KL_TILE, n - at);
        const char *src = from + at * j->bytes;
        if (out->dtype != j->type && j->out_col == 1) {
            kl_convert(out->dtype, to + at * item, j->type, src, some);
            continue;
        }
        if (out->dtype != j->type) {
            kl_convert(out->dtype, narrow.bytes, j->type, src, some);
            src = (const char *)narrow.bytes;
        }
        kl_copy_run(item, some, to + at * j->out_col * item, j->out_col * item, src, item);
    }
}

/* Products of floats in vectors, on the thread pool of l. */
void kl_cpu_gemm(struct kl_product *j, const struct kl_launch *l);
/* The same in tile registers. Returns false, and does nothing, where there are no tile registers or
 * vectors are faster. */
bool kl_cpu_gemm_amx(struct kl_product *j, const struct kl_launch *l);
/* The same of bfloat16 by BFMMLA. Returns false, and does nothing, where it is not there, or
 * vectors are faster. */
bool kl_cpu_gemm_bf16(struct kl_product *j, const struct kl_launch *l);
/* Products of complex64. */
void kl_cpu_complex_product(struct kl_product *j, const struct kl_launch *l);
