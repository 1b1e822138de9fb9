"""Shapes and the movement of data, with gradients."""

from __future__ import annotations

from math import prod

import numpy as np

from ..arrays import check_dtype
from ..autograd import apply
from ..errors import KernelTypeError, ShapeError
from ..op import Case, op
from ..op.elementwise import cast
from ..specs import View
from ..specs.shapes import check_permutation, normalize_axis

__all__ = [
    "astype", "broadcast_to", "concatenate", "expand_dims", "getitem", "reshape",
    "squeeze", "stack", "transpose",
]


def _view(x, kind, params):
    return apply(View(kind, params), [x], names=("x",))[0]


def _shape(shape):
    return (shape,) if isinstance(shape, int) else tuple(int(n) for n in shape)


@op(np.reshape, Case(((4, 6),), {"shape": (3, 8)}, dtypes="biuf"),
    Case(((2, 3, 4),), {"shape": (-1, 4)}))
def reshape(x, shape):
    """`x` in another shape; one extent may be -1.

    A view where the strides allow, else a copy, as in NumPy.
    """
    shape = _shape(shape)
    if shape.count(-1) > 1:
        raise ShapeError(f"reshape: 'shape' may have one -1, got {shape}")
    if -1 in shape:
        rest = prod(n for n in shape if n != -1)
        size = prod(x.shape)
        if not rest or size % rest:
            raise ShapeError(f"reshape: {tuple(x.shape)} has {size} elements, which do "
                             f"not fit into shape {shape}")
        shape = tuple(size // rest if n == -1 else n for n in shape)
    return _view(x, "reshape", shape)


@op(np.transpose, Case(((4, 6),), dtypes="biuf"),
    Case(((2, 3, 4),), {"axes": (1, 2, 0)}))
def transpose(x, axes=None):
    """`x` with its axes permuted, reversed by default: a view."""
    ndim = len(x.shape)
    axes = range(ndim)[::-1] if axes is None else axes
    return _view(x, "transpose", check_permutation(axes, ndim, "axes"))


@op(np.broadcast_to, Case(((4, 1),), {"shape": (3, 4, 5)}, dtypes="biuf"))
def broadcast_to(x, shape):
    """`x` repeated without being copied; the new strides are 0."""
    return _view(x, "broadcast", _shape(shape))


@op(np.expand_dims, Case(((4, 5),), {"axis": 1}))
def expand_dims(x, axis):
    """`x` with a new axis of extent 1 at `axis`."""
    return _view(x, "expand", (normalize_axis(axis, len(x.shape) + 1),))


@op(np.squeeze, Case(((4, 1, 5),), {"axis": 1}))
def squeeze(x, axis=None):
    """`x` without an axis of extent 1, or without all of them."""
    ndim = len(x.shape)
    axes = [a for a, n in enumerate(x.shape) if n == 1] if axis is None else \
        [normalize_axis(axis, ndim)]
    for a in axes:
        if x.shape[a] != 1:
            raise ShapeError(f"squeeze: axis {a} of shape {tuple(x.shape)} has extent "
                             f"{x.shape[a]}, not 1")
    return _view(x, "squeeze", tuple(axes))


@op(lambda x, index: x[index],
    Case(((4, 6),), {"index": (slice(1, 3), -1)}, dtypes="biuf"))
def getitem(x, index):
    """``x[index]`` for integers, slices, ``...`` and None: a view.

    An integer array as index is `take` along the first axis.
    """
    from .indexing import take

    items = index if isinstance(index, tuple) else (index,)
    if len(items) == 1 and hasattr(items[0], "dtype") and len(items[0].shape):
        return take(x, items[0], axis=0)
    windows, dropped, added = _basic(items, tuple(x.shape))
    out = _view(x, "slice", windows)
    if dropped:
        out = _view(out, "squeeze", dropped)
    return _view(out, "expand", added) if added else out


def _basic(items, shape):
    """Slices for each axis, the axes to drop, the axes to add."""
    named = sum(i is not None and i is not Ellipsis for i in items)
    if named > len(shape):
        raise IndexError(f"{named} indices for an array of {len(shape)} dimensions")
    if Ellipsis not in [i for i in items if i is None or i is Ellipsis]:
        items = (*items, Ellipsis)
    windows, dropped, added = [], [], []
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


def _window(item, extent, axis):
    if isinstance(item, slice):
        return item.indices(extent), False
    if not hasattr(item, "__index__"):
        raise KernelTypeError(f"index {item!r} of axis {axis} must be an integer, a "
                              "slice, None, ... or one integer array")
    i = int(item)
    if not -extent <= i < extent:
        raise IndexError(f"index {i} is out of bounds for axis {axis} of extent "
                         f"{extent}")
    i %= extent
    return (i, i + 1, 1), True


def _arrays(arrays, name):
    arrays = list(arrays)
    if not arrays:
        raise ShapeError(f"{name}: 'arrays' is empty; expected at least one array")
    return arrays


@op(lambda a, b, axis=0: np.concatenate([a, b], axis), Case(((2, 3), (4, 3))),
    Case(((2, 3), (2, 5)), {"axis": 1}))
def _concatenate_two(a, b, axis=0):
    return concatenate([a, b], axis)


@op(np.concatenate)
def concatenate(arrays, axis=0):
    """Arrays one after another along an axis, in one new array."""
    arrays = _arrays(arrays, "concatenate")
    axis = normalize_axis(axis, len(arrays[0].shape))
    return apply(View("concatenate", (axis,)), arrays,
                 names=tuple(f"arrays[{k}]" for k in range(len(arrays))))[0]


@op(np.stack)
def stack(arrays, axis=0):
    """Arrays of one shape along a new axis."""
    return concatenate([expand_dims(a, axis) for a in _arrays(arrays, "stack")],
                       normalize_axis(axis, len(arrays[0].shape) + 1))


@op(lambda x, dtype: x.astype(dtype), Case(((5, 7),), {"dtype": "float64"}),
    Case(((5, 7),), {"dtype": "int32"}, dtypes="biuf", smooth=False))
def astype(x, dtype, *, out=None):
    """`x` as another dtype, always a copy.

    Floats to integers round toward zero; the gradient of an integer is none.
    """
    return cast(check_dtype(dtype).name)(x, out=out)
