#!/usr/bin/env python3
"""Random calls made twice, of Keel and of MLX, and compared: shapes, dtypes, strides, parameters, special values.

    python3 tools/mlx_differential.py path/to/libkeel.so [calls] [seed] [operation ...]

Prints, per operation, the calls made and the differences by kind: "shape" and "dtype" of results, "value" beyond the tolerance of the dtype, "error" where one of the two fails and the other does not. Differences that docs/differences.md
explains are counted apart, by reason (KNOWN below). Ends with 1 when there is any other. Needs mlx and NumPy."""
import ctypes as C
import os
import random
import sys

import mlx.core as mx
import numpy as np

lib = C.CDLL(os.path.abspath(sys.argv[1]))
CALLS = int(sys.argv[2]) if len(sys.argv) > 2 else 100000
SEED = int(sys.argv[3]) if len(sys.argv) > 3 else 1
ONLY = sys.argv[4:]
rnd = random.Random(SEED)
np.seterr(all="ignore")


class Handle(C.Structure):
    _fields_ = [("ctx", C.c_void_p)]


class OptionalFloat(C.Structure):
    _fields_ = [("value", C.c_float), ("has_value", C.c_bool)]


for name, res, args in (("mlx_array_new", Handle, []), ("mlx_array_free", C.c_int, [Handle]), ("mlx_array_new_data", Handle, [C.c_void_p, C.c_void_p, C.c_int, C.c_int]), ("mlx_array_eval", C.c_int, [Handle]),
                        ("mlx_array_ndim", C.c_size_t, [Handle]), ("mlx_array_shape", C.POINTER(C.c_int), [Handle]), ("mlx_array_dtype", C.c_int, [Handle]), ("mlx_array_size", C.c_size_t, [Handle]),
                        ("mlx_default_cpu_stream_new", Handle, []), ("keel_errors_return", None, [])):
    f = getattr(lib, name)
    f.restype, f.argtypes = res, args
