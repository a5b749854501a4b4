#!/usr/bin/env python3
"""Training parts of a transformer: python3 bench/block_peers.py [--device gpu|cpu] [--small] [--mlx]

Keel's Python package (`keel.core` on the path; with --mlx also MLX, as `mlx.core`) beside PyTorch, eager and compiled, in one process, in turns. Two
cases, bfloat16: the gradients of causal attention (8 x 16 heads x 1,024 x 64; forward and backward); and one training step of a block (batch 8, 1,024
tokens, width 1,024, 16 heads: norms, projections, attention, a perceptron of four times the width with gelu; mean of squares as loss; gradients of all
weights; gradient descent). Medians of the rounds in milliseconds; losses are compared. KEEL_BENCH_ROUNDS (9). --small: sizes for a processor."""

import os
import statistics
import sys
import time

import numpy as np
import torch

import keel.core

ROUNDS = int(os.environ.get("KEEL_BENCH_ROUNDS", "9"))
gpu = "cpu" not in sys.argv[1:]
batch, tokens, width, heads = (2, 64, 128, 4) if "--small" in sys.argv else (8, 1024, 1024, 16)
device = "cuda" if gpu else "cpu"
rng = np.random.default_rng(1)
NAMES = ("n1", "wq", "wk", "wv", "wo", "n2", "w1", "w2")
RATE = 1e-2


def start_values():
    shapes = {"n1": (width,), "n2": (width,), "w1": (4 * width, width), "w2": (width, 4 * width)}
    values = {}
    for name in NAMES:
        shape = shapes.get(name, (width, width))
        values[name] = np.ones(shape, np.float32) if len(shape) == 1 else (rng.standard_normal(shape) * shape[1] ** -0.5).astype(np.float32)
    return values


def of_mx(mx, values, x):
    """(step, attention's gradients): functions that wait until the device is done."""
    mx.set_default_device(mx.gpu if gpu else mx.cpu)
    state = {n: mx.array(v).astype(mx.bfloat16) for n, v in values.items()}
    x = mx.array(x).astype(mx.bfloat16)

    def split(a):
        return a.reshape(batch, tokens, heads, width // heads).transpose(0, 2, 1, 3)

    def loss(p, x):
        h = mx.fast.rms_norm(x, p["n1"], 1e-5)
        a = mx.fast.scaled_dot_product_attention(split(h @ p["wq"].T), split(h @ p["wk"].T), split(h @ p["wv"].T), scale=(width // heads) ** -0.5, mask="causal")
        x = x + a.transpose(0, 2, 1, 3).reshape(batch, tokens, width) @ p["wo"].T
        h = mx.fast.rms_norm(x, p["n2"], 1e-5) @ p["w1"].T
        h = h * 0.5 * (1 + mx.erf(h * 0.5**0.5))
        y = x + h @ p["w2"].T
        return mx.mean(mx.square(y.astype(mx.float32)))

    def plain(p, x):
        value, g = mx.value_and_grad(loss)(p, x)
        return {n: p[n] - RATE * g[n] for n in p}, value

    compiled = mx.compile(plain)

    def step(fn):
        mine = dict(state)

        def run(times):
            begin = time.perf_counter()
            for _ in range(times):
                new, value = fn(mine, x)
                mine.update(new)
                mx.eval(mine, value)
            return (time.perf_counter() - begin) / times, value.item()

        return run

    q, k, v = (mx.array(rng.standard_normal((batch, heads, tokens, width // heads)).astype(np.float32)).astype(mx.bfloat16) for _ in range(3))
    grad = mx.grad(lambda q, k, v: mx.sum(mx.fast.scaled_dot_product_attention(q, k, v, scale=0.125, mask="causal").astype(mx.float32)), argnums=(0, 1, 2))

    def attention(times):
        begin = time.perf_counter()
        for _ in range(times):
            mx.eval(grad(q, k, v))
        return (time.perf_counter() - begin) / times, 0

    return {"": step(plain), " compiled": step(compiled)}, attention


def of_torch(values, x):
    import torch.nn.functional as F

    params = {n: torch.tensor(v, device=device).bfloat16().requires_grad_() for n, v in values.items()}
    x = torch.tensor(x, device=device).bfloat16()
    sync = torch.cuda.synchronize if gpu else lambda: None

    def split(a):
        return a.view(batch, tokens, heads, width // heads).transpose(1, 2)

    def loss(p, x):
        h = F.rms_norm(x, (width,), p["n1"], 1e-5)
        a = F.scaled_dot_product_attention(split(h @ p["wq"].T), split(h @ p["wk"].T), split(h @ p["wv"].T), is_causal=True)
        x = x + a.transpose(1, 2).reshape(batch, tokens, width) @ p["wo"].T
        h = F.gelu(F.rms_norm(x, (width,), p["n2"], 1e-5) @ p["w1"].T)
        return (x + h @ p["w2"].T).float().square().mean()

    def step(fn):
        mine = {n: p.detach().clone().requires_grad_() for n, p in params.items()}

        def run(times):
            sync()
            begin = time.perf_counter()
            for _ in range(times):
                value = fn(mine, x)
                value.backward()
                with torch.no_grad():
                    for p in mine.values():
                        p.sub_(p.grad, alpha=RATE)
                        p.grad = None
            sync()
            return (time.perf_counter() - begin) / times, value.item()

        return run

    q, k, v = (torch.randn(batch, heads, tokens, width // heads, device=device, dtype=torch.bfloat16, requires_grad=True) for _ in range(3))

    def attention(times):
        sync()
        begin = time.perf_counter()
        for _ in range(times):
            F.scaled_dot_product_attention(q, k, v, is_causal=True).sum().backward()
            q.grad = k.grad = v.grad = None
        sync()
        return (time.perf_counter() - begin) / times, 0

    return {"": step(loss), " compiled": step(torch.compile(loss))}, attention


def measure(name, ways, times):
    found = {}
    for k in list(ways):
        try:
            ways[k](3)
            found[k] = []
        except Exception as e:
            print(f"{name}: {k} left out: {str(e)[:200]}")
    first = {}
    for r in range(ROUNDS):
        for k in found:
            t, value = ways[k](times)
            found[k].append(t)
            first.setdefault(k, value)
    for k in found:
        if abs(first[k] - first["keel"]) > 5e-3 * abs(first["keel"]):
            sys.exit(f"{name}: {k} has a loss of {first[k]}, Keel of {first['keel']}")
    base = statistics.median(found["keel"])
    print(name)
    for k, t in found.items():
        print(f"  {k:16s} {1e3 * statistics.median(t):9.3f} ms, Keel's time is {base / statistics.median(t):5.2f} of it; loss {first[k]:.5f}", flush=True)


def main():
    values, x = start_values(), rng.standard_normal((batch, tokens, width)).astype(np.float32)
    sides = {"keel": of_mx(keel.core, values, x), "torch": of_torch(values, x)}
    if "--mlx" in sys.argv:
        import mlx.core

        sides["mlx"] = of_mx(mlx.core, values, x)
    times = 20 if gpu else 2
    measure("gradients of attention", {k: attention for k, (_, attention) in sides.items()}, times)
    measure("training step of a block", {k + how: run for k, (steps, _) in sides.items() for how, run in steps.items()}, times)


if __name__ == "__main__":
    main()
