#!/usr/bin/env bash
# tools/cross.sh TARGET [COMMAND] - Keel for another system, built on this one: tools/cross/TARGET.sh
# says which commands there are.
set -eu
cd "$(dirname "$0")/.."
target=${1:-}
script=tools/cross/$target.sh
[ -n "$target" ] && [ -f "$script" ] || {
    echo "cross.sh: a target is one of: $(cd tools/cross && printf '%s ' *.sh | sed 's/\.sh//g')(given: ${target:-nothing})" >&2
    exit 2
}
shift
exec "$script" "$@"
