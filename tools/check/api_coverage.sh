#!/bin/sh
# api_coverage.sh [libkeel.so] - how much of the MLX C API is there, and whether it is the API.
#
# Prints per header how many functions of tools/check/api_table.tsv are declared (include/mlx/c), exported
# (by the library) and tested (named in a C file of tests/ or examples/). Fails when a function is
# declared and not exported, exported or declared and not in the table, declared in another header
# than the table's, or declared with other types: the table's prototypes are compiled behind the
# header, and conflicting types do not compile. Needs sh, awk, nm and a C compiler.
set -eu
cd "$(dirname "$0")/../.."
lib=${1:-build/libkeel.so}
table=tools/check/api_table.tsv
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
[ -e "$lib" ] || { echo "api_coverage: no $lib; build it first"; exit 2; }

# declared: "header name" of every prototype with KEEL_API, comments and line breaks removed
for path in include/mlx/c/*.h; do
    awk -v header="$(basename "$path")" '
    { text = text " " $0 }
    END {
        while (match(text, /\/\*/)) {
            rest = substr(text, RSTART + 2)
            end = index(rest, "*/")
            text = substr(text, 1, RSTART - 1) " " substr(rest, end + 2)
        }
        n = split(text, part, /KEEL_API/)
        for (i = 2; i <= n; i++)
            if (match(part[i], /_?mlx_[a-z0-9_]+[ ]*\(/)) {
                name = substr(part[i], RSTART, RLENGTH)
                sub(/[ ]*\($/, "", name)
                print header, name
            }
    }' "$path"
done >"$tmp/declared"
nm -D --defined-only "$lib" |
    awk '$2 == "T" { sub(/@.*/, "", $3); if ($3 ~ /^_?mlx_/) print $3 }' >"$tmp/exported"
find tests examples -name '*.c' -exec cat {} + | tr -cs 'A-Za-z0-9_' '\n' | sort -u >"$tmp/tested"

bad=0
awk -F'\t' -v tmp="$tmp" '
FILENAME == tmp "/declared" { split($0, f, " "); declared[f[2]] = f[1]; next }
FILENAME == tmp "/exported" { exported[$1] = 1; next }
FILENAME == tmp "/tested" { tested[$1] = 1; next }
/^#/ { next }
{
    known[$2] = $1
    if (!($1 in n)) order[++n_headers] = $1
    n[$1]++
    if ($2 in declared) n_declared[$1]++
    if ($2 in exported) n_exported[$1]++
    if (($2 in declared) && ($2 in tested)) n_tested[$1]++
    if (($2 in declared) && !($2 in tested)) untested = untested "\n  " $2
}
END {
    printf "%-22s %9s %9s %9s %9s\n", "header", "functions", "declared", "exported", "tested"
    for (i = 1; i <= n_headers; i++) {
        h = order[i]
        printf "%-22s %9d %9d %9d %9d\n", h, n[h], n_declared[h], n_exported[h], n_tested[h]
        a += n[h]; d += n_declared[h]; e += n_exported[h]; t += n_tested[h]
    }
    printf "%-22s %9d %9d %9d %9d\n", "total", a, d, e, t
    if (untested != "") print "declared and not tested:" untested
    for (name in declared) {
        if (!(name in known)) { print "not in the API: " name " (" declared[name] ")"; bad = 1 }
        else if (known[name] != declared[name]) {
            print "wrong header: " name " is in " declared[name] ", not in " known[name]
            bad = 1
        }
        if (!(name in exported)) { print "declared and not exported: " name; bad = 1 }
    }
    for (name in exported)
        if (!(name in declared)) { print "exported and not declared: " name; bad = 1 }
    exit bad
}' "$tmp/declared" "$tmp/exported" "$tmp/tested" "$table" || bad=1

# the types: one file per header, the header first, then what the table says
for path in include/mlx/c/*.h; do
    header=$(basename "$path")
    awk -F'\t' -v header="$header" -v tmp="$tmp" '
    FILENAME == tmp "/declared" { split($0, f, " "); declared[f[2]] = 1; next }
    FNR == 1 { print "#include <mlx/c/" header ">" }
    $1 == header && ($2 in declared) {
        gsub(/\[may be null\]/, "", $4)
        print $3 " " $2 "(" $4 ");"
    }' "$tmp/declared" "$table" >"$tmp/types.c"
    if ! ${CC:-cc} -std=c11 -Wall -Werror -fsyntax-only -Iinclude "$tmp/types.c" 2>"$tmp/log"; then
        echo "types differ from the table: $header"
        grep -E 'error|note' "$tmp/log" || cat "$tmp/log"
        bad=1
    fi
done
exit $bad
