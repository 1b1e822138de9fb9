"""Matrices, stacks of them: what the functions of linear algebra share."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

from ...errors import ShapeError
from ..base import detached, floating, ops, shape_of
from ..shapes import matrix_transpose, tril, triu

__all__ = ["eye", "matrices", "named", "product", "square_matrices", "transposed"]


def transposed(x: Any) -> Any:
    """The transposes of matrices."""
    return matrix_transpose(x)


def product(*factors: Any) -> Any:
    """The product of matrices."""
    made = factors[0]
    for x in factors[1:]:
        made = ops.matmul(made, x)
    return made


def eye(like: Any) -> Any:
    """The identity in the shape of the matrices `like`."""
    return triu(tril(ops.ones_like(detached(like))))


def matrices(a: Any, name: str) -> Any:
    """A stack of matrices of floating numbers."""
    if len(shape_of(a)) < 2:
        raise ShapeError(f"numpy.linalg.{name}: shape {shape_of(a)}, expected two "
                         "dimensions or more")
    return floating(a)


def square_matrices(a: Any, name: str) -> Any:
    """A stack of square matrices of floating numbers."""
    a = matrices(a, name)
    if shape_of(a)[-1] != shape_of(a)[-2]:
        raise ShapeError(f"numpy.linalg.{name}: matrices of {shape_of(a)[-2]} rows and "
                         f"{shape_of(a)[-1]} columns, expected square ones")
    return a


def named(name: str, **fields: Any) -> Any:
    """A named tuple, as NumPy returns it."""
    return namedtuple(name, fields)(**fields)
