"""Indexing, assignment, at and iteration: against NumPy, by rule."""

import itertools
import random

import numpy as np
import pytest

import keel.core as mx
from index_support import I32, counted, k, same


# ---- reading ----
def to_mx(key):
    """The key for keel: arrays of NumPy become arrays."""
    if isinstance(key, tuple):
        return tuple(to_mx(x) for x in key)
    return mx.array(key) if isinstance(key, np.ndarray) else key


two, grid = np.array([0, 2]), np.array([[0, -1], [1, 2]])
KEYS = [
    k[0], k[-1], k[1, 2], k[1, 2, 3], k[:], k[...], k[()], k[None], k[:, None], k[..., None], k[None, ..., None],
    k[1:], k[:-1], k[::2], k[::-1], k[5:1], k[1:100], k[-100:2], k[3:0:-2], k[:, 1], k[..., 1], k[:, ::-1, 1:3],
    k[0, ..., 0], k[0, None, 1], k[:, :, -1:], k[two], k[grid], k[:, two], k[..., two], k[two, two], k[two, :, two],
    k[:, two, two], k[0, two], k[two, 0], k[0, :, two], k[two, :, 0], k[:, 0, two], k[two, None], k[None, two],
    k[two, None, two], k[:, two, None, 1], k[grid, two], k[:, grid, two], k[two, 1:, ::-1], k[::2, two, 1:],
    k[1:, two, ::-2], k[np.array(1)], k[np.array(1), two], k[..., np.array(2), None], k[two[:, None], two],
    k[[0, 1]], k[[0, 1], [2, 0]], k[[[0], [1]], 1], k[np.int64(1)], k[np.uint8(2), np.array(1)], k[two[:0]],
    k[two[:0], 1:], k[grid[:0], two], k[0:0, two], k[..., 0:0], k[two.astype(np.uint8)], k[two.astype(np.int64), two],
]  # fmt: skip


@pytest.mark.parametrize("i", range(len(KEYS)))
def test_get(i):
    key, n = KEYS[i], counted(3, 4, 5)
    same(mx.array(n)[to_mx(key)], n[key])


@pytest.mark.parametrize("i", range(len(KEYS)))
def test_set(i):
    """A value of the shape of a[key], one that broadcasts, and a number."""
    key, n = KEYS[i], counted(3, 4, 5)
    shape = n[key].shape
    for value in (counted(*shape) + 100, counted(*shape[-1:]) + 100, 7):
        if isinstance(value, np.ndarray) and (not value.size or (isinstance(key, tuple) and apart(key))):
            continue
        a, want = mx.array(n), n.copy()
        want[key] = value
        a[to_mx(key)] = mx.array(value) if isinstance(value, np.ndarray) else value
        same(a, want)


def apart(key):
    """Whether other axes stand between an int and an array: test_set_apart."""
    kinds = ["a" if isinstance(x, (np.ndarray, list)) and np.ndim(x) else "i" if np.ndim(x) == 0 and x is not None and
             not isinstance(x, slice) and x is not ... else "s" for x in key]  # fmt: skip
    text = "".join(kinds).strip("s")
    return "a" in text and "i" in text and "s" in text


@pytest.mark.parametrize("i", range(len(KEYS)))
def test_add_in_place_of_a_part(i):
    key, n = KEYS[i], counted(3, 4, 5)
    a, want = mx.array(n), n.copy()
    a[to_mx(key)] += 3
    want[key] += 3
    same(a, want)


@pytest.mark.parametrize("i", range(len(KEYS)))
def test_at(i):
    key, n = KEYS[i], counted(3, 4, 5)
    for name, f in (("add", np.add), ("subtract", np.subtract), ("multiply", np.multiply),
                    ("maximum", np.maximum), ("minimum", np.minimum)):  # fmt: skip
        a, want = mx.array(n), n.copy()
        f.at(want, key, 13)
        same(getattr(a.at[to_mx(key)], name)(13), want)
        same(a, n)


