"""The names of mlx.core.cuda."""

from keel import _core as _c


def is_available():
    return _c._cuda_is_available()
