"""Groups of several processes, with each launcher of MPI that is installed."""

import os
import pathlib
import shutil
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).parent
LAUNCHERS = {"mpirun.openmpi": ["--oversubscribe"], "mpiexec.mpich": []}


def launch(launcher, ranks, *program):
    if not shutil.which(launcher):
        assert os.environ.get("KEEL_TEST_REQUIRED") != "1", f"{launcher} is not installed"
        pytest.skip(f"{launcher} is not installed")
    environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", KEEL_DIST_TIMEOUT="60", MPI4PY_MPIABI="openmpi")
    command = [launcher, *LAUNCHERS[launcher], "-n", str(ranks), sys.executable, *program]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=HERE)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("launcher", LAUNCHERS)
@pytest.mark.parametrize("ranks", (2, 3))
def test_ranks(launcher, ranks):
    out = launch(launcher, ranks, "ranks_of_distributed.py")
    for r in range(ranks):
        assert f"rank {r} of {ranks} is done" in out


def test_mpi_of_mpi4py_is_used_and_not_ended():
    pytest.importorskip("mpi4py")
    program = "from mpi4py import MPI; import ranks_of_distributed; assert MPI.COMM_WORLD.allreduce(1) == 2 and not MPI.Is_finalized()"
    launch("mpirun.openmpi", 2, "-c", program, "values")
