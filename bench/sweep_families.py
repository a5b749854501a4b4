"""The cases of sweep.py whose calls differ between libraries: along axes, shapes, indices, products, convolutions, norms, attention, quantization, Fourier transforms, matrices, random numbers. A peer is what its users would call."""
from sweep_cases import DTYPES, FLOATS, MATRICES, RANDOM, TRANSFORMS, rows

M = 1 << 20
ANY = ["bool", "uint8", "int16", "int32", "int64", "bfloat16", "float32", "float64", "complex64"]
PLAIN = ["float16", "bfloat16", "float32"]


def along(o, name, f, g, h, dtype, reduces):
    """Rows, columns, the middle axis, short rows; and, for what reduces, all elements."""
    np, torch, mx = o.np, o.torch, o.mx
    forms = {"4096": ((4096,), 0), "rows of 1024": ((1024, 1024), 1), "columns of 1024": ((1024, 1024), 0), "rows of 16": ((65536, 16), 1), "middle of 64x256x64": ((64, 256, 64), 1),
             "all 4M" if reduces else "one row of 4M": ((1 << 22,), None if reduces else 0)}
    special = {"softmax": lambda x, a: torch.softmax(x, a), "flip": lambda x, a: torch.flip(x, (a,)), "roll": lambda x, a: torch.roll(x, 5, a), "max": lambda x, a: torch.amax(x) if a is None else torch.amax(x, a), "min": lambda x, a: torch.amin(x) if a is None else torch.amin(x, a),
               "minmax": lambda x, a: torch.aminmax(x) if a is None else torch.aminmax(x, dim=a), "median": lambda x, a: torch.median(x) if a is None else torch.median(x, a), "logsumexp": lambda x, a: torch.logsumexp(x, tuple(range(x.ndim)) if a is None else a),
               "cummax": lambda x, a: torch.cummax(x, a), "cummin": lambda x, a: torch.cummin(x, a), "sort": lambda x, a: torch.sort(x, a), "argsort": lambda x, a: torch.argsort(x, a), "count_nonzero": lambda x, a: torch.count_nonzero(x) if a is None else torch.count_nonzero(x, a)}
    special_np = {"flip": lambda x, a: np.flip(x, a).copy(), "roll": lambda x, a: np.roll(x, 5, a), "minmax": lambda x, a: (np.min(x, a), np.max(x, a))}
    ours = {"roll": lambda x, a: mx.roll(x, 5, a)}.get(name, lambda x, a: f(x, axis=a))
    his = special_np.get(name) or (g and (lambda x, a: g(x, axis=a)))
    hers = torch and (special.get(name) or (h and (lambda x, a: h(x) if a is None else h(x, a))))
    low, high = (0.9, 1.1) if "prod" in name else (-3, 3)
    for label, (shape, axis) in forms.items():
        def made():
            x = o.all_of(o.numbers(dtype, low, high, shape), dtype)
            work = {"keel": lambda: mx.eval(ours(x[0], axis))}
            if his and x[1] is not None:
                work["numpy"] = lambda: his(x[1], axis)
            if hers and x[2] is not None:
                work["torch"] = lambda: hers(x[2], axis)
            return work

        yield name, dtype, label, made


def others(o, calls, found):
    yield from parts(o, calls)
    yield from shapes(o, calls)
    yield from indices(o, calls)
    yield from products(o, calls)
    yield from networks(o, calls)
    yield from transforms(o, calls, found)
    yield from matrices(o, calls, found)
    yield from random_numbers(o, found)


