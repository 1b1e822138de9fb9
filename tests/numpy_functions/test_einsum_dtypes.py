"""`einsum` of operands of several dtypes: computed in the one common to all."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import nbfused as nf

pytestmark = pytest.mark.interpreted

COLUMN = np.array([[1], [3], [2]], np.int8)
TRUTHS = np.array([[True, True, False, True], [False, True, True, True],
                   [True, True, True, True]])
LARGE = np.full(9, 100, np.int8)
THREE = np.array([7, 8, 9])

#: A text and operands, of which one is summed alone or two are multiplied first.
CASES = {
    "truths beside a column": ("ij,kj->ik", COLUMN, TRUTHS),
    "truths beside floats": ("ij,kj->ik", COLUMN.astype(np.float32), TRUTHS),
    "int8 beside int32": ("i,j->j", LARGE, np.ones(2, np.int32)),
    "truths of two, then int32": ("ij,jk,k->i", TRUTHS[:2, :3], TRUTHS[:, :2],
                                  np.ones(2, np.int32)),
    "int8 twice, then int64": ("i,i,i->", LARGE[:3], LARGE[:3], THREE),
    "uint8 beside int8": ("i,j->ij", np.full(2, 255, np.uint8), LARGE[:3]),
    "truths alone": ("ij->i", TRUTHS),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.filterwarnings("ignore::nbfused.errors.NbFusedPerformanceWarning")
def test_the_dtype_of_sums_is_common_to_all_operands(name):
    text, *operands = CASES[name]
    expected = np.einsum(text, *operands)
    fused = nf.fuse(lambda *x: np.einsum(text, *x))
    for found in (nf.ops.einsum(text, *operands), fused(*operands)):
        assert found.dtype == expected.dtype
        assert_array_equal(found, expected)


@pytest.mark.parametrize("second", [np.float16, np.float32])
def test_a_sum_of_one_operand_may_be_larger_than_its_dtype_holds(second):
    x, y = np.full(9, 10000, np.float16), np.array([1e-3, 2e-3], second)
    exact = x.astype(float).sum() * y.astype(float)
    found = nf.ops.einsum("i,j->j", x, y)
    assert found.dtype == second
    assert_allclose(found, exact, rtol=1e-3)


def test_a_number_is_an_operand():
    x = np.arange(3, dtype=np.float32)
    found = nf.ops.einsum("i,->i", x, 0.5)
    assert found.dtype == np.float64
    assert_array_equal(found, x * np.float64(0.5))
