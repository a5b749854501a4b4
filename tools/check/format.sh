#!/usr/bin/env bash
# tools/check/format.sh [fix] - whether clang-format would change a C file of ours; whether every line
# of code and comment is within 100 columns; and whether the head of each file is at most eight lines.
# Left out: tables that a script writes or that are wide on purpose (golden/, *.def, special values).
set -euo pipefail
cd "$(dirname "$0")/../.."
mode=(--dry-run -Werror)
[ "${1:-}" = fix ] && mode=(-i)
find src include tests bench fuzz examples python/src -name '*.[ch]' ! -path 'tests/*golden*' -print0 | xargs -0 clang-format "${mode[@]}"
bad=0
files=$(find src include tests bench fuzz examples python/src \( -name '*.[ch]' -o -name '*.inc' -o -name '*.kl' \) ! -path 'tests/ops/golden/*' ! -name complex_special.inc)
# shellcheck disable=SC2086
awk 'length > 100 { print FILENAME ":" FNR ": over 100 columns"; bad = 1 } END { exit bad }' $files || bad=1
# shellcheck disable=SC2086
awk 'FNR == 1 { head = /^\/\*/ } head && FNR == 9 { print FILENAME ": its head is over eight lines"; bad = 1 }
     head && /\*\// { head = 0 } END { exit bad }' $(grep -v '^include/' <<<"$files") || bad=1
exit $bad
