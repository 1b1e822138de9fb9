"""Axes moved, added and reversed; diagonals and triangles."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from ..arrays import describe, dtype_of
from ..arrays.traced import Traced
from ..autograd import Variable, apply
from ..autograd.numpy_api.layouts import flattened, memory_axes, read_as
from ..autograd.numpy_api.refusals import refuse_options
from ..errors import KernelTypeError, ShapeError
from ..scalar.parse.functions import parse
from ..specs import Map
from ..specs.shapes import names_only_element
from .base import (
    as_arrays,
    axes_of,
    axis_of,
    converted,
    copied,
    implements,
    is_value,
    ops,
    permuted,
    shape_of,
)

__all__: list[str] = []


@implements("reshape")
def reshape(a: Any, shape: Any, order: str = "C", *, copy: bool | None = None) -> Any:
    """The elements in another shape, read and placed in C or in Fortran's order.

    Raises
    ------
    ValueError
        ``copy=False``, and the elements do not lie in memory so that a view is enough.
    """
    if copy is False and isinstance(a, Traced):  # whether it is one is not known
        refuse_options("numpy.reshape", {"copy": copy})
    if read_as("numpy.reshape", a, order) == "F":
        extents = shape if isinstance(shape, (tuple, list)) else (shape,)
        made = ops.transpose(ops.reshape(ops.transpose(a), tuple(extents)[::-1]))
    else:
        if order == "K":
            refuse_options("numpy.reshape", {"order": order})
        made = ops.reshape(a, shape)
    if copy is False and shape_of(made) and not _is_view(made, a):
        raise ValueError("numpy.reshape: 'copy' is False, and the elements do not lie "
                         "in memory in the order of the new shape; leave it out")
    return copied(made) if copy else made


def _is_view(made: Any, a: Any) -> bool:
    """Whether an array has the memory of another one, or no elements."""
    first, second = (describe(x.data if isinstance(x, Variable) else x)
                     for x in (made, a))
    return 0 in first.shape or first.pointer == second.pointer


@implements("ravel")
def ravel(a: Any, order: str = "C") -> Any:
    """The elements in C's, in Fortran's or in memory's order, in one dimension."""
    if order == "K":
        return reshape(permuted(a, memory_axes("numpy.ravel", a)), (-1,))
    order = read_as("numpy.ravel", a, order)
    return flattened(a) if order == "C" else reshape(a, (-1,), order)


@implements("squeeze")
def squeeze(a: Any, axis: Any = None) -> Any:
    """`a` without axes of extent 1."""
    if not shape_of(a) and names_only_element(axis):
        axis = None  # as NumPy has it
    if not isinstance(axis, (tuple, list)):
        return ops.squeeze(a, axis)
    for k in sorted(axes_of(axis, len(shape_of(a))), reverse=True):
        a = ops.squeeze(a, k)
    return a


@implements("expand_dims")
def expand_dims(a: Any, axis: Any) -> Any:
    """`a` with new axes of extent 1."""
    axes = axis if isinstance(axis, (tuple, list)) else (axis,)
    for k in sorted(axes_of(axes, len(shape_of(a)) + len(axes))):
        a = ops.expand_dims(a, k)
    return a


@implements("transpose", "permute_dims")
def transpose(a: Any, axes: Any = None) -> Any:
    """`a` with its axes permuted, by default reversed."""
    return ops.transpose(a, axes)


@implements("matrix_transpose", "linalg.matrix_transpose")
def matrix_transpose(x: Any) -> Any:
    """`x` with its last two axes exchanged."""
    ndim = len(shape_of(x))
    if ndim < 2:
        raise ShapeError(f"numpy.matrix_transpose: shape {shape_of(x)}, expected two "
                         "dimensions or more")
    return ops.transpose(x, (*range(ndim - 2), ndim - 1, ndim - 2))


@implements("swapaxes")
def swapaxes(a: Any, axis1: int, axis2: int) -> Any:
    """`a` with two axes exchanged."""
    axes = list(range(len(shape_of(a))))
    first, second = axis_of(axis1, len(axes)), axis_of(axis2, len(axes))
    axes[first], axes[second] = axes[second], axes[first]
    return ops.transpose(a, axes)


@implements("moveaxis")
def moveaxis(a: Any, source: Any, destination: Any) -> Any:
    """`a` with axes at other places."""
    ndim = len(shape_of(a))
    old, new = axes_of(source, ndim), axes_of(destination, ndim)
    if len(old) != len(new):
        raise ValueError("numpy.moveaxis: 'source' and 'destination' name "
                         f"{len(old)} and {len(new)} axes; expected as many")
    order = [k for k in range(ndim) if k not in old]
    for place, axis in sorted(zip(new, old, strict=True)):
        order.insert(place, axis)
    return ops.transpose(a, order)


