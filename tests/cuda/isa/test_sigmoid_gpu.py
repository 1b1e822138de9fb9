"""Sigmoid of float32 over the whole range of its argument."""

from __future__ import annotations

import numpy as np
import pytest

import nbfused as nf
from nbfused import ops

pytestmark = pytest.mark.cuda


def _sigmoid(x):
    return np.where(x < 0, np.exp(np.minimum(x, 0)), 1)/(1 + np.exp(-abs(x)))


def user_sigmoid(x):
    return 1/(1 + np.exp(-x))


@pytest.mark.parametrize("function", [ops.sigmoid, nf.elementwise(user_sigmoid)],
                         ids=["sigmoid", "1/(1+exp(-x))"])
def test_sigmoid_within_three_units_in_the_last_place(function):
    """Subnormal results too, and every 1009th number of float32.

    ``exp`` has two units, and ``1 + exp(-x)`` is rounded.
    """
    bits = np.arange(0, 1 << 32, 1009, np.uint64).astype(np.uint32)
    near = np.linspace(-105, 20, 1 << 20, dtype=np.float32)
    others = np.array([np.inf, -np.inf, np.nan, 0.0, -0.0], np.float32)
    x = np.concatenate([bits.view(np.float32), near, others])
    with np.errstate(all="ignore"):
        expected = _sigmoid(x.astype(np.float64))
        unit = np.spacing(expected.astype(np.float32)).astype(np.float64)
    found = nf.to_numpy(function(nf.array(x, device="cuda:0")))
    np.testing.assert_array_equal(np.isnan(found), np.isnan(x))
    number = ~np.isnan(x)
    assert (abs(found - expected)[number] <= 3*unit[number]).all()
