"""What all calls of tools/peers/mlx_differential.py are made with: both libraries, arrays that are in both, and their comparison."""
import ctypes as C
import os
import random
import sys
import warnings

import mlx.core as mx
import numpy as np

lib = C.CDLL(os.path.abspath(sys.argv[1]))
rnd = random.Random()  # the command seeds it
np.seterr(all="ignore")
warnings.simplefilter("ignore")  # NumPy's, of means of nothing


class Handle(C.Structure):
    _fields_ = [("ctx", C.c_void_p)]


class OptionalInt(C.Structure):
    _fields_ = [("value", C.c_int), ("has_value", C.c_bool)]


class OptionalFloat(C.Structure):
    _fields_ = [("value", C.c_float), ("has_value", C.c_bool)]


for name, res, args in (("mlx_array_new", Handle, []), ("mlx_array_free", C.c_int, [Handle]), ("mlx_array_new_data", Handle, [C.c_void_p, C.c_void_p, C.c_int, C.c_int]), ("mlx_array_eval", C.c_int, [Handle]),
                        ("mlx_array_ndim", C.c_size_t, [Handle]), ("mlx_array_shape", C.POINTER(C.c_int), [Handle]), ("mlx_array_dtype", C.c_int, [Handle]), ("mlx_array_size", C.c_size_t, [Handle]),
                        ("mlx_default_cpu_stream_new", Handle, []), ("keel_errors_return", None, []), ("mlx_vector_array_new", Handle, []), ("mlx_vector_array_free", C.c_int, [Handle]),
                        ("mlx_vector_array_new_data", Handle, [C.POINTER(Handle), C.c_size_t]), ("mlx_vector_array_size", C.c_size_t, [Handle]), ("mlx_vector_array_get", C.c_int, [C.POINTER(Handle), Handle, C.c_size_t])):
    f = getattr(lib, name)
    f.restype, f.argtypes = res, args
