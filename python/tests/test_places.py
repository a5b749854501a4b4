"""Places and counts of elements, as NumPy has them: nonzero, argwhere, count_nonzero, unique, and the first of bools."""

import numpy as np
import pytest

import keel.core as mx

rng = np.random.default_rng(1)
SHAPES = [(1,), (7,), (8,), (9,), (3, 5), (64, 3), (1003,), (2, 3, 4), (0,), (3, 0)]
DTYPES = [bool, np.uint8, np.int16, np.float32, np.float64, np.int64, np.complex64]


def some(shape, dtype):
    x = np.array((rng.integers(0, 3, shape) == 1).astype(dtype))
    if dtype is np.complex64:
        x *= 1j
    if dtype is np.float32 and x.size > 2:
        x.flat[1] = np.nan
    return x


@pytest.mark.parametrize("dtype", DTYPES)
def test_nonzero(dtype):
    for shape in SHAPES:
        x = some(shape, dtype)
        a = mx.array(x)
        views = [(a, x), (a[::2], x[::2])] + ([(a.T, x.T)] if x.ndim > 1 else [])
        for ours, theirs in views:
            for p, q in zip(mx.nonzero(ours), np.nonzero(theirs), strict=True):
                assert np.array_equal(np.array(p), q)
            assert np.array_equal(np.array(mx.argwhere(ours)), np.argwhere(theirs))
            assert np.array_equal(np.array(mx.flatnonzero(ours)), np.flatnonzero(theirs))
            assert np.array_equal(np.array(ours[ours != 0]), theirs[theirs != 0], equal_nan=dtype is np.float32)


@pytest.mark.parametrize("dtype", DTYPES)
def test_count_nonzero(dtype):
    for shape in [(), *SHAPES]:
        x = some(shape, dtype)
        for axis in (None, *range(x.ndim)):
            count = mx.count_nonzero(mx.array(x), axis=axis)
            assert count.dtype == mx.int32 and np.array_equal(np.array(count), np.count_nonzero(x, axis=axis))
        assert np.array_equal(np.array(mx.count_nonzero(mx.array(x), axis=())), x != 0)


@pytest.mark.parametrize("n", [1, 2, 5, 100, 5000])
def test_unique(n):
    for high in (1, 3, 50, 10000):
        x = rng.integers(0, high, n).astype(np.int32)
        values, first, inverse, counts = np.unique(x, return_index=True, return_inverse=True, return_counts=True)
        for size in (0, 1, len(values), len(values) + 3, n, n + 7):
            ours = [np.array(r) for r in mx.unique(mx.array(x), size, True, True, True)]
            m = min(size, len(values))
            assert np.array_equal(ours[0][:m], values[:m]) and np.array_equal(ours[1][:m], first[:m])
            assert np.array_equal(ours[2], inverse) and np.array_equal(ours[3][:m], counts[:m])
            assert all(len(r) == size for r in (ours[0], ours[1], ours[3])) and not ours[3][m:].any()


@pytest.mark.parametrize("share", [0, 1, 0.5, 1e-4])
def test_first_of_bools(share):
    for n in (1, 5, 31, 1000, 70000, 300001):
        x = rng.random(n) < share
        for y in (x, np.stack([x, x[::-1]]), np.stack([x, x[::-1]], 1)):
            for axis in (None, *range(y.ndim)):
                for f in ("argmax", "argmin"):
                    assert np.array_equal(np.array(getattr(mx, f)(mx.array(y), axis)), getattr(np, f)(y, axis))
