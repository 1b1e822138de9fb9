"""Norms of vectors and matrices, ranks and condition numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...arrays import dtype_of
from ..base import (
    axes_of,
    axis_of,
    detached,
    floating,
    implements,
    ops,
    permuted,
    shape_of,
    sizes,
)
from .decompositions import lower_half, svdvals
from .linalg import inv

__all__: list[str] = []


@implements("linalg.norm")
def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    """Norms of vectors or of matrices."""
    x = floating(x)
    ndim = len(shape_of(x))
    if axis is None and (ord is None or (ord in ("f", "fro") and ndim == 2)
                         or (ord == 2 and ndim == 1)):
        found = ops.norm(ops.reshape(x, (-1,)))
        return ops.reshape(found, (1,) * ndim) if keepdims else found
    axes = axes_of(axis, ndim)
    if len(axes) == 1:
        return _vector_norm(x, 2 if ord is None else ord, axes[0], keepdims)
    if len(axes) == 2:
        return _matrix_norm(x, "fro" if ord is None else ord, axes, keepdims)
    raise ValueError(f"numpy.linalg.norm: axes {axes}, expected one or two")


def _largest(sizes: Any, axis: Any, keepdims: bool = False) -> Any:
    """The largest of sizes along an axis; 0 of none."""
    some = shape_of(sizes)[axis]
    return (ops.max if some else ops.sum)(sizes, axis=axis, keepdims=keepdims)


def _vector_norm(x: Any, ord: Any, axis: Any, keepdims: bool) -> Any:
    if isinstance(ord, str):
        raise ValueError(f"numpy.linalg.norm: {ord!r} is no norm of vectors")
    size = ops.absolute(x)
    if ord == np.inf:
        return _largest(size, axis, keepdims)
    if ord == -np.inf:
        return ops.min(size, axis=axis, keepdims=keepdims)
    if ord == 0:
        return ops.astype(ops.sum(ops.not_equal(x, 0), axis=axis, keepdims=keepdims),
                          dtype_of(size))
    if ord == 1:
        return ops.sum(size, axis=axis, keepdims=keepdims)
    if ord == 2:
        return ops.norm(x, axis=axis, keepdims=keepdims)
    total = ops.sum(ops.power(size, float(ord)), axis=axis, keepdims=keepdims)
    if ord < 0:
        return ops.power(total, 1.0 / ord)
    zero = ops.equal(total, 0)  # where the root's infinite slope would meet 0
    return ops.where(zero, 0.0, ops.power(ops.where(zero, 1.0, total), 1.0 / ord))


def _matrix_norm(x: Any, ord: Any, axes: tuple[int, ...], keepdims: bool) -> Any:
    ndim = len(shape_of(x))
    x = permuted(x, [*(k for k in range(ndim) if k not in axes), *axes])
    if ord in ("f", "fro"):
        found = ops.sqrt(ops.sum(ops.square(sizes(x)), axis=(-2, -1)))
    elif ord == "nuc":
        found = ops.sum(svdvals(x), axis=-1)
    elif ord in (1, -1, np.inf, -np.inf):
        sums = ops.sum(ops.absolute(x), axis=-2 if abs(ord) == 1 else -1)
        found = _largest(sums, -1) if ord > 0 else ops.min(sums, axis=-1)
    elif ord in (2, -2):
        values = svdvals(x)
        found = ops.getitem(values, (..., 0 if ord == 2 else -1)) \
            if shape_of(values)[-1] else (_largest if ord == 2 else ops.min)(values, -1)
    else:
        raise ValueError(f"numpy.linalg.norm: {ord!r} is no norm of matrices")
    if keepdims:
        for k in sorted(axes):
            found = ops.expand_dims(found, k)
    return found


@implements("linalg.vector_norm")
def vector_norm(x: Any, /, *, axis: Any = None, keepdims: bool = False,
                ord: Any = 2) -> Any:
    """Norms over all axes named, as of one vector."""
    ndim = len(shape_of(x))
    axes = axes_of(axis, ndim)
    x = floating(x)
    free = [k for k in range(ndim) if k not in axes]
    flat = ops.reshape(permuted(x, [*free, *axes]), (
        *(shape_of(x)[k] for k in free),
        int(np.prod([shape_of(x)[k] for k in axes], dtype=int))))
    found = _vector_norm(flat, ord, -1, False)
    return ops.reshape(found, tuple(1 if k in axes else n for k, n in enumerate(
        shape_of(x)))) if keepdims else found


@implements("linalg.matrix_norm")
def matrix_norm(x: Any, /, *, keepdims: bool = False, ord: Any = "fro") -> Any:
    """Norms of matrices."""
    x, ndim = floating(x), len(shape_of(x))
    return _matrix_norm(x, ord, (axis_of(-2, ndim), axis_of(-1, ndim)), keepdims)


@implements("linalg.matrix_rank")
def matrix_rank(A: Any, tol: Any = None, hermitian: bool = False, *,
                rtol: Any = None) -> Any:
    """The number of singular values above a tolerance."""
    if tol is not None and rtol is not None:
        raise ValueError("numpy.linalg.matrix_rank: 'tol' and 'rtol' are given, "
                         "expected one of them")
    if len(shape_of(A)) < 2:
        return ops.astype(ops.any(ops.not_equal(A, 0)), np.int64)
    values = detached(svdvals(lower_half(A, "matrix_rank") if hermitian else A))
    largest = _largest(values, -1, True)
    cut = np.finfo(dtype_of(values)).eps * max(shape_of(A)[-2:])
    if rtol is not None:
        cut = _of_each_matrix(rtol)
    limit = ops.multiply(largest, cut) if tol is None else _of_each_matrix(tol)
    return ops.sum(ops.greater(values, limit), axis=-1)


def _of_each_matrix(tolerance: Any) -> Any:
    """A tolerance, of each matrix or of all, beside singular values."""
    return ops.expand_dims(tolerance, -1) if shape_of(tolerance) else tolerance


@implements("linalg.cond")
def cond(x: Any, p: Any = None) -> Any:
    """The condition numbers of matrices."""
    if p in (None, 2, -2):
        values = svdvals(x)
        ends = ops.getitem(values, (..., 0)), ops.getitem(values, (..., -1))
        return ops.divide(*(ends[::-1] if p == -2 else ends))
    return ops.multiply(norm(x, p, (-2, -1)), norm(inv(x), p, (-2, -1)))
