#!/usr/bin/env bash
# families.sh [FAMILY] - whether every file of an operation begins with the name of its family, the
# same name in every folder: so `ls src/*/*/<family>*` finds all of it. With FAMILY: its files.
set -u
cd "$(dirname "$0")/../.."
families='create convert shape slice join index elementwise reduce scan sort softmax norm rope product quantized convolution attention random linalg fft kernel train distributed'
# What stands beside the families in their folders and serves all of them.
shared='^(src/api/ops/api_ops|src/ops/(ops|build)|src/backend/cpu/(vector|operand|math|along|cpu_backend|cpu_kernels|cpu_variant)'
shared+='|src/backend/gpu/lower/(axes|compiled|compiling|emit|families|fused|fused_source|guards|kernel_cache|lower|lowering|merge|side_by_side|sorts|space|submit)'
shared+='|src/backend/gpu/kernels/(prelude|prelude_cuda|prelude_metal|prelude_opencl|math|guards)'
shared+='|tests/backend/cpu/(math|operand|along|cpu_kernels|kernel_support)|tests/backend/gpu/lower/(compiling|fake_driver|generated_names|kernel_cache|kernel_host|lower_support|no_memory|side_by_side))$'
list() {
    # path, and the name that must begin with a family's
    find src/api/ops src/ops src/backend/cpu src/backend/gpu/lower src/backend/gpu/kernels tests/api/ops tests/ops/families tests/backend/cpu tests/backend/gpu/lower \
        -mindepth 1 -maxdepth 1 | sed -E 's|^(.*)/(test_)?([^/.]*)(\.[a-z]*)?$|& \1/\3|'
    find python/src -name 'functions_*.c' | sed -E 's|^(.*)/functions_([^/.]*)\.c$|& \1/\2|'
}
bad=0
while read -r path stem; do
    [[ $stem =~ $shared ]] && continue
    name=${stem##*/}
    family=${name%%_*}
    if [[ " $families " != *" $family "* ]]; then
        echo "$path: '$family' is no family of operations ($families), and tools/check/families.sh does not name it among what all share"
        bad=1
    elif [ "${1:-}" = "$family" ]; then
        echo "$path"
    fi
done < <(list | sort)
exit $bad
