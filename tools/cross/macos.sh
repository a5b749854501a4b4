#!/usr/bin/env bash
# tools/cross.sh macos [build|wheel|syntax] [arm64|x86_64 ...] - Keel for macOS 13 and later, built on Linux in build/macos. Nothing of it runs.
# build, which is also meant without a word: the library, all tests, benchmarks and examples, for both processors unless one is given, and
# whether their symbols are as they must be (tools/check/macho.sh). wheel: the Python wheel. syntax: what `make test-more` runs: the
# sources of the library, of the Python extension and of tests that ask a system for something are read by the compiler, for arm64 unless told.
# The compiler, the headers of macOS and the names in its libSystem come from the Python package ziglang, the linker from LLVM
# (tools/setup.sh), jansson and cmocka from Debian's source packages. Ends with 77 where these cannot be had, and with 1 if
# KEEL_TEST_REQUIRED=1.
set -eu
cd "$(dirname "$0")/../.."
top=$PWD
made=$top/build/macos
zig=$made/zig/ziglang
jobs=${JOBS:-$(nproc)}

cannot() { # WHY
    echo "macos: $1"
    [ "${KEEL_TEST_REQUIRED:-}" = 1 ] && exit 1
    exit 77
}

compiler() {
    [ -x "$zig/zig" ] || {
        rm -rf "$made/zig"
        python3 -m pip install -q --target "$made/zig" ziglang==0.17.1 2>/dev/null || cannot "ziglang 0.17.1 cannot be installed"
    }
    [ -f "$made/sdk/usr/lib/libSystem.tbd" ] || sdk
    for cpu in arm64 x86_64; do
        # What the compiler calls and libSystem lacks, as the division of complex numbers.
        [ -f "$made/$cpu/clang/lib/darwin/libclang_rt.osx.a" ] || {
            mkdir -p "$made/$cpu/clang/lib/darwin"
            ln -sfn "$zig/lib/include" "$made/$cpu/clang/include"
            (cd "$zig/lib" && ZIG_GLOBAL_CACHE_DIR=$made/zig-cache "$zig/zig" build-lib -static -O ReleaseSmall -target "${cpu/arm64/aarch64}-macos.13.0" \
                -femit-bin="$made/$cpu/clang/lib/darwin/libclang_rt.osx.a" compiler_rt.zig)
        }
        # The driver of clang itself: `zig cc` has a linker of its own, which knows no list of exported names.
        cat >"$made/clang-$cpu.new" <<END
#!/bin/sh
exec '$zig/zig' clang -target $cpu-apple-macos13.0 -resource-dir '$made/$cpu/clang' -isysroot '$made/sdk' --ld-path='$made/llvm/ld64.lld' -mlinker-version=710 -Wno-unused-command-line-argument "\$@"
END
        chmod +x "$made/clang-$cpu.new"
        cmp -s "$made/clang-$cpu.new" "$made/clang-$cpu" && rm "$made/clang-$cpu.new" || mv "$made/clang-$cpu.new" "$made/clang-$cpu"
    done
}

# What stands for Apple's SDK. LLVM 14 does not know the newest processors of ziglang's list of names, and takes arm64e for another
# one than arm64.
sdk() {
    mkdir -p "$made/sdk/usr/lib"
    ln -sfn "$zig/lib/libc/include/any-darwin-any" "$made/sdk/usr/include"
    python3 - "$zig/lib/libc/darwin/libSystem.tbd" >"$made/sdk/usr/lib/libSystem.new" <<'END'
import re, sys
def known(found):
    names = [n.replace("arm64e-", "arm64-") for n in re.split(r",\s*", found[1].strip()) if ".x1-" not in n]
    return "targets: [ " + ", ".join(dict.fromkeys(names)) + " ]"
print(re.sub(r"targets:\s*\[([^\]]*)\]", known, open(sys.argv[1]).read()), end="")
END
    for name in m dl pthread c; do ln -sfn libSystem.tbd "$made/sdk/usr/lib/lib$name.tbd"; done
    mv "$made/sdk/usr/lib/libSystem.new" "$made/sdk/usr/lib/libSystem.tbd"
}

linker() {
    local from
    from=$(find_llvm) || { tools/setup.sh macos && from=$(find_llvm); } || cannot "the linker ld64.lld or LLVM's tools cannot be installed (Debian: lld, llvm)"
    ln -sfn "$from" "$made/llvm"
}
find_llvm() { # prints the folder of the newest LLVM that has all that is needed
    local folder
    for folder in $(printf '%s\n' /usr/lib/llvm-*/bin | sort -rV); do
        [ -x "$folder/ld64.lld" ] && [ -x "$folder/llvm-nm" ] && [ -x "$folder/llvm-install-name-tool" ] && echo "$folder" && return
    done
    return 1
}

