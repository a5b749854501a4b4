"""The names of mlx.core.metal. Keel has no Metal: they answer as MLX does on Linux."""

from keel._core import clear_cache, get_active_memory, get_cache_memory, get_peak_memory  # noqa: F401
from keel._core import reset_peak_memory, set_cache_limit, set_memory_limit, set_wired_limit  # noqa: F401


def is_available():
    return False


def device_info():
    return {}


def start_capture(path):
    raise RuntimeError("start_capture(): Keel does not use Metal")


def stop_capture():
    raise RuntimeError("stop_capture(): Keel does not use Metal")
