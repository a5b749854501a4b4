"""Products of matrices, convolutions, attention, norms and rope."""
import ctypes as C

import mlx.core as mx

from .both import (
    Both, broadcastable, call, Failed, FLOATS, Handle, lib, list_of, op, OptionalFloat, rnd, shape,
    TABLE, vector,
)


@op("matmul")
def _():
    m, k, n = (rnd.choice([1, 2, 7, 20, 65]) for _ in range(3))
    lead = shape(2)
    t = rnd.choice(FLOATS + ["complex64"])
    a, b = Both(lead + (m, k), t, special=False), Both(broadcastable(lead) + (k, n), t, special=False)
    return (lambda: call("matmul", a.keel, b.keel)), (lambda: mx.matmul(a.mx, b.mx)), 64


@op("addmm")
def _():
    m, k, n = (rnd.choice([1, 3, 20]) for _ in range(3))
    t = rnd.choice(FLOATS)
    c, a, b = Both((m, n) if rnd.random() < 0.5 else (n,), t, special=False), Both((m, k), t, special=False), Both((k, n), t, special=False)
    al, be = rnd.choice([1.0, 0.5]), rnd.choice([1.0, 2.0])
    return (lambda: call("addmm", c.keel, a.keel, b.keel, C.c_float(al), C.c_float(be))), (lambda: mx.addmm(c.mx, a.mx, b.mx, al, be)), 64


for n in ("inner", "outer", "kron"):
    @op(n)
    def _(n=n):
        t = rnd.choice(FLOATS)
        k = rnd.choice([1, 3, 8])
        a, b = Both((rnd.choice([1, 4]), k), t, special=False), Both((2, k), t, special=False)
        return (lambda: call(n, a.keel, b.keel)), (lambda: getattr(mx, n)(a.mx, b.mx)), 32


# ---- products ----
@op("tensordot_axis")
def _():
    t, n, mid = rnd.choice(FLOATS), rnd.randrange(0, 3), [rnd.choice([1, 2, 3]) for _ in range(2)]
    a, b = Both([2] + mid[:n], t, special=False), Both(mid[:n] + [3], t, special=False)
    return (lambda: call("tensordot_axis", a.keel, b.keel, n)), (lambda: mx.tensordot(a.mx, b.mx, n)), 32


@op("tensordot")
def _():
    t, p, q = rnd.choice(FLOATS), rnd.choice([1, 2, 5]), rnd.choice([1, 3])
    a, b = Both((p, 4, q), t, special=False), Both((q, 2, p), t, special=False)
    return (lambda: call("tensordot", a.keel, b.keel, *list_of([0, 2]), *list_of([2, 0]))), (lambda: mx.tensordot(a.mx, b.mx, [[0, 2], [2, 0]])), 32


@op("hadamard_transform")
def _():
    a, scale = Both(shape(2) + (rnd.choice([1, 1, 2, 8, 12, 20, 28, 64]),), rnd.choice(FLOATS + ["int32", "uint8", "bool"]), special=False), rnd.choice([None, 0.5, 1.0])
    return (lambda: call("hadamard_transform", a.keel, OptionalFloat(scale or 0, scale is not None))), (lambda: mx.hadamard_transform(a.mx, scale)), 64


