"""Golden values of element-wise functions: special values of every type; float answers from float64 (complex128),
of 16-bit and 32-bit floats rounded once."""
import fractions

import numpy as np
from scipy import special

from .table import (
    ALL, Arr, EPS, FLOATS, INTS, RNG, SINTS, SPECIAL, Table, as_float, restart, round_to, sample,
    wide, wrap,
)

restart(41)
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
    restart(43)
    for d in ["bool"] + INTS:
        a = sample(d, (2, 3), special_values=d in ("int8", "uint8"))
        t.add(f"{name} {d}", f".unary = kl_{name}", [a], Arr(fn(exact(a, "float32")), "float32"), 2 * EPS["float32"])
    for d in FLOATS:
        a = reals(d, [1e-3, 0.25, 27.0, 1 / 3, 1234.5, 7.0, 7.5])
        t.add(f"{name} {d}", f".unary = kl_{name}", [a], Arr(fn(exact(a, d)), d), (1 if d in ("float16", "bfloat16") else 2) * EPS[d])
restart(43)
for d in ["bool"] + INTS:
    a = sample(d, (2, 3))
    t.add(f"trunc {d}", ".unary = kl_trunc", [a], a)
for d in FLOATS:
    a = reals(d, [0.5, -0.5, 1.5, -1.5, 0.999, -7.25, 2.5e9, -3e4])
    t.add(f"trunc {d}", ".unary = kl_trunc", [a], Arr(np.trunc(exact(a, d)), d))
restart(43)
for d in ["bool"] + INTS:
    a, b = sample(d, (3, 4)), sample(d, (3, 4))
    t.add(f"hypot {d}", ".binary = kl_hypot", [a, b], Arr(np.hypot(exact(a, "float32"), exact(b, "float32")), "float32"), 2 * EPS["float32"])
for d in FLOATS:
    for a, b in (pairs(d), (reals(d), Arr(reals(d).v[::-1], d)), (reals(d), reals(d))):
        t.add(f"hypot {d}", ".binary = kl_hypot", [a, b], Arr(np.hypot(exact(a, d), exact(b, d)), d), (1 if d in ("float16", "bfloat16") else 2) * EPS[d])
t.write()
