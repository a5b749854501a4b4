"""Indexing and assignment under gradients, compile and vmap; lifetime of what keys and values hold."""

import gc
import math
import threading
import weakref

import numpy as np
import pytest

import keel.core as mx
from index_support import counted, host, k, same


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
