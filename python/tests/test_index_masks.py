"""Masks as keys: alone, among other parts, those of others, and which are refused."""

import numpy as np
import pytest

import keel.core as mx
from index_support import counted, same


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
