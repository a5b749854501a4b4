#!/usr/bin/env bash
# Every element-wise function of base/op_list.def has golden values, a documented public function and
# a line in docs/coverage.md; every other operation that has a kernel is named by a test.
set -u
cd "$(dirname "$0")/.."
bad=0
rows=0
missing() {
    echo "op_list.def: $1: no $2"
    bad=1
}
while IFS=, read -r id name builder function _; do
    rows=$((rows + 1))
    grep -q "\.\(unary\|binary\) = $builder," tests/ops/golden/golden_*.inc || missing "$id" "golden values of $builder (tools/golden_ops.py)"
    grep -qE "KEEL_API int $function\(" include/mlx/c/*.h include/keel/*.h || missing "$id" "declaration of $function"
    grep -qE "^\| (${function#mlx_}) \|" docs/coverage.md || missing "$id" "line in docs/coverage.md (tools/coverage.py)"
done < <(sed -nE 's/^KL_(UNARY|BINARY)\(([A-Z0-9_]+), *([a-z0-9_]+), *([a-z0-9_]+), *([a-z0-9_]+),.*/\2,\3,\4,\5,/p' src/base/op_list.def)
while IFS=, read -r id name; do
    rows=$((rows + 1))
    grep -rqE "KL_OP_$id\b|\bkl_${name}[_(,]" tests --include="*.c" --include="*.h" || missing "$id" "test that names KL_OP_$id or kl_$name"
done < <(sed -nE 's/^KL_OP\(([A-Z0-9_]+), *([a-z0-9_]+),.*/\1,\2/p' src/base/op_list.def)
[ $rows -gt 100 ] || missing "the table" "rows that this script can read"
[ $bad -eq 0 ] && echo "$rows rows have what they need"
exit $bad
