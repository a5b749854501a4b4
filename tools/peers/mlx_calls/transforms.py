"""Gradients, jvps and vmaps of random expressions."""
import ctypes as C

import mlx.core as mx
import numpy as np

from .both import (
    Both, call, DTYPES, exact, Failed, Handle, handles, ints, keep, lib, op, rnd, S, size_t,
)

LIST_FUNCTION = C.CFUNCTYPE(C.c_int, C.POINTER(Handle), Handle)
for name, res, args in (("mlx_vector_array_set_data", C.c_int, [C.POINTER(Handle), C.POINTER(Handle), C.c_size_t]), ("mlx_closure_new_func", Handle, [LIST_FUNCTION]), ("mlx_closure_free", C.c_int, [Handle]),
                        ("mlx_closure_value_and_grad_new", Handle, []), ("mlx_closure_value_and_grad_free", C.c_int, [Handle])):
    f = getattr(lib, name)
    f.restype, f.argtypes = res, args


def items(v):
    """The arrays of a vector, which is freed."""
    out = []
    for i in range(lib.mlx_vector_array_size(v)):
        a = lib.mlx_array_new()
        lib.mlx_vector_array_get(C.byref(a), v, C.c_size_t(i))
        out.append(keep(a))
    lib.mlx_vector_array_free(v)
    return out


class KeelFunctions:
    """The transforms of Keel, on functions of lists of handles."""

    @staticmethod
    def closure(f):
        def fun(res, given):
            try:
                args = []
                for i in range(lib.mlx_vector_array_size(given)):
                    a = lib.mlx_array_new()
                    lib.mlx_vector_array_get(C.byref(a), given, C.c_size_t(i))
                    args.append(keep(a))
                outs = f(args)
                return lib.mlx_vector_array_set_data(res, handles(outs), C.c_size_t(len(outs)))
            except Failed:
                return 1

        kept = LIST_FUNCTION(fun)
        return lib.mlx_closure_new_func(kept), kept

    @staticmethod
    def two(name, f, a, b):
        c, kept = KeelFunctions.closure(f)
        r = [lib.mlx_vector_array_new(), lib.mlx_vector_array_new()]
        lists = [lib.mlx_vector_array_new_data(handles(v), C.c_size_t(len(v))) for v in (a, b)]
        rc = getattr(lib, name)(C.byref(r[0]), C.byref(r[1]), c, *lists)
        for v in lists:
            lib.mlx_vector_array_free(v)
        lib.mlx_closure_free(c)
        outs = [items(v) for v in r]
        if rc:
            raise Failed(name)
        return outs

    @staticmethod
    def vjp(f, primals, cotangents):
        return KeelFunctions.two("mlx_vjp", f, primals, cotangents)

    @staticmethod
    def jvp(f, primals, tangents):
        return KeelFunctions.two("mlx_jvp", f, primals, tangents)

    @staticmethod
    def grad(f, n):
        def g(args):
            c, kept = KeelFunctions.closure(f)
            vg = lib.mlx_closure_value_and_grad_new()
            numbers = list(range(n))
            r = [lib.mlx_vector_array_new(), lib.mlx_vector_array_new()]
            given = lib.mlx_vector_array_new_data(handles(args), C.c_size_t(len(args)))
            rc = lib.mlx_value_and_grad(C.byref(vg), c, ints(numbers), C.c_size_t(n)) or lib.mlx_closure_value_and_grad_apply(C.byref(r[0]), C.byref(r[1]), vg, given)
            lib.mlx_vector_array_free(given)
            lib.mlx_closure_value_and_grad_free(vg)
            lib.mlx_closure_free(c)
            outs = [items(v) for v in r]
            if rc:
                raise Failed("grad")
            return outs[1]

        return g

    @staticmethod
    def vmap(f, axes, out_axis):
        def g(args):
            c, kept = KeelFunctions.closure(f)
            given = lib.mlx_vector_array_new_data(handles(args), C.c_size_t(len(args)))
            a, b, r = (lib.mlx_vector_array_new() for _ in range(3))
            at = ints([-1 if x is None else x for x in axes])
            rc = lib.mlx_detail_vmap_trace(C.byref(a), C.byref(b), c, given, at, C.c_size_t(len(axes)))
            n = lib.mlx_vector_array_size(b)
            rc = rc or lib.mlx_detail_vmap_replace(C.byref(r), given, a, b, at, C.c_size_t(len(axes)), ints([out_axis] * n), C.c_size_t(n))
            for v in (given, a, b):
                lib.mlx_vector_array_free(v)
            lib.mlx_closure_free(c)
            outs = items(r)
            if rc:
                raise Failed("vmap")
            return outs

        return g


