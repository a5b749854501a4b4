"""Gradients, vmap, compile, checkpoint and functions with rules of their own, over trees."""

import gc
import traceback
import weakref

import keel.core as mx
import numpy as np
import pytest
from transforms_support import Own, a, b, failing, lists, product, s


# ---- gradients ----
@pytest.mark.parametrize("argnums, wanted", [
    (None, [3, 4]), (0, [3, 4]), (1, [1, 2]), ([0, 1], ([3, 4], [1, 2])), ((1, 0), ([3, 4], [1, 2])), ((1,), [1, 2]),
])  # fmt: skip
def test_argnums(argnums, wanted):
    assert lists(mx.grad(product, argnums)(a, b)) == wanted
    value, grads = mx.value_and_grad(product, argnums)(a, b)
    assert value.item() == 11 and lists(grads) == wanted


def named(x, *, y=None, z=None):
    return (x * y).sum()


@pytest.mark.parametrize("argnums, argnames, wanted", [
    (None, "y", (None, {"y": [1, 2]})), (0, "y", ([3, 4], {"y": [1, 2]})), ([0], ["y"], ([3, 4], {"y": [1, 2]})),
])  # fmt: skip
def test_argnames(argnums, argnames, wanted):
    assert lists(mx.grad(named, argnums, argnames)(a, y=b)) == wanted


@pytest.mark.parametrize("options", [
    {"argnums": -1}, {"argnums": 2}, {"argnums": [0, 0]}, {"argnums": []}, {"argnames": ["y", "y"]}, {"argnames": "q"},
])  # fmt: skip
def test_wrong_arguments(options):
    with pytest.raises(ValueError):
        mx.grad(product, **options)(a, b)


def test_trees():
    tree = {"w": a, "b": [b, s], "t": (a, {"x": b})}

    def f(p, n):
        return (p["w"] * p["b"][0]).sum() * n + p["b"][1] * 2 + p["t"][1]["x"].sum()

    value, grads = mx.value_and_grad(f)(tree, 3)
    assert value.item() == 44
    assert lists(grads) == {"w": [9, 12], "b": [[3, 6], 2], "t": ([0, 0], {"x": [1, 1]})}


def test_value_with_more_results():
    value, grad = mx.value_and_grad(lambda x: (x.sum(), {"k": [x * 2]}, "text"))(a)
    assert lists(value) == (3, {"k": [[2, 4]]}, "text") and lists(grad) == [1, 1]


@pytest.mark.parametrize("fun", [lambda x: x, lambda x: 3.0, lambda x: None, lambda x: (), lambda x: {"a": x}])
def test_results_that_have_no_gradient(fun):
    with pytest.raises(ValueError):
        mx.grad(fun)(a)


def test_arguments_that_have_no_gradient():
    for x in (2.0, "text", {"x": a, "n": 3}, mx.array([1, 2])):
        with pytest.raises(ValueError):
            mx.grad(lambda x: mx.array(1.0))(x)
    with pytest.raises(ValueError):
        mx.grad(lambda: s)()


def test_nested_gradients():
    assert mx.grad(mx.grad(lambda x: x**3))(s).item() == 12
    assert mx.grad(lambda x: mx.stop_gradient(x) * x)(s).item() == 2
    assert lists(mx.grad(mx.compile(product))(a, b)) == [3, 4]
    assert lists(mx.compile(mx.grad(product))(a, b)) == [3, 4]


def test_vjp_and_jvp():
    outputs, grads = mx.vjp(lambda x, y: (x * y, x + y), [a, b], [a, b])
    assert lists(outputs) == [[3, 8], [4, 6]] and lists(grads) == [[6, 12], [4, 8]]
    outputs, tangents = mx.jvp(lambda x, y: x * y, [a, b], [b, a])
    assert lists(outputs) == [[3, 8]] and lists(tangents) == [[10, 20]]
    for call in (lambda: mx.vjp(lambda x: x, [a], [s]), lambda: mx.jvp(lambda x: x, [a], []),
                 lambda: mx.vjp(lambda x: 3, [a], [a]), lambda: mx.vjp(lambda x: x, [1.0], [a])):  # fmt: skip
        with pytest.raises(ValueError):
            call()


# ---- vmap ----
m = mx.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])