def parts(o, calls):
    """Element-wise, but not of one kind of operand."""
    mx, np, torch = o.mx, o.np, o.torch
    sizes = {"64": (64,), "4096": (4096,), "1M": (M,), "4M": (1 << 22,)}
    for dtype in DTYPES["all"]:
        for label, shape in sizes.items():
            x = lambda: o.all_of(o.numbers(dtype, -3, 3, shape), dtype)  # noqa: E731
            yield "where", dtype, label, lambda: calls(mx.where, np.where, torch and torch.where, o.all_of(o.numbers("bool", 0, 1, shape), "bool"), x(), x())
            if dtype not in ("bool", "complex64"):
                yield "clip", dtype, label, lambda: calls(mx.clip, np.clip, torch and torch.clamp, x(), 0, 2)
                yield "clip by arrays", dtype, label, lambda: calls(mx.clip, np.clip, torch and torch.clamp, x(), o.all_of(o.numbers(dtype, 0, 1, shape), dtype), o.all_of(o.numbers(dtype, 1, 2, shape), dtype))
    for dtype in DTYPES["all"]:
        for to in ("float32", "bfloat16", "float16", "float64", "int32", "int8", "bool", "complex64"):
            if to == dtype:
                continue
            yield f"astype to {to}", dtype, "4M", lambda: calls(lambda x: mx.astype(x, getattr(mx, "bool_" if to == "bool" else to)), None if to == "bfloat16" else (lambda x: x.astype(to)), torch and (lambda x: x.to(getattr(torch, to))), o.all_of(o.numbers(dtype, -3 if "u" not in to else 0, 3, (1 << 22,)), dtype))
    for dtype in PLAIN:
        yield "to_fp8", dtype, "1M", lambda: calls(mx.to_fp8, None, torch and (lambda x: x.to(torch.float8_e4m3fn)), o.all_of(o.numbers(dtype, -9, 9, (M,)), dtype))
        yield "from_fp8", dtype, "1M", lambda: calls(lambda x: mx.from_fp8(x, getattr(mx, dtype)), None, None, o.all_of(o.numbers("uint8", 0, 120, (M,)), "uint8"))
    for dtype in FLOATS:
        both = lambda: [o.all_of(o.numbers(dtype, -3, 3, (M,)), dtype) for _ in range(2)]  # noqa: E731
        yield "allclose", dtype, "1M", lambda: calls(mx.allclose, np.allclose, torch and torch.allclose, *both())
        yield "array_equal", dtype, "1M", lambda: calls(mx.array_equal, np.array_equal, torch and torch.equal, *both())


