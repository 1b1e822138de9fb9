"""Indexing by integer arrays, lists and masks, alone or beside basic indices."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from operator import index as index_of
from typing import Any

import numpy as np

from ..arrays import dtype_of, to_numpy
from ..arrays.creation import array_like
from ..arrays.traced import Traced, extents
from ..autograd import Variable
from ..errors import KernelTypeError, RangeError, ShapeError
from ..op import AnyArray
from ..support.records import record
from .arithmetic import add, multiply
from .checks import check_range
from .comparison import less, where
from .shapes import broadcast_to, reshape, transpose

__all__ = ["Chosen", "advanced", "choose", "is_advanced"]


def is_advanced(item: Any) -> bool:
    """Whether an item of an index is an array, a sequence or a mask.

    A traced integer is an array, too: which one it is, is not known yet.
    """
    return isinstance(item, (list, range, tuple, bool, np.bool_)) or (
        hasattr(item, "shape") and (
            len(extents(item)) > 0 or _is_mask(item) or isinstance(item, Traced)))


def _is_mask(item: Any) -> bool:
    while isinstance(item, (list, tuple)) and len(item):
        item = item[0]
    return isinstance(item, (bool, np.bool_)) or (
        hasattr(item, "dtype") and dtype_of(item).kind == "b")


def advanced(x: AnyArray, items: tuple[Any, ...], basic: Any, take: Any) -> AnyArray:
    """``x[items]``, as NumPy has it; `basic` and `take` do the parts of it.

    Slices are views first.  The axes of the other items are joined to one, along which
    elements are taken; where these axes are neighbours, the result has theirs in that
    place, else in front.
    """
    if any(map(_is_truth, items)):
        return _by_truths(x, items, basic, take)
    chosen = choose(x, items, basic)
    found = take(chosen.table(x, basic), chosen.rows, axis=0)
    return _moved(found, len(extents(chosen.rows)), chosen.place)


@record(frozen=True)
class Chosen:
    """Elements that an index chooses: rows of a table.

    Attributes
    ----------
    slices
        The basic index that is first, with all of the axes of the others.
    order
        The axes of what that gives, those of the others in front.
    sizes, rest
        Extents of these axes, and of the table's rows.
    rows
        Which rows, along the joined axes.
    place
        Before which of the other axes those of `rows` are in the result.
    """

    slices: tuple[Any, ...]
    order: tuple[int, ...]
    sizes: tuple[int, ...]
    rest: tuple[int, ...]
    rows: Any
    place: int

    def table(self, x: AnyArray, basic: Any) -> AnyArray:
        """The table, of shape ``(prod(sizes), *rest)``."""
        return reshape(transpose(basic(x, self.slices), self.order), (
            prod(self.sizes), *self.rest))

    def viewed(self, table: AnyArray) -> AnyArray:
        """The view by the basic index of an array that has another table."""
        back = sorted(range(len(self.order)), key=self.order.__getitem__)
        return transpose(reshape(table, (*self.sizes, *self.rest)), back)

    def values(self, value: AnyArray) -> AnyArray:
        """Values for the table's rows, of values that broadcast to the result."""
        inner = extents(self.rows)
        at, count = self.place, len(inner)
        shape = (*self.rest[:at], *inner, *self.rest[at:])
        whole = value if extents(value) == shape else broadcast_to(value, shape)
        front = [*range(at, at + count), *range(at), *range(at + count, len(shape))]
        return transpose(whole, front) if at else whole


def choose(x: AnyArray, items: tuple[Any, ...], basic: Any) -> Chosen:
    """Work out what an index with arrays, lists or masks chooses."""
    given = _expanded(x, tuple([list(item) if isinstance(item, (range, tuple)) else item
                                for item in items]))
    chosen = [not (item is None or isinstance(item, slice)) for item in given]
    slices = tuple(slice(None) if is_index else item
                   for item, is_index in zip(given, chosen, strict=True))
    places = [k for k, is_index in enumerate(chosen) if is_index]
    indices = [_integers(given[k]) for k in places]
    shape = extents(basic(x, slices))
    order = (*places, *(k for k in range(len(shape)) if k not in places))
    sizes = tuple(shape[k] for k in places)
    together = places[-1] - places[0] == len(places) - 1
    return Chosen(slices, order, sizes, tuple(shape[k] for k in order[len(places):]),
                  _joined(indices, sizes, x, items), places[0] if together else 0)


