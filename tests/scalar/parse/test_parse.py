"""Parsing against the Python function itself, on many numbers."""

from __future__ import annotations

import math
import random
from fractions import Fraction

import numpy as np
import pytest

from nbfused.op import elementwise, func
from nbfused.scalar.ir.nodes import For, If, Let, Literal, literal, used_params, walk
from nbfused.scalar.language import names as nf
from nbfused.scalar.language.vocabulary import OPS
from nbfused.scalar.parse.functions import parse, parse_definition, parse_expression
from tests.scalar.evaluation import evaluate

HALF, STEPS, ENABLED, PAIR = 0.5, np.int64(3), False, (1.5, (2, -1))


def clamp(x, low=-1.0, high=1.0):
    return low if x < low else (high if x > high else x)


def swap(a, b):
    return b, a


@func
def gate(x, beta=2.0):
    """A function of the package's own kind."""
    return x * nf.sigmoid(beta * x)


@elementwise
def shifted(x, *, by=1):
    return x + by


def arithmetic(x, y):
    """A docstring is no statement."""
    z = (x + y) * (x - y) / (1.0 + x * x)
    z += -x % 3
    z -= +y // 2
    return z - 2


def powers(x, y):
    return x**2, x**3 - x**-2, abs(x)**HALF, 2**y, pow(abs(x), y), x**STEPS


def comparisons(x, y):
    return x < y <= 2, x == y, x != y, -1 < x < y < 1, not x >= y, x > 0 and y > 0


def operands(x, y):
    return x and y, x or y, x or (y and 3), not x, (x > 0) or y


def ternary(x, y):
    return x if x > y else (y if y > 0 else -y)


def ternary_pair(x, y):
    (a, b), c = ((x, y), 1) if x < y else (swap(x, y), 2)
    return a - b, c


def branches(x, y):
    if x > 1:
        z = x
        unused = z + 1  # noqa: F841 - and dropped
    elif x > y:
        z = y * y
    elif y:
        z = 0
    else:
        return 7.0
    return z + 1


def early(x, y):
    if x > y:
        if x > 1:
            return x
        if y < -1:
            return y
        x = -x
    elif y > 2:
        return 0
    x += 1
    return x * y


def nothing_special(x, y):
    a: float = x
    b: int
    a, b = b_of(y), a
    pass
    c = d = a - b
    return c + d


def b_of(value):
    return value * HALF


def calls(x, y):
    a = clamp(x, high=y)
    b, c = swap(a, y)
    return gate(c, beta=0.5) + gate(b), shifted(x), clamp(high=2, low=0, x=y)


def constants(x, y):
    if ENABLED:
        return undefined_name  # noqa: F821 - never looked at
    a, (b, c) = PAIR
    return x + math.pi, y * np.inf if y > 9 else a * c, b**2 + PAIR[1][0], STEPS


def casts(x, y):
    return int(x) + 1, float(y), bool(x), np.float32(x), np.int16(y), float(3)


def conditions(x, y):
    a = 1 if x else 2
    if not y:
        a = 3
    while a < y and x:
        a = a + 1
    return a


def locals_only(x, y):
    return (lambda_free(x), y)


lambda_free = lambda x: (x + 1) / 2  # noqa: E731
twins = (lambda x, y: x + y, lambda x, y: x * y, lambda x, y: (x - y))

FUNCTIONS = [
    arithmetic, powers, comparisons, operands, ternary, ternary_pair, branches, early,
    nothing_special, calls, constants, casts, conditions, locals_only, *twins,
]


def numbers(seed: int, count: int = 60) -> list[float]:
    """Floats and integers, with many equal to one another."""
    r = random.Random(seed)
    return [r.choice([r.uniform(-4, 4), r.randint(-2, 2), float(r.randint(-2, 2))])
            for _ in range(count)]


def plain(results):
    """A flat list of floats; NumPy's arrays without dimensions are numbers."""
    return [float(r) for r in (results if isinstance(results, tuple) else (results,))]


@pytest.mark.parametrize("pyfunc", FUNCTIONS, ids=lambda f: f.__name__)
def test_same_as_python(pyfunc):
    function = parse(pyfunc)
    compared = 0
    for x, y in zip(numbers(1), numbers(2), strict=True):
        try:
            expected = pyfunc(x, y)
        except ZeroDivisionError:
            continue
        found = evaluate(function, x, y)
        assert plain(found) == pytest.approx(plain(expected), rel=1e-14)
        compared += 1
    assert compared > 40


