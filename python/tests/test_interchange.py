"""Memory shared with others: the buffer protocol, DLPack, __array__, pickles and copies."""

import base64
import copy
import ctypes
import gc
import io
import os
import pathlib
import pickle
import pickletools
import subprocess
import sys
import types
import weakref
import zlib

import keel.core as mx
import numpy as np
import pytest

DTYPES = "bool_ uint8 uint16 uint32 uint64 int8 int16 int32 int64 float16 bfloat16 float32 float64 complex64".split()


def of(dtype, values=(0, 1, 2)):
    return mx.array(list(values)).astype(getattr(mx, dtype))


# ---- from NumPy and buffers ----
@pytest.mark.parametrize("dtype", [d for d in DTYPES if d != "bfloat16"])
def test_numpy_and_back(dtype):
    name = dtype.removesuffix("_")
    x = np.array([[0, 1, 2], [3, 4, 5]], dtype=name)
    made = mx.array(x)
    assert made.dtype == getattr(mx, "float32" if dtype == "float64" else dtype)
    assert made.tolist() == x.tolist()
    back = np.array(of(dtype, range(4)))
    assert back.dtype == np.dtype(name) and back.tolist() == np.arange(4).astype(name).tolist()


@pytest.mark.parametrize("view", [
    lambda x: x.T, lambda x: x[::-1], lambda x: x[:, ::2], lambda x: x[1:1], lambda x: x[0, 1, ...],
    lambda x: np.broadcast_to(x[0], (3, 4)), lambda x: np.asfortranarray(x),
])  # fmt: skip
def test_layouts_of_numpy(view):
    x = view(np.arange(12, dtype="int32").reshape(3, 4))
    assert mx.array(x).tolist() == x.tolist()
    assert np.array(mx.array(x)).tolist() == x.tolist()


@pytest.mark.parametrize("dtype", "bool uint8 int16 float16 float32 int64 float64 complex64 complex128".split())
def test_large_views_of_numpy(dtype):
    """Rows and columns beyond the squares in which they are read, and numbers at odd addresses."""
    x = (np.arange(70 * 45 * 3).reshape(70, 45, 3) % 251).astype(dtype)
    views = [x, x.T, x[::-1], x[:, ::-1], x[..., ::-1], x[::3, 1::2], x.swapaxes(1, 2), x[:, :, 0].T, x[:, 0, 0], x[0, ::-1, 1], np.broadcast_to(x[:1], (4, 45, 3))]
    for v in views:
        made = mx.array(v)
        assert made.shape == v.shape
        assert np.array_equal(np.array(made), v.astype({"float64": "float32", "complex128": "complex64"}.get(dtype, dtype)))
    packed = np.frombuffer(b"." + x.tobytes(), np.dtype({"names": ["x"], "formats": [x.dtype], "offsets": [1], "itemsize": 1 + x.itemsize}), count=1)["x"]
    assert np.array_equal(np.array(mx.array(packed)), x.ravel()[:1].astype(np.array(mx.array(x)).dtype))


def test_bools_that_are_not_plain():
    for at in (0, 7, 8, 20):
        data = np.zeros(21, np.uint8)
        data[at] = 2
        assert mx.array(data.view(bool)).tolist() == [i == at for i in range(21)]


def test_lists_of_numbers():
    """Lists of floats or ints alone are read in another way than others; all give what NumPy gives."""

    class Number(float):
        pass

    lists = [[1.5, 2.5], [1, 2, 3], ((1, 2), [3, 4]), [[1.0], [2.0]], [[[1, -(2**31)]], [[2**31 - 1, 4]]], [1.0, 2], [1, 2.0], [True, 1], [1, True], [1, 2**40], [2**40, 1], [1.0, Number(2)],
             [Number(1), 2.0], [[1, 2], [3, 4.5]], [[1.5, 2.5], [3, 4]], [0.1] * 100, [list(range(i, i + 7)) for i in range(9)], [float("inf"), float("nan"), 1e300, -0.0]]
    for x in lists:
        made, want = mx.array(x), np.array(x)
        with np.errstate(over="ignore"):
            want = want.astype({"f": np.float32, "i": np.int32 if abs(want.max()) < 2**31 or abs(want.min()) == 2**31 else np.int64, "b": bool}[want.dtype.kind])
        assert np.array(made).dtype == want.dtype and np.array(made).tobytes() == want.tobytes(), x
        with np.errstate(over="ignore"):
            assert np.array_equal(np.array(mx.array(x, mx.float16)), want.astype(np.float16), equal_nan=True)
    for x in ([1.0, [2.0]], [[1.0], 2.0], [[1, 2], [3]], [[1], [2, 3]], [[1.0, 2.0], (3.0,)], [[], [1]]):
        with pytest.raises(ValueError, match="do not have one length at each level"):
            mx.array(x)
    with pytest.raises(ValueError, match="got a str"):
        mx.array([1.0, "x"])
    with pytest.raises(OverflowError):
        mx.array([1, 2**70])


