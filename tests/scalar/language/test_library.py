"""Functions of `math`, `cmath` and NumPy that the vocabulary lacks."""

from __future__ import annotations

import cmath
import functools
import itertools
import math

import numba
import numpy as np
import pytest

import nbfused as nf
from nbfused.scalar.ir.interpret import evaluate
from nbfused.scalar.parse.functions import parse
from nbfused.scalar.typing.types import specialize

FLOATS = np.array([0.0, -0.0, 0.5, -1.5, 2.5, 3.0, -7.25, 171.0, 300.0, 1e-310,
                   np.inf, -np.inf, np.nan])
WHOLE = np.array([-12, -6, -1, 0, 1, 4, 9])
COMPLEX = np.array([1 + 2j, -1 + 0j, complex(-1, -0.0), 0.3 - 0.7j, 2.5, -3.0, 0.5j])


def check(f, *args):
    """Compare with Python and NumPy element by element, where these have a value."""
    t = specialize(parse(f), tuple(a.dtype for a in args))
    got = [np.broadcast_to(r, args[0].shape) for r in evaluate(t, *args)]
    for k, point in enumerate(zip(*(a.tolist() for a in args), strict=True)):
        try:
            expected = f(*point)
        except OverflowError:
            expected = math.inf
        except ValueError:
            continue
        for ours, theirs in zip(got, expected if isinstance(expected, tuple) else (
                expected,), strict=True):
            np.testing.assert_allclose(ours[k], theirs, 1e-13, err_msg=str(point))
            assert np.signbit(ours[k].real) == np.signbit(theirs.real) or ours[k] != \
                ours[k], point
            assert ours.dtype.kind == np.asarray(theirs).dtype.kind


@pytest.mark.parametrize("f", [
    lambda x: math.gamma(x), lambda x: math.modf(x), lambda x: np.modf(x),
    lambda x: np.signbit(x), lambda x: (np.isneginf(x), np.isposinf(x)),
    lambda x: (np.deg2rad(x), np.rad2deg(x), np.fix(x))])
def test_functions_of_one_number(f):
    check(f, FLOATS)


@pytest.mark.parametrize("f", [
    lambda x, y: math.remainder(x, y), lambda x, y: math.isclose(x, y),
    lambda x, y: math.isclose(x, y, rel_tol=0.5, abs_tol=1.0),
    lambda x, y: np.isclose(x, y), lambda x, y: np.isclose(x, y, 0.1, equal_nan=True),
    lambda x, y: np.logical_xor(x, y), lambda x, y: np.divmod(x, y),
    lambda x, y: np.float_power(x, y), lambda x, y: math.hypot(x, y, x)])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_functions_of_two_numbers(f):
    pairs = np.array(list(itertools.product(FLOATS, [*FLOATS[:6], np.inf, np.nan])))
    check(f, *pairs.T.copy())


def test_functions_of_integers():
    pairs = np.array(list(itertools.product(WHOLE, WHOLE))).T.copy()
    check(lambda a, b: (math.gcd(a, b), math.lcm(a, b), np.gcd(a, b)), *pairs)
    narrow = specialize(parse(lambda a, b: np.lcm(a, b)), (np.dtype("i2"),)*2)
    assert narrow.results == (np.dtype("i2"),)


@pytest.mark.parametrize("f", [
    lambda z: cmath.sqrt(z), lambda z: cmath.exp(z), lambda z: cmath.atan(z),
    lambda z: cmath.log(z, 2.0), lambda z: cmath.polar(z), lambda z: cmath.phase(z),
    lambda z: (np.isreal(z), np.iscomplex(z), cmath.isclose(z, -1)),
    lambda z: cmath.rect(abs(z), z.real), lambda z: complex(z)**0.5])
def test_functions_of_complex_numbers(f):
    """What is real counts as complex: the square root of -3 is imaginary."""
    check(f, COMPLEX)
    check(f, COMPLEX.real.copy())


@pytest.mark.interpreted
def test_what_the_library_computes_has_derivatives():
    f = nf.elementwise(lambda x: math.gamma(x) + math.modf(x)[0]*x + abs(cmath.sqrt(
        x - 2.6)) + math.hypot(x, 2.0, x))
    x = np.array([2.3, 4.0, -1.3])
    nf.testing.gradcheck(f, (x[:1],), order=2)
    h = 1e-6
    slope = (f(x + h) - f(x - h))/(2*h)
    np.testing.assert_allclose(nf.grad(lambda x: f(x).sum())(x)[::2], slope[::2], 1e-7)


def test_functions_of_the_library_themselves():
    """As a kernel's function, as an argument of another one, and wrapped by others."""
    assert parse(cmath.sqrt).name == "sqrt"
    check(math.gamma, FLOATS[2:6])

    def applied(f, x):
        return f(x)

    check(lambda x: applied(math.gamma, x) + applied(np.signbit, x), FLOATS[2:6])

    @functools.cache
    def cached(x):
        return x*2.0

    @numba.njit
    def jitted(x):
        return cached(x) + 1.0

    function = parse(lambda x: jitted(x) + cached(x))
    assert evaluate(function, 3.0)[0] == 13.0
