#!/usr/bin/env python3
"""Random Python programs run twice, on keel.core and on mlx.core (0.32.2), and compared.

    python tools/peers/python_differential.py CALLS SEED [area ...]

An area is a function generate_<area>(rng), which returns a program and its tags: a few lines of
Python that know `mx` and `np` and set `result`, and a set of words that say what is special about
them. Each library runs in a process of its own, which is started again when it crashes. Values,
dtypes, shapes and classes of exceptions are compared. Every difference is printed, but for those
that a rule of EXPLAINED covers; each rule names its row of docs/differences.md.

The last line is "seed S: N calls, K differ as docs/differences.md explains, M otherwise"; the exit
status is 1 when M is not 0. Needs mlx and NumPy; keel is that of PYTHONPATH, or of python/ here.
"""

import math
import os
import pathlib
import pickle
import random
import select
import struct
import subprocess
import sys

import python_differential_functions as functions
import python_differential_trees as trees

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
DTYPES = ["bool_", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64",
          "float16", "bfloat16", "float32", "float64", "complex64"]  # fmt: skip
INTS = DTYPES[1:9]
FLOATS = DTYPES[9:13]


# ---- a library in a process ----
def portable(x, mx):
    """A result as plain Python: arrays become ("array", dtype, shape, nested lists)."""
    if isinstance(x, mx.array):
        return ("array", str(x.dtype).split(".")[-1], tuple(x.shape), x.tolist())
    if isinstance(x, dict):
        return {k: portable(v, mx) for k, v in x.items()}
    if isinstance(x, (list, tuple)):
        return type(x)(portable(v, mx) for v in x)
    if isinstance(x, mx.Dtype):
        return ("dtype", str(x))
    return x if isinstance(x, (bool, int, float, complex, str, bytes, type(None))) else repr(type(x))


def work(module):
    """Runs the programs that come in on standard input; each message is its length, then a pickle."""
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a program prints is no answer
    import importlib

    import numpy as np

    mx = importlib.import_module(module)
    mx.set_default_device(mx.cpu)
    out.write(b"ready")
    out.flush()
    while head := sys.stdin.buffer.read(8):
        source = pickle.loads(sys.stdin.buffer.read(struct.unpack("q", head)[0]))
        names = {"mx": mx, "np": np}
        try:
            with np.errstate(all="ignore"):
                exec(source, names)
                answer = ("value", portable(names["result"], mx))
        except BaseException as e:
            answer = ("error", type(e).__name__, str(e)[:300])
        data = pickle.dumps(answer)
        out.write(struct.pack("q", len(data)) + data)
        out.flush()


class Library:
    """One of the two libraries; `run` answers ("value", ..), ("error", class, text) or ("crash", ..)."""

    patience = 60  # seconds for one program

    def __init__(self, module):
        self.module = module
        self.process = None

    def start(self):
        env = dict(os.environ)
        path = [str(ROOT / "python"), env.get("PYTHONPATH", "")]
        env["PYTHONPATH"] = os.pathsep.join(p for p in reversed(path) if p)
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--worker", self.module],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env,
        )  # fmt: skip
        if self.read(5) != b"ready":
            raise SystemExit(f"{self.module} cannot be imported")

    def read(self, n):
        data = b""
        while len(data) < n:
            if not select.select([self.process.stdout], [], [], self.patience)[0]:
                return None  # it hangs
            part = os.read(self.process.stdout.fileno(), n - len(data))
            if not part:
                return None
            data += part
        return data

    def run(self, source):
        if self.process is None:
            self.start()
        data = pickle.dumps(source)
        try:
            self.process.stdin.write(struct.pack("q", len(data)) + data)
            self.process.stdin.flush()
            head = self.read(8)
        except BrokenPipeError:
            head = None
        body = head and self.read(struct.unpack("q", head)[0])
        if body:
            return pickle.loads(body)
        code = self.stop()
        return ("crash", f"the process ended with {code}")

    def stop(self):
        """Ends the process: the next program gets a new one."""
        if self.process is None:
            return 0
        self.process.stdin.close()
        try:
            code = self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            code = self.process.wait()
        self.process.stdout.close()
        self.process = None
        return code


# ---- comparing ----
TOLERANCE = {"float16": 2e-3, "bfloat16": 1.6e-2, "float32": 2e-6, "float64": 1e-13, "complex64": 1e-5}


