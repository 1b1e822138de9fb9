"""Decompositions and solvers of the caller's library, with their rules.

The rules are those of M. B. Giles, "An extended collection of matrix derivative
results for forward and reverse mode algorithmic differentiation" (2008), and of S.
F. Walter and L. Lehmann for QR (2010); stacks of matrices throughout.  Real numbers.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...arrays import dtype_of
from ...errors import KernelTypeError, ShapeError
from ..base import (
    axes_of,
    detached,
    floating,
    implements,
    ops,
    permuted,
    shape_of,
)
from ..library import computed, native
from ..shapes import matrix_transpose, tril, triu

__all__: list[str] = []


def _t(x: Any) -> Any:
    return matrix_transpose(x)


def _mm(*factors: Any) -> Any:
    made = factors[0]
    for x in factors[1:]:
        made = ops.matmul(made, x)
    return made


def _scaled(x: Any, numbers: Any) -> Any:
    """Matrices times one number each."""
    return ops.multiply(x, ops.expand_dims(ops.expand_dims(numbers, -1), -1))


def _columns(x: Any, numbers: Any) -> Any:
    """Matrices whose columns are scaled."""
    return ops.multiply(x, ops.expand_dims(numbers, -2))


def _eye(like: Any) -> Any:
    """The identity in the shape of the matrices `like`."""
    return triu(tril(ops.ones_like(detached(like))))



def _half(x: Any) -> Any:
    """The lower triangle with half of the diagonal."""
    lower = tril(x)
    return ops.subtract(lower, ops.multiply(triu(lower), 0.5))


def _floating(a: Any, name: str) -> Any:
    """A stack of matrices of floating numbers."""
    if len(shape_of(a)) < 2:
        raise ShapeError(f"numpy.linalg.{name}: shape {shape_of(a)}, expected two "
                         "dimensions or more")
    return floating(a)


def _square(a: Any, name: str) -> Any:
    a = _floating(a, name)
    if shape_of(a)[-1] != shape_of(a)[-2]:
        raise ShapeError(f"numpy.linalg.{name}: matrices of {shape_of(a)[-2]} rows and "
                         f"{shape_of(a)[-1]} columns, expected square ones")
    return a


_inverse = computed(
    "linalg.inv", lambda x: native("linalg.inv", x)(x),
    lambda g, y, x: (ops.negative(_mm(_t(y[0]), g[0], _t(y[0]))),))


@implements("linalg.inv")
def inv(a: Any) -> Any:
    """The inverses of matrices."""
    return _inverse(_square(a, "inv"))


def _solve_rule(g: Any, y: Any, arguments: Any) -> Any:
    (a, b) = arguments
    back = _solution(_t(a), g[0])
    grad = ops.negative(ops.matmul(back, _t(y[0])))
    return _unbroadcast(grad, shape_of(a)), _unbroadcast(back, shape_of(b))


def _unbroadcast(x: Any, shape: tuple[int, ...]) -> Any:
    """The sum over the axes that a shape was broadcast along."""
    extra = len(shape_of(x)) - len(shape)
    axes = (*range(extra), *(k + extra for k, n in enumerate(shape)
                             if n == 1 and shape_of(x)[k + extra] != 1))
    return ops.reshape(ops.sum(x, axis=axes), shape) if axes else x


_solution = computed("linalg.solve", lambda a, b: native("linalg.solve", a)(a, b),
                     _solve_rule)


@implements("linalg.solve")
def solve(a: Any, b: Any) -> Any:
    """The solutions of systems of linear equations."""
    a, b = _square(a, "solve"), floating(b)
    if len(shape_of(b)) == 1:
        return ops.squeeze(_solution(a, ops.expand_dims(b, -1)), -1)
    return _solution(a, b)


_determinant = computed(
    "linalg.det", lambda x: native("linalg.det", x)(x),
    lambda g, y, x: (_scaled(_t(_inverse(x[0])), ops.multiply(g[0], y[0])),))


@implements("linalg.det")
def det(a: Any) -> Any:
    """The determinants of matrices; the gradient needs them not to be 0."""
    return _determinant(_square(a, "det"))


_signed_log = computed(
    "linalg.slogdet", lambda x: tuple(native("linalg.slogdet", x)(x)),
    lambda g, y, x: (_scaled(_t(_inverse(x[0])), g[1]),))


@implements("linalg.slogdet")
def slogdet(a: Any) -> Any:
    """The signs of determinants, and the logarithms of their magnitudes."""
    sign, log = _signed_log(_square(a, "slogdet"))
    return _named("SlogdetResult", sign=detached(sign), logabsdet=log)


def _named(name: str, **fields: Any) -> Any:
    """A named tuple, as NumPy returns it."""
    from collections import namedtuple
    return namedtuple(name, fields)(**fields)


def _cholesky_rule(g: Any, y: Any, x: Any) -> Any:
    lower = y[0]
    inner = _half(_mm(_t(lower), g[0]))
    left = _solution(_t(lower), inner)
    whole = _t(_solution(_t(lower), _t(left)))
    return (ops.multiply(ops.add(whole, _t(whole)), 0.5),)


_factor = computed("linalg.cholesky", lambda x: native("linalg.cholesky", x)(x),
                   _cholesky_rule)


@implements("linalg.cholesky")
def cholesky(a: Any, /, *, upper: bool = False) -> Any:
    """The lower triangular factors of symmetric positive definite matrices."""
    made = _factor(_square(a, "cholesky"))
    return _t(made) if upper else made


def _qr_rule(g: Any, y: Any, x: Any) -> Any:
    (gq, gr), (q, r) = g, y
    m = ops.subtract(_mm(r, _t(gr)), _mm(_t(gq), q))
    # The strict lower triangle mirrored above: copyltu of the literature.
    lower = tril(m, -1)
    copied = ops.add(ops.add(lower, _t(lower)), triu(tril(m)))
    right = ops.add(gq, _mm(q, copied))
    return (_t(_solution(r, _t(right))),)


_orthogonal = computed("linalg.qr", lambda x: tuple(native("linalg.qr", x)(x)),
                       _qr_rule)


@implements("linalg.qr")
def qr(a: Any, mode: str = "reduced") -> Any:
    """Orthogonal and triangular factors of matrices that are not wider than high."""
    a = _floating(a, "qr")
    if mode == "complete" and shape_of(a)[-2] == shape_of(a)[-1]:
        mode = "reduced"
    if mode not in ("reduced", "r") or shape_of(a)[-2] < shape_of(a)[-1]:
        raise KernelTypeError(
            f"numpy.linalg.qr: mode {mode!r} of matrices of {shape_of(a)[-2]} rows and "
            f"{shape_of(a)[-1]} columns has no rule; expected 'reduced' or 'r' of "
            "matrices not wider than high")
    q, r = _orthogonal(a)
    return r if mode == "r" else _named("QRResult", Q=q, R=r)


def _eigh_rule(g: Any, y: Any, x: Any) -> Any:
    (gw, gv), (w, v) = g, y
    gaps = ops.subtract(ops.expand_dims(w, -2), ops.expand_dims(w, -1))
    unit = _eye(gaps)
    factors = ops.divide(ops.subtract(1.0, unit), ops.add(gaps, unit))
    inner = ops.multiply(factors, _mm(_t(v), gv))
    diagonals = ops.multiply(unit, ops.expand_dims(gw, -1))
    whole = _mm(v, ops.add(inner, diagonals), _t(v))
    return (ops.multiply(ops.add(whole, _t(whole)), 0.5),)


_symmetric = computed("linalg.eigh", lambda x: tuple(native("linalg.eigh", x)(x)),
                      _eigh_rule)


def _one_side(a: Any, UPLO: str) -> Any:
    """The symmetric matrices that a triangle stands for."""
    match UPLO.upper():
        case "L":
            lower = tril(a, -1)
            return ops.add(tril(a), _t(lower))
        case "U":
            upper = triu(a, 1)
            return ops.add(triu(a), _t(upper))
    raise ValueError(f"numpy.linalg.eigh: UPLO is {UPLO!r}, expected 'L' or 'U'")


@implements("linalg.eigh")
def eigh(a: Any, UPLO: str = "L") -> Any:
    """Eigenvalues in order and eigenvectors of symmetric matrices.

    The gradient of the eigenvectors needs eigenvalues that differ.
    """
    w, v = _symmetric(_one_side(_square(a, "eigh"), UPLO))
    return _named("EighResult", eigenvalues=w, eigenvectors=v)


@implements("linalg.eigvalsh")
def eigvalsh(a: Any, UPLO: str = "L") -> Any:
    """Eigenvalues in order of symmetric matrices."""
    return eigh(a, UPLO)[0]


def _svd_rule(g: Any, y: Any, x: Any) -> Any:
    (gu, gs, gvh), (u, s, vh) = g, y
    squares = ops.square(s)
    gaps = ops.subtract(ops.expand_dims(squares, -2), ops.expand_dims(squares, -1))
    unit = _eye(gaps)
    factors = ops.divide(ops.subtract(1.0, unit), ops.add(gaps, unit))
    left = ops.multiply(factors, _antisymmetric(_mm(_t(u), gu)))
    right = ops.multiply(factors, _antisymmetric(_mm(vh, _t(gvh))))
    inner = ops.add(ops.add(_columns(left, s), _t(_columns(_t(right), s))),
                    ops.multiply(unit, ops.expand_dims(gs, -1)))
    whole = _mm(u, inner, vh)
    inverse = ops.divide(1.0, s)
    rows, columns = shape_of(x[0])[-2:]
    if rows > columns:  # what of gu is orthogonal to u
        rest = ops.subtract(gu, _mm(u, _t(u), gu))
        whole = ops.add(whole, _mm(_columns(rest, inverse), vh))
    if columns > rows:
        rest = ops.subtract(gvh, _mm(gvh, _t(vh), vh))
        whole = ops.add(whole, _mm(u, _t(_columns(_t(rest), inverse))))
    return (whole,)


def _antisymmetric(x: Any) -> Any:
    return ops.subtract(x, _t(x))


_singular = computed("linalg.svd", lambda x: tuple(native("linalg.svd", x)(
    x, full_matrices=False)), _svd_rule)


@implements("linalg.svd")
def svd(a: Any, full_matrices: bool = True, compute_uv: bool = True,
        hermitian: bool = False) -> Any:
    """Singular values and vectors; the gradient needs values that differ.

    Raises
    ------
    KernelTypeError
        `full_matrices` of matrices that are not square: the further vectors are not
        determined, and have no gradient.
    """
    a = _floating(a, "svd")
    if hermitian:
        raise KernelTypeError("numpy.linalg.svd: 'hermitian' is not supported on what "
                              "nbfused computes; use numpy.linalg.eigh")
    if compute_uv and full_matrices and shape_of(a)[-1] != shape_of(a)[-2]:
        raise KernelTypeError("numpy.linalg.svd: 'full_matrices' of matrices that are "
                              "not square has no gradient; pass full_matrices=False")
    u, s, vh = _singular(a)
    return _named("SVDResult", U=u, S=s, Vh=vh) if compute_uv else s


@implements("linalg.svdvals")
def svdvals(x: Any, /) -> Any:
    """The singular values of matrices."""
    return svd(x, compute_uv=False)


@implements("linalg.pinv")
def pinv(a: Any, rcond: Any = None, hermitian: bool = False, *,
         rtol: Any = np._NoValue) -> Any:
    """The pseudo-inverses of matrices of full rank.

    Raises
    ------
    KernelTypeError
        A tolerance is given: small singular values are not cut off.
    """
    if rcond is not None or hermitian or rtol is not np._NoValue:
        raise KernelTypeError("numpy.linalg.pinv: 'rcond', 'rtol' and 'hermitian' are "
                              "not supported on what nbfused computes; leave them out")
    a = _floating(a, "pinv")
    return _pseudo_inverse(a)


def _pinv_rule(g: Any, y: Any, x: Any) -> Any:
    (g,), (p,), (a,) = g, y, x
    pt, gt = _t(p), _t(g)
    rows, columns = shape_of(a)[-2:]
    whole = ops.negative(_mm(pt, g, pt))
    if rows > columns or rows == columns:
        rest = ops.subtract(gt, _mm(a, p, gt))
        whole = ops.add(whole, _mm(rest, p, pt))
    if columns >= rows:
        rest = ops.subtract(gt, _mm(gt, p, a))
        whole = ops.add(whole, _mm(pt, p, rest))
    return (whole,)


_pseudo_inverse = computed("linalg.pinv", lambda x: native("linalg.pinv", x)(x),
                           _pinv_rule)


@implements("linalg.lstsq")
def lstsq(a: Any, b: Any, rcond: Any = None) -> Any:
    """The solutions of least squares of systems of full rank.

    Returns
    -------
    solution, residuals, rank, singular values
        As NumPy's; nothing is differentiated through the last two.
    """
    a = _floating(a, "lstsq")
    rows, columns = shape_of(a)
    p = pinv(a)
    x = ops.matmul(p, b)
    values = detached(svdvals(a))
    cut = rcond if rcond is not None else np.finfo(dtype_of(a)).eps * max(rows, columns)
    rank = int(ops.sum(ops.greater(values, ops.multiply(ops.max(values), cut))))
    left = ops.square(ops.subtract(ops.matmul(a, x), b))
    residuals = ops.sum(left, axis=0)
    if len(shape_of(b)) == 1:
        residuals = ops.reshape(residuals, (1,))
    if rank < columns or rows <= columns:
        residuals = ops.getitem(residuals, slice(0, 0))
    return x, residuals, rank, values


@implements("linalg.matrix_power")
def matrix_power(a: Any, n: int) -> Any:
    """Integer powers of matrices, by repeated squaring."""
    a = _square(a, "matrix_power")
    if n < 0:
        a, n = inv(a), -n
    if n == 0:
        return ops.add(ops.multiply(a, 0), _eye(a))
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
