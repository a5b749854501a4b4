#!/usr/bin/env python3
"""Several GPUs of one host: mpirun -n N python3 bench/many_gpus.py exchanges|overlap|training|generation|killed [SHAPE BITS]

Keel's Python package (as `mlx.core` on the path) in N processes, one GPU each. `exchanges`: all_sum, all_gather, sum_scatter and send with recv of 1 KB to
1 GB of float32 next to PyTorch's NCCL in the same processes, by turns: the medians in microseconds, and PyTorch's time over Keel's. `overlap`: a sum of
256 MB while matrices are multiplied, over the longer of both alone. `training`: steps of a transformer with mlx.nn.average_gradients, and how many times
the speed of one GPU all have together. `generation`: tokens per second of mlx-lm with the weights of one layer on all GPUs, next to one GPU alone (a shape
of bench/lm_peers.py or llama-70b, weights of BITS bits, 0: bfloat16). `killed`: the last rank is killed while it exchanges; the others must learn of it
and go on in a group of their own (mpirun --enable-recovery).

KEEL_BENCH_ROUNDS (7). Only rank 0 prints, but for `killed`."""

import os
import signal
import statistics
import sys
import time

import mlx.core as mx

ROUNDS = int(os.environ.get("KEEL_BENCH_ROUNDS", "7"))
world = mx.distributed.init(backend="nccl")
rank, size = world.rank(), world.size()


def say(*words):
    if rank == 0:
        print(*words, flush=True)


def meet():
    mx.eval(mx.distributed.all_sum(mx.array([1.0])))


def timed(work, times):
    """Seconds of one of `times` evaluations, of which only the last is waited for."""
    meet()
    begin = time.perf_counter()
    for _ in range(times):
        out = work()
        mx.async_eval(out)
    mx.eval(out)
    return (time.perf_counter() - begin) / times


