#!/usr/bin/env bash
# tools/check/words.sh - idioms that a reader from another country does not understand at first
# reading, in src, include and python/src. Prints file:line of each. Without exceptions:
#   "behind", "beside(s)"   also in names: say after, next to, compared with, in addition
#   "so many", "so much"    name the constant or the count
#   "What ...", "Those ..." at the start of a sentence, or "those" at the start of a comment: name
#                           the thing. ("what" and "those" that refer to a noun of the same sentence
#                           are plain English.)
set -u
cd "$(dirname "$0")/../.."
idioms='[Bb][Ee][Hh][Ii][Nn][Dd]|[Bb][Ee][Ss][Ii][Dd][Ee]|\b[Ss]o (many|much)\b'
nameless='(/\*+|^ *\*|[.:!?]) +(What|Those)\b|/\*+ +those\b'
if grep -rnE --include='*.[ch]' --include='*.inc' --include='*.def' --include='*.kl' \
    "$idioms|$nameless" src include python/src; then
    echo "say it plainly (tools/check/words.sh tells how)"
    exit 1
fi
