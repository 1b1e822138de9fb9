"""Shapes of results from shapes of operands: integers only, no arrays."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from operator import index
from typing import SupportsIndex

import numpy as np

from ..errors import KernelTypeError, ShapeError
from .subscripts import parse_subscripts

__all__ = [
    "assigned_shape",
    "broadcast_shapes",
    "broadcasts_to",
    "check_count",
    "check_extra",
    "check_permutation",
    "contract_shapes",
    "names_only_element",
    "normalize_axes",
    "normalize_axis",
    "operand_name",
    "reduce_shape",
    "row_shapes",
]

Shape = tuple[int, ...]
Axes = SupportsIndex | Iterable[SupportsIndex] | None
Names = Sequence[str] | None

#: 2**63 bytes, of 16 each at most.
_MOST_ELEMENTS = 2**59


def operand_name(names: Names, position: int) -> str:
    """The name of the operand at `position` in messages."""
    if names is not None and position < len(names):
        return f"'{names[position]}'"
    return f"input {position}"


def broadcast_shapes(shapes: Sequence[Shape], names: Names = None) -> Shape:
    """The common shape of `shapes` under NumPy's broadcasting rules.

    Raises
    ------
    ShapeError
        Two extents differ and neither is 1; names both operands.
    """
    if not shapes:
        return ()
    first = shapes[0]
    if all(shape == first for shape in shapes):
        return first
    ndim = max(map(len, shapes))
    result = [1] * ndim
    owner = [0] * ndim
    for position, shape in enumerate(shapes):
        for axis, extent in enumerate(shape, ndim - len(shape)):
            if result[axis] == 1:
                result[axis], owner[axis] = extent, position
            elif extent not in (1, result[axis]):
                raise _clash(shapes, names, owner[axis], position, axis - ndim)
    return tuple(result)


def check_count(shape: Shape, what: str) -> None:
    """`ShapeError` for more elements than an array can have.

    Their numbers of bytes would overflow 64 bits, here and in every array library.
    """
    if prod(shape) > _MOST_ELEMENTS:
        raise ShapeError(f"{what}: shape {shape} has {prod(shape)} elements; expected "
                         "at most 2**59: broadcast to smaller shapes, or compute in "
                         "parts")


def broadcasts_to(shape: Shape, target: Shape) -> bool:
    """Whether an array of `shape` can be repeated to have shape `target`."""
    aligned = target[len(target) - len(shape):] if len(shape) <= len(target) else None
    return aligned is not None and all(
        extent in (1, other) for extent, other in zip(shape, aligned, strict=True))


def assigned_shape(shape: Shape, target: Shape) -> Shape:
    """`shape` without axes of 1 in front that `target` lacks, as assignment takes it.

    So does NumPy: ``x[...] = y[None]`` is no error, though ``x += y[None]`` is one.
    """
    extra = max(len(shape) - len(target), 0)
    return shape[extra:] if shape[:extra] == (1,) * extra else shape


def _clash(shapes: Sequence[Shape], names: Names, a: int, b: int,
           axis: int) -> ShapeError:
    first, second = operand_name(names, a), operand_name(names, b)
    return ShapeError(
        f"{first} of shape {shapes[a]} and {second} of shape {shapes[b]} do not "
        f"broadcast together: extent {shapes[a][axis]} against {shapes[b][axis]} in "
        f"axis {axis}, expected equal extents or 1; reshape one of them, or insert "
        "axes of extent 1 so that the right axes meet")


def normalize_axis(axis: SupportsIndex, ndim: int, name: str = "axis") -> int:
    """`axis` counted from the front.

    Raises
    ------
    numpy.exceptions.AxisError
        `axis` is not in ``[-ndim, ndim)``.
    """
    try:
        if isinstance(axis, bool):  # meant for another parameter, such as keepdims
            raise TypeError
        number = index(axis)
    except KernelTypeError:
        raise  # a number that is traced says why
    except TypeError:
        raise KernelTypeError(f"'{name}' must be an integer, got {axis!r}; convert it "
                              "with int()") from None
    if not -ndim <= number < ndim:
        raise np.exceptions.AxisError(number, ndim, f"'{name}'")
    return number + ndim if number < 0 else number


def names_only_element(axis: object) -> bool:
    """Whether an axis is 0 or -1, which NumPy's reductions take of no dimensions."""
    return isinstance(axis, (int, np.integer)) and not isinstance(axis, bool) and \
        axis in (0, -1)


