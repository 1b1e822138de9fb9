"""Solvers, determinants and least squares of the caller's library, with their rules.

The rules are those of M. B. Giles, "An extended collection of matrix derivative
results for forward and reverse mode algorithmic differentiation" (2008); stacks of
matrices throughout.  Holomorphic results have the same rules on complex numbers.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...arrays import dtype_of
from ..base import (
    axes_of,
    detached,
    floating,
    implements,
    ops,
    permuted,
    shape_of,
)
from ..complex_parts import imag
from ..library import computed, native
from .matrices import eye, named, product, square_matrices, transposed

__all__ = ["inv", "solution"]


def _scaled(x: Any, numbers: Any) -> Any:
    """Matrices times one number each."""
    return ops.multiply(x, ops.expand_dims(ops.expand_dims(numbers, -1), -1))


_inverse = computed(
    "linalg.inv", lambda x: native("linalg.inv", x)(x),
    lambda g, y, x: (ops.negative(product(transposed(y[0]), g[0], transposed(y[0]))),))


@implements("linalg.inv")
def inv(a: Any) -> Any:
    """The inverses of matrices."""
    return _inverse(square_matrices(a, "inv"))


def _solve_rule(g: Any, y: Any, arguments: Any) -> Any:
    (a, b) = arguments
    back = solution(transposed(a), g[0])
    grad = ops.negative(ops.matmul(back, transposed(y[0])))
    return _unbroadcast(grad, shape_of(a)), _unbroadcast(back, shape_of(b))


def _unbroadcast(x: Any, shape: tuple[int, ...]) -> Any:
    """The sum over the axes that a shape was broadcast along."""
    extra = len(shape_of(x)) - len(shape)
    axes = (*range(extra), *(k + extra for k, n in enumerate(shape)
                             if n == 1 and shape_of(x)[k + extra] != 1))
    return ops.reshape(ops.sum(x, axis=axes), shape) if axes else x


solution = computed("linalg.solve", lambda a, b: native("linalg.solve", a)(a, b),
                     _solve_rule)


@implements("linalg.solve")
def solve(a: Any, b: Any) -> Any:
    """The solutions of systems of linear equations."""
    a, b = square_matrices(a, "solve"), floating(b)
    if len(shape_of(b)) == 1:
        return ops.squeeze(solution(a, ops.expand_dims(b, -1)), -1)
    return solution(a, b)


_determinant = computed(
    "linalg.det", lambda x: native("linalg.det", x)(x),
    lambda g, y, x: (_scaled(transposed(_inverse(x[0])), ops.multiply(g[0], y[0])),))


@implements("linalg.det")
def det(a: Any) -> Any:
    """The determinants of matrices; the gradient needs them not to be 0."""
    return _determinant(square_matrices(a, "det"))


def _slogdet_rule(g: Any, y: Any, x: Any) -> Any:
    """The sign of complex determinants turns with the imaginary part of the log."""
    change = g[1]
    if dtype_of(x[0]).kind == "c":
        turn = imag(ops.multiply(g[0], y[0]))
        change = ops.add(change, ops.multiply(turn, 1j))
    return (_scaled(transposed(_inverse(x[0])), change),)


_signed_log = computed(
    "linalg.slogdet", lambda x: tuple(native("linalg.slogdet", x)(x)), _slogdet_rule)


@implements("linalg.slogdet")
def slogdet(a: Any) -> Any:
    """The signs of determinants, and the logarithms of their magnitudes."""
    sign, log = _signed_log(square_matrices(a, "slogdet"))
    return named("SlogdetResult", sign=sign if dtype_of(sign).kind == "c" else
                  detached(sign), logabsdet=log)


@implements("linalg.matrix_power")
def matrix_power(a: Any, n: int) -> Any:
    """Integer powers of matrices, by repeated squaring."""
    square_matrices(a, "matrix_power")
    if n < 0:
        a, n = inv(a), -n
    if n == 0:
        return eye(a)
    found = None
    while n:
        if n % 2:
            found = a if found is None else ops.matmul(found, a)
        n //= 2
        a = ops.matmul(a, a) if n else a
    return found


@implements("linalg.tensorinv")
def tensorinv(a: Any, ind: int = 2) -> Any:
    """The inverse of a map of arrays to arrays of some shape."""
    shape = shape_of(a)
    rows = int(np.prod(shape[:ind], dtype=int))
    return ops.reshape(inv(ops.reshape(a, (rows, -1))), shape[ind:] + shape[:ind])


@implements("linalg.tensorsolve")
def tensorsolve(a: Any, b: Any, axes: Any = None) -> Any:
    """The array that a map of arrays sends to `b`."""
    ndim = len(shape_of(a))
    if axes is not None:
        last = axes_of(axes, ndim)
        a = permuted(a, [*(k for k in range(ndim) if k not in last), *last])
    rest = shape_of(a)[len(shape_of(b)):]
    size = int(np.prod(rest, dtype=int))
    made = solve(ops.reshape(a, (size, size)), ops.reshape(b, (-1,)))
    return ops.reshape(made, rest)
