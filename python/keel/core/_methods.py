"""Methods of array that are made in Python: conversions to other libraries, copies, pickles."""

import copyreg
import functools
import reprlib
import sys

from keel import _core
from keel._core import array

__all__ = ["ArrayLike"]


class _Shape(tuple):
    """The shape of an array in a function that is traced for any shapes. The trace holds where what was
    read of it is the same again: one extent by an index, all by anything else but printing."""

    def __new__(cls, extents, of):
        shape = tuple.__new__(cls, extents)
        shape._of = of
        return shape

    def _read(self, part=slice(None)):
        axes = range(len(self))[part]
        for axis in [axes] if isinstance(axes, int) else axes:
            _core._read_extent(self._of, axis)
        return tuple.__getitem__(self, part)

    __getitem__ = _read

    def __reduce__(self):
        return tuple, (list(self),)


def _reading(name):
    def method(self, *args):
        args = (tuple(a) if isinstance(a, _Shape) else a for a in args)
        return getattr(self._read(), name)(*args)

    return method


for _name in ("__iter__", "__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__", "__hash__", "__add__", "__mul__",
              "__rmul__", "__contains__", "count", "index"):
    setattr(_Shape, _name, _reading(_name))
_Shape.__radd__ = lambda self, other: other + self._read()
_core._set_noting_shape(_Shape)


class ArrayLike:
    def __init__(self, arg, /):
        self._object = arg

    def __mlx_array__(self):
        return array(self._object)


def __array__(self, dtype=None, copy=None):
    import numpy

    source = self
    if self.dtype == _core.bfloat16:  # NumPy has no such dtype
        if copy is False:
            raise ValueError("__array__(): NumPy has no bfloat16, and copy=False forbids to convert")
        source = self.astype(_core.float32)
    view = numpy.asarray(memoryview(source)) if self.size else numpy.zeros(self.shape, source.dtype._name)
    wanted = view.dtype if dtype is None else numpy.dtype(dtype)
    if copy is False and wanted != view.dtype:
        raise ValueError(f"__array__(): {view.dtype} becomes {wanted} only by a copy, and copy=False forbids it")
    return view.astype(wanted, copy=copy is True)


def __array_namespace__(self, api_version=None):
    if api_version is not None:
        raise ValueError(f"__array_namespace__(): api_version is {api_version!r}, but no version can be chosen")
    return sys.modules["keel.core"]


def __bytes__(self):
    return _core._bytes_of(self)


def __complex__(self):
    return complex(self.item())


def __copy__(self):
    return array(self)


def __deepcopy__(self, memo):
    return array(self)


def __div__(self, other):
    return self / other


def __rdiv__(self, other):
    return other / self


def __format__(self, arg, /):
    if arg and self.ndim:
        raise TypeError(f"the format {arg!r} is for an array without axes, but this one has {self.ndim}")
    return str(self) if self.ndim else format(self.item(), arg)  # one element as the number it is


# ---- pickles ----
# Where keel-mlx is in use arrays are mlx.core.array, and their pickles are those of MLX: a state of an
# array of NumPy and the number of the dtype, in which bfloat16 is held as uint16. MLX reads them, and
# they go to and from machines that have MLX. Elsewhere a pickle holds bytes and needs no NumPy. Both
# are read in both cases.
_DTYPES = [
    getattr(_core, name)
    for name in (
        "bool_ uint8 uint16 uint32 uint64 int8 int16 int32 int64 float16 float32 float64 bfloat16 complex64"
    ).split()
]  # in the order of MLX's numbers


def _is_mlx():
    return array.__module__ == "mlx.core"


def __getstate__(self):
    if not _is_mlx():
        return (_core._bytes_of(self), self.shape, self.dtype)
    import numpy

    held = _core.uint16 if self.dtype == _core.bfloat16 else self.dtype
    elements = numpy.frombuffer(_core._bytes_of(self), held._name).reshape(self.shape).copy()
    return (elements, _DTYPES.index(self.dtype))


def __setstate__(self, state, /):
    if len(state) == 2:
        elements, number = state
        if not hasattr(elements, "tobytes") or not isinstance(number, int):
            raise TypeError("the state of an array is (an array of NumPy, the number of its dtype), as in MLX")
        if not 0 <= number < len(_DTYPES):
            raise ValueError(f"the state of an array has the dtype {number}, but must have 0 to {len(_DTYPES) - 1}")
        state = (elements.tobytes(), elements.shape, _DTYPES[number])
    _core._take_value(self, _core._array_of_bytes(*state))


def _unpickled(data, shape, dtype):
    return _core._array_of_bytes(data, shape, dtype)


def __reduce__(self):
    if _is_mlx():
        return copyreg.__newobj__, (type(self),), __getstate__(self)
    return _unpickled, __getstate__(self)


def _method(f):
    """The function as a method of arrays alone, as those of the extension are."""

    @functools.wraps(f)
    def method(self, *args, **kwargs):
        if not isinstance(self, array):
            raise TypeError(f"array.{f.__name__}() is a method of arrays, not of {type(self).__name__}")
        return f(self, *args, **kwargs)

    method.__qualname__ = f"array.{f.__name__}"
    method.__module__ = "keel.core"
    return method


for _f in (
    __array__, __array_namespace__, __bytes__, __complex__, __copy__, __deepcopy__, __div__, __rdiv__, __format__,
    __getstate__, __setstate__, __reduce__,
):  # fmt: skip
    setattr(array, _f.__name__, _method(_f))

if not hasattr(reprlib.Repr, "_lookup"):  # before Python 3.12 it takes every "array" for Python's own
    _repr_of_arrays = reprlib.Repr.repr_array

    def _repr_array(self, x, level):
        return self.repr_instance(x, level) if isinstance(x, array) else _repr_of_arrays(self, x, level)

    reprlib.Repr.repr_array = _repr_array

# NumPy's operators leave what has an array on their right to it; its functions do not.
array.__array_priority__ = 100.0
