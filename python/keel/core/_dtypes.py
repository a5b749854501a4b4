"""Facts about dtypes: categories, promotion, limits."""

import enum

from keel import _core
from keel._core import Dtype
from keel.core._arguments import dtype_of, need_dtype

__all__ = [
    "DtypeCategory",
    "complexfloating",
    "floating",
    "inexact",
    "signedinteger",
    "unsignedinteger",
    "integer",
    "number",
    "generic",
    "issubdtype",
    "isdtype",
    "result_type",
    "can_cast",
    "finfo",
    "iinfo",
]


class DtypeCategory(enum.Enum):
    complexfloating = 0
    floating = 1
    inexact = 2
    signedinteger = 3
    unsignedinteger = 4
    integer = 5
    number = 6
    generic = 7

    def __repr__(self):
        return f"DtypeCategory.{self.name}"


complexfloating = DtypeCategory.complexfloating
floating = DtypeCategory.floating
inexact = DtypeCategory.inexact
signedinteger = DtypeCategory.signedinteger
unsignedinteger = DtypeCategory.unsignedinteger
integer = DtypeCategory.integer
number = DtypeCategory.number
generic = DtypeCategory.generic

_ABOVE = {
    complexfloating: inexact,
    floating: inexact,
    inexact: number,
    signedinteger: integer,
    unsignedinteger: integer,
    integer: number,
    number: generic,
}
_OF = {_core.complex64: complexfloating, _core.bool_: generic}
for _name in ("float16", "bfloat16", "float32", "float64"):
    _OF[getattr(_core, _name)] = floating
for _bits in (8, 16, 32, 64):
    _OF[getattr(_core, f"int{_bits}")] = signedinteger
    _OF[getattr(_core, f"uint{_bits}")] = unsignedinteger


def issubdtype(arg1, arg2):
    for name, x in (("arg1", arg1), ("arg2", arg2)):
        if not isinstance(x, (Dtype, DtypeCategory)):
            raise TypeError(f"issubdtype(): argument '{name}' is a {type(x).__name__}, but must be a Dtype or a category")
    if isinstance(arg2, Dtype):
        return arg1 == arg2
    at = _OF[arg1] if isinstance(arg1, Dtype) else arg1
    while at is not None and at is not arg2:
        at = _ABOVE.get(at)
    return at is arg2


_KINDS = {
    "bool": lambda d: d == _core.bool_,
    "signed integer": lambda d: issubdtype(d, signedinteger),
    "unsigned integer": lambda d: issubdtype(d, unsignedinteger),
    "integral": lambda d: issubdtype(d, integer),
    "real floating": lambda d: issubdtype(d, floating),
    "complex floating": lambda d: issubdtype(d, complexfloating),
    "numeric": lambda d: issubdtype(d, number),
}


def isdtype(dtype, kind):
    need_dtype("isdtype", dtype=dtype)
    if isinstance(kind, tuple):
        return any(isdtype(dtype, k) for k in kind)
    if isinstance(kind, Dtype):
        return dtype == kind
    if kind not in _KINDS:
        raise ValueError(f"isdtype(): kind is {kind!r}, but must be one of {sorted(_KINDS)}")
    return _KINDS[kind](dtype)


def result_type(*arrays_and_dtypes):
    if not arrays_and_dtypes:
        raise ValueError("result_type() needs an array or a dtype")
    dtypes = [dtype_of("result_type", "arrays_and_dtypes", x) for x in arrays_and_dtypes]
    out = _core.zeros([], dtypes[0])
    for dtype in dtypes[1:]:
        out = _core.add(out, _core.zeros([], dtype))
    return out.dtype


def can_cast(from_, to):
    from_ = dtype_of("can_cast", "from_", from_)
    need_dtype("can_cast", to=to)
    return result_type(from_, to) == to


# bits, eps, min, max, smallest normal number (IEEE 754; bfloat16 by its definition)
_FLOATS = {
    "float16": (16, 2.0**-10, 65504.0, 2.0**-14),
    "bfloat16": (16, 2.0**-7, (2 - 2.0**-7) * 2.0**127, 2.0**-126),
    "float32": (32, 2.0**-23, (2 - 2.0**-23) * 2.0**127, 2.0**-126),
    "float64": (64, 2.0**-52, (2 - 2.0**-52) * 2.0**1023, 2.0**-1022),
    "complex64": (32, 2.0**-23, (2 - 2.0**-23) * 2.0**127, 2.0**-126),
}


class finfo:
    __slots__ = {
        "bits": "The bits of one number (of complex64: of one part).",
        "dtype": "The dtype of these limits.",
        "eps": "The distance from 1 to the next larger number.",
        "max": "The largest finite number.",
        "min": "The smallest finite number.",
        "smallest_normal": "The smallest positive number of full precision.",
    }

    def __init__(self, dtype, /):
        need_dtype("finfo", arg=dtype)
        if dtype._name not in _FLOATS:
            raise ValueError(f"finfo() takes a floating point dtype, not {dtype}")
        self.bits, self.eps, self.max, self.smallest_normal = _FLOATS[dtype._name]
        self.min = -self.max
        self.dtype = _core.float32 if dtype == _core.complex64 else dtype

    def __repr__(self):
        return f"finfo(min={self.min:g}, max={self.max:g}, dtype={self.dtype._name})"


class iinfo:
    __slots__ = {
        "dtype": "The dtype of these limits.",
        "max": "The largest number.",
        "min": "The smallest number.",
    }

    def __init__(self, dtype, /):
        need_dtype("iinfo", arg=dtype)
        if not (issubdtype(dtype, integer) or dtype == _core.bool_):
            raise ValueError(f"iinfo() takes an integer dtype, not {dtype}")
        bits = 1 if dtype == _core.bool_ else 8 * dtype.size
        signed = issubdtype(dtype, signedinteger)
        self.dtype = dtype
        self.min = -(2 ** (bits - 1)) if signed else 0
        self.max = 2 ** (bits - 1) - 1 if signed else 2**bits - 1

    def __repr__(self):
        return f"iinfo(min={self.min}, max={self.max}, dtype={self.dtype._name})"
