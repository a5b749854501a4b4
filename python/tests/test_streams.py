"""Streams, devices and memory: contexts, streams of threads, limits."""

import os
import pathlib
import shutil
import subprocess
import sys
import threading

import keel.core as mx
import pytest

before = mx.default_device(), mx.default_stream(mx.default_device())


@pytest.fixture(autouse=True)
def defaults_stay():
    yield
    assert mx.default_device() == before[0] and mx.default_stream(before[0]) == before[1]


@pytest.fixture
def on_the_cpu():
    """Contexts in several threads at once put the default device of the process back in any order."""
    mx.set_default_device(mx.cpu)
    yield
    mx.set_default_device(before[0])


def test_devices():
    cpu = mx.Device(mx.cpu, 0)
    assert cpu == mx.cpu and cpu.type == mx.cpu and repr(cpu) == "Device(cpu, 0)" and cpu != mx.Device(mx.gpu, 0)
    assert {cpu: 1}[mx.Device(mx.cpu)] == 1 and mx.is_available(mx.cpu) and mx.device_count(mx.cpu) == 1
    assert isinstance(mx.device_info(mx.cpu), dict) and mx.cpu.name == "cpu" and repr(mx.DeviceType.gpu) == "DeviceType.gpu"
    for call in (lambda: mx.Device("cpu"), lambda: mx.set_default_device("cpu"), lambda: mx.is_available(3), lambda: mx.device_count("x"),
                 lambda: mx.new_stream("cpu"), lambda: mx.default_stream(None)):  # fmt: skip
        with pytest.raises(TypeError):
            call()


def test_streams():
    one, two = mx.new_stream(mx.cpu), mx.new_stream(mx.Device(mx.cpu, 0))
    assert one != two and one == one and one.device == mx.cpu and "Stream(Device(cpu, 0)" in repr(one)
    assert hash(one) == hash(one)
    assert mx.default_stream(mx.cpu) == mx.default_stream(mx.Device(mx.cpu, 0))
    a = mx.add(1, 2, stream=one)
    b = mx.multiply(a, a, stream=two)
    mx.synchronize(one), mx.synchronize(two), mx.synchronize()
    assert b.item() == 9
    with pytest.raises(TypeError):
        mx.set_default_stream("x")
    for wrong in ("cpu", 3, object()):
        with pytest.raises(TypeError):
            mx.add(1, 2, stream=wrong)


def test_contexts():
    stream = mx.new_stream(mx.cpu)
    with mx.stream(stream):
        assert mx.default_stream(mx.cpu) == stream and mx.default_device() == mx.cpu
        with mx.stream(mx.cpu):
            assert mx.default_device() == mx.cpu
        assert mx.default_stream(mx.cpu) == stream
        assert (mx.array([1, 2]) + 1).tolist() == [2, 3]
    with pytest.raises(KeyError):
        with mx.stream(stream):
            raise KeyError
    with mx.StreamContext(mx.Device(mx.cpu, 0)):
        assert mx.default_device() == mx.cpu
    with mx.stream(None):
        pass
    for wrong in ("cpu", 3):
        with pytest.raises(TypeError):
            mx.stream(wrong).__enter__()


def test_default_stream():
    stream, old = mx.new_stream(mx.cpu), mx.default_stream(mx.cpu)
    mx.set_default_stream(stream)
    try:
        assert mx.default_stream(mx.cpu) == stream and mx.exp(0).item() == 1
    finally:
        mx.set_default_stream(old)


def test_every_thread_has_its_defaults(on_the_cpu):
    seen = []

    def work():
        stream = mx.new_stream(mx.cpu)
        with mx.stream(stream):
            seen.append(mx.default_stream(mx.cpu) == stream and (mx.ones((10,)) * 2).sum().item() == 20)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert seen == [True] * 8


