"""Arrays and what is computed with them, under the names and signatures of mlx.core.

Operations are lazy: they are computed when a value is read, by `eval`, `item`, `tolist`, print and
the like. An operation that fails raises where its value is read, and names itself.
"""

import enum as _enum
import math as _math

from keel import _core

_core._check_interpreter()

from keel._core import *  # noqa: E402, F403
from keel._core import Device, Dtype, Stream, ThreadLocalStream, array  # noqa: E402, F401


class DeviceType(_enum.Enum):
    cpu = 0
    gpu = 1

    def __repr__(self):
        return f"DeviceType.{self.name}"

    def __eq__(self, other):
        return other == self if isinstance(other, Device) else self is other

    __hash__ = _enum.Enum.__hash__


_core._take_device_kinds(DeviceType)
cpu, gpu = DeviceType.cpu, DeviceType.gpu
pi, e, inf, nan = _math.pi, _math.e, _math.inf, _math.nan
euler_gamma = 0.5772156649015328606
newaxis = None
__version__ = "0.32.2"  # the version of mlx.core whose names and answers these are

from keel.core._dtypes import *  # noqa: E402, F403
from keel.core._methods import *  # noqa: E402, F403
from keel.core._namespace import *  # noqa: E402, F403
from keel.core._streams import *  # noqa: E402, F403
from keel.core import fast, random  # noqa: E402, F401
from keel.core._transforms import *  # noqa: E402, F403
from keel.core._composed import *  # noqa: E402, F403
from keel.core._einsum import *  # noqa: E402, F403
from keel.core._files import *  # noqa: E402, F403
from keel.core import cuda, distributed, fft, linalg, metal  # noqa: E402, F401

matrix_norm = linalg.norm


def _document():
    """Gives what is made in Python its docstrings, which stand in the type stubs."""
    import sys

    for module, name, text in _core._texts():
        at = sys.modules[__name__ if module == "core" else f"{__name__}.{module}"]
        for part in name.split("."):
            at = getattr(at, part, None)
        made = type(at) is type(_document) or (
            isinstance(at, type) and at.__module__.startswith("keel.core.")
        )
        if made or isinstance(at, _enum.EnumMeta):
            at.__doc__ = text


_document()
del _document
