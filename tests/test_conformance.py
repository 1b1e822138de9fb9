"""Every op against its reference, on the cpu and, where demanded, on a GPU.

Every dtype for every op only on a GPU, whose machines have the cores to compile for.
"""

import os

import pytest

from nbfused import testing
from nbfused.testing.conformance import REPRESENTATIVE

THOROUGH = bool(os.environ.get("NBFUSED_TEST_BACKEND")) and (
    os.environ.get("NBFUSED_ROCM_EMULATE") != "1")



def is_alike(check):
    """Whether a check of another op of the skeleton compiles much the same."""
    if check.op in REPRESENTATIVE:
        return check.case > 0 and check.layout != "contiguous"
    return check.kind == "low-gradient" or check.layout != "contiguous"


@pytest.mark.parametrize("check", [
    pytest.param(c, marks=pytest.mark.variants if is_alike(c) else ())
    for c in testing.checks(thorough=THOROUGH)], ids=str)
def test_conformance(check, device):
    check(device)
