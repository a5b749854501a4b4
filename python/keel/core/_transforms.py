"""Transforms of Python functions over trees of arrays.

A tree is an array or a list, tuple or dict of trees; everything else in it is a constant. The
extension transforms functions from a list of arrays to a list of arrays; here the trees are taken
apart and put together.
"""

import functools
import types

from keel import _core
from keel._core import array
from keel.core import random as _random

__all__ = [
    "grad",
    "value_and_grad",
    "vjp",
    "jvp",
    "vmap",
    "compile",
    "checkpoint",
    "custom_function",
    "_gc_func",
]

_gc_func = types.FunctionType  # what transforms return
_STATE = _random._RandomState


class _Leaf:
    """The place of an array in a structure."""

    __slots__ = ()


_LEAF = _Leaf()


def _leaves(tree, out):
    """Appends the arrays of a tree, in order."""
    if isinstance(tree, array):
        out.append(tree)
    elif isinstance(tree, (list, tuple)):
        for item in tree:
            _leaves(item, out)
    elif isinstance(tree, dict):
        for item in tree.values():
            _leaves(item, out)
    elif isinstance(tree, _STATE):
        out.append(tree[0])
    return out


def _rebuild(tree, leaves):
    """The tree with its arrays replaced by those of an iterator; dicts become plain ones."""
    if isinstance(tree, array):
        return next(leaves)
    if isinstance(tree, list):
        return [_rebuild(item, leaves) for item in tree]
    if isinstance(tree, tuple):
        items = [_rebuild(item, leaves) for item in tree]
        return type(tree)(*items) if hasattr(tree, "_fields") else tuple(items)
    if isinstance(tree, dict):
        return {key: _rebuild(item, leaves) for key, item in tree.items()}
    return tree


def _only_arrays(tree, what):
    """Checks that gradients can be asked for: every leaf is an array."""
    if isinstance(tree, (list, tuple)):
        for item in tree:
            _only_arrays(item, what)
    elif isinstance(tree, dict):
        for item in tree.values():
            _only_arrays(item, what)
    elif not isinstance(tree, array):
        raise ValueError(f"{what} is differentiated: it must be a tree of arrays, not hold {tree!r}")


def _as_numbers(argnums, argnames):
    names = [argnames] if isinstance(argnames, str) else list(argnames)
    if argnums is None:
        argnums = [] if names else 0
    numbers = [argnums] if isinstance(argnums, int) else list(argnums)
    if not numbers and not names:
        raise ValueError("value_and_grad(): there is no argument to differentiate")
    if len(set(numbers)) != len(numbers):
        raise ValueError(f"value_and_grad(): duplicate argument numbers in {numbers}")
    if len(set(names)) != len(names):
        raise ValueError(f"value_and_grad(): duplicate argument names in {names}")
    if any(n < 0 for n in numbers):
        raise ValueError(f"value_and_grad(): argument numbers must not be negative, got {numbers}")
    return sorted(numbers), names, isinstance(argnums, int)  # in order, as MLX gives the gradients


def value_and_grad(fun, argnums=None, argnames=[]):
    numbers, names, single = _as_numbers(argnums, argnames)

    @functools.wraps(fun, updated=())
    def wrapped(*args, **kwargs):
        for n in numbers:
            if n >= len(args):
                raise ValueError(
                    f"value_and_grad(): argument {n} is differentiated, but {len(args)} positional "
                    "arguments were given"
                )
        for name in names:
            if name not in kwargs:
                raise ValueError(f"value_and_grad(): the keyword argument '{name}' was not given")
        chosen = [args[n] for n in numbers] + [kwargs[name] for name in names]
        for i, tree in enumerate(chosen):
            _only_arrays(tree, f"argument {numbers[i]}" if i < len(numbers) else f"'{names[i - len(numbers)]}'")
        inputs = _leaves(chosen, [])
        kept = None

        def flat(arrays):
            nonlocal kept
            trees = _rebuild(chosen, iter(arrays))
            call, named = list(args), dict(kwargs)
            for n, tree in zip(numbers, trees):
                call[n] = tree
            for name, tree in zip(names, trees[len(numbers) :]):
                named[name] = tree
            kept = result = fun(*call, **named)
            if isinstance(result, array):
                return [result]
            if not isinstance(result, (tuple, list)) or not result or not isinstance(result[0], array):
                raise ValueError(
                    "value_and_grad(): the function must return a scalar array, or a tuple or list "
                    f"whose first element is one, not {type(result).__name__}"
                )
            return _leaves(result, [])

        values, grads = _core._value_and_grad(flat, inputs, range(len(inputs)))
        value = _rebuild(kept, iter(values))
        trees = _rebuild(chosen, iter(grads))
        positional = trees[: len(numbers)]
        positional = None if not numbers else positional[0] if single or len(numbers) == 1 else tuple(positional)
        if not names:
            return value, positional
        return value, (positional, dict(zip(names, trees[len(numbers) :])))

    return wrapped


