"""Arrays: how they are made, what they convert to, operators, print."""

import math
import operator

import keel.core as mx
import numpy as np
import pytest

INTS = "uint8 uint16 uint32 uint64 int8 int16 int32 int64".split()
FLOATS = "float16 bfloat16 float32 float64".split()
ALL = ["bool_", *INTS, *FLOATS, "complex64"]


def dtype(name):
    return getattr(mx, name)


# ---- making arrays ----
@pytest.mark.parametrize("value, kind, wanted", [
    (3, "int32", 3), (True, "bool_", True), (1.5, "float32", 1.5), (1 + 2j, "complex64", 1 + 2j),
    (2**31, "int64", 2**31), (-(2**31), "int32", -(2**31)), (2**63, "uint64", 2**63),
    ([1, 2], "int32", [1, 2]), ((1, 2), "int32", [1, 2]), ([1, 2.5], "float32", [1, 2.5]),
    ([True, 2], "int32", [1, 2]), ([True, 2.5], "float32", [1, 2.5]), ([1, 2j], "complex64", [1, 2j]),
    ([True, False], "bool_", [True, False]), ([2**33, 1], "int64", [2**33, 1]), ([2**63, 1], "uint64", [2**63, 1]),
    ([], "float32", []), ([[], []], "float32", [[], []]), ([[1, 2], [3, 4]], "int32", [[1, 2], [3, 4]]),
    ([[[1]], [[2]]], "int32", [[[1]], [[2]]]), (math.inf, "float32", math.inf),
])  # fmt: skip
def test_values(value, kind, wanted):
    a = mx.array(value)
    assert a.dtype == dtype(kind) and a.tolist() == wanted


@pytest.mark.parametrize("name", ALL)
def test_dtypes(name):
    a = mx.array([0, 1, 2], dtype=dtype(name))
    assert a.dtype == dtype(name) and a.size == 3 and a.shape == (3,) and a.ndim == 1
    assert a.itemsize == dtype(name).size and a.nbytes == 3 * a.itemsize
    assert a.tolist() == ([False, True, True] if name == "bool_" else [0, 1, 2])
    assert repr(dtype(name)) == f"mlx.core.{name.removesuffix('_')}"
    assert mx.array(a).dtype == a.dtype and mx.array(a, mx.float32).dtype == mx.float32


def test_lists_of_arrays():
    x = mx.array([1, 2])
    assert mx.array([x, x]).tolist() == [[1, 2], [1, 2]]
    assert mx.array([x, [3, 4]]).tolist() == [[1, 2], [3, 4]]
    assert mx.array([mx.array(1), mx.array(2.5)]).tolist() == [1, 2.5]


@pytest.mark.parametrize("value, error", [
    (None, TypeError), ("text", ValueError), ({}, ValueError), ([[1, 2], [3]], ValueError), ([1, [2]], ValueError),
    ([None], ValueError), (["a"], ValueError), (2**64, OverflowError), (-(2**63) - 1, OverflowError),
    ([2**64], OverflowError), (object(), ValueError),
])  # fmt: skip
def test_values_that_are_none(value, error):
    with pytest.raises(error):
        mx.array(value)


def test_wrong_arguments():
    for call in (lambda: mx.array(), lambda: mx.array(1, "float32"), lambda: mx.array(1, nonsense=2)):
        with pytest.raises(TypeError):
            call()


def test_deep_nesting():
    value = 1
    for _ in range(20):
        value = [value]
    assert mx.array(value).ndim == 20
    for _ in range(60):
        value = [value]
    with pytest.raises(ValueError):
        mx.array(value)


# ---- single values ----
@pytest.mark.parametrize("name", ALL)
def test_item(name):
    x = mx.array([[1]], dtype=dtype(name)).item()
    assert x == 1
    assert type(x) is (bool if name == "bool_" else int if name in INTS else complex if name == "complex64" else float)


def test_numbers():
    assert int(mx.array(3.7)) == 3 and float(mx.array(3)) == 3.0 and complex(mx.array(2.0)) == 2
    assert bool(mx.array([1])) and not mx.array(0.0)
    assert [10, 20, 30][mx.array(1)] == 20 and list(range(mx.array(3))) == [0, 1, 2]
    assert f"{mx.array(1.5):.2f}" == "1.50" and f"{mx.array(3):d}" == "3" and f"{mx.array([1])}" == "array([1], dtype=int32)"
    for call in (int, float, complex, bool, lambda x: x.item()):
        with pytest.raises(ValueError):
            call(mx.array([1, 2]))
    for call in (lambda: operator.index(mx.array(1.5)), lambda: operator.index(mx.array([1, 2])),
                 lambda: operator.index(mx.array(True)), lambda: f"{mx.array([1]):d}", lambda: len(mx.array(1))):  # fmt: skip
        with pytest.raises(TypeError):
            call()