def random_key(rng, shape):
    common = [rng.randint(0, 3) for _ in range(rng.randint(0, 2))]
    key, axis = [], 0
    while axis < len(shape) and rng.random() < 0.85:
        r, extent = rng.random(), shape[axis]
        if r < 0.1:
            key.append(None)
            continue
        if r < 0.35:
            key.append(rng.randint(-extent, extent - 1))
        elif r < 0.6:
            ends = [rng.choice([None, rng.randint(-7, 7)]) for _ in range(2)]
            key.append(slice(*ends, rng.choice([None, None, 1, 2, -1, -2, 3])))
        else:
            to = [d if rng.random() < 0.8 else 1 for d in common]
            at = [rng.randint(-extent, extent - 1) for _ in range(int(np.prod(to)))]
            key.append(np.array(at, rng.choice(["int8", "int32", "int64"])).reshape(to))
        axis += 1
    if rng.random() < 0.2:
        key.append(...)
    return tuple(key)


@pytest.mark.parametrize("seed", range(8))
def test_random_keys(seed):
    rng = random.Random(seed)
    for _ in range(250):
        n = counted(*(rng.randint(1, 5) for _ in range(rng.randint(1, 4))))
        key = random_key(rng, n.shape)
        part = n[key]
        same(mx.array(n)[to_mx(key)], part)
        a, want = mx.array(n), n.copy()
        a[to_mx(key)] += 5
        want[key] += 5
        same(a, want)
        np.add.at(want, key, 2)
        same(a.at[to_mx(key)].add(2), want)
        value = counted(*part.shape) + 100
        if not apart(key):
            a, want = mx.array(n), n.copy()
            a[to_mx(key)] = mx.array(value)
            want[key] = value  # where indices repeat, the last value stays in both
            same(a, want)
            few = counted(*(d if rng.random() < 0.6 else 1 for d in part.shape))
            more = few.reshape([1] * rng.randint(0, 2) + list(few.shape))
            a[to_mx(key)] = mx.array(more)  # broadcasts, with more leading axes than the part
            want[key] = few
            same(a, want)
            wrong = counted(*part.shape[:-1], part.shape[-1] + 2) if part.shape else counted(2)
            with pytest.raises(ValueError):
                a[to_mx(key)] = mx.array(wrong)


DTYPES = [mx.bool_, mx.uint8, mx.uint16, mx.uint32, mx.uint64, mx.int8, mx.int16, mx.int32, mx.int64,
          mx.float16, mx.bfloat16, mx.float32, mx.float64, mx.complex64]  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_dtype(dtype):
    a = mx.array([[1, 0, 3], [4, 5, 0]]).astype(dtype)
    want = np.array(a.tolist())
    for key in (k[1], k[:, ::-2], k[[1, 0], 1], k[[0, 1]]):
        assert a[key].dtype == dtype
        assert a[key].tolist() == want[key].tolist()
        b, w = mx.array(a), want.copy()
        b[key] = True
        w[key] = True
        assert b.dtype == dtype
        assert b.tolist() == w.tolist()
    b = a.at[mx.array([0, 0])].add(mx.array(1).astype(dtype))
    assert b.dtype == dtype
    assert b[1].tolist() == a[1].tolist()


@pytest.mark.parametrize("dtype", DTYPES[1:9], ids=str)
def test_every_dtype_of_indices(dtype):
    n = counted(4, 3)
    same(mx.array(n)[mx.array([3, 0, 3]).astype(dtype)], n[[3, 0, 3]])
    same(mx.array(n)[mx.array([3, 0]).astype(dtype), mx.array([-1, 1])], n[[3, 0], [-1, 1]])


def test_keys_that_share_the_value():
    a = mx.array([1, 2, 3])
    for key in (..., (), slice(None)):
        b = a[key]
        assert b is not a
        b[0] = 9
        same(a, [1, 2, 3])


def test_no_axes():
    a = mx.array(5)
    same(a[...], 5)
    same(a[()], 5)
    same(a[None], [5])
    same(a[None, None], [[5]])
    a[...] = 6
    same(a, 6)
    a[()] = mx.array([7])
    same(a, 7)
    same(a.at[...].add(1), 8)
    for key in (0, slice(None), mx.array(0), [0]):
        with pytest.raises(ValueError, match="too many indices"):
            a[key]


