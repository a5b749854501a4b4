#!/usr/bin/env bash
# layers.sh [print] - whether includes go down or sideways, never up. The tables below say who may
# include what; `print` prints them. Then: cpu/ and the GPU drivers never meet (but for the simulated
# device, whose kernels are the CPU's); only api/ includes the public headers of MLX; intrinsics and
# code for tests stand in files that say so; no file is longer than 600 lines.
set -u
cd "$(dirname "$0")/../.."
bad=0
# Floors, from below: a folder includes its own floor's folders and those below. Within one floor
# `x|y` names folders that do not include each other.
layers='base backend runtime graph ops io|dist transforms train api'
base_floors='platform . number value op'
cpu_floors='vector operand math product|reduce *'
# Headers that only these folders include: "header: folder ...".
private='runtime/callback_waits.h: runtime
runtime/executor.h: runtime
runtime/fork.h: runtime
runtime/fusion.h: runtime
runtime/readers.h: runtime
graph/arrange.h: graph
graph/recompute.h: graph
graph/node.h: graph transforms
graph/tracing.h: graph transforms
ops/index.h: ops
ops/reduce.h: ops
ops/attention.h: ops
ops/convolution.h: ops
ops/build/views.h: ops
ops/build/params.h: ops'

# floors "FLOORS" "PREFIX": who may include what, from a list of floors.
floors() {
    local below=() floor folder
    for floor in $1; do
        for folder in ${floor//|/ }; do
            printf '    %-14s includes %s\n' "$2$folder" "${below[*]:+${below[*]} and }itself"
        done
        # shellcheck disable=SC2206
        below+=(${floor//|/ })
    done
}
if [ "${1:-}" = print ]; then
    set -f
    echo "src/:"
    floors "$layers" ""
    echo "src/base/ (. is the folder itself):"
    floors "$base_floors" ""
    echo "src/backend/cpu/ (* is every other family; none of them includes another):"
    floors "$cpu_floors" ""
    echo "headers that only some folders include:"
    sed 's/^/    /; s/: / by /' <<<"$private"
    exit 0
fi

# climbs "FLOORS" DEPTH: reads "file:include", and prints those whose include is on a higher floor,
# or in another folder of the same floor. The folder is the path's part number DEPTH; where there is
# no folder it is ".".
climbs() {
    awk -v floors="$1" -v depth="$2" -F: '
    function folder(path,   n, part) { n = split(path, part, "/"); return n > depth ? part[depth] : "." }
    BEGIN { set = split(floors, floor, " ")
            for (i = 1; i <= set; i++) { k = split(floor[i], same, "|"); for (j = 1; j <= k; j++) rank[same[j]] = i } }
    { a = folder($1); b = folder($2)
      x = a in rank ? rank[a] : rank["*"]; y = b in rank ? rank[b] : rank["*"]
      if (!y || y > x || (y == x && a != b)) { print "upward or across: " $1 " includes " $2; bad = 1 } }
    END { exit bad }'
}
includes() { # FOLDER: "file:include" with both paths below src/
    grep -rnE --include='*.[ch]' --include='*.inc' --include='*.def' '^[ \t]*#[ \t]*include "' "src/$1" | sed -E 's|^src/([^:]*):[0-9]*:[^"]*"([^"]*)".*|\1:\2|'
}
includes . | sed 's|^\./||' | climbs "$layers" 1 || bad=1
includes base | grep ':base/' | climbs "$base_floors" 2 || bad=1
includes backend/cpu | grep -E '^backend/cpu/[a-z]+/.*:backend/cpu/[a-z]+/' | climbs "$cpu_floors" 3 || bad=1
while IFS=: read -r header folders; do
    while IFS=: read -r file include; do
        [ "$include" = "$header" ] || continue
        for folder in $folders; do [[ $file == "$folder"/* ]] && continue 2; done
        echo "$file includes $header, which is for$folders"
        bad=1
    done < <(includes . | sed 's|^\./||' | grep -F ":$header")
done <<<"$private"

if grep -rnE 'include "backend/(gpu|cuda|metal|opencl|sim)/' src/backend/cpu; then echo "cpu/ includes a GPU driver"; bad=1; fi
if grep -rnE 'include "backend/cpu/' src/backend/gpu src/backend/cuda src/backend/metal src/backend/opencl 2>/dev/null; then echo "a GPU driver includes cpu/"; bad=1; fi
# gpu: the protocol in the folder itself and the lowering share driver.h alone, which declares what lower/submit.c gives.
if grep -nE 'include "backend/gpu/lower/' src/backend/gpu/*.[ch]; then echo "the protocol of gpu/ includes lower/"; bad=1; fi
if grep -rnE 'include "backend/gpu/(gpu|gpu_internal)\.h"' src/backend/gpu/lower; then echo "lower/ includes the protocol of gpu/ (driver.h alone is shared)"; bad=1; fi
if grep -rnE 'include "api/' src/api/handles | grep -v '"api/handles/'; then echo "api/handles/ includes what is above it"; bad=1; fi
if grep -rnE 'include [<"]mlx/' src --include='*.[ch]' | grep -v '^src/api/'; then echo "only api/ may include <mlx/c/...>"; bad=1; fi

# Code for tests alone: only where CMakeLists.txt compiles a file twice.
hooked=$(sed -nE 's/^list\(FILTER KEEL_HOOKED_SOURCES INCLUDE REGEX "(.*)"\)$/\1/p' CMakeLists.txt | sed 's/\\\\/\\/g')
[ -n "$hooked" ] || { echo "no list of sources with hooks in CMakeLists.txt"; bad=1; }
if grep -rlE --include='*.c' 'KL_TEST_HOOKS' src | grep -vE "${hooked:-^}|^src/backend/sim/"; then
    echo "KL_TEST_HOOKS in a file that KEEL_HOOKED_SOURCES (CMakeLists.txt) does not name"
    bad=1
fi
# Intrinsics stand only in files that are named after their instruction set; plain C next to them is the reference.
if grep -rnE 'immintrin\.h|\b_mm[0-9]*_[a-z]|\b__m(128|256|512)|\b__mmask|\b_tile_(load|store|stream|dp|zero|release)|arm_neon\.h|\b(float|int|uint|bfloat)(8|16|32|64)x[0-9]+(x[0-9])?_t\b|\bv[a-z0-9]*q_([a-z0-9]+_)?[fsu](8|16|32|64)\b' src |
    grep -vE '^[^:]*_(avx2|avx512|amx|x86|neon[a-z0-9_]*)\.(c|h|inc):'; then
    echo "intrinsics stand only in files *_avx2, *_avx512, *_amx, *_neon and (several widths) *_x86"
    bad=1
fi
# A file of more than 600 lines has a second concern.
find src python/src -type f \( -name '*.[ch]' -o -name '*.inc' -o -name '*.kl' \) -exec wc -l {} + |
    awk '$2 != "total" && $1 > 600 { print $2 ": " $1 " lines; 600 are enough for one concern"; bad = 1 }
        END { exit bad }' || bad=1
exit $bad
