"""The names of mlx.core.metal. Keel has no Metal: they answer as MLX does on Linux."""

from keel import _core as _c
from keel._core import clear_cache, get_active_memory, get_cache_memory, get_peak_memory  # noqa: F401
from keel._core import reset_peak_memory, set_cache_limit, set_memory_limit, set_wired_limit  # noqa: F401


def is_available():
    """Whether there is Metal: no.

    Example:
        >>> mx.metal.is_available()
        False
    """
    return False


def device_info():
    """Facts about the default device, as keel.core.device_info().

    Example:
        >>> info = mx.metal.device_info()
    """
    return _c.device_info()


def start_capture(path):
    """Raises RuntimeError: there is no Metal to capture.

    Example:
        >>> mx.metal.start_capture("trace")
        Traceback (most recent call last):
        RuntimeError: start_capture(): Keel does not use Metal
    """
    raise RuntimeError("start_capture(): Keel does not use Metal")


def stop_capture():
    """Raises RuntimeError: there is no Metal to capture.

    Example:
        >>> mx.metal.stop_capture()
        Traceback (most recent call last):
        RuntimeError: stop_capture(): Keel does not use Metal
    """
    raise RuntimeError("stop_capture(): Keel does not use Metal")
