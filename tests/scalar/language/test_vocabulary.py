from __future__ import annotations

import inspect
import math

import mpmath
import numpy as np
import pytest

from nbfused.scalar.ir.interpret import evaluate
from nbfused.scalar.language.vocabulary import OPS
from nbfused.scalar.parse.functions import parse_expression
from tests.scalar.kernels import operation

mpmath.mp.dps = 40



def reference(op):
    """What the row says in mpmath's functions, as a function of mpmath's numbers."""
    code = compile(op.exact, op.name, "eval")
    return lambda *args: eval(code, {**vars(mpmath), "abs": abs, "max": max, "min": min,
                                     **dict(zip("ab", args, strict=False))})


#: Functions of one number and where to try them, and those of two.
REAL = {n: (reference(o), o.points) for n, o in OPS.items() if o.exact and o.arity == 1}
BINARY = {n: reference(o) for n, o in OPS.items() if o.exact and o.arity == 2}
PAIRS = [(2.0, 3.0), (0.7, -1.3), (-2.4, 0.9), (-5.5, -0.4), (13.0, 4.5)]


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
    of_complex = {o.on_complex for o in OPS.values()} | {
        "real", "imag", "conj", "complex_from"}
    named = {n for n, o in OPS.items() if any(o.partials)} - of_complex
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
