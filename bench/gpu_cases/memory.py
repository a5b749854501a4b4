"""Cases that move memory: element-wise, rows, reductions, scans, FFTs, sorts, gathers and scatters."""
import ctypes as C

import numpy as np
import torch

from .measure import (
    FLOAT32, NO, NONE, YES, Handle, array_data, async_eval, both, call, case, cupy, dev, free_array,
    in_turn, ints, jax, jnp, mx, normal, peer_cupy, peer_jax, peer_torch, rng, run, start, to_keel,
    vec, vec_free, with_mlx,
)


def streams():
    n = 1 << 28
    a = normal(n)
    ka, ta = both(a)
    kb, tb = both(a[::-1].copy())
    out = torch.empty_like(ta)
    others = [call("add", ka, kb), call("subtract", ka, kb), call("multiply", ka, kb)]
    run(*others)
    turn = in_turn([ka, *others])
    p = {"torch": peer_torch(lambda: out.copy_(ta))}
    case("copy 2^28", 8 * n, lambda: start(call("copy", turn())), p)
    p = {"torch": peer_torch(lambda: torch.add(ta, tb, out=out))}
    if cupy is not None:
        ca, cb, co = cupy.asarray(ta), cupy.asarray(tb), cupy.asarray(out)
        p["cupy"] = peer_cupy(lambda: cupy.add(ca, cb, out=co))
    if jax is not None:
        ja, jb = jnp.from_dlpack(ta), jnp.from_dlpack(tb)
        p["jax"] = peer_jax(lambda x, y: x + y, ja, jb)
    case("add 2^28", 12 * n, lambda: start(call("add", turn(), turn())), p)
    p = {"torch": peer_torch(lambda: torch.exp(ta, out=out))}
    case("exp 2^28", 8 * n, lambda: start(call("exp", turn())), p)

    def scalar(x):
        v = C.c_float(x)
        h = array_data(C.byref(v), None, 0, FLOAT32)
        d = call("copy", h)
        run(d)
        free_array(h)
        return d

    k_minus, k_one = scalar(-1.702), scalar(1.0)

    def keel_gelu():
        x = turn()
        t = call("multiply", x, k_minus)
        e = call("exp", t)
        s = call("add", e, k_one)
        d = call("divide", k_one, s)
        r = call("multiply", x, d)
        for x in (t, e, s, d):
            free_array(x)
        start(r)

    def gelu(x):
        return x * (1.0 / (1.0 + torch.exp(x * -1.702)))

    compiled = torch.compile(gelu)
    case("gelu of five operations 2^28", 8 * n, keel_gelu,
         {"torch": peer_torch(lambda: gelu(ta)), "torch.compile": peer_torch(lambda: compiled(ta))})
    case("sum of all 2^28", 4 * n, lambda: start(call("sum", ka, C.c_bool(False))), {"torch": peer_torch(lambda: torch.sum(ta))})
    kr, tr = call("reshape", ka, ints(16384, 16384), C.c_size_t(2)), ta.view(16384, 16384)
    run(kr)
    case("sum of rows 16384^2", 4 * n, lambda: start(call("sum_axis", kr, 1, C.c_bool(False))), {"torch": peer_torch(lambda: torch.sum(tr, 1))})
    case("sum of columns 16384^2", 4 * n, lambda: start(call("sum_axis", kr, 0, C.c_bool(False))), {"torch": peer_torch(lambda: torch.sum(tr, 0))})
    softmaxes = {"torch": peer_torch(lambda: torch.softmax(tr, 1))}
    if mx is not None:
        mr = mx.array(a.reshape(16384, 16384))
        with_mlx(softmaxes, lambda: mx.softmax(mr, axis=1))
    case("softmax 16384^2", 8 * n, lambda: start(call("softmax_axis", kr, 1, C.c_bool(False))), softmaxes)

    def keel_transpose():
        t = call("transpose", kr)
        r = call("contiguous", t, C.c_bool(False))
        free_array(t)
        start(r)

    case("transpose copy 16384^2", 8 * n, keel_transpose, {"torch": peer_torch(lambda: tr.t().contiguous())})
    for x in (ka, kb, kr, *others):
        free_array(x)


class OptionalFloat(C.Structure):
    _fields_ = [("value", C.c_float), ("has_value", C.c_bool)]


