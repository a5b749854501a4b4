"""The area "functions" of tools/peers/python_differential.py: random calls of functions and operators.

A program is one expression over mx, np and A(dtype, shape, seed, kind), which makes an array. Values
are compared within the rounding of their dtype, relative to the largest element of the result.
"""

import inspect
import math

FLOATS = ["float32", "float16", "bfloat16"]
INTS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
ALL = FLOATS + INTS + ["bool_", "complex64"]
SHAPES = [(), (1,), (3,), (4,), (2, 3), (3, 1), (1, 4), (2, 2), (0,), (2, 0), (2, 1, 3), (2, 3, 4), (3, 3)]


# ---- arrays, made alike in both processes ----
def make_array(mx, np, dtype, shape, seed, kind="any"):
    rng = np.random.default_rng(seed)
    if dtype == "bool_":
        return mx.array(rng.integers(0, 2, shape).astype(bool))
    if "int" in dtype:
        low = 1 if kind == "positive" else 0 if dtype[0] == "u" or kind == "small" else -9
        high = 3 if kind == "small" else 10
        return mx.array(rng.integers(low, high, shape).astype(dtype))
    values = rng.uniform(0.1, 0.9, shape) if kind in ("positive", "small") else rng.uniform(-3, 3, shape)
    if dtype == "complex64":
        return mx.array((values + 1j * rng.uniform(-1, 1, shape)).astype("complex64"))
    values = np.asarray(np.round(values * 64) / 64, "float32")  # exact in every float dtype
    return mx.array(values).astype(getattr(mx, dtype))


PRELUDE = f"""{inspect.getsource(make_array)}

def A(*arguments):
    return make_array(mx, np, *arguments)

"""


# ---- comparison ----
ROUNDING = {"float32": 2e-5, "complex64": 2e-5, "float16": 4e-3, "bfloat16": 3e-2, "float64": 1e-12}


def near(x, y, tolerance, scale):
    if x == y or (x != x and y != y):
        return True
    return abs(x - y) <= tolerance * max(abs(x), abs(y), scale)


def flat(data, out):
    if isinstance(data, list):
        for x in data:
            flat(x, out)
    elif isinstance(data, complex):
        out += [data.real, data.imag]
    else:
        out.append(data)
    return out


def same(k, m):
    if type(k) is not type(m):
        return False
    if isinstance(k, tuple) and k[:1] == ("array",):
        if k[:3] != m[:3]:
            return False
        tolerance = ROUNDING.get(k[1], 0)
        k, m = flat(k[3], []), flat(m[3], [])
        finite = [abs(y) for y in m if y == y and abs(y) != math.inf]
        scale = max(finite, default=1) if tolerance else 0
        return len(k) == len(m) and all(near(x, y, tolerance, 0.1 * scale) for x, y in zip(k, m))
    if isinstance(k, (list, tuple)):
        return len(k) == len(m) and all(same(x, y) for x, y in zip(k, m))
    if isinstance(k, (float, complex)):
        return all(near(x, y, 1e-6, 0) for x, y in zip(flat(k, []), flat(m, [])))
    return k == m


def agree(keel, mlx):
    if keel[0] == mlx[0] == "error":
        return mlx[1] == keel[1] or keel[1] == "AxisError" and mlx[1] in ("ValueError", "IndexError") or keel[1] == "LimitError" and mlx[1] in ("ValueError", "OverflowError")
    return keel[0] == mlx[0] == "value" and same(keel[1], mlx[1])


# ---- the calls ----
def generate_functions(rng):
    """One random call: a program, and its expression as the tag by which differences are explained."""
    call = rng.choices([f for f, _ in FAMILIES], [w for _, w in FAMILIES])[0](rng)
    return f"{PRELUDE}result = {call}", {call}


def array(rng, dtypes=None, shape=None, kind="any"):
    shape = rng.choice(SHAPES) if shape is None else shape
    return f"A({rng.choice(dtypes or ALL)!r},{shape!r},{rng.randrange(1000)},{kind!r})"


def scalar(rng):
    return rng.choice(["2", "-1", "0", "2.5", "True", "1.5", "3", "300", "(1+2j)", "70000", "2**40", "float('nan')", "float('inf')"])


def operand(rng, shape):
    what = rng.random()
    if what < 0.55:
        other = rng.choice([shape, (), shape[1:], shape[-1:], (1,) * len(shape), rng.choice(SHAPES)])
        return array(rng, None, tuple(other))
    if what < 0.85:
        return scalar(rng)
    if what < 0.92:
        return rng.choice(["np.float32(1.5)", "np.int64(3)", "np.array([1,2,3])", "np.array(2.5)", "np.array([True])"])
    return rng.choice(["[1, 2]", "None", "'a'", "(1,)", "object()", "np.array([1.5], 'float32')"])


