"""Which elements are true, reading by a mask, and take with its modes: against NumPy, and under transforms."""

import keel.core as mx
import numpy as np
import pytest

SHAPES = [(7,), (4, 5), (3, 4, 5), (0,), (3, 0), (1000,)]


@pytest.mark.parametrize("shape", SHAPES)
def test_positions_of_true_elements(shape):
    rng = np.random.default_rng(1)
    for a in (rng.random(shape) < 0.4, np.zeros(shape, np.int8), rng.integers(-1, 2, shape).astype(np.float32)):
        m, want = mx.array(a), np.nonzero(a)
        for got in (mx.nonzero(m), mx.where(m)):
            assert isinstance(got, tuple) and len(got) == len(want) and got[0].dtype == mx.int32
            assert all(np.array_equal(np.array(g), w) for g, w in zip(got, want))
        assert np.array_equal(np.array(mx.argwhere(m)), np.argwhere(a))
        assert np.array_equal(np.array(mx.flatnonzero(m)), np.flatnonzero(a))
        n = len(want[0])
        for size in (0, n // 2, n, n + 3):
            padded = [np.concatenate([w, np.full(3, -1 - i)])[:size] for i, w in enumerate(want)]
            got = mx.nonzero(m, size=size, fill_value=[-1 - i for i in range(len(shape))])
            assert all(np.array_equal(np.array(g), w) for g, w in zip(got, padded))
            flat = np.concatenate([np.flatnonzero(a), [7, 7, 7]])[:size]
            assert np.array_equal(np.array(mx.flatnonzero(m, size=size, fill_value=7)), flat)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("rest", [(), (2,), (2, 3)])
def test_reading_by_a_mask(shape, rest):
    rng = np.random.default_rng(2)
    mask, x = rng.random(shape) < 0.5, rng.random(shape + rest).astype(np.float32)
    for m in (mx.array(mask), mask, mask.tolist() if mask.size else mask):
        assert np.array_equal(np.array(mx.array(x)[m]), x[mask])


def test_what_is_read_has_gradients():
    x = mx.array([1.0, -2, 3, -4])
    assert mx.grad(lambda x: (x[x > 0] ** 2).sum())(x).tolist() == [2, 0, 6, 0]
    assert mx.grad(lambda x: (x[mx.nonzero(x < 0)[0]] * 3).sum())(x).tolist() == [0, 3, 0, 3]
    assert mx.jvp(lambda x: x[x > 0], [x], [mx.array([5.0, 6, 7, 8])])[1][0].tolist() == [5, 7]
    assert mx.vjp(lambda x: x[x > 0], [x], [mx.array([5.0, 6])])[1][0].tolist() == [5, 0, 6, 0]
    curve = mx.grad(lambda x: mx.grad(lambda y: (y[y > 0] ** 3).sum())(x).sum())(x)
    assert curve.tolist() == [6, 0, 18, 0]


def test_without_values_a_size_is_needed():
    x = mx.array([0.0, 2, 0, 4])
    for f in (lambda x: mx.nonzero(x)[0], mx.argwhere, mx.flatnonzero, lambda x: mx.where(x)[0], lambda x: x[x > 0]):
        for transformed in (mx.compile(f), lambda x: mx.vmap(f)(x[None])):
            with pytest.raises(ValueError, match="size="):
                transformed(x)
    read = lambda x: mx.take(x, mx.flatnonzero(x, size=3, fill_value=9), mode="fill", fill_value=-1)
    assert mx.compile(read)(x).tolist() == [2, 4, -1]
    assert mx.vmap(read)(mx.stack([x, x[::-1], mx.ones(4)])).tolist() == [[2, 4, -1], [4, 2, -1], [1, 1, 1]]
    assert mx.compile(mx.grad(lambda x: (read(x) ** 2).sum()))(x).tolist() == [0, 4, 0, 8]


def test_arguments_of_nonzero():
    with pytest.raises(ValueError, match="must not be negative"):
        mx.nonzero(mx.ones(3), size=-1)
    with pytest.raises(ValueError, match="one for each axis"):
        mx.nonzero(mx.ones((2, 2)), size=3, fill_value=[1, 2, 3])
    with pytest.raises(ValueError, match="without axes"):
        mx.nonzero(mx.array(1))
    assert mx.argwhere(mx.array(1)).shape == (1, 0) and mx.argwhere(mx.array(0)).shape == (0, 0)
    with pytest.raises(TypeError, match="'x' and 'y'"):
        mx.where(mx.ones(3), 1)
    with pytest.raises(TypeError, match="size"):
        mx.where(mx.ones(3), 1, 2, size=3)
    with pytest.raises(ValueError, match="mask of shape"):
        mx.ones(3)[mx.array([True, False])]
    with pytest.raises(ValueError, match="mask of shape"):
        mx.ones(3)[mx.ones((3, 1), dtype=mx.bool_)]


@pytest.mark.parametrize("dtype", [mx.int8, mx.int32, mx.int64, mx.uint8, mx.uint64])
@pytest.mark.parametrize("axis", [None, 0, 1, -1])
def test_take_modes(dtype, axis):
    a = np.arange(1, 13, dtype=np.float32).reshape(3, 4)
    at = np.array([[-100, -1, 0], [2, 11, 100]]) if dtype not in (mx.uint8, mx.uint64) else np.array([[0, 1, 3], [4, 12, 200]])
    x, indices = mx.array(a), mx.array(at).astype(dtype)
    n = a.size if axis is None else a.shape[axis]
    clipped = np.take(a, np.clip(at, 0, n - 1), axis)
    assert np.array_equal(np.array(mx.take(x, indices, axis, mode="clip")), clipped)
    assert np.array_equal(np.array(mx.take(x, indices, axis, mode="wrap")), np.take(a, at % n, axis))
    valid = (at >= -n) & (at < n)
    place = valid.reshape((1,) * ((axis or 0) % 2) + at.shape + (1,) * (1 - (axis or 0) % 2)) if axis is not None else valid
    for fill in (None, 5):
        want = np.where(place, np.take(a, np.where(valid, at, 0), axis), np.nan if fill is None else fill)
        got = mx.take(x, indices, axis, mode="fill", fill_value=fill)
        assert np.array_equal(np.array(got), want.astype(np.float32), equal_nan=True)
    along = mx.broadcast_to(indices.reshape(-1)[:, None], (6, 4))
    rows = at.reshape(-1)
    assert np.array_equal(np.array(mx.take_along_axis(x, along, 0, mode="clip")), a[np.clip(rows, 0, 2)])
    assert np.array_equal(np.array(mx.take_along_axis(x, along, 0, mode="wrap")), a[rows % 3])
    valid = (rows >= -3) & (rows < 3)
    want = np.where(valid[:, None], a[np.where(valid, rows, 0)], 0)
    got = mx.take_along_axis(x.astype(mx.int32), along, 0, mode="fill")
    assert got.dtype == mx.int32 and np.array_equal(np.array(got), want)


def test_take_modes_under_transforms_and_their_errors():
    t, at = mx.array([1.0, 2, 3]), mx.array([-5, -1, 0, 2, 3, 7])
    read = lambda mode: lambda t: (mx.take(t, at, mode=mode, fill_value=0 if mode == "fill" else None) * mx.arange(6)).sum()
    assert mx.grad(read("clip"))(t).tolist() == [3, 0, 12]
    assert mx.grad(read("wrap"))(t).tolist() == [6, 5, 4]
    assert mx.grad(read("fill"))(t).tolist() == [2, 0, 4]
    assert mx.compile(read("fill"))(t).item() == read("fill")(t).item()
    lanes = mx.vmap(lambda t, i: mx.take(t, i, mode="wrap"))(mx.stack([t, t * 10]), mx.array([4, -1]))
    assert lanes.tolist() == [2, 30]
    empty = mx.zeros((2, 0))
    assert mx.take(empty, mx.array([1, -1]), axis=1, mode="fill", fill_value=7).tolist() == [[7, 7], [7, 7]]
    for mode in ("clip", "wrap"):
        with pytest.raises(IndexError, match="without elements"):
            mx.take(empty, mx.array([1]), axis=1, mode=mode)
        assert mx.take(empty, mx.zeros((0,), dtype=mx.int32), axis=1, mode=mode).shape == (2, 0)
    with pytest.raises(ValueError, match="'clip', 'wrap'"):
        mx.take(t, at, mode="raise")
    with pytest.raises(ValueError, match="mode='fill' only"):
        mx.take(t, at, mode="clip", fill_value=0)
    with pytest.raises(ValueError, match="integers are taken"):
        mx.take(t, mx.array([0.5]), mode="clip")
    with pytest.raises(IndexError):
        mx.eval(mx.take(t, at))
