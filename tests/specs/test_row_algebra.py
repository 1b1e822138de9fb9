"""Reductions along the last axis and the Maps around them are a Row."""

from __future__ import annotations

import numpy as np
import pytest

from nbfused.specs import COMBINES, Reduce, Row, View
from nbfused.specs.fusion.graph import Value
from nbfused.specs.fusion.partition import partition
from nbfused.specs.fusion.row_algebra import row_kind
from nbfused.specs.reduce import sum_over
from nbfused.specs.vjp.functions import identity
from tests.specs.test_algebra import (
    double_and_square,
    elements,
    given,
    kinds,
    node,
    normal,
    run,
    weighted,
)

pytestmark = pytest.mark.interpreted

LARGEST = Reduce(identity(), ("element",), COMBINES["max"], COMBINES["max"].finish,
                 (1,), True)


def graph(x, w):
    """A maximum, a Map of it, a sum of that, and a Map of all."""
    top = node(LARGEST, x)
    moved = node(elements(weighted), x, x, top.outputs[0])
    total = node(sum_over((1,), True), moved.outputs[0])
    last = node(elements(weighted), moved.outputs[0], w, total.outputs[0])
    return [top, moved, total, last]


def expected(x, w):
    top = x.max(1, keepdims=True)
    moved = x * top + x
    total = moved.sum(1, keepdims=True)
    return top, moved, total, moved * total + w


def test_one_row_with_outputs_of_both_kinds():
    x, w = given((5, 7), "f8"), given((7,), "f8", "w")
    nodes = graph(x, w)
    outputs = [n.outputs[0] for n in nodes]
    launches = partition(nodes, outputs, "f")
    assert kinds(launches) == ["Row", "View", "View"]
    row = launches[0].spec
    assert (row.inputs, row.kinds) == (("x", "w"), ("element", "column"))
    assert [len(s.names) for s in row.stages] == [1, 1]
    assert [o.kind for o in row.outs] == ["row", "element", "row", "element"]
    a, b = normal(5, 7, dtype="f8"), normal(7, seed=1, dtype="f8")
    env = run(launches, {x: a, w: b})
    for value, e in zip(outputs, expected(a, b), strict=True):
        assert env[value].shape == value.shape
        np.testing.assert_allclose(env[value], e, rtol=1e-12)


def test_maps_of_reduced_values_run_once_for_each_row():
    x = given((5, 7), "f8")
    total = node(sum_over((1,), True), x)
    square = node(elements(double_and_square), total.outputs[0])
    last = node(elements(weighted), x, square.outputs[1], square.outputs[0])
    (launch,) = partition([total, square, last], last.outputs, "f")
    assert isinstance(launch.spec, Row)
    (stage,) = launch.spec.stages
    assert len(stage.names) == 3  # the sum, its double, its square
    a = normal(5, 7, dtype="f8")
    s = a.sum(1, keepdims=True)
    np.testing.assert_allclose(run([launch], {x: a})[last.outputs[0]],
                               a * 2 * s + s * s, rtol=1e-12)


@pytest.mark.parametrize(("shape", "axis", "dtype"), [
    ((5, 7), 0, "f8"), ((7,), 0, "f8"), ((5, 7), 1, "i8"), ((2, 1 << 16), 1, "f4")])
def test_what_is_no_row(shape, axis, dtype):
    """Strided, a single row, integers, too long for one block."""
    x = given(shape, dtype)
    total = node(sum_over((axis,), True), x)
    last = node(elements(weighted), x, x, total.outputs[0])
    assert kinds(partition([total, last], last.outputs, "f")) == ["Reduce", "Map"]


def test_a_flip_between_is_one_of_what_is_read():
    x = given((5, 7), "f8")
    total = node(sum_over((1,), True), x)
    moved = node(elements(weighted), x, x, total.outputs[0])
    flipped = node(View("slice", ((0, 5, 1), (6, -1, -1))), moved.outputs[0])
    last = node(elements(weighted), flipped.outputs[0], x, total.outputs[0])
    launches = partition([total, moved, flipped, last], last.outputs, "f")
    assert kinds(launches) == ["View", "Row"]
    a = normal(5, 7, dtype="f8")
    s = a.sum(1, keepdims=True)
    np.testing.assert_allclose(run(launches, {x: a})[last.outputs[0]],
                               (a * s + a)[:, ::-1] * s + a, rtol=1e-12)


def test_how_a_row_reads_what_is_given():
    extent = (4, 5, 6)
    number = Value((), np.dtype("f4"), by_value=True)
    assert row_kind(number, extent) == "scalar"
    for shape, kind in ((extent, "element"), ((6,), "column"), ((4, 5, 1), "element"),
                        ((5, 6), "element"), ((1,), "element"), ((5,), None),
                        ((3, 4, 5, 6), None), ((), None)):
        assert row_kind(given(shape), extent) == kind
