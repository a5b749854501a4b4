#!/usr/bin/env python3
"""Quantized products on the CPU beside MLX, llama.cpp and, unpacked, PyTorch's and Keel's own products of floats.

    taskset -c 0,1 python3 bench/quantized_peers.py path/to/libkeel.so [rounds] [words of the names of cases ...]

Prints per case: Keel's time, its share of the read rate (packed numbers, scales and biases count as bytes) or its rate of multiply-adds, and the times of the peers that are installed. Matrices are used in turns, so that they do not stay in a cache.
Times are medians of rounds, in which all libraries take turns. llama.cpp (of the package llama-cpp-python) multiplies Q4_0 and Q8_0, blocks of 32, by float32 rows
that it rounds to 8 bits; beside it stand the errors of both: the length of the difference from the product of the same unpacked weights in float64, over that of the product."""
import ctypes as C
import glob
import importlib.util
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
    llama = Llama(x, w, bits) if ggml and mode == "affine" and bits in (4, 8) and dtype == "float32" else None
    if llama:
        calls["llama.cpp"] = llama
    t = times(calls)
    errors = ""
    if llama:
        errors = f"  errors {error_of_keel(x, left, ours[0], f, n):.1e}, llama.cpp {llama.error():.1e}"
        llama.free()
    scale = 1 if mode != "affine" else 4 if dtype == "float32" else 2
    data = n * k * bits / 8 + n * k / group * scale * (2 if mode == "affine" else 1)
    share = f"{100 * data / t['keel'] / 1e9 / read:4.0f} % of reads" if m <= 8 else f"{2 * m * k * n / t['keel'] / 1e9:5.0f} GFLOP/s"
    print(f"{name:42} {1e3 * t['keel']:8.3f} ms  {share:16} " + "  ".join(f"{who} {1e3 * v:.2f}" for who, v in t.items() if who != "keel") + errors, flush=True)
    for q in ours:
        for a in q:
            if a.ctx:
                lib.mlx_array_free(a)


class Plan(C.Structure):  # struct ggml_cplan, and room for what later versions add
    _fields_ = [("work_size", C.c_size_t), ("work_data", C.c_void_p), ("n_threads", C.c_int), ("rest", C.c_void_p * 8)]


class InitParams(C.Structure):
    _fields_ = [("mem_size", C.c_size_t), ("mem_buffer", C.c_void_p), ("no_alloc", C.c_bool)]


def load_ggml():
    """The functions of ggml that are used here, or None."""
    package = importlib.util.find_spec("llama_cpp")
    if not package:
        return None
    folder = os.path.join(os.path.dirname(package.origin), "lib")
    base, cpu = (C.CDLL((glob.glob(folder + f"/lib{n}.so*") or [n])[0], mode=C.RTLD_GLOBAL) for n in ("ggml-base", "ggml-cpu"))
    for where, name, result, args in (
        (base, "ggml_init", C.c_void_p, [InitParams]),
        (base, "ggml_new_tensor_2d", C.c_void_p, [C.c_void_p, C.c_int, C.c_int64, C.c_int64]),
        (base, "ggml_get_data", C.c_void_p, [C.c_void_p]),
        (base, "ggml_nbytes", C.c_size_t, [C.c_void_p]),
        (base, "ggml_mul_mat", C.c_void_p, [C.c_void_p] * 3),
        (base, "ggml_new_graph", C.c_void_p, [C.c_void_p]),
        (base, "ggml_build_forward_expand", None, [C.c_void_p] * 2),
        (base, "ggml_quantize_chunk", C.c_size_t, [C.c_int, C.c_void_p, C.c_void_p, C.c_int64, C.c_int64, C.c_int64, C.c_void_p]),
        (base, "ggml_free", None, [C.c_void_p]),
        (cpu, "ggml_cpu_init", None, []),
        (cpu, "ggml_graph_plan", Plan, [C.c_void_p, C.c_int, C.c_void_p]),
        (cpu, "ggml_graph_compute", C.c_int, [C.c_void_p, C.POINTER(Plan)]),
    ):
        f = getattr(where, name)
        f.restype, f.argtypes = result, args
        setattr(base, name, f)
    base.ggml_cpu_init()
    return base


