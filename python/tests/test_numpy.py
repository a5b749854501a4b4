"""Arrays beside those of NumPy: operators, functions, printing, the array API's namespace."""

import operator
import pickle
import reprlib

import keel.core as mx
import numpy as np
import pytest

OPERATORS = [getattr(operator, name) for name in "add sub mul truediv floordiv mod pow lt le eq ne ge gt".split()]
BITS = [getattr(operator, name) for name in "and_ or_ xor lshift rshift".split()]
LEFT = [
    np.float64(2), np.float32(2), np.float16(2), np.int64(2), np.int8(2), np.uint8(2), np.bool_(True), np.ones(3),
    np.full(3, 2, np.float32), np.full(3, 2, np.int32), np.full((2, 1), 2), np.array(2.0), np.zeros((0, 3)),
]  # fmt: skip
ARRAYS = [mx.array([1.0, 2.0, 3.0]), mx.array([1, 2, 3]), mx.array([1, 2, 4], mx.float16), mx.array([1.0], mx.bfloat16)]


def same(x, y):
    assert isinstance(x, mx.array) and isinstance(y, mx.array) and x.dtype == y.dtype and x.shape == y.shape
    assert pickle.dumps(x) == pickle.dumps(y)


@pytest.mark.parametrize("a", ARRAYS, ids=lambda a: a.dtype._name)
@pytest.mark.parametrize("x", LEFT, ids=lambda x: f"{x.dtype}{x.shape}")
@pytest.mark.parametrize("f", OPERATORS)
def test_numpy_on_the_left(f, x, a):
    """What stands right has the same dtype left: it is one rule, of the array's operator."""
    swapped = {operator.lt: operator.gt, operator.le: operator.ge, operator.gt: operator.lt, operator.ge: operator.le}
    got = f(x, a)
    if f in (operator.add, operator.mul, operator.eq, operator.ne) or f in swapped:
        same(got, swapped.get(f, f)(a, x))
    else:
        assert isinstance(got, mx.array) and got.dtype == f(a, x).dtype
        wanted = f(np.asarray(x, np.float64), np.array(a.astype(mx.float32)))
        np.testing.assert_allclose(np.array(got.astype(mx.float32)), wanted, rtol=1e-2)


@pytest.mark.parametrize("x", [x for x in LEFT if x.dtype.kind in "ib"], ids=lambda x: f"{x.dtype}{x.shape}")
@pytest.mark.parametrize("f", BITS)
def test_bits_with_numpy_on_the_left(f, x):
    got = f(x, ARRAYS[1])
    assert isinstance(got, mx.array) and got.dtype == f(ARRAYS[1], x).dtype
    assert got.tolist() == f(np.asarray(x).astype(np.int64), np.array(ARRAYS[1])).tolist()