def test_array_copies_what_it_takes():
    x = np.array([1, 2])
    made = mx.array(x)
    x[0] = 9
    assert made.tolist() == [1, 2]


def test_kinds_of_buffers():
    assert mx.array(bytearray(b"abc")).tolist() == [97, 98, 99]
    assert mx.array(memoryview(b"abc")).dtype == mx.uint8
    assert mx.array((ctypes.c_float * 2)(1, 2)).tolist() == [1, 2]
    assert mx.array(np.float32(1.5)).dtype == mx.float32
    assert mx.array(np.int64(3)).dtype == mx.int64
    assert mx.array([np.float32(1), 2]).tolist() == [1, 2]
    assert mx.array(np.array([1 + 2j])).dtype == mx.complex64


@pytest.mark.parametrize("x", [np.array(["a"]), np.array([object()]), np.array([1, 2], ">i4"), np.zeros(1, "V3")])
def test_unknown_formats(x):
    with pytest.raises(ValueError, match="format"):
        mx.array(x)


# ---- views of the memory of an array ----
def test_buffer_of_an_array():
    view = memoryview(mx.array([[1, 2, 3], [4, 5, 6]]))
    assert (view.format, view.shape, view.strides, view.readonly) == ("i", (2, 3), (12, 4), False)
    assert view.tolist() == [[1, 2, 3], [4, 5, 6]]
    view = memoryview(mx.array([[1, 2, 3], [4, 5, 6]]).T)
    assert (view.shape, view.strides) == ((3, 2), (4, 12)) and view.tolist() == [[1, 4], [2, 5], [3, 6]]
    assert memoryview(mx.array(1.5)).tolist() == 1.5
    assert memoryview(mx.zeros((0, 3))).nbytes == 0
    with pytest.raises((BufferError, TypeError)):
        io.BytesIO(bytes(24)).readinto(mx.zeros((2, 3)).T)  # asks for memory without gaps


def test_writing_through_a_view_is_seen():
    a = mx.array([1.0, 2.0, 3.0])
    view = np.array(a, copy=False)
    view[0] = 10
    assert a.tolist() == [10, 2, 3]
    assert mx.sum(a).item() == 15
    assert io.BytesIO(np.array([7, 8, 9], "float32").tobytes()).readinto(a) == 12
    assert a.tolist() == [7, 8, 9] and view.tolist() == [7, 8, 9]


OPERATIONS = [lambda x: x + 1, lambda x: mx.exp(x) * 2, lambda x: -x, lambda x: mx.sqrt(mx.abs(x)), lambda x: mx.sort(x)]


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("export", [np.asarray, memoryview, np.from_dlpack, lambda a: np.asarray(a)[1:]])
def test_exported_memory_is_never_taken_for_a_result(operation, export):
    a = mx.array([3.0, 1.0, 2.0])
    view = export(a)
    whole = np.asarray(view)
    whole[...] = whole * 2
    wanted = whole.tolist()
    result = operation(a)
    del a  # nobody else names the array: without the view its memory would be taken
    mx.eval(result)
    assert np.asarray(view).tolist() == wanted
    gc.collect()
    more = [mx.ones((3,)) * k for k in range(10)]
    mx.eval(more)
    assert np.asarray(view).tolist() == wanted


def test_a_view_outlives_the_array():
    view = np.asarray(mx.arange(1000))
    gc.collect()
    mx.eval([mx.zeros((1000,), mx.int32) for _ in range(4)])
    assert view.sum() == 499500


