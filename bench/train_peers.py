"""Training: Keel beside PyTorch, MLX and JAX, whichever are installed, in one process.

python3 bench/train_peers.py path/to/libkeel.so [case ...]
KEEL_BENCH_TABLE=file.md: the results as a table. KEEL_BENCH_ROUNDS (15), KEEL_BENCH_SECONDS (0.05)
per measurement. KEEL_BENCH_COMPILE=0 leaves out torch.compile and mx.compile, which start a C++
compiler. KEEL_BENCH_DEVICE=gpu: the perceptrons on a GPU, in all libraries; without it on the CPU.

Cases: one training step (value_and_grad of softmax cross-entropy, stochastic gradient descent,
evaluation) of two perceptrons with relu; a gelu by erf of 16 M floats, beside a copy; a step of
AdamW over 4 M floats. All libraries begin with the same numbers, and the losses and results that
they reach are compared. Each case runs its ways in turn; figures are medians of the rounds, a ratio
is the median of the rounds' ratios with its quartiles. Keel's part is C (train_binding.c) and times
itself; the others are called from Python, as their users do."""
import ctypes as C
import os
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

ON_GPU = os.environ.get("KEEL_BENCH_DEVICE") == "gpu"

try:
    import torch
except Exception:  # not installed, or not for this machine
    torch = None
try:
    import mlx.core as mx
    import mlx.optimizers
    mx.set_default_device(mx.gpu if ON_GPU else mx.cpu)
except Exception:
    mx = None
try:
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # else it takes most of the device's memory from the others
    os.environ.setdefault("JAX_PLATFORMS", "cuda" if ON_GPU else "cpu")
    import jax
    import jax.numpy as jnp
    jax.config.update("jax_default_matmul_precision", "highest")  # float32 products without TF32, as in the others
except Exception:
    jax = None

TORCH_DEVICE = "cuda" if ON_GPU else "cpu"
ROUNDS = int(os.environ.get("KEEL_BENCH_ROUNDS", "15"))
BUDGET = float(os.environ.get("KEEL_BENCH_SECONDS", "0.05"))
COMPILES = os.environ.get("KEEL_BENCH_COMPILE", "1") != "0"
wanted = sys.argv[2:]
rng = np.random.default_rng(1)
RATE = 0.01


def binding(keel):
    here, folder = os.path.dirname(os.path.abspath(__file__)), tempfile.mkdtemp()
    keel, made = os.path.abspath(keel), os.path.join(folder, "train_binding.so")
    subprocess.run([os.environ.get("CC", "cc"), "-O2", *(["-DON_GPU"] if ON_GPU else []), "-shared", "-fPIC", "-I" + os.path.join(here, "../include"),
                    os.path.join(here, "train_binding.c"), keel, "-Wl,-rpath," + os.path.dirname(keel), "-lm", "-o", made], check=True)
    lib = C.CDLL(made)
    for name in ("net_steps", "net_products", "pass_over", "adamw_steps"):
        getattr(lib, name).restype = C.c_double
    lib.net_new.restype = C.c_void_p
    return lib


lib = binding(sys.argv[1])


def by_clock(work):
    """A function that does `work` n times, and gives the seconds of one."""

    def run(n):
        begin = time.perf_counter()
        for _ in range(n):
            work()
        if ON_GPU and torch is not None:
            torch.cuda.synchronize()
        return (time.perf_counter() - begin) / n

    return run


def keel(run):
    def checked(n):
        t = run(n)
        if t < 0:
            raise RuntimeError("Keel failed")
        return t

    return checked


def settle():
    """Waits, a second at most, until the process is idle: threads of a library may spin when their work is done, and would take a processor from the next."""
    for _ in range(200):
        cpu, wall = time.process_time(), time.perf_counter()
        time.sleep(0.005)
        if time.process_time() - cpu < 0.2 * (time.perf_counter() - wall):
            return


results = []


