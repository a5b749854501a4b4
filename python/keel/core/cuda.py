"""The names of mlx.core.cuda."""

from keel import _core as _c


def is_available():
    """Whether Keel computes on an NVIDIA GPU through CUDA.

    Example:
        >>> yes = mx.cuda.is_available()
    """
    return _c._cuda_is_available()