# ---- convolutions ----
def convolution(name, n, transposed=False, general=False):
    @op(name)
    def draw():
        t, groups = rnd.choice(FLOATS), rnd.choice([1, 1, 1, 2, 3]) if n < 3 else 1  # MLX rounds float64 to float32, and has no groups in three dimensions
        c, o = rnd.choice([1, 2, 5, 17]), rnd.choice([1, 2, 5, 19])
        if groups > 1 and rnd.random() < 0.3:
            c, o = 1, 1  # depthwise
        ins, k = [rnd.choice([1, 3, 6, 11]) for _ in range(n)], [rnd.choice([1, 1, 2, 3]) for _ in range(n)]
        x, w = Both([rnd.choice([1, 2, 3])] + ins + [c * groups], t, special=False), Both([o * groups] + k + [c], t if rnd.random() < 0.8 else rnd.choice(FLOATS), special=False)
        many = lambda values: [rnd.choice(values) for _ in range(n)]
        stride, dilation, pad = many([1, 1, 2, 3]), many([1, 1, 2]), many([0, 1, 2])
        one = lambda v: v[0] if n == 1 else tuple(v)

        def fits(ins, low, high):  # MLX rounds the extent of the result towards 0, and takes some kernels that are too large
            if any(e + a + b < d * (q - 1) + 1 and s > 1 for e, a, b, q, d, s in zip(ins, low, high, k, dilation, stride)):
                raise Failed("a kernel that is too large")
            if max(dilation) > 1 and max(low + high) > 0:
                raise Failed("MLX writes outside of its memory")

        if general:
            low, high, spread, flip = pad, many([0, 0, 1, 3, -1]), many([1, 1, 2, 3]), rnd.random() < 0.5
            if rnd.random() < 0.2:
                low = many([-1, 0])
            left = [e + min(a, 0) + min(b, 0) for e, a, b in zip(ins, low, high)]
            if min(left) <= 0:
                raise Failed("MLX has no input of nothing but padding")
            fits([(e - 1) * d + 1 for e, d in zip(left, spread)], [max(v, 0) for v in low], [max(v, 0) for v in high])
            lists = [x for v in (stride, low, high, dilation, spread) for x in list_of(v)]
            return (lambda: call(name, x.keel, w.keel, *lists, groups, C.c_bool(flip))), (lambda: mx.conv_general(x.mx, w.mx, stride, (low, high), dilation, spread, groups, flip)), 32
        if transposed:
            pad = [min(p, d * (e - 1)) for p, d, e in zip(pad, dilation, k)]  # more padding than that: docs/differences.md
            more = [rnd.randrange(0, s) for s in stride]
            if max(dilation) > 1 and max(pad) > 0:
                raise Failed("MLX writes outside of its memory")
            return (lambda: call(name, x.keel, w.keel, *stride, *pad, *dilation, *more, groups)), (lambda: getattr(mx, name)(x.mx, w.mx, one(stride), one(pad), one(dilation), one(more), groups)), 32
        fits(ins, pad, pad)
        return (lambda: call(name, x.keel, w.keel, *stride, *pad, *dilation, groups)), (lambda: getattr(mx, name)(x.mx, w.mx, one(stride), one(pad), one(dilation), groups)), 32


for n in (1, 2, 3):
    convolution(f"conv{n}d", n)
    convolution(f"conv_transpose{n}d", n, transposed=True)


general = []
for n in (1, 2, 3):
    convolution("conv_general", n, general=True)
    general.append(TABLE.get("conv_general"))
if general[0]:
    TABLE["conv_general"] = lambda: rnd.choice(general)()


@op("einsum")
def _():
    t, extents = rnd.choice(FLOATS), {c: rnd.choice([1, 2, 3, 5]) for c in "abcdeF"}
    n, parts, ins, dots = rnd.choice([1, 1, 2, 2, 2, 3, 4]), [], [], [rnd.choice([2, 3]) for _ in range(2)]
    for _ in range(n):
        letters = [rnd.choice("abcdeF") for _ in range(rnd.choice([0, 1, 2, 2, 3]))]
        s, lead = [1 if rnd.random() < 0.1 and letters.count(c) == 1 else extents[c] for c in letters], rnd.choice([0, 0, 0, 1, 2])
        at = rnd.randrange(len(letters) + 1) if lead or rnd.random() < 0.1 else None
        if at is not None:
            s[at:at] = [1 if rnd.random() < 0.2 else d for d in dots[2 - lead:]]
            letters.insert(at, "...")
        parts.append("".join(letters))
        ins.append(Both(s, t, special=False))
    text = ",".join(parts)
    if rnd.random() < 0.7:
        free = sorted(set(text) - set(",."))
        out = rnd.sample(free, rnd.randrange(0, len(free) + 1))
        if "..." in text:
            out.insert(rnd.randrange(len(out) + 1), "...")
        text += "->" + "".join(out)
    if "..." not in text.split("->")[0] and rnd.random() < 0.05:
        text = text.replace("a", "?")  # an error of both

    def keel():
        v = vector(ins)
        try:
            return call("einsum", text.encode(), v)
        finally:
            lib.mlx_vector_array_free(v)

    return keel, (lambda: mx.einsum(text, *[a.mx for a in ins])), 64


@op("gather_mm")
def _():
    m, k, n, p, q = [rnd.choice([1, 2, 3, 5, 17]) for _ in range(5)]
    a, b = Both((p, m, k), "float32", special=False), Both((q, k, n), "float32", special=False)
    s = rnd.choice([(), (4,), (2, 3), (0,)])
    i, j = Both(s, rnd.choice(["int32", "uint32", "int64"]), special=False, low=0, high=p), Both(broadcastable(s), "uint32", special=False, low=0, high=q)
    if rnd.random() < 0.2:
        return (lambda: call("gather_mm", a.keel, b.keel, Handle(None), j.keel, C.c_bool(False))), (lambda: mx.gather_mm(a.mx, b.mx, None, j.mx)), 32
    return (lambda: call("gather_mm", a.keel, b.keel, i.keel, j.keel, C.c_bool(False))), (lambda: mx.gather_mm(a.mx, b.mx, i.mx, j.mx)), 32


