"""Indexing, assignment, at, in-place operators and iteration: against NumPy, by rule, in transforms."""

import gc
import itertools
import math
import random
import threading
import weakref

import numpy as np
import pytest

import keel.core as mx


def host(a):
    return np.array(a.astype(mx.float32) if a.dtype == mx.bfloat16 else a)


def same(a, want):
    want = np.asarray(want)
    got = host(a)
    assert got.shape == want.shape
    np.testing.assert_array_equal(got, want)


class Take:
    def __getitem__(self, key):
        return key


k = Take()
I32 = mx.int32


def counted(*shape):
    return np.arange(int(np.prod(shape)), dtype=np.int32).reshape(shape)


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


# ---- masks ----
def test_masks():
    n = counted(3, 4)
    mask, rows = n % 3 == 0, np.array([True, False, True])
    for key, value in ((mask, 7), (mask, counted(int(mask.sum())) + 50), (rows, 7), (rows, [1, 2, 3, 4]), (~mask, 2.5),
                       (rows, counted(2, 4)), (rows, [[5], [6]]), (np.array(True), 3), (np.array(False), 3)):  # fmt: skip
        for given in (mx.array(key), key, key.tolist()):
            a, want = mx.array(n), n.copy()
            a[given] = mx.array(value) if isinstance(value, np.ndarray) else value
            want[key] = value
            same(a, want)
    a = mx.array(n)
    a[a > 5] = mx.arange(100)  # what is left over is not used
    same(a, np.where(n > 5, n - 6, n))
    a[a > 100] = mx.zeros((0,))
    a = mx.array([1.0, 2.0])
    a[mx.array([True, False])] = mx.array(3, mx.float16)
    assert a.dtype == mx.float32


MASKS = {
    "(3,)": np.array([True, False, True]),
    "(4,)": np.array([False, True, True, False]),
    "(3, 4)": counted(3, 4) % 3 == 1,
    "(4, 2)": counted(4, 2) % 3 == 1,
    "none": np.zeros(3, bool),
}


@pytest.mark.parametrize("key", [
    ("(3,)", 0), ("(3,)", ...), ("(3,)", slice(1, 3)), (slice(None), "(4,)"), (slice(None, None, -2), "(4,)"), (..., slice(None), "(4, 2)"),
    ("(3, 4)", 1), ("(3, 4)", None), (None, "(3, 4)"), ("(3,)", "(4,)"), ("(3,)", [1, 3]), ("(3,)", [[1], [3]]), ("(3,)", ..., 1),
    (0, "(4, 2)"), (..., "(4, 2)"), ("none", 1), ("none", [1]), (..., "(4,)", 0), ("(3,)", slice(None), 1), (1, "(4,)", 1),
    ("(3,)", None, [1, 3]), ([0, 2], "(4,)"), ("(3,)", "(4, 2)"),
])  # fmt: skip
def test_masks_among_other_parts(key):
    """A mask stands for the indices of its true elements, for reading and for writing, as in NumPy."""
    key = tuple(MASKS[k] if isinstance(k, str) else k for k in key)
    n = counted(3, 4, 2).astype(np.float32)
    try:
        want = n[key]
    except IndexError:
        for f in (lambda: mx.array(n)[key], lambda: mx.array(n).at[key].add(1)):
            with pytest.raises(ValueError, match="do not broadcast"):
                f()
        return
    for given in (tuple(mx.array(k) if isinstance(k, np.ndarray) else k for k in key), key,
                  tuple(k.tolist() if isinstance(k, np.ndarray) else k for k in key)):  # fmt: skip
        a = mx.array(n)
        same(a[given], want)
        assert np.array_equal(np.array(mx.grad(lambda x: (x[given] ** 2).sum() / 2)(a)), np.array(mx.zeros_like(a).at[given].add(a[given])))
        added, written = n.copy(), n.copy()
        added[key] += 7
        written[key] = 5
        same(a.at[given].add(7), added)
        a[given] = 5
        same(a, written)


