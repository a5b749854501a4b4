"""tools/peers/metal_peers.py [CASES] - times of Keel on Metal beside MLX's, for tools/metal-first-run.sh.

Each case runs by turns in both libraries, in one process; printed are the medians in microseconds, their ratio (above
1: Keel is faster), and the largest difference of the results. Without a GPU of MLX's (off a Mac) both take the device
that they have, which shows that the script works and nothing else. CASES: names of cases, all without it.
"""

import statistics
import sys
import time

import numpy as np

import keel.core as kc
import mlx.core as mc

PAIRS = 15


def random(shape, dtype="float32"):
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(dtype)


CASES = {
    "add 16M": (lambda m, a, b: a + b, (random((1 << 24,)), random((1 << 24,)))),
    "chain of 6, 16M": (lambda m, a, b: m.tanh(a * b + a) * m.sigmoid(b) - m.abs(a), (random((1 << 24,)), random((1 << 24,)))),
    "exp 16M": (lambda m, a: m.exp(a), (random((1 << 24,)),)),
    "sum of 16M": (lambda m, a: m.sum(a), (random((1 << 24,)),)),
    "sum of rows 4096x4096": (lambda m, a: m.sum(a, axis=1), (random((4096, 4096)),)),
    "softmax 4096x4096": (lambda m, a: m.softmax(a, axis=-1), (random((4096, 4096)),)),
    "rms_norm 4096x4096": (lambda m, a, w: m.fast.rms_norm(a, w, 1e-5), (random((4096, 4096)), random((4096,)))),
    "matmul 1024": (lambda m, a, b: a @ b, (random((1024, 1024)), random((1024, 1024)))),
    "matmul 1x4096x4096": (lambda m, a, b: a @ b, (random((1, 4096)), random((4096, 4096)))),
    "matmul 1024, float16": (lambda m, a, b: a @ b, (random((1024, 1024), "float16"), random((1024, 1024), "float16"))),
    "cumsum 4096x4096": (lambda m, a: m.cumsum(a, axis=1), (random((4096, 4096)),)),
    "sort 1M": (lambda m, a: m.sort(a), (random((1 << 20,)),)),
    "transposed copy 4096x4096": (lambda m, a: m.contiguous(a.T), (random((4096, 4096)),)),
    "take 100k rows of 64": (lambda m, a, i: m.take(a, i, axis=0), (random((100000, 64)), np.random.default_rng(1).integers(0, 100000, 100000).astype("int32"))),
    "attention, 1 query, 4096 keys": (
        lambda m, q, k, v: m.fast.scaled_dot_product_attention(q, k, v, scale=0.125),
        (random((1, 32, 1, 64), "float16"), random((1, 8, 4096, 64), "float16"), random((1, 8, 4096, 64), "float16")),
    ),
    "attention, 1024 queries": (
        lambda m, q, k, v: m.fast.scaled_dot_product_attention(q, k, v, scale=0.125),
        (random((1, 8, 1024, 64), "float16"), random((1, 8, 1024, 64), "float16"), random((1, 8, 1024, 64), "float16")),
    ),
    "tiny add (launch and wait)": (lambda m, a, b: a + b, (random((8,)), random((8,)))),
}


def device_of(m):
    try:
        m.eval(m.add(m.array(1.0), m.array(1.0), stream=m.gpu))
        return m.gpu
    except Exception:
        return m.cpu


def main():
    wanted = sys.argv[1:] or list(CASES)
    devices = {m: device_of(m) for m in (kc, mc)}
    for m, device in devices.items():
        m.set_default_device(device)
        print(f"{m.__name__}: {device}, {m.device_info(device) if hasattr(m, 'device_info') else ''}")
    print(f"{'case':32} {'Keel us':>10} {'MLX us':>10} {'ratio':>7} {'difference':>11}")
    for name in wanted:
        f, operands = CASES[name]
        times, results = {kc: [], mc: []}, {}
        try:
            inputs = {m: [m.array(x) for x in operands] for m in times}
            for m in times:
                m.eval(*inputs[m])
                for _ in range(3):
                    m.eval(f(m, *inputs[m]))
            for _ in range(PAIRS):
                for m in times:
                    start = time.perf_counter()
                    results[m] = f(m, *inputs[m])
                    m.eval(results[m])
                    times[m].append(time.perf_counter() - start)
            keel, mlx = (statistics.median(times[m]) * 1e6 for m in (kc, mc))
            both = [np.array(results[m].astype(m.float32), dtype="float64") for m in (kc, mc)]
            print(f"{name:32} {keel:10.0f} {mlx:10.0f} {mlx / keel:7.2f} {np.max(np.abs(both[0] - both[1])):11.2e}")
        except Exception as error:
            print(f"{name:32} failed: {error}")


if __name__ == "__main__":
    main()
