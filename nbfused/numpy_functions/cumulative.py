"""Running sums and products, differences, gradients by differences."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..arrays import dtype_of
from ..arrays.dtypes import warn_of_lost_part
from ..errors import KernelTypeError, ShapeError
from .base import (
    as_arrays,
    axes_of,
    axis_of,
    converted,
    floating,
    implements,
    index_array,
    is_value,
    lined,
    ops,
    shape_of,
    stored,
)
from .indexing import host_of
from .joining import pad
from .library import computed, is_constant, native
from .shapes import flip

__all__: list[str] = []


def _running(name: str) -> Any:
    def forward(x: Any, axis: int) -> Any:
        return native(name, x)(x, axis)

    return forward


def _sum_rule(cotangents: Any, results: Any, arrays: Any, axis: int) -> Any:
    return (_from_the_end(cotangents[0], axis),)


_cumsum = computed("cumsum", _running("cumsum"), _sum_rule)


def _from_the_end(x: Any, axis: int) -> Any:
    """Running sums that begin at the end of an axis."""
    return flip(_cumsum(flip(x, axis), axis=axis), axis)


def _product_rule(cotangents: Any, results: Any, arrays: Any, axis: int) -> Any:
    """The gradient of running products, zeros among the factors included.

    Before the first zero it is that of nonzero factors; at it, that of the products
    without it; behind it, nothing.
    """
    (g,), (y,), (x,) = cotangents, results, arrays
    zero = ops.equal(x, 0)
    seen = _cumsum(ops.astype(zero.detach(), "int64"), axis=axis)
    first = ops.logical_and(zero, ops.equal(seen, 1))
    before = ops.equal(seen, 0)
    safe = ops.where(zero, 1, x)
    usual = ops.divide(_from_the_end(ops.multiply(g, y), axis), safe)
    without = _cumprod(ops.where(first, 1, x), axis=axis)
    behind = ops.where(before, 0, ops.multiply(g, without))
    at = _from_the_end(behind, axis)
    return (ops.where(before, usual, ops.where(first, at, 0)),)


_cumprod = computed("cumprod", _running("cumprod"), _product_rule)


def _along(name: str, a: Any, axis: Any, dtype: Any, of: Any, out: Any) -> Any:
    a, axis = lined(a, axis)
    kind = dtype_of(a) if dtype is None else np.dtype(dtype)
    if dtype is None and kind.kind in "biu" and kind.itemsize < 8:
        kind = np.dtype("uint64" if kind.kind == "u" else "int64")
    warn_of_lost_part(name, dtype_of(a), kind)
    made = of(converted(a, kind), axis=axis - len(shape_of(a)))
    return stored(converted(made, kind), out)


@implements("cumsum")
def cumsum(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
    """Running sums along an axis."""
    return _along("cumsum", a, axis, dtype, _cumsum, out)


@implements("cumprod")
def cumprod(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
    """Running products along an axis."""
    return _along("cumprod", a, axis, dtype, _cumprod, out)


@implements("cumulative_sum")
def cumulative_sum(x: Any, /, *, axis: Any = None, dtype: Any = None,
                   out: Any = None, include_initial: bool = False) -> Any:
    """Running sums along an axis, from 0 on request."""
    return _cumulative("cumulative_sum", cumsum, 0, x, axis, dtype, out,
                       include_initial)


@implements("cumulative_prod")
def cumulative_prod(x: Any, /, *, axis: Any = None, dtype: Any = None,
                    out: Any = None, include_initial: bool = False) -> Any:
    """Running products along an axis, from 1 on request."""
    return _cumulative("cumulative_prod", cumprod, 1, x, axis, dtype, out,
                       include_initial)


def _cumulative(name: str, of: Any, initial: int, x: Any, axis: Any, dtype: Any,
                out: Any, include_initial: bool) -> Any:
    if axis is None and len(shape_of(x)) > 1:
        raise ValueError(f"numpy.{name}: 'axis' must be given for an array of "
                         f"{len(shape_of(x))} dimensions")
    x, axis = lined(x, axis)
    if not include_initial:
        return of(x, axis, dtype, out)
    made = of(x, axis, dtype)
    widths = [(int(k == axis), 0) for k in range(len(shape_of(x)))]
    return stored(pad(made, widths, constant_values=initial), out)


@implements("nancumsum")
def nancumsum(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
    """Running sums in which NaN counts as 0."""
    return cumsum(ops.where(ops.isnan(a), 0, a), axis, dtype, out)


@implements("nancumprod")
def nancumprod(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
    """Running products in which NaN counts as 1."""
    return cumprod(ops.where(ops.isnan(a), 1, a), axis, dtype, out)


def _slab(x: Any, axis: int, where: Any) -> Any:
    """A slice along one axis."""
    return ops.getitem(x, (*(slice(None),) * axis, where))


@implements("diff")
def diff(a: Any, n: int = 1, axis: int = -1, prepend: Any = np._NoValue,
         append: Any = np._NoValue) -> Any:
    """Differences of neighbours along an axis, `n` times."""
    if n < 0:
        raise ValueError(f"numpy.diff: 'n' is {n}, expected 0 or more")
    if not n:
        return a
    axis = axis_of(axis, len(shape_of(a)))
    # NumPy makes arrays of numbers first, whose dtypes then count.
    parts = [np.asarray(x)[()] if isinstance(x, (bool, int, float, complex)) else x
             for x in (prepend, a, append) if x is not np._NoValue]
    if len(parts) > 1:
        shape = tuple(1 if k == axis else m for k, m in enumerate(shape_of(a)))
        found = as_arrays(parts, "numpy.diff")
        a = ops.concatenate([ops.broadcast_to(x, shape) if not shape_of(x) else x
                             for x in found], axis=axis)
    minus = ops.not_equal if dtype_of(a).kind == "b" else ops.subtract
    for _ in range(n):
        a = minus(_slab(a, axis, slice(1, None)), _slab(a, axis, slice(0, -1)))
    return a


@implements("ediff1d")
def ediff1d(ary: Any, to_end: Any = None, to_begin: Any = None) -> Any:
    """Differences of neighbours of the flattened array."""
    made = diff(ops.reshape(ary, (-1,)))
    parts = [x for x in (to_begin, made, to_end) if x is not None]
    return made if len(parts) == 1 else ops.concatenate(
        [ops.reshape(x, (-1,)) for x in as_arrays(parts, "numpy.ediff1d")])


@implements("gradient")
def gradient(f: Any, *varargs: Any, axis: Any = None, edge_order: int = 1) -> Any:
    """Derivatives along axes by differences, of second order inside."""
    ndim = len(shape_of(f))
    axes = axes_of(axis, ndim)
    spacings = varargs or (1.0,)
    if len(spacings) == 1:
        spacings = tuple(spacings) * len(axes)
    if len(spacings) != len(axes):
        raise KernelTypeError(f"numpy.gradient: {len(varargs)} spacings for "
                              f"{len(axes)} axes; expected one for each, or one")
    if edge_order not in (1, 2):
        raise ValueError(f"numpy.gradient: 'edge_order' is {edge_order}, expected 1 or "
                         "2")
    f = floating(f)
    made = [_derivative(f, k, h, edge_order) for k, h in zip(axes, spacings,
                                                             strict=True)]
    return made[0] if len(made) == 1 else tuple(made)


def _derivative(f: Any, axis: int, spacing: Any, edge_order: int) -> Any:
    count = shape_of(f)[axis]
    if count < edge_order + 1:
        raise ShapeError(f"numpy.gradient: axis {axis} has extent {count}, expected "
                         f"{edge_order + 1} or more")
    steps = _steps(spacing, count, axis, len(shape_of(f)))

    def at(low: int, high: int | None) -> Any:
        return _slab(f, axis, slice(low, high))

    def last(k: int) -> Any:
        return at(count - k, count - k + 1)

    if steps is None:
        inside = ops.divide(ops.subtract(at(2, None), at(0, -2)), 2.0 * spacing)
        one = two = (spacing, spacing)
    else:
        low, high = steps[:-1], steps[1:]
        shape = tuple(-1 if k == axis else 1 for k in range(len(shape_of(f))))
        a, b, c = (w.reshape(shape) for w in (
            -high / (low * (low + high)), (high - low) / (low * high),
            low / (high * (low + high))))
        inside = ops.add(ops.add(_times(at(0, -2), a), _times(at(1, -1), b)),
                         _times(at(2, None), c))
        one, two = tuple(steps[:2]), tuple(steps[:-3:-1])
    first = _edge(at(0, 1), at(1, 2), at(2, 3) if edge_order > 1 else None, one, 1)
    end = _edge(last(1), last(2), last(3) if edge_order > 1 else None, two, -1)
    return ops.concatenate([first, inside, end], axis=axis)


def _times(x: Any, weights: np.ndarray) -> Any:
    return ops.multiply(x, index_array(weights.astype(dtype_of(x)), x))


def _steps(spacing: Any, count: int, axis: int, ndim: int) -> np.ndarray | None:
    """Distances of neighbours; None where all are one number."""
    if not np.ndim(spacing) if not is_value(spacing) else not shape_of(spacing):
        return None
    if is_value(spacing):
        if not is_constant(spacing):
            raise KernelTypeError(
                f"numpy.gradient: the points of axis {axis} require grad, expected "
                "constants; pass x.detach()")
        spacing = host_of(spacing, "gradient")
    points = np.asarray(spacing, np.float64)
    if points.shape != (count,):
        raise ShapeError(f"numpy.gradient: the spacing of axis {axis} has shape "
                         f"{points.shape}, expected ({count},) or one number")
    found = np.diff(points)
    return found


def _edge(x: Any, y: Any, z: Any, steps: tuple[Any, ...], sign: int) -> Any:
    """The derivative at an end from the elements there, nearest first."""
    one = float(steps[0])
    if z is None:
        return ops.divide(ops.subtract(y, x), sign * one)
    two = float(steps[1])
    weights = (-(2 * one + two) / (one * (one + two)), (one + two) / (one * two),
               -one / (two * (one + two)))
    parts = [ops.multiply(v, sign * w) for v, w in zip((x, y, z), weights, strict=True)]
    return ops.add(ops.add(parts[0], parts[1]), parts[2])


@implements("trapezoid")
def trapezoid(y: Any, x: Any = None, dx: float = 1.0, axis: int = -1) -> Any:
    """The integral along an axis by trapezoids."""
    axis = axis_of(axis, len(shape_of(y)))
    if x is not None:
        (x,) = as_arrays([y, x], "numpy.trapezoid")[1:]
        steps = diff(x, axis=0 if len(shape_of(x)) == 1 else axis)
        if len(shape_of(x)) == 1:
            steps = ops.reshape(steps, tuple(
                -1 if k == axis else 1 for k in range(len(shape_of(y)))))
    else:
        steps = dx
    pairs = ops.add(_slab(y, axis, slice(1, None)), _slab(y, axis, slice(0, -1)))
    return ops.sum(ops.multiply(ops.multiply(pairs, steps), 0.5), axis=axis)
