#!/usr/bin/env bash
# MLX's own Python tests on Keel: tools/peers/mlx_tests.sh SOURCES [tests...], where SOURCES is a checkout of MLX of which
# python/ is read. Its mlx.nn and its other Python code run on keel.core through keel-mlx. By hand, about a minute.
# Prints the counts, and fails for a test that fails and that docs/differences.md does not explain ("MLX's own tests").
set -eu
cd "$(dirname "$0")/../.."
root=$PWD
sources=$(cd "${1:?the folder of MLX\'s sources}" && pwd)
shift
venv=build/python/mlx-tests
[ -x $venv/bin/python ] || python3 -m venv $venv
$venv/bin/pip install -q pytest numpy
cmake --preset release >/dev/null
cmake --build build/release --target keel >/dev/null
$venv/bin/pip install -q --no-deps --force-reinstall -C cmake.define.KEEL_PREBUILT="$root/build/release" ./python
$venv/bin/pip install -q --no-deps --upgrade --target build/python/keel-mlx ./python/mlx
out=$root/build/python/mlx-tests.txt
# A test that fails may leave compile switched off, and those after it fail for that alone.
cat >build/python/each_on_its_own.py <<'EOF'
def pytest_runtest_setup(item):
    import mlx.core
    mlx.core.enable_compile()
EOF
(cd "$sources/python/tests" && PYTHONPATH=$root/build/python:$root/build/python/keel-mlx:$sources/python "$root/$venv/bin/python" -m pytest \
    -q -p no:cacheprovider -p each_on_its_own "${@:-.}" >"$out" 2>&1) || true
tail -1 "$out"
unexplained=0
for test in $(grep -o '^\(FAILED\|ERROR\) [^ ]*' "$out" | cut -d' ' -f2 | sort -u); do
    name=${test##*::}
    grep -q "\`$name\`" docs/differences.md && continue
    echo "fails, and is not explained: $test"
    unexplained=$((unexplained + 1))
done
echo "$unexplained tests fail that docs/differences.md does not explain"
[ $unexplained = 0 ]
