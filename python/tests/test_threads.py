"""Many threads, the end of the interpreter, and fork."""

import os
import subprocess
import sys
import threading

import keel.core as mx
import pytest

N = 16


def together(work):
    """Runs work(n) in 16 threads that start at once; the exceptions that came out."""
    failed, start = [], threading.Barrier(N)

    def run(n):
        try:
            start.wait()
            work(n)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=run, args=(n,)) for n in range(N)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return failed


def test_building_and_evaluating():
    shared = mx.arange(1000)

    def work(n):
        for k in range(30):
            x = shared * n + k
            y = mx.sort(mx.concatenate([x, x]))
            assert y.sum().item() == 2 * (499500 * n + 1000 * k)

    assert together(work) == []


def test_one_lazy_array_read_by_all():
    x = mx.ones((500, 500))
    for _ in range(5):
        x = mx.tanh(x @ x * 1e-3) + 1
    values = []
    assert together(lambda n: values.append(x.sum().item())) == []
    assert len(set(values)) == 1


def test_one_compiled_function():
    f = mx.compile(lambda x, n: (x * n + 1).sum())

    def work(n):
        for k in range(20):
            assert f(mx.ones((10 + k % 3,)), n).item() == (10 + k % 3) * (n + 1)

    assert together(work) == []


def test_gradients_in_threads():
    def work(n):
        for _ in range(20):
            value, grad = mx.value_and_grad(lambda x: (x * x).sum() * n)(mx.array([1.0, 2.0]))
            assert grad.tolist() == [2 * n, 4 * n] and value.item() == 5 * n

    assert together(work) == []


def test_in_place_changes_while_others_read():
    a = mx.zeros((100,))

    def work(n):
        nonlocal a
        for _ in range(50):
            if n % 2:
                a += 1
            else:
                values = a.tolist()
                assert len(set(values)) == 1

    assert together(work) == []


def test_views_in_threads():
    def work(n):
        for _ in range(50):
            a = mx.full((64,), n)
            view = memoryview(a)
            b = a + 1
            del a
            assert b.tolist() == [n + 1] * 64 and view.tolist() == [n] * 64

    assert together(work) == []


# ---- processes ----
def run(source, timeout=60):
    return subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, timeout=timeout, env=os.environ)


@pytest.mark.parametrize("source", [
    "x = mx.ones((1000, 1000))\nfor _ in range(8): x = x @ x * 1e-3\nmx.async_eval(x)",
    "x = mx.ones((4,)) + 1",
    "import io\nf = io.BytesIO()\nmx.save(f, mx.arange(100000))\nf.seek(0)\nx = mx.load(f) + 1\nmx.async_eval(x)",
    "import threading\nthreading.Thread(target=lambda: mx.eval(mx.ones((500, 500)) @ mx.ones((500, 500)))).start()",
    "import threading\nt = threading.Thread(target=lambda: [mx.eval(mx.ones((50, 50)) + k) for k in range(10**6)], daemon=True)\nt.start()",
    "f = mx.compile(lambda x: x + 1)\nf(mx.ones((3,)))\nclass A: pass\na = A(); a.f = f; a.a = a; g = mx.vmap(f)",
    "s = mx.new_stream(mx.cpu)\nx = mx.add(mx.ones((1000,)), 1, stream=s)\nmx.async_eval(x)\nv = memoryview(x)",
])  # fmt: skip
def test_the_interpreter_ends_with_work_pending(source):
    done = run("import keel.core as mx\n" + source + "\nprint('end')")
    assert (done.returncode, done.stdout, done.stderr) == (0, "end\n", "")


def test_reads_that_the_end_of_the_interpreter_forbids():
    """They count as cancelled: nobody is told of them as of errors that nobody saw."""
    source = """
import atexit, io, threading
go, reached = threading.Event(), threading.Event()

class File(io.BytesIO):
    def read(self, n=-1):
        if threading.current_thread() is not threading.main_thread():
            reached.set()
            go.wait()
        return super().read(n)

def late():  # after the handler of keel.core, which is registered later
    go.set()
    try:
        arrays["c"].tolist()
    except RuntimeError as e:
        print(e.code)

atexit.register(late)
import keel.core as mx
file = io.BytesIO()
mx.save_safetensors(file, {k: mx.arange(10) for k in "abc"})
arrays = mx.load(File(file.getvalue()), format="safetensors")
mx.async_eval(arrays["a"], arrays["b"])
reached.wait()
"""
    done = run(source)
    assert (done.returncode, done.stdout, done.stderr) == (0, "ECANCELLED\n", "")


def test_an_exception_at_the_end():
    done = run("import keel.core as mx\nx = mx.ones((3,)) + 1\nmx.async_eval(x)\nraise SystemExit(3)")
    assert done.returncode == 3 and done.stderr == ""


def test_fork():
    """A child may end, also with os._exit; what it asks of the library either works or is an exception."""
    source = """
import os, sys
import keel.core as mx
x = mx.ones((100,)) + 1
mx.eval(x)
pid = os.fork()
if not pid:
    try:
        value = (mx.ones((100,)) + 1).sum().item()
        code = 0 if value == 200 else 1
    except RuntimeError:
        code = 0
    os._exit(code)
_, status = os.waitpid(pid, 0)
print(os.waitstatus_to_exitcode(status), (x + 1).sum().item())
"""
    done = run(source)
    assert done.stdout == "0 300.0\n", done.stderr
