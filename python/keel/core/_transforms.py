"""Transforms of Python functions over trees of arrays.

A tree is an array or a list, tuple or dict of trees; everything else in it is a constant. The
extension transforms functions from a list of arrays to a list of arrays; here the trees are taken
apart and put together.
"""

import copy
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


class _Place:
    """Where an array stands in the result of a plan."""

    __slots__ = ()


_LEAF_ARRAY = _Place()


def _leaves(tree, out):
    """Appends the arrays of a tree, in order."""
    if isinstance(tree, array):
        out.append(tree)
    elif isinstance(tree, (list, tuple)):
        for item in tree:
            _leaves(item, out)
    elif isinstance(tree, dict):
        for item in dict.values(tree):
            _leaves(item, out)
    elif isinstance(tree, _STATE):
        out.append(_core._random_get_state())
    return out


def _tuple_like(tree, items):
    """A tuple of the class of another one, without a call of its constructor, which may take other
    arguments: namedtuples do."""
    cls = type(tree)
    if cls is tuple:
        return tuple(items)
    try:
        new = tuple.__new__(cls, items)
    except TypeError:  # a class of C, as time.struct_time, which is made from a sequence
        return cls(items)
    if getattr(tree, "__dict__", None):
        vars(new).update(vars(tree))
    return new


def _dict_like(tree, items):
    """A dict of the class of another one, with its attributes: a module stays a module."""
    if type(tree) is dict:
        return items
    new = copy.copy(tree)
    for key, item in items.items():
        dict.__setitem__(new, key, item)
    return new


def _list_like(tree, items):
    if type(tree) is list:
        return items
    new = copy.copy(tree)
    list.__setitem__(new, slice(None), items)
    return new


def _rebuild(tree, leaves):
    """The tree with its arrays, or their places in a plan, replaced by those of an iterator. The
    containers are new, and of the same classes."""
    if isinstance(tree, array) or tree is _LEAF_ARRAY:
        return next(leaves)
    if isinstance(tree, list):
        return _list_like(tree, [_rebuild(item, leaves) for item in tree])
    if isinstance(tree, tuple):
        return _tuple_like(tree, [_rebuild(item, leaves) for item in tree])
    if isinstance(tree, dict):
        return _dict_like(tree, {key: _rebuild(item, leaves) for key, item in dict.items(tree)})
    return tree


def _gradients(tree, leaves):
    """The gradients of a tree: those of lists and dicts of any class, also of modules, stand in
    plain ones, as in MLX."""
    if isinstance(tree, array):
        return next(leaves)
    if isinstance(tree, list):
        return [_gradients(item, leaves) for item in tree]
    if isinstance(tree, tuple):
        return _tuple_like(tree, [_gradients(item, leaves) for item in tree])
    return {key: _gradients(item, leaves) for key, item in dict.items(tree)}


# ---- trees that a function may write into ----
# A function that is differentiated gets the lists and dicts of its caller, in which the arrays are
# replaced while it runs: what it writes there is kept, as in MLX. Batch norm keeps its statistics
# so.
def _containers(tree, seen):
    """Notes the lists and dicts of a tree by their ids."""
    if isinstance(tree, (list, dict)):
        seen[id(tree)] = tree
    if isinstance(tree, (list, tuple, dict)):
        for item in dict.values(tree) if isinstance(tree, dict) else tree:
            _containers(item, seen)
    return seen


def _shares(tree, seen):
    """Whether a tree has one of these lists and dicts in it."""
    if not isinstance(tree, (list, tuple, dict)):
        return False
    items = dict.values(tree) if isinstance(tree, dict) else tree
    return id(tree) in seen or any(_shares(item, seen) for item in items)


def _place(tree, leaves, free):
    """The tree with its arrays replaced by those of an iterator, in place. A list or dict that was
    met before, and so is no longer in `free`, becomes another one: each place has its array."""
    if isinstance(tree, array):
        return next(leaves)
    if isinstance(tree, tuple):
        return _tuple_like(tree, [_place(item, leaves, free) for item in tree])
    if free.pop(id(tree), None) is None:
        return _rebuild(tree, leaves)
    if isinstance(tree, list):
        list.__setitem__(tree, slice(None), [_place(item, leaves, free) for item in tree])
    else:
        for key, item in list(dict.items(tree)):
            dict.__setitem__(tree, key, _place(item, leaves, free))
    return tree


