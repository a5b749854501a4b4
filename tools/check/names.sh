#!/usr/bin/env bash
# Every function of the library can be found by searching for its full name: the name stands where the
# function is written, or in a comment `/* defines a, b */` directly above the macro call or the #include
# that makes it. Also fails where such a comment names what is not made there.
# The functions are those of the preprocessed sources, for each instruction set that has code of its own.
set -eu
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# Empty system headers: what they define is not ours, and without them this takes two seconds.
grep -rhoE '#[ ]*include <[^>]+>' src include | sed 's/.*<//; s/>//' | sort -u | while read -r header; do
    [ -e "include/$header" ] && continue
    mkdir -p "$work/system/$(dirname "$header")"
    : >"$work/system/$header"
done
cmake -DOUT="$work/made" -DDIR=src/backend/gpu/kernels -P cmake/embed.cmake # kernels.h
preprocess() { # preprocess FLAGS...: the files that standard input names
    xargs "${CC:-cc}" -E -nostdinc -isystem "$work/system" -Iinclude -Isrc -I"$work/made" "$@"
}
find src -name '*.c' | sort | preprocess -DKL_TEST_HOOKS=1 -DKL_DEBUG=1 -DKL_SELF_CHECKS=1 >"$work/base.i" &
has_all=0 # whether all comments were met: some stand beside code for x86-64 alone
case $(uname -m) in
x86_64)
    has_all=1
    find src/backend/cpu -name '*.c' | preprocess -march=x86-64-v3 >"$work/v3.i"
    find src/backend/cpu -name '*.c' | preprocess -march=x86-64-v4 -mamx-tile -mamx-bf16 -mavx512bf16 >"$work/v4.i"
    ;;
esac
wait $!
cat "$work"/*.i | awk -v has_all="$has_all" '
# The lines of a file of ours, and which comment ends directly above a line.
function load(file,    n, text, names, from) {
    if (file in lines) return
    n = 0
    while ((getline text < file) > 0) {
        source[file, ++n] = text
        if (text ~ /^ *\/\* defines /) { names = ""; from = n }
        if (from) {
            names = names " " text
            if (text ~ /\*\//) {
                above[file, n + 1] = words(names)
                place[file, n + 1] = from
                from = 0
            }
        }
    }
    close(file)
    lines[file] = n
}
function words(text) { # " a b " for what separates words
    gsub(/[^A-Za-z0-9_]+/, " ", text)
    return " " text " "
}
# Whether a comment above the line, or above the first line of what is written there, names it.
function commented(file, line, name) {
    load(file)
    if (!((file, line) in above) || index(above[file, line], " " name " ") == 0) return 0
    told[file, line, name] = 1
    return 1
}
# Whether the definition from line `from` on, to the end of its parameters, names it.
function written(file, from, to, name,    i, depth, text, open) {
    load(file)
    for (i = from; i <= lines[file]; i++) {
        text = source[file, i]
        if (index(words(text), " " name " ")) return 1
        depth += gsub(/\(/, "(", text) - gsub(/\)/, ")", text)
        if (i >= to && depth <= 0) return 0
    }
    return 0
}
function check(name,    i, ok) {
    if ((name, stack_key()) in seen) return
    seen[name, stack_key()] = 1
    if (!(name in known)) { known[name] = 1; functions++ }
    ok = written(file, start, line, name)
    if (commented(file, start, name)) ok = 1
    for (i = depth_of_files; i > 1; i--) if (commented(in_file[i - 1], in_line[i - 1], name)) ok = 1
    if (!ok) {
        for (i = depth_of_files; i > 1 && in_file[i] ~ /\.inc$/; i--) continue
        print (i < depth_of_files ? in_file[i] ":" in_line[i] : file ":" start) ": " name ": write its name here, or in a comment /* defines " name " */ directly above"
        bad = 1
    }
}
function stack_key(    i, key) {
    key = file ":" start
    for (i = depth_of_files; i > 1 && in_file[i] ~ /\.inc$/; i--) key = key " " in_file[i - 1] ":" in_line[i - 1]
    return key
}
# The name that a text before a "{" defines as a function, or "".
function defined(text,    before) {
    while (match(text, /__attribute__ *\(\(([^()]|\([^()]*\))*\)\)|_Alignas *\([^()]*\)/)) text = substr(text, 1, RSTART - 1) " " substr(text, RSTART + RLENGTH)
    if (text !~ /\) *$/ || text ~ /=/ || !match(text, /[A-Za-z_][A-Za-z0-9_]* *\(/)) return ""
    text = substr(text, RSTART, RLENGTH)
    sub(/ *\($/, "", text)
    return text
}
/^# [0-9]+ "/ {
    name = $3
    gsub(/"/, "", name)
    if ($4 == 1) { in_line[depth_of_files] = line + 1; depth_of_files++ }
    else if ($4 == 2) depth_of_files--
    else if (name ~ /^src.*\.c$/ && name != in_file[1]) { depth_of_files = 1; depth = 0; pending = "" }
    if (depth_of_files < 1) depth_of_files = 1
    in_file[depth_of_files] = file = name
    line = $2 - 1
    next
}
{
    line++
    if ($0 == "" || file ~ /^</ || /^#/) next
    text = $0
    if (text ~ /["\047]/) {
        gsub(/\\./, "", text)
        gsub(/"[^"]*"/, "0", text)
        gsub(/\047[^\047]*\047/, "0", text)
    }
    if (depth && text !~ /[{}]/) next
    while (match(text, /[{};]/)) {
        mark = substr(text, RSTART, 1)
        head = substr(text, 1, RSTART - 1)
        text = substr(text, RSTART + 1)
        if (!depth) {
            if (pending !~ /[^ ]/) { pending = ""; start = line }
            pending = pending " " head
            if (mark == "{" && (name = defined(pending)) != "") check(name)
            pending = ""
        }
        if (mark == "{") depth++
        if (mark == "}") depth--
    }
    if (!depth && text ~ /[^ ]/) {
        if (pending == "") start = line
        pending = pending " " text
    }
}
END {
    for (key in above) if (has_all) {
        split(key, at, SUBSEP)
        n = split(above[key], word, " ")
        for (i = 2; i <= n; i++) if (!((at[1], at[2], word[i]) in told)) {
            print at[1] ":" place[key] ": the comment names " word[i] ", which is not defined there"
            bad = 1
        }
    }
    if (functions < 1000) { print "only " functions " functions were found"; bad = 1 }
    if (!bad) print functions " functions can be found by their names"
    exit bad
}'
