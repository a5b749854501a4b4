"""GPU benchmark: Keel beside PyTorch, CuPy, JAX and MLX (where they are installed), in one process on one device.

python3 bench/gpu_peers.py path/to/libkeel.so [group:NAME ...] [case ...]

Without group: all groups run; with cases: only cases that have one of these texts in their names.

Each case runs every library in turn, 15 rounds; the figures are medians, the ratio is the median of the rounds' ratios (PyTorch's better
way where two are given). At the end of a case every library gives back what it keeps, so that all cases fit into 80 GB; the last line tells the
most that was in use. Bytes are those that the operation must move: every input read once, every output written once. Inputs are random normal.
"""
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
    jax = None

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


def streams():
    n = 1 << 28
    a = normal(n)
    ka, ta = both(a)
    kb, tb = both(a[::-1].copy())
    out = torch.empty_like(ta)
    others = [call("add", ka, kb), call("subtract", ka, kb), call("multiply", ka, kb)]
    run(*others)
    turn = in_turn([ka, *others])
    p = {"torch": peer_torch(lambda: out.copy_(ta))}
    case("copy 2^28", 8 * n, lambda: start(call("copy", turn())), p)
    p = {"torch": peer_torch(lambda: torch.add(ta, tb, out=out))}
    if cupy is not None:
        ca, cb, co = cupy.asarray(ta), cupy.asarray(tb), cupy.asarray(out)
        p["cupy"] = peer_cupy(lambda: cupy.add(ca, cb, out=co))
    if jax is not None:
        ja, jb = jnp.from_dlpack(ta), jnp.from_dlpack(tb)
        p["jax"] = peer_jax(lambda x, y: x + y, ja, jb)
    case("add 2^28", 12 * n, lambda: start(call("add", turn(), turn())), p)
    p = {"torch": peer_torch(lambda: torch.exp(ta, out=out))}
    case("exp 2^28", 8 * n, lambda: start(call("exp", turn())), p)

    def scalar(x):
        v = C.c_float(x)
        h = array_data(C.byref(v), None, 0, FLOAT32)
        d = call("copy", h)
        run(d)
        free_array(h)
        return d

    k_minus, k_one = scalar(-1.702), scalar(1.0)

    def keel_gelu():
        x = turn()
        t = call("multiply", x, k_minus)
        e = call("exp", t)
        s = call("add", e, k_one)
        d = call("divide", k_one, s)
        r = call("multiply", x, d)
        for x in (t, e, s, d):
            free_array(x)
        start(r)

    def gelu(x):
        return x * (1.0 / (1.0 + torch.exp(x * -1.702)))

    compiled = torch.compile(gelu)
    case("gelu of five operations 2^28", 8 * n, keel_gelu,
         {"torch": peer_torch(lambda: gelu(ta)), "torch.compile": peer_torch(lambda: compiled(ta))})
    case("sum of all 2^28", 4 * n, lambda: start(call("sum", ka, C.c_bool(False))), {"torch": peer_torch(lambda: torch.sum(ta))})
    kr, tr = call("reshape", ka, ints(16384, 16384), C.c_size_t(2)), ta.view(16384, 16384)
    run(kr)
    case("sum of rows 16384^2", 4 * n, lambda: start(call("sum_axis", kr, 1, C.c_bool(False))), {"torch": peer_torch(lambda: torch.sum(tr, 1))})
    case("sum of columns 16384^2", 4 * n, lambda: start(call("sum_axis", kr, 0, C.c_bool(False))), {"torch": peer_torch(lambda: torch.sum(tr, 0))})
    softmaxes = {"torch": peer_torch(lambda: torch.softmax(tr, 1))}
    if mx is not None:
        mr = mx.array(a.reshape(16384, 16384))
        with_mlx(softmaxes, lambda: mx.softmax(mr, axis=1))
    case("softmax 16384^2", 8 * n, lambda: start(call("softmax_axis", kr, 1, C.c_bool(False))), softmaxes)

    def keel_transpose():
        t = call("transpose", kr)
        r = call("contiguous", t, C.c_bool(False))
        free_array(t)
        start(r)

    case("transpose copy 16384^2", 8 * n, keel_transpose, {"torch": peer_torch(lambda: tr.t().contiguous())})
    for x in (ka, kb, kr, *others):
        free_array(x)


def products():
    for n in (8192, 4096, 1024):
        a, b = normal(n, n), normal(n, n)
        ka, kb = to_keel(a), to_keel(b)
        fa, fb = torch.from_numpy(a).to(dev), torch.from_numpy(b).to(dev)
        for code, kind, name in ((BF16, torch.bfloat16, "bfloat16"), (F16, torch.float16, "float16")):
            ha, hb = call("astype", ka, code), call("astype", kb, code)
            run(ha, hb)
            ta, tb = fa.to(kind), fb.to(kind)
            case(f"matmul {name} {n}^3", 0, lambda: start(call("matmul", ha, hb)), {"torch": peer_torch(lambda: ta @ tb)}, flops=2.0 * n**3)
            for x in (ha, hb):
                free_array(x)
        if n == 4096:
            case(f"matmul float32 {n}^3", 0, lambda: start(call("matmul", ka, kb)), {"torch": peer_torch(lambda: fa @ fb)}, flops=2.0 * n**3)
        for x in (ka, kb):
            free_array(x)


