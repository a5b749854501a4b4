"""Quantized matrices."""
import ctypes as C

import mlx.core as mx
import numpy as np

from .both import (
    Both, call, DTYPES, exact, FLOATS, ints, keep, lib, MX, NONE, one_of, op, OptionalInt, rnd,
    SMALL,
)

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