def test_thread_local_streams(on_the_cpu):
    local = mx.new_thread_local_stream(mx.cpu)
    assert "ThreadLocalStream" in repr(local) and local == local and local.device == mx.cpu
    results = []

    def work(n):
        with mx.stream(local):
            x = mx.full((100,), n)
            for _ in range(10):
                x = x + 1
            results.append(mx.add(x, 0, stream=local).sum().item() == 100 * (n + 10))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert results == [True] * 8
    mx.synchronize(local)


def test_other_streams():
    assert mx.new_thread_unsafe_stream(mx.cpu).device == mx.cpu
    mx.clear_streams()


def test_memory():
    mx.clear_cache()
    start = mx.get_active_memory()
    mx.reset_peak_memory()
    a = mx.zeros((1 << 20,)) + 1
    mx.eval(a)
    assert mx.get_active_memory() >= start + (4 << 20) and mx.get_peak_memory() >= mx.get_active_memory()
    del a
    mx.synchronize()
    assert mx.get_active_memory() < start + (4 << 20) and mx.get_cache_memory() >= 0
    for f in (mx.set_cache_limit, mx.set_memory_limit, mx.set_wired_limit):
        old = f(1 << 30)
        assert f(old) in (1 << 30, old)
        with pytest.raises(TypeError):
            f(-1)
        with pytest.raises(TypeError):
            f("x")
    assert mx.get_memory_limit() > 0
    x = mx.ones((10,))
    assert mx.get_array_buffer_size(x, [x, {"y": mx.ones((5,))}]) == 60
    assert mx.metal.is_available() is False and mx.metal.device_info() == {}
    assert isinstance(mx.cuda.is_available(), bool)
    for call in (lambda: mx.metal.start_capture("x"), lambda: mx.metal.stop_capture()):
        with pytest.raises(RuntimeError):
            call()


def test_a_group_of_one():
    group = mx.distributed.init()
    assert group.rank() == 0 and group.size() == 1 and group.split(0).size() == 1
    assert mx.distributed.is_available() is mx.distributed.is_available("mpi")
    x = mx.array([1, 2])
    for f in (mx.distributed.all_sum, mx.distributed.all_max, mx.distributed.all_min, mx.distributed.all_gather, mx.distributed.sum_scatter):
        assert f(x, group=group).tolist() == [1, 2]
    for call in (lambda: mx.distributed.send(x, 0), lambda: mx.distributed.recv((2,), mx.int32, 0), lambda: mx.distributed.recv_like(x, 0)):
        with pytest.raises(ValueError):
            call()
    with pytest.raises(RuntimeError):
        mx.distributed.init(strict=True, backend="ring")


# ---- the default device: each case in a process of its own, with CUDA's libraries of the library's own tests ----
FAKES = pathlib.Path(__file__).parents[2] / "tests" / "backend" / "cuda"


@pytest.fixture(scope="module")
def fakes(tmp_path_factory):
    """A folder with a driver of CUDA that has one device, and a compiler."""
    folder, compiler = tmp_path_factory.mktemp("fakes"), shutil.which("cc") or shutil.which("gcc")
    if not compiler:
        pytest.skip("there is no C compiler to make the fake driver of CUDA with")
    (folder / "lib64").mkdir()
    for name in ("cuda", "nvrtc"):
        command = [compiler, "-shared", "-fPIC", "-D_GNU_SOURCE", "-w", "-o", folder / "lib64" / f"lib{name}.so", FAKES / f"fake_{name}.c", "-lpthread"]
        subprocess.run(command, check=True)
    return folder


def in_process(source, folder, gpu=None, driver=None, more=None):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("KEEL_", "FAKE_"))}
    env |= {"KEEL_CUDA_DRIVER": str(driver or folder / "lib64" / "libcuda.so"), "KEEL_CUDA_PATH": str(folder)}
    if gpu is not None:
        env["KEEL_GPU"] = gpu
    env |= more or {}
    done = subprocess.run([sys.executable, "-c", "import keel.core as mx\n" + source], capture_output=True, text=True, timeout=60, env=env)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