def _restore(tree, before, seen):
    """Puts the arrays of before back where those of the function stand. `before`: the arrays of the
    function by their ids, each with its count of assignments and the array from before. One that the function has
    assigned to, as x += 1 does, is what it has written."""
    if isinstance(tree, array):
        kept = before.get(id(tree))
        return kept[1] if kept and _core._assigned(tree) == kept[0] else tree
    if not isinstance(tree, (list, tuple, dict)) or id(tree) in seen:
        return tree
    if isinstance(tree, tuple):
        items = [_restore(item, before, seen) for item in tree]
        return tree if all(x is y for x, y in zip(tree, items)) else _tuple_like(tree, items)
    seen.add(id(tree))
    places = list(dict.items(tree)) if isinstance(tree, dict) else list(enumerate(tree))
    write = dict.__setitem__ if isinstance(tree, dict) else list.__setitem__
    for place, item in places:
        new = _restore(item, before, seen)
        if new is not item:
            write(tree, place, new)
    return tree


def _only_arrays(tree, what):
    """Checks that gradients can be asked for: every leaf is an array."""
    if isinstance(tree, (list, tuple)):
        for item in tree:
            _only_arrays(item, what)
    elif isinstance(tree, dict):
        for item in dict.values(tree):
            _only_arrays(item, what)
    elif not isinstance(tree, array):
        raise ValueError(f"{what} is differentiated: it must be a tree of arrays, not hold {tree!r}")


def _callable(fun, name):
    """Refuses at once what cannot be called, which would fail far from here."""
    if not callable(fun):
        raise TypeError(f"{name}(): argument 'fun' is a {type(fun).__name__}, but must be a function")


def _as_numbers(argnums, argnames):
    names = [argnames] if isinstance(argnames, str) else list(argnames)
    if argnums is None:
        argnums = [] if names else 0
    numbers = [argnums] if isinstance(argnums, int) else list(argnums)
    if not all(isinstance(n, int) for n in numbers):
        raise TypeError(f"value_and_grad(): argument numbers must be ints, got {numbers}")
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
    _callable(fun, "value_and_grad")
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
        shapes = _gradients(chosen, iter(inputs))  # the function may change the trees
        shared = {}
        for tree in chosen:
            _containers(tree, shared)
        call, named = list(args), dict(kwargs)
        if shared:  # the function must not meet the arrays of its differentiated arguments elsewhere
            for n, tree in enumerate(call):
                if n not in numbers and _shares(tree, shared):
                    call[n] = _rebuild(tree, iter(_leaves(tree, [])))
            for name, tree in named.items():
                if name not in names and _shares(tree, shared):
                    named[name] = _rebuild(tree, iter(_leaves(tree, [])))
        kept = None

        def flat(arrays):
            nonlocal kept
            if shared:
                before = {id(x): (_core._assigned(x), y) for x, y in zip(arrays, inputs)}
                free, leaves = dict(shared), iter(arrays)
                trees = [_place(tree, leaves, free) for tree in chosen]
            else:
                trees = _rebuild(chosen, iter(arrays))
            for n, tree in zip(numbers, trees):
                call[n] = tree
            for name, tree in zip(names, trees[len(numbers) :]):
                named[name] = tree
            try:
                result = fun(*call, **named)
                out = None if isinstance(result, array) else _leaves(result, [])
                kept = _rebuild(result, iter(out)) if out else result
            finally:
                if shared:
                    seen = set()
                    for tree in chosen:
                        _restore(tree, before, seen)
            if out is None:
                return [result]
            if not isinstance(result, (tuple, list)) or not result or not isinstance(result[0], array):
                raise ValueError(
                    "value_and_grad(): the function must return a scalar array, or a tuple or list "
                    f"whose first element is one, not {type(result).__name__}"
                )
            return out

        values, grads = _core._value_and_grad(flat, inputs, range(len(inputs)))
        value = _rebuild(kept, iter(values))
        trees = _gradients(shapes, iter(grads))
        positional = trees[: len(numbers)]
        positional = None if not numbers else positional[0] if single or len(numbers) == 1 else tuple(positional)
        if not names:
            return value, positional
        return value, (positional, dict(zip(names, trees[len(numbers) :])))

    return wrapped


def grad(fun, argnums=None, argnames=[]):
    _callable(fun, "grad")

    def scalar(*args, **kwargs):
        result = fun(*args, **kwargs)
        if isinstance(result, array):
            return result
        raise ValueError(
            f"grad(): the function must return a scalar array, not {type(result).__name__}; "
            "value_and_grad takes a tuple or list whose first element is one"
        )

    both = value_and_grad(scalar, argnums, argnames)

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
    _callable(fun, "vjp")
    return _core._vjp(
        lambda xs: _results(fun(*xs), "vjp"),
        _arrays(primals, "vjp", "primals"),
        _arrays(cotangents, "vjp", "cotangents"),
    )


