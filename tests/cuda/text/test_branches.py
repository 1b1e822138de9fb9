"""Branches that become selections compute the same."""

from __future__ import annotations

import numpy as np
import pytest

from nbfused.cuda.text.branches import flattened
from nbfused.scalar.ir.interpret import evaluate
from nbfused.scalar.ir.nodes import For, If, walk
from nbfused.scalar.parse.functions import parse_definition
from nbfused.scalar.typing.types import specialize
from nbfused.specs.combine import COMBINES

F32, I32 = np.dtype("float32"), np.dtype("int32")
VALUES = np.array([-np.inf, -2, -0.0, 0.0, 1, 2, np.inf, np.nan], np.float32)


def branches(typed, kind=If):
    return sum(isinstance(s, kind) for s in walk(typed.function.body))


def both(text, *dtypes):
    typed = specialize(parse_definition(text), dtypes)
    return typed, flattened(typed)


def same(typed, flat, *args):
    with np.errstate(all="ignore"):
        for a, b in zip(evaluate(typed, *args), evaluate(flat, *args), strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("name", ["argmax", "argmin", "max"])
def test_merges_of_reductions(name):
    combine = COMBINES[name].saving or COMBINES[name]
    typed = specialize(combine.merge, (F32, I32)*2)
    flat = flattened(typed)
    assert branches(typed) > 0
    assert branches(flat) == 0
    a, b = np.meshgrid(VALUES, VALUES)
    i, j = np.meshgrid(np.arange(8, dtype=np.int32), np.arange(8, dtype=np.int32)[::-1])
    same(typed, flat, a, i, b, j)


def test_both_sides_may_divide_by_zero():
    typed, flat = both("""
def f(x, y):
    if y == 0.0:
        return 0.0
    if x > 1.0:
        y = y*x
    return x/y
""", F32, F32)
    assert branches(flat) == 0
    same(typed, flat, *np.meshgrid(VALUES, VALUES))


@pytest.mark.parametrize("dear", [
    "y = load(t, i)", "y = x // i", "y = sin(x)", "y = lgamma(x)",
    "y = x\n        for k in range(3):\n            y = y*x"])
def test_what_must_not_run_needlessly_stays_behind_its_branch(dear):
    text = f"def f(x, i, t):\n    y = x\n    if i > 0:\n        {dear}\n    return y\n"
    _, flat = both(text, *(F32, I32, F32) if "//" not in dear else (I32, I32, F32))
    assert branches(flat) == 1


def test_branches_in_loops_go_the_loops_stay():
    typed, flat = both("""
def f(x):
    y = x
    for k in range(4):
        if y > 1.0:
            y = y - 1.0
        else:
            y = y + 0.25
    return y
""", F32)
    assert branches(flat) == 0
    assert branches(flat, For) == 1
    same(typed, flat, VALUES)
