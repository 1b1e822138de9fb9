"""Elementary functions against mpmath; limits and special values against C's."""

from __future__ import annotations

import math
import zlib

import mpmath
import numpy as np
import pytest
import scipy.special

import nbfused as nf
from nbfused.cpu.text.function_names import BINARY, FUNCTIONS
from nbfused.scalar.ir.nodes import Block, Function, Let
from nbfused.scalar.language import names as nb
from nbfused.scalar.parse.functions import parse
from nbfused.specs import Map
from tests.cpu.skeletons import run_map

REFERENCES = {
    "exp": mpmath.exp, "exp2": lambda x: mpmath.mpf(2)**x, "expm1": mpmath.expm1,
    "log": mpmath.log, "log2": lambda x: mpmath.log(x)/mpmath.log(2),
    "log10": mpmath.log10, "log1p": mpmath.log1p, "sinh": mpmath.sinh,
    "cosh": mpmath.cosh, "tanh": mpmath.tanh, "erf": mpmath.erf,
    "sigmoid": lambda x: 1/(1 + mpmath.exp(-x)),
    "erfc": lambda x: mpmath.erfc(max(min(x, 1e3), -1e3)),  # mpmath fails beyond
    "sin": mpmath.sin, "cos": mpmath.cos, "tan": mpmath.tan,
    "asin": mpmath.asin, "acos": mpmath.acos, "atan": mpmath.atan,
    "asinh": mpmath.asinh, "acosh": mpmath.acosh, "atanh": mpmath.atanh,
    "cbrt": lambda x: mpmath.sign(x)*mpmath.cbrt(abs(x)),
}
#: Names of NumPy's functions that are other ones.
NUMPY = {"asin": "arcsin", "acos": "arccos", "atan": "arctan", "asinh": "arcsinh",
         "acosh": "arccosh", "atanh": "arctanh"}
#: Where functions are defined that are not everywhere: a least and a largest argument.
DOMAINS = {"log": (0, np.inf), "log2": (0, np.inf), "log10": (0, np.inf),
           "log1p": (-1, np.inf), "asin": (-1, 1), "acos": (-1, 1), "atanh": (-1, 1),
           "acosh": (1, np.inf)}
UNARY = [(dtype, op) for dtype, ops in FUNCTIONS.items() for op in ops
         if op not in BINARY]


TURNING = ("sin", "cos", "tan")
LAST_ERFC = {"float32": 10.06, "float64": 26.5}


def operation(op, arity=1):
    params = ("a", "b")[:arity]
    body = Block((Let(("r",), op, params),), ("r",))
    return Map(Function(op, params, body), ("element",)*arity)


def points(op, dtype, count=400):
    """Random arguments over the whole range, and near where functions are delicate."""
    rng = np.random.default_rng(zlib.crc32(op.encode()))
    info = np.finfo(dtype)
    low = math.log(float(info.smallest_subnormal))
    high = math.log(float(info.max))
    tiny = rng.standard_normal(count)*10.0**rng.uniform(-12, 0, count)
    if op in ("log", "log2", "log10"):
        parts = [np.exp(rng.uniform(low, high, count)), rng.uniform(0.5, 2, count),
                 np.abs(1 + tiny)]
    elif op == "log1p":
        parts = [np.exp(rng.uniform(low, high, count)), rng.uniform(-0.9, 2, count),
                 np.maximum(tiny, -0.9), -1 + np.exp(rng.uniform(-15, 0, count))]
    elif op == "acosh":
        parts = [1 + np.exp(rng.uniform(-30, 3, count)), rng.uniform(1, 3, count),
                 np.exp(rng.uniform(0, high, count))]
    elif op in DOMAINS:
        near = np.exp(rng.uniform(-30, 0, count))
        parts = [rng.uniform(-1, 1, count), 1 - near, near - 1, 0.5 + tiny/10]
    else:
        ends = {"exp": (low, high), "exp2": (low/math.log(2), high/math.log(2)),
                "expm1": (-40, high), "sinh": (-high, high), "cosh": (-high, high),
                **dict.fromkeys(TURNING, (-3e4, 3e4)),
                "tanh": (-25, 25), "sigmoid": (low, 40), "erf": (-5, 5),
                "atan": (-9, 9), "asinh": (-9, 9), "cbrt": (-1e3, 1e3),
                "erfc": (-6, LAST_ERFC[dtype])}[op]
        parts = [rng.uniform(*ends, count), rng.uniform(-2, 2, count), tiny]
        if op in TURNING:  # near the zeros, and the numbers that are nearest to any
            parts += [np.arange(-count, count)*(np.pi/2), [
                6381956970095103*2.0**797, 16367173*2.0**72, 1e22]]
    with np.errstate(over="ignore"):
        x = np.concatenate([*parts, every_exponent(rng, info)]).astype(dtype)
    return x[np.isfinite(x)]


