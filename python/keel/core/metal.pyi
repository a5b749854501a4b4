"""Names of Apple's Metal. Where there is no Metal they answer as MLX does on Linux."""

def clear_cache() -> None:
    """Gives memory that is kept for reuse back to the system. Use keel.core.clear_cache."""

def device_info() -> dict[str, str | int]:
    """What is known of the GPU; an empty dict where there is no Metal. Use keel.core.device_info.

    Example:
        >>> mx.metal.device_info()
        {}
    """

def get_active_memory() -> int:
    """Bytes of memory that arrays hold now. Use keel.core.get_active_memory."""

def get_cache_memory() -> int:
    """Bytes of memory that are free but kept for reuse. Use keel.core.get_cache_memory."""

def get_peak_memory() -> int:
    """The largest number of bytes that arrays have held. Use keel.core.get_peak_memory."""

def is_available() -> bool:
    """Whether a device of Metal is used.

    Example:
        >>> mx.metal.is_available()
        False
    """

def reset_peak_memory() -> None:
    """Makes get_peak_memory count from what arrays hold now.

    Use keel.core.reset_peak_memory.
    """

def set_cache_limit(limit: int) -> int:
    """Sets how many bytes are kept for reuse at most. Use keel.core.set_cache_limit."""

def set_memory_limit(limit: int) -> int:
    """Sets how many bytes arrays should hold at most. Use keel.core.set_memory_limit."""

def set_wired_limit(limit: int) -> int:
    """Stores a limit without an effect. Use keel.core.set_wired_limit."""

def start_capture(path: str) -> None:
    """Starts a recording of what the GPU does, in a file that Xcode opens; fails without Metal."""

def stop_capture() -> None:
    """Ends the recording; fails without Metal."""
