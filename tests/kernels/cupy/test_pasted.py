"""Kernels in the style of CuPy's own run, and give what SciPy or NumPy gives."""

from __future__ import annotations

import numpy as np
import pytest

import nbfused as nf
from tests.kernels.cupy import pasted_arrays, pasted_numbers

CASES = {**pasted_arrays.CASES, **pasted_numbers.CASES}


def host(x):
    return x if isinstance(x, np.ndarray) else nf.to_numpy(x)


@pytest.mark.parametrize("name", CASES)
def test_a_pasted_kernel(name, device):
    found, expected = CASES[name](lambda a: nf.array(a, device=device))
    np.testing.assert_allclose(host(found), expected, rtol=1e-12, atol=1e-12)


def test_there_are_sixty():
    assert len(CASES) >= 60
