"""Weighted covariances and periodic interpolation, beside NumPy's."""

from __future__ import annotations

import numpy as np
import pytest

import nbfused as nf
from nbfused.errors import KernelTypeError, ShapeError
from tests.numpy_functions.agreement import check
from tests.numpy_functions.test_quantiles import compare, in_fuse, on_variables
from tests.refusal import refused

pytestmark = [pytest.mark.interpreted,
              pytest.mark.filterwarnings("ignore:fuse.*decorated again")]

RNG = np.random.default_rng(6)
X, Y = RNG.normal(size=(3, 5)), RNG.normal(size=(2, 5))
Z = X + 1j * RNG.normal(size=(3, 5))
COUNTS, WEIGHTS = np.array([1, 2, 0, 3, 1]), RNG.uniform(0.2, 1.0, 5)
OPTIONS = {
    "none": {}, "counts": {"fweights": COUNTS}, "weights": {"aweights": WEIGHTS},
    "both": {"fweights": COUNTS, "aweights": WEIGHTS},
    "both, biased": {"fweights": COUNTS, "aweights": WEIGHTS, "bias": True},
    "ddof": {"aweights": WEIGHTS, "ddof": 2},
}


@pytest.mark.parametrize("name", OPTIONS)
def test_covariances(name):
    options = OPTIONS[name]
    compare(lambda x, y: np.cov(x, y, **options), X, Y)
    for x in (X, Z, X.astype("f4"), X[:1], X[0]):
        compare(lambda x: np.cov(x, **options), x)
    check(lambda x, y: np.cov(x, y, **options), X, Y)


def test_gradients_of_weights():
    def function(x, w):
        return np.cov(x, aweights=w, fweights=COUNTS)

    def loss(w):
        return (function(nf.Variable(X) if isinstance(w, nf.Variable) else X, w)**2
                ).sum()

    check(function, X, WEIGHTS)
    hessian, step = nf.hessian(loss)(WEIGHTS), 1e-6
    numeric = [(nf.grad(loss)(WEIGHTS + step*d) - nf.grad(loss)(WEIGHTS - step*d))
               / (2*step) for d in np.eye(5)]
    np.testing.assert_allclose(hessian, numeric, 1e-5, 1e-6)
    many = np.stack([WEIGHTS, WEIGHTS**2])
    np.testing.assert_allclose(nf.vmap(lambda w: np.cov(nf.Variable(X), aweights=w))(
        many).data, [np.cov(X, aweights=w) for w in many], 1e-12)


@pytest.mark.parametrize("x", [X, Z, X[:1], X[0], Z[:2]], ids=str)
def test_variables_in_columns(x):
    compare(lambda x: np.cov(x, rowvar=False), x)
    if x.ndim == 1 or len(x) > 1:  # of one observation each there is none
        compare(lambda x: np.corrcoef(x, rowvar=False), x)
        compare(np.corrcoef, x)


@pytest.mark.filterwarnings("ignore:Degrees of freedom")
def test_no_degrees_of_freedom():
    with np.errstate(all="ignore"):
        compare(lambda x: np.cov(x, fweights=COUNTS, ddof=9), X)


@pytest.mark.parametrize("way", [on_variables, in_fuse])
def test_refusals(way):
    def cov(**options):
        name, weights = next(iter(options.items()))
        return way(lambda x, w: np.cov(x, **{name: w}), X, weights)

    with pytest.raises(ValueError, match=r"'aweights' has -.*no negative weights"):
        cov(aweights=-WEIGHTS)
    with pytest.raises(KernelTypeError, match=r"'fweights' counts.*use 'aweights'"):
        cov(fweights=WEIGHTS)
    with pytest.raises(ShapeError, match=r"'aweights' has shape \(4,\), expected \(5,"):
        cov(aweights=WEIGHTS[1:])


POINTS, VALUES = np.sort(RNG.uniform(0, 10, 6)), RNG.normal(size=6)
AT = RNG.uniform(-15, 15, (4, 3))


@pytest.mark.parametrize("options", [
    {}, {"period": 7.3}, {"period": -2}, {"period": 3, "left": 9.0}, {"right": 2.0}],
    ids=str)
def test_interpolation(options):
    def function(x, xp, fp):
        return np.interp(x, xp, fp, **options)

    def slopes(xp):
        return (nf.grad(lambda x, p: (function(x, p, VALUES)**2).sum())(AT, xp)**2
                ).sum()

    for x, xp, fp in ((AT, POINTS, VALUES), (AT.astype("f4"), POINTS.astype("f4"),
                      VALUES.astype("f4")), (AT.astype(int), POINTS, VALUES),
                      (AT, POINTS, 2 + 1j*VALUES), (AT, POINTS[:1], VALUES[:1])):
        compare(function, x, xp, fp)
    check(function, AT, POINTS, VALUES)
    direction, step = np.arange(6) / 6, 1e-6
    numeric = (slopes(POINTS + step*direction) - slopes(POINTS - step*direction)) / (
        2*step)
    second = nf.grad(slopes)(POINTS)
    np.testing.assert_allclose(second @ direction, numeric, 1e-5, 1e-7)
    np.testing.assert_allclose(nf.fuse(nf.grad(slopes))(POINTS), second, 1e-9)
    np.testing.assert_allclose(nf.vmap(lambda x: function(x, POINTS, VALUES))(AT),
                               function(AT, POINTS, VALUES), 1e-12)


def test_periods_that_are_none():
    with pytest.raises(ValueError, match="'period' is 0, expected another number"):
        np.interp(nf.Variable(AT), POINTS, VALUES, period=0)
    with refused(ShapeError, "'xp' and 'fp'", "(6,)", "(5,)", "the same"):
        np.interp(nf.Variable(AT), POINTS, VALUES[1:], period=2.0)
