"""Integers wrap around, as NumPy's arrays do, and no optimisation assumes otherwise."""

from __future__ import annotations

import numpy as np
import pytest

import nbfused as nf

pytestmark = pytest.mark.interpreted


def product(x):
    return (x * 3) // 3


def larger(x):
    return x + 100 > x


def smaller(x):
    return x - 100 < x


def power(x):
    return x ** 3 // x


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint32", "uint64"])
@pytest.mark.parametrize("function", [product, larger, smaller, power])
def test_integers_wrap_around(function, dtype, device):
    info = np.iinfo(dtype)
    x = np.array([info.max, info.max // 2 + 1, 5, info.min + 1], dtype)
    found = nf.elementwise(function)(nf.array(x, device=device))
    np.testing.assert_array_equal(nf.to_numpy(found), function(x))
