"""Functions that are traced for any shapes: what they give for other shapes, compiled and from a file, is
what the function itself gives; extents that the function reads are compared."""

import keel.core as mx
import numpy as np
import pytest

FUNCTIONS = {
    "mean": lambda x: x.mean(),
    "mean_axis": lambda x: x.mean(axis=-1),
    "var": lambda x: x.var(axis=0),
    "std": lambda x: mx.std(x + mx.array([0.5]), axis=-1, keepdims=True) if x.ndim else x,
    "sum": lambda x: x.sum(axis=0),
    "prod": lambda x: x.prod(axis=-1),
    "softmax": lambda x: mx.softmax(x, axis=-1),
    "logsumexp": lambda x: mx.logsumexp(x, axis=0),
    "norm": lambda x: mx.linalg.norm(x, axis=-1),
    "norm_all": lambda x: mx.linalg.norm(x),
    "layer_norm": lambda x: mx.fast.layer_norm(x, None, None, 1e-5),
    "rms_norm": lambda x: mx.fast.rms_norm(x, None, 1e-5),
    "ones_like": lambda x: mx.ones_like(x) * x,
    "zeros_like": lambda x: mx.zeros_like(x) + x,
    "full_like": lambda x: mx.full_like(x, 3) * x,
    "rest": lambda x: x[1:],
    "but_last": lambda x: x[:-1],
    "head": lambda x: x[:2],
    "reverse": lambda x: x[::-1],
    "steps": lambda x: x[::2, 1:],
    "last": lambda x: x[-1],
    "column": lambda x: x[:, -1],
    "ellipsis": lambda x: x[..., 0],
    "new": lambda x: x[None, :, 0],
    "flip": lambda x: mx.flip(x) if hasattr(mx, "flip") else x[::-1],
    "split": lambda x: mx.split(x, 2, axis=0)[1],
    "split_at": lambda x: mx.split(x, [1], axis=1)[1],
    "take": lambda x: mx.take(x, mx.array([0, 1]), axis=0),
    "take_flat": lambda x: mx.take(x, mx.array([0, -1])),
    "index_array": lambda x: x[mx.array([1, 0])],
    "index_arrays": lambda x: x[mx.array([1, 0]), mx.array([0, 1])],
    "index_columns": lambda x: x[:, mx.array([1, 0])],
    "take_along": lambda x: mx.take_along_axis(x, mx.argsort(x, axis=-1), axis=-1),
    "at_add": lambda x: x.at[mx.array([0, 0])].add(1),
    "at_slice": lambda x: x.at[1:].multiply(2),
    "outer": lambda x: mx.outer(x, x),
    "inner": lambda x: mx.inner(x, x),
    "tensordot": lambda x: mx.tensordot(x, x, axes=[[0], [0]]),
    "matmul": lambda x: x @ x.T,
    "einsum": lambda x: mx.einsum("ij,kj->ik", x, x),
    "concatenate": lambda x: mx.concatenate([x, x * 2], axis=1),
    "stack": lambda x: mx.stack([x, x], axis=1),
    "pad": lambda x: mx.pad(x, 1),
    "roll": lambda x: mx.roll(x, 1, axis=0),
    "repeat": lambda x: mx.repeat(x, 2, axis=1),
    "tile": lambda x: mx.tile(x, (2, 1)),
    "expand_dims": lambda x: mx.expand_dims(x, 1),
    "flatten": lambda x: x.flatten(),
    "reshape": lambda x: x.reshape(-1),
    "broadcast": lambda x: mx.broadcast_arrays(x, x[:, :1])[1],
    "transpose": lambda x: x.T,
    "moveaxis": lambda x: mx.moveaxis(x, 0, 1),
    "cumsum": lambda x: mx.cumsum(x, axis=0),
    "sort": lambda x: mx.sort(x, axis=-1),
    "topk": lambda x: mx.topk(x, 1, axis=0),
    "max": lambda x: x.max(axis=0),
    "argmax": lambda x: mx.argmax(x, axis=-1),
    "where": lambda x: mx.where(x > 0.5, x, x.mean()),
    "tril": lambda x: mx.tril(x),
    "triu": lambda x: mx.triu(x, 1),
    "diagonal": lambda x: mx.diagonal(x),
    "trace": lambda x: mx.trace(x),
    "clip": lambda x: mx.clip(x, 0.1, 0.8),
    "median": lambda x: mx.median(x, axis=-1),
    "addmm": lambda x: mx.addmm(x, x, mx.ones((1,)) * x.T @ x),
    "take_clip": lambda x: mx.take(x, mx.array([0, 7, -9]), axis=0, mode="clip"),
    "take_wrap": lambda x: mx.take(x, mx.array([0, 7, -9]), axis=1, mode="wrap"),
    "take_fill": lambda x: mx.take(x, mx.array([0, 7, -1]), axis=0, mode="fill"),
    "nonzero": lambda x: x + mx.nonzero(x > 0.5, size=3)[1].sum() + mx.nonzero(x > 0.5, size=3)[0].sum(),
    "argwhere": lambda x: mx.argwhere(x > 0.5, size=4).astype(mx.float32) + x[0, 0],
    "flatnonzero": lambda x: mx.flatnonzero(x > 0.5, size=40, fill_value=-1) + x[0, 0],
    "set_all": lambda x: set_to(x, slice(None), 2.0) + x,
    "set_row": lambda x: set_to(x, 0, x[1]),
    "set_array": lambda x: set_to(x, mx.array([1]), 7.0),
}
SHAPES = [(2, 3), (4, 3), (2, 5), (6, 6), (8, 2)]


