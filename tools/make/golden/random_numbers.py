"""Golden values of random numbers and of the distributions that are made from them."""
import numpy as np
from scipy import special

from .table import Arr, Calls, ENUM, EPS, FLOATS, FOLDER, Table, round_to

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
