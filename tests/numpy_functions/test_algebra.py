"""Products, decompositions, polynomials."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nbfused as nf
from nbfused.errors import NbFusedError, ShapeError

from .agreement import check, normal

pytestmark = pytest.mark.interpreted

linalg = np.linalg
SQUARE = normal(3, 3) + 3 * np.eye(3)
SYMMETRIC = normal(4, 4, seed=3) @ normal(4, 4, seed=3).T + 4 * np.eye(4)
#: Of both signs; only the lower triangle is read.
MIXED = normal(4, 4, seed=5)
#: Whose triangles are of two positive definite matrices.
ONE_SIDED = SYMMETRIC + np.triu(normal(4, 4, seed=6), 1) / 4
TALL, WIDE = normal(5, 3), normal(3, 4)
STACK = normal(2, 3, 3) + 3 * np.eye(3)

EINSUMS = {
    "ij,jk->ik": ((3, 4), (4, 5)), "ij,jk": ((3, 4), (4, 5)), "ii->i": ((3, 3),),
    "ii": ((3, 3),), "ij->ji": ((3, 4),), "ij->": ((3, 4),), "ij->j": ((3, 4),),
    "i,i->": ((3,), (3,)), "i,i->i": ((3,), (3,)), "i,j->ij": ((3,), (4,)),
    "bij,bjk->bik": ((2, 3, 4), (2, 4, 5)),
    "...ij,...jk->...ik": ((2, 1, 3, 4), (5, 4, 2)),
    "ij,jk,kl->il": ((2, 3), (3, 4), (4, 5)),
    "ijk,ikl,jm->lm": ((2, 3, 4), (2, 4, 5), (3, 6)),
    "i...,i...->...": ((3, 4), (3, 4)), "ij,kj->k": ((2, 3), (4, 3)),
    "abc,cd,ef->abdef": ((2, 3, 4), (4, 2), (2, 2)), "ab,b->ba": ((2, 3), (3,)),
    "...,...": ((2, 3), (3,)), "iij,j->i": ((3, 3, 2), (2,)),
    "ab,cd->": ((2, 3), (2, 2)), "ij,ij->": ((2, 3), (2, 3)),
    "ij,ik->jk": ((3, 1), (3, 4)), "i,i,i->i": ((3,), (3,), (3,)),
}

CASES: dict[str, tuple[Any, ...]] = {
    **{f"einsum {text}": (lambda *x, text=text: np.einsum(text, *x), *(
        normal(*s, seed=k) for k, s in enumerate(shapes)))
       for text, shapes in EINSUMS.items()},
    "einsum by numbers": (lambda x, y: np.einsum(x, [0, 1], y, [1, 2], [2, 0]),
                          normal(2, 3), WIDE),
    "tensordot": (np.tensordot, normal(2, 3, 4), normal(3, 4, 5)),
    "tensordot 0": (lambda x, y: np.tensordot(x, y, 0), normal(2), WIDE),
    "tensordot axes": (lambda x, y: np.tensordot(x, y, ([0, 2], [1, 0])),
                       normal(2, 3, 4), normal(4, 2, 5)),
    "dot": (np.dot, TALL, WIDE), "dot vectors": (np.dot, normal(3), normal(3, seed=1)),
    "dot of three": (np.dot, normal(2, 3), normal(5, 3, 4)),
    "inner": (np.inner, normal(2, 3), normal(4, 3)),
    "vdot": (np.vdot, SQUARE, STACK[0]),
    "outer": (np.outer, normal(2, 2), normal(3)), "kron": (np.kron, TALL, WIDE),
    "kron of vector": (np.kron, normal(3), WIDE),
    "cross": (np.cross, normal(4, 3), normal(4, 3, seed=1)),
    "cross broadcast": (np.cross, normal(3), normal(5, 3)),
    "cross axis": (lambda x, y: np.cross(x, y, axis=0), WIDE, WIDE + 1),
    "multi_dot": (lambda x, y: linalg.multi_dot([x, y, x]), TALL.T @ TALL, SQUARE),
    **{f"convolve {mode} {n} {k}": (lambda x, y, mode=mode: np.convolve(x, y, mode),
                                    normal(n), normal(k, seed=1))
       for mode in ("full", "same", "valid") for n, k in ((6, 3), (3, 6), (5, 4))},
    **{f"correlate {mode} {n} {k}": (lambda x, y, mode=mode: np.correlate(x, y, mode),
                                     normal(n), normal(k, seed=1))
       for mode in ("full", "same", "valid") for n, k in ((6, 3), (3, 6), (4, 7))},
    "inv": (linalg.inv, STACK), "solve": (linalg.solve, SYMMETRIC, normal(4)),
    "solve matrix": (linalg.solve, SYMMETRIC, normal(4, 2)),
    "solve broadcast": (linalg.solve, STACK, normal(1, 3, 2)),
    "det": (linalg.det, STACK), "slogdet": (lambda x: linalg.slogdet(x)[1], SYMMETRIC),
    "cholesky": (lambda x: linalg.cholesky((x + x.T) / 2), SYMMETRIC),
    "cholesky of a triangle": (linalg.cholesky, ONE_SIDED), "cholesky of the upper": (
        lambda x: linalg.cholesky(x, upper=True), ONE_SIDED),
    "qr": (lambda x: tuple(linalg.qr(x)), TALL), "qr r": (
        lambda x: linalg.qr(x, "r"), SQUARE),
    "qr wide": (lambda x: tuple(linalg.qr(x)), WIDE), "qr wide stack": (
        lambda x: tuple(linalg.qr(x, "complete")), STACK[:, :2]),
    "pinv tolerance": (lambda x: linalg.pinv(x, 1e-9), TALL), "pinv rank": (
        lambda x, y: linalg.pinv(x @ y, rtol=1e-9), normal(5, 2), normal(2, 4)),
    "eigh": (lambda x: linalg.eigh(x)[0], SYMMETRIC), "eigh vectors": (
        lambda x: linalg.eigh(x)[1] ** 2, SYMMETRIC),
    "eigh upper": (lambda x: linalg.eigh(x, "U")[0], SQUARE),
    "svd values": (lambda x: linalg.svd(x, compute_uv=False), WIDE),
    **{f"svd {len(x)}": (lambda x: _of_svd(*linalg.svd(x, full_matrices=False)), x)
       for x in (TALL, WIDE)},
    "svd hermitian": (lambda x: _of_svd(*linalg.svd(x, hermitian=True)), MIXED),
    "svd hermitian values": (lambda x: linalg.svd(
        x, compute_uv=False, hermitian=True), MIXED),
    "pinv hermitian": (lambda x: linalg.pinv(x, hermitian=True), MIXED),
    "pinv hermitian rank": (lambda x: linalg.pinv(x @ x.T, 1e-9, True), TALL),
    "rank hermitian": (lambda x: linalg.matrix_rank(x, hermitian=True), MIXED),
    "pinv tall": (linalg.pinv, TALL), "pinv wide": (linalg.pinv, WIDE),
    "lstsq": (lambda x, y: linalg.lstsq(x, y, rcond=None)[:2], TALL, normal(5)),
    "lstsq values": (lambda x, y: linalg.lstsq(x, y, rcond=None)[3], TALL, normal(5)),
    "matrix_power": (lambda x: linalg.matrix_power(x, 5), SQUARE),
    "matrix_power -2": (lambda x: linalg.matrix_power(x, -2), SQUARE),
    "matrix_power 0": (lambda x: linalg.matrix_power(x, 0), SQUARE),
    **{f"vector norm {o}": (lambda x, o=o: linalg.norm(x, o, axis=1), WIDE)
       for o in (None, 0, 1, 2, 3, np.inf, -np.inf)},
    **{f"matrix norm {o}": (lambda x, o=o: linalg.norm(x, o), WIDE)
       for o in (None, "fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf)},
    "norm axes": (lambda x: linalg.norm(x, axis=(0, 2), keepdims=True), STACK),
    "cond": (linalg.cond, SQUARE), "matrix_rank": (linalg.matrix_rank, WIDE),
    "tensorinv": (lambda x: linalg.tensorinv(x, 1), normal(6, 2, 3)),
    "tensorsolve": (linalg.tensorsolve, normal(2, 3, 6), normal(2, 3)),
    "polyval": (np.polyval, normal(3), normal(5)), "poly": (np.poly, normal(4)),
    "polyadd": (np.polyadd, normal(3), normal(5)), "polysub": (
        np.polysub, normal(4), normal(2)),
    "polymul": (np.polymul, normal(4), normal(2)),
    "polyder": (lambda p: np.polyder(p, 2), normal(5)), "polyint": (
        lambda p: np.polyint(p, 2, [1, 2]), normal(4)),
    "fftshift": (np.fft.fftshift, WIDE), "ifftshift": (
        lambda x: np.fft.ifftshift(x, 1), TALL),
}


def _of_svd(u: Any, s: Any, vh: Any) -> Any:
    """What does not depend on the signs of the vectors."""
    return (u * s**2) @ vh * np.sum(u[:, :1] ** 4) * np.sum(vh[:1] ** 4)


@pytest.mark.parametrize("name", CASES)
def test_as_numpy(name):
    check(*CASES[name])


SECOND = ("einsum ij,jk,kl->il", "inv", "solve", "det", "cholesky", "qr", "eigh",
          "eigh vectors", "svd 5", "svd 3", "pinv tall", "matrix norm nuc", "qr wide",
          "pinv rank", "svd hermitian", "pinv hermitian")


@pytest.mark.parametrize("name", SECOND)
def test_second_derivatives(name):
    """The gradient's own gradient, beside differences of the gradient."""
    function, *args = CASES[name]

    def loss(*x):
        found = function(*x)
        return sum((y * y * y).sum() for y in (found if isinstance(found, tuple) else (
            found,)))

    gradient = nf.grad(loss, argnums=tuple(range(len(args))))
    rng = np.random.default_rng(3)
    moves = [rng.normal(size=a.shape) for a in args]
    weights = [rng.normal(size=a.shape) for a in args]

    def of_gradient(*x):
        return sum((g * w).sum() for g, w in zip(gradient(*x), weights, strict=True))

    found = nf.grad(of_gradient, argnums=tuple(range(len(args))))(*args)
    exact = sum(float((g * m).sum()) for g, m in zip(found, moves, strict=True))
    ends = [float(of_gradient(*(a + s * m for a, m in zip(args, moves, strict=True))))
            for s in (1e-5, -1e-5)]
    np.testing.assert_allclose(exact, (ends[0] - ends[1]) / 2e-5, 2e-5)


