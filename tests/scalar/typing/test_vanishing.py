"""Values that are one number wherever they are not NaN."""

from __future__ import annotations

import numpy as np
import pytest

from nbfused.scalar.ir.interpret import evaluate
from nbfused.scalar.ir.nodes import walk
from nbfused.scalar.parse.functions import parse_definition
from nbfused.scalar.typing.types import specialize

POINTS = np.array([0.0, -0.0, 1.5, -3e38, np.inf, -np.inf, np.nan], np.float32)

#: What is written, what it is where `x` is finite, and the operations that are left.
CASES = {
    "exp(x - x)": (1.0, {"sub", "add"}),
    "log(0.0 + exp(x - x))": (0.0, {"sub", "add"}),
    "exp(x - x)/exp(2.0*(x - x))": (1.0, {"sub", "add"}),
    "(x - x) - log(exp(x - x))": (0.0, {"sub", "add"}),
    "sqrt(-(x - x))": (-0.0, {"sub", "neg", "sqrt"}),
    "log(x - x)": (-np.inf, {"sub", "log"}),
    "exp(exp(x - x))": (np.e, {"sub", "add", "exp"}),
    "1.0/-(x - x)": (-np.inf, {"sub", "neg", "div"}),
    "3.0/exp(x - x)": (3.0, {"sub", "add"}),
    "-0.0/exp(x - x)": (-0.0, {"sub", "add", "div"}),
    "1500.0/exp(x - x)": (1500.0, {"sub", "add", "div"}),
    "exp((x - x) + y*0.0)": (1.0, {"sub", "add", "mul", "exp"}),
    "exp((x - x) - (y - y))": (1.0, {"sub", "exp"}),
}


@pytest.mark.parametrize("text", CASES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_difference_of_equals_needs_no_functions(text, dtype):
    value, operations = CASES[text]
    function = parse_definition(f"def f(x, y): return {text}")
    typed = specialize(function, (np.dtype(dtype),)*2)
    x = POINTS.astype(dtype)
    (found,) = evaluate(typed, x, np.ones_like(x))
    expected = np.where(np.isfinite(x), value, np.nan).astype(dtype)
    np.testing.assert_allclose(found, expected, rtol=1e-6, strict=True)
    assert np.array_equal(np.signbit(found)[:4], np.signbit(expected)[:4])
    assert {s.op for s in walk(typed.function.body)} == operations


@pytest.mark.parametrize("dtype", ["complex64", "int32"])
def test_of_numbers_of_other_kinds_it_is_one_as_well(dtype):
    typed = specialize(parse_definition("def f(x): return exp(x - x)"),
                       (np.dtype(dtype),))
    (found,) = evaluate(typed, np.array([3, 0], dtype))
    np.testing.assert_array_equal(found, [1, 1])
