"""Decompositions of the caller's library, with their rules.

The rules are those of M. B. Giles, "An extended collection of matrix derivative
results for forward and reverse mode algorithmic differentiation" (2008), and of S.
F. Walter and L. Lehmann for QR (2010); stacks of matrices throughout.  None is
holomorphic: rules are written for gradients that are the steepest direction, with
conjugate transposes; `of_steepest` conjugates cotangents before and gradients after.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...arrays import dtype_of
from ...errors import KernelTypeError
from ..base import detached, implements, ops, shape_of
from ..complex_parts import conj, real
from ..library import computed, is_constant, native, without_gradient
from ..shapes import flip, tril, triu
from ..sorting import argsort
from .linalg import solution
from .matrices import eye, matrices, named, product, square_matrices, transposed

__all__ = ["adjoint", "lower_half", "of_steepest", "svdvals"]


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


def adjoint(x: Any) -> Any:
    """The conjugate transposes of matrices."""
    return transposed(conj(x))


def of_steepest(rule: Callable[..., Any]) -> Callable[..., Any]:
    """A rule for gradients and cotangents that are conjugates of ours."""
    def conjugated(g: Any, y: Any, x: Any) -> Any:
        return tuple(map(conj, rule(tuple(map(conj, g)), y, x)))

    return conjugated


def _cholesky_rule(g: Any, y: Any, x: Any) -> Any:
    lower = y[0]
    inner = _half(product(adjoint(lower), g[0]))
    left = solution(adjoint(lower), inner)
    whole = adjoint(solution(adjoint(lower), adjoint(left)))
    return (ops.multiply(ops.add(whole, adjoint(whole)), 0.5),)


_factor = computed("linalg.cholesky", lambda x: native("linalg.cholesky", x)(x),
                   of_steepest(_cholesky_rule))


@implements("linalg.cholesky")
def cholesky(a: Any, /, *, upper: bool = False) -> Any:
    """The triangular factors of symmetric positive definite matrices.

    They are read from one triangle, the upper one for an upper factor.
    """
    made = _factor(_one_side(square_matrices(a, "cholesky"), "U" if upper else "L"))
    return adjoint(made) if upper else made


def _qr_rule(g: Any, y: Any, x: Any) -> Any:
    (gq, gr), (q, r) = g, y
    m = ops.subtract(product(r, adjoint(gr)), product(adjoint(gq), q))
    # The strict lower triangle mirrored above: copyltu of the literature.
    lower = tril(m, -1)
    copied = ops.add(ops.add(lower, adjoint(lower)), triu(tril(real(m))))
    right = ops.add(gq, product(q, copied))
    return (adjoint(solution(r, adjoint(right))),)


_whole_qr = without_gradient("linalg.qr", lambda x: tuple(native("linalg.qr", x)(
    x, mode="complete")))
_orthogonal = computed("linalg.qr", lambda x: tuple(native("linalg.qr", x)(x)),
                       of_steepest(_qr_rule))


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
    if mode == "complete" and is_constant(a):
        return named("QRResult", **dict(zip("QR", _whole_qr(a), strict=True)))
    if mode not in ("reduced", "r"):
        raise KernelTypeError(
            f"numpy.linalg.qr: mode {mode!r} of matrices of {rows} rows and {columns} "
            "columns has no rule for a gradient; expected 'reduced' or 'r'")
    q, r = _orthogonal(ops.getitem(a, (..., slice(0, rows))) if rows < columns else a)
    if rows < columns:  # the rest of the columns in the basis of the first ones
        rest = ops.getitem(a, (..., slice(rows, None)))
        r = ops.concatenate([r, product(adjoint(q), rest)], axis=-1)
    return r if mode == "r" else named("QRResult", Q=q, R=r)


def _eigh_rule(g: Any, y: Any, x: Any) -> Any:
    (gw, gv), (w, v) = g, y
    gaps = ops.subtract(ops.expand_dims(w, -2), ops.expand_dims(w, -1))
    unit = eye(gaps)
    factors = ops.divide(ops.subtract(1.0, unit), ops.add(gaps, unit))
    inner = ops.multiply(factors, product(adjoint(v), gv))
    diagonals = ops.multiply(unit, ops.expand_dims(gw, -1))
    whole = product(v, ops.add(inner, diagonals), adjoint(v))
    return (ops.multiply(ops.add(whole, adjoint(whole)), 0.5),)


_symmetric = computed("linalg.eigh", lambda x: tuple(native("linalg.eigh", x)(x)),
                      of_steepest(_eigh_rule))


def _one_side(a: Any, UPLO: str) -> Any:
    """The Hermitian matrices that a triangle stands for; their diagonals are real."""
    side = UPLO.upper()
    if side not in ("L", "U"):
        raise ValueError(f"numpy.linalg.eigh: UPLO is {UPLO!r}, expected 'L' or 'U'")
    half = _half(a if side == "L" else adjoint(a))
    return ops.add(half, adjoint(half))


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
    turned = product(adjoint(v), gv)
    lengths = ops.sum(ops.multiply(unit, real(turned)), axis=-2)
    moved = ops.subtract(turned, product(adjoint(v), _columns(v, lengths)))
    inner = ops.add(ops.multiply(factors, moved),
                    ops.multiply(unit, ops.expand_dims(gw, -1)))
    return (solution(adjoint(v), product(inner, adjoint(v))),)


_general = computed("linalg.eig", lambda x: tuple(
    part * (1 + 0j) for part in native("linalg.eig", x)(x)), of_steepest(_eig_rule))


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
    turns = _antisymmetric(product(adjoint(u), gu))
    left = ops.multiply(factors, turns)
    right = ops.multiply(factors, _antisymmetric(product(vh, adjoint(gvh))))
    inverse = ops.divide(1.0, s)
    inner = ops.add(ops.add(_columns(left, s), _rows(right, s)),
                    ops.multiply(unit, ops.expand_dims(gs, -1)))
    if dtype_of(u).kind == "c":  # the phases of the vectors, which turn together
        inner = ops.add(inner, ops.multiply(unit, _columns(turns, ops.multiply(
            inverse, 0.5))))
    whole = product(u, inner, vh)
    rows, columns = shape_of(x[0])[-2:]
    if rows > columns:  # what of gu is orthogonal to u
        rest = ops.subtract(gu, product(u, adjoint(u), gu))
        whole = ops.add(whole, product(_columns(rest, inverse), vh))
    if columns > rows:
        rest = ops.subtract(gvh, product(gvh, adjoint(vh), vh))
        whole = ops.add(whole, product(u, _rows(rest, inverse)))
    return (whole,)


def _antisymmetric(x: Any) -> Any:
    return ops.subtract(x, adjoint(x))


_whole_svd = without_gradient("linalg.svd", lambda x: tuple(native("linalg.svd", x)(
    x, full_matrices=True)))
_singular = computed("linalg.svd", lambda x: tuple(native("linalg.svd", x)(
    x, full_matrices=False)), of_steepest(_svd_rule))


@implements("linalg.svd")
def svd(a: Any, full_matrices: bool = True, compute_uv: bool = True,
        hermitian: bool = False) -> Any:
    """Singular values and vectors; the gradient needs values that differ.

    Raises
    ------
    KernelTypeError
        `full_matrices` of matrices that are not square and differentiated: the further
        vectors are not determined, and have no gradient.
    """
    if hermitian:
        return _of_hermitian(a, compute_uv)
    a = matrices(a, "svd")
    if compute_uv and full_matrices and shape_of(a)[-1] != shape_of(a)[-2]:
        if is_constant(a):
            u, s, vh = _whole_svd(a)
            return named("SVDResult", U=u, S=s, Vh=vh)
        raise KernelTypeError("numpy.linalg.svd: 'full_matrices' of matrices that are "
                              "not square has no gradient; pass full_matrices=False")
    u, s, vh = _singular(a)
    return named("SVDResult", U=u, S=s, Vh=vh) if compute_uv else s


def _of_hermitian(a: Any, compute_uv: bool) -> Any:
    """Singular values and vectors by the eigenvalues, which may be equal but for signs.

    Read from the lower triangle, as NumPy's are.
    """
    w, v = eigh(a)
    sizes = ops.absolute(w)
    order = flip(argsort(detached(sizes), -1), -1)
    s = ops.take_along_axis(sizes, order, axis=-1)
    if not compute_uv:
        return s
    signs = ops.take_along_axis(ops.sign(detached(w)), order, axis=-1)
    places = ops.broadcast_to(ops.expand_dims(order, -2), shape_of(v))
    u = ops.take_along_axis(v, places, axis=-1)
    return named("SVDResult", U=u, S=s, Vh=adjoint(_columns(u, signs)))


def lower_half(a: Any, name: str) -> Any:
    """The Hermitian matrices that their lower triangles stand for."""
    return _one_side(square_matrices(a, name), "L")


@implements("linalg.svdvals")
def svdvals(x: Any, /) -> Any:
    """The singular values of matrices."""
    return svd(x, compute_uv=False)
