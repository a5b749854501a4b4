/* linalg.h - linear algebra: inverses, equations, factorisations, eigenvalues, norms.
 *
 * For each function: *res is an empty handle, or a live one, which is overwritten; the caller
 * frees it. Arrays that come in are borrowed. The operations work on the matrices in the last two
 * axes of an array; axes before them are batches. They take float32 and float64, and integers and
 * bool as float32; svd, eig and eigh, with the functions of their values alone, take complex64
 * too. The result has the dtype of the matrices unless something else is said. k is the smaller
 * one of m rows and n columns. The functions return 0, or 1 with an error raised (keel/error.h):
 * KEEL_EDTYPE for another dtype, KEEL_ESHAPE for fewer than two axes, or for matrices that are not
 * square where square ones are needed, KEEL_EARG, KEEL_ENOMEM.
 *
 * A GPU takes cholesky, lu, qr, solve, inv and triangles of up to 64 rows and columns; one of CUDA,
 * where cuSOLVER and cuBLAS are installed, those of any size, svd, pinv and eigh too.
 *
 * A matrix for which there is no result makes the result fail when it is evaluated, and no other
 * array: KEEL_EMATRIX, where `index` is the smallest such matrix of the batch. KEEL_EUNSUPPORTED,
 * at evaluation too: the operation needs a library that was not found, as LAPACK, or the device has
 * no kernel for it; a stream of the CPU runs it then. */
#ifndef MLX_LINALG_H
#define MLX_LINALG_H

#include <stdbool.h>
#include <stddef.h>

#include "keel/export.h"
#include "mlx/c/array.h"
#include "mlx/c/stream.h"
#include "mlx/c/vector.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- inverses and equations ---- */
/* The inverse of square matrices. A matrix that is exactly singular, with a pivot of 0 after
 * exchanges of rows, fails. The gradient is -y' g y' (Giles, "Collected Matrix Derivative
 * Results", 2008). */
KEEL_API int mlx_linalg_inv(mlx_array *res, const mlx_array a, const mlx_stream s);
/* The inverse of triangular matrices, lower or upper; the other triangle is not read. A 0 on the
 * diagonal fails. */
KEEL_API int mlx_linalg_tri_inv(mlx_array *res, const mlx_array a, bool upper, const mlx_stream s);
/* The pseudoinverse (..., n, m) of matrices (..., m, n), by their singular values, of which those
 * at most 10 eps max(m, n) times the largest count as 0. Fails as svd. Its gradient is that for a
 * rank that does not change (Golub and Pereyra, 1973). */
KEEL_API int mlx_linalg_pinv(mlx_array *res, const mlx_array a, const mlx_stream s);
/* The inverse of the matrices whose factors, lower or upper, mlx_linalg_cholesky gave. */
KEEL_API int mlx_linalg_cholesky_inv(mlx_array *res, const mlx_array a, bool upper,
                                     const mlx_stream s);
/* x with a x = b. a (..., n, n); b (n), one right-hand side, or (..., n, k); batches broadcast, and
 * the common dtype is float32 or float64. An exactly singular matrix fails. */
KEEL_API int mlx_linalg_solve(mlx_array *res, const mlx_array a, const mlx_array b,
                              const mlx_stream s);
/* The same for triangular matrices, lower or upper; the other triangle is not read. */
KEEL_API int mlx_linalg_solve_triangular(mlx_array *res, const mlx_array a, const mlx_array b,
                                         bool upper, const mlx_stream s);

/* ---- factorisations ---- */
/* The lower triangle l with a = l l', or with `upper` the upper triangle u with a = u' u, of
 * symmetric positive definite matrices, of which that triangle is read. Another matrix fails. The
 * gradient is symmetric (Murray, "Differentiation of the Cholesky decomposition", 2016). */
KEEL_API int mlx_linalg_cholesky(mlx_array *res, const mlx_array a, bool upper, const mlx_stream s);
/* Three arrays: p (..., m) of uint32, l (..., m, k) with ones on its diagonal and u (..., k, n);
 * row i of a is row p[i] of l u. Singular matrices have factors too. */
