#!/usr/bin/env bash
# tools/device-bundle.sh - makes bundle/: what is needed to run Keel's tests, benchmarks and examples on another Linux machine with a GPU and
# nothing installed. There: bundle/run.sh NAME [args]; bundle/run.sh alone lists the names. The driver and NVRTC are that machine's.
set -eu
cd "$(dirname "$0")/.."
limit_kib=$((40 * 1024))
build=build/release
tools/build.sh release all benchmarks

rm -rf bundle
mkdir -p bundle/bin bundle/lib

# Programs: all of them, since other machines have other processors too, whose kernels run on no other machine of the project.
for f in "$build"/tests/test_* "$build"/bench/bench_* "$build"/examples/*; do
    [ -f "$f" ] && [ -x "$f" ] || continue
    strip -o "bundle/bin/$(basename "$f")" "$f"
done
if [ -d "$build/tests/fake" ]; then cp -r "$build/tests/fake" bundle/bin/fake; fi

# Libraries: ours, and what the programs and libzip (loaded at run time) need beyond the C library.
strip --strip-unneeded -o bundle/lib/libkeel.so.0 "$build/libkeel.so.0"
strip --strip-unneeded -o bundle/lib/libkeel_testing.so "$build/libkeel_testing.so"
libzip=$(ldconfig -p | awk '/libzip\.so\.[45] .*=>/ { print $NF; exit }')
{
    [ -z "$libzip" ] || echo "$libzip"
    for f in bundle/bin/* $libzip; do
        [ ! -f "$f" ] || ldd "$f"
    done | awk '$2 == "=>" && $3 ~ /^\// { print $3 }'
} | sort -u | while read -r f; do
    case $(basename "$f") in
    libc.so.* | libm.so.* | libdl.so.* | libpthread.so.* | librt.so.* | ld-linux* | libkeel.so.* | libkeel_testing.so) continue ;;
    esac
    cp -L "$f" "bundle/lib/$(basename "$f")"
done

# Data that tests and examples open by paths relative to the repository.
find tests examples bench -type d -name data | while read -r d; do
    mkdir -p "bundle/$d"
    cp -r "$d/." "bundle/$d/"
done

cat >bundle/run.sh <<'EOF'
#!/bin/sh
# bundle/run.sh NAME [args] - runs one program of the bundle; without arguments it lists them.
cd "$(dirname "$0")" || exit 1
if [ $# -eq 0 ]; then ls bin; exit 0; fi
name=$1
shift
if [ ! -x "bin/$name" ] || [ ! -f "bin/$name" ]; then echo "run.sh: there is no $name; see bundle/run.sh alone" >&2; exit 1; fi
# The programs find the libraries in lib/ by themselves; what those load at run time they do not.
LD_LIBRARY_PATH="$PWD/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
export LD_LIBRARY_PATH
# The examples look for their data where they were built.
export KEEL_EXAMPLES_DATA=examples/data
if [ "$name" = digits ] && [ $# -lt 2 ]; then set -- "${1:-gpu}" examples/data/digits.safetensors; fi
exec "bin/$name" "$@"
EOF
chmod +x bundle/run.sh

kib=$(du -sk bundle | cut -f1)
echo "bundle/: $((kib / 1024)) MiB, $(find bundle/bin -maxdepth 1 -type f | wc -l) programs"
if [ "$kib" -gt "$limit_kib" ]; then
    echo "bundle/ is larger than $((limit_kib / 1024)) MiB" >&2
    exit 1
fi
