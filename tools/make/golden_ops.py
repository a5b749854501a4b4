#!/usr/bin/env python3
"""Writes tests/ops/golden/golden_<family>.inc: inputs and right answers for the operations, from NumPy and SciPy.

    python3 tools/make/golden_ops.py [folder [family ...]]        (all families, or those named)

The answers are made in float64 (or exact integers) and rounded once to the result's dtype. Each file is one table of
`struct golden` rows (tests/ops/golden/golden.h). The inputs come from a fixed seed, so the files change only when this script
does. bfloat16 is kept as its bits."""
import fractions
import sys
import numpy as np
from scipy import signal, special

RNG = np.random.default_rng(20240607)
FOLDER = sys.argv[1] if len(sys.argv) > 1 else "tests/ops/golden"
FAMILIES = sys.argv[2:]
UINTS, SINTS = ["uint8", "uint16", "uint32", "uint64"], ["int8", "int16", "int32", "int64"]
INTS, FLOATS = UINTS + SINTS, ["float16", "float32", "float64", "bfloat16"]
ALL = ["bool"] + INTS + FLOATS + ["complex64"]
ENUM = {"bool": "KL_BOOL", "uint8": "KL_U8", "uint16": "KL_U16", "uint32": "KL_U32", "uint64": "KL_U64", "int8": "KL_I8",
        "int16": "KL_I16", "int32": "KL_I32", "int64": "KL_I64", "float16": "KL_F16", "float32": "KL_F32",
        "float64": "KL_F64", "bfloat16": "KL_BF16", "complex64": "KL_C64"}
EPS = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-23, "float64": 2.0**-52, "complex64": 2.0**-22}
np.seterr(all="ignore")


class Arr:
    """Values in a type that holds them (float64 for bfloat16, whose values are exact in it), and the dtype."""

    def __init__(self, values, dtype):
        self.dtype = dtype
        self.v = round_to(values, dtype)


def bf16_bits(x):
    u = np.asarray(x, np.float64)
    single = u.astype(np.float32)
    # Rounded to odd first, so that the two roundings are one.
    bits = single.view(np.uint32).astype(np.int64)
    back = single.astype(np.float64)
    finite = np.isfinite(u)
    bits = bits - (finite & (np.abs(back) > np.abs(u)))
    bits = bits | (finite & (back != u))
    out = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    return np.where(np.isnan(u), 0x7FC0, out).astype(np.uint16)


def bf16_values(bits):
    return (bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64)


def round_to(values, dtype):
    if dtype == "bfloat16":
        return bf16_values(bf16_bits(values))
    return np.asarray(values).astype(np.bool_ if dtype == "bool" else dtype)


def words(a):
    v = a.v
    if a.dtype == "bfloat16":
        w = bf16_bits(v)
    elif a.dtype == "complex64":
        w = np.ascontiguousarray(v).view(np.uint64) if v.ndim else np.array(v).reshape(1).view(np.uint64)
    else:
        w = np.array(v).reshape(-1).view(f"uint{8 * v.dtype.itemsize}")
    return w.reshape(-1)


class Table:
    """Rows of one family. Equal data is written once: most inputs serve many operations."""

    def __init__(self, family):
        self.family, self.rows, self.data = family, [], {}

    def array(self, a):
        w = words(a)
        bits = 8 * w.dtype.itemsize
        text = ", ".join(f"{int(x):#x}" if x > 9 else str(int(x)) for x in w) or "0"
        name = self.data.setdefault((bits, text), f"{self.family}_{len(self.data)}")
        dims = ", ".join(map(str, a.v.shape)) or "0"
        return f"{{{ENUM[a.dtype]}, {a.v.ndim}, {{{dims}}}, {name}}}"

    def add(self, name, call, inputs, out, rtol=0.0):
        ins = ", ".join(self.array(a) for a in inputs)
        tol = f", .rtol = {rtol:g}" if rtol else ""
        self.rows.append(f'    {{"{name}", {call}, .n_in = {len(inputs)}, .in = {{{ins}}},\n     .out = {self.array(out)}{tol}}},\n')

    def write(self):
        if FAMILIES and self.family not in FAMILIES:
            return
        with open(f"{FOLDER}/golden_{self.family}.inc", "w") as f:
            f.write(f"/* golden_{self.family}.inc - written by tools/make/golden_ops.py; do not edit. */\n/* clang-format off */\n")
            for (bits, text), name in self.data.items():
                f.write(f"static const uint{bits}_t {name}[] = {{{text}}};\n")
            f.write(f"static const struct golden {self.family}_cases[] = {{\n" + "".join(self.rows) + "};\n/* clang-format on */\n")


SPECIAL = [0.0, -0.0, np.nan, np.inf, -np.inf, 1.0, -1.0]


