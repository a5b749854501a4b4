#!/usr/bin/env bash
# tools/test.sh [full] - everything that CI runs. Prints the minutes of each stage and ends with a line of totals.
set -u
cd "$(dirname "$0")/.."
jobs=$(nproc)
passed=0 failed=0
# Kernels that one stage has compiled the next one finds; nothing of the user's cache is read or written.
export KEEL_CACHE_DIR=$PWD/build/kernel-cache
rm -rf "$KEEL_CACHE_DIR"
start_all=$SECONDS

# stage NAME COMMAND...: runs it, counts it as one test unless it prints ctest's own totals.
stage() {
    local name=$1 start=$SECONDS log status
    shift
    log=$(mktemp)
    echo "== $name"
    if "$@" >"$log" 2>&1; then status=0; else status=1; fi
    local totals
    totals=$(sed -nE 's/^[0-9]+% tests passed, ([0-9]+) tests failed out of ([0-9]+)$/\1 \2/p' "$log" | tail -1)
    if [ -n "$totals" ]; then
        local f=${totals% *} n=${totals#* }
        passed=$((passed + n - f))
        failed=$((failed + f))
        [ "$f" -eq 0 ] && [ $status -ne 0 ] && failed=$((failed + 1))
        echo "   $((n - f)) of $n tests passed"
    elif [ $status -eq 0 ]; then
        passed=$((passed + 1))
        tail -n 3 "$log" | sed 's/^/   /'
    else
        failed=$((failed + 1))
    fi
    if [ $status -ne 0 ]; then
        echo "   FAILED: $*"
        # What failed tests printed, which ctest puts behind their lines, then the end.
        awk '/\*\*\*/ { on = 1 } on && /^ +Start +[0-9]+:|tests passed,/ { on = 0 } on' "$log" | head -n 200
        tail -n 30 "$log"
    fi
    rm -f "$log"
    awk -v n="$name" -v s=$((SECONDS - start)) 'BEGIN { printf "   %-28s %5.2f minutes\n", n, s / 60 }'
}

tests() { # tests PRESET [ctest arguments]
    local preset=$1
    shift
    tools/build.sh "$preset" || return 1
    ctest --test-dir "build/$preset" --output-on-failure -j"$jobs" --no-tests=error "$@"
}

fuzz_one() { # target: for a while, from its corpus, without writing into it
    local found log status
    found=$(mktemp -d)
    log=$("$1" -max_total_time="${KEEL_FUZZ_SECONDS:-20}" -rss_limit_mb=2048 -timeout=10 -artifact_prefix="$found/" "$found" \
        "fuzz/corpus/$(basename "$1" | sed 's/^fuzz_//')" 2>&1)
    status=$?
    tail -n 4 <<<"$log"
    [ $status -eq 0 ] || return 1 # what was found stays
    rm -rf "$found"
    echo "$(basename "$1"): nothing found"
}
export -f fuzz_one

fuzz() { # as many targets at once as there are processors
    tools/build.sh fuzz || return 1
    find build/fuzz/fuzz -maxdepth 1 -type f -executable -name 'fuzz_*' -print0 |
        xargs -0 -n 1 -P "$jobs" bash -c 'fuzz_one "$1"' fuzz_one
}

layers() { tools/check-layers.sh && echo "layers hold"; }
format() { tools/check-format.sh && echo "format holds"; }

stage "layers" layers
stage "format" format
stage "public headers" tools/check-headers.sh
stage "model of the protocol" docs/model/check.sh
stage "release: build, all tests" tests release
stage "API table" tools/api_coverage.sh build/release/libkeel.so
stage "install and link" tools/check-install.sh
stage "demo" build/release/examples/digits cpu
stage "ASan and UBSan" tests asan
# What runs kernels on PoCL is left to the other stages: its compiler does not live with this sanitizer's memory map.
# The longest tests of kernels are left out: they share their chunks within one thread (tests/backend/cpu/kernel_support.h), so there is no race to find; the other folders' run kernels on the pool.
stage "TSan" tests tsan -L 'base|backend|runtime|graph|io|storm' -E 'backend/opencl|backend/gpu/lower_|backend/cpu/cpu_(along|elementwise|matmul|reduce|scatter|short_rows|sort)$'
stage "fuzz" fuzz
if [ "${1:-}" = full ]; then
    KEEL_STORM_GRAPHS=100000 stage "long fault storm" ctest --test-dir build/release --output-on-failure -R storm
fi
awk -v s=$((SECONDS - start_all)) 'BEGIN { printf "total %.2f minutes\n", s / 60 }'
echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
