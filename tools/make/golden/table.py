"""Tables of golden values: arrays with a dtype, the inputs that are drawn, and how rows are written as C."""
import sys

import numpy as np

RNG = np.random.default_rng()
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


def restart(seed):
    """What is drawn from here on depends on nothing that was drawn before."""
    RNG.bit_generator.state = np.random.default_rng(seed).bit_generator.state


def sum_dtype(d):
    return "int32" if d in ("bool", "int8", "int16") else "uint32" if d in ("uint8", "uint16") else d


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