def axis(rng, ndim):
    return repr(rng.choice(range(-ndim - 1, ndim + 1))) if rng.random() < 0.25 or not ndim else repr(rng.choice(range(-ndim, ndim)))


def axes(rng, ndim):
    what = rng.random()
    if what < 0.25:
        return "None"
    if what < 0.6:
        return axis(rng, ndim)
    numbers = [rng.choice(range(-ndim, ndim)) if ndim else 0 for _ in range(rng.randrange(0, ndim + 1))]
    if rng.random() < 0.8:
        numbers = list({n % ndim if ndim else n for n in numbers})
    return repr(numbers if rng.random() < 0.5 else tuple(numbers))


def arguments(rng, names, values, positional=True):
    """Later arguments by position or by name; trailing ones are left out at times."""
    n = rng.randrange(len(values) + 1)
    by_place = rng.randrange(n + 1) if positional else 0
    return "".join(
        f", {values[i]}" if i < by_place else f", {names[i]}={values[i]}" for i in range(n)
    )


UNARY = (
    "abs arccos arccosh arcsin arcsinh arctan arctanh ceil conj cos cosh degrees erf erfinv exp expm1 floor isfinite "
    "isinf isnan isneginf isposinf log log10 log1p log2 logical_not negative radians real imag reciprocal rsqrt "
    "sigmoid sign sin sinh sqrt square tan tanh bitwise_invert stop_gradient zeros_like ones_like copy acos asin"
).split()
BINARY = (
    "add subtract multiply divide floor_divide remainder power maximum minimum equal not_equal less less_equal "
    "greater greater_equal logaddexp logical_and logical_or bitwise_and bitwise_or bitwise_xor left_shift "
    "right_shift arctan2 divmod array_equal isclose allclose"
).split()
OPERATORS = "+ - * / // % ** == != < <= > >= & | ^ << >> @".split()


def unary(rng):
    name = rng.choice(UNARY)
    a = array(rng, None, None, rng.choice(["any", "positive"]))
    if rng.random() < 0.1:
        a = scalar(rng)
    if rng.random() < 0.15:
        return f"{a}.{rng.choice('abs cos exp log log10 log1p log2 reciprocal rsqrt sin sqrt square conj'.split())}()"
    return f"mx.{name}({a})"


def binary(rng):
    name, shape = rng.choice(BINARY), rng.choice(SHAPES)
    x, y = array(rng, None, shape, rng.choice(["any", "small"])), operand(rng, shape)
    if rng.random() < 0.4:
        x, y = y, x
    if name == "power" or rng.random() < 0.1:
        x = array(rng, None, shape, "positive")
        y = array(rng, ALL, (), "small") if rng.random() < 0.6 else rng.choice(["2", "0.5", "3.0"])
    return f"mx.{name}({x}, {y})"


def operator(rng):
    shape = rng.choice(SHAPES)
    op = rng.choice(OPERATORS)
    x, y = array(rng, None, shape, rng.choice(["any", "small"])), operand(rng, shape)
    if op == "**":
        y = rng.choice(["2", "0.5", "3", array(rng, ["int32", "float32", "uint8"], (), "small")])
    if op in ("<<", ">>"):
        y = rng.choice(["1", "2", array(rng, INTS, (), "small")])
    if rng.random() < 0.3 and op not in ("@",):
        if not y.startswith("np."):  # NumPy's own operator would come first
            x, y = y, x
    if rng.random() < 0.1:
        return f"[a.__i{ {'+': 'add', '-': 'sub', '*': 'mul', '/': 'truediv', '//': 'floordiv'}.get(op, 'add') }__({y}) for a in [{x}]][0]" if x.startswith("A(") else f"({x}) {op} ({y})"
    return f"({x}) {op} ({y})"


def unary_operator(rng):
    a = array(rng)
    return rng.choice([f"-{a}", f"~{a}", f"abs({a})", f"+{a}", f"bool({a})", f"int({a})", f"float({a})", f"len({a})",
                       f"{a}.item()", f"{a}.tolist()", f"repr({a})", f"{a}.T", f"{a}.real", f"{a}.imag", f"{a}.ndim",
                       f"{a}.size", f"{a}.nbytes", f"{a}.itemsize", f"{a}.shape", f"complex({a})", f"[x for x in range({a})]",
                       f"bytes({a})", f"{a}.mT"])


