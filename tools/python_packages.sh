#!/usr/bin/env bash
# Tests of packages that others wrote for MLX, on MLX and on Keel: tools/python_packages.sh [SOURCES [PACKAGE...]], by hand, half an hour.
# A package is taken from SOURCES/PACKAGE where that is a checkout of it (some publish no tests), else from what it publishes.
# Prints a table, and fails for a test that passes on MLX, fails on Keel, and is not in docs/python.md ("Packages").
set -eu
cd "$(dirname "$0")/.."
root=$PWD
sources=${1:+$(cd "$1" && pwd)}
shift $(($# > 0 ? 1 : 0))
[ $# -gt 0 ] || set -- mlx-vlm mlx-audio mlx-embeddings mlx-graphs mlx-snn mlx-stump mlx-transformers vllm-mlx e3nn-mlx demucs-mlx
work=$root/build/python/packages-work venv=$root/build/python/packages
export PIP_DISABLE_PIP_VERSION_CHECK=1 PYTHONDONTWRITEBYTECODE=1 HF_HUB_OFFLINE=1 TOKENIZERS_PARALLELISM=false

# One environment with what they need; MLX is the version of docs/differences.md, whatever they ask for.
[ -x $venv/bin/python ] || python3 -m venv $venv
$venv/bin/pip install -q 'mlx[cpu]==0.32.2' mlx-lm pytest pytest-timeout pytest-asyncio numpy scipy transformers 'huggingface_hub>=1' \
    sentencepiece miniaudio sounddevice tqdm jinja2 datasets Pillow requests llguidance opencv-python-headless fastapi python-multipart \
    starlette uvicorn websockets cryptography safetensors pyyaml tabulate psutil prometheus-client mcp jsonschema lm-format-enforcer \
    pytz packaging httpx fsspec sympy networkx
for package in mlx-spectro mlx-audio-io; do # the second needs the development files of FFmpeg
    $venv/bin/pip install -q --no-deps $package 2>/dev/null || echo "$package cannot be installed: tests of demucs-mlx need it"
done
cmake --preset release >/dev/null
cmake --build build/release --target keel >/dev/null
$venv/bin/pip install -q --no-deps --force-reinstall -C cmake.define.KEEL_PREBUILT="$root/build/release" ./python
$venv/bin/pip install -q --no-deps --upgrade --target build/python/keel-mlx ./python/mlx

# The folder of a package's sources in $work.
unpack() {
    local name=$1 folder=$work/$1
    rm -rf "$folder"
    mkdir -p "$folder"
    if [ -n "$sources" ] && [ -d "$sources/$name" ]; then
        cp -r "$sources/$name/." "$folder"
    elif $venv/bin/pip download -q --no-deps --no-binary :all: -d "$work/archives" "$name" 2>"$folder.log"; then
        tar xzf "$(ls -t "$work"/archives/"${name//-/_}"-*.tar.gz | head -n 1)" -C "$folder" --strip-components 1
    else
        return 1
    fi
}

# The tests of a package, on what stands on the path: their results go to a file.
tests() { # NAME PATH RESULTS
    (cd "$work/$1" && PYTHONPATH=$2${2:+:}$work/$1:$work/$1/src:$work/mlx-audio:$work/mlx-vlm:$work/mlx-embeddings \
        timeout 1500 "$venv/bin/python" -m pytest -q -p no:cacheprovider --timeout 60 --continue-on-collection-errors \
        --junitxml "$3" . >"$3.txt" 2>&1) || true
}

mkdir -p "$work"
for name in "$@"; do
    unpack "$name" || echo "$name: what it publishes has no sources, and no checkout is given"
done
status=0
echo "| package | tests that pass on MLX | of them on Keel | on Keel alone |"
echo "|---|---|---|---|"
for name in "$@"; do
    [ -n "$(find "$work/$name" -name 'test*.py' -print -quit)" ] || { echo "| $name | no tests are published | | |"; continue; }
    tests "$name" '' "$work/$name-mlx.xml"
    tests "$name" "$root/build/python/keel-mlx" "$work/$name-keel.xml"
    $venv/bin/python - "$name" "$work/$name-mlx.xml" "$work/$name-keel.xml" docs/python.md <<'EOF' || status=1
import sys, xml.etree.ElementTree as xml

def passed(path):
    cases = xml.parse(path).iter("testcase")
    return {(c.get("classname"), c.get("name")) for c in cases if not any(e.tag in ("failure", "error", "skipped") for e in c)}

name, mlx, keel, text = sys.argv[1], passed(sys.argv[2]), passed(sys.argv[3]), open(sys.argv[4]).read()
print(f"| {name} | {len(mlx)} | {len(mlx & keel)} | {len(keel - mlx)} |")
lost = [f"{c}::{t}" for c, t in sorted(mlx - keel) if f"`{t.split('[')[0]}`" not in text]
for test in lost:
    print(f"  passes on MLX, fails on Keel: {test}", file=sys.stderr)
sys.exit(bool(lost))
EOF
done
exit $status
