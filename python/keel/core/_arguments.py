"""Checks of arguments for functions that are made in Python; those of the extension check their own."""

from keel._core import Dtype, array


def _wrong(function, name, x, wanted):
    return TypeError(f"{function}(): argument '{name}' is a {type(x).__name__}, but must be {wanted}")


def need_arrays(function, **arguments):
    for name, x in arguments.items():
        if not isinstance(x, array):
            raise _wrong(function, name, x, "an array")


def need_int(function, **arguments):
    for name, x in arguments.items():
        if not hasattr(type(x), "__index__"):
            raise _wrong(function, name, x, "an int")


def need_dtype(function, **arguments):
    for name, x in arguments.items():
        if not isinstance(x, Dtype):
            raise _wrong(function, name, x, "a Dtype")


def dtype_of(function, name, x):
    """The dtype that an array has, or a Dtype is."""
    if isinstance(x, Dtype):
        return x
    if isinstance(x, array):
        return x.dtype
    raise _wrong(function, name, x, "an array or a Dtype")
