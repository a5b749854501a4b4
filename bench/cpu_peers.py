"""CPU benchmark: Keel beside NumPy, PyTorch and MLX, whichever are installed, in one process, all cores each.

python3 bench/cpu_peers.py path/to/libkeel.so [case ...]
KEEL_BENCH_TABLE=file.md, KEEL_BENCH_CHART=file.svg: the results as a table and a chart.

Element-wise operations and products go through a compiled binding (peers_binding.c, built here with the machine's C compiler), as those of the peers do; without a compiler or Python's headers, and for all others, through ctypes,
which adds two microseconds to a call.

Every case runs each library in turn, KEEL_BENCH_ROUNDS rounds (three where it takes 20 times as long as Keel), after calls that do not count, for WARM_UP seconds; figures are medians, a ratio is the median of the rounds' ratios with its interval (quartiles). A result is evaluated before the next
begins, and dropped. Bytes are those that an operation must move: each input read once, each output written once. The machine's limits are measured: copy and read bandwidth first, and the matrix rate of a dtype as the best that any library reached in a product of the run."""
import ctypes as C
import math
import os
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time

import numpy as np

import chart

# PyTorch 2.15 kills its process by an illegal instruction on some virtual machines, in products of bfloat16; then it is told to leave those instructions out.
probe = "import torch; a = torch.ones(256, 256).bfloat16(); a @ a"
if subprocess.run([sys.executable, "-c", probe], stderr=subprocess.DEVNULL).returncode < 0:
    os.environ["ONEDNN_MAX_CPU_ISA"] = "AVX512_CORE_BF16"
    print("torch: products of bfloat16 crash here; without AMX")
try:
    import torch
except Exception:  # not installed, or not for this machine
    torch = None
try:
    import mlx.core as mx
except Exception:
    mx = None
try:
    from scipy import special
except Exception:
    special = None

ROUNDS = int(os.environ.get("KEEL_BENCH_ROUNDS", "15"))
FAR, FAR_ROUNDS = 20, 3  # a library that takes FAR times as long as Keel is measured in FAR_ROUNDS rounds only
BUDGET = float(os.environ.get("KEEL_BENCH_SECONDS", "0.03"))  # per measurement
WARM_UP = 0.02  # before each measurement: an idle processor takes 10 ms to reach its full rate (4.2 down to 2.1 ms for the same call)
lib = C.CDLL(os.path.abspath(sys.argv[1]))
wanted = sys.argv[2:]
rng = np.random.default_rng(1)


class Handle(C.Structure):
    _fields_ = [("ctx", C.c_void_p)]


class OptionalInt(C.Structure):
    _fields_ = [("value", C.c_int), ("has_value", C.c_bool)]


class OptionalFloat(C.Structure):
    _fields_ = [("value", C.c_float), ("has_value", C.c_bool)]


def declare(name, res, *args):
    f = getattr(lib, name)
    f.restype, f.argtypes = res, list(args)
    return f


INT, PTR = C.c_int, C.c_void_p
new_array = declare("mlx_array_new", Handle)
free_array = declare("mlx_array_free", INT, Handle)
evaluate_one = declare("mlx_array_eval", INT, Handle)
declare("keel_errors_return", None)()
S = declare("mlx_default_cpu_stream_new", Handle)()
CODES = {"bool": 0, "uint8": 1, "uint32": 3, "int16": 6, "int32": 7, "int64": 8, "float16": 9, "float32": 10, "bfloat16": 12, "complex64": 13}
NONE = Handle(None)
FALSE, TRUE = C.c_bool(False), C.c_bool(True)


def compiled_binding():
    """The module of peers_binding.c, or None, with a line that says why."""
    here = os.path.dirname(os.path.abspath(__file__))
    with tempfile.TemporaryDirectory() as folder:
        made = os.path.join(folder, "peers_binding" + sysconfig.get_config_var("EXT_SUFFIX"))
        built = subprocess.run([os.environ.get("CC", "cc"), "-O2", "-shared", "-fPIC", "-I" + sysconfig.get_path("include"), "-I" + os.path.join(here, "../include"),
                                os.path.join(here, "peers_binding.c"), "-o", made], stderr=subprocess.PIPE, text=True)
        if built.returncode:
            print("no compiled binding, ctypes instead:", built.stderr[:200])
            return None
        sys.path.insert(0, folder)
        import peers_binding
        sys.path.pop(0)
    peers_binding.open(lib._name)
    return peers_binding


binding = compiled_binding()


def call(name, *args):
    out = new_array()
    if getattr(lib, "mlx_" + name)(C.byref(out), *args, S):
        raise RuntimeError(f"mlx_{name} failed")
    return out


def ints(*v):
    return (C.c_int * len(v))(*v)


not_ours = C.CFUNCTYPE(None, PTR)(lambda data: None)  # the memory stays NumPy's
array_managed = declare("mlx_array_new_data_managed", Handle, PTR, PTR, INT, INT, type(not_ours))


def to_keel(a, dtype=None):
    """The same memory, which must outlive the array; in another dtype a copy. A copy of Keel's own would be in the caches less often than memory that NumPy and PyTorch share."""
    x = array_managed(a.ctypes.data, ints(*a.shape), a.ndim, CODES[str(a.dtype)], not_ours)
    if not dtype:
        return x
    y = call("astype", x, CODES[dtype])
    if evaluate_one(y):
        raise RuntimeError("evaluation failed")
    free_array(x)
    return y


def keel(build):
    """build() makes a lazy array. It may also return the operands, which are released before the evaluation, as temporaries are."""

    def go():
        made = build()
        made = made if isinstance(made, tuple) else (made,)
        for x in made[1:]:
            free_array(x)
        rc = evaluate_one(made[0])
        free_array(made[0])
        if rc:
            raise RuntimeError("evaluation failed")

    return go


def mlx(build):
    return lambda: mx.eval(build())


def seconds(work, n):
    t = time.perf_counter()
    for _ in range(n):
        work()
    return (time.perf_counter() - t) / n


def warm_up(work):
    """For WARM_UP seconds: the clock rises, and operands come back into the caches; those of NumPy and PyTorch are the same memory."""
    until = time.perf_counter() + WARM_UP
    while time.perf_counter() < until:
        work()


def settle():
    """Waits, a second at most, until the process is idle: threads of a library may spin for a while when their work is done (OpenBLAS's for an eighth of a second), and would take a processor from the next library."""
    for _ in range(200):
        cpu, wall = time.process_time(), time.perf_counter()
        time.sleep(0.005)
        if time.process_time() - cpu < 0.2 * (time.perf_counter() - wall):
            return