def near(x, y, tolerance):
    if isinstance(x, complex) or isinstance(y, complex):
        x, y = complex(x), complex(y)
        if tolerance and abs(x - y) <= tolerance * max(1, abs(y)) < math.inf:
            return True
        return near(x.real, y.real, tolerance) and near(x.imag, y.imag, tolerance)
    if x == y or (x != x and y != y):
        return True
    return tolerance and math.isfinite(x) and abs(x - y) <= tolerance * max(1, abs(y))


def same(x, y, tolerance=None):
    if isinstance(x, tuple) and isinstance(y, tuple) and x[:1] == y[:1] == ("array",):
        return x[1:3] == y[1:3] and same(x[3], y[3], TOLERANCE.get(x[1], 0))
    if type(x) is not type(y):
        return False
    if isinstance(x, dict):
        return x.keys() == y.keys() and all(same(x[k], y[k], tolerance) for k in x)
    if isinstance(x, (list, tuple)):
        return len(x) == len(y) and all(same(a, b, tolerance) for a, b in zip(x, y))
    if isinstance(x, (float, complex)):
        return near(x, y, TOLERANCE["float32"] if tolerance is None else tolerance)
    return x == y


def agree(keel, mlx):
    if keel[0] == "error" and mlx[0] == "error":
        return keel[1] == mlx[1] or keel[1] == "AxisError" and mlx[1] in ("ValueError", "IndexError") or keel[1] == "LimitError" and mlx[1] in ("ValueError", "OverflowError")
    return keel[0] == mlx[0] == "value" and same(keel[1], mlx[1])


def failed(answer, *classes):
    return answer[0] == "error" and answer[1] in classes


# The row of docs/differences.md that explains a difference (how its first cell begins), and what the
# difference looks like: the tags of the program and both answers.
EXPLAINED = [
    ("an int or an index that is out of range", lambda t, keel, mlx: t & {"out of range", "wrong"} and failed(keel, "IndexError")),
    ("ints of more than 32 bits", lambda t, keel, mlx: "wide" in t and failed(mlx, "ValueError", "RuntimeError")),
    ("a slice with step 0", lambda t, keel, mlx: "step 0" in t and failed(keel, "ValueError") and mlx[0] == "crash"),
    ("index arrays of NumPy", lambda t, keel, mlx: "numpy index" in t and keel[0] == "value" and failed(mlx, "ValueError")),
    ("an empty list as an index", lambda t, keel, mlx: "empty list" in t and keel[0] == "value" and failed(mlx, "ValueError")),
    ("index arrays of uint64 beside", lambda t, keel, mlx: "uint64" in t and keel[0] == "value" and failed(mlx, "ValueError")),
    ("a[mask], nonzero", lambda t, keel, mlx: "mask" in t and keel[0] == "value" and "oolean indices" in str(mlx)),
    ("a mask in a tuple, or in at", lambda t, keel, mlx: "mask" in t and (keel[0] == "value" or failed(keel, "ValueError", "IndexError")) and failed(mlx, "SystemError")),
    ("a[mask] = value with too few values", lambda t, keel, mlx: "mask" in t and failed(keel, "IndexError") and failed(mlx, "RuntimeError", "ValueError")),
    ("too many ints after an ellipsis", lambda t, keel, mlx: "too many" in t and failed(keel, "ValueError") and mlx[0] != "error"),
    ("a list as the value", lambda t, keel, mlx: "list value" in t and failed(mlx, "ValueError")),
    ("axes of extent 1 of a value", lambda t, keel, mlx: "leading" in t and keel[0] == "value" and failed(mlx, "ValueError")),
    ("a[key] = value where an int is apart", lambda t, keel, mlx: "apart" in t and keel[0] == "value" and (mlx[0] == "value" or failed(mlx, "ValueError"))),
    ("an assignment of a part, or of a value, without elements", lambda t, keel, mlx: "nothing" in t and (keel[0] == "value" or "mask" in t and failed(keel, "IndexError")) and mlx[0] == "crash"),
    ("an assignment of a part, or of a value, without elements", lambda t, keel, mlx: "out of range" in t and keel[0] == "value" and failed(mlx, "ValueError")),
    ("an assignment to all of an array", lambda t, keel, mlx: "all" in t and keel[0] != "crash" and mlx[0] == "value"),
    ("an assignment with a negative int after None", lambda t, keel, mlx: "after None" in t and keel[0] != "crash"),
    ("a slice that reaches beyond its axis, beside an index array", lambda t, keel, mlx: "loose" in t and keel[0] == "value"),
    ("astype of complex64 to bool", lambda t, keel, mlx: "complex to bool" in t and keel[0] == mlx[0] == "value"),
    ("floor_divide of integers", lambda t, keel, mlx: "//=" in t and keel[0] == mlx[0] == "value"),
    ("bitwise operators and shifts of uint64", lambda t, keel, mlx: "bits" in t and failed(keel, "ValueError") and failed(mlx, "RuntimeError")),
    ("bitwise_xor of bools", lambda t, keel, mlx: "xor of bools" in t and keel[0] == mlx[0] == "value"),
    ("an operand of a type that neither knows", lambda t, keel, mlx: "object" in t and failed(keel, "TypeError") and failed(mlx, "ValueError")),
]  # fmt: skip


