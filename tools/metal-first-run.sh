#!/usr/bin/env bash
# tools/metal-first-run.sh [FILE] - the first run on a Mac: builds, runs the tests of the Metal driver on the device, and
# measures a few operations beside MLX's wheel. Writes everything into one file (metal-first-run.txt) that can be
# attached to an issue: versions, the device, what failed with its output, the table of times. Needs macOS 14, an M1 or
# later, Xcode's command line tools and what tools/setup.sh names.
set -u
cd "$(dirname "$0")/.."
report=$(cd "$(dirname "${1:-metal-first-run.txt}")" && pwd)/$(basename "${1:-metal-first-run.txt}")
folder=build/metal-first-run
failed=0
: >"$report"

say() { echo "$*" | tee -a "$report"; }
part() { # part NAME COMMAND...: its output goes into the report; a failure is counted and the run goes on
    local name=$1 start=$SECONDS status
    shift
    say "== $name"
    "$@" >"$folder/output" 2>&1
    status=$?
    cat "$folder/output" >>"$report"
    if [ $status -eq 0 ]; then
        say "-- well, after $((SECONDS - start)) seconds"
    else
        failed=$((failed + 1))
        say "-- FAILED with $status, after $((SECONDS - start)) seconds"
        tail -n 5 "$folder/output"
    fi
    return $status
}
versions() {
    git log -1 --format='Keel %H, %cd'
    git status --short | head -n 20
    if command -v sw_vers >/dev/null; then sw_vers; else uname -a; fi
    sysctl -n machdep.cpu.brand_string hw.memsize 2>/dev/null
    cc --version
    cmake --version | head -n 1
}
build() {
    cmake -S . -B "$folder/build" -DCMAKE_BUILD_TYPE=Release -DKEEL_TESTS=ON &&
        cmake --build "$folder/build" -j "$(getconf _NPROCESSORS_ONLN)"
}
# Each suite in a process of its own, so that a device that is lost costs one of them.
suites() { (cd "$folder/build" && ctest -L '^metal$' --output-on-failure --timeout 900); }
more_suites() { (cd "$folder/build" && ctest -L '^metal_more$' --output-on-failure --timeout 1800); }
# What the API of Metal itself finds wrong: bindings, sizes, lifetimes.
under_validation() {
    (cd "$folder/build" &&
        MTL_DEBUG_LAYER=1 MTL_SHADER_VALIDATION=1 ctest -R '^backend/driver/driver_metal$' --output-on-failure --timeout 900)
}
python_packages() {
    python3 -m venv "$folder/venv" &&
        "$folder/venv/bin/pip" install --quiet ./python numpy mlx
}
benchmarks() { KEEL_GPU=metal "$folder/venv/bin/python" tools/peers/metal_peers.py; }

mkdir -p "$folder"
part "versions" versions
if part "build" build; then
    part "driver and a sample of kernels" suites
    part "driver under Metal's validation" under_validation
    part "the other tests of kernels" more_suites
else
    say "Without a build nothing else runs."
fi
if part "Python packages (keel and mlx)" python_packages; then
    part "times beside MLX" benchmarks
fi
say "== $failed parts failed; please attach $report to an issue, also when it is 0"
[ $failed -eq 0 ]
