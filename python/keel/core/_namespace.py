"""What the array API standard asks of a namespace: __array_namespace_info__."""

from keel import _core
from keel._core import Device

__all__ = ["ArrayNamespaceInfo", "__array_namespace_info__"]

_KINDS = {
    "bool": ("bool",),
    "signed integer": ("int8", "int16", "int32", "int64"),
    "unsigned integer": ("uint8", "uint16", "uint32", "uint64"),
    "real floating": ("float32", "float64"),
    "complex floating": ("complex64",),
}
_KINDS["integral"] = _KINDS["signed integer"] + _KINDS["unsigned integer"]
_KINDS["numeric"] = _KINDS["integral"] + _KINDS["real floating"] + _KINDS["complex floating"]


def _names_of(kind):
    if kind is None:
        return _KINDS["bool"] + _KINDS["numeric"]
    if isinstance(kind, tuple):
        return tuple(name for part in kind for name in _names_of(part))
    if not isinstance(kind, str):
        raise TypeError(f"dtypes(): argument 'kind' is a {type(kind).__name__}, but must be a str, a tuple or None")
    if kind not in _KINDS:
        raise ValueError(f"dtypes(): kind is {kind!r}, but must be one of {sorted(_KINDS)}")
    return _KINDS[kind]


def _device_of(device, name):
    from keel.core import DeviceType

    if device is not None and not isinstance(device, (Device, DeviceType)):
        raise TypeError(f"{name}(): argument 'device' is a {type(device).__name__}, but must be a Device or None")


class ArrayNamespaceInfo:
    def capabilities(self):
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self):
        return _core.default_device()

    def default_dtypes(self, *, device=None):
        _device_of(device, "default_dtypes")
        return {
            "real floating": _core.float32,
            "complex floating": _core.complex64,
            "integral": _core.int32,
            "indexing": _core.int32,
        }

    def devices(self):
        from keel.core import cpu, gpu

        return tuple(Device(kind, i) for kind in (cpu, gpu) for i in range(_core.device_count(kind)))

    def dtypes(self, *, device=None, kind=None):
        _device_of(device, "dtypes")
        return {name: getattr(_core, "bool_" if name == "bool" else name) for name in dict.fromkeys(_names_of(kind))}


def __array_namespace_info__():
    return ArrayNamespaceInfo()
