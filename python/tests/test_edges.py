"""What programs and other libraries give that is not what it seems: nothing of it may touch memory that is not there.

Under `tools/python.sh sanitized` every wrong access ends the run.
"""

import ctypes
import gc
import types

import keel.core as mx
import numpy as np
import pytest
from test_interchange import capsule


# ---- objects that change others while they are read ----
class Changes:
    """A number whose conversions call a function first."""

    def __init__(self, change, value=1):
        self.change, self.value = change, value

    def __index__(self):
        self.change()
        return self.value

    def __array__(self, dtype=None, copy=None):
        self.change()
        return np.array(self.value, np.int32)


class ChangesAsFloat(int):
    def __float__(self):
        self.change()
        return float(int(self))


class ChangesAsComplex(complex):
    def __complex__(self):
        self.change()
        return 1j


class ChangesWhenAsked:
    """Asked for an attribute, as __mlx_array__, it calls a function."""

    def __init__(self, change):
        object.__setattr__(self, "change", change)

    def __getattribute__(self, name):
        object.__getattribute__(self, "change")()
        raise AttributeError(name)


def clear(items):
    return lambda: items.clear()


def grow(items):
    return lambda: items.extend([1.5] * 5000)


def shorten(items):
    return lambda: items.pop()


def replace(items):
    def change():
        items[-1] = [[object()]]

    return change


def changing(kind, change, n=40):
    """Lists of which one item changes the list that it stands in."""
    items = [1.5] * n
    if kind is Changes:
        items[3] = Changes(change(items))
    elif kind is ChangesWhenAsked:
        items[3] = ChangesWhenAsked(change(items))
    else:
        items[3] = kind(2)
        items[3].change = change(items)
    return items


def survives(call):
    """The call gives a value or raises an ordinary exception."""
    try:
        result = call()
        mx.eval(result) if isinstance(result, mx.array) else None
    except (ValueError, TypeError, IndexError, OverflowError):
        pass
    gc.collect()


@pytest.mark.parametrize("change", [clear, grow, shorten, replace])
@pytest.mark.parametrize("kind", [Changes, ChangesAsFloat, ChangesAsComplex, ChangesWhenAsked])
def test_lists_that_change_while_they_are_read(kind, change):
    a = mx.zeros((50,))
    for call in (
        lambda x: mx.array(x), lambda x: mx.array([x, x]), lambda x: mx.array(tuple([x])), lambda x: mx.add(a, x), lambda x: a + x,
        lambda x: a[x], lambda x: a.__setitem__(x, 1), lambda x: a.__setitem__(slice(0, 40), x), lambda x: mx.einsum("i,i->", x, x),
        lambda x: mx.zeros(x), lambda x: mx.reshape(a, x), lambda x: a.reshape(x), lambda x: mx.sum(a, x), lambda x: mx.tile(a, x),
        lambda x: mx.concatenate(x), lambda x: mx.stack([x, x]), lambda x: mx.broadcast_arrays(x, x), lambda x: mx.atleast_1d(x),
        lambda x: mx.pad(a, x), lambda x: mx.tensordot(a, a, [x, x]), lambda x: mx.array([a, x]), lambda x: a.at[x].add(1),
        lambda x: mx.conv_general(mx.ones((1, 5, 1)), mx.ones((1, 2, 1)), padding=x), lambda x: mx.split(a, x), lambda x: mx.roll(a, x, x),
    ):  # fmt: skip
        items = changing(kind, change)
        survives(lambda: call(items))


def test_a_list_is_as_long_as_at_its_first_look():
    def items(change):
        made = [ChangesAsFloat(1), 2.5, 3.5]
        made[0].change = change(made)
        return made

    with pytest.raises(ValueError, match="changed"):
        mx.array(items(shorten))
    assert mx.array(items(grow)).tolist() == [1, 2.5, 3.5]


def test_arrays_that_are_assigned_to_while_a_key_is_read():
    def becomes(a, other):
        def change():
            mx.array.__iadd__(a, other)

        return change

    for key in (lambda n: (n, 0), lambda n: (slice(n, None), 0), lambda n: (mx.array([0]), n), lambda n: n, lambda n: (None, n, ...)):
        for value in (1, [1.0]):
            a = mx.zeros((3, 3))
            n = Changes(becomes(a, mx.zeros((4, 3, 3))))
            survives(lambda: a[key(n)])
            a = mx.zeros((3, 3))
            n = Changes(becomes(a, mx.zeros((4, 3, 3))))
            survives(lambda: a.__setitem__(key(n), value))
    index = mx.array([1])
    survives(lambda: mx.zeros((3, 3))[index, Changes(becomes(index, mx.zeros((5, 1), mx.int32)))])
    a = mx.zeros((3,))
    survives(lambda: a.__setitem__(0, Changes(becomes(a, mx.zeros((2, 3))))))


# ---- exporters ----
@pytest.fixture
def unraisable(monkeypatch):
    seen = []
    monkeypatch.setattr("sys.unraisablehook", seen.append)
    return seen


