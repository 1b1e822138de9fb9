"""Vector norms over axes."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..autograd.nodes import is_floating
from ..errors import KernelTypeError
from ..op import AnyArray, Reduction, op, reduction
from ..op.base import check_operand, is_complex, strong_dtype
from ..scalar.language import names as nb
from ..specs.shapes import Axes
from .reductions import reduction_cases

__all__ = ["norm"]


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


@op(_norm, *reduction_cases(domain=(0.2, 3.0)), *reduction_cases(ord=1)[:2],
    *reduction_cases(ord=float("inf"))[:2])
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
