"""A second process compiles nothing; after a changed constant, only what has it."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

PROGRAM = """
import json, sys
from dataclasses import asdict
import numpy as np
import nbfused as nf
from nbfused.kernels import ElementwiseKernel, ReductionKernel

FACTOR = float(sys.argv[1])

@nf.elementwise
def scaled(x):
    return x * FACTOR

@nf.rawkernel
def copy(x, y):
    for i in range(nf.grid(1), x.shape[0], nf.gridsize(1)):
        y[i] = x[i]

square = ElementwiseKernel("T x", "T y", "y = x * x", "square")
total = ReductionKernel("T x", "T y", "x", "a + b", "y = a", "0", "total")

x, y = (nf.array(np.ones(100, "f4"), device=sys.argv[2]) for _ in range(2))
copy((2,), (64,), (x, y))
v = nf.Variable(x, requires_grad=True)
total(square(scaled(v))).backward()
nf.synchronize()
print(json.dumps(asdict(nf.cache.stats())))
"""


@pytest.fixture
def run(tmp_path, device):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)

    def run(factor):
        done = subprocess.run(
            [sys.executable, str(program), factor, device], text=True, check=True,
            capture_output=True, env={
                **os.environ, "NBFUSED_CACHE_DIR": str(tmp_path / "cache"),
                "PYTHONPATH": os.pathsep.join(sys.path)})
        return json.loads(done.stdout)
    return run


def test_counts_of_compilations(run):
    first, second, changed = run("2.0"), run("2.0"), run("3.0")
    assert first["compilations"] == first["misses"] == first["entries"] > 4
    assert (second["compilations"], second["misses"]) == (0, 0)
    assert second["hits"] == first["misses"]
    # the map and, as its derivative has the constant too, what pulls back
    assert changed["compilations"] == changed["misses"] == 2
    assert changed["hits"] == second["hits"] - 2