def rows():
    """Norms, rotary embeddings, masked softmax and activations: operations of models that memory limits."""
    n = 16384
    a = normal(n, n)
    ka, ta = both(a)
    kw, tw = both(normal(n))
    kb, tb = both(normal(n))
    others = [call("add", ka, ka), call("negative", ka)]
    run(*others)
    turn = in_turn([ka, *others])
    F = torch.nn.functional
    size = 8 * n * n
    compiled = torch.compile(lambda x, w: F.rms_norm(x, (n,), w, 1e-5))
    norms = {"torch": peer_torch(lambda: F.rms_norm(ta, (n,), tw, 1e-5)), "torch.compile": peer_torch(lambda: compiled(ta, tw))}
    if mx is not None:
        ma, mw = mx.array(a), mx.array(tw.cpu().numpy())
        with_mlx(norms, lambda: mx.fast.rms_norm(ma, mw, 1e-5))
    case("rms_norm 16384^2", size, lambda: start(call("fast_rms_norm", turn(), kw, C.c_float(1e-5))), norms)
    case("layer_norm 16384^2", size, lambda: start(call("fast_layer_norm", turn(), kw, kb, C.c_float(1e-5))),
         {"torch": peer_torch(lambda: F.layer_norm(ta, (n,), tw, tb, 1e-5))})
    kx, tx = call("reshape", ka, ints(1, 128, n, 128), C.c_size_t(4)), ta.view(1, 128, n, 128)
    run(kx)
    angle = torch.outer(torch.arange(n, device=dev), 10000.0 ** (-torch.arange(64, device=dev) / 64))
    cos, sin = angle.cos(), angle.sin()

    def rotate(x):
        u, v = x[..., :64], x[..., 64:]
        return torch.cat([u * cos - v * sin, u * sin + v * cos], -1)

    compiled_rotate = torch.compile(rotate)
    case("rope 128 heads of 16384 x 128", size, lambda: start(
        call("fast_rope", kx, 128, NO, OptionalFloat(10000.0, True), C.c_float(1.0), 0, NONE)),
        {"torch": peer_torch(lambda: rotate(tx)), "torch.compile": peer_torch(lambda: compiled_rotate(tx))})
    mask = rng.integers(0, 2, (1, n)).astype(np.float32) * -1e4
    km, tm = both(mask)

    def keel_masked():
        t = call("add", turn(), km)
        r = call("softmax_axis", t, 1, NO)
        free_array(t)
        start(r)

    compiled_masked = torch.compile(lambda x: torch.softmax(x + tm, 1))
    case("masked softmax 16384^2", size, keel_masked,
         {"torch": peer_torch(lambda: torch.softmax(ta + tm, 1)), "torch.compile": peer_torch(lambda: compiled_masked(ta))})
    def keel_swiglu():
        x, y = turn(), turn()
        t = call("sigmoid", x)
        u = call("multiply", x, t)
        r = call("multiply", u, y)
        for z in (t, u):
            free_array(z)
        start(r)

    td = ta.clone()
    compiled_swiglu = torch.compile(lambda x, y: F.silu(x) * y)
    case("swiglu 16384^2", 12 * n * n, keel_swiglu,
         {"torch": peer_torch(lambda: F.silu(ta) * td), "torch.compile": peer_torch(lambda: compiled_swiglu(ta, td))})
    for x in (ka, kw, kb, km, kx, *others):
        free_array(x)


def reductions():
    n = 16384
    a = normal(n, n)
    ka, ta = both(a)
    size = 4 * n * n
    for axis, name in ((1, "rows"), (0, "columns")):
        ways = {
            "all": (lambda: call("all_axis", ka, axis, NO), lambda: torch.all(ta, axis)),
            "any of 0": (lambda: call("any_axis", kz, axis, NO), lambda: torch.any(tz, axis)),
            "prod": (lambda: call("prod_axis", ka, axis, NO), lambda: torch.prod(ta, axis)),
            "var": (lambda: call("var_axis", ka, axis, NO, 0), lambda: torch.var(ta, axis, correction=0)),
            "logsumexp": (lambda: call("logsumexp_axis", ka, axis, NO), lambda: torch.logsumexp(ta, axis)),
        }
        kz, tz = both(np.zeros((n, n), np.float32))
        for op, (keel, peer) in ways.items():
            case(f"{op} of {name} 16384^2", size, lambda: start(keel()), {"torch": peer_torch(peer)})
        free_array(kz)
    for op, keel, peer in (("var", lambda: call("var", ka, NO, 0), lambda: torch.var(ta, correction=0)),
                           ("logsumexp", lambda: call("logsumexp", ka, NO), lambda: torch.logsumexp(ta.view(-1), 0)),
                           ("prod", lambda: call("prod", ka, NO), lambda: torch.prod(ta))):
        case(f"{op} of all 2^28", size, lambda: start(keel()), {"torch": peer_torch(peer)})
    k4, t4 = call("reshape", ka, ints(64, 256, 256, 64), C.c_size_t(4)), ta.view(64, 256, 256, 64)
    run(k4)
    for op, keel, peer in (("sum", lambda: call("sum_axis", k4, 1, NO), lambda: torch.sum(t4, 1)),
                           ("var", lambda: call("var_axis", k4, 1, NO, 0), lambda: torch.var(t4, 1, correction=0))):
        case(f"{op} of axis 1 of (64, 256, 256, 64)", size, lambda: start(keel()), {"torch": peer_torch(peer)})
    free_array(k4)
    free_array(ka)