def every_exponent(rng, info):
    """A number of each exponent and sign, subnormal ones too."""
    exponents = np.arange(info.minexp - info.nmant, info.maxexp)
    positive = np.ldexp(rng.uniform(1, 2, exponents.size), exponents)
    return np.concatenate([positive, -positive])


def ulps(got, x, reference):
    """The largest error in units in the last place of the exact result."""
    worst = 0.0
    for y, argument in zip(got.tolist(), x.tolist(), strict=True):
        exact = reference(mpmath.mpf(argument))
        with np.errstate(over="ignore"):
            rounded = got.dtype.type(float(exact))
        if np.isinf(rounded) or np.isinf(y):
            assert rounded == y or abs(exact) > 0.999999*np.finfo(got.dtype).max
            continue
        unit = float(np.spacing(abs(rounded)))
        worst = max(worst, float(abs(y - exact)/unit))
    return worst


@pytest.mark.parametrize(("dtype", "op"), UNARY)
def test_two_units_in_the_last_place(dtype, op):
    x = points(op, dtype)
    least, most = DOMAINS.get(op, (-np.inf, np.inf))
    x = x[(x > least) & (x < most)]  # elsewhere: test_special_values
    got = run_map(operation(op), x)
    with mpmath.workprec(1300 if op in TURNING else 120):
        assert ulps(got, x, REFERENCES[op]) <= 2.0


@pytest.mark.parametrize(("dtype", "low"), [("float32", -12.9), ("float64", -37.3)])
def test_tails_of_the_normal_distribution(dtype, low):
    """Where the argument's rounding would be magnified by its square."""
    x = np.linspace(low, 9, 800).astype(dtype)
    with mpmath.workprec(120):
        half = mpmath.sqrt(mpmath.mpf(1)/2)
        assert ulps(run_map(operation("gelu_erf"), x), x,
                    lambda a: a*mpmath.erfc(-a*half)/2) <= 3.0
        x /= math.sqrt(2)
        for function, scale in ((lambda x: nb.exp(-x*x), -1),
                                (lambda x: nb.exp(-0.5*x*x), -mpmath.mpf(0.5))):
            assert ulps(run_map(Map(parse(function), ("element",)), x), x,
                        lambda a, scale=scale: mpmath.exp(scale*a*a)) <= 1.5
    ends = np.array([np.inf, -np.inf, np.nan, 1e30, -1e30, 0], dtype)
    bell = Map(parse(lambda x: nb.exp(-x*x)), ("element",))
    assert np.array_equal(run_map(bell, ends),
                          np.array([0, 0, np.nan, 0, 0, 1], dtype), equal_nan=True)
    assert np.array_equal(run_map(operation("gelu_erf"), ends), np.array(
        [np.inf, np.nan, np.nan, 1e30, 0, 0], dtype), equal_nan=True)


@pytest.mark.parametrize(("dtype", "op"), UNARY)
def test_special_values(dtype, op):
    info = np.finfo(dtype)
    x = np.array([0, np.inf, np.nan, 1, 100, 800, info.tiny, info.max,
                  info.smallest_subnormal], dtype)
    x = np.concatenate([x, -x])
    got = run_map(operation(op), x)
    theirs = {"erf": scipy.special.erf, "erfc": scipy.special.erfc,
              "sigmoid": scipy.special.expit}
    function = theirs.get(op) or getattr(np, NUMPY.get(op, op))
    with np.errstate(all="ignore"):
        expected = function(x.astype(np.float64)).astype(dtype)
    assert np.allclose(got, expected, rtol=4*info.eps, atol=info.smallest_subnormal,
                       equal_nan=True)
    zero = (got == 0) & (expected == 0)
    assert np.array_equal(np.signbit(got[zero]), np.signbit(expected[zero]))


def test_angles_of_points():
    """Of every two exponents, as one or the other is near 0 or far from it."""
    rng = np.random.default_rng(0)
    for dtype in ("float32", "float64"):
        exponents = every_exponent(rng, np.finfo(dtype))
        y = np.concatenate([exponents, rng.normal(size=400)]).astype(dtype)
        x = rng.permutation(y)
        got = run_map(operation("atan2", 2), y, x)
        with mpmath.workprec(120):
            exact = [mpmath.atan2(*map(mpmath.mpf, pair))
                     for pair in zip(y.tolist(), x.tolist(), strict=True)]
            unit = np.spacing(abs(np.array([float(e) for e in exact], dtype)))
            far = [abs(g - e)/float(u) for g, e, u in zip(got.tolist(), exact, unit,
                                                        strict=True)]
        assert max(far) <= 2.0