@implements("rollaxis")
def rollaxis(a: Any, axis: int, start: int = 0) -> Any:
    """`a` with an axis moved before another one."""
    ndim = len(shape_of(a))
    old = axis_of(axis, ndim)
    place = start + ndim if start < 0 else start
    if not 0 <= place <= ndim:
        raise np.exceptions.AxisError(f"'start' is {start}, expected one in "
                                      f"[{-ndim}, {ndim}]")
    return moveaxis(a, old, place - (old < place))


@implements("broadcast_to")
def broadcast_to(array: Any, shape: Any) -> Any:
    """`array` repeated to a shape, without a copy."""
    return ops.broadcast_to(array, shape)


@implements("broadcast_arrays")
def broadcast_arrays(*args: Any) -> tuple[Any, ...]:
    """Arrays repeated to their common shape."""
    arrays = as_arrays(args, "numpy.broadcast_arrays", weak=False)
    shape = np.broadcast_shapes(*map(shape_of, arrays))
    return tuple(a if shape_of(a) == shape else ops.broadcast_to(a, shape)
                 for a in arrays)


def _at_least(ndim: int, a: Any) -> Any:
    """One array with `ndim` dimensions or more, as ``numpy.atleast_nd`` places them."""
    shape = shape_of(a)
    new = {0: (1,) * ndim, 1: ((1,) * (ndim > 1) + shape + (1,) * (ndim > 2)),
           2: shape + (1,) * (ndim > 2)}.get(len(shape), shape)
    return a if new == shape else ops.reshape(a, new)


def _all_at_least(ndim: int) -> Any:
    def call(*arys: Any) -> Any:
        made = tuple(_at_least(ndim, a) for a in as_arrays(
            arys, f"numpy.atleast_{ndim}d", weak=False))
        return made[0] if len(made) == 1 else made

    return implements(f"atleast_{ndim}d")(call)


atleast_1d, atleast_2d, atleast_3d = map(_all_at_least, (1, 2, 3))


@implements("flip")
def flip(m: Any, axis: Any = None) -> Any:
    """`m` with the order along axes reversed."""
    ndim = len(shape_of(m))
    reverse = axes_of(axis, ndim)
    return ops.getitem(m, tuple(slice(None, None, -1) if k in reverse else slice(None)
                                for k in range(ndim)))


@implements("fliplr")
def fliplr(m: Any) -> Any:
    """`m` with its second axis reversed."""
    return flip(m, 1)


@implements("flipud")
def flipud(m: Any) -> Any:
    """`m` with its first axis reversed."""
    return flip(m, 0)


@implements("rot90")
def rot90(m: Any, k: int = 1, axes: Any = (0, 1)) -> Any:
    """`m` turned by quarters in the plane of two axes."""
    first, second = axes_of(axes, len(shape_of(m)))
    match k % 4:
        case 0:
            return m
        case 1:
            return swapaxes(flip(m, second), first, second)
        case 2:
            return flip(m, (first, second))
        case _:
            return flip(swapaxes(m, first, second), second)