def set_to(x, key, value):
    y = x * 1
    y[key] = value
    return y


def loss_of(f):
    def loss(x):
        y = f(x)
        return (y * y).sum() if mx.issubdtype(y.dtype, mx.floating) else (x.sum() + y.sum() * 0.0)

    return loss


TRANSFORMS = {
    "plain": (lambda f: f, lambda shape: shape),
    "grad": (lambda f: mx.grad(loss_of(f)), lambda shape: shape),
    "vmap": (mx.vmap, lambda shape: (3, *shape)),
}


def number(shape):
    n = int(np.prod(shape))
    return mx.array((np.arange(n, dtype=np.float32) * 0.37 % 1.3 + 0.1).reshape(shape))


def same(a, b):
    return a.shape == b.shape and np.allclose(np.array(a), np.array(b), rtol=1e-4, atol=1e-5, equal_nan=True)


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_other_shapes(name, transform, tmp_path):
    wrap, shape_of = TRANSFORMS[transform]
    calls = []

    def function(x):
        calls.append(x)
        return FUNCTIONS[name](x)

    f = wrap(function)
    compiled = mx.compile(f, shapeless=True)
    path = str(tmp_path / "f.keel")
    mx.export_function(path, wrap(FUNCTIONS[name]), number(shape_of(SHAPES[0])), shapeless=True)
    (imported,) = [mx.import_function(path)]
    traced = 0
    for shape in SHAPES:
        x = number(shape_of(shape))
        want = wrap(FUNCTIONS[name])(x)
        assert same(compiled(x), want), shape
        assert same(imported(x)[0], want), shape
        traced = traced or len(calls)
    assert len(calls) == traced


def test_the_mean_of_other_sizes(tmp_path):
    f = mx.compile(lambda x: x.mean(), shapeless=True)
    assert f(mx.ones(2)).item() == 1.0 and f(mx.ones(4)).item() == 1.0
    f = mx.compile(lambda x: x.sum() / x.mean(), shapeless=True)
    assert [f(mx.full((n,), 3.0)).item() for n in (2, 4, 7)] == [2.0, 4.0, 7.0]
    path = str(tmp_path / "f.keel")
    mx.export_function(path, lambda x: x.mean(), mx.ones(2), shapeless=True)
    assert mx.import_function(path)(mx.array([1.0, 2.0, 6.0]))[0].item() == 3.0


# ---- extents that the function reads ----
READ = {  # function, what it gives of ones, which extents (axes of x) are read
    "one": (lambda x: x.sum() * x.shape[0], {0}),
    "last": (lambda x: x.sum() * x.shape[-1], {1}),
    "slice": (lambda x: x.sum() * sum(x.shape[1:]), {1}),
    "unpacked": (lambda x: x.sum() * unpacked(x), {0, 1}),
    "star": (lambda x: x.sum() * max(*x.shape), {0, 1}),
    "tuple": (lambda x: mx.zeros(x.shape) + x, {0, 1}),
    "joined": (lambda x: mx.zeros((2,) + x.shape) + x, {0, 1}),
    "joined_before": (lambda x: mx.zeros(x.shape + (2,)), {0, 1}),
    "equal": (lambda x: x + (x.shape == (2, 3)), {0, 1}),
    "equal_to": (lambda x: x + ((2, 3) == x.shape), {0, 1}),
    "key": (lambda x: x + {(2, 3): 1}.get(x.shape, 2), {0, 1}),
    "len": (lambda x: x.sum() * len(x), {0}),
    "size": (lambda x: x / x.size, {0, 1}),
    "nbytes": (lambda x: x / x.nbytes, {0, 1}),
    "rows": (lambda x: sum(row * i for i, row in enumerate(x)), {0}),
    "reshape": (lambda x: x.reshape(x.shape[0], 1, -1), {0}),
    "numpy": (lambda x: x * float(np.ones(x.shape).sum()), {0, 1}),
    "index": (lambda x: x.sum() * x.shape.index(max(x.shape)), {0, 1}),
    "ndim": (lambda x: x * x.ndim, set()),
    "printed": (lambda x: x * bool(f"{x.shape} {x.shape!r}"), set()),
    "length": (lambda x: x * len(x.shape), set()),
    "diff": (lambda x: mx.diff(x, axis=0), set()),
    "searchsorted": (lambda x: mx.searchsorted(x[:, 0], x), set()),
    "put_along_axis": (lambda x: mx.put_along_axis(x, mx.array([[0]]), mx.array([[1.0]]), 0), set()),
    "cross_entropy": (lambda x: mx.fast.cross_entropy(x, mx.argmax(x, axis=-1)), set()),
    "of_result": (lambda x: x.sum() * (x + x)[1:].shape[0], {0}),
}


