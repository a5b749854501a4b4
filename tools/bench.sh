#!/usr/bin/env bash
# tools/bench.sh [name] - runs the benchmarks (or one), one after the other, and prints the machine they ran on.
set -eu
cd "$(dirname "$0")/.."
echo "machine: $(nproc) processors, $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1)"
for b in build/release/bench/bench_*; do
    name=$(basename "$b" | sed 's/^bench_//')
    [ -n "${1:-}" ] && [ "$1" != "$name" ] && continue
    echo "== $b"
    "$b"
done
