"""Gathers and scatters."""
import mlx.core as mx
import numpy as np

from .both import ALL, Both, call, lib, list_of, op, REALS, rnd, shape, vector


@op("take_axis")
def _():
    a = Both(shape(least=1, zero=0), rnd.choice(ALL))
    axis = rnd.randrange(len(a.shape))
    i = Both(shape(2), rnd.choice(["int32", "uint32", "int8", "int64"]), special=False, low=0, high=a.shape[axis])
    return (lambda: call("take_axis", a.keel, i.keel, axis)), (lambda: mx.take(a.mx, i.mx, axis=axis)), 1


@op("take_along_axis")
def _():
    a = Both(shape(least=1, zero=0), rnd.choice(ALL))
    axis = rnd.randrange(len(a.shape))
    s = list(a.shape)
    s[axis] = rnd.choice([1, 4])
    i = Both(s, "int32", special=False, low=-a.shape[axis], high=a.shape[axis])
    return (lambda: call("take_along_axis", a.keel, i.keel, axis)), (lambda: mx.take_along_axis(a.mx, i.mx, axis)), 1


def index_of(a, axis, s, low=None):
    return Both(s, rnd.choice(["int32", "uint32", "int64"]) if low == 0 else "int32", special=False, low=-a.shape[axis] if low is None else low, high=a.shape[axis])


@op("take")
def _():
    a = Both(shape(least=1, zero=0), rnd.choice(ALL))
    n = int(np.prod(a.shape))
    i = Both(shape(2), "int32", special=False, low=-n, high=n)
    return (lambda: call("take", a.keel, i.keel)), (lambda: mx.take(a.mx, i.mx)), 1


@op("gather")
def _():
    a = Both((rnd.choice([2, 5]), rnd.choice([1, 3]), 4), rnd.choice(ALL))
    i, j = index_of(a, 0, (3, 1)), index_of(a, 2, (2,))
    return (lambda: gather_two(a, i, j)), (lambda: a.mx[i.mx, :, j.mx]), 1


def gather_two(a, i, j):
    """a[i, :, j] as NumPy means it: (3, 2, rows)."""
    v = vector([i, j])
    try:
        g = call("gather", a.keel, v, *list_of([0, 2]), *list_of([1, a.shape[1], 1]))
    finally:
        lib.mlx_vector_array_free(v)
    return call("squeeze_axes", g, *list_of([2, 4]))


@op("put_along_axis")
def _():
    a = Both(shape(least=1, zero=0), rnd.choice(ALL))
    axis = rnd.randrange(len(a.shape))
    s = list(a.shape)
    s[axis] = 1  # one index per line: none is written twice
    i, v = index_of(a, axis, s), Both(s, a.dtype)
    return (lambda: call("put_along_axis", a.keel, i.keel, v.keel, axis)), (lambda: mx.put_along_axis(a.mx, i.mx, v.mx, axis)), 1


for mode, at in (("", None), ("_add", "add"), ("_prod", "multiply"), ("_max", "maximum"), ("_min", "minimum")):
    @op("scatter" + mode + "_single")
    def _(mode=mode, at=at):
        a = Both(shape(2, least=1, zero=0), rnd.choice(REALS[1:] if mode else ALL), special=False)
        i = index_of(a, 0, (rnd.randrange(1, 6),), 0)
        u = Both(i.shape + a.shape[1:], a.dtype, special=False)

        def theirs():
            if at:
                return getattr(a.mx.at[i.mx], at)(u.mx)
            z = mx.array(a.mx)
            z[i.mx] = u.mx
            return z

        def ours():
            one_more = call("expand_dims", u.keel, 1)
            return call("scatter" + mode + "_single", a.keel, i.keel, one_more, 0)

        return ours, theirs, 8


@op("masked_scatter")
def _():
    a = Both(shape(least=1, zero=0), rnd.choice(ALL))
    lead = rnd.randrange(1, len(a.shape) + 1)
    m = Both(a.shape[:lead], "bool")
    like = [n if rnd.random() < 0.7 else rnd.choice([1, 2, 3]) for n in a.shape[lead:]][rnd.randrange(len(a.shape) - lead + 1):]
    # Enough for all places: MLX hangs after it has found too few.
    src = Both(tuple([int(np.prod(m.shape)) + rnd.randrange(2)] * (rnd.random() < 0.6 or like == [] and lead == len(a.shape)) + like), a.dtype)

    def theirs():
        z = mx.array(a.mx)
        z[m.mx] = src.mx
        return z

    return (lambda: call("masked_scatter", a.keel, m.keel, src.keel)), theirs, 1
