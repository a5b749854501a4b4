"""python -m keel.doctor, python -m keel and python -m keel.gguf as commands: what they say and how they end."""

import os
import subprocess
import sys

import pytest


def command(module, *arguments, **environment):
    """Runs a module with no GPU but what the environment names."""
    own = {k: v for k, v in os.environ.items() if not k.startswith("KEEL_GPU")}
    own |= {"KEEL_CUDA_DRIVER": "/nonexistent/libcuda.so.1", "KEEL_OPENCL_LIBRARY": "/nonexistent/libOpenCL.so"} | environment
    return subprocess.run([sys.executable, "-m", module, *arguments], env=own, capture_output=True, text=True)


def test_doctor_passes_and_keel_shows_it():
    doctor, keel = command("keel.doctor"), command("keel")
    assert (doctor.returncode, keel.returncode, doctor.stderr, keel.stderr) == (0, 0, "", "")
    # All but the seconds of the last line are the same.
    assert doctor.stdout.split("(")[:-1] == keel.stdout.split("(")[:-1]
    assert "self-test cpu 0 passed" in doctor.stdout


@pytest.mark.parametrize("environment, said", [
    ({}, "/nonexistent/libOpenCL.so"),
    ({}, "apt install ocl-icd-libopencl1"),
    ({"KEEL_OPENCL_LIBRARY": "libOpenCL.so.1", "OCL_ICD_VENDORS": "/nonexistent"}, "no driver is installed"),
    ({"KEEL_OPENCL_LIBRARY": "libOpenCL.so.1", "OCL_ICD_VENDORS": "/nonexistent"}, "apt install"),
    ({"KEEL_GPU": "none"}, "KEEL_GPU names another driver, or none"),
])  # fmt: skip
def test_doctor_says_why_there_is_no_opencl(environment, said):
    lines = [line for line in command("keel.doctor", **environment).stdout.splitlines() if line.startswith("opencl ")]
    assert len(lines) == 1 and "missing: " in lines[0] and said in lines[0]


def test_doctor_says_who_brings_cuda():
    (line,) = [line for line in command("keel.doctor").stdout.splitlines() if line.startswith("cuda ")]
    assert "/nonexistent/libcuda.so.1 not found" in line and "NVIDIA's driver brings it" in line


def test_doctor_says_what_npz_lacks():
    said = command("keel.doctor", KEEL_LIBZIP="/nonexistent/libzip.so").stdout
    (line,) = [line for line in said.splitlines() if line.startswith("npz ")]
    assert "missing: " in line and "apt install libzip4" in line
    assert "\nnpz " not in command("keel.doctor").stdout


@pytest.mark.parametrize("module", ["keel", "keel.doctor", "keel.gguf"])
def test_help(module):
    helped = command(module, "--help")
    assert (helped.returncode, helped.stderr) == (0, "")
    assert helped.stdout.startswith("usage: python -m keel") and "self-test" not in helped.stdout.splitlines()[0]


@pytest.mark.parametrize("module", ["keel", "keel.doctor", "keel.gguf"])
def test_wrong_arguments(module):
    wrong = command(module, "--nonsense")
    assert wrong.returncode == 2 and wrong.stderr.startswith("usage: python -m keel") and not wrong.stdout


@pytest.mark.parametrize("arguments", [["keel"], ["keel.doctor"], ["keel.doctor", "--help"], ["keel.gguf", "--help"]], ids=" ".join)
def test_nobody_reads_the_output(arguments):
    read, write = os.pipe()
    os.close(read)
    # Of an output without a buffer argparse ignores that its help cannot be written.
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    try:
        ended = subprocess.run([sys.executable, "-m", *arguments], stdout=write, stderr=subprocess.PIPE, text=True,
                               env=buffered | {"KEEL_GPU": "none"})  # fmt: skip
    finally:
        os.close(write)
    assert (ended.returncode, ended.stderr) == (1, "")


# ---- KEEL_OUT_OF_RANGE ----
LOOK_UP = """
import keel.core as mx
table, at = mx.array([[1.0, 2.0], [3.0, 4.0]]), mx.array([0, 7, -1, -9])
print(mx.take(table, at, axis=0).tolist(), mx.take_along_axis(table, mx.array([[5], [1]]), axis=1).tolist())
print(table[at].tolist(), table.at[at].add(1).tolist())
table[mx.array([1, 3])] = 9
print(table.tolist(), mx.compile(lambda t, i: t[i] * 2)(table, at).tolist())
print(mx.grad(lambda t: t[at].sum())(table).tolist(), mx.vmap(lambda i: table[i])(at).tolist())
try:
    table[2]
except IndexError as e:
    print(e.index)
"""
ZERO = """[[1.0, 2.0], [0.0, 0.0], [3.0, 4.0], [0.0, 0.0]] [[0.0], [4.0]]
[[1.0, 2.0], [0.0, 0.0], [3.0, 4.0], [0.0, 0.0]] [[2.0, 3.0], [4.0, 5.0]]
[[1.0, 2.0], [9.0, 9.0]] [[2.0, 4.0], [0.0, 0.0], [18.0, 18.0], [0.0, 0.0]]
[[1.0, 1.0], [1.0, 1.0]] [[1.0, 2.0], [0.0, 0.0], [9.0, 9.0], [0.0, 0.0]]
2
"""


def program(text, **environment):
    return subprocess.run([sys.executable, "-c", text], env=os.environ | environment, capture_output=True, text=True)


def test_a_program_that_looks_outside_runs_with_zero():
    ran = program(LOOK_UP, KEEL_OUT_OF_RANGE="zero")
    assert (ran.returncode, ran.stdout) == (0, ZERO), ran.stderr
    told, first = ran.stderr.split("; the first: ")
    words = told.split()
    assert words[0] == "keel:" and int(words[1]) >= 7 and told.endswith("(KEEL_OUT_OF_RANGE=zero)")
    assert first == "take: index 7 is out of range for axis 0 of size 2 (at position 1)\n"


@pytest.mark.parametrize("value", ["error", "", "nought"])
def test_a_program_that_looks_outside_is_told_how_to_go_on(value):
    ran = program(LOOK_UP, KEEL_OUT_OF_RANGE=value)
    assert ran.returncode == 1 and ran.stdout == "" and "IndexError: take: index 7 is out of range" in ran.stderr
    way = "KEEL_OUT_OF_RANGE=nought is neither error nor zero" if value == "nought" else 'take with mode "clip", "wrap" or "fill", or KEEL_OUT_OF_RANGE=zero'
    assert way in ran.stderr


@pytest.mark.parametrize("value, said", [("", "an error where"), ("error", "KEEL_OUT_OF_RANGE=zero:"), ("zero", "exit prints"), ("no", "KEEL_OUT_OF_RANGE=no is neither")])
def test_doctor_says_what_becomes_of_an_index_out_of_range(value, said):
    ran = command("keel.doctor", KEEL_OUT_OF_RANGE=value)
    (line,) = [line for line in ran.stdout.splitlines() if line.startswith("out of range ")]
    assert ran.returncode == 0 and said in line
