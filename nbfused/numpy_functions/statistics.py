"""Averages, covariances, interpolation, polynomials."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..arrays import dtype_of
from ..errors import KernelTypeError, ShapeError
from .base import (
    as_arrays,
    axes_of,
    converted,
    implements,
    ops,
    shape_of,
)
from .reductions import mean
from .shapes import diagonal

__all__: list[str] = []


@implements("average")
def average(a: Any, axis: Any = None, weights: Any = None, returned: bool = False, *,
            keepdims: Any = False) -> Any:
    """The mean with weights."""
    keepdims = bool(keepdims) if keepdims is not np._NoValue else False
    if weights is None:
        found = mean(a, axis, keepdims=keepdims)
        count = np.prod([shape_of(a)[k] for k in axes_of(axis, len(shape_of(a)))])
        return (found, ops.full_like(found, float(count))) if returned else found
    a, weights = as_arrays([a, weights], "numpy.average")
    if shape_of(weights) != shape_of(a):
        axes = axes_of(axis, len(shape_of(a)))
        if axis is None or shape_of(weights) != tuple(shape_of(a)[k] for k in axes):
            raise ShapeError(f"numpy.average: 'weights' has shape {shape_of(weights)}, "
                             f"expected {shape_of(a)}, or that of the axes")
        weights = ops.reshape(weights, tuple(
            n if k in axes else 1 for k, n in enumerate(shape_of(a))))
        weights = ops.broadcast_to(weights, shape_of(a))
    total = ops.sum(weights, axis=axis, keepdims=keepdims)
    found = ops.divide(ops.sum(ops.multiply(a, weights), axis=axis, keepdims=keepdims),
                       total)
    return (found, ops.broadcast_to(converted(total, dtype_of(found)),
                                    shape_of(found))) if returned else found


@implements("cov")
def cov(m: Any, y: Any = None, rowvar: bool = True, bias: bool = False,
        ddof: int | None = None, fweights: Any = None, aweights: Any = None, *,
        dtype: Any = None) -> Any:
    """The covariances of variables, each a row of observations."""
    if fweights is not None or aweights is not None:
        raise KernelTypeError("numpy.cov: 'fweights' and 'aweights' are not supported "
                              "on what nbfused computes; weight the rows yourself")
    x = _rows(m, rowvar, dtype)
    if y is not None:
        x = ops.concatenate([x, _rows(y, rowvar, dtype)])
    count = shape_of(x)[1]
    left = count - (ddof if ddof is not None else int(not bias))
    centred = ops.subtract(x, ops.mean(x, axis=1, keepdims=True))
    found = ops.divide(ops.matmul(centred, ops.transpose(centred)), float(max(left, 0)))
    return ops.squeeze(found)


def _rows(m: Any, rowvar: bool, dtype: Any) -> Any:
    if len(shape_of(m)) > 2:
        raise ShapeError(f"numpy.cov: shape {shape_of(m)}, expected two dimensions at "
                         "most")
    m = converted(m, dtype or np.result_type(dtype_of(m), np.float64))
    if len(shape_of(m)) < 2:
        return ops.reshape(m, (1, -1))
    return m if rowvar or shape_of(m)[0] == 1 else ops.transpose(m)


@implements("corrcoef")
def corrcoef(x: Any, y: Any = None, rowvar: bool = True, *, dtype: Any = None) -> Any:
    """The correlations of variables, each a row of observations."""
    found = cov(x, y, rowvar, dtype=dtype)
    if not shape_of(found):
        return ops.divide(found, found)
    spread = ops.sqrt(diagonal(found))
    scaled = ops.divide(ops.divide(found, ops.expand_dims(spread, 1)), spread)
    return ops.clip(scaled, -1.0, 1.0)


@implements("interp")
def interp(x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None,
           period: Any = None) -> Any:
    """The piecewise linear function through points, at `x`."""
    if period is not None:
        raise KernelTypeError("numpy.interp: 'period' is not supported on what nbfused "
                              "computes; take the remainder, and repeat the points")
    x, xp, fp = as_arrays([x, xp, fp], "numpy.interp")
    from .sorting import searchsorted
    count = shape_of(xp)[0]
    if shape_of(xp) != shape_of(fp) or len(shape_of(xp)) != 1 or not count:
        raise ShapeError(f"numpy.interp: 'xp' and 'fp' have shapes {shape_of(xp)} and "
                         f"{shape_of(fp)}, expected the same of one dimension, not "
                         "empty")
    if count == 1:
        found = ops.broadcast_to(fp, shape_of(x) or (1,))
        found = ops.reshape(found, shape_of(x))
    else:
        after = searchsorted(xp, x, side="right")
        low = ops.clip(ops.subtract(after, 1), 0, count - 2)
        x0, x1, f0, f1 = (ops.take(v, k, axis=0) for v in (xp, fp)
                          for k in (low, ops.add(low, 1)))
        found = ops.add(f0, ops.multiply(ops.divide(ops.subtract(f1, f0), ops.subtract(
            x1, x0)), ops.subtract(x, x0)))
    ends = ops.getitem(fp, 0), ops.getitem(fp, -1)
    found = ops.where(ops.less(x, ops.getitem(xp, 0)),
                      ends[0] if left is None else left, found)
    return ops.where(ops.greater(x, ops.getitem(xp, -1)),
                     ends[1] if right is None else right, found)
