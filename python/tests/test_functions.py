"""Functions against NumPy on small inputs: values, shapes, dtypes, arguments by name, errors."""

import fractions
import math
import re

import keel.core as mx
import numpy as np
import pytest
from keel import _core

rng = np.random.default_rng(0)
x = rng.normal(size=(3, 4)).astype("float32")
p = rng.uniform(0.1, 0.9, size=(3, 4)).astype("float32")
i = rng.integers(-5, 6, size=(3, 4)).astype("int32")
b = x > 0
X, P, I, B = map(mx.array, (x, p, i, b))


def check(got, wanted, tolerance=2e-5):
    if isinstance(wanted, (list, tuple)):
        assert len(got) == len(wanted)
        for g, w in zip(got, wanted):
            check(g, w, tolerance)
        return
    wanted = np.asarray(wanted)
    assert got.shape == wanted.shape
    np.testing.assert_allclose(np.array(got), wanted, rtol=tolerance, atol=tolerance)


# ---- one operand ----
@pytest.mark.parametrize("name, of, f", [
    *[(n, "P", getattr(np, n)) for n in "arccos arcsin arctan arctanh cos cosh exp expm1 log log10 log1p log2 sin sinh sqrt square tan tanh reciprocal degrees radians".split()],
    *[(n, "X", getattr(np, n)) for n in "abs arcsinh ceil floor negative sign isfinite isinf isnan isneginf isposinf conj real imag square logical_not positive trunc".split()],
    ("arccosh", "Y", np.arccosh), ("rsqrt", "P", lambda v: 1 / np.sqrt(v)), ("sigmoid", "X", lambda v: 1 / (1 + np.exp(-v))),
    ("erf", "X", np.vectorize(math.erf)), ("bitwise_invert", "I", np.invert), ("zeros_like", "X", np.zeros_like),
    ("ones_like", "I", np.ones_like), ("nan_to_num", "N", np.nan_to_num), ("contiguous", "X", np.array),
    ("stop_gradient", "X", np.array), ("abs", "I", np.abs), ("round", "X", np.round), ("sign", "I", np.sign),
])  # fmt: skip
def test_one_operand(name, of, f):
    values = {"X": x, "P": p, "I": i, "Y": p + 1, "N": np.array([np.nan, 1, np.inf], "float32")}[of]
    if name == "isfinite" or name.startswith("is"):
        values = np.array([1, np.nan, np.inf, -np.inf], "float32")
    got = getattr(mx, name)(mx.array(values))
    if name == "nan_to_num":
        assert got[:2].tolist() == [0, 1] and got[2].item() == np.finfo("float32").max
    else:
        check(got, f(values))
    if hasattr(mx.array, name) and callable(getattr(mx.array, name)):
        assert getattr(mx.array(values), name)().shape == got.shape


def test_sinc_and_cbrt():
    check(mx.sinc(P), np.sinc(p))
    check(mx.cbrt(P - 1), np.cbrt(p - 1))
    assert mx.sinc(mx.array([0.0, 1, -3])).tolist() == [1, 0, 0]
    assert mx.grad(lambda a: mx.cbrt(a))(mx.array(8.0)).item() == pytest.approx(1 / 12)
    for f in (mx.sinc, mx.cbrt):
        with pytest.raises(ValueError):
            f(mx.array([1j]))


def test_silu_mul():
    wanted = x / (1 + np.exp(-x.astype("float64"))) * x[0:1]
    check(mx.silu_mul(X, X[0:1]), wanted.astype("float32"))
    assert mx.silu_mul(mx.array([-200.0, -math.inf]), 2).tolist() == [0, 0]
    assert mx.silu_mul(I, I).dtype == mx.float32
    slopes = mx.grad(lambda a: mx.silu_mul(a, 3.0).sum())(mx.array([-math.inf, 0.0, math.inf]))
    assert slopes.tolist() == [0, 1.5, 3]
    with pytest.raises(ValueError, match="complex64"):
        mx.silu_mul(X, mx.array(1j))


def test_erfinv_and_nan_to_num():
    check(mx.erf(mx.erfinv(P)), p)
    assert mx.nan_to_num(mx.array([math.nan, math.inf, -math.inf]), 1.0, 2.0, -3.0).tolist() == [1, 2, -3]


# ---- two operands ----
@pytest.mark.parametrize("name, f", [
    *[(n, getattr(np, n)) for n in "add subtract multiply divide maximum minimum power floor_divide remainder arctan2 logaddexp equal not_equal less less_equal greater greater_equal logical_and logical_or logical_xor isclose array_equal allclose inner outer kron".split()],
    ("divmod", np.divmod),
])  # fmt: skip
def test_two_operands(name, f):
    g = getattr(mx, name)
    check(g(P, P[0:1] if name not in ("inner",) else P), f(p, p[0:1] if name not in ("inner",) else p))
    if name in ("add", "multiply", "maximum", "divide", "less", "floor_divide"):
        check(g(X, 2), f(x, 2))
        check(g(2.5, X), f(np.float32(2.5), x))
        check(g(I, mx.array([[3]])), f(i, np.array([[3]], "int32")))


def test_bits():
    j = np.abs(i)
    for name, f in (("bitwise_and", np.bitwise_and), ("bitwise_or", np.bitwise_or), ("bitwise_xor", np.bitwise_xor)):
        check(getattr(mx, name)(I, mx.array(j)), f(i, j))
    check(mx.left_shift(I, 2), i << 2), check(mx.right_shift(I, 1), i >> 1)


def test_dtypes_of_results():
    for f, of, result in ((mx.divide, mx.int32, mx.float32), (mx.exp, mx.int8, mx.float32), (mx.exp, mx.float16, mx.float16),
                          (mx.sum, mx.int8, mx.int32), (mx.sum, mx.bool_, mx.int32), (mx.mean, mx.int32, mx.float32),
                          (mx.prod, mx.uint8, mx.uint32), (mx.cumsum, mx.int8, mx.int8), (mx.argmax, mx.float32, mx.uint32),
                          (mx.max, mx.int8, mx.int8), (mx.any, mx.float32, mx.bool_), (mx.argsort, mx.float32, mx.uint32)):  # fmt: skip
        a = mx.ones((2, 2), of)
        assert (f(a, a) if f is mx.divide else f(a)).dtype == result, (f, of)


# ---- reductions and scans ----
@pytest.mark.parametrize("name", "sum prod max min mean var std all any argmax argmin median".split())
@pytest.mark.parametrize("axis", [None, 0, 1, -1])
@pytest.mark.parametrize("keepdims", [False, True])
def test_reductions(name, axis, keepdims):
    f, g = getattr(np, name), getattr(mx, name)
    values = b if name in ("all", "any") else x
    wanted = f(values, axis=axis, keepdims=keepdims)
    check(g(mx.array(values), axis, keepdims), wanted)
    check(g(mx.array(values), axis=axis, keepdims=keepdims), wanted)
    if name != "median":
        check(getattr(mx.array(values), name)(axis, keepdims), wanted)
    if axis is not None and not name.startswith("arg"):
        check(g(mx.array(values), (axis,), keepdims=keepdims), wanted)
        check(g(mx.array(values), axis=[0, 1]), f(values, axis=(0, 1)))