REDUCTIONS = "sum prod max min mean all any var std logsumexp median".split()


def reduction(rng):
    name, shape = rng.choice(REDUCTIONS), rng.choice(SHAPES)
    a = array(rng, None, shape, "small" if name == "prod" else "any")
    if name in ("var", "std"):
        rest = arguments(rng, ["axis", "keepdims", "ddof"], [axes(rng, len(shape)), rng.choice(["True", "False"]), rng.choice("01")])
    else:
        rest = arguments(rng, ["axis", "keepdims"], [axes(rng, len(shape)), rng.choice(["True", "False", "1"])])
    if name != "median" and rng.random() < 0.3:
        return f"{a}.{name}({rest[2:]})"
    return f"mx.{name}({a}{rest})"


def along(rng):
    name, shape = rng.choice("argmax argmin cumsum cumprod cummax cummin sort argsort softmax logcumsumexp count_nonzero minmax".split()), rng.choice(SHAPES)
    a = array(rng, None, shape, "small" if name == "cumprod" else "any")
    if name == "minmax":
        name = "argmax"
    values = {"argmax": ["keepdims"], "argmin": ["keepdims"], "count_nonzero": ["keepdims"]}.get(name, [])
    one = axis(rng, len(shape)) if rng.random() < 0.8 else "None"
    if name in ("softmax", "count_nonzero"):
        one = axes(rng, len(shape))
    rest = arguments(rng, ["axis"] + values, [one] + [rng.choice(["True", "False"])] * len(values))
    if name.startswith(("cum", "logcum")) and rng.random() < 0.5:
        rest += rng.choice([", reverse=True", ", inclusive=False", ", reverse=True, inclusive=False"])
    if name == "softmax" and rng.random() < 0.2:
        rest += ", precise=True"
    return f"mx.{name}({a}{rest})"


def partition(rng):
    name, shape = rng.choice(["partition", "topk", "argpartition"]), rng.choice(SHAPES)
    a, k = array(rng, FLOATS[:1] + INTS, shape), rng.randrange(-3, 5)
    call = f"mx.{name}({a}, {k}" + arguments(rng, ["axis"], [rng.choice([axis(rng, len(shape)), "None"])]) + ")"
    if name == "argpartition":
        return f"{call}.shape"
    if name == "topk" or name == "partition":  # the order within the parts is not defined
        return f"mx.sort({call}).shape"
    return call