def test_products_and_divmod_with_numpy_on_the_left():
    a = mx.array([[1.0, 2.0], [3.0, 4.0]])
    x = np.array([[2.0, 0.0], [1.0, 1.0]])
    same(x @ a, mx.array(x) @ a)
    for y in (x, np.float64(7), 7, 7.5):
        quotient, rest = divmod(y, a)
        same(quotient, y // a)
        same(rest, y % a)
        for got, wanted in zip(divmod(a, 2), (a // 2, a % 2)):
            same(got, wanted)
    with pytest.raises(TypeError):
        divmod(a, None)


def test_in_place_is_numpys():
    a = mx.array([1.0, 2.0])

    def f(x):
        x += a
        x -= a
        x *= a
        x /= a
        x **= a
        x //= a
        x %= a
        return x

    x = np.array([7.0, 9.0])
    wanted = f(np.array([7.0, 9.0]) * np.ones(2))
    assert f(x) is x and x.dtype == np.float64 and x.tolist() == wanted.tolist() == [0.0, 0.0]
    m = np.eye(2, dtype=np.float32)
    m @= mx.array([[1.0, 2.0], [3.0, 4.0]])
    assert type(m) is np.ndarray and m.tolist() == [[1, 2], [3, 4]]
    i, b = np.array([6, 5]), mx.array([3, 1])
    kept = i
    i &= b
    i |= b
    i ^= b
    i <<= b
    i >>= b
    assert i is kept and type(i) is np.ndarray and i.tolist() == [0, 0]
    y = np.ones(2)
    views = [y[:1]]
    views[0] += mx.array([5.0])  # of a subscript
    assert y.tolist() == [6, 1]
    with pytest.raises(TypeError):  # NumPy's own error: a float does not go into an int
        i += a
    z = y + a
    assert isinstance(z, mx.array)
    s = np.float64(2)
    s *= a  # a scalar cannot be changed
    assert isinstance(s, mx.array)


def test_functions_of_numpy_stay_numpys():
    a, x = mx.array([1.0, 2.0]), np.ones(2)
    for got in (np.exp(a), np.multiply(x, a), np.add(a, a), np.add(x, a, out=np.zeros(2)), np.concatenate([x, a])):
        assert type(got) is np.ndarray
    assert np.multiply(x, a).dtype == np.float64 and np.exp(a).dtype == np.float32
    np.testing.assert_allclose(a, [1.0, 2.0])
    np.testing.assert_allclose(np.array([1.0, 2.0]), a)
    np.testing.assert_array_equal(a, a)
    with pytest.raises(AssertionError):
        np.testing.assert_allclose(x, a)


@pytest.mark.parametrize("name", ["sum", "prod", "max", "min", "mean", "std", "var", "all", "any", "amax"])
@pytest.mark.parametrize("options", [{}, {"axis": 0}, {"axis": 1, "keepdims": True}, {"axis": (0, 1)}, {"keepdims": True}])
def test_reductions_of_numpy(name, options):
    x = np.array([[1.0, 2.0, 0.5], [3.0, 5.0, 4.0]], np.float32)
    got, wanted = getattr(np, name)(mx.array(x), **options), getattr(np, name)(x, **options)
    assert isinstance(got, mx.array) and got.shape == wanted.shape
    np.testing.assert_allclose(np.array(got), wanted, rtol=1e-6)


def test_what_reductions_of_numpy_ask_for():
    a = mx.array([1.0, 2.0, 4.0])
    assert np.std(a, ddof=1).item() == pytest.approx(np.std([1, 2, 4], ddof=1))
    for options in ({"dtype": np.float64}, {"out": np.zeros(())}, {"where": True}):
        with pytest.raises(TypeError):
            np.sum(a, **options)
    for wrong in (lambda: a.sum(out=3), lambda: mx.sum(a, out=None), lambda: a.cumsum(out=None)):
        with pytest.raises(TypeError):
            wrong()


# ---- texts ----
@pytest.mark.parametrize("value, dtype, text", [
    (0.5, None, "0.5"), (3, None, "3"), (True, None, "True"), (1 + 2j, None, "(1+2j)"), (0.1, mx.float16, "0.0999755859375"),
    (0.1, mx.bfloat16, "0.10009765625"), (float("nan"), None, "nan"), (1e10, None, "10000000000.0"),
    ([0.5, 1], None, "array([0.5, 1], dtype=float32)"), ([1], None, "array([1], dtype=int32)"),
])  # fmt: skip
def test_format(value, dtype, text):
    assert f"{mx.array(value, dtype)}" == format(mx.array(value, dtype), "") == text


def test_reprlib():
    import array

    assert reprlib.repr(mx.array(0.5)) == "array(0.5, dtype=float32)"
    assert len(reprlib.repr(mx.arange(1000))) <= reprlib.aRepr.maxother
    assert reprlib.repr([mx.array(1)]) == "[array(1, dtype=int32)]"
    assert reprlib.repr(array.array("i", [1, 2])) == "array('i', [1, 2])"


# ---- the array API ----
def test_namespace_info():
    info = mx.array(1).__array_namespace__().__array_namespace_info__()
    assert set(info.capabilities()) == {"boolean indexing", "data-dependent shapes", "max dimensions"}
    mx.zeros((1,) * info.capabilities()["max dimensions"])
    with pytest.raises(ValueError):
        mx.zeros((1,) * (info.capabilities()["max dimensions"] + 1))
    assert info.default_device() == mx.default_device() and info.default_device() in info.devices()
    assert all(mx.is_available(d) for d in info.devices())
    ones = {"integral": mx.array(1), "real floating": mx.array(1.0), "complex floating": mx.array(1j)}
    for device in (None, mx.cpu, mx.Device(mx.cpu)):
        kinds = info.default_dtypes(device=device)
        assert {k: kinds[k] for k in ones} == {k: v.dtype for k, v in ones.items()}
        assert info.dtypes(device=device) == info.dtypes(kind=("bool", "numeric"))
    for kind in ("bool", "signed integer", "unsigned integer", "integral", "real floating", "complex floating", "numeric"):
        names = info.dtypes(kind=kind)
        assert names and all(mx.isdtype(d, kind) for d in names.values())
        assert all(str(d).endswith(name) for name, d in names.items())
    for wrong, error in ((lambda: info.dtypes(kind="float"), ValueError), (lambda: info.dtypes(kind=3), TypeError),
                         (lambda: info.dtypes(device="cpu"), TypeError), (lambda: info.default_dtypes(device=3), TypeError)):  # fmt: skip
        with pytest.raises(error):
            wrong()


# ---- what others hold ----
def test_complex128():
    x = np.array([[1 + 2j, 3], [4j, 5]])
    for y in (x, x.T, x[::-1], x[:, :1], x[:0]):
        for got in (mx.from_dlpack(y), mx.array(y), mx.asarray(y), mx.from_dlpack(y, copy=True)):
            assert got.dtype == mx.complex64 and got.shape == y.shape and got.tolist() == y.tolist()
    with pytest.raises(ValueError, match="complex128"):
        mx.from_dlpack(x, copy=False)


def test_bfloat16_of_ml_dtypes():
    import ml_dtypes

    x = np.array([[1.5, 2.5, -0.0], [np.inf, 1e-30, 3]], ml_dtypes.bfloat16)
    for y in (x, x.T, x[:, ::-1], x[0, 0], x[:0], x.reshape(-1)[1:]):
        got = mx.array(y)
        assert got.dtype == mx.bfloat16 and got.shape == y.shape
        assert np.array(got).tolist() == y.astype(np.float32).tolist()
    assert mx.array(x, mx.float16).dtype == mx.float16 and mx.array([x[0, 0], 1]).tolist() == [1.5, 1]
    a = mx.array([1.0, 2.0, 3.0])
    for got in (a * x[0], x[0] * a, a * x[0, 0], x[0, 0] * a):
        assert got.dtype == mx.float32
    a[:] = x[0]
    assert a.tolist() == [1.5, 2.5, 0]
    with pytest.raises(ValueError):
        mx.array(x.astype(ml_dtypes.float8_e4m3fn))


@pytest.mark.parametrize("x, dtype", [
    (np.ones(2), None), (np.ones(2, np.float32), mx.int32), (np.ones((2, 2), np.float32).T[:1], None), (np.ones(2, np.complex128), None),
    ([1, 2], None), (3, None), (bytearray(b"abc"), None), (np.frombuffer(b"abcd", np.uint8), None), (mx.ones((2,)), mx.int32),
    (np.array([2, 1], np.uint8).view(bool), None),
])  # fmt: skip
def test_asarray_that_must_copy(x, dtype):
    with pytest.raises(ValueError):
        mx.asarray(x, dtype, copy=False)
    mx.asarray(x, dtype)


def test_asarray_in_place():
    for x, dtype in ((np.ones(2, np.float32), None), (np.ones(2), mx.float64), (np.ones((2, 3), np.int16), mx.int16)):
        got = mx.asarray(x, dtype, copy=False)
        x[0] = 7
        assert np.array(got)[0].tolist() == x[0].tolist() and got.shape == x.shape
    a = mx.ones((2,))
    assert mx.asarray(a, copy=False) is a
    with pytest.raises(TypeError, match="dtype"):
        mx.asarray([1], "int32")