@pytest.mark.parametrize(("call", "words"), [
    (lambda x: linalg.inv(x), "expected square"), (lambda x: linalg.svd(x),
                                                   "full_matrices"),
    (lambda x: linalg.qr(x, "complete"), "'reduced' or 'r'"),
    (lambda x: linalg.svd(x, hermitian=True), "square"),
    (lambda x: linalg.pinv(x, hermitian=True), "square"),
    (lambda x: linalg.eig(x), "square"),
    (lambda x: linalg.pinv(x, [1e-3]), "one number"),
    (lambda x: np.einsum("ij,ij,i->", x, x), "names 3 operands"),
    (lambda x: np.einsum("ijk->", x), "does not fit"),
    (lambda x: np.tensordot(x, x, 1), "axes"),
], ids=["inv", "svd", "qr", "hermitian svd", "hermitian pinv", "eig", "pinv",
         "operands", "labels", "tensordot"])
def test_refusals_say_why(call, words):
    with pytest.raises(NbFusedError, match=words):
        call(nf.Variable(TALL, requires_grad=True))


def test_diagonals_of_hermitian_matrices_are_real():
    """What LAPACK reads, which NumPy asks."""
    x = SQUARE + 1j * SQUARE.T
    below = np.tril(x, -1)
    np.testing.assert_allclose(
        linalg.pinv(nf.Variable(x), hermitian=True).to_numpy(),
        linalg.inv(below + below.conj().T + np.diag(np.diag(SQUARE))), rtol=1e-10)


