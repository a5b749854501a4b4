"""Golden values of the first operations: the oldest functions and operators, conversions, reductions, sorts, softmax, matmul."""
import numpy as np
from scipy import special

from .table import (
    ALL, Arr, ENUM, EPS, FLOATS, INTS, RNG, SPECIAL, Table, as_float, inexact, restart, round_to,
    sample, sum_dtype, wide, wrap,
)

restart(20240607)

# ---- one operand ----
t = Table("unary")
for d in ALL:
    a = sample(d, (3, 5))
    x = wide(a)
    if d == "bool":
        t.add("abs bool", ".unary = kl_abs", [a], a)
        t.add("square bool", ".unary = kl_square", [a], a)
    elif d in INTS:
        t.add(f"negative {d}", ".unary = kl_negative", [a], Arr(wrap(-x, d), d))
        t.add(f"abs {d}", ".unary = kl_abs", [a], Arr(wrap(np.abs(x), d), d))
        t.add(f"square {d}", ".unary = kl_square", [a], Arr(wrap(x * x, d), d))
    else:
        tol = EPS[d] if d == "complex64" else 0
        t.add(f"negative {d}", ".unary = kl_negative", [a], Arr(-x, d))
        t.add(f"abs {d}", ".unary = kl_abs", [a], Arr(np.abs(x), "float32" if d == "complex64" else d))
        t.add(f"square {d}", ".unary = kl_square", [a], Arr(x * x, d), tol)
    t.add(f"logical_not {d}", ".unary = kl_logical_not", [a], Arr(~(a.v != 0), "bool"))
    r = inexact(d)
    for name in ("exp", "log", "sqrt"):
        b = sample(d, (3, 5), special_values=d not in ("uint64", "int64"))
        out = getattr(np, name)(round_to(as_float(b), r).astype(np.complex128 if r == "complex64" else np.float64))
        t.add(f"{name} {d}", f".unary = kl_{name}", [b], Arr(out, r), 0 if name == "sqrt" and r != "complex64" else EPS[r])
for d in FLOATS:
    b = Arr(np.concatenate([[0, -0.0, 1, -1, 1.5, np.nan, 1e-9, 1 - EPS[d], EPS[d] - 1], np.tanh(RNG.normal(size=12) * 1.5)]), d)
    t.add(f"erfinv {d}", ".unary = kl_erfinv", [b], Arr(special.erfinv(b.v.astype(np.float64)), d), 4 * EPS[d])
# Where formulas overflow or cancel.
hard = Arr(np.array([1e30 + 1e30j, 3e-40 + 1e-40j, -4 + 0j, -4 - 0j, 0.99999 + 1e-3j, 88.9 + 3j, -2 + 1e-20j, 1e19 - 1e19j]), "complex64")
for name in ("exp", "log", "sqrt", "abs"):
    out = getattr(np, name)(hard.v.astype(np.complex128))
    t.add(f"{name} complex64, hard", f".unary = kl_{name}", [hard], Arr(out, "float32" if name == "abs" else "complex64"), EPS["complex64"])
t.write()

# ---- two operands ----
t = Table("binary")
PY = {"add": lambda x, y: x + y, "subtract": lambda x, y: x - y, "multiply": lambda x, y: x * y}
COMPARE = {"equal": np.equal, "not_equal": np.not_equal, "less": np.less, "less_equal": np.less_equal, "greater": np.greater,
           "greater_equal": np.greater_equal}


def extreme(x, y, pick):
    """NaN wins; -0.0 is below +0.0."""
    r = pick(x, y)
    zero = (x == 0) & (y == 0)
    sign = np.signbit(x) & np.signbit(y) if pick is np.maximum else np.signbit(x) | np.signbit(y)
    return np.where(zero, np.where(sign, -0.0, 0.0), r)


