"""The builders: names, regions, numbers, bools."""

from __future__ import annotations

import math

import pytest

from nbfused.scalar.ir.build import ZERO, Builder, is_number
from nbfused.scalar.ir.emit import Emitter, fold
from nbfused.scalar.ir.nodes import Block, Function, If, Let, Literal, literal


def test_fresh_names_are_new_and_repeatable():
    one, other = Builder({"x_1", "t"}), Builder({"x_1", "t"})
    names = [one.fresh(s) for s in ("x", "x", "x_2_7", ".flag", "t")]
    assert names == ["x_2", "x_3", "x_4", "flag_1", "t_1"]
    assert names == [other.fresh(s) for s in ("x", "x", "x_2_7", ".flag", "t")]


def test_sums_and_products_skip_what_they_can():
    b = Builder("x")
    assert b.add("x", ZERO) == b.add(literal(0), "x") == b.mul("x", literal(1)) == "x"
    assert b.mul("x", literal(0.0)) == ZERO
    assert b.select("c", "x", "x") == "x"
    assert b.statements == []
    b.mul(literal(-1.0), "x")
    b.add("x", "x")
    assert [s.op for s in b.statements] == ["neg", "add"]
    assert is_number(literal(2), 2.0)
    assert not is_number("x", 2.0)


def test_regions_and_calls():
    b = Builder("xy")
    body = Block((Let(("t",), "mul", ("a", "a")),), ("t",))
    square = Function("square", ("a",), body)
    with b.region() as copied:
        inner = b.call(square, "x")
    assert b.statements == []
    results = b.branch("y", Block(tuple(copied), inner), Block((), (ZERO,)), ("r",))
    assert results == ("r_1",)
    (statement,) = b.statements
    assert isinstance(statement, If)
    assert statement.then.statements == (Let(("t_1",), "mul", ("x", "x")),)


@pytest.mark.parametrize(("op", "args", "expected"), [
    ("add", (1, 2), 3), ("div", (1, 2), 0.5), ("floordiv", (-7, 2), -4),
    ("mod", (-7, 2), 1), ("powi", (2, -1), 0.5), ("neg", (0.0,), -0.0),
    ("lt", (1, 2.0), True), ("logical_or", (False, True), True), ("sqrt", (2,), 2**0.5),
    ("logical_not", (math.nan,), False), ("exp", (1.0,), math.e),
])
def test_numbers_are_folded(op, args, expected):
    found = fold(op, tuple(map(literal, args)))
    assert found == literal(expected)


@pytest.mark.parametrize(("op", "args"), [
    ("div", (1, 0)), ("sqrt", (-1.0,)), ("exp", (1000.0,)), ("sigmoid", (0.0,)),
    ("lshift", (1, -1)), ("and", (1.5, 2)),
])
def test_what_python_refuses_is_left_to_run_time(op, args):
    assert fold(op, tuple(map(literal, args))) is None


def test_casts_of_numbers():
    assert fold("cast", (literal(2.75),), "int") == literal(2)
    assert fold("cast", (literal(2),), "float") == literal(2.0)
    assert fold("cast", (literal(2),), "float32") is None
    assert fold("cast", (literal(math.inf),), "int") is None


def test_bools_are_known():
    e = Emitter("xy")
    less, total = e.emit("lt", "x", "y"), e.emit("add", "x", "y")
    assert e.is_bool(less)
    assert not e.is_bool(total)
    assert not e.is_bool("x")
    assert e.truth(less) == less
    assert e.truth(literal(0.0)) == Literal("bool", "False")
    assert e.is_bool(e.truth(total))
    both = e.branch("x", Block((), (less,)), Block((), (literal(True),)), ("r",))
    mixed = e.branch("x", Block((), (less,)), Block((), (literal(1),)), ("r",))
    assert e.is_bool(*both)
    assert not e.is_bool(*mixed)


def test_bools_are_known_through_calls():
    inner = Emitter("a")
    positive = inner.emit("gt", "a", literal(0))
    blocks = Block((), (positive,)), Block((), (literal(False),))
    result = inner.branch("a", *blocks, ("r",))
    function = Function("f", ("a",), Block(tuple(inner.statements), result))
    outer = Emitter("x")
    assert outer.is_bool(*outer.call(function, "x"))
