"""What all cases of bench/gpu_peers.py are made with: the C API, the peers that are installed, and the measurement."""
import collections
import ctypes as C
import gc
import itertools
import os
import statistics
import sys
import time

import numpy as np
import torch

ROUNDS = int(os.environ.get("KEEL_BENCH_ROUNDS", "15"))
BUDGET = float(os.environ.get("KEEL_BENCH_SECONDS", "0.02"))  # per measurement

lib = C.CDLL(sys.argv[1])
ALONE = bool(os.environ.get("KEEL_BENCH_ALONE"))  # no peers: to compare two settings of Keel
wanted = sys.argv[2:]


class Handle(C.Structure):
    _fields_ = [("ctx", C.c_void_p)]


def declare(name, res, *args):
    f = getattr(lib, name)
    f.restype, f.argtypes = res, list(args)
    return f


INT, PTR, F = C.c_int, C.c_void_p, C.c_float
new_array = declare("mlx_array_new", Handle)
free_array = declare("mlx_array_free", INT, Handle)
array_data = declare("mlx_array_new_data", Handle, PTR, PTR, INT, INT)
gpu_stream = declare("mlx_default_gpu_stream_new", Handle)
async_eval = declare("mlx_async_eval", INT, Handle)
evaluate = declare("mlx_eval", INT, Handle)
vec = declare("mlx_vector_array_new_data", Handle, PTR, C.c_size_t)
vec_free = declare("mlx_vector_array_free", INT, Handle)
vec_size = declare("mlx_vector_array_size", C.c_size_t, Handle)
vec_get = declare("mlx_vector_array_get", INT, C.POINTER(Handle), Handle, C.c_size_t)
vec_set = declare("mlx_vector_array_set_data", INT, C.POINTER(Handle), PTR, C.c_size_t)
new_vec = declare("mlx_vector_array_new", Handle)
Function = C.CFUNCTYPE(INT, C.POINTER(Handle), Handle)
new_closure = declare("mlx_closure_new_func", Handle, Function)
vjp = declare("mlx_vjp", INT, C.POINTER(Handle), C.POINTER(Handle), Handle, Handle, Handle)
synchronize = declare("mlx_synchronize", INT, Handle)
errors_return = declare("keel_errors_return", None)
errors_return()
NO, YES, NONE = C.c_bool(False), C.c_bool(True), Handle()
UINT32, INT32, F16, FLOAT32, BF16, COMPLEX64 = 3, 7, 9, 10, 12, 13
S = gpu_stream()


def last_error():
    return "Keel failed (see keel_last_error)"


def call(name, *args):
    """One lazy operation: mlx_<name>(res, *args, stream)."""
    out = new_array()
    f = getattr(lib, "mlx_" + name)
    if f(C.byref(out), *args, S):
        raise RuntimeError(name + ": " + last_error())
    return out


def ints(*v):
    return (C.c_int * len(v))(*v)


def to_keel(a):
    """A NumPy array as a settled Keel array on the GPU."""
    code = {np.dtype("float32"): FLOAT32, np.dtype("int32"): INT32, np.dtype("uint32"): UINT32, np.dtype("complex64"): COMPLEX64}[a.dtype]
    a = np.ascontiguousarray(a)
    host = array_data(a.ctypes.data, ints(*a.shape), a.ndim, code)
    dev = call("copy", host)
    run(dev)
    free_array(host)
    return dev


def run(*arrays):
    v = vec((Handle * len(arrays))(*arrays), len(arrays))
    rc = evaluate(v)
    vec_free(v)
    if rc:
        raise RuntimeError(last_error())


# Results are held until they are computed: Keel does not run queued work that nobody can read any more. Large inputs take turns, so that
# no input is read once for two rounds.
kept = collections.deque()  # of (array, bytes)
HOLD_BYTES = 4 << 30
held = 0  # the bytes of kept
array_bytes = declare("mlx_array_nbytes", C.c_size_t, Handle)


def start(*arrays):
    global held
    v = vec((Handle * len(arrays))(*arrays), len(arrays))
    rc = async_eval(v)
    vec_free(v)
    for a in arrays:
        kept.append((a, array_bytes(a)))
        held += kept[-1][1]
    if rc:
        raise RuntimeError(last_error())
    while held > HOLD_BYTES:
        oldest, n = kept.popleft()
        run(oldest)
        free_array(oldest)
        held -= n


def unpack(v):
    """The arrays of a vector, which is freed."""
    arrays = [new_array() for _ in range(vec_size(v))]
    for i, a in enumerate(arrays):
        if vec_get(C.byref(a), v, i):
            raise RuntimeError(last_error())
    vec_free(v)
    return arrays


functions = []  # kept alive


def as_closure(f):
    """f takes a list of arrays and returns a list of new ones."""

    def body(res, given):
        inputs = [new_array() for _ in range(vec_size(given))]
        for i, a in enumerate(inputs):
            vec_get(C.byref(a), given, i)
        outputs = f(*inputs)
        rc = vec_set(res, (Handle * len(outputs))(*outputs), len(outputs))
        for a in inputs + outputs:
            free_array(a)
        return rc

    functions.append(Function(body))
    return new_closure(functions[-1])


