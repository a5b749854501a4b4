#!/usr/bin/env bash
# Includes go down or sideways, never up; cpu/ and the GPU drivers never meet (but for the simulated
# device, whose kernels are the CPU's); only api/ includes the public headers of MLX. Files with
# code for tests alone are those that are compiled twice.
set -u
cd "$(dirname "$0")/../.."
bad=0
grep -rnE --exclude='*.kl' '^[ \t]*#[ \t]*include "' src | awk -F'[/:"]' '
BEGIN { n = split("base backend runtime graph ops io dist transforms train api", a, " ")
        for (i = 1; i <= n; i++) rank[a[i]] = i; rank["io"] = rank["dist"] = rank["ops"] + 1 }
{ to = ""; for (i = 1; i < NF; i++) if ($i ~ /include/) to = $(i + 1) }
!(to in rank) || rank[to] > rank[$2] { print "upward include: " $0; bad = 1 }
END { exit bad }' || bad=1
# base: what lies in the folder itself, then number, value and op.
grep -rnE '^[ \t]*#[ \t]*include "base/' src/base | awk -F: '
BEGIN { rank["number"] = 1; rank["value"] = 2; rank["op"] = 3 }
{ n = split($1, from, "/"); split($3, to, /["\/]/)
  a = n == 4 ? rank[from[3]] : 0; b = to[3] in rank ? rank[to[3]] : 0
  if (b > a) { print "upward include: " $0; bad = 1 } }
END { exit bad }' || bad=1
# The CPU's kernels: vector, then operand, then math, then product and reduce, then the other
# families. No family of one floor includes another.
grep -rnE '^[ \t]*#[ \t]*include "backend/cpu/[a-z]+/' src/backend/cpu --include='*.[ch]' --include='*.inc' | awk -F'[/:"]' '
BEGIN { rank["vector"] = 1; rank["operand"] = 2; rank["math"] = 3
        rank["product"] = rank["reduce"] = 4 }
{ from = $4; for (i = 5; i < NF; i++) if ($i == "cpu" && $(i - 1) == "backend") to = $(i + 1)
  a = from in rank ? rank[from] : 5; b = to in rank ? rank[to] : 5
  if ($5 ~ /\.(c|h|inc)$/ && from != to && b >= a) { print "upward or across families: " $0; bad = 1 } }
END { exit bad }' || bad=1
if grep -rnE 'include "backend/(gpu|cuda|opencl|sim)/' src/backend/cpu; then echo "cpu/ includes a GPU driver"; bad=1; fi
if grep -rnE 'include "backend/cpu/' src/backend/gpu src/backend/cuda src/backend/opencl 2>/dev/null; then echo "a GPU driver includes cpu/"; bad=1; fi
# gpu: the protocol in the folder itself and the lowering meet only in the drivers.
if grep -nE 'include "backend/gpu/lower/' src/backend/gpu/*.[ch]; then echo "the protocol of gpu/ includes lower/"; bad=1; fi
if grep -rnE 'include "backend/gpu/(gpu|gpu_internal)\.h"' src/backend/gpu/lower; then echo "lower/ includes the protocol of gpu/ (driver.h alone is shared)"; bad=1; fi
if grep -rnE 'include "api/' src/api/handles | grep -v '"api/handles/'; then echo "api/handles/ includes what is above it"; bad=1; fi
if grep -rnE 'include [<"]mlx/' src --include='*.[ch]' | grep -v '^src/api/'; then echo "only api/ may include <mlx/c/...>"; bad=1; fi
if grep -rnE 'include "runtime/(executor|group|fork|readers)\.h"' src | grep -v '^src/runtime/'; then echo "executor.h, group.h, fork.h and readers.h are for runtime/ only"; bad=1; fi
# Code for tests alone: only where CMakeLists.txt compiles a file twice.
hooked=$(sed -nE 's/^list\(FILTER KEEL_HOOKED_SOURCES INCLUDE REGEX "(.*)"\)$/\1/p' CMakeLists.txt | sed 's/\\\\/\\/g')
[ -n "$hooked" ] || { echo "no list of sources with hooks in CMakeLists.txt"; bad=1; }
if grep -rlE --include='*.c' 'KL_TEST_HOOKS' src | grep -vE "${hooked:-^}|^src/backend/sim/"; then
    echo "KL_TEST_HOOKS in a file that KEEL_HOOKED_SOURCES (CMakeLists.txt) does not name"
    bad=1
fi
# Intrinsics stand only in files that are named after their instruction set; plain C beside them is the reference.
if grep -rnE 'immintrin\.h|\b_mm[0-9]*_[a-z]|\b__m(128|256|512)|\b__mmask|\b_tile_(load|store|stream|dp|zero|release)' src |
    grep -vE '^[^:]*_(avx2|avx512|amx|x86)\.(c|h|inc):'; then
    echo "intrinsics stand only in files *_avx2, *_avx512, *_amx and (several widths) *_x86"
    bad=1
fi
exit $bad
