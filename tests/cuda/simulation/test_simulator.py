"""The kernels' text computes what it should: under Numba's simulator, no GPU needed.

Blocks of Python threads take minutes, so all but a sample is left to the variants,
which continuous integration has a job of its own for.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.variants import sampled

pytestmark = pytest.mark.skipif(find_spec("numba_cuda") is None,
                                reason="numba-cuda is not installed")


def simulate(*arguments, program="simulate"):
    done = subprocess.run(
        [sys.executable, "-m", f"tests.cuda.simulation.{program}", *arguments],
        text=True, capture_output=True, check=False, cwd=Path(__file__).parents[3],
        env={**os.environ, "NUMBA_ENABLE_CUDASIM": "1", "PYTHONWARNINGS": "ignore"})
    assert done.returncode == 0, done.stderr
    return done.stdout


OPS = "softmax", "where", "swish", "argmax", "var", "linear", "take"
PARTS = [("layer_norm", "sum"), ("maps", "reductions", "products"), ("rows",),
         ("long",), ("split",), ("split_more",), ("gathers", "repeats"), OPS]


@pytest.mark.parametrize("given", sampled(PARTS, PARTS[0]), ids="+".join)
def test_every_skeleton(given):
    said = simulate(*given)
    assert re.search(r"^\d+ kernels, [1-9]\d* launches, 0 failures$", said,
                     re.MULTILINE), said


FUSED = [("elements", "row"), ("map", "sum", "several", "columns", "loss", "product"),
         ("rows and maps", "joined", "steps", "lent"), ("windows",)]


@pytest.mark.parametrize("given", sampled(FUSED, FUSED[0], FUSED[2]), ids="+".join)
def test_fused_functions(given):
    assert "kernels agree" in simulate(*given, program="simulate_fused")


def test_kernels_of_threads():
    said = simulate(program="simulate_raw")
    assert re.search(r"^\d{2,} checks, 0 failures$", said, re.MULTILINE), said