def start_with_gradients(closure, inputs, cotangents):
    """Starts the results of a closure and the gradients of all its inputs."""
    v, g = vec((Handle * len(inputs))(*inputs), len(inputs)), vec((Handle * len(cotangents))(*cotangents), len(cotangents))
    out, grads = new_vec(), new_vec()
    rc = vjp(C.byref(out), C.byref(grads), closure, v, g)
    vec_free(v)
    vec_free(g)
    if rc:
        raise RuntimeError(last_error())
    start(*unpack(out), *unpack(grads))


def in_turn(arrays):
    return itertools.cycle(arrays).__next__


def keel_sync():
    global held
    if synchronize(S):
        raise RuntimeError(last_error())
    while kept:
        oldest, n = kept.popleft()
        free_array(oldest)
        held -= n


def seconds(work, sync, n):
    sync()
    t = time.perf_counter()
    for _ in range(n):
        work()
    sync()
    return (time.perf_counter() - t) / n


def repeat(work, sync):
    work()
    sync()
    once = seconds(work, sync, 3)
    return max(3, min(2000, int(BUDGET / max(once, 1e-7))))


try:
    import cupy
except ImportError:
    cupy = None
try:
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    import jax
    import jax.numpy as jnp
except ImportError:
    jax = jnp = None

try:
    import mlx.core as mx
except ImportError:
    mx = None

results = []
most_used = 0  # bytes of the device, of all libraries together
IN_FLIGHT = 4  # results of JAX and MLX that are not waited for: theirs have memory of their own until they are computed


def release():
    """Notes how much of the device is in use, and gives back what the libraries keep for later and cycles of objects hold."""
    global most_used
    free, total = torch.cuda.mem_get_info()
    most_used = max(most_used, total - free)
    gc.collect()
    torch.cuda.empty_cache()
    lib.mlx_clear_cache()
    if mx is not None:
        mx.clear_cache()
    if cupy is not None:
        cupy.get_default_memory_pool().free_all_blocks()


def chosen(name):
    cases = [w for w in wanted if not w.startswith("group:")]
    return not cases or any(w in name for w in cases)


def case(name, bytes_moved, keel, peers, flops=None):
    """keel: function that starts the work; peers: {label: (start, synchronise)}."""
    if not chosen(name):
        return
    ways = {"keel": (keel, keel_sync)}
    if not ALONE:
        ways.update(peers)
    counts, times = {}, {k: [] for k in ways}
    for k, (w, s) in list(ways.items()):
        try:
            counts[k] = repeat(w, s)
        except Exception as e:  # a peer that cannot do it is left out, by name
            print(f"{name}: {k} left out: {str(e)[:120]}", flush=True)
            del ways[k]
            if k == "keel":
                return
    for _ in range(ROUNDS):
        for k, (w, s) in ways.items():
            times[k].append(seconds(w, s, counts[k]))
    med = {k: statistics.median(times[k]) for k in ways}
    torches = [k for k in ways if k.startswith("torch")]
    best = min(torches, key=lambda k: med[k]) if torches else None
    ratio = statistics.median(a / b for a, b in zip(times[best], times["keel"])) if best else 0
    unit = (f"{flops / med['keel'] * 1e-12:8.1f} TFLOP/s" if flops else f"{bytes_moved / med['keel'] * 1e-9:8.0f} GB/s   ")
    others = "  ".join(f"{k} {med[k] * 1e3:.4f}" for k in ways if k != "keel")
    print(f"{name:34s} keel {med['keel'] * 1e3:9.4f} ms {unit} {ratio:6.2f} x torch   {others}", flush=True)
    results.append((name, ratio, med))
    release()


tsync = torch.cuda.synchronize
dev = torch.device("cuda")
rng = np.random.default_rng(1)


def peer_torch(f):
    return (f, tsync)


def peer_cupy(f):
    return (f, lambda: cupy.cuda.get_current_stream().synchronize())


def peer_jax(f, *args):
    g = jax.jit(f)
    last = collections.deque()

    def go():
        last.append(g(*args))
        if len(last) > IN_FLIGHT:
            jax.block_until_ready(last.popleft())

    def wait():
        while last:
            jax.block_until_ready(last.popleft())

    return (go, wait)


def with_mlx(peers, f):
    """Adds MLX, whose result of f() is evaluated and dropped soon."""
    last = collections.deque()

    def go():
        last.append(f())
        mx.async_eval(last[-1])
        if len(last) > IN_FLIGHT:
            mx.eval(last.popleft())

    def wait():
        mx.synchronize()
        last.clear()

    if mx is not None:
        peers["mlx"] = (go, wait)
    return peers


def normal(*shape):
    return rng.standard_normal(shape, dtype=np.float32)


def both(a):
    return to_keel(a), torch.from_numpy(a).to(dev)