def jvp(fun, primals, tangents):
    _callable(fun, "jvp")
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
    _callable(fun, "vmap")

    @functools.wraps(fun, updated=())
    def wrapped(*args):
        axes = in_axes if isinstance(in_axes, (list, tuple)) else [in_axes] * len(args)
        if len(axes) != len(args):
            raise ValueError(f"vmap(): in_axes has {len(axes)} entries for {len(args)} arguments")
        leaves, at = _leaves(list(args), []), _axes_of(list(args), list(axes), "in_axes", [])
        kept = None

        def flat(arrays):
            nonlocal kept
            # What has no lanes is what it is outside, and can be evaluated.
            lanes = iter(arrays)
            kept = fun(*_rebuild(list(args), iter([array(x) if i < 0 else next(lanes) for x, i in zip(leaves, at)])))
            return _leaves(kept, [])

        def out_of(n):
            # The structure of the results is known; their shapes within a slice are not needed to
            # follow it, negative axes are counted when the results are made.
            out = []
            alone = isinstance(kept, array) and isinstance(out_axes, (list, tuple)) and len(out_axes) == 1
            _out_axes(kept, out_axes[0] if alone else out_axes, out)
            return out

        mapped = [x for x, i in zip(leaves, at) if i >= 0]
        results = _core._vmap(flat, mapped, [i for i in at if i >= 0], out_of)
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
        if not same and (not isinstance(axes, dict) or set(axes) != set(tree)):
            raise ValueError("vmap(): out_axes does not have the structure of the results")
        for key, item in tree.items():
            _out_axes(item, axes if same else axes[key], out)


# ---- compile ----
_CONSTANTS = (type(None), bool, int, float, complex, str)


class _Same:
    """Any other object in a key: equal to itself alone."""

    __slots__ = ("of",)

    def __init__(self, of):
        self.of = of

    def __eq__(self, other):
        return isinstance(other, _Same) and self.of is other.of

    def __hash__(self):
        return id(self.of)


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
        key.append((type(tree), len(tree)))
        for name, item in dict.items(tree):
            key.append(name)
            _key_of(item, arrays, key)
        if type(tree) is not dict:  # a module's flag for training is no item of it
            for name, item in getattr(tree, "__dict__", {}).items():
                key += (name, (type(item), item) if isinstance(item, _CONSTANTS) else _Same(item))
    elif isinstance(tree, _STATE):
        arrays.append(_core._random_get_state())
        key.append(_STATE)
    elif isinstance(tree, _CONSTANTS):
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
        arrays.append(_core._random_get_state())
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


class _Outcome:
    """What the latest trace of a plan gave: the trace writes it, and holds it but not the plan, which would hold itself."""

    __slots__ = ("result", "state", "n", "single")

    def __init__(self):
        self.result = self.state = None
        self.single = False
        self.n = 0


_MOST_PLANS = 4096  # of one function


