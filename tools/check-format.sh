#!/usr/bin/env bash
# tools/check-format.sh [fix] - whether clang-format would change a C file of ours.
set -eu
cd "$(dirname "$0")/.."
mode=--dry-run\ -Werror
[ "${1:-}" = fix ] && mode=-i
# shellcheck disable=SC2086
git ls-files -co --exclude-standard 'src/*.[ch]' 'include/*.h' 'tests/*.[ch]' 'bench/*.[ch]' 'fuzz/*.c' 'examples/*.c' |
    grep -v 'tests/.*golden' | xargs clang-format $mode