def test_more_reductions():
    check(mx.logsumexp(X, 1), np.log(np.exp(x).sum(1)))
    check(mx.var(X, 0, ddof=1), x.var(0, ddof=1)), check(mx.std(X, 1, ddof=1), x.std(1, ddof=1))
    check(mx.count_nonzero(I, axis=0), np.count_nonzero(i, 0)), check(mx.count_nonzero(I, axis=1, keepdims=True), np.count_nonzero(i, 1, keepdims=True))
    check(mx.minmax(X, 1), (x.min(1), x.max(1))), check(mx.trace(X), np.trace(x))
    check(mx.sum(X, axis=()), x), check(mx.softmax(X, -1), np.exp(x) / np.exp(x).sum(-1, keepdims=True))
    check(mx.softmax(X, (0, 1), precise=True), np.exp(x) / np.exp(x).sum())


@pytest.mark.parametrize("call", [
    lambda: mx.sum(X, 2), lambda: mx.sum(X, (0, 0)), lambda: mx.max(mx.zeros((0,))), lambda: mx.argmax(X, -3),
    lambda: mx.cumsum(X, 5), lambda: mx.sort(X, 2), lambda: mx.softmax(X, 3), lambda: mx.squeeze(X, 0),
])  # fmt: skip
def test_wrong_axes(call):
    with pytest.raises(ValueError):
        mx.eval(call())


def test_scans():
    for name, f in (("cumsum", np.cumsum), ("cumprod", np.cumprod), ("cummax", np.maximum.accumulate), ("cummin", np.minimum.accumulate)):
        check(getattr(mx, name)(X, 1), f(x, axis=1))
        check(getattr(mx, name)(X, axis=0, reverse=True), f(x[::-1], axis=0)[::-1])
    check(mx.cumsum(X), np.cumsum(x)), check(mx.cumsum(I, 1, inclusive=False), np.cumsum(i, 1) - i)
    check(mx.logcumsumexp(X, 0), np.log(np.cumsum(np.exp(x), 0))), check(mx.cumulative_sum(X, axis=0), np.cumsum(x, 0))
    check(mx.diff(X), np.diff(x)), check(mx.diff(I, 2, 0), np.diff(i, 2, 0))


def test_sorting():
    check(mx.sort(X), np.sort(x)), check(mx.sort(X, None), np.sort(x, None)), check(mx.argsort(X, 0), np.argsort(x, 0))
    check(mx.sort(mx.partition(X, 2)[:, :2]), np.sort(x)[:, :2]), check(mx.sort(mx.topk(X, 2)), np.sort(x)[:, 2:])
    check(mx.take_along_axis(X, mx.argpartition(X, 1, 1), 1)[:, 1], np.sort(x)[:, 1])
    s = np.array([1, 3, 3, 5])
    for side in ("left", "right"):
        check(mx.searchsorted(mx.array(s), mx.array([0, 3, 4, 9]), side), np.searchsorted(s, [0, 3, 4, 9], side))
    check(mx.unique(mx.array([3, 1, 3, 2]), 3), [1, 2, 3])
    values, index, inverse, counts = mx.unique(mx.array([3, 1, 3, 2]), 4, True, True, True, fill_value=9)
    assert values.tolist() == [1, 2, 3, 9] and counts.tolist() == [1, 1, 2, 0] and inverse.tolist() == [2, 0, 2, 1]
    assert index.tolist()[:3] == [1, 3, 0]
    for call in (lambda: mx.searchsorted(X, X), lambda: mx.searchsorted(mx.array(s), X, "up"), lambda: mx.unique(X, -1),
                 lambda: mx.topk(X, 9), lambda: mx.diff(X, -1), lambda: mx.diff(X, axis=4)):  # fmt: skip
        with pytest.raises(ValueError):
            mx.eval(call())


# ---- shapes ----
@pytest.mark.parametrize("f, wanted", [
    (lambda m, a: m.reshape(a, (4, 3)), None), (lambda m, a: m.reshape(a, (-1,)), None), (lambda m, a: m.transpose(a), None),
    (lambda m, a: m.moveaxis(a, 0, 1), None), (lambda m, a: m.swapaxes(a, 0, 1), None), (lambda m, a: m.expand_dims(a, (0, 2)), None),
    (lambda m, a: m.squeeze(m.expand_dims(a, 0)), None), (lambda m, a: m.broadcast_to(a, (2, 3, 4)), None),
    (lambda m, a: m.tile(a, (2, 1)), None), (lambda m, a: m.repeat(a, 2, 1), None), (lambda m, a: m.repeat(a, 2), None),
    (lambda m, a: m.roll(a, 1, 0), None), (lambda m, a: m.roll(a, -2), None), (lambda m, a: m.pad(a, ((1, 0), (0, 2))), None),
    (lambda m, a: m.pad(a, 1, mode="edge"), None), (lambda m, a: m.pad(a, 1, "constant", constant_values=3), None),
    (lambda m, a: m.diag(a), None), (lambda m, a: m.diagonal(a, 1), None), (lambda m, a: m.tril(a), None),
    (lambda m, a: m.triu(a, k=1), None), (lambda m, a: m.concatenate([a, a], axis=1), None), (lambda m, a: m.stack([a, a], 2), None),
    (lambda m, a: m.split(a, 2, axis=1), None), (lambda m, a: m.split(a, [1, 2]), None), (lambda m, a: m.flip(a, 0), None),
    (lambda m, a: m.meshgrid(a[0], a[1]), None), (lambda m, a: m.meshgrid(a[0], a[1], indexing="ij", sparse=True), None),
    (lambda m, a: m.atleast_3d(a), None), (lambda m, a: m.atleast_1d(a[0, 0]), None), (lambda m, a: m.broadcast_arrays(a, a[0]), None),
    (lambda m, a: m.take(a, m.array([1, 0]), axis=1), None), (lambda m, a: m.take(a, m.array([5, 0])), None),
    (lambda m, a: m.where(a > 0, a, 0), None), (lambda m, a: m.clip(a, -0.5, 0.5), None), (lambda m, a: m.clip(a, None, 0), None),
    (lambda m, a: m.permute_dims(a, (1, 0)), None),
])  # fmt: skip
def test_shapes_against_numpy(f, wanted):
    check(f(mx, X), f(np, x))


def test_more_shapes():
    check(mx.flatten(mx.ones((2, 3, 4)), 1, -1), np.ones((2, 12))), check(mx.unflatten(X, 1, (2, -1)), x.reshape(3, 2, 2))
    check(mx.as_strided(X, (2, 2), (4, 1), 1), np.array([[x[0, 1], x[0, 2]], [x[1, 1], x[1, 2]]]))
    check(mx.view(X, mx.int32), x.view("int32")), check(mx.astype(X, mx.int32), x.astype("int32"))
    check(mx.put_along_axis(X, mx.array([[1], [0], [3]]), mx.array(9.0), 1)[:, :2][0], [x[0, 0], 9])
    check(mx.slice(X, mx.array([1, 1]), (0, 1), (2, 2)), x[1:3, 1:3])
    check(mx.slice_update(X, mx.zeros((1, 4)), mx.array(1), (0,)), np.vstack([x[:1], np.zeros((1, 4)), x[2:]]))
    check(mx.unstack(X, axis=1), [x[:, k] for k in range(4)]), check(mx.matrix_transpose(X), x.T)
    assert mx.broadcast_shapes((2, 1), (3,), ()) == (2, 3)
    with pytest.raises(ValueError):
        mx.broadcast_shapes((2,), (3,))


