#!/usr/bin/env python3
"""Right answers of quantize, written to tests/ops/golden/golden_quantized.inc: packed numbers, scales and biases for each format and dtype, by formulas in NumPy's float32 and float64.

    python3 tools/make/golden_quantized.py

The numbers that are quantized come from a small generator, which tests/ops/families/test_quantized.c has too."""
import os

import numpy as np

f32 = np.float32
FORMATS = [("AFFINE", g, b) for b in (2, 3, 4, 5, 6, 8) for g in (32, 64, 128)] + [("MXFP4", 32, 4), ("MXFP8", 32, 8), ("NVFP4", 16, 4)]
GROUPS = 8
E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], f32)
np.seterr(all="ignore")


def inputs(g, seed):
    """Groups of numbers with 8 bits of fraction: random, constant, zeros, positive, negative, with NaN, with infinity, of mixed sizes."""
    v = np.zeros((GROUPS, g), f32)
    for i in range(GROUPS):
        for k in range(g):
            seed = (seed * 1664525 + 1013904223) & 0xffffffff
            v[i, k] = f32((seed >> 16) % 255 - 127) * f32(2.0 ** (-5 + (seed >> 28) % 4 * (i == 7)))
    v[1] = v[1, 0]
    v[2] = 0
    v[3] = np.abs(v[3])
    v[4] = -np.abs(v[4])
    v[5, 3] = np.nan
    v[6, 5] = np.inf
    return v


def to_bf16(x):
    u = np.asarray(x, f32).view(np.uint32).astype(np.uint64)
    r = ((u + 0x7fff + (u >> 16 & 1)) >> 16 << 16).astype(np.uint32).view(f32)
    return np.where(np.isfinite(x), r, x).astype(f32)


ROUND = {"F32": lambda x: np.asarray(x, f32), "F16": lambda x: np.asarray(x, f32).astype(np.float16).astype(f32), "BF16": to_bf16}


def bits(x, dtype):
    x = np.asarray(x, f32)
    if dtype == "F32":
        return x.view(np.uint32)
    return x.astype(np.float16).view(np.uint16) if dtype == "F16" else (to_bf16(x).view(np.uint32) >> 16)


def e4m3(x):
    """The nearest number of 4 bits of exponent and 3 of fraction, at most 448, as code."""
    values = np.array([(m / 8 if e == 0 else 1 + m / 8) * 2.0 ** (max(e, 1) - 7) for e in range(16) for m in range(8)])[:127]
    out = np.zeros(x.shape, np.uint32)
    for i, v in np.ndenumerate(x.astype(np.float64)):
        d = np.abs(values - min(abs(v), 448))
        near = np.flatnonzero(d == d.min())
        out[i] = (near[0] if len(near) == 1 or near[0] % 2 == 0 else near[1]) | (0x80 if np.signbit(v) else 0)
    return out


def e4m3_value(c):
    e, m = c >> 3 & 15, c & 7
    return np.where(e == 0, m / 8 * 2.0**-6, (1 + m / 8) * 2.0 ** (e.astype(float) - 7)).astype(f32)


def e2m1(x):
    """The nearest number; between two, the smaller; 0 for what is no number or infinite."""
    d = np.abs(np.abs(x.astype(f32))[..., None] - E2M1)
    i = np.where(np.isfinite(x), np.argmin(d, -1), 0)
    return i | np.where((i > 0) & (x < 0), 8, 0)


def affine(v, b):
    top = f32(2**b - 1)
    high, low = np.nanmax(v, -1), np.nanmin(v, -1)
    below = np.abs(low) > np.abs(high)
    step = np.maximum(((high - low) / top).astype(f32), f32(1e-7))
    scale, edge = np.where(below, step, -step), np.where(below, low, high)
    steps = np.rint(edge / scale)
    scale = np.where(steps != 0, edge / np.where(steps != 0, steps, 1), scale).astype(f32)
    bias = np.where(steps != 0, edge, 0).astype(f32)
    q = np.rint((v - bias[:, None]) / scale[:, None])
    return np.nan_to_num(np.clip(q, 0, top)).astype(np.uint32), scale, bias


def mx(v, b, dtype):
    most = np.max(np.abs(v), -1)
    s = ROUND[dtype](most / f32(448 if b == 8 else 6))
    e = np.where(s == 0, 0, np.ceil(np.log2(s.astype(np.float64))))
    odd = ~np.isfinite(s)
    code = np.where(odd, 128 if dtype == "F32" else 0, np.where(odd, 0, e) + 127).astype(np.uint32)
    z = v / (2.0 ** np.where(odd, 0, e))[:, None].astype(f32)
    if b == 8:
        return np.where(odd[:, None], np.where(np.signbit(v), 0xfe, 0x7e), e4m3(np.nan_to_num(z))), code
    return np.where(odd[:, None], 0, e2m1(z)), code


def nv(v, dtype):
    s = ROUND[dtype](np.max(np.abs(v), -1) / f32(6))
    code = np.where(np.isnan(s), 0x7e, e4m3(np.nan_to_num(s)))
    scale = e4m3_value(code)[:, None]
    return np.where(scale == 0, 0, e2m1(ROUND[dtype](v / scale))), code


def pack(q, b):
    one = (q.astype(np.uint64)[..., None] >> np.arange(b, dtype=np.uint64) & 1).astype(np.uint8)
    return np.packbits(one.reshape(len(q), -1), axis=-1, bitorder="little").view(np.uint32).reshape(-1)


here = os.path.dirname(os.path.abspath(__file__))
with open(os.path.join(here, "../../tests/ops/golden/golden_quantized.inc"), "w") as out:
    out.write("/* golden_quantized.inc - written by tools/make/golden_quantized.py; do not edit. */\n/* clang-format off */\n")
    rows = []
    for n, (mode, g, b) in enumerate(FORMATS):
        for dtype in ("F32", "F16", "BF16"):
            v = ROUND[dtype](inputs(g, n + 1))
            q, scale, bias = affine(v, b) if mode == "AFFINE" else (mx(v, b, dtype) if mode[0] == "M" else nv(v, dtype)) + (None,)
            name = f"quantized_{len(rows)}"
            lists = [pack(q, b), bits(scale, dtype) if bias is not None else scale] + ([bits(bias, dtype)] if bias is not None else [])
            for part, values in zip("wsb", lists):
                out.write(f"static const uint32_t {name}_{part}[] = {{{', '.join(hex(int(x)) for x in values)}}};\n")
            rows.append(f"    {{KL_QUANT_{mode}, {g}, {b}, KL_{dtype}, {n + 1}, {name}_w, {name}_s, {name + '_b' if bias is not None else 'NULL'}}},\n")
    out.write("static const struct golden_quantized {\n    enum kl_quant_mode mode;\n    int group_size, bits;\n    enum kl_dtype dtype;\n    uint32_t seed;\n    const uint32_t *words, *scales, *biases;\n} golden_quantized[] = {\n")
    out.write("".join(rows) + "};\n/* clang-format on */\n")