results = []


def case(name, ways, moved=0, flops=0, share=None, floor=None):
    """ways: {library: function}; moved: bytes; share: "copy", "read" or "products of <dtype>", the limit that applies; floor: the share of it that is wanted."""
    if wanted and not any(w in name for w in wanted):
        return
    counts, times, far = {}, {}, []
    for k, w in list(ways.items()):
        try:
            w()
            once = seconds(w, 1)
            counts[k] = max(1, min(5000, int(BUDGET / max(once, 1e-7))))
            times[k] = []
            if k == "keel":
                ours = once
            elif once > FAR * ours and once > BUDGET:
                far.append(k)
        except Exception as e:  # the library is left out of a case that it cannot do, with a message
            print(f"{name}: {k} left out: {str(e)[:100]}", flush=True)
            if k == "keel":
                return
    for r in range(ROUNDS):
        order = [k for k in counts if k not in far or r < FAR_ROUNDS]
        for k in order[r % len(order):] + order[:r % len(order)]:
            settle()
            warm_up(ways[k])
            times[k].append(seconds(ways[k], counts[k]))
    med = {k: statistics.median(t) for k, t in times.items()}
    peers = [k for k in med if k != "keel"]
    best = min(peers, key=lambda k: med[k]) if peers else None
    ratios = sorted(a / b for a, b in zip(times[best], times["keel"])) if best else [0]
    row = {"name": name, "med": med, "best": best, "ratio": statistics.median(ratios), "low": ratios[len(ratios) // 4], "high": ratios[-1 - len(ratios) // 4],
           "moved": moved, "flops": flops, "share": None, "floor": floor}
    text = f"{moved / med['keel'] * 1e-9:7.1f} GB/s" if moved and share else ""
    if flops:
        text += f"{flops / med['keel'] * 1e-9:8.1f} GFLOP/s"
    if share in limits:
        row["share"] = (moved if share in ("copy", "read") else flops) / med["keel"] / limits[share]
        text += f" {100 * row['share']:4.0f} % of {share}" + (f" (wanted {100 * floor:.0f})" if floor else "")
    others = "  ".join(f"{k} {med[k] * 1e3:.4f}" for k in peers)
    print(f"{name:38s} {med['keel'] * 1e3:10.4f} ms  {row['ratio']:6.2f} x {best or '-':6s} [{row['low']:.2f}, {row['high']:.2f}]  {text:44s} {others}", flush=True)
    results.append(row)
    return row


limits = {}


def measure_limits():
    """Copy of 256 MB and a sum of 512 MB by Keel, and by NumPy and PyTorch: the best of them is the machine's limit."""
    n = 1 << 26
    a = np.ones(n, np.float32)
    b = np.empty_like(a)
    ways = {"copy": [lambda: np.copyto(b, a)], "read": [lambda: a.sum()]}
    ka = to_keel(a)
    ways["copy"].append(keel(lambda: call("negative", ka)))
    ways["read"].append(keel(lambda: call("sum", ka, FALSE)))
    if torch is not None:
        ta, tb = torch.from_numpy(a), torch.from_numpy(b)
        ways["copy"].append(lambda: tb.copy_(ta))
        ways["read"].append(lambda: ta.sum())
    for k, factor in (("copy", 2), ("read", 1)):
        best = min(min(seconds(w, 1) for _ in range(8)) for w in ways[k])
        limits[k] = factor * 4 * n / best
    print(f"limits: copy {limits['copy'] * 1e-9:.1f} GB/s (read and written), read {limits['read'] * 1e-9:.1f} GB/s")
    free_array(ka)


TORCH = {"float32": "float32", "bfloat16": "bfloat16", "float16": "float16"}


class Both:
    """One array for every library, in a dtype."""

    def __init__(self, a, dtype="float32"):
        a = self.memory = np.ascontiguousarray(a)
        self.np = a if dtype == "float32" or a.dtype != np.float32 else (a.astype(dtype) if dtype != "bfloat16" else None)
        self.keel = to_keel(a, None if str(a.dtype) == dtype or a.dtype != np.float32 else dtype)
        self.torch = self.mx = None
        floats = a.dtype == np.float32
        if torch is not None:
            self.torch = torch.from_numpy(np.ascontiguousarray(a)) if a.dtype != np.uint32 else torch.from_numpy(a.astype(np.int64))
            if floats:
                self.torch = self.torch.to(getattr(torch, TORCH[dtype]))
        if mx is not None:
            self.mx = mx.array(a)
            if floats:
                self.mx = self.mx.astype(getattr(mx, TORCH[dtype]))
            mx.eval(self.mx)

    def bound(self):
        """Keel's array as an object of the compiled binding, another reference to it."""
        other = new_array()
        if lib.mlx_array_set(C.byref(other), self.keel):
            raise RuntimeError("mlx_array_set failed")
        return binding.adopt(other.ctx)

    def drop(self):
        free_array(self.keel)


def ways(build_keel, build_np=None, build_torch=None, build_mx=None):
    return beside(keel(build_keel), build_np, build_torch, build_mx)


def beside(run_keel, build_np=None, build_torch=None, build_mx=None):
    w = {"keel": run_keel}
    if build_np:
        w["numpy"] = build_np
    if build_torch and torch is not None:
        w["torch"] = build_torch
    if build_mx and mx is not None:
        w["mlx"] = mlx(build_mx)
    return w


def keel_op(name, *args):
    """One operation on arrays (Both) and at most an integer, evaluated."""
    arrays = [a for a in args if isinstance(a, Both)]
    if not binding:
        given = [a.keel for a in arrays] + list(args[len(arrays):])
        return keel(lambda: call(name, *given))
    f, evaluate = binding.op(name, len(arrays), len(args) - len(arrays)), binding.evaluate
    x = arrays[0].bound()
    if len(arrays) == 2:
        y = arrays[1].bound()
        return lambda: evaluate(f(x, y))
    if len(args) == 2:
        n = args[1]
        return lambda: evaluate(f(x, n))
    return lambda: evaluate(f(x))


def keel_five(x, y):
    """(x * y + x) * y - x^2, evaluated."""

    def by_ctypes():
        m = call("multiply", x.keel, y.keel)
        a = call("add", m, x.keel)
        b = call("multiply", a, y.keel)
        h = call("square", x.keel)
        return call("subtract", b, h), m, a, b, h

    if not binding:
        return keel(by_ctypes)
    multiply, add, subtract, square, evaluate = binding.op("multiply", 2, 0), binding.op("add", 2, 0), binding.op("subtract", 2, 0), binding.op("square", 1, 0), binding.evaluate
    p, q = x.bound(), y.bound()
    return lambda: evaluate(subtract(multiply(add(multiply(p, q), p), q), square(p)))


def normal(*shape):
    return rng.standard_normal(shape, dtype=np.float32)


SIZES = [(8, "8"), (1 << 18, "256 K"), (1 << 24, "16 M")]


def elementwise():
    for n, label in SIZES:
        for dtype in ("float32", "bfloat16"):
            x, y = Both(normal(n), dtype), Both(normal(n), dtype)
            pos = Both(np.abs(normal(n)) + 0.1, dtype)
            size = 4 if dtype == "float32" else 2
            big = "copy" if n >= 1 << 24 else None
            f32 = dtype == "float32"
            tag = f"{label} {dtype}"
            case(f"add {tag}", beside(keel_op("add", x, y), (lambda: x.np + y.np) if f32 else None, lambda: x.torch + y.torch, lambda: x.mx + y.mx), 3 * size * n, share=big, floor=0.8)
            for name, arg, np_f, wanted_share in (("exp", x, np.exp, 0.7), ("log", pos, np.log, 0.7), ("sin", x, np.sin, 0.7), ("tanh", x, np.tanh, 0.7),
                                                  ("erf", x, special.erf if special else None, 0.7), ("sqrt", pos, np.sqrt, 0.8)):
                if not hasattr(lib, "mlx_" + name):
                    continue
                t_f = getattr(torch, name) if torch is not None else None
                m_f = getattr(mx, name) if mx is not None else None
                case(f"{name} {tag}", beside(keel_op(name, arg), (lambda: np_f(arg.np)) if f32 and np_f else None, lambda: t_f(arg.torch), lambda: m_f(arg.mx)), 2 * size * n,
                     share=big, floor=wanted_share)
            to = "bfloat16" if f32 else "float32"
            case(f"cast to {to} {tag}", beside(keel_op("astype", x, CODES[to]), None, lambda: x.torch.to(getattr(torch, to)), lambda: x.mx.astype(getattr(mx, to))), 6 * n, share=big, floor=0.8)

            case(f"five operations {tag}", beside(keel_five(x, y), (lambda: (x.np * y.np + x.np) * y.np - np.square(x.np)) if f32 else None, lambda: (x.torch * y.torch + x.torch) * y.torch - x.torch.square(),
                                                lambda: (x.mx * y.mx + x.mx) * y.mx - mx.square(x.mx)), 3 * size * n, share=big, floor=0.7)
            for z in (x, y, pos):
                z.drop()
    m = 4096
    x, y, row = Both(normal(m, m)), Both(normal(m, m)), Both(normal(m))
    t = call("transpose", y.keel)
    case("add transposed 4096^2", ways(lambda: call("add", x.keel, t), lambda: x.np + y.np.T, lambda: x.torch + y.torch.T, lambda: x.mx + y.mx.T), 12 * m * m, share="copy", floor=0.4)
    case("add a row 4096^2", ways(lambda: call("add", x.keel, row.keel), lambda: x.np + row.np, lambda: x.torch + row.torch, lambda: x.mx + row.mx), 8 * m * m, share="copy", floor=0.4)
    for z in (x, y, row):
        z.drop()
    free_array(t)


def reductions():
    m = 4096
    for dtype in ("float32", "bfloat16"):
        x = Both(normal(m, m), dtype)
        size, f32 = (4, True) if dtype == "float32" else (2, False)
        moved = size * m * m
        for name, np_f, t_f in (("sum", np.sum, "sum"), ("max", np.max, "amax"), ("argmax", np.argmax, "argmax"), ("logsumexp", None, "logsumexp")):
            if not hasattr(lib, f"mlx_{name}_axis"):
                continue
            for axis, label in ((1, "rows"), (0, "columns")):
                tf = getattr(torch, t_f) if torch is not None else None
                mf = getattr(mx, name) if mx is not None else None
                case(f"{name} of {label} 4096^2 {dtype}", ways(lambda: call(f"{name}_axis", x.keel, axis, FALSE), (lambda: np_f(x.np, axis)) if f32 and np_f else None, lambda: tf(x.torch, axis),
                                                              lambda: mf(x.mx, axis)), moved, share="read", floor=0.7)
        case(f"sum of all 4096^2 {dtype}", ways(lambda: call("sum", x.keel, FALSE), x.np.sum if f32 else None, lambda: x.torch.sum(), lambda: mx.sum(x.mx)), moved, share="read", floor=0.7)
        case(f"softmax of rows 4096^2 {dtype}", ways(lambda: call("softmax_axis", x.keel, 1, FALSE), None, lambda: torch.softmax(x.torch, 1), lambda: mx.softmax(x.mx, 1)), 2 * moved, share="copy", floor=0.7)
        if hasattr(lib, "mlx_cumsum"):
            for axis, label in ((1, "rows"), (0, "columns")):
                case(f"cumsum of {label} 4096^2 {dtype}", ways(lambda: call("cumsum", x.keel, axis, FALSE, TRUE), (lambda: np.cumsum(x.np, axis)) if f32 else None, lambda: torch.cumsum(x.torch, axis),
                                                              lambda: mx.cumsum(x.mx, axis)), 2 * moved, share="copy", floor=0.5)
        if hasattr(lib, "mlx_fast_rms_norm"):
            w = Both(normal(m), dtype)
            case(f"rms_norm 4096^2 {dtype}", ways(lambda: call("fast_rms_norm", x.keel, w.keel, C.c_float(1e-5)), None, lambda: torch.nn.functional.rms_norm(x.torch, (m,), w.torch, 1e-5),
                                                 lambda: mx.fast.rms_norm(x.mx, w.mx, 1e-5)), 2 * moved, share="copy", floor=0.7)
            case(f"layer_norm 4096^2 {dtype}", ways(lambda: call("fast_layer_norm", x.keel, w.keel, w.keel, C.c_float(1e-5)), None, lambda: torch.nn.functional.layer_norm(x.torch, (m,), w.torch, w.torch, 1e-5),
                                                   lambda: mx.fast.layer_norm(x.mx, w.mx, w.mx, 1e-5)), 2 * moved, share="copy", floor=0.7)
            w.drop()
        x.drop()


def other_axes():
    """Rows too short for a vector, and an axis in the middle."""
    for shape, axis, label in (((1 << 20, 16), 1, "rows of 16"), ((1 << 18, 64), 1, "rows of 64"), ((256, 256, 256), 1, "the middle of 256^3")):
        x = Both(normal(*shape))
        moved = 4 * x.np.size
        out = moved // shape[axis]
        for name, np_f, t_f in (("sum", np.sum, "sum"), ("max", np.max, "amax"), ("argmax", np.argmax, "argmax"), ("logsumexp", None, "logsumexp")):
            tf = getattr(torch, t_f) if torch is not None else None
            mf = getattr(mx, name) if mx is not None else None
            case(f"{name} of {label} float32", ways(lambda: call(f"{name}_axis", x.keel, axis, FALSE), (lambda: np_f(x.np, axis)) if np_f else None, lambda: tf(x.torch, axis), lambda: mf(x.mx, axis)), moved + out,
                 share="read", floor=0.7)
        case(f"softmax of {label} float32", ways(lambda: call("softmax_axis", x.keel, axis, FALSE), None, lambda: torch.softmax(x.torch, axis), lambda: mx.softmax(x.mx, axis)), 2 * moved, share="copy", floor=0.7)
        case(f"cumsum of {label} float32", ways(lambda: call("cumsum", x.keel, axis, FALSE, TRUE), lambda: np.cumsum(x.np, axis), lambda: torch.cumsum(x.torch, axis), lambda: mx.cumsum(x.mx, axis)), 2 * moved,
             share="copy", floor=0.5)
        x.drop()


def products():
    for n in (256, 1024, 2048):
        for dtype in ("float32", "bfloat16", "float16"):
            if n == 2048 and dtype == "float16":
                continue
            a, b = Both(normal(n, n), dtype), Both(normal(n, n), dtype)
            row = case(f"matmul {n}^3 {dtype}", beside(keel_op("matmul", a, b), (lambda: a.np @ b.np) if dtype == "float32" else None, lambda: a.torch @ b.torch, lambda: a.mx @ b.mx), flops=2 * n**3)
            if row:
                limits[f"products of {dtype}"] = max(limits.get(f"products of {dtype}", 0), 2 * n**3 / min(row["med"].values()))
            a.drop(), b.drop()
    n = 4096
    for dtype, size in (("float32", 4), ("bfloat16", 2)):
        a, b = Both(normal(1, n), dtype), Both(normal(n, n), dtype)
        t = call("transpose", b.keel)
        f32 = dtype == "float32"
        case(f"vector by matrix 4096 {dtype}", beside(keel_op("matmul", a, b), (lambda: a.np @ b.np) if f32 else None, lambda: a.torch @ b.torch, lambda: a.mx @ b.mx), size * n * n, share="read", floor=0.7)
        case(f"vector by transposed matrix {dtype}", ways(lambda: call("matmul", a.keel, t), (lambda: a.np @ b.np.T) if f32 else None, lambda: a.torch @ b.torch.T, lambda: a.mx @ b.mx.T), size * n * n, share="read", floor=0.7)
        a.drop(), b.drop()
        free_array(t)
    a, b = Both(normal(4096, 16, 16)), Both(normal(4096, 16, 16))
    case("4096 products of 16^3 float32", beside(keel_op("matmul", a, b), lambda: a.np @ b.np, lambda: a.torch @ b.torch, lambda: a.mx @ b.mx), 3 * 4 * 4096 * 16**2,
         flops=2 * 4096 * 16**3, share="copy", floor=0.7)
    a.drop(), b.drop()
    a, b = Both(normal(64, 64, 128)), Both(normal(64, 128, 64))
    case("64 products of (64, 128) by (128, 64)", beside(keel_op("matmul", a, b), lambda: a.np @ b.np, lambda: a.torch @ b.torch, lambda: a.mx @ b.mx), flops=2 * 64 * 64 * 128 * 64)
    a.drop(), b.drop()


def indexed():
    rows, width, n = 100000, 64, 1000000
    x, i = Both(normal(rows, width)), Both(rng.integers(0, rows, n).astype(np.int32))
    moved = n * width * 8
    case("gather (100 K, 64) by 1 M", ways(lambda: call("take_axis", x.keel, i.keel, 0), lambda: np.take(x.np, i.np, 0), lambda: torch.index_select(x.torch, 0, i.torch), lambda: mx.take(x.mx, i.mx, 0)), moved, share="copy", floor=0.5)
    long, one = Both(normal(4, 1 << 20)), Both(np.array([2], np.int32))
    case("gather of one row of a million", ways(lambda: call("take_axis", long.keel, one.keel, 0), lambda: np.take(long.np, one.np, 0), lambda: torch.index_select(long.torch, 0, one.torch),
                                                lambda: mx.take(long.mx, one.mx, 0)), 8 << 20)
    long.drop()
    u = Both(normal(n, width))
    u3 = call("reshape", u.keel, ints(n, 1, width), C.c_size_t(3))
    m3 = u.mx[:, None, :] if mx is not None else None

    def put():
        z = x.torch.clone()
        z.index_put_((i.torch.long(),), u.torch)
        return z

    case("scatter (100 K, 64) by 1 M", ways(lambda: call("scatter_single", x.keel, i.keel, u3, 0), None, put, None), n * width * 8, share="copy", floor=0.5)
    x.drop(), i.drop(), u.drop(), free_array(u3)
    n = 20000000
    x, i, u = Both(normal(n)), Both(rng.integers(0, n, n).astype(np.int32)), Both(normal(n))
    u3 = call("reshape", u.keel, ints(n, 1), C.c_size_t(2))

    def put1():
        z = x.torch.clone()
        z.index_put_((i.torch.long(),), u.torch)
        return z

    case("scatter (20 M,) by 20 M", ways(lambda: call("scatter_single", x.keel, i.keel, u3, 0), None, put1, None))
    x.drop(), i.drop(), u.drop(), free_array(u3)


def fourier():
    """NumPy computes complex64 in single precision from version 2 on, before in double."""
    last = C.c_int(-1)
    for shape in ((1 << 20,), (1000003,), (4096, 256), (4096, 100), (512, 1021)):
        x = Both((normal(*shape) + 1j * normal(*shape)).astype(np.complex64))
        label = " x ".join(map(str, shape))
        case(f"fft of {label} complex64", ways(lambda: call("fft_fft", x.keel, shape[-1], last, 0), lambda: np.fft.fft(x.np), lambda: torch.fft.fft(x.torch), lambda: mx.fft.fft(x.mx)))
        x.drop()
    x, two = Both(normal(1024, 1024)), C.c_size_t(2)
    case("rfft2 of 1024^2 float32", ways(lambda: call("fft_rfft2", x.keel, ints(1024, 1024), two, ints(0, 1), two, 0), lambda: np.fft.rfft2(x.np), lambda: torch.fft.rfft2(x.torch), lambda: mx.fft.rfft2(x.mx)))
    x.drop()


def linear_algebra():
    """MLX has these functions on its CPU stream only."""
    if not hasattr(lib, "mlx_linalg_inv"):
        return
    vector, append, free_vector = (declare("mlx_vector_array_" + f, res, *args) for f, res, args in (("new", Handle, ()), ("append_value", INT, (Handle, Handle)), ("free", INT, (Handle,))))
    evaluate = declare("mlx_eval", INT, Handle)

    def factors(name, *args, pair=False):
        """Factors are a pair of results or a vector of them; all of them are evaluated."""

        def go():
            all_of_them, pieces = vector(), [new_array(), new_array()] if pair else []
            outs = [C.byref(x) for x in pieces] or [C.byref(all_of_them)]
            rc = getattr(lib, "mlx_linalg_" + name)(*outs, *args, S)
            for x in pieces:
                rc = rc or append(all_of_them, x)
                free_array(x)
            rc = rc or evaluate(all_of_them)
            free_vector(all_of_them)
            if rc:
                raise RuntimeError(f"mlx_linalg_{name} failed")

        return go

    on_cpu = {"stream": mx.cpu} if mx is not None else {}
    n = 512
    a = normal(n, n)
    x, definite = Both(a), Both(a @ a.T / n + np.eye(n, dtype=np.float32))
    case(f"inv {n} float32", ways(lambda: call("linalg_inv", x.keel), lambda: np.linalg.inv(x.np), lambda: torch.linalg.inv(x.torch), lambda: mx.linalg.inv(x.mx, **on_cpu)))
    case(f"cholesky {n} float32", ways(lambda: call("linalg_cholesky", definite.keel, FALSE), lambda: np.linalg.cholesky(definite.np), lambda: torch.linalg.cholesky(definite.torch),
                                       lambda: mx.linalg.cholesky(definite.mx, **on_cpu)))
    case(f"lu {n} float32", beside(factors("lu", x.keel), None, lambda: torch.linalg.lu(x.torch), lambda: mx.linalg.lu(x.mx, **on_cpu)))
    case(f"svd {n} float32", beside(factors("svd", x.keel, TRUE), lambda: np.linalg.svd(x.np), lambda: torch.linalg.svd(x.torch), lambda: mx.linalg.svd(x.mx, **on_cpu)))
    case(f"eigh {n} float32", beside(factors("eigh", definite.keel, b"L", pair=True), lambda: np.linalg.eigh(definite.np), lambda: torch.linalg.eigh(definite.torch), lambda: mx.linalg.eigh(definite.mx, **on_cpu)))
    x.drop(), definite.drop()
    x = Both(normal(256, 256))
    case("qr 256 float32", beside(factors("qr", x.keel, pair=True), lambda: np.linalg.qr(x.np), lambda: torch.linalg.qr(x.torch), lambda: mx.linalg.qr(x.mx, **on_cpu)))
    x.drop()
    x = Both(normal(4096, 32, 32) + 8 * np.eye(32, dtype=np.float32))
    for columns in (1, 32):
        b = Both(normal(4096, 32, columns))
        case(f"4096 solves of 32, {columns} column{'s' if columns > 1 else ''}", ways(lambda: call("linalg_solve", x.keel, b.keel), lambda: np.linalg.solve(x.np, b.np), lambda: torch.linalg.solve(x.torch, b.torch),
                                                                                  lambda: mx.linalg.solve(x.mx, b.mx, **on_cpu)))
        b.drop()
    case("4096 inv of 32", ways(lambda: call("linalg_inv", x.keel), lambda: np.linalg.inv(x.np), lambda: torch.linalg.inv(x.torch), lambda: mx.linalg.inv(x.mx, **on_cpu)))
    x.drop()


def sorting():
    x = Both(normal(1 << 20))
    case("sort 1 M", ways(lambda: call("sort", x.keel), lambda: np.sort(x.np), lambda: torch.sort(x.torch), lambda: mx.sort(x.mx)))
    case("argsort 1 M", ways(lambda: call("argsort", x.keel), lambda: np.argsort(x.np), lambda: torch.argsort(x.torch), lambda: mx.argsort(x.mx)))
    x.drop()
    x = Both(normal(256, 128000))
    case("topk 40 of (256, 128 K)", ways(lambda: call("topk_axis", x.keel, 40, 1), None, lambda: torch.topk(x.torch, 40, 1), lambda: mx.topk(x.mx, 40, 1)), 256 * 128000 * 4, share="read", floor=0.7)
    x.drop()
    n = 10000000
    case("normal 10 M", ways(lambda: call("random_normal", ints(n), C.c_size_t(1), 10, C.c_float(0), C.c_float(1), NONE), lambda: rng.standard_normal(n, dtype=np.float32), lambda: torch.randn(n),
                             lambda: mx.random.normal((n,))))


def moving():
    """What only moves data: columns that indices choose, reversed and repeated axes."""
    m = 2048
    i = Both(rng.permutation(m).astype(np.int32))
    minus, last = ints(-1, -1), ints(-m - 1, -m - 1)
    for dtype in ("float32", "float16", "uint8"):
        x = Both(normal(m, m), dtype) if dtype != "uint8" else Both(rng.integers(0, 255, (m, m)).astype(np.uint8))
        moved = 2 * m * m * x.np.itemsize
        case(f"take of columns {m}^2 {dtype}", ways(lambda: call("take_axis", x.keel, i.keel, 1), lambda: np.take(x.np, i.np, 1), lambda: torch.index_select(x.torch, 1, i.torch), lambda: mx.take(x.mx, i.mx, 1)), moved, share="copy")
        case(f"take along columns {m}^2 {dtype}", ways(lambda: call("take_along_axis", x.keel, along.keel, 1), lambda: np.take_along_axis(x.np, along.np, 1), lambda: torch.gather(x.torch, 1, along_torch), lambda: mx.take_along_axis(x.mx, along.mx, 1)), moved) if dtype == "float32" and (along := Both(rng.integers(0, m, (m, m)).astype(np.int32))) and (along_torch := torch.from_numpy(along.np.astype(np.int64)) if torch is not None else 1) is not None else None
        for axes, label in (((1,), "columns"), ((0,), "rows"), ((0, 1), "both axes")):
            start, stop, step = ([m - 1 if a in axes else 0 for a in (0, 1)], [-m - 1 if a in axes else m for a in (0, 1)], [-1 if a in axes else 1 for a in (0, 1)])
            index = tuple(slice(None, None, s) for s in step)
            case(f"flip of {label} {m}^2 {dtype}", ways(lambda: contiguous(call("slice", x.keel, ints(*start), C.c_size_t(2), ints(*stop), C.c_size_t(2), ints(*step), C.c_size_t(2))), lambda: x.np[index].copy(), lambda: torch.flip(x.torch, axes),
                                                        lambda: mx.contiguous(x.mx[index])), moved, share="copy")
        for axis, label in ((1, "columns"), (0, "rows")):
            case(f"repeat 2 of {label} {m}^2 {dtype}", ways(lambda: call("repeat_axis", x.keel, 2, axis), lambda: np.repeat(x.np, 2, axis), lambda: torch.repeat_interleave(x.torch, 2, axis), lambda: mx.repeat(x.mx, 2, axis)), 3 * moved // 2, share="copy")
        x.drop()
    i.drop()


def contiguous(x):
    """x in an order of its own, and x, which is released after the evaluation."""
    return call("contiguous", x, FALSE), x


def short_sorts():
    m = 2048
    for dtype in ("float32", "float16", "int16", "int64"):
        x = Both(normal(m, m), dtype) if dtype.startswith("float") else Both(rng.integers(-30000, 30000, (m, m)).astype(dtype))
        case(f"sort of rows {m}^2 {dtype}", ways(lambda: call("sort_axis", x.keel, 1), lambda: np.sort(x.np, 1), lambda: torch.sort(x.torch, 1), lambda: mx.sort(x.mx, 1)))
        case(f"argsort of rows {m}^2 {dtype}", ways(lambda: call("argsort_axis", x.keel, 1), lambda: np.argsort(x.np, 1), lambda: torch.argsort(x.torch, 1), lambda: mx.argsort(x.mx, 1)))
        case(f"partition of rows {m}^2 {dtype}", ways(lambda: call("partition_axis", x.keel, m // 2, 1), lambda: np.partition(x.np, m // 2, 1), lambda: torch.kthvalue(x.torch, m // 2, 1), lambda: mx.partition(x.mx, m // 2, 1)))
        for k in (10, 100):
            case(f"topk {k} of rows {m}^2 {dtype}", ways(lambda: call("topk_axis", x.keel, k, 1), lambda: np.partition(x.np, m - k, 1)[:, m - k:].copy(), lambda: torch.topk(x.torch, k, 1), lambda: mx.topk(x.mx, k, 1)))
        x.drop()
    x = Both(rng.integers(-30000, 30000, 1 << 22).astype(np.int16))
    case("sort 4 M int16", ways(lambda: call("sort", x.keel), lambda: np.sort(x.np), lambda: torch.sort(x.torch), lambda: mx.sort(x.mx)))
    x.drop()


def crowded_scatters():
    """Many updates of few places."""
    n = 1000000
    for places in (100, 10000):
        i = Both(rng.integers(0, places, n).astype(np.int32))
        for dtype in ("float32", "int32", "bfloat16"):
            x = Both(np.zeros(places, np.float32), dtype) if dtype != "int32" else Both(np.zeros(places, np.int32))
            u = Both(normal(n), dtype) if dtype != "int32" else Both(rng.integers(0, 9, n).astype(np.int32))
            u2 = call("reshape", u.keel, ints(n, 1), C.c_size_t(2))

            def put():
                z = x.torch.clone()
                z.index_add_(0, i.torch, u.torch)
                return z

            def put_numpy():
                z = x.np.copy()
                np.add.at(z, i.np, u.np)
                return z

            case(f"scatter add of 1 M into {places} {dtype}", ways(lambda: call("scatter_add_single", x.keel, i.keel, u2, 0), put_numpy if dtype != "bfloat16" else None, put, lambda: x.mx.at[i.mx].add(u.mx)))
            x.drop(), u.drop(), free_array(u2)
        i.drop()


def pooling():
    """2 x 2 windows as mlx.nn makes them: reshaped, with the axes of a window brought together, and reduced."""
    b, h, c = 8, 56, 64
    for dtype in ("float32", "bfloat16"):
        x = Both(normal(b, h, h, c), dtype)
        tx = x.torch.movedim(-1, 1) if torch is not None else None

        def windows():
            parts = call("reshape", x.keel, ints(b, h // 2, 2, h // 2, 2, c), C.c_size_t(6))
            return call("transpose_axes", parts, ints(0, 1, 3, 2, 4, 5), C.c_size_t(6)), parts

        def pool(name):
            w, parts = windows()
            return call(name, w, ints(-3, -2), C.c_size_t(2), FALSE), w, parts

        nw = (lambda: x.np.reshape(b, h // 2, 2, h // 2, 2, c)) if dtype == "float32" else None
        mw = lambda: mx.reshape(x.mx, (b, h // 2, 2, h // 2, 2, c)).transpose(0, 1, 3, 2, 4, 5)
        case(f"mean pooling 2x2 {dtype}", ways(lambda: pool("mean_axes"), nw and (lambda: nw().mean((2, 4))), lambda: torch.nn.functional.avg_pool2d(tx, 2), lambda: mw().mean((-3, -2))))
        case(f"max pooling 2x2 {dtype}", ways(lambda: pool("max_axes"), nw and (lambda: nw().max((2, 4))), lambda: torch.nn.functional.max_pool2d(tx, 2), lambda: mw().max((-3, -2))))
        x.drop()


def thin_products():
    """One of the three extents is 2 to 4, or rows are few and the matrix is stored by columns; and many tiny products."""
    n = 1024
    for k in (2, 3, 4, 8):
        for (a, b), label in ((((n, k), (k, n)), "inner"), (((k, n), (n, n)), "rows"), (((n, n), (n, k)), "columns"), (((k, 1 << 16), (1 << 16, k)), "rows and columns")):
            for dtype in ("float32", "bfloat16") if k in (2, 4) else ("float32",):
                x, y = Both(normal(*a), dtype), Both(normal(*b), dtype)
                xt, yt = Both(np.ascontiguousarray(x.memory.T), dtype), Both(np.ascontiguousarray(y.memory.T), dtype)
                f32 = dtype == "float32"
                for layout in ("nn", "nt", "tn", "tt"):
                    p, q = (call("transpose", z.keel) if t == "t" else None for z, t in ((xt, layout[0]), (yt, layout[1])))
                    def of(z, zt, lib, t):
                        return getattr(zt, lib).T if t == "t" else getattr(z, lib)
                    case(f"thin product {label} {k} {layout} {dtype}", ways(lambda: call("matmul", p or x.keel, q or y.keel), (lambda: of(x, xt, "np", layout[0]) @ of(y, yt, "np", layout[1])) if f32 else None,
                                                                            lambda: of(x, xt, "torch", layout[0]) @ of(y, yt, "torch", layout[1]), lambda: of(x, xt, "mx", layout[0]) @ of(y, yt, "mx", layout[1])), flops=2 * a[0] * a[1] * b[1])
                    for z in (p, q):
                        if z:
                            free_array(z)
                for z in (x, y, xt, yt):
                    z.drop()
    for size in (4, 8, 16):
        for dtype in ("float32", "bfloat16", "float16"):
            x, y = Both(normal(4096, size, size), dtype), Both(normal(4096, size, size), dtype)
            case(f"4096 tiny products of {size}^3 {dtype}", beside(keel_op("matmul", x, y), (lambda: x.np @ y.np) if dtype == "float32" else None, lambda: x.torch @ y.torch, lambda: x.mx @ y.mx), flops=2 * 4096 * size**3)
            x.drop(), y.drop()


def attention():
    if not hasattr(lib, "mlx_fast_scaled_dot_product_attention"):
        return
    b, heads, kv, d = 1, 32, 8, 128
    for label, lq, lk, dtype in (("decode 4096", 1, 4096, "float32"), ("decode 4096", 1, 4096, "bfloat16"), ("prefill 1024", 1024, 1024, "float32"), ("prefill 1024", 1024, 1024, "bfloat16")):
        q, k, v = Both(normal(b, heads, lq, d), dtype), Both(normal(b, kv, lk, d), dtype), Both(normal(b, kv, lk, d), dtype)
        size = 4 if dtype == "float32" else 2
        scale = 1 / math.sqrt(d)
        mode = b"causal" if lq > 1 else b""
        flops = 4 * b * heads * lq * lk * d * (0.5 if lq > 1 else 1)
        case(f"attention {label} {dtype}",
             ways(lambda: call("fast_scaled_dot_product_attention", q.keel, k.keel, v.keel, C.c_float(scale), mode, NONE, NONE), None,
                  lambda: torch.nn.functional.scaled_dot_product_attention(q.torch, k.torch, v.torch, is_causal=lq > 1, scale=scale, enable_gqa=True),
                  lambda: mx.fast.scaled_dot_product_attention(q.mx, k.mx, v.mx, scale=scale, mask="causal" if lq > 1 else None)),
             2 * b * kv * lk * d * size if lq == 1 else 0, flops=flops if lq > 1 else 0, share="read" if lq == 1 else f"products of {dtype}", floor=0.6 if lq == 1 else 0.5)
        for z in (q, k, v):
            z.drop()
    if hasattr(lib, "mlx_fast_rope"):
        x = Both(normal(1, 32, 4096, 128))
        case("rope (1, 32, 4096, 128)", ways(lambda: call("fast_rope", x.keel, 128, FALSE, OptionalFloat(10000, True), C.c_float(1), 0, NONE), None, None, lambda: mx.fast.rope(x.mx, 128, traditional=False, base=10000, scale=1, offset=0)),
             2 * 4 * 32 * 4096 * 128, share="copy", floor=0.7)
        x.drop()


def attention_backward():
    """Attention and its gradients with respect to queries, keys and values, as a training step computes them; seven products of all queries with all keys. MLX is left out: it takes 28 s for one call."""
    if not hasattr(lib, "mlx_vjp"):
        return
    b, heads, n, d = 8, 16, 1024, 64
    scale = 1 / math.sqrt(d)
    closure_type = C.CFUNCTYPE(INT, C.POINTER(Handle), Handle)
    vector, append, get, free_vector = (declare("mlx_vector_array_" + f, res, *args) for f, res, args in (("new", Handle, ()), ("append_value", INT, (Handle, Handle)), ("get", INT, (C.POINTER(Handle), Handle, C.c_size_t)), ("free", INT, (Handle,))))
    evaluate = declare("mlx_eval", INT, Handle)
    closure_of = declare("mlx_closure_new_func", Handle, closure_type)

    def vector_of(*arrays):
        made = vector()
        for a in arrays:
            append(made, a)
        return made

    for mode in (b"", b"causal"):
        @closure_type
        def attend(res, given):
            q, k, v = (new_array() for _ in range(3))
            for i, a in enumerate((q, k, v)):
                get(C.byref(a), given, i)
            out = call("fast_scaled_dot_product_attention", q, k, v, C.c_float(scale), mode, NONE, NONE)
            rc = lib.mlx_vector_array_set_value(res, out)
            for a in (q, k, v, out):
                free_array(a)
            return rc

        closure = closure_of(attend)
        for dtype in ("float32", "bfloat16"):
            q, k, v, g = (Both(normal(b, heads, n, d), dtype) for _ in range(4))
            primals, cotangents = vector_of(q.keel, k.keel, v.keel), vector_of(g.keel)

            def ours():
                values, gradients = vector(), vector()
                if lib.mlx_vjp(C.byref(values), C.byref(gradients), closure, primals, cotangents) or evaluate(gradients):
                    raise RuntimeError("mlx_vjp failed")
                free_vector(values)
                free_vector(gradients)

            def theirs():
                inputs = [x.torch.requires_grad_() for x in (q, k, v)]
                torch.autograd.grad(torch.nn.functional.scaled_dot_product_attention(*inputs, is_causal=mode != b"", scale=scale), inputs, g.torch)

            made = {"keel": ours, "torch": theirs} if torch is not None else {"keel": ours}
            case(f"attention_backward {n}{' causal' if mode else ''} {dtype}", made, flops=14 * b * heads * n * n * d * (0.5 if mode else 1), share=f"products of {dtype}")
            for x in (q, k, v, g):
                x.drop()


def norm_gradients():
    """rms_norm and layer_norm and their gradients with respect to all inputs, as a training step computes them."""
    if not hasattr(lib, "mlx_vjp"):
        return
    m = 2048
    closure_type = C.CFUNCTYPE(INT, C.POINTER(Handle), Handle)
    vector, append, get, free_vector = (declare("mlx_vector_array_" + f, res, *args) for f, res, args in (("new", Handle, ()), ("append_value", INT, (Handle, Handle)), ("get", INT, (C.POINTER(Handle), Handle, C.c_size_t)), ("free", INT, (Handle,))))
    evaluate = declare("mlx_eval", INT, Handle)
    closure_of = declare("mlx_closure_new_func", Handle, closure_type)

    def vector_of(*arrays):
        made = vector()
        for a in arrays:
            append(made, a)
        return made

    for name, n_in in (("rms_norm", 2), ("layer_norm", 3)):
        @closure_type
        def norm(res, given):
            inputs = [new_array() for _ in range(n_in)]
            for i, a in enumerate(inputs):
                get(C.byref(a), given, i)
            out = call("fast_" + name, *inputs, C.c_float(1e-5))
            rc = lib.mlx_vector_array_set_value(res, out)
            for a in (*inputs, out):
                free_array(a)
            return rc

        closure = closure_of(norm)
        for dtype in ("float32", "bfloat16"):
            inputs, g = [Both(normal(*shape), dtype) for shape in ((m, m), (m,), (m,))[:n_in]], Both(normal(m, m), dtype)
            primals, cotangents = vector_of(*(x.keel for x in inputs)), vector_of(g.keel)

            def ours():
                values, gradients = vector(), vector()
                if lib.mlx_vjp(C.byref(values), C.byref(gradients), closure, primals, cotangents) or evaluate(values) or evaluate(gradients):
                    raise RuntimeError("mlx_vjp failed")
                free_vector(values)
                free_vector(gradients)

            def theirs():
                given = [x.torch.requires_grad_() for x in inputs]
                torch.autograd.grad(getattr(torch.nn.functional, name)(given[0], (m,), *given[1:], eps=1e-5), given, g.torch)

            made = {"keel": ours, "torch": theirs} if torch is not None else {"keel": ours}
            case(f"{name} and gradients {m}^2 {dtype}", made, 5 * m * m * (4 if dtype == "float32" else 2), share="copy")
            for x in (*inputs, g):
                x.drop()


def convolutions():
    """PyTorch's tensors are channels first, in the better of both memory formats for each case."""
    if not hasattr(lib, "mlx_conv_general"):
        return
    pairs = ((1, 2048, 64), (64, 5, 64), 2, 1, "channels first"), ((56, 56, 64), (64, 3, 3, 64), 1, 1, "channels last"), ((56, 56, 256), (256, 3, 3, 1), 1, 256, "channels last"), ((56, 56, 64), (64, 1, 1, 64), 0, 1, "channels last"), \
        ((28, 28, 128), (128, 3, 3, 4), 1, 32, "channels last"), ((56, 56, 64), (1, 3, 3, 64), 1, 1, "channels last"), ((56, 56, 32), (32, 11, 11, 32), 5, 1, "channels last")
    for dims, kernel, pad, groups, layout in pairs:
        dims = dims[1:] if dims[0] == 1 else dims
        n = len(dims) - 1
        for dtype in ("float32", "bfloat16"):
            x, w = Both(normal(8, *dims), dtype), Both(normal(*kernel), dtype)
            last = {"channels last": torch.channels_last, "channels first": torch.contiguous_format}[layout] if torch else None
            tx, tw = [a.torch.movedim(-1, 1).contiguous(memory_format=last) for a in (x, w)] if torch else (None, None)
            f = getattr(torch.nn.functional, f"conv{n}d") if torch else None
            one, by = ints(1), ints(pad)
            lists = (one, C.c_size_t(1), by, C.c_size_t(1), by, C.c_size_t(1), one, C.c_size_t(1), one, C.c_size_t(1))
            flops = 2 * 8 * math.prod(dims[:-1]) * math.prod(kernel)
            case(f"conv{n}d 8x{'x'.join(map(str, dims))} to {kernel[0]}, k{kernel[1]}{f', {groups} groups' if groups not in (1, dims[-1]) else ', depthwise' if groups > 1 else ''} {dtype}",
                 ways(lambda: call("conv_general", x.keel, w.keel, *lists, groups, FALSE), None, lambda: f(tx, tw, padding=pad, groups=groups), lambda: mx.conv_general(x.mx, w.mx, 1, pad, 1, 1, groups)), flops=flops)
            x.drop()
            w.drop()


def write_table(path):
    libs = ["numpy", "torch", "mlx"]
    with open(path, "w") as f:
        f.write("| case | Keel ms | share of the limit (wanted) | NumPy ms | PyTorch ms | MLX ms | best peer / Keel |\n|---|---|---|---|---|---|---|\n")
        for r in results:
            share = f"{100 * r['share']:.0f} % ({100 * r['floor']:.0f})" if r["share"] and r["floor"] else f"{r['flops'] / r['med']['keel'] * 1e-9:.0f} GFLOP/s" if r["flops"] else ""
            cells = [f"{r['med'][k] * 1e3:.4g}" if k in r["med"] else "" for k in libs]
            f.write(f"| {r['name']} | {r['med']['keel'] * 1e3:.4g} | {share} | {' | '.join(cells)} | {r['ratio']:.2f} |\n")


print("keel beside", ", ".join(n + " " + v for n, v in (("numpy", np.__version__), ("torch", torch.__version__ if torch is not None else "missing"), ("mlx", "there" if mx is not None else "missing"))))
measure_limits()
for part in (elementwise, reductions, other_axes, products, thin_products, indexed, crowded_scatters, moving, sorting, short_sorts, pooling, fourier, linear_algebra, attention, attention_backward, norm_gradients, convolutions):
    part()
ratios = [r["ratio"] for r in results if r["best"]]
if ratios:
    mean = math.exp(statistics.fmean(math.log(r) for r in ratios))
    behind = [f"{r['name']} {r['ratio']:.2f}" for r in results if r["best"] and r["ratio"] < 1]
    print(f"geometric mean of the ratios to the best peer: {mean:.2f} over {len(ratios)} cases; ahead in {len(ratios) - len(behind)}")
    print("behind: " + (", ".join(behind) or "none"))
    short = [f"{r['name']} {100 * r['share']:.0f} of {100 * r['floor']:.0f} %" for r in results if r["share"] and r["floor"] and r["share"] < r["floor"]]
    print("below the share wanted: " + (", ".join(short) or "none"))
if os.environ.get("KEEL_BENCH_TABLE"):
    write_table(os.environ["KEEL_BENCH_TABLE"])
if os.environ.get("KEEL_BENCH_CHART") and ratios:
    chart.draw([(r["name"], r["ratio"] if r["best"] else 0) for r in results], os.environ["KEEL_BENCH_CHART"])