def shapes(o, calls):
    """What makes and moves."""
    mx, np, torch = o.mx, o.np, o.torch
    for dtype in ANY:
        square = lambda: o.all_of(o.numbers(dtype, -3, 3, (1024, 1024)), dtype)  # noqa: E731
        line = lambda: o.all_of(o.numbers(dtype, -3, 3, (M,)), dtype)  # noqa: E731
        yield "contiguous", dtype, "transposed", lambda: calls(lambda x: mx.contiguous(x.T), lambda x: np.ascontiguousarray(x.T), torch and (lambda x: x.T.contiguous()), square())
        yield "concatenate", dtype, "rows of 1024", lambda: calls(lambda x: mx.concatenate([x, x], 1), lambda x: np.concatenate([x, x], 1), torch and (lambda x: torch.cat([x, x], 1)), square())
        yield "stack", dtype, "1M", lambda: calls(lambda x: mx.stack([x, x], 1), lambda x: np.stack([x, x], 1), torch and (lambda x: torch.stack([x, x], 1)), line())
        yield "repeat", dtype, "1M by 3", lambda: calls(lambda x: mx.repeat(x, 3, 0), lambda x: np.repeat(x, 3, 0), torch and (lambda x: torch.repeat_interleave(x, 3, 0)), line())
        yield "tile", dtype, "1M by 3", lambda: calls(lambda x: mx.tile(x, 3), lambda x: np.tile(x, 3), torch and (lambda x: torch.tile(x, (3,))), line())
        yield "pad", dtype, "1024x1024 by 1", lambda: calls(lambda x: mx.pad(x, 1), lambda x: np.pad(x, 1), torch and (lambda x: torch.nn.functional.pad(x, (1, 1, 1, 1))), square())
        yield "tril", dtype, "1024x1024", lambda: calls(mx.tril, np.tril, torch and torch.tril, square())
        yield "triu", dtype, "1024x1024", lambda: calls(mx.triu, np.triu, torch and torch.triu, square())
        yield "diag", dtype, "1024", lambda: calls(mx.diag, np.diag, torch and torch.diag, o.all_of(o.numbers(dtype, -3, 3, (1024,)), dtype))
        yield "trace", dtype, "1024x1024", lambda: calls(mx.trace, np.trace, torch and torch.trace, square())
        yield "kron", dtype, "32x32", lambda: calls(mx.kron, np.kron, torch and torch.kron, *(o.all_of(o.numbers(dtype, -3, 3, (32, 32)), dtype) for _ in range(2)))
        yield "slice_update", dtype, "1M", lambda: calls(lambda x, y: mx.slice_update(x, y, mx.array([5]), [0]), None, None, line(), o.all_of(o.numbers(dtype, -3, 3, (4096,)), dtype))
        yield "full_like", dtype, "1M", lambda: calls(lambda x: mx.full_like(x, 1), lambda x: np.full_like(x, 1), torch and (lambda x: torch.full_like(x, 1)), line())
        yield "zeros_like", dtype, "1M", lambda: calls(mx.zeros_like, np.zeros_like, torch and torch.zeros_like, line())
        yield "ones_like", dtype, "1M", lambda: calls(mx.ones_like, np.ones_like, torch and torch.ones_like, line())
        if dtype in ("int32", "int64", "float32", "float64", "bfloat16"):
            t = torch and getattr(torch, dtype)
            yield "arange", dtype, "1M", lambda: calls(lambda: mx.arange(0, M, 1, getattr(mx, dtype)), None if dtype == "bfloat16" else (lambda: np.arange(0, M, 1, dtype)), torch and (lambda: torch.arange(0, M, 1, dtype=t)))
            yield "eye", dtype, "1024x1024", lambda: calls(lambda: mx.eye(1024, dtype=getattr(mx, dtype)), None if dtype == "bfloat16" else (lambda: np.eye(1024, dtype=dtype)), torch and (lambda: torch.eye(1024, dtype=t)))
            yield "full", dtype, "1M", lambda: calls(lambda: mx.full((M,), 3, getattr(mx, dtype)), None if dtype == "bfloat16" else (lambda: np.full((M,), 3, dtype)), torch and (lambda: torch.full((M,), 3, dtype=t)))
            yield "tri", dtype, "1024x1024", lambda: calls(lambda: mx.tri(1024, dtype=getattr(mx, dtype)), None if dtype == "bfloat16" else (lambda: np.tri(1024, dtype=dtype)), None)
    for name in "zeros", "ones":
        yield name, "float32", "1M", lambda: calls(lambda: getattr(mx, name)((M,)), lambda: getattr(np, name)((M,), "float32"), torch and (lambda: getattr(torch, name)((M,))))
    yield "identity", "float32", "1024x1024", lambda: calls(lambda: mx.identity(1024), lambda: np.identity(1024, "float32"), torch and (lambda: torch.eye(1024)))
    yield "linspace", "float32", "1M", lambda: calls(lambda: mx.linspace(0, 1, M), lambda: np.linspace(0, 1, M, dtype="float32"), torch and (lambda: torch.linspace(0, 1, M)))
    for name in "bartlett", "blackman", "hamming", "hanning":
        yield name, "float32", "1M", lambda: calls(lambda: getattr(mx, name)(M), lambda: getattr(np, name)(M), torch and (lambda: getattr(torch, name.replace("hanning", "hann") + "_window")(M, periodic=False)))