def shapes(rng):
    shape = rng.choice(SHAPES)
    a, n = array(rng, ["float32", "int32", "bool_"], shape), len(shape)
    size = math.prod(shape)
    return rng.choice([
        lambda: f"mx.reshape({a}, {rng.choice([(-1,), (size,), (size, 1), (1, -1), (2, -1), (-1, -1), (0, 2), ()])!r})",
        lambda: f"{a}.reshape({rng.choice(['-1', '2, -1', '(-1, 1)', '[1, -1]', str(size), '', '()'])})",
        lambda: f"mx.transpose({a}{arguments(rng, ['axes'], [repr(rng.sample(range(n), n)) if rng.random() < 0.8 else axes(rng, n)])})",
        lambda: f"{a}.transpose({', '.join(map(str, rng.sample(range(n), n)))})",
        lambda: f"mx.moveaxis({a}, {axis(rng, n)}, {axis(rng, n)})",
        lambda: f"mx.swapaxes({a}, {axis(rng, n)}, {axis(rng, n)})",
        lambda: f"mx.squeeze({a}{arguments(rng, ['axis'], [axes(rng, n)])})",
        lambda: f"mx.expand_dims({a}, {rng.choice(['0', '-1', '(0, 1)', '[0, -1]', '5', '(0, 0)', str(n)])})",
        lambda: f"mx.flatten({a}{arguments(rng, ['start_axis', 'end_axis'], [axis(rng, n), axis(rng, n)])})",
        lambda: f"mx.unflatten({a}, {axis(rng, n)}, {rng.choice(['(1, -1)', '(2, -1)', '(-1, 3)', '(2, 2)', '()'])})",
        lambda: f"mx.broadcast_to({a}, {rng.choice([shape, (2,) + shape, (2, 3, 4), (3,), ()])!r})",
        lambda: f"mx.broadcast_arrays({a}, {array(rng, ['float32'])})",
        lambda: f"mx.tile({a}, {rng.choice(['2', '(2, 1)', '[2, 2, 2]', '0', '()', '-1'])})",
        lambda: f"mx.repeat({a}, {rng.choice(['2', '0', '1'])}{arguments(rng, ['axis'], [rng.choice(['None', axis(rng, n)])])})",
        lambda: f"mx.roll({a}, {rng.choice(['1', '-2', '(1, 2)', '7'])}{arguments(rng, ['axis'], [axes(rng, n)])})",
        lambda: f"mx.pad({a}, {rng.choice(['1', '(1, 2)', '[(1, 0)]', '((1, 1), (0, 2))', '0', '-1', '[1]', '(1,)'])}{arguments(rng, ['mode', 'constant_values'], [rng.choice(['constant', 'edge', 'x']).__repr__(), scalar(rng)])})",
        lambda: f"mx.atleast_{rng.choice('123')}d({a})",
        lambda: f"mx.diagonal({a}{arguments(rng, ['offset', 'axis1', 'axis2'], [rng.choice(['0', '1', '-1', '5']), axis(rng, n), axis(rng, n)])})",
        lambda: f"mx.diag({a}{arguments(rng, ['k'], [rng.choice(['0', '1', '-1', '5'])])})",
        lambda: f"mx.trace({a}{arguments(rng, ['offset', 'axis1', 'axis2', 'dtype'], [rng.choice(['0', '1', '-1']), axis(rng, n), axis(rng, n), rng.choice(['None', 'mx.float32'])])})" if shape in [(2, 3), (2, 2), (3, 3)] else f"mx.diag({a})",  # MLX hangs where the diagonal is empty
        lambda: f"mx.{rng.choice(['tril', 'triu'])}({a}{arguments(rng, ['k'], [rng.choice(['0', '1', '-2'])])})",
        lambda: f"mx.as_strided({a}{rng.choice(['', ', (2,), (1,)', ', (1, 1), (0, 0), 0'])})" if size > 2 else f"mx.squeeze({a})",
        lambda: f"mx.contiguous({a})",
        lambda: f"mx.view({a}, mx.{rng.choice(['int32', 'uint8', 'float32', 'int16', 'int64'])})",
        lambda: f"{a}.astype(mx.{rng.choice(ALL)})",
        lambda: f"mx.concatenate([{a}, {array(rng, None, shape)}]{arguments(rng, ['axis'], [rng.choice([axis(rng, n), 'None'])])})",
        lambda: f"mx.stack([{a}, {array(rng, None, shape if rng.random() < 0.9 else (2,))}]{arguments(rng, ['axis'], [axis(rng, n + 1)])})",
        lambda: f"mx.split({a}, {rng.choice(['1', '2', '3', '[1]', '[1, 2]', '(1, 5)', '0', '[]'])}{arguments(rng, ['axis'], [axis(rng, n)])})",
        lambda: f"mx.meshgrid({array(rng, ['int32'], (2,))}, {array(rng, ['float32'], (3,))}{rng.choice(['', ', indexing=' + repr('ij'), ', sparse=True', ', indexing=' + repr('x')])})",
        lambda: f"mx.broadcast_shapes({shape!r}, {rng.choice(SHAPES)!r})",
        lambda: f"mx.nan_to_num({a}{arguments(rng, ['nan', 'posinf', 'neginf'], ['1.0', '2.0', 'None'])})",
        lambda: f"mx.permute_dims({a}, {rng.sample(range(n), n)!r})",
        lambda: f"mx.concat([{a}, {a}])",
    ])()


