"""Random numbers: keys, the state of the thread, distributions."""

import concurrent.futures
import threading

import keel.core as mx
import numpy as np
import pytest

key = mx.random.key(7)


def test_a_key_gives_the_same_numbers():
    assert mx.random.uniform(shape=(4,), key=key).tolist() == mx.random.uniform(shape=(4,), key=key).tolist()
    one, two = mx.random.split(key)
    assert mx.random.uniform(shape=(4,), key=one).tolist() != mx.random.uniform(shape=(4,), key=two).tolist()
    assert mx.random.split(key, 5).shape == (5, 2) and mx.random.key(3).dtype == mx.uint32


def test_seed_and_state():
    mx.random.seed(5)
    first = mx.random.normal((3,)).tolist()
    saved = [mx.array(x) for x in mx.random.state]
    second = mx.random.normal((3,)).tolist()
    assert first != second
    mx.random.state[0] = saved[0]
    assert mx.random.normal((3,)).tolist() == second
    mx.random.seed(5)
    assert mx.random.normal((3,)).tolist() == first and len(mx.random.state) == 1
    with pytest.raises(IndexError):
        mx.random.state[1] = saved[0]


def test_threads_have_states_of_their_own():
    def draw(out):
        mx.random.seed(1)
        out.append([mx.random.uniform().item() for _ in range(20)])

    results = [[] for _ in range(8)]
    threads = [threading.Thread(target=draw, args=(out,)) for out in results]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert all(out == results[0] for out in results)


@pytest.mark.parametrize("draw, mean, deviation", [
    (lambda: mx.random.uniform(-1, 3, (20000,), key=key), 1, 4 / 12**0.5),
    (lambda: mx.random.normal((20000,), loc=2.0, scale=3.0, key=key), 2, 3),
    (lambda: mx.random.bernoulli(0.3, (20000,), key=key), 0.3, 0.21**0.5),
    (lambda: mx.random.randint(-5, 5, (20000,), key=key), -0.5, (99 / 12) ** 0.5),
    (lambda: mx.random.gumbel((20000,), key=key), 0.5772, 3.14159 / 6**0.5),
    (lambda: mx.random.laplace((20000,), loc=1.0, scale=2.0, key=key), 1, 8**0.5),
    (lambda: mx.random.truncated_normal(-1, 1, (20000,), key=key), 0, 0.5396),
    (lambda: mx.random.multivariate_normal(mx.array([1.0]), mx.array([[4.0]]), (20000,), key=key), 1, 2),
])  # fmt: skip
def test_moments(draw, mean, deviation):
    x = np.array(draw().astype(mx.float32)).ravel()
    assert abs(x.mean() - mean) < 5 * deviation / len(x) ** 0.5
    assert abs(x.std() - deviation) < 0.05 * deviation


def test_ranges_and_dtypes():
    x = mx.random.uniform(2, 5, (1000,), mx.float16, key)
    assert x.dtype == mx.float16 and 2 <= x.min().item() <= x.max().item() <= 5
    x = mx.random.randint(0, 3, (1000,), mx.uint8, key)
    assert x.dtype == mx.uint8 and sorted(set(x.tolist())) == [0, 1, 2]
    x = mx.random.truncated_normal(mx.array([-1.0, 0.0]), mx.array([0.0, 1.0]), (500, 2), key=key)
    assert x[:, 0].max().item() <= 0 <= x[:, 1].min().item()
    assert mx.random.bernoulli(mx.array([0.0, 1.0]), key=key).tolist() == [False, True]
    assert mx.random.normal((2, 3), mx.bfloat16, key=key).dtype == mx.bfloat16


def test_categorical_and_permutation():
    logits = mx.array([[0.0, -1e9, -1e9], [-1e9, -1e9, 0.0]])
    assert mx.random.categorical(logits, key=key).tolist() == [0, 2]
    assert mx.random.categorical(logits, num_samples=4, key=key).tolist() == [[0] * 4, [2] * 4]
    assert mx.random.categorical(logits.T, axis=0, key=key).tolist() == [0, 2]
    assert sorted(mx.random.permutation(10, key=key).tolist()) == list(range(10))
    x = mx.arange(6).reshape(3, 2)
    assert sorted(mx.random.permutation(x, key=key).tolist()) == x.tolist()
    assert sorted(mx.random.permutation(x, axis=1, key=key)[0].tolist()) == [0, 1]


