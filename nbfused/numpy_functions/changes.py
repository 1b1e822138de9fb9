"""NumPy's functions that change their first argument, as assignments to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..arrays import dtype_of
from ..arrays.traced import Traced
from ..autograd import Variable
from ..autograd.calls.tracked import Tracked
from ..autograd.numpy_api.methods import no_operation
from ..dispatch.outputs import can_cast
from ..errors import KernelTypeError, ShapeError, TapeError
from .base import axis_of, converted, implements, index_array, is_value, ops, shape_of
from .cumulative import cumsum
from .shapes import resize

__all__: list[str] = []


def _changes(name: str) -> Callable[[Callable[..., Any]], Callable[..., None]]:
    """A function that assigns to an array what another one makes of it."""
    def enter(function: Callable[..., Any]) -> Callable[..., None]:
        def call(*args: Any, **kwargs: Any) -> None:
            target = args[0] if args else next(iter(kwargs.values()), None)
            _check_target(target, name)
            target[...] = function(*args, **kwargs)

        call.__name__ = call.__qualname__ = name
        call.__doc__ = function.__doc__
        return implements(name)(call)

    return enter


def _check_target(x: Any, name: str) -> None:
    if isinstance(x, Tracked):
        raise TapeError(f"numpy.{name}: the array requires grad, or is traced, in its "
                        "own library, which would not see what is stored; make a new "
                        "one with nf.ops.where")
    if not isinstance(x, (Variable, Traced)):
        raise no_operation(
            f"numpy.{name} changes {type(x).__name__} beside what nbfused follows, "
            "which does not see it; make it a Variable, or a new array with "
            "nf.ops.where")


def _values(x: Any, like: Any, name: str, casting: str = "same_kind") -> Any:
    """What is stored, in the dtype and the library of the array."""
    wanted = dtype_of(like)
    number = type(x) in (bool, int, float, complex)
    if not is_value(x) or isinstance(x, np.generic):
        given = np.result_type(wanted, x) if number else np.asarray(x).dtype
    else:
        given = dtype_of(x)
    if not (can_cast(given, wanted, casting) or (number and given.kind == wanted.kind)):
        raise KernelTypeError(f"numpy.{name}: values of {given} do not cast to "
                              f"{wanted} as {casting!r}; use astype first")
    if is_value(x) and not isinstance(x, np.generic):
        return converted(x, wanted)
    return index_array(np.asarray(x).astype(wanted), like)


def _condition(mask: Any, like: Any) -> Any:
    found = mask if is_value(mask) else index_array(np.asarray(mask), like)
    return found if dtype_of(found).kind == "b" else ops.not_equal(found, 0)


def _mask_of_size(mask: Any, like: Any, name: str) -> Any:
    found, shape = _condition(mask, like), shape_of(like)
    if np.prod(shape_of(found), dtype=int) != np.prod(shape, dtype=int):
        raise ShapeError(f"numpy.{name}: the mask has shape {shape_of(found)}, expected "
                         f"as many elements as {shape}")
    return ops.reshape(found, shape)


def _flat(x: Any) -> Any:
    return ops.reshape(x, (-1,))


@_changes("copyto")
def copyto(dst: Any, src: Any, casting: str = "same_kind", where: Any = True) -> Any:
    """Set the elements where a condition holds."""
    made = _values(src, dst, "copyto", casting)
    if where is True:
        return made
    shape = shape_of(dst)
    return ops.where(ops.broadcast_to(_condition(where, dst), shape),
                     ops.broadcast_to(made, shape), dst)


@_changes("putmask")
def putmask(a: Any, mask: Any, values: Any) -> Any:
    """Set the elements where a condition holds, from values at the same places."""
    made = resize(_values(values, a, "putmask"), shape_of(a))
    return ops.where(_mask_of_size(mask, a, "putmask"), made, a)


@_changes("place")
def place(arr: Any, mask: Any, vals: Any) -> Any:
    """Set the elements where a condition holds, from values in their order."""
    chosen = _mask_of_size(mask, arr, "place")
    made = _flat(_values(vals, arr, "place"))
    count = shape_of(made)[0]
    if not count:
        raise ShapeError("numpy.place: 'vals' is empty, expected one value at least")
    if count > 1:
        order = ops.subtract(cumsum(_flat(chosen)), 1)
        made = ops.reshape(ops.take(made, ops.remainder(order, count), axis=0),
                           shape_of(arr))
    return ops.where(chosen, made, arr)


@_changes("put")
def put(a: Any, ind: Any, v: Any, mode: str = "raise") -> Any:
    """Set the elements of the flattened array at indices."""
    if not is_value(ind):
        ind = index_array(np.asarray(ind, None if np.size(ind) else np.int64), a, ind)
    flat, ind = _flat(a), _flat(ind)
    if mode == "wrap":
        ind = ops.remainder(ind, shape_of(flat)[0])
    elif mode == "clip":
        ind = ops.clip(ind, 0, shape_of(flat)[0] - 1)
    elif mode != "raise":
        raise KernelTypeError(f"numpy.put: mode {mode!r}, expected 'raise', 'wrap' or "
                              "'clip'")
    made = resize(_values(v, a, "put"), shape_of(ind))
    return ops.reshape(ops.set_at(flat, made, index=ind), shape_of(a))


@_changes("put_along_axis")
def put_along_axis(arr: Any, indices: Any, values: Any, axis: Any) -> Any:
    """Set elements of each line along an axis, at indices of its own."""
    indices = indices if is_value(indices) else index_array(np.asarray(indices), arr)
    made = _values(values, arr, "put_along_axis")
    if axis is None:
        return ops.reshape(ops.set_at(_flat(arr), made, index=indices), shape_of(arr))
    shape = shape_of(arr)
    axis = axis_of(axis, len(shape))
    index = tuple(indices if k == axis else index_array(np.arange(n).reshape(tuple(
        -1 if j == k else 1 for j in range(len(shape)))), arr)
        for k, n in enumerate(shape))
    return ops.set_at(arr, made, index=index)


@_changes("fill_diagonal")
def fill_diagonal(a: Any, val: Any, wrap: bool = False) -> Any:
    """Set the main diagonal."""
    shape = shape_of(a)
    if len(shape) < 2:
        raise ShapeError(f"numpy.fill_diagonal: shape {shape}, expected two dimensions "
                         "or more")
    if len(shape) > 2 and len(set(shape)) > 1:
        raise ShapeError(f"numpy.fill_diagonal: shape {shape}, expected extents that "
                         "are equal")
    if len(shape) == 2:
        step, end = shape[1] + 1, None if wrap else shape[1] * shape[1]
    else:
        step, end = 1 + sum(np.cumprod(shape[:-1]).tolist()), None
    count = len(range(*slice(0, end, step).indices(int(np.prod(shape)))))
    made = resize(_values(val, a, "fill_diagonal"), (count,))
    return ops.reshape(ops.set_at(_flat(a), made, index=slice(0, end, step)), shape)