def test_bfloat16_has_no_buffer_format():
    a = of("bfloat16")
    with pytest.raises(BufferError, match="bfloat16"):
        memoryview(a)
    assert np.array(a).dtype == np.float32 and np.array(a).tolist() == [0, 1, 2]
    assert bytes(a) == b"\x00\x00\x80\x3f\x00\x40"


# ---- __array__ and bytes ----
def test_array_method():
    a = mx.array([[1.0, 2.0]])
    assert np.shares_memory(a.__array__(), np.asarray(a))
    assert not np.shares_memory(a.__array__(copy=True), np.asarray(a))
    assert a.__array__(np.float64).dtype == np.float64
    assert a.__array__(dtype="int8", copy=True).tolist() == [[1, 2]]
    with pytest.raises(ValueError):
        a.__array__(np.float64, copy=False)
    with pytest.raises(ValueError):
        of("bfloat16").__array__(copy=False)
    assert a.__array__(copy=False).tolist() == [[1, 2]]
    assert mx.zeros((0, 2)).__array__().shape == (0, 2)


def test_numpy_functions_take_arrays():
    a = mx.array([1.0, 4.0])
    np.testing.assert_allclose(np.sqrt(a), [1, 2])
    assert np.concatenate([a, np.array([1.0])]).tolist() == [1, 4, 1]


def test_bytes():
    assert bytes(mx.array([1, 2], dtype=mx.int16)) == b"\x01\x00\x02\x00"
    assert bytes(mx.array([[1, 2], [3, 4]], dtype=mx.uint8).T) == b"\x01\x03\x02\x04"
    assert bytes(mx.zeros((0,))) == b""


# ---- DLPack ----
@pytest.mark.parametrize("dtype", DTYPES)
def test_dlpack_of_every_dtype(dtype):
    a = of(dtype)
    back = mx.from_dlpack(types.SimpleNamespace(__dlpack__=a.__dlpack__))
    assert back.tolist() == a.tolist()
    assert back.dtype == (mx.float32 if dtype == "float64" else a.dtype)
    if dtype not in ("bfloat16",):
        np.testing.assert_array_equal(np.from_dlpack(a), np.array(a))


def test_dlpack_shares_memory_both_ways():
    a = mx.array([1.0, 2.0])
    view = np.from_dlpack(a)
    view[0] = 5
    assert a.tolist() == [5, 2]
    assert np.shares_memory(view, np.asarray(a))
    x = np.array([1.0, 2.0], "float32")
    b = mx.from_dlpack(x)
    x[1] = 7
    assert b.tolist() == [1, 7]


def test_imported_memory_is_not_written():
    x = np.array([3.0, 1.0, 2.0], "float32")
    for operation in OPERATIONS:
        result = operation(mx.from_dlpack(x))
        mx.eval(result)
        assert x.tolist() == [3, 1, 2]


def test_imported_memory_lives_as_long_as_the_array():
    class Owner(np.ndarray):
        pass

    x = np.arange(100).view(Owner)
    ref = weakref.ref(x)
    a = mx.from_dlpack(x)
    del x
    gc.collect()
    assert a.sum().item() == 4950 and ref() is not None
    del a
    gc.collect()
    mx.synchronize()
    mx.eval(mx.ones((1,)))  # the next call drops what threads of the library have let go
    gc.collect()
    assert ref() is None


@pytest.mark.parametrize("view", [lambda x: x.T, lambda x: x[:, ::2], lambda x: x[::-1], lambda x: x[1:, 1:]])
def test_dlpack_of_other_layouts(view):
    x = view(np.arange(12, dtype="int32").reshape(3, 4))
    a = mx.from_dlpack(x)
    assert a.tolist() == x.tolist()
    with pytest.raises(ValueError, match="copy"):
        mx.from_dlpack(x, copy=False)
    y = mx.from_dlpack(np.arange(12, dtype="int32").reshape(3, 4)).T
    assert np.from_dlpack(y).tolist() == np.array(y).tolist()