def indices(o, calls):
    mx, np, torch = o.mx, o.np, o.torch
    places = lambda n, most: o.all_of(o.rng.integers(0, most, n).astype("int64"), "int64")  # noqa: E731
    for dtype in ANY:
        table = lambda: o.all_of(o.numbers(dtype, -3, 3, (4096, 256)), dtype)  # noqa: E731
        line = lambda: o.all_of(o.numbers(dtype, -3, 3, (M,)), dtype)  # noqa: E731
        for axis in 0, 1:
            yield "take", dtype, f"1024 of axis {axis}", lambda: calls(lambda x, i: mx.take(x, i, axis), lambda x, i: np.take(x, i, axis), torch and (lambda x, i: torch.index_select(x, axis, i)), table(), places(1024, (4096, 256)[axis]))
        yield "take", dtype, "1M of 1M", lambda: calls(lambda x, i: mx.take(x, i), lambda x, i: np.take(x, i), torch and (lambda x, i: torch.take(x, i)), line(), places(M, M))
        along_rows = lambda: o.all_of(o.rng.integers(0, 256, (4096, 64)).astype("int64"), "int64")  # noqa: E731
        yield "take_along_axis", dtype, "64 of rows of 256", lambda: calls(lambda x, i: mx.take_along_axis(x, i, 1), lambda x, i: np.take_along_axis(x, i, 1), torch and (lambda x, i: torch.gather(x, 1, i)), table(), along_rows())
        yield "put_along_axis", dtype, "64 of rows of 256", lambda: calls(lambda x, i: mx.put_along_axis(x, i, mx.array(1).astype(x.dtype), 1), None, torch and (lambda x, i: torch.scatter(x, 1, i, 1)), table(), along_rows())
        if dtype not in ("bool", "complex64"):
            for most, label in ((100, "1M into 100"), (M, "1M into 1M")):
                def added(x, i, v):
                    y = x.copy()
                    np.add.at(y, i, v)
                yield "at.add", dtype, label, lambda: calls(lambda x, i, v: x.at[i].add(v), added, torch and (lambda x, i, v: x.index_add(0, i, v)), o.all_of(o.numbers(dtype, 0, 3, (most,)), dtype), places(M, most), line())
            for label, shape in (("4096", (4096,)), ("rows of 2048", (512, 2048)), ("columns of 1024", (1024, 512))):
                axis = 0 if label.startswith("columns") else -1
                k = shape[axis] // 2
                sorted_of = lambda: o.all_of(o.numbers(dtype, -1e4 if dtype[0] in "bf" else 0, 1e4 if dtype not in ("uint8",) else 200, shape), dtype)  # noqa: E731
                yield "partition", dtype, label, lambda: calls(lambda x: mx.partition(x, k, axis), lambda x: np.partition(x, k, axis), None, sorted_of())
                yield "argpartition", dtype, label, lambda: calls(lambda x: mx.argpartition(x, k, axis), lambda x: np.argpartition(x, k, axis), None, sorted_of())
                yield "topk", dtype, label, lambda: calls(lambda x: mx.topk(x, 40, axis), None, torch and (lambda x: torch.topk(x, 40, axis)), sorted_of())
            yield "searchsorted", dtype, "64K in 64K", lambda: calls(mx.searchsorted, np.searchsorted, torch and torch.searchsorted, o.all_of(np.sort(o.numbers(dtype, 0, 100, (1 << 16,))), dtype), o.all_of(o.numbers(dtype, 0, 100, (1 << 16,)), dtype))
            yield "unique", dtype, "64K", lambda: calls(lambda x: mx.unique(x, 1 << 16), np.unique, torch and torch.unique, o.all_of(o.numbers(dtype, 0, 100, (1 << 16,)), dtype))
        yield "nonzero", dtype, "1M", lambda: calls(mx.nonzero, np.nonzero, torch and torch.nonzero, line())
        yield "flatnonzero", dtype, "1M", lambda: calls(mx.flatnonzero, np.flatnonzero, None, line())
        yield "argwhere", dtype, "1M", lambda: calls(mx.argwhere, np.argwhere, torch and torch.argwhere, line())


