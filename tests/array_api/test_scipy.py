"""SciPy's functions on Variables, with gradients, and libraries that write for all."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import nbfused as nf

from .scipy_functions import FUNCTIONS, VALUES

pytestmark = pytest.mark.interpreted

ROOT = Path(__file__).parents[2]
xp = nf.array_api


@pytest.fixture(scope="module")
def errors(request: pytest.FixtureRequest) -> dict[str, str]:
    """What the functions raised, in a process of their own."""
    pytest.importorskip("scipy", minversion="1.17")
    how = [] if "interpreted" in request.config.option.markexpr else ["interpreted"]
    done = subprocess.run(
        [sys.executable, "-m", "tests.array_api.scipy_functions", *how], cwd=ROOT,
        env={**os.environ, "SCIPY_ARRAY_API": "1"}, capture_output=True, text=True,
        check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, str] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("name", [*FUNCTIONS, *VALUES])
def test_function(name, errors):
    assert name not in errors, errors[name]
