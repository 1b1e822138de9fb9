"""Ufuncs of SciPy on Variables and in `nf.fuse`: those of our special functions."""

from __future__ import annotations

import numpy as np
import pytest

import nbfused as nf

special = pytest.importorskip("scipy.special")

#: Each test fuses a function of its own.
pytestmark = [pytest.mark.interpreted, pytest.mark.filterwarnings(
    "ignore::nbfused.errors.NbFusedPerformanceWarning")]

X = np.array([0.25, 0.5, 0.75, 0.9])
OF_ONE = ("gammaln", "expit", "erf", "erfc", "psi", "log_expit", "i0", "i1", "logit",
          "entr", "ndtr", "log1p", "exp2")
ON_HOST = ("gamma", "ndtri", "erfinv", "log_ndtr")
OF_TWO = ("xlogy", "xlog1py", "betaln")


def differences(function, x):
    step = 1e-6
    return (function(x + step) - function(x - step)) / (2 * step)


@pytest.mark.parametrize("name", [*OF_ONE, *ON_HOST])
def test_derivatives(name):
    function = getattr(special, name)
    np.testing.assert_allclose(function(nf.Variable(X)).data, function(X), 1e-12)
    wanted = differences(function, X)
    slope = nf.grad(lambda x: function(x).sum())
    np.testing.assert_allclose(slope(X), wanted, 1e-6)
    if name in OF_ONE:
        np.testing.assert_allclose(nf.fuse(slope)(X), wanted, 1e-6)
        np.testing.assert_allclose(nf.grad(lambda x: slope(x).sum())(X),
                                   differences(slope, X), 1e-5, 1e-7)


@pytest.mark.parametrize("name", OF_TWO)
def test_of_two(name):
    function = getattr(special, name)
    first, second = nf.grad(lambda x, y: function(x, y).sum(), argnums=(0, 1))(
        X, X[::-1])
    np.testing.assert_allclose(first, differences(lambda x: function(x, X[::-1]), X),
                               1e-6)
    np.testing.assert_allclose(second, differences(lambda y: function(X, y), X[::-1]),
                               1e-6)


def test_nothing_times_a_logarithm():
    """0 whatever the logarithm is, NaN where the number is; its slope is it."""
    x, y = np.zeros(5), np.array([0.0, 2.0, -1.0, np.inf, np.nan])
    for name in ("xlogy", "xlog1py"):
        function = getattr(special, name)
        np.testing.assert_array_equal(function(nf.Variable(x), y).data, function(x, y))
    slope = nf.grad(lambda x: special.xlogy(x, 2.0).sum())(x)
    np.testing.assert_allclose(slope, np.log(2.0))


@pytest.mark.parametrize("dtype", ["bool", "int8", "int32", "int64"])
def test_integers_are_floats(dtype):
    """As in SciPy: in float32 as far as they fit there."""
    counts = np.array([1, 0, 1, 1]).astype(dtype)
    for function in (special.gammaln, lambda n: special.xlogy(n, X),
                     lambda n: special.binom(n, X), special.ndtri):
        expected = function(counts)
        for found in (function(nf.Variable(counts)).data, nf.fuse(function)(counts),
                      nf.vmap(function, out_axes=-1)(counts) if function in (
                          special.gammaln, special.ndtri) else expected):
            assert found.dtype == expected.dtype
            np.testing.assert_allclose(found, expected, 1e-5)