def products(o, calls):
    mx, np, torch = o.mx, o.np, o.torch
    forms = [("64x64", (64, 64), (64, 64)), ("512x512", (512, 512), (512, 512)), ("1x1024 by 1024x1024", (1, 1024), (1024, 1024)), ("1024x1024 by 1024x1", (1024, 1024), (1024, 1)), ("4096x3 by 3x512", (4096, 3), (3, 512)), ("1024x2 by 2x1024", (1024, 2), (2, 1024)),
             ("2x4096 by 4096x2", (2, 4096), (4096, 2)), ("4096 of 16x16", (4096, 16, 16), (4096, 16, 16)), ("512x64 transposed by 64x512", "t", (64, 512))]
    for dtype in DTYPES["matrix"]:
        two = lambda a, b: [o.all_of(o.numbers(dtype, -1, 1, s), dtype) for s in ((64, 512) if a == "t" else a, b)]  # noqa: E731
        for label, a, b in forms:
            if a == "t":
                yield "matmul", dtype, label, lambda: calls(lambda x, y: mx.matmul(x.T, y), lambda x, y: x.T @ y, torch and (lambda x, y: x.T @ y), *two(a, b))
            else:
                yield "matmul", dtype, label, lambda: calls(mx.matmul, np.matmul, torch and torch.matmul, *two(a, b))
        square = lambda: o.all_of(o.numbers(dtype, -1, 1, (256, 256)), dtype)  # noqa: E731
        yield "addmm", dtype, "256x256", lambda: calls(mx.addmm, None, torch and torch.addmm, square(), square(), square())
        yield "inner", dtype, "256x256", lambda: calls(mx.inner, np.inner, torch and torch.inner, square(), square())
        yield "outer", dtype, "1024", lambda: calls(mx.outer, np.outer, torch and torch.outer, *two((1024,), (1024,)))
        yield "tensordot", dtype, "256x256", lambda: calls(lambda x, y: mx.tensordot(x, y, 1), lambda x, y: np.tensordot(x, y, 1), torch and (lambda x, y: torch.tensordot(x, y, 1)), square(), square())
        yield "einsum", dtype, "ij,kj->ik", lambda: calls(lambda x, y: mx.einsum("ij,kj->ik", x, y), lambda x, y: np.einsum("ij,kj->ik", x, y, optimize=True), torch and (lambda x, y: torch.einsum("ij,kj->ik", x, y)), square(), square())
        yield "vecdot", dtype, "1024 of 1024", lambda: calls(mx.vecdot, np.vecdot, torch and torch.linalg.vecdot, *two((1024, 1024), (1024, 1024)))
        yield "linalg.cross", dtype, "64K of 3", lambda: calls(mx.linalg.cross, np.cross, torch and torch.linalg.cross, *two((1 << 16, 3), (1 << 16, 3)))
        if dtype in PLAIN:
            some = lambda: o.all_of(o.rng.integers(0, 8, 16).astype("uint32"), "uint32")[0]  # noqa: E731
            yield "gather_mm", dtype, "16 of 8 of 256x256", lambda: calls(lambda x, y, i: mx.gather_mm(x, y, rhs_indices=i), None, None, *two((16, 8, 256), (8, 256, 256)), (some(), None, None))
            yield "segmented_mm", dtype, "256x256, 4 segments", lambda: calls(lambda x, y: mx.segmented_mm(x, y, mx.array([[0, 64], [64, 128], [128, 192], [192, 256]], mx.uint32)), None, None, square(), square())
            yield "block_masked_mm", dtype, "256x256", lambda: calls(lambda x, y: mx.block_masked_mm(x, y, 64, mx.ones((4, 4), mx.bool_)), None, None, square(), square())
            for bits in 4, 8:
                w = lambda: mx.quantize(mx.random.normal((1024, 1024)).astype(getattr(mx, dtype)), 64, bits)  # noqa: E731
                yield "quantize", dtype, f"1024x1024, {bits} bits", lambda: calls(lambda x: mx.quantize(x, 64, bits), None, None, o.all_of(o.numbers(dtype, -1, 1, (1024, 1024)), dtype))
                yield "dequantize", dtype, f"1024x1024, {bits} bits", lambda: (lambda q: calls(lambda: mx.dequantize(*q, group_size=64, bits=bits), None, None))(w())
                for m in 1, 32:
                    yield "quantized_matmul", dtype, f"{m} rows by 1024x1024, {bits} bits", lambda: (lambda q: calls(lambda x: mx.quantized_matmul(x, *q, group_size=64, bits=bits), None, None, o.all_of(o.numbers(dtype, -1, 1, (m, 1024)), dtype)))(w())
                experts = lambda: mx.quantize(mx.random.normal((8, 256, 256)).astype(getattr(mx, dtype)), 64, bits)  # noqa: E731
                yield "gather_qmm", dtype, f"16 of 8 of 256x256, {bits} bits", lambda: (lambda q, i: calls(lambda x: mx.gather_qmm(x, *q, rhs_indices=i, group_size=64, bits=bits), None, None, o.all_of(o.numbers(dtype, -1, 1, (16, 1, 256)), dtype)))(experts(), some())
            codes = lambda: mx.quantize(mx.random.normal((256, 256)).astype(getattr(mx, dtype)), mode="nvfp4")  # noqa: E731
            yield "qqmm", dtype, "32x256 by 256x256", lambda: (lambda q: calls(lambda x: mx.qqmm(x, q[0], q[1], mode="nvfp4"), None, None, o.all_of(o.numbers(dtype, -1, 1, (32, 256)), dtype)))(codes())


