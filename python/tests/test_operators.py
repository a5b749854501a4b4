"""In-place operators of arrays and parts, and operands of other types."""

import numpy as np
import pytest

import keel.core as mx
from index_support import I32, host, same


# ---- in-place operators ----
OPERATORS = {
    "+=": np.add, "-=": np.subtract, "*=": np.multiply, "//=": np.floor_divide, "%=": np.remainder, "**=": np.power,
    "<<=": np.left_shift, ">>=": np.right_shift, "&=": np.bitwise_and, "|=": np.bitwise_or, "^=": np.bitwise_xor,
}  # fmt: skip


@pytest.mark.parametrize("op", OPERATORS)
def test_in_place(op):
    n = np.array([5, 2, 7], np.int32)
    for other in (3, mx.array([1, 2, 3]), mx.array([[1], [2]])):
        names = {"a": mx.array(n), "other": other}
        names["alias"], names["copy"] = names["a"], mx.array(names["a"])
        exec(f"a {op} other", names)
        assert names["a"] is names["alias"]
        same(names["a"], OPERATORS[op](n, host(other) if isinstance(other, mx.array) else other))
        assert names["a"].dtype == I32
        same(names["copy"], n)


def test_in_place_division_and_product():
    a = b = mx.array([1.0, 3.0])
    a /= 2
    assert a is b
    same(a, [0.5, 1.5])
    a @= mx.array([[1.0], [2.0]])
    assert a is b
    same(a, [3.5])
    c = mx.array([1, 2])
    with pytest.raises(ValueError, match="floating"):
        c /= 2
    for wrong in (2, "x", None, [1, 2]):
        with pytest.raises(TypeError):
            c @= wrong
    same(c, [1, 2])


def test_in_place_promotes():
    a = b = mx.array([1, 2])
    a += 0.5
    assert a is b and a.dtype == mx.float32
    a *= a
    same(b, [2.25, 6.25])
    a = mx.array([1, 2], mx.bfloat16)
    a += np.float32(0.5)
    assert a.dtype == mx.bfloat16


def test_in_place_refuses():
    a = mx.array([1, 2])
    for wrong, error in (([1, 2], ValueError), ("x", ValueError), (None, TypeError), (object(), TypeError)):
        with pytest.raises(error):
            a += wrong
    for op in ("&=", "|=", "^=", "<<=", ">>="):
        with pytest.raises(ValueError):
            exec(f"a {op} 1.5", {"a": mx.array([1, 2])})
    with pytest.raises(ValueError):
        a += mx.array([1, 2, 3])
    same(a, [1, 2])


def test_in_place_in_a_subclass():
    class Mine(mx.array):
        pass

    a = Mine([1, 2])
    a += 1
    a[0] = 9
    assert type(a) is Mine
    same(a, [9, 3])


# ---- operands of operators ----
def test_operands_of_other_types():
    a = mx.array([1, 2])
    for other in (np.array([1.5, 2.5]), np.array([1.5, 2.5], np.float32)):  # cast, as in MLX
        assert (a + other).dtype == I32
        same(a + other, [2, 4])
    assert (mx.array([1.0], mx.bfloat16) * np.float32(0.5)).dtype == mx.bfloat16
    assert (a + np.float64(0.5)).dtype == mx.float32  # a float of Python
    same(mx.array([2], mx.uint64) + -3, np.array([2**64 - 1], np.uint64))
    assert not (mx.array([2], mx.uint64) == -3).item()
    with pytest.raises(ValueError):
        mx.array([2], mx.uint8) + -3
    for wrong in (lambda: a + None, lambda: a < None, lambda: a & None, lambda: mx.array([1.0]) & None, lambda: a @ 2, lambda: a @ [1, 2]):
        with pytest.raises(TypeError):
            wrong()
    with pytest.raises(ValueError):
        a + [1, 2]


def test_lists_of_numbers():
    for values, dtype in (([1, 2], I32), ([1, 2**40], mx.int64), ([True, False], mx.bool_), ([1.5, 2], mx.float32), ([1j, 2], mx.complex64)):
        a = mx.array(values)
        assert a.dtype == dtype
        assert a.tolist() == values
    same(mx.array([1e300, 1e-300, 0.1]), np.array([np.inf, 0, 0.1], np.float32))
    assert mx.array([0.1], mx.float64).item() == 0.1
    same(mx.array([0, 3], mx.bool_), [False, True])
    same(mx.array([[1, 0], [0, 1]], mx.float32), np.eye(2))


@pytest.mark.parametrize("dtype", [mx.bool_, mx.uint8, mx.int32, mx.float16, mx.float32, mx.complex64])
@pytest.mark.parametrize("key", [0, slice(0, 2), mx.array([0, 2]), (slice(None),)], ids=str)
@pytest.mark.parametrize("value", [True, False, mx.array(True), "bools"], ids=str)
def test_bools_are_subtracted(dtype, key, value):
    """a.at[key].subtract(bools) is a[key] - bools there, also of an array of bools."""
    a = mx.array([1, 0, 1], dtype)
    value = mx.array([True, False, True])[: a[key].size] if isinstance(value, str) and a[key].ndim else value
    if isinstance(value, str):
        value = True
    wanted = mx.array(a)
    wanted[key] = a[key].astype(mx.int32 if dtype in (mx.bool_, mx.uint8) else dtype) - value
    got = a.at[key].subtract(value)
    assert got.dtype == dtype and got.tolist() == wanted.tolist()
