"""Streams as context managers, and options of printing."""

from keel import _core
from keel._core import Stream, ThreadLocalStream

__all__ = [
    "StreamContext",
    "stream",
    "new_thread_unsafe_stream",
    "clear_streams",
    "PrintOptions",
    "get_printoptions",
    "set_printoptions",
    "printoptions",
]


class StreamContext:
    """A context in which operations of this thread run on a stream, or on a device.

    The default device and the default stream are restored when the context ends.

    Example:
        >>> with mx.stream(mx.cpu):
        ...     a = mx.ones((2,)) + 1
    """

    def __init__(self, s):
        self._stream = s

    def __enter__(self):
        s = self._stream
        self._device = _core.default_device()
        self._before = None
        if isinstance(s, (Stream, ThreadLocalStream)):
            self._before = _core.default_stream(s.device)
            _core.set_default_device(s.device)
            _core.set_default_stream(s)
        elif s is not None:
            _core.set_default_device(s)

    def __exit__(self, exc_type=None, exc_value=None, traceback=None):
        if self._before is not None:
            _core.set_default_stream(self._before)
        _core.set_default_device(self._device)


def stream(s):
    """A context in which operations run on the stream or device `s`: see StreamContext.

    Example:
        >>> with mx.stream(mx.new_stream(mx.cpu)):
        ...     a = mx.arange(3)
    """
    return StreamContext(s)


def new_thread_unsafe_stream(device):
    """A new stream on the device. Keel's streams may be used from every thread.

    Example:
        >>> s = mx.new_thread_unsafe_stream(mx.cpu)
    """
    return _core.new_stream(device)


def clear_streams():
    """Waits for the work of the default streams. Streams live as long as their objects.

    Example:
        >>> mx.clear_streams()
    """
    _core.synchronize()


class PrintOptions:
    """How arrays are printed. precision: digits after the point of floats; -1: as many as needed."""

    def __init__(self, precision=-1):
        self.precision = precision


_options = PrintOptions()


def get_printoptions():
    """The options of printing in force.

    Example:
        >>> mx.get_printoptions().precision
        -1
    """
    return PrintOptions(_options.precision)


def set_printoptions(precision=-1):
    """Sets how arrays are printed: see PrintOptions.

    Example:
        >>> mx.set_printoptions(precision=-1)
    """
    _options.precision = precision
    _core._set_print_precision(precision)


class _PrintOptionsContext:
    def __init__(self, options):
        self._options = options

    def __enter__(self):
        self._before = _options.precision
        set_printoptions(self._options.precision)
        return self

    def __exit__(self, *args):
        set_printoptions(self._before)


def printoptions(precision=-1):
    """A context in which arrays are printed with these options: see PrintOptions.

    Example:
        >>> with mx.printoptions(precision=2):
        ...     print(mx.array(3.14159))
        array(3.14, dtype=float32)
    """
    return _PrintOptionsContext(PrintOptions(precision))
