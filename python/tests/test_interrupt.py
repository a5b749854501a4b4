"""Ctrl-C, and other signals, while the library waits: the wait ends, the work goes on."""

import io
import os
import signal
import subprocess
import sys
import threading

import keel.core as mx
import pytest


class Held(io.BytesIO):
    """A file whose data, not its header, is read when the event `go` is set; `reached`: a reader is there."""

    def __init__(self, data):
        super().__init__(data)
        self.go, self.reached = threading.Event(), threading.Event()

    def read(self, n=-1):
        if self.tell() >= 128:
            self.reached.set()
            self.go.wait()
        return super().read(n)


def held():
    file = io.BytesIO()
    mx.save(file, mx.arange(1, 5).astype(mx.float32))
    file = Held(file.getvalue())
    return file, mx.load(file, format="npy")


def when_reached(file, number, begin=None):
    """Sends the signal when the data is asked for, and not before `begin`: whoever waits is in the library then."""

    def send():
        file.reached.wait()
        if begin:
            begin.wait()
        os.kill(os.getpid(), number)

    thread = threading.Thread(target=send)
    thread.start()
    return thread


def gradient(x):
    def f(w):
        mx.eval(x)
        return (w * x).sum()

    return mx.grad(f)(mx.array(2.0))


def arrays_of(x):
    mx.async_eval(x)
    mx.synchronize()
    mx.eval(x)


@pytest.mark.parametrize("wait", [
    mx.eval, lambda x: mx.eval({"a": [x, x + 1]}), lambda x: x.tolist(), lambda x: x[1].item(), repr, memoryview, bytes,
    lambda x: x.__dlpack__(), lambda x: x.__array__(), lambda x: mx.save(os.devnull, x), lambda x: mx.save(io.BytesIO(), x),
    lambda x: bool((x > 0).all()), lambda x: float(x.sum()), lambda x: list(x)[0].item(), lambda x: mx.array_equal(x, x).item(),
    lambda x: mx.eval(mx.compile(lambda y: y * 2 + 1)(x)), gradient, lambda x: mx.eval(mx.vmap(lambda y: y + 1)(x)), arrays_of,
    lambda x: mx.savez(io.BytesIO(), x), lambda x: mx.eval(mx.sort(x, stream=mx.new_stream(mx.cpu))), lambda x: x.__copy__().tolist(),
    lambda x: x[x > 2], lambda x: x[x > 2, None], lambda x: x.__setitem__((x > 2, ...), 1), lambda x: x.at[x > 2].add(1), mx.nonzero,
    mx.where, mx.argwhere, mx.flatnonzero, lambda x: mx.save_gguf(os.devnull, {"x": x}), lambda x: mx.save_gguf(os.devnull, {}, {"x": x}),
    lambda x: mx.save_safetensors(os.devnull, {"x": x}), lambda x: next(iter(x)).item(), lambda x: int(x[0]),
])  # fmt: skip
def test_ctrl_c_ends_a_wait(wait):
    file, x = held()
    sender = when_reached(file, signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        wait(x)
    sender.join()
    assert not file.go.is_set()  # the work is still held back
    file.go.set()
    assert x.tolist() == [1, 2, 3, 4] and (x + 1).sum().item() == 14


@pytest.mark.parametrize("method", ["read", "write"])
def test_ctrl_c_in_a_method_of_a_file(method):
    """The main thread itself reads headers and writes: there Python raises the exception, and it comes out."""
    file = io.BytesIO()
    mx.save(file, mx.arange(3))
    reached, go = threading.Event(), threading.Event()

    def wait(*args):
        reached.set()
        while not go.wait(0.01):  # a signal just before the system call does not end it; the next round sees the signal
            pass

    blocked = type("File", (io.BytesIO,), {method: wait})(file.getvalue())
    blocked.reached = reached
    sender = when_reached(blocked, signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        mx.load(blocked, format="npy") if method == "read" else mx.save(blocked, mx.arange(3))
    sender.join()


def test_ctrl_c_again():
    """Each wait ends by a signal of its own."""
    file, x = held()
    for _ in range(3):
        begin = threading.Event()
        sender = when_reached(file, signal.SIGINT, begin)
        with pytest.raises(KeyboardInterrupt):
            begin.set()
            x.tolist()
        sender.join()
    assert (mx.ones((3,)) + 1).tolist() == [2, 2, 2]  # other work goes on
    file.go.set()
    assert x.tolist() == [1, 2, 3, 4]


@pytest.fixture(autouse=True)
def listen():
    """A process that was started in the background may ignore SIGINT, and Python leaves it so."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def handler():
    """Installs a handler of SIGUSR1."""
    before = signal.getsignal(signal.SIGUSR1)
    yield lambda f: signal.signal(signal.SIGUSR1, lambda number, frame: f())
    signal.signal(signal.SIGUSR1, before)


def test_a_handler_that_raises_nothing(handler):
    """It runs while the main thread waits; the wait goes on. It may use the library."""
    file, x = held()
    values = []

    def run():
        values.append((mx.arange(5) + 1).tolist())
        file.go.set()

    handler(run)
    sender = when_reached(file, signal.SIGUSR1)
    assert x.tolist() == [1, 2, 3, 4] and values == [[1, 2, 3, 4, 5]]
    sender.join()


def test_an_exception_of_a_handler(handler):
    class Stop(Exception):
        pass

    def stop():
        raise Stop("enough")

    handler(stop)
    file, x = held()
    sender = when_reached(file, signal.SIGUSR1)
    with pytest.raises(Stop, match="enough") as info:
        mx.eval(x)
    sender.join()
    assert info.traceback[-1].name == "stop"
    file.go.set()
    assert x.tolist() == [1, 2, 3, 4]


def test_waits_of_other_threads_go_on():
    file, x = held()
    values = []
    thread = threading.Thread(target=lambda: values.append(x.tolist()))
    thread.start()
    begin = threading.Event()
    sender = when_reached(file, signal.SIGINT, begin)
    with pytest.raises(KeyboardInterrupt):
        begin.set()
        x.tolist()
    sender.join()
    assert values == []
    file.go.set()
    thread.join()
    assert values == [[1, 2, 3, 4]]


def test_ctrl_c_ends_the_process():
    """Without a handler of its own a program ends as Python ends it, with work that never comes to an end."""
    source = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from test_interrupt import *\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "file, x = held()\n"
        "when_reached(file, signal.SIGINT)\n"
        "x.tolist()\n"
    )
    done = subprocess.run([sys.executable, "-c", source, os.path.dirname(__file__)], capture_output=True, text=True, timeout=60)
    assert done.returncode == -signal.SIGINT and done.stderr.endswith("KeyboardInterrupt\n") and "x.tolist()" not in done.stdout