for d in ALL:
    a, b = sample(d, (3, 4)), sample(d, (3, 4))
    if d in FLOATS:  # every pair of special values
        s = np.array([0.0, -0.0, np.nan, np.inf, -1.0])
        a, b = Arr(np.repeat(s, len(s)), d), Arr(np.tile(s, len(s)), d)
        e, f = sample(d, (9,), False), sample(d, (9,), False)
        a, b = Arr(np.concatenate([a.v, e.v]), d), Arr(np.concatenate([b.v, f.v]), d)
    x, y = wide(a), wide(b)
    for name, fn in PY.items():
        if d == "bool":
            out = {"add": x | y, "subtract": x ^ y, "multiply": x & y}[name]
        else:
            out = wrap(fn(x, y), d) if d in INTS else fn(x, y)
        t.add(f"{name} {d}", f".binary = kl_{name}", [a, b], Arr(out, d), EPS[d] if d == "complex64" and name == "multiply" else 0)
    r = inexact(d)
    xf, yf = (round_to(as_float(z), r).astype(np.complex128 if r == "complex64" else np.float64) for z in (a, b))
    t.add(f"divide {d}", ".binary = kl_divide", [a, b], Arr(xf / yf, r), EPS[r] if r == "complex64" else 0)
    for name, fn in COMPARE.items():
        t.add(f"{name} {d}", f".binary = kl_{name}", [a, b], Arr(fn(a.v, b.v), "bool"))
    t.add(f"logical_and {d}", ".binary = kl_logical_and", [a, b], Arr((a.v != 0) & (b.v != 0), "bool"))
    t.add(f"logical_or {d}", ".binary = kl_logical_or", [a, b], Arr((a.v != 0) | (b.v != 0), "bool"))
    for name, pick in (("maximum", np.maximum), ("minimum", np.minimum)):
        out = extreme(x, y, pick) if d in FLOATS else pick(a.v, b.v)
        t.add(f"{name} {d}", f".binary = kl_{name}", [a, b], Arr(out, d))
t.write()

# ---- conversions ----
t = Table("astype")
BIG = [2.0**31 - 1, 2.0**31, -(2.0**31), -(2.0**31) - 1025, 2.0**63, -(2.0**63), 2.0**64, 1e30, -1e30, 255.9, 256, -0.9, -1.1, 127.5, -128.7, 65535.5, 0.3]


def saturate(v, dtype):
    i = np.iinfo(dtype)
    out = []
    for x in v.astype(np.float64):
        out.append(0 if np.isnan(x) else i.max if x >= i.max else i.min if x <= i.min else int(x))
    return np.array(out, dtype=dtype)


for d in FLOATS + ["complex64"]:
    a = Arr(np.array(SPECIAL + BIG), d)
    for to in ALL:
        v = a.v.real if d == "complex64" else a.v
        if to in INTS:
            out = Arr(saturate(v, to), to)
        elif to == "bool":
            out = Arr(a.v != 0, to)
        else:
            out = Arr(v.astype(np.float64), to)
        t.add(f"astype {d} to {to}", f".to = {ENUM[to]}", [a], out)
for d in ["bool"] + INTS:
    a = sample(d, (7,))
    if d in ("int32", "uint32", "int64", "uint64"):  # just above a tie of float16, bfloat16, float32
        top = [257 << 16 | 1, (257 << 16) - 1, 16777217, 2049, 33685505, 65519, 65521]
        top += [(2**24 + 1) * 2**30 + 1, 2**62 + 2**54 + 1] if d.endswith("64") else []
        a = Arr(np.array(top, dtype=np.int64), d)
    for to in ALL:
        x = wide(a) if d != "bool" else a.v.astype(int).astype(object)
        if to in INTS:
            out = Arr(wrap(x, to), to)
        elif to == "bool":
            out = Arr(a.v != 0, to)
        elif to == "bfloat16":  # integers are longer than float64: round to odd by hand
            odd = [int(v) if abs(int(v)) < 2**53 else (int(v) >> 11 << 11 | (2048 if int(v) & 2047 else 0)) for v in x]
            out = Arr(np.array(odd, dtype=np.float64), to)
        else:
            out = Arr(a.v, to)
        t.add(f"astype {d} to {to}", f".to = {ENUM[to]}", [a], out)
t.write()

# ---- reductions ----
t = Table("reduce")