def grad(fun, argnums=None, argnames=[]):
    both = value_and_grad(fun, argnums, argnames)

    @functools.wraps(fun, updated=())
    def wrapped(*args, **kwargs):
        return both(*args, **kwargs)[1]

    return wrapped


def _results(result, name):
    if isinstance(result, array):
        return [result]
    if isinstance(result, (list, tuple)) and all(isinstance(r, array) for r in result):
        return list(result)
    raise ValueError(f"{name}(): the function must return an array, or a list or tuple of arrays")


def _arrays(values, name, what):
    values = list(values)
    for v in values:
        if not isinstance(v, array):
            raise ValueError(f"{name}(): {what} must be arrays, not {type(v).__name__}")
    return values


def vjp(fun, primals, cotangents):
    return _core._vjp(
        lambda xs: _results(fun(*xs), "vjp"),
        _arrays(primals, "vjp", "primals"),
        _arrays(cotangents, "vjp", "cotangents"),
    )


def jvp(fun, primals, tangents):
    return _core._jvp(
        lambda xs: _results(fun(*xs), "jvp"),
        _arrays(primals, "jvp", "primals"),
        _arrays(tangents, "jvp", "tangents"),
    )


# ---- vmap ----
def _axes_of(tree, axes, what, out):
    """Appends the axis of each array of a tree: `axes` is a number, None, or a tree of the same
    structure down to some level."""
    if isinstance(tree, array):
        if axes is not None and not isinstance(axes, int):
            raise ValueError(f"vmap(): {what} must be an int or None where the tree has an array, not {axes!r}")
        if axes is not None:
            if not -tree.ndim <= axes < tree.ndim:
                _core._axis_error("vmap", axes, tree.ndim)
            axes %= tree.ndim
        out.append(-1 if axes is None else axes)
    elif isinstance(tree, (list, tuple)):
        same = axes is None or isinstance(axes, int)
        if not same and (not isinstance(axes, (list, tuple)) or len(axes) != len(tree)):
            raise ValueError(f"vmap(): {what} does not have the structure of its tree")
        for i, item in enumerate(tree):
            _axes_of(item, axes if same else axes[i], what, out)
    elif isinstance(tree, dict):
        same = axes is None or isinstance(axes, int)
        if not same and (not isinstance(axes, dict) or set(axes) != set(tree)):
            raise ValueError(f"vmap(): {what} does not have the structure of its tree")
        for key, item in tree.items():
            _axes_of(item, axes if same else axes[key], what, out)
    return out


def vmap(fun, in_axes=0, out_axes=0):
    @functools.wraps(fun, updated=())
    def wrapped(*args):
        axes = in_axes if isinstance(in_axes, (list, tuple)) else [in_axes] * len(args)
        if len(axes) != len(args):
            raise ValueError(f"vmap(): in_axes has {len(axes)} entries for {len(args)} arguments")
        kept = None

        def flat(arrays):
            nonlocal kept
            kept = fun(*_rebuild(list(args), iter(arrays)))
            return _leaves(kept, [])

        def out_of(n):
            # The structure of the results is known; their shapes within a slice are not needed to
            # follow it, negative axes are counted when the results are made.
            out = []
            _out_axes(kept, out_axes, out)
            return out

        results = _core._vmap(flat, _leaves(list(args), []), _axes_of(list(args), list(axes), "in_axes", []), out_of)
        return _rebuild(kept, iter(results))

    return wrapped


def _out_axes(tree, axes, out):
    if isinstance(tree, array):
        if axes is None:
            out.append(-1)
        else:
            n = tree.ndim + 1
            if not isinstance(axes, int) or not -n <= axes < n:
                raise ValueError(f"vmap(): out_axes has {axes!r} for a result of {n} axes")
            out.append(axes % n)
    elif isinstance(tree, (list, tuple)):
        same = axes is None or isinstance(axes, int)
        if not same and (not isinstance(axes, (list, tuple)) or len(axes) != len(tree)):
            raise ValueError("vmap(): out_axes does not have the structure of the results")
        for i, item in enumerate(tree):
            _out_axes(item, axes if same else axes[i], out)
    elif isinstance(tree, dict):
        same = axes is None or isinstance(axes, int)
        for key, item in tree.items():
            _out_axes(item, axes if same else axes[key], out)


