#!/usr/bin/env python3
"""Random calls made twice, of Keel and of MLX, and compared: shapes, dtypes, strides, parameters, special values.

    python3 tools/peers/mlx_differential.py path/to/libkeel.so [calls] [seed] [operation ...]

Prints, per operation, the calls made and the differences by kind: "shape" and "dtype" of results, "value" beyond the tolerance of the dtype, "error" where one of the two fails and the other does not. Differences that docs/differences.md
explains are counted apart, by reason (KNOWN below). Ends with 1 when there is any other. "transforms" stands for all operations transform_...: gradients, jvps and vmaps of random expressions. Needs mlx and NumPy."""
import ctypes as C
import os
import random
import sys
import warnings

import mlx.core as mx
import numpy as np

lib = C.CDLL(os.path.abspath(sys.argv[1]))
CALLS = int(sys.argv[2]) if len(sys.argv) > 2 else 100000
SEED = int(sys.argv[3]) if len(sys.argv) > 3 else 1
ONLY = sys.argv[4:]
rnd = random.Random(SEED)
np.seterr(all="ignore")
warnings.simplefilter("ignore")  # NumPy's, of means of nothing


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
SMALL = ("float16", "bfloat16")
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
        base = base.reshape(store.shape)  # NumPy gives a 0-d array an axis
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

    def exact(self):
        """The elements as they are, in the type in which they are to be added up: 16-bit floats in float32, others in float64, integers exactly."""
        v = np.array(self.mx.astype(mx.float32)) if self.dtype in SMALL else np.array(self.mx)
        if self.dtype in SMALL or self.dtype == "bool":
            return v
        return v.astype(np.complex128) if self.dtype == "complex64" else v.astype(np.int64) if self.dtype in INTS and self.dtype != "uint64" else v if self.dtype == "uint64" else v.astype(np.float64)

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
exact = []  # perhaps a function of NumPy that gives the right result, for where MLX is known to be off


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


def endless_or_0(a, b):
    """Of two orders of multiplication one meets infinity, the other perhaps 0 before."""
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    return (~np.isfinite(a) & (~np.isfinite(b) | (b == 0))) | (~np.isfinite(b) & (a == 0))


def near(x, y, dtype, loose):
    """Per element, whether the values are the same, but for the tolerance."""
    if dtype not in TOLERANCE:
        return x == y
    t = TOLERANCE[dtype] * loose
    with np.errstate(all="ignore"):
        if dtype == "complex64":
            parts = [near(np.ascontiguousarray(p), np.ascontiguousarray(q), "float32", loose * 25) for p, q in ((x.real, y.real), (x.imag, y.imag))]
            return (parts[0] & parts[1]) | (np.abs(x - y) <= t * (1 + np.abs(y)))
        x, y = x.astype(np.float64), y.astype(np.float64)
        small = {"float16": 6.2e-5, "bfloat16": 1.2e-38}.get(dtype, 1.2e-38)
        close = np.abs(x - y) <= t * np.abs(y) + small + (t if loose > 1 else t * 0.05)
        return close | (x == y) | (np.isnan(x) & np.isnan(y))


def same(x, y, dtype, loose):
    return x.shape == y.shape and bool(np.all(near(x, y, dtype, loose)))


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


def by_numpy(f):
    def go(a, b):
        t = str(mx.result_type(a, b)).split(".")[-1]
        with np.errstate(all="ignore"):
            return mx.array(f(np.array(a).astype(t), np.array(b).astype(t)))

    return go


def binary(name, dtypes=ALL, mx_f=None, loose=1, low=None, high=None):
    @op(name)
    def draw():
        s = shape()
        t = rnd.choice(dtypes)
        a, b = Both(s, t, low=low, high=high), Both(broadcastable(s), t if rnd.random() < 0.6 else rnd.choice(dtypes), low=low, high=high)
        if rnd.random() < 0.5:
            a, b = b, a
            drawn[:] = [a, b]
        if name == "logaddexp":
            exact.append(lambda: np.logaddexp(a.exact().astype(np.float64), b.exact().astype(np.float64)))
        if name == "power":
            exact.append(lambda: np.power(a.exact().astype(np.complex128), b.exact().astype(np.complex128)))
        f = mx_f or getattr(mx, name)
        if name in ("remainder", "floor_divide") and all(x.dtype in INTS + ["bool"] for x in (a, b)) and str(mx.result_type(a.mx, b.mx)) != "mlx.core.bool":
            f = by_numpy(getattr(np, name))  # MLX traps on a divisor of 0, and on the smallest integer divided by -1
        return (lambda: call(name, a.keel, b.keel)), (lambda: f(a.mx, b.mx)), loose


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
    whole = lambda x: np.array([round(int(v), d) for v in x.reshape(-1)], object).reshape(x.shape) & ((1 << WIDTH[a.dtype]) - 1)
    exact.append(lambda: np.asarray(whole(a.exact())).astype(np.uint64).astype(a.dtype) if a.dtype in INTS else np.round(a.exact(), d))
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
            over = None if form == "" else axes[0] if form == "_axis" else tuple(axes)
            if name in ("var", "std", "mean", "sum", "prod", "all", "any"):
                wide = a.exact() if name != "prod" or a.dtype not in SMALL else a.exact().astype(np.float64)
                exact.append(lambda: getattr(np, name)(wide, axis=over, keepdims=keepdims, **kw))
            if name in ("argmax", "argmin"):
                exact.append(lambda: getattr(np, name)(a.exact(), axis=over, keepdims=keepdims))
            if 0 in a.shape and name in ("sum", "prod", "all", "any", "mean", "var", "std"):  # MLX gives memory that nobody wrote, after up to 40 s: only the dtype is asked for
                one = f(mx.ones((1,), a.mx.dtype), axis=0, **({"ddof": 0} if kw else {})).dtype
                f = lambda x, axis=None, keepdims=False, **kw: mx.array(exact[-1]()).astype(one)
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


def along_none(a, f):
    """f, or where a has no elements a function that gives as few, of the dtype that f gives: scans and sorts of nothing can end the process of MLX."""
    return f if 0 not in a.shape else lambda x, axis: mx.zeros(x.shape, f(mx.ones((1,), x.dtype), 0).dtype)


def scan(name, dtypes=ALL):
    @op(name)
    def draw():
        a = Both(shape(least=1), rnd.choice(dtypes), special=rnd.random() < 0.3)
        axis, rev, inc = rnd.randrange(-len(a.shape), len(a.shape)), rnd.random() < 0.5, rnd.random() < 0.7
        if name in ("cumsum", "cumprod") and inc:
            turn = (lambda x: np.flip(x, axis)) if rev else (lambda x: x)
            exact.append(lambda: turn(getattr(np, name)(turn(a.exact()), axis=axis)))
        theirs = along_none(a, lambda x, axis: getattr(mx, name)(x, axis=axis, reverse=rev, inclusive=inc))
        return (lambda: call(name, a.keel, axis, C.c_bool(rev), C.c_bool(inc))), (lambda: theirs(a.mx, axis)), 8


for n in ("cumsum", "cumprod", "cummax", "cummin"):
    scan(n)
scan("logcumsumexp", REALS)


def along(name, dtypes=REALS, mx_name=None):
    @op(name + "_axis")
    def draw():
        a = Both(shape(least=1), rnd.choice(dtypes), special=rnd.random() < 0.3)
        axis = rnd.randrange(-len(a.shape), len(a.shape))
        theirs = along_none(a, lambda x, axis: getattr(mx, mx_name or name)(x, axis=axis))
        return (lambda: call(name + "_axis", a.keel, axis)), (lambda: theirs(a.mx, axis)), 1


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

# ---- moves, joins and parts ----
lib.mlx_vector_array_new.restype = Handle
lib.mlx_vector_array_new_data.restype, lib.mlx_vector_array_new_data.argtypes = Handle, [C.POINTER(Handle), C.c_size_t]
lib.mlx_vector_array_get.argtypes = [C.POINTER(Handle), Handle, C.c_size_t]
lib.mlx_vector_array_size.restype, lib.mlx_vector_array_size.argtypes = C.c_size_t, [Handle]
lib.mlx_vector_array_free.argtypes = [Handle]


def vector(arrays):
    return lib.mlx_vector_array_new_data((Handle * len(arrays))(*[a.keel for a in arrays]), len(arrays))


def given(name, arrays, *args):
    """A call that takes several arrays."""
    v = vector(arrays)
    try:
        return call(name, v, *args)
    finally:
        lib.mlx_vector_array_free(v)


def one_of(name, which, *args):
    """Result number which(how many there are) of a call that gives several."""
    v = lib.mlx_vector_array_new()
    rc = getattr(lib, "mlx_" + name)(C.byref(v), *args, S)
    try:
        if rc:
            raise Failed(name)
        out = lib.mlx_array_new()
        lib.mlx_vector_array_get(C.byref(out), v, which % lib.mlx_vector_array_size(v))
        return keep(out)
    finally:
        lib.mlx_vector_array_free(v)


def axis_of(a):
    return rnd.randrange(-len(a.shape), len(a.shape))


def moves(name, draw):
    """draw(a) gives the arguments of Keel and the function of MLX."""

    def go():
        a = Both(shape(least=1), rnd.choice(ALL))
        args, f = draw(a)
        return (lambda: call(name, a.keel, *args)), (lambda: f(a.mx)), 1

    TABLE[name] = go


def list_of(v):
    return ints(v), size_t(len(v))


def draw_reshape(a):
    n = int(np.prod(a.shape))
    s = rnd.choice([(n,), (1, n), (-1, 1), a.shape[::-1], (n, 1, 1), (2, -1)])
    return list_of(s), lambda x: mx.reshape(x, s)


def draw_flatten(a):
    p, q = axis_of(a), axis_of(a)
    return (p, q), lambda x: mx.flatten(x, p, q)


def draw_two_axes(f):
    def draw(a):
        p, q = axis_of(a), axis_of(a)
        return (p, q), lambda x: f(x, p, q)

    return draw


def draw_permutation(a):
    order = rnd.sample(range(len(a.shape)), len(a.shape))
    return list_of(order), lambda x: mx.transpose(x, order)


def draw_broadcast(a):
    s = tuple(rnd.choice([2, 3]) for _ in range(rnd.randrange(3))) + tuple(4 if d == 1 and rnd.random() < 0.5 else d for d in a.shape)
    return list_of(s), lambda x: mx.broadcast_to(x, s)


def draw_new_axes(a):
    axes = rnd.sample(range(len(a.shape) + 2), 2)
    return list_of(axes), lambda x: mx.expand_dims(x, axes)


def draw_new_axis(a):
    p = rnd.randrange(-len(a.shape) - 1, len(a.shape) + 1)
    return (p,), lambda x: mx.expand_dims(x, p)


def draw_no_axes(a):
    axes = [i for i, d in enumerate(a.shape) if d == 1] if rnd.random() < 0.8 else [axis_of(a)]
    return list_of(axes), lambda x: mx.squeeze(x, axes)


