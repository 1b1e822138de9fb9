"""Gradients of NumPy's functions inside of fused functions, beside those outside."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import nbfused as nf
from nbfused.errors import KernelTypeError, NbFusedPerformanceWarning
from tests.numpy_functions import test_algebra, test_reductions, test_shapes
from tests.numpy_functions.agreement import flat

pytestmark = pytest.mark.interpreted

CASES = {**test_algebra.CASES, **test_reductions.CASES, **test_shapes.CASES}
#: What is differentiated through the values themselves, which are not known there.
REFUSED = {"unique", "histogram", "union1d"}


def loss_of(function):
    def loss(*args):
        return sum((x*np.cos(np.arange(x.size).reshape(x.shape))).sum()
                   for x in flat(function(*args))
                   if hasattr(x, "dtype") and x.dtype.kind == "f")

    return loss


def in_fuse(loss, places, args):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NbFusedPerformanceWarning)
        return nf.fuse(nf.grad(loss, argnums=places))(*args)


@pytest.mark.variants
@pytest.mark.parametrize("name", CASES)
def test_as_outside(name):
    function, *args = CASES[name]
    places = tuple(k for k, a in enumerate(args) if a.dtype.kind == "f")
    if not places:
        pytest.skip("it has no gradient")
    loss = loss_of(function)
    try:
        expected = nf.grad(loss, argnums=places)(*args)
    except KernelTypeError as error:
        pytest.skip(f"it has no gradient: {error}")
    if name in REFUSED:
        with pytest.raises(KernelTypeError):
            in_fuse(loss, places, args)
        return
    for ours, theirs in zip(in_fuse(loss, places, args), expected, strict=True):
        assert type(ours) is type(theirs)
        np.testing.assert_allclose(ours, theirs, 1e-9, 1e-10)


def test_a_rank_that_is_not_full_is_refused_where_it_is_traced():
    a, b = np.ones((4, 2)), np.arange(4.0)

    def loss(a):
        return np.linalg.lstsq(a, b, rcond=None)[0].sum()

    for function in (lambda: in_fuse(loss, 0, (a,)),
                     lambda: nf.vmap(nf.grad(loss))(a[None])):
        with pytest.raises(np.linalg.LinAlgError, match=r"has rank 1.*expected 2"):
            function()


@pytest.mark.parametrize("name", ["interp", "swapaxes", "frexp", "lstsq"])
def test_a_few(name):
    test_as_outside(name)


OF_THE_LIBRARY = {
    "inv": (lambda x: np.linalg.inv(x @ x.T + np.eye(3)).sum(), 1),
    "cumprod": (lambda x: (np.cumprod(x, axis=0) ** 2).sum(), 5),
    "fft": (lambda x: np.sum(np.abs(np.fft.fft(x)) ** 3), 2),
    "sort": (lambda x: (np.sort(x, axis=0)[1] ** 2).sum(), 1),
    "solve and log": (lambda x: np.log(np.linalg.solve(
        x @ x.T + np.eye(3), np.ones(3)) ** 2).sum(), 2),
}


@pytest.mark.filterwarnings("ignore:fuse.*decorated again")
@pytest.mark.parametrize("name", OF_THE_LIBRARY)
def test_derivatives_of_library_functions_are_traced(name):
    """The library is called for results, not for the operations of the rules."""
    function, calls = OF_THE_LIBRARY[name]
    x = np.random.default_rng(2).normal(size=(3, 3)) + 2
    fused = nf.fuse(nf.value_and_grad(function))
    value, gradient = nf.value_and_grad(function)(x)
    for _ in range(3):
        found = fused(x)
        np.testing.assert_allclose(found[0], value, rtol=1e-12)
        np.testing.assert_allclose(found[1], gradient, rtol=1e-10, atol=1e-12)
    launched = str(fused.explain(x)).partition("why not")[0]
    assert launched.count("call ") == calls, launched
    second = nf.fuse(nf.grad(lambda x: (nf.grad(function)(x) ** 2).sum()))
    np.testing.assert_allclose(second(x), nf.grad(
        lambda x: (nf.grad(function)(x) ** 2).sum())(x), rtol=1e-9, atol=1e-9)
