"""Every op against its reference, on the cpu and, where demanded, on a GPU.

Every dtype for every op only on a GPU, whose machines have the cores to compile for.
"""

import os

import pytest

from nbfused import testing
from nbfused.testing.conformance import REPRESENTATIVE

THOROUGH = bool(os.environ.get("NBFUSED_TEST_BACKEND")) and (
    os.environ.get("NBFUSED_ROCM_EMULATE") != "1")

#: One op of each skeleton, of which no dtype is left out.
EVERY_DTYPE = frozenset({"add", "astype", "matmul", "softmax", "sum", "take"})
#: Dtypes whose kernels differ from others' in the width of their loads alone: those of
#: int8 and uint8 stand for the values', those of float16 for the gradients'.
SIMILAR = {"value": ("int16", "uint16", "uint32"),
           "low-gradient": ("float32", "bfloat16")}


def is_alike(check):
    """Whether a check of another op of the skeleton compiles much the same."""
    if check.op not in REPRESENTATIVE:
        return check.kind == "low-gradient" or check.layout != "contiguous"
    if check.op not in EVERY_DTYPE and check.dtype.name in SIMILAR.get(check.kind, ()):
        return True
    return check.case > 0 and check.layout != "contiguous"


def marks(check):
    """Gradients are compiled for one op of each skeleton, values for all."""
    if is_alike(check):
        return pytest.mark.variants
    alike = check.kind == "gradient" and check.op not in EVERY_DTYPE
    return pytest.mark.interpreted if alike else ()


@pytest.mark.parametrize("check", [
    pytest.param(c, marks=marks(c)) for c in testing.checks(thorough=THOROUGH)],
    ids=str)
def test_conformance(check, device):
    check(device)