def draw_no_axis(a):
    p = axis_of(a)
    return (p,), lambda x: mx.squeeze(x, p)


def draw_unflatten(a):
    p = axis_of(a)
    s = rnd.choice([(1, a.shape[p]), (-1, 1), (a.shape[p], 1), (2, -1)])
    return (p,) + list_of(s), lambda x: mx.unflatten(x, p, s)


def draw_slice(a):
    start, stop, step = [], [], []
    for d in a.shape:
        p, q = sorted((rnd.randrange(d + 1), rnd.randrange(d + 1)))
        start.append(p), stop.append(q), step.append(rnd.choice([1, 1, 2, 3]))
    return list_of(start) + list_of(stop) + list_of(step), lambda x: x[tuple(slice(*v) for v in zip(start, stop, step))]


def draw_strided(a):
    n = int(np.prod(a.shape))
    s, strides, offset = (rnd.randrange(1, 4), rnd.randrange(1, 4)), (rnd.randrange(3), rnd.randrange(3)), rnd.randrange(3)
    if offset + sum((d - 1) * t for d, t in zip(s, strides)) >= n:
        s, strides, offset = (0, 2), (1, 1), 0
    return list_of(s) + ((C.c_int64 * 2)(*strides), size_t(2), size_t(offset)), lambda x: mx.as_strided(x, s, strides, offset)


def draw_roll(a):
    by = rnd.randrange(-6, 7)
    return list_of([by]), lambda x: mx.roll(x, by)


def draw_roll_axes(a):
    axes = rnd.sample(range(len(a.shape)), rnd.randrange(1, len(a.shape) + 1))
    by = [rnd.randrange(-6, 7) for _ in axes]
    return list_of(by) + list_of(axes), lambda x: mx.roll(x, by, axes)


def draw_repeat(a):
    n = rnd.randrange(0, 4)
    return (n,), lambda x: mx.repeat(x, n)


def draw_pad(a):
    n, v = rnd.randrange(0, 3), Both((), a.dtype, special=False)
    return (n, v.keel, b"constant"), lambda x: mx.pad(x, n, constant_values=v.mx)


for name, draw in (("reshape", draw_reshape), ("flatten", draw_flatten), ("swapaxes", draw_two_axes(mx.swapaxes)), ("moveaxis", draw_two_axes(mx.moveaxis)), ("transpose_axes", draw_permutation), ("broadcast_to", draw_broadcast),
                   ("expand_dims_axes", draw_new_axes), ("expand_dims", draw_new_axis), ("squeeze_axes", draw_no_axes), ("squeeze_axis", draw_no_axis), ("unflatten", draw_unflatten), ("slice", draw_slice), ("as_strided", draw_strided),
                   ("roll", draw_roll), ("roll_axes", draw_roll_axes), ("repeat", draw_repeat), ("pad_symmetric", draw_pad)):
    moves(name, draw)
for name, f in (("transpose", mx.transpose), ("squeeze", mx.squeeze), ("copy", lambda x: x), ("atleast_1d", mx.atleast_1d), ("atleast_2d", mx.atleast_2d), ("atleast_3d", mx.atleast_3d), ("zeros_like", mx.zeros_like), ("ones_like", mx.ones_like)):
    moves(name, lambda a, f=f: ((), f))


