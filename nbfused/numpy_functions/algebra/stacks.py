"""Products of stacks of matrices and vectors, at axes that may be named."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from inspect import Parameter, signature
from typing import Any

import numpy as np

from ...arrays import dtype_of
from ...errors import KernelTypeError, ShapeError
from ..base import axis_of, implements, ops, shape_of
from ..shapes import moveaxis

__all__ = ["conjugated"]


def conjugated(x: Any) -> Any:
    """The complex conjugate; `x` itself where it is real."""
    return np.conjugate(x) if dtype_of(x).kind == "c" else x


def _along(function: Callable[..., Any]) -> Callable[..., Any]:
    """A product with NumPy's `axes`: those of each operand and of the result."""
    ufunc: np.ufunc = getattr(np, function.__name__)

    @wraps(function)
    def call(x1: Any, x2: Any, /, *, axes: Any = None, **options: Any) -> Any:
        if axes is None:
            return function(x1, x2, **options)
        if options:
            raise KernelTypeError(f"numpy.{function.__name__}: 'axes' beside 'axis' or "
                                  "'keepdims'; give one of them")
        first, second, out = _operand_axes(ufunc, axes, (x1, x2))
        made = function(*(moveaxis(x, k, range(-len(k), 0)) for x, k in (
            (x1, first), (x2, second))))
        return moveaxis(made, range(-len(out), 0), out)

    own = signature(function)
    more = Parameter("axes", Parameter.KEYWORD_ONLY, default=None)
    call.__signature__ = own.replace(  # type: ignore[attr-defined]
        parameters=[*own.parameters.values(), more])
    return implements(function.__name__)(call)


def _operand_axes(ufunc: np.ufunc, axes: Any,
                  inputs: Sequence[Any]) -> list[tuple[int, ...]]:
    """The axes of matrices or vectors of each operand and of the result, checked."""
    cores = _cores(ufunc, inputs)
    given = [(k,) if isinstance(k, (int, np.integer)) else tuple(k) for k in axes]
    if len(given) == 2 and not cores[2]:
        given.append(())
    if [len(k) for k in given] != cores:
        raise ShapeError(f"numpy.{ufunc.__name__}: 'axes' is {axes!r}, expected "
                         f"{cores[0]}, {cores[1]} and {cores[2]} axes, of the operands "
                         "and of the result")
    return given


def _cores(ufunc: np.ufunc, inputs: Sequence[Any]) -> list[int]:
    """The numbers of axes that the ufunc's signature gives operands and result.

    Names that end in ``?`` are left out where an operand is a vector.
    """
    assert ufunc.signature is not None
    names = [part.strip("()").split(",") if part != "()" else []
             for part in ufunc.signature.replace("->", ";").replace(
                 "),(", ");(").split(";")]
    missing = {name for part, x in zip(names, inputs, strict=False)
               for name in part if name.endswith("?") and len(shape_of(x)) < len(part)}
    return [len([name for name in part if name not in missing]) for part in names]


@_along
def matmul(x1: Any, x2: Any, /) -> Any:
    """Products of matrices."""
    return ops.matmul(x1, x2)


@implements("linalg.matmul")
def linalg_matmul(x1: Any, x2: Any, /) -> Any:
    """The matrix product."""
    return ops.matmul(x1, x2)


def _sums_of_products(x1: Any, x2: Any, axis: int, keepdims: bool) -> Any:
    first, second = (moveaxis(x, axis_of(axis, len(shape_of(x))), -1)
                     for x in (x1, x2))
    sizes = shape_of(first)[-1], shape_of(second)[-1]
    if sizes[0] != sizes[1]:
        raise ShapeError(f"numpy.vecdot: vectors of {sizes[0]} and {sizes[1]} elements "
                         f"along axis {axis}, expected as many")
    products = ops.multiply(conjugated(first), second)
    found = ops.sum(products, axis=-1, dtype=dtype_of(products))
    return ops.expand_dims(found, axis) if keepdims else found


@implements("linalg.vecdot")
def linalg_vecdot(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    """Sums of products along one axis, the first factors conjugated."""
    return _sums_of_products(x1, x2, axis, False)


@_along
def vecdot(x1: Any, x2: Any, /, *, axis: int = -1, keepdims: bool = False) -> Any:
    """Sums of products along one axis, the first factors conjugated."""
    return _sums_of_products(x1, x2, axis, keepdims)


@_along
def matvec(x1: Any, x2: Any, /) -> Any:
    """Matrices times vectors."""
    if len(shape_of(x1)) < 2:
        raise ShapeError(f"numpy.matvec: 'x1' has shape {shape_of(x1)}, expected "
                         "matrices")
    return ops.squeeze(ops.matmul(x1, ops.expand_dims(x2, -1)), -1)


@_along
def vecmat(x1: Any, x2: Any, /) -> Any:
    """Vectors times matrices, the vectors conjugated."""
    return ops.squeeze(ops.matmul(ops.expand_dims(conjugated(x1), -2), x2), -2)
