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
            quotient = round_to(x / y, "float64" if d == "float64" else "float32").astype(np.float64)
            t.add(f"floor_divide {d}", ".binary = kl_floor_divide", [a, b], Arr(np.floor(quotient), d))
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
