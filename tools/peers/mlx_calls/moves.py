"""Arrays in other shapes, joined, split, cut out and updated, and arrays made from parameters."""
import ctypes as C

import mlx.core as mx
import numpy as np

from .both import (
    ALL, axis_of, Both, broadcastable, call, DTYPES, FLOATS, given, ints, keep, lib, list_of, MX,
    one_of, op, REALS, rnd, shape, size_t, TABLE, vector,
)


@op("pad")
def _():
    a = Both(shape(least=1), rnd.choice(ALL), special=False)
    axes = rnd.sample(range(len(a.shape)), rnd.randrange(1, len(a.shape) + 1))
    lo, hi = [rnd.randrange(3) for _ in axes], [rnd.randrange(3) for _ in axes]
    v, mode = Both((), a.dtype, special=False), rnd.choice(["constant", "edge"])
    widths = [(0, 0)] * len(a.shape)
    for x, p, q in zip(axes, lo, hi):
        widths[x] = (p, q)
    return (lambda: call("pad", a.keel, ints(axes), size_t(len(axes)), ints(lo), size_t(len(lo)), ints(hi), size_t(len(hi)), v.keel, mode.encode())), (lambda: mx.pad(a.mx, widths, mode=mode, constant_values=v.mx)), 1


@op("tile")
def _():
    a, reps = Both(shape(), rnd.choice(ALL)), [rnd.randrange(0, 3) for _ in range(rnd.randrange(1, 4))]
    return (lambda: call("tile", a.keel, ints(reps), size_t(len(reps)))), (lambda: mx.tile(a.mx, reps)), 1


@op("repeat_axis")
def _():
    a, n = Both(shape(least=1), rnd.choice(ALL)), rnd.randrange(0, 4)
    axis = rnd.randrange(-len(a.shape), len(a.shape))
    return (lambda: call("repeat_axis", a.keel, n, axis)), (lambda: mx.repeat(a.mx, n, axis=axis)), 1


@op("roll_axis")
def _():
    a = Both(shape(least=1), rnd.choice(ALL))
    axis, by = rnd.randrange(-len(a.shape), len(a.shape)), rnd.randrange(-6, 7)
    return (lambda: call("roll_axis", a.keel, ints([by]), size_t(1), axis)), (lambda: mx.roll(a.mx, by, axis)), 1


for n in ("tril", "triu"):
    @op(n)
    def _(n=n):
        a, k = Both(shape(least=2), rnd.choice(ALL)), rnd.randrange(-3, 4)
        return (lambda: call(n, a.keel, k)), (lambda: getattr(mx, n)(a.mx, k)), 1


@op("diagonal")
def _():
    a = Both(shape(least=2, zero=0), rnd.choice(ALL))
    p, q = rnd.sample(range(len(a.shape)), 2)
    k = rnd.randrange(-2, 3)
    return (lambda: call("diagonal", a.keel, k, p, q)), (lambda: mx.diagonal(a.mx, k, p, q)), 1


@op("diag")
def _():
    a, k = Both(shape(2, least=1, zero=0), rnd.choice(ALL)), rnd.randrange(-2, 3)
    return (lambda: call("diag", a.keel, k)), (lambda: mx.diag(a.mx, k)), 1


@op("eye")
def _():
    n, m, k, t = rnd.randrange(0, 5), rnd.randrange(0, 5), rnd.randrange(-3, 4), rnd.choice(ALL)
    return (lambda: call("eye", n, m, k, DTYPES.index(t))), (lambda: mx.eye(n, m, k, MX[t])), 1


@op("linspace")
def _():
    p, q, n, t = rnd.uniform(-5, 5), rnd.uniform(-5, 5), rnd.randrange(0, 9), rnd.choice(FLOATS + ["int32"])
    return (lambda: call("linspace", C.c_double(p), C.c_double(q), n, DTYPES.index(t))), (lambda: mx.linspace(p, q, n, dtype=MX[t])), 4


def moves(name, draw):
    """draw(a) gives the arguments of Keel and the function of MLX."""

    def go():
        a = Both(shape(least=1), rnd.choice(ALL))
        args, f = draw(a)
        return (lambda: call(name, a.keel, *args)), (lambda: f(a.mx)), 1

    TABLE[name] = go


