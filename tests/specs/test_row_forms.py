"""Which stages need less than a pass of their own."""

from __future__ import annotations

import numpy as np
import pytest

import nbfused as nf
from nbfused.op import row, stage
from nbfused.ops.losses import _cross_entropy, _smoothed
from nbfused.ops.normalization import softmax
from nbfused.scalar.language import names as nb
from nbfused.scalar.typing.types import Weak
from nbfused.specs.fusion.row_forms import online, points

F4, I4, I8 = (np.dtype(d) for d in ("f4", "i4", "i8"))


def typed(op, kinds=("element",), types=(F4,)):
    return op.spec(kinds, -1).typed(types)


@pytest.mark.parametrize("labels", [I4, I8, np.dtype("u1")])
def test_the_label_is_the_column_of_what_is_picked(labels):
    found = typed(_cross_entropy, ("element", "row", "scalar"),
                  (F4, labels, Weak("int")))
    ((at, column),) = points(found).items()
    assert found.stages[at].names == ("picked",)
    assert column.function.params == ("labels",)
    assert column.results == (I8,)


def picking(combine, neutral):
    @row(which="row")
    def op(x, which):
        @stage(combine)
        def value(x, which, index):
            return nb.exp(x) if which - 1 == index else neutral

        return value

    return points(typed(op, ("element", "row"), (F4, I8)))


@pytest.mark.parametrize(("combine", "neutral"), [
    ("sum", 0.0), ("sum", -0.0), ("prod", 1.0), ("max", -np.inf), ("min", np.inf)])
def test_any_neutral_element_leaves_a_column_out(combine, neutral):
    (column,) = picking(combine, neutral).values()
    assert column.function.params == ("which",)


@pytest.mark.parametrize(("combine", "other"), [
    ("sum", 1.0), ("sum", np.nan), ("max", 0.0), ("min", -np.inf)])
def test_other_elements_count(combine, other):
    assert not picking(combine, other)


def test_a_column_that_elements_choose_is_none():
    @row
    def op(x, y):
        @stage("sum")
        def value(x, y, index):
            return x if index == np.int64(y) else 0.0

        return value

    assert not points(typed(op, ("element", "element"), (F4, I8)))


def test_a_comparison_that_is_not_of_integers_is_none():
    @row(y="row")
    def op(x, y):
        @stage("sum")
        def value(x, y, index):
            return x if index == y else 0.0

        return value

    assert not points(typed(op, ("element", "row"), (F4, F4)))


def test_a_sum_of_powers_goes_with_its_maximum():
    (pair,) = online(typed(softmax))
    assert (pair.top, pair.total) == (0, 1)
    (pair,) = online(typed(_smoothed, ("element", "row", "scalar", "scalar"),
                           (F4, I8, Weak("float"), Weak("int"))))
    assert (pair.top, pair.total) == (0, 1)


def relative(combine="max", of=lambda x: x, to=lambda x: x, post=None, power=nb.exp):
    @row
    def op(x):
        @stage(combine, post=post)
        def top(x):
            return of(x)

        @stage("sum")
        def total(x, top):
            return power(to(x) - top)

        return total

    return online(typed(op))


def double(x):
    return 2.0*x


def half(x):
    return 0.5*x


def test_the_maximum_is_of_the_same_function():
    assert relative()
    assert relative(of=double, to=double)
    assert not relative(of=double, to=half)
    assert not relative(to=double)


def test_other_forms_stay_apart():
    assert not relative(combine="min")
    assert not relative(combine="sum")
    assert not relative(post=half)
    assert not relative(power=nb.exp2)


@row(which="row")
def chosen(x, which):
    """What stands in one column, in four ways, and the number of columns."""
    @stage("sum")
    def added(x, which, index):
        return nb.exp(x) if index == which else 0.0

    @stage("max")
    def largest(x, added, index):
        return x * added if index == 2 else -np.inf

    @stage("sum")
    def negative(x, which, size, index):
        return x if which - size == index else 0.0

    @stage("min")
    def smallest(x, which, index):
        return x if index == which else np.inf

    return added, largest, negative, smallest


@pytest.mark.parametrize("device", ["cpu", pytest.param(
    "cuda:0", marks=pytest.mark.cuda)])
@pytest.mark.parametrize("columns", [5, 700])
def test_single_columns(columns, device):
    x = np.random.default_rng(0).standard_normal((6, columns)).astype(np.float32)
    which = np.array([0, 3, columns - 1, columns, -1, 2*columns - 1])
    found = [nf.to_numpy(y) for y in chosen(
        nf.array(x, device=device), nf.array(which, device=device))]
    inside = (which >= 0) & (which < columns)
    at = x[np.arange(6), which % columns]
    added = np.where(inside, np.exp(at), 0)
    expected = (added, x[:, 2]*added, np.where(which >= columns, at, 0),
                np.where(inside, at, np.inf))
    for y, z in zip(found, expected, strict=True):
        np.testing.assert_allclose(y, z, rtol=1e-5)
