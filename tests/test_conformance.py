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
#: int8, int64 and uint8 stand for the integers', those of float16 for bfloat16's and
#: the gradients'.
SIMILAR = {"value": ("int16", "int32", "uint16", "uint32", "bfloat16"),
           "low-gradient": ("float32", "bfloat16")}


def is_alike(check):
    """Whether a check of another op of the skeleton compiles much the same."""
    if check.op not in REPRESENTATIVE:
        return check.kind == "low-gradient" or check.layout != "contiguous"
    if check.op not in EVERY_DTYPE and check.dtype.name in SIMILAR.get(check.kind, ()):
        return True
    return check.layout != "contiguous" and (
        check.case > 0 or check.op not in EVERY_DTYPE)


def is_interpreted(check):
    """Whether the kernels of a check are like those of another that compiles them.

    Gradients are compiled for one op of each skeleton, values for all.
    """
    if check.kind.endswith("gradient"):
        return check.case > 0 or check.op not in EVERY_DTYPE
    return check.case > 0 and check.op not in REPRESENTATIVE


def marks(check):
    if is_alike(check):
        return pytest.mark.variants
    return pytest.mark.interpreted if is_interpreted(check) else ()


@pytest.mark.parametrize("check", [
    pytest.param(c, marks=marks(c)) for c in testing.checks(thorough=THOROUGH)],
    ids=str)
def test_conformance(check, device):
    check(device)
