from __future__ import annotations

import inspect
import math

import mpmath
import numpy as np
import pytest

from nbfused.scalar.interpret import evaluate
from nbfused.scalar.parse import parse_expression
from nbfused.scalar.vocabulary import OPS
from tests.scalar.kernels import operation

mpmath.mp.dps = 40

#: Each function as mpmath has it, and where to try it.
EVERYWHERE = [-30.0, -7.5, -2.3, -0.7, -1e-5, 1e-9, 0.4, 1.0, 3.1, 12.0, 40.0]
POSITIVE = [1e-7, 0.3, 1.0, 2.5, 40.0, 1e5]
UNIT = [-0.99, -0.4, 1e-6, 0.3, 0.97]


def phi(a):
    return mpmath.ncdf(a)


REAL = {
    "sqrt": (mpmath.sqrt, POSITIVE), "cbrt": (mpmath.cbrt, POSITIVE),
    "rsqrt": (lambda a: 1/mpmath.sqrt(a), POSITIVE),
    "exp": (mpmath.exp, EVERYWHERE), "exp2": (lambda a: mpmath.mpf(2)**a, EVERYWHERE),
    "expm1": (mpmath.expm1, EVERYWHERE), "log": (mpmath.log, POSITIVE),
    "log2": (lambda a: mpmath.log(a, 2), POSITIVE), "log10": (mpmath.log10, POSITIVE),
    "log1p": (mpmath.log1p, [-0.9, *POSITIVE]), "sin": (mpmath.sin, EVERYWHERE),
    "cos": (mpmath.cos, EVERYWHERE), "tan": (mpmath.tan, EVERYWHERE),
    "asin": (mpmath.asin, UNIT), "acos": (mpmath.acos, UNIT),
    "atan": (mpmath.atan, EVERYWHERE), "sinh": (mpmath.sinh, EVERYWHERE),
    "cosh": (mpmath.cosh, EVERYWHERE), "tanh": (mpmath.tanh, [-3.0, -0.4, 0.2, 2.0]),
    "asinh": (mpmath.asinh, EVERYWHERE), "acosh": (mpmath.acosh, [1.001, 2.0, 1e10]),
    "atanh": (mpmath.atanh, UNIT), "erf": (mpmath.erf, [-2.0, -0.3, 0.5, 3.0]),
    "erfc": (mpmath.erfc, [-3.0, 0.2, 5.0, 20.0]),
    "lgamma": (mpmath.loggamma, [0.3, 1.7, 5.0, 100.0]),
    "digamma": (mpmath.digamma, [-2.5, -0.3, 1e-3, 0.5, 2.0, 9.0, 1e6]),
    "trigamma": (lambda a: mpmath.psi(1, a), [-2.5, -0.3, 1e-3, 0.5, 2.0, 9.0, 1e6]),
    "abs": (abs, EVERYWHERE), "neg": (lambda a: -a, EVERYWHERE),
    "pos": (lambda a: a, EVERYWHERE), "id": (lambda a: a, EVERYWHERE),
    "square": (lambda a: a*a, EVERYWHERE), "reciprocal": (lambda a: 1/a, EVERYWHERE),
    "relu": (lambda a: max(a, 0), EVERYWHERE),
    "sigmoid": (lambda a: 1/(1 + mpmath.exp(-a)), EVERYWHERE),
    "softplus": (lambda a: mpmath.log1p(mpmath.exp(a)), EVERYWHERE),
    "log_sigmoid": (lambda a: -mpmath.log1p(mpmath.exp(-a)), EVERYWHERE),
    "silu": (lambda a: a/(1 + mpmath.exp(-a)), EVERYWHERE),
    "mish": (lambda a: a*mpmath.tanh(mpmath.log1p(mpmath.exp(a))), EVERYWHERE),
    "gelu_erf": (lambda a: a*phi(a), EVERYWHERE),
    "gelu_tanh": (lambda a: a/2*(1 + mpmath.tanh(mpmath.sqrt(2/mpmath.pi)*(
        a + mpmath.mpf("0.044715")*a**3))), EVERYWHERE),
}

PAIRS = [(2.0, 3.0), (0.7, -1.3), (-2.4, 0.9), (-5.5, -0.4), (13.0, 4.5)]
BINARY = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a*b,
    "div": lambda a, b: a/b, "max": max, "min": min,
    "mod": lambda a, b: a - b*mpmath.floor(a/b),
    "fmod": lambda a, b: a - b*(mpmath.floor if a/b > 0 else mpmath.ceil)(a/b),
    "pow": lambda a, b: abs(a)**b, "hypot": mpmath.hypot, "atan2": mpmath.atan2,
    "copysign": lambda a, b: abs(a)*(1 if b > 0 else -1),
    "logaddexp": lambda a, b: mpmath.log(mpmath.exp(a) + mpmath.exp(b)),
}


