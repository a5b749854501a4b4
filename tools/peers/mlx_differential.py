#!/usr/bin/env python3
"""Random calls made twice, of Keel and of MLX, and compared: shapes, dtypes, strides, parameters, special values.

    python3 tools/peers/mlx_differential.py path/to/libkeel.so [calls] [seed] [operation ...]

Prints, per operation, the calls made and the differences by kind: "shape" and "dtype" of results, "value" beyond the tolerance of the dtype, "error" where one of the two fails and the other does not. Differences that docs/differences.md
explains are counted apart, by reason (mlx_calls/known.py). Ends with 1 when there is any other. "transforms" stands for all operations transform_...: gradients, jvps and vmaps of random expressions. Needs mlx and NumPy."""
import sys

import mlx.core as mx
import numpy as np

# Each of these enters its operations in TABLE.
import mlx_calls.elementwise
import mlx_calls.index
import mlx_calls.moves
import mlx_calls.products
import mlx_calls.quantized
import mlx_calls.random_numbers
import mlx_calls.reduce
from mlx_calls.both import TABLE, Failed, drawn, exact, keel_value, lib, made, mlx_value, rnd, same
from mlx_calls.known import known
from mlx_calls.transforms import NORMWISE, looped, steps

CALLS = int(sys.argv[2]) if len(sys.argv) > 2 else 100000
SEED = int(sys.argv[3]) if len(sys.argv) > 3 else 1
ONLY = sys.argv[4:]
rnd.seed(SEED)
both_fail = [0]


def compare(name, keel, mlx, loose):
    try:
        k = keel_value(keel())
    except Failed:
        k = None
    try:
        m = mlx()
        mx.eval(m)
        m = mlx_value(m)
    except Exception:
        m = None
    if k is None or m is None:
        both_fail[0] += k is None and m is None
        return None if k is None and m is None else ("error", k, m, f"keel {'fails' if k is None else k[:2]}, mlx {'fails' if m is None else m[:2]}")
    if k[0] != m[0]:
        return "shape", k, m, f"keel {k[0]}, mlx {m[0]}"
    if k[1] != m[1]:
        return "dtype", k, m, f"keel {k[1]}, mlx {m[1]}"
    if name.startswith("transform_") and m[2].size and np.max(np.abs(k[2] - m[2])) <= NORMWISE * np.max(np.abs(m[2])):
        return None
    if not same(k[2], m[2], k[1], loose):
        x, y = k[2].reshape(-1), m[2].reshape(-1)
        bad = [i for i in range(len(x)) if not same(x[i:i + 1], y[i:i + 1], k[1], loose)]
        i = bad[0] if bad else 0
        return "value", k, m, f"{k[1]} {k[0]}: element {i}: keel {x[i]}, mlx {y[i]} ({len(bad)} of {len(x)})"
    return None


count, differ, explained = {}, {}, {}
names = [n for n in TABLE if not ONLY or n in ONLY or "transforms" in ONLY and n.startswith("transform_")]
for i in range(CALLS):
    name = names[i % len(names)]
    state = rnd.getstate()
    try:
        keel, mlx, loose = TABLE[name]()
        d = compare(name, keel, mlx, loose)
    except Failed:
        d = None
    count[name] = count.get(name, 0) + 1
    if d:
        why = known(name, d[0], d[1], d[2])
        if why:
            explained[why] = explained.get(why, 0) + 1
            d = None
    if d:
        kinds = differ.setdefault(name, {})
        kinds.setdefault(d[0], [0, []])
        kinds[d[0]][0] += 1
        if len(kinds[d[0]][1]) < 4 and d[3] not in kinds[d[0]][1]:
            kinds[d[0]][1].append(d[3] + " from " + ", ".join(x.dtype + str(x.shape) for x in drawn) + (": " + " ".join(steps) if steps else ""))
    drawn.clear()
    exact.clear()
    steps.clear()
    while made:
        lib.mlx_array_free(made.pop())
total = sum(v[0] for kinds in differ.values() for v in kinds.values())
for name, kinds in sorted(differ.items()):
    for kind, (n, examples) in kinds.items():
        print(f"{name}: {kind} in {n} of {count[name]}:")
        for e in examples:
            print(f"    {e}")
for why, n in sorted(explained.items()):
    print(f"explained in docs/differences.md: {why}: {n}")
if looped[0]:
    print(f"vmap, with each lane alone in MLX: {looped[0]}")
if both_fail[0]:
    print(f"errors in both: {both_fail[0]}")
print(f"seed {SEED}: {sum(count.values())} calls of {len(names)} operations, {sum(explained.values())} differ as explained, {total} otherwise, in {len(differ)} operations")
sys.exit(1 if total else 0)
