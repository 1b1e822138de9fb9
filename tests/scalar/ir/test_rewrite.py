"""Rules that shorten a function: equalities, found where they are meant."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest

from nbfused.scalar.ir.interpret import evaluate
from nbfused.scalar.ir.nodes import Let, walk
from nbfused.scalar.parse.functions import parse_definition, parse_expression
from nbfused.scalar.printing.formulas import expand
from nbfused.scalar.printing.rewrite import RULES, rewritten
from nbfused.scalar.typing.types import specialize

F4, F8 = np.dtype(np.float32), np.dtype(np.float64)
CALLS = {(op, "float32"): f"{op}_rough" for op in ("sigmoid", "erfc")}
EXACT = {"sigmoid": lambda x: 1/(1 + mpmath.exp(-x)), "erfc": mpmath.erfc}


def ops_of(typed):
    return [s.op for s in walk(typed.function.body) if isinstance(s, Let)]


def after(text, calls=CALLS, params=("a",), dtype=F4):
    typed = specialize(parse_expression(text, params), (dtype,)*len(params))
    return ops_of(rewritten(typed, calls))


@pytest.mark.parametrize("rule", RULES, ids=lambda r: r.left)
def test_a_rule_is_an_equality(rule):
    a = np.array([-5.0, -1.5, -1e-3, 0.0, 0.25, 1.0, 4.0])
    b = np.linspace(-3.0, 3.0, len(a))
    params = ("a", "b")
    typed = specialize(parse_expression(rule.left, params), (F8, F8))
    (left,) = evaluate(typed, a, b)
    right = np.array([rule.outer*float(EXACT[rule.op](rule.inner*x)) for x in a])
    factor = b if rule.left.startswith("b") else 1.0
    np.testing.assert_allclose(left, right*factor, rtol=1e-9, atol=1e-15)


@pytest.mark.parametrize(("text", "expected"), [
    ("sigmoid(a)", ["sigmoid"]),
    ("silu(a)", ["sigmoid", "mul"]),
    ("1.0/(1.0 + exp(-a))", ["sigmoid"]),
    ("1.0/(exp(-a) + 1.0)", ["sigmoid"]),
    ("a/(1.0 + exp(-a))", ["sigmoid", "mul"]),
    ("1.0/(1.0 + exp(a))", ["neg", "sigmoid"]),
    ("tanh(a) + 1.0", ["mul", "sigmoid", "mul"]),
    ("1.0 - tanh(a)", ["mul", "sigmoid", "mul"]),
    ("1.0 + erf(a)", ["neg", "erfc"]),
    ("1.0 - erf(a)", ["erfc"]),
])
def test_what_is_found(text, expected):
    assert after(text) == expected


@pytest.mark.parametrize("text", [
    "2.0 + tanh(a)", "tanh(a) - 1.0", "1.0/(2.0 + exp(-a))", "1.0/(1.0 - exp(-a))",
    "erf(a) - 1.0"])
def test_what_only_looks_alike(text):
    assert not set(after(text)) & {"sigmoid", "erfc"}


def test_only_where_there_is_a_function():
    assert "sigmoid" not in after("sigmoid(a)", {})
    assert "sigmoid" not in after("sigmoid(a)", dtype=F8)
    assert "tanh" in after("1.0 + tanh(a)", {("erfc", "float32"): "erfc_rough"})


def test_both_sides_of_a_quotient_are_about_one_number():
    text = "select(a >= 0.0, 1.0, exp(-abs(a)))/(1.0 + exp(-abs(b)))"
    assert "select" in after(text, params=("a", "b"))


def test_inside_branches_and_loops():
    typed = specialize(parse_definition("""
def function(a):
    total = 0.0
    for k in range(3):
        if a > k:
            total = total + (1.0 + tanh(a - k))
    return total
"""), (F4,))
    found = rewritten(typed, CALLS)
    assert ops_of(found).count("sigmoid") == 1
    assert "tanh" not in ops_of(found)


def test_what_is_needed_elsewhere_stays():
    typed = specialize(parse_definition("""
def function(a):
    t = tanh(a)
    return t*(1.0 + t)
"""), (F4,))
    assert ops_of(expand(typed, CALLS)) == ["tanh", "add", "mul"]