def test_read_only_memory_is_copied():
    x = np.array([1, 2])
    x.flags.writeable = False
    a = mx.from_dlpack(x)
    x.flags.writeable = True
    x[0] = 9
    assert a.tolist() == [1, 2]
    x.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        mx.from_dlpack(x, copy=False)


def test_copies_that_are_asked_for():
    x = np.array([1.0, 2.0], "float32")
    a, b = mx.from_dlpack(x, copy=True), mx.from_dlpack(x, copy=False)
    x[0] = 9
    assert a.tolist() == [1, 2] and b.tolist() == [9, 2]
    c = mx.array([1.0, 2.0])
    shared = mx.from_dlpack(types.SimpleNamespace(__dlpack__=lambda **k: c.__dlpack__(copy=True)))
    np.asarray(c)[0] = 9
    assert shared.tolist() == [1, 2]
    assert mx.from_dlpack(c.T if c.ndim > 1 else c).tolist() == [9, 2]


def test_dlpack_arguments():
    a = mx.array([1.0])
    assert a.__dlpack_device__() == (1, 0)
    for arguments in ({"stream": None}, {"max_version": (1, 0)}, {"max_version": None}, {"dl_device": (1, 0)},
                      {"copy": True}, {"copy": False}):  # fmt: skip
        assert "dltensor" in repr(a.__dlpack__(**arguments))
    with pytest.raises(BufferError):
        a.__dlpack__(dl_device=(2, 0))
    with pytest.raises(TypeError):
        a.__dlpack__(dl_device="cpu")
    assert "versioned" in repr(a.__dlpack__(max_version=(1, 0)))
    for arguments in ({"max_version": 1}, {"max_version": ("a", "b")}):
        with pytest.raises(TypeError):
            a.__dlpack__(**arguments)
    with pytest.raises(TypeError):
        a.__dlpack__(None)
    with pytest.raises(TypeError):
        mx.from_dlpack([1, 2])


class Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
                ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
                ("byte_offset", ctypes.c_uint64), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]  # fmt: skip


KEPT = []  # an array reads the struct of its capsule when it dies, to find the deleter


def capsule(**fields):
    """A capsule made by hand: what GPUs and newer versions export."""
    shape, data = (ctypes.c_int64 * 1)(2), (ctypes.c_float * 2)(1, 2)
    tensor = Tensor(data=ctypes.cast(data, ctypes.c_void_p), device_type=1, ndim=1, code=2, bits=32, lanes=1, shape=shape)
    for name, value in fields.items():
        setattr(tensor, name, value)
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    made = new(ctypes.addressof(tensor), b"dltensor", None)
    KEPT.append((tensor, shape, data, fields))
    return types.SimpleNamespace(__dlpack__=lambda: made)


def test_capsules_made_by_hand():
    assert mx.from_dlpack(capsule()).tolist() == [1, 2]
    assert mx.from_dlpack(capsule(byte_offset=4, shape=(ctypes.c_int64 * 1)(1))).tolist() == [2]


@pytest.mark.parametrize("fields, words", [
    ({"device_type": 2}, "device type 2"), ({"code": 7}, "code 7"), ({"bits": 128}, "128 bits"), ({"lanes": 4}, "dtype"),
    ({"ndim": 65}, "64 axes"),
])  # fmt: skip
def test_capsules_that_cannot_be_read(fields, words):
    with pytest.raises(ValueError, match=words):
        mx.from_dlpack(capsule(**fields))


def test_too_long_an_axis():
    with pytest.raises(OverflowError):
        mx.from_dlpack(capsule(shape=(ctypes.c_int64 * 1)(1 << 40)))


# ---- asarray, objects of other libraries ----
def test_asarray():
    a = mx.array([1, 2])
    assert mx.asarray(a) is a and mx.asarray(a, copy=True) is not a
    assert mx.asarray(a, mx.float32).dtype == mx.float32
    assert mx.asarray([1, 2.5]).dtype == mx.float32
    for call in (lambda: mx.asarray(a, mx.float32, copy=False), lambda: mx.asarray([1], copy=False)):
        with pytest.raises(ValueError):
            call()


class Wrapped:
    def __init__(self, value):
        self.value = value

    def __mlx_array__(self):
        return self.value


class Arrayable:
    def __array__(self, dtype=None, copy=None):
        return np.array([1.5, 2.5])


