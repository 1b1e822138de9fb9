"""Reading elements at places that arrays of integers say."""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from ..arrays import dtype_of
from ..autograd import Variable
from ..errors import KernelTypeError, ShapeError
from ..op import AnyArray, Case, op
from ..op.base import check_array
from ..op.cached_call import GatherCalls, SpecCalls
from ..op.elementwise import cast
from ..op.keywords import as_numpy
from ..scalar.language.names import load
from ..scalar.parse.functions import parse
from ..specs import Map
from ..specs.base import Shape
from ..specs.shapes import names_only_element, normalize_axis
from .checks import check_range
from .shapes import apply_view, reshape

__all__ = ["embedding", "take", "take_along_axis"]


def held(i, rows):
    """The row that index `i` means, or the nearest one."""
    i = np.int64(i)  # a narrow index would wrap beside the number of rows
    return min(max(i + rows if i < 0 else i, 0), rows - 1)


def gather(table, i, index, after, rows, block):
    """Read row `i` for the point `index` of a result in blocks of rows of `after`."""
    return load(table, index // block, held(i, rows), index % after)


def gather_elements(table, i, index, rows, block):
    """Read element `i` of a row for the point `index` of a result (before, block)."""
    return load(table, index // block, held(i, rows))


def gather_rows(table, i, index, after, rows):
    """Read row `i` of a matrix for the point `index` of rows of `after`."""
    return load(table, held(i, rows), index % after)


def gather_of_line(table, i, rows):
    """Read element `i` of a line."""
    return load(table, held(i, rows))


@lru_cache(maxsize=4)
def _gather(blocks: bool, whole_rows: bool) -> SpecCalls:
    """Make the spec that reads rows, or single elements, of each block or the only one.

    Its numbers are the extent of a row, that of the axis, and that of a block.
    """
    functions = ((gather_of_line, gather_rows), (gather_elements, gather))
    function = parse(functions[blocks][whole_rows])
    kinds = {"table": "raw", "i": "element", "index": "index"}
    names = {"table": "x", "i": "indices"}
    return SpecCalls(Map(function, tuple(kinds.get(p, "scalar")
                                         for p in function.params)),
                     "take", tuple(names.get(p, p) for p in function.params
                                   if p != "index"))


@op(lambda x, indices, axis: np.take(x, indices, axis),
    Case(((5, 7), (3, 2)), {"axis": 0}, ((-3.0, 3.0), (0, 5, int))),
    Case(((5, 7), (4,)), {"axis": 1}, ((-3.0, 3.0), (-7, 7, int)), dtypes="iuf"))
def take(x: AnyArray, indices: AnyArray, axis: int | None = 0, *,
         out: AnyArray | None = None, **keywords: Any) -> AnyArray:
    """Take slices of `x` along an axis, as `numpy.take`.

    Parameters
    ----------
    x : array
        The table.
    indices : integer array, integer or list of integers
        Of any shape; negative ones count from the end.
    axis : int or None
        Along which to take; None, NumPy's default, takes from the flattened array.
    out : array, optional
        Where to store.
    **keywords
        `mode`, as in `numpy.take`.

    Returns
    -------
    array
        Shape ``x.shape[:axis] + indices.shape + x.shape[axis + 1:]``.

    Raises
    ------
    RangeError
        An index is out of range (an `IndexError`).  On a GPU it is clamped, unless
        ``NBFUSED_DEBUG=1``.

    Notes
    -----
    The derivative adds up where indices repeat, in float32 for 16-bit floats.

    Examples
    --------
    >>> import numpy as np
    >>> take(np.array([10.0, 20.0, 30.0]), np.array([2, 0, -1]))
    array([30., 10., 30.])
    """
    if type(x) is type(indices) is Variable and type(indices.data) is np.ndarray:
        indices = indices.data  # integers, of which nothing is recorded
    calls = _repeated("take", axis) if out is None and type(axis) is int else None
    if calls and not keywords:
        made = calls.function(x, indices)
        if made:
            return made[0]
        recorded = calls.recorded(x, indices)
        if recorded is not None:
            return recorded
    if keywords or axis is None or _is_whole(indices):
        return as_numpy("take", x, indices, axis=axis, out=out, **keywords)
    for given, name in ((x, "x"), (indices, "indices")):
        check_array(given, "take", name)
    if not len(x.shape) and names_only_element(axis):
        x = reshape(x, (1,))  # as NumPy has it
    axis = normalize_axis(axis, len(x.shape))
    if dtype_of(indices).kind not in "iu":
        dtype = dtype_of(indices)
        way_out = ("use numpy.flatnonzero(mask) for a mask of one axis, or "
                   "where(mask, x, y)"
                   if dtype.kind == "b" else "convert with astype")
        raise KernelTypeError("take: 'indices' must be an integer array, got dtype "
                              f"{dtype}; {way_out}")
    shape = tuple(x.shape)
    rows = int(shape[axis])
    indices = check_range(
        indices, -rows, rows, f"take: 'indices' out of range for axis {axis} of extent "
        f"{rows}", "hold them inside with clip", name="indices")
    if out is None:
        return gathered(x, indices, axis, calls)
    if _is_place(out, x, indices, axis):
        gathered(x, indices, axis, out=out)
        return out
    found = gathered(x, indices, axis)
    return cast(dtype_of(found).name)(found, out=out)


def _is_place(out: Any, x: Any, indices: Any, axis: int) -> bool:
    """Whether a gather may store in `out` itself: it reads nothing that is there."""
    return all(type(a) is np.ndarray for a in (out, x, indices)) and \
        out.shape == (*x.shape[:axis], *indices.shape, *x.shape[axis + 1:]) and \
        out.dtype == x.dtype and out.flags.c_contiguous and not (
            np.may_share_memory(out, x) or np.may_share_memory(out, indices))


def _is_whole(indices: Any) -> bool:
    """Whether indices are an integer of Python, or a list of some."""
    return isinstance(indices, int) or (isinstance(indices, (list, tuple)) and all(
        isinstance(k, (int, np.integer, list, tuple)) for k in indices))


@lru_cache(maxsize=256)
def _repeated(name: str, axis: int) -> GatherCalls:
    """The calls of `take`, or `take_along_axis`, that machine code repeats."""
    return GatherCalls()


def gathered(x: AnyArray, indices: AnyArray, axis: int = 0,
             calls: GatherCalls | None = None, out: Any = None) -> AnyArray:
    """`take` of indices that are known to be in range; others are clamped.

    `calls` learns how the next call like it is made.  What is stored in `out`, an array
    in C order, is a view of it.
    """
    shape, rows = tuple(x.shape), int(x.shape[axis])
    before, after = prod(shape[:axis]), prod(shape[axis + 1:])
    count = prod(indices.shape)
    outer, inner = (before,) * bool(before != 1), (after,) * bool(after != 1)
    table = (*outer, rows, *inner)
    whole = len(table) == len(shape)  # of as many axes are the same ones
    line = len(indices.shape) == 1
    wide = indices if line and not inner else apply_view(
        indices, "reshape", (count, *(1,) * len(inner)))
    if outer or inner:
        wide = apply_view(wide, "broadcast", (*outer, count, *inner))
    gather = _gather(bool(outer), bool(inner))
    values = (x if whole else apply_view(x, "reshape", table), wide, *inner, rows,
              *(count * after,) * len(outer))
    place = None if out is None else apply_view(
        out, "reshape", (*outer, count, *inner))
    found = gather(*values, out=place)
    made = found if whole and line else apply_view(
        found, "reshape", (*shape[:axis], *indices.shape, *shape[axis + 1:]))
    if calls is not None and isinstance(made, Variable):
        if line and whole and axis == 0 and inner and type(indices) is np.ndarray:
            calls.learn_recorded(x, indices, gather.spec, values, made,
                                 {1: (-rows, rows)}, gather.names)
    elif calls is not None:
        calls.learn((x, indices), gather.spec, values, made, {1: (-rows, rows)})
    return made


@op(lambda x, indices, axis: np.take_along_axis(x, indices, axis),
    Case(((5, 7), (5, 3)), {"axis": 1}, ((-3.0, 3.0), (-7, 7, int))),
    Case(((4, 3, 5), (2, 1, 5)), {"axis": 0}, ((-3.0, 3.0), (0, 4, int)),
         dtypes="iuf"))
def take_along_axis(x: AnyArray, indices: AnyArray,
                    axis: int | None = -1) -> AnyArray:
    """Take elements of each line along an axis, at indices of its own.

    Parameters
    ----------
    x : array
        The table.
    indices : integer array
        Of as many dimensions; the other extents broadcast with those of `x`.
    axis : int or None
        Along which to take; None takes from the flattened array.

    Returns
    -------
    array

    Raises
    ------
    RangeError
        An index is out of range (an `IndexError`).  On a GPU it is clamped, unless
        ``NBFUSED_DEBUG=1``.
    ShapeError
        The numbers of dimensions differ.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.array([[3.0, 1.0], [2.0, 5.0]])
    >>> take_along_axis(x, np.argsort(x, axis=1), axis=1)
    array([[1., 3.],
           [2., 5.]])
    """
    calls = _repeated("take_along_axis", axis) if type(axis) is int else None
    made = calls and calls.function(x, indices)
    if made:
        return made[0]
    for given, name in ((x, "x"), (indices, "indices")):
        check_array(given, "take_along_axis", name)
    if axis is None:
        x, axis = reshape(x, (-1,)), 0
    shape, wanted = tuple(x.shape), tuple(indices.shape)
    if len(shape) != len(wanted):
        raise ShapeError(f"take_along_axis: 'indices' has {len(wanted)} dimensions, "
                         f"expected {len(shape)} as 'x' has")
    if dtype_of(indices).kind not in "iu":
        raise KernelTypeError("take_along_axis: 'indices' must be an integer array, "
                              f"got dtype {dtype_of(indices)}; convert with astype")
    axis = normalize_axis(axis, len(shape))
    rows = shape[axis]
    indices = check_range(
        indices, -rows, rows, f"take_along_axis: 'indices' out of range for axis {axis}"
        f" of extent {rows}", "hold them inside with clip", name="indices")
    return _take_lines(x, indices, axis, calls)


@op(lambda x, indices, axis: np.take_along_axis(x, indices, axis),
    Case(((5, 7), (5, 3)), {"axis": 1}, ((-3.0, 3.0), (-7, 7, int))))
def _take_lines(x: AnyArray, indices: AnyArray, axis: int,
                calls: GatherCalls | None = None) -> AnyArray:
    """`take_along_axis` at indices that are known to be in range.

    `calls` learns how the next call like it is made.
    """
    shape, wanted = tuple(x.shape), tuple(indices.shape)
    rows, count = shape[axis], wanted[axis]
    others = np.broadcast_shapes(*(s[:axis] + s[axis + 1:] for s in (shape, wanted)))
    before, after = prod(others[:axis]), prod(others[axis:])
    outer, inner = (before,) * bool(before != 1), (after,) * bool(after != 1)
    table, places = (
        _viewed(given, (*others[:axis], extent, *others[axis:]),
                (*outer, extent, *inner))
        for given, extent in ((x, rows), (indices, count)))
    gather = _gather(bool(outer), bool(inner))
    values = table, places, *inner, rows, *(count * after,) * len(outer)
    made = _viewed(gather(*values), (*outer, count, *inner),
                   (*others[:axis], count, *others[axis:]))
    if calls is not None:
        calls.learn((x, indices), gather.spec, values, made, {1: (-rows, rows)})
    return made


def _viewed(x: AnyArray, whole: Shape, shape: Shape) -> AnyArray:
    """An array that is broadcast to one shape, then has another one."""
    wide = x if tuple(x.shape) == whole else apply_view(x, "broadcast", whole)
    return wide if whole == shape else apply_view(wide, "reshape", shape)


@op(lambda table, indices: table[indices],
    Case(((5, 7), (3, 2)), {}, ((-3.0, 3.0), (0, 5, int))))
def embedding(table: AnyArray, indices: AnyArray) -> AnyArray:
    """Look up rows of a table: ``take(table, indices, axis=0)``.

    Parameters
    ----------
    table : array
        Shape ``(rows, ...)``.
    indices : integer array
        Of any shape; as for `take`.

    Returns
    -------
    array
        Shape ``indices.shape + table.shape[1:]``.

    Examples
    --------
    >>> import numpy as np
    >>> embedding(np.array([[0.0, 1.0], [2.0, 3.0]]), np.array([1, 0]))
    array([[2., 3.],
           [0., 1.]])
    """
    check_array(table, "embedding", "table")
    return take(table, indices, 0)
