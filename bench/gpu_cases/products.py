"""Cases that multiply: matrices, convolutions, quantised matrices, experts, attention, linear algebra."""
import ctypes as C

import numpy as np
import torch

from .measure import (
    BF16, F16, FLOAT32, NONE, S, as_closure, both, call, case, dev, free_array, in_turn, last_error,
    lib, mx, new_array, new_vec, normal, peer_torch, run, start, start_with_gradients, to_keel,
    unpack, with_mlx,
)


def products():
    for n in (8192, 4096, 1024):
        a, b = normal(n, n), normal(n, n)
        ka, kb = to_keel(a), to_keel(b)
        fa, fb = torch.from_numpy(a).to(dev), torch.from_numpy(b).to(dev)
        for code, kind, name in ((BF16, torch.bfloat16, "bfloat16"), (F16, torch.float16, "float16")):
            ha, hb = call("astype", ka, code), call("astype", kb, code)
            run(ha, hb)
            ta, tb = fa.to(kind), fb.to(kind)
            case(f"matmul {name} {n}^3", 0, lambda: start(call("matmul", ha, hb)), {"torch": peer_torch(lambda: ta @ tb)}, flops=2.0 * n**3)
            for x in (ha, hb):
                free_array(x)
        if n == 4096:
            case(f"matmul float32 {n}^3", 0, lambda: start(call("matmul", ka, kb)), {"torch": peer_torch(lambda: fa @ fb)}, flops=2.0 * n**3)
        for x in (ka, kb):
            free_array(x)


def of_kind(a, code):
    """A NumPy array of float32 as Keel's in another dtype."""
    f = to_keel(a)
    if code == FLOAT32:
        return f
    k = call("astype", f, code)
    run(k)
    free_array(f)
    return k