def test_objects_that_can_be_arrays():
    for x in (Wrapped(mx.array([1.5, 2.5])), Arrayable(), mx.ArrayLike([1.5, 2.5]), mx.ArrayLike(np.array([1.5, 2.5]))):
        assert mx.array(x).tolist() == [1.5, 2.5]
        assert mx.add(x, 1).tolist() == [2.5, 3.5]
        assert (mx.array([1.0, 1.0]) * x).tolist() == [1.5, 2.5]
    with pytest.raises(ValueError):
        mx.array(object())


# ---- pickles and copies ----
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_pickles(dtype, protocol):
    a = of(dtype, range(6)).reshape(2, 3)
    for x in (a, a.T, a[:, :0], a[0, 0]):
        back = pickle.loads(pickle.dumps(x, protocol))
        assert back.dtype == x.dtype and back.shape == x.shape and back.tolist() == x.tolist()
    assert pickle.loads(pickle.dumps(a.dtype, protocol)) == a.dtype


def test_state():
    a, b = mx.array([1, 2]), mx.array([3.0])
    b.__setstate__(a.__getstate__())
    assert b.dtype == mx.int32 and b.tolist() == [1, 2]
    for state in ((b"123", (1,), mx.int32), (b"1234", (-1,), mx.int32), ("text", (1,), mx.int32), (b"1234", [1], mx.int32)):
        with pytest.raises((ValueError, TypeError)):
            b.__setstate__(state)


def test_copies_are_independent():
    a = mx.array([1, 2])
    for other in (copy.copy(a), copy.deepcopy(a), copy.deepcopy({"x": [a]})["x"][0], mx.array(a)):
        other += 1
        assert a.tolist() == [1, 2] and other.tolist() == [2, 3]


def test_array_namespace():
    a = mx.array([1])
    assert a.__array_namespace__() is sys.modules["keel.core"]
    with pytest.raises(ValueError):
        a.__array_namespace__(api_version="2023.12")


# ---- pickles that cross to MLX and back ----
# Written by MLX 0.32.2 with NumPy 2: [[0, 1, 2], [3, 1, 0]] of every dtype, 1.5, zeros of (0, 2), and a transposed array.
PICKLES_OF_MLX = (
    'c-pm;-D=`M7>2+6X{;8OJ&;~Pdm`#e=|RD;o^8N`-hd=AHi4K(OrXLpxCh%R%-'
    'MdufnLd8$zDV6pq<G?O|6nC%MN5RnV<K0GjB3W_3>{7vhoAZiDpMpFhZhFgS(a!#V!)fieqbmzwzQHl4h7rXN%T|4Yj6ekobI*G)A%OMBzM%QzxO'
    '5iI&YoQVqu&0TX`VK(g@xZ}8ldOxaZK(W?<{oGfN8TO`{ZT(9`JLZt6F91g#|(2`XqBxtV(6_98Fqz@+CqfNBb50fkORO-'
    ';vy*lG~r*A2riJTU+z2*^RS;>_prd(mloy&6RZqfGjLE8-g31m=c4ICkF5nsCHh+e^c=MdnGg~-'
    'HZdMSAuHZWxiyX=+2uF7ETTzd<V^SiRw4@DCyGocEl<$owGE&C3{!t%RiFZVvG%0^!xDgPgns%}^ULHYkFD4ltzPJ+l1+0lu}j>0t<@Rin_P-'
    '6t$7DBW$fn^^I!=N=6XzVNsgfbBeC8Gc}N>O>6(@u6YfmkNuvGDTT&l?86>Be3^cTs09YECqr1@4`I59cF3mU|uyW3PYb<1{-==8hFu@evaj-'
    'qU)Z0{rP0_AiVQ&kt{p`380*vUP<$KS^RMoX?`UJ3jupY+1Y-d@BA^YVm(cTdy0@I|%'
)
WITH_KEEL_MLX = """
import base64, pickle, sys, zlib
import mlx.core as mx, numpy as np

data, others = (base64.b85decode(line) for line in sys.stdin.read().split())
read, mine = pickle.loads(zlib.decompress(data)), pickle.loads(others)
assert mx.__name__ == "keel.core" and mx.array.__module__ == mx.Dtype.__module__ == "mlx.core" and repr(mx.array) == "<class 'mlx.core.array'>"
for arrays in (read, mine):
    for name, x in arrays.items():
        assert type(x) is mx.array
        if hasattr(mx, name):
            assert x.dtype == getattr(mx, name), name
            assert x.tolist() == mx.array([[0, 1, 2], [3, 1, 0]]).astype(x.dtype).tolist(), name
    assert arrays["scalar"].tolist() == 1.5 and arrays["nothing"].shape == (0, 2) and arrays["transposed"].tolist() == [[1, 3], [2, 4]]
numbers = "bool_ uint8 uint16 uint32 uint64 int8 int16 int32 int64 float16 float32 float64 bfloat16 complex64".split()
for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
    for name, x in read.items():
        again = pickle.loads(pickle.dumps(x, protocol))
        assert again.dtype == x.dtype and again.shape == x.shape and again.tolist() == x.tolist()
        # The form: an object of mlx.core.array, made bare, that gets an array of NumPy and a number.
        make, arguments, (elements, number) = x.__reduce_ex__(protocol)[:3]
        assert arguments == (mx.array,) and type(elements) is np.ndarray and numbers[number] == (name if hasattr(mx, name) else numbers[number])
        assert elements.shape == x.shape and (elements.dtype == np.uint16) == (x.dtype in (mx.bfloat16, mx.uint16))
    for x in (mx.float32, mx.bool_, mx.bfloat16):
        assert pickle.loads(pickle.dumps(x, protocol)) == x
print(base64.b85encode(pickle.dumps(read, 4)).decode())
"""