lib.keel_errors_return()
DATA = {}  # the address of the elements, by dtype
for name in ("bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "float32", "float64", "complex64"):
    DATA[name] = getattr(lib, "mlx_array_data_" + name)
    DATA[name].restype, DATA[name].argtypes = C.c_void_p, [Handle]
S = lib.mlx_default_cpu_stream_new()
DTYPES = ["bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "float16", "float32", "float64", "bfloat16", "complex64"]
MX = {d: getattr(mx, d if d != "bool" else "bool_") for d in DTYPES}
WIDTH = {"bool": 8, "uint8": 8, "uint16": 16, "uint32": 32, "uint64": 64, "int8": 8, "int16": 16, "int32": 32, "int64": 64}
INTS = DTYPES[1:9]
SMALL = ("float16", "bfloat16")
FLOATS = ["float16", "float32", "bfloat16"]
REALS = DTYPES[:11] + ["bfloat16"]
ALL = REALS + ["complex64"]  # float64 of MLX is an error outside its CPU: the stream below is the CPU
mx.set_default_device(mx.cpu)


NONE = Handle(None)


def ints(v):
    return (C.c_int * max(len(v), 1))(*v)


def size_t(n):
    return C.c_size_t(n)


class Both:
    """One array in both libraries, perhaps strided in both."""

    def __init__(self, shape, dtype, special=True, low=None, high=None):
        self.shape, self.dtype = tuple(shape), dtype
        n = int(np.prod(shape, dtype=np.int64))
        if dtype == "bool":
            v = np.array([rnd.random() < 0.5 for _ in range(n)], np.bool_)
        elif dtype in INTS:
            info = np.iinfo(dtype)
            lo, hi = (max(info.min, -8), 9) if low is None else (max(low, info.min), min(high, info.max))
            v = np.array([rnd.choice((info.min, info.max)) if special and rnd.random() < 0.05 else rnd.randrange(lo, hi) for _ in range(n)], dtype)
        else:
            v = np.array([self.number(special, low, high) for _ in range(n)], np.float64)
            if dtype == "complex64":
                v = (v + 1j * np.array([self.number(special, low, high) for _ in range(n)])).astype(np.complex64)
        turned = n > 0 and len(shape) > 1 and rnd.random() < 0.3  # (MLX takes 15 s for some reductions of nothing, transposed)
        store = v.reshape(self.shape[::-1]) if turned else v.reshape(self.shape)
        base = np.ascontiguousarray(store.astype(np.float32) if dtype in ("float16", "bfloat16", "float32", "float64") else store)
        base = base.reshape(store.shape)  # NumPy gives a 0-d array an axis
        code = DTYPES.index(str(base.dtype))
        a = lib.mlx_array_new_data(base.ctypes.data, ints(base.shape), base.ndim, code)
        self.mx = mx.array(base)
        self.keel = keep(a)
        if dtype in ("float16", "bfloat16", "float64"):
            self.keel = call("astype", self.keel, DTYPES.index(dtype))
            self.mx = self.mx.astype(MX[dtype])
        if turned:
            self.keel = call("transpose", self.keel)
            self.mx = mx.transpose(self.mx)
        mx.eval(self.mx)
        drawn.append(self)

    def exact(self):
        """The elements as they are, in the type in which they are to be added up: 16-bit floats in float32, others in float64, integers exactly."""
        v = np.array(self.mx.astype(mx.float32)) if self.dtype in SMALL else np.array(self.mx)
        if self.dtype in SMALL or self.dtype == "bool":
            return v
        return v.astype(np.complex128) if self.dtype == "complex64" else v.astype(np.int64) if self.dtype in INTS and self.dtype != "uint64" else v if self.dtype == "uint64" else v.astype(np.float64)

    @staticmethod
    def number(special, low, high):
        if low is not None:
            return rnd.uniform(low, high)
        r = rnd.random()
        if special and r < 0.08:
            return rnd.choice([0.0, -0.0, 1.0, -1.0, float("inf"), float("-inf"), float("nan"), 1e-40, 65504.0, 1e30])
        return rnd.gauss(0, 1) * rnd.choice([0.1, 1, 1, 10])


made = []
drawn = []  # operands of the call
exact = []  # perhaps a function of NumPy that gives the right result, for where MLX is known to be off


def keep(h):
    made.append(h)
    return h


class Failed(Exception):
    pass


def call(name, *args):
    out = lib.mlx_array_new()
    if getattr(lib, "mlx_" + name)(C.byref(out), *args, S):
        lib.mlx_array_free(out)
        raise Failed(name)
    return keep(out)


def keel_value(h):
    """(shape, dtype, values as float64, complex128 or int)."""
    dense = call("contiguous", h, C.c_bool(False))
    if lib.mlx_array_eval(dense):
        raise Failed("evaluation")
    nd = lib.mlx_array_ndim(dense)
    shape = tuple(lib.mlx_array_shape(dense)[i] for i in range(nd))
    dtype = DTYPES[lib.mlx_array_dtype(dense)]
    n = lib.mlx_array_size(dense)
    if n == 0:
        return shape, dtype, np.zeros(shape)
    wide = dense
    np_type = dtype
    if dtype in ("float16", "bfloat16"):
        wide, np_type = call("astype", dense, DTYPES.index("float32")), "float32"
        if lib.mlx_array_eval(wide):
            raise Failed("evaluation")
    size = np.dtype(np_type).itemsize
    data = C.string_at(DATA[np_type](wide), n * size)
    return shape, dtype, np.frombuffer(data, np_type).reshape(shape)


def mlx_value(a):
    dtype = str(a.dtype).split(".")[-1].rstrip("_")
    wide = a.astype(mx.float32) if dtype in ("float16", "bfloat16") else a
    return tuple(a.shape), dtype, np.array(wide)


TOLERANCE = {"float16": 4e-3, "bfloat16": 3e-2, "float32": 2e-5, "float64": 1e-11, "complex64": 5e-4}


def endless_or_0(a, b):
    """Of two orders of multiplication one meets infinity, the other perhaps 0 before."""
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    return (~np.isfinite(a) & (~np.isfinite(b) | (b == 0))) | (~np.isfinite(b) & (a == 0))


def near(x, y, dtype, loose):
    """Per element, whether the values are the same, but for the tolerance."""
    if dtype not in TOLERANCE:
        return x == y
    t = TOLERANCE[dtype] * loose
    with np.errstate(all="ignore"):
        if dtype == "complex64":
            parts = [near(np.ascontiguousarray(p), np.ascontiguousarray(q), "float32", loose * 25) for p, q in ((x.real, y.real), (x.imag, y.imag))]
            return (parts[0] & parts[1]) | (np.abs(x - y) <= t * (1 + np.abs(y)))
        x, y = x.astype(np.float64), y.astype(np.float64)
        small = {"float16": 6.2e-5, "bfloat16": 1.2e-38}.get(dtype, 1.2e-38)
        close = np.abs(x - y) <= t * np.abs(y) + small + (t if loose > 1 else t * 0.05)
        return close | (x == y) | (np.isnan(x) & np.isnan(y))


def same(x, y, dtype, loose):
    return x.shape == y.shape and bool(np.all(near(x, y, dtype, loose)))


def handles(v):
    return (Handle * max(len(v), 1))(*v)


# name: function that draws a call and gives (keel thunk, mlx thunk, looseness)
TABLE = {}


def op(name, needs=None):
    def add(f):
        if hasattr(lib, "mlx_" + (needs or name)):
            TABLE[name] = f
        return f

    return add


def shape(most=3, least=0, zero=0.05):
    return tuple(0 if rnd.random() < zero else rnd.choice([1, 2, 3, 5, 17]) for _ in range(rnd.randrange(least, most + 1)))


def broadcastable(s):
    t = list(s)[rnd.randrange(0, len(s) + 1) if s and rnd.random() < 0.3 else 0:]
    return tuple(1 if rnd.random() < 0.2 else d for d in t)


def vector(arrays):
    return lib.mlx_vector_array_new_data((Handle * len(arrays))(*[a.keel for a in arrays]), len(arrays))


def given(name, arrays, *args):
    """A call that takes several arrays."""
    v = vector(arrays)
    try:
        return call(name, v, *args)
    finally:
        lib.mlx_vector_array_free(v)


def one_of(name, which, *args):
    """Result number which(how many there are) of a call that gives several."""
    v = lib.mlx_vector_array_new()
    rc = getattr(lib, "mlx_" + name)(C.byref(v), *args, S)
    try:
        if rc:
            raise Failed(name)
        out = lib.mlx_array_new()
        lib.mlx_vector_array_get(C.byref(out), v, which % lib.mlx_vector_array_size(v))
        return keep(out)
    finally:
        lib.mlx_vector_array_free(v)


def axis_of(a):
    return rnd.randrange(-len(a.shape), len(a.shape))


def list_of(v):
    return ints(v), size_t(len(v))


def scalar(k):
    v = np.array(k, np.int32)
    return keep(lib.mlx_array_new_data(v.ctypes.data, ints([]), 0, DTYPES.index("int32")))
