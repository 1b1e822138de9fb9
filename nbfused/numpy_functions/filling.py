"""Arrays shaped like another one, and functions that change their first argument.

A change is an assignment to a Variable or to what is traced, so that it has a gradient.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from operator import index
from typing import Any

import numpy as np

from ..arrays import check_dtype, dtype_of
from ..arrays.traced import Traced, TracedNumber
from ..autograd import Variable
from ..autograd.calls.tracked import Tracked
from ..autograd.numpy_api.integers import check_integer
from ..autograd.numpy_api.layouts import in_layout
from ..autograd.numpy_api.refusals import no_operation, refuse_options
from ..dispatch.outputs import can_cast
from ..errors import KernelTypeError, ShapeError, TapeError
from ..specs.shapes import assigned_shape, broadcasts_to
from .base import (
    as_arrays,
    as_given,
    axis_of,
    converted,
    copied,
    filled,
    implements,
    index_array,
    is_value,
    ops,
    shape_of,
)
from .cumulative import cumsum
from .shapes import moveaxis, resize

__all__ = ["placed"]


@implements("full_like")
def full_like(a: Any, fill_value: Any, dtype: Any = None, order: str = "K",
              subok: bool = True, shape: Any = None, *, device: Any = None) -> Any:
    """An array of one number, or of an array that is repeated, like `a`."""
    kind = dtype_of(a) if dtype is None else check_dtype(dtype)
    if _is_array(fill_value):
        extents = shape_of(a) if shape is None else _extents(shape)
        _, values = as_arrays([a, fill_value], "numpy.full_like")
        made = _repeated(converted(values, kind), extents)
    else:
        like = a if shape is None else ops.broadcast_to(
            index_array(np.zeros((), kind), a), _extents(shape))
        made = ops.full_like(like, fill_value, kind)
        made = as_given(made, a) if shape is not None else made
    return placed("full_like", in_layout("full_like", made, order, a), device)


def _repeated(values: Any, shape: tuple[int, ...]) -> Any:
    if not broadcasts_to(shape_of(values), shape):
        raise ShapeError(f"numpy.full_like: 'fill_value' has shape {shape_of(values)}, "
                         f"expected one that broadcasts to {shape}")
    return copied(ops.broadcast_to(values, shape))


def _is_array(x: Any) -> bool:
    return isinstance(x, (list, tuple)) or (
        is_value(x) and not isinstance(x, (np.generic, TracedNumber)))


def _extents(shape: Any) -> tuple[int, ...]:
    return tuple(map(index, shape)) if isinstance(shape, Iterable) else (index(shape),)


def placed(name: str, x: Any, device: Any) -> Any:
    """An array on a device: where it is for None."""
    if device is None:
        return x
    if isinstance(x, Traced) or not isinstance(x, Variable):
        refuse_options(f"numpy.{name}", {"device": device})
    return x.to_device(device)


@implements("zeros_like")
def zeros_like(a: Any, dtype: Any = None, order: str = "K", subok: bool = True,
               shape: Any = None, *, device: Any = None) -> Any:
    """Zeros in the shape of `a`, or in another one."""
    return full_like(a, 0, dtype, order, subok, shape, device=device)


@implements("ones_like")
def ones_like(a: Any, dtype: Any = None, order: str = "K", subok: bool = True,
              shape: Any = None, *, device: Any = None) -> Any:
    """Ones in the shape of `a`, or in another one."""
    return full_like(a, 1, dtype, order, subok, shape, device=device)


@implements("empty_like")
def empty_like(prototype: Any, dtype: Any = None, order: str = "K", subok: bool = True,
               shape: Any = None, *, device: Any = None) -> Any:
    """An array in the shape of another one: of zeros, as any number will do."""
    return full_like(prototype, 0, dtype, order, subok, shape, device=device)


@implements("linspace")
def linspace(start: Any, stop: Any, num: int = 50, endpoint: bool = True,
             retstep: bool = False, dtype: Any = None, axis: int = 0, *,
             device: Any = None) -> Any:
    """Numbers at equal distances between two ends, arrays also."""
    start, stop = as_arrays([start, stop], "numpy.linspace")
    kind = np.result_type(dtype_of(start), dtype_of(stop), 1.0)
    # Before they are subtracted: integers would wrap around.
    start, stop = converted(start, kind), converted(stop, kind)
    steps = max(num - 1 if endpoint else num, 1)
    shares = np.arange(num, dtype=np.float64) / steps
    shape = np.broadcast_shapes(shape_of(start), shape_of(stop))
    shares = shares.reshape((-1, *(1,) * len(shape))).astype(kind)
    width = ops.subtract(stop, start)
    like = next(x for x in (start, stop) if isinstance(x, (Traced, Variable)))
    made = ops.add(start, ops.multiply(index_array(shares, like), width))
    if endpoint and num > 1:  # the last one exactly
        made = ops.concatenate([ops.getitem(made, slice(0, -1)), ops.expand_dims(
            ops.broadcast_to(stop, shape), 0)])
    made = moveaxis(made, 0, axis)
    if dtype is not None and np.dtype(dtype).kind in "iu":
        made = ops.floor(made)
    made = made if dtype is None else ops.astype(made, dtype)
    made = placed("linspace", made, device)
    return (made, ops.divide(width, float(steps))) if retstep else made


@implements("logspace")
def logspace(start: Any, stop: Any, num: int = 50, endpoint: bool = True,
             base: Any = 10.0, dtype: Any = None, axis: int = 0) -> Any:
    """Powers of a base whose exponents are at equal distances."""
    made = ops.power(base, linspace(start, stop, num, endpoint, axis=axis))
    return made if dtype is None else ops.astype(made, dtype)


@implements("geomspace")
def geomspace(start: Any, stop: Any, num: int = 50, endpoint: bool = True,
              dtype: Any = None, axis: int = 0) -> Any:
    """Numbers at equal ratios between two positive ends."""
    first, last = as_arrays([start, stop], "numpy.geomspace")
    kind = np.result_type(dtype_of(first), dtype_of(last), dtype or np.float64)
    ends = [converted(x, kind) for x in (first, last)]
    low, high = map(ops.log, ends)
    made = ops.exp(linspace(low, high, num, endpoint))
    exact = ends if endpoint and num > 1 else ends[:min(num, 1)]
    return converted(moveaxis(_with_ends(made, exact), 0, axis), dtype or kind)


def _with_ends(made: Any, ends: list[Any]) -> Any:
    """An array whose first slice, and the last if two are given, are replaced."""
    count, shape = shape_of(made)[0], shape_of(made)[1:]
    if not ends:
        return made
    first, *last = (ops.expand_dims(ops.broadcast_to(x, shape), 0) for x in ends)
    inner = ops.getitem(made, slice(1, count - len(last)))
    return ops.concatenate([first, inner, *last])


def _changes(name: str) -> Callable[[Callable[..., Any]], Callable[..., None]]:
    """A function that assigns to an array what another one makes of it."""
    def enter(function: Callable[..., Any]) -> Callable[..., None]:
        def call(*args: Any, **kwargs: Any) -> None:
            target: Any = args[0] if args else next(iter(kwargs.values()), None)
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
    """Convert values to the dtype and the library of the array that takes them."""
    wanted = dtype_of(like)
    x = check_integer(x, like, f"numpy.{name}", "values")
    if isinstance(x, TracedNumber) and can_cast(dtype_of(x), wanted, casting):
        return filled(x, wanted, like)
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
        raise ShapeError(f"numpy.{name}: the mask has shape {shape_of(found)}, "
                         f"expected as many elements as {shape}")
    return ops.reshape(found, shape)


def _flat(x: Any) -> Any:
    return ops.reshape(x, (-1,))


@_changes("copyto")
def copyto(dst: Any, src: Any, casting: str = "same_kind", where: Any = True) -> Any:
    """Set the elements where a condition holds."""
    made, shape = _values(src, dst, "copyto", casting), shape_of(dst)
    fitting = assigned_shape(shape_of(made), shape)
    if fitting != shape_of(made):
        made = ops.reshape(made, fitting)
    if where is True:
        return made
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
    made = _values(values, arr, "put_along_axis", "unsafe")
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
    made = resize(_values(val, a, "fill_diagonal", "unsafe"), (count,))
    return ops.reshape(ops.set_at(_flat(a), made, index=slice(0, end, step)), shape)