def test_arrays_of_numpy_and_lists():
    n = counted(3, 4)
    a = mx.array(n)
    same(a[np.array([0, 2])], n[[0, 2]])
    same(a[np.array(1)], n[1])
    same(a[np.array([0, 2]), np.array([1, 1])], n[[0, 2], [1, 1]])
    same(a[[]], n[[]])
    same(a[:, []], n[:, []])
    same(a[[mx.array(0), 2]], n[[0, 2]])
    a[np.array([0, 2])] = [1, 2, 3, 4]
    same(a[2], [1, 2, 3, 4])


def test_an_index_of_another_type():
    class Two:
        def __index__(self):
            return 2

    a = mx.array([5, 6, 7])
    assert a[Two()].item() == 7
    same(a[: Two()], [5, 6])


# ---- writing ----
def test_assignment_rebinds():
    a = mx.array([1, 2, 3])
    alias, copy, part = a, mx.array(a), a[...]
    later = a + 1  # not computed yet
    at = a.at[0]
    a[0] = 9
    same(a, [9, 2, 3])
    assert alias is a
    same(copy, [1, 2, 3])
    same(part, [1, 2, 3])
    same(later, [2, 3, 4])
    same(at.add(1), [2, 2, 3])
    part[1] = 7
    same(a, [9, 2, 3])


def test_assignment_keeps_views_of_memory():
    a = mx.array([1, 2, 3])
    mx.eval(a)
    view = np.array(a, copy=False)
    a[0] = 9
    same(a, [9, 2, 3])
    assert view.tolist() == [1, 2, 3]


def test_the_value_is_cast():
    a = mx.array([1, 2, 3])
    for key, value in ((0, 7.9), (slice(1, 2), mx.array([8.5])), ([2], np.array([9.5]))):
        a[key] = value
    assert a.dtype == I32
    same(a, [7, 8, 9])
    a[...] = 2.5
    assert a.dtype == I32
    same(a, [2, 2, 2])
    a[:] = mx.array([1.5, 2.5, 3.5])
    assert a.dtype == I32
    same(a, [1, 2, 3])
    a[0] = True
    a[1] = 3 + 2j
    same(a, [1, 3, 3])
    b = mx.array([0.0], mx.float64)
    b[0] = np.array(0.1)
    assert b.item() == 0.1  # not rounded on its way


def test_the_value_broadcasts():
    a = mx.zeros((2, 3), I32)
    a[:] = [1, 2, 3]
    same(a, [[1, 2, 3]] * 2)
    a[:, :] = mx.array([[4], [5]])
    same(a, [[4] * 3, [5] * 3])
    a[0] = mx.array([[[6]]])  # leading axes of extent 1 count for nothing
    a[1, 1] = mx.array([[7]])
    a[:, 2] = mx.array([[8, 9]])
    a[None] = a[None]
    same(a, [[6, 6, 8], [5, 7, 9]])
    a[[1, 0], 0] = mx.array([[1, 2]])
    same(a[:, 0], [2, 1])
    for key, value in ((0, [1, 2]), ([0, 1], mx.zeros((3, 3))), (k[:, None], mx.zeros((2, 3))), (k[0, 0], mx.zeros(2))):
        with pytest.raises(ValueError, match="does not broadcast"):
            a[key] = value
    same(a, [[2, 6, 8], [1, 7, 9]])


def test_set_apart():
    """Where other axes separate an int from an array, both layouts of the value are taken."""
    n = counted(2, 3, 4)
    idx = np.array([0, 3])
    want = n.copy()
    want[0, :, idx] = counted(2, 3) + 100
    a = mx.array(n)
    a[0, :, mx.array(idx)] = mx.array(counted(2, 3) + 100)  # as a[key] is
    same(a, want)
    a = mx.array(n)
    a[0, :, mx.array(idx)] = mx.array((counted(2, 3) + 100).T)  # as MLX has it
    same(a, want)
    idx = np.array([0, 3, 1])  # both layouts fit: MLX's counts, but for what a[key] gave
    value = counted(3, 3) + 100
    a, want = mx.array(n), n.copy()
    a[0, :, mx.array(idx)] = mx.array(value)
    want[0, :, idx] = value.T
    same(a, want)
    a, want = mx.array(n), n.copy()
    a[0, :, mx.array(idx)] *= mx.array(value)
    want[0, :, idx] *= value
    same(a, want)
    a[0, :, mx.array(idx)] = a[0, :, mx.array(idx)]
    same(a, want)


