"""Random transforms of functions over trees, for tools/peers/python_differential.py."""

# A function of a tree, two arrays and a constant: every array of the tree takes part.
PRELUDE = """
def leaves(t):
    if isinstance(t, mx.array):
        return [t]
    return [l for v in (t.values() if isinstance(t, dict) else t) for l in leaves(v)]

def f(t, x, y=2.0, n=3):
    s = (x * y).sum()
    for i, l in enumerate(leaves(t)):
        s = s + (OPS[i % len(OPS)](l) * (i + 1)).sum() * n
    return s

def g(t, x):
    return {"a": [OPS[0](l) + x for l in leaves(t)], "b": (x * 2,)}
"""
TOLERANCE = 3e-5
OPS = ["mx.sin", "mx.exp", "mx.square", "mx.tanh", "(lambda l: l * 3 - 1)", "(lambda l: mx.maximum(l, 0.5))", "(lambda l: l[..., :1] + l)", "(lambda l: mx.softmax(l, -1) * l)",
       "(lambda l: mx.logsumexp(l, -1, keepdims=True) * l)", "(lambda l: l.astype(mx.float16) * 2)", "(lambda l: mx.cumsum(l, -1))", "mx.stop_gradient"]  # fmt: skip


def leaf(rng, shape):
    n = 1
    for d in shape:
        n *= d
    values = [rng.choice([-2, -1.5, -0.5, 0.25, 0.5, 1, 1.75, 3]) for _ in range(n)]
    return f"mx.array({values}, mx.float32).reshape({list(shape)})"


def tree(rng, shape, depth=2):
    what = rng.randrange(4) if depth else 0
    if what == 0:
        return leaf(rng, shape)
    parts = [tree(rng, shape, depth - 1) for _ in range(rng.randrange(1, 3))]
    if what == 1:
        return f"[{', '.join(parts)}]"
    if what == 2:
        return f"({', '.join(parts)},)"
    return "{" + ", ".join(f"'{'wbk'[i]}': {p}" for i, p in enumerate(parts)) + "}"


def gradients(rng):
    argnums, argnames = rng.choice([("None", "[]"), ("0", "[]"), ("1", "[]"), ("[0, 1]", "[]"), ("(1, 0)", "[]"), ("[0]", "[]"), ("None", "'y'"), ("0", "['y']"), ("[0, 1]", "['y']"),
                                    ("[]", "['y']"), ("[0, 0]", "[]"), ("5", "[]"), ("-1", "[]"), ("0", "['z']"), ("0", "['n']")])  # fmt: skip
    name = rng.choice(["mx.grad", "mx.value_and_grad"])
    fun = rng.choice(["f", "mx.checkpoint(f)", "mx.compile(f)"])
    return f"result = {name}({fun}, argnums={argnums}, argnames={argnames})(T, X, y=mx.array(1.5), n={rng.choice([1, 2])})"


def with_aux(rng):
    out = rng.choice(["(f(t, x), g(t, x))", "[f(t, x), x, 'text', None]", "(f(t, x), {'n': 3, 'x': [x]})", "f(t, x)", "(x, f(t, x))", "g(t, x)", "3.0", "()"])
    return f"result = mx.value_and_grad(lambda t, x: {out})(T, X)"


def batched(rng):
    axes = rng.choice(["0", "1", "-1", "(0, None)", "(0, 0)", "(None, 0)", "(1, 1)", "[0, None]", "(0, 1)", "5", "(0,)"])
    out = rng.choice(["0", "1", "-1", "{'a': 0, 'b': 1}", "0", "7"])
    fun = rng.choice(["g", "g", "lambda t, x: f(t, x)", "lambda t, x: mx.grad(f)(t, x)", "mx.compile(g)"])
    if fun != "g":
        out = "0"
    return f"result = mx.vmap({fun}, in_axes={axes}, out_axes={out})(T, X)"


def compiled(rng):
    what = rng.randrange(4)
    if what == 0:
        return f"h = mx.compile(g, shapeless={rng.random() < 0.5})\nresult = [h(T, X), h(T, X + 1), h([X], X)]"
    if what == 1:
        return "h = mx.compile(lambda t, k, s: [l * k for l in leaves(t)] + [s])\nresult = [h(T, 2, 'a'), h(T, 3, 'b'), h(T, 2.0, None), h(T, True, 'a')]"
    if what == 2:
        return ("state = {'n': mx.array(1.0), 'l': [X]}\n\ndef step(t):\n    state['n'] = state['n'] + 1\n    state['l'][0] = state['l'][0] * state['n']\n    return f(t, state['l'][0])\n\n"
                f"h = mx.compile(step, inputs=state, outputs=state)\nresult = [h(T), h(T), state, h(T), state['n']]")  # fmt: skip
    return "h = mx.compile(mx.value_and_grad(f))\nresult = [h(T, X), h(T, X * 2)]"


