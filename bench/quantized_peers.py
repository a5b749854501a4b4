#!/usr/bin/env python3
"""Quantized products on the CPU beside MLX and, unpacked, PyTorch's and Keel's own products of floats.

    taskset -c 0,1 python3 bench/quantized_peers.py path/to/libkeel.so [rounds] [words of the names of cases ...]

Prints per case: Keel's time, its share of the read rate (packed numbers, scales and biases count as bytes) or its rate of multiply-adds, and the times of the peers that are installed. Matrices are used in turns, so that they do not stay in a cache.
Times are medians of rounds, in which all libraries take turns."""
import ctypes as C
import os
import statistics
import sys
import time

import numpy as np

try:
    import mlx.core as mx

    mx.set_default_device(mx.cpu)
except ImportError:
    mx = None
try:
    import torch

    torch.set_num_threads(len(os.sched_getaffinity(0)))
except ImportError:
    torch = None

lib = C.CDLL(os.path.abspath(sys.argv[1]))
ROUNDS = int(sys.argv[2]) if len(sys.argv) > 2 else 15
ONLY = sys.argv[3:]
SETS = 8  # matrices of 9 to 18 MB
DTYPES = {"uint32": 3, "float16": 9, "float32": 10, "bfloat16": 12}


class Handle(C.Structure):
    _fields_ = [("ctx", C.c_void_p)]


class OptionalInt(C.Structure):
    _fields_ = [("value", C.c_int), ("has_value", C.c_bool)]


for name in ("mlx_array_new", "mlx_default_cpu_stream_new", "mlx_vector_array_new"):
    getattr(lib, name).restype = Handle
lib.mlx_array_new_data.restype = Handle
lib.mlx_array_new_data.argtypes = [C.c_void_p, C.c_void_p, C.c_int, C.c_int]
S = lib.mlx_default_cpu_stream_new()


def array(v, dtype):
    v = np.ascontiguousarray(v, np.float32)
    a = lib.mlx_array_new_data(v.ctypes.data, (C.c_int * v.ndim)(*v.shape), v.ndim, DTYPES["float32"])
    return call("astype", a, DTYPES[dtype])


def call(name, *args):
    out = lib.mlx_array_new()
    if getattr(lib, "mlx_" + name)(C.byref(out), *args, S):
        sys.exit(name)
    lib.mlx_array_eval(out)
    return out


def run(name, *args):
    lib.mlx_array_free(call(name, *args))


def quantized(w, f):
    v = lib.mlx_vector_array_new()
    if lib.mlx_quantize(C.byref(v), w, *f, Handle(None), S):
        sys.exit("quantize")
    made = []
    for i in range(lib.mlx_vector_array_size(v)):
        a = lib.mlx_array_new()
        lib.mlx_vector_array_get(C.byref(a), v, C.c_size_t(i))
        made.append(call("contiguous", a, C.c_bool(False)))
    return made + [Handle(None)] * (3 - len(made))


def times(calls):
    """The median time of each call; call(i) uses set i of its operands."""
    taken = {k: [] for k in calls}
    for r in range(ROUNDS):
        for k, f in calls.items():
            for i in range(SETS if r == 0 else 1):
                begin = time.perf_counter()
                f((r + i) % SETS)
                taken[k].append(time.perf_counter() - begin)
                if taken[k][-1] > 0.2:
                    break
    return {k: statistics.median(v[SETS if len(v) > SETS else 0:]) for k, v in taken.items()}


def read_rate():
    """GB/s of a sum over 512 MB."""
    big = array(np.ones(1 << 25), "float32")
    best = 1e9
    for _ in range(12):
        begin = time.perf_counter()
        run("sum", big, C.c_bool(False))
        best = min(best, time.perf_counter() - begin)
    lib.mlx_array_free(big)
    return (4 << 25) / best / 1e9


def product(m, k, n, mode, group, bits, dtype, read):
    name = f"{m}x{k}x{n} {mode} {bits} bits {dtype}"
    if not all(word in name for word in ONLY):
        return
    f = (OptionalInt(group, True), OptionalInt(bits, True), mode.encode())
    rng = np.random.default_rng(1)
    x = rng.standard_normal((m, k)).astype(np.float32)
    w = [rng.standard_normal((n, k)).astype(np.float32) for _ in range(2)]
    ours = [quantized(array(w[i % 2], dtype), f) for i in range(SETS)]
    left = array(x, dtype)
    calls = {"keel": lambda i: run("quantized_matmul", left, *ours[i], C.c_bool(True), *f)}
    floats = array(w[0], dtype)
    across = call("transpose", floats)
    calls["keel, floats"] = lambda i: run("matmul", left, across)
    if mx:
        kept = [mx.quantize(mx.array(w[i % 2]).astype(getattr(mx, dtype)), group_size=group, bits=bits, mode=mode) for i in range(2)]
        mx.eval(kept)
        theirs = mx.array(x).astype(getattr(mx, dtype))
        calls["mlx"] = lambda i: mx.eval(mx.quantized_matmul(theirs, *kept[i % 2], transpose=True, group_size=group, bits=bits, mode=mode))
    if torch:
        tx, tw = torch.tensor(x, dtype=getattr(torch, dtype)), torch.tensor(w[0], dtype=getattr(torch, dtype))
        calls["torch, floats"] = lambda i: tx @ tw.T
    t = times(calls)
    scale = 1 if mode != "affine" else 4 if dtype == "float32" else 2
    data = n * k * bits / 8 + n * k / group * scale * (2 if mode == "affine" else 1)
    share = f"{100 * data / t['keel'] / 1e9 / read:4.0f} % of reads" if m <= 8 else f"{2 * m * k * n / t['keel'] / 1e9:5.0f} GFLOP/s"
    print(f"{name:42} {1e3 * t['keel']:8.3f} ms  {share:16} " + "  ".join(f"{who} {1e3 * v:.2f}" for who, v in t.items() if who != "keel"), flush=True)
    for q in ours:
        for a in q:
            if a.ctx:
                lib.mlx_array_free(a)


rate = read_rate()
print(f"read {rate:.1f} GB/s")
for m in (1, 8, 32, 512):
    for dtype in ("bfloat16", "float16", "float32"):
        for mode, group, bits in (("affine", 64, 4), ("affine", 64, 8), ("mxfp4", 32, 4)) + ((("affine", 64, 3), ("affine", 64, 6), ("mxfp8", 32, 8), ("nvfp4", 16, 4)) if m == 1 and dtype == "bfloat16" else ()):
            product(m, 4096, 4096, mode, group, bits, dtype, rate)
