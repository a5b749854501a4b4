#!/usr/bin/env bash
# Tests of packages that others wrote for MLX, on MLX and on Keel: tools/peers/python_packages.sh [SOURCES [PACKAGE...]], by hand, an hour.
# A package is taken from SOURCES/PACKAGE where that is a checkout of it (some publish no tests), else from what it publishes.
# Prints a table; indices out of range, which are errors here, are counted apart. Fails for another test that passes on MLX
# and fails on Keel, if docs/python.md ("Packages") does not explain it by its name.
set -eu
cd "$(dirname "$0")/../.."
root=$PWD
sources=${1:+$(cd "$1" && pwd)}
shift $(($# > 0 ? 1 : 0))
[ $# -gt 0 ] || set -- mlx-vlm mlx-audio mlx-spectro mlx-expm mlx-atomistic mlx-embeddings mlx-graphs mlx-snn mlx-stump mlx-transformers vllm-mlx e3nn-mlx demucs-mlx
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

# The tests of a package, on what stands on the path: their results go to a file. A test that ends the process is not run again.
tests() { # NAME PATH RESULTS
    rm -f "$3" "$3.txt"
    for _ in $(seq 40); do
        (cd "$work/$1" && KEEL_RESULTS=$3 PYTHONPATH=$2${2:+:}$work/$1:$work/$1/src:$work/mlx-audio:$work/mlx-vlm:$work/mlx-embeddings:$work/plugin \
            timeout 1500 "$venv/bin/python" -m pytest -q -p python_results -p no:cacheprovider --timeout 60 \
            --continue-on-collection-errors . >>"$3.txt" 2>&1) || true
        ! grep -q '"end"' "$3" 2>/dev/null || return 0
    done
}

mkdir -p "$work/plugin"
cp tools/peers/python_results.py "$work/plugin" # on a path of its own: tools has names that packages import
for name in "$@"; do
    unpack "$name" || echo "$name: what it publishes has no sources, and no checkout is given"
done
status=0
echo "| package | pass on MLX | of them on Keel | index out of range | pass on Keel alone |"
echo "|---|---|---|---|---|"
for name in "$@"; do
    [ -n "$(find "$work/$name" -name 'test*.py' -print -quit)" ] || { echo "| $name | no tests are published | | | |"; continue; }
    tests "$name" '' "$work/$name-mlx.results"
    tests "$name" "$root/build/python/keel-mlx" "$work/$name-keel.results"
    $venv/bin/python - "$name" "$work/$name-mlx.results" "$work/$name-keel.results" docs/python.md <<'EOF' || status=1
import sys

sys.path.insert(0, "tools/peers")
from python_results import results

name, text = sys.argv[1], open(sys.argv[4]).read()
mlx, keel = results(sys.argv[2]), results(sys.argv[3])
passed = {t for t, (result, _) in mlx.items() if result == "passed"}
alone = sum(result == "passed" and t not in passed for t, (result, _) in keel.items())
lost = {t: keel.get(t, ("missing", ""))[1] for t in sorted(passed) if keel.get(t, ("missing", ""))[0] != "passed"}
outside = [t for t, why in lost.items() if "is out of range for axis" in why]
print(f"| {name} | {len(passed)} | {len(passed) - len(lost)} | {len(outside)} | {alone} |", flush=True)
rest = [t for t in lost if t not in outside and f"`{t.split('::')[-1].split('[')[0]}`" not in text]
for t in rest:
    print(f"  passes on MLX, fails on Keel: {t}: {lost[t][:300]!r}", file=sys.stderr)
for which, them in (("MLX", mlx), ("Keel", keel)):
    for t in [t for t, (result, _) in them.items() if result == "started"]:
        print(f"  ended the process on {which}: {t}", file=sys.stderr)
sys.exit(bool(rest) or "started" in [result for result, _ in keel.values()])
EOF
done
exit $status
