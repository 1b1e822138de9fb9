"""Averages, covariances, interpolation."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...arrays import dtype_of, to_numpy
from ...autograd import Variable
from ...errors import KernelTypeError, ShapeError
from ...support.records import record
from ..base import (
    as_arrays,
    axes_of,
    check_values,
    converted,
    detached,
    floating,
    implements,
    is_value,
    ops,
    permuted,
    shape_of,
)
from ..complex_parts import conj, imag, real
from ..reductions.with_keywords import mean
from ..shapes import diagonal

__all__ = ["spread_weights"]


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
    weights = spread_weights(a, weights, axis, "numpy.average")
    weighed = ops.multiply(floating(a), weights)
    total = ops.sum(converted(weights, dtype_of(weighed)), axis=axis,
                    keepdims=keepdims)
    found = ops.divide(ops.sum(weighed, axis=axis, keepdims=keepdims), total)
    return (found, ops.broadcast_to(converted(total, dtype_of(found)),
                                    shape_of(found))) if returned else found


def spread_weights(a: Any, weights: Any, axis: Any, name: str) -> Any:
    """Weights in the shape of `a`, which are given so, or of the shape of its axes."""
    shape = shape_of(a)
    if shape_of(weights) == shape:
        return weights
    axes = axes_of(axis, len(shape))
    if axis is None or shape_of(weights) != tuple(shape[k] for k in axes):
        raise ShapeError(f"{name}: 'weights' has shape {shape_of(weights)}, expected "
                         f"{shape}, or that of the axes")
    weights = permuted(weights, np.argsort(axes).tolist())
    return ops.broadcast_to(ops.reshape(weights, tuple(
        n if k in axes else 1 for k, n in enumerate(shape))), shape)


@implements("cov")
def cov(m: Any, y: Any = None, rowvar: bool = True, bias: bool = False,
        ddof: int | None = None, fweights: Any = None, aweights: Any = None, *,
        dtype: Any = None) -> Any:
    """The covariances of variables, each a row of observations.

    Raises
    ------
    ShapeError
        Weights that are not one for each observation.
    """
    if ddof is not None and ddof != int(ddof):
        raise ValueError(f"numpy.cov: 'ddof' is {ddof}, expected an integer")
    if y is not None:
        m, y = as_arrays([m, y], "numpy.cov", weak=False)
    x = _rows(m, not rowvar and len(shape_of(m)) != 1)
    if y is not None:
        y = _rows(y, not rowvar and len(shape_of(y)) == 2 and shape_of(y)[0] != 1)
        x = ops.concatenate([x, y])
    x = converted(x, dtype or np.result_type(dtype_of(x), np.float64))
    if not shape_of(x)[0]:
        return ops.reshape(x, (0, 0))
    frequency, importance = _weights_of(x, fweights=fweights, aweights=aweights)
    ddof = ddof if ddof is not None else int(not bias)
    left, mean_weights = _degrees_of_freedom(x, frequency, importance, ddof)
    if mean_weights is None:
        centred = ops.subtract(x, ops.mean(x, axis=1, keepdims=True))
        weighted = centred
    else:
        total = ops.sum(mean_weights)
        middle = ops.divide(ops.sum(ops.multiply(x, mean_weights), axis=1,
                                    keepdims=True), total)
        centred = converted(ops.subtract(x, middle), dtype_of(x))
        weighted = ops.multiply(centred, mean_weights)
    found = ops.divide(ops.matmul(centred, _conjugate_transposed(weighted)), left)
    return ops.squeeze(found)


def _conjugate_transposed(x: Any) -> Any:
    return conj(ops.transpose(x)) if dtype_of(x).kind == "c" else ops.transpose(x)


def _weights_of(x: Any, **given: Any) -> list[Any]:
    """Weights of observations in floating numbers, checked; None stays."""
    found = []
    for name, weights in given.items():
        if weights is not None:
            _, weights = as_arrays([x, weights], "numpy.cov")
            if shape_of(weights) != shape_of(x)[1:]:
                raise ShapeError(f"numpy.cov: '{name}' has shape {shape_of(weights)}, "
                                 f"expected {shape_of(x)[1:]}, one for each "
                                 "observation")
            check_values(weights, _Weights(name))
            weights = converted(weights, np.float64)
        found.append(weights)
    return found


@record(frozen=True)
class _Weights:
    """A check of the weights of observations.

    Attributes
    ----------
    name
        Of the argument; ``"fweights"`` are counts.
    """

    name: str

    def __call__(self, values: Any) -> None:
        """Raise `ValueError` if one is negative, `KernelTypeError` if no count."""
        found = values.to_numpy() if isinstance(values, Variable) else to_numpy(values)
        if (found < 0).any():
            raise ValueError(f"numpy.cov: '{self.name}' has {found.min()}, expected no "
                             "negative weights")
        if self.name == "fweights" and (found != np.around(found)).any():
            raise KernelTypeError("numpy.cov: 'fweights' counts observations, and has "
                                  "a number that is no integer; use 'aweights'")


def _degrees_of_freedom(x: Any, frequency: Any, importance: Any,
                        ddof: int) -> tuple[Any, Any]:
    """The divisor of sums of products, and the weights of the observations."""
    if frequency is None and importance is None:
        return float(max(shape_of(x)[1] - ddof, 0)), None
    weights = frequency if importance is None else importance if frequency is None \
        else ops.multiply(frequency, importance)
    left = total = ops.sum(weights)
    if ddof and importance is None:
        left = ops.subtract(total, ddof)
    elif ddof:
        lost = ops.divide(ops.sum(ops.multiply(weights, importance)), total)
        left = ops.subtract(total, ops.multiply(lost, ddof))
    return ops.maximum(left, 0.0), weights


def _rows(m: Any, in_columns: bool) -> Any:
    """Variables in rows."""
    if len(shape_of(m)) > 2:
        raise ShapeError(f"numpy.cov: shape {shape_of(m)}, expected two dimensions at "
                         "most")
    if len(shape_of(m)) < 2:
        return ops.reshape(m, (1, -1))
    return ops.transpose(m) if in_columns else m


@implements("corrcoef")
def corrcoef(x: Any, y: Any = None, rowvar: bool = True, *, dtype: Any = None) -> Any:
    """The correlations of variables, each a row of observations."""
    found = cov(x, y, rowvar, dtype=dtype)
    if not shape_of(found):
        return ops.divide(found, found)
    spread = ops.sqrt(real(diagonal(found)))
    scaled = ops.divide(ops.divide(found, ops.expand_dims(spread, 1)), spread)
    if dtype_of(scaled).kind != "c":
        return ops.clip(scaled, -1.0, 1.0)
    parts = [ops.clip(part(scaled), -1.0, 1.0) for part in (real, imag)]
    return ops.add(parts[0], ops.multiply(parts[1], 1j))


@implements("interp")
def interp(x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None,
           period: Any = None) -> Any:
    """The piecewise linear function through points, at `x`; it may be periodic."""
    x, xp, fp = as_arrays([x, xp, fp], "numpy.interp")
    for name, v in (("x", x), ("xp", xp)):
        if dtype_of(v).kind == "c":
            raise KernelTypeError(f"numpy.interp: '{name}' has complex numbers "
                                  f"({dtype_of(v)}), which have no order; expected "
                                  "real ones")
    x, xp = (converted(v, np.float64) for v in (x, xp))
    fp = converted(fp, np.complex128 if dtype_of(fp).kind == "c" else np.float64)
    if shape_of(xp) != shape_of(fp) or len(shape_of(xp)) != 1 or not shape_of(xp)[0]:
        raise ShapeError(f"numpy.interp: 'xp' and 'fp' have shapes {shape_of(xp)} and "
                         f"{shape_of(fp)}, expected the same of one dimension, not "
                         "empty")
    if period is not None:
        x, xp, fp = _repeated(x, xp, fp, period)
        left = right = None
    count = shape_of(xp)[0]
    if count == 1:
        found = ops.broadcast_to(fp, shape_of(x) or (1,))
        found = ops.reshape(found, shape_of(x))
    else:
        from ..sorting import searchsorted
        after = searchsorted(xp, x, side="right")
        low = ops.clip(ops.subtract(after, 1), 0, count - 2)
        x0, x1, f0, f1 = (ops.take(v, k, axis=0) for v in (xp, fp)
                          for k in (low, ops.add(low, 1)))
        slope = ops.divide(ops.subtract(f1, f0), ops.subtract(x1, x0))
        found = ops.add(f0, ops.multiply(slope, ops.subtract(x, x0)))
        # Points that are equal at the end, and infinities beside a point that is met.
        endless = ops.logical_not(ops.isfinite(slope))
        for at, f in ((x0, f0), (x1, f1)):
            found = ops.where(ops.logical_and(endless, ops.equal(x, at)), f, found)
    ends = ops.getitem(fp, 0), ops.getitem(fp, -1)
    found = ops.where(ops.less(x, ops.getitem(xp, 0)),
                      ends[0] if left is None else left, found)
    return ops.where(ops.greater(x, ops.getitem(xp, -1)),
                     ends[1] if right is None else right, found)


def _repeated(x: Any, xp: Any, fp: Any, period: Any) -> tuple[Any, Any, Any]:
    """Points of a periodic function in order, with one more at each end."""
    from ..sorting import argsort
    if isinstance(period, (int, float)) and not period:
        raise ValueError("numpy.interp: 'period' is 0, expected another number")
    period = ops.absolute(period) if is_value(period) else abs(period)
    x, xp = (ops.remainder(v, period) for v in (x, xp))
    order = argsort(detached(xp))
    xp, fp = (ops.take(v, order, axis=0) for v in (xp, fp))
    first, last = slice(0, 1), slice(-1, None)
    ends = ops.subtract(ops.getitem(xp, last), period), ops.add(
        ops.getitem(xp, first), period)
    return x, ops.concatenate([ends[0], xp, ends[1]]), ops.concatenate(
        [ops.getitem(fp, last), fp, ops.getitem(fp, first)])