def creation(rng):
    dtype = f"mx.{rng.choice(ALL)}"
    shape = rng.choice(["2", "(2, 3)", "[3]", "()", "(0, 2)", "-1", "(2, -1)", "2.0"])
    number = rng.choice(["3", "0", "1.5", "-2", "5", "7.0"])
    return rng.choice([
        lambda: f"mx.{rng.choice(['zeros', 'ones'])}({shape}{arguments(rng, ['dtype'], [rng.choice([dtype, 'None'])])})",
        lambda: f"mx.full({shape}, {rng.choice([scalar(rng), array(rng, ALL, ())])}{arguments(rng, ['dtype'], [rng.choice([dtype, 'None'])])})",
        lambda: f"mx.{rng.choice(['zeros_like', 'ones_like'])}({array(rng)}{rng.choice(['', '', f', dtype={dtype}', ', dtype=None'])})",
        lambda: f"mx.full_like({array(rng)}, {rng.choice([scalar(rng), array(rng, ALL, ())])}{rng.choice(['', f', dtype={dtype}'])})",
        lambda: f"mx.eye({number}{arguments(rng, ['m', 'k', 'dtype'], [rng.choice(['None', '2', '4']), rng.choice(['0', '1', '-1', '9']), dtype])})",
        lambda: f"mx.identity({number}{arguments(rng, ['dtype'], [dtype])})",
        lambda: f"mx.tri({number}{arguments(rng, ['m', 'k', 'dtype'], [rng.choice(['None', '2', '4']), rng.choice(['0', '1', '-1']), dtype])})",
        lambda: f"mx.arange({number})",
        lambda: f"mx.arange({number}, dtype={dtype})",
        lambda: f"mx.arange({number}, {rng.choice(['8', '9.5', '-4', 'None'])}{rng.choice(['', ', 2', ', -1', ', 0.5', ', None', ', step=2'])}{rng.choice(['', '', f', dtype={dtype}'])})",
        lambda: f"mx.arange(start={number}, stop=9, step=3)",
        lambda: f"mx.arange(stop={number})",
        lambda: f"mx.linspace({number}, {rng.choice(['9', '2.5', '-3'])}{arguments(rng, ['num', 'dtype'], [rng.choice(['5', '1', '0', '-1', 'None']), rng.choice([dtype, 'None'])])})",
        lambda: f"mx.array({rng.choice(['[1, 2]', '[1.5, 2]', '[[1, 2], [3]]', '[]', '[[]]', '3', '1.5', 'True', '[True, 2]', '[1, 2.5, True]', '2**33', '[2**33]', '(1, 2)', '[1+2j]', 'None', repr('a'), '[None]', '2**70'])}{arguments(rng, ['dtype'], [rng.choice([dtype, 'None'])])})",
        lambda: f"mx.{rng.choice(['hamming', 'hanning', 'bartlett', 'blackman'])}({rng.choice(['5', '1', '0', '-1', '8'])})",
    ])()


def selection(rng):
    shape = rng.choice([(4,), (2, 3), (3, 2, 2), (5,)])
    a, n = array(rng, None, shape), len(shape)
    indices = lambda s, top: f"mx.array({[rng.randrange(-1, top) for _ in range(s)]!r})"
    return rng.choice([
        lambda: f"mx.take({a}, {rng.choice([indices(3, 2), '1', '-1', 'mx.array([[0, 1]], dtype=mx.uint32)', 'mx.array([0.5])'])}{arguments(rng, ['axis'], [rng.choice(['None', axis(rng, n)])])})",
        lambda: f"mx.take_along_axis({a}, mx.zeros({shape!r}, mx.int32){arguments(rng, ['axis'], [rng.choice(['None', axis(rng, n)])])})",
        lambda: f"mx.put_along_axis({a}, mx.zeros({shape!r}, mx.int32), {rng.choice(['mx.array(5)', array(rng, None, ())])}, {rng.choice([axis(rng, n), 'None'])})",
        lambda: f"mx.where({array(rng, ['bool_', 'int32'], rng.choice([shape, ()]))}, {rng.choice([a, scalar(rng)])}, {operand(rng, shape)})",
        lambda: f"mx.where({rng.choice(['True', '1', '0.0'])}, {operand(rng, shape)}, {a})",
        lambda: f"mx.clip({a}, {rng.choice(['None', '0', '-1.5', array(rng, None, ())])}, {rng.choice(['None', '2', '1.5', array(rng, None, ())])})",
        lambda: f"mx.clip({a}, a_min={rng.choice(['0', 'None'])}, a_max={rng.choice(['2', 'None'])})",
        lambda: f"mx.slice({a}, mx.array({[0] * n!r}), {tuple(range(n))!r}, {(1,) * n!r})",
        lambda: f"mx.slice_update({a}, {array(rng, None, (1,) * n)}, mx.array({[0] * n!r}), {tuple(range(n))!r})",
        lambda: f"mx.vecdot({array(rng, None, shape)}, {a}{arguments(rng, ['axis'], [axis(rng, n)])})",
        lambda: f"mx.convolve({array(rng, FLOATS, (4,))}, {array(rng, FLOATS, (3,))}{arguments(rng, ['mode'], [repr(rng.choice(['full', 'same', 'valid', 'x']))])})",
    ])()


