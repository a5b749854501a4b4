#!/usr/bin/env bash
# tools/check-format.sh [fix] - whether clang-format would change a C file of ours.
set -euo pipefail
cd "$(dirname "$0")/.."
mode=(--dry-run -Werror)
[ "${1:-}" = fix ] && mode=(-i)
find src include tests bench fuzz examples -name '*.[ch]' ! -path 'tests/*golden*' -print0 | xargs -0 clang-format "${mode[@]}"
