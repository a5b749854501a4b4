#!/usr/bin/env bash
# tools/build.sh <preset> [target ...] - configures once and builds. KEEL_CPU_VARIANTS, where it is set, is
# which variants of the CPU's kernels are compiled (CMakeLists.txt) instead of those of the preset.
set -eu
cd "$(dirname "$0")/.."
preset=$1
shift
variants=${KEEL_CPU_VARIANTS:+-DKEEL_CPU_VARIANTS=$KEEL_CPU_VARIANTS}
[ -f "build/$preset/build.ninja" ] && [ -z "$variants" ] || cmake --preset "$preset" $variants >"/tmp/keel-configure-$$.log" 2>&1 || {
    cat "/tmp/keel-configure-$$.log"
    exit 1
}
rm -f "/tmp/keel-configure-$$.log"
exec ninja -C "build/$preset" --quiet "$@"