lib.keel_errors_return()
DATA = {}  # the address of the elements, by dtype
for name in ("bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "float32", "float64", "complex64"):
    DATA[name] = getattr(lib, "mlx_array_data_" + name)
    DATA[name].restype, DATA[name].argtypes = C.c_void_p, [Handle]
S = lib.mlx_default_cpu_stream_new()
DTYPES = ["bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "float16", "float32", "float64", "bfloat16", "complex64"]
MX = {d: getattr(mx, d if d != "bool" else "bool_") for d in DTYPES}
INTS = DTYPES[1:9]
FLOATS = ["float16", "float32", "bfloat16"]
REALS = DTYPES[:11] + ["bfloat16"]
ALL = REALS + ["complex64"]  # float64 of MLX is an error outside its CPU: the stream below is the CPU
mx.set_default_device(mx.cpu)


def ints(v):
    return (C.c_int * max(len(v), 1))(*v)


def size_t(n):
    return C.c_size_t(n)


class Both:
    """One array in both libraries, perhaps strided in both."""

    def __init__(self, shape, dtype, special=True, low=None, high=None):
        self.shape, self.dtype = tuple(shape), dtype
        n = int(np.prod(shape, dtype=np.int64))
        if dtype == "bool":
            v = np.array([rnd.random() < 0.5 for _ in range(n)], np.bool_)
        elif dtype in INTS:
            info = np.iinfo(dtype)
            lo, hi = (max(info.min, -8), 9) if low is None else (max(low, info.min), min(high, info.max))
            v = np.array([rnd.choice((info.min, info.max)) if special and rnd.random() < 0.05 else rnd.randrange(lo, hi) for _ in range(n)], dtype)
        else:
            v = np.array([self.number(special, low, high) for _ in range(n)], np.float64)
            if dtype == "complex64":
                v = (v + 1j * np.array([self.number(special, low, high) for _ in range(n)])).astype(np.complex64)
        turned = n > 0 and len(shape) > 1 and rnd.random() < 0.3  # (MLX takes 15 s for some reductions of nothing, transposed)
        store = v.reshape(self.shape[::-1]) if turned else v.reshape(self.shape)
        base = np.ascontiguousarray(store.astype(np.float32) if dtype in ("float16", "bfloat16", "float32", "float64") else store)
        code = DTYPES.index(str(base.dtype))
        a = lib.mlx_array_new_data(base.ctypes.data, ints(base.shape), base.ndim, code)
        self.mx = mx.array(base)
        self.keel = keep(a)
        if dtype in ("float16", "bfloat16", "float64"):
            self.keel = call("astype", self.keel, DTYPES.index(dtype))
            self.mx = self.mx.astype(MX[dtype])
        if turned:
            self.keel = call("transpose", self.keel)
            self.mx = mx.transpose(self.mx)
        mx.eval(self.mx)
        drawn.append(self)

    @staticmethod
    def number(special, low, high):
        if low is not None:
            return rnd.uniform(low, high)
        r = rnd.random()
        if special and r < 0.08:
            return rnd.choice([0.0, -0.0, 1.0, -1.0, float("inf"), float("-inf"), float("nan"), 1e-40, 65504.0, 1e30])
        return rnd.gauss(0, 1) * rnd.choice([0.1, 1, 1, 10])


made = []
drawn = []  # operands of the call


def keep(h):
    made.append(h)
    return h


class Failed(Exception):
    pass


def call(name, *args):
    out = lib.mlx_array_new()
    if getattr(lib, "mlx_" + name)(C.byref(out), *args, S):
        lib.mlx_array_free(out)
        raise Failed(name)
    return keep(out)


def keel_value(h):
    """(shape, dtype, values as float64, complex128 or int)."""
    dense = call("contiguous", h, C.c_bool(False))
    if lib.mlx_array_eval(dense):
        raise Failed("evaluation")
    nd = lib.mlx_array_ndim(dense)
    shape = tuple(lib.mlx_array_shape(dense)[i] for i in range(nd))
    dtype = DTYPES[lib.mlx_array_dtype(dense)]
    n = lib.mlx_array_size(dense)
    if n == 0:
        return shape, dtype, np.zeros(shape)
    wide = dense
    np_type = dtype
    if dtype in ("float16", "bfloat16"):
        wide, np_type = call("astype", dense, DTYPES.index("float32")), "float32"
        if lib.mlx_array_eval(wide):
            raise Failed("evaluation")
    size = np.dtype(np_type).itemsize
    data = C.string_at(DATA[np_type](wide), n * size)
    return shape, dtype, np.frombuffer(data, np_type).reshape(shape)


def mlx_value(a):
    dtype = str(a.dtype).split(".")[-1].rstrip("_")
    wide = a.astype(mx.float32) if dtype in ("float16", "bfloat16") else a
    return tuple(a.shape), dtype, np.array(wide)


TOLERANCE = {"float16": 4e-3, "bfloat16": 3e-2, "float32": 2e-5, "float64": 1e-11, "complex64": 5e-4}


def same(x, y, dtype, loose):
    if dtype not in TOLERANCE:
        return np.array_equal(x, y)
    t = TOLERANCE[dtype] * loose
    with np.errstate(all="ignore"):
        if dtype == "complex64":
            return all(same(np.ascontiguousarray(p), np.ascontiguousarray(q), "float32", loose * 25) for p, q in ((x.real, y.real), (x.imag, y.imag))) or bool(np.all((np.abs(x - y) <= t * (1 + np.abs(y))) | ~np.isfinite(y)))
        x, y = x.astype(np.float64), y.astype(np.float64)
        small = {"float16": 6.2e-5, "bfloat16": 1.2e-38}.get(dtype, 1.2e-38)
        near = np.abs(x - y) <= t * np.abs(y) + small + (t if loose > 1 else t * 0.05)
        return bool(np.all(near | (x == y) | (np.isnan(x) & np.isnan(y))))


# ---- what is called ----
# name: function that draws a call and gives (keel thunk, mlx thunk, looseness)
TABLE = {}


def op(name, needs=None):
    def add(f):
        if hasattr(lib, "mlx_" + (needs or name)):
            TABLE[name] = f
        return f

    return add


def shape(most=3, least=0, zero=0.05):
    return tuple(0 if rnd.random() < zero else rnd.choice([1, 2, 3, 5, 17]) for _ in range(rnd.randrange(least, most + 1)))


def broadcastable(s):
    t = list(s)[rnd.randrange(0, len(s) + 1) if s and rnd.random() < 0.3 else 0:]
    return tuple(1 if rnd.random() < 0.2 else d for d in t)


def unary(name, dtypes=ALL, mx_name=None, low=None, high=None, loose=1):
    @op(name)
    def draw():
        a = Both(shape(), rnd.choice(dtypes), low=low, high=high)
        return (lambda: call(name, a.keel)), (lambda: getattr(mx, mx_name or name)(a.mx)), loose


def binary(name, dtypes=ALL, mx_f=None, loose=1, low=None, high=None):
    @op(name)
    def draw():
        s = shape()
        t = rnd.choice(dtypes)
        a, b = Both(s, t, low=low, high=high), Both(broadcastable(s), t if rnd.random() < 0.6 else rnd.choice(dtypes), low=low, high=high)
        if rnd.random() < 0.5:
            a, b = b, a
        return (lambda: call(name, a.keel, b.keel)), (lambda: (mx_f or getattr(mx, name))(a.mx, b.mx)), loose


for n in ("abs", "negative", "square", "sqrt", "rsqrt", "reciprocal", "exp", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "sinh", "cosh", "tanh", "sigmoid", "sign", "floor", "ceil", "logical_not", "isnan", "isinf",
          "isfinite", "isneginf", "isposinf", "conjugate", "real", "imag", "degrees", "radians", "stop_gradient"):
    unary(n)
for n in ("arcsin", "arccos", "arctan", "arcsinh", "arccosh", "arctanh", "erf", "erfinv"):
    unary(n, dtypes=REALS + (["complex64"] if n in ("arcsin", "arccos", "arctan") else []))
unary("bitwise_invert", dtypes=DTYPES[:9])
for n in ("add", "subtract", "multiply", "divide", "maximum", "minimum", "equal", "not_equal", "less", "less_equal", "greater", "greater_equal", "logical_and", "logical_or", "logaddexp", "remainder", "floor_divide", "power"):
    binary(n)
binary("arctan2", dtypes=REALS)
for n in ("bitwise_and", "bitwise_or", "bitwise_xor"):
    binary(n, dtypes=DTYPES[:9])
for n in ("left_shift", "right_shift"):
    binary(n, dtypes=INTS, low=0, high=7)


@op("where")
def _():
    s, t = shape(), rnd.choice(ALL)
    c, a, b = Both(broadcastable(s), rnd.choice(["bool", "int32", "float32"])), Both(s, t), Both(broadcastable(s), rnd.choice(ALL))
    return (lambda: call("where", c.keel, a.keel, b.keel)), (lambda: mx.where(c.mx, a.mx, b.mx)), 1


@op("clip")
def _():
    s, t = shape(), rnd.choice(REALS)
    a, lo, hi = Both(s, t), Both((), t), Both((), t)
    return (lambda: call("clip", a.keel, lo.keel, hi.keel)), (lambda: mx.clip(a.mx, lo.mx, hi.mx)), 1


@op("round")
def _():
    a, d = Both(shape(), rnd.choice(ALL)), rnd.choice([0, 0, 1, 2, -1])
    return (lambda: call("round", a.keel, d)), (lambda: mx.round(a.mx, d)), 2


@op("nan_to_num")
def _():
    a = Both(shape(), rnd.choice(REALS))
    n, p, q = rnd.choice([0.0, 3.0]), rnd.choice([None, 5.0]), rnd.choice([None, -5.0])
    return (lambda: call("nan_to_num", a.keel, C.c_float(n), OptionalFloat(p or 0, p is not None), OptionalFloat(q or 0, q is not None))), (lambda: mx.nan_to_num(a.mx, n, p, q)), 1


@op("astype")
def _():
    a, t = Both(shape(), rnd.choice(ALL), low=-100, high=100), rnd.choice(ALL)
    return (lambda: call("astype", a.keel, DTYPES.index(t))), (lambda: a.mx.astype(MX[t])), 1


@op("view")
def _():
    a, t = Both(shape(least=1), rnd.choice(ALL)), rnd.choice(ALL)
    return (lambda: call("view", a.keel, DTYPES.index(t))), (lambda: mx.view(a.mx, MX[t])), 1


def reduction(name, dtypes=ALL, extra=(), mx_extra=None, loose=8, low=None, high=None):
    for form in ("", "_axis", "_axes"):
        if not hasattr(lib, f"mlx_{name}{form}"):
            continue

        def draw(form=form):
            a = Both(shape(least=1), rnd.choice(dtypes), special=rnd.random() < 0.3, low=low, high=high)
            nd, keepdims = len(a.shape), rnd.random() < 0.5
            axes = rnd.sample(range(nd), rnd.randrange(1, nd + 1))
            axes = [x - nd if rnd.random() < 0.3 else x for x in axes]
            ddof = rnd.choice([0, 1])
            more = (C.c_int(ddof),) if extra == "ddof" else ()
            kw = {"ddof": ddof} if extra == "ddof" else {}
            f = getattr(mx, name)
            if form == "":
                return (lambda: call(name, a.keel, C.c_bool(keepdims), *more)), (lambda: f(a.mx, keepdims=keepdims, **kw)), loose
            if form == "_axis":
                return (lambda: call(name + form, a.keel, axes[0], C.c_bool(keepdims), *more)), (lambda: f(a.mx, axis=axes[0], keepdims=keepdims, **kw)), loose
            return (lambda: call(name + form, a.keel, ints(axes), size_t(len(axes)), C.c_bool(keepdims), *more)), (lambda: f(a.mx, axis=axes, keepdims=keepdims, **kw)), loose

        TABLE[name + form] = draw


for n in ("sum", "prod", "max", "min", "all", "any", "mean", "logsumexp"):
    reduction(n, dtypes=REALS if n == "logsumexp" else ALL)


@op("median")
def _():
    a = Both(shape(least=1, zero=0), rnd.choice(REALS), special=False)
    axes = rnd.sample(range(len(a.shape)), rnd.randrange(1, len(a.shape) + 1))
    keepdims = rnd.random() < 0.5
    return (lambda: call("median", a.keel, ints(axes), size_t(len(axes)), C.c_bool(keepdims))), (lambda: mx.median(a.mx, axis=axes, keepdims=keepdims)), 2


for n in ("argmax", "argmin"):
    reduction(n, dtypes=REALS)
for n in ("var", "std"):
    reduction(n, extra="ddof", dtypes=REALS)


def scan(name, dtypes=ALL):
    @op(name)
    def draw():
        a = Both(shape(least=1), rnd.choice(dtypes), special=rnd.random() < 0.3)
        axis, rev, inc = rnd.randrange(-len(a.shape), len(a.shape)), rnd.random() < 0.5, rnd.random() < 0.7
        return (lambda: call(name, a.keel, axis, C.c_bool(rev), C.c_bool(inc))), (lambda: getattr(mx, name)(a.mx, axis=axis, reverse=rev, inclusive=inc)), 8


for n in ("cumsum", "cumprod", "cummax", "cummin"):
    scan(n)
scan("logcumsumexp", REALS)


def along(name, dtypes=REALS, mx_name=None):
    @op(name + "_axis")
    def draw():
        a = Both(shape(least=1), rnd.choice(dtypes), special=rnd.random() < 0.3)
        axis = rnd.randrange(-len(a.shape), len(a.shape))
        return (lambda: call(name + "_axis", a.keel, axis)), (lambda: getattr(mx, mx_name or name)(a.mx, axis=axis)), 1


along("sort")
along("argsort")


@op("softmax_axis")
def _():
    a = Both(shape(least=1), rnd.choice(REALS + ["complex64"]), special=rnd.random() < 0.2)
    axis, precise = rnd.randrange(-len(a.shape), len(a.shape)), rnd.random() < 0.5
    return (lambda: call("softmax_axis", a.keel, axis, C.c_bool(precise))), (lambda: mx.softmax(a.mx, axis=axis, precise=precise)), 4


@op("topk_axis")
def _():
    a = Both(shape(least=1, zero=0), rnd.choice(REALS), special=False)
    axis = rnd.randrange(len(a.shape))
    k = rnd.randrange(1, a.shape[axis] + 1)
    # MLX leaves the order open
    return (lambda: call("sort_axis", call("topk_axis", a.keel, k, axis), axis)), (lambda: mx.sort(mx.topk(a.mx, k, axis=axis), axis=axis)), 1


@op("matmul")
def _():
    m, k, n = (rnd.choice([1, 2, 7, 20, 65]) for _ in range(3))
    lead = shape(2)
    t = rnd.choice(FLOATS + ["complex64"])
    a, b = Both(lead + (m, k), t, special=False), Both(broadcastable(lead) + (k, n), t, special=False)
    return (lambda: call("matmul", a.keel, b.keel)), (lambda: mx.matmul(a.mx, b.mx)), 64


@op("addmm")
def _():
    m, k, n = (rnd.choice([1, 3, 20]) for _ in range(3))
    t = rnd.choice(FLOATS)
    c, a, b = Both((m, n) if rnd.random() < 0.5 else (n,), t, special=False), Both((m, k), t, special=False), Both((k, n), t, special=False)
    al, be = rnd.choice([1.0, 0.5]), rnd.choice([1.0, 2.0])
    return (lambda: call("addmm", c.keel, a.keel, b.keel, C.c_float(al), C.c_float(be))), (lambda: mx.addmm(c.mx, a.mx, b.mx, al, be)), 64


for n in ("inner", "outer", "kron"):
    @op(n)
    def _(n=n):
        t = rnd.choice(FLOATS)
        k = rnd.choice([1, 3, 8])
        a, b = Both((rnd.choice([1, 4]), k), t, special=False), Both((2, k), t, special=False)
        return (lambda: call(n, a.keel, b.keel)), (lambda: getattr(mx, n)(a.mx, b.mx)), 32


@op("take_axis")
def _():
    a = Both(shape(least=1, zero=0), rnd.choice(ALL))
    axis = rnd.randrange(len(a.shape))
    i = Both(shape(2), rnd.choice(["int32", "uint32", "int8", "int64"]), special=False, low=0, high=a.shape[axis])
    return (lambda: call("take_axis", a.keel, i.keel, axis)), (lambda: mx.take(a.mx, i.mx, axis=axis)), 1


@op("take_along_axis")
def _():
    a = Both(shape(least=1, zero=0), rnd.choice(ALL))
    axis = rnd.randrange(len(a.shape))
    s = list(a.shape)
    s[axis] = rnd.choice([1, 4])
    i = Both(s, "int32", special=False, low=-a.shape[axis], high=a.shape[axis])
    return (lambda: call("take_along_axis", a.keel, i.keel, axis)), (lambda: mx.take_along_axis(a.mx, i.mx, axis)), 1


@op("pad")
def _():
    a = Both(shape(least=1), rnd.choice(ALL), special=False)
    axes = rnd.sample(range(len(a.shape)), rnd.randrange(1, len(a.shape) + 1))
    lo, hi = [rnd.randrange(3) for _ in axes], [rnd.randrange(3) for _ in axes]
    v, mode = Both((), a.dtype, special=False), rnd.choice(["constant", "edge"])
    widths = [(0, 0)] * len(a.shape)
    for x, p, q in zip(axes, lo, hi):
        widths[x] = (p, q)
    return (lambda: call("pad", a.keel, ints(axes), size_t(len(axes)), ints(lo), size_t(len(lo)), ints(hi), size_t(len(hi)), v.keel, mode.encode())), (lambda: mx.pad(a.mx, widths, mode=mode, constant_values=v.mx)), 1


@op("tile")
def _():
    a, reps = Both(shape(), rnd.choice(ALL)), [rnd.randrange(0, 3) for _ in range(rnd.randrange(1, 4))]
    return (lambda: call("tile", a.keel, ints(reps), size_t(len(reps)))), (lambda: mx.tile(a.mx, reps)), 1


@op("repeat_axis")
def _():
    a, n = Both(shape(least=1), rnd.choice(ALL)), rnd.randrange(0, 4)
    axis = rnd.randrange(-len(a.shape), len(a.shape))
    return (lambda: call("repeat_axis", a.keel, n, axis)), (lambda: mx.repeat(a.mx, n, axis=axis)), 1


@op("roll_axis")
def _():
    a = Both(shape(least=1), rnd.choice(ALL))
    axis, by = rnd.randrange(-len(a.shape), len(a.shape)), rnd.randrange(-6, 7)
    return (lambda: call("roll_axis", a.keel, ints([by]), size_t(1), axis)), (lambda: mx.roll(a.mx, by, axis)), 1


for n in ("tril", "triu"):
    @op(n)
    def _(n=n):
        a, k = Both(shape(least=2), rnd.choice(ALL)), rnd.randrange(-3, 4)
        return (lambda: call(n, a.keel, k)), (lambda: getattr(mx, n)(a.mx, k)), 1


@op("diagonal")
def _():
    a = Both(shape(least=2, zero=0), rnd.choice(ALL))
    p, q = rnd.sample(range(len(a.shape)), 2)
    k = rnd.randrange(-2, 3)
    return (lambda: call("diagonal", a.keel, k, p, q)), (lambda: mx.diagonal(a.mx, k, p, q)), 1


@op("diag")
def _():
    a, k = Both(shape(2, least=1, zero=0), rnd.choice(ALL)), rnd.randrange(-2, 3)
    return (lambda: call("diag", a.keel, k)), (lambda: mx.diag(a.mx, k)), 1


@op("eye")
def _():
    n, m, k, t = rnd.randrange(0, 5), rnd.randrange(0, 5), rnd.randrange(-3, 4), rnd.choice(ALL)
    return (lambda: call("eye", n, m, k, DTYPES.index(t))), (lambda: mx.eye(n, m, k, MX[t])), 1


@op("linspace")
def _():
    p, q, n, t = rnd.uniform(-5, 5), rnd.uniform(-5, 5), rnd.randrange(0, 9), rnd.choice(FLOATS + ["int32"])
    return (lambda: call("linspace", C.c_double(p), C.c_double(q), n, DTYPES.index(t))), (lambda: mx.linspace(p, q, n, dtype=MX[t])), 4


@op("fast_rms_norm")
def _():
    t = rnd.choice(FLOATS)
    a = Both(shape(2) + (rnd.choice([1, 8, 33]),), t, special=False)
    w = Both(a.shape[-1:], t, special=False)
    return (lambda: call("fast_rms_norm", a.keel, w.keel, C.c_float(1e-5))), (lambda: mx.fast.rms_norm(a.mx, w.mx, 1e-5)), 8


@op("fast_layer_norm")
def _():
    t = rnd.choice(FLOATS)
    a = Both(shape(2) + (rnd.choice([2, 8, 33]),), t, special=False)
    w, b = Both(a.shape[-1:], t, special=False), Both(a.shape[-1:], t, special=False)
    return (lambda: call("fast_layer_norm", a.keel, w.keel, b.keel, C.c_float(1e-3))), (lambda: mx.fast.layer_norm(a.mx, w.mx, b.mx, 1e-3)), 64


@op("fast_scaled_dot_product_attention")
def _():
    t, g, kv = rnd.choice(FLOATS), rnd.choice([1, 2]), rnd.choice([1, 2])
    b, n, m, d = rnd.choice([1, 2]), rnd.choice([1, 3, 20]), rnd.choice([1, 7, 40]), rnd.choice([4, 16])
    if rnd.random() < 0.5:
        m = max(m, n)
    q, k, v = Both((b, g * kv, n, d), t, special=False), Both((b, kv, m, d), t, special=False), Both((b, kv, m, d), t, special=False)
    causal = rnd.random() < 0.5
    none = Handle(None)
    return (lambda: call("fast_scaled_dot_product_attention", q.keel, k.keel, v.keel, C.c_float(0.25), b"causal" if causal else b"", none, none)), \
           (lambda: mx.fast.scaled_dot_product_attention(q.mx, k.mx, v.mx, scale=0.25, mask="causal" if causal else None)), 64


# What docs/differences.md explains: operation, kind of difference, in which calls (k and m: shape, dtype, values of the results, None where the call failed; d: dtypes of the operands), reason.
SMALL = ("float16", "bfloat16")
KNOWN = [
    ("astype", "value", lambda k, m, d: k[1].startswith("uint"), "negative floats to unsigned integers"),
    ("arg", "error", lambda k, m, d: m is None and 0 in d[0].shape, "argmax and argmin of empty results"),
    ("cum", "value", lambda k, m, d: k[1] in SMALL or k[1] == "complex64", "16-bit scans, and NaN in cummax and cummin"),
    ("logcumsumexp", "value", lambda k, m, d: k[1] in SMALL, "16-bit scans"),
    ("floor_divide", "error", lambda k, m, d: k is None and "complex64" in (x.dtype for x in d), "floor_divide of complex64"),
    ("floor_divide", "value", lambda k, m, d: k[1] in SMALL or k[1] in INTS, "floor_divide of 16-bit floats; integers by 0"),
    ("remainder", "value", lambda k, m, d: k[1] in INTS, "remainder of integers by 0"),
    ("remainder", "error", lambda k, m, d: k is None and "complex64" in (x.dtype for x in d), "remainder of complex64"),
    ("power", "value", lambda k, m, d: k[1] in INTS or k[1] == "complex64", "negative powers of 1 and -1; complex powers of 0 and infinity"),
    ("left_shift", "value", lambda k, m, d: True, "shift counts"),
    ("right_shift", "value", lambda k, m, d: True, "shift counts"),
    ("logsumexp", "error", lambda k, m, d: m is None and 0 in d[0].shape, "logsumexp of nothing"),
    ("logsumexp", "value", lambda k, m, d: d[0].dtype in INTS or d[0].dtype == "bool", "logsumexp of integers"),
    ("mean", "value", lambda k, m, d: d[0].dtype in INTS, "mean of integers"),
    ("var", "value", lambda k, m, d: True, "var in two passes"),
    ("std", "value", lambda k, m, d: True, "var in two passes"),
    ("round", "value", lambda k, m, d: True, "round with decimals"),
    ("sign", "value", lambda k, m, d: True, "sign of NaN and of complex infinities"),
    ("softmax", "dtype", lambda k, m, d: d[0].dtype in INTS or d[0].dtype == "bool", "softmax of integers"),
    ("sum", "value", lambda k, m, d: 0 in d[0].shape, "sums over an empty axis"),
    ("prod", "value", lambda k, m, d: 0 in d[0].shape, "products over an empty axis"),
    ("all", "value", lambda k, m, d: 0 in d[0].shape, "all over an empty axis"),
    ("any", "value", lambda k, m, d: 0 in d[0].shape, "any over an empty axis"),
    ("mean", "value", lambda k, m, d: 0 in d[0].shape, "means over an empty axis"),
    ("view", "value", lambda k, m, d: any(x.dtype in SMALL and bool(mx.any(mx.isnan(x.mx)).item()) for x in d), "which NaN a conversion to 16 bits gives"),
    ("median", "value", lambda k, m, d: k[1] == "float16", "median of float16"),
    ("logaddexp", "value", lambda k, m, d: k[1] == "complex64", "complex logaddexp close to 0"),
]


def known(name, kind, k, m):
    for prefix, what, applies, why in KNOWN:
        if name.startswith(prefix) and what == kind and applies(k, m, drawn):
            return why
    return None


def compare(name, keel, mlx, loose):
    try:
        k = keel_value(keel())
    except Failed:
        k = None
    try:
        m = mlx()
        mx.eval(m)
        m = mlx_value(m)
    except Exception:
        m = None
    if k is None or m is None:
        return None if k is None and m is None else ("error", k, m, f"keel {'fails' if k is None else k[:2]}, mlx {'fails' if m is None else m[:2]}")
    if k[0] != m[0]:
        return "shape", k, m, f"keel {k[0]}, mlx {m[0]}"
    if k[1] != m[1]:
        return "dtype", k, m, f"keel {k[1]}, mlx {m[1]}"
    if not same(k[2], m[2], k[1], loose):
        x, y = k[2].reshape(-1), m[2].reshape(-1)
        bad = [i for i in range(len(x)) if not same(x[i:i + 1], y[i:i + 1], k[1], loose)]
        i = bad[0] if bad else 0
        return "value", k, m, f"{k[1]} {k[0]}: element {i}: keel {x[i]}, mlx {y[i]} ({len(bad)} of {len(x)})"
    return None


count, differ, explained = {}, {}, {}
names = [n for n in TABLE if not ONLY or n in ONLY]
for i in range(CALLS):
    name = names[i % len(names)]
    state = rnd.getstate()
    try:
        keel, mlx, loose = TABLE[name]()
        d = compare(name, keel, mlx, loose)
    except Failed:
        d = None
    count[name] = count.get(name, 0) + 1
    if d:
        why = known(name, d[0], d[1], d[2])
        if why:
            explained[why] = explained.get(why, 0) + 1
            d = None
    if d:
        kinds = differ.setdefault(name, {})
        kinds.setdefault(d[0], [0, []])
        kinds[d[0]][0] += 1
        if len(kinds[d[0]][1]) < 4 and d[3] not in kinds[d[0]][1]:
            kinds[d[0]][1].append(d[3] + " from " + ", ".join(x.dtype + str(x.shape) for x in drawn))
    drawn.clear()
    while made:
        lib.mlx_array_free(made.pop())
total = sum(v[0] for kinds in differ.values() for v in kinds.values())
for name, kinds in sorted(differ.items()):
    for kind, (n, examples) in kinds.items():
        print(f"{name}: {kind} in {n} of {count[name]}:")
        for e in examples:
            print(f"    {e}")
for why, n in sorted(explained.items()):
    print(f"explained in docs/differences.md: {why}: {n}")
print(f"seed {SEED}: {sum(count.values())} calls of {len(names)} operations, {sum(explained.values())} differ as explained, {total} otherwise, in {len(differ)} operations")
sys.exit(1 if total else 0)