def explain(tags, keel, mlx):
    for row, rule in EXPLAINED:
        if rule(tags, keel, mlx):
            return row
    return None


# ---- random arrays, as text ----
def number(rng, dtype, low=None):
    if dtype == "bool_":
        return rng.random() < 0.5
    low = -4 if low is None else low
    n = rng.randint(max(low, 0) if dtype.startswith("uint") else low, 9)
    if dtype == "complex64":
        return complex(n, rng.randint(-3, 3))
    return n / 2 if dtype in FLOATS and rng.random() < 0.5 else float(n) if dtype in FLOATS else n


def nested(draw, shape):
    return [nested(draw, shape[1:]) for _ in range(shape[0])] if shape else draw()


def array(rng, shape, dtype, low=None):
    if 0 in shape:
        return f"mx.zeros({tuple(shape)}, mx.{dtype})"
    return f"mx.array({nested(lambda: number(rng, dtype, low), shape)}, mx.{dtype})"


def any_shape(rng, least=0):
    n = rng.choice([least, 1, 1, 2, 2, 3, 3, 4])
    return [rng.choice([0, 1, 1, 2, 2, 3, 3, 4, 5]) if rng.random() < 0.6 else rng.randint(1, 4) for _ in range(n)]


# ---- keys ----
def bound(rng, extent, tags, within):
    r = rng.random()
    if r < 0.35:
        return None
    if r < 0.36:
        tags.add("wide")
        return rng.choice([2**31, -(2**31) - 1, 2**40, 2**70])
    v = rng.randint(-extent - 2, extent + 2)
    if not -extent <= v < extent:
        if within and rng.random() < 0.95:
            return None
        tags.add("beyond")
    return v


