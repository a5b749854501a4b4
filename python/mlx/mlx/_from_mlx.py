"""What keel-mlx says where MLX's Python package, which has mlx.nn and the like, is not installed.

Python prefers a folder to a file of the same name: nn.py and optimizers.py of keel-mlx run only where MLX's folders nn/ and
optimizers/ are not beside them. utils.py and extension.py are files of MLX, which keel-mlx must not bring: a finder that is asked
last speaks for them, from the first import of mlx.core on.
"""

import importlib.machinery
import importlib.util
import os
import sys

import mlx


def _say(name):
    # The name is not that of the module: `from mlx import nn` takes such an error for an attribute that is missing.
    raise ModuleNotFoundError(
        f"{name} is a part of MLX's Python package, which is not installed; keel-mlx brings mlx.core alone. "
        "Install it without what it depends on: pip install --no-deps mlx==0.32.2",
        name="mlx",
    )


def take(name):
    """Puts MLX's module of this name, from another folder of the namespace, in place of ours; raises where there is none."""
    here = os.path.dirname(os.path.abspath(__file__))
    others = [path for path in mlx.__path__ if os.path.abspath(path) != here]
    spec = importlib.machinery.PathFinder.find_spec(name, others)
    if spec is None or spec.loader is None:
        _say(name)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)


class _Missing:
    """Finds the files of MLX that no other finder has found, and says that they are missing when they are imported."""

    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return importlib.machinery.ModuleSpec(name, cls) if name in ("mlx.utils", "mlx.extension") else None

    @staticmethod
    def create_module(spec):
        return None

    @staticmethod
    def exec_module(module):
        _say(module.__name__)


if _Missing not in sys.meta_path:
    sys.meta_path.append(_Missing)
