"""Dataclasses that a function builds, copies and changes."""

from __future__ import annotations

import dataclasses

import pytest

from nbfused.errors import ScalarSyntaxError
from nbfused.scalar.ir.interpret import evaluate
from nbfused.scalar.parse.functions import parse


@dataclasses.dataclass
class Point:
    x: float
    y: float = 2.0


def test_replace_makes_a_copy():
    def f(x):
        p = Point(x)
        q = dataclasses.replace(p, y=3.0)
        q.x += 1
        return p.x, p.y, q.x, q.y

    assert [float(v) for v in evaluate(parse(f), 0.5)] == list(f(0.5))


def test_two_names_of_one_struct():
    def f(x):
        p = Point(x)
        q = p
        q.y = x
        return p.y

    with pytest.raises(ScalarSyntaxError, match="'q' and 'p' are the same struct; make "
                                                r"a copy .*dataclasses.replace\(q\)"):
        parse(f)