def networks(o, calls):
    mx, np, torch = o.mx, o.np, o.torch
    F = torch and torch.nn.functional
    first = lambda x: torch.movedim(x, -1, 1)  # noqa: E731
    for dtype in PLAIN + ["float64"]:
        a = lambda *s: o.all_of(o.numbers(dtype, -1, 1, s), dtype)  # noqa: E731
        for n, image, kernel in ((1, (8, 2048, 64), (64, 5, 64)), (2, (8, 56, 56, 64), (64, 3, 3, 64)), (2, (8, 56, 56, 64), (64, 1, 1, 64)), (2, (8, 28, 28, 128), (128, 3, 3, 4)), (3, (1, 16, 28, 28, 32), (32, 3, 3, 3, 32))):
            if dtype == "float64":
                continue
            groups = image[-1] // kernel[-1]
            label = "x".join(map(str, image)) + f", k{kernel[1]}" + (f", {groups} groups" if groups > 1 else "")
            conv, ours = F and getattr(F, f"conv{n}d"), getattr(mx, f"conv{n}d")
            yield f"conv{n}d", dtype, label, lambda: calls(lambda x, w: ours(x, w, padding=kernel[1] // 2, groups=groups), None, F and (lambda x, w: conv(first(x), first(w), padding=kernel[1] // 2, groups=groups)), a(*image), a(*kernel))
            if groups == 1 and kernel[1] > 1:
                back, ours_back = F and getattr(F, f"conv_transpose{n}d"), getattr(mx, f"conv_transpose{n}d")
                yield f"conv_transpose{n}d", dtype, label, lambda: calls(ours_back, None, F and (lambda x, w: back(first(x), torch.movedim(first(w), 0, 1))), a(*image), a(*kernel))
        if dtype != "float64":
            yield "conv_general", dtype, "8x28x28x64, dilation 2", lambda: calls(lambda x, w: mx.conv_general(x, w, padding=2, kernel_dilation=2), None, F and (lambda x, w: F.conv2d(first(x), first(w), padding=2, dilation=2)), a(8, 28, 28, 64), a(64, 3, 3, 64))
            yield "convolve", dtype, "64K by 64", lambda: calls(mx.convolve, None if dtype == "float16" else np.convolve, None, a(1 << 16), a(64))
            yield "fast.rope", dtype, "1x32x512x128", lambda: calls(lambda x: mx.fast.rope(x, 128, traditional=False, base=10000.0, scale=1.0, offset=0), None, None, a(1, 32, 512, 128))
            yield "hadamard_transform", dtype, "1024 of 1024", lambda: calls(mx.hadamard_transform, None, None, a(1024, 1024))
            for lq in 1, 512:
                yield "fast.scaled_dot_product_attention", dtype, f"16 heads, {lq} by 512", lambda: calls(lambda q, k, v: mx.fast.scaled_dot_product_attention(q, k, v, scale=0.125), None, F and (lambda q, k, v: F.scaled_dot_product_attention(q, k, v, scale=0.125)), a(1, 16, lq, 64), a(1, 16, 512, 64), a(1, 16, 512, 64))
            yield "fast.gated_delta_update", dtype, "1x128x4x64", lambda: calls(lambda q, v, g: mx.fast.gated_delta_update(q, q, v, g, g, mx.zeros((1, 4, 64, 64))), None, None, a(1, 128, 4, 64), a(1, 128, 4, 64), a(1, 128, 4))
        for r, c in ((1024, 1024), (65536, 16)):
            yield "fast.rms_norm", dtype, f"{r} rows of {c}", lambda: calls(lambda x, w: mx.fast.rms_norm(x, w, 1e-5), None, F and (lambda x, w: F.rms_norm(x, (c,), w, 1e-5)), a(r, c), a(c))
            yield "fast.layer_norm", dtype, f"{r} rows of {c}", lambda: calls(lambda x, w: mx.fast.layer_norm(x, w, w, 1e-5), None, F and (lambda x, w: F.layer_norm(x, (c,), w, w, 1e-5)), a(r, c), a(c))
        targets = lambda: o.all_of(o.rng.integers(0, 1000, 1024).astype("int64"), "int64")  # noqa: E731
        yield "fast.cross_entropy", dtype, "1024 of 1000", lambda: calls(mx.fast.cross_entropy, None, F and (lambda x, t: F.cross_entropy(x, t, reduction="none")), a(1024, 1000), targets())


def transforms(o, calls, found):
    mx, np, torch = o.mx, o.np, o.torch
    for name, of_numpy, of_torch in rows(TRANSFORMS):
        f, g, h = getattr(mx.fft, name), found(np.fft, of_numpy, name), found(torch and torch.fft, of_torch, name)
        real = name.startswith("rfft")
        several = name[-1] in "2n" or "shift" in name
        for shape in ((256, 256), (1024, 1024), (100, 101)) if several else ((1 << 20,), (4096, 256), (512, 1021), (64, 64), (4096,), (1 << 16,)):
            for dtype in ("float32", "float64") if real else ("complex64",):
                yield "fft." + name, dtype, "x".join(map(str, shape)), lambda: calls(f, g, h, o.all_of(o.numbers(dtype, -1, 1, shape), dtype))
    for name in "fftfreq", "rfftfreq":
        yield "fft." + name, "float32", "1M", lambda: calls(lambda: getattr(mx.fft, name)(M), lambda: getattr(np.fft, name)(M), torch and (lambda: getattr(torch.fft, name)(M)))
    signal = lambda: o.all_of(o.numbers("float32", -1, 1, (1 << 18,)), "float32")  # noqa: E731
    window = torch and torch.hann_window(512)
    yield "fft.stft", "float32", "256K by 512", lambda: calls(lambda x: mx.fft.stft(x, 512, 128), None, torch and (lambda x: torch.stft(x, 512, 128, window=window, return_complex=True)), signal())
    yield "fft.istft", "float32", "256K by 512", lambda: (lambda s: calls(lambda: mx.fft.istft(s, hop_length=128), None, None))(mx.fft.stft(signal()[0], 512, 128))


def matrices(o, calls, found):
    mx, np, torch = o.mx, o.np, o.torch
    for name, of_numpy, of_torch, *kind in rows(MATRICES):
        f, g, h = getattr(mx.linalg, name), found(np.linalg, of_numpy, name), found(torch and torch.linalg, of_torch, name)
        for dtype in DTYPES["solved"]:
            for label, shape in (("16x16", (16, 16)), ("256x256", (256, 256)), ("1024 of 16x16", (1024, 16, 16))):
                def made():
                    a = o.numbers(dtype, -1, 1, shape) + np.eye(shape[-1], dtype=dtype) * 4
                    a = a @ np.swapaxes(a, -1, -2) if kind == ["definite"] else np.tril(a) if kind == ["lower"] else a
                    return calls(f, g, h, o.all_of(a.astype(dtype), dtype))
                yield "linalg." + name, dtype, label, made
    for dtype in DTYPES["solved"]:
        for n in 1, 64:
            b = lambda: o.all_of(o.numbers(dtype, -1, 1, (256, n)), dtype)  # noqa: E731
            a = lambda lower: o.all_of((lambda x: np.tril(x) if lower else x)(o.numbers(dtype, -1, 1, (256, 256)) + np.eye(256, dtype=dtype) * 9), dtype)  # noqa: E731
            yield "linalg.solve", dtype, f"256x256, {n} columns", lambda: calls(mx.linalg.solve, np.linalg.solve, torch and torch.linalg.solve, a(False), b())
            yield "linalg.solve_triangular", dtype, f"256x256, {n} columns", lambda: calls(mx.linalg.solve_triangular, None, torch and (lambda x, y: torch.linalg.solve_triangular(x, y, upper=False)), a(True), b())


def random_numbers(o, found):
    mx, np, torch = o.mx, o.np, o.torch
    for label, shape in (("4096", (4096,)), ("1M", (M,)), ("4M", (1 << 22,))):
        for name, of_numpy, of_torch in rows(RANDOM):
            bounds = (-1.0, 1.0) if name == "truncated_normal" else ()
            ours = {"normal": lambda: mx.random.normal(shape), "uniform": lambda: mx.random.uniform(shape=shape), "bernoulli": lambda: mx.random.bernoulli(0.5, shape), "truncated_normal": lambda: mx.random.truncated_normal(*bounds, shape)}.get(name, lambda: getattr(mx.random, name)(shape))

            def made():
                work = {"keel": lambda: mx.eval(ours())}
                if of_numpy != "-":
                    work["numpy"] = lambda: getattr(o.rng, of_numpy)(shape, dtype="float32")
                if of_torch != "-" and torch:
                    work["torch"] = lambda: getattr(torch, of_torch)(shape)
                return work

            yield "random." + name, "float32", label, made
        yield "random.randint", "int32", label, lambda: {"keel": lambda: mx.eval(mx.random.randint(0, 1000, shape)), "numpy": lambda: o.rng.integers(0, 1000, shape, "int32"), **({"torch": lambda: torch.randint(0, 1000, shape, dtype=torch.int32)} if torch else {})}
    yield "random.permutation", "int32", "1M", lambda: {"keel": lambda: mx.eval(mx.random.permutation(M)), "numpy": lambda: o.rng.permutation(M), **({"torch": lambda: torch.randperm(M)} if torch else {})}
    logits, mean, cov = mx.random.normal((64, 1000)), mx.zeros((16,)), mx.eye(16)
    yield "random.categorical", "float32", "64 of 1000", lambda: {"keel": lambda: mx.eval(mx.random.categorical(logits)), **({"torch": (lambda p: lambda: torch.multinomial(p, 1))(torch.softmax(torch.randn(64, 1000), 1))} if torch else {})}
    yield "random.multivariate_normal", "float32", "1024 of 16", lambda: {"keel": lambda: mx.eval(mx.random.multivariate_normal(mean, cov, (1024,)))}
