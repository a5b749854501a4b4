#!/usr/bin/env bash
# tools/setup.sh [aarch64|macos] - installs what the build, the tests and the demo need and this machine lacks:
# Debian packages with apt-get, formulas with Homebrew; on other systems it says what to install. Does nothing when
# everything is there. aarch64, macos: what tools/cross.sh needs to build for ARM, and to run there, and for macOS.
set -eu
packages=(gcc g++ make cmake ninja-build pkg-config libjansson-dev libzip4 libcmocka-dev clang libclang-rt-dev clang-format spin python3 python3-venv python3-dev
    openmpi-bin mpich pocl-opencl-icd ocl-icd-libopencl1 libopenblas0-serial
    gobjc)
# Without these a stage of the tests says that it was not run.
wished=(python3.11-dbg)
[ "${1:-}" = aarch64 ] && packages=(gcc-aarch64-linux-gnu qemu-user) wished=()
[ "${1:-}" = macos ] && packages=(lld llvm dpkg-dev) wished=()
missing=()
still=()

install() { # packages: with apt-get
    local sudo=
    [ "$(id -u)" -eq 0 ] || sudo=sudo
    echo "setup: installing $*"
    export DEBIAN_FRONTEND=noninteractive
    $sudo apt-get update -qq
    $sudo apt-get install -y -qq --no-install-recommends "$@" >/dev/null
}

if command -v dpkg-query >/dev/null 2>&1; then
    [ ${#wished[@]} -eq 0 ] || command -v "${wished[0]}" >/dev/null 2>&1 || install "${wished[@]}" || echo "setup: ${wished[*]} cannot be installed"
    for p in "${packages[@]}"; do
        dpkg-query -W -f='${Status}' "$p" 2>/dev/null | grep -q 'ok installed' || missing+=("$p")
    done
    [ ${#missing[@]} -eq 0 ] && exit 0
    # A compiler from elsewhere on the path serves as well as the package.
    for p in "${missing[@]}"; do
        case "$p" in
        gcc | g++ | make | cmake | clang | clang-format | spin | python3) command -v "$p" >/dev/null 2>&1 || still+=("$p") ;;
        python3-dev) python3 -c 'import os, sys, sysconfig; sys.exit(not os.path.exists(sysconfig.get_path("include") + "/Python.h"))' >/dev/null 2>&1 || still+=("$p") ;;
        python3-venv) python3 -c 'import ensurepip' >/dev/null 2>&1 || still+=("$p") ;;
        gcc-aarch64-linux-gnu) command -v aarch64-linux-gnu-gcc >/dev/null 2>&1 || still+=("$p") ;;
        qemu-user) command -v qemu-aarch64 >/dev/null 2>&1 || still+=("$p") ;;
        ninja-build) command -v ninja >/dev/null 2>&1 || still+=("$p") ;;
        *) still+=("$p") ;;
        esac
    done
    [ ${#still[@]} -eq 0 ] && exit 0
    install "${still[@]}"
    exit 0
fi
if [ "$(uname)" = Darwin ]; then
    # bash and coreutils: the scripts use what macOS's own are too old for. libzip, lapack and open-mpi are opened at run time.
    formulas=(cmake ninja pkgconf jansson cmocka libzip lapack open-mpi clang-format spin python bash coreutils)
    command -v cc >/dev/null 2>&1 || { echo "setup: there is no compiler; please run: xcode-select --install" >&2; exit 1; }
    command -v brew >/dev/null 2>&1 || { echo "setup: Homebrew (https://brew.sh) is not installed; with it: brew install ${formulas[*]}" >&2; exit 1; }
    for f in "${formulas[@]}"; do brew list --formula "$f" >/dev/null 2>&1 || missing+=("$f"); done
    [ ${#missing[@]} -eq 0 ] || { echo "setup: brew install ${missing[*]}"; brew install -q "${missing[@]}"; }
    exit 0
fi
if [ "${1:-}" = aarch64 ]; then
    echo "setup: this is not a Debian system; please install aarch64-linux-gnu-gcc and qemu-aarch64" >&2
    exit 1
fi
if [ "${1:-}" = macos ]; then
    echo "setup: this is not a Debian system; please install lld, llvm (ld64.lld, llvm-nm) and dpkg-source" >&2
    exit 1
fi
for tool in cc cmake ninja pkg-config clang spin; do
    command -v $tool >/dev/null 2>&1 || missing+=("$tool")
done
pkg-config --exists jansson 2>/dev/null || missing+=("jansson (development files)")
pkg-config --exists cmocka 2>/dev/null || missing+=("cmocka (development files)")
[ ${#missing[@]} -eq 0 ] && exit 0
echo "setup: this is not a Debian system; please install: ${missing[*]} (and libzip for .npz files)" >&2
exit 1
