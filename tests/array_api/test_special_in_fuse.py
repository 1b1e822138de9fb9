"""Functions that SciPy computes, differentiated inside of `nf.fuse` and `nf.vmap`."""

from __future__ import annotations

import numpy as np
import pytest

import nbfused as nf
from nbfused.errors import NotDifferentiableError

special = pytest.importorskip("scipy.special")
pytestmark = [pytest.mark.interpreted,
              pytest.mark.filterwarnings("ignore:fuse.*decorated again")]

X, A = np.array([0.3, 0.6, 0.8]), np.array([1.5, 2.0, 3.0])
FUNCTIONS = {
    "betainc": lambda x: special.betainc(A, 2.0, x),
    "betaln": lambda x: special.betaln(x, A), "erfinv": special.erfinv,
    "gamma": special.gamma, "gammainc": lambda x: special.gammainc(A, x),
    "gammaincc": lambda x: special.gammaincc(2.0, x), "i0e": special.i0e,
    "log_ndtr": special.log_ndtr, "ndtri": special.ndtri,
}
#: Whose derivative is SciPy's function without one.
ONCE = {"i0e"}


def differences(function, x, step=1e-6):
    return np.array([(function(x + step*d) - function(x - step*d)) / (2*step)
                     for d in np.eye(x.size)])


@pytest.mark.parametrize("name", FUNCTIONS)
def test_derivatives(name):
    function = FUNCTIONS[name]

    def loss(x):
        return (function(x)**2).sum()

    def slopes(x):
        return (nf.grad(loss)(x)**2).sum()

    first = nf.fuse(nf.grad(loss))
    np.testing.assert_allclose(first(X), differences(loss, X), 1e-5, 1e-8)
    assert f"scipy.special.{name}" in str(first.explain(X))
    many = np.stack([X, X / 2])
    np.testing.assert_allclose(nf.vmap(function)(many), function(many), 1e-12)
    np.testing.assert_allclose(nf.vmap(nf.grad(loss))(many), [nf.grad(loss)(x)
                                                              for x in many], 1e-10)
    if name not in ONCE:
        np.testing.assert_allclose(nf.fuse(nf.grad(slopes))(X), differences(slopes, X),
                                   1e-4, 1e-6)


def test_arguments_without_a_rule():
    """They are refused where their gradient is wanted, and not before."""
    def loss(a, x):
        return special.betainc(a, 2.0, x).sum()

    for wrap in (lambda f: f, nf.fuse):
        with pytest.raises(NotDifferentiableError, match="betainc: argument 0"):
            wrap(nf.grad(loss))(A, X)
        np.testing.assert_allclose(wrap(nf.grad(loss, 1))(A, X), differences(
            lambda x: loss(A, x), X), 1e-5)


def test_without_derivatives_it_is_what_scipy_gives():
    def function(x):
        return special.gamma(x.astype(int) + 2) + special.gamma(x * 1j).real

    np.testing.assert_allclose(nf.fuse(function)(X), function(X), 1e-12)
