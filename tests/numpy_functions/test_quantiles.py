"""Quantiles by each method, with weights and without NaN, beside NumPy's."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import nbfused as nf
from nbfused.errors import KernelTypeError
from tests.numpy_functions.agreement import check
from tests.refusal import refused
from tests.variants import sampled

pytestmark = [pytest.mark.interpreted,
              pytest.mark.filterwarnings("ignore:fuse.*decorated again")]

METHODS = ("inverted_cdf", "averaged_inverted_cdf", "closest_observation",
           "interpolated_inverted_cdf", "hazen", "weibull", "linear", "median_unbiased",
           "normal_unbiased", "lower", "higher", "midpoint", "nearest")
SHARES = np.array([0.0, 0.1, 0.25, 0.3, 0.5, 0.6, 0.75, 1.0])
RNG = np.random.default_rng(4)
X = RNG.normal(size=(4, 5, 3))
WEIGHTS = RNG.integers(0, 4, size=X.shape) + (np.arange(5) == 2)[:, None]
HOLES = np.where(RNG.random(X.shape) < 0.3, np.nan, X)


def in_fuse(function, *arrays):
    return nf.fuse(function)(*arrays)


def on_variables(function, *arrays):
    return function(*map(nf.Variable, arrays)).data


def compare(function, *arrays):
    """The values, dtypes and shapes of Variables and in `nf.fuse`.

    NumPy takes differences of float32 in float32 where the result is float64.
    """
    rtol = 4e-6 if any(x.dtype == np.float32 for x in arrays) else 1e-12
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        wanted = function(*arrays)
        for way in (on_variables, in_fuse):
            found = way(function, *arrays)
            assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
            np.testing.assert_allclose(found, wanted, rtol, rtol)


@pytest.mark.parametrize("dtype", sampled(["f8", "f4", "i4"], "f4"))
@pytest.mark.parametrize("method", METHODS)
def test_methods(method, dtype):
    x = (X * 7).astype(dtype)
    compare(lambda x: np.quantile(x, SHARES, axis=1, method=method), x)
    compare(lambda x: np.percentile(x, 30.0, axis=(0, 2), method=method,
                                    keepdims=True), x)


@pytest.mark.parametrize("dtype", sampled(["f8", "f4"], "f4"))
@pytest.mark.parametrize("method", METHODS)
def test_methods_that_skip(method, dtype):
    """Lines have different numbers of elements, whose places float32 would round."""
    x = HOLES.astype(dtype)
    compare(lambda x: np.nanquantile(x, SHARES, axis=1, method=method), x)
    compare(lambda x: np.nanpercentile(x, 70, method=method), x)


@pytest.mark.parametrize("axis", [None, 0, -1, (0, 2), (2, 0)])
@pytest.mark.parametrize("name", sampled(
    ["quantile", "percentile", "nanquantile"], "quantile", "nanquantile"))
def test_weights(name, axis):
    skips = name.startswith("nan")
    function, x, weights = getattr(np, name), HOLES if skips else X, WEIGHTS + skips
    q = SHARES * 100 if name == "percentile" else SHARES
    compare(lambda x, w: function(x, q, axis=axis, method="inverted_cdf", weights=w),
            x, weights)
    if not skips and axis is not None:  # which NumPy does not spread there
        axes = axis if isinstance(axis, tuple) else (axis,)
        one = RNG.uniform(0.1, 2, size=[X.shape[k] for k in axes])
        compare(lambda x, w: function(x, q, axis=axis, method="inverted_cdf",
                                      weights=w), x, one)


def test_weights_of_an_average_along_axes_out_of_order():
    x, w = RNG.normal(size=(3, 3, 2)), RNG.uniform(size=(3, 3))
    compare(lambda x, w: np.average(x, axis=(1, 0), weights=w), x, w)


@pytest.mark.parametrize("method", METHODS)
def test_gradients(method):
    check(lambda x: np.quantile(x, SHARES, axis=1, method=method), X)


def test_gradients_go_to_what_weights_choose():
    def function(x):
        return np.quantile(x, [0.2, 0.7], axis=1, method="inverted_cdf",
                           weights=WEIGHTS)

    def loss(x):
        return (function(x)**3).sum()

    check(function, X)
    inside = nf.fuse(nf.grad(loss))(X)
    np.testing.assert_allclose(inside, nf.grad(loss)(X), 1e-12)
    assert np.count_nonzero(inside) == 2 * 4 * 3
    direction = np.ones_like(X)
    _, second = nf.jvp(nf.grad(loss), (X,), (direction,))
    step = 1e-6
    numeric = (nf.grad(loss)(X + step) - nf.grad(loss)(X - step)) / (2 * step)
    np.testing.assert_allclose(second, numeric, 1e-6, 1e-8)


def test_samples():
    with np.errstate(all="ignore"):
        found = nf.vmap(lambda x, w: np.nanquantile(
            x, 0.3, axis=0, method="inverted_cdf", weights=w))(HOLES, WEIGHTS)
        wanted = [np.nanquantile(x, 0.3, axis=0, method="inverted_cdf", weights=w)
                  for x, w in zip(HOLES, WEIGHTS, strict=True)]
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("way", [on_variables, in_fuse])
@pytest.mark.parametrize(("weights", "text"), [
    (-WEIGHTS, "no negative"), (0 * WEIGHTS, "all 0"),
    (np.where(WEIGHTS > 2, np.nan, WEIGHTS), "NaN"),
])
def test_weights_that_are_none(way, weights, text):
    with pytest.raises(ValueError, match=f"weights.*{text}"), np.errstate(all="ignore"):
        way(lambda x, w: np.quantile(x, 0.5, axis=1, method="inverted_cdf", weights=w),
            X, weights)


def test_refusals():
    x = nf.Variable(X)
    with pytest.raises(ValueError, match="'weights' with method 'linear'"):
        np.quantile(x, 0.5, weights=WEIGHTS)
    with pytest.raises(ValueError, match=r"'q' is 1.5, expected shares between 0 and"):
        np.quantile(x, 1.5)
    with pytest.raises(ValueError, match=r"'weights' has shape \(3,\), expected"):
        np.quantile(x, 0.5, axis=1, method="inverted_cdf", weights=np.ones(3))
    with refused(KernelTypeError, "method 'most'", "'linear'"):
        np.quantile(x, 0.5, method="most")
    with refused(KernelTypeError, "'a'", "complex128", "x.real"):
        np.quantile(nf.Variable(X + 1j), 0.5)
