"""Element-wise results of transposed arrays lie as these do; what needs them in rows, and every transform, gives the same values."""

import numpy as np
import pytest

import keel.core as mx

rng = np.random.default_rng(0)
X = rng.normal(size=(40, 50)).astype(np.float32)
Z = rng.normal(size=(50, 40)).astype(np.float32)
x, z = mx.array(X), mx.array(Z)

FUNCTIONS = {
    "rows meet it": lambda a: (mx.tanh(a.T) * z).sum(),
    "rows and itself": lambda a: mx.softmax(mx.exp(a.T) * 2, axis=-1)[0].sum() + (a.T * a.T + z).sum(),
    "copied": lambda a: (mx.contiguous(a.T * 2) * z).sum() + mx.sin(a.T * 2).sum(),
    "reshaped": lambda a: ((a.T * 2).reshape(-1) * z.reshape(-1)).sum(),
}


def test_strides_are_those_of_the_operand():
    with mx.stream(mx.cpu):
        turned = (mx.exp(x.T), x.T * 2, x.T + mx.exp(x.T), x.T.astype(mx.float16))
        rows = (x.T + z, mx.contiguous(x.T * 2), mx.where(x.T > 0, x.T, z))
    assert all(memoryview(y).strides == (y.itemsize, 50 * y.itemsize) for y in turned)
    assert all(memoryview(y).strides == (160, 4) for y in rows)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients(name):
    f = FUNCTIONS[name]
    rows = mx.grad(lambda a: f(mx.contiguous(a.T).T))(x)  # the transpose of a.T is in rows there
    for g in (mx.grad(f)(x), mx.compile(mx.grad(f))(x)):
        assert np.allclose(np.array(g), np.array(rows), 1e-5, 1e-5)


def test_transforms():
    both = mx.vmap(lambda a: mx.contiguous(a.T * 2) + 1)(mx.stack([x, x * 2]))
    assert np.allclose(np.array(both), np.stack([X.T * 2 + 1, X.T * 4 + 1]))
    _, (tangent,) = mx.jvp(lambda a: mx.contiguous(mx.sin(a.T)), (x,), (x,))
    assert np.allclose(np.array(tangent), np.cos(X.T) * X.T, 1e-5, 1e-5)
    second = mx.grad(lambda a: mx.grad(lambda b: (mx.sin(b.T) * z).sum())(a).sum())(x)
    assert np.allclose(np.array(second), -np.sin(X) * Z.T, 1e-4, 1e-5)


def test_compiled_with_other_layouts():
    f = mx.compile(lambda a, b: (a.T * 2 + b, mx.contiguous(a.T * 2), (a.T * 2).sum(0)))
    for a, A in ((x, X), (x * 2, X * 2), (z.T, Z.T)):
        for got, want in zip(f(a, z), (A.T * 2 + Z, A.T * 2, (A.T * 2).sum(0)), strict=True):
            assert np.allclose(np.array(got), want, 1e-5, 1e-4)


def test_random_numbers_are_drawn_once():
    for draw in (mx.random.normal, mx.random.uniform, mx.random.gumbel):
        key = mx.random.key(3)
        want = np.array(draw(shape=(64, 96), key=key)).T * 2 + 1
        y = draw(shape=(64, 96), key=key).T * 2 + 1
        assert np.array_equal(np.array(mx.contiguous(y)), want) and np.array_equal(np.array(y), want)
        assert np.array_equal(np.array(draw(shape=(64, 96), key=key).T * 2 + mx.ones((96, 64))), want)