AXES = [((2, 3, 4), (0,), False), ((2, 3, 4), (2, 0), True), ((2, 3, 4), (1,), False), ((2, 3, 4), (0, 1, 2), False)]
for d in ALL:
    a = sample(d, (2, 3, 4), special_values=d in INTS)
    for shape, axes, keep in AXES:
        args = f".axes = {{{', '.join(map(str, axes))}}}, .n_axes = {len(axes)}, .keepdims = {str(keep).lower()}"
        x = a.v.astype(object) if d in INTS + ["bool"] else wide(a)
        s = np.sum(x if d != "bool" else a.v.astype(int), axis=axes, keepdims=keep)
        out = Arr(wrap(s, sum_dtype(d)) if d in INTS else s, sum_dtype(d))
        t.add(f"sum {d} {shape} {axes}", f".reduce = kl_sum_axes, {args}", [a], out, 0 if d in INTS + ["bool"] else 4 * EPS[d])
        m = np.sum(as_float(a), axis=axes, keepdims=keep) / np.prod([shape[i] for i in axes])
        t.add(f"mean {d} {shape} {axes}", f".reduce = kl_mean_axes, {args}", [a], Arr(m, inexact(d)), 4 * EPS[inexact(d)])
        if d != "complex64" and len(axes) != 1:
            t.add(f"max {d} {shape} {axes}", f".reduce = kl_max_axes, {args}", [a], Arr(np.max(a.v, axis=axes, keepdims=keep), d))
            t.add(f"min {d} {shape} {axes}", f".reduce = kl_min_axes, {args}", [a], Arr(np.min(a.v, axis=axes, keepdims=keep), d))
    b = sample(d, (4, 6), special_values=True)
    if d in FLOATS:
        v = b.v.copy()
        v[1, 2] = v[1, 4] = np.nan
        b = Arr(v, d)
        for name, fn in (("max", np.max), ("min", np.min)):
            t.add(f"{name} {d} with NaN", f".reduce = kl_{name}_axes, .axes = {{1}}, .n_axes = 1", [b], Arr(fn(b.v, axis=1), d))
    for axis in (0, 1):
        args = f".axes = {{{axis}}}, .n_axes = 1, .keepdims = true"
        for name, fn in (("argmax", np.argmax), ("argmin", np.argmin)):
            out = Arr(fn(b.v, axis=axis, keepdims=True), "uint32")
            t.add(f"{name} {d} axis {axis}", f".arg = kl_{name}_axis, {args}", [b], out)
t.write()

# ---- along an axis ----
t, soft = Table("sort"), Table("softmax")
for d in ALL:
    a = sample(d, (5, 9), special_values=True)
    for axis in (0, 1):
        args = f".axes = {{{axis}}}, .n_axes = 1"
        order = np.argsort(a.v, axis=axis, kind="stable")
        t.add(f"argsort {d} axis {axis}", f".along = kl_argsort_axis, {args}", [a], Arr(order, "uint32"))
        t.add(f"sort {d} axis {axis}", f".along = kl_sort_axis, {args}", [a], Arr(np.take_along_axis(a.v, order, axis), d))
    r = inexact(d)
    b = sample(d, (3, 2, 5), special_values=False)
    x = round_to(as_float(b), r).astype(np.complex128 if r == "complex64" else np.float64)
    for axes in ((1,), (2,), (0, 2)):
        args = f".axes = {{{', '.join(map(str, axes))}}}, .n_axes = {len(axes)}"
        soft.add(f"softmax {d} {axes}", f".softmax = kl_softmax_axes, {args}", [b], Arr(special.softmax(x, axis=axes), r), 4 * EPS[r])
c = np.array([1 + 2j, 1 + 1j, complex(np.nan, 1), complex(2, np.nan), 0 + 5j, complex(np.nan, np.nan), complex(1, np.nan), complex(np.nan, 0)])
c = Arr(c, "complex64")
order = np.argsort(c.v, kind="stable")
t.add("argsort complex64 with NaN", ".along = kl_argsort_axis, .axes = {0}, .n_axes = 1", [c], Arr(order, "uint32"))
t.write()
soft.write()

# ---- products ----
t = Table("matmul")
SHAPES = [((3, 4), (4, 5)), ((4,), (4,)), ((4,), (4, 3)), ((2, 4), (4,)), ((2, 1, 3, 2), (4, 2, 3)), ((1, 7), (7, 1)), ((5, 0), (0, 2)), ((9, 3), (3, 2))]
for d in FLOATS + ["complex64"]:
    for sa, sb in SHAPES:
        a, b = sample(d, sa, special_values=False), sample(d, sb, special_values=False)
        t.add(f"matmul {d} {sa} {sb}", ".binary = kl_matmul", [a, b], Arr(np.matmul(wide(a), wide(b)), d), 64 * EPS[d])
a, b = Arr(RNG.integers(-3, 4, (3, 4)), "int32"), sample("float32", (4, 2), False)
t.add("matmul int32 float32", ".binary = kl_matmul", [a, b], Arr(np.matmul(a.v.astype(float), b.v.astype(float)), "float32"), 8 * EPS["float32"])
t.write()
