"""No int that is given wraps: for every parameter of every function that takes ints, by the type stubs.

A number that int32 (or what the parameter is) does not hold raises, or the result is that of the number itself.
"""

import ast
import types

import keel.core as mx
import numpy as np
import pytest
import test_names

VALUES = [2**31, 2**32, 2**32 + 1, 2**63, 2**64, 2**64 + 1, -(2**31) - 1, -(2**32), -(2**63) - 1]
ERRORS = (TypeError, ValueError, OverflowError, IndexError)
# What is tested by hand below, or has no effect that can be compared.
BY_HAND = {"arange", "set_printoptions", "seed", "key", "set_cache_limit", "set_memory_limit", "set_wired_limit"}


def takes_ints(arg):
    kinds = ast.unparse(arg.annotation).split(" | ") if arg.annotation is not None else []
    return {"int", "Sequence[int]"} & set(kinds)


def with_argument(call, node, name, value):
    """The call of test_names.CALLS with one argument replaced by the name `value`; None where it is no plain call."""
    tree = ast.parse(call, mode="eval")
    made = tree.body
    if not isinstance(made, ast.Call) or any(isinstance(x, ast.Starred) for x in made.args):
        return None
    positional = [a.arg for a in node.args.posonlyargs + node.args.args]
    positional = positional[1:] if positional[:1] == ["self"] else positional
    given = ast.Name(value, ast.Load())
    made.keywords = [k for k in made.keywords if k.arg != name]
    if node.args.vararg and node.args.vararg.arg == name:
        made.args = made.args[: len(positional)] + [given]
    elif name in positional and positional.index(name) < len(made.args):
        made.args[positional.index(name)] = given
    elif name in positional[: len(node.args.posonlyargs)]:
        return None
    else:
        made.keywords.append(ast.keyword(name, given))
    return compile(ast.fix_missing_locations(tree), call, "eval")


def cases():
    for where, _, node in test_names.STUBS:
        module, _, kind = where.partition(".")
        owner = f"class core.{kind}" if kind else "core" if module == "__init__" else f"core.{module}"
        call = test_names.CALLS.get((owner, node.name))
        arguments = node.args.posonlyargs + node.args.args + node.args.kwonlyargs
        arguments += [node.args.vararg] if node.args.vararg else []
        for arg in arguments:
            if call and takes_ints(arg) and node.name not in BY_HAND:
                code = with_argument(call, node, arg.arg, "value")
                if code:
                    lists = "Sequence[int]" in ast.unparse(arg.annotation)
                    yield pytest.param(code, lists, id=f"{owner}.{node.name}-{arg.arg}")


CASES = list(cases())


def test_there_are_enough():
    functions = {c.id.rpartition("-")[0] for c in CASES}
    assert len(functions) > 100, sorted(functions)


def result_of(code, value):
    scope = vars(test_names) | {"value": value}
    try:
        out = eval(code, scope)
        test_names.evaluated(out)
        return "ok", np.array(out) if isinstance(out, mx.array) else repr(out)
    except ERRORS as e:
        return "raises", type(e)


def wrapped(value):
    """What a cast would make of it, in 32 and in 64 bits."""
    for bits in (32, 64):
        yield (value + 2 ** (bits - 1)) % 2**bits - 2 ** (bits - 1)


def same(x, y):
    return x[0] == y[0] == "ok" and type(x[1]) is type(y[1]) and np.array_equal(x[1], y[1])


@pytest.mark.parametrize("code, lists", CASES)
def test_no_int_wraps(code, lists):
    forms = [lambda v: v, lambda v: (v,), lambda v: [v, v], lambda v: np.array([v], object)]
    for value in VALUES:
        for shape in forms if lists else forms[:1]:
            try:
                got = result_of(code, shape(value))
            except MemoryError:
                continue
            if got[0] == "raises":
                continue
            for w in wrapped(value):
                assert w == value or not same(got, result_of(code, shape(w))), f"{value} is taken as {w}"