class MlxFunctions:
    @staticmethod
    def vjp(f, primals, cotangents):
        return mx.vjp(lambda *a: f(list(a)), list(primals), list(cotangents))

    @staticmethod
    def jvp(f, primals, tangents):
        return mx.jvp(lambda *a: f(list(a)), list(primals), list(tangents))

    @staticmethod
    def grad(f, n):
        g = mx.grad(lambda *a: f(list(a))[0], argnums=tuple(range(n)))

        def listed(args):  # one argument number gives an array, not a list
            r = g(*args)
            return [r] if isinstance(r, mx.array) else list(r)

        return listed

    @staticmethod
    def vmap(f, axes, out_axis):
        g = mx.vmap(lambda *a: tuple(f(list(a))), in_axes=tuple(axes), out_axes=out_axis)
        return lambda args: list(g(*args))


MOST_STEPS = 6
drawn_kind = [""]
steps = []  # of the expression of the call, for messages


def step_of(shapes):
    """A step of an expression: (function of Keel's operands, of MLX's, shape of the result, numbers of the operands). The results stay near 1, so that errors do not grow."""
    i = rnd.randrange(len(shapes))
    s = shapes[i]
    n = int(np.prod(s))
    axis = rnd.randrange(len(s)) if s else 0
    same_shape = [j for j, t in enumerate(shapes) if t == s]
    j = rnd.choice(same_shape)
    kinds = ["sin", "cos", "tanh", "sigmoid", "square", "negative", "erf", "arctan", "abs", "scaled_exp", "log1p", "root", "multiply", "add", "subtract", "maximum", "minimum", "where", "quotient", "stop", "power", "logaddexp", "hypot"]
    if s:
        kinds += ["softmax", "sum", "mean", "logsumexp", "cumsum", "transpose", "reshape", "slice", "take", "take_along", "broadcast", "expand", "max", "sort", "concatenate", "flip", "var", "prod", "scatter", "pad", "moveaxis", "repeat"]
    if len(s) == 2:
        kinds += ["matmul"] * 3
    kind = rnd.choice(kinds)
    drawn_kind[:] = [f"{kind}({i})"]
    f32 = lambda x: keep(lib.mlx_array_new_data((C.c_float * 1)(x), ints([]), 0, DTYPES.index("float32")))
    if kind == "square":
        return (lambda a: call("square", call("sin", a))), (lambda a: mx.square(mx.sin(a))), s, (i,)
    if kind in ("sin", "cos", "tanh", "sigmoid", "negative", "erf", "arctan", "abs"):
        return (lambda a: call(kind, a)), (lambda a: getattr(mx, kind)(a)), s, (i,)
    if kind == "scaled_exp":
        return (lambda a: call("exp", call("tanh", a))), (lambda a: mx.exp(mx.tanh(a))), s, (i,)
    if kind == "log1p":
        return (lambda a: call("log1p", call("square", a))), (lambda a: mx.log1p(mx.square(a))), s, (i,)
    if kind == "root":
        return (lambda a: call("sqrt", call("add", call("square", a), f32(1)))), (lambda a: mx.sqrt(mx.square(a) + mx.array(1.0))), s, (i,)
    if kind in ("multiply", "add", "subtract", "maximum", "minimum", "logaddexp"):
        if kind in ("maximum", "minimum") and i == j:  # equal operands share the gradient in other ways
            kind = "add"
        return (lambda a, b: call(kind, a, b)), (lambda a, b: getattr(mx, kind)(a, b)), s, (i, j)
    if kind == "where":
        return (lambda a, b: call("where", call("greater", a, f32(0.5)), a, b)), (lambda a, b: mx.where(a > mx.array(0.5), a, b)), s, (i, j)
    if kind == "quotient":
        return (lambda a, b: call("divide", a, call("add", call("square", b), f32(1)))), (lambda a, b: a / (mx.square(b) + mx.array(1.0))), s, (i, j)
    if kind == "hypot":
        return (lambda a, b: call("rsqrt", call("add", call("square", a), call("add", call("square", b), f32(1))))), (lambda a, b: mx.rsqrt(mx.square(a) + (mx.square(b) + mx.array(1.0)))), s, (i, j)
    if kind == "power":
        return (lambda a, b: call("power", call("add", call("square", call("tanh", a)), f32(0.5)), call("tanh", b))), (lambda a, b: mx.power(mx.square(mx.tanh(a)) + mx.array(0.5), mx.tanh(b))), s, (i, j)
    if kind == "stop":
        return (lambda a, b: call("multiply", call("stop_gradient", a), b)), (lambda a, b: mx.stop_gradient(a) * b), s, (i, j)
    one = tuple(d for k, d in enumerate(s) if k != axis)
    if kind == "softmax":
        return (lambda a: call("softmax_axis", a, axis, C.c_bool(False))), (lambda a: mx.softmax(a, axis=axis)), s, (i,)
    if kind in ("sum", "mean", "logsumexp", "max", "var", "prod"):
        extra = (C.c_int(0),) if kind == "var" else ()
        if kind in ("prod", "var"):
            return (lambda a: call(kind + "_axis", call("cos", a), axis, C.c_bool(False), *extra)), (lambda a: getattr(mx, kind)(mx.cos(a), axis=axis)), one, (i,)
        return (lambda a: call(kind + "_axis", a, axis, C.c_bool(False))), (lambda a: getattr(mx, kind)(a, axis=axis)), one, (i,)
    if kind == "cumsum":
        back, whole = rnd.random() < 0.5, rnd.random() < 0.5
        return (lambda a: call("cumsum", a, axis, C.c_bool(back), C.c_bool(whole))), (lambda a: mx.cumsum(a, axis=axis, reverse=back, inclusive=whole)), s, (i,)
    if kind == "transpose":
        return (lambda a: call("transpose", a)), mx.transpose, s[::-1], (i,)
    if kind == "reshape":
        to = (n,) if rnd.random() < 0.5 else (1, n)
        return (lambda a: call("reshape", a, ints(to), size_t(len(to)))), (lambda a: mx.reshape(a, to)), to, (i,)
    if kind == "slice":
        start, step = rnd.randrange(s[axis]), rnd.choice([1, 2])
        if len(range(start, s[axis], step)) == 1:  # MLX differentiates these with a step of 1: docs/differences.md
            step = 1
        lo = [start if k == axis else 0 for k in range(len(s))]
        st = [step if k == axis else 1 for k in range(len(s))]
        to = tuple(len(range(start, d, step)) if k == axis else d for k, d in enumerate(s))
        at = tuple(slice(a, d, b) for a, d, b in zip(lo, s, st))
        return (lambda a: call("slice", a, ints(lo), size_t(len(s)), ints(s), size_t(len(s)), ints(st), size_t(len(s)))), (lambda a: a[at]), to, (i,)
    if kind in ("take", "take_along", "scatter"):
        m = rnd.randrange(1, 4)
        to = tuple(m if k == axis else d for k, d in enumerate(s))
        which = (m,) if kind != "take_along" else to
        v = np.array([rnd.randrange(-s[axis], s[axis]) for _ in range(int(np.prod(which)))], np.int32).reshape(which)
        index = lambda: keep(lib.mlx_array_new_data(v.ctypes.data, ints(which), len(which), DTYPES.index("int32")))
        if kind == "take":
            return (lambda a: call("take_axis", a, index(), axis)), (lambda a: mx.take(a, mx.array(v), axis=axis)), to, (i,)
        if kind == "take_along":
            return (lambda a: call("take_along_axis", a, index(), axis)), (lambda a: mx.take_along_axis(a, mx.array(v), axis=axis)), to, (i,)
        updates = (m, *(1 if k == 0 else d for k, d in enumerate(s)))
        room = (m, *s[1:])

        def scattered(a, b):
            first = call("take_axis", b, keep(lib.mlx_array_new_data(w.ctypes.data, ints((m,)), 1, DTYPES.index("int32"))), 0)
            vec = lib.mlx_vector_array_new_data(handles([keep(lib.mlx_array_new_data(w.ctypes.data, ints((m,)), 1, DTYPES.index("int32")))]), C.c_size_t(1))
            out = lib.mlx_array_new()
            rc = lib.mlx_scatter_add(C.byref(out), a, vec, call("reshape", first, ints(updates), size_t(len(updates))), ints([0]), C.c_size_t(1), S)
            lib.mlx_vector_array_free(vec)
            if rc:
                raise Failed("scatter_add")
            return keep(out)

        w = np.array([rnd.randrange(s[0]) for _ in range(m)], np.int32)
        return scattered, (lambda a, b: a.at[mx.array(w)].add(mx.take(b, mx.array(w), axis=0))), s, (i, j)
    if kind == "broadcast":
        to = (2, *s)
        return (lambda a: call("broadcast_to", a, ints(to), size_t(len(to)))), (lambda a: mx.broadcast_to(a, to)), to, (i,)
    if kind == "sort":
        return (lambda a: call("sort_axis", a, axis)), (lambda a: mx.sort(a, axis=axis)), s, (i,)
    if kind == "flip" and s[axis] == 1:
        kind = "expand"
    if kind == "flip":
        lo, hi = [d - 1 if k == axis else 0 for k, d in enumerate(s)], [-d - 1 if k == axis else d for k, d in enumerate(s)]
        st = [-1 if k == axis else 1 for k in range(len(s))]
        at = tuple(slice(None, None, -1) if k == axis else slice(None) for k in range(len(s)))
        return (lambda a: call("slice", a, ints(lo), size_t(len(s)), ints(hi), size_t(len(s)), ints(st), size_t(len(s)))), (lambda a: a[at]), s, (i,)
    if kind == "expand":
        return (lambda a: call("expand_dims", a, axis)), (lambda a: mx.expand_dims(a, axis)), (*s[:axis], 1, *s[axis:]), (i,)
    if kind == "concatenate":
        to = tuple(2 * d if k == axis else d for k, d in enumerate(s))

        def joined(a, b):
            vec = lib.mlx_vector_array_new_data(handles([a, b]), C.c_size_t(2))
            try:
                return call("concatenate_axis", vec, axis)
            finally:
                lib.mlx_vector_array_free(vec)

        return joined, (lambda a, b: mx.concatenate([a, b], axis=axis)), to, (i, j)
    if kind == "pad":
        to = tuple(d + 2 if k == axis else d for k, d in enumerate(s))
        return (lambda a: call("pad", a, ints([axis]), size_t(1), ints([1]), size_t(1), ints([1]), size_t(1), f32(0.5), C.c_char_p(b"constant"))), (lambda a: mx.pad(a, [(1, 1) if k == axis else (0, 0) for k in range(len(s))], constant_values=mx.array(0.5))), to, (i,)
    if kind == "moveaxis":
        order = list(s)
        order.insert(0, order.pop(axis))
        return (lambda a: call("moveaxis", a, axis, 0)), (lambda a: mx.moveaxis(a, axis, 0)), tuple(order), (i,)
    if kind == "repeat":
        return (lambda a: call("repeat_axis", a, 2, axis)), (lambda a: mx.repeat(a, 2, axis=axis)), tuple(2 * d if k == axis else d for k, d in enumerate(s)), (i,)
    k = [j for j, t in enumerate(shapes) if len(t) == 2 and t[0] == s[1]]
    if k:
        j = rnd.choice(k)
        return (lambda a, b: call("tanh", call("matmul", a, b))), (lambda a, b: mx.tanh(mx.matmul(a, b))), (s[0], shapes[j][1]), (i, j)
    return (lambda a: call("tanh", call("matmul", a, call("transpose", a)))), (lambda a: mx.tanh(mx.matmul(a, mx.transpose(a)))), (s[0], s[0]), (i,)


