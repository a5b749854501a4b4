"""Linear algebra: factors, solutions, eigenvalues and norms of batches of matrices."""

from typing import Sequence

from keel.core import StreamOrDevice, array

def cholesky(a: array, upper: bool = False, *, stream: StreamOrDevice = None) -> array:
    """Cholesky factor of symmetric positive definite matrices: a = L @ L.T.

    a is (..., n, n) of float32 or float64; leading axes are a batch. With upper the result is U
    with a = U.T @ U. One triangle of a is read. A device that lacks it refuses it: give
    stream=mx.cpu there.

    Raises: ValueError when the last two axes differ, and for other dtypes.

    Example:
        >>> mx.linalg.cholesky(mx.array([[4.0, 2.0], [2.0, 5.0]]), stream=mx.cpu)
        array([[2, 0],
               [1, 2]], dtype=float32)
    """

def cholesky_inv(a: array, upper: bool = False, *, stream: StreamOrDevice = None) -> array:
    """Inverse of a matrix from its Cholesky factor: inv(L @ L.T).

    a is the factor (..., n, n), lower, or with upper the upper one. A device that lacks it
    refuses it: give stream=mx.cpu there.

    Raises: ValueError when the last two axes differ, and for other dtypes.

    Example:
        >>> mx.linalg.cholesky_inv(mx.array([[2.0, 0.0], [0.0, 4.0]]), stream=mx.cpu)
        array([[0.25, 0],
               [0, 0.0625]], dtype=float32)
    """

def cross(a: array, b: array, axis: int = -1, *, stream: StreamOrDevice = None) -> array:
    """Cross product of vectors with three components along an axis.

    Two components count as three with a third one of 0. The other axes broadcast; dtypes are
    promoted to a common one.

    Raises: ValueError for another number of components, shapes that do not broadcast, and an
        axis that an operand does not have.

    Example:
        >>> mx.linalg.cross(mx.array([1.0, 0.0, 0.0]), mx.array([0.0, 1.0, 0.0]))
        array([0, 0, 1], dtype=float32)
    """

def det(a: array, *, stream: StreamOrDevice = None) -> array:
    """Determinants of square matrices.

    a is (..., n, n) of a real dtype; leading axes are a batch. The result has the shape of the
    batch, and the floating dtype of a: float16 and bfloat16 are computed with in float32 and
    rounded once. A device that lacks it refuses it: give stream=mx.cpu there. The gradient is
    the matrix of cofactors, also of a singular matrix.

    Raises: ValueError when the last two axes differ, and for complex64.

    Example:
        >>> mx.linalg.det(mx.array([[2.0, 0.0], [0.0, 3.0]]), stream=mx.cpu)
        array(6, dtype=float32)
    """

def eig(a: array, *, stream: StreamOrDevice = None) -> tuple[array, array]:
    """Eigenvalues and eigenvectors of square matrices, in complex64.

    a is (..., n, n) of float32 or float64; leading axes are a batch. The eigenvalues are (...,
    n), in no particular order; column i of the second result is the eigenvector of eigenvalue
    i, of length 1. A device that lacks it refuses it: give stream=mx.cpu there.

    Raises: ValueError when the last two axes differ, and for other dtypes.

    Example:
        >>> values, vectors = mx.linalg.eig(mx.array([[2.0, 0.0], [0.0, 3.0]]), stream=mx.cpu)
        >>> values.shape, vectors.shape
        ((2,), (2, 2))
    """

def eigh(
    a: array, UPLO: str = "L", *, stream: StreamOrDevice = None
) -> tuple[array, array]:
    """Eigenvalues and eigenvectors of symmetric or Hermitian matrices.

    a is (..., n, n) of float32, float64 or complex64, of which the triangle UPLO ("L" or "U")
    is read. The eigenvalues are real and ascending; column i of the second result is the
    eigenvector of eigenvalue i, of length 1. A device that lacks it refuses it: give
    stream=mx.cpu there.

    Raises: ValueError when the last two axes differ, for another UPLO, and for other dtypes.

    Example:
        >>> values, vectors = mx.linalg.eigh(mx.array([[2.0, 1.0], [1.0, 2.0]]), stream=mx.cpu)
        >>> values
        array([1, 3], dtype=float32)
    """

