"""Dtypes of several arguments together, numbers among them, as NumPy finds them."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose

import nbfused as nf

pytestmark = [pytest.mark.interpreted,
              pytest.mark.filterwarnings("ignore::nbfused.errors.NbFusedWarning")]

WHERE = np.array([True, False, True])
KINDS = ["?", "i1", "i4", "f2", "f4", "f8", "c8"]

FUNCTIONS = {
    "select": lambda x, y: np.select([WHERE, x == y], [x, y], 0.25),
    "select without a default": lambda x, y: np.select([WHERE, ~WHERE], [x, y]),
    "select a number": lambda x, y: np.select([WHERE, y == 0], [2, x], y),
    "histogram": lambda x, y: np.histogram(np.arange(3.0), 2, weights=x)[0],
    "lstsq": lambda x, y: np.linalg.lstsq(x[:, None], y, rcond=None)[0],
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_dtypes_are_numpys(name):
    f = FUNCTIONS[name]
    fused = nf.fuse(f)
    for first, second in product(KINDS, KINDS):
        x, y = (np.array(k, kind) for k, kind in (([1, 0, 1], first),
                                                  ([0, 1, 1], second)))
        if name == "lstsq" and np.float16 in (x.dtype, y.dtype):
            continue  # which NumPy does not take
        expected = f(x, y)
        for found in (f(nf.Variable(x), nf.Variable(y)).data, fused(x, y)):
            assert found.dtype == expected.dtype, (first, second)
            assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