def test_parameters_and_place():
    function = parse(early)
    assert function.params == ("x", "y")
    assert function.name == "early"
    assert function.pyfile == __file__
    lines = {s.line for s in walk(function.body) if isinstance(s, Let)}
    first = early.__code__.co_firstlineno
    assert function.line == first
    assert lines <= set(range(first + 1, first + 12))
    assert len(lines) > 5


def test_equal_sources_give_equal_functions():
    for pyfunc in FUNCTIONS:
        assert parse(pyfunc) == parse(pyfunc)
        assert hash(parse(pyfunc)) == hash(parse(pyfunc))

    def first(x):
        return x * HALF

    def other(x):
        return x * HALF

    assert parse(first).body == parse(other).body
    assert parse(first).body != parse(lambda x: x * 0.25).body


def test_every_name_is_assigned_once():
    for pyfunc in FUNCTIONS:
        function = parse(pyfunc)
        bound = [*function.params]
        for s in walk(function.body):
            bound += s.results
            bound += getattr(s, "params", ())
            bound += (s.index,) if isinstance(s, For) else ()
        assert len(bound) == len(set(bound))


def test_branches_stay_branches():
    kinds = [type(s) for s in walk(parse(ternary).body)]
    assert kinds.count(If) == 2
    ops = {s.op for s in walk(parse(ternary).body) if isinstance(s, Let)}
    assert "select" not in ops


def ops_of(pyfunc, *args):
    return [s.op for s in walk(parse(pyfunc, *args).body) if isinstance(s, Let)]


def test_integer_literal_exponents():
    assert ops_of(lambda x: x**2) == ["powi"]
    assert ops_of(lambda x: x**-3) == ["powi"]
    assert ops_of(lambda x: x**2.0) == ["pow"]
    assert ops_of(lambda x, n: x**n) == ["pow"]
    assert ops_of(lambda x: np.power(x, 2)) == ["powi"]
    assert ops_of(lambda x: math.pow(x, 2)) == ["cast", "powi"]


def test_numbers_are_computed_as_python_does():
    third = parse(lambda: 1 / 3 + 2**10 - math.sqrt(2) + float(1))
    assert third.results == (literal(1 / 3 + 2**10 - math.sqrt(2) + float(1)),)
    assert parse(lambda: -0.0).results == (Literal("float", "-0.0"),)
    assert parse(lambda: not 1 < 2 < 1).results == (literal(True),)
    assert ops_of(lambda x: x + 1 / 0) == ["div", "add"]


def test_short_circuit_guards_a_load():
    def guarded(raw, i, n):
        return 1 if i < n and raw[i] > 0 else 0

    def chained(raw, i, n):
        return 0 <= i < n < raw[i]

    def either(raw, i, n):
        return i >= n or nf.load(raw, i)

    array, table = np.array([5, -5]), {(0,): 5, (1,): -5}
    for pyfunc in (guarded, chained, either):
        function = parse(pyfunc)
        for i in (0, 1):
            assert evaluate(function, table, i, 2) == pyfunc(array, i, 2)
        evaluate(function, {}, 3, 2)  # no load: the dict would raise


def test_loads_and_effects():
    def scatter(raw, i, x):
        nf.atomic_add(raw, i, x * raw[i, 1])

    function = parse(scatter)
    assert function.results == ()
    table = {(0, 1): 3.0, (0,): 1.0}
    evaluate(function, table, 0, 2.0)
    assert table[0,] == 7.0


def test_environment():
    def stage(x):
        return x - math.exp(top) * scale(x) + total[1]  # noqa: F821

    function = parse(stage, environment={
        "top": "top", "total": ("mean", "variance"), "scale": lambda x: x * 3})
    free = {"top": 0.5, "mean": math.nan, "variance": 4.0}
    expected = 2.0 - math.exp(0.5) * 6.0 + 4.0
    assert evaluate(function, 2.0, free=free) == pytest.approx(expected)


def test_inner_functions_named_by_the_environment_are_skipped():
    def whole(x, y):
        def top(x):
            return x

        return x - top

    function = parse(whole, environment={"top": "top"})
    assert evaluate(function, 3.0, 0.0, free={"top": 1.0}) == 2.0
    assert used_params(function) == (True, False)


