"""Decompositions of the caller's library, with their rules.

The rules are those of M. B. Giles, "An extended collection of matrix derivative
results for forward and reverse mode algorithmic differentiation" (2008), and of S.
F. Walter and L. Lehmann for QR (2010); stacks of matrices throughout.  None is
holomorphic: rules are written for gradients that are the steepest direction, with
conjugate transposes; `_hermitian` conjugates cotangents before and gradients after.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ...arrays import dtype_of, to_numpy
from ...arrays.traced import Traced
from ...autograd import Variable
from ...errors import KernelTypeError
from ...support.records import record
from ..base import detached, implements, ops, shape_of, sizes
from ..elementwise import conj, real
from ..library import computed, native
from ..shapes import tril, triu
from .linalg import solution
from .matrices import eye, matrices, named, product, square_matrices, transposed

__all__ = ["pinv", "svdvals"]


def _columns(x: Any, numbers: Any) -> Any:
    """Matrices whose columns are scaled."""
    return ops.multiply(x, ops.expand_dims(numbers, -2))


def _rows(x: Any, numbers: Any) -> Any:
    """Matrices whose rows are scaled."""
    return ops.multiply(x, ops.expand_dims(numbers, -1))


def _half(x: Any) -> Any:
    """The lower triangle with half of the diagonal."""
    lower = tril(x)
    return ops.subtract(lower, ops.multiply(triu(lower), 0.5))


def _adjoint(x: Any) -> Any:
    """The conjugate transposes of matrices."""
    return transposed(conj(x))


def _hermitian(rule: Callable[..., Any]) -> Callable[..., Any]:
    """A rule for gradients and cotangents that are conjugates of ours."""
    def conjugated(g: Any, y: Any, x: Any) -> Any:
        return tuple(map(conj, rule(tuple(map(conj, g)), y, x)))

    return conjugated


def _cholesky_rule(g: Any, y: Any, x: Any) -> Any:
    lower = y[0]
    inner = _half(product(_adjoint(lower), g[0]))
    left = solution(_adjoint(lower), inner)
    whole = _adjoint(solution(_adjoint(lower), _adjoint(left)))
    return (ops.multiply(ops.add(whole, _adjoint(whole)), 0.5),)


_factor = computed("linalg.cholesky", lambda x: native("linalg.cholesky", x)(x),
                   _hermitian(_cholesky_rule))


@implements("linalg.cholesky")
def cholesky(a: Any, /, *, upper: bool = False) -> Any:
    """The lower triangular factors of symmetric positive definite matrices."""
    made = _factor(square_matrices(a, "cholesky"))
    return _adjoint(made) if upper else made


def _qr_rule(g: Any, y: Any, x: Any) -> Any:
    (gq, gr), (q, r) = g, y
    m = ops.subtract(product(r, _adjoint(gr)), product(_adjoint(gq), q))
    # The strict lower triangle mirrored above: copyltu of the literature.
    lower = tril(m, -1)
    copied = ops.add(ops.add(lower, _adjoint(lower)), triu(tril(real(m))))
    right = ops.add(gq, product(q, copied))
    return (_adjoint(solution(r, _adjoint(right))),)


_orthogonal = computed("linalg.qr", lambda x: tuple(native("linalg.qr", x)(x)),
                       _hermitian(_qr_rule))


@implements("linalg.qr")
def qr(a: Any, mode: str = "reduced") -> Any:
    """Orthogonal and triangular factors of matrices.

    The gradient needs columns that are independent; those of a matrix that is wider
    than high, its first ones.
    """
    a = matrices(a, "qr")
    rows, columns = shape_of(a)[-2:]
    if mode == "complete" and rows <= columns:
        mode = "reduced"
    if mode not in ("reduced", "r"):
        raise KernelTypeError(
            f"numpy.linalg.qr: mode {mode!r} of matrices of {rows} rows and {columns} "
            "columns has no rule; expected 'reduced' or 'r'")
    q, r = _orthogonal(ops.getitem(a, (..., slice(0, rows))) if rows < columns else a)
    if rows < columns:  # the rest of the columns in the basis of the first ones
        rest = ops.getitem(a, (..., slice(rows, None)))
        r = ops.concatenate([r, product(_adjoint(q), rest)], axis=-1)
    return r if mode == "r" else named("QRResult", Q=q, R=r)


def _eigh_rule(g: Any, y: Any, x: Any) -> Any:
    (gw, gv), (w, v) = g, y
    gaps = ops.subtract(ops.expand_dims(w, -2), ops.expand_dims(w, -1))
    unit = eye(gaps)
    factors = ops.divide(ops.subtract(1.0, unit), ops.add(gaps, unit))
    inner = ops.multiply(factors, product(_adjoint(v), gv))
    diagonals = ops.multiply(unit, ops.expand_dims(gw, -1))
    whole = product(v, ops.add(inner, diagonals), _adjoint(v))
    return (ops.multiply(ops.add(whole, _adjoint(whole)), 0.5),)


_symmetric = computed("linalg.eigh", lambda x: tuple(native("linalg.eigh", x)(x)),
                      _hermitian(_eigh_rule))


def _one_side(a: Any, UPLO: str) -> Any:
    """The symmetric matrices that a triangle stands for."""
    match UPLO.upper():
        case "L":
            lower = tril(a, -1)
            return ops.add(tril(a), _adjoint(lower))
        case "U":
            upper = triu(a, 1)
            return ops.add(triu(a), _adjoint(upper))
    raise ValueError(f"numpy.linalg.eigh: UPLO is {UPLO!r}, expected 'L' or 'U'")


@implements("linalg.eigh")
def eigh(a: Any, UPLO: str = "L") -> Any:
    """Eigenvalues in order and eigenvectors of symmetric matrices.

    The gradient of the eigenvectors needs eigenvalues that differ.
    """
    w, v = _symmetric(_one_side(square_matrices(a, "eigh"), UPLO))
    return named("EighResult", eigenvalues=w, eigenvectors=v)


@implements("linalg.eigvalsh")
def eigvalsh(a: Any, UPLO: str = "L") -> Any:
    """Eigenvalues in order of symmetric matrices."""
    return eigh(a, UPLO)[0]


def _eig_rule(g: Any, y: Any, x: Any) -> Any:
    """Eigenvectors are of length 1; their phases are taken not to matter."""
    (gw, gv), (w, v) = g, y
    gaps = conj(ops.subtract(ops.expand_dims(w, -2), ops.expand_dims(w, -1)))
    unit = eye(gaps)
    factors = ops.divide(ops.subtract(1.0, unit), ops.add(gaps, unit))
    turned = product(_adjoint(v), gv)
    lengths = ops.sum(ops.multiply(unit, real(turned)), axis=-2)
    moved = ops.subtract(turned, product(_adjoint(v), _columns(v, lengths)))
    inner = ops.add(ops.multiply(factors, moved),
                    ops.multiply(unit, ops.expand_dims(gw, -1)))
    return (solution(_adjoint(v), product(inner, _adjoint(v))),)


_general = computed("linalg.eig", lambda x: tuple(
    part * (1 + 0j) for part in native("linalg.eig", x)(x)), _hermitian(_eig_rule))


@implements("linalg.eig")
def eig(a: Any) -> Any:
    """Eigenvalues and eigenvectors of square matrices.

    Complex also where NumPy gives real numbers because all eigenvalues are: no dtype
    depends on elements.  The gradient needs eigenvalues that differ.
    """
    w, v = _general(square_matrices(a, "eig"))
    return named("EigResult", eigenvalues=w, eigenvectors=v)


@implements("linalg.eigvals")
def eigvals(a: Any) -> Any:
    """Eigenvalues of square matrices, complex as those of `eig`."""
    return eig(a)[0]


def _svd_rule(g: Any, y: Any, x: Any) -> Any:
    (gu, gs, gvh), (u, s, vh) = g, y
    squares = ops.square(s)
    gaps = ops.subtract(ops.expand_dims(squares, -2), ops.expand_dims(squares, -1))
    unit = eye(gaps)
    factors = ops.divide(ops.subtract(1.0, unit), ops.add(gaps, unit))
    turns = _antisymmetric(product(_adjoint(u), gu))
    left = ops.multiply(factors, turns)
    right = ops.multiply(factors, _antisymmetric(product(vh, _adjoint(gvh))))
    inverse = ops.divide(1.0, s)
    inner = ops.add(ops.add(_columns(left, s), _rows(right, s)),
                    ops.multiply(unit, ops.expand_dims(gs, -1)))
    if dtype_of(u).kind == "c":  # the phases of the vectors, which turn together
        inner = ops.add(inner, ops.multiply(unit, _columns(turns, ops.multiply(
            inverse, 0.5))))
    whole = product(u, inner, vh)
    rows, columns = shape_of(x[0])[-2:]
    if rows > columns:  # what of gu is orthogonal to u
        rest = ops.subtract(gu, product(u, _adjoint(u), gu))
        whole = ops.add(whole, product(_columns(rest, inverse), vh))
    if columns > rows:
        rest = ops.subtract(gvh, product(gvh, _adjoint(vh), vh))
        whole = ops.add(whole, product(u, _rows(rest, inverse)))
    return (whole,)


def _antisymmetric(x: Any) -> Any:
    return ops.subtract(x, _adjoint(x))


_singular = computed("linalg.svd", lambda x: tuple(native("linalg.svd", x)(
    x, full_matrices=False)), _hermitian(_svd_rule))


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
    a = matrices(a, "svd")
    if hermitian:
        raise KernelTypeError("numpy.linalg.svd: 'hermitian' is not supported on what "
                              "nbfused computes; use numpy.linalg.eigh")
    if compute_uv and full_matrices and shape_of(a)[-1] != shape_of(a)[-2]:
        raise KernelTypeError("numpy.linalg.svd: 'full_matrices' of matrices that are "
                              "not square has no gradient; pass full_matrices=False")
    u, s, vh = _singular(a)
    return named("SVDResult", U=u, S=s, Vh=vh) if compute_uv else s


@implements("linalg.svdvals")
def svdvals(x: Any, /) -> Any:
    """The singular values of matrices."""
    return svd(x, compute_uv=False)


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
        `hermitian` is given, or a tolerance that is not a number.
    """
    if hermitian:
        raise KernelTypeError("numpy.linalg.pinv: 'hermitian' is not supported on what "
                              "nbfused computes; leave it out")
    if rtol is not np._NoValue and rcond is not None:
        raise ValueError("numpy.linalg.pinv: 'rcond' and 'rtol' are given, expected "
                         "one of them")
    a = matrices(a, "pinv")
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
    ph, gh = _adjoint(p), _adjoint(g)
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
    check, values = _CutCheck(tolerance), svdvals(detached(x[0]))
    if isinstance(values, Traced):
        values.record_check(check)
    else:
        check(values)
    found: Any = _hermitian(partial(_pinv_rule, full=False))(g, y, x)
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
                           _hermitian(_pinv_rule))
_of_lower_rank = computed("linalg.pinv", lambda x, tolerance: native(
    "linalg.pinv", x)(x, tolerance), _lower_rank_rule)


@implements("linalg.lstsq")
def lstsq(a: Any, b: Any, rcond: Any = None) -> Any:
    """The solutions of least squares of systems of full rank.

    Returns
    -------
    solution, residuals, rank, singular values
        As NumPy's; nothing is differentiated through the last two.  While a function is
        traced, or runs on samples, the rank is an array.

    Raises
    ------
    LinAlgError
        The rank is not full in a call that was traced: the shape of the residuals would
        depend on it.
    """
    a = matrices(a, "lstsq")
    rows, columns = shape_of(a)
    p = pinv(a)
    x = ops.matmul(p, b)
    values = detached(svdvals(a))
    cut = rcond if rcond is not None else np.finfo(dtype_of(a)).eps * max(rows, columns)
    rank = ops.sum(ops.greater(values, ops.multiply(ops.max(values), cut)))
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