@pytest.mark.parametrize("fun, axes, arguments, wanted", [
    (lambda x: x.sum(), {}, (m,), [6, 15]),
    (lambda x: x.sum(), {"in_axes": 1}, (m,), [5, 7, 9]),
    (lambda x: x.sum(), {"in_axes": -1}, (m,), [5, 7, 9]),
    (lambda x, y: x + y, {"in_axes": (0, None)}, (a, s), [3, 4]),
    (lambda x, y: x + y, {"in_axes": (1, None), "out_axes": 1}, (m, a), [[2, 3, 4], [6, 7, 8]]),
    (lambda x: x * 1, {"out_axes": -1}, (m,), [[1, 4], [2, 5], [3, 6]]),
    (lambda d: d["a"] * d["b"], {}, ({"a": a, "b": b},), [3, 8]),
    (lambda d: d["a"] * d["b"], {"in_axes": ({"a": 0, "b": None},)}, ({"a": a, "b": s},), [2, 4]),
    (lambda x: (x, {"o": x * 2}), {}, (a,), ([1, 2], {"o": [2, 4]})),
    (mx.vmap(lambda x, y: x * y, in_axes=(None, 0)), {"in_axes": (0, None)}, (a, b), [[3, 4], [6, 8]]),
    (mx.compile(lambda x: x.sum()), {}, (m,), [6, 15]),
    (mx.grad(lambda x: (x**2).sum()), {}, (m,), [[2, 4, 6], [8, 10, 12]]),
])  # fmt: skip
def test_vmap(fun, axes, arguments, wanted):
    assert lists(mx.vmap(fun, **axes)(*arguments)) == wanted


@pytest.mark.parametrize("axes, arguments", [
    ({"in_axes": 1}, (a,)), ({"in_axes": (0, 0)}, (a,)), ({"in_axes": None}, (a,)), ({"out_axes": 2}, (a,)),
    ({"in_axes": ("x",)}, (a,)), ({}, (mx.array(1.0),)),
])  # fmt: skip
def test_vmap_errors(axes, arguments):
    with pytest.raises(ValueError):
        mx.vmap(lambda x: x * 1, **axes)(*arguments)
    with pytest.raises(ValueError):
        mx.vmap(lambda x, y: x + y)(mx.ones((2,)), mx.ones((3,)))


# ---- compile ----
def test_compile_traces_once_for_each_kind_of_argument():
    traces = []

    @mx.compile
    def f(x, n=1, *, tree=None):
        traces.append(1)
        return {"o": x * n, "t": tree}

    for arguments, count in (((a,), 1), ((b,), 1), ((a, 2), 2), ((a, 2), 2), ((a.astype(mx.int32),), 3),
                             ((mx.ones((3,)),), 4)):  # fmt: skip
        f(*arguments)
        assert len(traces) == count
    assert lists(f(a, tree=[b, "text", None])) == {"o": [1, 2], "t": [[3, 4], "text", None]}
    assert lists(f(b, tree=[a, "text", None])) == {"o": [3, 4], "t": [[1, 2], "text", None]}
    assert len(traces) == 5


def test_compile_shapeless():
    traces = []

    def f(x):
        traces.append(1)
        return x * 2

    compiled = mx.compile(f, shapeless=True)
    for n in (1, 2, 3):
        assert compiled(mx.ones((n,))).tolist() == [2.0] * n
    assert len(traces) == 1


def test_compile_with_state():
    state = {"count": mx.array(1.0), "list": [mx.array(0.0)]}

    def f(x):
        state["count"] = state["count"] + x
        state["list"][0] = state["list"][0] + 1
        return state["count"] * 2

    compiled = mx.compile(f, inputs=state, outputs=state)
    assert [compiled(s).item(), compiled(s).item()] == [6, 10]
    assert lists(state) == {"count": 5, "list": [2]}
    state["count"] = mx.array(100.0)  # what is put there from outside is seen
    assert compiled(s).item() == 204


def test_compile_with_random_state():
    mx.random.seed(3)
    draw = mx.compile(lambda: mx.random.uniform(shape=(2,)), inputs=mx.random.state, outputs=mx.random.state)
    first, second = draw().tolist(), draw().tolist()
    mx.random.seed(3)
    assert first != second and first == mx.random.uniform(shape=(2,)).tolist()


@pytest.mark.parametrize("fun", [lambda x: x.item(), lambda x: mx.eval(x), lambda x: bool(x), lambda x: x.tolist()])
def test_values_are_not_there_while_a_function_is_traced(fun):
    with pytest.raises(ValueError):
        mx.compile(fun)(s)