class Key:
    """A random key for a shape: its text, its tags, and the shape of a[key] where it is known."""

    def __init__(self, rng, shape, masks):
        self.rng, self.shape, self.tags = rng, shape, set()
        r = rng.random()
        self.mask = False
        if r < 0.03:
            self.text = self.wrong()
            self.result = None
        elif r < (0.15 if masks else 0.05):
            self.text = self.a_mask()
            self.result = None
        else:
            self.text = self.parts()

    def wrong(self):
        rng = self.rng
        self.tags.add("wrong")
        one = rng.choice(["1.0", "'a'", "b'x'", "{}", "1j", "range(2)", "mx.array(0.5)", "mx.array([0.0, 1.0])", "[0.5]",
                          "np.array([0.5])", "object()", "..., ...", "[None]", "[[0], [0, 0]]", "np.bool_(True), 0",
                          "0, True", "0, 'a'", "0, (0,)", "None, 1.0", "slice(0.5, None)", "slice('a', None), 0"])  # fmt: skip
        return one

    def a_mask(self):
        rng, shape = self.rng, self.shape
        self.mask = True
        self.tags.add("mask")
        lead = shape[: rng.randint(0, len(shape))]
        if rng.random() < 0.1 and lead:
            lead = lead[:-1] + [lead[-1] + 1]
        kind = rng.random()
        if kind < 0.1:
            return rng.choice(["True", "False", "np.bool_(True)"])
        if kind < 0.2 and lead and 0 not in lead:
            return repr(nested(lambda: number(rng, "bool_"), lead))
        text = array(rng, lead, "bool_")
        if kind < 0.3 and lead and 0 not in lead:
            self.tags.add("numpy index")
            text = f"np.array({nested(lambda: number(rng, 'bool_'), lead)})"
        if kind > 0.93:
            return text + rng.choice([",", ", None", ", ..."])
        return text

    def indices(self, extent, common):
        """An index array that broadcasts to the common shape."""
        rng, tags = self.rng, self.tags
        shape = [d if rng.random() < 0.8 else 1 for d in common[rng.choice([0, 0, 0, 1]) :]]
        size = math.prod(shape)
        if size and (extent == 0 or rng.random() < 0.004):
            tags.add("out of range")
        def draw(): return rng.randint(-extent, extent - 1) if extent else 0
        values = nested(draw, shape) if size else None
        if values is not None and "out of range" in tags:
            values = nested(lambda: rng.choice([extent, -extent - 1, extent + 3]), shape)
        dtype = rng.choice(["int32"] * 5 + INTS)
        flat = str(values)
        if dtype.startswith("uint") and "-" in flat:
            dtype = "int64"
        if size and shape and rng.random() < 0.15:
            return flat
        if size and rng.random() < 0.04:
            if shape:
                tags.add("numpy index")
            return f"np.array({flat}, np.{dtype})"
        if shape == [0] and rng.random() < 0.3:
            tags.add("empty list")
            return "[]"
        if dtype == "uint64":
            tags.add("uint64")
        return f"mx.zeros({tuple(shape)}, mx.{dtype})" if not size else f"mx.array({flat}, mx.{dtype})"

    def parts(self):
        rng, shape, tags = self.rng, self.shape, self.tags
        common = [rng.choice([0, 1, 2, 2, 3, 3]) if rng.random() < 0.5 else rng.randint(1, 3)
                  for _ in range(rng.choice([0, 1, 1, 1, 2, 2, 3]))]  # fmt: skip
        with_arrays = rng.random() < 0.6
        n = rng.randint(0, len(shape)) if rng.random() < 0.97 else len(shape) + 1
        if n > len(shape):
            tags.add("too many")
        dots = rng.randint(0, n) if rng.random() < 0.25 else None
        text, kinds = [], []
        for i in range(n + 1):
            while rng.random() < 0.12:
                text.append("None")
                kinds.append("new")
            if i == dots:
                text.append("...")
                kinds += ["slice"] * (len(shape) - n)
            if i == n:
                break
            axis = i if dots is None or i < dots else len(shape) - n + i
            extent = shape[axis] if 0 <= axis < len(shape) else 2
            r = rng.random()
            if r < 0.3:
                if extent == 0 or rng.random() < 0.006:
                    tags.add("out of range")
                    index = rng.choice([extent, -extent - 1])
                elif rng.random() < 0.004:
                    tags |= {"out of range", "wide"}
                    index = rng.choice([2**31, 2**40, -(2**31) - 1, 2**70])
                else:
                    index = rng.randint(-extent, extent - 1)
                if index < 0 and "new" in kinds:
                    tags.add("after None")
                text.append(f"np.{rng.choice(['int64', 'int32', 'int8'])}({index})" if rng.random() < 0.06 and abs(index) < 99 else str(index))
                kinds.append("int")
            elif r < 0.6 or not with_arrays:
                step = rng.choice([None, None, None, 1, 2, -1, -2, 3, -7])
                if rng.random() < 0.004:
                    step = 0
                    tags.add("step 0")
                first, last = bound(rng, extent, tags, with_arrays), bound(rng, extent, tags, with_arrays)
                show = ["" if v is None else str(v) for v in (first, last, step)]
                text.append(":".join(show) if step is not None or rng.random() < 0.1 else ":".join(show[:2]))
                kinds.append("slice")
            else:
                text.append(self.indices(extent, common))
                if "new" in kinds and text[-1].startswith("np.array(-"):
                    tags.add("after None")
                kinds.append("array" if not text[-1].startswith("np.") or "[" in text[-1] else "int")
        used = [k for k in kinds if k in ("int", "array")]
        if "array" in used and "int" in used:
            ends = [i for i, k in enumerate(kinds) if k in ("int", "array")]
            if any(k in ("new", "slice") for k in kinds[ends[0] : ends[-1]]):
                tags.add("apart")
        if "array" in kinds and "beyond" in tags:
            tags.add("loose")
        if all(t in ("None", "...") for t in text):
            tags.add("all")
        if not text:
            return rng.choice(["...", "()", "None"])
        return ", ".join(text) if len(text) > 1 or rng.random() < 0.9 else text[0] + ","