class Expression:
    """A random function of n arrays of these shapes, whose result is the sum of weight times the last value, or that value itself."""

    def __init__(self, shapes):
        self.shapes = list(shapes)
        self.steps = []
        for _ in range(rnd.randrange(1, MOST_STEPS + 1)):
            step = step_of(self.shapes)
            if len(step[2]) > 3 or int(np.prod(step[2])) > 200:
                continue
            self.steps.append(step)
            self.shapes.append(step[2])
            steps.append(drawn_kind[0])

    def values(self, which, args):
        v = list(args)
        for step in self.steps:
            v.append(step[which](*(v[i] for i in step[3])))
        return v

    def keel(self, args):
        return [self.values(0, args)[-1]]

    def mlx(self, args):
        return [self.values(1, args)[-1]]

    def keel_sum(self, args):
        return [call("sum", call("sin", self.keel(args)[0]), C.c_bool(False))]

    def mlx_sum(self, args):
        return [mx.sum(mx.sin(self.mlx(args)[0]))]


def joined_keel(arrays):
    flat = [call("reshape", a, ints([-1]), size_t(1)) for a in arrays]
    vec = lib.mlx_vector_array_new_data(handles(flat), C.c_size_t(len(flat)))
    try:
        return call("concatenate_axis", vec, 0)
    finally:
        lib.mlx_vector_array_free(vec)


