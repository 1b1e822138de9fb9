"""Elements by index arrays, masks and conditions."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..arrays import dtype_of, to_numpy
from ..arrays.traced import Traced
from ..autograd import Variable
from ..autograd.calls.batched import Batched
from ..autograd.numpy_api.refusals import no_operation
from ..errors import KernelTypeError, ShapeError
from .base import (
    as_arrays,
    as_given,
    axis_of,
    copied,
    implements,
    index_array,
    lined,
    ops,
    part_of,
    shape_of,
)

__all__: list[str] = []


@implements("take")
def take(a: Any, indices: Any, axis: int | None = None, out: Any = None,
         mode: str = "raise") -> Any:
    """The elements at indices along an axis, or of the flattened array."""
    a, axis = lined(a, axis)
    if isinstance(indices, (int, np.integer, list, tuple)):
        host = np.asarray(indices, None if np.size(indices) else np.int64)
        indices = index_array(host, a, indices)
    extent = shape_of(a)[axis]
    if mode == "wrap":
        indices = ops.remainder(indices, extent)
    elif mode == "clip":
        indices = ops.clip(indices, 0, extent - 1)
    elif mode != "raise":
        raise KernelTypeError(f"numpy.take: mode {mode!r}, expected 'raise', 'wrap' or "
                              "'clip'")
    return ops.take(a, indices, axis=axis, out=out)


@implements("take_along_axis")
def take_along_axis(arr: Any, indices: Any, axis: Any = -1) -> Any:
    """Elements of each line along an axis, at indices of its own."""
    if axis is None:
        return ops.take_along_axis(ops.reshape(arr, (-1,)), indices, axis=0)
    return ops.take_along_axis(arr, indices, axis=axis)


def host_of(x: Any, name: str) -> np.ndarray:
    """The elements on the host, for a result whose shape depends on them.

    Raises
    ------
    KernelTypeError
        They are not known yet, in `nf.fuse`.
    """
    if isinstance(x, Batched) and not x.batched:  # the same for all samples
        x.level.recorder = None
        x = x.detach().held
    if isinstance(x, Traced):
        raise no_operation(
            f"numpy.{name}: the shape of the result depends on the elements of {x!r}, "
            f"{x.unknown}; choose with nf.ops.where, or call it outside of the function"
            )
    return x if isinstance(x, np.ndarray) else x.to_numpy() if isinstance(
        x, Variable) else to_numpy(x)


@implements("nonzero")
def nonzero(a: Any) -> tuple[Any, ...]:
    """The indices of the elements that are not 0, one array for each axis."""
    found = np.nonzero(host_of(a, "nonzero"))
    return tuple(as_given(index_array(np.ascontiguousarray(x), a), a) for x in found)



@implements("flatnonzero")
def flatnonzero(a: Any) -> Any:
    """The indices of the elements that are not 0 of the flattened array."""
    return nonzero(ops.reshape(a, (-1,)))[0]


@implements("argwhere")
def argwhere(a: Any) -> Any:
    """The indices of the elements that are not 0, one row for each element."""
    found = np.argwhere(host_of(a, "argwhere"))
    return as_given(index_array(found, a), a)


@implements("extract")
def extract(condition: Any, arr: Any) -> Any:
    """The elements of the flattened array where a condition holds."""
    return compress(ops.reshape(as_arrays([condition, arr], "numpy.extract")[0], (-1,)),
                    arr)


@implements("compress")
def compress(condition: Any, a: Any, axis: int | None = None, out: Any = None) -> Any:
    """Slices along an axis where a condition holds."""
    a, axis = lined(a, axis)
    chosen = host_of(condition, "compress") if hasattr(condition, "shape") else \
        np.asarray(condition)
    if chosen.ndim != 1:
        raise ShapeError(f"numpy.compress: 'condition' has shape {chosen.shape}, "
                         "expected one dimension; numpy.extract takes more")
    rows = index_array(np.flatnonzero(chosen), a, condition)
    return ops.take(a, rows, axis=axis, out=out)


@implements("ix_")
def ix_(*args: Any) -> tuple[Any, ...]:
    """Indices that broadcast to the grid of some rows and columns."""
    made = []
    for k, x in enumerate(args):
        if dtype_of(x).kind == "b":
            x = flatnonzero(x)
        made.append(ops.reshape(x, tuple(-1 if k == j else 1
                                         for j in range(len(args)))))
    return tuple(made)


@implements("lib.stride_tricks.sliding_window_view")
def sliding_window_view(x: Any, window_shape: Any, axis: Any = None) -> Any:
    """Windows along axes, whose elements are along new last axes: a copy."""
    extents = window_shape if isinstance(window_shape, (tuple, list)) else (
        window_shape,)
    ndim = len(shape_of(x))
    given = (axis,) if isinstance(axis, int) else axis
    axes = tuple(range(ndim)) if given is None else tuple(
        axis_of(k, ndim) for k in given)
    if len(axes) != len(extents):
        raise ShapeError(f"sliding_window_view: 'window_shape' has {len(extents)} "
                         f"extents for {len(axes)} axes; give one for each")
    made = x
    for at, extent in zip(axes, extents, strict=True):
        whole = shape_of(made)[at]
        count = whole - extent + 1
        if extent < 0 or count < 1:
            raise ShapeError(f"sliding_window_view: a window of {extent} along axis "
                             f"{at} of extent {whole}; expected one within")
        places = np.arange(count)[:, None] + np.arange(extent)
        found = ops.take(made, index_array(places, x), axis=at)
        last = len(shape_of(found))
        made = ops.transpose(found, [k for k in range(last) if k != at + 1] + [at + 1])
    return part_of(x, copied(made) if made is x else made)
