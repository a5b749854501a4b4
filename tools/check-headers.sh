#!/bin/sh
# check-headers.sh - every installed header compiles alone, and twice, in C11 and C++17, with each
# compiler that is there. A header that needs another one included first, or a construct that C++ or
# -Wpedantic rejects, fails here.
set -eu
cd "$(dirname "$0")/.."
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
flags="-Iinclude -Wall -Wextra -Wpedantic -Wundef -Wshadow -Werror -fsyntax-only"
bad=0
n=0
try() { # compiler, language, standard, header
    command -v "$1" >/dev/null 2>&1 || return 0
    printf '#include <%s>\n#include <%s>\nint keel_header_is_fine;\n' "$4" "$4" >"$tmp/one"
    n=$((n + 1))
    # shellcheck disable=SC2086
    "$1" -x "$2" -std="$3" $flags "$tmp/one" >"$tmp/log" 2>&1 && return 0
    echo "$4: $1 -std=$3:"
    cat "$tmp/log"
    bad=1
}
for path in include/keel/*.h include/mlx/c/*.h; do
    header=${path#include/}
    try gcc c c11 "$header"
    try clang c c11 "$header"
    try g++ c++ c++17 "$header"
    try clang++ c++ c++17 "$header"
done
echo "headers: $n compilations"
exit $bad
