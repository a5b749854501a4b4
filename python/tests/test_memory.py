"""A million calls of each kind leave nothing behind: blocks of memory and references are counted."""

import gc
import sys

import keel.core as mx
import pytest

N = 3000
a = mx.array([1.0, 2.0])
i = mx.array([1, 0])
value_and_grad = mx.value_and_grad(lambda x: (x * x).sum())
compiled = mx.compile(lambda x: mx.exp(x) * 2)


def raises():
    with pytest.raises(ValueError):
        mx.reshape(a, (3,))


def raises_in_callback():
    try:
        mx.grad(lambda x: 1 / 0)(a)
    except ZeroDivisionError:
        pass


def wrong_index():
    for key in (2, (0, 0), "x", [0.5], (slice(0.5), 0), (i, mx.zeros((3,), mx.int32))):
        with pytest.raises((IndexError, ValueError)):
            a[key]
        with pytest.raises((IndexError, ValueError)):
            a[key] = 1


def assign():
    b = a + 0
    b[0] = 3.0
    b[i] = 1.0
    b += 1


def dlpack_that_is_dropped():
    a.__dlpack__()
    a.__dlpack__(max_version=(1, 0), copy=True)


def printed():
    with mx.printoptions(precision=2):
        repr(a)


def custom():
    f = mx.custom_function(lambda x: mx.exp(x))
    f.vjp(lambda primals, cotangents, outputs: cotangents * outputs)
    mx.grad(lambda x: f(x).sum())(a)


def compiled_with_state():
    state = [mx.array(1.0)]

    def step(x):
        state[0] = state[0] + x.sum()
        return x * state[0]

    mx.compile(step, inputs=state, outputs=state)(a)


CALLS = {
    "buffer": lambda: memoryview(a),
    "dlpack": dlpack_that_is_dropped,
    "pickle": lambda: a.__reduce__()[0](*a.__reduce__()[1]),
    "print": printed,
    "kernel": lambda: mx.fast.cuda_kernel("k", ["x"], ["y"], "y[0] = x[0];"),
    "operator": lambda: a + 1,
    "function": lambda: mx.exp(a),
    "keywords": lambda: mx.sum(a, axis=0, keepdims=True),
    "lists": lambda: mx.array([[1, 2], [3, 4.5]]),
    "item": lambda: a.sum().item(),
    "tolist": lambda: a.tolist(),
    "repr": lambda: repr(a),
    "parts": lambda: mx.split(a, 2),
    "eval": lambda: mx.eval(a + 1, [a * 2], {"x": a - 1}),
    "index": lambda: (a[0], a[::-1], a[None], a[i]),
    "index lists": lambda: (a[[0]], a[[0, 1], None], a[i, None]),
    "assign": assign,
    "at": lambda: (a.at[0].add(1), a.at[i].divide(2.0)),
    "iterate": lambda: [list(a), list(reversed(a))],
    "wrong index": wrong_index,
    "buffer": lambda: bytes(memoryview(a)),
    "value_and_grad": lambda: value_and_grad(a),
    "new grad": lambda: mx.grad(lambda x: x.sum())(a),
    "vmap": lambda: mx.vmap(lambda x: x + 1)(a),
    "compiled": lambda: compiled(a),
    "new compiled": lambda: mx.compile(lambda x: x + 1)(a),
    "compiled with state": compiled_with_state,
    "new shapeless": lambda: mx.compile(lambda x: x + 1, shapeless=True)(a),
    "custom function": custom,
    "jvp": lambda: mx.jvp(lambda x: x * x, [a], [a]),
    "vjp": lambda: mx.vjp(lambda x: x * x, [a], [a]),
    "checkpoint": lambda: mx.checkpoint(lambda x: x + 1)(a),
    "error": raises,
    "error in callback": raises_in_callback,
}


