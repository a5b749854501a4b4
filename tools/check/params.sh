#!/usr/bin/env bash
# tools/check/params.sh [print] - whether every structure of base/op/op_params.def has a form in files of
# functions and belongs to an operation, and whether docs/function-files.md, which explains the forms, gives
# as examples what the tables say. print: the table of all operations, each with its fields.
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
all=$(table) || exit 1
[ "${1:-}" != print ] || { printf '%s\n' "$all"; exit; }
bad=0
examples=$(awk '/^\| operations \| fields \|/ { inside = 1 } inside && !/^\|/ { exit } inside' "$doc")
[ "$(wc -l <<<"$examples")" -gt 2 ] || { echo "$doc: there is no example of parameters"; bad=1; }
while read -r row; do
    grep -qxF -- "$row" <<<"$all" || { echo "$doc: not in the table that params.sh prints: $row"; bad=1; }
done <<<"$examples"
[ $bad -eq 0 ] && echo "$(grep -c '^| [a-z]' <<<"$all") rows of parameters have a form"
exit $bad
