"""Functions against NumPy on small inputs: values, shapes, dtypes, arguments by name, errors."""

import math

import keel.core as mx
import numpy as np
import pytest
from functions_support import I, P, X, b, check, i, p, x


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


def test_hypot():
    check(mx.hypot(X, X[0:1]), np.hypot(x, x[0:1]))
    assert mx.hypot(mx.array([3.0, 3e38, math.inf]), mx.array([4.0, 0.0, math.nan])).tolist() == [5, np.float32(3e38), math.inf]


def test_log_softmax():
    for axis in (0, 1, -1, -2):
        check(mx.log_softmax(X, axis), x - np.log(np.exp(x).sum(axis, keepdims=True)))
    check(mx.log_softmax(X), x - np.log(np.exp(x).sum(-1, keepdims=True)))
    assert mx.log_softmax(mx.array([0.0, -1000.0, -math.inf])).tolist() == [0, -1000, -math.inf]
    assert mx.log_softmax(I).dtype == mx.float32
    assert mx.grad(lambda a: mx.log_softmax(a)[0])(mx.array([0.0, 0.0])).tolist() == [0.5, -0.5]
    with pytest.raises(ValueError, match="axis"):
        mx.log_softmax(X, 2)


def test_erfinv_and_nan_to_num():
    check(mx.erf(mx.erfinv(P)), p)
    assert mx.nan_to_num(mx.array([math.nan, math.inf, -math.inf]), 1.0, 2.0, -3.0).tolist() == [1, 2, -3]
    most = np.finfo("float32").max.item()
    ends = mx.array([most, -most, 1.0, math.inf, -math.inf, math.nan])
    for values in ((), (1.0, 2.0, -3.0)):
        assert mx.grad(lambda v: mx.nan_to_num(v, *values).sum())(ends).tolist() == [1, 1, 1, 0, 0, 0]


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
