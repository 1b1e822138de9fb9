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
P = np.array([0.7, -0.4, 1.6])
OF_ONE = ("cosdg cosm1 cotdg erfcx erfinv exp1 exp10 expi exprel gamma i0e i1e j0 j1 "
          "k0 k0e k1 k1e log_ndtr ndtri rgamma sindg spence tandg y0 y1")
FUNCTIONS = {
    **{name: getattr(special, name) for name in OF_ONE.split()},
    "betainc": lambda x: special.betainc(A, 2.0, x),
    "betaincinv": lambda x: special.betaincinv(A, 2.0, x),
    "betaln": lambda x: special.betaln(x, A), "binom": lambda x: special.binom(A, x),
    "binom of the first": lambda x: special.binom(x + 2.0, A),
    "boxcox": lambda x: special.boxcox(x, P), "boxcox1p": lambda x: special.boxcox1p(
        x, P), "expn": lambda x: special.expn(A.round(), x),
    "gammainc": lambda x: special.gammainc(A, x),
    "gammaincc": lambda x: special.gammaincc(2.0, x),
    "gammainccinv": lambda x: special.gammainccinv(A, x),
    "gammaincinv": lambda x: special.gammaincinv(A, x),
    "huber": lambda x: special.huber(0.5, x), "huber of the scale": (
        lambda x: special.huber(x, P)), "hyp1f1": lambda x: special.hyp1f1(A, 2.5, x),
    "inv_boxcox": lambda x: special.inv_boxcox(x, P),
    "inv_boxcox1p": lambda x: special.inv_boxcox1p(x, P),
    "kl_div": lambda x: special.kl_div(x, A), "kl_div of the other": (
        lambda x: special.kl_div(A, x)),
    "poch": lambda x: special.poch(A, x), "poch of the base": (
        lambda x: special.poch(x, A)),
    "pseudo_huber": lambda x: special.pseudo_huber(0.5, x),
    "pseudo_huber of the scale": lambda x: special.pseudo_huber(x, P),
}


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
    assert f"scipy.special.{name.partition(' ')[0]}" in str(first.explain(X))
    many = np.stack([X, X / 2])
    np.testing.assert_allclose(nf.vmap(function)(many), function(many), 1e-12)
    np.testing.assert_allclose(nf.vmap(nf.grad(loss))(many), [nf.grad(loss)(x)
                                                              for x in many], 1e-10)
    np.testing.assert_allclose(nf.fuse(nf.grad(slopes))(X), differences(slopes, X),
                               1e-4, 1e-6)


@pytest.mark.parametrize("name", ["exprel", "i1e", "j1"])
def test_limits(name):
    """What is divided by 0 has a limit, SciPy's within a small step."""
    function = getattr(special, name)
    found = nf.grad(lambda x: function(x).sum())(np.zeros(1))
    np.testing.assert_allclose(found, (function(1e-6) - function(-1e-6)) / 2e-6, 1e-5)
    assert nf.grad(lambda x: special.spence(x).sum())(np.ones(1)) == -1


@pytest.mark.parametrize("name", ["polygamma", "zeta"])
def test_functions_that_are_no_ufuncs(name):
    """SciPy's take no Variables; those of the namespace do."""
    function, first = getattr(nf.array_api.special, name), np.array([2.0, 3.0, 4.0])
    found = nf.grad(lambda x: (function(first, x)**2).sum())(X)
    np.testing.assert_allclose(found, differences(
        lambda x: (getattr(special, name)(first, x)**2).sum(), X), 1e-5)


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