def test_masks_without_values():
    x, mask = mx.array(counted(3, 4)), mx.array(MASKS["(3,)"])
    for f in (lambda x, m: x[m, 0], lambda x, m: x.at[m].add(1)):
        for transform in (mx.compile, mx.vmap):
            with pytest.raises(ValueError, match="nonzero.*size"):
                transform(f)(x if transform is mx.compile else mx.stack([x, x]), mask if transform is mx.compile else mx.stack([mask, mask]))


class Foreign:
    """A mask of another library."""

    def __init__(self, mask):
        self.mask, self.ndim, self.dtype = mask, mask.ndim, "other.bool"

    def __array__(self, *args, **kwargs):
        return self.mask


class Unknown(Foreign):
    """One of which only __array__ says what it is."""

    def __init__(self, mask):
        super().__init__(mask)
        del self.ndim, self.dtype


def test_masks_of_others():
    n = counted(3, 4, 2)
    mask, all_of_it = MASKS["(4, 2)"], n % 2 == 1
    same(mx.array(n)[..., Foreign(mask)], n[..., mask])
    same(mx.array(n)[1, Unknown(mask)], n[1, mask])
    same(mx.array(n)[Foreign(all_of_it)], n[all_of_it])
    for key in ((..., Unknown(mask)), (Unknown(all_of_it), Unknown(mask)), (Unknown(all_of_it), 0), (0, 0, Unknown(mask))):
        with pytest.raises(ValueError, match="too many"):
            mx.array(n)[key]


def test_masks_alone_are_added_to():
    n = counted(3, 4)
    for mask in (n % 3 == 1, MASKS["(3,)"], MASKS["none"]):
        want = n.copy()
        want[mask] -= 2
        same(mx.array(n).at[mx.array(mask)].subtract(2), want)
        same(mx.array(n).at[mask.tolist()].subtract(2), want)


def test_masks_that_are_refused():
    a = mx.array(counted(3, 4))
    rows = mx.array([True, False, True])
    for key in ((rows[:2], 0), (0, rows), (..., rows), (rows, rows, rows)):
        with pytest.raises(ValueError, match="has|too many"):
            a[key]
        with pytest.raises(ValueError, match="has|too many"):
            a[key] = 1
        with pytest.raises(ValueError, match="has|too many"):
            a.at[key].add(1)
    with pytest.raises(ValueError, match="without axes"):
        a[mx.array(True), 0]
    with pytest.raises(ValueError, match="do not broadcast"):
        a[rows, [1, 2, 3]]
    with pytest.raises(ValueError, match="mask of shape"):
        a[mx.array([True, False])] = 1
    with pytest.raises(ValueError):
        a[rows] = mx.zeros((5, 5, 5))
    for key in (True, (0, True), False):
        with pytest.raises(ValueError):
            a[key]
    same(a, counted(3, 4))
    a[rows] = mx.array([[1, 2, 3, 4]])  # two rows are true
    with pytest.raises(IndexError) as e:
        mx.eval(a)
    assert e.value.index == 4  # the first value that is missing


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


# ---- gradients and transforms ----
def test_gradients_of_reading():
    n = np.arange(12, dtype=np.float32).reshape(3, 4)
    for key in (k[1], k[:, ::-2], k[[0, 0, 2]], k[[0, 0], [1, 1]], k[1, [0, 0]], k[:, None, 2], k[..., 0:0]):
        weight = np.arange(n[key].size, dtype=np.float32).reshape(n[key].shape) + 1
        want = np.zeros_like(n)
        np.add.at(want, key, weight)
        same(mx.grad(lambda x: (x[key] * mx.array(weight)).sum())(mx.array(n)), want)


