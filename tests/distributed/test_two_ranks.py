"""Collectives, gradients and split layers of two processes, by every engine."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.distributed.programs import PROGRAMS
from tests.distributed.ranks import ENGINES, SKIPPED

#: Ranks with arrays in host memory are told so: both would compile every kernel.
pytestmark = pytest.mark.interpreted

SIZE = 2
MPIEXEC = shutil.which("mpiexec", path=os.pathsep.join(
    [str(Path(sys.executable).parent), os.environ.get("PATH", "")]))
#: Seconds for all programs of one engine.
LONG = 300


def why_not(engine):
    """Why an engine is not here."""
    if engine == "mpi":
        there = find_spec("mpi4py") and MPIEXEC
        return None if there else "mpi4py and mpiexec are not there"
    if not find_spec("torch"):
        return "PyTorch is not there"
    if "nccl" in engine:
        import torch

        if torch.cuda.device_count() < SIZE:
            return f"{SIZE} GPUs are not there"
        if engine == "cupy_nccl" and not find_spec("cupy"):
            return "CuPy is not there"
    return None


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def started(engine, folder, how):
    """The processes of an engine; MPI starts its own."""
    port = free_port()
    command = [sys.executable, "-m", "tests.distributed.ranks", engine, str(folder),
               how]
    environment = {**os.environ, "NBFUSED_BACKEND": "", "PYTHONPATH": os.pathsep.join(
        [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")])}
    if engine == "mpi":
        commands = [[MPIEXEC, "-n", str(SIZE), *command, "0", str(SIZE), str(port)]]
    else:
        commands = [[*command, str(r), str(SIZE), str(port)] for r in range(SIZE)]
    return [subprocess.Popen(c, env=environment, text=True, stderr=subprocess.PIPE)
            for c in commands]


@pytest.fixture(scope="module", params=ENGINES)
def reports(request, tmp_path_factory):
    """What every rank says of every program."""
    engine = request.param
    reason = why_not(engine)
    if reason is not None:
        pytest.skip(f"{engine}: {reason}")
    folder = tmp_path_factory.mktemp(engine)
    compiled = "nccl" in engine or "interpreted" in request.config.option.markexpr
    processes = started(engine, folder, "compiled" if compiled else "interpreted")
    try:
        printed = [p.communicate(timeout=LONG) for p in processes]
    finally:
        for p in processes:
            p.kill()
    lines = [json.loads(line) for path in folder.glob("*.json")
             for line in path.read_text("utf-8").splitlines()]
    assert len(lines) == SIZE*(len(PROGRAMS) - len(SKIPPED.get(engine, ()))), \
        "\n".join(err[-3000:] for _, err in printed)
    return engine, {(name, rank): error for name, rank, error in lines}


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(reports, name):
    engine, found = reports
    if name in SKIPPED.get(engine, ()):
        pytest.skip(f"{engine}: ranks cannot tell one another")
    if all((found[name, r] or "").startswith("skipped: ") for r in range(SIZE)):
        pytest.skip(found[name, 0].removeprefix("skipped: "))
    for rank in range(SIZE):
        assert found[name, rank] is None, f"rank {rank}: {found[name, rank]}"