@op("segmented_mm")
def _():
    m, k, n = rnd.choice([1, 3, 17]), rnd.choice([1, 4, 30]), rnd.choice([1, 2, 9])  # (MLX is wrong for transposed operands of 16 bits)
    a, b = Both((m, k), "float32", special=False), Both((k, n), "float32", special=False)
    s = Both(rnd.choice([(2,), (3, 2), (2, 2, 2), (0, 2)]), rnd.choice(["uint32", "int32", "int64"]), special=False, low=0, high=k + 1)
    return (lambda: call("segmented_mm", a.keel, b.keel, s.keel)), (lambda: mx.segmented_mm(a.mx, b.mx, s.mx)), 32


@op("block_masked_mm")
def _():
    m, k, n, block = rnd.choice([1, 31, 64, 70]), rnd.choice([3, 32, 65]), rnd.choice([1, 33, 64]), rnd.choice([32, 64])
    lead = rnd.choice([(), (), (2,)])
    a, b = Both(lead + (m, k), "float32", special=False), Both((k, n), "float32", special=False)
    of = lambda p, q: (-(-p // block), -(-q // block))
    t = rnd.choice(["bool", "float32"])
    masks = [Both(s, t, special=False) if rnd.random() < 0.6 else None for s in (of(m, n), of(m, k), of(k, n))]
    return (lambda: call("block_masked_mm", a.keel, b.keel, block, *[x.keel if x else Handle(None) for x in masks])), (lambda: mx.block_masked_mm(a.mx, b.mx, block, *[x.mx if x else None for x in masks])), 64


@op("fast_rms_norm")
def _():
    t = rnd.choice(FLOATS)
    a = Both(shape(2) + (rnd.choice([1, 8, 33]),), t, special=False)
    w = Both(a.shape[-1:], t, special=False)
    return (lambda: call("fast_rms_norm", a.keel, w.keel, C.c_float(1e-5))), (lambda: mx.fast.rms_norm(a.mx, w.mx, 1e-5)), 8


@op("fast_layer_norm")
def _():
    t = rnd.choice(FLOATS)
    a = Both(shape(2) + (rnd.choice([2, 8, 33]),), t, special=False)
    w, b = Both(a.shape[-1:], t, special=False), Both(a.shape[-1:], t, special=False)
    return (lambda: call("fast_layer_norm", a.keel, w.keel, b.keel, C.c_float(1e-3))), (lambda: mx.fast.layer_norm(a.mx, w.mx, b.mx, 1e-3)), 64


@op("fast_scaled_dot_product_attention")
def _():
    t, g, kv = rnd.choice(FLOATS), rnd.choice([1, 2]), rnd.choice([1, 2])
    b, n, m, d = rnd.choice([1, 2]), rnd.choice([1, 3, 20]), rnd.choice([1, 7, 40]), rnd.choice([4, 16])
    if rnd.random() < 0.5:
        m = max(m, n)
    q, k, v = Both((b, g * kv, n, d), t, special=False), Both((b, kv, m, d), t, special=False), Both((b, kv, m, d), t, special=False)
    causal = rnd.random() < 0.5
    none = Handle(None)
    return (lambda: call("fast_scaled_dot_product_attention", q.keel, k.keel, v.keel, C.c_float(0.25), b"causal" if causal else b"", none, none)), \
           (lambda: mx.fast.scaled_dot_product_attention(q.mx, k.mx, v.mx, scale=0.25, mask="causal" if causal else None)), 64


@op("fast_rope")
def _():
    t, d = rnd.choice(FLOATS), rnd.choice([4, 8, 16])
    a, dims, trad, offset = Both((rnd.choice([1, 2]), rnd.choice([1, 3]), rnd.choice([1, 5, 17]), d), t, special=False), rnd.choice([4, d]), rnd.random() < 0.5, rnd.choice([0, 3, 50])
    scale = rnd.choice([1.0, 0.5])
    return (lambda: call("fast_rope", a.keel, dims, C.c_bool(trad), OptionalFloat(1000, True), C.c_float(scale), offset, Handle(None))), (lambda: mx.fast.rope(a.mx, dims, traditional=trad, base=1000, scale=scale, offset=offset)), 16