def eigvals(a: array, *, stream: StreamOrDevice = None) -> array:
    """Eigenvalues of square matrices, in complex64.

    a is (..., n, n) of float32 or float64; leading axes are a batch. The result is (..., n), in
    no particular order. A device that lacks it refuses it: give stream=mx.cpu there.

    Raises: ValueError when the last two axes differ, and for other dtypes.

    Example:
        >>> mx.linalg.eigvals(mx.array([[2.0, 0.0], [0.0, 3.0]]), stream=mx.cpu).shape
        (2,)
    """

def eigvalsh(a: array, UPLO: str = "L", *, stream: StreamOrDevice = None) -> array:
    """Eigenvalues of symmetric or Hermitian matrices, in ascending order.

    a is (..., n, n) of float32, float64 or complex64, of which the triangle UPLO ("L" or "U")
    is read. A device that lacks it refuses it: give stream=mx.cpu there.

    Raises: ValueError when the last two axes differ, for another UPLO, and for other dtypes.

    Example:
        >>> mx.linalg.eigvalsh(mx.array([[2.0, 1.0], [1.0, 2.0]]), stream=mx.cpu)
        array([1, 3], dtype=float32)
    """

def inv(a: array, *, stream: StreamOrDevice = None) -> array:
    """Inverses of square matrices.

    a is (..., n, n) of float32 or float64; leading axes are a batch. A device that lacks it
    refuses it: give stream=mx.cpu there.

    Raises: ValueError when the last two axes differ, and for other dtypes; RuntimeError, when
        the result is read, for a singular matrix.

    Example:
        >>> mx.linalg.inv(mx.array([[2.0, 1.0], [1.0, 1.0]]), stream=mx.cpu)
        array([[1, -1],
               [-1, 2]], dtype=float32)
    """

def lu(a: array, *, stream: StreamOrDevice = None) -> tuple[array, array, array]:
    """LU factors of matrices: rows, L and U with a[rows] = L @ U.

    a is (..., m, n) of float32 or float64; leading axes are a batch. The first result has the
    order of the rows (uint32), L ones on its diagonal. A device that lacks it refuses it: give
    stream=mx.cpu there.

    Raises: ValueError for less than two axes and for other dtypes.

    Example:
        >>> rows, lower, upper = mx.linalg.lu(mx.array([[1.0, 2.0], [3.0, 4.0]]), stream=mx.cpu)
        >>> rows
        array([1, 0], dtype=uint32)
    """

def lu_factor(a: array, *, stream: StreamOrDevice = None) -> tuple[array, array]:
    """LU factors of matrices in one matrix, and the exchanges of rows.

    a is (..., m, n) of float32 or float64. The first result has U in its upper triangle and L,
    without its diagonal of ones, below; the second says with which row each row was exchanged.
    A device that lacks it refuses it: give stream=mx.cpu there.

    Raises: ValueError for less than two axes and for other dtypes.

    Example:
        >>> a = mx.array([[4.0, 2.0], [2.0, 5.0]])
        >>> factors, pivots = mx.linalg.lu_factor(a, stream=mx.cpu)
        >>> factors
        array([[4, 2],
               [0.5, 4]], dtype=float32)
    """

def norm(
    a: array,
    /,
    ord: int | float | str | None = None,
    axis: int | Sequence[int] | None = None,
    keepdims: bool = False,
    *,
    stream: StreamOrDevice = None,
) -> array:
    """Norm of vectors or matrices.

    ord is a number, "fro" (Frobenius), "nuc" (nuclear) or None: the square root of the sum of
    squares. axis is one axis for vectors, two for matrices; None takes all, as a vector, or as
    a matrix where ord is given and a has two axes. ord inf and -inf are the largest and
    smallest absolute values, or sums of rows of matrices; 1 and -1 those of columns, 2 and -2
    singular values. Integers give float32.

    Raises: ValueError for an ord that is not defined for vectors or matrices, and for axes that
        a does not have, that repeat, or that are more than two.

    Example:
        >>> mx.linalg.norm(mx.array([[1.0, 2.0], [3.0, 4.0]]), ord=1, axis=1)
        array([3, 7], dtype=float32)
    """