def convolutions():
    """Channels last in Keel and MLX; PyTorch in both of its memory formats."""
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = True
    conv = torch.nn.functional.conv2d
    for what, n, h, c, o, k, stride, groups in (("8x56x56x64 to 64, k3", 8, 56, 64, 64, 3, 1, 1), ("32x224x224x3 to 64, k7, stride 2", 32, 224, 3, 64, 7, 2, 1),
                                                ("8x56x56x256 k3, depthwise", 8, 56, 256, 256, 3, 1, 256)):
        x, w = normal(n, h, h, c), normal(o, k, k, c // groups)
        side, pad = h // stride, k // 2
        flops = 2.0 * n * side * side * o * k * k * c / groups
        for code, kind, name in ((FLOAT32, torch.float32, "float32"), (BF16, torch.bfloat16, "bfloat16")):
            kx, kw = of_kind(x, code), of_kind(w, code)
            last = [torch.from_numpy(a).to(dev).to(kind).permute(0, 3, 1, 2) for a in (x, w)]  # channels last in memory
            first = [t.contiguous() for t in last]
            how = {"stride": stride, "padding": pad, "groups": groups}
            p = {"torch": peer_torch(lambda: conv(*first, **how)), "torch.channels_last": peer_torch(lambda: conv(*last, **how))}
            if mx is not None:
                m = [mx.array(a).astype(mx.bfloat16 if code == BF16 else mx.float32) for a in (x, w)]
                mx.eval(m)
                with_mlx(p, lambda: mx.conv2d(*m, stride=stride, padding=pad, groups=groups))
            case(f"conv2d {what}, {name}", 0, lambda: start(call("conv2d", kx, kw, stride, stride, pad, pad, 1, 1, groups)), p, flops=flops)
            # with the gradients of input and weights
            g = normal(n, side, side, o)
            kg, tg = of_kind(g, code), torch.from_numpy(g).to(dev).to(kind).permute(0, 3, 1, 2)
            closure = as_closure(lambda x, w: [call("conv2d", x, w, stride, stride, pad, pad, 1, 1, groups)])

            def there_and_back(x, w, g):
                x, w = x.detach().requires_grad_(), w.detach().requires_grad_()
                return torch.autograd.grad(conv(x, w, **how), (x, w), g)

            p = {"torch": peer_torch(lambda: there_and_back(*first, tg.contiguous())), "torch.channels_last": peer_torch(lambda: there_and_back(*last, tg))}
            if mx is not None:
                mg = mx.array(g).astype(mx.bfloat16 if code == BF16 else mx.float32)
                mx.eval(mg)
                with_mlx(p, lambda: mx.vjp(lambda x, w: mx.conv2d(x, w, stride=stride, padding=pad, groups=groups), m, [mg]))
            case(f"conv2d {what}, {name}, forward and backward", 0, lambda: start_with_gradients(closure, [kx, kw], [kg]), p, flops=3 * flops)
            for a in (kx, kw, kg):
                free_array(a)


class OptionalInt(C.Structure):
    _fields_ = [("value", C.c_int), ("has_value", C.c_bool)]


def quantised():
    """Products of bfloat16 rows and matrices of 4 or 8 bits in groups of 64; many matrices in turns. GB/s: of packed numbers, scales and biases. PyTorch's own format of 4 bits, and its product of bfloat16."""
    numpy_rng = np.random.default_rng(3)
    for bits, n, k in ((4, 14336, 4096), (4, 4096, 14336), (8, 14336, 4096), (8, 4096, 14336)):
        form = (OptionalInt(64, True), OptionalInt(bits, True), C.c_char_p(b"affine"))
        size = n * k * bits // 8 + n * k // 64 * 4
        copies = max(2, -(-(1 << 30) // size))
        words = [to_keel(numpy_rng.integers(0, 1 << 32, (n, k * bits // 32), dtype=np.uint32)) for _ in range(copies)]
        scales = [of_kind(normal(n, k // 64) * 0.01, BF16) for _ in range(copies)]
        biases = [of_kind(normal(n, k // 64) * 0.01, BF16) for _ in range(copies)]
        keel_turn = in_turn(list(zip(words, scales, biases)))
        packed = [torch.randint(0, 1 << 31, (n // 8, k // 128, 32, 4), dtype=torch.int32, device=dev) for _ in range(copies if bits == 4 else 0)]
        pairs = torch.randn(k // 64, n, 2, device=dev).bfloat16()
        torch_turn = in_turn(packed)
        whole = torch.randn(k, n, device=dev).bfloat16()
        if mx is not None:
            theirs = [mx.quantize(mx.random.normal((n, k)).astype(mx.bfloat16), group_size=64, bits=bits) for _ in range(copies)]
            mx.eval(theirs)
            mlx_turn = in_turn(theirs)
        for rows in (1, 2, 8, 16, 32, 64, 512):
            x = normal(rows, k)
            kx, tx = of_kind(x, BF16), torch.from_numpy(x).to(dev).bfloat16()
            p = {"torch.bfloat16": peer_torch(lambda: tx @ whole)}
            if bits == 4:
                p["torch.int4"] = peer_torch(lambda: torch._weight_int4pack_mm(tx, torch_turn(), 64, pairs))
            if mx is not None:
                m = mx.array(x).astype(mx.bfloat16)
                mx.eval(m)
                with_mlx(p, lambda: mx.quantized_matmul(m, *mlx_turn(), transpose=True, group_size=64, bits=bits))
            case(f"{bits}-bit {rows}x{k} by {n}", size, lambda: start(call("quantized_matmul", kx, *keel_turn(), C.c_bool(True), *form)), p,
                 flops=2.0 * rows * n * k if rows > 64 else None)
            free_array(kx)
        for a in words + scales + biases:
            free_array(a)


def experts():
    """Mixtures of experts: rows of bfloat16, each by one of 128 matrices of 1536 x 4096 that an index chooses, of 4 bits in groups of 64 (gather_qmm) and of bfloat16 (gather_mm).
    8 rows: the 8 experts of one token. GB/s: of the matrices that are chosen. PyTorch: _grouped_mm of bfloat16, whose rows are sorted already."""
    numpy_rng = np.random.default_rng(4)
    n_experts, n, k = 128, 1536, 4096
    form = (OptionalInt(64, True), OptionalInt(4, True), C.c_char_p(b"affine"))
    words = to_keel(numpy_rng.integers(0, 1 << 32, (n_experts, n, k // 8), dtype=np.uint32))
    scales, biases = (of_kind(normal(n_experts, n, k // 64) * 0.01, BF16) for _ in range(2))
    whole = torch.randn(n_experts, n, k, device=dev).bfloat16()
    one = of_kind(normal(1, n, k), BF16)
    many = call("repeat_axis", one, n_experts, 0)
    kw = call("contiguous", many, C.c_bool(False))
    run(kw)
    turned = call("swapaxes", kw, 1, 2)
    none = new_array()
    for tokens in (1, 32, 512, 4096):
        rows = tokens * 8
        chosen = np.sort(numpy_rng.integers(0, n_experts, rows).astype(np.int32)) if tokens > 1 else np.arange(8, dtype=np.int32) * 15
        used = len(np.unique(chosen))
        x = normal(rows, 1, k)
        kx, ki = of_kind(x, BF16), to_keel(chosen)
        tx = torch.from_numpy(x.reshape(rows, k)).to(dev).bfloat16()
        offs = torch.from_numpy(np.cumsum(np.bincount(chosen, minlength=n_experts)).astype(np.int32)).to(dev)
        p = {"torch.bfloat16": peer_torch(lambda: torch._grouped_mm(tx, whole.transpose(1, 2), offs=offs))}
        flops = 2.0 * rows * n * k
        case(f"4-bit experts, {tokens} tokens of 8", used * (n * k // 2 + n * k // 16), lambda: start(call("gather_qmm", kx, words, scales, biases, none, ki, C.c_bool(True), *form, C.c_bool(tokens > 1))), p,
             flops=flops if tokens > 32 else None)
        case(f"bfloat16 experts, {tokens} tokens of 8", used * n * k * 2, lambda: start(call("gather_mm", kx, turned, none, ki, C.c_bool(tokens > 1))), p, flops=flops if tokens > 32 else None)
        free_array(kx)
        free_array(ki)
    for a in (words, scales, biases, one, many, kw, turned):
        free_array(a)


def attentions():
    def bf16(*shape):
        a = torch.randn(shape, device=dev).bfloat16()
        f = to_keel(a.float().cpu().numpy())
        k = call("astype", f, BF16)
        run(k)
        free_array(f)
        return k, a

    def attend(q, k, v, mode=b"", mask=NONE, sinks=NONE):
        return start(call("fast_scaled_dot_product_attention", q, k, v, C.c_float(128**-0.5), C.c_char_p(mode), mask, sinks))

    sdpa = torch.nn.functional.scaled_dot_product_attention
    heads, n, d = 32, 4096, 128
    kq, tq = bf16(1, heads, n, d)
    kk, tk = bf16(1, heads, n, d)
    kv, tv = bf16(1, heads, n, d)
    flops = 4.0 * heads * n * n * d
    from torch.nn.attention import SDPBackend, sdpa_kernel

    def cudnn(**how):
        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            return sdpa(tq, tk, tv, **how)

    case("attention, prefill 4096", 0, lambda: attend(kq, kk, kv),
         {"torch": peer_torch(lambda: sdpa(tq, tk, tv)), "torch.cudnn": peer_torch(cudnn)}, flops=flops)
    case("attention, prefill 4096, causal", 0, lambda: attend(kq, kk, kv, b"causal"),
         {"torch": peer_torch(lambda: sdpa(tq, tk, tv, is_causal=True)), "torch.cudnn": peer_torch(lambda: cudnn(is_causal=True))},
         flops=flops / 2)
    seen = np.random.default_rng(5).integers(0, 3, (1, 1, n, n)).astype(np.float32)
    f = to_keel(seen)
    km, tm = call("astype", f, 0), torch.from_numpy(seen).to(dev).bool()
    run(km)
    case("attention, prefill 4096, bool mask", 0, lambda: attend(kq, kk, kv, b"array", km),
         {"torch": peer_torch(lambda: sdpa(tq, tk, tv, attn_mask=tm))}, flops=flops)
    ka, ta = call("astype", f, BF16), tm.bfloat16()
    run(ka)
    ks, _ = bf16(heads)
    case("attention, prefill 4096, added mask and sinks", 0, lambda: attend(kq, kk, kv, b"array", ka, ks),
         {"torch": peer_torch(lambda: sdpa(tq, tk, tv, attn_mask=ta))}, flops=flops)
    for x in (kq, kk, kv, km, ka, ks, f):
        free_array(x)
    whole = [normal(1, heads, n, d) for _ in range(3)]
    (kq, tq), (kk, tk), (kv, tv) = (both(x) for x in whole)
    case("attention, prefill 4096, float32", 0, lambda: attend(kq, kk, kv), {"torch": peer_torch(lambda: sdpa(tq, tk, tv))}, flops=flops)
    case("attention, prefill 4096, float32, causal", 0, lambda: attend(kq, kk, kv, b"causal"),
         {"torch": peer_torch(lambda: sdpa(tq, tk, tv, is_causal=True))}, flops=flops / 2)
    for x in (kq, kk, kv):
        free_array(x)
    for batch in (32, 8, 1):
        copies = max(2, (1 << 30) // (batch * 8 * n * d * 4))
        pairs = [(bf16(batch, 8, n, d), bf16(batch, 8, n, d)) for _ in range(min(copies, 64))]
        kq, tq = bf16(batch, heads, 1, d)
        keel_turn, torch_turn = in_turn(pairs), in_turn(pairs)

        def keel():
            (k, _), (v, _) = keel_turn()
            attend(kq, k, v)

        def peer():
            (_, k), (_, v) = torch_turn()
            return sdpa(tq, k, v, enable_gqa=True)

        p = {"torch": peer_torch(peer)}
        if mx is not None:
            def bf16_mlx(*shape):
                return mx.random.normal(shape).astype(mx.bfloat16)

            mlx_pairs = [(bf16_mlx(batch, 8, n, d), bf16_mlx(batch, 8, n, d)) for _ in range(len(pairs))]
            mq = bf16_mlx(batch, heads, 1, d)
            mx.eval(mq, mlx_pairs)
            mlx_turn = in_turn(mlx_pairs)
            with_mlx(p, lambda: mx.fast.scaled_dot_product_attention(mq, *mlx_turn(), scale=d**-0.5))
        case(f"attention, decode, batch {batch}", batch * 8 * n * d * 4, keel, p)
        for (k, _), (v, _) in pairs:
            free_array(k)
            free_array(v)
        free_array(kq)
        del pairs, tq


def matrices():
    """Factorisations, equations and inverses: many small matrices, and one large one. PyTorch's check of the infos, for which it waits, is part of inv and solve, and left out elsewhere (_ex)."""

    def parts(name, *args):
        """Starts all arrays of a result that is a vector, or a pair."""
        f = getattr(lib, "mlx_linalg_" + name)
        if name in ("lu", "svd"):
            v = new_vec()
            rc = f(C.byref(v), *args, S)
            out = [] if rc else unpack(v)
        else:
            out = [new_array(), new_array()]
            rc = f(*(C.byref(a) for a in out), *args, S)
        if rc:
            raise RuntimeError(name + ": " + last_error())
        start(*out)

    false, true = C.c_bool(False), C.c_bool(True)
    for batch, n in ((4096, 32), (1, 512), (1, 1024)):
        a = normal(batch, n, n)
        definite = np.matmul(a, a.transpose(0, 2, 1)) / n + np.eye(n, dtype=np.float32)
        (ka, ta), (kd, td), (kb, tb) = both(a), both(definite), both(normal(batch, n, n))
        size, what = 4 * a.size, f"{batch}x{n}x{n}" if batch > 1 else f"{n}x{n}"
        case(f"cholesky {what}", 2 * size, lambda: start(call("linalg_cholesky", kd, false)), {"torch": peer_torch(lambda: torch.linalg.cholesky_ex(td))})
        case(f"lu {what}", 3 * size, lambda: parts("lu", ka), {"torch": peer_torch(lambda: torch.linalg.lu(ta))})
        case(f"solve {what}", 3 * size, lambda: start(call("linalg_solve", ka, kb)), {"torch": peer_torch(lambda: torch.linalg.solve(ta, tb)), "torch.ex": peer_torch(lambda: torch.linalg.solve_ex(ta, tb))})
        case(f"solve_triangular {what}", 3 * size, lambda: start(call("linalg_solve_triangular", kd, kb, false)), {"torch": peer_torch(lambda: torch.linalg.solve_triangular(td, tb, upper=False))})
        case(f"inv {what}", 2 * size, lambda: start(call("linalg_inv", ka)), {"torch": peer_torch(lambda: torch.linalg.inv(ta)), "torch.ex": peer_torch(lambda: torch.linalg.inv_ex(ta))})
        case(f"qr {what}", 3 * size, lambda: parts("qr", ka), {"torch": peer_torch(lambda: torch.linalg.qr(ta))})
        if n == 512:
            case(f"svd {what}", 3 * size, lambda: parts("svd", ka, true), {"torch": peer_torch(lambda: torch.linalg.svd(ta))})
            case(f"eigh {what}", 2 * size, lambda: parts("eigh", kd, b"L"), {"torch": peer_torch(lambda: torch.linalg.eigh(td))})
        for x in (ka, kd, kb):
            free_array(x)
