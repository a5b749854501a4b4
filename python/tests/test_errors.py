"""Errors of the library as exceptions: classes, messages and attributes, in one thread and in many."""

import sys
import threading

import keel.core as mx
import pytest

ATTRIBUTES = "code operation index axis axis_size position tensor file bytes".split()
a = mx.array([[1.0, 2.0], [3.0, 4.0]])


def raised(call):
    with pytest.raises(Exception) as info:
        call()
    return info.value


@pytest.mark.parametrize("call, kind, code", [
    (lambda: mx.reshape(a, (3,)), ValueError, "ESHAPE"), (lambda: mx.sum(a, 5), ValueError, "EAXIS"), (lambda: mx.sum(a, 5), IndexError, "EAXIS"),
    (lambda: mx.bitwise_and(a, a), ValueError, "EDTYPE"), (lambda: a @ mx.ones((3, 3)), ValueError, "ESHAPE"),
    (lambda: mx.eval(mx.take(a, mx.array([9]))), IndexError, "EINDEX"), (lambda: mx.load("/none/x.npy"), RuntimeError, "EFILE"),
    (lambda: mx.concatenate([]), ValueError, "EARG"), (lambda: mx.conv1d(a, a), ValueError, "ESHAPE"),
])  # fmt: skip
def test_classes_and_codes(call, kind, code):
    error = raised(call)
    assert isinstance(error, kind) and error.code == code and str(error)
    for name in ATTRIBUTES:
        assert hasattr(error, name)


def test_an_index_out_of_range():
    """The error comes where the value is read, and names the operation that caused it."""
    index = mx.array([0, 1, 7])
    result = mx.take(a, index, axis=0) * 2
    error = raised(result.tolist)
    assert isinstance(error, IndexError)
    assert (error.code, error.index, error.axis, error.axis_size, error.position) == ("EINDEX", 7, 0, 2, 2)
    assert error.operation == "take" and "take: index 7" in str(error) and "7" in str(error) and "2" in str(error)
    again = raised(lambda: mx.eval(result))
    assert again.index == 7  # reading again gives the same error
    assert (a + 1)[0, 0].item() == 2  # other arrays are good


def test_an_axis_out_of_range():
    error = raised(lambda: mx.max(a, -3))
    assert isinstance(error, mx.AxisError) and isinstance(error, (ValueError, IndexError))
    assert "-3" in str(error) and error.file is None and error.bytes is None and error.index is None


b = mx.ones((2, 3, 4))


@pytest.mark.parametrize("call, axis", [
    (lambda: mx.sum(b, 3), 3), (lambda: mx.sum(b, (0, -4)), -4), (lambda: mx.sum(b, (1, -2)), -2), (lambda: mx.softmax(b, 9), 9), (lambda: mx.argmax(b, -5), -5),
    (lambda: mx.sort(b, 3), 3), (lambda: mx.concatenate([b, b], 3), 3), (lambda: mx.stack([b, b], 5), 5), (lambda: mx.expand_dims(b, 6), 6),
    (lambda: mx.squeeze(b, 3), 3), (lambda: mx.take(b, mx.array([0]), 4), 4), (lambda: mx.take_along_axis(b, mx.zeros((2, 3, 4), mx.int32), 3), 3),
    (lambda: mx.cumsum(b, 3), 3), (lambda: mx.transpose(b, (0, 1, 3)), 3), (lambda: mx.moveaxis(b, 0, 7), 7), (lambda: mx.swapaxes(b, -9, 0), -9),
    (lambda: mx.repeat(b, 2, 3), 3), (lambda: mx.split(b, 2, -4), -4), (lambda: mx.diagonal(b, 0, 1, 3), 3), (lambda: mx.diff(b, axis=3), 3),
    (lambda: mx.roll(b, 1, 3), 3), (lambda: mx.flip(b, 3), 3), (lambda: mx.linalg.norm(b, axis=3), 3), (lambda: mx.linalg.norm(b, "fro", axis=(0, 3)), 3),
    (lambda: mx.linalg.cross(b, b, axis=3), 3), (lambda: mx.vmap(lambda x: x, in_axes=3)(b), 3), (lambda: mx.logsumexp(b, 3), 3), (lambda: mx.median(b, 3), 3),
    (lambda: b.sum(3), 3), (lambda: b.flatten(2, 1), None),
])  # fmt: skip
def test_the_axis_of_an_axis_error(call, axis):
    """As it was given; None where the error is about several."""
    error = raised(call)
    assert isinstance(error, mx.AxisError) and error.axis == axis and error.code == "EAXIS" and error.index is None, repr(error)