def scans():
    n = 1 << 28
    a = normal(n)
    ka, ta = both(a)
    kr, tr = call("reshape", ka, ints(16384, 16384), C.c_size_t(2)), ta.view(16384, 16384)
    run(kr)
    all_of_it, by_rows = {"torch": peer_torch(lambda: torch.cumsum(ta, 0))}, {"torch": peer_torch(lambda: torch.cumsum(tr, 1))}
    if mx is not None:
        ma = mx.array(a)
        mr = ma.reshape(16384, 16384)
        with_mlx(all_of_it, lambda: mx.cumsum(ma, axis=0))
        with_mlx(by_rows, lambda: mx.cumsum(mr, axis=1))
    case("cumsum 2^28", 8 * n, lambda: start(call("cumsum", ka, 0, NO, YES)), all_of_it)
    case("cumsum of rows 16384^2", 8 * n, lambda: start(call("cumsum", kr, 1, NO, YES)), by_rows)
    case("cumsum of columns 16384^2", 8 * n, lambda: start(call("cumsum", kr, 0, NO, YES)),
         {"torch": peer_torch(lambda: torch.cumsum(tr, 0))})
    case("cummax of rows 16384^2", 8 * n, lambda: start(call("cummax", kr, 1, NO, YES)),
         {"torch": peer_torch(lambda: torch.cummax(tr, 1))})
    for x in (ka, kr):
        free_array(x)


def fft():
    """Bytes: input and output once, though long transforms go through memory twice or thrice."""
    last, two = C.c_int(-1), C.c_size_t(2)
    for shape in ((1 << 20,), (1000003,), (4096, 256), (4096, 100), (512, 1021), (65536, 1024)):
        a = (normal(*shape) + 1j * normal(*shape)).astype(np.complex64)
        k, t = both(a)
        label = "x".join(map(str, shape)) + " complex64"
        for name, theirs in (("fft", torch.fft.fft), ("ifft", torch.fft.ifft)):
            p = {"torch": peer_torch(lambda: theirs(t))}
            if mx is not None:
                m = mx.array(a)
                with_mlx(p, lambda: getattr(mx.fft, name)(m))
            case(f"{name} {label}", 2 * a.nbytes, lambda: start(call("fft_" + name, k, shape[-1], last, 0)), p)
        free_array(k)
    for n in (1024, 4096):
        a = normal(n, n)
        k, t = both(a)
        case(f"rfft2 {n}x{n} float32", 2 * a.nbytes, lambda: start(call("fft_rfft2", k, ints(n, n), two, ints(0, 1), two, 0)), {"torch": peer_torch(lambda: torch.fft.rfft2(t))})
        z = torch.fft.rfft2(t)
        kz = to_keel(z.cpu().numpy())
        case(f"irfft2 {n}x{n} float32", 2 * a.nbytes, lambda: start(call("fft_irfft2", kz, ints(n, n), two, ints(0, 1), two, 0)), {"torch": peer_torch(lambda: torch.fft.irfft2(z, s=(n, n)))})
        free_array(k), free_array(kz)


def sorts():
    for n, name in ((1 << 26, "2^26"), (1 << 20, "1 M")):
        a = normal(n)
        ka, ta = both(a)
        p = {"torch": peer_torch(lambda: torch.sort(ta))}
        if mx is not None and n <= 1 << 20:
            ma = mx.array(a)
            with_mlx(p, lambda: mx.sort(ma))
        case(f"sort {name}", 8 * n, lambda: start(call("sort_axis", ka, 0)), p)
        case(f"argsort {name}", 8 * n, lambda: start(call("argsort_axis", ka, 0)), {"torch": peer_torch(lambda: torch.argsort(ta))})
        free_array(ka)
    a = normal(32, 32768)
    ka, ta = both(a)
    p = {"torch": peer_torch(lambda: torch.topk(ta, 64, 1))}
    if mx is not None:
        mk = mx.array(a)
        with_mlx(p, lambda: mx.topk(mk, 64, axis=1))
    case("top 64 of 32 x 32 K", 4 * 32 * 32768, lambda: start(call("topk_axis", ka, 64, 1)), p)
    case("sort of 32 x 32 K", 8 * 32 * 32768, lambda: start(call("sort_axis", ka, 1)), {"torch": peer_torch(lambda: torch.sort(ta, 1))})
    free_array(ka)


def index_of(n, below, seed=3):
    return np.random.default_rng(seed).integers(0, below, n, dtype=np.int32)


