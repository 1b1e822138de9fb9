"""Indexing by integer arrays, lists and masks, alone or beside basic indices."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from operator import index as index_of
from typing import Any

import numpy as np

from ..arrays import dtype_of, is_array, to_numpy
from ..arrays.creation import array_like
from ..arrays.traced import Traced, extents
from ..autograd import Variable
from ..errors import KernelTypeError, RangeError, ShapeError
from ..op import AnyArray
from .arithmetic import add, multiply
from .checks import check_range
from .comparison import less, where
from .shapes import broadcast_to, reshape, transpose

__all__ = ["advanced", "is_advanced"]


def is_advanced(item: Any) -> bool:
    """Whether an item of an index is an array, a list or a mask."""
    return isinstance(item, (list, bool, np.bool_)) or (
        hasattr(item, "shape") and (len(extents(item)) > 0 or _is_mask(item)))


def _is_mask(item: Any) -> bool:
    return isinstance(item, (bool, np.bool_)) or (
        hasattr(item, "dtype") and dtype_of(item).kind == "b")


def advanced(x: AnyArray, items: tuple[Any, ...], basic: Any, take: Any) -> AnyArray:
    """``x[items]``, as NumPy has it; `basic` and `take` do the parts of it.

    Slices are views first.  The axes of the other items are joined to one, along which
    elements are taken; where these axes are neighbours, the result has theirs in that
    place, else in front.
    """
    given = _expanded(x, items)
    chosen = [not (item is None or isinstance(item, slice)) for item in given]
    viewed = basic(x, tuple(slice(None) if is_index else item
                            for item, is_index in zip(given, chosen, strict=True)))
    places = [k for k, is_index in enumerate(chosen) if is_index]
    indices = [_integers(given[k]) for k in places]
    shape = extents(viewed)
    order = [*places, *(k for k in range(len(shape)) if k not in places)]
    sizes = tuple(shape[k] for k in places)
    rest = tuple(shape[k] for k in order[len(places):])
    flat = _joined(indices, sizes, x)
    table = reshape(transpose(viewed, order), (prod(sizes), *rest))
    found = take(table, flat, axis=0)
    if places[-1] - places[0] != len(places) - 1:
        return found
    return _moved(found, len(extents(flat)), places[0])


def _moved(found: AnyArray, count: int, place: int) -> AnyArray:
    """The first `count` axes moved behind `place` others."""
    ndim = len(extents(found))
    order = (*range(count, count + place), *range(count),
             *range(count + place, ndim))
    return found if order == tuple(range(ndim)) else transpose(found, order)


def _expanded(x: AnyArray, items: tuple[Any, ...]) -> list[Any]:
    """The items without ``...``, masks as integers, one for each axis or None."""
    made: list[Any] = []
    ndim = len(extents(x))
    used = sum(max(1, len(_shape(i))) if _is_mask(i) else 1 for i in items
               if i is not None and i is not Ellipsis)
    if used > ndim:
        raise RangeError(f"getitem: {used} indices for an array of {ndim} dimensions; "
                         "expected one for each at most, leave some out")
    dots = sum(i is Ellipsis for i in items)
    if dots > 1:
        raise RangeError(f"getitem: 'index' has {dots} '...', expected one at most; "
                         "write ':' for the others")
    axis = 0
    for item in items if dots else (*items, Ellipsis):
        if item is Ellipsis:
            made += [slice(None)]*(ndim - used)
            axis += ndim - used
        elif item is not None and _is_mask(item):
            parts = _places(item, extents(x)[axis:axis + len(_shape(item))], x, axis)
            made += parts
            axis += len(parts)
        else:
            made.append(np.asarray(item, None if item != [] else np.int64)
                        if isinstance(item, list) else item)
            axis += item is not None
    return made


def _shape(item: Any) -> tuple[int, ...]:
    return extents(item) if hasattr(item, "shape") else np.shape(item)


def _places(mask: Any, shape: tuple[int, ...], x: AnyArray, axis: int) -> list[Any]:
    """The indices of the elements of a mask that are True, for each of its axes."""
    if isinstance(mask, Traced):
        raise KernelTypeError(
            f"getitem: how many elements the mask {mask!r} chooses is not known while "
            "nf.fuse traces a function; use nf.ops.where(mask, x, y), or index outside "
            "of the fused function")
    if isinstance(mask, (bool, np.bool_)) or not _shape(mask):
        raise KernelTypeError("getitem: a single truth value as index; expected a mask "
                              "with an axis, or use nf.ops.where")
    if _shape(mask) != shape:
        raise RangeError(f"getitem: a mask of shape {_shape(mask)} for axes of extents "
                         f"{shape} from axis {axis} on; expected the same")
    host = to_numpy(mask.data if isinstance(mask, Variable) else mask)
    return [_near(np.ascontiguousarray(k), x, [mask]) for k in np.nonzero(host)]


def _near(host: np.ndarray, x: AnyArray, given: Sequence[Any]) -> Any:
    """Integers of the host, which follow from `given`, as an array beside `x`."""
    if isinstance(x, Traced):
        return x.constant(host, given)
    return array_like(host, x.data if isinstance(x, Variable) else x)


def _integers(item: Any) -> Any:
    """An integer, or an array of them."""
    if hasattr(item, "dtype"):
        if dtype_of(item).kind not in "iu":
            raise KernelTypeError(f"getitem: an index has dtype {dtype_of(item)}, "
                                  "expected integers or a mask; convert with astype")
        return item
    try:
        return index_of(item)
    except TypeError:
        raise KernelTypeError(f"getitem: index {item!r} must be an integer, a slice, "
                              "None, ..., or an array of integers or booleans"
                              ) from None


def _joined(indices: list[Any], sizes: tuple[int, ...], x: AnyArray) -> Any:
    """The positions along the joined axes that several indices mean together."""
    try:
        shape = np.broadcast_shapes(*map(_shape, indices))
    except ValueError:
        raise ShapeError("getitem: index arrays of shapes "
                         f"{', '.join(map(str, map(_shape, indices)))} do not "
                         "broadcast") from None
    if len(indices) == 1 and not isinstance(indices[0], np.ndarray):
        return indices[0]
    host = all(isinstance(i, (int, np.ndarray)) for i in indices)
    flat: Any = None
    for i, size, step in zip(indices, sizes, _steps(sizes), strict=True):
        _check(i, size)
        if host:
            part: Any = np.where(np.asarray(i) < 0, np.add(i, size), i)*step
            flat = part if flat is None else flat + part
        else:
            wrapped = where(less(i, 0), add(i, size), i) if is_value(i) else i % size
            part = multiply(wrapped, step) if is_value(i) else wrapped*step
            flat = part if flat is None else add(flat, part)
    if host:
        whole = np.ascontiguousarray(np.broadcast_to(flat, shape)).astype(np.int64)
        return whole if type(getattr(x, "data", x)) is np.ndarray and not isinstance(
            x, Traced) else _near(whole, x, indices)
    return broadcast_to(flat, shape) if extents(flat) != shape else flat


def is_value(i: Any) -> bool:
    """Whether an index is an array rather than a number."""
    return isinstance(i, (Variable, Traced)) or is_array(i)


def _check(i: Any, size: int) -> None:
    if isinstance(i, int):
        if not -size <= i < size:
            raise RangeError(f"index {i} is out of bounds for an axis of extent {size}")
        return
    check_range(i, -size, size, f"getitem: indices out of range for an axis of extent "
                f"{size}", "hold them inside with clip", name="index")


def _steps(sizes: tuple[int, ...]) -> list[int]:
    """The distance of one step along each of the joined axes."""
    return [prod(sizes[k + 1:]) for k in range(len(sizes))]
