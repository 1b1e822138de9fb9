"""Arrays joined, stacked, split, repeated and padded."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Any

import numpy as np

from ..arrays import DeviceArray, check_dtype, dtype_of
from ..dispatch.outputs import can_cast
from ..errors import KernelTypeError, ShapeError
from .base import (
    as_arrays,
    axis_of,
    converted,
    copied,
    implements,
    index_array,
    is_value,
    lined,
    ops,
    sequence,
    shape_of,
)
from .indexing import host_of
from .shapes import atleast_1d, atleast_2d, atleast_3d

__all__: list[str] = []


@implements("concatenate", "concat")
def concatenate(arrays: Any, axis: int | None = 0, out: Any = None, *,
                dtype: Any = None, casting: str = "same_kind") -> Any:
    """Arrays one after another along an axis."""
    found = as_arrays(sequence(arrays, "numpy.concatenate"), "numpy.concatenate",
                      weak=False)
    if axis is None:
        found, axis = [ops.reshape(x, (-1,)) for x in found], 0
    return ops.concatenate(_converted("numpy.concatenate", found, dtype, out, casting),
                           axis=axis, out=out)


@implements("stack")
def stack(arrays: Any, axis: int = 0, out: Any = None, *, dtype: Any = None,
          casting: str = "same_kind") -> Any:
    """Arrays one after another along a new axis."""
    found = as_arrays(sequence(arrays, "numpy.stack"), "numpy.stack", weak=False)
    return ops.stack(_converted("numpy.stack", found, dtype, out, casting), axis=axis,
                     out=out)


def _converted(what: str, arrays: list[Any], dtype: Any, out: Any,
               casting: str) -> list[Any]:
    """Convert arrays to the requested dtype, or to their common one."""
    if dtype is None and casting == "same_kind":
        return arrays
    if dtype is not None and out is not None:
        raise KernelTypeError(f"{what}: 'dtype' and 'out' were both given; leave one "
                              "out, as for NumPy")
    target = check_dtype(dtype) if dtype is not None else \
        dtype_of(out) if out is not None else np.result_type(*map(dtype_of, arrays))
    for k, x in enumerate(arrays):
        if not can_cast(dtype_of(x), target, casting):
            raise KernelTypeError(
                f"{what}: arrays[{k}] is {dtype_of(x)}, which does not cast to {target}"
                f" under casting='{casting}'; use astype")
    return [converted(x, target) for x in arrays]


def _stacking(name: str, prepare: Callable[..., Any], axis: Callable[[Any], int],
              ) -> Callable[..., Any]:
    def call(tup: Any, *, dtype: Any = None, casting: str = "same_kind") -> Any:
        found = [prepare(x) for x in as_arrays(sequence(tup, f"numpy.{name}"),
                                               f"numpy.{name}", weak=False)]
        return concatenate(found, axis(found), dtype=dtype, casting=casting)

    call.__name__ = call.__qualname__ = name
    return implements(name)(call)


def _column(x: Any) -> Any:
    return ops.expand_dims(x, 1) if len(shape_of(x)) == 1 else atleast_2d(x)


vstack = _stacking("vstack", atleast_2d, lambda found: 0)
row_stack = implements("row_stack")(vstack)
hstack = _stacking("hstack", atleast_1d, lambda found: int(len(shape_of(found[0])) > 1))
dstack = _stacking("dstack", atleast_3d, lambda found: 2)
column_stack = _stacking("column_stack", _column, lambda found: 1)


@implements("append")
def append(arr: Any, values: Any, axis: int | None = None) -> Any:
    """`values` behind `arr`; both flattened without an axis."""
    return concatenate([arr, values], axis)


@implements("block")
def block(arrays: Any) -> Any:
    """An array of blocks in nested lists, innermost along the last axis."""
    depth = _depth(arrays)
    if not depth:
        return copied(as_arrays([arrays], "numpy.block")[0])
    leaves = as_arrays(_leaves(arrays), "numpy.block", weak=False)
    ndim = max(depth, *(len(shape_of(x)) for x in leaves))
    return _block(arrays, depth, ndim, iter(
        [ops.reshape(x, (1,) * (ndim - len(shape_of(x))) + shape_of(x))
         for x in leaves]))


def _depth(arrays: Any) -> int:
    if not isinstance(arrays, list):
        return 0
    depths = {_depth(x) for x in arrays}
    if len(depths) != 1:
        raise ShapeError("numpy.block: lists of different depths, or an empty one; "
                         "nest all alike")
    return 1 + depths.pop()


def _leaves(arrays: Any) -> list[Any]:
    return [leaf for x in arrays for leaf in _leaves(x)] if isinstance(
        arrays, list) else [arrays]


def _block(arrays: Any, depth: int, ndim: int, leaves: Any) -> Any:
    if not isinstance(arrays, list):
        return next(leaves)
    return concatenate([_block(x, depth - 1, ndim, leaves) for x in arrays],
                       ndim - depth)


@implements("array_split")
def array_split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Any]:
    """Parts along an axis, of extents that differ by one at most."""
    extent = shape_of(ary)[axis_of(axis, len(shape_of(ary)))]
    if np.ndim(indices_or_sections):
        cuts = [0, *(int(k) for k in indices_or_sections), None]
    else:
        count = int(indices_or_sections)
        if count < 1:
            raise ValueError(f"numpy.array_split: {count} sections, expected one or "
                             "more")
        each, more = divmod(int(extent), count)
        cuts = [0, *np.cumsum([each + 1] * more + [each] * (count - more)).tolist()]
    at = axis_of(axis, len(shape_of(ary)))
    before = (slice(None),) * at
    return [ops.getitem(ary, (*before, slice(low, high)))
            for low, high in pairwise(cuts)]


@implements("split")
def split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Any]:
    """Parts along an axis, of one extent or cut at indices."""
    extent = shape_of(ary)[axis_of(axis, len(shape_of(ary)))]
    if not np.ndim(indices_or_sections) and extent % int(indices_or_sections):
        raise ShapeError(f"numpy.split: an axis of extent {extent} has no "
                         f"{indices_or_sections} equal parts; use numpy.array_split")
    return array_split(ary, indices_or_sections, axis)


def _splitting(name: str, least: int, axis: Callable[[Any], int]) -> Any:
    def call(ary: Any, indices_or_sections: Any) -> list[Any]:
        if len(shape_of(ary)) < least:
            raise ShapeError(f"numpy.{name}: shape {shape_of(ary)}, expected {least} "
                             "dimensions or more")
        return split(ary, indices_or_sections, axis(ary))

    call.__name__ = call.__qualname__ = name
    return implements(name)(call)


hsplit = _splitting("hsplit", 1, lambda ary: int(len(shape_of(ary)) > 1))
vsplit = _splitting("vsplit", 2, lambda ary: 0)
dsplit = _splitting("dsplit", 3, lambda ary: 2)


@implements("unstack")
def unstack(x: Any, *, axis: int = 0) -> tuple[Any, ...]:
    """The slices along an axis."""
    at = axis_of(axis, len(shape_of(x)))
    if len(shape_of(x)) == 1 and isinstance(getattr(x, "data", x), DeviceArray):
        x = copied(x)  # NumPy gives scalars, which follow no later change
    return tuple(x[(*(slice(None),) * at, k)] for k in range(shape_of(x)[at]))


@implements("repeat")
def repeat(a: Any, repeats: Any, axis: int | None = None) -> Any:
    """Each element several times."""
    a, at = lined(a, axis)
    extents = shape_of(a)
    counts = host_of(repeats, "repeat") if is_value(repeats) else np.asarray(repeats)
    if counts.size != 1:
        rows = np.repeat(np.arange(int(extents[at])), counts)
        return take_rows(a, rows, at, repeats)
    times = int(counts.reshape(()))
    wide = ops.broadcast_to(ops.expand_dims(a, at + 1),
                            (*extents[:at + 1], times, *extents[at + 1:]))
    made = ops.reshape(wide, (*extents[:at], extents[at] * times, *extents[at + 1:]))
    return copied(made, 1 in (times, extents[at]))


def take_rows(a: Any, rows: np.ndarray, axis: int, given: Any = ()) -> Any:
    """Slices along an axis at positions that follow from what is `given`."""
    return ops.take(a, index_array(rows, a, given), axis=axis)


@implements("tile")
def tile(A: Any, reps: Any) -> Any:
    """The whole array several times along each axis."""
    counts = tuple(int(n) for n in reps) if isinstance(reps, Iterable) else (int(reps),)
    ndim = max(len(counts), len(shape_of(A)))
    counts = (1,) * (ndim - len(counts)) + counts
    extents = (1,) * (ndim - len(shape_of(A))) + shape_of(A)
    between = tuple(n for extent in extents for n in (1, extent))
    wide = tuple(n for pair in zip(counts, extents, strict=True) for n in pair)
    made = ops.reshape(ops.broadcast_to(ops.reshape(A, between), wide), tuple(
        n * m for n, m in zip(counts, extents, strict=True)))
    return copied(made, all(1 in pair for pair in zip(counts, extents, strict=True)))


@implements("roll")
def roll(a: Any, shift: Any, axis: Any = None) -> Any:
    """Elements moved along axes; what leaves at an end comes back at the other."""
    if axis is None:
        return ops.reshape(roll(ops.reshape(a, (-1,)), shift, 0), shape_of(a))
    axes = axis if isinstance(axis, Iterable) else (axis,)
    pairs = np.broadcast(shift, [axis_of(k, len(shape_of(a))) for k in axes])
    given = a
    for by, at in pairs:
        extent = shape_of(a)[at]
        cut = (extent - by) % extent if extent else 0
        if cut:
            before = (slice(None),) * int(at)
            a = ops.concatenate([ops.getitem(a, (*before, slice(int(cut), None))),
                                 ops.getitem(a, (*before, slice(0, int(cut))))],
                                axis=int(at))
    return copied(a) if a is given else a


@implements("delete")
def delete(arr: Any, obj: Any, axis: int | None = None) -> Any:
    """The array without some positions along an axis."""
    if axis is None:
        arr, axis = ops.reshape(arr, (-1,)), 0
    at = axis_of(axis, len(shape_of(arr)))
    left = np.delete(np.arange(int(shape_of(arr)[at])), obj)
    return take_rows(arr, left, at, obj)


@implements("insert")
def insert(arr: Any, obj: Any, values: Any, axis: int | None = None) -> Any:
    """`values` before positions along an axis."""
    if axis is None:
        arr, axis = ops.reshape(arr, (-1,)), 0
    at = axis_of(axis, len(shape_of(arr)))
    arr, values = as_arrays([arr, values], "numpy.insert")
    extents = shape_of(arr)
    # One position takes as many values as there are along the axis.
    single = not np.ndim(obj) and not isinstance(obj, slice)
    before = [int(obj)] * _inserted(shape_of(values), extents, at) if single else obj
    count = int(extents[at])  # the order of elements is of this extent alone
    places = np.insert(np.arange(count), before, -1)
    added = int((places < 0).sum())
    order = places.copy()
    order[places < 0] = count + np.arange(added)
    wide = ops.broadcast_to(values, (*extents[:at], added, *extents[at + 1:]))
    wide = converted(wide, dtype_of(arr))
    return take_rows(ops.concatenate([arr, wide], axis=at), order, at, obj)


def _inserted(given: tuple[int, ...], extents: tuple[int, ...], axis: int) -> int:
    """The number of rows that values of a shape are for one position."""
    return given[axis] if len(given) == len(extents) else 1


@implements("pad")
def pad(array: Any, pad_width: Any, mode: Any = "constant", *,
        constant_values: Any = 0, reflect_type: str = "even") -> Any:
    """`array` with more elements at the ends of its axes."""
    ndim = len(shape_of(array))
    widths = _widths(pad_width, ndim)
    if not any(map(any, widths)):
        return copied(array)
    if mode == "constant":
        values = np.broadcast_to(constant_values, (ndim, 2))
        for at, (low, high) in enumerate(widths):
            array = _with_borders(array, at, (low, high), values[at])
        return array
    if mode not in ("edge", "reflect", "symmetric", "wrap") or reflect_type != "even":
        raise KernelTypeError(
            f"numpy.pad: mode {mode!r} is not supported on what nbfused "
            "computes; expected 'constant', 'edge', 'reflect' or 'symmetric' (of "
            "reflect_type='even') or 'wrap', or join arrays with numpy.concatenate")
    for at, width in enumerate(widths):
        if any(width):
            array = _extended(array, at, width, mode)
    return array


def _extended(x: Any, axis: int, width: tuple[int, int], mode: str) -> Any:
    """`x` with more elements of its own at both ends of an axis.

    Joined from slices where one slice at each end suffices, which `nf.fuse` merges.
    """
    count = shape_of(x)[axis]
    skip = int(mode == "reflect")
    if max(width) + skip > count or (mode == "edge" and not count):
        kind: Any = mode
        return take_rows(x, np.pad(np.arange(count), width, mode=kind), axis)
    before = (slice(None),) * axis

    def part(start: int, stop: int, turned: bool = False) -> Any:
        found = ops.getitem(x, (*before, slice(start, stop)))
        return ops.getitem(found, (*before, slice(None, None, -1))) if turned else found

    def spread(end: Any, n: int) -> Any:
        extents = shape_of(x)
        return ops.broadcast_to(end, (*extents[:axis], n, *extents[axis + 1:]))

    low, high = width
    if mode == "edge":
        first, last = spread(part(0, 1), low), spread(part(count - 1, count), high)
    elif mode == "wrap":
        first, last = part(count - low, count), part(0, high)
    else:
        first = part(skip, skip + low, True)
        last = part(count - skip - high, count - skip, True)
    pieces = [first] * bool(low) + [x] + [last] * bool(high)
    return ops.concatenate(pieces, axis=axis)


def _widths(pad_width: Any, ndim: int) -> list[tuple[int, int]]:
    if isinstance(pad_width, dict):
        found = [(0, 0)] * ndim
        for axis, width in pad_width.items():
            low, high = np.broadcast_to(width, 2).tolist()
            found[axis_of(axis, ndim)] = (low, high)
    else:
        found = [(low, high) for low, high in np.broadcast_to(
            np.asarray(pad_width), (ndim, 2)).tolist()]
    if any(n < 0 for width in found for n in width):
        raise ValueError(f"numpy.pad: 'pad_width' has negative numbers: {pad_width}")
    return found


def _with_borders(x: Any, axis: int, widths: tuple[int, int], values: Any) -> Any:
    if not any(widths):
        return x
    extents = shape_of(x)
    parts = [x]
    for k, width in enumerate(widths):
        if width:
            shape = (*extents[:axis], width, *extents[axis + 1:])
            border = ops.broadcast_to(_number_like(x, values[k]), shape)
            parts.insert(0 if k == 0 else len(parts), border)
    return ops.concatenate(parts, axis=axis)


def _number_like(x: Any, value: Any) -> Any:
    """A number as an array without dimensions, of the dtype and device of `x`."""
    flat = ops.reshape(x, (-1,))
    seed = ops.getitem(flat, 0) if shape_of(flat)[0] else ops.sum(
        flat, dtype=dtype_of(x))
    return ops.full_like(seed, np.asarray(value).item())
