#!/usr/bin/env bash
# tools/build.sh <preset> [target ...] - configures once and builds.
set -eu
cd "$(dirname "$0")/.."
preset=$1
shift
[ -f "build/$preset/build.ninja" ] || cmake --preset "$preset" >"/tmp/keel-configure-$$.log" 2>&1 || {
    cat "/tmp/keel-configure-$$.log"
    exit 1
}
rm -f "/tmp/keel-configure-$$.log"
exec ninja -C "build/$preset" --quiet "$@"