# ---- compile ----
def _key_of(tree, arrays, key):
    """Takes a tree apart: its arrays, and everything else as something that can be compared."""
    if isinstance(tree, array):
        arrays.append(tree)
        key.append(_LEAF)
    elif isinstance(tree, (list, tuple)):
        key.append((type(tree), len(tree)))
        for item in tree:
            _key_of(item, arrays, key)
    elif isinstance(tree, dict):
        key.append((dict, len(tree)))
        for name, item in tree.items():
            key.append(name)
            _key_of(item, arrays, key)
    elif isinstance(tree, _STATE):
        arrays.append(tree[0])
        key.append(_STATE)
    elif tree is None or isinstance(tree, (bool, int, float, complex, str)):
        key.append((type(tree), tree))
    else:
        raise ValueError(
            "compile(): arguments are trees of arrays and constants (None, bool, int, float, str); "
            f"got {type(tree).__name__}"
        )


def _state_key(tree, arrays, key):
    """The same for captured state, in which other objects are left alone."""
    if isinstance(tree, array):
        arrays.append(tree)
        key.append(_LEAF)
    elif isinstance(tree, (list, tuple)):
        key.append(len(tree))
        for item in tree:
            _state_key(item, arrays, key)
    elif isinstance(tree, dict):
        key.append(len(tree))
        for name, item in tree.items():
            key.append(name)
            _state_key(item, arrays, key)
    elif isinstance(tree, _STATE):
        arrays.append(tree[0])
        key.append(_STATE)


def _shape_of(tree):
    """The structure of a tree: nested lists of (place, structure), and _LEAF for arrays."""
    if isinstance(tree, array):
        return _LEAF
    if isinstance(tree, _STATE):
        return [(0, _LEAF)]
    if isinstance(tree, (list, tuple)):
        return [(i, s) for i, s in ((i, _shape_of(item)) for i, item in enumerate(tree)) if s]
    if isinstance(tree, dict):
        return [(k, s) for k, s in ((k, _shape_of(item)) for k, item in tree.items()) if s]
    return None


def _fill(tree, shape, leaves):
    """Puts arrays into their places in a tree, in place; what is missing is made."""
    for place, below in shape:
        if below is _LEAF:
            tree[place] = next(leaves)
            continue
        if isinstance(tree, dict) and place not in tree:
            tree[place] = {}
        _fill(tree[place], below, leaves)


class _Plan:
    __slots__ = ("run", "result", "state", "n", "single")

    def __init__(self):
        self.run = self.result = self.state = None
        self.single = False
        self.n = 0


def compile(fun, inputs=None, outputs=None, shapeless=False):
    if not callable(fun):
        raise TypeError(f"compile() takes a function, not {type(fun).__name__}")
    plans, simple = {}, {}
    stateless = inputs is None and outputs is None

    @functools.wraps(fun, updated=())
    def wrapped(*args, **kwargs):
        if stateless and not kwargs:  # the usual call: arrays alone
            plan = simple.get(_core._signature(args, shapeless))
            if plan is not None:
                out = plan.run(args)
                return out[0] if plan.single else _put(plan.result, iter(out))
        if _core._compile_disabled():
            return fun(*args, **kwargs)
        arrays, key = [], []
        _key_of(args, arrays, key)
        if kwargs:
            _key_of(kwargs, arrays, key)
        n_args = len(arrays)
        if inputs is not None:
            _state_key(inputs, arrays, key)
        key.append(_core._signature(arrays, shapeless))
        key = tuple(key)
        plan = plans.get(key)
        if plan is None:
            plan = _Plan()
            # The structure of the arguments alone: a plan keeps no array of the first call.
            places = iter([_LEAF_ARRAY] * n_args)
            call, named = _rebuild(args, places), _rebuild(kwargs, places)

            def flat(traced):
                leaves = iter(traced)
                a = _put(call, leaves)
                k = _put(named, leaves)
                shape = before = None
                if inputs is not None:
                    shape = _shape_of(inputs)
                    before = _leaves(inputs, [])
                    _fill(inputs, shape, leaves)
                try:
                    result = fun(*a, **k)
                    out = _leaves(result, [])
                    plan.n = len(out)
                    plan.result = _rebuild(result, iter([_LEAF_ARRAY] * len(out)))
                    plan.single = plan.result is _LEAF_ARRAY
                    if outputs is not None:
                        plan.state = _shape_of(outputs)
                        out += _leaves(outputs, [])
                finally:
                    if inputs is not None:
                        _fill(inputs, shape, iter(before))
                return out

            plan.run = _core._compiled(flat, shapeless)
        out = plan.run(arrays)
        plans[key] = plan
        if stateless and not kwargs and len(arrays) == len(args):
            signature = _core._signature(args, shapeless)
            if signature is not None:
                simple[signature] = plan
        if outputs is not None:
            _fill(outputs, plan.state, iter(out[plan.n :]))
        return _put(plan.result, iter(out))

    return wrapped