@pytest.mark.parametrize("call", [
    lambda: mx.reshape(X, (5,)), lambda: mx.reshape(X, (-1, -1)), lambda: mx.transpose(X, (0, 0)), lambda: mx.concatenate([X, I[:2]], 1),
    lambda: mx.stack([X, X[0]]), lambda: mx.split(X, 5, 1), lambda: mx.broadcast_to(X, (5, 4)), lambda: mx.pad(X, [(1, 1)] * 3),
    lambda: mx.as_strided(X, (99,), (1,)), lambda: mx.tile(X, (-1,)), lambda: mx.meshgrid(X[0], indexing="x"), lambda: mx.pad(X, 1, "none"),
    lambda: mx.expand_dims(X, (0, 0)), lambda: mx.moveaxis(X, 0, 5), lambda: mx.concatenate([]), lambda: mx.take(X, mx.array([0.5])),
])  # fmt: skip
def test_wrong_shapes(call):
    with pytest.raises(ValueError):
        mx.eval(call())


# ---- making ----
@pytest.mark.parametrize("got, wanted", [
    (lambda: mx.arange(5), np.arange(5)), (lambda: mx.arange(1, 9, 2), np.arange(1, 9, 2)), (lambda: mx.arange(2.5), np.arange(2.5)),
    (lambda: mx.arange(stop=3, step=2), [0, 2]), (lambda: mx.arange(5, None), np.arange(5)), (lambda: mx.arange(0, 1, 0.25), np.arange(0, 1, 0.25)),
    (lambda: mx.arange(5, 0, -2), [5, 3, 1]), (lambda: mx.linspace(0, 1, 5), np.linspace(0, 1, 5)), (lambda: mx.linspace(0, 9, num=4, dtype=mx.int32), [0, 3, 6, 9]),
    (lambda: mx.linspace(0, 1, 4, endpoint=False), [0, 0.25, 0.5, 0.75]), (lambda: mx.full((2,), 3), [3, 3]), (lambda: mx.full(2, 1.5), [1.5, 1.5]),
    (lambda: mx.full((2, 2), mx.array([1, 2])), [[1, 2], [1, 2]]), (lambda: mx.full_like(X, 2), np.full((3, 4), 2)), (lambda: mx.eye(3, 4, 1), np.eye(3, 4, 1)),
    (lambda: mx.identity(2), np.eye(2)), (lambda: mx.tri(3, k=-1), np.tri(3, k=-1)), (lambda: mx.zeros(3), np.zeros(3)), (lambda: mx.ones((2, 0)), np.ones((2, 0))),
    (lambda: mx.hanning(5), np.hanning(5)), (lambda: mx.hamming(5), np.hamming(5)), (lambda: mx.blackman(5), np.blackman(5)), (lambda: mx.bartlett(5), np.bartlett(5)),
])  # fmt: skip
def test_making(got, wanted):
    check(got(), wanted)


def test_dtypes_of_making():
    assert mx.arange(3).dtype == mx.int32 and mx.arange(3.0).dtype == mx.float32 and mx.arange(3, dtype=mx.int8).dtype == mx.int8
    assert mx.zeros(2).dtype == mx.float32 and mx.ones(2, mx.int16).dtype == mx.int16 and mx.full(2, True).dtype == mx.bool_
    assert mx.full(2, 1, mx.float16).dtype == mx.float16 and mx.full(2, mx.array(1), dtype=mx.float32).dtype == mx.float32
    assert mx.zeros_like(I).dtype == mx.int32 and mx.eye(2, dtype=mx.int8).dtype == mx.int8 and mx.zeros(2, None).dtype == mx.float32
    for call in (lambda: mx.zeros(-1), lambda: mx.linspace(0, 1, -1), lambda: mx.arange(0, 5, 0), lambda: mx.eye(-1)):
        with pytest.raises(ValueError):
            call()
    for call in (lambda: mx.zeros(2.5), lambda: mx.zeros("a"), lambda: mx.ones(2, "float32"), lambda: mx.zeros()):
        with pytest.raises(TypeError):
            call()


@pytest.mark.parametrize("x, y, dtype", [
    (1, 2, "int32"), (1, 2.5, "float32"), (True, 1, "int32"), (True, 2.5, "float32"), (1, 2j, "complex64"), (True, False, "bool_"),
    (mx.array(1, dtype=mx.int8), 2, "int8"), (2, mx.array(1, dtype=mx.float16), "float16"), (mx.array(1), mx.array(1, dtype=mx.float16), "float16"),
    (mx.array(1, dtype=mx.uint8), mx.array(1, dtype=mx.int8), "int16"), (mx.array(1, dtype=mx.float16), mx.array(1, dtype=mx.bfloat16), "float32"),
])  # fmt: skip
def test_promotion(x, y, dtype):
    for f in (mx.add, mx.maximum, lambda p, q: mx.where(mx.array(True), p, q)):
        assert f(x, y).dtype == getattr(mx, dtype)


# ---- products ----
def test_products():
    y = x.T.copy()
    Y = mx.array(y)
    check(mx.matmul(X, Y), x @ y), check(X @ Y[:, 0], x @ y[:, 0]), check(mx.addmm(mx.ones((3, 3)), X, Y, 2.0, 0.5), 0.5 + 2 * (x @ y))
    check(mx.einsum("ij,jk->ik", X, Y), x @ y), check(mx.einsum("ij->ji", X), x.T), check(mx.tensordot(X, Y, 1), x @ y)
    check(mx.tensordot(X, X, [[0], [0]]), x.T @ x), check(mx.vecdot(X, X), (x * x).sum(-1)), check(mx.vecdot(X, X, axis=0), (x * x).sum(0)), check(mx.vecdot(X, X, 0), (x * x).sum(0))
    check(mx.convolve(X[0], X[1]), np.convolve(x[0], x[1])), check(mx.convolve(X[0], X[1][:3], mode="same"), np.convolve(x[0], x[1][:3], "same"))
    check(mx.gather_mm(X[None], Y[None], mx.array([0, 0]), mx.array([0, 0])), np.stack([x @ y] * 2))
    check(mx.block_masked_mm(mx.ones((32, 32)), mx.ones((32, 32)), 32, mx.array([[False]])), np.zeros((32, 32)))
    check(mx.segmented_mm(X, Y, mx.array([[0, 2], [2, 4]])), np.stack([x[:, :2] @ y[:2], x[:, 2:] @ y[2:]]))
    h = np.array([[1, 1, 1, 1], [1, -1, 1, -1], [1, 1, -1, -1], [1, -1, -1, 1]])
    check(mx.hadamard_transform(X), x @ h / 2), check(mx.hadamard_transform(X, scale=1.0), x @ h)
    path, text = mx.einsum_path("ij,jk,kl->il", X, Y, X)
    assert len(path) == 2 and isinstance(text, str)
    for call in (lambda: X @ X, lambda: X @ mx.array(1.0), lambda: mx.einsum("ij,jk->ik", X, X), lambda: mx.tensordot(X, X, 1),
                 lambda: mx.convolve(X, X), lambda: mx.convolve(X[0], X[0], "x"), lambda: mx.vecdot(X, I[:2]), lambda: mx.vecdot(X, mx.array(1)), lambda: mx.vecdot(mx.array(1), X[0]), lambda: mx.vecdot(X[0], X[0], 1), lambda: mx.vecdot(X, X[:, :1])):  # fmt: skip
        with pytest.raises(ValueError):
            mx.eval(call())