def test_repeated_indices():
    a = mx.array([0, 0, 0])
    a[mx.array([1, 1])] = mx.array([5, 6])
    same(a, [0, 6, 0])
    a[mx.array([2, 2])] += 1
    same(a, [0, 6, 1])
    same(a.at[mx.array([2, 2])].add(1), [0, 6, 3])


def test_nothing_is_written():
    a = mx.array([[1, 2], [3, 4]])
    for key in (k[0:0], k[1, 5:], k[mx.zeros((0,), I32)], k[mx.array([0, 1]), 0:0], k[[], 0]):
        a[key] = 9
        same(a, [[1, 2], [3, 4]])
        same(a.at[key].multiply(9), [[1, 2], [3, 4]])
    a = mx.zeros((0, 2))
    a[...] = 1
    a[mx.zeros((0,), I32)] = 1
    same(a, np.zeros((0, 2)))
    same(a[mx.zeros((0, 3), I32), None], np.zeros((0, 3, 1, 2)))


# ---- errors ----
@pytest.mark.parametrize("key, index, axis, size", [(k[3], 3, 0, 3), (k[-4], -4, 0, 3), (k[0, 4], 4, 1, 4), (k[..., -5], -5, 1, 4),
                                                    (k[[0], 9], 9, 1, 4), (k[2**70], 2**63 - 1, 0, 3), (k[None, np.int64(7)], 7, 0, 3)])  # fmt: skip
def test_int_out_of_range(key, index, axis, size):
    a = mx.array(counted(3, 4))
    calls = [lambda: a[key], lambda: a.__setitem__(key, 1), lambda: a.at[key].add(1)]
    for call in calls:
        with pytest.raises(IndexError, match=f"axis {axis} of {size} elements") as e:
            call()
        got = e.value
        assert (got.index, got.axis, got.axis_size, got.code) == (index, axis, size, "EINDEX")
        assert (got.position, got.tensor, got.file) == (None, None, None)
    same(a, counted(3, 4))


@pytest.mark.parametrize("key, index, axis, size, position", [
    (k[mx.array([0, 3, 1])], 3, 0, 3, 1), (k[:, mx.array([[0, 0], [0, -5]])], -5, 1, 4, 3),
    (k[mx.array([0, 1]), mx.array([3, 4])], 4, 1, 4, 1), (k[1, mx.array([4])], 4, 1, 4, 0), (k[[1, 7]], 7, 0, 3, 1),
    (k[1:, mx.array([4])], 4, 1, 4, 0)])  # fmt: skip
def test_array_out_of_range(key, index, axis, size, position):
    def check(result, operation):
        with pytest.raises(IndexError) as e:
            mx.eval(result)
        got = e.value
        assert (got.index, got.axis, got.axis_size, got.position) == (index, axis, size, position)
        assert got.operation in operation

    a = mx.array(counted(3, 4))
    check(a[key], ("take", "gather"))  # by one index array, or by several
    b = mx.array(a)
    b[key] = 1
    check(b, ("scatter",))
    check(a.at[key].add(1), ("scatter", "scatter_add"))


def test_index_array_on_an_axis_without_elements():
    a = mx.zeros((0, 3))
    for call in (lambda: a[mx.array([0])], lambda: a[[0], 1:], lambda: a.__setitem__([0], 1)):
        with pytest.raises(IndexError, match="axis 0 has no elements"):
            call()


@pytest.mark.parametrize("key", [1.0, "a", b"x", {}, 1j, range(2), object(), mx.array(0.5), mx.array([1.0]), [0.5], np.array([0.5]),
                                 k[..., ...], k[0, 0, 0], k[:, :, :], k[..., 0, 0, 0], k[0, "a"], k[0, (0,)], k[0, 1.0],
                                 k[0.5:], k["a":], k[::0], k[0, :1.5], [None], [[0], [0, 0]], [slice(None)], np.float64(1)], ids=repr)  # fmt: skip
def test_wrong_keys(key):
    a = mx.array(counted(3, 4))
    for call in (lambda: a[key], lambda: a.__setitem__(key, 1), lambda: a.at[key].add(1)):
        with pytest.raises(ValueError):
            call()
    same(a, counted(3, 4))