def sample(dtype, shape, special_values=True, positive=False):
    n = int(np.prod(shape))
    if dtype == "bool":
        return Arr(RNG.integers(0, 2, shape), dtype)
    if dtype in INTS:
        i = np.iinfo(dtype)
        v = RNG.integers(max(i.min, -9), 10, n).astype(dtype)
        edges = [i.min, i.max, i.max // 2, i.max // 3]
        if special_values:
            v[: min(n, 4)] = edges[: min(n, 4)]
        return Arr(RNG.permutation(v).reshape(shape), dtype)
    v = RNG.normal(size=n) * RNG.choice([0.1, 1, 10], size=n)
    if dtype == "complex64":
        v = v + 1j * RNG.normal(size=n)
        return Arr(np.round(v, 2).reshape(shape), dtype)
    if positive:
        v = np.abs(v)
    if special_values:
        k = min(n // 2, len(SPECIAL))
        v[:k] = SPECIAL[:k]
    return Arr(RNG.permutation(v).reshape(shape), dtype)


def wide(a):
    """Values for exact work: Python-like integers, float64 or complex128."""
    if a.dtype == "bool":
        return a.v
    if a.dtype in INTS:
        return a.v.astype(object)
    return a.v.astype(np.complex128 if a.dtype == "complex64" else np.float64)


def wrap(values, dtype):
    bits = 8 * np.dtype(dtype).itemsize
    flat = [int(x) & ((1 << bits) - 1) for x in np.asarray(values, dtype=object).reshape(-1)]
    return np.array(flat, dtype=f"uint{bits}").view(dtype).reshape(np.shape(values))


def inexact(dtype):
    return dtype if dtype in FLOATS + ["complex64"] else "float32"


def as_float(a):
    return a.v.astype(np.complex128 if a.dtype == "complex64" else np.float64)


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


def sum_dtype(d):
    return "int32" if d in ("bool", "int8", "int16") else "uint32" if d in ("uint8", "uint16") else d


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

# ---- random numbers: Threefry-2x32 once more, from its definition ----


def threefry(key, c0, c1):
    keys = [key >> 32, key & 0xFFFFFFFF, (key >> 32) ^ (key & 0xFFFFFFFF) ^ 0x1BD11BDA]
    a, b = (c0 + keys[0]) & 0xFFFFFFFF, (c1 + keys[1]) & 0xFFFFFFFF
    for i in range(20):
        turn = ((13, 15, 26, 6), (17, 29, 16, 24))[i // 4 % 2][i % 4]
        a = (a + b) & 0xFFFFFFFF
        b = ((b << turn | b >> (32 - turn)) & 0xFFFFFFFF) ^ a
        if i % 4 == 3:
            g = i // 4 + 1
            a, b = (a + keys[g % 3]) & 0xFFFFFFFF, (b + keys[(g + 1) % 3] + g) & 0xFFFFFFFF
    return a, b


def stream(key, n):
    half = (n + 1) // 2
    pairs = [threefry(key, i, 0 if n % 2 and i == half - 1 else half + i) for i in range(half)]
    return np.array([p[0] for p in pairs] + [p[1] for p in pairs], dtype=np.uint32)[:n]


def unit(key, n, dtype):
    u = stream(key, n).astype(np.float32) / np.float32(2**32 - 1)
    below = {"float32": 1 - 2.0**-24, "float16": 1 - 2.0**-11, "bfloat16": 1 - 2.0**-8}[dtype]
    return np.minimum(round_to(u, dtype).astype(np.float64), below)


def arithmetic(dtype, low, high, u):
    """low + u * (high - low), each step rounded to dtype."""
    lo, hi = round_to(low, dtype).astype(np.float64), round_to(high, dtype).astype(np.float64)
    span = round_to(hi - lo, dtype).astype(np.float64)
    return Arr(round_to(u * span, dtype).astype(np.float64) + lo, dtype)


with open(f"{FOLDER}/golden_random.inc", "w") as f:
    f.write("/* golden_random.inc - written by tools/make/golden_ops.py; do not edit. */\n/* clang-format off */\n")
    t = Table("random")
    rows = []
    for seed in (0, 7, 2**40 + 5, 2**64 - 1):
        for width, name in ((1, "uint8"), (2, "uint16"), (4, "uint32")):
            for n in (1, 2, 3, 4, 5, 7, 8, 13, 33):
                raw = stream(seed, -(-n * width // 4)).tobytes()[: n * width]
                rows.append(f"{{BITS, {seed}ull, {n}, {width}, 0, 0, {t.array(Arr(np.frombuffer(raw, dtype=name), name))}}}")
        for d in ("float32", "float16", "bfloat16"):
            for low, high in ((0, 1), (-0.3, 7.7), (5, 2)):
                rows.append(f"{{UNIFORM, {seed}ull, 9, {ENUM[d]}, {low}, {high}, {t.array(arithmetic(d, low, high, unit(seed, 9, d)))}}}")
        for d, low, high in (("int32", 0, 10), ("int8", -5, 10), ("int64", -7, -3), ("uint8", 0, 200), ("int32", 10, 0), ("int32", 16777217, 16777300)):
            u = arithmetic("float32", low, high, unit(seed, 9, "float32")).v
            v = np.maximum(np.minimum(np.floor(u).astype(np.int64), high - 1), low)
            rows.append(f"{{RANDINT, {seed}ull, 9, {ENUM[d]}, {low}, {high}, {t.array(Arr(v, d))}}}")
        for d in ("float32", "float64"):
            edge = np.nextafter(np.float32(-1), np.float32(0))
            u = arithmetic("float32", edge, 1, unit(seed, 9, "float32")).v.astype(np.float64)
            rows.append(f"{{NORMAL, {seed}ull, 9, {ENUM[d]}, 1.5, 2.5, {t.array(Arr(special.erfinv(u) * np.sqrt(2) * 2.5 + 1.5, d))}}}")
    for (bits, text), name in t.data.items():
        f.write(f"static const uint{bits}_t {name}[] = {{{text}}};\n")
    f.write("static const struct random_case random_cases[] = {\n    " + ",\n    ".join(rows) + ",\n};\n/* clang-format on */\n")


# ---- rows that are calls of their own: moves, makers, products ----
class Calls(Table):
    """Rows of `struct golden_make` (tests/ops/golden/golden_make.h). `call` is C, on out, in, s and err; LIST(..) and the like are allowed."""

    def __init__(self, family, seed):
        super().__init__(family)
        self.rng, self.calls = np.random.default_rng(seed), {}

    def sample(self, dtype, shape, special_values=True):
        n = int(np.prod(shape))
        if dtype == "bool":
            return Arr(self.rng.integers(0, 2, shape), dtype)
        if dtype in INTS:
            i = np.iinfo(dtype)
            v = self.rng.integers(max(i.min, -9), 10, n).astype(dtype)
            if special_values and n > 1:
                v[:2] = [i.min, i.max]
            return Arr(self.rng.permutation(v).reshape(shape), dtype)
        v = np.round(self.rng.normal(size=n) * 4, 2)
        if dtype == "complex64":
            return Arr((v + 1j * np.round(self.rng.normal(size=n), 2)).reshape(shape), dtype)
        if special_values and n > 3:
            v[:3] = [np.nan, -0.0, np.inf]
        return Arr(self.rng.permutation(v).reshape(shape), dtype)

    def add(self, call, inputs, out, rtol=0.0):
        name = self.calls.setdefault(call, f"{self.family}_call_{len(self.calls)}")
        ins = ", ".join(self.array(a) for a in inputs) or "{0, 0, {0}, NULL}"
        tol = f", {rtol:g}"
        title = call.replace('"', "'") + "".join(" " + a.dtype for a in inputs[:1])
        self.rows.append(f'    {{"{title}", {name}, {len(inputs)}, {{{ins}}},\n     {self.array(out)}{tol}}},\n')

    def write(self):
        if FAMILIES and self.family not in FAMILIES:
            return
        with open(f"{FOLDER}/golden_{self.family}.inc", "w") as f:
            f.write(f"/* golden_{self.family}.inc - written by tools/make/golden_ops.py; do not edit. */\n/* clang-format off */\n")
            for (bits, text), name in self.data.items():
                f.write(f"static const uint{bits}_t {name}[] = {{{text}}};\n")
            for call, name in self.calls.items():
                f.write(f"static int {name}(GOLDEN_CALL) {{ return {call}; }}\n")
            f.write(f"static const struct golden_make {self.family}_cases[] = {{\n" + "".join(self.rows) + "};\n/* clang-format on */\n")


t = Calls("rearrange", 20240701)
for d in ALL:
    a, v = t.sample(d, (2, 3)), t.sample(d, (4,))
    one = t.sample(d, (1, 1), False)
    x = a.v
    as_d = lambda y: Arr(y, d)
    t.add('kl_pad(out, in[0], LIST(1, 0), LIST(1, 0), LIST(2, 1), in[1], "constant", s, err)', [a, one],
          as_d(np.pad(x, ((0, 1), (1, 2)), constant_values=one.v.reshape(())[()])))
    for mode in ("edge", "reflect", "symmetric"):
        t.add(f'kl_pad(out, in[0], LIST(0, -1), LIST(1, 0), LIST(0, 2), NULL, "{mode}", s, err)', [a], as_d(np.pad(x, ((1, 0), (0, 2)), mode=mode)))
    t.add("kl_tile(out, in[0], LIST(2, 1, 2), s, err)", [a], as_d(np.tile(x, (2, 1, 2))))
    t.add("kl_tile(out, in[0], LIST(3), s, err)", [a], as_d(np.tile(x, 3)))
    t.add("kl_repeat_axis(out, in[0], 2, 0, s, err)", [a], as_d(np.repeat(x, 2, 0)))
    t.add("kl_repeat(out, in[0], 3, s, err)", [a], as_d(np.repeat(x, 3)))
    t.add("kl_roll(out, in[0], LIST(1, 1), s, err)", [a], as_d(np.roll(x, 2)))
    t.add("kl_roll_axes(out, in[0], LIST(1, -4), LIST(0, 1), s, err)", [a], as_d(np.roll(x, (1, -4), (0, 1))))
    t.add("kl_tril(out, in[0], 0, s, err)", [a], as_d(np.where(np.tri(2, 3, 0, dtype=bool), x, np.zeros((), x.dtype))))
    t.add("kl_triu(out, in[0], 1, s, err)", [a], as_d(np.where(~np.tri(2, 3, 0, dtype=bool), x, np.zeros((), x.dtype))))
    t.add("kl_diag(out, in[0], -1, s, err)", [v], as_d(np.diag(v.v, -1)))
    t.add("kl_diag(out, in[0], 1, s, err)", [a], as_d(np.diag(x, 1)))
    b = t.sample(d, (2, 3, 4), d in INTS)
    t.add("kl_diagonal(out, in[0], 1, 2, 0, s, err)", [b], as_d(np.diagonal(b.v, 1, 2, 0)))
    s = np.trace((b.v.astype(object) if d in INTS else b.v.astype(int) if d == "bool" else wide(b)), 0, 0, 2)
    to = sum_dtype(d)
    t.add(f"kl_diagonal_sum(out, in[0], 0, 0, 2, {ENUM[d]}, s, err)", [b], Arr(wrap(s, to) if d in INTS else s, to), 0 if d in INTS + ["bool"] else 4 * EPS[d])
    t.add("kl_as_strided(out, in[0], LIST(2, 2), (int64_t[]){-1, 2}, 2, 3, s, err)", [a],
          as_d(np.array([[x.reshape(-1)[3 - i + 2 * j] for j in range(2)] for i in range(2)])))
    t.add("kl_unflatten(out, in[0], -1, LIST(3, -1), s, err)", [a], as_d(x.reshape(2, 3, 1)))
    u = t.sample(d, (2, 1), False)
    part, c = wide(Arr(x[::-1, 0::2], d)), wide(u)
    if d == "bool":
        joined = {"add": part | c, "prod": part & c, "max": part | c, "min": part & c}
    elif d in INTS:
        joined = {"add": wrap(part + c, d), "prod": wrap(part * c, d), "max": np.maximum(part, c), "min": np.minimum(part, c)}
    else:
        joined = {"add": part + c, "prod": part * c, "max": np.maximum(part, c), "min": np.minimum(part, c)}
    for name, j in joined.items():
        y = x.copy()
        y[::-1, 0::2] = round_to(j, d)
        t.add(f"kl_slice_update_{name}(out, in[0], in[1], LIST(-1, 0), LIST(-9, 3), LIST(-1, 2), s, err)", [a, u], as_d(y),
              EPS[d] if d == "complex64" and name == "prod" else 0)
    mask = Arr(np.array([[1, 0, 1], [0, 0, 1]]), "bool")
    y = x.copy()
    y[mask.v] = v.v[:3]
    t.add("kl_masked_scatter(out, in[0], in[1], in[2], s, err)", [a, mask, v], as_d(y))
t.write()

t = Calls("create", 20240702)
for d in ALL:
    for n, m, k in ((3, 3, 0), (2, 4, 1), (4, 2, -1), (2, 3, 7)):
        t.add(f"kl_eye(out, {n}, {m}, {k}, {ENUM[d]}, s, err)", [], Arr(np.eye(n, m, k), d))
    t.add(f"kl_identity(out, 2, {ENUM[d]}, s, err)", [], Arr(np.eye(2), d))
    t.add(f"kl_tri(out, 3, 4, 1, {ENUM[d]}, s, err)", [], Arr(np.tri(3, 4, 1), d))
    t.add(f"kl_tri(out, 3, 2, -1, {ENUM[d]}, s, err)", [], Arr(np.tri(3, 2, -1), d))
    t.add(f"kl_number_of_elements(out, in[0], LIST(0, -1), false, {ENUM[d]}, s, err)", [Arr(np.zeros((2, 3, 5)), "int8")], Arr(np.array(10), d))
    for lo, hi, n in ((0, 1, 5), (0.1, 0.7, 7), (5, 2.5, 4), (3, 9, 1)):
        v = np.linspace(lo, hi, n)
        t.add(f"kl_linspace(out, {lo}, {hi}, {n}, {ENUM[d]}, s, err)", [], Arr(v.astype(int) if d in INTS else v, d), EPS["float64"] if d == "float64" else 0)
for name, fn in (("hanning", np.hanning), ("hamming", np.hamming), ("blackman", lambda n: np.maximum(np.blackman(n), 0)), ("bartlett", np.bartlett)):
    for n in (1, 2, 5, 8):
        t.add(f"kl_{name}(out, {n}, s, err)", [], Arr(fn(n) if n > 1 else np.ones(1), "float32"), EPS["float32"])
t.write()

t = Calls("products", 20240703)
for d in ALL:
    a, b = t.sample(d, (2, 3), d in INTS), t.sample(d, (4,), False)
    tol = EPS["complex64"] if d == "complex64" else 0
    mul = lambda f: Arr(f(a.v, b.v), d) if d == "bool" else Arr(wrap(f(wide(a), wide(b)), d), d) if d in INTS else Arr(f(wide(a), wide(b)), d)
    t.add("kl_outer(out, in[0], in[1], s, err)", [a, b], mul(lambda x, y: x.reshape(-1, 1) * y.reshape(1, -1)), tol)
    t.add("kl_kron(out, in[0], in[1], s, err)", [a, b], mul(lambda x, y: (x.reshape(2, 3, 1) * y).reshape(2, 12)), tol)
    t.add("kl_kron(out, in[1], in[0], s, err)", [a, b], mul(lambda x, y: (y.reshape(1, 4, 1) * x.reshape(2, 1, 3)).reshape(2, 12)), tol)
    r = d if d in FLOATS else "float32"
    if d != "complex64":
        for n in (1, 2, 8, 12, 40, 56, 64) if d in FLOATS else (8,):
            h = t.sample(d, (2, n) if n > 1 else (n,), False)
            if d in FLOATS:
                h = Arr(np.round(h.v.astype(np.float64) * 4) / 4, d)  # sums are exact
            size, m = n, np.ones((1, 1))
            for base in (12, 20, 28):
                if n % base == 0:
                    rows = {12: [0x2, 0xAAB, 0x3C8, 0x96E, 0xF20, 0x5BA, 0xC8C, 0x6E6, 0x23C, 0xB96, 0x8F0, 0xE5A],
                            20: [0x933DE, 0x2E3BD, 0x5477B, 0xA0EF7, 0x499EF, 0x637C1, 0xC6BA2, 0x8D764, 0x1AEE8, 0x359F0, 0xFA53, 0x174A7,
                                 0x26D4E, 0x45E9C, 0x83D39, 0xF7A6D, 0xEF4FA, 0xDEDD5, 0xBDF8B, 0x7BF36],
                            28: [0xCD69E7E, 0x9AD7C7D, 0x37AB8FB, 0x6D571F7, 0xD8AE3EF, 0xB3587DF, 0x66B4F3F, 0xB467F43, 0x6ACBE87,
                                 0xD593D8E, 0xAB27B9C, 0x564F7B8, 0xAC9AFF0, 0x5B31FE1, 0x87FB325, 0xFF66CA, 0x1DECD95, 0x39DDB2A,
                                 0x71BF654, 0xE17ECA9, 0xC2FD9D2, 0xFCF1299, 0xFBE2532, 0xF7C4AE4, 0xEF8D549, 0xDF1EA13, 0xBE3D4A6,
                                 0x7E7A94C]}[base]
                    m = np.array([[-1.0 if w >> j & 1 else 1.0 for j in range(base)] for w in rows])
                    assert np.array_equal(m @ m.T, base * np.eye(base))
                    size = n // base
            while size > 1:
                m, size = np.kron(m, np.array([[1.0, 1], [1, -1]])), size // 2
            y = h.v.astype(np.float64) @ m.T
            t.add("kl_hadamard_transform(out, in[0], NULL, s, err)", [h], Arr(y / np.sqrt(n), r), 2 * EPS[r])
            if n == 8:
                t.add("kl_hadamard_transform(out, in[0], &(float){0.25f}, s, err)", [h], Arr(y * 0.25, r))
for d in FLOATS + ["complex64"]:
    a, b, e = t.sample(d, (2, 3), False), t.sample(d, (4, 3), False), t.sample(d, (3, 2, 5), False)
    c = t.sample(d, (4,), False)
    x, y, z, w = wide(a), wide(b), wide(e), wide(c)
    t.add("kl_inner(out, in[0], in[1], s, err)", [a, b], Arr(np.inner(x, y), d), 32 * EPS[d])
    t.add("kl_tensordot(out, in[0], in[1], LIST(1, 0), LIST(0, -2), s, err)", [a, e], Arr(np.tensordot(x, z, ((1, 0), (0, 1))), d), 64 * EPS[d])
    t.add("kl_tensordot_axis(out, in[0], in[1], 1, s, err)", [a, e], Arr(np.tensordot(x, z, 1), d), 64 * EPS[d])
    t.add("kl_tensordot_axis(out, in[0], in[1], 0, s, err)", [a, c], Arr(np.tensordot(x, w, 0), d), 2 * EPS[d])
    bt = Arr(b.v.T, d)
    t.add("kl_addmm(out, in[0], in[1], in[2], 1, 1, s, err)", [c, a, bt], Arr(x @ y.T + w, d), 64 * EPS[d])
    t.add("kl_addmm(out, in[0], in[1], in[2], 0.5f, -2, s, err)", [c, a, bt], Arr(0.5 * (x @ y.T) - 2 * w, d), 64 * EPS[d])
t.write()

# ---- convolutions: correlations of SciPy ----
def spread(a, axes, steps):
    """Zeros between the elements along some axes, so that they are `steps` apart."""
    for axis, step in zip(axes, steps):
        n = a.shape[axis]
        to = np.zeros(a.shape[:axis] + ((n - 1) * step + 1,) + a.shape[axis + 1:])
        to[(slice(None),) * axis + (slice(None, None, step),)] = a
        a = to
    return a


def convolution(x, w, stride, low, high, dilation=None, between=None, groups=1, flip=False):
    n, axes = len(stride), list(range(1, len(stride) + 1))
    x = np.pad(spread(x, axes, between or [1] * n), [(0, 0)] + list(zip(low, high)) + [(0, 0)])
    w = spread(np.flip(w, axes) if flip else w, axes, dilation or [1] * n)
    each, out = x.shape[-1] // groups, []
    for o in range(w.shape[0]):
        first = o // (w.shape[0] // groups) * each
        out.append(np.stack([signal.correlate(b[..., first:first + each], w[o], mode="valid", method="direct")[..., 0] for b in x]))
    return np.stack(out, -1)[(slice(None),) + tuple(slice(None, None, s) for s in stride)]


t = Calls("convolution", 20261123)
lists = lambda *v: ", ".join("{" + f"(const int[]){{{', '.join(map(str, a))}}}, {len(a)}" + "}" if a else "{NULL, 0}" for a in v)
for d in FLOATS:
    tol, quarters = EPS[d], lambda s: Arr(np.round(t.sample(d, s, False).v.astype(np.float64) * 4) / 4, d)  # sums are exact
    for xs, ws, stride, low, high, dilation, between, groups, flip in (
            ((2, 7, 3), (4, 3, 3), [1], [0], [0], [1], [1], 1, False), ((1, 9, 4), (6, 3, 2), [2], [1], [2], [2], [1], 2, False),
            ((2, 4, 2), (2, 2, 2), [1], [2], [1], [1], [3], 1, True), ((1, 5, 6, 2), (3, 3, 2, 2), [1, 2], [1, 0], [1, 1], [1, 1], [1, 1], 1, False),
            ((1, 4, 5, 3), (3, 3, 3, 1), [1, 1], [1, 1], [1, 1], [1, 1], [1, 1], 3, False), ((1, 3, 4, 2), (4, 2, 3, 1), [2, 1], [2, 0], [0, 3], [1, 2], [2, 1], 2, True),
            ((1, 3, 4, 3, 2), (3, 2, 2, 2, 2), [1, 2, 1], [0, 1, 1], [1, 0, 0], [1, 1, 2], [1, 1, 2], 1, False)):
        x, w = quarters(xs), quarters(ws)
        y = convolution(x.v.astype(np.float64), w.v.astype(np.float64), stride, low, high, dilation, between, groups, flip)
        a = [f"(struct kl_conv_list){v}" for v in lists(stride, low, high, dilation, between).replace("}, {", "}|{").split("|")]
        t.add(f"kl_conv_general(out, in[0], in[1], {', '.join(a)}, {groups}, {'true' if flip else 'false'}, s, err)", [x, w], Arr(y, d), tol)
    x, w = quarters((2, 5, 4, 2)), quarters((3, 3, 2, 2))
    v, u = x.v.astype(np.float64), w.v.astype(np.float64)
    t.add("kl_conv(out, in[0], in[1], 2, (int[]){2, 1}, (int[]){1, 0}, (int[]){1, 2}, 1, s, err)", [x, w], Arr(convolution(v, u, [2, 1], [1, 0], [1, 0], [1, 2]), d), tol)
    t.add("kl_conv_transpose(out, in[0], in[1], 2, (int[]){2, 3}, (int[]){1, 0}, (int[]){1, 2}, (int[]){1, 2}, 1, s, err)", [x, w],
          Arr(convolution(v, u, [1, 1], [1, 2], [2, 4], [1, 2], [2, 3], 1, True), d), tol)
    t.add("kl_conv_general(out, in[0], in[1], (struct kl_conv_list){NULL, 0}, (struct kl_conv_list){(const int[]){-1}, 1}, (struct kl_conv_list){(const int[]){0, -1}, 2}, (struct kl_conv_list){NULL, 0}, "
          "(struct kl_conv_list){(const int[]){2}, 1}, 1, false, s, err)", [x, w], Arr(convolution(v[:, 1:, 1:-1], u, [1, 1], [0, 0], [0, 0], [1, 1], [2, 2]), d), tol)
for d in FLOATS:  # the gradient of the weight: each element is what a weight of one element would give, times the cotangent
    quarters = lambda s: Arr(np.round(t.sample(d, s, False).v.astype(np.float64) * 4) / 4, d)
    for xs, ws, stride, low, high, dilation, between, groups, flip in (
            ((2, 7, 3), (3, 3, 1), [2], [1], [2], [1], [1], 3, False), ((2, 5, 8), (8, 3, 4), [1], [2], [1], [2], [1], 2, True),
            ((1, 4, 5, 4), (8, 3, 2, 1), [1, 2], [1, 0], [2, 1], [1, 1], [1, 1], 4, False), ((1, 3, 4, 2), (4, 2, 3, 2), [2, 1], [2, 0], [0, 3], [1, 2], [2, 1], 1, True),
            ((1, 3, 2, 3, 2), (2, 2, 2, 2, 1), [1, 2, 1], [1, 0, 1], [0, 1, 0], [1, 1, 2], [1, 1, 1], 2, False)):
        x, one = quarters(xs), np.zeros(ws)
        v, how = x.v.astype(np.float64), (stride, low, high, dilation, between, groups, flip)
        g = quarters(convolution(v, one, *how).shape)
        y = np.zeros(ws)
        for at in np.ndindex(*ws):
            one[at] = 1
            y[at] = np.sum(convolution(v, one, *how) * g.v.astype(np.float64))
            one[at] = 0
        fields = ", ".join(f".{name} = {{{', '.join(map(str, a))}}}" for name, a in (("stride", stride), ("low", low), ("high", high), ("dilation", dilation), ("input_dilation", between)))
        t.add(f"kl_convolution_backward(out, in[0], in[1], &(struct kl_convolution_params){{.ndim = {len(stride)}, .groups = {groups}, .flip = {'true' if flip else 'false'}, {fields}}}, "
              f"(int[]){{{', '.join(map(str, ws[1:-1]))}}}, s, err)", [x, g], Arr(y, d), EPS[d])
t.write()

t = Calls("einsum", 20261124)
for d in FLOATS + ["complex64", "int32"]:
    quarters = lambda s: Arr(t.sample(d, s, False).v, d) if d == "int32" else Arr(np.round(wide(t.sample(d, s, False)) * 4) / 4, d)
    cube, square, a, b, c, v = quarters((2, 3, 3)), quarters((3, 3)), quarters((2, 3)), quarters((3, 4)), quarters((4, 2)), quarters((3,))
    one, row = quarters((2, 1)), quarters((1, 3))
    for text, ins in (("ij->ji", [a]), ("ii->i", [square]), ("ii", [square]), ("ij->", [a]), ("...ii->...i", [cube]), ("...ij->i...", [cube]), ("i...", [a]), ("ba", [a]), (" a j , k->a k j", [a, v]),
                      ("ij,ij->ij", [a, a]), ("i,j", [v, v]), ("...,...", [a, row])) + ((
                          ("ij,jk", [a, b]), ("ij,jk->ki", [a, b]), ("...j,jk->...k", [cube, b]), ("bij,bkj->bik", [cube, cube]), ("iij,jk->ik", [quarters((2, 2, 3)), b]), ("ij,j", [one, v]),
                          ("...ij,...jk->...ik", [quarters((2, 1, 2, 3)), quarters((3, 3, 2))]), ("ij,jk,kl->il", [a, b, c]), ("ij,jk,kl", [a, b, c]), ("ij,jk,ki->", [a, b, c]), ("ab,ab,c->", [a, a, v])) if d != "int32" else ()):
        y = np.einsum(text, *[wide(x) for x in ins])
        out = "int32" if d == "int32" else d
        t.add(f'kl_einsum(out, "{text}", in, {len(ins)}, s, err)', ins, Arr(y, out), 0 if d == "int32" else 8 * EPS[d])
t.write()

# ---- distributions: from the uniform numbers above ----
t = Calls("distributions", 20240704)
for seed in (7, 2**40 + 5):
    key = Arr(np.array([seed >> 32, seed & 0xFFFFFFFF]), "uint32")
    u = unit(seed, 12, "float32")
    for d in FLOATS:
        p = Arr(np.array([0.3, 1.0, 0.0, 0.9]), d)
        t.add("kl_random_bernoulli(out, in[1], LIST(3, 4), in[0], s, err)", [key, p], Arr(u.reshape(3, 4) < p.v.astype(np.float64), "bool"))
        if d != "float64":
            w = round_to(-np.log(unit(seed, 12, d)), d).astype(np.float64)
            t.add(f"kl_random_gumbel(out, LIST(3, 4), {ENUM[d]}, in[0], s, err)", [key], Arr(-np.log(w).reshape(3, 4), d), 8 * EPS[d])
        edge = np.nextafter(np.float32(-1), np.float32(0))
        v = arithmetic("float32", edge, 1, u).v.astype(np.float64)
        t.add(f"kl_random_laplace(out, LIST(12), {ENUM[d]}, 1.5f, 2, in[0], s, err)", [key], Arr(np.sign(v) * np.log1p(-np.abs(v)) * 2 + 1.5, d), 4 * EPS[d])
        lo, hi = Arr(np.array([[-1.0], [0.5], [-2.0]]), d), Arr(np.array(1.25), d)
        e = lambda b: np.float32(special.erf(b.v.astype(np.float64) / np.sqrt(2))).astype(np.float64)
        v = arithmetic("float32", e(lo), e(hi), u.reshape(3, 4)).v.astype(np.float64)
        n = np.clip(special.erfinv(v) * np.sqrt(2), lo.v.astype(np.float64), hi.v.astype(np.float64))
        t.add(f"kl_random_truncated_normal(out, in[1], in[2], LIST(3, 4), {ENUM[d]}, in[0], s, err)", [key, lo, hi], Arr(n, d), 1e-12 if d == "float64" else 8 * EPS[d])
    logits = Arr(np.log(np.array([[0.1, 0.2, 0.7], [0.5, 0.25, 0.25]])), "float32")
    g = lambda *shape: -np.log(-np.log(unit(seed, int(np.prod(shape)), "float32"))).reshape(shape)
    l = logits.v.astype(np.float64)
    t.add("kl_random_categorical(out, in[1], -1, in[0], s, err)", [key, logits], Arr(np.argmax(l + g(2, 3), 1), "uint32"))
    t.add("kl_random_categorical(out, in[1], 0, in[0], s, err)", [key, logits], Arr(np.argmax(l + g(2, 3), 0), "uint32"))
    t.add("kl_random_categorical_num_samples(out, in[1], -1, 9, in[0], s, err)", [key, logits], Arr(np.argmax(l[:, :, None] + g(2, 3, 9), 1), "uint32"))
    t.add("kl_random_categorical_shape(out, in[1], 1, LIST(9, 2), in[0], s, err)", [key, logits], Arr(np.argmax(l + g(9, 2, 3), 2), "uint32"))
    t.add("kl_random_categorical_shape(out, in[1], 0, LIST(9, 3), in[0], s, err)", [key, logits], Arr(np.argmax(l + g(9, 2, 3), 1), "uint32"))
    t.add("kl_random_permutation_arange(out, 33, in[0], s, err)", [key], Arr(np.argsort(stream(seed, 33), kind="stable"), "uint32"))
    x = t.sample("int16", (2, 9))
    t.add("kl_random_permutation(out, in[1], -1, in[0], s, err)", [key, x], Arr(x.v[:, np.argsort(stream(seed, 9), kind="stable")], "int16"))
t.write()

# ---- more reductions ----
RNG = np.random.default_rng(20250711)
t = Table("statistics")
KINDS = [((2, 3, 4), (1,), False), ((2, 3, 4), (2, 0), True), ((2, 3, 4), (0, 1, 2), False)]


def as_inexact(a):
    r = inexact(a.dtype)
    return round_to(as_float(a), r).astype(np.complex128 if r == "complex64" else np.float64)


def logsumexp(x, axis, keepdims=False):
    top = np.max(np.real(x), axis=axis, keepdims=True)
    shift = np.where(np.isfinite(top), top, 0)
    out = np.log(np.sum(np.exp(x - shift), axis=axis, keepdims=True)) + shift
    return out if keepdims else np.squeeze(out, axis)


for d in ALL:
    a = Arr(RNG.integers(0 if d in ["bool"] + UINTS else -2, 3, (2, 3, 4)), d)
    b = sample(d, (2, 3, 4), special_values=d in INTS and "64" not in d)
    r = inexact(d)
    for shape, axes, keep in KINDS:
        args = f".axes = {{{', '.join(map(str, axes))}}}, .n_axes = {len(axes)}, .keepdims = {str(keep).lower()}"
        x = a.v.astype(int) if d == "bool" else wide(a)
        p = np.prod(x, axis=axes, keepdims=keep)
        out = Arr(wrap(p, sum_dtype(d)) if d in INTS else p, sum_dtype(d))
        t.add(f"prod {d} {axes}", f".reduce = kl_prod_axes, {args}", [a], out)
        z = Arr(np.where(np.arange(24).reshape(shape) % 7 < 5, b.v, 0), d)
        t.add(f"all {d} {axes}", f".reduce = kl_all_axes, {args}", [z], Arr(np.all(z.v != 0, axis=axes, keepdims=keep), "bool"))
        t.add(f"any {d} {axes}", f".reduce = kl_any_axes, {args}", [a], Arr(np.any(a.v != 0, axis=axes, keepdims=keep), "bool"))
        far = b if d in INTS + ["bool"] else Arr(b.v + 30, d)  # results near 0 have a large relative error
        x = as_inexact(far)
        t.add(f"logsumexp {d} {axes}", f".reduce = kl_logsumexp_axes, {args}", [far], Arr(logsumexp(x, axes, keep), r), 4 * EPS[r])
        x = as_inexact(b)
        var = np.var(x, axis=axes, keepdims=keep, ddof=len(axes) - 1)
        v = "float32" if d == "complex64" else r
        args += f", .ddof = {len(axes) - 1}"
        t.add(f"var {d} {axes}", f".variance = kl_var_axes, {args}", [b], Arr(var, v), 4 * EPS[v])
        t.add(f"std {d} {axes}", f".variance = kl_std_axes, {args}", [b], Arr(np.sqrt(var), v), 4 * EPS[v])
        if d != "complex64":
            args = args[: args.rindex(", .ddof")]
            t.add(f"median {d} {axes}", f".reduce = kl_median_axes, {args}", [b], Arr(np.median(x, axis=axes, keepdims=keep), r), 2 * EPS[r])
    if d in FLOATS:
        v = np.array([[1, -np.inf, 3], [-np.inf] * 3, [1, np.inf, -np.inf], [np.nan, np.inf, 1], [2.5, np.nan, -1]])
        c = Arr(v, d)
        t.add(f"logsumexp {d} special", ".reduce = kl_logsumexp_axes, .axes = {1}, .n_axes = 1", [c], Arr(logsumexp(c.v.astype(float), 1), d), 4 * EPS[d])
        t.add(f"median {d} special", ".reduce = kl_median_axes, .axes = {1}, .n_axes = 1", [c], Arr(np.median(c.v.astype(float), 1), d))
t.write()

# ---- scans ----
t = Table("scan")


def shifted(v, axis, reverse, first):
    v = np.flip(v, axis) if reverse else v
    first = np.full_like(np.take(v, [0], axis), first)
    v = np.concatenate([first, np.delete(v, -1, axis)], axis)
    return np.flip(v, axis) if reverse else v


def logaddexp(x, axis):
    if not np.iscomplexobj(x):
        return np.logaddexp.accumulate(x, axis)
    return np.log(np.cumsum(np.exp(x), axis))


for d in ALL:
    a = Arr(RNG.integers(0 if d in ["bool"] + UINTS else -3, 4, (2, 5, 3)), d)
    b = sample(d, (2, 5, 3), special_values=d in INTS)
    if d not in INTS + ["bool"]:  # sums of these are exact
        b = Arr(np.round(b.v * 4) / 4, d)
    r = inexact(d)
    for k, (axis, reverse, exclusive) in enumerate([(1, False, False), (2, True, False), (0, False, True), (2, True, True)]):
        args = f".axes = {{{axis}}}, .n_axes = 1, .reverse = {str(reverse).lower()}, .exclusive = {str(exclusive).lower()}"
        low = np.iinfo(d).min if d in INTS else 0 if d == "bool" else -np.inf
        high = np.iinfo(d).max if d in INTS else 1 if d == "bool" else np.inf
        if d == "complex64":
            low, high = complex(low, low), complex(high, high)
        for name, src, fn, first, out in (
            ("cumsum", b, np.cumsum, 0, "int32" if d == "bool" else d),
            ("cumprod", a, np.cumprod, 1, d),
            ("cummax", b, np.maximum.accumulate, low, d),
            ("cummin", b, np.minimum.accumulate, high, d),
            ("logcumsumexp", b, logaddexp, -np.inf, r),
        ):
            if name == "logcumsumexp":
                x = as_inexact(src)
            elif name.startswith("cumm"):
                x = src.v
            else:
                x = src.v.astype(object) if d in INTS + ["bool"] else wide(src)
            x = np.flip(x, axis) if reverse else x
            y = fn(x, axis)
            y = np.flip(y, axis) if reverse else y
            if exclusive:
                y = shifted(y, axis, reverse, first)
            if d in INTS and not name.startswith("log"):
                y = wrap(y, out)
            tol = (8 if d == "complex64" else 4) * EPS[r] if name == "logcumsumexp" else 0
            t.add(f"{name} {d} {k}", f".scan = kl_{name}, {args}", [src], Arr(y, out), tol)
    if d in FLOATS:
        c = Arr([1, -0.0, np.nan, 5, np.inf, -np.inf, 2], d)
        for name in ("cummax", "cummin"):
            y = getattr(np, {"cummax": "maximum", "cummin": "minimum"}[name]).accumulate(c.v)
            t.add(f"{name} {d} NaN", f".scan = kl_{name}, .axes = {{0}}, .n_axes = 1", [c], Arr(y, d))
        c = Arr([-np.inf, -np.inf, 1, 1000, -np.inf, np.inf, 3], d)
        t.add(f"logcumsumexp {d} special", ".scan = kl_logcumsumexp, .axes = {0}, .n_axes = 1", [c], Arr(np.logaddexp.accumulate(c.v.astype(float)), d), 4 * EPS[d])
t.write()

# ---- element-wise functions: special values of every type; float answers from float64 (complex128), of 16-bit and 32-bit floats rounded once ----
RNG = np.random.default_rng(41)
EXTRA = {"float16": [6e-8, 65504.0, -1e-5], "bfloat16": [1e-40, 3.38e38, -1e-5], "float32": [1e-45, 3.4e38, -1e-20, 1e-39],
         "float64": [5e-324, 1.7e308, -1e-200, 2.3e-308]}


def exact(a, dtype):
    """a as the operation sees it in dtype, in float64 or complex128."""
    return round_to(as_float(a), dtype).astype(np.complex128 if dtype == "complex64" else np.float64)


def reals(dtype, extra=()):
    return Arr(np.concatenate([SPECIAL, EXTRA[dtype], [0.5, -0.5, 2, -2, 1.5, 10, -10, 0.9, 1.001, 0.3, -0.7, 88, -87, 3.2], extra]), dtype)


MATH = {"sin": np.sin, "cos": np.cos, "tan": np.tan, "arcsin": np.arcsin, "arccos": np.arccos, "arctan": np.arctan, "sinh": np.sinh, "cosh": np.cosh,
        "tanh": np.tanh, "arcsinh": np.arcsinh, "arccosh": np.arccosh, "arctanh": np.arctanh, "log1p": np.log1p, "log2": np.log2, "log10": np.log10,
        "expm1": np.expm1, "erf": special.erf, "sigmoid": special.expit, "rsqrt": lambda x: 1 / np.sqrt(x), "reciprocal": lambda x: 1 / x,
        "degrees": lambda x: x * (180 / np.pi), "radians": lambda x: x * (np.pi / 180)}
REAL_ONLY = ("expm1", "erf", "sigmoid")
PLAIN = np.array([1 + 2j, -1.5 + 0.5j, 0.3 - 0.7j, -0.2 - 0.4j, 2.5 - 3j, 0.999 + 0.01j, 1e-3 + 1e-4j, -3 + 4j, 0.1j, -2j, 1e-7 + 0j, -0.5 + 1e-3j])
CUTS = {"arcsin": [2 + 0j, complex(2, -0.0), complex(-2, 0.0)], "arccos": [2 + 0j, complex(2, -0.0)], "arctan": [2j, complex(-0.0, 2)],
        "arccosh": [complex(0.5, 0.0), complex(-2, -0.0)], "arctanh": [2 + 0j, complex(-2, -0.0)], "arcsinh": [2j, complex(-0.0, -2)],
        "log1p": [complex(-2, 0.0), complex(-2, -0.0), -5e-7 + 1e-3j], "log2": [complex(-4, -0.0)], "log10": [complex(-1, 0.0)],
        "sinh": [85 + 1j], "cosh": [-85 + 1j], "tan": [1 + 60j], "tanh": [60 + 1j], "arctan2": []}


def log1p_complex(z):
    near = z.real * (2 + z.real) + z.imag * z.imag
    return np.where(np.abs(near) < 0.5, 0.5 * np.log1p(near), np.log(np.abs(1 + z))) + 1j * np.arctan2(z.imag, 1 + z.real)


t = Table("transcendental")
for name, fn in MATH.items():
    call = f".unary = kl_{name}"
    for d in ["bool"] + INTS:
        a = sample(d, (2, 3), special_values=d in ("int8", "uint8"))
        t.add(f"{name} {d}", call, [a], Arr(fn(exact(a, "float32")), "float32"), 3 * EPS["float32"])
    for d in FLOATS:
        a = reals(d)
        t.add(f"{name} {d}", call, [a], Arr(fn(exact(a, d)), d), (1 if d in ("float16", "bfloat16") else 3) * EPS[d])
    if name not in REAL_ONLY:
        z = Arr(np.concatenate([PLAIN, CUTS.get(name, [])]), "complex64")
        w = exact(z, "complex64")
        out = log1p_complex(w) if name == "log1p" else fn(w)
        if name in ("degrees", "radians"):
            out = w * fn(1.0)
        t.add(f"{name} complex64", call, [z], Arr(out, "complex64"), 2 * EPS["complex64"])
PAIRS = [0.0, -0.0, np.nan, np.inf, -np.inf, 1.0, -2.0, 0.5]


def pairs(d):
    return Arr(np.repeat(PAIRS, len(PAIRS)), d), Arr(np.tile(PAIRS, len(PAIRS)), d)


def integer_power(x, y):
    x, y = int(x), int(y)
    return x**y if y >= 0 else (x if y % 2 else 1) if x in (1, -1) else 0


for name, fn in (("arctan2", np.arctan2), ("logaddexp", np.logaddexp), ("power", np.power)):
    call = f".binary = kl_{name}"
    for d in FLOATS:
        for a, b in (pairs(d), (sample(d, (9,), False), sample(d, (9,), False))):
            t.add(f"{name} {d}", call, [a, b], Arr(fn(exact(a, d), exact(b, d)), d), (1 if d in ("float16", "bfloat16") else 3) * EPS[d])
    for d in ["bool"] + INTS:
        a, b = sample(d, (3, 4)), sample(d, (3, 4))
        if name != "power":
            t.add(f"{name} {d}", call, [a, b], Arr(fn(exact(a, "float32"), exact(b, "float32")), "float32"), 3 * EPS["float32"])
            continue
        b = Arr(RNG.integers(0, 20, (3, 4)), d)
        if d in SINTS:
            a, b = Arr([2, 3, -3, 1, -1, -1, 0, 5, 0, 7, 127, -128], d), Arr([-1, 5, 3, -2, -3, -4, -1, 0, 0, 11, 127, 3], d)
        out = [integer_power(x, y) for x, y in zip(a.v.reshape(-1), b.v.reshape(-1))]
        out = Arr(np.array(out, dtype=bool), d) if d == "bool" else Arr(wrap(out, d), d)
        t.add(f"{name} {d}", call, [a, b], Arr(out.v.reshape(a.v.shape), d))
a, b = Arr(PLAIN, "complex64"), Arr(np.roll(PLAIN, 5), "complex64")
t.add("power complex64", ".binary = kl_power", [a, b], Arr(np.power(exact(a, "complex64"), exact(b, "complex64")), "complex64"), 4 * EPS["complex64"])
x, y = exact(a, "complex64"), exact(b, "complex64")
t.add("logaddexp complex64", ".binary = kl_logaddexp", [a, b], Arr(np.log(np.exp(x) + np.exp(y)), "complex64"), 4 * EPS["complex64"])
z, w = Arr([0, 0, 0, 2 + 1j, 3 + 0j, -8 + 0j], "complex64"), Arr([0, 2 + 1j, -1, 0, 2 + 0j, 1 / 3], "complex64")
out = [1, 0, complex(np.nan, np.nan), 1, 9, np.power(complex(-8), np.complex64(1 / 3).astype(np.complex128))]
inf = np.inf
a = Arr([1 + 2j, 1 + 2j, 1 + 2j, 1 + 2j, 1 - 1j, complex(inf, 1)], "complex64")
b = Arr([complex(inf, 1), complex(-inf, 1), complex(1, inf), complex(inf, inf), complex(np.nan, inf), complex(1, inf)], "complex64")
quotient = [complex(0, 0), complex(-0.0, -0.0), complex(0, -0.0), complex(0, 0), complex(-0.0, -0.0), complex(np.nan, np.nan)]
t.add("divide complex64, infinities", ".binary = kl_divide", [a, b], Arr(quotient, "complex64"))
a = Arr([complex(1, inf), complex(-inf, 1), complex(1, -inf)], "complex64")
t.add("rsqrt complex64, infinities", ".unary = kl_rsqrt", [a], Arr([complex(0, -0.0), complex(0, -0.0), complex(0, 0)], "complex64"))
b = Arr([-1 + 1j, -2 + 0j, -0.5 - 1j], "complex64")
t.add("power complex64, infinities", ".binary = kl_power", [a, b], Arr([0, 0, 0], "complex64"), EPS["complex64"])
t.add("power complex64, zeros", ".binary = kl_power", [z, w], Arr(out, "complex64"), 2 * EPS["complex64"])
t.write()

# ---- whole numbers, parts of numbers ----
t = Table("rounding")


def sign(x):
    return np.where(np.isnan(x), x, np.where(x > 0, 1.0, np.where(x < 0, -1.0, 0.0)))


for d in ALL:
    a = sample(d, (3, 5))
    if d in FLOATS:
        a = reals(d, [2.5, 3.5, -2.5, 0.49, -0.3, 1e6 + 0.5])
    for name, fn in (("floor", np.floor), ("ceil", np.ceil)):
        if d != "complex64":
            t.add(f"{name} {d}", f".unary = kl_{name}", [a], Arr(fn(wide(a)), d) if d in FLOATS else a)
    if d == "complex64":
        z = Arr(np.concatenate([PLAIN, [0, 3e38 + 3e38j, 1e-42 + 1e-42j]]), d)
        w = exact(z, d)
        t.add(f"sign {d}", ".unary = kl_sign", [z], Arr(np.where(w == 0, w, w / np.where(w == 0, 1, np.abs(w))), d), EPS[d])
        t.add(f"conjugate {d}", ".unary = kl_conjugate", [z], Arr(w.conj(), d))
        t.add(f"real {d}", ".unary = kl_real", [z], Arr(w.real, "float32"))
        t.add(f"imag {d}", ".unary = kl_imag", [z], Arr(w.imag, "float32"))
        continue
    t.add(f"sign {d}", ".unary = kl_sign", [a], a if d == "bool" else Arr(sign(wide(a)) if d in FLOATS else np.sign(wide(a).astype(float)), d))
    t.add(f"conjugate {d}", ".unary = kl_conjugate", [a], a)
    t.add(f"real {d}", ".unary = kl_real", [a], a)
    t.add(f"imag {d}", ".unary = kl_imag", [a], Arr(np.zeros(a.v.shape), d))


def floats_floor_divide(a, b):
    """The floor of the exact quotient; beside finite numbers a / b rounded down, and NaN for an infinity divided."""
    out = np.floor(a / b)
    for i in np.ndindex(out.shape):
        if np.isinf(a[i]):
            out[i] = np.nan
        elif np.isinf(b[i]) and a[i] * b[i] < 0:
            out[i] = -1  # a number just below 0
        elif np.isfinite(b[i]) and np.isfinite(a[i]) and b[i] != 0 and out[i] != 0 and np.isfinite(out[i]):
            out[i] = float(fractions.Fraction(a[i]) // fractions.Fraction(b[i]))
    return out


def floats_remainder(x, y):
    r = np.fmod(x, y)
    return np.where((r != 0) & ((r < 0) != (y < 0)), r + y, r)


for d in ["bool"] + INTS + FLOATS:
    if d == "bool":
        a, b = Arr([1, 1, 0, 0], d), Arr([1, 0, 1, 0], d)
        t.add("floor_divide bool", ".binary = kl_floor_divide", [a, b], Arr([1, 0, 0, 0], d))
        t.add("remainder bool", ".binary = kl_remainder", [a, b], Arr([0, 0, 0, 0], d))
    elif d in INTS:
        a, b = sample(d, (4, 6)), sample(d, (4, 6))
        if d in SINTS:
            lowest = np.iinfo(d).min
            a, b = Arr(np.append(a.v, [lowest, lowest, 7, -7, 7, -7, 5]), d), Arr(np.append(b.v, [-1, 0, -3, 3, 3, -3, 0]), d)
        x, y = [int(v) for v in a.v.reshape(-1)], [int(v) for v in b.v.reshape(-1)]
        q = wrap([0 if w == 0 else v // w for v, w in zip(x, y)], d).reshape(a.v.shape)
        r = wrap([0 if w == 0 else v % w for v, w in zip(x, y)], d).reshape(a.v.shape)
        t.add(f"floor_divide {d}", ".binary = kl_floor_divide", [a, b], Arr(q, d))
        t.add(f"remainder {d}", ".binary = kl_remainder", [a, b], Arr(r, d))
    else:
        for a, b in (pairs(d), (sample(d, (12,), False), sample(d, (12,), False))):
            x, y = exact(a, d), exact(b, d)
            t.add(f"floor_divide {d}", ".binary = kl_floor_divide", [a, b], Arr(floats_floor_divide(x, y), d))
            t.add(f"remainder {d}", ".binary = kl_remainder", [a, b], Arr(floats_remainder(x, y), d), EPS[d])
t.write()

# ---- bits ----
t = Table("bitwise")
for d in ["bool"] + INTS:
    a, b = sample(d, (3, 4)), sample(d, (3, 4))
    for name, fn in (("and", np.bitwise_and), ("or", np.bitwise_or), ("xor", np.bitwise_xor)):
        t.add(f"bitwise_{name} {d}", f".binary = kl_bitwise_{name}", [a, b], Arr(fn(a.v, b.v), d))
    t.add(f"bitwise_invert {d}", ".unary = kl_bitwise_invert", [a], Arr(np.invert(a.v), d))
    r = "uint8" if d == "bool" else d
    n = 8 * np.dtype(r).itemsize
    if d != "bool":
        counts = [0, 1, n - 1, n, n + 1, 100] + ([-1] if d in SINTS else [200])
        i = np.iinfo(d)
        a, b = Arr(np.repeat(np.array([i.min, i.max, 1, 77, i.max // 3], dtype=d), len(counts)), d), Arr(np.tile(np.array(counts), 5), d)
    x, y = [int(v) for v in a.v.reshape(-1)], [int(v) for v in b.v.reshape(-1)]
    left = wrap([v << w if 0 <= w < n else 0 for v, w in zip(x, y)], r).reshape(a.v.shape)
    right = wrap([v >> w if 0 <= w < n else (-1 if v < 0 else 0) for v, w in zip(x, y)], r).reshape(a.v.shape)
    t.add(f"left_shift {d}", ".binary = kl_left_shift", [a, b], Arr(left, r))
    t.add(f"right_shift {d}", ".binary = kl_right_shift", [a, b], Arr(right, r))
E4M3 = np.array([(-1) ** (i >> 7) * ((i & 7) * 2.0**-9 if i >> 3 & 15 == 0 else (8 + (i & 7)) * 2.0 ** ((i >> 3 & 15) - 10)) if i & 127 != 127 else np.nan
                 for i in range(256)])


def to_e4m3(x):
    """The nearest of all values; of two, the one with the even code."""
    out = []
    for v in x:
        m = abs(v)
        code = 127 if np.isnan(v) else 126 if m >= 448 else min(range(127), key=lambda i: (abs(E4M3[i] - m), i & 1))
        out.append(code | (128 if np.signbit(v) and not np.isnan(v) else 0))
    return np.array(out)


for d in FLOATS:
    a = reals(d, [448, 449, 464, 480, 2.0**-9, 2.0**-10, 2.0**-10 * 1.01, 3 * 2.0**-10, 2.0**-6, 0.0155, 17, 18, 19, 1.0625, 1.1875, -300])
    t.add(f"to_fp8 {d}", ".unary = kl_to_fp8", [a], Arr(to_e4m3(exact(a, d)), "uint8"))
t.write()

# ---- what keel/ops.h has and MLX has not; the inputs do not depend on how many functions there are ----



def sinc(x):
    """np.sinc, with sin(pi x) taken of what x is from the next whole number; 0 at infinity."""
    whole = np.rint(x)
    sine = np.sin(np.pi * (x - whole)) * np.where(np.fmod(whole, 2) == 0, 1.0, -1.0)
    return np.where(x == 0, 1.0, np.where(np.isinf(x), 0.0, sine / (np.pi * x)))


KEEL = {"cbrt": np.cbrt, "sinc": sinc}
t = Table("keel")
for name, fn in KEEL.items():
    RNG = np.random.default_rng(43)
    for d in ["bool"] + INTS:
        a = sample(d, (2, 3), special_values=d in ("int8", "uint8"))
        t.add(f"{name} {d}", f".unary = kl_{name}", [a], Arr(fn(exact(a, "float32")), "float32"), 2 * EPS["float32"])
    for d in FLOATS:
        a = reals(d, [1e-3, 0.25, 27.0, 1 / 3, 1234.5, 7.0, 7.5])
        t.add(f"{name} {d}", f".unary = kl_{name}", [a], Arr(fn(exact(a, d)), d), (1 if d in ("float16", "bfloat16") else 2) * EPS[d])
t.write()
