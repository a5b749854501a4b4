"""What the bounds checks cost: gathers and scatters with them and without (KEEL_BOUNDS=off), side by side in one process.

python3 bench/gpu_bounds.py path/to/libkeel.so

The library is loaded twice, from two copies, since it reads the variable once. 15 rounds; per case the median of the rounds' ratios.
"""
import ctypes as C
import os
import shutil
import statistics
import sys
import tempfile
import time

import numpy as np

ROUNDS = int(os.environ.get("KEEL_BENCH_ROUNDS", "15"))


class Handle(C.Structure):
    _fields_ = [("ctx", C.c_void_p)]


def ints(*v):
    return (C.c_int * len(v))(*v)


class Keel:
    def __init__(self, path, bounds):
        os.environ["KEEL_BOUNDS"] = bounds
        self.lib = C.CDLL(path)
        for name in ("mlx_array_new", "mlx_array_new_data", "mlx_default_gpu_stream_new", "mlx_vector_array_new_data"):
            getattr(self.lib, name).restype = Handle
        self.lib.mlx_array_new_data.argtypes = [C.c_void_p, C.c_void_p, C.c_int, C.c_int]
        self.lib.keel_errors_return()
        self.s = self.lib.mlx_default_gpu_stream_new()
        self.run(self.gather(self.array(np.zeros((4, 4), np.float32)), self.array(np.zeros(2, np.int32))))  # reads the variable

    def array(self, a):
        code = 10 if a.dtype == np.float32 else 7
        host = self.lib.mlx_array_new_data(a.ctypes.data, ints(*a.shape), a.ndim, code)
        dev = self.lib.mlx_array_new()
        assert not self.lib.mlx_copy(C.byref(dev), host, self.s)
        self.run(dev)
        return dev

    def run(self, a):
        v = self.lib.mlx_vector_array_new_data((Handle * 1)(a), C.c_size_t(1))
        assert not self.lib.mlx_eval(v)
        self.lib.mlx_vector_array_free(v)

    def start(self, a):
        v = self.lib.mlx_vector_array_new_data((Handle * 1)(a), C.c_size_t(1))
        assert not self.lib.mlx_async_eval(v)
        self.lib.mlx_vector_array_free(v)
        self.lib.mlx_array_free(a)

    def sync(self):
        assert not self.lib.mlx_synchronize(self.s)

    def gather(self, a, i):
        out = self.lib.mlx_array_new()
        assert not self.lib.mlx_take_axis(C.byref(out), a, i, 0, self.s)
        return out

    def scatter(self, a, i, u, add):
        out = self.lib.mlx_array_new()
        f = self.lib.mlx_scatter_add_single if add else self.lib.mlx_scatter_single
        assert not f(C.byref(out), a, i, u, 0, self.s)
        return out


def seconds(work, k, n):
    k.sync()
    t = time.perf_counter()
    for _ in range(n):
        k.start(work())
    k.sync()
    return (time.perf_counter() - t) / n


folder = tempfile.mkdtemp()
copies = {}
for mode in ("on", "off"):
    copies[mode] = os.path.join(folder, f"libkeel-{mode}.so")
    shutil.copy(sys.argv[1], copies[mode])
keels = {mode: Keel(path, mode) for mode, path in copies.items()}
shutil.rmtree(folder)
rng = np.random.default_rng(1)
ratios = []
cases = [("gather (100, 64) by 1 M", (100, 64), 1_000_000, None), ("gather (100, 1024) by 100 K", (100, 1024), 100_000, None),
         ("lookup 1 M rows of 128", (1_000_000, 128), 1_000_000, None), ("gather (1 M,) by 20 M", (1_000_000,), 20_000_000, None)]
for add in (False, True):
    for shape, n in (((10, 64), 1_000_000), ((100_000, 64), 1_000_000), ((1_000_000, 64), 100_000), ((100_000,), 1_000_000),
                     ((200_000,), 20_000_000), ((20_000_000,), 20_000_000), ((10_000, 64), 1_000_000)):
        cases.append((f"scatter{'_add' if add else ''} {shape} by {n}", shape, n, add))
for name, shape, n, add in cases:
    a, i = rng.standard_normal(shape, dtype=np.float32), rng.integers(0, shape[0], n, dtype=np.int32)
    u = None if add is None else rng.standard_normal((n, 1) + shape[1:], dtype=np.float32)
    works = {}
    for mode, k in keels.items():
        ka, ki = k.array(a), k.array(i)
        if add is None:
            works[mode] = lambda k=k, ka=ka, ki=ki: k.gather(ka, ki)
        else:
            ku = k.array(u)
            works[mode] = lambda k=k, ka=ka, ki=ki, ku=ku: k.scatter(ka, ki, ku, add)
        seconds(works[mode], k, 3)
    repeat = max(3, min(1000, int(0.01 / seconds(works["on"], keels["on"], 5))))
    pairs = [(seconds(works["on"], keels["on"], repeat), seconds(works["off"], keels["off"], repeat)) for _ in range(ROUNDS)]
    ratios.append(statistics.median(x / y for x, y in pairs))
    print(f"{name:40s} {statistics.median(x for x, _ in pairs) * 1e3:8.4f} ms checked {100 * (ratios[-1] - 1):+6.2f} %", flush=True)
print(f"median {100 * (statistics.median(ratios) - 1):+.2f} %, most {100 * (max(ratios) - 1):+.2f} %")
