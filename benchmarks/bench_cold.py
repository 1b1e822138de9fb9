"""Benchmarks of a process's cold start: from launch to first result, cache filled."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from .where import WHERE

__all__ = ["Cold"]

#: Prints the seconds since the process began its program, and what was loaded.
PROGRAM = """
import time
begin = time.perf_counter()
{first}
between = time.perf_counter()
{program}
import json, sys
print(json.dumps([time.perf_counter() - between, between - begin, sorted(
    {{"numba", "llvmlite", "cuda.core", "scipy"}} & {{*sys.modules}})]))
"""

OURS = """
import nbfused as nf
x = nf.array([1.0]*1000, dtype="float32", device={where!r})
nf.to_numpy(nf.ops.swish(x))
"""
CUPY = """
x = cupy.arange(1000, dtype="float32")
kernel = cupy.ElementwiseKernel("T x", "T y", "y = x/(1 + exp(-x))", "swish")
cupy.asnumpy(kernel(x))
"""
#: How a process starts: what is not counted, then what is.
STARTS = {
    "import": ("import numpy", "import nbfused"),
    "nf.array": ("", OURS),
    "after CuPy": ("import cupy", OURS),
    "CuPy alone": ("", "import cupy" + CUPY),
    "CuPy after CuPy": ("import cupy", CUPY),
}


def start(first: str, program: str, folder: str) -> tuple[float, list[str]]:
    """Run `program` in a new process; its seconds after `first`, and modules loaded."""
    environment = {k: v for k, v in os.environ.items()
                   if k != "PYTHONDONTWRITEBYTECODE"}
    root = str(Path(__file__).resolve().parent.parent)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(first=first, program=program)],
        text=True, capture_output=True, check=False, cwd=root,
        env={**environment, "NBFUSED_CACHE_DIR": folder, "PYTHONPATH": root})
    if done.returncode:
        raise NotImplementedError(done.stderr.strip().rpartition("\n")[2])
    seconds, _, loaded = json.loads(done.stdout)
    return seconds, loaded


class Cold:
    """Cold start: the best of five processes, after two that fill the caches."""

    param_names = ("where", "how")
    params = (WHERE[1:], list(STARTS))
    quick = (["cpu"], ["import", "nf.array"])
    timeout = 300

    def setup(self, where: str, how: str) -> None:
        self.folder = tempfile.TemporaryDirectory()
        if "CuPy" in how and not where.startswith("cuda"):
            raise NotImplementedError("CuPy has no arrays there")
        self._start(where, how)

    def _start(self, where: str, how: str) -> tuple[float, list[str]]:
        first, program = STARTS[how]
        return start(first, program.format(where=where), self.folder.name)

    def track_seconds(self, where: str, how: str) -> float:
        self._start(where, how)
        return min(self._start(where, how)[0] for _ in range(5))

    track_seconds.unit = "s"  # type: ignore[attr-defined]

    def teardown(self, where: str, how: str) -> None:
        self.folder.cleanup()