def test_compile_takes_functions_of_trees():
    with pytest.raises(TypeError):
        mx.compile(3)
    with pytest.raises(ValueError):
        mx.compile(lambda x: x)(object())


def test_disable_compile():
    traces = []
    f = mx.compile(lambda x: (traces.append(1), x)[1])
    mx.disable_compile()
    try:
        f(a), f(a)
    finally:
        mx.enable_compile()
    assert len(traces) == 2


# ---- checkpoint and rules of one's own ----
def test_checkpoint_runs_again_for_gradients():
    runs = []

    def f(tree):
        runs.append(1)
        return (tree["x"] ** 2).sum()

    assert lists(mx.grad(mx.checkpoint(f))({"x": a})) == {"x": [2, 4]}
    assert len(runs) >= 1
    assert mx.checkpoint(f)({"x": a}).item() == 5


def rules():
    @mx.custom_function
    def f(x, y):
        return mx.sin(x) * y

    f.vjp(lambda primals, cotangent, output: (cotangent * 10, cotangent * 20))
    f.jvp(lambda primals, tangents: tangents[0] * 100)
    f.vmap(lambda inputs, axes: (inputs[0] * inputs[1] + 1, 0))
    return f


def test_custom_function():
    f = rules()
    np.testing.assert_allclose(np.array(f(a, b)), np.sin([1, 2]) * [3, 4], rtol=1e-6)
    assert lists(mx.grad(lambda x, y: f(x, y).sum(), (0, 1))(a, b)) == ([10, 10], [20, 20])
    assert lists(mx.jvp(f, [a, b], [a, b])[1]) == [[100, 200]]
    assert lists(mx.vmap(f)(a, b)) == [4, 9]


def test_custom_vjp_of_trees():
    @mx.custom_function
    def f(tree):
        return tree["x"] * 2, tree["y"]

    @f.vjp
    def rule(primals, cotangents, outputs):
        return {"x": cotangents[0] * 3, "y": cotangents[1] * 5}

    assert lists(mx.grad(lambda t: f(t)[0].sum() + f(t)[1].sum())({"x": a, "y": b})) == {"x": [3, 3], "y": [5, 5]}


def test_custom_vjp_sees_primals_and_outputs():
    f = mx.custom_function(lambda x: x * 2)
    f.vjp(lambda primal, cotangent, output: cotangent * primal * output)
    assert lists(mx.grad(lambda x: f(x).sum())(a)) == [2, 8]
    assert lists(mx.grad(mx.compile(lambda x: f(x).sum()))(a)) == [2, 8]


# ---- exceptions and cycles ----
@pytest.mark.parametrize("wrap", [
    mx.grad, mx.vmap, mx.compile, mx.checkpoint, lambda f: mx.grad(mx.compile(mx.vmap(f))),
    lambda f: mx.vmap(mx.grad(mx.compile(f))), lambda f: mx.compile(mx.value_and_grad(mx.checkpoint(f))),
    lambda f: lambda x: mx.vjp(f, [x], [x]), lambda f: lambda x: mx.jvp(f, [x], [x]),
])  # fmt: skip
def test_exceptions_come_back_as_themselves(wrap):
    for _ in range(3):  # nothing stays half traced
        with pytest.raises(Own, match="here") as info:
            wrap(failing)(a)
        assert "failing" in [frame.name for frame in traceback.extract_tb(info.tb)]
    assert mx.grad(lambda x: (x * x).sum())(a).tolist() == [2, 4]
    assert mx.compile(lambda x: x + 1)(a).tolist() == [2, 3]


def test_keyboard_interrupt_in_a_callback():
    def interrupted(x):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        mx.grad(interrupted)(a)


def test_a_rule_that_fails():
    f = mx.custom_function(lambda x: x * 1)

    @f.vjp
    def rule(primal, cotangent, output):
        raise KeyError("rule")

    with pytest.raises(KeyError, match="rule"):
        mx.grad(lambda x: f(x).sum())(a)


def test_a_function_that_fails_when_it_is_compiled_can_be_compiled_later():
    fail = [True]

    @mx.compile
    def f(x):
        if fail[0]:
            raise Own
        return x + 1

    with pytest.raises(Own):
        f(a)
    fail[0] = False
    assert f(a).tolist() == [2, 3]


