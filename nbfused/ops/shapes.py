"""Changes of shape, and movement of data between arrays.

What only changes shape and strides gives a view of the memory of `x`, and launches
nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np

from ..arrays import check_dtype, dtype_of
from ..arrays.traced import extents
from ..autograd import apply
from ..errors import KernelTypeError, ShapeError
from ..op import AnyArray, Case, Operand, op
from ..op.base import check_array, check_operand, is_number, whole_number
from ..op.cached_call import SpecCalls, view_of
from ..op.elementwise import cast
from ..op.keywords import as_numpy
from ..specs import View
from ..specs.base import Shape
from ..specs.shapes import (
    check_permutation,
    names_only_element,
    normalize_axis,
)

if TYPE_CHECKING:
    from numpy.typing import DTypeLike


__all__ = [
    "astype", "broadcast_to", "concatenate", "expand_dims", "reshape", "squeeze",
    "stack", "transpose",
]

def apply_view(x: AnyArray, kind: str, params: tuple[Any, ...]) -> AnyArray:
    """The view of an array that a `View` spec describes."""
    try:
        spec = _view(kind, params)
    except TypeError:  # extents that a compiler of PyTorch leaves open have no hash
        spec = View(kind, params)
    return view_of(spec, x)


#: Specs of views; each keeps what it has found out about arrays.
_view = lru_cache(maxsize=1024)(View)


def _shape(shape: int | Iterable[int], name: str) -> Shape:
    items = (shape,) if isinstance(shape, int) else shape
    if isinstance(items, Iterable) and not isinstance(items, str):
        return tuple(whole_number(n, name, "shape") for n in items)
    raise KernelTypeError(f"{name}: 'shape' must be an integer or a tuple of integers, "
                          f"got {shape!r}")


def checked_shape(x: AnyArray, name: str) -> Shape:
    """The shape of an argument, checked to be an array."""
    check_array(x, name, "x")
    return extents(x)


@op(np.reshape, Case(((4, 6),), {"shape": (3, 8)}, dtypes="biuf"),
    Case(((2, 3, 4),), {"shape": (-1, 4)}))
def reshape(x: AnyArray, shape: int | Iterable[int], **keywords: Any) -> AnyArray:
    """Change the shape of `x`: a view if the strides allow it, else a copy.

    Parameters
    ----------
    x : array
        Any shape.
    shape : int or sequence of int
        The new shape; one extent may be -1.
    **keywords
        `order` and `copy`, as in `numpy.reshape`.

    Returns
    -------
    array
        The same elements in C order.

    Raises
    ------
    ShapeError
        The numbers of elements differ, or there are several -1.

    Examples
    --------
    >>> import numpy as np
    >>> reshape(np.arange(6), (2, -1))
    array([[0, 1, 2],
           [3, 4, 5]])
    """
    if keywords:
        return as_numpy("reshape", x, shape, **keywords)
    new, old = _shape(shape, "reshape"), checked_shape(x, "reshape")
    if new.count(-1) > 1:
        raise ShapeError(f"reshape: 'shape' may have one -1, got {new}")
    if -1 in new:
        rest = prod(n for n in new if n != -1)
        size = prod(old)
        if not rest or size % rest:
            raise ShapeError(f"reshape: {old} has {size} elements, which do "
                             f"not fit into shape {new}")
        new = tuple(size // rest if n == -1 else n for n in new)
    return apply_view(x, "reshape", new)


@op(np.transpose, Case(((4, 6),), dtypes="biuf"),
    Case(((2, 3, 4),), {"axes": (1, 2, 0)}))
def transpose(x: AnyArray, axes: Iterable[int] | None = None) -> AnyArray:
    """Permute the axes of `x`, by default reversed: a view.

    Parameters
    ----------
    x : array
        Any shape.
    axes : sequence of int, optional
        Axis k of the result is axis ``axes[k]`` of `x`.

    Returns
    -------
    array

    Raises
    ------
    ShapeError
        `axes` is no permutation.
    """
    ndim = len(checked_shape(x, "transpose"))
    axes = range(ndim)[::-1] if axes is None else axes
    return apply_view(x, "transpose", check_permutation(axes, ndim, "axes"))


@op(np.broadcast_to, Case(((4, 1),), {"shape": (3, 4, 5)}, dtypes="biuf"))
def broadcast_to(x: AnyArray, shape: int | Iterable[int],
                 **keywords: Any) -> AnyArray:
    """Repeat `x` to a shape without copying: a view with strides of 0.

    Parameters
    ----------
    x : array
        Any shape that broadcasts to `shape`.
    shape : int or sequence of int
        The new shape.
    **keywords
        `subok`, as in `numpy.broadcast_to`.

    Returns
    -------
    array
        Do not store into it: its elements share memory.

    Raises
    ------
    ShapeError
        `x` does not broadcast to `shape`.
    """
    if keywords:
        return as_numpy("broadcast_to", x, shape, **keywords)
    return apply_view(x, "broadcast", _shape(shape, "broadcast_to"))


@op(np.expand_dims, Case(((4, 5),), {"axis": 1}))
def expand_dims(x: AnyArray, axis: SupportsIndex | tuple[int, ...]) -> AnyArray:
    """Insert an axis of extent 1 into `x`, or several: a view."""
    if isinstance(axis, (tuple, list)):
        return as_numpy("expand_dims", x, axis)
    return apply_view(x, "expand", (normalize_axis(
        axis, len(checked_shape(x, "expand_dims")) + 1),))


@op(np.squeeze, Case(((4, 1, 5),), {"axis": 1}))
def squeeze(x: AnyArray,
            axis: SupportsIndex | tuple[int, ...] | None = None) -> AnyArray:
    """Remove one axis of extent 1, several, or all of them: a view.

    Raises
    ------
    ShapeError
        The extent of `axis` is not 1.
    """
    if isinstance(axis, (tuple, list)):
        return as_numpy("squeeze", x, axis)
    ndim = len(checked_shape(x, "squeeze"))
    if not ndim and names_only_element(axis):
        axis = None  # as NumPy has it
    axes = [a for a, n in enumerate(x.shape) if n == 1] if axis is None else \
        [normalize_axis(axis, ndim)]
    for a in axes:
        if x.shape[a] != 1:
            raise ShapeError(f"squeeze: axis {a} of shape {tuple(x.shape)} has extent "
                             f"{x.shape[a]}, not 1")
    return apply_view(x, "squeeze", tuple(axes))


def _arrays(arrays: Iterable[AnyArray], name: str) -> list[AnyArray]:
    if not isinstance(arrays, Iterable):
        raise KernelTypeError(f"{name}: 'arrays' must be a sequence of arrays, got "
                              f"{type(arrays).__name__}")
    found = list(arrays)
    if not found:
        raise ShapeError(f"{name}: 'arrays' is empty; expected at least one array")
    for k, x in enumerate(found):
        check_operand(x, name, f"arrays[{k}]")
        if is_number(x):
            raise KernelTypeError(f"{name}: 'arrays[{k}]' must be an array, got {x!r}; "
                                  "make one with nf.full")
    return found


@lru_cache(maxsize=256)
def _joining(axis: int, count: int) -> SpecCalls:
    """Calls that join so many arrays along an axis."""
    return SpecCalls(View("concatenate", (axis,)), "concatenate",
                     tuple([f"arrays[{k}]" for k in range(count)]))


@op(lambda a, b, axis=0: np.concatenate([a, b], axis), Case(((2, 3), (4, 3))),
    Case(((2, 3), (2, 5)), {"axis": 1}))
def _concatenate_two(a: AnyArray, b: AnyArray, axis: int = 0) -> AnyArray:
    return concatenate([a, b], axis)


@op(np.concatenate)
def concatenate(arrays: Iterable[AnyArray], axis: SupportsIndex | None = 0, *,
                out: AnyArray | None = None, **keywords: Any) -> AnyArray:
    """Join arrays along an existing axis into a new array.

    Parameters
    ----------
    arrays : sequence of arrays
        Of shapes that differ along `axis` only; dtypes promote.
    axis : int or None
        Along which; None joins flattened arrays.
    out : array, optional
        Where to store.
    **keywords
        `dtype` and `casting`, as in `numpy.concatenate`.

    Returns
    -------
    array

    Raises
    ------
    ShapeError
        Shapes do not fit, or there is no array.

    Examples
    --------
    >>> import numpy as np
    >>> concatenate([np.ones(2), np.zeros(1)])
    array([1., 1., 0.])
    """
    if keywords or axis is None:
        return as_numpy("concatenate", arrays, axis=axis, out=out, **keywords)
    found = _arrays(arrays, "concatenate")
    along = normalize_axis(axis, len(found[0].shape))
    calls = _joining(along, len(found))
    joined = calls(*found) if {*map(type, found)} == {np.ndarray} else \
        apply(calls.spec, found, names=calls.names)[0]
    return joined if out is None else cast(dtype_of(joined).name)(joined, out=out)


@op(np.stack)
def stack(arrays: Iterable[AnyArray], axis: SupportsIndex = 0, *,
          out: AnyArray | None = None, **keywords: Any) -> AnyArray:
    """Join arrays of one shape along a new axis into a new array.

    Parameters
    ----------
    arrays : sequence of arrays
        Of one shape; dtypes promote.
    axis : int
        The new axis in the result.
    out : array, optional
        Where to store.
    **keywords
        `dtype` and `casting`, as in `numpy.stack`.

    Returns
    -------
    array

    Raises
    ------
    ShapeError
        Shapes differ, or there is no array.

    Examples
    --------
    >>> import numpy as np
    >>> stack([np.ones(2), np.zeros(2)], axis=1)
    array([[1., 0.],
           [1., 0.]])
    """
    if keywords:
        return as_numpy("stack", arrays, axis=axis, out=out, **keywords)
    found = _arrays(arrays, "stack")
    for k, x in enumerate(found):
        if tuple(x.shape) != tuple(found[0].shape):
            raise ShapeError(f"stack: arrays[{k}] of shape {tuple(x.shape)} does not "
                             f"fit arrays[0] of shape {tuple(found[0].shape)}; "
                             "expected equal shapes, broadcast or reshape it first")
    return concatenate([expand_dims(a, axis) for a in found],
                       normalize_axis(axis, len(found[0].shape) + 1), out=out)


@op(lambda x, dtype: x.astype(dtype), Case(((5, 7),), {"dtype": "float64"}),
    Case(((5, 7),), {"dtype": "int32"}, dtypes="biuf", smooth=False))
def astype(x: Operand, dtype: DTypeLike, *, out: AnyArray | None = None,
           **keywords: Any) -> AnyArray:
    """Convert `x` to another dtype; a copy, unless ``copy=False`` allows another.

    Floats to integers round toward zero; what they give for NaN and beyond the range is
    the machine's choice.  To bool: whether nonzero; NaN is.  Integers have no gradient.

    Parameters
    ----------
    x : array
        Any shape.
    dtype : dtype
        As `numpy.dtype` takes it, and ``"bfloat16"``.
    out : array, optional
        Where to store.
    **keywords
        `copy`, as in `numpy.astype`.

    Returns
    -------
    array

    Examples
    --------
    >>> import numpy as np
    >>> astype(np.array([1.9, -1.9]), "int32")
    array([ 1, -1], dtype=int32)
    """
    if keywords:
        return as_numpy("astype", x, dtype, out=out, **keywords)
    return cast(check_dtype(dtype).name)(x, out=out)