@pytest.mark.parametrize("call", [
    lambda: mx.concatenate([mx.zeros(2**30)] * 3), lambda: mx.repeat(mx.zeros(2**30), 4), lambda: mx.tile(mx.zeros(2**30), 4),
    lambda: mx.pad(mx.zeros(2**30), 2**30), lambda: mx.flatten(mx.broadcast_to(mx.array(0), (2**20, 2**20))), lambda: mx.arange(2**40, 2**42),
    lambda: mx.broadcast_to(mx.array(0), (2**20, 2**20)).reshape(-1), lambda: mx.kron(mx.broadcast_to(mx.array(0), (2**20,)), mx.broadcast_to(mx.array(0), (2**20,))),
])  # fmt: skip
def test_an_extent_that_is_too_large(call):
    """Programs of MLX catch an OverflowError, others the ValueError of every wrong shape."""
    error = raised(call)
    assert isinstance(error, mx.LimitError) and isinstance(error, ValueError) and isinstance(error, OverflowError)
    assert error.code == "ELIMIT" and "2147483647" in str(error)


def test_lists_of_arrays_of_several_shapes():
    error = raised(lambda: mx.array([mx.array([1.0]), 1.0]))
    assert type(error) is ValueError and "have 1 and 0 axes" in str(error)


def test_every_way_of_reading_reports():
    for read in (lambda x: x.item(), lambda x: x.tolist(), repr, mx.eval, memoryview, bytes, lambda x: x.__dlpack__(), bool, float,
                 lambda x: x.__array__(), lambda x: mx.save("/dev/null", x), format):  # fmt: skip
        failed = mx.take(mx.array([1.0, 2.0]), mx.array([5]))
        assert isinstance(raised(lambda: read(failed)), IndexError), read
    waiting = mx.take(mx.array([1.0, 2.0]), mx.array([5]))
    mx.async_eval(waiting)
    assert isinstance(raised(waiting.item), IndexError)


def test_errors_within_transforms():
    def out_of_range(x):
        return mx.take(x, mx.array([5]), axis=0).sum()

    for call in (lambda: mx.eval(mx.grad(out_of_range)(a)), lambda: mx.eval(mx.compile(out_of_range)(a)), lambda: mx.eval(mx.vmap(out_of_range)(a))):
        assert isinstance(raised(call), IndexError)
    assert isinstance(raised(lambda: mx.grad(lambda x: mx.reshape(x, (3,)))(a)), ValueError)


def test_an_exception_is_not_kept():
    for _ in range(3):
        raised(lambda: mx.reshape(a, (3,)))
    assert mx.reshape(a, (4,)).tolist() == [1, 2, 3, 4]


def test_memory_that_is_not_there():
    error = raised(lambda: mx.eval(mx.zeros((1 << 30, 1 << 20)) + 1))
    assert isinstance(error, (MemoryError, ValueError, RuntimeError, OverflowError))


def test_threads_get_their_own_errors():
    """16 threads make different errors at once: each sees the message of its own."""
    wrong, start = [], threading.Barrier(16)

    def work(n):
        start.wait()
        for k in range(50):
            try:
                if n % 2:
                    mx.reshape(a, (100 * n + k + 5,))
                else:
                    mx.take(mx.arange(3), mx.array([100 * n + k + 3])).item()
            except (ValueError, IndexError) as error:
                number = 100 * n + k + (5 if n % 2 else 3)
                if str(number) not in str(error) or (n % 2 == 0 and error.index != number):
                    wrong.append((n, k, str(error)))
            else:
                wrong.append((n, k, "no error"))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(16)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert wrong == []