def draw_reshape(a):
    n = int(np.prod(a.shape))
    s = rnd.choice([(n,), (1, n), (-1, 1), a.shape[::-1], (n, 1, 1), (2, -1)])
    return list_of(s), lambda x: mx.reshape(x, s)


def draw_flatten(a):
    p, q = axis_of(a), axis_of(a)
    return (p, q), lambda x: mx.flatten(x, p, q)


def draw_two_axes(f):
    def draw(a):
        p, q = axis_of(a), axis_of(a)
        return (p, q), lambda x: f(x, p, q)

    return draw


def draw_permutation(a):
    order = rnd.sample(range(len(a.shape)), len(a.shape))
    return list_of(order), lambda x: mx.transpose(x, order)


def draw_broadcast(a):
    s = tuple(rnd.choice([2, 3]) for _ in range(rnd.randrange(3))) + tuple(4 if d == 1 and rnd.random() < 0.5 else d for d in a.shape)
    return list_of(s), lambda x: mx.broadcast_to(x, s)


def draw_new_axes(a):
    axes = rnd.sample(range(len(a.shape) + 2), 2)
    return list_of(axes), lambda x: mx.expand_dims(x, axes)


def draw_new_axis(a):
    p = rnd.randrange(-len(a.shape) - 1, len(a.shape) + 1)
    return (p,), lambda x: mx.expand_dims(x, p)


def draw_no_axes(a):
    axes = [i for i, d in enumerate(a.shape) if d == 1] if rnd.random() < 0.8 else [axis_of(a)]
    return list_of(axes), lambda x: mx.squeeze(x, axes)


def draw_no_axis(a):
    p = axis_of(a)
    return (p,), lambda x: mx.squeeze(x, p)


def draw_unflatten(a):
    p = axis_of(a)
    s = rnd.choice([(1, a.shape[p]), (-1, 1), (a.shape[p], 1), (2, -1)])
    return (p,) + list_of(s), lambda x: mx.unflatten(x, p, s)


def draw_slice(a):
    start, stop, step = [], [], []
    for d in a.shape:
        p, q = sorted((rnd.randrange(d + 1), rnd.randrange(d + 1)))
        start.append(p), stop.append(q), step.append(rnd.choice([1, 1, 2, 3]))
    return list_of(start) + list_of(stop) + list_of(step), lambda x: x[tuple(slice(*v) for v in zip(start, stop, step))]


def draw_strided(a):
    n = int(np.prod(a.shape))
    s, strides, offset = (rnd.randrange(1, 4), rnd.randrange(1, 4)), (rnd.randrange(3), rnd.randrange(3)), rnd.randrange(3)
    if offset + sum((d - 1) * t for d, t in zip(s, strides)) >= n:
        s, strides, offset = (0, 2), (1, 1), 0
    return list_of(s) + ((C.c_int64 * 2)(*strides), size_t(2), size_t(offset)), lambda x: mx.as_strided(x, s, strides, offset)


def draw_roll(a):
    by = rnd.randrange(-6, 7)
    return list_of([by]), lambda x: mx.roll(x, by)


def draw_roll_axes(a):
    axes = rnd.sample(range(len(a.shape)), rnd.randrange(1, len(a.shape) + 1))
    by = [rnd.randrange(-6, 7) for _ in axes]
    return list_of(by) + list_of(axes), lambda x: mx.roll(x, by, axes)


def draw_repeat(a):
    n = rnd.randrange(0, 4)
    return (n,), lambda x: mx.repeat(x, n)


def draw_pad(a):
    n, v = rnd.randrange(0, 3), Both((), a.dtype, special=False)
    return (n, v.keel, b"constant"), lambda x: mx.pad(x, n, constant_values=v.mx)


for name, draw in (("reshape", draw_reshape), ("flatten", draw_flatten), ("swapaxes", draw_two_axes(mx.swapaxes)), ("moveaxis", draw_two_axes(mx.moveaxis)), ("transpose_axes", draw_permutation), ("broadcast_to", draw_broadcast),
                   ("expand_dims_axes", draw_new_axes), ("expand_dims", draw_new_axis), ("squeeze_axes", draw_no_axes), ("squeeze_axis", draw_no_axis), ("unflatten", draw_unflatten), ("slice", draw_slice), ("as_strided", draw_strided),
                   ("roll", draw_roll), ("roll_axes", draw_roll_axes), ("repeat", draw_repeat), ("pad_symmetric", draw_pad)):
    moves(name, draw)