@pytest.mark.parametrize("name", CALLS)
def test_nothing_is_left(name):
    call = CALLS[name]
    for _ in range(100):
        call()
    gc.collect()
    before = sys.getallocatedblocks(), sys.getrefcount(mx.array), sys.getrefcount(None)
    for _ in range(N):
        call()
    gc.collect()
    after = sys.getallocatedblocks(), sys.getrefcount(mx.array), sys.getrefcount(None)
    left = [y - x for x, y in zip(before, after)]
    assert left[0] < N // 10, f"{left[0]} blocks of memory are left after {N} calls"
    assert abs(left[1]) < N // 10 and abs(left[2]) < N // 10, f"references to array, None: {left[1:]}"


@pytest.mark.parametrize("name", CALLS)
def test_nothing_waits_for_the_garbage_collector(name):
    """Arrays go back with the last reference to them; in a circle of references they would stay for long, as the collector does not see their size."""
    CALLS[name]()
    gc.collect()
    gc.disable()
    try:
        CALLS[name]()
        assert gc.collect() == 0, gc.garbage
    finally:
        gc.enable()


def test_a_compiled_function_gives_its_arrays_back():
    gc.collect()
    before = mx.get_active_memory()
    gc.disable()
    try:
        large = mx.ones((1 << 20,))
        f = mx.compile(lambda x: x + large)
        mx.eval(f(mx.ones((1 << 20,))))
        assert mx.get_active_memory() - before >= 4 << 20
        del f, large
        assert mx.get_active_memory() == before
    finally:
        gc.enable()


def test_plans_of_a_compiled_function_are_bounded(monkeypatch):
    monkeypatch.setattr("keel.core._transforms._MOST_PLANS", 8)
    traced = []

    def f(x, k):
        traced.append((x.size, k))
        return x * 2.5 + k

    compiled = mx.compile(f)
    gc.collect()
    before = mx.get_active_memory()
    for k in (1, 2):  # arrays alone, and a constant beside them
        for n in range(1, 41):
            assert compiled(mx.ones((n,)), mx.array(1.0) if k == 1 else 1).tolist() == [3.5] * n
    assert len(traced) == 80
    alive = mx.get_active_memory() - before
    assert alive <= 2 * 8 * 128, f"{alive} bytes of constants are alive"
    compiled(mx.ones((40,)), 1)
    assert len(traced) == 80
    compiled(mx.ones((1,)), 1)
    assert len(traced) == 81


def test_a_compiled_function_that_refers_to_itself_is_collected():
    import weakref

    class Holder:
        pass

    def make():
        holder = Holder()
        holder.f = mx.compile(lambda x: x + (1 if holder else 2))
        holder.f(a)
        return weakref.ref(holder)

    ref = make()
    gc.collect()
    gc.collect()
    assert ref() is None


def test_sizes_that_grow_keep_little():
    """No size is asked for twice: what is kept is bounded, by a small multiple of what lives."""
    mx.clear_cache()
    k = mx.zeros((32, 1024))
    for _ in range(120):
        k = mx.concatenate([k, mx.ones((32, 1024))])
        mx.eval(k)
        assert mx.get_cache_memory() < 120 << 20  # 15 MiB live at the end, 900 MiB were taken


def test_memory_limit_counts_what_is_kept():
    old = mx.set_memory_limit(mx.get_active_memory() + (64 << 20))
    for n in range(1, 60):
        mx.eval(mx.zeros((n * 100_000,)) + 1)
        assert mx.get_active_memory() + mx.get_cache_memory() <= mx.get_memory_limit() + (48 << 20)
    mx.eval(mx.zeros((1,)) + 1)
    assert mx.get_active_memory() + mx.get_cache_memory() <= mx.get_memory_limit()
    mx.set_memory_limit(old)


def resident():
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * 4096


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_clear_cache_trims_the_heap():
    mx.clear_cache()
    before = resident()
    arrays = [mx.array(k) for k in range(200_000)]
    full = resident() - before
    some = arrays[::5000]  # so that the end of the heap is in use
    del arrays
    gc.collect()
    mx.clear_cache()
    assert resident() - before < full / 2
    assert some[1].item() == 5000
