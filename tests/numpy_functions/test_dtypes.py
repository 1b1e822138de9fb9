"""Dtypes, numbers and conditions of every kind, as NumPy has them or refused."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import nbfused as nf

pytestmark = pytest.mark.interpreted

SMALL = np.array([1, 0, 5], np.int8)
BOOLS = SMALL > 0
HALVES = np.array([1.5, 0.0, -2.0], np.float16)

CALLS = {
    "true exponent": (lambda x: np.power(x, True), SMALL),
    "complex truth": (lambda x: np.logical_and(x, 1j), SMALL),
    "truth out of range": (lambda x: np.logical_or(x, 300), SMALL),
    "complex power of integers": (lambda x: np.float_power(x, 1j), SMALL),
    "next of bools": (lambda x: np.nextafter(x, 3), BOOLS),
    "bools by a large integer": (lambda x: np.divide(x, 2**70), BOOLS),
    "close bools": (lambda x: np.isclose(x, True), BOOLS),
    "close to what int8 does not hold": (lambda x: np.isclose(x, 300), SMALL),
    "short weights": (lambda x: np.average(
        x, weights=np.array([1, 2, 3], np.float32)), SMALL),
    "integer weights": (lambda x: np.average(x, weights=[1, 2, 3]), HALVES),
    "complex of int8": (np.sort_complex, SMALL),
    "complex of float16": (np.sort_complex, HALVES),
    "condition as a list": (lambda x: np.std(x, where=[True, False, True]), HALVES),
    "no element": (lambda x: np.sum(x, where=False), HALVES),
    "zero to a far power": (lambda x: np.ldexp(x, 300), HALVES),
    "number to powers": (lambda x: np.ldexp(True, x), SMALL),
    "distances that int8 does not hold": (lambda x: np.linspace(x - 100, 100, 3),
                                          SMALL),
    "distances rounded down": (lambda x: np.linspace(-x, 0, 4, dtype=int), SMALL),
    "place of a number": (lambda x: np.searchsorted(x, 300), SMALL),
    "grid of bools": (lambda x: np.meshgrid(x, [1, 2])[0], BOOLS),
    "median beside an infinity": (lambda x: np.nanmedian(x, axis=()),
                                  np.array([np.inf, np.nan, 1.0])),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.filterwarnings("ignore:All-NaN slice:RuntimeWarning",
                            "ignore::nbfused.errors.NbFusedPerformanceWarning")
def test_results_are_numpys(name):
    f, x = CALLS[name]
    with np.errstate(all="ignore"):
        expected = f(x)
    for found in (f(nf.Variable(x)).data, nf.fuse(f)(x)):
        assert found.dtype == expected.dtype
        assert_array_equal(found, expected)


def test_ldexp_is_rounded_once():
    for kind, step in ((np.float16, 1), (np.float32, 5), (np.float64, 31)):
        info = np.finfo(kind)
        x = np.array([info.smallest_subnormal, 1.37 * info.tiny, 1.37, info.max], kind)
        reach = 2 * info.maxexp + info.nmant
        n = np.arange(-reach, reach, step)[:, None]
        with np.errstate(all="ignore"):
            expected = np.ldexp(x, n)
        assert_array_equal(np.ldexp(nf.Variable(x), n).data, expected)


@pytest.mark.parametrize(("call", "error", "words"), [
    (lambda x: np.fabs(x * 1j), TypeError, "numpy.absolute"),
    (lambda x: np.ldexp(x * 1j, 2), TypeError, "ldexp"),
    (lambda x: np.ldexp(x, -2**70), OverflowError, "'x2'"),
    (lambda x: np.sum(x, initial=1j), TypeError, "'initial' is 1j"),
    (lambda x: np.max(x, initial=np.inf), OverflowError, "'initial' is inf"),
    (lambda x: np.sum(x, where=np.array([1, 0, 1])), TypeError, "where != 0"),
    (lambda x: np.any(x, where=np.ones((2, 3), bool)), ValueError, "'where' has the"),
    (lambda x: np.round(x, 1.5), TypeError, "'decimals' must be an integer"),
    # NumPy's own resolve_dtypes crashes here.
    (lambda x: np.add(x, 2.5, casting="equiv"), TypeError, "astype"),
])
def test_what_numpy_refuses_is_refused(call, error, words):
    for f in (lambda x: call(nf.Variable(x)), nf.fuse(call)):
        with pytest.raises(error, match=words):
            f(SMALL)


@pytest.mark.parametrize("norm", [
    lambda x: np.linalg.norm(x, 3), lambda x: np.linalg.vector_norm(x, ord=2.5)])
def test_norms_of_zeros_have_no_slope(norm):
    assert_array_equal(nf.grad(norm)(np.zeros(3)), np.zeros(3))
    assert norm(nf.Variable(np.array([0.0, -2.0]))).item() == pytest.approx(2)
