"""Reading elements by an index: basic indices as views, arrays as gathers."""

from __future__ import annotations

from operator import index as index_of
from typing import Any

import numpy as np

from ..arrays import dtype_of
from ..errors import KernelTypeError, RangeError
from ..op import AnyArray, Case, op
from ..specs.base import Shape
from .advanced_indexing import advanced, is_advanced
from .gathers import gathered, take
from .shapes import apply_view, checked_shape

__all__ = ["getitem"]

#: Start, stop and step along an axis.
Window = tuple[int, int, int]


@op(lambda x, index: x[index],
    Case(((4, 6),), {"index": (slice(1, 3), -1)}, dtypes="biuf"))
def getitem(x: AnyArray, index: Any) -> AnyArray:
    """Index with integers, slices, ``...`` and None: a view.

    With integer arrays, lists and masks it is a copy, of the shape that NumPy gives it.

    Raises
    ------
    RangeError
        An integer is out of range (an `IndexError`), a step is 0, or there are more
        indices than axes.
    KernelTypeError
        The index is something else; or a mask in `nf.fuse`, as the shape of the result
        is not known there.

    Examples
    --------
    >>> import numpy as np
    >>> getitem(np.arange(6).reshape(2, 3), (1, slice(None, None, -1)))
    array([5, 4, 3])
    """
    shape = checked_shape(x, "getitem")
    items = index if isinstance(index, tuple) else (index,)
    if any(map(is_advanced, items)):
        alone = len(items) == 1 and hasattr(items[0], "dtype") and \
            dtype_of(items[0]).kind in "iu"
        return take(x, items[0], axis=0) if alone else advanced(
            x, items, getitem, gathered)
    windows, dropped, added = basic_index(items, shape)
    out = apply_view(x, "slice", windows)
    if dropped:
        out = apply_view(out, "squeeze", dropped)
    return apply_view(out, "expand", added) if added else out


def basic_index(items: tuple[Any, ...], shape: Shape) -> tuple[
        tuple[Window, ...], tuple[int, ...], tuple[int, ...]]:
    """Convert a basic index to slices, axes to drop and axes to add."""
    named = dots = 0
    for item in items:
        named += item is not None and item is not Ellipsis
        dots += item is Ellipsis
    if named > len(shape):
        raise RangeError(f"getitem: {named} indices for an array of {len(shape)} "
                         "dimensions; expected one for each at most, leave some out")
    if dots > 1:
        raise RangeError(f"getitem: 'index' has {dots} '...', expected one at most; "
                         "write ':' for the others")
    if not dots:
        items = (*items, Ellipsis)
    windows: list[Window] = []
    dropped: list[int] = []
    added: list[int] = []
    position = 0
    for item in items:
        if item is None:
            added.append(position)
            position += 1
        elif item is Ellipsis:
            skipped = len(shape) - named
            windows += [(0, n, 1) for n in shape[len(windows):len(windows) + skipped]]
            position += skipped
        else:
            window, drop = _window(item, shape[len(windows)], len(windows))
            if drop:
                dropped.append(len(windows))
            windows.append(window)
            position += not drop
    return tuple(windows), tuple(dropped), tuple(added)


def _window(item: Any, extent: int, axis: int) -> tuple[Window, bool]:
    """The slice of an axis for an index, and whether the axis is dropped."""
    if isinstance(item, slice):
        return _slice(item, extent, axis), False
    try:
        i = index_of(item) if not isinstance(item, (bool, np.bool_)) else None
    except TypeError:
        i = None
    if i is None:
        raise KernelTypeError(f"index {item!r} of axis {axis} must be an integer, a "
                              "slice, None or ...; one integer array by itself "
                              "reads along axis 0, take along any one")
    if not -extent <= i < extent:
        raise RangeError(f"index {i} is out of bounds for axis {axis} of extent "
                         f"{extent}; expected one in [{-extent}, {extent})")
    i %= extent
    return (i, i + 1, 1), True


def _slice(item: slice, extent: int, axis: int) -> Window:
    try:
        return item.indices(extent)
    except TypeError:
        raise KernelTypeError(f"index {item} of axis {axis} must have integers or None "
                              "as start, stop and step; round them first") from None
    except ValueError:
        raise RangeError(f"index {item} of axis {axis} has step 0; expected another, "
                         "1 takes every element") from None