def test_an_exporter_that_dies_tells_its_error_once(unraisable):
    e = mx.exporter("/nonexistent/x.mlxfn", lambda x: x + 1)
    survives_call = lambda: e(mx.ones(3))  # noqa: E731
    try:
        survives_call()
    except (ValueError, RuntimeError):
        pass
    del e, survives_call
    gc.collect()
    assert len(unraisable) <= 1
    for u in unraisable:
        assert not isinstance(u.object, mx.array) and "_Exporter" in repr(u.object)


def test_an_exporter_is_not_closed_by_the_function_it_traces(tmp_path):
    holder = []

    def f(x):
        holder[0].close()
        return x + 1

    e = mx.exporter(str(tmp_path / "f.mlxfn"), f)
    holder.append(e)
    with pytest.raises(RuntimeError, match="closed by the function"):
        e(mx.ones(3))


# ---- capsules ----
def longs(*values):
    return (ctypes.c_int64 * max(len(values), 1))(*values)


@pytest.mark.parametrize("fields", [
    {"ndim": -1}, {"ndim": -(2**31)}, {"shape": None}, {"shape": longs(-2)}, {"shape": longs(-(2**63))},
    {"ndim": 2, "shape": longs(-1, -2)}, {"data": None},
    {"ndim": 3, "shape": longs(2**22, 2**22, 2**22), "strides": longs(0, 0, 0)},
    {"ndim": 3, "shape": longs(2**31 - 1, 2**31 - 1, 4), "strides": longs(0, 0, 0)},
    {"ndim": 2, "shape": longs(2**31, 2**33), "strides": longs(0, 0)},
    {"ndim": 2, "shape": longs(2**31 - 1, 2**31 - 1)},
])  # fmt: skip
def test_capsules_of_numbers_that_cannot_be(fields):
    for read in (mx.from_dlpack, mx.array):
        with pytest.raises((ValueError, OverflowError)):
            read(capsule(**fields))


def test_capsules_that_are_allowed_though_strange():
    assert mx.from_dlpack(capsule(ndim=2, shape=longs(3, 2), strides=longs(0, 1))).tolist() == [[1, 2]] * 3
    assert mx.from_dlpack(capsule(shape=longs(0), data=None)).tolist() == []
    assert mx.from_dlpack(capsule(ndim=0, shape=None)).item() == 1


# ---- bools of others ----
def test_bools_are_bytes_of_0_and_1():
    x = np.array([0, 1, 2, 255], np.uint8).view(np.bool_)
    with_strides = np.array([0, 9, 1, 9, 2, 9, 255, 9], np.uint8).view(np.bool_)[::2]
    fixed = types.SimpleNamespace(__dlpack__=lambda: x.__dlpack__())
    for a in (mx.array(x), mx.array(with_strides), mx.from_dlpack(fixed), mx.array(memoryview(x)),
              mx.array(mx.zeros(4, mx.bool_)).__reduce__()[0](bytes([0, 1, 2, 255]), (4,), mx.bool_)):  # fmt: skip
        assert bytes(a) == bytes([0, 1, 1, 1]) and a.tolist() == [False, True, True, True]
        assert mx.sum(a.astype(mx.int32)).item() == 3 and mx.array_equal(a, mx.array([False, True, True, True])).item()
    assert x.view(np.uint8).tolist() == [0, 1, 2, 255]  # the memory of others stays as it is
    with pytest.raises(ValueError, match="bools"):
        mx.from_dlpack(fixed, copy=False)
    plain = np.array([True, False])
    shared = mx.from_dlpack(plain)
    plain[1] = True
    assert shared.tolist() == [True, True]


# ---- extents and formats of others ----
def test_buffers_of_too_many_elements():
    with pytest.raises(OverflowError):
        mx.array(np.broadcast_to(np.bool_(True), (2**32 + 4,)))
    with pytest.raises((OverflowError, MemoryError, ValueError)):
        mx.array(np.broadcast_to(np.float64(1), (2**30, 2**29)))


@pytest.mark.parametrize("x", [np.longdouble(1), np.ones(2, np.longdouble), np.clongdouble(1), np.array(["a"]), np.array([object()], object),
                               np.zeros(2, ">f4"), np.zeros(2, "i4,f4")])  # fmt: skip
def test_numbers_without_a_dtype(x):
    for call in (mx.array, lambda v: mx.array([v, v]), lambda v: mx.ones(2) + v, mx.exp):
        with pytest.raises((ValueError, TypeError)):
            call(x)


# ---- self ----
@pytest.mark.parametrize("name", sorted(n for n in vars(mx.array) if callable(getattr(mx.array, n)) and n not in ("__new__", "__doc__")))
def test_methods_take_arrays_as_self(name):
    method = getattr(mx.array, name)
    for self in (5, None, "x", [1.0], np.ones(2), object()):
        for args in ((), (1,), (1, 2)):
            try:
                method(self, *args)
            except TypeError:
                continue
            except Exception as e:
                raise AssertionError(f"array.{name}({self!r}) raises {e!r}") from e
            raise AssertionError(f"array.{name}({self!r}, *{args}) is taken")