def test_gradients_of_products_through_indices():
    """Each factor gets the product of the others of its place."""
    a, u, weight = [2.0, 3.0, 4.0], [5.0, 6.0, 0.0, 7.0, 8.0], np.array([1.0, 10.0, 100.0])
    places = [0, 2, 0, 2, 2]

    def f(a, u):
        return (a.at[mx.array(places)].multiply(u) * mx.array(weight.astype(np.float32))).sum()

    da, du = mx.grad(f, argnums=(0, 1))(mx.array(a), mx.array(u))
    factors = [[v for v, p in zip(u, places) if p == k] for k in range(3)]
    same(da, weight * [math.prod(x) for x in factors])
    others = [[v for k, (v, p) in enumerate(zip(u, places)) if k != j and p == places[j]] for j in range(5)]
    same(du, [weight[p] * a[p] * math.prod(x) for p, x in zip(places, others)])
    _, (tangent,) = mx.jvp(f, [mx.array(a), mx.array(u)], [mx.ones(3), mx.ones(5)])
    assert tangent.item() == sum(da.tolist()) + sum(du.tolist())
    lanes = mx.vmap(mx.grad(f, argnums=1), in_axes=(None, 0))(mx.array(a), mx.stack([mx.array(u), mx.ones(5)]))
    same(lanes, [du.tolist(), [2, 400, 2, 400, 400]])
    rows = mx.grad(lambda x: mx.ones((2, 2)).at[mx.array([1, 1])].multiply(x).sum())(mx.array([[2.0, 3.0], [5.0, 7.0]]))
    same(rows, [[5, 7], [2, 3]])


def test_gradients_of_writing():
    n = np.arange(12, dtype=np.float32).reshape(3, 4) + 1
    weight = mx.array(n)
    for key in (k[1], k[:, 1:3], k[::2, ::-1], k[[0, 2]], k[[0, 2], [1, 3]], k[1:, [0, 3]], k[[2, 0], ::2], k[...]):
        def f(x, v):
            x = mx.array(x)
            x[key] = v
            return (x * weight).sum()

        inside = np.zeros_like(n)
        inside[key] = 1
        dx, dv = mx.grad(f, argnums=(0, 1))(mx.array(n), mx.zeros(n[key].shape))
        same(dx, n * (1 - inside))
        same(dv, n[key])
        assert mx.grad(f, argnums=1)(mx.array(n), mx.array(2.0)).item() == n[key].sum()


def test_gradients_of_masks_and_at():
    n = np.arange(6, dtype=np.float32)

    def masked(x, v):
        x = mx.array(x)
        x[mx.array(n % 2 == 0)] = v
        return (x * mx.array(n)).sum()

    dx, dv = mx.grad(masked, argnums=(0, 1))(mx.array(n), mx.zeros(3))
    same(dx, n * (n % 2))
    same(dv, [0, 2, 4])
    i = mx.array([0, 0, 4])
    dx, dv = mx.grad(lambda x, v: (x.at[i].add(v) * mx.array(n)).sum(), argnums=(0, 1))(mx.array(n), mx.zeros(3))
    same(dx, n)
    same(dv, [0, 0, 4])
    dx, dv = mx.grad(lambda x, v: (x.at[1:3].multiply(v) * mx.array(n)).sum(), argnums=(0, 1))(mx.array(n), mx.array([2.0, 3.0]))
    same(dx, [0, 2, 6, 3, 4, 5])
    same(dv, [1, 4])


def test_gradient_of_a_loop_that_assigns():
    def f(x):
        total = mx.zeros(4)
        for i, row in enumerate(x):
            total[i] += row.sum() * i
            total[mx.array([3])] += row[0]
        return (total * total).sum()

    x = mx.array(np.arange(6, dtype=np.float32).reshape(3, 2))
    got = host(mx.grad(f)(x))
    want = np.zeros((3, 2), np.float64)
    for at in np.ndindex(3, 2):
        ends = []
        for d in (0.5, -0.5):  # a quadratic function: differences are exact
            n = np.arange(6, dtype=np.float64).reshape(3, 2)
            n[at] += d
            t = np.array([0, n[1].sum(), 2 * n[2].sum(), n[:, 0].sum()])
            ends.append((t * t).sum())
        want[at] = ends[0] - ends[1]
    np.testing.assert_allclose(got, want, rtol=1e-6)


