"""Matrices and quaternions in kernels and plain Python, against NumPy and SciPy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.transform import Rotation, Slerp

import nbfused as nf
from nbfused.errors import ScalarSyntaxError
from tests.refusal import refused
from tests.variants import sampled

RNG = np.random.default_rng(0)
TURN = nf.quat_from_axis_angle(nf.vec3(0.0, 0.6, 0.8), 0.7)
UNIT = nf.mat22(1, 0, 0, 1)

vectors, matrices = nf.DiffView[nf.vec3], nf.DiffView[nf.mat33]
quaternions = nf.DiffView[nf.quat]


@nf.rawkernel
def algebra(a: matrices, v: vectors, out: matrices, far: vectors):
    """Every product and function of matrices."""
    i = nf.grid(1)
    b = nf.transpose(a[i]) @ a[i] + nf.diagonal(v[i])
    b[0, 1] = v[i].x
    b[2] = b[1] - v[i]
    out[i] = nf.inverse(b) @ nf.outer(v[i], b[0]) / 2.0 - a[i] * nf.determinant(b)
    far[i] = v[i] @ b + nf.matrix_from_cols(v[i], b[1], v[i].zyx) @ v[i]


def algebra_reference(a, v):
    out, far = np.empty_like(a), np.empty_like(v)
    for i in range(len(a)):
        b = a[i].T @ a[i] + np.diag(v[i])
        b[0, 1] = v[i, 0]
        b[2] = b[1] - v[i]
        out[i] = np.linalg.solve(b, np.outer(v[i], b[0])) / 2 - a[i] * np.linalg.det(b)
        far[i] = v[i] @ b + np.stack([v[i], b[1], v[i, ::-1]], axis=1) @ v[i]
    return out, far


@pytest.mark.parametrize("order", sampled([1, 2], 1))
def test_matrices(order, device):
    a, v = RNG.standard_normal((3, 3, 3)), RNG.standard_normal((3, 3))
    op = algebra.as_op(outputs={"out": "a", "far": "v"}, grid=1,
                       block=lambda a, **_: len(a))

    def place(x):
        return nf.array(x, device=device)

    for found, expected in zip(op(place(a), place(v)), algebra_reference(a, v),
                               strict=True):
        np.testing.assert_allclose(nf.to_numpy(found), expected, rtol=1e-10)
    nf.testing.gradcheck(op, (a[:1], v[:1]), order=order, place=place)


@nf.rawkernel(differentiable=True)
def turned(axis: vectors, angle, v: vectors, q: quaternions, w: vectors):
    i = nf.grid(1)
    p = nf.quat_from_axis_angle(nf.normalize(axis[i]), angle[i]) * TURN
    between = nf.slerp(p, nf.quat_identity(), 0.25)
    q[i] = nf.normalize(between + 2.0 * between)
    w[i] = nf.rotate(p, v[i]) + 0.5 * nf.rotate_inv(between, v[i])
    w[i] += nf.quat_to_matrix(p) @ v[i] - nf.rotate(nf.inverse(p * 2.0) * 2.0, v[i])


def turned_reference(axis, angle, v):
    axis = axis / np.linalg.norm(axis, axis=1, keepdims=True)
    p = Rotation.from_rotvec(axis * angle[:, None]) * Rotation.from_quat(np.array(TURN))
    between = [Slerp([0, 1], Rotation.concatenate([x, Rotation.identity()]))(0.25)
               for x in p]
    q = np.array([b.as_quat() for b in between])
    w = 2 * p.apply(v) - p.inv().apply(v)
    return q, w + 0.5 * np.stack([b.inv().apply(x)
                                  for b, x in zip(between, v, strict=True)])


@pytest.mark.parametrize("order", sampled([1, 2], 1))
def test_quaternions(order, device):
    axis, v = RNG.standard_normal((2, 4, 3))
    angle = np.array([0.3, 1.5, -2.0, 4.0])
    op = turned.as_op(outputs={"q": lambda axis, angle, v: ((len(v), 4), v.dtype),
                               "w": "v"}, grid=1, block=lambda v, **_: len(v))

    def place(x):
        return nf.array(x, device=device)

    q, w = map(nf.to_numpy, op(place(axis), place(angle), place(v)))
    expected, far = turned_reference(axis, angle, v)
    np.testing.assert_allclose(q * np.sign(q[:, 3:]), expected * np.sign(
        expected[:, 3:]), atol=1e-12)
    np.testing.assert_allclose(w, far, atol=1e-12)
    nf.testing.gradcheck(op, (axis[:2], angle[:2], v[:2]), order=order, place=place)


def test_the_same_in_plain_python():
    a, v = nf.mat33(RNG.standard_normal((3, 3))), nf.vec3(1.0, -2.0, 0.5)
    m = np.asarray(a)
    np.testing.assert_allclose(a @ v, m @ v)
    np.testing.assert_allclose(v @ a, np.asarray(v) @ m)
    np.testing.assert_allclose(nf.inverse(a) @ a, np.eye(3), atol=1e-12)
    np.testing.assert_allclose(nf.determinant(a), np.linalg.det(m))
    big = nf.mat44(RNG.standard_normal((4, 4)))
    np.testing.assert_allclose(nf.determinant(big), np.linalg.det(np.asarray(big)))
    np.testing.assert_allclose(nf.inverse(big), np.linalg.inv(np.asarray(big)))
    np.testing.assert_allclose(nf.inverse(nf.mat22(1, 2, 3, 4)),
                               np.linalg.inv([[1, 2], [3, 4]]))
    assert a[1] == nf.vec3(m[1])
    assert a[1, 2] == m[1, 2]
    assert nf.matrix_from_rows(nf.vec2(1, 2), nf.vec2(3, 4)) == nf.mat22(1, 2, 3, 4)
    assert nf.transpose(nf.mat22(1, 2, 3, 4)).m01 == 3
    assert nf.conjugate(nf.quat(1, 2, 3, 4)) == nf.quat(-1, -2, -3, 4)
    assert nf.vec3(2.0, 3.0, 4.0).xz == nf.vec2(2.0, 4.0)
    assert np.float64(2.0) * v == nf.vec3(2.0, -4.0, 1.0)
    assert nf.exp(nf.vec2(0.0, 0.0)) == nf.vec2(1.0, 1.0)
    q = nf.quat_from_axis_angle(nf.vec3(0.0, 0.0, 1.0), 1e-5)
    close = nf.slerp(q, nf.quat_identity(), 0.5)
    np.testing.assert_allclose(close, nf.quat_from_axis_angle(
        nf.vec3(0.0, 0.0, 1.0), 5e-6), atol=1e-15)
    with pytest.raises(TypeError, match="A @ B"):
        a * a
    with pytest.raises(TypeError, match=r"nf\.rotate"):
        q * v
    with pytest.raises(TypeError, match="no order"):
        max(v, v)


@nf.rawkernel
def rows_of_four(x):
    i = nf.grid(1)
    m = nf.mat44(x[i])
    for k in range(4):  # by a variable
        m[k, 3 - k] = float(k)
        m[k] += nf.vec4(0.0, 0.0, 0.0, m[k, 0])
    m.m20 = -1.0
    v = abs(m[0])
    v.w = nf.dot(v, m[i % 4])
    v[i % 2] *= 2.0
    m[3] = v
    x[i] = nf.transpose(m)


def test_variables_are_changed_by_component(device):
    x = RNG.standard_normal((2, 4, 4))
    expected = x.copy()
    for i in range(2):
        m = x[i].copy()
        for k in range(4):
            m[k, 3 - k] = k
            m[k, 3] += m[k, 0]
        m[2, 0] = -1
        v = np.abs(m[0])
        v[3] = v @ m[i]
        v[i] *= 2
        m[3] = v
        expected[i] = m.T
    found = nf.array(x, device=device)
    rows_of_four[1, 2](found)
    np.testing.assert_allclose(nf.to_numpy(found), expected, rtol=1e-14)


def product(x):
    x[0] = UNIT * UNIT


def scaled(x):
    x[0] = UNIT + 1.0


def of_another_size(x):
    x[0] = UNIT @ nf.vec3(1.0, 2.0, 3.0)


def mixed(x):
    q = nf.quat_identity()
    if x[0, 0] > 1:
        q = nf.vec4(0.0, 0.0, 0.0, 1.0)
    x[0] = q


def carried(x):
    q = nf.quat_identity()
    for _ in range(x.shape[0]):
        q = nf.vec4(0.0, 0.0, 0.0, 1.0)
    x[0] = q


def of_vectors(x):
    x[0] = nf.mat22(nf.vec2(1.0, 2.0), nf.vec2(1.0, 2.0))


def numpys(x):
    x[0, 0] = nf.length(np.exp(nf.vec2(1.0, 2.0)))


def unknown(x):
    x[0, 0] = nf.vec2(1.0, 2.0).q


def no_row(x):
    x[0] = nf.vec3(x[0, :2], 1.0)


@pytest.mark.parametrize(("kernel", "words"), [
    (product, ("mat22 * mat22 is not defined", "A @ B")),
    (scaled, ("mat22 + a number",)), (of_another_size, ("mat22 @ vec3",)),
    (mixed, ("'q' as a vec4 and as a quat",)), (carried, ("'q'", "a quat")),
    (of_vectors, ("mat22() takes 4 numbers", "matrix_from_rows", "vec2, vec2")),
    (numpys, ("does not take a vec2", "nf.exp(v)")), (unknown, ("no component 'q'",)),
    (no_row, ("expected a number here, got a part of an array",))])
def test_refused(kernel, words):
    with refused(ScalarSyntaxError, "test_rawkernel_composites.py", *words):
        nf.rawkernel(kernel)[1, 1](np.ones((3, 2, 2) if kernel in (
            product, scaled, of_vectors) else (3, 2)))
