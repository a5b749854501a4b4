"""Reductions, scans, sorts, selections and softmax."""
import ctypes as C

import mlx.core as mx
import numpy as np

from .both import (
    ALL, axis_of, Both, call, DTYPES, exact, FLOATS, Handle, ints, lib, list_of, MX, op, REALS,
    rnd, scalar, shape, size_t, SMALL, TABLE,
)


def reduction(name, dtypes=ALL, extra=(), mx_extra=None, loose=8, low=None, high=None):
    for form in ("", "_axis", "_axes"):
        if not hasattr(lib, f"mlx_{name}{form}"):
            continue

        def draw(form=form):
            a = Both(shape(least=1), rnd.choice(dtypes), special=rnd.random() < 0.3, low=low, high=high)
            nd, keepdims = len(a.shape), rnd.random() < 0.5
            axes = rnd.sample(range(nd), rnd.randrange(1, nd + 1))
            axes = [x - nd if rnd.random() < 0.3 else x for x in axes]
            ddof = rnd.choice([0, 1])
            more = (C.c_int(ddof),) if extra == "ddof" else ()
            kw = {"ddof": ddof} if extra == "ddof" else {}
            f = getattr(mx, name)
            over = None if form == "" else axes[0] if form == "_axis" else tuple(axes)
            if name in ("var", "std", "mean", "sum", "prod", "all", "any"):
                wide = a.exact() if name != "prod" or a.dtype not in SMALL else a.exact().astype(np.float64)
                exact.append(lambda: getattr(np, name)(wide, axis=over, keepdims=keepdims, **kw))
            if name in ("argmax", "argmin"):
                exact.append(lambda: getattr(np, name)(a.exact(), axis=over, keepdims=keepdims))
            if 0 in a.shape and name in ("sum", "prod", "all", "any", "mean", "var", "std"):  # MLX gives memory that nobody wrote, after up to 40 s: only the dtype is asked for
                one = f(mx.ones((1,), a.mx.dtype), axis=0, **({"ddof": 0} if kw else {})).dtype
                f = lambda x, axis=None, keepdims=False, **kw: mx.array(exact[-1]()).astype(one)
            if form == "":
                return (lambda: call(name, a.keel, C.c_bool(keepdims), *more)), (lambda: f(a.mx, keepdims=keepdims, **kw)), loose
            if form == "_axis":
                return (lambda: call(name + form, a.keel, axes[0], C.c_bool(keepdims), *more)), (lambda: f(a.mx, axis=axes[0], keepdims=keepdims, **kw)), loose
            return (lambda: call(name + form, a.keel, ints(axes), size_t(len(axes)), C.c_bool(keepdims), *more)), (lambda: f(a.mx, axis=axes, keepdims=keepdims, **kw)), loose

        TABLE[name + form] = draw


for n in ("sum", "prod", "max", "min", "all", "any", "mean", "logsumexp"):
    reduction(n, dtypes=REALS if n == "logsumexp" else ALL)


@op("median")
def _():
    a = Both(shape(least=1, zero=0), rnd.choice(REALS), special=False)
    axes = rnd.sample(range(len(a.shape)), rnd.randrange(1, len(a.shape) + 1))
    keepdims = rnd.random() < 0.5
    return (lambda: call("median", a.keel, ints(axes), size_t(len(axes)), C.c_bool(keepdims))), (lambda: mx.median(a.mx, axis=axes, keepdims=keepdims)), 2


for n in ("argmax", "argmin"):
    reduction(n, dtypes=REALS)
for n in ("var", "std"):
    reduction(n, extra="ddof", dtypes=REALS)


def along_none(a, f):
    """f, or where a has no elements a function that gives as few, of the dtype that f gives: scans and sorts of nothing can end the process of MLX."""
    return f if 0 not in a.shape else lambda x, axis: mx.zeros(x.shape, f(mx.ones((1,), x.dtype), 0).dtype)


def scan(name, dtypes=ALL):
    @op(name)
    def draw():
        a = Both(shape(least=1), rnd.choice(dtypes), special=rnd.random() < 0.3)
        axis, rev, inc = rnd.randrange(-len(a.shape), len(a.shape)), rnd.random() < 0.5, rnd.random() < 0.7
        if name in ("cumsum", "cumprod") and inc:
            turn = (lambda x: np.flip(x, axis)) if rev else (lambda x: x)
            exact.append(lambda: turn(getattr(np, name)(turn(a.exact()), axis=axis)))
        theirs = along_none(a, lambda x, axis: getattr(mx, name)(x, axis=axis, reverse=rev, inclusive=inc))
        return (lambda: call(name, a.keel, axis, C.c_bool(rev), C.c_bool(inc))), (lambda: theirs(a.mx, axis)), 8


