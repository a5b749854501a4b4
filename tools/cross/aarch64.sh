#!/usr/bin/env bash
# tools/cross.sh aarch64 [library|build|test|sample|wheel] - Keel for ARM's 64-bit processors under Linux, in build/aarch64.
# library: libkeel.so. build, which is also meant without a word: library, tests, benchmarks, examples and the Python wheel.
# test: builds, and runs all tests of the release build and those of the Python package under qemu.
# sample: what `make test-more` runs: a build of its own without optimisation, and the tests that say most about the processor.
# wheel: the wheel alone, in build/aarch64/wheel.
# The compiler and qemu come from tools/setup.sh; the libraries, of Debian's port to ARM, into build/aarch64-root, which nothing
# of this system sees. Ends with 77 where these cannot be had, and with 1 if KEEL_TEST_REQUIRED=1.
set -eu
cd "$(dirname "$0")/../.."
root=$PWD/build/aarch64-root
emulator="qemu-aarch64 -L $root"
jobs=${JOBS:-$(nproc)}

cannot() { # WHY
    echo "aarch64: $1"
    [ "${KEEL_TEST_REQUIRED:-}" = 1 ] && exit 1
    exit 77
}

tools() {
    command -v aarch64-linux-gnu-gcc >/dev/null && command -v qemu-aarch64 >/dev/null ||
        tools/setup.sh aarch64 || cannot "the cross compiler or qemu cannot be installed (gcc-aarch64-linux-gnu, qemu-user)"
}