@op("slice_update")
def _():
    a = Both(shape(least=1), rnd.choice(ALL))
    start, stop, step = [], [], []
    for d in a.shape:
        p, q = sorted((rnd.randrange(d + 1), rnd.randrange(d + 1)))
        start.append(p), stop.append(q), step.append(rnd.choice([1, 2]))
    s = tuple(max(0, -(-(q - p) // t)) for p, q, t in zip(start, stop, step))
    u = Both(broadcastable(s), rnd.choice([a.dtype, "int32"]), special=False)

    def put():
        z = mx.array(a.mx)
        z[tuple(slice(*v) for v in zip(start, stop, step))] = u.mx
        return z

    return (lambda: call("slice_update", a.keel, u.keel, *list_of(start), *list_of(stop), *list_of(step))), put, 1


for mode, at in (("add", "add"), ("prod", "multiply"), ("max", "maximum"), ("min", "minimum")):
    @op("slice_update_" + mode)
    def _(mode=mode, at=at):
        a = Both(shape(least=1, zero=0), rnd.choice(REALS[1:]), special=False)
        stop = [rnd.randrange(1, d + 1) for d in a.shape]
        zero, one = [0] * len(stop), [1] * len(stop)
        u = Both(stop, a.dtype, special=False)
        return (lambda: call("slice_update_" + mode, a.keel, u.keel, *list_of(zero), *list_of(stop), *list_of(one))), (lambda: getattr(a.mx.at[tuple(slice(0, d) for d in stop)], at)(u.mx)), 4


@op("slice_dynamic")
def _():
    a = Both(shape(least=1, zero=0), rnd.choice(ALL))
    size = [rnd.randrange(1, d + 1) for d in a.shape]
    start = np.array([rnd.randrange(d - n + 1) for d, n in zip(a.shape, size)], np.int32)
    k = keep(lib.mlx_array_new_data(start.ctypes.data, ints([len(start)]), 1, DTYPES.index("int32")))
    axes = list(range(len(size)))
    return (lambda: call("slice_dynamic", a.keel, k, *list_of(axes), *list_of(size))), (lambda: mx.slice(a.mx, mx.array(start), axes, size)), 1


@op("slice_update_dynamic")
def _():
    a = Both(shape(least=1, zero=0), rnd.choice(ALL))
    u = Both([rnd.randrange(1, d + 1) for d in a.shape], a.dtype)
    start = np.array([rnd.randrange(d - n + 1) for d, n in zip(a.shape, u.shape)], np.int32)
    k = keep(lib.mlx_array_new_data(start.ctypes.data, ints([len(start)]), 1, DTYPES.index("int32")))
    axes = list(range(len(start)))
    return (lambda: call("slice_update_dynamic", a.keel, u.keel, k, *list_of(axes))), (lambda: mx.slice_update(a.mx, u.mx, mx.array(start), axes)), 1


@op("concatenate")
def _():
    parts = [Both(shape(), rnd.choice(ALL)) for _ in range(rnd.randrange(1, 4))]
    return (lambda: given("concatenate", parts)), (lambda: mx.concatenate([p.mx for p in parts], None)), 1


@op("concatenate_axis")
def _():
    s = list(shape(least=1))
    axis = rnd.randrange(len(s))
    parts = [Both(s[:axis] + [rnd.randrange(4)] + s[axis + 1:], rnd.choice(ALL)) for _ in range(rnd.randrange(1, 4))]
    return (lambda: given("concatenate_axis", parts, axis)), (lambda: mx.concatenate([p.mx for p in parts], axis)), 1


@op("stack_axis")
def _():
    s = shape()
    axis = rnd.randrange(-len(s) - 1, len(s) + 1)
    parts = [Both(s, rnd.choice(ALL)) for _ in range(rnd.randrange(1, 4))]
    return (lambda: given("stack_axis", parts, axis)), (lambda: mx.stack([p.mx for p in parts], axis)), 1


@op("split")
def _():
    a, n, i = Both(shape(least=1), rnd.choice(ALL)), rnd.choice([1, 1, 2, 3]), rnd.randrange(6)
    axis = axis_of(a)
    return (lambda: one_of("split", i, a.keel, n, axis)), (lambda: (lambda v: v[i % len(v)])(mx.split(a.mx, n, axis))), 1


@op("split_sections")
def _():
    a, i = Both(shape(least=1), rnd.choice(ALL)), rnd.randrange(6)
    axis = axis_of(a)
    at = sorted(rnd.randrange(a.shape[axis] + 1) for _ in range(rnd.randrange(1, 4)))
    return (lambda: one_of("split_sections", i, a.keel, *list_of(at), axis)), (lambda: (lambda v: v[i % len(v)])(mx.split(a.mx, at, axis))), 1


@op("meshgrid")
def _():
    parts, i, sparse, indexing = [Both((rnd.randrange(1, 4),), "float32") for _ in range(rnd.randrange(1, 4))], rnd.randrange(6), rnd.random() < 0.5, rnd.choice(["xy", "ij"])

    def ours():
        v = vector(parts)
        try:
            return one_of("meshgrid", i, v, C.c_bool(sparse), indexing.encode())
        finally:
            lib.mlx_vector_array_free(v)

    return ours, (lambda: (lambda v: v[i % len(v)])(mx.meshgrid(*[p.mx for p in parts], sparse=sparse, indexing=indexing))), 1


@op("broadcast_arrays")
def _():
    s, i = shape(), rnd.randrange(6)
    parts = [Both(broadcastable(s), rnd.choice(ALL)) for _ in range(rnd.randrange(1, 4))]

    def ours():
        v = vector(parts)
        try:
            return one_of("broadcast_arrays", i, v)
        finally:
            lib.mlx_vector_array_free(v)

    return ours, (lambda: (lambda v: v[i % len(v)])(mx.broadcast_arrays(*[p.mx for p in parts]))), 1


# ---- made from parameters ----
@op("arange")
def _():
    p, q, d, t = rnd.randrange(-9, 9), rnd.randrange(-9, 9), rnd.choice([1, 2, -1, 0.5]), rnd.choice(["int32", "float32", "int64", "float16"])
    return (lambda: call("arange", C.c_double(p), C.c_double(q), C.c_double(d), DTYPES.index(t))), (lambda: mx.arange(p, q, d, dtype=MX[t])), 1


@op("full")
def _():
    s, v, t = shape(), Both((), rnd.choice(ALL), special=False, low=0, high=9), rnd.choice(ALL)
    return (lambda: call("full", *list_of(s), v.keel, DTYPES.index(t))), (lambda: mx.full(s, v.mx.astype(MX[t]))), 1  # the Python function takes no notice of the dtype when the value is an array


for n in ("zeros", "ones"):
    @op(n)
    def _(n=n):
        s, t = shape(), rnd.choice(ALL)
        return (lambda: call(n, *list_of(s), DTYPES.index(t))), (lambda: getattr(mx, n)(s, MX[t])), 1


@op("tri")
def _():
    n, m, k, t = rnd.randrange(-1, 5), rnd.randrange(-1, 5), rnd.randrange(-3, 4), rnd.choice(ALL)
    return (lambda: call("tri", n, m, k, DTYPES.index(t))), (lambda: mx.tri(n, m, k, MX[t])), 1


@op("identity")
def _():
    n, t = rnd.randrange(0, 5), rnd.choice(ALL)
    return (lambda: call("identity", n, DTYPES.index(t))), (lambda: mx.identity(n, MX[t])), 1


for n in ("hanning", "hamming", "blackman", "bartlett"):
    @op(n)
    def _(n=n):
        m = rnd.randrange(0, 40)
        return (lambda: call(n, m)), (lambda: getattr(mx, n)(m)), 2


# ---- compared, rounded, coded ----
for n in ("isclose", "allclose"):
    @op(n)
    def _(n=n):
        s, t = shape(), rnd.choice(["float32", "int32", "bool", "uint8"])
        a = Both(s, t)
        b = Both(broadcastable(s), t) if rnd.random() < 0.7 else a
        r, at, eq = rnd.choice([1e-5, 0.1]), rnd.choice([1e-8, 0.5]), rnd.random() < 0.5
        return (lambda: call(n, a.keel, b.keel, C.c_double(r), C.c_double(at), C.c_bool(eq))), (lambda: getattr(mx, n)(a.mx, b.mx, rtol=r, atol=at, equal_nan=eq)), 1


@op("array_equal")
def _():
    s, t = shape(), rnd.choice(ALL)
    a = Both(s, t)
    b, eq = a if rnd.random() < 0.5 else Both(s if rnd.random() < 0.5 else shape(), t), rnd.random() < 0.5
    return (lambda: call("array_equal", a.keel, b.keel, C.c_bool(eq))), (lambda: mx.array_equal(a.mx, b.mx, equal_nan=eq)), 1


@op("divmod")
def _():
    s, t, i = shape(), rnd.choice(INTS + ["float32"]), rnd.randrange(2)
    a, b = Both(s, t, special=False), Both(broadcastable(s), t, special=False, low=1, high=9)
    return (lambda: one_of("divmod", i, a.keel, b.keel)), (lambda: mx.divmod(a.mx, b.mx)[i]), 1


@op("to_fp8")
def _():
    a = Both(shape(), rnd.choice(FLOATS), special=False)
    return (lambda: call("to_fp8", a.keel)), (lambda: mx.to_fp8(a.mx)), 1


@op("from_fp8")
def _():
    a, t = Both(shape(), "uint8", special=False, low=0, high=256), rnd.choice(FLOATS)
    return (lambda: call("from_fp8", a.keel, DTYPES.index(t))), (lambda: mx.from_fp8(a.mx, MX[t])), 1


@op("number_of_elements")
def _():
    a = Both(shape(least=1, zero=0), rnd.choice(ALL))
    axes, inv = rnd.sample(range(len(a.shape)), rnd.randrange(1, len(a.shape) + 1)), rnd.random() < 0.5
    n = float(np.prod([a.shape[i] for i in axes]))
    return (lambda: call("number_of_elements", a.keel, *list_of(axes), C.c_bool(inv), DTYPES.index("float32"))), (lambda: mx.array(1 / n if inv else n, mx.float32)), 1  # not in MLX's Python: its definition


# ---- along axes ----
@op("partition_axis")
def _():
    a = Both(shape(least=1, zero=0), rnd.choice(REALS), special=rnd.random() < 0.3)
    axis = axis_of(a)
    k = rnd.randrange(-a.shape[axis], a.shape[axis])
    at = k % a.shape[axis]  # what is promised is which elements stand before and which behind, not their order

    def ours():
        out = call("partition_axis", a.keel, k, axis)
        pieces = []
        for lo, hi in ((0, at), (at, at + 1), (at + 1, a.shape[axis])):
            p, q = [0] * len(a.shape), list(a.shape)
            p[axis], q[axis] = lo, hi
            piece = call("slice", out, *list_of(p), *list_of(q), *list_of([1] * len(p)))
            pieces.append(call("sort_axis", piece, axis))
        v = lib.mlx_vector_array_new_data((Handle * 3)(*pieces), 3)
        try:
            return call("concatenate_axis", v, axis)
        finally:
            lib.mlx_vector_array_free(v)

    def theirs():
        x = mx.split(mx.partition(a.mx, k, axis), [at, at + 1], axis)
        return mx.concatenate([mx.sort(p, axis) if p.size else p for p in x], axis)

    return ours, theirs, 1


@op("argpartition_axis")
def _():
    a = Both(shape(least=1, zero=0), rnd.choice(REALS), special=False)
    axis = axis_of(a)
    k = rnd.randrange(-a.shape[axis], a.shape[axis])
    # equal elements may come in another order: the element at the kth place is the same
    return (lambda: call("take_axis", call("take_along_axis", a.keel, call("argpartition_axis", a.keel, k, axis), axis), scalar(k), axis)), (lambda: mx.take(mx.take_along_axis(a.mx, mx.argpartition(a.mx, k, axis), axis), mx.array(k), axis)), 1


def scalar(k):
    v = np.array(k, np.int32)
    return keep(lib.mlx_array_new_data(v.ctypes.data, ints([]), 0, DTYPES.index("int32")))


@op("softmax_axes")
def _():
    a = Both(shape(least=1), rnd.choice(FLOATS), special=False)
    axes = rnd.sample(range(len(a.shape)), rnd.randrange(1, len(a.shape) + 1))
    return (lambda: call("softmax_axes", a.keel, *list_of(axes), C.c_bool(True))), (lambda: mx.softmax(a.mx, axis=axes, precise=True)), 4


@op("trace")
def _():
    a, t = Both(shape(least=2, zero=0), rnd.choice(ALL), special=False), rnd.choice(["int32", "float32", "int64"])
    p, q = rnd.sample(range(len(a.shape)), 2)
    return (lambda: call("trace", a.keel, 0, p, q, DTYPES.index(t))), (lambda: mx.trace(a.mx, 0, p, q, MX[t])), 8


@op("fast_rope")
def _():
    t, d = rnd.choice(FLOATS), rnd.choice([4, 8, 16])
    a, dims, trad, offset = Both((rnd.choice([1, 2]), rnd.choice([1, 3]), rnd.choice([1, 5, 17]), d), t, special=False), rnd.choice([4, d]), rnd.random() < 0.5, rnd.choice([0, 3, 50])
    scale = rnd.choice([1.0, 0.5])
    return (lambda: call("fast_rope", a.keel, dims, C.c_bool(trad), OptionalFloat(1000, True), C.c_float(scale), offset, Handle(None))), (lambda: mx.fast.rope(a.mx, dims, traditional=trad, base=1000, scale=scale, offset=offset)), 16


# ---- products ----
@op("tensordot_axis")
def _():
    t, n, mid = rnd.choice(FLOATS), rnd.randrange(0, 3), [rnd.choice([1, 2, 3]) for _ in range(2)]
    a, b = Both([2] + mid[:n], t, special=False), Both(mid[:n] + [3], t, special=False)
    return (lambda: call("tensordot_axis", a.keel, b.keel, n)), (lambda: mx.tensordot(a.mx, b.mx, n)), 32


@op("tensordot")
def _():
    t, p, q = rnd.choice(FLOATS), rnd.choice([1, 2, 5]), rnd.choice([1, 3])
    a, b = Both((p, 4, q), t, special=False), Both((q, 2, p), t, special=False)
    return (lambda: call("tensordot", a.keel, b.keel, *list_of([0, 2]), *list_of([2, 0]))), (lambda: mx.tensordot(a.mx, b.mx, [[0, 2], [2, 0]])), 32


@op("hadamard_transform")
def _():
    a, scale = Both(shape(2) + (rnd.choice([1, 1, 2, 8, 12, 20, 28, 64]),), rnd.choice(FLOATS + ["int32", "uint8", "bool"]), special=False), rnd.choice([None, 0.5, 1.0])
    return (lambda: call("hadamard_transform", a.keel, OptionalFloat(scale or 0, scale is not None))), (lambda: mx.hadamard_transform(a.mx, scale)), 64


# ---- convolutions ----
def convolution(name, n, transposed=False, general=False):
    @op(name)
    def draw():
        t, groups = rnd.choice(FLOATS), rnd.choice([1, 1, 1, 2, 3]) if n < 3 else 1  # MLX rounds float64 to float32, and has no groups in three dimensions
        c, o = rnd.choice([1, 2, 5, 17]), rnd.choice([1, 2, 5, 19])
        if groups > 1 and rnd.random() < 0.3:
            c, o = 1, 1  # depthwise
        ins, k = [rnd.choice([1, 3, 6, 11]) for _ in range(n)], [rnd.choice([1, 1, 2, 3]) for _ in range(n)]
        x, w = Both([rnd.choice([1, 2, 3])] + ins + [c * groups], t, special=False), Both([o * groups] + k + [c], t if rnd.random() < 0.8 else rnd.choice(FLOATS), special=False)
        many = lambda values: [rnd.choice(values) for _ in range(n)]
        stride, dilation, pad = many([1, 1, 2, 3]), many([1, 1, 2]), many([0, 1, 2])
        one = lambda v: v[0] if n == 1 else tuple(v)

        def fits(ins, low, high):  # MLX rounds the extent of the result towards 0, and takes some kernels that are too large
            if any(e + a + b < d * (q - 1) + 1 and s > 1 for e, a, b, q, d, s in zip(ins, low, high, k, dilation, stride)):
                raise Failed("a kernel that is too large")
            if groups == 1 and max(dilation) > 1 and max(low + high) > 0:
                raise Failed("MLX writes outside of its memory")

        if general:
            low, high, spread, flip = pad, many([0, 0, 1, 3, -1]), many([1, 1, 2, 3]), rnd.random() < 0.5
            if rnd.random() < 0.2:
                low = many([-1, 0])
            left = [e + min(a, 0) + min(b, 0) for e, a, b in zip(ins, low, high)]
            if min(left) <= 0:
                raise Failed("MLX has no input of nothing but padding")
            fits([(e - 1) * d + 1 for e, d in zip(left, spread)], [max(v, 0) for v in low], [max(v, 0) for v in high])
            lists = [x for v in (stride, low, high, dilation, spread) for x in list_of(v)]
            return (lambda: call(name, x.keel, w.keel, *lists, groups, C.c_bool(flip))), (lambda: mx.conv_general(x.mx, w.mx, stride, (low, high), dilation, spread, groups, flip)), 32
        if transposed:
            pad = [min(p, d * (e - 1)) for p, d, e in zip(pad, dilation, k)]  # more padding than that: docs/differences.md
            more = [rnd.randrange(0, s) for s in stride]
            if max(dilation) > 1 and max(pad) > 0:
                raise Failed("MLX writes outside of its memory")
            return (lambda: call(name, x.keel, w.keel, *stride, *pad, *dilation, *more, groups)), (lambda: getattr(mx, name)(x.mx, w.mx, one(stride), one(pad), one(dilation), one(more), groups)), 32
        fits(ins, pad, pad)
        return (lambda: call(name, x.keel, w.keel, *stride, *pad, *dilation, groups)), (lambda: getattr(mx, name)(x.mx, w.mx, one(stride), one(pad), one(dilation), groups)), 32


for n in (1, 2, 3):
    convolution(f"conv{n}d", n)
    convolution(f"conv_transpose{n}d", n, transposed=True)


general = []
for n in (1, 2, 3):
    convolution("conv_general", n, general=True)
    general.append(TABLE.get("conv_general"))
if general[0]:
    TABLE["conv_general"] = lambda: rnd.choice(general)()
# ---- quantized matrices ----
class OptionalInt(C.Structure):
    _fields_ = [("value", C.c_int), ("has_value", C.c_bool)]


NONE = Handle(None)
FORMATS = [("affine", g, b) for g in (32, 64, 128) for b in (2, 3, 4, 5, 6, 8)] + [("mxfp4", 32, 4), ("mxfp8", 32, 8), ("nvfp4", 16, 4)] * 3


def form(f):
    """Group size, bits and mode as the C API takes them; left out where they are those of the mode."""
    usual = f in (("affine", 64, 4),) or f[0] != "affine"
    return OptionalInt(f[1], not usual), OptionalInt(f[2], not usual), f[0].encode()


def numbers(shape, dtype, group, special, spread=3):
    """Random numbers of many sizes; groups that are constant, or have infinities or NaN."""
    a = Both((), dtype, special=False)
    v = np.random.default_rng(rnd.randrange(2**32)).standard_normal(shape).astype(np.float32)
    flat = v.reshape(-1, group) if v.size else v
    for g in flat:
        g *= np.float32(10.0 ** rnd.uniform(-spread, spread))
        if special and rnd.random() < 0.3:
            kind = rnd.choice(["constant", "zero", "positive", "negative", "inf", "-inf", "nan", "all nan", "infinities", "few"])
            g[...] = {"constant": g[0], "zero": rnd.choice([0.0, -0.0]), "positive": np.abs(g), "negative": -np.abs(g), "all nan": np.nan, "few": np.round(g)}.get(kind, g)
            g[rnd.randrange(group)] = {"inf": np.inf, "-inf": -np.inf, "nan": np.nan}.get(kind, g[0])
            if kind == "infinities":
                g[rnd.randrange(1, group)], g[0] = np.inf, -np.inf
    a.shape = tuple(shape)
    a.keel = call("astype", keep(lib.mlx_array_new_data(v.ctypes.data, ints(v.shape), v.ndim, DTYPES.index("float32"))), DTYPES.index(dtype))
    a.mx = mx.array(v).astype(MX[dtype])
    return a


def global_scale(mode):
    g = Both((), "float32", special=False, low=0.5, high=3000) if mode == "nvfp4" and rnd.random() < 0.5 else None
    return (g.keel, g.mx) if g else (NONE, None)


def packed(w, f, scale=(NONE, None)):
    """w quantized by MLX, in both libraries: so that one pair of scales and numbers is used by both."""
    theirs = mx.quantize(w.mx, group_size=f[1], bits=f[2], mode=f[0], global_scale=scale[1])
    ours = []
    for x in theirs:
        v = np.array(x.astype(mx.float32) if str(x.dtype).endswith("float16") else x)
        h = keep(lib.mlx_array_new_data(v.ctypes.data, ints(v.shape), v.ndim, DTYPES.index(str(v.dtype))))
        ours.append(call("astype", h, DTYPES.index(str(x.dtype).split(".")[-1])))
    return ours + [NONE] * (3 - len(ours)), list(theirs) + [None] * (3 - len(theirs))


def bits_of(a, dtype):
    """The bits, with one NaN for all."""
    if dtype not in FLOATS:
        return a
    return call("view", call("where", call("equal", a, a), a, call("zeros_like", a)), DTYPES.index("uint16" if dtype in SMALL else "uint32"))


@op("quantize")
def _():
    f, t = rnd.choice(FORMATS), rnd.choice(FLOATS)
    w = numbers((rnd.choice([1, 2, 5]), rnd.choice([1, 3]), 128 * rnd.choice([1, 2, 3])), t, f[1], special=f[0] != "mxfp8")
    part, scale = rnd.randrange(3 if f[0] == "affine" else 2), global_scale(f[0])

    def ours():
        x = one_of("quantize", part, w.keel, *form(f), scale[0])
        return bits_of(x, t if f[0] == "affine" and part else "uint32")

    def theirs():
        x = mx.quantize(w.mx, group_size=f[1], bits=f[2], mode=f[0], global_scale=scale[1])[part]
        return x if f[0] != "affine" or not part else mx.where(x == x, x, mx.zeros_like(x)).view(mx.uint16 if t in SMALL else mx.uint32)

    return ours, theirs, 1


@op("dequantize")
def _():
    f, t = rnd.choice(FORMATS), rnd.choice(FLOATS)
    scale = global_scale(f[0])
    k, m = packed(numbers((rnd.choice([1, 4]), 128 * rnd.choice([1, 3])), t, f[1], special=False), f, scale)
    out = rnd.choice([None] + FLOATS)
    if f[0] == "affine":
        codes = mx.dequantize(m[0], mx.ones(m[1].shape), mx.zeros(m[1].shape), group_size=f[1], bits=f[2])
        scales, biases = (np.repeat(np.array(a.astype(mx.float32)).astype(np.float64), f[1], axis=-1) for a in m[1:])
        exact.append(lambda: np.array(codes) * scales + biases)
    return (lambda: call("dequantize", *k, *form(f), scale[0], OptionalInt(DTYPES.index(out or "float32"), out is not None))), (lambda: mx.dequantize(*m, group_size=f[1], bits=f[2], mode=f[0], global_scale=scale[1], dtype=out and MX[out])), 1


@op("quantized_matmul")
def _():
    f, t, turned = rnd.choice(FORMATS), rnd.choice(FLOATS), rnd.random() < 0.6
    n, k = rnd.choice([128, 256]) if not turned else rnd.choice([1, 8, 33]), 128 * rnd.choice([1, 2]) if turned else rnd.choice([1, 8, 65])
    lead = rnd.choice([(), (), (2,), (2, 1)])
    xt = t if f[0] == "affine" and rnd.random() < 0.8 else rnd.choice(FLOATS)
    x = Both(rnd.choice([(), (3,), lead]) + ((rnd.choice([1, 2, 5, 9, 40]),) if lead or rnd.random() < 0.9 else ()) + (k,), xt, special=False)
    w, theirs = packed(numbers(lead + ((n, k) if turned else (k, n)), t, f[1], special=False, spread=0.2), f)
    return (lambda: call("quantized_matmul", x.keel, *w, C.c_bool(turned), *form(f))), (lambda: mx.quantized_matmul(x.mx, *theirs, transpose=turned, group_size=f[1], bits=f[2], mode=f[0])), 256


@op("gather_qmm")
def _():
    f, t, turned = rnd.choice(FORMATS), rnd.choice(FLOATS), rnd.random() < 0.6
    n, k = 128 if not turned else rnd.choice([1, 33]), 128 if turned else rnd.choice([8, 65])
    lead, some = rnd.choice([(3,), (2, 2)]), rnd.choice([(1,), (4,), (2, 3)])
    x = Both(lead + (rnd.choice([1, 3, 9]), k), t, special=False)
    w, theirs = packed(numbers(lead + ((n, k) if turned else (k, n)), t, f[1], special=False, spread=0.2), f)
    many = int(np.prod(lead))
    i, j = (Both(rnd.choice([some, some[-1:]]), rnd.choice(["int32", "uint32"]), special=False, low=0, high=many) if rnd.random() < 0.8 else None for _ in range(2))
    return (lambda: call("gather_qmm", x.keel, *w, i.keel if i else NONE, j.keel if j else NONE, C.c_bool(turned), *form(f), C.c_bool(rnd.random() < 0.5))), (lambda: mx.gather_qmm(x.mx, *theirs, lhs_indices=i and i.mx, rhs_indices=j and j.mx, transpose=turned, group_size=f[1], bits=f[2], mode=f[0])), 256


@op("einsum")
def _():
    t, extents = rnd.choice(FLOATS), {c: rnd.choice([1, 2, 3, 5]) for c in "abcdeF"}
    n, parts, ins, dots = rnd.choice([1, 1, 2, 2, 2, 3, 4]), [], [], [rnd.choice([2, 3]) for _ in range(2)]
    for _ in range(n):
        letters = [rnd.choice("abcdeF") for _ in range(rnd.choice([0, 1, 2, 2, 3]))]
        s, lead = [1 if rnd.random() < 0.1 and letters.count(c) == 1 else extents[c] for c in letters], rnd.choice([0, 0, 0, 1, 2])
        at = rnd.randrange(len(letters) + 1) if lead or rnd.random() < 0.1 else None
        if at is not None:
            s[at:at] = [1 if rnd.random() < 0.2 else d for d in dots[2 - lead:]]
            letters.insert(at, "...")
        parts.append("".join(letters))
        ins.append(Both(s, t, special=False))
    text = ",".join(parts)
    if rnd.random() < 0.7:
        free = sorted(set(text) - set(",."))
        out = rnd.sample(free, rnd.randrange(0, len(free) + 1))
        if "..." in text:
            out.insert(rnd.randrange(len(out) + 1), "...")
        text += "->" + "".join(out)
    if "..." not in text.split("->")[0] and rnd.random() < 0.05:
        text = text.replace("a", "?")  # an error of both

    def keel():
        v = vector(ins)
        try:
            return call("einsum", text.encode(), v)
        finally:
            lib.mlx_vector_array_free(v)

    return keel, (lambda: mx.einsum(text, *[a.mx for a in ins])), 64


@op("gather_mm")
def _():
    m, k, n, p, q = [rnd.choice([1, 2, 3, 5, 17]) for _ in range(5)]
    a, b = Both((p, m, k), "float32", special=False), Both((q, k, n), "float32", special=False)
    s = rnd.choice([(), (4,), (2, 3), (0,)])
    i, j = Both(s, rnd.choice(["int32", "uint32", "int64"]), special=False, low=0, high=p), Both(broadcastable(s), "uint32", special=False, low=0, high=q)
    if rnd.random() < 0.2:
        return (lambda: call("gather_mm", a.keel, b.keel, Handle(None), j.keel, C.c_bool(False))), (lambda: mx.gather_mm(a.mx, b.mx, None, j.mx)), 32
    return (lambda: call("gather_mm", a.keel, b.keel, i.keel, j.keel, C.c_bool(False))), (lambda: mx.gather_mm(a.mx, b.mx, i.mx, j.mx)), 32


@op("segmented_mm")
def _():
    m, k, n = rnd.choice([1, 3, 17]), rnd.choice([1, 4, 30]), rnd.choice([1, 2, 9])  # (MLX is wrong for transposed operands of 16 bits)
    a, b = Both((m, k), "float32", special=False), Both((k, n), "float32", special=False)
    s = Both(rnd.choice([(2,), (3, 2), (2, 2, 2), (0, 2)]), rnd.choice(["uint32", "int32", "int64"]), special=False, low=0, high=k + 1)
    return (lambda: call("segmented_mm", a.keel, b.keel, s.keel)), (lambda: mx.segmented_mm(a.mx, b.mx, s.mx)), 32


@op("block_masked_mm")
def _():
    m, k, n, block = rnd.choice([1, 31, 64, 70]), rnd.choice([3, 32, 65]), rnd.choice([1, 33, 64]), rnd.choice([32, 64])
    lead = rnd.choice([(), (), (2,)])
    a, b = Both(lead + (m, k), "float32", special=False), Both((k, n), "float32", special=False)
    of = lambda p, q: (-(-p // block), -(-q // block))
    t = rnd.choice(["bool", "float32"])
    masks = [Both(s, t, special=False) if rnd.random() < 0.6 else None for s in (of(m, n), of(m, k), of(k, n))]
    return (lambda: call("block_masked_mm", a.keel, b.keel, block, *[x.keel if x else Handle(None) for x in masks])), (lambda: mx.block_masked_mm(a.mx, b.mx, block, *[x.mx if x else None for x in masks])), 64


@op("qqmm")
def _():
    """MLX has it on its GPUs alone: what its own quantize and dequantize make of both operands, multiplied."""
    f, t, given = rnd.choice([("mxfp4", 32, 4), ("mxfp8", 32, 8), ("nvfp4", 16, 4)]), rnd.choice(FLOATS), rnd.random() < 0.5
    x, w = numbers((rnd.choice([1, 3, 9]), 128), t, f[1], special=False, spread=0.2), numbers((rnd.choice([1, 33]), 128), t, f[1], special=False, spread=0.2)
    gx, gw = (global_scale(f[0]), global_scale(f[0]))
    if (gx[1] is None) != (gw[1] is None):
        gx = gw = (NONE, None)
    k, m = packed(w, f, gw)

    def back(a, g, q=None):
        q = q or mx.quantize(a.mx, group_size=f[1], bits=f[2], mode=f[0], global_scale=g)
        return mx.dequantize(*q[:2], group_size=f[1], bits=f[2], mode=f[0], global_scale=g, dtype=mx.float32)

    return (lambda: call("qqmm", x.keel, k[0] if given else w.keel, k[1] if given else NONE, *form(f), gx[0], gw[0])), (lambda: (back(x, gx[1]) @ back(w, gw[1], m).T).astype(MX[t])), 256


# ---- indices ----
def index_of(a, axis, s, low=None):
    return Both(s, rnd.choice(["int32", "uint32", "int64"]) if low == 0 else "int32", special=False, low=-a.shape[axis] if low is None else low, high=a.shape[axis])


@op("take")
def _():
    a = Both(shape(least=1, zero=0), rnd.choice(ALL))
    n = int(np.prod(a.shape))
    i = Both(shape(2), "int32", special=False, low=-n, high=n)
    return (lambda: call("take", a.keel, i.keel)), (lambda: mx.take(a.mx, i.mx)), 1


@op("gather")
def _():
    a = Both((rnd.choice([2, 5]), rnd.choice([1, 3]), 4), rnd.choice(ALL))
    i, j = index_of(a, 0, (3, 1)), index_of(a, 2, (2,))
    return (lambda: gather_two(a, i, j)), (lambda: a.mx[i.mx, :, j.mx]), 1


def gather_two(a, i, j):
    """a[i, :, j] as NumPy means it: (3, 2, rows)."""
    v = vector([i, j])
    try:
        g = call("gather", a.keel, v, *list_of([0, 2]), *list_of([1, a.shape[1], 1]))
    finally:
        lib.mlx_vector_array_free(v)
    return call("squeeze_axes", g, *list_of([2, 4]))


@op("put_along_axis")
def _():
    a = Both(shape(least=1, zero=0), rnd.choice(ALL))
    axis = rnd.randrange(len(a.shape))
    s = list(a.shape)
    s[axis] = 1  # one index per line: none is written twice
    i, v = index_of(a, axis, s), Both(s, a.dtype)
    return (lambda: call("put_along_axis", a.keel, i.keel, v.keel, axis)), (lambda: mx.put_along_axis(a.mx, i.mx, v.mx, axis)), 1


for mode, at in (("", None), ("_add", "add"), ("_prod", "multiply"), ("_max", "maximum"), ("_min", "minimum")):
    @op("scatter" + mode + "_single")
    def _(mode=mode, at=at):
        a = Both(shape(2, least=1, zero=0), rnd.choice(REALS[1:] if mode else ALL), special=False)
        i = index_of(a, 0, (rnd.randrange(1, 6),), 0)
        u = Both(i.shape + a.shape[1:], a.dtype, special=False)

        def theirs():
            if at:
                return getattr(a.mx.at[i.mx], at)(u.mx)
            z = mx.array(a.mx)
            z[i.mx] = u.mx
            return z

        def ours():
            one_more = call("expand_dims", u.keel, 1)
            return call("scatter" + mode + "_single", a.keel, i.keel, one_more, 0)

        return ours, theirs, 8


@op("masked_scatter")
def _():
    a = Both(shape(least=1, zero=0), rnd.choice(ALL))
    lead = rnd.randrange(1, len(a.shape) + 1)
    m = Both(a.shape[:lead], "bool")
    like = [n if rnd.random() < 0.7 else rnd.choice([1, 2, 3]) for n in a.shape[lead:]][rnd.randrange(len(a.shape) - lead + 1):]
    # Enough for all places: MLX hangs after it has found too few.
    src = Both(tuple([int(np.prod(m.shape)) + rnd.randrange(2)] * (rnd.random() < 0.6 or like == [] and lead == len(a.shape)) + like), a.dtype)

    def theirs():
        z = mx.array(a.mx)
        z[m.mx] = src.mx
        return z

    return (lambda: call("masked_scatter", a.keel, m.keel, src.keel)), theirs, 1


# ---- random numbers: the same key, the same numbers ----
def key_of(seed):
    k = lib.mlx_array_new()
    lib.mlx_random_key.argtypes = [C.POINTER(Handle), C.c_uint64]
    lib.mlx_random_key(C.byref(k), seed)
    return keep(k)


def randoms(name, draw, loose=1):
    """draw() gives the arguments of Keel before the key, and MLX's function of the key."""

    @op("random_" + name)
    def go():
        seed = rnd.randrange(1 << 40)
        args, f = draw()
        return (lambda: call("random_" + name, *args, key_of(seed))), (lambda: f(mx.random.key(seed))), loose


def draw_uniform():
    s, t = shape(), rnd.choice(FLOATS)
    lo, hi = Both((), t, special=False, low=-3, high=0), Both((), t, special=False, low=1, high=3)
    return (lo.keel, hi.keel, *list_of(s), DTYPES.index(t)), lambda k: mx.random.uniform(lo.mx, hi.mx, s, MX[t], k)


def draw_normal():
    s, t, m, d = shape(), rnd.choice(FLOATS), rnd.choice([0.0, 2.0]), rnd.choice([1.0, 0.5])
    return (*list_of(s), DTYPES.index(t), C.c_float(m), C.c_float(d)), lambda k: mx.random.normal(s, MX[t], m, d, k)


def draw_laplace():
    s, m, d = shape(), rnd.choice([0.0, 2.0]), rnd.choice([1.0, 0.5])
    return (*list_of(s), DTYPES.index("float32"), C.c_float(m), C.c_float(d)), lambda k: mx.random.laplace(s, mx.float32, m, d, k)


def draw_gumbel():
    s, t = shape(), "float32"
    return (*list_of(s), DTYPES.index(t)), lambda k: mx.random.gumbel(s, MX[t], k)


def draw_randint():
    s, t = shape(), rnd.choice(["int32", "int64", "uint32"])
    lo, hi = Both((), "int32", special=False, low=0, high=5), Both((), "int32", special=False, low=6, high=99)
    return (lo.keel, hi.keel, *list_of(s), DTYPES.index(t)), lambda k: mx.random.randint(lo.mx, hi.mx, s, MX[t], k)


def draw_bernoulli():
    s, p = shape(), Both((), "float32", special=False, low=0, high=1)
    return (p.keel, *list_of(s)), lambda k: mx.random.bernoulli(p.mx, s, k)


def draw_categorical():
    a = Both(shape(least=1, zero=0), "float32", special=False)
    axis = axis_of(a)
    return (a.keel, axis), lambda k: mx.random.categorical(a.mx, axis, key=k)


def draw_truncated():
    s = shape()
    lo, hi = Both((), "float32", special=False, low=-2, high=0), Both((), "float32", special=False, low=0.5, high=2)
    return (lo.keel, hi.keel, *list_of(s), DTYPES.index("float32")), lambda k: mx.random.truncated_normal(lo.mx, hi.mx, s, mx.float32, k)


def draw_shuffle():
    n = rnd.randrange(1, 40)
    return (n,), lambda k: mx.random.permutation(n, key=k)



for name, draw, loose in (("uniform", draw_uniform, 1), ("normal", draw_normal, 4), ("laplace", draw_laplace, 4), ("gumbel", draw_gumbel, 4), ("randint", draw_randint, 1), ("bernoulli", draw_bernoulli, 1), ("categorical", draw_categorical, 1),
                          ("truncated_normal", draw_truncated, 8), ("permutation_arange", draw_shuffle, 1)):
    randoms(name, draw, loose)


@op("random_split_num")
def _():
    seed, n = rnd.randrange(1 << 40), rnd.randrange(1, 9)
    return (lambda: call("random_split_num", key_of(seed), n)), (lambda: mx.random.split(mx.random.key(seed), n)), 1


# ---- transforms of random expressions ----
LIST_FUNCTION = C.CFUNCTYPE(C.c_int, C.POINTER(Handle), Handle)
for name, res, args in (("mlx_vector_array_new", Handle, []), ("mlx_vector_array_free", C.c_int, [Handle]), ("mlx_vector_array_new_data", Handle, [C.POINTER(Handle), C.c_size_t]), ("mlx_vector_array_size", C.c_size_t, [Handle]),
                        ("mlx_vector_array_get", C.c_int, [C.POINTER(Handle), Handle, C.c_size_t]), ("mlx_vector_array_set_data", C.c_int, [C.POINTER(Handle), C.POINTER(Handle), C.c_size_t]),
                        ("mlx_closure_new_func", Handle, [LIST_FUNCTION]), ("mlx_closure_free", C.c_int, [Handle]), ("mlx_closure_value_and_grad_new", Handle, []), ("mlx_closure_value_and_grad_free", C.c_int, [Handle])):
    f = getattr(lib, name)
    f.restype, f.argtypes = res, args


def handles(v):
    return (Handle * max(len(v), 1))(*v)


def items(v):
    """The arrays of a vector, which is freed."""
    out = []
    for i in range(lib.mlx_vector_array_size(v)):
        a = lib.mlx_array_new()
        lib.mlx_vector_array_get(C.byref(a), v, C.c_size_t(i))
        out.append(keep(a))
    lib.mlx_vector_array_free(v)
    return out


class KeelFunctions:
    """The transforms of Keel, on functions of lists of handles."""

    @staticmethod
    def closure(f):
        def fun(res, given):
            try:
                args = []
                for i in range(lib.mlx_vector_array_size(given)):
                    a = lib.mlx_array_new()
                    lib.mlx_vector_array_get(C.byref(a), given, C.c_size_t(i))
                    args.append(keep(a))
                outs = f(args)
                return lib.mlx_vector_array_set_data(res, handles(outs), C.c_size_t(len(outs)))
            except Failed:
                return 1

        kept = LIST_FUNCTION(fun)
        return lib.mlx_closure_new_func(kept), kept

    @staticmethod
    def two(name, f, a, b):
        c, kept = KeelFunctions.closure(f)
        r = [lib.mlx_vector_array_new(), lib.mlx_vector_array_new()]
        lists = [lib.mlx_vector_array_new_data(handles(v), C.c_size_t(len(v))) for v in (a, b)]
        rc = getattr(lib, name)(C.byref(r[0]), C.byref(r[1]), c, *lists)
        for v in lists:
            lib.mlx_vector_array_free(v)
        lib.mlx_closure_free(c)
        outs = [items(v) for v in r]
        if rc:
            raise Failed(name)
        return outs

    @staticmethod
    def vjp(f, primals, cotangents):
        return KeelFunctions.two("mlx_vjp", f, primals, cotangents)

    @staticmethod
    def jvp(f, primals, tangents):
        return KeelFunctions.two("mlx_jvp", f, primals, tangents)

    @staticmethod
    def grad(f, n):
        def g(args):
            c, kept = KeelFunctions.closure(f)
            vg = lib.mlx_closure_value_and_grad_new()
            numbers = list(range(n))
            r = [lib.mlx_vector_array_new(), lib.mlx_vector_array_new()]
            given = lib.mlx_vector_array_new_data(handles(args), C.c_size_t(len(args)))
            rc = lib.mlx_value_and_grad(C.byref(vg), c, ints(numbers), C.c_size_t(n)) or lib.mlx_closure_value_and_grad_apply(C.byref(r[0]), C.byref(r[1]), vg, given)
            lib.mlx_vector_array_free(given)
            lib.mlx_closure_value_and_grad_free(vg)
            lib.mlx_closure_free(c)
            outs = [items(v) for v in r]
            if rc:
                raise Failed("grad")
            return outs[1]

        return g

    @staticmethod
    def vmap(f, axes, out_axis):
        def g(args):
            c, kept = KeelFunctions.closure(f)
            given = lib.mlx_vector_array_new_data(handles(args), C.c_size_t(len(args)))
            a, b, r = (lib.mlx_vector_array_new() for _ in range(3))
            at = ints([-1 if x is None else x for x in axes])
            rc = lib.mlx_detail_vmap_trace(C.byref(a), C.byref(b), c, given, at, C.c_size_t(len(axes)))
            n = lib.mlx_vector_array_size(b)
            rc = rc or lib.mlx_detail_vmap_replace(C.byref(r), given, a, b, at, C.c_size_t(len(axes)), ints([out_axis] * n), C.c_size_t(n))
            for v in (given, a, b):
                lib.mlx_vector_array_free(v)
            lib.mlx_closure_free(c)
            outs = items(r)
            if rc:
                raise Failed("vmap")
            return outs

        return g


class MlxFunctions:
    @staticmethod
    def vjp(f, primals, cotangents):
        return mx.vjp(lambda *a: f(list(a)), list(primals), list(cotangents))

    @staticmethod
    def jvp(f, primals, tangents):
        return mx.jvp(lambda *a: f(list(a)), list(primals), list(tangents))

    @staticmethod
    def grad(f, n):
        g = mx.grad(lambda *a: f(list(a))[0], argnums=tuple(range(n)))

        def listed(args):  # one argument number gives an array, not a list
            r = g(*args)
            return [r] if isinstance(r, mx.array) else list(r)

        return listed

    @staticmethod
    def vmap(f, axes, out_axis):
        g = mx.vmap(lambda *a: tuple(f(list(a))), in_axes=tuple(axes), out_axes=out_axis)
        return lambda args: list(g(*args))


MOST_STEPS = 6
drawn_kind = [""]
steps = []  # of the expression of the call, for messages


def step_of(shapes):
    """A step of an expression: (function of Keel's operands, of MLX's, shape of the result, numbers of the operands). The results stay near 1, so that errors do not grow."""
    i = rnd.randrange(len(shapes))
    s = shapes[i]
    n = int(np.prod(s))
    axis = rnd.randrange(len(s)) if s else 0
    same_shape = [j for j, t in enumerate(shapes) if t == s]
    j = rnd.choice(same_shape)
    kinds = ["sin", "cos", "tanh", "sigmoid", "square", "negative", "erf", "arctan", "abs", "scaled_exp", "log1p", "root", "multiply", "add", "subtract", "maximum", "minimum", "where", "quotient", "stop", "power", "logaddexp", "hypot"]
    if s:
        kinds += ["softmax", "sum", "mean", "logsumexp", "cumsum", "transpose", "reshape", "slice", "take", "take_along", "broadcast", "expand", "max", "sort", "concatenate", "flip", "var", "prod", "scatter", "pad", "moveaxis", "repeat"]
    if len(s) == 2:
        kinds += ["matmul"] * 3
    kind = rnd.choice(kinds)
    drawn_kind[:] = [f"{kind}({i})"]
    f32 = lambda x: keep(lib.mlx_array_new_data((C.c_float * 1)(x), ints([]), 0, DTYPES.index("float32")))
    if kind == "square":
        return (lambda a: call("square", call("sin", a))), (lambda a: mx.square(mx.sin(a))), s, (i,)
    if kind in ("sin", "cos", "tanh", "sigmoid", "negative", "erf", "arctan", "abs"):
        return (lambda a: call(kind, a)), (lambda a: getattr(mx, kind)(a)), s, (i,)
    if kind == "scaled_exp":
        return (lambda a: call("exp", call("tanh", a))), (lambda a: mx.exp(mx.tanh(a))), s, (i,)
    if kind == "log1p":
        return (lambda a: call("log1p", call("square", a))), (lambda a: mx.log1p(mx.square(a))), s, (i,)
    if kind == "root":
        return (lambda a: call("sqrt", call("add", call("square", a), f32(1)))), (lambda a: mx.sqrt(mx.square(a) + mx.array(1.0))), s, (i,)
    if kind in ("multiply", "add", "subtract", "maximum", "minimum", "logaddexp"):
        if kind in ("maximum", "minimum") and i == j:  # equal operands share the gradient in other ways
            kind = "add"
        return (lambda a, b: call(kind, a, b)), (lambda a, b: getattr(mx, kind)(a, b)), s, (i, j)
    if kind == "where":
        return (lambda a, b: call("where", call("greater", a, f32(0.5)), a, b)), (lambda a, b: mx.where(a > mx.array(0.5), a, b)), s, (i, j)
    if kind == "quotient":
        return (lambda a, b: call("divide", a, call("add", call("square", b), f32(1)))), (lambda a, b: a / (mx.square(b) + mx.array(1.0))), s, (i, j)
    if kind == "hypot":
        return (lambda a, b: call("rsqrt", call("add", call("square", a), call("add", call("square", b), f32(1))))), (lambda a, b: mx.rsqrt(mx.square(a) + (mx.square(b) + mx.array(1.0)))), s, (i, j)
    if kind == "power":
        return (lambda a, b: call("power", call("add", call("square", call("tanh", a)), f32(0.5)), call("tanh", b))), (lambda a, b: mx.power(mx.square(mx.tanh(a)) + mx.array(0.5), mx.tanh(b))), s, (i, j)
    if kind == "stop":
        return (lambda a, b: call("multiply", call("stop_gradient", a), b)), (lambda a, b: mx.stop_gradient(a) * b), s, (i, j)
    one = tuple(d for k, d in enumerate(s) if k != axis)
    if kind == "softmax":
        return (lambda a: call("softmax_axis", a, axis, C.c_bool(False))), (lambda a: mx.softmax(a, axis=axis)), s, (i,)
    if kind in ("sum", "mean", "logsumexp", "max", "var", "prod"):
        extra = (C.c_int(0),) if kind == "var" else ()
        if kind in ("prod", "var"):
            return (lambda a: call(kind + "_axis", call("cos", a), axis, C.c_bool(False), *extra)), (lambda a: getattr(mx, kind)(mx.cos(a), axis=axis)), one, (i,)
        return (lambda a: call(kind + "_axis", a, axis, C.c_bool(False))), (lambda a: getattr(mx, kind)(a, axis=axis)), one, (i,)
    if kind == "cumsum":
        back, whole = rnd.random() < 0.5, rnd.random() < 0.5
        return (lambda a: call("cumsum", a, axis, C.c_bool(back), C.c_bool(whole))), (lambda a: mx.cumsum(a, axis=axis, reverse=back, inclusive=whole)), s, (i,)
    if kind == "transpose":
        return (lambda a: call("transpose", a)), mx.transpose, s[::-1], (i,)
    if kind == "reshape":
        to = (n,) if rnd.random() < 0.5 else (1, n)
        return (lambda a: call("reshape", a, ints(to), size_t(len(to)))), (lambda a: mx.reshape(a, to)), to, (i,)
    if kind == "slice":
        start, step = rnd.randrange(s[axis]), rnd.choice([1, 2])
        if len(range(start, s[axis], step)) == 1:  # MLX differentiates these with a step of 1: docs/differences.md
            step = 1
        lo = [start if k == axis else 0 for k in range(len(s))]
        st = [step if k == axis else 1 for k in range(len(s))]
        to = tuple(len(range(start, d, step)) if k == axis else d for k, d in enumerate(s))
        at = tuple(slice(a, d, b) for a, d, b in zip(lo, s, st))
        return (lambda a: call("slice", a, ints(lo), size_t(len(s)), ints(s), size_t(len(s)), ints(st), size_t(len(s)))), (lambda a: a[at]), to, (i,)
    if kind in ("take", "take_along", "scatter"):
        m = rnd.randrange(1, 4)
        to = tuple(m if k == axis else d for k, d in enumerate(s))
        which = (m,) if kind != "take_along" else to
        v = np.array([rnd.randrange(-s[axis], s[axis]) for _ in range(int(np.prod(which)))], np.int32).reshape(which)
        index = lambda: keep(lib.mlx_array_new_data(v.ctypes.data, ints(which), len(which), DTYPES.index("int32")))
        if kind == "take":
            return (lambda a: call("take_axis", a, index(), axis)), (lambda a: mx.take(a, mx.array(v), axis=axis)), to, (i,)
        if kind == "take_along":
            return (lambda a: call("take_along_axis", a, index(), axis)), (lambda a: mx.take_along_axis(a, mx.array(v), axis=axis)), to, (i,)
        updates = (m, *(1 if k == 0 else d for k, d in enumerate(s)))
        room = (m, *s[1:])

        def scattered(a, b):
            first = call("take_axis", b, keep(lib.mlx_array_new_data(w.ctypes.data, ints((m,)), 1, DTYPES.index("int32"))), 0)
            vec = lib.mlx_vector_array_new_data(handles([keep(lib.mlx_array_new_data(w.ctypes.data, ints((m,)), 1, DTYPES.index("int32")))]), C.c_size_t(1))
            out = lib.mlx_array_new()
            rc = lib.mlx_scatter_add(C.byref(out), a, vec, call("reshape", first, ints(updates), size_t(len(updates))), ints([0]), C.c_size_t(1), S)
            lib.mlx_vector_array_free(vec)
            if rc:
                raise Failed("scatter_add")
            return keep(out)

        w = np.array([rnd.randrange(s[0]) for _ in range(m)], np.int32)
        return scattered, (lambda a, b: a.at[mx.array(w)].add(mx.take(b, mx.array(w), axis=0))), s, (i, j)
    if kind == "broadcast":
        to = (2, *s)
        return (lambda a: call("broadcast_to", a, ints(to), size_t(len(to)))), (lambda a: mx.broadcast_to(a, to)), to, (i,)
    if kind == "sort":
        return (lambda a: call("sort_axis", a, axis)), (lambda a: mx.sort(a, axis=axis)), s, (i,)
    if kind == "flip" and s[axis] == 1:
        kind = "expand"
    if kind == "flip":
        lo, hi = [d - 1 if k == axis else 0 for k, d in enumerate(s)], [-d - 1 if k == axis else d for k, d in enumerate(s)]
        st = [-1 if k == axis else 1 for k in range(len(s))]
        at = tuple(slice(None, None, -1) if k == axis else slice(None) for k in range(len(s)))
        return (lambda a: call("slice", a, ints(lo), size_t(len(s)), ints(hi), size_t(len(s)), ints(st), size_t(len(s)))), (lambda a: a[at]), s, (i,)
    if kind == "expand":
        return (lambda a: call("expand_dims", a, axis)), (lambda a: mx.expand_dims(a, axis)), (*s[:axis], 1, *s[axis:]), (i,)
    if kind == "concatenate":
        to = tuple(2 * d if k == axis else d for k, d in enumerate(s))

        def joined(a, b):
            vec = lib.mlx_vector_array_new_data(handles([a, b]), C.c_size_t(2))
            try:
                return call("concatenate_axis", vec, axis)
            finally:
                lib.mlx_vector_array_free(vec)

        return joined, (lambda a, b: mx.concatenate([a, b], axis=axis)), to, (i, j)
    if kind == "pad":
        to = tuple(d + 2 if k == axis else d for k, d in enumerate(s))
        return (lambda a: call("pad", a, ints([axis]), size_t(1), ints([1]), size_t(1), ints([1]), size_t(1), f32(0.5), C.c_char_p(b"constant"))), (lambda a: mx.pad(a, [(1, 1) if k == axis else (0, 0) for k in range(len(s))], constant_values=mx.array(0.5))), to, (i,)
    if kind == "moveaxis":
        order = list(s)
        order.insert(0, order.pop(axis))
        return (lambda a: call("moveaxis", a, axis, 0)), (lambda a: mx.moveaxis(a, axis, 0)), tuple(order), (i,)
    if kind == "repeat":
        return (lambda a: call("repeat_axis", a, 2, axis)), (lambda a: mx.repeat(a, 2, axis=axis)), tuple(2 * d if k == axis else d for k, d in enumerate(s)), (i,)
    k = [j for j, t in enumerate(shapes) if len(t) == 2 and t[0] == s[1]]
    if k:
        j = rnd.choice(k)
        return (lambda a, b: call("tanh", call("matmul", a, b))), (lambda a, b: mx.tanh(mx.matmul(a, b))), (s[0], shapes[j][1]), (i, j)
    return (lambda a: call("tanh", call("matmul", a, call("transpose", a)))), (lambda a: mx.tanh(mx.matmul(a, mx.transpose(a)))), (s[0], s[0]), (i,)


class Expression:
    """A random function of n arrays of these shapes, whose result is the sum of weight times the last value, or that value itself."""

    def __init__(self, shapes):
        self.shapes = list(shapes)
        self.steps = []
        for _ in range(rnd.randrange(1, MOST_STEPS + 1)):
            step = step_of(self.shapes)
            if len(step[2]) > 3 or int(np.prod(step[2])) > 200:
                continue
            self.steps.append(step)
            self.shapes.append(step[2])
            steps.append(drawn_kind[0])

    def values(self, which, args):
        v = list(args)
        for step in self.steps:
            v.append(step[which](*(v[i] for i in step[3])))
        return v

    def keel(self, args):
        return [self.values(0, args)[-1]]

    def mlx(self, args):
        return [self.values(1, args)[-1]]

    def keel_sum(self, args):
        return [call("sum", call("sin", self.keel(args)[0]), C.c_bool(False))]

    def mlx_sum(self, args):
        return [mx.sum(mx.sin(self.mlx(args)[0]))]


def joined_keel(arrays):
    flat = [call("reshape", a, ints([-1]), size_t(1)) for a in arrays]
    vec = lib.mlx_vector_array_new_data(handles(flat), C.c_size_t(len(flat)))
    try:
        return call("concatenate_axis", vec, 0)
    finally:
        lib.mlx_vector_array_free(vec)


def joined_mlx(arrays):
    return mx.concatenate([mx.reshape(a, (-1,)) for a in arrays])


TRANSFORM_LOOSE = 2  # of what passes through several steps, each rounded once
NORMWISE = 1e-5  # or so far off, times the largest element: gradients are sums of terms that may cancel


looped = [0]  # calls whose lanes MLX computed one by one


def transform(name, loops=()):
    """loops: steps that MLX's vmap computes wrongly (docs/differences.md), with writes outside of its arrays or wrong shapes. Of expressions that have one, MLX computes the lanes one by one."""
    def add(draw):
        @op("transform_" + name, "vjp")
        def _():
            n = rnd.randrange(1, 4)
            one = tuple(rnd.choice([1, 2, 3, 4]) for _ in range(rnd.randrange(0, 3)))
            shapes = [one if rnd.random() < 0.7 else tuple(rnd.choice([2, 3]) for _ in range(2)) for _ in range(n)]
            e = Expression(shapes)
            keel, mlx = draw(e, shapes)
            if any(s.split("(")[0] in loops for s in steps):
                looped[0] += 1
                one_by_one = exact[-1]
                mlx = lambda: mx.array(one_by_one())
            return keel, mlx, TRANSFORM_LOOSE

    return add


def random_floats(s):
    return Both(s, "float32", special=False, low=-1.5, high=1.5)


@transform("value_and_grad")
def _(e, shapes):
    x = [random_floats(s) for s in shapes]
    n = len(x)
    return (lambda: joined_keel(KeelFunctions.grad(e.keel_sum, n)([a.keel for a in x]))), (lambda: joined_mlx(MlxFunctions.grad(e.mlx_sum, n)([a.mx for a in x])))


@transform("vjp")
def _(e, shapes):
    x, c = [random_floats(s) for s in shapes], random_floats(e.shapes[-1])
    return (lambda: joined_keel(sum(KeelFunctions.vjp(e.keel, [a.keel for a in x], [c.keel]), []))), (lambda: joined_mlx(sum(MlxFunctions.vjp(e.mlx, [a.mx for a in x], [c.mx]), [])))


@transform("jvp")
def _(e, shapes):
    x, v = ([random_floats(s) for s in shapes] for _ in range(2))
    return (lambda: joined_keel(sum(KeelFunctions.jvp(e.keel, [a.keel for a in x], [a.keel for a in v]), []))), (lambda: joined_mlx(sum(MlxFunctions.jvp(e.mlx, [a.mx for a in x], [a.mx for a in v]), [])))


def second(sum_of, functions, join, scalar):
    def f(args):
        g = join(functions.grad(sum_of, len(args))(args))
        return [scalar(g)]

    return f


@transform("second_gradient")
def _(e, shapes):
    x = [random_floats(s) for s in shapes]
    n = len(x)
    k = second(e.keel_sum, KeelFunctions, joined_keel, lambda g: call("sum", call("square", g), C.c_bool(False)))
    m = second(e.mlx_sum, MlxFunctions, joined_mlx, lambda g: mx.sum(mx.square(g)))
    return (lambda: joined_keel(KeelFunctions.grad(k, n)([a.keel for a in x]))), (lambda: joined_mlx(MlxFunctions.grad(m, n)([a.mx for a in x])))


def lanes(shapes):
    """Arrays with lanes, and the axes of these; at least one has some."""
    count = rnd.choice([1, 2, 3])
    axes = [None if rnd.random() < 0.3 else rnd.randrange(len(s) + 1) for s in shapes]
    if all(a is None for a in axes):
        axes[0] = 0
    return axes, [random_floats(s if a is None else (*s[:a], count, *s[a:])) for s, a in zip(shapes, axes)]


def loop(f, axes, x):
    """What vmap should give: f of each lane, stacked, as lists of NumPy's arrays."""
    n = next(a.shape[k] for a, k in zip(x, axes) if k is not None)
    each = [[np.array(r) for r in f([a.mx if k is None else mx.take(a.mx, mx.array(i), axis=k) for a, k in zip(x, axes)])] for i in range(n)]
    return [np.stack(r) for r in zip(*each)]


def flat(arrays):
    return np.concatenate([np.array(a).reshape(-1) for a in arrays])


@transform("vmap", loops=("scatter",))
def _(e, shapes):
    axes, x = lanes(shapes)
    out = rnd.randrange(len(e.shapes[-1]) + 1)
    exact.append(lambda: np.moveaxis(loop(e.mlx, axes, x)[0], 0, out))
    return (lambda: KeelFunctions.vmap(e.keel, axes, out)([a.keel for a in x])[0]), (lambda: MlxFunctions.vmap(e.mlx, axes, out)([a.mx for a in x])[0])


@transform("vmap_of_gradient", loops=("scatter", "take"))  # the gradient of take is a scatter
def _(e, shapes):
    axes, x = lanes(shapes)
    n = len(x)
    exact.append(lambda: flat(loop(MlxFunctions.grad(e.mlx_sum, n), axes, x)))
    return (lambda: joined_keel(KeelFunctions.vmap(KeelFunctions.grad(e.keel_sum, n), axes, 0)([a.keel for a in x]))), (lambda: joined_mlx(MlxFunctions.vmap(MlxFunctions.grad(e.mlx_sum, n), axes, 0)([a.mx for a in x])))


@transform("gradient_of_vmap", loops=("scatter", "pad"))
def _(e, shapes):
    axes, x = lanes(shapes)
    n = len(x)
    k = lambda args: [call("sum", KeelFunctions.vmap(e.keel_sum, axes, 0)(args)[0], C.c_bool(False))]
    m = lambda args: [mx.sum(MlxFunctions.vmap(e.mlx_sum, axes, 0)(args)[0])]
    lane_count = next(a.shape[k] for a, k in zip(x, axes) if k is not None)

    def total(args):  # without vmap
        lane = lambda i: [a if k is None else mx.take(a, mx.array(i), axis=k) for a, k in zip(args, axes)]
        return [sum(e.mlx_sum(lane(i))[0] for i in range(lane_count))]

    exact.append(lambda: flat(MlxFunctions.grad(total, n)([a.mx for a in x])))
    return (lambda: joined_keel(KeelFunctions.grad(k, n)([a.keel for a in x]))), (lambda: joined_mlx(MlxFunctions.grad(m, n)([a.mx for a in x])))


# What docs/differences.md explains: operation, kind of difference, in which calls, reason. k and m: shape, dtype, values of the results, None where the call failed; d: the operands.
def right(k, loose=64, m=None):
    """Keel's values, or those that differ from m's, are those that NumPy gives in float64 (or, of integers, exactly)."""
    if not exact:
        return False
    with np.errstate(all="ignore"):
        want = np.asarray(exact[-1]())
        if k[1] in SMALL:
            want = np.array(mx.array(want.astype(np.float32)).astype(MX[k[1]]).astype(mx.float32))
        fits = near(k[2], want.reshape(k[0]).astype(k[2].dtype), k[1], loose)
        return bool(np.all(fits if m is None else fits | near(k[2], m[2], k[1], loose)))


def everywhere(k, m, d, where):
    """The elements that differ are among those of which where(operands, broadcast) is true."""
    with np.errstate(all="ignore"):
        operands = [np.broadcast_to(x.exact(), k[0]) for x in d]
        return bool(np.all(where(*operands) | near(k[2], m[2], k[1], 1)))


def integers(k):
    return k[1] in INTS or k[1] == "bool"


def has(d, dtype):
    return dtype in (x.dtype for x in d)


WIDTH = {"bool": 8, "uint8": 8, "uint16": 16, "uint32": 32, "uint64": 64, "int8": 8, "int16": 16, "int32": 32, "int64": 64}
KNOWN = [
    ("astype", "value", lambda k, m, d: k[1].startswith("uint") and everywhere(k, m, d, lambda a: np.real(a) < 0), "negative floats to unsigned integers"),
    ("arg", "error", lambda k, m, d: m is None and 0 in d[0].shape, "argmax and argmin of empty results"),
    ("arg", "value", lambda k, m, d: right(k) and bool(np.any(np.isnan(d[0].exact()))), "argmax and argmin of NaN"),
    ("cumsum", "value", lambda k, m, d: k[1] in SMALL and (right(k) or not exact), "16-bit scans"),
    ("cumprod", "value", lambda k, m, d: k[1] in SMALL and (right(k) or not exact), "16-bit scans"),
    ("cumprod", "value", lambda k, m, d: k[1] == "complex64" and not np.all(np.isfinite(m[2])), "complex products of infinities"),
    ("cummax", "value", lambda k, m, d: (k[1] in SMALL or k[1] == "complex64") and bool(np.any(np.isnan(d[0].exact()))), "NaN in cummax and cummin"),
    ("cummin", "value", lambda k, m, d: (k[1] in SMALL or k[1] == "complex64") and bool(np.any(np.isnan(d[0].exact()))), "NaN in cummax and cummin"),
    ("logcumsumexp", "value", lambda k, m, d: k[1] in SMALL, "16-bit scans"),
    ("floor_divide", "error", lambda k, m, d: k is None and has(d, "complex64"), "floor_divide of complex64"),
    ("floor_divide", "value", lambda k, m, d: k[1] in SMALL, "floor_divide of 16-bit floats"),
    ("floor_divide", "value", lambda k, m, d: k[1] in ("float32", "float64") and everywhere(k, m, d, lambda a, b: near(k[2], np.floor_divide(a.astype(k[1]), b.astype(k[1])), k[1], 1)), "floor_divide of floats"),
    ("floor_divide", "value", lambda k, m, d: k[1] == "bool" and everywhere(k, m, d, lambda a, b: b == 0), "integers divided by 0"),
    ("from_fp8", "value", lambda k, m, d: everywhere(k, m, d, lambda a: (a.astype(int) & 0x7F) == 0x7F), "NaN of fp8"),
    ("logical_", "value", lambda k, m, d: everywhere(k, m, d, lambda *v: sum((np.real(a) == 0) & (np.imag(a) != 0) for a in v) > 0), "logical operations of complex64"),
    ("logcumsumexp", "dtype", lambda k, m, d: d[0].dtype in INTS or d[0].dtype == "bool", "logcumsumexp of integers"),
    ("remainder", "value", lambda k, m, d: integers(k) and everywhere(k, m, d, lambda a, b: b == 0), "remainder of integers by 0"),
    ("remainder", "error", lambda k, m, d: k is None and has(d, "complex64"), "remainder of complex64"),
    ("power", "value", lambda k, m, d: k[1] in INTS and everywhere(k, m, d, lambda a, b: (b < 0) & (np.abs(a) == 1)), "negative powers of 1 and -1"),
    ("power", "value", lambda k, m, d: k[1] == "complex64" and everywhere(k, m, d, lambda a, b: (a == 0) | ~np.isfinite(a) | ~np.isfinite(b) | ~np.isfinite(m[2]) | near(k[2], np.asarray(exact[-1]()).astype(np.complex64), k[1], 1)), "complex powers of 0 and infinity; large exponents"),
    ("left_shift", "value", lambda k, m, d: everywhere(k, m, d, lambda a, b: (b < 0) | (b >= WIDTH[k[1]])), "shift counts"),
    ("right_shift", "value", lambda k, m, d: everywhere(k, m, d, lambda a, b: (b < 0) | (b >= WIDTH[k[1]])), "shift counts"),
    ("logsumexp", "error", lambda k, m, d: m is None and 0 in d[0].shape, "logsumexp of nothing"),
    ("logsumexp", "value", lambda k, m, d: d[0].dtype in INTS or d[0].dtype == "bool", "logsumexp of integers"),
    ("mean", "value", lambda k, m, d: d[0].dtype in INTS and right(k), "mean of integers"),
    ("mean", "value", lambda k, m, d: d[0].dtype in ("int64", "uint64") and k[2].size and np.max(np.abs(k[2] - np.asarray(exact[-1]()))) <= 1e-6 * np.max(np.abs(d[0].exact().astype(float))), "mean of integers"),
    ("prod", "value", lambda k, m, d: k[1] in SMALL and right(k), "products of 16-bit floats"),
    ("prod", "value", lambda k, m, d: k[1] in ("float32", "float16", "bfloat16") and bool(np.all(near(k[2], m[2], k[1], 8) | endless_or_0(k[2], m[2]))), "products that overflow on the way"),
    ("var", "value", lambda k, m, d: right(k, m=m), "var in two passes"),
    ("std", "value", lambda k, m, d: right(k, m=m), "var in two passes"),
    ("round", "value", lambda k, m, d: right(k), "round with decimals"),
    ("sign", "value", lambda k, m, d: everywhere(k, m, d, lambda a: ~np.isfinite(a)), "sign of NaN and of complex infinities"),
    ("softmax", "dtype", lambda k, m, d: d[0].dtype in INTS or d[0].dtype == "bool", "softmax of integers"),
    ("view", "value", lambda k, m, d: k[0] != () and d[0].shape[-1] == 1, "view of columns of a transposed array"),
    ("view", "value", lambda k, m, d: any(x.dtype in SMALL and bool(mx.any(mx.isnan(x.mx)).item()) for x in d), "which NaN a conversion to 16 bits gives"),
    ("median", "value", lambda k, m, d: k[1] == "float16" and not np.all(np.isfinite(m[2])), "median of float16"),
    ("logaddexp", "value", lambda k, m, d: k[1] in SMALL and right(k, 1), "logaddexp of 16-bit floats"),
    ("logaddexp", "value", lambda k, m, d: k[1] == "complex64", "complex logaddexp close to 0"),
    ("", "value", lambda k, m, d: k[1] == "complex64" and bool(np.all(near(k[2], m[2], k[1], 64) | ~(np.isfinite(k[2]) | np.isfinite(m[2])))), "which part of a complex number is NaN or infinite"),
    ("isclose", "value", lambda k, m, d: d[0].dtype in INTS, "isclose of integers"),
    ("allclose", "value", lambda k, m, d: d[0].dtype in INTS, "isclose of integers"),
    ("pad", "error", lambda k, m, d: k is None and 0 in d[0].shape, "the edge of an empty axis"),
    ("dequantize", "value", lambda k, m, d: (has(d, "float16") or has(d, "bfloat16")) and right(k, 1), "dequantize of 16-bit scales"),
    ("dequantize", "dtype", lambda k, m, d: m[1] == "float32" and len(d) == 2, "dequantize with a global scale and a dtype"),
    ("quantized_matmul", "shape", lambda k, m, d: len(d[0].shape) < len(d[1].shape), "quantized products of fewer axes than the matrix has"),
    ("as_strided", "error", lambda k, m, d: m is None and 0 in d[0].shape, "as_strided of nothing"),
    ("transform_jvp", "error", lambda k, m, d: m is None and any(s.startswith("scatter") for s in steps), "jvp of scatter"),
    ("transform_vmap_of_gradient", "", lambda k, m, d: k is not None and right(k, TRANSFORM_LOOSE), "vmap of a function that gives one array twice"),
]


def known(name, kind, k, m):
    for prefix, what, applies, why in KNOWN:
        if name.startswith(prefix) and what in (kind, "") and applies(k, m, drawn):
            return why
    return None


both_fail = [0]


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
        both_fail[0] += k is None and m is None
        return None if k is None and m is None else ("error", k, m, f"keel {'fails' if k is None else k[:2]}, mlx {'fails' if m is None else m[:2]}")
    if k[0] != m[0]:
        return "shape", k, m, f"keel {k[0]}, mlx {m[0]}"
    if k[1] != m[1]:
        return "dtype", k, m, f"keel {k[1]}, mlx {m[1]}"
    if name.startswith("transform_") and m[2].size and np.max(np.abs(k[2] - m[2])) <= NORMWISE * np.max(np.abs(m[2])):
        return None
    if not same(k[2], m[2], k[1], loose):
        x, y = k[2].reshape(-1), m[2].reshape(-1)
        bad = [i for i in range(len(x)) if not same(x[i:i + 1], y[i:i + 1], k[1], loose)]
        i = bad[0] if bad else 0
        return "value", k, m, f"{k[1]} {k[0]}: element {i}: keel {x[i]}, mlx {y[i]} ({len(bad)} of {len(x)})"
    return None


count, differ, explained = {}, {}, {}
names = [n for n in TABLE if not ONLY or n in ONLY or "transforms" in ONLY and n.startswith("transform_")]
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
            kinds[d[0]][1].append(d[3] + " from " + ", ".join(x.dtype + str(x.shape) for x in drawn) + (": " + " ".join(steps) if steps else ""))
    drawn.clear()
    exact.clear()
    steps.clear()
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
if looped[0]:
    print(f"vmap, with each lane alone in MLX: {looped[0]}")
if both_fail[0]:
    print(f"errors in both: {both_fail[0]}")
print(f"seed {SEED}: {sum(count.values())} calls of {len(names)} operations, {sum(explained.values())} differ as explained, {total} otherwise, in {len(differ)} operations")
sys.exit(1 if total else 0)
