#!/usr/bin/env bash
# macho.sh LLVM BUILD CPU - what tools/cross/macos.sh built, by LLVM's tools in the folder LLVM: libkeel.dylib shows the public names and
# no other, and is looked for beside the program or on its path of folders; every library, program and module is of CPU, for macOS 13,
# and asks for nothing but libSystem, libkeel and what is in the same build.
set -u
cd "$(dirname "$0")/../.."
llvm=$1 build=$2 cpu=$3
bad=0
wrong() { echo "macho: $*"; bad=1; }

keel=$build/libkeel.0.dylib
[ -f "$keel" ] || { wrong "there is no $keel"; exit 1; }
# What the public headers declare is what the library shows.
declared() { sed 's|//.*||' $(find include -name '*.h') | tr '\n' ' ' | grep -oE '\b_?(mlx|keel)_[a-z0-9_]+ ?\(' | tr -d ' (' | sort -u; }
shown() { "$llvm/llvm-nm" -gU "$1" | awk '{ print $3 }' | sed 's/^_//' | sort -u; }
shown "$keel" | grep -vE '^(mlx|_mlx|keel)_' && wrong "libkeel.dylib shows the names above, which are not public"
lost=$(comm -13 <(declared) <(shown "$keel"))
[ -z "$lost" ] || wrong "no public header declares" $lost
if [ -f build/release/libkeel.so ]; then
    differ=$(diff <(nm -D --defined-only build/release/libkeel.so | awk '{ print $3 }' | sed 's/@.*//' | sort -u) <(shown "$keel"))
    [ -z "$differ" ] || wrong "libkeel.so (<) and libkeel.dylib (>) do not show the same names:" "$differ"
fi

facts() { "$llvm/llvm-otool" -l "$1"; }
name=$(facts "$keel" | awk '/LC_ID_DYLIB/ { on = 1 } on && $1 == "name" { print $2; exit }')
[ "$name" = @rpath/libkeel.0.dylib ] || wrong "libkeel.dylib is called $name, and not @rpath/libkeel.0.dylib"

n=0
while IFS= read -r file; do
    case $(od -An -tx4 -N4 "$file" | tr -d ' ') in feedfacf) ;; *) continue ;; esac
    n=$((n + 1))
    said=$(facts "$file")
    "$llvm/llvm-objdump" --macho --private-header "$file" | grep -qiE "MH_MAGIC_64 +$cpu" || wrong "$file is not for $cpu"
    [ "$(awk '/LC_BUILD_VERSION/ { on = 1 } on && $1 == "minos" { print $2; exit }' <<<"$said")" = 13.0 ] || wrong "$file is not for macOS 13.0"
    while read -r library; do
        case $library in
        /usr/lib/libSystem.B.dylib | @rpath/libkeel.0.dylib | @rpath/libkeel_testing.dylib) ;;
        *) wrong "$file asks for $library" ;;
        esac
    done < <(awk '/LC_(LOAD|LOAD_WEAK|REEXPORT)_DYLIB/ { on = 1 } on && $1 == "name" { print $2; on = 0 }' <<<"$said")
    if grep -q '@rpath' <<<"$(awk '/LC_LOAD_DYLIB/ { on = 1 } on && $1 == "name" { print $2; on = 0 }' <<<"$said")"; then
        grep -q 'path @loader_path' <<<"$said" || wrong "$file does not look for libraries beside itself"
    fi
    # What is looked up at run time without a library: Python's names, for the extension alone.
    loose=$("$llvm/llvm-nm" -u -m "$file" | grep -F 'dynamically looked up' | awk '{ print $(NF - 3) }' | sed 's/^_//')
    case $file in *_core.abi3.so) loose=$(grep -vE '^_?Py' <<<"$loose") ;; esac
    [ -z "$loose" ] || wrong "$file leaves open" $loose
done < <(find "$build" -type f ! -name '*.o' ! -name '*.a' -size +2k ! -path '*/CMakeFiles/*')
[ $n -gt 0 ] || wrong "there is no Mach-O file in $build"
[ $bad -eq 0 ] && echo "$cpu: $n Mach-O files ask for libSystem alone; libkeel.dylib shows $(shown "$keel" | wc -l) public names"
exit $bad
