#!/usr/bin/env python3
"""What Python costs: python3 bench/python_peers.py KEEL_PYTHON [MLX_PYTHON [TORCH_PYTHON]] [--model FOLDER...]

Interpreters of environments in which `mlx.core` is Keel, is MLX, and in which torch is installed. Prints microseconds of small operations, the least of 7 runs of 20,000 calls, in turns between the interpreters: built (add of two scalars),
built, evaluated and read, indexed by an int, by a slice, a compiled function of one argument; then of arrays made of lists and of NumPy's arrays, and of walking over rows, beside NumPy, the least of 9. With --model, tokens per second of a prompt of 512 and of decoding 128 through mlx-lm, the best of three."""

import json
import subprocess
import sys

OPERATIONS = """
import sys, timeit, json
if sys.argv[1] == "torch":
    import torch
    torch.set_num_threads(2)
    array, f = torch.tensor, torch.exp
    x, y, v = array(1.0), array(2.0), array([1.0, 2.0, 3.0, 4.0])
    calls = {"add": lambda: x + y, "read": lambda: (x + y).item(), "exp": lambda: f(x), "int": lambda: v[1], "slice": lambda: v[1:3]}
else:
    import mlx.core as mx
    x, y, v = mx.array(1.0), mx.array(2.0), mx.array([1.0, 2.0, 3.0, 4.0])
    g = mx.compile(lambda a: mx.exp(a) * 2)
    mx.eval(x, y, v, g(x))
    calls = {"add": lambda: x + y, "read": lambda: (x + y).item(), "exp": lambda: mx.exp(x), "int": lambda: v[1], "slice": lambda: v[1:3], "compiled": lambda: g(x)}
print(json.dumps({k: min(timeit.repeat(c, number=20000, repeat=7)) / 20000 * 1e6 for k, c in calls.items()}))
"""

ARRAYS = """
import sys, timeit, json, random
import numpy as np
n = 500000
floats, ints = [random.random() for _ in range(n)], list(range(n))
x, y = np.random.rand(1024, 1024).astype(np.float32), np.random.rand(1024, 1024)
if sys.argv[1] == "numpy":
    make, rows = np.array, np.ones((20000, 8), np.float32)
else:
    import mlx.core as mx
    rows = mx.ones((20000, 8))
    mx.eval(rows)

    def make(x):
        made = mx.array(x)
        mx.eval(made)
        return made
def walk():
    for _ in rows:
        pass
turned = np.ascontiguousarray if sys.argv[1] == "numpy" else make  # np.array would keep the order of memory
calls = {"500,000 floats": lambda: make(floats), "500,000 ints": lambda: make(ints), "float32 1024^2": lambda: make(x), "float64": lambda: make(y), "transposed": lambda: turned(x.T), "bool": lambda: make(x > 0.5),
         "20,000 rows": walk}
print(json.dumps({k: min(timeit.repeat(c, number=1, repeat=9)) * 1e6 for k, c in calls.items()}))
"""

MODEL = """
import json, sys, time
import mlx.core as mx
from mlx_lm import load
from mlx_lm.generate import stream_generate
model, tokenizer = load(sys.argv[1])
prompt = [(i * 7919) % 40000 + 100 for i in range(512)]
best = [0, 0]
for _ in range(3):
    for r in stream_generate(model, tokenizer, prompt, max_tokens=128):
        pass
    best = [max(best[0], r.prompt_tps), max(best[1], r.generation_tps)]
print(json.dumps(best))
"""


def ask(python, text, arg):
    r = subprocess.run([python, "-c", text, arg], capture_output=True, text=True)
    if r.returncode:
        sys.exit(r.stderr)
    return json.loads(r.stdout.splitlines()[-1])


def main():
    args = sys.argv[1:]
    models = args[args.index("--model") + 1 :] if "--model" in args else []
    pythons = args[: args.index("--model")] if "--model" in args else args
    names = ["keel", "mlx", "torch"][: len(pythons)]
    found = {n: {} for n in names}
    for _ in range(2):  # in turns, the least counts
        for name, python in zip(names, pythons):
            for what, t in ask(python, OPERATIONS, "torch" if name == "torch" else "").items():
                found[name][what] = min(t, found[name].get(what, t))
    print("microseconds".ljust(14) + "".join(n.rjust(10) for n in names))
    for what in found["keel"]:
        print(what.ljust(14) + "".join(f"{found[n][what]:10.3f}" if what in found[n] else " " * 10 for n in names))
    arrays = {n: ask(p, ARRAYS, "") for n, p in zip(names[:2], pythons)} | {"numpy": ask(pythons[0], ARRAYS, "numpy")}
    for what in arrays["keel"]:
        print(what.ljust(14) + "".join(f"{n:>7}{arrays[n][what]:10.0f}" for n in arrays))
    for folder in models:
        for name, python in list(zip(names, pythons))[:2]:
            prompt, decode = ask(python, MODEL, folder)
            print(f"{folder}: {name} {prompt:.0f} tokens per second of a prompt of 512, {decode:.1f} of decode", flush=True)


if __name__ == "__main__":
    main()
