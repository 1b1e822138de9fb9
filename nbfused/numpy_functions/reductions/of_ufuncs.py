"""Methods of ufuncs that combine elements: `accumulate`, `reduce` and `outer`.

Of associative ufuncs they combine pairs, in as many steps as the extent has binary
digits; so they run, and have gradients, wherever the ufunc does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...arrays import dtype_of
from ...errors import KernelTypeError, ShapeError
from ...registry.operations import NUMPY
from ...specs.shapes import names_only_element
from ..base import (
    axes_of,
    axis_of,
    converted,
    copied,
    implements,
    ops,
    shape_of,
    stored,
)

__all__: list[str] = []


def _along(x: Any, axis: int, where: slice) -> Any:
    return ops.getitem(x, (*(slice(None),) * axis, where))


@implements("ufunc.accumulate")
def ufunc_accumulate(name: str, combine: Callable[..., Any], array: Any,
                     axis: int | None = 0, dtype: Any = None, out: Any = None) -> Any:
    """Results of an associative ufunc over the elements up to each one."""
    if axis is None:
        if len(shape_of(array)) > 1:
            raise KernelTypeError(f"numpy.{name}.accumulate: 'axis' is None, and the "
                                  f"array has the shape {shape_of(array)}; expected an "
                                  "integer, one axis")
        axis = 0
    if name in _RUNNING:
        return NUMPY[f"numpy.{_RUNNING[name]}"](array, axis, dtype, out)
    axis = axis_of(axis, len(shape_of(array)))
    x = _in_result_dtype(name, array, dtype)
    count, step = shape_of(x)[axis], 1
    x = copied(x, count < 2)  # else `concatenate` makes a new one
    while step < count:  # each element has what is combined of the `step` up to it
        later = combine(_along(x, axis, slice(0, -step)),
                        _along(x, axis, slice(step, None)))
        x = ops.concatenate([_along(x, axis, slice(0, step)), later], axis=axis)
        step *= 2
    return stored(x, out)


def _in_result_dtype(name: str, x: Any, dtype: Any) -> Any:
    """Elements in the dtype of results: bool for ``logical_and``, say."""
    if dtype is None:
        own = dtype_of(x)
        if own.kind not in "biu" and not name.startswith("logical"):
            return x
        dtype = getattr(np, name).resolve_dtypes((own, own, None))[-1]
        return x if dtype == own else ops.astype(x, dtype)
    return converted(x, dtype)


#: `ufunc_accumulate` by another name.
_RUNNING = {"add": "cumsum", "multiply": "cumprod"}


@implements("ufunc.reduce")
def ufunc_reduce(name: str, combine: Callable[..., Any], array: Any, axis: Any = 0,
                 dtype: Any = None, keepdims: bool = False, out: Any = None) -> Any:
    """The result of an associative ufunc over all elements along some axes."""
    x = _in_result_dtype(name, array, dtype)
    only = not shape_of(x) and names_only_element(axis)
    axes = () if only else axes_of(axis, len(shape_of(x)))
    if not [k for k in axes if shape_of(x)[k] != 1]:
        # NumPy starts with the identity, which makes one number positive.
        x = combine(x, 0) if name in ("gcd", "hypot") else copied(x)
    for k in sorted(axes, reverse=True):
        x = _reduced(name, combine, x, k)
        x = x if keepdims else ops.squeeze(x, k)
    return stored(x, out)


def _reduced(name: str, combine: Callable[..., Any], x: Any, axis: int) -> Any:
    """An array whose extent along one axis is 1."""
    if not shape_of(x)[axis]:
        raise ShapeError(f"numpy.{name}.reduce: axis {axis} has no elements, and there "
                         "is no first one")
    while (count := shape_of(x)[axis]) > 1:
        half = count // 2
        pairs = combine(_along(x, axis, slice(0, half)),
                        _along(x, axis, slice(half, 2*half)))
        x = pairs if count == 2*half else ops.concatenate(
            [pairs, _along(x, axis, slice(2*half, None))], axis=axis)
    return x


@implements("ufunc.outer")
def ufunc_outer(name: str, combine: Callable[..., Any], A: Any, B: Any, /) -> Any:
    """The result for each element beside each one."""
    spread = shape_of(A) + (1,) * len(shape_of(B))
    return combine(ops.reshape(A, spread) if shape_of(A) else A, B)