def products(rng):
    n, m, k = (rng.randrange(1, 4) for _ in range(3))
    dtype = [rng.choice(FLOATS + ["complex64", "int32", "bool_"])] if rng.random() < 0.3 else ["float32"]
    a, b = array(rng, dtype, (n, k)), array(rng, dtype, (k, m))
    v = array(rng, dtype, (k,))
    return rng.choice([
        lambda: f"mx.matmul({rng.choice([a, v])}, {rng.choice([b, v])})",
        lambda: f"{a} @ {b}",
        lambda: f"mx.inner({a}, {v})",
        lambda: f"mx.outer({a}, {v})",
        lambda: f"mx.kron({a}, {b})",
        lambda: f"mx.addmm({array(rng, dtype, rng.choice([(n, m), (m,), ()]))}, {a}, {b}{arguments(rng, ['alpha', 'beta'], ['2.0', '0.5'])})",
        lambda: f"mx.tensordot({a}, {b}{arguments(rng, ['axes'], [rng.choice(['1', '0', '2', '[[1], [0]]', '([0], [1])'])])})",
        lambda: f"mx.einsum({rng.choice(['ij,jk->ik', 'ij,jk', 'ij,jk->', 'ij,kj->ik', 'ij->'])!r}, {a}, {b})",
        lambda: f"mx.einsum('ij->ji', {a})",
        lambda: f"mx.linalg.norm({a}{arguments(rng, ['ord', 'axis', 'keepdims'], [rng.choice(['None', '1', 'mx.inf', repr('fro'), '0', '3']), rng.choice(['None', '0', '(0, 1)', '[1]']), 'True'])})",
        lambda: f"mx.linalg.cross({array(rng, None, (2, 3))}, {array(rng, None, rng.choice([(3,), (2, 3), (2,)]))})",
        lambda: f"mx.conv1d({array(rng, ['float32'], (1, 5, 2))}, {array(rng, ['float32'], (3, 2, 2))}{arguments(rng, ['stride', 'padding', 'dilation'], ['2', '1', '1'])})",
        lambda: f"mx.conv2d({array(rng, ['float32'], (1, 4, 4, 2))}, {array(rng, ['float32'], (3, 2, 2, 2))}{arguments(rng, ['stride', 'padding'], [rng.choice(['2', '(1, 2)']), rng.choice(['1', '(0, 1)', '[1, 1]'])])})",
        lambda: f"mx.conv_general({array(rng, ['float32'], (1, 5, 2))}, {array(rng, ['float32'], (3, 2, 2))}{arguments(rng, ['stride', 'padding'], ['2', rng.choice(['1', '([1], [0])'])])})",
        lambda: f"mx.quantize({array(rng, ['float32', 'float16'], (4, 64))}{arguments(rng, ['group_size', 'bits'], [rng.choice(['32', '64', '7']), rng.choice(['4', '8', '3'])])})",
        lambda: f"mx.quantized_matmul({array(rng, ['float32'], (2, 64))}, *mx.quantize({array(rng, ['float32'], (4, 64))}){rng.choice(['', ', transpose=True', ', group_size=64, bits=4'])})",
        lambda: f"mx.dequantize(*mx.quantize({array(rng, ['float32'], (4, 64))}, 32, 8), group_size=32, bits=8)",
        lambda: f"mx.hadamard_transform({array(rng, FLOATS, (2, 4))}{rng.choice(['', ', scale=1.0', ', 0.5'])})",
    ])()


def fast(rng):
    x = array(rng, FLOATS, (2, 3, 4))
    w = rng.choice(["None", array(rng, FLOATS, (4,)), array(rng, ["float32"], (3,))])
    q = array(rng, FLOATS, (1, 2, 3, 4))
    return rng.choice([
        lambda: f"mx.fast.rms_norm({x}, {w}, 1e-5)",
        lambda: f"mx.fast.layer_norm({x}, {w}, {rng.choice(['None', array(rng, FLOATS, (4,))])}, {rng.choice(['1e-5', 'eps=1e-3'])})",
        lambda: f"mx.fast.rope({x}, 4, traditional={rng.choice(['True', 'False'])}, base={rng.choice(['10000.0', 'None'])}, scale=1.0, offset={rng.choice(['0', '3', 'mx.array([1, 2])', 'mx.array(2)'])})",
        lambda: f"mx.fast.scaled_dot_product_attention({q}, {q}, {q}, scale={rng.choice(['0.5', '1'])}{rng.choice(['', ', mask=None', ', mask=' + repr('causal'), ', mask=' + repr('x'), ', mask=' + array(rng, ['bool_', 'float32'], (3, 3))])})",
        lambda: f"mx.fast.rms_norm({x}, {w})",
        lambda: f"mx.fast.rope({x}, 4)",
    ])()