# ---- parameters of 64 bits ----
@pytest.mark.parametrize("value", [2**64, 2**64 + 1, -1, -(2**63) - 1, 1.0, "1", None, mx.array(3), mx.array([3])])
def test_what_is_no_number_of_64_bits(value):
    for f in (mx.random.seed, mx.random.key, mx.set_cache_limit, mx.set_memory_limit, mx.set_wired_limit):
        with pytest.raises(TypeError):
            f(value)
    with pytest.raises(TypeError):
        mx.as_strided(mx.ones(4), (2,), (1,), value) if value is not None else mx.as_strided(mx.ones(4), (2,), (1,), "x")


def test_keys_and_seeds_of_64_bits():
    for seed in (0, 1, 2**32 - 1, 2**32, 2**63 - 1, 2**63, 2**64 - 1):
        assert mx.random.key(seed).tolist() == [seed >> 32, seed & 0xFFFFFFFF]
        mx.random.seed(seed)
        assert mx.random.state[0].tolist() == [seed >> 32, seed & 0xFFFFFFFF]
    mx.random.seed(np.int64(3))
    assert mx.random.state[0].tolist() == [0, 3]


# ---- values of arrays ----
INTEGERS = {mx.uint8: (0, 255), mx.int8: (-128, 127), mx.uint16: (0, 65535), mx.int16: (-32768, 32767), mx.uint32: (0, 2**32 - 1),
            mx.int32: (-(2**31), 2**31 - 1), mx.int64: (-(2**63), 2**63 - 1), mx.uint64: (0, 2**64 - 1)}  # fmt: skip


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_full_takes_what_the_dtype_holds(dtype):
    low, high = INTEGERS[dtype]
    a = mx.zeros((2,), dtype)
    for full in (lambda v: mx.full((2,), v, dtype=dtype), lambda v: mx.full_like(a, v), lambda v: a + v):
        for value in (low, high, 0, 1):
            assert full(value).dtype == dtype and full(value).tolist() == [value] * 2
        for value in (high + 1, *([low - 1] if dtype != mx.uint64 else []), 2**70, -(2**70)):
            with pytest.raises((ValueError, OverflowError)):
                full(value)
    assert mx.full((2,), True, dtype=dtype).tolist() == [1, 1] and mx.full((2,), 2.0, dtype=dtype).tolist() == [2, 2]
    # Arrays are cast, as everywhere.
    assert mx.full((1,), mx.array(3), dtype=dtype).tolist() == [3]


# ---- float64 ----
def test_a_float_goes_into_float64_as_it_is():
    x = 0.37
    a = mx.zeros((1,), mx.float64)
    for made in (
        mx.full((1,), x, dtype=mx.float64), mx.full_like(a, x), a + x, mx.array([x], mx.float64), mx.array([x, a[0]], mx.float64)[:1],
        mx.clip(a, x, 1.0), mx.where(mx.array([True]), x, a), mx.maximum(a, x), mx.pad(a[:0], (1, 0), constant_values=x), a.at[0].add(x),
        mx.array(np.array([x]), mx.float64), mx.array(types.SimpleNamespace(__dlpack__=np.array([x]).__dlpack__), mx.float64),
        mx.unique(a, 2, fill_value=x)[1:], mx.linspace(x, 1, 2, dtype=mx.float64)[:1], mx.arange(x, 1, 1, dtype=mx.float64),
    ):  # fmt: skip
        assert made.dtype == mx.float64 and made.tolist() == [x]
    a[0] = x
    assert a.item() == x
    one = mx.array(1.0, mx.float64)
    near = one + 1e-9
    for f in (mx.isclose, mx.allclose):
        assert not f(one, near, rtol=0.9e-9, atol=0).item() and f(one, near, rtol=1.1e-9, atol=0).item()
        assert f(mx.zeros((), mx.float64), mx.full((), 0.1, mx.float64), rtol=0, atol=0.1).item()