def joined_mlx(arrays):
    return mx.concatenate([mx.reshape(a, (-1,)) for a in arrays])


TRANSFORM_LOOSE = 2  # of what passes through several steps, each rounded once
NORMWISE = 1e-5  # or so far off, times the largest element: gradients are sums of terms that may cancel


looped = [0]  # calls whose lanes MLX computed one by one


def transform(name, loops=()):
    """loops: steps that MLX's vmap computes wrongly (docs/differences.md), with writes outside of its arrays or wrong shapes. Of expressions that have one, MLX computes the lanes one by one."""
    def add(draw):
        @op("transform_" + name, "vjp")
        def _():
            n = rnd.randrange(1, 4)
            one = tuple(rnd.choice([1, 2, 3, 4]) for _ in range(rnd.randrange(0, 3)))
            shapes = [one if rnd.random() < 0.7 else tuple(rnd.choice([2, 3]) for _ in range(2)) for _ in range(n)]
            e = Expression(shapes)
            keel, mlx = draw(e, shapes)
            if any(s.split("(")[0] in loops for s in steps):
                looped[0] += 1
                one_by_one = exact[-1]
                mlx = lambda: mx.array(one_by_one())
            return keel, mlx, TRANSFORM_LOOSE

    return add


def random_floats(s):
    return Both(s, "float32", special=False, low=-1.5, high=1.5)


