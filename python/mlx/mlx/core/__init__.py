"""mlx.core, as keel.core.

MLX's own wheel has an extension module of this name; Python prefers a package, and `mlx` is a
namespace that several distributions may add to. So `mlx.nn`, `mlx.optimizers` and `mlx.utils` stay
MLX's files, and compute with Keel. Uninstalling keel-mlx gives them MLX's core back.
"""

import sys

import mlx._from_mlx  # noqa: F401: says what to install where the files of MLX are missing
from keel import core

for _name in ("cuda", "distributed", "fast", "fft", "linalg", "metal", "random"):
    sys.modules[f"{__name__}.{_name}"] = getattr(core, _name)
# Classes have MLX's names: pickles that MLX reads hold them.
for _class in (core.array, core.Dtype, core.Device, core.Stream, core.ThreadLocalStream, core.DeviceType):
    _class.__module__ = __name__
sys.modules[__name__] = core
