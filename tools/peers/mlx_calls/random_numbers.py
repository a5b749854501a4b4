"""Random numbers: the same key, the same numbers."""
import ctypes as C

import mlx.core as mx

from .both import (
    axis_of, Both, call, DTYPES, FLOATS, Handle, keep, lib, list_of, MX, op, rnd, shape,
)


def key_of(seed):
    k = lib.mlx_array_new()
    lib.mlx_random_key.argtypes = [C.POINTER(Handle), C.c_uint64]
    lib.mlx_random_key(C.byref(k), seed)
    return keep(k)


def randoms(name, draw, loose=1):
    """draw() gives the arguments of Keel before the key, and MLX's function of the key."""

    @op("random_" + name)
    def go():
        seed = rnd.randrange(1 << 40)
        args, f = draw()
        return (lambda: call("random_" + name, *args, key_of(seed))), (lambda: f(mx.random.key(seed))), loose


def draw_uniform():
    s, t = shape(), rnd.choice(FLOATS)
    lo, hi = Both((), t, special=False, low=-3, high=0), Both((), t, special=False, low=1, high=3)
    return (lo.keel, hi.keel, *list_of(s), DTYPES.index(t)), lambda k: mx.random.uniform(lo.mx, hi.mx, s, MX[t], k)


def draw_normal():
    s, t, m, d = shape(), rnd.choice(FLOATS), rnd.choice([0.0, 2.0]), rnd.choice([1.0, 0.5])
    return (*list_of(s), DTYPES.index(t), C.c_float(m), C.c_float(d)), lambda k: mx.random.normal(s, MX[t], m, d, k)


def draw_laplace():
    s, m, d = shape(), rnd.choice([0.0, 2.0]), rnd.choice([1.0, 0.5])
    return (*list_of(s), DTYPES.index("float32"), C.c_float(m), C.c_float(d)), lambda k: mx.random.laplace(s, mx.float32, m, d, k)


def draw_gumbel():
    s, t = shape(), "float32"
    return (*list_of(s), DTYPES.index(t)), lambda k: mx.random.gumbel(s, MX[t], k)


def draw_randint():
    s, t = shape(), rnd.choice(["int32", "int64", "uint32"])
    lo, hi = Both((), "int32", special=False, low=0, high=5), Both((), "int32", special=False, low=6, high=99)
    return (lo.keel, hi.keel, *list_of(s), DTYPES.index(t)), lambda k: mx.random.randint(lo.mx, hi.mx, s, MX[t], k)


def draw_bernoulli():
    s, p = shape(), Both((), "float32", special=False, low=0, high=1)
    return (p.keel, *list_of(s)), lambda k: mx.random.bernoulli(p.mx, s, k)


def draw_categorical():
    a = Both(shape(least=1, zero=0), "float32", special=False)
    axis = axis_of(a)
    return (a.keel, axis), lambda k: mx.random.categorical(a.mx, axis, key=k)


def draw_truncated():
    s = shape()
    lo, hi = Both((), "float32", special=False, low=-2, high=0), Both((), "float32", special=False, low=0.5, high=2)
    return (lo.keel, hi.keel, *list_of(s), DTYPES.index("float32")), lambda k: mx.random.truncated_normal(lo.mx, hi.mx, s, mx.float32, k)


def draw_shuffle():
    n = rnd.randrange(1, 40)
    return (n,), lambda k: mx.random.permutation(n, key=k)



for name, draw, loose in (("uniform", draw_uniform, 1), ("normal", draw_normal, 4), ("laplace", draw_laplace, 4), ("gumbel", draw_gumbel, 4), ("randint", draw_randint, 1), ("bernoulli", draw_bernoulli, 1), ("categorical", draw_categorical, 1),
                          ("truncated_normal", draw_truncated, 8), ("permutation_arange", draw_shuffle, 1)):
    randoms(name, draw, loose)


@op("random_split_num")
def _():
    seed, n = rnd.randrange(1 << 40), rnd.randrange(1, 9)
    return (lambda: call("random_split_num", key_of(seed), n)), (lambda: mx.random.split(mx.random.key(seed), n)), 1