@implements("diagonal")
def diagonal(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    """The elements whose indices along two axes differ by `offset`."""
    ndim = len(shape_of(a))
    if ndim < 2:
        raise ShapeError(f"numpy.diagonal: shape {shape_of(a)}, expected two "
                         "dimensions or more")
    pair = axes_of((axis1, axis2), ndim)
    moved = permuted(a, [k for k in range(ndim) if k not in pair] + list(pair))
    *before, rows, columns = shape_of(moved)
    start = offset if offset >= 0 else -offset * columns
    count = max(0, min(rows, columns - offset) if offset >= 0 else
                min(rows + offset, columns))
    flat = ops.reshape(moved, (*before, rows * columns))
    stop = start + (count - 1) * (columns + 1) + 1 if count else start
    return ops.getitem(flat, (..., slice(start, stop, columns + 1)))


@implements("trace")
def trace(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None,
          out: Any = None) -> Any:
    """The sum along a diagonal."""
    return ops.sum(diagonal(a, offset, axis1, axis2), axis=-1, dtype=dtype, out=out)


@implements("linalg.diagonal")
def matrix_diagonal(x: Any, /, *, offset: int = 0) -> Any:
    """The diagonals of matrices, which are along the last two axes."""
    return diagonal(x, offset, -2, -1)


@implements("linalg.trace")
def matrix_trace(x: Any, /, *, offset: int = 0, dtype: Any = None) -> Any:
    """The sums along the diagonals of matrices."""
    return trace(x, offset, -2, -1, dtype)


def band(x: Any, rows: Any, columns: Any, low: Any, high: Any, index: Any) -> Any:
    """Keep an element if its column less its row is in ``[low, high]``, else zero."""
    shift = index % columns - index // columns % rows
    return x if shift >= low and shift <= high else 0


@lru_cache(maxsize=1)
def _band() -> Map:
    return Map(parse(band), ("element", *["scalar"] * 4, "index"))


def _within(m: Any, low: int, high: int) -> Any:
    """A matrix with zeros outside of a band of diagonals."""
    *_, rows, columns = shape_of(m)
    made = apply(_band(), (m, rows, columns, low, high),
                 names=("m", "rows", "columns", "low", "high"))[0]
    return converted(made, dtype_of(m))


def _triangle(m: Any) -> Any:
    """A matrix; a vector is one row, repeated."""
    shape = shape_of(m)
    return ops.broadcast_to(m, (*shape, shape[0])) if len(shape) == 1 else m


@implements("tril")
def tril(m: Any, k: int = 0) -> Any:
    """The lower triangle, with zeros above the `k`-th diagonal."""
    m = _triangle(m)
    return _within(m, -shape_of(m)[-2], k)


@implements("triu")
def triu(m: Any, k: int = 0) -> Any:
    """The upper triangle, with zeros below the `k`-th diagonal."""
    m = _triangle(m)
    return _within(m, k, shape_of(m)[-1])


@implements("diag")
def diag(v: Any, k: int = 0) -> Any:
    """The diagonal of a matrix, or the matrix of a diagonal."""
    ndim = len(shape_of(v))
    if ndim not in (1, 2):
        raise ShapeError(f"numpy.diag: 'v' has shape {shape_of(v)}, expected one or "
                         "two dimensions; numpy.diagonal takes more")
    if ndim == 2:
        return diagonal(v, k)
    (n,) = shape_of(v)
    size = n + abs(k)
    zeros = ops.zeros_like(v)
    if k:
        zeros = ops.broadcast_to(ops.reshape(_zero(v), (1,)), (abs(k),))
        v = ops.concatenate([v, zeros])
    # Along rows from the diagonal's first row on, along columns from its first column.
    spread = ops.expand_dims(v, 1 if k >= 0 else 0)
    return _within(ops.broadcast_to(spread, (size, size)), k, k)


def _zero(v: Any) -> Any:
    """A zero of the dtype of a vector."""
    return ops.zeros_like(ops.getitem(v, 0)) if shape_of(v)[0] else ops.sum(
        v, dtype=dtype_of(v))


@implements("diagflat")
def diagflat(v: Any, k: int = 0) -> Any:
    """The matrix that has all elements on a diagonal."""
    return diag(ops.reshape(v, (-1,)), k)


@implements("vander")
def vander(x: Any, N: int | None = None, increasing: bool = False) -> Any:
    """The powers of a vector in columns."""
    if len(shape_of(x)) != 1:
        raise ShapeError(f"numpy.vander: 'x' has shape {shape_of(x)}, expected one "
                         "dimension")
    x = converted(x, np.promote_types(dtype_of(x), np.dtype(int)))
    count = shape_of(x)[0] if N is None else N
    powers = range(count) if increasing else range(count)[::-1]
    return ops.stack([ops.power(x, p) for p in powers], axis=1)


@implements("shape")
def shape(a: Any) -> tuple[int, ...]:
    """The extents."""
    return shape_of(a)


@implements("ndim")
def ndim(a: Any) -> int:
    """The number of dimensions."""
    return len(shape_of(a))


@implements("size")
def size(a: Any, axis: Any = None) -> int:
    """The number of elements, or that along axes."""
    extents = shape_of(a)
    return int(np.prod([extents[k] for k in axes_of(axis, len(extents))], dtype=int))


@implements("copy")
def copy(a: Any, order: str = "K") -> Any:
    """A copy."""
    return as_arrays([a], "numpy.copy")[0].copy(order)


@implements("astype")
def astype(x: Any, dtype: Any, /, *, copy: bool = True, device: Any = None) -> Any:
    """The elements converted."""
    if device is not None and isinstance(x, Traced):
        refuse_options("numpy.astype", {"device": device})
    made = x.astype(dtype, copy=copy)
    return made if device is None else made.to_device(device)


@implements("resize")
def resize(a: Any, new_shape: Any) -> Any:
    """The elements in another shape, repeated; zeros where there are none."""
    wanted = new_shape if isinstance(new_shape, (tuple, list)) else (new_shape,)
    flat = ops.reshape(a, (-1,))
    count, have = int(np.prod(wanted, dtype=int)), shape_of(flat)[0]
    if not have and count:
        flat, have = ops.concatenate([flat, ops.zeros_like(flat, shape=(1,))]), 1
    times = -(-count // have) if have else 0
    if times != 1:
        flat = ops.reshape(ops.broadcast_to(flat, (times, have)), (-1,))
    made = ops.reshape(ops.getitem(flat, slice(0, count)), tuple(wanted))
    return copied(made, 1 in (times, have))


def check_vector(x: Any, name: str, argument: str) -> None:
    """Raise `ShapeError` unless `x` is an array of one dimension."""
    if not is_value(x):
        raise KernelTypeError(f"{name}: '{argument}' must be an array, got "
                              f"{type(x).__name__}")
    if len(shape_of(x)) != 1:
        raise ShapeError(f"{name}: '{argument}' has shape {shape_of(x)}, expected one "
                         "dimension")