def test_compiled():
    def f(x, i, v):
        x = x[:, ::-1]
        x[i] = v
        x[0, 1:] += 1
        x = x.at[i, 0].add(x[0, 1])
        x[x > 20] = -1
        return x[None, i], x[..., 0]

    n = counted(4, 3)
    for i, v in (([0, 0], 5), ([2, 3], 7), ([-1, 1], 30)):
        args = mx.array(n), mx.array(i), mx.array(v)
        for got, want in zip(mx.compile(f)(*args), f(*args)):
            same(got, host(want))


def test_compiled_with_captured_state():
    state = [mx.zeros(3)]

    def step(i):
        state[0][i] += 1
        return state[0].sum()

    compiled = mx.compile(step, inputs=state, outputs=state)
    for i in (0, 2, 2):
        total = compiled(mx.array(i))
    same(state[0], [1, 0, 2])
    assert total.item() == 3


def test_vmapped():
    n = counted(4, 3, 2)
    i = np.array([2, 0, 1, 1])
    same(mx.vmap(lambda x, j: x[j])(mx.array(n), mx.array(i)), n[np.arange(4), i])
    same(mx.vmap(lambda x: x[::-1, 1])(mx.array(n)), n[:, ::-1, 1])
    same(mx.vmap(lambda x: x[[0, 2], None], in_axes=1)(mx.array(n)), n.transpose(1, 0, 2)[:, [0, 2], None])

    def write(x, j, v):
        x = mx.array(x)
        x[j] = v
        x[1:, 0] += 1
        return x.at[mx.array([0, 0]), j - j].add(1)

    want = n.copy()
    for lane, j in enumerate(i):
        want[lane, j] = lane * 10
        want[lane, 1:, 0] += 1
        want[lane, 0, 0] += 2
    same(mx.vmap(write)(mx.array(n), mx.array(i), mx.array([0, 10, 20, 30])), want)


# ---- lifetime ----
def test_nothing_leaks():
    a = mx.zeros((8, 8))
    mx.eval(a)
    key, at = k[mx.array([0, 1]), 1:, None], a.at

    def one():
        a[0], a[1:], a[key], a[[1]], list(a), at[key].add(1)
        a[0] = 1
        a[key] = 2.0
        a[a > 1] = 0
        a.__iadd__(1)
        for wrong in (9, "x", (0, 0, 0), [0.5]):
            with pytest.raises((IndexError, ValueError)):
                a[wrong]
            with pytest.raises((IndexError, ValueError)):
                a[wrong] = 1
        mx.eval(a)

    for _ in range(20):
        one()
    gc.collect()
    before, used = len(gc.get_objects()), mx.get_active_memory()
    for _ in range(200):
        one()
    gc.collect()
    assert len(gc.get_objects()) <= before + 5
    assert mx.get_active_memory() <= used + 4096
    it = iter(a)
    gone = weakref.ref(a)
    del a, at
    it2, it = it, None
    assert gone() is None and len(list(it2)) == 8


def test_threads_that_assign_while_others_read():
    a = mx.zeros(1000)
    stop = threading.Event()
    failures = []

    def read():
        try:
            while not stop.is_set():
                values = a.tolist()
                assert len(values) == 1000 and values == [values[0]] * 1000
        except BaseException as e:
            failures.append(e)

    readers = [threading.Thread(target=read) for _ in range(4)]
    for r in readers:
        r.start()
    for i in range(500):
        a[...] = i
        a += 1
    stop.set()
    for r in readers:
        r.join()
    assert not failures
    assert a[0].item() == 500


def test_subclasses_are_freed():
    class Mine(mx.array):
        pass

    for i in range(1000):
        a = Mine([i])
        a.note = [a]  # a cycle
    del a
    gc.collect()
    assert not [x for x in gc.get_objects() if type(x) is Mine]


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
