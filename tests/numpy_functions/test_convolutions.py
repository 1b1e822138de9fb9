"""`convolve` and `correlate` by slices and by matrices, fused and not."""

from __future__ import annotations

import numpy as np
import pytest

import nbfused as nf
from nbfused.numpy_functions.algebra.convolutions import FEW, MANY, PIECE

MODES = ("full", "same", "valid")
#: Lengths that go by slices fused or not, by a matrix, and by several.
LENGTHS = [(40, 3), (MANY//8, 9), (700, 2*PIECE + 5), (2*FEW, FEW + 30)]
RNG = np.random.default_rng(0)


def convolved(mode):
    def function(a, v):
        return np.convolve(a, v, mode)
    return function


FUSED = {"full": nf.fuse(lambda a, v: np.convolve(a, v, "full")),
         "same": nf.fuse(lambda a, v: np.convolve(a, v, "same")),
         "valid": nf.fuse(lambda a, v: np.convolve(a, v, "valid"))}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("n", "k"), LENGTHS)
def test_values_and_gradients(n, k, mode):
    a, v = RNG.standard_normal(n), RNG.standard_normal(k)
    expected, function = np.convolve(a, v, mode), convolved(mode)
    weights = RNG.standard_normal(expected.shape)
    x, y = (nf.Variable(z, requires_grad=True) for z in (a, v))
    found = function(x, y)
    (found*weights).sum().backward()
    np.testing.assert_allclose(found.data, expected, atol=1e-12)
    # The derivative of a sum of products by one vector is the other, correlated.
    at = {"full": 0, "same": (k - 1)//2, "valid": k - 1}[mode]
    full = np.zeros(n + k - 1)
    full[at:at + weights.size] = weights
    np.testing.assert_allclose(x.grad, np.correlate(full, v, "valid"), atol=1e-12)
    np.testing.assert_allclose(y.grad, np.correlate(full, a, "valid"), atol=1e-11)
    np.testing.assert_allclose(FUSED[mode](a, v), expected, atol=1e-12)


@pytest.mark.parametrize(("n", "k"), LENGTHS)
@pytest.mark.parametrize("fused", [False, True])
def test_float16_is_rounded_once(n, k, fused):
    a, v = (RNG.standard_normal(m).astype(np.float16) for m in (n, k))
    exact = np.convolve(a.astype(np.float64), v.astype(np.float64))[k - 1:n]
    function = convolved("valid")
    found = FUSED["valid"](a, v) if fused else \
        nf.to_numpy(function(nf.Variable(a), v))
    assert found.dtype == np.float16
    assert np.all(abs(found - exact) <= 0.51*np.spacing(abs(exact).astype(np.float16))
                  + 1e-5)


def test_infinities_stay_where_they_are():
    a, v = np.ones(MANY), np.ones(3)
    a[100] = np.inf
    full = convolved("full")
    for found in (full(nf.Variable(a), v).data, FUSED["full"](a, v)):
        assert np.flatnonzero(~np.isfinite(found)).tolist() == [100, 101, 102]
        assert not np.isnan(found).any()


def test_bools_and_integers():
    a, v = RNG.integers(0, 2, MANY).astype(bool), np.array([True, False, True])
    for kind in (bool, np.int8, np.int64):
        x, y = a.astype(kind), v.astype(kind)
        for function in map(convolved, MODES):
            found, expected = function(nf.Variable(x), y), function(x, y)
            assert found.dtype == expected.dtype
            np.testing.assert_array_equal(found.data, expected)
