/* quantized.h - what the products with quantized matrices share: quantized.c describes them and
 * chooses, quantized_matrix.c has those by matrix units, quantized_tiles.c those of many rows by
 * matrices of sub-groups. */
#pragma once
#include "backend/gpu/lower/lower.h"
#include "backend/gpu/lower/product_route.h"

enum {
    KL_QUANTIZED_IN = 4,
    KL_QUANTIZED_VEC_BYTES = 16,
    KL_QUANTIZED_FEW_ROWS =
        8, /* the most rows of x that are multiplied as packed numbers are read */
};

/* Operands with a dense last axis, and their leading axes. */
struct kl_quantized_operands {
    int n;
    const char *data[KL_QUANTIZED_IN];
    size_t item[KL_QUANTIZED_IN];
    int64_t row[KL_QUANTIZED_IN], col[KL_QUANTIZED_IN]; /* strides of the last two axes */
    int64_t matrix[KL_QUANTIZED_IN];                    /* the stride of the axis before them */
    struct kl_space lead;
};

struct kl_quantized_product { /* quantized_place.kl has the same, as struct product */
    int64_t m, n, k, x_row, x_col, w_row, s_row, b_row;
    int32_t vector, x_vector, gather, pad;
    int64_t x_mat, w_mat, s_mat, b_mat, xs, ws;
};

/* The arguments of all kernels of packed numbers, but the last ones. */
struct kl_quantized_args {
    struct kl_quantized_operands o;
    struct kl_quantized_product q;
    const void *lhs, *rhs;
};

/* The arguments of the product c, whose first inputs are `in`. any_col: x may have any distance
 * between elements of a row. */
int kl_quantized_describe(struct kl_emit *e, const struct kl_command *c, const struct kl_arg *in,
                          bool any_col, struct kl_quantized_args *a);

/* Whether matrix units take the product c, and its launch, of `batches` products. */
bool kl_quantized_takes_matrix(const struct kl_emit *e, const struct kl_command *c);
int kl_quantized_by_matrix(struct kl_emit *e, const struct kl_command *c, int64_t batches);

/* Whether tiles take the product c, of `batches` products, and its launch. */
bool kl_quantized_takes_tiles(const struct kl_emit *e, const struct kl_command *c, int64_t batches);
int kl_quantized_by_tiles(struct kl_emit *e, const struct kl_command *c, int64_t batches);
extern const struct kl_family kl_family_quantized_tiles; /* not in kl_families */

/* The stride of the axis that is from_end-th from the end, 0 where there is none. */
static inline int64_t kl_stride_from_end(const struct kl_arg *a, const int64_t *strides,
                                         int from_end) {
    return a->ndim >= from_end ? strides[a->ndim - from_end] : 0;
}

/* Whether each row of x has a matrix that an index chooses, and rows of the same matrix are brought
 * together. */
static inline bool kl_quantized_single_rows(const struct kl_emit *e,
                                            const struct kl_quantized_product *q, int64_t batches) {
    return q->gather && q->m == 1 && kl_route_pays(e, batches, q->ws);
}

/* The rows for which a tile then needs room: a quarter more than a matrix has on average, since
 * what is left over reads the matrix again. */
static inline int64_t kl_quantized_lines(const struct kl_quantized_product *q, int64_t batches) {
    return kl_groups_for(batches * 5, q->ws * 4);
}
