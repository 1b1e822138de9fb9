"""The formulas of functions for 16-bit results, as PTX has them but in float64."""

from __future__ import annotations

import math

import numpy as np
import pytest

from nbfused.cuda.runtime import compile
from nbfused.errors import CompileError


@pytest.fixture
def rough():
    """The module; it needs Numba for CUDA."""
    try:
        compile._numba_cuda()
    except CompileError as missing:
        pytest.skip(str(missing))
    from nbfused.cuda.isa import approximate as rough

    return rough


def test_erfc_by_its_polynomial(rough):
    z = np.concatenate([np.linspace(0, 10, 4001), np.geomspace(1e-30, 1, 100)])
    t = 1/(1 + rough.SLOPE*z)
    found = np.exp(-z*z)*t*np.polyval(rough.ERFC[::-1], t)
    exact = np.array([math.erfc(x) for x in z])
    assert np.abs(found/exact - 1).max() < 2.0**-15


def test_what_is_scaled_stays_within_normal_numbers(rough):
    """2**64 keeps the bell, where erfc is no less than the least subnormal."""
    z = np.sqrt(149*math.log(2))
    assert math.erfc(z) < 2.0**-149
    assert 2.0**64*math.exp(-z*z) > 2.0**-126
    assert min(abs(c) for c in rough.ERFC)*2.0**-64 > 2.0**-126