def case(name, ways, references, note=""):
    """ways: {name: function of the number of repetitions}; references: the ways to which Keel's, both plain and compiled, are compared."""
    counts, times = {}, {}
    for k in list(ways):
        try:
            ways[k](3)
            counts[k] = max(1, int(BUDGET / max(min(ways[k](1) for _ in range(5)), 1e-7)))
            times[k] = []
        except Exception as e:
            print(f"{name}: {k} left out: {str(e)[:120]}", flush=True)
    for r in range(ROUNDS):
        order = list(counts)
        for k in order[r % len(order):] + order[:r % len(order)]:
            settle()
            ways[k](max(1, counts[k] // 4))
            times[k].append(ways[k](counts[k]))
    print(f"\n{name}{' (' + note + ')' if note else ''}")
    for k in times:
        row = [f"{1e6 * statistics.median(times[k]):12.1f} us"]
        for ref in references:
            if ref in times and ref != k:
                ratios = sorted(a / b for a, b in zip(times[ref], times[k]))
                row.append(f"{ref} takes {statistics.median(ratios):6.2f} times as long [{ratios[len(ratios) // 4]:.2f}, {ratios[-1 - len(ratios) // 4]:.2f}]")
                results.append((name, k, statistics.median(times[k]), ref, statistics.median(ratios), ratios[len(ratios) // 4], ratios[-1 - len(ratios) // 4]))
        print(f"  {k:16s} {row[0]}  {'; '.join(row[1:])}", flush=True)
    return times


def agree(name, values, tolerance):
    """All libraries must have computed the same."""
    first = next(iter(values.values()))
    for k, v in values.items():
        if not np.allclose(v, first, rtol=tolerance, atol=tolerance):
            sys.exit(f"{name}: {k} computed {v}, and {next(iter(values))} {first}")


# ---- perceptrons ----

def torch_step(params, x, y, loss_fn):
    def step():
        loss = loss_fn(params, x, y)
        loss.backward()
        with torch.no_grad():
            for p in params:
                p.sub_(p.grad, alpha=RATE)
                p.grad = None
        return loss

    return step


def perceptron(name, batch, widths, share=None):
    if wanted and not any(w in name for w in wanted):
        return
    layers = len(widths) - 1
    params = [(rng.standard_normal((a, b)) * a**-0.5).astype(np.float32) for a, b in zip(widths, widths[1:])] + [np.zeros(b, np.float32) for b in widths[1:]]
    x, y = rng.standard_normal((batch, widths[0])).astype(np.float32), rng.integers(0, widths[-1], batch).astype(np.int32)
    given = (C.c_void_p * len(params))(*(p.ctypes.data for p in params))
    c_widths = (C.c_int * len(widths))(*widths)
    new = lambda: C.c_void_p(lib.net_new(layers, batch, c_widths, given, C.c_void_p(x.ctypes.data), C.c_void_p(y.ctypes.data), C.c_float(RATE)))
    nets = {"keel": (new(), 0), "keel compiled": (new(), 1)}
    loss = C.c_float()
    ways, reached = {}, {}
    for k, (net, compiled) in nets.items():
        ways[k] = keel(lambda n, net=net, compiled=compiled: lib.net_steps(net, compiled, n, C.byref(loss)))
        ways[k](5)
        reached[k] = loss.value
    if torch is not None:
        def torch_loss(p, x, y):
            for i in range(layers):
                x = torch.addmm(p[layers + i], x, p[i])
                x = torch.relu(x) if i + 1 < layers else x
            return torch.nn.functional.cross_entropy(x, y)

        for k, fn in (("torch", torch_loss), ("torch compiled", torch.compile(torch_loss) if COMPILES else None)):
            if not fn:
                continue
            step = torch_step([torch.tensor(p, requires_grad=True, device=TORCH_DEVICE) for p in params], torch.tensor(x, device=TORCH_DEVICE), torch.tensor(y.astype(np.int64), device=TORCH_DEVICE), fn)
            try:
                for _ in range(5):
                    reached[k] = step().item()
                ways[k] = by_clock(step)
            except Exception as e:
                print(f"{name}: {k} left out: {str(e)[:120]}")
    if mx is not None:
        def mlx_loss(p, x, y):
            for i in range(layers):
                x = mx.addmm(p[layers + i], x, p[i])
                x = mx.maximum(x, 0) if i + 1 < layers else x
            return mx.mean(mx.logsumexp(x, -1, keepdims=True) - mx.take_along_axis(x, y, -1))

        def mlx_step(p, x, y):
            loss, grads = mx.value_and_grad(mlx_loss)(p, x, y)
            return [a - RATE * g for a, g in zip(p, grads)], loss

        for k, fn in (("mlx", mlx_step), ("mlx compiled", mx.compile(mlx_step) if COMPILES else None)):
            if not fn:
                continue
            state = {"p": [mx.array(p) for p in params]}
            mx_x, mx_y = mx.array(x), mx.array(y[:, None])

            def step(fn=fn, state=state):
                state["p"], loss = fn(state["p"], mx_x, mx_y)
                mx.eval(state["p"], loss)
                return loss

            try:
                for _ in range(5):
                    reached[k] = step().item()
                ways[k] = by_clock(step)
            except Exception as e:
                print(f"{name}: {k} left out: {str(e)[:120]}")
    if jax is not None:
        def jax_loss(p, x, y):
            for i in range(layers):
                x = x @ p[i] + p[layers + i]
                x = jax.nn.relu(x) if i + 1 < layers else x
            return jnp.mean(jax.nn.logsumexp(x, -1) - jnp.take_along_axis(x, y, -1)[:, 0])

        @jax.jit
        def jax_step(p, x, y):
            loss, grads = jax.value_and_grad(jax_loss)(p, x, y)
            return [a - RATE * g for a, g in zip(p, grads)], loss

        jax_state, jax_x, jax_y = {"p": [jnp.array(p) for p in params]}, jnp.array(x), jnp.array(y[:, None])

        def step():
            jax_state["p"], loss = jax_step(jax_state["p"], jax_x, jax_y)
            loss.block_until_ready()
            return loss

        try:
            for _ in range(5):
                reached["jax jit"] = step().item()
            ways["jax jit"] = by_clock(step)
        except Exception as e:
            print(f"{name}: jax left out: {str(e)[:120]}")
    agree(name, reached, 1e-4)
    if share:
        ways["its products"] = keel(lambda n: lib.net_products(layers, batch, c_widths, min(max(n, 7), 63)))
    case(name, ways, ["keel", "keel compiled"], "products: Keel's, one after another" if share else "")
    for net, _ in nets.values():
        lib.net_free(net)


def gelu(n):
    name = f"gelu of {n >> 20} M floats"
    if wanted and not any(w in name for w in wanted):
        return
    x, out = rng.standard_normal(n).astype(np.float32), np.empty(n, np.float32)
    over = lambda what, times, to=None: lib.pass_over(C.c_void_p(x.ctypes.data), n, what, times, C.c_void_p(to))
    ways = {k: keel(lambda times, what=what: over(what, times)) for k, what in (("keel compiled", 0), ("keel", 1), ("copy", 2))}
    over(0, 1, out.ctypes.data)
    reached = {"keel compiled": out}
    if torch is not None:
        t = torch.from_numpy(x)
        formula = lambda t: t * 0.5 * (1 + torch.erf(t * 0.5**0.5))
        ways["torch gelu"] = by_clock(lambda: torch.nn.functional.gelu(t))
        reached["torch"] = torch.nn.functional.gelu(t).numpy()
        if COMPILES:
            try:
                made = torch.compile(formula)
                reached["torch compiled"] = made(t).numpy()
                ways["torch compiled"] = by_clock(lambda: made(t))
            except Exception as e:
                print(f"{name}: torch.compile left out: {str(e)[:120]}")
    if mx is not None:
        m = mx.array(x)
        formula = lambda m: m * 0.5 * (1 + mx.erf(m * 0.5**0.5))
        ways["mlx"] = by_clock(lambda: mx.eval(formula(m)))
        if COMPILES:
            try:
                fn = mx.compile(formula)
                mx.eval(fn(m))
                ways["mlx compiled"] = by_clock(lambda: mx.eval(fn(m)))
            except Exception as e:
                print(f"{name}: mx.compile left out: {str(e)[:120]}")
    agree(name, reached, 1e-5)
    case(name, ways, ["keel compiled", "copy"])


def adamw(n):
    name = f"AdamW over {n >> 20} M floats"
    if wanted and not any(w in name for w in wanted):
        return
    p, g = (rng.standard_normal(n).astype(np.float32) for _ in range(2))
    if lib.adamw_open(C.c_void_p(p.ctypes.data), C.c_void_p(g.ctypes.data), n):
        sys.exit("AdamW failed")
    ways = {"keel": keel(lambda times: lib.adamw_steps(times))}
    if torch is not None:
        for k, fused in (("torch", False), ("torch fused", True)):
            t = torch.tensor(p, requires_grad=True)
            t.grad = torch.tensor(g)
            ways[k] = by_clock(torch.optim.AdamW([t], 1e-3, fused=fused).step)
    if mx is not None:
        opt, state = mlx.optimizers.AdamW(1e-3, bias_correction=True), {"p": mx.array(p)}
        grads = {"p": mx.array(g)}

        def step():
            state.update(opt.apply_gradients(grads, state))
            mx.eval(state, opt.state)

        ways["mlx"] = by_clock(step)
    case(name, ways, ["keel"])


def write_table(path):
    with open(path, "w") as f:
        f.write("| case | way | time, us | beside | ratio | quartiles |\n|---|---|---|---|---|---|\n")
        for name, k, t, ref, ratio, low, high in results:
            f.write(f"| {name} | {k} | {t * 1e6:.4g} | {ref} | {ratio:.2f} | {low:.2f} to {high:.2f} |\n")


print("keel beside", ", ".join(n + " " + v for n, v in (("torch", torch.__version__ if torch is not None else "missing"), ("mlx", mx.__version__ if mx is not None else "missing"), ("jax", jax.__version__ if jax is not None else "missing"))),
      f"; {os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}")
perceptron("perceptron 4x8x16x4", 4, [8, 16, 4])
perceptron("perceptron 256x784x512x10", 256, [784, 512, 10], share=True)
if not ON_GPU:
    gelu(1 << 24)
    adamw(4 << 20)
print(f"load at the end {os.getloadavg()[0]:.1f}")
if os.environ.get("KEEL_BENCH_TABLE"):
    write_table(os.environ["KEEL_BENCH_TABLE"])
