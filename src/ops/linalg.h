/* linalg.h - builders of linear algebra, on the matrices in the last two axes of arrays; the other
 * axes are batches. The rules of ops.h hold, and these: float32 and float64 are taken, integers
 * and bool in float32; svd, eigh and eig take complex64 too. KL_EDTYPE for others; KL_ESHAPE: fewer
 * than two axes, or matrices that are not square where they must be; KL_ELIMIT: a result of one
 * matrix has too many elements. A result that fails when it is evaluated has KL_EMATRIX. */
#pragma once
#include "ops/ops.h"

/* The inverse; a singular matrix fails. */
kl_unary_fn kl_inv;
/* The pseudoinverse, by svd; singular values up to 10 eps max(m, n) times the largest are 0. */
kl_unary_fn kl_pinv;
/* The inverse of a triangular matrix; the other triangle is not read. */
int kl_tri_inv(struct kl_array **out, struct kl_array *a, bool upper, struct kl_stream *s,
               struct kl_error **err);
/* The factor L with a = L L', or U with a = U' U; one triangle of a is read. */
int kl_cholesky(struct kl_array **out, struct kl_array *a, bool upper, struct kl_stream *s,
                struct kl_error **err);
/* The inverse of the matrix whose factor kl_cholesky gave. */
int kl_cholesky_inv(struct kl_array **out, struct kl_array *a, bool upper, struct kl_stream *s,
                    struct kl_error **err);
/* x with a x = b. A 1-d b is one right-hand side; else b (..., n, k), and batches broadcast. */
int kl_solve(struct kl_array **out, struct kl_array *a, struct kl_array *b, struct kl_stream *s,
             struct kl_error **err);
int kl_solve_triangular(struct kl_array **out, struct kl_array *a, struct kl_array *b, bool upper,
                        struct kl_stream *s, struct kl_error **err);

/* ---- results of several arrays: *outs as of kl_split (ops.h) ---- */
/* The kinds of the call PARTS of build/deferred.def, which do not change. */
enum kl_factors {
    KL_FACTORS_LU,        /* places p (uint32), l (m, k), u (k, n): row i of a is row p[i] of l u */
    KL_FACTORS_LU_FACTOR, /* l below the diagonal and u (m, n); pivots (uint32): row i was exchanged
                         * with row pivots[i], in order */
    KL_FACTORS_QR,        /* q (m, k), r (k, n) */
    KL_FACTORS_SVD,       /* u (m, m), s (k) descending, vt (n, n) */
    KL_FACTORS_EIGH,      /* w (n) ascending, v (n, n) with the eigenvectors in columns */
    KL_FACTORS_EIG,       /* w, v, both complex64; the eigenvectors have norm 1 */
    KL_N_FACTORS
};
/* upper: of EIGH, which triangle is read. */
int kl_matrix_parts(struct kl_array ***outs, size_t *n_outs, enum kl_factors parts,
                    struct kl_array *a, bool upper, struct kl_stream *s, struct kl_error **err);
/* Values alone, without vectors. */
kl_unary_fn kl_singular_values, kl_eigvals;
int kl_eigvalsh(struct kl_array **out, struct kl_array *a, bool upper, struct kl_stream *s,
                struct kl_error **err);

/* ---- linalg_composed.c ---- */
/* The product of the eigenvalues; its sign, or the logarithm of its size. By LU, also of singular
 * matrices. The gradient of det is the cofactors, of any matrix; those of slogdet fail where it is
 * singular. */
kl_unary_fn kl_det;
/* The given determinants of the matrices a, with the gradient that they have. KL_ESHAPE, KL_EDTYPE:
 * they are not one for each matrix, or not of float32 or float64 as these. */
kl_binary_fn kl_determinant;
int kl_slogdet_part(struct kl_array **out, struct kl_array *a, bool logarithm, struct kl_stream *s,
                    struct kl_error **err);
/* The vector product along an axis of 2 or 3 elements, of which the third is 0 where it is missing.
 * KL_ESHAPE for another length. Any dtypes but bool of which something is subtracted. */
int kl_cross(struct kl_array **out, struct kl_array *a, struct kl_array *b, int axis,
             struct kl_stream *s, struct kl_error **err);
/* Norms over the axes (NULL: all): of vectors over one axis, of matrices over two. Real; integers
 * give float32. ord of vectors: any number, 0 counts elements that are not 0. Of matrices: 1, -1,
 * infinity and -infinity are sums of columns or rows, 2 and -2 singular values. KL_EARG for
 * others. */
int kl_norm(struct kl_array **out, struct kl_array *a, double ord, const int *axes, size_t axes_num,
            bool keepdims, struct kl_stream *s, struct kl_error **err);
/* ord "fro", "f" or "nuc", over two axes. */
int kl_norm_matrix(struct kl_array **out, struct kl_array *a, const char *ord, const int *axes,
                   size_t axes_num, bool keepdims, struct kl_stream *s, struct kl_error **err);
/* The root of the sum of squares, over any axes. */
int kl_norm_l2(struct kl_array **out, struct kl_array *a, const int *axes, size_t axes_num,
               bool keepdims, struct kl_stream *s, struct kl_error **err);

/* ---- for linalg_rules.c ---- */
/* The parts of a packed result (op_params.h) of the operation op of matrices (m, n), as views: LU
 * gives factors, pivots and places; the others as above. outs has room for three; returns how many
 * there are, or a negative code. */
int kl_matrix_unpack(struct kl_array *outs[3], enum kl_op_id op, struct kl_array *packed, int m,
                     int n, struct kl_error **err);