def shape_of_part(shape, text):
    """The shape of a[key] as NumPy has it, or None."""
    import numpy as np

    class Take:
        def __getitem__(self, key):
            return key

    class Mx:  # enough of mx for the text of a key
        def __getattr__(self, name):
            return getattr(np, name.replace("bfloat16", "float32"))

    try:
        key = eval(f"take[{text}]", {"take": Take(), "mx": Mx(), "np": np})
        return list(np.zeros(shape, np.int8)[key].shape)
    except Exception:
        return None


def value_for(rng, part, dtype, tags, exact=False, low=None):
    """A value to be written to a part of this shape."""
    r = rng.random()
    other = dtype if exact or rng.random() < 0.6 else rng.choice(DTYPES)
    if dtype.startswith("uint") or dtype == "bool_":
        low = max(low or 0, 0)  # a cast of a negative float is left open
    if part is None or r < 0.3:
        if r < 0.02:
            return rng.choice(["None", "'x'", "object()"])
        kind = rng.choice(["int", "int", "float", "array"] + (["bool"] if low is None or low < 1 else []))
        if kind == "array" or other == "complex64":
            return array(rng, [], other, low)
        return str({"int": rng.randint(low if low is not None else -3, 9), "float": rng.randint(low if low is not None else -3, 9) + 0.5, "bool": rng.random() < 0.5}[kind])
    shape = [d if rng.random() < 0.8 else 1 for d in part]
    if rng.random() < 0.3:
        shape = shape[rng.randint(0, len(shape)) :]
    if rng.random() < 0.15:
        shape = [1] * rng.randint(1, 2) + shape
    if rng.random() < 0.05:
        shape = any_shape(rng)
    if rng.random() < 0.05 and len(shape) > 1:
        rng.shuffle(shape)
    r = rng.random()
    if shape and 0 not in shape and r < 0.04:
        tags.add("list value")
        return repr(nested(lambda: number(rng, other, low), shape))
    if 0 not in shape and 0.04 < r < 0.1 and other != "bfloat16":
        return f"np.array({nested(lambda: number(rng, other, low), shape)}, np.{other})"
    return array(rng, shape, other, low)


def generate_index(rng):
    """a[key], a[key] = value, a[key] op= value, a.at[key].op(value), a op= value, and iteration."""
    shape, dtype = any_shape(rng), rng.choice(DTYPES)
    lines = [f"a = {array(rng, shape, dtype)}"]
    r = rng.random()
    if len(shape) > 1 and rng.random() < 0.15:
        lines = [f"a = {array(rng, shape[::-1], dtype)}.T"]
    if r < 0.08:
        return in_place(rng, lines, shape, dtype)
    if r < 0.11:
        what = rng.choice(["list(a)", "len(a)", "[x for x in iter(a)]", f"{number(rng, 'int32')} in a", "list(reversed(a))",
                           "len(list(iter(iter(a))))", "a[0] in a", "next(iter(a))"])  # fmt: skip
        tags = {"out of range"} if "a[0]" in what and (not shape or shape[0] == 0) else set()
        return "\n".join([*lines, f"result = {what}"]), tags
    if r < 0.45:
        key = Key(rng, shape, masks=False)
        return "\n".join([*lines, f"result = a[{key.text}]"]), key.tags - {"all", "after None"}
    key = Key(rng, shape, masks=r < 0.9)
    tags = key.tags
    part = None if key.mask else shape_of_part(shape, key.text)
    if part is not None and (0 in part or 0 in shape):
        tags.add("nothing")
    if key.mask and rng.random() < 0.7:
        part = shape[rng.randint(0, len(shape)) :]
        if rng.random() < 0.5:
            part = [rng.randint(0, 12), *part]
    if r < 0.78:
        value = value_for(rng, part, dtype, tags)
        lines += ["b = mx.array(a)", f"c = a[{key.text}]" if rng.random() < 0.1 and not key.mask else "c = None",
                  f"a[{key.text}] = {value}", "result = [a, b, c]"]  # fmt: skip
    elif r < 0.85:
        op = rng.choice(["+=", "-=", "*="])
        value = value_for(rng, part, dtype, tags, exact=True, low=0).replace(".5", "")
        lines += [f"a[{key.text}] {op} {value}", "result = a"]
    else:
        op = rng.choice(["add", "subtract", "multiply", "divide", "maximum", "minimum"])
        value = value_for(rng, part, dtype, tags, exact=True, low=1 if op == "divide" else 0)
        if op == "subtract" and dtype.startswith("uint"):
            value = value.replace(".5", "")
        lines += [f"b = a.at[{key.text}].{op}({value})", "result = [a, b]"]
    if part is not None:
        tags.add("leading")
    if dtype == "bool_" and "complex" in value:
        tags.add("complex to bool")
    if "object()" in lines[-2]:
        tags.add("object")
    if key.mask and "mx.zeros" in value:
        tags.add("nothing")
    return "\n".join(lines), tags


