"""A device starts before what its arrays need is imported."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

import nbfused as nf
from nbfused.arrays import constructors as starting
from tests.variants import sampled

PROGRAM = """
import json, sys
import nbfused as nf

seen = []
NEEDED = ["numpy", "nbfused.arrays.creation", "nbfused.ops"]

def look(what):
    seen.append([what, *(name in sys.modules for name in NEEDED)])

class Slow:
    name, protocol = "slow", 1

    def available(self):
        return None

    def owns(self, device):
        return device.startswith("slow")

    def start(self, device, meanwhile):
        look(device)
        meanwhile()
        look("meanwhile")

    def empty(self, shape, dtype, device):
        look("filled")
        return shape

    def from_host(self, array, device):
        look("filled")
        return array.shape

nf.register("slow", Slow)
shape = eval(sys.argv[1])
print(json.dumps([list(shape), seen]))
"""


@pytest.mark.parametrize("call", sampled(
    ["nf.array([1.0, 2.0], device='slow')", "nf.empty(2, device='slow')",
     "nf.zeros(2, device='slow')", "nf.full(2, 1.0, device='slow')"],
    "nf.array([1.0, 2.0], device='slow')", "nf.zeros(2, device='slow')"))
def test_imports_wait_for_no_device_and_no_device_waits_for_imports(call):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, call], check=True, capture_output=True,
        text=True, env={**os.environ, "NBFUSED_BACKEND": "auto"})
    shape, seen = json.loads(done.stdout)
    assert shape == [2]
    assert seen == [["slow:0", False, False, False], ["meanwhile", True, True, True],
                    ["filled", True, True, True]]


def test_the_public_functions_are_these():
    for name in ("array", "empty", "full", "zeros"):
        assert getattr(nf, name) is getattr(starting, name)


def test_every_public_name_of_arrays_is_there():
    names = nf.arrays.__all__
    assert all(getattr(nf.arrays, name) is not None for name in names)
    assert set(nf.arrays._LATER) == set(names)
    with pytest.raises(AttributeError, match="nothing"):
        nf.arrays.nothing  # noqa: B018
