"""Arrays shaped like another one."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..arrays import dtype_of
from ..arrays.traced import Traced
from ..autograd import Variable
from ..autograd.numpy_api.methods import check_layout
from .base import as_arrays, converted, implements, index_array, ops, shape_of
from .shapes import moveaxis

__all__: list[str] = []


@implements("full_like")
def full_like(a: Any, fill_value: Any, dtype: Any = None, order: str = "K") -> Any:
    """An array of one number in the shape of `a`."""
    check_layout("full_like", order)
    return ops.full_like(a, fill_value, dtype)


@implements("zeros_like")
def zeros_like(a: Any, dtype: Any = None, order: str = "K") -> Any:
    """Zeros in the shape of `a`."""
    check_layout("zeros_like", order)
    return ops.full_like(a, 0, dtype)


@implements("ones_like")
def ones_like(a: Any, dtype: Any = None, order: str = "K") -> Any:
    """Ones in the shape of `a`."""
    check_layout("ones_like", order)
    return ops.full_like(a, 1, dtype)


@implements("empty_like")
def empty_like(prototype: Any, dtype: Any = None, order: str = "K") -> Any:
    """An array in the shape of another one: of zeros, as any number will do."""
    check_layout("empty_like", order)
    return ops.full_like(prototype, 0, dtype)


@implements("linspace")
def linspace(start: Any, stop: Any, num: int = 50, endpoint: bool = True,
             retstep: bool = False, dtype: Any = None, axis: int = 0) -> Any:
    """Numbers at equal distances between two ends, arrays also."""
    start, stop = as_arrays([start, stop], "numpy.linspace")
    kind = np.result_type(dtype_of(start), dtype_of(stop), 1.0)
    steps = max(num - 1 if endpoint else num, 1)
    shares = np.arange(num, dtype=np.float64) / steps
    shape = np.broadcast_shapes(shape_of(start), shape_of(stop))
    shares = shares.reshape((-1, *(1,) * len(shape))).astype(kind)
    width = ops.subtract(stop, start)
    like = next(x for x in (start, stop) if isinstance(x, (Traced, Variable)))
    made = ops.add(start, ops.multiply(index_array(shares, like), width))
    if endpoint and num > 1:  # the last one exactly
        made = ops.concatenate([ops.getitem(made, slice(0, -1)), ops.expand_dims(
            ops.broadcast_to(ops.astype(stop, kind), shape), 0)])
    made = moveaxis(made, 0, axis)
    made = made if dtype is None else ops.astype(made, dtype)
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
    first, last = (ops.log(converted(x, kind)) for x in (first, last))
    made = ops.exp(linspace(first, last, num, endpoint, axis=axis))
    return converted(made, dtype or kind)
