"""Pseudo-inverses and least squares, with rules for matrices of one rank."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ...arrays import dtype_of, to_numpy
from ...arrays.traced import Traced
from ...autograd import Variable
from ...errors import KernelTypeError
from ...support.records import record
from ..base import (
    check_values,
    detached,
    floating,
    implements,
    ops,
    shape_of,
    sizes,
)
from ..library import computed, native
from .decompositions import adjoint, lower_half, of_steepest, svdvals
from .matrices import matrices, product

__all__: list[str] = []


@implements("linalg.pinv")
def pinv(a: Any, rcond: Any = None, hermitian: bool = False, *,
         rtol: Any = np._NoValue) -> Any:
    """The pseudo-inverses of matrices.

    Without a tolerance the gradient is that of matrices of full rank.  With one, it is
    that among matrices of the rank which is left, and an error where a singular value
    that is cut off is more than rounding.

    Raises
    ------
    KernelTypeError
        A tolerance that is not a number.
    """
    if rtol is not np._NoValue and rcond is not None:
        raise ValueError("numpy.linalg.pinv: 'rcond' and 'rtol' are given, expected "
                         "one of them")
    a = lower_half(a, "pinv") if hermitian else matrices(a, "pinv")
    tolerance = rcond if rtol is np._NoValue else rtol
    if tolerance is None and rtol is None:
        tolerance = max(shape_of(a)[-2:]) * np.finfo(dtype_of(a)).eps
    if tolerance is None:
        return _pseudo_inverse(a)
    if type(tolerance) is bool or not isinstance(tolerance, (int, float, np.number)):
        raise KernelTypeError(
            "numpy.linalg.pinv: the tolerance is of type "
            f"{type(tolerance).__name__}, expected one number for all matrices")
    return _of_lower_rank(a, tolerance=float(tolerance))


def _pinv_rule(g: Any, y: Any, x: Any, full: bool = True) -> Any:
    (g,), (p,), (a,) = g, y, x
    ph, gh = adjoint(p), adjoint(g)
    rows, columns = shape_of(a)[-2:]
    whole = ops.negative(product(ph, g, ph))
    if rows >= columns or not full:
        rest = ops.subtract(gh, product(a, p, gh))
        whole = ops.add(whole, product(rest, p, ph))
    if columns >= rows or not full:
        rest = ops.subtract(gh, product(gh, p, a))
        whole = ops.add(whole, product(ph, p, rest))
    return (whole,)


def _lower_rank_rule(g: Any, y: Any, x: Any, tolerance: float) -> Any:
    check_values(svdvals(detached(x[0])), _CutCheck(tolerance))
    found: Any = of_steepest(partial(_pinv_rule, full=False))(g, y, x)
    return found


@record(frozen=True)
class _CutCheck:
    """A check of singular values of which the smaller ones are cut off.

    Attributes
    ----------
    tolerance
        What is cut off, beside the largest one.
    """

    tolerance: float

    def __call__(self, values: Any) -> None:
        """Raise `LinAlgError` if one that is cut off is more than rounding."""
        found = values.to_numpy() if isinstance(values, Variable) else to_numpy(values)
        largest = found.max(axis=-1, keepdims=True, initial=0.0)
        rounding = 100 * max(found.shape[-1], 1) * np.finfo(found.dtype).eps
        cut = (found <= self.tolerance * largest) & (found > rounding * largest)
        if cut.any():
            raise np.linalg.LinAlgError(
                f"numpy.linalg.pinv: the tolerance {self.tolerance:g} cuts off the "
                f"singular value {found[cut][0]:g}, expected only ones that are 0 to "
                "rounding for a gradient; compute it from numpy.linalg.svd")


_pseudo_inverse = computed("linalg.pinv", lambda x: native("linalg.pinv", x)(x),
                           of_steepest(_pinv_rule))
_of_lower_rank = computed("linalg.pinv", lambda x, tolerance: native(
    "linalg.pinv", x)(x, tolerance), _lower_rank_rule)


@implements("linalg.lstsq")
def lstsq(a: Any, b: Any, rcond: Any = None) -> Any:
    """The solutions of least squares of systems of full rank.

    Returns
    -------
    solution, residuals, rank, singular values
        As NumPy's.  While a function is traced, or runs on samples, the rank is an
        array.

    Raises
    ------
    LinAlgError
        The rank is not full in a call that was traced: the shape of the residuals would
        depend on it.
    """
    a, b = matrices(a, "lstsq"), floating(b)
    rows, columns = shape_of(a)
    p = pinv(a)
    x = ops.matmul(p, b)
    values = svdvals(a)
    sizable = detached(values)
    cut = rcond if rcond is not None else np.finfo(dtype_of(a)).eps * max(rows, columns)
    rank = ops.sum(ops.greater(sizable, ops.multiply(ops.max(sizable), cut)))
    full = min(rows, columns)
    if isinstance(rank, Traced):
        rank.record_check(_RankCheck(full))
    else:
        full = rank = int(rank)
    left = ops.square(sizes(ops.subtract(ops.matmul(a, x), b)))
    residuals = ops.sum(left, axis=0)
    if len(shape_of(b)) == 1:
        residuals = ops.reshape(residuals, (1,))
    if full < columns or rows <= columns:
        residuals = ops.getitem(residuals, slice(0, 0))
    return x, residuals, rank, values


@record(frozen=True)
class _RankCheck:
    """A check of ranks that were not known when the shapes of results were.

    Attributes
    ----------
    full
        What they are expected to be.
    """

    full: int

    def __call__(self, ranks: Any) -> None:
        """Raise `LinAlgError` if one is less."""
        found = int(np.min(to_numpy(ranks), initial=self.full))
        if found < self.full:
            raise np.linalg.LinAlgError(
                f"numpy.linalg.lstsq: a matrix has rank {found} in a call that was "
                f"traced, expected {self.full}; call it outside of nf.fuse and nf.vmap")
