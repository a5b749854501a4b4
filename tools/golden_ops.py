#!/usr/bin/env python3
"""Writes tests/ops/golden_<family>.inc: inputs and right answers for the operations, from NumPy and SciPy.

    python3 tools/golden_ops.py [folder]

The answers are made in float64 (or exact integers) and rounded once to the result's dtype. Each file is one table of
`struct golden` rows (tests/ops/golden.h). The inputs come from a fixed seed, so the files change only when this script
does. bfloat16 is kept as its bits."""
import sys
import numpy as np
from scipy import special

RNG = np.random.default_rng(20240607)
FOLDER = sys.argv[1] if len(sys.argv) > 1 else "tests/ops"
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
        with open(f"{FOLDER}/golden_{self.family}.inc", "w") as f:
            f.write(f"/* golden_{self.family}.inc - written by tools/golden_ops.py; do not edit. */\n/* clang-format off */\n")
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
    f.write("/* golden_random.inc - written by tools/golden_ops.py; do not edit. */\n/* clang-format off */\n")
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