def test_names_of_the_environment_are_not_taken():
    def f(x):
        t = x * x + 1
        return t * t_1  # noqa: F821

    function = parse(f, environment={"t_1": "t_1"})
    assert evaluate(function, 2.0, free={"t_1": 10.0}) == 50.0


def test_closures_are_frozen():
    def scaled_by(factor):
        return lambda x: x * factor

    assert evaluate(parse(scaled_by(3)), 2.0) == 6.0
    assert parse(scaled_by(3)) != parse(scaled_by(4))
    assert parse(scaled_by(3)) != parse(scaled_by(3.0))


def test_operations_and_functions_are_functions_too():
    for given in (math.sqrt, np.sqrt, nf.sqrt):
        function = parse(given)
        assert len(function.params) == 1
        assert evaluate(function, 9.0) == 3.0
    assert evaluate(parse(np.hypot), 3.0, 4.0) == 5.0
    assert evaluate(parse(np.clip), 3.0, 0.0, 1.0) == 1.0
    assert parse(gate) == gate.function
    assert parse(gate.function) is gate.function


def test_expressions_and_definitions():
    partial = parse_expression("1.0 if a > 0.0 else exp(b)*y + where(a, inf, 2)", "aby")
    assert partial.params == ("a", "b", "y")
    assert evaluate(partial, -1.0, 0.0, 3.0) == math.inf
    assert evaluate(partial, 1.0, 0.0, 3.0) == 1.0
    silu = parse_definition("""
        def silu(a):
            s = sigmoid(a)
            return a*s, min(a, s), uint64(7)
        """)
    assert evaluate(silu, 2.0) == (2.0 * OPS["sigmoid"](2.0), OPS["sigmoid"](2.0), 7)


def test_every_definition_and_partial_of_the_vocabulary_parses():
    for op in OPS.values():
        for text in filter(None, op.partials):
            assert parse_expression(text, (*"abcd"[: op.arity], "y")).results
        if op.definition:
            assert len(parse_definition(op.definition).params) == op.arity


def test_numpy_scalars_and_aliases():
    def f(x, y):
        return (np.where(x > y, x, y), np.maximum(x, 2), max(x, y, 0), min(1, x, y),
                np.arctan2(y, x), math.log(y, 2), np.abs(x), round(x), math.fabs(x),
                np.bitwise_and(3, 6), (x > 0) & (y > 0), (x > y) ^ (y > 1),
                np.square(x))

    function = parse(f)
    for x, y in [(1.25, 3.0), (-2.5, 0.5), (2.0, 8.0)]:
        assert plain(evaluate(function, x, y)) == pytest.approx(plain(f(x, y)))
    ops = {s.op for s in walk(function.body) if isinstance(s, Let)}
    assert {"logical_and", "ne", "select", "max", "atan2"} <= ops
    assert not {"and", "xor", "where", "maximum"} & ops
    assert ops_of(lambda x: ~(x > 0)) == ["gt", "logical_not"]  # as NumPy, not Python


def test_complex_parts():
    function = parse(lambda z: z.real * 2 + z.imag + 1j)
    ops = [s.op for s in walk(function.body) if isinstance(s, Let)]
    assert ops == ["real", "mul", "imag", "add", "add"]


def test_methods_of_numbers():
    def ops(f):
        return [s.op for s in walk(parse(f).body) if isinstance(s, Let)]

    assert ops(lambda z: z.conjugate() * (z + 1).conj()) == [
        "conj", "add", "conj", "mul"]
    assert ops(lambda z: z.astype(np.float32).view(np.int32)) == ["cast", "bits"]
    with pytest.raises(SyntaxError, match=r"z\.view\(\) takes a dtype, as np\.int32"):
        parse(lambda z: z.view(3))
    with pytest.raises(SyntaxError, match=r"z\.astype\(\) takes a dtype"):
        parse(lambda z: z.astype(np.sin))
    assert ops(lambda z: np.angle(z)) == ["imag", "real", "atan2"]
    with pytest.raises(SyntaxError, match=r"conj\(\) takes no arguments"):
        parse(lambda z: z.conj(1))
    with pytest.raises(SyntaxError, match=r"no method .item.[\s\S]*conj"):
        parse(lambda z: z.item())


def test_fractions_are_no_numbers_of_the_language():
    third = Fraction(1, 3)
    with pytest.raises(SyntaxError, match="'third' is a Fraction"):
        parse(lambda x: x * third)