def test_norms_and_cross():
    for order, axis in ((None, None), (1, None), (-1, None), (np.inf, None), (-np.inf, None), ("fro", None), (2, 0), (0, 1), (3, -1), (1, 0),
                        (np.inf, 1), (None, 1), (1, (1, 0)), ("fro", (0, 1))):  # fmt: skip
        check(mx.linalg.norm(X, order, axis), np.linalg.norm(x, order, axis))
        check(mx.linalg.norm(X, order, axis, keepdims=True), np.linalg.norm(x, order, axis, keepdims=True))
    assert mx.linalg.norm(I).dtype == mx.float32 and mx.linalg.norm(mx.array([3 + 4j])).item() == 5
    check(mx.linalg.cross(X[:, :3], X[0, :3]), np.cross(x[:, :3], x[0, :3])), check(mx.linalg.cross(X.T[:, :3].T, X[:, :1], 0), np.cross(x[:, :4], x[:, :1], axis=0))
    assert mx.linalg.cross(mx.array([1, 2]), mx.array([3, 4])).tolist() == [0, 0, -2]
    for call in (lambda: mx.linalg.norm(X, "x"), lambda: mx.linalg.norm(X, "fro", 0), lambda: mx.linalg.norm(X, 3), lambda: mx.linalg.norm(mx.ones((2, 2, 2)), 1),
                 lambda: mx.linalg.norm(X, 1, (0, 0)), lambda: mx.linalg.norm(X, 1, (0, 5)), lambda: mx.linalg.cross(X, X), lambda: mx.linalg.cross(X, X, 4)):  # fmt: skip
        with pytest.raises(ValueError):
            call()
    for order in ("nuc", 2, -2):
        check(mx.linalg.norm(X, order, (0, 1)), np.linalg.norm(x, order, (0, 1)))
        check(mx.linalg.norm(X, order, (1, 0), keepdims=True), np.linalg.norm(x, order, (1, 0), keepdims=True))


def test_convolutions():
    a, k = rng.normal(size=(1, 6, 2)).astype("float32"), rng.normal(size=(3, 2, 2)).astype("float32")
    wanted = np.stack([[(a[0, t : t + 2] * k[o]).sum() for o in range(3)] for t in range(5)])[None]
    check(mx.conv1d(mx.array(a), mx.array(k)), wanted), check(mx.conv1d(mx.array(a), mx.array(k), stride=2), wanted[:, ::2])
    check(mx.conv_general(mx.array(a), mx.array(k), padding=([0], [0])), wanted)
    check(mx.conv2d(mx.array(a)[:, :, None], mx.array(k)[:, :, None]), wanted[:, :, None])
    check(mx.conv2d(mx.array(a)[:, :, None], mx.array(k)[:, :, None], stride=(2, 1), padding=[0, 0]), wanted[:, ::2, None])
    assert mx.conv_transpose1d(mx.array(a), mx.ones((3, 2, 2)), stride=2, output_padding=1).shape == (1, 13, 3)
    assert mx.conv3d(mx.ones((1, 3, 3, 3, 1)), mx.ones((1, 2, 2, 2, 1)), padding=1).shape == (1, 4, 4, 4, 1)
    for call in (lambda: mx.conv1d(mx.array(a), mx.ones((3, 2, 3))), lambda: mx.conv2d(mx.array(a), mx.array(k)), lambda: mx.conv2d(mx.ones((1, 4, 4, 2)), mx.ones((1, 2, 2, 2)), (1, 1, 1))):
        with pytest.raises(ValueError):
            call()


@pytest.mark.parametrize("bits, group_size", [(4, 64), (8, 32), (2, 32), (6, 64)])
def test_quantized(bits, group_size):
    w = rng.normal(size=(8, 64)).astype("float32")
    made = mx.quantize(mx.array(w), group_size=group_size, bits=bits)
    assert isinstance(made, list) and len(made) == 3
    back = mx.dequantize(*made, group_size=group_size, bits=bits)
    assert np.abs(np.array(back) - w).max() < 8 / 2**bits
    v = rng.normal(size=(3, 64)).astype("float32")
    check(mx.quantized_matmul(mx.array(v), *made, group_size=group_size, bits=bits), v @ np.array(back).T, 1e-4)
    gathered = mx.gather_qmm(mx.array(v)[None], *[m[None] for m in made], mx.array([0, 0]), mx.array([0, 0]), group_size=group_size, bits=bits)
    check(gathered, np.stack([v @ np.array(back).T] * 2), 1e-4)


def test_quantized_activations():
    w, v = mx.array(rng.normal(size=(2, 8, 64)).astype("float32")), mx.array(rng.normal(size=(2, 3, 64)).astype("float32"))
    rounded = [mx.dequantize(*mx.quantize(y, mode="mxfp8"), mode="mxfp8", dtype=mx.float32) for y in (v, w)]
    wanted = np.array(rounded[0])[[1, 0]] @ np.array(rounded[1])[[0, 0]].transpose(0, 2, 1)
    index = mx.array([1, 0]), mx.array([0, 0])
    check(mx.gather_qqmm(v, w, None, *index, mode="mxfp8"), wanted, 1e-4)
    check(mx.gather_qqmm(v, *mx.quantize(w, mode="mxfp8"), *index, mode="mxfp8"), wanted, 1e-4)
    check(mx.qqmm(v[0], w[0], mode="mxfp8"), np.array(rounded[0])[0] @ np.array(rounded[1])[0].T, 1e-4)
    assert mx.gather_qqmm(v, w, None, *index, global_scale_x=mx.array(1.0), global_scale_w=mx.array(1.0)).shape == (2, 3, 8)
    for arguments in ({"mode": "affine"}, {"global_scale_x": mx.array(1.0)}):
        with pytest.raises(ValueError):
            mx.gather_qqmm(v, w, None, *index, **arguments)


# ---- fast ----
def test_fast_norms():
    w = p[0]
    check(mx.fast.rms_norm(X, mx.array(w), 1e-5), x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * w)
    normal = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
    check(mx.fast.layer_norm(X, mx.array(w), mx.array(w), 1e-5), normal * w + w), check(mx.fast.layer_norm(X, None, None, eps=1e-5), normal)
    with pytest.raises(ValueError):
        mx.fast.rms_norm(X, mx.ones((3,)), 1e-5)


