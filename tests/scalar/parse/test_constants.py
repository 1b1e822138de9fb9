"""Numbers by texts and dtypes, and membership among items that are known."""

from __future__ import annotations

import math

import numpy as np
import pytest

from nbfused.errors import ScalarSyntaxError
from nbfused.scalar.ir.interpret import evaluate
from nbfused.scalar.parse.functions import parse
from nbfused.scalar.source.static import unroll


def values(f, x):
    return tuple(r.item() for r in evaluate(parse(f), x))


@pytest.mark.parametrize("x", [1.25, -2.5])
def test_what_is_known_by_a_text_or_a_dtype(x):
    def f(x):
        return (min(x, float("inf")), float("-1e3") * x, x.astype("int32"),
                np.finfo(np.float32).eps * x, x + np.iinfo(np.int8).max)

    assert values(f, x) == pytest.approx((x, -1e3*x, int(x), 2**-23*x, x + 127))


def test_functions_of_math_of_known_numbers():
    def f(x):
        total = 0.0
        for k in unroll(range(4)):
            total += x**k / math.factorial(k) * math.comb(5, k)
        return total

    assert values(f, 0.5) == pytest.approx(
        (sum(0.5**k/math.factorial(k)*math.comb(5, k) for k in range(4)),))


@pytest.mark.parametrize("x", [1.0, 2.0, 3.0, 5.0])
def test_membership(x):
    def f(x):
        return (x in (1.0, 3), x not in [2, x + 1], x in range(4),
                1.0 if x in (2, 5) and x not in (5,) else 0.0)

    assert values(f, x) == f(x)


@pytest.mark.parametrize(("f", "message"), [
    (lambda x: math.factorial(-1), "factorial.* not defined for negative"),
    (lambda x: float("ten"), r"float\(\) of 'ten' is no number; expected digits"),
    (lambda x: x.astype("single float"), "takes a dtype, as np.int32 or 'int32'"),
    (lambda x: np.iinfo(np.float32).max, "Invalid integer data type"),
    (lambda x: x in x, r"expected range\(...\) or a tuple, got a number")])
def test_what_they_are_not(f, message):
    with pytest.raises(ScalarSyntaxError, match=message):
        parse(f)