class Llama:
    """The product of x (m, k) by SETS matrices (n, k) in Q4_0 or Q8_0."""

    def __init__(self, x, w, bits):
        (m, k), n = x.shape, w[0].shape[0]
        kind = {4: 2, 8: 8}[bits]
        block = np.dtype([("d", np.float16), ("q", np.uint8 if bits == 4 else np.int8, 16 if bits == 4 else 32)])
        self.ctx = ggml.ggml_init(InitParams(SETS * (n * k // 32 * block.itemsize + 4 * m * n + (1 << 20)) + (4 * m * k) + (1 << 20), None, False))
        left = ggml.ggml_new_tensor_2d(self.ctx, 0, k, m)
        C.memmove(ggml.ggml_get_data(left), np.ascontiguousarray(x).ctypes.data, 4 * m * k)
        self.graphs, self.plans, self.work, self.shape = [], [], [], (m, n)
        for i in range(SETS):
            packed = ggml.ggml_new_tensor_2d(self.ctx, kind, k, n)
            ggml.ggml_quantize_chunk(kind, w[i % 2].ctypes.data, ggml.ggml_get_data(packed), 0, n, k, None)
            out = ggml.ggml_mul_mat(self.ctx, packed, left)
            graph = ggml.ggml_new_graph(self.ctx)
            ggml.ggml_build_forward_expand(graph, out)
            plan = ggml.ggml_graph_plan(graph, len(os.sched_getaffinity(0)), None)
            self.work.append(C.create_string_buffer(max(plan.work_size, 1)))
            plan.work_data = C.addressof(self.work[-1])
            self.graphs.append(graph)
            self.plans.append(plan)
            if i == 0:
                b = np.frombuffer(C.string_at(ggml.ggml_get_data(packed), ggml.ggml_nbytes(packed)), block)
                q = np.concatenate([b["q"] & 15, b["q"] >> 4], 1).astype(np.float64) - 8 if bits == 4 else b["q"].astype(np.float64)
                self.exact = x.astype(np.float64) @ (q * b["d"].astype(np.float64)[:, None]).reshape(n, k).T
                self.out = out

    def __call__(self, i):
        if ggml.ggml_graph_compute(self.graphs[i], C.byref(self.plans[i])):
            sys.exit("llama.cpp")

    def error(self):
        self(0)
        m, n = self.shape
        return off(np.frombuffer(C.string_at(ggml.ggml_get_data(self.out), 4 * m * n), np.float32).reshape(m, n), self.exact)

    def free(self):
        ggml.ggml_free(self.ctx)


def off(got, exact):
    return np.linalg.norm(got - exact) / np.linalg.norm(exact)


def floats_of(a, shape):
    wide = call("astype", a, DTYPES["float32"])
    lib.mlx_array_data_float32.restype = C.POINTER(C.c_float)
    v = np.ctypeslib.as_array(lib.mlx_array_data_float32(wide), shape).copy()
    lib.mlx_array_free(wide)
    return v


def error_of_keel(x, left, packed, f, n):
    m, k = x.shape
    w = call("dequantize", *packed, *f, Handle(None), OptionalInt(0, False))
    got = call("quantized_matmul", left, *packed, C.c_bool(True), *f)
    return off(floats_of(got, (m, n)), x.astype(np.float64) @ floats_of(w, (n, k)).astype(np.float64).T)


ggml = load_ggml()
rate = read_rate()
print(f"read {rate:.1f} GB/s")
for m in (1, 8, 32, 512):
    for dtype in ("bfloat16", "float16", "float32"):
        for mode, group, bits in (("affine", 64, 4), ("affine", 64, 8), ("mxfp4", 32, 4)) + ((("affine", 64, 3), ("affine", 64, 6), ("mxfp8", 32, 8), ("nvfp4", 16, 4)) if m == 1 and dtype == "bfloat16" else ()):
            product(m, 4096, 4096, mode, group, bits, dtype, rate)
for k, n in ((576, 1536), (1536, 576), (576, 49152)):  # layers of SmolLM2-135M; a row of 576 numbers has nine groups
    for bits in (4, 8):
        product(1, k, n, "affine", 64, bits, "bfloat16", rate)