def test_angles_at_special_values():
    values = np.array([0, 1, 2, np.inf, np.nan, 1e-45, 3e38, 1e-30], np.float32)
    values = np.concatenate([values, -values])
    for dtype in ("float32", "float64"):
        y, x = (v.ravel() for v in np.meshgrid(values.astype(dtype),
                                               values.astype(dtype)))
        got, expected = run_map(operation("atan2", 2), y, x), np.arctan2(y, x)
        np.testing.assert_allclose(got, expected, rtol=4*np.finfo(dtype).eps,
                                   atol=np.finfo(dtype).smallest_subnormal)
        known = ~np.isnan(expected)
        assert np.array_equal(np.signbit(got[known]), np.signbit(expected[known]))


@pytest.mark.parametrize(("op", "function"), [("pow", np.power), ("hypot", np.hypot)])
def test_functions_of_two_numbers_at_special_values(op, function):
    one = [0, 1, 2, 3, 0.5, np.inf, np.nan, 1e-45, 3e38, 16777216, 1.0000001, 33554434]
    values = np.array([*one, *(-v for v in one)], np.float32)
    a, b = (v.ravel() for v in np.meshgrid(values, values))
    got = run_map(operation(op, 2), a, b)
    with np.errstate(all="ignore"):
        expected = function(*(v.astype(np.float64) for v in (a, b)))
        expected = expected.astype(np.float32)
    assert np.array_equal(got, expected, equal_nan=True)
    finite = ~np.isnan(expected)
    assert np.array_equal(np.signbit(got[finite]), np.signbit(expected[finite]))


def test_powers_of_float64_at_special_values():
    one = [0, 1, 2, 3, 0.5, np.inf, np.nan, 5e-324, 1e-310, 1.7e308, 2.0**53, 1e300,
           2.0**53 + 2, 2.0**53 - 1, 1.0000001, 1/3]
    values = np.array([*one, *(-v for v in one)])
    a, b = (v.ravel() for v in np.meshgrid(values, values))
    got = run_map(operation("pow", 2), a, b)
    with np.errstate(all="ignore"):
        expected = np.power(a, b)
    np.testing.assert_allclose(got, expected, rtol=4e-16, atol=5e-324)
    known = ~np.isnan(expected)
    assert np.array_equal(np.signbit(got[known]), np.signbit(expected[known]))


def test_powers():
    rng = np.random.default_rng(0)
    a = np.exp(rng.uniform(-80, 80, 1000)).astype(np.float32)
    b = (rng.uniform(-80, 80, 1000)/np.log(a)).astype(np.float32)
    exact = np.power(a.astype(np.longdouble), b.astype(np.longdouble))
    got = run_map(operation("pow", 2), a, b)
    assert np.all(abs(got - exact) <= 0.51*np.spacing(exact.astype(np.float32)))


@pytest.mark.parametrize("near", [700.0, 1.0, 1e-3])
@pytest.mark.parametrize("result", [(-700, 700), (-1, 1), (-745, -700)])
def test_powers_of_float64(near, result):
    """Of bases far from 1 and near it, with results on the whole range."""
    rng = np.random.default_rng(0)
    a = np.exp(rng.uniform(-near, near, 400))
    b = rng.uniform(*result, 400)/np.log(a)
    with mpmath.workprec(200):
        exact = [mpmath.power(*x) for x in zip(a.tolist(), b.tolist(), strict=True)]
        for got, e in zip(run_map(operation("pow", 2), a, b).tolist(), exact,
                          strict=True):
            assert abs(got - e) <= 1.0*np.spacing(float(e))


def test_the_derivatives_of_lgamma():
    """By series that have to be long enough for float64."""
    x = np.concatenate([np.linspace(0.01, 1.3, 40), np.linspace(1.7, 30, 60)])
    with mpmath.workprec(120):
        assert ulps(run_map(operation("digamma"), x), x, mpmath.digamma) <= 40.0
        assert ulps(run_map(operation("trigamma"), x), x,
                    lambda a: mpmath.psi(1, a)) <= 4.0


def test_the_derivative_of_gelu_tanh():
    x = nf.Variable(np.linspace(-0.5, 5, 200), requires_grad=True)
    nf.ops.gelu(x, approximate="tanh").sum().backward()
    with mpmath.workprec(120):
        scale, cubic = 2*mpmath.sqrt(2/mpmath.pi), mpmath.mpf(0.044715)

        def exact(a):
            s = 1/(1 + mpmath.exp(-scale*(a + cubic*a**3)))
            return s + a*s*(1 - s)*scale*(1 + 3*cubic*a*a)

        assert ulps(x.grad, x.data, exact) <= 8.0
