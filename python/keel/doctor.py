"""python -m keel.doctor: which core programs get, the devices, what is missing and why, a self-test.

Ends with 0 when the self-test passes, else with 1.
"""

import argparse
import importlib.metadata
import importlib.util
import io
import os
import platform
import time

import keel
import keel.core as mx
from keel._command import run


def _version(name):
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def core_in_use():
    """A sentence on what `import mlx.core` gives in this environment."""
    if importlib.util.find_spec("mlx") is None:
        return "mlx.core        is not there: install keel-mlx and mlx to run programs written for MLX"
    try:
        import mlx.core as core
    except ImportError as e:
        return f"mlx.core        cannot be imported: {e}"
    if core is mx:
        return f"mlx.core        is Keel (keel-mlx {_version('keel-mlx')}, mlx {_version('mlx') or 'not installed: no mlx.nn; pip install --no-deps mlx==0.32.2'})"
    return f"mlx.core        is MLX {_version('mlx')} ({getattr(core, '__file__', '?')}): install keel-mlx to run it on Keel"


def devices():
    """Lines on each device, and on what was looked for and not found."""
    lines, missing = [], {}
    for kind in (mx.cpu, mx.gpu):
        for i in range(mx.device_count(kind)):
            info = mx.device_info(mx.Device(kind, i))
            facts = ", ".join(f"{k} {v}" for k, v in info.items() if not k.startswith("missing") and k != "device_name")
            lines.append(f"{kind.name} {i}".ljust(16) + f"{info.get('device_name', '?')} ({facts})")
            missing.update((k, v) for k, v in info.items() if k.startswith("missing"))
    lines.append("default".ljust(16) + repr(mx.default_device()))
    lines.extend(f"{k.removeprefix('missing_')}".ljust(16) + f"missing: {v}" for k, v in missing.items())
    return lines


def files():
    """Lines on the kinds of files that cannot be written and read, since a library is missing."""
    try:
        mx.savez(io.BytesIO(), mx.array(0))
    except (ValueError, RuntimeError) as e:
        return ["npz".ljust(16) + f"missing: {str(e).rpartition('npz: ')[2]}"]
    return []


# An unset variable, an empty one and what has no meaning are "error".
_OUT_OF_RANGE = os.environ.get("KEEL_OUT_OF_RANGE") or "error"


def out_of_range():
    """A line on what becomes of an index out of range in an array of indices."""
    said = {
        "error": "an error where the value is read; KEEL_OUT_OF_RANGE=zero: such reads give 0, such writes are dropped, and exit counts them",
        "zero": "KEEL_OUT_OF_RANGE=zero: such reads give 0, such writes are dropped, and exit prints how many operations met one",
    }
    return "out of range".ljust(16) + said.get(_OUT_OF_RANGE, f"an error: KEEL_OUT_OF_RANGE={_OUT_OF_RANGE} is neither error nor zero")


def self_test(device):
    """Computes on the device what is known beforehand; returns the names of what went wrong."""
    wrong = []

    def check(name, ok):
        if not ok:
            wrong.append(name)

    with mx.stream(device):
        a = mx.arange(12, dtype=mx.float32).reshape(3, 4)
        check("sums", (a @ a.T).tolist() == [[14, 38, 62], [38, 126, 214], [62, 214, 366]])
        check("gradients", mx.grad(lambda x: (x * x).sum())(a).tolist() == (a * 2).tolist())
        f = mx.compile(lambda x: mx.exp(mx.log(x)))
        check("compiled functions", mx.allclose(f(a + 1), a + 1).item())
        check("random numbers", mx.random.uniform(shape=(4,), key=mx.random.key(0)).size == 4)
        check("softmax", abs(mx.softmax(a, axis=1).sum().item() - 3) < 1e-5)
        try:
            mx.take(a, mx.array([3]), axis=0).tolist()
            check("an index out of range", _OUT_OF_RANGE == "zero")
        except IndexError as e:
            check("an index out of range", e.index == 3 and e.axis_size == 3)
    return wrong


def main():
    argparse.ArgumentParser(prog="python -m keel.doctor", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    print(f"keel            {keel.__version__} ({mx.__file__}), Python {platform.python_version()}")
    print(core_in_use())
    print("\n".join([*devices(), *files(), out_of_range()]))
    failed = False
    for kind in (mx.cpu, mx.gpu):
        for i in range(mx.device_count(kind)):
            start = time.perf_counter()
            wrong = self_test(mx.Device(kind, i))
            failed = failed or bool(wrong)
            took = f"{time.perf_counter() - start:.2f} s"
            print(f"self-test {kind.name} {i}".ljust(16) + (f"failed: {', '.join(wrong)}" if wrong else f"passed ({took})"))
    return failed


if __name__ == "__main__":
    run(main)