def gathers():
    def one(name, shape, n, cupy_too=True):
        a, i = normal(*shape), index_of(n, shape[0])
        ka, ta = both(a)
        ki, ti = to_keel(i), torch.from_numpy(i).to(dev).long()
        row = int(np.prod(shape[1:]))
        p = {"torch": peer_torch(lambda: ta[ti]), "torch.index_select": peer_torch(lambda: torch.index_select(ta, 0, ti))}
        if cupy is not None and cupy_too:
            ca, ci = cupy.asarray(ta), cupy.asarray(ti)
            p["cupy"] = peer_cupy(lambda: cupy.take(ca, ci, 0))
        case(name, 4 * n * (1 + row) + 4 * min(n, shape[0]) * row, lambda: start(call("take_axis", ka, ki, 0)), p)
        free_array(ka)
        free_array(ki)

    one("gather (100, 64) by 1 M", (100, 64), 1_000_000)
    one("gather (100, 1024) by 100 K", (100, 1024), 100_000)
    one("gather (4, 1 M) by one", (4, 1_000_000), 1)
    one("lookup 4 M rows of 128", (4_000_000, 128), 4_000_000)


def scatters():
    def one(name, shape, n_index, how="", axes=1):
        add, prod = how == "_add", how == "_prod"
        a = normal(*shape)
        idx = [index_of(n_index, shape[k], 3 + k) for k in range(axes)]
        row = int(np.prod(shape[axes:]))
        u = normal(n_index, *shape[axes:])
        if prod:  # the products stay near 1
            a, u = 1 + a / 1000, 1 + u / 1000
        ka, ta = both(a)
        kis, tis = [to_keel(i) for i in idx], [torch.from_numpy(i).to(dev).long() for i in idx]
        ku, tu = both(u.reshape((n_index,) + (1,) * axes + shape[axes:]))
        tu = tu.view((n_index,) + shape[axes:])
        out = ta.clone()
        v = vec((Handle * axes)(*kis), axes)
        f = "scatter" + how

        # PyTorch writes into its array; Keel's result is a new array unless the base has no other owner, so the base is given away.
        box = [call("copy", ka)]
        run(box[0])

        def keel():
            r = call(f, box[0], v, ku, ints(*range(axes)), C.c_size_t(axes))
            free_array(box[0])
            box[0] = r
            h = vec((Handle * 1)(r), 1)
            async_eval(h)
            vec_free(h)

        if prod:
            wide = tis[0].view(-1, *[1] * (tu.ndim - 1)).expand(tu.shape)
            p = {"torch": peer_torch(lambda: out.scatter_reduce_(0, wide, tu, "prod")),
                 "torch.index_reduce": peer_torch(lambda: out.index_reduce_(0, tis[0], tu, "prod"))}
        else:
            p = {"torch": peer_torch(lambda: out.index_put_(tuple(tis), tu, accumulate=add))}
        if add:
            p["torch.index_add"] = peer_torch(lambda: out.index_add_(0, tis[0], tu))
        elif not prod and axes == 1:
            p["torch.index_copy"] = peer_torch(lambda: out.index_copy_(0, tis[0], tu))
        case(name, 4 * n_index * (axes + 2 * row), keel, p)

        for x in (ka, ku, box[0], *kis):
            free_array(x)

    one("scatter (10, 64) by 1 M", (10, 64), 1_000_000)
    one("scatter (100 K, 64) by 1 M", (100_000, 64), 1_000_000)
    one("scatter (1 M, 64) by 100 K", (1_000_000, 64), 100_000)
    one("scatter (100 K,) by 1 M", (100_000,), 1_000_000)
    one("scatter (200 K,) by 20 M", (200_000,), 20_000_000)
    one("scatter (20 M,) by 20 M", (20_000_000,), 20_000_000)
    one("scatter (10 K, 64) by 1 M", (10_000, 64), 1_000_000)
    one("scatter (100, 64) by 10 M", (100, 64), 10_000_000)
    one("scatter (100, 10 K, 64) by 1 K", (100, 10_000, 64), 1_000)
    one("scatter (10, 100, 100, 21) by 10 K", (10, 100, 100, 21), 10_000)
    one("scatter (1000, 1000, 10) by two of 1 K", (1000, 1000, 10), 1_000, axes=2)
    one("scatter_add (10 K, 64) by 1 M", (10_000, 64), 1_000_000, "_add")
    one("scatter_add (200 K,) by 20 M", (200_000,), 20_000_000, "_add")
    one("scatter_prod (10 K, 64) by 1 M", (10_000, 64), 1_000_000, "_prod")
    one("scatter_prod (200 K,) by 20 M", (200_000,), 20_000_000, "_prod")
