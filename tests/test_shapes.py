"""Shapes of results, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbfused.errors import ShapeError
from nbfused.specs.shapes import (
    broadcast_shapes,
    broadcasts_to,
    check_permutation,
    normalize_axes,
    reduce_shape,
    row_shapes,
)

shapes = st.lists(st.integers(0, 3), max_size=3).map(tuple)


@given(st.lists(shapes, max_size=3))
def test_broadcast_is_numpys(given_shapes):
    try:
        expected = np.broadcast_shapes(*given_shapes)
    except ValueError:
        with pytest.raises(ShapeError):
            broadcast_shapes(given_shapes)
    else:
        assert broadcast_shapes(given_shapes) == expected


@given(shapes, shapes)
def test_broadcasts_to_is_numpys(shape, target):
    try:
        np.broadcast_to(np.zeros(shape), target)
    except ValueError:
        assert not broadcasts_to(shape, target)
    else:
        assert broadcasts_to(shape, target)


def test_clash_names_the_operands_that_differ():
    with pytest.raises(ShapeError, match=r"'y' of shape \(2, 3\) and 'z' of shape "
                                         r"\(4, 1\).*2 against 4 in axis -2"):
        broadcast_shapes([(1,), (2, 3), (4, 1)], ("x", "y", "z"))
    with pytest.raises(ShapeError, match=r"input 0 .* and input 1"):
        broadcast_shapes([(2,), (3,)])


axis = st.integers(-4, 3)


@given(shapes.filter(bool), st.none() | axis | st.lists(axis, max_size=3).map(tuple),
       st.booleans())
def test_reduce_is_numpys(shape, axes, keepdims):
    """But for arrays without dimensions, of which NumPy lets one name an axis."""
    wrong = None
    try:
        expected = np.zeros(shape).sum(axis=axes, keepdims=keepdims).shape
    except ValueError as error:
        wrong = np.exceptions.AxisError if type(error) is not ValueError else ShapeError
    if wrong is None:
        assert reduce_shape(shape, axes, keepdims) == expected
    else:
        with pytest.raises(wrong):
            reduce_shape(shape, axes, keepdims)


def test_axes_keep_their_order():
    assert normalize_axes((-1, 0), 3) == (2, 0)
    assert normalize_axes(np.int64(-2), 3) == (1,)
    assert normalize_axes(None, 2) == (0, 1)
    with pytest.raises(np.exceptions.AxisError, match="'dims'"):
        normalize_axes(3, 3, "dims")
    with pytest.raises(TypeError, match=r"'axis' must be an integer, got 1\.0"):
        normalize_axes(1.0, 3)  # type: ignore[arg-type]


def test_permutation():
    assert check_permutation((-1, 0, 1), 3) == (2, 0, 1)
    with pytest.raises(ShapeError, match="each of the 3 axes once"):
        check_permutation((0, 1), 3)
    with pytest.raises(ShapeError, match="twice"):
        check_permutation((0, 0, 1), 3)


def test_rows():
    kinds, outs = ("element", "row", "column"), ("element", "row", "column", "scalar")
    got = row_shapes(kinds, ((2, 3, 4), (2, 4), (3,)), outs, 1)
    assert got == ((2, 3, 4), (2, 4), (3,), ())
    with pytest.raises(ShapeError, match=r"'b' has one value for each column.*\(4,\)"):
        row_shapes(("element", "column"), ((2, 4), (3,)), outs, -1, ("x", "b"))
    with pytest.raises(ShapeError, match="needs an input of kind 'element'"):
        row_shapes(("row",), ((2,),), outs)
    with pytest.raises(np.exceptions.AxisError):
        row_shapes(("element",), ((2,),), outs, 1)