def flat(rng):
    which = rng.choice(["vjp", "jvp"])
    fun, n = rng.choice([("lambda a, b: a * b", 1), ("lambda a, b: (mx.sin(a), a + b)", 2), ("lambda a, b: [a @ b.T, b]", 2), ("lambda a, b: {'a': a}", 1), ("lambda a, b: 3", 1)])
    second = "mx.ones_like" if rng.random() < 0.8 else "mx.zeros_like"
    given = f"[{second}(o) for o in (lambda r: list(r) if isinstance(r, (list, tuple)) else [r])(fun(X, X)) if isinstance(o, mx.array)]" if which == "vjp" else f"[{second}(X), X]"
    return f"fun = {fun}\nresult = mx.{which}(fun, [X, X], {given})"


def custom(rng):
    use = rng.choice(["mx.grad(lambda a, b: c(a, b).sum())(X, X)", "mx.value_and_grad(lambda a, b: c(a, b).sum(), argnums=[0, 1])(X, X)", "c(X, X)", "mx.compile(c)(X, X)",
                      "mx.grad(lambda a, b: mx.compile(c)(a, b).sum())(X, X)"])  # fmt: skip
    return ("@mx.custom_function\ndef c(a, b):\n    return mx.sin(a) * b\n\n@c.vjp\ndef c_vjp(primals, cotangent, output):\n"
            f"    a, b = primals\n    return cotangent * {rng.choice(['b', 'a', '100'])}, cotangent * output\n\nresult = {use}")  # fmt: skip


def nested(rng):
    return "result = " + rng.choice([
        "mx.grad(lambda x: mx.grad(lambda y: (y ** 3).sum())(x).sum())(X)",
        "mx.vmap(mx.grad(lambda x: (x ** 3).sum()))(X)",
        "mx.grad(lambda x: mx.vmap(lambda r: mx.sin(r).sum())(x).sum())(X)",
        "mx.compile(mx.vmap(mx.grad(lambda x: mx.tanh(x).sum())))(X)",
        "mx.grad(lambda t, x: mx.compile(f)(t, x))(T, X)",
        "mx.grad(lambda t: mx.vmap(lambda x: f(t, x))(X).sum())(T)",
        "mx.jvp(mx.grad(lambda x: (x ** 3).sum()), [X], [X])",
        "mx.vjp(mx.checkpoint(lambda x: mx.exp(x) * x), [X], [X])",
    ])  # fmt: skip


def generate_trees(rng):
    shape = rng.choice([(2, 3), (3, 3), (4, 2), (1, 3)])
    body = rng.choices([gradients, with_aux, batched, compiled, flat, custom, nested], [5, 3, 5, 4, 3, 2, 3])[0](rng)
    ops = ", ".join(rng.choice(OPS) for _ in range(rng.randrange(1, 4)))
    return f"{PRELUDE}\nOPS = [{ops}]\nT = {tree(rng, shape)}\nX = {leaf(rng, shape)}\n{body}", {"trees"}


# As in python_differential.py: the row of docs/differences.md, and what the difference looks like.
EXPLAINED = [
    ("vjp, jvp of a function that returns something else", lambda s, keel, mlx: keel[:2] == ("error", "ValueError") and mlx[:2] == ("error", "RuntimeError") and "bad_cast" in mlx[2]),
    ("vmap with in_axes as a list", lambda s, keel, mlx: "in_axes=[" in s and keel[0] == "value" and mlx[:2] == ("error", "ValueError")),
    ("shapeless compile of slices, scans", lambda s, keel, mlx: "shapeless=True" in s and keel[0] == "value" and mlx[0] == "error" and "cannot infer output shapes" in mlx[2]),
    ("value_and_grad of a function that returns a list", lambda s, keel, mlx: "lambda t, x: [" in s and keel[0] == "value" and mlx[:2] == ("error", "ValueError")),
]  # fmt: skip


def explain(source, keel, mlx):
    return next((row for row, rule in EXPLAINED if rule(source, keel, mlx)), None)
