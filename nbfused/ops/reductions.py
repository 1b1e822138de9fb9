"""Reductions over axes, with NumPy's keywords, accumulators and errors.

All take ``axis`` (an integer, a tuple, None for all), ``keepdims``, ``dtype`` (of the
elements before they are combined) and ``out``.  16-bit floats are accumulated in
float32 and rounded once; sums and products of small integers are int64, as in NumPy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..autograd.nodes import is_floating
from ..errors import KernelTypeError
from ..op import AnyArray, Case, Reduction, elementwise, func, op, reduction
from ..op.base import (
    check_inexact,
    check_operand,
    check_spread_dtype,
    is_complex,
    real_number,
    strong_dtype,
)
from ..scalar.language import names as nb
from ..specs.shapes import Axes
from .arithmetic import add
from .math import sqrt
from .shapes import astype

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

__all__ = [
    "all", "any", "argmax", "argmin", "logsumexp", "max", "mean", "min", "norm", "prod",
    "std", "sum", "var",
]


def _cases(dtypes: str = "f", domain: tuple[float, float] = (-3.0, 3.0),
           smooth: bool = True, **kwargs: Any) -> tuple[Case, ...]:
    shapes: tuple[tuple[tuple[int, ...], dict[str, Any]], ...] = (
        ((7,), {}), ((5, 33), {"axis": 1}), ((33, 5), {"axis": 0}),
        ((3, 4, 5), {"axis": (0, 2), "keepdims": True}), ((1,), {}))
    return tuple(Case((s,), {**k, **kwargs}, (domain,), dtypes, smooth)
                 for s, k in shapes)


@op(np.sum, *_cases("biufc"))
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
    """
    return x


@op(np.prod, *_cases("iuf", (0.5, 1.5)))
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


@op(np.mean, *_cases("iuf"))
def mean(x: AnyArray, axis: Axes = None, keepdims: bool = False, *,
         dtype: DTypeLike | None = None, out: AnyArray | None = None) -> AnyArray:
    """The mean of elements; float64 for integers, NaN for none.  Else as for `sum`."""
    check_operand(x, "mean", "x")
    check_inexact("mean", dtype)
    if dtype is None and strong_dtype(x) in _LONG:
        dtype = "float64"  # their sum would wrap around
    return _mean(x, axis=axis, keepdims=keepdims, dtype=dtype, out=out)


@op(np.max, *_cases("biuf"))
@reduction(combine="max")
def max(x):
    """The largest element; NaN if any is.  Ties share the derivative equally.

    Parameters and errors as for `sum`; `ShapeError` of nothing too.
    """
    return x


@op(np.min, *_cases("biuf"))
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


@op(np.all, *_cases("biuf", smooth=False))
@reduction(combine="all")
def all(x):
    """Whether all elements are nonzero, as bool; NaN is nonzero.  True for none.

    Parameters and errors as for `sum`.
    """
    return x


@op(np.any, *_cases("biuf", smooth=False))
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


@op(_logsumexp, *_cases("f", (-20.0, 20.0)))
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


