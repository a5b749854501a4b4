"""The names of mlx.core.metal."""

from keel import _core as _c
from keel._core import clear_cache, get_active_memory, get_cache_memory, get_peak_memory  # noqa: F401
from keel._core import reset_peak_memory, set_cache_limit, set_memory_limit, set_wired_limit  # noqa: F401


def is_available():
    return _c._metal_is_available()


def device_info():
    from keel import core

    return core.device_info(core.gpu) if is_available() else {}


def start_capture(path):
    if not is_available():
        raise RuntimeError("start_capture(): there is no Metal here")
    _c._metal_start_capture(str(path))


def stop_capture():
    if not is_available():
        raise RuntimeError("stop_capture(): there is no Metal here")
    _c._metal_stop_capture()
