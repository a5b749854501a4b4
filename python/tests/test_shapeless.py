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