@transform("value_and_grad")
def _(e, shapes):
    x = [random_floats(s) for s in shapes]
    n = len(x)
    return (lambda: joined_keel(KeelFunctions.grad(e.keel_sum, n)([a.keel for a in x]))), (lambda: joined_mlx(MlxFunctions.grad(e.mlx_sum, n)([a.mx for a in x])))


@transform("vjp")
def _(e, shapes):
    x, c = [random_floats(s) for s in shapes], random_floats(e.shapes[-1])
    return (lambda: joined_keel(sum(KeelFunctions.vjp(e.keel, [a.keel for a in x], [c.keel]), []))), (lambda: joined_mlx(sum(MlxFunctions.vjp(e.mlx, [a.mx for a in x], [c.mx]), [])))


@transform("jvp")
def _(e, shapes):
    x, v = ([random_floats(s) for s in shapes] for _ in range(2))
    return (lambda: joined_keel(sum(KeelFunctions.jvp(e.keel, [a.keel for a in x], [a.keel for a in v]), []))), (lambda: joined_mlx(sum(MlxFunctions.jvp(e.mlx, [a.mx for a in x], [a.mx for a in v]), [])))


def second(sum_of, functions, join, scalar):
    def f(args):
        g = join(functions.grad(sum_of, len(args))(args))
        return [scalar(g)]

    return f


