#!/usr/bin/env bash
# tools/check/params.sh [fix] - whether the table of parameters in docs/function-files.md is the one that
# base/op/op_params.def and the column `params` of base/op/op_list.def give; fix: writes it.
set -eu
cd "$(dirname "$0")/../.."
doc=docs/function-files.md
# One line per fact: "form OWNER", then its fields; "op OWNER name".
facts() {
    "${CC:-cc}" -E -P -Isrc -x c - <<'END' | sed 's/@/\n/g' | sed -n 's/ *$//; /^ *[a-z]/ s/^ *//p'
#define PART(owner, at, type, name, doc) @field type: doc
#define KL_PARAMS(owner) @form owner
#define KL_FIELD(owner, type, name, doc) PART(owner, , type, name, doc)
#define KL_FIELDS(owner, FIELDS) FIELDS(PART, owner, )
#define KL_MEMBER(owner, type, name, FIELDS) FIELDS(PART, owner, )
#define KL_END_LIST(owner, type, name, count, most, doc) @list type: doc
#define KL_END_LONG_LIST(owner, type, name, doc) @list type: doc
#define KL_END_ARRAYS(owner, type, first, doc) @list type: doc
#include "base/op/op_params.def"
#define KL_UNARY(ID, name, ...) @op none name
#define KL_BINARY(ID, name, ...) @op none name
#define KL_OP(ID, name, n_in, flags, kernel, lowering, indices, range, vjp, jvp, vmap, build, params) @op params name
#include "base/op/op_list.def"
END
}
table() {
    echo '| operations | fields |'
    echo '|---|---|'
    facts | awk '
        function letter(type) {
            if (type ~ /^enum /) return "i"
            if (type in letters) return letters[type]
            print "params.sh: no letter for the type " type > "/dev/stderr"
            exit 1
        }
        function add(text) { fields[form] = fields[form] (fields[form] == "" ? "" : ", ") text }
        BEGIN { letters["int"] = "i"; letters["int64_t"] = "l"; letters["bool"] = "b"
                letters["float"] = "f"; letters["double"] = "d" }
        $1 == "form" { form = $2; forms[++n] = form }
        $1 == "field" || $1 == "list" {
            type = doc = $0
            sub(/: ".*/, "", type); sub(/^[a-z]+ /, "", type)
            sub(/^[^"]*"/, "", doc); sub(/"$/, "", doc)
            add(($1 == "list" ? "[" letter(type) "]" : letter(type)) " " doc)
        }
        $1 == "op" { ops[$2] = ops[$2] (ops[$2] == "" ? "" : ", ") $3; rows++ }
        END {
            if (n < 10 || rows < 100) { print "params.sh cannot read the tables" > "/dev/stderr"; exit 1 }
            for (i = 1; i <= n; i++) {
                if (ops[forms[i]] == "") { print "op_params.def: no operation has " forms[i] > "/dev/stderr"; exit 1 }
                print "| " ops[forms[i]] " | " fields[forms[i]] " |"
            }
        }'
    echo '| all others | none |'
}
new=$(table)
[ "$(wc -l <<<"$new")" -gt 10 ] || exit 1
page=$(awk -v table="$new" '/^\| operations \| fields \|/ { print table; inside = 1 } inside && !/^\|/ { inside = 0 } !inside' "$doc")
if [ "${1:-}" = fix ]; then
    printf '%s\n' "$page" >"$doc"
elif ! diff "$doc" - <<<"$page"; then
    echo "$doc: the table of parameters is not that of op_params.def; tools/check/params.sh fix writes it"
    exit 1
fi