def test_fast_rope():
    a = rng.normal(size=(1, 2, 4)).astype("float32")
    angle = (np.arange(2)[:, None] + 3) * 100.0 ** (-np.arange(2) / 2)
    c, s = np.cos(angle), np.sin(angle)
    half = np.concatenate([a[..., :2] * c - a[..., 2:] * s, a[..., :2] * s + a[..., 2:] * c], -1)
    for offset in (3, mx.array(3), mx.array([3])):
        check(mx.fast.rope(mx.array(a), 4, traditional=False, base=100.0, scale=1.0, offset=offset), half)
    with pytest.raises(TypeError):
        mx.fast.rope(mx.array(a), 4)
    with pytest.raises(ValueError):
        mx.fast.rope(mx.array(a), 3, traditional=False, base=1.0, scale=1.0, offset=0)


def attention(q, k, v, mask):
    scores = q @ k.transpose(0, 1, 3, 2) * 0.5 + mask
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ v


def test_fast_attention():
    q, k, v = (rng.normal(size=(1, 2, 3, 4)).astype("float32") for _ in range(3))
    Q, K, V = map(mx.array, (q, k, v))
    causal = np.where(np.tri(3, dtype=bool), 0, -np.inf)
    check(mx.fast.scaled_dot_product_attention(Q, K, V, scale=0.5), attention(q, k, v, 0))
    for mask in ("causal", mx.array(np.tri(3, dtype=bool)), mx.array(causal.astype("float32"))):
        check(mx.fast.scaled_dot_product_attention(Q, K, V, scale=0.5, mask=mask), attention(q, k, v, causal))
    for arguments in ({"mask": "x"}, {"mask": mx.ones((2, 2))}):
        with pytest.raises(ValueError):
            mx.fast.scaled_dot_product_attention(Q, K, V, scale=0.5, **arguments)


def test_fast_cross_entropy():
    wanted = np.log(np.exp(x).sum(-1)) - x[np.arange(3), [0, 1, 3]]
    check(mx.fast.cross_entropy(X, mx.array([0, 1, 3])), wanted)
    loss = mx.fast.cross_entropy(X.astype(mx.bfloat16), mx.array([0, 1, 3], dtype=mx.uint8))
    assert loss.dtype == mx.float32 and np.abs(np.array(loss) - wanted).max() < 0.05
    grad = mx.grad(lambda y: mx.fast.cross_entropy(y, mx.array([0, 1, 3])).sum())(X)
    check(grad, np.exp(x) / np.exp(x).sum(-1, keepdims=True) - np.eye(4)[[0, 1, 3]])
    for arguments in ((X, mx.array([0, 1])), (X, mx.array([0.0, 1, 2])), (I, mx.array([0, 1, 2])), (mx.array(1.0), mx.array(0))):
        with pytest.raises(ValueError):
            mx.fast.cross_entropy(*arguments)
    with pytest.raises(IndexError):
        mx.eval(mx.fast.cross_entropy(X, mx.array([0, 1, 4])))
    with pytest.raises(TypeError):
        mx.fast.cross_entropy("x", mx.array(0))