def of_kind(a, code):
    """A NumPy array of float32 as Keel's in another dtype."""
    f = to_keel(a)
    if code == FLOAT32:
        return f
    k = call("astype", f, code)
    run(k)
    free_array(f)
    return k


def convolutions():
    """Channels last in Keel and MLX; PyTorch in both of its memory formats."""
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = True
    conv = torch.nn.functional.conv2d
    for what, n, h, c, o, k, stride, groups in (("8x56x56x64 to 64, k3", 8, 56, 64, 64, 3, 1, 1), ("32x224x224x3 to 64, k7, stride 2", 32, 224, 3, 64, 7, 2, 1),
                                                ("8x56x56x256 k3, depthwise", 8, 56, 256, 256, 3, 1, 256)):
        x, w = normal(n, h, h, c), normal(o, k, k, c // groups)
        side, pad = h // stride, k // 2
        flops = 2.0 * n * side * side * o * k * k * c / groups
        for code, kind, name in ((FLOAT32, torch.float32, "float32"), (BF16, torch.bfloat16, "bfloat16")):
            kx, kw = of_kind(x, code), of_kind(w, code)
            last = [torch.from_numpy(a).to(dev).to(kind).permute(0, 3, 1, 2) for a in (x, w)]  # channels last in memory
            first = [t.contiguous() for t in last]
            how = {"stride": stride, "padding": pad, "groups": groups}
            p = {"torch": peer_torch(lambda: conv(*first, **how)), "torch.channels_last": peer_torch(lambda: conv(*last, **how))}
            if mx is not None:
                m = [mx.array(a).astype(mx.bfloat16 if code == BF16 else mx.float32) for a in (x, w)]
                mx.eval(m)
                with_mlx(p, lambda: mx.conv2d(*m, stride=stride, padding=pad, groups=groups))
            case(f"conv2d {what}, {name}", 0, lambda: start(call("conv2d", kx, kw, stride, stride, pad, pad, 1, 1, groups)), p, flops=flops)
            # with the gradients of input and weights
            g = normal(n, side, side, o)
            kg, tg = of_kind(g, code), torch.from_numpy(g).to(dev).to(kind).permute(0, 3, 1, 2)
            closure = as_closure(lambda x, w: [call("conv2d", x, w, stride, stride, pad, pad, 1, 1, groups)])

            def there_and_back(x, w, g):
                x, w = x.detach().requires_grad_(), w.detach().requires_grad_()
                return torch.autograd.grad(conv(x, w, **how), (x, w), g)

            p = {"torch": peer_torch(lambda: there_and_back(*first, tg.contiguous())), "torch.channels_last": peer_torch(lambda: there_and_back(*last, tg))}
            if mx is not None:
                mg = mx.array(g).astype(mx.bfloat16 if code == BF16 else mx.float32)
                mx.eval(mg)
                with_mlx(p, lambda: mx.vjp(lambda x, w: mx.conv2d(x, w, stride=stride, padding=pad, groups=groups), m, [mg]))
            case(f"conv2d {what}, {name}, forward and backward", 0, lambda: start_with_gradients(closure, [kx, kw], [kg]), p, flops=3 * flops)
            for a in (kx, kw, kg):
                free_array(a)


class OptionalInt(C.Structure):
    _fields_ = [("value", C.c_int), ("has_value", C.c_bool)]


def quantised():
    """Products of bfloat16 rows and matrices of 4 or 8 bits in groups of 64; many matrices in turns. GB/s: of packed numbers, scales and biases. PyTorch's own format of 4 bits, and its product of bfloat16."""
    numpy_rng = np.random.default_rng(3)
    for bits, n, k in ((4, 14336, 4096), (4, 4096, 14336), (8, 14336, 4096), (8, 4096, 14336)):
        form = (OptionalInt(64, True), OptionalInt(bits, True), C.c_char_p(b"affine"))
        size = n * k * bits // 8 + n * k // 64 * 4
        copies = max(2, -(-(1 << 30) // size))
        words = [to_keel(numpy_rng.integers(0, 1 << 32, (n, k * bits // 32), dtype=np.uint32)) for _ in range(copies)]
        scales = [of_kind(normal(n, k // 64) * 0.01, BF16) for _ in range(copies)]
        biases = [of_kind(normal(n, k // 64) * 0.01, BF16) for _ in range(copies)]
        keel_turn = in_turn(list(zip(words, scales, biases)))
        packed = [torch.randint(0, 1 << 31, (n // 8, k // 128, 32, 4), dtype=torch.int32, device=dev) for _ in range(copies if bits == 4 else 0)]
        pairs = torch.randn(k // 64, n, 2, device=dev).bfloat16()
        torch_turn = in_turn(packed)
        whole = torch.randn(k, n, device=dev).bfloat16()
        if mx is not None:
            theirs = [mx.quantize(mx.random.normal((n, k)).astype(mx.bfloat16), group_size=64, bits=bits) for _ in range(copies)]
            mx.eval(theirs)
            mlx_turn = in_turn(theirs)
        for rows in (1, 2, 8, 16, 32, 64, 512):
            x = normal(rows, k)
            kx, tx = of_kind(x, BF16), torch.from_numpy(x).to(dev).bfloat16()
            p = {"torch.bfloat16": peer_torch(lambda: tx @ whole)}
            if bits == 4:
                p["torch.int4"] = peer_torch(lambda: torch._weight_int4pack_mm(tx, torch_turn(), 64, pairs))
            if mx is not None:
                m = mx.array(x).astype(mx.bfloat16)
                mx.eval(m)
                with_mlx(p, lambda: mx.quantized_matmul(m, *mlx_turn(), transpose=True, group_size=64, bits=bits))
            case(f"{bits}-bit {rows}x{k} by {n}", size, lambda: start(call("quantized_matmul", kx, *keel_turn(), C.c_bool(True), *form)), p,
                 flops=2.0 * rows * n * k if rows > 64 else None)
            free_array(kx)
        for a in words + scales + biases:
            free_array(a)


def experts():
    """Mixtures of experts: rows of bfloat16, each by one of 128 matrices of 1536 x 4096 that an index chooses, of 4 bits in groups of 64 (gather_qmm) and of bfloat16 (gather_mm).
    8 rows: the 8 experts of one token. GB/s: of the matrices that are chosen. PyTorch: _grouped_mm of bfloat16, whose rows are sorted already."""
    numpy_rng = np.random.default_rng(4)
    n_experts, n, k = 128, 1536, 4096
    form = (OptionalInt(64, True), OptionalInt(4, True), C.c_char_p(b"affine"))
    words = to_keel(numpy_rng.integers(0, 1 << 32, (n_experts, n, k // 8), dtype=np.uint32))
    scales, biases = (of_kind(normal(n_experts, n, k // 64) * 0.01, BF16) for _ in range(2))
    whole = torch.randn(n_experts, n, k, device=dev).bfloat16()
    one = of_kind(normal(1, n, k), BF16)
    many = call("repeat_axis", one, n_experts, 0)
    kw = call("contiguous", many, C.c_bool(False))
    run(kw)
    turned = call("swapaxes", kw, 1, 2)
    none = new_array()
    for tokens in (1, 32, 512, 4096):
        rows = tokens * 8
        chosen = np.sort(numpy_rng.integers(0, n_experts, rows).astype(np.int32)) if tokens > 1 else np.arange(8, dtype=np.int32) * 15
        used = len(np.unique(chosen))
        x = normal(rows, 1, k)
        kx, ki = of_kind(x, BF16), to_keel(chosen)
        tx = torch.from_numpy(x.reshape(rows, k)).to(dev).bfloat16()
        offs = torch.from_numpy(np.cumsum(np.bincount(chosen, minlength=n_experts)).astype(np.int32)).to(dev)
        p = {"torch.bfloat16": peer_torch(lambda: torch._grouped_mm(tx, whole.transpose(1, 2), offs=offs))}
        flops = 2.0 * rows * n * k
        case(f"4-bit experts, {tokens} tokens of 8", used * (n * k // 2 + n * k // 16), lambda: start(call("gather_qmm", kx, words, scales, biases, none, ki, C.c_bool(True), *form, C.c_bool(tokens > 1))), p,
             flops=flops if tokens > 32 else None)
        case(f"bfloat16 experts, {tokens} tokens of 8", used * n * k * 2, lambda: start(call("gather_mm", kx, turned, none, ki, C.c_bool(tokens > 1))), p, flops=flops if tokens > 32 else None)
        free_array(kx)
        free_array(ki)
    for a in (words, scales, biases, one, many, kw, turned):
        free_array(a)


def index_of(n, below, seed=3):
    return np.random.default_rng(seed).integers(0, below, n, dtype=np.int32)


def gathers():
    def one(name, shape, n, cupy_too=True):
        a, i = normal(*shape), index_of(n, shape[0])
        ka, ta = both(a)
        ki, ti = to_keel(i), torch.from_numpy(i).to(dev).long()
        row = int(np.prod(shape[1:]))
        p = {"torch": peer_torch(lambda: ta[ti]), "torch.index_select": peer_torch(lambda: torch.index_select(ta, 0, ti))}
        if cupy is not None and cupy_too:
            ca, ci = cupy.asarray(ta), cupy.asarray(ti)
            p["cupy"] = peer_cupy(lambda: cupy.take(ca, ci, 0))
        case(name, 4 * n * (1 + row) + 4 * min(n, shape[0]) * row, lambda: start(call("take_axis", ka, ki, 0)), p)
        free_array(ka)
        free_array(ki)

    one("gather (100, 64) by 1 M", (100, 64), 1_000_000)
    one("gather (100, 1024) by 100 K", (100, 1024), 100_000)
    one("gather (4, 1 M) by one", (4, 1_000_000), 1)
    one("lookup 4 M rows of 128", (4_000_000, 128), 4_000_000)


def scatters():
    def one(name, shape, n_index, add=False, axes=1):
        a = normal(*shape)
        idx = [index_of(n_index, shape[k], 3 + k) for k in range(axes)]
        row = int(np.prod(shape[axes:]))
        u = normal(n_index, *shape[axes:])
        ka, ta = both(a)
        kis, tis = [to_keel(i) for i in idx], [torch.from_numpy(i).to(dev).long() for i in idx]
        ku, tu = both(u.reshape((n_index,) + (1,) * axes + shape[axes:]))
        tu = tu.view((n_index,) + shape[axes:])
        out = ta.clone()
        v = vec((Handle * axes)(*kis), axes)
        f = "scatter_add" if add else "scatter"

        # PyTorch writes into its array; Keel's result is a new array unless the base has no other owner, so the base is given away.
        box = [call("copy", ka)]
        run(box[0])

        def keel():
            r = call(f, box[0], v, ku, ints(*range(axes)), C.c_size_t(axes))
            free_array(box[0])
            box[0] = r
            h = vec((Handle * 1)(r), 1)
            async_eval(h)
            vec_free(h)

        p = {"torch": peer_torch(lambda: out.index_put_(tuple(tis), tu, accumulate=add))}
        if add:
            p["torch.index_add"] = peer_torch(lambda: out.index_add_(0, tis[0], tu))
        else:
            if axes == 1:
                p["torch.index_copy"] = peer_torch(lambda: out.index_copy_(0, tis[0], tu))
        case(name, 4 * n_index * (axes + 2 * row), keel, p)

        for x in (ka, ku, box[0], *kis):
            free_array(x)

    one("scatter (10, 64) by 1 M", (10, 64), 1_000_000)
    one("scatter (100 K, 64) by 1 M", (100_000, 64), 1_000_000)
    one("scatter (1 M, 64) by 100 K", (1_000_000, 64), 100_000)
    one("scatter (100 K,) by 1 M", (100_000,), 1_000_000)
    one("scatter (200 K,) by 20 M", (200_000,), 20_000_000)
    one("scatter (20 M,) by 20 M", (20_000_000,), 20_000_000)
    one("scatter (10 K, 64) by 1 M", (10_000, 64), 1_000_000)
    one("scatter (100, 64) by 10 M", (100, 64), 10_000_000)
    one("scatter (100, 10 K, 64) by 1 K", (100, 10_000, 64), 1_000)
    one("scatter (10, 100, 100, 21) by 10 K", (10, 100, 100, 21), 10_000)
    one("scatter (1000, 1000, 10) by two of 1 K", (1000, 1000, 10), 1_000, axes=2)
    one("scatter_add (10 K, 64) by 1 M", (10_000, 64), 1_000_000, add=True)
    one("scatter_add (200 K,) by 20 M", (200_000,), 20_000_000, add=True)


def chains():
    if not chosen("chain of tiny adds"):
        return
    n, m = 256, 2000
    ka, ta = both(normal(n))
    kb, tb = both(normal(n))
    add = lib.mlx_add
    times = {"keel": [], "torch": []}
    if cupy is not None:
        ca, cb = cupy.asarray(ta), cupy.asarray(tb)
        times["cupy"] = []

    def keel():
        # Each result is kept, so that no two can become one kernel.
        out = (Handle * m)()
        x = ka
        for i in range(m):
            out[i] = new_array()
            add(C.byref(out[i]), x, kb, S)
            x = out[i]
        v = vec(out, m)
        keel_sync()
        t = time.perf_counter()
        async_eval(v)
        keel_sync()
        t = time.perf_counter() - t
        vec_free(v)
        for a in out:
            free_array(a)
        return t / m

    def others(x, y, sync):
        sync()
        t = time.perf_counter()
        for _ in range(m):
            x = x + y
        sync()
        return (time.perf_counter() - t) / m

    for _ in range(ROUNDS):
        times["keel"].append(keel())
        times["torch"].append(others(ta, tb, tsync))
        if cupy is not None:
            times["cupy"].append(others(ca, cb, cupy.cuda.get_current_stream().synchronize))
    print("chain of tiny adds, kept (microseconds each): " + "  ".join(f"{k} {statistics.median(v) * 1e6:.2f}" for k, v in times.items()), flush=True)


class OptionalFloat(C.Structure):
    _fields_ = [("value", C.c_float), ("has_value", C.c_bool)]


NO, YES, NONE = C.c_bool(False), C.c_bool(True), Handle()


def rows():
    """Norms, rotary embeddings, masked softmax and activations: operations of models that memory limits."""
    n = 16384
    a = normal(n, n)
    ka, ta = both(a)
    kw, tw = both(normal(n))
    kb, tb = both(normal(n))
    others = [call("add", ka, ka), call("negative", ka)]
    run(*others)
    turn = in_turn([ka, *others])
    F = torch.nn.functional
    size = 8 * n * n
    compiled = torch.compile(lambda x, w: F.rms_norm(x, (n,), w, 1e-5))
    norms = {"torch": peer_torch(lambda: F.rms_norm(ta, (n,), tw, 1e-5)), "torch.compile": peer_torch(lambda: compiled(ta, tw))}
    if mx is not None:
        ma, mw = mx.array(a), mx.array(tw.cpu().numpy())
        with_mlx(norms, lambda: mx.fast.rms_norm(ma, mw, 1e-5))
    case("rms_norm 16384^2", size, lambda: start(call("fast_rms_norm", turn(), kw, C.c_float(1e-5))), norms)
    case("layer_norm 16384^2", size, lambda: start(call("fast_layer_norm", turn(), kw, kb, C.c_float(1e-5))),
         {"torch": peer_torch(lambda: F.layer_norm(ta, (n,), tw, tb, 1e-5))})
    kx, tx = call("reshape", ka, ints(1, 128, n, 128), C.c_size_t(4)), ta.view(1, 128, n, 128)
    run(kx)
    angle = torch.outer(torch.arange(n, device=dev), 10000.0 ** (-torch.arange(64, device=dev) / 64))
    cos, sin = angle.cos(), angle.sin()

    def rotate(x):
        u, v = x[..., :64], x[..., 64:]
        return torch.cat([u * cos - v * sin, u * sin + v * cos], -1)

    compiled_rotate = torch.compile(rotate)
    case("rope 128 heads of 16384 x 128", size, lambda: start(
        call("fast_rope", kx, 128, NO, OptionalFloat(10000.0, True), C.c_float(1.0), 0, NONE)),
        {"torch": peer_torch(lambda: rotate(tx)), "torch.compile": peer_torch(lambda: compiled_rotate(tx))})
    mask = rng.integers(0, 2, (1, n)).astype(np.float32) * -1e4
    km, tm = both(mask)

    def keel_masked():
        t = call("add", turn(), km)
        r = call("softmax_axis", t, 1, NO)
        free_array(t)
        start(r)

    compiled_masked = torch.compile(lambda x: torch.softmax(x + tm, 1))
    case("masked softmax 16384^2", size, keel_masked,
         {"torch": peer_torch(lambda: torch.softmax(ta + tm, 1)), "torch.compile": peer_torch(lambda: compiled_masked(ta))})
    def keel_swiglu():
        x, y = turn(), turn()
        t = call("sigmoid", x)
        u = call("multiply", x, t)
        r = call("multiply", u, y)
        for z in (t, u):
            free_array(z)
        start(r)

    td = ta.clone()
    compiled_swiglu = torch.compile(lambda x, y: F.silu(x) * y)
    case("swiglu 16384^2", 12 * n * n, keel_swiglu,
         {"torch": peer_torch(lambda: F.silu(ta) * td), "torch.compile": peer_torch(lambda: compiled_swiglu(ta, td))})
    for x in (ka, kw, kb, km, kx, *others):
        free_array(x)


def reductions():
    n = 16384
    a = normal(n, n)
    ka, ta = both(a)
    size = 4 * n * n
    for axis, name in ((1, "rows"), (0, "columns")):
        ways = {
            "all": (lambda: call("all_axis", ka, axis, NO), lambda: torch.all(ta, axis)),
            "any of 0": (lambda: call("any_axis", kz, axis, NO), lambda: torch.any(tz, axis)),
            "prod": (lambda: call("prod_axis", ka, axis, NO), lambda: torch.prod(ta, axis)),
            "var": (lambda: call("var_axis", ka, axis, NO, 0), lambda: torch.var(ta, axis, correction=0)),
            "logsumexp": (lambda: call("logsumexp_axis", ka, axis, NO), lambda: torch.logsumexp(ta, axis)),
        }
        kz, tz = both(np.zeros((n, n), np.float32))
        for op, (keel, peer) in ways.items():
            case(f"{op} of {name} 16384^2", size, lambda: start(keel()), {"torch": peer_torch(peer)})
        free_array(kz)
    for op, keel, peer in (("var", lambda: call("var", ka, NO, 0), lambda: torch.var(ta, correction=0)),
                           ("logsumexp", lambda: call("logsumexp", ka, NO), lambda: torch.logsumexp(ta.view(-1), 0)),
                           ("prod", lambda: call("prod", ka, NO), lambda: torch.prod(ta))):
        case(f"{op} of all 2^28", size, lambda: start(keel()), {"torch": peer_torch(peer)})
    k4, t4 = call("reshape", ka, ints(64, 256, 256, 64), C.c_size_t(4)), ta.view(64, 256, 256, 64)
    run(k4)
    for op, keel, peer in (("sum", lambda: call("sum_axis", k4, 1, NO), lambda: torch.sum(t4, 1)),
                           ("var", lambda: call("var_axis", k4, 1, NO, 0), lambda: torch.var(t4, 1, correction=0))):
        case(f"{op} of axis 1 of (64, 256, 256, 64)", size, lambda: start(keel()), {"torch": peer_torch(peer)})
    free_array(k4)
    free_array(ka)


def scans():
    n = 1 << 28
    a = normal(n)
    ka, ta = both(a)
    kr, tr = call("reshape", ka, ints(16384, 16384), C.c_size_t(2)), ta.view(16384, 16384)
    run(kr)
    all_of_it, by_rows = {"torch": peer_torch(lambda: torch.cumsum(ta, 0))}, {"torch": peer_torch(lambda: torch.cumsum(tr, 1))}
    if mx is not None:
        ma = mx.array(a)
        mr = ma.reshape(16384, 16384)
        with_mlx(all_of_it, lambda: mx.cumsum(ma, axis=0))
        with_mlx(by_rows, lambda: mx.cumsum(mr, axis=1))
    case("cumsum 2^28", 8 * n, lambda: start(call("cumsum", ka, 0, NO, YES)), all_of_it)
    case("cumsum of rows 16384^2", 8 * n, lambda: start(call("cumsum", kr, 1, NO, YES)), by_rows)
    case("cumsum of columns 16384^2", 8 * n, lambda: start(call("cumsum", kr, 0, NO, YES)),
         {"torch": peer_torch(lambda: torch.cumsum(tr, 0))})
    case("cummax of rows 16384^2", 8 * n, lambda: start(call("cummax", kr, 1, NO, YES)),
         {"torch": peer_torch(lambda: torch.cummax(tr, 1))})
    for x in (ka, kr):
        free_array(x)


def fft():
    """Bytes: input and output once, though long transforms go through memory twice or thrice."""
    last, two = C.c_int(-1), C.c_size_t(2)
    for shape in ((1 << 20,), (1000003,), (4096, 256), (4096, 100), (512, 1021), (65536, 1024)):
        a = (normal(*shape) + 1j * normal(*shape)).astype(np.complex64)
        k, t = both(a)
        label = "x".join(map(str, shape)) + " complex64"
        for name, theirs in (("fft", torch.fft.fft), ("ifft", torch.fft.ifft)):
            p = {"torch": peer_torch(lambda: theirs(t))}
            if mx is not None:
                m = mx.array(a)
                with_mlx(p, lambda: getattr(mx.fft, name)(m))
            case(f"{name} {label}", 2 * a.nbytes, lambda: start(call("fft_" + name, k, shape[-1], last, 0)), p)
        free_array(k)
    for n in (1024, 4096):
        a = normal(n, n)
        k, t = both(a)
        case(f"rfft2 {n}x{n} float32", 2 * a.nbytes, lambda: start(call("fft_rfft2", k, ints(n, n), two, ints(0, 1), two, 0)), {"torch": peer_torch(lambda: torch.fft.rfft2(t))})
        z = torch.fft.rfft2(t)
        kz = to_keel(z.cpu().numpy())
        case(f"irfft2 {n}x{n} float32", 2 * a.nbytes, lambda: start(call("fft_irfft2", kz, ints(n, n), two, ints(0, 1), two, 0)), {"torch": peer_torch(lambda: torch.fft.irfft2(z, s=(n, n)))})
        free_array(k), free_array(kz)


def sorts():
    for n, name in ((1 << 26, "2^26"), (1 << 20, "1 M")):
        a = normal(n)
        ka, ta = both(a)
        p = {"torch": peer_torch(lambda: torch.sort(ta))}
        if mx is not None and n <= 1 << 20:
            ma = mx.array(a)
            with_mlx(p, lambda: mx.sort(ma))
        case(f"sort {name}", 8 * n, lambda: start(call("sort_axis", ka, 0)), p)
        case(f"argsort {name}", 8 * n, lambda: start(call("argsort_axis", ka, 0)), {"torch": peer_torch(lambda: torch.argsort(ta))})
        free_array(ka)
    a = normal(32, 32768)
    ka, ta = both(a)
    p = {"torch": peer_torch(lambda: torch.topk(ta, 64, 1))}
    if mx is not None:
        mk = mx.array(a)
        with_mlx(p, lambda: mx.topk(mk, 64, axis=1))
    case("top 64 of 32 x 32 K", 4 * 32 * 32768, lambda: start(call("topk_axis", ka, 64, 1)), p)
    case("sort of 32 x 32 K", 8 * 32 * 32768, lambda: start(call("sort_axis", ka, 1)), {"torch": peer_torch(lambda: torch.sort(ta, 1))})
    free_array(ka)


def attentions():
    def bf16(*shape):
        a = torch.randn(shape, device=dev).bfloat16()
        f = to_keel(a.float().cpu().numpy())
        k = call("astype", f, BF16)
        run(k)
        free_array(f)
        return k, a

    def attend(q, k, v, mode=b"", mask=NONE, sinks=NONE):
        return start(call("fast_scaled_dot_product_attention", q, k, v, C.c_float(128**-0.5), C.c_char_p(mode), mask, sinks))

    sdpa = torch.nn.functional.scaled_dot_product_attention
    heads, n, d = 32, 4096, 128
    kq, tq = bf16(1, heads, n, d)
    kk, tk = bf16(1, heads, n, d)
    kv, tv = bf16(1, heads, n, d)
    flops = 4.0 * heads * n * n * d
    from torch.nn.attention import SDPBackend, sdpa_kernel

    def cudnn(**how):
        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            return sdpa(tq, tk, tv, **how)

    case("attention, prefill 4096", 0, lambda: attend(kq, kk, kv),
         {"torch": peer_torch(lambda: sdpa(tq, tk, tv)), "torch.cudnn": peer_torch(cudnn)}, flops=flops)
    case("attention, prefill 4096, causal", 0, lambda: attend(kq, kk, kv, b"causal"),
         {"torch": peer_torch(lambda: sdpa(tq, tk, tv, is_causal=True)), "torch.cudnn": peer_torch(lambda: cudnn(is_causal=True))},
         flops=flops / 2)
    seen = np.random.default_rng(5).integers(0, 3, (1, 1, n, n)).astype(np.float32)
    f = to_keel(seen)
    km, tm = call("astype", f, 0), torch.from_numpy(seen).to(dev).bool()
    run(km)
    case("attention, prefill 4096, bool mask", 0, lambda: attend(kq, kk, kv, b"array", km),
         {"torch": peer_torch(lambda: sdpa(tq, tk, tv, attn_mask=tm))}, flops=flops)
    ka, ta = call("astype", f, BF16), tm.bfloat16()
    run(ka)
    ks, _ = bf16(heads)
    case("attention, prefill 4096, added mask and sinks", 0, lambda: attend(kq, kk, kv, b"array", ka, ks),
         {"torch": peer_torch(lambda: sdpa(tq, tk, tv, attn_mask=ta))}, flops=flops)
    for x in (kq, kk, kv, km, ka, ks, f):
        free_array(x)
    whole = [normal(1, heads, n, d) for _ in range(3)]
    (kq, tq), (kk, tk), (kv, tv) = (both(x) for x in whole)
    case("attention, prefill 4096, float32", 0, lambda: attend(kq, kk, kv), {"torch": peer_torch(lambda: sdpa(tq, tk, tv))}, flops=flops)
    case("attention, prefill 4096, float32, causal", 0, lambda: attend(kq, kk, kv, b"causal"),
         {"torch": peer_torch(lambda: sdpa(tq, tk, tv, is_causal=True))}, flops=flops / 2)
    for x in (kq, kk, kv):
        free_array(x)
    for batch in (32, 8, 1):
        copies = max(2, (1 << 30) // (batch * 8 * n * d * 4))
        pairs = [(bf16(batch, 8, n, d), bf16(batch, 8, n, d)) for _ in range(min(copies, 64))]
        kq, tq = bf16(batch, heads, 1, d)
        keel_turn, torch_turn = in_turn(pairs), in_turn(pairs)

        def keel():
            (k, _), (v, _) = keel_turn()
            attend(kq, k, v)

        def peer():
            (_, k), (_, v) = torch_turn()
            return sdpa(tq, k, v, enable_gqa=True)

        p = {"torch": peer_torch(peer)}
        if mx is not None:
            def bf16_mlx(*shape):
                return mx.random.normal(shape).astype(mx.bfloat16)

            mlx_pairs = [(bf16_mlx(batch, 8, n, d), bf16_mlx(batch, 8, n, d)) for _ in range(len(pairs))]
            mq = bf16_mlx(batch, heads, 1, d)
            mx.eval(mq, mlx_pairs)
            mlx_turn = in_turn(mlx_pairs)
            with_mlx(p, lambda: mx.fast.scaled_dot_product_attention(mq, *mlx_turn(), scale=d**-0.5))
        case(f"attention, decode, batch {batch}", batch * 8 * n * d * 4, keel, p)
        for (k, _), (v, _) in pairs:
            free_array(k)
            free_array(v)
        free_array(kq)
        del pairs, tq


def hops():
    """A value that goes from one stream of the device to another and back: microseconds per hop. Beside it the same chain on one stream."""
    if not chosen("hop between two streams"):
        return
    n, m = 256, 400
    ka, ta = both(normal(n))
    kb, tb = both(normal(n))
    gpu = declare("mlx_device_new_type", Handle, INT, INT)(1, 0)
    new_stream = declare("mlx_stream_new_device", Handle, Handle)
    mine = [new_stream(gpu) for _ in range(2)]
    theirs = [torch.cuda.Stream() for _ in range(2)]

    def keel(other):
        out = (Handle * m)()
        x = ka
        for i in range(m):
            out[i] = new_array()
            lib.mlx_add(C.byref(out[i]), x, kb, mine[i % 2 if other else 0])
            x = out[i]
        v = vec(out, m)
        keel_sync()
        t = time.perf_counter()
        async_eval(v)
        for s in mine:
            synchronize(s)
        t = time.perf_counter() - t
        vec_free(v)
        for a in out:
            free_array(a)
        return t / m

    def of_torch(other):
        tsync()
        t = time.perf_counter()
        x = ta
        last = theirs[0]
        for i in range(m):
            s = theirs[i % 2 if other else 0]
            if s is not last:
                s.wait_stream(last)
            with torch.cuda.stream(s):
                x = x + tb
            last = s
        tsync()
        return (time.perf_counter() - t) / m

    ways = {"keel": keel}
    if not ALONE:
        ways["torch"] = of_torch
    if mx is not None and not ALONE:
        ma, mb = mx.array(ta.cpu().numpy()), mx.array(tb.cpu().numpy())
        mlx_streams = [mx.new_stream(mx.gpu) for _ in range(2)]

        def of_mlx(other):
            x = ma
            kept_here = []
            for i in range(m):
                x = mx.add(x, mb, stream=mlx_streams[i % 2 if other else 0])
                kept_here.append(x)
            mx.synchronize(mlx_streams[0])
            t = time.perf_counter()
            mx.async_eval(kept_here)
            for s in mlx_streams:
                mx.synchronize(s)
            return (time.perf_counter() - t) / m

        ways["mlx"] = of_mlx
    for other, name in ((True, "hop between two streams"), (False, "the same on one stream")):
        times = {k: [] for k in ways}
        for _ in range(ROUNDS):
            for k, f in ways.items():
                times[k].append(f(other))
        print(f"{name} (microseconds): " + "  ".join(f"{k} {statistics.median(v) * 1e6:.2f}" for k, v in times.items()), flush=True)


def matrices():
    """Factorisations, equations and inverses: many small matrices, and one large one. PyTorch's check of the infos, for which it waits, is part of inv and solve, and left out elsewhere (_ex)."""

    def parts(name, *args):
        """Starts all arrays of a result that is a vector, or a pair."""
        f = getattr(lib, "mlx_linalg_" + name)
        if name in ("lu", "svd"):
            v = new_vec()
            rc = f(C.byref(v), *args, S)
            out = [] if rc else unpack(v)
        else:
            out = [new_array(), new_array()]
            rc = f(*(C.byref(a) for a in out), *args, S)
        if rc:
            raise RuntimeError(name + ": " + last_error())
        start(*out)

    false, true = C.c_bool(False), C.c_bool(True)
    for batch, n in ((4096, 32), (1, 512), (1, 1024)):
        a = normal(batch, n, n)
        definite = np.matmul(a, a.transpose(0, 2, 1)) / n + np.eye(n, dtype=np.float32)
        (ka, ta), (kd, td), (kb, tb) = both(a), both(definite), both(normal(batch, n, n))
        size, what = 4 * a.size, f"{batch}x{n}x{n}" if batch > 1 else f"{n}x{n}"
        case(f"cholesky {what}", 2 * size, lambda: start(call("linalg_cholesky", kd, false)), {"torch": peer_torch(lambda: torch.linalg.cholesky_ex(td))})
        case(f"lu {what}", 3 * size, lambda: parts("lu", ka), {"torch": peer_torch(lambda: torch.linalg.lu(ta))})
        case(f"solve {what}", 3 * size, lambda: start(call("linalg_solve", ka, kb)), {"torch": peer_torch(lambda: torch.linalg.solve(ta, tb)), "torch.ex": peer_torch(lambda: torch.linalg.solve_ex(ta, tb))})
        case(f"solve_triangular {what}", 3 * size, lambda: start(call("linalg_solve_triangular", kd, kb, false)), {"torch": peer_torch(lambda: torch.linalg.solve_triangular(td, tb, upper=False))})
        case(f"inv {what}", 2 * size, lambda: start(call("linalg_inv", ka)), {"torch": peer_torch(lambda: torch.linalg.inv(ta)), "torch.ex": peer_torch(lambda: torch.linalg.inv_ex(ta))})
        case(f"qr {what}", 3 * size, lambda: parts("qr", ka), {"torch": peer_torch(lambda: torch.linalg.qr(ta))})
        if n == 512:
            case(f"svd {what}", 3 * size, lambda: parts("svd", ka, true), {"torch": peer_torch(lambda: torch.linalg.svd(ta))})
            case(f"eigh {what}", 2 * size, lambda: parts("eigh", kd, b"L"), {"torch": peer_torch(lambda: torch.linalg.eigh(td))})
        for x in (ka, kd, kb):
            free_array(x)


def loads():
    """A safetensors file of 256 MB in the page cache: from opening it to arrays on the device."""
    if not chosen("load 256 MB to the device"):
        return
    import safetensors.numpy
    path = os.path.join(os.environ.get("TMPDIR", "/tmp"), "keel-bench-load.safetensors")
    n, size = 64, 1 << 20
    safetensors.numpy.save_file({f"t{i}": normal(1024, size // 1024) for i in range(n)}, path)
    total = os.path.getsize(path)
    host = declare("mlx_default_cpu_stream_new", Handle)()
    arrays_new, texts_new = declare("mlx_map_string_to_array_new", Handle), declare("mlx_map_string_to_string_new", Handle)
    get = declare("mlx_map_string_to_array_get", INT, PTR, Handle, C.c_char_p)
    load = declare("mlx_load_safetensors", INT, PTR, PTR, C.c_char_p, Handle)
    arrays_free, texts_free = declare("mlx_map_string_to_array_free", INT, Handle), declare("mlx_map_string_to_string_free", INT, Handle)
    names = [f"t{i}".encode() for i in range(n)]

    def keel():
        arrays, texts = arrays_new(), texts_new()
        if load(C.byref(arrays), C.byref(texts), path.encode(), host):
            raise RuntimeError("load: " + last_error())
        out = []
        for name in names:
            a = new_array()
            get(C.byref(a), arrays, name)
            out.append(call("copy", a))
            free_array(a)
        arrays_free(arrays)
        texts_free(texts)
        run(*out)
        keel_sync()
        for a in out:
            free_array(a)

    pinned = torch.empty(total, dtype=torch.uint8, pin_memory=True)

    def read_into_pinned():
        with open(path, "rb", buffering=0) as f:
            done = 0
            view = memoryview(pinned.numpy())
            while done < total:
                part = f.readinto(view[done:done + (8 << 20)])
                device_bytes[done:done + part].copy_(pinned[done:done + part], non_blocking=True)
                done += part
        tsync()

    device_bytes = torch.empty(total, dtype=torch.uint8, device=dev)

    def load_file():
        import safetensors.torch
        safetensors.torch.load_file(path, device="cuda:0")
        tsync()

    p = {"torch.load_file": peer_torch(load_file), "torch.pinned": peer_torch(read_into_pinned)}
    if mx is not None:
        def of_mlx():
            arrays = list(mx.load(path).values())
            mx.eval([mx.abs(a) for a in arrays])
            mx.synchronize()

        p["mlx"] = (of_mlx, mx.synchronize)
    case("load 256 MB to the device", total, keel, p)
    os.unlink(path)


print(torch.cuda.get_device_name(0), "torch", torch.__version__, "mlx" if mx is not None else "no mlx")
for group in (streams, rows, reductions, scans, fft, sorts, attentions, products, matrices, convolutions, quantised, experts, gathers, scatters, chains, hops, loads):
    if any(w.startswith("group:") for w in wanted) and f"group:{group.__name__}" not in wanted:
        continue
    group()
    torch._dynamo.reset()  # compiled functions hold what they were compiled with
    release()
print(f"most memory in use: {most_used / 2**30:.1f} GiB of {torch.cuda.mem_get_info()[1] / 2**30:.1f}")
print("below 1: " + (", ".join(f"{n} {r:.2f}" for n, r, _ in results if r and r < 1) or "none"))
