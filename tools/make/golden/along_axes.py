"""Golden values of more reductions, and of scans."""
import numpy as np

from .table import (
    ALL, Arr, EPS, FLOATS, INTS, RNG, Table, UINTS, as_float, inexact, restart, round_to, sample,
    sum_dtype, wide, wrap,
)

# ---- more reductions ----
restart(20250711)
t = Table("statistics")
KINDS = [((2, 3, 4), (1,), False), ((2, 3, 4), (2, 0), True), ((2, 3, 4), (0, 1, 2), False)]


def as_inexact(a):
    r = inexact(a.dtype)
    return round_to(as_float(a), r).astype(np.complex128 if r == "complex64" else np.float64)


def logsumexp(x, axis, keepdims=False):
    top = np.max(np.real(x), axis=axis, keepdims=True)
    shift = np.where(np.isfinite(top), top, 0)
    out = np.log(np.sum(np.exp(x - shift), axis=axis, keepdims=True)) + shift
    return out if keepdims else np.squeeze(out, axis)


for d in ALL:
    a = Arr(RNG.integers(0 if d in ["bool"] + UINTS else -2, 3, (2, 3, 4)), d)
    b = sample(d, (2, 3, 4), special_values=d in INTS and "64" not in d)
    r = inexact(d)
    for shape, axes, keep in KINDS:
        args = f".axes = {{{', '.join(map(str, axes))}}}, .n_axes = {len(axes)}, .keepdims = {str(keep).lower()}"
        x = a.v.astype(int) if d == "bool" else wide(a)
        p = np.prod(x, axis=axes, keepdims=keep)
        out = Arr(wrap(p, sum_dtype(d)) if d in INTS else p, sum_dtype(d))
        t.add(f"prod {d} {axes}", f".reduce = kl_prod_axes, {args}", [a], out)
        z = Arr(np.where(np.arange(24).reshape(shape) % 7 < 5, b.v, 0), d)
        t.add(f"all {d} {axes}", f".reduce = kl_all_axes, {args}", [z], Arr(np.all(z.v != 0, axis=axes, keepdims=keep), "bool"))
        t.add(f"any {d} {axes}", f".reduce = kl_any_axes, {args}", [a], Arr(np.any(a.v != 0, axis=axes, keepdims=keep), "bool"))
        far = b if d in INTS + ["bool"] else Arr(b.v + 30, d)  # results near 0 have a large relative error
        x = as_inexact(far)
        t.add(f"logsumexp {d} {axes}", f".reduce = kl_logsumexp_axes, {args}", [far], Arr(logsumexp(x, axes, keep), r), 4 * EPS[r])
        x = as_inexact(b)
        var = np.var(x, axis=axes, keepdims=keep, ddof=len(axes) - 1)
        v = "float32" if d == "complex64" else r
        args += f", .ddof = {len(axes) - 1}"
        t.add(f"var {d} {axes}", f".variance = kl_var_axes, {args}", [b], Arr(var, v), 4 * EPS[v])
        t.add(f"std {d} {axes}", f".variance = kl_std_axes, {args}", [b], Arr(np.sqrt(var), v), 4 * EPS[v])
        if d != "complex64":
            args = args[: args.rindex(", .ddof")]
            t.add(f"median {d} {axes}", f".reduce = kl_median_axes, {args}", [b], Arr(np.median(x, axis=axes, keepdims=keep), r), 2 * EPS[r])
    if d in FLOATS:
        v = np.array([[1, -np.inf, 3], [-np.inf] * 3, [1, np.inf, -np.inf], [np.nan, np.inf, 1], [2.5, np.nan, -1]])
        c = Arr(v, d)
        t.add(f"logsumexp {d} special", ".reduce = kl_logsumexp_axes, .axes = {1}, .n_axes = 1", [c], Arr(logsumexp(c.v.astype(float), 1), d), 4 * EPS[d])
        t.add(f"median {d} special", ".reduce = kl_median_axes, .axes = {1}, .n_axes = 1", [c], Arr(np.median(c.v.astype(float), 1), d))
t.write()

# ---- scans ----
t = Table("scan")


def shifted(v, axis, reverse, first):
    v = np.flip(v, axis) if reverse else v
    first = np.full_like(np.take(v, [0], axis), first)
    v = np.concatenate([first, np.delete(v, -1, axis)], axis)
    return np.flip(v, axis) if reverse else v


def logaddexp(x, axis):
    if not np.iscomplexobj(x):
        return np.logaddexp.accumulate(x, axis)
    return np.log(np.cumsum(np.exp(x), axis))


for d in ALL:
    a = Arr(RNG.integers(0 if d in ["bool"] + UINTS else -3, 4, (2, 5, 3)), d)
    b = sample(d, (2, 5, 3), special_values=d in INTS)
    if d not in INTS + ["bool"]:  # sums of these are exact
        b = Arr(np.round(b.v * 4) / 4, d)
    r = inexact(d)
    for k, (axis, reverse, exclusive) in enumerate([(1, False, False), (2, True, False), (0, False, True), (2, True, True)]):
        args = f".axes = {{{axis}}}, .n_axes = 1, .reverse = {str(reverse).lower()}, .exclusive = {str(exclusive).lower()}"
        low = np.iinfo(d).min if d in INTS else 0 if d == "bool" else -np.inf
        high = np.iinfo(d).max if d in INTS else 1 if d == "bool" else np.inf
        if d == "complex64":
            low, high = complex(low, low), complex(high, high)
        for name, src, fn, first, out in (
            ("cumsum", b, np.cumsum, 0, "int32" if d == "bool" else d),
            ("cumprod", a, np.cumprod, 1, d),
            ("cummax", b, np.maximum.accumulate, low, d),
            ("cummin", b, np.minimum.accumulate, high, d),
            ("logcumsumexp", b, logaddexp, -np.inf, r),
        ):
            if name == "logcumsumexp":
                x = as_inexact(src)
            elif name.startswith("cumm"):
                x = src.v
            else:
                x = src.v.astype(object) if d in INTS + ["bool"] else wide(src)
            x = np.flip(x, axis) if reverse else x
            y = fn(x, axis)
            y = np.flip(y, axis) if reverse else y
            if exclusive:
                y = shifted(y, axis, reverse, first)
            if d in INTS and not name.startswith("log"):
                y = wrap(y, out)
            tol = (8 if d == "complex64" else 4) * EPS[r] if name == "logcumsumexp" else 0
            t.add(f"{name} {d} {k}", f".scan = kl_{name}, {args}", [src], Arr(y, out), tol)
    if d in FLOATS:
        c = Arr([1, -0.0, np.nan, 5, np.inf, -np.inf, 2], d)
        for name in ("cummax", "cummin"):
            y = getattr(np, {"cummax": "maximum", "cummin": "minimum"}[name]).accumulate(c.v)
            t.add(f"{name} {d} NaN", f".scan = kl_{name}, .axes = {{0}}, .n_axes = 1", [c], Arr(y, d))
        c = Arr([-np.inf, -np.inf, 1, 1000, -np.inf, np.inf, 3], d)
        t.add(f"logcumsumexp {d} special", ".scan = kl_logcumsumexp, .axes = {0}, .n_axes = 1", [c], Arr(np.logaddexp.accumulate(c.v.astype(float)), d), 4 * EPS[d])
t.write()
