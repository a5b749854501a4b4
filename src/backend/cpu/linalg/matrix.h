/* matrix.h - factorisations of one dense matrix in row-major order, for the kernels of this folder.
 * LAPACK, where it is loaded (lapack.h), computes svd and eigh of large and of complex
 * matrices, and eig; plain C (dense.h) computes all others, and real ones of any size where LAPACK
 * is missing. The choice depends on the operation, the dtype and the extents alone, and so do the
 * bits: neither batches nor threads change them. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "base/number/dtype.h"
#include "base/op/launch.h"

/* How a factorisation ended. */
enum kl_matrix_info {
    KL_MATRIX_DONE,
    KL_MATRIX_FAILS, /* exactly singular, not positive definite, or iterations did not converge */
    KL_MATRIX_NOT_FINITE, /* svd, eigh and eig look for NaN and infinity first */
};

/* A factorisation. dtype is float32 or float64, of svd, eigh and eig also complex64. m rows, n
 * columns; 0 is allowed. `work` has kl_matrix_work bytes, aligned to 64. */
struct kl_matrix {
    enum kl_dtype dtype;
    int m, n;
    void *work;
    kl_parallel_for *parallel; /* for the parts of one large matrix; NULL: this thread alone */
};

/* Bytes of workspace of operation op for one matrix; `right`: the columns of the right-hand side of
 * solve and solve_triangular. */
size_t kl_matrix_work(enum kl_op_id op, enum kl_dtype dtype, int m, int n, int right,
                      kl_parallel_for *parallel);
/* Whether operation op can run on this machine for these extents; false: it needs LAPACK, which is
 * not loaded. */
bool kl_matrix_can(enum kl_op_id op, enum kl_dtype dtype, int m, int n);

/* a (n, n) becomes its Cholesky factor: lower, a = l l^T, or upper, a = u^T u. The other triangle
 * is not read and becomes 0. Fails at a pivot that is not positive, or NaN. */
enum kl_matrix_info kl_matrix_cholesky(const struct kl_matrix *x, bool upper, void *a);
/* b (n, right) becomes the solution of a y = b, a triangular; the other triangle is not read. Fails
 * where a diagonal element is 0. */
enum kl_matrix_info kl_matrix_solve_triangular(const struct kl_matrix *x, bool upper, const void *a,
                                               int right, void *b);
/* a (m, n) becomes its factors L (unit diagonal, not stored) and U; rows are exchanged: row i with
 * row pivots[i], in the order of i from 0 to min(m, n) - 1. Never fails. */
void kl_matrix_lu(const struct kl_matrix *x, void *a, int *pivots);
/* a (n, n) is overwritten; b (n, right) becomes the solution of a y = b. Fails where a pivot is
 * exactly 0. */
enum kl_matrix_info kl_matrix_solve(const struct kl_matrix *x, void *a, int right, void *b);
/* a (n, n) becomes its inverse. Fails where a pivot is exactly 0. */
enum kl_matrix_info kl_matrix_inv(const struct kl_matrix *x, void *a);
/* a (m, n) is overwritten; q (m, k), r (k, n), k = min(m, n). The signs are LAPACK's: a diagonal
 * element of r is negative where the column it came from began with a positive number. */
void kl_matrix_qr(const struct kl_matrix *x, void *a, void *q, void *r);
/* a (m, n) is overwritten; u (m, m), s (k) real, descending, vt (n, n); u and vt NULL: singular
 * values alone. */
enum kl_matrix_info kl_matrix_svd(const struct kl_matrix *x, void *a, void *u, void *s, void *vt);
/* a (n, n), of which one triangle is read, becomes its eigenvectors, in columns; w (n) real,
 * ascending; `vectors` false: eigenvalues alone, and a is overwritten. */
enum kl_matrix_info kl_matrix_eigh(const struct kl_matrix *x, bool upper, bool vectors, void *a,
                                   void *w);
/* a (n, n) is overwritten; w (n) complex, v (n, n) complex with the eigenvectors of norm 1 in
 * columns; v NULL: eigenvalues alone. Complex numbers are of the precision of dtype. */
enum kl_matrix_info kl_matrix_eig(const struct kl_matrix *x, void *a, void *w, void *v);