def test_wrong_shapes_of_indices():
    with pytest.raises(ValueError, match="do not broadcast"):
        mx.zeros((3, 3))[mx.array([0, 1]), mx.array([0, 1, 2])]
    with pytest.raises(ValueError, match="at most"):
        mx.zeros((2,))[(None,) * 64]
    with pytest.raises(ValueError, match="at most"):
        mx.zeros((2,))[(None,) * 200]
    with pytest.raises(ValueError, match="more than 64 axes together"):
        mx.zeros((1,) * 40).__setitem__((mx.zeros((1,) * 25, I32),), 1)


def test_wrong_values():
    a = mx.array([1, 2])
    with pytest.raises(TypeError):
        a[0] = None
    with pytest.raises(TypeError):
        a.at[0].add(None)
    with pytest.raises(TypeError):
        a.at[0].add()
    with pytest.raises(TypeError):
        del a[0]
    for value in ("x", object(), {}, [[1], [2, 3]]):
        with pytest.raises(ValueError):
            a[0] = value
    with pytest.raises(ValueError, match="does not fit"):
        mx.array([1], mx.uint8)[0:] = 300
    with pytest.raises(ValueError, match="key is missing"):
        a.at.add(1)
    with pytest.raises(TypeError):
        mx.ArrayAt()
    with pytest.raises(TypeError):
        mx.ArrayIterator()
    same(a, [1, 2])


def test_exceptions_of_keys_come_through():
    class Bad:
        def __index__(self):
            raise KeyError("mine")

    for call in (lambda: mx.zeros(3)[Bad()], lambda: mx.zeros(3)[: Bad()]):
        with pytest.raises(KeyError, match="mine"):
            call()


# ---- at ----
def test_at_accumulates():
    a = mx.array([1.0, 2.0, 3.0])
    i = mx.array([0, 0, 2])
    same(a.at[i].add(mx.array([1, 2, 3])), [4, 2, 6])
    same(a.at[i].subtract(1), [-1, 2, 2])
    same(a.at[i].multiply(2), [4, 2, 6])
    same(a.at[i].divide(2), [0.25, 2, 1.5])
    same(a.at[i].maximum(mx.array([5, 4, 0])), [5, 2, 3])
    same(a.at[i].minimum(mx.array([5, -4, 0])), [-4, 2, 0])
    same(a.at[1:].add(value=1), [1, 3, 4])
    same(a.at[...].divide(mx.array([2, 4, 8])), [0.5, 0.5, 0.375])
    same(a, [1, 2, 3])
    assert isinstance(a.at, mx.ArrayAt) and isinstance(a.at[0], mx.ArrayAt)


def test_at_keeps_the_dtype():
    for key in (k[0], k[...], k[[0]], k[None]):
        b = mx.array([4, 2]).at[key].add(1.9)
        assert b.dtype == I32
        assert b[0].item() == 5
    assert mx.array([7], mx.uint8).at[0].subtract(9).item() == 254
    assert mx.array([4]).at[0].divide(0.5).item() == 8


# ---- iteration ----
def test_iteration():
    n = counted(3, 2)
    a = mx.array(n)
    for got, want in itertools.zip_longest(a, n):
        same(got, want)
    it = iter(a)
    assert isinstance(it, mx.ArrayIterator) and iter(it) is it
    a[0] = 9  # the iterator goes over what the array was
    same(next(it), [0, 1])
    assert len(list(it)) == 2 and list(it) == []
    assert [x.item() for x in reversed(mx.array([1, 2, 3]))] == [3, 2, 1]
    assert list(mx.zeros((0, 2))) == []
    assert len(a) == 3
    x, y = mx.array([1, 2])
    assert (x.item(), y.item()) == (1, 2)
    with pytest.raises(IndexError):
        iter(mx.array(1))
    with pytest.raises(TypeError):
        len(mx.array(1))


def test_contains():
    a = mx.array([1, 2, 3])
    assert 2 in a and 4 not in a and mx.array(3) in a
    assert 0 not in mx.zeros((0,))
    with pytest.raises(ValueError):
        1 in mx.zeros((2, 2))
    with pytest.raises(IndexError):
        1 in mx.array(1)
