"""Reductions over axes, with NumPy's keywords, accumulators and errors.

All take ``axis`` (an integer, a tuple, None for all), ``keepdims``, ``dtype`` (of the
elements before they are combined) and ``out``, and those that are NumPy's its other
keywords: ``where``, ``initial``, ``correction``.  16-bit floats are accumulated in
float32 and rounded once; sums and products of small integers are int64, as in NumPy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..op import AnyArray, Case, elementwise, func, op, reduction
from ..op.base import (
    check_inexact,
    check_operand,
    check_spread_dtype,
    is_complex,
    real_number,
    strong_dtype,
)
from ..op.keywords import as_numpy
from ..scalar.language import names as nb
from ..specs.shapes import Axes
from .arithmetic import add
from .math import sqrt
from .shapes import astype

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

__all__ = [
    "all", "any", "argmax", "argmin", "logsumexp", "max", "mean", "min", "prod", "std",
    "sum", "var",
]


def reduction_cases(dtypes: str = "f", domain: tuple[float, float] = (-3.0, 3.0),
                    smooth: bool = True, **kwargs: Any) -> tuple[Case, ...]:
    """Cases of a reduction: shapes, axes."""
    shapes: tuple[tuple[tuple[int, ...], dict[str, Any]], ...] = (
        ((7,), {}), ((5, 33), {"axis": 1}), ((33, 5), {"axis": 0}),
        ((3, 4, 5), {"axis": (0, 2), "keepdims": True}), ((1,), {}))
    return tuple(Case((s,), {**k, **kwargs}, (domain,), dtypes, smooth)
                 for s, k in shapes)


@op(np.sum, *reduction_cases("biufc"))
@reduction(combine="sum")
def sum(x):
    """The sum of elements; 0 for none.

    Floats are summed in parallel parts, so that errors grow less than in one loop.

    Parameters
    ----------
    x : array
        Any shape.
    axis : int, tuple of int, optional
        Default: all axes.
    keepdims : bool
        Keep the reduced axes with extent 1.
    dtype : dtype, optional
        Of the elements before they are added, and so of the accumulator.
    out : array, optional
        Where to store.
    where : bool array, optional
        Elements that take part.
    initial : number, optional
        What the sum begins with.

    Returns
    -------
    array

    Raises
    ------
    numpy.exceptions.AxisError
        `axis` is out of range.
    ShapeError
        An axis is repeated.

    Examples
    --------
    >>> import numpy as np
    >>> sum(np.ones((2, 3)), axis=1)
    array([3., 3.])
    >>> x = np.array([1.0, -2.0, 4.0])
    >>> float(sum(x, where=x > 0, initial=10.0))
    15.0
    """
    return x


@op(np.prod, *reduction_cases("iuf", (0.5, 1.5)))
@reduction(combine="prod", identity=1)
def prod(x):
    """The product of elements; 1 for none.  Parameters and errors as for `sum`.

    Derivatives up to the third are right wherever factors are zero; those of order
    four and more only where fewer than four are.
    """
    return x


@reduction(combine="sum", post=lambda total, size: total / size)
def _mean(x):
    return x


_mean.parameters.name = "mean"  # for messages
#: Integers that NumPy's accumulator is not wider than.
_LONG = {np.dtype("int64"), np.dtype("uint64")}


@op(np.mean, *reduction_cases("iuf"))
def mean(x: AnyArray, axis: Axes = None, keepdims: bool = False, *,
         dtype: DTypeLike | None = None, out: AnyArray | None = None,
         **keywords: Any) -> AnyArray:
    """The mean of elements; float64 for integers, NaN for none.  Else as for `sum`."""
    if keywords:
        return as_numpy("mean", x, axis=axis, keepdims=keepdims, dtype=dtype, out=out,
                        **keywords)
    check_operand(x, "mean", "x")
    check_inexact("mean", dtype)
    if dtype is None and strong_dtype(x) in _LONG:
        dtype = "float64"  # their sum would wrap around
    return _mean(x, axis=axis, keepdims=keepdims, dtype=dtype, out=out)


@op(np.max, *reduction_cases("biuf"))
@reduction(combine="max")
def max(x):
    """The largest element; NaN if any is.  Ties share the derivative equally.

    Parameters and errors as for `sum`; `ShapeError` of nothing too.
    """
    return x


@op(np.min, *reduction_cases("biuf"))
@reduction(combine="min")
def min(x):
    """The smallest element; NaN if any is.  Ties share the derivative equally.

    Parameters and errors as for `sum`; `ShapeError` of nothing too.
    """
    return x


_ARG = (Case(((7,),), {}, dtypes="iuf", smooth=False),
        Case(((5, 33),), {"axis": 1}, dtypes="iuf", smooth=False),
        Case(((33, 5),), {"axis": 0, "keepdims": True}, dtypes="iuf", smooth=False))


@op(np.argmax, *_ARG)
@reduction(combine="argmax")
def argmax(x):
    """The index of the first largest element, or of the first NaN, as int64.

    Without ``axis`` it counts in C order.  Parameters and errors as for `sum`;
    `ShapeError` of nothing too.
    """
    return x


@op(np.argmin, *_ARG)
@reduction(combine="argmin")
def argmin(x):
    """The index of the first smallest element, or of the first NaN, as int64.

    Without ``axis`` it counts in C order.  Parameters and errors as for `sum`;
    `ShapeError` of nothing too.
    """
    return x


@op(np.all, *reduction_cases("biuf", smooth=False))
@reduction(combine="all")
def all(x):
    """Whether all elements are nonzero, as bool; NaN is nonzero.  True for none.

    Parameters and errors as for `sum`.
    """
    return x


@op(np.any, *reduction_cases("biuf", smooth=False))
@reduction(combine="any")
def any(x):
    """Whether any element is nonzero, as bool; NaN is nonzero.  False for none.

    Parameters and errors as for `sum`.
    """
    return x


def _logsumexp(x, axis=None, keepdims=False):
    top = np.max(x, axis=axis, keepdims=True)
    total = np.sum(np.exp(x - top), axis=axis, keepdims=True)
    result = np.log(total) + top
    return result if keepdims else np.squeeze(result, axis)


@op(_logsumexp, *reduction_cases("f", (-20.0, 20.0)))
@reduction(combine="logsumexp")
def logsumexp(x):
    """``log(sum(exp(x)))`` without overflow; -inf for no elements.

    inf beside inf, NaN beside NaN; its derivative is `softmax`.  Parameters and errors
    as for `sum`.
    """
    return x


@func
def _divided(mean, variance, size, ddof):
    # NaN where the mean is infinite, as NumPy has it: the order of merging decides
    # whether an infinite element has made the squares inf or NaN.
    return (variance + (mean - mean)) * size / nb.relu(size - ddof)


@reduction(combine="welford", post=lambda mean, variance, size, ddof:
           _divided(mean, variance, size, ddof))
def _var(x, ddof):
    return x


@reduction(combine="welford", post=lambda mean, variance, size, ddof:
           nb.sqrt(_divided(mean, variance, size, ddof)))
def _std(x, ddof):
    return x


@elementwise
def _parts(x):
    return np.real(x), np.imag(x)


def _prepare(name: str, x: AnyArray, ddof: float, dtype: DTypeLike | None,
             ) -> tuple[AnyArray, float]:
    """`x` in the requested dtype, and the checked `ddof`."""
    check_operand(x, name, "x")
    check_spread_dtype(name, x, dtype)
    if dtype is not None:  # the numbers that are part of the state follow that of `x`
        x = astype(x, dtype)
    return x, real_number(ddof, name, "ddof")


@op(np.var, *reduction_cases(), *reduction_cases(ddof=1)[:2])
def var(x: AnyArray, axis: Axes = None, keepdims: bool = False, *, ddof: float = 0,
        dtype: DTypeLike | None = None, out: AnyArray | None = None,
        **keywords: Any) -> AnyArray:
    """The variance, in one pass by Welford's algorithm.

    Parameters
    ----------
    x : array
        Any shape.
    axis, keepdims, dtype, out
        As in `numpy.var`.
    ddof : number
        The divisor is ``size - ddof``, or 0 where that is less: inf then, and NaN
        where all elements are equal.
    **keywords
        `where`, `mean` and `correction`, as in `numpy.var`.

    Returns
    -------
    array
        float64 for integers; of complex numbers real, the mean square of distances from
        their mean; of the dtype that was asked for, a complex one too.

    Notes
    -----
    Source: Welford 1962, Technometrics 4(3); merged as in Chan, Golub, LeVeque 1979.

    Examples
    --------
    >>> import numpy as np
    >>> float(var(np.array([1.0, 2.0, 3.0]), ddof=1))
    1.0
    """
    if keywords:
        return as_numpy("var", x, axis=axis, keepdims=keepdims, ddof=ddof, dtype=dtype,
                        out=out, **keywords)
    x, ddof = _prepare("var", x, ddof, dtype)
    if is_complex(x):
        found = add(*(_var(part, ddof, axis=axis, keepdims=keepdims)
                      for part in _parts(x)), out=out)
        return found if dtype is None or out is not None else astype(found, dtype)
    return _var(x, ddof, axis=axis, keepdims=keepdims, dtype=dtype, out=out)


@op(np.std, *reduction_cases(), *reduction_cases(ddof=1)[:2])
def std(x: AnyArray, axis: Axes = None, keepdims: bool = False, *, ddof: float = 0,
        dtype: DTypeLike | None = None, out: AnyArray | None = None,
        **keywords: Any) -> AnyArray:
    """The standard deviation: the square root of `var`, with its arguments.

    Its derivative is 0 where all elements are equal.
    """
    if keywords:
        return as_numpy("std", x, axis=axis, keepdims=keepdims, ddof=ddof, dtype=dtype,
                        out=out, **keywords)
    x, ddof = _prepare("std", x, ddof, dtype)
    if is_complex(x):
        found = sqrt(var(x, axis, keepdims, ddof=ddof), out=out)
        return found if dtype is None or out is not None else astype(found, dtype)
    return _std(x, ddof, axis=axis, keepdims=keepdims, dtype=dtype, out=out)