def pinv(a: array, *, stream: StreamOrDevice = None) -> array:
    """Pseudo-inverses of matrices (Moore and Penrose).

    a is (..., m, n) of float32 or float64; the result is (..., n, m). A device that lacks it
    refuses it: give stream=mx.cpu there.

    Raises: ValueError for less than two axes and for other dtypes.

    Example:
        >>> mx.linalg.pinv(mx.array([[2.0], [0.0]]), stream=mx.cpu).shape
        (1, 2)
    """

def qr(a: array, *, stream: StreamOrDevice = None) -> tuple[array, array]:
    """QR factors of matrices: a = Q @ R.

    a is (..., m, n) of float32 or float64; with k the smaller of m and n, Q is (..., m, k) with
    orthonormal columns and R (..., k, n) upper triangular. A device that lacks it refuses it:
    give stream=mx.cpu there.

    Raises: ValueError for less than two axes and for other dtypes.

    Example:
        >>> q, r = mx.linalg.qr(mx.array([[3.0, 1.0], [4.0, 2.0]]), stream=mx.cpu)
        >>> q.shape, r.shape
        ((2, 2), (2, 2))
    """

def slogdet(a: array, *, stream: StreamOrDevice = None) -> tuple[array, array]:
    """Signs of the determinants of square matrices, and logarithms of their absolute values.

    a is (..., n, n) of a real dtype; leading axes are a batch. Both results have the shape of
    the batch, and the floating dtype of a (as det); a singular matrix gives 0 and -inf. A device
    that lacks it refuses it: give stream=mx.cpu there.

    Raises: ValueError when the last two axes differ, and for complex64.

    Example:
        >>> mx.linalg.slogdet(mx.array([[1.0, 0.0], [0.0, -1.0]]), stream=mx.cpu)
        (array(-1, dtype=float32), array(0, dtype=float32))
    """

def solve(a: array, b: array, *, stream: StreamOrDevice = None) -> array:
    """Solutions x of a @ x = b.

    a is (..., n, n), b (..., n) or (..., n, k), of float32 or float64; the batches broadcast. A
    device that lacks it refuses it: give stream=mx.cpu there.

    Raises: ValueError for shapes that do not fit and for other dtypes.

    Example:
        >>> a = mx.array([[2.0, 0.0], [0.0, 4.0]])
        >>> mx.linalg.solve(a, mx.array([2.0, 4.0]), stream=mx.cpu)
        array([1, 1], dtype=float32)
    """

def solve_triangular(
    a: array, b: array, *, upper: bool = False, stream: StreamOrDevice = None
) -> array:
    """Solutions x of a @ x = b for triangular a.

    a is (..., n, n), of which the lower triangle is read, with upper the upper one; b is (...,
    n) or (..., n, k), of float32 or float64. A device that lacks it refuses it: give
    stream=mx.cpu there.

    Raises: ValueError for shapes that do not fit and for other dtypes.

    Example:
        >>> a = mx.array([[2.0, 0.0], [1.0, 1.0]])
        >>> mx.linalg.solve_triangular(a, mx.array([2.0, 3.0]), stream=mx.cpu)
        array([1, 2], dtype=float32)
    """

def svd(
    a: array, compute_uv: bool = True, *, stream: StreamOrDevice = None
) -> array | tuple[array, array, array]:
    """Singular value decomposition of matrices: a = U @ diag(S) @ Vt.

    a is (..., m, n) of float32 or float64. U is (..., m, m), S (..., min(m, n)) in descending
    order, Vt (..., n, n). With compute_uv False the result is S alone. A device that lacks it
    refuses it: give stream=mx.cpu there.

    Raises: ValueError for less than two axes and for other dtypes.

    Example:
        >>> mx.linalg.svd(mx.array([[3.0, 0.0], [0.0, 4.0]]), compute_uv=False, stream=mx.cpu)
        array([4, 3], dtype=float32)
    """

def tri_inv(a: array, upper: bool = False, *, stream: StreamOrDevice = None) -> array:
    """Inverses of triangular matrices.

    a is (..., n, n) of float32 or float64; leading axes are a batch. The lower triangle is
    read, with upper the upper one. A device that lacks it refuses it: give stream=mx.cpu there.

    Raises: ValueError when the last two axes differ, and for other dtypes.

    Example:
        >>> mx.linalg.tri_inv(mx.array([[2.0, 0.0], [1.0, 1.0]]), stream=mx.cpu)
        array([[0.5, 0],
               [-0.5, 1]], dtype=float32)
    """
