"""Basic indexing and reshaping as arithmetic on shapes and strides."""

from __future__ import annotations

import operator
from math import prod
from typing import Any

from ..errors import KernelTypeError, ShapeError

__all__ = ["index_view", "infer_shape"]

View = tuple[tuple[int, ...], tuple[int, ...], int]


def index_view(shape: tuple[int, ...], strides: tuple[int, ...], key: Any) -> View:
    """Shape, strides and offset of a view by NumPy's basic indexing.

    Returns
    -------
    shape, strides, offset
        Of the view.

    Raises
    ------
    IndexError
        If there are too many indices, or one is out of range.
    KernelTypeError
        If an index is something else, such as an array.
    """
    kept: list[tuple[int, int]] = []
    offset = axis = 0
    for item in _expand(key, len(shape)):
        if item is None:
            kept.append((1, 0))
            continue
        extent, stride = shape[axis], strides[axis]
        if isinstance(item, slice):
            start, stop, step = item.indices(extent)
            count = len(range(start, stop, step))
            kept.append((count, stride * step))
            offset += start * stride if count else 0
        else:
            offset += _place(item, extent, axis) * stride
        axis += 1
    return tuple(e for e, _ in kept), tuple(s for _, s in kept), offset


def infer_shape(shape: tuple[int, ...], old: tuple[int, ...]) -> tuple[int, ...]:
    """Replace -1 in `shape` by the extent that keeps the number of elements.

    Raises
    ------
    ShapeError
        If the number of elements cannot agree.
    """
    known = prod(extent for extent in shape if extent != -1)
    result = shape
    if shape.count(-1) == 1 and known > 0 and prod(old) % known == 0:
        result = tuple(prod(old) // known if e == -1 else e for e in shape)
    if min(result, default=0) < 0 or prod(result) != prod(old):
        raise ShapeError(f"cannot reshape {old} ({prod(old)} elements) to {shape}")
    return result


def _expand(key: Any, ndim: int) -> list[Any]:
    """Replace the ellipsis, implied at the end, by full slices."""
    items = list(key) if isinstance(key, tuple) else [key]
    used = sum(item is not None and item is not Ellipsis for item in items)
    if used > ndim:
        raise IndexError(f"{used} indices for an array with {ndim} dimensions")
    places = [at for at, item in enumerate(items) if item is Ellipsis]
    if len(places) > 1:
        raise IndexError("an index can have only one ellipsis")
    at = places[0] if places else len(items)
    return [*items[:at], *[slice(None)] * (ndim - used), *items[at + 1:]]


def _place(item: Any, extent: int, axis: int) -> int:
    try:
        index = -1 if isinstance(item, bool) else operator.index(item)
    except TypeError:
        index = None
    if index is None or isinstance(item, bool):
        raise KernelTypeError(
            f"index {item!r} on axis {axis}: expected an integer, a slice, ... or None;"
            " use nbfused.ops.take for arrays of indices")
    if not -extent <= index < extent:
        raise IndexError(f"index {index} is out of range for axis {axis} of {extent}")
    return index % extent
