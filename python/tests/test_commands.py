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
    try:
        ended = subprocess.run([sys.executable, "-m", *arguments], stdout=write, stderr=subprocess.PIPE, text=True,
                               env=os.environ | {"KEEL_GPU": "none"})  # fmt: skip
    finally:
        os.close(write)
    # argparse ignores that its help cannot be written.
    assert (ended.returncode, ended.stderr) == (0 if "--help" in arguments else 1, "")