def test_tolist_of_views():
    a = mx.arange(6).reshape(2, 3)
    assert a.T.tolist() == [[0, 3], [1, 4], [2, 5]]
    assert mx.broadcast_to(mx.array([1, 2]), (2, 2)).tolist() == [[1, 2], [1, 2]]
    assert mx.zeros((0, 2)).tolist() == [] and mx.zeros((2, 0)).tolist() == [[], []]
    assert mx.array([float("nan")]).tolist()[0] != mx.array([float("nan")]).tolist()[0]
    assert mx.array([1e-8, 65504.0, -0.0], dtype=mx.float16).tolist()[1:] == [65504.0, -0.0]


# ---- facts ----
def test_numbers_of_16_bits():
    """A number is rounded once, as an array of float64 is: halves, numbers below the least normal one, overflow."""
    rng = np.random.default_rng(2)
    numbers = [s * m * 2.0**e for e in rng.integers(-170, 140, 400).tolist() for m in (1 + rng.random(),) for s in (1, -1)]
    numbers += [s * (k + 0.5) * 2.0**e for k in (1, 2, 127, 128, 255, 1023, 1024, 2047) for e in (-140, -133, -25, -24, 0, 5) for s in (1, -1)]
    numbers += [1 + 2.0**-8 + 2.0**-40, 1 + 2.0**-11 + 2.0**-40, 65519.9, 65520.0, 3.3961e38, 3.4e38, 1e-50, 5e-324, 1.7e308, -0.0, 0.0, math.inf, -math.inf]
    for dtype in (mx.float16, mx.bfloat16):
        at_once = mx.array(np.array(numbers), mx.float64).astype(dtype, stream=mx.cpu).tolist()
        one = mx.array(1, dtype)
        for x, want in zip(numbers, at_once, strict=True):
            for made in (mx.array(x, dtype), one * x):
                assert made.dtype == dtype and made.item() == want and math.copysign(1, made.item()) == math.copysign(1, want), (x, want)
        assert math.isnan(mx.array(math.nan, dtype).item())
        for i in (0, -3, 257, 2049, 2**24 + 1, 2**53 + 1, 2**60 + 2**50):
            assert (one * i).item() == mx.array([i], mx.int64).astype(mx.float64, stream=mx.cpu).astype(dtype, stream=mx.cpu).item(), i
    assert np.float16(numbers[3]) == mx.array(numbers[3], mx.float16).item()


def test_facts():
    a = mx.array([[1 + 2j, 3], [4, 5]])
    assert len(a) == 2 and a.T.shape == (2, 2) and a.real.tolist() == [[1, 3], [4, 5]] and a.imag[0, 0].item() == 2
    assert mx.ones((2, 3, 4)).T.shape == (4, 3, 2) and mx.ones((2, 3, 4)).mT.shape == (2, 4, 3)
    with pytest.raises(ValueError):
        mx.ones((2,)).mT
    with pytest.raises(AttributeError):
        a.shape = (4,)
    assert hash(a) == hash(a) and {a: 1}[a] == 1


# ---- operators ----
BINARY = ["add", "sub", "mul", "truediv", "floordiv", "mod", "eq", "ne", "lt", "le", "gt", "ge"]


@pytest.mark.parametrize("name", BINARY)
def test_operators_against_numpy(name):
    f = getattr(operator, name)
    x, y = np.array([[1, -2], [7, 4]], "int32"), np.array([3, 5], "int32")
    for p, q in ((x, y), (x.astype("float32"), y.astype("float32")), (x, 3), (3, y), (x.astype("float32"), 2.5)):
        k = [mx.array(v) if isinstance(v, np.ndarray) else v for v in (p, q)]
        got, wanted = f(*k), f(p, q)
        np.testing.assert_allclose(np.array(got), wanted, rtol=1e-6)


def test_bits():
    x, y = mx.array([12, 10]), mx.array([10, 3])
    assert (x & y).tolist() == [8, 2] and (x | y).tolist() == [14, 11] and (x ^ y).tolist() == [6, 9]
    assert (~x).tolist() == [-13, -11] and (x << 1).tolist() == [24, 20] and (x >> 1).tolist() == [6, 5]
    assert (~mx.array([True, False])).tolist() == [False, True] and (1 << y[1]).item() == 8
    for call in (lambda: x & 1.5, lambda: x.astype(mx.float32) | 1, lambda: ~mx.array(1.5)):
        with pytest.raises(ValueError):
            call()


def test_more_operators():
    a = mx.array([[1.0, 2.0], [3.0, 4.0]])
    assert (a @ a).tolist() == [[7, 10], [15, 22]] and (a**2).tolist() == [[1, 4], [9, 16]]
    assert (2**a).tolist() == [[2, 4], [8, 16]] and (-a)[0, 0].item() == -1 and abs(-a).tolist() == a.tolist()
    assert (+a).tolist() == a.tolist() and a.__div__(2).tolist() == [[0.5, 1], [1.5, 2]]
    assert a.__rdiv__(12).tolist() == [[12, 6], [4, 3]]
    with pytest.raises((ValueError, TypeError)):
        pow(a, 2, 3)


