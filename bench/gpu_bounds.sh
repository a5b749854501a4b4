#!/usr/bin/env bash
# bench/gpu_bounds.sh libkeel.so - what the bounds checks cost: gathers and scatters with them and with KEEL_BOUNDS=off, in turn, five processes
# each; per case the median of the ratios, then the median and the largest over the cases.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
for i in 1 2 3 4 5; do
    for mode in on off; do
        KEEL_BOUNDS=$mode KEEL_BENCH_ALONE=1 KEEL_BENCH_ROUNDS=7 python3 "$here/gpu_peers.py" "$1" gather lookup scatter >"$out/$mode.$i"
    done
done
python3 - "$out" <<'P'
import glob, re, statistics, sys
def read(f):
    return {m.group(1).strip(): float(m.group(2)) for m in re.finditer(r"^(.{34,}?) keel +([0-9.]+) ms", open(f).read(), re.M)}
on = [read(f) for f in sorted(glob.glob(sys.argv[1] + "/on.*"))]
off = [read(f) for f in sorted(glob.glob(sys.argv[1] + "/off.*"))]
ratios = {}
for name in on[0]:
    ratios[name] = statistics.median(a[name] / b[name] for a, b in zip(on, off))
    print(f"{name:42s} {100 * (ratios[name] - 1):+6.2f} %")
print(f"median {100 * (statistics.median(ratios.values()) - 1):+.2f} %, most {100 * (max(ratios.values()) - 1):+.2f} %")
P