class _Place:
    """Where an array stands in the result of a plan."""

    __slots__ = ()


_LEAF_ARRAY = _Place()


def _put(tree, leaves):
    if tree is _LEAF_ARRAY:
        return next(leaves)
    if isinstance(tree, list):
        return [_put(item, leaves) for item in tree]
    if isinstance(tree, tuple):
        items = [_put(item, leaves) for item in tree]
        return type(tree)(*items) if hasattr(tree, "_fields") else tuple(items)
    if isinstance(tree, dict):
        return {key: _put(item, leaves) for key, item in tree.items()}
    return tree


# ---- checkpoint and functions with rules of their own ----
def checkpoint(fun):
    @functools.wraps(fun, updated=())
    def wrapped(*args, **kwargs):
        kept = None

        def flat(arrays):
            nonlocal kept
            leaves = iter(arrays)
            kept = fun(*_rebuild(args, leaves), **_rebuild(kwargs, leaves))
            return _leaves(kept, [])

        out = _core._checkpointed(flat)(_leaves((args, kwargs), []))
        return _rebuild(kept, iter(out))

    return wrapped


class custom_function:
    def __init__(self, f):
        self._fun = f
        self._vjp = self._jvp = self._vmap = None
        functools.update_wrapper(self, f, updated=())

    def vjp(self, f):
        self._vjp = f
        return self

    def jvp(self, f):
        self._jvp = f
        return self

    def vmap(self, f):
        self._vmap = f
        return self

    def __call__(self, *args, **kwargs):
        if not (self._vjp or self._jvp or self._vmap):
            return self._fun(*args, **kwargs)
        fun, rule_vjp, rule_jvp, rule_vmap = self._fun, self._vjp, self._jvp, self._vmap
        kept = None

        def like_args(arrays):
            tree = _rebuild(args, iter(arrays))
            return tree[0] if len(args) == 1 else tree

        def flat(arrays):
            nonlocal kept
            leaves = iter(arrays)
            kept = fun(*_rebuild(args, leaves), **_rebuild(kwargs, leaves))
            return _leaves(kept, [])

        def flat_vjp(primals, cotangents, outputs):
            grads = rule_vjp(
                like_args(primals),
                _rebuild(kept, iter(cotangents)),
                _rebuild(kept, iter(outputs)),
            )
            out = _leaves(grads, [])
            # Arguments by name take no gradient.
            return out + [_core.zeros_like(p) for p in primals[len(out) :]]

        def flat_jvp(primals, tangents, argnums):
            given = dict(zip(argnums, tangents))
            full = [given.get(i, None) for i in range(len(primals))]
            full = [t if t is not None else _core.zeros_like(p) for t, p in zip(full, primals)]
            return _leaves(rule_jvp(like_args(primals), like_args(full)), [])

        def flat_vmap(inputs, axes):
            at = iter([None if a < 0 else a for a in axes])
            tree = _rebuild(args, at)
            results, out_axes = rule_vmap(like_args(inputs), tree[0] if len(args) == 1 else tree)
            out = []
            flat_results = _leaves(results, [])
            _flat_axes(out_axes, len(flat_results), out)
            return flat_results, out

        run = _core._custom(
            flat,
            flat_vjp if rule_vjp else None,
            flat_jvp if rule_jvp else None,
            flat_vmap if rule_vmap else None,
        )
        out = run(_leaves((args, kwargs), []))
        return _rebuild(kept, iter(out))


def _flat_axes(tree, n, out):
    if tree is None or isinstance(tree, int):
        out.extend([-1 if tree is None else tree] * (n if not out else 1))
    else:
        for item in tree.values() if isinstance(tree, dict) else tree:
            out.append(-1 if item is None else item)