# sources NAME...: Debian's source packages, unpacked into build/macos/NAME. This system's list of packages stays as it is.
sources() {
    local apt=$made/apt name missing=()
    for name in "$@"; do [ -d "$made/$name" ] || missing+=("$name"); done
    [ ${#missing[@]} -gt 0 ] || return 0
    command -v dpkg-source >/dev/null || tools/setup.sh macos || cannot "Debian's source packages cannot be unpacked (dpkg-dev)"
    mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial"
    echo "deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian bookworm main" >"$apt/sources.list"
    local with=(-qq -o Dir::Etc::SourceList="$apt/sources.list" -o Dir::Etc::SourceParts=/dev/null -o Dir::State::Lists="$apt/lists"
        -o Dir::Cache="$apt/cache" -o APT::Sandbox::User=)
    apt-get "${with[@]}" update && (cd "$apt" && apt-get "${with[@]}" source --download-only "${missing[@]}") ||
        cannot "Debian's source packages cannot be had: ${missing[*]}"
    for name in "${missing[@]}"; do dpkg-source --no-check -x "$apt/$name"_*.dsc "$made/$name" >/dev/null; done
}

# libraries CPU: what Keel and its tests link, static, into build/macos/CPU/root.
libraries() {
    local cpu=$1 name options
    sources jansson cmocka
    for name in jansson cmocka; do
        [ -f "$made/$cpu/root/lib/lib$name.a" ] && continue
        case $name in
        jansson) options=(-DJANSSON_BUILD_DOCS=OFF -DJANSSON_EXAMPLES=OFF -DJANSSON_WITHOUT_TESTS=ON) ;;
        cmocka) options=(-DWITH_STATIC_LIB=ON -DWITH_EXAMPLES=OFF -DUNIT_TESTING=OFF) ;;
        esac
        configured "$made/$name" "$made/$cpu/$name" "$cpu" -DCMAKE_INSTALL_PREFIX="$made/$cpu/root" -DCMAKE_INSTALL_LIBDIR=lib \
            -DCMAKE_POLICY_VERSION_MINIMUM=3.5 "${options[@]}"
        ninja -C "$made/$cpu/$name" --quiet install >"$made/$cpu/$name.log" 2>&1 || { cat "$made/$cpu/$name.log"; exit 1; }
        rm -f "$made/$cpu/root/lib/lib$name"*.dylib
        [ -f "$made/$cpu/root/lib/lib$name.a" ] || cp "$made/$cpu/$name/src/lib$name"*.a "$made/$cpu/root/lib/lib$name.a"
    done
}

configured() { # SOURCE BUILD CPU [options of CMake]
    cmake -S "$1" -B "$2" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_TOOLCHAIN_FILE="$top/tools/cross/macos.cmake" -DKEEL_CROSS_CPU="$3" \
        -Wno-dev "${@:4}" >"$made/configure.log" 2>&1 || { cat "$made/configure.log"; exit 1; }
}

build() { # CPU
    libraries "$1"
    configured . "$made/$1/keel" "$1" -DKEEL_TESTS=ON
    ninja -C "$made/$1/keel" -j"$jobs" --quiet all benchmarks
    tools/check/macho.sh "$made/llvm" "$made/$1/keel" "$1"
}