@pytest.mark.parametrize("name, scalar, result", [
    ("int8", 1, "int8"), ("uint8", 1, "uint8"), ("int8", 1.5, "float32"), ("float16", 1, "float16"),
    ("bfloat16", 1.5, "bfloat16"), ("bool_", 1, "int32"), ("bool_", True, "bool_"), ("bool_", 1.5, "float32"),
    ("int32", True, "int32"), ("float16", 1j, "complex64"), ("int64", 1, "int64"), ("float32", 1e300, "float32"),
])  # fmt: skip
def test_a_number_takes_the_dtype_of_the_array(name, scalar, result):
    a = mx.array([1], dtype=dtype(name))
    assert (a + scalar).dtype == (scalar + a).dtype == dtype(result)


def test_numbers_that_do_not_fit():
    assert (mx.array([1], dtype=mx.uint64) + -1).tolist() == [0]
    assert (mx.array([True]) + 2**40).tolist() == [2**40 + 1]
    assert mx.add(2**40, 300).item() == 2**40 + 300
    for name in ("int8", "uint8", "int32"):
        with pytest.raises(ValueError):
            mx.array([1], dtype=dtype(name)) + 2**33
    with pytest.raises(OverflowError):
        mx.array([1]) + 2**64


def test_what_is_no_operand():
    a = mx.array([1])
    for call in (lambda: a + "x", lambda: a + [1], lambda: a + None, lambda: None - a, lambda: a < "x"):
        with pytest.raises((ValueError, TypeError)):
            call()
    assert (a == "x") is False and (a != "x") is True and (a == None) is False  # noqa: E711

    class Other:
        def __radd__(self, other):
            return "other"

    assert a + Other() == "other"


def test_in_place():
    a = mx.array([1.0, 2.0])
    name, other = a, a + 0
    shared = mx.array(a)
    a += 1
    a *= 2
    a -= 1
    a /= 2
    assert name is a and a.tolist() == [1.5, 2.5] and shared.tolist() == [1, 2] and other.tolist() == [1, 2]
    a **= 2
    a //= 2
    a %= 2
    assert a.tolist() == [1, 1]
    i = mx.array([12])
    i &= 10
    i |= 1
    i ^= 3
    i <<= 2
    i >>= 1
    assert i.tolist() == [20]
    with pytest.raises(ValueError):
        i /= 2
    m = mx.eye(2)
    m @= m * 3
    assert m.tolist() == [[3, 0], [0, 3]]


def test_iteration():
    a = mx.array([[1, 2], [3, 4]])
    assert [x.tolist() for x in a] == [[1, 2], [3, 4]]
    first, second = a
    assert second.tolist() == [3, 4]
    with pytest.raises((IndexError, TypeError)):
        iter(mx.array(1))


# ---- print ----
@pytest.mark.parametrize("value, text", [
    (mx.array(1), "array(1, dtype=int32)"), (mx.array([1.5, 2]), "array([1.5, 2], dtype=float32)"),
    (mx.array([True]), "array([True], dtype=bool)"), (mx.array([1 + 2j]), "array([1+2j], dtype=complex64)"),
    (mx.array([[1, 2], [3, 4]]), "array([[1, 2],\n       [3, 4]], dtype=int32)"),
    (mx.arange(10), "array([0, 1, 2, ..., 7, 8, 9], dtype=int32)"), (mx.zeros((0,)), "array([], dtype=float32)"),
    (mx.array([math.nan, math.inf]), "array([nan, inf], dtype=float32)"),
])  # fmt: skip
def test_repr(value, text):
    assert repr(value) == str(value) == text


@pytest.mark.parametrize("precision, text", [
    (0, "array([3, 100, 2, nan], dtype=float32)"), (1, "array([3.1, 100.0, 1.5, nan], dtype=float32)"),
    (3, "array([3.142, 100.000, 1.500, nan], dtype=float32)"), (-1, "array([3.14159, 100, 1.5, nan], dtype=float32)"),
])  # fmt: skip
def test_print_precision(precision, text):
    with mx.printoptions(precision=precision):
        assert repr(mx.array([3.14159, 100, 1.5, math.nan])) == text
        assert repr(mx.array([1, 2])) == "array([1, 2], dtype=int32)"
        assert mx.get_printoptions().precision == precision
    assert mx.get_printoptions().precision == -1


def test_print_precision_of_other_shapes():
    with mx.printoptions(precision=2):
        assert repr(mx.array([[1.0, 2.0], [3.0, 4.0]])) == "array([[1.00, 2.00],\n       [3.00, 4.00]], dtype=float32)"
        assert repr(mx.array([1.5 - 2j], dtype=mx.complex64)) == "array([1.50-2.00j], dtype=complex64)"
        assert repr(mx.arange(10.0)) == "array([0.00, 1.00, 2.00, ..., 7.00, 8.00, 9.00], dtype=float32)"
        assert repr(mx.zeros((2, 0))) == "array([[],\n       []], dtype=float32)"
        assert repr(mx.array(1.5, dtype=mx.bfloat16)) == "array(1.50, dtype=bfloat16)"
    mx.set_printoptions(precision=2)
    try:
        assert repr(mx.array(1.0)) == "array(1.00, dtype=float32)"
    finally:
        mx.set_printoptions()
    with pytest.raises(TypeError):
        mx.set_printoptions(precision="x")
