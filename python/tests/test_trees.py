"""Trees that transforms are given keep their classes, and what a function writes into them."""

import collections

import keel.core as mx
import pytest
from transforms_support import a, b, lists, s


class Attributes(dict):
    def __getattr__(self, name):
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None


class Pair(tuple):
    pass


class Items(list):
    pass


Named = collections.namedtuple("Named", "a b")
CONTAINERS = [
    (Attributes(a=a), dict), (collections.OrderedDict(a=a), dict), (collections.defaultdict(int, a=a), dict),
    (Pair([a, b]), Pair), (Named(a, b), Named), (Items([a]), list), ({"x": Named(Attributes(a=a), b)}, dict),
]  # fmt: skip


def classes(tree):
    if isinstance(tree, dict):
        return (type(tree), {k: classes(v) for k, v in tree.items()})
    if isinstance(tree, (list, tuple)):
        return (type(tree), [classes(x) for x in tree])
    return type(tree)


@pytest.mark.parametrize("tree, grads", CONTAINERS)
def test_classes(tree, grads):
    def same(x):
        assert classes(x) == classes(tree)
        return x

    for f in (mx.vmap, mx.compile, mx.checkpoint, mx.custom_function):
        out = f(same)(tree)
        assert classes(out) == classes(tree)
    f = mx.custom_function(same)
    f.vjp(lambda primal, cotangent, output: same(primal) and cotangent)
    (_, out), grad = mx.value_and_grad(lambda x: (mx.array(1.0), f(same(x))))(tree)
    assert type(grad) is grads and classes(out) == classes(tree)


class Layer(dict):
    """What mlx.nn.Module is: arrays are its items, everything else its attributes."""

    def __init__(self, **arrays):
        super().__init__(arrays)
        self.scale, self.calls = 2.0, []

    def __call__(self, x):
        self.calls.append(x.shape)
        return x @ self["w"] * self.scale


def test_modules():
    layer = Layer(w=mx.ones((2, 2)))
    weight = layer["w"]
    grads = mx.grad(lambda m: m(a).sum())(layer)
    assert type(grads) is dict and lists(grads) == {"w": [[2, 2], [4, 4]]}
    assert layer["w"] is weight and layer.calls == [(2,)]
    rows = mx.stack([a, b])
    assert mx.vmap(lambda m, x: m(x), in_axes=(None, 0))(layer, rows).tolist() == [[6, 6], [14, 14]]
    run = mx.compile(lambda m, x: m(x))
    assert run(layer, a).tolist() == [6, 6]
    layer.scale = 3.0  # no item, and still a part of the argument
    assert run(layer, a).tolist() == [9, 9]


def test_written_trees():
    def statistics(tree, other):
        tree["sum"] = other["sum"] = tree["a"].sum()
        tree["list"].append(tree["a"] * 2)
        tree["inner"][0]["a"] = tree["a"] * 3
        tree["b"] += 1
        del tree["c"]
        return (tree["a"] * tree["b"]).sum()

    x, y = mx.array([1.0, 2.0]), mx.array([3.0, 4.0])
    tree = {"a": x, "b": y, "c": x, "list": [x], "inner": ({"a": x},)}
    other = {}
    value, grads = mx.value_and_grad(statistics)(tree, other)
    assert value.item() == 14 and lists(grads) == {"a": [4, 5], "b": [1, 2], "c": [0, 0], "list": [[0, 0]], "inner": ({"a": [0, 0]},)}
    assert lists(tree) == {"a": [1, 2], "b": [4, 5], "sum": 3, "list": [[1, 2], [2, 4]], "inner": ({"a": [3, 6]},)}
    assert tree["a"] is x and tree["list"][0] is x and lists(other) == {"sum": 3} and y.tolist() == [3, 4]

    def by_name(*, tree):
        tree["a"] = tree["a"] * 2
        return tree["a"].sum()

    assert lists(mx.grad(by_name, argnames="tree")(tree=tree)) == (None, {"tree": {
        "a": [2, 2], "b": [0, 0], "sum": 0, "list": [[0, 0], [0, 0]], "inner": ({"a": [0, 0]},)}})  # fmt: skip
    assert tree["a"].tolist() == [2, 4]


def test_written_trees_after_an_exception():
    x = mx.array(1.0)
    tree = {"a": x, "b": x}

    def fails(tree):
        tree["b"] = tree["a"] * 2
        raise KeyError("on purpose")

    with pytest.raises(KeyError):
        mx.grad(fails)(tree)
    assert tree["a"] is x and tree["b"].item() == 2


def test_a_tree_in_two_places():
    tree = {"a": mx.array(3.0)}

    def f(x, y):
        return x["a"] * y["a"] * y["a"]

    assert lists(mx.grad(f)(tree, tree)) == {"a": 9}
    assert lists(mx.grad(f, argnums=1)(tree, tree)) == {"a": 18}
    assert lists(mx.grad(f, argnums=(0, 1))(tree, tree)) == ({"a": 9}, {"a": 18})
    assert lists(mx.grad(lambda x, y: f(x, y[0]))(tree, (tree,))) == {"a": 9}
    assert lists(mx.grad(lambda x: f(*x))([tree, tree])) == [{"a": 9}, {"a": 18}]
    assert tree["a"].item() == 3


def test_other_transforms_keep_no_writes():
    def f(x, tree):
        tree["b"] = tree["a"] = tree["a"] * 2
        return x * tree["a"]

    for g in (mx.vmap(f, in_axes=(0, None)), mx.compile(f), mx.checkpoint(f)):
        tree = {"a": s}
        assert g(a, tree).tolist() == [4, 8] and tree == {"a": s}
