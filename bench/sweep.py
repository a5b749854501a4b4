"""Every function that computes, beside NumPy and PyTorch: the times that nobody looked for.

python3 bench/sweep.py path/to/libkeel.so [filter ...]

The interpreter has the packages keel (pip install ./python), numpy and, if PyTorch is to be compared, torch; libkeel.so is loaded first, so it is the one that is measured. A filter is a word of a case's name, as in `remainder`, `float64`, `transposed`;
all words of one argument must be there ("remainder 4M int32"), and a case runs if any argument fits. `-median` leaves out the cases with this word. All cases take about half an hour on two processors. KEEL_BENCH_TABLE=file.md: a table of the functions that have cases below 1.0, worst first. KEEL_SWEEP_TIMES=file.tsv: all times.

Each case runs the libraries by turns in one process, KEEL_BENCH_ROUNDS rounds (3), each turn KEEL_BENCH_SECONDS long (0.002) but at least one call, after a call that does not count; a library that takes over a quarter of a second for a call is measured once. Figures are
the least of the rounds, since what else runs only adds; a ratio is the best peer's time over Keel's. What a peer cannot do is left out of the case; a case without a peer is timed alone. Functions of the API without a case are printed at the end, with the reason where there is one; so are rows of op_list.def."""
import ctypes
import os
import re
import statistics
import sys
import time

import numpy as np

ctypes.CDLL(os.path.abspath(sys.argv[1]), mode=ctypes.RTLD_GLOBAL)
import keel.core as mx  # noqa: E402

try:
    import torch
except Exception:  # not installed, or not for this machine
    torch = None
from sweep_cases import NOT_TIMED, OF_ROWS, cases  # noqa: E402

ROUNDS = int(os.environ.get("KEEL_BENCH_ROUNDS", "3"))
BUDGET = float(os.environ.get("KEEL_BENCH_SECONDS", "0.002"))  # of a turn
SLOW = 0.25  # seconds
filters = [argument.split() for argument in sys.argv[2:] if argument[0] != "-"]
left_out = [argument[1:] for argument in sys.argv[2:] if argument[0] == "-"]
results, faults = [], []


def seconds(work, n):
    t = time.perf_counter()
    for _ in range(n):
        work()
    return (time.perf_counter() - t) / n


def settle():
    """Waits, a second at most, until the process is idle: threads of a library may spin for a while when their work is done, and would take a processor from the next library."""
    for _ in range(500):
        cpu, wall = time.process_time(), time.perf_counter()
        time.sleep(0.002)
        if time.process_time() - cpu < 0.2 * (time.perf_counter() - wall):
            return


def measure(name, ways):
    counts, times = {}, {}
    for k, work in ways.items():
        try:
            work()
            once = seconds(work, 1)
        except Exception as e:  # a peer is left out of what it cannot do
            if k == "keel":
                faults.append(f"{name}: {str(e)[:200]}")
                return
            continue
        settle()
        counts[k], times[k] = max(1, min(2000, int(BUDGET / max(once, 1e-7)))), [once] if once > SLOW else []
    slow = [k for k in times if times[k]]
    for r in range(ROUNDS):
        order = [k for k in counts if k not in slow]
        order = order[r % max(1, len(order)):] + order[:r % max(1, len(order))]
        for k in order:
            ways[k]()
            times[k].append(seconds(ways[k], counts[k]))
            if len(order) > 1:
                settle()
    least = {k: min(t) for k, t in times.items()}
    peers = [k for k in least if k != "keel"]
    best = min(peers, key=least.get) if peers else None
    ratio = least[best] / least["keel"] if best else None
    results.append((name, least, best, ratio))
    others = "  ".join(f"{k} {least[k] * 1e3:.4f}" for k in peers)
    print(f"{name:60s} {least['keel'] * 1e3:10.4f} ms  {f'{ratio:6.2f} x {best}' if best else '  alone':14s}  {others}", flush=True)


