"""Reading by integer arrays."""

from __future__ import annotations

from functools import lru_cache
from math import prod

import numpy as np

from ..arrays import dtype_of
from ..autograd import apply
from ..errors import KernelTypeError
from ..op import AnyArray, Case, op
from ..op.base import check_array
from ..op.elementwise import cast
from ..scalar.language import load
from ..scalar.parse import parse
from ..specs import Map
from ..specs.shapes import normalize_axis
from .checks import check_range
from .shapes import broadcast_to, reshape

__all__ = ["embedding", "take"]


def gather(table, i, index, after, rows, columns):
    """Point `index` of the result (before, columns, after) reads row ``i``."""
    i = np.int64(i)  # a narrow index would wrap beside the number of rows
    row = min(max(i + rows if i < 0 else i, 0), rows - 1)
    return load(table, index // (columns * after), row, index % after)


@lru_cache(maxsize=1)
def _gather() -> Map:
    return Map(parse(gather), ("raw", "element", "index", "scalar", "scalar", "scalar"))


@op(lambda x, indices, axis: np.take(x, indices, axis),
    Case(((5, 7), (3, 2)), {"axis": 0}, ((-3.0, 3.0), (0, 5, int))),
    Case(((5, 7), (4,)), {"axis": 1}, ((-3.0, 3.0), (-7, 7, int)), dtypes="iuf"))
def take(x: AnyArray, indices: AnyArray, axis: int = 0, *,
         out: AnyArray | None = None) -> AnyArray:
    """Slices of `x` along an axis, as `numpy.take`.

    Parameters
    ----------
    x : array
        The table.
    indices : integer array
        Of any shape; negative ones count from the end.
    axis : int
        Along which to take.
    out : array, optional
        Where to store.

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
    for given, name in ((x, "x"), (indices, "indices")):
        check_array(given, "take", name)
    axis = normalize_axis(axis, len(x.shape))
    if dtype_of(indices).kind not in "iu":
        dtype = dtype_of(indices)
        way_out = ("use numpy.flatnonzero(mask) or where(mask, x, y)"
                   if dtype.kind == "b" else "convert with astype")
        raise KernelTypeError("take: 'indices' must be an integer array, got dtype "
                              f"{dtype}; {way_out}")
    shape = tuple(x.shape)
    rows = int(shape[axis])
    check_range(indices, -rows, rows, f"take: 'indices' out of range for axis {axis} "
                f"of extent {rows}", "hold them inside with clip", name="indices")
    before, after = prod(shape[:axis]), prod(shape[axis + 1:])
    count = prod(indices.shape)
    wide = broadcast_to(reshape(indices, (1, count, 1)), (before, count, after))
    table = reshape(x, (before, rows, after))
    flat = apply(_gather(), [table, wide, after, rows, count],
                 names=("x", "indices", "after", "rows", "columns"))[0]
    found = reshape(flat, (*shape[:axis], *indices.shape, *shape[axis + 1:]))
    return found if out is None else cast(dtype_of(found).name)(found, out=out)


@op(lambda table, indices: table[indices],
    Case(((5, 7), (3, 2)), {}, ((-3.0, 3.0), (0, 5, int))))
def embedding(table: AnyArray, indices: AnyArray) -> AnyArray:
    """Rows of a table: ``take(table, indices, axis=0)``.

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
