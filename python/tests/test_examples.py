"""The examples in Python run, and keep what they state."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

EXAMPLES = pathlib.Path(__file__).parents[2] / "examples"


def run(name, *arguments):
    device = {} if os.environ.get("KEEL_TEST_DEVICE") == "gpu" else {"KEEL_GPU": "none"}
    return subprocess.run([sys.executable, str(EXAMPLES / name), *arguments], env=os.environ | device, capture_output=True, text=True)


@pytest.mark.parametrize("seed", ["0", "7"])
def test_training(seed):
    """From 10 classes at random the loss, whose first mean is over 0.5, falls below what the example states."""
    said = run("train.py", seed)
    assert (said.returncode, said.stderr) == (0, "")
    losses = [float(x) for x in re.findall(r"loss ([0-9.]+)", said.stdout)]
    assert len(losses) == 5 and losses == sorted(losses, reverse=True)
    assert losses[0] > 0.5 and losses[-1] < 0.05


def test_every_example_in_python_is_run():
    assert [file.name for file in EXAMPLES.glob("*.py")] == ["train.py"]
