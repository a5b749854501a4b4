"""What test_distributed.py runs as several ranks: values, gradients, errors, mlx.nn's functions of groups."""

import sys

import keel.core as mx

group = mx.distributed.init(strict=True, backend="mpi")
rank, size = group.rank(), group.size()


def same(got, want):
    assert got.tolist() == want, (rank, got.tolist(), want)


def values():
    x = mx.array([1, 2]) * (rank + 1)
    total = size * (size + 1) // 2
    same(mx.distributed.all_sum(x), [total, 2 * total])
    same(mx.distributed.all_max(x, group=group), [size, 2 * size])
    same(mx.distributed.all_min(x, stream=mx.cpu), [1, 2])
    same(mx.distributed.all_gather(x[:1]), list(range(1, size + 1)))
    same(mx.distributed.sum_scatter(mx.arange(size) + rank), [size * rank + size * (size - 1) // 2])
    after, before = (rank + 1) % size, (rank - 1) % size
    sent, got = mx.distributed.send(x, after), mx.distributed.recv((2,), x.dtype, before)
    mx.eval(sent, got)
    same(got, [before + 1, 2 * before + 2])
    mx.async_eval(mx.distributed.send(x, before))
    same(mx.distributed.recv_like(x, after), [after + 1, 2 * after + 2])


def groups():
    part = group.split(rank % 2)
    assert part.size() == (size + 1 - rank % 2) // 2 and part.rank() == rank // 2
    same(mx.distributed.all_sum(mx.array(1), group=part), part.size())
    turned = group.split(0, size - rank)
    assert turned.rank() == size - 1 - rank


def errors():
    for call, name in [
        (lambda: mx.distributed.send(mx.array(1), size), "dst"),
        (lambda: mx.distributed.recv((2,), mx.int32, -1), "src"),
        (lambda: mx.distributed.sum_scatter(mx.zeros((size + 1, 2))), "multiple"),
        (lambda: group.split(-1), "color"),
    ]:
        try:
            call()
            assert False, name
        except ValueError as e:
            assert name in str(e), e
    bad = mx.take(mx.arange(3), mx.array([99 if rank == 1 else 0]))
    try:
        mx.eval(mx.distributed.all_sum(bad))
        assert False
    except IndexError as e:
        assert "take: index 99" in str(e) and ("rank 1: " in str(e)) == (rank != 1)
    same(mx.distributed.all_sum(mx.array(1)), size)


def compiled():
    f = mx.compile(lambda w: mx.grad(lambda v: (mx.distributed.all_sum(v) ** 2).sum())(w))
    for k in range(3):
        same(f(mx.array([1.0 + k])), [2.0 * size * (1 + k)])


def training():
    try:
        import mlx.nn as nn
    except ImportError:  # only the environment with MLX's files has it
        return
    gradients = {"a": mx.full((3,), float(rank)), "b": [mx.ones((2, 2)) * rank, mx.array(1.0)]}
    mean = (size - 1) / 2
    for limit in (0, 4, 32 << 20):
        got = nn.utils.average_gradients(gradients, all_reduce_size=limit)
        same(got["a"], [mean] * 3)
        same(got["b"][0], [[mean] * 2] * 2)
        same(got["b"][1], 1.0)
    mx.random.seed(7)
    layer = nn.Linear(8, 4 * size)
    x = mx.random.normal((5, 8))
    whole = layer(x)
    up = nn.layers.distributed.shard_linear(layer, "all-to-sharded", group=group)
    part = mx.distributed.all_gather(up(x).T, group=group).T
    assert mx.allclose(part, whole, atol=1e-5).item()
    down = nn.Linear(4 * size, 6)
    cut = nn.layers.distributed.shard_linear(down, "sharded-to-all", group=group)
    assert mx.allclose(cut(up(x)), down(whole), atol=1e-4).item()


for case in (values, groups, errors, compiled, training) if len(sys.argv) < 2 else (values,):
    case()
print(f"rank {rank} of {size} is done")
