/* dense.h - algorithms on one dense matrix in plain C, which matrix.c chooses from: float32 and
 * float64, in row-major order. They work on padded copies: rows are kl_dense_pitch elements apart,
 * so that loops over columns run in whole vectors, and what lies between the last column and the
 * next row is 0. `pack` has room for kl_dense_pack elements; all memory is aligned to 64 bytes. One
 * large matrix is computed by a team of threads, which share its columns: no bit depends on how. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "backend/cpu/linalg/matrix.h"

enum {
    KL_DENSE_LANES = 16, /* columns are padded to a multiple of this */
    KL_DENSE_DEPTH = 256,
    KL_DENSE_PANEL = 32, /* columns of a panel of kl_dense_qr */
    KL_DENSE_ROWS = 224, /* of the packed left operand: at least as many as a tile has rows */
    KL_DENSE_COLUMNS = 2048,
    KL_DENSE_ALL = INT32_MAX / 2,
    KL_DENSE_EDGE = 32, /* what a last tile or panel may be longer than what is left */
    KL_DENSE_PARTS = 4, /* that columns are cut into at most, each PART_COLUMNS or more of them */
    KL_DENSE_PART_COLUMNS = 64,
    KL_DENSE_PART_WORK = 1 << 22, /* multiply-adds of what is not given to several threads */
};

/* The memory for packed operands, and who computes the parts of large products. */
struct kl_dense_team {
    void *pack;
    size_t part_bytes;         /* of `pack` for each of KL_DENSE_PARTS; not used by one thread */
    kl_parallel_for *parallel; /* NULL: this thread alone */
};

static inline int kl_dense_round(int n) {
    return (n + KL_DENSE_LANES - 1) / KL_DENSE_LANES * KL_DENSE_LANES;
}

/* Rows a multiple of 512 bytes apart would share a few sets of the first cache. */
static inline int kl_dense_pitch(int n, size_t bytes) {
    int pitch = kl_dense_round(n);
    return (size_t)pitch * bytes % 512 == 0 ? pitch + KL_DENSE_LANES : pitch;
}

/* The columns of a part of n. */
static inline int kl_dense_part(int n) {
    const int even = (n + KL_DENSE_PARTS - 1) / KL_DENSE_PARTS, unit = KL_DENSE_PART_COLUMNS;
    return (even + unit - 1) / unit * unit;
}

/* Elements of the packed operands of a product whose extents are at most n, or of a column; of at
 * most `width` columns. */
static inline size_t kl_dense_pack(int n, int width) {
    size_t rows = n < KL_DENSE_ROWS ? (size_t)n : KL_DENSE_ROWS,
           columns = width < KL_DENSE_COLUMNS ? (size_t)width : KL_DENSE_COLUMNS,
           depth = n < KL_DENSE_DEPTH ? (size_t)n : KL_DENSE_DEPTH;
    return (rows + columns + 2 * KL_DENSE_EDGE) * (depth + KL_DENSE_LANES) +
           (size_t)kl_dense_round(n);
}

/* The functions, for each type T:
 * kl_dense_add: c (m, n) += sign a (m, k) b (k, n), sign 1 or -1; a is read through strides, rows
 *     of b and c are contiguous. `upper`: what is below the diagonal of c need not be right.
 * kl_dense_lower, kl_dense_upper: b (n, width) becomes the solution of a y = b; a is triangular,
 *     with a unit diagonal or its own; width is a multiple of KL_DENSE_LANES.
 * kl_dense_lower_inverse: b (n, n), the identity, becomes the inverse of a, which is lower
 *     triangular with a unit diagonal.
 * kl_dense_lu: a becomes its factors L and U; row i was exchanged with row pivots[i]. Columns from
 *     k = min(m, n) on, if there are any, begin at column kl_dense_round(k).
 * kl_dense_cholesky: the upper triangle of a becomes u, a = transpose(u) u; the other is
 *     overwritten. Returns false where a pivot is not positive.
 * kl_dense_qr: a (m, n) becomes R on and above the diagonal, and vectors of Householder reflections
 *     below it, whose first elements are 1 and not stored; tau (min(m, n)) their factors. Rows are
 *     padded to a multiple of KL_DENSE_PANEL. `room` has kl_dense_qr_room elements.
 * kl_dense_q: q (m, columns) becomes the first columns of Q, columns >= min(m, n); its `room` is
 *     that of (m, columns).
 * kl_dense_eigh: a is symmetric; its diagonal becomes the eigenvalues, in no order, and the rows of
 *     v, the identity at first, the eigenvectors; v is padded like a, or NULL. Returns false where
 *     the sweeps do not converge.
 * kl_dense_orthogonal: the rows of a (n, length) become orthogonal by rotations, which the rows of
 *     v (n, n) take part in, unless it is NULL. Returns false where the sweeps do not converge. */
#define KL_DENSE_DECLARE(T, NAME)                                                                \
    struct kl_dense_##NAME {                                                                     \
        const T *at;                                                                             \
        ptrdiff_t row, col; /* in elements */                                                    \
    };                                                                                           \
    void kl_dense_add_##NAME(int m, int n, int k, T sign, struct kl_dense_##NAME a, const T *b,  \
                             ptrdiff_t b_row, T *c, ptrdiff_t c_row, int below, T *pack);        \
    void kl_dense_lower_##NAME(bool unit, int n, struct kl_dense_##NAME a, int width, T *b,      \
                               ptrdiff_t b_row, const struct kl_dense_team *team);               \
    void kl_dense_upper_##NAME(bool unit, int n, struct kl_dense_##NAME a, int width, T *b,      \
                               ptrdiff_t b_row, const struct kl_dense_team *team);               \
    void kl_dense_lower_inverse_##NAME(int n, struct kl_dense_##NAME a, T *b, ptrdiff_t b_row,   \
                                       const struct kl_dense_team *team);                        \
    void kl_dense_lu_##NAME(int m, int n, T *a, ptrdiff_t row, int *pivots,                      \
                            const struct kl_dense_team *team);                                   \
    bool kl_dense_cholesky_##NAME(int n, T *a, ptrdiff_t row, const struct kl_dense_team *team); \
    size_t kl_dense_qr_room_##NAME(int m, int n);                                                \
    void kl_dense_qr_##NAME(int m, int n, T *a, ptrdiff_t row, T *tau, T *room);                 \
    void kl_dense_q_##NAME(int m, int n, const T *a, ptrdiff_t row, const T *tau, int columns,   \
                           T *q, ptrdiff_t q_row, T *room);                                      \
    bool kl_dense_eigh_##NAME(int n, T *a, ptrdiff_t row, T *v);                                 \
    bool kl_dense_orthogonal_##NAME(int n, int length, T *a, ptrdiff_t row, T *v, ptrdiff_t v_row);
KL_DENSE_DECLARE(float, f32)
KL_DENSE_DECLARE(double, f64)
#undef KL_DENSE_DECLARE