@op(np.var, *_cases(), *_cases(ddof=1)[:2])
def var(x: AnyArray, axis: Axes = None, keepdims: bool = False, *, ddof: float = 0,
        dtype: DTypeLike | None = None, out: AnyArray | None = None) -> AnyArray:
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

    Returns
    -------
    array
        float64 for integers; of complex numbers real, the mean square of distances from
        their mean.

    Notes
    -----
    Source: Welford 1962, Technometrics 4(3); merged as in Chan, Golub, LeVeque 1979.

    Examples
    --------
    >>> import numpy as np
    >>> float(var(np.array([1.0, 2.0, 3.0]), ddof=1))
    1.0
    """
    x, ddof = _prepare("var", x, ddof, dtype)
    if is_complex(x):
        return add(*(_var(part, ddof, axis=axis, keepdims=keepdims)
                     for part in _parts(x)), out=out)
    return _var(x, ddof, axis=axis, keepdims=keepdims, dtype=dtype, out=out)


@op(np.std, *_cases(), *_cases(ddof=1)[:2])
def std(x: AnyArray, axis: Axes = None, keepdims: bool = False, *, ddof: float = 0,
        dtype: DTypeLike | None = None, out: AnyArray | None = None) -> AnyArray:
    """The standard deviation: the square root of `var`, with its arguments.

    Its derivative is 0 where all elements are equal.
    """
    x, ddof = _prepare("std", x, ddof, dtype)
    if is_complex(x):
        return sqrt(var(x, axis, keepdims, ddof=ddof), out=out)
    return _std(x, ddof, axis=axis, keepdims=keepdims, dtype=dtype, out=out)


@reduction(combine="sum", post=nb.sqrt)
def _norm_2(x):
    return x * x


@reduction(combine="sum", post=nb.sqrt)
def _norm_2_complex(x):
    return np.real(x) * np.real(x) + np.imag(x) * np.imag(x)


@reduction(combine="sum")
def _norm_1(x):
    return abs(x)


@reduction(combine="max")
def _norm_inf(x):
    return abs(x)


@reduction(combine="sum", post=nb.sqrt)
def _norm_2_float(x):
    return (x * 1.0) * (x * 1.0)


@reduction(combine="sum")
def _norm_1_float(x):
    return abs(x * 1.0)


@reduction(combine="max")
def _norm_inf_float(x):
    return abs(x * 1.0)


_NORMS: dict[Any, Reduction] = {1: _norm_1, 2: _norm_2, float("inf"): _norm_inf}
#: For integers and bools, which would wrap around: in float64, as NumPy has it.
_FLOAT_NORMS: dict[Any, Reduction] = {
    1: _norm_1_float, 2: _norm_2_float, float("inf"): _norm_inf_float}
_COMPLEX_NORMS: dict[Any, Reduction] = {**_NORMS, 2: _norm_2_complex}


#: What `norm` runs, by order, type and dtype.
_chosen: dict[tuple[Any, ...], Reduction] = {}

for _inner in (*_NORMS.values(), *_FLOAT_NORMS.values(), _norm_2_complex):
    _inner.parameters.name = "norm"  # for messages


def _norm(x, ord=2, axis=None, keepdims=False):
    if axis is None and not keepdims:
        x = np.ravel(x)
    if isinstance(axis, tuple):
        return np.sqrt(np.sum(np.abs(x) ** 2, axis=axis, keepdims=keepdims))
    return np.linalg.norm(x, ord, axis=axis, keepdims=keepdims)


@op(_norm, *_cases(domain=(0.2, 3.0)), *_cases(ord=1)[:2],
    *_cases(ord=float("inf"))[:2])
def norm(x: AnyArray, ord: float = 2, axis: Axes = None, keepdims: bool = False, *,
         out: AnyArray | None = None) -> AnyArray:
    """The vector norm of order 1, 2 or inf over any axes.

    Parameters
    ----------
    x : array
        Any shape.
    ord : {1, 2, inf}
        The sum, the root of the sum of squares, or the largest of absolute values.
    axis, keepdims, out
        As in `numpy.linalg.norm`; several axes are taken as one vector.

    Returns
    -------
    array

    Raises
    ------
    KernelTypeError
        Another `ord`.

    Notes
    -----
    Squares are added as they are, and may overflow.  The derivative at the zero vector
    is 0.

    Examples
    --------
    >>> import numpy as np
    >>> float(norm(np.array([3.0, -4.0])))
    5.0
    """
    chosen = None
    if type(ord) is int or type(ord) is float:
        chosen = _chosen.get((ord, type(x), getattr(x, "dtype", None)))
    if chosen is None:
        chosen = _norm_of(x, ord)
        _chosen[ord, type(x), getattr(x, "dtype", None)] = chosen
    return chosen(x, axis=axis, keepdims=keepdims, out=out)


def _norm_of(x: AnyArray, ord: float) -> Reduction:
    """The norm function of this order, for the dtype of the array."""
    check_operand(x, "norm", "x")
    if not isinstance(ord, (int, float)) or ord not in _NORMS:
        raise KernelTypeError(f"norm: 'ord' must be 1, 2 or inf, got {ord!r}")
    dtype = strong_dtype(x)
    norms = _COMPLEX_NORMS if is_complex(x) else \
        _NORMS if dtype is None or is_floating(dtype) else _FLOAT_NORMS
    return norms[ord]