def unpacked(x):
    rows, columns = x.shape
    return 2 * rows + columns


@pytest.mark.parametrize("name", READ)
def test_extents_that_are_read(name, tmp_path):
    f, axes = READ[name]
    calls = []
    compiled = mx.compile(lambda x: calls.append(x) or f(x), shapeless=True)
    for shape, anew in (((2, 3), True), ((2, 3), False), ((4, 3), 0 in axes), ((2, 5), 1 in axes), ((2, 3), False)):
        x = number(shape)
        before = len(calls)
        assert same(compiled(x), f(x)), shape
        assert (len(calls) > before) is anew, shape
    path = str(tmp_path / "f.keel")
    mx.export_function(path, lambda a, x: f(x) + a * 0, mx.array(1.0), x=number((2, 3)), shapeless=True)
    imported = mx.import_function(path)
    for shape, axis in (((4, 3), 0), ((2, 5), 1)):
        x = number(shape)
        if axis not in axes:
            assert same(imported(mx.array(1.0), x=x)[0], f(x))
        elif name == "of_result":
            with pytest.raises(ValueError, match="has 3 elements along axis 0; the function was traced with 1"):
                imported(mx.array(1.0), x=x)
        else:
            with pytest.raises(ValueError, match=rf"argument 1 \(x\) has size {shape[axis]} along axis {axis}"):
                imported(mx.array(1.0), x=x)


@pytest.mark.parametrize("name", ["convolve", "unique", "bernoulli", "truncated_normal", "unstack"])
def test_functions_that_read_extents(name):
    """Those that docs/python.md lists: they are traced anew, and never wrong."""
    key = mx.random.key(1)
    f = {
        "convolve": lambda x: mx.convolve(x, x),
        "unique": lambda x: mx.unique(x, 3),
        "bernoulli": lambda x: mx.random.bernoulli(x, key=key),
        "truncated_normal": lambda x: mx.random.truncated_normal(x, x + 1, key=key),
        "unstack": lambda x: sum(mx.unstack(x)),
    }[name]
    compiled = mx.compile(f, shapeless=True)
    for n in (3, 5, 4, 3):
        x = number((n,)) * 0.7
        assert same(compiled(x), f(x)), n


def test_a_result_with_other_axes(tmp_path):
    """Which axes are squeezed depends on the extents: the function is traced anew, one of a file says so."""
    f = mx.compile(lambda x: mx.squeeze(x)[0] + 1, shapeless=True)
    path = str(tmp_path / "f.keel")
    mx.export_function(path, lambda x: mx.squeeze(x) + 1, number((2, 3)), shapeless=True)
    imported = mx.import_function(path)
    for shape in ((2, 3), (1, 3), (2, 1), (2, 3)):
        x = number(shape)
        assert same(f(x), mx.squeeze(x)[0] + 1)
        if 1 not in shape:
            assert same(imported(x)[0], mx.squeeze(x) + 1)
        else:
            with pytest.raises(ValueError, match="squeeze"):
                imported(x)


def test_errors_are_those_of_the_function():
    f = mx.compile(lambda x, y: x + y, shapeless=True)
    f(mx.ones((2, 3)), mx.ones((2, 3)))
    with pytest.raises(ValueError, match="add"):
        f(mx.ones((2, 3)), mx.ones((2, 4)))
    assert f(mx.ones((1, 3)), mx.ones((4, 1))).shape == (4, 3)


def test_inside_of_each_other():
    inner = mx.compile(lambda x: mx.softmax(x, axis=-1) * x.shape[0], shapeless=True)
    outer = mx.compile(lambda x: mx.grad(lambda y: (inner(y) ** 2).sum())(x[1:]), shapeless=True)
    plain = lambda x: mx.grad(lambda y: ((mx.softmax(y, axis=-1) * y.shape[0]) ** 2).sum())(x[1:])  # noqa: E731
    for shape in ((3, 2), (3, 4), (5, 2)):
        x = number(shape)
        assert same(outer(x), plain(x)), shape