def below_one():
    """One row for each function and layout: the dtypes below 1.0 with their ratios, worst first."""
    rows = {}
    for name, least, best, ratio in results:
        if ratio is not None and ratio < 1:
            function, dtype, layout = name.rsplit("|", 2)
            rows.setdefault((function, layout), []).append((ratio, dtype, least["keel"], least[best], best))
    return sorted(((min(r), key, sorted(r)) for key, r in rows.items()), key=lambda row: row[0][0])


def write_table(path):
    """One row for each function that has a case below 1.0, worst first."""
    functions = {}
    for name, least, best, ratio in results:
        if ratio is not None:
            function, dtype, layout = name.rsplit("|", 2)
            functions.setdefault(function, []).append((ratio, f"{dtype}, {layout}", least["keel"], least[best], best))
    with open(path, "w") as f:
        f.write("| function | below 1.0, of cases | median ratio | worst | operands | Keel, the peer, ms |\n|---|---|---|---|---|---|\n")
        for function, cases in sorted(functions.items(), key=lambda item: min(item[1])[0]):
            ratio, operands, ours, theirs, best = min(cases)
            if ratio < 1:
                f.write(f"| {function} | {sum(c[0] < 1 for c in cases)} of {len(cases)} | {statistics.median(c[0] for c in cases):.2f} | {ratio:.2f} | {operands} | {ours * 1e3:.3g}, {best} {theirs * 1e3:.3g} |\n")


def names_of_api():
    """Public functions, those of modules as fft.rfft."""
    for prefix, module in ("", mx), ("fft.", mx.fft), ("linalg.", mx.linalg), ("random.", mx.random), ("fast.", mx.fast):
        for name in dir(module):
            if not name.startswith("_") and callable(getattr(module, name)) and not isinstance(getattr(module, name), type):
                yield prefix + name


def without_a_time(timed):
    """Functions and rows that no case covers, each with its reason or none."""
    lines = [f"{name}: {NOT_TIMED.get(name, 'NO CASE')}" for name in names_of_api() if name not in timed]
    rows = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../src/base/op/op_list.def")
    with open(rows) as f:
        for name in re.findall(r"^KL_(?:OP|UNARY|BINARY)\(\w+,\s*(\w+),", f.read(), re.M):
            function = OF_ROWS.get(name, name)
            if function not in timed and function not in NOT_TIMED:
                lines.append(f"operation {name}: {'NO CASE' if name == function else function}")
    return lines


timed = set()
for function, dtype, layout, ways in cases(mx, np, torch):
    timed.add(function.split(" ")[0])
    name = f"{function}|{dtype}|{layout}"
    if any(word in re.split(r"[| ]", name) for word in left_out):
        continue
    if filters and not any(all(w in re.split(r"[| ]", name) for w in words) for words in filters):
        continue
    try:
        made = ways()
    except Exception as e:
        faults.append(f"{name}: its operands cannot be made: {str(e)[:200]}")
        continue
    measure(name, made)
    del made
behind = [r for r in results if r[3] is not None and r[3] < 1]
print(f"\n{len(results)} cases, {sum(r[3] is not None for r in results)} with a peer, {len(behind)} below 1.0; worst first:")
for (_, _, ours, theirs, best), (function, layout), row in below_one():
    print(f"  {function:24s} {layout:24s} {ours * 1e3:9.4f} ms, {best} {theirs * 1e3:9.4f}: {', '.join(f'{dtype} {ratio:.2f}' for ratio, dtype, *_ in row)}")
print("\nnot computed by Keel:", *(faults or ["none"]), sep="\n  ")
if not filters:
    print("\nwithout a time:", *without_a_time(timed), sep="\n  ")
if os.environ.get("KEEL_BENCH_TABLE"):
    write_table(os.environ["KEEL_BENCH_TABLE"])
if os.environ.get("KEEL_SWEEP_TIMES"):
    with open(os.environ["KEEL_SWEEP_TIMES"], "w") as f:
        for name, least, best, ratio in results:
            f.write("\t".join([name.replace("|", "\t"), *(f"{least[k]:.4g}" if k in least else "" for k in ("keel", "numpy", "torch")), f"{ratio:.3f}" if best else ""]) + "\n")
