"""What the tests of transforms share: arguments, functions, trees of lists."""

import keel.core as mx

a = mx.array([1.0, 2.0])
b = mx.array([3.0, 4.0])
s = mx.array(2.0)


def lists(tree):
    if isinstance(tree, mx.array):
        return tree.tolist()
    if isinstance(tree, (list, tuple)):
        return type(tree)(lists(x) for x in tree)
    if isinstance(tree, dict):
        return {k: lists(v) for k, v in tree.items()}
    return tree


def product(x, y):
    return (x * y).sum()


class Own(Exception):
    pass


def failing(x):
    raise Own("here")