def normalize_axes(axes: Axes, ndim: int,
                   name: str = "axis") -> Shape:
    """`axes` as a tuple counted from the front, in the order given; None means all.

    Raises
    ------
    numpy.exceptions.AxisError
        An axis is not in ``[-ndim, ndim)``.
    ShapeError
        An axis is named twice (a `ValueError`).
    """
    if axes is None:
        return tuple(range(ndim))
    if not isinstance(axes, Iterable) or not getattr(axes, "ndim", 1):
        return (normalize_axis(axes, ndim, name),)  # type: ignore[arg-type]
    result = tuple(normalize_axis(axis, ndim, name) for axis in axes)
    if len(set(result)) != len(result):
        raise ShapeError(f"'{name}' names an axis twice: {result} of {ndim} "
                         "dimensions; name each axis once")
    return result


def check_permutation(axes: Iterable[int], ndim: int, name: str = "axes") -> Shape:
    """`axes` counted from the front; `ShapeError` unless they are a permutation."""
    result = normalize_axes(axes, ndim, name)
    if len(result) != ndim:
        raise ShapeError(f"'{name}' must name each of the {ndim} axes once, "
                         f"got {result}")
    return result


def reduce_shape(shape: Shape, axes: Axes, keepdims: bool = False) -> Shape:
    """`shape` after a reduction over `axes` (None: all of them)."""
    reduced = normalize_axes(axes, len(shape))
    if keepdims:
        return tuple(1 if axis in reduced else extent
                     for axis, extent in enumerate(shape))
    return tuple(extent for axis, extent in enumerate(shape) if axis not in reduced)


def row_shapes(kinds: Sequence[str], shapes: Sequence[Shape], outs: Sequence[str],
               axis: int = -1, names: Names = None) -> tuple[Shape, ...]:
    """Shapes of the outputs of kinds `outs` of a row operation.

    Inputs of kind ``"element"`` broadcast with one another to ``(*rows, columns)``
    with the columns at `axis`; ``"row"`` has shape ``rows`` (without `axis`),
    ``"column"`` shape ``(columns,)``, ``"scalar"`` shape ``()``.

    Raises
    ------
    ShapeError
        Elements do not broadcast, or a row or column input has another shape.
    """
    whole = row_whole(kinds, shapes, names)
    at = normalize_axis(axis, len(whole))
    form = {"element": whole, "row": whole[:at] + whole[at + 1:],
            "column": (whole[at],), "scalar": ()}
    for position, (kind, shape) in enumerate(zip(kinds, shapes, strict=True)):
        if kind in ("row", "column") and shape != form[kind]:
            raise ShapeError(
                f"{operand_name(names, position)} has one value for each {kind}, so "
                f"its shape must be {form[kind]} for elements of shape {whole} and "
                f"axis {axis}; got {shape}. Reshape or broadcast it first")
    return tuple(form[kind] for kind in outs)


def row_whole(kinds: Sequence[str], shapes: Sequence[Shape],
              names: Names = None) -> Shape:
    """The shape that the elements of a row operation broadcast to."""
    elements = [i for i, kind in enumerate(kinds) if kind == "element"]
    if not elements:
        raise ShapeError("a row operation needs an input of kind 'element', "
                         f"got {tuple(kinds)}")
    labels = None if names is None else [names[i] for i in elements]
    return broadcast_shapes([shapes[i] for i in elements], labels)


def contract_shapes(subscripts: str, a: Shape, b: Shape,
                    extras: Sequence[Shape] = (), out_axes: Shape | None = None,
                    names: Names = None) -> Shape:
    """Shape of ``a`` times ``b`` as `subscripts` say, stored permuted by `out_axes`.

    Raises
    ------
    ShapeError
        Ranks or extents do not fit the subscripts, batch axes do not broadcast, an
        extra does not broadcast to the result, or `out_axes` is no permutation.
    """
    form = parse_subscripts(subscripts).bind(a, b, names)
    logical = tuple(form.extents[label] for label in form.out)
    for position, shape in enumerate(extras, 2):
        check_extra(shape, logical, operand_name(names, position))
    if out_axes is None:
        return logical
    return tuple(logical[axis]
                 for axis in check_permutation(out_axes, len(logical), "out_axes"))


def check_extra(shape: Shape, logical: Shape, name: str) -> None:
    """`ShapeError` unless an extra of `shape` broadcasts to the product's shape."""
    if not broadcasts_to(shape, logical):
        raise ShapeError(
            f"{name} of shape {shape} does not broadcast to the product's shape "
            f"{logical} (as subscripted, before out_axes); reshape it or insert axes "
            "of extent 1")
