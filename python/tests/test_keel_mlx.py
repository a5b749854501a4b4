"""keel-mlx beside MLX's Python package, in the same folder or in another, and without it."""

import os
import pathlib
import shutil
import subprocess
import sys

import pytest

KEEL_MLX = pathlib.Path(__file__).parents[1] / "mlx"
# What MLX's package has: folders and files. These stand for them, and compute with the core that they get.
FILES = {
    "nn/__init__.py": "import mlx.core as mx\nwhose = mx.__name__",
    "nn/layers.py": "deep = True",
    "optimizers/__init__.py": "whose = 'mlx'",
    "utils.py": "whose = 'mlx'",
}


def run(path, script):
    """Runs a script with these folders on the path, in front of the packages of the tests."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, path))}
    return subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True)


@pytest.fixture
def folders(tmp_path):
    """keel-mlx as it is installed, and a stand-in for MLX, each in a folder of its own."""
    keel_mlx, of_mlx = tmp_path / "keel-mlx", tmp_path / "mlx"
    shutil.copytree(KEEL_MLX / "mlx", keel_mlx / "mlx")
    write_mlx(of_mlx)
    return keel_mlx, of_mlx


def write_mlx(folder):
    for name, text in FILES.items():
        file = folder / "mlx" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


@pytest.mark.parametrize("script", [
    "import mlx.nn",
    "import mlx.nn as nn",
    "from mlx import nn",
    "import mlx.nn.layers",
    "import mlx.optimizers",
    "import mlx.core as mx; import mlx.nn",
    "import mlx.core; import mlx.utils",
    "import mlx.core; from mlx.utils import tree_map",
    "import mlx.core; import mlx.extension",
])  # fmt: skip
def test_without_mlx_it_says_what_to_install(script, folders):
    said = run(folders[:1], script)
    assert said.returncode == 1
    last = said.stderr.splitlines()[-1]
    assert last.startswith("ModuleNotFoundError: mlx.") and "pip install --no-deps mlx==0.32.2" in last


def test_without_mlx_other_names_are_missing_as_usual(folders):
    said = run(folders[:1], "import mlx.core; import mlx.nonsense")
    assert said.stderr.splitlines()[-1] == "ModuleNotFoundError: No module named 'mlx.nonsense'"


USES = """
import sys
import mlx.nn as nn, mlx.optimizers, mlx.utils
import mlx.nn.layers, mlx.core
assert nn.whose == "keel.core", nn.whose
assert mlx.optimizers.whose == mlx.utils.whose == "mlx" and mlx.nn.layers.deep
assert sys.modules["mlx.nn"] is mlx.nn is nn and nn.__spec__.name == "mlx.nn" and nn.__file__.endswith("nn/__init__.py")
"""


@pytest.mark.parametrize("order", ["keel-mlx first", "mlx first", "one folder"])
def test_beside_mlx_its_files_are_used(order, folders):
    keel_mlx, of_mlx = folders
    if order == "one folder":
        write_mlx(keel_mlx)
    path = {"keel-mlx first": folders, "mlx first": (of_mlx, keel_mlx), "one folder": (keel_mlx,)}[order]
    said = run(path, USES)
    assert (said.returncode, said.stderr) == (0, "")


def test_an_error_inside_of_mlx_comes_as_it_is(folders):
    keel_mlx, of_mlx = folders
    (of_mlx / "mlx" / "nn" / "__init__.py").write_text("import something_else")
    said = run(folders, "import mlx.nn")
    assert said.stderr.splitlines()[-1] == "ModuleNotFoundError: No module named 'something_else'"