def value(op, *args):
    (result,) = evaluate(operation(op), *(np.float64(a) for a in args))
    return float(result)


def partial(op, operand, *args):
    """A partial derivative, from the table's text."""
    o = OPS[op]
    text = o.partials[operand]
    if text is None:
        return 0.0
    f = parse_expression(text, (*"abc"[:o.arity], "y"))
    (result,) = evaluate(f, *args, value(op, *args))
    return float(result)


def error(got, expected):
    expected = mpmath.mpf(expected.real)
    return float(abs(got - expected)/max(abs(expected), mpmath.mpf("1e-300")))


@pytest.mark.parametrize("op", REAL)
def test_values_and_derivatives(op):
    function, points = REAL[op]
    for a in points:
        assert error(value(op, a), function(mpmath.mpf(a))) < 1e-12, a
        slope = mpmath.diff(function, mpmath.mpf(a))
        # tanh and sigmoid have their derivative from the result: 1 - y*y cancels.
        absolute = 1e-15 if abs(slope) < 1 else 0.0
        got = partial(op, 0, a) if OPS[op].partials else None
        assert got is None or error(got, slope) < 1e-12 or \
            abs(got - slope) < absolute, a


@pytest.mark.parametrize("op", BINARY)
def test_binary_values_and_derivatives(op):
    function = BINARY[op]
    for a, b in PAIRS:
        if op == "pow":
            a = abs(a)
        x, y = mpmath.mpf(a), mpmath.mpf(b)
        assert error(value(op, a, b), function(x, y)) < 1e-13, (a, b)
        slopes = (mpmath.diff(lambda t, y=y: function(t, y), x),
                  mpmath.diff(lambda t, x=x: function(x, t), y))
        for k, slope in enumerate(slopes):
            assert abs(partial(op, k, a, b) - slope) < 1e-12*max(1, abs(slope)), (a, b)


def test_every_differentiable_operation_is_checked():
    apart = {"powi", "select"}
    named = {n for n, o in OPS.items() if any(o.partials)}
    assert named == (set(REAL) | set(BINARY) | apart) - {"trigamma"}


@pytest.mark.parametrize("n", [-3, -1, 0, 1, 2, 5])
@pytest.mark.parametrize("a", [-2.0, 0.5, 3.0])
def test_integer_power(a, n):
    assert value("powi", a, n) == pytest.approx(a**n, rel=1e-15)
    assert partial("powi", 0, a, n) == pytest.approx(n*a**(n - 1), rel=1e-14)


NAN, INF = math.nan, math.inf
CONVENTIONS = [
    ("relu", (0.0,), (0.0,)), ("relu", (NAN,), (NAN,)), ("relu", (INF,), (1.0,)),
    ("abs", (0.0,), (0.0,)), ("abs", (NAN,), (NAN,)),
    ("sqrt", (0.0,), (0.0,)), ("sqrt", (-1.0,), (NAN,)), ("sqrt", (NAN,), (NAN,)),
    ("max", (1.0, 1.0), (0.5, 0.5)), ("max", (NAN, 1.0), (0.5, 0.5)),
    ("max", (2.0, 1.0), (1.0, 0.0)), ("min", (2.0, 1.0), (0.0, 1.0)),
    ("min", (1.0, 1.0), (0.5, 0.5)), ("min", (1.0, NAN), (0.5, 0.5)),
    ("hypot", (0.0, 0.0), (0.0, 0.0)), ("atan2", (0.0, 0.0), (0.0, 0.0)),
    ("hypot", (NAN, 1.0), (NAN, NAN)),
    ("pow", (0.0, 0.0), (0.0, 0.0)), ("pow", (0.0, 1.0), (1.0, 0.0)),
    ("pow", (0.0, 2.0), (0.0, 0.0)), ("pow", (-2.0, 3.0), (12.0, 0.0)),
    ("pow", (-2.0, 0.5), (NAN, NAN)), ("pow", (NAN, 2.0), (NAN, NAN)),
    ("powi", (0.0, 0), (0.0, 0.0)), ("powi", (0.0, 1), (1.0, 0.0)),
    ("sign", (0.0,), (0.0,)), ("floor", (1.5,), (0.0,)),
    ("select", (1.0, 5.0, 6.0), (0.0, 1.0, 0.0)),
    ("select", (0.0, 5.0, 6.0), (0.0, 0.0, 1.0)),
    ("copysign", (0.0, -1.0), (0.0, 0.0)), ("copysign", (-3.0, 1.0), (-1.0, 0.0)),
    ("silu", (-100.0,), (-3.683e-42,)), ("silu", (100.0,), (1.0,)),
    ("sigmoid", (-INF,), (0.0,)), ("softplus", (INF,), (1.0,)),
    ("gelu_tanh", (1e200,), (1.0,)), ("gelu_tanh", (-1e200,), (0.0,)),
    ("gelu_erf", (1e200,), (1.0,)), ("gelu_erf", (-INF,), (0.0,)),
    ("logaddexp", (INF, INF), (0.5, 0.5)), ("logaddexp", (-INF, -INF), (0.5, 0.5)),
    ("logaddexp", (-INF, 2.0), (0.0, 1.0)), ("exp", (-INF,), (0.0,)),
]


