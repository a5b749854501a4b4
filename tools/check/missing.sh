#!/usr/bin/env bash
# What CMake says where something that the build needs is not installed: which package brings it.
set -eu
cd "$(dirname "$0")/../.."
top=$PWD
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/only-jansson"
cp "$(pkg-config --variable=pcfiledir jansson)/jansson.pc" "$work/only-jansson"

# without NAME PACKAGES SOURCE [OPTION...]: configuring must fail, and name the packages.
without() {
    local name=$1 packages=$2 source=$3
    shift 3
    if cmake -S "$source" -B "$work/$name" -G Ninja "$@" >"$work/$name.txt" 2>&1; then
        echo "without $name CMake goes on"
        return 1
    fi
    grep -q "apt install $packages\$" "$work/$name.txt" || {
        echo "without $name CMake does not say \"apt install $packages\":"
        tail -n 20 "$work/$name.txt"
        return 1
    }
}

both() { # of the two that run must have ended well
    local status=0
    wait $a || status=1
    wait $b || status=1
    return $status
}

export PKG_CONFIG_LIBDIR=$work PKG_CONFIG_PATH=
without jansson libjansson-dev . & a=$!
without jansson-for-pip libjansson-dev python & b=$!
both
without pkg-config 'pkg-config libjansson-dev' . -DCMAKE_DISABLE_FIND_PACKAGE_PkgConfig=ON & a=$!
PKG_CONFIG_LIBDIR=$work/only-jansson without cmocka libcmocka-dev . -DKEEL_TESTS=ON & b=$!
both
without python-headers python3-dev python -DCMAKE_DISABLE_FIND_PACKAGE_Python=ON -DKEEL_PREBUILT="$top/build/release"
echo "CMake says what to install"