for name, f in (("transpose", mx.transpose), ("squeeze", mx.squeeze), ("copy", lambda x: x), ("atleast_1d", mx.atleast_1d), ("atleast_2d", mx.atleast_2d), ("atleast_3d", mx.atleast_3d), ("zeros_like", mx.zeros_like), ("ones_like", mx.ones_like)):
    moves(name, lambda a, f=f: ((), f))


@op("slice_update")
def _():
    a = Both(shape(least=1), rnd.choice(ALL))
    start, stop, step = [], [], []
    for d in a.shape:
        p, q = sorted((rnd.randrange(d + 1), rnd.randrange(d + 1)))
        start.append(p), stop.append(q), step.append(rnd.choice([1, 2]))
    s = tuple(max(0, -(-(q - p) // t)) for p, q, t in zip(start, stop, step))
    u = Both(broadcastable(s), rnd.choice([a.dtype, "int32"]), special=False)

    def put():
        z = mx.array(a.mx)
        z[tuple(slice(*v) for v in zip(start, stop, step))] = u.mx
        return z

    return (lambda: call("slice_update", a.keel, u.keel, *list_of(start), *list_of(stop), *list_of(step))), put, 1


for mode, at in (("add", "add"), ("prod", "multiply"), ("max", "maximum"), ("min", "minimum")):
    @op("slice_update_" + mode)
    def _(mode=mode, at=at):
        a = Both(shape(least=1, zero=0), rnd.choice(REALS[1:]), special=False)
        stop = [rnd.randrange(1, d + 1) for d in a.shape]
        zero, one = [0] * len(stop), [1] * len(stop)
        u = Both(stop, a.dtype, special=False)
        return (lambda: call("slice_update_" + mode, a.keel, u.keel, *list_of(zero), *list_of(stop), *list_of(one))), (lambda: getattr(a.mx.at[tuple(slice(0, d) for d in stop)], at)(u.mx)), 4


@op("slice_dynamic")
def _():
    a = Both(shape(least=1, zero=0), rnd.choice(ALL))
    size = [rnd.randrange(1, d + 1) for d in a.shape]
    start = np.array([rnd.randrange(d - n + 1) for d, n in zip(a.shape, size)], np.int32)
    k = keep(lib.mlx_array_new_data(start.ctypes.data, ints([len(start)]), 1, DTYPES.index("int32")))
    axes = list(range(len(size)))
    return (lambda: call("slice_dynamic", a.keel, k, *list_of(axes), *list_of(size))), (lambda: mx.slice(a.mx, mx.array(start), axes, size)), 1


@op("slice_update_dynamic")
def _():
    a = Both(shape(least=1, zero=0), rnd.choice(ALL))
    u = Both([rnd.randrange(1, d + 1) for d in a.shape], a.dtype)
    start = np.array([rnd.randrange(d - n + 1) for d, n in zip(a.shape, u.shape)], np.int32)
    k = keep(lib.mlx_array_new_data(start.ctypes.data, ints([len(start)]), 1, DTYPES.index("int32")))
    axes = list(range(len(start)))
    return (lambda: call("slice_update_dynamic", a.keel, u.keel, k, *list_of(axes))), (lambda: mx.slice_update(a.mx, u.mx, mx.array(start), axes)), 1


@op("concatenate")
def _():
    parts = [Both(shape(), rnd.choice(ALL)) for _ in range(rnd.randrange(1, 4))]
    return (lambda: given("concatenate", parts)), (lambda: mx.concatenate([p.mx for p in parts], None)), 1


@op("concatenate_axis")
def _():
    s = list(shape(least=1))
    axis = rnd.randrange(len(s))
    parts = [Both(s[:axis] + [rnd.randrange(4)] + s[axis + 1:], rnd.choice(ALL)) for _ in range(rnd.randrange(1, 4))]
    return (lambda: given("concatenate_axis", parts, axis)), (lambda: mx.concatenate([p.mx for p in parts], axis)), 1


@op("stack_axis")
def _():
    s = shape()
    axis = rnd.randrange(-len(s) - 1, len(s) + 1)
    parts = [Both(s, rnd.choice(ALL)) for _ in range(rnd.randrange(1, 4))]
    return (lambda: given("stack_axis", parts, axis)), (lambda: mx.stack([p.mx for p in parts], axis)), 1


@op("split")
def _():
    a, n, i = Both(shape(least=1), rnd.choice(ALL)), rnd.choice([1, 1, 2, 3]), rnd.randrange(6)
    axis = axis_of(a)
    return (lambda: one_of("split", i, a.keel, n, axis)), (lambda: (lambda v: v[i % len(v)])(mx.split(a.mx, n, axis))), 1


@op("split_sections")
def _():
    a, i = Both(shape(least=1), rnd.choice(ALL)), rnd.randrange(6)
    axis = axis_of(a)
    at = sorted(rnd.randrange(a.shape[axis] + 1) for _ in range(rnd.randrange(1, 4)))
    return (lambda: one_of("split_sections", i, a.keel, *list_of(at), axis)), (lambda: (lambda v: v[i % len(v)])(mx.split(a.mx, at, axis))), 1


@op("meshgrid")
def _():
    parts, i, sparse, indexing = [Both((rnd.randrange(1, 4),), "float32") for _ in range(rnd.randrange(1, 4))], rnd.randrange(6), rnd.random() < 0.5, rnd.choice(["xy", "ij"])

    def ours():
        v = vector(parts)
        try:
            return one_of("meshgrid", i, v, C.c_bool(sparse), indexing.encode())
        finally:
            lib.mlx_vector_array_free(v)

    return ours, (lambda: (lambda v: v[i % len(v)])(mx.meshgrid(*[p.mx for p in parts], sparse=sparse, indexing=indexing))), 1


@op("broadcast_arrays")
def _():
    s, i = shape(), rnd.randrange(6)
    parts = [Both(broadcastable(s), rnd.choice(ALL)) for _ in range(rnd.randrange(1, 4))]

    def ours():
        v = vector(parts)
        try:
            return one_of("broadcast_arrays", i, v)
        finally:
            lib.mlx_vector_array_free(v)

    return ours, (lambda: (lambda v: v[i % len(v)])(mx.broadcast_arrays(*[p.mx for p in parts]))), 1


# ---- made from parameters ----
@op("arange")
def _():
    p, q, d, t = rnd.randrange(-9, 9), rnd.randrange(-9, 9), rnd.choice([1, 2, -1, 0.5]), rnd.choice(["int32", "float32", "int64", "float16"])
    return (lambda: call("arange", C.c_double(p), C.c_double(q), C.c_double(d), DTYPES.index(t))), (lambda: mx.arange(p, q, d, dtype=MX[t])), 1


@op("full")
def _():
    s, v, t = shape(), Both((), rnd.choice(ALL), special=False, low=0, high=9), rnd.choice(ALL)
    return (lambda: call("full", *list_of(s), v.keel, DTYPES.index(t))), (lambda: mx.full(s, v.mx.astype(MX[t]))), 1  # the Python function takes no notice of the dtype when the value is an array


for n in ("zeros", "ones"):
    @op(n)
    def _(n=n):
        s, t = shape(), rnd.choice(ALL)
        return (lambda: call(n, *list_of(s), DTYPES.index(t))), (lambda: getattr(mx, n)(s, MX[t])), 1


@op("tri")
def _():
    n, m, k, t = rnd.randrange(-1, 5), rnd.randrange(-1, 5), rnd.randrange(-3, 4), rnd.choice(ALL)
    return (lambda: call("tri", n, m, k, DTYPES.index(t))), (lambda: mx.tri(n, m, k, MX[t])), 1


@op("identity")
def _():
    n, t = rnd.randrange(0, 5), rnd.choice(ALL)
    return (lambda: call("identity", n, DTYPES.index(t))), (lambda: mx.identity(n, MX[t])), 1


for n in ("hanning", "hamming", "blackman", "bartlett"):
    @op(n)
    def _(n=n):
        m = rnd.randrange(0, 40)
        return (lambda: call(n, m)), (lambda: getattr(mx, n)(m)), 2