def _bound(plans):
    """Drops the oldest quarter of too many plans. One that is asked for again is traced again."""
    if len(plans) > _MOST_PLANS:
        for key in list(plans)[: _MOST_PLANS // 4 + 1]:
            plans.pop(key, None)


def compile(fun, inputs=None, outputs=None, shapeless=False):
    _callable(fun, "compile")
    plans, simple = {}, {}  # of pairs: what runs a plan, and its outcome
    stateless = inputs is None and outputs is None

    @functools.wraps(fun, updated=())
    def wrapped(*args, **kwargs):
        if stateless and not kwargs:  # the usual call: arrays alone
            plan = simple.get(_core._signature(args, shapeless))
            if plan is not None:
                run, outcome = plan
                out = run(args)
                return out[0] if outcome.single else _rebuild(outcome.result, iter(out))
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
        if plan is not None:
            run, outcome = plan
        else:
            outcome = _Outcome()
            # The structure of the arguments alone: a plan keeps no array of the first call.
            places = iter([_LEAF_ARRAY] * n_args)
            call, named = _rebuild(args, places), _rebuild(kwargs, places)

            def flat(traced):
                leaves = iter(traced)
                a = _rebuild(call, leaves)
                k = _rebuild(named, leaves)
                shape = before = None
                if inputs is not None:
                    shape = _shape_of(inputs)
                    before = _leaves(inputs, [])
                    _fill(inputs, shape, leaves)
                try:
                    result = fun(*a, **k)
                    out = _leaves(result, [])
                    outcome.n = len(out)
                    outcome.result = _rebuild(result, iter([_LEAF_ARRAY] * len(out)))
                    outcome.single = outcome.result is _LEAF_ARRAY
                    if outputs is not None:
                        outcome.state = _shape_of(outputs)
                        out += _leaves(outputs, [])
                finally:
                    if inputs is not None:
                        _fill(inputs, shape, iter(before))
                return out

            run = _core._compiled(flat, shapeless)
            plan = run, outcome
        out = run(arrays)
        plans[key] = plan
        _bound(plans)
        if stateless and not kwargs and len(arrays) == len(args):
            signature = _core._signature(args, shapeless)
            if signature is not None:
                simple[signature] = plan
                _bound(simple)
        if outputs is not None:
            _fill(outputs, outcome.state, iter(out[outcome.n :]))
        return _rebuild(outcome.result, iter(out))

    return wrapped


# ---- checkpoint and functions with rules of their own ----
def checkpoint(fun):
    _callable(fun, "checkpoint")

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
        _callable(f, "custom_function")
        self._fun = f
        self._vjp = self._jvp = self._vmap = None
        functools.update_wrapper(self, f, updated=())

    def vjp(self, f):
        _callable(f, "custom_function.vjp")
        self._vjp = f
        return self

    def jvp(self, f):
        _callable(f, "custom_function.jvp")
        self._jvp = f
        return self

    def vmap(self, f):
        _callable(f, "custom_function.vmap")
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
            out, leaves = [], iter(primals)
            if len(args) == 1 and not (isinstance(grads, (list, tuple)) and isinstance(args[0], array)):
                grads = (grads,)
            _match(grads, args, leaves, "", out)
            # Arguments by name take no gradient.
            return out + [_core.zeros_like(p) for p in leaves]

        def flat_jvp(primals, tangents, argnums):
            given = dict(zip(argnums, tangents))
            full = [given.get(i, None) for i in range(len(primals))]
            full = [t if t is not None else _core.zeros_like(p) for t, p in zip(full, primals)]
            return _leaves(rule_jvp(like_args(primals), like_args(full)), [])

        def flat_vmap(inputs, axes):
            at = iter([None if a < 0 else a for a in axes])
            tree = _rebuild(args, at)
            both = rule_vmap(like_args(inputs), tree[0] if len(args) == 1 else tree)
            if not isinstance(both, (tuple, list)) or len(both) != 2:
                raise ValueError(
                    "custom_function.vmap(): the rule returns a pair, the results and their axes, "
                    f"not {type(both).__name__}"
                )
            results, out_axes = both
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


def _match(grads, tree, primals, place, out):
    """Appends the gradient of each array of a tree, as the rule of a custom function gave them: in
    the same structure, in which None and a missing key of a dict stand for zeros."""
    if isinstance(tree, array):
        primal = next(primals)
        if grads is not None and not isinstance(grads, array):
            raise ValueError(
                f"custom_function.vjp(): the gradient of argument{place} is an array, or None, "
                f"not {type(grads).__name__}"
            )
        out.append(_core.zeros_like(primal) if grads is None else grads)
    elif isinstance(tree, (list, tuple)):
        if grads is not None and (not isinstance(grads, (list, tuple)) or len(grads) != len(tree)):
            got = f"{len(grads)} items" if isinstance(grads, (list, tuple)) else type(grads).__name__
            raise ValueError(
                f"custom_function.vjp(): the rule gives one gradient for each of {len(tree)} items"
                f"{' of argument' + place if place else ''}, not {got}"
            )
        for i, item in enumerate(tree):
            below = f"{place}[{i}]" if place else f" {i}"
            _match(None if grads is None else grads[i], item, primals, below, out)
    elif isinstance(tree, dict):
        if grads is not None and (not isinstance(grads, dict) or not set(grads) <= set(tree)):
            raise ValueError(
                f"custom_function.vjp(): the gradients of argument{place} are a dict with the keys "
                f"{list(tree)}, not {grads if isinstance(grads, dict) else type(grads).__name__}"
            )
        for key, item in dict.items(tree):
            _match(None if grads is None else grads.get(key), item, primals, f"{place}[{key!r}]", out)


def _flat_axes(tree, n, out):
    if tree is None or isinstance(tree, int):
        out.extend([-1 if tree is None else tree] * (n if not out else 1))
    else:
        for item in tree.values() if isinstance(tree, dict) else tree:
            out.append(-1 if item is None else item)