@transform("second_gradient")
def _(e, shapes):
    x = [random_floats(s) for s in shapes]
    n = len(x)
    k = second(e.keel_sum, KeelFunctions, joined_keel, lambda g: call("sum", call("square", g), C.c_bool(False)))
    m = second(e.mlx_sum, MlxFunctions, joined_mlx, lambda g: mx.sum(mx.square(g)))
    return (lambda: joined_keel(KeelFunctions.grad(k, n)([a.keel for a in x]))), (lambda: joined_mlx(MlxFunctions.grad(m, n)([a.mx for a in x])))


def lanes(shapes):
    """Arrays with lanes, and the axes of these; at least one has some."""
    count = rnd.choice([1, 2, 3])
    axes = [None if rnd.random() < 0.3 else rnd.randrange(len(s) + 1) for s in shapes]
    if all(a is None for a in axes):
        axes[0] = 0
    return axes, [random_floats(s if a is None else (*s[:a], count, *s[a:])) for s, a in zip(shapes, axes)]


def loop(f, axes, x):
    """What vmap should give: f of each lane, stacked, as lists of NumPy's arrays."""
    n = next(a.shape[k] for a, k in zip(x, axes) if k is not None)
    each = [[np.array(r) for r in f([a.mx if k is None else mx.take(a.mx, mx.array(i), axis=k) for a, k in zip(x, axes)])] for i in range(n)]
    return [np.stack(r) for r in zip(*each)]


def flat(arrays):
    return np.concatenate([np.array(a).reshape(-1) for a in arrays])


@transform("vmap", loops=("scatter",))
def _(e, shapes):
    axes, x = lanes(shapes)
    out = rnd.randrange(len(e.shapes[-1]) + 1)
    exact.append(lambda: np.moveaxis(loop(e.mlx, axes, x)[0], 0, out))
    return (lambda: KeelFunctions.vmap(e.keel, axes, out)([a.keel for a in x])[0]), (lambda: MlxFunctions.vmap(e.mlx, axes, out)([a.mx for a in x])[0])


@transform("vmap_of_gradient", loops=("scatter", "take"))  # the gradient of take is a scatter
def _(e, shapes):
    axes, x = lanes(shapes)
    n = len(x)
    exact.append(lambda: flat(loop(MlxFunctions.grad(e.mlx_sum, n), axes, x)))
    return (lambda: joined_keel(KeelFunctions.vmap(KeelFunctions.grad(e.keel_sum, n), axes, 0)([a.keel for a in x]))), (lambda: joined_mlx(MlxFunctions.vmap(MlxFunctions.grad(e.mlx_sum, n), axes, 0)([a.mx for a in x])))


@transform("gradient_of_vmap", loops=("scatter", "pad"))
def _(e, shapes):
    axes, x = lanes(shapes)
    n = len(x)
    k = lambda args: [call("sum", KeelFunctions.vmap(e.keel_sum, axes, 0)(args)[0], C.c_bool(False))]
    m = lambda args: [mx.sum(MlxFunctions.vmap(e.mlx_sum, axes, 0)(args)[0])]
    lane_count = next(a.shape[k] for a, k in zip(x, axes) if k is not None)

    def total(args):  # without vmap
        lane = lambda i: [a if k is None else mx.take(a, mx.array(i), axis=k) for a, k in zip(args, axes)]
        return [sum(e.mlx_sum(lane(i))[0] for i in range(lane_count))]

    exact.append(lambda: flat(MlxFunctions.grad(total, n)([a.mx for a in x])))
    return (lambda: joined_keel(KeelFunctions.grad(k, n)([a.keel for a in x]))), (lambda: joined_mlx(MlxFunctions.grad(m, n)([a.mx for a in x])))