def _is_truth(item: Any) -> bool:
    """Whether an item is an array of one truth value, which is known."""
    return _is_mask(item) and not _shape(item) and not isinstance(
        item, (bool, np.bool_, Traced))


def _by_truths(x: AnyArray, items: tuple[Any, ...], basic: Any, take: Any) -> AnyArray:
    """Masks of no axes: one axis for all of them, of one element or of none."""
    truths = [bool(to_numpy(item)) for item in items if _is_truth(item)]
    place = next(k for k, item in enumerate(items) if _is_truth(item))
    rest = [item for item in items if not _is_truth(item)]
    if any(map(is_advanced, rest)) or any(item is Ellipsis for item in items[:place]):
        raise KernelTypeError("getitem: a single truth value beside index arrays, or "
                              "behind '...'; index in two steps")
    at = sum(not isinstance(item, int) for item in items[:place])
    found = basic(x, (*items[:place], None, *(
        item for item in items[place:] if not _is_truth(item))))
    return found if all(truths) else basic(found, (*(slice(None),) * at, slice(0, 0)))


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
    if isinstance(mask, (bool, np.bool_)) or not _shape(mask):
        raise KernelTypeError("getitem: a single truth value as index; expected a mask "
                              "with an axis, or use nf.ops.where")
    if isinstance(mask, Traced):
        raise KernelTypeError(
            f"getitem: the mask {mask!r} chooses as many elements as there are True, "
            f"{mask.unknown}; use nf.ops.where(mask, x, y), 'where' of a reduction, as "
            "in np.sum(x, where=mask), or index outside of the function")
    if len(_shape(mask)) != len(shape) or any(
            m not in (n, 0) for m, n in zip(_shape(mask), shape, strict=True)):
        raise RangeError(f"getitem: a mask of shape {_shape(mask)} for axes of extents "
                         f"{shape} from axis {axis} on; expected the same")
    host = np.asarray(mask) if isinstance(mask, list) else to_numpy(
        mask.data if isinstance(mask, Variable) else mask)
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


def _joined(indices: list[Any], sizes: tuple[int, ...], x: AnyArray,
            given: tuple[Any, ...]) -> Any:
    """The positions along the joined axes that several indices mean together.

    They follow from the items that are `given`.
    """
    try:
        shape = np.broadcast_shapes(*map(_shape, indices))
    except ValueError:
        raise ShapeError("getitem: index arrays of shapes "
                         f"{', '.join(map(str, map(_shape, indices)))} do not "
                         "broadcast") from None
    if len(indices) == 1 and not _is_host(indices[0]):
        return _checked(indices[0], sizes[0])
    host = all(isinstance(i, int) or _is_host(i) for i in indices)
    flat: Any = None
    for given_i, size, step in zip(indices, sizes, _steps(sizes), strict=True):
        i = _checked(given_i, size)
        if isinstance(i, int) or _is_host(i):
            part: Any = np.where(np.asarray(i) < 0, np.add(i, size), i)*step
            if not host:
                part = int(part) if isinstance(i, int) else _near(part, x, given)
        else:
            part = multiply(where(less(i, 0), add(i, size), i), step)
        known = host or (isinstance(flat, int) and isinstance(part, int))
        flat = part if flat is None else flat + part if known else add(flat, part)
    if host:
        whole = np.ascontiguousarray(np.broadcast_to(flat, shape)).astype(np.int64)
        return whole if _is_host(x.data if isinstance(x, Variable) else x) else _near(
            whole, x, given)
    return broadcast_to(flat, shape) if extents(flat) != shape else flat


def _is_host(i: Any) -> bool:
    """Whether an index is an array of NumPy, whose elements are known."""
    return isinstance(i, np.ndarray) and not isinstance(i, Traced)


def _checked(i: Any, size: int) -> Any:
    if isinstance(i, int):
        if not -size <= i < size:
            raise RangeError(f"index {i} is out of bounds for an axis of extent {size}")
        return i
    return check_range(i, -size, size, "getitem: indices out of range for an axis of "
                       f"extent {size}", "hold them inside with clip", name="index")


def _steps(sizes: tuple[int, ...]) -> list[int]:
    """The distance of one step along each of the joined axes."""
    return [prod(sizes[k + 1:]) for k in range(len(sizes))]
