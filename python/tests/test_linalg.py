"""keel.core.linalg beside NumPy; factors by their product. Norms are in test_functions.py."""

import numpy as np
import pytest

import keel.core as mx

rng = np.random.default_rng(6)
a = (rng.normal(size=(2, 3, 4, 4)) + 3 * np.eye(4)).astype("float32")
s = (a @ np.swapaxes(a, -1, -2)).astype("float32")
wide = rng.normal(size=(2, 3, 5)).astype("float32")
tall = np.swapaxes(wide, -1, -2).copy()
A, S, WIDE, TALL = mx.array(a), mx.array(s), mx.array(wide), mx.array(tall)


def close(made, wanted, tolerance=2e-4):
    np.testing.assert_allclose(np.array(made), wanted, rtol=tolerance, atol=tolerance)


def test_inverses():
    close(mx.linalg.inv(A), np.linalg.inv(a))
    assert mx.linalg.inv(A).dtype == mx.float32
    for upper in (False, True):
        triangle = np.triu(a) if upper else np.tril(a)
        close(mx.linalg.tri_inv(A, upper), np.linalg.inv(triangle))
        factor = mx.linalg.cholesky(S, upper)
        close(mx.swapaxes(factor, -1, -2) @ factor if upper else factor @ mx.swapaxes(factor, -1, -2), s, 1e-3)
        close(mx.linalg.cholesky_inv(factor, upper), np.linalg.inv(s))
    for m, M in ((wide, WIDE), (tall, TALL)):
        close(mx.linalg.pinv(M), np.linalg.pinv(m))


def test_solutions():
    b = rng.normal(size=(4, 2)).astype("float32")
    close(mx.linalg.solve(A, mx.array(b)), np.linalg.solve(a, np.broadcast_to(b, (2, 3, 4, 2))))
    close(mx.linalg.solve(A[0, 0], mx.array(b[:, 0])), np.linalg.solve(a[0, 0], b[:, 0]))
    for upper in (False, True):
        triangle = np.triu(a) if upper else np.tril(a)
        close(mx.linalg.solve_triangular(A, mx.array(b), upper=upper), np.linalg.solve(triangle, np.broadcast_to(b, (2, 3, 4, 2))))


def test_determinants():
    close(mx.linalg.det(A), np.linalg.det(a), 1e-3)
    sign, logarithm = mx.linalg.slogdet(A)
    wanted = np.linalg.slogdet(a)
    close(sign, wanted[0]), close(logarithm, wanted[1])
    assert mx.linalg.slogdet(mx.zeros((2, 2)))[1].item() == -np.inf
    for dtype in (mx.float16, mx.bfloat16):
        assert mx.linalg.det(mx.array([[2.0, 1.0], [1.0, 1.5]], dtype)).item() == 2
        assert mx.linalg.slogdet(mx.eye(2, dtype=dtype))[0].dtype == dtype


@pytest.mark.parametrize("m", (a, wide, tall), ids=("square", "wide", "tall"))
def test_factors(m):
    M = mx.array(m)
    q, r = mx.linalg.qr(M)
    close(q @ r, m, 1e-5)
    close(mx.swapaxes(q, -1, -2) @ q, np.broadcast_to(np.eye(q.shape[-1]), q.shape[:-2] + (q.shape[-1],) * 2), 1e-5)
    rows, lower, upper = mx.linalg.lu(M)
    assert rows.dtype == mx.uint32
    close(lower @ upper, np.take_along_axis(m, np.array(rows)[..., None].astype(int), -2), 1e-5)
    packed, pivots = mx.linalg.lu_factor(M)
    close(mx.triu(packed)[..., : upper.shape[-2], :], np.array(upper), 1e-6)
    assert pivots.shape == m.shape[:-2] + (min(m.shape[-2:]),)
    u, values, vt = mx.linalg.svd(M)
    k = values.shape[-1]
    close((u[..., :k] * values[..., None, :]) @ vt[..., :k, :], m, 1e-5)
    close(mx.linalg.svd(M, compute_uv=False), np.linalg.svd(m, compute_uv=False), 1e-5)