LOADED = "maps = open('/proc/self/maps').read()\nprint('libcuda' in maps, 'libOpenCL' in maps)\n"


@pytest.mark.parametrize("gpu, driver, kind", [
    (None, None, "gpu"), ("", None, "gpu"), ("cuda", None, "gpu"), ("none", None, "cpu"), ("nonsense", None, "cpu"),
    (None, "/none/libcuda.so", "cpu"), ("cuda", "/none/libcuda.so", "cpu"),
])  # fmt: skip
def test_a_gpu_of_cuda_is_the_default_device(fakes, gpu, driver, kind):
    assert in_process("print(mx.default_device())", fakes, gpu, driver) == f"Device({kind}, 0)"
    source = "with mx.stream(mx.cpu): pass\nprint(mx.default_stream(mx.default_device()).device)"
    assert in_process(source, fakes, gpu, driver) == f"Device({kind}, 0)"
    if kind == "cpu":  # and what is computed without naming a device is computed there
        assert in_process("print((mx.arange(3) + 1).tolist())", fakes, gpu, driver) == "[1, 2, 3]"


@pytest.mark.parametrize("rank", [0, 1, 2])
def test_the_gpu_of_a_launchers_process_is_its_own(fakes, rank):
    """Also before processes meet: mlx-lm makes a stream when it is imported."""
    more = {"OMPI_COMM_WORLD_LOCAL_RANK": str(rank), "FAKE_CUDA_DEVICES": "2"}
    own = f"Device(gpu, {rank % 2})"
    for source in (
        "print(mx.new_stream(mx.gpu).device)",
        "print(mx.default_stream(mx.gpu).device)",
        "print(mx.new_stream(mx.default_device()).device)",
        "mx.set_default_device(mx.gpu)\nprint(mx.default_device())",
        "assert mx.default_device() == mx.gpu and mx.default_device() != mx.cpu\nprint(mx.default_device())",
        "mx.set_default_device(mx.cpu)\nprint(mx.default_stream(mx.gpu).device)",
    ):
        assert in_process(source, fakes, more=more) == own
    named = "mx.set_default_device(mx.Device(mx.gpu, 1))\nassert mx.Device(mx.gpu, 1) == mx.gpu\nprint(mx.new_stream(mx.gpu).device)"
    assert in_process(named, fakes, more=more) == "Device(gpu, 1)"


def test_who_names_a_device_loads_no_driver(fakes):
    """Nor does an import; without CUDA no other driver is looked for."""
    assert in_process(LOADED, fakes) == "False False"
    cpu = "mx.set_default_device(mx.cpu)\nassert (mx.ones(3) + 1).tolist() == [2, 2, 2] and mx.default_device() == mx.cpu\n"
    assert in_process(cpu + LOADED, fakes) == "False False"
    assert in_process("x = mx.ones(3, stream=mx.new_stream(mx.cpu))\n" + LOADED, fakes) == "False False"
    assert in_process("mx.default_device()\n" + LOADED, fakes) == "True False"
    assert in_process("mx.eval(mx.ones(3))\n" + LOADED, fakes, None, "/none/libcuda.so") == "False False"


def test_a_process_that_forks_before_it_computes(fakes):
    source = (
        "import os\npid = os.fork()\n"
        "if not pid: os._exit(0 if mx.default_device() == mx.gpu else 1)\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), mx.default_device())"
    )
    assert in_process(source, fakes) == "0 Device(gpu, 0)"


def test_the_choice_while_the_interpreter_ends(fakes):
    source = (
        "import threading\n"
        "def work():\n    while True: mx.default_device(); mx.new_stream(mx.cpu)\n"
        "threading.Thread(target=work, daemon=True).start()\nprint('end')"
    )
    for _ in range(5):
        assert in_process(source, fakes) == "end"