# packages NAME...: these and what they need, unpacked into the root. apt is told of a system that has nothing and is of ARM.
packages() {
    local list apt=$root/.apt deb
    list="$root/.has $*"
    [ -f "$list" ] && return
    command -v dpkg-deb >/dev/null || cannot "the libraries are Debian's packages, and dpkg-deb is not here"
    mkdir -p "$apt/state/lists/partial" "$apt/cache/archives/partial"
    : >"$apt/status"
    apt=(apt-get -qq -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o Dir::State="$apt/state" -o Dir::State::status="$apt/status"
        -o Dir::Cache="$apt/cache" -o APT::Sandbox::User= -o APT::Get::List-Cleanup=0)
    "${apt[@]}" update && "${apt[@]}" install -y --download-only --no-install-recommends "$@" >/dev/null ||
        cannot "Debian's packages for arm64 cannot be had: $*"
    for deb in "$root"/.apt/cache/archives/*.deb; do dpkg-deb -x "$deb" "$root"; done
    # A link from the root of the system, as libm.so is, would lead out of this one, and the linker would take the static library.
    find "$root" -type l -lname '/*' -printf '%l\0%p\0' | while read -rd '' to && read -rd '' link; do ln -sfnr "$root$to" "$link"; done
    rm -rf "$root/.apt"
    touch "$list"
}

build() { # PRESET [TARGET...]
    tools
    packages libjansson-dev libcmocka-dev libc6-dev libzip4 libopenblas0-serial
    tools/build.sh "$@"
}

# A wheel for every CPython from 3.11 on; the interpreter that builds it only runs CMake and writes the file.
wheel() {
    local tools=$PWD/build/python/cross
    tools
    packages python3-dev libjansson-dev libc6-dev libstdc++6
    [ -x "$tools/bin/pip" ] || python3 -m venv "$tools"
    "$tools/bin/pip" install -q scikit-build-core || cannot "scikit-build-core cannot be installed"
    rm -rf build/aarch64/wheel
    _PYTHON_HOST_PLATFORM=linux-aarch64 "$tools/bin/pip" wheel -q --no-deps --no-build-isolation -w build/aarch64/wheel \
        -C build-dir="$PWD/build/aarch64/python" -C install.strip=false \
        -C cmake.define.CMAKE_TOOLCHAIN_FILE="$PWD/tools/cross/aarch64.cmake" \
        -C cmake.define.Python_INCLUDE_DIR="$root/usr/include/python3.11" ./python
    ls build/aarch64/wheel
}

under_qemu() { # PRESET [ctest arguments]: what a test says that it does not run comes last
    local status=0 log=build/$1/Testing/Temporary/LastTest.log
    KEEL_TEST_EMULATOR=$emulator ctest --test-dir "build/$1" --output-on-failure -j"$jobs" --no-tests=error "${@:2}" || status=$?
    grep '^NOT RUN' "$log" | sort | uniq -c || true
    return $status
}

# The interpreter, NumPy and pytest are those for ARM. What tests start again is a script that calls qemu. Not run: what
# forks and then computes, which starts threads; what launchers of MPI start; drivers that are stand-ins made by the
# compiler of this machine, PoCL, and the status of a process that writes into a closed pipe.
python_tests() {
    local site=$root/usr/local/lib/python3.11/dist-packages python=$PWD/build/aarch64/python-under-qemu
    local not_here='test_ranks or test_fork or test_a_process_that_forks_before_it_computes or test_a_gpu_of_cuda_is_the_default_device
        or test_who_names_a_device_loads_no_driver or test_doctor_says_why_there_is_no_opencl or test_nobody_reads_the_output'
    not_here=$(echo $not_here)
    rm -rf "$site"
    build/python/cross/bin/pip install -q --target "$site" --only-binary=:all: --python-version 3.11 --implementation cp \
        --platform manylinux2014_aarch64 --platform manylinux_2_28_aarch64 pytest numpy ml_dtypes || cannot "NumPy and pytest for ARM cannot be installed"
    python3 -m zipfile -e build/aarch64/wheel/keel-*.whl "$site"
    printf '#!/bin/sh\nexec %s %s "$@"\n' "$emulator" "$root/usr/bin/python3.11" >"$python"
    printf 'import sys; sys.executable = "%s"\n' "$python" >"$site/under_qemu.pth"
    chmod +x "$python"
    echo "NOT RUN: $not_here (python/tests)"
    (cd python/tests && PYTHONDONTWRITEBYTECODE=1 "$python" -m pytest -q -p no:cacheprovider -k "not ($not_here)" .)
}

# bits PRESET: every result of the test of variants has the same bits as with AVX2, but for one that LAPACK computes.
bits() {
    local test=tests/test_ops_properties_variants ours theirs n
    [ -x "build/release/$test" ] || { echo "bits: build/release/$test is not there to compare with" && return; }
    theirs=$(KEEL_TEST_BITS=1 "build/release/$test" | sed -n 's/^bits v3 //p' | grep -v multivariate_normal)
    ours=$(KEEL_TEST_BITS=1 $emulator "build/$1/$test" | sed -n 's/^bits base //p' | grep -v multivariate_normal)
    n=$(wc -l <<<"$theirs")
    [ "$n" -gt 1 ] || { echo "bits: this processor has no AVX2" && return; }
    [ "$ours" = "$theirs" ] || { diff <(echo "$theirs") <(echo "$ours") | head -n 20; return 1; }
    echo "bits: $n results are those of AVX2"
}

# Kernels whose results depend on the processor, and threads that hand over work.
sampled='ops/properties/variants ops/properties/rows ops/families/reduce backend/cpu/along backend/cpu/math/functions
    backend/cpu/elementwise/half storm/faults graph/errors'
sample() {
    local name targets=() regex=
    for name in $sampled; do
        targets+=("test_${name//\//_}")
        regex+="|$name"
    done
    build aarch64-sample "${targets[@]}"
    KEEL_TEST_SAMPLE=kernels/36,cpu/9 under_qemu aarch64-sample -R "^(${regex#|})\$"
    bits aarch64-sample
}

case ${1:-build} in
library) build aarch64 keel ;;
build)
    build aarch64
    wheel
    ;;
wheel) wheel ;;
sample) sample ;;
test)
    build aarch64
    wheel
    status=0
    under_qemu aarch64 || status=$?
    bits aarch64 || status=$?
    python_tests || status=$?
    exit $status
    ;;
*)
    echo "aarch64.sh: a command is one of library, build, test, sample, wheel (given: $1)" >&2
    exit 2
    ;;
esac
