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
    "_PrintOptionsContext",
]


class StreamContext:
    def __init__(self, s):
        self._stream = s
        self._before = self._device = None

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
        if self._device is not None:
            _core.set_default_device(self._device)


def stream(s):
    return StreamContext(s)


def new_thread_unsafe_stream(device):
    return _core.new_stream(device)


def clear_streams():
    _core.synchronize()


class PrintOptions:
    __slots__ = {"precision": "The number of digits after the point; -1: six significant digits."}

    def __init__(self, precision=-1):
        self.precision = precision


def get_printoptions():
    return PrintOptions(_core._print_precision())


def set_printoptions(precision=-1):
    _core._set_print_precision(precision)


class _PrintOptionsContext:
    def __init__(self, options, /):
        self._options = options

    def __enter__(self):
        self._before = _core._print_precision()
        _core._set_print_precision(self._options.precision)
        return self

    def __exit__(self, *args):
        _core._set_print_precision(self._before)


def printoptions(precision=-1):
    return _PrintOptionsContext(PrintOptions(precision))
