"""Every op against its reference, on the cpu and, where demanded, on a GPU.

Every dtype for every op only on a GPU, whose machines have the cores to compile for.
"""

import os

import pytest

from nbfused import testing

THOROUGH = bool(os.environ.get("NBFUSED_TEST_BACKEND")) and (
    os.environ.get("NBFUSED_ROCM_EMULATE") != "1")


@pytest.mark.parametrize("check", testing.checks(thorough=THOROUGH), ids=str)
def test_conformance(check, device):
    check(device)
