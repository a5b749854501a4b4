#!/usr/bin/env bash
# Every element-wise function of base/op/op_list.def has golden values, a documented public function and,
# where it is one of MLX, a line in docs/coverage.md; every other operation that has a kernel is named by a test; and what has
# no vjp, no vmap or cannot be built again is named in docs/coverage.md, "Without a rule", and only that.
set -u
cd "$(dirname "$0")/../.."
bad=0
rows=0
missing() {
    echo "op_list.def: $1: no $2"
    bad=1
}
while IFS=, read -r id name builder function _; do
    rows=$((rows + 1))
    grep -q "\.\(unary\|binary\) = $builder," tests/ops/golden/golden_*.inc || missing "$id" "golden values of $builder (tools/make/golden/elementwise.py)"
    grep -qE "KEEL_API int $function\(" include/mlx/c/*.h include/keel/*.h || missing "$id" "declaration of $function"
    [[ $function == keel_* ]] || grep -qE "^\| (${function#mlx_}) \|" docs/coverage.md || missing "$id" "line in docs/coverage.md (tools/make/coverage.py)"
done < <(sed -nE 's/^KL_(UNARY|BINARY)\(([A-Z0-9_]+), *([a-z0-9_]+), *([a-z0-9_]+), *([a-z0-9_]+),.*/\2,\3,\4,\5,/p' src/base/op/op_list.def)
while IFS=, read -r id name; do
    rows=$((rows + 1))
    grep -rqE "KL_OP_$id\b|\bkl_${name}[_(,]" tests --include="*.c" --include="*.h" || missing "$id" "test that names KL_OP_$id or kl_$name"
done < <(sed -nE 's/^KL_OP\(([A-Z0-9_]+), *([a-z0-9_]+),.*/\1,\2/p' src/base/op/op_list.def)
without() { # "name column" for each rule that a row lacks
    awk '{ n = split($0, f, /[(),] */); kind = f[1]; name = f[3] }
         kind == "KL_OP" { if (f[10] == "0" || f[10] == "kl_vjp_refuse") print name, "vjp"
                           if (f[12] == "0") print name, "vmap"
                           if (f[13] == "0") print name, "build" }
         kind != "KL_OP" && f[n - 2] ~ /^kl_no_gradient/ { print name, "vjp" }' \
        < <(grep -E '^KL_(UNARY|BINARY|OP)\(' src/base/op/op_list.def) | sort
}
named() { # the same from the table; its columns: name, vjp, jvp, vmap, build, why
    sed -n '/^## Without a rule/,/^## /p' docs/coverage.md | awk -F' *[|] *' '
        NF > 6 && $2 != "" { if ($3 == "none") print $2, "vjp"
                             if ($5 == "none") print $2, "vmap"
                             if ($6 == "none") print $2, "build" }' | sort
}
while read -r _ name column; do
    missing "$name" "$column; docs/coverage.md, \"Without a rule\", does not say so (tools/make/coverage.py)"
done < <(comm -23 <(without) <(named) | sed 's/^/- /')
while read -r name column; do
    echo "docs/coverage.md: \"Without a rule\" names $name, which has a $column rule"
    bad=1
done < <(comm -13 <(without) <(named))
[ $rows -gt 100 ] || missing "the table" "rows that this script can read"
[ $bad -eq 0 ] && echo "$rows rows have what they need"
exit $bad