@pytest.mark.parametrize("make", [
    mx.compile, mx.grad, mx.checkpoint, mx.vmap, lambda f: mx.compile(f, shapeless=True),
])  # fmt: skip
def test_cycles_are_collected(make):
    class Model:
        def __init__(self):
            self.w = a + 1
            self.step = make(lambda x: (x * self.w).sum())

    model = Model()
    if make is mx.vmap:
        model.step(mx.ones((2, 2)))
    else:
        mx.eval(model.step(b))
    ref = weakref.ref(model)
    del model
    gc.collect()
    assert ref() is None


# ---- what is no function, and what rules give ----
@pytest.mark.parametrize("transform", [
    mx.grad, mx.value_and_grad, mx.vmap, mx.compile, mx.checkpoint, mx.custom_function,
    lambda f: mx.vjp(f, [], []), lambda f: mx.jvp(f, [], []), mx.custom_function(product).vjp,
    mx.custom_function(product).jvp, mx.custom_function(product).vmap,
])  # fmt: skip
@pytest.mark.parametrize("wrong", [None, "a", 3, s])
def test_what_is_no_function(transform, wrong):
    with pytest.raises(TypeError, match="argument 'fun' is a .*, but must be a function"):
        transform(wrong)


@pytest.mark.parametrize("arguments, gradient", [
    ((a,), 5), ((a,), {}), ((a,), [5]), ((a,), [a, a]), ((a,), []), ((a, b), a), ((a, b), (a,)), ((a, b), (a, 5)), ((a, b), {}),
    (({"x": a},), a), (({"x": a},), {"y": a}), (({"x": a},), {"x": 5}), (([a, b],), [a]), (([a, b],), a),
])  # fmt: skip
def test_a_rule_that_gives_no_gradients(arguments, gradient):
    f = mx.custom_function(lambda *xs: mx.ones((2,)) * mx.get_array_buffer_size(xs)).vjp(lambda x, y, z: gradient)
    with pytest.raises(ValueError, match="custom_function.vjp"):
        mx.grad(lambda *xs: f(*xs).sum(), argnums=list(range(len(arguments))))(*arguments)


@pytest.mark.parametrize("arguments, gradient, wanted", [
    ((a,), None, [0, 0]), ((a,), [b], [3, 4]), ((a,), b, [3, 4]), ((a, b), [b, a], ([3, 4], [1, 2])),
    ((a, b), (None, a), ([0, 0], [1, 2])), (({"x": a, "y": b},), {"y": a}, {"x": [0, 0], "y": [1, 2]}),
    (({"x": a},), {}, {"x": [0, 0]}), (((a, b),), [b, None], ([3, 4], [0, 0])),
])  # fmt: skip
def test_gradients_of_a_rule(arguments, gradient, wanted):
    f = mx.custom_function(lambda *xs: mx.ones((2,))).vjp(lambda x, y, z: gradient)
    assert lists(mx.grad(lambda *xs: f(*xs).sum(), argnums=list(range(len(arguments))))(*arguments)) == wanted


@pytest.mark.parametrize("result", [5, None, (1, 2, 3), a])
def test_a_rule_of_vmap_that_gives_no_pair(result):
    f = mx.custom_function(lambda x: x).vmap(lambda x, axis: result)
    with pytest.raises(ValueError, match="custom_function.vmap"):
        mx.vmap(f)(a)


# ---- outputs without gradients, lanes, evaluation ----
def test_cotangents_of_stopped_outputs():
    def f(x):
        return x * 2, mx.stop_gradient(x), x * 3

    all_of_them = [mx.array([1.0, 2.0]), mx.array([7.0, 7.0]), mx.array([10.0, 10.0])]
    for cotangents in (all_of_them, all_of_them[::2]):
        values, grads = mx.vjp(f, [a], cotangents)
        assert lists(values) == [[2, 4], [1, 2], [3, 6]] and lists(grads) == [[32, 34]]
    for cotangents in (all_of_them[:1], all_of_them * 2):
        with pytest.raises(ValueError, match="cotangents"):
            mx.vjp(f, [a], cotangents)


