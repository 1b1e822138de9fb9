"""Comparisons, logic, selection."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..autograd.numpy_api.integers import fit
from ..errors import KernelTypeError
from ..op import AnyArray, Case, Operand, elementwise, op
from ..op.base import check_integers, check_operand, strong_dtype
from ..scalar.language import names as nb
from ..scalar.typing.promotion import Weak, promoted_dtype
from .arithmetic import positive

__all__ = [
    "clip", "equal", "greater", "greater_equal", "isfinite", "isinf", "isnan", "less",
    "less_equal", "logical_and", "logical_not", "logical_or", "maximum", "minimum",
    "not_equal", "where",
]

ANY = Case(dtypes="biuf", smooth=False)


@op(np.equal, ANY)
@elementwise
def equal(x, y):
    """Whether ``x == y``, as bool; NaN equals nothing."""
    return x == y


@op(np.not_equal, ANY)
@elementwise
def not_equal(x, y):
    """Whether ``x != y``, as bool; NaN differs from everything."""
    return x != y


@op(np.less, ANY)
@elementwise
def less(x, y):
    """Whether ``x < y``, as bool; False beside NaN."""
    return np.less(x, y)


@op(np.less_equal, ANY)
@elementwise
def less_equal(x, y):
    """Whether ``x <= y``, as bool; False beside NaN."""
    return np.less_equal(x, y)


@op(np.greater, ANY)
@elementwise
def greater(x, y):
    """Whether ``x > y``, as bool; False beside NaN."""
    return np.greater(x, y)


@op(np.greater_equal, ANY)
@elementwise
def greater_equal(x, y):
    """Whether ``x >= y``, as bool; False beside NaN."""
    return np.greater_equal(x, y)


@op(np.logical_and, ANY)
@elementwise
def logical_and(x, y):
    """Whether both `x` and `y` are nonzero, as bool; NaN is nonzero."""
    return np.logical_and(x, y)


@op(np.logical_or, ANY)
@elementwise
def logical_or(x, y):
    """Whether `x` or `y` is nonzero, as bool; NaN is nonzero."""
    return np.logical_or(x, y)


for _comparison in (equal, not_equal, less, less_equal, greater, greater_equal,
                    logical_and, logical_or):
    _comparison.parameters.compares = True


@op(np.logical_not, ANY)
@elementwise
def logical_not(x):
    """Whether `x` is zero, as bool; NaN is nonzero."""
    return np.logical_not(x)


@op(np.isnan, Case(smooth=False))
@elementwise
def isnan(x):
    """Whether `x` is NaN, as bool."""
    return nb.isnan(x)


@op(np.isinf, Case(smooth=False))
@elementwise
def isinf(x):
    """Whether `x` is inf or -inf, as bool."""
    return nb.isinf(x)


@op(np.isfinite, Case(smooth=False))
@elementwise
def isfinite(x):
    """Whether `x` is neither NaN nor infinite, as bool."""
    return nb.isfinite(x)


@op(np.maximum, Case(domains=((-3.0, 3.0),), dtypes="biuf"))
@elementwise
def maximum(x, y):
    """The larger of `x` and `y`; NaN if either is.  Ties halve the derivative."""
    return np.maximum(x, y)


@op(np.minimum, Case(domains=((-3.0, 3.0),), dtypes="biuf"))
@elementwise
def minimum(x, y):
    """The smaller of `x` and `y`; NaN if either is.  Ties halve the derivative."""
    return np.minimum(x, y)


@op(lambda condition, x, y: np.where(condition != 0, x, y),
    Case(domains=((-2, 2, int), (-3.0, 3.0)), dtypes="iuf"))
@elementwise
def where(condition, x, y):
    """Select `x` where `condition` is nonzero, else `y`.

    Both are computed; the derivative goes to the one that was taken.

    Parameters
    ----------
    condition : array
        Of any dtype; NaN is nonzero.
    x, y : array or number
        Broadcast to a common shape, promoted to a common dtype.

    Returns
    -------
    array

    Examples
    --------
    >>> import numpy as np
    >>> where(np.array([True, False]), 1.0, np.zeros(2))
    array([1., 0.])
    """
    return x if condition else y


@elementwise
def clip_both(x, low, high):
    """``min(max(x, low), high)``."""
    return np.minimum(np.maximum(x, low), high)


clip_both.parameters.name = "clip"  # for messages


@op(lambda x, low, high: np.minimum(np.maximum(x, low), high),
    Case(domains=((-3.0, 3.0), (-2.0, -1.0), (1.0, 2.0)), dtypes="iuf"),
    scalar=clip_both)
def clip(x: Operand, low: Operand | None = None, high: Operand | None = None,
         **options: Any) -> AnyArray:
    """Limit `x` to `low` … `high`; NaN stays NaN.

    `high` where ``low > high``, as in NumPy.  Derivative 1 inside, 0 outside, one half
    at a bound.

    Parameters
    ----------
    x : array or number
        Any shape.
    low, high : array or number, optional
        Bounds; None leaves a side open, as does a Python integer that the dtype of `x`
        does not reach.
    **options
        ``out``, ``dtype``, ``where`` and ``casting``, as of any elementwise op; NumPy's
        names of the bounds, ``a_min`` and ``a_max``, ``min`` and ``max``.

    Returns
    -------
    array

    Examples
    --------
    >>> import numpy as np
    >>> clip(np.array([-2.0, 0.5, 2.0]), -1.0, 1.0)
    array([-1. ,  0.5,  1. ])
    >>> clip(np.array([-2.0, 0.5, 2.0]), None, 1.0)
    array([-2. ,  0.5,  1. ])
    """
    check_operand(x, "clip", "x")
    if options:
        low = _bound(low, "low", options, ("a_min", "min"))
        high = _bound(high, "high", options, ("a_max", "max"))
    if type(low) is int or type(high) is int:
        given = [x, *(bound for bound in (low, high) if bound is not None)]
        if not fit(given, [k for k, v in enumerate(given) if k and type(v) is int]):
            low, high = _within(x, low, high)
    if low is not None and high is not None:
        if type(low) in _NUMBERS:
            low = low if type(high) in _NUMBERS else _like_array(low, high, x)
        elif type(high) in _NUMBERS:
            high = _like_array(high, low, x)
        return clip_both(x, low, high, **options)
    if low is not None:
        return maximum(x, low, **options)
    return positive(x, **options) if high is None else minimum(x, high, **options)


#: Types of bounds that have no dtype.
_NUMBERS = (int, float)


def _bound(given: Operand | None, name: str, options: dict[str, Any],
           others: tuple[str, ...]) -> Operand | None:
    """A bound, which is taken out of `options` where it has one of NumPy's names."""
    for other in others:
        bound = options.pop(other, None)
        if bound is not None and given is not None:
            raise KernelTypeError(f"clip: {other!r} and {name!r} were both given; they "
                                  "mean the same, leave one out")
        given = given if bound is None else bound
    return given


def _like_array(bound: Operand, other: Operand, x: Operand) -> Operand:
    """A Python number beside a bound with a dtype, in that of all three operands.

    NumPy promotes these at once: ``clip(bools, 0, int8(3))`` is int8, where the maximum
    of `x` and 0 by itself is int64.
    """
    own, others = strong_dtype(x), strong_dtype(other)
    if own is None or others is None:
        return bound
    number = Weak(type(bound).__name__)
    common = promoted_dtype(own, others, number)
    return bound if promoted_dtype(own, number) == common else common.type(bound)


def _within(x: Operand, low: Operand | None, high: Operand | None) -> tuple[Any, Any]:
    """The bounds, dropped where they lie beyond the integers of `x`'s dtype."""
    dtype = strong_dtype(x)
    if dtype is not None and dtype.kind in "iu":
        held = np.iinfo(dtype)
        low = None if type(low) is int and low < held.min else low
        high = None if type(high) is int and high > held.max else high
    for bound, name in ((low, "low"), (high, "high")):
        if type(bound) is int:
            check_integers((x, bound), "clip", ("x", name))
    return low, high
