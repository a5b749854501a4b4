#!/bin/sh
# headers.sh - every installed header compiles alone, and twice, in C11 and C++17, with each
# compiler that is there. A header that needs another one included first, or a construct that C++ or
# -Wpedantic rejects, fails here. Programs for mlx-c rely on what its headers include, and in C++ may
# define 16-bit floats of their own where the compiler has none: that compiles as well.
set -eu
cd "$(dirname "$0")/../.."
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
flags="-Iinclude -Wall -Wextra -Wpedantic -Wundef -Wshadow -Werror -fsyntax-only"
bad=0
n=0
compile() { # compiler, language, standard, what $tmp/one is
    command -v "$1" >/dev/null 2>&1 || return 0
    n=$((n + 1))
    # shellcheck disable=SC2086
    "$1" -x "$2" -std="$3" $flags "$tmp/one" >"$tmp/log" 2>&1 && return 0
    echo "$4: $1 -std=$3:"
    cat "$tmp/log"
    bad=1
}
try() { # compiler, language, standard, header
    printf '#include <%s>\n#include <%s>\nint keel_header_is_fine;\n' "$4" "$4" >"$tmp/one"
    compile "$@"
    case $4 in
    keel/* | mlx/c/half.h) return 0 ;;
    esac
    cat >"$tmp/one" <<EOF
#include <$4>
int keel_uses(size_t n);
int keel_uses(size_t n) {
    bool yes = true;
    int64_t *p = (int64_t *)malloc(n * sizeof(int64_t));
    printf("%p %d\\n", (void *)p, (int)yes);
    free(p);
    return 0;
}
EOF
    compile "$1" "$2" "$3" "a program that includes only $4"
}
try_own_floats() { # compiler
    cat >"$tmp/one" <<EOF
#ifndef __cplusplus
#error "for C++"
#endif
#include <mlx/c/half.h>
#ifndef HAS_FLOAT16
struct float16_t { unsigned short bits; };
#endif
#ifndef HAS_BFLOAT16
struct bfloat16_t { unsigned short bits; };
#endif
#include <mlx/c/mlx.h>
inline int of(mlx_array a, keel_float16_t *f, keel_bfloat16_t *b) {
    static_assert(sizeof(float16_t) == 2 && sizeof(bfloat16_t) == 2, "two bytes each");
    return a.ctx == mlx_array_empty.ctx ? 1 : mlx_array_item_float16(f, a) + mlx_array_item_bfloat16(b, a);
}
EOF
    compile "$1" c++ c++17 "a program with 16-bit floats of its own"
}
for path in include/keel/*.h include/mlx/c/*.h; do
    header=${path#include/}
    try gcc c c11 "$header"
    try clang c c11 "$header"
    try g++ c++ c++17 "$header"
    try clang++ c++ c++17 "$header"
done
try_own_floats g++
try_own_floats clang++
echo "headers: $n compilations"
exit $bad
