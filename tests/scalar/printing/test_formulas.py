"""Functions that the printer writes out: against mpmath and Python."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest

from nbfused.scalar.ir.interpret import evaluate
from nbfused.scalar.ir.nodes import Let, walk
from nbfused.scalar.language.vocabulary import OPS
from nbfused.scalar.parse.functions import parse
from nbfused.scalar.printing import formulas, trigonometry
from nbfused.scalar.printing.formulas import FORMULAS, expand
from nbfused.scalar.typing.types import specialize
from tests.scalar.kernels import operation, pairs

F4 = np.dtype(np.float32)


def angles() -> np.ndarray:
    """Small, around the switch, up to the largest, and close to multiples of pi/2."""
    rng = np.random.default_rng(2)
    sizes = np.ldexp(rng.uniform(1, 2, 2000), rng.integers(-20, 128, 2000))
    close = np.arange(1, 9000, 7)*(np.pi/2)
    # The float32 that is closest to a multiple of pi/2 relative to its size.
    worst = [16367173.0*2.0**72, 7.0, 22.0, 355.0, 104348.0]
    near = trigonometry.NEAR + np.array([-1.0, -0.01, 0.0, 0.01, 1.0])
    some = np.concatenate([sizes, close, worst, near, rng.normal(size=500)])
    return np.concatenate([some, -some, [0.0, -0.0]]).astype(np.float32)


@pytest.fixture(scope="module")
def reduced():
    """The angles and their sine and cosine, in 60 digits."""
    x = angles()
    with mpmath.workdps(60):
        exact = [(float(mpmath.sin(a)), float(mpmath.cos(a)))
                 for a in map(mpmath.mpf, x.tolist())]
    return x, np.array(exact)


@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_float32_trigonometry(name, reduced):
    x, exact = reduced
    sine, cosine = exact.T
    expected = {"sin": sine, "cos": cosine, "tan": sine/cosine}[name]
    typed = expand(specialize(operation(name), (F4,)), {})
    assert {d.name for d in typed.dtypes.values()}.isdisjoint({"float64"})
    (got,) = evaluate(typed, x)
    unit = np.spacing(abs(expected).astype(np.float32)).astype(np.float64)
    assert (abs(got - expected)/unit).max() < (4 if name == "tan" else 2.5)


@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_trigonometry_of_special_values(name):
    typed = expand(specialize(operation(name), (F4,)), {})
    (got,) = evaluate(typed, np.array([np.nan, np.inf, -np.inf], np.float32))
    assert np.isnan(got).all()
    (got,) = evaluate(typed, np.array([0.0, -0.0], np.float32))
    np.testing.assert_array_equal(got, [1.0, 1.0] if name == "cos" else [0.0, -0.0])
    if name != "cos":
        assert np.signbit(got).tolist() == [False, True]


@pytest.mark.parametrize("op", ["mod", "floordiv"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_division_has_numpys_signs_and_special_values(op, dtype):
    d = np.dtype(dtype)
    a, b = pairs(d)
    typed = expand(specialize(operation(op), (d, d)), {})
    assert not any(isinstance(s, Let) and s.op == op for s in walk(typed.function.body))
    (got,) = evaluate(typed, a, b)
    with np.errstate(all="ignore"):
        expected = {"mod": np.remainder, "floordiv": np.floor_divide}[op](a, b)
    np.testing.assert_array_equal(got, expected)
    np.testing.assert_array_equal(np.signbit(got[got == 0]),
                                  np.signbit(expected[got == 0]))


@pytest.mark.parametrize("n", [0, 1, 2, 5, 30, 31, 63])
def test_integer_power(n):
    for a in (-3, -1, 0, 1, 2, 7):
        assert formulas.integer_power(a, n) == a**n
    assert formulas.integer_power(5, -n - 1) == 0


def test_formulas_inside_loops_and_branches():
    def f(x, n):
        total = x*0
        for k in range(n):
            total = total + (x % 2.0 if k > 1 else np.sin(x)) // 0.5
        return total

    typed = specialize(parse(f), (F4, np.dtype(np.int64)))
    written = expand(typed, {})
    ops = {s.op for s in walk(written.function.body) if isinstance(s, Let)}
    assert not ops & {"mod", "sin", "floordiv"}
    x = np.linspace(-5, 5, 23, dtype=np.float32)
    np.testing.assert_array_equal(evaluate(written, x, np.int64(4))[0],
                                  evaluate(typed, x, np.int64(4))[0])


def test_what_is_called_is_left():
    typed = specialize(operation("sin"), (F4,))
    assert expand(typed, {("sin", "float32"): "fast_sin"}) is typed


def test_each_formula_is_of_an_operation():
    assert {op for op, _ in FORMULAS} <= set(OPS)