KEEL_API int mlx_linalg_lu(mlx_vector_array *res, const mlx_array a, const mlx_stream s);
/* *res_0 (..., m, n) has u and, below its diagonal, l; *res_1 (..., k) of uint32: for i from 0 on,
 * row i was exchanged with row res_1[i]. */
KEEL_API int mlx_linalg_lu_factor(mlx_array *res_0, mlx_array *res_1, const mlx_array a,
                                  const mlx_stream s);
/* a = q r: *res_0 (..., m, k) has orthonormal columns, *res_1 (..., k, n) is upper triangular. The
 * gradient needs the first k columns of a to be independent. */
KEEL_API int mlx_linalg_qr(mlx_array *res_0, mlx_array *res_1, const mlx_array a,
                           const mlx_stream s);
/* Three arrays: u (..., m, m), s (..., k), vt (..., n, n) with a = u diag(s) vt, the singular
 * values descending; without compute_uv one array, s. Of complex64, s is float32. Iterations that
 * do not converge fail, and so does an element that is NaN or infinite. The gradient of u and vt
 * needs singular values that differ, and is not for complex64. */
KEEL_API int mlx_linalg_svd(mlx_vector_array *res, const mlx_array a, bool compute_uv,
                            const mlx_stream s);

/* ---- eigenvalues of square matrices; they fail as svd ---- */
/* *res_0 (..., n) has the eigenvalues, *res_1 (..., n, n) in its columns eigenvectors of norm 1;
 * both are complex64. There is no gradient. */
KEEL_API int mlx_linalg_eig(mlx_array *res_0, mlx_array *res_1, const mlx_array a,
                            const mlx_stream s);
KEEL_API int mlx_linalg_eigvals(mlx_array *res, const mlx_array a, const mlx_stream s);
/* Of symmetric or Hermitian matrices, of which the lower (UPLO "L") or the upper ("U") triangle is
 * read: *res_0 (..., n) has the eigenvalues, real and ascending, *res_1 (..., n, n) in its columns
 * orthonormal eigenvectors. KEEL_EARG for another UPLO. The gradient is symmetric or Hermitian;
 * that of eigenvectors needs eigenvalues that differ. */
KEEL_API int mlx_linalg_eigh(mlx_array *res_0, mlx_array *res_1, const mlx_array a,
                             const char *UPLO, const mlx_stream s);
KEEL_API int mlx_linalg_eigvalsh(mlx_array *res, const mlx_array a, const char *UPLO,
                                 const mlx_stream s);

/* ---- vectors and norms: they take every float dtype, and run on every device but for singular
 * values ---- */
/* The vector product along an axis of 2 or 3 elements, where a missing third one is 0; the result
 * has 3. The other axes broadcast, and the dtype is the common one. KEEL_ESHAPE for another
 * length. */
KEEL_API int mlx_linalg_cross(mlx_array *res, const mlx_array a, const mlx_array b, int axis,
                              const mlx_stream s);
/* Norms over the named axes (NULL: all), which are removed, or with keepdims kept with size 1.
 * Results are real, and floats. Over one axis, of vectors: ord infinity and -infinity are the
 * largest and the smallest size of an element, 0 is the number of elements that are not 0, other
 * numbers p give sum(|a|^p)^(1/p). Over two axes, of matrices: 1 and -1 are the largest and the
 * smallest sum of sizes over the first of the axes, infinity and -infinity over the second, 2 and
 * -2 the largest and the smallest singular value. KEEL_EAXIS for more axes, KEEL_EARG for other
 * ord. */
KEEL_API int mlx_linalg_norm(mlx_array *res, const mlx_array a, double ord,
                             const int *axis /* may be null */, size_t axis_num, bool keepdims,
                             const mlx_stream s);
/* Over two axes: ord "fro" or "f", the root of the sum of squares, or "nuc", the sum of the
 * singular values. */
KEEL_API int mlx_linalg_norm_matrix(mlx_array *res, const mlx_array a, const char *ord,
                                    const int *axis /* may be null */, size_t axis_num,
                                    bool keepdims, const mlx_stream s);
/* The root of the sum of squares over any axes. */
KEEL_API int mlx_linalg_norm_l2(mlx_array *res, const mlx_array a,
                                const int *axis /* may be null */, size_t axis_num, bool keepdims,
                                const mlx_stream s);

#ifdef __cplusplus
}
#endif

#endif