def keel_mlx(script, text):
    package = pathlib.Path(__file__).parents[1] / "mlx"
    environment = {**os.environ, "PYTHONPATH": str(package)}
    run = subprocess.run([sys.executable, "-c", script], input=text, env=environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return run.stdout


def test_pickles_with_keel_mlx():
    """It reads those of MLX, and those that keel.core writes without it; what it writes has MLX's name and form."""
    arrays = {d: mx.array([[0, 1, 2], [3, 1, 0]]).astype(getattr(mx, d)) for d in DTYPES}
    arrays |= {"scalar": mx.array(1.5), "nothing": mx.zeros((0, 2)), "transposed": mx.array([[1, 2], [3, 4]]).T}
    mine = base64.b85encode(pickle.dumps(arrays, 4)).decode()
    written = base64.b85decode(keel_mlx(WITH_KEEL_MLX, f"{PICKLES_OF_MLX}\n{mine}").strip())
    names = {text for opcode, text, _ in pickletools.genops(written) if opcode.name == "SHORT_BINUNICODE"}
    assert "mlx.core" in names and not any("keel" in name for name in names)
    of_mlx = zlib.decompress(base64.b85decode(PICKLES_OF_MLX))
    assert names == {text for opcode, text, _ in pickletools.genops(of_mlx) if opcode.name == "SHORT_BINUNICODE"}


def test_pickles_without_keel_mlx():
    assert mx.array.__module__ == "keel.core"
    assert b"numpy" not in pickle.dumps(mx.array([1, 2])) and b"mlx" not in pickle.dumps(mx.array([1, 2]))


def test_a_bare_array():
    """array.__new__(array), as pickles of MLX need it, is an array; array() is an error."""
    x = mx.array.__new__(mx.array)
    assert x.shape == () and x.tolist() is False
    x.__setstate__((np.array([1.5], np.float32), 10))
    assert x.dtype == mx.float32 and x.tolist() == [1.5]
    for state in ((np.array([1]), 14), (np.array([1]), -1), (np.array([1], np.int8), 7), (), (1,), (b"abc", (1,), mx.int32), (3, 4)):
        with pytest.raises((TypeError, ValueError)):
            x.__setstate__(state)
        assert x.tolist() == [1.5]
    with pytest.raises(TypeError, match="'val'"):
        mx.array()

    class Sub(mx.array):
        pass

    with pytest.raises(TypeError):
        Sub()
    assert Sub([1, 2]).tolist() == [1, 2] and mx.array(val=3, dtype=mx.int8).dtype == mx.int8