def test_eigenvalues():
    for uplo in "LU":
        values, vectors = mx.linalg.eigh(S, uplo)
        close(values, np.linalg.eigvalsh(s), 1e-4)
        close(vectors * values[..., None, :] @ mx.swapaxes(vectors, -1, -2), s, 1e-3)
        close(mx.linalg.eigvalsh(S, uplo), np.linalg.eigvalsh(s), 1e-4)
    z = (s[0, 0] + 1j * (a[0, 0] - a[0, 0].T)).astype("complex64")
    values, vectors = mx.linalg.eigh(mx.array(z))
    close(values, np.linalg.eigvalsh(z), 1e-4)
    close(vectors * values @ mx.conjugate(vectors).T, z, 1e-3)
    values, vectors = mx.linalg.eig(A)
    assert values.dtype == vectors.dtype == mx.complex64
    close(A.astype(mx.complex64) @ vectors, np.array(vectors * values[..., None, :]), 1e-4)
    close(np.sort_complex(np.array(mx.linalg.eigvals(A[0, 0]))), np.sort_complex(np.linalg.eigvals(a[0, 0])), 1e-4)


def test_float64():
    d = mx.array(a.astype("float64"), mx.float64)
    close(mx.linalg.inv(d) @ d, np.broadcast_to(np.eye(4), a.shape), 1e-12)
    assert mx.linalg.inv(d).dtype == mx.float64


def test_integers_are_computed_in_float32():
    integers = mx.array([[2, 1], [1, 2]])
    close(mx.linalg.inv(integers), np.linalg.inv([[2, 1], [1, 2]]))
    assert mx.linalg.inv(integers).dtype == mx.float32


def test_bad_matrices():
    square = "cholesky cholesky_inv det eig eigh eigvals eigvalsh inv slogdet tri_inv".split()
    for name in square:
        with pytest.raises(ValueError):
            getattr(mx.linalg, name)(WIDE)
    for name in square + "lu lu_factor pinv qr svd".split():
        refused = mx.complex64 if name in ("det", "slogdet") else mx.float16  # those two take 16 bits
        for wrong in (mx.ones(3), mx.array(1.0), mx.ones((2, 2), refused)):
            with pytest.raises(ValueError):
                getattr(mx.linalg, name)(wrong)
    for call in (lambda: mx.linalg.solve(A, mx.ones(3)), lambda: mx.linalg.solve(WIDE, WIDE), lambda: mx.linalg.solve_triangular(A, mx.ones((3, 2))),
                 lambda: mx.linalg.eigh(S, "X"), lambda: mx.linalg.eigvalsh(S, "")):  # fmt: skip
        with pytest.raises(ValueError):
            call()


def test_a_singular_matrix_fails_its_result_and_nothing_else():
    batch = mx.stack([mx.eye(2), mx.ones((2, 2)), mx.zeros((2, 2))])
    for f in (mx.linalg.inv, mx.linalg.cholesky, lambda m: mx.linalg.solve(m, mx.ones((2, 1)))):
        failed, other = f(batch), batch + 1
        with pytest.raises(RuntimeError, match="matrix 1 of the batch"):
            mx.eval(failed)
        assert other.tolist()[0] == [[2, 1], [1, 2]]
    assert mx.linalg.lu_factor(batch)[0].shape == (3, 2, 2)
    for f in (mx.linalg.svd, mx.linalg.eigh, mx.linalg.eig, mx.linalg.pinv):
        with pytest.raises(RuntimeError, match="NaN or infinite"):
            mx.eval(f(batch * mx.array(float("nan"))))


def test_transforms():
    def loss(m):
        return mx.linalg.inv(m).sum()

    i = np.linalg.inv(a)
    ones = np.ones((4, 4), "float32")
    wanted = -np.swapaxes(i, -1, -2) @ ones @ np.swapaxes(i, -1, -2)
    close(mx.grad(loss)(A), wanted, 2e-3)
    close(mx.vmap(mx.linalg.inv)(A), i)
    close(mx.compile(lambda m: mx.linalg.cholesky(m) * 2, shapeless=True)(S), 2 * np.linalg.cholesky(s), 1e-3)
    close(mx.grad(lambda m: mx.linalg.slogdet(m)[1].sum())(A), np.swapaxes(i, -1, -2))
