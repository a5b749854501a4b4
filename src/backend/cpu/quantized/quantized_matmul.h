/* quantized_matmul.h - a product with a quantized matrix: quantized_matmul.c chooses how it is
 * computed, quantized_few.c and quantized_many.c compute it. */
#pragma once
#include "backend/cpu/cpu_kernels.h"
#include "backend/cpu/operand/codes.h"
#include "backend/cpu/product/products.h"

struct kl_qmm {
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
struct kl_qmm_matrices {
    const char *x, *scales, *biases;
    const uint8_t *w;
};

static inline const char *kl_qmm_at(const struct kl_arg *a, int64_t offset) {
    return (const char *)a->data + offset * (int64_t)kl_dtype_size(a->dtype);
}

/* Index number `batch` of input `which` (x or w), which is less than size; 0 where it is not. */
int64_t kl_qmm_index(const struct kl_qmm *q, int which, int64_t batch, int64_t size);
struct kl_qmm_matrices kl_qmm_matrices_of(const struct kl_qmm *q, int64_t batch);
/* n elements of a row of w from column `col` on, as numbers. Both are multiples of 8. */
void kl_qmm_numbers(const struct kl_qmm *q, const struct kl_qmm_matrices *a, int64_t row,
                    int64_t col, int64_t n, float *to);

/* quantized_few.c: all products, each of few rows of x. */
void kl_qmm_few_rows(struct kl_qmm *q, const struct kl_launch *alone);
/* quantized_dot.c: all products, of any number of rows, by SDOT and SMMLA. Returns false, and does
 * nothing, where SDOT is not there, for other formats, and where numbers of x cannot be split. */
bool kl_qmm_dot(struct kl_qmm *q, const struct kl_launch *alone);
/* quantized_many.c: the product of one batch. */
void kl_qmm_many_rows(struct kl_qmm *q, int64_t batch, const struct kl_launch *alone);