def in_place(rng, lines, shape, dtype):
    op = rng.choice(["+=", "-=", "*=", "/=", "//=", "%=", "**=", "<<=", ">>=", "&=", "|=", "^=", "@="])
    low = 1 if op in ("/=", "//=", "%=") else 0
    if op in ("//=", "%=", "**=") and dtype == "bool_":
        dtype = "uint8"
        lines = [f"a = {array(rng, shape, dtype)}"]
    tags = {"bits" if op in ("<<=", ">>=", "&=", "|=", "^=") else op}
    other = [dtype, "int32", "float32"]
    r = rng.random()
    if r < 0.35:
        value = rng.choice([str(rng.randint(low, 4)), str(rng.randint(low, 4) + 0.5), "2j", "None", "'x'", "[1, 2]", "object()"])
    elif r < 0.45:
        value = f"np.{rng.choice(['float32', 'int64', 'float64'])}({rng.randint(low, 4)})"
    else:
        to = [d if rng.random() < 0.8 else 1 for d in shape]
        if rng.random() < 0.2:
            to = any_shape(rng)
        value = array(rng, to, rng.choice(other + DTYPES[1:]), low)
    if value == "object()":
        tags.add("object")
    if op == "^=" and dtype == "bool_":
        tags.add("xor of bools")
    return "\n".join([*lines, "b, c = a, mx.array(a)", f"a {op} {value}", "result = [a, a is b, b, c]"]), tags


# ---- the run ----
def main():
    calls, seed = int(sys.argv[1]), int(sys.argv[2])
    every = {n.removeprefix("generate_"): f for n, f in globals().items() if n.startswith("generate_")}
    every["functions"] = functions.generate_functions
    every["trees"] = trees.generate_trees
    areas = [every[n] for n in sys.argv[3:] or every]
    rows = (ROOT / "docs/differences.md").read_text()
    for row, _ in EXPLAINED + functions.EXPLAINED + trees.EXPLAINED:
        if f"| {row}" not in rows:
            raise SystemExit(f"docs/differences.md has no row that begins with: {row}")
    rng = random.Random(seed)
    keel, mlx = Library("keel.core"), Library("mlx.core")
    if sys.argv[3:] == ["functions"]:
        mlx.patience = 3  # it never ends some reductions of empty arrays
    explained, other, by_row, wrong = 0, 0, {}, 0
    usual = TOLERANCE["float32"]
    for i in range(calls):
        area = areas[i % len(areas)]
        source, tags = area(rng)
        calls_one = area is functions.generate_functions
        answers = keel.run(source), mlx.run(source)
        if tags & {"out of range", "too many", "after None", "loose"}:
            mlx.stop()  # it may have written to memory that is not its own
        wrong += answers[0][0] == answers[1][0] == "error"
        of_trees = area is trees.generate_trees
        TOLERANCE["float32"] = trees.TOLERANCE if of_trees else usual  # sums of a tree cancel
        if functions.agree(*answers) if calls_one else agree(*answers):
            continue
        row = (trees.explain(source, *answers) if of_trees else None) or (functions.explain(*tags, *answers) if calls_one else explain(tags, *answers))
        if row:
            explained += 1
            by_row[row] = by_row.get(row, 0) + 1
            continue
        other += 1
        print(f"---- call {i}, tags {sorted(tags)}\n{source}\nkeel: {answers[0]}\nmlx:  {answers[1]}", flush=True)
    keel.stop()
    mlx.stop()
    for row, n in sorted(by_row.items()):
        print(f"{n:6} {row}")
    print(f"{wrong:6} programs raise an exception of the same class, or are explained above, in both")
    print(f"seed {seed}: {calls} calls, {explained} differ as docs/differences.md explains, {other} otherwise")
    return 1 if other else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        work(sys.argv[2])
    else:
        sys.exit(main())