for n in ("cumsum", "cumprod", "cummax", "cummin"):
    scan(n)
scan("logcumsumexp", REALS)


def along(name, dtypes=REALS, mx_name=None):
    @op(name + "_axis")
    def draw():
        a = Both(shape(least=1), rnd.choice(dtypes), special=rnd.random() < 0.3)
        axis = rnd.randrange(-len(a.shape), len(a.shape))
        theirs = along_none(a, lambda x, axis: getattr(mx, mx_name or name)(x, axis=axis))
        return (lambda: call(name + "_axis", a.keel, axis)), (lambda: theirs(a.mx, axis)), 1


along("sort")
along("argsort")


@op("softmax_axis")
def _():
    a = Both(shape(least=1), rnd.choice(REALS + ["complex64"]), special=rnd.random() < 0.2)
    axis, precise = rnd.randrange(-len(a.shape), len(a.shape)), rnd.random() < 0.5
    return (lambda: call("softmax_axis", a.keel, axis, C.c_bool(precise))), (lambda: mx.softmax(a.mx, axis=axis, precise=precise)), 4


@op("topk_axis")
def _():
    a = Both(shape(least=1, zero=0), rnd.choice(REALS), special=False)
    axis = rnd.randrange(len(a.shape))
    k = rnd.randrange(1, a.shape[axis] + 1)
    # MLX leaves the order open
    return (lambda: call("sort_axis", call("topk_axis", a.keel, k, axis), axis)), (lambda: mx.sort(mx.topk(a.mx, k, axis=axis), axis=axis)), 1


# ---- along axes ----
@op("partition_axis")
def _():
    a = Both(shape(least=1, zero=0), rnd.choice(REALS), special=rnd.random() < 0.3)
    axis = axis_of(a)
    k = rnd.randrange(-a.shape[axis], a.shape[axis])
    at = k % a.shape[axis]  # what is promised is which elements stand before and which behind, not their order

    def ours():
        out = call("partition_axis", a.keel, k, axis)
        pieces = []
        for lo, hi in ((0, at), (at, at + 1), (at + 1, a.shape[axis])):
            p, q = [0] * len(a.shape), list(a.shape)
            p[axis], q[axis] = lo, hi
            piece = call("slice", out, *list_of(p), *list_of(q), *list_of([1] * len(p)))
            pieces.append(call("sort_axis", piece, axis))
        v = lib.mlx_vector_array_new_data((Handle * 3)(*pieces), 3)
        try:
            return call("concatenate_axis", v, axis)
        finally:
            lib.mlx_vector_array_free(v)

    def theirs():
        x = mx.split(mx.partition(a.mx, k, axis), [at, at + 1], axis)
        return mx.concatenate([mx.sort(p, axis) if p.size else p for p in x], axis)

    return ours, theirs, 1


@op("argpartition_axis")
def _():
    a = Both(shape(least=1, zero=0), rnd.choice(REALS), special=False)
    axis = axis_of(a)
    k = rnd.randrange(-a.shape[axis], a.shape[axis])
    # equal elements may come in another order: the element at the kth place is the same
    return (lambda: call("take_axis", call("take_along_axis", a.keel, call("argpartition_axis", a.keel, k, axis), axis), scalar(k), axis)), (lambda: mx.take(mx.take_along_axis(a.mx, mx.argpartition(a.mx, k, axis), axis), mx.array(k), axis)), 1


@op("softmax_axes")
def _():
    a = Both(shape(least=1), rnd.choice(FLOATS), special=False)
    axes = rnd.sample(range(len(a.shape)), rnd.randrange(1, len(a.shape) + 1))
    return (lambda: call("softmax_axes", a.keel, *list_of(axes), C.c_bool(True))), (lambda: mx.softmax(a.mx, axis=axes, precise=True)), 4


@op("trace")
def _():
    a, t = Both(shape(least=2, zero=0), rnd.choice(ALL), special=False), rnd.choice(["int32", "float32", "int64"])
    p, q = rnd.sample(range(len(a.shape)), 2)
    return (lambda: call("trace", a.keel, 0, p, q, DTYPES.index(t))), (lambda: mx.trace(a.mx, 0, p, q, MX[t])), 8
