"""Reductions of what is no NaN: corners, and that each is one launch."""

from __future__ import annotations

import numpy as np
import pytest

import nbfused as nf

NAMES = ("nanmax", "nanmin", "nansum", "nanmean")


def numbers(dtype):
    """Rows of NaN alone, of infinities beside NaN, of ties; a column of NaN alone."""
    rng = np.random.default_rng(0)
    x = rng.integers(-9, 9, (40, 300)).astype(dtype)
    x[rng.random(x.shape) < 0.3] = np.nan
    x[3] = np.nan
    x[:, 7] = np.nan
    x[5, ::2], x[6, ::2] = -np.inf, np.inf
    x[8], x[9] = -np.inf, np.inf
    x[8, 1] = x[9, 1] = np.nan
    return x


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "complex64"])
@pytest.mark.parametrize("name", NAMES)
def test_as_numpy(name, dtype):
    x = numbers(dtype)
    if dtype == "complex64":
        x[np.isinf(x)] = 0
    for axis in (None, 0, 1, (0, 1)):
        for keepdims in (False, True):
            want = getattr(np, name)(x, axis=axis, keepdims=keepdims)
            got = getattr(nf.ops, name)(x, axis=axis, keepdims=keepdims)
            assert got.dtype == want.dtype
            np.testing.assert_allclose(got, want, 2e-3 if dtype == "float16" else 1e-6)


@pytest.mark.filterwarnings("ignore::nbfused.errors.NbFusedPerformanceWarning")
@pytest.mark.parametrize(("name", "want"), [
    ("nanmax", [0, 0, 0.5, 0.5, 0]), ("nanmin", [0.5, 0, 0, 0, 0.5]),
    ("nansum", [1, 0, 1, 1, 1]), ("nanmean", [0.25, 0, 0.25, 0.25, 0.25])])
def test_derivatives(name, want):
    x = np.array([1, np.nan, 3, 3, 1], "float64")
    function = getattr(np, name)
    np.testing.assert_array_equal(nf.grad(lambda x: function(x))(x), want)
    np.testing.assert_array_equal(nf.grad(nf.fuse(lambda x: function(x)))(x), want)


@pytest.mark.parametrize("name", NAMES)
def test_one_launch(name):
    x, function = np.ones(100, "float32"), getattr(nf.ops, name)
    with nf.trace_launches() as found:
        function(x)
    assert len(found) == 1
