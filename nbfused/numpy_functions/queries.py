"""Questions about dtypes and shapes, and functions of slices."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from ..arrays import dtype_of
from .base import (
    as_arrays,
    axes_of,
    axis_of,
    converted,
    copied,
    implements,
    is_value,
    ops,
    sequence,
    shape_of,
)
from .elementwise import where
from .shapes import moveaxis

__all__: list[str] = []


def _types(args: Any) -> list[Any]:
    return [dtype_of(x) if is_value(x) else x for x in args]


@implements("result_type")
def result_type(*arrays_and_dtypes: Any) -> np.dtype:
    """The dtype that NumPy's promotion gives."""
    return np.result_type(*_types(arrays_and_dtypes))


@implements("can_cast")
def can_cast(from_: Any, to: Any, casting: Any = "safe") -> bool:
    """Whether a cast is allowed."""
    source, target = _types((from_, to))
    return np.can_cast(source, target, casting)


@implements("min_scalar_type")
def min_scalar_type(a: Any) -> np.dtype:
    """The dtype of an array."""
    return dtype_of(a)


@implements("common_type")
def common_type(*arrays: Any) -> Any:
    """The floating type that holds all arrays."""
    kinds = [np.dtype(np.float64) if t.kind in "biu" else t for t in _types(arrays)]
    return np.result_type(*kinds).type


@implements("meshgrid")
def meshgrid(*xi: Any, copy: bool = True, sparse: bool = False,
             indexing: str = "xy") -> tuple[Any, ...]:
    """The coordinates of a grid from those of its axes."""
    if indexing not in ("xy", "ij"):
        raise ValueError(f"numpy.meshgrid: 'indexing' is {indexing!r}, expected 'xy' "
                         "or 'ij'")
    count = len(xi)
    made = [ops.reshape(x, tuple(-1 if j == k else 1 for j in range(count)))
            for k, x in enumerate(as_arrays(xi, "numpy.meshgrid", weak=False))]
    if indexing == "xy" and count > 1:
        order = (1, 0, *range(2, count))
        made = [ops.transpose(x, order) for x in made]
    if sparse:
        return tuple(made)
    shape = np.broadcast_shapes(*map(shape_of, made))
    wide = (ops.broadcast_to(x, shape) for x in made)
    return tuple(copied(x) for x in wide) if copy else tuple(wide)


@implements("apply_along_axis")
def apply_along_axis(func1d: Callable[..., Any], axis: int, arr: Any, *args: Any,
                     **kwargs: Any) -> Any:
    """Results of a function of each line along an axis: one call for each line."""
    at = axis_of(axis, len(shape_of(arr)))
    moved = moveaxis(arr, at, -1)
    *outer, extent = shape_of(moved)
    lines = ops.reshape(moved, (prod(outer), extent))  # -1 is none of no elements
    made = [func1d(ops.getitem(lines, k), *args, **kwargs)
            for k in range(shape_of(lines)[0])]
    whole = ops.stack(made)
    inner = shape_of(made[0])
    found = ops.reshape(whole, (*outer, *inner))
    places = tuple(range(len(outer), len(outer) + len(inner)))
    return moveaxis(found, places, tuple(range(at, at + len(inner)))) if inner else \
        found


@implements("apply_over_axes")
def apply_over_axes(func: Callable[[Any, int], Any], a: Any, axes: Any) -> Any:
    """A reduction over one axis after another, which stay with extent 1."""
    ndim = len(shape_of(a))
    for k in axes_of(axes, ndim):
        made = func(a, k)
        a = made if len(shape_of(made)) == ndim else ops.expand_dims(made, k)
    return a


@implements("piecewise")
def piecewise(x: Any, condlist: Any, funclist: Any, *args: Any, **kw: Any) -> Any:
    """Functions of the elements at which conditions hold, each of all elements."""
    (x,) = as_arrays([x], "numpy.piecewise")
    conditions = [condlist] if is_value(condlist) and shape_of(condlist) == shape_of(
        x) else sequence(condlist, "numpy.piecewise")
    pieces = list(funclist)
    found = ops.zeros_like(x)
    if len(pieces) == len(conditions) + 1:
        found = ops.add(found, _piece(pieces.pop(), x, args, kw))
    if len(pieces) != len(conditions):
        raise ValueError(f"numpy.piecewise: {len(conditions)} conditions and "
                         f"{len(pieces)} functions; expected as many, or one more")
    for condition, piece in zip(conditions, pieces, strict=True):
        found = where(condition, _piece(piece, x, args, kw), found)
    return converted(found, dtype_of(x))


def _piece(piece: Any, x: Any, args: Any, kw: Any) -> Any:
    return piece(x, *args, **kw) if callable(piece) else piece