def delta_rule(q, k, v, gamma, beta, state, mask):
    """Yang et al., 2024, step by step in float64."""
    heads = v.shape[2]
    q, k = (np.repeat(y, heads // y.shape[2], 2) for y in (q, k))
    out = np.zeros(v.shape)
    for t in range(q.shape[1]):
        decay = gamma[:, t, :, None, None] if gamma.ndim == 3 else gamma[:, t, :, None, :]
        new = state * decay
        error = (v[:, t] - np.einsum("bhvk,bhk->bhv", new, k[:, t])) * beta[:, t, :, None]
        new = new + error[..., None] * k[:, t, :, None, :]
        seen = mask[:, t][:, None, None]
        out[:, t] = np.where(seen, np.einsum("bhvk,bhk->bhv", new, q[:, t]), 0)
        state = np.where(seen[..., None], new, state)
    return out, state


@pytest.mark.parametrize("vector_decay", [False, True])
@pytest.mark.parametrize("masked", [False, True])
def test_gated_delta_update(vector_decay, masked):
    shape = (2, 4, 2, 8)
    q, k = rng.normal(size=shape), rng.normal(size=shape) * 0.3
    v, state = rng.normal(size=(2, 4, 4, 5)), rng.normal(size=(2, 4, 5, 8))
    gamma = rng.uniform(0.5, 1, size=(2, 4, 4, 8) if vector_decay else (2, 4, 4))
    beta = rng.uniform(size=(2, 4, 4))
    mask = rng.random((2, 4)) > 0.4 if masked else np.ones((2, 4), bool)
    arguments = [mx.array(y.astype("float32")) for y in (q, k, v, gamma, beta)]
    made = mx.fast.gated_delta_update(*arguments, mx.array(state.astype("float32")), mx.array(mask) if masked else None)
    assert isinstance(made, list)
    check(made, delta_rule(q, k, v, gamma, beta, state, mask), 1e-4)
    check(mx.fast.gated_delta_update(*arguments)[0], delta_rule(q, k, v, gamma, beta, 0 * state, np.ones((2, 4), bool))[0], 1e-4)
    half = mx.fast.gated_delta_update(*[y.astype(mx.bfloat16) for y in arguments])
    assert half[0].dtype == mx.bfloat16 and half[1].dtype == mx.float32
    for place, wrong in ((0, arguments[0][:1]), (2, arguments[2][:, :, :3]), (3, arguments[3][:, :2]), (4, arguments[4][:, :, :1]), (0, arguments[0].astype(mx.int32))):
        with pytest.raises(ValueError):
            mx.fast.gated_delta_update(*[wrong if n == place else y for n, y in enumerate(arguments)])
    for options in ({"initial_state": mx.ones((3,))}, {"mask": mx.ones((2, 3))}):
        with pytest.raises(ValueError):
            mx.fast.gated_delta_update(*arguments, **options)


def test_kernels_of_the_caller():
    call = {"inputs": [X], "output_shapes": [(2,)], "output_dtypes": [mx.float32], "grid": (2, 1, 1), "threadgroup": (2, 1, 1)}
    kernel = mx.fast.metal_kernel(name="k", input_names=["x"], output_names=["y"], source="y[0] = x[0];", header="", ensure_row_contiguous=False)
    with pytest.raises(RuntimeError, match="Metal"):
        kernel(**call)
    with pytest.raises(TypeError):
        mx.fast.metal_kernel(3, [], [], "")
    kernel = mx.fast.cuda_kernel("k", ["x"], ["y"], "y[elem] = x[elem];", shared_memory=16)
    if not mx.cuda.is_available():
        with pytest.raises(RuntimeError, match="CUDA"):
            kernel(**call)
    for arguments in (("k k", ["x"], ["y"], ""), ("k", ["1"], ["y"], "")):
        with pytest.raises(ValueError):
            mx.fast.cuda_kernel(*arguments)
    with pytest.raises(TypeError):
        mx.fast.cuda_kernel("k", [3], ["y"], "")


SCALED = b"""
.version 7.0
.target sm_75
.address_size 64
.visible .entry scaled(.param .u64 x, .param .u64 y, .param .u32 n, .param .f32 by, .param .u8 negate) {
    .reg .pred %p<3>;
    .reg .b16 %h<2>;
    .reg .b32 %r<6>;
    .reg .f32 %f<4>;
    .reg .b64 %d<8>;
    ld.param.u64 %d1, [x];
    ld.param.u64 %d2, [y];
    ld.param.u32 %r1, [n];
    ld.param.f32 %f1, [by];
    ld.param.u8 %h1, [negate];
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %ntid.x;
    mov.u32 %r4, %tid.x;
    mad.lo.u32 %r5, %r2, %r3, %r4;
    setp.ge.u32 %p1, %r5, %r1;
    @%p1 ret;
    cvta.to.global.u64 %d3, %d1;
    cvta.to.global.u64 %d4, %d2;
    mul.wide.u32 %d5, %r5, 4;
    add.u64 %d6, %d3, %d5;
    add.u64 %d7, %d4, %d5;
    ld.global.f32 %f2, [%d6];
    mul.f32 %f3, %f2, %f1;
    setp.ne.u16 %p2, %h1, 0;
    @%p2 neg.f32 %f3, %f3;
    st.global.f32 [%d7], %f3;
    ret;
}
"""


def test_compiled_kernels():
    x = mx.arange(10, dtype=mx.float32).reshape(2, 5)
    call = {"name": "scaled", "compiled_source": SCALED, "inputs": [x], "output_shapes": [(12,)], "output_dtypes": [mx.float32],
            "scalars": [10, 2.5, True], "grid": (10, 1, 1), "threadgroup": (4, 1, 1)}  # fmt: skip
    run = mx.fast.precompiled_cuda_kernel
    if mx.cuda.is_available():
        (made,) = run(**call, init_value=7, stream=mx.gpu)
        assert made.tolist() == [-2.5 * i for i in range(10)] + [7, 7]
        call["scalars"] = [10, 1.0, False]
        call["inputs"] = [x.T]
        assert run(**call, ensure_row_contiguous=True, init_value=0, stream=mx.gpu)[0].tolist() == [0, 5, 1, 6, 2, 7, 3, 8, 4, 9, 0, 0]
        assert run(**call, init_value=0, stream=mx.gpu)[0].tolist() == [*range(10), 0, 0]
        with pytest.raises(RuntimeError, match="no PTX"):
            mx.eval(run(**call | {"compiled_source": b"x"}, stream=mx.gpu))
    else:
        with pytest.raises(RuntimeError, match="CUDA"):
            run(**call)

    def checked(**changes):
        """Reaches the checks of the extension with CUDA and without it."""
        c = call | {"init_value": None, "shared_memory": 0} | changes
        outputs = [(s, d) for s, d in zip(c["output_shapes"], c["output_dtypes"])]
        return _core._cuda_kernel_compiled(c["name"], c["compiled_source"], c["inputs"], outputs, c["scalars"], c["grid"], c["threadgroup"],
                                           c["shared_memory"], c["init_value"], False, mx.cpu)  # fmt: skip

    with pytest.raises(ValueError, match="needs a GPU with CUDA"):
        checked()
    for error, changes in (
        (TypeError, {"scalars": ["x"]}), (OverflowError, {"scalars": [1 << 40]}), (TypeError, {"name": 3}), (TypeError, {"compiled_source": "x"}),
        (ValueError, {"shared_memory": -1}), (TypeError, {"output_shapes": [("x",)]}), (TypeError, {"grid": (1, 1)}),
        (ValueError, {"compiled_source": b""}), (ValueError, {"threadgroup": (0, 1, 1)}), (ValueError, {"output_shapes": []}),
        (OverflowError, {"output_shapes": [(1 << 40,)]}), (TypeError, {"init_value": "x"}), (TypeError, {"output_dtypes": [3]}),
    ):  # fmt: skip
        with pytest.raises(error):
            checked(**changes)


# ---- facts about dtypes ----
def test_facts_about_dtypes():
    assert mx.issubdtype(mx.int8, mx.signedinteger) and not mx.issubdtype(mx.int8, mx.floating) and mx.issubdtype(mx.floating, mx.inexact)
    assert mx.isdtype(mx.float32, "real floating") and mx.isdtype(mx.int8, ("bool", "integral")) and mx.isdtype(mx.int8, mx.int8)
    assert mx.result_type(mx.int8, mx.array(1.0)) == mx.float32 and mx.can_cast(mx.int8, mx.int16) and not mx.can_cast(mx.float32, mx.int8)
    for name in ("float16", "float32", "float64"):
        made, wanted = mx.finfo(getattr(mx, name)), np.finfo(name)
        assert (made.min, made.max, made.eps, made.bits) == (wanted.min, wanted.max, wanted.eps, wanted.bits)
    for name in "int8 int16 int32 int64 uint8 uint16 uint32 uint64".split():
        made, wanted = mx.iinfo(getattr(mx, name)), np.iinfo(name)
        assert (made.min, made.max) == (wanted.min, wanted.max)
    for call in (lambda: mx.finfo(mx.int8), lambda: mx.iinfo(mx.float32), lambda: mx.isdtype(mx.int8, "x"), lambda: mx.result_type()):
        with pytest.raises(ValueError):
            call()


# ---- arguments ----
@pytest.mark.parametrize("call", [
    lambda: mx.exp(), lambda: mx.exp(X, X), lambda: mx.exp(X, nonsense=1), lambda: mx.sum(X, axis="a"), lambda: mx.sum(X, 0, axis=1),
    lambda: mx.sum(X, keepdims="yes"), lambda: mx.sum(a=X), lambda: mx.reshape(X), lambda: X.reshape("a"), lambda: X.astype("int8"),
    lambda: mx.add(X, 1, stream="cpu"), lambda: mx.softmax(X, 0, True, True), lambda: mx.sort(X, axis=1.5), lambda: X.sum(nonsense=0),
])  # fmt: skip
def test_wrong_arguments(call):
    with pytest.raises(TypeError):
        call()


def test_integers_are_what_has_an_index():
    check(mx.sum(X, np.int64(1)), x.sum(1)), check(mx.reshape(X, (np.int32(4), mx.array(3))), x.reshape(4, 3)), check(mx.sum(X, True), x.sum(1))
    with pytest.raises(TypeError):
        mx.sum(X, 2**40)


def test_ranges_of_whole_numbers_are_exact():
    """A number beyond int32 makes int64, and numbers that float64 does not hold are exact too."""
    for arguments in ((2**40, 2**40 + 3), (2**31 - 2, 2**31 + 1), (-(2**40), -(2**40) + 2), (0, 2**40, 2**39), (5, 2**31, 2**30), (2**53 + 1, 2**53 + 5),
                      (2**62, 2**62 + 9, 3), (2**63 - 3, 2**63 - 1), (-(2**63), -(2**63) + 3), (2**62 + 5, 2**62, -2), (2**60, 2**60)):
        a = mx.arange(*arguments)
        assert a.dtype == mx.int64 and a.tolist() == list(range(*arguments)), arguments
    assert mx.arange(2**31 - 4, 2**31 - 1).dtype == mx.int32
    assert mx.arange(2**63 - 3, 2**63 - 1, dtype=mx.uint64).tolist() == [2**63 - 3, 2**63 - 2]
    assert mx.arange(5, step=2).tolist() == mx.arange(5, None, 2).tolist() == [0, 2, 4]
    for wrong in (lambda: mx.arange(start=1, step=2), lambda: mx.arange(2**63), lambda: mx.arange(0, -(2**63) - 1), lambda: mx.arange(3, "a"), lambda: mx.arange(start=5)):
        with pytest.raises(TypeError, match="arange"):
            wrong()
    with pytest.raises(ValueError, match="too far apart"):
        mx.arange(-(2**63), 2**63 - 1)


def rounded_once(n, bits):
    """The whole number n rounded to the nearest float of so many bits, ties to even."""
    drop = max(n.bit_length() - bits, 0)
    low, half = abs(n) & ((1 << drop) - 1), 1 << drop >> 1
    kept = abs(n) >> drop
    kept += drop > 0 and (low > half or (low == half and kept & 1))
    return (-1 if n < 0 else 1) * (kept << drop)


@pytest.mark.parametrize(("dtype", "bits"), [(mx.float64, 53), (mx.float32, 24), (mx.float16, 11), (mx.bfloat16, 8)])
def test_floor_division_is_the_floor_of_the_exact_quotient(dtype, bits):
    """Against fractions: quotients near whole numbers, and beyond the numbers that are all whole."""
    rng = np.random.default_rng(5)
    n = 4000
    b = rng.uniform(0.01, 2, n) * rng.choice([-1, 1], n)
    a = np.concatenate([b[: n // 2] * rng.integers(1, 900, n // 2), rng.uniform(-9, 9, n // 2) * 2.0 ** rng.integers(0, 12 if bits == 11 else 2 * bits + 8, n // 2)])
    x, y = (mx.array(v, dtype=mx.float64).astype(dtype) for v in (a, b))
    got = mx.floor_divide(x, y).astype(mx.float64).tolist()
    want = []
    for p, q in zip(x.astype(mx.float64).tolist(), y.astype(mx.float64).tolist()):
        whole = rounded_once(fractions.Fraction(p) // fractions.Fraction(q), bits)
        want.append(float(whole) if bits != 11 or abs(whole) < 65520 else math.copysign(math.inf, whole))
    assert got == want
    assert (mx.divmod(x, y)[0] == mx.floor_divide(x, y)).all().item() and mx.array_equal(mx.compile(lambda u, v: u // v + 0)(x, y), x // y)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("inclusive", [False, True])
def test_second_derivatives_of_logcumsumexp(reverse, inclusive):
    """Against differences of the first ones; cotangents of both signs and 0, reverse over reverse and forward over it."""
    rng = np.random.default_rng(0)
    x, v = (mx.array(rng.normal(size=5), dtype=mx.float64) for _ in range(2))
    weight = mx.array([1.0, -2, 0, 3, 0.5], dtype=mx.float64)
    whole = slice(None) if inclusive else slice(0, 4) if reverse else slice(1, 5)  # the sum of no element is -inf

    def scan(x):
        return mx.logcumsumexp(x, reverse=reverse, inclusive=inclusive)

    first = mx.grad(lambda x: (scan(x)[whole] ** 2 * weight[whole]).sum())
    want = np.array(first(x + 1e-5 * v) - first(x - 1e-5 * v)) / 2e-5
    np.testing.assert_allclose(np.array(mx.grad(lambda x: (first(x) * v).sum())(x)), want, atol=1e-9)
    np.testing.assert_allclose(np.array(mx.jvp(first, [x], [v])[1][0]), want, atol=1e-9)
    if inclusive:  # the gradient is linear in the cotangent, also at 0
        for dtype, close in ((mx.float64, 1e-12), (mx.float32, 1e-4), (mx.bfloat16, 0.1), (mx.float16, 0.02)):
            z, c = x.astype(dtype), v.astype(dtype)
            by = lambda c: mx.vjp(scan, [z], [c])[1][0]
            got, want = mx.jvp(by, [mx.zeros_like(c)], [c])[1][0], by(c)
            np.testing.assert_allclose(np.array(got.astype(mx.float32)), np.array(want.astype(mx.float32)), atol=close)


def test_logarithms_of_sums_of_nothing_have_gradient_zero():
    none = mx.array([-math.inf, -math.inf])
    for f in (mx.logsumexp, lambda x: mx.logcumsumexp(x)[1], lambda x: mx.logaddexp(x[0], x[1])):
        assert not mx.isnan(mx.grad(f)(none)).any().item(), f
    assert mx.grad(mx.logsumexp)(none).tolist() == [0, 0] and mx.jvp(mx.logsumexp, [none], [mx.ones(2)])[1][0].item() == 0
    assert mx.grad(lambda x: mx.logcumsumexp(x).sum())(mx.array([-math.inf, 0.0])).tolist() == [0, 1]
    rows = mx.grad(lambda x: mx.logsumexp(x, axis=1).sum())(mx.array([[-math.inf, -math.inf], [0.0, -math.inf]]))
    assert rows.tolist() == [[0, 0], [1, 0]]


def error_of(got, want):
    return (mx.abs(got.astype(mx.float64) - want) / abs(want)).max().item()


@pytest.mark.parametrize("dtype", [mx.float32, mx.float16, mx.complex64])
def test_sums_of_many_products_keep_their_digits(dtype):
    """Equal terms, whose rounding errors have one sign: one after the other they are off by 1e-3 and more."""
    n = 700_001 if dtype != mx.float16 else 300_001
    a, b = mx.full((2, n), 0.1).astype(dtype), mx.ones((n, 3)).astype(dtype)
    want, close = n * float(a[0, 0].astype(mx.float32).item()), 1e-5 if dtype != mx.float16 else 5e-4
    got = [mx.inner(a[0], b[:, 0]), a @ b, a[:1] @ b, a @ b[:, 0], mx.contiguous(a.T).T @ b, mx.einsum("i,ij->j", a[0], b)]
    got += [mx.tensordot(a, b, 1), mx.stack([a, a]) @ b, mx.addmm(mx.zeros((2, 3)).astype(dtype), a, b)]
    got.append(mx.vmap(lambda x: x @ b)(a))
    for x in got:
        assert x.dtype == dtype
        assert error_of(mx.real(x) if dtype == mx.complex64 else x, want) < close
    if dtype == mx.float32:
        weight = mx.grad(lambda q: (mx.ones((n, 2)) * 0.1 @ q).sum())(mx.zeros((2, 3)))
        assert error_of(weight, want) < close


@pytest.mark.parametrize("groups", [1, 4])
def test_weight_gradients_over_many_positions(groups):
    """Long sums keep their digits; and with strides, padding and dilation they are those of parts of the batch."""
    x, g = mx.full((2, 300, 300, 4), 0.1), mx.ones((2, 300, 300, 4))
    of = lambda x, g, k, **more: mx.vjp(lambda w: mx.conv_general(x, w, groups=groups, **more), [mx.zeros((4, *k, 4 // groups))], [g])[1][0]
    assert error_of(of(x, g, (1, 1)), 180_000 * float(np.float32(0.1))) < 1e-5
    x = mx.random.normal((12, 64, 67, 4), key=mx.random.key(1))
    for flip in (False, True):
        more = {"stride": (1, 2), "padding": ((2, 1), (0, 3)), "kernel_dilation": (2, 1), "flip": flip}
        shape = mx.conv_general(x, mx.zeros((4, 3, 2, 4 // groups)), groups=groups, **more).shape
        g = mx.random.normal(shape, key=mx.random.key(2))
        x2, g2 = mx.concatenate([x, x, x]), mx.concatenate([g, g, g])
        assert g2.size // 4 > 2**15 > g[:4].size // 4
        parts = sum(of(x[i : i + 4], g[i : i + 4], (3, 2), **more) for i in (0, 4, 8))
        np.testing.assert_allclose(np.array(of(x2, g2, (3, 2), **more)), np.array(parts * 3), rtol=2e-3, atol=2e-2)


@pytest.mark.parametrize("dtype", [mx.float16, mx.bfloat16])
def test_additions_of_16_bits_are_rounded_once(dtype):
    n, table = 20_000, mx.zeros((4, 3)).astype(dtype)
    at, along = mx.zeros((n,), dtype=mx.int32), mx.zeros((n, 3), dtype=mx.int32)
    updates = mx.full((n, 3), 0.1).astype(dtype)
    sums = [table.at[at].add(updates)[0], table.at[at, 0].add(updates[:, 0])[:1, 0], -table.at[at].subtract(updates)[0]]
    sums.append(mx.grad(lambda t: (t[at].astype(mx.float32) * 0.1).sum())(table)[0])
    sums.append(mx.grad(lambda t: (mx.take_along_axis(t, along, axis=0) * updates).sum())(table)[0])
    sums.append(mx.vmap(lambda u: table.at[at].add(u))(mx.stack([updates, updates]))[1, 0])
    for got in sums:
        assert got.dtype == dtype
        np.testing.assert_allclose(np.array(got.astype(mx.float32)), 2000, rtol=2e-3)
    product = mx.ones((1,)).astype(dtype).at[at[:300]].multiply(mx.full((300,), 1.0078125).astype(dtype))
    np.testing.assert_allclose(product.astype(mx.float32).item(), 1.0078125**300, rtol=4e-3)


# ---- the order of einsum ----
def pairs_of_einsum(subscripts, shapes, tmp_path):
    """The sets of operands that einsum multiplies, from the graph that it makes."""
    operands = [mx.zeros(s) + mx.ones(s) for s in shapes]  # not evaluated: each stays a part of the graph
    names = {f"in{i}": x for i, x in enumerate(operands)}
    mx.export_to_dot(tmp_path / "x.dot", mx.einsum(subscripts, *operands), **names)
    made, inputs, pairs = {}, {}, []
    for line in (tmp_path / "x.dot").read_text().splitlines():
        if match := re.fullmatch(r'  "(\w+)" -> (op\d+);', line):
            inputs.setdefault(match[2], []).append(made.get(match[1], set()))
        elif match := re.fullmatch(r'  (op\d+) -> "(\w+)";', line):
            parts = [x for x in inputs.get(match[1], []) if x]
            made[match[2]] = {int(match[2][2:])} if match[2] in names else set().union(*parts)
            if len(parts) == 2 and parts[0] != parts[1]:
                pairs.append(sorted(map(sorted, parts)))
    return sorted(pairs)


def pairs_of_path(path, n):
    left, pairs = [[i] for i in range(n)], []
    for step in path:
        assert all(0 <= i < len(left) for i in step) and list(step) == sorted(set(step))
        taken = [left[i] for i in step]
        left = [x for i, x in enumerate(left) if i not in step] + [sorted(sum(taken, []))]
        if len(taken) == 2:
            pairs.append(sorted(taken))
    assert len(left) == 1
    return sorted(pairs)


@pytest.mark.parametrize("subscripts, shapes", [
    ("ij,jk,kl->il", [(2, 3), (3, 4), (4, 50)]), ("ij,jk,kl,lm->im", [(2, 30), (30, 4), (4, 50), (50, 3)]),
    ("ea,fb,abcd,gc,hd->efgh", [(10, 10), (10, 10), (10,) * 4, (10, 10), (10, 10)]), ("ij,jk", [(2, 3), (3, 4)]), ("ij->j", [(2, 3)]),
    ("...j,jk,...k->...", [(5, 1, 3), (3, 4), (7, 4)]), ("ii,ij,jk", [(3, 3), (3, 2), (2, 9)]), ("ij,kj,lk->il", [(2, 1), (5, 6), (7, 5)]),
    ("a,b,c,d,e,f,g,h,i->", [(k,) for k in range(2, 11)]), ("ab,bc,cd,de,ef,fg,gh,hi,ij->aj", [(k, k % 4 + 2) for k in range(9)]),
])  # fmt: skip
def test_einsum_path(subscripts, shapes, tmp_path):
    if subscripts.startswith("ab,bc"):
        extent = dict(zip("abcdefghij", [7, 2, 9, 3, 8, 2, 6, 4, 5, 3]))
        shapes = [tuple(extent[k] for k in part) for part in subscripts.split("->")[0].split(",")]
    path, text = mx.einsum_path(subscripts, *[mx.ones(s) for s in shapes])
    pairs = pairs_of_path(path, len(shapes))
    assert len(pairs) == len(shapes) - 1 and pairs == pairs_of_einsum(subscripts, shapes, tmp_path)
    assert subscripts in text and "FLOP" in text


def test_einsum_path_costs():
    path, text = mx.einsum_path("ij,jk,kl->il", mx.ones((2, 3)), mx.ones((3, 4)), mx.ones((4, 50)))
    assert path == [(0, 1), (0, 1)] and "Optimized FLOP count:  848\n" in text and "Naive FLOP count:  3600\n" in text
    for subscripts, shapes in (("ij,jk", [(2, 3)]), ("ij,jk", [(2, 3), (4, 5)]), ("ij->k", [(2, 3)]), ("i!", [(2,)])):
        with pytest.raises(ValueError, match="^einsum_path"):
            mx.einsum_path(subscripts, *[mx.ones(s) for s in shapes])


# ---- what is taken by keyword only, what may be left out ----
@pytest.mark.parametrize("call", [
    lambda: mx.count_nonzero(X, 0), lambda: mx.quantize(mx.ones((32, 32)), 32, 4, "affine", None),
    lambda: mx.arange(start=1, step=2), lambda: mx.arange(start=1), lambda: mx.arange(), lambda: mx.arange(step=2),
])  # fmt: skip
def test_refused_places(call):
    with pytest.raises(TypeError):
        call()


def test_arange_by_name():
    for options, wanted in (({"stop": 3}, [0, 1, 2]), ({"start": 1, "stop": 3}, [1, 2]), ({"stop": 4, "step": 2}, [0, 2]),
                            ({"start": 1, "stop": 6, "step": 2}, [1, 3, 5])):  # fmt: skip
        assert mx.arange(**options).tolist() == wanted
    assert mx.arange(4, step=2).tolist() == [0, 2] and mx.arange(1, stop=3).tolist() == [1, 2]


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int32])
def test_searchsorted_puts_nan_last(side, dtype):
    row = np.array([1, 2, 2, 4, np.nan, np.nan] if dtype != np.int32 else [1, 2, 2, 4], dtype)
    values = np.array([0, 2, 3, 5, np.nan, np.inf, -np.inf, 4], np.float32 if dtype == np.int32 else dtype)
    got = mx.searchsorted(mx.array(row), mx.array(values), side=side)
    assert got.tolist() == np.searchsorted(row, values, side).tolist()
    assert mx.searchsorted(mx.array([1.0, 2.0]), mx.array(math.nan), side=side).item() == 2
