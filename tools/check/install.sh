#!/usr/bin/env bash
# Installs what the release preset built into an empty folder and links programs against it in every
# way that we promise: pkg-config under both names, the CMake package, -lmlxc. The plain CMake call
# of the README is configured but not compiled: it must build exactly one library, by the very
# commands that the preset did. Also: its size.
set -eu
cd "$(dirname "$0")/../.."
top=$PWD
built=$top/build/release
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tools/build.sh release
cmake -S . -B "$work/plain" -G Ninja -DCMAKE_BUILD_TYPE=Release >/dev/null
libraries=$(ninja -C "$work/plain" -t targets all | grep -E ': C_(SHARED|STATIC)_LIBRARY_LINKER' | sed 's/: .*//')
case $libraries in
libkeel.so.*.*.*) [ "$(wc -l <<<"$libraries")" -eq 1 ] ;;
*) false ;;
esac || { echo "expected exactly one library, libkeel.so, from the plain CMake call, found: $libraries"; exit 1; }
commands() { # of everything that the library needs, without the folder and a compiler cache
    ninja -C "$1" -t commands "$libraries" | sed -E "s,$1,BUILD,g; s,^[^ ]*ccache ,," | sort
}
commands "$work/plain" >"$work/plain.txt"
commands "$built" >"$work/built.txt"
diff "$work/plain.txt" "$work/built.txt" >"$work/diff.txt" || {
    echo "the plain CMake call builds the library by other commands than the release preset:"
    head -n 4 "$work/diff.txt" | cut -c 1-1000
    exit 1
}
cmake --install "$built" --prefix "$work/prefix" >/dev/null
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
[ "$size" -lt 6000000 ] || { echo "libkeel.so is over 6 MB"; exit 1; }
cd "$top"