@pytest.mark.parametrize(("op", "args", "expected"), CONVENTIONS)
def test_conventions(op, args, expected):
    got = [partial(op, k, *args) for k in range(len(args))]
    np.testing.assert_allclose(got, expected, rtol=1e-3)


@pytest.mark.parametrize(("op", "a", "expected"), [
    ("sigmoid", -1000.0, 0.0), ("sigmoid", 1000.0, 1.0), ("softplus", 1000.0, 1000.0),
    ("softplus", -1000.0, 0.0), ("log_sigmoid", -1000.0, -1000.0),
    ("gelu_erf", -38.0, -1.0965e-314), ("mish", -1000.0, 0.0), ("mish", 1e300, 1e300),
    ("silu", 1e300, 1e300), ("rsqrt", 0.0, INF), ("relu", NAN, NAN),
    ("sigmoid", NAN, NAN), ("digamma", 0.0, -INF),
])
def test_the_ends_of_the_range(op, a, expected):
    np.testing.assert_allclose(value(op, a), expected, rtol=1e-3)


def words(seed: int, counter: int) -> int:
    """The first word of Philox4x32-10, in Python's integers."""
    c, k = [counter % 2**32, counter >> 32, 0, 0], [seed % 2**32, seed >> 32]
    for _ in range(10):
        p, q = 0xD2511F53*c[0], 0xCD9E8D57*c[2]
        c = [(q >> 32) ^ c[1] ^ k[0], q % 2**32, (p >> 32) ^ c[3] ^ k[1], p % 2**32]
        k = [(k[0] + 0x9E3779B9) % 2**32, (k[1] + 0xBB67AE85) % 2**32]
    return c[0]


def test_philox_known_answer():
    # kat_vectors of Random123: counter 0, key 0.
    assert words(0, 0) == 0x6627E8D5
    assert OPS["philox"](0, 0) == (0x6627E8D5 >> 8)/2**24


def test_philox():
    index = np.array([0, 1, 2, 1000, 2**32, 2**40 + 17])
    for seed in (0, 7, 2**35 + 1, -1):
        got = OPS["philox"](seed, index)
        assert got.dtype == np.float32
        expected = [(words(seed % 2**64, int(i)) >> 8)/2**24 for i in index]
        np.testing.assert_array_equal(got, np.array(expected, np.float32))
    many = OPS["philox"](3, np.arange(100_000))
    assert 0.0 <= many.min() < many.max() < 1.0
    assert abs(many.mean() - 0.5) < 0.005
    assert abs(np.histogram(many, 10, (0, 1))[0] - 10_000).max() < 500


def test_a_call_on_python_numbers_gives_a_python_number():
    assert type(OPS["sigmoid"](0.0)) is float
    assert OPS["sigmoid"](0.0) == 0.5
    assert OPS["lt"](1, 2) is True
    assert OPS["log"](0.0) == -INF
    assert OPS["philox"](1, 2) == pytest.approx(words(1, 2)/2**32, abs=1e-6)


def test_a_call_on_arrays_keeps_their_dtype():
    a = np.array([-1.0, 0.0, 2.0], np.float32)
    for op in ("sigmoid", "erf", "rsqrt", "gelu_erf", "lgamma", "relu"):
        assert OPS[op](a).dtype == np.float32
    assert OPS["relu"](np.array([-1, 2], np.int8)).tolist() == [0, 2]
    assert OPS["select"](a > 0, a, 0.0).tolist() == [0.0, 0.0, 2.0]


def test_a_symbolic_operand_takes_over():
    class Symbol:
        def __nbfused_op__(self, op, args):
            return op, args

    s = Symbol()
    assert OPS["hypot"](1.0, s) == ("hypot", (1.0, s))


def test_a_wrong_number_of_arguments():
    with pytest.raises(TypeError, match=r"hypot\(\) takes 2 arguments, not 1"):
        OPS["hypot"](1.0)


def test_composites_have_a_source():
    for op in OPS.values():
        if op.definition is not None:
            assert inspect.getsource(op.function) == op.definition
            assert op.doc