def randoms(rng):
    key = f"key=mx.random.key({rng.randrange(100)})"
    shape = rng.choice(["(2, 3)", "[4]", "()", "(0,)"])
    return rng.choice([
        lambda: f"mx.random.uniform(shape={shape}, {key})",
        lambda: f"mx.random.uniform({rng.choice(['0', '-1.5'])}, {rng.choice(['2', '3.5'])}, {shape}, {rng.choice(['mx.float32', 'mx.float16', 'None', 'mx.int32'])}, {key})",
        lambda: f"mx.random.normal({shape}, {rng.choice(['mx.float32', 'None'])}, {rng.choice(['0.0', '1', 'None'])}, {rng.choice(['1.0', '2', 'None'])}, {key})",
        lambda: f"mx.random.randint({rng.choice(['0', '-3'])}, {rng.choice(['10', '5'])}, {shape}{rng.choice(['', ', mx.uint8', ', mx.int64', ', mx.float32'])}, {key})",
        lambda: f"mx.random.bernoulli({rng.choice(['0.3', array(rng, ['float32'], (3,), 'positive')])}{rng.choice(['', ', (3,)', ', shape=None'])}, {key})",
        lambda: f"mx.random.categorical({array(rng, ['float32'], (2, 5))}{rng.choice(['', ', num_samples=3', ', shape=(2,)', ', axis=0', ', axis=5', ', shape=(2,), num_samples=2'])}, {key})",
        lambda: f"mx.random.gumbel({shape}, {key})",
        lambda: f"mx.random.laplace({shape}, {key})",
        lambda: f"mx.random.truncated_normal(-1.0, {rng.choice(['1.0', array(rng, ['float32'], (3,), 'positive')])}{rng.choice(['', ', (3,)'])}, {key})",
        lambda: f"mx.random.permutation({rng.choice(['6', array(rng, ['int32'], (4, 2))])}{rng.choice(['', ', 0', ', axis=-1'])}, {key})",
        lambda: f"mx.random.split(mx.random.key({rng.randrange(99)}){rng.choice(['', ', 3', ', num=2'])})",
        lambda: f"mx.random.key({rng.choice(['3', '2**40', '-1', '1.5', repr('a')])})",
    ])()


def dtypes(rng):
    a, b = f"mx.{rng.choice(ALL)}", f"mx.{rng.choice(ALL)}"
    category = f"mx.{rng.choice('complexfloating floating inexact signedinteger unsignedinteger integer number generic'.split())}"
    return rng.choice([
        lambda: f"mx.issubdtype({rng.choice([a, category])}, {rng.choice([b, category])})",
        lambda: f"mx.result_type({rng.choice([a, array(rng)])}, {rng.choice([b, array(rng)])})",
        lambda: f"mx.can_cast({a}, {b})",
        lambda: f"mx.finfo({a}).{rng.choice(['min', 'max', 'eps', 'dtype', 'bits', 'smallest_normal'])}",
        lambda: f"mx.iinfo({a}).{rng.choice(['min', 'max', 'dtype'])}",
        lambda: f"{a}.size",
        lambda: f"{a} == {b}",
        lambda: f"repr({a})",
        lambda: f"mx.isdtype({a}, {rng.choice([b, repr('integral'), repr('numeric'), repr('x'), repr('real floating')])})",
    ])()


def wrong(rng):
    """Calls whose arguments do not fit the signature."""
    name = rng.choice(UNARY + BINARY + REDUCTIONS + "reshape transpose take where concatenate stack arange full eye matmul split pad sort".split())
    a = array(rng, ["float32"], (2, 3))
    return rng.choice([
        lambda: f"mx.{name}()",
        lambda: f"mx.{name}({a}, nonsense=1)",
        lambda: f"mx.{name}({a}, {a}, {a}, {a}, {a}, {a}, {a}, {a}, {a})",
        lambda: f"mx.{rng.choice(REDUCTIONS)}({a}, axis={rng.choice(['1.0', repr('a'), '[0.5]', '{}'])})",
        lambda: f"mx.{rng.choice(UNARY)}({rng.choice(['None', repr('a'), '[1, 2]', 'object()'])})",
        lambda: f"{a}.{rng.choice(['reshape', 'astype', 'sum', 'transpose'])}({repr('a')})",
        lambda: f"mx.{rng.choice(['zeros', 'ones'])}((2,), dtype={repr('float32')})",
        lambda: f"mx.add({a}, 1, stream={rng.choice(['mx.cpu', 'None', 'mx.default_device()', 'mx.default_stream(mx.cpu)', repr('cpu'), '1'])})",
        lambda: f"mx.exp(a={a})",
        lambda: f"mx.sum(a={a})",
    ])()


FAMILIES = [(unary, 3), (binary, 4), (operator, 4), (unary_operator, 2), (reduction, 4), (along, 2), (partition, 1),
            (shapes, 6), (creation, 4), (selection, 3), (products, 3), (fast, 1), (randoms, 2), (dtypes, 1), (wrong, 2)]  # fmt: skip