# The headers of the Python that runs here, with what its pyconfig.h must say on macOS: the sizes of C's types are the same there but for
# long double, and Apple's headers hide what is not of POSIX unless told otherwise. The extension is of the limited API, which asks
# pyconfig.h for little else.
python_headers() { # CPU
    local from header long_double=16
    from=$(python3 -c 'import sysconfig; print(sysconfig.get_path("include"))')
    [ -f "$from/Python.h" ] || cannot "Python.h is not installed (Debian: python3-dev)"
    [ "$1" = x86_64 ] || long_double=8
    rm -rf "$made/$1/python"
    mkdir -p "$made/$1/python"
    for header in "$from"/*; do ln -s "$header" "$made/$1/python/"; done
    rm "$made/$1/python/pyconfig.h"
    {
        cat "$from/pyconfig.h"
        printf '#define _DARWIN_C_SOURCE 1\n#undef SIZEOF_LONG_DOUBLE\n#define SIZEOF_LONG_DOUBLE %d\n' $long_double
    } >"$made/$1/python/pyconfig.h"
}

# A wheel for every CPython from 3.11 on. The interpreter that builds it only runs CMake and writes the file.
wheel() { # CPU
    local folder=$made/$1/wheel
    libraries "$1"
    configured . "$made/$1/keel" "$1" -DKEEL_TESTS=ON
    ninja -C "$made/$1/keel" -j"$jobs" --quiet keel
    python_headers "$1"
    [ -x "$made/venv/bin/pip" ] || python3 -m venv "$made/venv"
    "$made/venv/bin/pip" install -q scikit-build-core || cannot "scikit-build-core cannot be installed"
    rm -rf "$folder" "$folder-unpacked"
    _PYTHON_HOST_PLATFORM=macosx-13.0-$1 "$made/venv/bin/pip" wheel -q --no-deps --no-build-isolation -w "$folder" \
        -C build-dir="$made/$1/python-build" -C install.strip=false -C cmake.define.CMAKE_TOOLCHAIN_FILE="$top/tools/cross/macos.cmake" \
        -C cmake.define.KEEL_CROSS_CPU="$1" -C cmake.define.KEEL_PREBUILT="$made/$1/keel" -C cmake.define.Python_INCLUDE_DIR="$made/$1/python" ./python
    python3 -m zipfile -e "$folder"/keel-*-cp311-abi3-macosx_13_0_"$1".whl "$folder-unpacked"
    tools/check/macho.sh "$made/llvm" "$folder-unpacked/keel" "$1"
    ls "$folder"
}

# Compiles without writing anything.
syntax() { # CPU
    local headers=$made/headers flags log=$made/syntax.log name
    mkdir -p "$headers" "$made/made"
    for name in jansson jansson_config cmocka; do
        find /usr/include -maxdepth 2 -name "$name.h" -exec cp {} "$headers/" \; -quit
        [ -f "$headers/$name.h" ] || cannot "the header $name.h is not installed (tools/setup.sh)"
    done
    python_headers "$1"
    cmake -DOUT="$made/made" -DDIR="$top/src/backend/gpu/kernels" -P cmake/embed.cmake
    mkdir -p "$made/generated"
    python3 python/tools/rows.py "$made/generated" python/keel/core $(find python/src -name '*.c')
    flags=(-fsyntax-only -std=gnu11 -D_GNU_SOURCE -Wall -Wextra -Werror -Wshadow -Wstrict-prototypes -Wundef -Wno-unused-parameter -ffp-contract=off
        -Wno-gnu-variable-sized-type-not-at-end -Iinclude -Isrc -isystem "$headers" -I"$made/made")
    {
        find src -name '*.c' ! -name '*_linux.c' ! -path 'src/backend/sim/*' ! -path 'src/api/*'
        echo "$made/made/kernels.c"
    } >"$made/syntax.src"
    find src/api -name '*.c' ! -name '*_linux.c' >"$made/syntax.api"
    # Of the tests those that ask a system for something; `build` compiles them all. macOS needs no simulation of Metal.
    find src/backend/sim tests bench/platform -name '*.c' ! -name '*_linux.c' ! -path 'tests/backend/metal/sim_*' -print0 |
        xargs -0 grep -lE '^#[ ]*include <(sys/(mman|socket|resource|sysctl|un|utsname|stat)|net|arpa/|mach|sched|spawn|libgen|glob|dirent|crt_externs)' >"$made/syntax.tests"
    find python/src -name '*.c' ! -name '*_linux.c' >"$made/syntax.python"
    : >"$log"
    compile() { xargs -a "$made/syntax.$2" -P "$jobs" -n 12 "$made/clang-$1" "${flags[@]}" "${@:3}" >>"$log" 2>&1; }
    # The public headers take arm_neon.h along, which has 70,000 lines: they are read once.
    "$made/clang-$1" "${flags[@]:1}" -x c-header include/mlx/c/mlx.h -o "$made/mlx.pch" >>"$log" 2>&1 && compile "$1" src &&
        compile "$1" api -include-pch "$made/mlx.pch" && compile "$1" tests -Itests -Ibench -DKL_TEST_HOOKS=1 &&
        compile "$1" python -include-pch "$made/mlx.pch" -Ipython/src -I"$made/generated" -isystem "$made/$1/python" -Wno-missing-field-initializers ||
        { head -n 60 "$log"; exit 1; }
    echo "$1: $(cat "$made"/syntax.{src,api,tests,python} | wc -l) sources compile for macOS 13"
}

command=${1:-build}
[ $# -eq 0 ] || shift
for cpu in "$@"; do
    case $cpu in arm64 | x86_64) ;; *) echo "macos.sh: a processor is one of arm64, x86_64 (given: $cpu)" >&2; exit 2 ;; esac
done
[ $# -gt 0 ] || set -- arm64 x86_64
case $command in build | wheel | syntax) ;; *) echo "macos.sh: a command is one of build, wheel, syntax (given: $command)" >&2; exit 2 ;; esac
mkdir -p "$made"
compiler
case $command in
build)
    linker
    for cpu in "$@"; do build "$cpu"; done
    ;;
wheel)
    linker
    for cpu in "$@"; do wheel "$cpu"; done
    ;;
syntax) syntax "$1" ;;
esac
