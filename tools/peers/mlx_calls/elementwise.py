"""Element-wise functions, comparisons, conversions."""
import ctypes as C

import mlx.core as mx
import numpy as np

from .both import (
    ALL, Both, broadcastable, call, drawn, DTYPES, exact, FLOATS, INTS, list_of, MX, one_of, op,
    OptionalFloat, REALS, rnd, shape, WIDTH,
)


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