def test_equal_magnitudes_of_both_signs_have_a_gradient():
    """By eigenvalues, which differ where singular values are equal."""
    x, weights = np.diag([2.0, -2.0, 1.0]), normal(3, 3)

    def function(x):
        u, s, vh = linalg.svd((x + x.T) / 2, hermitian=True)
        return (u * s[..., None, :]) @ vh * weights

    check(function, x)
    check(lambda x: linalg.svd(x + 0j, False, hermitian=True).S, x[1:, 1:])


@pytest.mark.filterwarnings("ignore:fuse.*decorated again")
@pytest.mark.parametrize("call", [lambda x: linalg.svd(x),
                                  lambda x: linalg.qr(x, "complete")])
def test_whole_bases_without_a_gradient(call):
    for found in (call(nf.Variable(TALL)), nf.fuse(lambda x: tuple(call(x)))(TALL)):
        for one, other in zip(found, call(TALL), strict=True):
            one = one.data if isinstance(one, nf.Variable) else one
            np.testing.assert_allclose(abs(one), abs(other), 1e-9, 1e-12)
    assert type(call(nf.Variable(TALL))).__name__ == type(call(TALL)).__name__


@pytest.mark.parametrize("a", [[0.0, 0.0, 2.0, 1.0], [0.0, 0.0], [3.0, 0.0]])
def test_products_of_polynomials_leave_leading_zeros_away(a):
    a, b = np.array(a), np.array([0.0, 1.0, 2.0])
    expected = np.polymul(a, b)
    x = nf.Variable(a, requires_grad=True)
    found = np.polymul(x, b)
    np.testing.assert_array_equal(found.to_numpy(), expected)
    found.sum().backward()
    assert x.grad.shape == a.shape
    np.testing.assert_array_equal(nf.ops.polymul(a, b), expected)


def test_leading_zeros_in_a_traced_product_of_polynomials_are_an_error():
    fused, a, b = nf.fuse(np.polymul), np.array([3.0, 0.0]), np.array([1.0, 2.0])
    np.testing.assert_array_equal(fused(a, b), np.polymul(a, b))
    with pytest.raises(ShapeError, match="a leading coefficient is 0"):
        fused(a, b[::-1] * [1.0, 0.0] - [2.0, 0.0])


@pytest.mark.parametrize("within", [lambda f: f, nf.fuse, lambda f: lambda x: nf.vmap(
    f)(x[None])], ids=["eager", "fuse", "vmap"])
def test_no_gradient_of_a_tolerance_that_cuts_off_more_than_rounding(within):
    x = np.diag([4.0, 2.0, 1e-3])
    np.testing.assert_allclose(linalg.pinv(nf.Variable(x), 0.1).to_numpy(),
                               linalg.pinv(x, 0.1), atol=1e-12)
    with pytest.raises(linalg.LinAlgError, match=r"the singular value 0\.001"):
        within(nf.grad(lambda x: linalg.pinv(x, 0.1).sum()))(x)