@pytest.mark.parametrize("call", [
    lambda: mx.random.uniform(dtype=mx.int32), lambda: mx.random.randint(0, 3, (2,), mx.float32),
    lambda: mx.random.categorical(mx.ones((2, 3)), shape=(2,), num_samples=2),
    lambda: mx.random.categorical(mx.ones((2, 3)), axis=5), lambda: mx.random.uniform(shape=(-1,)),
    lambda: mx.random.uniform(key=mx.array([1.0, 2.0])), lambda: mx.random.normal((2,), mx.int32),
])  # fmt: skip
def test_errors(call):
    with pytest.raises(ValueError):
        mx.eval(call())


def test_wrong_types():
    for call in (lambda: mx.random.seed("x"), lambda: mx.random.key(1.5), lambda: mx.random.uniform(nonsense=1)):
        with pytest.raises(TypeError):
            call()


def test_the_state_itself():
    state = mx.random.state
    saved = mx.array(state[0])
    first = mx.random.uniform(shape=(3,)).tolist()
    state[0][:] = saved
    assert mx.random.uniform(shape=(3,)).tolist() == first
    mx.random.seed(1)
    handed = state[0]
    assert handed is state[0] and handed is next(iter(state))
    handed += 1  # every way to assign
    assert state[0].tolist() == [1, 2]
    state[0][0] = 5
    state[0][1] = 6
    assert handed.tolist() == [5, 6]
    drawn = mx.random.uniform(shape=(2,)).tolist()
    assert handed.tolist() == [5, 6] and state[0] is not handed
    handed[:] = 0  # it is no longer the state
    state[0] = mx.array([5, 6], mx.uint32)
    assert mx.random.uniform(shape=(2,)).tolist() == drawn
    state[0][:] = mx.array([5, 6], mx.uint32)
    mx.random.seed(1)
    assert state[0].tolist() == [0, 1]


DRAWS = {
    "uniform": lambda key: mx.random.uniform(key=key), "normal": lambda key: mx.random.normal(key=key),
    "randint": lambda key: mx.random.randint(0, 100, key=key), 
    "multivariate_normal": lambda key: mx.random.multivariate_normal(mx.zeros((1,)), mx.ones((1, 1)), key=key, stream=mx.cpu),
    "gumbel": lambda key: mx.random.gumbel(key=key), "laplace": lambda key: mx.random.laplace(key=key),
    "truncated_normal": lambda key: mx.random.truncated_normal(mx.array(0.0), mx.array(1.0), key=key),
    "bernoulli": lambda key: mx.random.bernoulli(key=key),
    "categorical": lambda key: mx.random.categorical(mx.zeros((9,)), key=key),
    "permutation": lambda key: mx.random.permutation(9, key=key),
}  # fmt: skip


def test_draws_are_all_there():
    with_key = {name for name in dir(mx.random) if "key:" in str(getattr(getattr(mx.random, name), "__text_signature__", ""))}
    assert with_key <= set(DRAWS)


@pytest.mark.parametrize("name", DRAWS)
def test_each_draw_takes_the_written_state(name):
    mx.random.seed(3)
    DRAWS[name](mx.random.key(1))
    assert mx.random.state[0].tolist() == [0, 3]
    mx.random.state[0][:] = mx.array([7, 8], mx.uint32)
    DRAWS[name](None)
    after = mx.random.state[0].tolist()
    mx.random.state[0] = mx.array([7, 8], mx.uint32)
    DRAWS[name](None)
    assert after == mx.random.state[0].tolist() != [7, 8]


def test_a_written_state_that_is_none():
    state = mx.random.state[0]
    state += 1.5
    with pytest.raises(ValueError, match="float32"):
        mx.random.uniform()
    with pytest.raises(ValueError, match="float32"):
        mx.random.state[0]
    mx.random.seed(1)
    assert mx.random.state[0].tolist() == [0, 1]


def test_the_state_within_a_trace():
    mx.random.seed(1)
    seen = []

    def draw():
        seen.append(mx.random.state[0])
        return mx.random.uniform()

    run = mx.compile(draw, inputs=mx.random.state, outputs=mx.random.state)
    assert run().item() != run().item() and len(seen) == 1
    now = mx.random.state[0].tolist()
    assert now == mx.random.state[0].tolist() and now != [0, 1]


def test_the_state_of_a_thread():
    mx.random.seed(1)
    kept = mx.random.state[0]

    def other():
        mx.random.seed(2)
        mx.random.state[0][:] = 9
        return mx.random.state[0].tolist()

    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        assert pool.submit(other).result() == [9, 9]
    assert kept is mx.random.state[0] and kept.tolist() == [0, 1]