def test_sub_interpreters_are_refused():
    try:
        import _xxsubinterpreters as interpreters
    except ImportError:  # CPython 3.13
        import _interpreters as interpreters
    one = interpreters.create()
    source = """
import sys
sys.path[:] = %r
try:
    import keel.core
except ImportError:
    pass
else:
    raise SystemError("imported")
"""
    result = interpreters.run_string(one, source % sys.path)  # raises what the source raises
    assert result is None
    interpreters.destroy(one)


# ---- classes and words that programs match ----
@pytest.mark.parametrize("call", [
    mx.set_default_device, mx.new_stream, mx.default_stream, lambda d: mx.add(1, 2, stream=d), lambda d: mx.ones((2,), stream=d),
    lambda d: mx.eval(a.astype(mx.float16, stream=d)), lambda d: mx.stream(d).__enter__(), lambda d: mx.random.uniform(stream=d),
])  # fmt: skip
def test_a_device_that_is_not_there(call):
    before = mx.default_device()
    error = raised(lambda: call(mx.Device(mx.gpu, 63)))
    assert isinstance(error, ValueError) and "gpu 63 does not exist" in str(error) and error.code == "EDEVICE"
    assert mx.default_device() == before


@pytest.mark.parametrize("call", [
    lambda: mx.zeros(2**31), lambda: mx.zeros((2**31,)), lambda: mx.ones((2, 2**40)), lambda: mx.full(-(2**31) - 1, 1),
    lambda: mx.random.uniform(shape=(2**31,)), lambda: mx.reshape(a, (2**31,)), lambda: mx.broadcast_to(a, (2**31, 2)),
])  # fmt: skip
def test_extents_beyond_int32(call):
    assert isinstance(raised(call), OverflowError)


@pytest.mark.parametrize("call, name", [
    (lambda: mx.can_cast(3, mx.int8), "from_"), (lambda: mx.can_cast(mx.int8, 3), "to"), (lambda: mx.can_cast(mx.int8, a), "to"),
    (lambda: mx.finfo(3), "arg"), (lambda: mx.finfo("float32"), "arg"), (lambda: mx.iinfo(3), "arg"),
    (lambda: mx.searchsorted(a[0], 3.0), "values"), (lambda: mx.searchsorted([1.0], a), "sorted_sequence"),
    (lambda: mx.convolve([1], a), "a"), (lambda: mx.convolve(a[0], 3), "v"), (lambda: mx.diff(3), "a"), (lambda: mx.diff(a, "1"), "n"),
    (lambda: mx.unique(3, 2), "a"), (lambda: mx.unique(a, "2"), "size"), (lambda: mx.result_type(a, 3), "arrays_and_dtypes"),
    (lambda: mx.isdtype(3, "bool"), "dtype"), (lambda: mx.issubdtype(3, mx.number), "arg1"), (lambda: mx.issubdtype(mx.int8, "x"), "arg2"),
    (lambda: mx.distributed.init(backend=3), "backend"), (lambda: mx.grad("a"), "fun"), (lambda: mx.vmap(None), "fun"),
])  # fmt: skip
def test_type_errors_name_the_argument(call, name):
    error = raised(call)
    assert isinstance(error, TypeError) and f"argument '{name}'" in str(error)


def test_backends_of_distributed():
    for strict in (False, True):
        with pytest.raises(ValueError, match="'foo'.*'ring'"):
            mx.distributed.init(strict, "foo")
    for backend in ("any", "mpi", "ring", "nccl", "jaccl"):
        assert mx.distributed.init(backend=backend).size() == 1
        if mx.distributed.is_available(backend):
            assert mx.distributed.init(True, backend).size() == 1
            continue
        with pytest.raises(RuntimeError):
            mx.distributed.init(True, backend)
    assert not mx.distributed.is_available("foo")