@pytest.mark.parametrize("left, right", [
    ((3, 4, 5), (5, 2)), ((3, 4), (3, 2)), ((2, 3), (3, 6)), ((4, 3), (3,)), ((3,), (3, 6)), ((7, 2, 3, 6), (6, 2)),
    ((7, 2, 3, 6), (7, 6, 2)), ((2, 3, 6), (5, 2, 6, 4)), ((3, 3), (3, 3)),
])  # fmt: skip
def test_lanes_of_matmul(left, right):
    """Each axis of each operand, with and without lanes, against a loop over the lanes."""
    x, y = np.random.default_rng(3).normal(size=left).astype(np.float32), np.ones(right, np.float32).cumsum(0)
    checked = 0
    for i in (None, *range(-x.ndim, x.ndim)):
        for j in (None, *range(-y.ndim, y.ndim)):
            n = {z.shape[k] for z, k in ((x, i), (y, j)) if k is not None}
            if len(n) != 1:
                continue
            lanes = [(x if i is None else x.take(k, i), y if j is None else y.take(k, j)) for k in range(n.pop())]
            try:
                wanted = np.stack([p @ q for p, q in lanes])
            except ValueError:
                continue
            got = mx.vmap(lambda p, q: p @ q, in_axes=(i, j))(mx.array(x), mx.array(y))
            np.testing.assert_allclose(np.array(got), wanted, rtol=1e-4, atol=1e-4)
            checked += 1
    assert checked >= 2


def test_evaluation_within_vmap():
    seen = []

    def f(x, y):
        mx.eval(y, y * 2, s)
        seen.append((y + 1).tolist())
        return x + y

    assert mx.vmap(f, in_axes=(0, None))(mx.stack([a, b]), a).tolist() == [[2, 4], [4, 6]] and seen == [[2, 3]]
    assert mx.vmap(f, in_axes=(0, None))(b, s).tolist() == [5, 6]


def test_what_has_no_lanes():
    def f(x, tree):
        tree["w"] += 1  # the function's own
        return x * tree["w"], tree["w"]

    product, same = mx.vmap(f, in_axes=(0, {"w": None}), out_axes=(0, None))(mx.stack([a, b]), {"w": a})
    assert lists((product, same)) == ([[2, 6], [6, 12]], [2, 3]) and a.tolist() == [1, 2]
    grads = mx.grad(lambda x, w: mx.vmap(lambda x, w: (x * w).sum(), in_axes=(0, None))(x, w).sum(), argnums=1)
    assert grads(mx.stack([a, b]), a).tolist() == [4, 6]
    nested = mx.vmap(lambda x: mx.vmap(lambda y, z: y * z, in_axes=(0, None))(a, x))
    assert nested(b).tolist() == [[3, 6], [4, 8]]
    with pytest.raises(ValueError, match="no input has an axis of lanes"):
        mx.vmap(f, in_axes=(None, None))(a, {"w": a})


EVALUATIONS = [
    mx.eval, mx.async_eval, lambda x: x.tolist(), lambda x: x.item(), lambda x: np.array(x), repr, bool, float, bytes,
    lambda x: x.sum().item(), lambda x: mx.eval({"a": [x]}),
]  # fmt: skip


@pytest.mark.parametrize("f", EVALUATIONS)
@pytest.mark.parametrize("transform", [mx.compile, lambda f: lambda x: mx.vmap(f)(x[None]), mx.checkpoint])
def test_evaluation_of_what_has_no_value(f, transform):
    """The words that programs look for."""

    def traced(x):
        f(x)
        return x

    if transform is mx.checkpoint:
        traced = mx.compile(mx.checkpoint(traced))
    with pytest.raises(ValueError, match="Not allowed inside a graph transformation"):
        transform(traced)(mx.array(1.0))
    if f is not mx.async_eval:
        with pytest.raises(ValueError, match="Attempting to eval an array during function transformations"):
            transform(traced)(mx.array(1.0))


def test_vmap_takes_one_axis_in_a_tuple_and_refuses_other_structures():
    a, b = mx.arange(24).reshape(2, 3, 4).astype(mx.float32), mx.ones((4, 5))
    assert mx.vmap(mx.matmul, in_axes=(1, None), out_axes=(1,))(a, b).shape == (2, 3, 5)
    both = lambda x, y: {"a": x + y, "b": x * y}
    for axes in ((0, 1), {"a": 0, "c": 1}, {"a": 0}):
        with pytest.raises(ValueError, match="structure"):
            mx.vmap(both, out_axes=axes)(mx.ones((2, 3)), mx.ones((2, 3)))
    with pytest.raises(TypeError, match="must be ints"):
        mx.grad(mx.sum, argnums=(None, None))