def torch_side(n):
    """The same exchanges through PyTorch: name to a function."""
    import torch
    import torch.distributed as dist

    if not dist.is_initialized():
        os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
        os.environ.setdefault("MASTER_PORT", "29411")
        torch.cuda.set_device(rank)
        dist.init_process_group("nccl", rank=rank, world_size=size)
    x = torch.zeros(n, device="cuda")
    whole, part = None, None

    def all_gather():
        nonlocal whole
        whole = torch.empty(n * size, device="cuda") if whole is None else whole
        dist.all_gather_into_tensor(whole, x)

    def sum_scatter():
        nonlocal part
        part = torch.empty(n // size, device="cuda") if part is None else part
        dist.reduce_scatter_tensor(part, x)

    def send():
        if rank == 0:
            dist.send(x, 1)
        elif rank == 1:
            dist.recv(x, 0)

    def timed_torch(work, times):
        dist.barrier()
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(times):
            work()
        torch.cuda.synchronize()
        return (time.perf_counter() - begin) / times

    works = {"all_sum": lambda: dist.all_reduce(x), "all_gather": all_gather, "sum_scatter": sum_scatter, "send": send}
    return works, timed_torch


def keel_side(n):
    d, x = mx.distributed, mx.zeros([n])
    mx.eval(x)
    nothing = mx.zeros([1])

    def send():
        if rank == 0:
            return d.send(x, 1)
        return d.recv([n], mx.float32, 0) if rank == 1 else nothing

    return {"all_sum": lambda: d.all_sum(x), "all_gather": lambda: d.all_gather(x), "sum_scatter": lambda: d.sum_scatter(x), "send": send}


def exchanges():
    say(f"{'':12}{'bytes':>12}{'Keel us':>10}{'PyTorch us':>12}{'ratio':>8}")
    for kib in (1, 16, 256, 4096, 65536, 1048576):
        n = kib * 256
        keel, (other, timed_torch) = keel_side(n), torch_side(n)
        times = 50 if kib <= 4096 else 8 if kib <= 65536 else 2
        for name in keel:
            mine, theirs = [], []
            for i in range(ROUNDS + 1):
                mine.append(timed(keel[name], times) * 1e6)
                theirs.append(timed_torch(other[name], times) * 1e6)
            ratio = statistics.median(t / m for m, t in zip(mine[1:], theirs[1:]))
            say(f"{name:12}{4 * n:12}{statistics.median(mine[1:]):10.1f}{statistics.median(theirs[1:]):12.1f}{ratio:8.2f}")
        del keel, other
        mx.clear_cache()


def overlap():
    a, x = mx.random.normal([8192, 8192]).astype(mx.bfloat16), mx.zeros([64 << 20])
    mx.eval(a, x)

    def products():
        y = a
        for _ in range(2):
            y = y @ a
        return y

    def both():
        return [mx.distributed.all_sum(x), products()]

    alone = [min(timed(w, 5) for _ in range(ROUNDS)) for w in (products, lambda: mx.distributed.all_sum(x))]
    together = min(timed(both, 5) for _ in range(ROUNDS))
    say(f"products {1e3 * alone[0]:.2f} ms, all_sum of 256 MB {1e3 * alone[1]:.2f} ms, both {1e3 * together:.2f} ms: {together / max(alone):.2f} of the longer")


def training():
    import mlx.nn as nn
    import mlx.optimizers as optimizers

    mx.random.seed(1)
    layers, width, batch, tokens = 8, 1024, 16, 1024

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(32000, width)
            self.layers = [nn.TransformerEncoderLayer(width, 16, 4 * width, norm_first=True) for _ in range(layers)]
            self.head = nn.Linear(width, 32000, bias=False)

        def __call__(self, x):
            x = self.embedding(x)
            for layer in self.layers:
                x = layer(x, "causal")
            return self.head(x)

    model = Model()
    model.set_dtype(mx.bfloat16)
    adam = optimizers.AdamW(1e-4)
    x = mx.random.randint(0, 32000, [batch, tokens])
    mx.eval(model.parameters(), x)

    def loss(model, x):
        return nn.losses.cross_entropy(model(x), x, reduction="mean")

    gradient = nn.value_and_grad(model, loss)

    def step(average):
        value, g = gradient(model, x)
        adam.update(model, nn.average_gradients(g) if average else g)
        mx.eval(model.parameters(), adam.state)
        return value

    def steps(average):
        meet()
        begin = time.perf_counter()
        for _ in range(10):
            value = step(average)
        mx.eval(value)
        return (time.perf_counter() - begin) / 10

    steps(False), steps(True)
    alone, together = zip(*[(steps(False), steps(True)) for _ in range(ROUNDS)])
    alone, together = statistics.median(alone), statistics.median(together)
    say(f"{size} GPUs, {batch} x {tokens} tokens each: one GPU {1e3 * alone:.1f} ms a step, all {1e3 * together:.1f} ms: {size * alone / together:.2f} times one GPU's speed")


def generation(shape, bits):
    import mlx.nn as nn
    from mlx.utils import tree_flatten
    from mlx_lm.generate import generate_step
    from mlx_lm.models import llama

    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    from lm_peers import SHAPES

    shapes = dict(SHAPES)
    shapes["llama-70b"] = dict(SHAPES["llama-8b"], hidden_size=8192, num_hidden_layers=80, intermediate_size=28672, num_attention_heads=64)

    def model_of(sharded):
        mx.random.seed(1)
        model = llama.Model(llama.ModelArgs.from_dict(shapes[shape]))
        model.set_dtype(mx.bfloat16)
        if sharded:
            model.shard(world)
        if bits:
            nn.quantize(model, group_size=64, bits=bits)
        for _, w in tree_flatten(model.parameters()):
            mx.eval(w)
        return model

    def speed(model, count=200):
        prompt = mx.array([(i * 7919) % 900 + 100 for i in range(32)])
        meet()
        made = []
        for token, _ in generate_step(prompt, model, max_tokens=count):
            made.append(time.perf_counter())
        return (len(made) - 21) / (made[-1] - made[20])

    alone = 0.0
    if shape != "llama-70b":
        model = model_of(False)
        alone = max(speed(model) for _ in range(3))
        del model
        mx.clear_cache()
    model = model_of(True)
    together = max(speed(model) for _ in range(3))
    say(f"{shape}, {bits} bits: one GPU {alone:.1f} tokens a second, {size} GPUs {together:.1f}" + (f": {together / alone:.2f} times" if alone else ""))


def killed():
    last = rank == size - 1
    rest = world.split(int(last))
    meet()
    begin = time.perf_counter()
    x = mx.ones([1 << 20])
    try:
        for i in range(1000):
            if last and i == 300:
                os.kill(os.getpid(), signal.SIGKILL)
            x = mx.distributed.all_sum(x) / size
            mx.eval(x)
        print(f"rank {rank}: nothing failed", flush=True)
    except Exception as e:
        print(f"rank {rank}: after {time.perf_counter() - begin:.2f} s: {e}", flush=True)
    total = mx.distributed.all_sum(mx.ones([4]), group=rest)
    print(f"rank {rank}: the group of the others gives {total[0].item():.0f} of {size - 1}", flush=True)
    os._exit(0)


if __name__ == "__main__":
    what = sys.argv[1] if len(sys.argv) > 1 else ""
    if what == "generation":
        generation(sys.argv[2], int(sys.argv[3]))
    elif what in ("exchanges", "overlap", "training", "killed"):
        globals()[what]()
    else:
        sys.exit(__doc__)