# ---- differences that docs/differences.md explains, by the names of its rows ----
def has(call, *names):
    return any(f"{name}(" in call for name in names)


def failed(answer, *classes):
    return answer[0] == "error" and (not classes or answer[1] in classes)


def text(answer):
    return answer[2] if answer[0] == "error" else ""


def refused_types(k, m):
    """MLX's binding refuses the types of the arguments; Keel takes them, or refuses them itself."""
    said = ("incompatible function arguments", "Invalid type", "operand type", "bad_cast", "Cannot perform", "In place")
    return failed(m) and any(s in text(m) for s in said) and k[0] != "crash"


def empty(call):
    return any(f"{shape!r}" in call for shape in [(0,), (2, 0)]) or "(0,)" in call or "[]" in call


def of_integers(call):
    return any(f"'{d}'" in call for d in INTS + ["bool_"])


EXPLAINED = [
    ("arguments of other types", lambda c, k, m: refused_types(k, m) and "nonsense" not in c),
    ("calls that end the process of MLX", lambda c, k, m: m[0] == "crash" and k[0] != "crash"),
    ("dtypes that an operation does not take", lambda c, k, m: failed(m, "RuntimeError", "ValueError")
        and failed(k, "ValueError", "TypeError", "AxisError", "LimitError")),
    ("binary operations with what NumPy has", lambda c, k, m: "np." in c),
    ("full, full_like of an array with dtype", lambda c, k, m: has(c, "full", "full_like") and k[0] == "value"),
    ("reductions of empty arrays", lambda c, k, m: empty(c) and has(c, *REDUCTIONS, "logsumexp", "argmax", "argmin", "count_nonzero")),
    ("argmax, argmin of a 0-d array with keepdims, without an axis", lambda c, k, m: has(c, "argmax", "argmin") and "std::vector" in text(m)),
    ("floor_divide, % of integers and bools", lambda c, k, m: (has(c, "floor_divide", "remainder", "divmod", "__ifloordiv__")
        or ") // (" in c or ") % (" in c) and k[0] == "value"),
    ("softmax, logcumsumexp, logsumexp of integers", lambda c, k, m: has(c, "softmax", "logcumsumexp", "logsumexp") and of_integers(c)),
    ("layer_norm with a bias and without a weight", lambda c, k, m: has(c, "layer_norm") and "None" in c),
    ("put_along_axis, take_along_axis without an axis", lambda c, k, m: has(c, "put_along_axis", "take_along_axis") and failed(m)),
    ("iinfo of bool_", lambda c, k, m: "iinfo(mx.bool_)" in c),
    ("mT", lambda c, k, m: c.endswith(".mT")),
    ("left_shift, right_shift", lambda c, k, m: has(c, "left_shift", "right_shift") or "<<" in c or ">>" in c),
    ("astype", lambda c, k, m: has(c, "astype", "arange", "linspace") and "uint" in c),
    ("Python's ints of more than 32 bits", lambda c, k, m: "2**" in c),
    ("prod of 16-bit floats", lambda c, k, m: "float16" in c and has(c, *REDUCTIONS, "cumsum", "cumprod",
        "logcumsumexp", "rope", "rms_norm", "layer_norm", "scaled_dot_product_attention", "convolve", "matmul", "power", "vecdot", "inner", "einsum")),
    ("take with an int of -1", lambda c, k, m: has(c, "take") and "squeeze" in text(m)),
    ("linalg.cross of bools", lambda c, k, m: has(c, "cross") and "bool_" in c and "negative" in text(m)),
    ("linalg.norm of complex64", lambda c, k, m: has(c, "norm") and "complex64" in c),
    ("astype", lambda c, k, m: has(c, "slice_update", "put_along_axis", "full") and "uint" in c),
    ("power", lambda c, k, m: "**" in c or has(c, "power")),
    ("pad", lambda c, k, m: has(c, "pad") and failed(k)),
    ("median over no axes", lambda c, k, m: has(c, "median") and "flatten" in text(m)),
    ("bitwise_xor of bools", lambda c, k, m: (has(c, "bitwise_xor") or " ^ " in c) and "bool" in c),
    ("Python's ints of more than 32 bits", lambda c, k, m: has(c, "logical_and", "logical_or") and "does not fit" in text(k)),
    ("sign", lambda c, k, m: has(c, "sign") and "nan" in c),
    ("an array of integers without axes", lambda c, k, m: "in range(A" in c),
]


def explain(call, keel, mlx):
    for row, rule in EXPLAINED:
        if rule(call, keel, mlx):
            return row
    return None
